//! What an operator sees of the built broker: its log, its links, and the errors for wrong settings and
//! addresses.

use crate::broker;

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::verb::{finish, sluice};
use broker::{Broker, Directory, Starting, serve};
use client::{Connection, Credit, Options, ReceiverOptions, SenderOptions};
use serde_json::{Value, json};

#[test]
fn the_log_begins_with_version_paths_and_limits() {
    let directory = Directory::new("operator");
    let file = directory.path().join("rabbitmq.conf");
    std::fs::write(&file, "heartbeat = 7\nlog.syslog = true\nheartbeat = 8\n").unwrap();
    let broker = Starting::spawn_with(&directory, &["--config", file.to_str().unwrap()]).finish();
    let (amqp, http) = (broker.amqp_port, broker.http_port);
    assert!(broker.terminate().success());
    let log = directory.logged();
    let place = |needle: &str| {
        let found = log.lines().position(|line| line.contains(needle));
        found.unwrap_or_else(|| panic!("{needle} is not in {log}"))
    };
    let data = directory.path().join("data");
    let first = [
        place(&format!("sluice {} starts", env!("CARGO_PKG_VERSION"))),
        place(&format!("data directory: {}", data.display())),
        place(&format!("configuration file: {}", file.display())),
        place(&format!("listeners: amqp://guest@127.0.0.1:{amqp}  http://127.0.0.1:{http}/api")),
        place("limits in bytes"),
        place("node: sluice@localhost"),
        place("event loops: "),
        place("file descriptors"),
    ];
    assert_eq!(first, [0, 1, 2, 3, 4, 5, 6, 7], "{log}");
    assert_eq!(log.matches("file descriptors").count(), 1, "{log}");
    assert!(log.lines().nth(7).unwrap().contains("INFO"), "{log}");
    let warning = |needle: &str| log.lines().any(|line| line.contains("WARN") && line.contains(needle));
    assert!(
        warning("log.syslog (line 2)") && warning("rabbitmq.conf:3: 'heartbeat' is already set on line 1"),
        "{log}"
    );
}

#[test]
fn the_log_goes_to_a_file_with_json_lines_and_without_some_levels() {
    let directory = Directory::new("operator");
    let sets = [
        "log.console=false",
        "log.file=a.log",
        "log.file.formatter=json",
        "log.user.level=none",
        "log.connection.level=warning",
    ];
    let broker = Starting::spawn(&directory, &sets).finish();
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["recv", "none"]).refused(1, &["not-found"]);
    let logs = directory.path().join("data/logs");
    std::fs::rename(logs.join("a.log"), logs.join("moved")).unwrap();
    broker.hang_up();
    let reopened =
        || std::fs::read_to_string(logs.join("a.log")).is_ok_and(|log| log.contains("opened again"));
    while !reopened() {
        std::thread::yield_now();
    }
    assert!(broker.terminate().success());
    assert_eq!(directory.logged(), "");
    let read = |name: &str| -> Vec<Value> {
        let log = std::fs::read_to_string(logs.join(name)).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (moved, last) = (read("moved"), read("a.log"));
    let is =
        |line: &Value, message: &str| line["message"].as_str().is_some_and(|text| text.contains(message));
    assert!(moved.iter().any(|line| is(line, "starts") && line["level"] == "INFO"), "{moved:?}");
    assert!(moved.iter().any(|line| line["backlog"] == 67_108_864), "fields are fields: {moved:?}");
    // Connections have closed and a login was allowed, and both are below these levels.
    let silent = |line: &Value| line["target"] != "connection" && line["target"] != "user";
    assert!(moved.iter().chain(&last).all(silent), "{moved:?}");
    assert!(last.iter().any(|line| is(line, "stopped")), "{last:?}");

    let refused = finish(serve(&directory.path().join("other")).args(["--set", "log.file=/dev/null/a"]), b"");
    refused.refused(1, &["log.file: /dev/null/a:"]);
}

#[test]
fn a_hangup_does_not_end_the_broker() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    broker.hang_up();
    assert_eq!(broker.list("queues"), json!([]));
    assert!(broker.terminate().success());
}

