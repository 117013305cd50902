//! The events that the broker publishes to `amq.rabbitmq.event`, as clients of both protocols and of HTTP see them.

use crate::broker;

use std::time::Duration;

use broker::verb::{ask_as, basic};
use broker::{Broker, Directory, Starting};
use serde_json::{Value, json};

const ON: &str = "event_exchange.enabled=true";

/// Takes the messages of a queue until `done` says that all are there. Returns the routing key and the properties of each.
fn take_until(
    broker: &Broker,
    queue: &str,
    done: impl Fn(&[(String, Value)]) -> bool,
) -> Vec<(String, Value)> {
    let body = json!({ "count": 1000, "ackmode": "ack_requeue_false", "encoding": "auto" }).to_string();
    let mut taken = Vec::new();
    loop {
        let (status, rows) = broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body);
        assert_eq!(status, 200, "{rows}");
        for row in rows.as_array().unwrap() {
            assert_eq!((&row["exchange"], &row["payload"]), (&json!("amq.rabbitmq.event"), &json!("")));
            taken.push((row["routing_key"].as_str().unwrap().to_owned(), row["properties"].clone()));
        }
        if done(&taken) {
            return taken;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Declares a queue that gets the events with these keys.
fn listen(broker: &Broker, queue: &str, keys: &[&str]) {
    broker.verb(&["declare", "queue", queue]).done();
    for key in keys {
        broker.verb(&["declare", "binding", "amq.rabbitmq.event", queue, "--key", key]).done();
    }
}

fn keys(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(key, _)| key.as_str()).collect()
}

/// Returns the headers of the only event with this key.
fn headers<'a>(events: &'a [(String, Value)], key: &str) -> &'a Value {
    let mut found = events.iter().filter(|(k, _)| k == key);
    let (_, properties) = found.next().unwrap_or_else(|| panic!("no {key} in {:?}", keys(events)));
    assert!(found.next().is_none(), "{key} occurs once");
    &properties["headers"]
}

