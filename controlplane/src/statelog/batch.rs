//! pure: the framing of the state log: Kafka record batches of magic 2, so that every Kafka tool can read it.
//!
//! One commit is one batch: its CRC makes it whole or absent. Keys and values are those of `record.rs`.

use crate::limits::STATE_BATCH_BYTES_MAX;
use twinlog_proto::error::{DecodeError, Malformed};
use twinlog_proto::reader::Reader;
use twinlog_proto::records::plain;

/// A record: its key, and its value or the absence of one (a tombstone).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// Never empty: it starts with the record type.
    pub key: Vec<u8>,
    /// None removes what the key names.
    pub value: Option<Vec<u8>>,
}

/// The bytes before `batchLength` counts.
const PREFIX_BYTES: usize = 12;
/// The whole header.
pub const HEADER_BYTES: usize = 61;
/// The CRC covers the batch from here on.
const CRC_FROM: usize = 21;
const MAGIC: i8 = 2;
const BATCH: &str = "state log batch";

/// Bytes of a record besides its key and value, at most: attributes, four varints of five bytes, headers, timestamp.
const RECORD_BYTES_MORE: usize = 23;

/// Bytes that a batch of `records` takes at most.
#[must_use]
pub fn size_bytes_max(records: &[KeyValue]) -> usize {
    let size = |record: &KeyValue| RECORD_BYTES_MORE + record.key.len() + record.value.as_ref().map_or(0, Vec::len);
    HEADER_BYTES + records.iter().map(size).sum::<usize>()
}

/// Appends one batch that holds `records` at `base_offset`, stamped `now_ms` (milliseconds since 1970).
///
/// # Panics
/// When there are no records, or more than a batch can count.
pub fn encode(out: &mut Vec<u8>, base_offset: i64, now_ms: i64, records: &[KeyValue]) {
    let records = records.iter().map(|KeyValue { key, value }| (Some(&key[..]), value.as_deref()));
    plain::encode(out, plain::header(base_offset, 0, 0, now_ms), records);
}

/// A batch that is whole; its records are decoded as they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The offset of its first record.
    pub base_offset: i64,
    /// The offset after its last record.
    pub next_offset: i64,
    /// Bytes that it takes in the log.
    pub size_bytes: usize,
    records: &'a [u8],
}

/// Reads the batch at the start of `bytes`.
///
/// # Errors
/// When it is cut off, has a wrong CRC, or its header breaks the format; nothing after it is looked at.
pub fn decode(bytes: &[u8]) -> Result<Batch<'_>, DecodeError> {
    let size_bytes = check(bytes)?;
    let (header, records) = bytes[..size_bytes].split_at(HEADER_BYTES);
    let mut r = Reader::new(BATCH, header);
    let base_offset = r.read_i64()?;
    r.read_slice(CRC_FROM - 8)?;
    let attributes = r.read_i16()?;
    if attributes != 0 {
        return Err(DecodeError::rule(BATCH, CRC_FROM, "the state log is neither compressed nor transactional"));
    }
    let last_delta = r.read_i32()?;
    r.read_slice(HEADER_BYTES - CRC_FROM - 2 - 4 - 4)?;
    let count = r.read_i32()?;
    if count < 1 || last_delta != count - 1 || base_offset < 0 || base_offset > i64::MAX - i64::from(count) {
        return Err(DecodeError::rule(BATCH, HEADER_BYTES - 4, "the offsets do not fit the number of records"));
    }
    Ok(Batch { base_offset, next_offset: base_offset + i64::from(count), size_bytes, records })
}

impl Batch<'_> {
    /// Gives every record to `take`, in order and with its offset.
    ///
    /// # Errors
    /// When a record breaks the format, or `take` refuses it, with its offset; the rest is not looked at then.
    pub fn each(
        &self,
        mut take: impl FnMut(i64, &KeyValue) -> Result<(), DecodeError>,
    ) -> Result<(), (i64, DecodeError)> {
        let mut r = Reader::new(BATCH, self.records);
        let mut record = KeyValue { key: Vec::new(), value: None };
        for (delta, offset) in (0..).zip(self.base_offset..self.next_offset) {
            decode_record(&mut r, delta, &mut record).map_err(|cause| (offset, cause))?;
            take(offset, &record).map_err(|cause| (offset, cause))?;
        }
        r.finish().map_err(|cause| (self.next_offset, cause))
    }
}

