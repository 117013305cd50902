//! Which answers tell somebody who may not know it whether something exists. Each request is made twice, about something that
//! exists and about something that does not. An answer tells if the two differ in more than the name.
//! `docs/operations.md` has the table (Permissions).

use amqp10::Value;
use amqp091::{
    BasicConsume, BasicGet, ExchangeBind, ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare,
    QueueDelete, QueuePurge, QueueUnbind,
};
use client::management::{Binding, ExchangeSpec, QueueSpec};
use client::{Connection, Error, Management, ReceiverOptions, SenderOptions, Session, Url};

use super::Subject;
use super::fixture::{Fixture, ROOT};
use super::verbs091::{self, Client};

/// The names of a queue, an exchange, a virtual host and a user that exist, and of ones that do not. They are of one length.
const NAMES: [&str; 2] = ["seen", "gone"];

/// A user who may use the virtual host `/` and nothing in it, and one who may not use it.
const NOBODY: &str = "management-none";
const STRANGER: &str = "management-absent";

/// What stands for the name in the requests and in the answers.
const NAME: &str = "NAME";

/// Whether the answers to these requests tell.
const SAME: bool = false;
const TELLS: bool = true;

const AMQP091: &[(&str, bool)] = &[
    ("queue: publish", SAME),
    ("queue: consume", SAME),
    ("queue: get", SAME),
    ("queue: declare", SAME),
    ("queue: declare passively", SAME),
    ("queue: bind", SAME),
    ("queue: unbind", SAME),
    ("queue: purge", SAME),
    ("queue: delete", SAME),
    ("exchange: publish", SAME),
    ("exchange: declare", SAME),
    ("exchange: declare passively", SAME),
    ("exchange: bind", SAME),
    ("exchange: delete", SAME),
];

const AMQP10: &[(&str, bool)] = &[
    ("queue: sender", SAME),
    ("queue: receiver", SAME),
    ("queue: GET", SAME),
    ("queue: PUT", SAME),
    ("queue: DELETE", SAME),
    ("queue: purge", SAME),
    ("queue: bind", SAME),
    ("queue: list bindings", SAME),
    ("exchange: sender", SAME),
    ("exchange: PUT", SAME),
    ("exchange: DELETE", SAME),
    ("exchange: bind", SAME),
];

