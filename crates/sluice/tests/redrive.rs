//! Redrives dead letters over HTTP and with the command line, against the built broker.

use crate::broker;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use broker::verb::{ask_as, basic};
use broker::{Broker, Directory, PROGRAM, Starting};
use client::{Connection, Message, Options, ReceiverOptions, SenderOptions, Session};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Sends a request to redrive dead letters of a queue. Returns the answer.
fn redrive(broker: &Broker, queue: &str, fields: &Value) -> Value {
    let (status, answer) = ask(broker, queue, fields);
    assert_eq!(status, 200, "{answer}");
    answer
}

fn ask(broker: &Broker, queue: &str, fields: &Value) -> (u16, Value) {
    broker.ask("POST", &format!("/api/queues/%2F/{queue}/redrive"), &fields.to_string())
}

/// Returns the numbers of an answer and the word for its end.
fn numbers(answer: &Value) -> (u64, u64, u64, &str) {
    let number = |name: &str| answer[name].as_u64().unwrap();
    (number("redriven"), number("skipped"), number("left"), answer["ended"].as_str().unwrap())
}

/// Publishes a message of AMQP 0.9.1 to the exchange.
fn publish(broker: &Broker, exchange: &str, key: &str, payload: &str, properties: &Value) {
    let body = json!({
        "routing_key": key, "payload": payload, "payload_encoding": "string", "properties": properties,
    });
    let (_, answer) =
        broker.ask("POST", &format!("/api/exchanges/%2F/{exchange}/publish"), &body.to_string());
    assert_eq!(answer["routed"], true, "{answer}");
}

/// Takes up to `count` messages, and returns their rows.
fn get(broker: &Broker, queue: &str, mode: &str, count: usize) -> Vec<Value> {
    let body = json!({ "count": count, "ackmode": mode, "encoding": "auto" });
    let (status, rows) = broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &body.to_string());
    assert_eq!(status, 200, "{rows}");
    rows.as_array().unwrap().clone()
}

/// Rejects up to `count` messages, so that they become dead letters.
fn reject(broker: &Broker, queue: &str, count: usize) {
    assert_eq!(get(broker, queue, "reject_requeue_false", count).len(), count);
}

