//! An allocator that counts for each thread.

#![expect(unsafe_code, reason = "the trait of allocators is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
struct Counter;

#[global_allocator]
static COUNTER: Counter = Counter;

thread_local! {
    /// Constant and without a destructor: reading it allocates nothing. By thread, because tests
    /// run beside one another.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// How often this thread allocates, or makes an allocation larger or smaller, in `work`.
pub(crate) fn count(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn note() {
    // A thread that ends may still allocate; nobody counts that.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: the system's allocator keeps the contract; counting touches no memory of its callers.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[test]
fn it_counts_what_is_allocated_and_no_more() {
    let mut bytes = Vec::new();
    assert_eq!(count(|| bytes.push(1_u8)), 1);
    assert_eq!(count(|| bytes.reserve_exact(100)), 1, "growing is one");
    assert_eq!(count(|| bytes.extend_from_slice(&[1; 50])), 0, "there was room");
    assert_eq!(count(|| drop(Box::new([bytes.len(); 2]))), 1, "and freeing none");
}
