//! pure: single records of an uncompressed batch, as transaction markers and dumps need them.
//!
//! ```text
//! varint length | i8 attributes | varlong timestampDelta | varint offsetDelta | varint keyLen, key | varint valueLen, value
//! | varint headerCount, each: varint keyLen, key (UTF-8) | varint valueLen, value          lengths of -1 are null
//! ```

use crate::error::{DecodeError, Malformed};
use crate::reader::Reader;

/// The shortest record, its length field included.
const RECORD_BYTES_MIN: usize = 7;
/// The shortest header of a record.
const RECORD_HEADER_BYTES_MIN: usize = 2;

/// One record, borrowed from its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Unused by Kafka, 0.
    pub attributes: i8,
    /// Added to the batch's base timestamp, ms.
    pub timestamp_delta: i64,
    /// Added to the batch's base offset.
    pub offset_delta: i32,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in their order.
    pub headers: RecordHeaders<'a>,
}

/// The headers of a record; checked already, so that walking them cannot fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeaders<'a> {
    count: u32,
    bytes: &'a [u8],
}

/// One header of a record. Keys may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// The key.
    pub key: &'a str,
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// Reads the next record.
    ///
    /// # Errors
    /// When the bytes are no record. Nothing is allocated.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let at = r.position();
        let length = r.read_varint()?;
        let length = usize::try_from(length)
            .map_err(|_cause| DecodeError::out_of_bounds("record length", at, length.into(), i64::from(i32::MAX)))?;
        let mut body = Reader::new("record", r.read_slice(length)?);
        let attributes = body.read_i8()?;
        let timestamp_delta = body.read_varlong()?;
        let offset_delta = body.read_varint()?;
        let key = read_nullable(&mut body)?;
        let value = read_nullable(&mut body)?;
        let headers = RecordHeaders::decode(&mut body)?;
        body.finish()?;
        Ok(Self { attributes, timestamp_delta, offset_delta, key, value, headers })
    }
}

impl<'a> RecordHeaders<'a> {
    /// No headers.
    pub const NONE: RecordHeaders<'static> = RecordHeaders { count: 0, bytes: &[] };

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = r.read_varint()?;
        let max = r.remaining() / RECORD_HEADER_BYTES_MIN;
        let count = match u32::try_from(count) {
            Ok(count) if count as usize <= max => count,
            _ => return Err(r.error(Malformed::OutOfBounds { found: count.into(), max: max as i64 })),
        };
        let rest = r.rest();
        let start = r.position();
        for _ in 0..count {
            read_header(r)?;
        }
        Ok(Self { count, bytes: &rest[..r.position() - start] })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = RecordHeader<'a>> + use<'a> {
        let mut reader = Reader::new("record header", self.bytes);
        (0..self.count).map_while(move |_| read_header(&mut reader).ok())
    }
}

/// Walks the records of an uncompressed batch; `bytes` are those after the batch header.
///
/// Ends after `count` records, or with one error.
pub fn records(bytes: &[u8], count: i32) -> impl Iterator<Item = Result<Record<'_>, DecodeError>> {
    let mut reader = Reader::new("records", bytes);
    let mut left = usize::try_from(count).unwrap_or(0).min(bytes.len() / RECORD_BYTES_MIN + 1);
    core::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let record = Record::decode(&mut reader);
        if record.is_err() {
            left = 0;
        }
        Some(record)
    })
}

fn read_header<'a>(r: &mut Reader<'a>) -> Result<RecordHeader<'a>, DecodeError> {
    let length = r.read_varint()?;
    let Ok(length) = usize::try_from(length) else {
        return Err(r.error(Malformed::UnexpectedNull));
    };
    let key = r.read_str(length)?;
    Ok(RecordHeader { key, value: read_nullable(r)? })
}

fn read_nullable<'a>(r: &mut Reader<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    match r.read_varint()? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => r.read_slice(length).map(Some),
            Err(_negative) => Err(r.error(Malformed::OutOfBounds { found: length.into(), max: i64::from(i32::MAX) })),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::Writer;

    /// Appends one record without headers.
    fn encode_record(
        w: &mut Writer<'_>,
        timestamp_delta: i64,
        offset_delta: i32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        let mut body = Vec::with_capacity(32 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len));
        let mut inner = Writer::new(&mut body);
        inner.write_i8(0);
        inner.write_varlong(timestamp_delta);
        inner.write_varint(offset_delta);
        for part in [key, value] {
            match part {
                None => inner.write_varint(-1),
                Some(bytes) => {
                    inner.write_varint(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                    inner.write_slice(bytes);
                }
            }
        }
        inner.write_varint(0);
        w.write_varint(i32::try_from(body.len()).unwrap_or(i32::MAX));
        w.write_slice(&body);
    }

    const WITH_HEADERS: &[u8] =
        &[0x22, 0, 0x0a, 0x02, 0x02, b'k', 0x01, 0x04, 0x02, b'a', 0x02, b'1', 0x02, b'a', 0x01, 0, 0, 0];

    #[test]
    fn a_record_keeps_the_order_and_the_repeats_of_its_headers() {
        let mut bytes = WITH_HEADERS.to_vec();
        bytes.truncate(15);
        bytes[0] = 28;
        let mut reader = Reader::new("test", &bytes);
        let record = Record::decode(&mut reader).unwrap();
        reader.finish().unwrap();
        assert_eq!((record.timestamp_delta, record.offset_delta), (5, 1));
        assert_eq!((record.key, record.value), (Some(&b"k"[..]), None));
        let headers: Vec<_> = record.headers.iter().map(|h| (h.key, h.value)).collect();
        assert_eq!(headers, [("a", Some(&b"1"[..])), ("a", None)]);
    }

    #[test]
    fn bytes_after_the_last_header_are_refused() {
        assert!(Record::decode(&mut Reader::new("test", WITH_HEADERS)).is_err());
    }

    #[test]
    fn what_is_encoded_is_decoded_and_no_proper_prefix_is_taken() {
        let mut bytes = Vec::new();
        encode_record(&mut Writer::new(&mut bytes), 300, 7, Some(b"key"), None);
        encode_record(&mut Writer::new(&mut bytes), 301, 8, None, Some(b"value"));
        let all: Result<Vec<_>, _> = records(&bytes, 2).collect();
        let all = all.unwrap();
        assert_eq!((all[0].offset_delta, all[0].key, all[1].value), (7, Some(&b"key"[..]), Some(&b"value"[..])));
        for cut in 0..bytes.len() {
            assert!(records(&bytes[..cut], 2).any(|r| r.is_err()), "{cut}");
        }
    }

    #[test]
    fn a_huge_record_count_ends_with_the_bytes() {
        assert_eq!(records(&[], i32::MAX).count(), 1);
        assert_eq!(records(&[], -1).count(), 0);
    }
}
