//! TLS as operators and clients see it: the listeners, logins with certificates, certificates that change, and what is
//! refused at the start.

use crate::{authority, broker};

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use authority::{Authority, port, server_of, start, wait_for};
use broker::Directory;
use broker::verb::{Did, finish, sluice};
use client::{Connection, Options, ReceiverOptions, SenderOptions};
use serde_json::json;

fn verb(url: &str, api: &str, words: &[&str]) -> Did {
    let mut command = Command::new(broker::PROGRAM);
    finish(command.args(words).env("SLUICE_URL", url).env("SLUICE_HTTP_URL", api), b"")
}

#[test]
fn clients_and_verbs_speak_tls() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    Authority::make(directory.path(), "other");
    authority.sign("server", "server");
    let broker = start(&directory, &authority.settings());
    let url = format!("amqps://guest:guest@localhost:{}", port(&broker, "amqp/ssl"));
    let api = format!("https://guest:guest@localhost:{}", port(&broker, "https"));
    let (ca, other) = (authority.path("ca.pem"), authority.path("other.pem"));
    let trusting = |words: &[&str]| verb(&url, &api, &[words, &["--cacert", &ca]].concat());
    trusting(&["declare", "queue", "q"]).done();
    assert_eq!(trusting(&["send", "q", "hello"]).done(), "1 message sent to /queues/q: accepted");
    let long = "x".repeat(120_000);
    trusting(&["send", "q", &long]).done();
    assert_eq!(trusting(&["recv", "q", "--count", "2"]).done(), format!("hello\n{long}"));
    for words in [&["send", "q", "x"][..], &["list", "queues"]] {
        let did = verb(&url, &api, &[words, &["--cacert", &other]].concat());
        did.refused(1, &["no trusted authority has signed the server's certificate"]);
    }
    let connections = broker.get("/api/connections").1;
    assert_eq!(connections, json!([]));
    // Who does not speak TLS to the port learns so, and so does the log.
    let plain = format!("amqp://guest:guest@localhost:{}", port(&broker, "amqp/ssl"));
    assert_eq!(verb(&plain, &api, &["send", "q", "x"]).code, 1);
    assert!(directory.logged().contains("TLS: the client does not use TLS"), "{}", directory.logged());
}

#[tokio::test]
async fn a_certificate_is_a_login() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    for (file, name) in [("server", "server"), ("anna", "anna"), ("nobody", "nobody")] {
        authority.sign(file, name);
    }
    let mut settings = authority.settings();
    settings.push(format!("ssl_options.cacertfile={}", authority.path("ca.pem")));
    settings.push("ssl_options.verify=verify_peer".to_owned());
    settings.push("ssl_options.fail_if_no_peer_cert=true".to_owned());
    settings.push("ssl_cert_login_from=common_name".to_owned());
    let broker = start(&directory, &settings);
    broker.verb(&["add", "user", "anna", "--no-password"]).done();
    broker.verb(&["set", "permission", "anna", ".*", ".*", ".*"]).done();
    let port = port(&broker, "amqp/ssl");
    let open = async |login: &str, who: Option<&str>| {
        let tls = authority.client(who);
        let url = format!("amqps://{login}localhost:{port}").parse().unwrap();
        Connection::open(&url, Options { tls: Some(tls.load().unwrap()), ..Options::default() }).await
    };
    let connection = open("", Some("anna")).await.unwrap();
    let session = connection.session().await.unwrap();
    let rows = broker.get("/api/connections").1;
    let fields = ["user", "auth_mechanism", "ssl", "ssl_protocol", "peer_cert_subject", "peer_cert_issuer"];
    let shown = fields.map(|field| rows[0][field].clone());
    let expected = [
        json!("anna"),
        json!("EXTERNAL"),
        json!(true),
        json!("tlsv1.3"),
        json!("CN=anna,O=ours"),
        json!("CN=ca,O=ours"),
    ];
    assert_eq!(shown, expected);

    // Many messages of all sizes, in both directions at once.
    broker.verb(&["declare", "queue", "q"]).done();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    let sizes: Vec<usize> = (0..200).map(|n| [10, 500, 4_000, 17_000, 70_000, 300_000][n % 6] + n).collect();
    let send = async {
        for size in &sizes {
            sender.send(client::Message::data(vec![7; *size]).encode()).await.unwrap();
        }
    };
    let receive = async {
        for size in &sizes {
            let delivery = receiver.recv().await.unwrap();
            assert!(delivery.message.len() > *size);
            delivery.accept().unwrap();
        }
    };
    tokio::join!(send, receive);
    connection.close().await.unwrap();

    // A certificate does not forbid a password, and a name without a user is no login.
    open("guest:guest@", Some("anna")).await.unwrap().close().await.unwrap();
    assert!(open("", Some("nobody")).await.is_err());
    assert!(open("guest:guest@", None).await.is_err(), "a certificate is required");
    let log = directory.logged();
    let refused =
        log.lines().find(|line| line.contains("there is no user with this name of the certificate"));
    let refused = refused.unwrap_or_else(|| panic!("{log}"));
    assert!(refused.contains("user=\"nobody\"") && refused.contains("mechanism=\"EXTERNAL\""), "{refused}");
    assert!(log.contains("TLS: peer sent no certificates"), "{log}");
}

