//! A client of AMQP 0.9.1 on the first shard. It logs in as guest, and ignores what it is sent.

use std::net::SocketAddr;

use amqp091::{
    BasicConsume, BasicPublish, BasicQos, Config, Connection, ConnectionStartOk, Event, Method, Secret,
    State, Table,
};
use bytes::{Bytes, BytesMut};

use super::house::{House, take};

/// The property list of a durable message: the flag of the delivery mode, and 2.
const DURABLE: [u8; 3] = [0x10, 0x00, 2];

pub struct Client091 {
    key: usize,
    conn: Connection,
}

impl Client091 {
    /// Opens a connection with these channels.
    pub fn open(house: &mut House, channels: &[u16]) -> Self {
        let config = Config {
            channel_max: 0,
            frame_max: 0,
            initial_frame_max: 8192,
            heartbeat_s: 0,
            max_message_size: u64::MAX,
            incomplete_bytes_max: usize::MAX,
        };
        let local: SocketAddr = ([127, 0, 0, 1], 91).into();
        let key = house.shards[0].connect(local, local);
        let mut client = Self { key, conn: Connection::client(config, house.now_ms) };
        client.settle(house);
        assert_eq!(client.conn.state(), State::Opened);
        for channel in channels {
            assert!(client.conn.open_channel(*channel));
        }
        client.settle(house);
        client
    }

    /// Publishes durable messages to a queue.
    pub fn publish(&mut self, house: &mut House, channel: u16, queue: &str, messages: u32) {
        self.publish_to(house, channel, ("", queue), messages);
    }

    /// Publishes durable messages to an exchange, with a routing key.
    pub fn publish_to(&mut self, house: &mut House, channel: u16, to: (&str, &str), messages: u32) {
        let (exchange, routing_key) = to;
        let publish = Method::BasicPublish(BasicPublish { exchange, routing_key, ..BasicPublish::default() });
        for _ in 0..messages {
            self.conn.send_content(channel, &publish, &DURABLE, &Bytes::from_static(b"m"), 0);
        }
        self.settle(house);
    }

    /// Lets all consumers of a channel together have this number of unsettled deliveries.
    pub fn share_prefetch(&mut self, house: &mut House, channel: u16, prefetch_count: u16) {
        let qos = BasicQos { prefetch_size: 0, prefetch_count, global: true };
        self.conn.send(channel, &Method::BasicQos(qos));
        self.settle(house);
    }

    /// Consumes from a queue. The queue's name is the consumer's tag.
    pub fn consume(&mut self, house: &mut House, channel: u16, queue: &str) {
        let consume = BasicConsume { queue, consumer_tag: queue, ..BasicConsume::default() };
        self.conn.send(channel, &Method::BasicConsume(consume));
        self.settle(house);
    }

    /// Exchanges bytes with the broker until nothing moves.
    fn settle(&mut self, house: &mut House) {
        loop {
            let mut up = Vec::new();
            take(self.conn.output(), &mut up);
            house.shards[0].handle_input(self.key, &mut BytesMut::from(&up[..]));
            house.settle();
            let mut input = Vec::new();
            take(house.shards[0].conn(self.key).expect("it is open").gate.output(), &mut input);
            if up.is_empty() && input.is_empty() {
                return;
            }
            self.handle(&input, house.now_ms);
        }
    }

    fn handle(&mut self, input: &[u8], now_ms: u64) {
        let mut rest = input;
        loop {
            let (used, event) = self.conn.handle_input(rest, usize::MAX, now_ms);
            rest = &rest[used..];
            match event.expect("the broker keeps to the rules") {
                Some(Event::Start(_)) => self.conn.start_ok(ConnectionStartOk {
                    client_properties: Table::EMPTY,
                    mechanism: "PLAIN",
                    response: Secret::new(b"\0guest\0guest"),
                    locale: "en_US",
                }),
                Some(Event::Tuned) => self.conn.open("/"),
                Some(Event::Close { text, .. } | Event::ChannelClose { text, .. }) => panic!("{text}"),
                None if used == 0 => return,
                _ => {}
            }
        }
    }
}
