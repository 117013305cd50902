//! Counts the calls to the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The total cost of several operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub allocations: u64,
    /// Bytes put into buffers: copied or encoded.
    pub bytes: u64,
    /// True if only a part of each operation was counted.
    pub in_parts: bool,
}

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// The allocations in the parts that [`counted`] has run, or `None` if there were none.
    static IN_PARTS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs the part of an operation that is to be counted. What a case does outside of it costs nothing.
pub(crate) fn counted<R>(part: impl FnOnce() -> R) -> R {
    let before = ALLOCATIONS.get();
    let (mut part, mut result) = (Some(part), None);
    counted_part(&mut || result = part.take().map(|part| part()));
    IN_PARTS.set(Some(IN_PARTS.get().unwrap_or(0) + ALLOCATIONS.get() - before));
    result.expect("the part was run")
}

/// `bench/micro/check` tells callgrind to count instructions in this function only, by its name.
#[inline(never)]
fn counted_part(part: &mut dyn FnMut()) {
    part();
}

/// The number of allocations of this thread so far. A reallocation counts as one more. If [`counted`] was called, only those in parts
/// count.
pub(crate) fn allocations() -> u64 {
    IN_PARTS.get().unwrap_or_else(|| ALLOCATIONS.get())
}

/// Returns whether the running case counts a part of its operations only. Then forgets it for the next case.
pub(crate) fn take_has_parts() -> bool {
    IN_PARTS.take().is_some()
}

// SAFETY: every call is passed unchanged to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises about `at`, `layout` and `size` are passed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` or `realloc` above with this `layout`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
