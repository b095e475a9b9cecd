//! unsafe: creates, seals and maps the region, and hands out its areas as boards, pages and ring ends; nothing raw.
//!
//! The creator seals the size, so that no process can shrink the file under another's mapping, and writes the magic word last.
//! Who attaches checks seals, size, magic, version and bounds, then uses its own copy of the sizes only. [`Region`] is mapped
//! for reading and writing; [`View`] may be mapped for reading only and hands out reading ends alone.

use super::board::{BoardReader, BoardWriter};
use super::layout::{Geometry, HEADER_WORDS, LAYOUT_VERSION, MAGIC, WORD_BYTES, header, header_words};
use super::page::{PageReader, PageShow, PageWriter};
pub use super::region_error::RegionError;
use super::ring::{Consumer, Producer};
use core::fmt;
use core::ops::{Deref, Range};
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::sync::Arc;

/// Who made a region, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Random, never 0, another one for each region.
    pub generation: u64,
    /// Process id of the data plane.
    pub pid: u32,
    /// Milliseconds since 1970.
    pub started_at_ms: i64,
}

/// The region, mapped for reading and writing. Clones share the mapping.
#[derive(Debug, Clone)]
pub struct Region {
    view: View,
}

impl Region {
    /// Makes a region; done by the data plane at each start, and when the last region was damaged. The file is to be given to those who attach.
    ///
    /// # Errors
    /// When the system has no memory or descriptors left, or no memfd with seals.
    pub fn create(geometry: Geometry, stamp: Stamp) -> Result<(Self, OwnedFd), RegionError> {
        if stamp.generation == 0 {
            return Err(RegionError::NoGeneration);
        }
        let file =
            memfd_create("twinlog-channel", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(sys("create"))?;
        let bytes = geometry.words() * WORD_BYTES;
        ftruncate(&file, bytes as u64).map_err(sys("size"))?;
        fcntl_add_seals(&file, SIZE_SEALS).map_err(sys("seal"))?;
        let mapping = Mapping::new(&file, bytes, Access::ReadWrite)?;
        let region = Self { view: View { mapping: Arc::new(mapping), geometry, stamp } };
        region.mend();
        Ok((region, file))
    }

    /// Writes the header again where it is not what it was made as; true when it was not. For the process that made the region.
    pub fn mend(&self) -> bool {
        let (words, View { geometry, stamp, .. }) = (self.view.mapping.words(), &self.view);
        let broken = |(at, value): &(usize, u64)| words[*at].load(Ordering::Relaxed) != *value;
        let header = header_words(geometry, (stamp.generation, stamp.pid, stamp.started_at_ms));
        let mended: Vec<_> = header.into_iter().filter(broken).collect();
        // The magic word is the last: who sees it sees the others.
        mended.iter().for_each(|(at, value)| words[*at].store(*value, Ordering::Release));
        !mended.is_empty()
    }

    /// Maps a region that another process made.
    ///
    /// # Errors
    /// Whatever is wrong with the file; nothing of it was used then.
    pub fn attach(file: impl AsFd) -> Result<Self, RegionError> {
        Ok(Self { view: View::map(file.as_fd(), Access::ReadWrite)? })
    }

    /// The reading side of this region.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The board, for one core of the data plane. A slot must be published by one core only.
    #[must_use]
    pub fn board_writer(&self) -> BoardWriter<Window> {
        BoardWriter::new(self.view.window(self.geometry().board()))
    }

    /// The page of a core, for that core only.
    ///
    /// # Panics
    /// When there is no such core, as with all areas of a core.
    #[must_use]
    pub fn page_writer(&self, core: u32) -> PageWriter<Window> {
        PageWriter::new(self.view.window(self.geometry().page(core)))
    }

    /// Shows the page that `core` keeps in the region `own` in this one, for that core only.
    #[must_use]
    pub fn page_show(&self, own: &Self, core: u32) -> PageShow<Window, Window> {
        let window = |region: &Self| region.view.window(region.geometry().page(core));
        PageShow::new(window(own), window(self))
    }

    /// The end of the order ring that the core has. The rings of a new region are whole, unless a broken control plane was
    /// faster than the core: then the core begins behind it.
    #[must_use]
    pub fn order_consumer(&self, core: u32) -> Consumer<Window> {
        let window = self.view.window(self.geometry().order_ring(core));
        Consumer::resume(window.clone()).unwrap_or_else(|_| Consumer::skip_all(window))
    }

    /// The end of the event ring that the core has; as with the order ring.
    #[must_use]
    pub fn event_producer(&self, core: u32) -> Producer<Window> {
        let window = self.view.window(self.geometry().event_ring(core));
        Producer::resume(window.clone()).unwrap_or_else(|_| Producer::restart(window))
    }

    /// The end of the order ring that the control plane has. Goes on behind orders that are not taken yet; a broken ring is
    /// started anew, for a control plane sends all its orders again when it attaches.
    #[must_use]
    pub fn order_producer(&self, core: u32) -> Producer<Window> {
        let window = self.view.window(self.geometry().order_ring(core));
        Producer::resume(window.clone()).unwrap_or_else(|_| Producer::restart(window))
    }

    /// The end of the event ring that the control plane has. Events sent before it attached are skipped: it reads the board.
    #[must_use]
    pub fn event_consumer(&self, core: u32) -> Consumer<Window> {
        Consumer::skip_all(self.view.window(self.geometry().event_ring(core)))
    }
}

impl Deref for Region {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

/// The region, for reading. Clones share the mapping.
#[derive(Debug, Clone)]
pub struct View {
    mapping: Arc<Mapping>,
    geometry: Geometry,
    stamp: Stamp,
}

impl View {
    /// Maps a region for reading only; `file` may be opened so.
    ///
    /// # Errors
    /// Whatever is wrong with the file; nothing of it was used then.
    pub fn attach(file: impl AsFd) -> Result<Self, RegionError> {
        Self::map(file.as_fd(), Access::Read)
    }

