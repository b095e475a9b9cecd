//! pure: the offset index, which tells where in a segment to start looking for an offset.
//!
//! ```text
//! i32 offset - baseOffset | i32 position        8 bytes an entry; offsets and positions strictly ascend
//! ```
//! An entry's offset is the **last** offset of the batch that starts at its position. There is no header and no end mark: the
//! length of the file says how many entries there are, so that a zero tail reads as entries.

use crate::error::{DecodeError, Malformed};

const WHAT: &str = "offset index";
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;

/// An entry, its offset made absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetEntry {
    /// Last offset of the batch.
    pub offset: i64,
    /// Where the batch starts in the segment, bytes.
    pub position: u32,
}

impl OffsetEntry {
    /// The entry's bytes in the index of the segment at `base_offset`.
    ///
    /// # Panics
    /// When the offset or position is not within 2^31 of the segment's start: the roll rules were broken.
    #[must_use]
    pub fn encode(self, base_offset: i64) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..4].copy_from_slice(&relative(self.offset, base_offset).to_be_bytes());
        let position = i32::try_from(self.position).expect("a segment has less than 2 GiB");
        out[4..].copy_from_slice(&position.to_be_bytes());
        out
    }
}

/// The offset less the segment's base.
pub(super) fn relative(offset: i64, base_offset: i64) -> i32 {
    offset
        .checked_sub(base_offset)
        .and_then(|delta| i32::try_from(delta).ok())
        .filter(|delta| *delta >= 0)
        .expect("a segment spans less than 2^31 offsets")
}

/// A checked index.
#[derive(Debug, Clone, Copy)]
pub struct OffsetIndex<'a> {
    base_offset: i64,
    bytes: &'a [u8],
}

impl<'a> OffsetIndex<'a> {
    /// Checks that `bytes` are entries of the segment at `base_offset`, in ascending order.
    ///
    /// # Errors
    /// When they are not, be it a zero tail.
    pub fn parse(bytes: &'a [u8], base_offset: i64) -> Result<Self, DecodeError> {
        whole_entries(WHAT, bytes, ENTRY_BYTES)?;
        let index = Self { base_offset, bytes };
        let mut last = (-1, -1);
        for (i, chunk) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
            let (delta, position) = (int(chunk, 0), int(chunk, 4));
            if delta <= last.0 || position <= last.1 || base_offset.checked_add(delta.into()).is_none() {
                let rule = "offsets and positions must ascend within their range";
                return Err(DecodeError::rule(WHAT, i * ENTRY_BYTES, rule));
            }
            last = (delta, position);
        }
        Ok(index)
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
    pub fn get(&self, i: usize) -> Option<OffsetEntry> {
        let chunk = self.bytes.chunks_exact(ENTRY_BYTES).nth(i)?;
        let (delta, position) = (int(chunk, 0), int(chunk, 4));
        Some(OffsetEntry { offset: self.base_offset + i64::from(delta), position: position.cast_unsigned() })
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<OffsetEntry> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Every entry, ascending.
    pub fn iter(&self) -> impl Iterator<Item = OffsetEntry> + use<'a> {
        let index = *self;
        (0..self.len()).map_while(move |i| index.get(i))
    }

    /// The position from which batches must be walked to find `offset`: that of the last entry at or below it, else 0.
    #[must_use]
    pub fn lookup(&self, offset: i64) -> u32 {
        self.count_below(|entry| entry.offset <= offset)
            .checked_sub(1)
            .and_then(|i| self.get(i))
            .map_or(0, |entry| entry.position)
    }

    /// Bytes of the index that stay when the segment is cut at `offset`.
    #[must_use]
    pub fn bytes_below(&self, offset: i64) -> usize {
        self.count_below(|entry| entry.offset < offset) * ENTRY_BYTES
    }

    fn count_below(&self, below: impl Fn(OffsetEntry) -> bool) -> usize {
        partition_point(self.len(), |i| self.get(i).is_some_and(&below))
    }
}

/// Entries in an index file of `index_bytes`.
#[must_use]
pub fn entries_max(index_bytes: u32) -> u32 {
    index_bytes / ENTRY_BYTES as u32
}

/// The first of `0..len` for which `holds` is false; it must not become true again.
pub(super) fn partition_point(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Refuses a length that is no multiple of an entry's.
pub(super) fn whole_entries(what: &'static str, bytes: &[u8], entry_bytes: usize) -> Result<(), DecodeError> {
    match bytes.len() % entry_bytes {
        0 => Ok(()),
        rest => Err(DecodeError { what, at: bytes.len(), why: Malformed::Truncated { missing: entry_bytes - rest } }),
    }
}

/// The 32-bit integer at `at` of an entry.
pub(super) fn int(entry: &[u8], at: usize) -> i32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&entry[at..at + 4]);
    i32::from_be_bytes(bytes)
}

/// The 64-bit integer at `at` of an entry.
pub(super) fn long(entry: &[u8], at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[at..at + 8]);
    i64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(i64, u32)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(offset, position)| OffsetEntry { offset: *offset, position: *position }.encode(100))
            .collect()
    }

    #[test]
    fn a_lookup_starts_at_the_last_entry_at_or_below() {
        let bytes = index(&[(105, 50), (110, 90)]);
        let index = OffsetIndex::parse(&bytes, 100).unwrap();
        for (offset, position) in [(0, 0), (104, 0), (105, 50), (109, 50), (110, 90), (i64::MAX, 90)] {
            assert_eq!(index.lookup(offset), position, "{offset}");
        }
        assert_eq!(index.last(), Some(OffsetEntry { offset: 110, position: 90 }));
    }

    #[test]
    fn a_cut_keeps_entries_below_the_offset() {
        let bytes = index(&[(105, 50), (110, 90)]);
        let index = OffsetIndex::parse(&bytes, 100).unwrap();
        assert_eq!([105, 106, 110, 111].map(|offset| index.bytes_below(offset)), [0, 8, 8, 16]);
    }

    #[test]
    fn a_zero_tail_and_a_torn_entry_are_refused() {
        let mut bytes = index(&[(105, 50)]);
        bytes.extend([0; 8]);
        assert!(OffsetIndex::parse(&bytes, 100).is_err());
        assert!(OffsetIndex::parse(&bytes[..12], 100).is_err());
        assert!(OffsetIndex::parse(&bytes[..8], i64::MAX).is_err());
    }
}
