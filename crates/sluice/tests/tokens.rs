//! OAuth 2 tokens as clients and operators see them: what a token allows, how it is renewed, and how it ends.

use crate::amqp091::Client;
use crate::broker;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp10::Value;
use broker::{Broker, Directory, Starting};
use client::management::{Answer, QueueSpec};
use client::{Connection, Error, Management, Options, ReceiverOptions, SenderOptions, Session};
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

const SECRET: &str = "the shared secret of this test only";

/// A broker whose tokens are signed with [`SECRET`].
fn start(directory: &Directory, settings: &[&str]) -> Broker {
    let secret = directory.path().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let signing_key = format!("auth_oauth2.signing_keys.k={}", secret.display());
    let own = ["auth_oauth2.resource_server_id=rabbitmq", "auth_oauth2.algorithms.1=HS256", &signing_key];
    Starting::spawn(directory, &[&own, settings].concat()).finish()
}

/// Returns a token of a user that expires after some seconds.
fn token(user: &str, seconds: u64, scope: &str) -> String {
    expiring(user, seconds_now() + seconds, scope)
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Returns a token of a user that expires at this second.
fn expiring(user: &str, exp: u64, scope: &str) -> String {
    let claims = json!({ "sub": user, "aud": "rabbitmq", "exp": exp, "scope": scope });
    encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

async fn connect(broker: &Broker, password: &str) -> Result<Connection, Error> {
    let url = format!("amqp://anybody:{password}@127.0.0.1:{}", broker.amqp_port).parse().unwrap();
    Connection::open(&url, Options::default()).await
}

async fn renew(session: &Session, token: &str) -> Result<Answer<Value>, Error> {
    let management = Management::open(session).await?;
    let body = Value::Binary(token.as_bytes().to_vec().into());
    management.request("PUT", "/auth/tokens", body).await
}

fn message(text: &'static str) -> bytes::Bytes {
    client::Message::data(text).encode()
}

/// Returns why a connection is refused.
async fn refusal(broker: &Broker, password: &str) -> String {
    connect(broker, password).await.err().expect("it is refused").to_string()
}

fn bearer(broker: &Broker, token: &str, path: &str) -> u16 {
    let url = format!("http://127.0.0.1:{}{path}", broker.http_port);
    let header = format!("Authorization: Bearer {token}");
    let words = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", &header, &url];
    let output = std::process::Command::new("curl").args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_token_allows_what_its_scopes_say() {
    let directory = Directory::new("tokens");
    let broker = start(&directory, &["auth_backends.1=oauth2", "auth_backends.2=internal"]);
    let scope = "rabbitmq.configure:%2F/ann.* rabbitmq.write:*/*/* rabbitmq.read:%2F/ann.* other.read:*/*";
    let connection = connect(&broker, &token("ann", 3600, scope)).await.unwrap();
    let rows = broker.get("/api/connections").1;
    assert_eq!((&rows[0]["user"], &rows[0]["auth_mechanism"]), (&json!("ann"), &json!("PLAIN")));
    let session = connection.session().await.unwrap();
    let management = Management::open(&session).await.unwrap();
    management.declare_queue("ann.1", &QueueSpec::default()).await.unwrap();
    let sender = session.sender(Some("/queues/ann.1"), SenderOptions::default()).await.unwrap();
    sender.send(message("hello")).await.unwrap();
    let refused = management.declare_queue("bob.1", &QueueSpec::default()).await.unwrap_err().to_string();
    assert!(
        refused.contains("configure access to queue 'bob.1' in vhost '/' refused for user 'ann'"),
        "{refused}"
    );

    // Users of the catalog log in as before, with the same order of backends.
    refusal(&broker, "wrong").await;
    broker.verb(&["list", "queues"]).done();

    // The management API takes the token as a password and as a bearer, and its tags count.
    let tagged = token("ann", 3600, "rabbitmq.tag:monitoring rabbitmq.read:*/*");
    assert_eq!(bearer(&broker, &tagged, "/api/nodes"), 200);
    assert_eq!(bearer(&broker, &tagged, "/api/users"), 401, "not an administrator");
    assert_eq!(bearer(&broker, &token("ann", 3600, scope), "/api/overview"), 401, "no tag");
    assert_eq!(bearer(&broker, "nonsense", "/api/overview"), 401);
    let (user, password) = ("ann", &tagged);
    let url = format!("http://{user}:{password}@127.0.0.1:{}/api/whoami", broker.http_port);
    let output = std::process::Command::new("curl").args(["-s", &url]).output().unwrap();
    let whoami: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&whoami["name"], &whoami["tags"]), (&json!("ann"), &json!(["monitoring"])));

    // A token that does not count: the log names the claim, and no part of any token.
    let bad = token("ann", 3600, scope).replace('.', ".x");
    refusal(&broker, &bad).await;
    let old = {
        let claims = json!({ "sub": "ann", "aud": "rabbitmq", "exp": 1_600_000_000 });
        encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
    };
    refusal(&broker, &old).await;
    let logged = directory.logged();
    assert!(
        logged.contains("token: claim 'exp': the token has expired; unknown user or wrong password"),
        "{logged}"
    );
    for secret in [&tagged, &bad, &old, SECRET] {
        for part in secret.split('.') {
            assert!(!logged.contains(part), "the log has {part}");
        }
    }
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let directory = Directory::new("tokens");
    let broker = start(&directory, &["auth_backends.1=oauth2", "auth_backends.2=internal"]);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["declare", "queue", "r"]).done();
    let all = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*";

    let connection = connect(&broker, &token("ann", 3600, all)).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
    let lost = session.receiver(Some("/queues/r"), ReceiverOptions::default()).await.unwrap();
    sender.send(message("one")).await.unwrap();
    // Less than before: the link that has lost its permission ends, the others go on.
    let less = token("ann", 3600, "rabbitmq.write:*/* rabbitmq.read:*/q");
    let renewing = connection.session().await.unwrap();
    assert!(matches!(renew(&renewing, &less).await, Ok(Answer { status: 204, .. })));
    let refused = lost.closed().await.to_string();
    assert!(refused.contains("read access to queue 'r' in vhost '/' refused for user 'ann'"), "{refused}");
    sender.send(message("two")).await.unwrap();
    receiver.recv().await.unwrap().accept().unwrap();

    // What the next token takes away counts for each message, too.
    let none = token("ann", 3600, "rabbitmq.read:*/q");
    let again = connection.session().await.unwrap();
    assert!(matches!(renew(&again, &none).await, Ok(Answer { status: 204, .. })));
    let refused = sender.closed().await.to_string();
    assert!(refused.contains("write access to exchange 'amq.default'"), "{refused}");

    // Credentials of others, or that are wrong, end the connection.
    for (next, why) in [
        (token("bob", 3600, all), "the new credentials are not those of user 'ann'"),
        ("nonsense".to_owned(), "the new credentials are refused"),
    ] {
        let connection = connect(&broker, &token("ann", 3600, all)).await.unwrap();
        let session = connection.session().await.unwrap();
        renew(&session, &next).await.unwrap_err();
        let closed = connection.closed().await.unwrap_err().to_string();
        assert!(closed.contains("unauthorized-access") && closed.contains(why), "{closed}");
    }

    // A token that expires ends the connection. One that was renewed in time does not.
    let expiring = connect(&broker, &token("ann", 2, all)).await.unwrap();
    let renewed = connect(&broker, &token("ann", 2, all)).await.unwrap();
    let session = renewed.session().await.unwrap();
    renew(&session, &token("ann", 3600, all)).await.unwrap();
    let closed = expiring.closed().await.unwrap_err().to_string();
    assert!(closed.contains("amqp:unauthorized-access") && closed.contains("credential expired"), "{closed}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    sender.send(message("three")).await.unwrap();
}

/// Refuses every login over HTTP after a while. Returns the address.
fn slow_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 4096];
            assert!(socket.read(&mut request).unwrap() > 0);
            std::thread::sleep(Duration::from_millis(300));
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndeny";
            socket.write_all(answer.as_bytes()).unwrap();
        }
    });
    format!("http://{address}/user")
}

