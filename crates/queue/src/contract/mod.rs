//! The message types between gates and queues (`docs/contract.md`). Gates send requests, and queues answer with
//! effects. A gate is the part of the broker that translates one protocol.
//!
//! The types are the same for every protocol and every driver. A request is answered only by the effects listed here.

mod config;
mod replay;

use std::sync::Arc;

use message::{Annotations, DeathReason, DeliveryMax, Message};
use ranges::{Range, Ranges, Span};

use crate::Lately;

pub use self::config::{
    Config, DeadLetter, DelayedRetry, Overflow, QueueType, QuorumConfig, RetryKind, StreamConfig,
};
pub use self::replay::{
    BloomFilter, Chunk, FILTER_VALUES_MAX, FilterValues, Follower, Replay, Retained, Start, StreamUpdate,
};

/// The id of a consumer of one queue. Ids are never reused, so a late message for a closed consumer cannot reach
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId(pub u64);

/// The id of a publisher in its receipts. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublisherId(pub u64);

/// The number by which an answer is matched to its request. The requester chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request to a queue.
#[derive(Debug)]
pub enum Request {
    /// Stores one message. It is covered by exactly one [`Receipt`].
    Publish(Publish),
    /// Adds a consumer. Answered by [`Effect::Attached`] or [`Effect::Refused`].
    Attach(Attach),
    /// Stops deliveries to the consumer. It may still settle its unsettled deliveries. Answered by [`Effect::Gone`].
    Cancel { consumer: ConsumerId },
    /// Removes the consumer and requeues its unsettled deliveries. With `failed`, their delivery count is raised.
    /// Answered by [`Effect::Gone`].
    Detach { consumer: ConsumerId, failed: bool },
    /// Sets the consumer's credit: `credit` deliveries counted from `delivery_count`. This replaces the previous grant.
    /// Both numbers wrap (RFC 1982). With `drain`, credit that cannot be used at once is used up. With `drain` or
    /// `echo`, one [`Effect::CreditState`] follows the deliveries.
    Grant { consumer: ConsumerId, delivery_count: u32, credit: u32, drain: bool, echo: bool },
    /// Serves the consumer again after [`Effect::Revoked`], because its peer has settled the deliveries that were taken back,
    /// too. `taken_back` is the number of all deliveries that were taken back so far. If the queue has taken back more, this
    /// has no effect. Not answered.
    Resume { consumer: ConsumerId, taken_back: u64 },
    /// Takes up to `n` messages without a consumer. Unless `settled`, they are held under `holder`, as for a cancelled
    /// consumer. The holder keeps its delivery numbers until its Detach. Answered by [`Effect::Fetched`].
    Fetch { ticket: Ticket, holder: ConsumerId, n: u32, settled: bool },
    /// Reads up to `n` messages of a stream from any position, without a consumer. Answered by [`Effect::Fetched`].
    Browse { ticket: Ticket, replay: Box<Replay>, n: u32 },
    /// Abandons a Browse: the requester no longer waits for the answer. Not answered.
    CancelBrowse { ticket: Ticket },
    /// Tells a stream how many of its consumers are at this follower. `None` ends the following. Answered by
    /// [`Effect::StreamUpdate`] when it starts, and whenever there is something new.
    Follow { follower: Follower, consumers: Option<u32> },
    /// Tells a stream that its messages are damaged from this offset on. It is closed from there on; see
    /// [`Retained::closed_from`]. Not answered.
    Close { from: u64 },
    /// Settles the consumer's deliveries `first..=last`, which are its own consecutive numbers. Unknown numbers are
    /// ignored. `answer` says when [`Effect::Settled`] follows.
    Settle { consumer: ConsumerId, first: u64, last: u64, outcome: Outcome, answer: SettleAnswer },
    /// Answers [`Effect::DeadLetter`] with the same token. `taken_by` are the targets that have taken the message, when it
    /// has to be sent again to others. Their numbers mean nothing to the queue.
    DeadLettered { token: u64, arrival: Arrival, taken_by: Vec<u64> },
    /// Reports that the queue was declared again. This counts as a use ([`Config::expires_ms`]).
    Use,
    /// Sets new settings, from a policy or a new declaration.
    Configure(Arc<Config>),
    /// Removes all ready messages, and dead letters that are kept ([`DeadLetter::at_least_once`]). Delayed messages stay.
    /// Answered by [`Effect::Done`].
    Purge { ticket: Ticket },
    /// Deletes the queue. Answered by [`Effect::Done`] and [`Effect::Deleted`], or by [`Effect::Refused`]. A queue whose turns can be
    /// rolled back ends when that is committed ([`crate::Fact::Ended`]).
    Delete { ticket: Ticket, if_unused: bool, if_empty: bool },
    /// Asks for a report. Answered by [`Effect::Report`].
    Report { ticket: Ticket },
}

