//! The verbs for what operators of RabbitMQ do with `rabbitmqctl` and `rabbitmq-diagnostics` every day.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use client::{Connection, Options};

use crate::broker::verb::sluice;
use crate::broker::{Broker, Directory};

/// Answers one request after the other with these responses. Returns the URL.
fn answer_with(responses: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://guest:guest@{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for response in responses {
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut octet = [0];
                socket.read_exact(&mut octet).unwrap();
                head.extend(octet);
            }
            socket.write_all(response.as_bytes()).unwrap();
        }
    });
    url
}

const NOT_YET: &str = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 39\r\n\r\n\
    {\"status\":\"failed\",\"reason\":\"starting\"}";
const READY: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}";

#[test]
fn a_script_waits_until_the_broker_is_ready() {
    let url = answer_with(&[NOT_YET, NOT_YET, READY]);
    assert_eq!(sluice(&["await", "ready", "--url", &url]).done(), "the node is ready");

    let url = answer_with(&[NOT_YET]);
    let never = sluice(&["await", "ready", "--timeout", "1", "--url", &url]);
    assert!(matches!(never.code, 1 | 3) && never.err.contains("not ready after 1 s: "), "{never:?}");

    let directory = Directory::new("day_to_day");
    let broker = Broker::start(&directory);
    assert_eq!(broker.verb(&["await", "ready"]).done(), "the node is ready");
    let wrong = broker.http_url().replace("guest:guest@", "guest:wrong@");
    // Waiting would not help.
    broker.verb(&["await", "ready", "--url", &wrong]).refused(1, &["the login of user 'guest' is refused"]);
    let gone = broker.http_url();
    assert!(broker.terminate().success());
    sluice(&["await", "ready", "--timeout", "1", "--url", &gone])
        .refused(3, &["not ready after 1 s", "nobody"]);
}

#[test]
fn a_password_is_taken_away() {
    let directory = Directory::new("day_to_day");
    let broker = Broker::start(&directory);
    broker.verb_with_input(&["add", "user", "anna", "--tags", "management"], b"secret\n").done();
    let as_anna = || {
        broker.verb(&["show", "whoami", "--url", &broker.http_url().replace("guest:guest", "anna:secret")])
    };
    as_anna().done();
    assert_eq!(broker.verb(&["clear", "password", "anna"]).done(), "the password of user 'anna' is cleared");
    as_anna().refused(1, &["the login of user 'anna' is refused"]);
    assert!(broker.verb(&["list", "users"]).done().contains("management"), "the tags stay");
    broker.verb(&["clear", "password", "absent"]).refused(1, &["no user 'absent'"]);
    assert!(broker.terminate().success());
}

#[test]
fn a_password_is_tried() {
    let directory = Directory::new("day_to_day");
    let broker = Broker::start(&directory);
    broker.verb_with_input(&["add", "user", "anna"], b"se:cret/\n").done();
    broker.verb_with_input(&["add", "user", "ops", "--tags", "management"], b"other\n").done();
    let tried =
        |user: &str, password: &[u8]| broker.verb_with_input(&["authenticate", "user", user], password);
    // A user without a tag may not use the management API, and is authenticated all the same.
    assert_eq!(tried("anna", b"se:cret/\n").done(), "user 'anna' is authenticated");
    assert_eq!(tried("ops", b"other\n").done(), "user 'ops' is authenticated");
    tried("anna", b"wrong\n")
        .refused(1, &["authenticate user 'anna'", "the login of user 'anna' is refused"]);
    tried("absent", b"wrong\n").refused(1, &["the login of user 'absent' is refused"]);
    tried("a:b", b"secret\n").refused(2, &["'a:b'", "colon"]);
    assert!(broker.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_are_closed() {
    let directory = Directory::new("day_to_day");
    let broker = Broker::start(&directory);
    broker.verb(&["add", "vhost", "team"]).done();
    let connect = async |vhost: &str| {
        let options = Options { hostname: Some(format!("vhost:{vhost}")), ..Options::default() };
        Connection::open(&broker.amqp_url().parse().unwrap(), options).await.unwrap()
    };
    let (first, second, other) = (connect("/").await, connect("/").await, connect("team").await);
    // Nothing is closed without one of the two.
    assert_eq!(broker.verb(&["close", "connections"]).code, 2);
    assert_eq!(broker.verb(&["close", "connections", "c", "--all"]).code, 2);
    let closed =
        broker.verb(&["close", "connections", "--all", "-p", "/", "--delay", "10", "--reason", "upgrade"]);
    assert_eq!(closed.done(), "2 connections are closed");
    for connection in [first, second] {
        assert!(format!("{:?}", connection.closed().await).contains("upgrade"));
    }
    assert_eq!(broker.verb(&["close", "connections", "--all"]).done(), "1 connection is closed");
    assert!(other.closed().await.is_err());
    assert_eq!(broker.verb(&["close", "connections", "--all"]).done(), "0 connections are closed");
    broker.verb(&["close", "connections", "--all", "-p", "absent"]).refused(1, &["no vhost 'absent'"]);
    assert!(broker.terminate().success());
}

#[test]
fn the_policies_of_a_queue_are_listed() {
    let directory = Directory::new("day_to_day");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "a b"]).done();
    for (name, priority, kind) in [("low", "1", "all"), ("high", "7", "queues"), ("other", "9", "streams")] {
        let set =
            ["set", "policy", name, "^a", r#"{"max-length": 5}"#, "--priority", priority, "--apply-to", kind];
        broker.verb(&set).done();
    }
    let listed = broker.verb(&["list", "policies", "--queue", "a b"]).done();
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["high", "low"], "{listed}");
    broker.verb(&["list", "policies", "--queue", "absent"]).refused(1, &["no queue 'absent'"]);
    assert!(broker.terminate().success());
}
