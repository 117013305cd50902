//! Moves messages over HTTP and with `sluice move`, against the built broker: what a moved message keeps, where it goes, refusals,
//! and crashes in between.

use crate::broker;

use std::process::{Command, Stdio};

use amqp10::{DeliveryState, Value, sections};
use broker::verb::{ask_as, basic, sluice};
use broker::{Broker, Directory, PROGRAM};
use bytes::Bytes;
use client::{Connection, Credit, Delivery, Message, Options, ReceiverOptions, SenderOptions, Session};
use serde_json::{Value as Json, json};

async fn open(broker: &Broker) -> (Connection, Session) {
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    (connection, session)
}

async fn send(session: &Session, queue: &str, messages: impl IntoIterator<Item = Bytes>) {
    let address = format!("/queues/{queue}");
    let sender = session.sender(Some(&address), SenderOptions::default()).await.unwrap();
    let mut outcomes = Vec::new();
    for message in messages {
        outcomes.push(sender.send_pipelined(message).await.unwrap());
    }
    for outcome in outcomes {
        assert_eq!(outcome.await.unwrap(), DeliveryState::Accepted);
    }
}

/// Receives everything that is in the queue, and accepts it.
async fn receive(session: &Session, queue: &str) -> Vec<Bytes> {
    let address = format!("/queues/{queue}");
    let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some(&address), options).await.unwrap();
    let mut received = Vec::new();
    loop {
        receiver.flow(1_000, false, false);
        if receiver.drain().await.unwrap().waiting == 0 {
            receiver.detach().await.unwrap();
            return received;
        }
        while let Some(delivery) = receiver.try_recv().unwrap() {
            received.push(delivery.message.clone());
            Delivery::accept(delivery).unwrap();
        }
    }
}

fn bare(message: &Bytes) -> Bytes {
    message.slice(sections::scan(message).unwrap().bare.start as usize..)
}

fn number(message: &Bytes) -> u64 {
    Message::decode(message).unwrap().properties.unwrap().message_id.unwrap().as_u64().unwrap()
}

fn numbered(number: u64) -> Message {
    Message::data(format!("body {number}")).durable(true).message_id(number)
}

fn ready(broker: &Broker, queue: &str) -> u64 {
    broker.get(&format!("/api/queues/%2F/{queue}")).1["messages"].as_u64().unwrap()
}

fn declare(broker: &Broker, name: &str, kind: &str) {
    broker.verb(&["declare", "queue", name, "--type", kind]).done();
}

