//! What a quorum queue does and a classic queue does not.

use std::sync::Arc;

use message::{Message, Parts, Route};

use super::lending;
use super::model::note;
use super::transcript::{config, dead_letters};
use crate::fifo::{Fifo, Output};
use crate::*;

pub(super) const CONSUMER: ConsumerId = ConsumerId(1);

/// A machine without a driver: each turn is committed at once.
pub(super) struct Queue {
    pub(super) fifo: Fifo,
    pub(super) now_ms: u64,
    out: Output,
}

impl Queue {
    pub(super) fn new(config: Config) -> Self {
        let fifo = Fifo::new(config).with_policy(FactPolicy::Always);
        let mut queue = Self { fifo, now_ms: 1000, out: Output::default() };
        queue.ask(Request::Attach(Attach {
            consumer: CONSUMER,
            mode: Mode::Take,
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
            timeout: ConsumerTimeout::default(),
        }));
        queue
    }

    pub(super) fn limited(delivery_limit: Option<i64>, dead_letter: bool) -> Self {
        let quorum = Some(QuorumConfig { delivery_limit, ..Default::default() });
        let dead_letter = if dead_letter { dead_letters(false) } else { None };
        let mut queue = Self::new(Config { quorum, dead_letter, ..config() });
        queue.publish(1, None);
        queue
    }

    pub(super) fn ask(&mut self, request: Request) -> Vec<Effect> {
        self.fifo.ask(request, self.now_ms, &mut self.out);
        self.commit()
    }

    fn commit(&mut self) -> Vec<Effect> {
        let (turn, now_ms) = (self.fifo.close_turn(), self.now_ms);
        let fifo = &mut self.fifo;
        lending(&mut self.out, |out, deliver| fifo.commit_turns(turn, now_ms, out, deliver));
        self.fifo.close_turn();
        self.out.facts.clear();
        self.out.effects.drain(..).collect()
    }

    pub(super) fn pass(&mut self, ms: u64) -> Vec<Effect> {
        self.now_ms += ms;
        self.fifo.time(self.now_ms, &mut self.out);
        self.commit()
    }

    /// Returns the numbers of ready, unsettled and delayed messages.
    fn counts(&self) -> (u64, u64, u64) {
        let report = self.fifo.report();
        (report.ready, report.unsettled, report.delayed)
    }

    pub(super) fn publish(&mut self, seq: u64, priority: Option<u8>) {
        let parts = Parts { wire: b"x".to_vec().into(), priority, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("", "q")));
        self.ask(Request::Publish(Publish { publisher: PublisherId(1), seq, message, pipelines: false }));
    }

    /// Grants credit for one more message. Returns the seq and the delivery count of what is delivered.
    pub(super) fn next(&mut self, delivered: u32) -> Option<(u64, u32)> {
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

    pub(super) fn settle(&mut self, number: u64, outcome: Outcome) -> Vec<Effect> {
        let (first, last) = (number, number);
        self.ask(Request::Settle { consumer: CONSUMER, first, last, outcome, answer: SettleAnswer::Never })
    }
}

