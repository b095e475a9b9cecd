//! pure: a producer snapshot, the state of every producer at an offset.
//!
//! ```text
//! i16 version 1 | u32 crc (CRC-32C of all that follows) | i32 count, then 46 bytes each:
//! i64 producerId | i16 epoch | i32 lastSequence | i64 lastOffset | i32 offsetDelta | i64 timestamp | i32 coordinatorEpoch
//! | i64 currentTxnFirstOffset
//! ```
//! The order of entries means nothing: stock Kafka writes them as its hash map has them, we write them by producer id.

use crate::error::{DecodeError, Malformed};
use crate::reader::Reader;
use crate::writer::Writer;

const WHAT: &str = "producer snapshot";
const VERSION: i16 = 1;
const HEADER_BYTES: usize = 10;
const CRC_FROM: usize = 6;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 46;
/// No sequence, offset, coordinator epoch or transaction.
pub const NONE: i32 = -1;

/// What is known about one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerEntry {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// Last sequence of its last batch, -1 none.
    pub last_sequence: i32,
    /// Last offset of its last batch, -1 none.
    pub last_offset: i64,
    /// Last offset of its last batch less the first one, 0 none.
    pub offset_delta: i32,
    /// Largest timestamp of its last batch or marker, ms.
    pub timestamp: i64,
    /// Epoch of the coordinator that wrote its last marker, -1 none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction, -1 none.
    pub txn_first_offset: i64,
}

impl ProducerEntry {
    /// Whether a transaction is open.
    #[must_use]
    pub fn has_open_txn(&self) -> bool {
        self.txn_first_offset >= 0
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            producer_id: r.read_i64()?,
            epoch: r.read_i16()?,
            last_sequence: r.read_i32()?,
            last_offset: r.read_i64()?,
            offset_delta: r.read_i32()?,
            timestamp: r.read_i64()?,
            coordinator_epoch: r.read_i32()?,
            txn_first_offset: r.read_i64()?,
        })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.write_i64(self.producer_id);
        w.write_i16(self.epoch);
        w.write_i32(self.last_sequence);
        w.write_i64(self.last_offset);
        w.write_i32(self.offset_delta);
        w.write_i64(self.timestamp);
        w.write_i32(self.coordinator_epoch);
        w.write_i64(self.txn_first_offset);
    }
}

/// The file's bytes.
///
/// # Panics
/// With 2^31 entries or more, which no limit allows.
#[must_use]
pub fn encode(entries: &[ProducerEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    let mut w = Writer::new(&mut out);
    w.write_i16(VERSION);
    w.write_u32(0);
    w.write_i32(i32::try_from(entries.len()).expect("producers are far below 2^31"));
    for entry in entries {
        entry.write(&mut w);
    }
    let crc = crc32c::crc32c(&out[CRC_FROM..]);
    out[2..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    out
}

/// Checks a file and gives its entries.
///
/// # Errors
/// When version, checksum or size are wrong: the file is to be deleted and the next older one tried.
pub fn decode(bytes: &[u8]) -> Result<Vec<ProducerEntry>, DecodeError> {
    let mut r = Reader::new(WHAT, bytes);
    let version = r.read_i16()?;
    if version != VERSION {
        return Err(DecodeError { what: WHAT, at: 0, why: Malformed::Version { found: version.into() } });
    }
    let stored = r.read_u32()?;
    let computed = crc32c::crc32c(r.rest());
    if stored != computed {
        return Err(DecodeError { what: WHAT, at: 2, why: Malformed::Checksum { stored, computed } });
    }
    let count = r.read_i32()?;
    let max = r.remaining() / ENTRY_BYTES;
    let count = match usize::try_from(count) {
        Ok(count) if count <= max => count,
        _ => return Err(DecodeError::out_of_bounds(WHAT, CRC_FROM, count.into(), max as i64)),
    };
    let entries = (0..count).map(|_| ProducerEntry::read(&mut r)).collect::<Result<_, _>>()?;
    r.finish()?;
    Ok(entries)
}
