//! The age of what a client of AMQP 1.0 has not settled. `amqp091.rs` has the same for channels.

use crate::broker;

use broker::{Broker, Directory};
use client::{Connection, Message, Options, ReceiverOptions, SenderOptions};
use serde_json::Value;

/// Returns the consuming link of the only connection.
fn link(broker: &Broker) -> Value {
    let (_, connections) = broker.get("/api/connections");
    connections[0]["sessions"][0]["outgoing_links"][0].clone()
}

/// Waits until the oldest unsettled delivery of the link is at least so old.
fn wait_for_age(broker: &Broker, age_ms: u64) -> u64 {
    loop {
        match link(broker)["unacknowledged_age_ms"].as_u64() {
            Some(found_ms) if found_ms >= age_ms => return found_ms,
            _ => std::thread::yield_now(),
        }
    }
}

/// A delivery that stays unsettled keeps its age, although others come and go. When it is settled, there is no age.
#[tokio::test]
async fn a_delivery_that_is_held_has_an_age() {
    let directory = Directory::new("ages");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    assert_eq!(link(&broker)["unacknowledged_age_ms"], Value::Null);
    sender.send(Message::data("held").encode()).await.unwrap();
    let held = receiver.recv().await.unwrap();
    wait_for_age(&broker, 1500);
    for _ in 0..3 {
        sender.send(Message::data("passes").encode()).await.unwrap();
        receiver.recv().await.unwrap().accept().unwrap();
    }
    let older_ms = wait_for_age(&broker, 1500);
    let (_, consumers) = broker.get("/api/consumers");
    assert!(consumers[0]["unacknowledged_age_ms"].as_u64().unwrap() >= older_ms, "{consumers}");
    assert!(broker.verb(&["list", "links"]).done().contains("AGE MS"));
    held.accept().unwrap();
    while link(&broker)["unsettled_deliveries"] != 0 {
        // The client runs on this thread, too.
        tokio::task::yield_now().await;
    }
    assert_eq!(link(&broker)["unacknowledged_age_ms"], Value::Null);
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}
