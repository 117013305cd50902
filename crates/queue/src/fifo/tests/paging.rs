//! Tests the backlog on the disk, step by step.

use super::transcript::{Page, config, dead_letters, with};
use crate::{Arrival, Fact, GoneFromRun, Living, LocalFact, Logged, Overflow, PEEK_STEPS_MAX, Peek, PeekEnd};

#[test]
fn paged_out_messages_are_delivered_in_order() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e!");
    assert_eq!(q.page_out(4).unwrap().messages, 4);
    q.publish("f!");
    q.stored().is("| stored 1: 1..=4, 4 of 4");
    assert_eq!((q.fifo.report().ready, q.fifo.live_bytes()), (6, 162));
    q.attach(1);
    q.grant(1, 0, 10).is("");
    q.load().is("1#1 a; 1#2 b; 1#3 c");
    q.load().is("1#4 d; 1#5 e; 1#6 f");
    assert!(q.loads.is_empty());
    q.accept(1, 1, 3).is("| taken 1: 0..=2");
    assert_eq!(q.shelf.runs(), [1]);
    q.accept(1, 4, 6).is("| taken 1: 3..=3; gone 5..=6");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn messages_removed_during_the_writing_are_not_in_the_run() {
    let mut q = Page::new(config());
    q.publish("a! b! c!");
    q.page_out(3);
    q.attach(1);
    q.grant(1, 0, 2).is("1#1 a; 1#2 b");
    q.release(1, 2, 2).is("| returned 2 count 0 again");
    q.stored().is("| stored 1: 3..=3, 1 of 3; taken 1: 0..=1");
    q.restart();
    q.attach(1);
    q.grant(1, 0, 9).is("1#1 a; 1#2 b again");
    q.load().is("1#3 c");
}

#[test]
fn a_written_run_without_live_messages_is_released() {
    let mut q = Page::new(config());
    q.publish("a! b!");
    q.page_out(2);
    q.purge().is("done 2 | gone 1..=2");
    q.stored().is("");
    assert_eq!(q.shelf.runs(), []);
}

/// Looks at messages from a position on, and reads the blocks that are needed for it. Returns the sequence numbers, and how
/// many blocks were read.
fn look(q: &Page, position: u64, count: u32) -> (Vec<u64>, usize) {
    let (mut peek, mut block, mut reads, mut seqs) = (Peek { position, count, hint: None }, None, 0, vec![]);
    loop {
        let peeked = q.fifo.peek(&peek, block.as_ref().map(|(at, block)| (*at, block)));
        peek.position += peeked.messages.len() as u64;
        peek.count -= peeked.messages.len() as u32;
        seqs.extend(peeked.messages.iter().map(|message| message.seq));
        match peeked.end {
            PeekEnd::Queue => return (seqs, reads),
            PeekEnd::Enough(_) if peek.count == 0 => return (seqs, reads),
            PeekEnd::Enough(hint) => peek.hint = hint,
            PeekEnd::Disk(at) => {
                (block, peek.hint) = (Some((at, q.shelf.block(at.load))), Some(at));
                reads += 1;
            }
            PeekEnd::TooFar => panic!("position {} is too far", peek.position),
        }
    }
}

#[test]
fn a_peek_reads_blocks_and_changes_nothing() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e! f! g!");
    q.page_out(7);
    q.stored();
    q.publish("h!");
    assert_eq!(look(&q, 1, 99), ((1..=8).collect(), 3));
    assert_eq!(
        (look(&q, 5, 2), look(&q, 4, 1), look(&q, 8, 9)),
        ((vec![5, 6], 2), (vec![4], 2), (vec![8], 0))
    );
    assert_eq!(look(&q, 9, 1), (vec![], 0));
    // What a consumer was given is not ready. A message that comes back is read again.
    q.attach(1);
    q.grant(1, 0, 2);
    q.load().is("1#1 a; 1#2 b");
    assert_eq!(look(&q, 1, 99), ((3..=8).collect(), 2));
    q.release(1, 2, 2);
    assert_eq!((look(&q, 1, 2), look(&q, 2, 99)), ((vec![2, 3], 1), ((3..=8).collect(), 2)));
    q.accept(1, 1, 1);
    q.cancel(1);
    q.fifo.forget_loaded();
    assert_eq!(look(&q, 1, 2), (vec![2, 3], 1));
    let peek = Peek { position: 1, count: 1, hint: None };
    let PeekEnd::Disk(at) = q.fifo.peek(&peek, None).end else { panic!("it is on the disk") };
    let block = q.shelf.block(at.load);
    let first = &q.fifo.peek(&peek, Some((at, &block))).messages[0];
    assert_eq!((first.seq, first.redelivered), (2, true));
    // After a restart, the marks of a message are known before it is read.
    q.restart();
    assert_eq!(look(&q, 1, 99), ((2..=8).collect(), 3));
    let PeekEnd::Disk(at) = q.fifo.peek(&peek, None).end else { panic!("it is on the disk") };
    let block = q.shelf.block(at.load);
    let peeked = q.fifo.peek(&Peek { count: 2, ..peek }, Some((at, &block)));
    let marks: Vec<_> =
        peeked.messages.iter().map(|of| (of.seq, of.redelivered, of.acquired_count)).collect();
    assert_eq!(marks, [(2, true, 1), (3, false, 0)]);
}

