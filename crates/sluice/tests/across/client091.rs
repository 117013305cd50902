//! A client of AMQP 0.9.1 with one channel, which waits for each answer.

use std::collections::VecDeque;

use amqp091::{
    BasicAck, BasicConsume, BasicGet, BasicPublish, BasicQos, ConfirmSelect, Event, Method, Properties,
    QueueDeclare, Table, TableWriter, Value,
};
use bytes::{Bytes, BytesMut};
use client::Error;
use client::amqp091::{Connection, Options};

use crate::broker::Broker;

const CHANNEL: u16 = 1;
/// The delivery mode of durable messages.
const DURABLE: u8 = 2;

/// A message that has arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    /// The delivery tag.
    pub tag: u64,
    pub consumer: String,
    pub redelivered: bool,
    pub reply_to: String,
    pub body: Bytes,
}

/// What arrives at a client without a question, or as the answer to one.
#[derive(Debug, Default)]
struct Arrived {
    deliveries: VecDeque<Message>,
    gotten: Option<Message>,
    /// The messages that were confirmed, and those that were refused.
    confirmed: u64,
    refused: u64,
}

pub(super) struct Client {
    connection: Connection,
    arrived: Arrived,
    /// The messages that were published in confirm mode.
    published: u64,
}

impl Arrived {
    fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Content { content, .. } => {
                let properties = Properties::parse(&content.properties).unwrap();
                let reply_to =
                    properties.reply_to.map(String::from_utf8_lossy).unwrap_or_default().into_owned();
                let message = Message {
                    reply_to,
                    body: Bytes::copy_from_slice(&content.payload),
                    ..Message::default()
                };
                if let Some(deliver) = content.deliver() {
                    self.deliveries.push_back(Message {
                        tag: deliver.delivery_tag,
                        consumer: deliver.consumer_tag.to_owned(),
                        redelivered: deliver.redelivered,
                        ..message
                    });
                } else if let Some(got) = content.get_ok() {
                    let (tag, redelivered) = (got.delivery_tag, got.redelivered);
                    self.gotten = Some(Message { tag, redelivered, ..message });
                }
            }
            // One message after the other is published, so a confirm is for all before it.
            Event::Method { method: Method::BasicAck(ack), .. } => self.confirmed = ack.delivery_tag,
            Event::Method { method: Method::BasicNack(nack), .. } => self.refused = nack.delivery_tag,
            _ => {}
        }
    }
}

impl Client {
    pub(super) async fn open(broker: &Broker) -> Self {
        let url = broker.amqp_url().parse().unwrap();
        let mut connection = Connection::open(&url, Options::default()).await.unwrap();
        connection.open_channel(CHANNEL).await.unwrap();
        Self { connection, arrived: Arrived::default(), published: 0 }
    }

    /// Sends a method, and waits for the one with the name `answer`.
    pub(super) async fn ask(&mut self, method: &Method<'_>, answer: &str) -> Result<(), Error> {
        let arrived = &mut self.arrived;
        let is_answer = |method: &Method<'_>| (method.name() == answer).then_some(());
        self.connection.ask(CHANNEL, method, is_answer, |event| arrived.handle(&event)).await
    }

    /// Declares a durable queue, or asks for one that exists. Returns its ready messages.
    pub(super) async fn declare(&mut self, declare: QueueDeclare<'_>) -> Result<u32, Error> {
        let arrived = &mut self.arrived;
        let count = |method: &Method<'_>| match method {
            Method::QueueDeclareOk(ok) => Some(ok.message_count),
            _ => None,
        };
        let method = Method::QueueDeclare(declare);
        self.connection.ask(CHANNEL, &method, count, |event| arrived.handle(&event)).await
    }

    pub(super) async fn qos(&mut self, prefetch_count: u16) {
        let qos = BasicQos { prefetch_size: 0, prefetch_count, global: false };
        self.ask(&Method::BasicQos(qos), "basic.qos-ok").await.unwrap();
    }

    /// Makes the broker confirm messages from now on.
    pub(super) async fn confirm(&mut self) {
        self.ask(&Method::ConfirmSelect(ConfirmSelect { nowait: false }), "confirm.select-ok").await.unwrap();
    }

    /// Puts a durable message in the output.
    pub(super) fn put(&mut self, queue: &str, reply_to: Option<&str>, body: impl Into<Bytes>) {
        let mut properties = BytesMut::new();
        let reply_to = reply_to.map(str::as_bytes);
        Properties { delivery_mode: Some(DURABLE), reply_to, ..Properties::default() }.put(&mut properties);
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        self.connection.publish(CHANNEL, &publish, &properties, &body.into());
        self.published += 1;
    }

    /// Publishes a message in confirm mode. Returns true if the broker confirms it, and false if it refuses it.
    pub(super) async fn publish(&mut self, queue: &str, body: impl Into<Bytes>) -> Result<bool, Error> {
        self.put(queue, None, body);
        while self.arrived.confirmed.max(self.arrived.refused) < self.published {
            let arrived = &mut self.arrived;
            self.connection.exchange(|event| arrived.handle(&event)).await?;
        }
        Ok(self.arrived.confirmed == self.published)
    }

    /// Begins to consume with this priority. The tag of the consumer is `tag`.
    pub(super) async fn consume(&mut self, queue: &str, tag: &str, no_ack: bool, priority: i32) {
        let mut table = BytesMut::new();
        TableWriter::new(&mut table).put("x-priority", &Value::I32(priority));
        let arguments = if priority == 0 { Table::default() } else { Table::from_entries(&table[4..]) };
        let consume = BasicConsume { queue, consumer_tag: tag, no_ack, arguments, ..BasicConsume::default() };
        self.ask(&Method::BasicConsume(consume), "basic.consume-ok").await.unwrap();
    }

    /// Returns the next message for a consumer.
    pub(super) async fn next(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.arrived.deliveries.pop_front() {
                return Ok(message);
            }
            let arrived = &mut self.arrived;
            self.connection.exchange(|event| arrived.handle(&event)).await?;
        }
    }

    /// Returns a message that has arrived for a consumer by now.
    pub(super) fn arrived(&mut self) -> Option<Message> {
        self.arrived.deliveries.pop_front()
    }

    /// Takes a message.
    pub(super) async fn get(&mut self, queue: &str) -> Option<Message> {
        let arrived = &mut self.arrived;
        let is_over = std::cell::Cell::new(false);
        self.connection.send(CHANNEL, &Method::BasicGet(BasicGet { queue, no_ack: false }));
        while arrived.gotten.is_none() && !is_over.get() {
            let handle = |event: Event<'_>| match &event {
                Event::Method { method: Method::BasicGetEmpty(_), .. } => is_over.set(true),
                _ => arrived.handle(&event),
            };
            self.connection.exchange(handle).await.unwrap();
        }
        arrived.gotten.take()
    }

    /// Acknowledges a message.
    pub(super) async fn ack(&mut self, delivery_tag: u64) {
        self.send(&Method::BasicAck(BasicAck { delivery_tag, multiple: false })).await;
    }

    /// Sends a method without an answer.
    pub(super) async fn send(&mut self, method: &Method<'_>) {
        self.connection.send(CHANNEL, method);
        while self.connection.output_len() > 0 {
            let arrived = &mut self.arrived;
            self.connection.exchange(|event| arrived.handle(&event)).await.unwrap();
        }
    }

    pub(super) async fn close(self) {
        self.connection.close().await.unwrap();
    }
}
