//! Bytes that all requests of the HTTP ports may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bound on what all holders have together.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
}

/// What one request holds; it is given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: AtomicUsize::new(0) })
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that are held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// A holder of nothing yet.
    pub fn hold(self: &Arc<Self>) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// Holds so many bytes from now on, if it is more. Returns false, and holds what it held, if there are not so many.
    /// Who is alone may hold more than the budget: what is larger than all of it must be possible at some time.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let Budget { bytes_max, used } = &*self.budget;
        let mine = self.bytes;
        let grown =
            |before: usize| before.checked_add(more).filter(|after| after <= bytes_max || before == mine);
        let fits = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if fits {
            self.bytes += more;
        }
        fits
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_hold_no_more_than_there_is() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.hold(), budget.hold());
        assert!(a.grow_to(4) && a.grow_to(3) && b.grow_to(6));
        assert!(!a.grow_to(5), "one too many");
        assert!(a.grow_to(4) && !a.grow_to(usize::MAX));
        assert_eq!(budget.used(), 10);
        drop(b);
        assert!(a.grow_to(10) && a.grow_to(11), "who is alone may hold more");
        assert!(!budget.hold().grow_to(1));
        drop(a);
        assert_eq!(budget.used(), 0);
    }
}
