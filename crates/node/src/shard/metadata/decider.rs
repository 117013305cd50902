//! Changes of the catalog. The deciding shard decides, the log syncs, all shards apply the change, and then
//! the answer is sent. A change of users waits for their copy as well.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::counters::Deprecated;
use broker::ids::{NODE_SHARD, shard_of};
use broker::mail::{Mail, Proposal, TicketOwner};
use catalog::ids::{QueueId, ShardId};
use catalog::{Answer, Catalog, CatalogError, Change, Command, Committed, Offered, Pending};
use queue::{Request, Ticket};

use super::Metadata;
use super::copied::Copied;
use crate::questions::Reply;
use crate::shard::Shard;

/// The shard that decides and numbers the changes of the catalog.
pub(super) const DECIDER: ShardId = NODE_SHARD;

/// The state of the deciding shard.
#[derive(Debug)]
pub(super) struct Decider {
    pub pending: Pending<Asker>,
    /// The catalog version that each shard has applied.
    applied: Vec<u64>,
    /// The answers to committed commands that not every shard has applied yet, by version.
    unanswered: VecDeque<Unanswered>,
    /// The same for changes of users, which the copy of the users may not have yet.
    uncopied: VecDeque<Unanswered>,
}

/// The proposer of a command.
#[derive(Debug)]
pub(super) struct Asker {
    /// Where the answer goes. With `None` no answer is sent.
    ticket: Option<Ticket>,
    /// The user who asks for it, if the broker knows that and events are on.
    by: Option<Arc<str>>,
    from: ShardId,
}

#[derive(Debug)]
struct Unanswered {
    version: u64,
    ticket: Ticket,
    result: Result<Answer, CatalogError>,
}

impl Decider {
    pub(super) fn new(shards: ShardId, catalog: &Catalog) -> Self {
        Self {
            pending: Pending::new(catalog),
            applied: vec![catalog.version(); usize::from(shards)],
            unanswered: VecDeque::new(),
            uncopied: VecDeque::new(),
        }
    }
}

impl Shard {
    /// Has a command decided: here, or where changes are decided. Only this room knows where that is.
    pub(in crate::shard) fn propose_change(&mut self, proposal: Proposal) {
        if self.metadata.decider.is_none() {
            return self.mail.send(DECIDER, Mail::Propose(proposal));
        }
        let Proposal { ticket, by, from, command } = proposal;
        self.offer(command, Asker { ticket, by, from });
        self.send_answers();
    }

    /// Called when the decisions up to `number` are synced. Applies them, and decides the commands that
    /// waited for them.
    pub(in crate::shard) fn changes_synced(&mut self, number: u64) {
        while let Some(decider) = &mut self.metadata.decider
            && let Some(committed) = decider.pending.handle_synced(number)
        {
            self.commit(committed);
        }
        let waiting = self.metadata.decider.as_mut().map(|decider| decider.pending.take_line());
        for (command, asker) in waiting.into_iter().flatten() {
            self.offer(command, asker);
        }
    }

    fn offer(&mut self, command: Command, asker: Asker) {
        let Metadata { catalog, decider: Some(decider), .. } = &mut self.metadata else { return };
        match decider.pending.offer(catalog, command, asker) {
            Offered::Waits => {}
            Offered::Decided { number, changes } => {
                let durable = catalog.durable(&changes);
                for ((version, change), durable) in (catalog.version() + 1..).zip(changes.iter()).zip(durable)
                {
                    if durable {
                        self.storage.push_change(version, change);
                    }
                }
                self.storage.decided(number);
            }
            Offered::Committed(committed) => self.commit(committed),
        }
    }

    /// Applies the changes of a command here and sends them to the other shards. The answer waits until all
    /// have applied them.
    fn commit(&mut self, committed: Committed<Asker>) {
        let Committed { who: Asker { ticket, by, from }, changes, result } = committed;
        let version = self.metadata.catalog.version() + changes.len() as u64;
        let Some(decider) = &mut self.metadata.decider else { return };
        decider.applied[usize::from(self.here.id)] = version;
        if let Some(ticket) = ticket {
            let result = result.clone();
            let line = match changes.iter().any(Change::is_of_users) {
                true => &mut decider.uncopied,
                false => &mut decider.unanswered,
            };
            line.push_back(Unanswered { version, ticket, result });
        }
        if !changes.is_empty() {
            // The changes are sent first, so that no message that results from applying them can overtake
            // them.
            for to in self.mail.shards().filter(|to| *to != self.here.id) {
                self.mail.send(to, Mail::Changes { version, changes: changes.clone() });
            }
        }
        for change in changes.iter() {
            self.emit_change(change, by.as_deref());
            self.apply_change(change);
            if change.is_of_users() {
                self.note_users_changed(self.metadata.catalog.version());
            }
            self.follow_history(change);
            self.place_declared(change, from);
        }
        self.publish_users(&changes);
        if let Ok(Answer::Queue { record, created }) = result {
            self.counters.queues_declared += 1;
            self.counters.queues_created += u64::from(created);
            if !record.durable && record.exclusive.is_none() {
                self.counters.deprecated.count(Deprecated::TransientNonexclQueues);
            }
            if !created && record.may_expire() {
                self.mail.post.request(record.id, Request::Use);
            }
        }
    }

