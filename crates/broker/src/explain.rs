//! Explains why nothing moves: causes from a closed list, and the numbers behind them.
//!
//! A message passes from its publisher's socket through session, link, queue, link and session to its consumer's
//! socket. At each step, something can stop it. [`Facts`] are what the broker knows about these steps. [`causes`] alone
//! decides which of them are the reasons. [`Cause::text`] says what to do about each cause.

mod address;
mod causes;
mod comers;
mod explanation;
mod look;
mod shard;
mod texts;
mod trouble;
mod trouble_texts;

use std::sync::Arc;

use catalog::QueueRecord;
use catalog::access::{Authority, UserRef};
use catalog::ids::QueueId;
use message::DeliveryMax;
use queue::{Lately, Standing};

pub use self::address::{AddressCause, AddressFacts};
pub use self::causes::{CauseAt, causes};
pub use self::comers::{Comer, Comers};
pub use self::explanation::{Explanation, Numbers, Pace, Reason};
pub use self::look::{End, Look, Wanted};
pub use self::shard::ShardFacts;
pub use self::texts::Text;
pub use self::trouble::{
    Group, HELD_LONG_MS, HeldLong, Kind, OBJECTS_MAX, Object, Resources, Severity, Trouble, Troubles,
};

/// What stops the messages. The variants are ordered from the worst to the best. Among several links, the worst cause
/// explains their connection, and the best cause explains their queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The log cannot write. Durable messages are refused until it can.
    LogFailed,
    /// Messages of the queue are damaged on the disk. The queue delivers nothing and accepts nothing.
    QueueDamaged,
    /// The client does not read its socket, so bytes that the broker has written stay there.
    SocketNotRead,
    /// Memory or disk is short, or the node is stopping: the windows of publishers are closed.
    Alarm,
    /// The ATTACH waits for a queue or for the catalog.
    AttachUnanswered,
    /// Receipts wait until part of the backlog has left memory, because the backlog in memory is twice as large as it
    /// should be.
    WaitingForMemory,
    /// Receipts wait for the log, which has not written their records yet.
    WaitingForLog,
    /// Messages wait until the Raft group of their quorum queue has committed them: the log has not synced their entries yet.
    WaitingForCommit,
    /// Messages of the link have no receipt from a queue yet, and do not wait for memory or the log.
    WaitingForReceipts,
    /// A publisher of the connection is ahead of its queues, so the connection is not read. It may be on another channel.
    HeldBack,
    /// Deliveries wait for the client to open its session window.
    ClientWindowClosed,
    /// The next message is larger than the client accepts. No consumer that accepts it has credit.
    MessageTooLarge,
    /// The client has held deliveries for longer than its consumer timeout. They have returned to the queue, and it gets no
    /// more until it has settled them.
    ConsumerTimedOut,
    /// The single active consumer of a quorum queue gets no more until it has settled what it holds, because a consumer of a
    /// higher priority, or one that has not timed out, takes over then.
    GivingWay,
    /// The client gives messages back again and again, and the queue delivers them again. None leaves the queue.
    RequeueLoop,
    /// The client settles nothing: its link has the maximum number of unsettled deliveries.
    UnsettledLimit,
    /// The client has granted no credit.
    NoCredit,
    /// The next message is being read from the disk.
    ReadingBacklog,
    /// Another consumer of the queue is the single active consumer, so this one gets nothing.
    InactiveConsumer,
    /// The queue is at its length limit and refuses publishes.
    QueueFull,
    /// Messages are ready, and no consumer is attached.
    NoConsumer,
    /// Everything in the queue is delivered and unsettled.
    AllUnsettled,
    /// Everything in the queue waits for its retry.
    AllDelayed,
    /// Everything in the queue is being dead-lettered.
    DeadLettersLeaving,
    /// The client has not sent the rest of a delivery or of a frame.
    DeliveryIncomplete,
    /// The queue is empty. The last message that left it had failed more often than the delivery limit allows.
    OverDeliveryLimit,
    /// The queue is empty.
    QueueEmpty,
    /// The consumer has read the stream to its end, as far as its filter matches.
    EndOfStream,
    /// Nobody reads the stream. Its messages stay.
    NoReader,
    /// The link has credit and its client sends nothing.
    ClientSilent,
    /// The connection has no link.
    NoLinks,
    /// Messages move, or nothing stops them, and a shard that handles them has no time left: more messages would only wait longer.
    ShardAtLimit,
    /// Messages move, or nothing stops them. Shards are inspected one after the other, so the next message or the credit for it
    /// may have been on its way between two of them.
    Moving,
}

