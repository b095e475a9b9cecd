//! runtime: `Disk` over the ring of this thread.
//!
//! The operations are our own, sent through the runtime's one-shot type. Each owns the file and the share that the kernel
//! works with: a dropped future leaves both with the driver until the kernel is done.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{cqueue, opcode, squeue};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use tokio_uring::{OneshotOutputTransform, UnsubmittedOneshot};

use super::{Alignment, Disk, Open};
use crate::buffers::Share;
use crate::limits::{DIRECT_ALIGN_BYTES_MAX, DIRECT_ALIGN_BYTES_MIN};

/// Files behind the ring of this thread.
#[derive(Debug, Default)]
pub struct UringDisk {
    /// Never open segments past the page cache.
    buffered_only: bool,
    open_segments: Rc<Cell<usize>>,
}

/// A file that the ring works with.
#[derive(Debug)]
pub struct UringFile {
    fd: OwnedFd,
    alignment: Alignment,
    /// A segment, of which only the data (and what is needed to find it) has to be durable.
    segment: bool,
    /// A sync makes its whole filesystem durable.
    all: bool,
    /// Counts it while it is open.
    counted: Option<Counted>,
}

impl UringDisk {
    /// Direct writes where the filesystem allows them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes through the page cache everywhere.
    #[must_use]
    pub fn buffered() -> Self {
        Self { buffered_only: true, ..Self::default() }
    }
}

impl Disk for UringDisk {
    type File = UringFile;

    fn open(&self, path: &Path, how: Open) -> io::Result<UringFile> {
        let mut file = self.open_one(path, how)?;
        if file.segment {
            self.open_segments.set(self.open_segments.get() + 1);
            file.counted = Some(Counted(Rc::clone(&self.open_segments)));
        }
        Ok(file)
    }

    fn open_segments(&self) -> usize {
        self.open_segments.get()
    }

    fn alignment(&self, file: &UringFile) -> Alignment {
        file.alignment
    }

    async fn write(&self, file: Rc<UringFile>, share: Share, range: Range<usize>, position: u64) -> io::Result<usize> {
        let bytes = &share[range];
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let fd = Fd(file.fd.as_raw_fd());
        let entry = match share.fixed_index() {
            Some(index) => opcode::WriteFixed::new(fd, bytes.as_ptr(), length, index).offset(position).build(),
            None => opcode::Write::new(fd, bytes.as_ptr(), length).offset(position).build(),
        };
        submit((file, Some(share)), entry).await
    }

    async fn sync(&self, file: Rc<UringFile>) -> io::Result<()> {
        if file.all {
            return sync_filesystem(file.fd.try_clone()?).await;
        }
        let flags = if file.segment { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        let entry = opcode::Fsync::new(Fd(file.fd.as_raw_fd())).flags(flags).build();
        submit((file, None), entry).await.map(drop)
    }

    async fn allocate(&self, file: Rc<UringFile>, range: Range<u64>) -> io::Result<()> {
        let fd = Fd(file.fd.as_raw_fd());
        let entry = opcode::Fallocate::new(fd, range.end - range.start).offset(range.start).build();
        submit((file, None), entry).await.map(drop)
    }

    fn set_len(&self, file: &UringFile, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&file.fd, bytes)?)
    }
}

impl UringDisk {
    fn open_one(&self, path: &Path, how: Open) -> io::Result<UringFile> {
        match how {
            Open::ToSync | Open::ToSyncAll => {
                let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                let all = how == Open::ToSyncAll;
                Ok(UringFile { fd, alignment: Alignment::BUFFERED, segment: false, all, counted: None })
            }
            Open::Segment if self.buffered_only => open_buffered(path),
            Open::Segment => match open_segment(path, OFlags::DIRECT) {
                Ok(fd) => match direct_alignment(&fd)? {
                    Some(alignment) => Ok(UringFile { fd, alignment, segment: true, all: false, counted: None }),
                    None => open_buffered(path),
                },
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => open_buffered(path),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// The ring has no operation for it, and it may take long: a thread of its own does it.
async fn sync_filesystem(fd: OwnedFd) -> io::Result<()> {
    let (done, answer) = tokio::sync::oneshot::channel();
    let sync = move || {
        // Who asked waits for it, or has gone away.
        done.send(rustix::fs::syncfs(&fd)).ok();
    };
    std::thread::Builder::new().name("syncfs".to_owned()).spawn(sync)?;
    let answer = answer.await.map_err(|_gone| io::Error::other("the thread that syncs the filesystem is gone"))?;
    Ok(answer?)
}

/// Counts an open segment as long as it lives.
#[derive(Debug)]
struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What an operation owns until the kernel has answered.
type Owned = (Rc<UringFile>, Option<Share>);

/// Turns the kernel's answer into a count, and lets go of what the operation owned.
struct Count;

impl OneshotOutputTransform for Count {
    type Output = io::Result<usize>;
    type StoredData = Owned;

    fn transform_oneshot_output(self, owned: Owned, answer: cqueue::Entry) -> io::Result<usize> {
        drop(owned);
        let result = answer.result();
        usize::try_from(result).map_err(|_negative| io::Error::from_raw_os_error(-result))
    }
}

async fn submit(owned: Owned, entry: squeue::Entry) -> io::Result<usize> {
    UnsubmittedOneshot::new(owned, Count, entry).submit().await
}

fn open_segment(path: &Path, more: OFlags) -> rustix::io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    rustix::fs::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | more, mode)
}

fn open_buffered(path: &Path) -> io::Result<UringFile> {
    Ok(UringFile {
        fd: open_segment(path, OFlags::empty())?,
        alignment: Alignment::BUFFERED,
        segment: true,
        all: false,
        counted: None,
    })
}

/// The alignment that direct writes to this file need; none when they are refused or need too much.
fn direct_alignment(fd: &OwnedFd) -> io::Result<Option<Alignment>> {
    let known = StatxFlags::DIOALIGN;
    let stat = match rustix::fs::statx(fd.as_fd(), "", AtFlags::EMPTY_PATH, known) {
        Ok(stat) => stat,
        // A kernel without statx has the rule of a page at most.
        Err(rustix::io::Errno::NOSYS) => return Ok(Some(Alignment { bytes: DIRECT_ALIGN_BYTES_MIN })),
        Err(error) => return Err(error.into()),
    };
    if stat.stx_mask & known.bits() == 0 {
        // Before 6.1, and on filesystems that do not say (tmpfs): a page satisfies every device we know.
        return Ok(Some(Alignment { bytes: DIRECT_ALIGN_BYTES_MIN }));
    }
    let asked = stat.stx_dio_mem_align.max(stat.stx_dio_offset_align) as usize;
    let bytes = asked.max(DIRECT_ALIGN_BYTES_MIN);
    let usable = stat.stx_dio_offset_align > 0 && bytes <= DIRECT_ALIGN_BYTES_MAX && bytes.is_power_of_two();
    Ok(usable.then_some(Alignment { bytes }))
}
