//! Sends hostile bodies to every HTTP route that reads one: every answer has a status that says what was wrong, and the broker
//! still works afterwards. `SLUICE_SEED=n` sends other bodies; a failure names its seed.

use crate::broker;

use std::time::Duration;

use admin::{Action, ROUTES, Route, To};
use broker::verb::basic;
use broker::{Broker, Directory};
use random::Random;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A guard against hanging, not a measure. The broker waits for 30 seconds for the rest of a body.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of changed bodies for each route.
const BODIES: usize = 40;

/// The bytes of a body that consists of brackets.
const BRACKETS: usize = 2_000_000;

/// One byte more than a body may have.
const TOO_LARGE: usize = 10_000_001;

/// A valid body of a route. The changed ones are made from it.
fn valid(action: Action) -> Value {
    match action {
        Action::PutVhost => json!({
            "description": "d", "tags": ["a"], "default_queue_type": "classic", "protected_from_deletion": false,
            "tracing": false, "metadata": { "description": "d" },
        }),
        Action::PutParameter | Action::PutGlobalParameter => json!({ "value": { "a": [1, null] } }),
        Action::NameCluster => json!({ "name": "c" }),
        Action::SetSetting => json!({ "value": "info" }),
        Action::PutVhostLimit | Action::PutUserLimit => json!({ "value": 100_000 }),
        Action::PutUser | Action::PatchUser => json!({
            "tags": "monitoring,management", "hashing_algorithm": "rabbit_password_hashing_sha256",
            "password_hash": "WPvNQHW0O5AWVG7aMqb9QoQXHEMn2OruG5OMr6tOXrGSArYN",
        }),
        Action::DeleteUsers => json!({ "users": ["nobody", "none"] }),
        Action::HashPassword => json!({ "password": "p" }),
        Action::PutPermissions => json!({ "configure": "^a", "write": ".*", "read": "" }),
        Action::PutTopicPermissions => json!({ "exchange": "amq.topic", "write": "^a", "read": ".*" }),
        Action::PutQueue => json!({
            "durable": true, "auto_delete": false,
            "arguments": {
                "x-queue-type": "classic", "x-max-length": 5, "x-overflow": "reject-publish", "x-message-ttl": 60_000,
                "x-dead-letter-exchange": "amq.fanout",
            },
        }),
        Action::PutExchange => json!({
            "type": "topic", "durable": true, "auto_delete": false, "internal": false,
            "arguments": { "alternate-exchange": "amq.fanout" },
        }),
        Action::Publish => json!({
            "routing_key": "q", "payload": "m", "payload_encoding": "string",
            "properties": {
                "headers": { "n": 1, "l": [true, null, { "o": 1.5 }] }, "delivery_mode": 2, "priority": 3,
                "expiration": "60000", "timestamp": 1, "message_id": "m",
            },
        }),
        Action::GetMessages => {
            json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 10 })
        }
        Action::Move => json!({
            "to_exchange": "amq.fanout", "routing_key": "k", "count": 1, "seq": 1, "until_seq": 5, "rate": 100,
            "headers": { "a": "x", "n": 1, "b": true },
        }),
        Action::Redrive => json!({
            "count": 1, "seq": 1, "reason": "expired", "queue": "q", "older_than": 0, "younger_than": 60,
            "died_until": 1, "rate": 100, "to": "exchange", "headers": { "a": "x" },
        }),
        Action::Bind(_) => json!({ "routing_key": "k", "arguments": { "x-match": "all", "n": [1] } }),
        Action::PutPolicy(_) => json!({
            "pattern": "^none$", "priority": 1, "apply-to": "queues", "definition": { "max-length": 1, "expires": 60_000 },
        }),
        Action::ChangeMember(_) => json!({ "node": ::broker::settings::Settings::default().node_name }),
        Action::PostDefinitions | Action::PostDefinitionsOfVhost => json!({
            "vhosts": [{ "name": "v", "metadata": { "tags": ["a"] }, "limits": { "max-queues": 5 } }],
            "users": [{ "name": "u", "password_hash": "", "tags": ["management"], "limits": { "max-channels": 3 } }],
            "permissions": [{ "user": "u", "vhost": "/", "configure": "", "write": "", "read": "" }],
            "topic_permissions": [{ "user": "u", "vhost": "/", "exchange": "amq.topic", "write": "", "read": "" }],
            "parameters": [
                { "component": "operator_policy", "vhost": "/", "name": "o",
                  "value": { "pattern": "^none$", "definition": { "max-length": 1 }, "priority": 0 } },
                { "component": "vhost-limits", "vhost": "/", "name": "limits", "value": { "max-connections": 100_000 } },
            ],
            "global_parameters": [{ "name": "cluster_name", "value": "c" }],
            "policies": [{ "vhost": "/", "name": "p", "pattern": "^none$", "definition": { "max-length": 1 } }],
            "exchanges": [{ "vhost": "/", "name": "e", "type": "topic", "arguments": {} }],
            "queues": [{ "vhost": "/", "name": "d", "durable": true, "arguments": { "x-max-length": 5 } }],
            "bindings": [{ "vhost": "/", "source": "e", "destination": "d", "destination_type": "queue", "arguments": {} }],
        }),
        _ => json!({}),
    }
}

