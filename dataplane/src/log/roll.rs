//! Rolling: a new segment is begun at once, the old one is closed when its last write has completed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::rc::Rc;

use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::records::batches::EndMarker;
use twinlog_proto::storage::names::{self, FileKind};
use twinlog_proto::storage::roll::{self, RollRules, SegmentShape};

use super::segment::{Indexes, Segment};
use super::span::Tails;
use super::{LogRules, PartitionLog, SEGMENT_FILES, faults, files_of};
use crate::disk::jobs::{Job, Then, Work};
use crate::disk::{Disk, Open, files};
use crate::fault::Fault;
use crate::limits::DIRECT_ALIGN_BYTES_MAX;

/// A segment that is complete but whose writes may still be under way.
pub(super) struct Closing<D: Disk> {
    base: i64,
    file: Option<Rc<D::File>>,
    end: u64,
    indexes: Indexes,
    /// Jobs below this number belong to it or to its forerunners.
    jobs_end: u64,
    /// The offset at which the next segment begins, and the producer state there.
    next_base: i64,
    snapshot: Vec<u8>,
}

/// A segment that is not appended to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) base: i64,
    pub(super) bytes: u64,
}

impl<D: Disk> PartitionLog<D> {
    /// Whether stock's rules want a new segment before this batch.
    pub(super) fn must_roll(&mut self, header: &BatchHeader, now_ms: i64) -> bool {
        let segment = &mut self.active;
        let created_at_ms = *segment.created_at_ms.get_or_insert(now_ms);
        // An empty segment that the batch does not fit is moved: a roll was begun for a batch that proved bad.
        let below = segment.end == 0 && header.base_offset < segment.base;
        let shape = SegmentShape {
            base_offset: segment.base,
            bytes: segment.end,
            first_timestamp_ms: segment.first_timestamp_ms,
            created_at_ms,
            jitter_ms: segment.jitter_ms,
            offset_entries: segment.indexes.indexer.offset_entries(),
            time_entries: segment.indexes.indexer.time_entries(),
        };
        below || roll::must_roll(&self.roll_rules, &shape, header, now_ms).is_some()
    }

    /// What follows from a whole batch at `position` of the active segment.
    pub(super) fn note_batch(&mut self, header: &BatchHeader, marker: Option<EndMarker>, position: u64) {
        let aborted = self.producers.update(header, marker);
        self.active.indexes.note(header, position, aborted.as_ref());
        self.active.first_timestamp_ms.get_or_insert(header.max_timestamp);
        // A batch that spans the log start: the history begins at the log start, as a stock broker would cut it.
        if self.epochs.assign(header.leader_epoch, header.base_offset.max(self.reached.log_start)) {
            self.epochs_changed = true;
        }
    }

    /// Begins a segment at `base`. The present one is closed later, or simply renamed when it has no batch.
    pub(super) fn roll(&mut self, base: i64) -> Result<(), Fault> {
        if self.active.end == 0 {
            self.rebase(base)?;
        } else {
            let next = self.new_segment(base);
            let snapshot = self.producers.snapshot();
            let old = std::mem::replace(&mut self.active, next);
            self.closed.push_back(Closed { base: old.base, bytes: old.end });
            self.closing.push_back(Closing {
                base: old.base,
                file: old.file,
                end: old.end,
                indexes: old.indexes,
                jobs_end: self.jobs.next(),
                next_base: base,
                snapshot,
            });
            self.remove_segment_files(base)?;
            self.open_active()?;
        }
        self.raw = 0;
        if let Some(tails) = &mut self.tails {
            tails.clear();
        }
        Ok(())
    }

    /// Makes sure that the active segment's file is open and the block at its end known.
    pub(super) fn ready_to_write(&mut self) -> Result<(), Fault> {
        if self.active.file.is_none() {
            self.open_active()?;
        }
        if self.tails.is_none() {
            self.tails = Some(self.read_tail()?);
        }
        Ok(())
    }

    /// Reads the partly filled last block of an idle log back.
    fn read_tail(&self) -> Result<Box<Tails>, Fault> {
        let end = self.active.end;
        let block = self.alignment.down(end);
        let mut bytes = [0; DIRECT_ALIGN_BYTES_MAX];
        let tail = &mut bytes[..(end - block) as usize];
        if !tail.is_empty() {
            let path = files_of(&self.dir, self.active.base, FileKind::Log);
            let read = files::Reading::open(&path, block).and_then(|mut reading| reading.next(tail));
            let read = read.map_err(|e| faults::files("read", &path, e))?;
            if read < tail.len() {
                let why = "the file is shorter than it was: something else cut it";
                return Err(faults::damage(&path, self.active.base, self.next_offset, why));
            }
        }
        Ok(Tails::new(tail))
    }