impl Request {
    /// Replaces the ticket of a request that has one.
    pub fn set_ticket(&mut self, new: Ticket) {
        match self {
            Self::Fetch { ticket, .. }
            | Self::Browse { ticket, .. }
            | Self::CancelBrowse { ticket }
            | Self::Purge { ticket }
            | Self::Delete { ticket, .. }
            | Self::Report { ticket } => *ticket = new,
            Self::Publish(_)
            | Self::Attach(_)
            | Self::Cancel { .. }
            | Self::Detach { .. }
            | Self::Grant { .. }
            | Self::Resume { .. }
            | Self::Follow { .. }
            | Self::Close { .. }
            | Self::Settle { .. }
            | Self::DeadLettered { .. }
            | Self::Use
            | Self::Configure(_) => {}
        }
    }
}

/// A message to store.
#[derive(Clone, Debug)]
pub struct Publish {
    pub publisher: PublisherId,
    /// The publisher's own number for this message. The receipt repeats it.
    pub seq: u64,
    pub message: Message,
    /// True if the publisher pipelines: it continues without this receipt, which may be sent later, when the message is
    /// settled.
    pub pipelines: bool,
}

/// A consumer to add.
#[derive(Debug)]
pub struct Attach {
    pub consumer: ConsumerId,
    pub mode: Mode,
    /// The priority. Consumers with a higher priority are served first while they have credit. The default is
    /// 0.
    pub priority: i32,
    /// True if the consumer must be the only one. The attach is refused if there is another consumer, and
    /// every later consumer is refused.
    pub exclusive: bool,
    /// True if deliveries count as settled when they are sent (at most once).
    pub settled: bool,
    /// The initial delivery count of the consumer's grants.
    pub delivery_count: u32,
    /// The size of the largest delivery that the consumer accepts. `None` means no limit. For a larger message, a queue
    /// skips the consumer as if it had no credit. Streams leave this check to the gate.
    pub message_bytes_max: Option<DeliveryMax>,
    pub timeout: ConsumerTimeout,
}

/// The time for which a consumer of a quorum queue may hold a delivery before the queue takes it back
/// ([`Effect::Revoked`]). Other queues take nothing back.
///
/// The consumer's own timeout comes first, then that of the queue ([`QuorumConfig::consumer_timeout_ms`]), then the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerTimeout {
    /// The timeout that the consumer has asked for, in milliseconds.
    pub own_ms: Option<u64>,
    /// The timeout of the node, in milliseconds. `None` means that deliveries may be held for ever.
    pub default_ms: Option<u64>,
}

/// The way in which a consumer reads.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Each message goes to one consumer and leaves the queue when it is settled. Streams refuse this mode.
    Take,
    /// Looks at the ready messages once, in the order of their delivery, up to the last one that the queue has at the
    /// attach. Nothing is removed, and outcomes change nothing. Streams refuse this mode.
    Browse,
    /// Reads from any position, as often as wanted. For streams only; the fifo machine refuses this mode.
    Replay(Box<Replay>),
}

/// A consumer's outcome for a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The message was processed. It leaves the queue.
    Accepted,
    /// Invalid. The message is dead-lettered or dropped. Counts as a failed delivery.
    Rejected,
    /// Not processed. The message returns to its position, in a quorum queue perhaps after a delay ([`DelayedRetry`]).
    /// Does not count as a failed delivery.
    Released,
    /// The delivery was not sent to the consumer's peer. The message returns to its position as it was: it does not count as
    /// delivered.
    Unsent,
    /// The message returns to its position, or is dead-lettered if `undeliverable_here`. With `failed`, its delivery
    /// count is raised. The annotations are merged into the message's own, for all later deliveries and for the dead
    /// letter.
    Modified { failed: bool, undeliverable_here: bool, annotations: Option<Box<Annotations>> },
}

