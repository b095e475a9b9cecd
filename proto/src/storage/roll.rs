//! pure: when a segment ends and the next one begins.
//!
//! Decided before each batch, as stock Kafka decides before each append: size, span of time, full indexes, span of offsets. Time is
//! that of the records, so that old data rolls by its own clock.

use super::{offset_index, time_index};
use crate::records::batch::BatchHeader;

/// The largest file, in bytes: positions have 31 bits.
pub const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// The topic's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollRules {
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.index.bytes`.
    pub index_bytes: u32,
    /// `max.compaction.lag.ms` of a compacted topic.
    pub max_compaction_lag_ms: Option<i64>,
}

impl RollRules {
    /// The jitter of one segment: `random` modulo the smaller of `segment.jitter.ms` and `segment.ms`.
    #[must_use]
    pub fn jitter_ms(&self, segment_jitter_ms: i64, random: u32) -> i64 {
        i64::from(random & i32::MAX as u32).checked_rem(segment_jitter_ms.min(self.segment_ms)).unwrap_or(0).max(0)
    }

    fn span_ms_max(&self) -> i64 {
        self.max_compaction_lag_ms.map_or(self.segment_ms, |lag| lag.min(self.segment_ms))
    }
}

/// The active segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentShape {
    /// The offset in its name.
    pub base_offset: i64,
    /// Bytes of its batches.
    pub bytes: u64,
    /// Largest timestamp of its first batch, ms; none while it is empty.
    pub first_timestamp_ms: Option<i64>,
    /// When the file was made, ms.
    pub created_at_ms: i64,
    /// Drawn when it was made, ms.
    pub jitter_ms: i64,
    /// Entries of its offset index.
    pub offset_entries: u32,
    /// Entries of its time index.
    pub time_entries: u32,
}

/// Why a segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollReason {
    /// The batch does not fit any more.
    Size,
    /// The batch is too much later than the first one.
    Time,
    /// No room in the offset index.
    OffsetIndexFull,
    /// No room in the time index but for its last entry.
    TimeIndexFull,
    /// The batch is too far from the base offset.
    OffsetRange,
}

/// Whether the segment must end before this batch. A batch that is larger than a segment gets one of its own: the source had room
/// for it.
#[must_use]
pub fn must_roll(rules: &RollRules, shape: &SegmentShape, header: &BatchHeader, now_ms: i64) -> Option<RollReason> {
    let delta = header.last_offset().checked_sub(shape.base_offset);
    let in_range = delta.is_some_and(|delta| (0..=i64::from(i32::MAX)).contains(&delta));
    if shape.bytes == 0 {
        return (!in_range).then_some(RollReason::OffsetRange);
    }
    let bytes = shape.bytes.saturating_add(header.size_bytes() as u64);
    if bytes > u64::from(rules.segment_bytes).min(SEGMENT_BYTES_MAX) {
        return Some(RollReason::Size);
    }
    let span_ms = match shape.first_timestamp_ms {
        Some(first) if first >= 0 => header.max_timestamp.saturating_sub(first),
        _ => now_ms.saturating_sub(shape.created_at_ms),
    };
    if span_ms > rules.span_ms_max().saturating_sub(shape.jitter_ms) {
        return Some(RollReason::Time);
    }
    if shape.offset_entries >= offset_index::entries_max(rules.index_bytes) {
        return Some(RollReason::OffsetIndexFull);
    }
    if shape.time_entries >= time_index::entries_max(rules.index_bytes).saturating_sub(1) {
        return Some(RollReason::TimeIndexFull);
    }
    (!in_range).then_some(RollReason::OffsetRange)
}

/// The base offset of the segment that begins with this batch. After a gap that is the batch's own base.
#[must_use]
pub fn new_base_offset(log_end: i64, header: &BatchHeader) -> i64 {
    log_end.max(header.base_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RollRules =
        RollRules { segment_bytes: 1000, segment_ms: 500, index_bytes: 24, max_compaction_lag_ms: None };
    const SHAPE: SegmentShape = SegmentShape {
        base_offset: 10,
        bytes: 400,
        first_timestamp_ms: Some(1000),
        created_at_ms: 0,
        jitter_ms: 0,
        offset_entries: 0,
        time_entries: 0,
    };

    fn batch(size: i32, base_offset: i64, max_timestamp: i64) -> BatchHeader {
        BatchHeader {
            base_offset,
            batch_length: size - 12,
            leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: 0,
            max_timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 1,
        }
    }

    fn reason(shape: SegmentShape, header: &BatchHeader) -> Option<RollReason> {
        must_roll(&RULES, &shape, header, 9000)
    }

    #[test]
    fn a_segment_may_be_filled_to_the_byte() {
        assert_eq!(reason(SHAPE, &batch(600, 20, 1000)), None);
        assert_eq!(reason(SHAPE, &batch(601, 20, 1000)), Some(RollReason::Size));
    }

    #[test]
    fn an_empty_segment_takes_a_batch_of_any_size_and_age() {
        let empty = SegmentShape { bytes: 0, first_timestamp_ms: None, ..SHAPE };
        assert_eq!(reason(empty, &batch(1_000_000, 20, i64::MAX)), None);
        assert_eq!(reason(empty, &batch(100, 10 + i64::from(i32::MAX) + 1, 0)), Some(RollReason::OffsetRange));
        assert_eq!(reason(empty, &batch(100, 9, 0)), Some(RollReason::OffsetRange));
    }

    #[test]
    fn the_span_of_time_is_that_of_the_records() {
        assert_eq!(reason(SHAPE, &batch(100, 20, 1500)), None);
        assert_eq!(reason(SHAPE, &batch(100, 20, 1501)), Some(RollReason::Time));
        assert_eq!(reason(SegmentShape { jitter_ms: 100, ..SHAPE }, &batch(100, 20, 1401)), Some(RollReason::Time));
        let unknown = SegmentShape { first_timestamp_ms: Some(-1), created_at_ms: 8500, ..SHAPE };
        assert_eq!(reason(unknown, &batch(100, 20, 1501)), None);
        assert_eq!(reason(SegmentShape { created_at_ms: 8499, ..unknown }, &batch(100, 20, 0)), Some(RollReason::Time));
        let lag = RollRules { max_compaction_lag_ms: Some(10), ..RULES };
        assert_eq!(must_roll(&lag, &SHAPE, &batch(100, 20, 1011), 9000), Some(RollReason::Time));
    }

    #[test]
    fn a_full_index_or_a_far_offset_ends_the_segment() {
        let full = SegmentShape { offset_entries: 3, ..SHAPE };
        assert_eq!(reason(full, &batch(100, 20, 1000)), Some(RollReason::OffsetIndexFull));
        let full = SegmentShape { time_entries: 1, ..SHAPE };
        assert_eq!(reason(full, &batch(100, 20, 1000)), Some(RollReason::TimeIndexFull));
        assert_eq!(reason(SHAPE, &batch(100, 10 + i64::from(i32::MAX), 1000)), None);
        assert_eq!(reason(SHAPE, &batch(100, 11 + i64::from(i32::MAX), 1000)), Some(RollReason::OffsetRange));
    }

    #[test]
    fn jitter_is_drawn_below_the_smaller_setting() {
        assert_eq!(RULES.jitter_ms(0, 77), 0);
        assert_eq!(RULES.jitter_ms(10, 77), 7);
        assert_eq!(RULES.jitter_ms(i64::MAX, 777), 277);
        assert!((0..500).contains(&RULES.jitter_ms(i64::MAX, u32::MAX)));
    }

    #[test]
    fn after_a_gap_the_next_segment_is_named_by_the_batch() {
        assert_eq!(new_base_offset(57, &batch(100, 57, 0)), 57);
        assert_eq!(new_base_offset(57, &batch(100, 1077, 0)), 1077);
    }
}
