//! What an answer says about a partition, carried out: errors, divergence, the end of a region.

use std::rc::Rc;
use std::time::{Duration, Instant};

use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::fetch::{EpochEnd, PartitionHead};
use twinlog_proto::messages::fetch_request::FetchRequest;
use twinlog_proto::records::batches::BatchError;

use super::align::{Verdict, parting};
use super::custody::Region;
use super::jobs;
use super::partition::{Need, Partition};
use super::pump::Pump;
use super::react::{Lasting, Reaction, SessionReaction, react, react_to_whole};
use crate::disk::Disk;
use crate::fault::{Fault, RetryCause};
use crate::limits::{CORRUPT_TRIES_MAX, FOLLOW_START_PAUSE_MS, PARTITION_TRIES_MAX};
use crate::log::AppendStop;
use crate::metrics::Counter;
use crate::wire::Transport;

impl<T: Transport, D: Disk> Pump<T, D> {
    /// An answer is complete. A session says nothing of a partition without news: those were answered too.
    pub(super) fn meet_the_silent(&mut self) {
        let mut unmet = std::mem::take(&mut self.unmet);
        unmet.retain(|&member| {
            let entry = &self.members[member as usize];
            if self.asked(member).is_some() && self.sits_here(entry) && entry.partition.met() {
                self.crew.shared.publish(&entry.partition);
            }
            let stays = !entry.partition.is_met();
            self.members[member as usize].is_unmet = stays;
            stays
        });
        unmet.append(&mut self.unmet);
        self.unmet = unmet;
    }

    /// The head of a partition in a Fetch answer.
    pub(super) fn meet(&mut self, member: u32, head: &PartitionHead) {
        let partition = Rc::clone(&self.members[member as usize].partition);
        if !head.error.is_none() {
            self.refused(member, head.error);
            return;
        }
        let news = partition.met();
        let log_start_moved = partition.learn(head, self.asked_at);
        if news || head.records_bytes == 0 {
            self.crew.shared.publish(&partition);
        }
        if log_start_moved && !std::mem::replace(&mut self.members[member as usize].start_moved, true) {
            self.starts_moved.push(member);
        }
    }

    /// Follows the log starts that passed ours: between answers, and not for every record that they move by. A source tells a
    /// session of each move once, so it is kept in mind until it was followed.
    pub(super) fn follow_starts(&mut self, now: Instant) {
        let mut moved = std::mem::take(&mut self.starts_moved);
        moved.retain(|&member| {
            let sits_here = self.sits_here(&self.members[member as usize]);
            let entry = &mut self.members[member as usize];
            let partition = &entry.partition;
            if sits_here && !partition.may_follow_start(now, Duration::from_millis(FOLLOW_START_PAUSE_MS)) {
                return true;
            }
            entry.start_moved = false;
            if !sits_here {
                return false;
            }
            let (offset, job) = (partition.source_log_start(), Rc::clone(partition));
            self.crew.job(partition, move || async move { jobs::follow_start(&job, offset).await });
            false
        });
        self.starts_moved = moved;
    }

    /// An error of one partition, in a Fetch or a ListOffsets answer.
    pub(super) fn refused(&mut self, member: u32, error: ErrorCode) {
        self.take_asked(member);
        let partition = Rc::clone(&self.members[member as usize].partition);
        tracing::debug!(?partition, broker = self.port.broker, %error, "refused");
        match react(error) {
            Reaction::AskRange => {
                partition.set_need(Need::Range);
                self.crew.pause(&partition);
            }
            Reaction::Wait(lasting) => self.wait(&partition, error, lasting),
            Reaction::Refresh(lasting) => {
                self.crew.refresh();
                self.wait(&partition, error, lasting);
            }
            Reaction::Report(code) => {
                self.crew.pause(&partition);
                self.suffers(&partition, code, error);
            }
            Reaction::Reconnect => {
                self.wait(&partition, error, Lasting::Shows(FaultCode::PROTOCOL));
                self.reconnect = true;
            }
        }
        self.settle(member, Instant::now());
    }

    fn wait(&self, partition: &Rc<Partition<D>>, error: ErrorCode, lasting: Lasting) {
        let tries = self.crew.pause(partition);
        if tries <= PARTITION_TRIES_MAX {
            return;
        }
        match lasting {
            Lasting::Fails(code) => {
                let what = format!("the source answers {error} for {partition:?}, {tries} times in a row");
                self.crew.fail(partition, Fault::partition(code, what));
            }
            Lasting::Shows(code) => self.suffers(partition, code, error),
        }
    }

    /// Shows what the partition suffers from while it goes on trying.
    fn suffers(&self, partition: &Rc<Partition<D>>, code: FaultCode, error: ErrorCode) {
        if partition.suffer(code) {
            tracing::warn!(?partition, "the source answers {error}; trying again at long intervals");
            self.crew.shared.publish(partition);
        }
    }

