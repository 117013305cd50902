//! Queues that are on no shard of this node: on another node, or on none in reach. No code of one node puts them there.

use broker::ids::Where;
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::Arguments;
use catalog::ids::{NodeId, QueueId};

use super::house::House;

const SHARDS: u8 = 2;

const PLACES: [Where; 2] = [Where::On(NodeId(7)), Where::Nobody];

/// Tells all shards that the queue is there.
fn put(house: &mut House, queue: QueueId, home: Where) {
    for shard in &mut house.shards {
        let version = shard.placements().version() + 1;
        shard.handle_mail(vec![Mail::Placed { version, queue, home }]);
    }
}

#[test]
fn a_queue_out_of_reach_is_unavailable() {
    for home in PLACES {
        let mut house = House::new(SHARDS, Settings::default());
        let queue = house.declare("q", Arguments::new());
        put(&mut house, queue, home);
        for shard in 0..usize::from(SHARDS) {
            let peer = house.connect(shard);
            let sender = house.sender(peer, "/queues/q");
            house.send(peer, sender, b"a");
            assert!(
                house.peers[peer].outcomes[0].starts_with("Rejected"),
                "{:?}",
                house.peers[peer].outcomes
            );
            house.receiver(peer, "/queues/q");
            assert_eq!(house.peers[peer].detached, ["amqp:precondition-failed"], "{home:?}");
            assert_eq!(house.shards[shard].placements().home(queue), home);
        }
        assert!(house.shards.iter().all(|shard| shard.queue_report(queue).is_none()), "no machine was made");
    }
}

/// Requests that wait for a place are answered when the queue turns out to be somewhere else.
#[test]
fn requests_that_waited_for_a_place_are_answered() {
    for home in PLACES {
        let mut house = House::new(SHARDS, Settings::default());
        let queue = house.declare("q", Arguments::new());
        let peer = house.connect(1);
        let sender = house.sender(peer, "/queues/q");
        house.mail_stopped = true;
        house.say(peer, sender, b"a");
        house.settle();
        assert_eq!(house.peers[peer].outcomes, [""; 0], "it waits for its place");
        put(&mut house, queue, home);
        house.mail_stopped = false;
        house.settle();
        assert!(house.peers[peer].outcomes[0].starts_with("Rejected"), "{:?}", house.peers[peer].outcomes);
        assert_eq!(house.shards[0].placements().home(queue), home, "the request for a place came too late");
    }
}
