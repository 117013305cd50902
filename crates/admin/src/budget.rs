//! The memory that all requests of the HTTP ports may use together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit on the bytes that all holders together may use.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
}

/// The bytes that one request uses. They are released when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: AtomicUsize::new(0) })
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns a holder that uses nothing yet.
    pub(crate) fn hold(self: &Arc<Self>) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

impl Reservation {
    /// Raises the holder's bytes to this number. Returns false and changes nothing if the budget does not
    /// allow it. A holder that is alone may exceed the budget, so that a request larger than the whole budget
    /// is possible.
    #[must_use]
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
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

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_share_the_budget() {
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
