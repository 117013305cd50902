//! Explains why nothing moves: one cause from a closed list, and the numbers behind it.
//!
//! A message passes from its publisher's socket through session, link, queue, link and session to its consumer's
//! socket. At each step, something can stop it. [`Facts`] are what the broker knows about these steps. [`cause`] alone
//! decides which of them is the reason. `docs/operations/slow.md` says what to do about each cause.

mod address;
mod look;
mod shard;

use std::sync::Arc;

use message::DeliveryMax;
use queue::Standing;

use crate::access::{Authority, UserRef};
use crate::catalog::QueueRecord;
use crate::ids::QueueId;

pub use self::address::{AddressCause, AddressFacts};
pub use self::look::{End, Look, Wanted};
pub use self::shard::ShardFacts;

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
    pub const ALL: [Self; 32] = [
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
pub struct Place {
    pub connection: Arc<str>,
    pub session: u16,
    pub handle: u32,
    pub name: String,
}

/// What is known about a link and the session and connection that it uses. In AMQP 0.9.1, each consumer of a channel is a
/// link, and so is its publisher.
#[derive(Clone, Debug)]
pub struct LinkFacts {
    pub place: Place,
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
}

impl QueueFacts {
    pub fn new(record: &QueueRecord, report: queue::Report) -> Self {
        let (vhost, name) = (record.vhost.clone(), record.name.clone());
        Self { id: record.id, vhost, name, report, home: None }
    }

    /// Returns true if no message was added or removed since `before`.
    fn is_unchanged_since(&self, before: &Self) -> bool {
        let counts = |q: &Self| {
            let r = &q.report;
            (r.published, r.delivered, r.acknowledged, r.dropped, r.dead_lettered, r.expired)
        };
        counts(self) == counts(before)
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

/// Everything that a decision is based on.
#[derive(Clone, Copy, Debug)]
pub enum Facts<'a> {
    Link(LinkInPlace<'a>),
    /// A queue with the links that consume from it.
    Queue {
        queue: &'a QueueFacts,
        consumers: &'a [LinkInPlace<'a>],
        moved: bool,
    },
    Connection {
        connection: &'a ConnectionFacts,
        links: &'a [LinkInPlace<'a>],
    },
}

/// Returns the cause, and the link at which it was found.
pub fn cause<'a>(facts: Facts<'a>, log: LogFacts) -> (Cause, Option<&'a Place>) {
    let of = |link: &LinkInPlace<'a>| (link_cause(link, log), Some(&link.link.place));
    match facts {
        Facts::Link(link) => of(&link),
        Facts::Queue { queue, moved: true, .. } => (moving(queue.home), None),
        Facts::Connection { links, .. } if links.iter().any(|l| l.moved) => {
            let slow = links.iter().find(|link| link.moved && link.shard_at_limit().is_some());
            slow.map_or((Cause::Moving, None), of)
        }
        Facts::Queue { queue, consumers, .. } => {
            let report = &queue.report;
            match () {
                () if report.damaged => (Cause::QueueDamaged, None),
                () if log.failed => (Cause::LogFailed, None),
                () if report.ready == 0 => (nothing_ready(report), None),
                () if report.consumers == 0 && report.stream.is_some() => (Cause::NoReader, None),
                () if report.consumers == 0 => (Cause::NoConsumer, None),
                // Consumers that are not the single active one stop nothing, so they are skipped.
                () => consumers
                    .iter()
                    .map(of)
                    .filter(|(cause, _)| *cause != Cause::InactiveConsumer)
                    .max_by_key(|(cause, _)| *cause)
                    // The last consumer has just left, or another one is becoming the active one.
                    .unwrap_or((moving(queue.home), None)),
            }
        }
        Facts::Connection { connection, links, .. } => match () {
            () if connection.unwritten_bytes > 0 => (Cause::SocketNotRead, None),
            () => links.iter().map(of).min_by_key(|(cause, _)| *cause).unwrap_or((Cause::NoLinks, None)),
        },
    }
}

/// Returns the cause if nothing stops the messages that this shard handles.
fn moving(shard: Option<ShardFacts>) -> Cause {
    match shard {
        Some(ShardFacts { is_at_limit: true, .. }) => Cause::ShardAtLimit,
        _ => Cause::Moving,
    }
}

