//! `/metrics` and `/metrics/per-object`: the broker's counters under RabbitMQ's names (docs/compatibility.md,
//! Metrics).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use broker::access::Identity;
use broker::counters::{DeadLetters, Deliveries, Deprecated, Protocol, Traffic};
use broker::desk::{Alarms, BudgetRow, Desk, DeskError, GroupRow, Overview, QueueRow};

use tls::Tls;

use crate::attempts::{self, BySource};
use crate::call::Source;
use crate::exposition::{CONTENT_TYPE, Exposition, Kind};
use crate::pages::{self, PAGE_BYTES};
use crate::ports::Counts;
use crate::process::Process;
use crate::reply::{Failure, respond};

/// The most queues that have their own rows. `rabbitmq_queues` says how many queues there are.
const QUEUE_ROWS_MAX: usize = 10_000;

/// The number of rows to request from the desk at once: as many as fit into the page at their usual size in
/// bytes. A page ends with the row that fills it. The rows after it are discarded and requested again.
const BATCH_ROWS: std::ops::RangeInclusive<usize> = 16..=256;
const ROW_BYTES: usize = 80;

const CLASSIC: (&str, &str) = ("queue_type", "rabbit_classic_queue");
const QUORUM: (&str, &str) = ("queue_type", "rabbit_quorum_queue");
const STREAM: (&str, &str) = ("queue_type", "rabbit_stream_queue");
const VOLATILE: (&str, &str) = ("queue_type", "rabbit_volatile_queue");
const QUORUM_QUEUES: (&str, &str) = ("ra_system", "quorum_queues");
const DISABLED: (&str, &str) = ("dead_letter_strategy", "disabled");
const AT_MOST_ONCE: (&str, &str) = ("dead_letter_strategy", "at_most_once");
const AT_LEAST_ONCE: (&str, &str) = ("dead_letter_strategy", "at_least_once");

/// Serves all metrics, with sums over all queues.
pub async fn aggregated<D: Desk>(State(source): State<Source<D>>) -> Response {
    match overview_page(&source, &Identity::metrics_reader()).await {
        Ok((mut page, overview)) => {
            attempts::sums(&mut page, &overview);
            let (ready, unacked) = (overview.messages_ready, overview.messages_unacknowledged);
            for (name, help, value) in [
                ("queue_messages_ready", "Messages ready to be delivered to consumers", ready),
                (
                    "queue_messages_unacked",
                    "Messages delivered to consumers but not yet acknowledged",
                    unacked,
                ),
                ("queue_messages", "Sum of ready and unacknowledged messages", ready + unacked),
            ] {
                page.family(Kind::Gauge, name, help).sample(&[], value);
            }
            answer(page)
        }
        Err(error) => respond(Err(Failure::from(error))),
    }
}

/// Serves the same metrics with rows per queue instead of sums over queues.
pub async fn per_object<D: Desk>(State(source): State<Source<D>>) -> Response {
    let rows = match object_rows(source).await {
        Ok(rows) => rows,
        Err(error) => return respond(Err(Failure::from(error))),
    };
    match pages::body(rows).await {
        Ok(body) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response(),
        Err(failure) => respond(Err(Failure::unavailable(failure.reason))),
    }
}

async fn object_rows<D: Desk>(source: Source<D>) -> Result<PerQueue<D>, DeskError> {
    let who = Identity::metrics_reader();
    let (mut page, overview) = overview_page(&source, &who).await?;
    attempts::by_protocol(&mut page, &overview);
    let sources = BySource::new(source.desk.auth_attempts(&who, &overview.node, true).await?);
    let desk = source.desk;
    Ok(PerQueue { desk, who, page, sources, measure: 0, from: 0, shown: 0, has_groups: false })
}

/// Returns the part that both pages share, and the overview it was made from.
async fn overview_page<D: Desk>(
    Source { desk, ports }: &Source<D>,
    who: &Identity,
) -> Result<(Exposition, Overview), DeskError> {
    let overview = ports.overview(desk, who).await?;
    let mut page = common(&overview, &desk.alarms(who)?, ports.counts());
    certificates(&mut page, ports.certificates());
    Ok((page, overview))
}

