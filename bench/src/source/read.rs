//! pure: what a stock broker returns for the partitions of a Fetch request.
//!
//! The first-batch rule: until a partition has returned data, limits are ignored for the first batch of the partition
//! being read. After that a partition whose first batch does not fit is returned empty. A slice is cut at the byte limit,
//! also in the middle of a batch.

use twinlog_proto::error_code::ErrorCode;

use super::batches::Batches;
use crate::limits::FETCH_BYTES_MAX;

/// One partition of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The most bytes wanted of this partition.
    pub bytes_max: i32,
    /// The leader epoch that the client knows, -1 for none.
    pub current_leader_epoch: i32,
    /// The epoch of the client's last record, -1 for none.
    pub last_fetched_epoch: i32,
}

/// A run of batches, the last of which may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Number of the first batch.
    pub first_index: u64,
    /// Bytes from the start of that batch.
    pub bytes: u64,
}

/// One partition of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// What is wrong with the partition.
    pub error: ErrorCode,
    /// The end of the partition, -1 with an error.
    pub high_watermark: i64,
    /// The start of the partition, -1 with an error.
    pub log_start: i64,
    /// The records.
    pub slice: Slice,
    /// The epoch and end offset at which the client's log differs from ours.
    pub diverging: Option<(i32, i64)>,
}

impl Read {
    /// A partition that cannot be read.
    #[must_use]
    pub fn refused(error: ErrorCode) -> Self {
        Self { error, high_watermark: -1, log_start: -1, slice: Slice::default(), diverging: None }
    }

    /// Whether a broker answers at once because of this partition.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.error != ErrorCode::NONE || self.diverging.is_some()
    }
}

/// The byte budget of one response.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    first_batch_is_free: bool,
}

impl Budget {
    /// A budget of `bytes_max` as asked for by the client; the broker's own cap comes on top.
    #[must_use]
    pub fn new(bytes_max: i32) -> Self {
        Self { left: to_bytes(bytes_max.min(FETCH_BYTES_MAX)), first_batch_is_free: true }
    }