/// Who has a certificate says who they are. So nobody becomes the anonymous user because their certificate names no user.
#[tokio::test]
async fn nobody_is_anonymous_where_a_certificate_is_demanded() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    authority.sign("anna", "anna");
    for (demanded, logs_in) in [("false", true), ("true", false)] {
        let mut settings = authority.settings();
        settings.push(format!("ssl_options.cacertfile={}", authority.path("ca.pem")));
        settings.push("ssl_options.verify=verify_peer".to_owned());
        settings.push(format!("ssl_options.fail_if_no_peer_cert={demanded}"));
        settings.push("ssl_cert_login_from=subject_alternative_name".to_owned());
        settings.push("ssl_cert_login_san_type=email".to_owned());
        let broker = start(&directory, &settings);
        let tls = authority.client(Some("anna"));
        let url = format!("amqps://localhost:{}", port(&broker, "amqp/ssl")).parse().unwrap();
        let options = Options { tls: Some(tls.load().unwrap()), ..Options::default() };
        match Connection::open(&url, options).await {
            Ok(_) => assert!(logs_in),
            Err(error) => assert!(!logs_in && matches!(error, client::Error::Mechanism), "{error}"),
        }
    }
}

#[tokio::test]
async fn certificates_change_without_a_connection_lost() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "first");
    let broker = start(&directory, &authority.settings());
    let port = port(&broker, "amqp/ssl");
    let tls = authority.client(None);
    let url = format!("amqps://guest:guest@localhost:{port}").parse().unwrap();
    let open = async || {
        Connection::open(&url, Options { tls: Some(tls.load().unwrap()), ..Options::default() }).await
    };
    let before = open().await.unwrap();
    let check = "/api/health/checks/certificate-expiration/1/days";
    assert_eq!(broker.get(check).0, 200);
    assert_eq!(broker.get("/api/health/checks/certificate-expiration/9999/years").0, 503);

    let wait_for = async |words: &str| {
        while !directory.logged().contains(words) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    std::fs::write(directory.path().join("server.key"), "nonsense").unwrap();
    wait_for("cannot be used, the one before stays in use").await;
    let (status, answer) = broker.get(check);
    assert_eq!(status, 503, "{answer}");
    assert!(
        answer["expired"][0]["problem"].as_str().unwrap().contains("there is no PRIVATE KEY in it"),
        "{answer}"
    );
    open().await.unwrap();

    authority.sign("server", "second");
    wait_for("was read again: new connections use it").await;
    assert_eq!(broker.get(check).0, 200);
    let after = open().await.unwrap();
    for connection in [before, after] {
        let session = connection.session().await.unwrap();
        session.sender(Some("/exchanges/amq.fanout"), SenderOptions::default()).await.unwrap();
    }
    let read_again = || directory.logged().matches("was read again").count();
    let count = read_again();
    broker.hang_up();
    while read_again() == count {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    open().await.unwrap();
}

#[test]
fn a_bad_certificate_raises_an_alarm_that_stops_nobody() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    let settings = [authority.settings(), vec!["event_exchange.enabled=true".to_owned()]].concat();
    let broker = start(&directory, &settings);
    broker.verb(&["declare", "queue", "events"]).done();
    broker.verb(&["declare", "binding", "amq.rabbitmq.event", "events", "--key", "alarm.#"]).done();
    let is_raised = || {
        let shown = broker.verb(&["status"]).done();
        let is_shown = shown.contains("certificate: changed certificates cannot be used");
        let nodes = broker.get("/api/nodes").1;
        assert_eq!(nodes[0]["certificate_alarm"], is_shown);
        is_shown
    };
    assert!(!is_raised());
    std::fs::write(directory.path().join("server.key"), "nonsense").unwrap();
    wait_for(&directory, "certificate alarm: changed certificates cannot be used");
    assert!(is_raised());
    // Nobody is stopped, so the check of the alarms that stop publishers succeeds.
    assert_eq!(broker.get("/api/health/checks/alarms").0, 200);
    broker.verb(&["declare", "queue", "q"]).done();
    assert_eq!(broker.verb(&["send", "q", "hello"]).done(), "1 message sent to /queues/q: accepted");
    // A raised alarm is not raised again.
    let errors = || directory.logged().matches("cannot be used, the one before stays in use").count();
    let before = errors();
    broker.hang_up();
    while errors() == before {
        std::thread::sleep(Duration::from_millis(50));
    }
    authority.sign("server", "server");
    wait_for(&directory, "certificate alarm cleared");
    assert!(!is_raised());
    let get = json!({ "count": 10, "ackmode": "ack_requeue_true", "encoding": "auto" }).to_string();
    let events = loop {
        let rows = broker.ask("POST", "/api/queues/%2F/events/get", &get).1;
        let keys = rows.as_array().unwrap().iter().map(|row| row["routing_key"].clone());
        let sources =
            rows.as_array().unwrap().iter().map(|row| row["properties"]["headers"]["source"].clone());
        let events: Vec<_> = keys.zip(sources).collect();
        if events.iter().any(|(key, _)| key == "alarm.cleared") {
            break events;
        }
    };
    let event = |key: &str| (json!(key), json!("certificate"));
    assert_eq!(events, [event("alarm.set"), event("alarm.cleared")]);
}

