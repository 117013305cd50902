//! The words between gates and queues (`docs/contract.md`): requests go down, effects come up.
//!
//! The words are the same for every protocol and every driver. No request is answered by anything but the
//! effects listed here, and every effect names the request it answers.

mod replay;

use std::sync::Arc;

use message::{Annotations, DeathReason, Message};
use ranges::{Range, Ranges};

pub use self::replay::{BloomFilter, Chunk, FilterValues, Follower, News, Replay, Retained, Start};

/// A consumer of one queue. Never reused, so that late mail to a dead consumer cannot reach a living one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId(pub u64);

/// A publisher as its receipts see it. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublisherId(pub u64);

/// Correlates a request that expects one answer with that answer. Chosen by whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What is asked of a queue.
#[derive(Debug)]
pub enum Request {
    /// Store one message. It is in exactly one [`Receipt`].
    Publish(Publish),
    /// Become a consumer. Answered by [`Effect::Attached`] or [`Effect::Refused`].
    Attach(Attach),
    /// No new deliveries; what is unsettled may still be settled. Answered by [`Effect::Gone`].
    Cancel { consumer: ConsumerId },
    /// Forget the consumer and requeue what it has not settled; `failed` raises the delivery count of that.
    /// Answered by [`Effect::Gone`].
    Detach { consumer: ConsumerId, failed: bool },
    /// The consumer's whole grant, not an addition to it: `credit` deliveries counted from `delivery_count`
    /// (both wrap, RFC 1982). With `drain` what cannot be used at once is used up; with `drain` or `echo`
    /// one [`Effect::CreditState`] follows the deliveries.
    Grant { consumer: ConsumerId, delivery_count: u32, credit: u32, drain: bool, echo: bool },
    /// Up to `n` messages without a consumer. Unless `settled`, they are held under `holder` as if it were a
    /// consumer that had been cancelled; the holder keeps its numbers until its Detach. Answered by
    /// [`Effect::Fetched`].
    Fetch { ticket: Ticket, holder: ConsumerId, n: u32, settled: bool },
    /// Up to `n` messages of a stream without a consumer, from any place. Answered by [`Effect::Fetched`].
    Browse { ticket: Ticket, replay: Box<Replay>, n: u32 },
    /// Nobody waits for the answer to a Browse any more. Not answered.
    GiveUp { ticket: Ticket },
    /// To a stream: so many consumers read it at this follower; `None` follows no more. Answered by
    /// [`Effect::News`], when it begins and whenever there are any.
    Follow { follower: Follower, consumers: Option<u32> },
    /// Settle the consumer's deliveries `first..=last` (its own consecutive numbers; unknown ones are
    /// ignored). With `answer`, [`Effect::Settled`] follows.
    Settle { consumer: ConsumerId, first: u64, last: u64, outcome: Outcome, answer: bool },
    /// The dead letter of this token has been dealt with.
    DeadLettered { token: u64, arrival: Arrival },
    /// Somebody has declared the queue again, which uses it ([`Config::expires_ms`]).
    Use,
    /// New settings, from a policy or a new declaration.
    Configure(Box<Config>),
    /// Drop everything that is ready. Answered by [`Effect::Done`].
    Purge { ticket: Ticket },
    /// Delete the queue. Answered by [`Effect::Done`] and [`Effect::Deleted`], or [`Effect::Refused`].
    Delete { ticket: Ticket, if_unused: bool, if_empty: bool },
    /// Answered by [`Effect::Report`].
    Report { ticket: Ticket },
}

impl Request {
    /// Gives a request that is answered by ticket another ticket.
    pub fn set_ticket(&mut self, new: Ticket) {
        match self {
            Self::Fetch { ticket, .. }
            | Self::Browse { ticket, .. }
            | Self::GiveUp { ticket }
            | Self::Purge { ticket }
            | Self::Delete { ticket, .. }
            | Self::Report { ticket } => *ticket = new,
            Self::Publish(_)
            | Self::Attach(_)
            | Self::Cancel { .. }
            | Self::Detach { .. }
            | Self::Grant { .. }
            | Self::Follow { .. }
            | Self::Settle { .. }
            | Self::DeadLettered { .. }
            | Self::Use
            | Self::Configure(_) => {}
        }
    }
}

