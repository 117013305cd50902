//! Nodes that are killed and start again, as clients on other nodes see it.

use amqp10::DeliveryState;
use client::{Credit, Error, Message, Receiver, ReceiverOptions, SenderOptions, Session};

use super::{CONSUMER, PUBLISHER, QUEUE, run, session};
use crate::nodes::{Cluster, wait_until};

const KINDS: [&str; 2] = ["classic", "quorum"];
const MESSAGES: u64 = 5;

async fn publish(session: &Session, queue: &str) {
    let sender = session.sender(Some(&format!("/queues/{queue}")), SenderOptions::default()).await.unwrap();
    for number in 0..MESSAGES {
        let message = Message::data(number.to_be_bytes().to_vec()).durable(true);
        assert_eq!(sender.send(message.encode()).await.unwrap(), DeliveryState::Accepted);
    }
}

async fn consume(session: &Session, queue: &str) -> Result<Receiver, Error> {
    let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some(&format!("/queues/{queue}")), options).await?;
    receiver.flow(MESSAGES as u32, false, false);
    Ok(receiver)
}

/// Attaches a consumer as soon as that is possible.
async fn consume_again(session: &Session, queue: &str) -> Receiver {
    loop {
        match consume(session, queue).await {
            Ok(receiver) => return receiver,
            Err(error) => assert!(error.to_string().contains(&format!("queue '{queue}'")), "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[test]
fn a_consumer_learns_that_the_node_of_its_queue_was_lost() {
    let mut cluster = Cluster::start("across-killed", &[]);
    for kind in KINDS {
        cluster.declare(QUEUE, kind, &["--type", kind]);
    }
    run(async {
        let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
        let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
        let mut receivers = Vec::new();
        for kind in KINDS {
            publish(&publishing, kind).await;
            let receiver = consume(&consuming, kind).await.unwrap();
            let mut held = Vec::new();
            for _ in 0..MESSAGES {
                held.push(receiver.recv().await.unwrap());
            }
            assert_eq!(cluster.messages(kind), (0, MESSAGES), "{kind}");
            receivers.push((receiver, held));
        }
        cluster.nodes[QUEUE].kill();
        cluster.nodes[QUEUE].start();
        for ((receiver, held), kind) in receivers.into_iter().zip(KINDS) {
            let ended = receiver.recv().await.map(|_| ()).unwrap_err();
            assert!(ended.to_string().contains(&format!("queue '{kind}'")), "{kind}: {ended}");
            drop(held);
            let again = consume_again(&consuming, kind).await;
            for number in 0..MESSAGES {
                let delivery = again.recv().await.unwrap();
                let body = Message::decode(&delivery.message).unwrap().body_bytes().unwrap();
                assert_eq!(*body, number.to_be_bytes(), "{kind}");
                delivery.accept().unwrap();
            }
            wait_until("all are accepted", || cluster.messages(kind) == (0, 0));
            // Publishers on the other nodes go on.
            let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
            publish(&publishing, kind).await;
            wait_until("they are there", || cluster.messages(kind) == (MESSAGES, 0));
        }
    });
    cluster.stop();
}

#[test]
fn what_a_killed_node_held_returns_to_the_queues_of_others() {
    let mut cluster = Cluster::start("across-holder", &[]);
    for kind in KINDS {
        cluster.declare(QUEUE, kind, &["--type", kind]);
    }
    run(async {
        let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
        let (consumer, consuming) = session(cluster.broker(CONSUMER)).await;
        let mut held = Vec::new();
        for kind in KINDS {
            publish(&publishing, kind).await;
            let receiver = consume(&consuming, kind).await.unwrap();
            for _ in 0..MESSAGES {
                held.push(receiver.recv().await.unwrap());
            }
            assert_eq!(cluster.messages(kind), (0, MESSAGES));
        }
        cluster.nodes[CONSUMER].kill();
        drop((held, consumer));
        cluster.nodes[CONSUMER].start();
        for kind in KINDS {
            wait_until("all are ready again", || cluster.messages(kind) == (MESSAGES, 0));
        }
        let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
        for kind in KINDS {
            let receiver = consume(&consuming, kind).await.unwrap();
            for number in 0..MESSAGES {
                let delivery = receiver.recv().await.unwrap();
                let body = Message::decode(&delivery.message).unwrap().body_bytes().unwrap();
                assert_eq!(*body, number.to_be_bytes(), "{kind}");
            }
        }
    });
    cluster.stop();
}

#[test]
fn a_queue_of_a_node_that_is_down_is_refused_with_the_reason() {
    let mut cluster = Cluster::start("across-down", &[]);
    cluster.declare(QUEUE, "q", &[]);
    let where_it_is =
        format!("has its home on node {}, which is down or inaccessible", cluster.nodes[QUEUE].name);
    run(async {
        let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
        let sender = publishing.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
        cluster.nodes[QUEUE].kill();
        let outcome = sender.send(Message::data("refused").durable(true).encode()).await.unwrap();
        let DeliveryState::Rejected(Some(error)) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(error.description, Some(format!("queue 'q' {where_it_is}")));
        let refused = consume(&publishing, "q").await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("queue 'q'") && refused.contains(&where_it_is), "{refused}");
        // Other queues are not concerned.
        assert!(cluster.nodes[PUBLISHER].declare("other").0 < 300);
        publish(&publishing, "other").await;
        cluster.nodes[QUEUE].start();
        let receiver = consume_again(&publishing, "q").await;
        assert_eq!(sender.send(Message::data("taken").encode()).await.unwrap(), DeliveryState::Accepted);
        let delivery = receiver.recv().await.unwrap();
        let body = Message::decode(&delivery.message).unwrap().body_bytes().unwrap();
        assert_eq!(&*body, b"taken", "what was refused is not there");
    });
    cluster.stop();
}

#[test]
fn a_queue_of_a_node_that_is_down_can_be_deleted() {
    let mut cluster = Cluster::start("across-deleted", &[]);
    for kind in KINDS {
        cluster.declare(QUEUE, kind, &["--type", kind]);
    }
    run(async {
        let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
        publish(&publishing, "classic").await;
    });
    cluster.nodes[QUEUE].kill();
    let delete =
        |queue: &str| cluster.broker(PUBLISHER).ask("DELETE", &format!("/api/queues/%2F/{queue}"), "");
    wait_until("it is deleted", || delete("classic").0 == 204);
    // The end of a quorum queue is decided by its members.
    let (status, why) = delete("quorum");
    assert!(status >= 400 && why.to_string().contains("its home"), "{status} {why}");
    cluster.nodes[QUEUE].start();
    wait_until("its node has deleted it", || !cluster.nodes[QUEUE].has_queue("classic"));
    assert!(cluster.nodes[QUEUE].has_queue("quorum"));
    // The name is free, and the queue is empty.
    cluster.declare(QUEUE, "classic", &["--type", "classic"]);
    assert_eq!(cluster.messages("classic"), (0, 0));
    cluster.stop();
}
