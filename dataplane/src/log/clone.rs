//! A copy of a log that a running data plane goes on writing to, rolling, cutting and deleting from: everything below an offset that is
//! durable there. For a drill, whose broker must never be able to change a file of the mirror.
//!
//! A file of the mirror's is at most linked when it is a closed segment's `.log`, whole up to its last byte, with its indexes beside it:
//! a broker cuts such a file neither at its start (it ends at a batch) nor at its end (it is as long as it was), and it reads it through
//! only without an index or above the recovery point. All else is copied, or shares its blocks where the filesystem can do that.
//!
//! Nobody is asked to hold still. What was seen before is looked for again afterwards: a log that was cut has lost the segments behind,
//! and has another file of epochs (`cut.rs` writes it anew before anything is appended); then the copy is thrown away and made again.
//! A segment is linked first and its successor looked for then, which a cut removes before it looks for links (`unshare.rs`).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::ioctl_ficlone;
use twinlog_proto::storage::names::{self, FileKind, FileName};
use twinlog_proto::storage::offset_index::OffsetIndex;
use twinlog_proto::storage::time_index::TimeIndex;
use twinlog_proto::storage::txn_index;

use super::scan::{Bounds, Scan, Scanned};
use super::{faults, files_of};
use crate::disk::files;
use crate::fault::Fault;
use crate::limits::{CLONE_PAUSE_MS, CLONE_TRIES_MAX};

/// How files get from one directory into another; found out by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// The filesystem can let two files share their blocks.
    pub reflink: bool,
    /// A file can have a name in both.
    pub link: bool,
}

/// Files and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a copy consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cloned {
    /// Further names of the mirror's files.
    pub linked: Tally,
    /// Files that share their blocks with the mirror's.
    pub shared: Tally,
    /// Files that were copied.
    pub copied: Tally,
}

/// Tries what is possible between the directory of `sample` and `dir`, with a file in `dir` that is gone afterwards.
///
/// # Errors
/// When that file cannot be removed.
pub fn means(sample: &Path, dir: &Path) -> Result<Means, Fault> {
    let probe = dir.join(names::PARTITION_METADATA);
    let gone = || files::remove(&probe).map_err(|e| faults::files("remove", &probe, e));
    gone()?;
    let reflink = reflink(sample, &probe).is_ok();
    gone()?;
    let link = fs::hard_link(sample, &probe).is_ok();
    gone()?;
    Ok(Means { reflink, link })
}

/// Bytes that a copy of `from` up to `end` takes, nearly: those files that neither share blocks nor are linked.
///
/// # Errors
/// When the directory cannot be read.
pub fn estimate(from: &Path, end: i64, means: Means) -> io::Result<u64> {
    let seen = match Seen::of(from) {
        Err(failed) if failed.source.kind() == ErrorKind::NotFound => return Ok(0),
        seen => seen.map_err(|failed| failed.source)?,
    };
    let last = seen.last_below(end).unwrap_or(0);
    let logs = seen.logs.iter().take(last + 1).enumerate();
    let copied = logs.filter(|(at, _)| !means.reflink && (!means.link || *at == last)).map(|(_, (_, log))| log.bytes);
    Ok(copied.sum::<u64>() + if means.reflink { 0 } else { seen.small_bytes })
}

/// Copies the log in `from` up to `end`, where a batch ends, into `to`, which is made anew; up to its last whole batch when `end` is the
/// largest number there is. None when the log went on changing, or does not have that end (any more). The last segment has no indexes, and
/// nothing is durable.
///
/// # Errors
/// What cannot be read or written.
pub fn clone(from: &Path, to: &Path, end: i64, means: Means) -> Result<Option<Cloned>, Fault> {
    clone_while(from, to, end, means, || {})
}

/// [`clone`]; `meanwhile` happens when the closed segments are there and the last one is not, in each try.
pub(super) fn clone_while(
    from: &Path,
    to: &Path,
    end: i64,
    means: Means,
    mut meanwhile: impl FnMut(),
) -> Result<Option<Cloned>, Fault> {
    for tried in 0..CLONE_TRIES_MAX {
        if tried > 0 {
            sleep(Duration::from_millis(CLONE_PAUSE_MS));
        }
        empty(to).map_err(|e| faults::files("make", to, e))?;
        let mut attempt = Attempt { from, to, end, means, scan: Scan::new(), cloned: Cloned::default() };
        match attempt.run(&mut meanwhile) {
            Ok(true) => return Ok(Some(attempt.cloned)),
            Ok(false) => {}
            // Removed between two looks.
            Err(Failed { path, source }) if source.kind() == ErrorKind::NotFound && path.starts_with(from) => {}
            Err(Failed { path, source }) => return Err(faults::files("clone", &path, source)),
        }
    }
    fs::remove_dir_all(to).map_err(|e| faults::files("remove", to, e))?;
    Ok(None)
}

