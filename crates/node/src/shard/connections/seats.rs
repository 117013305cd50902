//! The seats of other nodes on this shard: their consumers, publishers and tickets ([`SeatKey`]), and the mail for them.
//!
//! `shard::remote` calls [`Shard::open_seat`] and `add_seat_*` for what the other node opens, and [`Shard::handle_seat_requests`] for its requests. After each turn it takes the mail with
//! [`Shard::poll_seat`], and translates the ids in it. [`Shard::end_seat`] has the consequences of a connection that closes.

use std::collections::{BTreeMap, BTreeSet};

use broker::mail::{ConsumerAddress, PublisherAddress, SeatKey, SeatMail, TicketOwner};
use catalog::ids::QueueId;
use hashbrown::HashMap;
use queue::{ConsumerId, DeliveryRef, Effect, PublisherId, Request, Ticket};

use super::Connections;
use crate::shard::Shard;

/// What another node has here. The sets are ordered, so that what ends with a seat ends in the order of its registration.
#[derive(Debug, Default)]
struct Seat {
    /// The consumers, and the holders of fetched messages, each with its queue.
    consumers: BTreeMap<ConsumerId, QueueId>,
    publishers: BTreeSet<PublisherId>,
    /// The requests that are not answered yet.
    tickets: BTreeSet<Ticket>,
    /// What was not taken yet.
    outbox: Vec<SeatMail>,
}

/// The seats of a shard; see the module.
#[derive(Debug, Default)]
pub(super) struct Seats {
    by_key: HashMap<SeatKey, Seat>,
    /// Those that have got mail since it was last taken, each once.
    with_mail: Vec<SeatKey>,
}

impl Seats {
    /// Adds a delivery to the mail for a seat.
    #[cold]
    pub(super) fn deliver(&mut self, seat: SeatKey, lent: DeliveryRef<'_>) {
        self.pass(seat, SeatMail::Effect(Effect::Delivery(lent.to_delivery())));
    }

    /// Adds mail for a seat. For one that has ended, it is dropped.
    fn pass(&mut self, key: SeatKey, mail: SeatMail) {
        if let Some(seat) = self.by_key.get_mut(&key) {
            if seat.outbox.is_empty() {
                self.with_mail.push(key);
            }
            seat.outbox.push(mail);
        }
    }
}

impl Connections {
    /// Adds mail for a consumer or a publisher of a seat.
    pub(in crate::shard) fn pass_to_seat(&mut self, seat: SeatKey, mail: SeatMail) {
        self.seats.pass(seat, mail);
    }

    /// Adds the answer to a ticket, which ends the ticket.
    pub(in crate::shard) fn answer_seat(&mut self, key: SeatKey, ticket: Ticket, answer: SeatMail) {
        self.remove_ticket(ticket);
        if let Some(seat) = self.seats.by_key.get_mut(&key) {
            seat.tickets.remove(&ticket);
        }
        self.seats.pass(key, answer);
    }

    /// Returns the seats that have got mail since the last call.
    pub(in crate::shard) fn take_seats_with_mail(&mut self) -> Vec<SeatKey> {
        std::mem::take(&mut self.seats.with_mail)
    }
}

impl Shard {
    /// Adds the seat of a new link.
    pub fn open_seat(&mut self, key: SeatKey) {
        self.connections.seats.by_key.entry(key).or_default();
    }

    /// Registers a consumer of this queue, or a holder of messages that are fetched from it. Returns `None` if the seat has ended or
    /// the shard cannot register any more. So do the other two.
    pub fn add_seat_consumer(&mut self, key: SeatKey, queue: QueueId) -> Option<ConsumerId> {
        let seat = self.connections.seats.by_key.get_mut(&key)?;
        let consumer = ConsumerId(self.connections.shared.consumers.insert(ConsumerAddress::Seat(key))?);
        seat.consumers.insert(consumer, queue);
        Some(consumer)
    }

    /// Registers a publisher.
    pub fn add_seat_publisher(&mut self, key: SeatKey) -> Option<PublisherId> {
        let seat = self.connections.seats.by_key.get_mut(&key)?;
        let publisher = PublisherId(self.connections.shared.publishers.insert(PublisherAddress::Seat(key))?);
        seat.publishers.insert(publisher);
        Some(publisher)
    }

    /// Registers a ticket. Its answer ends it.
    pub fn add_seat_ticket(&mut self, key: SeatKey) -> Option<Ticket> {
        let seat = self.connections.seats.by_key.get_mut(&key)?;
        let ticket = Ticket(self.connections.shared.tickets.insert(TicketOwner::Seat(key))?);
        seat.tickets.insert(ticket);
        Some(ticket)
    }

    /// Forgets a consumer or a holder that has ended at its queue.
    pub fn forget_seat_consumer(&mut self, key: SeatKey, consumer: ConsumerId) {
        let seat = self.connections.seats.by_key.get_mut(&key);
        if seat.is_some_and(|seat| seat.consumers.remove(&consumer).is_some()) {
            self.connections.shared.consumers.remove(consumer.0);
        }
    }

    /// Forgets a ticket that nobody waits for any more.
    pub fn forget_seat_ticket(&mut self, key: SeatKey, ticket: Ticket) {
        let seat = self.connections.seats.by_key.get_mut(&key);
        if seat.is_some_and(|seat| seat.tickets.remove(&ticket)) {
            self.connections.remove_ticket(ticket);
        }
    }

    /// Takes in requests of consumers, publishers and tickets of seats. The next turn sends them to their queues, in this order.
    pub fn handle_seat_requests(&mut self, requests: impl IntoIterator<Item = (QueueId, Request)>) {
        self.mail.post.requests.extend(requests);
    }

    /// Takes the mail for a seat, in the order in which it was sent.
    pub fn poll_seat(&mut self, key: SeatKey) -> Vec<SeatMail> {
        self.connections
            .seats
            .by_key
            .get_mut(&key)
            .map(|seat| std::mem::take(&mut seat.outbox))
            .unwrap_or_default()
    }

    /// Ends a seat. What it holds unsettled returns to the queues, and nothing more is sent to it. `failed` raises the delivery counts.
    pub fn end_seat(&mut self, key: SeatKey, failed: bool) {
        let Some(seat) = self.connections.seats.by_key.remove(&key) else { return };
        for (consumer, queue) in seat.consumers {
            self.connections.shared.consumers.remove(consumer.0);
            self.mail.post.request(queue, Request::Detach { consumer, failed });
        }
        seat.publishers.into_iter().for_each(|publisher| self.connections.remove_publisher(publisher));
        seat.tickets.into_iter().for_each(|ticket| self.connections.remove_ticket(ticket));
    }
}
