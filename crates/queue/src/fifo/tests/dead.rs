//! Tests dead letters: they are sent, and kept until they have arrived.

use message::{Annotations, DeathReason};

use super::model::{Notes, note, notes};
use super::transcript::{Page, config, dead_letters, with};
use crate::Arrival::{Refused, Taken, Unavailable};
use crate::fifo::{DEAD_LETTER_RETRY_MS, LEAVING_MAX, Output};
use crate::{ConsumerId, Effect, Outcome, Overflow, Request, SettleAnswer};

fn dlx(at_least_once: bool) -> Page {
    Page::new(with(|config| config.dead_letter = dead_letters(at_least_once)))
}

#[test]
fn a_rejected_message_stays_until_its_dead_letter_has_arrived() {
    let mut q = dlx(false);
    q.publish("a! b!");
    q.attach(1);
    q.grant(1, 0, 2);
    q.reject(1, 1, 2).is("dead 1 a rejected to dlx/dead; dead 2 b rejected to dlx/dead \
         | returned 1 count 1 again; returned 2 count 1 again");
    assert_eq!(q.fifo.report().leaving, 2);
    q.dead_lettered(2, Taken).is("| gone 2");
    q.dead_lettered(2, Taken).is("");
    q.restart();
    q.attach(2);
    q.grant(2, 0, 2).is("2#1 a count 1 again");
}

#[test]
fn undeliverable_here_rejects_and_counts_only_failures() {
    let mut q = dlx(false);
    q.publish("a! b!");
    q.attach(1);
    q.grant(1, 0, 2);
    q.settle(1, 1, 1, Outcome::Modified { failed: false, undeliverable_here: true, annotations: None })
        .is("dead 1 a rejected to dlx/dead | returned 1 count 0 again");
    q.settle(1, 2, 2, Outcome::Modified { failed: true, undeliverable_here: true, annotations: None })
        .is("dead 2 b rejected to dlx/dead | returned 2 count 1 again");
}

#[test]
fn at_most_once_drops_refused_dead_letters() {
    let mut q = dlx(false);
    q.publish("a~0!").is("1 ok!; dead 1 a expired to dlx/dead | put 1 a");
    q.dead_lettered(1, Refused).is("| gone 1");
    assert_eq!((q.fifo.report().dropped, q.fifo.report().dead_lettered), (1, 0));
}

#[test]
fn an_unavailable_target_is_tried_again() {
    for at_least_once in [false, true] {
        let mut q = dlx(at_least_once);
        q.publish("a~0!").is("1 ok!; dead 1 a expired to dlx/dead | put 1 a");
        q.dead_lettered(1, Unavailable).is("");
        assert_eq!(q.fifo.report().leaving, 1);
        q.timeout(1000 + DEAD_LETTER_RETRY_MS).is("dead 2 a expired to dlx/dead");
        q.dead_lettered(2, Taken).is("| gone 1");
        assert_eq!((q.fifo.report().dropped, q.fifo.report().dead_lettered), (0, 1));
    }
}

#[test]
fn at_least_once_retries() {
    let mut q = dlx(true);
    q.publish("a~0!").is("1 ok!; dead 1 a expired to dlx/dead | put 1 a");
    q.dead_lettered(1, Refused).is("");
    assert_eq!(q.fifo.next_deadline(), Some(1000 + DEAD_LETTER_RETRY_MS));
    q.timeout(999 + DEAD_LETTER_RETRY_MS).is("");
    q.timeout(1000 + DEAD_LETTER_RETRY_MS).is("dead 2 a expired to dlx/dead");
    // A late answer to the first attempt does not count for the second.
    q.dead_lettered(1, Taken).is("");
    assert_eq!(q.fifo.next_deadline(), None);
    q.dead_lettered(2, Taken).is("| gone 1");
    assert_eq!((q.fifo.report().leaving, q.fifo.report().dead_lettered), (0, 1));
}

#[test]
fn at_least_once_sends_again_only_to_the_targets_that_have_not_taken_it() {
    let mut q = dlx(true);
    q.publish("a~0!").is("1 ok!; dead 1 a expired to dlx/dead | put 1 a");
    let taken_by = |out: &Output| match &out.effects[..] {
        [Effect::DeadLetter { taken_by, again: true, .. }] => taken_by.clone(),
        other => panic!("{other:?}"),
    };
    for (token, target) in [(1, 7), (2, 9)] {
        q.send(Request::DeadLettered { token, arrival: Refused, taken_by: vec![target] }).is("");
        let mut out = Output::default();
        q.now_ms += DEAD_LETTER_RETRY_MS;
        q.fifo.time(q.now_ms, &mut out);
        assert_eq!(taken_by(&out), [7, 9][..token as usize]);
    }
}

