//! Tests the basic steps of a message: published, delivered, settled.

use super::transcript::{Page, config};
use crate::Outcome;

#[test]
fn a_message_goes_to_a_consumer_with_credit_and_leaves_when_accepted() {
    let mut q = Page::new(config());
    q.publish("a!").is("1 ok! | put 1 a");
    q.attach(1).is("attached 1");
    q.grant(1, 0, 2).is("1#1 a");
    q.publish("b! c!").is("2 ok!; 3 ok!; 1#2 b | put 2 b; put 3 c");
    q.accept(1, 1, 2).is("| gone 1..=2");
    let report = q.fifo.report();
    assert_eq!((report.ready, report.unsettled, report.acknowledged), (1, 0, 2));
}

#[test]
fn transient_messages_have_no_facts() {
    let mut q = Page::new(config());
    q.publish("a b! c d!").is("1 ok; 2 ok!; 3 ok; 4 ok! | put 2 b; put 4 d");
    q.attach(1).is("attached 1");
    q.grant(1, 0, 9).is("1#1 a; 1#2 b; 1#3 c; 1#4 d");
    q.release(1, 3, 4).is("1#5 c again; 1#6 d again | returned 4 count 0 again");
    q.accept(1, 1, 9).is("| gone 2; gone 4");
}

#[test]
fn settled_consumers_take_without_settling() {
    let mut q = Page::new(config());
    q.publish("a! b!").is("1 ok!; 2 ok! | put 1 a; put 2 b");
    q.attach_with(1, |attach| attach.settled = true).is("attached 1");
    q.grant(1, 0, 3).is("1#1 a; 1#2 b | gone 1..=2");
    // It is settled as it is delivered, so it needs no fact.
    q.publish("c!").is("3 ok; 1#3 c");
    let report = q.fifo.report();
    assert_eq!((report.acknowledged, report.unsettled, report.delivered), (3, 0, 3));
}

#[test]
fn outcomes_follow_the_table() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e!");
    q.attach(1);
    q.grant(1, 0, 5);
    q.settle(1, 1, 1, Outcome::Accepted).is("| gone 1");
    q.settle(1, 2, 2, Outcome::Released).is("| returned 2 count 0 again");
    q.settle(1, 3, 3, Outcome::Rejected).is("| gone 3");
    q.settle(1, 4, 4, Outcome::Modified { failed: true, undeliverable_here: false, annotations: None })
        .is("| returned 4 count 1 again");
    q.settle(1, 5, 5, Outcome::Modified { failed: true, undeliverable_here: true, annotations: None })
        .is("| gone 5");
    q.grant(1, 5, 5).is("1#6 b again; 1#7 d count 1 again");
    // Nothing changed, so there is no fact.
    q.settle(1, 6, 6, Outcome::Modified { failed: false, undeliverable_here: false, annotations: None })
        .is("1#8 b again");
    assert_eq!(q.fifo.report().dropped, 2);
}

#[test]
fn detach_requeues_in_order() {
    let mut q = Page::new(config());
    q.publish("a b c d");
    q.attach(1);
    q.attach(2);
    q.grant(1, 0, 3).is("1#1 a; 1#2 b; 1#3 c");
    q.accept(1, 2, 2).is("");
    q.detach(1, false).is("gone 1 Detached");
    q.grant(2, 0, 9).is("2#1 a again; 2#2 c again; 2#3 d");
    q.detach(2, true).is("gone 2 Detached");
    q.attach(3);
    q.grant(3, 0, 9).is("3#1 a count 1 again; 3#2 c count 1 again; 3#3 d count 1 again");
}

#[test]
fn requeued_messages_return_to_their_place() {
    let mut q = Page::new(config());
    q.publish("a b c d e");
    q.attach(1);
    q.grant(1, 0, 4);
    q.grant(1, 4, 0);
    q.release(1, 3, 3);
    q.release(1, 4, 4);
    q.release(1, 1, 1);
    q.grant(1, 4, 9).is("1#5 a again; 1#6 c again; 1#7 d again; 1#8 e");
}

