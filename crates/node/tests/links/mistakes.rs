//! Deliberate mistakes in what follows from a change of the catalog, and from a round of a Raft group. Each has a scene that finds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amqp10::{Role, Source, Symbol, Target, Value};
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::{Arguments, Command, DeclareQueue};
use node::shard::{Mutation, Shard};
use queue::Request;

use super::applied::Nodes;
use super::house::House;
use crate::asks::Asks;
use crate::asks_queues::AsksQueues;

fn mutate(shards: &mut [Shard], mutation: Option<Mutation>) {
    for (shard, mutation) in shards.iter_mut().flat_map(|shard| mutation.map(|mutation| (shard, mutation))) {
        shard.mutate(mutation);
    }
}

fn house(mutation: Option<Mutation>) -> House {
    let mut house = House::new(2, Settings { heartbeat_s: 0, ..Settings::default() });
    mutate(&mut house.shards, mutation);
    house
}

/// Declares a durable queue on the first shard. Returns whether that is answered.
fn declare(house: &mut House) -> Arc<AtomicBool> {
    let answered = Arc::new(AtomicBool::new(false));
    let (into, queue) = (answered.clone(), DeclareQueue::new("/", "q", Arguments::new()));
    let then = Box::new(move |_| into.store(true, Ordering::Relaxed));
    house.shards[0].propose(Command::DeclareQueue(queue), then);
    house.settle();
    answered
}

/// A node asks for a queue, and another node decides that.
fn asked_here_and_decided_elsewhere(mutation: Option<Mutation>) -> bool {
    let mut nodes = Nodes::new();
    mutate(&mut nodes.follows.shards, mutation);
    let peer = nodes.follows.connect(1);
    let capabilities = vec![Symbol::from_static("temporary-queue")];
    let source = Source { dynamic: true, capabilities, ..Source::default() };
    nodes.follows.begin_attach(peer, Role::Receiver, source, Target::default());
    nodes.settle(None);
    nodes.counted() == (1, 1)
}

fn one_shard_stands_still(mutation: Option<Mutation>) -> bool {
    let mut house = house(mutation);
    house.mail_stopped = true;
    let answered = declare(&mut house);
    let is_early = answered.load(Ordering::Relaxed);
    house.mail_stopped = false;
    house.settle();
    !is_early && answered.load(Ordering::Relaxed)
}

fn the_log_stands_still(mutation: Option<Mutation>) -> bool {
    let mut house = house(mutation);
    house.log_stopped = true;
    let answered = declare(&mut house);
    let is_early = answered.load(Ordering::Relaxed) || house.shards[0].catalog().queue_count() > 0;
    house.log_stopped = false;
    house.settle();
    !is_early && answered.load(Ordering::Relaxed)
}

fn a_proposal_is_lost(mutation: Option<Mutation>) -> bool {
    let mut house = house(mutation);
    declare(&mut house);
    let queue = house.shards[1].catalog().listed_queue("/", "q").expect("it is declared").id;
    house.is_lost = |mail| matches!(mail, Mail::Propose(_));
    let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
    house.shards[1].ask(queue, request, Box::new(|_| ()));
    house.settle();
    assert_eq!(house.lost.len(), 1);
    house.is_lost = |_| false;
    house.now_ms += 60_000;
    house.settle();
    house.shards[0].catalog().queue_count() == 0
}

/// A message is sent to a quorum queue.
fn an_entry_is_committed(mutation: Option<Mutation>) -> bool {
    let mut house = house(None);
    let quorum = [("x-queue-type".to_owned(), Value::from("quorum"))].into();
    let queue = house.declare("q", quorum);
    mutate(&mut house.shards, mutation);
    let publisher = house.connect(0);
    let out = house.sender(publisher, "/queues/q");
    house.send(publisher, out, b"1");
    house.settle();
    house.shards.iter().any(|shard| shard.queue_report(queue).is_some_and(|report| report.ready == 1))
}

/// A quorum queue is deleted, and the entry that says so is not committed.
fn an_end_is_not_committed(mutation: Option<Mutation>) -> bool {
    let mut house = house(mutation);
    let quorum: Arguments = [("x-queue-type".to_owned(), Value::from("quorum"))].into();
    // The queues are divided among the shards.
    house.declare("other", quorum.clone());
    house.declare("q", quorum);
    let publisher = house.connect(1);
    let out = house.sender(publisher, "/queues/q");
    house.send(publisher, out, b"1");
    house.settle();
    let queue = house.shards[1].catalog().listed_queue("/", "q").expect("it is declared").id;
    assert!(house.shards[1].queue_report(queue).is_some(), "it lives on this shard");
    house.is_lost = |mail| matches!(mail, Mail::Propose(_));
    house.log_stopped = true;
    let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
    house.shards[1].ask(queue, request, Box::new(|_| ()));
    house.settle();
    let is_early = !house.lost.is_empty();
    house.log_stopped = false;
    house.settle();
    !is_early && house.lost.len() == 1
}

#[test]
fn each_mistake_is_found() {
    for mutation in Mutation::ALL {
        let scene: fn(Option<Mutation>) -> bool = match mutation {
            Mutation::ActWhereDecided => asked_here_and_decided_elsewhere,
            Mutation::AnswerBeforeAll => one_shard_stands_still,
            Mutation::ApplyBeforeSync => the_log_stands_still,
            Mutation::ProposeOnce => a_proposal_is_lost,
            Mutation::IgnoreCommitted => an_entry_is_committed,
            Mutation::DeleteWithoutEnded => an_end_is_not_committed,
            // It takes a group of three, which a unit test plays: `a_commit_by_one_disk_of_three_is_found`.
            Mutation::CommitWhenSynced => continue,
            // They take other nodes: `cluster::mistakes`.
            Mutation::ForgetProposals
            | Mutation::DecideAtOnce
            | Mutation::RefuseSent
            | Mutation::AnswerBeforeOthers
            | Mutation::MissAtOnce
            | Mutation::LoseSoon
            | Mutation::ReuseNumbers => continue,
        };
        assert!(scene(None), "the scene of {mutation:?} without it");
        assert!(!scene(Some(mutation)), "{mutation:?} is not found");
    }
}
