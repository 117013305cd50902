//! Traces of a queue, a connection and a virtual host, with clients of both protocols.

use crate::broker;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use broker::{Broker, Directory, PROGRAM, Starting};
use serde_json::{Value, json};

/// Declares a queue that gets the copies of traced messages.
fn listen(broker: &Broker, queue: &str) {
    broker.verb(&["declare", "queue", queue]).done();
    broker.verb(&["declare", "binding", "amq.rabbitmq.trace", queue, "--key", "#"]).done();
}

/// Takes all copies that a queue has.
fn take(broker: &Broker, queue: &str) -> Vec<Value> {
    let body = json!({ "count": 1000, "ackmode": "ack_requeue_false", "encoding": "auto" }).to_string();
    let (status, rows) = broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body);
    assert_eq!(status, 200, "{rows}");
    rows.as_array().unwrap().clone()
}

/// Takes copies until there are so many. More are a failure.
fn take_so_many(broker: &Broker, queue: &str, count: usize) -> Vec<Value> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(take(broker, queue));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(taken.len(), count, "{taken:#?}");
    taken
}

fn trace(broker: &Broker, name: &str, body: &Value) {
    let (status, answer) = broker.ask("PUT", &format!("/api/traces/%2F/{name}"), &body.to_string());
    assert_eq!(status, 201, "{answer}");
}

/// Publishes over AMQP 0.9.1.
fn publish(broker: &Broker, exchange: &str, key: &str, payload: &str) {
    let body = json!({
        "routing_key": key, "payload": payload, "payload_encoding": "string",
        "properties": { "content_type": "text/plain", "headers": { "n": 7 }, "priority": 3 },
    });
    let (status, answer) =
        broker.ask("POST", &format!("/api/exchanges/%2F/{exchange}/publish"), &body.to_string());
    assert_eq!(status, 200, "{answer}");
}

/// Takes one message over AMQP 0.9.1.
fn get(broker: &Broker, queue: &str) {
    let body = json!({ "count": 1, "ackmode": "ack_requeue_false", "encoding": "auto" }).to_string();
    let (_, rows) = broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body);
    assert_eq!(rows.as_array().unwrap().len(), 1);
}

/// Returns how often each routing key occurs.
fn keys(copies: &[Value]) -> BTreeMap<&str, usize> {
    let mut keys = BTreeMap::new();
    copies.iter().for_each(|copy| *keys.entry(copy["routing_key"].as_str().unwrap()).or_default() += 1);
    keys
}

#[test]
fn a_trace_of_a_queue_copies_what_both_protocols_publish_to_it_and_take_from_it() {
    let directory = Directory::new("trace-queue");
    let broker = Broker::start(&directory);
    for queue in ["q", "other"] {
        broker.verb(&["declare", "queue", queue]).done();
        broker.verb(&["declare", "binding", "amq.topic", queue, "--key", &format!("{queue}.#")]).done();
    }
    listen(&broker, "copies");
    broker.verb(&["send", "/queues/q", "before"]).done();
    get(&broker, "q");
    trace(&broker, "t", &json!({ "queue": "q", "seconds": 600 }));
    publish(&broker, "amq.topic", "q.a", "over 0.9.1");
    broker.verb(&["send", "/queues/q", "over 1.0"]).done();
    publish(&broker, "amq.topic", "other.a", "m");
    publish(&broker, "amq.topic", "nowhere", "m");
    get(&broker, "q");
    assert_eq!(broker.verb(&["recv", "/queues/q", "--count", "1"]).done(), "over 1.0");
    get(&broker, "other");
    let copies = take_so_many(&broker, "copies", 4);
    assert_eq!(keys(&copies), [("deliver.q", 2), ("publish.", 1), ("publish.amq.topic", 1)].into());

    let of = |key: &str, payload: &str| {
        let found = copies.iter().find(|copy| copy["routing_key"] == key && copy["payload"] == payload);
        found.unwrap_or_else(|| panic!("no {key} of {payload} in {copies:#?}"))["properties"]["headers"]
            .clone()
    };
    let published = of("publish.amq.topic", "over 0.9.1");
    assert_eq!(published["exchange_name"], "amq.topic");
    assert_eq!(published["routing_keys"], json!(["q.a"]));
    assert_eq!(published["routed_queues"], json!(["q"]));
    assert_eq!(
        published["properties"],
        json!({ "content_type": "text/plain", "headers": { "n": 7 }, "priority": 3 })
    );
    assert_eq!((&published["vhost"], &published["user"]), (&json!("/"), &json!("guest")));
    assert_eq!((&published["channel"], &published["traces"]), (&json!(1), &json!(["t"])));
    assert!(published["connection"].as_str().unwrap().contains(" -> "), "{published}");
    assert!(published["node"].as_str().unwrap().contains('@'), "{published}");
    assert_eq!(of("publish.", "over 1.0")["routed_queues"], json!(["q"]));
    for payload in ["over 0.9.1", "over 1.0"] {
        let delivered = of("deliver.q", payload);
        assert_eq!((&delivered["redelivered"], &delivered["user"]), (&json!(0), &json!("guest")));
        assert_eq!(delivered.get("routed_queues"), None);
    }

    // The trace is listed until it is ended.
    let (_, traces) = broker.get("/api/traces/%2F");
    assert_eq!((&traces[0]["name"], &traces[0]["queue"]), (&json!("t"), &json!("q")));
    assert_eq!(traces[0]["messages_left"], 10_000 - 4);
    assert!((1..=600).contains(&traces[0]["seconds_left"].as_u64().unwrap()));
    assert_eq!(broker.ask("DELETE", "/api/traces/%2F/t", "").0, 204);
    assert_eq!(broker.ask("DELETE", "/api/traces/%2F/t", "").0, 404);
    assert_eq!(broker.get("/api/traces").1, json!([]));
    publish(&broker, "amq.topic", "q.a", "after");
    get(&broker, "q");
    assert_eq!(take(&broker, "copies"), Vec::<Value>::new());
    assert!(broker.terminate().success());
}

