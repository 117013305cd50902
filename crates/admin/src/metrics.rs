//! `/metrics`, `/metrics/per-object`, `/metrics/detailed` and `/metrics/memory-breakdown`: the broker's counters under
//! RabbitMQ's names (docs/compatibility.md, Metrics).

mod cluster;
mod families;
mod filter;
mod listed;
mod node;
mod objects;
mod queues;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use broker::admin_api::Overview;
use broker::counters::{DeadLetters, Deliveries, Sizes, Traffic};
use catalog::access::{Identity, Protocol};
use catalog::pattern::Pattern;

use tls::Tls;

use self::families::{FAMILIES, Family, WITH_INFO};
use self::filter::Filter;
use self::objects::Objects;
use crate::attempts;
use crate::call::Source;
use crate::exposition::{CONTENT_TYPE, Exposition, Kind};
use crate::pages;
use crate::ports::Counts;
use crate::process::Process;
use crate::query::Query;
use crate::reply::{Failure, respond};

/// The longest pattern for the names of queues in a request, in bytes. No name is longer.
const PATTERN_BYTES_MAX: usize = 255;

const CLASSIC: (&str, &str) = ("queue_type", "rabbit_classic_queue");
const QUORUM: (&str, &str) = ("queue_type", "rabbit_quorum_queue");
const STREAM: (&str, &str) = ("queue_type", "rabbit_stream_queue");
const VOLATILE: (&str, &str) = ("queue_type", "rabbit_volatile_queue");
const DISABLED: (&str, &str) = ("dead_letter_strategy", "disabled");
const AT_MOST_ONCE: (&str, &str) = ("dead_letter_strategy", "at_most_once");
const AT_LEAST_ONCE: (&str, &str) = ("dead_letter_strategy", "at_least_once");

/// Serves all metrics, with sums over all queues.
pub(crate) async fn aggregated(State(source): State<Source>) -> Response {
    answer(async {
        let (mut page, overview) = node_page(&source, "aggregated").await?;
        attempts::sums(&mut page, &overview);
        node::raft_sums(&mut page, &overview);
        let depth = overview.depth;
        let all = "Messages that are ready, unacknowledged, delayed or being dead-lettered";
        for (name, help, value) in [
            ("queue_messages_ready", "Messages ready to be delivered to consumers", depth.ready),
            (
                "queue_messages_unacked",
                "Messages delivered to consumers but not yet acknowledged",
                depth.unsettled,
            ),
            ("queue_messages_delayed", "Messages that wait for their retry", depth.delayed),
            ("queue_messages_dlx", "Dead letters that no target has taken yet", depth.leaving),
            ("queue_messages", all, depth.messages()),
        ] {
            page.family(Kind::Gauge, name, help).sample(&[], value);
        }
        Ok(axum::body::Body::from(page.into_text()))
    })
    .await
}

/// Serves the same metrics with rows per queue instead of sums over queues.
pub(crate) async fn per_object(State(source): State<Source>) -> Response {
    answer(async {
        let page = node_page(&source, "per-object").await?;
        let families = FAMILIES.iter().filter(|family| family.per_object).collect();
        let from = (source.api, Identity::metrics_reader(), source.ports);
        pages::body(Objects::new(from, Filter::default(), "rabbitmq_", page, families)).await
    })
    .await
}

/// Serves the families that a request names with `family`, each with a row for every object. `vhost` may occur several
/// times. `queue` is a pattern that names of queues match. Families that the broker does not have are left out, as in
/// RabbitMQ.
pub(crate) async fn detailed(State(source): State<Source>, RawQuery(query): RawQuery) -> Response {
    answer(async {
        let query = Query::parse(&query.unwrap_or_default());
        let mut wanted: Vec<&str> = query.all("family").collect();
        if wanted.iter().any(|name| WITH_INFO.contains(name)) {
            wanted.push("queue_info");
        }
        // `queue_metrics` has everything that `queue_consumer_count` has.
        let is_double =
            |family: &Family| family.name == "queue_consumer_count" && wanted.contains(&"queue_metrics");
        let families =
            FAMILIES.iter().filter(|family| wanted.contains(&family.name) && !is_double(family)).collect();
        let filter = filter(&query)?;
        let overview = source.ports.overview(&source.api, &Identity::metrics_reader()).await?;
        let mut page = Exposition::default();
        identity(&mut page, &overview, "detailed");
        let from = (source.api, Identity::metrics_reader(), source.ports);
        pages::body(Objects::new(from, filter, "rabbitmq_detailed_", (page, overview), families)).await
    })
    .await
}

