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

    /// Takes the head of a partition in. A negative value means that the source did not say; a log start never goes back, and
    /// one above the end of what may be read is none: to believe it once would be to believe it for ever.
    pub fn learn(&mut self, high_watermark: i64, last_stable_offset: i64, log_start: i64) {
        if high_watermark >= 0 {
            self.high_watermark = high_watermark;
        }
        if last_stable_offset >= 0 {
            self.last_stable_offset = last_stable_offset;
        }
        if high_watermark < 0 || log_start <= high_watermark {
            self.log_start = self.log_start.max(log_start);
        }
    }
}

/// How many bytes an offset of this partition took lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Density {
    bytes: u64,
    offsets: u64,
}

impl Density {
    /// Takes in what was fetched: so many bytes brought the log end so many offsets further (gaps count as offsets).
    pub fn learn(&mut self, bytes: u64, offsets: u64) {
        if self.bytes >= DENSITY_BYTES {
            // What is long ago counts less and less.
            (self.bytes, self.offsets) = (self.bytes / 2, self.offsets / 2);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.offsets = self.offsets.saturating_add(offsets);
    }

    /// An estimate of the bytes of so many offsets, -1 before anything was fetched.
    #[must_use]
    pub fn bytes_of(&self, offsets: i64) -> i64 {
        if self.offsets == 0 {
            return -1;
        }
        let bytes = i128::from(offsets) * i128::from(self.bytes) / i128::from(self.offsets);
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// Bytes of a partition after which what was fetched before counts half.
const DENSITY_BYTES: u64 = 64 << 20;

/// When the log end last was the end of the source's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaughtUp {
    /// ms since 1970, -1 not since the start of the process.
    pub at_ms: i64,
    /// An end of the source that ours has not reached yet, and when the source had it.
    awaited: Option<(i64, i64)>,
}

/// When a request was sent and when its answer began, ms since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// The request was sent.
    pub sent_ms: i64,
    /// The answer began to arrive.
    pub answered_ms: i64,
}

impl CaughtUp {
    /// Nothing is known.
    pub const NEVER: Self = Self { at_ms: -1, awaited: None };

    /// The source says where its log ends (`before`: where it ended by the answer before), ours ends at `leo`.
    pub fn learn(&mut self, leo: i64, before: i64, high_watermark: i64, asked: Asked) {
        if before >= 0 && leo >= before {
            // Nothing had been missing when this request went out.
            self.at_ms = self.at_ms.max(asked.sent_ms);
        }
        if high_watermark >= 0 && leo >= high_watermark {
            (self.at_ms, self.awaited) = (self.at_ms.max(asked.answered_ms), None);
        } else if high_watermark >= 0 {
            // Not moved while it is awaited: under a steady flow our end never is the source's, and still trails it shortly.
            self.awaited.get_or_insert((high_watermark, asked.answered_ms));
        }
    }

    /// Our log end moved; the source's last known end is `high_watermark`.
    pub fn reach(&mut self, leo: i64, high_watermark: i64, now_ms: i64) {
        if high_watermark >= 0 && leo >= high_watermark {
            (self.at_ms, self.awaited) = (self.at_ms.max(now_ms), None);
        } else if let Some((_, at_ms)) = self.awaited.take_if(|(end, _)| leo >= *end) {
            self.at_ms = self.at_ms.max(at_ms);
        }
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
    /// Bytes of an offset lately.
    pub density: Density,
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
    if high_watermark <= log.leo { 0 } else { facts.density.bytes_of(high_watermark - log.leo) }
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
            density: Density::default(),
            batches: 0,
            bytes: 0,
        }
    }

    const LOG: LogProgress = LogProgress { leo: 50, flushed: 40, log_start: 3, last_epoch: 2 };

    #[test]
    fn lag_in_bytes_is_estimated_from_what_came_lately() {
        let mut density = Density::default();
        density.learn(1_000, 10);
        let behind = Facts { density, ..facts(57) };
        assert_eq!(board_value(&behind, Some(LOG)).lag_bytes, 700);
        assert_eq!(board_value(&Facts { density, ..facts(50) }, Some(LOG)).lag_bytes, 0);
        for _ in 0..1_000 {
            density.learn(16 << 20, 16 << 10);
        }
        assert!((1_023_000..1_025_000).contains(&density.bytes_of(1_000)), "what came long ago hardly counts");
        density.learn(u64::MAX, u64::MAX);
        assert!(density.bytes_of(i64::MAX) > 0);
    }

    #[test]
    fn a_topic_whose_end_moves_slowly_has_been_caught_up_until_just_before() {
        let mut seen = CaughtUp::NEVER;
        seen.learn(50, -1, 50, Asked { sent_ms: 1_000, answered_ms: 1_010 });
        assert_eq!(seen.at_ms, 1_010);
        // An hour of silence later a record comes.
        seen.learn(50, 50, 51, Asked { sent_ms: 3_600_000, answered_ms: 3_600_200 });
        assert_eq!(seen.at_ms, 3_600_000);
        seen.reach(51, 51, 3_600_205);
        assert_eq!(seen.at_ms, 3_600_205);
    }

    #[test]
    fn under_a_steady_flow_the_time_is_that_of_the_end_that_was_reached() {
        let mut seen = CaughtUp::NEVER;
        let mut leo = 0;
        for second in 1..100 {
            // Each answer brings ten more, and is stored when the next one is there already.
            let (before, end) = ((second - 1) * 10, second * 10);
            seen.learn(leo, before, end, Asked { sent_ms: second * 1_000 - 500, answered_ms: second * 1_000 });
            seen.reach(before, end, second * 1_000 + 1);
            leo = before;
            assert!(second < 3 || seen.at_ms >= (second - 2) * 1_000, "{second}: {seen:?}");
            assert!(seen.at_ms <= second * 1_000, "never the time of an end that was not reached");
        }
    }

    #[test]
    fn after_a_start_that_is_behind_no_time_is_claimed() {
        let mut seen = CaughtUp::NEVER;
        seen.learn(50, -1, 90, Asked { sent_ms: 1_000, answered_ms: 1_010 });
        seen.reach(60, 90, 1_020);
        assert_eq!(seen.at_ms, -1);
        seen.reach(90, 120, 1_030);
        assert_eq!(seen.at_ms, 1_010, "what the source had then is here now");
    }

    #[test]
    fn lag_in_bytes_is_zero_when_caught_up_and_unknown_before_anything_came() {
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

    #[test]
    fn a_log_start_above_the_end_is_not_believed_and_one_at_it_is() {
        let mut view = SourceView::UNKNOWN;
        view.learn(10, 10, i64::MAX);
        assert_eq!(view.log_start, -1);
        view.learn(10, 10, 10);
        assert_eq!(view.log_start, 10);
    }
}
