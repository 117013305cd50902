//! Mail between gates, queues and the catalog, on one shard and between shards.
//!
//! Mail never blocks and is never refused. Each kind of mail is bounded, as its comment says.

use std::sync::Arc;

use bytes::Bytes;
use catalog::access::{Login, Question, Remote};
use catalog::ids::{NodeNumber, Origin, QueueId, ShardId};
use catalog::reply_to::ReplyTo;
use catalog::{Answer, Catalog, CatalogError, Command, Entry, Exchange, RouteTarget, history_length};
use message::Message;
use queue::{Arrival, ConsumerId, Effect, Publish, PublisherId, RejectReason, Request, Ticket, Verdict};

use crate::client_budget::ClientBudget;
use crate::ids::Where;
use crate::moving::MoveWait;
use crate::notices::Outbox;

/// One piece of mail.
#[derive(Debug)]
pub enum Mail {
    /// Requests for the machines of queues, in the order in which they were sent. Publishes are bounded by
    /// link credit, grants by one in flight per consumer, settlements by the granted deliveries, and the
    /// others by the requests in flight of their links.
    Requests(Vec<(QueueId, Request)>),
    /// A request for a link that takes replies. Publishes are bounded by link credit, probes by the links
    /// that are attaching and by management credit.
    Direct { to: ReplyTo, vhost: Arc<str>, request: Direct },
    /// An effect of a queue for one consumer or ticket. Bounded by grants and by requests.
    Effect { queue: QueueId, effect: Effect },
    /// A queue's verdict on the publishes `first..=last` of one publisher. Bounded by link credit.
    Receipts { queue: QueueId, publisher: PublisherId, first: u64, last: u64, verdict: Verdict },
    /// A command on its way to where changes are decided. Bounded by management credit, by dynamic links, and by
    /// the queues that have ended: each proposes its end, and again after a pause, at most 100 of a shard at once.
    Propose(Proposal),
    /// A committed change. Every shard applies all entries in their order. Bounded by proposals.
    Entry(Arc<Entry>),
    /// The catalog of another node, which replaces that of every shard: it has applied all entries up to `index`. One at a time.
    Installed { catalog: Arc<Catalog>, index: u64 },
    /// For the node shard ([`NODE_SHARD`](crate::ids::NODE_SHARD)): `home` should become the home of a queue that has none. Bounded by the queues
    /// without a home.
    Place { queue: QueueId, home: ShardId },
    /// From the node shard, after the change that declares the queue: placement number `version`.
    Placed { version: u64, queue: QueueId, home: Where },
    /// For the node shard: the shard `by` has applied all entries up to `index`.
    Applied { index: u64, by: ShardId },
    /// For the node shard: the Raft groups of these queues were founded, and the log has their bases. Bounded by the declarations of quorum
    /// queues.
    Founded { queues: Vec<QueueId> },
    /// For the node shard: most of the log seems to be garbage. Contains the size of the log in bytes, its oldest
    /// file, the newest file known to the sender, and whether the disk is full. One for each handover that was
    /// written.
    LogFull { bytes: u64, oldest: u64, newest: u64, on_reserve: bool },
    /// From the node shard: evacuate the log files up to this one, which means to write their live records again.
    /// One at a time.
    Evacuate { file: u64 },
    /// The sender has written its part of the evacuation, which took `bytes` bytes.
    Evacuated { file: u64, bytes: u64 },
    /// For the node shard: keep these messages, oldest first, for destinations that are bound to the exchange
    /// later. Bounded by twice the length of the history per exchange and turn (iteration of the shard's event loop).
    Remember { exchange: Arc<Exchange>, messages: Vec<Message> },
    /// The clients of the node exceed this budget, and the connection that must be closed is on the receiving shard. One for
    /// each step by which a shard's part grows.
    Shed(ClientBudget),
    /// For the node shard: something was not found, and the node may lack entries of the catalog. The ticket is told when it has caught up.
    /// At most one for each connection, management pair and question of the admin API.
    Miss(Ticket),
    /// For the shard of the ticket: the node has all entries that were answered when it was missed, or cannot get them soon.
    CaughtUp(Ticket),
    /// A look of another node at the receiving shard, as it came. The other node bounds those that are not answered.
    LookOf { node: NodeNumber, look: Bytes },
    /// The result of a proposal.
    Answer { ticket: Ticket, result: Result<Answer, CatalogError> },
}

/// A command, and who asks for it.
#[derive(Debug)]
pub struct Proposal {
    /// Where the answer goes. With `None` no answer is sent.
    pub ticket: Option<Ticket>,
    /// The user who asks for it, if the broker knows that and events are on.
    pub by: Option<Arc<str>>,
    /// The shard on which it was proposed.
    pub from: ShardId,
    pub command: Command,
}

