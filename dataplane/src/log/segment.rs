//! The segment that is appended to: its file, its allocation, its indexes; and what becomes of it at a roll.

use std::io;
use std::path::Path;
use std::rc::Rc;

use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::storage::names::FileKind;
use twinlog_proto::storage::segment_indexer::{IndexRules, SegmentIndexer};
use twinlog_proto::storage::txn_index::AbortedTxn;
use twinlog_proto::storage::{offset_index, time_index, txn_index};

use super::files_of;
use super::index::IndexFile;
use crate::disk::Disk;
use crate::disk::files;
use crate::limits::{ALLOCATE_STEP_BYTES_MAX, ALLOCATE_STEP_BYTES_MIN};

/// The active segment.
pub(super) struct Segment<D: Disk> {
    /// The offset that names it.
    pub(super) base: i64,
    /// Open while it is written to; an idle log holds no descriptor.
    pub(super) file: Option<Rc<D::File>>,
    /// File position after the last whole batch.
    pub(super) end: u64,
    /// Length that the file was given in advance.
    pub(super) allocated: u64,
    /// What it grows by next.
    pub(super) step: u64,
    /// What rolls by time: largest timestamp of the first batch.
    pub(super) first_timestamp_ms: Option<i64>,
    /// When the first batch came, for batches without a timestamp.
    pub(super) created_at_ms: Option<i64>,
    /// What shortens its time, drawn when it was made.
    pub(super) jitter_ms: i64,
    pub(super) indexes: Indexes,
}

/// The three indexes of a segment and the rules by which they grow.
#[derive(Debug)]
pub(super) struct Indexes {
    pub(super) indexer: SegmentIndexer,
    pub(super) offsets: IndexFile,
    pub(super) times: IndexFile,
    pub(super) txns: IndexFile,
    base: i64,
}

impl<D: Disk> Segment<D> {
    /// A segment without batches.
    pub(super) fn empty(base: i64, rules: IndexRules) -> Self {
        Self {
            base,
            file: None,
            end: 0,
            allocated: 0,
            step: ALLOCATE_STEP_BYTES_MIN,
            first_timestamp_ms: None,
            created_at_ms: None,
            jitter_ms: 0,
            indexes: Indexes::empty(base, rules),
        }
    }

    /// What to allocate so that a write up to `end` finds room, if anything: steps double while the segment grows.
    pub(super) fn allocation(&mut self, end: u64, segment_bytes: u64) -> Option<std::ops::Range<u64>> {
        if end + self.step / 2 <= self.allocated {
            return None;
        }
        // The last step before the roll is cut to what the segment may hold.
        let wanted = (self.allocated.max(end) + self.step).min(segment_bytes.next_multiple_of(ALLOCATE_STEP_BYTES_MIN));
        let wanted = wanted.max(end);
        if wanted <= self.allocated {
            return None;
        }
        let range = self.allocated..wanted;
        self.allocated = wanted;
        self.step = (self.step * 2).min(ALLOCATE_STEP_BYTES_MAX);
        Some(range)
    }
}

impl<D: Disk> std::fmt::Debug for Segment<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("base", &self.base)
            .field("end", &self.end)
            .field("allocated", &self.allocated)
            .field("open", &self.file.is_some())
            .finish()
    }
}

impl Indexes {
    pub(super) fn empty(base: i64, rules: IndexRules) -> Self {
        Self {
            indexer: SegmentIndexer::new(base, rules),
            offsets: IndexFile::new(FileKind::OffsetIndex, offset_index::ENTRY_BYTES, 0),
            times: IndexFile::new(FileKind::TimeIndex, time_index::ENTRY_BYTES, 0),
            txns: IndexFile::new(FileKind::TxnIndex, txn_index::ENTRY_BYTES, 0),
            base,
        }
    }

    /// Adds what is due for a batch at `position`.
    pub(super) fn note(&mut self, header: &BatchHeader, position: u64, aborted: Option<&AbortedTxn>) {
        let base = self.base;
        let due = self.indexer.append(header, position as u32);
        if let Some(entry) = due.offset {
            self.offsets.push(&entry.encode(base));
        }
        if let Some(entry) = due.time {
            self.times.push(&entry.encode(base));
        }
        if let Some(entry) = aborted {
            self.txns.push(&entry.encode());
        }
    }

    /// Writes the entries whose records lie below `leo`, which is written.
    pub(super) fn drain(&mut self, dir: &Path, leo: i64) -> io::Result<()> {
        let base = self.base;
        self.offsets.drain(dir, base, |entry| base + i64::from(int32(entry, 0)) < leo)?;
        self.times.drain(dir, base, |entry| base + i64::from(int32(entry, 8)) < leo)?;
        self.txns.drain(dir, base, |entry| int64(entry, 18) < leo)
    }

    /// Empties the files, whose entries are waiting here: before a log is cut, so that no entry ever points behind its end.
    pub(super) fn reset_files(&mut self, dir: &Path) -> io::Result<()> {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex] {
            let path = files_of(dir, self.base, kind);
            if files::length(&path)?.is_some_and(|bytes| bytes > 0) {
                files::set_len(&path, 0)?;
            }
        }
        Ok(())
    }

    /// Whether an entry for a record below `leo` waits to be written.
    pub(super) fn is_waiting(&self, leo: i64) -> bool {
        let base = self.base;
        self.offsets.is_due(|entry| base + i64::from(int32(entry, 0)) < leo)
            || self.times.is_due(|entry| base + i64::from(int32(entry, 8)) < leo)
            || self.txns.is_due(|entry| int64(entry, 18) < leo)
    }

    /// Writes everything, with the final time index entry that a closed segment has; lengths are exact afterwards.
    pub(super) fn finish(&mut self, dir: &Path) -> io::Result<()> {
        if let Some(entry) = self.indexer.on_close() {
            self.times.push(&entry.encode(self.base));
        }
        self.offsets.finish(dir, self.base)?;
        self.times.finish(dir, self.base)?;
        if self.txns.is_empty() {
            return files::remove(&files_of(dir, self.base, FileKind::TxnIndex));
        }
        self.txns.finish(dir, self.base)
    }
}

fn int32(entry: &[u8], at: usize) -> i32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&entry[at..at + 4]);
    i32::from_be_bytes(bytes)
}

fn int64(entry: &[u8], at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[at..at + 8]);
    i64::from_be_bytes(bytes)
}