fn link_cause(at: &LinkInPlace<'_>, log: LogFacts) -> Cause {
    let LinkInPlace { connection, link, queue, moved } = at;
    if *moved {
        return moving(at.shard_at_limit());
    }
    if connection.unwritten_bytes > 0 {
        return Cause::SocketNotRead;
    }
    if !link.answered {
        return Cause::AttachUnanswered;
    }
    match &link.role {
        Role::Publishing { unconfirmed, .. } => match () {
            () if log.failed => Cause::LogFailed,
            () if queue.is_some_and(|q| q.report.damaged) => Cause::QueueDamaged,
            () if connection.blocked => Cause::Alarm,
            () if *unconfirmed > 0 && log.memory_receipts_held > 0 => Cause::WaitingForMemory,
            () if *unconfirmed > 0 && queue.is_some_and(|q| q.report.staged > 0) => Cause::WaitingForCommit,
            () if *unconfirmed > 0 && log.receipts_held > 0 => Cause::WaitingForLog,
            // The queue is not known, or its group has just begun to elect its leader.
            () if *unconfirmed > 0 && log.groups_held > 0 => Cause::WaitingForCommit,
            () if *unconfirmed > 0 => Cause::WaitingForReceipts,
            () if connection.held_back => Cause::HeldBack,
            () if link.incomplete_bytes > 0 => Cause::DeliveryIncomplete,
            () if queue.is_some_and(|q| q.report.full) => Cause::QueueFull,
            () if link.credit > 0 => Cause::ClientSilent,
            // The broker grants credit again as soon as nothing is in its way.
            () => moving(at.shard_at_limit()),
        },
        Role::Consuming {
            consumer, unsettled, unsettled_max, message_bytes_max, revoked, standing, ..
        } => {
            if link.waits_for_window() {
                return Cause::ClientWindowClosed;
            }
            let report = queue.map(|q| &q.report);
            let active = report.and_then(|r| r.active_consumer);
            let too_large = report.zip(*message_bytes_max).is_some_and(|(report, max)| match max {
                DeliveryMax::Whole(max) => report.next_bytes > Some(max),
                DeliveryMax::Head(max) => report.next_head_bytes > Some(max),
            });
            match () {
                () if report.is_some_and(|r| r.ready == 0) => report.map_or(Cause::QueueEmpty, nothing_ready),
                () if *standing == Some(Standing::AtEnd) => Cause::EndOfStream,
                () if active.is_some_and(|active| active != *consumer) => Cause::InactiveConsumer,
                () if *revoked > 0 => Cause::ConsumerTimedOut,
                // More credit would bring it nothing.
                () if active.is_some() && report.is_some_and(|r| r.yielding) => Cause::GivingWay,
                () if too_large => Cause::MessageTooLarge,
                // Its settlements may have been sent, but not read.
                () if connection.held_back && (unsettled >= unsettled_max || link.credit == 0) => {
                    Cause::HeldBack
                }
                () if unsettled >= unsettled_max => Cause::UnsettledLimit,
                () if link.credit == 0 => Cause::NoCredit,
                () if report.is_some_and(|r| r.reading) || *standing == Some(Standing::Reading) => {
                    Cause::ReadingBacklog
                }
                () => moving(at.shard_at_limit()),
            }
        }
        Role::Replies => match () {
            () if link.waits_for_window() => Cause::ClientWindowClosed,
            () if link.credit == 0 => Cause::NoCredit,
            () => Cause::QueueEmpty,
        },
        Role::Management => Cause::ClientSilent,
    }
}

/// Returns the reason why a queue has nothing to deliver.
fn nothing_ready(report: &queue::Report) -> Cause {
    match () {
        () if report.staged > 0 => Cause::WaitingForCommit,
        () if report.unsettled > 0 => Cause::AllUnsettled,
        () if report.delayed > 0 => Cause::AllDelayed,
        () if report.leaving > 0 => Cause::DeadLettersLeaving,
        () if report.last_was_over_limit => Cause::OverDeliveryLimit,
        () => Cause::QueueEmpty,
    }
}

/// A cause and the facts that it is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub cause: Cause,
    /// The link at which the cause was found.
    pub at: Option<Place>,
    /// The names and values of the numbers, in the order in which a message passes them. A name ends with its
    /// unit, unless the value is a count.
    pub numbers: Vec<(&'static str, u64)>,
    /// Further remarks about this link, one sentence each.
    pub notes: Vec<String>,
}

