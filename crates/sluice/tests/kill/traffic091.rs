//! Publishers and consumers of AMQP 0.9.1, each on its own connection. They do the same as those of AMQP 1.0.

use std::sync::atomic::{AtomicBool, Ordering};

use amqp091::{
    BasicAck, BasicCancel, BasicConsume, BasicNack, BasicPublish, BasicQos, ConfirmSelect, Event, Method,
    Properties, QueueDeclare,
};
use bytes::{Bytes, BytesMut};
use client::Error;
use client::amqp091::{Confirms, Connection, Options};

use super::content::{Id, body, identify_body};
use super::traffic::{CHECK_INTERVAL, CREDIT, Published, is_broken};

/// Every connection uses one channel.
const CHANNEL: u16 = 1;

/// The consumer tag. One is enough for the one consumer of a channel.
const TAG: &str = "c";

/// The most messages of a publisher that wait for their confirm.
const UNCONFIRMED_MAX: u64 = 1_000;

/// A publisher writes when its output has this many bytes.
const BATCH: usize = 64 << 10;

/// The delivery mode of durable messages.
const DURABLE: u8 = 2;

async fn connect(url: &str) -> Result<Connection, Error> {
    let mut connection = Connection::open(&url.parse()?, Options::default()).await?;
    connection.open_channel(CHANNEL).await?;
    Ok(connection)
}

/// Returns exchange and routing key for an address of AMQP 1.0.
fn target(address: &str) -> (&str, &str) {
    match address.strip_prefix("/exchanges/") {
        Some(exchange) => (exchange, ""),
        None => ("", queue_of(address)),
    }
}

fn queue_of(address: &str) -> &str {
    address.strip_prefix("/queues/").unwrap_or(address)
}

/// Does the same as [`super::traffic::publish`].
pub(super) async fn publish(
    url: String,
    address: &str,
    seed: u64,
    mut id: Id,
    until: u64,
    confirmed: impl Fn() + Send,
) -> Published {
    let mut published = Published::default();
    let first = id.number;
    let ended = async {
        let mut connection = connect(&url).await?;
        let select = Method::ConfirmSelect(ConfirmSelect { nowait: false });
        connection
            .ask(CHANNEL, &select, |m| matches!(m, Method::ConfirmSelectOk(_)).then_some(()), |_| ())
            .await?;
        let (exchange, routing_key) = target(address);
        let method = BasicPublish { exchange, routing_key, ..BasicPublish::default() };
        let mut properties = BytesMut::new();
        Properties { delivery_mode: Some(DURABLE), ..Properties::default() }.put(&mut properties);
        let mut confirms = Confirms::default();
        while id.number < until || confirms.waiting() > 0 {
            while id.number < until && confirms.waiting() < UNCONFIRMED_MAX && connection.output_len() < BATCH
            {
                connection.publish(CHANNEL, &method, &properties, &Bytes::from(body(seed, id)));
                confirms.publish();
                // From here on, the message may be in the queue, whatever the broker says.
                id.number += 1;
            }
            connection.exchange(|event| published.note(&event, &mut confirms, first, &confirmed)).await?;
        }
        connection.close().await
    };
    published.ended = ended.await.err();
    published.next = id.number;
    published
}

impl Published {
    /// Notes the confirms in an event. `first` is the number of the first message on the channel.
    fn note(&mut self, event: &Event<'_>, confirms: &mut Confirms, first: u64, confirmed: &impl Fn()) {
        let unknown = match *event {
            Event::Method { method: Method::BasicAck(BasicAck { delivery_tag, multiple }), .. } => confirms
                .confirm(delivery_tag, multiple, |span| {
                    for tag in span.first..=span.last {
                        self.confirmed.push(first + tag - 1);
                        confirmed();
                    }
                }),
            Event::Method { method: Method::BasicNack(BasicNack { delivery_tag, multiple, .. }), .. } => {
                confirms.confirm(delivery_tag, multiple, |span| {
                    self.refused.push(format!("{span:?} was refused"))
                })
            }
            _ => Ok(()),
        };
        if let Err(unknown) = unknown {
            self.refused.push(format!("{unknown:?} was confirmed, but was not under way"));
        }
    }
}

/// The messages that a consumer has received, and what it must acknowledge.
#[derive(Default)]
struct Taken {
    came: Vec<Id>,
    /// The number of messages in `came` that were acknowledged.
    acknowledged: usize,
    /// The delivery tag of the newest message that is not acknowledged.
    last: Option<u64>,
    /// The first message that cannot have been sent.
    strange: Option<String>,
}

