//! Messages that are settled before they are written are never written to the log (docs/decisions/0022).

use amqp10::{DeliveryState, Role, Value};
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::ids::QueueId;
use catalog::{Arguments, Command};

use super::house::House;
use crate::asks::Asks;

const LARGE: usize = 20 * 1024;

/// The number of unconfirmed messages from which on a publisher is assumed to pipeline.
const PIPELINED: usize = 22;

/// A queue with a publisher and a consumer.
struct Pair {
    house: House,
    queue: QueueId,
    publisher: usize,
    out: u32,
    consumer: usize,
    /// The number of the consumer's link.
    link: Option<u32>,
    /// The number of deliveries that were settled during the setup.
    settled: u32,
    /// The number of those deliveries that were never written.
    unwritten: u64,
}

impl Pair {
    /// Makes a queue, with or without a consumer that grants credit for everything. The publisher pipelines
    /// if `pipelines` is set; otherwise it waits for each receipt. The log does not write what it is given.
    fn new(arguments: &[(&str, Value)], consumed: bool, pipelines: bool) -> Self {
        let mut house = House::new(1, Settings::default());
        let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let queue = house.declare("q", arguments.collect::<Arguments>());
        let (publisher, consumer) = (house.connect(0), house.connect(0));
        let out = house.sender(publisher, "/queues/q");
        let link = consumed.then(|| house.receiver(consumer, "/queues/q"));
        let mut pair = Self { house, queue, publisher, out, consumer, link, settled: 0, unwritten: 0 };
        pair.grant(100);
        if pipelines {
            pair.house.log_stopped = true;
            pair.publish(&[1; PIPELINED]);
            pair.house.log_stopped = false;
            pair.house.settle();
            if consumed {
                pair.settle(0, PIPELINED as u32 - 1, &DeliveryState::Accepted);
                pair.settled = PIPELINED as u32;
            }
            pair.later(20);
            assert_eq!(pair.accepted(), PIPELINED);
            pair.house.peers[pair.publisher].outcomes.clear();
            pair.unwritten = pair.never_written();
        }
        pair.house.log_stopped = true;
        pair
    }

    fn pipelining() -> Self {
        Self::new(&[], true, true)
    }

    /// Grants this much credit to the queue's consumer, if there is one.
    fn grant(&mut self, credit: u32) {
        if let Some(link) = self.link {
            self.house.grant(self.consumer, link, credit);
        }
    }

    fn publish(&mut self, sizes: &[usize]) {
        sizes.iter().for_each(|&size| self.house.send(self.publisher, self.out, &vec![b'x'; size]));
    }

    /// Settles deliveries, by their numbers from 0 on.
    fn settle(&mut self, first: u32, last: u32, state: &DeliveryState) {
        let conn = &mut self.house.peers[self.consumer].conn;
        let of = (self.settled + first, self.settled + last);
        conn.disposition(0, Role::Receiver, of, true, state);
        self.house.settle();
    }

    fn accepted(&self) -> usize {
        let outcomes = &self.house.peers[self.publisher].outcomes;
        assert!(outcomes.iter().all(|outcome| outcome == "Accepted"), "{outcomes:?}");
        outcomes.len()
    }

    /// Returns the number of messages that were settled before they were written.
    fn never_written(&self) -> u64 {
        self.house.shards[0].counters.never_written - self.unwritten
    }

    /// Sends `n` messages from another client, which waits for each receipt.
    fn publish_one_by_one(&mut self, n: usize) {
        let other = self.house.connect(0);
        let out = self.house.sender(other, "/queues/q");
        (0..n).for_each(|_| self.house.send(other, out, b"x"));
    }

    /// Returns the bytes that the log was given since the last call.
    fn given(&mut self) -> usize {
        self.house.take_handovers().iter().map(|handover| handover.records.bytes()).sum()
    }

    /// Reports to the shard whether the log uses its reserve.
    fn short(&mut self, short: bool) {
        let mail = Mail::LogFull { bytes: 0, oldest: 1, newest: 1, on_reserve: short };
        self.house.shards[0].handle_mail(vec![mail]);
        self.house.settle();
    }

    fn later(&mut self, ms: u64) {
        self.house.now_ms += ms;
        self.house.settle();
    }
}

#[test]
fn messages_settled_in_time_are_confirmed_and_never_written() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE, 12, 12, LARGE]);
    assert_eq!((pair.accepted(), pair.given()), (0, 0));
    pair.settle(1, 2, &DeliveryState::Accepted);
    assert_eq!(pair.accepted(), 2);
    pair.settle(3, 3, &DeliveryState::Rejected(None));
    pair.settle(0, 0, &DeliveryState::Accepted);
    assert_eq!((pair.accepted(), pair.never_written()), (4, 4));
    pair.later(1000);
    assert_eq!(pair.given(), 0, "they are never written to the log");
}

#[test]
fn messages_not_settled_in_time_are_written() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE; 2]);
    pair.later(10);
    pair.publish(&[LARGE]);
    assert_eq!(pair.given(), 0);
    pair.house.log_stopped = false;
    pair.later(10);
    assert_eq!(pair.accepted(), 2, "two are old enough");
    pair.house.log_stopped = true;
    pair.settle(0, 2, &DeliveryState::Accepted);
    assert_eq!((pair.accepted(), pair.never_written()), (3, 1));
    pair.later(20);
    let gone = pair.given();
    assert!((1..100).contains(&gone), "a record that the two are settled: {gone}");
}

