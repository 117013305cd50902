//! Queues that have ended, while the catalog does not hear of it. Mail between shards is lost, or stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use amqp10::{Role, Source, Symbol, Target, Value};
use broker::mail::Mail;
use broker::own_queues::ANSWER_WAIT_MS;
use broker::settings::Settings;
use catalog::ids::QueueId;
use catalog::{Arguments, Command, DeclareQueue};
use queue::Request;

use super::client091::Client091;
use super::house::House;
use crate::asks::Asks;
use crate::asks_queues::AsksQueues;

/// The wait before a proposal is made again for the first time, in milliseconds.
const AGAIN_MS: u64 = 5000;

/// The most proposals that are made again at once.
const AGAIN_MAX: usize = 100;

/// What lives on shard 1 proposes its end to shard 0.
fn house() -> House {
    House::new(2, Settings { heartbeat_s: 0, ..Settings::default() })
}

fn lose_proposals(house: &mut House) {
    house.is_lost = |mail| matches!(mail, Mail::Propose(_));
}

fn pass(house: &mut House, ms: u64) {
    house.now_ms += ms;
    house.settle();
}

/// Declares a queue on shard 1.
fn declare(house: &mut House, declare: DeclareQueue) -> QueueId {
    let name = declare.name.clone();
    house.shards[1].propose(Command::DeclareQueue(declare), Box::new(|answer| drop(answer.unwrap())));
    house.settle();
    house.shards[1].catalog().listed_queue("/", &name).expect("it is declared").id
}

/// Attaches a receiver with a queue of its own. Returns its link.
fn attach_dynamic(house: &mut House, peer: usize) -> u32 {
    let capabilities = vec![Symbol::from_static("temporary-queue")];
    let source = Source { dynamic: true, capabilities, ..Source::default() };
    house.attach(peer, Role::Receiver, source, Target::default())
}

/// Returns the number of queues that each shard knows.
fn known(house: &House) -> Vec<usize> {
    house.shards.iter().map(|shard| shard.catalog().queue_count()).collect()
}

/// Makes a queue on shard 1, and returns what ends it.
type Ends = fn(&mut House) -> Box<dyn FnOnce(&mut House)>;

const ENDS: [(&str, Ends); 4] = [
    ("its connection closes", |house| {
        let peer = house.connect(1);
        attach_dynamic(house, peer);
        Box::new(move |house| {
            let gone = house.peers.remove(peer);
            house.shards[1].disconnect(gone.key);
        })
    }),
    ("its last consumer leaves", |house| {
        let queue = DeclareQueue::new("/", "q", Arguments::new());
        declare(house, DeclareQueue { auto_delete: true, ..queue });
        let peer = house.connect(1);
        let link = house.receiver(peer, "/queues/q");
        Box::new(move |house| house.peers[peer].conn.detach(0, link, None))
    }),
    ("nobody uses it", |house| {
        let arguments = [("x-expires".to_owned(), Value::Uint(50))].into();
        declare(house, DeclareQueue::new("/", "q", arguments));
        Box::new(|house| house.now_ms += 50)
    }),
    ("somebody deletes it", |house| {
        let queue = declare(house, DeclareQueue::new("/", "q", Arguments::new()));
        let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
        Box::new(move |house| _ = house.shards[1].ask(queue, request, Box::new(|_| ())))
    }),
];

#[test]
fn the_end_of_a_queue_is_proposed_until_it_is_applied() {
    for (why, make) in ENDS {
        let mut house = house();
        let end = make(&mut house);
        assert_eq!(known(&house), [1, 1], "{why}");
        lose_proposals(&mut house);
        end(&mut house);
        house.settle();
        assert_eq!(house.lost.len(), 1, "{why}");
        for (times, wait_ms) in [(1, AGAIN_MS), (2, 2 * AGAIN_MS), (3, 4 * AGAIN_MS)] {
            pass(&mut house, wait_ms - 1);
            assert_eq!((house.lost.len(), known(&house)), (times, vec![1, 1]), "{why}");
            pass(&mut house, 1);
            assert_eq!(house.lost.len(), times + 1, "{why}");
        }
        house.is_lost = |_| false;
        pass(&mut house, 8 * AGAIN_MS);
        assert_eq!(known(&house), [0, 0], "{why}");
        // The answer has arrived, so nothing is proposed any more.
        lose_proposals(&mut house);
        house.lost.clear();
        pass(&mut house, 3_600_000);
        assert!(house.lost.is_empty(), "{why}");
    }
}

