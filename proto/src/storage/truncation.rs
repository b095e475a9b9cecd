//! pure: what must be cut, and in which order, when a log loses its end or its beginning.
//!
//! The order makes every crash in between harmless: whole segments go newest first, indexes before the log (an index that points past
//! the end of its log gives wrong positions), epochs and producers last.

use crate::records::batch::BatchHeader;

/// Where a segment is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutPoint {
    /// Bytes of the log that stay.
    pub log_bytes: u64,
    /// The log's new end: the offset asked for, or the base of the batch that it lies in.
    pub end_offset: i64,
}

/// Where a log is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The log ends there or before. Only epochs that start later go.
    Nothing,
    /// The log starts later: everything goes, and it starts over, empty, at this offset.
    StartOver {
        /// The new start and end.
        at: i64,
    },
    /// The segment at this place of the list must be searched for the cut; the ones after it go.
    Within {
        /// Index into the list of segments.
        segment: usize,
    },
}

/// A step of a truncation, to be done in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Remove the segment's files, and a snapshot of its name.
    DeleteSegment {
        /// Its base offset.
        base_offset: i64,
    },
    /// Shorten the indexes of the segment to the entries below `end_offset`.
    CutIndexes {
        /// Its base offset.
        base_offset: i64,
        /// Entries at or after it go.
        end_offset: i64,
    },
    /// Shorten the log.
    CutLog {
        /// Its base offset.
        base_offset: i64,
        /// The new length, in bytes.
        bytes: u64,
    },
    /// Remove snapshots above the new end, and load the producers from the newest that stays plus the batches after it.
    ReloadProducers {
        /// The new end.
        end_offset: i64,
    },
    /// Cut the epochs, with [`super::leader_epochs::LeaderEpochs::truncate_end`].
    CutEpochs {
        /// The new end.
        end_offset: i64,
    },
}

/// Finds out where `offset` lies. `bases` are the base offsets of all segments, ascending, at least one.
#[must_use]
pub fn locate(bases: &[i64], log_end: i64, offset: i64) -> Truncation {
    if offset >= log_end {
        return Truncation::Nothing;
    }
    match bases.partition_point(|base| *base <= offset).checked_sub(1) {
        Some(segment) => Truncation::Within { segment },
        None => Truncation::StartOver { at: offset },
    }
}

/// Finds the cut in a segment. `batches` are the segment's batches and their positions, ascending, from any batch at or before
/// `offset` on; `log_bytes` is the segment's length. The batch that `offset` lies in goes as a whole.
pub fn cut_point(batches: impl IntoIterator<Item = (BatchHeader, u64)>, log_bytes: u64, offset: i64) -> CutPoint {
    for (header, position) in batches {
        if header.last_offset() >= offset {
            return CutPoint { log_bytes: position, end_offset: header.base_offset.min(offset) };
        }
    }
    CutPoint { log_bytes, end_offset: offset }
}

/// The steps to cut a log in its segment number `segment`.
///
/// # Panics
/// When there is no such segment.
#[must_use]
pub fn steps(bases: &[i64], segment: usize, cut: CutPoint) -> Vec<Step> {
    let CutPoint { log_bytes: bytes, end_offset } = cut;
    let base_offset = bases[segment];
    let mut steps: Vec<_> =
        bases[segment + 1..].iter().rev().map(|base| Step::DeleteSegment { base_offset: *base }).collect();
    steps.extend([
        Step::CutIndexes { base_offset, end_offset },
        Step::CutLog { base_offset, bytes },
        Step::ReloadProducers { end_offset },
        Step::CutEpochs { end_offset },
    ]);
    steps
}

/// How many segments at the beginning hold nothing at or after `log_start`: those whose successor starts at or below it. The last segment
/// always stays; when the log start is the log's end, roll first, so that `N.log` keeps the offset.
#[must_use]
pub fn segments_before(bases: &[i64], log_start: i64) -> usize {
    bases.iter().skip(1).take_while(|base| **base <= log_start).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASES: [i64; 3] = [10, 57, 1109];

    #[test]
    fn an_offset_lies_in_the_last_segment_that_starts_at_or_before_it() {
        for (offset, expected) in [
            (9, Truncation::StartOver { at: 9 }),
            (10, Truncation::Within { segment: 0 }),
            (56, Truncation::Within { segment: 0 }),
            (57, Truncation::Within { segment: 1 }),
            (1154, Truncation::Within { segment: 2 }),
            (1155, Truncation::Nothing),
        ] {
            assert_eq!(locate(&BASES, 1155, offset), expected, "{offset}");
        }
    }

    #[test]
    fn later_segments_go_first_and_indexes_before_the_log() {
        let cut = CutPoint { log_bytes: 7, end_offset: 20 };
        assert_eq!(
            steps(&BASES, 0, cut),
            [
                Step::DeleteSegment { base_offset: 1109 },
                Step::DeleteSegment { base_offset: 57 },
                Step::CutIndexes { base_offset: 10, end_offset: 20 },
                Step::CutLog { base_offset: 10, bytes: 7 },
                Step::ReloadProducers { end_offset: 20 },
                Step::CutEpochs { end_offset: 20 },
            ]
        );
    }

    #[test]
    fn a_segment_goes_when_its_successor_starts_at_or_below_the_log_start() {
        for (log_start, gone) in [(0, 0), (56, 0), (57, 1), (60, 1), (1108, 1), (1109, 2), (i64::MAX, 2)] {
            assert_eq!(segments_before(&BASES, log_start), gone, "{log_start}");
        }
    }
}
