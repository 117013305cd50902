//! Publishers that detach before the outcomes of their messages are known. The log does not write, so that queues confirm
//! nothing durable.

use amqp10::{Attach, ReceiverSettleMode, Role, Source, Target, TargetArchetype, TransferHead, Value};
use broker::settings::Settings;
use bytes::Bytes;

use super::house::House;

/// The time for which the broker's own DETACH, END or CLOSE waits for outcomes, in milliseconds.
const WAIT_MS: u64 = 1000;

/// The most links of a connection whose outcomes are sent after they have ended.
const PARTED_MAX: usize = 1024;

/// A publisher with links to a quorum queue that confirms nothing.
struct Stuck {
    house: House,
    peer: usize,
    links: Vec<u32>,
}

impl Stuck {
    fn new(links: usize) -> Self {
        let mut house = House::new(2, Settings::default());
        house.declare("stuck", [("x-queue-type".to_owned(), Value::from("quorum"))].into());
        house.declare("quick", Default::default());
        let peer = house.connect(1);
        let links = (0..links).map(|_| house.sender(peer, "/queues/stuck")).collect();
        house.log_stopped = true;
        Self { house, peer, links }
    }

    /// Sends a message over each link and detaches the link.
    fn send_and_detach(&mut self) {
        for link in self.links.clone() {
            self.house.say(self.peer, link, b"x");
            self.house.peers[self.peer].conn.detach(0, link, None);
        }
        self.house.settle();
    }

    fn pass(&mut self, ms: u64) {
        self.house.now_ms += ms;
        self.house.settle();
    }

    /// Returns the number of links that the broker has detached, and that of known outcomes.
    fn seen(&self) -> (usize, usize) {
        let peer = &self.house.peers[self.peer];
        (peer.detached.len(), peer.outcomes.len())
    }
}

/// Returns a message that is not durable.
fn transient() -> Bytes {
    b"\x00\x53\x70\xc0\x02\x01\x42\x00\x53\x75\xa0\x01x".to_vec().into()
}

#[test]
fn a_detach_waits_for_outcomes_but_not_for_ever() {
    let mut stuck = Stuck::new(1);
    stuck.house.say(stuck.peer, 0, b"1");
    stuck.house.say(stuck.peer, 0, b"2");
    stuck.send_and_detach();
    stuck.pass(WAIT_MS - 1);
    assert_eq!(stuck.seen(), (0, 0));
    stuck.pass(1);
    assert_eq!(stuck.seen(), (1, 0));
    stuck.pass(30_000);
    stuck.house.log_stopped = false;
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 3), "the outcomes are still sent on the session");
    assert_eq!(stuck.house.peers[stuck.peer].outcomes, ["Accepted"; 3]);
}

#[test]
fn a_detach_leaves_with_the_last_outcome() {
    let mut stuck = Stuck::new(1);
    stuck.send_and_detach();
    stuck.pass(10);
    assert_eq!(stuck.seen(), (0, 0));
    stuck.house.log_stopped = false;
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 1));
}

#[test]
fn links_that_detach_at_once_wait_together() {
    let mut stuck = Stuck::new(256);
    stuck.send_and_detach();
    stuck.pass(WAIT_MS - 1);
    assert_eq!(stuck.seen(), (0, 0));
    stuck.pass(1);
    assert_eq!(stuck.seen(), (256, 0));
    stuck.house.log_stopped = false;
    stuck.house.settle();
    assert_eq!(stuck.seen(), (256, 256));
}

/// A client that closes its links, its session and its connection one by one waits once.
#[test]
fn a_connection_has_one_deadline() {
    let mut stuck = Stuck::new(3);
    for link in 0..3 {
        stuck.house.send(stuck.peer, link, b"x");
    }
    stuck.house.peers[stuck.peer].conn.detach(0, 0, None);
    stuck.house.settle();
    stuck.pass(WAIT_MS);
    assert_eq!(stuck.seen(), (1, 0));
    stuck.house.peers[stuck.peer].conn.detach(0, 1, None);
    stuck.house.settle();
    assert_eq!(stuck.seen(), (2, 0));
    stuck.house.peers[stuck.peer].conn.end(0, None);
    stuck.house.settle();
    assert!(stuck.house.peers[stuck.peer].conn.session(0).is_none(), "END is answered");
}

#[test]
fn what_ends_later_has_the_deadline_of_what_ended_first() {
    let mut stuck = Stuck::new(2);
    stuck.house.send(stuck.peer, 0, b"x");
    stuck.house.send(stuck.peer, 1, b"x");
    stuck.house.peers[stuck.peer].conn.detach(0, 0, None);
    stuck.house.settle();
    stuck.pass(WAIT_MS / 2);
    stuck.house.peers[stuck.peer].conn.end(0, None);
    stuck.house.settle();
    assert!(stuck.house.peers[stuck.peer].conn.session(0).is_some());
    stuck.pass(WAIT_MS / 2);
    assert!(stuck.house.peers[stuck.peer].conn.session(0).is_none());
}

