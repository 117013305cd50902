//! The totals of nodes, which the overview of a cluster adds up.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::passed_counts::{add_depth, add_to};
use super::{PassedCounts, VhostNumbers};
use crate::counters::Counters;

/// What a node, or one of its shards, has and has had since it started. Queues and exchanges are counted by the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    pub connections: u64,
    /// The open sessions of AMQP 1.0, and the open channels of AMQP 0.9.1.
    pub sessions: u64,
    pub channels: u64,
    pub consumers: u64,
    /// The messages of the queues and streams there.
    pub depth: queue::Depth,
    /// What passed over all protocols.
    pub passed: PassedCounts,
    pub churn: Churn,
}

/// How much came and went since a node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Churn {
    pub connections_opened: u64,
    pub connections_closed: u64,
    pub channels_opened: u64,
    pub channels_closed: u64,
    pub queues_declared: u64,
    pub queues_created: u64,
    pub queues_deleted: u64,
}

/// What other nodes have said about something, and those that have not answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfOthers<T> {
    /// By the names of the nodes.
    pub answered: Vec<(Arc<str>, T)>,
    /// The names of the nodes that are out of reach, or have not answered in time.
    pub missing: Vec<Arc<str>>,
}

/// The statistics of virtual hosts, over all nodes that have answered.
#[derive(Clone, Debug, Default)]
pub struct VhostSums {
    pub numbers: HashMap<Arc<str>, VhostNumbers>,
    /// See [`OfOthers::missing`].
    pub missing: Vec<Arc<str>>,
}

impl NodeTotals {
    /// Returns the totals of what these counters have counted.
    pub fn new(counters: &Counters, depth: queue::Depth, sessions: u64, channels: u64) -> Self {
        let traffic = counters.traffic();
        let passed = PassedCounts {
            received: traffic.received,
            confirmed: traffic.confirmed,
            returned: traffic.unroutable_returned,
            dropped: traffic.unroutable_dropped,
            deliveries: traffic.deliveries(),
            get_empty: traffic.get_empty,
        };
        let churn = Churn {
            connections_opened: counters.connections_opened,
            connections_closed: counters.connections_closed,
            channels_opened: counters.channels_opened,
            channels_closed: counters.channels_closed,
            queues_declared: counters.queues_declared,
            queues_created: counters.queues_created,
            queues_deleted: counters.queues_deleted,
        };
        let (connections, consumers) = (counters.connections, traffic.consumers);
        Self { connections, sessions, channels, consumers, depth, passed, churn }
    }
}

impl AddAssign for NodeTotals {
    fn add_assign(&mut self, other: Self) {
        let Self { connections, sessions, channels, consumers, depth, passed, churn } = other;
        add_to(&mut self.connections, connections);
        add_to(&mut self.sessions, sessions);
        add_to(&mut self.channels, channels);
        add_to(&mut self.consumers, consumers);
        add_depth(&mut self.depth, depth);
        self.passed += passed;
        self.churn += churn;
    }
}

impl AddAssign for Churn {
    fn add_assign(&mut self, other: Self) {
        let Self {
            connections_opened,
            connections_closed,
            channels_opened,
            channels_closed,
            queues_declared,
            queues_created,
            queues_deleted,
        } = other;
        add_to(&mut self.connections_opened, connections_opened);
        add_to(&mut self.connections_closed, connections_closed);
        add_to(&mut self.channels_opened, channels_opened);
        add_to(&mut self.channels_closed, channels_closed);
        add_to(&mut self.queues_declared, queues_declared);
        add_to(&mut self.queues_created, queues_created);
        add_to(&mut self.queues_deleted, queues_deleted);
    }
}
