//! Scenes of two nodes, whose messages are lost on purpose.
use std::cell::RefCell;
use std::rc::Rc;

use catalog::{Answer, Arguments, Command, DeclareQueue, KnownNode};
use link::ClusterId;
use node::peer::{PeerMessage, Propose};
use node::shard::Mutation;
use wal_testing::Random;

use super::mistakes::Mistake;
use super::node::{Answered, SimNode};
use crate::asks::Asks;

fn one_with(mutation: Option<Mutation>) -> (SimNode, Random, u64) {
    let mut random = Random(7);
    let mut one = SimNode::new(1, 7, &mut random);
    one.membership = Some((ClusterId([1; 16]), 1));
    one.start(&[one.name.clone(), "sluice@2".into()], 1_000_000, &mut random, mutation.map(Mistake::Shard));
    (one, random, 1_000_000)
}

fn run(one: &mut SimNode, random: &mut Random, now: &mut u64) -> Vec<PeerMessage> {
    let broker = one.process.as_mut().unwrap().broker.as_mut().unwrap();
    let mut sent = Vec::new();
    for _ in 0..60 {
        *now += 1;
        sent.extend(broker.step(*now, random));
    }
    sent.into_iter().filter_map(|mail| PeerMessage::decode(mail.bytes)).collect()
}

fn ask(one: &mut SimNode, random: &mut Random, now: &mut u64, command: Command) -> Answered {
    let answer = Rc::new(RefCell::new(None));
    let to = answer.clone();
    let broker = one.process.as_mut().unwrap().broker.as_mut().unwrap();
    broker.shards[0].propose(command, Box::new(move |answered| *to.borrow_mut() = Some(answered)));
    for _ in 0..20 {
        run(one, random, now);
    }
    answer.take().expect("answered")
}

pub(super) fn declare(durable: bool) -> Command {
    let mut declare = DeclareQueue::new("/", "q", Arguments::default());
    declare.durable = durable;
    Command::DeclareQueue(declare)
}

/// Another node proposes a queue, twice under one number. Between the two copies a client here deletes the queue, which is there before if
/// `is_refused`: then the first copy is refused. Returns true if the second copy does nothing.
fn second_copy_does_nothing(is_refused: bool, mutation: Option<Mutation>) -> bool {
    let (mut one, mut random, mut now) = one_with(mutation);
    let (random, now) = (&mut random, &mut now);
    for at in [1_u32, 2] {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&(1000 + at).to_be_bytes());
        let name = format!("sluice@{at}");
        ask(&mut one, random, now, Command::AdmitNode(KnownNode { identity, name: name.as_str().into() }))
            .unwrap();
    }
    if is_refused {
        ask(&mut one, random, now, declare(true)).unwrap();
    }
    let propose = |number| {
        let command = declare(false);
        // The founder leads from term 2 on.
        let propose = Propose { term: 2, boot: 1, number, low: number, shard: 0, by: None, command };
        PeerMessage::Propose(propose).encode()
    };
    let shard = |one: &mut SimNode, act: &dyn Fn(&mut ::node::shard::Shard)| {
        act(&mut one.process.as_mut().unwrap().broker.as_mut().unwrap().shards[0]);
    };
    shard(&mut one, &|shard| shard.handle_link(2, true));
    shard(&mut one, &|shard| shard.handle_support(2, true));
    shard(&mut one, &|shard| shard.handle_peer_message(2, propose(5)));
    let answers = run(&mut one, random, now);
    let answers: Vec<_> =
        answers.iter().filter(|message| matches!(message, PeerMessage::Answered(_))).collect();
    match is_refused {
        true => assert!(
            matches!(answers[..], [PeerMessage::Answered(answered)] if answered.result.is_err()),
            "{answers:?}"
        ),
        false => assert!(answers.is_empty(), "the asker learns it from the entry: {answers:?}"),
    }
    let mut queue = None;
    if let Some(broker) = one.process.as_ref().unwrap().broker.as_ref() {
        queue = broker.shards[0].catalog().listed_queue("/", "q").map(|record| record.id);
    }
    ask(&mut one, random, now, Command::ForgetQueue { queue: queue.unwrap() }).unwrap();
    shard(&mut one, &|shard| shard.handle_peer_message(2, propose(5)));
    run(&mut one, random, now);
    run(&mut one, random, now);
    let broker = one.process.as_ref().unwrap().broker.as_ref().unwrap();
    let queue = broker.shards[0].catalog().listed_queue("/", "q");
    queue.is_none()
}

