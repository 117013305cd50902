//! The methods of AMQP 0.9.1 that name an object.

use amqp091::{
    BasicConsume, BasicGet, ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, Method, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge, QueueUnbind, Table, TableWriter, Value,
};
use bytes::BytesMut;
use client::Url;

use super::Asked;
use super::model::{Answer, Does, Kind, Question, State, Vhost};
use super::world::{KEY, SINK, SOURCE, TARGET, World, amqp_name};
use crate::doors::verbs091::{self, Client, coded};

/// The methods, with what each does to which object.
pub(super) const ASKS: &[(&str, Kind, Does)] = &[
    ("basic.publish to a queue", Kind::Queue, Does::Send),
    ("basic.consume", Kind::Queue, Does::Take),
    ("basic.get", Kind::Queue, Does::Take),
    ("queue.declare, passive", Kind::Queue, Does::Inspect),
    ("queue.declare", Kind::Queue, Does::Declare),
    ("queue.declare, exclusive", Kind::Queue, Does::DeclareExclusive),
    ("queue.purge", Kind::Queue, Does::Purge),
    ("queue.delete", Kind::Queue, Does::Delete),
    ("queue.bind", Kind::ToQueue, Does::Bind),
    ("queue.unbind", Kind::ToQueue, Does::Unbind),
    ("queue.bind from", Kind::FromExchange, Does::Bind),
    ("queue.unbind from", Kind::FromExchange, Does::Unbind),
    ("queue.declare, with dead letters to", Kind::Exchange, Does::SendTo),
    ("basic.publish", Kind::Exchange, Does::Publish),
    ("exchange.declare, passive", Kind::Exchange, Does::Inspect),
    ("exchange.declare", Kind::Exchange, Does::Declare),
    ("exchange.declare, with the alternate", Kind::Exchange, Does::SendTo),
    ("exchange.delete", Kind::Exchange, Does::Delete),
    ("exchange.bind", Kind::ToExchange, Does::Bind),
    ("exchange.unbind", Kind::ToExchange, Does::Unbind),
    ("exchange.bind from", Kind::ExchangeToExchange, Does::Bind),
    ("exchange.unbind from", Kind::ExchangeToExchange, Does::Unbind),
];

/// The codes of an answer.
pub(super) fn codes(answer: Answer) -> &'static [&'static str] {
    match answer {
        Answer::Done | Answer::Created => &["done"],
        Answer::Refused | Answer::Never => &["403"],
        Answer::NotFound => &["404"],
        Answer::Locked => &["405"],
        Answer::Damaged => &["541", "rejected"],
        Answer::Forbidden => &[],
    }
}

/// The codes of the answer to the open of a connection.
pub(super) fn opened(answer: Answer) -> &'static [&'static str] {
    if answer == Answer::Done { &["done"] } else { &["530"] }
}

/// Opens a connection and closes it. Returns the answer.
pub(super) async fn open(world: &mut World, question: Question) -> Asked {
    world.deleted(question).await;
    let user = question.who.name();
    let vhost = question.vhost.name();
    let url = Url { virtual_host: Some(vhost.to_owned()), ..world.fixture.url(&user) };
    let told = match verbs091::connect(&url).await {
        Ok(connection) => {
            drop(connection.close().await);
            "done".to_owned()
        }
        Err(refused) => coded(&refused),
    };
    Asked::new(format!("connection.open {vhost}"), &told, "", question.vhost)
}

/// The clients of one user, one for each virtual host.
pub(super) struct Clients<'a> {
    user: &'a str,
    open: Vec<(Vhost, Client)>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(user: &'a str) -> Self {
        Self { user, open: Vec::new() }
    }

    async fn of(&mut self, world: &World, vhost: Vhost) -> &mut Client {
        if !self.open.iter().any(|(of, _)| *of == vhost) {
            let url = Url { virtual_host: Some(vhost.name().to_owned()), ..world.fixture.url(self.user) };
            self.open.push((vhost, Client::open(&url, self.user).await.unwrap()));
        }
        self.open.iter_mut().find(|(of, _)| *of == vhost).map(|(_, client)| client).unwrap()
    }

    /// Asks a question. An object that is deleted meanwhile is used before, on the same channel if the method leaves it open.
    pub(super) async fn ask(&mut self, world: &mut World, what: &str, question: Question) -> Asked {
        let Question { kind, vhost, state, who, does, .. } = question;
        let name = world.name(kind, state);
        if state == State::Deleted {
            world.make(kind, vhost, who).await;
            if matches!(does, Does::Publish | Does::Send | Does::Take | Does::Inspect) {
                let used = tell(self.of(world, vhost).await, what, &name, state, false).await;
                let there = Question { state: State::There, ..question }.answer().0;
                let code = used.split(' ').next().unwrap_or_default();
                assert!(codes(there).contains(&code), "{what} as {who:?} before the deletion: {used}");
                world.delete(kind, vhost, state).await;
                if what == "basic.consume" && used == "done" {
                    self.of(world, vhost).await.cancelled().await;
                }
                let again = matches!(does, Does::Publish | Does::Send) && used == "done";
                let told = tell(self.of(world, vhost).await, what, &name, state, again).await;
                return Asked::new(format!("{what} {name}"), &told, &name, vhost);
            }
            world.delete(kind, vhost, state).await;
        }
        let told = tell(self.of(world, vhost).await, what, &name, state, false).await;
        if told == "done" {
            if does == Does::DeclareExclusive {
                let queue = QueueDelete { queue: &name, ..QueueDelete::default() };
                self.of(world, vhost).await.told(queue).await;
            }
            world.changed(question).await;
        }
        // This closes the whole connection, or its consumer is cancelled later.
        if told.starts_with("541") || what == "basic.consume" {
            self.open.retain(|(of, _)| *of != vhost);
        }
        Asked::new(format!("{what} {name}"), &told, &name, vhost)
    }
}