/// When a queue answers a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAnswer {
    /// Never.
    Never,
    /// When the settlement is made. A queue whose turns can be rolled back answers when it is committed.
    Made,
    /// When the settlement survives what a confirm of the queue survives.
    Stored,
}

/// The result of publishing a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A queue has taken it. The message can be forgotten.
    Taken,
    /// A target does not take it, or there is none. With at-most-once, the message is dropped and counted. With
    /// at-least-once, it is sent again later.
    Refused,
    /// No queue has taken it, but one would if it could store messages at the moment. It is always sent again later.
    Unavailable,
}

/// The verdict on the publishes `first..=last` of one publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub publisher: PublisherId,
    pub first: u64,
    pub last: u64,
    pub verdict: Verdict,
    /// True if the verdict depends on a fact that must be in the log first.
    pub journaled: bool,
}

impl Range for Receipt {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        let Self { publisher, last, verdict, journaled, .. } = *self;
        (publisher, last + 1, verdict, journaled)
            == (next.publisher, next.first, next.verdict, next.journaled)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

/// Receipts in the order of their publishes, merged where possible.
#[derive(Debug, Default)]
pub struct Receipts(Vec<Receipt>);

impl Receipts {
    /// Adds the receipt of one publish.
    pub(crate) fn push(&mut self, publisher: PublisherId, seq: u64, verdict: Verdict, journaled: bool) {
        self.push_all(Receipt { publisher, first: seq, last: seq, verdict, journaled });
    }

    pub(crate) fn push_all(&mut self, receipt: Receipt) {
        self.0.push_joined(receipt);
    }

    /// Rejects a publish.
    pub fn reject(&mut self, publisher: PublisherId, seq: u64, reason: RejectReason) {
        self.push(publisher, seq, Verdict::Rejected(reason), false);
    }

    /// Marks all receipts as independent of facts.
    pub(crate) fn leave_at_once(&mut self) {
        self.0.iter_mut().for_each(|receipt| receipt.journaled = false);
    }

    /// Takes out all receipts.
    pub fn drain(&mut self) -> impl Iterator<Item = Receipt> {
        self.0.drain(..)
    }

    /// Returns true if there are no receipts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Receipt> {
        self.0.iter()
    }
}

/// What a queue sends to gates, besides receipts. As in a [`Receipt`], `journaled` means that an effect
/// depends on facts of its turn or of an earlier one. Effects without this field depend on none.
#[derive(Debug)]
pub enum Effect {
    Attached {
        consumer: ConsumerId,
    },
    /// The request was refused and changed nothing.
    Refused {
        requester: Requester,
        why: Refusal,
    },
    /// The consumer was removed, or gets no more deliveries.
    Gone {
        consumer: ConsumerId,
        reason: GoneReason,
    },
    /// Says whether this consumer is the active one of a queue with a single active consumer.
    Active {
        consumer: ConsumerId,
        active: bool,
        /// The number of messages that are available to the consumer, as in [`CreditState`].
        available: u32,
    },
    Delivery(Delivery),
    CreditState {
        consumer: ConsumerId,
        state: CreditState,
    },
    /// Answers Fetch and Browse. `ready` is the number of ready messages that are left.
    Fetched {
        ticket: Ticket,
        deliveries: Vec<Delivery>,
        ready: u64,
    },
    /// New information about a stream, for a follower.
    StreamUpdate {
        follower: Follower,
        update: Box<StreamUpdate>,
    },
    Settled {
        consumer: ConsumerId,
        first: u64,
        last: u64,
        journaled: bool,
    },
    /// The consumer has held these deliveries for too long, and the queue has taken them back. The consumer gets nothing
    /// more until [`Request::Resume`].
    Revoked {
        consumer: ConsumerId,
        numbers: Vec<Span>,
    },
    /// Asks the receiver to publish this message to `exchange`, then to send [`Request::DeadLettered`]. The message
    /// already records its death.
    DeadLetter {
        token: u64,
        message: Message,
        reason: DeathReason,
        exchange: Arc<str>,
        key: Option<Arc<str>>,
        /// The targets that have taken the message already; see [`Request::DeadLettered`].
        taken_by: Vec<u64>,
        /// True if the message is sent again.
        again: bool,
        journaled: bool,
    },
    /// Answers Purge and Delete with the number of ready messages that were removed.
    Done {
        ticket: Ticket,
        messages: u64,
        journaled: bool,
    },
    /// The queue has ended. The catalog must forget it. No other effect follows.
    Deleted {
        reason: DeletedReason,
    },
    Report {
        ticket: Ticket,
        report: Box<Report>,
    },
}

