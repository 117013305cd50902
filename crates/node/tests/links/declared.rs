//! Queues whose declaration is not on the disk yet.

use std::sync::{Arc, Mutex};

use broker::catalog::{Arguments, Command, DeclareQueue};
use broker::settings::Settings;

use super::house::House;

/// A process that is killed meanwhile would come back without the queue, and without what was confirmed in it.
#[test]
fn nothing_is_confirmed_in_a_queue_that_may_be_lost() {
    let mut house = House::new(2, Settings::default());
    let answered = Arc::new(Mutex::new(false));
    let into = answered.clone();
    (house.log_stopped, house.at_once) = (true, true);
    let declare = Command::DeclareQueue(DeclareQueue::new("/", "q", Arguments::new()));
    house.shards[0].propose(declare, Box::new(move |answer| *into.lock().unwrap() = answer.is_ok()));
    house.settle();
    // Somebody else does not wait for the answer. Its shard can write; the one that decides cannot.
    let peer = house.connect(1);
    let sender = house.sender(peer, "/queues/q");
    house.send(peer, sender, b"x");
    assert_eq!((*answered.lock().unwrap(), &house.peers[peer].outcomes[..]), (false, &[][..]));

    house.log_stopped = false;
    house.settle();
    assert_eq!(
        (*answered.lock().unwrap(), &house.peers[peer].outcomes[..]),
        (true, &["Accepted".to_owned()][..])
    );
}
