//! The seam to the disk: what a log needs of files. `UringDisk` is the real one; tests put failing ones in its place.
//!
//! Writes, syncs and allocations are asynchronous and own what they use. Everything else (open, cut, rename, small
//! files) happens at rare events, is synchronous, and has one implementation over plain system calls in `files.rs`.

pub mod files;
pub mod jobs;
pub mod uring;
pub mod writers;

use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use crate::buffers::Share;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// A segment, for writing whole aligned blocks past the page cache where the filesystem allows it; made if missing.
    Segment,
    /// An existing file or directory, only to sync it.
    ToSync,
    /// An existing directory, only to sync everything on its filesystem: cheaper than many syncs.
    ToSyncAll,
}

/// What a file asks of the writes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Positions, lengths and addresses of writes are multiples of this; 1 when the file goes through the page cache.
    pub bytes: usize,
}

impl Alignment {
    /// Through the page cache: any position will do.
    pub const BUFFERED: Self = Self { bytes: 1 };

    /// Whether writes go past the page cache.
    #[must_use]
    pub fn is_direct(self) -> bool {
        self.bytes > 1
    }

    /// The block that `position` lies in.
    #[must_use]
    pub fn down(self, position: u64) -> u64 {
        position - position % self.bytes as u64
    }

    /// The first block border at or above `position`.
    #[must_use]
    pub fn up(self, position: u64) -> u64 {
        position.next_multiple_of(self.bytes as u64)
    }
}

/// Files of one core.
pub trait Disk: 'static {
    /// An open file. It is closed when the last handle is dropped.
    type File: 'static;

    /// Opens (or makes) `path`.
    fn open(&self, path: &Path, how: Open) -> io::Result<Self::File>;

    /// What writes to this file must look like.
    fn alignment(&self, file: &Self::File) -> Alignment;

    /// Writes `share[range]` at `position`; gives the number of bytes written, which may be fewer.
    fn write(
        &self,
        file: Rc<Self::File>,
        share: Share,
        range: Range<usize>,
        position: u64,
    ) -> impl Future<Output = io::Result<usize>>;

    /// Makes what was written durable. A failure is final: it is never tried again.
    fn sync(&self, file: Rc<Self::File>) -> impl Future<Output = io::Result<()>>;

    /// Allocates `range` and makes the file at least that long. `Unsupported` is not a failure of the file.
    fn allocate(&self, file: Rc<Self::File>, range: Range<u64>) -> impl Future<Output = io::Result<()>>;

    /// Segments that are open now.
    fn open_segments(&self) -> usize {
        0
    }

    /// Sets the length of a file.
    fn set_len(&self, file: &Self::File, bytes: u64) -> io::Result<()>;
}