#[test]
fn the_second_copy_of_a_proposal_does_nothing() {
    assert!(second_copy_does_nothing(true, None), "it was refused, and is carried out");
    assert!(second_copy_does_nothing(false, None), "it was carried out, and is again");
}

/// Returns true if the scene finds nothing wrong.
pub(super) fn a_proposal_is_carried_out_once(mutation: Option<Mutation>) -> bool {
    second_copy_does_nothing(false, mutation)
}

pub(super) fn broker(node: &mut SimNode) -> &mut super::node::Broker {
    node.process.as_mut().unwrap().broker.as_mut().unwrap()
}

/// The founder, and a second node, with a link that loses what `loses` says.
pub(super) fn pair_run(
    nodes: &mut [SimNode; 2],
    random: &mut Random,
    now: &mut u64,
    ms: u64,
    loses: &mut dyn FnMut(u32, &PeerMessage) -> bool,
) {
    for _ in 0..ms {
        *now += 1;
        for from in 0..2 {
            let shown_ms = nodes[from].shown_ms(*now);
            let sent = broker(&mut nodes[from]).step(shown_ms, random);
            for mail in sent {
                let message = PeerMessage::decode(mail.bytes.clone()).unwrap();
                if !loses(from as u32 + 1, &message) {
                    broker(&mut nodes[1 - from]).shards[0].handle_peer_message(from as u32 + 1, mail.bytes);
                }
            }
        }
    }
}

pub(super) fn pair() -> ([SimNode; 2], Random, u64) {
    pair_with(None, None)
}

/// `shards` is the number of shards of the second node.
pub(super) fn pair_with(shards: Option<u8>, mutation: Option<Mutation>) -> ([SimNode; 2], Random, u64) {
    let (mut one, mut random, mut now) = one_with(mutation);
    for at in [1_u32, 2] {
        let mut identity = [0; 16];
        identity[..4].copy_from_slice(&(1000 + at).to_be_bytes());
        let name = format!("sluice@{at}");
        let known = KnownNode { identity, name: name.as_str().into() };
        ask(&mut one, &mut random, &mut now, Command::AdmitNode(known)).unwrap();
    }
    let mut two = SimNode::new(2, 8, &mut random);
    two.membership = Some((ClusterId([1; 16]), 2));
    two.shards = shards.unwrap_or(two.shards);
    two.start(&[one.name.clone(), "sluice@2".into()], now, &mut random, mutation.map(Mistake::Shard));
    let mut nodes = [one, two];
    link(&mut nodes, 0);
    link(&mut nodes, 1);
    pair_run(&mut nodes, &mut random, &mut now, 3000, &mut |_, _| false);
    assert!(broker(&mut nodes[1]).shards[0].catalog().nodes().len() == 2, "joined");
    (nodes, random, now)
}

fn link(nodes: &mut [SimNode; 2], at: usize) {
    for shard in &mut broker(&mut nodes[at]).shards {
        shard.handle_link(2 - at as u32, true);
        shard.handle_support(2 - at as u32, true);
    }
}

