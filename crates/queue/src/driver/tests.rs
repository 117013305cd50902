//! Tests the drivers of the product with the real machine.

use std::sync::Arc;

use message::{Message, Parts, Route};

use super::*;
use crate::{
    Carrier, Config, ConsumerId, Deliver, Fact, Lent, Outcome, Publish, PublisherId, Put, Span, Ticket,
    Verdict,
};

const HEALTHY: Health = Health { log_refuses: false, memory_is_stuck: false };

fn publish(seq: u64, durable: bool) -> Request {
    let parts = Parts { wire: b"x".to_vec().into(), durable, ..Parts::default() };
    let message = Message::new(parts, Arc::new(Route::simple("", "q")));
    Request::Publish(Publish { publisher: PublisherId(1), seq, message, patient: true })
}

/// A receipt: the first and the last publish, the verdict, and whether it depends on facts.
type Answer = (u64, u64, Verdict, bool);

/// A queue with its driver, as a shard holds it.
struct Queue {
    driver: Driver,
    fifo: Fifo,
    out: Output,
}

/// Takes messages as a shard does: Solo may defer them.
struct Upward<'a>(&'a mut Driver, Vec<u64>);

impl Deliver for Upward<'_> {
    fn deliver(&mut self, _: Lent<'_>) -> bool {
        true
    }
}

impl Carrier for Upward<'_> {
    fn put(&mut self, put: Put<'_>) -> bool {
        let Driver::Solo(solo) = self.0 else { panic!("a transient queue has no facts") };
        let is_deferred = solo.defer(put, u64::MAX).is_some();
        self.1.extend((!is_deferred).then_some(put.seq));
        is_deferred
    }
}

impl Queue {
    fn new(driver: Driver) -> Self {
        let fifo = Fifo::new(Config::new("q")).with_policy(driver.policy());
        let mut queue = Self { driver, fifo, out: Output::default() };
        let consumer = ConsumerId(1);
        queue.ask(Request::Attach(crate::Attach {
            consumer,
            mode: crate::Mode::Take,
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
        }));
        queue.ask(Request::Grant { consumer, delivery_count: 0, credit: 99, drain: false, echo: false });
        queue.close();
        queue
    }

    /// Returns the messages that go to the journal at once.
    fn ask(&mut self, request: Request) -> Vec<u64> {
        assert_eq!(self.driver.admit(&request, HEALTHY), Admission::Now);
        let mut upward = Upward(&mut self.driver, Vec::new());
        self.fifo.apply(request, 1000, &mut self.out, &mut upward);
        upward.1
    }

    fn settle(&mut self, first: u64, last: u64, outcome: Outcome) {
        self.ask(Request::Settle { consumer: ConsumerId(1), first, last, outcome, answer: false });
    }

    /// Returns the receipts and facts of a turn, and the level that they wait for.
    fn close(&mut self) -> (Vec<Answer>, String, Level) {
        let mark = self.driver.close(&mut self.fifo, &mut self.out);
        let receipts = self.out.receipts.drain().map(|r| (r.first, r.last, r.verdict, r.journaled)).collect();
        let facts = self.out.facts.drain(..).map(|fact| match fact {
            Fact::Put { seq, .. } => format!("put {seq}"),
            Fact::Gone(Span { first, last }) => format!("gone {first}..={last}"),
            Fact::Returned { seq, .. } => format!("returned {seq}"),
            other => panic!("{other:?}"),
        });
        let facts: Vec<String> = facts.collect();
        self.out.effects.clear();
        (receipts, facts.join("; "), mark.level)
    }
}

#[test]
fn only_publishes_that_cannot_be_stored_are_refused() {
    let unavailable = Admission::Refuse(RejectReason::Unavailable);
    let log = Health { log_refuses: true, ..HEALTHY };
    let memory = Health { memory_is_stuck: true, ..HEALTHY };
    let (transient, solo) = (Driver::classic(false, false), Driver::classic(true, false));
    for (driver, durable, health, expected) in [
        (&transient, true, log, Admission::Now),
        (&transient, false, memory, unavailable),
        (&solo, true, HEALTHY, Admission::Now),
        (&solo, true, log, unavailable),
        (&solo, false, log, Admission::Now),
        (&solo, false, memory, unavailable),
    ] {
        assert_eq!(driver.admit(&publish(1, durable), health), expected, "{driver:?} {durable} {health:?}");
        assert_eq!(driver.admit(&Request::Purge { ticket: Ticket(1) }, health), Admission::Now);
    }
}

#[test]
fn nothing_of_a_transient_queue_survives() {
    let mut queue = Queue::new(Driver::classic(false, true));
    assert_eq!(queue.ask(publish(1, true)), []);
    queue.settle(1, 1, Outcome::Released);
    assert_eq!(queue.close(), (vec![(1, 1, Verdict::Accepted, false)], String::new(), Level::Written));
}

#[test]
fn a_queue_with_fsync_defers_nothing_and_waits_for_a_sync() {
    let mut queue = Queue::new(Driver::classic(true, true));
    assert_eq!(queue.ask(publish(1, true)), [1]);
    queue.ask(publish(2, false));
    let receipts = vec![(1, 1, Verdict::Accepted, true), (2, 2, Verdict::Accepted, false)];
    assert_eq!(queue.close(), (receipts, String::new(), Level::Synced));
}

#[test]
fn messages_settled_in_time_have_no_facts() {
    let mut queue = Queue::new(Driver::classic(true, false));
    (1..=4).for_each(|seq| assert_eq!(queue.ask(publish(seq, true)), []));
    assert_eq!(queue.close(), (vec![], String::new(), Level::Written));
    assert_eq!(queue.driver.deferral().messages, 4);
    queue.settle(1, 2, Outcome::Accepted);
    assert_eq!(queue.close(), (vec![(1, 2, Verdict::Accepted, false)], String::new(), Level::Written));
    // Deferred messages are written before any other fact of the queue.
    queue.settle(4, 4, Outcome::Released);
    let receipts = vec![(3, 4, Verdict::Accepted, true)];
    assert_eq!(queue.close(), (receipts, "put 3; put 4; returned 4; returned 4".into(), Level::Written));
    assert_eq!(queue.driver.deferral(), Deferral::default());
}

#[test]
fn deferred_messages_are_released_when_the_queue_ends() {
    let mut queue = Queue::new(Driver::classic(true, false));
    queue.ask(publish(1, true));
    queue.ask(publish(2, true));
    queue.settle(1, 1, Outcome::Accepted);
    queue.ask(Request::Delete { ticket: Ticket(1), if_unused: false, if_empty: false });
    let receipts = vec![(1, 1, Verdict::Accepted, false), (2, 2, Verdict::Released, false)];
    assert_eq!(queue.close().0, receipts);
}
