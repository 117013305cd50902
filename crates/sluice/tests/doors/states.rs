//! The states of an object: each request that names a queue is made while the queue is exclusive to another connection,
//! while it does not exist, after it was deleted under a client that uses it, and while its messages are damaged.

use admin::{Method, ROUTES};
use amqp10::{Attach, Role, Source, Symbol, Target, TargetArchetype, Value};
use amqp091::{
    BasicConsume, BasicGet, QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind, ReplyCode,
};
use catalog::AccountChange;
use catalog::access::Identity;
use client::management::{Binding, Destination, QueueSpec};
use client::{Connection, Credit, Error, Management, ReceiverOptions, SenderOptions, Session};

use super::Subject;
use super::fixture::{Fixture, ROOT};
use super::verbs091::Client;

/// What a queue may be, in the order of the columns of the tables.
const STATES: [&str; 3] = ["exclusive of another", "absent", "damaged"];

/// A user who may use the virtual host and nothing in it. Its refusals must not depend on the state.
const NOBODY: &str = "management-none";

/// The content of a message that is damaged.
const SPOILT: &[u8] = b"this message is spoilt";

/// A queue whose only message is damaged, so that none of its messages is left.
const LOST: &str = "lost";
const ONLY: &[u8] = b"the only message is spoilt";

/// A message of the exclusive queue. Nobody but its connection may see it.
const SECRET: &[u8] = b"this message is private";