#[test]
fn a_peek_ignores_a_block_that_was_read_for_another_place() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e! f! g!");
    q.page_out(7);
    q.stored();
    let peek = |position| Peek { position, count: 9, hint: None };
    let PeekEnd::Disk(first) = q.fifo.peek(&peek(4), None).end else { panic!("it is on the disk") };
    let block = q.shelf.block(first.load);
    let PeekEnd::Disk(second) = q.fifo.peek(&peek(4), Some((first, &block))).end else {
        panic!("not in there")
    };
    let block = q.shelf.block(second.load);
    // The second block does not help at the first position.
    let early = q.fifo.peek(&peek(1), Some((second, &block)));
    assert_eq!((early.messages.len(), early.end), (0, PeekEnd::Disk(first)));
    // A consumer has come to the second block meanwhile.
    q.attach(1);
    q.grant(1, 0, 3);
    q.load();
    let late = q.fifo.peek(&peek(1), Some((second, &block)));
    assert!(matches!(late.end, PeekEnd::Disk(at) if at.load == second.load) && late.messages.is_empty());
    assert_eq!(look(&q, 1, 99), ((4..=7).collect(), 2));
}

#[test]
fn a_report_says_when_the_next_message_arrived() {
    let mut q = Page::new(config());
    let head = |q: &Page| q.fifo.report().head_at_ms;
    assert_eq!(head(&q), None);
    for (word, ms) in [("a!", 10), ("b!", 20), ("c!", 30)] {
        q.now_ms = ms;
        q.publish(word);
    }
    assert_eq!(head(&q), Some(10));
    q.page_out(3);
    q.stored();
    assert_eq!(head(&q), Some(10));
    q.attach(1);
    q.grant(1, 0, 2);
    q.load().is("1#1 a; 1#2 b");
    assert_eq!(head(&q), Some(30));
    // On the disk, only the bounds of the run are known.
    q.release(1, 2, 2);
    q.fifo.forget_loaded();
    assert_eq!(head(&q), Some(10));
    q.purge();
    assert_eq!(head(&q), None);
}

#[test]
fn a_peek_is_bounded_in_steps() {
    let mut q = Page::new(config());
    let words = vec!["a"; PEEK_STEPS_MAX as usize + 2].join(" ");
    q.publish(&words);
    let end = |position| q.fifo.peek(&Peek { position, count: 1, hint: None }, None).end;
    assert_eq!(end(PEEK_STEPS_MAX + 1), PeekEnd::Enough(None));
    assert_eq!(end(PEEK_STEPS_MAX + 2), PeekEnd::TooFar);
}

