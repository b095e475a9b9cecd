//! Appends to the state log: one batch and one fdatasync for each group of changes, before anyone is told of them.
//!
//! Owned by `durable`, which lends it to a blocking thread for each append. A write that fails is taken back (the file
//! is cut to where it ended, at the next append when it cannot be cut now), so a full disk refuses changes and nothing else,
//! and takes them again when there is space. A sync that fails leaves unknown what is on the disk: the log takes nothing
//! any more until the process has started again and replayed.

use crate::error::Fatal;
use crate::files;
use crate::limits::{PROBE_BYTES_MAX, SNAPSHOT_BATCH_BYTES, STATE_BATCH_BYTES_MAX};
use crate::statelog::batch::{self, KeyValue};
use crate::statelog::replay::Replayed;
use crate::steps::{self, Step};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tracing::warn;

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
    /// The write failed; none of it counts, and a later one may succeed.
    #[error("the state log cannot be written: {0}; {remedy}", remedy = files::remedy(.0))]
    Refused(#[source] io::Error),
    /// What an earlier write left behind the end of the log cannot be cut off yet; a later try may succeed.
    #[error("the state log cannot be written: the rest of a change that failed cannot be cut off: {0}; {remedy}", remedy = files::remedy(.0))]
    Uncut(#[source] io::Error),
    /// What would be written together is more than is believed when it is read back.
    #[error("the change takes {bytes} bytes in the state log, {max} are the most; ask for less at a time", max = STATE_BATCH_BYTES_MAX)]
    TooLarge {
        /// Bytes of the batch, at most.
        bytes: usize,
    },
    /// A sync failed or the log's place in its folder is unknown, now or before: only a replay can tell what is durable.
    #[error(
        "the state log failed to reach the disk ({0}); check the disk of STATE (--state), then restart the control plane"
    )]
    Poisoned(String),
}

/// The end of the log.
#[derive(Debug)]
pub struct LogWriter<F: StateFile = File> {
    file: F,
    next_offset: i64,
    size_bytes: u64,
    poisoned: Option<String>,
    /// Something may lie behind `size_bytes`, which has to be cut off before the next batch.
    is_uncut: bool,
    /// Of the last batch that there was no room for.
    refused_bytes: usize,
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
        let (scratch, marks) = (Vec::new(), Marks::CHANGE);
        Self { file, next_offset, size_bytes, poisoned: None, is_uncut: false, refused_bytes: 0, scratch, marks }
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
        let bytes = batch::size_bytes_max(records);
        if bytes > STATE_BATCH_BYTES_MAX {
            return Err(WriteError::TooLarge { bytes });
        }
        self.can_be_appended_to()?;
        self.scratch.clear();
        batch::encode(&mut self.scratch, self.next_offset, now_ms, records);
        self.write()?;
        steps::passed(self.marks.written);
        if let Err(cause) = self.file.sync() {
            self.poisoned = Some(cause.to_string());
            return Err(WriteError::Poisoned(cause.to_string()));
        }
        steps::passed(self.marks.durable);
        let base_offset = self.next_offset;
        self.next_offset += records.len() as i64;
        self.size_bytes += self.scratch.len() as u64;
        self.forget_batch();
        Ok(base_offset)
    }

    /// The memory of a rare large commit is given back.
    fn forget_batch(&mut self) {
        self.scratch.clear();
        self.scratch.shrink_to(SNAPSHOT_BATCH_BYTES);
    }

    /// Whether there is room again for a batch like the last one that was refused: bytes that are no batch are written behind
    /// the end and cut off. A crash between leaves a torn tail.
    ///
    /// # Errors
    /// As an append would fail.
    pub fn probe(&mut self) -> Result<(), WriteError> {
        self.can_be_appended_to()?;
        self.scratch.clear();
        self.scratch.resize(self.refused_bytes.clamp(1, PROBE_BYTES_MAX), 0);
        self.is_uncut = true;
        self.write()?;
        self.can_be_appended_to()
    }

    /// Sees to it that the file ends with its last whole batch.
    fn can_be_appended_to(&mut self) -> Result<(), WriteError> {
        if let Some(cause) = &self.poisoned {
            return Err(WriteError::Poisoned(cause.clone()));
        }
        if self.is_uncut {
            self.file.cut(self.size_bytes).map_err(WriteError::Uncut)?;
            self.is_uncut = false;
        }
        Ok(())
    }

    /// Writes what is encoded behind the end; takes it back when it does not fit.
    fn write(&mut self) -> Result<(), WriteError> {
        let Err(cause) = self.file.write_all_at(&self.scratch, self.size_bytes) else { return Ok(()) };
        self.refused_bytes = self.scratch.len();
        self.forget_batch();
        self.is_uncut = true;
        if let Err(uncut) = self.can_be_appended_to() {
            warn!(%uncut, "a change that was refused is cut off later");
        }
        Err(WriteError::Refused(cause))
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
            let remedy = files::remedy(&cause);
            Fatal::new(format_args!("cannot open the state log {}", path.display()), cause, remedy)
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
        cut_fails: Mutex<bool>,
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
            if *self.cut_fails.lock().unwrap() {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
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
    fn a_rest_that_cannot_be_cut_off_is_cut_later_and_until_then_every_change_is_refused_with_the_remedy() {
        let file = Arc::new(Flaky { room: Mutex::new(300), ..Flaky::default() });
        let mut log = LogWriter::new(Arc::clone(&file), 0, 0);
        log.append(1, &record()).unwrap();
        *file.cut_fails.lock().unwrap() = true;
        let why = log.append(1, &record()).unwrap_err().to_string();
        assert!(why.contains("free space on the disk of STATE (--state)"), "{why}");
        *file.room.lock().unwrap() = 10_000;
        for refused in [log.append(1, &record()).map(|_| ()), log.probe()] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("cannot be cut off") && why.contains("e2fsck"), "{why}");
            assert_eq!(counted(&file.bytes.lock().unwrap()[..]).unwrap().0.next_offset, 1, "a crash now loses nothing");
        }
        *file.cut_fails.lock().unwrap() = false;
        assert_eq!(log.append(1, &record()).unwrap(), 1);
        let (replayed, batches) = counted(&file.bytes.lock().unwrap()[..]).unwrap();
        assert_eq!((replayed.torn_bytes, batches.len()), (0, 2));
    }

    #[test]
    fn a_probe_finds_room_for_what_was_refused_and_leaves_nothing_behind() {
        let file = Arc::new(Flaky { room: Mutex::new(300), ..Flaky::default() });
        let mut log = LogWriter::new(Arc::clone(&file), 0, 0);
        log.append(1, &record()).unwrap();
        log.append(1, &record()).unwrap_err();
        for (room, finds) in [(300, false), (log.size_bytes() as usize + 10, false), (10_000, true)] {
            *file.room.lock().unwrap() = room;
            assert_eq!(log.probe().is_ok(), finds, "room for {room} bytes");
            assert_eq!(file.bytes.lock().unwrap().len() as u64, log.size_bytes());
        }
        *file.cut_fails.lock().unwrap() = true;
        log.probe().unwrap_err();
        let (left, _) = counted(&file.bytes.lock().unwrap()[..]).unwrap();
        assert!(left.next_offset == 1 && left.torn_bytes > 0, "a torn tail after a crash: {left:?}");
        *file.cut_fails.lock().unwrap() = false;
        assert_eq!(log.append(1, &record()).unwrap(), 1);
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
