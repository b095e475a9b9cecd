//! The offset checkpoints of a data directory: what they say at the start, what they shall say, and writing them.
//!
//! Used by `housekeeping` alone, except for reading at the start. A file is written aside, synced, renamed, and its directory
//! synced: it is the old one or the new one, never a half.

use crate::disk::files;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::error::DecodeError;
use twinlog_proto::storage::checkpoint::{self, PartitionOffset};
use twinlog_proto::storage::names::{HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, partition_dir};

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The system refused a step.
    #[error("cannot {what} {}: {source}", path.display())]
    System {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is damaged.
    #[error("{} is damaged: {source}; when it is deleted, all logs of the directory are read through at the next start", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The directory is none that this process was started with.
    #[error("{} is not one of the data directories", path.display())]
    NoSuchDirectory {
        /// The directory asked for.
        path: PathBuf,
    },
    /// The slot was not tracked before.
    #[error("slot {slot} belongs to no log that is tracked")]
    NotTracked {
        /// The slot asked for.
        slot: u32,
    },
    /// The thread has ended already, or panicked.
    #[error("the housekeeping thread is gone")]
    Gone,
}

/// What the checkpoints of all data directories say about their logs.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    pub(crate) directories: Vec<Directory>,
}

impl Checkpoints {
    /// Reads the checkpoints of these directories. Missing and empty files are empty checkpoints; logs whose directory is gone
    /// are left out.
    ///
    /// # Errors
    /// When a file is damaged or cannot be read.
    pub fn load(directories: &[PathBuf]) -> Result<Self, CheckpointError> {
        Ok(Self { directories: directories.iter().map(|path| Directory::load(path)).collect::<Result<_, _>>()? })
    }

    /// Below this the log was on the disk when the checkpoint was written.
    #[must_use]
    pub fn recovery_point(&self, directory: &Path, topic: &str, partition: i32) -> Option<i64> {
        self.log(directory, topic, partition)?.recovery_point
    }

    /// The first offset of the log, when it is above the base of its first segment.
    #[must_use]
    pub fn log_start(&self, directory: &Path, topic: &str, partition: i32) -> Option<i64> {
        self.log(directory, topic, partition)?.log_start
    }

    fn log(&self, directory: &Path, topic: &str, partition: i32) -> Option<&Log> {
        let directory = self.directories.iter().find(|known| known.path == directory)?;
        directory.logs.get(&(topic.to_owned(), partition))
    }
}

/// A log by topic and partition.
pub type LogKey = (String, i32);

/// What the checkpoints are to say of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Everything below is durable.
    pub recovery_point: i64,
    /// Everything below may be shown to clients.
    pub high_watermark: i64,
    /// The first offset, when it is above the base of the first segment.
    pub log_start: Option<i64>,
}

/// Writes the checkpoints of a directory that no process uses: these logs as given, the others as they are; logs whose directory is
/// gone are left out.
///
/// # Errors
/// When a file is damaged, or cannot be read or written.
pub fn set(directory: &Path, logs: &[(LogKey, Ends)]) -> Result<(), CheckpointError> {
    let mut directory = Directory::load(directory)?;
    for (key, Ends { recovery_point, high_watermark, log_start }) in logs {
        let log =
            Log { recovery_point: Some(*recovery_point), high_watermark: Some(*high_watermark), log_start: *log_start };
        directory.logs.insert(key.clone(), log);
    }
    directory.write()
}

#[derive(Debug, Clone)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) logs: BTreeMap<LogKey, Log>,
    /// What the files hold, to write only what changed.
    written: [Option<String>; 3],
    /// Something in `logs` changed since the files were made: with many thousand idle logs their text is not made in vain.
    changed: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) recovery_point: Option<i64>,
    high_watermark: Option<i64>,
    log_start: Option<i64>,
}

impl Log {
    /// Takes over what the board says; nothing above `ceiling`.
    pub(crate) fn follow(&mut self, progress: &PartitionProgress, ceiling: i64) {
        if progress.leo < 0 {
            return;
        }
        // What was fetched was below the source's high watermark, so the log end stands in for an unknown one.
        let source = if progress.source_high_watermark < 0 { i64::MAX } else { progress.source_high_watermark };
        self.high_watermark = Some(source.min(progress.leo).min(ceiling));
        if progress.flushed < 0 {
            return;
        }
        self.recovery_point = Some(progress.flushed.min(ceiling));
        // A broker deletes all segments of a log whose start is above its end: never name one that might be.
        let on_disk = progress.flushed.min(ceiling);
        let start = progress.log_start;
        self.log_start = (progress.start_within_segment && (0..=on_disk).contains(&start)).then_some(start);
    }

