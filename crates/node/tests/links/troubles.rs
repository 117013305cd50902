//! What the list of troubles finds in real machines.

use std::collections::HashMap;

use amqp10::{Described, Map, Role, Source, Symbol, Target, Value};
use broker::explain::{HELD_LONG_MS, Kind, OBJECTS_MAX, Trouble, Troubles};
use broker::settings::Settings;

use super::client091::Client091;
use super::house::House;

impl House {
    /// Returns what the admin API collects from all shards, of the virtual host `/`.
    pub(super) fn troubles(&self) -> Troubles {
        let mut all = Troubles::default();
        for shard in &self.shards {
            let mut from = Some(0);
            while let Some(place) = from {
                let part = shard.troubles(None, place);
                from = part.next;
                for (vhost, troubles) in part.rows {
                    assert_eq!(&*vhost, "/");
                    all.merge(troubles);
                }
            }
        }
        let mut comers = HashMap::new();
        for (comer, count) in self.shards.iter().flat_map(|shard| shard.brief_clients(None)) {
            *comers.entry(comer).or_default() += count;
        }
        comers.iter().for_each(|(comer, count)| all.add_comer(comer, *count));
        all
    }

    /// Lets time pass.
    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.shards.iter_mut().for_each(|shard| shard.set_now(self.now_ms));
    }
}

/// Returns the troubles with the names of their objects.
fn found(house: &House) -> Vec<(Trouble, u64, Vec<String>)> {
    let groups = house.troubles().groups.into_iter();
    let names = |objects: Vec<broker::explain::Object>| {
        objects.into_iter().map(|object| object.name.to_string()).collect::<Vec<_>>()
    };
    groups.map(|(trouble, group)| (trouble, group.count, names(group.objects))).collect()
}

