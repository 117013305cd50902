//! Messages whose routes take more than their share of a turn. Their connection waits, and nobody else.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use amqp10::{Map, Role, Source, Symbol, Target, Value, encode};
use broker::moving::Moving;
use broker::notices::Notice;
use broker::settings::Settings;
use bytes::{BufMut, Bytes, BytesMut};
use catalog::{Arguments, Command, DeclareExchange};

use ::message::{Basic, Message, Route};
use node::shard::questions::{Act, Question};
use queue::Request;

use super::client091::Client091;
use super::house::{House, message};
use crate::asks::{Asks, keep};
use crate::asks_queues::AsksQueues;

/// More rounds than any search here takes.
const ROUNDS_MAX: usize = 1000;

/// The header of [`message`].
const HEADER_BYTES: usize = 7;

/// Returns a message with this body whose routing keys are those of its link and these.
fn with_keys(body: &[u8], keys: impl IntoIterator<Item = String>) -> Bytes {
    // Message annotations follow the header.
    let message = message(body);
    let (header, body) = message.split_at(HEADER_BYTES);
    let mut all = BytesMut::from(header);
    all.put_slice(&[0x00, 0x53, 0x72]);
    let keys = keys.into_iter().map(Value::String).collect();
    let annotations = [(Symbol::from_static("x-cc"), Value::List(keys))];
    encode::put_map(&mut all, &annotations.into_iter().collect::<Map>());
    all.put_slice(body);
    all.freeze()
}

/// Returns a message to an address, with further routing keys.
fn to_address(address: &str, keys: impl IntoIterator<Item = String>) -> Bytes {
    let mut properties = BytesMut::new();
    properties.put_slice(&[0x00, 0x53, 0x73]);
    let fields = [Value::Null, Value::Null, Value::from(address)];
    encode::put_value(&mut properties, &Value::List(fields.to_vec()));
    let message = with_keys(b"m", keys);
    // The body is a data section of one byte, with its descriptor.
    let (before, body) = message.split_at(message.len() - 6);
    [before, &properties, body].concat().into()
}

fn declare_topic(house: &mut House, name: &str) {
    let declare = Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: name.into(),
        kind: "topic".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    });
    house.shards[0].propose(declare, Box::new(|done| assert!(done.is_ok())));
    house.settle();
}

fn delete_exchange(house: &mut House, name: &str) {
    let delete = Command::DeleteExchange { vhost: "/".into(), name: name.into(), if_unused: false };
    house.shards[0].propose(delete, Box::new(|done| assert!(done.is_ok())));
}

/// Returns a broker with queue `q`, bound to `amq.topic` by `#`, and queue `beside`. A turn searches a few steps.
fn house() -> House {
    let mut house = House::new(1, Settings::default());
    house.declare("q", Default::default());
    house.declare("beside", Default::default());
    house.bind("amq.topic", "q", "#");
    house.shards[0].search_all(1);
    house
}

/// Runs rounds until this holds. Returns their number.
fn rounds_until(house: &mut House, mut holds: impl FnMut(&mut House) -> bool) -> usize {
    (0..ROUNDS_MAX)
        .find(|_| {
            house.round();
            holds(house)
        })
        .expect("it holds after some rounds")
}

fn keys(number: usize) -> impl Iterator<Item = String> {
    (0..number).map(|n| format!("further.{n}"))
}

#[test]
fn a_connection_waits_for_its_route_and_others_do_not() {
    let mut house = house();
    let (slow, fast) = (house.connect(0), house.connect(0));
    let long = house.sender(slow, "/exchanges/amq.topic/k");
    let short = house.sender(slow, "/queues/q");
    let beside = house.sender(fast, "/queues/beside");
    let reader = house.connect(0);
    let link = house.receiver(reader, "/queues/q");
    house.grant(reader, link, 10);
    house.settle();
    house.say_message(slow, long, &with_keys(b"first", keys(20)));
    house.say(slow, short, b"second");
    house.say(fast, beside, b"at once");
    let fast_after = rounds_until(&mut house, |house| !house.peers[fast].outcomes.is_empty());
    assert!(house.peers[slow].outcomes.is_empty() && house.messages("q") == 0, "it waits for its route");
    let slow_after = rounds_until(&mut house, |house| house.peers[slow].outcomes.len() == 2);
    assert!(slow_after > 10 && fast_after < 3, "{slow_after}, {fast_after}");
    house.settle();
    assert_eq!(house.peers[slow].outcomes, ["Accepted", "Accepted"]);
    let got: Vec<_> = house.peers[reader].got.iter().map(|(_, body)| &body[..]).collect();
    assert_eq!(got, [&b"first"[..], b"second"], "in their order, each once");
}

