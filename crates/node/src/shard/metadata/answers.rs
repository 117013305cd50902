//! The answers to commands that this node has asked for. They are kept on the node shard until every shard of the node has applied
//! the entry. Answers about users also wait for their copy.

use std::collections::VecDeque;

use broker::ids::{shard_of, unassigned};
use broker::mail::{Mail, TicketOwner};
use catalog::ids::ShardId;
use catalog::{Answer, CatalogError};
use queue::{Request, Ticket};

use super::copied::Copied;
use crate::shard::{Mutation, Shard};

/// The answers that wait; see the module.
#[derive(Debug)]
pub(super) struct Answers {
    /// The index of the last entry that each shard has applied.
    applied: Vec<u64>,
    /// In the order of their entries.
    waiting: VecDeque<Waiting>,
    /// The same for changes of users.
    of_users: VecDeque<Waiting>,
}

/// An answer that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The index of the entry. If the command has changed nothing, that of the last entry before it was decided.
    pub index: u64,
    ticket: Ticket,
    result: Result<Answer, CatalogError>,
}

impl Answers {
    pub(super) fn new(shards: ShardId, applied: u64) -> Self {
        Self {
            applied: vec![applied; usize::from(shards)],
            waiting: VecDeque::new(),
            of_users: VecDeque::new(),
        }
    }
}

impl Shard {
    /// Called on the node shard of the asker, when what it has asked for is committed or refused. The answer leaves when all shards
    /// have applied the entry `index`.
    pub(super) fn take_answer(
        &mut self,
        index: u64,
        ticket: Option<Ticket>,
        result: Result<Answer, CatalogError>,
        is_of_users: bool,
    ) {
        result.iter().for_each(|answer| self.note_answer(answer));
        let (Some(answers), Some(ticket)) = (&mut self.metadata.answers, ticket) else { return };
        let line = if is_of_users { &mut answers.of_users } else { &mut answers.waiting };
        let waiting = Waiting { index, ticket, result };
        // The answer to a proposal that makes no entry may be about a later index than the next ones.
        let at = line.partition_point(|before| before.index <= index);
        line.insert(at, waiting);
    }

    /// Called on the node shard, when another shard has applied the entries up to `index`.
    pub(in crate::shard) fn handle_applied(&mut self, index: u64, by: ShardId) {
        self.note_applied(index, by);
        self.send_answers();
    }

    /// Notes on the node shard that a shard has applied the entries up to `index`.
    pub(super) fn note_applied(&mut self, index: u64, by: ShardId) {
        if let Some(answers) = &mut self.metadata.answers
            && let Some(applied) = answers.applied.get_mut(usize::from(by))
        {
            *applied = index.max(*applied);
        }
    }

    /// Passes on the answers to entries that every shard has applied, those of users if their copy has them, in order. In a cluster they then
    /// wait for the nodes in sight.
    pub(in crate::shard) fn send_answers(&mut self) {
        let copied = self.metadata.copied.as_ref().map_or(u64::MAX, Copied::answered_to);
        let one_is_enough = self.has(Mutation::AnswerBeforeAll);
        let Some(answers) = &mut self.metadata.answers else { return };
        let applied = answers.applied.iter().copied();
        let everywhere = if one_is_enough { applied.max() } else { applied.min() }.unwrap_or(0);
        let mut ready = Vec::new();
        for (line, to) in
            [(&mut answers.waiting, everywhere), (&mut answers.of_users, everywhere.min(copied))]
        {
            while let Some(answer) = line.pop_front_if(|first| first.index <= to) {
                ready.push(answer);
            }
        }
        for answer in ready {
            // A refusal is no change that others could lack.
            if self.metadata.sight.is_empty() || answer.result.is_err() {
                self.send_answer(answer);
            } else {
                self.metadata.sight.wait(self.here.now_ms, answer);
            }
        }
        self.answer_in_sight();
        self.end_misses();
    }

    /// Sends an answer to the shard that has asked.
    pub(super) fn send_answer(&mut self, Waiting { ticket, result, .. }: Waiting) {
        self.mail.send(shard_of(ticket.0), Mail::Answer { ticket, result });
    }

    /// Returns the index up to which every shard of this node has applied the entries. Used on the node shard only.
    pub(super) fn applied_here(&self) -> u64 {
        let answers = self.metadata.answers.as_ref();
        answers.and_then(|answers| answers.applied.iter().copied().min()).unwrap_or(0)
    }

    /// Called on the shard that has asked.
    pub(in crate::shard) fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>) {
        match self.connections.ticket_owner(ticket) {
            Some(TicketOwner::Gate(key)) => {
                if let Ok(Answer::Queue { record, created: true }) = &result
                    && let Some(owner) = record.exclusive
                    && self.connections.get(key).is_none_or(|c| c.gate.peer().id != owner)
                {
                    // The connection of the exclusive queue has closed in the meantime, so the queue is
                    // deleted. Nobody waits for that.
                    let ticket = Ticket(unassigned(self.here.id));
                    let delete = Request::Delete { ticket, if_unused: false, if_empty: false };
                    self.mail.post.request(record.id, delete);
                }
                self.pass_answer(key, ticket, |gate, cx| gate.handle_answer(ticket, result, cx));
            }
            Some(TicketOwner::AdminApi) => self.answer_change(ticket, result),
            Some(TicketOwner::Ended(queue)) => self.handle_forgotten(queue, ticket, &result),
            // Another node gets no answer over its seat: it answers its clients when it has applied the change itself.
            Some(TicketOwner::Seat(_)) | None => {}
        }
    }
}
