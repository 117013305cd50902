//! Tests expiry, length limits, and the end of the queue itself.

use std::sync::Arc;

use message::{Basic, Message, Route};

use super::transcript::{Page, config, dead_letters, with};
use crate::{Arrival, Config, Overflow, Publish, PublisherId, Request};

#[test]
fn the_lower_time_to_live_counts() {
    let mut q = Page::new(with(|config| config.message_ttl_ms = Some(100)));
    q.publish("a~50 b c~500");
    assert_eq!(q.fifo.next_deadline(), Some(1050));
    q.timeout(1049).is("");
    q.timeout(1050).is("");
    assert_eq!(q.fifo.report().expired, 1);
    assert_eq!(q.fifo.next_deadline(), Some(1100));
    q.timeout(1100).is("");
    assert_eq!((q.fifo.report().expired, q.fifo.report().dropped, q.fifo.report().ready), (3, 3, 0));
    assert_eq!(q.fifo.next_deadline(), None);
}

#[test]
fn messages_expire_from_the_head_only() {
    let mut q = Page::new(config());
    q.publish("a b~10! c~10");
    assert_eq!(q.fifo.next_deadline(), None);
    q.timeout(5000).is("");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a | gone 2");
    assert_eq!((q.fifo.report().expired, q.fifo.report().ready), (2, 0));
}

#[test]
fn an_expired_message_is_not_delivered() {
    let mut q = Page::new(config());
    q.publish("a~10! b c~10");
    q.attach(1);
    q.now_ms = 1010;
    q.grant(1, 0, 9).is("1#1 b | gone 1");
    assert_eq!(q.fifo.report().expired, 2);
}

#[test]
fn each_level_expires_from_its_head() {
    let mut q = Page::new(with(|config| config.max_priority = Some(1)));
    q.publish("a~10 b^1 c~500^1");
    assert_eq!(q.fifo.next_deadline(), Some(1010));
    q.timeout(1010).is("");
    assert_eq!((q.fifo.report().expired, q.fifo.report().ready), (1, 2));
    assert_eq!(q.fifo.next_deadline(), None);
}

#[test]
fn a_time_to_live_of_zero_is_now_or_never() {
    let mut q = Page::new(with(|config| config.message_ttl_ms = Some(0)));
    q.publish("a!").is("1 ok! | put 1 a; gone 1");
    q.attach(1);
    q.grant(1, 0, 1);
    q.publish("b! c").is("2 ok!; 3 ok; 1#1 b | put 2 b");
    q.release(1, 1, 1).is("| returned 2 count 0 again; gone 2");
    assert_eq!(q.fifo.report().expired, 3);
}

#[test]
fn age_counts_from_arrival_over_a_restart() {
    let mut q = Page::new(with(|config| config.message_ttl_ms = Some(100)));
    q.publish("a!");
    q.now_ms = 1090;
    q.restart();
    q.publish("b!").is("2 ok! | put 2 b");
    q.timeout(1100).is("| gone 1");
    assert_eq!(q.fifo.next_deadline(), Some(1190));
}

#[test]
fn a_new_time_to_live_applies_to_present_messages() {
    let mut q = Page::new(config());
    q.publish("a");
    q.now_ms = 1050;
    q.configure(with(|config| config.message_ttl_ms = Some(60))).is("");
    assert_eq!(q.fifo.next_deadline(), Some(1060));
    q.configure(with(|config| config.message_ttl_ms = Some(50))).is("");
    assert_eq!(q.fifo.report().expired, 1);
}

#[test]
fn the_head_makes_room() {
    let mut q = Page::new(with(|config| config.max_length = Some(2)));
    q.publish("a! b! c! d").is("1 ok!; 2 ok!; 3 ok!; 4 ok | put 1 a; put 2 b; put 3 c; gone 1; gone 2");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 c");
    // Unsettled messages do not count.
    q.publish("e").is("5 ok");
    q.publish("f").is("6 ok");
    assert_eq!(q.fifo.report().dropped, 3);
    q.grant(1, 1, 9).is("1#2 e; 1#3 f");
}

