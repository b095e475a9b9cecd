//! The way back: steps in the opposite order, each of which may be repeated too. Only as long as no broker was started.

use super::{HandOver, Say};
use crate::failure::Failure;
use crate::handover::journal::Step;
use crate::handover::{control, owner, start, target};
use twinlog_proto::handover::plan::HandOverPlan;
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData};

impl HandOver {
    /// Takes everything back and lets mirroring go on.
    ///
    /// # Errors
    /// When a broker was started meanwhile, or what went wrong; the same command again goes on from there.
    pub fn undo(mut self, say: Say<'_>) -> Result<(), Failure> {
        self.not_started()?;
        if self.locks.is_none() {
            self.lock()?;
            // Between the look and the lock a broker may have come and gone.
            self.not_started()?;
        }
        if !self.journal.undoing {
            // The work of the step after the last one that is written down may have begun.
            self.journal.step =
                self.journal.step.next().filter(|next| *next <= Step::Promoted).unwrap_or(Step::Promoted);
            self.journal.undoing = true;
            self.journal.save(&self.order.state)?;
        }
        while let Some(previous) = self.journal.step.previous() {
            match self.journal.step {
                Step::Promoted => target::unmark_clean(&self.journal.log_dirs)?,
                Step::Identified | Step::LaidOut => target::forget(&self.journal, &self.order.state)?,
                Step::Moved => self.move_back(say)?,
                Step::Recorded => self.record(true)?,
                Step::Stopped => self.start_again(say)?,
                Step::Begun | Step::CaughtUp | Step::Planned | Step::Started | Step::Checked => {}
            }
            self.journal.reach(&self.order.state, previous)?;
        }
        self.journal.remove(&self.order.state)
    }

    /// A broker takes the clean marker away as soon as it loads its logs, and puts it back when it stops.
    fn not_started(&self) -> Result<(), Failure> {
        let serves = self.journal.step >= Step::Started;
        if !serves && start::is_alive(&self.server_log()) {
            let which =
                self.journal.server.as_ref().map_or_else(String::new, |server| format!(" (process {})", server.pid));
            return Err(Failure::new(
                format_args!("mirror {} is not taken back", self.journal.mirror),
                format_args!("the broker that was started for it is there{which}"),
                "stop it, then run the same command again, which says how to go on",
            ));
        }
        let was_started = serves
            || (self.journal.step == Step::Promoted
                && !self.journal.undoing
                && (!self.journal.log_dirs.iter().all(|dir| target::is_marked_clean(dir))
                    || target::not_started(&self.journal, &self.order.state).is_err()));
        if !was_started {
            return self.not_started_early();
        }
        Err(Failure::new(
            format_args!("mirror {} is not taken back", self.journal.mirror),
            format_args!(
                "a broker was started on the directories of {}, and may have written",
                self.journal.handed_over_to
            ),
            "stop that broker, then take the topics back with `twinlog reclaim`",
        ))
    }

    fn move_back(&mut self, say: Say<'_>) -> Result<(), Failure> {
        say("moving the directories back and cutting them where mirroring ended");
        let plan = self.read_plan()?;
        self.write_plan(&HandOverPlan { undo: true, ..plan })?;
        self.operate()?;
        owner::give_partitions(&self.journal, true)?;
        for partition in self.journal.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.end_offset = None;
        }
        Ok(())
    }

    pub(in crate::handover) fn start_again(&mut self, say: Say<'_>) -> Result<(), Failure> {
        say("starting the topics again");
        let flowed = self.journal.topics.iter().filter(|topic| topic.flowed);
        let topics = flowed.map(|topic| TopicData { topic_name: topic.topic.clone(), ..TopicData::default() });
        let topics: Vec<TopicData> = topics.collect();
        if topics.is_empty() {
            return Ok(());
        }
        let answer = control::connect(&self.order.control)?.ask(&StartMirrorTopicsRequest {
            mirror_name: self.order.mirror.clone(),
            topics,
            ..StartMirrorTopicsRequest::default()
        })?;
        let codes = answer.topics.iter().map(|topic| topic.error_code);
        control::accepted(codes, answer.error_code, answer.error_message, "the topics are not started again")
    }
}
