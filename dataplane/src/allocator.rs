//! unsafe: mimalloc, with a count of the allocations of each thread.
//!
//! The binary installs it (`#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`). A core publishes
//! its thread's count, so that a test can see that the record path allocates nothing once it runs.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

/// mimalloc, counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

/// Allocations (growing an allocation counts as one) that the calling thread has made; 0 when [`CountingAllocator`] is not installed.
#[must_use]
pub fn thread_allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

thread_local! {
    // Made by the compiler and never dropped: using it allocates nothing and works until the thread's end.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// JUSTIFICATION: an allocator is an unsafe trait. SAFETY: every call is passed on unchanged to mimalloc, which keeps the
// contract; counting touches a thread-local number only and can neither allocate nor unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`; `old` came from mimalloc, for all of ours do.
        unsafe { MiMalloc.realloc(old, layout, bytes) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; `old` came from mimalloc, for all of ours do.
        unsafe { MiMalloc.dealloc(old, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn only_allocations_of_the_own_thread_are_counted() {
        let before = thread_allocations();
        let mut numbers = Vec::with_capacity(2);
        numbers.extend([1, 2]);
        assert_eq!(thread_allocations(), before + 1);
        numbers.push(3);
        drop(numbers);
        assert_eq!(thread_allocations(), before + 2, "growing counts, giving back does not");
        // Starting a thread allocates here; what it does itself does not count here.
        let thread = std::thread::spawn(|| std::hint::black_box(vec![0_u8; 100]));
        let before = thread_allocations();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(thread_allocations(), before);
        thread.join().unwrap();
    }
}
