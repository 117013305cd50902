//! Consumers whose credit changes all the time, and many messages.

use amqp10::{DeliveryState, Value};
use broker::settings::Settings;
use wal_testing::Random;

use super::client::{Client, End, Hello, STREAM};
use super::world::World;

const HELLO: Hello = Hello { max_frame_size: 65_536, window: 1_000_000, start: u32::MAX - 9 };
const WINDOW: u32 = 1_000_000;
/// The largest credit. It is so low that the credit changes all the time.
const CREDIT_MAX: u64 = 300;
/// The smallest size of one delivery frame, in bytes. A client that reads this much at a time sees every
/// single frame.
const DELIVERY: usize = 60;

/// The types of the queues that the tests use.
const TYPES: [&str; 3] = ["classic", "quorum", "stream"];

/// Makes a queue of this type on the first shard, its publisher there, and its consumer on the second shard.
fn world(kind: &str, settled: bool) -> (World, Client, Client) {
    let mut world = World::new(2, Settings { heartbeat_s: 0, ..Settings::default() });
    let queue = name(kind);
    world.declare(queue, &[("x-queue-type", Value::String(kind.into()))]);
    world.place(queue, 0);
    let mut publisher = Client::connect(&mut world, 0, HELLO);
    publisher.publisher(&mut world, 0, queue);
    let mut consumer = Client::connect(&mut world, 1, HELLO);
    consumer.consumer(&mut world, 0, queue, settled, 0);
    world.settle();
    publisher.read(&mut world, usize::MAX);
    consumer.read(&mut world, usize::MAX);
    (world, publisher, consumer)
}

/// Returns the name of the queue of this type.
fn name(kind: &str) -> &str {
    if kind == "stream" { STREAM } else { "q" }
}

/// Publishes as many messages as link and session allow, up to `max`. Returns the number.
fn publish(world: &mut World, client: &mut Client, max: u64) -> u64 {
    (0..max).take_while(|_| client.publish(world, 0, (true, true), 12, 1)).count() as u64
}

/// Returns the number of deliveries so far, of unsettled ones, and the credit.
fn standing(client: &Client) -> (u64, usize, u64) {
    match &client.links[&0].end {
        End::Consumer(consumer) => (consumer.got, consumer.unsettled.len(), consumer.credit()),
        End::Publisher(_) => unreachable!("it consumes"),
    }
}

#[test]
fn messages_under_credit_that_changes_all_the_time() {
    for (kind, settled) in TYPES.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        change_credit(kind, settled);
    }
}

fn change_credit(kind: &str, settled: bool) {
    const MESSAGES: u64 = 30_000;
    let mut random = Random(27);
    let (mut world, mut publisher, mut consumer) = world(kind, settled);
    let (mut sent, mut flows) = (0, 0);
    while standing(&consumer).0 < MESSAGES {
        sent += publish(&mut world, &mut publisher, MESSAGES - sent);
        let (_, held, _) = standing(&consumer);
        consumer.settle(&mut world, 0, random.below(held as u64 + 1) as usize, &DeliveryState::Accepted);
        let credit = random.below(CREDIT_MAX) as u32;
        consumer.flow(&mut world, Some((0, credit)), WINDOW, random.one_in(10), random.one_in(10));
        flows += 1;
        assert!(flows < MESSAGES, "{kind} stalls with {sent} sent: {:?}", standing(&consumer));
        // Each time, the broker and the consumer know a different part of each other's state.
        for _ in 0..random.below(12) {
            let (a, b) = (random.below(2) as usize, random.below(2) as usize);
            match random.below(if kind == "stream" { 6 } else { 4 }) {
                0 | 1 => _ = world.turn(a),
                2 => _ = world.deliver_mail(a, b),
                3 => _ = world.answer_log(a),
                4 => _ = world.write_stream(a),
                _ => _ = world.read_stream(a),
            }
        }
        world.now_ms += random.below(3);
        let max = if random.one_in(3) { random.below(2_000) as usize } else { usize::MAX };
        consumer.read(&mut world, max);
        publisher.read(&mut world, usize::MAX);
    }
    world.settle();
    while consumer.read(&mut world, usize::MAX) > 0 {
        world.settle();
    }
    consumer.check_settled();
    let (got, held, _) = standing(&consumer);
    consumer.settle(&mut world, 0, held, &DeliveryState::Accepted);
    world.settle();
    let report = world.report(name(kind)).expect("it lives");
    assert_eq!((sent, got, flows > 150), (MESSAGES, MESSAGES, true), "{kind}: {flows} changes");
    assert_eq!((report.published, report.unsettled, report.redelivered), (MESSAGES, 0, 0));
    if kind == "stream" {
        return assert_eq!(report.ready, MESSAGES);
    }
    // Deliveries that were on their way to the link when credit was withdrawn count once, when they were sent.
    let delivered_settled = if settled { MESSAGES } else { 0 };
    let delivered = (report.delivered, report.delivered_settled);
    assert_eq!(delivered, (MESSAGES, delivered_settled), "{kind}, settled {settled}");
    assert_eq!(report.acknowledged, MESSAGES, "{kind}, settled {settled}");
    assert_eq!(report.ready, 0);
}