    /// Applies changes that the deciding shard has committed.
    pub(in crate::shard) fn handle_changes(&mut self, version: u64, changes: &[Change]) {
        for change in changes {
            self.apply_change(change);
        }
        self.publish_users(changes);
        debug_assert_eq!(self.metadata.catalog.version(), version, "changes come in their order");
        self.mail.send(DECIDER, Mail::Applied { version, by: self.here.id });
    }

    /// Publishes the users if changes that were applied concern them. One shard of the node does so before any client gets its
    /// answer, and once for all changes: while the copy is shared, each change would copy all users.
    fn publish_users(&mut self, changes: &[Change]) {
        if self.here.id == NODE_SHARD && changes.iter().any(Change::is_of_users) {
            self.metadata.access.publish(self.metadata.catalog.users().clone());
        }
    }

    fn apply_change(&mut self, change: &Change) {
        let gone = match change {
            Change::QueueForgotten { queue } => {
                self.metadata.catalog.queue_by_id(*queue).map(|q| q.name.clone())
            }
            _ => None,
        };
        self.metadata.catalog.apply(change);
        match change {
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

    pub(in crate::shard) fn handle_applied(&mut self, version: u64, by: ShardId) {
        if let Some(decider) = &mut self.metadata.decider
            && let Some(applied) = decider.applied.get_mut(usize::from(by))
        {
            *applied = version.max(*applied);
        }
        self.send_answers();
    }

    /// Sends the answers to changes that every shard has applied, those of users if their copy has them, in order.
    pub(in crate::shard) fn send_answers(&mut self) {
        let copied = self.metadata.copied.as_ref().map_or(u64::MAX, Copied::answered_to);
        let Some(decider) = &mut self.metadata.decider else { return };
        let everywhere = decider.applied.iter().copied().min().unwrap_or(0);
        let mut ready = Vec::new();
        for (line, to) in
            [(&mut decider.unanswered, everywhere), (&mut decider.uncopied, everywhere.min(copied))]
        {
            while let Some(answer) = line.pop_front_if(|first| first.version <= to) {
                ready.push(answer);
            }
        }
        for Unanswered { ticket, result, .. } in ready {
            self.mail.send(shard_of(ticket.0), Mail::Answer { ticket, result });
        }
    }

    pub(in crate::shard) fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>) {
        match self.connections.ticket_owner(ticket) {
            Some(TicketOwner::Gate(key)) => {
                if let Ok(Answer::Queue { record, created: true }) = &result
                    && let Some(owner) = record.exclusive
                    && self.connections.get(key).is_none_or(|c| c.gate.peer().id != owner)
                {
                    // The connection of the exclusive queue has closed in the meantime, so the queue is
                    // deleted.
                    self.delete_orphan(record.id);
                }
                self.pass_answer(key, ticket, |gate, cx| gate.handle_answer(ticket, result, cx));
            }
            Some(TicketOwner::AdminApi) => self.admin_answer(ticket, Reply::Changed(result)),
            Some(TicketOwner::Shard) => {
                self.connections.remove_ticket(ticket);
                let forgetting = self.queues.forgotten(ticket.0);
                forgetting.extents.into_iter().for_each(|extent| self.storage.release(extent));
                for mail in forgetting.answers {
                    self.forgotten(mail);
                }
            }
            // Another node gets no answer over its seat: it answers its clients when it has applied the change itself.
            Some(TicketOwner::Seat(_)) | None => {}
        }
    }

    fn delete_orphan(&mut self, queue: QueueId) {
        if let Some(ticket) = self.connections.ticket(TicketOwner::Shard) {
            self.mail.post.request(queue, Request::Delete { ticket, if_unused: false, if_empty: false });
        }
    }

    /// Notifies the requester that its queue is deleted.
    fn forgotten(&mut self, mail: Mail) {
        if let Mail::Effect { queue, effect } = mail {
            self.carry_out(queue, effect);
        }
    }
}
