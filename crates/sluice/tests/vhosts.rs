//! A user of one virtual host sees nothing of the others, and a deleted virtual host leaves nothing behind.

use crate::broker;

use std::path::Path;
use std::time::Duration;

use broker::verb::{ask_as, basic};
use broker::{Broker, Directory};
use client::{Connection, Options, ReceiverOptions, SenderOptions, Url};
use serde_json::{Value, json};

/// Sends a GET as the user who may do everything in the virtual host `mine` alone.
fn ann(broker: &Broker, path: &str) -> (u16, String) {
    let (status, answer) = ask_as(broker.http_port, &basic("ann", "ann"), "GET", path, "");
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// No route shows a user anything of a virtual host in which they have no permission: no name, no message, and no number that
/// counts it.
#[tokio::test]
async fn nothing_of_a_virtual_host_is_shown_to_users_of_another() {
    let directory = Directory::new("vhosts");
    let broker = Broker::start(&directory);
    let put = |path: &str, body: Value| {
        let (status, _) = broker.ask("PUT", path, &body.to_string());
        assert!(matches!(status, 201 | 204), "{path}: {status}");
    };
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    put("/api/users/ann", json!({ "password": "ann", "tags": "management,policymaker" }));
    for (vhost, name, user) in [("mine", "open", "ann"), ("theirs-77", "hidden-77", "guest")] {
        put(&format!("/api/vhosts/{vhost}"), json!({ "description": name }));
        put(&format!("/api/permissions/{vhost}/{user}"), all.clone());
        put(&format!("/api/permissions/{vhost}/guest"), all.clone());
        put(&format!("/api/queues/{vhost}/{name}"), json!({ "durable": true }));
        put(&format!("/api/exchanges/{vhost}/{name}"), json!({ "type": "direct" }));
        let policy = json!({ "pattern": name, "definition": { "max-length": 1000 } });
        put(&format!("/api/policies/{vhost}/{name}"), policy);
        put(&format!("/api/vhost-limits/{vhost}/max-queues"), json!({ "value": 100 }));
        let binding = format!("/api/bindings/{vhost}/e/{name}/q/{name}");
        assert_eq!(broker.ask("POST", &binding, &json!({ "routing_key": name }).to_string()).0, 201);
        let message =
            json!({ "properties": {}, "routing_key": name, "payload": name, "payload_encoding": "string" });
        for _ in 0..if vhost == "mine" { 1 } else { 7 } {
            let publish = format!("/api/exchanges/{vhost}/{name}/publish");
            assert_eq!(broker.ask("POST", &publish, &message.to_string()).1["routed"], true);
        }
    }
    let url = format!("{}/theirs-77", broker.amqp_url());
    let connection = Connection::open(&url.parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let _receiver = session.receiver(Some("/queues/hidden-77"), ReceiverOptions::default()).await.unwrap();

    let (status, document) = ann(&broker, "/api/openapi.json");
    assert_eq!(status, 200);
    let document: Value = serde_json::from_str(&document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let gets: Vec<&String> =
        paths.iter().filter(|(_, methods)| methods["get"].is_object()).map(|(path, _)| path).collect();
    let mut asked = 0;
    for path in gets.iter().filter(|path| !path.contains('{')) {
        let (status, body) = ann(&broker, path);
        let found = body.find("-77").map(|at| body[at.saturating_sub(100)..at + 3].to_owned());
        assert_eq!(found, None, "{path}: {status}");
        asked += u32::from(status == 200);
    }
    assert!(asked > 15, "only {asked} routes have answered");
    for path in gets.iter().filter(|path| path.contains("{vhost}")) {
        let parts = path.split('/').map(|part| match part {
            "{vhost}" => "theirs-77",
            part if part.starts_with('{') => "hidden-77",
            part => part,
        });
        let path = parts.collect::<Vec<_>>().join("/");
        let (status, body) = ann(&broker, &path);
        let nothing = matches!(status, 400 | 401 | 403 | 404 | 501) || matches!(&*body, "[]" | "{}");
        assert!(nothing, "{path}: {status} {body:.300}");
    }

    let url = format!("amqp://ann:ann@127.0.0.1:{}/mine", broker.amqp_port);
    let mut own = client::amqp091::Connection::open(&url.parse().unwrap(), Default::default()).await.unwrap();
    own.open_channel(1).await.unwrap();
    let (_, body) = ann(&broker, "/api/overview");
    let overview: Value = serde_json::from_str(&body).unwrap();
    let totals = &overview["object_totals"];
    let exchanges = broker.get("/api/exchanges/mine").1.as_array().unwrap().len();
    let expected = json!({ "connections": 1, "channels": 1, "sessions": 0, "consumers": 0, "exchanges": exchanges, "queues": 1 });
    assert_eq!(*totals, expected);
    assert_eq!(
        (&overview["queue_totals"]["messages"], &overview["message_stats"]["publish"]),
        (&1.into(), &1.into()),
        "{overview}"
    );
    assert_eq!(overview["listeners"], Value::Null);
    // Those who watch the node see all of it.
    let (_, overview) = broker.get("/api/overview");
    assert_eq!(overview["queue_totals"]["messages"], 8);
    let totals = &overview["object_totals"];
    assert_eq!([&totals["consumers"], &totals["sessions"], &totals["channels"]], [1, 1, 2], "{totals}");
    own.close().await.unwrap();
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}

/// Returns how many bytes the files of a directory have.
fn bytes_in(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        // The broker may have removed the file since.
        metadata => metadata.map_or(0, |metadata| metadata.len()),
    };
    entries.flatten().map(size).sum()
}

/// The most that the data directory has without live data (docs/operations/size.md, Size it).
const IDLE_BYTES_MAX: u64 = 80 * 1024 * 1024;

#[tokio::test]
async fn a_deleted_virtual_host_frees_its_space_and_closes_its_connections() {
    const MESSAGE_BYTES: usize = 64 * 1024;
    const MESSAGES: usize = 1024;
    let directory = Directory::new("vhosts");
    let broker = Broker::start(&directory);
    let data = directory.path().join("data");
    broker.verb(&["add", "vhost", "team"]).done();
    for kind in ["classic", "quorum", "stream"] {
        broker.verb(&["declare", "queue", kind, "--type", kind, "-p", "team"]).done();
    }
    let url: Url = format!("{}/team", broker.amqp_url()).parse().unwrap();
    let publisher = Connection::open(&url, Options::default()).await.unwrap();
    let session = publisher.session().await.unwrap();
    let message = client::Message::data(vec![7; MESSAGE_BYTES]).encode();
    for kind in ["classic", "quorum", "stream"] {
        let sender =
            session.sender(Some(&format!("/queues/{kind}")), SenderOptions::default()).await.unwrap();
        for _ in 0..MESSAGES {
            sender.send(message.clone()).await.unwrap();
        }
    }
    assert!(bytes_in(&data) > 3 * (MESSAGES * MESSAGE_BYTES) as u64, "all of it is on the disk");
    let mut other = client::amqp091::Connection::open(&url, Default::default()).await.unwrap();
    let elsewhere = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();

    broker.verb(&["delete", "vhost", "team"]).done();
    let closed = publisher.closed().await.unwrap_err().to_string();
    assert!(closed.contains("Connection forced: vhost 'team' is deleted"), "{closed}");
    let closed = other.closed().await.to_string();
    assert!(closed.contains("CONNECTION_FORCED - vhost 'team' is deleted"), "{closed}");
    while bytes_in(&data) > IDLE_BYTES_MAX {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Other virtual hosts go on, and a restart brings nothing back.
    elsewhere.session().await.unwrap();
    assert!(broker.terminate().success());
    let broker = Broker::start(&directory);
    assert_eq!(broker.get("/api/vhosts/team").0, 404);
    assert_eq!(broker.list("queues"), json!([]));
    assert!(bytes_in(&data) <= IDLE_BYTES_MAX);
    assert!(broker.terminate().success());
}
