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
    /// Takes completions in; true when the log end or the flushed offset moved. Never waits. After an error the log takes
    /// nothing until [`Self::settle`].
    pub fn poll_progress(&mut self) -> Result<bool, Fault> {
        self.jobs.announced.set(false);
        let before = self.reached;
        self.advance();
        match &mut self.health {
            Health::Good => Ok(self.reached != before),
            Health::Broken(fault) => fault.take().map_or(Ok(self.reached != before), Err),
        }
    }

    /// Waits until nothing is under way. If something failed, the log is put back to its log end, ready for another try, and
    /// the fault is returned unless it was handed out before.
    pub async fn settle(&mut self) -> Result<(), Fault> {
        if let Some(span) = self.open_span.take() {
            // A region that is still open goes on in a new stage.
            let bytes = span.bytes();
            self.submit(span, bytes);
        }
        poll_fn(|cx| {
            self.jobs.wait(cx.waker());
            self.advance();
            if self.jobs.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let Health::Broken(fault) = &mut self.health else {
            return Ok(());
        };
        let fault = fault.take();
        if let Some(fault @ Fault::Core(_)) = fault {
            return Err(fault);
        }
        self.jobs.forgive();
        self.reload(Some(self.reached.leo)).await?;
        fault.map_or(Ok(()), Err)
    }

    /// Takes every finished job from the front of the list.
    pub(super) fn advance(&mut self) {
        while let Some(finished) = self.jobs.pop_finished() {
            self.take_finished(finished);
        }
        if let Health::Good = self.health
            && let Err(fault) = self.close_rolled()
        {
            self.health = Health::Broken(Some(fault));
        }
    }

    fn take_finished(&mut self, finished: Finished) {
        let Finished { kind, then, result } = finished;
        match (kind, result) {
            (Kind::Allocate, Err(error)) => self.note_refused_allocation(&error),
            (_, Err(error)) => self.note_failure(kind, error),
            // Behind a failed job nothing counts.
            (_, Ok(())) if matches!(self.health, Health::Broken(_)) => {}
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
        if let Health::Broken(_) = self.health {
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