#[test]
fn changes_of_the_catalog_are_events_that_name_their_user() {
    let directory = Directory::new("events-catalog");
    let mut starting = Starting::spawn(&directory, &[ON]);
    let broker = starting.finish();
    listen(
        &broker,
        "events",
        &["queue.*", "exchange.*", "policy.#", "user.created", "user.tags.set", "vhost.*"],
    );
    broker.verb(&["declare", "exchange", "x", "--type", "topic"]).done();
    broker.verb(&["declare", "queue", "q", "--type", "quorum"]).done();
    broker.verb(&["set", "policy", "p", "^q$", r#"{"max-length":5}"#]).done();
    let put = |path: &str, body: &str| assert_eq!(broker.ask("PUT", path, body).0, 201, "{path}");
    put("/api/users/ann", r#"{"password":"a-secret","tags":"administrator"}"#);
    put("/api/vhosts/v", "{}");
    let delete = |path: &str| {
        let (status, answer) = ask_as(broker.http_port, &basic("ann", "a-secret"), "DELETE", path, "");
        assert_eq!(status, 204, "{answer}");
    };
    delete("/api/vhosts/v");
    broker.ask("DELETE", "/api/queues/%2F/q", "");
    let events = take_until(&broker, "events", |events| events.iter().any(|(key, _)| key == "queue.deleted"));
    assert_eq!(
        keys(&events),
        [
            "exchange.created",
            "queue.created",
            "policy.set",
            "user.created",
            "user.tags.set",
            "vhost.created",
            "vhost.deleted",
            "queue.deleted",
        ]
    );
    for (_, properties) in &events {
        assert_eq!(properties["delivery_mode"], 2);
        let ms = properties["headers"]["timestamp_in_ms"].as_u64().unwrap();
        assert_eq!(properties["timestamp"], ms / 1000);
    }
    let queue = headers(&events, "queue.created");
    assert_eq!(
        (&queue["name"], &queue["vhost"], &queue["type"]),
        (&json!("q"), &json!("/"), &json!("quorum"))
    );
    assert_eq!((&queue["durable"], &queue["exclusive"]), (&json!(true), &json!(false)));
    assert_eq!(queue["arguments"], json!({ "x-queue-type": "quorum" }));
    assert_eq!(queue["user_who_performed_action"], "guest");
    assert_eq!(headers(&events, "vhost.deleted")["user_who_performed_action"], "ann");
    assert_eq!(headers(&events, "policy.set")["definition"], json!({ "max-length": 5 }));
    assert_eq!(headers(&events, "user.tags.set")["tags"], json!(["administrator"]));
    assert!(!events.iter().any(|(_, event)| event.to_string().contains("a-secret")));

    // The queue keeps its binding when the broker starts again.
    assert!(broker.terminate().success());
    starting = Starting::spawn(&directory, &[ON]);
    let broker = starting.finish();
    broker.verb(&["declare", "queue", "later"]).done();
    let events = take_until(&broker, "events", |events| !events.is_empty());
    assert_eq!(headers(&events, "queue.created")["name"], "later");
    assert!(broker.terminate().success());
}

#[test]
fn connections_consumers_and_logins_of_both_protocols_are_events() {
    let directory = Directory::new("events-clients");
    let broker = Starting::spawn(&directory, &[ON, "management.tcp.ip=::"]).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    listen(&broker, "events", &["connection.*", "channel.*", "consumer.*", "user.authentication.*"]);
    // A client of AMQP 1.0: it consumes a message.
    broker.verb(&["send", "/queues/q", "m"]).done();
    assert_eq!(broker.verb(&["recv", "/queues/q", "--count", "1"]).done(), "m");
    let of = |events: &[(String, Value)], key: &str, field: &str, value: &str| {
        events.iter().filter(|(k, event)| k == key && event["headers"][field] == value).count()
    };
    // The request that takes the events is the client of AMQP 0.9.1.
    let opened_over = |events: &[(String, Value)], protocol: &str| -> Vec<String> {
        let opened = events
            .iter()
            .filter(|(key, event)| key == "connection.created" && event["headers"]["protocol"] == protocol);
        opened.map(|(_, event)| event["headers"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let events = take_until(&broker, "events", |events| {
        let opened = opened_over(events, "AMQP 1-0");
        let closed = opened.iter().filter(|name| of(events, "connection.closed", "name", name) == 1);
        closed.count() == 2 && keys(events).contains(&"channel.closed")
    });
    assert!(!opened_over(&events, "AMQP 0-9-1").is_empty());
    assert!(of(&events, "user.authentication.success", "connection_type", "http") >= 1);
    assert_eq!(of(&events, "user.authentication.success", "protocol", "AMQP 1-0"), 2);
    let opened = opened_over(&events, "AMQP 1-0");
    for name in &opened {
        assert_eq!(of(&events, "user.authentication.success", "connection_name", name), 1, "{name}");
    }
    for key in ["consumer.created", "consumer.deleted"] {
        let consumer = headers(&events, key);
        assert_eq!((&consumer["queue"], &consumer["vhost"]), (&json!("q"), &json!("/")));
        assert_eq!(consumer["user_who_performed_action"], "guest");
        assert_eq!(consumer["channel"], format!("{} (0)", opened[1]));
    }
    assert_eq!(headers(&events, "consumer.created")["ack_required"], true);
    let channel = events.iter().find(|(key, _)| key == "channel.created").unwrap();
    assert_eq!(
        (&channel.1["headers"]["number"], &channel.1["headers"]["user"]),
        (&json!(1), &json!("guest"))
    );
    // A wrong password. The listener on `[::]` has an address of IPv4 as one of IPv6.
    assert_eq!(ask_as(broker.http_port, &basic("guest", "guess"), "GET", "/api/overview", "").0, 401);
    let failed = "user.authentication.failure";
    let events = take_until(&broker, "events", |events| events.iter().any(|(key, _)| key == failed));
    let refused = headers(&events, failed);
    assert_eq!((&refused["name"], &refused["peer_host"]), (&json!("guest"), &json!("127.0.0.1")));
    assert_eq!(refused["error"], "unknown user or wrong password");
    assert!(!refused.to_string().contains("guess"));
    assert!(broker.terminate().success());
}

/// A consumer of AMQP 1.0 gets the headers as application-properties.
#[test]
fn consumers_of_amqp_1_0_get_events_too() {
    let directory = Directory::new("events-amqp10");
    let broker = Starting::spawn(&directory, &[ON]).finish();
    listen(&broker, "events", &["exchange.created"]);
    broker.verb(&["declare", "exchange", "x", "--type", "fanout"]).done();
    let line = broker.verb(&["recv", "/queues/events", "--count", "1", "--json"]).done();
    let event: Value = serde_json::from_str(&line).unwrap();
    let headers = &event["application_properties"];
    assert_eq!((&headers["name"], &headers["type"]), (&json!("x"), &json!("fanout")), "{line}");
    assert!(broker.terminate().success());
}

#[test]
fn without_the_setting_there_is_no_exchange_and_nothing_is_published() {
    let directory = Directory::new("events-off");
    let broker = Broker::start(&directory);
    assert_eq!(broker.get("/api/exchanges/%2F/amq.rabbitmq.event").0, 404);
    broker.verb(&["declare", "queue", "q"]).done();
    broker
        .verb(&["declare", "binding", "amq.rabbitmq.event", "q", "--key", "#"])
        .refused(1, &["amq.rabbitmq.event"]);
    assert!(broker.terminate().success());
}

/// A setting asks for the exchange. It never takes it away with its bindings; only somebody who deletes it does.
#[test]
fn the_exchange_stays_with_its_bindings_when_the_setting_is_switched_off() {
    const EXCHANGE: &str = "/api/exchanges/%2F/amq.rabbitmq.event";
    let directory = Directory::new("events-switched");
    let broker = Starting::spawn(&directory, &[ON]).finish();
    listen(&broker, "events", &["exchange.*"]);
    let (status, refused) = broker.ask("DELETE", EXCHANGE, "");
    assert_eq!(status, 401, "{refused}");
    assert!(broker.terminate().success());

    let broker = Broker::start(&directory);
    broker.verb(&["declare", "exchange", "silent"]).done();
    let (status, bindings) = broker.get(&format!("{EXCHANGE}/bindings/source"));
    assert_eq!((status, &bindings[0]["destination"]), (200, &json!("events")), "{bindings}");
    assert!(broker.terminate().success());

    let broker = Starting::spawn(&directory, &[ON]).finish();
    broker.verb(&["declare", "exchange", "x"]).done();
    let events = take_until(&broker, "events", |events| !events.is_empty());
    assert_eq!(
        headers(&events, "exchange.created")["name"],
        "x",
        "there was no event while the setting was off"
    );
    assert!(broker.terminate().success());

    let broker = Broker::start(&directory);
    assert_eq!(broker.ask("DELETE", EXCHANGE, "").0, 204);
    assert!(broker.terminate().success());

    let broker = Starting::spawn(&directory, &[ON]).finish();
    assert_eq!(broker.get(EXCHANGE).0, 200, "it is declared again");
    assert_eq!(broker.get(&format!("{EXCHANGE}/bindings/source")).1, json!([]));
    assert!(broker.terminate().success());
}

#[test]
fn lines_of_the_log_are_messages() {
    let directory = Directory::new("events-log");
    let broker = Starting::spawn(&directory, &["log.exchange=true"]).finish();
    broker.verb(&["declare", "queue", "lines"]).done();
    broker.verb(&["declare", "binding", "amq.rabbitmq.log", "lines", "--key", "warning"]).done();
    assert_eq!(ask_as(broker.http_port, &basic("guest", "guess"), "GET", "/api/overview", "").0, 401);
    let body = json!({ "count": 10, "ackmode": "ack_requeue_false", "encoding": "auto" }).to_string();
    // On a slow machine there may be other warnings: of late turns.
    let is_login =
        |row: &&Value| row["payload"].as_str().is_some_and(|text| text.contains(r#"what="login""#));
    let line = loop {
        let (status, rows) = broker.ask("POST", "/api/queues/%2F/lines/get", &body);
        assert_eq!(status, 200, "{rows}");
        if let Some(line) = rows.as_array().unwrap().iter().find(is_login) {
            break line.clone();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((&line["exchange"], &line["routing_key"]), (&json!("amq.rabbitmq.log"), &json!("warning")));
    assert_eq!(line["properties"]["content_type"], "text/plain");
    assert!(line["properties"]["headers"]["node"].as_str().unwrap().contains('@'));
    let text = line["payload"].as_str().unwrap();
    assert!(text.contains(r#"what="login" result="refused" user="guest""#), "{text}");
    // The time is read for each output.
    let (_, after_time) = text.split_once(' ').unwrap();
    assert!(directory.logged().contains(after_time.trim()), "the console has the same line");
    assert!(broker.terminate().success());
}

#[test]
fn the_exchange_can_be_in_another_virtual_host_and_nobody_can_publish_to_it() {
    let directory = Directory::new("events-vhost");
    let broker = Starting::spawn(&directory, &[ON, "event_exchange.vhost=audit"]).finish();
    assert_eq!(broker.get("/api/exchanges/%2F/amq.rabbitmq.event").0, 404);
    let warning =
        "event_exchange.vhost: vhost 'audit' does not exist: there are no events until somebody adds it";
    assert!(directory.logged().contains(warning), "{}", directory.logged());
    assert_eq!(broker.ask("PUT", "/api/vhosts/audit", "{}").0, 201);
    let (status, exchange) = broker.get("/api/exchanges/audit/amq.rabbitmq.event");
    assert_eq!((status, &exchange["type"], &exchange["internal"]), (200, &json!("topic"), &json!(true)));
    let message =
        r#"{"routing_key":"queue.created","properties":{},"payload":"","payload_encoding":"string"}"#;
    let (status, refused) = broker.ask("POST", "/api/exchanges/audit/amq.rabbitmq.event/publish", message);
    assert!(status >= 400, "{refused}");
    assert!(broker.terminate().success());
}
