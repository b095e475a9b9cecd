//! Keeps a second instance, and a stock broker, away from the same directories.
//!
//! `STATE/lock` names the process that holds it. `DATA/.lock` is the file that a stock broker locks too, with a record lock, as
//! Java does; a record lock does not keep two openers within one process apart, so a whole-file lock is taken beside it. All end
//! with the process, whatever ends it; the files stay. Nobody else in this process may open and close `DATA/.lock`: that would
//! give the record lock back.

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The locks; held as long as this lives.
#[derive(Debug)]
pub struct InstanceLocks {
    _files: Vec<File>,
}

/// Why the directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another instance uses STATE.
    #[error("another twinlog-dataplane ({holder}) uses the state directory {}: stop it, or give another --state", path.display())]
    StateTaken {
        /// The lock file.
        path: PathBuf,
        /// "process N", or that it is not known.
        holder: String,
    },
    /// Another instance, or a broker, uses a data directory; or it was given twice.
    #[error(
        "the data directory of {} is used by another twinlog-dataplane or a Kafka broker, or is given twice: \
         stop the other one, or give another --data", path.display()
    )]
    DataTaken {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file cannot be made.
    #[error("cannot lock {}: {source}; the directory must exist and be writable for this user", path.display())]
    System {
        /// The lock file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl InstanceLocks {
    /// Takes the locks of STATE and of all DATA directories, which exist, or none of them. Never waits.
    ///
    /// # Errors
    /// When one of them is taken, or a lock file cannot be made.
    pub fn take(state: &Path, data: &[PathBuf]) -> Result<Self, LockError> {
        let mut files = vec![lock_state(&state.join("lock"))?];
        for directory in data {
            files.push(lock_data(&directory.join(".lock"))?);
        }
        Ok(Self { _files: files })
    }

    /// Takes the locks of one DATA directory, for an offline command on it.
    ///
    /// # Errors
    /// As [`InstanceLocks::take`].
    pub fn take_data(data: &Path) -> Result<Self, LockError> {
        Ok(Self { _files: vec![lock_data(&data.join(".lock"))?] })
    }
}

fn lock_state(path: &Path) -> Result<File, LockError> {
    let failed = |source| LockError::System { path: path.to_owned(), source };
    let mut file = open(path, 0o600).map_err(failed)?;
    if !take(&file, path)? {
        let mut text = String::new();
        let holder = match Read::by_ref(&mut file).take(PID_BYTES_MAX).read_to_string(&mut text) {
            Ok(_) if text.trim().parse::<u32>().is_ok() => format!("process {}", text.trim()),
            Ok(_) | Err(_) => "process not known".to_owned(),
        };
        return Err(LockError::StateTaken { path: path.to_owned(), holder });
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn lock_data(path: &Path) -> Result<File, LockError> {
    let file = open(path, 0o644).map_err(|source| LockError::System { path: path.to_owned(), source })?;
    if take(&file, path)? { Ok(file) } else { Err(LockError::DataTaken { path: path.to_owned() }) }
}

const PID_BYTES_MAX: u64 = 16;

/// A link is not followed: root locks directories of brokers' users.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

/// Whether both kinds of lock were free and are ours now.
fn take(file: &File, path: &Path) -> Result<bool, LockError> {
    let whole = flock(file, FlockOperation::NonBlockingLockExclusive);
    match whole.and_then(|()| fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(LockError::System { path: path.to_owned(), source: errno.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_second_instance_is_refused_by_name_until_the_first_is_gone() {
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [data.path().to_owned()];
        let first = InstanceLocks::take(state.path(), &folders).unwrap();
        let refused = InstanceLocks::take(state.path(), &folders).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        let other_state = tempfile::tempdir().unwrap();
        let refused = InstanceLocks::take(other_state.path(), &folders).unwrap_err();
        assert!(matches!(refused, LockError::DataTaken { .. }));
        drop(first);
        InstanceLocks::take(other_state.path(), &folders).unwrap();
    }

    #[test]
    fn a_data_directory_given_twice_is_refused_and_leaves_nothing_locked() {
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let twice = [data.path().to_owned(), data.path().join(".")];
        assert!(matches!(InstanceLocks::take(state.path(), &twice), Err(LockError::DataTaken { .. })));
        InstanceLocks::take(state.path(), &twice[..1]).unwrap();
    }

    #[test]
    fn a_missing_directory_is_named() {
        let refused = InstanceLocks::take_data(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert!(refused.contains("/nowhere/at/all/.lock"), "{refused}");
    }

    /// The record lock is what a stock broker takes; another process sees it, also without the whole-file lock.
    #[test]
    fn a_broker_that_takes_a_record_lock_is_kept_away() {
        let data = tempfile::tempdir().unwrap();
        let probe = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)";
        let lock = data.path().join(".lock");
        File::create(&lock).unwrap();
        let Ok(free) = Command::new("python3").args(["-c", probe]).arg(&lock).output() else { return };
        assert!(free.status.success());
        let _held = InstanceLocks::take_data(data.path()).unwrap();
        assert!(!Command::new("python3").args(["-c", probe]).arg(&lock).output().unwrap().status.success());
    }
}