#[test]
fn a_purge_costs_a_fact_per_run() {
    let mut q = Page::new(config());
    for _ in 0..3 {
        q.publish("a! b! c! d!");
        q.page_out(4);
        q.stored();
    }
    q.purge().is("done 12 | taken 1: 0..=3; taken 2: 0..=3; taken 3: 0..=3");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn a_drain_ends_after_the_messages_that_must_be_read() {
    let mut q = Page::new(config());
    q.publish("a b");
    q.page_out(2);
    q.stored().is("");
    q.attach(1);
    q.drain(1, 0, 5).is("");
    q.load().is("1#1 a; 1#2 b; credit 1 at 5+0 of 0 drained");
}

#[test]
fn a_fetch_waits_for_messages_that_must_be_read() {
    let mut q = Page::new(config());
    q.publish("a b c d");
    q.page_out(4);
    q.stored().is("");
    q.fetch(7, 4, true).is("");
    q.load().is("");
    q.load().is("fetched [7#1 a, 7#2 b, 7#3 c, 7#4 d] of 0");
    assert_eq!(q.shelf.runs(), []);
}

/// The holder used to come back when the messages had been read, and nobody returned them any more.
#[test]
fn a_waiting_fetch_ends_with_its_holder() {
    let mut q = Page::new(config());
    q.publish("a b c d");
    q.page_out(4);
    q.stored().is("");
    q.fetch(7, 4, false).is("");
    q.load().is("");
    q.detach(7, false).is("fetched [] of 1; gone 7 Detached");
    q.load().is("");
    assert_eq!((q.fifo.report().ready, q.fifo.report().unsettled), (4, 0));
    q.fetch(8, 2, false).is("");
    q.load().is("fetched [8#1 a again, 8#2 b again] of 2");
}

#[test]
fn bodies_of_deliveries_are_freed_and_read_again() {
    let mut q = Page::new(with(|config| config.dead_letter = dead_letters(false)));
    q.publish("a! b! c!");
    q.page_out(3);
    q.stored();
    q.attach(1);
    q.grant(1, 0, 3).is("");
    q.load().is("1#1 a; 1#2 b; 1#3 c");
    q.release(1, 1, 1).is("| returned 1 count 0 again");
    q.reject(1, 2, 2).is("| returned 2 count 1 again");
    q.load().is("dead 1 b rejected to dlx/dead");
    q.grant(1, 3, 1).is("1#4 a again");
}

#[test]
fn a_fully_expired_run_is_never_read() {
    let mut q = Page::new(with(|config| config.message_ttl_ms = Some(100)));
    q.publish("a! b! c! d!");
    q.page_out(4);
    q.stored();
    assert_eq!(q.fifo.next_deadline(), Some(1100));
    q.timeout(1100).is("| taken 1: 0..=3");
    assert_eq!((q.fifo.report().expired, q.fifo.report().ready), (4, 0));
    assert_eq!((q.loads.len(), q.shelf.runs()), (0, vec![]));
}

#[test]
fn a_partly_expired_run_is_read() {
    let mut q = Page::new(config());
    q.publish("a~50 b~50 c d");
    q.page_out(4);
    q.stored();
    assert_eq!(q.fifo.next_deadline(), Some(1050));
    q.timeout(1050).is("");
    q.load().is("");
    assert_eq!((q.fifo.report().expired, q.fifo.report().ready), (2, 2));
    assert_eq!(q.fifo.next_deadline(), None);
}

#[test]
fn heads_on_the_disk_are_dropped_when_they_are_read() {
    let mut q = Page::new(with(|config| config.max_length = Some(4)));
    q.publish("a b c d");
    q.page_out(4);
    q.stored();
    q.publish("e").is("5 ok");
    q.load().is("");
    assert_eq!((q.fifo.report().dropped, q.fifo.report().ready), (1, 4));
}

#[test]
fn transient_messages_of_a_run_do_not_survive_the_process() {
    let mut q = Page::new(config());
    q.publish("a! b c! d");
    q.page_out(4);
    q.stored().is("| stored 1: 1..=4, 2 of 4");
    q.restart();
    assert_eq!(q.fifo.report().ready, 2);
    q.attach(1);
    q.grant(1, 0, 9).is("");
    q.load().is("1#1 a; 1#2 c | taken 1: 1..=1; taken 1: 3..=3");
    q.accept(1, 1, 2).is("| taken 1: 0..=0; taken 1: 2..=2");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn freeing_what_was_read_saves_memory() {
    let mut q = Page::new(config());
    q.publish("a b c d e f");
    q.page_out(6);
    q.stored();
    q.attach(1);
    q.grant(1, 0, 1).is("");
    q.load().is("1#1 a");
    assert_eq!(q.fifo.pageable_bytes(), 0);
    q.cancel(1).is("gone 1 Cancelled");
    q.fifo.forget_loaded();
    q.loads.clear();
    q.attach(2);
    q.grant(2, 0, 9).is("");
}

#[test]
fn a_fetch_reads_on_if_a_block_has_no_live_message() {
    let mut q = Page::new(config());
    q.publish("e f g h i");
    q.page_out(5);
    q.fetch(7, 4, true).is("fetched [7#1 e, 7#2 f, 7#3 g, 7#4 h] of 1");
    q.stored();
    q.fetch(7, 1, true).is("");
    q.load().is("");
    q.load().is("fetched [7#1 i] of 0");
}

#[test]
fn the_end_of_a_run_without_live_messages_is_not_read() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d e f");
    q.page_out(6);
    q.stored().is("| stored 1: 1..=6, 3 of 6");
    q.restart();
    q.attach(1);
    q.grant(1, 0, 9).is("");
    q.load().is("1#1 a; 1#2 b; 1#3 c | taken 1: 3..=5");
    assert!(q.loads.is_empty());
    q.accept(1, 1, 3).is("| taken 1: 0..=2");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn live_messages_of_a_run_move_to_another() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e! f!");
    q.page_out(6);
    q.stored();
    q.attach(1);
    q.grant(1, 0, 4).is("");
    q.load().is("1#1 a; 1#2 b; 1#3 c");
    q.load().is("1#4 d");
    q.accept(1, 1, 2).is("| taken 1: 0..=1");
    q.release(1, 4, 4).is("| returned 4 count 0 again");
    let living = q.fifo.living(1).unwrap();
    assert_eq!(living, Living { positions: vec![2, 3, 4, 5], unread: 6 });
    let (messages, moved) = q.shelf.copy(1, &living);
    q.accept(1, 3, 3).is("| taken 1: 2..=2");
    q.moved(1, &living, messages, &moved)
        .is("| stored 2: 1..=6, 3 of 4; taken 2: 0..=0; returned 4 count 0 again; taken 1: 0..=5");
    assert_eq!(q.shelf.runs(), [2]);
    q.restart();
    q.attach(1);
    q.grant(1, 0, 9).is("");
    q.load().is("1#1 d again; 1#2 e");
    q.load().is("1#3 f");
    q.accept(1, 1, 3).is("| taken 2: 1..=3");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn a_run_that_was_read_during_its_move_stays() {
    let mut q = Page::new(config());
    q.publish("a b c d");
    q.page_out(4);
    q.stored();
    let living = q.fifo.living(1).unwrap();
    assert_eq!(living.unread, 0);
    let (messages, moved) = q.shelf.copy(1, &living);
    q.attach(1);
    q.grant(1, 0, 1).is("");
    q.load().is("1#1 a");
    q.moved(1, &living, messages, &moved).is("");
    assert_eq!(q.shelf.runs(), [1]);
}

#[test]
fn requeued_messages_are_paged_out_with_their_marks() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e!");
    q.attach(1);
    q.grant(1, 0, 4).is("1#1 a; 1#2 b; 1#3 c; 1#4 d");
    q.detach(1, true).is(
        "gone 1 Detached | returned 1 count 1 again; returned 2 count 1 again; returned 3 count 1 again; \
         returned 4 count 1 again",
    );
    assert_eq!(q.page_out(9).unwrap().messages, 5);
    q.stored().is("| stored 1: 1..=5, 5 of 5; returned 1 count 1 again; returned 2 count 1 again; \
         returned 3 count 1 again; returned 4 count 1 again");
    assert_eq!(q.fifo.pageable_bytes(), 0);
    q.restart();
    q.attach(2);
    q.grant(2, 0, 2).is("");
    q.load().is("2#1 a count 1 again; 2#2 b count 1 again");
}

#[test]
fn a_run_of_ready_messages_ends_before_an_unsettled_one() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d!");
    q.attach(1);
    q.grant(1, 0, 3).is("1#1 a; 1#2 b; 1#3 c");
    q.cancel(1).is("gone 1 Cancelled");
    q.release(1, 1, 1).is("| returned 1 count 0 again");
    assert_eq!(q.page_out(9).unwrap().messages, 1, "2 and 3 are held");
    q.stored().is("| stored 1: 1..=1, 1 of 1; returned 1 count 0 again");
}

