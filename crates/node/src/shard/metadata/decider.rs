//! The catalog on a shard: the first one decides, all apply, and an answer leaves when all have (house.md
//! section 5, "Topology").

use std::collections::VecDeque;
use std::sync::Arc;

use broker::catalog::{Answer, CatalogError, Change, Command, QueueRecord};
use broker::ids::{DECIDER, QueueId, ShardId, shard_of};
use broker::mail::{Mail, TicketOwner};
use hashbrown::HashMap;
use queue::{Request, Ticket};

use crate::shard::Shard;

/// What the deciding shard keeps.
#[derive(Debug)]
pub(super) struct Decider {
    /// The version that each shard has applied.
    applied: Vec<u64>,
    unanswered: VecDeque<Unanswered>,
    /// Changes given to the journal so far, and how many of them are synced.
    pushed: u64,
    synced: u64,
    /// Queues whose declaration is not synced, with its number among those.
    declared: HashMap<QueueId, u64>,
    /// Who wants to be their home, which is decided when it is: until then nothing is confirmed in them that would be lost with
    /// them. At most one for each shard and queue.
    homes: Vec<(u64, QueueId, ShardId)>,
}

#[derive(Debug)]
struct Unanswered {
    version: u64,
    /// The last of its records, 0 if it has none.
    record: u64,
    ticket: Ticket,
    result: Result<Answer, CatalogError>,
}

impl Decider {
    pub fn new(shards: ShardId, version: u64) -> Self {
        Self {
            applied: vec![version; usize::from(shards)],
            unanswered: VecDeque::new(),
            pushed: 0,
            synced: 0,
            declared: HashMap::new(),
            homes: Vec::new(),
        }
    }

    /// The changes up to this one are synced. Returns the homes that need not wait any more, as they were asked for.
    pub fn synced(&mut self, number: u64) -> Vec<Command> {
        self.synced = self.synced.max(number);
        self.declared.retain(|_, record| *record > number);
        let ready = self.homes.extract_if(.., |(record, ..)| *record <= number);
        ready.map(|(_, queue, home)| Command::PlaceQueue { queue, home }).collect()
    }

    /// Keeps a command that comes too early; then it is true.
    fn keeps(&mut self, command: &Command) -> bool {
        let Command::PlaceQueue { queue, home } = *command else { return false };
        let record = self.declared.get(&queue);
        self.homes.extend(record.map(|&record| (record, queue, home)));
        record.is_some()
    }
}

impl Shard {
    /// The changes up to number `record` are synced: what waited for that goes on.
    pub(in crate::shard) fn changes_synced(&mut self, record: u64) {
        if let Some(decider) = &mut self.metadata.decider {
            decider.synced(record).into_iter().for_each(|command| self.mail.post.propose(None, command));
        }
    }

    pub(in crate::shard) fn handle_proposal(
        &mut self,
        ticket: Option<Ticket>,
        from: ShardId,
        command: Command,
    ) {
        let Some(mut decider) = self.metadata.decider.take() else {
            tracing::error!(from, "a proposal came to a shard that does not decide");
            return;
        };
        if decider.keeps(&command) {
            self.metadata.decider = Some(decider);
            return;
        }
        let mut record = 0;
        let result = match self.metadata.catalog.decide(command) {
            Err(error) => Err(error),
            Ok(decision) => {
                let changes: Arc<[Change]> = decision.changes.into();
                if !changes.is_empty() {
                    let version = self.metadata.catalog.version() + changes.len() as u64;
                    decider.applied[usize::from(self.here.id)] = version;
                    // First of all: what applying them sends after must not overtake them.
                    for to in 0..decider.applied.len() as ShardId {
                        if to != self.here.id {
                            self.mail.send(to, Mail::Changes { version, changes: changes.clone() });
                        }
                    }
                }
                // Each is asked for before it is applied: a change may end the thing that it speaks of.
                for change in changes.iter() {
                    if self.metadata.catalog.is_durable(change) {
                        decider.pushed += 1;
                        record = decider.pushed;
                        if let Change::QueueDeclared(queue) = change {
                            decider.declared.insert(queue.id, record);
                        }
                        self.storage.push_change(self.metadata.catalog.version() + 1, change, record);
                    }
                    self.apply_change(change);
                    self.follow_history(change);
                    self.place_expiring(change, from);
                }
                if let Answer::Queue { record, created } = &decision.answer {
                    self.counters.queues_declared += 1;
                    self.counters.queues_created += u64::from(*created);
                    if !created && record.may_expire() {
                        self.mail.post.request(record.id, Request::Use);
                    }
                }
                Ok(decision.answer)
            }
        };
        if let Some(ticket) = ticket {
            let version = self.metadata.catalog.version();
            decider.unanswered.push_back(Unanswered { version, record, ticket, result });
        }
        self.metadata.decider = Some(decider);
        self.send_answers();
    }

