//! The links and the requests for management of AMQP 1.0 that name an object.

use amqp10::{Attach, DeliveryState, Role, Source, Symbol, Target, TargetArchetype, Value};
use client::management::{Binding, Destination, ExchangeSpec, QueueSpec};
use client::{Connection, Credit, Error, Management, ReceiverOptions, SenderOptions, Session, Url};

use super::Asked;
use super::model::{Answer, Does, Kind, Question, State};
use super::world::{KEY, SINK, SOURCE, TARGET, World, amqp_name};
use crate::doors::verbs091::coded;

/// The requests, with what each does to which object.
pub(super) const ASKS: &[(&str, Kind, Does)] = &[
    ("sender to a queue", Kind::Queue, Does::Publish),
    ("message to a queue", Kind::Queue, Does::Send),
    ("receiver", Kind::Queue, Does::Take),
    ("browser", Kind::Queue, Does::Take),
    ("GET queue", Kind::Queue, Does::Inspect),
    ("PUT queue", Kind::Queue, Does::Declare),
    ("PUT exclusive queue", Kind::Queue, Does::DeclareExclusive),
    ("DELETE messages", Kind::Queue, Does::Purge),
    ("DELETE queue", Kind::Queue, Does::Delete),
    ("bind", Kind::ToQueue, Does::Bind),
    ("unbind", Kind::ToQueue, Does::Unbind),
    ("list bindings", Kind::ToQueue, Does::InspectBindings),
    ("bind", Kind::FromExchange, Does::Bind),
    ("unbind", Kind::FromExchange, Does::Unbind),
    ("list bindings", Kind::FromExchange, Does::InspectBindings),
    ("bind", Kind::ToExchange, Does::Bind),
    ("unbind", Kind::ToExchange, Does::Unbind),
    ("bind", Kind::ExchangeToExchange, Does::Bind),
    ("unbind", Kind::ExchangeToExchange, Does::Unbind),
    ("sender", Kind::Exchange, Does::Publish),
    ("message", Kind::Exchange, Does::Publish),
    ("PUT exchange", Kind::Exchange, Does::Declare),
    ("DELETE exchange", Kind::Exchange, Does::Delete),
    ("PUT queue with dead letters to", Kind::Exchange, Does::SendTo),
    ("PUT exchange with the alternate", Kind::Exchange, Does::SendTo),
];

/// The conditions and the statuses of an answer.
pub(super) fn codes(question: Question) -> &'static [&'static str] {
    match question.answer().0 {
        // As in RabbitMQ.
        Answer::NotFound if question.does == Does::Bind => &["400"],
        Answer::Done | Answer::Created => &["done", "200", "201", "204"],
        Answer::Refused => &["amqp:unauthorized-access"],
        Answer::NotFound => &["amqp:not-found", "404"],
        Answer::Locked => &["amqp:resource-locked", "400"],
        Answer::Damaged => &["amqp:internal-error", "400"],
        Answer::Never => &["amqp:unauthorized-access", "403"],
        Answer::Forbidden => &[],
    }
}

/// Opens a connection.
///
/// # Errors
/// The broker has refused it.
pub(super) async fn connect(world: &World, question: Question) -> Result<Connection, Error> {
    let (user, vhost) = (question.who.name(), question.vhost.name());
    let url = Url { virtual_host: Some(vhost.to_owned()), ..world.fixture.url(&user) };
    Connection::open(&url, client::Options::default()).await
}

/// Opens a connection and closes it. Returns the answer.
pub(super) async fn open(world: &mut World, question: Question) -> Asked {
    world.deleted(question).await;
    let vhost = question.vhost.name();
    let told = match connect(world, question).await {
        Ok(connection) => {
            drop(connection.close().await);
            "done".to_owned()
        }
        Err(refused) => coded(&refused),
    };
    Asked::new(format!("open {vhost}"), &told, "", question.vhost)
}

/// Asks a question on a session of its own. An object that is deleted meanwhile is used before, on the same link if there is one.
pub(super) async fn ask(world: &mut World, connection: &Connection, what: &str, question: Question) -> Asked {
    let Question { kind, vhost, state, who, does, .. } = question;
    let name = world.name(kind, state);
    if state == State::Deleted {
        world.make(kind, vhost, who).await;
    }
    let mut session = connection.session().await.unwrap();
    if state == State::Deleted {
        if matches!(does, Does::Publish | Does::Send | Does::Take | Does::Inspect) {
            let used = request(&session, what, kind, &name, state).await;
            let there = Question { state: State::There, ..question };
            let code = used.split(' ').next().unwrap_or_default();
            assert!(codes(there).contains(&code), "{what} as {who:?} before the deletion: {used}");
            if used != "done" {
                // The refusal has ended it.
                session = connection.session().await.unwrap();
            }
        }
        world.delete(kind, vhost, state).await;
    }
    let told = request(&session, what, kind, &name, state).await;
    if told == "done" && does == Does::DeclareExclusive {
        let _ = Management::open(&session).await.unwrap().delete_queue(&name).await.unwrap();
    }
    drop(session.end().await);
    if told == "done" && state != State::Deleted {
        world.changed(question).await;
    }
    Asked::new(format!("{what} {kind:?} {name}"), &told, &name, vhost)
}

