//! What happens to messages when the disk fails, with the real program on a real disk.

use crate::broker;

use std::path::{Path, PathBuf};

use amqp10::DeliveryState;
use broker::verb::{ask_as, basic, finish, sluice};
use broker::{Broker, Directory, PROGRAM, Starting, serve};
use client::{Connection, Options, ReceiverOptions};
use serde_json::{Value, json};

/// Flips one bit after `octets`, which occur once in the files of the log. Returns the name of the file.
fn flip_behind(data_dir: &Path, octets: &[u8]) -> String {
    let logs = || {
        let entries = std::fs::read_dir(data_dir).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "log"))
    };
    let mut hits = Vec::new();
    for path in logs() {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(octets.len()).position(|window| window == octets) {
            bytes[at + octets.len() - 1] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            hits.push(path);
        }
    }
    let [hit]: [PathBuf; 1] = hits.try_into().unwrap();
    hit.file_name().unwrap().to_str().unwrap().to_owned()
}

fn queue(broker: &Broker, name: &str) -> Value {
    let rows = broker.list("queues");
    rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
}

#[test]
fn a_damaged_log_closes_its_queues() {
    let directory = Directory::new("storage");
    let data = directory.path().join("data");
    let broker = Broker::start(&directory);
    for name in ["sound", "hurt"] {
        broker.verb(&["declare", "queue", name]).done();
        broker.verb(&["send", name, &format!("first of {name}")]).done();
        broker.verb(&["send", name, &format!("second of {name}")]).done();
    }
    assert!(broker.terminate().success());
    let file = flip_behind(&data, b"second of hurt");

    for _ in 0..2 {
        let broker = Broker::start(&directory);
        assert_eq!(queue(&broker, "hurt")["state"], "damaged");
        assert_eq!(queue(&broker, "hurt")["messages"], 1);
        assert_eq!(queue(&broker, "sound")["state"], "running");
        broker.verb(&["recv", "hurt"]).refused(1, &["internal-error", "queue 'hurt'", "damaged"]);
        broker.verb(&["send", "hurt", "more"]).refused(1, &["rejected", "internal-error", "queue 'hurt'"]);
        broker.verb(&["send", "sound", "more"]).done();
        assert_eq!(broker.verb(&["recv", "sound", "--count", "1"]).done(), "first of sound");
        broker.verb(&["send", "sound", "first of sound"]).done();
        assert_eq!(broker.verb(&["recv", "sound", "--count", "2"]).done(), "second of sound\nmore");
        broker.verb(&["send", "sound", "second of sound"]).done();
        assert!(data.join("damaged").join(&file).exists(), "the bytes are kept");
        assert!(broker.terminate().success());
    }
    let log = directory.logged();
    let line = log.lines().find(|line| line.contains("damaged")).unwrap();
    for part in [&file, "offset", "bytes", "hurt"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(!line.contains("sound"), "{line}");

    let broker = Broker::start(&directory);
    broker.verb(&["delete", "queue", "hurt"]).done();
    broker.verb(&["declare", "queue", "hurt"]).done();
    broker.verb(&["send", "hurt", "again"]).done();
    assert!(broker.terminate().success());
    let broker = Broker::start(&directory);
    assert_eq!(broker.verb(&["recv", "hurt", "--count", "1"]).done(), "again");
    assert!(!data.join("damaged").exists(), "nobody needs them any more");
    assert_eq!(queue(&broker, "hurt")["messages"], json!(0));
    assert!(broker.terminate().success());
}

#[test]
fn a_log_that_nobody_can_write_stops_nothing() {
    let directory = Directory::new("storage-dev-full");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let broker = Starting::spawn_with_log(&directory, &[], full).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["send", "q", "hello"]).done();
    broker.verb(&["recv", "q", "--count", "1"]).done();
    assert!(broker.terminate().success());
}

#[test]
fn a_broker_that_may_have_lost_definitions_does_not_start() {
    let directory = Directory::new("storage");
    let data = directory.path().join("data");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "defined-here"]).done();
    broker.verb(&["send", "defined-here", "x"]).done();
    assert!(broker.terminate().success());
    let file = flip_behind(&data, b"defined-here");
    let mut refused = finish(&mut serve(&data), b"");
    refused.err = refused.err.trim_end().lines().last().unwrap_or_default().to_owned();
    refused.refused(1, &["definitions", &file, "damaged at offset", "accept_lost_definitions = true"]);

    let broker = Starting::spawn(&directory, &["accept_lost_definitions=true"]).finish();
    assert!(
        data.join("damaged").join(&file).exists() || broker.list("queues").as_array().unwrap().is_empty()
    );
    broker.verb(&["declare", "queue", "defined-here"]).done();
    broker.verb(&["send", "defined-here", "y"]).done();
    assert!(broker.terminate().success());
    assert!(
        directory.logged().contains(
            "definitions may be lost here; the broker starts because accept_lost_definitions is true"
        )
    );
    let broker = Broker::start(&directory);
    assert_eq!(broker.verb(&["recv", "defined-here", "--count", "1"]).done(), "y");
    assert!(broker.terminate().success());
}