impl Cause {
    pub const ALL: [Self; 33] = [
        Self::LogFailed,
        Self::QueueDamaged,
        Self::SocketNotRead,
        Self::Alarm,
        Self::AttachUnanswered,
        Self::WaitingForMemory,
        Self::WaitingForLog,
        Self::WaitingForCommit,
        Self::WaitingForReceipts,
        Self::HeldBack,
        Self::ClientWindowClosed,
        Self::MessageTooLarge,
        Self::ConsumerTimedOut,
        Self::GivingWay,
        Self::RequeueLoop,
        Self::UnsettledLimit,
        Self::NoCredit,
        Self::ReadingBacklog,
        Self::InactiveConsumer,
        Self::QueueFull,
        Self::NoConsumer,
        Self::AllUnsettled,
        Self::AllDelayed,
        Self::DeadLettersLeaving,
        Self::DeliveryIncomplete,
        Self::OverDeliveryLimit,
        Self::QueueEmpty,
        Self::EndOfStream,
        Self::NoReader,
        Self::ClientSilent,
        Self::NoLinks,
        Self::ShardAtLimit,
        Self::Moving,
    ];

    /// Returns the word for this cause, for programs. Its meaning never changes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::LogFailed => "log_failed",
            Self::QueueDamaged => "queue_damaged",
            Self::SocketNotRead => "socket_not_read",
            Self::Alarm => "alarm",
            Self::AttachUnanswered => "attach_unanswered",
            Self::WaitingForMemory => "waiting_for_memory",
            Self::WaitingForLog => "waiting_for_log",
            Self::WaitingForCommit => "waiting_for_commit",
            Self::WaitingForReceipts => "waiting_for_receipts",
            Self::HeldBack => "held_back",
            Self::ClientWindowClosed => "client_window_closed",
            Self::MessageTooLarge => "message_too_large",
            Self::ConsumerTimedOut => "consumer_timed_out",
            Self::GivingWay => "giving_way",
            Self::RequeueLoop => "requeue_loop",
            Self::UnsettledLimit => "unsettled_limit",
            Self::NoCredit => "no_credit",
            Self::ReadingBacklog => "reading_backlog",
            Self::InactiveConsumer => "inactive_single_active_consumer",
            Self::QueueFull => "queue_full",
            Self::NoConsumer => "no_consumer",
            Self::AllUnsettled => "all_unsettled",
            Self::AllDelayed => "all_delayed",
            Self::DeadLettersLeaving => "dead_letters_leaving",
            Self::DeliveryIncomplete => "delivery_incomplete",
            Self::OverDeliveryLimit => "over_delivery_limit",
            Self::QueueEmpty => "queue_empty",
            Self::EndOfStream => "end_of_stream",
            Self::NoReader => "no_reader",
            Self::ClientSilent => "client_silent",
            Self::NoLinks => "no_links",
            Self::ShardAtLimit => "shard_at_limit",
            Self::Moving => "moving",
        }
    }

    /// Returns the sentence for this cause, for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::LogFailed => {
                "the disk cannot store the log or the backlog: messages are refused until it can"
            }
            Self::QueueDamaged => "messages of the queue are damaged on the disk: the queue is closed",
            Self::SocketNotRead => "the client does not read its socket",
            Self::Alarm => "memory or disk is short, or the node is stopping: publishing is blocked",
            Self::AttachUnanswered => "the link waits for its queue or for the catalog",
            Self::WaitingForMemory => {
                "too much of the backlog is in memory: the disk is slower than the publishers"
            }
            Self::WaitingForLog => "the log has not written the messages that wait for their receipts",
            Self::WaitingForCommit => "the log has not synced the messages of the quorum queue",
            Self::WaitingForReceipts => "a queue has not given its receipts yet",
            Self::HeldBack => {
                "a publisher on the connection is ahead of its queues: the connection is not read until they catch up"
            }
            Self::ClientWindowClosed => "the client has closed its session's window",
            Self::MessageTooLarge => {
                "the next message is larger than the client takes (max-message-size, or frame_max of AMQP 0.9.1)"
            }
            Self::ConsumerTimedOut => {
                "the client has not settled deliveries that its queue took back after the consumer timeout"
            }
            Self::GivingWay => {
                "another consumer becomes the single active one when this one has settled what it holds"
            }
            Self::RequeueLoop => {
                "the consumer gives messages back again and again, and none leaves the queue"
            }
            Self::UnsettledLimit => "the client has reached its limit of unsettled deliveries",
            Self::NoCredit => "the client has granted no credit",
            Self::ReadingBacklog => "the next message is being read from the disk",
            Self::InactiveConsumer => "another consumer is the single active one",
            Self::QueueFull => "the queue is at its length limit and refuses messages",
            Self::NoConsumer => "messages are ready and no consumer is attached",
            Self::AllUnsettled => "all messages of the queue are delivered and unsettled",
            Self::AllDelayed => "all messages of the queue wait for their retry",
            Self::DeadLettersLeaving => "all messages of the queue are being dead-lettered",
            Self::DeliveryIncomplete => "the client has sent only a part of a delivery",
            Self::OverDeliveryLimit => "the queue is empty: its last message has failed too often",
            Self::QueueEmpty => "the queue is empty",
            Self::EndOfStream => "the consumer is at the end of the stream",
            Self::NoReader => "nobody reads the stream; its messages are retained",
            Self::ClientSilent => "the link has credit and its client sends nothing",
            Self::NoLinks => "the connection has no links",
            Self::ShardAtLimit => "nothing stops the messages, but their shard is at its limit",
            Self::Moving => "nothing stops the messages",
        }
    }
}