    /// To be called when a change has been applied on the shard that decides: a queue that may expire gets its machine at
    /// once, for nothing else counts the time in which nobody uses it. `from`: the shard of who asked for the change.
    fn place_expiring(&mut self, change: &Change, from: ShardId) {
        if let Change::QueueDeclared(record) = change
            && let Some(queue) = self.metadata.catalog.queue_by_id(record.id).filter(|queue| waits(queue))
        {
            self.mail.post.propose(None, Command::PlaceQueue { queue: queue.id, home: from });
        }
    }

    /// The policies may have changed for the queue at this place of the catalog. On the shard that decides, a queue that may
    /// expire now gets its machine.
    pub(in crate::shard) fn visit_for_policies(&mut self, place: usize) {
        let Some(record) = self.metadata.catalog.refresh_queue_at(place) else { return };
        let queue = record.id;
        if self.metadata.decides() && waits(&record) {
            let home = (place % self.mail.shards().len()) as ShardId;
            self.mail.post.propose(None, Command::PlaceQueue { queue, home });
        }
        self.configure(queue);
    }

    /// Changes that another shard has decided.
    pub(in crate::shard) fn handle_changes(&mut self, version: u64, changes: &[Change]) {
        for change in changes {
            self.apply_change(change);
        }
        debug_assert_eq!(self.metadata.catalog.version(), version, "changes come in their order");
        self.mail.send(DECIDER, Mail::Applied { version, by: self.here.id });
    }

    fn apply_change(&mut self, change: &Change) {
        let gone = match change {
            Change::QueueForgotten { queue } => {
                self.metadata.catalog.queue_by_id(*queue).map(|q| q.name.clone())
            }
            _ => None,
        };
        self.metadata.catalog.apply(change);
        // The first shard applies a change before anybody hears of it.
        if self.here.id == DECIDER && change.is_of_users() {
            self.metadata.access.publish(self.metadata.catalog.users().clone());
        }
        match change {
            Change::QueueDeclared(record) => {
                if let Some(home) = record.home {
                    self.queue_placed(record.id, home);
                }
            }
            Change::QueuePlaced { queue, home } => self.queue_placed(*queue, *home),
            Change::QueueForgotten { queue } => {
                self.queue_forgotten(*queue, gone.as_deref().unwrap_or_default())
            }
            Change::PolicySet(_) | Change::PolicyCleared { .. } => {
                self.walks.policies.begin();
                self.walks.exchanges.begin();
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

    /// Sends the answers that every shard and the log have confirmed, in their order.
    pub(in crate::shard) fn send_answers(&mut self) {
        let Some(decider) = &mut self.metadata.decider else { return };
        let everywhere = decider.applied.iter().copied().min().unwrap_or(0);
        let mut ready = Vec::new();
        while let Some(first) = decider.unanswered.front()
            && first.version <= everywhere
            && first.record <= decider.synced
        {
            ready.extend(decider.unanswered.pop_front());
        }
        for Unanswered { ticket, result, .. } in ready {
            self.mail.send(shard_of(ticket.0), Mail::Answer { ticket, result });
        }
    }

    pub(in crate::shard) fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>) {
        match self.connections.ticket_owner(ticket) {
            Some(TicketOwner::Connection(key)) => {
                if let Ok(Answer::Queue { record, created: true }) = &result
                    && let Some(owner) = record.exclusive
                    && self.connections.get(key).is_none_or(|c| c.gate.id() != owner)
                {
                    // Its connection has gone meanwhile.
                    self.delete_orphan(record.id);
                }
                self.gates().with(key, |gate, cx| gate.handle_answer(ticket, result, cx));
                self.connections.remove_ticket(ticket);
            }
            Some(TicketOwner::Desk) => self.desk_answer(ticket, result),
            Some(TicketOwner::Shard) => {
                self.connections.remove_ticket(ticket);
                let forgetting = self.queues.forgotten(ticket.0);
                forgetting.extents.into_iter().for_each(|extent| self.storage.release(extent));
                for mail in forgetting.told_later {
                    self.forgotten(mail);
                }
            }
            None => {}
        }
    }

    fn delete_orphan(&mut self, queue: QueueId) {
        if let Some(ticket) = self.connections.ticket(TicketOwner::Shard) {
            self.mail.post.request(queue, Request::Delete { ticket, if_unused: false, if_empty: false });
        }
    }

    /// Tells whoever asked for a queue's end that it has come.
    fn forgotten(&mut self, mail: Mail) {
        if let Mail::Effect { queue, effect } = mail {
            self.carry_out(queue, effect);
        }
    }
}

/// Whether a queue may expire and has no machine that counts the time.
fn waits(queue: &QueueRecord) -> bool {
    queue.home.is_none() && queue.may_expire()
}
