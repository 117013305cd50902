//! Names of links and containers. They are kept as long as the links, so their length is bounded.

use amqp10::link::NAME_MAX;
use amqp10::{Attach, Role, Source, Target, TargetArchetype};
use broker::catalog::Arguments;
use broker::settings::Settings;

use super::house::{House, OTHER};

const BUDGET: &str = "link_names";

/// Attaches a link of this name on a session.
fn attach(h: &mut House, peer: usize, session: u16, name: String) {
    let target = Target { address: Some("/queues/q".into()), ..Target::default() };
    let attach = Attach {
        source: Some(Source::default()),
        target: Some(TargetArchetype::Target(target)),
        initial_delivery_count: Some(0),
        ..Attach::new(name, 0, Role::Sender)
    };
    h.peers[peer].conn.attach(session, None, attach).expect("a free handle");
}

fn name(number: usize, bytes: usize) -> String {
    let number = number.to_string();
    number.clone() + &"n".repeat(bytes - number.len())
}

fn house() -> House {
    let mut h = House::new(2, Settings { link_names_memory: 1, max_link_credit: 1, ..Settings::default() });
    h.declare("q", Arguments::new());
    h
}

#[test]
fn a_name_that_is_too_long_is_refused_and_not_kept() {
    let mut h = house();
    let peer = h.connect(0);
    let before = h.budget(BUDGET).0;
    attach(&mut h, peer, 0, name(0, NAME_MAX));
    h.settle();
    assert_eq!((h.peers[peer].detached.clone(), h.budget(BUDGET).0 - before), (vec![], NAME_MAX as u64));
    h.peers[peer].deaf = true;
    (0..3).for_each(|number| attach(&mut h, peer, 0, name(number, 100_000)));
    h.settle();
    assert_eq!(h.budget(BUDGET).0 - before, NAME_MAX as u64, "although the client has not answered");
    h.peers[peer].deaf = false;
    h.settle();
    assert_eq!(h.peers[peer].detached, ["amqp:invalid-field"; 3]);
    h.peers[peer].conn.detach(0, 0, None);
    h.settle();
    assert_eq!(h.budget(BUDGET).0, before);
}

#[test]
fn a_container_with_a_name_that_is_too_long_is_closed() {
    let mut h = house();
    h.container = "c".repeat(NAME_MAX);
    let peer = h.connect(0);
    assert_eq!((h.peers[peer].closed.clone(), h.budget(BUDGET).0), (None, NAME_MAX as u64));
    h.container = "c".repeat(NAME_MAX + 1);
    let peer = h.connect(0);
    let (condition, why) = h.peers[peer].closed.clone().expect("it is closed");
    assert_eq!(condition, "amqp:invalid-field");
    assert!(why.contains("2048"), "{why}");
}

#[test]
fn the_names_of_a_connection_are_bounded() {
    let mut h = house();
    let peer = h.connect(0);
    for session in 0..10 {
        if session > 0 {
            h.peers[peer].conn.begin(None, true);
            h.settle();
        }
        (0..250).for_each(|number| attach(&mut h, peer, session, name(number, NAME_MAX)));
        h.settle();
    }
    let refused = h.peers[peer].detached.len();
    assert_eq!(refused, 2500 - (4 << 20) / NAME_MAX);
    assert!(h.peers[peer].detached.iter().all(|why| why == "amqp:resource-limit-exceeded"));
}

#[test]
fn names_are_bounded_over_the_node_and_the_largest_user_pays() {
    let mut h = house();
    let other = h.connect_as(0, Some(OTHER));
    (0..200).for_each(|number| attach(&mut h, other, 0, name(number, NAME_MAX)));
    h.settle();
    let flood: Vec<usize> = (0..12).map(|number| h.connect(number % 2)).collect();
    for peer in &flood {
        h.peers[*peer].doomed = true;
        (0..190).for_each(|number| attach(&mut h, *peer, 0, name(number, NAME_MAX)));
        h.settle();
        let (used, limit) = h.budget(BUDGET);
        assert!(used <= limit + 200 * NAME_MAX as u64, "{used} bytes of {limit}");
    }
    assert_eq!(h.peers[other].closed, None, "it is larger than each of the others");
    let closed: Vec<_> = flood.iter().filter_map(|peer| h.peers[*peer].closed.clone()).collect();
    assert!((2..=4).contains(&closed.len()), "{} are closed", closed.len());
    for (condition, why) in closed {
        assert_eq!(condition, "amqp:resource-limit-exceeded");
        assert!(why.contains("link_names_memory"), "{why}");
    }
}
