//! What ends while the other node is away, and with a session.

use std::collections::VecDeque;

use catalog::ids::QueueId;
use queue::{ConsumerId, Effect, GoneReason, Request, Requester, Ticket, Verdict};

use super::{Consumer, Near, Unsent};
use crate::item::Ask;
#[cfg(debug_assertions)]
use crate::mutation::{Mutation, has};
use crate::publishes::Row;
use crate::session::Session;

impl Near {
    /// Ends what waits for an answer and is not in doubt for longer than a client should wait.
    pub(super) fn refuse_unsent(&mut self) {
        let mut left = VecDeque::new();
        for item in std::mem::take(&mut self.unsent) {
            match item {
                Unsent::Publish(number) => match self.publishes.get_mut(number) {
                    Some(row) if row.is_in_doubt => left.push_back(item),
                    _ => {
                        if let Some(row) = self.publishes.take(number) {
                            self.refuse_publish(&row.kept);
                        }
                    }
                },
                Unsent::Ask(Ask::Request { queue, request }) => match &request {
                    Request::Attach(queue::Attach { consumer, .. }) => {
                        self.consumers.remove(consumer);
                        self.refuse(queue, Requester::Consumer(*consumer), self.out_of_reach());
                    }
                    Request::Fetch { ticket, .. }
                    | Request::Browse { ticket, .. }
                    | Request::Purge { ticket }
                    | Request::Delete { ticket, .. }
                    | Request::Report { ticket } => {
                        if let Request::Fetch { holder, .. } = &request
                            && self.consumers.get(holder).is_some_and(|holder| !holder.is_sent)
                        {
                            self.consumers.remove(holder);
                        }
                        if let Some((queue, asked)) = self.tickets.remove(ticket) {
                            self.refuse_ticket(queue, *ticket, asked, false);
                        }
                    }
                    _ => left.push_back(Unsent::Ask(Ask::Request { queue, request })),
                },
                Unsent::Ask(Ask::Probe { ticket, .. }) => {
                    self.tickets.remove(&ticket);
                    self.refuse(QueueId::NONE, Requester::Ticket(ticket), self.out_of_reach());
                }
                Unsent::Ask(ask) => left.push_back(Unsent::Ask(ask)),
            }
        }
        self.unsent = left;
        #[cfg(debug_assertions)]
        if has(Mutation::RefuseSent) {
            std::mem::take(&mut self.publishes).into_rows().for_each(|row| self.refuse_publish(&row.kept));
        }
        self.end_tickets();
        self.end_waiting_consumers();
    }

    /// Answers all tickets.
    pub(super) fn end_tickets(&mut self) {
        #[cfg(debug_assertions)]
        if has(Mutation::ForgetTickets) {
            return;
        }
        let mut tickets: Vec<_> = self.tickets.drain().collect();
        tickets.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (ticket, (queue, asked)) in tickets {
            self.refuse_ticket(queue, ticket, asked, true);
        }
    }

    /// Returns the consumers for which this holds, in the order of their ids.
    fn consumers_that(&self, is_one: impl Fn(&Consumer) -> bool) -> Vec<ConsumerId> {
        let those = self.consumers.iter().filter(|(_, consumer)| is_one(consumer));
        let mut those: Vec<ConsumerId> = those.map(|(id, _)| *id).collect();
        those.sort_unstable();
        those
    }

    /// Answers consumers whose Attach, Cancel or Detach was sent.
    fn end_waiting_consumers(&mut self) {
        for id in
            self.consumers_that(|consumer| consumer.attaches || consumer.cancels > 0 || consumer.detaches)
        {
            let Some(consumer) = self.consumers.get_mut(&id) else { continue };
            let queue = consumer.queue;
            let cancels = std::mem::take(&mut consumer.cancels);
            let (attaches, detaches) = (consumer.attaches, consumer.detaches);
            if attaches {
                self.consumers.remove(&id);
                self.refuse(queue, Requester::Consumer(id), self.out_of_reach());
                if !detaches {
                    // The other node may have attached it, or may do so later.
                    let request = Request::Detach { consumer: id, failed: false };
                    self.push(Unsent::Ask(Ask::Request { queue, request }));
                }
                continue;
            }
            for _ in 0..cancels {
                self.tell(queue, Effect::Gone { consumer: id, reason: GoneReason::Cancelled });
            }
            if detaches {
                self.remove_consumer(id, GoneReason::Detached);
            }
        }
    }

