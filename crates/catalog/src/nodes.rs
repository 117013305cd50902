//! The nodes of the cluster, and which of their proposals the catalog has.
//!
//! A node sends a proposal again to each new leader until it is answered, because a leader may be lost before anybody knows whether the
//! entry is committed. The entry has the number of the proposal, and the catalog remembers these numbers. So a proposal becomes an entry once.
//!
//! ```text
//!   numbers of one start of a node    1 2 3 4 5 6 7 8
//!                                         │     └─┴──── `above`: entries have these
//!                                         └──────────── `low`: the node has the answers to all numbers below, and sends none of them again
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::CatalogError;
use super::{Answer, Asker, Catalog, Change, Decision, Destination, QueueRecord};
use crate::ids::{NodeId, NodeNumber, Origin, QueueId};

/// The most nodes of a cluster. The group of the catalog, and each list of members, has a place for each.
pub const NODES_MAX: usize = 64;

/// The longest name of a node, in bytes.
pub const NODE_NAME_MAX: usize = 255;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// The random identity of its data directory.
    pub identity: [u8; 16],
    pub name: Arc<str>,
}

impl KnownNode {
    /// Returns what names the node in ids.
    pub fn id(&self) -> NodeId {
        let [a, b, c, d, ..] = self.identity;
        NodeId(u32::from_be_bytes([a, b, c, d]))
    }
}

/// The proposals of one node that are entries, as far as the node may send them again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proposals {
    boot: u32,
    low: u64,
    above: BTreeSet<u64>,
}

impl Proposals {
    /// Notes that an entry has this proposal.
    fn note(&mut self, boot: u32, number: u64, low: u64) {
        if boot < self.boot || number == 0 {
            return;
        }
        if boot > self.boot {
            *self = Self { boot, ..Self::default() };
        }
        self.low = self.low.max(low);
        self.above.insert(number);
        while self.above.first().is_some_and(|first| *first < self.low) {
            self.above.pop_first();
        }
    }
}

fn asked(node: NodeId, known: &Proposals) -> Change {
    let origin = Origin { node, boot: known.boot };
    Change::Asked { origin, low: known.low, numbers: known.above.iter().copied().collect() }
}

impl Catalog {
    /// Returns the nodes of the cluster by their numbers. There are none while the node has never been in a cluster.
    pub fn nodes(&self) -> &BTreeMap<NodeNumber, KnownNode> {
        &self.nodes
    }

    /// Returns the number of the node with this id.
    pub fn number_of(&self, node: NodeId) -> Option<NodeNumber> {
        self.nodes.iter().find_map(|(number, known)| (known.id() == node).then_some(*number))
    }

    /// Called with the asker of each entry, after its changes. The proposal is known from then on.
    pub fn note_proposal(&mut self, asker: &Asker) {
        let Asker { origin, number, low, .. } = *asker;
        if number > 0 {
            self.proposals.entry(origin.node).or_default().note(origin.boot, number, low);
        }
    }

    /// Returns true if an entry has this proposal, or if it is one of an earlier start of its node, which nobody waits for.
    pub fn has_proposal(&self, origin: Origin, number: u64) -> bool {
        self.proposals.get(&origin.node).is_some_and(|known| {
            origin.boot < known.boot
                || origin.boot == known.boot && (number < known.low || known.above.contains(&number))
        })
    }

    /// Returns the proposals of this node that entries have, as a definition.
    pub fn proposals_of(&self, origin: Origin) -> Change {
        let known = self.proposals.get(&origin.node).cloned().unwrap_or_default();
        asked(origin.node, &known)
    }

    /// Returns the node that has a queue, if it is another one than that with the number `here`.
    pub fn node_with(&self, record: &QueueRecord, here: NodeNumber) -> Option<NodeId> {
        if self.nodes.is_empty() || record.members.has(here) {
            return None;
        }
        let home = record.members.nodes().first().and_then(|node| self.nodes.get(node));
        home.map(KnownNode::id)
    }

    /// Returns the queues that other nodes than that with the number `here` have, with their nodes, in the order of their ids. Looks at no queue if the
    /// node has never been in a cluster.
    pub fn queues_elsewhere(&self, here: NodeNumber) -> Vec<(QueueId, NodeId)> {
        if self.nodes.is_empty() {
            return Vec::new();
        }
        let rows = self.queues.from(0).map(|(_, row)| &row.record);
        let mut elsewhere: Vec<_> =
            rows.filter_map(|record| Some((record.id, self.node_with(record, here)?))).collect();
        elsewhere.sort_unstable();
        elsewhere
    }

    /// Replaces the catalog by that of another node. What belongs to this node stays: the rules of its settings. All that was read before is
    /// outdated.
    pub fn install(&mut self, other: &Self) {
        let (version, policies) = (self.version + other.version + 1, self.policies + other.policies + 1);
        let rules = std::mem::take(&mut self.rules);
        *self = Self { version, policies, rules, ..other.clone() };
    }

    pub(super) fn apply_joined(&mut self, node: NodeNumber, known: &KnownNode) {
        self.nodes.insert(node, known.clone());
    }

    pub(super) fn apply_asked(&mut self, origin: Origin, low: u64, numbers: &[u64]) {
        let above = numbers.iter().copied().collect();
        self.proposals.insert(origin.node, Proposals { boot: origin.boot, low, above });
    }

    /// Notes that a node has started: its earlier starts propose nothing any more. Without other nodes there is nothing to note, because no
    /// proposal has a number then.
    pub(super) fn forget_earlier_proposals(&mut self, origin: Origin) {
        if self.nodes.is_empty() {
            return;
        }
        let known = self.proposals.entry(origin.node).or_default();
        if known.boot < origin.boot {
            *known = Proposals { boot: origin.boot, ..Proposals::default() };
        }
    }

