//! Which answers tell somebody who may not know it whether something exists. Each request is made twice, about something that
//! exists and about something that does not. An answer tells if the two differ in more than the name.
//! `docs/operations/users.md` has the table (Permissions).

use amqp10::Value;
use amqp091::{
    BasicConsume, BasicGet, ExchangeBind, ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare,
    QueueDelete, QueuePurge, QueueUnbind,
};
use client::management::{Binding, ExchangeSpec, QueueSpec};
use client::{Connection, Error, Management, ReceiverOptions, SenderOptions, Session, Url};

use super::Subject;
use super::fixture::{Fixture, ROOT};
use super::verbs091::{self, Client, coded};

/// The names of a queue, an exchange, a virtual host and a user that exist, and of ones that do not. They are of one length.
const NAMES: [&str; 2] = ["seen", "gone"];

/// A user who may use the virtual host `/` and nothing in it, and one who may not use it.
const NOBODY: &str = "management-none";
const STRANGER: &str = "management-absent";

/// What stands for the name in the requests and in the answers.
const NAME: &str = "NAME";

/// The answers about something that exists, and about something that does not.
#[derive(Clone, Copy, Debug)]
enum Answers {
    /// They are the same, with this code.
    Same(&'static str),
    /// They tell. These are their codes.
    Tell([&'static str; 2]),
}

use Answers::{Same, Tell};

/// The code of all refusals of AMQP 0.9.1 for missing permissions, and the condition of AMQP 1.0.
const REFUSED: &str = "403";
const UNAUTHORIZED: &str = "amqp:unauthorized-access";

/// Requests of a user without permissions in the virtual host. Each is answered with [`REFUSED`], whatever exists.
const AMQP091: &[&str] = &[
    "queue: publish",
    "queue: consume",
    "queue: get",
    "queue: declare",
    "queue: declare passively",
    "queue: bind",
    "queue: unbind",
    "queue: purge",
    "queue: delete",
    "exchange: publish",
    "exchange: declare",
    "exchange: declare passively",
    "exchange: bind",
    "exchange: delete",
];

/// The same for AMQP 1.0. Each is answered with [`UNAUTHORIZED`].
const AMQP10: &[&str] = &[
    "queue: sender",
    "queue: receiver",
    "queue: GET",
    "queue: PUT",
    "queue: DELETE",
    "queue: purge",
    "queue: bind",
    "queue: list bindings",
    "exchange: sender",
    "exchange: PUT",
    "exchange: DELETE",
    "exchange: bind",
];

/// The requests over HTTP: the answers to a user without permissions in the virtual host, and those to a user who may not use it.
const HTTP: &[(&str, &str, &str, [Answers; 2])] = &[
    ("GET", "/api/queues/%2F/NAME", "", [Tell(["200", "404"]), Same("401")]),
    ("PUT", "/api/queues/%2F/NAME", "{}", [Same("401"), Same("401")]),
    ("DELETE", "/api/queues/%2F/NAME", "", [Tell(["401", "404"]), Same("401")]),
    ("DELETE", "/api/queues/%2F/NAME/contents", "", [Same("401"), Same("401")]),
    ("GET", "/api/queues/%2F/NAME/bindings", "", [Tell(["200", "200"]), Same("401")]),
    ("POST", "/api/queues/%2F/NAME/get", GET_ONE, [Same("401"), Same("401")]),
    ("GET", "/api/explain/queues/%2F/NAME", "", [Same("401"), Same("401")]),
    ("GET", "/api/exchanges/%2F/NAME", "", [Tell(["200", "404"]), Same("401")]),
    ("PUT", "/api/exchanges/%2F/NAME", r#"{"type":"topic"}"#, [Same("401"), Same("401")]),
    ("DELETE", "/api/exchanges/%2F/NAME", "", [Same("401"), Same("401")]),
    ("POST", "/api/exchanges/%2F/NAME/publish", PUBLISH, [Same("401"), Same("401")]),
    ("GET", "/api/exchanges/%2F/NAME/bindings/source", "", [Same("200"), Same("401")]),
    ("POST", "/api/bindings/%2F/e/NAME/q/NAME", "{}", [Same("401"), Same("401")]),
    ("GET", "/api/vhosts/NAME", "", [Same("404"), Same("404")]),
    ("PUT", "/api/vhosts/NAME", "{}", [Same("401"), Same("401")]),
    ("DELETE", "/api/vhosts/NAME", "", [Same("401"), Same("401")]),
    ("GET", "/api/queues/NAME", "", [Same("404"), Same("404")]),
    ("GET", "/api/users/NAME", "", [Same("401"), Same("401")]),
    ("PUT", "/api/users/NAME", r#"{"password":"p", "tags":""}"#, [Same("401"), Same("401")]),
    ("DELETE", "/api/users/NAME", "", [Same("401"), Same("401")]),
    ("GET", "/api/policies/%2F/NAME", "", [Tell(["200", "404"]), Same("401")]),
    (
        "PUT",
        "/api/policies/%2F/NAME",
        r#"{"pattern":"x", "definition":{"max-length":1}}"#,
        [Same("401"), Same("401")],
    ),
];

/// The same for the name of a connection of another user.
const CONNECTIONS: &[(&str, &str, [Answers; 2])] = &[
    ("GET", "/api/connections/NAME", [Tell(["401", "404"]), Same("404")]),
    ("DELETE", "/api/connections/NAME", [Tell(["401", "404"]), Same("404")]),
    ("GET", "/api/explain/connections/NAME", [Tell(["401", "404"]), Same("404")]),
];

/// The same for the name of a link of such a connection.
const LINKS: &[(&str, &str, [Answers; 2])] = &[
    ("GET", "/api/explain/links/NAME", [Tell(["401", "404"]), Same("404")]),
    ("GET", "/api/explain/links/%2F/NAME", [Tell(["401", "404"]), Same("404")]),
];

/// A user who may read all queues, but not publish. The requests need both.
const READER: &str = "management-read";
const MOVES: &[(&str, &str)] =
    &[("/api/queues/%2F/NAME/move", r#"{"to_queue":"NAME"}"#), ("/api/queues/%2F/NAME/redrive", "{}")];

const GET_ONE: &str = r#"{"ackmode":"ack_requeue_true","count":1,"encoding":"auto"}"#;
const PUBLISH: &str = r#"{"properties":{},"routing_key":"k","payload":"p","payload_encoding":"string"}"#;

/// The answers to the open of a virtual host.
const VHOSTS: &[(&str, Answers)] = &[("AMQP 0.9.1", Tell(["530"; 2])), ("AMQP 1.0", Tell([UNAUTHORIZED; 2]))];

async fn open(name: &str) -> Fixture {
    let is_one = |subject: &Subject| [NOBODY, STRANGER, READER].contains(&subject.name());
    let subjects: Vec<_> = Subject::all().into_iter().filter(is_one).collect();
    let fixture = Fixture::open(name, &subjects).await;
    for path in ["queues/%2F", "vhosts", "users"] {
        let body = if path == "users" { r#"{"password":"p","tags":""}"# } else { "{}" };
        fixture.prepare("PUT", &format!("/api/{path}/seen"), body).await;
    }
    fixture.prepare("PUT", "/api/exchanges/%2F/seen", r#"{"type":"topic"}"#).await;
    let policy = r#"{"pattern":"x","definition":{"max-length":1}}"#;
    fixture.prepare("PUT", "/api/policies/%2F/seen", policy).await;
    fixture
}

/// Returns a line about a request whose answers are not those of the table.
fn wrong(what: &str, expected: Answers, [seen, gone]: [String; 2]) -> Option<String> {
    let begins = |answer: &str, code: &str| answer.split(' ').next() == Some(code);
    let is_right = match expected {
        Same(code) => seen == gone && begins(&seen, code),
        Tell([of_seen, of_gone]) => seen != gone && begins(&seen, of_seen) && begins(&gone, of_gone),
    };
    (!is_right).then(|| format!("{what}: {seen} | {gone} instead of {expected:?}"))
}

fn anonymous(answer: &str, name: &str) -> String {
    answer.replace(name, NAME)
}

async fn ask091(client: &mut Client, what: &str, name: &str) -> String {
    let (queue, exchange, routing_key) = (name, name, "k");
    let declare = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
    let kind = "topic";
    let declare_exchange = ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() };
    let told = match what {
        "queue: publish" => client.told_of_publish("", queue).await,
        "queue: consume" => client.told(BasicConsume { queue, ..BasicConsume::default() }).await,
        "queue: get" => client.told(BasicGet { queue, no_ack: false }).await,
        "queue: declare" => client.told(declare).await,
        "queue: declare passively" => client.told(QueueDeclare { passive: true, ..declare }).await,
        "queue: bind" => {
            client.told(QueueBind { queue, exchange: "amq.topic", routing_key, ..QueueBind::default() }).await
        }
        "queue: unbind" => {
            let exchange = "amq.topic";
            client.told(QueueUnbind { queue, exchange, routing_key, ..QueueUnbind::default() }).await
        }
        "queue: purge" => client.told(QueuePurge { queue, nowait: false }).await,
        "queue: delete" => client.told(QueueDelete { queue, ..QueueDelete::default() }).await,
        "exchange: publish" => client.told_of_publish(exchange, "k").await,
        "exchange: declare" => client.told(declare_exchange).await,
        "exchange: declare passively" => {
            client.told(ExchangeDeclare { passive: true, ..declare_exchange }).await
        }
        "exchange: bind" => {
            let bind = ExchangeBind {
                destination: name,
                source: "amq.topic",
                routing_key,
                ..ExchangeBind::default()
            };
            client.told(bind).await
        }
        "exchange: delete" => client.told(ExchangeDelete { exchange, ..ExchangeDelete::default() }).await,
        _ => panic!("an unknown request: {what}"),
    };
    anonymous(&told, name)
}

async fn ask10(connection: &Connection, what: &str, name: &str) -> String {
    let session = connection.session().await.unwrap();
    let (queue, exchange) = (format!("/queues/{name}"), format!("/exchanges/{name}/k"));
    let asked = match what {
        "queue: sender" => session.sender(Some(&queue), SenderOptions::default()).await.map(drop),
        "queue: receiver" => session.receiver(Some(&queue), ReceiverOptions::default()).await.map(drop),
        "exchange: sender" => session.sender(Some(&exchange), SenderOptions::default()).await.map(drop),
        _ => manage(&session, what, name).await,
    };
    let told = asked.err().map_or_else(|| "done".to_owned(), |error: Error| coded(&error));
    drop(session.end().await);
    anonymous(&told, name)
}

async fn manage(session: &Session, what: &str, name: &str) -> Result<(), Error> {
    let management = Management::open(session).await?;
    match what {
        "queue: GET" => management.queue_info(name).await.map(drop),
        "queue: PUT" => management.declare_queue(name, &QueueSpec::default()).await.map(drop),
        "queue: DELETE" => management.delete_queue(name).await.map(drop),
        "queue: purge" => management.purge_queue(name).await.map(drop),
        "queue: bind" => management.bind(&Binding::to_queue("amq.topic", name, "k")).await.map(drop),
        "queue: list bindings" => {
            let path = format!("/bindings?src=amq.topic&dstq={name}&key=k");
            management.request("GET", &path, Value::Null).await.map(drop)
        }
        "exchange: PUT" => management.declare_exchange(name, &ExchangeSpec::default()).await.map(drop),
        "exchange: DELETE" => management.delete_exchange(name).await.map(drop),
        "exchange: bind" => management.bind(&Binding::to_queue(name, "other", "k")).await.map(drop),
        _ => panic!("an unknown request: {what}"),
    }
}

/// A connection of a user who may do everything.
struct Watched {
    name: String,
    _connection: Connection,
}

/// The name of its link. It is as long as [`NAMES`].
const LINK: &str = "held";

async fn connection_of_root(fixture: &Fixture) -> Watched {
    let connection = fixture.connect(ROOT).await.unwrap();
    let session = connection.session().await.unwrap();
    let options = ReceiverOptions { name: Some(LINK.to_owned()), ..ReceiverOptions::default() };
    let receiver = session.receiver(Some("/queues/seen"), options).await.unwrap();
    std::mem::forget((session, receiver));
    let (_, rows) = fixture.ask(ROOT, "GET", "/api/connections?columns=name,user", "").await;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["user"] == ROOT).unwrap();
    Watched { name: row["name"].as_str().unwrap().to_owned(), _connection: connection }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_tell_of_what_exists_only_where_the_table_says_so() {
    let fixture = open("existence").await;
    let mut all_wrong = Vec::new();
    let mut client = Client::open(&fixture.url(NOBODY), NOBODY).await.unwrap();
    for what in AMQP091 {
        let answers = [ask091(&mut client, what, NAMES[0]).await, ask091(&mut client, what, NAMES[1]).await];
        all_wrong.extend(wrong(&format!("AMQP 0.9.1, {what}"), Same(REFUSED), answers));
    }
    let connection = fixture.connect(NOBODY).await.unwrap();
    for what in AMQP10 {
        let answers = [ask10(&connection, what, NAMES[0]).await, ask10(&connection, what, NAMES[1]).await];
        all_wrong.extend(wrong(&format!("AMQP 1.0, {what}"), Same(UNAUTHORIZED), answers));
    }
    for (protocol, expected) in VHOSTS {
        let open = async |name: &str| {
            let url = Url { virtual_host: Some(name.to_owned()), ..fixture.url(NOBODY) };
            let refused = match *protocol {
                "AMQP 1.0" => Connection::open(&url, client::Options::default()).await.err(),
                _ => verbs091::connect(&url).await.err(),
            };
            anonymous(&coded(&refused.expect("it is refused")), name)
        };
        let answers = [open(NAMES[0]).await, open(NAMES[1]).await];
        all_wrong.extend(wrong(&format!("{protocol}, open a virtual host"), *expected, answers));
    }
    for (method, path, body, expected) in HTTP {
        for (user, expected) in [NOBODY, STRANGER].into_iter().zip(expected) {
            let ask = async |name: &str| {
                let (status, answer) = fixture.ask(user, method, &path.replace(NAME, name), body).await;
                format!("{status} {}", anonymous(&answer, name))
            };
            let answers = [ask(NAMES[0]).await, ask(NAMES[1]).await];
            all_wrong.extend(wrong(&format!("{method} {path} as {user}"), *expected, answers));
        }
    }
    let watched = connection_of_root(&fixture).await;
    let names = [watched.name.clone(), watched.name.replace("127.0.0.1", "127.0.0.9")];
    let links = [LINK.to_owned(), NAMES[1].to_owned()];
    let of_connections = CONNECTIONS.iter().map(|row| (row, &names));
    for ((method, path, expected), names) in of_connections.chain(LINKS.iter().map(|row| (row, &links))) {
        for (user, expected) in [NOBODY, STRANGER].into_iter().zip(expected) {
            let ask = async |name: &str| {
                let path = path.replace(NAME, &name.replace(' ', "%20").replace('>', "%3E"));
                let (status, answer) = fixture.ask(user, method, &path, "").await;
                format!("{status} {}", anonymous(&answer, name))
            };
            let answers = [ask(&names[0]).await, ask(&names[1]).await];
            all_wrong.extend(wrong(&format!("{method} {path} as {user}"), *expected, answers));
        }
    }
    for (path, body) in MOVES {
        let ask = async |name: &str| {
            let (path, body) = (path.replace(NAME, name), body.replace(NAME, name));
            let (status, answer) = fixture.ask(READER, "POST", &path, &body).await;
            format!("{status} {}", anonymous(&answer, name))
        };
        let answers = [ask(NAMES[0]).await, ask(NAMES[1]).await];
        all_wrong.extend(wrong(&format!("POST {path} as {READER}"), Same("401"), answers));
    }
    drop(watched);
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
    // Who may see everything is told everything.
    for name in NAMES {
        let (status, _) = fixture.ask(ROOT, "GET", &format!("/api/queues/%2F/{name}"), "").await;
        assert_eq!(status, if name == "seen" { 200 } else { 404 });
    }
    fixture.close();
}
