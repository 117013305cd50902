//! The bridge from a peer's credit to a queue's grants (docs/compatibility.md, Credit).
//!
//! The peer may grant up to four billion. The queue is asked for at most one batch at a time, with at most one request
//! in flight. A newer grant of the peer waits for the answer, and only the newest one counts. The answer to a drain or
//! an echo leaves after the deliveries.

use queue::CreditState;

/// The maximum of the first batch of a consumer: how large the messages are is not known yet.
const FIRST_BATCH: u32 = 16;

/// The credit of one consumer on both sides.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    /// The maximum credit that is requested from the queue at once.
    batch_max: u32,
    /// The mean size of the messages of the last batch, in bytes. 0 if there was none.
    mean_bytes: u64,
    /// True if large messages are asked for in smaller batches.
    follows_size: bool,
    /// The number and the bytes of the deliveries since the last batch was asked for.
    arrived: u32,
    arrived_bytes: u64,
    /// The number of deliveries that have arrived from the queue, as the queue counts them.
    queue_count: u32,
    /// The number of messages that the queue may still deliver.
    queue_credit: u32,
    /// True if a grant is in flight: the queue's CreditState has not arrived.
    in_flight: bool,
    /// True if the peer has granted credit or asked for a report since the last grant to the queue.
    peer_changed: bool,
    drain: bool,
    echo: bool,
    /// True if the grant in flight also serves an echo of the peer that is not answered yet.
    echo_in_flight: bool,
}

/// A grant for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub delivery_count: u32,
    pub credit: u32,
    pub drain: bool,
}

/// A report for the peer, to be sent after the deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditReport {
    pub available: u32,
    pub drain: bool,
}

impl Bridge {
    pub(super) fn new(batch_max: u32) -> Self {
        Self { batch_max: batch_max.max(1), follows_size: true, ..Self::default() }
    }

    /// Creates the bridge to a queue that stops by itself when the peer has no room: a stream, or a queue that is browsed.
    pub(super) fn to_stopping(batch_max: u32) -> Self {
        Self { batch_max: batch_max.max(1), ..Self::default() }
    }

    /// Returns the number of deliveries that have arrived from the queue.
    pub(super) fn delivery_count(&self) -> u32 {
        self.queue_count
    }

    /// Called when the peer has granted credit or asked for a report.
    pub(super) fn handle_flow(&mut self, drain: bool, echo: bool) {
        self.peer_changed = true;
        self.drain = drain;
        self.echo |= echo;
    }

    /// Called when a delivery of this many bytes has arrived from the queue.
    pub(super) fn handle_delivery(&mut self, bytes: u64) {
        self.arrived = self.arrived.wrapping_add(1);
        self.arrived_bytes = self.arrived_bytes.wrapping_add(bytes);
        self.queue_count = self.queue_count.wrapping_add(1);
        self.queue_credit = self.queue_credit.saturating_sub(1);
    }

    /// Handles the queue's answer to the grant in flight. `client_credit` is the credit that the peer has
    /// left. `room` is the number of further deliveries that may be left unsettled.
    pub(super) fn handle_credit_state(
        &mut self,
        state: CreditState,
        client_credit: u32,
        room: u32,
    ) -> Option<CreditReport> {
        self.in_flight = false;
        // If a drain leaves credit over, the queue has delivered everything that it can now, even if it reports ready
        // messages.
        let used_up = self.queue_credit == 0;
        self.queue_count = state.delivery_count;
        self.queue_credit = state.credit;
        // A newer grant of the peer waits. It is sent to the queue next, and the queue's answer to it answers
        // both. Until then the queue may exceed it.
        if self.peer_changed {
            return None;
        }
        if state.drained && self.drain {
            // Another grant follows if the batch was too small for the ready messages.
            if used_up && state.available > 0 && client_credit > 0 && room > 0 {
                return None;
            }
            self.drain = false;
            self.echo_in_flight = false;
            return Some(CreditReport { available: state.available, drain: true });
        }
        std::mem::take(&mut self.echo_in_flight)
            .then_some(CreditReport { available: state.available, drain: false })
    }

    /// Asks a stream to continue with its remaining credit, after it had to stop for lack of room. If an answer is
    /// still expected, the answer to this grant replaces it.
    pub(super) fn resume(&mut self) -> Option<Batch> {
        if self.queue_credit == 0 {
            return None;
        }
        self.in_flight = true;
        Some(Batch { delivery_count: self.queue_count, credit: self.queue_credit, drain: self.drain })
    }

