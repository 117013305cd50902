//! Looks for passwords, tokens and hashes in everything that the broker and its verbs write: the log, the metrics, answers
//! over HTTP, errors, and the arguments of processes.

use crate::amqp091::Client;
use crate::broker;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use admin::{Method, ROUTES};
use amqp10::Value as AmqpValue;
use amqp091::TableWriter;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use broker::verb::{Did, ask_as as ask, basic, finish};
use broker::{Broker, Directory, PROGRAM, Starting};
use bytes::BytesMut;
use client::{Connection, Management, Options, ReceiverOptions};
use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

/// The secrets of the configuration.
const DEFAULT_PASS: &str = "Zq1-password-of-guest";
const DEFAULT_USERS_PASS: &str = "Zq2-password-of-watcher";
const SIGNING_SECRET: &str = "Zq3-secret-that-signs-tokens-of-this-test";

/// Passwords that clients and administrators send.
const WRONG_PASS: &str = "Zq4-wrong-password";
const ANN_PASS: &str = "Zq5-password-of-ann";
const NEXT_PASS: &str = "Zq6-next-password-of-ann";
const BAD_BODY: &str = "Zq7-password-in-a-bad-body";
const IN_PARAMETER: &str = "Zq8-password-in-a-parameter";
const TO_HASH: &str = "Zq9-password-to-hash";
const OF_VERBS: &str = "ZqA-password-of-a-verb";
const IN_HEADER: &str = "ZqB-text-of-a-bad-header";

/// The query of a URL in the configuration.
const IN_URL: &str = "ZqC-token-in-a-url";

/// Everything that must not be written anywhere.
struct Secrets(Vec<String>);

impl Secrets {
    fn new() -> Self {
        let mut all = Self(Vec::new());
        for password in [
            DEFAULT_PASS,
            DEFAULT_USERS_PASS,
            SIGNING_SECRET,
            WRONG_PASS,
            ANN_PASS,
            NEXT_PASS,
            BAD_BODY,
            IN_PARAMETER,
            TO_HASH,
            OF_VERBS,
            IN_HEADER,
            IN_URL,
        ] {
            all.add(password.as_bytes());
            all.0.push(password.to_owned());
            for user in ["guest", "ann", "mona", "mary", "watcher", "anybody", ""] {
                all.add(format!("{user}:{password}").as_bytes());
            }
        }
        all
    }

    /// Adds the usual encodings of some bytes.
    fn add(&mut self, octets: &[u8]) {
        let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        self.0.extend([
            hex.to_uppercase(),
            hex,
            STANDARD_NO_PAD.encode(octets),
            URL_SAFE_NO_PAD.encode(octets),
        ]);
    }

    /// Adds the payload and the signature of a token. Its header is no secret, and the same in all tokens.
    fn add_token(&mut self, token: &str) {
        self.0.extend(token.split('.').skip(1).map(str::to_owned));
    }

    /// Adds the hashes in an answer to an administrator.
    fn add_hashes(&mut self, answer: &str) {
        let users: Value = serde_json::from_str(answer).unwrap();
        let users = users.as_array().or(users["users"].as_array()).unwrap().clone();
        for hash in users.iter().filter_map(|user| user["password_hash"].as_str()) {
            self.add(&STANDARD.decode(hash).unwrap());
        }
        // An empty hash is that of a user without a password.
        self.0.retain(|secret| !secret.is_empty());
    }

    #[track_caller]
    fn check(&self, what: &str, text: &str) {
        for secret in &self.0 {
            assert!(!text.contains(secret.as_str()), "{what} has the secret '{secret}':\n{text}");
        }
    }
}

