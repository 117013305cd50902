//! Ports that somebody else has filled with connections.

use std::net::SocketAddr;
use std::time::Duration;

use amqp10::sasl::Secret;
use broker::desk::{Desk as _, QueueSpec};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::http::{Server, request};
use crate::Ports;

/// More connections than a port has places.
const CROWD: usize = 1_100;

/// An answer that has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// `guest:guest`.
const LOGIN: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// Connections that have all sent this much of a request.
async fn crowd(to: SocketAddr, sent: &str) -> Vec<TcpStream> {
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        crowd.push(stream);
    }
    crowd
}

#[tokio::test]
async fn health_checks_answer_whoever_fills_the_port() {
    let answered = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for sent in ["", "GET /api/health/che", answered] {
        let server = Server::start().await;
        let _crowd = crowd(server.management, sent).await;
        for _ in 0..3 {
            let check = request(server.management, "GET", "/api/health/checks/alarms", LOGIN, "");
            let check =
                timeout(PATIENCE, check).await.unwrap_or_else(|_| panic!("no answer behind {sent:?}"));
            assert_eq!((check.status, &*check.body), (200, r#"{"status":"ok"}"#));
        }
    }
}

/// With eleven measures, some 3 MB of text.
const QUEUES: usize = 4_000;

async fn declare_queues(server: &Server) {
    let who = server.desk.login("guest", &Secret::new("guest"), [127, 0, 0, 1].into()).unwrap();
    for number in 0..QUEUES {
        let name = format!("q{number:04}").as_str().into();
        let (durable, auto_delete) = (true, false);
        let spec = QueueSpec { vhost: "/".into(), name, durable, auto_delete, arguments: Default::default() };
        server.desk.declare_queue(&who, spec).await.unwrap();
    }
}

/// Sends a request whose answer it does not read, and has little room for.
async fn ask_and_do_not_read(to: SocketAddr, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// How many rows the desk has made when it makes no more.
async fn rows_in_the_end(server: &Server) -> usize {
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let rows = server.desk.state().rows;
        if rows > 0 && rows == before {
            return rows;
        }
        before = rows;
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_are_not_made() {
    let server = Server::start().await;
    declare_queues(&server).await;
    let (metrics, management) = (server.metrics, server.management);
    let per_object = "GET /metrics/per-object HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
    let list = format!("GET /api/queues HTTP/1.1\r\nHost: h\r\n{LOGIN}\r\n");
    for (to, asked, rows_of_one) in [(metrics, per_object, 11 * QUEUES), (management, list, QUEUES)] {
        server.desk.state().rows = 0;
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(ask_and_do_not_read(to, &asked).await);
        }
        let made = timeout(PATIENCE, rows_in_the_end(&server)).await.unwrap();
        assert!(made < 20 * rows_of_one / 4, "{made} rows of 20 times {rows_of_one}");
    }
}

#[tokio::test]
async fn an_answer_of_many_pages_is_whole() {
    let server = Server::start().await;
    declare_queues(&server).await;
    let page = request(server.metrics, "GET", "/metrics/per-object", "", "").await;
    assert_eq!(page.header("content-length"), None);
    for family in ["queue_messages_ready", "queue_consumers", "queue_messages_acked_total"] {
        let head = format!("# TYPE rabbitmq_{family} ");
        assert_eq!(page.body.matches(&head).count(), 1);
        let (_, behind) = page.body.split_once(&head).unwrap();
        let samples: Vec<&str> = behind.lines().skip(2).take_while(|line| !line.starts_with('#')).collect();
        assert_eq!(samples.len(), QUEUES);
        assert!(samples.iter().all(|line| line.starts_with(&format!("rabbitmq_{family}{{vhost="))));
    }
    let list = request(server.management, "GET", "/api/queues?columns=name", LOGIN, "").await;
    let names: Vec<String> = (0..QUEUES).map(|number| format!("{{\"name\":\"q{number:04}\"}}")).collect();
    assert_eq!(list.body, format!("[{}]", names.join(",")));
}

/// A part of the body of a request.
fn put(announced: usize, sent: usize) -> String {
    let head =
        format!("PUT /api/queues/%2F/q HTTP/1.1\r\nHost: h\r\n{LOGIN}Content-Length: {announced}\r\n\r\n");
    format!("{head}{{\"note\":\"{}", "x".repeat(sent))
}

#[tokio::test]
async fn bodies_have_a_budget_together() {
    let server = Server::start_with(Ports::with_bytes(100, 1 << 20, 1 << 20)).await;
    // What was only announced costs nothing.
    let mut held = vec![ask_and_do_not_read(server.management, &put(9_000_000, 0)).await];
    let mut refused = Vec::new();
    for _ in 0..8 {
        held.push(ask_and_do_not_read(server.management, &put(900_000, 400_000)).await);
    }
    let some_are_refused = async {
        while refused.is_empty() {
            for stream in &mut held {
                let mut answer = [0; 1024];
                if let Ok(read @ 1..) = stream.try_read(&mut answer) {
                    refused.push(String::from_utf8_lossy(&answer[..read]).into_owned());
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, some_are_refused).await.expect("everybody is read");
    for answer in refused {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(
            answer.contains("the bodies of all HTTP requests may take 1048576 bytes of memory"),
            "{answer}"
        );
    }
    drop(held);
    let there_is_room_again = async {
        let body = format!("{{\"note\":\"{}\"}}", "x".repeat(400_000));
        while server.ask(Some("guest"), "PUT", "/api/queues/%2F/q", &body).await.status != 201 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, there_is_room_again).await.expect("nothing is given back");
}