#[test]
fn a_slow_consumer_is_waited_for_once_a_second() {
    let mut pair = Pair::pipelining();
    pair.house.log_stopped = false;
    let mut kept = Vec::new();
    // The publisher pipelines all the time. During the first second the consumer may still count as fast.
    for _ in 0..180 {
        let before = pair.accepted();
        (0..PIPELINED).for_each(|_| pair.house.say(pair.publisher, pair.out, b"x"));
        pair.house.settle();
        kept.push(pair.accepted() < before + PIPELINED);
        pair.later(20);
        assert_eq!(pair.accepted(), before + PIPELINED);
    }
    let waits = kept[50..].iter().filter(|kept| **kept).count();
    assert!((8..16).contains(&waits), "a tenth of 2.6 seconds: {kept:?}");
}

#[test]
fn messages_are_written_at_once_unless_deferring_helps() {
    let fsync = [("x-fsync", Value::Boolean(true))];
    for (arguments, consumed, pipelines, size) in
        [(&[][..], true, false, LARGE), (&[], false, true, LARGE), (&fsync, true, true, LARGE)]
    {
        let mut pair = Pair::new(arguments, consumed, pipelines);
        pair.publish(&[size]);
        assert!(pair.given() > size, "{arguments:?}, {consumed}, {pipelines}");
    }
}

#[test]
fn nothing_is_deferred_with_a_large_backlog() {
    let mut pair = Pair::new(&[], true, true);
    pair.house.log_stopped = false;
    // The publisher sends more messages than the consumer has credit for.
    pair.publish_one_by_one(4_096 + 100);
    pair.house.log_stopped = true;
    pair.publish(&[LARGE]);
    assert!(pair.given() > LARGE);
}

/// A backlog from a short stall would never shrink if writing were not deferred for fast consumers.
#[test]
fn messages_are_deferred_while_a_backlog_shrinks_fast() {
    let mut pair = Pair::new(&[], true, true);
    pair.house.log_stopped = false;
    pair.publish_one_by_one(6_000);
    // In a tenth of a second, the consumer settles a sixth of the backlog.
    for n in 0..5 {
        pair.grant(200);
        pair.settle(200 * n, 200 * n + 199, &DeliveryState::Accepted);
        pair.later(20);
    }
    pair.house.log_stopped = true;
    pair.publish(&[LARGE]);
    assert_eq!(pair.given(), 0);
}

/// A message must be in the log before a record refers to it.
#[test]
fn a_requeued_message_is_written() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE; 3]);
    let failed = amqp10::Modified { delivery_failed: Some(true), ..Default::default() };
    pair.settle(1, 1, &DeliveryState::Modified(failed));
    assert!((3 * LARGE..3 * LARGE + 500).contains(&pair.given()), "all three, and the mark");
}

/// A written message lies between two that were never written.
#[test]
fn settling_a_written_message_between_unwritten_ones_is_recorded() {
    let mut pair = Pair::pipelining();
    pair.house.log_stopped = false;
    pair.publish(&[LARGE]);
    pair.publish_one_by_one(1);
    pair.publish(&[LARGE]);
    pair.house.log_stopped = true;
    pair.settle(0, 2, &DeliveryState::Accepted);
    pair.later(20);
    let gone = pair.given();
    assert!((1..100).contains(&gone), "{gone}");
}

/// The evacuation must write deferred messages. Otherwise a message that it writes again could be settled
/// without a record, and would return after a restart.
#[test]
fn an_evacuation_also_writes_deferred_messages() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE; 2]);
    pair.house.shards[0].handle_mail(vec![Mail::Evacuate { file: 1 }]);
    pair.house.settle();
    assert!(pair.given() > 2 * LARGE);
}

/// Deleting a queue drops its deferred messages: no client has them, and none of them was confirmed.
#[test]
fn deferred_messages_of_a_deleted_queue_are_released() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE; 3]);
    pair.house.log_stopped = false;
    let queue = pair.queue;
    let then = Box::new(|result: Result<_, _>| drop(result.expect("it is there")));
    pair.house.shards[0].propose(Command::ForgetQueue { queue }, then);
    pair.house.settle();
    assert_eq!(pair.house.peers[pair.publisher].outcomes, ["Released"; 3], "before its link goes");
    assert_eq!(pair.never_written(), 0);
    assert!(!pair.house.shards[0].has_held_receipts());
}

/// Checks that deferred messages are not written on a full disk, because the log's reserve is for records
/// that free space.
#[test]
fn deferred_messages_are_not_written_to_a_full_disk() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE; 2]);
    pair.short(true);
    pair.later(1000);
    assert_eq!(pair.given(), 0);
    pair.settle(0, 0, &DeliveryState::Accepted);
    assert_eq!(pair.accepted(), 1);
    pair.short(false);
    pair.house.settle();
    assert!(pair.given() > LARGE);
}

#[test]
fn a_stop_writes_deferred_messages() {
    let mut pair = Pair::pipelining();
    pair.publish(&[LARGE; 3]);
    assert!(pair.house.shards[0].has_held_receipts() && pair.house.shards[0].has_unlogged());
    pair.house.shards[0].shut_down("the test is over");
    while pair.house.shards[0].turn() {}
    let given = pair.house.shards[0].poll_handover().map_or(0, |handover| handover.records.bytes());
    assert!(given > 3 * LARGE);
}