/// Giving a message to queues takes longer than finding them. A publisher that remembers its route takes part in that, too.
#[test]
fn messages_to_many_queues_are_spread_over_turns() {
    const QUEUES: usize = 300;
    const MESSAGES: u64 = 160;
    // 300 steps to find the queues, and 8 for each of them but one. What is read before the turn has a share, too, as have searches and
    // what the connection sends behind them.
    const PER_TURN_MAX: u64 = 3 * (50_000 / 2_692 + 1);
    let mut house = House::new(1, Settings::default());
    for queue in 0..QUEUES {
        let name = format!("q{queue}");
        house.declare(&name, Default::default());
        house.bind("amq.fanout", &name, "");
    }
    let (many, few) = (house.connect(0), house.connect(0));
    let out = house.sender(many, "/exchanges/amq.fanout/k");
    let beside = house.sender(few, "/queues/q0");
    house.say(many, out, b"the route is known now");
    house.settle();
    (0..MESSAGES).for_each(|_| house.say(many, out, b"m"));
    house.say(few, beside, b"at once");
    let mut before = 1;
    let rounds = rounds_until(&mut house, |house| {
        let now = house.messages("q1");
        assert!(now - before <= PER_TURN_MAX, "{} in one turn", now - before);
        before = now;
        now == 1 + MESSAGES
    });
    assert!(rounds as u64 >= MESSAGES / PER_TURN_MAX, "{rounds}");
    house.settle();
    assert_eq!(house.peers[many].outcomes, vec!["Accepted"; 1 + MESSAGES as usize]);
    assert_eq!(house.peers[few].outcomes, ["Accepted"]);
    assert!((1..QUEUES).all(|queue| house.messages(&format!("q{queue}")) == 1 + MESSAGES), "each has all");
}

/// The default exchange has no bindings that could be searched.
#[test]
fn queues_that_are_named_by_keys_get_their_message_at_once() {
    let mut house = house();
    let peer = house.connect(0);
    let out = house.sender(peer, "/queues/q");
    house.say_message(peer, out, &with_keys(b"m", ["beside".to_owned()]));
    house.settle();
    assert_eq!(house.peers[peer].outcomes, ["Accepted"]);
    let mut client = Client091::open(&mut house, &[1]);
    client.publish_with_cc(&mut house, 1, "q", "beside");
    assert_eq!((house.messages("q"), house.messages("beside")), (2, 2));
}

#[test]
fn searches_take_their_turns() {
    let mut house = house();
    let peers: Vec<_> = (0..3).map(|_| house.connect(0)).collect();
    let links: Vec<_> = peers.iter().map(|peer| house.sender(*peer, "/exchanges/amq.topic/k")).collect();
    for _ in 0..2 {
        for (peer, link) in peers.iter().zip(&links) {
            house.say_message(*peer, *link, &with_keys(b"m", keys(5)));
        }
    }
    rounds_until(&mut house, |house| house.peers[peers[2]].outcomes.len() == 1);
    let outcomes = |house: &House| peers.iter().map(|peer| house.peers[*peer].outcomes.len()).max();
    assert_eq!(outcomes(&house), Some(1), "nobody has a second message routed before everybody has one");
    house.settle();
    assert_eq!((outcomes(&house), house.messages("q")), (Some(2), 6));
}

