//! A client of AMQP 0.9.1 on the first shard. It only counts what it is sent.

use std::io::IoSlice;
use std::net::SocketAddr;

use amqp091::frame::header_frame_len;
use amqp091::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicNack, BasicPublish, BasicQos, Config, ConfirmSelect,
    Connection, ConnectionStartOk, Event, Method, Properties, QueueDeclare, Secret, State, Table,
    TableWriter, TxCommit, TxSelect, Value,
};
use broker::explain::Subject;
use broker::gate::Phase;
use bytes::{Bytes, BytesMut};

use super::house::{GUEST, House};
use crate::world::take;

/// The property list of a durable message: the flag of the delivery mode, and 2.
const DURABLE: [u8; 3] = [0x10, 0x00, 2];

/// An empty property list: that of a message which is not durable.
const TRANSIENT: [u8; 2] = [0x00, 0x00];

pub(super) struct Client091 {
    key: usize,
    conn: Connection,
    deliveries: u32,
    /// The delivery tag of the last delivery.
    last_tag: u64,
    was_blocked: bool,
    is_blocked: bool,
    /// True if the client reads nothing, so that its socket is full.
    pub deaf: bool,
    /// The number of messages that were returned, and of those that were got.
    pub returned: u32,
    pub got: u32,
    /// The code and the text with which the broker has closed the connection, if it may.
    pub closed: Option<(u16, String)>,
    /// The code and the text with which the broker has closed a channel, if it may.
    pub closed_channel: Option<(u16, String)>,
    /// True if the broker has cancelled a consumer.
    pub was_cancelled: bool,
    /// The number of answers to Cancel and to the end of the connection.
    pub ends: u32,
    /// The number of commits that the broker has answered.
    pub committed: u32,
    /// The bodies of messages that were delivered, or got.
    pub bodies: Vec<Bytes>,
    /// True if the broker may close the connection.
    pub doomed: bool,
    /// Who logs in.
    user: &'static str,
    /// The number of properties that it has besides.
    properties: usize,
    /// True if it understands `basic.cancel`.
    is_told_of_cancel: bool,
    /// What was read and not handled yet.
    begun: Vec<u8>,
}

impl Client091 {
    /// Opens a connection with these channels.
    pub(super) fn open(house: &mut House, channels: &[u16]) -> Self {
        let mut client = Self::open_with_heartbeat(house, 0);
        for channel in channels {
            assert!(client.conn.open_channel(*channel));
        }
        client.settle(house);
        client
    }

    /// Opens a connection with this interval of heartbeats. The client sends none.
    pub(super) fn open_with_heartbeat(house: &mut House, heartbeat_s: u16) -> Self {
        let client = Self::connect(house, GUEST, heartbeat_s, 0, None);
        assert_eq!(client.conn.state(), State::Opened);
        client
    }

    /// Connects a client with this number of properties. The broker may close it.
    pub(super) fn connect_with_properties(house: &mut House, user: &'static str, properties: usize) -> Self {
        Self::connect(house, user, 0, properties, None)
    }

    /// Opens a connection with this `frame_max`, and channel 1. The client does not understand `basic.cancel`, and the broker may
    /// close the channel.
    pub(super) fn open_with_frames(house: &mut House, frame_max: u32) -> Self {
        let mut client = Self::connect(house, GUEST, 0, 0, Some(frame_max));
        assert!(client.conn.open_channel(1));
        client.settle(house);
        client.doomed = true;
        client
    }

    fn connect(
        house: &mut House,
        user: &'static str,
        heartbeat_s: u16,
        properties: usize,
        frame_max: Option<u32>,
    ) -> Self {
        let config = Config {
            channel_max: 0,
            frame_max: frame_max.unwrap_or_default(),
            initial_frame_max: 8192,
            heartbeat_s,
            max_message_size: u64::MAX,
            incomplete_bytes_max: usize::MAX,
        };
        let local: SocketAddr = ([127, 0, 0, 1], 91).into();
        let key = house.shards[0].connect(local, local);
        house.others.push(key);
        let conn = Connection::client(config, house.now_ms);
        let mut client = Self {
            key,
            conn,
            deliveries: 0,
            last_tag: 0,
            was_blocked: false,
            is_blocked: false,
            deaf: false,
            returned: 0,
            got: 0,
            closed: None,
            closed_channel: None,
            was_cancelled: false,
            ends: 0,
            committed: 0,
            bodies: Vec::new(),
            doomed: properties > 0,
            user,
            properties,
            is_told_of_cancel: frame_max.is_none(),
            begun: Vec::new(),
        };
        client.settle(house);
        client
    }

