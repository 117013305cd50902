//! Queues that are deleted with their connection, and the answers that wait for these deletions.
//!
//! A peer that hears that its link or connection has ended may declare a queue of the same name at once. So the queues
//! that end with the link are deleted before the answer. But a deletion may take long, so the answer waits for
//! [`ANSWER_WAIT_MS`] at most. The queue is deleted even so, as soon as that is possible.

use catalog::ids::QueueId;
use queue::{Request, Ticket};

use crate::cx::Cx;
use crate::ids::unassigned;
use crate::mail::TicketOwner;

/// The time for which an answer waits for what should come before it, in milliseconds: the answers to DETACH, END and CLOSE, to
/// `connection.close` and to `basic.cancel`.
///
/// A connection has one deadline for all its answers except those to `basic.cancel`. It starts with the first answer that waits.
/// When it has passed, answers do not wait for as long again. So a client that closes its links one by one does not wait once for
/// each. Then the next answer that has something to wait for starts a new deadline.
///
/// The answer to `basic.cancel` has a deadline of its own for each queue, on the shard on which the queue lives.
pub const ANSWER_WAIT_MS: u64 = 1000;

/// The exclusive queues of one connection. `F` is the type of an answer that waits until queues are deleted.
#[derive(Debug)]
pub struct OwnQueues<F> {
    /// The exclusive queues that belong to no link. They are deleted with the connection.
    queues: Vec<QueueId>,
    /// The tickets of deletions that are not answered yet.
    deletions: Vec<Ticket>,
    answers: Vec<F>,
    /// When the answers of the connection are sent in any case. Unset if there is nothing to wait for.
    deadline_ms: Option<u64>,
}

impl<F> Default for OwnQueues<F> {
    fn default() -> Self {
        Self { queues: Vec::new(), deletions: Vec::new(), answers: Vec::new(), deadline_ms: None }
    }
}

impl<F> OwnQueues<F> {
    /// Adds a queue that is deleted with the connection.
    pub fn add(&mut self, queue: QueueId) {
        self.queues.push(queue);
    }

    /// Removes a queue that is deleted already, or that is deleted with something else.
    pub fn forget(&mut self, queue: QueueId) {
        self.queues.retain(|own| *own != queue);
    }

    /// Deletes a queue of the connection. `connection` is the key of the connection on its shard.
    pub fn delete(&mut self, queue: QueueId, connection: usize, cx: &mut Cx<'_>) {
        self.forget(queue);
        let ticket = cx.tickets.insert(TicketOwner::Gate(connection)).map(Ticket);
        self.deletions.extend(ticket);
        // Without a number for a ticket, nobody hears that the queue is deleted.
        let ticket = ticket.unwrap_or(Ticket(unassigned(cx.shard)));
        cx.post.request(queue, Request::Delete { ticket, if_unused: false, if_empty: false });
    }

    /// Deletes all exclusive queues of the connection. `connection` is the key of the connection on its
    /// shard.
    pub fn delete_all(&mut self, connection: usize, cx: &mut Cx<'_>) {
        for queue in std::mem::take(&mut self.queues) {
            self.delete(queue, connection, cx);
        }
    }

    /// Returns the number of deletions that are not answered yet.
    pub fn deletions(&self) -> usize {
        self.deletions.len()
    }

    /// Takes the answer to a ticket. Returns false if the ticket is not that of a deletion. If it returns true, the
    /// caller calls [`OwnQueues::poll_answers`].
    pub fn handle_ticket(&mut self, ticket: Ticket) -> bool {
        let at = self.deletions.iter().position(|deletion| *deletion == ticket);
        at.map(|at| self.deletions.swap_remove(at)).is_some()
    }

    /// Holds an answer if more than `before` deletions are in flight, or if an answer waits for which `first` is true. Otherwise
    /// returns it. A held answer leaves with [`OwnQueues::poll_answers`], also when the deadline has passed already.
    pub fn hold(&mut self, answer: F, before: usize, first: impl Fn(&F) -> bool, now_ms: u64) -> Option<F> {
        if self.deletions() > before || self.answers.iter().any(first) {
            self.start_deadline(now_ms);
            self.answers.push(answer);
            return None;
        }
        Some(answer)
    }

    /// Removes answers that nobody waits for any more.
    pub fn drop_answers(&mut self, dropped: impl Fn(&F) -> bool) {
        self.answers.retain(|answer| !dropped(answer));
    }

    /// Returns the answers that may leave now, in their order.
    pub fn poll_answers(&mut self, now_ms: u64) -> Vec<F> {
        match self.deletions.is_empty() || self.is_late(now_ms) {
            true => std::mem::take(&mut self.answers),
            false => Vec::new(),
        }
    }

    /// Returns true if an answer waits for deletions.
    pub fn holds_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Called when an answer of the connection begins to wait. Starts a deadline, unless there is one that has not passed, or that has
    /// passed less than [`ANSWER_WAIT_MS`] ago.
    pub fn start_deadline(&mut self, now_ms: u64) {
        let current = self.deadline_ms.filter(|deadline_ms| now_ms < deadline_ms + ANSWER_WAIT_MS);
        self.deadline_ms = current.or(Some(now_ms + ANSWER_WAIT_MS));
    }

    /// Returns when the answers of the connection are sent in any case.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.deadline_ms
    }

    /// Returns true if answers wait no longer.
    pub fn is_late(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms)
    }

    /// Called when no outcome is missing. If no deletion is in flight either, removes the deadline: there is nothing to wait for.
    /// The next answer that waits starts a new one.
    pub fn end_deadline(&mut self) {
        if self.deletions.is_empty() {
            self.deadline_ms = None;
        }
    }

    /// Returns true if no deletion is in flight and no answer waits.
    pub fn is_idle(&self) -> bool {
        self.deletions.is_empty() && self.answers.is_empty()
    }

    /// Called when the socket is closed, so that nobody waits for answers any more.
    pub fn give_up(&mut self) {
        self.deletions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_queues_of_its_own_allocates_nothing() {
        let mut own = OwnQueues::<[u64; 4]>::default();
        own.forget(QueueId(7));
        let capacity = |own: &OwnQueues<[u64; 4]>| {
            own.queues.capacity() + own.deletions.capacity() + own.answers.capacity()
        };
        assert_eq!(capacity(&own), 0);
        own.add(QueueId(7));
        assert!(capacity(&own) > 0, "the first exclusive queue needs memory");
    }
}
