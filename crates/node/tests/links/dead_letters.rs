//! Dead letters on their way from queue to queue.

use amqp10::{DeliveryState, Role, Value};
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::Arguments;

use super::house::House;

/// Reports to the shard whether the log uses its reserve.
fn short(house: &mut House, short: bool) {
    let mail = Mail::LogFull { bytes: 0, oldest: 1, newest: 1, on_reserve: short };
    house.shards[0].handle_mail(vec![mail]);
    house.settle();
}

#[test]
fn dead_letters_refused_by_a_full_disk_arrive_when_it_has_space() {
    let mut house = House::new(1, Settings::default());
    let to_dead = [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "dead")];
    let arguments = to_dead.map(|(key, value)| (key.to_owned(), value.into()));
    let queue = house.declare("q", arguments.into_iter().collect());
    house.declare("dead", Arguments::new());
    let peer = house.connect(0);
    let (sender, receiver) = (house.sender(peer, "/queues/q"), house.receiver(peer, "/queues/q"));
    house.grant(peer, receiver, 1);
    house.send(peer, sender, b"x");
    assert_eq!(house.peers[peer].outcomes, ["Accepted"]);

    short(&mut house, true);
    house.peers[peer].conn.disposition(0, Role::Receiver, (0, 0), true, &DeliveryState::Rejected(None));
    house.settle();
    let report = house.shards[0].queue_report(queue).expect("it lives here");
    assert_eq!((report.leaving, report.dropped), (1, 0));

    short(&mut house, false);
    house.now_ms += queue::DEAD_LETTER_RETRY_MS;
    let of_dead = house.receiver(peer, "/queues/dead");
    house.grant(peer, of_dead, 1);
    let (link, body) = house.peers[peer].got.last().expect("it has arrived");
    assert_eq!((*link, &body[..]), (of_dead, &b"x"[..]));
}

/// A message that expires in a quorum queue is dead-lettered in the turn that its timer has started. It used to wait for the
/// next timer of the shard, up to a second.
#[test]
fn a_message_that_expires_in_a_quorum_queue_leaves_in_the_same_turn() {
    let mut house = House::new(1, Settings::default());
    let arguments: [(&str, Value); 4] = [
        ("x-queue-type", "quorum".into()),
        ("x-message-ttl", Value::Long(100)),
        ("x-dead-letter-exchange", "".into()),
        ("x-dead-letter-routing-key", "dead".into()),
    ];
    house.declare("q", arguments.map(|(key, value)| (key.to_owned(), value)).into_iter().collect());
    house.declare("dead", Arguments::new());
    let peer = house.connect(0);
    let (sender, receiver) = (house.sender(peer, "/queues/q"), house.receiver(peer, "/queues/dead"));
    house.grant(peer, receiver, 1);
    house.send(peer, sender, b"x");
    house.now_ms += 99;
    house.settle();
    assert!(house.peers[peer].got.is_empty());
    house.now_ms += 1;
    house.settle();
    assert_eq!(house.peers[peer].got.len(), 1);
}