/// What a connection waits for may be gone, or other things may have happened, when its route is found.
#[test]
fn a_message_that_waits_meets_what_has_happened_meanwhile() {
    let mut house = house();
    let peer = house.connect(0);
    let link = house.sender(peer, "/exchanges/amq.topic/k");
    let begin = |house: &mut House| {
        let before = house.messages("q");
        house.say_message(peer, link, &with_keys(b"m", keys(20)));
        (0..3).for_each(|_| _ = house.round());
        assert_eq!(house.messages("q"), before, "it is not routed yet");
    };
    // An alarm.
    begin(&mut house);
    house.alarm(true);
    assert_eq!(house.messages("q"), 0, "the alarm holds it");
    house.alarm(false);
    assert_eq!((house.messages("q"), house.peers[peer].outcomes.len()), (1, 1));

    // The queue is gone: it is as if it had been deleted just before the message.
    begin(&mut house);
    house.delete("q");
    assert_eq!(house.peers[peer].outcomes.last().map(String::as_str), Some("Released"));
    house.declare("q", Default::default());
    house.bind("amq.topic", "q", "#");

    // The client is gone. Its message is routed to nobody, and nothing is left to do.
    begin(&mut house);
    let key = house.peers[peer].key;
    house.shards[0].disconnect(key);
    house.settle();
    assert_eq!(house.messages("q"), 0);
}

#[test]
fn what_is_bound_instead_gets_the_message_or_what_was_bound_before() {
    let mut house = house();
    house.declare("new", Default::default());
    let peer = house.connect(0);
    let link = house.sender(peer, "/exchanges/amq.topic/k");
    for _ in 0..20 {
        let before = house.messages("q") + house.messages("new");
        house.say_message(peer, link, &with_keys(b"m", keys(20)));
        (0..3).for_each(|_| _ = house.round());
        // The new binding is there before the old one is gone, so each message has a queue at every moment.
        for (made, gone) in [("new", "q"), ("q", "new")] {
            house.bind_at_once("amq.topic", made, "#", true);
            house.bind_at_once("amq.topic", gone, "#", false);
            (0..5).for_each(|_| _ = house.round());
        }
        house.settle();
        assert_eq!(house.messages("q") + house.messages("new"), before + 1);
    }
    assert!(house.peers[peer].outcomes.iter().all(|outcome| outcome == "Accepted"));
}

#[test]
fn an_exchange_that_is_deleted_meanwhile_is_not_found() {
    let mut house = house();
    declare_topic(&mut house, "x");
    house.bind("x", "q", "#");
    let peer = house.connect(0);
    let link = house.sender(peer, "/exchanges/x/k");
    house.say_message(peer, link, &with_keys(b"m", keys(20)));
    (0..3).for_each(|_| _ = house.round());
    delete_exchange(&mut house, "x");
    house.settle();
    assert_eq!(house.peers[peer].detached, ["amqp:not-found"]);
    assert_eq!((house.peers[peer].outcomes.len(), house.messages("q")), (1, 0));
}

#[test]
fn messages_of_amqp091_wait_with_their_properties_and_keep_their_order() {
    let mut house = house();
    let mut client = Client091::open(&mut house, &[1, 2]);
    client.publish_to(&mut house, 1, ("amq.topic", "k"), 3);
    client.publish(&mut house, 2, "beside", 1);
    assert_eq!((house.messages("q"), house.messages("beside")), (3, 1));
    client.select_tx(&mut house, 2);
    client.publish_to(&mut house, 2, ("amq.topic", "k"), 1);
    client.publish_to(&mut house, 2, ("amq.topic", "l"), 1);
    assert_eq!(house.messages("q"), 3);
    client.commit(&mut house, 2);
    assert_eq!(house.messages("q"), 5);
}

