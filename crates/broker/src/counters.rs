//! Plain counters of what passed through the broker. `admin` gives them names and labels.

use catalog::access::{AuthAttempts, Protocol};
use message::DeathReason;
use queue::QueueType;

/// The counters of one shard, or the sum over shards. All of them only grow, except the current numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What passed over each protocol, in the order of [`Protocol::ALL`].
    over: [Traffic; Protocol::ALL.len()],
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
    /// How far the logs of all Raft groups have come.
    pub raft: RaftSums,
    /// The number of replies that were dropped because their link had no credit or did not exist.
    pub replies_dropped: u64,
    /// The number of messages that did not go to a consumer, because they are larger than it accepts.
    pub deliveries_too_large: u64,
    /// The number of messages that queues have refused because they are at a length limit.
    pub publishes_rejected: u64,
    pub connections_opened: u64,
    pub connections_closed: u64,
    /// The number of channels that were opened. RabbitMQ counts sessions of AMQP 1.0 as channels, too.
    pub channels_opened: u64,
    /// The number of channels and sessions that ended, also with their connection.
    pub channels_closed: u64,
    pub deprecated: DeprecatedUses,
    /// The number of accepted declarations of queues over any protocol, including those of existing queues.
    pub queues_declared: u64,
    /// The number of declarations that created a queue.
    pub queues_created: u64,
    pub queues_deleted: u64,
    /// The number of notices (messages of the broker itself) that at least one queue was to get.
    pub notices_published: u64,
    /// The number of notices that were dropped because too many waited, or because an alarm stops publishers.
    pub notices_dropped: u64,
    /// The number of steps that it took to find the routes of messages. A step is one comparison: of a word with a binding key,
    /// of a header with a binding, or of a destination with those found before.
    pub routing_steps: u64,
    /// The number of turns (iterations of an event loop) that were late: see `docs/operations/size.md`, Late turns.
    pub late_turns: u64,
    /// The current number of connections.
    pub connections: u64,
}

/// How far the log of a Raft group has come, or the sum over many groups. Sums only grow: a group whose queue was deleted stays
/// in them, as if its newest base had all its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaftSums {
    pub term: u64,
    /// The index up to which entries are synced.
    pub written_index: u64,
    pub commit_index: u64,
    pub applied_index: u64,
    /// The index of the newest base, which replaces all entries up to it.
    pub base_index: u64,
}

impl RaftSums {
    /// Adds what a group was moved by, from one state of it to a later one.
    pub fn advance(&mut self, from: &Self, to: &Self) {
        self.term += to.term.saturating_sub(from.term);
        self.written_index += to.written_index.saturating_sub(from.written_index);
        self.commit_index += to.commit_index.saturating_sub(from.commit_index);
        self.applied_index += to.applied_index.saturating_sub(from.applied_index);
        self.base_index += to.base_index.saturating_sub(from.base_index);
    }

    /// Adds the sums of another shard.
    fn add(&mut self, other: &Self) {
        self.advance(&Self::default(), other);
    }
}

/// What passed over one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub auth_attempts: AuthAttempts,
    /// The number of messages that publishers sent.
    pub received: u64,
    /// The number of received messages whose publisher wants a receipt.
    pub received_confirm: u64,
    /// The sizes of received messages.
    pub sizes: Sizes,
    /// The number of messages that reached at least one queue.
    pub routed: u64,
    /// The number of receipts that were sent to publishers.
    pub confirmed: u64,
    /// The number of messages that reached no queue and were dropped.
    pub unroutable_dropped: u64,
    /// The number of messages that reached no queue and went back to their publishers.
    pub unroutable_returned: u64,
    pub from_classic: Deliveries,
    pub from_quorum: Deliveries,
    pub from_streams: Deliveries,
    /// Direct replies that were sent to their requesters.
    pub from_volatile: Deliveries,
    /// The number of times that a client asked an empty queue for a message.
    pub get_empty: u64,
    /// The current number of publishers.
    pub publishers: u64,
    /// The current number of consumers.
    pub consumers: u64,
}

/// The sizes of messages, in ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The number of messages of each range, in the order of [`Sizes::UP_TO`]. The last range has all larger ones.
    messages: [u64; Sizes::UP_TO.len() + 1],
    /// The sum of all sizes, in bytes.
    bytes: u64,
}

impl Sizes {
    /// The largest size of each range, in bytes, as in RabbitMQ.
    pub const UP_TO: [u64; 8] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