#[test]
fn a_length_of_zero_still_accepts() {
    let mut q = Page::new(with(|config| config.max_length = Some(0)));
    q.publish("a!").is("1 ok! | put 1 a; gone 1");
    q.attach(1);
    q.grant(1, 0, 1);
    q.publish("b!").is("2 ok!; 1#1 b | put 2 b");
}

#[test]
fn bytes_count_too() {
    let mut q = Page::new(with(|config| config.max_length_bytes = Some(5)));
    q.publish("aaa bb c");
    assert_eq!((q.fifo.report().ready, q.fifo.report().ready_bytes), (2, 3));
    q.publish("dddddd");
    assert_eq!((q.fifo.report().ready, q.fifo.report().ready_bytes), (0, 0));
}

#[test]
fn requeueing_too_much_drops_the_head() {
    let mut q = Page::new(with(|config| {
        config.max_length = Some(1);
        config.dead_letter = dead_letters(false);
    }));
    q.publish("a");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    q.publish("b");
    q.detach(1, false).is("gone 1 Detached; dead 1 a maxlen to dlx/dead");
    assert_eq!(q.fifo.report().ready, 1);
}

#[test]
fn a_full_queue_can_reject() {
    let mut q = Page::new(with(|config| {
        config.max_length = Some(1);
        config.overflow = Overflow::RejectPublish;
    }));
    q.publish("a! b!").is("1 ok!; 2 full | put 1 a");
    assert_eq!(q.fifo.next_seq(), 2);
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    q.publish("c!").is("3 ok! | put 2 c");
    // The requeued message exceeds the limit, but both stay.
    q.detach(1, false).is("gone 1 Detached | returned 1 count 0 again");
    assert_eq!(q.fifo.report().ready, 2);
}

#[test]
fn a_full_queue_can_reject_and_dead_letter() {
    let mut q = Page::new(with(|config| {
        config.max_length_bytes = Some(3);
        config.overflow = Overflow::RejectPublishDlx;
        config.dead_letter = dead_letters(false);
    }));
    q.publish("aa! bb!").is("1 ok!; 2 full; dead 1 bb maxlen to dlx/dead | put 1 aa");
    q.dead_lettered(1, Arrival::Taken).is("");
    assert_eq!((q.fifo.report().dead_lettered, q.fifo.report().published), (1, 1));
}

#[test]
fn a_lower_limit_applies_at_once() {
    let mut q = Page::new(config());
    q.publish("a! b! c!");
    q.configure(with(|config| config.max_length = Some(1))).is("| gone 1..=2");
}

#[test]
fn the_highest_level_is_the_head() {
    let mut q = Page::new(with(|config| {
        config.max_priority = Some(1);
        config.max_length = Some(1);
    }));
    q.publish("a^1! b!").is("1 ok!; 2 ok! | put 1 a; put 2 b; gone 1");
}

#[test]
fn auto_delete_waits_for_a_first_consumer() {
    let mut q = Page::new(with(|config| config.auto_delete = true));
    q.publish("a");
    q.fetch(9, 1, false).is("fetched [9#1 a] of 0");
    q.detach(9, false).is("gone 9 Detached");
    q.attach(1);
    q.attach(2);
    q.cancel(1).is("gone 1 Cancelled");
    q.fetch(9, 1, false).is("fetched [9#1 a again] of 0");
    q.detach(2, true).is("gone 2 Detached; gone 9 QueueDeleted; deleted Unused");
    let mut q = Page::new(with(|config| config.auto_delete = true));
    q.attach(1);
    q.cancel(1).is("gone 1 Cancelled; deleted Unused");
}

