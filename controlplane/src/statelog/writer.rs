//! Appends to the state log: one batch and one fdatasync for each group of changes, before anyone is told of them.
//!
//! Owned by the driver, which lends it to a blocking thread for each append. A write that fails is taken back (the file
//! is cut to where it ended), so a full disk refuses changes and nothing else. A sync that fails leaves unknown what is
//! on the disk: the log takes nothing any more until the process has started again and replayed.

use crate::error::Fatal;
use crate::limits::{SNAPSHOT_BATCH_BYTES, STATE_BATCH_BYTES_MAX};
use crate::statelog::batch::{self, KeyValue};
use crate::statelog::replay::Replayed;
use crate::steps::{self, Step};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of the log in STATE.
pub const LOG_DIRECTORY: &str = "__mirror_state";
/// The log's file in its directory.
pub const LOG_FILE: &str = "00000000000000000000.log";

/// What the writer needs of a file; the second implementation is the failing one of the tests.
pub trait StateFile: Send + 'static {
    /// Writes all of `bytes` at `position`.
    ///
    /// # Errors
    /// As the file system says; some of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// Makes what was written durable.
    ///
    /// # Errors
    /// As the file system says.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to `size_bytes`.
    ///
    /// # Errors
    /// As the file system says.
    fn cut(&self, size_bytes: u64) -> io::Result<()>;
}

impl StateFile for File {
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.set_len(size_bytes)
    }
}

/// Why a change is not durable.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The write failed and was taken back; a later one may succeed.
    #[error("the state log cannot be written: {0}; free space on the disk of --state")]
    Refused(#[source] io::Error),
    /// What would be written together is more than is believed when it is read back.
    #[error("the change takes {bytes} bytes in the state log, {max} are the most; ask for less at a time", max = STATE_BATCH_BYTES_MAX)]
    TooLarge {
        /// Bytes of the batch, at most.
        bytes: usize,
    },
    /// A sync failed, now or before.
    #[error("the state log failed to reach the disk ({0}); check the disk of --state, then restart the control plane")]
    Poisoned(String),
}

/// The end of the log.
#[derive(Debug)]
pub struct LogWriter<F: StateFile = File> {
    file: F,
    next_offset: i64,
    size_bytes: u64,
    poisoned: Option<String>,
    scratch: Vec<u8>,
    marks: Marks,
}

/// The steps that an append passes.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    /// Written and not synced.
    pub written: Step,
    /// Durable.
    pub durable: Step,
}

impl Marks {
    /// Of most changes.
    pub const CHANGE: Self = Self { written: Step::ChangeWritten, durable: Step::ChangeDurable };
    /// Of those that say where mirroring ended.
    pub const END: Self = Self { written: Step::EndWritten, durable: Step::EndDurable };
}

impl<F: StateFile> LogWriter<F> {
    /// Continues `file`, whose whole batches end at `size_bytes` and `next_offset`.
    pub fn new(file: F, next_offset: i64, size_bytes: u64) -> Self {
        Self { file, next_offset, size_bytes, poisoned: None, scratch: Vec::new(), marks: Marks::CHANGE }
    }

    /// The steps that the next append passes.
    pub fn mark(&mut self, marks: Marks) {
        self.marks = marks;
    }

    /// Bytes of whole batches.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The offset of the next record.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Writes `records` as one batch and syncs it; returns the offset of the first.
    ///
    /// # Errors
    /// When they are not durable; then none of them is replayed later, except after a failed sync, where nobody can know.
    pub fn append(&mut self, now_ms: i64, records: &[KeyValue]) -> Result<i64, WriteError> {
        if let Some(cause) = &self.poisoned {
            return Err(WriteError::Poisoned(cause.clone()));
        }
        let bytes = batch::size_bytes_max(records);
        if bytes > STATE_BATCH_BYTES_MAX {
            return Err(WriteError::TooLarge { bytes });
        }
        self.scratch.clear();
        batch::encode(&mut self.scratch, self.next_offset, now_ms, records);
        if let Err(cause) = self.file.write_all_at(&self.scratch, self.size_bytes) {
            if let Err(cut) = self.file.cut(self.size_bytes) {
                let both = format!("{cause}, and the half-written batch could not be cut off: {cut}");
                self.poisoned = Some(both.clone());
                return Err(WriteError::Poisoned(both));
            }
            return Err(WriteError::Refused(cause));
        }
        steps::passed(self.marks.written);
        if let Err(cause) = self.file.sync() {
            self.poisoned = Some(cause.to_string());
            return Err(WriteError::Poisoned(cause.to_string()));
        }
        steps::passed(self.marks.durable);
        let base_offset = self.next_offset;
        self.next_offset += records.len() as i64;
        self.size_bytes += self.scratch.len() as u64;
        // The memory of a rare large commit is given back.
        self.scratch.clear();
        self.scratch.shrink_to(SNAPSHOT_BATCH_BYTES);
        Ok(base_offset)
    }
}

