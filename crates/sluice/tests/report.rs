//! The report for support (`sluice export report`): what it has, how large it gets, and that no secret is in it.

use crate::broker;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use broker::verb::{Did, ask_as, basic, finish};
use broker::{Broker, Directory, PROGRAM, Starting};
use client::{Connection, Options, ReceiverOptions};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

/// Secrets in each place that takes one.
const DEFAULT_PASS: &str = "Zq1-password-of-guest";
const DEFAULT_USERS_PASS: &str = "Zq2-password-of-watcher";
const CLIENT_SECRET: &str = "Zq3-secret-of-the-page";
const IN_USER_PATH: &str = "Zq4-password-in-a-url";
const IN_JWKS_URI: &str = "Zq5-password-in-a-url";
const IN_SHOVEL: &str = "Zq6-password-of-a-shovel";
const IN_UPSTREAM: &str = "Zq7-password-of-an-upstream";
const IN_COMPONENT: &str = "Zq8-token-of-a-component";
const IN_GLOBAL: &str = "Zq9-token-of-the-cluster";
const IN_DEFINITIONS: &str = "ZqA-password-in-definitions";
const ANN_PASS: &str = "ZqB-password-of-ann";
const SIGNING_SECRET: &str = "ZqC-secret-that-signs-tokens";

/// The password of the key `crates/tls/testdata/pbkdf2.pem`.
const KEY_PASS: &str = "secret";

/// Writes the files of a broker with all kinds of secrets, and returns the path of its configuration.
fn configure(folder: &Path) -> String {
    let path = |file: &str| folder.join(file).display().to_string();
    let known = |file: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/testdata").join(file);
    let key = KeyPair::from_pem(&std::fs::read_to_string(known("plain.pem")).unwrap()).unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(path("server.pem"), certificate.pem()).unwrap();
    std::fs::copy(known("pbkdf2.pem"), path("server.key")).unwrap();
    std::fs::write(path("signing"), SIGNING_SECRET).unwrap();
    let shovel = json!({
        "src-uri": format!("amqp://u:{IN_DEFINITIONS}@h"), "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b",
    });
    let definitions = json!({
        "parameters": [{ "component": "shovel", "vhost": "/", "name": "loaded", "value": shovel }],
    });
    std::fs::write(path("definitions.json"), definitions.to_string()).unwrap();
    let text = format!(
        "default_pass = {DEFAULT_PASS}\n\
         default_users.watcher.tags = monitoring\n\
         default_users.watcher.password = {DEFAULT_USERS_PASS}\n\
         management.oauth_client_secret = {CLIENT_SECRET}\n\
         auth_http.user_path = http://h/user?token={IN_USER_PATH}\n\
         auth_oauth2.jwks_uri = https://h/jwks?token={IN_JWKS_URI}\n\
         auth_oauth2.signing_keys.k = {}\n\
         load_definitions = {}\n\
         listeners.ssl.default = 0\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.password = {KEY_PASS}\n\
         password_hashing = sha256\n",
        path("signing"),
        path("definitions.json"),
        path("server.pem"),
        path("server.key"),
    );
    std::fs::write(path("sluice.conf"), text).unwrap();
    path("sluice.conf")
}

/// Runs a verb as a user.
fn verb(broker: &Broker, login: &str, words: &[&str]) -> Did {
    let mut command = std::process::Command::new(PROGRAM);
    let url = format!("http://{login}@127.0.0.1:{}", broker.http_port);
    finish(command.args(words).env("SLUICE_HTTP_URL", url), b"")
}

/// Returns the text of a section.
fn section<'a>(report: &'a str, title: &str) -> &'a str {
    let heading = format!("\n## {title}\n\n");
    let (_, text) = report.split_once(&heading).unwrap_or_else(|| panic!("no section {title} in {report}"));
    text.split("\n## ").next().unwrap()
}

