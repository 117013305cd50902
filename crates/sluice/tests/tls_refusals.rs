//! Whom TLS keeps out, and what the log says then. The words of the log are those of a table in docs/operations/network.md.

use crate::{authority, broker};

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, port, server_of, start, wait_for};
use broker::Directory;
use client::{Connection, Error, Options};
use tls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    ALL_VERSIONS, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

/// The header of the table in docs/operations/network.md.
const TABLE: &str = "| what | the log says |";

/// Returns the rows of the table: the first cell, and the words that the log uses.
fn table() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/network.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| *line != TABLE).skip(2).map_while(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [what, says] = cells[..] else { panic!("{line}") };
        Some((what.to_owned(), says.trim_matches('`').to_owned()))
    });
    rows.collect()
}

/// Returns true if the line says that TLS has failed with these words. In them, `...` stands for any text.
fn says(line: &str, words: &str) -> bool {
    let line = line.split_once("TLS: ").and_then(|(_, said)| said.rsplit_once(" connection="));
    let Some((mut rest, _)) = line else { return false };
    let mut parts = words.split("...");
    let Some(first) = parts.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = first;
    for part in parts {
        let Some(at) = rest.rfind(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

/// Returns the first message of a client of TLS 1.2 or older, with these cipher suites.
fn hello(version: u16, suites: &[u16], extensions: &[u8]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.extend([7; 32]);
    let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
    // No session.
    body.push(0);
    body.extend(length(2 * suites.len()));
    body.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
    // No compression.
    body.extend([1, 0]);
    body.extend(length(extensions.len()));
    body.extend(extensions);
    let record = [&[22, 3, 1][..], &length(4 + body.len()), &[1, 0], &length(body.len())].concat();
    [record, body].concat()
}

/// The extensions of a client that knows elliptic curves: its groups (secp256r1), its formats of points, and its signatures
/// (ecdsa_secp256r1_sha256).
const EXTENSIONS: &[u8] = &[0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3];

/// The extensions of a client that knows no elliptic curves: its signatures (rsa_pkcs1_sha256).
const NO_CURVES: &[u8] = &[0, 13, 0, 4, 0, 2, 4, 1];

/// The extensions of a client of TLS 1.1. It names no signatures.
const OLD_EXTENSIONS: &[u8] = &[0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0];

/// Writes some bytes to a port, and reads until the broker closes the connection.
fn shout(port: u64, bytes: &[u8]) {
    let mut socket = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    socket.write_all(bytes).unwrap();
    // The end may be a reset.
    drop(socket.read_to_end(&mut Vec::new()));
}

/// Returns a client that speaks these versions and shows this certificate. It does not check its own certificate first.
fn client_of(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    who: Option<&str>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.path("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions);
    let builder = builder.unwrap().with_root_certificates(roots);
    let Some(who) = who else { return Arc::new(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_file_iter(authority.path(&format!("{who}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(authority.path(&format!("{who}.key"))).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let shown = CertifiedKey::new(chain.map(Result::unwrap).collect(), key);
    Arc::new(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown))))
}

/// Connects, and logs in as this user, or without one as the user whom the certificate names.
async fn log_in(port: u64, login: &str, tls: Arc<ClientConfig>) -> Result<Connection, Error> {
    let url = format!("amqps://{login}localhost:{port}").parse().unwrap();
    Connection::open(&url, Options { tls: Some(tls), ..Options::default() }).await
}

/// The settings of a broker that requires certificates of clients, directly from the authority.
fn strict(authority: &Authority) -> Vec<String> {
    let mut settings = authority.settings();
    settings.extend([
        format!("ssl_options.cacertfile={}", authority.path("ca.pem")),
        format!("ssl_options.crl_file={}", authority.path("revoked.pem")),
        "ssl_options.verify=verify_peer".to_owned(),
        "ssl_options.fail_if_no_peer_cert=true".to_owned(),
        "ssl_options.depth=0".to_owned(),
        "ssl_cert_login_from=common_name".to_owned(),
    ]);
    settings
}

#[tokio::test]
async fn the_log_says_why_tls_refuses_a_client() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    let other = Authority::make(directory.path(), "other");
    authority.sign("server", "server");
    authority.sign("sound", "guest");
    authority.sign_version_1("old", "guest");
    authority.sign_expired("expired", "guest");
    authority.sign_numbered("revoked-one", "guest", 7);
    authority.sign_indirectly("far", "guest");
    other.sign("foreign", "guest");
    authority.revoke("revoked", &[7]);
    let broker = start(&directory, &strict(&authority));
    let only_13 = {
        let directory = Directory::new("tls");
        let settings = [authority.settings(), vec!["ssl_options.versions.1=tlsv1.3".to_owned()]].concat();
        (start(&directory, &settings), directory)
    };
    let at = port(&broker, "amqp/ssl");
    let rows = table();
    assert!(!rows.is_empty(), "the table has moved");
    for (what, words) in rows {
        let (mut directory, mut certificate) = (&directory, None);
        let before = directory.logged().matches("TLS: ").count();
        match what.as_str() {
            "TLS 1.1 and older" => shout(at, &hello(0x0302, &[0xc009], OLD_EXTENSIONS)),
            "TLS 1.2, if `ssl_options.versions` has only TLS 1.3" => {
                directory = &only_13.1;
                shout(port(&only_13.0, "amqp/ssl"), &hello(0x0303, &[0xc02b], EXTENSIONS));
            }
            "cipher suites with CBC, RC4 or 3DES" => {
                // TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_RC4_128_SHA and
                // TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA.
                shout(at, &hello(0x0303, &[0xc009, 0xc007, 0xc008], EXTENSIONS));
            }
            "TLS 1.2 without ECDHE: only the key exchanges RSA and DHE" => {
                // TLS_RSA_WITH_AES_128_GCM_SHA256 and TLS_DHE_RSA_WITH_AES_128_GCM_SHA256. Such a client names no curves.
                shout(at, &hello(0x0303, &[0x009c, 0x009e], NO_CURVES));
            }
            "a client without TLS" => shout(at, b"AMQP\x03\x01\x00\x00"),
            "client certificates of X.509 version 1" => certificate = Some("old"),
            "client certificates that are expired" => certificate = Some("expired"),
            "client certificates that are revoked" => certificate = Some("revoked-one"),
            "client certificates of another authority" => certificate = Some("foreign"),
            "client certificates with too many authorities in between" => certificate = Some("far"),
            "no client certificate where one is required" => {
                assert!(log_in(at, "", client_of(&authority, ALL_VERSIONS, None)).await.is_err());
            }
            other => panic!("no client is refused for this row: {other}"),
        }
        if certificate.is_some() {
            assert!(log_in(at, "", client_of(&authority, ALL_VERSIONS, certificate)).await.is_err());
        }
        let before = if directory.path() == only_13.1.path() { 0 } else { before };
        while directory.logged().matches("TLS: ").count() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let logged = directory.logged();
        for line in logged.lines().filter(|line| line.contains("TLS: ")).skip(before) {
            assert!(says(line, &words), "{what}: the table has {words}, and the log {line}");
        }
    }
    // So the refusals above are due to what the clients did.
    let sound = client_of(&authority, ALL_VERSIONS, Some("sound"));
    log_in(at, "", sound).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_revoked_certificate_is_refused() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    authority.sign_numbered("one", "guest", 1);
    authority.sign_numbered("two", "guest", 2);
    authority.revoke("revoked", &[1]);
    let mut settings = strict(&authority);
    // The only port with TLS, so that the log has one line for each change.
    settings.retain(|setting| !setting.starts_with("management.ssl.port"));
    let broker = start(&directory, &settings);
    let at = port(&broker, "amqp/ssl");
    let log_in = async |who: &str| log_in(at, "", client_of(&authority, ALL_VERSIONS, Some(who))).await;
    assert!(log_in("one").await.is_err());
    let second = log_in("two").await.unwrap();
    // A list that changes counts for new connections.
    authority.revoke("revoked", &[1, 2]);
    wait_for(&directory, "was read again");
    assert!(log_in("two").await.is_err());
    second.session().await.unwrap();
    authority.revoke("revoked", &[]);
    while directory.logged().matches("was read again").count() < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    log_in("one").await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn both_versions_are_spoken_unless_the_settings_name_one() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    authority.sign("server", "server");
    let only = |version: &str| Some(format!("ssl_options.versions.1=tlsv1.{version}"));
    for (setting, old, new) in [(None, true, true), (only("3"), false, true), (only("2"), true, false)] {
        let settings: Vec<String> = authority.settings().into_iter().chain(setting.clone()).collect();
        let broker = start(&directory, &settings);
        let at = port(&broker, "amqp/ssl");
        for (version, name, gets_in) in [(&version::TLS12, "tlsv1.2", old), (&version::TLS13, "tlsv1.3", new)]
        {
            match log_in(at, "guest:guest@", client_of(&authority, &[version], None)).await {
                Ok(connection) => {
                    assert!(gets_in, "{name} with {setting:?}");
                    let rows = broker.get("/api/connections").1;
                    assert_eq!(rows[0]["ssl_protocol"], name);
                    connection.close().await.unwrap();
                    while broker.get("/api/connections").1 != serde_json::json!([]) {}
                }
                Err(error) => assert!(!gets_in, "{name} with {setting:?}: {error}"),
            }
        }
    }
}

/// Asks a port over HTTPS as guest. Returns the answer, or why the server is not trusted.
fn ask(port: u64, authority: &Authority, path: &str) -> Result<String, String> {
    let config = authority.client(None).load().unwrap();
    let client = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    let mut stream = StreamOwned::new(client, socket);
    let authorization = broker::verb::basic("guest", "guest");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    )
    .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Ok(answer)
}

#[test]
fn management_and_metrics_answer_over_https_with_their_certificates() {
    let directory = Directory::new("tls");
    let authority = Authority::make(directory.path(), "ca");
    let other = Authority::make(directory.path(), "other");
    authority.sign("server", "server");
    authority.sign("metrics", "metrics");
    other.sign("foreign", "foreign");
    let shared = [authority.settings(), vec!["prometheus.ssl.port=0".to_owned()]].concat();
    let own = |key: &str, file: &str| {
        let pair = [("certfile", "pem"), ("keyfile", "key")];
        pair.map(|(what, ending)| format!("{key}.ssl.{what}={}", authority.path(&format!("{file}.{ending}"))))
    };
    let separate = [&shared[..], &own("prometheus", "metrics"), &own("management", "foreign")].concat();
    for (settings, of_metrics, of_management) in
        [(shared, "server", Some("server")), (separate, "metrics", None)]
    {
        let broker = start(&directory, &settings);
        let (management, metrics) = (port(&broker, "https"), port(&broker, "https/prometheus"));
        assert_eq!(server_of(metrics, &authority, "localhost"), Ok(format!("CN={of_metrics},O=ours")));
        let answer = ask(metrics, &authority, "/metrics").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("rabbitmq_build_info{"), "{answer}");
        let answer = ask(management, &authority, "/api/overview");
        match of_management {
            Some(name) => {
                let expected = Ok(format!("CN={name},O=ours"));
                assert_eq!(server_of(management, &authority, "localhost"), expected);
                let answer = answer.unwrap();
                assert!(
                    answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"rabbitmq_version\""),
                    "{answer}"
                );
            }
            // The certificate of the port's own settings is from an authority that the client does not trust.
            None => assert!(answer.clone().unwrap_err().contains("UnknownIssuer"), "{answer:?}"),
        }
    }
}