#[tokio::test]
async fn a_message_keeps_its_bytes_order_priority_and_annotations() {
    /// Some batches, and a part of one.
    const COUNT: u64 = 1_234;
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    for (name, kind) in [("a", "classic"), ("q", "quorum"), ("b", "classic"), ("copies", "classic")] {
        declare(&broker, name, kind);
    }
    let to_a = ["x-dead-letter-exchange=", "x-dead-letter-routing-key=a"];
    broker.verb(&["declare", "queue", "first", "--argument", to_a[0], "--argument", to_a[1]]).done();
    let (connection, session) = open(&broker).await;
    // Message 0 is dead-lettered to the first queue, and message 1 has a copy in another queue.
    send(&session, "first", [numbered(0).encode()]).await;
    let receiver = session.receiver(Some("/queues/first"), ReceiverOptions::default()).await.unwrap();
    receiver.recv().await.unwrap().reject(None).unwrap();
    receiver.detach().await.unwrap();
    let priority = |number: u64| [4, 0, 9][number as usize % 3];
    let sent: Vec<Bytes> = (1..COUNT)
        .map(|number| {
            let message = numbered(number).priority(priority(number)).ttl(3_600_000);
            let message = message.message_annotation("x-note", number);
            match number {
                1 => message.message_annotation("x-cc", Value::List(vec!["copies".into()])).encode(),
                _ => message.encode(),
            }
        })
        .collect();
    send(&session, "a", sent.clone()).await;

    let line = |count: u64, from, to| {
        format!("{count} messages moved from queue '{from}' to queue '{to}': 0 skipped, 0 left")
    };
    assert_eq!(broker.verb(&["move", "a", "--to-queue", "q"]).done(), line(COUNT, "a", "q"));
    assert_eq!((ready(&broker, "a"), ready(&broker, "q")), (0, COUNT));
    assert_eq!(broker.verb(&["move", "q", "--to-queue", "b"]).done(), line(COUNT, "q", "b"));
    assert_eq!((ready(&broker, "q"), ready(&broker, "copies")), (0, 1));
    assert_eq!(broker.verb(&["move", "q", "--to-queue", "b"]).done(), line(0, "q", "b"));

    let received = receive(&session, "b").await;
    // The quorum queue delivers high priorities first.
    let mut expected: Vec<u64> = (0..COUNT).collect();
    expected.sort_by_key(|&number| std::cmp::Reverse(if number == 0 { 4 } else { priority(number) }));
    assert_eq!(received.iter().map(number).collect::<Vec<_>>(), expected);
    for message in received {
        let number = number(&message);
        let decoded = Message::decode(&message).unwrap();
        let annotations = decoded.message_annotations.unwrap();
        assert_eq!(annotations.get("x-routing-key"), Some(&Value::from("a")));
        assert_eq!(annotations.get("x-opt-sluice-redriven"), (number == 0).then_some(&Value::Uint(2)));
        if number == 0 {
            assert_eq!(annotations.get("x-first-death-queue").and_then(Value::as_str), Some("first"));
            assert!(
                annotations.get("x-opt-deaths").is_some_and(|deaths| !deaths.is_null()),
                "{annotations:?}"
            );
            continue;
        }
        assert_eq!(bare(&message), bare(&sent[number as usize - 1]));
        let header = decoded.header.unwrap();
        assert_eq!(
            (header.durable, header.priority, header.ttl),
            (Some(true), Some(priority(number)), Some(3_600_000))
        );
        assert_eq!(annotations.get("x-note"), Some(&Value::from(number)));
    }
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

/// The command is killed, then the broker. No message is lost, the order is kept, and only messages that were in flight are in
/// both queues.
#[tokio::test]
async fn a_move_continues_after_crashes() {
    const COUNT: u64 = 4_000;
    const IN_FLIGHT: u64 = 100;
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    declare(&broker, "a", "classic");
    declare(&broker, "q", "quorum");
    let (connection, session) = open(&broker).await;
    send(&session, "a", (0..COUNT).map(|number| numbered(number).encode())).await;
    connection.close().await.unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["move", "a", "--to-queue", "q", "--rate", "500", "--url", &broker.http_url()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait_until = |moved: u64| {
        while ready(&broker, "q") < moved {
            std::thread::yield_now();
        }
    };
    wait_until(200);
    child.kill().unwrap();
    child.wait().unwrap();
    // The broker carries the request on, although nobody waits for its answer.
    wait_until(500);
    broker.kill();

    let broker = Broker::start(&directory);
    let left = ready(&broker, "a");
    assert!(left > 0, "the broker was killed too late for this test");
    broker.verb(&["move", "a", "--to-queue", "q"]).done();
    assert_eq!(ready(&broker, "a"), 0);
    let (connection, session) = open(&broker).await;
    let received: Vec<u64> = receive(&session, "q").await.iter().map(number).collect();
    assert!(received.len() as u64 <= COUNT + IN_FLIGHT, "{} messages", received.len());
    let mut first_times = Vec::new();
    for number in received {
        // A message that is repeated has come before.
        match first_times.len() as u64 > number {
            true => assert_eq!(first_times[number as usize], number),
            false => first_times.push(number),
        }
    }
    assert_eq!(first_times, (0..COUNT).collect::<Vec<_>>());
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

#[tokio::test]
async fn a_full_target_stops_the_move() {
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    declare(&broker, "a", "quorum");
    let full = ["--argument", "x-max-length=5", "--argument", "x-overflow=reject-publish"];
    broker.verb(&[&["declare", "queue", "b"][..], &full].concat()).done();
    let (connection, session) = open(&broker).await;
    send(&session, "a", (0..20).map(|number| numbered(number).encode())).await;

    let why = ["cannot move messages of queue 'a'", "queue 'b' is full"];
    broker.verb(&["move", "a", "--to-queue", "b"]).refused(1, &why);
    assert_eq!((ready(&broker, "a"), ready(&broker, "b")), (15, 5));
    let numbers = |messages: Vec<Bytes>| messages.iter().map(number).collect::<Vec<_>>();
    assert_eq!(numbers(receive(&session, "b").await), [0, 1, 2, 3, 4]);
    let done = broker.verb(&["move", "a", "--to-queue", "b", "--count", "1"]).done();
    assert_eq!(done, "1 message moved from queue 'a' to queue 'b': 0 skipped, 14 left");
    // At this rate one message is in flight. So the broker stops at the first one that is refused.
    let one_by_one = ["move", "a", "--to-queue", "b", "--rate", "19"];
    broker.verb(&one_by_one).refused(1, &["queue 'b' is full"]);
    assert_eq!(numbers(receive(&session, "b").await), [5, 6, 7, 8, 9]);
    assert_eq!(numbers(receive(&session, "a").await), (10..20).collect::<Vec<_>>());
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

#[tokio::test]
async fn what_cannot_be_moved_is_named() {
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    declare(&broker, "a", "classic");
    declare(&broker, "s", "stream");
    let single = "x-single-active-consumer=true";
    broker.verb(&["declare", "queue", "single", "--argument", single]).done();
    let refused = |from: &str, to: &str, reason: &str| {
        broker.verb(&["move", from, "--to-queue", to]).refused(1, &["cannot move messages of queue", reason]);
    };
    refused("none", "a", "no queue 'none' in vhost '/'");
    refused("a", "none", "no queue 'none' in vhost '/'");
    refused("s", "a", "queue 's' in vhost '/' is a stream");
    refused("a", "a", "queue 'a' in vhost '/' cannot be moved to itself");
    broker.verb(&["move", "a", "--to-queue", "s", "-p", "other"]).refused(1, &["'other'"]);
    sluice(&["move", "a", "--to-queue", "s", "--url", "http://127.0.0.1:1"]).refused(3, &["nobody answers"]);

    let (connection, session) = open(&broker).await;
    send(&session, "a", [numbered(1).encode()]).await;
    let to_exchange = ["move", "a", "--to-exchange"];
    let moved_to = |name, reason: &str| {
        broker.verb(&[&to_exchange[..], &[name]].concat()).refused(1, &[reason]);
    };
    moved_to("none", "there is no exchange 'none'");
    moved_to("amq.fanout", "exchange 'amq.fanout' routes the key 'a' to no queue");
    assert_eq!(ready(&broker, "a"), 1);
    let (status, answer) = ask(&broker, "a", &json!({ "to_queue": "s", "seq": 99 }));
    assert_eq!(
        (status, &answer["detail"]),
        (404, &json!("queue 'a' in vhost '/' has no ready message with sequence number 99"))
    );

    // A stream can be a target, and a client that holds the queue's deliveries for itself does not stop a move.
    let idle = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let active = session.receiver(Some("/queues/single"), idle).await.unwrap();
    send(&session, "single", [numbered(2).encode()]).await;
    for queue in ["a", "single"] {
        let line = format!("1 message moved from queue '{queue}' to queue 's': 0 skipped, 0 left");
        assert_eq!(broker.verb(&["move", queue, "--to-queue", "s"]).done(), line);
    }
    active.detach().await.unwrap();
    assert_eq!(ready(&broker, "s"), 2);
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

fn ask(broker: &Broker, queue: &str, fields: &Json) -> (u16, Json) {
    broker.ask("POST", &format!("/api/queues/%2F/{queue}/move"), &fields.to_string())
}

/// Returns the numbers of an answer and the word for its end.
fn numbers(answer: &(u16, Json)) -> (u16, u64, u64, u64, &str) {
    let number = |name: &str| answer.1[name].as_u64().unwrap_or(u64::MAX);
    let ended = answer.1["ended"].as_str().unwrap_or_default();
    (answer.0, number("moved"), number("skipped"), number("left"), ended)
}

/// Headers of both protocols are compared, and messages of both go through an exchange with their own key or another.
#[tokio::test]
async fn filters_choose_messages_and_an_exchange_gives_them_to_its_queues() {
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    for name in ["a", "b", "c"] {
        declare(&broker, name, "classic");
    }
    broker.verb(&["declare", "exchange", "x", "--type", "topic"]).done();
    for (queue, key) in [("a", "again"), ("b", "a"), ("b", "new.*"), ("c", "new.#")] {
        broker.verb(&["declare", "binding", "x", queue, "--key", key]).done();
    }
    let (connection, session) = open(&broker).await;
    let of_amqp10 = |number: u64, country: &str| {
        numbered(number).application_property("country", country).application_property("n", number as i32)
    };
    send(&session, "a", [of_amqp10(1, "DE").encode(), of_amqp10(2, "FR").encode()]).await;
    for (number, country) in [("3", "DE"), ("4", "FR")] {
        let headers = ["--header", &format!("country={country}"), "--header", &format!("n={number}")];
        broker.verb(&[&["publish", "amq.default", number, "--key", "a"][..], &headers].concat()).done();
    }

    // Each message that comes back is behind those that the request may move, so it is moved once.
    let back = json!({ "to_exchange": "x", "routing_key": "again", "headers": { "country": "DE" } });
    assert_eq!(numbers(&ask(&broker, "a", &back)), (200, 2, 2, 4, "done"));
    let keys = |queue: &str| {
        let body = r#"{"count":9,"ackmode":"ack_requeue_true","encoding":"auto"}"#;
        let (_, rows) = broker.ask("POST", &format!("/api/queues/%2F/{queue}/get"), body);
        let field = |row: &Json, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let rows = rows.as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| format!("{} {}", field(row, "exchange"), field(row, "routing_key"))).collect()
    };
    let found: Vec<String> = keys("a");
    assert_eq!(found, [" a", " a", "x again", "x again"]);
    let (_, before) = ask(&broker, "a", &json!({ "to_queue": "b", "headers": { "n": 9 } }));
    let until = before["until_seq"].as_u64().unwrap();
    let old = json!({ "to_queue": "b", "until_seq": until - 2 });
    assert_eq!(numbers(&ask(&broker, "a", &old)), (200, 2, 2, 2, "done"));
    assert_eq!(keys("b"), [" a", " a"]);

    // A message keeps its key without another one, and each queue of the exchange gets it.
    let both = json!({ "to_exchange": "x", "headers": { "country": "FR", "n": 4 }, "count": 1 });
    assert_eq!(numbers(&ask(&broker, "b", &both)), (200, 1, 1, 2, "count"));
    assert_eq!(keys("b"), [" a", "x a"]);
    let line = broker.verb(&["move", "b", "--to-exchange", "x", "--key", "new.1", "--header", "n=2"]).done();
    assert_eq!(line, "1 message moved from queue 'b' to exchange 'x': 1 skipped, 2 left");
    assert_eq!(
        (keys("b"), keys("c")),
        (vec!["x a".to_owned(), "x new.1".to_owned()], vec!["x new.1".to_owned()])
    );
    let line = broker.verb(&["move", "c", "--to-exchange", "amq.default", "--key", "a", "--json"]).done();
    assert_eq!(serde_json::from_str::<Json>(&line).unwrap()["moved"], 1, "{line}");
    assert_eq!((ready(&broker, "a"), ready(&broker, "c")), (3, 0));
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

/// A dead letter that was moved is no cycle when it dies again, and its deaths are counted on.
#[tokio::test]
async fn a_moved_dead_letter_may_die_again() {
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    declare(&broker, "dead", "classic");
    let to_dead = ["--argument", "x-dead-letter-exchange=", "--argument", "x-dead-letter-routing-key=dead"];
    broker.verb(&[&["declare", "queue", "q", "--argument", "x-message-ttl=1"][..], &to_dead].concat()).done();
    broker.verb(&["publish", "amq.default", "m", "--key", "q"]).done();
    for round in 1..=3 {
        while ready(&broker, "dead") == 0 {
            std::thread::yield_now();
        }
        let (_, row) = broker.get("/api/queues/%2F/dead/peek/1");
        let headers = &row["properties"]["headers"];
        assert_eq!(headers["x-death"][0]["count"], round, "{row}");
        assert_eq!(headers["x-opt-sluice-redriven"].as_u64().unwrap_or(0), round - 1, "{row}");
        let answer = ask(&broker, "dead", &json!({ "to_queue": "q" }));
        let (status, moved, skipped, left, ended) = numbers(&answer);
        assert_eq!((status, moved, skipped, ended), (200, 1, 0, "done"));
        // The message lives for a millisecond, so it may be back before the answer.
        assert!(left <= 1, "{left} left");
    }
    assert!(broker.terminate().success());
}

/// A user needs what a client would need who gets the messages and publishes them again.
#[tokio::test]
async fn a_user_needs_read_on_the_queue_and_write_where_the_messages_go() {
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    for name in ["a", "b"] {
        declare(&broker, name, "classic");
    }
    broker.verb(&["declare", "exchange", "shop", "--type", "topic"]).done();
    broker.verb(&["declare", "binding", "shop", "b", "--key", "#"]).done();
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
    broker.verb(&["publish", "amq.default", "m", "--key", "a"]).done();
    let status = |user: &str, body: Json| {
        let path = "/api/queues/%2F/a/move";
        ask_as(broker.http_port, &basic(user, "p"), "POST", path, &body.to_string()).0
    };
    let to_queue = json!({ "to_queue": "b" });
    let to_shop = |key: &str| json!({ "to_exchange": "shop", "routing_key": key });
    assert_eq!([status("writes", to_queue.clone()), status("writes", to_shop("new.a"))], [401, 401]);
    assert_eq!([status("shops", to_queue.clone()), status("queues", to_shop("new.a"))], [401, 401]);
    assert_eq!(status("shops", to_shop("old.a")), 401, "the user may not use this key");
    assert_eq!(ready(&broker, "a"), 1);
    assert_eq!(status("shops", to_shop("new.a")), 200);
    broker.verb(&["publish", "amq.default", "m", "--key", "a"]).done();
    assert_eq!(status("queues", to_queue), 200);
    assert_eq!((ready(&broker, "a"), ready(&broker, "b")), (0, 2));
    assert!(broker.terminate().success());
}