/// Size in bytes of the batch that starts with `header`, as far as it is believed.
///
/// # Errors
/// When the header is cut off, or claims a size that no batch has.
pub fn claimed_size(header: &[u8]) -> Result<usize, DecodeError> {
    let mut r = Reader::new(BATCH, header);
    r.read_slice(8)?;
    let length = r.read_i32()?;
    let length_max = (STATE_BATCH_BYTES_MAX - PREFIX_BYTES) as i64;
    match usize::try_from(length) {
        Ok(n) if n >= HEADER_BYTES - PREFIX_BYTES && n as i64 <= length_max => Ok(PREFIX_BYTES + n),
        _ => Err(DecodeError::out_of_bounds(BATCH, 8, i64::from(length), length_max)),
    }
}

/// Checks size, magic and CRC of the batch at the start of `bytes`; returns its size in bytes.
///
/// # Errors
/// As [`decode`].
pub fn check(bytes: &[u8]) -> Result<usize, DecodeError> {
    let size_bytes = claimed_size(bytes)?;
    let mut r = Reader::new(BATCH, bytes);
    let mut whole = r;
    whole.read_slice(size_bytes)?;
    r.read_slice(PREFIX_BYTES)?;
    r.read_i32()?;
    let magic = r.read_i8()?;
    if magic != MAGIC {
        return Err(DecodeError { what: BATCH, at: 16, why: Malformed::Version { found: i32::from(magic) } });
    }
    let stored = r.read_u32()?;
    let computed = crc32c::crc32c(&bytes[CRC_FROM..size_bytes]);
    if stored != computed {
        return Err(DecodeError { what: BATCH, at: 17, why: Malformed::Checksum { stored, computed } });
    }
    Ok(size_bytes)
}

/// Decodes into `out`, whose memory is used again.
fn decode_record(r: &mut Reader<'_>, delta: i32, out: &mut KeyValue) -> Result<(), DecodeError> {
    let found = r.read_varint()?;
    let length = length(r, found)?;
    let mut record = Reader::new("state log record", r.read_slice(length)?);
    record.read_i8()?;
    record.read_varlong()?;
    if record.read_varint()? != delta {
        return Err(record.error(Malformed::Rule("records are numbered one by one")));
    }
    let Some(key) = read_bytes(&mut record)? else {
        return Err(record.error(Malformed::UnexpectedNull));
    };
    out.key.clear();
    out.key.extend_from_slice(key);
    match read_bytes(&mut record)? {
        None => out.value = None,
        Some(value) => {
            let into = out.value.get_or_insert_default();
            into.clear();
            into.extend_from_slice(value);
        }
    }
    if record.read_varint()? != 0 {
        return Err(record.error(Malformed::Rule("records of the state log have no headers")));
    }
    record.finish()
}

fn read_bytes<'a>(r: &mut Reader<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    let found = r.read_varint()?;
    if found == -1 {
        return Ok(None);
    }
    let length = length(r, found)?;
    r.read_slice(length).map(Some)
}

fn length(r: &Reader<'_>, found: i32) -> Result<usize, DecodeError> {
    usize::try_from(found)
        .map_err(|_negative| r.error(Malformed::OutOfBounds { found: i64::from(found), max: r.remaining() as i64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<KeyValue> {
        vec![
            KeyValue { key: vec![0, 1, 7], value: Some(vec![0, 0, 9]) },
            KeyValue { key: vec![0, 2], value: None },
            KeyValue { key: vec![0, 3], value: Some(vec![0; 300]) },
        ]
    }

    #[test]
    fn a_batch_is_read_back_with_its_offsets() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 41, 1_700_000_000_000, &records());
        let size_bytes = bytes.len();
        bytes.extend_from_slice(b"what follows is not looked at");
        let batch = decode(&bytes).unwrap();
        assert_eq!((batch.base_offset, batch.next_offset, batch.size_bytes), (41, 44, size_bytes));
        let mut found = Vec::new();
        batch
            .each(|offset, record| {
                found.push((offset, record.clone()));
                Ok(())
            })
            .unwrap();
        assert_eq!(found, (41..).zip(records()).collect::<Vec<_>>());
    }

    #[test]
    fn every_proper_prefix_and_every_flipped_bit_after_the_offset_is_refused() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 0, 1, &records());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "prefix of {length} bytes");
        }
        // Base offset and leader epoch are outside of the checksum; replay compares the offset with the expected one.
        for at in (8..12).chain(16..bytes.len()) {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(decode(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