#[test]
fn a_lost_proposal_is_sent_again() {
    let (mut nodes, mut random, mut now) = pair();
    pair_run(&mut nodes, &mut random, &mut now, 8000, &mut |_, _| false);
    let answer = Rc::new(RefCell::new(None));
    let to = answer.clone();
    broker(&mut nodes[1]).shards[0]
        .propose(declare(true), Box::new(move |answered: Answered| *to.borrow_mut() = Some(answered)));
    let mut copies = 0;
    pair_run(&mut nodes, &mut random, &mut now, 8000, &mut |_, message| {
        copies += u32::from(matches!(message, PeerMessage::Propose(_)));
        copies == 1 && matches!(message, PeerMessage::Propose(_))
    });
    let answer: Option<Answered> = answer.take();
    assert!(matches!(answer, Some(Ok(_))), "{copies} copies were sent; {answer:?}");
}

#[test]
fn a_refusal_whose_index_does_not_come_is_given() {
    let (mut nodes, mut random, mut now) = pair();
    let first = ask_on(&mut nodes, &mut random, &mut now, 0, declare(true), &mut |_, _| false);
    assert!(matches!(first, Some(Ok(_))), "{first:?}");
    // Entries to node 2 are lost from here on, answers are not.
    let mut other = DeclareQueue::new("/", "r", Arguments::default());
    other.durable = true;
    let raft = &mut |_: u32, message: &PeerMessage| matches!(message, PeerMessage::Raft { .. });
    let second = ask_on(&mut nodes, &mut random, &mut now, 0, Command::DeclareQueue(other), raft);
    assert!(matches!(second, Some(Ok(_))), "{second:?}");
    let third = ask_on(&mut nodes, &mut random, &mut now, 1, declare(false), raft);
    assert!(third.is_some(), "no answer in 20 s");
}

pub(super) fn ask_on(
    nodes: &mut [SimNode; 2],
    random: &mut Random,
    now: &mut u64,
    at: usize,
    command: Command,
    loses: &mut dyn FnMut(u32, &PeerMessage) -> bool,
) -> Option<Answered> {
    let answer = Rc::new(RefCell::new(None));
    let to = answer.clone();
    broker(&mut nodes[at]).shards[0]
        .propose(command, Box::new(move |answered: Answered| *to.borrow_mut() = Some(answered)));
    pair_run(nodes, random, now, 20_000, loses);
    answer.take()
}

#[test]
fn the_founder_with_a_learner_says_what_its_start_ends() {
    let (mut nodes, mut random, mut now) = pair();
    let gone = ask_on(&mut nodes, &mut random, &mut now, 0, declare(false), &mut |_, _| false);
    assert!(matches!(gone, Some(Ok(_))), "{gone:?}");
    let id = broker(&mut nodes[1]).shards[0].catalog().listed_queue("/", "q").unwrap().id;
    nodes[0].kill(wal_testing::Crash::Process);
    let name = nodes[0].name.clone();
    nodes[0].start(&[name, "sluice@2".into()], now, &mut random, None);
    let on_founder = broker(&mut nodes[0]).shards[0].catalog().queue_by_id(id).is_none();
    assert!(
        !on_founder,
        "the recovery of the founder has ended queue {id:?} by itself, although there is a learner"
    );
}

#[test]
fn a_start_that_is_decided_late_ends_nothing_that_it_has_declared() {
    let (mut nodes, mut random, mut now) = pair();
    nodes[1].kill(wal_testing::Crash::Process);
    let names = [nodes[0].name.clone(), nodes[1].name.clone()];
    nodes[1].start(&names, now, &mut random, None);
    broker(&mut nodes[0]).shards.iter_mut().for_each(|shard| shard.handle_link(2, false));
    link(&mut nodes, 0);
    link(&mut nodes, 1);
    // The first copies of the start are lost.
    let began = now;
    let mut loses = |_: u32, message: &PeerMessage| {
        matches!(message, PeerMessage::Propose(Propose { command: Command::StartNode { .. }, number: 1, .. }))
    };
    let answer = Rc::new(RefCell::new(None));
    let to = answer.clone();
    broker(&mut nodes[1]).shards[0]
        .propose(declare(false), Box::new(move |answered: Answered| *to.borrow_mut() = Some(answered)));
    pair_run(&mut nodes, &mut random, &mut now, 2000, &mut loses);
    assert!(answer.borrow().is_none(), "nothing is declared before the start: {answer:?}");
    pair_run(&mut nodes, &mut random, &mut now, 5000, &mut |_, _| false);
    let answer: Option<Answered> = answer.take();
    assert!(matches!(answer, Some(Ok(_))), "{answer:?} after {} ms", now - began);
    for node in &mut nodes {
        assert!(
            broker(node).shards[0].catalog().listed_queue("/", "q").is_some(),
            "{} has it not",
            node.name
        );
    }
}