#[test]
fn an_unused_queue_expires() {
    let mut q = Page::new(with(|config| config.expires_ms = Some(100)));
    // A new queue asks for the time.
    assert_eq!(q.fifo.next_deadline(), Some(0));
    q.timeout(1000).is("");
    assert_eq!(q.fifo.next_deadline(), Some(1100));
    q.now_ms = 1050;
    // Publishing does not count as use.
    q.publish("a");
    assert_eq!(q.fifo.next_deadline(), Some(1100));
    q.attach(1);
    assert_eq!(q.fifo.next_deadline(), None);
    q.timeout(5000).is("");
    q.detach(1, false);
    assert_eq!(q.fifo.next_deadline(), Some(5100));
    q.now_ms = 5050;
    q.fetch(2, 0, true);
    assert_eq!(q.fifo.next_deadline(), Some(5150));
    q.timeout(5150).is("deleted Expired");
    q.publish("b").is("2 released");
}

/// Returns a request that publishes a message with this payload and a property outside of it.
fn publish_basic(seq: u64, payload: &[u8]) -> Request {
    let list = b"\x80\x00\x0atext/plain";
    let basic = Basic::borrowed(list, payload).expect("valid properties");
    let wire = [&list[..], payload].concat();
    let message = Message::new(basic.parts(wire.into()), Arc::new(Route::simple("", "q")));
    Request::Publish(Publish { publisher: PublisherId(1), seq, message, pipelines: false })
}

#[test]
fn limits_count_the_payload_and_memory_the_properties_too() {
    let limit = |config: &mut Config| {
        config.max_length_bytes = Some(4);
        config.overflow = Overflow::RejectPublish;
    };
    let mut q = Page::new(with(limit));
    q.send(publish_basic(1, b"1234")).is("1 ok");
    assert_eq!(q.fifo.report().ready_bytes, 4);
    q.send(publish_basic(2, b"5")).is("2 full");
    let before = q.fifo.pageable_bytes();
    let mut plain = Page::new(config());
    plain.publish("1234");
    assert_eq!(before - plain.fifo.pageable_bytes(), 13);
}

#[test]
fn refused_publishes_are_counted() {
    for overflow in [Overflow::RejectPublish, Overflow::RejectPublishDlx, Overflow::DropHead] {
        let mut q = Page::new(with(|config| (config.max_length, config.overflow) = (Some(1), overflow)));
        q.now_ms = 1_000_000;
        q.publish("a b");
        q.now_ms += 70_000;
        q.publish("c");
        let rejected = q.fifo.report().rejected;
        let expected = if overflow == Overflow::DropHead { (0, 0) } else { (2, 1) };
        assert_eq!((rejected.total(), rejected.within_a_minute(q.now_ms)), expected, "{overflow:?}");
    }
}

#[test]
fn messages_that_are_too_many_are_counted() {
    let mut q = Page::new(with(|config| config.max_length = Some(1)));
    q.publish("a b c");
    assert_eq!((q.fifo.report().over_length, q.fifo.report().dropped), (2, 2));

    // A quorum queue removes the first message when it has committed the second one. A rollback undoes that, and it is removed again.
    let mut q = Page::late(with(|config| config.max_length = Some(1)));
    q.publish("a b");
    let turn = q.close();
    q.commit(turn);
    assert_eq!(q.fifo.report().over_length, 1);
    q.close();
    q.roll_back(turn);
    assert_eq!((q.fifo.report().over_length, q.fifo.report().dropped), (1, 1));
}

#[test]
fn the_arrival_of_the_newest_message_is_known() {
    let mut q = Page::new(with(|config| config.max_priority = Some(1)));
    assert_eq!(q.fifo.report().tail_at_ms, None);
    for (at_ms, messages) in [(2000, "a"), (3000, "b^1"), (4000, "c")] {
        q.now_ms = at_ms;
        q.publish(messages);
        assert_eq!(q.fifo.report().tail_at_ms, Some(at_ms));
    }
    // The higher level first: b, a, c.
    q.attach(1);
    q.now_ms = 5000;
    q.grant(1, 0, 3);
    assert_eq!(q.fifo.report().tail_at_ms, None);
    q.release(1, 1, 2);
    assert_eq!(q.fifo.report().tail_at_ms, Some(3000), "a returned message keeps its time");
}
