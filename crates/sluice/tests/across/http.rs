//! Stories of the management API, and of messages that queues send to queues of other nodes.

use serde_json::{Value, json};

use super::{CONSUMER, PUBLISHER, QUEUE};
use crate::broker::Broker;
use crate::nodes::{Cluster, wait_until};

fn publish(broker: &Broker, queue: &str, payload: &str) -> (u16, Value) {
    let body =
        json!({ "routing_key": queue, "payload": payload, "payload_encoding": "string", "properties": {} });
    broker.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body.to_string())
}

/// Takes up to ten messages, and returns their payloads.
fn take(broker: &Broker, queue: &str, mode: &str) -> Vec<String> {
    let body = json!({ "count": 10, "ackmode": mode, "encoding": "auto" });
    let (status, rows) = broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body.to_string());
    assert_eq!(status, 200, "{rows}");
    rows.as_array().unwrap().iter().map(|row| row["payload"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn messages_are_published_shown_and_taken_over_http() {
    let cluster = Cluster::start("across-http", &[]);
    let [publisher, consumer] = [PUBLISHER, CONSUMER].map(|at| cluster.broker(at));
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        for payload in ["a", "b"] {
            assert_eq!(publish(publisher, kind, payload), (200, json!({ "routed": true })), "{kind}");
        }
        wait_until("both are ready", || cluster.messages(kind) == (2, 0));
        assert_eq!(take(consumer, kind, "ack_requeue_true"), ["a", "b"], "{kind}: a look takes nothing");
        wait_until("both are ready", || cluster.messages(kind) == (2, 0));
        assert_eq!(take(consumer, kind, "ack_requeue_false"), ["a", "b"], "{kind}");
        wait_until("both are taken", || cluster.messages(kind) == (0, 0));
        assert!(take(publisher, kind, "ack_requeue_false").is_empty(), "{kind}");
        assert_eq!(publish(publisher, kind, "c").0, 200);
        wait_until("it is ready", || cluster.messages(kind) == (1, 0));
        let contents = format!("/api/queues/%2F/{kind}/contents");
        assert_eq!(consumer.ask("DELETE", &contents, "").0, 204, "{kind}");
        assert_eq!(cluster.messages(kind), (0, 0), "{kind}");
        assert_eq!(publisher.ask("DELETE", &format!("/api/queues/%2F/{kind}"), "").0, 204, "{kind}");
        wait_until("the queue is gone", || cluster.nodes.iter().all(|node| !node.has_queue(kind)));
    }
    cluster.stop();
}

#[test]
fn a_queue_of_another_node_keeps_the_order_of_priorities() {
    let cluster = Cluster::start("across-priorities", &[]);
    let [publisher, consumer] = [PUBLISHER, CONSUMER].map(|at| cluster.broker(at));
    cluster.declare(QUEUE, "p", &["--argument", "x-max-priority=5"]);
    let sent = [
        ("low-1", 1),
        ("high-1", 5),
        ("none", 0),
        ("low-2", 1),
        ("higher than the highest", 9),
        ("high-2", 5),
    ];
    for (payload, priority) in sent {
        let body = json!({
            "routing_key": "p", "payload": payload, "payload_encoding": "string",
            "properties": { "priority": priority },
        });
        let (status, answer) =
            publisher.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body.to_string());
        assert_eq!((status, answer), (200, json!({ "routed": true })), "{payload}");
    }
    wait_until("all are ready", || cluster.messages("p") == (6, 0));
    let ordered = ["high-1", "higher than the highest", "high-2", "low-1", "low-2", "none"];
    assert_eq!(take(consumer, "p", "ack_requeue_true"), ordered);
    // What returns keeps its place.
    wait_until("all are ready", || cluster.messages("p") == (6, 0));
    assert_eq!(take(consumer, "p", "ack_requeue_false"), ordered);
    cluster.stop();
}

#[test]
fn a_stream_of_another_node_is_browsed() {
    let cluster = Cluster::start("across-browse", &[]);
    cluster.declare(QUEUE, "s", &["--type", "stream"]);
    for payload in ["a", "b", "c"] {
        assert_eq!(publish(cluster.broker(PUBLISHER), "s", payload).0, 200);
    }
    let look = |query: &str| -> Vec<u64> {
        let path = format!("/api/queues/%2F/s/messages{query}");
        let (status, rows) = cluster.broker(CONSUMER).get(&path);
        assert_eq!(status, 200, "{rows}");
        rows.as_array().unwrap().iter().map(|row| row["offset"].as_u64().unwrap()).collect()
    };
    wait_until("all are stored", || look("") == [0, 1, 2]);
    assert_eq!(look("?offset=last"), [2]);
    assert_eq!(look("?offset=1&count=1"), [1]);
    cluster.stop();
}

#[test]
fn dead_letters_go_to_a_queue_of_another_node() {
    let cluster = Cluster::start("across-dead", &[]);
    cluster.declare(QUEUE, "dead", &[]);
    let to = ["--argument", "x-dead-letter-exchange=\"\"", "--argument", "x-dead-letter-routing-key=dead"];
    for (kind, more) in [
        ("classic", &["x-max-length=1"][..]),
        ("quorum", &["x-max-length=1", "x-dead-letter-strategy=at-least-once", "x-overflow=reject-publish"]),
    ] {
        let more = more.iter().flat_map(|argument| ["--argument", argument]);
        let words: Vec<&str> = ["--type", kind].into_iter().chain(to).chain(more).collect();
        cluster.declare(PUBLISHER, kind, &words);
        let source = cluster.broker(CONSUMER);
        assert_eq!(publish(source, kind, "rejected").0, 200, "{kind}");
        let path = format!("/api/queues/%2F/{kind}");
        let has_one = || cluster.broker(PUBLISHER).get(&path).1["messages_ready"] == 1;
        wait_until("it is ready", has_one);
        assert_eq!(take(source, kind, "reject_requeue_false"), ["rejected"], "{kind}");
        wait_until("it is dead", || cluster.messages("dead") == (1, 0));
        assert_eq!(take(source, "dead", "ack_requeue_false"), ["rejected"], "{kind}");
        let is_empty = || cluster.broker(PUBLISHER).get(&path).1["messages"] == 0;
        wait_until("the source has forgotten it", is_empty);
        wait_until("it is taken", || cluster.messages("dead") == (0, 0));
    }
    // The oldest message makes room for a new one.
    for payload in ["old", "new"] {
        assert_eq!(publish(cluster.broker(CONSUMER), "classic", payload).0, 200);
    }
    wait_until("one is dead", || cluster.messages("dead") == (1, 0));
    assert_eq!(take(cluster.broker(CONSUMER), "dead", "ack_requeue_false"), ["old"]);
    cluster.stop();
}