    /// Returns the next grant for the queue. `room` is the number of further deliveries that may be left
    /// unsettled. `blocked` says that deliveries wait for the peer's window or socket, so that no more are
    /// fetched. `bytes` are those that the messages of a batch should have: a batch waits for the peer, so large messages are
    /// asked for in smaller batches. Another batch follows in the same turn if the peer has room.
    pub(super) fn poll_grant(
        &mut self,
        client_credit: u32,
        room: u32,
        blocked: bool,
        bytes: usize,
    ) -> Option<Batch> {
        if self.in_flight || !self.peer_changed && self.queue_credit > 0 {
            return None;
        }
        let batch = client_credit.min(self.next_batch(bytes)).min(room);
        let batch = if blocked { batch.min(self.queue_credit) } else { batch };
        if !self.peer_changed && batch == 0 {
            return None;
        }
        self.peer_changed = false;
        self.in_flight = true;
        self.queue_credit = batch;
        self.echo_in_flight |= std::mem::take(&mut self.echo);
        Some(Batch { delivery_count: self.queue_count, credit: batch, drain: self.drain })
    }

    /// Returns the maximum of the next batch.
    fn next_batch(&mut self, bytes: usize) -> u32 {
        if !self.follows_size {
            return self.batch_max;
        }
        if self.arrived > 0 {
            self.mean_bytes = (self.arrived_bytes / u64::from(self.arrived)).max(1);
            (self.arrived, self.arrived_bytes) = (0, 0);
        }
        match self.mean_bytes {
            0 if bytes < buffers::HIGH_WATER => 1,
            0 => self.batch_max.min(FIRST_BATCH),
            mean => u32::try_from(bytes as u64 / mean).unwrap_or(u32::MAX).clamp(1, self.batch_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u32 = 1000;
    const BYTES: usize = 256 * 1024;

    fn state(delivery_count: u32, credit: u32, available: u32, drained: bool) -> CreditState {
        CreditState { delivery_count, credit, available, drained }
    }

    #[test]
    fn a_huge_credit_is_asked_for_in_batches() {
        let mut bridge = Bridge::new(256);
        bridge.handle_flow(false, false);
        let grant = bridge.poll_grant(u32::MAX, ROOM, false, BYTES);
        assert_eq!(grant, Some(Batch { delivery_count: 0, credit: FIRST_BATCH, drain: false }));
        assert_eq!(bridge.poll_grant(u32::MAX, ROOM, false, BYTES), None, "one request in flight");
        assert_eq!(bridge.handle_credit_state(state(0, FIRST_BATCH, 0, false), u32::MAX, ROOM), None);
        for _ in 1..FIRST_BATCH {
            bridge.handle_delivery(100);
            assert_eq!(bridge.poll_grant(u32::MAX, ROOM, false, BYTES), None);
        }
        bridge.handle_delivery(100);
        assert_eq!(
            bridge.poll_grant(1000, ROOM, true, BYTES),
            None,
            "no grant while the client does not read"
        );
        let grant = bridge.poll_grant(1000, ROOM, false, BYTES);
        assert_eq!(grant, Some(Batch { delivery_count: FIRST_BATCH, credit: 256, drain: false }));
    }

    #[test]
    fn a_batch_of_large_messages_is_small() {
        let mut bridge = Bridge::new(256);
        bridge.handle_flow(false, false);
        let mut next = |bytes: u64| {
            let batch =
                bridge.poll_grant(u32::MAX, ROOM, false, BYTES).expect("the last one is used up").credit;
            bridge.handle_credit_state(state(bridge.queue_count, batch, 0, false), u32::MAX, ROOM);
            (0..batch).for_each(|_| bridge.handle_delivery(bytes));
            batch
        };
        let batches = [100_000, 1000, 1 << 24, 1 << 24, 0, 0].map(&mut next);
        assert_eq!(batches, [FIRST_BATCH, 2, 256, 1, 1, 256]);
    }

    #[test]
    fn the_newest_flow_wins() {
        let mut bridge = Bridge::new(256);
        bridge.handle_flow(false, false);
        assert!(bridge.poll_grant(10, ROOM, false, BYTES).is_some());
        for _ in 0..1000 {
            bridge.handle_flow(false, false);
            assert_eq!(bridge.poll_grant(7, ROOM, false, BYTES), None);
        }
        bridge.handle_credit_state(state(0, 10, 0, false), 7, ROOM);
        assert_eq!(
            bridge.poll_grant(7, ROOM, false, BYTES),
            Some(Batch { delivery_count: 0, credit: 7, drain: false })
        );
        bridge.handle_credit_state(state(0, 7, 0, false), 7, ROOM);
        assert_eq!(bridge.poll_grant(7, ROOM, false, BYTES), None);
    }

    #[test]
    fn a_drain_may_take_several_batches() {
        let mut bridge = Bridge::new(2);
        bridge.handle_flow(true, false);
        assert_eq!(
            bridge.poll_grant(5, ROOM, false, BYTES),
            Some(Batch { delivery_count: 0, credit: 2, drain: true })
        );
        bridge.handle_delivery(1);
        bridge.handle_delivery(1);
        assert_eq!(bridge.handle_credit_state(state(2, 0, 1, true), 3, ROOM), None);
        assert_eq!(
            bridge.poll_grant(3, ROOM, false, BYTES),
            Some(Batch { delivery_count: 2, credit: 2, drain: true })
        );
        bridge.handle_delivery(1);
        let report = bridge.handle_credit_state(state(4, 0, 0, true), 2, ROOM);
        assert_eq!(report, Some(CreditReport { available: 0, drain: true }));
        assert_eq!(bridge.poll_grant(0, ROOM, false, BYTES), None);
    }

    #[test]
    fn an_echo_is_answered_after_the_newest_flow() {
        let mut bridge = Bridge::new(2);
        bridge.handle_flow(true, true);
        bridge.poll_grant(5, ROOM, false, BYTES);
        (0..2).for_each(|_| bridge.handle_delivery(1));
        assert_eq!(bridge.handle_credit_state(state(2, 0, 9, true), 3, ROOM), None, "another round");
        bridge.poll_grant(3, ROOM, false, BYTES);
        // The drain is cancelled. The queue may still answer the drain before it receives the new grant. That
        // answer must not be reported to the peer.
        bridge.handle_flow(false, false);
        assert_eq!(bridge.handle_credit_state(state(4, 0, 7, true), 0, ROOM), None);
        assert!(bridge.poll_grant(0, ROOM, false, BYTES).is_some());
        let report = bridge.handle_credit_state(state(4, 0, 7, false), 0, ROOM);
        assert_eq!(report, Some(CreditReport { available: 7, drain: false }));
    }

    #[test]
    fn a_drain_ends_when_the_queue_cannot_deliver() {
        let mut bridge = Bridge::new(256);
        bridge.handle_flow(true, false);
        bridge.poll_grant(10, ROOM, false, BYTES);
        bridge.handle_delivery(1);
        // The head of the queue cannot be delivered now, for example because it is expired and waits for its
        // dead-letter queue.
        let report = bridge.handle_credit_state(state(10, 0, 3, true), 9, ROOM);
        assert_eq!(report, Some(CreditReport { available: 3, drain: true }));
        assert_eq!(bridge.poll_grant(0, ROOM, false, BYTES), None);
    }

    #[test]
    fn an_echo_without_credit_is_answered_when_the_queue_has_stopped() {
        let mut bridge = Bridge::new(10);
        bridge.handle_flow(false, false);
        bridge.poll_grant(100, ROOM, false, BYTES);
        bridge.handle_credit_state(state(0, 10, 0, false), 100, ROOM);
        bridge.handle_flow(false, true);
        assert_eq!(
            bridge.poll_grant(0, ROOM, true, BYTES),
            Some(Batch { delivery_count: 0, credit: 0, drain: false })
        );
        let report = bridge.handle_credit_state(state(0, 0, 3, false), 0, ROOM);
        assert_eq!(report, Some(CreditReport { available: 3, drain: false }));
        assert_eq!(bridge.poll_grant(0, ROOM, false, BYTES), None);
    }

    #[test]
    fn a_client_that_never_settles_is_bounded() {
        let mut bridge = Bridge::new(256);
        bridge.handle_flow(false, false);
        assert_eq!(bridge.poll_grant(1000, 3, false, BYTES).unwrap().credit, 3);
        bridge.handle_credit_state(state(0, 3, 0, false), 1000, 3);
        (0..3).for_each(|_| bridge.handle_delivery(1));
        assert_eq!(bridge.poll_grant(997, 0, false, BYTES), None);
        assert_eq!(bridge.poll_grant(997, 2, false, BYTES).unwrap().credit, 2, "the client has settled two");
    }
}
