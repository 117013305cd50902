//! A quorum queue on a shard whose clock shows less after a restart. The log writes at once, to a simulated disk.

use std::sync::Arc;

use crate::asks::Asks;
use crate::recovered;
use amqp10::{Map, Symbol, Value};
use broker::mail::{SeatKey, SeatMail};
use broker::settings::Settings;
use catalog::access::Access;
use catalog::ids::QueueId;
use catalog::{Command, DeclareQueue};
use message::{Annotations, Message, Parts, Route};
use node::recovery::Recovered;
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{
    Attach, ConsumerId, ConsumerTimeout, Delivery, Effect, Mode, Outcome, Publish, Report, Request,
    SettleAnswer,
};
use wal::{Log, Options};
use wal_testing::SimDisk;

const HOUR_MS: u64 = 3_600_000;
const NOW_MS: u64 = 400_000 * HOUR_MS;

struct Node {
    disk: SimDisk,
    log: Log<SimDisk>,
    shard: Shard,
    now_ms: u64,
    seat: SeatKey,
}

impl Node {
    fn start(disk: SimDisk, now_ms: u64) -> Self {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let options = Options { seed: Some(1), ..Options::default() };
        let recovered = recovered::start(&disk, options, &access, false, None).unwrap();
        let Recovered { restored, log, recovery, .. } = recovered;
        assert_eq!(recovery.damage, []);
        let mut shard =
            make_shards(restored, 1, &settings, &access, StorageLimits::default(), now_ms).remove(0);
        let seat = SeatKey { origin: Default::default(), link: 1 };
        shard.open_seat(seat);
        let mut node = Self { disk, log, shard, now_ms, seat };
        node.settle();
        node
    }

    /// Ends the process. The next one starts on a clock that shows `ms` less.
    fn restart_earlier(self, ms: u64) -> Self {
        let Self { disk, log, shard, now_ms, .. } = self;
        drop((log, shard));
        Self::start(disk, now_ms - ms)
    }

    fn settle(&mut self) {
        self.shard.set_now(self.now_ms);
        self.shard.handle_timeout();
        loop {
            while self.shard.turn() {}
            let (mut handovers, mut done) = (Vec::from_iter(self.shard.poll_handover()), Vec::new());
            if handovers.is_empty() {
                return;
            }
            self.log.append(&mut handovers, &mut done);
            if let Some(sync) = self.log.begin_sync(&mut done) {
                self.log.end_sync(sync.run(), &mut done);
            }
            done.into_iter().for_each(|completion| self.shard.handle_logged(completion));
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.settle();
    }

    fn declare(&mut self, arguments: &[(&str, Value)]) -> QueueId {
        let quorum = ("x-queue-type", Value::from("quorum"));
        let arguments = [&[quorum], arguments].concat();
        let arguments = arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.shard.propose(
            Command::DeclareQueue(DeclareQueue::new("/", "q", arguments)),
            Box::new(|result| {
                assert!(result.is_ok(), "{result:?}");
            }),
        );
        self.settle();
        self.shard.catalog().queues_in("/").next().unwrap()
    }

    fn ask(&mut self, queue: QueueId, request: Request) {
        self.shard.handle_seat_requests([(queue, request)]);
        self.settle();
    }

    fn publish(&mut self, queue: QueueId) {
        let publisher = self.shard.add_seat_publisher(self.seat).unwrap();
        let parts = Parts { wire: b"\x00\x53\x75\xa0\x01x".to_vec().into(), ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("", "q")));
        self.ask(queue, Request::Publish(Publish { publisher, seq: 1, message, pipelines: false }));
        let mail = self.shard.poll_seat(self.seat);
        assert!(mail.iter().any(|mail| matches!(mail, SeatMail::Receipts { .. })), "{mail:?}");
    }

    /// Adds a consumer with credit for many messages.
    fn consume(&mut self, queue: QueueId, own_ms: Option<u64>) -> ConsumerId {
        let consumer = self.shard.add_seat_consumer(self.seat, queue).unwrap();
        let attach = Attach {
            consumer,
            mode: Mode::Take,
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
            timeout: ConsumerTimeout { own_ms, default_ms: None },
        };
        self.ask(queue, Request::Attach(attach));
        let grant = Request::Grant { consumer, delivery_count: 0, credit: 99, drain: false, echo: false };
        self.ask(queue, grant);
        consumer
    }