#[test]
fn many_that_have_ended_are_not_all_proposed_again() {
    const QUEUES: usize = 1000;
    let mut house = house();
    for queue in 0..QUEUES {
        house.is_lost = |_| false;
        let queue = declare(&mut house, DeclareQueue::new("/", format!("q{queue}"), Arguments::new()));
        lose_proposals(&mut house);
        let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
        house.shards[1].ask(queue, request, Box::new(|_| ()));
        house.settle();
    }
    assert_eq!((house.lost.len(), known(&house)), (QUEUES, vec![QUEUES; 2]));
    // For an hour, nobody answers.
    for _ in 0..3600 {
        pass(&mut house, 1000);
    }
    let again = house.lost.len() - QUEUES;
    assert!((60 * AGAIN_MAX..70 * AGAIN_MAX).contains(&again), "{again}");
    house.is_lost = |_| false;
    house.now_ms += 60_000;
    // The time stands still: each answer makes the next ones due.
    (0..QUEUES.div_ceil(AGAIN_MAX)).for_each(|_| house.settle());
    assert_eq!(known(&house), [0, 0]);
}

#[test]
fn a_detach_and_a_close_wait_for_the_end_of_their_queues_but_not_for_ever() {
    for closes in [false, true] {
        let mut house = house();
        let peer = house.connect(1);
        let link = attach_dynamic(&mut house, peer);
        lose_proposals(&mut house);
        let peer = &mut house.peers[peer];
        match closes {
            true => peer.conn.close(None, false),
            false => peer.conn.detach(0, link, None),
        }
        let is_answered = |house: &mut House| match closes {
            true => house.peers[0].is_closed,
            false => house.peers[0].detached == ["none"],
        };
        house.settle();
        pass(&mut house, ANSWER_WAIT_MS - 1);
        assert!(!is_answered(&mut house));
        pass(&mut house, 1);
        assert!(is_answered(&mut house));
        assert_eq!(known(&house), [1, 1]);
        house.is_lost = |_| false;
        pass(&mut house, AGAIN_MS);
        assert_eq!(known(&house), [0, 0], "it is still proposed");
    }
}

/// One link waits for the end of its queue, the other for an outcome.
#[test]
fn deletions_and_outcomes_have_one_deadline() {
    let mut house = house();
    house.declare("stuck", [("x-queue-type".to_owned(), Value::from("quorum"))].into());
    let peer = house.connect(1);
    let sender = house.sender(peer, "/queues/stuck");
    let receiver = attach_dynamic(&mut house, peer);
    lose_proposals(&mut house);
    house.log_stopped = true;
    house.send(peer, sender, b"x");
    house.peers[peer].conn.detach(0, receiver, None);
    house.settle();
    pass(&mut house, 600);
    house.peers[peer].conn.detach(0, sender, None);
    house.settle();
    pass(&mut house, 399);
    assert_eq!(house.peers[peer].detached.len(), 0);
    pass(&mut house, 1);
    assert_eq!(house.peers[peer].detached.len(), 2);
    // What was missing arrives, so the next link that ends waits for as long again.
    house.is_lost = |_| false;
    house.log_stopped = false;
    pass(&mut house, AGAIN_MS);
    let receiver = attach_dynamic(&mut house, peer);
    lose_proposals(&mut house);
    house.peers[peer].conn.detach(0, receiver, None);
    house.settle();
    pass(&mut house, ANSWER_WAIT_MS - 1);
    assert_eq!(house.peers[peer].detached.len(), 2);
    pass(&mut house, 1);
    assert_eq!(house.peers[peer].detached.len(), 3);
}