/// What may be where another value belongs. A text of the form `@JSON` stands for JSON that [`Value`] cannot express.
fn hostile(random: &mut Random) -> Value {
    let deep = |depth: usize| format!("@{}{}", "[".repeat(depth), "]".repeat(depth));
    random
        .pick(&[
            Value::Null,
            json!(true),
            json!(0),
            json!(-1),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1.5),
            json!("@1e308"),
            json!("@1e999"),
            json!("@-0.0"),
            json!("@18446744073709551616"),
            json!("@99999999999999999999999999999999999999"),
            json!(""),
            json!("\0"),
            json!("a\0b\r\n"),
            json!("é\u{202e}\u{feff}"),
            json!("@\"\\ud800\""),
            json!("(((((((((("),
            json!("x".repeat(300)),
            json!("x".repeat(70_000)),
            json!([]),
            json!({}),
            json!([[], {}, null]),
            json!({ "": "" }),
            json!({ "x": { "x": { "x": [1, "a", null] } } }),
            json!(vec!["a"; 3_000]),
            json!(deep(60)),
            json!(deep(3_000)),
        ])
        .unwrap()
}

/// Replaces, removes or adds one value anywhere.
fn change(value: &mut Value, random: &mut Random) {
    let inner = match value {
        Value::Object(fields) if !fields.is_empty() => {
            let name = fields.keys().nth(random.index(fields.len())).cloned().unwrap_or_default();
            match random.index(6) {
                0 => _ = fields.remove(&name),
                1 => _ = fields.insert(hostile(random).to_string(), hostile(random)),
                2 => _ = fields.insert(name, hostile(random)),
                _ => {
                    if let Some(inner) = fields.get_mut(&name) {
                        change(inner, random);
                    }
                }
            }
            return;
        }
        Value::Array(items) if !items.is_empty() && random.index(3) > 0 => {
            let at = random.index(items.len());
            &mut items[at]
        }
        other => {
            *other = hostile(random);
            return;
        }
    };
    change(inner, random);
}

/// Returns the text of a value, with the JSON that `@` stands for.
fn text(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) if text.starts_with('@') => text.as_bytes()[1..].to_vec(),
        Value::Array(items) => {
            [&b"["[..], &items.iter().map(text).collect::<Vec<_>>().join(&b","[..]), b"]"].concat()
        }
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| {
                [json!(name).to_string().as_bytes(), b":", &text(value)].concat()
            };
            [&b"{"[..], &fields.iter().map(pair).collect::<Vec<_>>().join(&b","[..]), b"}"].concat()
        }
        other => other.to_string().into_bytes(),
    }
}

/// Makes a body that is valid in part.
fn changed(valid: &Value, random: &mut Random) -> Vec<u8> {
    let mut value = valid.clone();
    for _ in 0..=random.index(3) {
        change(&mut value, random);
    }
    let mut body = text(&value);
    match random.index(8) {
        0 => body.truncate(random.index(body.len())),
        1 if !body.is_empty() => {
            let at = random.index(body.len());
            body[at] = random.pick(&[0, 0xff, b'"', b'{', b'[', b'\\', b',', b'0', 0xc3]).unwrap();
        }
        2 => {
            let at = random.index(body.len() + 1);
            body.splice(at..at, [0xff, 0xfe, 0]);
        }
        // Each field twice, with different values.
        3 if body.len() > 2 && body.starts_with(b"{") => {
            let twice = [&body[..body.len() - 1], b",", &text(valid)[1..]].concat();
            body = if valid.as_object().is_some_and(|fields| !fields.is_empty()) { twice } else { body };
        }
        _ => {}
    }
    body
}

