//! What the admin API asks of another node: the first node of two asks for queues of the second one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use ::node::peer::{FarAsk, FarNumbers, FarSeen, PeerMessage};
use ::node::shard::far_looks::{LOOK_MS, SILENT_MS};
use ::node::shard::questions::{Act, Question};
use amqp091::{BasicConsume, BasicPublish, BasicQos, Method, QueueDeclare};
use broker::admin_api::{ConnectionRow, ProtocolRow};
use bytes::Bytes;
use catalog::ids::QueueId;

use super::misses::{Client091, Pair, queue};
use super::scenes::broker;
use crate::asks::keep;

type Answers = Rc<RefCell<Vec<Option<FarSeen>>>>;

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
    ask_for(pair, FarAsk::Reports(queues.to_vec()), answers);
}

fn ask_for(pair: &mut Pair, ask: FarAsk, answers: &Answers) {
    let node = pair.nodes[1].id();
    let answers = answers.clone();
    let to = keep(move |answer| answers.borrow_mut().push(answer));
    let act = Act::LookAt { node, ask, to };
    broker(&mut pair.nodes[0]).shards[0].handle_question(Question::Act(act));
}

fn is_look(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Look(_))
}

fn is_looked(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Looked(_))
}

/// Returns the numbers of queues in the last answer.
fn numbers(answers: &Answers) -> FarNumbers {
    match answers.take().pop().flatten() {
        Some(FarSeen::Reports(numbers)) => numbers,
        other => panic!("no numbers: {other:?}"),
    }
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
        let answer = numbers(&answers);
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
        let act = Act::LookAt { node, ask: FarAsk::Reports(vec![queue]), to };
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
    let answer = numbers(&answers);
    assert!(ids.iter().all(|id| answer[id].numbers.is_some()), "{} rows", answer.len());
    let parts: Vec<usize> =
        pair.sent.iter().filter(|sent| is_looked(sent)).map(|sent| sent.encode().len()).collect();
    assert!(parts.len() > 2 && parts.iter().all(|bytes| *bytes < 66_000), "{parts:?}");
}

/// Returns the connections in the last answer, and whether there are more.
fn connections(answers: &Answers) -> (Vec<ConnectionRow>, bool) {
    match answers.take().pop().flatten() {
        Some(FarSeen::Connections { rows, has_more }) => (rows, has_more),
        other => panic!("no connections: {other:?}"),
    }
}

fn connections_of_other(pair: &mut Pair, names: &[&str], from: u32) -> (Vec<ConnectionRow>, bool) {
    let (answers, names) = (Answers::default(), names.iter().map(|name| Arc::from(*name)).collect());
    ask_for(pair, FarAsk::Connections { names, from }, &answers);
    pair.run(200);
    connections(&answers)
}

/// Asks the other node to close a connection. Returns whether it had it.
fn close(pair: &mut Pair, name: &Arc<str>, connected_at_ms: u64) -> bool {
    let answers = Answers::default();
    ask_for(pair, FarAsk::Close { name: name.clone(), connected_at_ms, reason: "why".into() }, &answers);
    pair.run(200);
    match answers.take().pop().flatten() {
        Some(FarSeen::Closed(closed)) => closed,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn the_connections_of_another_node_are_known_and_closed() {
    let mut pair = Pair::with_shards(3);
    let mut clients: Vec<Client091> = (0..3).map(|_| Client091::open(&mut pair)).collect();
    clients[1].send(Method::QueueDeclare(QueueDeclare { queue: "q", durable: true, ..Default::default() }));
    pair.talk(&mut clients[1], 200);
    clients[1].send(Method::BasicConsume(BasicConsume { queue: "q", ..Default::default() }));
    pair.talk(&mut clients[1], 200);

    let (rows, has_more) = connections_of_other(&mut pair, &[], 0);
    assert_eq!((rows.len(), has_more), (3, false));
    let consumers = |row: &ConnectionRow| -> usize {
        match &row.protocol {
            ProtocolRow::Amqp091(ours) => ours.channels.iter().map(|channel| channel.consumers.len()).sum(),
            ProtocolRow::Amqp10(_) => 0,
        }
    };
    assert_eq!(rows.iter().map(consumers).sum::<usize>(), 1);
    assert_eq!((&*rows[0].user, &*rows[0].vhost, &*rows[0].node), ("guest", "/", ""));
    assert_eq!(connections_of_other(&mut pair, &[&rows[0].name], 0).0.len(), 3, "all have one name here");
    assert!(connections_of_other(&mut pair, &["nobody"], 0).0.is_empty());
    assert!(connections_of_other(&mut pair, &[], 500).0.is_empty());

    // A later connection of the same name stays open.
    let first = rows.iter().min_by_key(|row| row.connected_at_ms).expect("a row");
    assert!(!close(&mut pair, &first.name, first.connected_at_ms + 1));
    assert!(!close(&mut pair, &"nobody".into(), first.connected_at_ms));
    assert!(close(&mut pair, &first.name, first.connected_at_ms));
    pair.talk(&mut clients[0], 100);
    assert_eq!(clients[0].said, ["CONNECTION_FORCED - why"]);
    assert_eq!(connections_of_other(&mut pair, &[], 0).0.len(), 2);
}

/// Long lists come in looks, whose answers come in parts. Each connection is in the list once.
#[test]
fn a_long_list_of_connections_comes_in_parts() {
    let mut pair = Pair::with_shards(1);
    const CLIENTS: usize = 501;
    let clients: Vec<Client091> = (0..CLIENTS).map(|_| Client091::open(&mut pair)).collect();
    pair.sent.clear();
    let (mut rows, has_more) = connections_of_other(&mut pair, &[], 0);
    assert!(has_more && rows.len() <= 500, "{}", rows.len());
    let (later, has_more) = connections_of_other(&mut pair, &[], 500);
    rows.extend(later);
    assert_eq!((rows.len(), has_more), (clients.len(), false));
    let parts: Vec<usize> =
        pair.sent.iter().filter(|sent| is_looked(sent)).map(|sent| sent.encode().len()).collect();
    assert!(parts.len() > 2 && parts.iter().all(|bytes| *bytes < 66_000), "{parts:?}");
}

#[test]
fn the_totals_of_another_node_are_known() {
    for shards in [1, 3] {
        let mut pair = Pair::with_shards(shards);
        filled(&mut pair);
        // It has no home yet, and counts nothing.
        pair.change(queue("empty"));
        let answers = Answers::default();
        ask_for(&mut pair, FarAsk::Totals, &answers);
        ask_for(&mut pair, FarAsk::Vhosts { from: 0 }, &answers);
        pair.run(200);
        let answered = answers.take();
        let [Some(FarSeen::Totals(totals)), Some(FarSeen::Vhosts { sums, has_more: false })] = &answered[..]
        else {
            panic!("{answered:?}");
        };
        assert_eq!((totals.connections, totals.channels, totals.consumers), (1, 1, 1));
        assert_eq!((totals.depth.ready, totals.depth.unsettled), (MESSAGES - 1, 1));
        assert_eq!((totals.passed.received, totals.passed.deliveries.manual_ack), (MESSAGES, 1));
        assert_eq!((totals.churn.connections_opened, totals.churn.queues_created), (1, 1));
        let names: Vec<&str> = sums.keys().map(|name| &**name).collect();
        assert_eq!(names, ["/"]);
        let numbers = sums["/"];
        assert_eq!((numbers.depth, numbers.counts.received), (totals.depth, MESSAGES));
    }
}