impl Effect {
    /// Returns whether the effect depends on facts.
    pub fn is_journaled(&self) -> bool {
        match self {
            Self::Settled { journaled, .. }
            | Self::DeadLetter { journaled, .. }
            | Self::Done { journaled, .. } => *journaled,
            Self::Attached { .. }
            | Self::Refused { .. }
            | Self::Gone { .. }
            | Self::Active { .. }
            | Self::Delivery(_)
            | Self::CreditState { .. }
            | Self::Fetched { .. }
            | Self::StreamUpdate { .. }
            | Self::Revoked { .. }
            | Self::Deleted { .. }
            | Self::Report { .. } => false,
        }
    }
}

/// The result of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Rejected(RejectReason),
    /// No queue has the message: the queue was deleted.
    Released,
    /// Nobody knows whether the queue has the message: its node was lost before it has answered.
    Unknown,
}

/// Why a queue does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The queue is at `max-length` or `max-length-bytes`, and its overflow is not `drop-head`.
    MaxLength,
    /// The queue cannot store messages at the moment.
    Unavailable,
    /// No member of the queue's Raft group has led for some time ([`crate::NO_LEADER_MS`]). The message was never in an entry.
    NoLeader,
    /// The queue is on a node that is out of reach, and was not sent the message.
    OutOfReach,
    /// Messages of the queue are damaged; see [`Refusal::Damaged`].
    Damaged,
}

/// Who sent a request: a consumer, or the holder of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requester {
    Consumer(ConsumerId),
    Ticket(Ticket),
}

/// Why a request was refused. Each gate maps these reasons to its protocol's errors in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    /// There is an exclusive consumer, or an exclusive consumer was requested while there are others.
    ExclusiveConsumer,
    InUse,
    NotEmpty,
    /// The queue type does not support the request.
    NotSupported,
    /// The queue cannot be opened at the moment because of the disk.
    Unavailable,
    /// The queue is on no node in reach.
    OutOfReach {
        /// The node that has the queue, by number, if one is known.
        node: Option<u32>,
    },
    /// Nobody knows whether the request has changed the queue: its node was lost before it has answered.
    OutcomeUnknown {
        /// The node that has the queue, by number.
        node: Option<u32>,
    },
    /// No member of the queue's Raft group has led for some time ([`crate::NO_LEADER_MS`]).
    NoLeader,
    /// Messages of the queue are damaged on the disk. The queue can only be deleted.
    Damaged,
    /// The queue has as many browsers ([`Mode::Browse`]) as it may have.
    TooManyBrowsers,
}

/// Why a consumer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    Cancelled,
    Detached,
    QueueDeleted,
    /// Messages of the queue are damaged; see [`Refusal::Damaged`].
    Damaged,
    /// The queue is on no node in reach; see [`Refusal::OutOfReach`]. Or a quorum queue has lost a settlement of the consumer,
    /// together with its leader. The consumer's unsettled deliveries return to the queue, so no settlement of them can be made any
    /// more.
    OutOfReach {
        node: Option<u32>,
    },
}

/// Why a queue has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedReason {
    Requested,
    /// The queue has `auto_delete`, and its last consumer left.
    Unused,
    /// The queue was unused for the time of `x-expires`.
    Expired,
}

/// A message that is sent to a consumer.
#[derive(Debug)]
pub struct Delivery {
    pub consumer: ConsumerId,
    /// The consumer's own delivery number: 1, 2, 3, ...
    pub number: u64,
    /// The message's sequence number in the queue, which is never reused. In a stream it is the message's
    /// offset.
    pub seq: u64,
    pub message: Message,
    /// The number of failed deliveries before this one.
    pub delivery_count: u32,
    /// The number of deliveries before this one, failed or not. Only quorum queues count beyond 1.
    pub acquired_count: u32,
}

