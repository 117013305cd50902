//! The data directory as a whole: its identity, and what a copy of it is worth.

use crate::broker;

use std::path::Path;

use broker::verb::finish;
use broker::{Broker, Directory, Starting, serve};
use serde_json::Value;

/// Returns the identifier of the data directory and the number of starts on it.
fn identity(broker: &Broker) -> (String, u64) {
    let (_, nodes) = broker.get("/api/nodes");
    (nodes[0]["node_id"].as_str().unwrap().to_owned(), nodes[0]["boots"].as_u64().unwrap())
}

/// Copies a directory with all files in it, as `cp -a` does.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

/// Runs a broker that is expected to refuse its start, and returns the last line of its log.
fn refusal(data: &Path) -> String {
    let refused = finish(&mut serve(data), b"");
    assert_eq!(refused.code, 1, "{refused:?}");
    refused.err.trim_end().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_copy_of_the_directory_of_a_stopped_broker_has_everything() {
    const COUNT: &str = "2000";
    let original = Directory::new("backup");
    // With so little memory, most messages are in packs.
    let start =
        |directory: &Directory| Starting::spawn(directory, &["classic_queue.backlog_memory=64KiB"]).finish();
    let broker = start(&original);
    let body = "b".repeat(500);
    for kind in ["classic", "quorum", "stream"] {
        broker.verb(&["declare", "queue", kind, "--type", kind]).done();
        broker.verb(&["send", kind, &format!("first of {kind}")]).done();
        broker.verb(&["send", kind, &body, "--count", COUNT]).done();
    }
    broker.verb(&["declare", "exchange", "shop", "--type", "topic"]).done();
    broker.verb(&["declare", "binding", "shop", "classic", "--key", "new.*"]).done();
    let policy = r#"{"pattern": "^none$", "apply-to": "queues", "definition": {"max-length": 7}}"#;
    assert_eq!(broker.ask("PUT", "/api/policies/%2F/short", policy).0, 201);
    let (node, boots) = identity(&broker);
    assert_eq!(boots, 1);
    assert!(broker.terminate().success());

    let backup = Directory::new("backup");
    copy(&original.path().join("data"), &backup.path().join("data"));
    let broker = start(&backup);
    assert_eq!(identity(&broker), (node.clone(), 2));
    let rows = broker.list("queues");
    for kind in ["classic", "quorum", "stream"] {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == kind).unwrap();
        assert_eq!((row["type"].as_str(), row["messages"].as_u64()), (Some(kind), Some(2001)), "{row}");
        let offset: &[&str] = if kind == "stream" { &["--offset", "first"] } else { &[] };
        let came = broker.verb(&[&["recv", kind, "--count", "2001"], offset].concat()).done();
        assert!(came.starts_with(&format!("first of {kind}\n{body}\n")), "{}", &came[..100]);
        assert!(came.lines().skip(1).all(|line| line == body));
    }
    broker.verb(&["send", "/exchanges/shop/new.x", "through the binding"]).done();
    assert_eq!(broker.verb(&["recv", "classic", "--count", "1"]).done(), "through the binding");
    assert_eq!(broker.get("/api/policies/%2F/short").0, 200);
    assert!(broker.terminate().success());

    // The original is as it was: reading the copy has changed nothing in it.
    let broker = start(&original);
    assert_eq!(identity(&broker), (node, 2));
    assert_eq!(broker.verb(&["recv", "quorum", "--count", "1"]).done(), "first of quorum");
    assert!(broker.terminate().success());
}

#[test]
fn starts_are_counted_whatever_ends_the_broker() {
    let directory = Directory::new("identity");
    let data = directory.path().join("data");
    let broker = Broker::start(&directory);
    let (node, _) = identity(&broker);
    broker.verb(&["declare", "queue", "q"]).done();
    assert!(refusal(&data).contains("in use by another broker"));
    broker.kill();
    let broker = Broker::start(&directory);
    assert_eq!(
        identity(&broker),
        (node.clone(), 2),
        "a start that found the directory locked is not counted"
    );
    let status = broker.verb(&["status"]).done();
    let line = |words: &str| status.lines().any(|line| line.split_whitespace().eq(words.split(' ')));
    assert!(line(&format!("identity {node}")) && line("starts 2"), "{status}");
    assert!(broker.terminate().success());
    let log = directory.logged();
    assert!(log.contains(&format!("identity of the data directory: {node}, start 2")), "{log}");

    // A damaged identity is refused, and nothing is changed.
    let file = data.join("identity");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let line = refusal(&data);
    for part in [data.to_str().unwrap(), "file identity is damaged", "restore it from a backup, or remove it"]
    {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), bytes);

    // A directory of an earlier version has no identity. It gets one, and keeps everything else.
    std::fs::remove_file(&file).unwrap();
    let broker = Broker::start(&directory);
    let (other, boots) = identity(&broker);
    assert!(other != node && boots == 1, "{other} {boots}");
    let rows: Value = broker.list("queues");
    assert_eq!(rows[0]["name"], "q");
    assert!(broker.terminate().success());
}
