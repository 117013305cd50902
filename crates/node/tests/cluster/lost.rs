//! A node that is cut off from the node that decides changes: for a short time, which ends nothing, and for so long that it is lost.

use ::node::shard::Mutation;
use amqp091::{BasicConsume, Method, QueueDeclare};
use catalog::{Arguments, Command, DeclareQueue, ParameterKey};
use wal_testing::{Crash, Random};

use super::misses::{Client091, Pair};
use super::node::{DiskState, SimNode};
use super::scenes::broker;

fn declare(queue: &str, durable: bool, exclusive: bool) -> Method<'_> {
    Method::QueueDeclare(QueueDeclare { queue, durable, exclusive, ..QueueDeclare::default() })
}

/// Returns the names of the queues on each node.
fn queues(pair: &mut Pair) -> [Vec<String>; 2] {
    let names = |node: &mut SimNode| {
        let catalog = broker(node).shards[0].catalog();
        let mut names: Vec<String> = catalog.queues().map(|queue| queue.name.to_string()).collect();
        names.sort();
        names
    };
    let [one, two] = &mut pair.nodes;
    [names(one), names(two)]
}

/// A client of the second node has an exclusive queue with a consumer, one that is not durable, and one that is.
fn pair_with_client(mutation: Option<Mutation>) -> (Pair, Client091) {
    let mut pair = Pair::new(mutation);
    let mut client = Client091::open(&mut pair);
    for says in [
        declare("own", false, true),
        declare("transient", false, false),
        declare("durable", true, false),
        Method::BasicConsume(BasicConsume { queue: "own", ..BasicConsume::default() }),
    ] {
        client.send(says);
        pair.talk(&mut client, 200);
    }
    let declared = "QueueDeclareOk";
    assert_eq!(client.said, [declared, declared, declared, "BasicConsumeOk"]);
    client.said.clear();
    (pair, client)
}

const ALL: [&str; 3] = ["durable", "own", "transient"];

/// Returns true if the scene finds nothing wrong.
pub(super) fn a_short_cut_ends_nothing(mutation: Option<Mutation>) -> bool {
    let (mut pair, mut client) = pair_with_client(mutation);
    pair.set_cut(true);
    pair.talk(&mut client, 3000);
    pair.set_cut(false);
    pair.talk(&mut client, 3000);
    queues(&mut pair) == [ALL, ALL].map(|names| names.map(str::to_owned).to_vec()) && client.said.is_empty()
}

#[test]
fn a_cut_of_three_seconds_ends_nothing() {
    assert!(a_short_cut_ends_nothing(None));
}

#[test]
fn a_node_that_was_out_of_sight_for_a_minute_is_lost() {
    let (mut pair, mut client) = pair_with_client(None);
    let start = |pair: &mut Pair| {
        let id = pair.nodes[1].id();
        broker(&mut pair.nodes[0]).shards[0].catalog().start_of(id)
    };
    let before = start(&mut pair);
    pair.set_cut(true);
    pair.talk(&mut client, 59_000);
    assert_eq!(queues(&mut pair)[0], ALL, "it may come back");
    pair.talk(&mut client, 2000);
    assert_eq!(queues(&mut pair), [vec!["durable".to_owned()], ALL.map(str::to_owned).to_vec()]);
    assert!(client.said.is_empty(), "nobody has told it yet: {:?}", client.said);
    // The name is free.
    let mut other = DeclareQueue::new("/", "own", Arguments::default());
    other.durable = true;
    pair.change(Command::DeclareQueue(other));
    pair.set_cut(false);
    pair.talk(&mut client, 3000);
    let names = ["durable", "own"].map(str::to_owned).to_vec();
    assert_eq!(queues(&mut pair), [names.clone(), names], "the other queue has the name");
    assert_eq!(std::mem::take(&mut client.said), ["BasicCancel"]);
    // The node goes on with the same start. What it declares now stays.
    client.send(declare("new", false, true));
    pair.talk(&mut client, 65_000);
    assert_eq!(client.said, ["QueueDeclareOk"]);
    assert!(queues(&mut pair).iter().all(|names| names.contains(&"new".to_owned())));
    assert_eq!(start(&mut pair), before);
}

/// The time of a loss is measured by a clock that nobody sets.
#[test]
fn a_clock_that_is_set_loses_no_node_and_keeps_none() {
    for forward in [true, false] {
        let (mut pair, mut client) = pair_with_client(None);
        pair.set_cut(true);
        pair.talk(&mut client, 3000);
        pair.nodes[0].clock.jump_an_hour(forward);
        pair.talk(&mut client, 56_000);
        assert_eq!(queues(&mut pair)[0], ALL, "forward: {forward}");
        pair.talk(&mut client, 2000);
        assert_eq!(queues(&mut pair)[0], ["durable"], "forward: {forward}");
    }
}

/// The entries are gone from the log of the leader when the node is back, so it gets the whole catalog.
#[test]
fn a_node_that_gets_a_base_ends_what_it_has_lost() {
    let (mut pair, mut client) = pair_with_client(None);
    pair.set_cut(true);
    pair.talk(&mut client, 61_000);
    // More than a leader keeps for those that lag.
    for number in 0..200 {
        let value = format!("\"{number}{}\"", "x".repeat(60_000)).into();
        pair.change(Command::SetParameter { key: ParameterKey::global("big"), value });
    }
    pair.bases = 0;
    pair.set_cut(false);
    pair.talk(&mut client, 5000);
    assert!(pair.bases > 0, "the leader has kept all entries");
    let [one, two] = queues(&mut pair);
    assert_eq!([one, two], [["durable"], ["durable"]]);
    assert_eq!(client.said, ["BasicCancel"]);
}

/// The founder could begin its group anew, and then there were two catalogs.
#[test]
fn a_member_without_its_definitions_does_not_start_even_if_their_loss_is_accepted() {
    for at in [0, 1] {
        let (mut pair, _) = pair_with_client(None);
        let node = &mut pair.nodes[at];
        node.kill(Crash::Process);
        let files = node.disks.log.files();
        files.keys().filter(|name| name.ends_with(".log")).for_each(|name| node.disks.log.lose(name));
        node.disk = DiskState::Damaged;
        node.accepts_loss = true;
        node.start(&["sluice@1".into(), "sluice@2".into()], 2_000_000, &mut Random(5), None);
        assert!(matches!(node.disk, DiskState::Refused(_)), "{:?}", node.disk);
    }
}
