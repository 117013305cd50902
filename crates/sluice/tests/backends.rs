//! An HTTP server that checks logins and permissions, as clients and operators see it.

use crate::broker;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amqp10::{Map, Symbol, Value};
use amqp091::{BasicPublish, Method, TxCommit, TxSelect};
use broker::{Broker, Directory, Starting};
use client::management::QueueSpec;
use client::{
    Body, Connection, Error, Management, Message, Options, ReceiverOptions, SenderOptions, Settle, Url,
};
use serde_json::json;

/// A server that knows the users whose password is their name backwards, and takes those without a password for authenticated.
/// They may use the virtual host `/`, and there what begins with their name, the default exchange, and the keys `eu.*` of
/// `amq.topic`.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    /// While this is true, requests are accepted and not answered.
    is_stuck: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, is_stuck) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let (log, stuck) = (asked.clone(), is_stuck.clone());
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    request.push(byte[0]);
                }
                // The broker has given up before it asked.
                if !request.ends_with(b"\r\n\r\n") {
                    continue;
                }
                if stuck.load(Ordering::Relaxed) {
                    kept.push(stream);
                    continue;
                }
                let answer = answer(&String::from_utf8(request).unwrap(), &log);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
                drop(stream.write_all(format!("{head}{answer}").as_bytes()));
            }
        });
        Self { port, asked, is_stuck }
    }

    fn settings(&self) -> Vec<String> {
        let path = |name: &str| format!("auth_http.{name}_path=http://127.0.0.1:{}/{name}", self.port);
        ["user", "vhost", "resource", "topic"].map(path).to_vec()
    }

    /// Returns how often a path was asked.
    fn count(&self, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| asked.starts_with(path)).count()
    }
}

fn answer(request: &str, log: &Mutex<Vec<String>>) -> &'static str {
    let (path, query) = request.split(' ').nth(1).unwrap().split_once('?').unwrap();
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let fields: BTreeMap<&str, String> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name, decode(value)))
        .collect();
    let of = |name: &str| fields.get(name).map_or("", String::as_str);
    let asked = match path {
        "/user" if fields.contains_key("password") => "/user with a password".to_owned(),
        "/topic" => format!("/topic {} {} {}", of("name"), of("permission"), of("routing_key")),
        _ => format!("{path} {} {}", of("name"), of("permission")),
    };
    log.lock().unwrap().push(asked);
    let user = of("username");
    let is_allowed = match path {
        "/user" => fields.get("password").is_none_or(|password| user.chars().rev().eq(password.chars())),
        "/vhost" => of("vhost") == "/",
        "/resource" => of("name").starts_with(user) || ["amq.default", "amq.topic"].contains(&of("name")),
        "/topic" => of("name") == "amq.topic" && of("routing_key").starts_with("eu."),
        _ => false,
    };
    match (is_allowed, path, user) {
        (true, "/user", "ann") => "allow management",
        (true, ..) => "allow",
        (false, ..) => "deny",
    }
}

fn start(directory: &Directory, settings: &[String], more: &[&str]) -> Broker {
    let settings: Vec<&str> = settings.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Starting::spawn(directory, &settings).finish()
}