/// systemd says by a variable that standard error is a stream of its journal.
#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    let directory = Directory::new("operator");
    let stderr = std::fs::File::create(directory.path().join("stderr")).unwrap();
    let stat = stderr.metadata().unwrap();
    let mut command = serve(&directory.path().join("data"));
    command.env("JOURNAL_STREAM", format!("{}:{}", stat.dev(), stat.ino()));
    let file = directory.path().join("sluice.conf");
    std::fs::write(&file, "heartbeat = 7\nheartbeat = 8\n").unwrap();
    command.arg("--config").arg(file);
    let mut broker = command.stdout(std::process::Stdio::piped()).stderr(stderr).spawn().unwrap();
    let printed = std::io::BufReader::new(broker.stdout.take().unwrap());
    assert!(printed.lines().any(|line| line.unwrap() == "Server startup complete"));
    broker.kill().unwrap();
    broker.wait().unwrap();
    let log = directory.logged();
    assert!(
        log.starts_with(&format!("<6>sluice::serve: sluice {} starts\n", env!("CARGO_PKG_VERSION"))),
        "{log}"
    );
    assert!(log.contains("\n<4>"), "a warning: {log}");
}

#[tokio::test]
async fn a_broker_that_is_stopped_forces_its_connections_to_close() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/exchanges/amq.fanout"), SenderOptions::default()).await.unwrap();
    assert!(broker.terminate().success());
    let error = sender.send(bytes::Bytes::from_static(b"\x00\x53\x77\x40")).await.unwrap_err();
    assert_eq!(error.condition(), Some("amqp:connection:forced"), "{error:?}");
}

#[test]
fn clients_cannot_flood_the_log() {
    const CONNECTIONS: usize = 200;
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    for _ in 0..CONNECTIONS {
        let mut socket = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
        socket.write_all(b"GET / HT").unwrap();
        // At the end of the stream, the broker has closed the connection.
        socket.read_to_end(&mut Vec::new()).unwrap();
    }
    assert!(broker.terminate().success());
    let log = directory.logged();
    let (mut lines, mut counted) = (0, 0);
    for line in log.lines().filter(|line| line.contains("connection gone")) {
        match line.split_once(" more lines like: ") {
            Some((before, _)) => counted += before.rsplit(' ').next().unwrap().parse::<usize>().unwrap(),
            None => lines += 1,
        }
    }
    assert_eq!(lines + counted, CONNECTIONS, "{log}");
    // Ten lines are written per period. A slow machine may take several periods of ten seconds.
    assert!(lines < CONNECTIONS / 4, "{log}");
}

#[tokio::test]
async fn links_are_listed_and_can_be_explained() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q", "--vhost", "/"]).done();
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let named = |name: &str| Some(name.to_owned());
    let options = SenderOptions { name: named("out"), ..SenderOptions::default() };
    let sender = session.sender(Some("/queues/q"), options).await.unwrap();
    for _ in 0..3 {
        sender.send(bytes::Bytes::from_static(b"\x00\x53\x77\x40")).await.unwrap();
    }
    let options = ReceiverOptions { name: named("in"), credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/q"), options).await.unwrap();
    receiver.flow(2, false, false);
    let _held = [receiver.recv().await.unwrap(), receiver.recv().await.unwrap()];

    let row = &broker.list("connections")[0];
    assert_eq!((&row["auth_mechanism"], &row["channels"]), (&json!("PLAIN"), &json!(1)));
    let links = &row["sessions"][0];
    assert_eq!(links["incoming_links"][0]["link_name"], "out");
    assert_eq!(links["outgoing_links"][0]["source_address"], "/queues/q");

    let rows = broker.list("links");
    let shown = |at: usize| {
        let fields = ["link_name", "direction", "address", "unsettled", "connection"];
        fields.map(|field| rows[at][field].clone())
    };
    let name = row["name"].clone();
    assert_eq!(shown(0), [json!("out"), json!("in"), json!("/queues/q"), json!(0), name.clone()]);
    assert_eq!(shown(1), [json!("in"), json!("out"), json!("/queues/q"), json!(2), name]);
    assert!(rows[0]["credit"].as_u64() > Some(0), "{rows}");
    let table = broker.verb(&["list", "links"]).done();
    assert!(table.starts_with("NAME  CONNECTION ") && table.lines().count() == 3, "{table}");
    let explained = broker.verb(&["explain", "link", rows[1]["link_name"].as_str().unwrap()]).done();
    assert!(explained.contains("link_unsettled"), "{explained}");
    broker.verb(&["list", "links", "--vhost", "other"]).refused(1, &["list links", "no vhost 'other'"]);
}

