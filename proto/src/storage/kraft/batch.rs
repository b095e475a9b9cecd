//! pure: the batches of a metadata log and of its snapshots, read from bytes that are all there.
//!
//! KRaft writes them without compression and without producers, and all records of one at one time. Others are refused, as Kafka refuses
//! them.

use crate::error::{DecodeError, Malformed};
use crate::reader::Reader;
use crate::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES, MAGIC_V2};
use crate::records::plain::CONTROL;
use crate::records::record::Record;

const WHAT: &str = "metadata batch";

/// A batch whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Its header.
    pub header: BatchHeader,
    records: &'a [u8],
}

/// A record of a batch: control records have a key, the others none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key of a control record.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`; what follows it is not looked at.
    ///
    /// # Errors
    /// When it is cut off, has a wrong checksum, or is none that KRaft writes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(WHAT, bytes);
        let header = BatchHeader::parse(&r.read_array::<HEADER_BYTES>()?);
        if header.size_bytes() < HEADER_BYTES {
            return Err(DecodeError::out_of_bounds(WHAT, 8, header.batch_length.into(), i32::MAX.into()));
        }
        if header.magic != MAGIC_V2 {
            return Err(DecodeError { what: WHAT, at: 16, why: Malformed::Version { found: header.magic.into() } });
        }
        let records = r.read_slice(header.size_bytes() - HEADER_BYTES)?;
        let computed = crc32c::crc32c(&bytes[CRC_FROM..header.size_bytes()]);
        if computed != header.crc {
            return Err(DecodeError { what: WHAT, at: 17, why: Malformed::Checksum { stored: header.crc, computed } });
        }
        let wrong = |at, rule| Err(DecodeError::rule(WHAT, at, rule));
        if header.attributes & !CONTROL != 0 || header.has_producer() {
            return wrong(CRC_FROM, "a metadata batch is neither compressed nor transactional and has no producer");
        }
        if header.base_offset < 0 || header.next_offset() == i64::MAX {
            return wrong(0, "the offsets are none that a log can hold");
        }
        if header.record_count < 1 || header.last_offset_delta != header.record_count - 1 {
            return wrong(HEADER_BYTES - 4, "the offsets do not fit the number of records");
        }
        if header.base_timestamp != header.max_timestamp {
            return wrong(27, "all records of a metadata batch have one time");
        }
        Ok(Self { header, records })
    }

    /// The records in order; ends after the first error.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'a>, DecodeError>> + use<'a> {
        let (mut reader, control) = (Reader::new(WHAT, self.records), self.header.is_control());
        let count = self.header.record_count;
        let mut next = 0;
        core::iter::from_fn(move || {
            if next == count {
                return None;
            }
            let entry = entry(&mut reader, next, control);
            next = if entry.is_ok() { next + 1 } else { count };
            // The last record ends the batch.
            Some(entry.and_then(|entry| if next == count { reader.finish().map(|()| entry) } else { Ok(entry) }))
        })
    }
}

fn entry<'a>(r: &mut Reader<'a>, delta: i32, control: bool) -> Result<Entry<'a>, DecodeError> {
    let at = *r;
    let wrong = |rule| Err(at.error(Malformed::Rule(rule)));
    let record = Record::decode(r)?;
    if record.offset_delta != delta || record.timestamp_delta != 0 || !record.headers.is_empty() {
        return wrong("records are numbered one by one, at one time and without headers");
    }
    if record.key.is_some() != control {
        return wrong("control records have a key, others none");
    }
    match record.value {
        Some(value) => Ok(Entry { key: record.key, value }),
        None => Err(at.error(Malformed::UnexpectedNull)),
    }
}
