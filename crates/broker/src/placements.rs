//! The homes of queues: a table of this node, beside the catalog. The home of a queue is the shard that runs its
//! machine. The catalog is the same on every node, but the homes are the node's own (docs/decisions/0028).
//!
//! Every shard has a copy. The node shard ([`crate::ids::NODE_SHARD`]) places queues and numbers the placements. The
//! first shard that asks for a queue without a home wins. Placements are not stored: a node that restarts may have
//! another number of shards, and places its queues anew.

use std::sync::Arc;

use catalog::Catalog;
use catalog::ids::{NodeId, QueueId};

use crate::ids::Where;

/// Returns the name of a node, as errors have it: that of the catalog, or the number of a node that the catalog does not know.
pub fn name_of_node(catalog: &Catalog, node: NodeId) -> Arc<str> {
    let known = catalog.nodes().values().find(|known| known.id() == node);
    known.map_or_else(|| format!("{:08x}", node.0).into(), |known| known.name.clone())
}

/// Returns what clients are told of a queue that is out of reach, after its name. `node` is the name of the node that has the queue, if one is
/// known. The last words are RabbitMQ's, because clients look for them.
pub fn out_of_reach(node: Option<&str>) -> String {
    match node {
        Some(node) => format!("has its home on node {node}, which is down or inaccessible"),
        None => "is on no node in reach".to_owned(),
    }
}

/// Returns what clients are told of a request or a message whose outcome nobody knows, after the name of its queue. `node` is the name
/// of the node that has the queue, if one is known.
pub fn outcome_unknown(node: Option<&str>) -> String {
    let node = node.map_or_else(|| "a node".to_owned(), |node| format!("node {node}"));
    format!("has its home on {node}, which was lost before it has answered: the outcome is unknown")
}

/// The error text for a queue whose Raft group has no leader, without the queue's name.
pub const NO_LEADER: &str = "has no leader: too many of its members are down or inaccessible";

/// The homes of all queues; see the module.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    version: u64,
    /// The homes of queues, by the slot of the queue's id.
    homes: Vec<Home>,
}

/// The home of the queue with this slot and this incarnation.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    /// The incarnation of the queue. 0 means that no queue has a home here, because no queue has this
    /// incarnation.
    incarnation: u64,
    at: Where,
}

impl Placements {
    /// Returns the number of placements that were made.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of the other node that has a queue, as refusals have it.
    pub fn other_node(&self, queue: QueueId) -> Option<u32> {
        match self.home(queue) {
            Where::On(node) => Some(node.0),
            _ => None,
        }
    }

    /// Returns the home of a queue. It is unplaced until the first link, unless the queue may expire or is exclusive.
    pub fn home(&self, queue: QueueId) -> Where {
        let home = self.homes.get(queue.slot()).copied().unwrap_or_default();
        match home.incarnation > 0 && home.incarnation == queue.incarnation() {
            true => home.at,
            false => Where::Unplaced,
        }
    }

    /// Sets the home of a queue.
    pub fn place(&mut self, queue: QueueId, at: Where) {
        self.version += 1;
        if self.homes.len() <= queue.slot() {
            self.homes.resize(queue.slot() + 1, Home::default());
        }
        self.homes[queue.slot()] = Home { incarnation: queue.incarnation(), at };
    }

    /// Removes the home of a queue that the catalog has forgotten.
    pub fn forget(&mut self, queue: QueueId) {
        if self.home(queue) != Where::Unplaced {
            self.homes[queue.slot()] = Home::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use catalog::ids::NodeId;

    use super::*;

    #[test]
    fn a_new_queue_never_has_the_home_of_an_old_one() {
        let mut placements = Placements::default();
        let (old, new) = (QueueId::new(1, 3), QueueId::new(2, 3));
        placements.place(old, Where::Here(1));
        assert_eq!((placements.home(old), placements.home(new)), (Where::Here(1), Where::Unplaced));
        placements.forget(new);
        assert_eq!(placements.home(old), Where::Here(1));
        placements.forget(old);
        placements.place(new, Where::On(NodeId(7)));
        placements.forget(old);
        assert_eq!((placements.home(old), placements.home(new)), (Where::Unplaced, Where::On(NodeId(7))));
        for unknown in [QueueId::NONE, QueueId::new(1, 9)] {
            assert_eq!(placements.home(unknown), Where::Unplaced);
        }
        placements.forget(new);
        assert_eq!((placements.home(new), placements.version()), (Where::Unplaced, 2));
    }
}
