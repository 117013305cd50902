//! Applies committed changes, on every shard, and does what follows from them.
//!
//! ```text
//!   on every shard                     the change itself; then the shard says that it has applied it
//!   on the node shard of every node    the messages that exchanges remember; the copies of the users
//!   on the node shard of the asker     events, warnings, counts, the home of a queue that needs one, the answer
//! ```
//!
//! Nothing here knows where a change was decided. So a node on which none is decided does the same (docs/decisions/0054).

use broker::counters::Deprecated;
use broker::ids::{NODE_SHARD, unassigned};
use catalog::{Answer, Asker, Change, Entry};
use queue::{Request, Ticket};

use super::DECIDER;
use crate::shard::{Mutation, Shard};

impl Shard {
    /// Applies the next entry. The only way in which a change reaches the catalog of a shard. The caller then calls
    /// [`Shard::send_answers`], once for several entries.
    pub(in crate::shard) fn handle_entry(&mut self, entry: &Entry) {
        let Entry { index, asker, changes, answer } = entry;
        debug_assert!(self.metadata.applied < *index, "entries come in their order");
        let acts_for_node = self.here.id == NODE_SHARD;
        let asks = match self.has(Mutation::ActWhereDecided) {
            true => self.has_decided(*index),
            false => acts_for_node && asker.origin == self.here.origin,
        };
        for change in changes.iter() {
            if asks {
                self.emit_change(change, asker.by.as_deref());
            }
            if acts_for_node {
                self.follow_founding(change, *index);
            }
            self.apply_change(change);
            if acts_for_node {
                self.follow_history(change);
            }
            if asks {
                self.place_declared(change, asker.shard);
            }
        }
        self.note_proposal(asker);
        self.metadata.applied = *index;
        self.handle_early_asks();
        let is_of_users = changes.iter().any(Change::is_of_users);
        if acts_for_node && is_of_users {
            self.note_users_changed(*index);
            // Once for all changes: while the copy is shared, each change would copy all users.
            self.metadata.access.publish(self.metadata.catalog.users().clone());
        }
        if asks {
            // What was decided on another node has no ticket: those of this node mean nothing there.
            let ticket = match asker.number {
                0 => Some(asker.ticket),
                number => self.metadata.proposals.close(number),
            };
            match ticket {
                Some(ticket) => self.take_answer(*index, ticket, Ok(answer.clone()), is_of_users),
                None => self.end_late(answer),
            }
        }
        if acts_for_node {
            self.answer_applied();
            if changes.iter().any(|change| matches!(change, Change::NodeStarted { .. })) {
                self.note_own_loss(changes, asker);
                // What this node proposes may have waited for its start.
                self.tend_catalog_soon();
            }
        }
        match acts_for_node {
            true => self.note_applied(*index, self.here.id),
            false => self.mail.send_applied(NODE_SHARD, *index),
        }
    }

    /// Notes that the proposal of an entry is known from now on.
    fn note_proposal(&mut self, asker: &Asker) {
        self.metadata.catalog.note_proposal(asker);
        if asker.number > 0 && self.storage.writes_definitions() {
            let asked = self.metadata.catalog.proposals_of(asker.origin);
            self.storage.note_applied(&asked);
        }
    }

    /// Called for an entry of this node whose asker has been told that the outcome is unknown. Nobody would end an exclusive queue then, if its
    /// connection has closed since.
    fn end_late(&mut self, answer: &Answer) {
        if let Answer::Queue { record, created: true } = answer
            && record.exclusive.is_some()
        {
            let ticket = Ticket(unassigned(self.here.id));
            let delete = Request::Delete { ticket, if_unused: false, if_empty: false };
            self.mail.post.request(record.id, delete);
        }
    }

    fn apply_change(&mut self, change: &Change) {
        let gone = match change {
            Change::QueueForgotten { queue } => {
                self.end_forgotten(*queue);
                self.metadata.catalog.queue_by_id(*queue).map(|q| q.name.clone())
            }
            _ => None,
        };
        self.metadata.catalog.apply(change);
        self.storage.note_applied(change);
        match change {
            Change::QueueDeclared(record) => self.place_elsewhere(record),
            Change::NodeStarted { node, origin } => self.end_earlier_seats(*node, origin.boot),
            Change::NodeJoined { .. } if self.here.id == DECIDER => self.tend_catalog_soon(),
            Change::QueueForgotten { queue } => {
                self.metadata.placements.forget(*queue);
                self.queue_forgotten(*queue, gone.as_deref().unwrap_or_default())
            }
            Change::PolicySet(_) | Change::PolicyCleared { .. } => {
                self.walks.policies.begin();
                self.walks.exchanges.begin();
            }
            change if change.is_of_users() => {
                if let Change::VhostDeleted { name } = change {
                    self.past.forget(name);
                }
                self.walks.rights.begin();
            }
            _ => {}
        }
    }

    /// Called on the node shard of the asker for each command that was not refused: counts it, and tells the queue that it is used.
    pub(super) fn note_answer(&mut self, answer: &Answer) {
        let Answer::Queue { record, created } = answer else { return };
        self.counters.queues_declared += 1;
        self.counters.queues_created += u64::from(*created);
        if !record.durable && record.exclusive.is_none() {
            self.counters.deprecated.count(Deprecated::TransientNonexclQueues);
        }
        if !created && record.may_expire() {
            self.mail.post.request(record.id, Request::Use);
        }
    }
}