/// Messages of a queue die with other keys, and each waits for its route. They arrive in their order, each once, and the queue has
/// no more of them on their way than before.
#[test]
fn dead_letters_wait_for_their_routes_in_their_order() {
    for (kind, at_least_once) in [("classic", false), ("quorum", false), ("quorum", true)] {
        let mut house = house();
        let mut arguments: Vec<(&str, Value)> = vec![
            ("x-queue-type", kind.into()),
            ("x-message-ttl", Value::Long(10)),
            ("x-dead-letter-exchange", "amq.topic".into()),
        ];
        if at_least_once {
            arguments.push(("x-dead-letter-strategy", "at-least-once".into()));
            arguments.push(("x-overflow", "reject-publish".into()));
        }
        let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value));
        let from = house.declare("from", arguments.collect());
        let (peer, reader) = (house.connect(0), house.connect(0));
        let link = house.sender(peer, "/queues/from");
        let received = house.receiver(reader, "/queues/q");
        house.grant(reader, received, 100);
        house.settle();
        let bodies: Vec<_> = (0..20u8).map(|n| [n]).collect();
        for body in &bodies {
            house.say_message(peer, link, &with_keys(body, keys(usize::from(body[0] % 3) * 5)));
        }
        house.settle();
        house.now_ms += 10;
        (0..5).for_each(|_| _ = house.round());
        let report = house.shards[0].queue_report(from).expect("it lives here");
        assert!(report.leaving > 1 && house.peers[reader].got.len() < 20, "{report:?}");
        house.settle();
        let got: Vec<_> = house.peers[reader].got.iter().map(|(_, body)| body.to_vec()).collect();
        assert_eq!(got, bodies, "{kind}");
        let report = house.shards[0].queue_report(from).expect("it lives here");
        assert_eq!((report.leaving, report.ready), (0, 0));
    }
}

/// Expires three messages of a new queue `from`, whose routes take long. Returns when they wait.
fn let_some_die(house: &mut House, more: &[(&str, Value)]) {
    let mut arguments =
        vec![("x-message-ttl", Value::Long(10)), ("x-dead-letter-exchange", "amq.topic".into())];
    arguments.extend_from_slice(more);
    let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value));
    house.declare("from", arguments.collect());
    let peer = house.connect(0);
    let link = house.sender(peer, "/queues/from");
    for _ in 0..3 {
        house.say_message(peer, link, &with_keys(b"m", keys(20)));
    }
    house.settle();
    house.now_ms += 10;
    (0..5).for_each(|_| _ = house.round());
    assert_eq!(house.messages("q"), 0);
}

#[test]
fn dead_letters_arrive_although_their_queue_has_ended() {
    for expires in [false, true] {
        let mut house = house();
        match expires {
            true => let_some_die(&mut house, &[("x-expires", Value::Long(30))]),
            false => let_some_die(&mut house, &[]),
        }
        match expires {
            true => house.now_ms += 100,
            false => house.delete("from"),
        }
        house.settle();
        assert!(house.shards[0].catalog().listed_queue("/", "from").is_none());
        assert_eq!(house.messages("q"), 3);
    }
}

/// Purged dead letters do not arrive, and do not pile up.
#[test]
fn dead_letters_that_were_purged_do_not_arrive() {
    let mut house = house();
    let kept: [(&str, Value); 3] = [
        ("x-queue-type", "quorum".into()),
        ("x-dead-letter-strategy", "at-least-once".into()),
        ("x-overflow", "reject-publish".into()),
    ];
    let_some_die(&mut house, &kept);
    let queue = house.shards[0].catalog().listed_queue("/", "from").expect("a queue").id;
    house.shards[0].ask(queue, |ticket| Request::Purge { ticket }, Box::new(|_| ()));
    house.settle();
    assert_eq!(house.messages("q"), 0);
    let report = house.shards[0].queue_report(queue).expect("it lives here");
    assert_eq!((report.leaving, report.ready), (0, 0));
}

/// What was found for a message that is refused meanwhile is not for the next one of the same publisher.
#[test]
fn a_route_is_for_the_message_for_which_it_was_found() {
    let mut house = house();
    declare_topic(&mut house, "x");
    house.bind("x", "q", "#");
    let peer = house.connect(0);
    let link = house.attach(peer, Role::Sender, Source::default(), Target::default());
    let to = |address: &str, more: usize| to_address(address, keys(more));
    house.say_message(peer, link, &to("/exchanges/x/k", 20));
    house.say_message(peer, link, &to("/queues/beside", 0));
    (0..3).for_each(|_| _ = house.round());
    delete_exchange(&mut house, "x");
    house.settle();
    assert_eq!((house.messages("q"), house.messages("beside")), (0, 1));
    let outcomes: Vec<_> = house.peers[peer].outcomes.iter().map(|outcome| &outcome[..8]).collect();
    assert_eq!(outcomes, ["Rejected", "Accepted"]);
}

