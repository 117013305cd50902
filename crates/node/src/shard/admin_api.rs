//! Questions of the admin API to a shard. Some are answered at once; others wait for
//! the catalog or a queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;

use broker::admin_api::{ExchangeRow, QueueNumbers, ShardRow};
use broker::exchange_counts::ExchangeCounts;
use broker::explain::{ConnectionFacts, End, LogFacts, Role, ShardFacts, Wanted};
use broker::mail::TicketOwner;
use broker::placements::Placements;
use catalog::ExchangeId;
use catalog::access::{AccessRefused, Identity, Resource, UserRef, Verb};
use catalog::ids::QueueId;
use catalog::{Caller, Catalog, CatalogError, QueueRecord};
use hashbrown::HashMap;
use queue::{ConsumerId, Request, Ticket};

use super::Shard;
use super::connections::OpenSessions;
use crate::questions::{PLACES_PER_PART, Part, Question, Reply, Totals};

/// Questions in progress, and answers that have not been fetched. They are bounded by the HTTP requests in
/// flight.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Requests to queues, by the number of the question.
    queues: HashMap<u64, (QueueId, Ticket)>,
    replies: Vec<(u64, Reply)>,
    /// Questions that wait because their turn had too few rows left, oldest first.
    unanswered: VecDeque<(u64, Question)>,
}

impl Waiting {
    /// Returns true if questions wait for another turn.
    pub(super) fn has_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }
}

impl Shard {
    pub fn catalog(&self) -> &Catalog {
        self.metadata.catalog()
    }

    /// Returns the homes of the queues.
    pub fn placements(&self) -> &Placements {
        self.metadata.placements()
    }

    /// Handles a question of the admin API. [`Shard::poll_replies`] returns its answer under this number.
    pub fn handle_question(&mut self, number: u64, question: Question) {
        let rows = self.rows_for(&question);
        let waits = rows > 0 && (self.admin_api.has_unanswered() || !self.rows.have_room(rows));
        match waits {
            true => self.admin_api.unanswered.push_back((number, question)),
            false => self.answer(number, question),
        }
    }

    /// Answers waiting questions while this turn has rows left for them.
    pub(super) fn answer_waiting(&mut self) {
        while let Some((_, question)) = self.admin_api.unanswered.front()
            && self.rows.have_room(self.rows_for(question))
            && let Some((number, question)) = self.admin_api.unanswered.pop_front()
        {
            self.answer(number, question);
        }
    }

    /// Returns the number of rows that answering visits.
    fn rows_for(&self, question: &Question) -> usize {
        let part = |from: usize, places: usize| places.saturating_sub(from).min(PLACES_PER_PART);
        let catalog = self.catalog();
        match question {
            Question::ById(ids)
            | Question::Homes(ids)
            | Question::Reports(ids)
            | Question::Delivered(ids) => ids.len(),
            Question::AtEnds(ends) => ends.len(),
            Question::ExchangeCounts(ids) => ids.len(),
            Question::VhostNumbers { from } | Question::Troubles { from, .. } => {
                part(*from, self.vhost_places())
            }
            Question::Queues { from } | Question::UsedQueues { from } => part(*from, catalog.queue_places()),
            Question::Exchanges { from } => part(*from, catalog.exchange_places()),
            Question::Bindings { .. } | Question::QueuesIn { .. } => PLACES_PER_PART,
            Question::Parameters => catalog.parameters().len(),
            Question::Vhosts => catalog.vhosts_with_settings().len(),
            Question::Connections { from, .. } | Question::Look { from, .. } => {
                part(*from, self.connections.places())
            }
            Question::Change(..)
            | Question::Queue { .. }
            | Question::Holder
            | Question::Post { .. }
            | Question::Move { .. }
            | Question::Listed { .. }
            | Question::Usable { .. }
            | Question::Policies { .. }
            | Question::Counts
            | Question::Totals
            | Question::SetTraces(_)
            | Question::Close { .. } => 0,
            Question::Peek { peek, .. } => (peek.count as usize).min(PLACES_PER_PART),
            Question::Checkpoint(_) | Question::Reclaim(_) => 1,
        }
    }

