//! Files that are replaced as a whole: written aside, synced, renamed, and the folder synced.

use crate::steps::{self, Step};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Owner may read and write; nobody else may see secrets.
const PRIVATE: u32 = 0o600;

/// Replaces `path` by `bytes`: after a crash it holds the old content or the new one.
///
/// # Errors
/// As the file system says; which content is there then is not known when it was the folder that failed.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_aside(path, bytes)?;
    put_in_place(path, None)
}

/// Writes `bytes` beside `path` and syncs them; `path` is as it was.
///
/// # Errors
/// As the file system says.
pub fn write_aside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_aside(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the file beside `path`, which is empty then; `path` is as it was. A link in its place is not followed: root works in directories of
/// brokers' users.
///
/// # Errors
/// As the file system says.
pub fn create_aside(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(PRIVATE).custom_flags(libc::O_NOFOLLOW);
    options.open(aside(path))
}

/// Renames what was written beside `path` over it, passes `renamed`, and syncs the folder.
///
/// # Errors
/// As the file system says.
pub fn put_in_place(path: &Path, renamed: impl Into<Option<Step>>) -> io::Result<()> {
    std::fs::rename(aside(path), path)?;
    if let Some(renamed) = renamed.into() {
        steps::passed(renamed);
    }
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes the names in `folder` durable.
///
/// # Errors
/// As the file system says.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Takes the rights of others away from the files in `folder` and the folders below, for some hold secrets: a copy that was
/// put back may have come with more.
///
/// # Errors
/// As the file system says, for a file that is ours; what somebody else owns stays as it is.
pub fn make_private(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            match make_private(&entry.path()) {
                // Such as the lost+found of a file system that is mounted here.
                Err(cause) if cause.kind() == ErrorKind::PermissionDenied => {}
                other => other?,
            }
        } else if kind.is_file() && entry.metadata()?.permissions().mode() & 0o077 != 0 {
            match std::fs::set_permissions(entry.path(), Permissions::from_mode(PRIVATE)) {
                Err(cause) if cause.kind() != ErrorKind::PermissionDenied => return Err(cause),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Removes what was written beside `path`, which takes space that may be needed.
pub fn remove_aside(path: &Path) {
    // It is overwritten the next time when it stays.
    std::fs::remove_file(aside(path)).ok();
}

/// What a person can do about a file below STATE that cannot be written.
#[must_use]
pub fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space on the disk of STATE (--state); changes are taken again then, without a restart"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "the disk of STATE (--state) is read-only: see the kernel's log for why, stop twinlog, unmount it, check it (e2fsck), \
             mount it and start twinlog"
        }
        ErrorKind::PermissionDenied => "give --state a directory that this user may write",
        _ => "look at the disk of STATE (--state) and at the kernel's log",
    }
}

pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_put_back_becomes_private_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("assignments/m.assignment");
        std::fs::create_dir(folder.path().join("assignments")).unwrap();
        std::fs::write(&path, b"secret").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        make_private(folder.path()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, PRIVATE);
    }

    #[test]
    fn a_replaced_file_is_private_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.assignment");
        replace(&path, b"first, and longer").unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, PRIVATE);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
