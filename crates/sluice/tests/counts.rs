//! Every message of a queue is in its counts, against the built program.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::verb::ask_as;
use crate::broker::{Broker, Directory, Starting};

/// Returns a page of the metrics.
fn metrics(directory: &Directory, path: &str) -> String {
    let log = directory.logged();
    let at = log.lines().find_map(|line| line.rsplit("http://").next()?.strip_suffix("/metrics")).unwrap();
    let port = at.rsplit(':').next().unwrap().parse().unwrap();
    let (status, page) = ask_as(port, "", "GET", path, "");
    assert_eq!(status, 200, "{page}");
    page
}

/// Returns a row of a queue when its field has this value.
fn row_with(broker: &Broker, queue: &str, field: &str, value: u64) -> Value {
    loop {
        let (status, row) = broker.get(&format!("/api/queues/%2F/{queue}"));
        assert_eq!(status, 200, "{row}");
        if row[field] == value {
            return row;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A dead letter without a target stays in its queue. It is in every count, it makes the queue full, and it leaves when
/// there is a target.
#[test]
fn dead_letters_that_are_kept_are_counted() {
    let directory = Directory::new("counts");
    let broker = Starting::spawn(&directory, &["prometheus.tcp.port=0"]).finish();
    let arguments = [
        "x-dead-letter-exchange=",
        "x-dead-letter-routing-key=dead",
        "x-dead-letter-strategy=at-least-once",
        "x-overflow=reject-publish",
        "x-max-length=1",
    ];
    let arguments: Vec<&str> = arguments.iter().flat_map(|argument| ["--argument", argument]).collect();
    broker.verb(&[&["declare", "queue", "q", "--type", "quorum"], &arguments[..]].concat()).done();
    broker.verb(&["send", "q", "12345"]).done();
    let alive = row_with(&broker, "q", "messages_ready", 1);
    assert_eq!((&alive["messages"], &alive["messages_dlx"]), (&json!(1), &json!(0)));
    let bytes = &alive["message_bytes"];

    let reject = json!({ "count": 1, "ackmode": "reject_requeue_false", "encoding": "auto" }).to_string();
    let (_, taken) = broker.ask("POST", "/api/queues/%2F/q/get", &reject);
    assert_eq!(taken.as_array().map(Vec::len), Some(1), "{taken}");
    let row = row_with(&broker, "q", "messages_dlx", 1);
    assert_eq!((&row["messages"], &row["messages_ready"]), (&json!(1), &json!(0)), "{row}");
    assert_eq!((&row["message_bytes"], &row["message_bytes_dlx"]), (bytes, bytes), "{row}");
    broker.verb(&["send", "q", "more"]).refused(1, &["rejected"]);

    let listed = broker.list("queues");
    assert_eq!((&listed[0]["messages"], &listed[0]["messages_dlx"]), (&json!(1), &json!(1)), "{listed}");
    let table = broker.verb(&["list", "queues"]).done();
    assert!(
        table
            .starts_with("NAME  TYPE    DURABLE  MESSAGES  READY  UNACKNOWLEDGED  DEAD-LETTERING  CONSUMERS"),
        "{table}"
    );
    let totals = &broker.get("/api/overview").1["queue_totals"];
    assert_eq!((&totals["messages"], &totals["messages_ready"]), (&json!(1), &json!(0)), "{totals}");
    let vhost = &broker.get("/api/vhosts/%2F").1;
    assert_eq!((&vhost["messages"], &vhost["messages_ready"]), (&json!(1), &json!(0)), "{vhost}");
    let sums = metrics(&directory, "/metrics");
    let rows = metrics(&directory, "/metrics/per-object");
    for name in ["messages", "messages_dlx"] {
        assert!(sums.contains(&format!("\nrabbitmq_queue_{name} 1\n")), "{sums}");
        let row = format!("\nrabbitmq_queue_{name}{{vhost=\"/\",queue=\"q\"}} 1\n");
        assert!(rows.contains(&row), "{rows}");
    }

    broker.verb(&["declare", "queue", "dead"]).done();
    row_with(&broker, "dead", "messages", 1);
    let row = row_with(&broker, "q", "messages_dlx", 0);
    assert_eq!((&row["messages"], &row["message_bytes"]), (&json!(0), &json!(0)), "{row}");
    assert!(broker.terminate().success());
}

/// Refused publishes are in every count: of the queue over HTTP, in the metrics of queues and of the node, and in what the verbs show.
#[test]
fn refused_publishes_are_counted() {
    let directory = Directory::new("counts");
    let broker = Starting::spawn(&directory, &["prometheus.tcp.port=0"]).finish();
    let limits = ["--argument", "x-max-length=1", "--argument", "x-overflow=reject-publish"];
    for kind in ["classic", "quorum"] {
        broker.verb(&[&["declare", "queue", kind, "--type", kind], &limits[..]].concat()).done();
        broker.verb(&["send", kind, "x"]).done();
        broker.verb(&["send", kind, "x", "--count", "3"]).refused(1, &["3 rejected"]);
    }
    broker.verb(&["declare", "queue", "free"]).done();
    broker.verb(&["send", "free", "x"]).done();
    for (queue, refused) in [("classic", 3), ("quorum", 3), ("free", 0)] {
        let row = broker.get(&format!("/api/queues/%2F/{queue}")).1;
        let stats = &row["message_stats"];
        assert_eq!((&stats["publish"], &stats["publish_rejected"]), (&json!(1), &json!(refused)), "{row}");
        assert!(stats["publish_rejected_details"]["rate"].is_number(), "{row}");
        let shown = broker.verb(&["show", "queue", queue]).done();
        let line = shown.lines().find(|line| line.starts_with("message_stats.publish_rejected "));
        assert!(line.is_some_and(|line| line.ends_with(&format!(" {refused}"))), "{shown}");
    }
    let listed = broker.list("queues");
    let refused = listed.as_array().unwrap().iter().map(|row| &row["message_stats"]["publish_rejected"]);
    assert_eq!(refused.collect::<Vec<_>>(), [3, 0, 3], "{listed}");
    let columns =
        ["list", "queues", "--columns", "name,message_stats.publish_rejected", "--filter", "name=quorum"];
    assert!(broker.verb(&columns).done().ends_with(" 3"));

    let family = "/metrics/detailed?family=channel_queue_exchange_metrics";
    for (path, name) in [
        (family, "rabbitmq_detailed_queue_messages_publish_rejected_total"),
        ("/metrics/per-object", "rabbitmq_queue_messages_publish_rejected_total"),
    ] {
        let page = metrics(&directory, path);
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with(&format!("{name}{{"))).collect();
        assert!(rows.len() == 2 && rows.iter().all(|row| row.ends_with("} 3")), "{page}");
    }
    let page = metrics(&directory, "/metrics");
    assert!(page.lines().any(|line| line == "sluice_publishes_rejected_total 6"), "{page}");
}
