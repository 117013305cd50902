//! Behaviour that only a real socket shows.

use crate::broker;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use amqp10::frame::SASL_HEADER;
use broker::{Broker, Directory};
use bytes::Bytes;
use client::{Connection, Credit, Options, ReceiverOptions, SenderOptions};

/// The number of bytes that are sent. It is more than the buffers of both sockets hold.
const SENT: usize = 8 << 20;

/// [2.2, 5.1] The broker shuts down its side and continues to read. If it closed the socket with bytes
/// unread, the reset would discard the answer before a client that still sends could read it.
#[test]
fn a_client_that_is_still_sending_reads_why_it_is_refused() {
    let directory = Directory::new("sockets");
    let broker = Broker::start(&directory);
    let mut socket = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    socket.write_all(&vec![b'x'; SENT]).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, SASL_HEADER);
}

/// A broker that is silent for this long counts as having nothing more to send.
const PATIENCE: Duration = Duration::from_secs(30);

/// The body size of a message: more than one frame and one read.
const LARGE: usize = 300 << 10;

/// A backlog is sent piece by piece as the socket accepts it. Nothing else moves the connection: no confirm,
/// no settlement, no credit.
#[tokio::test]
async fn a_large_backlog_is_delivered_without_input_from_the_client() {
    let directory = Directory::new("sockets");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    // The message has a header that says durable, and one data section.
    let mut message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0".to_vec();
    message.extend((LARGE as u32).to_be_bytes());
    message.resize(message.len() + LARGE, b'x');
    let message = Bytes::from(message);
    let count = 2 * SENT / LARGE;
    for _ in 0..count {
        sender.send(message.clone()).await.unwrap();
    }
    let options = ReceiverOptions { credit: Credit::Auto(2 * count as u32), ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    for number in 0..count {
        let delivery = tokio::time::timeout(PATIENCE, receiver.recv()).await;
        let delivery = delivery.unwrap_or_else(|_| panic!("nothing arrives after message {number}")).unwrap();
        assert!(delivery.message.len() > LARGE);
    }
}

/// The number of open connections, and that of the sessions of each.
const MANY: usize = 800;
const SESSIONS: usize = 4;

/// Checks that a connection and its sessions cost memory but no thread.
#[tokio::test]
async fn eight_hundred_connections_take_no_thread() {
    let directory = Directory::new("sockets");
    let broker = Broker::start(&directory);
    let url = broker.amqp_url().parse().unwrap();
    let before = broker.threads();
    let mut open = Vec::new();
    for _ in 0..MANY {
        let connection = Connection::open(&url, Options::default()).await.unwrap();
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(connection.session().await.unwrap());
        }
        open.push((connection, sessions));
    }
    assert_eq!(broker.list("connections").as_array().unwrap().len(), MANY);
    let row = &broker.list("connections")[0];
    assert_eq!(row["channels"], SESSIONS, "{row}");
    assert_eq!(broker.threads(), before);
}
