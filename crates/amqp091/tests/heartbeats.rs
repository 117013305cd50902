//! Heartbeats in both directions. All times are in milliseconds.

use crate::wire::{CONFIG, connected, written};
use amqp091::{Config, Connection, ReplyCode};

const HEARTBEAT: &[u8] = b"\x08\x00\x00\x00\x00\x00\x00\xce";

/// Returns a server that is connected at time 0. The client has asked for heartbeats at this interval.
fn server(heartbeat_s: u16) -> Connection {
    let (_, mut server, _) = connected(Config { heartbeat_s, ..CONFIG }, CONFIG, &[1]);
    server.handle_written(0);
    server
}

#[test]
fn a_heartbeat_is_sent_after_half_the_interval() {
    let mut server = server(10);
    assert_eq!(server.next_deadline(), Some(5000));
    assert_eq!((server.handle_timeout(4999), written(&mut server)), (Ok(()), vec![]));
    assert_eq!((server.handle_timeout(5000), written(&mut server)), (Ok(()), HEARTBEAT.to_vec()));
    assert_eq!(server.next_deadline(), Some(10_000));
    server.handle_written(7000);
    assert_eq!(server.next_deadline(), Some(12_000), "any output will do");
}

#[test]
fn two_missed_heartbeats_end_the_connection() {
    let mut server = server(10);
    assert_eq!(server.handle_heartbeats(&[HEARTBEAT, HEARTBEAT, b"\x08\x00"].concat(), 3000), 16);
    server.handle_written(22_999);
    assert_eq!(server.next_deadline(), Some(23_000));
    assert_eq!(server.handle_timeout(22_999), Ok(()));
    let fault = server.handle_timeout(23_000).expect_err("silence");
    assert_eq!((fault.code, fault.channel), (ReplyCode::ConnectionForced, None));
    assert_eq!(fault.text, "missed heartbeats from client, timeout: 10s");
    server.forgive_silence(23_000);
    assert_eq!(server.handle_timeout(23_000), Ok(()));
    let (used, event) = server.handle_input(HEARTBEAT, 100, 30_000);
    assert!((used, event.is_ok_and(|event| event.is_none())) == (8, true));
    server.handle_written(49_000);
    assert_eq!(server.next_deadline(), Some(50_000), "heartbeats within the input count as well");
}

#[test]
fn a_heartbeat_that_is_due_soon_answers_the_one_of_the_peer() {
    let mut server = server(10);
    assert_eq!(server.handle_heartbeats(HEARTBEAT, 3749), 8);
    assert_eq!(written(&mut server), []);
    assert_eq!(server.handle_heartbeats(HEARTBEAT, 3750), 8);
    assert_eq!(written(&mut server), HEARTBEAT);
}

#[test]
fn zero_means_no_heartbeats() {
    let mut server = server(0);
    assert_eq!(server.next_deadline(), None);
    assert_eq!((server.handle_timeout(u64::MAX), written(&mut server)), (Ok(()), vec![]));
    assert_eq!(server.handle_heartbeats(HEARTBEAT, 1), 8, "those of the peer are accepted");
    assert_eq!(written(&mut server), []);
}

#[test]
fn there_are_none_before_the_interval_is_agreed_and_after_close() {
    let new = Connection::server(CONFIG, 0);
    assert_eq!(new.next_deadline(), None);
    let mut server = server(10);
    server.close("bye");
    written(&mut server);
    assert_eq!(server.next_deadline(), Some(20_000), "the peer may not answer");
    assert_eq!((server.handle_timeout(19_999), written(&mut server)), (Ok(()), vec![]));
    assert!(server.handle_timeout(20_000).is_err());
}