fn certificates(page: &mut Exposition, all: &[Arc<Tls>]) {
    if all.is_empty() {
        return;
    }
    // Listeners with other settings may have the same certificates, and a sample must not occur twice.
    let mut files = BTreeMap::new();
    for tls in all {
        for (file, certificate) in tls.certificates() {
            let not_after = u64::try_from(certificate.not_after).unwrap_or(0);
            let (first, has_problem) = files.entry(file.display().to_string()).or_insert((not_after, false));
            *first = not_after.min(*first);
            *has_problem |= tls.problem().is_some();
        }
    }
    let help = "When the certificate of a TLS listener expires, in seconds since the epoch";
    let mut family = page.own_family(Kind::Gauge, "tls_certificate_not_after_seconds", help);
    for (file, (not_after, _)) in &files {
        family.sample(&[("file", file)], *not_after);
    }
    let help = "1 if the files of a TLS listener have changed and cannot be used";
    let mut family = page.own_family(Kind::Gauge, "tls_certificate_problem", help);
    for (file, (_, has_problem)) in &files {
        family.sample(&[("file", file)], u64::from(*has_problem));
    }
}

/// Generates every measure of every queue. All samples of a family must be together, so the queues are walked
/// once per family. No row is kept for the next family: a response that nobody reads would keep it in memory.
struct PerQueue<D> {
    desk: D,
    who: Identity,
    page: Exposition,
    /// The rows of sources of logins, which come first.
    sources: BySource,
    /// The index of the current measure in [`MEASURES`].
    measure: usize,
    /// The next queue to request from the desk.
    from: usize,
    /// The number of queues seen for this measure.
    shown: usize,
    /// True if one of the queues has a Raft group.
    has_groups: bool,
}

impl<D: Desk> pages::Source for PerQueue<D> {
    async fn next_page(mut self) -> Result<(String, Option<Self>), Failure> {
        if !self.sources.add_to(&mut self.page) {
            return Ok((std::mem::take(&mut self.page).into_text(), Some(self)));
        }
        while let Some((kind, name, help, figure)) = MEASURES.get(self.measure) {
            if !matches!(figure, Figure::Queue(_)) && !self.has_groups {
                self.measure += 1;
                continue;
            }
            let room = PAGE_BYTES.saturating_sub(self.page.len());
            if room == 0 {
                return Ok((std::mem::take(&mut self.page).into_text(), Some(self)));
            }
            let limit = (room / ROW_BYTES).clamp(*BATCH_ROWS.start(), *BATCH_ROWS.end());
            let limit = limit.min(QUEUE_ROWS_MAX - self.shown);
            let rows = self.desk.queue_rows(&self.who, self.from, limit).await?;
            let mut family = match self.shown {
                0 => self.page.family(*kind, name, help),
                _ => self.page.same_family(name),
            };
            let mut used = 0;
            for (place, row) in &rows {
                let labels = [("vhost", &*row.vhost), ("queue", &*row.name)];
                self.has_groups |= row.group.is_some();
                match (figure, &row.group) {
                    (Figure::Queue(of), _) => _ = family.sample(&labels, of(row)),
                    (Figure::Group(of), Some(group)) => _ = family.sample(&labels, of(group)),
                    (Figure::GroupTime(of), Some(group)) => _ = family.sample_ms(&labels, of(group)),
                    (Figure::Group(_) | Figure::GroupTime(_), None) => {}
                }
                (used, self.from) = (used + 1, place + 1);
                if family.page_len() >= PAGE_BYTES {
                    break;
                }
            }
            self.shown += used;
            let is_last = used == rows.len() && rows.len() < limit;
            if is_last || self.shown == QUEUE_ROWS_MAX {
                (self.measure, self.from, self.shown) = (self.measure + 1, 0, 0);
            }
        }
        Ok((self.page.into_text(), None))
    }
}

fn answer(page: Exposition) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.into_text()).into_response()
}

