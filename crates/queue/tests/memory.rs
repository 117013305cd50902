//! Bounds the memory of a queue whose consumer never settles: a budget, plus one reference for each message.

use std::sync::Arc;

use message::{Message, Parts, Route};
use queue::{
    Attach, Config, ConsumerId, ConsumerTimeout, Effect, Fifo, Mode, Outcome, Output, Publish, PublisherId,
    QuorumConfig, Request, SettleAnswer, Ticket,
};

use crate::counting::{BYTES, MOST};
use crate::nobody::Nobody;

const MESSAGES: u64 = 1_000_000;
const BODY: usize = 100;
const REFERENCE: isize = 32;
const BUDGET: isize = 4 << 20;
const RUN: u64 = 1 << 20;

/// An allowance for chunks that are not full, the list of all chunks, the data about each run, the output of
/// one call, and the list of messages of a run that is being written. In bytes.
const SLACK: isize = 3 << 20;

const BLOCK: u64 = 1000;

fn config() -> Config {
    Config::new("q")
}

/// Pages out as a shard does after a turn. The disk writes everything at once.
fn page_out(fifo: &mut Fifo, out: &mut Output) {
    while fifo.pageable_bytes() > BUDGET as u64 {
        let mut shown = 0;
        let run = fifo.page_out(RUN, 0, |_| {
            shown += 1;
            ((shown - 1) / BLOCK) as u32
        });
        assert_eq!(run.map(|run| u64::from(run.messages)), Some(shown), "everything can be paged out");
        fifo.handle_stored(out);
        out.facts.clear();
    }
}

#[test]
fn a_consumer_that_never_settles_costs_a_reference_a_message() {
    let mut fifo = Fifo::new(config());
    let mut out = Output::default();
    let route = Arc::new(Route::simple("", "q"));
    let consumer = ConsumerId(1);
    let attach = Attach {
        consumer,
        mode: Mode::Take,
        priority: 0,
        exclusive: false,
        settled: false,
        delivery_count: 0,
        message_bytes_max: None,
        timeout: ConsumerTimeout::default(),
    };
    fifo.apply(Request::Attach(attach), 0, &mut out, &mut Nobody);
    let credit = u32::MAX;
    let grant = Request::Grant { consumer, delivery_count: 0, credit, drain: false, echo: false };
    fifo.apply(grant, 0, &mut out, &mut Nobody);
    let before = BYTES.get();
    MOST.set(before);
    for seq in 0..MESSAGES {
        let parts = Parts { wire: vec![0; BODY].into(), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::clone(&route));
        fifo.apply(
            Request::Publish(Publish { publisher: PublisherId(1), seq, message, pipelines: false }),
            0,
            &mut out,
            &mut Nobody,
        );
        out.effects.clear();
        out.facts.clear();
        page_out(&mut fifo, &mut out);
        let bound = BUDGET + SLACK + REFERENCE * seq as isize;
        assert!(MOST.get() - before <= bound, "{} bytes for {seq} messages", MOST.get() - before);
    }
    assert_eq!(fifo.report().unsettled, MESSAGES);

    // Requeued messages can be read again from the disk, and settled messages take no memory.
    let (first, last) = (MESSAGES / 2, MESSAGES / 2);
    let outcome = Outcome::Released;
    fifo.apply(
        Request::Settle { consumer, first, last, outcome, answer: SettleAnswer::Never },
        0,
        &mut out,
        &mut Nobody,
    );
    assert_eq!(out.loads.len(), 1);
    assert!(!out.effects.iter().any(|effect| matches!(effect, Effect::Delivery(_))));
    out = Output::default();
    for first in (1..=MESSAGES).step_by(1000) {
        let settle = Request::Settle {
            consumer,
            first,
            last: first + 999,
            outcome: Outcome::Accepted,
            answer: SettleAnswer::Never,
        };
        fifo.apply(settle, 0, &mut out, &mut Nobody);
        out.facts.clear();
        out.released.clear();
    }
    assert_eq!(fifo.report().unsettled, 0);
    assert!(BYTES.get() - before < SLACK, "{} bytes are left", BYTES.get() - before);
}

/// The memory of the machine of an idle quorum queue, in bytes, with the machine itself.
const IDLE_BYTES_MAX: isize = 1536;

#[test]
fn an_idle_quorum_queue_takes_no_memory_for_its_priorities() {
    let route = Arc::new(Route::simple("", "q"));
    let before = BYTES.get();
    let config = Config {
        max_priority: Some(QuorumConfig::MAX_PRIORITY),
        quorum: Some(QuorumConfig::default()),
        ..config()
    };
    let mut fifo = Fifo::new(config);
    let mut out = Output::default();
    for (seq, priority) in [(1, 0), (2, 4), (3, 31)] {
        let parts = Parts { wire: vec![0; BODY].into(), priority: Some(priority), ..Parts::default() };
        let message = Message::new(parts, Arc::clone(&route));
        let publish = Publish { publisher: PublisherId(1), seq, message, pipelines: false };
        fifo.apply(Request::Publish(publish), 0, &mut out, &mut Nobody);
    }
    let fetch = Request::Fetch { ticket: Ticket(1), holder: ConsumerId(1), n: 3, settled: true };
    fifo.apply(fetch, 0, &mut out, &mut Nobody);
    assert_eq!(fifo.report().acknowledged, 3);
    drop(out);
    fifo.shrink();
    let bytes = BYTES.get() - before + size_of::<Fifo>() as isize;
    assert!(bytes <= IDLE_BYTES_MAX, "an idle quorum queue takes {bytes} bytes");
}
