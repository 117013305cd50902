//! Plain counters of what passed through the broker. `admin` gives them names and labels.

use message::DeathReason;
use queue::QueueType;

/// The counters of one shard, or the sum over shards. All of them only grow, except the last three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of messages that publishers sent.
    pub received: u64,
    /// The number of received messages whose publisher wants a receipt.
    pub received_confirm: u64,
    /// The number of messages that reached at least one queue.
    pub routed: u64,
    /// The number of receipts that were sent to publishers.
    pub confirmed: u64,
    /// The number of settled messages that reached no queue.
    pub unroutable_dropped: u64,
    /// The number of unsettled messages that reached no queue and were released.
    pub unroutable_returned: u64,
    pub from_classic: Deliveries,
    pub from_quorum: Deliveries,
    pub from_streams: Deliveries,
    /// Direct replies that were sent to their requesters.
    pub from_volatile: Deliveries,
    /// The number of durable messages that were settled or dropped before they were written.
    pub never_written: u64,
    /// Dead letters of classic queues.
    pub dead_letters_classic: DeadLetters,
    /// Dead letters of quorum queues that were sent once.
    pub dead_letters_quorum: DeadLetters,
    /// Dead letters of quorum queues that are kept until all their targets have taken them.
    pub dead_letters_kept: DeadLetters,
    /// The number of dead letters that were kept, and that all their targets have taken.
    pub dead_letters_confirmed: u64,
    /// The number of entries that Raft groups have handed to the log, and the size of their facts in bytes.
    pub raft_entries: u64,
    pub raft_bytes: u64,
    /// The number of replies that were dropped because their link had no credit or did not exist.
    pub replies_dropped: u64,
    /// Logins over AMQP 1.0 and over AMQP 0.9.1.
    pub auth_attempts: [AuthAttempts; 2],
    pub connections_opened: u64,
    pub connections_closed: u64,
    /// The number of channels that were opened. RabbitMQ counts sessions of AMQP 1.0 as channels, too.
    pub channels_opened: u64,
    pub deprecated: DeprecatedUses,
    /// The number of accepted declarations of queues over any protocol, including those of existing queues.
    pub queues_declared: u64,
    /// The number of declarations that created a queue.
    pub queues_created: u64,
    pub queues_deleted: u64,
    /// The current number of connections. The next two fields are current numbers, too.
    pub connections: u64,
    pub publishers: u64,
    pub consumers: u64,
}

/// The protocols over which clients log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Amqp10,
    Amqp091,
    Http,
}

impl Protocol {
    /// Returns RabbitMQ's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amqp10 => "amqp10",
            Self::Amqp091 => "amqp091",
            Self::Http => "http",
        }
    }
}

/// The number of logins: over one protocol, or from one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthAttempts {
    /// All of them. A login whose client left before it was checked neither succeeded nor failed.
    pub all: u64,
    pub succeeded: u64,
    pub failed: u64,
}

impl AuthAttempts {
    pub fn add(&mut self, other: Self) {
        let Self { all, succeeded, failed } = other;
        self.all += all;
        self.succeeded += succeeded;
        self.failed += failed;
    }

    /// Counts a login and its result.
    pub fn count(&mut self, succeeded: bool) {
        self.all += 1;
        *if succeeded { &mut self.succeeded } else { &mut self.failed } += 1;
    }

    /// Returns the number of logins after an `earlier` time. A login that was being checked at that time counts as one after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let succeeded = self.succeeded.saturating_sub(earlier.succeeded);
        let failed = self.failed.saturating_sub(earlier.failed);
        let all = self.all.saturating_sub(earlier.all).max(succeeded + failed);
        Self { all, succeeded, failed }
    }
}

/// Features that clients should no longer use, by RabbitMQ's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deprecated {
    /// `amqp_address_v1`: a link to an address of format v1.
    AmqpAddressV1,
}

/// The number of times that each [`Deprecated`] feature was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeprecatedUses {
    amqp_address_v1: u64,
}

impl DeprecatedUses {
    /// Counts one use. Returns true if it was the first.
    pub fn count(&mut self, feature: Deprecated) -> bool {
        let uses = match feature {
            Deprecated::AmqpAddressV1 => &mut self.amqp_address_v1,
        };
        *uses += 1;
        *uses == 1
    }

    pub fn of(&self, feature: Deprecated) -> u64 {
        match feature {
            Deprecated::AmqpAddressV1 => self.amqp_address_v1,
        }
    }

    fn add(&mut self, other: &Self) {
        let Self { amqp_address_v1 } = other;
        self.amqp_address_v1 += amqp_address_v1;
    }
}

/// Messages that were sent to consumers of queues of one type, and their settlements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// The number of messages that were sent unsettled, so that the consumer has to settle them.
    pub manual_ack: u64,
    /// The number of messages that were settled when they were sent.
    pub auto_ack: u64,
    /// The number of messages, sent in either way, that had been delivered before.
    pub redelivered: u64,
    /// The number of messages that consumers settled as accepted.
    pub acknowledged: u64,
}

impl Deliveries {
    pub fn sent(&self) -> u64 {
        self.manual_ack + self.auto_ack
    }