#[test]
fn a_damaged_queue_keeps_its_messages_until_it_is_deleted() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d!");
    q.page_out(2);
    q.stored();
    q.attach(1);
    q.grant(1, 0, 3).is("");
    q.load().is("1#1 a; 1#2 b; 1#3 c");
    q.accept(1, 1, 1).is("| taken 1: 0..=0");
    q.fetch(7, 1, false).is("fetched [7#1 d] of 0");
    q.quarantine().is("gone 1 Damaged; gone 7 Damaged | damaged");
    for publish in ["5 damaged", "6 damaged"] {
        assert!(q.fifo.is_damaged() && q.fifo.report().damaged);
        assert_eq!((q.fifo.report().ready, q.fifo.report().unsettled, q.fifo.report().consumers), (3, 0, 0));
        q.attach(2).is("refused Damaged");
        q.publish("e!").is(publish);
        q.fetch(7, 1, true).is("refused Damaged");
        q.purge().is("refused Damaged");
        assert_eq!(q.shelf.runs(), [1]);
        let mut facts = Vec::new();
        q.fifo.live_facts(0, u64::MAX, |fact| facts.push(fact.into()));
        q.fifo.run_facts(&[1], |fact| facts.push(fact.into()));
        let [
            Logged::Shared(Fact::Put { seq: 3, .. }),
            Logged::Shared(Fact::Put { seq: 4, .. }),
            Logged::Local(LocalFact::Stored(run)),
            Logged::Local(LocalFact::GoneFromRun(GoneFromRun { last: 0, .. })),
        ] = &facts[..]
        else {
            panic!("{facts:?}");
        };
        assert_eq!(run.durable, 1);
        q.restart();
    }
    q.delete(false, false).is("done 3; deleted Requested");
    q.publish("f!").is("7 released");
}