/// Receives deliveries while a machine works. They come before all effects of the call.
pub trait Deliver {
    /// Offers a delivery to its consumer. Returns true if it was taken. If it was not, a queue turns the delivery into
    /// an effect, and the reader of a stream waits for the consumer's next Grant.
    fn deliver(&mut self, lent: DeliveryRef<'_>) -> bool;
}

impl<F: FnMut(DeliveryRef<'_>) -> bool> Deliver for F {
    fn deliver(&mut self, lent: DeliveryRef<'_>) -> bool {
        self(lent)
    }
}

/// A delivery with a borrowed message, which is valid only during the call.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRef<'a> {
    pub consumer: ConsumerId,
    /// The delivery number. It and all fields below have the same meaning as in [`Delivery`].
    pub number: u64,
    pub seq: u64,
    pub message: &'a Message,
    pub delivery_count: u32,
    pub acquired_count: u32,
}

impl DeliveryRef<'_> {
    /// Returns true if the message was delivered before.
    pub fn redelivered(&self) -> bool {
        self.acquired_count > 0
    }

    /// Returns a copy that owns its message.
    pub fn to_delivery(&self) -> Delivery {
        let Self { consumer, number, seq, message, delivery_count, acquired_count } = *self;
        Delivery { consumer, number, seq, message: message.clone(), delivery_count, acquired_count }
    }
}

impl Delivery {
    pub fn lend(&self) -> DeliveryRef<'_> {
        let Self { consumer, number, seq, ref message, delivery_count, acquired_count } = *self;
        DeliveryRef { consumer, number, seq, message, delivery_count, acquired_count }
    }
}

/// The consumer's credit as the queue sees it after the deliveries sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditState {
    pub delivery_count: u32,
    pub credit: u32,
    /// The number of ready messages. 0 for an inactive consumer.
    pub available: u32,
    /// True if this answers a drain.
    pub drained: bool,
}

/// How many messages a queue has, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub ready: u64,
    pub unsettled: u64,
    /// See [`Report::delayed`].
    pub delayed: u64,
    /// See [`Report::leaving`].
    pub leaving: u64,
}

impl Depth {
    /// Returns the number of all messages.
    pub fn messages(&self) -> u64 {
        self.ready + self.unsettled + self.delayed + self.leaving
    }
}

impl std::ops::AddAssign for Depth {
    fn add_assign(&mut self, other: Self) {
        self.ready += other.ready;
        self.unsettled += other.unsettled;
        self.delayed += other.delayed;
        self.leaving += other.leaving;
    }
}

impl std::ops::SubAssign for Depth {
    fn sub_assign(&mut self, other: Self) {
        self.ready -= other.ready;
        self.unsettled -= other.unsettled;
        self.delayed -= other.delayed;
        self.leaving -= other.leaving;
    }
}