/// A key of nobody, plain or as OpenSSL encrypts it with the password `secret`.
fn known_key(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/testdata").join(file)
}

#[test]
fn an_encrypted_key_is_read_with_its_password() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    let key = directory.path().join("server.key");
    authority.certify("server", &known_key("plain.pem"), &["localhost"]);
    std::fs::copy(known_key("scrypt.pem"), &key).unwrap();
    let with =
        |password: &str| [&authority.settings()[..], &[format!("ssl_options.password={password}")]].concat();
    let refused = |settings: &[String], says: &str| {
        let mut words = vec!["serve".to_owned(), "--data-dir".to_owned(), authority.path("data")];
        let more = ["listeners.tcp.default=none", "management.tcp.port=none", "prometheus.tcp.port=none"];
        let sets = settings.iter().cloned().chain(more.map(str::to_owned));
        sets.for_each(|set| words.extend(["--set".to_owned(), set]));
        let did = sluice(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(did.code, 1, "{did:?}");
        assert!(did.err.contains("server.key: ") && did.err.contains(says), "{did:?}");
        assert!(!did.err.contains("a-wrong-one"), "{did:?}");
    };
    refused(&authority.settings(), "its password is needed: set ssl_options.password");
    refused(&with("a-wrong-one"), "the password of ssl_options.password does not fit the key");

    let broker = start(&directory, &with("secret"));
    let port = port(&broker, "amqp/ssl");
    assert_eq!(server_of(port, &authority, "localhost").as_deref(), Ok("CN=server,O=ours"));
    std::fs::copy(known_key("old.pem"), &key).unwrap();
    wait_for(&directory, "cannot be used, the one before stays in use");
    let (status, answer) = broker.get("/api/health/checks/certificate-expiration/1/days");
    let problem = answer["expired"][0]["problem"].as_str().unwrap_or_default();
    assert!(status == 503 && problem.contains("openssl pkcs8 -topk8"), "{answer}");
    std::fs::copy(known_key("pbkdf2.pem"), &key).unwrap();
    wait_for(&directory, "was read again");
    assert_eq!(server_of(port, &authority, "localhost").as_deref(), Ok("CN=server,O=ours"));
    assert!(!directory.logged().contains("secret"), "{}", directory.logged());
}

