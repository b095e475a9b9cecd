//! pure: which entries the offset and time index of a segment get, by the rules of Kafka 4.
//!
//! ```text
//! since = bytes of batches since the last entry
//! batch at position: since > interval?  yes -> offset entry (last offset, position), time entry if the maximum grew, since = 0
//!                    since += size
//! roll or close:     time entry if the maximum grew
//! ```
//! So the first batch of a segment has no entry, and a log that was never reopened has the same indexes as one whose indexes were rebuilt.

use super::offset_index::{self, OffsetEntry};
use super::time_index::{self, NO_TIMESTAMP, TimeEntry};
use crate::records::batch::BatchHeader;

/// When entries are due and how many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRules {
    /// `index.interval.bytes`.
    pub interval_bytes: u32,
    /// `segment.index.bytes`, the size of a full index.
    pub index_bytes: u32,
}

/// What a batch adds to the indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexAppend {
    /// An entry of the offset index.
    pub offset: Option<OffsetEntry>,
    /// An entry of the time index.
    pub time: Option<TimeEntry>,
}

/// What the files say about a segment that is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Entries in the offset index.
    pub offset_entries: u32,
    /// Entries in the time index.
    pub time_entries: u32,
    /// The last entry of the time index.
    pub last_time: Option<TimeEntry>,
    /// The largest timestamp of the segment and its batch's last offset: the last entry, or a batch after it.
    pub largest: Option<TimeEntry>,
}

/// The state of a segment's indexes.
#[derive(Debug, Clone)]
pub struct SegmentIndexer {
    base_offset: i64,
    rules: IndexRules,
    since_bytes: u64,
    largest: TimeEntry,
    last_time: i64,
    offset_entries: u32,
    time_entries: u32,
}

impl SegmentIndexer {
    /// A new segment.
    #[must_use]
    pub fn new(base_offset: i64, rules: IndexRules) -> Self {
        Self {
            base_offset,
            rules,
            since_bytes: 0,
            largest: TimeEntry { timestamp: NO_TIMESTAMP, offset: base_offset },
            last_time: NO_TIMESTAMP,
            offset_entries: 0,
            time_entries: 0,
        }
    }

    /// A segment that is opened again. As in stock Kafka the distance to the last entry starts at 0.
    #[must_use]
    pub fn resume(base_offset: i64, rules: IndexRules, resumed: Resumed) -> Self {
        let new = Self::new(base_offset, rules);
        Self {
            largest: resumed.largest.or(resumed.last_time).unwrap_or(new.largest),
            last_time: resumed.last_time.map_or(NO_TIMESTAMP, |entry| entry.timestamp),
            offset_entries: resumed.offset_entries,
            time_entries: resumed.time_entries,
            ..new
        }
    }

    /// Takes the batch at `position`. The entries may be written once the batch is.
    pub fn append(&mut self, header: &BatchHeader, position: u32) -> IndexAppend {
        if header.max_timestamp > self.largest.timestamp {
            self.largest = TimeEntry { timestamp: header.max_timestamp, offset: header.last_offset() };
        }
        let due = self.since_bytes > u64::from(self.rules.interval_bytes) && !self.is_full();
        let mut entries = IndexAppend::default();
        if due {
            entries.offset = Some(OffsetEntry { offset: header.last_offset(), position });
            entries.time = self.time_entry();
            self.offset_entries += 1;
            self.since_bytes = 0;
        }
        self.since_bytes += header.size_bytes() as u64;
        entries
    }

    /// The last entry of the time index, on roll, on clean close and at the end of recovery. A second call gives none.
    pub fn on_close(&mut self) -> Option<TimeEntry> {
        self.time_entry()
    }

    /// Whether an index has no room left, so that the segment must be rolled. One slot of the time index is for its last entry.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.offset_entries >= offset_index::entries_max(self.rules.index_bytes)
            || self.time_entries >= time_index::entries_max(self.rules.index_bytes).saturating_sub(1)
    }

    /// Entries of the offset index.
    #[must_use]
    pub fn offset_entries(&self) -> u32 {
        self.offset_entries
    }

    /// Entries of the time index.
    #[must_use]
    pub fn time_entries(&self) -> u32 {
        self.time_entries
    }

    /// The segment's base offset.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// The largest timestamp so far and the last offset of the first batch that had it; -1 without any.
    #[must_use]
    pub fn largest(&self) -> TimeEntry {
        self.largest
    }

    fn time_entry(&mut self) -> Option<TimeEntry> {
        if self.largest.timestamp <= self.last_time {
            return None;
        }
        self.last_time = self.largest.timestamp;
        self.time_entries += 1;
        Some(self.largest)
    }
}
