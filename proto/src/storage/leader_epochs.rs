//! pure: which leader epochs wrote a log, and from which offset on (`leader-epoch-checkpoint`).
//!
//! ```text
//! 0          version
//! 2          number of entries
//! 0 0        epoch, first offset; both ascend
//! 4 67
//! ```

use core::fmt::Write;

use super::text::{read_checkpoint, write_checkpoint};
use crate::error::DecodeError;

const WHAT: &str = "leader epoch checkpoint";

/// An epoch and where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: i32,
    /// Its first offset.
    pub start_offset: i64,
}

/// The largest epoch at or below one that was asked for, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: i32,
    /// One after its last offset.
    pub end_offset: i64,
}

/// The epochs of a log, ascending in epoch and offset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaderEpochs {
    entries: Vec<EpochStart>,
}

impl LeaderEpochs {
    /// No epochs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the file. An empty one has no entries.
    ///
    /// # Errors
    /// When it does not follow the format, be it in the order of its entries.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut entries: Vec<EpochStart> = Vec::new();
        read_checkpoint(WHAT, bytes, |lines, at, line| {
            let (epoch, start) =
                line.split_once(' ').ok_or_else(|| lines.rule(at, "an epoch and an offset were expected"))?;
            let entry = EpochStart { epoch: lines.number(at, epoch)?, start_offset: lines.number(at, start)? };
            let after = entries.last().is_none_or(|l| entry.epoch > l.epoch && entry.start_offset > l.start_offset);
            if entry.epoch < 0 || entry.start_offset < 0 || !after {
                return Err(lines.rule(at, "epochs and offsets must ascend from 0"));
            }
            entries.push(entry);
            Ok(())
        })?;
        Ok(Self { entries })
    }

    /// The file's text.
    #[must_use]
    pub fn to_text(&self) -> String {
        write_checkpoint(&self.entries, |text, entry| {
            // Writing to a String does not fail.
            let _infallible = write!(text, "{} {}", entry.epoch, entry.start_offset);
        })
    }

    /// The entries, ascending.
    #[must_use]
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The last epoch.
    #[must_use]
    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// The epoch that wrote `offset`, if it is not before the first one.
    #[must_use]
    pub fn epoch_at(&self, offset: i64) -> Option<i32> {
        let count = self.entries.partition_point(|entry| entry.start_offset <= offset);
        Some(self.entries[count.checked_sub(1)?].epoch)
    }

    /// Notes that a batch at `start_offset` was written by `epoch`; true when that changed anything. Entries that contradict it are
    /// dropped. A negative epoch is no epoch and changes nothing.
    pub fn assign(&mut self, epoch: i32, start_offset: i64) -> bool {
        let known = self.latest().is_some_and(|last| epoch == last.epoch && start_offset >= last.start_offset);
        if epoch < 0 || known {
            return false;
        }
        let kept = self.entries.partition_point(|e| e.epoch < epoch && e.start_offset < start_offset);
        self.entries.truncate(kept);
        self.entries.push(EpochStart { epoch, start_offset });
        true
    }

    /// Drops epochs that start at or after the log's new end; true when there were any.
    pub fn truncate_end(&mut self, end_offset: i64) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end_offset);
        let changed = kept < self.entries.len();
        self.entries.truncate(kept);
        changed
    }

    /// Drops epochs that end before the log's new start, and lets the one that spans it start there; true when that changed anything.
    pub fn truncate_start(&mut self, start_offset: i64) -> bool {
        let below = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        let Some(spanning) = below.checked_sub(1) else {
            return false;
        };
        if spanning == 0 && self.entries[0].start_offset == start_offset {
            return false;
        }
        self.entries.drain(..spanning);
        self.entries[0].start_offset = start_offset;
        true
    }

    /// Where `epoch` ends in a log that ends at `log_end`; none when the log knows no epoch as high.
    #[must_use]
    pub fn end_offset_for(&self, epoch: i32, log_end: i64) -> Option<EpochEnd> {
        let latest = self.latest()?;
        if epoch < 0 || epoch > latest.epoch {
            return None;
        }
        if epoch == latest.epoch {
            return Some(EpochEnd { epoch, end_offset: log_end });
        }
        let above = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end_offset = self.entries[above].start_offset;
        let floor = above.checked_sub(1).map_or(epoch, |i| self.entries[i].epoch);
        Some(EpochEnd { epoch: floor, end_offset })
    }

    /// Forgets everything, for a log that starts over.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let entries =
            entries.iter().map(|(epoch, start_offset)| EpochStart { epoch: *epoch, start_offset: *start_offset });
        LeaderEpochs { entries: entries.collect() }
    }

    #[test]
    fn only_a_new_epoch_or_an_earlier_start_is_assigned() {
        let mut log = LeaderEpochs::new();
        assert!(log.assign(0, 0) && !log.assign(0, 5) && log.assign(2, 10) && !log.assign(-1, 11));
        assert_eq!(log, epochs(&[(0, 0), (2, 10)]));
        assert!(log.assign(1, 8), "an older epoch drops the entries it contradicts");
        assert_eq!(log, epochs(&[(0, 0), (1, 8)]));
        assert!(log.assign(1, 6));
        assert_eq!(log, epochs(&[(0, 0), (1, 6)]));
    }

    #[test]
    fn cuts_keep_the_epoch_that_spans_them() {
        let all = epochs(&[(0, 0), (1, 24), (2, 32), (4, 67)]);
        for (end, kept) in [(68, 4), (67, 3), (33, 3), (32, 2), (0, 0)] {
            let mut log = all.clone();
            assert_eq!(log.truncate_end(end), kept < 4);
            assert_eq!(log.entries().len(), kept, "{end}");
        }
        let mut log = all.clone();
        assert!(log.truncate_start(60) && !log.truncate_start(60) && !log.truncate_start(10));
        assert_eq!(log, epochs(&[(2, 60), (4, 67)]));
        assert!(log.truncate_start(67));
        assert_eq!(log, epochs(&[(4, 67)]));
    }

    #[test]
    fn an_epoch_ends_where_the_next_higher_starts() {
        let log = epochs(&[(1, 24), (2, 32), (4, 67)]);
        let end = |epoch| log.end_offset_for(epoch, 100).map(|end| (end.epoch, end.end_offset));
        assert_eq!(
            [0, 1, 3, 4, 5, -1].map(end),
            [Some((0, 24)), Some((1, 32)), Some((2, 67)), Some((4, 100)), None, None]
        );
        assert_eq!(LeaderEpochs::new().end_offset_for(0, 10), None);
        assert_eq!([23, 24, 66, 99].map(|offset| log.epoch_at(offset)), [None, Some(1), Some(2), Some(4)]);
    }

    #[test]
    fn text_that_is_not_quite_the_format_is_refused() {
        for text in [
            "0",
            "0\n",
            "1\n0\n",
            "0\n1\n",
            "0\n0\n0 0\n",
            "0\n1\n0 0",
            "0\n1\n0\n",
            "0\n2\n1 5\n1 6\n",
            "0\n1\n-1 0\n",
            "0\n1\n+1 0\n",
        ] {
            assert!(LeaderEpochs::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(LeaderEpochs::parse(b""), Ok(LeaderEpochs::new()));
    }
}
