//! The catalog as the owner of its Raft group. The member is on the deciding shard.
//!
//! ```text
//!   offer ──> entry ──> groups ──> storage ──synced──> groups ──handle_committed──> every shard applies the entry
//! ```

use std::sync::Arc;

use bytes::Bytes;
use catalog::categories::RA;
use catalog::decode_entry;
use catalog::ids::NodeNumber;
use replica::{Change, Entry, Member, Message, Payload, Role, Standing};

use super::Metadata;
use crate::facts::definitions::content;
use crate::facts::{CATALOG, decode_whole, whole_content};
use crate::peer::PeerMessage;
use crate::shard::groups::{self, GroupId, Hosted, Owner};
use crate::shard::{Mutation, Shard};

struct CatalogOwner<'a> {
    shard: &'a mut Shard,
}

impl Owner for CatalogOwner<'_> {
    fn id(&self) -> GroupId {
        GroupId::Catalog
    }

    fn shard(&mut self) -> &mut Shard {
        self.shard
    }

    fn hosted(&mut self) -> Option<&mut Hosted> {
        self.shard.metadata.decider.as_mut().and_then(|decider| decider.hosted.as_mut())
    }

    /// Drops the decisions of a leadership that has ended. Whoever leads now gets the proposals of this node.
    fn handle_standing(&mut self, standing: Standing) {
        let decides_at_once = self.shard.has(Mutation::DecideAtOnce);
        let Metadata { catalog, decider: Some(decider), .. } = &mut self.shard.metadata else { return };
        decider.reset(catalog);
        self.shard.metadata.out_of_sight.clear();
        let Some(decider) = &mut self.shard.metadata.decider else { return };
        match standing.role {
            Role::Follower { leader: Some(_) } => self.shard.send_proposals(),
            // It leads when its first entry is committed.
            Role::Leader => decider.leads = decides_at_once,
            Role::Follower { leader: None } | Role::Candidate => self.shard.tend_catalog_soon(),
        }
    }

    fn handle_committed(&mut self, entry: Entry, is_mine: bool) {
        let Entry { at, payload } = entry;
        match payload {
            Payload::Empty if is_mine => {
                let Metadata { catalog, decider: Some(decider), .. } = &mut self.shard.metadata else {
                    return;
                };
                // The entries of earlier terms are applied now.
                decider.reset(catalog);
                decider.leads = true;
                for (command, asker) in std::mem::take(&mut decider.held) {
                    self.shard.offer(command, asker);
                }
                self.shard.send_proposals();
                self.shard.tend_catalog_soon();
            }
            Payload::Change(change) => {
                if let Change::Promote(member) = change {
                    tracing::info!(target: RA, "node {} now votes about definitions", member.node);
                }
                self.shard.tend_catalog_soon();
            }
            Payload::Empty => {}
            Payload::Facts(_) if is_mine => self.shard.commit_mine(at.index),
            Payload::Facts(facts) => match decode_entry(at.index, &facts) {
                Some(entry) => self.shard.spread(entry),
                None => {
                    tracing::error!(target: RA, index = at.index, "an entry of the catalog is damaged");
                }
            },
        }
    }

    /// Returns the number of the definitions that were written for the base.
    fn base(&mut self) -> Bytes {
        let metadata = &self.shard.metadata;
        let definitions = metadata.decider.as_ref().map_or(0, |decider| decider.definitions);
        content(definitions, metadata.founding.as_ref().map_or(0, |founding| founding.noted))
    }

    fn base_for_others(&mut self) -> Bytes {
        whole_content(&self.shard.metadata.catalog)
    }

    fn install(&mut self, content: Bytes) {
        let Some(index) = self.hosted().map(|hosted| hosted.base_index) else { return };
        match decode_whole(content) {
            Some(catalog) => self.shard.install_catalog(Arc::new(catalog), index),
            None => tracing::error!(target: RA, index, "the catalog has been sent a base that is damaged"),
        }
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            let to = message.to.node;
            self.shard.peers.send(to, CATALOG, &PeerMessage::Raft { owner: CATALOG, message });
        }
    }
}

impl Shard {
    /// Hands the entries of the decisions of this turn to the log.
    pub(in crate::shard) fn propose_of_catalog(&mut self) {
        if let Some(hosted) = self.metadata.decider.as_mut().and_then(|decider| decider.hosted.as_mut()) {
            hosted.is_listed = false;
        }
        groups::pump(&mut CatalogOwner { shard: self });
    }

