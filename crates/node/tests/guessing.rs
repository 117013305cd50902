//! Guessing passwords over many connections to several shards. All connections of one address share one
//! limit.

use std::net::{IpAddr, SocketAddr};
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

/// Tries a login on a new connection. Returns true if it succeeds.
fn is_let_in(access: &Access, shard: &mut Shard, from: &str, password: &str) -> bool {
    let from: IpAddr = from.parse().unwrap();
    let key = shard.connect(SocketAddr::new(from, 4711), "127.0.0.1:5672".parse().unwrap());
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

#[test]
fn an_address_guesses_no_faster_over_many_connections() {
    let user = User {
        name: "u".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("right")),
        tags: Vec::new(),
        loopback_only: false,
        permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
    };
    let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::new([user])));
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