    /// Sends new credentials.
    pub(super) fn renew(&mut self, house: &mut House, password: &str) {
        self.conn.update_secret(Secret::new(password.as_bytes()), "renewal");
        self.settle(house);
    }

    /// Returns true if the connection is open at the broker.
    pub(super) fn is_open(&self, house: &mut House) -> bool {
        house.shards[0].conn(self.key).is_some_and(|conn| conn.gate.phase() == Phase::Open)
    }

    /// Returns the connection, for explanations.
    pub(super) fn subject(&self, house: &mut House) -> Subject {
        let conn = house.shards[0].conn(self.key).expect("it is open");
        Subject::Connection { name: conn.gate.peer().name.to_string() }
    }

    /// Returns true if the broker has something to send.
    pub(super) fn has_output(&self, house: &mut House) -> bool {
        house.shards[0].conn(self.key).is_some_and(|conn| !conn.gate.output().is_empty())
    }

    /// Publishes durable messages to a queue.
    pub(super) fn publish(&mut self, house: &mut House, channel: u16, queue: &str, messages: u32) {
        self.publish_to(house, channel, ("", queue), messages);
    }

    /// Publishes messages that are not durable to a queue.
    pub(super) fn publish_transient(&mut self, house: &mut House, channel: u16, queue: &str, messages: u32) {
        self.publish_with(house, channel, ("", queue), &TRANSIENT, messages);
    }

    /// Publishes durable messages to an exchange, with a routing key.
    pub(super) fn publish_to(&mut self, house: &mut House, channel: u16, to: (&str, &str), messages: u32) {
        self.publish_with(house, channel, to, &DURABLE, messages);
    }

    /// Publishes durable messages of this size to a queue.
    pub(super) fn publish_large(
        &mut self,
        house: &mut House,
        channel: u16,
        queue: &str,
        bytes: usize,
        messages: u32,
    ) {
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        let body = Bytes::from(vec![b'm'; bytes]);
        for _ in 0..messages {
            self.conn.send_content(channel, &Method::BasicPublish(publish), &DURABLE, &body, 0);
        }
        self.settle(house);
    }