fn empty(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(dir)
}

/// A file that could not be read or written.
struct Failed {
    path: PathBuf,
    source: io::Error,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Failed {
    let path = path.to_owned();
    move |source| Failed { path, source }
}

/// By which a file is known to be the same, and unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    owner: (u32, u32),
}

/// A directory at one moment, nearly.
struct Seen {
    /// The `.log` files by base offset.
    logs: Vec<(i64, Stamp)>,
    /// Offsets of snapshots.
    snapshots: Vec<i64>,
    epochs: Option<Stamp>,
    /// Bytes of everything else.
    small_bytes: u64,
}

impl Seen {
    fn of(dir: &Path) -> Result<Self, Failed> {
        let mut seen = Self { logs: Vec::new(), snapshots: Vec::new(), epochs: None, small_bytes: 0 };
        for entry in fs::read_dir(dir).map_err(failed(dir))? {
            let entry = entry.map_err(failed(dir))?;
            let (name, path) = (entry.file_name(), entry.path());
            let meta = match entry.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                meta => meta.map_err(failed(&path))?,
            };
            let Some(name) = name.to_str().filter(|_| meta.is_file()) else { continue };
            let stamp = Stamp {
                inode: meta.ino(),
                bytes: meta.len(),
                modified: (meta.mtime(), meta.mtime_nsec()),
                owner: (meta.uid(), meta.gid()),
            };
            match names::parse_file_name(name) {
                Some(FileName { offset, kind: FileKind::Log, leftover: None }) => seen.logs.push((offset, stamp)),
                Some(FileName { offset, kind: FileKind::Snapshot, leftover: None }) => seen.snapshots.push(offset),
                _ => seen.small_bytes += stamp.bytes,
            }
            if name == names::LEADER_EPOCHS {
                seen.epochs = Some(stamp);
            }
        }
        seen.logs.sort_unstable_by_key(|(base, _)| *base);
        seen.snapshots.sort_unstable();
        Ok(seen)
    }

    /// The place of the segment that holds the batch before `end`, or begins there.
    fn last_below(&self, end: i64) -> Option<usize> {
        self.logs.iter().rposition(|(base, _)| *base <= end)
    }

    /// Whether what was copied, up to the segment at `last`, is still what it was. Segments that went from the beginning are no change.
    fn still_is(&self, last: usize, now: &Self) -> bool {
        let first = now.logs.first().map_or(i64::MAX, |(base, _)| *base);
        let same = |(at, (base, was)): (usize, &(i64, Stamp))| match now.logs.iter().find(|(there, _)| there == base) {
            Some((_, is)) if at < last => is == was,
            Some((_, is)) => is.inode == was.inode,
            None => at < last && *base < first,
        };
        self.epochs == now.epochs && self.logs.iter().take(last + 1).enumerate().all(same)
    }
}

/// One try.
struct Attempt<'a> {
    from: &'a Path,
    to: &'a Path,
    end: i64,
    means: Means,
    scan: Scan,
    cloned: Cloned,
}