/// What the machine reports about itself.
///
/// `published` is the sum of `staged`, `ready`, `delayed`, `unsettled`, `leaving`, `acknowledged`, `dropped` and
/// `dead_lettered`.
/// The sum does not account for messages that were purged, restored, or dead-lettered without being accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub ready: u64,
    pub unsettled: u64,
    /// Dead letters that have not arrived at their target, including those that have not been sent yet.
    pub leaving: u64,
    /// Accepted, but not delivered before their facts are committed. 0 for classic queues.
    pub staged: u64,
    /// Requeued, but not delivered before a given time. 0 for classic queues.
    pub delayed: u64,
    pub ready_bytes: u64,
    pub unsettled_bytes: u64,
    pub leaving_bytes: u64,
    pub delayed_bytes: u64,
    /// True if the queue refuses publishes, because it is at a length limit.
    pub full: bool,
    /// The sequence number of the next message to be published. 0 for streams, which have offsets.
    pub next_seq: u64,
    /// The number of consumers, without cancelled ones.
    pub consumers: u32,
    /// True if messages of the queue are damaged; see [`Refusal::Damaged`].
    pub damaged: bool,
    /// True if the next message is on the disk and is being read.
    pub reading: bool,
    /// The size of a delivery of the next message in bytes, if the message is in memory.
    pub next_bytes: Option<u64>,
    /// [`Message::head_bytes`] of the next message, if a consumer was skipped because of it.
    pub next_head_bytes: Option<u64>,
    /// The time at which the next message arrived, in milliseconds since the epoch. If it is on the disk, a time before which no
    /// message of its run arrived. Of a stream, when the oldest chunk was written.
    pub head_at_ms: Option<u64>,
    /// The id of the active consumer. `None` unless the queue has a single active consumer.
    pub active_consumer: Option<u64>,
    /// True if the active consumer gets nothing more, because a better one waits until it has settled what it holds.
    pub yielding: bool,
    /// The number of accepted messages. Rejected ones do not count.
    pub published: u64,
    /// The number of deliveries, to consumers and to clients that fetch. If a delivery came back unsent ([`Outcome::Unsent`]),
    /// the next unsettled delivery of the same kind is not counted again.
    pub delivered: u64,
    /// The number of deliveries in `delivered` that were settled when they were sent. 0 for streams, which do not know it.
    pub delivered_settled: u64,
    /// The number of deliveries in `delivered` that were fetched one by one.
    pub fetched: u64,
    /// The number of deliveries that were both fetched and settled when they were sent.
    pub fetched_settled: u64,
    /// The number of deliveries in `delivered` whose message had been delivered before.
    pub redelivered: u64,
    /// The number of messages that consumers have accepted, or that were delivered as settled.
    pub acknowledged: u64,
    /// The number of expired messages, whether dead-lettered or dropped.
    pub expired: u64,
    /// The number of discarded messages: there is no dead-letter exchange, or no queue took the dead letter.
    pub dropped: u64,
    /// The number of dead letters that a target has taken.
    pub dead_lettered: u64,
    /// The number of messages that failed more often than the delivery limit allows, whether dead-lettered or dropped.
    pub over_limit: u64,
    /// True if no message was acknowledged since the last one exceeded the delivery limit.
    pub last_was_over_limit: bool,
    /// The deliveries that consumers have given back to be delivered again at once, of messages that had come back before: since a message
    /// last left the queue: acknowledged, rejected, expired, or removed by a limit of the queue. Those that a delivery limit counts as failures are not among them. Streams have none.
    pub returned_again: Lately,
    /// The number of times that a consumer's annotations were discarded, because the message or its queue had
    /// no capacity for them.
    pub annotations_refused: u64,
    /// The publishes that were refused because the queue is at a length limit. Those of streams have none.
    pub rejected: Lately,
    /// The number of messages that were removed because the queue was longer than its length limit, whether dead-lettered or
    /// dropped. 0 for streams.
    pub over_length: u64,
    /// The time at which the newest ready message arrived, in milliseconds since the epoch. If it is on the disk, a time after
    /// which no message of its run arrived. `None` for streams.
    pub tail_at_ms: Option<u64>,
    /// What is retained of a stream. `None` for other queues. All retained messages count as `ready`.
    pub stream: Option<Retained>,
}

impl Report {
    /// Returns how many messages the queue has, by where they are.
    pub fn depth(&self) -> Depth {
        Depth { ready: self.ready, unsettled: self.unsettled, delayed: self.delayed, leaving: self.leaving }
    }

    /// Returns the number of all messages of the queue. A message that is not committed yet does not count: its publisher
    /// has no receipt.
    pub fn messages(&self) -> u64 {
        self.depth().messages()
    }

    /// Returns the bytes of the messages that [`Report::messages`] counts.
    pub fn bytes(&self) -> u64 {
        self.ready_bytes + self.unsettled_bytes + self.delayed_bytes + self.leaving_bytes
    }

    /// Returns the number of messages that consumers got to acknowledge them, without those that were fetched.
    pub fn delivered_unsettled(&self) -> u64 {
        let fetched = self.fetched - self.fetched_settled;
        self.delivered - self.delivered_settled - fetched
    }

    /// Returns the number of messages that consumers have acknowledged, without those that were settled when they were
    /// sent. A rollback takes acknowledgements back, but not deliveries, so there may be more of the latter.
    pub fn acknowledged_by_consumers(&self) -> u64 {
        self.acknowledged.saturating_sub(self.delivered_settled)
    }
}