#[test]
fn every_verb_that_takes_a_name_takes_its_virtual_host() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q", "-p", "/"]).done();
    assert_eq!(broker.verb(&["send", "q", "x", "-p", "/"]).done(), "1 message sent to /queues/q: accepted");
    assert_eq!(broker.verb(&["recv", "q", "--vhost", "/", "--count", "1"]).done(), "x");
    for words in [
        &["declare", "queue", "q", "-p", "other"][..],
        &["declare", "exchange", "x", "-p", "other"],
        &["declare", "binding", "amq.fanout", "q", "-p", "other"],
        &["delete", "queue", "q", "--vhost", "other"],
        &["delete", "exchange", "x", "--vhost", "other"],
        &["delete", "binding", "amq.fanout", "q", "--vhost", "other"],
        &["send", "q", "x", "-p", "other"],
        &["recv", "q", "-p", "other"],
        &["list", "queues", "-p", "other"],
        &["explain", "queue", "q", "-p", "other"],
        &["peek", "q", "-p", "other"],
        &["publish", "amq.default", "m", "--key", "q", "-p", "other"],
        &["get", "q", "-p", "other"],
        &["list", "members", "q", "-p", "other"],
    ] {
        broker.verb(words).refused(1, &["vhost", "'other'"]);
    }
    broker.verb(&["delete", "queue", "q", "-p", "/"]).done();
}

#[test]
fn the_name_of_the_node_is_shown() {
    let directory = Directory::new("named");
    let broker = Starting::spawn(&directory, &["node.name=rabbit@shop"]).finish();
    assert_eq!(broker.get("/api/overview").1["node"], "rabbit@shop");
    assert_eq!(broker.get("/api/nodes/rabbit@shop").1["name"], "rabbit@shop");
    broker.verb(&["declare", "queue", "q"]).done();
    assert_eq!(broker.get("/api/queues/%2F/q").1["node"], "rabbit@shop");
    assert!(broker.verb(&["status"]).done().contains("rabbit@shop"));
    let logged = directory.logged();
    assert!(logged.contains("node: rabbit@shop"), "{logged}");
}

/// A misspelt argument has no effect, so somebody must be told.
#[test]
fn unknown_arguments_are_in_the_log() {
    let directory = Directory::new("unknown");
    let broker = Broker::start(&directory);
    let declared = r#"{"arguments": {"x-max-lenght": 5, "note": 1}}"#;
    assert_eq!(broker.ask("PUT", "/api/queues/%2F/q", declared).0, 201);
    assert_eq!(broker.ask("PUT", "/api/queues/%2F/q", "{}").0, 204);
    assert_eq!(broker.get("/api/queues/%2F/q").1["arguments"], json!({ "note": 1, "x-max-lenght": 5 }));
    let shown = broker.get("/api/queues/%2F/q").1["unknown_arguments"].clone();
    assert_eq!(shown, json!({ "x-max-lenght": "x-max-length" }));
    let logged = directory.logged();
    let warning = "argument 'x-max-lenght' of queue 'q' in vhost '/' is unknown and has no effect; \
                   did you mean 'x-max-length'?";
    assert_eq!(logged.matches(warning).count(), 1, "{logged}");
    assert!(!logged.contains("'note'"), "{logged}");
    let policy = r#"{"pattern": "q", "definition": {"max-lenght": 5}}"#;
    let (status, refused) = broker.ask("PUT", "/api/policies/%2F/p", policy);
    assert_eq!(status, 400, "{refused}");
    assert!(refused["reason"].as_str().unwrap().ends_with("did you mean 'max-length'?"), "{refused}");
}

