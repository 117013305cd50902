//! What passed over a channel of AMQP 0.9.1, over a session of AMQP 1.0, or over all of them in a virtual host.

use std::ops::AddAssign;

use queue::Depth;

use crate::counters::Deliveries;

/// What passed over a channel or a session since it was opened. All of the numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedCounts {
    /// The number of messages that the client sent.
    pub received: u64,
    /// The number of messages that were confirmed to the client. In AMQP 1.0, these are the outcomes of all messages that
    /// were routed.
    pub confirmed: u64,
    /// The number of messages that reached no queue and went back to the client.
    pub returned: u64,
    /// The number of messages that reached no queue and were dropped.
    pub dropped: u64,
    pub deliveries: Deliveries,
    /// The number of times that the client asked an empty queue for a message.
    pub get_empty: u64,
}

/// Adds to a sum. Other nodes say some of the numbers, so no number may overflow it.
pub(super) fn add_to(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// As [`add_to`], for all of its numbers.
pub(super) fn add_depth(sum: &mut Depth, more: Depth) {
    let Depth { ready, unsettled, delayed, leaving } = more;
    add_to(&mut sum.ready, ready);
    add_to(&mut sum.unsettled, unsettled);
    add_to(&mut sum.delayed, delayed);
    add_to(&mut sum.leaving, leaving);
}

impl AddAssign for PassedCounts {
    fn add_assign(&mut self, other: Self) {
        let Self { received, confirmed, returned, dropped, deliveries, get_empty } = other;
        add_to(&mut self.received, received);
        add_to(&mut self.confirmed, confirmed);
        add_to(&mut self.returned, returned);
        add_to(&mut self.dropped, dropped);
        self.deliveries.add(&deliveries);
        add_to(&mut self.get_empty, get_empty);
    }
}

/// The statistics of a virtual host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VhostNumbers {
    /// The messages of its queues and streams now.
    pub depth: Depth,
    /// The bytes that its connections have received and sent, with those of connections that have closed.
    pub recv_bytes: u64,
    pub send_bytes: u64,
    /// What passed over its channels and sessions, with those that have ended.
    pub counts: PassedCounts,
}

impl AddAssign for VhostNumbers {
    fn add_assign(&mut self, other: Self) {
        let Self { depth, recv_bytes, send_bytes, counts } = other;
        add_depth(&mut self.depth, depth);
        add_to(&mut self.recv_bytes, recv_bytes);
        add_to(&mut self.send_bytes, send_bytes);
        self.counts += counts;
    }
}
