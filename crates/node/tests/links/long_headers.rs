//! Messages whose content headers do not fit into a frame of a client of AMQP 0.9.1.

use amqp10::Value;
use broker::explain::{Cause, Explanation, Subject};
use broker::settings::Settings;
use catalog::Arguments;

use super::client091::Client091;
use super::house::House;

/// The `frame_max` of the client with small frames.
const SMALL: u32 = 4096;

/// Returns the arguments of a queue of this type.
fn arguments(queue_type: &str, others: &[(&str, Value)]) -> Arguments {
    let of_type = ("x-queue-type", Value::String(queue_type.to_owned()));
    let all = others.iter().chain([&of_type]);
    all.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

struct Scene {
    house: House,
    publisher: Client091,
    small: Client091,
}

impl Scene {
    fn new(queue_type: &str) -> Self {
        let mut house = House::new(1, Settings::default());
        house.declare("q", arguments(queue_type, &[]));
        let publisher = Client091::open(&mut house, &[1]);
        let small = Client091::open_with_frames(&mut house, SMALL);
        Self { house, publisher, small }
    }

    fn publish(&mut self, bodies: &[&'static str], frame_len: usize) {
        self.publish_to("q", bodies, frame_len);
    }

    fn publish_to(&mut self, queue: &str, bodies: &[&'static str], frame_len: usize) {
        self.publisher.publish_headed(&mut self.house, queue, bodies, frame_len);
        self.small.settle(&mut self.house);
    }

    fn consume(&mut self) {
        self.small.consume(&mut self.house, 1, "q");
    }

    fn explain(&self) -> Explanation {
        self.house.explain(&Subject::Queue { vhost: "/".into(), name: "q".into() })
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.explain().numbers.iter().find(|(found, _)| *found == name).map(|(_, number)| *number)
    }

    /// Returns the number of messages that did not go to a consumer because of their size.
    fn too_large(&self) -> u64 {
        self.house.shards.iter().map(|shard| shard.counters.deliveries_too_large).sum()
    }
}

#[test]
fn a_long_header_waits_for_another_consumer_and_explain_names_it() {
    for queue_type in ["classic", "quorum"] {
        let mut scene = Scene::new(queue_type);
        scene.consume();
        scene.publish(&["fits"], SMALL as usize);
        scene.publish(&["long"], SMALL as usize + 1);
        scene.publish(&["after"], 100);
        assert_eq!(scene.small.bodies, ["fits"], "{queue_type}");
        assert_eq!(scene.explain().cause, Cause::MessageTooLarge);
        let numbers = [
            ("queue_next_header_bytes", u64::from(SMALL) + 1),
            ("link_frame_max_bytes", SMALL.into()),
            ("queue_ready", 2),
        ];
        for (name, number) in numbers {
            assert_eq!(scene.number(name), Some(number), "{name}");
        }
        assert_eq!(scene.explain().at.map(|place| place.name), Some("q".to_owned()));
        assert_eq!(scene.too_large(), 1);
        // More messages do not make it count again, and settling does not free it.
        scene.publish(&["more"], 100);
        let tag = scene.small.last_tag();
        scene.small.ack(&mut scene.house, 1, tag);
        assert_eq!((scene.small.bodies.len(), scene.too_large()), (1, 1));
        // It moves at once when a consumer comes that takes it.
        let mut large = Client091::open_with_frames(&mut scene.house, 8192);
        large.consume(&mut scene.house, 1, "q");
        assert!(large.bodies.contains(&"long".into()), "{queue_type}: {:?}", large.bodies);
        scene.small.settle(&mut scene.house);
        let mut all = [&scene.small.bodies[..], &large.bodies].concat();
        all.sort();
        assert_eq!(all, ["after", "fits", "long", "more"]);
        assert_eq!(scene.too_large(), 1);
        assert!(scene.small.is_open(&mut scene.house) && scene.small.closed_channel.is_none());
    }
}

#[test]
fn basic_get_names_it_and_leaves_it_in_the_queue() {
    for queue_type in ["classic", "quorum"] {
        let mut scene = Scene::new(queue_type);
        scene.publish(&["short"], 100);
        scene.publish(&["long"], SMALL as usize + 1);
        scene.small.get(&mut scene.house, 1, "q", 2);
        assert_eq!(scene.small.bodies, ["short"]);
        let (code, text) = scene.small.closed_channel.clone().expect("the channel is closed");
        assert_eq!(code, 406);
        assert!(text.contains("need a frame of 4097 bytes"), "{text}");
        assert_eq!((scene.number("queue_ready"), scene.number("queue_unsettled")), (Some(1), Some(0)));
        assert_eq!(scene.too_large(), 1);
        assert!(scene.small.is_open(&mut scene.house));
        scene.publisher.get(&mut scene.house, 1, "q", 1);
        assert_eq!(scene.publisher.bodies, ["long"]);
    }
}

#[test]
fn a_long_header_that_expires_frees_what_waits_behind_it() {
    for queue_type in ["classic", "quorum"] {
        let mut scene = Scene::new(queue_type);
        let arguments = arguments(queue_type, &[("x-message-ttl", Value::Uint(1000))]);
        scene.house.declare("short-lived", arguments);
        scene.small.consume(&mut scene.house, 1, "short-lived");
        scene.publish_to("short-lived", &["long"], SMALL as usize + 1);
        scene.house.now_ms += 600;
        scene.publish_to("short-lived", &["after"], 100);
        assert!(scene.small.bodies.is_empty());
        scene.house.now_ms += 600;
        scene.publish_to("short-lived", &["last"], 100);
        assert_eq!(scene.small.bodies, ["after", "last"], "{queue_type}");
    }
}

#[test]
fn the_consumer_of_a_stream_gets_nothing_after_it() {
    let mut scene = Scene::new("stream");
    scene.publish(&["long"], SMALL as usize + 1);
    scene.publish(&["after"], 100);
    scene.small.limit_prefetch(&mut scene.house, 1, 10);
    scene.small.consume_from_first(&mut scene.house, 1, "q");
    assert!(scene.small.bodies.is_empty());
    // The client does not understand `basic.cancel`.
    let (code, text) = scene.small.closed_channel.clone().expect("the channel is closed");
    assert_eq!(code, 406);
    assert!(text.contains("the next message of queue 'q'"), "{text}");
    assert_eq!(scene.too_large(), 1);
    assert!(scene.small.is_open(&mut scene.house) && !scene.small.was_cancelled);
}
