//! The other nodes of the cluster, as this shard sees them: which it can send to, which it supports, and what waits to be sent.
//!
//! ```text
//!   links of the node ──> handle_link, handle_support, handle_peer_message      poll_peer_mail ──> links of the node
//! ```
//!
//! The caller has the links. It says when the link to a node opens and closes, passes on what arrives, and takes what is to be sent. What was sent
//! over a link that has closed may be lost. Support is given to a node whose heartbeats arrive and acknowledge those of this node: its members
//! may lead.

use std::collections::BTreeSet;

use broker::ids::NODE_SHARD;
use bytes::Bytes;
use catalog::categories::RA;
use catalog::ids::{NodeNumber, ShardId};
use replica::Support;

use super::Shard;
use crate::facts::CATALOG;
use crate::peer::PeerMessage;

/// After this time a group that lacks something is moved again, in milliseconds. Messages may have been lost, or were dropped because a
/// node still supported the old leader.
pub(super) const RETRY_MS: u64 = 500;

/// Between two nodes' first tries to lead, in milliseconds: longer than an election among nodes in one place takes. The node with the
/// lowest number is the first, so that nodes which lose their leader together do not divide the votes.
const RANK_MS: u64 = 30;

/// The lanes of what belongs to no group. The lane of a group is the number of its owner, and these count from 0. A long message delays only what has
/// its lane.
pub(super) mod lanes {
    /// Of what concerns the catalog as a whole, such as proposals and their answers.
    pub(in crate::shard) const CATALOG: u64 = u64::MAX;
    /// Of looks and their answers.
    pub(in crate::shard) const LOOKS: u64 = u64::MAX - 1;
    /// Of sessions about queues.
    pub(in crate::shard) const SESSIONS: u64 = u64::MAX - 2;
    /// Of what counts for limits.
    pub(in crate::shard) const LIMITED: u64 = u64::MAX - 3;
}

/// Something for a shard of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMail {
    pub to: NodeNumber,
    pub shard: ShardId,
    /// What is sent under one number arrives in its order. Different numbers do not wait for each other.
    pub lane: u64,
    pub bytes: Bytes,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Peers {
    linked: BTreeSet<NodeNumber>,
    support: Support,
    outbox: Vec<PeerMail>,
    /// When groups are moved again, in milliseconds since the epoch. `None` while none lacks anything.
    retry_ms: Option<u64>,
}

impl Peers {
    /// Returns true if something can be sent to the node.
    pub(super) fn has_link(&self, node: NodeNumber) -> bool {
        self.linked.contains(&node)
    }

    /// Returns true if something can be sent to any node.
    pub(super) fn has_links(&self) -> bool {
        !self.linked.is_empty()
    }

    pub(super) fn support(&self) -> &Support {
        &self.support
    }

    /// Sends a message to the node shard of another node. Without a link it is dropped.
    pub(super) fn send(&mut self, to: NodeNumber, lane: u64, message: &PeerMessage) {
        self.send_to(to, NODE_SHARD, lane, message);
    }

    /// Sends a message to a shard of another node. A number that the node has no shard for stands for one of those that it has. Without a link the
    /// message is dropped.
    pub(super) fn send_to(&mut self, to: NodeNumber, shard: ShardId, lane: u64, message: &PeerMessage) {
        if self.has_link(to) {
            self.outbox.push(PeerMail { to, shard, lane, bytes: message.encode() });
        }
    }

    /// Sends a message to the node shard of each node to which there is a link.
    pub(super) fn send_to_all(&mut self, lane: u64, message: &PeerMessage) {
        let bytes = message.encode();
        let mail = |to| PeerMail { to, shard: NODE_SHARD, lane, bytes: bytes.clone() };
        self.outbox.extend(self.linked.iter().copied().map(mail));
    }

    /// Sees to it that groups are moved at this time, or before.
    pub(super) fn retry_at(&mut self, at_ms: u64) {
        self.retry_ms = Some(self.retry_ms.map_or(at_ms, |known| known.min(at_ms)));
    }

    /// Returns when [`Shard::peer_timeouts`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.retry_ms
    }
}

impl Shard {
    /// Called when a link to another node is open, or has closed. It is used in one direction only: from here.
    pub fn handle_link(&mut self, node: NodeNumber, up: bool) {
        if up {
            self.peers.linked.insert(node);
        } else {
            self.peers.linked.remove(&node);
            self.peers.outbox.retain(|mail| mail.to != node);
        }
        self.handle_link_of_catalog(node, up);
        self.handle_link_of_remote(node, up);
        self.handle_link_of_sight(node, up);
        if !up {
            self.end_looks_at(node);
        }
    }

    /// Called when the support of another node begins or ends.
    pub fn handle_support(&mut self, node: NodeNumber, supported: bool) {
        if self.peers.support.set(node, supported) {
            self.handle_support_of_catalog(node, supported);
            self.handle_support_of_remote(node, supported);
            self.refuse_in_minority();
            self.answer_in_sight();
            if !supported {
                self.end_looks_at(node);
                self.forget_limited(node);
            }
        }
    }

    /// Handles a message of another node. One that makes no sense is dropped, and logged.
    pub fn handle_peer_message(&mut self, from: NodeNumber, bytes: Bytes) {
        match PeerMessage::decode(bytes.clone()) {
            Some(PeerMessage::Raft { owner: CATALOG, message }) => self.step_catalog(from, message),
            Some(PeerMessage::Raft { owner, .. }) => {
                tracing::debug!(target: RA, from, owner, "a message for a group that has no member here");
            }
            Some(PeerMessage::Propose(propose)) => self.handle_proposal_of(from, propose),
            Some(PeerMessage::Answered(answered)) => self.handle_answered(answered),
            Some(PeerMessage::Seat(frame)) => self.handle_frame(from, frame),
            Some(PeerMessage::Applied { index, asks }) => self.handle_applied_elsewhere(from, index, asks),
            Some(PeerMessage::HowFar { boot, number }) => self.handle_how_far(from, boot, number),
            Some(PeerMessage::ThisFar { boot, number, index }) => self.handle_this_far(boot, number, index),
            Some(PeerMessage::Look(_)) => self.handle_far_look(from, &bytes),
            Some(PeerMessage::Looked(looked)) => self.handle_looked(from, looked),
            Some(PeerMessage::Clients(said)) => self.handle_limited(from, said),
            None => tracing::error!(target: RA, from, "a message of another node is malformed"),
        }
    }

    /// Takes what is to be sent to other nodes.
    pub fn poll_peer_mail(&mut self) -> Vec<PeerMail> {
        self.poll_remote();
        self.tell_applied();
        self.tell_limited();
        std::mem::take(&mut self.peers.outbox)
    }

    /// Returns the time after which this node tries to lead, if others may try as well.
    pub(super) fn rank_ms(&self) -> u64 {
        u64::from(self.here.number.saturating_sub(1)) * RANK_MS
    }

    /// Moves groups again that lack something.
    pub(super) fn peer_timeouts(&mut self) {
        if self.peers.retry_ms.is_some_and(|at_ms| at_ms <= self.here.now_ms) {
            self.peers.retry_ms = None;
            if self.retry_catalog() {
                // Not all nodes at the same time, or they would divide the votes again and again.
                self.peers.retry_at(self.here.now_ms + RETRY_MS + self.rank_ms());
            }
        }
    }
}
