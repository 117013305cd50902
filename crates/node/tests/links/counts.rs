//! The counters of shards for definitions, sessions and deliveries.

use broker::admin_api::{ProtocolRow, VhostNumbers};
use broker::exchange_counts::ExchangeCounts;
use broker::settings::Settings;
use catalog::Arguments;
use node::shard::Shard;

use super::client091::Client091;
use super::house::House;

#[test]
fn queues_are_counted_whoever_declares_them() {
    let mut house = House::new(2, Settings::default());
    house.declare("q", Arguments::new());
    house.declare("q", Arguments::new());
    let sums = |house: &House| {
        house.shards.iter().fold((0, 0), |(declared, created), shard| {
            (declared + shard.counters.queues_declared, created + shard.counters.queues_created)
        })
    };
    assert_eq!(sums(&house), (2, 1), "one was there already");
}

#[test]
fn sessions_are_counted_where_they_begin_and_end() {
    let mut house = House::new(2, Settings::default());
    let peer = house.connect(1);
    house.sender(peer, "/queues/q");
    let counts = |house: &House| {
        let shards = house.shards.iter();
        shards.map(|s| (s.counters.channels_opened, s.counters.channels_closed)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&house), [(0, 0), (1, 0)]);
    let key = house.peers[peer].key;
    house.shards[1].disconnect(key);
    assert_eq!(counts(&house), [(0, 0), (1, 1)]);
}

/// Returns the sums over all shards of what was published to an exchange: published, routed, returned, dropped.
fn counts_of(house: &House, name: &str) -> (u64, u64, u64, u64) {
    let catalog = house.shards[0].catalog();
    let (_, id, _) = (0..catalog.exchange_places())
        .filter_map(|place| catalog.exchange_at(place))
        .find(|(exchange, ..)| *exchange.name == *name)
        .unwrap();
    let mut sum = ExchangeCounts::default();
    house.shards.iter().for_each(|shard| sum += shard.counts_of_exchange(id));
    (sum.published, sum.routed, sum.unroutable_returned, sum.unroutable_dropped)
}

/// Returns what has passed over the sessions of a client: received, confirmed, returned, delivered, redelivered and
/// acknowledged.
fn passed(house: &mut House, peer: usize) -> Vec<[u64; 6]> {
    let key = house.peers[peer].key;
    let row = house.shards[0].conn(key).unwrap().gate.report(&"n".into(), (0, 0), 0).unwrap();
    let ProtocolRow::Amqp10(row) = row.protocol else { panic!("this is AMQP 1.0") };
    let counts = row.sessions.into_iter().map(|session| session.counts);
    let numbers = counts.map(|c| {
        let d = c.deliveries;
        [c.received, c.confirmed, c.returned, d.sent(), d.redelivered, d.acknowledged]
    });
    numbers.collect()
}

#[test]
fn sessions_count_what_passes_over_their_links() {
    let mut house = House::new(1, Settings::default());
    house.declare("q", Arguments::new());
    let peer = house.connect(0);
    let (out, nowhere) = (house.sender(peer, "/queues/q"), house.sender(peer, "/exchanges/amq.direct/k"));
    (0..3).for_each(|_| house.send(peer, out, b"1"));
    (0..2).for_each(|_| house.send(peer, nowhere, b"1"));
    assert_eq!(passed(&mut house, peer), [[5, 3, 2, 0, 0, 0]]);
    let link = house.receiver(peer, "/queues/q");
    house.grant(peer, link, 1);
    house.release(peer, 0);
    house.grant(peer, link, 1);
    assert_eq!(passed(&mut house, peer), [[5, 3, 2, 2, 1, 0]]);
    // A session keeps what has passed over links that have ended.
    house.delete("q");
    assert_eq!(passed(&mut house, peer), [[5, 3, 2, 2, 1, 0]]);
}