    fn answer(&mut self, number: u64, question: Question) {
        self.rows.count(self.rows_for(&question));
        let reply = match question {
            Question::Change(command, by) => {
                if let Some(ticket) = self.admin_ticket(number) {
                    self.mail.post.propose_for(Some(by), ticket, command);
                }
                return;
            }
            Question::Queue { queue, mut request } => {
                if let Some(ticket) = self.admin_ticket(number) {
                    self.admin_api.queues.insert(number, (queue, ticket));
                    request.set_ticket(ticket);
                    self.mail.post.request(queue, request);
                }
                return;
            }
            Question::Holder => Reply::Holder(self.connections.new_holder()),
            Question::Post { queue, requests } => {
                requests.into_iter().for_each(|request| self.mail.post.request(queue, request));
                Reply::Posted
            }
            Question::Move { vhost, messages } => match self.publish_moved(number, vhost, messages) {
                Some(outcomes) => Reply::Moved(outcomes),
                None => return,
            },
            Question::Listed { vhost, name } => {
                let found = self.catalog().listed_queue(&vhost, &name);
                Reply::Named(found.ok_or_else(|| CatalogError::no_queue(&vhost, &name)))
            }
            Question::Usable { vhost, name } => {
                Reply::Named(self.catalog().usable_queue(&vhost, &name, Caller::Management))
            }
            Question::ById(ids) => {
                let found = ids.iter().filter_map(|id| self.catalog().queue_by_id(*id));
                Reply::Records(found.collect())
            }
            Question::AtEnds(ends) => {
                Reply::Records(ends.iter().filter_map(|end| self.record_at(end)).collect())
            }
            Question::Queues { from } => {
                let catalog = self.catalog();
                let row = |place| Some((place, catalog.queue_at(place)?));
                Reply::Places(Part::of(from, catalog.queue_places(), row))
            }
            Question::Homes(ids) => {
                Reply::Homes(ids.into_iter().map(|id| self.placements().home(id)).collect())
            }
            Question::Exchanges { from } => {
                let catalog = self.catalog();
                Reply::Exchanges(Part::of(from, catalog.exchange_places(), |place| {
                    let (exchange, id, bindings) = catalog.exchange_at(place)?;
                    Some(ExchangeRow { id, exchange, bindings, counts: ExchangeCounts::default() })
                }))
            }
            Question::ExchangeCounts(ids) => {
                let counts = ids.into_iter().map(|id| self.counts_of_exchange(id));
                Reply::ExchangeCounts(counts.collect())
            }
            Question::VhostNumbers { from } => Reply::VhostNumbers(self.vhost_numbers(from)),
            Question::UsedQueues { from } => Reply::UsedQueues(self.used_queues(from)),
            Question::Troubles { of, from } => {
                let of = of.as_ref().map(|(authority, name)| UserRef { authority: *authority, name });
                let comers = match from {
                    0 => self.brief_clients(of),
                    _ => Vec::new(),
                };
                let (log, shard) = (self.storage.facts(), self.facts());
                Reply::Troubles { part: self.troubles(of, from), comers, log, shard }
            }
            Question::Bindings { from } => {
                let (rows, next) = self.catalog().bindings_from(from, PLACES_PER_PART);
                Reply::Bindings(Part { rows, next })
            }
            Question::Policies { operator } => {
                Reply::Policies(self.catalog().policies(operator).cloned().collect())
            }
            Question::Parameters => Reply::Parameters(self.catalog().parameters().clone()),
            Question::Vhosts => {
                let all = self.catalog().vhosts_with_settings();
                Reply::Vhosts(all.map(|(name, settings)| (name.clone(), settings.clone())).collect())
            }
            Question::QueuesIn { vhost } => {
                Reply::Ids(self.catalog().queues_in(&vhost).take(PLACES_PER_PART).collect())
            }
            Question::Counts => {
                let catalog = self.catalog();
                Reply::Counts {
                    queues: catalog.queue_count(),
                    exchanges: catalog.exchange_count(),
                    cluster_name: catalog.cluster_name().map(str::to_owned),
                    cluster_tags: catalog.cluster_tags().cloned(),
                }
            }
            Question::Reports(ids) => {
                let report = |id| {
                    self.configure(id);
                    let report = self.queue_report(id)?;
                    Some(QueueNumbers { report, group: self.group_row(id) })
                };
                Reply::Reports(ids.into_iter().map(report).collect())
            }
            Question::Peek { queue, peek } => return self.begin_peek(number, queue, peek),
            Question::Checkpoint(queue) => Reply::Checkpoint(self.checkpoint(queue)),
            Question::Reclaim(queue) => Reply::Reclaimed(self.reclaim_memory(queue)),
            Question::Delivered(ids) => {
                Reply::Delivered(ids.into_iter().map(|id| self.stream_delivered(id)).collect())
            }
            Question::SetTraces(traces) => {
                self.metadata.set_traces(traces);
                Reply::TracesSet
            }
            Question::Totals => Reply::Totals(Box::new(self.totals())),
            Question::Connections { node, names, from } => {
                let row = |key| {
                    let c = self.connections.get(key)?;
                    if names.as_ref().is_some_and(|names| !names.contains(&c.gate.peer().name)) {
                        return None;
                    }
                    c.gate.report(&node, (c.recv_bytes, c.send_bytes), self.here.now_ms)
                };
                Reply::Connections(Part::of(from, self.connections.places(), row))
            }
            Question::Look { wanted, from } => {
                let (connections, log) = self.look(&wanted, from);
                Reply::Look(connections, log, self.facts())
            }
            Question::Close { who, name, reason } => {
                Reply::Closed(self.close_connection(&who, &name, &reason))
            }
        };
        self.admin_api.replies.push((number, reply));
    }

    /// Called when nobody waits for the answer to this question any more.
    pub fn give_up(&mut self, number: u64) {
        self.admin_api.unanswered.retain(|(waiting, _)| *waiting != number);
        self.give_up_moves(number);
        if let Some((queue, ticket)) = self.admin_api.queues.remove(&number) {
            self.connections.remove_ticket(ticket);
            self.mail.post.request(queue, Request::CancelBrowse { ticket });
        }
    }

