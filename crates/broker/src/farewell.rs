//! Queues that go with a connection, and answers that wait until these queues are gone (house.md section 5, "Topology").
//!
//! A peer that is told that its link or its connection has ended may declare a queue of the same name at once. So the queues
//! that end with the link are deleted first.

use queue::{Request, Ticket};

use crate::cx::Cx;
use crate::ids::QueueId;
use crate::mail::TicketOwner;

/// The queues of one connection. `F` is what a gate remembers of an answer that waits.
#[derive(Debug)]
pub struct OwnQueues<F> {
    /// Exclusive queues that no link has: they go with the connection.
    queues: Vec<QueueId>,
    /// Deletions that are not answered.
    deletions: Vec<Ticket>,
    farewells: Vec<F>,
}

impl<F> Default for OwnQueues<F> {
    fn default() -> Self {
        Self { queues: Vec::new(), deletions: Vec::new(), farewells: Vec::new() }
    }
}

impl<F> OwnQueues<F> {
    /// Notes a queue that goes with the connection.
    pub fn add(&mut self, queue: QueueId) {
        self.queues.push(queue);
    }

    /// Forgets a queue: it is deleted already, or goes with something else.
    pub fn forget(&mut self, queue: QueueId) {
        self.queues.retain(|own| *own != queue);
    }

    /// Deletes a queue of the connection with this key.
    pub fn delete(&mut self, queue: QueueId, connection: usize, cx: &mut Cx<'_>) {
        self.forget(queue);
        if let Some(ticket) = cx.tickets.insert(TicketOwner::Connection(connection)).map(Ticket) {
            self.deletions.push(ticket);
            cx.post.request(queue, Request::Delete { ticket, if_unused: false, if_empty: false });
        }
    }

    /// Deletes all queues of the connection with this key.
    pub fn delete_all(&mut self, connection: usize, cx: &mut Cx<'_>) {
        for queue in std::mem::take(&mut self.queues) {
            self.delete(queue, connection, cx);
        }
    }

    /// Deletions that are not answered.
    pub fn deletions(&self) -> usize {
        self.deletions.len()
    }

    /// Takes the answer to a ticket. Returns false if the ticket is not that of a deletion. Otherwise ask for
    /// [`OwnQueues::poll_farewells`].
    pub fn handle_ticket(&mut self, ticket: Ticket) -> bool {
        let at = self.deletions.iter().position(|deletion| *deletion == ticket);
        at.map(|at| self.deletions.swap_remove(at)).is_some()
    }

    /// Keeps an answer until the deletions are done that have begun since there were `before`. It is also kept while another
    /// answer waits that must leave `first`. Returns the answer if nothing holds it.
    pub fn hold(&mut self, farewell: F, before: usize, first: impl Fn(&F) -> bool) -> Option<F> {
        if self.deletions() > before || self.farewells.iter().any(first) {
            self.farewells.push(farewell);
            return None;
        }
        Some(farewell)
    }

    /// Forgets answers that nobody waits for any more.
    pub fn drop_farewells(&mut self, dropped: impl Fn(&F) -> bool) {
        self.farewells.retain(|farewell| !dropped(farewell));
    }

    /// Returns the answers that may leave now, in their order.
    pub fn poll_farewells(&mut self) -> Vec<F> {
        if self.deletions.is_empty() { std::mem::take(&mut self.farewells) } else { Vec::new() }
    }

    /// Whether nothing is being deleted and no answer waits.
    pub fn is_idle(&self) -> bool {
        self.deletions.is_empty() && self.farewells.is_empty()
    }

    /// The socket is gone: nobody waits for an answer any more.
    pub fn give_up(&mut self) {
        self.deletions.clear();
    }
}
