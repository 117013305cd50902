//! The credit of one consumer.

/// The credit that a consumer has left. The queue counts deliveries in `delivery_count`. The consumer only
/// sets a limit.
///
/// Both numbers wrap (RFC 1982). Only their differences are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The number of deliveries sent, plus credit that drains used up.
    pub delivery_count: u32,
    /// The number of deliveries that may still be sent.
    pub credit: u32,
}

impl Grant {
    pub(crate) fn new(delivery_count: u32) -> Self {
        Self { delivery_count, credit: 0 }
    }

    /// Replaces the limit: `credit` deliveries counted from `delivery_count`. The consumer's `delivery_count`
    /// lags behind the queue's by the deliveries that were in flight when it was sent. A limit that has
    /// already been reached leaves no credit.
    pub(crate) fn replace(&mut self, delivery_count: u32, credit: u32) {
        let ahead = self.delivery_count.wrapping_sub(delivery_count) as i32;
        let left = i64::from(credit) - i64::from(ahead);
        self.credit = left.clamp(0, i64::from(u32::MAX)) as u32;
    }

    /// Uses one credit. Nothing else spends credit for a delivery.
    pub(crate) fn spend(&mut self) {
        debug_assert!(self.credit > 0, "a delivery without credit");
        (self.delivery_count, self.credit) = (self.delivery_count.wrapping_add(1), self.credit - 1);
    }

    /// Uses up the remaining credit.
    pub(crate) fn drain(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_counts_deliveries_in_flight() {
        let mut grant = Grant { delivery_count: 12, credit: 0 };
        grant.replace(10, 5);
        assert_eq!(grant.credit, 3);
        grant.replace(10, 1);
        assert_eq!(grant.credit, 0, "a limit that has been reached leaves no credit");
    }

    #[test]
    fn a_grant_wraps() {
        let mut grant = Grant { delivery_count: 1, credit: 0 };
        grant.replace(u32::MAX - 1, 10);
        assert_eq!(grant.credit, 7);
        grant.drain();
        assert_eq!(grant, Grant { delivery_count: 8, credit: 0 });
        let mut last = Grant { delivery_count: u32::MAX, credit: 1 };
        last.spend();
        assert_eq!(last, Grant { delivery_count: 0, credit: 0 });
    }

    #[test]
    fn the_largest_credit_is_not_negative() {
        let mut grant = Grant::new(7);
        grant.replace(7, u32::MAX);
        assert_eq!(grant.credit, u32::MAX);
    }
}
