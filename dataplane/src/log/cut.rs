//! Cutting: the end (to where both sides agree), the beginning (behind the source's log start), or everything.

use twinlog_proto::storage::names::{self, FileKind};
use twinlog_proto::storage::truncation;

use super::{PartitionLog, faults, files_of, leftovers};
use crate::disk::{Disk, files};
use crate::fault::Fault;

impl<D: Disk> PartitionLog<D> {
    /// Cuts the log so that it ends at `offset`, lowered to the start of the batch that holds it. An offset at or above
    /// the end cuts nothing, one below the first segment throws everything away. Durable on return.
    pub async fn cut(&mut self, offset: i64) -> Result<(), Fault> {
        self.settle().await?;
        let mut bases: Vec<i64> = self.closed.iter().map(|closed| closed.base).collect();
        bases.push(self.active.base);
        match truncation::locate(&bases, self.next_offset, offset) {
            truncation::Truncation::Nothing => return self.flush().await,
            truncation::Truncation::StartOver { at } => return self.restart_at(at).await,
            truncation::Truncation::Within { .. } => {}
        }
        // The recovery point goes down first, so that the segment with the cut is read and its indexes are built again.
        self.reached.flushed = self.reached.flushed.min(offset);
        self.reached.log_start = self.reached.log_start.min(offset);
        self.reload(Some(offset)).await?;
        self.epochs_changed = true;
        self.unsynced.directory = true;
        self.unsynced.segments.push_back(self.active.base);
        self.flush().await
    }

    /// Throws everything away; the log then begins and ends at `offset`. Durable on return.
    pub async fn restart_at(&mut self, offset: i64) -> Result<(), Fault> {
        self.settle().await?;
        self.active.file = None;
        // Last first: a crash in between leaves a shorter log.
        let bases: Vec<i64> = self.closed.iter().map(|closed| closed.base).chain([self.active.base]).collect();
        for base in bases.into_iter().rev() {
            leftovers::remove_segment(&self.dir, base)?;
        }
        for snapshot in self.snapshot_offsets()? {
            let path = files_of(&self.dir, snapshot, FileKind::Snapshot);
            files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
        }
        let path = self.dir.join(names::LEADER_EPOCHS);
        files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
        self.closed.clear();
        self.unsynced.segments.clear();
        self.unsynced.snapshots.clear();
        self.reached.log_start = offset;
        self.reached.leo = offset;
        self.reached.flushed = offset;
        self.next_offset = offset;
        let path = files_of(&self.dir, offset, FileKind::Log);
        files::set_len(&path, 0).map_err(|e| faults::files("make", &path, e))?;
        self.reload(None).await?;
        self.unsynced.directory = true;
        self.submit_syncs().map_err(|fault| self.broken(fault))?;
        self.settle().await?;
        self.rest()
    }

    /// The source's log start moved: deletes the segments whose successor begins at or below `offset`, as stock does. An
    /// offset that is not above the present log start changes nothing, nor does one above the log end: records between the
    /// two would be missing, and only an order or the source's refusal of our offset may say so.
    pub async fn advance_log_start(&mut self, offset: i64) -> Result<(), Fault> {
        if offset <= self.reached.log_start || offset > self.next_offset {
            return Ok(());
        }
        if offset > self.reached.leo || self.closed.get(1).map_or(self.active.base, |next| next.base) <= offset {
            self.settle().await?;
        }
        self.reached.log_start = offset;
        // The file follows with its next change: a load cuts it again, and retention must not cost a sync per partition.
        self.epochs.truncate_start(offset);
        let bases: Vec<i64> = self.closed.iter().map(|closed| closed.base).chain([self.active.base]).collect();
        for base in bases.iter().take(truncation::segments_before(&bases, offset)) {
            leftovers::remove_segment(&self.dir, *base)?;
            let path = files_of(&self.dir, *base, FileKind::Snapshot);
            files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
            self.closed.pop_front();
            self.unsynced.directory = true;
        }
        Ok(())
    }
}
