//! Link credit, with one type for each end [2.6.7].

use crate::serial;

/// Credit as the sender of a link sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCredit {
    /// The number of deliveries begun on this link, serial.
    delivery_count: u32,
    /// The number of deliveries that may still begin.
    credit: u32,
    /// The receiver's count in its last FLOW. It lags behind ours by the deliveries in flight, and never goes
    /// back.
    receiver_count: u32,
}

impl SenderCredit {
    pub const fn starting_at(initial_delivery_count: u32) -> Self {
        Self { delivery_count: initial_delivery_count, credit: 0, receiver_count: initial_delivery_count }
    }

    pub const fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    pub const fn credit(&self) -> u32 {
        self.credit
    }

    /// Handles the receiver's FLOW. Our credit is its grant minus the deliveries in flight. `delivery_count`
    /// is absent if the receiver has not seen our ATTACH. It then means the initial value.
    pub fn handle_flow(&mut self, delivery_count: Option<u32>, link_credit: u32, initial: u32) {
        let theirs = delivery_count.unwrap_or(initial);
        let in_flight = self.delivery_count.wrapping_sub(theirs);
        let ahead = serial::distance(theirs, self.delivery_count);
        // A drain of more than 2^31 deliveries looks like a step back in serial arithmetic. So also check
        // whether the receiver can have counted that far since its last FLOW.
        if ahead > 0 && in_flight > self.delivery_count.wrapping_sub(self.receiver_count) {
            // The receiver counts more deliveries than were sent, as fe2o3-amqp does after a drain. The grant
            // then starts at the receiver's count.
            self.receiver_count = self.delivery_count;
            self.credit = link_credit.saturating_add(ahead.unsigned_abs());
        } else {
            // If the grant shrank below the number in flight [2.6.7], no credit is left.
            self.receiver_count = theirs;
            self.credit = link_credit.saturating_sub(in_flight);
        }
    }

    /// Changes the initial delivery-count before the first delivery. The credit does not change.
    pub(crate) fn restart_at(&mut self, initial_delivery_count: u32) {
        self.delivery_count = initial_delivery_count;
        self.receiver_count = initial_delivery_count;
    }

    /// Begins one delivery. Returns false without credit.
    pub fn spend(&mut self) -> bool {
        if self.credit == 0 {
            return false;
        }
        self.credit -= 1;
        self.delivery_count = self.delivery_count.wrapping_add(1);
        true
    }

    /// Begins one delivery even without credit: the receiver withdrew the credit while the delivery was on its
    /// way to this link.
    pub fn spend_anyway(&mut self) {
        self.credit = self.credit.saturating_sub(1);
        self.delivery_count = self.delivery_count.wrapping_add(1);
    }

    /// Drain [2.6.7]: uses up the remaining credit without a delivery.
    pub fn drain(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
    }
}

/// Credit as the receiver of a link sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCredit {
    /// The number of deliveries that the sender has begun, as far as we know, serial.
    delivery_count: u32,
    /// The number of deliveries that the sender may still begin.
    credit: u32,
    /// The number of deliveries beyond `credit` that may be in flight, because an earlier grant allowed them
    /// [2.6.7].
    withdrawn: u32,
}

impl ReceiverCredit {
    pub const fn starting_at(initial_delivery_count: u32) -> Self {
        Self { delivery_count: initial_delivery_count, credit: 0, withdrawn: 0 }
    }

    pub const fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    pub const fn credit(&self) -> u32 {
        self.credit
    }

    /// Called when the sender's ATTACH arrives after our first grant. Counts from the sender's start; the
    /// credit does not change.
    pub(crate) fn restart_at(&mut self, initial_delivery_count: u32) {
        self.delivery_count = initial_delivery_count;
    }

    /// Sets (does not add to) the number of deliveries that the sender may still begin. Deliveries that an
    /// earlier grant allowed may be in flight and are still accepted.
    pub fn grant(&mut self, credit: u32) {
        self.withdrawn = self.credit.saturating_add(self.withdrawn).saturating_sub(credit);
        self.credit = credit;
    }

    /// Called when the sender has begun a delivery. Returns false if it never had credit for it.
    pub fn spend(&mut self) -> bool {
        if self.credit > 0 {
            self.credit -= 1;
        } else if self.withdrawn > 0 {
            self.withdrawn -= 1;
        } else {
            return false;
        }
        self.delivery_count = self.delivery_count.wrapping_add(1);
        true
    }

