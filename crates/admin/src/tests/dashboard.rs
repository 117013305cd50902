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

/// The configuration of Prometheus in docs/metrics.md has what the row about queues reads, and the row names that page.
#[tokio::test]
async fn the_page_about_metrics_says_how_the_row_about_queues_is_filled() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("metrics.md")).unwrap();
    let block = page.split_once("\n```yaml\n").expect("a configuration").1.split_once("\n```").unwrap().0;
    let value = |key: &str| {
        let line = block.lines().find_map(|line| line.trim_start().strip_prefix(key));
        line.unwrap_or_else(|| panic!("{key}: {block}"))
    };
    let (path, families) = (value("metrics_path: "), value("family: ["));
    let families: Vec<&str> = families.trim_end_matches(']').split(", ").collect();
    let asked = format!("{path}?family={}", families.join("&family="));
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    let answer = read(&server, &asked).await;
    let dashboard = std::fs::read_to_string(docs.join("grafana/sluice.json")).unwrap();
    assert!(dashboard.contains(&format!(r#""title": "Queues (from {path})""#)), "{path}");
    let dashboard = serde_json::from_str(&dashboard).unwrap();
    let mut found = 0;
    for name in queries(&dashboard).into_iter().flat_map(names) {
        if name.starts_with("rabbitmq_detailed_") {
            found += 1;
            assert!(sampled(&answer).contains(name), "{asked} has no {name}");
        }
    }
    assert!(found > 3, "{found}");
    // The configuration of the compose file has the same job.
    let compose = std::fs::read_to_string(docs.join("../packaging/compose/prometheus.yaml")).unwrap();
    for line in [format!("metrics_path: {path}"), format!("family: [{}]", families.join(", "))] {
        assert!(compose.contains(&line), "{line}");
    }
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
    // Its panels of sizes select by these bounds.
    let page = read(&server, "/metrics").await;
    for bound in ["100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf"] {
        let bucket = format!("rabbitmq_message_size_bytes_bucket{{protocol=\"amqp091\",le=\"{bound}\"}}");
        assert!(page.contains(&bucket), "{bucket}");
    }
    // Every panel selects by these labels.
    let identity = page.lines().find(|line| line.starts_with("rabbitmq_identity_info{")).unwrap();
    for label in ["rabbitmq_node=", "rabbitmq_cluster=", "rabbitmq_endpoint=\"aggregated\""] {
        assert!(identity.contains(label), "{label}: {identity}");
    }
}

/// The metrics that RabbitMQ's dashboard RabbitMQ-Quorum-Queues-Raft reads: since RabbitMQ 4.2, and before.
const OF_GROUPS: &str = "
    rabbitmq_raft_commit_index rabbitmq_raft_commit_latency_seconds rabbitmq_raft_last_written_index
    rabbitmq_raft_log_commit_index rabbitmq_raft_log_last_written_index rabbitmq_raft_log_snapshot_index
    rabbitmq_raft_snapshot_index rabbitmq_raft_term
    rabbitmq_raft_entry_commit_latency_seconds rabbitmq_raft_term_total";

/// Returns the names of all samples on a page.
fn sampled(page: &str) -> BTreeSet<&str> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap_or_default()).collect()
}

/// RabbitMQ has the names since 4.2 on `/metrics/per-object` only, and those before on both pages.
#[tokio::test]
async fn the_dashboard_of_raft_groups_finds_its_metrics() {
    let server = Server::start().await;
    let one = read(&server, "/metrics").await;
    for name in OF_GROUPS.split_whitespace() {
        assert!(sampled(&one).contains(name), "{name}");
    }
    for queue in ["p", "q"] {
        let declare =
            format!(r#"PUT /api/queues/%2F/{queue} {{"arguments":{{"x-queue-type":"quorum"}}}} -> 201"#);
        server.check("guest", &declare).await;
    }
    let more = read(&server, "/metrics").await;
    assert_eq!(one.lines().count(), more.lines().count(), "the page does not grow with the queues");
}

/// The metrics that RabbitMQ's dashboard RabbitMQ-Stream reads, except those of the stream protocol.
const OF_STREAMS: &str = "
    rabbitmq_global_consumers rabbitmq_global_messages_confirmed_total rabbitmq_global_messages_delivered_total
    rabbitmq_global_messages_received_total rabbitmq_global_publishers";

/// Its panels select `protocol="stream"`. A row that is always 0 would claim that such clients can connect.
#[tokio::test]
async fn the_dashboard_of_streams_finds_no_stream_protocol() {
    let server = Server::start().await;
    let page = read(&server, "/metrics").await;
    for name in OF_STREAMS.split_whitespace() {
        assert!(sampled(&page).contains(name), "{name}");
    }
    assert!(
        !page.contains("protocol=\"stream\"") && !page.contains("rabbitmq_global_stream_error"),
        "{page}"
    );
    let of_streams =
        "rabbitmq_global_messages_delivered_total{protocol=\"amqp10\",queue_type=\"rabbit_stream_queue\"} 3";
    assert!(page.lines().any(|line| line == of_streams), "{page}");
}
