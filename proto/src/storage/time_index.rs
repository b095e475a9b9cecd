//! pure: the time index, which tells from which offset on records may have a timestamp.
//!
//! ```text
//! i64 timestamp | i32 offset - baseOffset       12 bytes an entry; timestamps strictly ascend, offsets do not descend
//! ```
//! An entry says: the largest timestamp so far was this, in the batch that ends at this offset. The length of the file says how many
//! entries there are; a zero tail in a closed segment makes a stock broker believe that its largest timestamp is 0.

use super::offset_index::{int, long, partition_point, relative, whole_entries};
use crate::error::DecodeError;

const WHAT: &str = "time index";
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 12;
/// The timestamp of an index without entries, ms.
pub const NO_TIMESTAMP: i64 = -1;

/// An entry, its offset made absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeEntry {
    /// Largest timestamp so far, ms.
    pub timestamp: i64,
    /// Last offset of the first batch that had it.
    pub offset: i64,
}

impl TimeEntry {
    /// The entry's bytes in the index of the segment at `base_offset`.
    ///
    /// # Panics
    /// When the offset is not within 2^31 of the segment's start: the roll rules were broken.
    #[must_use]
    pub fn encode(self, base_offset: i64) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..8].copy_from_slice(&self.timestamp.to_be_bytes());
        out[8..].copy_from_slice(&relative(self.offset, base_offset).to_be_bytes());
        out
    }
}

/// A checked index.
#[derive(Debug, Clone, Copy)]
pub struct TimeIndex<'a> {
    base_offset: i64,
    bytes: &'a [u8],
}

impl<'a> TimeIndex<'a> {
    /// Checks that `bytes` are entries of the segment at `base_offset`, in ascending order.
    ///
    /// # Errors
    /// When they are not, be it a zero tail.
    pub fn parse(bytes: &'a [u8], base_offset: i64) -> Result<Self, DecodeError> {
        whole_entries(WHAT, bytes, ENTRY_BYTES)?;
        let mut last = (NO_TIMESTAMP, 0);
        for (i, chunk) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
            let (timestamp, delta) = (long(chunk, 0), int(chunk, 8));
            if timestamp <= last.0 || delta < last.1 || base_offset.checked_add(delta.into()).is_none() {
                let rule = "timestamps must ascend and offsets must not descend";
                return Err(DecodeError::rule(WHAT, i * ENTRY_BYTES, rule));
            }
            last = (timestamp, delta);
        }
        Ok(Self { base_offset, bytes })
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
    pub fn get(&self, i: usize) -> Option<TimeEntry> {
        let chunk = self.bytes.chunks_exact(ENTRY_BYTES).nth(i)?;
        Some(TimeEntry { timestamp: long(chunk, 0), offset: self.base_offset + i64::from(int(chunk, 8)) })
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<TimeEntry> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Every entry, ascending.
    pub fn iter(&self) -> impl Iterator<Item = TimeEntry> + use<'a> {
        let index = *self;
        (0..self.len()).map_while(move |i| index.get(i))
    }

    /// The last entry at or below `timestamp`.
    #[must_use]
    pub fn lookup(&self, timestamp: i64) -> Option<TimeEntry> {
        let count = partition_point(self.len(), |i| self.get(i).is_some_and(|entry| entry.timestamp <= timestamp));
        self.get(count.checked_sub(1)?)
    }

    /// Bytes of the index that stay when the segment is cut at `offset`.
    #[must_use]
    pub fn bytes_below(&self, offset: i64) -> usize {
        partition_point(self.len(), |i| self.get(i).is_some_and(|entry| entry.offset < offset)) * ENTRY_BYTES
    }
}

/// Entries in an index file of `index_bytes`.
#[must_use]
pub fn entries_max(index_bytes: u32) -> u32 {
    index_bytes / ENTRY_BYTES as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(i64, i64)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(timestamp, offset)| TimeEntry { timestamp: *timestamp, offset: *offset }.encode(100))
            .collect()
    }

    #[test]
    fn a_lookup_gives_the_last_entry_at_or_below() {
        let bytes = index(&[(0, 103), (7, 103), (9, 120)]);
        let index = TimeIndex::parse(&bytes, 100).unwrap();
        assert_eq!(index.lookup(-1), None);
        assert_eq!(index.lookup(8), Some(TimeEntry { timestamp: 7, offset: 103 }));
        assert_eq!([103, 104, 121].map(|offset| index.bytes_below(offset)), [0, 24, 36]);
    }

    #[test]
    fn a_zero_tail_and_a_torn_entry_are_refused() {
        let mut bytes = index(&[(7, 103)]);
        bytes.extend([0; 12]);
        assert!(TimeIndex::parse(&bytes, 100).is_err());
        assert!(TimeIndex::parse(&bytes[..18], 100).is_err());
    }
}