/// No client has to send heartbeats, however much time passes.
fn settings() -> Settings {
    Settings { heartbeat_s: 0, ..Settings::default() }
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn declare(house: &mut House, name: &str, arguments: &[(&str, Value)]) {
    house.declare(name, arguments.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect());
}

fn one(trouble: Trouble, name: &str) -> (Trouble, u64, Vec<String>) {
    (trouble, 1, vec![name.to_owned()])
}

#[test]
fn nothing_is_wrong_with_queues_that_work() {
    let mut h = House::new(2, settings());
    for (name, kind) in [("c", "classic"), ("q", "quorum"), ("s", "stream")] {
        declare(&mut h, name, &[("x-queue-type", text(kind))]);
    }
    let (publisher, consumer) = (h.connect(0), h.connect(1));
    for name in ["c", "q", "s"] {
        let out = h.sender(publisher, &format!("/queues/{name}"));
        h.send(publisher, out, b"1");
        // Only a stream takes the filter of a reader.
        let address = format!("/queues/{name}");
        let link = if name == "s" { h.reader(consumer, &address) } else { h.receiver(consumer, &address) };
        h.grant(consumer, link, 9);
    }
    assert_eq!(found(&h), []);
    let troubles = h.troubles();
    assert_eq!((troubles.queues, troubles.connections), (3, 2));
}

#[test]
fn a_queue_without_a_consumer_grows_or_waits() {
    let mut h = House::new(2, settings());
    declare(&mut h, "q", &[]);
    // A stream that nobody reads is as it should be, and so is a queue that delays what it gets.
    declare(&mut h, "s", &[("x-queue-type", text("stream"))]);
    let delays = [("x-message-ttl", Value::Uint(1_000_000)), ("x-dead-letter-exchange", text("amq.fanout"))];
    declare(&mut h, "delay", &delays);
    let publisher = h.connect(1);
    for name in ["q", "s", "delay"] {
        let out = h.sender(publisher, &format!("/queues/{name}"));
        h.send(publisher, out, b"1");
    }
    assert_eq!(found(&h), [one(Trouble::QueueWithoutConsumer, "q")]);
    let object = h.troubles().groups.remove(&Trouble::QueueWithoutConsumer).unwrap().objects.remove(0);
    assert_eq!((object.kind, object.vhost.as_deref()), (Kind::Queue, Some("/")));
    assert!(object.numbers.contains(&("queue_ready", 1)), "{object:?}");
    h.wait(60_000);
    assert_eq!(found(&h), [one(Trouble::MessagesWithoutConsumer, "q")]);
    h.receiver(publisher, "/queues/q");
    assert_eq!(found(&h), []);
}

/// When the consumers of a work queue are gone, its messages expire and become dead letters, which is a trouble. A queue that clients
/// poll with `basic.get` is only worth a notice.
#[test]
fn a_work_queue_that_has_lost_its_consumers_is_no_delay() {
    let mut h = House::new(1, settings());
    let dies = [("x-message-ttl", Value::Uint(1_000_000)), ("x-dead-letter-exchange", text("amq.fanout"))];
    declare(&mut h, "work", &dies);
    declare(&mut h, "polled", &[]);
    let mut client = Client091::open(&mut h, &[1]);
    client.consume(&mut h, 1, "work");
    client.publish(&mut h, 1, "work", 1);
    client.publish(&mut h, 1, "polled", 1);
    client.get(&mut h, 1, "polled", 1);
    client.publish(&mut h, 1, "polled", 1);
    client.cancel(&mut h, 1, "work");
    client.publish(&mut h, 1, "work", 1);
    assert_eq!(
        found(&h),
        [one(Trouble::QueueWithoutConsumer, "work"), one(Trouble::MessagesWithoutConsumer, "polled")]
    );
}

#[test]
fn a_queue_at_its_limit_refuses() {
    let mut h = House::new(1, settings());
    declare(&mut h, "q", &[("x-max-length", Value::Uint(1)), ("x-overflow", text("reject-publish"))]);
    let peer = h.connect(0);
    let out = h.sender(peer, "/queues/q");
    h.receiver(peer, "/queues/q");
    h.send(peer, out, b"1");
    assert_eq!(found(&h), [one(Trouble::QueueFull, "q")]);
    (0..3).for_each(|_| h.send(peer, out, b"2"));
    assert_eq!(found(&h), [one(Trouble::QueueRejects, "q")]);
    let object = h.troubles().groups.remove(&Trouble::QueueRejects).unwrap().objects.remove(0);
    assert!(object.numbers.contains(&("queue_rejected_a_minute", 3)), "{object:?}");
    h.wait(60_000);
    assert_eq!(found(&h), [one(Trouble::QueueFull, "q")]);
}

/// In both protocols. The consumer may hold two, and a third one waits.
#[test]
fn a_consumer_that_settles_nothing_is_found() {
    let mut h = House::new(1, Settings { max_unsettled_per_consumer: 2, ..settings() });
    declare(&mut h, "q", &[]);
    let mut client = Client091::open(&mut h, &[1]);
    client.consume(&mut h, 1, "q");
    client.publish(&mut h, 1, "q", 3);
    h.wait(HELD_LONG_MS - 2_000);
    assert_eq!(found(&h), [], "it may only be slow");
    h.wait(4_000);
    let troubles = found(&h);
    assert_eq!((troubles.len(), troubles[0].0, troubles[0].1), (1, Trouble::ConsumerHoldsAll, 1));

    let mut h = House::new(2, settings());
    declare(&mut h, "q", &[]);
    let (publisher, consumer, free) = (h.connect(0), h.connect(1), h.connect(1));
    let out = h.sender(publisher, "/queues/q");
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    (0..2).for_each(|_| h.send(publisher, out, b"1"));
    let link = h.receiver(free, "/queues/q");
    h.grant(free, link, 9);
    h.wait(HELD_LONG_MS + 2_000);
    // The other one may get more.
    let object = h.troubles().groups.remove(&Trouble::ConsumerHoldsAll).unwrap();
    assert_eq!(object.count, 1);
    let numbers = &object.objects[0].numbers;
    let expected = [("connection_consumers", 1), ("connection_unsettled", 1)];
    assert!(expected.iter().all(|number| numbers.contains(number)), "{numbers:?}");
}

/// In both protocols, and of both types of queue.
#[test]
fn messages_that_go_round_are_found() {
    for kind in ["classic", "quorum"] {
        let mut h = House::new(2, settings());
        declare(&mut h, "q", &[("x-queue-type", text(kind))]);
        let (publisher, consumer) = (h.connect(0), h.connect(1));
        let out = h.sender(publisher, "/queues/q");
        h.send(publisher, out, b"1");
        let link = h.receiver(consumer, "/queues/q");
        h.grant(consumer, link, 100);
        (0..10).for_each(|id| h.release(consumer, id));
        assert_eq!(found(&h), [], "so few are no loop");
        h.release(consumer, 10);
        assert_eq!(found(&h), [one(Trouble::RequeueLoop, "q")]);
        let object = h.troubles().groups.remove(&Trouble::RequeueLoop).unwrap().objects.remove(0);
        assert!(object.numbers.contains(&("queue_looped_a_minute", 10)), "{object:?}");
        h.accept(consumer, 11);
        assert_eq!(found(&h), [], "the message has left");

        let mut client = Client091::open(&mut h, &[1]);
        declare(&mut h, "other", &[("x-queue-type", text(kind))]);
        client.consume(&mut h, 1, "other");
        client.publish(&mut h, 1, "other", 1);
        (1..=11).for_each(|tag| client.give_back(&mut h, 1, tag));
        assert_eq!(found(&h), [one(Trouble::RequeueLoop, "other")]);
        h.wait(60_000);
        assert_eq!(found(&h), [], "it was long ago");
    }
}

#[test]
fn filters_that_are_not_in_effect_are_found() {
    let mut h = House::new(2, settings());
    declare(&mut h, "q", &[]);
    let consumer = h.connect(1);
    h.receiver(consumer, "/queues/q");
    assert_eq!(found(&h), []);
    let expression =
        Described { descriptor: Symbol::from_static("amqp:sql-filter").into(), value: "a = 1".into() };
    let filter = Map(vec![(Symbol::from_static("f").into(), expression.into())]);
    let source = Source { address: Some("/queues/q".into()), filter: Some(filter), ..Source::default() };
    h.attach(consumer, Role::Receiver, source, Target::default());
    let group = h.troubles().groups.remove(&Trouble::FilterLeftOut).expect("it is left out");
    assert_eq!((group.count, group.objects[0].kind), (1, Kind::Connection));
    assert_eq!(group.objects[0].numbers, [("connection_filters_left_out", 1)]);
}

/// On all shards together.
#[test]
fn clients_that_come_again_and_again_are_found() {
    let mut h = House::new(2, settings());
    let mut peers: Vec<usize> = (0..30).map(|number| h.connect(number % 2)).collect();
    let mut leave = |h: &mut House, count: usize| {
        for peer in peers.drain(..count) {
            let (shard, key) = (h.peers[peer].shard, h.peers[peer].key);
            h.shards[shard].disconnect(key);
        }
    };
    h.wait(5_000);
    leave(&mut h, 9);
    assert_eq!(found(&h), []);
    leave(&mut h, 1);
    let troubles = found(&h);
    assert_eq!((troubles.len(), troubles[0].0, troubles[0].1), (1, Trouble::ClientsReconnect, 1));
    assert_eq!(troubles[0].2.len(), 1);
    h.wait(60_000);
    assert_eq!(found(&h), []);
    // Those that have stayed for long do not count, however many they are.
    leave(&mut h, 20);
    assert_eq!(found(&h), []);
}

#[test]
fn many_queues_with_the_same_trouble_are_one_entry() {
    let mut h = House::new(2, settings());
    let publisher = h.connect(0);
    for number in 0..30_u32 {
        let name = format!("q{number:02}");
        declare(&mut h, &name, &[]);
        let out = h.sender(publisher, &format!("/queues/{name}"));
        (0..=number % 20).for_each(|_| h.send(publisher, out, b"1"));
    }
    let (trouble, count, names) = found(&h).remove(0);
    assert_eq!((trouble, count, names.len()), (Trouble::QueueWithoutConsumer, 30, OBJECTS_MAX));
    assert_eq!(names[..4], ["q19", "q18", "q17", "q16"], "the longest first");
    assert_eq!(names[OBJECTS_MAX - 1], "q10");
}