/// One message to store.
#[derive(Clone, Debug)]
pub struct Publish {
    pub publisher: PublisherId,
    /// The publisher's own number for this message; comes back in the receipt.
    pub seq: u64,
    pub message: Message,
    /// The publisher goes on without this receipt: it may come later, when the message is settled.
    pub patient: bool,
}

/// One consumer to add.
#[derive(Debug)]
pub struct Attach {
    pub consumer: ConsumerId,
    pub mode: Mode,
    /// Higher is served first while it has credit. Default 0.
    pub priority: i32,
    /// Refuse when there is another consumer, and refuse every later one.
    pub exclusive: bool,
    /// Deliveries are settled as they are sent: at most once.
    pub settled: bool,
    /// The first delivery count of the consumer's grants.
    pub delivery_count: u32,
    /// Bytes of the largest delivery that the consumer takes; `None` is any. A queue passes over the consumer for a
    /// larger one, as if it had no credit. Streams leave this to the gate.
    pub message_bytes_max: Option<u64>,
}

/// How a consumer reads.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Each message goes to one consumer and leaves the queue when settled. Refused by streams.
    Take,
    /// Look without taking. Not offered by the fifo machine yet: refused.
    Browse,
    /// From any place, again and again. Streams only: refused by the fifo machine.
    Replay(Box<Replay>),
}

/// What a consumer says of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done: the message leaves the queue.
    Accepted,
    /// Invalid: dead-lettered or dropped; counts as a failed delivery.
    Rejected,
    /// Not processed: back to its place; does not count as a failed delivery.
    Released,
    /// Back to its place, or dead-lettered if `undeliverable_here`; `failed` raises the delivery count. The
    /// annotations are merged into the message's own, for every later delivery and for the dead letter.
    Modified { failed: bool, undeliverable_here: bool, annotations: Option<Box<Annotations>> },
}

/// What became of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A queue has it: the message is forgotten.
    Taken,
    /// None takes it: at-most-once drops it and counts it, at-least-once tries again.
    Refused,
    /// None has it, but one would, and cannot store it at the moment: it is tried again in any case.
    Unavailable,
}

/// What became of the publishes `first..=last` of one publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub publisher: PublisherId,
    pub first: u64,
    pub last: u64,
    pub verdict: Verdict,
    /// The verdict stands on a fact that the log must have first.
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

/// Receipts in the order of their publishes, as few as will do.
#[derive(Debug, Default)]
pub struct Receipts(Vec<Receipt>);

impl Receipts {
    /// Answers for one publish.
    pub(crate) fn push(&mut self, publisher: PublisherId, seq: u64, verdict: Verdict, journaled: bool) {
        self.push_all(Receipt { publisher, first: seq, last: seq, verdict, journaled });
    }

    pub(crate) fn push_all(&mut self, receipt: Receipt) {
        self.0.push_joined(receipt);
    }

    /// Refuses a publish.
    pub fn reject(&mut self, publisher: PublisherId, seq: u64, reason: RejectReason) {
        self.push(publisher, seq, Verdict::Rejected(reason), false);
    }

    /// None of them stands on a fact any more.
    pub(crate) fn leave_at_once(&mut self) {
        self.0.iter_mut().for_each(|receipt| receipt.journaled = false);
    }

