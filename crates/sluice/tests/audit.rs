//! Who did what: the audit lines of the log, and the numbers of logins.

use crate::broker;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use amqp10::Value;
use broker::verb::{ask_as, basic};
use broker::{Broker, Directory, Starting};
use client::{Connection, Error, Management, Options};
use serde_json::json;

async fn connect(broker: &Broker, user: &str, password: &str) -> Result<Connection, Error> {
    let url = format!("amqp://{user}:{password}@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
    Connection::open(&url, Options::default()).await
}

/// Returns the audit lines of the log, without their times.
fn audit(log: &str) -> Vec<&str> {
    log.lines().filter_map(|line| line.split_once(" user: ").map(|(_, line)| line)).collect()
}

#[tokio::test]
async fn logins_over_both_protocols_are_counted() {
    let directory = Directory::new("attempts");
    let settings = ["track_auth_attempt_source=true", "password_hashing=sha256"];
    let broker = Starting::spawn(&directory, &settings).finish();
    connect(&broker, "guest", "guest").await.unwrap().close().await.unwrap();
    drop(connect(&broker, "ann", "wrong").await.err().expect("there is no such user"));
    let row = |protocol: &str, user: Option<&str>, [all, failed, succeeded]: [u64; 3]| {
        let mut row = json!({
            "protocol": protocol,
            "auth_attempts": all,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": succeeded,
        });
        if let Some(user) = user {
            (row["remote_address"], row["username"]) = ("127.0.0.1".into(), user.into());
        }
        row
    };
    let path = "/api/auth/attempts/sluice@localhost";
    // Each of these requests logs in itself.
    let rows = json!([
        row("amqp091", None, [0, 0, 0]),
        row("amqp10", None, [2, 1, 1]),
        row("http", None, [1, 0, 1])
    ]);
    assert_eq!(broker.get(path), (200, rows));
    let rows = json!([
        row("amqp10", Some("ann"), [1, 1, 0]),
        row("amqp10", Some("guest"), [1, 0, 1]),
        row("http", Some("guest"), [2, 0, 2]),
    ]);
    assert_eq!(broker.get(&format!("{path}/source")), (200, rows));
    assert_eq!(broker.ask("DELETE", path, "").0, 204);
    let rows = json!([
        row("amqp091", None, [0, 0, 0]),
        row("amqp10", None, [0, 0, 0]),
        row("http", None, [1, 0, 1])
    ]);
    assert_eq!(broker.get(path), (200, rows));
}

#[tokio::test]
async fn the_log_says_who_did_what() {
    let directory = Directory::new("audit");
    let settings = ["log.level=error", "log.user.level=info", "password_hashing=sha256"];
    let broker = Starting::spawn(&directory, &settings).finish();
    let guest = basic("guest", "guest");
    let ask =
        |who: &str, method: &str, path: &str, body: &str| ask_as(broker.http_port, who, method, path, body).0;
    assert_eq!(ask(&guest, "PUT", "/api/users/ann%22root", r#"{"password":"p","tags":"management"}"#), 201);
    assert_eq!(ask(&guest, "PUT", "/api/users/ann", r#"{"password":"p","tags":"management"}"#), 201);
    let none = r#"{"configure":"","write":"","read":""}"#;
    assert_eq!(ask(&guest, "PUT", "/api/permissions/%2F/ann", none), 201);
    assert_eq!(ask(&guest, "PUT", "/api/queues/%2F/q", "{}"), 201);
    assert_eq!(ask(&basic("ann", "p"), "GET", "/api/users", ""), 401);
    assert_eq!(ask(&basic("ann", "p"), "DELETE", "/api/queues/%2F/q", ""), 401);
    assert_eq!(ask(&guest, "DELETE", "/api/users/absent", ""), 404);
    assert_eq!(ask(&guest, "DELETE", "/api/queues/%2F/q", ""), 204);
    assert_eq!(ask(&basic("a\nnn", "wrong"), "GET", "/api/whoami", ""), 401);
    drop(connect(&broker, "ann", "wrong").await.err().expect("the password is wrong"));
    let connection = connect(&broker, "ann", "p").await.unwrap();
    let session = connection.session().await.unwrap();
    let management = Management::open(&session).await.unwrap();
    assert!(management.request("DELETE", "/queues/q", Value::Null).await.is_err());
    drop(connection);
    let connection = connect(&broker, "guest", "guest").await.unwrap();
    let session = connection.session().await.unwrap();
    let management = Management::open(&session).await.unwrap();
    management.request("PUT", "/exchanges/x", Value::Map(amqp10::Map::new())).await.unwrap();
    management.request("DELETE", "/exchanges/x", Value::Null).await.unwrap();
    connection.close().await.unwrap();
    assert!(broker.terminate().success());

    let log = directory.logged();
    assert!(!log.contains(" INFO sluice"), "other lines have another level: {log}");
    let lines = audit(&log);
    let shown: Vec<String> = lines
        .iter()
        .map(|line| {
            let (before, peer) = line.split_once("peer=\"127.0.0.1:").expect("every line has an address");
            format!("{before}{}", peer.split_once("\" ").unwrap().1)
        })
        .collect();
    let change = |what: &str, on: &str| {
        format!(r#"what="{what}" result="allowed" user="guest" protocol="http" mechanism="Basic" on="{on}""#)
    };
    let ann = r#"user="ann" protocol="http" mechanism="Basic""#;
    let over_amqp = r#"user="ann" protocol="amqp10" mechanism="PLAIN""#;
    let expected = [
        change("PUT /api/users/{user}", r#"user=ann\"root"#),
        change("PUT /api/users/{user}", "user=ann"),
        change("PUT /api/permissions/{vhost}/{user}", "vhost=/ user=ann"),
        format!(r#"what="GET /api/users" result="refused" {ann} on="" reason="Not administrator user""#),
        format!(
            r#"what="DELETE /api/queues/{{vhost}}/{{name}}" result="refused" {ann} on="vhost=/ name=q" reason="configure access to queue 'q' in vhost '/' refused for user 'ann'""#
        ),
        r#"what="DELETE /api/users/{user}" result="failed" user="guest" protocol="http" mechanism="Basic" on="user=absent" reason="no user 'absent'""#.to_owned(),
        change("DELETE /api/queues/{vhost}/{name}", "vhost=/ name=q"),
        r#"what="login" result="refused" user="a\nnn" protocol="http" mechanism="Basic" reason="unknown user or wrong password""#.to_owned(),
        format!(r#"what="login" result="refused" {over_amqp} reason="unknown user or wrong password""#),
        format!(r#"what="login" result="allowed" {over_amqp}"#),
        format!(
            r#"what="session" result="refused" {over_amqp} on="vhost=/ session=0" reason="configure access to queue 'q' in vhost '/' refused for user 'ann'""#
        ),
        r#"what="login" result="allowed" user="guest" protocol="amqp10" mechanism="PLAIN""#.to_owned(),
        r#"what="DELETE /exchanges/{name}" result="allowed" user="guest" protocol="amqp10" mechanism="PLAIN" on="vhost=/ name=x""#.to_owned(),
    ];
    assert_eq!(shown, expected, "{log}");
}

/// Sends requests over one connection.
struct KeepAlive {
    socket: BufReader<TcpStream>,
    authorization: String,
}

impl KeepAlive {
    fn open(port: u16, authorization: &str) -> Self {
        let socket = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
        Self { socket, authorization: authorization.to_owned() }
    }

    /// Sends a request. Returns the status.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> u16 {
        let (authorization, length) = (&self.authorization, body.len());
        write!(
            self.socket.get_mut(),
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let lines: Vec<String> =
            self.socket.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let length =
            lines.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut answer = vec![0; length.unwrap_or(0)];
        self.socket.read_exact(&mut answer).unwrap();
        status
    }
}

/// Lines of the level debug must not hide others. The broker serves a connection of HTTP on one thread, and the state that was wrong
/// was one of the thread, so all requests come over one connection.
#[tokio::test]
async fn no_line_about_a_change_is_lost_because_of_lines_that_nobody_wants() {
    const CHANGES: usize = 40;
    for settings in [
        &["password_hashing=sha256"][..],
        &["password_hashing=sha256", "log.file=f.log", "log.file.level=debug"],
    ] {
        let directory = Directory::new("audit-all");
        let broker = Starting::spawn(&directory, settings).finish();
        let mut connection = KeepAlive::open(broker.http_port, &basic("guest", "guest"));
        for n in 0..CHANGES {
            assert_eq!(connection.ask("GET", "/api/whoami", ""), 200);
            let body = r#"{"password":"p","tags":"management"}"#;
            assert_eq!(connection.ask("PUT", &format!("/api/users/u{n}"), body), 201);
        }
        let mut other = KeepAlive::open(broker.http_port, &basic("u0", "p"));
        let none = r#"{"configure":".*","write":".*","read":".*"}"#;
        assert_eq!(connection.ask("PUT", "/api/permissions/%2F/u0", none), 201);
        for n in 0..CHANGES {
            assert_eq!(
                connection.ask("DELETE", &format!("/api/users/u{}", n + 1), ""),
                if n + 1 < CHANGES { 204 } else { 404 }
            );
            // Changes of users who are no administrators, too.
            assert_eq!(other.ask("PUT", "/api/queues/%2F/q", "{}"), 201);
            assert_eq!(other.ask("DELETE", "/api/queues/%2F/q", ""), 204);
        }
        drop((connection, other));
        assert!(broker.terminate().success());
        let log = directory.logged();
        let lines = audit(&log);
        let count = |what: &str, user: &str| {
            let (what, user) = (format!("what=\"{what}\" result=\"allowed\""), format!("user=\"{user}\" "));
            lines.iter().filter(|line| line.starts_with(&what) && line.contains(&user)).count()
        };
        assert_eq!(count("PUT /api/users/{user}", "guest"), CHANGES, "{log}");
        assert_eq!(count("DELETE /api/users/{user}", "guest"), CHANGES - 1, "{log}");
        assert_eq!(count("DELETE /api/queues/{vhost}/{name}", "u0"), CHANGES, "{log}");
        // Nor is there the number of lines that were not wanted.
        assert!(!log.contains("more lines"), "{log}");
    }
}

/// Some requests open a connection to the broker. It writes no line of its own.
#[tokio::test]
async fn a_refused_request_for_messages_has_one_line() {
    let directory = Directory::new("audit-get");
    let broker = Starting::spawn(&directory, &["password_hashing=sha256"]).finish();
    assert_eq!(broker.ask("PUT", "/api/users/ann", r#"{"password":"p","tags":"management"}"#).0, 201);
    let none = r#"{"configure":"","write":"","read":""}"#;
    assert_eq!(broker.ask("PUT", "/api/permissions/%2F/ann", none).0, 201);
    assert_eq!(broker.ask("PUT", "/api/queues/%2F/q", "{}").0, 201);
    let get = r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}"#;
    let publish = r#"{"routing_key":"q","properties":{},"payload":"x","payload_encoding":"string"}"#;
    for (path, body) in [("queues/%2F/q/get", get), ("exchanges/%2F/amq.direct/publish", publish)] {
        let path = format!("/api/{path}");
        assert_eq!(ask_as(broker.http_port, &basic("ann", "p"), "POST", &path, body).0, 401, "{path}");
    }
    assert!(broker.terminate().success());
    let log = directory.logged();
    let refused: Vec<&str> =
        audit(&log).into_iter().filter(|line| line.contains("result=\"refused\"")).collect();
    let what: Vec<&str> = refused.iter().filter_map(|line| line.split('"').nth(1)).collect();
    let expected = ["POST /api/queues/{vhost}/{name}/get", "POST /api/exchanges/{vhost}/{name}/publish"];
    assert_eq!(what, expected, "{log}");
}
