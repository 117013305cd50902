//! `sluice move` against the built broker: what a moved message keeps, refusals, and crashes in between.

use crate::broker;

use std::process::{Child, Command, Stdio};

use amqp10::{DeliveryState, Value, sections};
use broker::verb::sluice;
use broker::{Broker, Directory, PROGRAM};
use bytes::Bytes;
use client::{Connection, Credit, Delivery, Message, Options, ReceiverOptions, SenderOptions, Session};
use rustix::process::{Pid, Signal, kill_process};

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

    let moved = |from, to| format!("{COUNT} messages moved from queue '{from}' to queue '{to}'");
    assert_eq!(broker.verb(&["move", "a", "q"]).done(), moved("a", "q"));
    assert_eq!((ready(&broker, "a"), ready(&broker, "q")), (0, COUNT));
    assert_eq!(broker.verb(&["move", "q", "b", "--in-flight", "100"]).done(), moved("q", "b"));
    assert_eq!((ready(&broker, "q"), ready(&broker, "copies")), (0, 1));
    assert_eq!(broker.verb(&["move", "q", "b"]).done(), "0 messages moved from queue 'q' to queue 'b'");

    let received = receive(&session, "b").await;
    // The quorum queue delivers high priorities first.
    let mut expected: Vec<u64> = (0..COUNT).collect();
    expected.sort_by_key(|&number| std::cmp::Reverse(if number == 0 { 4 } else { priority(number) }));
    assert_eq!(received.iter().map(number).collect::<Vec<_>>(), expected);
    for message in received {
        let number = number(&message);
        let decoded = Message::decode(&message).unwrap();
        let annotations = decoded.message_annotations.unwrap();
        assert_eq!(annotations.get("x-routing-key"), Some(&Value::from("b")));
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
        assert_eq!(annotations.get("x-cc"), None);
    }
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

/// Starts to move `from` to `to` in small batches, and returns when a part of the messages is moved.
fn begin(broker: &Broker, from: &str, to: &str) -> Child {
    let before = ready(broker, to);
    let child = Command::new(PROGRAM)
        .args(["move", from, to, "--in-flight", "5", "--url", &broker.amqp_url()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while ready(broker, to) < before + 100 {
        std::thread::yield_now();
    }
    child
}

#[tokio::test]
async fn a_move_continues_after_crashes() {
    const COUNT: u64 = 4_000;
    let directory = Directory::new("moving");
    let broker = Broker::start(&directory);
    declare(&broker, "a", "classic");
    declare(&broker, "q", "quorum");
    let (connection, session) = open(&broker).await;
    send(&session, "a", (0..COUNT).map(|number| numbered(number).encode())).await;
    connection.close().await.unwrap();

    // The command is interrupted: it completes its batch, so that each message is in one queue.
    let child = begin(&broker, "a", "q");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let moved = ready(&broker, "q");
    let line = format!("{moved} messages moved from queue 'a' to queue 'q'\n");
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap()), (Some(0), line));
    assert_eq!(ready(&broker, "a"), COUNT - moved);

    // The command is killed.
    let mut child = begin(&broker, "a", "q");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready(&broker, "a") > 0, "the command was killed too late for this test");

    // The broker is killed.
    let child = begin(&broker, "a", "q");
    broker.kill();
    let output = child.wait_with_output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("run the command again"), "{line}");

    let broker = Broker::start(&directory);
    assert!(ready(&broker, "a") > 0, "the broker was killed too late for this test");
    broker.verb(&["move", "a", "q"]).done();
    assert_eq!(ready(&broker, "a"), 0);
    let (connection, session) = open(&broker).await;
    let received: Vec<u64> = receive(&session, "q").await.iter().map(number).collect();
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

    let why = ["queue 'a' to queue 'b'", "rejected", "maxlen", "stays in queue 'a'", "5 messages moved"];
    broker.verb(&["move", "a", "b"]).refused(1, &why);
    assert_eq!((ready(&broker, "a"), ready(&broker, "b")), (15, 5));
    let numbers = |messages: Vec<Bytes>| messages.iter().map(number).collect::<Vec<_>>();
    assert_eq!(numbers(receive(&session, "b").await), [0, 1, 2, 3, 4]);
    let done = broker.verb(&["move", "a", "b", "--limit", "1"]).done();
    assert_eq!(done, "1 message moved from queue 'a' to queue 'b'");
    // One at a time, the first message that is refused is the last one that was tried.
    broker.verb(&["move", "a", "b", "--in-flight", "1"]).refused(1, &["rejected", "4 messages moved"]);
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
    broker.verb(&["move", "none", "a"]).refused(1, &["queue 'none' to queue 'a'", "no queue 'none'"]);
    broker.verb(&["move", "a", "none"]).refused(1, &["no queue 'none'"]);
    broker.verb(&["move", "s", "a"]).refused(1, &["'s' is a stream"]);
    broker.verb(&["move", "a", "a", "-p", "other"]).refused(2, &["'a' cannot be moved to itself"]);
    broker.verb(&["move", "a", "s", "-p", "other"]).refused(1, &["vhost", "'other'"]);
    sluice(&["move", "a", "s", "--url", "amqp://127.0.0.1:1"]).refused(3, &["nobody answers"]);

    let (connection, session) = open(&broker).await;
    let idle = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let active = session.receiver(Some("/queues/single"), idle).await.unwrap();
    send(&session, "single", [numbered(1).encode()]).await;
    broker
        .verb(&["move", "single", "a"])
        .refused(1, &["delivers none of its messages (1 ready)", "sluice explain"]);
    active.detach().await.unwrap();
    broker.verb(&["move", "single", "a"]).done();

    // A stream can be a target.
    assert_eq!(broker.verb(&["move", "a", "s"]).done(), "1 message moved from queue 'a' to queue 's'");
    assert_eq!(ready(&broker, "s"), 1);
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}