#[test]
fn dead_letters_that_are_kept_count_for_the_length_limit_and_are_purged() {
    let mut q = Page::new(with(|config| {
        config.dead_letter = dead_letters(true);
        (config.max_length, config.overflow) = (Some(2), Overflow::RejectPublish);
    }));
    q.publish("a~0! b! c!").is("1 ok!; 2 ok!; 3 full; dead 1 a expired to dlx/dead | put 1 a; put 2 b");
    q.purge().is("done 1 | gone 1..=2");
    q.dead_lettered(1, Refused).is("");
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (0, 0));
    q.publish("d! e!").is("4 ok!; 5 ok! | put 3 d; put 4 e");
}

#[test]
fn the_death_is_recorded() {
    let mut q = Page::new(with(|config| config.dead_letter = dead_letters(false)));
    q.attach(1);
    q.grant(1, 0, 1);
    q.publish("a~500");
    q.now_ms = 1200;
    let mut out = Output::default();
    let settle = Request::Settle {
        consumer: crate::ConsumerId(1),
        first: 1,
        last: 1,
        outcome: Outcome::Rejected,
        answer: SettleAnswer::Never,
    };
    q.fifo.ask(settle, q.now_ms, &mut out);
    let [Effect::DeadLetter { message, .. }] = &out.effects[..] else { panic!("{:?}", out.effects) };
    let death = message.deaths().unwrap().last().unwrap();
    assert_eq!((&*death.queue, death.reason, death.count), ("q", DeathReason::Rejected, 1));
    assert_eq!((death.first_ms, death.last_ms, death.ttl_ms), (1200, 1200, Some(500)));
    assert_eq!((&*death.exchange, &*death.keys[0]), ("", "q"));
    assert_eq!(message.ttl_ms(), None);
}

#[test]
fn expiry_waits_while_too_many_are_leaving() {
    let mut q = dlx(false);
    for _ in 0..LEAVING_MAX + 2 {
        q.publish("a~10");
    }
    q.publish("b");
    q.timeout(1010);
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (LEAVING_MAX as u64, 3));
    // There is nothing to do before an answer arrives, and expired messages are not delivered.
    assert_eq!(q.fifo.next_deadline(), None);
    q.attach(1);
    q.grant(1, 0, 1).is("");
    q.fetch(2, 1, true).is("fetched [] of 3");
    q.dead_lettered(5, Taken).is("dead 1001 a expired to dlx/dead");
    q.dead_lettered(6, Refused).is("dead 1002 a expired to dlx/dead; 1#1 b");
    assert_eq!(q.fifo.report().leaving, LEAVING_MAX as u64);
}

/// Each dead letter on its way is in memory.
#[test]
fn expiry_waits_while_too_many_bytes_are_leaving() {
    const BYTES: usize = 3 * 1024 * 1024;
    let mut q = dlx(false);
    let body = "a".repeat(BYTES);
    for _ in 0..5 {
        q.publish(&format!("{body}~10"));
    }
    q.timeout(1010);
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (3, 2), "the third exceeds 8 MiB");
    q.dead_lettered(1, Taken);
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (3, 1));
    for token in 2..=5 {
        q.dead_lettered(token, Taken);
    }
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (0, 0));
    let huge = "a".repeat(4 * BYTES);
    q.publish(&format!("{huge}~10"));
    q.timeout(1020);
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (1, 0), "one of any size is sent");
}

#[test]
fn drop_head_waits_while_too_many_are_leaving() {
    let mut q = Page::new(with(|config| {
        config.dead_letter = dead_letters(false);
        config.max_length = Some(0);
    }));
    for _ in 0..LEAVING_MAX + 1 {
        q.publish("a");
    }
    assert_eq!((q.fifo.report().leaving, q.fifo.report().ready), (LEAVING_MAX as u64, 1));
    q.dead_lettered(1, Taken).is("dead 1001 a maxlen to dlx/dead");
}

