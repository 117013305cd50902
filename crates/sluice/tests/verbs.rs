//! Runs every operator verb against the built broker: checks the output and the exit code.

use crate::broker;

use std::net::TcpListener;
use std::process::{Command, Stdio};

use amqp10::DeliveryState;
use broker::verb::{Did, finish, sluice};
use broker::{Broker, Directory, PROGRAM, Starting, serve};
use client::{Checksum, Connection, Message, Options, SenderOptions};
use serde_json::{Value, json};

#[test]
fn a_message_goes_through_an_exchange() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let queue =
        "declare queue orders --type classic --argument x-max-length=5 --argument x-overflow=reject-publish";
    let queue: Vec<&str> = queue.split(' ').collect();
    assert_eq!(broker.verb(&queue).done(), "queue 'orders' is declared");
    assert_eq!(broker.verb(&queue).done(), "queue 'orders' already exists");
    broker.verb(&["declare", "queue", "orders"]).refused(1, &["queue 'orders'", "127.0.0.1", "x-max-length"]);
    broker.verb(&["declare", "exchanges", "shop", "--type", "topic"]).done();
    broker.verb(&["declare", "exchange", "front"]).done();
    broker.verb(&["declare", "binding", "shop", "orders", "--key", "new.*"]).done();
    broker.verb(&["declare", "binding", "front", "shop", "--key", "new.a/b", "--to-exchange"]).done();

    let sent =
        broker.verb(&["send", "/exchanges/front/new.a%2Fb", "hello", "--property", "k=v", "--subject", "s"]);
    assert_eq!(sent.done(), "1 message sent to /exchanges/front/new.a%2Fb: accepted");
    broker
        .verb(&["send", "/exchanges/shop/old.x", "hello"])
        .refused(1, &["/exchanges/shop/old.x", "released"]);

    let row = &broker.list("queues")[0];
    assert_eq!((&row["name"], &row["messages"]), (&json!("orders"), &json!(1)));
    let message: Value =
        serde_json::from_str(&broker.verb(&["recv", "orders", "--json", "--count", "1"]).done()).unwrap();
    assert_eq!(message["body"], "hello");
    assert_eq!(message["body_type"], "text");
    assert_eq!(message["header"]["durable"], true);
    assert_eq!(message["properties"], json!({"subject": "s"}));
    assert_eq!(message["application_properties"], json!({"k": "v"}));
    assert_eq!(message["message_annotations"]["x-exchange"], "front");
    assert_eq!(message["message_annotations"]["x-routing-key"], "new.a/b");
    broker.verb(&["recv", "orders", "--timeout", "1"]).refused(1, &["/queues/orders", "nothing"]);

    let full = broker.verb(&["send", "orders", "x", "--count", "7"]);
    full.refused(1, &["7 messages", "2 rejected", "5 accepted", "resource-limit-exceeded", "queue 'orders'"]);

    broker.verb(&["delete", "binding", "front", "shop", "--key", "new.a/b", "--to-exchange"]).done();
    broker.verb(&["delete", "binding", "front", "shop", "--to-exchange"]).refused(1, &["no such binding"]);
    broker.verb(&["delete", "exchange", "front"]).done();
    broker.verb(&["delete", "queue", "orders", "--if-empty"]).refused(1, &["queue 'orders'"]);
    broker.verb(&["delete", "queues", "orders"]).done();
    broker.verb(&["delete", "queue", "orders"]).refused(1, &["no queue 'orders'"]);
    assert_eq!(broker.list("queues"), json!([]));
    assert!(broker.terminate().success());
}

/// A script that builds an image enables plugins where no broker runs.
#[test]
fn plugins_of_rabbitmq_are_built_in_or_do_not_exist() {
    let enable = |names: &[&str]| sluice(&[&["enable", "plugin"], names].concat());
    let built_in = "no effect: rabbitmq_management is always on (The HTTP API and the page)";
    assert_eq!(enable(&["rabbitmq_management"]).done(), built_in);
    let events = enable(&["rabbitmq_event_exchange"]).done();
    assert!(events.ends_with("it is used with 'event_exchange.enabled = true'"), "{events}");

    let some = enable(&["rabbitmq_mqtt", "rabbitmq_management", "rabbitmq_shovel"]);
    assert_eq!(some.out.trim_end(), built_in);
    some.refused(1, &["cannot enable", "'rabbitmq_mqtt': there is no MQTT", "'rabbitmq_shovel': "]);
    let meant = "did you mean 'rabbitmq_management'?";
    let unknown = enable(&["rabbitmq_prometheus", "rabbitmq_managment"]);
    assert_eq!(unknown.out, "");
    unknown.refused(2, &["there is no plugin 'rabbitmq_managment'", meant]);

    let disable = |name: &str| sluice(&["disable", "plugin", name]);
    assert_eq!(disable("rabbitmq_management").done(), built_in);
    let missing = "no effect: rabbitmq_mqtt does not exist here; there is no MQTT";
    assert_eq!(disable("rabbitmq_mqtt").done(), missing);
    disable("management").refused(2, &["there is no plugin 'management'", meant]);
}