#[test]
fn a_damaged_queue_is_paged_out_like_others() {
    let mut q = Page::new(config());
    q.publish("a! b!");
    q.quarantine().is("| damaged");
    assert!(q.fifo.pageable_bytes() > 0);
    q.page_out(2);
    q.stored().is("| stored 1: 1..=2, 2 of 2");
    assert_eq!((q.fifo.pageable_bytes(), q.fifo.report().ready), (0, 2));
}

#[test]
fn unsettled_messages_are_paged_out_and_read_again() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e!");
    q.attach(1);
    q.grant(1, 0, 5).is("1#1 a; 1#2 b; 1#3 c; 1#4 d; 1#5 e");
    assert!(q.fifo.pageable_bytes() > 0);
    assert_eq!(q.page_out(9).unwrap().messages, 5);
    q.stored().is("| stored 1: 1..=5, 5 of 5");
    let report = q.fifo.report();
    assert_eq!((q.fifo.pageable_bytes(), q.fifo.live_bytes()), (0, 0));
    assert_eq!((report.unsettled, report.unsettled_bytes), (5, 5));
    q.accept(1, 2, 2).is("| taken 1: 1..=1");
    q.release(1, 3, 4).is("| returned 3 count 0 again; returned 4 count 0 again");
    q.grant(1, 5, 2).is("");
    q.load().is("1#6 c again");
    q.load().is("1#7 d again");
    q.restart();
    q.attach(2);
    q.grant(2, 0, 9).is("");
    q.load().is("2#1 a; 2#2 c again");
    q.load().is("2#3 d again; 2#4 e");
    q.accept(2, 1, 4).is("| taken 1: 0..=0; taken 1: 2..=4");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn unsettled_messages_may_change_while_they_are_written() {
    let mut q = Page::new(with(|config| config.dead_letter = dead_letters(true)));
    q.publish("a! b! c! d! e");
    q.attach(1);
    q.grant(1, 0, 5).is("1#1 a; 1#2 b; 1#3 c; 1#4 d; 1#5 e");
    assert_eq!(q.page_out(9).unwrap().messages, 5);
    q.accept(1, 1, 1).is("| gone 1");
    q.release(1, 2, 2).is("| returned 2 count 0 again");
    q.reject(1, 3, 3).is("dead 1 c rejected to dlx/dead | returned 3 count 1 again");
    q.stored()
        .is("| stored 1: 1..=5, 3 of 5; taken 1: 0..=0; returned 2 count 0 again; returned 3 count 1 again");
    q.dead_lettered(1, Arrival::Taken).is("| taken 1: 2..=2");
    q.restart();
    q.attach(2);
    q.grant(2, 0, 9).is("");
    q.load().is("2#1 b again");
    q.load().is("2#2 d | taken 1: 4..=4");
}

