//! Guessing passwords over many connections to several shards. All connections of one address share one
//! limit.

use std::net::SocketAddr;
use std::sync::Arc;

use amqp10::frame::SASL_HEADER;
use amqp10::sasl::Secret;
use amqp10::{SaslInit, Symbol, put_sasl_frame};
use broker::access::{Access, Hashing, Permissions, User};
use broker::gate::Phase;
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
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
    assert!(matches!(phase, Phase::Handshake | Phase::Refused));
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

#[test]
fn an_address_guesses_no_faster_over_many_connections() {
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(access()));
    let limits = StorageLimits::default();
    let mut shards = make_shards(Restored::default(), SHARDS, &settings, &access, limits, 1_000);
    let [a, b] = shards.as_mut_slice() else { panic!("two shards") };
    assert!(is_let_in(&access, a, "127.0.0.1", "right") && is_let_in(&access, b, "127.0.0.1", "right"));
    for n in 0..100 {
        assert!(!is_let_in(&access, if n < 30 { a } else { b }, "127.0.0.1", &format!("guess {n}")));
    }
    // Beyond the limit, a guess is refused even if it is right.
    assert!(!is_let_in(&access, a, "127.0.0.1", "right") && !is_let_in(&access, b, "127.0.0.1", "right"));
    assert!(
        (0..8).any(|n| is_let_in(&access, a, &format!("192.0.2.{n}"), "right")),
        "other addresses are not limited"
    );
    a.set_now(2_000);
    b.set_now(2_000);
    assert!(
        is_let_in(&access, a, "127.0.0.1", "right") && is_let_in(&access, b, "127.0.0.1", "right"),
        "after a second one more try is allowed"
    );
}

#[test]
fn a_guesser_behind_a_proxy_stops_no_other_client_of_the_proxy() {
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(access()));
    let limits = StorageLimits::default();
    let mut shards = make_shards(Restored::default(), 1, &settings, &access, limits, 1_000);
    let shard = &mut shards[0];
    for n in 0..100 {
        assert!(!is_let_in_over_proxy(&access, shard, "203.0.113.9", &format!("guess {n}")));
    }
    assert!(!is_let_in_over_proxy(&access, shard, "203.0.113.9", "right"));
    assert!((0..8).any(|n| is_let_in_over_proxy(&access, shard, &format!("192.0.2.{n}"), "right")));
    assert!(is_let_in(&access, shard, "10.0.0.1", "right"), "nor the proxy itself");
}