    /// The error of a whole answer.
    ///
    /// # Errors
    /// Another request would fare no better: it is tried again after a pause, over a new connection.
    pub(super) fn whole_refused(&mut self, error: ErrorCode) -> Result<(), RetryCause> {
        tracing::debug!(broker = self.port.broker, %error, "the whole answer is refused");
        let reaction = react_to_whole(error);
        // A request that begins a session names none that could be lost.
        if self.asked_all || reaction == SessionReaction::Reconnect {
            return Err(RetryCause::Refused { request: FetchRequest::NAME, code: error.0 });
        }
        if reaction == SessionReaction::StartOverAndClose {
            self.session.start_over_and_close();
        } else {
            self.session.start_over();
        }
        if reaction == SessionReaction::StartOverAndRefresh {
            self.crew.refresh();
        }
        Ok(())
    }

    /// The source says that our log is no prefix of its own. Nothing is cut without an order.
    pub(super) fn diverged(&mut self, member: u32, source: EpochEnd) {
        self.take_asked(member);
        let partition = Rc::clone(&self.members[member as usize].partition);
        let verdict = partition.look(|log| {
            let local = log.epochs().end_offset_for(source.epoch, log.next_offset());
            parting(
                source,
                local.map(|local| (local.epoch, local.end_offset)),
                log.progress().log_start,
                log.next_offset(),
            )
        });
        match verdict {
            Some(Verdict::Differs { from, to }) => {
                let what = format!(
                    "the source's log of {partition:?} has epoch {} up to {}, ours goes on to {to}: offsets {from} to {to} \
                     are not the source's (an unclean election there?); nothing was cut; start the topic \
                     from scratch to mirror what the source has now",
                    source.epoch, source.end_offset
                );
                self.crew.fail(&partition, Fault::partition_at(FaultCode::DIVERGED, from, to, what));
            }
            Some(Verdict::Agrees) => {
                self.crew.pause(&partition);
            }
            // A job has the log; the next fetch tells again.
            None => {}
        }
        self.settle(member, Instant::now());
    }

    /// A region has ended, whole or not.
    pub(super) fn region_over(&mut self, member: u32, region: Region, mut stop: Option<AppendStop>) {
        let partition = Rc::clone(&self.members[member as usize].partition);
        if let Some(end) = partition.close_region(region) {
            let metrics = &self.crew.shared.metrics;
            metrics.add(Counter::Batches, end.batches);
            metrics.add(Counter::MirroredBytes, end.bytes);
            metrics.add(Counter::RefetchedBytes, end.cut_off_bytes);
            self.crew.shared.unflushed(end.bytes);
            if let Some(epoch) = end.newer_epoch {
                self.crew.fence(&partition, epoch);
            }
            if let (0, Some((offset, last_offset))) = (end.batches, end.left_out) {
                // The same would come for ever.
                stop.get_or_insert(AppendStop::Overlap { offset, last_offset, next_offset: end.next_offset });
            }
        }
        if let Some(stop) = stop {
            self.stopped(&partition, stop);
        }
        self.crew.shared.publish(&partition);
        self.crew.shared.bound_open_segments();
        self.settle(member, Instant::now());
    }

    fn stopped(&mut self, partition: &Rc<Partition<D>>, stop: AppendStop) {
        let next = partition.look(|log| log.next_offset()).unwrap_or(-1);
        let text = stop.to_string();
        let fault = match stop {
            // Told by the end of the region, or of no consequence.
            AppendStop::NewerEpoch { .. } | AppendStop::Over => return,
            AppendStop::Corrupt { why: BatchError::OldFormat { base_offset, .. }, .. } => {
                Fault::partition_at(FaultCode::OLD_FORMAT, base_offset, -1, text)
            }
            AppendStop::Corrupt { why, .. } => {
                self.crew.shared.metrics.add(Counter::ChecksumFailures, 1);
                let tries = partition.corrupt_again();
                if tries <= CORRUPT_TRIES_MAX {
                    tracing::warn!(?partition, tries, "fetching again over a new connection: {text}");
                    self.reconnect = true;
                    self.crew.pause(partition);
                    return;
                }
                Fault::partition_at(code_of(&why), next, -1, text)
            }
            AppendStop::NoEpoch { offset } => Fault::partition_at(FaultCode::MALFORMED_BATCH, offset, -1, text),
            AppendStop::EpochWentBack { offset, .. } => Fault::partition_at(FaultCode::DIVERGED, offset, next, text),
            AppendStop::Overlap { offset, last_offset, next_offset } => {
                let to = next_offset.max(last_offset.saturating_add(1));
                Fault::partition_at(FaultCode::DIVERGED, offset, to, text)
            }
            AppendStop::Fault(fault) => {
                partition.set_broken(true);
                fault
            }
        };
        self.crew.fail(partition, fault);
    }
}

fn code_of(error: &BatchError) -> FaultCode {
    match error {
        BatchError::Crc { .. } => FaultCode::CHECKSUM,
        BatchError::Size { batch_length, batch_bytes_max, .. }
            if usize::try_from(*batch_length).is_ok_and(|bytes| bytes > *batch_bytes_max) =>
        {
            FaultCode::BATCH_TOO_LARGE
        }
        _ => FaultCode::MALFORMED_BATCH,
    }
}
