//! Decides changes of the catalog, on the deciding shard. What follows from a change is in [`super::applying`].

use std::sync::Arc;

use broker::ids::NODE_SHARD;
use broker::mail::{Mail, Proposal};
use bytes::BytesMut;
use catalog::ids::ShardId;
use catalog::{
    Answer, Asker, Catalog, CatalogError, Command, Committed, Entry, Offered, Pending, encode_entry,
};
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
    /// This node's member of the catalog's group.
    pub hosted: Hosted,
    /// The commands that arrived while the member did not lead.
    pub held: Vec<(Command, Asker)>,
    /// The index of the last entry that was decided here and is committed.
    last: u64,
    /// The number of definitions before the base that is being written.
    pub definitions: u64,
}

impl Decider {
    pub(super) fn new(catalog: &Catalog, member: FinishedGroup) -> Self {
        let (pending, hosted) = (Pending::new(catalog), Hosted::new(member));
        Self { pending, hosted, held: Vec::new(), last: 0, definitions: 0 }
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
        let Proposal { ticket, by, from, command } = proposal;
        // Mail stays on its node.
        let asker = Asker { origin: self.here.origin, shard: from, ticket, by };
        self.offer(command, asker);
        self.send_answers();
    }

    /// Returns true if this entry is the last one that was decided here.
    pub(super) fn has_decided(&self, index: u64) -> bool {
        self.metadata.decider.as_ref().is_some_and(|decider| decider.last == index)
    }

    /// Offers the commands that waited for others.
    pub(super) fn offer_line(&mut self) {
        let waiting = self.metadata.decider.as_mut().map(|decider| decider.pending.take_line());
        for (command, asker) in waiting.into_iter().flatten() {
            self.offer(command, asker);
        }
    }

    /// Decides a command, and proposes the entry. It is handed to the log at the end of the turn.
    pub(super) fn offer(&mut self, command: Command, asker: Asker) {
        let now_ms = self.here.now_ms;
        let Metadata { catalog, decider: Some(decider), .. } = &mut self.metadata else { return };
        if decider.hosted.may_propose().is_err() {
            decider.held.push((command, asker));
            return;
        }
        let index = decider.hosted.next_index();
        match decider.pending.offer(catalog, command, asker.clone(), index) {
            Offered::Waits | Offered::Repeated => {}
            Offered::Decided { changes, answer } => {
                let mut entry = BytesMut::new();
                encode_entry(&asker, &changes, &answer, &mut entry);
                // It was asked above whether it may.
                let proposed = decider.hosted.propose_bytes(entry.freeze(), now_ms);
                debug_assert_eq!(proposed, Ok(index));
                self.groups.list(GroupId::Catalog, &mut decider.hosted);
                if self.has(Mutation::ApplyBeforeSync) {
                    self.commit_mine(index);
                }
            }
            Offered::Ended { who: asker, result } => self.end(asker, result),
        }
    }

    /// Called for a command that makes no entry. Its answer waits until all shards have applied the entries before it.
    fn end(&mut self, asker: Asker, result: Result<Answer, CatalogError>) {
        // Another node gets the answer over its link, when there is one: its tickets mean something only there.
        if asker.origin == self.here.origin {
            self.take_answer(self.metadata.applied, asker.ticket, result, false);
        }
    }

    /// Called when the entry of the next decision is committed. Does nothing if there is no such decision.
    pub(super) fn commit_mine(&mut self, index: u64) {
        let Some(decider) = &mut self.metadata.decider else { return };
        let Some(Committed { who: asker, changes, answer }) = decider.pending.handle_committed() else {
            return;
        };
        decider.last = index;
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
