//! What a user of one virtual host sees of the others.

use crate::broker;

use broker::verb::{ask_as, basic};
use broker::{Broker, Directory};
use client::{Connection, Options, ReceiverOptions};
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

    let (_, body) = ann(&broker, "/api/overview");
    let overview: Value = serde_json::from_str(&body).unwrap();
    let totals = &overview["object_totals"];
    let exchanges = broker.get("/api/exchanges/mine").1.as_array().unwrap().len();
    let expected =
        json!({ "connections": 0, "channels": 0, "consumers": 0, "exchanges": exchanges, "queues": 1 });
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
    assert_eq!(overview["object_totals"]["consumers"], 1);
    connection.close().await.unwrap();
    assert!(broker.terminate().success());
}