impl Taken {
    fn take(&mut self, event: &Event<'_>, seed: u64) {
        let Event::Content { content, .. } = event else { return };
        let Some(deliver) = content.deliver() else { return };
        let mode =
            Properties::parse(&content.properties).ok().and_then(|properties| properties.delivery_mode);
        match identify_body(seed, &content.payload, mode == Some(DURABLE)) {
            Ok(id) => self.came.push(id),
            Err(why) => self.strange = self.strange.take().or(Some(why)),
        }
        self.last = Some(deliver.delivery_tag);
    }

    /// Acknowledges everything that has arrived.
    fn acknowledge(&mut self, connection: &mut Connection) -> Result<(), String> {
        if let Some(strange) = self.strange.take() {
            return Err(strange);
        }
        if let Some(delivery_tag) = self.last.take() {
            connection.send(CHANNEL, &Method::BasicAck(BasicAck { delivery_tag, multiple: true }));
        }
        self.acknowledged = self.came.len();
        Ok(())
    }
}

/// Begins to consume from a queue.
async fn begin(url: &str, queue: &str, seed: u64, taken: &mut Taken) -> Result<Connection, Error> {
    let mut connection = connect(url).await?;
    let qos = Method::BasicQos(BasicQos { prefetch_count: CREDIT as u16, ..BasicQos::default() });
    connection.ask(CHANNEL, &qos, |m| matches!(m, Method::BasicQosOk(_)).then_some(()), |_| ()).await?;
    let consume = Method::BasicConsume(BasicConsume { queue, consumer_tag: TAG, ..BasicConsume::default() });
    let is_answer = |m: &Method<'_>| matches!(m, Method::BasicConsumeOk(_)).then_some(());
    connection.ask(CHANNEL, &consume, is_answer, |event: Event<'_>| taken.take(&event, seed)).await?;
    Ok(connection)
}

/// Acknowledges messages until the connection breaks.
///
/// # Errors
/// A message that cannot have been sent, or that there is no consumer.
pub(super) async fn consume(url: String, address: String, seed: u64) -> Result<Vec<Id>, String> {
    let mut taken = Taken::default();
    let mut connection = match begin(&url, queue_of(&address), seed, &mut taken).await {
        Ok(connection) => connection,
        Err(error) if is_broken(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    loop {
        taken.acknowledge(&mut connection)?;
        if connection.exchange(|event| taken.take(&event, seed)).await.is_err() {
            if let Some(strange) = taken.strange {
                return Err(strange);
            }
            taken.came.truncate(taken.acknowledged);
            return Ok(taken.came);
        }
    }
}

/// Acknowledges messages until the queue is empty and `last` says that no more will be published.
///
/// # Errors
/// A message that cannot have been sent, or why the connection broke.
pub(super) async fn drain(
    url: String,
    address: String,
    seed: u64,
    last: &AtomicBool,
) -> Result<Vec<Id>, String> {
    let failed = |error: Error| format!("draining {address}: {error}");
    let queue = queue_of(&address);
    let mut taken = Taken::default();
    let mut connection = begin(&url, queue, seed, &mut taken).await.map_err(failed)?;
    loop {
        taken.acknowledge(&mut connection)?;
        // `last` is read before the wait. So everything that was published by then is counted below.
        let nothing_more = last.load(Ordering::Acquire);
        let exchanged = connection.exchange(|event| taken.take(&event, seed));
        if let Ok(exchanged) = tokio::time::timeout(CHECK_INTERVAL, exchanged).await {
            exchanged.map_err(failed)?;
            continue;
        }
        if !nothing_more {
            continue;
        }
        let passive = Method::QueueDeclare(QueueDeclare { queue, passive: true, ..QueueDeclare::default() });
        let ready = |m: &Method<'_>| match m {
            Method::QueueDeclareOk(ok) => Some(ok.message_count),
            _ => None,
        };
        let asked =
            connection.ask(CHANNEL, &passive, ready, |event: Event<'_>| taken.take(&event, seed)).await;
        if asked.map_err(failed)? > 0 {
            continue;
        }
        let cancel = Method::BasicCancel(BasicCancel { consumer_tag: TAG, nowait: false });
        let is_answer = |m: &Method<'_>| matches!(m, Method::BasicCancelOk(_)).then_some(());
        let cancelled =
            connection.ask(CHANNEL, &cancel, is_answer, |event: Event<'_>| taken.take(&event, seed)).await;
        cancelled.map_err(failed)?;
        taken.acknowledge(&mut connection)?;
        connection.close().await.map_err(failed)?;
        return Ok(taken.came);
    }
}