/// Bodies that are hostile to every route.
fn fixed() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> =
        ["", " ", "null", "true", "1", "\"text\"", "[]", "[{}]", "{", "{}{}", "{\"a\":}", "\0", "NaN"]
            .map(|text| text.as_bytes().to_vec())
            .into();
    bodies.push(b"\xff\xfe{\"a\":1}".to_vec());
    bodies.push(b"\xef\xbb\xbf{}".to_vec());
    bodies.push(vec![b'['; BRACKETS]);
    bodies.push(b"{\"a\":".repeat(BRACKETS / 5));
    bodies.push([b"[".repeat(BRACKETS), b"]".repeat(BRACKETS)].concat());
    bodies.push([b"{\"a\":[".to_vec(), b"0,".repeat(BRACKETS / 2), b"0]}".to_vec()].concat());
    bodies
}

fn path(route: &Route) -> String {
    let node = ::broker::settings::Settings::default().node_name;
    let name = match route.action {
        Action::PutVhostLimit | Action::PutUserLimit => "max-connections",
        // Publishing to this exchange, and getting from this queue.
        Action::Publish => "amq.default",
        Action::ChangeMember(_) | Action::Checkpoint | Action::ReclaimMemory => "r",
        Action::GetMessages => "q",
        _ => "new",
    };
    let destination = if route.action == Action::Bind(To::Exchange) { "amq.direct" } else { "q" };
    let vhost = if route.action == Action::PutVhost { "new" } else { "%2F" };
    let filled = [
        ("{vhost}", vhost),
        ("{node}", &node),
        ("{user}", "victim"),
        ("{component}", "ours"),
        ("{key}", "log.level"),
        ("{source}", "amq.topic"),
        ("{destination}", destination),
        ("{name}", name),
    ];
    filled.iter().fold(route.path.to_owned(), |path, (part, with)| path.replace(part, with))
}

/// The built program, because a panic ends it.
struct Fixture {
    broker: Broker,
    _directory: Directory,
}