/// Nor has a parameter that nothing reads, whether it is new or not.
#[test]
fn parameters_without_effect_are_in_the_log() {
    let directory = Directory::new("parameters");
    let broker = Broker::start(&directory);
    for (value, status) in [(1, 201), (2, 204)] {
        let body = json!({ "value": value }).to_string();
        assert_eq!(broker.ask("PUT", "/api/parameters/mine/%2F/p", &body).0, status);
    }
    let logged = directory.logged();
    let warning = "parameter 'p' of component 'mine' in vhost '/' is kept, but has no effect";
    assert_eq!(logged.matches(warning).count(), 2, "{logged}");
}

#[test]
fn quorum_queues_are_maintained() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    let node = "sluice@localhost";
    broker.verb(&["declare", "queue", "c"]).done();
    broker.verb(&["declare", "queue", "q", "--type", "quorum"]).done();
    broker.verb(&["list", "members", "c"]).refused(1, &["queue 'c'", "only quorum queues have a Raft group"]);
    assert!(broker.verb(&["list", "members", "q"]).done().contains("not_started"));
    assert_eq!(broker.verb(&["checkpoint", "queue", "q"]).done(), "the log has a new base at index 1");
    broker.verb(&["peek", "q"]).refused(1, &["queue 'q'", "no ready message at position 1"]);

    broker.verb(&["send", "q", "x"]).done();
    broker.verb(&["send", "q", "y", "--subject", "s"]).done();
    let status: Value =
        serde_json::from_str(&broker.verb(&["list", "members", "q", "--json"]).done()).unwrap();
    let fields = ["Node Name", "Raft State", "Membership", "Snapshot Index", "Log Entries"];
    let shown = fields.map(|field| status[0][field].clone());
    assert_eq!(shown, [json!(node), json!("leader"), json!("voter"), json!(1), json!(3)]);
    let last = status[0]["Last Log Index"].as_u64().unwrap();
    assert_eq!(
        broker.verb(&["checkpoint", "queue", "q"]).done(),
        format!("the log has a new base at index {last}")
    );
    let table = broker.verb(&["list", "members", "q"]).done();
    assert!(table.starts_with("NODE ") && table.lines().count() == 2 && table.contains("leader"), "{table}");
    assert_eq!(broker.verb(&["reclaim", "memory", "q"]).done(), "there was nothing to reclaim");

    let second: Value = serde_json::from_str(&broker.verb(&["peek", "q", "2", "--json"]).done()).unwrap();
    assert_eq!((&second["payload"], &second["properties"]["subject"]), (&json!("y"), &json!("s")));
    assert!(broker.verb(&["peek", "q"]).done().ends_with("payload                   x"));
    broker.verb(&["peek", "q", "3"]).refused(1, &["no ready message at position 3"]);
    broker.verb(&["peek", "q", "0"]).refused(1, &["position '0' is not a number from 1 on"]);

    for words in [
        &["add", "member", "q", node][..],
        &["delete", "member", "q", "other"],
        &["transfer", "leadership", "q", node],
        &["grow", "groups", node],
        &["shrink", "groups", "other"],
        &["rebalance", "leaders"],
    ] {
        assert_eq!(broker.verb(words).done(), "done", "{words:?}");
    }
    for (words, why) in [
        (&["add", "member", "q", "other"][..], "no node 'other' for another member"),
        (&["delete", "member", "q", node], "is the only one and cannot be removed"),
        (&["transfer", "leadership", "q", "other"], "no member on node 'other'"),
        (&["grow", "groups", "other"], "no node 'other'"),
        (&["shrink", "groups", node], "is the only node"),
        (&["add", "member", "c", node], "only quorum queues have a Raft group"),
    ] {
        broker.verb(words).refused(1, &[why]);
    }
    assert_eq!(broker.verb(&["recv", "q", "--count", "2"]).done(), "x\ny");

    // After a start, a group sleeps until a client needs its queue. It is healthy.
    assert!(broker.terminate().success());
    let broker = Broker::start(&directory);
    let status = broker.get("/api/queues/quorum/%2F/q/status").1;
    assert_eq!(status[0]["Raft State"], "not_started", "{status}");
    broker.verb(&["check", "leaders"]).done();
    let path = "/api/health/checks/quorum-queues-without-elected-leaders/vhost/%2F";
    assert_eq!(broker.get(path), (200, json!({ "status": "ok" })));
}

