//! What is written within a turn is told within it.

use broker::catalog::Arguments;
use broker::settings::Settings;

use super::house::House;

/// Turns that a publisher's shard takes from the message to the receipt, with a queue that lives on it, or not.
fn turns(kind: &str, shards: usize, at_once: bool) -> usize {
    let mut house = House::new(shards as u8, Settings::default());
    let arguments = [("x-queue-type".to_owned(), kind.into())];
    house.declare("q", arguments.into_iter().collect::<Arguments>());
    // The queue lives with its first link.
    let home = house.connect(0);
    let receiver = house.receiver(home, "/queues/q");
    house.grant(home, receiver, 10);
    let publisher = house.connect(shards - 1);
    let sender = house.sender(publisher, "/queues/q");
    house.send(publisher, sender, b"0");
    house.at_once = at_once;
    house.say(publisher, sender, b"1");
    // The bytes arrive.
    house.round();
    let turns = 1 + (0..9).take_while(|_| house.round() && house.peers[publisher].outcomes.len() < 2).count();
    assert_eq!(house.peers[publisher].outcomes, ["Accepted"; 2]);
    turns
}

#[test]
fn a_receipt_leaves_in_the_turn_that_writes() {
    assert_eq!((turns("classic", 1, false), turns("classic", 1, true)), (2, 1));
    // And two more: the message goes to the other shard, and the receipt comes back.
    assert_eq!((turns("classic", 2, false), turns("classic", 2, true)), (4, 3));
    assert_eq!((turns("stream", 1, true), turns("stream", 2, true)), (1, 3));
}