    pub(crate) fn cut(&mut self, offset: i64) {
        self.recovery_point = self.recovery_point.map(|known| known.min(offset));
        self.high_watermark = self.high_watermark.map(|known| known.min(offset));
        self.log_start = self.log_start.filter(|known| *known <= offset);
    }
}

impl Directory {
    fn load(path: &Path) -> Result<Self, CheckpointError> {
        let mut directory =
            Self { path: path.to_owned(), logs: BTreeMap::new(), written: [const { None }; 3], changed: true };
        let names = names_in(path).map_err(failed("list", path))?;
        for (file, name) in FILES {
            for PartitionOffset { topic, partition, offset } in read(&path.join(name))? {
                if names.contains(&partition_dir(&topic, partition)) {
                    *file.of(directory.logs.entry((topic, partition)).or_default()) = Some(offset);
                }
            }
        }
        Ok(directory)
    }

    /// Takes over what the board says of a log; nothing above `ceiling`.
    pub(crate) fn follow(&mut self, key: &LogKey, progress: &PartitionProgress, ceiling: i64) {
        let log = match self.logs.get_mut(key) {
            Some(log) => log,
            None => self.logs.entry(key.clone()).or_default(),
        };
        let before = *log;
        log.follow(progress, ceiling);
        self.changed |= before != *log;
    }

    /// Nothing of the log is above `offset` from now on.
    pub(crate) fn cut(&mut self, key: &LogKey, offset: i64) {
        if let Some(log) = self.logs.get_mut(key) {
            log.cut(offset);
            self.changed = true;
        }
    }

    /// The log leaves the checkpoints.
    pub(crate) fn remove(&mut self, key: &LogKey) {
        self.changed |= self.logs.remove(key).is_some();
    }

    /// Writes the files whose content changed.
    pub(crate) fn write(&mut self) -> Result<(), CheckpointError> {
        if !self.changed {
            return Ok(());
        }
        let mut renamed = false;
        for (at, (file, name)) in FILES.into_iter().enumerate() {
            let named = |(key, log): (&LogKey, &mut Log)| {
                Some(PartitionOffset { topic: key.0.clone(), partition: key.1, offset: (*file.of(log))? })
            };
            let text = checkpoint::to_text(&self.logs.iter_mut().filter_map(named).collect::<Vec<_>>());
            if self.written[at].as_ref() != Some(&text) {
                write_aside(&self.path.join(name), &text)?;
                self.written[at] = Some(text);
                renamed = true;
            }
        }
        if renamed {
            files::sync(&self.path).map_err(failed("sync", &self.path))?;
        }
        self.changed = false;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Which {
    RecoveryPoint,
    HighWatermark,
    LogStart,
}

const FILES: [(Which, &str); 3] =
    [(Which::RecoveryPoint, RECOVERY_POINTS), (Which::HighWatermark, HIGH_WATERMARKS), (Which::LogStart, LOG_STARTS)];

impl Which {
    fn of(self, log: &mut Log) -> &mut Option<i64> {
        match self {
            Self::RecoveryPoint => &mut log.recovery_point,
            Self::HighWatermark => &mut log.high_watermark,
            Self::LogStart => &mut log.log_start,
        }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::System { what, path, source }
}

/// What a directory holds; nothing when it is not there. One that cannot be listed is not taken for empty: every log would
/// leave the checkpoints.
fn names_in(path: &Path) -> io::Result<HashSet<String>> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashSet::new()),
        entries => entries?,
    };
    let mut names = HashSet::new();
    for entry in entries {
        // A name that is no text is no partition's.
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<PartitionOffset>, CheckpointError> {
    let Some(text) = files::read(path).map_err(failed("read", path))? else { return Ok(Vec::new()) };
    checkpoint::parse(&text).map_err(|source| CheckpointError::Malformed { path: path.to_owned(), source })
}

fn write_aside(path: &Path, text: &str) -> Result<(), CheckpointError> {
    let (aside, mut file) = files::create_aside(path).map_err(failed("write beside", path))?;
    file.write_all(text.as_bytes()).map_err(failed("write", &aside))?;
    file.sync_all().map_err(failed("sync", &aside))?;
    std::fs::rename(&aside, path).map_err(failed("replace", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::channel::progress::SlotState;

    #[test]
    fn a_log_start_above_what_is_on_the_disk_is_not_written() {
        let mut log = Log::default();
        let seen = PartitionProgress::unknown(9, SlotState::Mirroring);
        let seen = PartitionProgress { leo: 9, flushed: 4, log_start: 5, start_within_segment: true, ..seen };
        log.follow(&seen, i64::MAX);
        assert_eq!((log.log_start, log.recovery_point), (None, Some(4)));
        log.follow(&PartitionProgress { flushed: 5, ..seen }, i64::MAX);
        assert_eq!(log.log_start, Some(5));
    }
}