    /// Takes them all out.
    pub fn drain(&mut self) -> impl Iterator<Item = Receipt> {
        self.0.drain(..)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Receipt> {
        self.0.iter()
    }
}

/// What a queue has to say, beside its receipts. As in a [`Receipt`], `journaled` says that an effect stands on facts of its
/// turn or an earlier one. Effects without it stand on none.
#[derive(Debug)]
pub enum Effect {
    Attached {
        consumer: ConsumerId,
        capabilities: Capabilities,
    },
    /// The request was refused and changed nothing.
    Refused {
        asked: Asked,
        why: Refusal,
    },
    /// The consumer is no more.
    Gone {
        consumer: ConsumerId,
        reason: GoneReason,
    },
    /// Whether this consumer is the active one of a queue with a single active consumer.
    Active {
        consumer: ConsumerId,
        active: bool,
        /// As in [`CreditState`].
        available: u32,
    },
    Delivery(Delivery),
    CreditState {
        consumer: ConsumerId,
        state: CreditState,
    },
    /// Answers Fetch; `ready` messages are left.
    Fetched {
        ticket: Ticket,
        deliveries: Vec<Delivery>,
        ready: u64,
    },
    /// What a follower must know of a stream.
    News {
        follower: Follower,
        news: Box<News>,
    },
    Settled {
        consumer: ConsumerId,
        first: u64,
        last: u64,
        journaled: bool,
    },
    /// Deliveries were taken back from the consumer.
    Revoked {
        consumer: ConsumerId,
        first: u64,
        last: u64,
    },
    /// Publish this message to `exchange` (already marked with its death), then send
    /// [`Request::DeadLettered`].
    DeadLetter {
        token: u64,
        message: Message,
        reason: DeathReason,
        exchange: Arc<str>,
        key: Option<Arc<str>>,
        journaled: bool,
    },
    /// Answers Purge and Delete with the number of ready messages that went.
    Done {
        ticket: Ticket,
        messages: u64,
        journaled: bool,
    },
    /// The queue has decided its own end; the catalog must forget it. Nothing follows.
    Deleted {
        reason: DeletedReason,
    },
    Report {
        ticket: Ticket,
        report: Box<Report>,
    },
}

impl Effect {
    /// Whether it stands on facts.
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
            | Self::News { .. }
            | Self::Revoked { .. }
            | Self::Deleted { .. }
            | Self::Report { .. } => false,
        }
    }
}

/// What became of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Rejected(RejectReason),
    /// Nobody has it: the queue went away.
    Released,
}

/// Why a queue would not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// At `max-length` or `max-length-bytes` with overflow `reject-publish`.
    MaxLength,
    /// The queue cannot store at the moment.
    Unavailable,
    /// See [`Refusal::Damaged`].
    Damaged,
}

/// Which request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    Consumer(ConsumerId),
    Ticket(Ticket),
}

/// Why a request was refused. Each gate owns the one table from here to its protocol's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    /// Another consumer is exclusive, or an exclusive one was asked for beside others.
    ExclusiveConsumer,
    /// The queue belongs to another connection.
    LockedQueue,
    InUse,
    NotEmpty,
    /// The queue type does not do this.
    NotSupported,
    /// The disk does not let the queue be opened at the moment.
    Unavailable,
    /// Messages of the queue are damaged on the disk: nothing but its deletion is possible.
    Damaged,
}

/// Why a consumer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    Cancelled,
    Detached,
    QueueDeleted,
    /// See [`Refusal::Damaged`].
    Damaged,
}

/// Why a queue is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedReason {
    Asked,
    /// `auto_delete` and the last consumer left.
    Unused,
    /// `x-expires`.
    Expired,
}

/// What a queue can do for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// True when reading removes (`move`), false when it does not (`copy`).
    pub moves: bool,
}

/// One message on its way to one consumer.
#[derive(Debug)]
pub struct Delivery {
    pub consumer: ConsumerId,
    /// The consumer's own number: 1, 2, 3, ...
    pub number: u64,
    /// The message's place in the queue; never reused.
    pub seq: u64,
    pub message: Message,
    /// Failed deliveries before this one.
    pub delivery_count: u32,
    /// It has been delivered to somebody before.
    pub redelivered: bool,
}

/// Offers deliveries to consumers while a machine works, before any of its effects.
pub trait Deliver {
    /// Offers a delivery to its consumer. Returns true if it was taken. A delivery of a queue that is not taken becomes an
    /// effect. A reader of a stream whose delivery is not taken waits for the consumer's next Grant.
    fn deliver(&mut self, lent: Lent<'_>) -> bool;
}

impl<F: FnMut(Lent<'_>) -> bool> Deliver for F {
    fn deliver(&mut self, lent: Lent<'_>) -> bool {
        self(lent)
    }
}

/// A delivery whose message is lent, for as long as it takes to send it.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'a> {
    pub consumer: ConsumerId,
    /// As in [`Delivery`], as is all that follows.
    pub number: u64,
    pub seq: u64,
    pub message: &'a Message,
    pub delivery_count: u32,
    pub redelivered: bool,
}

impl Lent<'_> {
    /// One that lasts.
    pub fn to_delivery(&self) -> Delivery {
        let Self { consumer, number, seq, message, delivery_count, redelivered } = *self;
        Delivery { consumer, number, seq, message: message.clone(), delivery_count, redelivered }
    }
}

