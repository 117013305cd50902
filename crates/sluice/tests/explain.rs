//! Runs `sluice explain` against the built broker.

use crate::broker;

use broker::verb::{ask_as, basic};
use broker::{Broker, Directory};
use client::{Connection, Options, ReceiverOptions};
use serde_json::{Value, json};

#[test]
fn explain_names_the_cause() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "a/b"]).done();
    let explained = broker.verb(&["explain", "queue", "a/b"]).done();
    assert!(
        explained.starts_with("queue_empty: the queue is empty\nWhat it means: There is nothing to deliver."),
        "{explained}"
    );
    broker.verb(&["send", "a/b", "x"]).done();
    let explained = broker.verb(&["explain", "queue", "a/b", "--json"]).done();
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(
        (&explained["cause"], &explained["numbers"]["queue_ready"]),
        (&json!("no_consumer"), &json!(1))
    );
    assert_eq!(
        (&explained["kind"], &explained["name"], &explained["at"]),
        (&json!("queue"), &json!("a/b"), &json!(null))
    );
    broker.verb(&["explain", "queue", "c"]).refused(1, &["explain the queue", "no queue 'c' in vhost '/'"]);
    broker.verb(&["explain", "queue", "a/b", "--vhost", "/"]).done();
    broker.verb(&["explain", "queue", "a/b", "-p", "other"]).refused(1, &["no vhost 'other'"]);
    broker.verb(&["explain", "link", "l/1"]).refused(1, &["explain the link", "no link 'l/1'"]);
    broker.verb(&["explain", "link", "l/1", "-p", "a/b"]).refused(1, &["no link 'l/1' in vhost 'a/b'"]);
    broker.verb(&["explain", "connection", "c"]).refused(1, &["no connection 'c'"]);
}

#[test]
fn explain_lists_what_is_wrong() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    let nothing = "Nothing is wrong.\nLooked at 1 queue and 0 connections.";
    assert_eq!(broker.verb(&["explain"]).done(), nothing);
    broker.verb(&["send", "q", "x"]).done();
    broker.verb(&["add", "vhost", "team"]).done();
    broker.verb(&["declare", "queue", "limited", "-p", "team", "--argument", "x-max-length=9"]).done();
    let explained = broker.verb(&["explain"]).done();
    let first = "warning: 1 queue grows, and no client consumes from it (queue_without_consumer)\n  queue 'q' in '/': ";
    assert!(explained.starts_with(first), "{explained}");
    assert!(explained.contains("\n  What to do:\n  - Start a consumer."), "{explained}");
    assert!(explained.ends_with("\n\nLooked at 2 queues and 0 connections."), "{explained}");
    let explained: Value = serde_json::from_str(&broker.verb(&["explain", "--json"]).done()).unwrap();
    let trouble = &explained["troubles"][0];
    assert_eq!((&trouble["severity"], &trouble["count"]), (&json!("warning"), &json!(1)));
    assert_eq!(trouble["objects"][0]["numbers"]["queue_ready"], json!(1));

    // Who may not see a virtual host sees nothing of it.
    assert_eq!(broker.ask("PUT", "/api/users/eve", r#"{"password":"e","tags":"management"}"#).0, 201);
    let asks = |broker: &Broker| {
        let (status, answer) = ask_as(broker.http_port, &basic("eve", "e"), "GET", "/api/explain", "");
        assert_eq!(status, 200, "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let nothing = r#"{"troubles":[],"looked_at":{"queues":0,"connections":0}}"#;
    assert_eq!(asks(&broker), nothing);
    let none = r#"{"configure":"","write":"","read":""}"#;
    assert_eq!(broker.ask("PUT", "/api/permissions/team/eve", none).0, 201);
    assert_eq!(asks(&broker), nothing.replace(r#""queues":0"#, r#""queues":1"#));
    assert_eq!(broker.ask("PUT", "/api/permissions/%2F/eve", none).0, 201);
    assert!(asks(&broker).contains(r#""cause":"queue_without_consumer""#));
}

/// A client gives each message back until the broker ends.
#[test]
fn explain_finds_messages_that_go_round() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q", "--type", "quorum"]).done();
    broker.verb(&["send", "q", "x"]).done();
    let url = broker.amqp_url();
    let (goes_round, has_begun) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connection = Connection::open(&url.parse().unwrap(), Options::default()).await.unwrap();
            let session = connection.session().await.unwrap();
            let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
            let mut count = 0;
            while let Ok(delivery) = receiver.recv().await {
                if delivery.release().is_err() {
                    return;
                }
                count += 1;
                if count == 100 {
                    goes_round.send(()).unwrap();
                }
            }
        });
    });
    has_begun.recv().unwrap();
    let explained = broker.verb(&["explain", "queue", "q"]).done();
    let begin = "requeue_loop: the consumer gives messages back ";
    assert!(explained.starts_with(begin) && explained.contains("\nat link '"), "{explained}");
    for part in [", and none leaves the queue\n", "not basic.nack and released.", "queue_looped_a_minute "] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let listed = broker.verb(&["explain"]).done();
    let begin = "warning: 1 queue gets its messages back from consumers again and again, and none leaves it (requeue_loop)\n  queue 'q' in '/': queue_looped_a_minute ";
    assert!(listed.starts_with(begin), "{listed}");
    drop(broker);
    client.join().unwrap();
}
