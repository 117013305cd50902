//! The dashboards of docs/grafana read metrics that exist.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::http::Server;
use super::metrics::{all_families, read};

/// Returns all queries of a dashboard.
fn queries(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let own =
                fields.get("expr").into_iter().chain(fields.get("definition")).filter_map(Value::as_str);
            own.chain(fields.values().flat_map(queries)).collect()
        }
        Value::Array(items) => items.iter().flat_map(queries).collect(),
        _ => Vec::new(),
    }
}

/// Returns the names of metrics in a query.
fn names(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("rabbitmq_") || word.starts_with("sluice_"))
}

/// Returns the names of all metrics that a node with one queue has.
async fn known(server: &Server) -> BTreeSet<String> {
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    let mut known = BTreeSet::new();
    for path in ["/metrics", "/metrics/per-object", "/metrics/memory-breakdown", &all_families()] {
        let page = read(server, path).await;
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        known.extend(samples.map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned()));
    }
    known
}

#[tokio::test]
async fn dashboards_read_metrics_that_exist() {
    let server = Server::start().await;
    let known = known(&server).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana");
    let mut found = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let dashboard = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for query in queries(&dashboard) {
            for name in names(query) {
                found += 1;
                assert!(known.contains(name), "{}: there is no metric {name} ({query})", path.display());
            }
        }
    }
    assert!(found > 50, "{found}");
}

/// The metrics that RabbitMQ's dashboard RabbitMQ-Overview reads.
const OF_RABBITMQ: &str = "
    rabbitmq_build_info rabbitmq_channels rabbitmq_channels_closed_total rabbitmq_channels_opened_total
    rabbitmq_connections rabbitmq_connections_closed_total rabbitmq_connections_opened_total
    rabbitmq_disk_space_available_bytes rabbitmq_disk_space_available_limit_bytes rabbitmq_erlang_uptime_seconds
    rabbitmq_global_consumers rabbitmq_global_messages_acknowledged_total rabbitmq_global_messages_confirmed_total
    rabbitmq_global_messages_delivered_consume_auto_ack_total
    rabbitmq_global_messages_delivered_consume_manual_ack_total
    rabbitmq_global_messages_delivered_get_auto_ack_total rabbitmq_global_messages_delivered_get_manual_ack_total
    rabbitmq_global_messages_delivered_total rabbitmq_global_messages_get_empty_total
    rabbitmq_global_messages_received_confirm_total rabbitmq_global_messages_received_total
    rabbitmq_global_messages_redelivered_total rabbitmq_global_messages_routed_total
    rabbitmq_global_messages_unroutable_dropped_total rabbitmq_global_messages_unroutable_returned_total
    rabbitmq_global_publishers rabbitmq_identity_info rabbitmq_message_size_bytes_bucket
    rabbitmq_message_size_bytes_count rabbitmq_message_size_bytes_sum rabbitmq_process_max_fds
    rabbitmq_process_open_fds rabbitmq_process_resident_memory_bytes rabbitmq_queue_messages_ready
    rabbitmq_queue_messages_unacked rabbitmq_queues rabbitmq_queues_created_total rabbitmq_queues_declared_total
    rabbitmq_queues_deleted_total rabbitmq_resident_memory_limit_bytes";

#[tokio::test]
async fn the_overview_of_rabbitmq_finds_its_metrics() {
    let server = Server::start().await;
    let known = known(&server).await;
    for name in OF_RABBITMQ.split_whitespace() {
        assert!(known.contains(name), "{name}");
    }
    // Every panel selects by these labels.
    let page = read(&server, "/metrics").await;
    let identity = page.lines().find(|line| line.starts_with("rabbitmq_identity_info{")).unwrap();
    for label in ["rabbitmq_node=", "rabbitmq_cluster=", "rabbitmq_endpoint=\"aggregated\""] {
        assert!(identity.contains(label), "{label}: {identity}");
    }
}
