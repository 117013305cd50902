//! Shards that were late: their clients do not pay for that.

use std::fmt::{Debug, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use broker::gate::Phase;
use broker::settings::Settings;
use node::shard::Late;
use tracing::field::Field;

use super::client091::Client091;
use super::house::House;

/// More than any client may be silent, and longer than a handshake may take.
const LATE_MS: u64 = 300_000;

/// Begins a turn after `ms`, and says whether the shard was late by as much.
fn pass(house: &mut House, ms: u64, is_late: bool) {
    house.now_ms += ms;
    house.shards[0].set_now(house.now_ms);
    house.shards[0].begin_turn(is_late.then_some(Late { ms, has_worked: true }));
    house.settle();
}

fn settings() -> Settings {
    Settings { heartbeat_s: 60, ..Settings::default() }
}

#[test]
fn a_late_shard_closes_no_connection_for_its_own_silence() {
    let mut house = House::new(1, settings());
    let peer = house.connect(0);
    let client = Client091::open_with_heartbeat(&mut house, 60);
    house.peers[peer].doomed = true;
    let is_closed = |house: &House| house.peers[peer].closed.is_some();
    // AMQP 1.0 allows a silence of one interval, AMQP 0.9.1 of two.
    pass(&mut house, 59_000, false);
    pass(&mut house, LATE_MS, true);
    assert!(!is_closed(&house) && client.is_open(&mut house));
    pass(&mut house, 999, false);
    assert!(!is_closed(&house));
    // The deadline moved by as much, and not by more.
    pass(&mut house, 1_000, false);
    assert!(is_closed(&house) && client.is_open(&mut house));
    pass(&mut house, 58_000, false);
    assert!(client.is_open(&mut house));
    pass(&mut house, 1_500, false);
    assert!(!client.is_open(&mut house));
    assert_eq!(house.shards[0].counters.late_turns, 1);
}

#[test]
fn what_was_received_just_before_is_not_forgiven_twice() {
    let mut house = House::new(1, settings());
    let peer = house.connect(0);
    house.peers[peer].doomed = true;
    // The silence is shorter than the lateness, so it begins now.
    pass(&mut house, 1_000, false);
    pass(&mut house, LATE_MS, true);
    house.shards[0].begin_turn(Some(Late { ms: LATE_MS, has_worked: false }));
    pass(&mut house, 61_000, false);
    assert!(house.peers[peer].closed.is_some());
}

#[test]
fn a_late_shard_gives_logins_more_time() {
    let mut house = House::new(1, settings());
    let local: SocketAddr = ([127, 0, 0, 1], 1).into();
    let key = house.shards[0].connect(local, local);
    let phase = |house: &mut House| house.shards[0].conn(key).map(|conn| conn.gate.phase());
    pass(&mut house, 9_000, false);
    pass(&mut house, LATE_MS, true);
    assert_eq!(phase(&mut house), Some(Phase::Handshake));
    pass(&mut house, 2_000, false);
    assert_eq!(phase(&mut house), Some(Phase::Done));
}

/// Keeps the fields of each event as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| _ = write!(line, "{field}={value:?} "));
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// The log says what a late turn did: of the turn, and not of all turns before it.
#[test]
fn a_late_turn_is_logged_with_what_it_did() {
    let mut house = House::new(1, settings());
    house.declare("q", Default::default());
    house.bind("amq.topic", "q", "#");
    let (peer, reader) = (house.connect(0), house.connect(0));
    let link = house.sender(peer, "/exchanges/amq.topic/k");
    let received = house.receiver(reader, "/queues/q");
    house.grant(reader, received, 10);
    let publish = |house: &mut House, messages: usize| {
        (0..messages).for_each(|_| house.say(peer, link, b"m"));
        house.settle();
    };
    publish(&mut house, 2);
    house.shards[0].begin_turn(None);
    publish(&mut house, 3);
    house.declare("q2", Default::default());
    let lines = Lines::default();
    let late = |has_worked| Some(Late { ms: 250, has_worked });
    tracing::subscriber::with_default(lines.clone(), || {
        house.shards[0].begin_turn(late(true));
        house.shards[0].begin_turn(late(false));
    });
    let lines = lines.0.lock().unwrap();
    let [turn, pause] = &lines[..] else { panic!("{lines:?}") };
    for part in ["a turn took 250 ms", "received=3 ", "sent=3 ", "changes=1 ", "late_ms=250 "] {
        assert!(turn.contains(part), "{part}: {turn}");
    }
    assert!(pause.contains("did not run for 250 ms") && !pause.contains("received"), "{pause}");
}
