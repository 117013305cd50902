//! Tests consumers that accept only messages whose heads have at most a size.

use std::sync::Arc;

use message::{DeliveryMax, Message, Parts, Route};

use super::transcript::{Page, config, message, with};
use crate::{Attach, Outcome, QuorumConfig};

/// The limit of the consumers of these tests.
const HEAD_MAX: u64 = 100;

/// Returns a message with this body, and with an annotation of this many bytes, which counts in its head.
fn annotated(body: &str, bytes: u8) -> Message {
    let value = vec![b'x'; usize::from(bytes)];
    // A symbol and a string in a small map.
    let pairs = [&b"\xa3\x03x-a\xa1"[..], &[bytes], &value].concat();
    let section = [&[0x00, 0x53, 0x72, 0xc1, pairs.len() as u8 + 1, 2], &pairs[..]].concat();
    let at = section.len() as u32;
    let parts = Parts {
        wire: [&section, body.as_bytes()].concat().into(),
        bare_at: at,
        application_properties_at: at,
        body_at: at,
        durable: true,
        ..Parts::default()
    };
    Message::new(parts, Arc::new(Route::simple("", "q")))
}

fn long() -> Message {
    annotated("long", 100)
}

fn short() -> Message {
    annotated("short", 0)
}

fn small(attach: &mut Attach) {
    attach.message_bytes_max = Some(DeliveryMax::Head(HEAD_MAX));
}

#[test]
fn the_messages_of_these_tests_are_on_both_sides_of_the_limit() {
    assert!(short().head_bytes() < HEAD_MAX && long().head_bytes() > HEAD_MAX);
}

#[test]
fn a_message_with_a_long_head_goes_to_another_consumer() {
    let mut q = Page::new(config());
    q.attach_with(1, small);
    q.attach(2);
    q.attach_with(3, |attach| attach.priority = -1);
    (1..=3).for_each(|id| _ = q.grant(id, 0, 2));
    q.publish_all([short(), long(), long(), short(), long()]);
    // It was the turn of the first consumer for one of the long messages.
    assert_eq!((q.fifo.report().ready, q.fifo.report().unsettled, q.too_large), (0, 5, 1));
}

/// A classic queue and a quorum queue.
fn queues(change: impl Fn(&mut crate::Config)) -> [Page; 2] {
    let classic = Page::new(with(&change));
    let quorum = with(|config| {
        config.quorum = Some(QuorumConfig::default());
        change(config);
    });
    [classic, Page::late(quorum)]
}

fn commit(q: &mut Page) -> String {
    let turn = q.close();
    q.commit(turn).into_text()
}

#[test]
fn it_waits_in_its_place_and_moves_when_a_consumer_comes_that_accepts_it() {
    for mut q in queues(|_| ()) {
        q.attach_with(1, small);
        q.grant(1, 0, 9);
        q.publish_all([long(), short()]);
        commit(&mut q);
        for _ in 0..3 {
            q.publish_all([short()]);
            commit(&mut q);
            let expected = format!("credit 1 at 0+9 of {}", q.fifo.report().ready);
            q.echo(1, 0, 9).is(&expected);
        }
        let report = q.fifo.report();
        assert_eq!((report.ready, report.unsettled, q.too_large), (5, 0, 1), "it counts once");
        assert_eq!(report.next_head_bytes, Some(long().head_bytes()));
        q.attach(2);
        let moved = q.grant(2, 0, 1).into_text();
        assert!(moved.starts_with("2#1 long; 1#1 short; 1#2 short"), "{moved}");
        assert!(!moved.contains("again"), "it is delivered for the first time: {moved}");
        assert_eq!(q.fifo.report().next_head_bytes, None);
        // It was not delivered to the first consumer, so it does not count as failed there.
        q.settle(2, 1, 1, Outcome::Released);
        let again = q.grant(2, 1, 1).into_text();
        assert!(again.contains("2#2 long again") && !again.contains("count"), "{again}");
        commit(&mut q);
        assert_eq!(q.too_large, 1);
    }
}

#[test]
fn an_exclusive_consumer_and_the_single_active_one_wait_with_it() {
    for mut q in queues(|config| config.single_active_consumer = true) {
        q.attach_with(1, small);
        q.attach(2);
        (1..=2).for_each(|id| _ = q.grant(id, 0, 9));
        q.publish_all([long(), short()]);
        commit(&mut q);
        assert_eq!((q.fifo.report().ready, q.too_large), (2, 1));
        let left = q.detach(1, false).into_text();
        assert!(left.contains("2#1 long; 2#2 short"), "{left}");
    }
    for mut q in queues(|_| ()) {
        q.attach_with(1, |attach| {
            small(attach);
            attach.exclusive = true;
        });
        q.grant(1, 0, 9);
        q.publish_all([long(), short()]);
        commit(&mut q);
        q.attach(2).is("refused ExclusiveConsumer");
        assert_eq!(q.fifo.report().ready, 2);
    }
}

#[test]
fn what_leaves_the_queue_in_another_way_frees_it() {
    let ways: [fn(&mut Page); 3] = [
        |q| {
            q.fetch(7, 1, true);
        },
        |q| {
            q.timeout(q.now_ms + 50);
        },
        |q| {
            q.purge();
            q.publish_all([short()]);
        },
    ];
    for way in ways {
        for mut q in queues(|_| ()) {
            q.attach_with(1, small);
            q.grant(1, 0, 9);
            let expires = Parts { ttl_ms: Some(50), ..long().parts() };
            q.publish_all([Message::new(expires, long().route().clone()), short()]);
            commit(&mut q);
            assert_eq!(q.fifo.report().unsettled, 0);
            way(&mut q);
            commit(&mut q);
            let report = q.fifo.report();
            assert_eq!((report.ready, report.delivered - report.fetched), (0, 1));
        }
    }
}

#[test]
fn a_priority_does_not_help_a_message_past_it() {
    let mut q = Page::new(with(|config| config.max_priority = Some(5)));
    q.attach_with(1, small);
    q.grant(1, 0, 1);
    let urgent = Parts { priority: Some(5), ..long().parts() };
    q.publish_all([Message::new(urgent, long().route().clone())]);
    q.publish("a").is("2 ok");
    let urgent = Parts { priority: Some(5), ..message("b").parts() };
    q.publish_all([Message::new(urgent, long().route().clone())]).is("3 ok");
    assert_eq!(q.fifo.report().ready, 3);
}
