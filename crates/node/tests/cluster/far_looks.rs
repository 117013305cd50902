//! What the admin API asks of another node: the first node of two asks for queues of the second one.

use std::cell::RefCell;
use std::rc::Rc;

use ::node::peer::{FarNumbers, PeerMessage};
use ::node::shard::far_looks::{LOOK_MS, SILENT_MS};
use ::node::shard::questions::{Act, Question};
use amqp091::{BasicConsume, BasicPublish, BasicQos, Method, QueueDeclare};
use bytes::Bytes;
use catalog::ids::QueueId;

use super::misses::{Client091, Pair, queue};
use super::scenes::broker;
use crate::asks::keep;

type Answers = Rc<RefCell<Vec<Option<FarNumbers>>>>;

const MESSAGES: u64 = 5;

/// A queue of the second node with messages, of which a consumer holds one; and a queue of the first node. Returns their ids.
fn filled(pair: &mut Pair) -> [QueueId; 2] {
    let mut client = Client091::open(pair);
    client.send(Method::QueueDeclare(QueueDeclare { queue: "q", durable: true, ..Default::default() }));
    pair.talk(&mut client, 200);
    for _ in 0..MESSAGES {
        let publish = BasicPublish { routing_key: "q", ..Default::default() };
        client.send_content(&Method::BasicPublish(publish), &Bytes::from_static(b"m"));
    }
    client.send(Method::BasicQos(BasicQos { prefetch_count: 1, ..Default::default() }));
    client.send(Method::BasicConsume(BasicConsume { queue: "q", ..Default::default() }));
    pair.talk(&mut client, 200);
    pair.change(queue("here"));
    let id = |pair: &mut Pair, name| {
        broker(&mut pair.nodes[0]).shards[0].catalog().listed_queue("/", name).expect("it exists").id
    };
    [id(pair, "q"), id(pair, "here")]
}

fn ask(pair: &mut Pair, queues: &[QueueId], answers: &Answers) {
    let node = pair.nodes[1].id();
    let answers = answers.clone();
    let to = keep(move |answer| answers.borrow_mut().push(answer));
    let act = Act::LookAt { node, queues: queues.to_vec(), to };
    broker(&mut pair.nodes[0]).shards[0].handle_question(Question::Act(act));
}

fn is_look(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Look(_))
}

fn is_looked(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Looked(_))
}

/// Whether each answer so far says anything.
fn are_answered(answers: &Answers) -> Vec<bool> {
    std::mem::take(&mut *answers.borrow_mut()).iter().map(Option::is_some).collect()
}

#[test]
fn the_numbers_of_a_queue_of_another_node_are_known() {
    for shards in [1, 3] {
        let mut pair = Pair::with_shards(shards);
        let [queue, here] = filled(&mut pair);
        let answers = Answers::default();
        ask(&mut pair, &[here, queue, QueueId(77)], &answers);
        pair.run(200);
        let answer = answers.take().pop().flatten().expect("an answer");
        let ids: Vec<QueueId> = answer.keys().copied().collect();
        assert_eq!(ids, [queue], "only what is there is known");
        let report = answer[&queue].numbers.as_ref().expect("it lives there").report.clone();
        assert_eq!((report.ready, report.unsettled, report.consumers), (MESSAGES - 1, 1, 1));
    }
}

#[test]
fn a_node_that_does_not_answer_is_not_asked_again_at_once() {
    let mut pair = Pair::with_shards(2);
    let [queue, _] = filled(&mut pair);
    for lost in [is_look, is_looked] {
        let answers = Answers::default();
        pair.loses = lost;
        ask(&mut pair, &[queue], &answers);
        pair.run(LOOK_MS - 50);
        assert_eq!(are_answered(&answers), [] as [bool; 0]);
        pair.run(100);
        assert_eq!(are_answered(&answers), [false]);
        pair.loses = |_| false;
        ask(&mut pair, &[queue], &answers);
        pair.run(1);
        assert_eq!(are_answered(&answers), [false], "it counts as silent");
        pair.run(SILENT_MS);
        ask(&mut pair, &[queue], &answers);
        pair.run(200);
        assert_eq!(are_answered(&answers), [true]);
    }
}