/// Makes a request. Returns everything that the client is told.
async fn request(session: &Session, what: &str, kind: Kind, name: &str, state: State) -> String {
    let other = format!("zz-sends-to-{name}");
    let name = amqp_name(name);
    let queue = format!("/queues/{name}");
    // The default exchange has no address of its own.
    let exchange = match name {
        "" => format!("/queues/{TARGET}"),
        _ => format!("/exchanges/{name}/{KEY}"),
    };
    let asked = match what {
        "sender to a queue" => session.sender(Some(&queue), SenderOptions::default()).await.map(drop),
        "sender" => session.sender(Some(&exchange), SenderOptions::default()).await.map(drop),
        "message to a queue" => return publish(session, &queue).await,
        "message" => return publish(session, &exchange).await,
        "receiver" => session.receiver(Some(&queue), ReceiverOptions::default()).await.map(drop),
        "browser" => {
            let mut attach = Attach::new("browser".to_owned(), 0, Role::Receiver);
            let distribution_mode = Some(Symbol::from_static("copy"));
            attach.source = Some(Source { address: Some(queue), distribution_mode, ..Source::default() });
            attach.target = Some(TargetArchetype::Target(Target::default()));
            session.receiver_with(attach, Credit::Manual).await.map(drop)
        }
        _ => manage(session, what, kind, [name, &other], state).await,
    };
    asked.err().map_or_else(|| "done".to_owned(), |error| coded(&error))
}

/// Publishes a message that names its target.
async fn publish(session: &Session, to: &str) -> String {
    let sent = async {
        let sender = session.sender(None, SenderOptions::default()).await?;
        sender.send(client::Message::value(Value::from("m")).to(to).encode()).await
    };
    match sent.await {
        Ok(DeliveryState::Rejected(Some(error))) => {
            format!("{} {}", error.condition, error.description.unwrap_or_default())
        }
        Ok(_) => "done".to_owned(),
        Err(error) => coded(&error),
    }
}

async fn manage(
    session: &Session,
    what: &str,
    kind: Kind,
    [name, other]: [&str; 2],
    state: State,
) -> Result<(), Error> {
    let management = Management::open(session).await?;
    let binding = match kind {
        Kind::ToQueue => Binding::to_queue(SOURCE, name, KEY),
        Kind::FromExchange => Binding::to_queue(name, TARGET, KEY),
        Kind::ToExchange => {
            let destination = Destination::Exchange(name.to_owned());
            Binding { destination, ..Binding::to_queue(SOURCE, "", KEY) }
        }
        _ => {
            let destination = Destination::Exchange(SINK.to_owned());
            Binding { destination, ..Binding::to_queue(name, "", KEY) }
        }
    };
    let exclusive = what == "PUT exclusive queue";
    let spec = QueueSpec { exclusive, ..QueueSpec::default() };
    let internal = state == State::Internal;
    let topic = ExchangeSpec { kind: "topic".to_owned(), internal, ..ExchangeSpec::default() };
    match what {
        "GET queue" => management.queue_info(name).await.map(drop),
        "PUT queue" | "PUT exclusive queue" => management.declare_queue(name, &spec).await.map(drop),
        "DELETE messages" => management.purge_queue(name).await.map(drop),
        "DELETE queue" => management.delete_queue(name).await.map(drop),
        "bind" => management.bind(&binding).await.map(drop),
        "unbind" => management.unbind(&binding).await.map(drop),
        "list bindings" => management.bindings(&binding.source, &binding.destination, KEY).await.map(drop),
        "PUT exchange" => management.declare_exchange(name, &topic).await.map(drop),
        "DELETE exchange" => management.delete_exchange(name).await.map(drop),
        "PUT queue with dead letters to" => {
            let spec = spec.argument("x-dead-letter-exchange", name);
            management.declare_queue(other, &spec).await.map(drop)
        }
        "PUT exchange with the alternate" => {
            let mut spec = ExchangeSpec { kind: "topic".to_owned(), ..ExchangeSpec::default() };
            spec.arguments.insert("alternate-exchange", name);
            management.declare_exchange(other, &spec).await.map(drop)
        }
        _ => panic!("an unknown request: {what}"),
    }
}
