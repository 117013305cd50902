//! Tests grants, and the order in which consumers are served.

use message::DeliveryMax;

use super::model::note;
use super::properties::check_deliveries;
use super::transcript::{Page, config, with};
use crate::{Mode, Outcome};

#[test]
fn a_grant_is_absolute() {
    let mut q = Page::new(config());
    q.publish("a b c d e f");
    q.attach(1);
    q.grant(1, 0, 2).is("1#1 a; 1#2 b");
    // Sent before the two deliveries arrived, so they count against it.
    q.grant(1, 0, 3).is("1#3 c");
    q.grant(1, 1, 2).is("");
    q.echo(1, 3, 1).is("1#4 d; credit 1 at 4+0 of 2");
}

#[test]
fn settling_grants_no_credit() {
    let mut q = Page::new(config());
    q.publish("a b");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    q.accept(1, 1, 1).is("");
}

#[test]
fn credit_can_be_taken_back() {
    let mut q = Page::new(config());
    q.attach(1);
    q.grant(1, 0, 5);
    q.publish("a").is("1 ok; 1#1 a");
    q.echo(1, 1, 0).is("credit 1 at 1+0 of 0");
    q.publish("b").is("2 ok");
    q.grant(1, 1, 1).is("1#2 b");
}

#[test]
fn the_delivery_count_wraps() {
    let mut q = Page::new(config());
    q.attach_with(1, |attach| attach.delivery_count = u32::MAX - 1);
    q.publish("a b c d e f");
    q.grant(1, u32::MAX - 1, 4).is("1#1 a; 1#2 b; 1#3 c; 1#4 d");
    q.echo(1, u32::MAX, 4).is("1#5 e; credit 1 at 3+0 of 1");
    q.drain(1, 3, 3).is("1#6 f; credit 1 at 6+0 of 0 drained");
}

#[test]
fn a_drain_uses_what_is_ready_and_then_the_rest() {
    let mut q = Page::new(config());
    q.publish("a b");
    q.attach(1);
    q.drain(1, 0, 10).is("1#1 a; 1#2 b; credit 1 at 10+0 of 0 drained");
    q.publish("c d").is("3 ok; 4 ok");
    q.drain(1, 10, 1).is("1#3 c; credit 1 at 11+0 of 1 drained");
    q.drain(1, 11, 0).is("credit 1 at 11+0 of 1 drained");
}

#[test]
fn consumers_of_one_priority_take_turns() {
    let mut q = Page::new(config());
    for id in 1..=3 {
        q.attach(id);
        q.grant(id, 0, 2);
    }
    q.publish("a b c d e f g")
        .is("1 ok; 2 ok; 3 ok; 4 ok; 5 ok; 6 ok; 7 ok; 1#1 a; 2#1 b; 3#1 c; 1#2 d; 2#2 e; 3#2 f");
    q.detach(2, false).is("gone 2 Detached");
    q.grant(3, 2, 1).is("3#3 b again");
}

#[test]
fn leaving_does_not_disturb_the_order() {
    let mut q = Page::new(config());
    for id in 1..=4 {
        q.attach(id);
        q.grant(id, 0, 9);
    }
    q.detach(2, false);
    q.publish("a").is("1 ok; 1#1 a");
    q.detach(4, false);
    q.publish("b c d").is("2 ok; 3 ok; 4 ok; 3#1 b; 1#2 c; 3#2 d");
    q.grant(1, 2, 0);
    q.publish("e").is("5 ok; 3#3 e");
    q.grant(1, 2, 1);
    q.publish("f g").is("6 ok; 7 ok; 3#4 f; 1#3 g");
}

#[test]
fn higher_priority_is_served_first_while_it_has_credit() {
    let mut q = Page::new(config());
    q.attach(1);
    q.attach_with(2, |attach| attach.priority = 10);
    q.attach_with(3, |attach| attach.priority = -10);
    q.grant(3, 0, 9);
    q.grant(1, 0, 1);
    q.grant(2, 0, 2);
    q.publish("a b c d").is("1 ok; 2 ok; 3 ok; 4 ok; 2#1 a; 2#2 b; 1#1 c; 3#1 d");
}

/// Makes a consumer that accepts every message of these tests except the long one.
fn small(attach: &mut crate::Attach) {
    let bytes = super::transcript::message("12345").delivery_bytes(0, false);
    attach.message_bytes_max = Some(DeliveryMax::Whole(bytes - 1));
}

