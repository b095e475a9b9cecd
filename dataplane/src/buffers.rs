//! unsafe runtime: the fixed pool of a core: receive pieces and stage buffers in one mapping that the kernel knows.
//!
//! Everything is mapped and registered once, at the start of the core; taking and giving back allocates nothing.
//! A [`Lease`] is the only way to write to a buffer, a [`Share`] is what several writes may hold of it afterwards.
//! The pool is the only brake of the record path: without a lease nothing is fetched.
//!
//! What the host could not give (huge pages, room to register) is a value in [`PoolReport`], never a failure.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use tokio_uring::buf::fixed::FixedBufRegistry;
use tokio_uring::buf::{IoBuf, IoBufMut};

use crate::limits::{DIRECT_ALIGN_BYTES_MAX, HUGE_PAGE_BYTES, PIECES_PER_CORE_MAX, STAGES_PER_CORE_MAX};
pub use crate::limits::{PIECE_BYTES, STAGE_BYTES};

/// The pool of one core. Cloning gives another handle to the same pool.
#[derive(Clone)]
pub struct Pool {
    inner: Rc<Inner>,
}

/// What the pool got from the host, and what was missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolReport {
    /// The kind of memory behind the buffers.
    pub pages: Pages,
    /// Why there are no huge pages, and what to do about it; `None` when there are.
    pub pages_missing: Option<String>,
    /// Why the buffers are not registered with the ring, and what to do about it; `None` when they are.
    pub registration_missing: Option<String>,
    /// Bytes of the whole mapping.
    pub bytes: usize,
}

/// Kinds of memory, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Reserved 2 MiB pages.
    Huge,
    /// Ordinary memory that the kernel was asked to back with 2 MiB pages.
    Transparent,
    /// 4 KiB pages.
    Plain,
}

impl Pool {
    /// Maps `pieces` pieces and `stages` stage buffers and registers them with the ring of this thread.
    ///
    /// Must be called inside the runtime of the core. Fails only when the memory itself cannot be had.
    pub fn new(pieces: usize, stages: usize) -> io::Result<Self> {
        let (mapping, mut report) = map(pieces, stages)?;
        let registered = match FixedBufRegistry::new([Whole(Rc::clone(&mapping))]).register() {
            Ok(()) => true,
            Err(error) => {
                report.registration_missing = Some(format!(
                    "the kernel did not register {} MiB of buffers ({error}); writes go on unregistered and cost more; \
                     raise the limit of locked memory (LimitMEMLOCK, ulimit -l) or give CAP_IPC_LOCK",
                    mapping.bytes >> 20
                ));
                false
            }
        };
        Ok(Self::over(mapping, pieces, stages, registered, report))
    }

    /// Maps a pool that no ring knows: for offline work and tests, which have no ring.
    pub fn unregistered(pieces: usize, stages: usize) -> io::Result<Self> {
        let (mapping, mut report) = map(pieces, stages)?;
        report.registration_missing = Some("not asked for".to_owned());
        Ok(Self::over(mapping, pieces, stages, false, report))
    }

    fn over(mapping: Rc<Mapping>, pieces: usize, stages: usize, registered: bool, report: PoolReport) -> Self {
        let slots = pieces + stages;
        let inner = Inner {
            mapping,
            pieces,
            registered,
            report,
            shares: (0..slots).map(|_| Cell::new(0)).collect(),
            free_pieces: RefCell::new((0..pieces).rev().collect()),
            free_stages: RefCell::new((pieces..slots).rev().collect()),
            piece_waiters: RefCell::new(Vec::with_capacity(WAITERS)),
            stage_waiters: RefCell::new(Vec::with_capacity(WAITERS)),
            one_offs: Cell::new(0),
        };
        Self { inner: Rc::new(inner) }
    }

    /// What the host gave.
    #[must_use]
    pub fn report(&self) -> &PoolReport {
        &self.inner.report
    }

    /// A piece of [`PIECE_BYTES`], if one is free.
    #[must_use]
    pub fn try_take(&self) -> Option<Lease> {
        let slot = self.inner.free_pieces.borrow_mut().pop()?;
        Some(self.lease(slot))
    }