#[test]
fn any_name_and_any_body_work() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let name = "a b/ä%2F";
    broker.verb(&["declare", "queue", name]).done();
    let sent = broker.verb_with_input(&["send", name], b"\xff\x00line\n").done();
    assert_eq!(sent, "1 message sent to /queues/a%20b%2F%C3%A4%252F: accepted");
    broker.verb_with_input(&["send", name, "-", "--durable", "false", "--ttl", "60000"], b"text").done();
    let file = directory.path().join("body");
    std::fs::write(&file, "from a file").unwrap();
    let sent = broker.verb(&["send", name, "--file", file.to_str().unwrap(), "--count", "2", "--settled"]);
    assert!(sent.done().ends_with(": settled"));

    let came = broker.verb(&["recv", "/queues/a%20b%2F%C3%A4%252F", "--json", "--count", "2"]).done();
    let came: Vec<Value> = came.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&came[0]["body"], &came[0]["body_type"]), (&json!("/wBsaW5lCg=="), &json!("base64")));
    assert_eq!(came[1]["body"], "text");
    assert_eq!(came[1]["header"]["durable"], false);
    // Without --count, everything in the queue is printed, whatever the credit.
    let came = broker.verb(&["recv", name, "--credit", "1", "--timeout", "1"]).done();
    assert_eq!(came, "from a file\nfrom a file");
    broker.verb(&["recv", name, "--count", "1", "--timeout", "1"]).refused(1, &["0 of 1"]);
}

#[test]
fn messages_are_published_and_taken_over_http() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["declare", "exchange", "x"]).done();
    broker.verb(&["declare", "binding", "x", "q", "--key", "k"]).done();
    let properties = ["--property", "content_type=text/plain", "--header", "n=7", "--header", "s=a b"];
    let sent = broker.verb(&[&["publish", "x", "one tea", "--key", "k"], &properties[..]].concat());
    assert_eq!(sent.done(), "1 message published to exchange 'x': routed");
    let sent = broker.verb_with_input(&["publish", "amq.default", "--key", "q", "--json"], b"\xff\x00");
    assert_eq!(serde_json::from_str::<Value>(&sent.done()).unwrap(), json!({ "routed": true }));
    broker
        .verb(&["publish", "x", "lost", "--key", "other"])
        .refused(1, &["exchange 'x'", "no queue takes", "'other'"]);
    broker.verb(&["publish", "absent", "lost"]).refused(1, &["no exchange 'absent' in vhost '/'"]);
    broker.verb(&["get", "absent"]).refused(1, &["no queue 'absent' in vhost '/'"]);
    let looked = broker.verb(&["get", "q", "--count", "5", "--truncate", "3"]).done();
    assert_eq!(
        looked,
        "\
EXCHANGE  KEY  REDELIVERED  LEFT  BYTES  PROPERTIES                                                 PAYLOAD
x         k    no              1      7  content_type=text/plain headers=n=7 s=a b delivery_mode=2  one
\"\"        q    no              0      2  delivery_mode=2                                            /wA="
    );
    let taken = broker.verb(&["get", "q", "--count", "5", "--ackmode", "ack_requeue_false", "--json"]).done();
    let taken: Value = serde_json::from_str(&taken).unwrap();
    assert_eq!((&taken[0]["payload"], &taken[0]["redelivered"]), (&json!("one tea"), &json!(true)));
    assert_eq!(taken[0]["properties"]["headers"], json!({ "n": 7, "s": "a b" }));
    assert_eq!(broker.verb(&["get", "q"]).done().lines().count(), 1, "only the heading is left");
    assert!(broker.terminate().success());
}

