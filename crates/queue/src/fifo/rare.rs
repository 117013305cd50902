//! Parts of a queue that few queues need.

use std::ops::Deref;

/// A part that is empty in most queues. It takes memory from its first change on.
pub(super) struct Rare<T>(Option<Box<T>>);

/// The empty state of a rare part.
pub(super) trait Nothing: Default + 'static {
    const NOTHING: &'static Self;
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Nothing> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

impl<T: Nothing> Rare<T> {
    /// Returns the part, to be changed.
    pub(super) fn make(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// Returns the part, unless it has always been empty.
    pub(super) fn made(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}
