//! How late the timers of an idle broker are. Nothing happens but its timers, so the time jumps from one to the next, as it does
//! for a shard that sleeps until [`node::shard::Shard::next_timeout`].

use std::sync::Arc;

use amqp10::{DeliveryState, Modified, Role, Value};
use broker::gate::Phase;
use broker::mail::Mail;
use broker::settings::Settings;
use catalog::Arguments;
use catalog::access::Grants;

use super::client091::Client091;
use super::house::House;

/// The most by which a timer is late, in milliseconds, if its row says nothing else.
const LATE_MAX_MS: u64 = 20;

/// The most by which a connection outlives the `exp` of its token, in milliseconds.
const TOKEN_LATE_MAX_MS: u64 = 1_000;

/// A timer that is late by this much, in milliseconds, does not run.
const NEVER_MS: u64 = 100_000;

/// The interval of heartbeats, in seconds.
const HEARTBEAT_S: u16 = 10;

type Fired = Box<dyn FnMut(&mut House) -> bool>;

/// A broker whose timer runs.
struct Running {
    house: House,
    due_ms: u64,
    /// Returns true when the timer has done its work.
    fired: Fired,
}

impl Running {
    /// A timer that is due in `in_ms`.
    fn new(house: House, in_ms: u64, fired: impl FnMut(&mut House) -> bool + 'static) -> Self {
        Self { due_ms: house.now_ms + in_ms, house, fired: Box::new(fired) }
    }

    /// Lets the time pass until the timer has done its work. Returns by how many milliseconds it was late.
    fn lateness(mut self) -> Result<u64, &'static str> {
        while !(self.fired)(&mut self.house) {
            if self.house.now_ms >= self.due_ms + NEVER_MS {
                return Err("never");
            }
            let next = self.house.shards.iter().map(|shard| shard.next_timeout()).min().expect("a shard");
            self.house.now_ms = next.max(self.house.now_ms + 1);
            self.house.settle();
        }
        self.house.now_ms.checked_sub(self.due_ms).ok_or("early")
    }
}

/// Returns a broker that expects nothing of silent clients.
fn house() -> House {
    House::new(2, Settings { heartbeat_s: 0, ..Settings::default() })
}

fn house_with_heartbeats() -> House {
    House::new(2, Settings { heartbeat_s: HEARTBEAT_S.into(), ..Settings::default() })
}

/// Declares a queue of this type. Dead letters go to the queue `dead`, if it is another one.
fn declare(house: &mut House, kind: &str, name: &str, dead: &str, arguments: &[(&str, Value)]) {
    let mut all: Arguments =
        arguments.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    all.insert("x-queue-type".to_owned(), kind.into());
    if name != dead {
        all.insert("x-dead-letter-exchange".to_owned(), "".into());
        all.insert("x-dead-letter-routing-key".to_owned(), dead.into());
    }
    house.declare(name, all);
}

