//! Tests turns that can be rolled back: staged messages and parked messages.

use super::transcript::{Page, config, dead_letters, with};
use crate::{Arrival, DelayedRetry, Outcome, Overflow, QuorumConfig, RetryKind};

/// Returns a queue with these committed messages and one consumer that holds all of them.
fn held(words: &str) -> Page {
    let mut q = Page::late(config());
    q.publish(words);
    q.attach(1);
    q.grant(1, 0, 9);
    let turn = q.close();
    q.commit(turn);
    q.grant(1, words.split_whitespace().count() as u32, 0);
    q.close();
    q
}

#[test]
fn a_publish_is_delivered_when_its_turn_is_committed() {
    let mut q = Page::late(config());
    q.attach(1);
    q.grant(1, 0, 9);
    // A fact is needed whatever the header says.
    q.publish("a b!").is("1 ok!; 2 ok! | put 1 a; put 2 b");
    assert_eq!((q.fifo.report().staged, q.fifo.report().ready), (2, 0));
    assert_eq!(q.close(), 1);
    q.publish("c").is("3 ok! | put 3 c");
    assert_eq!(q.close(), 2);
    q.commit(1).is("1#1 a; 1#2 b");
    assert_eq!(q.close(), 2, "deliveries are not rolled back");
    q.commit(2).is("1#3 c");
    assert_eq!((q.fifo.report().staged, q.fifo.report().unsettled), (0, 3));
}

#[test]
fn staged_messages_are_rolled_back_with_their_turn() {
    let mut q = Page::late(config());
    q.publish("a");
    q.close();
    q.publish("b c");
    q.close();
    q.roll_back(1).is("");
    assert_eq!((q.fifo.report().staged, q.fifo.report().published, q.fifo.next_seq()), (1, 1, 2));
    q.publish("d").is("4 ok! | put 2 d");
    assert_eq!(q.close(), 3, "numbers of turns are not reused");
    q.attach(1);
    q.grant(1, 0, 9);
    q.commit(3).is("1#1 a; 1#2 d");
}

#[test]
fn settled_messages_are_parked_until_their_turn_is_committed() {
    let mut q = held("a b c");
    q.accept(1, 1, 2).is("| gone 1..=2");
    assert_eq!((q.fifo.report().unsettled, q.fifo.report().acknowledged), (1, 2));
    q.close();
    q.roll_back(1).is("");
    assert_eq!((q.fifo.report().unsettled, q.fifo.report().acknowledged), (3, 0));
    q.accept(1, 2, 2).is("| gone 2");
    let turn = q.close();
    q.accept(1, 1, 9).is("| gone 1; gone 3");
    q.close();
    q.commit(turn).is("");
    q.roll_back(turn).is("");
    q.accept(1, 1, 9).is("| gone 1; gone 3");
}

#[test]
fn rolled_back_messages_have_their_earlier_marks() {
    let mut q = held("a b");
    q.settle(1, 2, 2, Outcome::Modified { failed: true, undeliverable_here: false, annotations: None })
        .is("| returned 2 count 1 again");
    q.close();
    q.roll_back(1).is("");
    assert_eq!((q.fifo.report().ready, q.fifo.report().unsettled), (0, 2));
    q.release(1, 1, 2).is("| returned 1 count 0 again; returned 2 count 0 again");
    q.grant(1, 2, 9).is("1#3 a again; 1#4 b again");
}

#[test]
fn a_message_delivered_meanwhile_stays_with_its_consumer() {
    let mut q = held("a");
    q.release(1, 1, 1);
    q.attach(3);
    q.grant(3, 0, 1).is("3#1 a again");
    q.close();
    q.roll_back(1).is("");
    q.accept(1, 1, 1).is("");
    // Its marks are those from before the rollback.
    q.release(3, 1, 1).is("| returned 1 count 0 again");
}

#[test]
fn a_message_of_a_detached_consumer_is_ready_again() {
    let mut q = held("a b");
    q.accept(1, 1, 1).is("| gone 1");
    q.detach(1, true).is("gone 1 Detached | returned 2 count 1 again");
    q.close();
    q.roll_back(1).is("");
    q.attach(3);
    q.grant(3, 0, 9).is("3#1 a; 3#2 b");
}

#[test]
fn limits_count_staged_messages() {
    let mut q = Page::late(with(|config| {
        config.max_length = Some(2);
        config.overflow = Overflow::RejectPublish;
    }));
    q.publish("a b c").is("1 ok!; 2 ok!; 3 full | put 1 a; put 2 b");
    q.close();
    q.roll_back(0).is("");
    q.publish("d").is("4 ok! | put 1 d");
}

#[test]
fn a_dropped_head_comes_back_after_a_rollback() {
    let mut q = Page::late(with(|config| config.max_length = Some(1)));
    q.publish("a");
    q.close();
    q.commit(1).is("");
    q.publish("b").is("2 ok! | put 2 b; gone 1");
    q.close();
    q.roll_back(1).is("");
    assert_eq!((q.fifo.report().ready, q.fifo.report().dropped), (1, 0));
    // A staged message is confirmed, but dropped when it would become ready.
    q.publish("c d").is("3 ok!; 4 ok! | put 2 c; gone 1; put 3 d");
    let turn = q.close();
    q.commit(turn).is("| gone 2");
    q.attach(1);
    q.grant(1, 0, 9).is("1#1 d");
}

