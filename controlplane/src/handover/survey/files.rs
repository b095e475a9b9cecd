//! The directories of partitions and of the node, as they lie on the disk.

use crate::handover::facts::{Files, LogDir};
use crate::handover::{locks, segments, tail};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use twinlog_proto::storage::kraft::METADATA_LOG;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names;
use twinlog_proto::storage::{checkpoint, partition_metadata};

/// Looks at the files of a partition in a data directory, as far as batches lie below `limit`.
///
/// # Errors
/// What cannot be read, and why.
pub(super) fn look(data: &Path, topic: &str, index: i32, limit: i64) -> Result<Files, String> {
    let directory = data.join(names::partition_dir(topic, index));
    let wrong = |cause: &dyn std::fmt::Display| format!("{}: {cause}", directory.display());
    let meta = fs::symlink_metadata(&directory).map_err(|cause| wrong(&cause))?;
    if !meta.is_dir() {
        return Err(wrong(&"it is no directory"));
    }
    let read = |name: &str| match fs::read(directory.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(wrong(&format_args!("{name}: {cause}"))),
    };
    let topic_id = match read(names::PARTITION_METADATA)? {
        Some(bytes) => Some(partition_metadata::parse(&bytes).map_err(|cause| wrong(&cause))?),
        None => None,
    };
    let epochs = match read(names::LEADER_EPOCHS)? {
        Some(bytes) => LeaderEpochs::parse(&bytes).map_err(|cause| wrong(&cause))?,
        None => LeaderEpochs::new(),
    };
    let tail = tail::read(&directory, limit).map_err(|cause| wrong(&cause))?;
    let start = log_start(data, topic, index).map_err(|cause| wrong(&cause))?;
    Ok(Files {
        device: meta.dev(),
        owner: (meta.uid(), meta.gid()),
        is_writable: may_write(&directory) && may_write(data),
        topic_id,
        start: start.unwrap_or(tail.first_base).max(tail.first_base),
        end: tail.end,
        epoch_max: epochs.latest().map_or(-1, |latest| latest.epoch),
        producers: tail.state.entries(),
        samples: tail.first.into_iter().chain(tail.last).filter(|sample| sample.last_offset < tail.end).collect(),
        segments: segments::list(&directory).map_err(|cause| wrong(&cause))?,
        snapshot: tail.snapshot,
        bytes: bytes_in(&directory).map_err(|cause| wrong(&cause))?,
        directory,
    })
}

/// The log start of a partition that does not begin with its first segment.
fn log_start(data: &Path, topic: &str, index: i32) -> io::Result<Option<i64>> {
    let bytes = match fs::read(data.join(names::LOG_STARTS)) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let entries = checkpoint::parse(&bytes).map_err(io::Error::other)?;
    Ok(entries.iter().find(|entry| entry.topic == topic && entry.partition == index).map(|entry| entry.offset))
}

fn bytes_in(directory: &Path) -> io::Result<u64> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// Looks at a log directory of the node.
///
/// # Errors
/// When it is there and cannot be read.
pub fn log_dir(path: &Path, data: &[PathBuf]) -> io::Result<LogDir> {
    let nearest = nearest(path);
    let meta = fs::metadata(&nearest)?;
    let free = rustix::fs::statvfs(&nearest)?;
    let is_data = path.ancestors().any(|path| data.iter().any(|data| is_same(data, path)));
    let mut foreign = Vec::new();
    match fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if !entry.file_type()?.is_dir() || name == METADATA_LOG {
                    continue;
                }
                if names::parse_partition_dir(&name).is_none() {
                    foreign.push(name);
                }
            }
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(cause),
    }
    foreign.sort();
    Ok(LogDir {
        path: path.to_owned(),
        device: meta.dev(),
        owner: (meta.uid(), meta.gid()),
        is_writable: may_write(&nearest),
        free_bytes: free.f_bavail.saturating_mul(free.f_frsize),
        is_locked: locks::is_taken(path),
        is_data,
        foreign,
    })
}

/// The device of the file system on which `path` is or would be made.
///
/// # Errors
/// As the system says.
pub fn device_of(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(nearest(path))?.dev())
}

/// The path, or the nearest folder above it that exists.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => a == b,
    }
}
