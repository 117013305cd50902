//! Queues that are on no shard of this node: on another node, or on none in reach. No code of one node puts them there.

use amqp10::{DeliveryState, Role};
use broker::ids::Where;
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::Arguments;
use catalog::ids::{NodeId, QueueId};

use queue::Verdict;

use super::client091::Client091;
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

/// Makes a queue with one message, which is put there when the test wants it.
fn with_message() -> (House, QueueId) {
    let mut house = House::new(SHARDS, Settings::default());
    let queue = house.declare("q", Arguments::new());
    let peer = house.connect(0);
    let sender = house.sender(peer, "/queues/q");
    house.send(peer, sender, b"a");
    (house, queue)
}

/// A consumer is told at its first request that cannot be carried out. Until then it had no reason to ask.
#[test]
fn a_consumer_is_told_that_its_queue_is_out_of_reach() {
    for home in PLACES {
        for is_settling in [true, false] {
            let (mut house, queue) = with_message();
            let peer = house.connect(1);
            let receiver = house.receiver(peer, "/queues/q");
            house.grant(peer, receiver, 1);
            assert_eq!(house.peers[peer].got.len(), 1);
            put(&mut house, queue, home);
            match is_settling {
                // The client waits until the broker settles.
                true => {
                    let conn = &mut house.peers[peer].conn;
                    conn.disposition(0, Role::Receiver, (0, 0), false, &DeliveryState::Accepted);
                    house.settle();
                }
                false => house.grant(peer, receiver, 5),
            }
            assert_eq!(house.peers[peer].detached, ["amqp:illegal-state"], "{home:?} {is_settling}");
            assert_eq!(house.messages("q"), 1, "it was not settled");
        }
    }
}

#[test]
fn a_consumer_of_0_9_1_is_cancelled_when_its_queue_is_out_of_reach() {
    for home in PLACES {
        let (mut house, queue) = with_message();
        let mut client = Client091::open(&mut house, &[1]);
        client.consume(&mut house, 1, "q");
        put(&mut house, queue, home);
        client.ack(&mut house, 1, client.last_tag());
        assert!(client.was_cancelled, "{home:?}");
        assert_eq!(house.messages("q"), 1, "it was not settled");
    }
}

/// The client waits for `basic.cancel-ok`, also if the queue cannot answer.
#[test]
fn a_cancellation_is_answered_when_the_queue_is_out_of_reach() {
    for home in PLACES {
        let (mut house, queue) = with_message();
        let mut client = Client091::open(&mut house, &[1]);
        client.consume(&mut house, 1, "q");
        put(&mut house, queue, home);
        client.cancel(&mut house, 1, "q");
        assert_eq!((client.ends, client.was_cancelled), (1, false), "{home:?}");
    }
}

/// How a client of 0.9.1 holds a delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    ForConsumer,
    /// The broker has cancelled the consumer before the client commits.
    ForCancelled,
    ByGet,
}

/// A settlement that cannot be made is not committed: the message will be delivered again.
#[test]
fn a_commit_fails_when_a_settlement_is_out_of_reach() {
    for home in PLACES {
        for holds in [Holds::ForConsumer, Holds::ForCancelled, Holds::ByGet] {
            let (mut house, queue) = with_message();
            let mut client = Client091::open(&mut house, &[1]);
            client.doomed = true;
            client.select_tx(&mut house, 1);
            client.share_prefetch(&mut house, 1, 1);
            match holds {
                Holds::ByGet => client.hold(&mut house, 1, "q", 1),
                _ => client.consume(&mut house, 1, "q"),
            }
            put(&mut house, queue, home);
            if holds == Holds::ForCancelled {
                client.share_prefetch(&mut house, 1, 5);
            }
            assert_eq!(client.was_cancelled, holds == Holds::ForCancelled);
            client.ack(&mut house, 1, 1);
            client.commit(&mut house, 1);
            let (code, text) = client.closed_channel.clone().unwrap_or_default();
            assert_eq!((code, client.committed), (404, 0), "{home:?} {holds:?}: {text}");
            let where_it_is = match home {
                Where::On(_) => "has its home on node 00000007, which is down or inaccessible",
                _ => "is on no node in reach",
            };
            assert_eq!(text, format!("NOT_FOUND - queue 'q' in vhost '/' {where_it_is}"));
            assert_eq!(house.messages("q"), 1, "it was not settled");
        }
    }
}

#[test]
fn a_stream_out_of_reach_cannot_be_read() {
    for home in PLACES {
        let mut house = House::new(SHARDS, Settings::default());
        let arguments = [("x-queue-type".to_owned(), "stream".into())];
        let stream = house.declare("s", arguments.into_iter().collect());
        put(&mut house, stream, home);
        let peer = house.connect(0);
        house.reader(peer, "/queues/s");
        assert_eq!(house.peers[peer].detached, ["amqp:precondition-failed"], "{home:?}");
    }
}

/// A queue on shard 1 whose receipts the test changes: nobody knows the outcomes.
fn in_doubt() -> House {
    let mut house = House::new(SHARDS, Settings::default());
    house.declare("q", Arguments::new());
    let peer = house.connect(1);
    house.receiver(peer, "/queues/q");
    house.is_lost = |mail| matches!(mail, Mail::Receipts { .. });
    house
}

/// Brings the receipts, as the session with the node of the queue makes them when that node is lost.
fn lose_outcomes(house: &mut House) {
    let mut lost = std::mem::take(&mut house.lost);
    assert!(!lost.is_empty(), "the queue has answered");
    for mail in &mut lost {
        if let Mail::Receipts { verdict, .. } = mail {
            *verdict = Verdict::Unknown;
        }
    }
    house.shards[0].handle_mail(lost);
    house.settle();
}

#[test]
fn a_link_ends_if_nobody_knows_the_outcome_of_a_message() {
    let mut house = in_doubt();
    let peer = house.connect(0);
    // The connection stays where its first link is.
    house.declare("other", Arguments::new());
    house.receiver(peer, "/queues/other");
    let sender = house.sender(peer, "/queues/q");
    house.send(peer, sender, b"a");
    lose_outcomes(&mut house);
    assert_eq!(house.peers[peer].outcomes, [""; 0], "no outcome is true");
    assert_eq!(house.peers[peer].detached, ["amqp:internal-error"]);
}

#[test]
fn a_channel_ends_if_nobody_knows_the_outcome_of_a_message() {
    for (confirms, commits) in [(true, false), (false, true), (false, false)] {
        let mut house = in_doubt();
        let mut client = Client091::open(&mut house, &[1]);
        client.doomed = true;
        if confirms {
            client.select_confirms(&mut house, 1);
        }
        if commits {
            client.select_tx(&mut house, 1);
        }
        client.publish(&mut house, 1, "q", 1);
        if commits {
            client.commit(&mut house, 1);
        }
        lose_outcomes(&mut house);
        client.settle(&mut house);
        assert_eq!((client.committed, &client.closed), (0, &None));
        let closed = client.closed_channel.clone();
        match confirms || commits {
            true => {
                let (code, text) = closed.expect("no answer is true");
                assert_eq!(code, 406, "{text}");
                assert!(text.contains("the outcome is unknown"), "{text}");
            }
            // Nobody waits for an answer.
            false => assert_eq!(closed, None),
        }
    }
}
