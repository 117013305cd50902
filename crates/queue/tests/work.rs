//! Checks that a warm queue accepts, delivers and removes messages without allocating.

use std::sync::Arc;

use message::{Message, Parts, Route};
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
