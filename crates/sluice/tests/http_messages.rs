//! Messages that are published and taken over HTTP, against the built broker.

use crate::broker;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::verb::{ask_as, basic};
use broker::{Broker, Directory, Starting};
use serde_json::{Value, json};

const MODES: [&str; 4] =
    ["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"];

/// Publishes to the default exchange, with the fields that `more` has.
fn publish(broker: &Broker, exchange: &str, key: &str, payload: &str, more: &Value) -> (u16, Value) {
    let mut body =
        json!({ "routing_key": key, "payload": payload, "payload_encoding": "string", "properties": {} });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    broker.ask("POST", &format!("/api/exchanges/%2F/{exchange}/publish"), &body.to_string())
}

fn get(broker: &Broker, queue: &str, body: &Value) -> (u16, Value) {
    broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body.to_string())
}

/// Takes up to ten messages, and returns whether each was redelivered, and its payload.
fn take(broker: &Broker, queue: &str, mode: &str) -> Vec<(bool, String)> {
    let (status, rows) =
        get(broker, queue, &json!({ "count": 10, "ackmode": mode, "encoding": "auto", "truncate": 50_000 }));
    assert_eq!(status, 200, "{rows}");
    let row =
        |row: &Value| (row["redelivered"].as_bool().unwrap(), row["payload"].as_str().unwrap().to_owned());
    rows.as_array().unwrap().iter().map(row).collect()
}

