//! pure: the transaction index, which lists the aborted transactions that ended in a segment.
//!
//! ```text
//! i16 version 0 | i64 producerId | i64 firstOffset | i64 lastOffset | i64 lastStableOffset       34 bytes an entry
//! ```
//! `lastOffset` is that of the abort marker and strictly ascends. The file exists only once there was an entry.

use super::offset_index::{long, partition_point};
use crate::error::{DecodeError, Malformed};

const WHAT: &str = "transaction index";
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 34;
const VERSION: i16 = 0;

/// An aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTxn {
    /// The producer.
    pub producer_id: i64,
    /// Its first record in this partition.
    pub first_offset: i64,
    /// The abort marker.
    pub last_offset: i64,
    /// Where the first transaction of another producer was still open, else one after the marker.
    pub last_stable_offset: i64,
}

impl AbortedTxn {
    /// The entry's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..2].copy_from_slice(&VERSION.to_be_bytes());
        out[2..10].copy_from_slice(&self.producer_id.to_be_bytes());
        out[10..18].copy_from_slice(&self.first_offset.to_be_bytes());
        out[18..26].copy_from_slice(&self.last_offset.to_be_bytes());
        out[26..].copy_from_slice(&self.last_stable_offset.to_be_bytes());
        out
    }

    fn read(chunk: &[u8]) -> Self {
        Self {
            producer_id: long(chunk, 2),
            first_offset: long(chunk, 10),
            last_offset: long(chunk, 18),
            last_stable_offset: long(chunk, 26),
        }
    }
}

/// A checked index.
#[derive(Debug, Clone, Copy)]
pub struct TxnIndex<'a> {
    bytes: &'a [u8],
}

impl<'a> TxnIndex<'a> {
    /// Checks that `bytes` are entries of the segment at `base_offset`, in ascending order. A torn entry at the end does not count, as
    /// in stock Kafka.
    ///
    /// # Errors
    /// When an entry has another version, ends before the segment or not after the entry before it.
    pub fn parse(bytes: &'a [u8], base_offset: i64) -> Result<Self, DecodeError> {
        let mut ends_min = base_offset;
        for (i, chunk) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
            let at = i * ENTRY_BYTES;
            let version = i16::from_be_bytes([chunk[0], chunk[1]]);
            if version != VERSION {
                return Err(DecodeError { what: WHAT, at, why: Malformed::Version { found: version.into() } });
            }
            let entry = AbortedTxn::read(chunk);
            if entry.last_offset < ends_min || entry.first_offset > entry.last_offset || entry.last_offset == i64::MAX {
                return Err(DecodeError::rule(WHAT, at, "a transaction ends outside of its segment or out of order"));
            }
            ends_min = entry.last_offset + 1;
        }
        Ok(Self { bytes: &bytes[..bytes.len() / ENTRY_BYTES * ENTRY_BYTES] })
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / ENTRY_BYTES
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The entry at `i`.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<AbortedTxn> {
        self.bytes.chunks_exact(ENTRY_BYTES).nth(i).map(AbortedTxn::read)
    }

    /// Every entry, by ascending end.
    pub fn iter(&self) -> impl Iterator<Item = AbortedTxn> + use<'a> {
        self.bytes.chunks_exact(ENTRY_BYTES).map(AbortedTxn::read)
    }

    /// The transactions that a reader of `fetch_offset..upper` must leave out, and whether later segments need not be asked.
    pub fn collect(&self, fetch_offset: i64, upper: i64) -> (impl Iterator<Item = AbortedTxn> + use<'a>, bool) {
        let complete = self.iter().any(|entry| entry.last_stable_offset >= upper);
        let in_range = move |entry: &AbortedTxn| entry.last_offset >= fetch_offset && entry.first_offset < upper;
        (self.iter().filter(in_range), complete)
    }

    /// Bytes of the index that stay when the segment is cut at `offset`.
    #[must_use]
    pub fn bytes_below(&self, offset: i64) -> usize {
        partition_point(self.len(), |i| self.get(i).is_some_and(|entry| entry.last_offset < offset)) * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first_offset: i64, last_offset: i64, last_stable_offset: i64) -> AbortedTxn {
        AbortedTxn { producer_id: 7, first_offset, last_offset, last_stable_offset }
    }

    #[test]
    fn entries_are_read_back_and_a_torn_one_does_not_count() {
        let all = [entry(5, 9, 10), entry(3, 12, 11)];
        let mut bytes: Vec<u8> = all.iter().flat_map(AbortedTxn::encode).collect();
        bytes.extend([0; 33]);
        let index = TxnIndex::parse(&bytes, 4).unwrap();
        assert_eq!(index.iter().collect::<Vec<_>>(), all);
        assert_eq!([9, 10, 13].map(|offset| index.bytes_below(offset)), [0, 34, 68]);
        let (found, complete) = index.collect(10, 11);
        assert_eq!((found.collect::<Vec<_>>(), complete), (vec![all[1]], true));
    }

    #[test]
    fn another_version_or_order_is_refused() {
        let mut bytes: Vec<u8> = [entry(5, 9, 10), entry(3, 9, 11)].iter().flat_map(AbortedTxn::encode).collect();
        assert!(TxnIndex::parse(&bytes, 4).is_err());
        assert!(TxnIndex::parse(&bytes[..34], 10).is_err());
        bytes[1] = 1;
        assert!(TxnIndex::parse(&bytes[..34], 4).is_err());
    }
}
