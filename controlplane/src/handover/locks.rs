//! unsafe: the locks on a node's log directories, held from before the first rename to after the last.
//!
//! A stock broker locks `.lock` of each log directory with a record lock of its process, as Java does. Ours are record locks of the
//! open file description: a broker sees them, they do not end with an unrelated close in this process, and a child that inherits
//! the descriptor holds them too. A broker deletes the file at its clean stop, so after locking the file must still be the one
//! that its path names.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use twinlog_proto::storage::names;

/// How often a lock is tried whose file was replaced meanwhile.
const TRIES_MAX: u32 = 10;

/// Held locks.
#[derive(Debug)]
pub struct Locks {
    files: Vec<File>,
}

/// Why a directory is not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A broker or another promote has it.
    #[error("{} is used by another process", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{} cannot be locked: {source}", path.display())]
    System {
        /// The lock file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

impl Locks {
    /// No locks: for work on a log directory whose broker runs.
    #[must_use]
    pub fn none() -> Self {
        Self { files: Vec::new() }
    }

    /// Locks all of these log directories, which exist, or none. Never waits.
    ///
    /// # Errors
    /// Which one could not be locked, and why.
    pub fn take(directories: &[PathBuf]) -> Result<Self, LockError> {
        Ok(Self { files: directories.iter().map(|directory| lock(directory)).collect::<Result<_, _>>()? })
    }

    /// The descriptors, to be inherited by a child that works for us.
    ///
    /// # Errors
    /// When the system refuses to let them be inherited.
    pub fn inheritable(&self) -> io::Result<Vec<RawFd>> {
        for file in &self.files {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
        }
        Ok(self.files.iter().map(AsRawFd::as_raw_fd).collect())
    }

    /// No child inherits them any more.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn keep(&self) -> io::Result<()> {
        let keep = |file: &File| rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC);
        self.files.iter().try_for_each(keep).map_err(io::Error::from)
    }
}

/// Whether anybody but a holder of this open file has the lock of a log directory, also as a record lock of a process. Looking takes
/// nothing away from a lock of the open file description, which ours are.
#[must_use]
pub fn is_taken(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(names::LOCK)) else { return false };
    let mut whole = whole();
    // SAFETY: the descriptor is open as long as `file` lives, and the struct lives for the call, which writes nothing else.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut whole) };
    asked == 0 && whole.l_type != libc::F_UNLCK as libc::c_short
}

fn lock(directory: &Path) -> Result<File, LockError> {
    let path = directory.join(names::LOCK);
    let failed = |source| LockError::System { path: path.clone(), source };
    for _ in 0..TRIES_MAX {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        // A link is not followed: root locks directories of brokers' users.
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path).map_err(failed)?;
        match try_lock(&file) {
            Ok(()) => {}
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                return Err(LockError::Taken { path: directory.to_owned() });
            }
            Err(cause) => return Err(failed(cause)),
        }
        let ours = file.metadata().map_err(failed)?;
        match std::fs::metadata(&path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => return Ok(file),
            // Deleted or replaced between the two.
            Ok(_) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
    Err(LockError::Taken { path: directory.to_owned() })
}

/// A write lock on all of a file.
fn whole() -> libc::flock {
    // SAFETY: all-zero is a value of this plain C struct: it has numbers only.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    (whole.l_type, whole.l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    whole
}

fn try_lock(file: &File) -> io::Result<()> {
    let whole = whole();
    // SAFETY: the descriptor is open as long as `file` lives, and the struct lives for the call, which only reads it.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_second_taker_is_refused_until_the_first_and_its_children_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let folders = [directory.path().to_owned()];
        let first = Locks::take(&folders).unwrap();
        // An open and close of the same file in this process takes nothing away.
        drop(File::open(directory.path().join(names::LOCK)).unwrap());
        assert!(matches!(Locks::take(&folders), Err(LockError::Taken { .. })));
        first.inheritable().unwrap();
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        drop(first);
        assert!(matches!(Locks::take(&folders), Err(LockError::Taken { .. })), "the child holds it");
        drop(child.stdin.take());
        child.wait().unwrap();
        // Children that other tests started meanwhile may hold it a little longer.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while let Err(cause) = Locks::take(&folders) {
            assert!(std::time::Instant::now() < deadline, "{cause}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, directory.path().join(names::LOCK)).unwrap();
        assert!(matches!(Locks::take(&[directory.path().to_owned()]), Err(LockError::System { .. })));
        assert!(!elsewhere.exists());
    }

    #[test]
    fn whoever_locks_as_java_does_is_refused_and_refuses() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_taken(directory.path()));
        let locks = Locks::take(&[directory.path().to_owned()]).unwrap();
        assert!(is_taken(directory.path()));
        let probe = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)";
        let lock = directory.path().join(names::LOCK);
        let Ok(taken) = Command::new("python3").args(["-c", probe]).arg(&lock).output() else { return };
        assert!(!taken.status.success(), "a record lock of another process was granted beside ours");
        drop(locks);
        assert!(Command::new("python3").args(["-c", probe]).arg(&lock).output().unwrap().status.success());
    }
}