/// Sends a method. Returns everything that the client is told.
async fn tell(client: &mut Client, what: &str, name: &str, state: State, again: bool) -> String {
    let other = format!("zz-sends-to-{name}");
    let name = amqp_name(name);
    let (queue, exchange, routing_key, kind) = (name, name, KEY, "topic");
    let declare = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
    let internal = state == State::Internal;
    let declare_exchange =
        ExchangeDeclare { exchange, kind, durable: true, internal, ..ExchangeDeclare::default() };
    let mut arguments = BytesMut::new();
    let method: Method<'_> = match what {
        "basic.publish to a queue" => return client.told_of_publish_on(again, "", queue).await,
        "basic.publish" => return client.told_of_publish_on(again, exchange, KEY).await,
        "basic.consume" => BasicConsume { queue, ..BasicConsume::default() }.into(),
        "basic.get" => BasicGet { queue, no_ack: false }.into(),
        "queue.declare, passive" => QueueDeclare { passive: true, ..declare }.into(),
        "queue.declare" => declare.into(),
        "queue.declare, exclusive" => QueueDeclare { exclusive: true, ..declare }.into(),
        "queue.purge" => QueuePurge { queue, nowait: false }.into(),
        "queue.delete" => QueueDelete { queue, ..QueueDelete::default() }.into(),
        "queue.bind" => QueueBind { queue, exchange: SOURCE, routing_key, ..QueueBind::default() }.into(),
        "queue.unbind" => {
            QueueUnbind { queue, exchange: SOURCE, routing_key, ..QueueUnbind::default() }.into()
        }
        "queue.bind from" => {
            QueueBind { queue: TARGET, exchange, routing_key, ..QueueBind::default() }.into()
        }
        "queue.unbind from" => {
            QueueUnbind { queue: TARGET, exchange, routing_key, ..QueueUnbind::default() }.into()
        }
        "queue.declare, with dead letters to" => {
            let arguments = argument(&mut arguments, "x-dead-letter-exchange", name);
            QueueDeclare { queue: &other, durable: true, arguments, ..QueueDeclare::default() }.into()
        }
        "exchange.declare, passive" => ExchangeDeclare { passive: true, ..declare_exchange }.into(),
        "exchange.declare" => declare_exchange.into(),
        "exchange.declare, with the alternate" => {
            let arguments = argument(&mut arguments, "alternate-exchange", name);
            ExchangeDeclare { exchange: &other, kind, durable: true, arguments, ..ExchangeDeclare::default() }
                .into()
        }
        "exchange.delete" => ExchangeDelete { exchange, ..ExchangeDelete::default() }.into(),
        "exchange.bind" => {
            ExchangeBind { destination: name, source: SOURCE, routing_key, ..ExchangeBind::default() }.into()
        }
        "exchange.unbind" => {
            ExchangeUnbind { destination: name, source: SOURCE, routing_key, ..ExchangeUnbind::default() }
                .into()
        }
        "exchange.bind from" => {
            ExchangeBind { destination: SINK, source: name, routing_key, ..ExchangeBind::default() }.into()
        }
        "exchange.unbind from" => {
            ExchangeUnbind { destination: SINK, source: name, routing_key, ..ExchangeUnbind::default() }
                .into()
        }
        _ => panic!("an unknown method: {what}"),
    };
    client.told(method).await
}

fn argument<'a>(into: &'a mut BytesMut, key: &str, value: &str) -> Table<'a> {
    let mut table = TableWriter::new(into);
    table.put(key, &Value::LongString(value.as_bytes()));
    drop(table);
    Table::from_entries(&into[4..])
}
