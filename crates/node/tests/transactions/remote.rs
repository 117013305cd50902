//! Transactions of a client whose permissions somebody else decides: the commit asks again for what is not known any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use amqp091::{BasicAck, BasicGet, Method, QueueBind, TxCommit, TxSelect};
use catalog::access::{About, Answering, Authorizer, Identity, Question};

use super::broker::{Broker, Killed, Kind, Seen};

/// More routing keys than a login remembers answers. So some are asked for again at the commit.
const KEYS: u64 = 1_100;

/// Counts the questions. Refuses what is asked about keys, if it is told to.
#[derive(Debug, Default)]
struct Somebody {
    asked: AtomicU64,
    refuses: AtomicBool,
}

impl Authorizer for Somebody {
    fn ask<'a>(&'a self, _: &'a str, question: &'a Question) -> Answering<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let is_refused = matches!(question.about, About::Key { .. }) && self.refuses.load(Ordering::Relaxed);
        Box::pin(std::future::ready(!is_refused))
    }
}

/// Acknowledges a message in a transaction with many keys. Returns what the commit is answered, and the messages that are ready
/// then: those that were published, and the one that was acknowledged.
fn commit(refuses: bool) -> Result<(Vec<Seen>, u64, u64), Killed> {
    let mut broker = Broker::new(1, 1);
    let other = broker.connect(0, "guest")?;
    for queue in ["from", "to", "dead"] {
        broker.declare(other, (queue, Kind::Classic), &[])?;
    }
    let bind = QueueBind { queue: "to", exchange: "amq.topic", routing_key: "#", ..QueueBind::default() };
    broker.ask(other, &Method::QueueBind(bind))?;
    broker.clients[other].publish(("", "from"), false, 1);
    broker.settle()?;

    let somebody = Arc::new(Somebody::default());
    broker.remote = Some(Identity::remote("guest".into(), [].into(), somebody.clone()));
    let tx = broker.connect(0, "guest")?;
    broker.ask(tx, &Method::TxSelect(TxSelect))?;
    let told = broker.ask(tx, &Method::BasicGet(BasicGet { queue: "from", ..BasicGet::default() }))?;
    assert_eq!(told, [Seen::Delivery { tag: 1, number: 1, fetched: true }]);
    broker.ask(tx, &Method::BasicAck(BasicAck { delivery_tag: 1, multiple: false }))?;
    for key in 0..KEYS {
        broker.clients[tx].publish(("amq.topic", &key.to_string()), false, key);
    }
    broker.settle()?;
    let asked = somebody.asked.load(Ordering::Relaxed);
    assert!(asked >= KEYS, "each key is asked for at the publish");
    somebody.refuses.store(refuses, Ordering::Relaxed);
    let told = broker.ask(tx, &Method::TxCommit(TxCommit))?;
    assert!(somebody.asked.load(Ordering::Relaxed) > asked, "some are asked for again");
    let ((to, _), (from, unsettled)) = (broker.depth("to"), broker.depth("from"));
    assert_eq!(unsettled, 0);
    Ok((told, to, from))
}

#[test]
fn a_commit_asks_for_what_is_not_known_any_more_and_publishes_all() {
    let (told, to, from) = commit(false).expect("nobody kills the broker");
    assert_eq!((told, to, from), (vec![Seen::Answer("tx.commit-ok")], KEYS, 0));
}

#[test]
fn a_commit_publishes_and_settles_nothing_if_one_key_is_refused() {
    let (told, to, from) = commit(true).expect("nobody kills the broker");
    assert_eq!((told, to, from), (vec![Seen::Closed(403)], 0, 1));
}