impl Fixture {
    async fn open() -> Self {
        let directory = Directory::new("http-bodies");
        let fixture = Self { broker: Broker::start(&directory), _directory: directory };
        for (path, body) in [
            ("/api/users/victim", r#"{"password":"p","tags":""}"#),
            ("/api/queues/%2F/q", "{}"),
            ("/api/queues/%2F/r", r#"{"arguments":{"x-queue-type":"quorum"}}"#),
        ] {
            let (status, answer) = fixture.ask("PUT", path, body.as_bytes()).await.unwrap();
            assert_eq!(status, 201, "{path}: {answer}");
        }
        fixture
    }

    /// Sends octets on a new connection, and returns all that arrives until its end. If the client `leaves`, it sends nothing
    /// more, and the broker knows it.
    async fn send(&self, head: &str, body: &[u8], leaves: bool) -> Vec<u8> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.broker.http_port)).await.unwrap();
        let (mut receive, mut send) = socket.split();
        let request = [head.as_bytes(), body].concat();
        // The broker may answer and close before it has read everything, so that writing fails.
        let write = async {
            let _ = send.write_all(&request).await;
            if leaves {
                let _ = send.shutdown().await;
            }
        };
        let mut answer = Vec::new();
        let read = async {
            let _ = receive.read_to_end(&mut answer).await;
        };
        let both = async { tokio::join!(write, read) };
        tokio::time::timeout(PATIENCE, both).await.expect("the broker neither answers nor closes");
        answer
    }

    /// Sends a request. Returns the status and the body of the answer, or `None` if the connection was closed without one.
    async fn ask(&self, method: &str, path: &str, body: &[u8]) -> Option<(u16, String)> {
        self.ask_with_length(method, path, &body.len().to_string(), body, false).await
    }

    async fn ask_with_length(
        &self,
        method: &str,
        path: &str,
        length: &str,
        body: &[u8],
        leaves: bool,
    ) -> Option<(u16, String)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n",
            basic("guest", "guest")
        );
        let answer = self.send(&head, body, leaves).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// Checks that a new virtual host can be used.
    async fn still_works(&self) {
        let message = br#"{"routing_key":"q","properties":{},"payload":"m","payload_encoding":"string"}"#;
        let get = br#"{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}"#;
        for (method, path, body, wanted) in [
            ("PUT", "/api/vhosts/after", &b"{}"[..], ""),
            ("PUT", "/api/queues/after/q", b"{}", ""),
            ("POST", "/api/exchanges/after/amq.default/publish", message, r#"{"routed":true}"#),
            ("POST", "/api/queues/after/q/get", get, r#""payload":"m""#),
            ("GET", "/api/overview", b"", r#""node":"#),
            ("GET", "/api/definitions", b"", r#""after""#),
            ("DELETE", "/api/vhosts/after", b"", ""),
        ] {
            let (status, answer) = self.ask(method, path, body).await.unwrap();
            assert!(
                (200..300).contains(&status) && answer.contains(wanted),
                "{method} {path}: {status} {answer}"
            );
        }
    }

    fn close(self) {
        assert!(self.broker.terminate().success());
    }
}

/// Returns why an answer is wrong, if it is.
fn problem(answer: &Option<(u16, String)>) -> Option<String> {
    let Some((status, answer)) = answer else { return Some("no answer".to_owned()) };
    let reason = serde_json::from_str::<Value>(answer)
        .ok()
        .and_then(|answer| Some(answer["reason"].as_str()?.to_owned()));
    match (status, reason) {
        (200..=299, _) => None,
        (400..=499 | 501, Some(reason)) if !reason.is_empty() => None,
        // Too little memory for now, or what the broker is told to do must wait. That nobody answers is no such reason.
        (503, Some(reason)) if !reason.is_empty() && reason != "no answer in time" => None,
        _ => Some(format!("{status} {answer}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_body_breaks_the_broker() {
    let seed: u64 = std::env::var("SLUICE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let fixture = Fixture::open().await;
    for route in ROUTES.iter().filter(|route| route.has_body()) {
        let (method, path, valid) = (route.method.to_string(), path(route), valid(route.action));
        let bodies = fixed().into_iter().chain((0..BODIES).map(|_| changed(&valid, &mut random)));
        for (number, body) in bodies.enumerate() {
            let answer = fixture.ask(&method, &path, &body).await;
            if let Some(problem) = problem(&answer) {
                let shown = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
                panic!("SLUICE_SEED={seed}: {method} {path} with body {number}, {shown:?}: {problem}");
            }
        }
        let answer = fixture.ask_with_length(&method, &path, &TOO_LARGE.to_string(), b"{", false).await;
        assert_eq!(answer.map(|(status, _)| status), Some(400), "{method} {path}");
        let (status, answer) = fixture.ask("GET", "/api/whoami", b"").await.unwrap();
        assert_eq!(status, 200, "after {method} {path}: {answer}");
    }
    fixture.still_works().await;
    fixture.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_another_length_than_announced_is_refused_or_cut() {
    let fixture = Fixture::open().await;
    let path = "/api/queues/%2F/new";
    // The client leaves before the end of the body: it may get an answer, or none.
    for length in ["100", "9999999"] {
        let answer = fixture.ask_with_length("PUT", path, length, b"{}", true).await;
        assert!(answer.as_ref().is_none_or(|(status, _)| *status == 400), "{length}: {answer:?}");
    }
    for (length, body, wanted) in [
        // The rest is no request of its own.
        ("2", &b"{}{}{}{}"[..], &[201, 204][..]),
        ("0", b"{}", &[201, 204]),
        ("-1", b"{}", &[400]),
        ("2, 3", b"{}", &[400]),
        ("9999999999999999999999", b"{}", &[400]),
        ("2\r\nContent-Length: 3", b"{}x", &[400]),
        ("2\r\nTransfer-Encoding: chunked", b"{}", &[400]),
    ] {
        let answer = fixture.ask_with_length("PUT", path, length, body, false).await;
        let status = answer.as_ref().map(|(status, _)| *status);
        assert!(status.is_some_and(|status| wanted.contains(&status)), "{length:?}: {answer:?}");
    }
    fixture.still_works().await;
    fixture.close();
}
