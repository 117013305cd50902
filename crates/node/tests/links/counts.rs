//! The counters of shards for definitions, sessions and deliveries.

use broker::catalog::Arguments;
use broker::settings::Settings;

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
