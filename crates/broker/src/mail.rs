//! What travels between gates, queues and the catalog, on one shard and between shards.
//!
//! Mail never blocks and is never refused. Each kind is bounded by what paid for it, as said beside it.

use std::sync::Arc;

use message::Message;
use queue::{ConsumerId, Effect, Publish, PublisherId, Request, Ticket, Verdict};

use crate::access::Login;
use crate::catalog::{Answer, CatalogError, Change, Command, Exchange, RouteTarget, history_length};
use crate::ids::{QueueId, ShardId};
use crate::reply_to::ReplyTo;

/// One piece of mail.
#[derive(Debug)]
pub enum Mail {
    /// For queues' machines, in the order in which it was sent. Publishes are bounded by link credit, grants by one in
    /// flight per consumer, settlements by the deliveries granted, the rest by the requests in flight of their links.
    Requests(Vec<(QueueId, Request)>),
    /// For a link that takes replies. Publishes are bounded by link credit, questions by links being attached
    /// and by management credit.
    Direct { to: ReplyTo, vhost: Arc<str>, request: Direct },
    /// From a queue, for one consumer or ticket. Bounded by grants and by requests.
    Effect { queue: QueueId, effect: Effect },
    /// From a queue, for one publisher: what became of `first..=last`. Bounded by link credit.
    Receipts { queue: QueueId, publisher: PublisherId, first: u64, last: u64, verdict: Verdict },
    /// For the shard that decides. Bounded by management credit and dynamic links.
    Propose { ticket: Option<Ticket>, from: ShardId, command: Command },
    /// From the shard that decides: changes to apply in their order. Bounded by proposals.
    Changes { version: u64, changes: Arc<[Change]> },
    /// For the shard that decides: a queue without a home is to live there. Bounded by queues without a home.
    Place { queue: QueueId, home: ShardId },
    /// From the shard that decides, behind the change that declares the queue: placement number `version`.
    Placed { version: u64, queue: QueueId, home: ShardId },
    /// All changes up to `version` are applied there.
    Applied { version: u64, by: ShardId },
    /// For the shard that decides: most of the log seems to be garbage. Its bytes, its oldest file, one that is as
    /// new as any that was heard of, and whether the disk is full. One for each handover that was written.
    LogFull { bytes: u64, oldest: u64, newest: u64, short: bool },
    /// From the shard that decides: write once more what is alive in the files of the log up to this one.
    /// One at a time.
    Evacuate { file: u64 },
    /// It is written there, and took so many bytes.
    Evacuated { file: u64, bytes: u64 },
    /// For the shard that decides: keep these for whoever binds to the exchange later, oldest first. Bounded by
    /// twice the length of the history per exchange and turn.
    Remember { exchange: Arc<Exchange>, messages: Vec<Message> },
    /// The node holds too much of deliveries whose end has not come, and a connection of that shard the most. One for
    /// each step by which a shard's part grows.
    ShedUnfinished,
    /// What came of a proposal.
    Answer { ticket: Ticket, result: Result<Answer, CatalogError> },
}

/// What is asked of a link that takes replies.
#[derive(Debug)]
pub enum Direct {
    /// Deliver it if there is credit, else drop and count it. Answered by one accepting receipt.
    Publish(Publish),
    /// Whether the link is there. Answered by [`Effect::Report`] with its one consumer, or [`Effect::Refused`].
    Probe(Ticket),
}

/// Where mail for a consumer or a publisher goes on its own shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateAddress {
    /// Key of the connection on the shard.
    pub connection: usize,
    /// Which of the connection's consumers or publishers. Only the connection's gate understands this number.
    pub place: u64,
}

/// Who waits for receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublisherAddress {
    Gate(GateAddress),
    /// A queue of this shard that has sent a message on its way out.
    DeadLetter(DeadLetterWait),
}

/// A dead letter under way to the queues of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterWait {
    pub queue: QueueId,
    pub token: u64,
    /// Queues that have not answered.
    pub left: u32,
    pub accepted: bool,
    /// One of them could not store it at the moment.
    pub unavailable: bool,
}