#[test]
fn an_error_at_the_wrong_port_names_the_right_one() {
    let directory = Directory::new("operator");
    let broker = Starting::spawn(&directory, &["prometheus.tcp.port=0"]).finish();
    let amqp_at_http = format!("amqp://127.0.0.1:{}", broker.http_port);
    let http_at_amqp = format!("http://127.0.0.1:{}", broker.amqp_port);
    sluice(&["send", "q", "x", "--url", &amqp_at_http])
        .refused(1, &["this port speaks HTTP", "listeners.tcp.default", "5672"]);
    sluice(&["list", "queues", "--url", &http_at_amqp])
        .refused(1, &["this port speaks AMQP", "management.tcp.port", "15672"]);
    let log = directory.logged();
    let metrics =
        log.lines().find_map(|line| line.rsplit("http://").next()?.strip_suffix("/metrics")).unwrap();
    sluice(&["list", "queues", "--url", &format!("http://{metrics}")])
        .refused(1, &["not the management API", "management.tcp.port"]);
}

#[test]
fn an_error_at_start_names_the_setting() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    let other = directory.path().join("other");
    // Any of the keys of a kind of listener may have set an address of it.
    for (setting, named, port) in [
        ("listeners.tcp.default", "listeners.tcp.NAME", broker.amqp_port),
        ("management.tcp.port", "management.tcp.port", broker.http_port),
        ("prometheus.tcp.port", "prometheus.tcp.port", broker.http_port),
    ] {
        let set = format!("{setting}={port}");
        let refused = finish(serve(&other).args(["--set", &set]), b"");
        refused.refused(1, &[&format!("127.0.0.1:{port}"), named]);
    }
    // Not even root can make a directory below a file.
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("data");
    let refused = finish(&mut serve(&below), b"");
    assert_eq!(refused.code, 1);
    let line = refused.err.lines().last().unwrap();
    assert!(line.starts_with("sluice: ") && line.contains(&below.display().to_string()), "{line}");
    assert!(line.contains("--data-dir"), "{line}");
}

#[test]
fn a_first_user_whom_everybody_knows_is_warned_of() {
    let directory = Directory::new("operator");
    let run = |sets: &[&str]| {
        let mut command = serve(&directory.path().join("data"));
        for set in sets {
            command.args(["--set", set]);
        }
        let log = std::fs::File::create(directory.path().join("stderr")).unwrap();
        let mut child = command.stdout(std::process::Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "Server startup complete"));
        child.kill().unwrap();
        child.wait().unwrap();
        let logged = directory.logged();
        let said = logged.split("with the default password 'guest'").nth(1).expect("each start says it");
        let said = said.lines().next().unwrap_or_default().to_owned();
        (said, logged.contains("other machines can log in as user 'guest' with the password 'guest'"))
    };
    let open = "listeners.tcp.default=0.0.0.0:0";
    let (said, warned) = run(&[open, "loopback_users=none"]);
    assert!(said.starts_with(", from every machine that reaches 0.0.0.0:") && warned, "{said}");
    let here = (", from this machine only".to_owned(), false);
    assert_eq!(run(&[open]), here, "only this machine can log in");
    assert_eq!(run(&["loopback_users=none"]), here, "only this machine can connect");
}