#[test]
fn a_consumer_that_accepts_only_smaller_messages_is_skipped() {
    let mut q = Page::new(config());
    q.attach_with(1, small);
    q.attach(2);
    q.attach_with(3, |attach| attach.priority = -1);
    (1..=3).for_each(|id| _ = q.grant(id, 0, 2));
    q.publish("a 12345 b").is("1 ok; 2 ok; 3 ok; 1#1 a; 2#1 12345; 1#2 b");
    q.grant(1, 2, 9);
    q.publish("12345 67890 c").is("4 ok; 5 ok; 6 ok; 2#2 12345; 3#1 67890; 1#3 c");
}

#[test]
fn a_message_that_no_consumer_accepts_blocks_the_queue() {
    let mut q = Page::new(config());
    q.attach_with(1, small);
    q.grant(1, 0, 2);
    q.publish("12345 a").is("1 ok; 2 ok");
    q.echo(1, 0, 9).is("credit 1 at 0+9 of 2");
    assert!(q.fifo.report().next_bytes > Some(5));
    q.drain(1, 0, 1).is("credit 1 at 1+0 of 2 drained");
    q.grant(1, 1, 9).is("");
    q.attach(2);
    q.grant(2, 0, 1).is("2#1 12345; 1#1 a");
    // A requeued message takes one byte more, because its delivery count is not 0 any more.
    q.detach(2, true).is("gone 2 Detached");
    q.fetch(7, 1, true).is("fetched [7#1 12345 count 1 again] of 0");
    q.publish("b").is("3 ok; 1#2 b");
}

#[test]
fn the_size_of_a_message_is_checked_after_it_was_read() {
    let mut q = Page::new(config());
    q.publish("12345 a");
    q.page_out(2);
    q.stored();
    q.attach_with(1, small);
    q.echo(1, 0, 9).is("");
    assert_eq!((q.fifo.report().reading, q.fifo.report().next_bytes), (true, None));
    q.load().is("credit 1 at 0+9 of 2");
    q.fetch(7, 1, true).is("fetched [7#1 12345] of 1; 1#1 a");
}

#[test]
fn the_annotations_of_consumers_count_in_the_size_of_a_delivery() {
    let mut q = Page::new(config());
    q.publish("a!");
    q.attach(2);
    q.grant(2, 0, 1).is("2#1 a");
    let annotations = Some(note("x-a", 1).into());
    let outcome = Outcome::Modified { failed: false, undeliverable_here: false, annotations };
    q.attach_with(1, small);
    q.grant(1, 0, 1).is("");
    q.settle(2, 1, 1, outcome).is("| returned 1 count 0 again annotated");
    q.attach(3);
    q.grant(3, 0, 1).is("3#1 a again");
}

#[test]
fn an_expired_message_does_not_block_the_queue() {
    let mut q = Page::new(config());
    q.attach_with(1, small);
    q.grant(1, 0, 9);
    q.publish("12345~10 a").is("1 ok; 2 ok");
    q.now_ms += 10;
    // Expiry is noticed before the timer fires.
    q.attach(2).is("attached 2; 1#1 a");
    q.publish("12345~10 b").is("3 ok; 4 ok");
    q.timeout(q.now_ms + 10).is("1#2 b");
}

#[test]
fn an_expired_message_after_a_fetched_one_is_not_ready() {
    let mut q = Page::new(config());
    q.attach_with(1, small);
    q.grant(1, 0, 1);
    q.publish("12345 a b~0").is("1 ok; 2 ok; 3 ok");
    q.fetch(7, 1, true).is("fetched [7#1 12345] of 2; 1#1 a");
    assert_eq!((q.fifo.report().ready, q.fifo.next_deadline()), (0, None));
}

#[test]
fn a_message_too_large_for_the_active_consumer_waits() {
    let mut q = Page::new(with(|config| config.single_active_consumer = true));
    q.attach_with(1, small);
    q.attach(2);
    q.grant(1, 0, 9);
    q.grant(2, 0, 9);
    q.publish("12345 a").is("1 ok; 2 ok");
    q.detach(1, false).is("gone 1 Detached; active 2 of 2; 2#1 12345; 2#2 a");
}

