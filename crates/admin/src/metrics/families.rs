//! The families of `/metrics/per-object` and `/metrics/detailed`: which measures they have, by RabbitMQ's names.

use broker::admin_api::amqp091_rows::ChannelRow;
use broker::admin_api::{ConnectionRow, GroupRow, ProtocolRow, QueueRow};
use broker::exchange_counts::ExchangeCounts;

use crate::exposition::Kind;

/// A measure of an object whose rows have the type `R`.
pub(super) struct Measure<R: 'static> {
    pub kind: Kind,
    pub name: &'static str,
    pub help: &'static str,
    pub of: R,
}

/// A measure of a connection.
pub(super) type OfConnection = Measure<fn(&ConnectionRow) -> u64>;

/// A measure of a channel.
pub(super) type OfChannel = Measure<fn(&ChannelRow) -> u64>;

/// A measure of an exchange.
pub(super) type OfExchange = Measure<fn(&ExchangeCounts) -> u64>;

/// How to read a measure of a queue.
pub(super) enum OfQueue {
    Queue(fn(&QueueRow) -> u64),
    /// Of queues that have a Raft group.
    Group(fn(&GroupRow) -> u64),
    /// As `Group`, a time in milliseconds.
    GroupTime(fn(&GroupRow) -> u64),
    /// Of queues for which it is known. `None` for others.
    Known(fn(&QueueRow) -> Option<u64>),
    /// The value is 1. The labels `queue_type` and `membership` say more about the queue.
    Info,
}

/// What a measure says of a queue.
pub(super) enum Value {
    Number(u64),
    Milliseconds(u64),
    Info { queue_type: &'static str, membership: &'static str },
}

impl OfQueue {
    /// Returns the value for a queue, or `None` if such a queue has no value.
    pub(super) fn value(&self, row: &QueueRow) -> Option<Value> {
        Some(match self {
            Self::Queue(of) => Value::Number(of(row)),
            Self::Group(of) => Value::Number(of(row.group.as_ref()?)),
            Self::GroupTime(of) => Value::Milliseconds(of(row.group.as_ref()?)),
            Self::Known(of) => Value::Number(of(row)?),
            Self::Info => Value::Info {
                queue_type: match row.kind {
                    "quorum" => "rabbit_quorum_queue",
                    "stream" => "rabbit_stream_queue",
                    _ => "rabbit_classic_queue",
                },
                // The only member of a queue is on this node. That of a damaged queue does not run.
                membership: if row.report.damaged { "undefined" } else { "leader" },
            },
        })
    }
}