#[test]
fn checksums_go_through_the_broker() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "q"]).done();
    for (kind, key) in [("crc32", "x-opt-crc-32"), ("adler32", "x-opt-adler-32")] {
        broker.verb(&["send", "q", kind, "--checksum", kind, "--subject", "s", "--count", "2"]).done();
        let came = broker.verb(&["recv", "q", "--count", "1", "--verify", "--json"]).done();
        let came: Value = serde_json::from_str(&came).unwrap();
        assert_eq!((&came["body"], came["footer"][key].is_u64()), (&json!(kind), true), "{came}");
        assert_eq!(broker.verb(&["recv", "q", "--count", "1", "--verify"]).done(), kind);
    }
    broker.verb(&["send", "q", "whole", "--checksum", "crc32"]).done();
    let sealed = Checksum::Crc32.seal(&Message::data("flipped").durable(true).encode()).unwrap();
    let at = sealed.windows(7).position(|bytes| bytes == b"flipped").unwrap();
    let mut flipped = sealed.to_vec();
    flipped[at] ^= 1;
    send(&broker, flipped);
    // The intact message is printed and accepted. The damaged one is neither.
    let did = broker.verb(&["recv", "q", "--verify"]);
    assert_eq!(did.out, "whole\n");
    let why = ["/queues/q", "damaged", "its CRC-32 is 0x", "footer says 0x"];
    did.refused(1, &why);
    assert_eq!(broker.list("queues")[0]["messages"], 1);
    assert_eq!(broker.verb(&["recv", "q", "--count", "1"]).done(), "glipped");
    broker.verb(&["send", "q", "without"]).done();
    broker.verb(&["recv", "q", "--verify"]).refused(1, &["/queues/q", "no checksum"]);
    assert_eq!(broker.verb(&["recv", "q", "--count", "1"]).done(), "without");
    let did = sluice(&["send", "q", "b", "--checksum", "md5"]);
    assert!(did.code == 2 && did.err.contains("crc32, adler32"), "{did:?}");
}

/// Sends an encoded message unchanged.
fn send(broker: &Broker, message: Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await;
        let connection = connection.unwrap();
        let session = connection.session().await.unwrap();
        let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
        assert_eq!(sender.send(message.into()).await.unwrap(), DeliveryState::Accepted);
        connection.close().await.unwrap();
    });
}

#[test]
fn lists_are_tables() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "long-name"]).done();
    broker.verb(&["send", "long-name", "x", "--count", "12"]).done();
    let table = broker.verb(&["list", "queues"]).done();
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(
        rows[0],
        "NAME       TYPE     DURABLE  MESSAGES  READY  UNACKNOWLEDGED  CONSUMERS  AGE S  PUBLISH/S  DELIVER/S"
    );
    let row = rows[1].split_whitespace().collect::<Vec<_>>();
    assert_eq!(row[..7], ["long-name", "classic", "yes", "12", "12", "0", "0"]);
    assert_eq!(row[8..], ["-", "-"], "nobody has asked before, so there is no sample for a rate");
    assert!(broker.verb(&["list", "exchanges"]).done().contains("\namq.direct "));
    assert!(broker.verb(&["list", "bindings"]).done().lines().any(|line| line.contains("long-name")));
    assert!(broker.verb(&["list", "connections"]).done().starts_with("NAME "));

    // The consumer is listed, and receives no more than its credit.
    let mut consumer = Command::new(PROGRAM);
    consumer.args(["recv", "long-name", "--credit", "5", "--url", &broker.amqp_url()]);
    let mut consumer = consumer.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(consumer.stdout.take().unwrap()));
    for _ in 0..12 {
        assert_eq!(lines.next().unwrap().unwrap(), "x");
    }
    let rows = broker.list("connections");
    assert_eq!(rows[0]["container_id"], "sluice");
    let pid = rustix::process::Pid::from_child(&consumer);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(consumer.wait().unwrap().success());
    assert_eq!(broker.list("queues")[0]["messages"], 0);
}

