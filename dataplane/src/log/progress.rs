//! Completions, in order: where the log end and the flushed offset move, and what happens when a write fails.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use twinlog_proto::storage::names::FileKind;

use super::{Health, PartitionLog, faults, files_of};
use crate::disk::Disk;
use crate::disk::jobs::{Finished, Kind, Then};
use crate::fault::Fault;

impl<D: Disk> PartitionLog<D> {
    /// Takes completions in; true when something moved since it was last asked. Never waits. After an error the log takes
    /// nothing until [`Self::settle`].
    pub fn poll_progress(&mut self) -> Result<bool, Fault> {
        self.jobs.announced.set(false);
        self.advance();
        if let Some(fault) = self.take_fault() {
            return Err(fault);
        }
        let moved = self.reached != self.told;
        self.told = self.reached;
        Ok(moved)
    }

    /// The fault that nobody was told yet. One of the core stays for ever.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        let fault = match &mut self.health {
            Health::Broken(fault) => fault.take(),
            Health::Good | Health::Dead => None,
        };
        if let Some(Fault::Core(_)) = fault {
            self.health = Health::Dead;
        }
        fault
    }

    /// Waits until nothing is under way. If something failed, the log is put back to its log end, ready for another try, and
    /// the fault is returned unless it was handed out before.
    pub async fn settle(&mut self) -> Result<(), Fault> {
        if let Some(span) = self.open_span.take() {
            // A region that is still open goes on in a new stage.
            let bytes = span.bytes();
            self.submit(span, bytes);
        }
        self.come_to_rest().await;
        let fault = self.take_fault();
        match self.health {
            Health::Good => return Ok(()),
            Health::Dead => return Err(fault.unwrap_or_else(|| faults::after_failed_sync(&self.dir))),
            Health::Broken(_) => {}
        }
        self.jobs.forgive();
        self.reload(Some(self.reached.leo)).await?;
        fault.map_or(Ok(()), Err)
    }

    /// Waits until nothing is under way, for files that are about to be thrown away: whether it succeeded does not matter.
    pub async fn abandon(&mut self) {
        self.open_span = None;
        self.come_to_rest().await;
    }

    async fn come_to_rest(&mut self) {
        poll_fn(|cx| {
            self.jobs.wait(cx.waker());
            self.advance();
            if self.jobs.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes every finished job from the front of the list. A rolled segment is closed before the first job behind it is
    /// taken: the log end must not enter a segment whose file has no name yet.
    pub(super) fn advance(&mut self) {
        loop {
            if let Health::Good = self.health
                && let Err(fault) = self.close_rolled()
            {
                let fault = faults::at(fault, self.reached.leo, self.next_offset);
                self.health = Health::Broken(Some(fault));
            }
            let Some(finished) = self.jobs.pop_finished() else { break };
            self.take_finished(finished);
        }
    }

    fn take_finished(&mut self, finished: Finished) {
        let Finished { kind, then, result } = finished;
        match (kind, result) {
            (Kind::Allocate, Err(error)) => self.note_refused_allocation(&error),
            (_, Err(error)) => self.note_failure(kind, error),
            // Behind a failed job nothing counts.
            (_, Ok(())) if !matches!(self.health, Health::Good) => {}
            (_, Ok(())) => match then {
                Then::Nothing => {}
                Then::End { leo, epoch } => {
                    assert!(leo >= self.reached.leo, "the log end never moves back by a completion");
                    self.reached.leo = leo;
                    self.reached.last_epoch = epoch;
                }
                Then::Flushed(offset) => {
                    assert!(offset <= self.reached.leo, "flushed never passes the log end");
                    self.reached.flushed = self.reached.flushed.max(offset);
                    self.flushing = false;
                }
            },
        }
    }

    /// An allocation is a favour: without it the write itself finds room, or says why not.
    fn note_refused_allocation(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::Unsupported {
            self.allocates = false;
        }
        self.active.allocated = self.active.allocated.min(self.active.end);
        self.active.step = crate::limits::ALLOCATE_STEP_BYTES_MIN;
    }

    fn note_failure(&mut self, kind: Kind, error: io::Error) {
        // The first failure tells; the ones behind it follow from it.
        if !matches!(self.health, Health::Good) {
            return;
        }
        let base = self.closing.front().map_or(self.active.base, |closing| closing.base());
        let path = files_of(&self.dir, base, FileKind::Log);
        let fault = match kind {
            Kind::Sync => faults::sync(&path, error),
            Kind::Write | Kind::Allocate => faults::write(&path, self.reached.leo, self.next_offset, error),
        };
        self.health = Health::Broken(Some(fault));
    }
}