#[test]
fn a_change_that_changes_nothing_is_answered_at_once_where_changes_are_decided() {
    let (mut nodes, mut random, mut now) = pair();
    let first = ask_on(&mut nodes, &mut random, &mut now, 0, declare(true), &mut |_, _| false);
    assert!(matches!(first, Some(Ok(_))), "{first:?}");
    let answer = Rc::new(RefCell::new(None));
    let to = answer.clone();
    let founder = broker(&mut nodes[0]);
    founder.shards[0]
        .propose(declare(true), Box::new(move |answered: Answered| *to.borrow_mut() = Some(answered)));
    // The time stands still, so no timer helps.
    (0..60).for_each(|_| drop(founder.step(now, &mut random)));
    let answer: Option<Answered> = answer.take();
    assert!(matches!(answer, Some(Ok(Answer::Queue { created: false, .. }))), "{answer:?}");
}

fn named(name: &str) -> Command {
    Command::DeclareQueue(DeclareQueue::new("/", name, Arguments::default()))
}

/// Returns after how many milliseconds a declaration on a node is answered, and whether the other node has it then.
fn declared_after(
    (nodes, random, now): &mut ([SimNode; 2], Random, u64),
    at: usize,
    name: &str,
) -> (u64, bool) {
    let (answer, began) = (Rc::new(RefCell::new(None)), *now);
    let to = answer.clone();
    broker(&mut nodes[at]).shards[0]
        .propose(named(name), Box::new(move |answered: Answered| *to.borrow_mut() = Some(answered)));
    while answer.borrow().is_none() {
        pair_run(nodes, random, now, 1, &mut |_, _| false);
        assert!(*now < began + 20_000, "no answer");
    }
    assert!(matches!(answer.take(), Some(Ok(_))));
    let there = &broker(&mut nodes[1 - at]).shards;
    let is_there = there.iter().all(|shard| shard.catalog().listed_queue("/", name).is_some());
    (*now - began, is_there)
}

#[test]
fn a_node_that_stands_still_delays_one_answer_by_a_second() {
    for still in [(Some(1), false), (None, true)] {
        let mut pair = pair_with(Some(2), None);
        assert!(declared_after(&mut pair, 0, "a").1, "the other node has it");
        broker(&mut pair.0[1]).still = still;
        let (after_ms, is_there) = declared_after(&mut pair, 0, "b");
        assert!((1000..1100).contains(&after_ms) && !is_there, "{still:?}: answered after {after_ms} ms");
        for name in ["c", "d", "e"] {
            let (after_ms, _) = declared_after(&mut pair, 0, name);
            assert!(
                after_ms < 100,
                "{still:?}: the node is behind, and {name} was answered after {after_ms} ms"
            );
        }
        broker(&mut pair.0[1]).still = (None, false);
        pair_run(&mut pair.0, &mut pair.1, &mut pair.2, 200, &mut |_, _| false);
        let (after_ms, is_there) = declared_after(&mut pair, 0, "f");
        assert!(after_ms < 100 && is_there, "{still:?}: it has caught up, and has f: {is_there}");
    }
}
