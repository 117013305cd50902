//! The requests of AMQP 0.9.1 that need permissions, and a client that makes them.

use std::net::SocketAddr;

use amqp091::{
    BasicConsume, BasicGet, BasicPublish, Config, ConfirmSelect, Connection, ConnectionStartOk, Event,
    ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, Method, QueueBind, QueueDeclare,
    QueueDelete, QueuePurge, QueueUnbind, ReplyCode, Secret, State, Table, TableWriter, Value,
};
use broker::access::Verb;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The requests that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
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
pub const ASKS: &[(Ask, &[Verb])] = &[
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

/// A connection of a client.
pub struct Client {
    conn: Connection,
    socket: TcpStream,
    input: Vec<u8>,
    user: String,
    /// The last channel that was opened. Each request has its own.
    channel: u16,
}

/// What a client has heard of.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Opened,
    ChannelOpened,
    /// The answer to a request.
    Answer,
    /// The channel or the connection was closed with this code.
    Closed(u16),
    /// Nothing that the test waits for.
    Other,
}

impl Client {
    /// Opens a connection. Returns `None` if the user may not use the virtual host.
    pub async fn open(broker: SocketAddr, user: &str) -> Option<Self> {
        let config = Config {
            channel_max: 0,
            frame_max: 0,
            initial_frame_max: 8192,
            heartbeat_s: 0,
            max_message_size: 1 << 20,
            incomplete_bytes_max: 1 << 20,
        };
        let socket = TcpStream::connect(broker).await.unwrap();
        let conn = Connection::client(config, 0);
        let mut client = Self { conn, socket, input: Vec::new(), user: user.to_owned(), channel: 0 };
        match client.hear().await {
            Heard::Opened => Some(client),
            Heard::Closed(code) => {
                assert_eq!(code, ReplyCode::NotAllowed.number(), "{user}");
                None
            }
            other => panic!("{other:?} as {user}"),
        }
    }

    /// Makes a request on a new channel. Returns false if the permission is missing.
    pub async fn ask(&mut self, what: Ask) -> bool {
        self.channel += 1;
        assert!(self.conn.open_channel(self.channel));
        assert_eq!(self.hear().await, Heard::ChannelOpened);
        self.send(what);
        match self.hear().await {
            Heard::Answer => true,
            Heard::Closed(code) => {
                assert_eq!(code, ReplyCode::AccessRefused.number(), "{what:?} as {}", self.user);
                false
            }
            other => panic!("{other:?} to {what:?} as {}", self.user),
        }
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
            Ask::Publish => return self.publish(),
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
        self.conn.send(self.channel, &method);
    }

    /// Publishes with a confirm, which is the answer.
    fn publish(&mut self) {
        self.conn.send(self.channel, &Method::ConfirmSelect(ConfirmSelect { nowait: true }));
        let publish = BasicPublish { exchange: "x", routing_key: "k", ..BasicPublish::default() };
        let payload = Bytes::from_static(b"m");
        // No properties: the flags alone.
        self.conn.send_content(self.channel, &Method::BasicPublish(publish), &[0, 0], &payload, 0);
    }

    /// Waits for the next thing that the test waits for.
    async fn hear(&mut self) -> Heard {
        loop {
            self.flush().await;
            let input = std::mem::take(&mut self.input);
            let (used, event) = self.conn.handle_input(&input, usize::MAX, 0);
            let heard = match event.unwrap() {
                None if used == 0 => None,
                None => Some(Heard::Other),
                Some(Event::Start(_)) => {
                    let response = format!("\0{0}\0{0}", self.user);
                    self.conn.start_ok(ConnectionStartOk {
                        client_properties: Table::EMPTY,
                        mechanism: "PLAIN",
                        response: Secret::new(response.as_bytes()),
                        locale: "en_US",
                    });
                    Some(Heard::Other)
                }
                Some(Event::Tuned) => {
                    self.conn.open("/");
                    Some(Heard::Other)
                }
                Some(Event::Opened) => Some(Heard::Opened),
                Some(Event::ChannelOpened(_)) => Some(Heard::ChannelOpened),
                Some(Event::Close { code, .. }) => Some(Heard::Closed(code)),
                Some(Event::ChannelClose { channel, code, .. }) => {
                    self.conn.channel_close_ok(channel);
                    Some(Heard::Closed(code))
                }
                Some(Event::Content { channel, content }) if channel == self.channel => {
                    // A delivery is no answer; a message for basic.get is one.
                    Some(if content.get_ok().is_some() { Heard::Answer } else { Heard::Other })
                }
                Some(Event::Method { channel, .. }) if channel == self.channel => Some(Heard::Answer),
                Some(_) => Some(Heard::Other),
            };
            self.input = input[used..].to_vec();
            match heard {
                Some(Heard::Other) => {}
                Some(heard) => return heard,
                None => {
                    let mut more = [0; 4096];
                    let n = self.socket.read(&mut more).await.unwrap();
                    assert!(n > 0, "the socket is closed in state {:?}", self.conn.state());
                    self.input.extend_from_slice(&more[..n]);
                }
            }
        }
    }

    async fn flush(&mut self) {
        let mut bytes = Vec::new();
        let output = self.conn.output();
        while !output.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[])];
            let n = output.slices(&mut slices);
            bytes.extend_from_slice(&slices[..n][0]);
            let taken = slices[0].len();
            output.advance(taken);
        }
        self.socket.write_all(&bytes).await.unwrap();
        debug_assert!(self.conn.state() != State::Closed);
    }
}
