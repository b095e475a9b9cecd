//! Rare, synchronous work on plain files: listing, small writes, replacing, cutting, removing.
//!
//! Called at rolls, flushes, finishes and starts only, never for record bytes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use twinlog_proto::storage::names::TEMPORARY_SUFFIX;

use crate::limits::SMALL_FILE_BYTES_MAX;

/// A file in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name; names that are not UTF-8 are not ours and are left out.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The plain files of `dir`, sorted by name.
pub fn list(dir: &Path) -> io::Result<Vec<Listed>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if let (true, Some(name)) = (meta.is_file(), entry.file_name().to_str()) {
            files.push(Listed { name: name.to_owned(), bytes: meta.len() });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// A small file's bytes; none when there is no such file.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let read = file.take(SMALL_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if read as u64 > SMALL_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any such file can be"));
    }
    Ok(Some(bytes))
}

/// What failed while a file was written anew.
#[derive(Debug)]
pub enum ReplaceError {
    /// Nothing was changed: the bytes did not fit, or the folder may not be written to.
    Write(io::Error),
    /// The kernel could not make the bytes or the name durable.
    Sync(io::Error),
}

/// Writes `path` anew: aside, synced, renamed over, folder synced. A reader sees the old file or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), ReplaceError> {
    let (aside, mut file) = create_aside(path).map_err(ReplaceError::Write)?;
    file.write_all(bytes).map_err(ReplaceError::Write)?;
    file.sync_all().map_err(ReplaceError::Sync)?;
    drop(file);
    fs::rename(&aside, path).map_err(ReplaceError::Write)?;
    sync(parent(path)).map_err(ReplaceError::Sync)
}

/// The same, for a caller who makes the filesystem durable later: after a crash before that the file may be the old one, or empty.
pub fn replace_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (aside, mut file) = create_aside(path)?;
    file.write_all(bytes)?;
    fs::rename(&aside, path)
}

/// Makes the file beside `path` that is to replace it, empty; gives its path. A link in its place is not followed: root works in directories
/// of brokers' users.
pub fn create_aside(path: &Path) -> io::Result<(PathBuf, File)> {
    let aside = with_suffix(path, TEMPORARY_SUFFIX);
    let file = File::options().write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW).open(&aside)?;
    Ok((aside, file))
}

/// Writes `path` whole, without making it durable.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}

/// Writes `bytes` at `position` of an existing or new file.
pub fn write_at(path: &Path, position: u64, bytes: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all_at(bytes, position)
}

/// Sets the length of a file, which is made when missing.
pub fn set_len(path: &Path, bytes: u64) -> io::Result<()> {
    File::options().write(true).create(true).truncate(false).open(path)?.set_len(bytes)
}

/// Makes a file or directory durable.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes everything on the filesystem of `dir` durable.
pub fn sync_all(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Length of a file; none when there is no such file.
pub fn length(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file; it may be missing.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Renames a file; the source may be missing.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory; true when it did not exist.
pub fn make_dir(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file that is read from front to back.
#[derive(Debug)]
pub struct Reading {
    file: File,
    position: u64,
}

impl Reading {
    /// Opens `path` to be read from `position` on.
    pub fn open(path: &Path, position: u64) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, position })
    }

    /// Bytes from here to the end of the file.
    pub fn left(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(self.position))
    }

    /// Fills `buffer` as far as the file goes; 0 at its end.
    pub fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], self.position) {
                Ok(0) => break,
                Ok(read) => {
                    filled += read;
                    self.position += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// `path` with `suffix` added to its name.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or(OsStr::new("")).to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