#[test]
fn unclaimed_data_is_shown_and_deleted() {
    let directory = Directory::new("storage-unclaimed");
    let data = directory.path().join("data");
    let data_dir = data.display().to_string();
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "defined-here"]).done();
    broker.verb(&["send", "defined-here", "a body of it", "--count", "3"]).done();
    assert!(broker.terminate().success());
    flip_behind(&data, b"defined-here");

    let broker = Starting::spawn(&directory, &["accept_lost_definitions=true"]).finish();
    let unclaimed = broker.get("/api/nodes").1[0]["unclaimed"].clone();
    assert_eq!(unclaimed["owners"], 1, "{unclaimed}");
    assert!(unclaimed["bytes"].as_u64() > Some(3 * 12), "{unclaimed}");
    let files = names(&data.join("unclaimed"));
    let [owner] = &files[..] else { panic!("{files:?}") };
    let delete = |owner: &str| sluice(&["delete", "unclaimed", owner, "--data-dir", &data_dir]);
    delete(owner).refused(1, &[owner, "in use"]);
    assert!(broker.terminate().success());
    let log = directory.logged();
    let line = log.lines().find(|line| line.contains("unclaimed data")).unwrap();
    assert!(line.contains(owner) && line.contains("records=4"), "{line}");

    let doctor = || sluice(&["doctor", &data_dir]);
    assert!(doctor().out.contains(&format!("UNCLAIMED: owner {owner}, 4 records")), "{:?}", doctor());
    delete("00000000000000ff").refused(1, &["no unclaimed data", owner]);
    let wrong = delete("ff");
    assert!(wrong.code == 2 && wrong.err.contains("16 hexadecimal digits"), "{wrong:?}");
    let deleted = delete(owner).done();
    assert!(deleted.contains(&format!("owner {owner} is deleted: 4 records")), "{deleted}");
    assert!(!doctor().out.contains("UNCLAIMED"), "{:?}", doctor());
    delete(owner).refused(1, &["there is no unclaimed data"]);
    assert!(!data.join("unclaimed").exists());
    let broker = Broker::start(&directory);
    assert_eq!(broker.get("/api/nodes").1[0]["unclaimed"], json!({ "owners": 0, "bytes": 0 }));
    assert!(broker.terminate().success());
}

/// Returns the names of the files in a directory.
fn names(directory: &std::path::Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// A user, an administrator of a broker whose other users are lost.
const OPS: &str = "ops";

#[test]
fn a_broker_whose_users_are_lost_gets_a_new_one() {
    let directory = Directory::new("storage-users");
    let data = directory.path().join("data");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "kept"]).done();
    broker
        .verb_with_input(&["add", "user", "anna-of-the-shop", "--tags", "administrator"], b"secret\n")
        .done();
    broker.verb(&["delete", "user", "guest"]).done();
    let data_dir = data.display().to_string();
    let add = |more: &[&str]| {
        let words = ["add", "user", OPS, "--tags", "administrator", "--data-dir", &data_dir];
        finish(std::process::Command::new(PROGRAM).args(words).args(more), b"secret\n")
    };
    add(&[]).refused(1, &["cannot create user 'ops'", "in use by another broker"]);
    broker.kill();
    flip_behind(&data, b"anna-of-the-shop");
    std::fs::remove_file(data.join("users.copy")).unwrap();
    add(&[]).refused(1, &["definitions", "damaged at offset", "accept_lost_definitions = true"]);

    let broker = Starting::spawn(&directory, &["accept_lost_definitions=true"]).finish();
    assert_eq!(broker.get("/api/whoami").0, 401, "guest is deleted, and anna is lost");
    let says = format!("sluice add user NAME --tags administrator --data-dir {data_dir}");
    assert!(directory.logged().contains(&says), "{}", directory.logged());
    assert!(broker.terminate().success());
    add(&["--tags", ""]).refused(1, &["cannot create user 'ops'", "tag name is empty"]);
    assert_eq!(add(&[]).done(), "user 'ops' is created");
    add(&[]).refused(1, &["cannot create user 'ops'", "exists already"]);

    let broker = Broker::start(&directory);
    let ask = |method, path, body| ask_as(broker.http_port, &basic(OPS, "secret"), method, path, body);
    let all = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
    assert_eq!(ask("PUT", "/api/permissions/%2F/ops", all).0, 201);
    let (status, answer) = ask("GET", "/api/queues", "");
    assert!(status == 200 && answer.contains("\"kept\""), "{answer}");
    assert!(broker.terminate().success());
}