/// Serves what the memory of the node is used for.
pub(crate) async fn memory_breakdown(State(source): State<Source>) -> Response {
    answer(async {
        let overview = source.ports.overview(&source.api, &Identity::metrics_reader()).await?;
        let mut page = Exposition::default();
        identity(&mut page, &overview, "memory-breakdown");
        node::memory(&mut page, &overview);
        if let Some(resident) = Process::read().resident_bytes {
            let used: u64 = overview.budgets.iter().map(|row| row.used).sum();
            let help = "Memory used in bytes";
            page.family(Kind::Gauge, "process_resident_memory_bytes", help).sample(&[], resident);
            let help = "Memory used in bytes that is in no budget";
            page.own_family(Kind::Gauge, "memory_other_bytes", help)
                .sample(&[], resident.saturating_sub(used));
        }
        Ok(axum::body::Body::from(page.into_text()))
    })
    .await
}

fn filter(query: &Query) -> Result<Filter, Failure> {
    let vhosts = query.all("vhost").map(str::to_owned).collect();
    let queue = match query.get("queue").filter(|text| !text.is_empty()) {
        Some(text) if text.len() > PATTERN_BYTES_MAX => {
            return Err(Failure::bad_request(format!(
                "the pattern of queues is longer than {PATTERN_BYTES_MAX} bytes"
            )));
        }
        Some(text) => Some(Pattern::new(text).map_err(|why| {
            Failure::bad_request(format!("'{text}' is no pattern of names of queues: {why}"))
        })?),
        None => None,
    };
    Ok(Filter { vhosts, queue })
}

async fn answer(body: impl Future<Output = Result<axum::body::Body, Failure>>) -> Response {
    match body.await {
        Ok(body) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response(),
        Err(failure) => respond(Err(failure)),
    }
}

/// Returns what `/metrics` and `/metrics/per-object` share, and the overview it was made from.
async fn node_page(
    Source { api, ports }: &Source,
    endpoint: &str,
) -> Result<(Exposition, Overview), Failure> {
    let who = Identity::metrics_reader();
    let overview = ports.overview(api, &who).await?;
    let mut page = Exposition::default();
    identity(&mut page, &overview, endpoint);
    global(&mut page, &overview);
    node::add(&mut page, &overview, &api.alarms(&who)?);
    cluster::add(&mut page, &api.cluster(&who).await?);
    http(&mut page, ports.counts());
    certificates(&mut page, ports.certificates());
    Ok((page, overview))
}

fn http(page: &mut Exposition, counts: Counts) {
    for (name, help, value) in [
        ("http_connections_evicted_total", "HTTP connections closed to make room for others", counts.evicted),
        ("http_connections_refused_total", "HTTP connections refused for lack of room", counts.refused),
    ] {
        page.own_family(Kind::Counter, name, help).sample(&[], value);
    }
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

/// Adds what product and which node this is. RabbitMQ's dashboards select by `rabbitmq_endpoint`.
fn identity(page: &mut Exposition, overview: &Overview, endpoint: &str) {
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
            ("rabbitmq_cluster_permanent_id", &overview.cluster_id),
            ("rabbitmq_endpoint", endpoint),
            ("sluice_node_id", &overview.node_id),
        ],
        1,
    );
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
    let mut sizes =
        page.family(Kind::Histogram, "message_size_bytes", "Size of messages received from publishers");
    for (protocol, traffic) in &traffic {
        let (messages, bytes) = traffic.sizes.ranges();
        sizes.ranges(*protocol, (&Sizes::UP_TO, messages), bytes);
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
    for (name, help, value) in [
        ("notices_published_total", "Messages of the broker itself that were published", c.notices_published),
        ("notices_dropped_total", "Messages of the broker itself that were dropped", c.notices_dropped),
        ("routing_steps_total", "Steps taken to find the routes of messages", c.routing_steps),
        (
            "deliveries_too_large_total",
            "Messages that did not go to a consumer because they are larger than it accepts",
            c.deliveries_too_large,
        ),
        (
            "publishes_rejected_total",
            "Messages that queues have refused because they were at their length limit",
            c.publishes_rejected,
        ),
        ("late_turns_total", "Turns of event loops that were more than 100 ms late", c.late_turns),
    ] {
        page.own_family(Kind::Counter, name, help).sample(&[], value);
    }
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
