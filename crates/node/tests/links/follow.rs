//! Connections that follow the queue of their first link to its shard (docs/decisions/0017).

use amqp10::{Attach, Role, Source, Target, TargetArchetype};
use broker::settings::Settings;
use catalog::Arguments;

use super::house::House;

/// Makes two shards. Queue `a` lives on the first and `b` on the second, each with its consumer.
fn house() -> (House, [(usize, u32); 2]) {
    let mut house = House::new(2, Settings::default());
    house.follow_queues();
    let consumers = [("a", 0), ("b", 1)].map(|(queue, shard)| {
        house.declare(queue, Arguments::new());
        let consumer = house.connect(shard);
        (consumer, house.receiver(consumer, &format!("/queues/{queue}")))
    });
    consumers.iter().for_each(|&(consumer, link)| house.grant(consumer, link, 10));
    (house, consumers)
}

fn bodies(house: &House, peer: usize) -> Vec<&[u8]> {
    house.peers[peer].got.iter().map(|(_, body)| &body[..]).collect()
}

#[test]
fn a_publisher_follows_its_queue_and_stays() {
    let (mut house, [(consumer, _), (other, _)]) = house();
    assert_eq!((house.peers[consumer].shard, house.peers[other].shard), (0, 1));
    let publisher = house.connect(1);
    let link = house.sender(publisher, "/queues/a");
    assert_eq!(house.peers[publisher].shard, 0);
    house.send(publisher, link, b"1");
    assert_eq!(bodies(&house, consumer), [b"1"]);
    let second = house.sender(publisher, "/queues/b");
    assert_eq!(house.peers[publisher].shard, 0, "it moves once");
    house.send(publisher, second, b"2");
    assert_eq!(bodies(&house, other), [b"2"]);
    assert_eq!(house.peers[publisher].outcomes.len(), 2);
}

#[test]
fn frames_after_the_attach_are_handled_on_the_new_shard() {
    let (mut house, [(consumer, _), _]) = house();
    let publisher = house.connect(1);
    let attach = |queue: &str| Attach {
        source: Some(Source::default()),
        target: Some(TargetArchetype::Target(Target {
            address: Some(format!("/queues/{queue}")),
            ..Target::default()
        })),
        initial_delivery_count: Some(0),
        ..Attach::new(queue.to_owned(), 0, Role::Sender)
    };
    let conn = &mut house.peers[publisher].conn;
    let links = ["a", "b", "none"].map(|queue| conn.attach(0, None, attach(queue)).expect("a free handle"));
    house.settle();
    assert_eq!(house.peers[publisher].shard, 0);
    assert_eq!(house.peers[publisher].detached, ["amqp:not-found"], "the third link");
    house.send(publisher, links[0], b"1");
    house.send(publisher, links[1], b"2");
    assert_eq!(bodies(&house, consumer), [b"1"]);
    assert_eq!(house.peers[publisher].outcomes.len(), 2);
}

#[test]
fn a_consumer_follows_too_and_a_full_shard_takes_no_connection() {
    let (mut house, _) = house();
    let followed: Vec<usize> = (0..8)
        .map(|_| {
            let peer = house.connect(1);
            house.receiver(peer, "/queues/a");
            house.peers[peer].shard
        })
        .collect();
    assert_eq!(followed[0], 0);
    assert!(followed.contains(&1), "one shard does not serve everybody: {followed:?}");
    let served = house.shards.iter().map(|shard| shard.counters.connections).collect::<Vec<_>>();
    assert_eq!(served.iter().sum::<u64>(), 10, "{served:?}");
}

#[test]
fn a_connection_follows_the_only_queue_of_an_exchange() {
    let (mut house, [(consumer, _), _]) = house();
    house.bind("amq.direct", "a", "k");
    let publisher = house.connect(1);
    let link = house.sender(publisher, "/exchanges/amq.direct/k");
    assert_eq!(house.peers[publisher].shard, 0);
    house.send(publisher, link, b"1");
    assert_eq!(bodies(&house, consumer), [b"1"]);
    house.bind("amq.direct", "b", "k");
    let publisher = house.connect(1);
    house.sender(publisher, "/exchanges/amq.direct/k");
    assert_eq!(house.peers[publisher].shard, 1, "with two queues the connection stays");
}

#[test]
fn a_connection_that_cannot_move_continues() {
    let (mut house, [(consumer, _), _]) = house();
    house.cannot_move = true;
    let publisher = house.connect(1);
    let link = house.sender(publisher, "/queues/a");
    assert_eq!(house.peers[publisher].shard, 1);
    house.send(publisher, link, b"1");
    assert_eq!(bodies(&house, consumer), [b"1"]);
}