    /// Publishes durable messages to a queue, whose content headers make frames of this size.
    pub(super) fn publish_headed(
        &mut self,
        house: &mut House,
        queue: &str,
        bodies: &[&'static str],
        frame_len: usize,
    ) {
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        let list = |text: &[u8]| {
            let mut list = BytesMut::new();
            let properties = Properties { delivery_mode: Some(2), ..Properties::default() };
            properties.put_with_headers(&mut list, |out| {
                TableWriter::new(out).put("h", &Value::LongString(text));
                Some(())
            });
            list
        };
        let text = vec![b'x'; frame_len - header_frame_len(list(b"").len())];
        for body in bodies {
            self.conn.send_content(
                1,
                &Method::BasicPublish(publish),
                &list(&text),
                &Bytes::from_static(body.as_bytes()),
                0,
            );
        }
        self.settle(house);
    }

    pub(super) fn open_channel(&mut self, house: &mut House, channel: u16) {
        assert!(self.conn.open_channel(channel));
        self.settle(house);
    }

    pub(super) fn close_channel(&mut self, house: &mut House, channel: u16) {
        self.conn.close_channel(channel, "done");
        self.settle(house);
    }

    pub(super) fn select_confirms(&mut self, house: &mut House, channel: u16) {
        self.conn.send(channel, &Method::ConfirmSelect(ConfirmSelect { nowait: false }));
        self.settle(house);
    }

    pub(super) fn select_tx(&mut self, house: &mut House, channel: u16) {
        self.conn.send(channel, &Method::TxSelect(TxSelect));
        self.settle(house);
    }

    pub(super) fn commit(&mut self, house: &mut House, channel: u16) {
        self.begin_commit(house, channel);
        self.settle(house);
    }

    /// Sends the commit, which the broker reads and does not answer yet.
    pub(super) fn begin_commit(&mut self, house: &mut House, channel: u16) {
        self.conn.send(channel, &Method::TxCommit(TxCommit));
        let mut up = Vec::new();
        take(self.conn.output(), &mut up);
        house.shards[0].handle_input(self.key, &mut BytesMut::from(&up[..]));
    }

    /// Acknowledges all deliveries of a channel up to this one.
    pub(super) fn ack(&mut self, house: &mut House, channel: u16, delivery_tag: u64) {
        self.conn.send(channel, &Method::BasicAck(BasicAck { delivery_tag, multiple: true }));
        self.settle(house);
    }

    /// Returns a delivery to its queue.
    pub(super) fn give_back(&mut self, house: &mut House, channel: u16, delivery_tag: u64) {
        let nack = BasicNack { delivery_tag, multiple: false, requeue: true };
        self.conn.send(channel, &Method::BasicNack(nack));
        self.settle(house);
    }

    fn publish_with(
        &mut self,
        house: &mut House,
        channel: u16,
        to: (&str, &str),
        properties: &[u8],
        messages: u32,
    ) {
        let (exchange, routing_key) = to;
        let publish = Method::BasicPublish(BasicPublish { exchange, routing_key, ..BasicPublish::default() });
        for _ in 0..messages {
            self.conn.send_content(channel, &publish, properties, &Bytes::from_static(b"m"), 0);
        }
        self.settle(house);
    }

    /// Lets all consumers of a channel together have this number of unsettled deliveries.
    pub(super) fn share_prefetch(&mut self, house: &mut House, channel: u16, prefetch_count: u16) {
        let qos = BasicQos { prefetch_size: 0, prefetch_count, global: true };
        self.conn.send(channel, &Method::BasicQos(qos));
        self.settle(house);
    }

    /// Consumes from a queue. The queue's name is the consumer's tag.
    pub(super) fn consume(&mut self, house: &mut House, channel: u16, queue: &str) {
        let consume = BasicConsume { queue, consumer_tag: queue, ..BasicConsume::default() };
        self.conn.send(channel, &Method::BasicConsume(consume));
        self.settle(house);
    }

    /// Lets each new consumer of a channel have this number of unsettled deliveries.
    pub(super) fn limit_prefetch(&mut self, house: &mut House, channel: u16, prefetch_count: u16) {
        let qos = BasicQos { prefetch_size: 0, prefetch_count, global: false };
        self.conn.send(channel, &Method::BasicQos(qos));
        self.settle(house);
    }

    /// Consumes from the first message of a stream on.
    pub(super) fn consume_from_first(&mut self, house: &mut House, channel: u16, queue: &str) {
        let mut table = BytesMut::new();
        TableWriter::new(&mut table).put("x-stream-offset", &Value::LongString(b"first"));
        let arguments = Table::parse(&table[4..]).expect("it was just written");
        let consume = BasicConsume { queue, consumer_tag: queue, arguments, ..BasicConsume::default() };
        self.conn.send(channel, &Method::BasicConsume(consume));
        self.settle(house);
    }

    /// Begins to consume from a queue, with an argument of this size that means nothing.
    pub(super) fn consume_with_argument(
        &mut self,
        house: &mut House,
        channel: u16,
        queue: &str,
        tag: &str,
        bytes: usize,
    ) {
        let mut table = BytesMut::new();
        let text = "x".repeat(bytes);
        TableWriter::new(&mut table).put("x-none", &Value::LongString(text.as_bytes()));
        let arguments = Table::parse(&table[4..]).expect("it was just written");
        let consume = BasicConsume { queue, consumer_tag: tag, arguments, ..BasicConsume::default() };
        self.conn.send(channel, &Method::BasicConsume(consume));
        self.settle(house);
    }

    /// Ends a consumer.
    pub(super) fn cancel(&mut self, house: &mut House, channel: u16, consumer_tag: &str) {
        self.conn.send(channel, &Method::BasicCancel(BasicCancel { consumer_tag, ..BasicCancel::default() }));
        self.settle(house);
    }

    /// Declares a durable queue, or one that is deleted with the connection.
    pub(super) fn declare(&mut self, house: &mut House, channel: u16, queue: &str, is_own: bool) {
        let declare = QueueDeclare { queue, durable: !is_own, exclusive: is_own, ..QueueDeclare::default() };
        self.conn.send(channel, &Method::QueueDeclare(declare));
        self.settle(house);
    }

    /// Declares a queue that is deleted with the connection, or with its last consumer.
    pub(super) fn declare_own_auto_delete(&mut self, house: &mut House, channel: u16, queue: &str) {
        let declare = QueueDeclare { queue, exclusive: true, auto_delete: true, ..QueueDeclare::default() };
        self.conn.send(channel, &Method::QueueDeclare(declare));
        self.settle(house);
    }

    /// Closes the socket.
    pub(super) fn disconnect(self, house: &mut House) {
        house.others.retain(|key| *key != self.key);
        house.shards[0].disconnect(self.key);
    }

    /// Closes the connection.
    pub(super) fn close(&mut self, house: &mut House) {
        self.conn.close("done");
        self.settle(house);
    }

    /// Publishes mandatory messages of this size that no queue takes.
    pub(super) fn publish_unroutable(
        &mut self,
        house: &mut House,
        channel: u16,
        bytes: usize,
        messages: u32,
    ) {
        let publish = BasicPublish { routing_key: "nobody", mandatory: true, ..BasicPublish::default() };
        let body = Bytes::from(vec![b'm'; bytes]);
        for _ in 0..messages {
            self.conn.send_content(channel, &Method::BasicPublish(publish), &TRANSIENT, &body, 0);
        }
        self.settle(house);
    }

    /// Publishes a durable message to a queue, and to another one by its key in `CC`.
    pub(super) fn publish_with_cc(&mut self, house: &mut House, channel: u16, queue: &str, other: &str) {
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        let mut list = BytesMut::new();
        let properties = Properties { delivery_mode: Some(2), ..Properties::default() };
        properties.put_with_headers(&mut list, |out| {
            TableWriter::new(out).array("CC").put(&Value::LongString(other.as_bytes()));
            Some(())
        });
        self.conn.send_content(channel, &Method::BasicPublish(publish), &list, &Bytes::from_static(b"m"), 0);
        self.settle(house);
    }

    /// Sends all of a large message but its last byte.
    pub(super) fn begin_large(&mut self, house: &mut House, channel: u16, queue: &str, bytes: usize) {
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        let body = Bytes::from(vec![b'm'; bytes]);
        self.conn.send_content(channel, &Method::BasicPublish(publish), &TRANSIENT, &body, 0);
        let mut up = Vec::new();
        take(self.conn.output(), &mut up);
        up.pop();
        house.shards[0].handle_input(self.key, &mut BytesMut::from(&up[..]));
        self.settle(house);
    }

    /// Asks for this number of messages of a queue, one by one, without waiting for them. They are settled as they are sent.
    pub(super) fn get(&mut self, house: &mut House, channel: u16, queue: &str, messages: u32) {
        self.get_as(house, channel, queue, messages, true);
    }

    /// As [`Self::get`], for messages that the client settles.
    pub(super) fn hold(&mut self, house: &mut House, channel: u16, queue: &str, messages: u32) {
        self.get_as(house, channel, queue, messages, false);
    }

    fn get_as(&mut self, house: &mut House, channel: u16, queue: &str, messages: u32, no_ack: bool) {
        for _ in 0..messages {
            let get = BasicGet { queue, no_ack };
            self.conn.send(channel, &Method::BasicGet(get));
        }
        self.settle(house);
    }

    /// Reads this number of bytes, as a slow client does.
    pub(super) fn read(&mut self, house: &mut House, bytes: usize) {
        let output = house.shards[0].conn(self.key).expect("it is open").gate.output();
        let mut left = bytes;
        while left > 0 {
            let mut slices = [IoSlice::new(&[])];
            output.slices(&mut slices);
            let part = left.min(slices[0].len());
            self.begun.extend_from_slice(&slices[0][..part]);
            output.advance(part);
            left -= part;
        }
        house.shards[0].note_written(self.key, bytes);
    }

    /// Returns true if the broker closes the socket at once.
    pub(super) fn is_cut(&self, house: &mut House) -> bool {
        house.shards[0].conn(self.key).expect("it is open").is_cut
    }

    /// Closes the connection as an operator does.
    pub(super) fn close_as_operator(&self, house: &mut House) {
        house.shards[0].close(self.key, "enough");
        house.settle();
    }

    /// Returns the number of bytes that the broker has to write to this client.
    pub(super) fn unread(&self, house: &mut House) -> usize {
        house.shards[0].conn(self.key).expect("it is open").gate.output().len()
    }

    /// Returns true if the broker reads the socket of this client.
    pub(super) fn is_read(&self, house: &mut House) -> bool {
        house.shards[0].conn(self.key).expect("it is open").gate.takes_input()
    }

    /// Returns true if the broker has sent `connection.blocked`.
    pub(super) fn was_blocked(&self) -> bool {
        self.was_blocked
    }

    /// Returns true if the broker has sent `connection.blocked`, and not `connection.unblocked` after it.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns the delivery tag of the last delivery.
    pub(super) fn last_tag(&self) -> u64 {
        self.last_tag
    }

    /// Returns the number of messages that were delivered to the consumers of this client.
    pub(super) fn deliveries(&self) -> u32 {
        self.deliveries
    }

    /// Exchanges bytes with the broker until nothing moves.
    pub(super) fn settle(&mut self, house: &mut House) {
        loop {
            let mut up = Vec::new();
            take(self.conn.output(), &mut up);
            house.shards[0].handle_input(self.key, &mut BytesMut::from(&up[..]));
            house.settle();
            let mut input = Vec::new();
            if !self.deaf {
                let gate = &mut house.shards[0].conn(self.key).expect("it is open").gate;
                take(gate.output(), &mut input);
                if !input.is_empty() && gate.has_pending() {
                    house.shards[0].touch(self.key);
                }
            }
            house.shards[0].note_written(self.key, input.len());
            if !self.deaf {
                input.splice(0..0, self.begun.drain(..));
            }
            if up.is_empty() && input.is_empty() {
                return;
            }
            self.handle(&input, house.now_ms);
        }
    }

    fn handle(&mut self, input: &[u8], now_ms: u64) {
        let mut rest = input;
        let login = format!("\0{}\0guest", self.user);
        loop {
            let mut properties = BytesMut::new();
            let (used, event) = self.conn.handle_input(rest, usize::MAX, now_ms);
            rest = &rest[used..];
            match event.expect("the broker keeps to the rules") {
                Some(Event::Start(_)) => self.conn.start_ok(ConnectionStartOk {
                    client_properties: client_properties(
                        &mut properties,
                        self.is_told_of_cancel,
                        self.properties,
                    ),
                    mechanism: "PLAIN",
                    response: Secret::new(login.as_bytes()),
                    locale: "en_US",
                }),
                Some(Event::Tuned) => self.conn.open("/"),
                Some(Event::Close { code, text, .. }) if self.doomed => {
                    self.closed = Some((code, text.to_owned()))
                }
                Some(Event::ChannelClose { channel, code, text, .. }) if self.doomed => {
                    self.closed_channel = Some((code, text.to_owned()));
                    self.conn.channel_close_ok(channel);
                }
                Some(Event::Close { text, .. } | Event::ChannelClose { text, .. }) => panic!("{text}"),
                Some(Event::Method { method: Method::BasicCancel(_), .. }) => self.was_cancelled = true,
                Some(Event::Method { method: Method::TxCommitOk(_), .. }) => self.committed += 1,
                Some(Event::Method { method: Method::BasicCancelOk(_), .. } | Event::Closed) => {
                    self.ends += 1
                }
                Some(Event::Blocked(_)) => (self.was_blocked, self.is_blocked) = (true, true),
                Some(Event::Unblocked) => self.is_blocked = false,
                Some(Event::Content { content, .. }) if content.returned().is_some() => self.returned += 1,
                Some(Event::Content { content, .. }) if content.deliver().is_none() => {
                    self.bodies.push(Bytes::copy_from_slice(&content.payload));
                    self.got += 1;
                }
                Some(Event::Content { content, .. }) => {
                    self.bodies.push(Bytes::copy_from_slice(&content.payload));
                    self.deliveries += 1;
                    self.last_tag = content.deliver().expect("a delivery").delivery_tag;
                }
                None if used == 0 => return,
                _ => {}
            }
        }
    }
}

/// Returns the properties of a client that takes `connection.blocked`, and perhaps `basic.cancel`, written to `table`, and this
/// number of others.
fn client_properties(table: &mut BytesMut, is_told_of_cancel: bool, others: usize) -> Table<'_> {
    let mut properties = TableWriter::new(table);
    (0..others).for_each(|number| properties.put(&number.to_string(), &Value::Void));
    let mut capabilities = properties.table("capabilities");
    capabilities.put("connection.blocked", &Value::Bool(true));
    capabilities.put("consumer_cancel_notify", &Value::Bool(is_told_of_cancel));
    drop(capabilities);
    drop(properties);
    // The first four bytes are the length of the entries.
    Table::parse(&table[4..]).expect("it was just written")
}
