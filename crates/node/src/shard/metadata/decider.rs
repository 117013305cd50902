//! Decides changes of the catalog, on the deciding shard. What follows from a change is in [`super::applying`].

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::ids::NODE_SHARD;
use broker::mail::{Mail, Proposal};
use bytes::BytesMut;
use catalog::ids::{NodeId, NodeNumber, ShardId};
use catalog::{
    Answer, Asker, At, Catalog, CatalogError, Command, Committed, Entry, Offered, Pending, encode_entry,
};
use hashbrown::HashSet;
use replica::Support;
use wal::Records;

use super::Metadata;
use crate::facts::FinishedGroup;
use crate::shard::groups::{GroupId, Hosted};
use crate::shard::{Mutation, Shard};

/// The shard that decides the changes of the catalog, and gives them their order.
pub(crate) const DECIDER: ShardId = NODE_SHARD;

/// The state of the deciding shard.
#[derive(Debug)]
pub(super) struct Decider {
    pub pending: Pending<Asker>,
    /// This node's member of the catalog's group. `None` on a node that has joined a cluster and has not heard of the group yet.
    pub hosted: Option<Hosted>,
    /// True if the member leads, and the first entry of its term is committed: then the catalog has all that was ever committed.
    pub leads: bool,
    /// The numbered proposals that are pending here.
    open: HashSet<(NodeId, u64)>,
    /// The numbered proposals that were refused in this term, or that have changed nothing, with their answers. Another copy of one gets the same
    /// answer. Those below the low mark of their node are forgotten, so there are as many as a node may have open.
    ended: BTreeMap<(NodeId, u64), Result<Answer, CatalogError>>,
    /// The commands without a number that arrived while the member did not lead.
    pub held: Vec<(Command, Asker)>,
    /// The index of the last entry that was decided here and is committed.
    last: u64,
    /// The number of definitions before the base that is being written.
    pub definitions: u64,
}

/// Returns true if the command follows from what the leader sees. It ends with the leadership.
fn is_of_leader(command: &Command) -> bool {
    matches!(command, Command::LoseNode { .. })
}

impl Decider {
    pub(super) fn new(catalog: &Catalog, member: Option<FinishedGroup>) -> Self {
        let (pending, hosted) = (Pending::new(catalog), member.map(Hosted::new));
        // A member that leads from the start is the only voter.
        let leads = hosted.as_ref().is_some_and(|hosted| hosted.leads_in().is_some());
        Self {
            pending,
            hosted,
            leads,
            open: HashSet::new(),
            ended: BTreeMap::new(),
            held: Vec::new(),
            last: 0,
            definitions: 0,
        }
    }

    /// Called when the leadership of the member has ended, or the catalog was replaced. Drops what was decided and is not committed: a later leader
    /// may commit it, and its entry names who is to be answered. Others propose again what has a number.
    pub(super) fn reset(&mut self, catalog: &Catalog) {
        let line = self.pending.take_line().into_iter();
        self.held.extend(line.filter(|(command, asker)| asker.number == 0 && !is_of_leader(command)));
        self.pending = Pending::new(catalog);
        self.open.clear();
        self.ended.clear();
        self.leads = false;
    }

    /// Notes that the proposal of this node and number is pending here.
    fn note_open(&mut self, (node, number): (NodeId, u64)) {
        if number > 0 {
            self.open.insert((node, number));
        }
    }

    /// Returns true if the member can decide now: it leads, and a majority of the voters is on nodes that this node supports, or on this one. A
    /// leader that has lost the others may not be the leader any more, and its catalog may be old.
    fn may_decide(&mut self, support: &Support, here: NodeNumber) -> bool {
        self.leads
            && self.sees_majority(support, here)
            && self.hosted.as_mut().is_some_and(|hosted| hosted.may_propose().is_ok())
    }

    /// Returns true if a majority of the voters is on nodes that this node supports, or on this one.
    fn sees_majority(&mut self, support: &Support, here: NodeNumber) -> bool {
        let Some(hosted) = &mut self.hosted else { return false };
        let voters = hosted.engine.wake().members().voters();
        let there = voters.iter().filter(|voter| voter.node == here || support.has(voter.node)).count();
        2 * there > voters.len()
    }
}

impl Shard {
    /// Adds the records that the start of the catalog's group has made and nobody has written.
    pub(crate) fn push_begun(&mut self, begun: Records) {
        if !begun.is_empty() {
            self.storage.push_first(begun);
        }
    }

    /// Decides a command if this is the deciding shard. Otherwise sends it there. Only this module, and the start, know which shard decides.
    pub(in crate::shard) fn propose_change(&mut self, proposal: Proposal) {
        if self.metadata.decider.is_none() {
            return self.mail.send(DECIDER, Mail::Propose(proposal));
        }
        if self.is_in_cluster() {
            self.open_proposal(proposal);
        } else {
            let Proposal { ticket, by, from, command } = proposal;
            // Mail stays on its node.
            let asker = Asker { origin: self.here.origin, shard: from, number: 0, low: 0, ticket, by };
            self.offer(command, asker);
        }
        self.send_answers();
    }