#[test]
fn the_first_consumer_is_active_and_the_next_replaces_it() {
    let mut q = Page::new(with(|config| config.single_active_consumer = true));
    q.attach(1).is("attached 1; active 1 of 0");
    q.attach(2).is("attached 2; inactive 2 of 0");
    q.attach_with(3, |attach| attach.priority = 5).is("attached 3; inactive 3 of 0");
    q.publish("a b c d");
    q.grant(2, 0, 9).is("");
    q.echo(3, 0, 1).is("credit 3 at 0+1 of 0");
    q.drain(2, 0, 9).is("credit 2 at 9+0 of 0 drained");
    q.grant(1, 0, 2).is("1#1 a; 1#2 b");
    assert_eq!(q.fifo.report().active_consumer, Some(1));
    q.detach(1, false).is("gone 1 Detached; active 3 of 4; 3#1 a again");
    q.cancel(3).is("gone 3 Cancelled; active 2 of 3");
    q.grant(2, 9, 9).is("2#1 b again; 2#2 c; 2#3 d");
    q.accept(3, 1, 1).is("");
    q.detach(2, false).is("gone 2 Detached");
    q.attach(4).is("attached 4; active 4 of 3");
}

#[test]
fn an_inactive_consumer_may_leave() {
    let mut q = Page::new(with(|config| config.single_active_consumer = true));
    q.attach(1);
    q.attach(2);
    q.detach(2, true).is("gone 2 Detached");
    q.detach(1, true).is("gone 1 Detached");
    assert_eq!(q.fifo.report().active_consumer, None);
}

#[test]
fn a_single_active_consumer_can_be_configured() {
    let mut q = Page::new(config());
    q.attach(1);
    q.attach_with(2, |attach| attach.priority = 1);
    q.grant(1, 0, 5);
    q.grant(2, 0, 1);
    q.configure(with(|config| config.single_active_consumer = true)).is("active 2 of 0; inactive 1 of 0");
    q.publish("a b").is("1 ok; 2 ok; 2#1 a");
    q.configure(config()).is("active 1 of 1; 1#1 b");
}

#[test]
fn an_exclusive_consumer_stays_alone() {
    let mut q = Page::new(config());
    q.attach_with(1, |attach| attach.exclusive = true).is("attached 1");
    q.attach(2).is("refused ExclusiveConsumer");
    q.detach(1, false).is("gone 1 Detached");
    q.attach(2).is("attached 2");
    q.attach_with(3, |attach| attach.exclusive = true).is("refused ExclusiveConsumer");
    let mut q = Page::new(with(|config| config.single_active_consumer = true));
    q.attach_with(1, |attach| attach.exclusive = true).is("refused ExclusiveConsumer");
}

#[test]
fn unsupported_modes_are_refused() {
    let mut q = Page::new(config());
    q.attach_with(1, |attach| attach.mode = Mode::Replay(Box::default())).is("refused NotSupported");
    q.attach(1).is("attached 1");
    q.attach(1).is("refused InUse");
}

#[test]
fn higher_levels_come_first() {
    let mut q = Page::new(with(|config| config.max_priority = Some(5)));
    q.publish("a b^3 c^9 d^5 e^3 f^0");
    q.attach(1);
    q.grant(1, 0, 3).is("1#1 c; 1#2 d; 1#3 b");
    q.settle(1, 3, 3, Outcome::Released).is("");
    q.grant(1, 3, 9).is("1#4 b again; 1#5 e; 1#6 a; 1#7 f");
}

#[test]
fn all_256_levels_are_kept_apart() {
    let mut q = Page::new(with(|config| config.max_priority = Some(255)));
    q.publish("a^63 b^64 c^255 d^0 e^128 f^127");
    q.attach(1);
    q.grant(1, 0, 9).is("1#1 c; 1#2 e; 1#3 f; 1#4 b; 1#5 a; 1#6 d");
}

#[test]
fn the_number_of_levels_is_fixed_at_the_declaration() {
    let mut q = Page::new(config());
    q.publish("a^1 b^2 c^1");
    q.configure(with(|config| config.max_priority = Some(2))).is("");
    q.publish("d^2");
    q.attach(1);
    q.grant(1, 0, 9).is("1#1 a; 1#2 b; 1#3 c; 1#4 d");
}

#[test]
fn deliveries_are_counted_by_the_way_they_take() {
    let mut q = Page::new(config());
    q.publish("a b c d e f");
    q.fetch(7, 2, true).is("fetched [7#1 a, 7#2 b] of 4");
    q.fetch(7, 1, false).is("fetched [7#1 c] of 3");
    q.attach(1);
    q.grant(1, 0, 1);
    q.attach_with(2, |attach| attach.settled = true);
    q.grant(2, 0, 2);
    q.accept(1, 1, 1);
    let report = q.fifo.report();
    assert_eq!((report.delivered, report.delivered_settled), (6, 4));
    assert_eq!((report.fetched, report.fetched_settled, report.delivered_unsettled()), (3, 2, 1));
    assert_eq!((report.acknowledged, report.acknowledged_by_consumers()), (5, 1));
}