    /// A piece of [`PIECE_BYTES`], as soon as one is free.
    pub async fn take(&self) -> Lease {
        poll_fn(|cx| match self.try_take() {
            Some(lease) => Poll::Ready(lease),
            None => wait_in(&self.inner.piece_waiters, cx.waker()),
        })
        .await
    }

    /// A stage of [`STAGE_BYTES`], if one is free.
    #[must_use]
    pub fn try_take_stage(&self) -> Option<Lease> {
        let slot = self.inner.free_stages.borrow_mut().pop()?;
        Some(self.lease(slot))
    }

    /// Waits until a stage is free. To be awaited before a region is staged: this is the brake for small runs.
    pub async fn stage_available(&self) {
        poll_fn(|cx| {
            if self.inner.free_stages.borrow().is_empty() {
                wait_in(&self.inner.stage_waiters, cx.waker())
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// A buffer outside of the pool, for the rare moments (a roll) at which the pool may be empty and nobody may wait.
    pub fn one_off(&self, bytes: usize) -> io::Result<Lease> {
        let mapping = Mapping::plain(bytes.next_multiple_of(DIRECT_ALIGN_BYTES_MAX))?;
        self.inner.one_offs.set(self.inner.one_offs.get() + 1);
        let (base, bytes) = (mapping.base, mapping.bytes);
        Ok(Lease(Held { base, bytes, home: Home::OneOff(Rc::new(mapping)) }))
    }

    /// How often [`Pool::one_off`] was needed.
    #[must_use]
    pub fn one_offs(&self) -> u64 {
        self.inner.one_offs.get()
    }

    /// Pieces that are free now.
    #[must_use]
    pub fn free_pieces(&self) -> usize {
        self.inner.free_pieces.borrow().len()
    }

    /// Stage buffers that are free now.
    #[must_use]
    pub fn free_stages(&self) -> usize {
        self.inner.free_stages.borrow().len()
    }

    fn lease(&self, slot: usize) -> Lease {
        let inner = Rc::clone(&self.inner);
        assert_eq!(inner.shares[slot].replace(1), 0, "a free buffer has no holder");
        let (position, bytes) = inner.place(slot);
        // JUSTIFICATION: slots are places in one mapping. SAFETY: `place` stays within the mapping.
        let base = unsafe { inner.mapping.base.add(position) };
        Lease(Held { base, bytes, home: Home::Slot(inner, slot) })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("free_pieces", &self.free_pieces())
            .field("free_stages", &self.free_stages())
            .field("report", &self.inner.report)
            .finish()
    }
}

/// A buffer that one owner may write to. Dropping it gives it back to its pool.
#[derive(Debug)]
pub struct Lease(Held);

impl Lease {
    /// Gives up the right to write; the buffer goes back when the last share is dropped.
    #[must_use]
    pub fn share(self) -> Share {
        Share(self.0)
    }

    /// The ring's index of the registered buffer that holds this one, for `ReadFixed`; `None` when not registered.
    #[must_use]
    pub fn fixed_index(&self) -> Option<u16> {
        self.0.fixed_index()
    }

    /// Bytes of the buffer: [`PIECE_BYTES`] or [`STAGE_BYTES`], or another number for a one-off.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.bytes
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        // JUSTIFICATION: a mapping has no safe view. SAFETY: the bytes belong to this slot alone, are initialised (the
        // mapping began as zeroes), and a `Lease` is their only holder: `shares` was 0 when it was made.
        unsafe { std::slice::from_raw_parts_mut(self.0.base, self.0.bytes) }
    }
}

/// A buffer that nobody writes to any more and that any number of writes may hold.
#[derive(Debug, Clone)]
pub struct Share(Held);

impl Share {
    /// The ring's index of the registered buffer that holds this one, for `WriteFixed`; `None` when not registered.
    #[must_use]
    pub fn fixed_index(&self) -> Option<u16> {
        self.0.fixed_index()
    }

    /// The right to write again, if this is the only share.
    pub fn try_into_lease(self) -> Result<Lease, Self> {
        if self.0.holders() == 1 { Ok(Lease(self.0)) } else { Err(self) }
    }
}

impl Deref for Share {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// One counted hold on a buffer.
struct Held {
    base: *mut u8,
    bytes: usize,
    home: Home,
}

enum Home {
    Slot(Rc<Inner>, usize),
    OneOff(Rc<Mapping>),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        // JUSTIFICATION: a mapping has no safe view. SAFETY: the bytes lie in a mapping that `home` keeps alive, began
        // as zeroes, and are written only through a `Lease`, which is borrowed or given up while this view exists.
        unsafe { std::slice::from_raw_parts(self.base, self.bytes) }
    }

    fn fixed_index(&self) -> Option<u16> {
        match &self.home {
            Home::Slot(inner, _) if inner.registered => Some(WHOLE_INDEX),
            _ => None,
        }
    }

    fn holders(&self) -> usize {
        match &self.home {
            Home::Slot(inner, slot) => inner.shares[*slot].get(),
            Home::OneOff(mapping) => Rc::strong_count(mapping),
        }
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        let home = match &self.home {
            Home::Slot(inner, slot) => {
                inner.shares[*slot].set(inner.shares[*slot].get() + 1);
                Home::Slot(Rc::clone(inner), *slot)
            }
            Home::OneOff(mapping) => Home::OneOff(Rc::clone(mapping)),
        };
        Self { base: self.base, bytes: self.bytes, home }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Home::Slot(inner, slot) = &self.home {
            let left = inner.shares[*slot].get() - 1;
            inner.shares[*slot].set(left);
            if left == 0 {
                inner.give_back(*slot);
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("bytes", &self.bytes).field("holders", &self.holders()).finish()
    }
}

struct Inner {
    mapping: Rc<Mapping>,
    pieces: usize,
    registered: bool,
    report: PoolReport,
    /// Holders of each slot; 0 = free.
    shares: Box<[Cell<usize>]>,
    free_pieces: RefCell<Vec<usize>>,
    free_stages: RefCell<Vec<usize>>,
    piece_waiters: RefCell<Vec<Waker>>,
    stage_waiters: RefCell<Vec<Waker>>,
    one_offs: Cell<u64>,
}

impl Inner {
    /// Position and length of a slot in the mapping.
    fn place(&self, slot: usize) -> (usize, usize) {
        if slot < self.pieces {
            (slot * PIECE_BYTES, PIECE_BYTES)
        } else {
            (self.pieces * PIECE_BYTES + (slot - self.pieces) * STAGE_BYTES, STAGE_BYTES)
        }
    }

    fn give_back(&self, slot: usize) {
        let (free, waiters) = if slot < self.pieces {
            (&self.free_pieces, &self.piece_waiters)
        } else {
            (&self.free_stages, &self.stage_waiters)
        };
        free.borrow_mut().push(slot);
        // All are woken, not one: whoever was first may have gone away meanwhile.
        for waker in waiters.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}

fn wait_in<T>(waiters: &RefCell<Vec<Waker>>, waker: &Waker) -> Poll<T> {
    let mut waiters = waiters.borrow_mut();
    if !waiters.iter().any(|known| known.will_wake(waker)) {
        waiters.push(waker.clone());
    }
    Poll::Pending
}

/// The whole mapping as the one registered buffer: fewer, larger registrations are cheaper, and any place in it may be
/// named in an operation.
struct Whole(Rc<Mapping>);

// JUSTIFICATION: the registry takes only this trait. SAFETY: the mapping never moves and lives as long as `self`, which
// the ring keeps until it is gone; all of it is initialised.
unsafe impl IoBuf for Whole {
    fn stable_ptr(&self) -> *const u8 {
        self.0.base
    }

    fn bytes_init(&self) -> usize {
        self.0.bytes
    }

    fn bytes_total(&self) -> usize {
        self.0.bytes
    }
}

// JUSTIFICATION and SAFETY: as for `IoBuf`. The registry never writes through this pointer by itself.
unsafe impl IoBufMut for Whole {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.0.base
    }

    unsafe fn set_init(&mut self, _pos: usize) {}
}

/// Anonymous memory, unmapped when dropped.
struct Mapping {
    /// Where the buffers start, at a multiple of the page size.
    base: *mut u8,
    /// Usable bytes from `base` on.
    bytes: usize,
    /// What to unmap: a transparent mapping is larger than its usable part.
    whole: (*mut u8, usize),
}

impl Mapping {
    fn anonymous(bytes: usize, flags: MapFlags) -> io::Result<*mut u8> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: mapping memory has no safe form. SAFETY: a new private mapping at an address that the kernel
        // chooses touches nothing that exists.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE | flags)? };
        Ok(base.cast())
    }

    fn plain(bytes: usize) -> io::Result<Self> {
        let base = Self::anonymous(bytes, MapFlags::empty())?;
        Ok(Self { base, bytes, whole: (base, bytes) })
    }

    fn huge(bytes: usize) -> io::Result<Self> {
        let base = Self::anonymous(bytes, MapFlags::HUGETLB)?;
        Ok(Self { base, bytes, whole: (base, bytes) })
    }

    /// Ordinary memory, aligned so that 2 MiB pages fit; the error says why the kernel will not use them.
    fn transparent(bytes: usize) -> io::Result<(Self, Option<io::Error>)> {
        let whole_bytes = bytes + HUGE_PAGE_BYTES;
        let whole = Self::anonymous(whole_bytes, MapFlags::empty())?;
        let skip = whole.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, by which the mapping is larger than `bytes`.
        let base = unsafe { whole.add(skip) };
        let mapping = Self { base, bytes, whole: (whole, whole_bytes) };
        // JUSTIFICATION: advice has no safe form. SAFETY: the range is our own, fresh mapping; both kinds of advice keep
        // its contents (zeroes).
        let refused = unsafe { madvise(base.cast(), bytes, Advice::LinuxHugepage) }.err();
        // Touching the pages now keeps page faults out of the record path; where this is refused they happen there.
        // SAFETY: as above.
        let _touched = unsafe { madvise(base.cast(), bytes, Advice::LinuxPopulateWrite) };
        Ok((mapping, refused.map(io::Error::from)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // JUSTIFICATION: unmapping has no safe form. SAFETY: `whole` is what was mapped, and nobody holds a view into it
        // once the last owner of the mapping is dropped. It cannot fail for such a range.
        let _unmapped = unsafe { munmap(self.whole.0.cast(), self.whole.1) };
    }
}

/// Maps the pool with the best pages that can be had.
fn map(pieces: usize, stages: usize) -> io::Result<(Rc<Mapping>, PoolReport)> {
    if pieces > PIECES_PER_CORE_MAX || stages > STAGES_PER_CORE_MAX {
        let why =
            format!("at most {PIECES_PER_CORE_MAX} pieces and {STAGES_PER_CORE_MAX} stages per core are possible");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let bytes = (pieces * PIECE_BYTES + stages * STAGE_BYTES).next_multiple_of(HUGE_PAGE_BYTES).max(HUGE_PAGE_BYTES);
    let huge_error = match Mapping::huge(bytes) {
        Ok(mapping) => return Ok((Rc::new(mapping), report(Pages::Huge, None, bytes))),
        Err(error) => error,
    };
    let wanted = bytes / HUGE_PAGE_BYTES;
    let advice = format!("reserve {wanted} huge pages of 2 MiB per core (sysctl vm.nr_hugepages)");
    let (mapping, refused) = Mapping::transparent(bytes)?;
    let never = std::fs::read_to_string(TRANSPARENT_SWITCH).is_ok_and(|text| text.contains("[never]"));
    let (pages, also) = match refused {
        Some(error) => (Pages::Plain, format!("; transparent huge pages were refused too ({error})")),
        None if never => (Pages::Plain, format!("; transparent huge pages are off ({TRANSPARENT_SWITCH})")),
        None => (Pages::Transparent, "; transparent huge pages are used instead".to_owned()),
    };
    let missing = format!("no reserved huge pages ({huge_error}){also}; {advice}");
    Ok((Rc::new(mapping), report(pages, Some(missing), bytes)))
}

fn report(pages: Pages, pages_missing: Option<String>, bytes: usize) -> PoolReport {
    PoolReport { pages, pages_missing, registration_missing: None, bytes }
}

/// The index of the only registered buffer.
const WHOLE_INDEX: u16 = 0;

/// Tasks that may wait for a buffer without the list growing.
const WAITERS: usize = 256;

const TRANSPARENT_SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

#[cfg(test)]
#[path = "buffers_tests.rs"]
mod tests;