#[test]
fn a_changed_key_with_another_password_is_not_used() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    let key = directory.path().join("server.key");
    authority.certify("server", &known_key("plain.pem"), &["localhost"]);
    std::fs::copy(known_key("plain.pem"), &key).unwrap();
    let settings = [&authority.settings()[..], &["ssl_options.password=a-wrong-one".to_owned()]].concat();
    let broker = start(&directory, &settings);
    std::fs::copy(known_key("pbkdf2.pem"), &key).unwrap();
    wait_for(&directory, "the password of ssl_options.password does not fit the key");
    assert_eq!(broker.get("/api/health/checks/certificate-expiration/1/days").0, 503);
    let port = port(&broker, "amqp/ssl");
    assert_eq!(server_of(port, &authority, "localhost").as_deref(), Ok("CN=server,O=ours"));
    assert!(!directory.logged().contains("a-wrong-one"), "{}", directory.logged());
}

#[test]
fn the_name_that_a_client_asks_for_picks_the_certificate() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    std::fs::copy(known_key("plain.pem"), directory.path().join("b.key")).unwrap();
    authority.certify("b", &known_key("plain.pem"), &["b.test", "*.b.test"]);
    let mut settings = authority.settings();
    let pair = [("certfile", "b.pem"), ("keyfile", "b.key")];
    settings.extend(pair.map(|(key, file)| format!("ssl_options.{key}.for-b={}", authority.path(file))));
    settings.push("prometheus.tcp.port=0".to_owned());
    let broker = start(&directory, &settings);
    for protocol in ["amqp/ssl", "https"] {
        let port = port(&broker, protocol);
        for (asked, got) in [("localhost", "server"), ("b.test", "b"), ("x.b.test", "b")] {
            let expected = format!("CN={got},O=ours");
            assert_eq!(server_of(port, &authority, asked), Ok(expected), "{protocol} {asked}");
        }
        let refused = server_of(port, &authority, "x.y.b.test").unwrap_err();
        assert!(refused.contains("localhost"), "the default pair: {refused}");
    }
    let (_, answer) = broker.get("/api/health/checks/certificate-expiration/9999/years");
    let rows: Vec<_> = answer["expired"].as_array().unwrap().iter().map(|row| &row["subject"]).collect();
    assert_eq!(rows, ["CN=server,O=ours", "CN=b,O=ours"]);
    let address = ("127.0.0.1", u16::try_from(port(&broker, "http/prometheus")).unwrap());
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    write!(socket, "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    socket.read_to_string(&mut metrics).unwrap();
    for file in ["server.pem", "b.pem"] {
        let file = authority.path(file);
        let sample = format!("sluice_tls_certificate_not_after_seconds{{file=\"{file}\"}} ");
        assert_eq!(metrics.matches(&sample).count(), 1, "{sample} in {metrics}");
    }

    authority.certify("b", &known_key("plain.pem"), &["new.test"]);
    wait_for(&directory, "was read again");
    assert_eq!(server_of(port(&broker, "amqp/ssl"), &authority, "new.test").as_deref(), Ok("CN=b,O=ours"));
    authority.sign("b", "other");
    std::fs::copy(known_key("plain.pem"), directory.path().join("b.key")).unwrap();
    wait_for(&directory, "b.key cannot be used together");
    assert_eq!(server_of(port(&broker, "amqp/ssl"), &authority, "new.test").as_deref(), Ok("CN=b,O=ours"));
}