/// Checking a token takes time, most of all behind a slow backend. This time must not count twice.
#[tokio::test]
async fn a_connection_is_never_closed_before_its_token_expires() {
    let directory = Directory::new("tokens");
    let user_path = format!("auth_http.user_path={}", slow_server());
    let broker = start(&directory, &["auth_backends.1=http", "auth_backends.2=oauth2", &user_path]);
    for _ in 0..3 {
        let expires = Duration::from_secs(seconds_now() + 2);
        let password = expiring("ann", expires.as_secs(), "rabbitmq.read:*/*");
        let connection = connect(&broker, &password).await.unwrap();
        let closed = connection.closed().await.unwrap_err().to_string();
        assert!(closed.contains("credential expired"), "{closed}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(now >= expires, "it is closed {:?} early", expires.saturating_sub(now));
    }
}

/// The same over AMQP 0.9.1, where clients renew their tokens with `connection.update-secret`.
#[test]
fn a_token_of_amqp_0_9_1_is_renewed_before_it_expires() {
    const OK: &str = "connection.update-secret-ok";
    let directory = Directory::new("tokens");
    let broker = start(&directory, &["auth_backends.1=oauth2", "auth_backends.2=internal"]);
    broker.verb(&["declare", "queue", "q"]).done();
    broker.verb(&["declare", "queue", "r"]).done();
    let all = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*";
    let open = |seconds| Client::open_as(&broker, "anybody", &token("ann", seconds, all));

    let mut client = open(3600);
    client.open_channel(1);
    client.consume(1, "q");
    client.consume(1, "r");
    client.open_channel(2);
    client.renew(&token("ann", 3600, all), OK);
    client.publish(2, "q", 1);
    client.wait_for("basic.deliver");
    // Less than before: the consumer that has lost its permission is cancelled, the others go on.
    client.renew(&token("ann", 3600, "rabbitmq.write:*/* rabbitmq.read:*/q"), "basic.cancel");
    client.wait_for(OK);
    let consumers = broker.get("/api/consumers").1;
    let tags: Vec<_> = consumers.as_array().unwrap().iter().map(|row| &row["consumer_tag"]).collect();
    assert_eq!(tags, ["q"]);
    client.publish(2, "q", 1);
    client.wait_for("basic.deliver");
    // What the next token takes away counts for each message, too. Only the channel of the publisher is closed.
    client.renew(&token("ann", 3600, "rabbitmq.read:*/q"), OK);
    client.publish(2, "q", 1);
    client.wait_for("channel.close");
    let refused =
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'ann'";
    assert_eq!(client.refused, Some((403, refused.to_owned())));
    client.open_channel(3);

    // Credentials of others, or that are wrong, end the connection.
    for (next, why) in [
        (token("bob", 3600, all), "NOT_ALLOWED - the new credentials are not those of user 'ann'"),
        ("nonsense".to_owned(), "NOT_ALLOWED - the new credentials are refused"),
    ] {
        let mut client = open(3600);
        client.renew(&next, "connection.close");
        assert_eq!(client.refused, Some((530, why.to_owned())));
    }

    // A token that expires ends the connection. One that was renewed in time does not.
    let (mut renewed, mut expiring) = (open(2), open(2));
    renewed.renew(&token("ann", 3600, all), OK);
    expiring.wait_for("connection.close");
    assert_eq!(expiring.refused, Some((320, "CONNECTION_FORCED - credential expired".to_owned())));
    renewed.open_channel(1);
    renewed.declare(1, "s");
}

#[test]
fn settings_that_cannot_work_refuse_the_start() {
    let directory = Directory::new("tokens");
    for (settings, why) in [
        (&["auth_backends.1=oauth2"][..], "auth_oauth2.resource_server_id: it must be set"),
        (&["auth_backends.1=oauth2", "auth_oauth2.resource_server_id=r"], "must say who signs the tokens"),
        (
            &["auth_backends.1=oauth2", "auth_oauth2.resource_server_id=r", "auth_oauth2.issuer=http://h"],
            "auth_oauth2.issuer: 'http://h/.well-known/openid-configuration' must be a URL that starts with https://",
        ),
        (
            &["auth_backends.1=oauth2", "auth_oauth2.resource_server_id=r", "auth_oauth2.signing_keys.k=/no"],
            "auth_oauth2.signing_keys.k: /no: No such file or directory",
        ),
    ] {
        let failed = Starting::spawn(&directory, settings).try_finish();
        assert!(failed.is_err());
        assert!(directory.logged().contains(why), "{why}: {}", directory.logged());
    }
}

/// A token must fit into the first frame. The log says which setting gives it more room.
#[tokio::test]
async fn a_large_token_needs_a_larger_first_frame() {
    let directory = Directory::new("tokens");
    let scope = "rabbitmq.read:*/*".to_owned() + &" rabbitmq.read:*/other".repeat(500);
    let large = token("ann", 3600, &scope);
    let broker = start(&directory, &["auth_backends.1=oauth2", "auth_backends.2=internal"]);
    refusal(&broker, &large).await;
    let logged = directory.logged();
    assert!(logged.contains("initial_frame_max sets the maximum"), "{logged}");
    drop(broker);
    let sets = ["auth_backends.1=oauth2", "auth_backends.2=internal", "initial_frame_max=65536"];
    let broker = start(&directory, &sets);
    connect(&broker, &large).await.unwrap();
}

#[test]
fn commands_log_in_with_a_token() {
    let directory = Directory::new("tokens");
    let settings = [
        "auth_backends.1=oauth2",
        "auth_backends.2=internal",
        "management.oauth_enabled=true",
        "management.oauth_client_id=page",
        "management.oauth_provider_url=https://idp.example",
    ];
    let broker = start(&directory, &settings);
    broker.verb(&["list", "queues"]).refused(1, &["the login of user 'guest' is refused"]);
    let file = directory.path().join("token");
    let name = file.to_str().unwrap();
    std::fs::write(&file, format!("{}\n", token("ann", 3600, "rabbitmq.tag:administrator"))).unwrap();
    let shown = broker.verb(&["show", "whoami", "--token-file", name]).done();
    assert!(shown.lines().any(|line| line.ends_with(" ann")), "{shown}");
    std::fs::write(&file, token("ann", 0, "rabbitmq.tag:administrator")).unwrap();
    broker.verb(&["list", "queues", "--token-file", name]).refused(1, &["the token in ", name, "is refused"]);
    broker.verb(&["list", "queues", "--token-file", "/none"]).refused(2, &["--token-file: /none"]);
}