/// Writes the files of a broker with all kinds of secrets, and returns the path of its configuration.
fn configure(folder: &Path) -> String {
    let path = |file: &str| folder.join(file).display().to_string();
    let known = |file: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/testdata").join(file);
    let key = KeyPair::from_pem(&std::fs::read_to_string(known("plain.pem")).unwrap()).unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(path("server.pem"), certificate.pem()).unwrap();
    // It is encrypted with the password `secret`.
    std::fs::copy(known("pbkdf2.pem"), path("server.key")).unwrap();
    std::fs::write(path("signing"), SIGNING_SECRET).unwrap();
    let text = format!(
        "default_pass = {DEFAULT_PASS}\n\
         default_users.watcher.tags = monitoring\n\
         default_users.watcher.password = {DEFAULT_USERS_PASS}\n\
         listeners.ssl.default = 0\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.password = secret\n\
         auth_backends.1 = oauth2\n\
         auth_backends.2 = internal\n\
         auth_oauth2.resource_server_id = rabbitmq\n\
         auth_oauth2.algorithms.1 = HS256\n\
         auth_oauth2.signing_keys.k = {}\n\
         auth_oauth2.resource_servers.other.oauth_provider_id = p\n\
         auth_oauth2.oauth_providers.p.jwks_uri = https://127.0.0.1:1/jwks?token={IN_URL}\n\
         auth_http.user_path = http://127.0.0.1:1/user?token={IN_URL}\n\
         track_auth_attempt_source = true\n",
        path("server.pem"),
        path("server.key"),
        path("signing"),
    );
    std::fs::write(path("sluice.conf"), text).unwrap();
    path("sluice.conf")
}

/// Returns a token of ann that expires at this time from now.
fn token(seconds: i64, scope: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let claims = json!({ "sub": "ann", "aud": "rabbitmq", "exp": now + seconds, "scope": scope });
    encode(&Header::default(), &claims, &EncodingKey::from_secret(SIGNING_SECRET.as_bytes())).unwrap()
}

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

