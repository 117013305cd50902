//! Queues that are deleted with their connection, and the answers that wait for these deletions.
//!
//! A peer that hears that its link or connection has ended may declare a queue of the same name at once. So the queues
//! that end with the link are deleted before the answer.

use catalog::ids::QueueId;
use queue::{Request, Ticket};

use crate::cx::Cx;
use crate::mail::TicketOwner;

/// The exclusive queues of one connection. `F` is the type of an answer that waits until queues are deleted.
#[derive(Debug)]
pub struct OwnQueues<F> {
    /// The exclusive queues that belong to no link. They are deleted with the connection.
    queues: Vec<QueueId>,
    /// The tickets of deletions that are not answered yet.
    deletions: Vec<Ticket>,
    answers: Vec<F>,
}

impl<F> Default for OwnQueues<F> {
    fn default() -> Self {
        Self { queues: Vec::new(), deletions: Vec::new(), answers: Vec::new() }
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
        if let Some(ticket) = cx.tickets.insert(TicketOwner::Gate(connection)).map(Ticket) {
            self.deletions.push(ticket);
            cx.post.request(queue, Request::Delete { ticket, if_unused: false, if_empty: false });
        }
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

    /// Holds an answer as long as more than `before` deletions are in flight, or another answer waits for
    /// which `first` is true. Returns the answer if nothing holds it.
    pub fn hold(&mut self, answer: F, before: usize, first: impl Fn(&F) -> bool) -> Option<F> {
        if self.deletions() > before || self.answers.iter().any(first) {
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
    pub fn poll_answers(&mut self) -> Vec<F> {
        if self.deletions.is_empty() { std::mem::take(&mut self.answers) } else { Vec::new() }
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
