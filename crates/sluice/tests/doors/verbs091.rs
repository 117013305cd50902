//! The requests of AMQP 0.9.1 that need permissions.

use std::time::Duration;

use amqp091::{
    BasicConsume, BasicGet, BasicPublish, ConfirmSelect, Event, ExchangeBind, ExchangeDeclare,
    ExchangeDelete, ExchangeUnbind, Method, QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
    ReplyCode, Table, TableWriter, Value,
};
use bytes::{Bytes, BytesMut};
use catalog::access::Verb;
use client::amqp091::{Connection, Options};
use client::{Error, Url};

/// The requests that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Publish,
    Consume,
    Get,
    InspectQueue,
    InspectExchange,
    DeclareQueue,
    DeclareQueueWithDeadLetters,
    DeclareUnnamedQueue,
    DeleteQueue,
    PurgeQueue,
    DeclareExchange,
    DeclareExchangeWithAlternate,
    DeleteExchange,
    BindQueue,
    UnbindQueue,
    BindExchange,
    UnbindExchange,
}

/// Each request with the verbs that it needs.
pub(super) const ASKS: &[(Ask, &[Verb])] = &[
    (Ask::Publish, &[Verb::Publish, Verb::PublishTopic]),
    (Ask::Consume, &[Verb::Consume]),
    (Ask::Get, &[Verb::Consume]),
    (Ask::InspectQueue, &[Verb::Inspect]),
    (Ask::InspectExchange, &[Verb::Inspect]),
    (Ask::DeclareQueue, &[Verb::DeclareQueue]),
    (Ask::DeclareQueueWithDeadLetters, &[Verb::DeclareQueue, Verb::DeadLetterTo]),
    (Ask::DeclareUnnamedQueue, &[Verb::DeclareQueue]),
    (Ask::DeleteQueue, &[Verb::DeleteQueue]),
    (Ask::PurgeQueue, &[Verb::PurgeQueue]),
    (Ask::DeclareExchange, &[Verb::DeclareExchange]),
    (Ask::DeclareExchangeWithAlternate, &[Verb::DeclareExchange, Verb::AlternateTo]),
    (Ask::DeleteExchange, &[Verb::DeleteExchange]),
    (Ask::BindQueue, &[Verb::Bind, Verb::BindTopic]),
    (Ask::UnbindQueue, &[Verb::Unbind, Verb::BindTopic]),
    (Ask::BindExchange, &[Verb::Bind, Verb::BindTopic]),
    (Ask::UnbindExchange, &[Verb::Unbind, Verb::BindTopic]),
];

/// Opens a connection.
///
/// # Errors
/// The broker has refused it.
pub(super) async fn connect(url: &Url) -> Result<Connection, Error> {
    // Nobody serves the connection between two requests.
    let options = Options { idle_time_out: Duration::ZERO, ..Options::default() };
    Connection::open(url, options).await
}

/// A client whose requests have a channel each.
pub(super) struct Client {
    connection: Connection,
    user: String,
    /// The last channel that was opened.
    channel: u16,
    /// True if a queue has rejected the last message that was published with a confirm.
    is_rejected: bool,
}

impl Client {
    /// Opens a connection. Returns `None` if the user may not use the virtual host.
    pub(super) async fn open(url: &Url, user: &str) -> Option<Self> {
        match connect(url).await {
            Ok(connection) => {
                Some(Self { connection, user: user.to_owned(), channel: 0, is_rejected: false })
            }
            Err(Error::Refused { channel: None, code, .. }) if code == ReplyCode::NotAllowed.number() => None,
            Err(error) => panic!("{error} as {user}"),
        }
    }

    /// Makes a request on a new channel. Returns false if the permission is missing.
    pub(super) async fn ask(&mut self, what: Ask) -> bool {
        self.channel += 1;
        self.connection.open_channel(self.channel).await.unwrap();
        self.ask_again(what).await
    }

    /// Makes a request on the channel of the last one. Returns false if the permission is missing.
    pub(super) async fn ask_again(&mut self, what: Ask) -> bool {
        self.send(what);
        match self.answered().await {
            Ok(()) => true,
            Err(Error::Refused { channel: Some(_), code, .. })
                if code == ReplyCode::AccessRefused.number() =>
            {
                false
            }
            Err(error) => panic!("{error} after {what:?} as {}", self.user),
        }
    }

    /// Sends a method on a new channel. Returns the reply code of a refusal.
    pub(super) async fn ask_for(&mut self, method: impl Into<Method<'_>>) -> Result<(), u16> {
        self.channel += 1;
        self.connection.open_channel(self.channel).await.unwrap();
        self.connection.send(self.channel, &method.into());
        self.refused_with().await
    }

    /// Publishes to a queue, with a confirm, on a new channel. Returns the reply code of a refusal.
    pub(super) async fn publish_to(&mut self, queue: &str) -> Result<(), u16> {
        self.channel += 1;
        self.connection.open_channel(self.channel).await.unwrap();
        self.publish("", queue);
        self.refused_with().await
    }

    /// Makes a request on a new channel. Returns everything that the client is told.
    pub(super) async fn told(&mut self, method: impl Into<Method<'_>>) -> String {
        self.channel += 1;
        self.connection.open_channel(self.channel).await.unwrap();
        self.connection.send(self.channel, &method.into());
        self.heard().await
    }

    /// Publishes with a confirm on a new channel. Returns everything that the client is told.
    pub(super) async fn told_of_publish(&mut self, exchange: &str, routing_key: &str) -> String {
        self.channel += 1;
        self.connection.open_channel(self.channel).await.unwrap();
        self.publish(exchange, routing_key);
        self.heard().await
    }