impl Delivery {
    pub fn lend(&self) -> Lent<'_> {
        let Self { consumer, number, seq, ref message, delivery_count, redelivered } = *self;
        Lent { consumer, number, seq, message, delivery_count, redelivered }
    }
}

/// The consumer's credit as the queue sees it, in the order of its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditState {
    pub delivery_count: u32,
    pub credit: u32,
    /// Ready messages, 0 for an inactive consumer.
    pub available: u32,
    /// Answers a drain.
    pub drained: bool,
}

/// Settings of one queue, with policies already merged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub name: Arc<str>,
    /// Delete the queue when its last consumer leaves.
    pub auto_delete: bool,
    pub single_active_consumer: bool,
    pub max_length: Option<u64>,
    pub max_length_bytes: Option<u64>,
    pub overflow: Overflow,
    pub message_ttl_ms: Option<u64>,
    /// Delete the queue when it has been unused this long.
    pub expires_ms: Option<u64>,
    pub dead_letter: Option<DeadLetter>,
    /// Number of levels minus one; `None` is a plain fifo.
    pub max_priority: Option<u8>,
    /// It is a stream; of the settings above a stream has `name` and `max_length_bytes`.
    pub stream: Option<StreamConfig>,
}

impl Config {
    /// A plain fifo without limits: what a queue is without arguments and policies.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            auto_delete: false,
            single_active_consumer: false,
            max_length: None,
            max_length_bytes: None,
            overflow: Overflow::DropHead,
            message_ttl_ms: None,
            expires_ms: None,
            dead_letter: None,
            max_priority: None,
            stream: None,
        }
    }
}

/// Settings of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Bytes of a segment at most: what is too old or too much goes segment by segment.
    pub segment_bytes: u64,
    /// How long a message is kept, in milliseconds.
    pub age_max_ms: Option<u64>,
    /// Bytes of the filter of each chunk whose messages have filter values.
    pub filter_bytes: u8,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self { segment_bytes: 500_000_000, age_max_ms: None, filter_bytes: 16 }
    }
}

/// What happens at the length limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overflow {
    #[default]
    DropHead,
    RejectPublish,
    RejectPublishDlx,
}

/// Where dead messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub exchange: Arc<str>,
    /// Replaces the routing keys if given.
    pub key: Option<Arc<str>>,
    /// Keep and retry until the target has it; else one attempt.
    pub at_least_once: bool,
}

/// What the machine knows of itself.
///
/// `published` is the sum of `staged`, `ready`, `unsettled`, `leaving`, `acknowledged`, `dropped` and `dead_lettered`,
/// apart from what was purged, restored, or dead-lettered without having been taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub ready: u64,
    pub unsettled: u64,
    /// On their way to where dead letters go, those that wait for their turn included.
    pub leaving: u64,
    /// Taken in, and not to be delivered before their facts are committed. 0 for classic queues.
    pub staged: u64,
    pub ready_bytes: u64,
    pub unsettled_bytes: u64,
    /// Without those that were cancelled.
    pub consumers: u32,
    /// See [`Refusal::Damaged`].
    pub damaged: bool,
    /// The next message is on the disk and has been asked for.
    pub reading: bool,
    /// Bytes of a delivery of the next message, if it is in memory.
    pub next_bytes: Option<u64>,
    /// Only with a single active consumer.
    pub active_consumer: Option<u64>,
    /// Taken in; refused ones do not count.
    pub published: u64,
    pub delivered: u64,
    /// Of `delivered`, those that had been delivered before.
    pub redelivered: u64,
    /// Accepted, or settled as they were sent.
    pub acknowledged: u64,
    /// Died of age, whether dead-lettered or dropped.
    pub expired: u64,
    /// Thrown away: nowhere to send dead letters, or refused there.
    pub dropped: u64,
    /// Taken by where dead letters go.
    pub dead_lettered: u64,
    /// How often a consumer's annotations were not kept, because there is no room for them with the message or its queue.
    pub annotations_refused: u64,
    /// Only of a stream: what is kept of it. Its `ready` messages are all that are kept.
    pub stream: Option<Retained>,
}