#[test]
fn what_operators_do_has_verbs() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "orders"]).done();
    let limit = ["set", "policy", "short", "^orders$", r#"{"max-length": 2}"#, "--apply-to", "queues"];
    assert_eq!(broker.verb(&limit).done(), "policy 'short' is set");
    let table = broker.verb(&["list", "policies"]).done();
    assert!(table.ends_with("\nshort  /      ^orders$  queues           0  max-length=2"), "{table}");
    broker.verb(&["send", "orders", "x", "--count", "3"]).done();
    assert_eq!(broker.list("queues")[0]["messages"], 2);
    broker.verb(&["set", "policy", "p", ".*", r#"{"max-len": 2}"#]).refused(1, &["policy 'p'", "max-len"]);
    // What a list prints is taken, too.
    let pairs =
        ["set", "policy", "pairs", "^p", "message-ttl=60000", "dead-letter-exchange=x", "--priority", "3"];
    broker.verb(&pairs).done();
    let table = broker.verb(&["list", "policies"]).done();
    assert!(
        table.contains(
            "\npairs  /      ^p        all              3  dead-letter-exchange=x message-ttl=60000"
        ),
        "{table}"
    );
    let wrong = broker.verb(&["set", "policy", "p", ".*", "max-length"]);
    assert!(wrong.code == 2 && wrong.err.contains("KEY=VALUE is needed"), "{wrong:?}");
    broker.verb(&["set", "policy", "p", ".*", "max-length=3", "{}"]).refused(2, &["'{}'", "KEY=VALUE"]);
    broker.verb(&["clear", "policy", "pairs"]).done();
    broker.verb(&["list", "policies", "--operator"]).done();
    assert_eq!(broker.verb(&["clear", "policy", "short"]).done(), "policy 'short' is cleared");
    broker.verb(&["clear", "policy", "short"]).refused(1, &["policy 'short'"]);

    assert_eq!(broker.verb(&["purge", "queue", "orders"]).done(), "queue 'orders' is purged");
    assert_eq!(broker.list("queues")[0]["messages"], 0);
    broker.verb(&["purge", "queue", "none"]).refused(1, &["no queue 'none'"]);

    let mut consumer = Command::new(PROGRAM);
    consumer.args(["recv", "orders", "--url", &broker.amqp_url()]).stderr(Stdio::piped());
    let consumer = consumer.spawn().unwrap();
    let name = loop {
        if let Some(name) = broker.list("connections")[0]["name"].as_str() {
            break name.to_owned();
        }
    };
    let closed = broker.verb(&["close", "connection", &name, "--reason", "moved to another host"]).done();
    assert_eq!(closed, format!("connection '{name}' is closed"));
    let told = consumer.wait_with_output().unwrap();
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(told.contains("moved to another host"), "{told}");
    broker.verb(&["close", "connection", &name]).refused(1, &["no connection"]);
    broker.verb(&["close", "user", "guest"]).done();
}

#[test]
fn parameters_are_set_listed_and_cleared() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let named = "parameter 'orders' of component 'mirror' in vhost '/'";
    let set = ["set", "parameter", "mirror", "orders", r#"{"src-queue": "a"}"#];
    assert_eq!(broker.verb(&set).done(), format!("{named} is set"));
    broker.verb(&["add", "vhost", "team"]).done();
    broker.verb(&["set", "parameter", "federation", "up", "-7", "-p", "team"]).done();
    let all = "\
COMPONENT   NAME    VHOST        VALUE
mirror      orders  /      src-queue=a
federation  up      team            -7";
    assert_eq!(broker.verb(&["list", "parameters"]).done(), all);
    let of_mirror = "COMPONENT  NAME    VHOST  VALUE\nmirror     orders  /      src-queue=a";
    assert_eq!(broker.verb(&["list", "parameters", "-p", "/"]).done(), of_mirror);
    assert_eq!(broker.verb(&["list", "parameters", "--component", "mirror"]).done(), of_mirror);
    assert_eq!(broker.verb(&["list", "parameters", "--component", "other"]).done().lines().count(), 1);
    let rows = broker.verb(&["list", "parameters", "-p", "team", "--json"]).done();
    let row = json!([{"vhost": "team", "component": "federation", "name": "up", "value": -7}]);
    assert_eq!(serde_json::from_str::<Value>(&rows).unwrap(), row);
    let shown = broker.verb(&["show", "parameter", "federation", "up", "-p", "team"]).done();
    assert!(shown.ends_with("\nvalue      -7"), "{shown}");
    assert_eq!(
        broker.verb(&["clear", "parameter", "mirror", "orders"]).done(),
        format!("{named} is cleared")
    );
    broker.verb(&["clear", "parameter", "mirror", "orders"]).refused(1, &[named, "no parameter 'orders'"]);

    broker.verb(&["set", "global-parameter", "motto", r#""to the point""#]).done();
    let listed = broker.verb(&["list", "global-parameters"]).done();
    assert!(listed.lines().any(|line| line == "motto  to the point"), "{listed}");
    assert_eq!(broker.verb(&["set", "cluster-name", "ours"]).done(), "the name of the cluster is 'ours'");
    assert_eq!(broker.verb(&["show", "cluster-name"]).done(), "ours");
    broker.verb(&["set", "cluster-name", ""]).refused(1, &["name the cluster", "1 to 255 bytes"]);
    let global = "global parameter 'motto' is cleared";
    assert_eq!(broker.verb(&["clear", "global-parameter", "motto"]).done(), global);
}

#[test]
fn one_object_is_shown_with_all_its_fields() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "orders", "--argument", "x-max-length=5"]).done();
    let shown = broker.verb(&["show", "queue", "orders"]).done();
    for line in ["name ", "arguments.x-max-length ", "message_stats.publish_details.rate "] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line} is not in {shown}");
    }
    broker.verb(&["show", "queue", "none"]).refused(1, &["show queue 'none'", "no queue 'none'"]);
    assert!(broker.verb(&["show", "whoami"]).done().starts_with("name              guest\n"));
    let memory = broker.verb(&["show", "memory"]).done();
    let names: Vec<&str> = memory.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"backlog") && names.contains(&"http_bodies"), "{memory}");
    assert!(!memory.contains("mnesia"), "{memory}");
    let version = broker.verb(&["show", "version", "--json"]).done();
    let version: Value = serde_json::from_str(&version).unwrap();
    let [sluice, rabbitmq] = ["sluice_version", "rabbitmq_version"].map(|of| version[of].as_str().unwrap());
    assert_eq!(sluice, env!("CARGO_PKG_VERSION"));
    let shown = broker.verb(&["show", "version"]).done();
    assert!(shown.contains(&format!("sluice_version    {sluice}")), "{shown}");
    assert!(shown.contains(&format!("rabbitmq_version  {rabbitmq}")), "{shown}");

    broker.verb(&["declare", "binding", "amq.topic", "orders", "--key", "new.*"]).done();
    let ends: [&[&str]; 3] = [
        &["--from", "amq.topic"],
        &["--to-queue", "orders", "--from", "amq.topic"],
        &["--to-queue", "orders", "-p", "/"],
    ];
    for ends in ends {
        let listed = broker.verb(&[&["list", "bindings"], ends].concat()).done();
        assert!(listed.contains("\namq.topic  orders       queue  new.*"), "{ends:?}: {listed}");
    }
    let flags = broker.verb(&["list", "feature-flags"]).done();
    assert!(flags.starts_with("NAME ") && flags.contains("\nstream_queue "), "{flags}");
    let plugins = broker.verb(&["list", "plugins"]).done();
    assert!(plugins.starts_with("NAME ") && plugins.contains("\nrabbitmq_management "), "{plugins}");
    assert!(!plugins.contains("\nrabbit ") && !plugins.contains("shovel"), "{plugins}");
    assert!(broker.verb(&["list", "deprecated-features"]).done().contains("\namqp_address_v1 "));
    let attempts = broker.verb(&["list", "auth-attempts"]).done();
    assert!(attempts.contains("\nhttp "), "{attempts}");
    assert_eq!(broker.verb(&["reset", "auth-attempts"]).done(), "the counts of logins are zero");
    broker.verb(&["add", "user", "idle", "--no-password"]).done();
    broker.verb(&["add", "vhost", "team"]).done();
    broker.verb(&["set", "permission", "idle", "^i", "^i", "^i", "-p", "team"]).done();
    broker.verb(&["set", "policy", "brief", "^b", r#"{"max-length": 2}"#, "-p", "team"]).done();
    for (what, row) in [
        ("users", "\nidle "),
        ("vhosts", "\nteam "),
        ("permissions", "\nidle   team "),
        ("policies", "\nbrief  team   ^b "),
    ] {
        let listed = broker.verb(&["list", what]).done();
        assert!(listed.contains(row), "{what}: {listed}");
    }
    // Who creates a virtual host gets all permissions in it.
    for (what, rows) in [("permissions", 2), ("policies", 1)] {
        let listed = broker.verb(&["list", what, "-p", "team"]).done();
        assert_eq!(listed.lines().count(), 1 + rows, "{what}: {listed}");
        assert!(listed.lines().skip(1).all(|row| row.contains(" team ")), "{what}: {listed}");
    }
    broker.verb(&["clear", "permission", "idle", "-p", "team"]).done();
    let idle = broker.verb(&["list", "users", "--without-permissions"]).done();
    assert!(idle.lines().count() == 2 && idle.contains("\nidle "), "{idle}");
}

#[test]
fn a_stream_is_browsed() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "readings", "--type", "stream"]).done();
    broker.verb(&["send", "readings", "21.5", "--count", "3"]).done();
    let shown =
        broker.verb(&["browse", "readings", "--offset", "1", "--count", "1", "--truncate", "2"]).done();
    let expected = "OFFSET  EXCHANGE  KEY       BYTES  PAYLOAD\n     1  \"\"        readings      4  21";
    assert_eq!(shown, expected);
    broker.verb(&["browse", "readings", "--offset", "soon"]).refused(1, &["browse queue 'readings'", "soon"]);
    broker.verb(&["declare", "queue", "orders"]).done();
    let headings = "POSITION  EXCHANGE  KEY  BYTES  PAYLOAD";
    assert_eq!(broker.verb(&["browse", "orders"]).done(), headings);
    let none = broker.verb(&["browse", "readings", "--offset", "next"]).done();
    assert_eq!(none, headings.replace("POSITION", "OFFSET"));
    for country in ["de", "fr", "de"] {
        broker.verb(&["send", "orders", "x", "--property", &format!("country={country}")]).done();
    }
    let shown = broker.verb(&["browse", "orders", "--filter", "country=DE", "--offset", "2"]).done();
    let expected = "POSITION  EXCHANGE  KEY     BYTES  PAYLOAD\n       3  \"\"        orders      1  x";
    assert_eq!(shown, expected);
    let rows: Value =
        serde_json::from_str(&broker.verb(&["browse", "orders", "--since", "1h", "--json"]).done()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 3, "{rows}");
    assert!(broker.verb(&["browse", "orders", "--until", "1h", "--json"]).done() == "[]");
}