#[test]
fn queues_in_use_are_those_that_had_messages() {
    let mut house = House::new(2, Settings::default());
    for (name, kind) in [("a", "classic"), ("idle", "classic"), ("q", "quorum"), ("s", "stream")] {
        house.declare(name, [("x-queue-type".to_owned(), kind.into())].into());
    }
    let used = |house: &House| {
        let named = |shard: &Shard| {
            let rows = shard.used_queues(0).rows.into_iter();
            rows.map(|(id, passed)| (shard.catalog().queue_by_id(id).unwrap().name.to_string(), passed))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = house.shards.iter().flat_map(named).collect();
        all.sort();
        all
    };
    assert_eq!(used(&house), [] as [(String, u64); 0]);
    let (peer, other) = (house.connect(0), house.connect(1));
    for (peer, address) in [(peer, "/queues/a"), (other, "/queues/q"), (other, "/queues/s")] {
        let link = house.sender(peer, address);
        (0..3).for_each(|_| house.send(peer, link, b"1"));
    }
    // A link alone is no use of a queue.
    house.receiver(peer, "/queues/idle");
    let link = house.receiver(peer, "/queues/a");
    house.grant(peer, link, 2);
    let expected = [("a", 5), ("q", 3), ("s", 3)].map(|(name, passed)| (name.to_owned(), passed));
    assert_eq!(used(&house), expected);
}

/// Returns the statistics of the default virtual host: ready, unsettled, received, delivered.
fn vhost(house: &House) -> [u64; 4] {
    let mut sum = VhostNumbers::default();
    for shard in &house.shards {
        let mut next = Some(0);
        while let Some(from) = next {
            let part = shard.vhost_numbers(from);
            part.rows.iter().for_each(|(name, numbers)| {
                assert_eq!(**name, *"/");
                sum += *numbers;
            });
            next = part.next;
        }
    }
    assert!(sum.recv_bytes > 0);
    [sum.depth.ready, sum.depth.unsettled, sum.counts.received, sum.counts.deliveries.sent()]
}

#[test]
fn a_virtual_host_has_the_sums_over_its_queues_and_connections() {
    let mut house = House::new(2, Settings::default());
    house.declare("q", Arguments::new());
    house.declare("s", [("x-queue-type".to_owned(), "stream".into())].into());
    let (peer, other) = (house.connect(0), house.connect(1));
    for (peer, address) in [(peer, "/queues/q"), (other, "/queues/q"), (other, "/queues/s")] {
        let link = house.sender(peer, address);
        (0..3).for_each(|_| house.send(peer, link, b"1"));
    }
    let mut client = Client091::open(&mut house, &[1]);
    client.publish(&mut house, 1, "q", 2);
    let link = house.receiver(other, "/queues/q");
    house.grant(other, link, 2);
    assert_eq!(vhost(&house), [9, 2, 11, 2]);
    // What passed over a connection stays when it closes. Its unsettled deliveries are ready again.
    let key = house.peers[other].key;
    house.shards[1].disconnect(key);
    house.settle();
    assert_eq!(vhost(&house), [11, 0, 11, 2]);
}

#[test]
fn messages_are_counted_by_the_exchange_to_which_they_were_sent() {
    let mut house = House::new(2, Settings::default());
    for queue in ["a", "b"] {
        house.declare(queue, Arguments::new());
        house.bind("amq.fanout", queue, "");
    }
    house.bind("amq.direct", "a", "k");
    let (peer, other) = (house.connect(0), house.connect(1));
    for (peer, address, messages) in [
        (peer, "/exchanges/amq.fanout", 3),
        (other, "/exchanges/amq.fanout", 2),
        (peer, "/queues/a", 4),
        (peer, "/exchanges/amq.direct/k", 1),
        (peer, "/exchanges/amq.direct/nowhere", 5),
    ] {
        let link = house.sender(peer, address);
        (0..messages).for_each(|_| house.send(peer, link, b"1"));
    }
    assert_eq!(counts_of(&house, "amq.fanout"), (5, 10, 0, 0));
    assert_eq!(counts_of(&house, ""), (4, 4, 0, 0));
    assert_eq!(
        counts_of(&house, "amq.direct"),
        (6, 1, 5, 0),
        "a sender of AMQP 1.0 gets released messages back"
    );
    assert_eq!(counts_of(&house, "amq.topic"), (0, 0, 0, 0));
}

#[test]
fn a_link_whose_messages_name_their_exchange_counts_for_each() {
    let mut house = House::new(1, Settings::default());
    house.declare("a", Arguments::new());
    house.bind("amq.direct", "a", "k");
    let mut client = Client091::open(&mut house, &[1]);
    for (exchange, key, messages) in [
        ("", "a", 2),
        ("amq.direct", "k", 3),
        ("", "a", 1),
        ("amq.direct", "nowhere", 4),
        ("amq.headers", "", 1),
    ] {
        client.publish_to(&mut house, 1, (exchange, key), messages);
    }
    assert_eq!(counts_of(&house, ""), (3, 3, 0, 0));
    assert_eq!(counts_of(&house, "amq.direct"), (7, 3, 0, 4));
    assert_eq!(counts_of(&house, "amq.headers"), (1, 0, 0, 1), "whose routes are never cached");
}

#[test]
fn deliveries_are_counted_by_the_type_of_their_queue() {
    let mut house = House::new(1, Settings::default());
    house.declare("c", Arguments::new());
    house.declare("s", [("x-queue-type".to_owned(), "stream".into())].into());
    let peer = house.connect(0);
    for (address, messages) in [("/queues/c", 2), ("/queues/s", 3)] {
        let out = house.sender(peer, address);
        (0..messages).for_each(|_| house.send(peer, out, b"1"));
        let link = house.reader(peer, address);
        house.grant(peer, link, 9);
    }
    let traffic = house.shards[0].counters.traffic();
    assert_eq!((traffic.from_classic.sent(), traffic.from_streams.sent()), (2, 3));
}
