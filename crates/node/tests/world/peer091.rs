//! One end of a connection of AMQP 0.9.1, built from our own endpoint.

use std::collections::BTreeMap;

use amqp091::{
    BasicAck, BasicConsume, BasicNack, BasicPublish, BasicQos, Config, ConfirmSelect, Connection,
    ConnectionStartOk, Content, Event, Method, Output, Properties, Secret, Table, TableWriter, Value,
};
use bytes::{Bytes, BytesMut};
use wal_testing::Random;

use super::client::{Outcome, Peer, Seen, What, body, number_in};

const CHANNEL: u16 = 1;

/// The delivery mode of durable messages.
const DURABLE: u8 = 2;

/// The most messages that a publisher leaves without a confirm.
const UNCONFIRMED_MAX: usize = 200;

/// The prefetch count of a consumer of a stream. RabbitMQ wants one.
const READER_PREFETCH: u16 = 100;

pub(super) struct Peer091 {
    conn: Connection,
    what: What,
    queue: String,
    /// The number of the newest published message on the channel: its delivery tag.
    tag: u64,
    /// The messages without a confirm, by their delivery tags.
    unconfirmed: BTreeMap<u64, u64>,
}

impl Peer091 {
    pub(super) fn new(what: What, address: &str, now_ms: u64) -> Self {
        let config = Config {
            channel_max: 10,
            frame_max: 4096,
            initial_frame_max: 8192,
            heartbeat_s: 0,
            max_message_size: u64::MAX,
            incomplete_bytes_max: usize::MAX,
        };
        let queue = address.strip_prefix("/queues/").expect("the address of a queue").to_owned();
        Self { conn: Connection::client(config, now_ms), what, queue, tag: 0, unconfirmed: BTreeMap::new() }
    }

    /// Begins to publish or to consume.
    fn begin(&mut self) {
        let mut arguments = BytesMut::new();
        let prefetch_count = match &self.what {
            What::Publisher(_) => {
                self.conn.send(CHANNEL, &Method::ConfirmSelect(ConfirmSelect { nowait: false }));
                return;
            }
            What::Consumer { credit } => u16::try_from(*credit).expect("a small credit"),
            What::Reader { start, .. } => {
                let start = match start {
                    amqp10::Value::String(name) => Value::LongString(name.as_bytes()),
                    amqp10::Value::Timestamp(ms) => Value::Timestamp(*ms as u64 / 1000),
                    offset => Value::I64(offset.as_u64().expect("an offset") as i64),
                };
                TableWriter::new(&mut arguments).put("x-stream-offset", &start);
                READER_PREFETCH
            }
        };
        self.conn.send(CHANNEL, &Method::BasicQos(BasicQos { prefetch_count, ..BasicQos::default() }));
        // A table begins with the four bytes of its length.
        let arguments = Table::from_entries(arguments.get(4..).unwrap_or_default());
        let consume = BasicConsume { queue: &self.queue, arguments, ..BasicConsume::default() };
        self.conn.send(CHANNEL, &Method::BasicConsume(consume));
    }

    /// Answers an event. Returns what it means.
    fn handle(&mut self, event: Event<'_>) -> Option<Seen> {
        match event {
            Event::Start(_) => self.conn.start_ok(ConnectionStartOk {
                client_properties: Table::EMPTY,
                mechanism: "PLAIN",
                response: Secret::new(b"\0guest\0guest"),
                locale: "en_US",
            }),
            Event::Tuned => self.conn.open("/"),
            Event::Opened => assert!(self.conn.open_channel(CHANNEL)),
            Event::ChannelOpened(_) => self.begin(),
            Event::Content { content, .. } => return Some(delivery(&content)),
            Event::Close { text, .. } | Event::ChannelClose { text, .. } => {
                return Some(Seen::Trouble(text.to_owned()));
            }
            Event::Method { method, .. } => match method {
                Method::ConfirmSelectOk(_) | Method::BasicConsumeOk(_) => return Some(Seen::Attached),
                Method::BasicAck(BasicAck { delivery_tag, multiple }) => {
                    return Some(Seen::Outcomes(self.confirmed(delivery_tag, multiple), true));
                }
                Method::BasicNack(BasicNack { delivery_tag, multiple, .. }) => {
                    return Some(Seen::Outcomes(self.confirmed(delivery_tag, multiple), false));
                }
                Method::BasicCancel(_) => return Some(Seen::Trouble("the consumer is cancelled".to_owned())),
                _ => {}
            },
            _ => {}
        }
        None
    }

    /// Returns the messages that a confirm is for.
    fn confirmed(&mut self, tag: u64, multiple: bool) -> Vec<u64> {
        let named = self.unconfirmed.remove(&tag).expect("a confirm for a message that waits for it");
        if !multiple {
            return vec![named];
        }
        let later = self.unconfirmed.split_off(&tag);
        let earlier = std::mem::replace(&mut self.unconfirmed, later);
        earlier.into_values().chain([named]).collect()
    }
}

fn delivery(content: &Content<'_>) -> Seen {
    let deliver = content.deliver().expect("the only content that a consumer gets");
    let properties = Properties::parse(&content.properties).expect("valid properties");
    assert_eq!(properties.delivery_mode, Some(DURABLE), "every message is durable");
    let offset = properties.headers.and_then(|headers| headers.get("x-stream-offset"));
    let offset = offset.map(|offset| offset.as_i64().expect("an offset is a number") as u64);
    Seen::Delivery { id: deliver.delivery_tag, number: number_in(&content.payload), offset }
}

impl Peer for Peer091 {
    fn output(&mut self) -> &mut Output {
        self.conn.output()
    }

    fn handle_input(&mut self, input: &[u8], now_ms: u64, seen: &mut Vec<Seen>) -> usize {
        let mut at = 0;
        loop {
            let (used, event) = self.conn.handle_input(&input[at..], usize::MAX, now_ms);
            at += used;
            match event.expect("no violation") {
                Some(event) => seen.extend(self.handle(event)),
                None if used == 0 => return at,
                None => {}
            }
        }
    }

    fn may_send(&self, waiting: usize) -> bool {
        waiting < UNCONFIRMED_MAX
    }

    fn send(&mut self, number: u64, size: usize) -> u64 {
        let mut properties = BytesMut::new();
        Properties { delivery_mode: Some(DURABLE), ..Properties::default() }.put(&mut properties);
        let body = Bytes::from(body(number, size));
        let publish = BasicPublish { routing_key: &self.queue, ..BasicPublish::default() };
        self.conn.send_content(CHANNEL, &Method::BasicPublish(publish), &properties, &body, 0);
        self.tag += 1;
        self.unconfirmed.insert(self.tag, number);
        (properties.len() + body.len()) as u64
    }

    /// Deliveries are settled from the oldest on, so one method settles all that have the same outcome in a row.
    fn settle(&mut self, outcomes: &[(u64, Outcome)]) {
        for run in outcomes.chunk_by(|(_, one), (_, next)| one == next) {
            let [.., (delivery_tag, outcome)] = *run else { continue };
            let multiple = run.len() > 1;
            let requeue = outcome == Outcome::Released;
            self.conn.send(
                CHANNEL,
                &match outcome {
                    Outcome::Accepted => Method::BasicAck(BasicAck { delivery_tag, multiple }),
                    _ => Method::BasicNack(BasicNack { delivery_tag, multiple, requeue }),
                },
            );
        }
    }

    /// The prefetch count is replenished when deliveries are settled.
    fn replenish(&mut self, _: u32) {}

    fn ask(&mut self, _: &mut Random) {}
}