#[test]
fn cancelled_consumers_may_settle_what_they_have() {
    let mut q = Page::new(config());
    q.publish("a! b! c!");
    q.attach(1);
    q.grant(1, 0, 2).is("1#1 a; 1#2 b");
    q.cancel(1).is("gone 1 Cancelled");
    q.grant(1, 2, 5).is("");
    q.accept(1, 1, 1).is("| gone 1");
    q.attach(2);
    q.grant(2, 0, 1).is("2#1 c");
    q.detach(1, false).is("gone 1 Detached | returned 2 count 0 again");
    assert_eq!(q.fifo.report().consumers, 1);
}

#[test]
fn unknown_numbers_are_ignored() {
    let mut q = Page::new(config());
    q.publish("a");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    q.accept(1, 2, u64::MAX).is("");
    q.accept(1, 0, 0).is("");
    q.accept(1, 5, 3).is("");
    q.accept(7, 0, u64::MAX).is("");
    q.accept(1, 0, u64::MAX).is("");
    assert_eq!(q.fifo.report().unsettled, 0);
    q.accept(1, 1, 1).is("");
}

#[test]
fn settling_is_answered_when_asked() {
    let mut q = Page::new(config());
    q.publish("a b");
    q.attach(1);
    q.grant(1, 0, 2);
    let settle = |consumer| crate::Request::Settle {
        consumer: crate::ConsumerId(consumer),
        first: 1,
        last: 2,
        outcome: Outcome::Accepted,
        answer: crate::SettleAnswer::Made,
    };
    q.send(settle(1)).is("settled 1 1..=2");
    q.send(settle(5)).is("settled 5 1..=2");
}

#[test]
fn one_unsettled_delivery_keeps_no_others_in_memory() {
    let mut q = Page::new(config());
    q.attach(1);
    for n in 0..10_000u32 {
        q.grant(1, n, 1);
        q.publish("a");
        if n > 0 {
            q.accept(1, u64::from(n) + 1, u64::from(n) + 1);
        }
    }
    assert!(q.fifo.consumers.iter().all(|consumer| consumer.unsettled.slots() < 200));
    assert_eq!(q.fifo.report().unsettled, 1);
    q.accept(1, 1, 1);
    assert_eq!(q.fifo.report().acknowledged, 10_000);
}

#[test]
fn fetched_messages_are_held_until_settled() {
    let mut q = Page::new(config());
    q.publish("a! b! c!");
    q.fetch(7, 2, false).is("fetched [7#1 a, 7#2 b] of 1");
    q.accept(7, 1, 1).is("| gone 1");
    q.release(7, 2, 2).is("| returned 2 count 0 again");
    q.fetch(7, 1, false).is("fetched [7#3 b again] of 1");
    q.detach(7, true).is("gone 7 Detached | returned 2 count 1 again");
    q.fetch(8, 9, true).is("fetched [8#1 b count 1 again, 8#2 c] of 0 | gone 2..=3");
    q.fetch(8, 9, false).is("fetched [] of 0");
    assert_eq!(q.fifo.consumers.iter().count(), 0);
}

#[test]
fn purge_removes_the_ready_messages() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d!");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    q.purge().is("done 3 | gone 2..=4");
    q.release(1, 1, 1).is("| returned 1 count 0 again");
    q.purge().is("done 1 | gone 1");
}

#[test]
fn delete_checks_its_conditions_and_notifies_everyone() {
    let mut q = Page::new(config());
    q.publish("a! b");
    q.delete(false, true).is("refused NotEmpty");
    q.attach(1);
    q.delete(true, false).is("refused InUse");
    q.grant(1, 0, 1).is("1#1 a");
    q.delete(false, false).is("gone 1 QueueDeleted; done 1; deleted Requested");
    q.publish("c!").is("3 released");
    q.attach(2).is("refused NotFound");
    q.detach(1, true).is("gone 1 QueueDeleted");
    q.purge().is("refused NotFound");
    q.accept(1, 1, 1).is("");
    assert_eq!(q.fifo.next_deadline(), None);
}
