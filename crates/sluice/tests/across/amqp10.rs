//! Stories of AMQP 1.0.

use amqp10::{
    Attach, DeliveryState, Modified, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype,
    TerminusExpiryPolicy,
};
use bytes::Bytes;
use client::{Credit, Delivery, Message, Options, Receiver, ReceiverOptions, SenderOptions, Session, Settle};

use super::{CONSUMER, PUBLISHER, QUEUE, run, session};
use crate::nodes::{Cluster, wait_until};

/// More than a batch of one session between nodes has, and more than a receiver has credit for at once.
const MANY: u64 = 2_000;

fn numbered(number: u64) -> Bytes {
    Message::data(number.to_be_bytes().to_vec()).durable(true).encode()
}

fn body(delivery: &Delivery) -> Bytes {
    Message::decode(&delivery.message).unwrap().body_bytes().unwrap()
}

fn is_number(delivery: &Delivery, number: u64) -> bool {
    *body(delivery) == number.to_be_bytes()
}

async fn with_credit(session: &Session, queue: &str, credit: u32) -> Receiver {
    let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some(&format!("/queues/{queue}")), options).await.unwrap();
    receiver.flow(credit, false, false);
    receiver
}

async fn send(session: &Session, queue: &str, message: Bytes) -> DeliveryState {
    let address = format!("/queues/{queue}");
    let sender = session.sender(Some(&address), SenderOptions::default()).await.unwrap();
    let outcome = sender.send(message).await.unwrap();
    sender.detach().await.unwrap();
    outcome
}

#[test]
fn messages_arrive_in_order_and_are_gone_when_they_are_accepted() {
    let cluster = Cluster::start("across-order", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
            let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
            let address = format!("/queues/{kind}");
            let sender = publishing.sender(Some(&address), SenderOptions::default()).await.unwrap();
            let receiver = consuming.receiver(Some(&address), ReceiverOptions::default()).await.unwrap();
            let publish = async {
                let mut outcomes = Vec::new();
                for number in 0..MANY {
                    outcomes.push(sender.send_pipelined(numbered(number)).await.unwrap());
                }
                for outcome in outcomes {
                    assert_eq!(outcome.await.unwrap(), DeliveryState::Accepted);
                }
            };
            let consume = async {
                for number in 0..MANY {
                    let delivery = receiver.recv().await.unwrap();
                    assert!(
                        is_number(&delivery, number),
                        "{kind}: {number} is missing: {:?}",
                        body(&delivery)
                    );
                    delivery.accept().unwrap();
                }
            };
            tokio::join!(publish, consume);
            wait_until("the queue is empty", || cluster.messages(kind) == (0, 0));
            // A settled message has no outcome, and is not lost for that.
            let options = SenderOptions { settle: Settle::Settled, ..SenderOptions::default() };
            let sender = publishing.sender(Some(&address), options).await.unwrap();
            sender.send_settled(numbered(7)).await.unwrap();
            let delivery = receiver.recv().await.unwrap();
            assert!(is_number(&delivery, 7));
            delivery.accept().unwrap();
        });
    }
    cluster.stop();
}

#[test]
fn each_outcome_has_its_effect() {
    let cluster = Cluster::start("across-outcomes", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
            let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
            assert_eq!(send(&publishing, kind, numbered(1)).await, DeliveryState::Accepted);
            let receiver = with_credit(&consuming, kind, 4).await;
            receiver.recv().await.unwrap().release().unwrap();
            let again = receiver.recv().await.unwrap();
            let header = Message::decode(&again.message).unwrap().header.unwrap_or_default();
            assert_eq!(header.delivery_count.unwrap_or(0), 0, "{kind}: a released message has not failed");
            again.modify(Modified { delivery_failed: Some(true), ..Modified::default() }).unwrap();
            let failed = receiver.recv().await.unwrap();
            let header = Message::decode(&failed.message).unwrap().header.unwrap_or_default();
            assert_eq!(header.delivery_count, Some(1), "{kind}");
            failed.reject(None).unwrap();
            wait_until(&format!("the rejected message of {kind} is gone"), || {
                cluster.messages(kind) == (0, 0)
            });
            // What a consumer holds returns to the queue when it detaches.
            assert_eq!(send(&publishing, kind, numbered(2)).await, DeliveryState::Accepted);
            let held = receiver.recv().await.unwrap();
            assert!(is_number(&held, 2));
            assert_eq!(cluster.messages(kind), (0, 1));
            receiver.detach().await.unwrap();
            wait_until("it is ready again", || cluster.messages(kind) == (1, 0));
        });
    }
    cluster.stop();
}

