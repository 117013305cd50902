//! A login is checked on another thread. The answer may arrive late, or after the connection has closed.

use std::sync::Arc;

use amqp10::frame::{AMQP_HEADER, SASL_HEADER};
use amqp10::sasl::Secret;
use amqp10::{Open, SaslFrame, SaslInit, Symbol, put_frame, put_sasl_frame};
use broker::gate::Phase;
use broker::settings::Settings;
use bytes::{Bytes, BytesMut};
use catalog::access::{Grants, Hashing, Identity, LoginRefused, Permissions, Resource, Verb};
use catalog::{AccountChange, Command};

use super::client091::Client091;
use super::house::House;
use crate::asks::Asks;

/// The end of a SASL-OUTCOME with the code for "try again" [5.3.3.6].
const TRY_AGAIN: &[u8] = &[0x50, 4];

/// Returns all frames that a client may send before it receives an answer.
fn hello() -> BytesMut {
    let mut init = SaslInit::new(Symbol::from_static("PLAIN"));
    init.initial_response = Some(Secret::new(Bytes::from_static(b"\0guest\0guest")));
    let mut hello = BytesMut::from(&SASL_HEADER[..]);
    put_sasl_frame(&mut hello, &SaslFrame::Init(init));
    hello.extend_from_slice(&AMQP_HEADER);
    put_frame(&mut hello, 0, &Open { container_id: "c".into(), ..Open::default() });
    hello
}

/// Opens a connection on shard 0 whose login waits.
fn waiting(house: &mut House) -> usize {
    let address = "127.0.0.1:1".parse().unwrap();
    let key = house.shards[0].connect(address, address);
    house.shards[0].handle_input(key, &mut hello());
    house.settle();
    assert_eq!(phase(house, key), Some(Phase::Login));
    assert!(!house.shards[0].takes_input(key), "it is not read on");
    key
}

fn phase(house: &mut House, key: usize) -> Option<Phase> {
    house.shards[0].conn(key).map(|conn| conn.gate.phase())
}

fn guest() -> Identity {
    Identity { user: "guest".into(), tags: [].into(), is_of_catalog: true, token: None, remote: None }
}

#[test]
fn other_connections_continue_while_a_login_is_checked() {
    let mut house = House::new(1, Settings::default());
    let (a, b) = (house.connect(0), house.connect(0));
    house.declare("q", Default::default());
    house.logins_stopped = true;
    let key = waiting(&mut house);

    let (sender, receiver) = (house.sender(a, "/queues/q"), house.receiver(b, "/queues/q"));
    house.grant(b, receiver, 10);
    house.send(a, sender, b"m");
    assert_eq!(house.peers[b].got.len(), 1);
    assert_eq!(phase(&mut house, key), Some(Phase::Login));

    house.logins_stopped = false;
    house.settle();
    assert_eq!(phase(&mut house, key), Some(Phase::Open), "input that arrived meanwhile is handled");
    let attempts = house.shards[0].counters.traffic().auth_attempts;
    assert_eq!((attempts.all, attempts.succeeded), (3, 3));
}

/// The next login and the next permission check use the changed users. The connection stays open until the user is deleted.
#[test]
fn users_change_while_they_are_connected() {
    let mut house = House::new(2, Settings::default());
    house.declare("q", Default::default());
    let peer = house.connect(1);
    let propose = |house: &mut House, command| {
        house.shards[0].propose(command, Box::new(|result| assert!(result.is_ok(), "{result:?}")));
        house.settle();
    };
    let (user, vhost) = ("guest".into(), "/".into());
    propose(
        &mut house,
        Command::Account(AccountChange::SetPermissions { user, vhost, permissions: Permissions::NONE }),
    );
    for shard in &house.shards {
        let publish = (Verb::Publish, [Resource::Exchange("")]);
        assert!(shard.catalog().users().permit(&guest(), "/", publish.0, &publish.1).is_err());
    }
    assert_eq!(house.peers[peer].closed, None);

    let hash = Hashing::Sha256.hash([1; 16], &Secret::new("another"));
    propose(
        &mut house,
        Command::Account(AccountChange::SetUser { name: "guest".into(), hash, tags: [].into() }),
    );
    house.logins_stopped = true;
    let key = waiting(&mut house);
    house.logins_stopped = false;
    house.settle();
    assert_eq!(phase(&mut house, key), Some(Phase::Refused), "the password is another");
    house.peers[peer].doomed = true;
    propose(&mut house, Command::Account(AccountChange::DeleteUser { name: "guest".into() }));
    let (condition, reason) = house.peers[peer].closed.clone().expect("the user is gone");
    assert_eq!(condition, "amqp:internal-error");
    assert_eq!(reason, "Connection forced: user 'guest' is deleted");
    for shard in &house.shards {
        assert!(shard.catalog().users().get("guest").is_none());
    }
}