#[tokio::test]
async fn the_depth_of_client_certificates_is_limited() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    authority.sign("near", "guest");
    authority.sign_indirectly("far", "guest");
    let mut settings = authority.settings();
    settings.push(format!("ssl_options.cacertfile={}", authority.path("ca.pem")));
    let more = ["ssl_options.verify=verify_peer", "ssl_cert_login_from=common_name"];
    settings.extend(more.map(str::to_owned));
    for depth in [None, Some("ssl_options.depth=1"), Some("ssl_options.depth=0")] {
        let settings: Vec<String> = settings.iter().cloned().chain(depth.map(str::to_owned)).collect();
        let broker = start(&directory, &settings);
        let port = port(&broker, "amqp/ssl");
        let open = async |who: &str| {
            let tls = authority.client(Some(who));
            let url = format!("amqps://localhost:{port}").parse().unwrap();
            Connection::open(&url, Options { tls: Some(tls.load().unwrap()), ..Options::default() }).await
        };
        open("near").await.unwrap().close().await.unwrap();
        let says = "more than 0 authorities are between it and a trusted one (ssl_options.depth)";
        match depth {
            Some("ssl_options.depth=0") => {
                assert!(open("far").await.is_err());
                assert!(directory.logged().contains(says), "{}", directory.logged());
            }
            _ => open("far").await.unwrap().close().await.unwrap(),
        }
    }
}

#[test]
fn a_start_without_sound_certificates_says_what_is_wrong() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    authority.sign("other", "other");
    let run = |sets: &[String]| {
        let mut words = vec!["serve".to_owned(), "--data-dir".to_owned(), authority.path("data")];
        for set in ["listeners.tcp.default=none", "management.tcp.port=none", "prometheus.tcp.port=none"] {
            words.extend(["--set".to_owned(), set.to_owned()]);
        }
        sets.iter().for_each(|set| words.extend(["--set".to_owned(), set.clone()]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        sluice(&words)
    };
    let file = |key: &str, file: &str| format!("ssl_options.{key}={}", authority.path(file));
    let listen = || "listeners.ssl.default=0".to_owned();
    let says = |did: Did, parts: &[&str]| {
        assert_eq!(did.code, 1, "{did:?}");
        let last = did.err.lines().last().unwrap_or_default().to_owned();
        parts.iter().for_each(|part| assert!(last.contains(part), "{part} is not in {last}"));
    };
    says(run(&[listen()]), &["--set: listeners.ssl.default: it needs a certificate", "ssl_options.certfile"]);
    says(
        run(&[listen(), file("certfile", "absent.pem"), file("keyfile", "server.key")]),
        &["listeners.ssl.default", "cannot read", "absent.pem"],
    );
    says(
        run(&[listen(), file("certfile", "server.pem"), file("keyfile", "other.key")]),
        &["server.pem", "other.key", "cannot be used together"],
    );
    says(
        run(&[listen(), file("certfile", "server.key"), file("keyfile", "server.key")]),
        &["server.key: there is no CERTIFICATE in it"],
    );
    let pair = [listen(), file("certfile", "server.pem"), file("keyfile", "server.key")];
    let with = |more: &[String]| run(&[&pair[..], more].concat());
    let verify = || "ssl_options.verify=verify_peer".to_owned();
    says(with(&[verify()]), &["ssl_options.cacertfile"]);
    says(
        with(&[verify(), file("cacertfile", "ca.pem"), file("crl_file", "server.pem")]),
        &["server.pem: there is no X509 CRL in it"],
    );
    says(
        with(&[file("certfile.b", "other.pem"), file("keyfile.b", "server.key")]),
        &["other.pem", "server.key", "cannot be used together"],
    );
    let half = with(&[file("certfile.b", "other.pem")]);
    assert!(half.code != 0 && half.err.contains("no effect without ssl_options.keyfile.b"), "{half:?}");
    says(run(&["management.ssl.port=0".to_owned()]), &["--set: management.ssl.port: it needs a certificate"]);
}
