//! Tests the annotations that consumers set on messages: which ones are kept, and which are refused.

use message::Annotations;

use super::transcript::{Page, config, dead_letters, message, with};
use crate::fifo::{Fifo, Output};
use crate::{ConsumerId, Delivery, Effect, Fact, Outcome, PublisherId, Request, SettleAnswer};

/// Returns one annotation with a value of this size. `key` has three characters and starts with `x-`.
fn large(key: &str, bytes: usize) -> Annotations {
    let (all, value) = (bytes as u32 + 14, bytes as u32);
    let section = [
        b"\x00\x53\x72\xd1".as_slice(),
        &all.to_be_bytes(),
        b"\0\0\0\x02\xa3\x03",
        key.as_bytes(),
        &[0xb0],
        &value.to_be_bytes(),
        &vec![7; bytes],
    ];
    Annotations::from_section(section.concat().into()).expect("a section")
}

fn modified(annotations: Annotations) -> Outcome {
    Outcome::Modified { failed: false, undeliverable_here: false, annotations: Some(annotations.into()) }
}

/// Returns the known keys that occur in the annotations of a message.
fn keys(annotations: &[u8]) -> Vec<&'static str> {
    let has = |key: &&str| annotations.windows(3).any(|at| at == key.as_bytes());
    ["x-a", "x-b", "x-c"].into_iter().filter(has).collect()
}

/// Delivers the next message to a new consumer.
fn next(q: &mut Page, consumer: u64) -> Delivery {
    q.attach(consumer);
    let (consumer, delivery_count, credit) = (ConsumerId(consumer), 0, 1);
    let grant = Request::Grant { consumer, delivery_count, credit, drain: false, echo: false };
    let mut out = Output::default();
    q.fifo.ask(grant, 1000, &mut out);
    while let Some(load) = out.loads.pop().or_else(|| q.loads.pop()) {
        q.fifo.bring(load, q.shelf.block(load), 1000, &mut out);
    }
    match out.effects.pop() {
        Some(Effect::Delivery(delivery)) => delivery,
        other => panic!("{other:?}"),
    }
}

/// Restores the queue from the facts that an evacuation (copying live records out of an old log file) would
/// write.
fn rewritten(q: &mut Page) {
    let mut facts: Vec<Fact> = vec![];
    q.fifo.live_facts(0, u64::MAX, |fact| facts.push(fact));
    q.fifo = Fifo::restore(config(), facts.into_iter().collect(), 1000);
}

fn paged(q: &mut Page) {
    // A message that is requeued from a run stays in it.
    if q.page_out(1).is_some() {
        q.stored();
    }
    assert_eq!(q.shelf.runs().len(), 1);
}

/// What happens to a queue between two consumers.
type Way = fn(&mut Page);

/// The same annotations are kept and refused, whatever happened to the message between two consumers.
#[test]
fn refusals_do_not_depend_on_where_the_message_was() {
    let ways: [(&str, Way); 5] = [
        ("memory", |_| {}),
        ("a restart", Page::restart),
        ("an evacuation", rewritten),
        ("a run", paged),
        ("a run and a restart", |q| {
            paged(q);
            q.restart();
        }),
    ];
    for (way, go) in ways {
        let mut q = Page::new(config());
        q.publish("a!");
        next(&mut q, 1);
        q.settle(1, 1, 1, modified(large("x-a", 12_000)));
        q.detach(1, false);
        go(&mut q);
        assert_eq!(keys(next(&mut q, 2).message.annotations()), ["x-a"], "through {way}");
        q.settle(2, 1, 1, modified(large("x-b", 12_000)));
        q.detach(2, false);
        assert_eq!(q.fifo.report().annotations_refused, 1, "through {way}");
        go(&mut q);
        let third = next(&mut q, 3);
        assert_eq!(keys(third.message.annotations()), ["x-a"], "through {way}");
        q.settle(3, 1, 1, modified(large("x-c", 1_000)));
        q.detach(3, false);
        assert_eq!(keys(next(&mut q, 4).message.annotations()), ["x-a", "x-c"], "through {way}");
    }
}

/// A message that circulates between a queue and its dead-letter exchange does not grow.
#[test]
fn a_publishers_annotations_count() {
    let mut q = Page::new(with(|config| config.dead_letter = dead_letters(true)));
    let mut round = message("a!");
    for key in ["x-a", "x-b", "x-c", "x-a"] {
        let publish = crate::Publish { publisher: PublisherId(1), seq: 1, message: round, pipelines: false };
        q.send(Request::Publish(publish));
        next(&mut q, 1);
        let mut out = Output::default();
        let annotations = Some(large(key, 12_000).into());
        let outcome = Outcome::Modified { failed: true, undeliverable_here: true, annotations };
        let (consumer, first, last) = (ConsumerId(1), 1, 1);
        q.fifo.ask(
            Request::Settle { consumer, first, last, outcome, answer: SettleAnswer::Never },
            1000,
            &mut out,
        );
        let [Effect::DeadLetter { message, token, .. }] = &out.effects[..] else {
            panic!("{:?}", out.effects)
        };
        round = message.clone();
        q.dead_lettered(*token, crate::Arrival::Taken);
        q.detach(1, false);
        assert!(round.annotations().len() <= Annotations::BYTES_MAX);
        assert_eq!(keys(round.annotations()), ["x-a"]);
    }
    assert_eq!(q.fifo.report().annotations_refused, 2, "annotations that replace others are not refused");
}

#[test]
fn annotations_that_change_nothing_have_no_fact() {
    let mut q = Page::new(config());
    q.publish("a! b! c!");
    q.attach(1);
    q.grant(1, 0, 9).is("1#1 a; 1#2 b; 1#3 c");
    let small = || modified(large("x-a", 3));
    q.settle(1, 1, 2, small()).is(
        "1#4 a again; 1#5 b again | returned 1 count 0 again annotated; returned 2 count 0 again annotated",
    );
    q.settle(1, 4, 5, small()).is("1#6 a again; 1#7 b again");
    q.settle(1, 6, 6, modified(large("x-a", 4))).is("1#8 a again | returned 1 count 0 again annotated");
}

#[test]
fn annotations_of_removed_messages_take_no_memory() {
    let mut q = Page::new(config());
    q.publish("a! b!");
    q.attach(1);
    q.grant(1, 0, 9);
    assert!(q.fifo.journal.annotated.is_empty());
    q.settle(1, 1, 2, modified(large("x-a", 20_000)));
    q.settle(1, 3, 4, modified(large("x-a", 3)));
    assert!(!q.fifo.journal.annotated.is_empty());
    q.accept(1, 5, 6).is("| gone 1..=2");
    assert!(q.fifo.journal.annotated.is_empty());
    assert_eq!(q.fifo.report().annotations_refused, 2);
}