/// Until the definitions are known, nothing says which messages there should be.
#[test]
fn a_start_that_is_refused_creates_no_folders() {
    let directory = Directory::new("storage-refused");
    let data = directory.path().join("data");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "the-last-definition"]).done();
    broker.kill();
    flip_behind(&data, b"the-last-definition");
    let folders = ["packs", "streams"].map(|folder| data.join(folder));
    folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    let refused = finish(&mut serve(&data), b"");
    assert!(refused.code == 1 && refused.err.contains("accept_lost_definitions = true"), "{refused:?}");
    assert_eq!(folders.map(|folder| folder.exists()), [false; 2]);
}

#[test]
fn a_user_is_added_without_a_look_at_messages() {
    let directory = Directory::new("storage-add-user");
    let data = directory.path().join("data");
    assert!(Broker::start(&directory).terminate().success());
    let folders = ["packs", "streams"].map(|folder| data.join(folder));
    folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    let data_dir = data.display().to_string();
    let words = ["add", "user", OPS, "--data-dir", &data_dir];
    let added = finish(std::process::Command::new(PROGRAM).args(words), b"secret\n");
    assert!(added.done().starts_with("user 'ops' is created"));
    assert_eq!(folders.map(|folder| folder.exists()), [false; 2]);
}

/// Copies the files of a data directory.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Cuts, damages or removes one file of the log at a time. Users are added, changed and deleted before and after each file.
#[test]
fn no_user_is_lost_with_a_file_of_the_log() {
    let directory = Directory::new("storage-copy");
    let data = directory.path().join("data");
    let rounds: [&[(&str, &str, &str)]; 4] = [
        &[
            ("PUT", "/api/users/anna", r#"{"password": "old", "tags": "administrator"}"#),
            ("PUT", "/api/users/gone", r#"{"password": "secret", "tags": "administrator"}"#),
            ("PUT", "/api/vhosts/shop", ""),
        ],
        &[
            ("PUT", "/api/users/bert", r#"{"password": "secret", "tags": "monitoring"}"#),
            ("PUT", "/api/permissions/shop/bert", r#"{"configure": "", "write": "", "read": "^orders$"}"#),
            ("PUT", "/api/topic-permissions/shop/bert", r#"{"exchange": "e", "write": "", "read": "^eu"}"#),
            ("PUT", "/api/user-limits/bert/max-connections", r#"{"value": 7}"#),
        ],
        &[
            ("PUT", "/api/users/anna", r#"{"password": "new", "tags": "administrator"}"#),
            ("DELETE", "/api/users/gone", ""),
        ],
        &[("PUT", "/api/users/carl", r#"{"password": "secret", "tags": "management"}"#)],
    ];
    for requests in rounds {
        let broker = Broker::start(&directory);
        for (method, path, body) in requests {
            let (status, answer) = broker.ask(method, path, body);
            assert!(matches!(status, 201 | 204), "{method} {path}: {status} {answer}");
        }
        broker.kill();
    }
    let names =
        std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<String> = names.filter(|name| name.ends_with(".log")).collect();
    logs.sort();
    assert_eq!(logs.len(), rounds.len());
    for (n, log) in logs.iter().enumerate() {
        let damaged = Directory::new(&format!("storage-copy-{n}"));
        let there = damaged.path().join("data");
        copy_files(&data, &there);
        let path = there.join(log);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        match n {
            0 => std::fs::remove_file(&path).unwrap(),
            1 => {
                bytes[middle] ^= 1;
                std::fs::write(&path, &bytes).unwrap();
            }
            _ => std::fs::write(&path, &bytes[..middle]).unwrap(),
        }
        let refused = finish(&mut serve(&there), b"");
        assert!(refused.err.contains("accept_lost_definitions = true"), "{log}: {}", refused.err);
        for sets in [&["accept_lost_definitions=true"][..], &[]] {
            let broker = Starting::spawn(&damaged, sets).finish();
            let ask =
                |user, password, path| ask_as(broker.http_port, &basic(user, password), "GET", path, "");
            for (user, password, status) in [
                ("anna", "new", 200),
                ("anna", "old", 401),
                ("gone", "secret", 401),
                ("bert", "secret", 200),
                ("carl", "secret", 200),
                ("guest", "guest", 200),
            ] {
                assert_eq!(ask(user, password, "/api/whoami").0, status, "{log}: {user}, {password}");
            }
            let permissions = ask("anna", "new", "/api/users/bert/permissions").1;
            assert!(
                permissions.contains(r#""vhost":"shop""#) && permissions.contains("^orders$"),
                "{permissions}"
            );
            let topics = ask("anna", "new", "/api/users/bert/topic-permissions").1;
            assert!(topics.contains("^eu"), "{topics}");
            let limits = ask("anna", "new", "/api/user-limits/bert").1;
            assert!(limits.contains(r#""max-connections":7"#), "{limits}");
            assert!(broker.terminate().success());
        }
        assert!(
            damaged.logged().contains("users and permissions are those of their copy"),
            "{}",
            damaged.logged()
        );
    }
    // Damage of the copy alone loses nothing: the log is right, and the copy is written again.
    let copy = data.join("users.copy");
    std::fs::write(&copy, b"damaged").unwrap();
    let broker = Broker::start(&directory);
    assert_eq!(ask_as(broker.http_port, &basic("anna", "new"), "GET", "/api/whoami", "").0, 200);
    assert!(broker.terminate().success());
    assert!(std::fs::read(&copy).unwrap().starts_with(b"SluiceCp"));
}

/// The number of messages in the backlog, their size in bytes, and how many are rejected; the others expire.
const BACKLOG: usize = 3_000;
const BODY: usize = 1_000;
const REJECTED: usize = 100;

/// Tests a start with messages in packs, which nobody has read yet. Neither their headers nor their ages are
/// known.
#[tokio::test]
async fn paged_messages_are_dead_lettered_after_a_restart() {
    let directory = Directory::new("storage");
    let start = || Starting::spawn(&directory, &["classic_queue.backlog_memory=64KiB"]).finish();
    let broker = start();
    broker.verb(&["declare", "exchange", "graves", "--type", "headers"]).done();
    for kind in ["dead", "other"] {
        broker.verb(&["declare", "queue", kind]).done();
        let is = format!("kind={kind}");
        broker
            .verb(&["declare", "binding", "graves", kind, "--argument", "x-match=all", "--argument", &is])
            .done();
    }
    broker.verb(&["declare", "queue", "q", "--argument", "x-dead-letter-exchange=graves"]).done();
    let body = "b".repeat(BODY);
    let count = BACKLOG.to_string();
    broker.verb(&["send", "q", &body, "--count", &count, "--property", "kind=dead", "--subject", "s"]).done();
    assert!(broker.terminate().success());
    let packs = std::fs::read_dir(directory.path().join("data/packs")).unwrap();
    let stored: u64 = packs.map(|pack| pack.unwrap().metadata().unwrap().len()).sum();
    assert!(stored > (BACKLOG * BODY / 2) as u64, "{stored} bytes of it are in packs");

    let broker = start();
    let row = queue(&broker, "q");
    assert_eq!((&row["messages_ready"], &row["messages_unacknowledged"]), (&json!(BACKLOG), &json!(0)));
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    for _ in 0..REJECTED {
        receiver.recv().await.unwrap().settle(DeliveryState::Rejected(None)).unwrap();
    }
    receiver.detach().await.unwrap();
    connection.close().await.unwrap();
    let policy = r#"{"pattern": "^q$", "apply-to": "queues", "definition": {"message-ttl": 0}}"#;
    assert_eq!(broker.ask("PUT", "/api/policies/%2F/old", policy).0, 201);
    let came = broker.verb(&["recv", "dead", "--json", "--count", &count, "--timeout", "60"]).done();
    let (mut rejected, mut expired) = (0, 0);
    for line in came.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&message["body"], &message["properties"]["subject"]), (&json!(body), &json!("s")));
        assert_eq!(message["application_properties"], json!({"kind": "dead"}));
        let annotations = &message["message_annotations"];
        assert_eq!(
            (&annotations["x-first-death-queue"], &annotations["x-exchange"]),
            (&json!("q"), &json!("graves"))
        );
        match annotations["x-first-death-reason"].as_str().unwrap() {
            "rejected" => rejected += 1,
            "expired" => expired += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((rejected, expired), (REJECTED, BACKLOG - REJECTED));
    assert_eq!(
        (&queue(&broker, "q")["messages"], &queue(&broker, "other")["messages"]),
        (&json!(0), &json!(0))
    );
    assert!(broker.terminate().success());
}
