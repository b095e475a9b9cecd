//! The index files of one segment: entries wait in memory until the bytes they point to are written.
//!
//! On disk an index may trail the log, it never leads it. When entries are due is decided by `SegmentIndexer` in `proto`.

use std::io;
use std::path::Path;

use twinlog_proto::storage::names::FileKind;

use super::{files_of, with_file_of};
use crate::disk::files;

/// Entries of one index file: some in the file, the rest waiting.
#[derive(Debug)]
pub(super) struct IndexFile {
    kind: FileKind,
    entry_bytes: usize,
    /// Bytes of entries in the file.
    written: u64,
    waiting: Vec<u8>,
}

impl IndexFile {
    pub(super) fn new(kind: FileKind, entry_bytes: usize, written: u64) -> Self {
        Self { kind, entry_bytes, written, waiting: Vec::new() }
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, entry: &[u8]) {
        assert_eq!(entry.len(), self.entry_bytes, "an index holds entries of one size");
        self.waiting.extend_from_slice(entry);
    }

    /// Writes the waiting entries as far as `written` says that the record they point to is written.
    pub(super) fn drain(&mut self, dir: &Path, base: i64, written: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let due = self.waiting.chunks_exact(self.entry_bytes).take_while(|entry| written(entry)).count();
        if due == 0 {
            return Ok(());
        }
        let bytes = due * self.entry_bytes;
        let entries = &self.waiting[..bytes];
        with_file_of(dir, base, self.kind, |path| files::write_at(path, self.written, entries))?;
        self.written += bytes as u64;
        // The capacity stays: the next entries cost no allocation.
        self.waiting.drain(..bytes);
        Ok(())
    }

    /// Writes everything and makes the file exactly as long as its entries.
    pub(super) fn finish(&mut self, dir: &Path, base: i64) -> io::Result<()> {
        self.drain(dir, base, |_| true)?;
        files::set_len(&files_of(dir, base, self.kind), self.written)
    }

    /// Whether the first waiting entry may be written.
    pub(super) fn is_due(&self, written: impl Fn(&[u8]) -> bool) -> bool {
        self.waiting.get(..self.entry_bytes).is_some_and(written)
    }

    /// Whether the file has or will have entries.
    pub(super) fn is_empty(&self) -> bool {
        self.written == 0 && self.waiting.is_empty()
    }
}
