//! pure: what a partition knows of itself and of its source, and the board value made of it.

use twinlog_proto::channel::progress::{FaultCode, PartitionProgress, SlotState};

use crate::log::LogProgress;

/// What the source said about a partition last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceView {
    /// End of what consumers may read, -1 unknown.
    pub high_watermark: i64,
    /// End of what transactional consumers may read, -1 unknown.
    pub last_stable_offset: i64,
    /// First offset that the source has, -1 unknown. Only grows.
    pub log_start: i64,
    /// Its leader epoch, -1 unknown.
    pub leader_epoch: i32,
}

impl SourceView {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { high_watermark: -1, last_stable_offset: -1, log_start: -1, leader_epoch: -1 };

    /// Takes the head of a partition in. A negative value means that the source did not say; a log start never goes back.
    pub fn learn(&mut self, high_watermark: i64, last_stable_offset: i64, log_start: i64) {
        if high_watermark >= 0 {
            self.high_watermark = high_watermark;
        }
        if last_stable_offset >= 0 {
            self.last_stable_offset = last_stable_offset;
        }
        self.log_start = self.log_start.max(log_start);
    }
}

/// Why a partition stopped, or what it suffers from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultView {
    /// The kind.
    pub code: FaultCode,
    /// First offset concerned, -1 unknown.
    pub from: i64,
    /// End (exclusive) of the offsets concerned, -1 unknown.
    pub to: i64,
}

impl FaultView {
    /// Nothing is wrong.
    pub const NONE: Self = Self { code: FaultCode::NONE, from: -1, to: -1 };
}

/// Everything that the board says of a partition, but the log's offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The slot's identity.
    pub identity: u64,
    /// The state shown.
    pub state: SlotState,
    /// Low bits of the assignment version that was carried out.
    pub assignment_version: u32,
    /// Its attempt.
    pub attempt: u32,
    /// The source's side.
    pub source: SourceView,
    /// What is wrong.
    pub fault: FaultView,
    /// The log starts above the base of its first segment.
    pub start_within_segment: bool,
    /// When the log end last was the source's high watermark, ms since 1970, -1 never.
    pub caught_up_at_ms: i64,
    /// Batches mirrored since the start of the process.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The board value of a partition; without a log its offsets are unknown.
#[must_use]
pub fn board_value(facts: &Facts, log: Option<LogProgress>) -> PartitionProgress {
    let mut value = PartitionProgress::unknown(facts.identity, facts.state);
    if let Some(log) = log {
        assert!(log.flushed <= log.leo, "what is durable was written before");
        value.leo = log.leo;
        value.flushed = log.flushed;
        value.log_start = log.log_start;
        value.last_epoch = log.last_epoch;
    }
    value.start_within_segment = facts.start_within_segment;
    value.assignment_version = facts.assignment_version;
    value.attempt = facts.attempt;
    value.source_high_watermark = facts.source.high_watermark;
    value.source_lso = facts.source.last_stable_offset;
    value.leader_epoch = facts.source.leader_epoch;
    value.lag_bytes = lag_bytes(facts, log);
    value.caught_up_at_ms = facts.caught_up_at_ms;
    value.fault = facts.fault.code;
    value.fault_from = facts.fault.from;
    value.fault_to = facts.fault.to;
    value.batches = facts.batches;
    value.bytes = facts.bytes;
    value
}

/// Bytes behind the source: 0 when caught up, an estimate from what came so far, or -1.
fn lag_bytes(facts: &Facts, log: Option<LogProgress>) -> i64 {
    let (Some(log), high_watermark) = (log, facts.source.high_watermark) else { return -1 };
    if high_watermark < 0 {
        return -1;
    }
    if high_watermark <= log.leo { 0 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(high_watermark: i64) -> Facts {
        Facts {
            identity: 9,
            state: SlotState::Mirroring,
            assignment_version: 1,
            attempt: 0,
            source: SourceView { high_watermark, ..SourceView::UNKNOWN },
            fault: FaultView::NONE,
            start_within_segment: false,
            caught_up_at_ms: -1,
            batches: 0,
            bytes: 0,
        }
    }

    const LOG: LogProgress = LogProgress { leo: 50, flushed: 40, log_start: 3, last_epoch: 2 };

    #[test]
    fn lag_in_bytes_is_zero_when_caught_up_and_else_unknown() {
        assert_eq!(board_value(&facts(50), Some(LOG)).lag_bytes, 0);
        assert_eq!(board_value(&facts(51), Some(LOG)).lag_bytes, -1);
        assert_eq!(board_value(&facts(-1), Some(LOG)).lag_bytes, -1);
        assert_eq!(board_value(&facts(50), None).lag_bytes, -1);
    }

    #[test]
    fn without_a_log_no_offset_is_claimed() {
        let value = board_value(&facts(7), None);
        assert_eq!((value.leo, value.flushed, value.log_start), (-1, -1, -1));
        assert_eq!(value.source_high_watermark, 7);
    }

    #[test]
    fn a_source_that_does_not_say_changes_nothing_and_its_log_start_never_goes_back() {
        let mut view = SourceView::UNKNOWN;
        view.learn(10, 9, 4);
        view.learn(-1, -1, 2);
        assert_eq!((view.high_watermark, view.last_stable_offset, view.log_start), (10, 9, 4));
    }
}