#[test]
fn a_trace_ends_by_itself_after_its_messages_and_after_its_time() {
    let directory = Directory::new("trace-ends");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    listen(&broker, "copies");
    trace(&broker, "few", &json!({ "queue": "q", "messages": 2 }));
    (0..5).for_each(|_| publish(&broker, "amq.default", "q", "m"));
    assert_eq!(take_so_many(&broker, "copies", 2).len(), 2);
    assert_eq!(broker.get("/api/traces/%2F/few").0, 404);

    trace(&broker, "short", &json!({ "queue": "q", "seconds": 1 }));
    while broker.get("/api/traces/%2F/short").0 != 404 {
        std::thread::sleep(Duration::from_millis(20));
    }
    publish(&broker, "amq.default", "q", "m");
    assert_eq!(take(&broker, "copies"), Vec::<Value>::new());

    for body in ["{}", r#"{"queue":"q","connection":"c"}"#, r#"{"queue":"q","seconds":0}"#, r#"{"queue":7}"#]
    {
        let (status, refused) = broker.ask("PUT", "/api/traces/%2F/t", body);
        assert_eq!((status, &refused["error"]), (400, &json!("bad_request")), "{body}");
    }
    for n in 0..16 {
        trace(&broker, &format!("t{n}"), &json!({ "queue": "q", "seconds": 600 }));
    }
    let (status, refused) = broker.ask("PUT", "/api/traces/%2F/more", r#"{"queue":"q"}"#);
    assert!(status == 400 && refused["reason"].as_str().unwrap().contains("16 traces"), "{refused}");
    trace(&broker, "t3", &json!({ "queue": "other", "seconds": 600 }));
    assert!(broker.terminate().success());
}

#[test]
fn the_firehose_of_a_virtual_host_copies_everything_but_the_copies() {
    let directory = Directory::new("trace-firehose");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    listen(&broker, "copies");
    assert_eq!(broker.get("/api/vhosts/%2F").1["tracing"], false);
    assert_eq!(broker.ask("PUT", "/api/vhosts/%2F", r#"{"tracing":true}"#).0, 204);
    assert_eq!(broker.get("/api/vhosts/%2F").1["tracing"], true);
    publish(&broker, "amq.topic", "nowhere", "unroutable");
    broker.verb(&["send", "/queues/q", "m"]).done();
    get(&broker, "q");
    let copies = take_so_many(&broker, "copies", 3);
    assert_eq!(keys(&copies), [("deliver.q", 1), ("publish.", 1), ("publish.amq.topic", 1)].into());
    let unroutable = copies.iter().find(|copy| copy["routing_key"] == "publish.amq.topic").unwrap();
    assert_eq!(unroutable["properties"]["headers"]["routed_queues"], json!([]));
    assert_eq!(unroutable["properties"]["headers"].get("traces"), None);
    assert_eq!(take(&broker, "copies"), Vec::<Value>::new(), "taking the copies makes none");
    assert_eq!(broker.ask("PUT", "/api/vhosts/%2F", r#"{"tracing":false}"#).0, 204);
    publish(&broker, "amq.default", "q", "m");
    assert_eq!(take(&broker, "copies"), Vec::<Value>::new());
    assert!(broker.terminate().success());
}

/// The verb prints messages as they pass, of its own trace only, and ends with the trace.
#[test]
fn the_verb_prints_the_messages_of_a_queue_and_removes_what_it_has_made() {
    let directory = Directory::new("trace-verb");
    let broker = Starting::spawn(&directory, &[]).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    let mut traced = Command::new(PROGRAM)
        .args(["trace", "queue", "q", "--for", "10m", "--limit", "2"])
        .env("SLUICE_HTTP_URL", broker.http_url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while broker.get("/api/traces").1 == json!([]) {
        std::thread::sleep(Duration::from_millis(10));
    }
    trace(&broker, "of-somebody-else", &json!({ "queue": "q", "seconds": 600 }));
    broker.verb(&["send", "/queues/q", "hello"]).done();
    get(&broker, "q");
    get_nothing_more(&broker);
    let mut lines = BufReader::new(traced.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (published, delivered) = (lines.next().unwrap(), lines.next().unwrap());
    let is = |line: &str, start: &str| line.starts_with(start) && line.ends_with("bytes=5  payload=hello");
    assert!(is(&published, "publish  queues=q  exchange=\"\"  keys=q  user=guest  "), "{published}");
    assert!(
        is(&delivered, "deliver  queue=q  redelivered=no  exchange=\"\"  keys=q  user=guest  "),
        "{delivered}"
    );
    assert_eq!(lines.next(), None, "the trace has ended with its second message");
    assert!(traced.wait().unwrap().success());
    let queues: Vec<String> =
        broker.list("queues").as_array().unwrap().iter().map(|q| q["name"].to_string()).collect();
    assert_eq!(queues, ["\"q\""]);
    assert!(broker.terminate().success());
}

fn get_nothing_more(broker: &Broker) {
    let body = json!({ "count": 1, "ackmode": "ack_requeue_false", "encoding": "auto" }).to_string();
    assert_eq!(broker.ask("POST", "/api/queues/%2F/q/get", &body).1, json!([]));
}