/// The routes that name a queue, with a body and the status for each state. Everybody may list an exclusive queue and see its
/// figures and bindings. Whoever reads or changes it is refused.
const HTTP: &[(Method, &str, &str, [u16; 3])] = &[
    (Method::Get, "/api/queues/{vhost}/{name}", "", [200, 404, 200]),
    (Method::Get, "/api/queues/{vhost}/{name}/bindings", "", [200, 200, 200]),
    (Method::Get, "/api/explain/queues/{vhost}/{name}", "", [200, 404, 200]),
    (Method::Get, "/api/queues/{vhost}/{name}/messages", "", [400, 404, 400]),
    (Method::Get, "/api/queues/{vhost}/{name}/peek/{position}", "", [400, 404, 400]),
    (Method::Get, "/api/queues/{vhost}/{name}/search", "", [400, 404, 400]),
    (Method::Post, "/api/queues/{vhost}/{name}/get", GET_ONE, [400, 404, 400]),
    (Method::Post, "/api/queues/{vhost}/{name}/move", r#"{"to_queue":"other"}"#, [400, 404, 400]),
    (Method::Post, "/api/queues/{vhost}/{name}/redrive", "{}", [400, 404, 400]),
    (Method::Get, "/api/bindings/{vhost}/e/{source}/q/{destination}", "", [200, 200, 200]),
    (Method::Post, "/api/bindings/{vhost}/e/{source}/q/{destination}", "{}", [400, 404, 201]),
    (Method::Get, "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}", "", [200, 404, 200]),
    (Method::Delete, "/api/bindings/{vhost}/e/{source}/q/{destination}/{props}", "", [400, 404, 204]),
    (Method::Delete, "/api/queues/{vhost}/{name}/contents", "", [400, 404, 400]),
    (Method::Delete, "/api/queues/{vhost}/{name}", "", [400, 404, 204]),
    (Method::Put, "/api/queues/{vhost}/{name}", "{}", [400, 201, 201]),
];

const GET_ONE: &str = r#"{"ackmode":"ack_requeue_true","count":1,"encoding":"auto"}"#;

/// These need a quorum queue, which is never exclusive.
const OF_QUORUM_QUEUES: &[&str] = &["/api/queues/{vhost}/{name}/actions", "/api/queues/quorum/"];

/// The queues are in the states of [`STATES`], by their names.
struct Queues {
    fixture: Fixture,
    /// The connection of the exclusive queue.
    owner: Connection,
}

impl Queues {
    async fn open(name: &str) -> Self {
        let subjects: Vec<_> =
            Subject::all().into_iter().filter(|subject| subject.name() == NOBODY).collect();
        let fixture = Fixture::open(name, &subjects).await;
        fixture.prepare("PUT", "/api/queues/%2F/damaged", "{}").await;
        fixture.prepare("PUT", &format!("/api/queues/%2F/{LOST}"), "{}").await;
        let connection = fixture.connect(ROOT).await.unwrap();
        let session = connection.session().await.unwrap();
        send(&session, "damaged", SPOILT).await;
        send(&session, "damaged", b"this one is whole").await;
        send(&session, LOST, ONLY).await;
        connection.close().await.unwrap();
        let fixture = fixture.damage(&[SPOILT, ONLY]).await;
        fixture.prepare("PUT", "/api/queues/%2F/other", "{}").await;
        fixture.prepare("PUT", "/api/exchanges/%2F/x", r#"{"type":"topic"}"#).await;
        let owner = fixture.connect(ROOT).await.unwrap();
        let session = owner.session().await.unwrap();
        let management = Management::open(&session).await.unwrap();
        let own = QueueSpec { exclusive: true, ..QueueSpec::default() };
        management.declare_queue("exclusive", &own).await.unwrap();
        management.bind(&Binding::to_queue("x", "exclusive", "exclusive")).await.unwrap();
        send(&session, "exclusive", SECRET).await;
        std::mem::forget(management);
        fixture.prepare("POST", "/api/bindings/%2F/e/x/q/damaged", r#"{"routing_key":"damaged"}"#).await;
        Self { fixture, owner }
    }

    fn name(state: &str) -> &str {
        state.split(' ').next().unwrap_or_default()
    }

    /// Checks that the exclusive queue is as its connection has left it.
    async fn close(self) {
        let session = self.owner.session().await.unwrap();
        let management = Management::open(&session).await.unwrap();
        let bindings =
            management.bindings("x", &Destination::Queue("exclusive".to_owned()), "exclusive").await;
        assert_eq!(bindings.unwrap().value.len(), 1, "nobody has bound or unbound it");
        let receiver = session.receiver(Some("/queues/exclusive"), ReceiverOptions::default()).await.unwrap();
        let first = client::Message::decode(&receiver.recv().await.unwrap().message).unwrap();
        assert_eq!(first.body, client::Body::Data(vec![SECRET.into()]), "nobody has taken its message");
        self.owner.close().await.unwrap();
        self.fixture.close();
    }
}

async fn send(session: &Session, queue: &str, body: &'static [u8]) {
    let sender = session.sender(Some(&format!("/queues/{queue}")), SenderOptions::default()).await.unwrap();
    sender.send(client::Message::data(body).durable(true).encode()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_that_names_a_queue_answers_by_its_state() {
    let queues = Queues::open("states-http").await;
    let names_a_queue = |path: &str| {
        path.contains("queues/{vhost}/{name}")
            || path.contains("/q/{destination}") && !path.contains("/traces/")
    };
    for route in ROUTES.iter().filter(|route| names_a_queue(route.path)) {
        let is_listed = HTTP.iter().any(|row| (row.0, row.1) == (route.method, route.path));
        let is_of_quorum = OF_QUORUM_QUEUES.iter().any(|path| route.path.starts_with(path));
        assert!(is_listed || is_of_quorum, "{} {} has no row", route.method, route.path);
    }
    let mut wrong = Vec::new();
    for (method, path, body, of_states) in HTTP {
        for (state, expected) in STATES.into_iter().zip(of_states) {
            let name = Queues::name(state);
            let filled = [
                ("{vhost}", "%2F"),
                ("{name}", name),
                ("{destination}", name),
                ("{source}", "x"),
                ("{position}", "1"),
                ("{props}", name),
            ];
            let path = (*path).to_owned();
            let path = filled.iter().fold(path, |path, (part, with)| path.replace(part, with));
            // Who may use the virtual host may list what is in it, so nothing is told by what is not there.
            let is_listed = *method == Method::Get && of_states[0] == 200 && !path.contains("/explain/");
            let is_looked_up = *method == Method::Delete && !path.ends_with("/contents");
            let is_told = is_listed || is_looked_up && *expected == 404;
            let (status, answer) = queues.fixture.ask(NOBODY, &method.to_string(), &path, body).await;
            if status != if is_told { *expected } else { 401 } {
                wrong.push(format!("{method} {path} as nobody: {status} {answer}"));
            }
            let (status, answer) = queues.fixture.ask(ROOT, &method.to_string(), &path, body).await;
            let shown = String::from_utf8_lossy(SECRET);
            assert!(!answer.contains(&*shown), "{method} {path} shows a message of another: {answer}");
            if status != *expected {
                wrong.push(format!("{method} {path}: {status} instead of {expected}: {answer}"));
            }
        }
    }
    // A damaged queue is not an empty one.
    for (_, path, body, _) in
        HTTP.iter().filter(|row| row.1.ends_with("/move") || row.1.ends_with("/redrive"))
    {
        let path = path.replace("{vhost}", "%2F").replace("{name}", LOST);
        let (status, answer) = queues.fixture.ask(ROOT, "POST", &path, body).await;
        if status != 400 || !answer.contains("is damaged on the disk") {
            wrong.push(format!("POST {path}: {status} {answer}"));
        }
    }
    // An imported binding is a binding, too.
    let binding = serde_json::json!({ "bindings": [{
        "source": "x", "vhost": "/", "destination": "exclusive", "destination_type": "queue", "routing_key": "new",
        "arguments": {},
    }]});
    for path in ["/api/definitions", "/api/definitions/%2F"] {
        let (status, answer) = queues.fixture.ask(ROOT, "POST", path, &binding.to_string()).await;
        if status != 400 || !answer.contains("cannot obtain exclusive access to locked queue 'exclusive'") {
            wrong.push(format!("POST {path}: {status} {answer}"));
        }
    }
    // A policy applies to all queues whose names match, and an administrator sees everything in the definitions.
    let body = r#"{"pattern":"^exclusive$","definition":{"max-length":10}}"#;
    queues.fixture.prepare("PUT", "/api/policies/%2F/p", body).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    queues.close().await;
}

/// Everything in a virtual host that is being deleted will be gone, so nothing is made there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_virtual_host_that_is_being_deleted_gets_nothing_new() {
    let fixture = Fixture::open("closing", &[]).await;
    fixture.prepare("PUT", "/api/vhosts/closing", "{}").await;
    fixture.prepare("PUT", "/api/queues/closing/q", "{}").await;
    let close = AccountChange::CloseVhost { name: "closing".into() };
    let root = Identity::internal(ROOT, "administrator");
    fixture.node.api().change_account(&root, close).await.unwrap();
    for (method, path, body) in [
        ("PUT", "/api/queues/closing/r", "{}"),
        ("PUT", "/api/exchanges/closing/x", "{}"),
        ("POST", "/api/bindings/closing/e/amq.direct/q/q", r#"{"routing_key":"k"}"#),
        ("PUT", "/api/policies/closing/p", r#"{"pattern":"x","definition":{"max-length":1}}"#),
        ("PUT", "/api/traces/closing/t", r#"{"queue":"q"}"#),
        ("PUT", "/api/parameters/ours/closing/p", r#"{"value":1}"#),
        ("PUT", "/api/vhost-limits/closing/max-queues", r#"{"value":1}"#),
    ] {
        let (status, answer) = fixture.ask(ROOT, method, path, body).await;
        assert!(status == 404 && answer.contains("no vhost 'closing'"), "{method} {path}: {status} {answer}");
    }
    fixture.close();
}

/// The codes of AMQP 0.9.1; 0 is success.
const AMQP091: &[(&str, [u16; 3])] = &[
    ("publish", [0, 0, 0]),
    ("consume", [405, 404, 541]),
    ("get", [405, 404, 541]),
    ("inspect", [405, 404, 0]),
    ("bind", [405, 404, 0]),
    // What does not exist is unbound.
    ("unbind", [405, 0, 0]),
    ("purge", [405, 404, 541]),
    ("declare", [405, 0, 0]),
    ("declare exclusive", [405, 405, 405]),
    ("delete", [405, 0, 0]),
];

async fn ask091(client: &mut Client, verb: &str, queue: &str) -> u16 {
    let (exchange, routing_key) = ("x", queue);
    let declare = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
    let answer = match verb {
        "publish" => client.publish_to(queue).await,
        "consume" => client.ask_for(BasicConsume { queue, ..BasicConsume::default() }).await,
        "get" => client.ask_for(BasicGet { queue, no_ack: false }).await,
        "inspect" => client.ask_for(QueueDeclare { passive: true, ..declare }).await,
        "bind" => client.ask_for(QueueBind { queue, exchange, routing_key, ..QueueBind::default() }).await,
        "unbind" => {
            client.ask_for(QueueUnbind { queue, exchange, routing_key, ..QueueUnbind::default() }).await
        }
        "purge" => client.ask_for(QueuePurge { queue, nowait: false }).await,
        "declare" => client.ask_for(declare).await,
        "declare exclusive" => client.ask_for(QueueDeclare { exclusive: true, ..declare }).await,
        "delete" => client.ask_for(QueueDelete { queue, ..QueueDelete::default() }).await,
        _ => panic!("an unknown verb: {verb}"),
    };
    answer.err().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_method_that_names_a_queue_answers_by_its_state() {
    let queues = Queues::open("states-091").await;
    let mut client = Client::open(&queues.fixture.url(ROOT), ROOT).await.unwrap();
    let mut nobody = Client::open(&queues.fixture.url(NOBODY), NOBODY).await.unwrap();
    let mut wrong = Vec::new();
    for (verb, expected) in AMQP091 {
        for (state, expected) in STATES.into_iter().zip(expected) {
            let refused = ask091(&mut nobody, verb, Queues::name(state)).await;
            if refused != ReplyCode::AccessRefused.number() {
                wrong.push(format!("{verb} of a queue that is {state}, as nobody: {refused}"));
            }
            let code = ask091(&mut client, verb, Queues::name(state)).await;
            if code == ReplyCode::InternalError.number() {
                // This closes the whole connection.
                client = Client::open(&queues.fixture.url(ROOT), ROOT).await.unwrap();
            }
            if code != *expected {
                wrong.push(format!("{verb} of a queue that is {state}: {code} instead of {expected}"));
            }
        }
    }
    // The queue is deleted under its consumer: then it is absent for this client, too.
    queues.fixture.prepare("PUT", "/api/queues/%2F/meanwhile", "{}").await;
    assert_eq!(ask091(&mut client, "consume", "meanwhile").await, 0);
    queues.fixture.prepare("DELETE", "/api/queues/%2F/meanwhile", "").await;
    client.cancelled().await;
    for (verb, expected) in AMQP091.iter().filter(|(verb, _)| !verb.starts_with("declare")) {
        let code = ask091(&mut client, verb, "meanwhile").await;
        if code != expected[1] {
            wrong.push(format!("{verb} of a queue that was deleted: {code} instead of {}", expected[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    queues.close().await;
}

/// The answers of AMQP 1.0: a condition, or a status of management.
const AMQP10: &[(&str, [&str; 3])] = &[
    ("publish", ["done", "amqp:not-found", "done"]),
    ("consume", ["amqp:resource-locked", "amqp:not-found", "amqp:internal-error"]),
    ("browse", ["amqp:resource-locked", "amqp:not-found", "amqp:internal-error"]),
    ("GET", ["200", "404", "200"]),
    ("bind", ["400", "400", "204"]),
    ("list bindings", ["200", "200", "200"]),
    ("unbind", ["400", "204", "204"]),
    ("unbind nothing", ["400", "204", "204"]),
    ("purge", ["400", "404", "400"]),
    ("PUT", ["400", "201", "200"]),
    ("PUT exclusive", ["400", "400", "400"]),
    ("DELETE", ["400", "200", "200"]),
];

async fn ask10(connection: &Connection, verb: &str, queue: &str) -> String {
    let session = connection.session().await.unwrap();
    let address = format!("/queues/{queue}");
    let asked = match verb {
        "publish" => session.sender(Some(&address), SenderOptions::default()).await.map(|_| None),
        "consume" => session.receiver(Some(&address), ReceiverOptions::default()).await.map(|_| None),
        "browse" => {
            let mut attach = Attach::new("browser".to_owned(), 0, Role::Receiver);
            let distribution_mode = Some(Symbol::from_static("copy"));
            attach.source = Some(Source { address: Some(address), distribution_mode, ..Source::default() });
            attach.target = Some(TargetArchetype::Target(Target::default()));
            session.receiver_with(attach, Credit::Manual).await.map(|_| None)
        }
        _ => manage(&session, verb, queue).await.map(Some),
    };
    let answer = match asked {
        Ok(None) => "done".to_owned(),
        Ok(Some(status)) | Err(Error::Status { status, .. }) => status.to_string(),
        Err(error) => error.condition().map_or_else(|| error.to_string(), str::to_owned),
    };
    drop(session.end().await);
    answer
}

async fn manage(session: &Session, verb: &str, queue: &str) -> Result<u16, Error> {
    let management = Management::open(session).await?;
    let own = |exclusive| QueueSpec { exclusive, ..QueueSpec::default() };
    let to = Destination::Queue(queue.to_owned());
    Ok(match verb {
        "GET" => management.queue_info(queue).await?.status,
        "PUT" => management.declare_queue(queue, &own(false)).await?.status,
        "PUT exclusive" => management.declare_queue(queue, &own(true)).await?.status,
        "DELETE" => management.delete_queue(queue).await?.status,
        "purge" => management.purge_queue(queue).await?.status,
        "bind" => management.bind(&Binding::to_queue("x", queue, "new")).await?.status,
        "unbind" => management.unbind(&Binding::to_queue("x", queue, queue)).await?.status,
        "list bindings" => management.bindings("x", &to, queue).await?.status,
        "unbind nothing" => {
            let path = format!("/bindings/src=x;dstq={queue};key=nothing;args=");
            management.request("DELETE", &path, Value::Null).await?.status
        }
        _ => panic!("an unknown verb: {verb}"),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_that_names_a_queue_answers_by_its_state() {
    let queues = Queues::open("states-10").await;
    let connection = queues.fixture.connect(ROOT).await.unwrap();
    let nobody = queues.fixture.connect(NOBODY).await.unwrap();
    let mut wrong = Vec::new();
    for (verb, expected) in AMQP10 {
        for (state, expected) in STATES.into_iter().zip(expected) {
            let refused = ask10(&nobody, verb, Queues::name(state)).await;
            if refused != "amqp:unauthorized-access" {
                wrong.push(format!("{verb} of a queue that is {state}, as nobody: {refused}"));
            }
            let answer = ask10(&connection, verb, Queues::name(state)).await;
            if answer != *expected {
                wrong.push(format!("{verb} of a queue that is {state}: {answer} instead of {expected}"));
            }
        }
    }
    queues.fixture.prepare("PUT", "/api/queues/%2F/meanwhile", "{}").await;
    let session = connection.session().await.unwrap();
    let receiver = session.receiver(Some("/queues/meanwhile"), ReceiverOptions::default()).await.unwrap();
    queues.fixture.prepare("DELETE", "/api/queues/%2F/meanwhile", "").await;
    let detached = receiver.recv().await.err().unwrap();
    assert_eq!(detached.condition(), Some("amqp:resource-deleted"), "{detached}");
    for (verb, expected) in AMQP10.iter().filter(|(verb, _)| !verb.starts_with("PUT")) {
        let answer = ask10(&connection, verb, "meanwhile").await;
        if answer != expected[1] {
            wrong.push(format!("{verb} of a queue that was deleted: {answer} instead of {}", expected[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    queues.close().await;
}