/// An alarm that begins again while the first message of the last one waits for its route.
#[test]
fn messages_keep_their_order_over_two_alarms() {
    let mut house = house();
    let (peer, reader) = (house.connect(0), house.connect(0));
    let link = house.sender(peer, "/exchanges/amq.topic/k");
    let received = house.receiver(reader, "/queues/q");
    house.grant(reader, received, 10);
    house.settle();
    house.alarm(true);
    for body in [b"1", b"2", b"3"] {
        house.say_message(peer, link, &with_keys(body, keys(20)));
    }
    house.settle();
    house.shards[0].set_blocked(false);
    (0..3).for_each(|_| _ = house.round());
    house.alarm(true);
    assert!(house.peers[reader].got.is_empty(), "no message passes the alarm");
    house.alarm(false);
    let got: Vec<_> = house.peers[reader].got.iter().map(|(_, body)| body[0]).collect();
    assert_eq!(got, *b"123");
}

#[test]
fn a_commit_waits_for_the_end_of_an_alarm_between_its_messages() {
    let mut house = house();
    let mut client = Client091::open(&mut house, &[1]);
    client.select_tx(&mut house, 1);
    for key in ["a", "b", "c", "d"] {
        client.publish_to(&mut house, 1, ("amq.topic", key), 1);
    }
    client.begin_commit(&mut house, 1);
    rounds_until(&mut house, |house| house.messages("q") == 1);
    house.shards[0].set_blocked(true);
    // Connections learn of the alarm at the end of the turn.
    house.round();
    let before = house.messages("q");
    house.settle();
    assert!(house.messages("q") == before && before < 4, "no message passes the alarm");
    house.alarm(false);
    client.settle(&mut house);
    assert_eq!(house.messages("q"), 4);
}

#[test]
fn moved_messages_wait_for_their_routes() {
    let mut house = house();
    let moving = |exchange: &str, n: u8| {
        let keys = ["a", "b", "c"].map(Arc::from).to_vec();
        let list = [0x10, 0x00, 2];
        let basic = Basic::borrowed(&list, std::slice::from_ref(&n)).expect("a property list");
        let parts = basic.parts([&list[..], &[n]].concat().into());
        Moving { message: Message::new(parts, Arc::new(Route::new(exchange, keys))), queue: None }
    };
    let messages = vec![moving("amq.topic", 0), moving("none", 1), moving("amq.topic", 2)];
    let outcomes = Rc::new(RefCell::new(None));
    let into = outcomes.clone();
    let to = keep(move |moved: Vec<Result<(), _>>| {
        *into.borrow_mut() = Some(moved.iter().map(Result::is_ok).collect::<Vec<_>>());
    });
    house.shards[0].handle_question(Question::Act(Act::Move { vhost: "/".into(), messages, to }));
    house.round();
    assert_eq!((outcomes.borrow().clone(), house.messages("q")), (None, 0));
    house.settle();
    assert_eq!((outcomes.take(), house.messages("q")), (Some(vec![true, false, true]), 2));
}

/// The shares of the product: 2,000 binding keys that are expensive to match, and a message with many keys.
#[test]
fn no_turn_takes_more_steps_than_its_share() {
    /// Twice the share of a turn: messages that arrive, and searches; and one key, which is matched in one go.
    const TURN_MAX: u64 = 100_000 + KEY_STEPS;
    /// 80 words, each with 2,000 times 40 positions in cells of 64.
    const KEY_STEPS: u64 = 80 * (2_000 * 40 / 64 + 2);
    let mut house = House::new(1, Settings::default());
    house.declare("q", Default::default());
    house.declare("beside", Default::default());
    for n in 0..2_000 {
        house.bind_at_once("amq.topic", "q", &format!("#.{}.#.{}", words(n), words(n + 1)), true);
    }
    house.bind("amq.topic", "q", "k");
    let peers: Vec<_> = (0..4).map(|_| house.connect(0)).collect();
    let links: Vec<_> = peers.iter().map(|peer| house.sender(*peer, "/exchanges/amq.topic/k")).collect();
    let beside = house.connect(0);
    let link = house.sender(beside, "/queues/beside");
    for (peer, link) in peers.iter().zip(links) {
        let key = |n: usize| [words(n), words(n + 2)].join(".");
        house.say_message(*peer, link, &with_keys(b"m", (0..50).map(key)));
    }
    let mut most = 0;
    let mut answered = 0;
    while house.messages("q") < 4 {
        house.say(beside, link, b"m");
        for _ in 0..3 {
            let before = house.shards[0].counters.routing_steps;
            house.round();
            most = most.max(house.shards[0].counters.routing_steps - before);
        }
        answered += 1;
        assert_eq!(
            house.peers[beside].outcomes.len(),
            answered,
            "the neighbour is answered in the next rounds"
        );
        assert!(answered < ROUNDS_MAX);
    }
    assert!(answered > 10 && most <= TURN_MAX, "{answered} {most}");
}

