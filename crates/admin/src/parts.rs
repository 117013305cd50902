//! What stands for the parts of RabbitMQ that tools ask for: feature flags, deprecated features, plugins, applications, and the runtime.

use std::sync::Arc;

use broker::admin_api::Overview;
use broker::counters::Deprecated;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::plugins::Plugin;
use crate::reply::{Failure, Reply};
use crate::shape;

/// Flags that RabbitMQ 4.3 needs, and flags that it lets an operator enable.
const REQUIRED: &str = "required";
const STABLE: &str = "stable";

/// The feature flags that stand for what the broker has, and their stability in RabbitMQ 4.3. All of them are always enabled.
const FLAGS: &[(&str, &str, &str)] = &[
    ("detailed_queues_endpoint", REQUIRED, "The HTTP API has /api/queues/detailed"),
    ("direct_exchange_routing_v2", REQUIRED, "Direct exchanges find the bindings of a key at once"),
    ("drop_unroutable_metric", REQUIRED, "Messages that are dropped because they are unroutable are counted"),
    ("empty_basic_get_metric", REQUIRED, "basic.get of an empty queue is counted"),
    ("feature_flags_v2", REQUIRED, "Feature flags have a list"),
    ("implicit_default_bindings", REQUIRED, "Bindings of the default exchange are not stored"),
    ("khepri_db", REQUIRED, "Metadata is stored without Mnesia"),
    ("message_containers", REQUIRED, "A message stays in the format of its publisher's protocol"),
    ("quorum_queue", REQUIRED, "Quorum queues"),
    ("rabbitmq_4.0.0", REQUIRED, "Behaves as RabbitMQ 4.0"),
    ("rabbitmq_4.1.0", REQUIRED, "Behaves as RabbitMQ 4.1"),
    ("rabbitmq_4.2.0", REQUIRED, "Behaves as RabbitMQ 4.2"),
    ("rabbitmq_4.3.0", STABLE, "Behaves as RabbitMQ 4.3"),
    ("stream_filtering", REQUIRED, "Filters of streams"),
    ("stream_queue", REQUIRED, "Streams"),
    ("user_limits", REQUIRED, "Limits of users"),
    ("virtual_host_metadata", REQUIRED, "Virtual hosts have descriptions and tags"),
];

/// The phases and the states of deprecated features.
const PERMITTED_BY_DEFAULT: &str = "permitted_by_default";
const DENIED_BY_DEFAULT: &str = "denied_by_default";
const REMOVED: &str = "removed";
const PERMITTED: &str = "permitted";
const DENIED: &str = "denied";

/// RabbitMQ's deprecated features besides [`Deprecated`]: the name, the phase in RabbitMQ 4.3, the state here, and what it is. Nothing
/// counts their uses: no client can use them, except for the rates of the management API, which are not deprecated here.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    (
        "amqp_filter_set_bug",
        DENIED_BY_DEFAULT,
        DENIED,
        "Filters of AMQP 1.0 whose values are not described: they have no effect",
    ),
    ("classic_queue_mirroring", REMOVED, DENIED, "Mirrored classic queues"),
    (
        "management_metrics_collection",
        PERMITTED_BY_DEFAULT,
        PERMITTED,
        "Rates and samples in the management API",
    ),
    (
        "queue_master_locator",
        DENIED_BY_DEFAULT,
        DENIED,
        "The argument x-queue-master-locator: x-queue-leader-locator stands for it",
    ),
    ("ram_node_type", REMOVED, DENIED, "Nodes that keep definitions in memory only"),
];

/// A version of Erlang/OTP, and one of its crypto library, that RabbitMQ 4.3 runs with. Tools parse them.
const ERLANG: [&str; 3] =
    ["27.3.4", "Erlang/OTP 27 [erts-15.2.7] [source] [64-bit]", "OpenSSL 3.5.4 30 Sep 2025"];

/// What there is instead.
const NO_ERLANG: [&str; 3] = ["none", "none: Sluice is a program without a virtual machine", "AWS-LC"];

/// The number of processes that Erlang allows by default. Sluice has no such limit, so it shows at least twice as many as there
/// are. Alerts on nodes that have nearly no processes left stay silent.
const PROCESSES_MAX: u64 = 1_048_576;

/// Lists the feature flags.
///
/// # Errors
/// 400 for a wrong query.
pub(crate) async fn feature_flags(call: &Call<'_>) -> Result<Reply, Failure> {
    let rows = FLAGS.iter().map(|(name, stability, what)| {
        json!({
            "name": name,
            "desc": what,
            // RabbitMQ's programs refuse a row without this field.
            "doc_url": "",
            "state": "enabled",
            "stability": stability,
            "provided_by": "rabbit",
        })
    });
    Ok(Reply::Json(shape::list(rows.collect(), &call.query, &["name"]).await?))
}