    /// Returns the changes that rebuild the nodes and their proposals.
    pub(super) fn node_definitions(&self) -> impl Iterator<Item = Change> + '_ {
        let joined =
            self.nodes.iter().map(|(node, known)| Change::NodeJoined { node: *node, known: known.clone() });
        joined.chain(self.proposals.iter().map(|(node, known)| asked(*node, known)))
    }

    /// Decides that a node joins the cluster. A node that has joined keeps its number, and may have another name now.
    pub(super) fn admit_node(&self, known: KnownNode) -> Result<Decision, CatalogError> {
        let refused = |reason: String| Err(CatalogError::PreconditionFailed { reason });
        let member = self.nodes.iter().find(|(_, node)| node.identity == known.identity);
        if member.is_some_and(|(_, member)| member.name == known.name) {
            return Ok(Decision { changes: Vec::new(), answer: Answer::Done { changed: false } });
        }
        if known.name.is_empty() || known.name.len() > NODE_NAME_MAX {
            return refused(format!("a node's name has 1 to {NODE_NAME_MAX} bytes"));
        }
        if let Some((number, node)) = self.nodes.iter().find(|(_, node)| node.name == known.name) {
            return refused(format!(
                "node '{}' would replace node {number} of the same name, whose data directory has the identity {:032x}",
                known.name,
                u128::from_be_bytes(node.identity)
            ));
        }
        if let Some((node, _)) = member {
            return Ok(Decision {
                changes: vec![Change::NodeJoined { node: *node, known }],
                answer: Answer::Done { changed: true },
            });
        }
        // Two identities that begin alike would be one node in ids. That is as good as impossible, unless somebody makes them.
        if self.number_of(known.id()).is_some() {
            return refused(format!(
                "the identity of node '{}' is too much like that of another node",
                known.name
            ));
        }
        let node = self.nodes.keys().next_back().map_or(1, |last| last + 1);
        if self.nodes.len() >= NODES_MAX {
            return refused(format!("a cluster has at most {NODES_MAX} nodes"));
        }
        Ok(Decision {
            changes: vec![Change::NodeJoined { node, known }],
            answer: Answer::Done { changed: true },
        })
    }

    /// Decides what the start of a node ends, and says each of it, because other shards and nodes have it. What the node shares with others
    /// is left to [`Change::NodeStarted`].
    pub(super) fn decide_start(&self, node: NodeNumber, origin: Origin) -> Decision {
        let mut changes = Vec::new();
        if self.proposals.get(&origin.node).is_some_and(|known| known.boot > origin.boot) {
            return Decision { changes, answer: Answer::Done { changed: false } };
        }
        let ended = self.queues.from(0).filter(|(_, row)| row.record.ends_at_start(node));
        for (_, row) in ended {
            changes.push(Change::QueueForgotten { queue: row.record.id });
        }
        for (name, vhost) in &self.vhosts {
            let only_here = vhost.exchanges.values().filter(|table| {
                let exchange = &table.exchange;
                !exchange.durable && exchange.nodes.has(node) && exchange.nodes.without(node).is_empty()
            });
            changes.extend(only_here.map(|table| Change::ExchangeDeleted {
                vhost: name.clone(),
                name: table.exchange.name.clone(),
            }));
        }
        let unbound = self.bindings_to(&changes);
        changes.splice(0..0, unbound);
        changes.push(Change::NodeStarted { node, origin });
        Decision { changes, answer: Answer::Done { changed: true } }
    }

    /// Returns the newest start of a node that is known, or 0.
    pub fn start_of(&self, node: NodeId) -> u32 {
        self.proposals.get(&node).map_or(0, |known| known.boot)
    }

    /// Decides what the loss of this start of a node ends: the same as a later start of it. The node may still run, and its proposals of this
    /// start count from now on as before. Nothing is decided if nothing ends, so a loss that is said again makes no entry.
    pub(super) fn decide_loss(&self, node: NodeNumber, boot: u32) -> Decision {
        let known = self.nodes.get(&node).map(KnownNode::id);
        match known.filter(|known| self.start_of(*known) == boot && self.has_transient(node)) {
            Some(known) => self.decide_start(node, Origin { node: known, boot }),
            None => Decision { changes: Vec::new(), answer: Answer::Done { changed: false } },
        }
    }

    /// Returns true if something belongs to the node that ends at its next start.
    fn has_transient(&self, node: NodeNumber) -> bool {
        let mut exchanges = self.vhosts.values().flat_map(|vhost| vhost.exchanges.values());
        self.queues.from(0).any(|(_, row)| row.record.ends_at_start(node))
            || exchanges.any(|table| !table.exchange.durable && table.exchange.nodes.has(node))
    }

    /// Returns the ends of all bindings to what these changes end.
    fn bindings_to(&self, changes: &[Change]) -> Vec<Change> {
        let mut gone: BTreeMap<&str, BTreeSet<Destination>> = BTreeMap::new();
        for change in changes {
            let (vhost, destination) = match change {
                Change::QueueForgotten { queue } => {
                    let Some(row) = self.queues.get(*queue) else { continue };
                    (&row.record.vhost, Destination::Queue(row.record.name.clone()))
                }
                Change::ExchangeDeleted { vhost, name } => (vhost, Destination::Exchange(name.clone())),
                _ => continue,
            };
            gone.entry(vhost).or_default().insert(destination);
        }
        let mut unbound = Vec::new();
        for (vhost, gone) in gone {
            let Some(vhost) = self.vhosts.get(vhost) else { continue };
            for table in vhost.exchanges.values() {
                let ended = table.bindings.iter().filter(|binding| gone.contains(&binding.destination));
                unbound.extend(ended.cloned().map(Change::Unbound));
            }
        }
        unbound
    }
}