#[test]
fn checks_succeed_or_say_why_not() {
    let directory = Directory::new("verbs");
    let broker = Starting::spawn(&directory, &["prometheus.tcp.port=0"]).finish();
    let port = broker.amqp_port.to_string();
    let (_, overview) = broker.get("/api/overview");
    let listeners = overview["listeners"].as_array().unwrap();
    let metrics = listeners.iter().find(|listener| listener["protocol"] == "http/prometheus").unwrap();
    let metrics = format!("http://127.0.0.1:{}", metrics["port"]);
    for words in [
        &["check", "alarms"][..],
        &["check", "local-alarms"],
        &["check", "ready"],
        &["check", "port", &port],
        &["check", "protocols", "amqp,http"],
        &["check", "leaders"],
        &["check", "leaders", "-p", "/"],
        &["check", "leaders", "--pattern", "^a", "-p", "/"],
        &["check", "virtual-hosts"],
        &["check", "quorum-critical"],
        &["check", "connection-limit"],
        &["check", "certificates", "1", "weeks"],
        &["check", "live", "--metrics-url", &metrics],
    ] {
        assert_eq!(broker.verb(words).done(), "ok", "{words:?}");
    }
    // This check asks another port, which needs no login.
    assert_eq!(broker.verb(&["check", "live", "--url", &broker.http_url()]).code, 2);
    broker.verb(&["check", "port", "1"]).refused(1, &["check port 1", "No active listener"]);
    broker.verb(&["check", "protocols", "mqtt"]).refused(1, &["check protocols mqtt", "No active listener"]);
}