/// The object to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A link by its name, which need not be unique. `vhost` and `connection` narrow the choice.
    Link {
        vhost: Option<String>,
        name: String,
        connection: Option<String>,
    },
    Queue {
        vhost: String,
        name: String,
    },
    Connection {
        name: String,
    },
}

/// Identifies a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkId {
    pub connection: Arc<str>,
    pub session: u16,
    pub handle: u32,
    pub name: String,
}

/// What is known about a link and the session and connection that it uses. In AMQP 0.9.1, each consumer of a channel is a
/// link, and so is its publisher.
#[derive(Clone, Debug)]
pub struct LinkFacts {
    pub place: LinkId,
    pub role: Role,
    /// True if the broker's ATTACH has been sent.
    pub answered: bool,
    pub credit: u32,
    pub delivery_count: u32,
    /// The session of the link, in a protocol that has sessions.
    pub session: Option<SessionFacts>,
    /// The bytes of deliveries and frames that have not arrived completely.
    pub incomplete_bytes: u64,
}

/// What is known about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// The number of transfer frames that the client may send, and the number that the broker may send [2.5.6].
    pub incoming_window: u32,
    pub remote_incoming_window: u32,
    /// The number of deliveries that wait for the client's window or socket.
    pub pending: u64,
}

impl LinkFacts {
    /// Returns true if deliveries wait until the client opens its session's window.
    fn waits_for_window(&self) -> bool {
        self.session.is_some_and(|session| session.pending > 0 && session.remote_incoming_window == 0)
    }
}

/// The purpose of a link.
#[derive(Clone, Debug)]
pub enum Role {
    Publishing {
        /// The queue that the link publishes to, if its address names one.
        queue: Option<Arc<str>>,
        /// The number of messages without a receipt.
        unconfirmed: u32,
    },
    Consuming {
        queue: QueueId,
        consumer: u64,
        unsettled: u32,
        unsettled_max: u32,
        /// The number of deliveries so far, and of those that the client has accepted.
        sent: u64,
        acknowledged: u64,
        /// The deliveries that the client has given back to the queue.
        returned: Lately,
        /// The largest message that the consumer accepts; see [`queue::Attach`].
        message_bytes_max: Option<DeliveryMax>,
        /// The number of unsettled deliveries that the queue has taken back after the consumer timeout.
        revoked: u64,
        /// The progress of the reader, if the link reads a stream.
        standing: Option<Standing>,
        /// The filters that the client requested and that are not in effect, with the reasons.
        left_out: Option<Arc<[String]>>,
    },
    /// The link receives direct replies, which pass no queue.
    Replies,
    Management,
}

/// What is known about a connection.
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    pub name: Arc<str>,
    pub user: Arc<str>,
    /// The backend that says what the user may do.
    pub authority: Authority,
    pub vhost: Arc<str>,
    /// True if the windows of the connection's publishers are closed.
    pub blocked: bool,
    /// True if the connection is not read, because one of its channels is ahead of the queues to which it publishes.
    pub held_back: bool,
    /// The number of bytes that the socket has not accepted.
    pub unwritten_bytes: u64,
    /// The shard that serves the connection. A gate does not know it, so the shard sets it.
    pub shard: ShardFacts,
    pub links: Vec<LinkFacts>,
}

impl ConnectionFacts {
    /// Returns whose connection it is.
    pub fn owner(&self) -> UserRef<'_> {
        UserRef { authority: self.authority, name: &self.user }
    }

    /// Returns true if one of the links is this consumer.
    fn has_consumer(&self, id: u64) -> bool {
        self.links.iter().any(|link| matches!(link.role, Role::Consuming { consumer, .. } if consumer == id))
    }
}