/// The measures of a family, by the objects that have them.
pub(super) enum Rows {
    Queues(&'static [Measure<OfQueue>]),
    Connections(&'static [OfConnection]),
    /// Channels of AMQP 0.9.1.
    Channels(&'static [OfChannel]),
    Vhosts,
    ExchangeBindings,
    ExchangeNames,
    Exchanges(&'static [OfExchange]),
    AuthAttempts,
    AuthAttemptsBySource,
    Churn,
    Node,
}

/// A family, as `/metrics/detailed?family=NAME` names it.
pub(super) struct Family {
    pub name: &'static str,
    pub rows: Rows,
    /// True if `/metrics/per-object` has the family. The others may have very many rows.
    pub per_object: bool,
}

const fn family(name: &'static str, per_object: bool, rows: Rows) -> Family {
    Family { name, rows, per_object }
}

const fn gauge<R>(name: &'static str, help: &'static str, of: R) -> Measure<R> {
    Measure { kind: Kind::Gauge, name, help, of }
}

const fn counter<R>(name: &'static str, help: &'static str, of: R) -> Measure<R> {
    Measure { kind: Kind::Counter, name, help, of }
}

use OfQueue::{Group, GroupTime, Info, Known, Queue};

/// All families, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    family("auth_attempt_metrics", true, Rows::AuthAttempts),
    family("auth_attempt_detailed_metrics", true, Rows::AuthAttemptsBySource),
    family("connection_churn_metrics", false, Rows::Churn),
    family("node_coarse_metrics", false, Rows::Node),
    family("queue_coarse_metrics", true, Rows::Queues(COARSE)),
    family("queue_consumer_count", false, Rows::Queues(CONSUMERS)),
    family("queue_metrics", true, Rows::Queues(QUEUE)),
    family("queue_delivery_metrics", true, Rows::Queues(DELIVERY)),
    family("channel_queue_exchange_metrics", true, Rows::Queues(PUBLISHED)),
    family("queue_info", true, Rows::Queues(INFO)),
    family("ra_metrics", true, Rows::Queues(RAFT)),
    family("connection_coarse_metrics", false, Rows::Connections(CONNECTION_COARSE)),
    family("connection_metrics", false, Rows::Connections(CONNECTION)),
    family("channel_metrics", false, Rows::Channels(CHANNEL)),
    family("channel_exchange_metrics", false, Rows::Channels(CHANNEL_PUBLISHED)),
    family("channel_queue_metrics", false, Rows::Channels(CHANNEL_DELIVERED)),
    family("exchange_metrics", false, Rows::Exchanges(EXCHANGE)),
    family("vhost_status", false, Rows::Vhosts),
    family("exchange_bindings", false, Rows::ExchangeBindings),
    family("exchange_names", false, Rows::ExchangeNames),
];

/// The families of queues with which `/metrics/detailed` shows [`INFO`] too, as in RabbitMQ.
pub(super) const WITH_INFO: [&str; 3] = ["queue_coarse_metrics", "queue_consumer_count", "queue_metrics"];

const COARSE: &[Measure<OfQueue>] = &[
    gauge("queue_messages_ready", "Messages ready to be delivered", Queue(|q| q.report.ready)),
    gauge("queue_messages_unacked", "Messages not yet acknowledged", Queue(|q| q.report.unsettled)),
    gauge("queue_messages_delayed", "Messages that wait for their retry", Queue(|q| q.report.delayed)),
    gauge("queue_messages_dlx", "Dead letters that no target has taken yet", Queue(|q| q.report.leaving)),
    gauge(
        "queue_messages",
        "Messages that are ready, unacknowledged, delayed or being dead-lettered",
        Queue(|q| q.report.messages()),
    ),
];

const CONSUMERS: &[Measure<OfQueue>] =
    &[gauge("queue_consumers", "Consumers of a queue", Queue(|q| q.report.consumers as u64))];

const QUEUE: &[Measure<OfQueue>] = &[
    gauge("queue_consumers", "Consumers of a queue", Queue(|q| q.report.consumers as u64)),
    gauge("queue_messages_ready_bytes", "Size of ready messages", Queue(|q| q.report.ready_bytes)),
    gauge(
        "queue_messages_unacked_bytes",
        "Size of unacknowledged messages",
        Queue(|q| q.report.unsettled_bytes),
    ),
    gauge("queue_messages_bytes", "Size of all messages", Queue(|q| q.report.bytes())),
    gauge(
        "queue_head_message_timestamp",
        "When the first message arrived, in seconds since 1970",
        Known(|q| q.report.head_at_ms.map(|ms| ms / 1000)),
    ),
    gauge(
        "stream_segments",
        "Segment files of a stream",
        Known(|q| q.report.stream.as_ref().map(|kept| kept.segments.len() as u64)),
    ),
];

const DELIVERY: &[Measure<OfQueue>] = &[
    counter(
        "queue_get_ack_total",
        "Messages fetched unsettled, for clients to acknowledge",
        Queue(|q| q.report.fetched - q.report.fetched_settled),
    ),
    counter("queue_get_total", "Messages fetched settled", Queue(|q| q.report.fetched_settled)),
    counter(
        "queue_messages_delivered_ack_total",
        "Messages delivered unsettled, for consumers to acknowledge",
        Queue(|q| q.report.delivered_unsettled()),
    ),
    counter(
        "queue_messages_delivered_total",
        "Messages delivered settled",
        Queue(|q| q.report.delivered_settled - q.report.fetched_settled),
    ),
    counter("queue_messages_redelivered_total", "Messages redelivered", Queue(|q| q.report.redelivered)),
    counter(
        "queue_messages_acked_total",
        "Messages acknowledged by consumers",
        Queue(|q| q.report.acknowledged_by_consumers()),
    ),
];

const PUBLISHED: &[Measure<OfQueue>] = &[
    counter("queue_messages_published_total", "Messages published to a queue", Queue(|q| q.report.published)),
    // A queue that refuses nothing has no row.
    counter(
        "queue_messages_publish_rejected_total",
        "Messages that a queue has refused because it was at its length limit",
        Known(|q| Some(q.report.rejected.total()).filter(|count| q.is_rejecting || *count > 0)),
    ),
];

const INFO: &[Measure<OfQueue>] = &[gauge("queue_info", "1 for every queue, with its type", Info)];

const RAFT: &[Measure<OfQueue>] = &[
    gauge("raft_term", "Current term of the Raft group", Group(|g| g.term)),
    gauge("raft_commit_index", "Index of the last committed entry", Group(|g| g.commit_index)),
    gauge("raft_last_applied", "Index of the last applied entry", Group(|g| g.applied_index)),
    gauge("raft_last_written_index", "Index of the last entry that is synced", Group(|g| g.written_index)),
    gauge("raft_snapshot_index", "Index of the newest base of the log", Group(|g| g.base_index)),
    gauge(
        "raft_commit_latency_seconds",
        "Time until an entry was committed",
        GroupTime(|g| g.commit_latency_ms),
    ),
];

const CONNECTION_COARSE: &[OfConnection] = &[
    counter("connection_incoming_bytes_total", "Bytes received on a connection", |c| c.recv_bytes),
    counter("connection_outgoing_bytes_total", "Bytes sent on a connection", |c| c.send_bytes),
];

const CONNECTION: &[OfConnection] =
    &[gauge("connection_channels", "Channels or sessions of a connection", |c| match &c.protocol {
        ProtocolRow::Amqp10(row) => row.sessions.len() as u64,
        ProtocolRow::Amqp091(row) => row.channels.len() as u64,
    })];

const CHANNEL: &[OfChannel] = &[
    gauge("channel_consumers", "Consumers on a channel", |c| c.consumers.len() as u64),
    gauge("channel_messages_unacked", "Delivered but not yet acknowledged messages", |c| c.unsettled as u64),
    gauge("channel_messages_unconfirmed", "Published but not yet confirmed messages", |c| c.unconfirmed),
    gauge("channel_messages_uncommitted", "Messages received in a transaction but not yet committed", |c| {
        c.uncommitted
    }),
    gauge("channel_acks_uncommitted", "Acknowledgements in a transaction that is not yet committed", |c| {
        c.uncommitted_settlements
    }),
    gauge("consumer_prefetch", "Limit of unacknowledged messages of each new consumer", |c| {
        c.prefetch as u64
    }),
    gauge("channel_prefetch", "Limit of unacknowledged messages of all consumers together", |c| {
        c.shared_prefetch as u64
    }),
];

const CHANNEL_PUBLISHED: &[OfChannel] = &[
    counter("channel_messages_published_total", "Messages published on a channel", |c| c.counts.received),
    counter("channel_messages_confirmed_total", "Messages confirmed on a channel", |c| c.counts.confirmed),
    counter(
        "channel_messages_unroutable_returned_total",
        "Messages returned to the publisher as unroutable",
        |c| c.counts.returned,
    ),
    counter("channel_messages_unroutable_dropped_total", "Messages dropped as unroutable", |c| {
        c.counts.dropped
    }),
];

const EXCHANGE: &[OfExchange] = &[
    counter("exchange_messages_published_total", "Messages published to an exchange", |counts| {
        counts.published
    }),
    counter("exchange_messages_routed_total", "Messages routed to queues by an exchange", |counts| {
        counts.routed
    }),
    counter(
        "exchange_messages_unroutable_returned_total",
        "Messages to an exchange returned to the publisher as unroutable",
        |counts| counts.unroutable_returned,
    ),
    counter(
        "exchange_messages_unroutable_dropped_total",
        "Messages to an exchange dropped as unroutable",
        |counts| counts.unroutable_dropped,
    ),
];

const CHANNEL_DELIVERED: &[OfChannel] = &[
    counter("channel_get_ack_total", "Messages fetched unsettled", |c| c.counts.deliveries.get_manual_ack),
    counter("channel_get_total", "Messages fetched settled", |c| c.counts.deliveries.get_auto_ack),
    counter(
        "channel_messages_delivered_ack_total",
        "Messages delivered unsettled, for consumers to acknowledge",
        |c| c.counts.deliveries.manual_ack,
    ),
    counter("channel_messages_delivered_total", "Messages delivered settled", |c| {
        c.counts.deliveries.auto_ack
    }),
    counter("channel_messages_redelivered_total", "Messages redelivered", |c| {
        c.counts.deliveries.redelivered
    }),
    counter("channel_messages_acked_total", "Messages acknowledged", |c| c.counts.deliveries.acknowledged),
    counter("channel_get_empty_total", "Polls that found an empty queue", |c| c.counts.get_empty),
];