/// A request to a link that takes replies.
#[derive(Debug)]
pub enum Direct {
    /// Delivers the message if there is credit; otherwise drops and counts it. Answered by one accepting receipt.
    Publish(Publish),
    /// Asks whether the link exists. Answered by [`Effect::Report`] with its one consumer, or [`Effect::Refused`].
    Probe(Ticket),
}

/// The address of a consumer or a publisher of a client, on its own shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateAddress {
    /// The key of the connection on the shard.
    pub connection: usize,
    /// Identifies a consumer or a publisher of the connection. Only the gate of the connection understands this
    /// number.
    pub place: u64,
}

/// A seat: the place of another node on a shard of this one. It belongs to one link between the two nodes.
///
/// The ids of consumers, publishers and tickets never leave their node ([`crate::ids`]). So the shard that a link leads to registers
/// those of the other node here, with ids of its own, under the key of the link's seat. To queues they are like those of a client.
/// What queues send to them is collected for the link, which knows them by the numbers that the other node has given them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeatKey {
    /// The other node, and the start of it. What the node had before another start has ended.
    pub origin: Origin,
    /// The number of the link among those that this start of the node has opened. It counts up: a link that was lost has ended its
    /// seat, and the next one gets another.
    pub link: u32,
}

/// What a shard sends to another node over the link of a seat.
#[derive(Debug)]
pub enum SeatMail {
    /// For a consumer or a ticket. Bounded as an effect for a gate is: by grants and by requests.
    Effect(Effect),
    /// The verdict of a queue on the publishes `first..=last` of a publisher. Bounded by the publisher's credit.
    Receipts { queue: QueueId, publisher: PublisherId, first: u64, last: u64, verdict: Verdict },
}

/// The receiver of the effects for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerAddress {
    Gate(GateAddress),
    Seat(SeatKey),
}

/// The receiver of receipts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublisherAddress {
    Gate(GateAddress),
    Seat(SeatKey),
    /// A queue of this shard that has sent a dead letter. Boxed because most publishers are gates.
    DeadLetter(Box<DeadLetterWait>),
    /// A batch of messages that are moved, which the admin API has sent.
    Moves(Box<MoveWait>),
    /// The shard itself, which publishes notices.
    Notices,
}

/// A dead letter in flight to the queues of its route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterWait {
    pub queue: QueueId,
    pub token: u64,
    /// The number of queues that have not answered yet.
    pub left: u32,
    pub accepted: bool,
    /// The queues that have taken the dead letter. Filled only if it is kept until all of them have.
    pub taken_by: Option<Vec<u64>>,
    /// True if one of the queues does not take the dead letter.
    pub refused: bool,
    /// True if one of the queues could not store the dead letter at the moment.
    pub unavailable: bool,
}

impl DeadLetterWait {
    /// Returns the wait for the answers of `left` queues. `keeps` says that the dead letter is kept until all of them have
    /// taken it.
    pub fn new(queue: QueueId, token: u64, left: u32, keeps: bool) -> Self {
        let taken_by = keeps.then(Vec::new);
        Self { queue, token, left, accepted: false, taken_by, refused: false, unavailable: false }
    }

    /// Handles the answer of one queue.
    pub fn handle_receipt(&mut self, queue: QueueId, verdict: Verdict) {
        self.left = self.left.saturating_sub(1);
        match verdict {
            Verdict::Accepted => {
                self.accepted = true;
                self.taken_by.iter_mut().for_each(|taken_by| taken_by.push(queue.0));
            }
            // Sent again: if nobody knows the outcome, the dead letter may arrive twice, and is not lost.
            Verdict::Rejected(
                RejectReason::Unavailable | RejectReason::NoLeader | RejectReason::OutOfReach,
            )
            | Verdict::Unknown => self.unavailable = true,
            Verdict::Rejected(_) => self.refused = true,
            // The queue was deleted, so nobody misses the message there.
            Verdict::Released => {}
        }
    }

    /// Returns what to tell the queue after all answers.
    pub fn arrival(&self) -> Arrival {
        let is_done = match self.taken_by {
            Some(_) => self.accepted && !self.refused && !self.unavailable,
            None => self.accepted,
        };
        match (is_done, self.unavailable) {
            (true, _) => Arrival::Taken,
            (false, true) => Arrival::Unavailable,
            (false, false) => Arrival::Refused,
        }
    }
}

/// The receiver of the answer to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketOwner {
    /// The gate of a connection, by the connection's key on the shard.
    Gate(usize),
    Seat(SeatKey),
    /// The shard itself, on which this queue has ended.
    Ended(QueueId),
    /// A question of the admin API.
    AdminApi,
}