#[test]
fn purged_and_expired_messages_come_back_after_a_rollback() {
    let mut q = Page::late(config());
    q.publish("a~50 b c~50");
    q.close();
    q.commit(1).is("");
    q.timeout(1050).is("| gone 1");
    q.purge().is("done 2 | gone 2..=3");
    q.close();
    q.now_ms = 1000;
    q.roll_back(1).is("");
    q.attach(1);
    q.grant(1, 0, 9).is("1#1 a; 1#2 b; 1#3 c");
}

#[test]
fn a_message_that_was_staged_too_long_expires() {
    let mut q = Page::late(config());
    q.attach(1);
    q.grant(1, 0, 9);
    q.publish("a~10 b");
    q.close();
    q.now_ms = 1010;
    q.commit(1).is("1#1 b | gone 1");
}

#[test]
fn a_rolled_back_dead_letter_is_sent_again() {
    let mut q = Page::late(with(|config| config.dead_letter = dead_letters(false)));
    q.publish("a b");
    q.attach(1);
    q.grant(1, 0, 2);
    q.close();
    q.commit(1).is("1#1 a; 1#2 b");
    q.reject(1, 1, 1).is("dead 1 a rejected to dlx/dead | returned 1 count 1 again");
    q.close();
    q.roll_back(1).is("");
    q.reject(1, 1, 1).is("dead 2 a rejected to dlx/dead | returned 1 count 1 again");
    q.commit(3).is("");
    let turn = q.close();
    q.commit(turn).is("");
    q.dead_lettered(2, Arrival::Taken).is("| gone 1");
    q.close();
    q.roll_back(turn).is("dead 3 a rejected to dlx/dead");
    assert_eq!((q.fifo.report().leaving, q.fifo.report().dead_lettered), (1, 0));
}

#[test]
fn a_presettled_delivery_is_repeated_after_a_rollback() {
    let mut q = Page::late(config());
    q.attach_with(1, |attach| attach.settled = true);
    q.grant(1, 0, 1);
    q.publish("a");
    q.close();
    q.commit(1).is("1#1 a | gone 1");
    q.close();
    q.roll_back(1).is("");
    q.grant(1, 1, 1).is("1#2 a | gone 1");
}

#[test]
fn a_deleted_queue_forgets_its_turns() {
    let mut q = Page::late(config());
    q.publish("a");
    q.delete(false, true).is("refused NotEmpty");
    q.delete(false, false).is("done 0 | ended Requested");
    let turn = q.close();
    q.commit(turn).is("deleted Requested");
    q.roll_back(0).is("");
    q.commit(turn).is("");
    assert_eq!(q.fifo.report().staged, 0);
}

#[test]
fn live_facts_contain_only_committed_changes() {
    let mut q = held("a b c");
    q.accept(1, 1, 1);
    q.release(1, 2, 2);
    q.publish("d");
    q.close();
    let mut facts = Vec::new();
    q.fifo.live_facts(0, u64::MAX, |fact| facts.push(fact));
    let mut restored = crate::Fifo::restore(config(), facts.into_iter().collect(), q.now_ms);
    assert_eq!(restored.report().ready, 3);
    let mut page = Page::new(config());
    std::mem::swap(&mut page.fifo, &mut restored);
    page.attach(1);
    page.grant(1, 0, 9).is("1#1 a; 1#2 b; 1#3 c");
}

/// What was due while the queue could not decide is done in the same order as always: delays end first.
#[test]
fn a_message_whose_delay_is_over_comes_first_after_a_rollback() {
    let retry = DelayedRetry { kind: RetryKind::All, min_ms: Some(10), max_ms: None };
    let mut q = Page::late(with(|c| c.quorum = Some(QuorumConfig { retry, ..Default::default() })));
    q.publish("a b");
    q.attach(1);
    q.grant(1, 0, 1);
    let turn = q.close();
    q.commit(turn).is("1#1 a");
    q.release(1, 1, 1);
    let turn = q.close();
    q.commit(turn);
    q.purge();
    q.grant(1, 1, 1).is("");
    q.delete(false, false);
    q.close();
    q.timeout(1010).is("");
    q.roll_back(turn).is("1#2 a again");
}

#[test]
fn a_commit_expires_nothing_while_the_queue_ends() {
    let mut q = Page::late(config());
    q.publish("a~1");
    let turn = q.close();
    q.commit(turn);
    q.publish("b~1");
    let turn = q.close();
    q.delete(false, false).is("done 1 | ended Requested");
    let end = q.close();
    q.timeout(1001).is("");
    // A fact about the messages would come after the one that the queue ends.
    q.commit(turn).is("");
    assert_eq!(q.close(), end);
    q.roll_back(turn).is("| gone 1..=2");
}