    /// Counts a message of this size.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        // Most messages are small.
        let range = Self::UP_TO.iter().position(|up_to| bytes <= *up_to).unwrap_or(Self::UP_TO.len());
        self.messages[range] += 1;
        self.bytes += bytes;
    }

    /// Undoes [`Sizes::count`] for a message that will be counted again.
    pub fn take_back(&mut self, bytes: usize) {
        let mut one = Self::default();
        one.count(bytes);
        self.messages.iter_mut().zip(one.messages).for_each(|(sum, one)| *sum -= one);
        self.bytes -= one.bytes;
    }

    /// Returns the number of messages in each range, and the sum of all sizes in bytes.
    pub fn ranges(&self) -> (&[u64], u64) {
        (&self.messages, self.bytes)
    }

    fn add(&mut self, other: &Self) {
        let Self { messages, bytes } = other;
        self.messages.iter_mut().zip(messages).for_each(|(sum, more)| *sum += more);
        self.bytes += bytes;
    }
}

/// Features that clients should no longer use, by RabbitMQ's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deprecated {
    /// A link to an address of format v1.
    AmqpAddressV1,
    /// `basic.qos` with a limit for the whole channel.
    GlobalQos,
    /// The declaration of a queue that is neither durable nor exclusive.
    TransientNonexclQueues,
}

impl Deprecated {
    pub const ALL: [Self; 3] = [Self::AmqpAddressV1, Self::GlobalQos, Self::TransientNonexclQueues];

    /// Returns RabbitMQ's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AmqpAddressV1 => "amqp_address_v1",
            Self::GlobalQos => "global_qos",
            Self::TransientNonexclQueues => "transient_nonexcl_queues",
        }
    }

    /// Returns what the feature is, for people.
    pub const fn description(self) -> &'static str {
        match self {
            Self::AmqpAddressV1 => "Links of AMQP 1.0 to addresses of format v1",
            Self::GlobalQos => "basic.qos with a limit for the whole channel",
            Self::TransientNonexclQueues => "Queues that are neither durable nor exclusive",
        }
    }

    /// Returns true if clients may use the feature unless a setting denies it.
    pub const fn is_permitted_by_default(self) -> bool {
        match self {
            Self::AmqpAddressV1 => false,
            Self::GlobalQos | Self::TransientNonexclQueues => true,
        }
    }
}

/// The number of times that each [`Deprecated`] feature was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeprecatedUses([u64; Deprecated::ALL.len()]);

impl DeprecatedUses {
    /// Counts one use. Returns true if it was the first.
    pub fn count(&mut self, feature: Deprecated) -> bool {
        let uses = &mut self.0[feature as usize];
        *uses += 1;
        *uses == 1
    }

    pub fn of(&self, feature: Deprecated) -> u64 {
        self.0[feature as usize]
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// Messages that were sent to consumers of queues of one type, and their settlements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// The number of messages that were sent unsettled, so that the consumer has to settle them.
    pub manual_ack: u64,
    /// The number of messages that were settled when they were sent.
    pub auto_ack: u64,
    /// As `manual_ack` and `auto_ack`, of messages that a client fetched one by one.
    pub get_manual_ack: u64,
    pub get_auto_ack: u64,
    /// The number of messages, sent in any way, that had been delivered before.
    pub redelivered: u64,
    /// The number of messages that consumers settled as accepted.
    pub acknowledged: u64,
}

impl Deliveries {
    /// Counts a message that was sent to a consumer.
    #[inline]
    pub fn count_sent(&mut self, redelivered: bool, settled: bool) {
        self.redelivered += u64::from(redelivered);
        *if settled { &mut self.auto_ack } else { &mut self.manual_ack } += 1;
    }

    /// Counts a message that a client has fetched.
    #[inline]
    pub fn count_fetched(&mut self, redelivered: bool, settled: bool) {
        self.redelivered += u64::from(redelivered);
        *if settled { &mut self.get_auto_ack } else { &mut self.get_manual_ack } += 1;
    }

    /// Returns the number of all that were sent.
    pub fn sent(&self) -> u64 {
        self.manual_ack + self.auto_ack + self.get_manual_ack + self.get_auto_ack
    }