#[test]
fn a_consumer_gets_as_many_messages_as_it_has_credit_for() {
    let cluster = Cluster::start("across-credit", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
            let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
            let receiver = with_credit(&consuming, kind, 1).await;
            for number in 0..3 {
                assert_eq!(send(&publishing, kind, numbered(number)).await, DeliveryState::Accepted);
            }
            assert!(is_number(&receiver.recv().await.unwrap(), 0));
            wait_until("one is delivered", || cluster.messages(kind) == (2, 1));
            // The answer to a drain comes after all that the credit brings.
            receiver.flow(1, false, false);
            assert!(is_number(&receiver.recv().await.unwrap(), 1));
            let drained = receiver.drain().await.unwrap();
            assert_eq!((drained.unused, drained.waiting), (0, 0), "{kind}");
            assert_eq!(cluster.messages(kind), (1, 2), "{kind}");
            receiver.flow(5, false, false);
            let drained = receiver.drain().await.unwrap();
            assert_eq!(drained.waiting, 1, "{kind}: {drained:?}");
            assert_eq!(drained.unused, 4, "{kind}: {drained:?}");
        });
    }
    cluster.stop();
}

#[test]
fn a_stream_is_read_from_any_offset_and_with_filters() {
    let cluster = Cluster::start("across-stream", &[]);
    cluster.declare(QUEUE, "s", &["--type", "stream"]);
    for value in ["red", "green", "blue"] {
        let words = ["send", "s", value, "--subject", value, "--filter-value", value];
        cluster.broker(PUBLISHER).verb(&words).done();
    }
    // Each message is sent when the one before is confirmed, so each has a chunk of its own.
    let recv = |count: &str, words: &[&str]| {
        let begin = ["recv", "s", "--count", count, "--timeout", "20"];
        cluster.broker(CONSUMER).verb(&[&begin, words].concat()).done()
    };
    assert_eq!(recv("3", &["--offset", "first"]), "red\ngreen\nblue");
    assert_eq!(recv("2", &["--offset", "1"]), "green\nblue");
    assert_eq!(recv("1", &["--offset", "last"]), "blue");
    assert_eq!(recv("1", &["--offset", "first", "--filter", "properties.subject = 'blue'"]), "blue");
    assert_eq!(recv("1", &["--offset", "first", "--filter-value", "green"]), "green");
    run(async {
        let (_publisher, publishing) = session(cluster.broker(PUBLISHER)).await;
        let (_consumer, consuming) = session(cluster.broker(CONSUMER)).await;
        // A reader that names no offset gets what is new.
        let receiver = with_credit(&consuming, "s", 10).await;
        for number in 0..10 {
            assert_eq!(send(&publishing, "s", numbered(number)).await, DeliveryState::Accepted);
            assert!(is_number(&receiver.recv().await.unwrap(), number));
        }
    });
    assert_eq!(cluster.messages("s").0, 13);
    cluster.stop();
}

/// Returns what a client attaches that wants replies without a queue.
fn for_replies() -> Attach {
    let mut attach = Attach::new("replies".to_owned(), 0, Role::Receiver);
    attach.snd_settle_mode = SenderSettleMode::Settled;
    attach.source = Some(Source {
        dynamic: true,
        capabilities: vec![Symbol::from_static("rabbitmq:volatile-queue")],
        expiry_policy: TerminusExpiryPolicy::LinkDetach,
        ..Source::default()
    });
    attach.target = Some(TargetArchetype::Target(Target::default()));
    attach
}

