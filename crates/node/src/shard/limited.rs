//! The connections and sessions of limited users and virtual hosts, which the nodes of a cluster tell each other. On the node shard.
//!
//! ```text
//!   connection counts of this node ──Clients──> other nodes
//!   other nodes ──Clients──> connection counts of this node: a limit counts its own, and what the others have said last
//! ```
//!
//! So a limit is exact while nothing changes. Connections that open on several nodes within about [`TELL_MS`] may exceed it together. A node that
//! does not count as alive counts nothing, although its clients may go on.

use catalog::access::LimitedCounts;
use catalog::ids::NodeNumber;

use super::Shard;
use super::peers::lanes;
use crate::peer::{LIMITED_MAX, PeerMessage};

/// The shortest time between two messages, in milliseconds: as long as between two heartbeats.
pub const TELL_MS: u64 = 200;

/// After this time a node says again what it has said before, in milliseconds. The others forget it when they do not support the node for a
/// moment, and a message may be lost with its link.
pub const REPEAT_MS: u64 = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// What the other nodes were told last, and when, in milliseconds since the epoch.
    told: LimitedCounts,
    told_ms: u64,
    /// When the counts were looked at last.
    looked_ms: u64,
    /// The changes of counts and of the catalog that it includes.
    counted: (u64, u64),
    /// A user or a virtual host has a limit, according to the catalog at this index.
    has_limits: (bool, u64),
}

impl Shard {
    /// Returns when [`Self::tell_limited`] has something to do. Another shard does not say that it has counted something.
    pub(super) fn next_limited(&self) -> Option<u64> {
        let tells = self.limited.has_limits.0 && self.peers.has_links();
        tells.then_some(self.limited.looked_ms + TELL_MS)
    }

    /// Tells the other nodes how many connections and sessions there are here. Called at the end of a turn.
    pub(super) fn tell_limited(&mut self) {
        if !self.metadata.is_of_node_shard() || !self.peers.has_links() {
            return;
        }
        let applied = self.metadata.applied();
        if self.limited.has_limits.1 != applied {
            self.limited.has_limits = (self.has_limits(), applied);
        }
        let now_ms = self.here.now_ms;
        if !self.limited.has_limits.0 && self.limited.told.is_empty()
            || now_ms < self.limited.looked_ms + TELL_MS
        {
            return;
        }
        self.limited.looked_ms = now_ms;
        let catalog = self.metadata.catalog();
        let counts = self.metadata.access().connection_counts();
        let counted = (counts.changes(), applied);
        let is_old = now_ms >= self.limited.told_ms + REPEAT_MS;
        if counted == self.limited.counted && !is_old {
            return;
        }
        let vhost_is_limited =
            |name: &str| catalog.vhost_settings(name).is_some_and(|vhost| vhost.max_connections.is_some());
        let user_is_limited =
            |name: &str| catalog.users().get(name).is_some_and(|user| user.limits != Default::default());
        let now = counts.limited(LIMITED_MAX, vhost_is_limited, user_is_limited);
        self.limited.counted = counted;
        if now == self.limited.told && (!is_old || now.is_empty()) {
            return;
        }
        self.limited.told_ms = now_ms;
        self.peers.send_to_all(lanes::LIMITED, &PeerMessage::Clients(now.clone()));
        self.limited.told = now;
    }

    fn has_limits(&self) -> bool {
        let catalog = self.metadata.catalog();
        catalog.vhosts_with_settings().any(|(_, vhost)| vhost.max_connections.is_some())
            || catalog.users().iter().any(|user| user.limits != Default::default())
    }

    /// Handles what another node says. It counts while the node counts as alive.
    pub(super) fn handle_limited(&mut self, from: NodeNumber, said: LimitedCounts) {
        if self.metadata.is_of_node_shard() && self.peers.support().has(from) {
            self.metadata.access().connection_counts().set_other(from, Some(said));
        }
    }

    /// Called when another node does not count as alive any more.
    pub(super) fn forget_limited(&mut self, node: NodeNumber) {
        if self.metadata.is_of_node_shard() {
            self.metadata.access().connection_counts().set_other(node, None);
        }
    }
}