    /// Adds what was counted elsewhere, perhaps on another node.
    pub fn add(&mut self, other: &Self) {
        let Self { manual_ack, auto_ack, get_manual_ack, get_auto_ack, redelivered, acknowledged } = other;
        self.manual_ack = self.manual_ack.saturating_add(*manual_ack);
        self.auto_ack = self.auto_ack.saturating_add(*auto_ack);
        self.get_manual_ack = self.get_manual_ack.saturating_add(*get_manual_ack);
        self.get_auto_ack = self.get_auto_ack.saturating_add(*get_auto_ack);
        self.redelivered = self.redelivered.saturating_add(*redelivered);
        self.acknowledged = self.acknowledged.saturating_add(*acknowledged);
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

impl Traffic {
    /// Returns the counters for deliveries from queues of this type.
    #[inline]
    pub fn deliveries_from(&mut self, queue_type: QueueType) -> &mut Deliveries {
        match queue_type {
            QueueType::Classic => &mut self.from_classic,
            QueueType::Quorum => &mut self.from_quorum,
            QueueType::Stream => &mut self.from_streams,
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

    fn add(&mut self, other: &Self) {
        let Self {
            auth_attempts,
            received,
            received_confirm,
            sizes,
            routed,
            confirmed,
            unroutable_dropped,
            unroutable_returned,
            from_classic,
            from_quorum,
            from_streams,
            from_volatile,
            get_empty,
            publishers,
            consumers,
        } = other;
        self.auth_attempts.add(*auth_attempts);
        self.received += received;
        self.received_confirm += received_confirm;
        self.sizes.add(sizes);
        self.routed += routed;
        self.confirmed += confirmed;
        self.unroutable_dropped += unroutable_dropped;
        self.unroutable_returned += unroutable_returned;
        self.from_classic.add(from_classic);
        self.from_quorum.add(from_quorum);
        self.from_streams.add(from_streams);
        self.from_volatile.add(from_volatile);
        self.get_empty += get_empty;
        self.publishers += publishers;
        self.consumers += consumers;
    }
}

impl Counters {
    /// Returns what passed over one protocol.
    #[inline]
    pub fn over(&self, protocol: Protocol) -> &Traffic {
        &self.over[protocol as usize]
    }

    /// Returns the counters of what passes over one protocol.
    #[inline]
    pub fn over_mut(&mut self, protocol: Protocol) -> &mut Traffic {
        &mut self.over[protocol as usize]
    }

    /// Returns the sum over all protocols.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        self.over.iter().for_each(|traffic| sum.add(traffic));
        sum
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

    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &Self) {
        let Self {
            over,
            never_written,
            dead_letters_classic,
            dead_letters_quorum,
            dead_letters_kept,
            dead_letters_confirmed,
            raft_entries,
            raft_bytes,
            raft,
            replies_dropped,
            deliveries_too_large,
            publishes_rejected,
            connections_opened,
            connections_closed,
            channels_opened,
            channels_closed,
            deprecated,
            queues_declared,
            queues_created,
            queues_deleted,
            notices_published,
            notices_dropped,
            routing_steps,
            late_turns,
            connections,
        } = other;
        self.over.iter_mut().zip(over).for_each(|(sum, more)| sum.add(more));
        self.never_written += never_written;
        self.dead_letters_classic.add(dead_letters_classic);
        self.dead_letters_quorum.add(dead_letters_quorum);
        self.dead_letters_kept.add(dead_letters_kept);
        self.dead_letters_confirmed += dead_letters_confirmed;
        self.raft_entries += raft_entries;
        self.raft_bytes += raft_bytes;
        self.raft.add(raft);
        self.replies_dropped += replies_dropped;
        self.deliveries_too_large += deliveries_too_large;
        self.publishes_rejected += publishes_rejected;
        self.connections_opened += connections_opened;
        self.connections_closed += connections_closed;
        self.channels_opened += channels_opened;
        self.channels_closed += channels_closed;
        self.deprecated.add(deprecated);
        self.queues_declared += queues_declared;
        self.queues_created += queues_created;
        self.queues_deleted += queues_deleted;
        self.notices_published += notices_published;
        self.notices_dropped += notices_dropped;
        self.routing_steps += routing_steps;
        self.late_turns += late_turns;
        self.connections += connections;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_ranges() {
        let mut sizes = Sizes::default();
        [0, 100, 101, 1_000, 100_000_000, 100_000_001].into_iter().for_each(|bytes| sizes.count(bytes));
        sizes.add(&sizes.clone());
        assert_eq!(sizes.ranges(), (&[4, 4, 0, 0, 0, 0, 0, 2, 2][..], 2 * 200_001_202));
    }
}