#[tokio::test]
async fn a_report_has_everything_but_secrets() {
    let directory = Directory::new("report");
    let file = configure(directory.path());
    let words = ["--config", &file, "--set", "prometheus.tcp.port=0", "--set", "log.file=a.log"];
    let broker = Starting::spawn_with(&directory, &words).finish();
    let guest = basic("guest", DEFAULT_PASS);
    let put = |path: &str, body: Value| {
        let (status, answer) = ask_as(broker.http_port, &guest, "PUT", path, &body.to_string());
        assert!(status < 300, "{path}: {answer}");
    };
    put("/api/users/ann", json!({ "password": ANN_PASS, "tags": "monitoring" }));
    put("/api/permissions/%2F/ann", json!({ "configure": "", "write": "", "read": ".*" }));
    let uri = |password: &str| format!("amqp://u:{password}@h");
    put(
        "/api/parameters/shovel/%2F/s",
        json!({ "value": { "src-uri": uri(IN_SHOVEL), "src-queue": "a", "dest-uri": [uri(IN_SHOVEL)], "dest-queue": "b" } }),
    );
    put("/api/parameters/federation-upstream/%2F/f", json!({ "value": { "uri": uri(IN_UPSTREAM) } }));
    put("/api/parameters/ours/%2F/p", json!({ "value": { "token": IN_COMPONENT } }));
    put("/api/global-parameters/g", json!({ "value": IN_GLOBAL }));
    put("/api/queues/%2F/orders", json!({ "arguments": { "x-max-length": 9 } }));
    put("/api/policies/%2F/short", json!({ "pattern": "^none$", "definition": { "max-length": 1 } }));
    let body = r#"{"routing_key":"orders","properties":{},"payload":"body-of-a-message","payload_encoding":"string"}"#;
    assert_eq!(
        ask_as(broker.http_port, &guest, "POST", "/api/exchanges/%2F/amq.default/publish", body).0,
        200
    );
    let url = format!("amqp://guest:{DEFAULT_PASS}@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
    let options = Options { container_id: "shop".to_owned(), ..Options::default() };
    let connection = Connection::open(&url, options).await.unwrap();
    let session = connection.session().await.unwrap();
    let name = Some("reader".to_owned());
    let credit = client::Credit::Manual;
    let options = ReceiverOptions { name, credit, ..ReceiverOptions::default() };
    let _receiver = session.receiver(Some("/queues/orders"), options).await.unwrap();

    let login = format!("guest:{DEFAULT_PASS}");
    let path = directory.path().join("report.txt").display().to_string();
    let log = directory.path().join("data/logs/a.log").display().to_string();
    let did = verb(&broker, &login, &["export", "report", "-o", &path, "--log", &log]);
    assert_eq!(did.done(), format!("the report is in {path}"));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    let report = std::fs::read_to_string(&path).unwrap();
    for (title, part) in [
        ("Overview", "sluice_version"),
        ("Node", "platform"),
        ("Node", "MEMORY FOR"),
        ("Listeners", "amqp/ssl"),
        ("Memory by budget, in bytes", "backlog"),
        ("Settings in force", "http://h/user?***"),
        ("Settings in force", "https://h/jwks?***"),
        ("Health checks", "ready-to-serve-clients"),
        ("Why do the longest queues not move", "queue 'orders' in vhost '/': no_credit: "),
        ("Virtual hosts", "/"),
        ("Queues", "x-max-length=9"),
        ("Exchanges", "amq.topic"),
        ("Bindings", "orders"),
        ("Policies", "max-length=1"),
        ("Users", "watcher"),
        ("Permissions", "ann"),
        ("Parameters, without their values", "federation-upstream"),
        ("Parameters, without their values", "loaded"),
        ("Global parameters, without their values", "g"),
        ("Connections", "shop"),
        ("Sessions of AMQP 1.0", "127.0.0.1:"),
        ("Consumers", "reader"),
        ("Deprecated features", "global_qos"),
        ("Log", "Server startup complete"),
        ("Late turns", "sluice_late_turns_total "),
        ("Metrics", "\nsluice_late_turns_total "),
    ] {
        // The log has no such line: it goes to standard output.
        let part = if title == "Log" { "data directory: " } else { part };
        assert!(section(&report, title).contains(part), "{part} is not in {title}: {report}");
    }
    assert!(!report.contains("body-of-a-message"), "{report}");

    let shown = verb(&broker, &login, &["show", "config", "--running"]).done();
    let in_json = verb(&broker, &login, &["show", "config", "--running", "--json"]).done();
    let of_file = verb(&broker, &login, &["show", "config", "--config", &file]).done();
    let (status, effective) = ask_as(broker.http_port, &guest, "GET", "/api/config/effective", "");
    assert_eq!(status, 200);
    let hash: Value = {
        let (_, answer) = ask_as(broker.http_port, &guest, "GET", "/api/users/ann", "");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let hash = hash["password_hash"].as_str().unwrap();
    for (what, text) in [
        ("the report", &report),
        ("show config --running", &shown),
        ("show config --running --json", &in_json),
        ("show config", &of_file),
        ("/api/config/effective", &effective),
    ] {
        for secret in [
            DEFAULT_PASS,
            DEFAULT_USERS_PASS,
            CLIENT_SECRET,
            IN_USER_PATH,
            IN_JWKS_URI,
            IN_SHOVEL,
            IN_UPSTREAM,
            IN_COMPONENT,
            IN_GLOBAL,
            IN_DEFINITIONS,
            ANN_PASS,
            SIGNING_SECRET,
            hash,
        ] {
            assert!(!text.contains(secret), "{what} has {secret}: {text}");
        }
        // The password is a word that other keys have in their names, so only the row of its key is looked at.
        let behind = text.split_once("ssl_options.password").map_or("", |(_, behind)| behind);
        let row = behind.split(['}', '\n']).next().unwrap_or_default();
        assert!(!row.contains(KEY_PASS), "{what}: {row}");
    }
    drop(connection);
    assert!(broker.terminate().success());
    assert!(!directory.logged().contains(CLIENT_SECRET));
}

/// A report is made with what the user may see, and says what is missing.
#[test]
fn a_report_of_a_user_with_fewer_rights_says_what_is_missing() {
    let directory = Directory::new("report");
    let broker = Starting::spawn(&directory, &["password_hashing=sha256"]).finish();
    let user = r#"{"password":"p","tags":"monitoring"}"#;
    assert_eq!(broker.ask("PUT", "/api/users/mona", user).0, 201);
    let report = verb(&broker, "mona:p", &["export", "report"]).done();
    assert!(section(&report, "Settings in force").contains("not shown: "), "{report}");
    assert!(section(&report, "Users").contains("Not administrator user"), "{report}");
    assert!(section(&report, "Health checks").contains("ready-to-serve-clients"), "{report}");
    assert!(section(&report, "Metrics").contains("no port serves metrics"), "{report}");
    assert!(section(&report, "Log").contains("--log FILE"), "{report}");

    verb(&broker, "mona:wrong", &["export", "report"]).refused(1, &["the login of user 'mona' is refused"]);
    let did = broker.verb(&["export", "report", "--log", "/none/a.log"]).done();
    assert!(section(&did, "Log").contains("not shown: /none/a.log: "), "{did}");
    broker.verb(&["export", "report", "-o", "/none/report"]).refused(2, &["/none/report: "]);
    assert!(broker.terminate().success());
}

/// Long lists, long names and a long log are cut, and the report says so.
#[test]
fn a_report_is_bounded() {
    let directory = Directory::new("report");
    let long_setting = format!("cluster_name={}", "c".repeat(200));
    let broker = Starting::spawn(&directory, &["password_hashing=sha256", &long_setting]).finish();
    let long = "n".repeat(250);
    let queues: Vec<Value> = (0..250)
        .map(|number| {
            json!({ "vhost": "/", "name": format!("{number:03}{long}"), "durable": true, "auto_delete": false, "arguments": {} })
        })
        .collect();
    let definitions = json!({ "queues": queues }).to_string();
    assert_eq!(broker.ask("POST", "/api/definitions", &definitions).0, 204);
    let forged = json!({ "type": "topic", "arguments": { "a": "x\n## forged\u{1b}[2J" } }).to_string();
    assert_eq!(broker.ask("PUT", "/api/exchanges/%2F/hostile", &forged).0, 201);
    let log = directory.path().join("long.log");
    let lines: String = (0..20_000).map(|number| format!("line {number} \u{1b}[2J\n")).collect();
    std::fs::write(&log, lines).unwrap();
    let report = broker.verb(&["export", "report", "--log", log.to_str().unwrap()]).done();
    let queues = section(&report, "Queues");
    assert!(queues.trim_end().ends_with("\n... and 50 more"), "{queues}");
    assert_eq!(queues.lines().filter(|line| line.contains("nnn...")).count(), 200, "{queues}");
    let settings = section(&report, "Settings in force");
    assert!(settings.contains("ccc...  --set"), "{settings}");
    let log = section(&report, "Log");
    assert!(log.starts_with('(') && log.contains("bytes before are left out"), "{log}");
    assert!(
        !report.contains(|c: char| c.is_control() && c != '\n') && !report.contains("\n## forged"),
        "{report}"
    );
    assert!(report.contains("a=x\\n## forged"), "{report}");
    assert!(log.contains("line 19999 \\u{1b}[2J") && !log.contains("line 7 "), "{log}");
    assert!(report.len() < 2_000_000, "{}", report.len());
    assert!(broker.terminate().success());
}
