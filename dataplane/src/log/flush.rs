//! Durability: what a flush makes durable, in which order, and the clean end of a log.
//!
//! The epoch file is durable before the flushed offset passes its entries. A closed segment's index files are durable before
//! the flushed offset passes its end, for recovery will not look at them again.

use std::path::PathBuf;
use std::rc::Rc;

use twinlog_proto::storage::names::{self, FileKind};

use super::roll::Closing;
use super::{Health, PartitionLog, SEGMENT_FILES, Unsynced, faults, files_of};
use crate::disk::files::{self, ReplaceError};
use crate::disk::jobs::{Job, Then, Work};
use crate::disk::{Disk, Open};
use crate::fault::Fault;
use crate::limits::{ALLOCATE_STEP_BYTES_MIN, FILES_SYNCED_ONE_BY_ONE};

impl<D: Disk> PartitionLog<D> {
    /// Starts making everything below the present `leo` durable, without waiting; `flushed` moves by
    /// [`Self::poll_progress`]. False when there is nothing to do: then an idle log gives its descriptor, its spare
    /// allocation and its block buffer back.
    pub fn begin_flush(&mut self) -> Result<bool, Fault> {
        self.advance();
        if let Some(fault) = self.take_fault() {
            return Err(fault);
        }
        if !matches!(self.health, Health::Good) {
            return Ok(false);
        }
        if self.flushing {
            return Ok(true);
        }
        if self.has_nothing_to_flush() {
            self.rest().map_err(|fault| self.broken(fault))?;
            return Ok(false);
        }
        let (from, to) = (self.reached.flushed, self.reached.leo);
        self.submit_syncs().map_err(|fault| self.broken(faults::at(fault, from, to)))?;
        Ok(true)
    }

    /// [`Self::settle`], then makes everything durable. A failed sync is `Fault::Core`.
    pub async fn flush(&mut self) -> Result<(), Fault> {
        self.settle().await?;
        while self.begin_flush()? {
            self.settle().await?;
        }
        Ok(())
    }

    /// Exact lengths, whole indexes, a snapshot at the end, everything durable: a stock broker loads it under a clean
    /// marker. Appending may go on afterwards.
    pub async fn finish(&mut self) -> Result<(), Fault> {
        self.flush().await?;
        let (from, to) = (self.reached.flushed, self.reached.leo);
        self.finish_files().map_err(|fault| self.broken(faults::at(fault, from, to)))?;
        self.settle().await?;
        self.rest()
    }

    fn finish_files(&mut self) -> Result<(), Fault> {
        let path = files_of(&self.dir, self.active.base, FileKind::Log);
        if self.active.file.is_none() {
            self.open_active()?;
        }
        let Some(file) = self.active.file.clone() else {
            unreachable!("it was just opened");
        };
        self.home.disk.set_len(&file, self.active.end).map_err(|e| faults::files("cut", &path, e))?;
        self.active.allocated = self.active.end;
        self.active.indexes.finish(&self.dir).map_err(|e| faults::files("index", &path, e))?;
        self.finish_snapshots()?;
        self.unsynced.segments.push_back(self.active.base);
        self.unsynced.directory = true;
        // A file that says it already stays: to replace those of many thousand partitions is most of the time of their stop.
        let epochs = self.dir.join(names::LEADER_EPOCHS);
        let there = files::read(&epochs).map_err(|e| faults::files("read", &epochs, e))?;
        self.epochs_changed |= there.as_deref() != Some(self.epochs.to_text().as_bytes());
        self.submit_syncs()
    }

    /// The snapshot at the end; those of earlier finishes, at offsets where no segment begins, go.
    fn finish_snapshots(&mut self) -> Result<(), Fault> {
        let end = self.next_offset;
        for offset in self.snapshot_offsets()? {
            let at_a_base = self.closed.iter().any(|closed| closed.base == offset) || self.active.base == offset;
            if offset > end || (offset < end && !at_a_base) {
                let path = files_of(&self.dir, offset, FileKind::Snapshot);
                files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
            }
        }
        if end > 0 {
            let bytes = self.producers.snapshot();
            self.write_snapshot(end, &bytes)?;
        }
        Ok(())
    }

    fn has_nothing_to_flush(&self) -> bool {
        // The folder of a log that never had records may be lost: many thousand idle partitions must not cost as many syncs.
        if self.is_empty() && self.reached.flushed >= self.next_offset && self.unsynced.segments.is_empty() {
            return true;
        }
        self.reached.flushed >= self.reached.leo
            && !self.unsynced.directory
            && self.unsynced.segments.is_empty()
            && self.unsynced.snapshots.is_empty()
            && !(self.epochs_changed && self.reached.leo == self.next_offset)
            && !self.active.indexes.is_waiting(self.reached.leo)
    }