#[test]
fn new_virtual_hosts_get_what_the_configuration_says() {
    let directory = Directory::new("operator");
    let sets = [
        "default_limits.vhosts.1.pattern=^team",
        "default_limits.vhosts.1.max_queues=7",
        "default_users.probe.vhost_pattern=^team",
        "default_users.probe.password=known",
        "default_users.probe.tags=management",
        "default_users.probe.write=",
        "default_policies.operator.short.vhost_pattern=^team",
        "default_policies.operator.short.max_length=5",
    ];
    let broker = Starting::spawn(&directory, &sets).finish();
    let probe = |broker: &Broker, words: &[&str]| {
        let url = broker.http_url().replace("guest:guest@", "probe:known@");
        broker.verb(&[words, &["--url", &url]].concat())
    };
    probe(&broker, &["list", "queues"]).refused(1, &["the login of user 'probe' is refused"]);
    broker.verb(&["add", "vhost", "team-a"]).done();
    broker.verb(&["add", "vhost", "other"]).done();
    let limits = broker.verb(&["list", "limits"]).done();
    assert!(limits.contains("team-a  -     max-queues=7") && !limits.contains("other"), "{limits}");
    let shown = broker.verb(&["list", "permissions", "--user", "probe"]).done();
    assert_eq!(shown, "USER   VHOST   CONFIGURE  WRITE  READ\nprobe  team-a  .*         \"\"     .*");
    let policies = broker.verb(&["list", "policies", "--operator", "-p", "team-a"]).done();
    assert!(policies.ends_with("short  team-a  .*       all              0  max-length=5"), "{policies}");
    assert!(!broker.verb(&["list", "policies", "--operator", "-p", "other"]).done().contains("short"));
    // They are the virtual host's own: another configuration does not change them.
    assert!(broker.terminate().success());
    let broker = Broker::start(&directory);
    probe(&broker, &["declare", "queue", "q", "-p", "team-a"]).done();
    assert!(broker.verb(&["list", "limits"]).done().contains("max-queues=7"));
}