#[test]
fn messages_of_the_broker_wait_for_their_routes_in_their_order() {
    let mut house = house();
    house.bind("amq.rabbitmq.trace", "q", "#");
    house.bind("amq.rabbitmq.trace", "q", "*.*");
    let (reader, fast) = (house.connect(0), house.connect(0));
    let link = house.receiver(reader, "/queues/q");
    house.grant(reader, link, 10);
    let beside = house.sender(fast, "/queues/beside");
    house.settle();
    let bodies = ["1", "2", "3"];
    for body in bodies {
        house.shards[0].handle_notice(Notice::traced(&"/".into(), "publish.x", body.as_bytes(), |_| {}));
    }
    house.say(fast, beside, b"at once");
    let fast_after = rounds_until(&mut house, |house| !house.peers[fast].outcomes.is_empty());
    assert!(house.peers[reader].got.len() < bodies.len(), "their routes are searched one after the other");
    rounds_until(&mut house, |house| house.peers[reader].got.len() == bodies.len());
    house.settle();
    let got: Vec<_> = house.peers[reader].got.iter().map(|(_, body)| &body[..]).collect();
    assert_eq!(got, bodies.map(str::as_bytes), "each once, {fast_after}");
}

/// A turn can have a thousand dead letters. All of them together take what one turn may take, and not a share each.
#[test]
fn messages_that_the_broker_publishes_share_the_steps_of_a_turn() {
    /// The share of a turn: messages that arrive, and searches, each with the last message that still began.
    const TURN_MAX: u64 = 2 * (50_000 + 512);
    const MESSAGES: usize = 1_000;
    let mut house = House::new(1, Settings::default());
    house.declare("q", Default::default());
    house.bind("amq.topic", "q", "#");
    let dies = [("x-message-ttl", Value::Long(10)), ("x-dead-letter-exchange", "amq.topic".into())];
    house.declare("from", dies.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    let peer = house.connect(0);
    let link = house.sender(peer, "/queues/from");
    for _ in 0..MESSAGES {
        house.say_message(peer, link, &with_keys(b"m", keys(120)));
        house.settle();
    }
    house.now_ms += 10;
    let mut most = 0;
    rounds_until(&mut house, |house| {
        let before = house.shards[0].counters.routing_steps;
        house.round();
        most = most.max(house.shards[0].counters.routing_steps - before);
        house.messages("q") == MESSAGES as u64
    });
    assert!(most > 50_000 && most <= TURN_MAX, "{most}");
}

#[test]
fn a_move_for_which_nobody_waits_publishes_nothing_more() {
    let mut house = house();
    let moving = |n: u8| {
        let keys = ["a", "b", "c"].map(Arc::from).to_vec();
        let list = [0x10, 0x00, 2];
        let basic = Basic::borrowed(&list, std::slice::from_ref(&n)).expect("a property list");
        let parts = basic.parts([&list[..], &[n]].concat().into());
        Moving { message: Message::new(parts, Arc::new(Route::new("amq.topic", keys))), queue: None }
    };
    let to = keep(|_| ());
    let (number, messages) = (to.number, (0..3).map(moving).collect());
    house.shards[0].handle_question(Question::Act(Act::Move { vhost: "/".into(), messages, to }));
    house.round();
    assert_eq!(house.messages("q"), 0);
    house.shards[0].give_up(number);
    house.settle();
    assert_eq!(house.messages("q"), 0, "they are back in their queue, so nobody else gets them");
}

/// The first of two dead letters is purged while its route is searched. The second has another key.
#[test]
fn a_dead_letter_does_not_get_the_route_of_one_that_was_purged() {
    let mut house = house();
    house.declare("other", Default::default());
    house.bind("amq.topic", "other", "further.1");
    let arguments: [(&str, Value); 5] = [
        ("x-queue-type", "quorum".into()),
        ("x-message-ttl", Value::Long(10)),
        ("x-dead-letter-exchange", "amq.topic".into()),
        ("x-dead-letter-strategy", "at-least-once".into()),
        ("x-overflow", "reject-publish".into()),
    ];
    let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value));
    let queue = house.declare("from", arguments.collect());
    let peer = house.connect(0);
    let link = house.sender(peer, "/queues/from");
    house.settle();
    house.say_message(peer, link, &with_keys(b"1", keys(200)));
    house.settle();
    house.now_ms += 10;
    (0..5).for_each(|_| _ = house.round());
    house.shards[0].ask(queue, |ticket| Request::Purge { ticket }, Box::new(|_| ()));
    (0..5).for_each(|_| _ = house.round());
    house.say_message(peer, link, &with_keys(b"2", keys(0)));
    (0..10).for_each(|_| _ = house.round());
    house.now_ms += 10;
    (0..10).for_each(|_| _ = house.round());
    assert_eq!((house.messages("q"), house.messages("other")), (0, 0), "the first search goes on");
    house.settle();
    assert_eq!((house.messages("q"), house.messages("other")), (1, 0));
}