/// The requests over HTTP: whether the answers to a user without permissions in the virtual host tell, and those to a user who may
/// not use it.
const HTTP: &[(&str, &str, &str, [bool; 2])] = &[
    ("GET", "/api/queues/%2F/NAME", "", [TELLS, SAME]),
    ("PUT", "/api/queues/%2F/NAME", "{}", [SAME, SAME]),
    ("DELETE", "/api/queues/%2F/NAME", "", [TELLS, SAME]),
    ("DELETE", "/api/queues/%2F/NAME/contents", "", [SAME, SAME]),
    ("GET", "/api/queues/%2F/NAME/bindings", "", [TELLS, SAME]),
    ("POST", "/api/queues/%2F/NAME/get", GET_ONE, [SAME, SAME]),
    ("GET", "/api/explain/queues/%2F/NAME", "", [SAME, SAME]),
    ("GET", "/api/exchanges/%2F/NAME", "", [TELLS, SAME]),
    ("PUT", "/api/exchanges/%2F/NAME", r#"{"type":"topic"}"#, [SAME, SAME]),
    ("DELETE", "/api/exchanges/%2F/NAME", "", [SAME, SAME]),
    ("POST", "/api/exchanges/%2F/NAME/publish", PUBLISH, [SAME, SAME]),
    ("GET", "/api/exchanges/%2F/NAME/bindings/source", "", [SAME, SAME]),
    ("POST", "/api/bindings/%2F/e/NAME/q/NAME", "{}", [SAME, SAME]),
    ("GET", "/api/vhosts/NAME", "", [SAME, SAME]),
    ("PUT", "/api/vhosts/NAME", "{}", [SAME, SAME]),
    ("DELETE", "/api/vhosts/NAME", "", [SAME, SAME]),
    ("GET", "/api/queues/NAME", "", [SAME, SAME]),
    ("GET", "/api/users/NAME", "", [SAME, SAME]),
    ("PUT", "/api/users/NAME", r#"{"password":"p","tags":""}"#, [SAME, SAME]),
    ("DELETE", "/api/users/NAME", "", [SAME, SAME]),
    ("GET", "/api/policies/%2F/NAME", "", [TELLS, SAME]),
    ("PUT", "/api/policies/%2F/NAME", r#"{"pattern":"x","definition":{"max-length":1}}"#, [SAME, SAME]),
];

const GET_ONE: &str = r#"{"ackmode":"ack_requeue_true","count":1,"encoding":"auto"}"#;
const PUBLISH: &str = r#"{"properties":{},"routing_key":"k","payload":"p","payload_encoding":"string"}"#;

/// Whether the refusal of a virtual host tells whether it exists.
const VHOSTS: &[(&str, bool)] = &[("AMQP 0.9.1", TELLS), ("AMQP 1.0", TELLS)];

async fn open(name: &str) -> Fixture {
    let is_one = |subject: &Subject| [NOBODY, STRANGER].contains(&subject.name());
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

/// Returns a line about each request whose answers tell although they should not, or do not tell although the table says so.
fn wrong(what: &str, tells: bool, [seen, gone]: [String; 2]) -> Option<String> {
    ((seen != gone) != tells).then(|| format!("{what}: {seen} | {gone}"))
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
    let told = asked.err().map_or_else(|| "done".to_owned(), |error: Error| error.to_string());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_tell_of_what_exists_only_where_the_table_says_so() {
    let fixture = open("existence").await;
    let mut all_wrong = Vec::new();
    let mut client = Client::open(&fixture.url(NOBODY), NOBODY).await.unwrap();
    for (what, tells) in AMQP091 {
        let answers = [ask091(&mut client, what, NAMES[0]).await, ask091(&mut client, what, NAMES[1]).await];
        all_wrong.extend(wrong(&format!("AMQP 0.9.1, {what}"), *tells, answers));
    }
    let connection = fixture.connect(NOBODY).await.unwrap();
    for (what, tells) in AMQP10 {
        let answers = [ask10(&connection, what, NAMES[0]).await, ask10(&connection, what, NAMES[1]).await];
        all_wrong.extend(wrong(&format!("AMQP 1.0, {what}"), *tells, answers));
    }
    for (protocol, tells) in VHOSTS {
        let open = async |name: &str| {
            let url = Url { virtual_host: Some(name.to_owned()), ..fixture.url(NOBODY) };
            let refused = match *protocol {
                "AMQP 1.0" => Connection::open(&url, client::Options::default()).await.err(),
                _ => verbs091::connect(&url).await.err(),
            };
            anonymous(&refused.expect("it is refused").to_string(), name)
        };
        let answers = [open(NAMES[0]).await, open(NAMES[1]).await];
        all_wrong.extend(wrong(&format!("{protocol}, open a virtual host"), *tells, answers));
    }
    for (method, path, body, tell) in HTTP {
        for (user, tells) in [NOBODY, STRANGER].into_iter().zip(tell) {
            let ask = async |name: &str| {
                let (status, answer) = fixture.ask(user, method, &path.replace(NAME, name), body).await;
                format!("{status} {}", anonymous(&answer, name))
            };
            let answers = [ask(NAMES[0]).await, ask(NAMES[1]).await];
            all_wrong.extend(wrong(&format!("{method} {path} as {user}"), *tells, answers));
        }
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
    // Who may see everything is told everything.
    for name in NAMES {
        let (status, _) = fixture.ask(ROOT, "GET", &format!("/api/queues/%2F/{name}"), "").await;
        assert_eq!(status, if name == "seen" { 200 } else { 404 });
    }
    fixture.close();
}
