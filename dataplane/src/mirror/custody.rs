//! Who has a partition's log: a pump within a region, a job, or nobody; and what the board says of it.

use std::time::{Duration, Instant};

use twinlog_proto::channel::progress::{PartitionProgress, SlotState};
use twinlog_proto::messages::fetch::PartitionHead;

use super::partition::{Need, Partition};
use super::plan::{Doing, LogHere, Wish};
use super::progress::{Asked, CaughtUp, Facts, FaultView, board_value};
use crate::disk::Disk;
use crate::log::{LogProgress, LogRules, LogSpec, PartitionLog, RegionEnd, RegionRules};
use crate::wire::session::Want;

/// A region that a pump has open; worthless once the log was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    number: u64,
    /// Where the log ended.
    from: i64,
}

impl<D: Disk> Partition<D> {
    /// Opens a region, if the log is here and the answer continues it.
    pub fn open_region(&self, asked: Want, rules: RegionRules, now: Instant) -> Option<Region> {
        if self.need(now) != Some(Need::Records) || self.open_region.get() != 0 {
            return None;
        }
        let mut log = self.log.borrow_mut();
        let log = log.as_mut().filter(|log| log.next_offset() == asked.offset)?;
        log.begin_region(rules);
        self.regions.set(self.regions.get() + 1);
        self.open_region.set(self.regions.get());
        Some(Region { number: self.regions.get(), from: asked.offset })
    }

    /// Works on the log within a region; `None` when the region was taken away.
    pub fn within<R>(&self, region: Region, work: impl FnOnce(&mut PartitionLog<D>) -> R) -> Option<R> {
        if self.open_region.get() != region.number {
            return None;
        }
        self.log.borrow_mut().as_mut().map(|log| work(log))
    }

    /// Ends a region; `None` when it was taken away.
    pub fn close_region(&self, region: Region) -> Option<RegionEnd> {
        let end = self.within(region, PartitionLog::end_region)?;
        self.open_region.set(0);
        let mut state = self.state.borrow_mut();
        state.batches += end.batches;
        state.bytes += end.bytes;
        state.density.learn(end.bytes, u64::try_from(end.next_offset - region.from).unwrap_or(0));
        if end.batches > 0 {
            let now = Instant::now();
            state.arrived.get_or_insert((end.next_offset, now));
            state.to_flush.get_or_insert((end.next_offset, now));
            state.batch_bytes = end.uniform_batch_bytes;
            state.bytes_min = 0;
            state.corrupt_tries = 0;
        } else if let Some(bytes) = end.cut_off_batch_bytes {
            state.bytes_min = bytes;
        }
        Some(end)
    }

    /// Takes the log out for a job; a region that is open ends with what it has.
    #[must_use]
    pub fn take_log(&self) -> Option<Box<PartitionLog<D>>> {
        let mut log = self.log.borrow_mut().take()?;
        if self.open_region.replace(0) != 0 {
            let end = log.end_region();
            let mut state = self.state.borrow_mut();
            state.batches += end.batches;
            state.bytes += end.bytes;
        }
        Some(log)
    }

    /// Puts a log in, new or back from a job.
    pub fn put_log(&self, mut log: Box<PartitionLog<D>>) {
        log.set_rules(self.place.rules.get());
        let mut state = self.state.borrow_mut();
        state.log_here = LogHere::Open;
        state.last_progress = Some(log.progress());
        if state.need == Need::Start {
            state.need = Need::Records;
        }
        *self.log.borrow_mut() = Some(log);
    }

    /// Its folder was thrown away by this wish: nothing of what was known of the log holds any more.
    pub fn set_discarded(&self, wish: Wish) {
        let mut state = self.state.borrow_mut();
        state.tried = Some(wish);
        state.doing = Doing::Stopped;
        state.log_here = LogHere::Absent;
        state.need = Need::Start;
        state.fault = FaultView::NONE;
        state.caught_up = CaughtUp::NEVER;
        (state.broken, state.start_within_segment) = (false, false);
        (state.last_progress, state.arrived, state.to_flush, state.retry_at) = (None, None, None, None);
    }

    /// The topic has other rules from now on.
    pub fn set_rules(&self, rules: LogRules) {
        if self.place.rules.replace(rules) != rules {
            // A log that a job has gets them when it comes back.
            self.look(|log| log.set_rules(rules));
        }
    }

