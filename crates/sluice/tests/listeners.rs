//! The ways to an AMQP listener: over proxies that name their clients, and over a Unix domain socket.

use crate::{authority, broker};

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use amqp10::DeliveryState;
use amqp10::frame::SASL_HEADER;
use authority::{Authority, start};
use broker::verb::{Did, ask_as, ask_with, basic, finish, sluice};
use broker::{Broker, Directory, Starting};
use client::{Connection, Credentials, Error, Message, Options, ReceiverOptions, SenderOptions, Url};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tls::ClientOptions;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

const TRUST_THIS_MACHINE: [&str; 2] = ["proxy_protocol=true", "proxy_protocol.trusted.1=127.0.0.1"];

fn login(user: &str) -> Option<Credentials> {
    let url: Url = format!("amqp://{user}:{user}@localhost").parse().unwrap();
    url.credentials
}

/// Makes a header of version 1.
fn line(peer: &str, port: u16) -> Vec<u8> {
    format!("PROXY TCP4 {peer} 198.51.100.1 {port} 5672\r\n").into_bytes()
}

/// Makes a header of version 2.
fn binary(command: u8, family: u8, behind: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, family]);
    header.extend((behind.len() as u16).to_be_bytes());
    header.extend(behind);
    header
}

/// Connects like a proxy that sends the header in pieces of this many bytes.
async fn over_proxy(port: u16, header: &[u8], piece: usize) -> tokio::net::TcpStream {
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for piece in header.chunks(piece) {
        socket.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    socket
}

async fn open(broker: &Broker, header: &[u8], user: &str) -> Result<Connection, Error> {
    let socket = over_proxy(broker.amqp_port, header, header.len()).await;
    Connection::over(socket, login(user), Options::default()).await
}

/// Returns the fields of the only connection.
fn shown(broker: &Broker, fields: &[&str]) -> Vec<Value> {
    let rows = broker.get("/api/connections").1;
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows}");
    fields.iter().map(|field| rows[0][field].clone()).collect()
}