    /// The sizes, as they were when the region was mapped.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Who made the region.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Bytes of the region, touched or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.geometry.words() * WORD_BYTES
    }

    /// The board.
    #[must_use]
    pub fn board(&self) -> BoardReader<Window> {
        BoardReader::new(self.window(self.geometry.board()))
    }

    /// The page of a core.
    ///
    /// # Panics
    /// When there is no such core.
    #[must_use]
    pub fn page(&self, core: u32) -> PageReader<Window> {
        PageReader::new(self.window(self.geometry.page(core)))
    }

    fn map(file: rustix::fd::BorrowedFd<'_>, access: Access) -> Result<Self, RegionError> {
        let seals = fcntl_get_seals(file).map_err(sys("read the seals of"))?;
        if !seals.contains(SIZE_SEALS) {
            return Err(RegionError::NotSealed);
        }
        // From here on the size cannot change.
        let found = u64::try_from(fstat(file).map_err(sys("stat"))?.st_size).unwrap_or(0);
        let header_bytes = HEADER_WORDS * WORD_BYTES;
        if found < header_bytes as u64 {
            return Err(RegionError::Size { found, wanted: header_bytes as u64 });
        }
        let (geometry, stamp) = read_header(Mapping::new(&file, header_bytes, access)?.words())?;
        let wanted = geometry.words() * WORD_BYTES;
        if found != wanted as u64 {
            return Err(RegionError::Size { found, wanted: wanted as u64 });
        }
        Ok(Self { mapping: Arc::new(Mapping::new(&file, wanted, access)?), geometry, stamp })
    }

    /// Private: an area of a read-only mapping must get into reading ends only.
    fn window(&self, area: Range<usize>) -> Window {
        assert!(
            area.start <= area.end && area.end <= self.mapping.bytes / WORD_BYTES,
            "an area lies within the region"
        );
        Window { mapping: Arc::clone(&self.mapping), area }
    }
}

/// An area of a mapped region, kept mapped as long as this lives. Only the ends made by [`Region`] and [`View`] get one.
#[derive(Clone)]
pub struct Window {
    mapping: Arc<Mapping>,
    area: Range<usize>,
}

impl Deref for Window {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        &self.mapping.words()[self.area.clone()]
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({:?})", self.area)
    }
}

#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    ReadWrite,
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory that does not depend on a thread; all access to it is through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &impl AsFd, bytes: usize, access: Access) -> Result<Self, RegionError> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // JUSTIFICATION: there is no safe way to map a file. SAFETY: no address is asked for, so no mapping of this process is
        // replaced; callers map sealed files no further than their end, so no access of it can fault.
        let base =
            unsafe { mmap(core::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }.map_err(sys("map"))?;
        let base = NonNull::new(base.cast()).ok_or(RegionError::System { what: "map", cause: Errno::NOMEM })?;
        Ok(Self { base, bytes })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // JUSTIFICATION: a mapping has no safe view. SAFETY: page-aligned, `bytes` long, mapped as long as `self`; every process
        // reaches it through atomics only. Words of a read-only mapping get into reading ends only, which never store.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.bytes / WORD_BYTES) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // JUSTIFICATION: what was mapped must be unmapped. SAFETY: base and length are those of the mapping, and no reference
        // into it outlives `self`. It cannot fail with these arguments; if it did, the memory would stay mapped, which is safe.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

fn sys(what: &'static str) -> impl Fn(Errno) -> RegionError {
    move |cause| RegionError::System { what, cause }
}

fn read_header(words: &[AtomicU64]) -> Result<(Geometry, Stamp), RegionError> {
    let magic = words[header::MAGIC_AT].load(Ordering::Acquire);
    if magic != MAGIC {
        return Err(RegionError::Magic { found: magic });
    }
    let get = |at: usize| words[at].load(Ordering::Relaxed);
    let version = get(header::VERSION_AT);
    if version != LAYOUT_VERSION {
        return Err(RegionError::Version { found: version });
    }
    let stamp = Stamp {
        generation: get(header::GENERATION_AT),
        pid: get(header::PID_AT) as u32,
        started_at_ms: get(header::STARTED_AT_MS_AT).cast_signed(),
    };
    if stamp.generation == 0 {
        return Err(RegionError::NoGeneration);
    }
    let (cores, slots) = (get(header::CORES_AT), get(header::SLOTS_AT));
    let geometry = Geometry::new(cores, slots, get(header::ORDER_ENTRIES_AT), get(header::EVENT_ENTRIES_AT))
        .map_err(RegionError::Geometry)?;
    let said = get(header::WORDS_AT);
    if said != geometry.words() as u64 {
        let bytes = |words: u64| words.saturating_mul(WORD_BYTES as u64);
        return Err(RegionError::Size { found: bytes(said), wanted: bytes(geometry.words() as u64) });
    }
    Ok((geometry, stamp))
}

#[cfg(test)]
mod tests;