#[test]
fn a_run_of_unsettled_messages_that_were_all_removed_is_released() {
    let mut q = Page::new(config());
    q.publish("a! b!");
    q.attach(1);
    q.grant(1, 0, 2).is("1#1 a; 1#2 b");
    q.page_out(9);
    q.accept(1, 1, 2).is("| gone 1..=2");
    q.stored().is("");
    assert_eq!(q.shelf.runs(), []);
}

#[test]
fn requeued_messages_between_unsettled_ones_are_in_their_run() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e! f!");
    q.attach(1);
    q.grant(1, 0, 5).is("1#1 a; 1#2 b; 1#3 c; 1#4 d; 1#5 e");
    q.fetch(7, 1, false).is("fetched [7#1 f] of 0");
    q.publish("g!");
    q.cancel(1).is("gone 1 Cancelled");
    q.release(1, 2, 2).is("| returned 2 count 0 again");
    q.release(1, 4, 4).is("| returned 4 count 0 again");
    assert_eq!(q.page_out(9).unwrap().messages, 6, "g was never taken");
    q.stored().is("| stored 1: 1..=6, 6 of 6; returned 2 count 0 again; returned 4 count 0 again");
    q.attach(2);
    q.grant(2, 0, 9).is("");
    q.load().is("2#1 b again");
    q.load().is("2#2 d again; 2#3 g");
}

#[test]
fn a_run_of_unsettled_messages_does_not_overlap_another_run() {
    let mut q = Page::new(config());
    q.publish("a! b! c! d! e!");
    q.attach(1);
    q.grant(1, 0, 5).is("1#1 a; 1#2 b; 1#3 c; 1#4 d; 1#5 e");
    assert_eq!(q.page_out(1).unwrap().messages, 1, "the newest is paged out first");
    q.stored().is("| stored 1: 5..=5, 1 of 1");
    q.publish("f! g!");
    q.grant(1, 5, 2).is("1#6 f; 1#7 g");
    assert_eq!(q.page_out(9).unwrap().messages, 2);
    q.stored().is("| stored 2: 6..=7, 2 of 2");
    assert_eq!(q.page_out(9).unwrap().messages, 4);
    q.stored().is("| stored 3: 1..=4, 4 of 4");
    assert_eq!(q.fifo.pageable_bytes(), 0);
}

#[test]
fn the_age_of_messages_on_the_disk_is_checked() {
    let mut q = Page::new(config());
    q.publish("a!~50 b!~90 c!");
    q.attach(1);
    q.grant(1, 0, 3).is("1#1 a; 1#2 b; 1#3 c");
    q.page_out(9);
    q.stored().is("| stored 1: 1..=3, 3 of 3");
    q.detach(1, false)
        .is("gone 1 Detached | returned 1 count 0 again; returned 2 count 0 again; returned 3 count 0 again");
    assert_eq!(q.fifo.next_deadline(), Some(1050));
    q.timeout(1050).is("");
    q.load().is("| taken 1: 0..=0");
    assert_eq!((q.fifo.next_deadline(), q.fifo.report().expired), (Some(1090), 1));
    q.fifo.forget_loaded();
    assert_eq!(q.fifo.next_deadline(), Some(1090), "the head stays in memory");
}

#[test]
fn a_message_that_was_not_accepted_is_in_no_run() {
    let mut q = Page::new(with(|config| {
        config.dead_letter = dead_letters(true);
        (config.max_length, config.overflow) = (Some(1), Overflow::RejectPublishDlx);
    }));
    q.publish("a! b!").is("1 ok!; 2 full; dead 1 b maxlen to dlx/dead | put 1 a");
    q.attach(1);
    q.grant(1, 0, 1).is("1#1 a");
    q.publish("c!").is("3 ok! | put 2 c");
    q.grant(1, 1, 1).is("1#2 c");
    assert_eq!(q.page_out(9).unwrap().messages, 2);
    q.stored().is("| stored 1: 1..=2, 2 of 2");
    q.dead_lettered(1, Arrival::Taken).is("");
}