#[tokio::test]
async fn the_client_of_a_proxy_is_the_peer() {
    let directory = Directory::new("proxy");
    let broker = Starting::spawn(&directory, &TRUST_THIS_MACHINE).finish();
    broker.verb_with_input(&["add", "user", "anna", "--password-file", "-"], b"anna").done();
    broker.verb(&["set", "permission", "anna", ".*", ".*", ".*"]).done();

    let connection = open(&broker, &line("192.0.2.1", 56324), "anna").await.unwrap();
    assert_eq!(
        shown(&broker, &["name", "peer_host", "peer_port", "host", "port"]),
        [
            json!("192.0.2.1:56324 -> 198.51.100.1:5672"),
            json!("192.0.2.1"),
            json!(56324),
            json!("198.51.100.1"),
            json!(5672)
        ]
    );
    connection.close().await.unwrap();
    assert!(directory.logged().contains("192.0.2.1:56324 -> 198.51.100.1:5672"));

    // A proxy whose listener takes IPv6 and IPv4.
    let mapped = b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.1 56325 5672\r\n";
    let connection = open(&broker, mapped, "anna").await.unwrap();
    assert_eq!(
        shown(&broker, &["name", "peer_host", "host"]),
        [json!("192.0.2.1:56325 -> 198.51.100.1:5672"), json!("192.0.2.1"), json!("198.51.100.1")]
    );
    connection.close().await.unwrap();

    let mut addresses = [0; 36];
    addresses[..2].copy_from_slice(&[0x20, 0x01]);
    (addresses[15], addresses[31], addresses[33], addresses[34]) = (1, 2, 3, 4);
    let field = [&addresses[..], &[0xea, 0, 3, 1, 2, 3]].concat();
    let socket = over_proxy(broker.amqp_port, &binary(0x21, 0x21, &field), 1).await;
    let connection = Connection::over(socket, login("anna"), Options::default()).await.unwrap();
    assert_eq!(shown(&broker, &["name"]), [json!("[2001::1]:3 -> [::2]:1024")], "sent byte by byte");
    connection.close().await.unwrap();

    // guest may log in from this machine only. The proxy is on it.
    let refused = open(&broker, &line("192.0.2.1", 1), "guest").await.err().expect("guest is elsewhere");
    assert!(refused.to_string().contains("can only connect via localhost"), "{refused}");
    for (header, name) in [
        (line("127.0.0.1", 7), "127.0.0.1:7 -> "),
        (binary(0x20, 0, b""), "127.0.0.1:"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1:"),
    ] {
        let connection = open(&broker, &header, "guest").await.unwrap();
        let shown = shown(&broker, &["name"])[0].as_str().unwrap().to_owned();
        assert!(shown.starts_with(name), "{shown}");
        connection.close().await.unwrap();
    }
    assert!(broker.terminate().success());
}

/// A listener on all addresses of IPv6 takes clients of IPv4, too.
#[tokio::test]
async fn a_client_of_ipv4_has_an_address_of_ipv4() {
    let directory = Directory::new("both");
    let sets = ["listeners.tcp.default=[::]:0", "management.tcp.ip=::"];
    let broker = Starting::spawn(&directory, &sets).finish();
    // A page of another web site, and a wrong password.
    let from = ["Sec-Fetch-Site: cross-site"];
    let guest = basic("guest", "guest");
    assert_eq!(ask_with(broker.http_port, &guest, &from, "PUT", "/api/queues/%2F/q", "{}").0, 403);
    assert_eq!(ask_as(broker.http_port, &basic("guest", "guess"), "GET", "/api/whoami", "").0, 401);
    for line in ["refused an HTTP request", "what=\"login\" result=\"refused\""] {
        assert!(directory.logged().contains(line), "{line}: {}", directory.logged());
    }
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", broker.amqp_port)).await.unwrap();
    let connection = Connection::over(socket, login("guest"), Options::default()).await.unwrap();
    let [peer, host, name] = shown(&broker, &["peer_host", "host", "name"]).try_into().unwrap();
    assert_eq!([peer, host], [json!("127.0.0.1"), json!("127.0.0.1")]);
    assert!(name.as_str().is_some_and(|name| name.starts_with("127.0.0.1:")), "{name}");
    assert!(!directory.logged().contains("ffff"), "{}", directory.logged());
    connection.close().await.unwrap();
}

#[tokio::test]
async fn the_log_says_how_to_make_a_user_for_other_machines() {
    const ADVICE: &str = "to make a user who can connect from other machines: sluice add user NAME";
    let directory = Directory::new("elsewhere");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    let mut settings = authority.settings();
    settings.retain(|setting| !setting.starts_with("listeners.ssl.default"));
    settings.push("listeners.ssl.default=0.0.0.0:0".to_owned());
    settings.extend(TRUST_THIS_MACHINE.map(str::to_owned));
    let said = || directory.logged().matches(ADVICE).count();
    let broker = start(&directory, &settings);
    let logged = directory.logged();
    let warning = logged.lines().find(|line| line.contains(ADVICE)).unwrap_or_else(|| panic!("{logged}"));
    assert!(warning.contains("nobody can log in from there: user 'guest' can only connect via localhost"));
    assert!(warning.contains("other machines can reach 0.0.0.0:"), "{warning}");
    let refused = open(&broker, &line("192.0.2.1", 1), "guest").await.err().expect("guest is elsewhere");
    assert!(!refused.to_string().contains("sluice add user"), "the client is told nothing: {refused}");
    assert_eq!(said(), 2, "at the start, and at the login");
    let logged = directory.logged();
    let refusal = logged.lines().rfind(|line| line.contains(ADVICE)).unwrap();
    assert!(refusal.contains("peer=192.0.2.1"), "{refusal}");

    // What the log says works, and is not said again.
    broker.verb_with_input(&["add", "user", "anna", "--password-file", "-"], b"anna").done();
    broker.verb(&["set", "permission", "anna", ".*", ".*", ".*"]).done();
    open(&broker, &line("192.0.2.1", 1), "anna").await.unwrap().close().await.unwrap();
    assert!(broker.terminate().success());
    drop(start(&directory, &settings));
    assert_eq!(said(), 2);
}

/// Sends these bytes, and waits until the broker closes the connection. Returns what it answered.
fn answer(port: u16, sent: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.write_all(sent).unwrap();
    let mut answer = Vec::new();
    // A connection that is closed with bytes unread is reset.
    drop(socket.read_to_end(&mut answer));
    answer
}

#[test]
fn a_connection_without_a_header_is_closed_and_explained() {
    let directory = Directory::new("proxy");
    let sets = [&TRUST_THIS_MACHINE[..], &["handshake_timeout=500"]].concat();
    let broker = Starting::spawn(&directory, &sets).finish();
    for (sent, why) in [
        (&b"AMQP\x03\x01\x00\x00"[..], "the connection starts with 'AMQP\\x03\\x01\\x00\\x00'"),
        (b"PROXY TCP4 a b c d\r\n", "an address is not of its family"),
        (&binary(0x21, 0x12, &[0; 12]), "family and protocol are 0x12; 0x11 (TCP over IPv4)"),
        (&binary(0x21, 0x11, &[0; 5000]), "it has 5016 bytes; at most 4096 are accepted"),
        // Not all of it ever comes.
        (b"PROXY TCP4 192.0.2.1", "it did not arrive within handshake_timeout"),
        (b"", "it did not arrive within handshake_timeout"),
    ] {
        assert_eq!(answer(broker.amqp_port, sent), b"", "{why}");
        let log = directory.logged();
        assert!(log.contains("no valid header of the PROXY protocol: ") && log.contains(why), "{why}: {log}");
    }
    // The time of the header is part of the time of the handshake.
    assert!(answer(broker.amqp_port, b"PROXY UNKNOWN\r\n").is_empty());
    assert_eq!(broker.get("/api/overview").1["object_totals"]["connections"], json!(0));
    assert!(broker.terminate().success());
}

#[test]
fn only_trusted_proxies_may_connect() {
    let directory = Directory::new("proxy");
    let sets = ["proxy_protocol=true", "proxy_protocol.trusted.lb=192.0.2.0/24"];
    let broker = Starting::spawn(&directory, &sets).finish();
    assert_eq!(answer(broker.amqp_port, &line("192.0.2.1", 1)), b"");
    let log = directory.logged();
    assert!(log.contains("a connection from 127.0.0.1:"), "{log}");
    assert!(log.contains("no proxy_protocol.trusted.N contains this address"), "{log}");

    let mut command = broker::serve(&directory.path().join("other"));
    let did = finish(command.args(["--set", "proxy_protocol=true"]), b"");
    did.refused(2, &["proxy_protocol: nobody could connect: set proxy_protocol.trusted.1"]);
}

#[test]
fn clients_of_one_proxy_do_not_count_as_one() {
    let directory = Directory::new("proxy");
    let sets = [&TRUST_THIS_MACHINE[..], &["handshake_max_per_address=2"]].concat();
    let broker = Starting::spawn(&directory, &sets).finish();
    let begin = |from: &str, port: u16| {
        let mut socket = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
        socket.write_all(&[&line(from, port)[..], &SASL_HEADER].concat()).unwrap();
        // The answer shows that the header has been read.
        let mut answer = [0; SASL_HEADER.len()];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, SASL_HEADER);
        socket
    };
    let mut others: Vec<TcpStream> = (1..=6).map(|n| begin(&format!("192.0.2.{n}"), 1)).collect();
    let mut same: Vec<TcpStream> = (1..=3).map(|port| begin("203.0.113.9", port)).collect();
    drop(same[0].read_to_end(&mut Vec::new()));
    assert!(
        directory.logged().contains("the oldest connection that had not logged in was closed for a new one")
    );
    for socket in others.iter_mut().chain(&mut same[1..]) {
        socket.set_nonblocking(true).unwrap();
        // The mechanisms are there, and behind them no end.
        let error = loop {
            match socket.read(&mut [0; 1024]) {
                Ok(n) => assert!(n > 0, "a connection was closed for another address"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn the_header_comes_before_tls() {
    let directory = Directory::new("proxy");
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let path = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
    std::fs::write(path("server.pem"), certificate.pem()).unwrap();
    std::fs::write(path("server.key"), key.serialize_pem()).unwrap();
    let files = [
        format!("ssl_options.certfile={}", path("server.pem")),
        format!("ssl_options.keyfile={}", path("server.key")),
    ];
    let mut sets = [&TRUST_THIS_MACHINE[..], &["listeners.ssl.default=0", "loopback_users=none"]].concat();
    sets.extend(files.iter().map(String::as_str));
    let broker = Starting::spawn(&directory, &sets).finish();
    let listeners = broker.get("/api/overview").1["listeners"].clone();
    let row = listeners.as_array().unwrap().iter().find(|row| row["protocol"] == "amqp/ssl").unwrap();
    let port = u16::try_from(row["port"].as_u64().unwrap()).unwrap();

    let tls = ClientOptions { authorities: Some(path("server.pem").into()), identity: None }.load().unwrap();
    let socket = over_proxy(port, &line("192.0.2.1", 56324), 5).await;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(tls).connect(name, socket).await.unwrap();
    let connection = Connection::over(stream, login("guest"), Options::default()).await.unwrap();
    assert_eq!(
        shown(&broker, &["name", "ssl"]),
        [json!("192.0.2.1:56324 -> 198.51.100.1:5672"), json!(true)]
    );
    connection.close().await.unwrap();

    // What TLS says about a client names the client too.
    assert_eq!(
        answer(port, &[&line("192.0.2.2", 2)[..], b"AMQP\x00\x01\x00\x00"].concat())[..1],
        [21],
        "an alert"
    );
    let said = "TLS: the client does not use TLS, and this port expects it connection=\"192.0.2.2:2 -> ";
    assert!(directory.logged().contains(said), "{}", directory.logged());
    // A client of TLS without a header is not one of TLS.
    assert_eq!(answer(port, b"\x16\x03\x01\x00\x05hello"), b"");
    assert!(
        directory.logged().contains("the connection starts with '\\x16\\x03\\x01"),
        "{}",
        directory.logged()
    );
}

/// Starts a broker with a Unix domain socket at `path`, and waits until it exits.
fn refused(directory: &Directory, path: &Path) -> Did {
    let mut command = broker::serve(&directory.path().join("other"));
    command.args(["--set", &format!("listeners.unix.default={}", path.display())]).stdin(Stdio::null());
    finish(&mut command, b"")
}

#[tokio::test]
async fn a_unix_socket_is_a_way_from_this_machine() {
    // The path of a socket must be short, and the usual directory of tests may not be.
    let directory = Directory::within(&std::env::temp_dir(), "sluice");
    let path = directory.path().join("amqp.sock");
    let shown_path = format!("unix:{}", path.display());
    let set = format!("listeners.unix.default={}", path.display());
    let broker = Starting::spawn(&directory, &[&set]).finish();
    let permissions = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(permissions(&path), 0o600);
    let listeners = broker.get("/api/overview").1["listeners"].clone();
    let row = listeners.as_array().unwrap().iter().find(|row| row["ip_address"] == shown_path.as_str());
    assert_eq!(row.map(|row| &row["port"]), Some(&json!(0)), "{listeners}");

    // guest may log in from this machine only.
    broker.verb(&["declare", "queue", "q"]).done();
    let socket = tokio::net::UnixStream::connect(&path).await.unwrap();
    let connection = Connection::over(socket, login("guest"), Options::default()).await.unwrap();
    assert_eq!(
        shown(&broker, &["name", "peer_host", "peer_port", "host", "port"]),
        [
            json!(format!("{shown_path}#1 -> {shown_path}")),
            json!(shown_path),
            Value::Null,
            json!(shown_path),
            Value::Null
        ]
    );
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    for size in [1, 1_000_000] {
        let send = sender.send(Message::data(vec![7; size]).encode());
        let (outcome, delivery) = tokio::join!(send, receiver.recv());
        assert_eq!(outcome.unwrap(), DeliveryState::Accepted);
        let delivery = delivery.unwrap();
        assert_eq!(Message::decode(&delivery.message).unwrap().body_bytes().unwrap().len(), size);
        delivery.accept().unwrap();
    }
    connection.close().await.unwrap();

    // The commands that speak AMQP take the path as the host of their URL.
    let encoded = path.display().to_string().replace('/', "%2F");
    let url = format!("amqp+unix://guest:guest@{encoded}");
    sluice(&["send", "q", "over the socket", "--url", &url]).done();
    let got = sluice(&["recv", "q", "--count", "1", "--url", &url]).done();
    assert!(got.contains("over the socket"), "{got}");
    let gone = format!("amqp+unix://guest:guest@{encoded}.gone");
    sluice(&["send", "q", "m", "--url", &gone]).refused(3, &[&format!("{shown_path}.gone")]);

    let did = refused(&directory, &path);
    did.refused(1, &[&shown_path, "another process listens on it", "listeners.unix.default"]);

    // A killed broker leaves the file. The next one replaces it.
    broker.kill();
    assert!(path.exists());
    let broker = Starting::spawn(&directory, &[&set, "listeners.unix.mode=0660"]).finish();
    assert_eq!(permissions(&path), 0o660);
    tokio::net::UnixStream::connect(&path).await.unwrap();
    assert!(broker.terminate().success());
    assert!(!path.exists(), "a clean stop removes the file");

    std::fs::write(&path, "precious").unwrap();
    let did = refused(&directory, &path);
    did.refused(1, &[&shown_path, "there is a file that is not a socket", "listeners.unix.default"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