#[test]
fn a_node_out_of_reach_is_not_waited_for() {
    let mut pair = Pair::with_shards(1);
    let [queue, _] = filled(&mut pair);
    let answers = Answers::default();
    ask(&mut pair, &[queue], &answers);
    pair.set_cut(true);
    ask(&mut pair, &[queue], &answers);
    pair.run(1);
    assert_eq!(are_answered(&answers), [false, false]);
    pair.set_cut(false);
    ask(&mut pair, &[queue], &answers);
    pair.run(200);
    assert_eq!(are_answered(&answers), [true]);
}

#[test]
fn few_looks_at_a_node_are_open_at_once() {
    let mut pair = Pair::with_shards(1);
    let [queue, _] = filled(&mut pair);
    let answers = Answers::default();
    (0..20).for_each(|_| ask(&mut pair, &[queue], &answers));
    let looks = |pair: &mut Pair| pair.sent.iter().filter(|message| is_look(message)).count();
    pair.loses = is_looked;
    pair.run(500);
    assert_eq!(looks(&mut pair), 8, "the others wait");
    pair.loses = |_| false;
    pair.run(2 * LOOK_MS);
    assert_eq!(are_answered(&answers), [false; 20], "their time is over together");

    pair.run(SILENT_MS);
    (0..20).for_each(|_| ask(&mut pair, &[queue], &answers));
    pair.run(200);
    assert_eq!(are_answered(&answers), [true; 20]);
    assert_eq!(looks(&mut pair), 28);
}

#[test]
fn a_look_that_was_given_up_makes_room() {
    let mut pair = Pair::with_shards(1);
    let [queue, _] = filled(&mut pair);
    let answers = Answers::default();
    pair.loses = is_looked;
    let node = pair.nodes[1].id();
    for _ in 0..8 {
        let (to, dropped) = ::node::shard::questions::AnswerTo::new(1);
        drop(dropped);
        let act = Act::LookAt { node, queues: vec![queue], to };
        broker(&mut pair.nodes[0]).shards[0].handle_question(Question::Act(act));
    }
    ask(&mut pair, &[queue], &answers);
    pair.run(100);
    pair.loses = |_| false;
    broker(&mut pair.nodes[0]).shards[0].give_up(1);
    pair.run(100);
    assert_eq!(are_answered(&answers), [true]);
}

/// A long list comes in parts, and each row of it arrives.
#[test]
fn a_long_answer_comes_in_parts() {
    let mut pair = Pair::with_shards(2);
    let mut client = Client091::open(&mut pair);
    let names: Vec<String> = (0..400).map(|number| format!("q{number}")).collect();
    for name in &names {
        client.send(Method::QueueDeclare(QueueDeclare { queue: name, ..Default::default() }));
        // A queue that nobody uses has no home yet.
        let publish = BasicPublish { routing_key: name, ..Default::default() };
        client.send_content(&Method::BasicPublish(publish), &Bytes::from_static(b"m"));
        pair.talk(&mut client, 20);
    }
    pair.talk(&mut client, 1000);
    let catalog = broker(&mut pair.nodes[0]).shards[0].catalog();
    let ids: Vec<QueueId> =
        names.iter().map(|name| catalog.listed_queue("/", name).expect("it exists").id).collect();
    let answers = Answers::default();
    pair.sent.clear();
    ask(&mut pair, &ids, &answers);
    pair.run(500);
    let answer = answers.take().pop().flatten().expect("an answer");
    assert!(ids.iter().all(|id| answer[id].numbers.is_some()), "{} rows", answer.len());
    let parts: Vec<usize> =
        pair.sent.iter().filter(|sent| is_looked(sent)).map(|sent| sent.encode().len()).collect();
    assert!(parts.len() > 2 && parts.iter().all(|bytes| *bytes < 66_000), "{parts:?}");
}