    /// Reads a partition of `released` batches within what the partitions before it left.
    pub fn read(&mut self, batches: &Batches, released: u64, want: &Want) -> Read {
        let end = batches.base_offset(released);
        let epoch = batches.shape().leader_epoch;
        if let Some(error) = fenced(epoch, want.current_leader_epoch) {
            return Read::refused(error);
        }
        if want.fetch_offset < 0 || want.fetch_offset > end || want.last_fetched_epoch > epoch {
            return Read::refused(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let mut read = Read {
            error: ErrorCode::NONE,
            high_watermark: end,
            log_start: 0,
            slice: Slice::default(),
            diverging: None,
        };
        if want.last_fetched_epoch >= 0 && want.last_fetched_epoch < epoch && want.fetch_offset > 0 {
            // The only epoch of this log starts at 0: a log of an older epoch shares nothing with it.
            read.diverging = Some((want.last_fetched_epoch, 0));
            return read;
        }
        read.slice = self.take(batches, released, want);
        read
    }

    fn take(&mut self, batches: &Batches, released: u64, want: &Want) -> Slice {
        let first_index = batches.index_of(want.fetch_offset);
        let available = released.saturating_sub(first_index).saturating_mul(batches.batch_bytes());
        let mut limit = to_bytes(want.bytes_max).min(self.left);
        if limit < batches.batch_bytes() {
            limit = if self.first_batch_is_free { batches.batch_bytes() } else { 0 };
        }
        let bytes = available.min(limit);
        if bytes > 0 {
            self.first_batch_is_free = false;
            self.left = self.left.saturating_sub(bytes);
        }
        Slice { first_index, bytes }
    }
}

/// The error for a client that knows the leader epoch `known` of a leader at `epoch`.
#[must_use]
pub fn fenced(epoch: i32, known: i32) -> Option<ErrorCode> {
    match known {
        -1 => None,
        known if known < epoch => Some(ErrorCode::FENCED_LEADER_EPOCH),
        known if known > epoch => Some(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => None,
    }
}

fn to_bytes(bytes: i32) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::batches::Shape;

    const BATCH: u64 = 4096;

    fn batches() -> Batches {
        Batches::new(Shape { seed: 1, batch_bytes: BATCH as u32, record_bytes: 100, leader_epoch: 5 }).unwrap()
    }

    fn want(fetch_offset: i64, bytes_max: i32) -> Want {
        Want { fetch_offset, bytes_max, current_leader_epoch: 5, last_fetched_epoch: -1 }
    }

    #[test]
    fn a_slice_is_cut_at_the_byte_limit_in_the_middle_of_a_batch() {
        let read = Budget::new(1 << 20).read(&batches(), 100, &want(0, 10_000));
        assert_eq!(read.slice, Slice { first_index: 0, bytes: 10_000 });
    }

    #[test]
    fn the_first_batch_comes_whole_whatever_the_limits_and_later_partitions_come_empty() {
        let batches = batches();
        let mut budget = Budget::new(1);
        assert_eq!(budget.read(&batches, 0, &want(0, 1)).slice.bytes, 0, "an empty partition does not use the rule up");
        assert_eq!(budget.read(&batches, 9, &want(0, 1)).slice.bytes, BATCH);
        assert_eq!(budget.read(&batches, 9, &want(0, 1 << 20)).slice.bytes, 0);
    }

    #[test]
    fn a_partition_whose_first_batch_does_not_fit_the_rest_is_empty() {
        let batches = batches();
        let mut budget = Budget::new(10_000);
        assert_eq!(budget.read(&batches, 9, &want(0, 8_192)).slice.bytes, 8_192);
        assert_eq!(budget.read(&batches, 9, &want(0, 8_192)).slice.bytes, 0, "1808 bytes left hold no whole batch");
    }

    #[test]
    fn the_broker_caps_a_response_at_55_mib() {
        let read = Budget::new(i32::MAX).read(&batches(), 1 << 40, &want(0, i32::MAX));
        assert_eq!(read.slice.bytes, 55 << 20);
    }

    #[test]
    fn an_offset_inside_a_batch_returns_the_batch_that_holds_it() {
        let batches = batches();
        let offset = batches.base_offset(3) + 1;
        assert_eq!(Budget::new(1 << 20).read(&batches, 9, &want(offset, 1 << 20)).slice.first_index, 3);
    }

    #[test]
    fn the_end_is_empty_and_beyond_it_is_out_of_range() {
        let batches = batches();
        let end = batches.base_offset(9);
        let read = |offset| Budget::new(1 << 20).read(&batches, 9, &want(offset, 1 << 20));
        assert_eq!((read(end).error, read(end).slice.bytes, read(end).high_watermark), (ErrorCode::NONE, 0, end));
        assert_eq!(
            (read(end + 1).error, read(-1).error),
            (ErrorCode::OFFSET_OUT_OF_RANGE, ErrorCode::OFFSET_OUT_OF_RANGE)
        );
    }

    #[test]
    fn epochs_are_fenced_and_an_older_log_diverges() {
        let batches = batches();
        let read = |known, last| {
            let want = Want { fetch_offset: 40, bytes_max: 1, current_leader_epoch: known, last_fetched_epoch: last };
            Budget::new(1 << 20).read(&batches, 9, &want)
        };
        assert_eq!(read(4, -1).error, ErrorCode::FENCED_LEADER_EPOCH);
        assert_eq!(read(6, -1).error, ErrorCode::UNKNOWN_LEADER_EPOCH);
        assert_eq!(read(-1, 6).error, ErrorCode::OFFSET_OUT_OF_RANGE);
        assert_eq!((read(5, 3).diverging, read(5, 3).slice.bytes), (Some((3, 0)), 0));
        assert_eq!(read(5, 5).diverging, None);
    }
}
