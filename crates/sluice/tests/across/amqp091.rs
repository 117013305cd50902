//! Stories of AMQP 0.9.1.

use amqp091::{
    BasicCancel, BasicNack, Method, QueueDeclare, QueueDelete, QueuePurge, TxCommit, TxRollback, TxSelect,
};
use client::Error;

use super::client091::Client;
use super::{CONSUMER, PUBLISHER, QUEUE, run};
use crate::nodes::{Cluster, wait_until};

const MANY: u32 = 200;

#[test]
fn messages_are_confirmed_delivered_and_taken() {
    let cluster = Cluster::start("across-091", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let mut publisher = Client::open(cluster.broker(PUBLISHER)).await;
            let mut consumer = Client::open(cluster.broker(CONSUMER)).await;
            publisher.confirm().await;
            for number in 0..MANY {
                assert!(publisher.publish(kind, number.to_string()).await.unwrap(), "{kind}: {number}");
            }
            let passive = QueueDeclare { queue: kind, passive: true, ..QueueDeclare::default() };
            assert_eq!(consumer.declare(passive).await.unwrap(), MANY, "{kind}");
            let got = consumer.get(kind).await.unwrap();
            assert_eq!((&*got.body, got.redelivered), (&b"0"[..], false), "{kind}");
            let requeue = BasicNack { delivery_tag: got.tag, multiple: false, requeue: true };
            consumer.send(&Method::BasicNack(requeue)).await;
            wait_until("it is ready again", || cluster.messages(kind) == (MANY.into(), 0));
            consumer.qos(10).await;
            consumer.consume(kind, "c", false, 0).await;
            for number in 0..MANY {
                let message = consumer.next().await.unwrap();
                assert_eq!(message.body, number.to_string(), "{kind}");
                assert_eq!(message.redelivered, number == 0, "{kind}: {number}");
                consumer.ack(message.tag).await;
            }
            let cancel = BasicCancel { consumer_tag: "c", nowait: false };
            consumer.ask(&Method::BasicCancel(cancel), "basic.cancel-ok").await.unwrap();
            wait_until("the queue is empty", || cluster.messages(kind) == (0, 0));
            assert_eq!(consumer.get(kind).await, None, "{kind}");
            publisher.close().await;
            consumer.close().await;
        });
    }
    cluster.stop();
}

#[test]
fn a_prefetch_of_one_brings_one_message_at_a_time() {
    let cluster = Cluster::start("across-prefetch", &[]);
    cluster.declare(QUEUE, "q", &[]);
    run(async {
        let mut publisher = Client::open(cluster.broker(PUBLISHER)).await;
        let mut consumer = Client::open(cluster.broker(CONSUMER)).await;
        consumer.qos(1).await;
        consumer.consume("q", "c", false, 0).await;
        publisher.confirm().await;
        for number in 0..5 {
            assert!(publisher.publish("q", number.to_string()).await.unwrap());
        }
        for number in 0..5 {
            let message = consumer.next().await.unwrap();
            assert_eq!(message.body, number.to_string());
            wait_until("one is delivered", || cluster.messages("q") == (4 - number, 1));
            assert_eq!(consumer.arrived(), None);
            consumer.ack(message.tag).await;
        }
    });
    cluster.stop();
}

/// The consumer with the highest priority gets everything that it may hold, wherever it is.
#[test]
fn consumers_on_all_nodes_have_their_priorities() {
    let cluster = Cluster::start("across-priority", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let mut publisher = Client::open(cluster.broker(PUBLISHER)).await;
            let mut low = Client::open(cluster.broker(QUEUE)).await;
            let mut high = Client::open(cluster.broker(CONSUMER)).await;
            low.qos(10).await;
            low.consume(kind, "low", false, -1).await;
            high.qos(3).await;
            high.consume(kind, "high", false, 5).await;
            publisher.confirm().await;
            for number in 0..4 {
                assert!(publisher.publish(kind, number.to_string()).await.unwrap());
            }
            for number in 0..3 {
                assert_eq!(high.next().await.unwrap().body, number.to_string(), "{kind}");
            }
            assert_eq!(low.next().await.unwrap().body, "3", "{kind}: the other one has its fill");
        });
    }
    cluster.stop();
}

#[test]
fn an_answer_returns_to_the_channel_of_the_question() {
    let cluster = Cluster::start("across-replies-091", &[]);
    cluster.declare(QUEUE, "questions", &[]);
    run(async {
        let mut asker = Client::open(cluster.broker(PUBLISHER)).await;
        let mut answerer = Client::open(cluster.broker(CONSUMER)).await;
        asker.consume("amq.rabbitmq.reply-to", "replies", true, 0).await;
        answerer.consume("questions", "questions", true, 0).await;
        answerer.confirm().await;
        for number in 0..10 {
            asker.put("questions", Some("amq.rabbitmq.reply-to"), format!("question {number}"));
            let answers = async {
                let question = answerer.next().await.unwrap();
                assert_eq!(question.body, format!("question {number}"));
                assert!(question.reply_to.starts_with("amq.rabbitmq.reply-to."), "{question:?}");
                assert!(answerer.publish(&question.reply_to, format!("answer {number}")).await.unwrap());
                question.reply_to
            };
            let (answer, reply_to) = tokio::join!(asker.next(), answers);
            assert_eq!(answer.unwrap().body, format!("answer {number}"));
            // Whoever asks for the queue learns whether the channel is still there.
            let passive = QueueDeclare { queue: &reply_to, passive: true, ..QueueDeclare::default() };
            answerer.declare(passive).await.unwrap();
        }
    });
    cluster.stop();
}

