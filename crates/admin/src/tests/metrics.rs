//! The metrics as Prometheus reads them.

use std::collections::BTreeSet;

use broker::admin_api::{GroupRow, ShardRow};
use broker::counters::{Counters, Deliveries, Deprecated, RaftSums, Traffic};
use broker::exchange_counts::ExchangeCounts;
use broker::load::BusyTime;
use broker::settings::SLUICE_VERSION;
use catalog::access::Identity;
use catalog::access::{AuthAttempts, Protocol};

use super::connection;
use super::http::{Server, request};
use super::test_node::{Options, TestNode};
use crate::Ports;

/// The counters of the admin API at the start.
pub(super) fn counters() -> Counters {
    let mut counters = Counters::default();
    (counters.raft_entries, counters.raft_bytes) = (5, 600);
    counters.raft = RaftSums { term: 2, written_index: 9, commit_index: 8, applied_index: 7, base_index: 3 };
    counters.deprecated.count(Deprecated::GlobalQos);
    *counters.over_mut(Protocol::Amqp10) = Traffic {
        received: 7,
        auth_attempts: AuthAttempts { all: 6, succeeded: 3, failed: 2 },
        from_classic: Deliveries { manual_ack: 4, auto_ack: 1, ..Default::default() },
        from_streams: Deliveries { manual_ack: 3, ..Default::default() },
        ..Default::default()
    };
    *counters.over_mut(Protocol::Amqp091) = Traffic {
        received: 2,
        from_classic: Deliveries { get_auto_ack: 1, ..Default::default() },
        get_empty: 1,
        ..Default::default()
    };
    [20, 130].into_iter().for_each(|bytes| counters.over_mut(Protocol::Amqp10).sizes.count(bytes));
    counters.over_mut(Protocol::Http).auth_attempts = AuthAttempts { all: 5, succeeded: 4, failed: 1 };
    counters
}

/// Returns a shard whose thread was awake for so many nanoseconds, out of so many.
pub(super) fn shard(number: u8, busy_ns: u64, total_ns: u64) -> ShardRow {
    ShardRow { number, busy: BusyTime { busy_ns, total_ns }, ..ShardRow::default() }
}