    /// The same, on the channel of the last request if `again` is true.
    pub(super) async fn told_of_publish_on(
        &mut self,
        again: bool,
        exchange: &str,
        routing_key: &str,
    ) -> String {
        if !again {
            return self.told_of_publish(exchange, routing_key).await;
        }
        self.publish(exchange, routing_key);
        self.heard().await
    }

    async fn heard(&mut self) -> String {
        match self.answered().await {
            Ok(()) if self.is_rejected => "rejected".to_owned(),
            Ok(()) => "done".to_owned(),
            Err(error) => coded(&error),
        }
    }

    async fn refused_with(&mut self) -> Result<(), u16> {
        match self.answered().await {
            Ok(()) => Ok(()),
            Err(Error::Refused { code, .. }) => Err(code),
            Err(error) => panic!("{error} as {}", self.user),
        }
    }

    /// Waits until the broker cancels a consumer.
    pub(super) async fn cancelled(&mut self) {
        loop {
            match self.connection.exchange(|_| ()).await {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(error) => panic!("{error} as {}", self.user),
            }
        }
    }

    /// Waits until the broker closes the connection. Returns the reason.
    pub(super) async fn closed(&mut self) -> String {
        self.connection.closed().await.to_string()
    }

    /// Waits for the answer on the last channel.
    async fn answered(&mut self) -> Result<(), Error> {
        let mut is_answered = false;
        self.is_rejected = false;
        while !is_answered {
            let of = self.channel;
            let is_rejected = &mut self.is_rejected;
            let hear = |event: Event<'_>| {
                *is_rejected |= matches!(&event, Event::Method { method: Method::BasicNack(_), .. });
                is_answered |= match event {
                    Event::Method { channel, .. } => channel == of,
                    // A delivery is no answer; a message for basic.get is one.
                    Event::Content { channel, content } => channel == of && content.get_ok().is_some(),
                    _ => false,
                }
            };
            self.connection.exchange(hear).await?;
        }
        Ok(())
    }

    fn send(&mut self, what: Ask) {
        let mut arguments = BytesMut::new();
        let argument = match what {
            Ask::DeclareQueueWithDeadLetters => Some(("x-dead-letter-exchange", "x")),
            Ask::DeclareExchangeWithAlternate => Some(("alternate-exchange", "y")),
            _ => None,
        };
        let mut table = TableWriter::new(&mut arguments);
        argument.iter().for_each(|(key, value)| table.put(key, &Value::LongString(value.as_bytes())));
        drop(table);
        let arguments = Table::from_entries(&arguments[4..]);
        let queue = QueueDeclare { durable: true, arguments, ..QueueDeclare::default() };
        let exchange = ExchangeDeclare { durable: true, arguments, ..ExchangeDeclare::default() };
        let (routing_key, nowait) = ("k", false);
        let method: Method<'_> = match what {
            Ask::Publish => return self.publish("x", "k"),
            Ask::Consume => BasicConsume { queue: "q", ..BasicConsume::default() }.into(),
            Ask::Get => BasicGet { queue: "q", no_ack: true }.into(),
            Ask::InspectQueue => QueueDeclare { queue: "q", passive: true, ..queue }.into(),
            Ask::InspectExchange => ExchangeDeclare { exchange: "x", passive: true, ..exchange }.into(),
            Ask::DeclareQueue => QueueDeclare { queue: "q", ..queue }.into(),
            Ask::DeclareQueueWithDeadLetters => QueueDeclare { queue: "d", ..queue }.into(),
            Ask::DeclareUnnamedQueue => QueueDeclare { exclusive: true, ..queue }.into(),
            Ask::DeleteQueue => QueueDelete { queue: "absent", ..QueueDelete::default() }.into(),
            Ask::PurgeQueue => QueuePurge { queue: "q", nowait }.into(),
            Ask::DeclareExchange => ExchangeDeclare { exchange: "x", kind: "topic", ..exchange }.into(),
            Ask::DeclareExchangeWithAlternate => {
                ExchangeDeclare { exchange: "a", kind: "direct", ..exchange }.into()
            }
            Ask::DeleteExchange => ExchangeDelete { exchange: "absent", ..ExchangeDelete::default() }.into(),
            Ask::BindQueue => {
                QueueBind { queue: "q", exchange: "x", routing_key, ..QueueBind::default() }.into()
            }
            Ask::UnbindQueue => {
                QueueUnbind { queue: "q", exchange: "x", routing_key, ..QueueUnbind::default() }.into()
            }
            Ask::BindExchange => {
                ExchangeBind { destination: "y", source: "x", routing_key, ..ExchangeBind::default() }.into()
            }
            Ask::UnbindExchange => {
                ExchangeUnbind { destination: "y", source: "x", routing_key, ..ExchangeUnbind::default() }
                    .into()
            }
        };
        self.connection.send(self.channel, &method);
    }

    /// Publishes with a confirm, which is the answer.
    fn publish(&mut self, exchange: &str, routing_key: &str) {
        self.connection.send(self.channel, &Method::ConfirmSelect(ConfirmSelect { nowait: true }));
        let publish = BasicPublish { exchange, routing_key, ..BasicPublish::default() };
        // No properties: the flags alone.
        self.connection.publish(self.channel, &publish, &[0, 0], &Bytes::from_static(b"m"));
    }
}

/// Returns an error as text, with its code first.
pub(super) fn coded(error: &Error) -> String {
    match error {
        Error::Refused { code, .. } => format!("{code} {error}"),
        Error::Remote { error: refused, .. } => format!("{} {error}", refused.condition),
        Error::Status { status, .. } => format!("{status} {error}"),
        _ => error.to_string(),
    }
}