#[test]
fn an_exclusive_queue_belongs_to_one_connection() {
    let cluster = Cluster::start("across-exclusive", &[]);
    run(async {
        let mut owner = Client::open(cluster.broker(QUEUE)).await;
        let exclusive = QueueDeclare { queue: "own", exclusive: true, ..QueueDeclare::default() };
        owner.declare(exclusive).await.unwrap();
        owner.consume("own", "c", true, 0).await;
        cluster.wait_for_queue("own");
        let mut publisher = Client::open(cluster.broker(PUBLISHER)).await;
        publisher.confirm().await;
        for number in 0..3 {
            assert!(publisher.publish("own", number.to_string()).await.unwrap());
            assert_eq!(owner.next().await.unwrap().body, number.to_string());
        }
        let mut other = Client::open(cluster.broker(CONSUMER)).await;
        let passive = QueueDeclare { queue: "own", passive: true, ..QueueDeclare::default() };
        let refused = other.declare(passive).await.unwrap_err();
        assert!(refused.to_string().contains("RESOURCE_LOCKED"), "{refused}");
        owner.close().await;
        let is_gone = || cluster.nodes.iter().all(|node| node.broker().get("/api/queues/%2F/own").0 == 404);
        wait_until("the queue is gone", is_gone);
    });
    cluster.stop();
}

/// A client on one node moves messages from a queue on the second node to a queue on the third.
#[test]
fn a_transaction_has_queues_on_two_nodes() {
    let cluster = Cluster::start("across-tx", &[]);
    cluster.declare(QUEUE, "from", &[]);
    cluster.declare(PUBLISHER, "to", &[]);
    let messages = |at: usize, queue: &str| -> (u64, u64) {
        let (_, row) = cluster.broker(at).get(&format!("/api/queues/%2F/{queue}"));
        let count = |field: &str| row[field].as_u64().unwrap();
        (count("messages_ready"), count("messages_unacknowledged"))
    };
    run(async {
        let mut publisher = Client::open(cluster.broker(PUBLISHER)).await;
        publisher.confirm().await;
        assert!(publisher.publish("from", "a message").await.unwrap());
        let mut mover = Client::open(cluster.broker(CONSUMER)).await;
        mover.ask(&Method::TxSelect(TxSelect), "tx.select-ok").await.unwrap();
        for rolled_back in [true, false] {
            let got = mover.get("from").await.unwrap();
            assert_eq!(got.redelivered, !rolled_back);
            mover.put("to", None, got.body);
            mover.put("from", None, "another message");
            mover.ack(got.tag).await;
            match rolled_back {
                true => {
                    mover.ask(&Method::TxRollback(TxRollback), "tx.rollback-ok").await.unwrap();
                    let requeue = BasicNack { delivery_tag: got.tag, multiple: false, requeue: true };
                    mover.send(&Method::BasicNack(requeue)).await;
                    mover.ask(&Method::TxCommit(TxCommit), "tx.commit-ok").await.unwrap();
                    wait_until("nothing has changed", || messages(QUEUE, "from") == (1, 0));
                    assert_eq!(messages(PUBLISHER, "to"), (0, 0));
                }
                false => {
                    mover.ask(&Method::TxCommit(TxCommit), "tx.commit-ok").await.unwrap();
                    // What is committed is in its queue.
                    assert_eq!(messages(PUBLISHER, "to"), (1, 0));
                    wait_until("the other queue has changed, too", || messages(QUEUE, "from") == (1, 0));
                }
            }
        }
        assert_eq!(mover.get("from").await.unwrap().body, "another message");
        assert_eq!(mover.get("to").await.unwrap().body, "a message");
    });
    cluster.stop();
}

#[test]
fn a_queue_is_purged_and_deleted_on_another_node() {
    let cluster = Cluster::start("across-delete", &[]);
    for kind in ["classic", "quorum"] {
        cluster.declare(QUEUE, kind, &["--type", kind]);
        run(async {
            let mut publisher = Client::open(cluster.broker(PUBLISHER)).await;
            let mut consumer = Client::open(cluster.broker(CONSUMER)).await;
            publisher.confirm().await;
            for number in 0..3 {
                assert!(publisher.publish(kind, number.to_string()).await.unwrap());
            }
            let purge = Method::QueuePurge(QueuePurge { queue: kind, nowait: false });
            consumer.ask(&purge, "queue.purge-ok").await.unwrap();
            assert_eq!(cluster.messages(kind), (0, 0));
            consumer.consume(kind, "c", false, 0).await;
            let delete =
                Method::QueueDelete(QueueDelete { queue: kind, if_unused: true, ..QueueDelete::default() });
            let mut other = Client::open(cluster.broker(PUBLISHER)).await;
            let used = other.ask(&delete, "queue.delete-ok").await.unwrap_err();
            // Quorum queues do not know the flag.
            let reason = if kind == "classic" { "PRECONDITION_FAILED" } else { "NOT_IMPLEMENTED" };
            assert!(used.to_string().contains(reason), "{kind}: {used}");
            let delete = Method::QueueDelete(QueueDelete { queue: kind, ..QueueDelete::default() });
            publisher.ask(&delete, "queue.delete-ok").await.unwrap();
            // The client does not ask for the notice of a cancelled consumer otherwise.
            let ended = consumer.next().await.unwrap_err();
            assert!(matches!(ended, Error::Closed), "{kind}: {ended}");
            let path = format!("/api/queues/%2F/{kind}");
            let is_gone = || cluster.nodes.iter().all(|node| node.broker().get(&path).0 == 404);
            wait_until("the queue is gone", is_gone);
        });
    }
    cluster.stop();
}
