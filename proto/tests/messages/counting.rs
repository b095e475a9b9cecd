//! unsafe: an allocator that knows how many bytes each thread holds, so that a test can bound what a decoder allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes that this thread allocated and did not free. Negative when it freed what another thread had allocated.
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn grow(bytes: usize) {
    HELD.set(HELD.get() + bytes as i64);
    PEAK.set(PEAK.get().max(HELD.get()));
}

fn shrink(bytes: usize) {
    HELD.set(HELD.get() - bytes as i64);
}

// JUSTIFICATION: only an allocator sees every allocation. SAFETY: everything is handed to the system's allocator unchanged;
// the counters are const-initialised thread locals without a destructor, which allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes that `work` held at once in this thread, and what it gave.
pub(crate) fn peak_bytes<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    ((PEAK.get() - before) as usize, result)
}

#[test]
fn the_peak_is_what_was_held_at_once() {
    // What the harness allocated before this thread started is freed here, so that the count starts below zero.
    HELD.set(-4000);
    let (peak, ()) = peak_bytes(|| {
        drop(vec![0_u8; 5000]);
        drop(vec![0_u8; 3000]);
    });
    assert_eq!(peak, 5000);
}