async fn connect(broker: &Broker, login: &str) -> Result<Connection, Error> {
    let url = format!("amqp://{login}@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
    Connection::open(&url, Options::default()).await
}

fn message() -> bytes::Bytes {
    Message::data("m").encode()
}

#[tokio::test]
async fn a_server_decides_who_comes_and_what_they_may_do() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=internal", "auth_backends.2=http"];
    let broker = start(&directory, &server.settings(), &chain);
    let connection = connect(&broker, "ann:nna").await.unwrap();
    assert!(connect(&broker, "ann:ann").await.is_err() && connect(&broker, "guest:guest").await.is_ok());
    let session = connection.session().await.unwrap();
    let management = Management::open(&session).await.unwrap();
    for queue in ["ann.1", "ann.2"] {
        management.declare_queue(queue, &QueueSpec::default()).await.unwrap();
    }
    let receiver = session.receiver(Some("/queues/ann.1"), ReceiverOptions::default()).await.unwrap();
    // One link for all messages of a target, and one whose messages name theirs.
    let sender = session.sender(Some("/queues/ann.1"), SenderOptions::default()).await.unwrap();
    let relay = session.sender(None, SenderOptions::default()).await.unwrap();
    let to = |address: &str| {
        let mut message = Message::data("m");
        message.properties.get_or_insert_default().to = Some(address.into());
        message.encode()
    };
    for _ in 0..3 {
        sender.send(message()).await.unwrap();
        relay.send(to("/queues/ann.1")).await.unwrap();
        relay.send(to("/exchanges/amq.topic/eu.1")).await.unwrap();
    }
    for _ in 0..6 {
        receiver.recv().await.unwrap().accept().unwrap();
    }
    // Each question was asked once, however often the answer was needed.
    assert_eq!((server.count("/resource amq.default write"), server.count("/topic amq.topic write")), (1, 1));
    assert_eq!(server.count("/resource ann.1 read"), 1);
    // A message that waited for an answer counts once, over each protocol.
    let published = || broker.get("/api/overview").1["message_stats"]["publish"].as_u64().unwrap();
    assert_eq!(published(), 9);
    let url = format!("http://ann:nna@127.0.0.1:{}/api/exchanges/%2F/amq.topic/publish", broker.http_port);
    let body = r#"{"routing_key": "eu.2", "properties": {}, "payload": "m", "payload_encoding": "string"}"#;
    let output = std::process::Command::new("curl").args(["-s", &url, "-d", body]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), r#"{"routed":false}"#);
    assert_eq!((server.count("/topic amq.topic write"), published()), (2, 10));

    // What the server refuses ends a session of its own, with the words of the broker.
    for (what, words) in [
        ("queue", "read access to queue 'bob.1' in vhost '/' refused for user 'ann'"),
        ("exchange", "write access to exchange 'amq.fanout' in vhost '/' refused for user 'ann'"),
        ("key", "write access to topic 'us.1' in exchange 'amq.topic' in vhost '/' refused for user 'ann'"),
        ("declare", "configure access to queue 'bob.1' in vhost '/' refused for user 'ann'"),
    ] {
        broker.verb(&["declare", "queue", "bob.1"]).done();
        let session = connection.session().await.unwrap();
        let refused = match what {
            "queue" => session.receiver(Some("/queues/bob.1"), ReceiverOptions::default()).await.err(),
            "exchange" => session.sender(Some("/exchanges/amq.fanout"), SenderOptions::default()).await.err(),
            "key" => {
                let relay = session.sender(None, SenderOptions::default()).await.unwrap();
                relay.send(to("/exchanges/amq.topic/us.1")).await.err()
            }
            _ => {
                let management = Management::open(&session).await.unwrap();
                management.declare_queue("bob.1", &QueueSpec::default()).await.err()
            }
        };
        let refused = refused.expect(what).to_string();
        assert!(refused.contains(words), "{what}: {refused}");
    }
    broker.verb(&["add", "vhost", "other"]).done();
    let url = format!("amqp://ann:nna@127.0.0.1:{}/other", broker.amqp_port).parse().unwrap();
    let refused = Connection::open(&url, Options::default()).await.err().unwrap().to_string();
    assert!(refused.contains("access to vhost 'other' refused for user 'ann'"), "{refused}");

    // The management API asks the server as well.
    let http = |login: &str, path: &str| {
        let url = format!("http://{login}@127.0.0.1:{}{path}", broker.http_port);
        let output = std::process::Command::new("curl").args(["-s", &url]).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    assert_eq!(http("ann:nna", "/api/whoami")["tags"], json!(["management"]));
    let names: Vec<String> = http("ann:nna", "/api/vhosts")
        .as_array()
        .unwrap()
        .iter()
        .map(|vhost| vhost["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["/"]);
    assert_eq!(http("bob:bob", "/api/whoami")["reason"], json!("Not management user"));
}

/// Nothing is due to the client when a settled message was allowed. Its connection is read all the same.
#[tokio::test]
async fn messages_without_an_answer_go_on() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=internal", "auth_backends.2=http", "heartbeat=0"];
    let broker = start(&directory, &server.settings(), &chain);
    let connection = connect(&broker, "ann:nna").await.unwrap();
    let session = connection.session().await.unwrap();
    let options = SenderOptions { settle: Settle::Settled, ..SenderOptions::default() };
    let sender = session.sender(None, options).await.unwrap();
    for number in 0..20 {
        let message = Message::data("m").to(format!("/exchanges/amq.topic/eu.{number}"));
        sender.send(message.encode()).await.unwrap();
    }
    while server.count("/topic") < 20 {
        let closed = tokio::time::timeout(Duration::from_millis(10), sender.closed()).await;
        assert!(closed.is_err(), "{closed:?}");
    }
    // A message whose keys would need too many questions is refused before the first.
    let mut message = Message::data("m").to("/exchanges/amq.topic/eu.0");
    let keys = (0..100).map(|number| Value::from(format!("eu.x{number}"))).collect();
    message
        .message_annotations
        .get_or_insert_default()
        .insert(Symbol::from_static("x-cc"), Value::List(keys));
    sender.send(message.encode()).await.unwrap();
    let refused = sender.closed().await.to_string();
    assert!(refused.contains("with 101 routing keys is refused: at most 100 are asked for"), "{refused}");
    assert_eq!(server.count("/topic"), 20);
}

/// A request that is held may be answered at once when it goes on. The requests behind it go on, too.
#[tokio::test]
async fn requests_behind_a_held_one_go_on() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=internal", "auth_backends.2=http"];
    let broker = start(&directory, &server.settings(), &chain);
    let connection = connect(&broker, "ann:nna").await.unwrap();
    let session = connection.session().await.unwrap();
    let mut properties = Map::new();
    properties.insert(Symbol::from_static("paired"), Value::from(true));
    let sender = SenderOptions {
        name: Some("pair".into()),
        settle: Settle::Settled,
        properties: Some(properties.clone()),
        ..SenderOptions::default()
    };
    let receiver = ReceiverOptions {
        name: Some("pair".into()),
        properties: Some(properties),
        ..ReceiverOptions::default()
    };
    let receiver = session.receiver(Some("/management"), receiver).await.unwrap();
    let sender = session.sender(Some("/management"), sender).await.unwrap();
    for number in 0..4_u64 {
        let request = Message::value(Value::Null).message_id(number).to(format!("/queues/ann.{number}"));
        sender.send(request.subject("GET").reply_to("$me").encode()).await.unwrap();
    }
    for number in 0..4_u64 {
        let response = Message::decode(&receiver.recv().await.unwrap().message).unwrap().properties.unwrap();
        assert_eq!(response.correlation_id, Some(Value::Ulong(number)));
        assert_eq!(response.subject.as_deref(), Some("404"));
    }
}

/// Whoever is in goes on while the server does not answer, and so do users of the catalog.
#[tokio::test]
async fn a_server_that_hangs_holds_up_nobody_who_is_in() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=internal", "auth_backends.2=http", "handshake_timeout=5000"];
    let broker = start(&directory, &server.settings(), &chain);
    broker.verb(&["declare", "queue", "ann.1"]).done();
    let connection = connect(&broker, "ann:nna").await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/ann.1"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/ann.1"), ReceiverOptions::default()).await.unwrap();
    server.is_stuck.store(true, Ordering::Relaxed);
    // More than the wrong passwords above which an address waits.
    let waiting: Vec<_> = (0..80)
        .map(|_| {
            tokio::spawn({
                let url = format!("amqp://bob:bob@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
                async move { Connection::open(&url, Options::default()).await.is_ok() }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..100 {
        sender.send(message()).await.unwrap();
        receiver.recv().await.unwrap().accept().unwrap();
        connect(&broker, "guest:guest").await.unwrap().close().await.unwrap();
    }
    // The catalog changes, which makes the broker look at all links once more.
    broker.verb(&["add", "user", "new", "--no-password"]).done();
    sender.send(message()).await.unwrap();
    for login in waiting {
        assert!(!login.await.unwrap());
    }
    server.is_stuck.store(false, Ordering::Relaxed);
    connect(&broker, "bob:bob").await.unwrap();
    assert!(directory.logged().contains("it was not checked within the handshake timeout of 5000 ms"));
}

#[tokio::test]
async fn a_server_may_know_the_users_and_the_broker_their_permissions() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=internal", "auth_backends.2.authn=http", "auth_backends.2.authz=internal"];
    let broker = start(&directory, &server.settings(), &chain);
    assert!(connect(&broker, "ann:nna").await.is_err(), "the catalog does not know ann");
    broker.verb(&["add", "user", "ann", "--no-password"]).done();
    broker.verb(&["set", "permission", "ann", "", "", "^bob"]).done();
    broker.verb(&["declare", "queue", "bob.1"]).done();
    let connection = connect(&broker, "ann:nna").await.unwrap();
    let session = connection.session().await.unwrap();
    session.receiver(Some("/queues/bob.1"), ReceiverOptions::default()).await.unwrap();
    assert!(session.sender(Some("/queues/bob.1"), SenderOptions::default()).await.is_err());
    assert_eq!(server.count("/resource"), 0);
}

/// The passwords stay here: the server is asked by name, and its tags do not count.
#[tokio::test]
async fn a_broker_may_know_the_passwords_and_a_server_the_permissions() {
    for authz in ["http", "cache"] {
        let (directory, server) = (Directory::new("backends"), Server::start());
        let authz = format!("auth_backends.1.authz={authz}");
        let chain = [
            "auth_backends.1.authn=internal",
            &authz,
            "auth_cache.cached_backend=http",
            "auth_cache.cache_ttl=600000",
            "http_dispatch.auth_backends.1=internal",
        ];
        let broker = start(&directory, &server.settings(), &chain);
        broker.verb_with_input(&["add", "user", "ann", "--password-file", "-"], b"secret").done();
        broker.verb(&["declare", "queue", "bob.1"]).done();
        assert!(connect(&broker, "ann:nna").await.is_err(), "the server is not asked about passwords");
        assert_eq!(server.count("/"), 0);
        let connection = connect(&broker, "ann:secret").await.unwrap();
        let session = connection.session().await.unwrap();
        let management = Management::open(&session).await.unwrap();
        management.declare_queue("ann.1", &QueueSpec::default()).await.unwrap();
        let refused =
            session.receiver(Some("/queues/bob.1"), ReceiverOptions::default()).await.err().unwrap();
        let words = "read access to queue 'bob.1' in vhost '/' refused for user 'ann'";
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!((server.count("/user"), server.count("/user with")), (1, 0));

        // The cache knows what was asked for another connection.
        let asked = server.count("/");
        let again = connect(&broker, "ann:secret").await.unwrap();
        let management = Management::open(&again.session().await.unwrap()).await.unwrap();
        management.declare_queue("ann.1", &QueueSpec::default()).await.unwrap();
        assert_eq!(server.count("/") == asked, authz.ends_with("cache"));

        // Whoever is no longer a user here is out, whatever the server says.
        broker.verb(&["delete", "user", "ann"]).done();
        let closed = connection.closed().await.unwrap_err().to_string();
        assert!(closed.contains("user 'ann' is deleted"), "{closed}");
    }
}

/// Clients use the users of the broker, and people at the HTTP API those of a server.
#[tokio::test]
async fn the_http_api_may_have_backends_of_its_own() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["http_dispatch.auth_backends.1=internal", "http_dispatch.auth_backends.2=http"];
    let broker = start(&directory, &server.settings(), &chain);
    assert!(connect(&broker, "ann:nna").await.is_err(), "no client of AMQP");
    connect(&broker, "guest:guest").await.unwrap();
    assert_eq!(server.count("/"), 0);
    let url = format!("http://ann:nna@127.0.0.1:{}/api", broker.http_port);
    let ask = |path: &str, more: &[&str]| {
        let url = format!("{url}{path}");
        let output = std::process::Command::new("curl").args(["-s", &url]).args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ask("/whoami", &[]).contains(r#""tags":["management"]"#));
    // The connection in the process that publishes is allowed by the server, too.
    let body = r#"{"routing_key": "eu.2", "properties": {}, "payload": "m", "payload_encoding": "string"}"#;
    assert_eq!(ask("/exchanges/%2F/amq.topic/publish", &["-d", body]), r#"{"routed":false}"#);
    assert_eq!(server.count("/topic amq.topic write"), 1);
}

/// The permissions of a transaction are asked for at its commit, one after the other: its messages keep their order, and a
/// refusal closes the channel.
#[tokio::test]
async fn a_transaction_asks_for_the_permissions_of_its_messages() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=internal", "auth_backends.2=http"];
    let broker = start(&directory, &server.settings(), &chain);
    broker.verb(&["declare", "queue", "ann.1"]).done();
    for key in ["eu.1", "eu.2", "eu.3"] {
        broker.verb(&["declare", "binding", "amq.topic", "ann.1", "--key", key]).done();
    }
    let url = format!("amqp://ann:nna@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
    let mut client = client::amqp091::Connection::open(&url, Default::default()).await.unwrap();
    let select = Method::TxSelect(TxSelect);
    let selected = |method: &Method<'_>| matches!(method, Method::TxSelectOk(_)).then_some(());
    let committed = |method: &Method<'_>| matches!(method, Method::TxCommitOk(_)).then_some(());
    let publish = |client: &mut client::amqp091::Connection, routing_key: &'static str| {
        let publish = BasicPublish { exchange: "amq.topic", routing_key, ..BasicPublish::default() };
        client.publish(1, &publish, &[0, 0], &bytes::Bytes::from_static(routing_key.as_bytes()));
    };
    client.open_channel(1).await.unwrap();
    client.ask(1, &select, selected, |_| ()).await.unwrap();
    // The answer about eu.2 is known when the others are asked for.
    for keys in [&["eu.2"][..], &["eu.1", "eu.2", "eu.3"]] {
        keys.iter().for_each(|key| publish(&mut client, key));
        client.ask(1, &Method::TxCommit(TxCommit), committed, |_| ()).await.unwrap();
    }
    assert_eq!(server.count("/topic amq.topic write eu."), 3);
    let url: Url = broker.amqp_url().parse().unwrap();
    let reader = Connection::open(&url, Options::default()).await.unwrap();
    let session = reader.session().await.unwrap();
    let receiver = session.receiver(Some("/queues/ann.1"), ReceiverOptions::default()).await.unwrap();
    for key in ["eu.2", "eu.1", "eu.2", "eu.3"] {
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(Message::decode(&delivery.message).unwrap().body, Body::Data(vec![key.into()]));
        delivery.accept().unwrap();
    }

    for key in ["eu.1", "us.1", "eu.2"] {
        publish(&mut client, key);
    }
    let refused =
        client.ask(1, &Method::TxCommit(TxCommit), committed, |_| ()).await.unwrap_err().to_string();
    let words = "write access to topic 'us.1' in exchange 'amq.topic' in vhost '/' refused for user 'ann'";
    assert!(refused.contains("ACCESS_REFUSED") && refused.contains(words), "{refused}");
    // Only the channel has ended.
    client.open_channel(2).await.unwrap();
    client.ask(2, &select, selected, |_| ()).await.unwrap();
    client.ask(2, &Method::TxCommit(TxCommit), committed, |_| ()).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn answers_may_be_remembered() {
    let (directory, server) = (Directory::new("backends"), Server::start());
    let chain = ["auth_backends.1=cache", "auth_cache.cached_backend=http", "auth_cache.cache_ttl=600000"];
    let broker = start(&directory, &server.settings(), &chain);
    for _ in 0..2 {
        let connection = connect(&broker, "ann:nna").await.unwrap();
        let session = connection.session().await.unwrap();
        let relay =
            session.sender(Some("/exchanges/amq.topic/eu.1"), SenderOptions::default()).await.unwrap();
        relay.send(message()).await.unwrap();
        assert!(connect(&broker, "ann:x").await.is_err());
    }
    assert_eq!(server.count("/vhost"), 1);
    assert_eq!((server.count("/user"), server.count("/resource")), (1 + 2, 1), "refusals are asked again");
}