fn ttl(ms: i64) -> [(&'static str, Value); 1] {
    [("x-message-ttl", Value::Long(ms))]
}

/// A message that passes through this number of queues, each after 100 ms.
fn ladder(kind: &str, steps: u64) -> Running {
    let mut house = house();
    for step in (0..steps).rev() {
        declare(&mut house, kind, &format!("q{step}"), &format!("q{}", step + 1), &ttl(100));
    }
    let last = format!("q{steps}");
    declare(&mut house, kind, &last, &last, &[]);
    let peer = house.connect(0);
    let sender = house.sender(peer, "/queues/q0");
    house.send(peer, sender, b"x");
    Running::new(house, 100 * steps, move |house| house.messages(&last) == 1)
}

/// A dead letter that was refused when it was sent first, because the disk was full.
fn retry() -> Running {
    let mut house = house();
    declare(&mut house, "classic", "q", "dead", &[]);
    declare(&mut house, "classic", "dead", "dead", &[]);
    let peer = house.connect(0);
    let (sender, receiver) = (house.sender(peer, "/queues/q"), house.receiver(peer, "/queues/q"));
    house.grant(peer, receiver, 1);
    house.send(peer, sender, b"x");
    let full = |house: &mut House, is_full| {
        let mail = || vec![Mail::LogFull { bytes: 0, oldest: 1, newest: 1, on_reserve: is_full }];
        house.shards.iter_mut().for_each(|shard| shard.handle_mail(mail()));
        house.settle();
    };
    full(&mut house, true);
    house.peers[peer].conn.disposition(0, Role::Receiver, (0, 0), true, &DeliveryState::Rejected(None));
    house.settle();
    full(&mut house, false);
    Running::new(house, queue::DEAD_LETTER_RETRY_MS, |house| house.messages("dead") == 1)
}

/// A queue that nobody uses.
fn unused(kind: &str) -> Running {
    let mut house = house();
    declare(&mut house, kind, "q", "q", &[("x-expires", Value::Long(3000))]);
    Running::new(house, 3000, |house| house.shards[0].catalog().listed_queue("/", "q").is_none())
}

/// A consumer that holds a message for too long.
fn held(timeout_ms: u64) -> Running {
    let mut house = house();
    let timeout = [("x-consumer-timeout", Value::Ulong(timeout_ms))];
    declare(&mut house, "quorum", "q", "q", &timeout);
    let peer = house.connect(0);
    let (sender, receiver) = (house.sender(peer, "/queues/q"), house.receiver(peer, "/queues/q"));
    house.grant(peer, receiver, 1);
    house.send(peer, sender, b"x");
    assert_eq!(house.peers[peer].got.len(), 1);
    let other = house.connect(1);
    let second = house.receiver(other, "/queues/q");
    house.grant(other, second, 1);
    Running::new(house, timeout_ms, move |house| house.peers[other].got.len() == 1)
}

/// A message that comes back and is delivered again after a delay.
fn delayed() -> Running {
    let mut house = house();
    let retry = [
        ("x-delayed-retry-type", Value::from("all")),
        ("x-delayed-retry-min", Value::Long(700)),
        ("x-delayed-retry-max", Value::Long(700)),
    ];
    declare(&mut house, "quorum", "q", "q", &retry);
    let peer = house.connect(0);
    let (sender, receiver) = (house.sender(peer, "/queues/q"), house.receiver(peer, "/queues/q"));
    house.grant(peer, receiver, 2);
    house.send(peer, sender, b"x");
    let failed = DeliveryState::Modified(Modified { delivery_failed: Some(true), ..Modified::default() });
    house.peers[peer].conn.disposition(0, Role::Receiver, (0, 0), true, &failed);
    house.settle();
    assert_eq!(house.peers[peer].got.len(), 1);
    Running::new(house, 700, move |house| house.peers[peer].got.len() == 2)
}

/// A consumer that asks for what there is, or to be told that there is nothing.
fn drained() -> Running {
    let mut house = house();
    house.declare("q", Arguments::new());
    let peer = house.connect(1);
    let link = house.receiver(peer, "/queues/q");
    house.peers[peer].conn.grant(0, link, 5, true, false);
    house.settle();
    Running::new(house, 0, move |house| {
        house.peers[peer]
            .conn
            .session(0)
            .expect("a session")
            .link(link)
            .expect("a link")
            .receiver_credit()
            .credit()
            == 0
    })
}

/// A publisher that detaches while the disk is stuck.
fn detached() -> Running {
    let mut house = house();
    declare(&mut house, "quorum", "q", "q", &[]);
    let peer = house.connect(0);
    let sender = house.sender(peer, "/queues/q");
    house.log_stopped = true;
    house.say(peer, sender, b"x");
    house.peers[peer].conn.detach(0, sender, None);
    house.settle();
    Running::new(house, 1000, move |house| house.peers[peer].detached.len() == 1)
}

/// Connects a client that is silent, too, and whose deadlines come just before those of the next one.
fn just_before(house: &mut House) {
    let local = ([127, 0, 0, 1], 8).into();
    house.shards[0].connect(local, local);
    let other = house.connect(0);
    house.peers[other].doomed = true;
    house.now_ms += 100;
    house.settle();
}

/// A client that says nothing before it has logged in.
fn no_handshake() -> Running {
    let mut house = house();
    just_before(&mut house);
    let local = ([127, 0, 0, 1], 7).into();
    let key = house.shards[0].connect(local, local);
    house.settle();
    let timeout_ms = Settings::default().handshake_timeout_ms;
    Running::new(house, timeout_ms, move |house| {
        house.shards[0].conn(key).is_none_or(|conn| conn.gate.phase() == Phase::Done)
    })
}

/// A client of AMQP 1.0 that is silent.
fn silence_10() -> Running {
    let mut house = house_with_heartbeats();
    just_before(&mut house);
    let peer = house.connect(0);
    house.peers[peer].doomed = true;
    Running::new(house, u64::from(HEARTBEAT_S) * 1000, move |house| house.peers[peer].closed.is_some())
}

/// A client of AMQP 0.9.1 that is silent. It may be so for two intervals.
fn silence_091() -> Running {
    let mut house = house_with_heartbeats();
    just_before(&mut house);
    let client = Client091::open_with_heartbeat(&mut house, HEARTBEAT_S);
    Running::new(house, u64::from(HEARTBEAT_S) * 2000, move |house| !client.is_open(house))
}

/// A broker whose clients log in with a token that expires in `in_ms`.
fn house_with_tokens(in_ms: u64) -> House {
    let mut house = house();
    just_before(&mut house);
    house.token = Some(Arc::new(Grants::new(["read:*/*", "write:*/*"], house.now_ms + in_ms)));
    house
}

/// A client of AMQP 1.0 whose token expires.
fn token_10(in_ms: u64) -> Running {
    let mut house = house_with_tokens(in_ms);
    let peer = house.connect(0);
    house.peers[peer].doomed = true;
    Running::new(house, in_ms, move |house| house.peers[peer].closed.is_some())
}

/// A client of AMQP 0.9.1 whose token expires.
fn token_091(in_ms: u64) -> Running {
    let mut house = house_with_tokens(in_ms);
    let client = Client091::open_with_heartbeat(&mut house, 0);
    Running::new(house, in_ms, move |house| !client.is_open(house))
}

/// A heartbeat of the broker over AMQP 1.0. It is due after half of the client's idle-time-out.
fn heartbeat_10() -> Running {
    let mut house = house();
    house.idle_time_out_ms = u32::from(HEARTBEAT_S) * 2000;
    just_before(&mut house);
    let peer = house.connect(0);
    house.peers[peer].deaf = true;
    let key = house.peers[peer].key;
    Running::new(house, u64::from(HEARTBEAT_S) * 500, move |house| {
        house.shards[0].conn(key).is_some_and(|conn| !conn.gate.output().is_empty())
    })
}

/// A heartbeat of the broker, after half of the interval.
fn heartbeat_091() -> Running {
    let mut house = house_with_heartbeats();
    just_before(&mut house);
    let client = Client091::open_with_heartbeat(&mut house, HEARTBEAT_S);
    Running::new(house, u64::from(HEARTBEAT_S) * 500, move |house| client.has_output(house))
}

#[test]
fn no_timer_of_an_idle_broker_is_late() {
    let mut rows: Vec<(String, u64, Running)> = Vec::new();
    let mut row = |name: &str, late_max_ms: u64, running| rows.push((name.to_owned(), late_max_ms, running));
    for kind in ["classic", "quorum"] {
        row(&format!("a time to live, {kind}"), LATE_MAX_MS, ladder(kind, 1));
        row(&format!("a ladder of five times to live, {kind}"), LATE_MAX_MS, ladder(kind, 5));
        row(&format!("an unused queue, {kind}"), LATE_MAX_MS, unused(kind));
    }
    for timeout_ms in [800, 30_000] {
        row("a consumer that holds a message", timeout_ms / 8, held(timeout_ms));
    }
    row("a dead letter that is sent again", LATE_MAX_MS, retry());
    row("a delayed retry", LATE_MAX_MS, delayed());
    row("a drain", 0, drained());
    row("a DETACH that waits for outcomes", LATE_MAX_MS, detached());
    row("a handshake", LATE_MAX_MS, no_handshake());
    row("silence, AMQP 1.0", LATE_MAX_MS, silence_10());
    row("silence, AMQP 0.9.1", LATE_MAX_MS, silence_091());
    row("a heartbeat, AMQP 1.0", LATE_MAX_MS, heartbeat_10());
    row("a heartbeat, AMQP 0.9.1", LATE_MAX_MS, heartbeat_091());
    // A token never ends early: the connection would be closed while others still accept it.
    for in_ms in [999, 1_000, 60_001] {
        row("a token, AMQP 1.0", TOKEN_LATE_MAX_MS, token_10(in_ms));
        row("a token, AMQP 0.9.1", TOKEN_LATE_MAX_MS, token_091(in_ms));
    }
    let late: Vec<String> = rows
        .into_iter()
        .filter_map(|(name, late_max_ms, running)| match running.lateness() {
            Ok(late_ms) if late_ms <= late_max_ms => None,
            Ok(late_ms) => Some(format!("{name}: {late_ms} ms late")),
            Err(what) => Some(format!("{name}: {what}")),
        })
        .collect();
    assert!(late.is_empty(), "{late:#?}");
}
