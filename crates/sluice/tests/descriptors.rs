//! Few file descriptors, and clients that try to use all of them.

use crate::broker;

use std::net::TcpStream;
use std::time::Duration;

use amqp10::DeliveryState;
use broker::{Broker, Directory, Starting};
use bytes::Bytes;
use client::{Connection, Options, Sender, SenderOptions, Session};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The broker's limit of descriptors. It has about 40 open after its start.
const DESCRIPTORS: u32 = 100;

/// The number of connections that never send anything.
const SILENT: usize = 300;

/// The time within which a condition must be met. After it, the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

const MESSAGE_BYTES: usize = 300 << 10;

/// The number of messages, which fill five files of the log.
const MESSAGES: usize = (40 << 20) / MESSAGE_BYTES;

async fn connect(broker: &Broker) -> (Connection, Session) {
    let url = broker.amqp_url().parse().unwrap();
    let connection = timeout(PATIENCE, Connection::open(&url, Options::default())).await;
    let connection = connection.expect("the connection is not accepted").unwrap();
    let session = connection.session().await.unwrap();
    (connection, session)
}

async fn sender(session: &Session) -> Sender {
    session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap()
}

async fn publish(sender: &Sender) {
    // The message has a header that says durable, and one data section.
    let mut message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0".to_vec();
    message.extend((MESSAGE_BYTES as u32).to_be_bytes());
    message.resize(message.len() + MESSAGE_BYTES, b'x');
    let outcome = timeout(PATIENCE, sender.send(Bytes::from(message))).await;
    assert_eq!(outcome.expect("publishing is stopped").unwrap(), DeliveryState::Accepted);
}

/// Returns the number of log files.
fn log_files(directory: &Directory) -> usize {
    let files = std::fs::read_dir(directory.path().join("data")).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|is| is == "log")).count()
}

#[tokio::test]
async fn a_flood_of_silent_connections_stops_neither_the_log_nor_its_clients() {
    let directory = Directory::new("descriptors");
    let broker = Starting::spawn_limited(&directory, DESCRIPTORS, &[]).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    let (_connection, session) = connect(&broker).await;
    let sender = sender(&session).await;
    publish(&sender).await;
    let files = log_files(&directory);
    let flood: Vec<TcpStream> =
        (0..SILENT).map(|_| TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap()).collect();
    for _ in 0..MESSAGES {
        publish(&sender).await;
    }
    assert!(log_files(&directory) >= files + 2, "{files}, and then {}", log_files(&directory));
    // Neither operators nor new logins are kept out.
    let (_another, _session) = connect(&broker).await;
    assert_eq!(broker.list("connections").as_array().unwrap().len(), 2);
    drop(flood);
    let logged = directory.logged();
    assert!(logged.contains("the oldest connection that had not logged in was closed"), "{logged}");
    assert!(!logged.contains("ERROR"), "{logged}");
    assert!(broker.terminate().success());
}

/// The number of clients. It is larger than the number of descriptors.
const CLIENTS: usize = 80;

async fn wait_for_line(directory: &Directory, line: &str) {
    let said = async {
        while !directory.logged().contains(line) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, said).await.is_ok(), "no '{line}' in {}", directory.logged());
}

#[tokio::test]
async fn accepting_pauses_and_resumes_when_descriptors_run_out() {
    let directory = Directory::new("descriptors");
    let broker = Starting::spawn_limited(&directory, DESCRIPTORS, &[]).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    let (_connection, session) = connect(&broker).await;
    let sender = sender(&session).await;
    let url: client::Url = broker.amqp_url().parse().unwrap();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let url = url.clone();
        clients.spawn(async move { Connection::open(&url, Options::default()).await.unwrap() });
    }
    wait_for_line(&directory, "accepting AMQP connections is paused").await;
    let open = broker.list("connections").as_array().unwrap().len();
    assert!((10..CLIENTS).contains(&open), "{open}");
    for _ in 0..MESSAGES {
        publish(&sender).await;
    }
    // No logged-in connection is closed to make room for others.
    assert!(broker.list("connections").as_array().unwrap().len() >= open);
    // The waiting clients are accepted as others close.
    while let Some(client) = timeout(PATIENCE, clients.join_next()).await.expect("it never gets in") {
        client.unwrap().close().await.unwrap();
    }
    wait_for_line(&directory, "accepting AMQP connections resumes").await;
    let (_another, _session) = connect(&broker).await;
    let logged = directory.logged();
    assert!(!logged.contains("ERROR"), "{logged}");
    assert!(broker.terminate().success());
}