    /// Looks at the log between two regions or within one; `None` while a job has it.
    pub fn look<R>(&self, work: impl FnOnce(&mut PartitionLog<D>) -> R) -> Option<R> {
        self.log.borrow_mut().as_mut().map(|log| work(log))
    }

    /// Takes the head of an answer in; true when the source's log start is above ours.
    pub fn learn(&self, head: &PartitionHead, asked: Asked) -> bool {
        let mut state = self.state.borrow_mut();
        let before = state.source.high_watermark;
        state.source.learn(head.high_watermark, head.last_stable_offset, head.log_start_offset);
        let Some(progress) = self.log.borrow().as_ref().map(|log| log.progress()) else { return false };
        state.caught_up.learn(progress.leo, before, head.high_watermark, asked);
        state.source.log_start > progress.log_start
    }

    /// Where the log stood when it was last seen.
    pub fn note_progress(&self, now_ms: i64) -> Option<LogProgress> {
        let seen = self.look(|log| (log.progress(), log.first_base()));
        let mut state = self.state.borrow_mut();
        if let Some((progress, first_base)) = seen {
            state.last_progress = Some(progress);
            state.start_within_segment = progress.log_start > first_base;
            let high_watermark = state.source.high_watermark;
            // What a source said long ago says nothing about now: only a partition that is fetched knows.
            if state.doing == Doing::Mirroring && state.met {
                state.caught_up.reach(progress.leo, high_watermark, now_ms);
            }
        }
        state.last_progress
    }

    /// How long the offset that is watched took to become visible and durable, where it did since the last look.
    pub fn take_delays(&self, progress: LogProgress) -> (Option<Duration>, Option<Duration>) {
        let mut state = self.state.borrow_mut();
        let visible = state.arrived.take_if(|(offset, _)| *offset <= progress.leo).map(|(_, at)| at.elapsed());
        let flushed = state.to_flush.take_if(|(offset, _)| *offset <= progress.flushed).map(|(_, at)| at.elapsed());
        (visible, flushed)
    }

    /// The board value.
    #[must_use]
    pub fn board_value(&self) -> PartitionProgress {
        let state = self.state.borrow();
        let (version, attempt) = state.carried_out.unwrap_or((0, 0));
        let shown = match state.doing {
            Doing::Nothing => SlotState::Preparing,
            Doing::Mirroring if matches!(state.need, Need::Epoch(_)) => SlotState::Fencing,
            Doing::Mirroring if state.met => SlotState::Mirroring,
            Doing::Mirroring => SlotState::Preparing,
            Doing::Paused => SlotState::Paused,
            Doing::Stopped => SlotState::Stopped,
            Doing::Failed => SlotState::Failed,
        };
        let facts = Facts {
            identity: self.identity,
            state: shown,
            assignment_version: version as u32,
            attempt: attempt.cast_unsigned(),
            source: state.source,
            fault: state.fault,
            start_within_segment: state.start_within_segment,
            caught_up_at_ms: state.caught_up.at_ms,
            density: state.density,
            batches: state.batches,
            bytes: state.bytes,
        };
        board_value(&facts, state.last_progress)
    }

    /// Whether the value differs from the one shown before in more than offsets.
    pub fn shows_news(&self, value: &PartitionProgress) -> bool {
        let shown = (value.state, value.fault, value.assignment_version, value.attempt);
        self.shown.replace(Some(shown)) != Some(shown)
    }

    /// When its log became dirty; set by the first change after a flush.
    pub fn dirty_since(&self, now: Instant) -> bool {
        let mut state = self.state.borrow_mut();
        let first = state.sync_asked_at.is_none();
        state.sync_asked_at.get_or_insert(now);
        first
    }

    /// A flush begins: the next change makes the log dirty again.
    pub fn set_clean(&self) {
        self.state.borrow_mut().sync_asked_at = None;
    }

    /// What to open or make the log with.
    #[must_use]
    pub fn log_spec(&self, recovery_point: i64, log_start: i64) -> LogSpec {
        LogSpec {
            token: self.token,
            data_dir: self.place.data_dir.clone(),
            topic: self.place.topic.to_string(),
            partition: self.place.index,
            topic_id: self.place.topic_id,
            rules: self.place.rules.get(),
            recovery_point,
            log_start,
            alignment: None,
        }
    }
}
