//! What the verbs say to an operator in words: the status, lists, alarms, what a verb waits for, and why TLS fails.

use crate::{authority, broker};

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use authority::{Authority, port, start, wait_for};
use broker::verb::sluice;
use broker::{Broker, Directory, PROGRAM, Starting};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};

/// Writes bytes to a port, and reads until the broker closes the connection.
fn shout(port: u16, bytes: &[u8]) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.write_all(bytes).unwrap();
    drop(socket.read_to_end(&mut Vec::new()));
}

#[test]
fn the_log_names_the_protocol_of_a_client_at_the_wrong_port() {
    let directory = Directory::new("words");
    let broker = Starting::spawn(&directory, &[]).finish();
    let hello = b"\x16\x03\x01\x00\xf1\x01\x00\x00\xed\x03\x03\r\n\r\n";
    for (port, bytes, words) in [
        (broker.amqp_port, &b"GET / HTTP/1.1\r\n\r\n"[..], "closing: an HTTP request instead of AMQP 1.0"),
        (broker.amqp_port, hello, "closing: TLS (amqps://) instead of AMQP 1.0"),
        (broker.http_port, hello, "the client speaks TLS, and this port does not use it"),
        (
            broker.http_port,
            b"AMQP\x00\x00\x09\x01\r\n\r\n",
            "the client speaks AMQP, and this is a port of HTTP",
        ),
    ] {
        shout(port, bytes);
        wait_for(&directory, words);
    }
}

