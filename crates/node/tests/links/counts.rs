//! What the counters of shards tell of definitions and sessions.

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
fn sessions_are_counted_where_they_begin() {
    let mut house = House::new(2, Settings::default());
    let peer = house.connect(1);
    house.sender(peer, "/queues/q");
    assert_eq!(house.shards.iter().map(|s| s.counters.sessions_opened).collect::<Vec<_>>(), [0, 1]);
}
