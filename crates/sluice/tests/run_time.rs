//! What administrators change while the built broker runs: the levels of its log, and its limits.

use crate::broker;

use broker::verb::{ask_as, basic};
use broker::{Broker, Directory, Starting};
use serde_json::{Value, json};

/// Returns the row of a key among the settings in force.
fn setting(broker: &Broker, key: &str) -> Value {
    let (status, answer) = broker.get("/api/config/effective");
    assert_eq!(status, 200);
    let rows = answer["config"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key} is not in {answer}"))
}

fn row(key: &str, value: &str, from: &str) -> Value {
    json!({ "key": key, "value": value, "from": from })
}

/// Sends SIGHUP, and waits until the log has another line with this text.
fn hang_up(broker: &Broker, directory: &Directory, line: &str) {
    let count = || directory.logged().matches(line).count();
    let before = count();
    broker.hang_up();
    while count() == before {
        std::thread::yield_now();
    }
}

#[test]
fn levels_of_the_log_change_until_the_broker_stops() {
    let directory = Directory::new("run_time");
    let file = directory.path().join("sluice.conf");
    std::fs::write(&file, "log.queue.level = error\n").unwrap();
    let words = ["--config", file.to_str().unwrap()];
    let broker = Starting::spawn_with(&directory, &words).finish();
    let logins = || directory.logged().matches("DEBUG user: what=\"login\" result=\"allowed\"").count();
    broker.list("queues");
    assert_eq!(logins(), 0);

    let set = broker.verb(&["set", "log-level", "debug", "--category", "user"]).done();
    assert_eq!(set, "log.user.level is debug until the broker stops; set it in the configuration to keep it");
    assert_eq!(setting(&broker, "log.user.level"), row("log.user.level", "debug", "at run time"));
    assert!(logins() > 0, "the level counts at once: {}", directory.logged());
    let shown = broker.verb(&["show", "log-level"]).done();
    let shown: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(shown.contains(&vec!["log.user.level", "debug", "at", "run", "time"]), "{shown:?}");
    assert!(shown.iter().any(|cells| cells[..2] == ["log.queue.level", "error"]), "{shown:?}");
    assert!(shown.iter().skip(1).all(|cells| cells[0].ends_with(".level")), "{shown:?}");

    // Whoever turns the audit lines off leaves a line, and so does whoever turns them on again.
    let set = broker.verb(&["set", "log-level", "none", "--category", "user"]).done();
    assert!(set.starts_with("log.user.level is none"), "{set}");
    let before = logins();
    broker.list("queues");
    assert_eq!(logins(), before);
    let cleared = broker.verb(&["clear", "log-level", "--category", "user"]).done();
    assert_eq!(cleared, "log.user.level is as in the configuration again");
    broker.verb(&["clear", "log-level", "--category", "user"]).refused(1, &["was not set at run time"]);
    let log = directory.logged();
    for part in [
        "a setting is changed until the broker stops user=\"guest\" key=\"log.user.level\" value=\"none\"",
        "what=\"DELETE /api/config/effective/{key}\" result=\"allowed\" user=\"guest\"",
    ] {
        assert!(log.contains(part), "{part} is not in {log}");
    }

    // A level of a category or an output stays above that of all lines, and the operator is told.
    broker.verb(&["set", "log-level", "warning", "--output", "console"]).done();
    let set = broker.verb(&["set", "log-level", "debug"]).done();
    assert!(set.contains("\nlog.queue.level is still error there"), "{set}");
    assert!(set.contains("\nlog.console.level is still warning there"), "{set}");
    broker.verb(&["set", "log-level", "loud"]).refused(1, &["'log.level' cannot be 'loud'"]);
    let wrong = broker.verb(&["set", "log-level", "info", "--category", "mqtt"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("connection, channel, queue, ra, user, default"),
        "{wrong:?}"
    );
    assert!(broker.terminate().success());

    let broker = Starting::spawn_with(&directory, &words).finish();
    assert_eq!(setting(&broker, "log.console.level"), row("log.console.level", "", "default"));
    assert!(broker.terminate().success());
}

#[test]
fn limits_of_the_node_change_at_once() {
    let directory = Directory::new("run_time");
    let file = directory.path().join("sluice.conf");
    std::fs::write(&file, "vm_memory_high_watermark.absolute = 8GB\n").unwrap();
    let broker = Starting::spawn_with(&directory, &["--config", file.to_str().unwrap()]).finish();
    let alarms = || broker.verb(&["check", "alarms"]).code;
    // The watch over memory and disk measures in its own thread.
    let wait_for = |field: &str, value: Value| while broker.get("/api/nodes").1[0][field] != value {};
    assert_eq!(alarms(), 0);
    wait_for("mem_limit", json!(8_000_000_000_u64));

    let set = broker.verb(&["set", "limit", "memory", "1kB"]).done();
    assert!(set.starts_with("vm_memory_high_watermark.absolute is 1kB until the broker stops"), "{set}");
    wait_for("mem_alarm", json!(true));
    assert_eq!(broker.get("/api/nodes").1[0]["mem_limit"], 1000);
    assert_eq!(alarms(), 1);
    let status = broker.verb(&["status"]).done();
    assert!(status.contains("used, publishers are stopped above 1 kB\n"), "{status}");
    // A part of the memory replaces the size of the file.
    broker.verb(&["set", "limit", "memory", "1.0"]).done();
    wait_for("mem_alarm", json!(false));
    assert_ne!(broker.get("/api/nodes").1[0]["mem_limit"], json!(8_000_000_000_u64));
    assert_eq!(
        setting(&broker, "vm_memory_high_watermark.absolute"),
        row("vm_memory_high_watermark.absolute", "none", "at run time")
    );
    // SIGHUP reads the file, and what was set at run time stays.
    hang_up(&broker, &directory, "these settings were set at run time and stay in use: ");
    assert_eq!(setting(&broker, "vm_memory_high_watermark.relative")["value"], "1.0");
    assert_ne!(broker.get("/api/nodes").1[0]["mem_limit"], json!(8_000_000_000_u64));
    assert_eq!(
        broker.verb(&["clear", "limit", "memory"]).done(),
        "vm_memory_high_watermark.absolute is as in the configuration again"
    );
    wait_for("mem_limit", json!(8_000_000_000_u64));

    broker.verb(&["set", "limit", "disk", "8000TB"]).done();
    wait_for("disk_free_alarm", json!(true));
    assert_eq!(broker.get("/api/nodes").1[0]["disk_free_limit"], json!(8_000_000_000_000_000_u64));
    broker.verb(&["set", "limit", "disk", "10MB"]).done();
    wait_for("disk_free_alarm", json!(false));
    assert_eq!(broker.get("/api/nodes").1[0]["disk_free_limit"], 10_000_000);

    broker.verb(&["set", "limit", "memory", "1"]).refused(2, &["'1' is ambiguous", "1.0"]);
    broker.verb(&["set", "limit", "memory", "1.5"]).refused(1, &["vm_memory_high_watermark.relative"]);
    broker.verb(&["set", "limit", "disk", "5much"]).refused(1, &["disk_free_limit.absolute", "5much"]);
    broker.verb(&["set", "limit", "max-queues", "5MB"]).refused(2, &["max-queues", "a whole number"]);
    broker.verb(&["clear", "limit", "memory"]).refused(1, &["was not set at run time"]);
    // The default virtual host is one, too.
    for words in [
        &["set", "limit", "memory", "0.5", "-p", "v"][..],
        &["set", "limit", "memory", "0.5", "--vhost", "/"],
        &["clear", "limit", "disk", "-p", "/"],
        &["clear", "limit", "disk", "--user", "u"],
    ] {
        broker.verb(words).refused(2, &["is a limit of the node"]);
    }
    assert!(broker.terminate().success());
}

#[test]
fn only_administrators_change_settings_and_only_those_that_can_change() {
    let directory = Directory::new("run_time");
    let broker = Starting::spawn(&directory, &["password_hashing=sha256"]).finish();
    let user = r#"{"password":"p","tags":"monitoring,policymaker"}"#;
    assert_eq!(broker.ask("PUT", "/api/users/mona", user).0, 201);
    let path = "/api/config/effective/log.level";
    let body = r#"{"value":"debug"}"#;
    for method in ["PUT", "DELETE"] {
        assert_eq!(ask_as(broker.http_port, &basic("mona", "p"), method, path, body).0, 401);
    }
    assert_eq!(setting(&broker, "log.level")["value"], "info");
    assert_eq!(broker.ask("PUT", path, body).0, 204);
    let wrong = |key: &str, value: &str| {
        let body = json!({ "value": value }).to_string();
        let (status, answer) = broker.ask("PUT", &format!("/api/config/effective/{key}"), &body);
        (status, answer["detail"].as_str().or(answer["reason"].as_str()).unwrap().to_owned())
    };
    assert_eq!(wrong("frame_max", "8192"), (400, "'frame_max' needs a restart".to_owned()));
    assert_eq!(wrong("default_pass", "x").0, 400);
    assert_eq!(wrong("no.such", "x"), (404, "there is no setting 'no.such'".to_owned()));
    assert_eq!(wrong("log.level", &"x".repeat(1025)), (400, "'value' is longer than 1024 bytes".to_owned()));
    assert_eq!(broker.ask("PUT", path, "{}").0, 400);
    assert_eq!(broker.ask("PUT", path, r#"{"value":7}"#).0, 400);
    assert_eq!(setting(&broker, "log.level")["value"], "debug");
    // Other settings that can change have no verb of their own.
    assert_eq!(broker.ask("PUT", "/api/config/effective/max_connections", r#"{"value":"0"}"#).0, 204);
    assert_eq!(broker.verb(&["send", "q", "m"]).code, 1);
    assert_eq!(broker.ask("DELETE", "/api/config/effective/max_connections", "").0, 204);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["send", "q", "m"]).done();
    assert!(broker.terminate().success());
}