async fn connect(broker: &Broker, user: &str, password: &str) -> Result<Connection, client::Error> {
    let url = format!("amqp://{user}:{password}@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
    Connection::open(&url, Options::default()).await
}

/// Runs a verb against a broker, as this user.
fn verb(broker: &Broker, login: &str, words: &[&str], input: &str) -> Did {
    let mut command = Command::new(PROGRAM);
    command
        .args(words)
        .env("SLUICE_URL", format!("amqp://{login}@127.0.0.1:{}", broker.amqp_port))
        .env("SLUICE_HTTP_URL", format!("http://{login}@127.0.0.1:{}", broker.http_port));
    finish(&mut command, input.as_bytes())
}

/// Returns a connection with a token.
async fn over_amqp(broker: &Broker, secrets: &mut Secrets) -> Connection {
    let all = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*";
    let (good, expired) = (token(3600, all), token(-3600, all));
    let forged = good.replace('.', ".x");
    [&good, &expired, &forged].into_iter().for_each(|token| secrets.add_token(token));
    // Each refusal takes three seconds.
    let refused = tokio::join!(
        connect(broker, "guest", WRONG_PASS),
        connect(broker, "nobody", WRONG_PASS),
        connect(broker, "anybody", &expired),
        connect(broker, "anybody", &forged),
    );
    for refused in [refused.0, refused.1, refused.2, refused.3] {
        let why = refused.err().expect("the login is refused");
        secrets.check("an error of the client", &format!("{why} {why:?}"));
    }
    connect(broker, "guest", DEFAULT_PASS).await.unwrap().close().await.unwrap();
    connect(broker, "watcher", DEFAULT_USERS_PASS).await.unwrap().close().await.unwrap();

    // A token is renewed, and then by a password and a token that do not count.
    for (next, counts) in
        [(token(3600, "rabbitmq.read:*/*"), true), (forged, false), (WRONG_PASS.into(), false)]
    {
        secrets.add_token(&next);
        let connection = connect(broker, "anybody", &good).await.unwrap();
        let session = connection.session().await.unwrap();
        let management = Management::open(&session).await.unwrap();
        let body = AmqpValue::Binary(next.as_bytes().to_vec().into());
        let renewed = management.request("PUT", "/auth/tokens", body).await;
        assert_eq!(renewed.is_ok(), counts);
        if let Err(why) = renewed {
            secrets.check("an error of the client", &format!("{why:?} {:?}", connection.closed().await));
        }
    }
    let session = connect(broker, "watcher", DEFAULT_USERS_PASS).await.unwrap().session().await.unwrap();
    drop(session.receiver(Some("/queues/none"), ReceiverOptions::default()).await);
    connect(broker, "anybody", &good).await.unwrap()
}

/// Returns a response of AMQPLAIN: a table without its length.
fn amqplain(user: &str, password: &str) -> Vec<u8> {
    let mut table = BytesMut::new();
    let mut fields = TableWriter::new(&mut table);
    fields.put("LOGIN", &amqp091::Value::LongString(user.as_bytes()));
    fields.put("PASSWORD", &amqp091::Value::LongString(password.as_bytes()));
    drop(fields);
    table[4..].to_vec()
}

/// Logs in over AMQP 0.9.1 with both mechanisms, and renews logins, with and without errors.
fn over_amqp091(broker: &Broker, secrets: &mut Secrets) {
    let plain = |user: &str, password: &str| format!("\0{user}\0{password}").into_bytes();
    let mut cut = amqplain("guest", WRONG_PASS);
    cut.pop();
    let refused = [
        ("PLAIN", plain("guest", WRONG_PASS)),
        ("PLAIN", WRONG_PASS.as_bytes().to_vec()),
        ("AMQPLAIN", amqplain("guest", WRONG_PASS)),
        ("AMQPLAIN", amqplain("nobody", WRONG_PASS)),
        ("AMQPLAIN", cut),
    ];
    // All of them wait at the same time: each refusal takes seconds.
    let mut clients = refused.map(|(mechanism, response)| Client::log_in(broker, mechanism, response));
    clients.iter_mut().for_each(Client::send_login);
    for mut client in clients {
        client.read_to_the_end();
        secrets.check("a refused login over AMQP 0.9.1", &format!("{:?}", client.refused));
    }
    let mut client = Client::log_in(broker, "AMQPLAIN", amqplain("guest", DEFAULT_PASS));
    client.wait_for("open");
    client.renew(DEFAULT_PASS, "connection.update-secret-ok");

    let good = token(3600, "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*");
    let (next, expired) = (token(1800, "rabbitmq.read:*/*"), token(-3600, "rabbitmq.read:*/*"));
    [&good, &next, &expired].into_iter().for_each(|token| secrets.add_token(token));
    for (secret, answer) in [
        (next.as_str(), "connection.update-secret-ok"),
        (&expired, "connection.close"),
        (WRONG_PASS, "connection.close"),
    ] {
        let mut client = Client::open_as(broker, "anybody", &good);
        client.renew(secret, answer);
        secrets.check("a refused secret over AMQP 0.9.1", &format!("{:?}", client.refused));
    }
}

/// Changes users, with and without errors. The answers have no secret.
fn change_users(broker: &Broker, secrets: &mut Secrets) {
    let guest = basic("guest", DEFAULT_PASS);
    let hash = STANDARD.encode(b"saltsha-256-hash-of-thirty-two-bytes");
    let other = STANDARD.encode(b"SALTsha-256-hash-of-thirty-two-bytes");
    secrets.add(b"saltsha-256-hash-of-thirty-two-bytes");
    secrets.add(b"SALTsha-256-hash-of-thirty-two-bytes");
    let right = r#"{"configure":"","write":"","read":".*"}"#;
    let bad = BAD_BODY;
    for (method, path, body, status) in [
        ("PUT", "/api/users/ann", format!(r#"{{"password":"{ANN_PASS}","tags":"management"}}"#), 201),
        ("PUT", "/api/users/ann", format!(r#"{{"password":"{NEXT_PASS}","tags":"management"}}"#), 204),
        ("PUT", "/api/users/mona", format!(r#"{{"password":"{ANN_PASS}","tags":"monitoring"}}"#), 201),
        ("PUT", "/api/users/mary", format!(r#"{{"password":"{ANN_PASS}","tags":"policymaker"}}"#), 201),
        ("PUT", "/api/users/hal", format!(r#"{{"password_hash":"{hash}","tags":""}}"#), 201),
        ("PUT", "/api/users/x", format!(r#"{{"password":"{bad}","tags":5}}"#), 400),
        ("PUT", "/api/users/x", format!(r#"{{"password":"{bad}"}}"#), 400),
        ("PUT", "/api/users/x", format!(r#"{{"password":["{bad}"],"tags":""}}"#), 400),
        ("PUT", "/api/users/x", format!(r#"{{"password":"{bad}","tags":"" "#), 400),
        ("PUT", "/api/users/x", format!("password={bad}"), 400),
        (
            "PUT",
            "/api/users/x",
            format!(r#"{{"password":"{bad}","password_hash":"{other}","tags":""}}"#),
            400,
        ),
        ("PUT", "/api/users/x", format!(r#"{{"password_hash":"{bad}","tags":""}}"#), 400),
        (
            "PUT",
            "/api/users/x",
            format!(r#"{{"password_hash":"{other}","hashing_algorithm":"{bad}","tags":""}}"#),
            400,
        ),
        ("PUT", "/api/queues/%2F/q", "{}".to_owned(), 201),
        ("PUT", "/api/exchanges/%2F/q", "{}".to_owned(), 201),
        (
            "PUT",
            "/api/policies/%2F/q",
            r#"{"pattern":"^none$","definition":{"max-length":1}}"#.to_owned(),
            201,
        ),
        ("PUT", "/api/permissions/%2F/ann", right.to_owned(), 201),
        ("PUT", "/api/permissions/%2F/mona", right.to_owned(), 201),
        ("PUT", "/api/permissions/%2F/mary", right.to_owned(), 201),
        ("PUT", "/api/permissions/%2F/ann", r#"{"configure":"(","write":"","read":""}"#.to_owned(), 400),
        (
            "PUT",
            "/api/parameters/shovel/%2F/s",
            format!(
                r#"{{"value":{{"src-uri":"amqp://u:{IN_PARAMETER}@h","src-queue":"a","dest-uri":"amqp://","dest-queue":"b"}}}}"#
            ),
            201,
        ),
        ("PUT", "/api/parameters/shovel/%2F/s", format!(r#"{{"value":"{bad}"#), 400),
        (
            "POST",
            "/api/definitions",
            format!(r#"{{"users":[{{"name":"ida","password_hash":"{hash}","tags":""}}]}}"#),
            204,
        ),
        (
            "POST",
            "/api/definitions",
            format!(r#"{{"users":[{{"name":"x","password_hash":"{bad}","tags":""}}]}}"#),
            400,
        ),
        (
            "POST",
            "/api/definitions",
            format!(r#"{{"users":[{{"name":"x","password_hash":"{other}","tags":"","x":"{bad}"}},5]}}"#),
            400,
        ),
        (
            "POST",
            "/api/definitions",
            format!(
                r#"{{"users":[{{"name":"x","password_hash":"{other}","hashing_algorithm":"{bad}","tags":""}}]}}"#
            ),
            400,
        ),
        ("POST", "/api/definitions", format!(r#"{{"users":[{{"password_hash":"{other}" "{bad}""#), 400),
        ("POST", "/api/definitions", format!(r#"{{"parameters":[{{"value":"{bad}"}}]}}"#), 400),
        ("POST", "/api/users/bulk-delete", format!(r#"{{"users":"{bad}"}}"#), 400),
        ("POST", "/api/auth/hash_password", format!(r#"{{"password":["{TO_HASH}"]}}"#), 400),
    ] {
        let (was, answer) = ask(broker.http_port, &guest, method, path, &body);
        assert_eq!(was, status, "{method} {path} {body}: {answer}");
        secrets.check(path, &answer);
        // Who may not do this gets no secret either.
        for other in [basic("ann", NEXT_PASS), basic("mona", ANN_PASS)] {
            let (was, answer) = ask(broker.http_port, &other, method, path, &body);
            assert_eq!(was, 401, "{method} {path} {body}: {answer}");
            secrets.check(path, &answer);
        }
    }
    // What is hashed for an administrator is answered, and written nowhere.
    for (method, path, body) in [
        ("GET", format!("/api/auth/hash_password/{TO_HASH}"), String::new()),
        ("POST", "/api/auth/hash_password".to_owned(), format!(r#"{{"password":"{TO_HASH}"}}"#)),
    ] {
        let (status, answer) = ask(broker.http_port, &guest, method, &path, &body);
        assert_eq!(status, 200);
        let answer: Value = serde_json::from_str(body_of(&answer)).unwrap();
        secrets.add(&STANDARD.decode(answer["ok"].as_str().unwrap()).unwrap());
        let (_, refused) = ask(broker.http_port, &basic("ann", NEXT_PASS), method, &path, &body);
        secrets.check("a refused hash", &refused);
    }
    let (_, users) = ask(broker.http_port, &guest, "GET", "/api/users", "");
    secrets.add_hashes(body_of(&users));
    let all = serde_json::from_str::<Value>(body_of(&users)).unwrap();
    assert!(all.as_array().unwrap().len() >= 7, "{all}");
}

/// Reads everything that there is to read, as users with every tag.
fn read_everything(broker: &Broker, secrets: &Secrets) {
    let wrong = [basic("guest", WRONG_PASS), basic("mona", WRONG_PASS), basic("nobody", WRONG_PASS)];
    let no_credentials = [IN_HEADER.to_owned(), format!("Basic {IN_HEADER}"), format!("Bearer {IN_HEADER}")];
    for bad in wrong.into_iter().chain(no_credentials) {
        let (status, answer) = ask(broker.http_port, &bad, "GET", "/api/whoami", "");
        assert_eq!(status, 401);
        secrets.check("the answer to a bad header", &answer);
    }
    let users = [
        (basic("guest", DEFAULT_PASS), true),
        (basic("watcher", DEFAULT_USERS_PASS), false),
        (basic("ann", NEXT_PASS), false),
        (basic("mona", ANN_PASS), false),
        (basic("mary", ANN_PASS), false),
        (format!("Bearer {}", token(3600, "rabbitmq.tag:monitoring rabbitmq.read:*/*")), false),
    ];
    let mut answered = 0;
    for route in ROUTES.iter().filter(|route| route.method == Method::Get) {
        let path = route.path.split('/').map(|part| match part {
            "{vhost}" => "%2F",
            "{node}" => "sluice@localhost",
            "{user}" => "ann",
            "{component}" => "shovel",
            "{within}" => "1",
            "{unit}" => "days",
            "{position}" => "1",
            part if part.starts_with('{') => "q",
            part => part,
        });
        let path = path.collect::<Vec<_>>().join("/");
        for (authorization, is_administrator) in &users {
            let (status, answer) = ask(broker.http_port, authorization, "GET", &path, "");
            answered += usize::from(status == 200);
            let is_of_users =
                ["definitions", "all-configuration", "users", "auth/hash_password", "parameters"]
                    .iter()
                    .any(|part| path.starts_with(&format!("/api/{part}")));
            if !(*is_administrator && is_of_users) {
                secrets.check(&path, &answer);
            }
        }
    }
    assert!(answered > 100, "{answered}");
    let (_, overview) = ask(broker.http_port, &users[0].0, "GET", "/api/overview", "");
    let overview: Value = serde_json::from_str(body_of(&overview)).unwrap();
    let listeners = overview["listeners"].as_array().unwrap();
    let metrics = listeners.iter().find(|row| row["protocol"] == "http/prometheus").unwrap();
    let port = u16::try_from(metrics["port"].as_u64().unwrap()).unwrap();
    for path in ["/metrics", "/metrics/per-object"] {
        let (status, page) = ask(port, "", "GET", path, "");
        assert_eq!(status, 200);
        secrets.check(path, &page);
    }
}

fn run_verbs(broker: &Broker, secrets: &Secrets) {
    let (right, wrong) = (format!("guest:{DEFAULT_PASS}"), format!("guest:{WRONG_PASS}"));
    let verbs: &[&[&str]] = &[
        &["status"],
        &["list", "queues"],
        &["list", "connections"],
        &["declare", "queue", "q"],
        &["send", "q", "m"],
        &["recv", "q", "--count", "1"],
        &["explain", "queue", "q"],
        &["explain", "connection", "none"],
        &["list", "users"],
        &["list", "permissions"],
        &["add", "user", "new", "--password-file", "-"],
        &["add", "user", "new", "--password-file", "-", "--no-password"],
        &["set", "password", "new", "--password-file", "-"],
        &["set", "password", "absent", "--password-file", "-"],
        &["authenticate", "user", "guest", "--password-file", "-"],
        &["import", "definitions", "-"],
        &["publish", "amq.default", "m", "--key", "q"],
        &["get", "q"],
        &["peek", "q", "1"],
        &["bench", "--duration", "1"],
    ];
    let listed = verb(broker, &right, &["list", "connections", "--json"], "");
    let connections: Value = serde_json::from_str(&listed.out).unwrap();
    let with_token = connections.as_array().unwrap().iter().find(|row| row["user"] == "ann").unwrap();
    let explained =
        verb(broker, &right, &["explain", "connection", with_token["name"].as_str().unwrap()], "");
    assert_eq!(explained.code, 0, "{explained:?}");
    secrets.check("an explained connection", &format!("{listed:?} {explained:?} {with_token}"));
    let unreachable = ["SLUICE_URL", "SLUICE_HTTP_URL"];
    let mut done = 0;
    for words in verbs {
        for login in [&right, &wrong] {
            let did = verb(broker, login, words, &format!("{OF_VERBS}\n"));
            assert!(login == &right || did.code != 0, "{words:?}: {did:?}");
            done += usize::from(did.code == 0);
            secrets.check(&format!("{words:?}"), &format!("{did:?}"));
        }
        for url in [
            format!("amqp://guest:{WRONG_PASS}@127.0.0.1:1"),
            format!("http://guest:{WRONG_PASS}@127.0.0.1:1"),
            format!("http://guest:{WRONG_PASS}@127.0.0.1:x"),
            format!("amqp://guest:{WRONG_PASS}@127.0.0.1:x"),
            format!("amqp://guest:{WRONG_PASS}@"),
            format!("ftp://guest:{WRONG_PASS}@h"),
            format!("http://guest:{WRONG_PASS} @h/path"),
            format!("guest:{WRONG_PASS}"),
        ] {
            let mut command = Command::new(PROGRAM);
            unreachable.iter().for_each(|name| _ = command.env(name, &url));
            let did = finish(command.args(*words), format!("{OF_VERBS}\n").as_bytes());
            assert_ne!(did.code, 0, "{did:?}");
            secrets.check(&format!("{words:?} with a bad URL"), &format!("{did:?}"));
            // The same as an argument.
            let did = finish(Command::new(PROGRAM).args(*words).args(["--url", &url]), b"");
            secrets.check(&format!("{words:?} with a bad --url"), &format!("{did:?}"));
        }
    }
    assert!(done >= 10, "{done}");
    let hashed =
        verb(broker, &right, &["hash", "password", "--password-file", "-"], &format!("{OF_VERBS}\n"));
    assert!(!hashed.out.contains(OF_VERBS) && hashed.code == 0, "{hashed:?}");

    // The password of a verb is not among its arguments while it runs.
    let mut command = Command::new(PROGRAM);
    command
        .args(["add", "user", "late", "--password-file", "-"])
        .env("SLUICE_HTTP_URL", format!("http://{right}@127.0.0.1:{}", broker.http_port))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let arguments = || std::fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
    let mut before = arguments();
    while before.is_empty() {
        // The program is being loaded.
        std::thread::yield_now();
        before = arguments();
    }
    assert!(before.contains("late"), "{before}");
    secrets.check("the arguments of a verb", &before);
    writeln!(child.stdin.take().unwrap(), "{OF_VERBS}").unwrap();
    assert!(child.wait().unwrap().success());
}

/// A wrong file of configuration does not show what is in it.
fn fail_to_start(directory: &Directory, secrets: &Secrets) {
    let file = directory.path().join("wrong.conf");
    let data = directory.path().join("other").display().to_string();
    for wrong in [
        format!("default_pass {DEFAULT_PASS}"),
        format!("defualt_pass = {DEFAULT_PASS}"),
        format!("default_pass = '{DEFAULT_PASS}"),
        format!("default_pass = '{DEFAULT_PASS}' x"),
        format!("{DEFAULT_PASS} = 1"),
        format!("default_users.watcher.pasword = {DEFAULT_USERS_PASS}"),
        format!("default_users.watcher = {DEFAULT_USERS_PASS}"),
        format!("ssl_options.password = {DEFAULT_PASS}"),
        format!("management.ssl.password = {DEFAULT_PASS}"),
        format!("cluster.secret = {DEFAULT_PASS}"),
        format!("auth_ldap.dn_lookup_bind.password = {DEFAULT_PASS}"),
        format!("auth_backends.1 = http\nauth_http.user_path = http://u:{DEFAULT_PASS}@h/"),
        format!("auth_backends.1 = http\nauth_http.user_path = ftp://u:{DEFAULT_PASS}@h/"),
        format!(
            "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = r\nauth_oauth2.issuer = https://u:{DEFAULT_PASS}@h"
        ),
        format!(
            "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = r\nauth_oauth2.jwks_uri = http://u:{DEFAULT_PASS}@h"
        ),
        format!("definitions.https.url = https://u:{DEFAULT_PASS}@h/definitions"),
        format!("load_definitions = https://u:{DEFAULT_PASS}@h/definitions"),
        format!("channel_max = https://u:{DEFAULT_PASS}@h/"),
        format!("auth_oauth2.issuer = https://u:{DEFAULT_PASS}@h"),
        format!("auth_oauth2.oauth_providers.p.jwks_uri = https://u:{DEFAULT_PASS}@h/jwks"),
        format!("auth_http.user_path = http://u:{DEFAULT_PASS}@h/"),
        format!("auth_oauth2.oauth_providers.p.client_secret = {DEFAULT_PASS}"),
        format!("auth_oauth2.oauth_providers.client_secrt = {DEFAULT_PASS}"),
    ] {
        std::fs::write(&file, &wrong).unwrap();
        let did = broker::verb::sluice(&[
            "serve",
            "--config",
            &file.display().to_string(),
            "--data-dir",
            &data,
            "--set",
            "listeners.tcp.default=none",
        ]);
        assert_ne!(did.code, 0, "{wrong}: {did:?}");
        // Text in the place of a key is shown if it can be a key.
        if !wrong.starts_with(DEFAULT_PASS) {
            secrets.check(&wrong, &format!("{did:?}"));
        }
    }
}

#[tokio::test]
async fn no_secret_is_written() {
    let directory = Directory::new("written");
    let file = configure(directory.path());
    let words = ["--config", &file, "--set", "prometheus.tcp.port=0", "--set", "log.level=trace"];
    let broker = Starting::spawn_with(&directory, &words).finish();
    let mut secrets = Secrets::new();
    let _connection = over_amqp(&broker, &mut secrets).await;
    over_amqp091(&broker, &mut secrets);
    change_users(&broker, &mut secrets);
    read_everything(&broker, &secrets);
    run_verbs(&broker, &secrets);
    fail_to_start(&directory, &secrets);
    let (_, users) = ask(broker.http_port, &basic("guest", DEFAULT_PASS), "GET", "/api/users", "");
    secrets.add_hashes(body_of(&users));
    assert!(broker.terminate().success());
    let log = directory.logged();
    assert!(log.contains("DEBUG user: what=\"login\" result=\"allowed\""), "all levels are written\n{log}");
    // The log leaves out lines of one place when there are many. Their reasons are those of answers that were checked.
    secrets.check("the log", &log);
    assert!(!log.contains("secret"), "the password of the TLS key: {log}");
    assert!(log.contains("https://127.0.0.1:1/jwks: "), "the provider was asked: {log}");
}

/// What a server answers that is asked about a login. `URL` stands for the path and the query that it was asked for, which have
/// the password.
const ANSWERS: [&str; 8] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmaybe",
    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndeny",
    "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 404 URL was not found\r\nContent-Length: 3\r\n\r\nURL",
    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1URL\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nURL",
    "GET URL is no answer",
    "",
];

/// With `auth_http.http_method = get`, the password is in a URL.
#[tokio::test]
async fn a_password_in_the_url_of_a_backend_is_not_written() {
    let directory = Directory::new("asked");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut seen = 0;
        // Two logins over AMQP, and one over HTTP for each answer. Then nobody listens any more.
        for answer in ANSWERS.iter().cycle().take(2 + ANSWERS.len()) {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            let url = request.split(' ').nth(1).unwrap();
            seen += usize::from(url.contains(&WRONG_PASS.replace('-', "%2D")));
            stream.write_all(answer.replace("URL", url).as_bytes()).unwrap();
        }
        seen
    });
    let path = |name: &str| format!("auth_http.{name}_path=http://127.0.0.1:{port}/{name}");
    let paths = ["user", "vhost", "resource", "topic"].map(path);
    let mut settings = vec!["auth_backends.1=http", "auth_http.http_method=get", "log.level=trace"];
    settings.extend(paths.iter().map(String::as_str));
    let broker = Starting::spawn(&directory, &settings).finish();

    let mut secrets = Secrets::new();
    // Every character that is not a letter or a digit is escaped.
    secrets.0.push(WRONG_PASS.replace('-', "%2D"));
    let refused = connect(&broker, "ann", WRONG_PASS).await.err().expect("the login is refused");
    secrets.check("an error of the client", &format!("{refused} {refused:?}"));
    let mut client = Client::log_in(&broker, "PLAIN", format!("\0ann\0{WRONG_PASS}").into_bytes());
    client.wait_for("connection.close");
    secrets.check("a refused login over AMQP 0.9.1", &format!("{:?}", client.refused));
    // Once more than there are answers.
    for _ in 0..=ANSWERS.len() {
        let (status, answer) = ask(broker.http_port, &basic("ann", WRONG_PASS), "GET", "/api/whoami", "");
        assert_ne!(status, 200, "{answer}");
        secrets.check("the answer to a login over HTTP", &answer);
    }
    assert_eq!(server.join().unwrap(), 2 + ANSWERS.len(), "the server has got the password each time");
    assert!(broker.terminate().success());
    let log = directory.logged();
    for why in ["the answer is 500", "the answer is neither allow nor deny", "Connection refused"] {
        assert!(log.contains(&format!("http://127.0.0.1:{port}/user: {why}")), "{why} is not in {log}");
    }
    secrets.check("the log", &log);
}