    /// Returns true if this entry is the last one that was decided here.
    pub(super) fn has_decided(&self, index: u64) -> bool {
        self.metadata.decider.as_ref().is_some_and(|decider| decider.last == index)
    }

    /// Offers the commands that waited for others.
    pub(super) fn offer_line(&mut self) {
        let Some(decider) = &mut self.metadata.decider else { return };
        let waiting = decider.pending.take_line();
        waiting.iter().for_each(|(_, asker)| _ = decider.open.remove(&(asker.origin.node, asker.number)));
        for (command, asker) in waiting {
            self.offer(command, asker);
        }
    }

    /// Decides a command, and proposes the entry. It is handed to the log at the end of the turn. A proposal that is known already is
    /// dropped: its asker learns the answer from its entry.
    pub(super) fn offer(&mut self, command: Command, asker: Asker) {
        let now_ms = self.here.now_ms;
        let is_blind = self.has(Mutation::ForgetProposals);
        let is_unfounded = self.is_unfounded(&command);
        let (support, here) = (self.peers.support(), self.here.number);
        let Metadata { catalog, decider: Some(decider), .. } = &mut self.metadata else { return };
        if is_unfounded {
            return;
        }
        if !decider.may_decide(support, here) {
            if asker.number == 0 && !is_of_leader(&command) {
                decider.held.push((command, asker));
            }
            return;
        }
        let name = (asker.origin.node, asker.number);
        if asker.number > 0 && !is_blind {
            let (first, low) = ((asker.origin.node, 0), (asker.origin.node, asker.low));
            decider.ended.extract_if(first..low, |_, _| true).for_each(drop);
            if let Some(result) = decider.ended.get(&name).cloned() {
                return self.end(asker, result);
            }
            if decider.open.contains(&name) || catalog.has_proposal(asker.origin, asker.number) {
                return;
            }
        }
        let node = catalog.number_of(asker.origin.node).unwrap_or(self.here.number);
        let Some(hosted) = &mut decider.hosted else { return };
        let index = hosted.next_index();
        match decider.pending.offer(catalog, command, asker.clone(), At { index, node }) {
            Offered::Repeated => {}
            Offered::Waits => decider.note_open(name),
            Offered::Decided { changes, answer } => {
                let mut entry = BytesMut::new();
                encode_entry(&asker, &changes, &answer, &mut entry);
                // It was asked above whether it may.
                let proposed = hosted.propose_bytes(entry.freeze(), now_ms);
                debug_assert_eq!(proposed, Ok(index));
                self.groups.list(GroupId::Catalog, hosted);
                decider.note_open(name);
                if self.has(Mutation::ApplyBeforeSync) {
                    self.commit_mine(index);
                }
            }
            Offered::Ended { who: asker, result } => {
                decider.open.remove(&name);
                if asker.number > 0 {
                    decider.ended.insert(name, result.clone());
                }
                self.end(asker, result);
            }
        }
    }

    /// Called for a command that makes no entry. Its answer waits until all shards have applied the entries before it.
    fn end(&mut self, asker: Asker, result: Result<Answer, CatalogError>) {
        if asker.origin != self.here.origin {
            // Its tickets mean something only there.
            return self.answer_node(&asker, result);
        }
        match asker.number {
            0 => self.take_answer(self.metadata.applied, asker.ticket, result, false),
            number => {
                self.take_result(number, self.metadata.applied, result);
                self.answer_applied();
            }
        }
    }

    /// Returns true if this node decides changes now.
    pub(super) fn may_decide(&mut self) -> bool {
        let (support, here) = (self.peers.support(), self.here.number);
        self.metadata.decider.as_mut().is_some_and(|decider| decider.may_decide(support, here))
    }

    /// Returns true if a majority of the voters of the catalog's group is in sight.
    pub(super) fn sees_majority(&mut self) -> bool {
        let (support, here) = (self.peers.support(), self.here.number);
        self.metadata.decider.as_mut().is_some_and(|decider| decider.sees_majority(support, here))
    }

    /// Returns the index up to which entries are committed, if this node decides changes now.
    pub(super) fn committed_as_leader(&mut self) -> Option<u64> {
        if !self.may_decide() {
            return None;
        }
        let hosted = self.metadata.decider.as_ref()?.hosted.as_ref()?;
        Some(hosted.reached().commit_index.max(self.metadata.applied))
    }

    /// Called when the entry of the next decision is committed. Does nothing if there is no such decision.
    pub(super) fn commit_mine(&mut self, index: u64) {
        let Some(decider) = &mut self.metadata.decider else { return };
        let Some(Committed { who: asker, changes, answer }) = decider.pending.handle_committed() else {
            return;
        };
        decider.last = index;
        decider.open.remove(&(asker.origin.node, asker.number));
        self.spread(Entry { index, asker, changes, answer });
    }

    /// Gives a committed entry to every shard.
    pub(super) fn spread(&mut self, entry: Entry) {
        let entry = Arc::new(entry);
        // The entry is sent before it is applied here, so that no message that results from applying it can overtake it.
        for to in self.mail.shards().filter(|to| *to != self.here.id) {
            self.mail.send(to, Mail::Entry(entry.clone()));
        }
        self.handle_entry(&entry);
    }
}
