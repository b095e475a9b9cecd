//! unsafe: an allocator that counts, so that a test can see what a decoder asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
#[derive(Debug)]
pub(crate) struct Counting;

// JUSTIFICATION: a global allocator can only be an unsafe impl. SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

fn count(bytes: usize) {
    // A thread that is going away has no counters any more.
    let _gone = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
    let _gone = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

/// What one piece of work asked the allocator for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Bytes in all, released ones included.
    pub(crate) bytes: usize,
    /// The largest single request.
    pub(crate) largest: usize,
}

/// Runs `work` and tells what it asked for.
pub(crate) fn asked<T>(work: impl FnOnce() -> T) -> (T, Asked) {
    BYTES.set(0);
    LARGEST.set(0);
    let value = work();
    (value, Asked { bytes: BYTES.get(), largest: LARGEST.get() })
}