/// The path of the log in `state`.
#[must_use]
pub fn log_path(state: &Path) -> PathBuf {
    state.join(LOG_DIRECTORY).join(LOG_FILE)
}

/// Opens the log for appending where `replayed` ends, cutting a torn tail off; creates it when it is absent.
///
/// # Errors
/// When the directory or file cannot be made, cut or synced.
pub fn open(state: &Path, replayed: &Replayed) -> Result<LogWriter, Fatal> {
    let path = log_path(state);
    create(&path, replayed.size_bytes)
        .map(|file| LogWriter::new(file, replayed.next_offset, replayed.size_bytes))
        .map_err(|cause| {
            Fatal::new(
                format_args!("cannot open the state log {}", path.display()),
                cause,
                "give --state a directory that this user may write, with space left",
            )
        })
}

fn create(path: &Path, size_bytes: u64) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_len(size_bytes)?;
    file.sync_all()?;
    File::open(folder)?.sync_all()?;
    if let Some(state) = folder.parent() {
        File::open(state)?.sync_all()?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statelog::replay::tests::counted;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Flaky {
        bytes: Mutex<Vec<u8>>,
        room: Mutex<usize>,
        sync_fails: Mutex<bool>,
    }

    impl StateFile for Arc<Flaky> {
        fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
            let mut file = self.bytes.lock().unwrap();
            assert_eq!(file.len() as u64, position);
            let fits = bytes.len().min(self.room.lock().unwrap().saturating_sub(file.len()));
            file.extend_from_slice(&bytes[..fits]);
            if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn sync(&self) -> io::Result<()> {
            if *self.sync_fails.lock().unwrap() { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
        }

        fn cut(&self, size_bytes: u64) -> io::Result<()> {
            self.bytes.lock().unwrap().truncate(size_bytes as usize);
            Ok(())
        }
    }

    fn record() -> Vec<KeyValue> {
        vec![KeyValue { key: vec![0, 2], value: Some(vec![1; 100]) }]
    }

    #[test]
    fn a_full_disk_refuses_a_change_leaves_no_trace_and_takes_the_next_one_when_there_is_room() {
        let file = Arc::new(Flaky { room: Mutex::new(300), ..Flaky::default() });
        let mut log = LogWriter::new(Arc::clone(&file), 0, 0);
        assert_eq!(log.append(1, &record()).unwrap(), 0);
        assert!(matches!(log.append(1, &record()), Err(WriteError::Refused(_))));
        assert_eq!(file.bytes.lock().unwrap().len() as u64, log.size_bytes());
        *file.room.lock().unwrap() = 10_000;
        assert_eq!(log.append(1, &record()).unwrap(), 1);
        assert_eq!(counted(&file.bytes.lock().unwrap()[..]).unwrap().1.len(), 2);
    }

    #[test]
    fn a_batch_that_replay_would_not_believe_is_refused_and_the_largest_one_is_read_back() {
        let state = tempfile::tempdir().unwrap();
        let path = log_path(state.path());
        let mut log = open(state.path(), &Replayed::default()).unwrap();
        let of = |bytes| [KeyValue { key: vec![0, 2], value: Some(vec![1; bytes]) }];
        assert!(matches!(log.append(1, &of(STATE_BATCH_BYTES_MAX)), Err(WriteError::TooLarge { .. })));
        log.append(1, &of(STATE_BATCH_BYTES_MAX - 100)).unwrap();
        let (replayed, _) = counted(&File::open(path).unwrap()).unwrap();
        assert_eq!((replayed.next_offset, replayed.torn_bytes), (1, 0));
    }

    #[test]
    fn a_failed_sync_poisons_the_log_for_good() {
        let file = Arc::new(Flaky { room: Mutex::new(10_000), ..Flaky::default() });
        let mut log = LogWriter::new(Arc::clone(&file), 0, 0);
        *file.sync_fails.lock().unwrap() = true;
        assert!(matches!(log.append(1, &record()), Err(WriteError::Poisoned(_))));
        *file.sync_fails.lock().unwrap() = false;
        assert!(matches!(log.append(1, &record()), Err(WriteError::Poisoned(_))));
    }

    #[test]
    fn an_opened_log_continues_after_its_last_whole_batch() {
        let state = tempfile::tempdir().unwrap();
        let path = log_path(state.path());
        let mut log = open(state.path(), &Replayed::default()).unwrap();
        log.append(1, &record()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &whole[..50]].concat()).unwrap();

        let (replayed, _) = counted(&File::open(&path).unwrap()).unwrap();
        assert_eq!((replayed.next_offset, replayed.torn_bytes), (1, 50));
        let mut log = open(state.path(), &replayed).unwrap();
        assert_eq!(log.append(2, &record()).unwrap(), 1);
        assert_eq!(counted(&File::open(&path).unwrap()).unwrap().1.len(), 2);
    }
}
