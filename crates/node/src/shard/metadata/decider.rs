//! Decides changes of the catalog, on the deciding shard. What follows from a change is in [`super::applying`].

use std::sync::Arc;

use broker::ids::NODE_SHARD;
use broker::mail::{Mail, Proposal};
use catalog::ids::ShardId;
use catalog::{Asker, Catalog, Command, Committed, Entry, Offered, Pending};

use super::Metadata;
use crate::shard::{Mutation, Shard};

/// The shard that decides the changes of the catalog, and gives them their order.
pub(super) const DECIDER: ShardId = NODE_SHARD;

/// The state of the deciding shard.
#[derive(Debug)]
pub(super) struct Decider {
    pub pending: Pending<Asker>,
    /// The index of the last entry.
    last: u64,
}

impl Decider {
    pub(super) fn new(catalog: &Catalog) -> Self {
        Self { pending: Pending::new(catalog), last: 0 }
    }
}

impl Shard {
    /// Decides a command if this is the deciding shard. Otherwise sends it there. No other module knows which shard decides.
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

    /// Called when this many further decisions are synced. Commits them, and decides the commands that waited for them.
    pub(in crate::shard) fn changes_synced(&mut self, decisions: usize) {
        if decisions == 0 {
            return;
        }
        (0..decisions).for_each(|_| self.commit_next());
        let waiting = self.metadata.decider.as_mut().map(|decider| decider.pending.take_line());
        for (command, asker) in waiting.into_iter().flatten() {
            self.offer(command, asker);
        }
        self.send_answers();
    }

    /// Commits the next decision, which is synced.
    fn commit_next(&mut self) {
        let decider = self.metadata.decider.as_mut();
        if let Some(committed) = decider.and_then(|decider| decider.pending.handle_synced()) {
            self.commit(committed);
        }
    }

    /// Returns true if this entry is the last one that was decided here.
    pub(super) fn has_decided(&self, index: u64) -> bool {
        self.metadata.decider.as_ref().is_some_and(|decider| decider.last == index)
    }

    fn offer(&mut self, command: Command, asker: Asker) {
        let Metadata { catalog, decider: Some(decider), .. } = &mut self.metadata else { return };
        match decider.pending.offer(catalog, command, asker) {
            Offered::Waits | Offered::Repeated => {}
            Offered::Decided { changes } => {
                let durable = catalog.durable(&changes);
                for ((version, change), durable) in (catalog.version() + 1..).zip(changes.iter()).zip(durable)
                {
                    if durable {
                        self.storage.push_change(version, change);
                    }
                }
                self.storage.end_decision();
                if self.has(Mutation::ApplyBeforeSync) {
                    self.commit_next();
                }
            }
            Offered::Committed(committed) => self.commit(committed),
        }
    }

    /// Gives the changes of a command their place in the order of all changes, and sends them to every shard. A command that was refused
    /// or changes nothing makes no entry. Its answer waits until all shards have applied the entries before it.
    fn commit(&mut self, committed: Committed<Asker>) {
        let Committed { who: asker, changes, result } = committed;
        let Some(decider) = &mut self.metadata.decider else { return };
        let answer = match result {
            Ok(answer) if !changes.is_empty() => answer,
            result => {
                let index = decider.last;
                // Another node gets the answer over its link, when there is one: its tickets mean something only there.
                if asker.origin == self.here.origin {
                    self.take_answer(index, asker.ticket, result, false);
                }
                return;
            }
        };
        decider.last += 1;
        let entry = Arc::new(Entry { index: decider.last, asker, changes, answer });
        // The entry is sent before it is applied here, so that no message that results from applying it can overtake it.
        for to in self.mail.shards().filter(|to| *to != self.here.id) {
            self.mail.send(to, Mail::Entry(entry.clone()));
        }
        self.handle_entry(&entry);
    }
}
