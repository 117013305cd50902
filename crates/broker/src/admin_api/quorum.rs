//! What operators see and change of queues and their Raft groups.

use std::sync::Arc;

use bytes::Bytes;
use queue::Peek;

/// The Raft group of a quorum queue, as its member on this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupRow {
    /// True if the member leads and decides. False while it recovers: it has not been elected, or its first entry is not
    /// committed.
    pub leads: bool,
    /// True if the group rests until somebody needs its queue. After a start it rests before its member is elected.
    pub rests: bool,
    pub term: u64,
    /// The index of the last entry.
    pub last_index: u64,
    /// The index up to which entries are synced.
    pub written_index: u64,
    pub commit_index: u64,
    pub applied_index: u64,
    /// The index of the newest base, which replaces all entries up to it. RabbitMQ calls a base a snapshot.
    pub base_index: u64,
    /// The size of the entries after the base, in bytes.
    pub log_bytes: u64,
    /// The time from the proposal of an entry to its commit, in milliseconds, of the last entry that was measured.
    pub commit_latency_ms: u64,
}

impl GroupRow {
    /// Returns true if the queue works, or will work as soon as somebody needs it.
    pub fn is_healthy(&self) -> bool {
        self.leads || self.rests
    }

    /// Returns the number of entries after the base.
    pub fn log_entries(&self) -> u64 {
        self.last_index.saturating_sub(self.base_index)
    }
}

/// A ready message that stays in its queue.
#[derive(Clone, Debug)]
pub struct PeekedRow {
    /// The sequence number of the message in its queue.
    pub seq: u64,
    /// The exchange to which the message was published.
    pub exchange: Arc<str>,
    pub routing_key: Arc<str>,
    /// See [`queue::PeekedMessage`]. The next three fields are described there, too.
    pub at_ms: u64,
    pub delivery_count: u32,
    pub acquired_count: u32,
    pub redelivered: bool,
    pub message: ShownMessage,
}

/// Ready messages that stay in their queue, in the order of delivery.
#[derive(Clone, Debug, Default)]
pub struct PeekedPart {
    pub rows: Vec<PeekedRow>,
    /// How to go on. `None` if no further message is ready.
    pub next: Option<Peek>,
}

/// A whole message, encoded as it is for a consumer that speaks the protocol of the publisher.
#[derive(Clone, Debug)]
pub enum ShownMessage {
    /// The sections of AMQP 1.0.
    Amqp10(Bytes),
    Amqp091 {
        /// The encoded property list.
        properties: Bytes,
        payload: Bytes,
    },
}

/// The result of reclaiming the memory of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// The bytes that were freed: messages that can be read again.
    pub freed_bytes: u64,
    /// The approximate bytes of ready messages that are now being paged out.
    pub paging_bytes: u64,
}

/// A change of the Raft group of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a member on the node.
    Add,
    /// Removes the member on the node.
    Remove,
    /// Makes the member on the node the leader.
    Lead,
}