    fn add(&mut self, other: &Self) {
        let Self { manual_ack, auto_ack, redelivered, acknowledged } = other;
        self.manual_ack += manual_ack;
        self.auto_ack += auto_ack;
        self.redelivered += redelivered;
        self.acknowledged += acknowledged;
    }
}

/// The number of messages that were dead-lettered, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetters {
    pub expired: u64,
    pub rejected: u64,
    pub maxlen: u64,
    pub delivery_limit: u64,
}

impl DeadLetters {
    pub fn count(&mut self, reason: DeathReason) {
        *match reason {
            DeathReason::Expired => &mut self.expired,
            DeathReason::Rejected => &mut self.rejected,
            DeathReason::MaxLength => &mut self.maxlen,
            DeathReason::DeliveryLimit => &mut self.delivery_limit,
        } += 1;
    }

    fn add(&mut self, other: &Self) {
        let Self { expired, rejected, maxlen, delivery_limit } = other;
        self.expired += expired;
        self.rejected += rejected;
        self.maxlen += maxlen;
        self.delivery_limit += delivery_limit;
    }
}

impl Counters {
    /// Returns the logins over a protocol; `None` for HTTP, whose logins are counted elsewhere.
    pub fn attempts_over(&mut self, protocol: Protocol) -> Option<&mut AuthAttempts> {
        match protocol {
            Protocol::Amqp10 => Some(&mut self.auth_attempts[0]),
            Protocol::Amqp091 => Some(&mut self.auth_attempts[1]),
            Protocol::Http => None,
        }
    }

    /// Returns the counters for dead letters of queues of this type. `keeps` says that they are kept until all targets have
    /// taken them.
    pub fn dead_letters_of(&mut self, of: QueueType, keeps: bool) -> &mut DeadLetters {
        match (of, keeps) {
            (QueueType::Quorum, true) => &mut self.dead_letters_kept,
            (QueueType::Quorum, false) => &mut self.dead_letters_quorum,
            (QueueType::Classic | QueueType::Stream, _) => &mut self.dead_letters_classic,
        }
    }

    /// Returns the sum over queues of all types.
    pub fn deliveries(&self) -> Deliveries {
        let mut sum = self.from_classic;
        sum.add(&self.from_quorum);
        sum.add(&self.from_streams);
        sum.add(&self.from_volatile);
        sum
    }

    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &Self) {
        let Self {
            received,
            received_confirm,
            routed,
            confirmed,
            unroutable_dropped,
            unroutable_returned,
            from_classic,
            from_quorum,
            from_streams,
            from_volatile,
            never_written,
            dead_letters_classic,
            dead_letters_quorum,
            dead_letters_kept,
            dead_letters_confirmed,
            raft_entries,
            raft_bytes,
            replies_dropped,
            auth_attempts,
            connections_opened,
            connections_closed,
            channels_opened,
            deprecated,
            queues_declared,
            queues_created,
            queues_deleted,
            connections,
            publishers,
            consumers,
        } = other;
        let pairs: [(&mut u64, &u64); 20] = [
            (&mut self.received, received),
            (&mut self.received_confirm, received_confirm),
            (&mut self.routed, routed),
            (&mut self.confirmed, confirmed),
            (&mut self.unroutable_dropped, unroutable_dropped),
            (&mut self.unroutable_returned, unroutable_returned),
            (&mut self.never_written, never_written),
            (&mut self.dead_letters_confirmed, dead_letters_confirmed),
            (&mut self.raft_entries, raft_entries),
            (&mut self.raft_bytes, raft_bytes),
            (&mut self.replies_dropped, replies_dropped),
            (&mut self.connections_opened, connections_opened),
            (&mut self.connections_closed, connections_closed),
            (&mut self.channels_opened, channels_opened),
            (&mut self.queues_declared, queues_declared),
            (&mut self.queues_created, queues_created),
            (&mut self.queues_deleted, queues_deleted),
            (&mut self.connections, connections),
            (&mut self.publishers, publishers),
            (&mut self.consumers, consumers),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
        self.auth_attempts.iter_mut().zip(auth_attempts).for_each(|(sum, more)| sum.add(*more));
        self.deprecated.add(deprecated);
        self.dead_letters_classic.add(dead_letters_classic);
        self.dead_letters_quorum.add(dead_letters_quorum);
        self.dead_letters_kept.add(dead_letters_kept);
        self.from_classic.add(from_classic);
        self.from_quorum.add(from_quorum);
        self.from_streams.add(from_streams);
        self.from_volatile.add(from_volatile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_from_a_time_on() {
        let attempts = |all, succeeded, failed| AuthAttempts { all, succeeded, failed };
        assert_eq!(attempts(9, 5, 3).since(attempts(4, 2, 2)), attempts(5, 3, 1));
        // This one was being checked at that time.
        assert_eq!(attempts(4, 2, 2).since(attempts(4, 2, 1)), attempts(1, 0, 1));
        let mut counted = AuthAttempts::default();
        [true, false, true].into_iter().for_each(|succeeded| counted.count(succeeded));
        assert_eq!(counted, attempts(3, 2, 1));
    }
}