fn common(overview: &Overview, alarms: &Alarms, http: Counts) -> Exposition {
    let mut page = Exposition::default();
    page.family(Kind::Gauge, "build_info", "Product and version").sample(
        &[
            ("product_name", &overview.product),
            ("product_version", &overview.product_version),
            ("rabbitmq_version", &overview.product_version),
            ("sluice_version", &overview.sluice_version),
        ],
        1,
    );
    page.family(Kind::Gauge, "identity_info", "Node and cluster identity").sample(
        &[
            ("rabbitmq_node", &overview.node),
            ("rabbitmq_cluster", &overview.cluster_name),
            ("sluice_node_id", &overview.node_id),
        ],
        1,
    );
    global(&mut page, overview);
    node(&mut page, overview, alarms);
    for (name, help, value) in [
        ("http_connections_evicted_total", "HTTP connections closed to make room for others", http.evicted),
        ("http_connections_refused_total", "HTTP connections refused for lack of room", http.refused),
    ] {
        page.own_family(Kind::Counter, name, help).sample(&[], value);
    }
    page
}

/// The protocols that carry messages.
const MESSAGING: [Protocol; 2] = [Protocol::Amqp10, Protocol::Amqp091];

/// A figure of each protocol: kind, name, help, and how to read it.
type ByProtocol = (Kind, &'static str, &'static str, fn(&Traffic) -> u64);

const TRAFFIC: &[ByProtocol] = {
    use Kind::{Counter, Gauge};
    &[
        (Counter, "global_messages_received_total", "Messages received from publishers", |t| t.received),
        (
            Counter,
            "global_messages_received_confirm_total",
            "Messages received from publishers expecting confirmations",
            |t| t.received_confirm,
        ),
        (Counter, "global_messages_routed_total", "Messages routed to queues or streams", |t| t.routed),
        (Counter, "global_messages_unroutable_dropped_total", "Messages dropped as unroutable", |t| {
            t.unroutable_dropped
        }),
        (
            Counter,
            "global_messages_unroutable_returned_total",
            "Messages returned to the publisher as unroutable",
            |t| t.unroutable_returned,
        ),
        (Counter, "global_messages_confirmed_total", "Messages confirmed to publishers", |t| t.confirmed),
        (Counter, "global_messages_get_empty_total", "Empty queues found by polling clients", |t| {
            t.get_empty
        }),
        (Gauge, "global_publishers", "Current number of publishers", |t| t.publishers),
        (Gauge, "global_consumers", "Current number of consumers", |t| t.consumers),
    ]
};

/// A counter for each type of queue: name, help, and how to read it.
type ByType = (&'static str, &'static str, fn(&Deliveries) -> u64);

const DELIVERIES: &[ByType] = &[
    ("delivered", "Messages delivered to consumers", Deliveries::sent),
    ("delivered_consume_manual_ack", "Messages delivered unsettled, for consumers to acknowledge", |d| {
        d.manual_ack
    }),
    ("delivered_consume_auto_ack", "Messages delivered settled", |d| d.auto_ack),
    ("delivered_get_manual_ack", "Messages fetched unsettled, for clients to acknowledge", |d| {
        d.get_manual_ack
    }),
    ("delivered_get_auto_ack", "Messages fetched settled", |d| d.get_auto_ack),
    ("redelivered", "Messages redelivered to consumers", |d| d.redelivered),
    ("acknowledged", "Messages acknowledged by consumers", |d| d.acknowledged),
];

fn global(page: &mut Exposition, overview: &Overview) {
    let c = &overview.counters;
    let traffic = MESSAGING.map(|protocol| (("protocol", protocol.as_str()), c.over(protocol)));
    for (kind, name, help, of) in TRAFFIC {
        let mut family = page.family(*kind, name, help);
        for (protocol, traffic) in &traffic {
            family.sample(&[*protocol], of(traffic));
        }
    }
    for (name, help, of) in DELIVERIES {
        let mut family = page.family(Kind::Counter, &format!("global_messages_{name}_total"), help);
        for (protocol, traffic) in &traffic {
            for (queue_type, deliveries) in [
                (CLASSIC, traffic.from_classic),
                (QUORUM, traffic.from_quorum),
                (STREAM, traffic.from_streams),
                (VOLATILE, traffic.from_volatile),
            ] {
                family.sample(&[*protocol, queue_type], of(&deliveries));
            }
        }
    }
    let never_written = "Durable messages settled before they were written to disk";
    page.own_family(Kind::Counter, "global_messages_never_written_total", never_written)
        .sample(&[CLASSIC], c.never_written);
    // Expired, rejected and dropped messages by type of queue. A direct reply whose link has no credit is
    // dropped. It counts as `maxlen`, as in RabbitMQ.
    let sources = [
        ([CLASSIC, AT_MOST_ONCE], c.dead_letters_classic),
        ([QUORUM, AT_MOST_ONCE], c.dead_letters_quorum),
        ([QUORUM, AT_LEAST_ONCE], c.dead_letters_kept),
    ];
    for (name, help, of) in DEAD_LETTERS {
        let mut family =
            page.family(Kind::Counter, &format!("global_messages_dead_lettered_{name}_total"), help);
        for (labels, letters) in &sources {
            // Classic queues have no limit of deliveries.
            if !(*name == "delivery_limit" && labels[0] == CLASSIC) {
                family.sample(labels, of(letters));
            }
        }
        if *name == "maxlen" {
            family.sample(&[VOLATILE, DISABLED], c.replies_dropped);
        }
    }
    let confirmed = "Dead letters that were kept until all their targets had taken them";
    page.family(Kind::Counter, "global_messages_dead_lettered_confirmed_total", confirmed)
        .sample(&[QUORUM, AT_LEAST_ONCE], c.dead_letters_confirmed);
}