pub(super) fn failed() -> Outcome {
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
    let limit = |delivery_limit| QuorumConfig { delivery_limit, ..Default::default() }.delivery_limit();
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
    let quorum = Some(QuorumConfig { delivery_limit: Some(4), ..Default::default() });
    queue.ask(Request::Configure(Arc::new(Config { quorum, ..config() })));
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
fn a_peek_shows_what_would_be_delivered_and_changes_nothing() {
    let max_priority = Some(QuorumConfig::MAX_PRIORITY);
    let mut queue = Queue::new(Config { quorum: Some(QuorumConfig::default()), max_priority, ..config() });
    for (seq, priority) in [(1, Some(3)), (2, None), (3, None), (4, Some(9)), (5, None)] {
        queue.publish(seq, priority);
    }
    let taken: Vec<_> = (0..3).filter_map(|delivered| queue.next(delivered)).map(|(seq, _)| seq).collect();
    assert_eq!(taken, [4, 2, 3]);
    // The first two return to the queue: one to the front of its level, one behind it.
    queue.settle(3, failed());
    queue.settle(2, failed());
    queue.settle(2, failed());
    queue.settle(1, Outcome::Released);
    let peek = |position, count| queue.fifo.peek(&Peek { position, count, hint: None }, None).messages;
    let seen: Vec<_> = peek(1, 9)
        .into_iter()
        .map(|peeked| {
            let PeekedMessage { seq, delivery_count, acquired_count, redelivered, .. } = peeked;
            (seq, delivery_count, acquired_count, redelivered)
        })
        .collect();
    assert_eq!(seen, [(4, 0, 1, true), (2, 1, 1, true), (3, 1, 1, true), (5, 0, 0, false), (1, 0, 0, false)]);
    assert_eq!(peek(4, 1)[0].seq, 5);
    assert!(peek(6, 1).is_empty());
    let order: Vec<_> = (3..8).filter_map(|delivered| queue.next(delivered)).map(|(seq, _)| seq).collect();
    assert_eq!(order, seen.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>());
}

#[test]
fn a_report_says_whether_the_last_message_exceeded_the_limit() {
    let mut queue = Queue::limited(Some(0), false);
    let seen = |queue: &Queue| {
        let report = queue.fifo.report();
        (report.over_limit, report.last_was_over_limit)
    };
    assert_eq!(seen(&queue), (0, false));
    assert!(queue.next(0).is_some());
    queue.settle(1, failed());
    assert_eq!(seen(&queue), (1, true));
    queue.publish(2, None);
    assert!(queue.next(1).is_some());
    queue.settle(2, Outcome::Accepted);
    assert_eq!(seen(&queue), (1, false));
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

/// A queue that delays messages, and what its only message does.
pub(super) fn delaying(kind: RetryKind, min_ms: u64, max_ms: Option<u64>) -> Queue {
    let retry = DelayedRetry { kind, min_ms: Some(min_ms), max_ms };
    let quorum = Some(QuorumConfig { delivery_limit: Some(-1), retry, ..Default::default() });
    let mut queue = Queue::new(Config { quorum, ..config() });
    queue.publish(1, None);
    queue
}

fn at(ms: u32) -> Outcome {
    let annotations = Some(Box::new(note("x-opt-delivery-time", ms)));
    Outcome::Modified { failed: false, undeliverable_here: false, annotations }
}

#[test]
fn the_delay_grows_with_the_failures_up_to_its_maximum() {
    let delay = |kind, failed, count| {
        DelayedRetry { kind, min_ms: Some(100), max_ms: Some(250) }.delay_ms(failed, count)
    };
    use RetryKind::*;
    for (kind, of_failed, of_returned) in [
        (Disabled, None, None),
        (All, Some(100), Some(100)),
        (Failed, Some(100), None),
        (Returned, None, Some(100)),
    ] {
        assert_eq!((delay(kind, true, 1), delay(kind, false, 0)), (of_failed, of_returned), "{kind:?}");
    }
    assert_eq!([2, 3, u32::MAX].map(|count| delay(All, true, count)), [Some(200), Some(250), Some(250)]);
    let without = |min_ms, max_ms| DelayedRetry { kind: All, min_ms, max_ms }.delay_ms(true, 5);
    assert_eq!((without(Some(100), None), without(None, Some(100))), (Some(100), None));
}

#[test]
fn a_failed_message_is_neither_ready_nor_unsettled_until_it_is_due() {
    let mut queue = delaying(RetryKind::Failed, 100, Some(1000));
    for (delivery, delay) in [(0, 100), (1, 200), (2, 300)] {
        assert_eq!(queue.next(delivery), Some((1, delivery)));
        queue.settle(u64::from(delivery) + 1, failed());
        assert_eq!(queue.counts(), (0, 0, 1));
        assert_eq!(queue.marks().and_then(|marks| marks.due_ms), Some(queue.now_ms + delay));
        assert_eq!(queue.fifo.next_deadline(), Some(queue.now_ms + delay));
        queue.pass(delay - 1);
        assert_eq!(queue.counts(), (0, 0, 1));
        queue.pass(1);
        assert_eq!(queue.counts(), (1, 0, 0));
        assert_eq!(queue.fifo.next_deadline(), None);
    }
}

#[test]
fn the_time_that_a_consumer_asks_for_overrides_the_policy() {
    let mut queue = delaying(RetryKind::All, 100, None);
    assert!(queue.next(0).is_some());
    queue.settle(1, at(1500));
    assert_eq!(queue.fifo.next_deadline(), Some(1500));
    queue.pass(500);
    assert!(queue.next(1).is_some());
    queue.settle(2, at(1500));
    assert_eq!(queue.counts(), (1, 0, 0), "a time that has passed");
    assert!(queue.next(2).is_some());
    // The annotation of an earlier requeue does not count again.
    queue.settle(3, Outcome::Released);
    assert_eq!(queue.fifo.next_deadline(), Some(1600));
}

#[test]
fn due_messages_return_to_their_places() {
    let mut queue = delaying(RetryKind::Disabled, 0, None);
    (2..=4).for_each(|seq| queue.publish(seq, None));
    (0..3).for_each(|delivery| assert!(queue.next(delivery).is_some()));
    queue.settle(1, at(1200));
    queue.settle(3, at(1100));
    queue.settle(2, at(1300));
    assert_eq!(queue.counts(), (1, 0, 3));
    queue.pass(300);
    let order: Vec<_> = (3..7).filter_map(|delivered| queue.next(delivered)).map(|(seq, _)| seq).collect();
    assert_eq!(order, [1, 2, 3, 4]);
}

#[test]
fn delayed_messages_count_for_the_length_limit_and_survive_a_purge() {
    let quorum = Some(QuorumConfig::default());
    let mut queue = Queue::new(Config { quorum, max_length: Some(2), ..config() });
    (1..=2).for_each(|seq| queue.publish(seq, None));
    assert!(queue.next(0).is_some());
    queue.settle(1, at(2000));
    assert_eq!(queue.counts(), (1, 0, 1));
    queue.publish(3, None);
    assert_eq!((queue.counts(), queue.fifo.report().dropped), ((1, 0, 1), 1));
    let done = queue.ask(Request::Purge { ticket: Ticket(1) });
    assert!(matches!(done[..], [Effect::Done { messages: 1, .. }]), "{done:?}");
    let refused = queue.ask(Request::Delete { ticket: Ticket(2), if_unused: false, if_empty: true });
    assert!(matches!(refused[..], [Effect::Refused { why: Refusal::NotEmpty, .. }]), "{refused:?}");
    queue.pass(1000);
    assert_eq!(queue.next(1), Some((1, 0)));
}

#[test]
fn delays_survive_a_restart() {
    let mut queue = delaying(RetryKind::All, 100, None);
    assert!(queue.next(0).is_some());
    queue.settle(1, Outcome::Released);
    let mut facts = vec![];
    queue.fifo.live_facts(0, u64::MAX, |fact| facts.push(fact));
    let restored = Fifo::restore(config(), facts.iter().cloned().collect(), 1000);
    let mut learned = Fifo::new(config()).with_policy(FactPolicy::Always);
    facts.into_iter().for_each(|fact| learned.learn(fact, &mut Output::default()));
    for mut fifo in [restored, learned] {
        assert_eq!((fifo.report().delayed, fifo.next_deadline()), (1, Some(1100)));
        fifo.time(1100, &mut queue.out);
        assert_eq!((fifo.report().delayed, fifo.report().ready), (0, 1));
    }
}