#[test]
fn a_delivery_on_its_way_when_credit_is_withdrawn_is_not_redelivered_later() {
    let (mut world, mut publisher, mut consumer) = world("classic", false);
    consumer.flow(&mut world, Some((0, 1)), WINDOW, false, false);
    world.settle();
    assert_eq!(publish(&mut world, &mut publisher, 1), 1);
    world.turn(0);
    let on_its_way = world.report("q").expect("it lives");
    assert_eq!((on_its_way.ready, on_its_way.unsettled, standing(&consumer).0), (0, 1, 0));
    consumer.flow(&mut world, Some((0, 0)), WINDOW, false, false);
    world.settle();
    consumer.read(&mut world, usize::MAX);
    let back = world.report("q").expect("it lives");
    assert_eq!((back.ready, back.unsettled, standing(&consumer).0), (1, 0, 0));
    consumer.flow(&mut world, Some((0, 1)), WINDOW, false, false);
    world.settle();
    consumer.read(&mut world, usize::MAX);
    let report = world.report("q").expect("it lives");
    assert_eq!((report.delivered, report.redelivered, standing(&consumer).0), (1, 0, 1));
}

#[test]
fn two_hundred_credits_topped_up_at_half_keep_a_consumer_supplied() {
    for (kind, settled) in TYPES.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        top_up_at_half(kind, settled);
    }
}

fn top_up_at_half(kind: &str, settled: bool) {
    const MESSAGES: u64 = 20_000;
    const CREDIT: u32 = 200;
    let half = u64::from(CREDIT / 2);
    let (mut world, mut publisher, mut consumer) = world(kind, settled);
    let (mut sent, mut flows) = (0, 0);
    while standing(&consumer).0 < MESSAGES {
        let before = standing(&consumer);
        // The test publishes more messages than the consumer can have at once.
        while sent < MESSAGES && sent - before.0 < 2 * u64::from(CREDIT) {
            sent += publish(&mut world, &mut publisher, MESSAGES - sent);
            world.settle();
            world.now_ms += 20;
            world.settle();
            publisher.read(&mut world, usize::MAX);
        }
        loop {
            let (_, held, credit) = standing(&consumer);
            assert!(credit <= u64::from(CREDIT) && held <= CREDIT as usize);
            if credit <= half {
                consumer.flow(&mut world, Some((0, CREDIT)), WINDOW, false, false);
                flows += 1;
            }
            if consumer.read(&mut world, DELIVERY) == 0 {
                break;
            }
        }
        let (got, held, credit) = standing(&consumer);
        consumer.settle(&mut world, 0, held, &DeliveryState::Accepted);
        world.settle();
        assert!(
            got == MESSAGES || got >= before.0 + half || before.2 == 0,
            "{kind}, settled {settled}: {before:?} and then {got}, {credit}"
        );
    }
    // There is one FLOW at first, and one for each half of the credit.
    let halves = MESSAGES / half;
    assert_eq!((sent, flows), (MESSAGES, 1 + halves), "{kind}, settled {settled}");
    let left = if kind == "stream" { MESSAGES } else { 0 };
    assert_eq!(world.report(name(kind)).map(|report| (report.ready, report.unsettled)), Some((left, 0)));
}