/// Waits until a queue has so many ready and unacknowledged messages. A quorum queue shows them when they are committed.
fn wait_for_messages(broker: &Broker, queue: &str, expected: (u64, u64)) {
    while messages(broker, queue) != expected {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn messages(broker: &Broker, queue: &str) -> (u64, u64) {
    let (_, row) = broker.get(&format!("/api/queues/%2F/{queue}"));
    (row["messages_ready"].as_u64().unwrap(), row["messages_unacknowledged"].as_u64().unwrap())
}

#[test]
fn a_message_is_published_and_shown_with_its_properties() {
    let directory = Directory::new("http-messages");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["declare", "exchange", "x", "--type", "topic"]).done();
    broker.verb(&["declare", "binding", "x", "q", "--key", "a.#"]).done();
    let properties = json!({
        "content_type": "text/plain", "headers": { "n": 7, "f": 1.5, "l": [true, null], "o": { "k": "é" } },
        "delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r", "expiration": "600000",
        "message_id": "m", "timestamp": 1_700_000_000, "type": "t", "user_id": "guest", "app_id": "a",
    });
    let routed = (200, json!({ "routed": true }));
    assert_eq!(publish(&broker, "x", "a.b", "é!", &json!({ "properties": properties })), routed);
    let octets = STANDARD.encode([0xff, 0x00, 0x01]);
    let more = json!({ "payload_encoding": "base64", "properties": [] });
    assert_eq!(publish(&broker, "amq.default", "q", &octets, &more), routed);
    assert_eq!(publish(&broker, "x", "b", "lost", &json!({})), (200, json!({ "routed": false })));
    let text = json!({
        "payload_bytes": 3, "redelivered": false, "exchange": "x", "routing_key": "a.b", "message_count": 1,
        "properties": properties, "payload_encoding": "string", "payload": "é!",
    });
    let binary = json!({
        "payload_bytes": 3, "redelivered": false, "exchange": "", "routing_key": "q", "message_count": 0,
        "properties": {}, "payload_encoding": "base64", "payload": octets,
    });
    let all = json!({ "count": 5, "ackmode": "ack_requeue_true", "encoding": "auto" });
    assert_eq!(get(&broker, "q", &all), (200, json!([text, binary])));
    let cut = json!({ "count": "1", "ackmode": "ack_requeue_true", "encoding": "base64", "truncate": "2" });
    let (_, rows) = get(&broker, "q", &cut);
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(
        (&rows[0]["payload"], &rows[0]["payload_encoding"], &rows[0]["payload_bytes"]),
        (&json!(STANDARD.encode("é")), &json!("base64"), &json!(3))
    );
    let none = json!({ "count": 0, "ackmode": "ack_requeue_false", "encoding": "auto" });
    assert_eq!(get(&broker, "q", &none), (200, json!([])));
    assert_eq!(messages(&broker, "q"), (2, 0));
    assert!(broker.terminate().success());
}

/// Application-properties of AMQP 1.0 are headers of AMQP 0.9.1, and may be longer than its frames.
#[test]
fn a_message_with_long_headers_is_taken() {
    let directory = Directory::new("http-long-headers");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    let value = "x".repeat(100_000);
    let [a, b] = ["a", "b"].map(|name| format!("{name}={value}"));
    broker.verb(&["send", "q", "body", "--property", &a, "--property", &b]).done();
    let all = json!({ "count": 1, "ackmode": "ack_requeue_false", "encoding": "auto" });
    let (status, rows) = get(&broker, "q", &all);
    assert_eq!(status, 200, "{rows}");
    assert_eq!(rows[0]["properties"]["headers"], json!({ "a": value, "b": value }));
    // Over AMQP 0.9.1, such a message cannot be published.
    let headers = json!({ "properties": { "headers": { "a": "x".repeat(128_000) } } });
    let (status, failure) = publish(&broker, "amq.default", "q", "body", &headers);
    let reason = failure["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!((status, reason.contains("is larger than the maximum 126976")), (400, true), "{failure}");
    assert_eq!(messages(&broker, "q"), (0, 0));
    assert!(broker.terminate().success());
}

#[test]
fn each_mode_leaves_the_queue_as_it_says() {
    let directory = Directory::new("http-modes");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    for kind in ["classic", "quorum"] {
        for mode in MODES {
            let queue = format!("{kind}-{mode}");
            let dead_letters =
                ["--argument", "x-dead-letter-exchange=", "--argument", "x-dead-letter-routing-key=dead"];
            let declare = ["declare", "queue", &queue, "--type", kind];
            broker.verb(&[&declare[..], &dead_letters[..]].concat()).done();
            for body in ["1", "2", "3"] {
                assert_eq!(publish(&broker, "amq.default", &queue, body, &json!({})).1["routed"], true);
            }
            let all = |redelivered| ["1", "2", "3"].map(|body| (redelivered, body.to_owned())).to_vec();
            assert_eq!(take(&broker, &queue, mode), all(false), "{queue}");
            let is_kept = mode.ends_with("_true");
            wait_for_messages(&broker, &queue, (if is_kept { 3 } else { 0 }, 0));
            let left = take(&broker, &queue, "ack_requeue_false");
            assert_eq!(left, if is_kept { all(true) } else { Vec::new() }, "{queue}");
            // As in RabbitMQ, a message that was rejected is redelivered where it is a dead letter.
            let expected = if mode == "reject_requeue_false" { all(true) } else { Vec::new() };
            wait_for_messages(&broker, "dead", (expected.len() as u64, 0));
            let dead = take(&broker, "dead", "ack_requeue_false");
            assert_eq!(dead, expected, "{queue}");
        }
    }
    assert!(broker.terminate().success());
}

#[test]
fn a_message_of_amqp_1_0_is_shown_as_one_of_0_9_1() {
    let directory = Directory::new("http-amqp10");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["send", "q", "body", "--property", "k=v", "--ttl", "600000"]).done();
    let (status, rows) =
        get(&broker, "q", &json!({ "count": 1, "ackmode": "ack_requeue_false", "encoding": "auto" }));
    assert_eq!((status, &rows[0]["payload"]), (200, &json!("body")), "{rows}");
    let properties = &rows[0]["properties"];
    assert_eq!(properties["headers"]["k"], "v", "{rows}");
    assert_eq!(
        (&properties["delivery_mode"], &properties["expiration"]),
        (&json!(2), &json!("600000")),
        "{rows}"
    );
    // And a message that was published over HTTP has the properties of AMQP 1.0.
    let more = json!({ "properties": { "headers": { "k": "w" }, "message_id": "m" } });
    assert_eq!(publish(&broker, "amq.default", "q", "back", &more).0, 200);
    let received: Value =
        serde_json::from_str(&broker.verb(&["recv", "q", "--count", "1", "--json"]).done()).unwrap();
    assert_eq!(received["body"], "back", "{received}");
    assert_eq!(received["application_properties"]["k"], "w", "{received}");
    assert_eq!(received["properties"]["message_id"], "m", "{received}");
    assert!(broker.terminate().success());
}

#[test]
fn what_is_wrong_is_said() {
    let directory = Directory::new("http-refused");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    broker
        .verb(&[
            "declare",
            "queue",
            "full",
            "--argument",
            "x-max-length=0",
            "--argument",
            "x-overflow=reject-publish",
        ])
        .done();
    let (status, refused) = publish(&broker, "nope", "k", "m", &json!({}));
    let missing =
        |reason: &str, detail: &str| json!({ "error": "not_found", "reason": reason, "detail": detail });
    assert_eq!(status, 404);
    assert_eq!(refused, missing("exchange_not_found", "NOT_FOUND - no exchange 'nope' in vhost '/'"));
    let wanted = json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto" });
    let (status, refused) = get(&broker, "nope", &wanted);
    let queue = missing("queue_not_found", "NOT_FOUND - no queue 'nope' in vhost '/'");
    assert_eq!((status, refused), (404, queue));
    let (status, refused) = broker.ask("POST", "/api/queues/nope/q/get", &wanted.to_string());
    assert_eq!((status, refused), (404, missing("vhost_not_found", "no vhost 'nope'")));
    // A name that AMQP 0.9.1 would cut off names nothing.
    let long = "n".repeat(256);
    for (path, what, kind) in [
        (format!("nope{long}/q"), "virtual host", "vhost_not_found"),
        (format!("%2F/{long}"), "queue", "queue_not_found"),
    ] {
        let (status, refused) = broker.ask("POST", &format!("/api/queues/{path}/get"), &wanted.to_string());
        let detail = format!("no {what} has a name of more than 255 bytes");
        assert_eq!((status, refused), (404, missing(kind, &detail)));
    }
    let (status, refused) = get(&broker, "s", &wanted);
    let reason = "540 NOT_IMPLEMENTED - basic.get not supported by stream queues queue 's' in vhost '/'";
    assert_eq!((status, &refused["error"], &refused["reason"]), (400, &json!("bad_request"), &json!(reason)));
    let (status, refused) = publish(&broker, "amq.default", "full", "m", &json!({}));
    let reason = "rejected Unable to publish message. Check queue limits.";
    assert_eq!((status, &refused["reason"]), (400, &json!(reason)));
    let (status, refused) =
        publish(&broker, "amq.default", "s", "m", &json!({ "properties": { "user_id": "somebody" } }));
    assert_eq!(status, 400, "{refused}");
    assert!(refused["reason"].as_str().unwrap().starts_with("406 PRECONDITION_FAILED - "), "{refused}");
    let keys: Vec<String> = (0..257).map(|n| n.to_string()).collect();
    let more = json!({ "properties": { "headers": { "CC": keys[..200], "BCC": keys[200..] } } });
    let (status, refused) = publish(&broker, "amq.default", "s", "m", &more);
    let reason =
        "406 PRECONDITION_FAILED - invalid message: CC and BCC have more than 256 different routing keys";
    assert_eq!((status, &refused["reason"]), (400, &json!(reason)));
    for (path, body, reason) in [
        (
            "exchanges/%2F/x/publish",
            "{}",
            "[{key_missing,routing_key},{key_missing,properties},{key_missing,payload},{key_missing,payload_encoding}]",
        ),
        (
            "exchanges/%2F/x/publish",
            r#"{"routing_key":"","properties":{},"payload":1,"payload_encoding":"string"}"#,
            "payload_not_string",
        ),
        (
            "exchanges/%2F/x/publish",
            r#"{"routing_key":"","properties":{},"payload":"","payload_encoding":"hex"}"#,
            "unsupported payload_encoding \"hex\". Please use string or base64.",
        ),
        (
            "exchanges/%2F/x/publish",
            r#"{"routing_key":"","properties":{},"payload":"?","payload_encoding":"base64"}"#,
            "'payload' is not base64",
        ),
        (
            "exchanges/%2F/x/publish",
            r#"{"routing_key":"","properties":{"priority":-1},"payload":"","payload_encoding":"base64"}"#,
            "the property 'priority' is not a whole number from 0 to 255",
        ),
        ("queues/%2F/s/get", r#"{"count":1}"#, "[{key_missing,ackmode},{key_missing,encoding}]"),
        (
            "queues/%2F/s/get",
            r#"{"count":1,"ackmode":"keep","encoding":"auto"}"#,
            "unsupported ackmode \"keep\". Please use ack_requeue_true, ack_requeue_false, reject_requeue_true or reject_requeue_false.",
        ),
        (
            "queues/%2F/s/get",
            r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"hex"}"#,
            "Unsupported encoding. Please use auto or base64.",
        ),
        (
            "queues/%2F/s/get",
            r#"{"count":10001,"ackmode":"ack_requeue_true","encoding":"auto"}"#,
            "count '10001' is not a number from 0 to 10000",
        ),
        (
            "queues/%2F/s/get",
            r#"{"count":"all","ackmode":"ack_requeue_true","encoding":"auto"}"#,
            "count 'all' is not a number from 0 to 10000",
        ),
        (
            "queues/%2F/s/get",
            r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto","truncate":-1}"#,
            "truncate '-1' is not a number of bytes",
        ),
    ] {
        let (status, refused) = broker.ask("POST", &format!("/api/{path}"), body);
        assert_eq!((status, &refused["reason"]), (400, &json!(reason)), "{body}");
    }
    assert!(broker.terminate().success());
}

#[test]
fn an_answer_has_as_many_messages_as_fit() {
    let directory = Directory::new("http-large");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    let large = "x".repeat(4_300_000);
    for _ in 0..3 {
        assert_eq!(publish(&broker, "amq.default", "q", &large, &json!({})).1["routed"], true);
    }
    let sizes = |mode, truncate| {
        let wanted = json!({ "count": 3, "ackmode": mode, "encoding": "auto", "truncate": truncate });
        let (status, rows) = get(&broker, "q", &wanted);
        let size =
            |row: &Value| (row["payload_bytes"].as_u64().unwrap(), row["payload"].as_str().unwrap().len());
        (status, rows.as_array().unwrap().iter().map(size).collect::<Vec<_>>())
    };
    // The bound is 8 MiB. What is not shown does not count.
    assert_eq!(sizes("ack_requeue_true", 9), (200, vec![(4_300_000, 9); 3]));
    assert_eq!(sizes("ack_requeue_false", 5_000_000), (200, vec![(4_300_000, 4_300_000); 2]));
    assert_eq!(messages(&broker, "q"), (1, 0), "the third message is still there");
    assert!(broker.terminate().success());
}

/// More requests at once than have a place: the others wait.
#[test]
fn many_requests_at_once_are_answered() {
    let directory = Directory::new("http-many");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(publish(&broker, "amq.default", "q", "m", &json!({})).0, 200));
        }
    });
    assert_eq!(messages(&broker, "q"), (40, 0));
    assert!(broker.terminate().success());
}