#[test]
fn a_watched_answer_comes_again_after_a_restart() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let mut watch = Command::new(PROGRAM);
    watch.args(["list", "queues", "--watch=1", "--json"]).env("SLUICE_HTTP_URL", broker.http_url());
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = |stream: Box<dyn std::io::Read>| std::io::BufRead::lines(std::io::BufReader::new(stream));
    let mut out = lines(Box::new(watch.stdout.take().unwrap()));
    let mut err = lines(Box::new(watch.stderr.take().unwrap()));
    assert_eq!(out.next().unwrap().unwrap(), "[]");
    assert_eq!(out.next().unwrap().unwrap(), "[]");
    broker.verb(&["declare", "queue", "q"]).done();
    let document = out.by_ref().map(Result::unwrap).find(|line| line.contains("\"name\": \"q\""));
    assert!(document.is_some());
    assert!(broker.terminate().success());
    let gone = err.next().unwrap().unwrap();
    assert!(gone.starts_with("sluice: nobody answers at 127.0.0.1:"), "{gone}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn top_shows_queues_and_links() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "queue", "orders"]).done();
    broker.verb(&["send", "orders", "x", "--count", "3"]).done();
    let shown = broker.verb(&["top", "--every", "1", "--count", "2"]).done();
    let rounds: Vec<&str> = shown.matches("\nQUEUE ").collect();
    let row = "orders  /      classic      3               0          0     0      0       0";
    assert!(rounds.len() == 2 && shown.contains("1 queues  3 ready") && shown.ends_with(row), "{shown}");
    let links = broker.verb(&["top", "links", "--every", "1", "--count", "1"]).done();
    assert!(links.contains("\nLINK  ADDRESS  DIRECTION"), "{links}");
}

