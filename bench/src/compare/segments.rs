//! A reader of segment files that shares nothing with the one that wrote them: sorted names, batch after batch.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::limits::STORED_BATCH_BYTES_MAX;

const BUFFER_BYTES: usize = 1 << 20;
const PREFIX_BYTES: usize = 12;
/// Up to and including the last offset delta.
const HEADER_BYTES_MIN: usize = 61;
const NAME_DIGITS: usize = 20;

/// A log that cannot be read.
#[derive(Debug, Error)]
pub enum LogError {
    /// The system refused.
    #[error("{}: {cause}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The files hold something else than a log.
    #[error("{}: {what}", path.display())]
    NotALog {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// The segments of one partition folder.
#[derive(Debug)]
pub struct LocalLog {
    /// Those not opened yet, the next one last.
    segments: Vec<(i64, PathBuf)>,
    base_offset: i64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    base_offset: i64,
    position: u64,
    file: BufReader<File>,
}

/// A batch as it lies in a file; empty after the last one.
#[derive(Debug, Default)]
pub struct LocalBatch {
    /// All bytes of it.
    pub bytes: Vec<u8>,
    file: String,
    position: u64,
}

impl LocalBatch {
    /// Its first offset.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.bytes.first_chunk().map_or(-1, |bytes| i64::from_be_bytes(*bytes))
    }

    /// The offset after its last.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        let delta =
            self.bytes.get(23..27).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| i32::from_be_bytes(*bytes));
        self.base_offset().saturating_add(i64::from(delta)).saturating_add(1)
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} at byte {} (offset {})", self.file, self.position, self.base_offset())
    }
}

impl LocalLog {
    /// Finds the segments.
    ///
    /// # Errors
    /// When the folder cannot be read or has no segment.
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        let system = |cause| LogError::System { path: dir.to_owned(), cause };
        let mut segments = Vec::new();
        for entry in fs::read_dir(dir).map_err(system)? {
            let path = entry.map_err(system)?.path();
            if let Some(base_offset) = base_offset_of(&path) {
                segments.push((base_offset, path));
            }
        }
        segments.sort_unstable();
        segments.reverse();
        let Some((base_offset, _)) = segments.last() else {
            return Err(LogError::NotALog { path: dir.to_owned(), what: "has no segment".into() });
        };
        Ok(Self { base_offset: *base_offset, segments, open: None })
    }

    /// The name of the first segment as a number.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// Reads the next batch into `into`, or leaves it empty at the end.
    ///
    /// # Errors
    /// When a file cannot be read or does not hold whole batches under its right name.
    pub fn next_batch(&mut self, into: &mut LocalBatch) -> Result<(), LogError> {
        into.bytes.clear();
        loop {
            if self.open.is_none() {
                let Some((base_offset, path)) = self.segments.pop() else { return Ok(()) };
                let file = File::open(&path).map_err(|cause| LogError::System { path: path.clone(), cause })?;
                let file = BufReader::with_capacity(BUFFER_BYTES, file);
                self.open = Some(Open { path, base_offset, position: 0, file });
            }
            if let Some(open) = &mut self.open
                && open.read(into)?
            {
                return Ok(());
            }
            self.open = None;
        }
    }
}

impl Open {
    /// Reads a batch; false at the end of the file.
    fn read(&mut self, into: &mut LocalBatch) -> Result<bool, LogError> {
        self.take(into, PREFIX_BYTES)?;
        if into.bytes.is_empty() {
            return Ok(false);
        }
        let length =
            into.bytes.get(8..PREFIX_BYTES).and_then(|bytes| bytes.first_chunk()).map(|b| i32::from_be_bytes(*b));
        let size = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0) + PREFIX_BYTES;
        if !(HEADER_BYTES_MIN..=STORED_BATCH_BYTES_MAX).contains(&size) {
            return Err(self.no_log("holds bytes that are no batch"));
        }
        self.take(into, size - PREFIX_BYTES)?;
        if into.bytes.len() < size {
            return Err(self.no_log("ends in the middle of a batch"));
        }
        if self.position == 0 && into.base_offset() != self.base_offset {
            return Err(self.no_log("does not begin with the offset of its name"));
        }
        into.position = self.position;
        into.file.clear();
        into.file.push_str(&self.path.file_name().unwrap_or_default().to_string_lossy());
        self.position += size as u64;
        Ok(true)
    }

    fn take(&mut self, into: &mut LocalBatch, bytes: usize) -> Result<(), LogError> {
        let taken = (&mut self.file).take(bytes as u64).read_to_end(&mut into.bytes);
        taken.map(drop).map_err(|cause| LogError::System { path: self.path.clone(), cause })
    }

    fn no_log(&self, what: &str) -> LogError {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        LogError::NotALog { path: self.path.clone(), what: format!("{name} {what} at byte {}", self.position) }
    }
}

fn base_offset_of(path: &Path) -> Option<i64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".log")?;
    (stem.len() == NAME_DIGITS && stem.bytes().all(|byte| byte.is_ascii_digit())).then(|| stem.parse().ok())?
}