    /// Lets the empty active segment begin at `base` instead.
    pub(super) fn rebase(&mut self, base: i64) -> Result<(), Fault> {
        let old = self.active.base;
        if old == base {
            return Ok(());
        }
        let (from, to) = (self.active_path(), self.path_of_active(base));
        files::rename(&from, &to).map_err(|e| faults::files("rename", &from, e))?;
        // The file stays the same one: writes of bytes that proved to belong elsewhere may still be under way to it.
        let next = self.new_segment(base);
        let old_segment = std::mem::replace(&mut self.active, next);
        (self.active.file, self.active.allocated) = (old_segment.file, old_segment.allocated);
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex] {
            let path = files_of(&self.dir, old, kind);
            files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
        }
        self.move_snapshot(old, base)
    }

    /// Where the active segment's file is. Until the segment before it is whole it has a name that no broker and no recovery
    /// takes for a segment's: a crash must not leave a later segment behind a torn one.
    fn active_path(&self) -> PathBuf {
        self.path_of_active(self.active.base)
    }

    fn path_of_active(&self, base: i64) -> PathBuf {
        let path = files_of(&self.dir, base, FileKind::Log);
        if self.closing.is_empty() { path } else { files::with_suffix(&path, names::TEMPORARY_SUFFIX) }
    }

    /// The snapshot in front of the active segment follows it.
    fn move_snapshot(&mut self, from: i64, to: i64) -> Result<(), Fault> {
        if let Some(closing) = self.closing.back_mut().filter(|closing| closing.next_base == from) {
            closing.next_base = to;
            return Ok(());
        }
        let (old, new) = (files_of(&self.dir, from, FileKind::Snapshot), files_of(&self.dir, to, FileKind::Snapshot));
        files::rename(&old, &new).map_err(|e| faults::files("rename", &old, e))
    }

    /// The topic has other rules from now on: they decide when the next segment begins, and the indexes are those of the next
    /// segment, as at the source.
    pub fn set_rules(&mut self, rules: LogRules) {
        let of_active = self.roll_rules.index_bytes;
        self.roll_rules = RollRules { index_bytes: of_active, ..rules.roll_rules() };
        self.index_rules = rules.index_rules();
        self.spec.rules = rules;
    }

    fn new_segment(&mut self, base: i64) -> Segment<D> {
        self.roll_rules.index_bytes = self.index_rules.index_bytes;
        let mut segment = Segment::empty(base, self.index_rules);
        let jitter_ms = self.spec.rules.segment_jitter_ms;
        if jitter_ms > 0 {
            // The standard library's source of random keys will do.
            let random = RandomState::new().build_hasher().finish() as u32;
            segment.jitter_ms = self.roll_rules.jitter_ms(jitter_ms, random);
        }
        segment
    }

    /// Opens (or makes) the active segment's file.
    pub(super) fn open_active(&mut self) -> Result<(), Fault> {
        let path = self.active_path();
        let file = self.home.disk.open(&path, Open::Segment).map_err(|e| faults::files("open", &path, e))?;
        self.alignment = self.home.disk.alignment(&file);
        self.active.file = Some(Rc::new(file));
        Ok(())
    }

    fn remove_segment_files(&self, base: i64) -> Result<(), Fault> {
        for kind in SEGMENT_FILES {
            let path = files_of(&self.dir, base, kind);
            files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
        }
        Ok(())
    }

    /// Queues an allocation when a write up to `end` comes near the end of what the file has.
    pub(super) fn allocate_up_to(&mut self, end: u64, file: &Rc<D::File>) {
        if !self.allocates {
            return;
        }
        if let Some(range) = self.active.allocation(end, self.spec.rules.segment_bytes.max(0) as u64) {
            let (file, then) = (Rc::clone(file), Then::Nothing);
            let job = Job { file, work: Work::Allocate, touches: range, then };
            self.home.writers.submit(&self.jobs, job);
        }
    }

    /// Closes every rolled segment whose writes have completed: exact length, whole indexes, the snapshot behind it, and only
    /// then its name for the segment that follows.
    pub(super) fn close_rolled(&mut self) -> Result<(), Fault> {
        while self.closing.front().is_some_and(|closing| closing.jobs_end <= self.jobs.first()) {
            let Some(mut closing) = self.closing.pop_front() else {
                break;
            };
            let path = files_of(&self.dir, closing.base, FileKind::Log);
            if let Some(file) = &closing.file {
                self.home.disk.set_len(file, closing.end).map_err(|e| faults::files("cut", &path, e))?;
            }
            closing.indexes.finish(&self.dir).map_err(|e| faults::files("index", &path, e))?;
            self.write_snapshot(closing.next_base, &closing.snapshot)?;
            self.unsynced.segments.push_back(closing.base);
            let path = files_of(&self.dir, closing.next_base, FileKind::Log);
            let aside = files::with_suffix(&path, names::TEMPORARY_SUFFIX);
            files::rename(&aside, &path).map_err(|e| faults::files("rename", &aside, e))?;
            self.unsynced.directory = true;
        }
        Ok(())
    }

    /// Writes the producer state at `offset`, over what may be there.
    pub(super) fn write_snapshot(&mut self, offset: i64, bytes: &[u8]) -> Result<(), Fault> {
        let path = files_of(&self.dir, offset, FileKind::Snapshot);
        files::write(&path, bytes).map_err(|e| faults::files("write", &path, e))?;
        self.unsynced.snapshots.push_back(offset);
        Ok(())
    }
}

impl<D: Disk> Closing<D> {
    pub(super) fn base(&self) -> i64 {
        self.base
    }

    pub(super) fn file(&self) -> Option<&Rc<D::File>> {
        self.file.as_ref()
    }
}

impl<D: Disk> std::fmt::Debug for Closing<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closing").field("base", &self.base).field("end", &self.end).finish()
    }
}
