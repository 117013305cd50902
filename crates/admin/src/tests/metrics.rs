//! The metrics as Prometheus reads them.

use std::collections::BTreeSet;

use broker::counters::{AuthAttempts, Protocol};
use broker::desk::{AttemptsRow, GroupRow};

use super::http::{Server, request};

async fn read(server: &Server, path: &str) -> String {
    let answer = request(server.metrics, "GET", path, "", "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    answer.body
}

#[tokio::test]
async fn metrics_are_summed_over_queues() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    server.desk.state().ready.insert("q".into(), 3);
    server.desk.state().alarms = vec![("disk", "n@h".into())];
    let page = read(&server, "/metrics").await;
    for line in [
        "rabbitmq_build_info{product_name=\"RabbitMQ\",product_version=\"4.3.6\",rabbitmq_version=\"4.3.6\",sluice_version=\"0.1.0\"} 1",
        "rabbitmq_identity_info{rabbitmq_node=\"n@h\",rabbitmq_cluster=\"c\",sluice_node_id=\"0a\"} 1",
        "rabbitmq_global_messages_received_total{protocol=\"amqp10\"} 7",
        "rabbitmq_global_messages_delivered_total{protocol=\"amqp10\",queue_type=\"rabbit_classic_queue\"} 5",
        "rabbitmq_global_messages_delivered_total{protocol=\"amqp10\",queue_type=\"rabbit_stream_queue\"} 3",
        "rabbitmq_global_messages_received_total{protocol=\"amqp091\"} 2",
        "rabbitmq_global_messages_delivered_total{protocol=\"amqp091\",queue_type=\"rabbit_classic_queue\"} 1",
        "rabbitmq_global_messages_delivered_get_auto_ack_total{protocol=\"amqp091\",queue_type=\"rabbit_classic_queue\"} 1",
        "rabbitmq_global_messages_get_empty_total{protocol=\"amqp091\"} 1",
        "rabbitmq_global_messages_delivered_total{protocol=\"amqp10\",queue_type=\"rabbit_volatile_queue\"} 0",
        "sluice_global_messages_never_written_total{queue_type=\"rabbit_classic_queue\"} 0",
        "rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"rabbit_classic_queue\",dead_letter_strategy=\"at_most_once\"} 0",
        "rabbitmq_global_messages_dead_lettered_maxlen_total{queue_type=\"rabbit_volatile_queue\",dead_letter_strategy=\"disabled\"} 0",
        "rabbitmq_connections_opened_total 0",
        "rabbitmq_auth_attempts_total 11",
        "rabbitmq_auth_attempts_succeeded_total 7",
        "rabbitmq_auth_attempts_failed_total 3",
        "sluice_http_connections_evicted_total 0",
        "sluice_http_connections_refused_total 0",
        "rabbitmq_raft_entries{ra_system=\"quorum_queues\"} 5",
        "rabbitmq_raft_bytes_written{ra_system=\"quorum_queues\"} 600",
        "rabbitmq_raft_max_commit_latency_seconds{ra_system=\"quorum_queues\"} 1.250",
        "rabbitmq_queues 1",
        "rabbitmq_queue_messages_ready 3",
        "rabbitmq_queue_messages 3",
        "sluice_budget_used_bytes{budget=\"one\"} 1",
        "sluice_budget_limit_bytes{budget=\"two\"} 20",
        "sluice_budget_used_bytes{budget=\"http_bodies\"} 0",
        "sluice_budget_limit_bytes{budget=\"http_answers\"} 67108864",
        "sluice_handshakes_evicted_total 4",
        "rabbitmq_alarms_file_descriptor_limit 0",
        "rabbitmq_alarms_memory_used_watermark 0",
        "rabbitmq_alarms_free_disk_space_watermark 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    // Reads and writes of files are not counted. A family that is always 0 would claim that nothing is
    // written, so there is none.
    assert!(!page.contains("rabbitmq_io_"), "{page}");
    if cfg!(target_os = "linux") {
        assert!(page.contains("\nrabbitmq_process_resident_memory_bytes "), "{page}");
        assert!(page.contains("\nrabbitmq_process_open_fds "), "{page}");
    }
}

#[tokio::test]
async fn rows_per_queue() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/a%22b -> 201").await;
    server.desk.state().ready.insert("a\"b".into(), 3);
    let page = read(&server, "/metrics/per-object").await;
    for line in [
        "rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"a\\\"b\"} 3",
        "rabbitmq_queue_messages_ready_bytes{vhost=\"/\",queue=\"a\\\"b\"} 30",
        "rabbitmq_queues 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
}

#[tokio::test]
async fn logins_per_protocol_and_source() {
    let server = Server::start().await;
    let page = read(&server, "/metrics/per-object").await;
    for line in [
        "rabbitmq_auth_attempts_total{protocol=\"amqp10\"} 6",
        "rabbitmq_auth_attempts_failed_total{protocol=\"amqp10\"} 2",
        "rabbitmq_auth_attempts_succeeded_total{protocol=\"http\"} 4",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    assert!(!page.contains("detailed"), "no source was counted\n{page}");
    // Enough for several pages.
    let row = |number: u64| AttemptsRow {
        protocol: Protocol::Http,
        source: Some((format!("192.0.2.{number}"), "ann".into())),
        attempts: AuthAttempts { all: number, succeeded: 1, failed: number - 1 },
    };
    server.desk.state().attempts = (1..=200).map(row).collect();
    let page = read(&server, "/metrics/per-object").await;
    for number in 1..=200 {
        let labels = format!("{{remote_address=\"192.0.2.{number}\",username=\"ann\",protocol=\"http\"}}");
        for line in [
            format!("rabbitmq_auth_attempts_detailed_total{labels} {number}"),
            format!("rabbitmq_auth_attempts_detailed_succeeded_total{labels} 1"),
            format!("rabbitmq_auth_attempts_detailed_failed_total{labels} {}", number - 1),
        ] {
            assert_eq!(page.lines().filter(|l| *l == line).count(), 1, "{line}\n{page}");
        }
    }
    assert_eq!(page.matches("# TYPE rabbitmq_auth_attempts_detailed").count(), 3);
    assert!(page.contains("rabbitmq_queue_messages_ready"), "queues come after them");
}

#[tokio::test]
async fn rows_per_group() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/c -> 201").await;
    let page = read(&server, "/metrics/per-object").await;
    assert!(!page.contains("raft_term"), "there is no group\n{page}");
    server.check("guest", r#"PUT /api/queues/%2F/q {"arguments":{"x-queue-type":"quorum"}} -> 201"#).await;
    let group =
        GroupRow { term: 2, commit_index: 9, base_index: 3, commit_latency_ms: 7, ..Default::default() };
    server.desk.state().groups.insert("q".into(), group);
    let page = read(&server, "/metrics/per-object").await;
    let rows: Vec<_> =
        page.lines().filter(|line| line.contains("raft_") && line.contains("queue=")).collect();
    assert_eq!(
        rows,
        [
            "rabbitmq_raft_term{vhost=\"/\",queue=\"q\"} 2",
            "rabbitmq_raft_commit_index{vhost=\"/\",queue=\"q\"} 9",
            "rabbitmq_raft_last_applied{vhost=\"/\",queue=\"q\"} 0",
            "rabbitmq_raft_last_written_index{vhost=\"/\",queue=\"q\"} 0",
            "rabbitmq_raft_snapshot_index{vhost=\"/\",queue=\"q\"} 3",
            "rabbitmq_raft_commit_latency_seconds{vhost=\"/\",queue=\"q\"} 0.007",
        ]
    );
}

/// RabbitMQ's counters whose names lack the suffix of counters.
const WITHOUT_SUFFIX: [&str; 2] = ["rabbitmq_raft_entries", "rabbitmq_raft_bytes_written"];

/// Every family occurs once, with its type and help before its samples. Counters have the suffix of counters, with RabbitMQ's exceptions.
#[tokio::test]
async fn the_text_is_well_formed() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    for path in ["/metrics", "/metrics/per-object"] {
        let page = read(&server, path).await;
        let mut families = BTreeSet::new();
        let mut family = "";
        for line in page.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(families.insert(name), "{name} twice");
                let is_named = name.ends_with("_total") || WITHOUT_SUFFIX.contains(&name);
                assert_eq!(kind == "counter", is_named, "{name}");
                family = name;
            } else if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(help.starts_with(&format!("{family} ")));
            } else {
                assert!(line.starts_with(family) && line[family.len()..].starts_with([' ', '{']), "{line}");
                assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(families.len() > 30);
    }
}

#[tokio::test]
async fn nothing_else_is_served() {
    let server = Server::start().await;
    assert_eq!(request(server.metrics, "GET", "/api/overview", "", "").await.status, 404);
    assert_eq!(request(server.metrics, "POST", "/metrics", "", "").await.status, 405);
    server.desk.state().stuck = true;
    assert_eq!(request(server.metrics, "GET", "/metrics", "", "").await.status, 503);
}