/// Only some users may see the node. The others do not fill the log of the broker with refused requests.
#[test]
fn top_asks_once_for_what_the_user_may_not_see() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb_with_input(&["add", "user", "ann", "--tags", "management"], b"p\n").done();
    let url = format!("http://ann:p@127.0.0.1:{}", broker.http_port);
    let shown = sluice(&["top", "--url", &url, "--every", "1", "--count", "2"]).done();
    assert!(shown.matches("\nQUEUE ").count() == 2 && !shown.contains("shards:"), "{shown}");
    assert!(broker.terminate().success());
    let log = directory.logged();
    assert_eq!(log.matches("what=\"GET /api/nodes/{node}\" result=\"refused\"").count(), 1, "{log}");
}

/// The script of bash is used as a shell uses it: the words of a verb are what it completes.
#[test]
fn shells_complete_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(sluice(&["completion", shell]).done().contains("sluice"));
    }
    let script = format!(
        "source <('{PROGRAM}' completion bash); COMP_WORDS=(sluice list q); COMP_CWORD=2; \
         _sluice sluice q list; echo \"${{COMPREPLY[@]}}\""
    );
    let did = finish(Command::new("bash").args(["-c", &script]), b"");
    assert_eq!(did.done(), "queues");

    let directory = Directory::new("verbs");
    let pages = directory.path().join("man");
    sluice(&["man", pages.to_str().unwrap()]).done();
    let page = std::fs::read_to_string(pages.join("sluice-list.1")).unwrap();
    assert!(page.contains(".TH sluice-list 1") && page.contains("\\-\\-watch"), "{page}");
    let file = pages.join("sluice.1");
    sluice(&["man", file.to_str().unwrap()]).refused(1, &["sluice.1", "cannot write"]);
}

#[test]
fn wrong_usage_is_reported() {
    for words in [
        &["send"][..],
        &["send", "q", "b", "--durable", "maybe"],
        &["recv", "q", "--count", "0"],
        &["declare", "queue"],
        &["list", "everything"],
        &["nonsense"],
    ] {
        let did = sluice(words);
        assert!(did.code == 2 && !did.err.is_empty() && did.out.is_empty(), "{words:?}: {did:?}");
    }
    sluice(&["send", "q", "b", "--url", "http://h"]).refused(2, &["--url", "amqp://"]);
    sluice(&["list", "queues", "--url", "amqp://h"]).refused(2, &["--url", "http://"]);
    sluice(&["send", "q", "--file", "/no/such/file"]).refused(2, &["/no/such/file"]);
    // The password of guest goes to no other machine, so nobody looks for this one.
    sluice(&["list", "queues", "--url", "https://broker.invalid"])
        .refused(2, &["names no user", "https://USER:PASSWORD@broker.invalid:15671", "--token-file"]);
}

#[test]
fn a_missing_broker_is_reported() {
    // The port was free a moment ago, so nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = format!("127.0.0.1:{port}");
    let (amqp, http) = (format!("amqp://u:s3cret@{place}"), format!("http://u:s3cret@{place}"));
    for words in [
        &["send", "q", "b", "--url", &amqp][..],
        &["recv", "q", "--url", &amqp],
        &["declare", "queue", "q", "--url", &http],
        &["delete", "queue", "q", "--url", &http],
        &["list", "queues", "--url", &http],
    ] {
        let did = sluice(words);
        assert!(!did.err.contains("s3cret"), "{did:?}");
        did.refused(3, &["nobody answers", &place]);
    }
}

#[test]
fn refusals_name_what_and_where() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let (amqp, http) = (broker.amqp_url(), broker.http_url());
    broker.verb(&["send", "none", "b"]).refused(1, &["/queues/none", "127.0.0.1", "not-found"]);
    broker.verb(&["recv", "none"]).refused(1, &["/queues/none", "127.0.0.1", "not-found"]);
    broker.verb(&["send", "/queues/%", "b"]).refused(1, &["/queues/%", "invalid-field"]);
    broker.verb(&["declare", "binding", "none", "none"]).refused(1, &["exchange 'none'"]);
    let wrong = |url: &str| url.replace("guest:guest", "guest:wrong");
    broker.verb(&["send", "q", "b", "--url", &wrong(&amqp)]).refused(1, &["login", "'guest'", "127.0.0.1"]);
    broker.verb(&["list", "queues", "--url", &wrong(&http)]).refused(1, &["login", "'guest'", "127.0.0.1"]);
}

