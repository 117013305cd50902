//! The consumer timeout, and single active consumers that give way. Only quorum queues have both.

use super::transcript::{Page, with};
use crate::*;

fn quorum(change: impl FnOnce(&mut Config)) -> Config {
    with(|config| {
        config.quorum = Some(QuorumConfig { consumer_timeout_ms: Some(800), ..Default::default() });
        change(config);
    })
}

/// Returns a queue at time 1000 whose consumers 1 and 2 have credit. Consumer 1 holds `a` and `b`.
fn page() -> Page {
    let mut q = Page::new(quorum(|_| ()));
    q.attach(1);
    q.grant(1, 0, 2);
    q.publish("a b");
    q.attach(2);
    q.grant(2, 0, 9);
    q.timeout(1000);
    q
}

fn resume(q: &mut Page, id: u64, taken_back: u64) -> String {
    q.send(Request::Resume { consumer: ConsumerId(id), taken_back }).into_text()
}

#[test]
fn deliveries_that_are_held_too_long_go_to_another_consumer() {
    let mut q = page();
    q.timeout(1799).is("");
    q.timeout(1800).is("revoked 1 1..=2; 2#1 a again; 2#2 b again");
    assert_eq!(q.fifo.report().unsettled, 2);
}

#[test]
fn what_was_settled_in_time_stays_settled() {
    let mut q = page();
    q.accept(1, 1, 1);
    q.timeout(1800).is("revoked 1 2..=2; 2#1 b again");
    // Too late: consumer 2 holds the message now.
    q.accept(1, 2, 2);
    assert_eq!(q.fifo.report().unsettled, 1);
}

#[test]
fn a_consumer_that_took_too_long_gets_nothing_until_it_resumes() {
    let mut q = page();
    q.detach(2, false);
    q.timeout(1800).is("revoked 1 1..=2");
    q.grant(1, 2, 5).is("");
    assert_eq!(resume(&mut q, 1, 1), "", "it knows of one delivery, and two were taken back");
    assert_eq!(resume(&mut q, 1, 2), "1#3 a again; 1#4 b again");
}

#[test]
fn a_timeout_is_noticed_at_most_an_eighth_of_it_later() {
    let mut q = Page::new(quorum(|_| ()));
    q.attach(1);
    q.grant(1, 0, 2);
    q.publish("a");
    q.timeout(1000);
    q.timeout(1001).is("");
    q.publish("b");
    assert_eq!(q.fifo.next_deadline(), Some(1100));
    q.timeout(1100).is("");
    q.timeout(1899).is("revoked 1 1..=1");
    q.timeout(1900).is("revoked 1 2..=2");
}

#[test]
fn the_time_of_the_consumer_comes_before_that_of_the_queue_and_this_before_the_default() {
    for (own_ms, queue_ms, after_ms) in
        [(Some(80), Some(800), 80), (None, Some(800), 800), (None, None, 8000), (Some(8000), Some(80), 8000)]
    {
        let mut q = Page::new(quorum(|config| {
            config.quorum.iter_mut().for_each(|quorum| quorum.consumer_timeout_ms = queue_ms);
        }));
        q.attach_with(1, |attach| attach.timeout = ConsumerTimeout { own_ms, default_ms: Some(8000) });
        q.grant(1, 0, 1);
        q.publish("a");
        q.timeout(1000);
        q.timeout(1000 + after_ms - 1).is("");
        q.timeout(1000 + after_ms).is("revoked 1 1..=1");
    }
}

#[test]
fn a_shorter_timeout_of_the_queue_applies_at_once() {
    let mut q = Page::new(quorum(|config| config.quorum = Some(QuorumConfig::default())));
    q.attach_with(1, |attach| attach.timeout.default_ms = Some(1_800_000));
    q.grant(1, 0, 1);
    q.publish("a");
    q.timeout(1000);
    q.configure(quorum(|_| ()));
    q.timeout(1800).is("revoked 1 1..=1");
}

#[test]
fn a_queue_without_unsettled_deliveries_checks_nothing() {
    let mut q = page();
    q.accept(1, 1, 2);
    assert_eq!(q.fifo.next_deadline(), None);
    let mut classic = Page::new(with(|_| ()));
    classic.attach_with(1, |attach| attach.timeout.own_ms = Some(10));
    classic.grant(1, 0, 1);
    classic.publish("a");
    assert_eq!(classic.fifo.next_deadline(), None);
}

#[test]
fn a_cancelled_consumer_loses_what_it_holds_too_long() {
    let mut q = page();
    q.cancel(1);
    q.timeout(1800).is("revoked 1 1..=2; 2#1 a again; 2#2 b again");
    q.detach(1, true).is("gone 1 Detached");
}

#[test]
fn the_active_consumer_gives_way_to_a_higher_priority() {
    let mut q = Page::new(quorum(|config| config.single_active_consumer = true));
    q.attach(1).is("attached 1; active 1 of 0");
    q.attach(2).is("attached 2; inactive 2 of 0");
    q.attach_with(3, |attach| attach.priority = 5).is("attached 3; inactive 1 of 0; active 3 of 0");
    q.detach(3, false).is("gone 3 Detached; active 1 of 0");
}

#[test]
fn the_active_consumer_first_settles_what_it_holds() {
    let mut q = Page::new(quorum(|config| config.single_active_consumer = true));
    q.attach(1);
    q.grant(1, 0, 2);
    q.publish("a b c");
    q.attach_with(2, |attach| attach.priority = 1).is("attached 2; inactive 2 of 0");
    q.grant(2, 0, 9).is("");
    q.grant(1, 2, 9).is("");
    assert!(q.fifo.report().yielding);
    q.accept(1, 1, 1).is("");
    q.release(1, 2, 2).is("inactive 1 of 0; active 2 of 2; 2#1 b again; 2#2 c");
    assert!(!q.fifo.report().yielding);
}

#[test]
fn the_active_consumer_changes_when_the_settlement_is_committed() {
    let mut q = Page::late(quorum(|config| config.single_active_consumer = true));
    q.attach(1);
    q.grant(1, 0, 2);
    q.publish("a");
    let published = q.close();
    q.commit(published);
    q.attach_with(2, |attach| attach.priority = 1);
    q.accept(1, 1, 1).is("| gone 1");
    assert_eq!(q.fifo.report().active_consumer, Some(1));
    // The disk has failed: consumer 1 holds the message again.
    q.roll_back(published);
    q.accept(1, 1, 1).is("| gone 1");
    let settled = q.close();
    q.commit(settled).is("inactive 1 of 0; active 2 of 0");
}

#[test]
fn an_active_consumer_that_need_not_give_way_any_more_is_served_again() {
    let mut q = Page::new(quorum(|config| config.single_active_consumer = true));
    q.attach(1);
    q.grant(1, 0, 1);
    q.publish("a b");
    q.attach_with(2, |attach| attach.priority = 1);
    q.grant(1, 1, 1).is("");
    q.detach(2, false).is("gone 2 Detached; 1#2 b");
}

#[test]
fn an_active_consumer_that_took_too_long_gives_way() {
    let mut q = Page::new(quorum(|config| config.single_active_consumer = true));
    q.attach(1);
    q.grant(1, 0, 1);
    q.publish("a");
    q.attach(2);
    q.grant(2, 0, 9);
    q.timeout(1000);
    q.timeout(1800).is("revoked 1 1..=1; inactive 1 of 0; active 2 of 1; 2#1 a again");
    // It has the same priority as the active one, so it waits.
    assert_eq!(resume(&mut q, 1, 1), "");
    assert_eq!(q.fifo.report().active_consumer, Some(2));
}