/// A reason for dead letters: the name of its metric, help, and how to read it.
type DeadLetterFigure = (&'static str, &'static str, fn(&DeadLetters) -> u64);

const DEAD_LETTERS: &[DeadLetterFigure] = &[
    ("expired", "Messages dead-lettered because they expired", |d| d.expired),
    ("rejected", "Messages dead-lettered because a consumer rejected them", |d| d.rejected),
    ("maxlen", "Messages dead-lettered because the queue was too long", |d| d.maxlen),
    ("delivery_limit", "Messages dead-lettered because they failed too often", |d| d.delivery_limit),
];

/// A figure of a budget: name, help, and how to read it.
type BudgetFigure = (&'static str, &'static str, fn(&BudgetRow) -> u64);

/// The figures of every memory budget.
const BUDGETS: &[BudgetFigure] = &[
    ("budget_used_bytes", "Memory that the node uses for clients, by kind", |row| row.used),
    ("budget_limit_bytes", "Limit of the memory that the node uses for clients, by kind", |row| row.limit),
];

fn node(page: &mut Exposition, overview: &Overview, alarms: &Alarms) {
    let c = &overview.counters;
    let counters = [
        ("connections_opened_total", "Connections opened", c.connections_opened),
        ("connections_closed_total", "Connections closed or terminated", c.connections_closed),
        ("channels_opened_total", "Channels and sessions opened", c.channels_opened),
        ("queues_declared_total", "Queues declared", c.queues_declared),
        ("queues_created_total", "Queues created", c.queues_created),
        ("queues_deleted_total", "Queues deleted", c.queues_deleted),
    ];
    for (name, help, value) in counters {
        page.family(Kind::Counter, name, help).sample(&[], value);
    }
    let evicted = "Connections closed before they logged in, to make room for others";
    page.own_family(Kind::Counter, "handshakes_evicted_total", evicted)
        .sample(&[], overview.handshakes_evicted);
    let uses = "Uses of features that clients should no longer use";
    let mut family = page.own_family(Kind::Counter, "deprecated_feature_uses_total", uses);
    for feature in Deprecated::ALL {
        family.sample(&[("feature", feature.as_str())], c.deprecated.of(feature));
    }
    let gauges = [
        ("connections", "Connections currently open", overview.connections),
        ("channels", "Channels and sessions currently open", overview.sessions),
        ("consumers", "Consumers currently connected", overview.consumers),
        ("queues", "Queues available", overview.queues),
    ];
    for (name, help, value) in gauges {
        page.family(Kind::Gauge, name, help).sample(&[], value);
    }
    for (name, help, of) in BUDGETS {
        let mut family = page.own_family(Kind::Gauge, name, help);
        for row in &overview.budgets {
            family.sample(&[("budget", row.name)], of(row));
        }
    }
    raft(page, overview);
    let process = Process::read();
    let known = [
        ("process_resident_memory_bytes", "Memory used in bytes", process.resident_bytes),
        ("process_open_fds", "Open file descriptors", process.open_fds),
        ("process_max_fds", "Open file descriptors limit", process.max_fds),
    ];
    for (name, help, value) in known {
        if let Some(value) = value {
            page.family(Kind::Gauge, name, help).sample(&[], value);
        }
    }
    page.family(
        Kind::Gauge,
        "alarms_file_descriptor_limit",
        "1 if connections are not accepted because file descriptors run short",
    )
    .sample(&[], overview.accepting_paused.into());
    for (name, help, kind) in [
        ("alarms_memory_used_watermark", "1 if the memory alarm is in effect", "memory"),
        ("alarms_free_disk_space_watermark", "1 if the disk alarm is in effect", "disk"),
    ] {
        let on = alarms.iter().any(|(alarm, node)| *alarm == kind && *node == overview.node);
        page.family(Kind::Gauge, name, help).sample(&[], on.into());
    }
}