#[test]
fn rejected_messages_wait_in_order_while_too_many_are_leaving() {
    let mut q = dlx(true);
    let many = LEAVING_MAX as u64;
    q.attach(1);
    q.grant(1, 0, many as u32 + 3);
    for _ in 0..many {
        q.publish("a");
    }
    q.publish("b! c! d~10");
    q.reject(1, 1, many + 3);
    assert_eq!(q.fifo.report().leaving, many + 3);
    // A refused dead letter still takes up room.
    q.dead_lettered(7, Refused).is("");
    q.dead_lettered(8, Taken).is("dead 1001 b rejected to dlx/dead");
    // Without a dead-letter exchange, the queued messages do not have to wait.
    q.configure(config()).is("| gone 1002");
    assert_eq!((q.fifo.report().leaving, q.fifo.report().dropped), (many, 2));
    q.timeout(1000 + DEAD_LETTER_RETRY_MS).is("");
    assert_eq!((q.fifo.report().leaving, q.fifo.report().dropped), (many - 1, 3));
    q.dead_lettered(1001, Refused).is("| gone 1001");
}

#[test]
fn publishers_of_a_full_queue_cannot_fill_the_memory() {
    let mut q = Page::new(with(|config| {
        config.dead_letter = dead_letters(true);
        config.max_length = Some(0);
        config.overflow = crate::Overflow::RejectPublishDlx;
    }));
    for _ in 0..3 * LEAVING_MAX {
        q.publish("a");
    }
    let report = q.fifo.report();
    assert_eq!((report.leaving, report.dropped), (2 * LEAVING_MAX as u64, LEAVING_MAX as u64));
}

#[test]
fn every_reason_without_a_target_is_a_drop() {
    let mut q = Page::new(with(|config| config.max_length = Some(1)));
    q.publish("a! b!").is("1 ok!; 2 ok! | put 1 a; put 2 b; gone 1");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 b");
    q.reject(1, 1, 1).is("| gone 2");
    q.publish("c~0!").is("3 ok! | put 3 c; gone 3");
    assert_eq!(q.fifo.report().dropped, 3);
}

#[test]
fn a_consumers_annotations_go_with_the_dead_letter() {
    let mut q = dlx(true);
    q.publish("a!");
    q.attach(1);
    q.grant(1, 0, 2);
    let annotated = |key, undeliverable_here| Outcome::Modified {
        failed: false,
        undeliverable_here,
        annotations: Some(note(key, 7).into()),
    };
    q.settle(1, 1, 1, annotated("x-a", false)).is("1#2 a again | returned 1 count 0 again annotated");
    let mut out = Output::default();
    let outcome = annotated("x-b", true);
    let settle =
        Request::Settle { consumer: ConsumerId(1), first: 2, last: 2, outcome, answer: SettleAnswer::Never };
    q.fifo.ask(settle, 1000, &mut out);
    let [Effect::DeadLetter { message, .. }] = &out.effects[..] else { panic!("{:?}", out.effects) };
    let both = Notes::from([("x-a".to_owned(), 7), ("x-b".to_owned(), 7)]);
    assert_eq!(notes(message.annotations()), both);
    q.dead_lettered(1, Taken).is("| gone 1");
    assert_eq!(q.fifo.journal.annotated.bytes(), 0);
}

/// The bound applies to consumers' annotations. The message itself stays unchanged.
#[test]
fn annotations_beyond_the_bound_are_refused_and_counted() {
    let mut q = Page::new(config());
    q.publish("a b c d e f");
    q.attach(1);
    q.grant(1, 0, 6);
    let fifth = Annotations::BYTES_MAX / 5 * 4;
    let large = [
        b"\x00\x53\x72\xd1\0\0".as_slice(),
        &(fifth as u16 + 13).to_be_bytes(),
        b"\0\0\0\x02\xa3\x03x-a\xb0\0\0",
        &(fifth as u16 - 1).to_be_bytes(),
        &vec![7; fifth - 1],
    ]
    .concat();
    let annotations = Annotations::from_section(large.into()).map(Box::new);
    let outcome = Outcome::Modified { failed: true, undeliverable_here: false, annotations };
    q.settle(1, 1, 6, outcome);
    assert_eq!(q.fifo.report().annotations_refused, 2);
    assert_eq!((q.fifo.report().ready, q.fifo.report().unsettled), (6, 0));
    q.purge();
    assert_eq!(q.fifo.journal.annotated.bytes(), 0);
}
