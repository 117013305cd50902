//! Questions of the admin API to a shard. Some are answered at once; others wait for the catalog, a queue or the disk.
//! [`looks`](super::looks) has those about what this shard alone knows.

use std::collections::VecDeque;

use broker::admin_api::MoveRefusal;
use broker::mail::TicketOwner;
use broker::placements::Placements;
use catalog::access::{AccessRefused, Identity, Resource, UserRef, Verb};
use catalog::ids::QueueId;
use catalog::{Answer, Catalog, CatalogError};
use hashbrown::HashMap;
use queue::{Effect, Peeked, Refusal, Request, Ticket};

use super::Shard;
use crate::shard::questions::{Act, AnswerTo, Question};

/// Questions in progress. They are bounded by the HTTP requests in flight.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Changes of the catalog that are not decided.
    changes: HashMap<Ticket, AnswerTo<Result<Answer, CatalogError>>>,
    /// What waits until the node has caught up with the catalog.
    catching_up: HashMap<Ticket, AnswerTo<()>>,
    /// Requests to queues, each with its queue.
    requests: HashMap<Ticket, (QueueId, AnswerTo<Effect>)>,
    /// The tickets of these requests, by the numbers of their questions.
    tickets: HashMap<u64, Ticket>,
    /// Messages that are published again, by the numbers of their questions.
    moves: HashMap<u64, AnswerTo<Vec<Result<(), MoveRefusal>>>>,
    /// Messages that are read, by the numbers of their questions.
    peeks: HashMap<u64, AnswerTo<Result<Peeked, Refusal>>>,
    /// Questions that wait because their turn had too few rows left, oldest first.
    unanswered: VecDeque<Question>,
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

    /// Handles a question of the admin API.
    pub fn handle_question(&mut self, question: Question) {
        let rows = self.rows_for(&question);
        let waits = rows > 0 && (self.admin_api.has_unanswered() || !self.rows.have_room(rows));
        match waits {
            true => self.admin_api.unanswered.push_back(question),
            false => self.answer(question),
        }
    }

    /// Answers waiting questions while this turn has rows left for them.
    pub(super) fn answer_waiting(&mut self) {
        while let Some(question) = self.admin_api.unanswered.front()
            && self.rows.have_room(self.rows_for(question))
            && let Some(question) = self.admin_api.unanswered.pop_front()
        {
            self.answer(question);
        }
    }

    /// Returns the number of rows that answering visits.
    fn rows_for(&self, question: &Question) -> usize {
        match question {
            Question::Read(read) => read.rows(self.catalog()),
            Question::Look(look) => look.rows(self),
            Question::Act(act) => act.rows(),
        }
    }

    fn answer(&mut self, question: Question) {
        self.rows.count(self.rows_for(&question));
        match question {
            Question::Read(read) => read.answer(self.metadata.catalog(), self.metadata.placements()),
            Question::Look(look) => look.answer(self),
            Question::Act(act) => self.begin(act),
        }
    }

    fn begin(&mut self, act: Act) {
        match act {
            // Without a ticket there is no answer.
            Act::Change { command, by, to } => {
                if let Some(ticket) = self.connections.ticket(TicketOwner::AdminApi) {
                    self.admin_api.changes.insert(ticket, to);
                    self.mail.post.propose_for(Some(by), ticket, command);
                }
            }
            Act::CatchUp(to) if !self.metadata.may_lag() => to.send(()),
            Act::CatchUp(to) => {
                if let Some(ticket) = self.connections.ticket(TicketOwner::AdminApi) {
                    self.admin_api.catching_up.insert(ticket, to);
                    self.mail.post.unsure.push((ticket, None));
                }
            }
            Act::Request { queue, mut request, to } => {
                if let Some(ticket) = self.connections.ticket(TicketOwner::AdminApi) {
                    self.admin_api.tickets.insert(to.number, ticket);
                    self.admin_api.requests.insert(ticket, (queue, to));
                    request.set_ticket(ticket);
                    self.mail.post.request(queue, request);
                }
            }
            Act::LookAt { node, ask, to } => self.look_at(node, ask, to),
            Act::Holder(to) => to.send(self.connections.new_holder()),
            Act::Post { queue, requests, to } => {
                requests.into_iter().for_each(|request| self.mail.post.request(queue, request));
                to.send(());
            }
            Act::Move { vhost, messages, to } => {
                let number = to.number;
                self.admin_api.moves.insert(number, to);
                self.publish_moved(number, vhost, messages);
            }
            Act::Peek { queue, peek, to } => {
                let number = to.number;
                self.admin_api.peeks.insert(number, to);
                self.begin_peek(number, queue, peek);
            }
            Act::Checkpoint { queue, to } => to.send(self.checkpoint(queue)),
            Act::Reclaim { queue, to } => to.send(self.reclaim_memory(queue)),
            Act::SetTraces(traces, to) => {
                self.metadata.set_traces(traces);
                to.send(());
            }
            Act::Close { who, name, reason, to } => to.send(self.close_connection(&who, &name, &reason)),
        }
    }

    /// Called when nobody waits for the answer to the question of this number any more.
    pub fn give_up(&mut self, number: u64) {
        self.admin_api.unanswered.retain(Question::is_awaited);
        self.admin_api.peeks.remove(&number);
        self.give_up_far_looks();
        self.give_up_moves(number);
        if let Some(ticket) = self.admin_api.tickets.remove(&number)
            && let Some((queue, _)) = self.admin_api.requests.remove(&ticket)
        {
            self.connections.remove_ticket(ticket);
            self.mail.post.request(queue, Request::CancelBrowse { ticket });
        }
    }

    /// Called when a change of the admin API was decided.
    pub(super) fn answer_change(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>) {
        self.connections.remove_ticket(ticket);
        if let Some(to) = self.admin_api.changes.remove(&ticket) {
            to.send(result);
        }
    }

    /// Called when the node has caught up with the catalog, or cannot soon.
    pub(super) fn answer_caught_up(&mut self, ticket: Ticket) {
        self.connections.remove_ticket(ticket);
        if let Some(to) = self.admin_api.catching_up.remove(&ticket) {
            to.send(());
        }
    }

    /// Called with the answer of a queue to a request of the admin API.
    pub(super) fn answer_request(&mut self, ticket: Ticket, effect: Effect) {
        self.connections.remove_ticket(ticket);
        if let Some((_, to)) = self.admin_api.requests.remove(&ticket) {
            self.admin_api.tickets.remove(&to.number);
            to.send(effect);
        }
    }

    /// Called when it is known what has become of messages that were published again.
    pub(super) fn answer_move(&mut self, question: u64, outcomes: Vec<Result<(), MoveRefusal>>) {
        if let Some(to) = self.admin_api.moves.remove(&question) {
            to.send(outcomes);
        }
    }

    /// Called when ready messages were read.
    pub(super) fn answer_peek(&mut self, question: u64, peeked: Result<Peeked, Refusal>) {
        if let Some(to) = self.admin_api.peeks.remove(&question) {
            to.send(peeked);
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