/// The outgoing mail. The shard sorts it. Mail for the same shard and for other shards uses the same boxes and the
/// same order.
#[derive(Debug, Default)]
pub struct Post {
    /// Requests for queues on any shard, in the order in which they were sent.
    pub requests: Vec<(QueueId, Request)>,
    /// Requests for links that take replies, on any shard.
    pub direct: Vec<(ReplyTo, Arc<str>, Direct)>,
    /// Commands for the deciding shard, each with the user who asks for it if that is no client of the ticket.
    pub proposals: Vec<(Option<Ticket>, Option<Arc<str>>, Command)>,
    /// Logins to be checked outside the shard. At most one for each connection that has not logged in.
    pub logins: Vec<(Ticket, Login)>,
    /// What was not found although another node may have it: the tickets that wait until this node has caught up, some with a login whose
    /// user is not known. At most one for each connection, management pair and question of the admin API.
    pub unsure: Vec<(Ticket, Option<Login>)>,
    /// Questions about permissions that somebody else decides. At most one for each connection and each management pair.
    pub permissions: Vec<(Ticket, Arc<Remote>, Box<Question>)>,
    /// Messages to be kept, by exchange: at most twice the length of each history.
    pub remembered: Vec<(Arc<Exchange>, Vec<Message>)>,
    /// The messages that the broker itself publishes.
    pub notices: Outbox,
}

impl Post {
    #[inline]
    pub fn request(&mut self, queue: QueueId, request: Request) {
        self.requests.push((queue, request));
    }

    /// Sends a message to one target of its route.
    pub fn publish(&mut self, vhost: &Arc<str>, target: RouteTarget, publish: Publish) {
        match target {
            RouteTarget::Queue(queue) => self.request(queue, Request::Publish(publish)),
            RouteTarget::Direct(to) => self.direct.push((to, vhost.clone(), Direct::Publish(publish))),
        }
    }

    /// Asks whether a link that takes replies exists.
    pub fn probe(&mut self, vhost: &Arc<str>, to: ReplyTo, ticket: Ticket) {
        self.direct.push((to, vhost.clone(), Direct::Probe(ticket)));
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.direct.is_empty()
            && self.proposals.is_empty()
            && self.unsure.is_empty()
            && self.remembered.is_empty()
            && self.notices.is_idle()
    }

    pub fn remember(&mut self, exchange: &Arc<Exchange>, message: Message) {
        let known = self.remembered.iter_mut().find(|(e, _)| Arc::ptr_eq(e, exchange));
        match known {
            Some((_, messages)) => {
                // The list is shortened only at twice the length, so that each message is moved at most once.
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
        self.proposals.push((ticket, None, command));
    }

    /// Proposes a command for a user who is no client of a gate.
    pub fn propose_for(&mut self, by: Option<Arc<str>>, ticket: Ticket, command: Command) {
        self.proposals.push((Some(ticket), by, command));
    }
}

/// The receiver of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    Consumer(ConsumerId),
    Ticket(Ticket),
    /// The readers of the queue on this shard.
    Readers(ShardId),
    /// The shard that owns the queue (its home).
    Home,
}

/// Returns the receiver of an effect.
pub fn recipient(effect: &Effect) -> Recipient {
    match effect {
        Effect::Attached { consumer, .. }
        | Effect::Gone { consumer, .. }
        | Effect::Active { consumer, .. }
        | Effect::CreditState { consumer, .. }
        | Effect::Settled { consumer, .. }
        | Effect::Revoked { consumer, .. } => Recipient::Consumer(*consumer),
        Effect::Refused { requester: queue::Requester::Consumer(consumer), .. } => {
            Recipient::Consumer(*consumer)
        }
        Effect::Refused { requester: queue::Requester::Ticket(ticket), .. } => Recipient::Ticket(*ticket),
        Effect::Delivery(delivery) => Recipient::Consumer(delivery.consumer),
        Effect::Fetched { ticket, .. } | Effect::Done { ticket, .. } | Effect::Report { ticket, .. } => {
            Recipient::Ticket(*ticket)
        }
        // The number of a follower is the number of its shard, so it says which shard receives the update.
        Effect::StreamUpdate { follower, .. } => Recipient::Readers(follower.0 as ShardId),
        Effect::DeadLetter { .. } | Effect::Deleted { .. } => Recipient::Home,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A registry has an address for each consumer and publisher.
    #[test]
    fn an_address_takes_no_more_than_that_of_a_gate() {
        let tag = size_of::<u64>();
        assert_eq!(size_of::<ConsumerAddress>(), size_of::<GateAddress>() + tag);
        assert_eq!(size_of::<PublisherAddress>(), size_of::<GateAddress>() + tag);
        assert_eq!(size_of::<TicketOwner>(), size_of::<usize>() + tag);
    }
}