    /// Ends the session: the other node knows nothing of it. What was not sent goes over the next one. Publishes that were sent may be stored. If the
    /// other node has started again they are sent again, because nobody else can answer them; otherwise their publishers are told that nobody knows.
    pub(super) fn end(&mut self, has_started_again: bool) {
        #[cfg(debug_assertions)]
        if has(Mutation::KeepSession) && has_started_again {
            self.id.session += 1;
            self.peer_boot = None;
            self.session = Session::default();
            return;
        }
        let unsent = std::mem::take(&mut self.unsent);
        let mut publishes = std::mem::take(&mut self.publishes);
        self.id.session += 1;
        self.peer_boot = None;
        self.session = Session::default();
        self.frames.clear();
        self.away_since = self.away_since.or(Some(self.now_ms));

        let mut rows: Vec<Option<Row>> = Vec::new();
        for item in &unsent {
            rows.push(match item {
                Unsent::Publish(number) => publishes.take(*number),
                Unsent::Ask(_) => None,
            });
        }
        for row in publishes.into_rows() {
            #[cfg(debug_assertions)]
            if has(Mutation::ForgetInDoubt) && has_started_again {
                continue;
            }
            self.add_or_give_up(row, has_started_again);
        }
        let reason = GoneReason::OutOfReach { node: Some(self.peer) };
        self.consumers_that(|consumer| consumer.is_sent)
            .into_iter()
            .for_each(|id| self.remove_consumer(id, reason));
        let mut asked = std::mem::take(&mut self.tickets);
        for (item, row) in unsent.into_iter().zip(rows) {
            match (item, row) {
                (_, Some(row)) => self.add_or_give_up(row, has_started_again),
                (Unsent::Ask(ask), None) if self.is_still_asked(&ask) => {
                    if let Some(ticket) = ticket_of(&ask)
                        && let Some(of) = asked.remove(&ticket)
                    {
                        self.tickets.insert(ticket, of);
                    }
                    self.push(Unsent::Ask(ask));
                }
                (Unsent::Ask(_) | Unsent::Publish(_), None) => {}
            }
        }
        let still_asked = std::mem::replace(&mut self.tickets, asked);
        self.end_tickets();
        self.tickets = still_asked;
    }

    /// Adds a publish of a session that has ended to the next one. Tells its publisher that nobody knows the outcome if it was sent and the other node
    /// has not started again: then it may be stored, and would be stored twice.
    fn add_or_give_up(&mut self, row: Row, has_started_again: bool) {
        match row.is_in_doubt && !has_started_again {
            true => self.tell_receipt(&row.kept, Verdict::Unknown),
            false => self.add_publish(row),
        }
    }

    /// Returns false if nobody waits any more for what an item that was not sent would do.
    fn is_still_asked(&self, ask: &Ask) -> bool {
        let Ask::Request { request, .. } = ask else { return true };
        match request {
            Request::Attach(queue::Attach { consumer, .. })
            | Request::Cancel { consumer }
            | Request::Detach { consumer, .. }
            | Request::Grant { consumer, .. }
            | Request::Resume { consumer, .. }
            | Request::Settle { consumer, .. }
            | Request::Fetch { holder: consumer, .. } => self.consumers.contains_key(consumer),
            Request::CancelBrowse { .. } | Request::Use => false,
            _ => true,
        }
    }
}

/// Returns the ticket of a request that has one.
fn ticket_of(ask: &Ask) -> Option<Ticket> {
    match ask {
        Ask::Probe { ticket, .. } => Some(*ticket),
        Ask::Request { request, .. } => match request {
            Request::Fetch { ticket, .. }
            | Request::Browse { ticket, .. }
            | Request::Purge { ticket }
            | Request::Delete { ticket, .. }
            | Request::Report { ticket } => Some(*ticket),
            _ => None,
        },
        Ask::Publish { .. } | Ask::Reply { .. } => None,
    }
}
