//! An allocator that counts what each thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// The bytes of this thread. Memory that comes from other threads and is freed here makes the number negative.
    pub static BYTES: Cell<isize> = const { Cell::new(0) };
    /// The most bytes of this thread since a test has set it.
    pub static MOST: Cell<isize> = const { Cell::new(0) };
    /// How often this thread has allocated memory.
    pub static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn add(bytes: isize) {
    BYTES.set(BYTES.get() + bytes);
    MOST.set(MOST.get().max(BYTES.get()));
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        add(layout.size() as isize);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: `at` came from `alloc` above with this `layout`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
