//! Direct reply-to between shards. The requester, the responder and the deciding shard are on three different
//! shards.

use super::house::House;
use amqp10::Value;
use broker::settings::Settings;
use catalog::Arguments;

const ACCEPTED: &str = "Accepted";

/// Makes a requester on shard 1 and a responder on shard 2.
fn asked() -> (House, usize, u32, String, usize) {
    let mut house = House::new(3, Settings::default());
    let (asks, answers) = (house.connect(1), house.connect(2));
    let (link, address) = house.replies(asks);
    (house, asks, link, address, answers)
}

#[test]
fn a_reply_finds_its_way_to_another_shard() {
    let (mut house, asks, link, address, answers) = asked();
    house.grant(asks, link, 2);
    let out = house.sender(answers, &address);
    house.send(answers, out, b"one");
    house.send(answers, out, b"two");
    assert_eq!(house.peers[asks].got, [(link, "one".into()), (link, "two".into())]);
    assert_eq!(house.peers[answers].outcomes, [ACCEPTED; 2]);
    assert_eq!(house.shards[1].counters.traffic().from_volatile.auto_ack, 2);
}

#[test]
fn a_reply_without_credit_is_dropped_and_counted_at_the_link() {
    let (mut house, asks, link, address, answers) = asked();
    let out = house.sender(answers, &address);
    house.send(answers, out, b"lost");
    house.grant(asks, link, 1);
    house.send(answers, out, b"kept");
    assert_eq!(house.peers[asks].got, [(link, "kept".into())]);
    assert_eq!(house.peers[answers].outcomes, [ACCEPTED; 2]);
    let dropped: Vec<u64> = house.shards.iter().map(|s| s.counters.replies_dropped).collect();
    assert_eq!(dropped, [0, 1, 0]);
}

#[test]
fn no_shard_keeps_anything_of_a_detached_link() {
    let (mut house, asks, link, address, answers) = asked();
    let out = house.sender(answers, &address);
    house.peers[asks].conn.detach(0, link, None);
    house.settle();
    house.send(answers, out, b"late");
    assert_eq!(house.peers[answers].outcomes, [ACCEPTED]);
    house.sender(answers, &address);
    assert_eq!(house.peers[answers].detached, ["amqp:not-found"]);
    // A new link takes the place of the closed one. It has another address.
    let (next, other) = house.replies(asks);
    house.grant(asks, next, 9);
    assert_ne!(address, other);
    house.send(answers, out, b"later still");
    assert_eq!(house.peers[asks].got, []);
    assert!(house.shards.iter().all(|s| s.catalog().queues().next().is_none()), "nothing is declared");
}

#[test]
fn a_dead_letter_may_be_a_reply() {
    let (mut house, asks, link, address, answers) = asked();
    house.grant(asks, link, 1);
    let key = address.strip_prefix("/queues/").unwrap();
    let text = |text: &str| Value::String(text.into());
    let arguments = [
        ("x-max-length", Value::Uint(0)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(key)),
    ];
    house.declare("q", arguments.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Arguments>());
    let out = house.sender(answers, "/queues/q");
    house.send(answers, out, b"dead");
    assert_eq!(house.peers[asks].got, [(link, "dead".into())]);
    assert_eq!(house.peers[answers].outcomes, [ACCEPTED]);
}