/// What is known about a queue.
#[derive(Clone, Debug)]
pub struct QueueFacts {
    pub id: QueueId,
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub report: queue::Report,
    /// The home of the queue. `None` if it has none, or if it is not known yet: see [`Look::set_homes`].
    pub home: Option<ShardFacts>,
    /// The number of messages that the queue has refused within the last minute, because it was at its length limit.
    pub rejected_a_minute: u64,
    /// The number of messages that consumers have given back again and again within the last minute, while none left the queue. 0 if
    /// they are too few to be a loop.
    pub looped_a_minute: u64,
    /// When the queue was looked at, in milliseconds since the epoch.
    pub at_ms: u64,
    /// True if messages wait in the queue until they expire, and go to another queue then.
    pub delays: bool,
}

impl QueueFacts {
    pub fn new(record: &QueueRecord, report: queue::Report, now_ms: u64) -> Self {
        let (vhost, name) = (record.vhost.clone(), record.name.clone());
        let rejected_a_minute = report.rejected.within_a_minute(now_ms);
        let looped_a_minute = trouble::looped_a_minute(&report, now_ms);
        let delays = trouble::is_delay(&record.config, &report);
        Self {
            id: record.id,
            vhost,
            name,
            report,
            home: None,
            rejected_a_minute,
            looped_a_minute,
            at_ms: now_ms,
            delays,
        }
    }

    /// Returns true if the queue refuses messages, or has done so within the last minute.
    fn refuses(&self) -> bool {
        self.report.full || self.rejected_a_minute > 0
    }

    /// Returns true if a message has left the queue since `before`: it was delivered for the first time, or acknowledged. New messages do
    /// not count. Nor do messages that consumers return again and again, or that are dropped to make room. Where no consumer is meant to be, dead letters that have arrived count, too.
    fn has_moved_since(&self, before: &Self) -> bool {
        let taken =
            |q: &Self| (q.report.delivered.saturating_sub(q.report.redelivered), q.report.acknowledged);
        let dies = self.delays || self.report.ready == 0;
        taken(self) != taken(before) || dies && self.report.dead_lettered != before.report.dead_lettered
    }
}

/// What is known about the disk, summed over all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// True if the log accepts nothing new, or if the backlog cannot leave memory.
    pub failed: bool,
    /// The number of receipts that wait for the log, without those of quorum queues.
    pub receipts_held: u64,
    /// The number of times that a Raft group waits for the log to sync what the group has handed over.
    pub groups_held: u64,
    /// The number of receipts that wait for memory.
    pub memory_receipts_held: u64,
}

impl LogFacts {
    /// Adds what is known about another shard.
    pub fn add(&mut self, other: Self) {
        let Self { failed, receipts_held, groups_held, memory_receipts_held } = other;
        self.failed |= failed;
        self.groups_held += groups_held;
        self.receipts_held += receipts_held;
        self.memory_receipts_held += memory_receipts_held;
    }
}

/// A link with its connection, and the queue at its other end if it is known.
#[derive(Clone, Copy, Debug)]
pub struct LinkInPlace<'a> {
    pub connection: &'a ConnectionFacts,
    pub link: &'a LinkFacts,
    pub queue: Option<&'a QueueFacts>,
    /// True if the link has carried a delivery between two inspections.
    pub moved: bool,
}

impl LinkInPlace<'_> {
    /// Returns how many messages the consumer has given back within the last minute. 0 unless the messages of its queue go round.
    fn looped_a_minute(&self) -> u64 {
        match (&self.link.role, self.queue) {
            (Role::Consuming { returned, .. }, Some(queue)) if queue.looped_a_minute > 0 => {
                returned.within_a_minute(queue.at_ms)
            }
            _ => 0,
        }
    }
}

/// Everything that a decision is based on.
#[derive(Clone, Copy, Debug)]
pub enum Facts<'a> {
    Link(LinkInPlace<'a>),
    /// A queue with the links that consume from it.
    Queue {
        queue: &'a QueueFacts,
        consumers: &'a [LinkInPlace<'a>],
        /// True if a message has left the queue between two inspections.
        moved: bool,
        /// True if publishers are stopped, on any shard.
        blocked: bool,
    },
    Connection {
        connection: &'a ConnectionFacts,
        links: &'a [LinkInPlace<'a>],
    },
}

#[cfg(test)]
mod states;
#[cfg(test)]
mod tests;