pub(super) async fn read(server: &Server, path: &str) -> String {
    let answer = request(server.metrics, "GET", path, "", "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    answer.body
}

/// Logs in over HTTP: so often with the right password, and so often with a wrong one.
async fn logins(server: &Server, right: usize, wrong: usize) {
    for _ in 0..right {
        assert_eq!(server.ask(Some("guest"), "GET", "/api/whoami", "").await.status, 200);
    }
    for _ in 0..wrong {
        assert_eq!(server.ask(Some("stranger"), "GET", "/api/whoami", "").await.status, 401);
    }
}

#[tokio::test]
async fn metrics_are_summed_over_queues() {
    let server =
        Server::start_on(TestNode::with(Options { shards: 2, ..Options::default() }), Ports::default()).await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    logins(&server, 3, 1).await;
    server.api.state().ready.insert("q".into(), 3);
    server.api.resources().disk_alarm = true;
    // Only one connection may be without a login. Each one but the last is closed for the next.
    server.api.state().keeps_open = true;
    let guest = Identity::internal("guest", "administrator");
    for _ in 0..5 {
        server.api.connect(&guest, ([127, 0, 0, 1], 1).into()).await.unwrap();
    }
    server.api.state().shards = vec![shard(0, 1_234_567_890, 0), shard(1, 5_000_000, 0)];
    let page = read(&server, "/metrics").await;
    for line in [
        &*format!(
            "rabbitmq_build_info{{product_name=\"RabbitMQ\",product_version=\"4.3.6\",rabbitmq_version=\"4.3.6\",sluice_version=\"{SLUICE_VERSION}\"}} 1"
        ),
        "rabbitmq_identity_info{rabbitmq_node=\"n@h\",rabbitmq_cluster=\"c\",rabbitmq_cluster_permanent_id=\"0a000000000000000000000000000000\",rabbitmq_endpoint=\"aggregated\",sluice_node_id=\"0a000000000000000000000000000000\"} 1",
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
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"100.0\"} 1",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"1000.0\"} 2",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"100000.0\"} 2",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"1e+06\"} 2",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"5e+07\"} 2",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"1e+08\"} 2",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"+Inf\"} 2",
        "rabbitmq_message_size_bytes_sum{protocol=\"amqp10\"} 150",
        "rabbitmq_message_size_bytes_count{protocol=\"amqp10\"} 2",
        "rabbitmq_message_size_bytes_count{protocol=\"amqp091\"} 0",
        "rabbitmq_connections_opened_total 0",
        "rabbitmq_channels_closed_total 0",
        "rabbitmq_resident_memory_limit_bytes 1000",
        "rabbitmq_disk_space_available_bytes 2000",
        "rabbitmq_disk_space_available_limit_bytes 500",
        "rabbitmq_auth_attempts_total 11",
        "rabbitmq_auth_attempts_succeeded_total 7",
        "rabbitmq_auth_attempts_failed_total 3",
        "sluice_http_connections_evicted_total 0",
        "sluice_http_connections_refused_total 0",
        "rabbitmq_raft_entries{ra_system=\"quorum_queues\"} 5",
        "rabbitmq_raft_bytes_written{ra_system=\"quorum_queues\"} 600",
        "rabbitmq_raft_max_commit_latency_seconds{ra_system=\"quorum_queues\"} 1.250",
        "rabbitmq_raft_term{ra_system=\"quorum_queues\"} 2",
        "rabbitmq_raft_term_total{ra_system=\"quorum_queues\"} 2",
        "rabbitmq_raft_last_written_index{ra_system=\"quorum_queues\"} 9",
        "rabbitmq_raft_log_last_written_index{ra_system=\"quorum_queues\"} 9",
        "rabbitmq_raft_commit_index{ra_system=\"quorum_queues\"} 8",
        "rabbitmq_raft_log_commit_index{ra_system=\"quorum_queues\"} 8",
        "rabbitmq_raft_last_applied{ra_system=\"quorum_queues\"} 7",
        "rabbitmq_raft_log_last_applied_index{ra_system=\"quorum_queues\"} 7",
        "rabbitmq_raft_snapshot_index{ra_system=\"quorum_queues\"} 3",
        "rabbitmq_raft_log_snapshot_index{ra_system=\"quorum_queues\"} 3",
        "rabbitmq_raft_commit_latency_seconds{ra_system=\"quorum_queues\"} 1.250",
        "rabbitmq_raft_entry_commit_latency_seconds{ra_system=\"quorum_queues\"} 1.250",
        "rabbitmq_queues 1",
        "rabbitmq_queue_messages_ready 3",
        "rabbitmq_queue_messages 3",
        "sluice_budget_used_bytes{budget=\"one\"} 1",
        "sluice_budget_limit_bytes{budget=\"two\"} 20",
        "sluice_budget_used_bytes{budget=\"http_bodies\"} 0",
        "sluice_budget_limit_bytes{budget=\"http_answers\"} 67108864",
        "sluice_handshakes_evicted_total 4",
        "sluice_shard_busy_seconds_total{shard=\"0\"} 1.234567890",
        "sluice_shard_busy_seconds_total{shard=\"1\"} 0.005000000",
        "rabbitmq_alarms_file_descriptor_limit 0",
        "rabbitmq_alarms_memory_used_watermark 0",
        "rabbitmq_alarms_free_disk_space_watermark 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    let uptime = page.lines().find_map(|line| line.strip_prefix("rabbitmq_erlang_uptime_seconds ")).unwrap();
    assert_eq!(uptime.split_once('.').map(|(_, ms)| ms.len()), Some(3), "{uptime}");
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
    server.api.state().ready.insert("a\"b".into(), 3);
    let page = read(&server, "/metrics/per-object").await;
    for line in [
        "rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"a\\\"b\"} 3",
        "rabbitmq_queue_messages_ready_bytes{vhost=\"/\",queue=\"a\\\"b\"} 30",
        "rabbitmq_queue_head_message_timestamp{vhost=\"/\",queue=\"a\\\"b\"} 7",
        "rabbitmq_queue_info{vhost=\"/\",queue=\"a\\\"b\",queue_type=\"rabbit_classic_queue\",membership=\"leader\"} 1",
        "rabbitmq_queues 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
}

#[tokio::test]
async fn logins_per_protocol_and_source() {
    let server = Server::start().await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    logins(&server, 3, 1).await;
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
    let node = TestNode::with(Options { tracks_sources: true, ..Options::default() });
    let server = Server::start_on(node, Ports::default()).await;
    server.check("guest", "PUT /api/queues/%2F/q -> 201").await;
    for number in 1..=200 {
        let count = |succeeds| {
            server.api.access().sources().count(Protocol::Http, [192, 0, 2, number].into(), "ann", succeeds);
        };
        (0..number).for_each(|login| count(login == 0));
    }
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
    server.api.state().groups.insert("q".into(), group);
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
    let all = all_families();
    for (path, families_min) in
        [("/metrics", 50), ("/metrics/per-object", 50), (&*all, 30), ("/metrics/memory-breakdown", 4)]
    {
        let page = read(&server, path).await;
        let mut families = BTreeSet::new();
        let (mut family, mut is_histogram) = ("", false);
        for line in page.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(families.insert(name), "{name} twice");
                let is_named = name.ends_with("_total") || WITHOUT_SUFFIX.contains(&name);
                is_histogram = kind == "histogram";
                assert_eq!(kind == "counter", is_named, "{name}");
                family = name;
            } else if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(help.starts_with(&format!("{family} ")));
            } else {
                let rest = line.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
                let suffixes: &[&str] = if is_histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
                let is_of_family = |suffix: &&str| {
                    rest.strip_prefix(suffix).is_some_and(|rest| rest.starts_with([' ', '{']))
                };
                assert!(suffixes.iter().any(is_of_family), "{line}");
                assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(families.len() >= families_min, "{path}: {}", families.len());
    }
}

/// Returns the path of a page with all families.
pub(super) fn all_families() -> String {
    let names = [
        "auth_attempt_metrics",
        "auth_attempt_detailed_metrics",
        "connection_churn_metrics",
        "node_coarse_metrics",
        "queue_coarse_metrics",
        "queue_metrics",
        "queue_delivery_metrics",
        "channel_queue_exchange_metrics",
        "ra_metrics",
        "connection_coarse_metrics",
        "connection_metrics",
        "channel_metrics",
        "channel_exchange_metrics",
        "channel_queue_metrics",
        "vhost_status",
        "exchange_bindings",
        "exchange_names",
        "exchange_metrics",
    ];
    format!("/metrics/detailed?family={}", names.join("&family="))
}

#[tokio::test]
async fn families_are_chosen_and_filtered() {
    let server = Server::start().await;
    let transcript = r#"
        PUT /api/vhosts/v -> 201
        PUT /api/queues/%2F/a1 -> 201
        PUT /api/queues/%2F/b -> 201
        PUT /api/queues/v/a2 -> 201
        POST /api/bindings/%2F/e/amq.topic/q/b {"routing_key":"k"} -> 201
    "#;
    server.check("guest", transcript).await;
    server.api.state().connections =
        vec![connection("c", "guest"), super::channels::connection_of_091("guest", false)];
    let rows = async |query: &str| {
        let page = read(&server, &format!("/metrics/detailed?{query}")).await;
        let lines =
            page.lines().filter(|line| !line.starts_with('#') && !line.starts_with("rabbitmq_build_info"));
        let lines = lines.filter(|line| !line.starts_with("rabbitmq_identity_info"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows("").await, [""; 0], "a request must say what it wants");
    assert_eq!(rows("family=nope").await, [""; 0]);
    let info = |vhost: &str, queue: &str| {
        format!(
            "rabbitmq_detailed_queue_info{{vhost=\"{vhost}\",queue=\"{queue}\",queue_type=\"rabbit_classic_queue\",membership=\"leader\"}} 1"
        )
    };
    let consumers = |vhost: &str, queue: &str| {
        format!("rabbitmq_detailed_queue_consumers{{vhost=\"{vhost}\",queue=\"{queue}\"}} 0")
    };
    let all = [("/", "a1"), ("/", "b"), ("v", "a2")];
    for (filter, expected) in [
        ("", &all[..]),
        ("&vhost=v", &all[2..]),
        ("&vhost=v&vhost=%2F", &all[..]),
        ("&queue=%5Ea", &[all[0], all[2]]),
        ("&queue=%5Ea&vhost=%2F", &all[..1]),
    ] {
        let expected: BTreeSet<_> =
            expected.iter().flat_map(|(v, q)| [consumers(v, q), info(v, q)]).collect();
        assert_eq!(
            BTreeSet::from_iter(rows(&format!("family=queue_consumer_count{filter}")).await),
            expected,
            "{filter}"
        );
    }
    // What is in another family, too, is shown once.
    let both = rows("family=queue_consumer_count&family=queue_metrics&vhost=v").await;
    assert_eq!(both.iter().filter(|line| line.contains("queue_consumers")).count(), 1);
    let bindings = rows("family=exchange_bindings").await;
    let expected = "rabbitmq_cluster_exchange_bindings{vhost=\"/\",exchange=\"amq.topic\",type=\"topic\"} 1";
    assert!(bindings.iter().any(|line| line == expected), "{bindings:?}");
    assert!(bindings.iter().all(|line| !line.contains("exchange=\"\"")), "not the default exchange");
    let names = rows("family=exchange_names&vhost=%2F").await;
    let expected = "rabbitmq_cluster_exchange_name{vhost=\"/\",exchange=\"amq.topic\",type=\"topic\"} 1";
    assert!(names.iter().any(|line| line == expected), "{names:?}");
    let counts = ExchangeCounts { published: 3, routed: 5, ..ExchangeCounts::default() };
    server.api.state().exchange_counts.insert(String::new(), counts);
    let counted = rows("family=exchange_metrics&vhost=v").await;
    assert_eq!(counted.len(), 7 * 4, "{counted:?}");
    for (name, count) in
        [("published", 3), ("routed", 5), ("unroutable_returned", 0), ("unroutable_dropped", 0)]
    {
        let row =
            format!("rabbitmq_detailed_exchange_messages_{name}_total{{vhost=\"v\",exchange=\"\"}} {count}");
        assert!(counted.contains(&row), "{row} in {counted:?}");
    }
    let vhosts = ["/", "v"].map(|vhost| format!("rabbitmq_cluster_vhost_status{{vhost=\"{vhost}\"}} 1"));
    assert_eq!(BTreeSet::from_iter(rows("family=vhost_status").await), BTreeSet::from(vhosts));
    let octets = rows("family=connection_coarse_metrics").await;
    assert_eq!(octets.len(), 4);
    assert_eq!(
        octets[0],
        "rabbitmq_detailed_connection_incoming_bytes_total{vhost=\"/\",connection=\"c\"} 2"
    );
    let channels = rows("family=channel_metrics").await;
    assert!(channels.iter().any(|line| line.starts_with("rabbitmq_detailed_channel_messages_unacked{vhost=\"/\",channel=\"")), "{channels:?}");
}

#[tokio::test]
async fn a_pattern_that_cannot_be_read_is_refused() {
    let server = Server::start().await;
    let long = format!("/metrics/detailed?queue={}", "a".repeat(256));
    for path in ["/metrics/detailed?family=queue_metrics&queue=(", &long] {
        assert_eq!(request(server.metrics, "GET", path, "", "").await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn memory_is_shown_by_its_use() {
    let server = Server::start().await;
    let page = read(&server, "/metrics/memory-breakdown").await;
    assert!(page.contains("rabbitmq_endpoint=\"memory-breakdown\""), "{page}");
    assert!(page.contains("sluice_budget_used_bytes{budget=\"two\"} 2\n"), "{page}");
    if cfg!(target_os = "linux") {
        assert!(page.contains("\nsluice_memory_other_bytes "), "{page}");
    }
}

#[tokio::test]
async fn nothing_else_is_served() {
    let server = Server::start().await;
    assert_eq!(request(server.metrics, "GET", "/api/overview", "", "").await.status, 404);
    assert_eq!(request(server.metrics, "POST", "/metrics", "", "").await.status, 405);
    server.api.state().stuck = true;
    assert_eq!(request(server.metrics, "GET", "/metrics", "", "").await.status, 503);
}

/// Whoever starts and stops brokers needs no user of the broker.
#[tokio::test]
async fn health_needs_no_login() {
    let server = Server::start().await;
    let ask = async |path: &str| {
        let answer = request(server.metrics, "GET", path, "", "").await;
        (answer.status, answer.body)
    };
    let ok = || (200, "{\"status\":\"ok\"}".to_owned());
    assert_eq!((ask("/health/live").await, ask("/health/ready").await), (ok(), ok()));
    let server =
        Server::start_on(TestNode::with(Options { listens: false, ..Options::default() }), Ports::default())
            .await;
    let ask = async |path: &str| {
        let answer = request(server.metrics, "GET", path, "", "").await;
        (answer.status, answer.body)
    };
    let not_ready = "{\"status\":\"failed\",\"reason\":\"There is no listener for clients\"}";
    assert_eq!((ask("/health/live").await, ask("/health/ready").await), (ok(), (503, not_ready.to_owned())));
    server.api.state().stuck = true;
    assert_eq!((ask("/health/live").await.0, ask("/health/ready").await.0), (503, 503));
}