impl Attempt<'_> {
    /// False when the log changed on the way, or has no such end.
    fn run(&mut self, meanwhile: &mut impl FnMut()) -> Result<bool, Failed> {
        let seen = Seen::of(self.from)?;
        let Some(last) = seen.last_below(self.end) else { return Ok(false) };
        for name in [names::PARTITION_METADATA, names::LEADER_EPOCHS] {
            self.copy(name)?;
        }
        for (at, (base, stamp)) in seen.logs.iter().enumerate().take(last) {
            self.put_closed(*base, seen.logs[at + 1].0, stamp)?;
        }
        let (base, _) = seen.logs[last];
        for offset in seen.snapshots.iter().filter(|offset| **offset <= base) {
            self.copy(&names::file_name(*offset, FileKind::Snapshot))?;
        }
        meanwhile();
        let Some(position) = self.position(base)? else { return Ok(false) };
        Ok(self.put_last(base, position)? && seen.still_is(last, &Seen::of(self.from)?))
    }

    /// A closed segment with its indexes.
    fn put_closed(&mut self, base: i64, next_base: i64, stamp: &Stamp) -> Result<(), Failed> {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex] {
            self.copy(&names::file_name(base, kind))?;
        }
        let (from, to) = (files_of(self.from, base, FileKind::Log), files_of(self.to, base, FileKind::Log));
        if self.means.reflink {
            reflink(&from, &to).map_err(failed(&from))?;
            count(&mut self.cloned.shared, stamp.bytes);
            return Ok(());
        }
        // Root gives the files of a clone to the owner of its directory, and a link's owner is the file's.
        let owner = fs::metadata(self.to.parent().unwrap_or(self.to)).map_err(failed(self.to))?;
        let is_safe = stamp.owner == (owner.uid(), owner.gid()) && self.is_whole(base, next_base, stamp.bytes)?;
        if self.means.link && is_safe && fs::hard_link(&from, &to).is_ok() {
            count(&mut self.cloned.linked, stamp.bytes);
            return Ok(());
        }
        let bytes = fs::copy(&from, &to).map_err(failed(&from))?;
        count(&mut self.cloned.copied, bytes);
        Ok(())
    }

    /// Whether a closed segment ends with a whole batch where its file ends, by indexes that are its own.
    fn is_whole(&mut self, base: i64, next_base: i64, bytes: u64) -> Result<bool, Failed> {
        let read = |kind| {
            let path = files_of(self.from, base, kind);
            files::read(&path).map_err(failed(&path))
        };
        let (Some(offsets), Some(times)) = (read(FileKind::OffsetIndex)?, read(FileKind::TimeIndex)?) else {
            return Ok(false);
        };
        let txns = read(FileKind::TxnIndex)?.unwrap_or_default();
        let (Ok(offsets), Ok(_)) = (OffsetIndex::parse(&offsets, base), TimeIndex::parse(&times, base)) else {
            return Ok(false);
        };
        if !txns.len().is_multiple_of(txn_index::ENTRY_BYTES) {
            return Ok(false);
        }
        let (path, last) = (files_of(self.from, base, FileKind::Log), offsets.last());
        let from = last.map_or(0, |last| u64::from(last.position));
        let mut first = None;
        let bounds = Bounds { base, limit: next_base };
        let scanned = self.scan.run_from(&path, from, bounds, |found| {
            first.get_or_insert(found.header.last_offset());
        });
        let Scanned { end, stopped, .. } = scanned.map_err(failed(&path))?;
        Ok(end == bytes && stopped.is_none() && last.is_none_or(|last| first == Some(last.offset)))
    }

    /// The file position of the end in the last segment.
    fn position(&mut self, base: i64) -> Result<Option<u64>, Failed> {
        if self.end == base {
            return Ok(Some(0));
        }
        let (path, index) =
            (files_of(self.from, base, FileKind::Log), files_of(self.from, base, FileKind::OffsetIndex));
        let entries = files::read(&index).map_err(failed(&index))?.unwrap_or_default();
        let near = OffsetIndex::parse(&entries, base).map_or(0, |index| u64::from(index.lookup(self.end - 1)));
        let bounds = Bounds { base, limit: self.end };
        for from in [near, 0] {
            let scanned = self.scan.run_from(&path, from, bounds, |_| {}).map_err(failed(&path))?;
            if scanned.next_offset == self.end || (self.end == i64::MAX && from == 0) {
                return Ok(Some(scanned.end));
            }
        }
        Ok(None)
    }

    /// The last segment up to there; false when its file is shorter by now.
    fn put_last(&mut self, base: i64, position: u64) -> Result<bool, Failed> {
        let (from, to) = (files_of(self.from, base, FileKind::Log), files_of(self.to, base, FileKind::Log));
        if self.means.reflink {
            let file = reflink(&from, &to).map_err(failed(&from))?;
            let had = file.metadata().map_err(failed(&to))?.len();
            file.set_len(position.min(had)).map_err(failed(&to))?;
            count(&mut self.cloned.shared, position);
            return Ok(had >= position);
        }
        let mut head = File::open(&from).map_err(failed(&from))?.take(position);
        let mut file = File::create_new(&to).map_err(failed(&to))?;
        let copied = io::copy(&mut head, &mut file).map_err(failed(&to))?;
        count(&mut self.cloned.copied, copied);
        Ok(copied == position)
    }

    /// A small file, when it is there.
    fn copy(&mut self, name: &str) -> Result<(), Failed> {
        let (from, to) = (self.from.join(name), self.to.join(name));
        match fs::copy(&from, &to) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            copied => {
                count(&mut self.cloned.copied, copied.map_err(failed(&from))?);
                Ok(())
            }
        }
    }
}

fn count(tally: &mut Tally, bytes: u64) {
    tally.files += 1;
    tally.bytes += bytes;
}

/// A file of its own that shares its blocks with `from`.
fn reflink(from: &Path, to: &Path) -> io::Result<File> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    ioctl_ficlone(&to, &from)?;
    Ok(to)
}