/// Returns the payloads of the messages in a queue, which stay there.
fn payloads(broker: &Broker, queue: &str) -> Vec<String> {
    let rows = get(broker, queue, "ack_requeue_true", 100);
    rows.iter().map(|row| row["payload"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a queue has so many ready messages.
fn wait_for(broker: &Broker, queue: &str, ready: u64) {
    while broker.get(&format!("/api/queues/%2F/{queue}")).1["messages_ready"] != ready {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn peek(broker: &Broker, queue: &str, position: usize) -> Value {
    let (status, row) = broker.get(&format!("/api/queues/%2F/{queue}/peek/{position}"));
    assert_eq!(status, 200, "{row}");
    row
}

/// Declares a queue whose dead letters go to the queue `dead`, with further arguments.
fn declare(broker: &Broker, name: &str, kind: &str, more: &[&str]) {
    let fixed = ["declare", "queue", name, "--type", kind, "--argument", "x-dead-letter-exchange="];
    let key = ["--argument", "x-dead-letter-routing-key=dead"];
    let more: Vec<&str> = more.iter().flat_map(|argument| ["--argument", argument]).collect();
    broker.verb(&[&fixed[..], &key, &more].concat()).done();
}

async fn connect(broker: &Broker) -> (Connection, Session) {
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    (connection, session)
}

/// A message of either protocol goes back as it was before it died: its bytes, its exchange and its key are the same. The count
/// grows, and the message that is rejected again is a dead letter again.
#[tokio::test]
async fn a_message_goes_back_as_it_was_and_may_die_again() {
    let directory = Directory::new("redrive-again");
    let broker = Broker::start(&directory);
    for kind in ["classic", "quorum"] {
        broker.verb(&["declare", "queue", "dead", "--type", kind]).done();
        declare(&broker, "orders", kind, &[]);
        broker.verb(&["declare", "exchange", "shop", "--type", "topic"]).done();
        broker.verb(&["declare", "binding", "shop", "orders", "--key", "new.#"]).done();
        let properties = json!({ "headers": { "n": 7 }, "delivery_mode": 2, "message_id": "m" });
        publish(&broker, "shop", "new.a", "of 0.9.1", &properties);
        let (connection, session) = connect(&broker).await;
        let sender = session.sender(Some("/exchanges/shop/new.b"), SenderOptions::default()).await.unwrap();
        let message = Message::data("of 1.0").durable(true).subject("s").message_annotation("x-own", "kept");
        sender.send(message.encode()).await.unwrap();
        connection.close().await.unwrap();
        for round in 1..=3 {
            wait_for(&broker, "orders", 2);
            reject(&broker, "orders", 2);
            wait_for(&broker, "dead", 2);
            let answer = redrive(&broker, "dead", &json!({}));
            assert_eq!(numbers(&answer), (2, 0, 0, "done"), "{answer}");
            wait_for(&broker, "orders", 2);
            let old = peek(&broker, "orders", 1);
            assert_eq!((&old["exchange"], &old["routing_key"]), (&json!("shop"), &json!("new.a")));
            assert_eq!(old["delivery_count"], 0);
            let headers = &old["properties"]["headers"];
            assert_eq!((&headers["n"], &headers["x-opt-sluice-redriven"]), (&json!(7), &json!(round)));
            assert_eq!(
                (&old["properties"]["message_id"], &old["payload"]),
                (&json!("m"), &json!("of 0.9.1"))
            );
            assert_eq!(headers["x-death"][0]["count"], round, "{headers}");
            let new = peek(&broker, "orders", 2);
            assert_eq!((&new["exchange"], &new["routing_key"]), (&json!("shop"), &json!("new.b")));
            assert_eq!(new["properties"]["subject"], "s", "{new}");
            let annotations = &new["message_annotations"];
            assert_eq!(annotations["x-opt-sluice-redriven"], round, "{annotations}");
            assert_eq!((&annotations["x-own"], &new["payload"]), (&json!("kept"), &json!("of 1.0")));
        }
        for name in ["dead", "orders"] {
            broker.verb(&["delete", "queue", name]).done();
        }
    }
    assert!(broker.terminate().success());
}

/// Messages die in two queues for different reasons. Each filter takes those that match, and the others keep their order.
#[test]
fn filters_take_what_matches_and_leave_the_rest_in_order() {
    let directory = Directory::new("redrive-filters");
    let broker = Broker::start(&directory);
    for kind in ["classic", "quorum"] {
        broker.verb(&["declare", "queue", "dead", "--type", kind]).done();
        declare(&broker, "a", kind, &[]);
        declare(&broker, "b", kind, &["x-max-length=3"]);
        for n in 1..=6 {
            publish(&broker, "amq.default", if n % 2 == 0 { "a" } else { "b" }, &n.to_string(), &json!({}));
        }
        for (queue, dead) in ["b", "a", "b", "a", "b", "a"].into_iter().zip(1..) {
            wait_for_some(&broker, queue);
            reject(&broker, queue, 1);
            wait_for(&broker, "dead", dead);
        }
        for n in 7..=12 {
            publish(&broker, "amq.default", "b", &n.to_string(), &json!({}));
        }
        wait_for(&broker, "dead", 9);
        assert_eq!(payloads(&broker, "dead"), ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        let before = peek(&broker, "dead", 1);

        let answer = redrive(&broker, "dead", &json!({ "queue": "a", "count": 2 }));
        assert_eq!(numbers(&answer), (2, 2, 7, "count"));
        let answer = redrive(&broker, "dead", &json!({ "reason": "maxlen", "to_queue": "a", "count": 1 }));
        assert_eq!(numbers(&answer), (1, 4, 6, "count"), "{answer}");
        for none in [
            json!({ "reason": "delivery_limit" }),
            json!({ "reason": "expired" }),
            json!({ "queue": "none" }),
            json!({ "older_than": 3600 }),
            json!({ "younger_than": 0, "died_until": 1 }),
        ] {
            assert_eq!(numbers(&redrive(&broker, "dead", &none)), (0, 6, 6, "done"), "{none}");
        }
        let after = peek(&broker, "dead", 1);
        assert_eq!((&before["seq"], &before["payload"]), (&after["seq"], &after["payload"]));
        assert_eq!(
            (&before["delivery_count"], &after["redelivered"]),
            (&after["delivery_count"], &json!(true))
        );
        assert_eq!(payloads(&broker, "dead"), ["1", "3", "5", "6", "8", "9"]);
        wait_for(&broker, "a", 3);
        assert_eq!(payloads(&broker, "a"), ["2", "4", "7"]);

        // One message, by its sequence number.
        let seq = peek(&broker, "dead", 4)["seq"].clone();
        let answer = redrive(&broker, "dead", &json!({ "seq": seq }));
        assert_eq!((numbers(&answer).0, numbers(&answer).2), (1, 5), "{answer}");
        let (status, answer) = ask(&broker, "dead", &json!({ "seq": seq }));
        assert_eq!(
            (status, answer["detail"].as_str().unwrap().contains("has no ready message")),
            (404, true)
        );
        let line = broker.verb(&[
            "redrive",
            "dead",
            "--younger-than",
            "1d",
            "--reason",
            "rejected",
            "--to-queue",
            "a",
        ]);
        assert_eq!(line.done(), "3 messages redriven from queue 'dead': 2 skipped, 2 left");
        assert_eq!(payloads(&broker, "dead"), ["8", "9"]);
        for name in ["dead", "a", "b"] {
            broker.verb(&["delete", "queue", name]).done();
        }
    }
    assert!(broker.terminate().success());
}

fn wait_for_some(broker: &Broker, queue: &str) {
    while broker.get(&format!("/api/queues/%2F/{queue}")).1["messages_ready"] == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a target refuses stays in the queue, and the answer names the target. A repeated request goes on.
#[test]
fn a_refusal_leaves_the_message_and_names_the_target() {
    let directory = Directory::new("redrive-refused");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    declare(&broker, "q", "classic", &["x-max-length=3", "x-overflow=reject-publish"]);
    broker.verb(&["declare", "exchange", "x"]).done();
    broker.verb(&["declare", "binding", "x", "q", "--key", "k"]).done();
    for n in 1..=3 {
        publish(&broker, "x", "k", &n.to_string(), &json!({}));
    }
    reject(&broker, "q", 3);
    publish(&broker, "amq.default", "q", "in the way", &json!({}));
    wait_for(&broker, "dead", 3);
    let answer = redrive(&broker, "dead", &json!({}));
    assert_eq!(numbers(&answer), (2, 1, 1, "refused"));
    assert_eq!(answer["reason"], "queue 'q' is full");
    assert_eq!(payloads(&broker, "dead"), ["3"]);
    broker.verb(&["redrive", "dead"]).refused(1, &["queue 'q' is full"]);
    assert_eq!(payloads(&broker, "q"), ["in the way", "1", "2"]);
    get(&broker, "q", "ack_requeue_false", 3);
    assert_eq!(numbers(&redrive(&broker, "dead", &json!({ "to": "exchange" }))), (1, 0, 0, "done"));

    reject(&broker, "q", 1);
    wait_for(&broker, "dead", 1);
    broker.verb(&["delete", "binding", "x", "q", "--key", "k"]).done();
    let answer = redrive(&broker, "dead", &json!({ "to": "exchange" }));
    assert_eq!(answer["reason"], "exchange 'x' routes the key 'k' to no queue");
    broker.verb(&["delete", "exchange", "x"]).done();
    assert_eq!(redrive(&broker, "dead", &json!({ "to": "exchange" }))["reason"], "there is no exchange 'x'");
    broker.verb(&["delete", "queue", "q"]).done();
    let answer = redrive(&broker, "dead", &json!({}));
    assert_eq!(
        (numbers(&answer), &answer["reason"]),
        ((0, 1, 1, "refused"), &json!("there is no queue 'q'"))
    );
    assert_eq!(payloads(&broker, "dead"), ["3"]);

    broker.verb(&["declare", "queue", "s", "--type", "stream"]).done();
    for (queue, fields, status, reason) in [
        ("s", json!({}), 400, "queue 's' in vhost '/' is a stream"),
        ("none", json!({}), 404, "no queue 'none' in vhost '/'"),
        ("dead", json!({ "to_queue": "none" }), 404, "no queue 'none' in vhost '/'"),
        ("dead", json!({ "to_queue": "dead" }), 400, "queue 'dead' in vhost '/' cannot be moved to itself"),
        ("dead", json!({ "reson": "expired" }), 400, "there is no field 'reson'"),
    ] {
        let (found, answer) = ask(&broker, queue, &fields);
        assert_eq!(found, status, "{answer}");
        let shown = if status == 404 { &answer["detail"] } else { &answer["reason"] };
        assert!(shown.as_str().unwrap().starts_with(reason), "{answer}");
    }
    // A message of 0.9.1 can go to a stream, which holds messages of 1.0.
    assert_eq!(numbers(&redrive(&broker, "dead", &json!({ "to_queue": "s" }))), (1, 0, 0, "done"));
    assert!(broker.terminate().success());
}

/// A user needs what a client would need who gets the messages and publishes them again.
#[test]
fn a_user_needs_read_on_the_queue_and_write_where_the_messages_go() {
    let directory = Directory::new("redrive-rights");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    declare(&broker, "q", "classic", &[]);
    broker.verb(&["declare", "exchange", "shop", "--type", "topic"]).done();
    broker.verb(&["declare", "binding", "shop", "q", "--key", "#"]).done();
    for (user, write, read) in
        [("queues", r"^amq\\.default$", ".*"), ("shops", "^shop$", ".*"), ("writes", ".*", "^$")]
    {
        let made = |path: &str, body: String| assert_eq!(broker.ask("PUT", path, &body).0, 201);
        made(&format!("/api/users/{user}"), r#"{"password":"p","tags":"management"}"#.to_owned());
        let rights = format!(r#"{{"configure":"","write":"{write}","read":"{read}"}}"#);
        made(&format!("/api/permissions/%2F/{user}"), rights);
    }
    let topics = r#"{"exchange":"shop","write":"^new\\.","read":""}"#;
    broker.ask("PUT", "/api/topic-permissions/%2F/shops", topics);
    for key in ["old.a", "new.a"] {
        publish(&broker, "shop", key, key, &json!({}));
    }
    reject(&broker, "q", 2);
    wait_for(&broker, "dead", 2);
    let status = |user: &str, body: &str| {
        let path = "/api/queues/%2F/dead/redrive";
        ask_as(broker.http_port, &basic(user, "p"), "POST", path, body).0
    };
    let through = r#"{"to":"exchange"}"#;
    assert_eq!([status("writes", "{}"), status("writes", through)], [401, 401]);
    assert_eq!([status("shops", "{}"), status("queues", through)], [401, 401]);
    assert_eq!(status("shops", through), 401, "the first message has a key that the user may not use");
    assert_eq!(payloads(&broker, "dead"), ["old.a", "new.a"]);
    assert_eq!(status("queues", r#"{"count":1}"#), 200);
    assert_eq!(status("shops", through), 200);
    assert_eq!(payloads(&broker, "q"), ["old.a", "new.a"]);
    assert!(broker.terminate().success());
}

/// A message that was not a dead letter, or died in the queue itself, stays.
#[test]
fn only_dead_letters_of_other_queues_go() {
    let directory = Directory::new("redrive-others");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    declare(&broker, "q", "classic", &[]);
    publish(&broker, "amq.default", "dead", "no dead letter", &json!({}));
    publish(&broker, "amq.default", "q", "dead letter", &json!({}));
    reject(&broker, "q", 1);
    wait_for(&broker, "dead", 2);
    let seq = peek(&broker, "dead", 1)["seq"].clone();
    let (status, answer) = ask(&broker, "dead", &json!({ "seq": seq }));
    assert_eq!(status, 400, "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("is not a dead letter of another queue"), "{answer}");
    assert_eq!(numbers(&redrive(&broker, "dead", &json!({}))), (1, 1, 1, "done"));
    assert_eq!(payloads(&broker, "dead"), ["no dead letter"]);
    assert_eq!(numbers(&redrive(&broker, "q", &json!({}))), (0, 1, 1, "done"), "it died in q");
    assert!(broker.terminate().success());
}

/// A message that expires twice on the way to the dead letters makes a cycle, which is broken by dropping it. After a redrive it
/// used to be in danger of this.
#[test]
fn a_message_that_expires_again_after_a_redrive_is_kept() {
    let directory = Directory::new("redrive-expired");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    let to_retry = ["--argument", "x-dead-letter-exchange=", "--argument", "x-dead-letter-routing-key=retry"];
    let expires = ["--argument", "x-message-ttl=1"];
    broker.verb(&[&["declare", "queue", "q"][..], &to_retry, &expires].concat()).done();
    declare(&broker, "retry", "classic", &["x-message-ttl=1"]);
    publish(&broker, "amq.default", "q", "m", &json!({}));
    for round in 1..=3 {
        wait_for(&broker, "dead", 1);
        let row = peek(&broker, "dead", 1);
        assert_eq!(row["properties"]["headers"]["x-death"][1]["count"], round, "{row}");
        // Its most recent death was in `retry`.
        assert_eq!(numbers(&redrive(&broker, "dead", &json!({ "queue": "q" }))).0, 1);
    }
    wait_for(&broker, "dead", 1);
    assert!(broker.terminate().success());
}

/// A request does not wait until an alarm is over. The command does, and says why.
#[test]
fn an_alarm_pauses_a_redrive() {
    let directory = Directory::new("redrive-alarm");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    declare(&broker, "q", "classic", &[]);
    publish(&broker, "amq.default", "q", "m", &json!({ "delivery_mode": 2 }));
    reject(&broker, "q", 1);
    wait_for(&broker, "dead", 1);
    assert!(broker.terminate().success());
    let file = directory.path().join("sluice.conf");
    std::fs::write(&file, "disk_free_limit.absolute = 1000TB\n").unwrap();
    let broker = Starting::spawn_with(&directory, &["--config", &file.display().to_string()]).finish();
    let answer = redrive(&broker, "dead", &json!({}));
    assert_eq!(numbers(&answer), (0, 0, 1, "alarm"), "{answer}");
    let reason = "publishing is stopped: disk alarm on node 'sluice@localhost'";
    assert_eq!(answer["reason"], reason);
    let mut child = Command::new(PROGRAM)
        .args(["redrive", "dead", "--url", &broker.http_url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("paused until the alarm ends") && said.contains(reason), "{said}");
    assert_eq!(payloads(&broker, "dead"), ["m"], "reading goes on");
    std::fs::write(&file, "").unwrap();
    broker.hang_up();
    let output = child.wait_with_output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!(line, "1 message redriven from queue 'dead': 0 skipped, 0 left\n");
    assert!(broker.terminate().success());
}

#[test]
fn a_signal_ends_the_command_after_its_request() {
    let directory = Directory::new("redrive-signal");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    declare(&broker, "q", "classic", &[]);
    for n in 0..20 {
        publish(&broker, "amq.default", "q", &n.to_string(), &json!({}));
    }
    reject(&broker, "q", 20);
    wait_for(&broker, "dead", 20);
    let child = Command::new(PROGRAM)
        .args(["redrive", "dead", "--rate", "1", "--url", &broker.http_url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_some(&broker, "q");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}");
    assert!(line.ends_with(" left; run the command again to go on\n"), "{line}");
    let (gone, left) = (payloads(&broker, "q").len(), payloads(&broker, "dead").len());
    assert_eq!((gone + left, line.starts_with(&format!("{gone} messages redriven"))), (20, true), "{line}");
    assert!(broker.terminate().success());
}

/// A redrive with a rate ends after its time, and the command repeats it. A broker that is killed in between loses nothing.
#[tokio::test]
async fn an_interrupted_redrive_goes_on() {
    const MESSAGES: u64 = 2_000;
    let directory = Directory::new("redrive-resumed");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "dead"]).done();
    declare(&broker, "q", "classic", &[]);
    let (connection, session) = connect(&broker).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    for n in 0..MESSAGES {
        sender.send(Message::data(n.to_string()).durable(true).encode()).await.unwrap();
    }
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    for _ in 0..MESSAGES {
        receiver.recv().await.unwrap().reject(None).unwrap();
    }
    connection.close().await.unwrap();
    wait_for(&broker, "dead", MESSAGES);
    let answer = redrive(&broker, "dead", &json!({ "rate": 100 }));
    let (first, skipped, left, ended) = numbers(&answer);
    assert_eq!((first + left, skipped, ended), (MESSAGES, 0, "time"), "{answer}");
    let again = json!({ "count": 7, "died_until": answer["died_until"] });
    assert_eq!(numbers(&redrive(&broker, "dead", &again)).0, 7);
    let mut child = Command::new(PROGRAM)
        .args(["redrive", "dead", "--rate", "200", "--url", &broker.http_url()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let before = first + 7;
    while broker.get("/api/queues/%2F/q").1["messages_ready"].as_u64().unwrap() < before + 50 {
        std::thread::sleep(Duration::from_millis(10));
    }
    broker.kill();
    assert!(!child.wait().unwrap().success());
    let broker = Broker::start(&directory);
    broker.verb(&["redrive", "dead"]).done();
    let ready = broker.get("/api/queues/%2F/q").1["messages_ready"].as_u64().unwrap();
    assert!((MESSAGES..=MESSAGES + 100).contains(&ready), "{ready} of {MESSAGES} messages");
    let (connection, session) = connect(&broker).await;
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..ready {
        let delivery = receiver.recv().await.unwrap();
        let message = Message::decode(&delivery.message).unwrap();
        seen.insert(format!("{:?}", message.body));
        delivery.accept().unwrap();
    }
    connection.close().await.unwrap();
    assert_eq!(seen.len() as u64, MESSAGES, "no message is lost");
    assert!(broker.terminate().success());
}