    /// Returns answers to the admin API, with the numbers of their questions.
    pub fn poll_replies(&mut self) -> vec::Drain<'_, (u64, Reply)> {
        self.admin_api.replies.drain(..)
    }

    /// Returns a ticket for a question that is not answered at once. Without a ticket the question gets no
    /// answer, and the asker's deadline passes.
    fn admin_ticket(&mut self, number: u64) -> Option<Ticket> {
        self.connections.ticket(TicketOwner::AdminApi(number))
    }

    /// Called with the answer to what this question has asked under a ticket.
    pub(super) fn admin_answer(&mut self, ticket: Ticket, number: u64, reply: Reply) {
        self.connections.remove_ticket(ticket);
        self.admin_api.queues.remove(&number);
        self.admin_api.replies.push((number, reply));
    }

    /// Called with the answer to a question that no ticket stands for.
    pub(super) fn admin_reply(&mut self, question: u64, reply: Reply) {
        self.admin_api.replies.push((question, reply));
    }

    /// Returns sums over what lives here. They are maintained, so no row is visited.
    pub fn totals(&self) -> Totals {
        let (counters, budgets) = (self.counters.clone(), self.budgets());
        let mut depth = self.queues.depth();
        depth.ready += self.streams.messages();
        let OpenSessions { sessions, channels } = self.connections.open_sessions();
        let commit_latency_ms = self.queues.commit_latency_ms();
        let shard = self.row();
        Totals { depth, sessions, channels, counters, commit_latency_ms, budgets, shard }
    }

    fn row(&self) -> ShardRow {
        ShardRow {
            number: self.here.id,
            busy: self.load.busy_time(),
            is_at_limit: self.load.is_at_limit(),
            connections: self.counters.connections,
            queues: self.homes(),
        }
    }

    /// Returns what an explanation needs to know of this shard.
    pub fn facts(&self) -> ShardFacts {
        ShardFacts {
            number: self.here.id,
            busy_percent: self.load.percent(),
            is_at_limit: self.load.is_at_limit(),
            queues: self.homes(),
            shards: self.mail.shards().len() as u64,
            is_blocked: self.connections.is_blocked(),
        }
    }

    /// Returns the number of queues and streams whose home is this shard.
    fn homes(&self) -> u64 {
        (self.queues.count() + self.streams.count()) as u64
    }

    /// Returns the queues and streams here that have had messages since the start, at one part of the places, which begins at
    /// `from`. With each comes the number of messages that were published to it and delivered from it.
    pub fn used_queues(&self, from: usize) -> Part<(QueueId, u64)> {
        let catalog = self.catalog();
        Part::of(from, catalog.queue_places(), |place| {
            let id = catalog.queue_id_at(place)?;
            let report = self.queue_report(id)?;
            let passed = report.published + report.delivered;
            (passed > 0).then_some((id, passed))
        })
    }

    /// Returns what was published to an exchange on this shard.
    pub fn counts_of_exchange(&self, exchange: ExchangeId) -> ExchangeCounts {
        self.connections.counts_of_exchange(exchange)
    }

    /// Returns what may stop the links of the wanted connections, from place `from` on, and the state of the
    /// log.
    pub fn look(&self, wanted: &Wanted, from: usize) -> (Part<ConnectionFacts>, LogFacts) {
        let here = self.facts();
        let row = |key| {
            let c = self.connections.get(key).filter(|c| c.gate.is_wanted(wanted))?;
            let mut facts = c.gate.facts(c.unwritten_bytes as u64, c.partial_bytes() as u64)?;
            facts.shard = here;
            for link in &mut facts.links {
                if let Role::Consuming { queue, consumer, standing, .. } = &mut link.role {
                    *standing = self.streams.standing(*queue, ConsumerId(*consumer));
                }
            }
            Some(facts)
        };
        (Part::of(from, self.connections.places(), row), self.storage.facts())
    }

    /// Returns the queue at this end of a route.
    pub fn record_at(&self, end: &End) -> Option<Arc<QueueRecord>> {
        match end {
            End::Named(vhost, name) => self.catalog().listed_queue(vhost, name),
            End::Id(id) => self.catalog().queue_by_id(*id),
        }
    }

    /// Closes the connection of this name. Returns false if it is not on this shard.
    ///
    /// # Errors
    /// The connection is here, but the user may not close it.
    pub fn close_connection(
        &mut self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> Result<bool, AccessRefused> {
        let Some(key) = self.connections.named(name) else { return Ok(false) };
        let Some(conn) = self.connections.get(key) else { return Ok(false) };
        let owner = conn.gate.peer().identity.as_ref();
        let owner = owner.map_or(UserRef::internal(""), Identity::owner);
        let resource = [Resource::Connection(owner)];
        self.catalog().users().permit(who, &conn.gate.peer().vhost, Verb::CloseConnection, &resource)?;
        self.close(key, reason);
        Ok(true)
    }
}