#[test]
fn a_delivery_that_was_not_sent_leaves_no_trace() {
    let mut q = Page::new(config());
    q.publish("a! b!");
    q.attach(1);
    q.grant(1, 0, 2).is("1#1 a; 1#2 b");
    // No fact is written, and the message is not redelivered later.
    q.settle(1, 2, 2, Outcome::Unsent).is("");
    q.release(1, 1, 1).is("| returned 1 count 0 again");
    q.grant(1, 2, 2).is("1#3 a again; 1#4 b");
    let counts = |q: &Page| (q.fifo.report().delivered, q.fifo.report().redelivered);
    assert_eq!(counts(&q), (3, 1), "b was sent once");
    q.settle(1, 3, 3, Outcome::Unsent).is("");
    q.release(1, 4, 4).is("| returned 2 count 0 again");
    q.grant(1, 4, 2).is("1#5 a again; 1#6 b again");
    assert_eq!(counts(&q), (4, 2));
}

#[test]
fn a_delivery_that_was_not_sent_counts_as_what_it_was() {
    let mut q = Page::new(config());
    let counts = |q: &Page| {
        let report = q.fifo.report();
        check_deliveries(&report);
        (report.delivered, report.delivered_settled, report.fetched, report.fetched_settled)
    };
    q.publish("a!");
    for n in 1..=2 {
        q.fetch(7, 1, false).is(&format!("fetched [7#{n} a] of 0"));
        q.settle(7, n, n, Outcome::Unsent).is("");
        assert_eq!(counts(&q), (1, 0, 1, 0), "the same message, twice");
    }
    // Another kind of delivery has counts of its own, so no count ever falls.
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    assert_eq!(counts(&q), (2, 0, 1, 0));
    q.settle(1, 1, 1, Outcome::Unsent).is("");
    q.fetch(8, 1, true).is("fetched [8#1 a] of 0 | gone 1");
    assert_eq!(counts(&q), (3, 1, 2, 1));
}

/// A message is counted once, although its body left memory before or after it came back unsent.
#[test]
fn a_delivery_that_was_not_sent_leaves_no_trace_on_the_disk() {
    for (late, pages_first) in [(false, true), (true, true), (false, false)] {
        let mut q = if late { Page::late(config()) } else { Page::new(config()) };
        q.publish("a! b!");
        let turn = q.close();
        q.commit(turn);
        let fetch = |q: &mut Page, holder: u64, n: u64| {
            let mut text = q.fetch(holder, 1, false).into_text();
            while !q.loads.is_empty() {
                text += &q.load().into_text();
            }
            assert_eq!(text, format!("fetched [{holder}#{n} a] of 1"), "{late} {pages_first}");
        };
        let page_out = |q: &mut Page| {
            assert!(q.page_out(2).is_some());
            q.stored();
        };
        if pages_first {
            page_out(&mut q);
        }
        fetch(&mut q, 7, 1);
        q.settle(7, 1, 1, Outcome::Unsent).is("");
        if !pages_first {
            page_out(&mut q);
        }
        fetch(&mut q, 7, 2);
        let report = q.fifo.report();
        assert_eq!((report.delivered, report.fetched), (1, 1), "{late} {pages_first}");
    }
}

/// Requeued behind the head, it keeps its own place on the disk.
#[test]
fn a_delivery_that_was_not_sent_leaves_no_trace_on_the_disk_behind_others() {
    let mut q = Page::new(config());
    q.publish("a! b! c!");
    q.attach(1);
    q.grant(1, 0, 3).is("1#1 a; 1#2 b; 1#3 c");
    q.grant(1, 3, 0);
    q.settle(1, 1, 1, Outcome::Unsent).is("");
    q.settle(1, 3, 3, Outcome::Unsent).is("");
    q.page_out(9).expect("c is requeued behind a");
    q.stored();
    q.page_out(9);
    q.stored();
    q.grant(1, 3, 2);
    while !q.loads.is_empty() {
        q.load();
    }
    let report = q.fifo.report();
    assert_eq!((report.ready, report.unsettled, report.delivered), (0, 3, 3));
}