/// Enables a feature flag, which is enabled already.
///
/// # Errors
/// 400: there is no such flag.
pub(crate) fn enable_feature_flag(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.param(0);
    match FLAGS.iter().any(|(known, ..)| *known == name) {
        true => Ok(Reply::NoContent),
        false => Err(Failure::bad_request(format!("unsupported: there is no feature flag '{name}'"))),
    }
}

/// Lists the features that clients should no longer use, or only those that were used since the start.
///
/// # Errors
/// The admin API's error, or 400 for a wrong query.
pub(crate) async fn deprecated_features(call: &Call<'_>, used: bool) -> Result<Reply, Failure> {
    let overview = call.api.overview(&call.who).await?;
    let uses = overview.counters.deprecated;
    let row = |name, about, phase, state, uses| {
        json!({
            "name": name,
            "desc": about,
            // RabbitMQ's programs refuse a row without this field.
            "doc_url": "",
            "deprecation_phase": phase,
            "state": state,
            "provided_by": "sluice",
            "uses": uses,
        })
    };
    let counted = Deprecated::ALL.iter().map(|feature| {
        let phase = if feature.is_permitted_by_default() { PERMITTED_BY_DEFAULT } else { DENIED_BY_DEFAULT };
        let state = if overview.denied.contains(feature) { DENIED } else { PERMITTED };
        row(feature.as_str(), feature.description(), phase, state, uses.of(*feature))
    });
    let others = OTHERS.iter().map(|(name, phase, state, about)| row(name, about, phase, state, 0));
    let rows = counted.chain(others).filter(|row| !used || row["uses"].as_u64() > Some(0));
    Ok(Reply::Json(shape::list(rows.collect(), &call.query, &["name"]).await?))
}

/// Returns the fields of an overview that are about the runtime.
pub(crate) fn runtime(call: &Call<'_>) -> Map<String, Value> {
    let [version, full, crypto] = if call.ports.shows_erlang() { ERLANG } else { NO_ERLANG };
    let fields = [("erlang_version", version), ("erlang_full_version", full), ("crypto_lib_version", crypto)];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Returns the fields of a node that are about plugins, processes and sockets.
pub(crate) fn of_node(overview: &Overview, sockets_max: Option<u64>) -> Map<String, Value> {
    let application =
        |(name, what)| json!({ "name": name, "description": what, "version": overview.product_version });
    let sluice = json!({ "name": "sluice", "description": "The broker", "version": overview.sluice_version });
    let rabbit = json!({ "name": "rabbit", "description": "Behaves as RabbitMQ", "version": overview.product_version });
    let applications: Vec<Value> =
        [sluice, rabbit].into_iter().chain(Plugin::built_in().map(application)).collect();
    // RabbitMQ has a process for each of these.
    let processes = overview.connections + overview.sessions + overview.channels + overview.queues;
    let fields = [
        ("enabled_plugins", json!(Plugin::built_in().map(|(name, _)| name).collect::<Vec<_>>())),
        ("applications", json!(applications)),
        ("proc_used", json!(processes)),
        ("proc_used_details", json!({ "rate": 0.0 })),
        ("proc_total", json!(processes_max(processes))),
        ("run_queue", json!(0)),
        ("sockets_used", json!(overview.connections)),
        ("sockets_used_details", json!({ "rate": 0.0 })),
        ("sockets_total", json!(overview.connections_max.or(sockets_max))),
        ("contexts", json!(contexts(overview))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn processes_max(processes: u64) -> u64 {
    PROCESSES_MAX.max(processes.saturating_mul(2))
}

/// Returns the ports of HTTP, as RabbitMQ shows them beside the listeners.
pub(crate) fn contexts(overview: &Overview) -> Vec<Value> {
    let http = overview.listeners.iter().filter_map(|(protocol, ip, port)| {
        let (description, is_tls) = match protocol.as_str() {
            "http" => ("RabbitMQ Management", false),
            "https" => ("RabbitMQ Management", true),
            "http/prometheus" => ("RabbitMQ Prometheus", false),
            "https/prometheus" => ("RabbitMQ Prometheus", true),
            _ => return None,
        };
        // The port is text there.
        Some(json!({
            "node": overview.node,
            "description": description,
            "path": "/",
            "ip": ip,
            "port": port.to_string(),
            "ssl_opts": [],
            "ssl": is_tls,
        }))
    });
    http.collect()
}

/// Names the nodes of a cluster whose parts are missing in sums.
pub(crate) fn name_missing(call: &Call<'_>, body: &mut Value, missing: &[Arc<str>]) {
    if call.api.is_in_cluster() {
        body["missing_nodes"] = missing.iter().map(|name| Value::from(&**name)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_half_of_the_processes_are_in_use() {
        assert_eq!([0, 500_000, 900_000].map(processes_max), [PROCESSES_MAX, PROCESSES_MAX, 1_800_000]);
    }
}
