//! What a connection keeps for its client as long as the client wants it, in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sum of what is kept. Clones share it. Only the connection and what belongs to it change it, so it is an atomic number for
/// connections that move to another thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptBytes(Arc<Sum>);

#[derive(Debug, Default)]
struct Sum {
    bytes: AtomicUsize,
    parts: AtomicUsize,
}

/// A part of the sum. It is taken off when this is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    of: KeptBytes,
    bytes: usize,
}

impl KeptBytes {
    pub(crate) fn sum(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.0.parts.load(Ordering::Relaxed)
    }

    pub(crate) fn keep(&self, bytes: usize) -> Kept {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.parts.fetch_add(1, Ordering::Relaxed);
        Kept { of: self.clone(), bytes }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.of.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.of.0.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_does_not_count() {
        let sum = KeptBytes::default();
        let (one, two) = (sum.keep(3), sum.keep(4));
        assert_eq!((sum.sum(), sum.parts()), (7, 2));
        drop(one);
        assert_eq!(sum.clone().sum(), 4);
        drop(two);
        assert_eq!((sum.sum(), sum.parts()), (0, 0));
    }
}
