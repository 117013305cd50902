//! The verbs for what operators of RabbitMQ do with `rabbitmqctl` and `rabbitmq-diagnostics` every day.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use amqp091::{TableWriter, Value};
use bytes::BytesMut;
use client::{Connection, Options};

use crate::amqp091::Client;
use crate::broker::verb::{Did, ask_as, basic, finish, sluice};
use crate::broker::{Broker, Directory, PROGRAM, Starting};

/// Answers one request after the other with these responses. An empty one closes the connection at once. Returns the URL.
fn answer_with(responses: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://guest:guest@{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for response in responses {
            let (mut socket, _) = listener.accept().unwrap();
            if response.is_empty() {
                continue;
            }
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

/// Refuses one request with 401 and this reason. Returns the URL.
fn refusing(reason: &str) -> String {
    let body = format!("{{\"error\":\"not_authorised\",\"reason\":\"{reason}\"}}");
    let length = body.len();
    let head = "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n";
    let response = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    // It is one of three in a test.
    answer_with(vec![&*response.leak()].leak())
}

/// Runs a verb that needs no broker, with this standard input.
fn sluice_with_input(words: &[&str], input: &[u8]) -> Did {
    finish(Command::new(PROGRAM).args(words), input)
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

/// While a broker starts, proxies in front of it answer in many ways.
#[test]
fn a_script_waits_while_proxies_answer_instead_of_the_broker() {
    const BAD_GATEWAY: &str =
        "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 4\r\n\r\n502\n";
    const SLOW_GATEWAY: &str =
        "HTTP/1.1 504 Gateway Timeout\r\nConnection: close\r\nContent-Length: 4\r\n\r\n504\n";
    const TOO_MANY: &str =
        "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 4\r\n\r\n429\n";
    const NO_SUCH_PATH: &str =
        "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 4\r\n\r\n404\n";
    // After a connection that is closed at once, the next one asks whether the port speaks AMQP.
    let url = answer_with(&["", "", BAD_GATEWAY, SLOW_GATEWAY, TOO_MANY, READY]);
    assert_eq!(sluice(&["await", "ready", "--url", &url]).done(), "the node is ready");

    let url = answer_with(&[NO_SUCH_PATH, READY]);
    sluice(&["await", "ready", "--url", &url]).refused(1, &["this is not the management API"]);
}

/// A connection that moves to another shard while the broker looks for it is closed, too.
#[test]
fn a_connection_that_was_missed_is_closed_later() {
    const LISTED: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 27\r\n\r\n[{\"name\":\"a\"},{\"name\":\"b\"}]";
    const B_LISTED: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 27\r\n\r\n[{\"name\":\"c\"},{\"name\":\"b\"}]";
    const NONE_LISTED: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]";
    const CLOSED: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    const MISSED: &str = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 40\r\n\r\n\
        {\"error\":\"Object Not Found\",\"reason\":\"\"}";
    let all = ["close", "connections", "--all", "--url"];
    let close_all = |url: &str| sluice(&[&all[..], &[url]].concat());
    let url = answer_with(&[LISTED, CLOSED, MISSED, B_LISTED, CLOSED]);
    assert_eq!(close_all(&url).done(), "2 connections are closed", "c was not there when it began");
    let url = answer_with(&[LISTED, MISSED, MISSED, B_LISTED, MISSED, NONE_LISTED]);
    assert_eq!(close_all(&url).done(), "0 connections are closed");
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

/// Returns a response of AMQPLAIN: a table without its length. Without a password, it has no such field.
fn amqplain(user: &str, password: Option<&str>) -> Vec<u8> {
    let mut table = BytesMut::new();
    let mut fields = TableWriter::new(&mut table);
    fields.put("LOGIN", &Value::LongString(user.as_bytes()));
    if let Some(password) = password {
        fields.put("PASSWORD", &Value::LongString(password.as_bytes()));
    }
    drop(fields);
    table[4..].to_vec()
}

/// An empty password is not that of a user without one, whichever way the password was taken away.
#[tokio::test]
async fn a_user_without_a_password_cannot_log_in_with_an_empty_one() {
    let directory = Directory::new("day_to_day");
    let broker = Starting::spawn(&directory, &["password_hashing=sha256"]).finish();
    let add = |user: &str| {
        broker.verb_with_input(&["add", "user", user, "--tags", "administrator"], b"secret\n").done();
        broker.verb(&["set", "permission", user, ".*", ".*", ".*"]).done();
    };
    ["cleared", "tagged"].into_iter().for_each(add);
    broker.verb(&["clear", "password", "cleared"]).done();
    broker.verb(&["clear", "password", "tagged"]).done();
    // The user is sent as a whole.
    broker.verb(&["set", "tags", "tagged", "administrator", "management"]).done();
    broker.verb(&["add", "user", "born", "--no-password", "--tags", "administrator"]).done();
    broker.verb(&["set", "permission", "born", ".*", ".*", ".*"]).done();
    let (status, users) = broker.get("/api/users");
    assert_eq!(status, 200);
    for user in ["cleared", "tagged", "born"] {
        let row = users.as_array().unwrap().iter().find(|row| row["name"] == user).unwrap();
        assert_eq!(row["password_hash"], "", "{row}");
        for password in ["", "secret"] {
            let authorization = basic(user, password);
            assert_eq!(ask_as(broker.http_port, &authorization, "GET", "/api/whoami", "").0, 401, "{user}");
        }
    }
    // Each refusal waits for seconds, so all of them wait together.
    let mut clients = Vec::new();
    for user in ["cleared", "tagged", "born"] {
        let responses = [
            ("PLAIN", format!("\0{user}\0").into_bytes()),
            ("PLAIN", format!("\0{user}\0secret").into_bytes()),
            ("AMQPLAIN", amqplain(user, Some(""))),
            ("AMQPLAIN", amqplain(user, None)),
        ];
        clients.extend(responses.map(|(mechanism, response)| Client::log_in(&broker, mechanism, response)));
    }
    clients.iter_mut().for_each(Client::send_login);
    let over_amqp10 = ["cleared", "tagged", "born"].map(|user| {
        let url = format!("amqp://{user}:@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
        async move { Connection::open(&url, Options::default()).await }
    });
    let [cleared, tagged, born] = over_amqp10;
    let opened = tokio::join!(cleared, tagged, born);
    for opened in [opened.0, opened.1, opened.2] {
        let why = opened.err().expect("the login is refused");
        assert!(matches!(why, client::Error::Login(_)), "{why:?}");
    }
    let mut refused = 0;
    for mut client in clients {
        client.read_to_the_end();
        // A response of AMQPLAIN without a password is malformed: the socket is closed without a word.
        let told = client.refused.is_some_and(|(code, text)| code == 403 && text.contains("ACCESS_REFUSED"));
        refused += usize::from(told);
    }
    assert_eq!(refused, 9);
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
    // Each try counts as a login, so the limits of guesses are for it, too: anna and ops are right, and two are wrong.
    let (_, attempts) = broker.get("/api/auth/attempts/sluice@localhost");
    let over_http = attempts.as_array().unwrap().iter().find(|row| row["protocol"] == "http").unwrap();
    assert_eq!(over_http["auth_attempts_failed"], 2, "{attempts}");
    // Of other answers, only that of a user who is known counts as success.
    for (reason, code) in [("Not management user", 0), ("Not administrator user", 1), ("Not_Authorized", 1)] {
        let url = refusing(reason);
        let tried = sluice_with_input(&["authenticate", "user", "anna", "--url", &url], b"secret\n");
        assert_eq!(tried.code, code, "{tried:?}");
    }
    assert!(broker.terminate().success());
}

#[test]
fn a_refusal_names_the_tag_that_is_needed() {
    let directory = Directory::new("day_to_day");
    let broker = Broker::start(&directory);
    for (user, tags) in [("mona", "monitoring"), ("max", "management"), ("none", "")] {
        let user = format!("/api/users/{user}");
        let body = format!(r#"{{"password":"secret","tags":"{tags}"}}"#);
        assert_eq!(broker.ask("PUT", &user, &body).0, 201);
    }
    let ask = |user: &str, words: &[&str]| {
        let url = broker.http_url().replace("guest:guest", &format!("{user}:secret"));
        sluice(&[words, &["--url", &url]].concat())
    };
    for (user, words, tag) in [
        ("mona", &["list", "users"], "administrator"),
        ("max", &["list", "auth-attempts"], "monitoring"),
        ("none", &["list", "queues"], "management"),
    ] {
        let needed =
            format!("user '{user}' needs the tag {tag} (an administrator gives it: sluice set tags)");
        ask(user, words).refused(1, &[&needed]);
    }
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