    /// Handles the sender's FLOW. After a drain, its delivery-count has advanced by the credit that it used
    /// up.
    pub fn handle_flow(&mut self, delivery_count: u32) {
        // The sender may have used up all of its credit. That can be more than serial arithmetic recognizes
        // as a step forward.
        let ahead = delivery_count.wrapping_sub(self.delivery_count);
        let allowed = u64::from(self.credit) + u64::from(self.withdrawn);
        if u64::from(ahead) <= allowed || serial::distance(delivery_count, self.delivery_count) > 0 {
            let beyond = ahead.saturating_sub(self.credit);
            self.credit = self.credit.saturating_sub(ahead);
            self.withdrawn = self.withdrawn.saturating_sub(beyond);
            self.delivery_count = delivery_count;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credit_is_absolute_and_wraps() {
        let start = u32::MAX - 1;
        let mut sender = SenderCredit::starting_at(start);
        sender.handle_flow(None, 50, start);
        sender.handle_flow(Some(start), 50, start);
        assert_eq!(sender.credit(), 50);
        for _ in 0..4 {
            assert!(sender.spend());
        }
        assert_eq!(sender.delivery_count(), 2);
        sender.handle_flow(Some(start), 10, start);
        assert_eq!(sender.credit(), 6, "four of the ten are in flight");
        sender.handle_flow(Some(start), 3, start);
        assert_eq!(sender.credit(), 0, "the grant shrank below the number in flight");
        sender.handle_flow(Some(2), u32::MAX, start);
        assert_eq!(sender.credit(), u32::MAX);
    }

    proptest! {
        /// Compares both ends of a link with a sender and a receiver that count without wrapping, across the
        /// wrap of the delivery-count [2.6.7].
        #[test]
        fn both_ends_count_correctly_across_the_wrap(
            start in prop_oneof![Just(u32::MAX), u32::MAX - 40..u32::MAX, any::<u32>()],
            steps in vec((0u8..8, 0u32..60, 0usize..12), 1..200),
        ) {
            let (mut sender, mut receiver) = (SenderCredit::starting_at(start), ReceiverCredit::starting_at(start));
            let wire = |n: u64| start.wrapping_add(n as u32);
            // `sent`: deliveries begun. `arrived`: deliveries that arrived. `limit`: deliveries that the last
            // FLOW allowed.
            let (mut sent, mut arrived, mut limit) = (0u64, 0u64, 0u64);
            for (step, credit, many) in steps {
                match step {
                    0..=3 => {
                        for _ in 0..many {
                            let may = sent < limit;
                            prop_assert_eq!(sender.spend(), may);
                            sent += u64::from(may);
                        }
                    }
                    4 | 5 => {
                        for _ in 0..many as u64 % (sent - arrived + 1) {
                            prop_assert!(receiver.spend(), "delivery {} of {}", arrived, limit);
                            arrived += 1;
                        }
                    }
                    6 => {
                        // The receiver's FLOW counts only the deliveries that have arrived. Deliveries in
                        // flight use up a part of the grant.
                        receiver.grant(credit);
                        sender.handle_flow(Some(receiver.delivery_count()), credit, start);
                        limit = arrived + u64::from(credit);
                    }
                    _ => {
                        (sent, arrived) = (sent.max(limit), sent.max(limit));
                        sender.drain();
                        receiver.handle_flow(sender.delivery_count());
                    }
                }
                prop_assert_eq!(sender.delivery_count(), wire(sent));
                prop_assert_eq!(u64::from(sender.credit()), limit.saturating_sub(sent));
                prop_assert_eq!(receiver.delivery_count(), wire(arrived));
                prop_assert_eq!(u64::from(receiver.credit()), limit.saturating_sub(arrived));
            }
        }
    }

    #[test]
    fn withdrawn_credit_may_be_in_flight() {
        let (mut sender, mut receiver) = (SenderCredit::starting_at(0), ReceiverCredit::starting_at(0));
        receiver.grant(3);
        sender.handle_flow(Some(0), 3, 0);
        assert!(sender.spend());
        receiver.grant(0);
        sender.handle_flow(Some(0), 0, 0);
        assert_eq!((sender.credit(), sender.delivery_count()), (0, 1));
        sender.spend_anyway();
        assert_eq!((sender.credit(), sender.delivery_count()), (0, 2));
        assert!(receiver.spend() && receiver.spend());
        receiver.grant(2);
        sender.handle_flow(Some(receiver.delivery_count()), 2, 0);
        assert_eq!((sender.credit(), receiver.credit(), receiver.delivery_count()), (2, 2, 2));
        assert!(receiver.spend() && receiver.spend() && !receiver.spend(), "the old grant is used up");
    }

    #[test]
    fn drain_moves_the_count() {
        let mut sender = SenderCredit::starting_at(0);
        let mut receiver = ReceiverCredit::starting_at(0);
        receiver.grant(10);
        sender.handle_flow(Some(0), 10, 0);
        assert!(sender.spend() && receiver.spend());
        sender.drain();
        receiver.handle_flow(sender.delivery_count());
        assert_eq!((receiver.credit(), receiver.delivery_count()), (0, 10));
        assert!(!sender.spend() && !receiver.spend());
    }

    #[test]
    fn the_largest_credit_can_be_drained() {
        let mut sender = SenderCredit::starting_at(7);
        let mut receiver = ReceiverCredit::starting_at(7);
        receiver.grant(u32::MAX);
        sender.handle_flow(Some(7), u32::MAX, 7);
        sender.drain();
        // The receiver made this grant before it saw the drain. So it is far below what the drain used up.
        sender.handle_flow(Some(7), 10, 7);
        assert_eq!((sender.credit(), sender.delivery_count()), (0, 6));
        receiver.handle_flow(sender.delivery_count());
        assert_eq!((receiver.credit(), receiver.delivery_count()), (0, 6));
        receiver.grant(3);
        sender.handle_flow(Some(6), 3, 7);
        assert_eq!(sender.credit(), 3);
    }

    #[test]
    fn a_receiver_that_counts_too_high_still_grants_credit() {
        let mut sender = SenderCredit::starting_at(0);
        sender.handle_flow(Some(0), 1, 0);
        assert!(sender.spend());
        sender.handle_flow(Some(3), 5, 0);
        assert_eq!(sender.credit(), 7, "five from where it says");
        sender.handle_flow(Some(1), 5, 0);
        assert_eq!(sender.credit(), 5);
    }
}
