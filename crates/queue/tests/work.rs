//! Checks that a warm queue accepts, delivers and removes messages without allocating.

use std::sync::Arc;

use message::{DeliveryMax, Message, Parts, Route};
use queue::{
    Attach, Config, ConsumerId, ConsumerTimeout, Effect, Fifo, Mode, Outcome, Output, Publish, PublisherId,
    Request, SettleAnswer,
};

use crate::counting::ALLOCATIONS;
use crate::nobody::Nobody;

const CONSUMERS: u64 = 3;

struct Bench {
    fifo: Fifo,
    out: Output,
    message: Message,
    granted: [u32; CONSUMERS as usize],
    settled: [u64; CONSUMERS as usize],
}

impl Bench {
    fn new() -> Self {
        let config = Config { max_length: Some(10_000), message_ttl_ms: Some(60_000), ..Config::new("q") };
        let mut fifo = Fifo::new(config);
        let mut out = Output::default();
        for id in 0..CONSUMERS {
            let attach = Attach {
                consumer: ConsumerId(id),
                mode: Mode::Take,
                priority: id as i32 % 2,
                exclusive: false,
                settled: false,
                delivery_count: 0,
                message_bytes_max: None,
                timeout: ConsumerTimeout::default(),
            };
            fifo.apply(Request::Attach(attach), 0, &mut out, &mut Nobody);
        }
        let parts = Parts { wire: b"body".to_vec().into(), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("", "q")));
        let _shared = message.clone();
        Self { fifo, out, message, granted: [0; CONSUMERS as usize], settled: [0; CONSUMERS as usize] }
    }

    fn publish(&mut self, n: u64) {
        for seq in 0..n {
            let publish =
                Publish { publisher: PublisherId(1), seq, message: self.message.clone(), pipelines: false };
            self.fifo.apply(Request::Publish(publish), 1000, &mut self.out, &mut Nobody);
        }
    }

    /// Grants `credit` more to every consumer. Then each settles its deliveries in one range.
    fn consume(&mut self, credit: u32) {
        for id in 0..CONSUMERS {
            let delivery_count = self.granted[id as usize];
            let consumer = ConsumerId(id);
            let grant = Request::Grant { consumer, delivery_count, credit, drain: false, echo: false };
            self.fifo.apply(grant, 1000, &mut self.out, &mut Nobody);
        }
        let mut last = self.settled;
        for effect in self.out.effects.drain(..) {
            if let Effect::Delivery(delivery) = effect {
                last[delivery.consumer.0 as usize] = delivery.number;
            }
        }
        for id in 0..CONSUMERS as usize {
            let (consumer, first, last) = (ConsumerId(id as u64), self.settled[id] + 1, last[id]);
            self.granted[id] = last as u32;
            self.settled[id] = last;
            let settle = Request::Settle {
                consumer,
                first,
                last,
                outcome: Outcome::Accepted,
                answer: SettleAnswer::Made,
            };
            self.fifo.apply(settle, 1000, &mut self.out, &mut Nobody);
        }
        self.out.receipts.drain().for_each(drop);
        self.out.effects.clear();
        self.out.facts.clear();
    }
}

#[test]
fn a_warm_queue_does_not_allocate() {
    let mut bench = Bench::new();
    let mut round = |backlog: u64| {
        bench.publish(backlog);
        bench.consume(20);
        bench.publish(25);
        bench.consume(40);
    };
    for _ in 0..10 {
        round(50);
    }
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        round(50);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    let report = bench.fifo.report();
    assert_eq!((report.published, report.acknowledged), (110 * 75, 110 * 75));
}

/// Returns a message that another protocol has to convert to know the size of its head, which is above 4 KiB.
fn to_convert() -> Message {
    let value = vec![b'x'; 5000];
    // Application-properties: a `map32` with the key `k` and a `str32`.
    let pairs = [&b"\xa1\x01k\xb1"[..], &(value.len() as u32).to_be_bytes(), &value].concat();
    let head = [&b"\x00\x53\x74\xd1"[..], &(pairs.len() as u32 + 4).to_be_bytes(), &2u32.to_be_bytes()];
    let section = [head.concat(), pairs].concat();
    let body_at = section.len() as u32;
    let wire = [&section[..], b"\x00\x53\x75\xa0\x02hi"].concat();
    Message::new(Parts { wire: wire.into(), body_at, ..Parts::default() }, Arc::new(Route::simple("", "q")))
}

/// Tests that a message which waits for another consumer is measured once, not in every turn.
#[test]
fn a_message_that_is_too_large_is_measured_once() {
    let mut fifo = Fifo::new(Config::new("q"));
    let mut out = Output::default();
    let consumer = ConsumerId(1);
    let attach = Attach {
        consumer,
        mode: Mode::Take,
        priority: 0,
        exclusive: false,
        settled: false,
        delivery_count: 0,
        message_bytes_max: Some(DeliveryMax::Head(4096)),
        timeout: ConsumerTimeout::default(),
    };
    fifo.apply(Request::Attach(attach), 0, &mut out, &mut Nobody);
    let publish = Publish { publisher: PublisherId(1), seq: 1, message: to_convert(), pipelines: false };
    let grant = |fifo: &mut Fifo, out: &mut Output, credit| {
        let grant = Request::Grant { consumer, delivery_count: 0, credit, drain: false, echo: false };
        fifo.apply(grant, 0, out, &mut Nobody);
    };
    fifo.apply(Request::Publish(publish), 0, &mut out, &mut Nobody);
    let before = ALLOCATIONS.get();
    grant(&mut fifo, &mut out, 1);
    assert!(ALLOCATIONS.get() > before, "it was measured");
    let before = ALLOCATIONS.get();
    (2..100).for_each(|credit| grant(&mut fifo, &mut out, credit));
    assert_eq!(ALLOCATIONS.get() - before, 0);
    let report = fifo.report();
    assert_eq!((report.ready, report.delivered, out.too_large), (1, 0, 1));
    assert!(report.next_head_bytes > Some(5000));
}