#[test]
fn users_are_managed_in_a_shell() {
    let directory = Directory::new("operator");
    let broker = Broker::start(&directory);
    let verb = |words: &str| broker.verb(&words.split(' ').collect::<Vec<_>>());
    let with_password = |words: &str, password: &str| {
        broker.verb_with_input(&words.split(' ').collect::<Vec<_>>(), password.as_bytes())
    };
    assert_eq!(verb("add vhost team").done(), "vhost 'team' is added");
    assert_eq!(verb("add vhost team").done(), "vhost 'team' existed already");
    assert_eq!(
        with_password("add user anna --tags management", "se cret\n").done(),
        "user 'anna' is created"
    );
    with_password("add user anna", "other\n").refused(1, &["user 'anna'", "exists already"]);
    with_password("add user bob", "\n").refused(2, &["standard input", "the password is empty"]);
    verb("add user bob --password-file /absent").refused(2, &["/absent"]);
    verb("add user bob --no-password").done();
    let hash = with_password("hash password", "se cret\n").done();
    let hash = String::from_utf8(STANDARD.decode(hash).unwrap()).unwrap();
    assert!(hash.starts_with("$argon2id$"), "{hash}");

    let anna = |words: &str| {
        let url = broker.http_url().replace("guest:guest@", "anna:se%20cret@");
        broker.verb(&[&words.split(' ').collect::<Vec<_>>()[..], &["--url", &url]].concat())
    };
    anna("list queues -p team").refused(1, &["no vhost 'team'"]);
    let set = ["set", "permission", "anna", "^anna\\.", "", ".*", "-p", "team"];
    assert_eq!(broker.verb(&set).done(), "the permissions are set");
    anna("declare queue anna.q -p team").done();
    anna("declare queue q -p team").refused(1, &["configure access to queue 'q' in vhost 'team' refused"]);
    broker
        .verb(&["set", "permission", "anna", "(", "", "", "-p", "team"])
        .refused(1, &["configure: the pattern"]);
    verb("set topic-permission anna amq.topic ^{username} .* -p team").done();
    let topics = verb("list topic-permissions -p team").done();
    assert!(topics.ends_with("anna  team   amq.topic  ^{username}  .*"), "{topics}");
    assert_eq!(verb("list topic-permissions --user anna").done(), topics);
    assert_eq!(verb("list topic-permissions").done(), topics);
    assert_eq!(verb("list topic-permissions --user anna -p /").done().lines().count(), 1);
    verb("clear topic-permission anna amq.topic -p team").done();
    let shown = verb("list permissions -p team").done();
    let expected = "\
USER   VHOST  CONFIGURE  WRITE  READ
anna   team   ^anna\\.    \"\"     .*
guest  team   .*         .*     .*";
    assert_eq!(shown, expected, "guest has added the virtual host");
    let shown = verb("list permissions --user anna").done();
    assert_eq!(shown, "USER  VHOST  CONFIGURE  WRITE  READ\nanna  team   ^anna\\.    \"\"     .*");

    assert_eq!(verb("list permissions --user anna -p /").done().lines().count(), 1);
    let everywhere = verb("list permissions").done();
    assert!(everywhere.contains("\nguest  /") && everywhere.contains("\nanna   team"), "{everywhere}");

    // A change of the tags keeps the password, and a change of the password keeps the tags.
    verb("set tags anna monitoring management").done();
    anna("list queues -p team").done();
    with_password("set password anna", "new\n").done();
    anna("list queues -p team").refused(1, &["the login of user 'anna' is refused"]);
    let users: Value = serde_json::from_str(&verb("list users --json").done()).unwrap();
    let tags: Vec<&Value> = users.as_array().unwrap().iter().map(|user| &user["tags"]).collect();
    assert_eq!(tags, [&json!(["monitoring", "management"]), &json!([]), &json!(["administrator"])]);
    let table = verb("list users").done();
    assert!(table.contains("anna   monitoring,management  argon2id"), "{table}");

    verb("clear permission anna -p team").done();
    verb("delete user anna bob").done();
    verb("delete user anna").refused(1, &["no user 'anna'"]);
    verb("clear permission guest -p team").done();
    verb("delete queue anna.q -p team").refused(1, &["in vhost 'team' refused for user 'guest'"]);
    verb("set permission guest .* .* .* -p team").done();
    verb("delete queue anna.q -p team").done();
    verb("declare queue q -p team").done();
    verb("add vhost team --tags a,b --default-queue-type quorum").done();
    assert_eq!(verb("set limit max-queues 1 -p team").done(), "max-queues of vhost 'team' is 1");
    verb("set limit max-channels 7 --user guest").done();
    verb("set limit max-cats 7 --user guest")
        .refused(1, &["user 'guest'", "'max-cats' is not a limit of a user"]);
    verb("declare queue r -p team").refused(1, &["queue limit in vhost 'team' (1) is reached"]);
    let limits = verb("list limits").done();
    assert_eq!(limits, "VHOST  USER   LIMITS\nteam   -      max-queues=1\n-      guest  max-channels=7");
    let of_guest = verb("list limits --user guest --json").done();
    let of_guest: Value = serde_json::from_str(&of_guest).unwrap();
    assert_eq!(of_guest, json!([{ "user": "guest", "value": { "max-channels": 7 } }]));
    let of_team = verb("list limits -p team").done();
    assert_eq!(of_team, "VHOST  USER  LIMITS\nteam   -     max-queues=1");
    verb("clear limit max-channels --user guest").done();
    verb("protect vhost team").done();
    verb("delete vhost team").refused(1, &["vhost 'team' is protected from deletion"]);
    let vhosts = verb("list vhosts").done();
    let expected = "\
NAME  DEFAULT TYPE  PROTECTED  LIMITS        TAGS  DESCRIPTION
/     classic       no         -             -     \"\"
team  quorum        yes        max-queues=1  a,b   \"\"";
    assert_eq!(vhosts, expected);
    verb("unprotect vhost team").done();
    verb("delete vhost team").done();
    assert_eq!(verb("list vhosts").done().lines().count(), 2);
}

/// systemd names a socket by a variable, and how often the broker must tell it that it lives.
#[test]
fn systemd_is_told_what_the_broker_does() {
    let directory = Directory::new("operator");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    // A test that hangs says nothing.
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "20000")];
    let broker = Starting::spawn_in(&directory, &environment).finish();
    let wait_for = |state: &str| loop {
        let mut told = [0; 256];
        let length = socket.recv(&mut told).unwrap_or_else(|error| panic!("no {state}: {error}"));
        let told = String::from_utf8(told[..length].to_vec()).unwrap();
        if told.lines().any(|line| line == state) {
            return told;
        }
    };
    wait_for("READY=1");
    wait_for("WATCHDOG=1");
    wait_for("WATCHDOG=1");
    broker.hang_up();
    assert!(wait_for("RELOADING=1").contains("MONOTONIC_USEC="));
    wait_for("READY=1");
    let stopped = std::thread::spawn(|| broker.terminate().success());
    wait_for("STOPPING=1");
    assert!(stopped.join().unwrap());
}
