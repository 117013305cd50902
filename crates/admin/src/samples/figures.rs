//! The figures that are sampled, by RabbitMQ's names. The same tables make the fields of the answers.

use broker::admin_api::{ConnectionRow, NodeTotals, Overview, PassedCounts, QueueRow, VhostNumbers};
use broker::exchange_counts::ExchangeCounts;

use crate::process::Process;

/// The part of an answer that a figure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Numbers of messages: `queue_totals`, and fields of a queue.
    Lengths,
    /// `message_stats`.
    Messages,
    /// `churn_rates`.
    Churn,
    /// Fields of a connection about its data.
    Data,
    /// Fields of a node about what it uses.
    Node,
}

impl Part {
    /// Returns true if its figures only grow. If such a figure is smaller than before, it has started again, and has the rate 0.
    pub(crate) fn counts(self) -> bool {
        match self {
            Self::Messages | Self::Churn | Self::Data => true,
            Self::Lengths | Self::Node => false,
        }
    }
}

/// A figure of an object, whose rows have the type `R`.
pub(crate) struct Figure<R> {
    pub part: Part,
    pub name: &'static str,
    pub of: fn(&R) -> u64,
}

const fn length<R>(name: &'static str, of: fn(&R) -> u64) -> Figure<R> {
    Figure { part: Part::Lengths, name, of }
}

const fn counter<R>(part: Part, name: &'static str, of: fn(&R) -> u64) -> Figure<R> {
    Figure { part, name, of }
}

const fn usage(name: &'static str, of: fn(&NodeRow) -> u64) -> Figure<NodeRow> {
    Figure { part: Part::Node, name, of }
}

/// The values of all figures of a row.
pub(super) fn values<R, const N: usize>(figures: &[Figure<R>; N], row: &R) -> [u64; N] {
    std::array::from_fn(|i| (figures[i].of)(row))
}

/// What is sampled of a node. Its totals are made once per sample.
pub(crate) struct NodeRow {
    totals: NodeTotals,
    overview: Overview,
    process: Process,
}

impl NodeRow {
    /// `process` is needed for [`Part::Node`] only.
    pub(crate) fn new(overview: Overview, process: Process) -> Self {
        let Overview { counters, depth, sessions, channels, .. } = &overview;
        let totals = NodeTotals::new(counters, *depth, *sessions, *channels);
        Self { totals, overview, process }
    }

    /// A row of another node. Its figures of [`Part::Node`] are unknown.
    pub(crate) fn of_other(totals: NodeTotals) -> Self {
        Self { totals, overview: Overview::default(), process: Process::default() }
    }

    pub(crate) fn totals(&self) -> &NodeTotals {
        &self.totals
    }