fn address_of(receiver: &Receiver) -> String {
    receiver.remote_attach().source.as_ref().unwrap().address.clone().unwrap()
}

#[test]
fn an_answer_returns_to_the_node_of_the_question() {
    let cluster = Cluster::start("across-replies", &[]);
    cluster.declare(QUEUE, "questions", &[]);
    run(async {
        let (_asker, asking) = session(cluster.broker(PUBLISHER)).await;
        let (_answerer, answering) = session(cluster.broker(CONSUMER)).await;
        let questions = with_credit(&answering, "questions", 10).await;
        let anonymous = answering.sender(None, SenderOptions::default()).await.unwrap();
        let direct = asking.receiver_with(for_replies(), Credit::Auto(10)).await.unwrap();
        let capabilities = vec![Symbol::from_static("temporary-queue")];
        let dynamic = ReceiverOptions { dynamic: true, capabilities, ..ReceiverOptions::default() };
        let queue = asking.receiver(None, dynamic).await.unwrap();
        for replies in [direct, queue] {
            let to = address_of(&replies);
            let question = Message::data("question").reply_to(to).encode();
            assert_eq!(send(&asking, "questions", question).await, DeliveryState::Accepted);
            let asked = questions.recv().await.unwrap();
            let to = Message::decode(&asked.message).unwrap().properties.unwrap().reply_to.unwrap();
            asked.accept().unwrap();
            // The queue of a dynamic node is known when its node has told the others.
            let name = to.strip_prefix("/queues/").unwrap().to_owned();
            if !name.starts_with("amq.rabbitmq.reply-to") {
                cluster.wait_for_queue(&name);
            }
            let answer = Message::data("answer").to(&*to).encode();
            assert_eq!(anonymous.send(answer).await.unwrap(), DeliveryState::Accepted);
            assert_eq!(&*body(&replies.recv().await.unwrap()), b"answer");
            let sender = answering.sender(Some(&to), SenderOptions::default()).await.unwrap();
            let answer = Message::data("another").encode();
            assert_eq!(sender.send(answer).await.unwrap(), DeliveryState::Accepted);
            assert_eq!(&*body(&replies.recv().await.unwrap()), b"another");
        }
    });
    cluster.stop();
}

#[test]
fn a_large_message_crosses_the_nodes() {
    const SIZE: usize = 64 << 20;
    let cluster = Cluster::start("across-large", &["max_message_size=70MB"]);
    for kind in ["classic", "stream"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let options = Options { max_frame_size: 1 << 20, ..Options::default() };
            let url = |at: usize| cluster.broker(at).amqp_url().parse().unwrap();
            let publisher = client::Connection::open(&url(PUBLISHER), options.clone()).await.unwrap();
            let consumer = client::Connection::open(&url(CONSUMER), options).await.unwrap();
            let (publishing, consuming) =
                (publisher.session().await.unwrap(), consumer.session().await.unwrap());
            let receiver = with_credit(&consuming, kind, 2).await;
            let large: Bytes = (0..SIZE).map(|at| (at % 251) as u8).collect();
            let message = Message::data(large.clone()).durable(true).encode();
            assert_eq!(send(&publishing, kind, message).await, DeliveryState::Accepted);
            let delivery = receiver.recv().await.unwrap();
            assert!(body(&delivery) == large, "{kind}: the body is another one");
            delivery.accept().unwrap();
            // The session between the nodes goes on.
            assert_eq!(send(&publishing, kind, numbered(1)).await, DeliveryState::Accepted);
            assert!(is_number(&receiver.recv().await.unwrap(), 1));
        });
    }
    // Heartbeats have connections of their own.
    for node in &cluster.nodes {
        let logged = node.directory.logged();
        assert!(!logged.contains("does not count as alive"), "{}: {logged}", node.name);
    }
    cluster.stop();
}