/// Who waits for the answer to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketOwner {
    /// By key of the connection on the shard.
    Connection(usize),
    /// The shard itself.
    Shard,
    /// Somebody at the desk.
    Desk,
}

/// Where mail is put. The shard sorts it: same shard and other shards use the same boxes and the same order.
#[derive(Debug, Default)]
pub struct Post {
    /// For queues on any shard, in the order in which it was sent.
    pub requests: Vec<(QueueId, Request)>,
    /// For links that take replies, on any shard.
    pub direct: Vec<(ReplyTo, Arc<str>, Direct)>,
    pub proposals: Vec<(Option<Ticket>, Command)>,
    /// Logins to be checked off the shard. At most one for each connection that has not logged in.
    pub logins: Vec<(Ticket, Login)>,
    /// Messages to be remembered, by exchange; of each at most twice what its history holds.
    pub remembered: Vec<(Arc<Exchange>, Vec<Message>)>,
}

impl Post {
    #[inline]
    pub fn request(&mut self, queue: QueueId, request: Request) {
        self.requests.push((queue, request));
    }

    /// Sends a message to one end of its route.
    pub fn publish(&mut self, vhost: &Arc<str>, target: RouteTarget, publish: Publish) {
        match target {
            RouteTarget::Queue(queue) => self.request(queue, Request::Publish(publish)),
            RouteTarget::Direct(to) => self.direct.push((to, vhost.clone(), Direct::Publish(publish))),
        }
    }

    /// Asks whether a link that takes replies is there.
    pub fn probe(&mut self, vhost: &Arc<str>, to: ReplyTo, ticket: Ticket) {
        self.direct.push((to, vhost.clone(), Direct::Probe(ticket)));
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.direct.is_empty()
            && self.proposals.is_empty()
            && self.remembered.is_empty()
    }

    pub fn remember(&mut self, exchange: &Arc<Exchange>, message: Message) {
        let known = self.remembered.iter_mut().find(|(e, _)| Arc::ptr_eq(e, exchange));
        match known {
            Some((_, messages)) => {
                // Twice the length before a shift, so that each message is moved once at most.
                let length = history_length(exchange);
                if messages.len() >= 2 * length {
                    messages.drain(..length);
                }
                messages.push(message);
            }
            None => self.remembered.push((exchange.clone(), vec![message])),
        }
    }

    pub fn propose(&mut self, ticket: Option<Ticket>, command: Command) {
        self.proposals.push((ticket, command));
    }
}

/// Whom an effect is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    Consumer(ConsumerId),
    Ticket(Ticket),
    /// The readers of the queue on this shard.
    Readers(ShardId),
    /// The shard on which the queue lives.
    Home,
}

/// Reads the address off an effect.
pub fn recipient(effect: &Effect) -> Recipient {
    match effect {
        Effect::Attached { consumer, .. }
        | Effect::Gone { consumer, .. }
        | Effect::Active { consumer, .. }
        | Effect::CreditState { consumer, .. }
        | Effect::Settled { consumer, .. }
        | Effect::Revoked { consumer, .. } => Recipient::Consumer(*consumer),
        Effect::Refused { asked: queue::Asked::Consumer(consumer), .. } => Recipient::Consumer(*consumer),
        Effect::Refused { asked: queue::Asked::Ticket(ticket), .. } => Recipient::Ticket(*ticket),
        Effect::Delivery(delivery) => Recipient::Consumer(delivery.consumer),
        Effect::Fetched { ticket, .. } | Effect::Done { ticket, .. } | Effect::Report { ticket, .. } => {
            Recipient::Ticket(*ticket)
        }
        // A shard follows under its own number.
        Effect::News { follower, .. } => Recipient::Readers(follower.0 as ShardId),
        Effect::DeadLetter { .. } | Effect::Deleted { .. } => Recipient::Home,
    }
}