/// Words of two letters, so that a key has less than 255 bytes. The sequences differ in their beginnings and in their steps.
fn words(n: usize) -> String {
    let word = |n: usize| [b'a' + (n / 26 % 26) as u8, b'a' + (n % 26) as u8].map(char::from);
    (0..40).map(|at| word(n + at * (1 + n / 676)).iter().collect::<String>()).collect::<Vec<_>>().join(".")
}

/// A key alone may take a hundred times the share of a message. It is not matched to its end when the message arrives.
#[test]
fn messages_with_one_key_share_the_steps_of_a_turn() {
    /// 80 words, each with 2,000 times 40 positions in cells of 64.
    const KEY_STEPS: u64 = 80 * (2_000 * 40 / 64 + 2);
    const MESSAGES: u64 = 40;
    let mut house = House::new(1, Settings::default());
    house.declare("q", Default::default());
    for n in 0..2_000 {
        let key = format!("#.{}.#.{}", words(n), words(n + 1));
        house.bind_at_once("amq.topic", "q", &key, true);
    }
    house.bind("amq.topic", "q", "#");
    let peer = house.connect(0);
    let link = house.attach(peer, Role::Sender, Source::default(), Target::default());
    for n in 0..MESSAGES as usize {
        let key = [words(n), words(n + 2)].join(".");
        house.say_message(peer, link, &to_address(&format!("/exchanges/amq.topic/{key}"), keys(0)));
    }
    let mut most = 0;
    rounds_until(&mut house, |house| {
        let before = house.shards[0].counters.routing_steps;
        house.round();
        most = most.max(house.shards[0].counters.routing_steps - before);
        house.messages("q") == MESSAGES
    });
    assert!(most > KEY_STEPS && most <= 100_000 + KEY_STEPS + MESSAGES * 2_048, "{most}");
}

/// Others need ten times as many parts. They were there first, and go on after it.
#[test]
fn a_short_search_does_not_wait_for_the_end_of_long_ones() {
    let mut house = house();
    let peers: Vec<_> = (0..2).map(|_| house.connect(0)).collect();
    let links: Vec<_> = peers.iter().map(|peer| house.sender(*peer, "/exchanges/amq.topic/k")).collect();
    house.say_message(peers[0], links[0], &with_keys(b"m", keys(200)));
    (0..3).for_each(|_| _ = house.round());
    house.say_message(peers[1], links[1], &with_keys(b"m", keys(5)));
    rounds_until(&mut house, |house| house.peers[peers[1]].outcomes.len() == 1);
    assert!(house.peers[peers[0]].outcomes.is_empty());
    house.settle();
    assert_eq!(house.messages("q"), 2);
}
