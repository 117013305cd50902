//! Which returns a queue counts as a message that goes round.

use super::quorum::{CONSUMER, Queue, delaying, failed};
use super::transcript::{config, dead_letters};
use crate::*;

/// A queue with one message.
fn queue(quorum: Option<QuorumConfig>) -> Queue {
    let mut queue = Queue::new(Config { quorum, ..config() });
    queue.publish(1, None);
    queue
}

fn limited(delivery_limit: i64) -> Option<QuorumConfig> {
    Some(QuorumConfig { delivery_limit: Some(delivery_limit), ..Default::default() })
}

/// Lets the consumer have the only message and settle it, so many times. Returns the returns that count.
fn settled(queue: &mut Queue, delivered: u32, times: u32, outcome: &Outcome) -> u64 {
    for delivery in delivered..delivered + times {
        assert!(queue.next(delivery).is_some(), "delivery {delivery}");
        queue.settle(u64::from(delivery) + 1, outcome.clone());
    }
    counted(queue)
}

fn counted(queue: &Queue) -> u64 {
    queue.fifo.report().returned_again.within_a_minute(queue.now_ms)
}

#[test]
fn what_comes_back_again_and_again_is_counted() {
    for mut queue in [queue(None), queue(limited(20))] {
        assert_eq!(
            settled(&mut queue, 0, 1, &Outcome::Released),
            0,
            "it came back once: its consumer may stop"
        );
        assert_eq!(settled(&mut queue, 1, 49, &Outcome::Released), 49);
        queue.pass(60_000);
        assert_eq!(counted(&queue), 0, "it was long ago");
        assert_eq!(settled(&mut queue, 50, 1, &Outcome::Released), 1);
    }
}

#[test]
fn a_message_that_is_done_with_begins_the_count_anew() {
    for last in [Outcome::Accepted, Outcome::Rejected] {
        for (quorum, dead_letter) in [(None, None), (limited(20), dead_letters(false))] {
            let mut queue = Queue::new(Config { quorum, dead_letter, ..config() });
            queue.publish(1, None);
            assert_eq!(settled(&mut queue, 0, 9, &Outcome::Released), 8);
            assert_eq!(settled(&mut queue, 9, 1, &last), 0, "{last:?}");
            queue.publish(2, None);
            assert_eq!(settled(&mut queue, 10, 3, &Outcome::Released), 2, "{last:?}");
        }
    }
}

#[test]
fn what_a_limit_or_a_delay_bounds_does_not_count() {
    assert_eq!(settled(&mut queue(limited(9)), 0, 10, &failed()), 0, "the limit ends it");
    assert_eq!(settled(&mut queue(limited(-1)), 0, 10, &failed()), 9, "there is no limit");
    assert_eq!(settled(&mut queue(None), 0, 10, &failed()), 9, "a classic queue has none");
    let mut queue = delaying(RetryKind::All, 1_000, None);
    for delivery in 0..5 {
        assert_eq!(settled(&mut queue, delivery, 1, &Outcome::Released), 0, "each is delayed");
        queue.pass(10_000);
    }
}

/// Somebody may look at the messages of a queue with `basic.get` and return them, and a consumer that has been cancelled may return
/// what it holds.
#[test]
fn only_what_consumers_return_counts() {
    let mut queue = queue(None);
    settled(&mut queue, 0, 3, &Outcome::Released);
    assert!(queue.next(3).is_some());
    queue.ask(Request::Cancel { consumer: CONSUMER });
    queue.settle(4, Outcome::Released);
    assert_eq!(counted(&queue), 2);
    assert_eq!(queue.fifo.report().ready, 1);
}

/// A limit that removes the head ends a loop, also if the message is dead-lettered. A publish that is refused removes nothing.
#[test]
fn only_what_leaves_the_queue_ends_a_loop() {
    let limits = [(Overflow::DropHead, 0), (Overflow::RejectPublish, 8), (Overflow::RejectPublishDlx, 8)];
    for (overflow, left) in limits {
        for dead_letter in [None, dead_letters(false)] {
            let mut queue = Queue::new(Config { max_length: Some(1), overflow, dead_letter, ..config() });
            queue.publish(1, None);
            assert_eq!(settled(&mut queue, 0, 9, &Outcome::Released), 8);
            queue.publish(2, None);
            assert_eq!(counted(&queue), left, "{overflow:?}");
        }
    }
}