/// The sums over all Raft groups. RabbitMQ's names of these counters have no suffix.
fn raft(page: &mut Exposition, overview: &Overview) {
    let c = &overview.counters;
    for (name, help, value) in [
        ("raft_entries", "Entries handed to the log", c.raft_entries),
        ("raft_bytes_written", "Size of the entries handed to the log", c.raft_bytes),
    ] {
        page.family(Kind::Counter, name, help).sample(&[QUORUM_QUEUES], value);
    }
    let latency = "Longest time until an entry was committed, during the last seconds";
    page.family(Kind::Gauge, "raft_max_commit_latency_seconds", latency)
        .sample_ms(&[QUORUM_QUEUES], overview.commit_latency_ms);
}

/// A measure of a queue: kind, name, help, and how to read it.
type Measure = (Kind, &'static str, &'static str, Figure);

/// How to read a measure.
enum Figure {
    Queue(fn(&QueueRow) -> u64),
    /// Of queues that have a Raft group.
    Group(fn(&GroupRow) -> u64),
    /// As `Group`, a time in milliseconds.
    GroupTime(fn(&GroupRow) -> u64),
}

const MEASURES: &[Measure] = {
    use Figure::{Group, GroupTime, Queue};
    use Kind::{Counter, Gauge};
    &[
        (Gauge, "queue_messages_ready", "Messages ready to be delivered", Queue(|q| q.report.ready)),
        (Gauge, "queue_messages_unacked", "Messages not yet acknowledged", Queue(|q| q.report.unsettled)),
        (Gauge, "queue_messages_delayed", "Messages that wait for their retry", Queue(|q| q.report.delayed)),
        (
            Gauge,
            "queue_messages",
            "Ready, unacknowledged and delayed messages",
            Queue(|q| q.report.ready + q.report.unsettled + q.report.delayed),
        ),
        (Gauge, "queue_messages_ready_bytes", "Size of ready messages", Queue(|q| q.report.ready_bytes)),
        (
            Gauge,
            "queue_messages_unacked_bytes",
            "Size of unacknowledged messages",
            Queue(|q| q.report.unsettled_bytes),
        ),
        (
            Gauge,
            "queue_messages_bytes",
            "Size of ready and unacknowledged messages",
            Queue(|q| q.report.ready_bytes + q.report.unsettled_bytes),
        ),
        (Gauge, "queue_consumers", "Consumers of a queue", Queue(|q| q.report.consumers.into())),
        (
            Counter,
            "queue_messages_published_total",
            "Messages published to a queue",
            Queue(|q| q.report.published),
        ),
        (
            Counter,
            "queue_messages_delivered_total",
            "Messages delivered to consumers",
            Queue(|q| q.report.delivered),
        ),
        (
            Counter,
            "queue_messages_redelivered_total",
            "Messages redelivered",
            Queue(|q| q.report.redelivered),
        ),
        (Counter, "queue_messages_acked_total", "Messages acknowledged", Queue(|q| q.report.acknowledged)),
        (Gauge, "raft_term", "Current term of the Raft group", Group(|g| g.term)),
        (Gauge, "raft_commit_index", "Index of the last committed entry", Group(|g| g.commit_index)),
        (Gauge, "raft_last_applied", "Index of the last applied entry", Group(|g| g.applied_index)),
        (
            Gauge,
            "raft_last_written_index",
            "Index of the last entry that is synced",
            Group(|g| g.written_index),
        ),
        (Gauge, "raft_snapshot_index", "Index of the newest base of the log", Group(|g| g.base_index)),
        (
            Gauge,
            "raft_commit_latency_seconds",
            "Time until an entry was committed",
            GroupTime(|g| g.commit_latency_ms),
        ),
    ]
};