#[test]
fn a_request_is_a_connection_of_its_user() {
    let directory = Directory::new("http-connection");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.ask("PUT", "/api/users/dora", r#"{"password":"dora","tags":"management"}"#);
    broker.ask("PUT", "/api/permissions/%2F/dora", r#"{"configure":"","write":"^$","read":"^$"}"#);
    let dora = |path: &str, body: &Value| {
        let (status, answer) =
            ask_as(broker.http_port, &basic("dora", "dora"), "POST", path, &body.to_string());
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        (status, body["error"].clone(), body["reason"].clone())
    };
    let message =
        json!({ "routing_key": "q", "payload": "m", "payload_encoding": "string", "properties": {} });
    let wanted = json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto" });
    let refused = |reason: &str| (401, json!("not_authorised"), json!(reason));
    let reason =
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'dora'";
    assert_eq!(dora("/api/exchanges/%2F/amq.default/publish", &message), refused(reason));
    let reason = "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'dora'";
    assert_eq!(dora("/api/queues/%2F/q/get", &wanted), refused(reason));
    broker.ask("PUT", "/api/user-limits/dora/max-connections", r#"{"value":0}"#);
    let reason = "NOT_ALLOWED - connection refused for user 'dora': user connection limit (0) is reached";
    assert_eq!(dora("/api/queues/%2F/q/get", &wanted), refused(reason));
    // Soon no connection is left, and each was opened by its user at the address of the HTTP client.
    while broker.get("/api/overview").1["object_totals"]["connections"] != 0 {
        std::thread::yield_now();
    }
    let logged = directory.logged();
    let opened = logged.lines().filter(|line| line.contains("connection open") && line.contains(" -> http#"));
    assert_eq!(opened.filter(|line| line.contains("dora")).count(), 2, "{logged}");
    assert!(broker.terminate().success());
}

#[test]
fn an_alarm_stops_messages_over_http() {
    let directory = Directory::new("http-alarm");
    let broker = Starting::spawn(&directory, &["disk_free_limit.absolute=1000TB"]).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    let (status, refused) = publish(&broker, "amq.default", "q", "m", &json!({}));
    assert_eq!((status, &refused["error"]), (503, &json!("service_unavailable")));
    assert_eq!(refused["reason"], "publishing is stopped: disk alarm on node 'sluice@localhost'");
    let body = r#"{"routing_key":"q","payload":"m","payload_encoding":"string","properties":{}}"#;
    let path = "/api/exchanges/%2F/amq.default/publish";
    let (_, answer) = ask_as(broker.http_port, &basic("guest", "guest"), "POST", path, body);
    assert!(answer.to_lowercase().contains("\r\nretry-after: 5\r\n"), "{answer}");
    assert_eq!(take(&broker, "q", "ack_requeue_true"), [], "reading continues");
    assert!(broker.terminate().success());
}