#[test]
fn a_late_login_result_reaches_only_its_own_connection() {
    let mut house = House::new(1, Settings::default());
    house.logins_stopped = true;
    let first = waiting(&mut house);
    let (_, ticket, _) = house.logins.pop().expect("a question");
    house.shards[0].disconnect(first);
    house.settle();
    let second = waiting(&mut house);
    assert_eq!(second, first, "it has the key of the closed connection");
    house.shards[0].handle_login(ticket, Ok(guest()));
    house.settle();
    assert_eq!(phase(&mut house, second), Some(Phase::Login));
    house.shards[0].disconnect(second);
    house.shards[0].handle_login(ticket, Err(LoginRefused::UnknownUserOrPassword));
    house.settle();
}

#[test]
fn an_unanswered_login_has_a_deadline() {
    let settings = Settings::default();
    let timeout_ms = settings.handshake_timeout_ms;
    let mut house = House::new(1, settings);
    house.logins_stopped = true;
    let key = waiting(&mut house);
    house.now_ms += timeout_ms;
    house.settle();
    assert_eq!(phase(&mut house, key), Some(Phase::Done));
    let mut said = Vec::new();
    let output = house.shards[0].conn(key).unwrap().gate.output();
    while !output.is_empty() {
        let mut slices = [std::io::IoSlice::new(&[])];
        output.slices(&mut slices);
        said.extend_from_slice(&slices[0]);
        let len = slices[0].len();
        output.advance(len);
    }
    assert!(said.ends_with(TRY_AGAIN), "{said:x?}");
    // The answer to the login arrives after the client was told to try again.
    house.logins_stopped = false;
    house.settle();
    assert_eq!(phase(&mut house, key), Some(Phase::Done));
}

#[test]
fn a_client_that_names_no_virtual_host_gets_the_default_one() {
    let mut house = House::new(1, Settings { default_vhost: "shop".into(), ..Settings::default() });
    house.logins_stopped = true;
    let (user, vhost, permissions) = ("guest".into(), "shop".into(), Permissions::ALL);
    for command in [
        Command::Account(AccountChange::add_vhost("shop")),
        Command::Account(AccountChange::SetPermissions { user, vhost, permissions }),
    ] {
        house.shards[0].propose(command, Box::new(|result| assert!(result.is_ok(), "{result:?}")));
        house.settle();
    }
    let key = waiting(&mut house);
    house.logins_stopped = false;
    house.settle();
    assert_eq!(phase(&mut house, key), Some(Phase::Open));
    assert_eq!(&*house.shards[0].conn(key).unwrap().gate.peer().vhost, "shop");
}

/// A new token is checked like a login. Who guesses with them waits for the end of the connection.
#[test]
fn refused_renewals_wait_if_their_address_guesses() {
    for failures in [0, 30] {
        let mut house = House::new(1, Settings { heartbeat_s: 0, ..Settings::default() });
        house.token = Some(Arc::new(Grants::new(["read:*/*"], house.now_ms + 3_600_000)));
        let mut client = Client091::open_with_heartbeat(&mut house, 0);
        client.doomed = true;
        house.fail_logins(failures);
        client.renew(&mut house, "wrong");
        assert_eq!(client.closed.is_none(), failures > 0);
        house.now_ms += 5_000;
        client.settle(&mut house);
        assert!(!client.is_open(&mut house), "after {failures} failures");
        assert_eq!(client.closed.as_ref().map(|(code, _)| *code), Some(530));
    }
}