    fn deliveries(&mut self) -> Vec<Delivery> {
        let mail = self.shard.poll_seat(self.seat).into_iter();
        mail.filter_map(|mail| match mail {
            SeatMail::Effect(Effect::Delivery(delivery)) => Some(delivery),
            _ => None,
        })
        .collect()
    }

    fn report(&self, queue: QueueId) -> Report {
        self.shard.queue_report(queue).unwrap()
    }
}

#[test]
fn a_message_expires_in_time_after_the_clock_was_set_back() {
    let mut node = Node::start(SimDisk::new(1), NOW_MS);
    let queue = node.declare(&[("x-message-ttl", Value::Ulong(1000))]);
    node.publish(queue);
    let mut node = node.restart_earlier(HOUR_MS);
    node.pass(600);
    assert_eq!(node.report(queue).ready, 1);
    node.publish(queue);
    node.pass(400);
    assert_eq!(node.report(queue).ready, 1, "the first message is gone after a second");
    node.pass(599);
    let report = node.report(queue);
    assert_eq!((report.ready, report.head_at_ms), (1, Some(node.now_ms - 999)));
    node.pass(1);
    assert_eq!(node.report(queue).ready, 0);
}

#[test]
fn a_delay_ends_in_time_after_the_clock_was_set_back() {
    let mut node = Node::start(SimDisk::new(2), NOW_MS);
    let delayed = [("x-delayed-retry-type", Value::from("all")), ("x-delayed-retry-min", Value::Ulong(1000))];
    let queue = node.declare(&delayed);
    node.publish(queue);
    let mut node = node.restart_earlier(HOUR_MS);
    let consumer = node.consume(queue, None);
    assert_eq!(node.deliveries().len(), 1);
    let settle = |outcome, number| {
        let answer = SettleAnswer::Never;
        Request::Settle { consumer, first: number, last: number, outcome, answer }
    };
    node.ask(queue, settle(Outcome::Released, 1));
    node.pass(999);
    assert_eq!(node.deliveries().len(), 0);
    node.pass(1);
    assert_eq!(node.deliveries().len(), 1);
    // The consumer asks for a time of the clock that it knows.
    let at_ms = (node.now_ms + 5000) as i64;
    let annotations = Annotations::from_map(
        &[(Symbol::from("x-opt-delivery-time"), Value::Timestamp(at_ms))].into_iter().collect::<Map>(),
    );
    let modified = Outcome::Modified {
        failed: false,
        undeliverable_here: false,
        annotations: annotations.ok().map(Box::new),
    };
    node.ask(queue, settle(modified, 2));
    node.pass(4999);
    assert_eq!(node.deliveries().len(), 0);
    node.pass(1);
    assert_eq!(node.deliveries().len(), 1);
}

#[test]
fn an_unused_queue_expires_in_time_after_the_clock_was_set_back() {
    let mut node = Node::start(SimDisk::new(3), NOW_MS);
    let queue = node.declare(&[("x-expires", Value::Ulong(1000))]);
    node.publish(queue);
    let mut node = node.restart_earlier(HOUR_MS);
    node.pass(999);
    assert!(node.shard.queue_report(queue).is_some());
    node.pass(1);
    node.settle();
    assert!(node.shard.queue_report(queue).is_none());
}

#[test]
fn a_delivery_is_taken_back_in_time_after_the_clock_was_set_back() {
    let mut node = Node::start(SimDisk::new(4), NOW_MS);
    let queue = node.declare(&[]);
    node.publish(queue);
    let mut node = node.restart_earlier(HOUR_MS);
    let _slow = node.consume(queue, Some(60_000));
    assert_eq!(node.deliveries().len(), 1);
    node.consume(queue, None);
    node.pass(59_999);
    assert_eq!(node.deliveries().len(), 0);
    // It is checked every few seconds.
    (0..10).for_each(|_| node.pass(6_000));
    assert_eq!(node.deliveries().len(), 1);
}
