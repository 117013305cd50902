//! Which entries the other nodes in sight have applied, as they say. On the node shard.
//!
//! ```text
//!   every shard here has applied the entry ──> waits here ──> every node in sight has applied it, or 1 s is over ──> answered
//! ```
//!
//! So a client that declares a queue on one node finds it on the others. A node is in sight if there is a link in both directions: this node can
//! send to it, supports it, and has heard on this link how far it has come. A node alone has nobody in sight, and answers at once.
//!
//! A node that lets an answer wait for its whole second is *behind*. No answer waits for it until it has caught up.

use std::collections::{BTreeMap, VecDeque};

use catalog::categories::RA;
use catalog::ids::NodeNumber;

use super::answers::Waiting;
use crate::peer::PeerMessage;
use crate::shard::peers::lanes;
use crate::shard::{Mutation, Shard};

/// An answer waits for other nodes for this time at most, in milliseconds. A node whose shard or disk does not move must not stop the
/// changes of all others. So clients of that node may find a change later than the client that has made it.
const OTHERS_MS: u64 = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// The index that the other nodes were told last.
    told: u64,
    /// The nodes that have said how far they have come since the link to them was opened.
    others: BTreeMap<NodeNumber, Other>,
    /// The answers that wait for other nodes, each with the time since when, oldest first. Bounded by the proposals.
    waiting: VecDeque<(u64, Waiting)>,
}

#[derive(Debug)]
struct Other {
    /// The index up to which all its shards have applied the entries.
    applied: u64,
    /// Present while the node is behind: what this node had applied at a time. The node has caught up when it has that within
    /// [`OTHERS_MS`].
    behind: Option<Mark>,
}

#[derive(Debug)]
struct Mark {
    index: u64,
    at_ms: u64,
}

impl Sight {
    /// Returns true if no other node has said how far it has come.
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Keeps an answer until other nodes have applied its entry.
    pub(super) fn wait(&mut self, now_ms: u64, answer: Waiting) {
        self.waiting.push_back((now_ms, answer));
    }

    /// Returns when [`Shard::sight_timeouts`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.waiting.front().map(|(since_ms, _)| since_ms + OTHERS_MS)
    }
}

impl Shard {
    /// Called on each shard when a link from here to another node is open, or has closed.
    pub(in crate::shard) fn handle_link_of_sight(&mut self, node: NodeNumber, up: bool) {
        if self.metadata.answers.is_none() {
            return;
        }
        if up {
            // The other node may have told its index while there was no link from here, and then it is not in sight yet.
            let index = self.applied_here();
            self.peers.send(node, lanes::CATALOG, &PeerMessage::Applied { index, asks: true });
        } else if self.metadata.sight.others.remove(&node).is_some() {
            self.answer_in_sight();
        }
    }

    /// Handles what another node says: all its shards have applied the entries up to `index`. If it `asks`, it wants to know the same.
    pub(in crate::shard) fn handle_applied_elsewhere(&mut self, from: NodeNumber, index: u64, asks: bool) {
        if self.metadata.answers.is_none() {
            return;
        }
        let (here, now_ms) = (self.applied_here(), self.here.now_ms);
        if asks {
            self.peers.send(from, lanes::CATALOG, &PeerMessage::Applied { index: here, asks: false });
        }
        if index == 0 {
            // It has just joined, and has no catalog. Its clients wait until it has.
            return;
        }
        let other = self.metadata.sight.others.entry(from).or_insert(Other { applied: index, behind: None });
        // A node that has started again may have come less far.
        other.applied = index;
        if let Some(mark) = other.behind.take_if(|mark| mark.index <= index) {
            if here <= index || now_ms <= mark.at_ms + OTHERS_MS {
                tracing::info!(target: RA, "node {from} has caught up with the changes of definitions");
            } else {
                other.behind = Some(Mark { index: here, at_ms: now_ms });
            }
        }
        self.answer_in_sight();
    }

    /// Tells the other nodes how far this one has come, if that is news. Called at the end of a turn.
    pub(in crate::shard) fn tell_applied(&mut self) {
        if self.metadata.answers.is_none() || !self.peers.has_links() {
            return;
        }
        let index = self.applied_here();
        if index > self.metadata.sight.told {
            self.metadata.sight.told = index;
            self.peers.send_to_all(lanes::CATALOG, &PeerMessage::Applied { index, asks: false });
        }
    }

    /// Returns the nodes for which answers wait, with what they have applied.
    fn in_sight(&self) -> impl Iterator<Item = (NodeNumber, &Other)> {
        let others = self.metadata.sight.others.iter().map(|(node, other)| (*node, other));
        others.filter(|(node, other)| {
            other.behind.is_none() && self.peers.has_link(*node) && self.peers.support().has(*node)
        })
    }

    /// Sends the answers whose entries all nodes in sight have applied.
    pub(in crate::shard) fn answer_in_sight(&mut self) {
        if self.metadata.sight.waiting.is_empty() {
            return;
        }
        let everywhere = match self.has(Mutation::AnswerBeforeOthers) {
            true => u64::MAX,
            false => self.in_sight().map(|(_, other)| other.applied).min().unwrap_or(u64::MAX),
        };
        while let Some((_, answer)) =
            self.metadata.sight.waiting.pop_front_if(|(_, answer)| answer.index <= everywhere)
        {
            self.send_answer(answer);
        }
    }

    /// Ends the waiting for nodes that are late.
    pub(in crate::shard) fn sight_timeouts(&mut self) {
        let now_ms = self.here.now_ms;
        while let Some((since_ms, first)) = self.metadata.sight.waiting.front()
            && since_ms + OTHERS_MS <= now_ms
        {
            let index = first.index;
            let late: Vec<NodeNumber> =
                self.in_sight().filter(|(_, other)| other.applied < index).map(|(node, _)| node).collect();
            let here = self.applied_here();
            for node in late {
                let name = self.metadata.catalog.nodes().get(&node).map(|known| known.name.clone());
                tracing::warn!(
                    target: RA,
                    "node {node} ('{}') has not applied a change of definitions for {OTHERS_MS} ms; answers wait for it again when it has caught up",
                    name.as_deref().unwrap_or("unknown")
                );
                if let Some(other) = self.metadata.sight.others.get_mut(&node) {
                    other.behind = Some(Mark { index: here, at_ms: now_ms });
                }
            }
            self.answer_in_sight();
        }
    }

    /// Returns true if a node is in sight, and has let an answer wait too long since it was level with this one. For tests.
    pub fn is_behind(&self, node: NodeNumber) -> bool {
        self.metadata.sight.others.get(&node).is_some_and(|other| other.behind.is_some())
    }
}
