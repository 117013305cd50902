//! What a quorum queue does and a classic queue does not.

use std::sync::Arc;

use message::{Message, Parts, Route};

use super::lending;
use super::transcript::{config, dead_letters};
use crate::fifo::{Fifo, Output};
use crate::*;

const CONSUMER: ConsumerId = ConsumerId(1);

/// A machine without a driver: each turn is committed at once.
struct Queue {
    fifo: Fifo,
    out: Output,
}

impl Queue {
    fn new(config: Config) -> Self {
        let mut queue =
            Self { fifo: Fifo::new(config).with_policy(FactPolicy::Always), out: Output::default() };
        queue.ask(Request::Attach(Attach {
            consumer: CONSUMER,
            mode: Mode::Take,
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
        }));
        queue
    }

    fn limited(delivery_limit: Option<i64>, dead_letter: bool) -> Self {
        let quorum = Some(QuorumConfig { delivery_limit });
        let dead_letter = if dead_letter { dead_letters(false) } else { None };
        let mut queue = Self::new(Config { quorum, dead_letter, ..config() });
        queue.publish(1, None);
        queue
    }

    fn ask(&mut self, request: Request) -> Vec<Effect> {
        self.fifo.ask(request, 1000, &mut self.out);
        let turn = self.fifo.close_turn();
        let fifo = &mut self.fifo;
        lending(&mut self.out, |out, deliver| fifo.commit_turns(turn, 1000, out, deliver));
        self.fifo.close_turn();
        self.out.facts.clear();
        self.out.effects.drain(..).collect()
    }

    fn publish(&mut self, seq: u64, priority: Option<u8>) {
        let parts = Parts { wire: b"x".to_vec().into(), priority, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("", "q")));
        self.ask(Request::Publish(Publish { publisher: PublisherId(1), seq, message, patient: false }));
    }

    /// Grants credit for one more message. Returns the seq and the delivery count of what is delivered.
    fn next(&mut self, delivered: u32) -> Option<(u64, u32)> {
        let (consumer, delivery_count, credit) = (CONSUMER, delivered, 1);
        let grant = Request::Grant { consumer, delivery_count, credit, drain: false, echo: false };
        self.ask(grant).into_iter().find_map(|effect| match effect {
            Effect::Delivery(delivery) => Some((delivery.seq, delivery.delivery_count)),
            _ => None,
        })
    }

    /// Returns the marks of the only message, if it has any.
    fn marks(&self) -> Option<Marks> {
        let mut marks = None;
        self.fifo.live_facts(0, u64::MAX, |fact| {
            if let Fact::Returned { marks: found, .. } = fact {
                marks = Some(found);
            }
        });
        marks
    }

    fn settle(&mut self, number: u64, outcome: Outcome) -> Vec<Effect> {
        let (first, last) = (number, number);
        self.ask(Request::Settle { consumer: CONSUMER, first, last, outcome, answer: false })
    }
}

fn failed() -> Outcome {
    Outcome::Modified { failed: true, undeliverable_here: false, annotations: None }
}

#[test]
fn a_message_that_fails_more_often_than_the_limit_is_dropped() {
    let mut queue = Queue::limited(Some(2), false);
    for delivery in 0..3 {
        assert_eq!(queue.next(delivery), Some((1, delivery)));
        queue.settle(u64::from(delivery) + 1, failed());
    }
    assert_eq!(queue.next(3), None);
    let report = queue.fifo.report();
    assert_eq!((report.ready, report.dropped), (0, 1));
}

#[test]
fn a_message_that_fails_too_often_is_dead_lettered_with_this_reason() {
    let mut queue = Queue::limited(Some(0), true);
    assert_eq!(queue.next(0), Some((1, 0)));
    let reasons: Vec<_> = queue
        .settle(1, failed())
        .into_iter()
        .filter_map(|effect| if let Effect::DeadLetter { reason, .. } = effect { Some(reason) } else { None })
        .collect();
    assert_eq!(reasons, [message::DeathReason::DeliveryLimit]);
}

#[test]
fn the_default_limit_is_twenty_and_a_negative_one_is_none() {
    let limit = |delivery_limit| QuorumConfig { delivery_limit }.delivery_limit();
    assert_eq!((limit(None), limit(Some(-1)), limit(Some(3))), (Some(20), None, Some(3)));
    let mut queue = Queue::limited(Some(-1), false);
    for delivery in 0..50 {
        assert_eq!(queue.next(delivery), Some((1, delivery)));
        queue.settle(u64::from(delivery) + 1, failed());
    }
}

#[test]
fn a_released_message_has_not_failed() {
    let mut queue = Queue::limited(Some(0), false);
    for delivery in 0..5 {
        assert_eq!(queue.next(delivery), Some((1, 0)));
        queue.settle(u64::from(delivery) + 1, Outcome::Released);
    }
}

#[test]
fn a_new_limit_applies_to_the_next_failure() {
    let mut queue = Queue::limited(Some(-1), false);
    for delivery in 0..4 {
        assert_eq!(queue.next(delivery), Some((1, delivery)));
        queue.settle(u64::from(delivery) + 1, failed());
    }
    let quorum = Some(QuorumConfig { delivery_limit: Some(4) });
    queue.ask(Request::Configure(Box::new(Config { quorum, ..config() })));
    assert_eq!(queue.next(4), Some((1, 4)));
    queue.settle(5, failed());
    assert_eq!(queue.fifo.report().dropped, 1);
}

#[test]
fn priorities_are_strict_and_the_default_is_four() {
    let max_priority = Some(QuorumConfig::MAX_PRIORITY);
    let mut queue = Queue::new(Config { quorum: Some(QuorumConfig::default()), max_priority, ..config() });
    for (seq, priority) in
        [(1, Some(3)), (2, None), (3, Some(4)), (4, Some(31)), (5, Some(5)), (6, Some(200))]
    {
        queue.publish(seq, priority);
    }
    let order: Vec<_> = (0..6).filter_map(|delivered| queue.next(delivered)).map(|(seq, _)| seq).collect();
    assert_eq!(order, [4, 6, 5, 2, 3, 1]);
}

#[test]
fn every_requeue_is_an_acquisition_and_only_some_are_failures() {
    let mut queue = Queue::limited(Some(-1), false);
    let steps =
        [(Outcome::Released, (1, 0)), (failed(), (2, 1)), (Outcome::Released, (3, 1)), (failed(), (4, 2))];
    for ((outcome, counts), delivery) in steps.into_iter().zip(0..) {
        assert!(queue.next(delivery).is_some());
        queue.settle(u64::from(delivery) + 1, outcome);
        let marks = queue.marks().expect("it was requeued");
        assert_eq!(
            (marks.acquired_count, marks.delivery_count, marks.redelivered),
            (counts.0, counts.1, true)
        );
    }
    assert!(queue.next(4).is_some());
    queue.settle(5, Outcome::Accepted);
    assert_eq!(queue.fifo.journal.acquired.len(), 0, "nothing is left of a message that is gone");
}
