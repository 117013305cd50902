//! What the desk asks of a shard: calls that run on it, and answers that come later.

use broker::access::{AccessRefused, Identity, Resource, Verb};
use broker::catalog::{Answer, Catalog, CatalogError, Command, QueueRecord};
use broker::desk::{BudgetRow, ConnectionRow};
use broker::explain::{ConnectionFacts, End, LogFacts, Role, Wanted};
use broker::ids::QueueId;
use broker::mail::TicketOwner;
use hashbrown::HashMap;
use queue::{ConsumerId, Effect, Request, Ticket};
use std::sync::Arc;

use super::Shard;

/// Connections that one call looks at: the shard is not held up, and a queue is explained by some of its consumers.
const LOOK_MAX: usize = 1000;

/// A call that runs on the shard, between two turns. It must be short: at most 1,000 rows.
pub type DeskCall = Box<dyn FnOnce(&mut Shard) + Send>;

/// Sums over a shard.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub ready: u64,
    pub unsettled: u64,
    pub sessions: u64,
    pub counters: broker::counters::Counters,
    pub budgets: Vec<BudgetRow>,
}

/// What to do with the catalog's answer.
pub type OnAnswer = Box<dyn FnOnce(Result<Answer, CatalogError>) + Send>;

/// What to do with a queue's answer.
pub type OnEffect = Box<dyn FnOnce(Effect) + Send>;

/// Answers that the desk waits for. Bounded by the HTTP requests in flight.
#[derive(Default)]
pub(super) struct Waiting {
    answers: HashMap<Ticket, OnAnswer>,
    effects: HashMap<Ticket, OnEffect>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waiting({} answers, {} effects)", self.answers.len(), self.effects.len())
    }
}

impl Shard {
    pub fn catalog(&self) -> &Catalog {
        self.metadata.catalog()
    }

    /// Asks for a change of the catalog.
    pub fn propose(&mut self, command: Command, then: OnAnswer) {
        if let Some(ticket) = self.connections.ticket(TicketOwner::Desk) {
            self.desk.answers.insert(ticket, then);
            self.mail.post.propose(Some(ticket), command);
        }
    }

    /// Asks a queue.
    pub fn ask(
        &mut self,
        queue: QueueId,
        request: impl FnOnce(Ticket) -> Request,
        then: OnEffect,
    ) -> Option<Ticket> {
        let ticket = self.connections.ticket(TicketOwner::Desk)?;
        self.desk.effects.insert(ticket, then);
        self.mail.post.request(queue, request(ticket));
        Some(ticket)
    }

    /// Nobody waits any more for what [`Shard::ask`] has asked.
    pub fn give_up(&mut self, queue: QueueId, ticket: Ticket) {
        if self.desk.effects.remove(&ticket).is_some() {
            self.connections.remove_ticket(ticket);
            self.mail.post.request(queue, Request::GiveUp { ticket });
        }
    }

    pub(super) fn desk_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>) {
        self.connections.remove_ticket(ticket);
        if let Some(then) = self.desk.answers.remove(&ticket) {
            then(result);
        }
    }

    pub(super) fn desk_effect(&mut self, ticket: Ticket, effect: Effect) {
        self.connections.remove_ticket(ticket);
        if let Some(then) = self.desk.effects.remove(&ticket) {
            then(effect);
        }
    }

    /// Sums over what lives here.
    pub fn totals(&self) -> Totals {
        let (counters, budgets) = (self.counters.clone(), self.budgets());
        let mut totals = Totals { counters, budgets, ..Totals::default() };
        for slot in self.queues.iter() {
            let (ready, unsettled) = slot.depth();
            totals.ready += ready;
            totals.unsettled += unsettled;
        }
        totals.ready += self.streams.messages();
        totals.sessions = self.connections.iter().map(|c| c.gate.session_count() as u64).sum();
        totals
    }

    /// Every open connection of this shard.
    pub fn connection_rows(&self, node: &Arc<str>) -> Vec<ConnectionRow> {
        self.connections.iter().filter_map(|c| c.gate.report(node, c.recv_bytes, c.send_bytes)).collect()
    }

    /// What may stop the links of connections that matter, of the first thousand; and what may stop everything.
    pub fn look(&self, wanted: &Wanted) -> (Vec<ConnectionFacts>, LogFacts) {
        let wanted = self.connections.iter().filter(|c| c.gate.is_wanted(wanted)).take(LOOK_MAX);
        let connections = wanted.filter_map(|c| {
            let mut facts = c.gate.facts(c.unwritten_bytes as u64, c.partial_bytes() as u64)?;
            for link in &mut facts.links {
                if let Role::Consuming { queue, consumer, standing, .. } = &mut link.role {
                    *standing = self.streams.standing(*queue, ConsumerId(*consumer));
                }
            }
            Some(facts)
        });
        (connections.collect(), self.storage.facts())
    }

    /// What the catalog knows of these queues, each once.
    pub fn records_of(&self, ends: &[End]) -> Vec<Arc<QueueRecord>> {
        let mut records: Vec<Arc<QueueRecord>> = Vec::new();
        for end in ends {
            let record = match end {
                End::Named(vhost, name) => self.metadata.catalog().queue(vhost, name),
                End::Id(id) => self.metadata.catalog().queue_by_id(*id),
            };
            records.extend(record);
        }
        records.sort_unstable_by_key(|r| r.id);
        records.dedup_by_key(|r| r.id);
        records
    }

    /// Closes the connection of this name; false if it is not here.
    ///
    /// # Errors
    /// It is here, and the user may not close it.
    pub fn close_connection(
        &mut self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> Result<bool, AccessRefused> {
        let Some(key) = self.connections.named(name) else { return Ok(false) };
        let Some(conn) = self.connections.get(key) else { return Ok(false) };
        let owner = conn.gate.identity().map_or("", |owner| &owner.user);
        let resource = [Resource::Connection(owner)];
        self.catalog().users().permit(who, conn.gate.vhost(), Verb::CloseConnection, &resource)?;
        self.close(key, reason);
        Ok(true)
    }
}
