//! Nodes that are out of sight of the node that decides changes. On the node shard.
//!
//! ```text
//!   out of sight for 60 s ──> Command::LoseNode ──> every node ends what belongs to that start of the node
//! ```
//!
//! A later start of a node ends what its earlier starts had. A node that never comes back would leave its exclusive queues for ever, and
//! their names. So the leader ends them after a time. A node that was only cut off finds them gone when it is back. It cancels their
//! consumers and detaches their links, as when a queue is deleted, and goes on with the same start.

use std::collections::BTreeMap;

use catalog::categories::RA;
use catalog::ids::NodeNumber;
use catalog::{Asker, Change, Command};

use crate::shard::{Mutation, Shard};

/// A node that was out of sight for this time is lost, in milliseconds: when its sessions about queues end, too. Pauses of processes and cuts of networks are usually shorter. The
/// clients of a node that still runs lose their exclusive queues. Until then the names of these queues stay taken.
const LOST_MS: u64 = seat::LOST_MS;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OutOfSight {
    /// The nodes that this node does not support, if it leads.
    nodes: BTreeMap<NodeNumber, Since>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
    /// When the node was last in sight, or when its loss was decided last.
    at_ms: u64,
    /// True if its loss was decided, and logged, since it was last in sight.
    is_lost: bool,
}

impl OutOfSight {
    /// Called when the leadership of this node has ended. A later one counts anew.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
    }
}

impl Shard {
    fn lost_after_ms(&self) -> u64 {
        if self.has(Mutation::LoseSoon) { 2000 } else { LOST_MS }
    }

    /// Returns when [`Shard::loss_timeouts`] has something to do.
    pub(in crate::shard) fn next_loss(&self) -> Option<u64> {
        let first = self.metadata.out_of_sight.nodes.values().map(|since| since.at_ms).min();
        first.map(|at_ms| at_ms + self.lost_after_ms())
    }

    /// Notes which nodes are out of sight, if this node leads.
    pub(super) fn note_out_of_sight(&mut self) {
        let leads = self.leader_of_catalog() == Some(self.here.number);
        let (support, now_ms, here) = (self.peers.support(), self.here.now_ms, self.here.number);
        let out_of_sight = &mut self.metadata.out_of_sight.nodes;
        if !leads {
            return out_of_sight.clear();
        }
        for node in self.metadata.catalog.nodes().keys().filter(|node| **node != here) {
            if support.has(*node) {
                out_of_sight.remove(node);
            } else {
                out_of_sight.entry(*node).or_insert(Since { at_ms: now_ms, is_lost: false });
            }
        }
    }

    /// Decides the loss of nodes that were out of sight for too long. While they are, it is decided again from time to time, because something
    /// that they had proposed before may come late.
    pub(in crate::shard) fn loss_timeouts(&mut self) {
        if self.next_loss().is_none_or(|at_ms| at_ms > self.here.now_ms) {
            return;
        }
        self.note_out_of_sight();
        let (after_ms, now_ms) = (self.lost_after_ms(), self.here.now_ms);
        let due =
            self.metadata.out_of_sight.nodes.iter_mut().filter(|(_, since)| since.at_ms + after_ms <= now_ms);
        let due: Vec<(NodeNumber, bool)> = due
            .map(|(node, since)| {
                since.at_ms = now_ms;
                (*node, std::mem::replace(&mut since.is_lost, true))
            })
            .collect();
        for (node, was_lost) in due {
            let Some(known) = self.metadata.catalog.nodes().get(&node) else { continue };
            if !was_lost {
                tracing::warn!(
                    target: RA,
                    "node {node} ('{}') is out of sight for {} s: exclusive queues and what else ends with its start end now",
                    known.name, after_ms / 1000
                );
            }
            let boot = self.metadata.catalog.start_of(known.id());
            let asker = Asker { origin: self.here.origin, shard: self.here.id, ..Asker::default() };
            self.offer(Command::LoseNode { node, boot }, asker);
        }
    }

    /// Returns true if a command would end what a node has that is in sight. The loss of a node is decided by the leader only that misses it.
    pub(super) fn is_unfounded(&self, command: &Command) -> bool {
        matches!(command, Command::LoseNode { node, .. } if *node == self.here.number || self.peers.support().has(*node))
    }

    /// Called on the node shard after the changes of an entry that another node has decided by itself.
    pub(super) fn note_own_loss(&self, changes: &[Change], asker: &Asker) {
        let is_mine = |change: &Change| matches!(change, Change::NodeStarted { origin, .. } if *origin == self.here.origin);
        if asker.origin != self.here.origin && changes.iter().any(is_mine) {
            tracing::warn!(
                target: RA,
                "this node was out of sight of the cluster for long: its exclusive queues and what else ends with a start were ended meanwhile"
            );
        }
    }
}