/// The outcome of one link does not arrive for an hour. The links that end later have nothing to do with it.
#[test]
fn an_outcome_that_stays_out_does_not_end_the_wait_for_later_deletions() {
    let mut house = house();
    house.declare("stuck", [("x-queue-type".to_owned(), Value::from("quorum"))].into());
    let peer = house.connect(1);
    let sender = house.sender(peer, "/queues/stuck");
    let receivers = [0; 3].map(|_| attach_dynamic(&mut house, peer));
    house.log_stopped = true;
    house.send(peer, sender, b"x");
    house.peers[peer].conn.detach(0, sender, None);
    house.settle();
    pass(&mut house, ANSWER_WAIT_MS);
    assert_eq!(house.peers[peer].detached.len(), 1);
    lose_proposals(&mut house);
    let detach = |house: &mut House, receiver: usize| {
        house.peers[peer].conn.detach(0, receivers[receiver], None);
        house.settle();
        house.peers[peer].detached.len()
    };
    assert_eq!(detach(&mut house, 0), 2, "the connection has just waited");
    pass(&mut house, 3_600_000);
    assert_eq!(detach(&mut house, 1), 2);
    pass(&mut house, ANSWER_WAIT_MS - 1);
    assert_eq!(house.peers[peer].detached.len(), 2);
    pass(&mut house, 1);
    assert_eq!(house.peers[peer].detached.len(), 3);
    assert_eq!(detach(&mut house, 2), 4, "the connection has just waited");
}

/// The second shard is stuck, so no change is applied everywhere.
#[test]
fn a_client_of_amqp_0_9_1_waits_no_longer() {
    type End = fn(&mut Client091, &mut House);
    let ends: [(&str, &str, End); 4] = [
        ("connection.close", "q", |client, house| client.close(house)),
        // The queue ends with its consumer, and is to be deleted with the connection besides.
        ("connection.close", "own", |client, house| client.close(house)),
        ("basic.cancel", "q", |client, house| client.cancel(house, 1, "q")),
        ("basic.cancel with a delivery", "q", |client, house| client.cancel(house, 1, "q")),
    ];
    for (what, consumed, end) in ends {
        let mut house = house();
        let queue = DeclareQueue::new("/", "q", Arguments::new());
        declare(&mut house, DeclareQueue { auto_delete: true, ..queue });
        let mut client = Client091::open(&mut house, &[1]);
        client.declare_own_auto_delete(&mut house, 1, "own");
        client.consume(&mut house, 1, consumed);
        if what.ends_with("delivery") {
            client.publish_transient(&mut house, 1, "q", 1);
            assert_eq!(client.deliveries(), 1, "{what}");
        }
        house.mail_stopped = true;
        end(&mut client, &mut house);
        pass(&mut house, ANSWER_WAIT_MS - 1);
        client.settle(&mut house);
        assert_eq!(client.ends, 0, "{what}");
        pass(&mut house, 1);
        client.settle(&mut house);
        assert_eq!(client.ends, 1, "{what}");
        house.mail_stopped = false;
        client.settle(&mut house);
        assert_eq!(client.ends, 1, "{what} is answered once");
        assert!(!client.was_cancelled, "{what}: the client has ended the consumer itself");
    }
}

#[test]
fn whoever_deletes_an_ended_queue_is_answered_when_that_is_committed() {
    for kind in ["classic", "quorum", "stream"] {
        let mut house = house();
        let arguments = [("x-queue-type".to_owned(), Value::from(kind))].into();
        let queue = declare(&mut house, DeclareQueue::new("/", "q", arguments));
        house.log_stopped = true;
        let answers = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
            let answers = answers.clone();
            let count = move |_| _ = answers.fetch_add(1, Ordering::Relaxed);
            house.shards[1].ask(queue, request, Box::new(count));
            house.settle();
        }
        assert_eq!(answers.load(Ordering::Relaxed), 0, "{kind}");
        house.log_stopped = false;
        house.settle();
        assert_eq!(answers.load(Ordering::Relaxed), 3, "{kind}");
        assert_eq!(known(&house), [0, 0], "{kind}");
    }
}

/// The answer to a deletion comes when the connection has ended and another one has its place.
#[test]
fn a_late_answer_is_not_taken_for_that_of_another_connection() {
    let mut house = house();
    let mut client = Client091::open(&mut house, &[1]);
    client.declare(&mut house, 1, "own", true);
    house.mail_stopped = true;
    client.close(&mut house);
    pass(&mut house, ANSWER_WAIT_MS);
    client.settle(&mut house);
    assert_eq!(client.ends, 1);
    client.disconnect(&mut house);
    let mut next = Client091::open(&mut house, &[1]);
    house.log_stopped = true;
    next.declare(&mut house, 1, "q", false);
    assert!(!next.is_read(&mut house), "it waits for the answer to its declaration");
    house.mail_stopped = false;
    next.settle(&mut house);
    assert!(!next.is_read(&mut house), "the declaration is not answered");
    house.log_stopped = false;
    next.settle(&mut house);
    assert!(next.is_read(&mut house));
}