    pub(crate) fn overview(&self) -> &Overview {
        &self.overview
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

/// The number of figures of the node.
pub(super) const NODE: usize = 25;

pub(crate) const NODE_FIGURES: [Figure<NodeRow>; NODE] = {
    use Part::{Churn, Messages};
    [
        length("messages", |row| row.totals.depth.messages()),
        length("messages_ready", |row| row.totals.depth.ready),
        length("messages_unacknowledged", |row| row.totals.depth.unsettled),
        counter(Messages, "publish", |row| row.totals.passed.received),
        counter(Messages, "confirm", |row| row.totals.passed.confirmed),
        counter(Messages, "drop_unroutable", |row| row.totals.passed.dropped),
        counter(Messages, "return_unroutable", |row| row.totals.passed.returned),
        counter(Messages, "deliver", |row| row.totals.passed.deliveries.manual_ack),
        counter(Messages, "deliver_no_ack", |row| row.totals.passed.deliveries.auto_ack),
        counter(Messages, "get", |row| row.totals.passed.deliveries.get_manual_ack),
        counter(Messages, "get_no_ack", |row| row.totals.passed.deliveries.get_auto_ack),
        counter(Messages, "get_empty", |row| row.totals.passed.get_empty),
        counter(Messages, "deliver_get", |row| row.totals.passed.deliveries.sent()),
        counter(Messages, "redeliver", |row| row.totals.passed.deliveries.redelivered),
        counter(Messages, "ack", |row| row.totals.passed.deliveries.acknowledged),
        counter(Churn, "connection_created", |row| row.totals.churn.connections_opened),
        counter(Churn, "connection_closed", |row| row.totals.churn.connections_closed),
        counter(Churn, "channel_created", |row| row.totals.churn.channels_opened),
        counter(Churn, "channel_closed", |row| row.totals.churn.channels_closed),
        counter(Churn, "queue_declared", |row| row.totals.churn.queues_declared),
        counter(Churn, "queue_created", |row| row.totals.churn.queues_created),
        counter(Churn, "queue_deleted", |row| row.totals.churn.queues_deleted),
        // 0 where the system does not tell.
        usage("mem_used", |row| row.process.resident_bytes.unwrap_or(0)),
        usage("fd_used", |row| row.process.open_fds.unwrap_or(0)),
        usage("disk_free", |row| row.overview.limits.disk_free),
    ]
};

/// The number of figures of a queue.
pub(super) const QUEUE: usize = 16;

pub(super) const QUEUE_FIGURES: [Figure<QueueRow>; QUEUE] = {
    use Part::Messages;
    [
        length("messages", |q| q.report.messages()),
        length("messages_ready", |q| q.report.ready),
        length("messages_unacknowledged", |q| q.report.unsettled),
        counter(Messages, "publish", |q| q.report.published),
        counter(Messages, "deliver", |q| q.report.delivered_unsettled()),
        counter(Messages, "deliver_no_ack", |q| q.report.delivered_settled - q.report.fetched_settled),
        counter(Messages, "get", |q| q.report.fetched - q.report.fetched_settled),
        counter(Messages, "get_no_ack", |q| q.report.fetched_settled),
        counter(Messages, "deliver_get", |q| q.report.delivered),
        counter(Messages, "redeliver", |q| q.report.redelivered),
        // A message that is settled when it is sent has left the queue, but nobody has acknowledged it.
        counter(Messages, "ack", |q| q.report.acknowledged_by_consumers()),
        counter(Messages, "expired", |q| q.report.expired),
        counter(Messages, "dropped", |q| q.report.dropped),
        counter(Messages, "dead_lettered", |q| q.report.dead_lettered),
        // Not in `publish`: the queue has not taken these messages.
        counter(Messages, "publish_rejected", |q| q.report.rejected.total()),
        counter(Messages, "annotations_refused", |q| q.report.annotations_refused),
    ]
};

/// The number of figures of an exchange.
pub(super) const EXCHANGE: usize = 4;

pub(super) const EXCHANGE_FIGURES: [Figure<ExchangeCounts>; EXCHANGE] = {
    use Part::Messages;
    [
        counter(Messages, "publish_in", |counts| counts.published),
        counter(Messages, "publish_out", |counts| counts.routed),
        counter(Messages, "return_unroutable", |counts| counts.unroutable_returned),
        counter(Messages, "drop_unroutable", |counts| counts.unroutable_dropped),
    ]
};

/// The number of figures of a virtual host, without those of its channels and sessions, which are [`CHANNEL_FIGURES`].
pub(super) const VHOST: usize = 5;

pub(super) const VHOST_FIGURES: [Figure<VhostNumbers>; VHOST] = [
    length("messages", |v| v.depth.messages()),
    length("messages_ready", |v| v.depth.ready),
    length("messages_unacknowledged", |v| v.depth.unsettled),
    counter(Part::Data, "recv_oct", |v| v.recv_bytes),
    counter(Part::Data, "send_oct", |v| v.send_bytes),
];

/// The number of figures of a connection.
pub(super) const CONNECTION: usize = 2;

pub(super) const CONNECTION_FIGURES: [Figure<ConnectionRow>; CONNECTION] =
    [counter(Part::Data, "recv_oct", |c| c.recv_bytes), counter(Part::Data, "send_oct", |c| c.send_bytes)];

/// The number of figures of a channel or a session.
pub(super) const CHANNEL: usize = 12;

pub(super) const CHANNEL_FIGURES: [Figure<PassedCounts>; CHANNEL] = {
    use Part::Messages;
    [
        counter(Messages, "publish", |c| c.received),
        counter(Messages, "confirm", |c| c.confirmed),
        counter(Messages, "return_unroutable", |c| c.returned),
        counter(Messages, "drop_unroutable", |c| c.dropped),
        counter(Messages, "deliver", |c| c.deliveries.manual_ack),
        counter(Messages, "deliver_no_ack", |c| c.deliveries.auto_ack),
        counter(Messages, "get", |c| c.deliveries.get_manual_ack),
        counter(Messages, "get_no_ack", |c| c.deliveries.get_auto_ack),
        counter(Messages, "get_empty", |c| c.get_empty),
        counter(Messages, "deliver_get", |c| c.deliveries.sent()),
        counter(Messages, "redeliver", |c| c.deliveries.redelivered),
        counter(Messages, "ack", |c| c.deliveries.acknowledged),
    ]
};
