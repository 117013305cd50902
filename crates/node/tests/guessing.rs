//! Guessing passwords over many connections to several shards. The answers to wrong passwords of an address wait, and those to right
//! ones do not. The tests check the passwords themselves. How logins wait for their check is tested beside `logins/line.rs`.

use std::net::SocketAddr;
use std::sync::Arc;

use amqp10::frame::SASL_HEADER;
use amqp10::sasl::Secret;
use amqp10::{SaslInit, Symbol, put_sasl_frame};
use broker::gate::Phase;
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
use catalog::access::{Access, Hashing, Permissions, User};
use node::facts::Restored;
use node::shard::Shard;
use node::{StorageLimits, make_shards};

const SHARDS: u8 = 2;

const LOCAL: &str = "127.0.0.1:5672";

/// Tries a login on a new connection. Returns true if it succeeds.
fn is_let_in(access: &Access, shard: &mut Shard, from: &str, password: &str) -> bool {
    let key = shard.connect(peer(from), LOCAL.parse().unwrap());
    is_login_right(access, shard, key, password)
}

/// Like [`is_let_in`], over a proxy.
fn is_let_in_over_proxy(access: &Access, shard: &mut Shard, from: &str, password: &str) -> bool {
    let key = shard.connect(peer("10.0.0.1"), LOCAL.parse().unwrap());
    shard.set_peer(key, peer(from), "198.51.100.1:5672".parse().unwrap());
    is_login_right(access, shard, key, password)
}

fn peer(from: &str) -> SocketAddr {
    SocketAddr::new(from.parse().unwrap(), 4711)
}

fn is_login_right(access: &Access, shard: &mut Shard, key: usize, password: &str) -> bool {
    let mut init = SaslInit::new(Symbol::from_static("PLAIN"));
    init.initial_response = Some(Secret::new(Bytes::from(format!("\0u\0{password}"))));
    let mut login = BytesMut::from(&SASL_HEADER[..]);
    put_sasl_frame(&mut login, &amqp10::SaslFrame::Init(init));
    shard.handle_input(key, &mut login);
    for (ticket, login) in shard.poll_logins() {
        shard.handle_login(ticket, access.check(&login));
    }
    let phase = shard.conn(key).expect("it is connected").gate.phase();
    assert!(matches!(phase, Phase::Handshake | Phase::Refused | Phase::Done));
    phase == Phase::Handshake
}

fn access() -> Access {
    let user = User {
        name: "u".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("right")),
        tags: Vec::new(),
        loopback_only: false,
        permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
    };
    Access::new([user])
}

/// The most failed logins of an address that wait, and the longest wait in milliseconds.
const WAITING_MAX: usize = 64;
const WAIT_MAX_MS: u64 = 5_000;

/// How long the refusal of a login waits that is no guess, in milliseconds.
const USUAL_MS: u64 = 3_000;

/// Begins a login on a new connection, and returns the key of the connection.
fn try_in(access: &Access, shard: &mut Shard, from: &str, password: &str) -> usize {
    let key = shard.connect(peer(from), LOCAL.parse().unwrap());
    let _ = is_login_right(access, shard, key, password);
    key
}

/// Returns how many of these connections still wait for the refusal of their login. The others are closed.
fn waiting(shards: &mut [Shard], keys: &[(usize, usize)], now_ms: u64) -> usize {
    for shard in shards.iter_mut() {
        shard.take_dirty(&mut Vec::new());
        shard.set_now(now_ms);
        shard.handle_timeout();
        while shard.turn() {}
    }
    let waits = |(shard, key): &&(usize, usize)| {
        shards[*shard].conn(*key).is_some_and(|conn| conn.gate.phase() == Phase::Refused)
    };
    keys.iter().filter(waits).count()
}

#[test]
fn guesses_over_many_connections_wait_and_right_passwords_do_not() {
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(access()));
    let limits = StorageLimits::default();
    let mut shards = make_shards(Restored::default(), SHARDS, &settings, &access, limits, 1_000);
    let mut keys = Vec::new();
    for n in 0..200 {
        let shard = usize::from(n % 3 == 0);
        let key = try_in(&access, &mut shards[shard], "127.0.0.1", &format!("guess {n}"));
        keys.push((shard, key));
        // A right password is let in when it is checked, however many others of its address are wrong.
        assert!(is_let_in(&access, &mut shards[0], "127.0.0.1", "right"), "after {n}");
        assert!(is_let_in(&access, &mut shards[1], "192.0.2.1", "right"), "nor at other addresses");
    }
    // The first ones of the user do not wait for the others. Of the others, so many wait, and the rest was closed at once.
    let (first, others) = keys.split_at(20);
    assert_eq!(waiting(&mut shards, first, 1_000), 20);
    assert_eq!(waiting(&mut shards, others, 1_000), WAITING_MAX);
    assert_eq!(waiting(&mut shards, first, 4_100), 0, "as usual");
    assert!(waiting(&mut shards, others, 4_100) > 0, "longer than usual");
    assert_eq!(waiting(&mut shards, others, 1_100 + WAIT_MAX_MS), 0);
    let key = try_in(&access, &mut shards[0], "127.0.0.1", "guess");
    assert_eq!(waiting(&mut shards, &[(0, key)], 1_100 + WAIT_MAX_MS), 1, "there are places again");
}

#[test]
fn a_guesser_behind_a_proxy_slows_no_other_client_of_the_proxy_down() {
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(access()));
    let limits = StorageLimits::default();
    let mut shards = make_shards(Restored::default(), 1, &settings, &access, limits, 1_000);
    for n in 0..60 {
        assert!(!is_let_in_over_proxy(&access, &mut shards[0], "203.0.113.9", &format!("guess {n}")));
    }
    assert!(is_let_in_over_proxy(&access, &mut shards[0], "203.0.113.9", "right"));
    let mut waits_long = |from: &str| {
        let key = shards[0].connect(peer("10.0.0.1"), LOCAL.parse().unwrap());
        shards[0].set_peer(key, peer(from), "198.51.100.1:5672".parse().unwrap());
        let now_ms = shards[0].now_ms();
        let _ = is_login_right(&access, &mut shards[0], key, "wrong");
        waiting(&mut shards, &[(0, key)], now_ms);
        waiting(&mut shards, &[(0, key)], now_ms + USUAL_MS + 500) == 1
    };
    assert!(waits_long("203.0.113.9"));
    assert!((0..8).any(|n| !waits_long(&format!("192.0.2.{n}"))));
}