impl Explanation {
    /// Decides the cause and collects the numbers of the objects that were inspected.
    pub fn of(facts: Facts<'_>, log: LogFacts) -> Self {
        let (cause, at) = cause(facts, log);
        let mut numbers = Vec::new();
        let mut notes = Vec::new();
        match facts {
            Facts::Link(LinkInPlace { connection, link, queue, .. }) => {
                connection_numbers(connection, &mut numbers);
                link_numbers(link, &mut numbers);
                link_notes(link, &mut notes);
                queue.into_iter().for_each(|queue| queue_numbers(queue, &mut numbers));
            }
            Facts::Queue { queue, consumers, .. } => {
                queue_numbers(queue, &mut numbers);
                let at = consumers.iter().find(|c| Some(&c.link.place) == at);
                if let Some(at) = at {
                    connection_numbers(at.connection, &mut numbers);
                    link_numbers(at.link, &mut numbers);
                    link_notes(at.link, &mut notes);
                }
            }
            Facts::Connection { connection, links, .. } => {
                connection_numbers(connection, &mut numbers);
                numbers.push(("links", links.len() as u64));
                let at = links.iter().find(|l| Some(&l.link.place) == at);
                if let Some(at) = at {
                    link_numbers(at.link, &mut numbers);
                    link_notes(at.link, &mut notes);
                }
            }
        }
        if cause == Cause::ShardAtLimit
            && let Some(shard) = facts.shard_at_limit(|link| Some(&link.link.place) == at)
        {
            numbers.extend(shard.numbers());
        }
        numbers.push(("log_receipts_held", log.receipts_held));
        numbers.push(("log_groups_held", log.groups_held));
        numbers.push(("memory_receipts_held", log.memory_receipts_held));
        Self { cause, at: at.cloned(), numbers, notes }
    }
}

fn connection_numbers(connection: &ConnectionFacts, numbers: &mut Vec<(&'static str, u64)>) {
    numbers.push(("connection_unwritten_bytes", connection.unwritten_bytes));
}

fn link_numbers(link: &LinkFacts, numbers: &mut Vec<(&'static str, u64)>) {
    if let Some(SessionFacts { incoming_window, remote_incoming_window, pending }) = link.session {
        numbers.extend([
            ("session_incoming_window", u64::from(incoming_window)),
            ("session_remote_incoming_window", u64::from(remote_incoming_window)),
            ("session_pending", pending),
        ]);
    }
    numbers.extend([
        ("session_incomplete_bytes", link.incomplete_bytes),
        ("link_credit", u64::from(link.credit)),
        ("link_delivery_count", u64::from(link.delivery_count)),
    ]);
    match &link.role {
        Role::Publishing { unconfirmed, .. } => numbers.push(("link_unconfirmed", u64::from(*unconfirmed))),
        Role::Consuming { unsettled, unsettled_max, message_bytes_max, revoked, .. } => {
            numbers.extend([
                ("link_unsettled", u64::from(*unsettled)),
                ("link_unsettled_max", u64::from(*unsettled_max)),
            ]);
            numbers.extend((*revoked > 0).then_some(("link_revoked", *revoked)));
            numbers.extend(message_bytes_max.map(|max| match max {
                DeliveryMax::Whole(max) => ("link_message_max_bytes", max),
                DeliveryMax::Head(max) => ("link_frame_max_bytes", max),
            }));
        }
        Role::Replies | Role::Management => {}
    }
}

fn link_notes(link: &LinkFacts, notes: &mut Vec<String>) {
    if let Role::Consuming { left_out: Some(filters), .. } = &link.role {
        notes.extend_from_slice(filters);
    }
}

fn queue_numbers(queue: &QueueFacts, numbers: &mut Vec<(&'static str, u64)>) {
    let report = &queue.report;
    numbers.extend([
        ("queue_staged", report.staged),
        ("queue_ready", report.ready),
        ("queue_unsettled", report.unsettled),
        ("queue_delayed", report.delayed),
        ("queue_leaving", report.leaving),
        ("queue_over_limit", report.over_limit),
        ("queue_consumers", u64::from(report.consumers)),
    ]);
    numbers.extend(report.next_bytes.map(|bytes| ("queue_next_bytes", bytes)));
    numbers.extend(report.next_head_bytes.map(|bytes| ("queue_next_header_bytes", bytes)));
}

#[cfg(test)]
mod tests;