#[test]
fn a_broker_that_cannot_start_says_why() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let last_line = |mut did: Did| {
        did.err = did.err.trim_end().lines().last().unwrap_or_default().to_owned();
        did
    };
    let second = last_line(finish(&mut serve(&directory.path().join("data")), b""));
    second.refused(1, &["data", "in use by another broker"]);
    let port = format!("listeners.tcp.default={}", broker.amqp_port);
    let other = directory.path().join("other");
    let taken = last_line(finish(serve(&other).args(["--set", &port]), b""));
    taken.refused(1, &[&format!("127.0.0.1:{}", broker.amqp_port)]);
    finish(serve(&other).args(["--set", "shard=1"]), b"").refused(2, &["'shard'", "'shards'"]);
    finish(serve(&other).args(["--set", "shards=none"]), b"").refused(2, &["shards", "none"]);
    let file = directory.path().join("sluice.conf");
    std::fs::write(&file, "shards = 1\nheartbeet = 7\n").unwrap();
    let refused = finish(serve(&other).arg("--config").arg(&file), b"");
    refused.refused(2, &["sluice.conf:2", "'heartbeet'", "'heartbeat'"]);
    let cluster = "cluster_formation.classic_config.nodes.1 = sluice@localhost:25672\ncluster.listener = 127.0.0.1:25672\n";
    std::fs::write(&file, cluster).unwrap();
    let without_secret = finish(serve(&other).arg("--config").arg(&file), b"");
    without_secret.refused(
        2,
        &["sluice.conf:1", "cluster.secret, cluster.secret_file or cluster.ssl_options.certfile"],
    );
    let cluster = cluster.replace("127.0.0.1:25672", &format!("127.0.0.1:{}", broker.amqp_port));
    std::fs::write(&file, format!("{cluster}cluster.secret = Zq0-marker-0123456789\n")).unwrap();
    let refused = finish(serve(&other).arg("--config").arg(&file), b"");
    assert!(!refused.err.contains("Zq0"), "{}", refused.err);
    last_line(refused).refused(1, &[&format!("127.0.0.1:{}", broker.amqp_port), "cluster.listener"]);
    assert!(!other.exists(), "a broker that does not start leaves no data");
    // None of these failed verbs has disturbed the running broker.
    assert_eq!(broker.list("queues"), json!([]));
    assert!(broker.terminate().success());
}

#[test]
fn durable_state_survives_a_kill() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    broker.verb(&["declare", "exchange", "x", "--type", "fanout"]).done();
    for queue in ["q1", "q2"] {
        broker.verb(&["declare", "queue", queue]).done();
        broker.verb(&["declare", "binding", "x", queue]).done();
    }
    for body in ["1", "2", "3"] {
        broker.verb(&["send", "/exchanges/x", body]).done();
        broker.verb(&["send", "/exchanges/x", body, "--durable", "false"]).done();
    }
    assert_eq!(broker.verb(&["recv", "q1", "--count", "1"]).done(), "1");
    assert_eq!(broker.terminate().code(), Some(0));

    let broker = Broker::start(&directory);
    assert_eq!(broker.verb(&["recv", "q1", "--timeout", "1"]).done(), "2\n3");
    broker.verb(&["send", "/exchanges/x", "4"]).done();
    broker.kill();

    let broker = Broker::start(&directory);
    let came = broker.verb(&["recv", "q1", "--timeout", "1"]).done();
    // An accepted message may come back if its acceptance was not written yet. A confirmed one is never lost.
    assert!(["4", "3\n4", "2\n3\n4"].contains(&came.as_str()), "{came}");
    assert_eq!(broker.verb(&["recv", "q2", "--count", "4"]).done(), "1\n2\n3\n4");
    assert!(broker.terminate().success());
    assert!(!directory.logged().contains("panicked"), "{}", directory.logged());
}

/// A budget whose name no part of RabbitMQ's knows would count as `other_proc` (`admin`: `memory.rs`).
#[test]
fn every_budget_counts_in_a_part_of_the_memory() {
    let directory = Directory::new("verbs");
    let broker = Broker::start(&directory);
    let (_, nodes) = broker.get("/api/nodes");
    let (_, memory) = broker.get(&format!("/api/nodes/{}/memory", nodes[0]["name"].as_str().unwrap()));
    let mut budgets: Vec<&str> = memory["budgets"].as_object().unwrap().keys().map(String::as_str).collect();
    budgets.sort_unstable();
    assert_eq!(
        budgets,
        [
            "backlog",
            "client_state",
            "http_answers",
            "http_bodies",
            "other",
            "publisher_credit",
            "stream_readers",
            "stream_tails",
            "unfinished_deliveries",
            "unread_output",
        ]
    );
    assert_eq!(memory["memory"]["other_proc"], 0);
}