    /// Called when the records of a round of the catalog's group are synced. Decides the commands that waited for others.
    pub(in crate::shard) fn round_of_catalog_synced(&mut self, number: u64) {
        groups::handle_synced(&mut CatalogOwner { shard: self }, number);
        self.offer_line();
        self.send_answers();
    }

    /// Writes the base of the catalog's group: so many definitions before it are the whole catalog. Returns false if there is no base now.
    pub(in crate::shard) fn write_catalog_base(&mut self, definitions: u64) -> bool {
        if let Some(decider) = &mut self.metadata.decider {
            decider.definitions = definitions;
        }
        groups::write_base(&mut CatalogOwner { shard: self }).is_some()
    }

    /// Handles a message for the catalog's group. A node that has joined a cluster becomes a member when it hears of the group.
    pub(in crate::shard) fn step_catalog(&mut self, from: NodeNumber, message: Message) {
        let Some(decider) = &mut self.metadata.decider else { return };
        if message.from.node != from || message.to.node != self.here.number {
            return tracing::error!(target: RA, from, "a message of the catalog's group names other nodes");
        }
        if decider.hosted.is_none() {
            decider.hosted = Some(Hosted::joining(message.to));
        }
        groups::step(&mut CatalogOwner { shard: self }, message);
        self.offer_line();
        self.send_answers();
    }

    /// Called when the link to another node is open, or has closed.
    pub(in crate::shard) fn handle_link_of_catalog(&mut self, node: NodeNumber, up: bool) {
        groups::handle_link(&mut CatalogOwner { shard: self }, node, up);
        if up && self.metadata.decider.is_some() {
            self.tend_catalog_soon();
            if self.leader_of_catalog() == Some(node) {
                self.send_proposals();
            }
        }
    }

    /// Called when the support of a node begins or ends.
    pub(in crate::shard) fn handle_support_of_catalog(&mut self, node: NodeNumber, supported: bool) {
        if !supported {
            groups::handle_support_ended(&mut CatalogOwner { shard: self }, node);
        }
        if self.metadata.decider.is_some() {
            self.tend_catalog_soon();
        }
    }

    /// Sees to it that [`Self::retry_catalog`] is called, after the other nodes that may be the first.
    pub(super) fn tend_catalog_soon(&mut self) {
        if self.is_in_cluster() {
            self.peers.retry_at(self.here.now_ms + self.rank_ms());
        }
    }

    /// Moves the catalog's group again if it lacks something. Returns true if it must be called again.
    pub(in crate::shard) fn retry_catalog(&mut self) -> bool {
        if self.metadata.decider.is_none() {
            return false;
        }
        self.proposal_timeouts();
        let is_restless = groups::retry(&mut CatalogOwner { shard: self });
        let is_tended = self.tend_members();
        self.note_out_of_sight();
        is_restless || is_tended || self.metadata.proposals.are_open()
    }

    /// If the member leads, makes the nodes of the cluster members of the group: first learners, then voters. The number of voters stays odd,
    /// because one more would tolerate no more losses. Returns true if something is left to do.
    fn tend_members(&mut self) -> bool {
        let Metadata { catalog, decider: Some(decider), .. } = &mut self.metadata else { return false };
        let (true, Some(hosted)) = (decider.leads, &mut decider.hosted) else { return false };
        let term = hosted.standing().term;
        let group = hosted.engine.wake();
        let members = group.members().clone();
        let missing = catalog.nodes().keys().find(|node| members.on_node(**node).is_none());
        // One that is away would only be missed.
        let peers = &self.peers;
        let is_there = |member: &Member| peers.has_link(member.node) && peers.support().has(member.node);
        let is_level = |member: &Member| is_there(member) && group.is_level(*member);
        let level: Vec<Member> = members.learners().iter().copied().filter(is_level).collect();
        let change = if let Some(node) = missing {
            Some(Change::Add(Member { node: *node, number: members.next() }))
        } else if level.len() >= 2 || !level.is_empty() && members.voters().len().is_multiple_of(2) {
            Some(Change::Promote(level[0]))
        } else {
            None
        };
        let lags = members.learners().len() > level.len();
        let Some(change) = change else { return lags };
        if let Err(refused) = group.change(term, change) {
            tracing::debug!(target: RA, "the catalog's group is not changed now: {refused}");
        }
        groups::pump(&mut CatalogOwner { shard: self });
        true
    }
}
