//! A frame that makes more bytes of records than one turn should write.

use amqp10::{DeliveryState, Map, Modified, Role, Symbol};
use broker::settings::Settings;
use catalog::Arguments;
use catalog::ids::QueueId;

use super::house::House;

const MESSAGES: u32 = 1000;

/// The size of each message's annotations. It is nearly the most that is allowed.
const ANNOTATED: usize = 15_000;

/// The most bytes that a turn may write, in addition to those of one more run of each queue.
const TURN_MAX: usize = 4 << 20;

/// A queue with all its messages at one consumer. The consumer requeues all of them in one frame, with
/// annotations.
struct Flood {
    house: House,
    queue: QueueId,
    consumer: usize,
}

impl Flood {
    fn new() -> Self {
        let mut house = House::new(1, Settings::default());
        let queue = house.declare("flooded", Arguments::new());
        let (publisher, consumer) = (house.connect(0), house.connect(0));
        let out = house.sender(publisher, "/queues/flooded");
        for _ in 0..MESSAGES {
            house.send(publisher, out, b"x");
        }
        let link = house.receiver(consumer, "/queues/flooded");
        house.grant(consumer, link, MESSAGES);
        Self { house, queue, consumer }
    }

    fn annotate(&mut self) {
        let pair = (Symbol::from_static("x-opt-flood").into(), "x".repeat(ANNOTATED).into());
        let state = Modified { message_annotations: Some(Map(vec![pair])), ..Default::default() };
        let conn = &mut self.house.peers[self.consumer].conn;
        conn.disposition(0, Role::Receiver, (0, MESSAGES - 1), true, &DeliveryState::Modified(state));
    }

    fn ready(&self) -> u64 {
        self.house.shards[0].queue_report(self.queue).expect("the queue").ready
    }
}

#[test]
fn a_turn_writes_a_part_and_continues_when_that_is_written() {
    let mut flood = Flood::new();
    flood.house.log_stopped = true;
    flood.annotate();
    let mut before = 0;
    for _ in 0..MESSAGES {
        flood.house.settle();
        let given = flood.house.unlogged_bytes();
        assert!(given < TURN_MAX, "{given}");
        let ready = flood.ready();
        assert!(ready > before, "each turn gets on: {before}, {ready}");
        before = ready;
        if ready == u64::from(MESSAGES) {
            return;
        }
        flood.house.answer_as_log();
    }
    panic!("{before} of {MESSAGES} have come back");
}

#[test]
fn other_queues_are_served_meanwhile() {
    let mut flood = Flood::new();
    flood.house.declare("quiet", Arguments::new());
    let quiet = flood.house.connect(0);
    let out = flood.house.sender(quiet, "/queues/quiet");
    flood.house.log_stopped = true;
    flood.annotate();
    flood.house.settle();
    flood.house.say(quiet, out, b"y");
    flood.house.settle();
    for _ in 0..2 {
        assert!(flood.ready() < u64::from(MESSAGES) / 2);
        assert!(flood.house.peers[quiet].outcomes.is_empty());
        flood.house.answer_as_log();
        flood.house.settle();
    }
    assert_eq!(flood.house.peers[quiet].outcomes, ["Accepted"]);
}