/// When all outcomes are known, the next link that ends has a deadline of its own.
#[test]
fn a_connection_that_has_recovered_waits_again() {
    let mut stuck = Stuck::new(2);
    for link in 0..2 {
        stuck.house.log_stopped = true;
        stuck.house.send(stuck.peer, link, b"x");
        stuck.house.peers[stuck.peer].conn.detach(0, link, None);
        stuck.house.settle();
        stuck.pass(WAIT_MS - 1);
        assert_eq!(stuck.seen().0, link as usize);
        stuck.pass(1);
        assert_eq!(stuck.seen().0, link as usize + 1);
        stuck.house.log_stopped = false;
        stuck.house.settle();
        assert_eq!(stuck.seen().1, link as usize + 1);
    }
}

#[test]
fn other_links_go_on_meanwhile() {
    let mut stuck = Stuck::new(1);
    let quick = stuck.house.sender(stuck.peer, "/queues/quick");
    let receiver = stuck.house.receiver(stuck.peer, "/queues/quick");
    stuck.send_and_detach();
    stuck.house.say_message(stuck.peer, quick, &transient());
    stuck.house.grant(stuck.peer, receiver, 1);
    assert_eq!(stuck.seen(), (0, 1));
    assert_eq!(stuck.house.peers[stuck.peer].got.len(), 1);
    // Its outcome is known, so its DETACH does not wait for that of the other link.
    stuck.house.peers[stuck.peer].conn.detach(0, quick, None);
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 1));
    let again = stuck.house.sender(stuck.peer, "/queues/quick");
    stuck.house.say_message(stuck.peer, again, &transient());
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 2));
}

#[test]
fn the_outcome_is_enough_if_the_publisher_settles_second() {
    let mut stuck = Stuck::new(0);
    let target = Target { address: Some("/queues/stuck".into()), ..Target::default() };
    let attach = Attach {
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(Source::default()),
        target: Some(TargetArchetype::Target(target)),
        initial_delivery_count: Some(0),
        ..Attach::new("second", 0, Role::Sender)
    };
    let link = stuck.house.peers[stuck.peer].conn.attach(0, None, attach).expect("a free handle");
    stuck.house.settle();
    stuck.links = vec![link];
    stuck.send_and_detach();
    assert_eq!(stuck.seen(), (0, 0));
    stuck.house.log_stopped = false;
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 1));
}

/// An alarm stops publishers. A message that is held until its end is released if the client does not wait for it.
#[test]
fn an_alarm_does_not_keep_a_link() {
    let mut stuck = Stuck::new(1);
    stuck.house.log_stopped = false;
    stuck.house.say(stuck.peer, 0, b"x");
    stuck.house.peers[stuck.peer].conn.detach(0, 0, None);
    stuck.house.shards.iter_mut().for_each(|shard| shard.set_blocked(true));
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 1));
    assert_eq!(stuck.house.peers[stuck.peer].outcomes, ["Released"]);
    stuck.house.shards.iter_mut().for_each(|shard| shard.set_blocked(false));
    stuck.house.settle();
    assert_eq!(stuck.seen(), (1, 1));
}

/// The rest of a delivery never comes when its link or session has ended, so its bytes are freed although the answer waits.
#[test]
fn an_incomplete_delivery_is_discarded_at_once() {
    let head = TransferHead {
        handle: 0,
        delivery_id: Some(1),
        delivery_tag: Some(b"t"),
        message_format: Some(0),
        settled: Some(false),
        more: true,
        aborted: false,
    };
    for ends_session in [false, true] {
        let mut stuck = Stuck::new(1);
        stuck.house.send(stuck.peer, 0, b"x");
        stuck.house.transfer(stuck.peer, &head, &[0; 100_000]);
        assert_eq!(stuck.house.budget("unfinished_deliveries").0, 100_000);
        match ends_session {
            true => stuck.house.peers[stuck.peer].conn.end(0, None),
            false => stuck.house.peers[stuck.peer].conn.detach(0, 0, None),
        }
        stuck.house.settle();
        assert_eq!(stuck.house.budget("unfinished_deliveries").0, 0);
        assert_eq!(stuck.seen(), (0, 0));
    }
}

#[test]
fn ended_links_are_bounded() {
    let mut stuck = Stuck::new(0);
    for _ in 0..PARTED_MAX + 10 {
        let link = stuck.house.sender(stuck.peer, "/queues/stuck");
        stuck.links = vec![link];
        stuck.send_and_detach();
        stuck.pass(WAIT_MS);
    }
    assert_eq!(stuck.seen(), (PARTED_MAX + 10, 0));
    stuck.house.log_stopped = false;
    stuck.house.settle();
    assert_eq!(stuck.seen(), (PARTED_MAX + 10, PARTED_MAX));
}

#[test]
fn a_connection_that_breaks_leaves_nothing() {
    let mut stuck = Stuck::new(3);
    stuck.send_and_detach();
    let gone = stuck.house.peers.remove(stuck.peer);
    stuck.house.shards[gone.shard].disconnect(gone.key);
    stuck.house.log_stopped = false;
    stuck.house.settle();
    let peer = stuck.house.connect(gone.shard);
    let link = stuck.house.sender(peer, "/queues/stuck");
    stuck.house.send(peer, link, b"x");
    assert_eq!(stuck.house.peers[peer].outcomes, ["Accepted"]);
}