    /// Gives back what an idle log does not need.
    pub(super) fn rest(&mut self) -> Result<(), Fault> {
        if !self.jobs.is_empty() || self.region.is_some() || self.open_span.is_some() || !self.closing.is_empty() {
            return Ok(());
        }
        let Some(file) = self.active.file.take() else {
            return Ok(());
        };
        if self.active.allocated > self.active.end {
            let path = files_of(&self.dir, self.active.base, FileKind::Log);
            self.home.disk.set_len(&file, self.active.end).map_err(|e| faults::files("cut", &path, e))?;
        }
        self.active.allocated = self.active.end;
        self.active.step = ALLOCATE_STEP_BYTES_MIN;
        self.tails = None;
        Ok(())
    }

    /// Closes the segment's file if nothing is under way; the next record opens it again.
    pub fn close_segment(&mut self) -> Result<(), Fault> {
        if matches!(self.health, Health::Good) { self.rest().map_err(|fault| self.broken(fault)) } else { Ok(()) }
    }

    /// Writes the small files that are due, then queues every sync; the last one moves the flushed offset.
    pub(super) fn submit_syncs(&mut self) -> Result<(), Fault> {
        let leo = self.reached.leo;
        let drained = self.active.indexes.drain(&self.dir, leo);
        drained.map_err(|e| faults::files("index", &files_of(&self.dir, self.active.base, FileKind::Log), e))?;
        if self.syncs_later {
            return self.write_only();
        }
        if self.epochs_changed {
            let path = self.dir.join(names::LEADER_EPOCHS);
            files::replace(&path, self.epochs.to_text().as_bytes()).map_err(|error| match error {
                ReplaceError::Write(error) => faults::files("write", &path, error),
                ReplaceError::Sync(error) => faults::sync(&path, error),
            })?;
            self.epochs_changed = false;
        }
        if self.unsynced.segments.len() + self.unsynced.snapshots.len() > FILES_SYNCED_ONE_BY_ONE {
            self.unsynced = Unsynced::default();
            let file = self.home.disk.open(&self.spec.data_dir, Open::ToSyncAll);
            let file = file.map_err(|e| faults::files("open", &self.spec.data_dir, e))?;
            self.flushing = true;
            self.submit_sync_of(Rc::new(file), Then::Flushed(leo));
            return Ok(());
        }
        while let Some(base) = self.unsynced.segments.pop_front() {
            for kind in SEGMENT_FILES {
                self.submit_sync(files_of(&self.dir, base, kind))?;
            }
        }
        while let Some(offset) = self.unsynced.snapshots.pop_front() {
            self.submit_sync(files_of(&self.dir, offset, FileKind::Snapshot))?;
        }
        // The log end may still lie in a segment that was rolled and waits for the rest of its writes.
        for file in self.closing.iter().filter_map(Closing::file) {
            self.submit_sync_of(Rc::clone(file), Then::Nothing);
        }
        if std::mem::take(&mut self.unsynced.directory) {
            self.submit_sync(self.dir.join(names::PARTITION_METADATA))?;
            self.submit_sync(self.dir.clone())?;
            self.submit_sync(self.spec.data_dir.clone())?;
        }
        let file = match &self.active.file {
            Some(file) => Rc::clone(file),
            None => {
                let log = files_of(&self.dir, self.active.base, FileKind::Log);
                let opened = self.home.disk.open(&log, Open::ToSync);
                Rc::new(opened.map_err(|e| faults::files("open", &log, e))?)
            }
        };
        self.flushing = true;
        self.submit_sync_of(file, Then::Flushed(leo));
        Ok(())
    }

    /// What a flush is when everything is made durable later, at once.
    fn write_only(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.epochs_changed) {
            let path = self.dir.join(names::LEADER_EPOCHS);
            let written = files::replace_unsynced(&path, self.epochs.to_text().as_bytes());
            written.map_err(|error| faults::files("write", &path, error))?;
        }
        self.unsynced = Unsynced::default();
        self.reached.flushed = self.reached.leo;
        Ok(())
    }

    /// Queues the sync of a file, unless it is gone (a segment that was deleted meanwhile).
    fn submit_sync(&mut self, path: PathBuf) -> Result<(), Fault> {
        match self.home.disk.open(&path, Open::ToSync) {
            Ok(file) => self.submit_sync_of(Rc::new(file), Then::Nothing),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(faults::files("open", &path, error)),
        }
        Ok(())
    }

    fn submit_sync_of(&self, file: Rc<D::File>, then: Then) {
        let job = Job { file, work: Work::Sync, touches: 0..0, then };
        self.home.writers.submit(&self.jobs, job);
    }
}
