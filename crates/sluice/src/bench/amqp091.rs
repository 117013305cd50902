//! The same over AMQP 0.9.1: senders, receivers, and what they need.
//!
//! A sender puts as many messages in one write as may be sent, and counts confirms in ranges. A receiver acknowledges all
//! messages of one read at once. So the bench needs little of the time of the cores that it shares with the broker.

use amqp091::{
    BasicAck, BasicConsume, BasicNack, BasicPublish, BasicQos, ConfirmSelect, Event as Arrived,
    ExchangeDeclare, ExchangeDelete, Method, QueueBind, QueueDeclare, QueueDelete, ReplyCode,
};
use bytes::Bytes;
use client::Error;
use client::amqp091::{Confirms, Connection};

use super::clock::{Pacer, SECOND_NS, now_ns};
use super::endpoint::{CLOSE, Event, Phase, Role, ThreadState};
use super::plan::Plan;
use super::stamp::{Stamped091, sent_ns_091};
use super::{Bench, say};
use crate::failure::Failure;

/// Every connection uses one channel.
const CHANNEL: u16 = 1;

/// A sender writes when its output has this many bytes. So many messages make the cost of a write small, and larger writes
/// would not be cheaper.
const BATCH: usize = 64 * 1024;

impl ThreadState {
    /// Runs an endpoint until the coordinator stops it or the connection fails.
    pub(super) async fn live_091(&self, role: Role) {
        let connected = tokio::select! {
            connected = self.bench().connect_091() => connected,
            () = self.until(|phase| phase == Phase::Stop) => return,
        };
        let (mut connection, at) = match connected {
            Ok(connected) => connected,
            Err(failure) => return self.tell(Event::Failed(failure)),
        };
        let work = async {
            match &role {
                Role::Sender(name) => (name, self.send_091(&mut connection, name).await),
                Role::Receiver(name) => (name, self.receive_091(&mut connection, name).await),
            }
        };
        tokio::select! {
            (name, ended) = work => if let Err(error) = ended {
                self.tell(Event::Failed(at.failed("use", name, &error)));
            },
            () = self.until(|phase| phase == Phase::Stop) => {}
        }
        // The counts are complete, so the way in which the connection ends does not change the result.
        drop(tokio::time::timeout(CLOSE, connection.close()).await);
    }

    // ---- sending ------------------------------------------------------------------------------------------

    async fn send_091(&self, connection: &mut Connection, name: &str) -> Result<(), Error> {
        connection.open_channel(CHANNEL).await?;
        if !self.bench().settled {
            let select = Method::ConfirmSelect(ConfirmSelect { nowait: false });
            ask(connection, &select, |m| matches!(m, Method::ConfirmSelectOk(_)).then_some(())).await?;
        }
        let start_ns = tokio::select! {
            start_ns = self.start() => start_ns,
            error = connection.closed() => return Err(error),
        };
        let mut confirms = Confirms::default();
        tokio::select! {
            sent = self.send_all_091(connection, name, start_ns, &mut confirms) => sent?,
            () = self.until(|phase| phase == Phase::Finish) => {}
        }
        while confirms.waiting() > 0 || connection.output_len() > 0 {
            self.exchange(connection, &mut confirms).await?;
        }
        self.tell(Event::Sent);
        // The connection is kept open until the receivers have everything.
        Err(connection.closed().await)
    }

    async fn send_all_091(
        &self,
        connection: &mut Connection,
        name: &str,
        start_ns: u64,
        confirms: &mut Confirms,
    ) -> Result<(), Error> {
        let bench = self.bench();
        let publish = match self.run.plan.exchange {
            Some(_) => BasicPublish { exchange: name, ..BasicPublish::default() },
            None => BasicPublish { routing_key: name, ..BasicPublish::default() },
        };
        let body = Bytes::from(vec![b'x'; bench.size as usize]);
        let mut properties = Stamped091::new(bench.durable);
        let pacer = bench.rate.map(|rate| Pacer::new(start_ns, rate)).transpose()?;
        let end_ns =
            bench.duration_s().map_or(u64::MAX, |s| start_ns.saturating_add(u64::from(s) * SECOND_NS));
        let waiting_max = if bench.settled { u64::MAX } else { bench.unconfirmed().into() };
        let count = bench.count.unwrap_or(u64::MAX);
        let mut n = 0;
        loop {
            let may_send = |connection: &Connection, confirms: &Confirms| {
                confirms.waiting() < waiting_max && connection.output_len() < BATCH
            };
            while n < count && may_send(connection, confirms) {
                let now = now_ns();
                // Latency counts from the time at which the message is due or can be sent, so it does not include
                // waiting for confirms.
                let due_ns = pacer.as_ref().map_or(now, |pacer| pacer.due_ns(n));
                if due_ns >= end_ns {
                    return Ok(());
                }
                if due_ns > now {
                    break;
                }
                connection.publish(CHANNEL, &publish, properties.at(due_ns), &body);
                self.tally().sent.add(1);
                if !bench.settled {
                    confirms.publish();
                }
                n += 1;
            }
            if n == count {
                return Ok(());
            }
            match pacer.as_ref().filter(|_| may_send(connection, confirms)) {
                Some(pacer) => tokio::select! {
                    exchanged = self.exchange(connection, confirms) => exchanged?,
                    due = pacer.due(n) => drop(due?),
                },
                None => self.exchange(connection, confirms).await?,
            }
        }
    }

    /// Writes what a sender has put in the output, and counts the confirms that have arrived.
    async fn exchange(&self, connection: &mut Connection, confirms: &mut Confirms) -> Result<(), Error> {
        let mut unknown = None;
        connection
            .exchange(|arrived| {
                let Arrived::Method { method, .. } = arrived else { return };
                let (tag, multiple, counter) = match method {
                    Method::BasicAck(BasicAck { delivery_tag, multiple }) => {
                        (delivery_tag, multiple, &self.tally().accepted)
                    }
                    Method::BasicNack(BasicNack { delivery_tag, multiple, .. }) => {
                        (delivery_tag, multiple, &self.tally().rejected)
                    }
                    _ => return,
                };
                let counted = confirms.confirm(tag, multiple, |span| counter.add(span.last - span.first + 1));
                unknown = unknown.or(counted.err());
            })
            .await?;
        match unknown {
            Some(unknown) => {
                Err(Error::Message(format!("a confirm for message {}, which has none to come", unknown.0)))
            }
            None => Ok(()),
        }
    }

    // ---- receiving ----------------------------------------------------------------------------------------

    async fn receive_091(&self, connection: &mut Connection, queue: &str) -> Result<(), Error> {
        let settled = self.bench().settled;
        connection.open_channel(CHANNEL).await?;
        if !settled {
            // Larger credit is refused before the run.
            let prefetch_count = u16::try_from(self.bench().credit).unwrap_or(u16::MAX);
            let qos = Method::BasicQos(BasicQos { prefetch_count, ..BasicQos::default() });
            ask(connection, &qos, |m| matches!(m, Method::BasicQosOk(_)).then_some(())).await?;
        }
        let consume = BasicConsume { queue, no_ack: settled, ..BasicConsume::default() };
        // A message of another run may arrive before the answer.
        let mut last = None;
        let is_answer = |m: &Method<'_>| matches!(m, Method::BasicConsumeOk(_)).then_some(());
        let arrived = |arrived: Arrived<'_>| self.count_delivery(arrived, &mut last, now_ns());
        connection.ask(CHANNEL, &Method::BasicConsume(consume), is_answer, arrived).await?;
        self.tell(Event::Ready);
        loop {
            if let Some(delivery_tag) = last.take().filter(|_| !settled) {
                connection.send(CHANNEL, &Method::BasicAck(BasicAck { delivery_tag, multiple: true }));
            }
            // All messages of one read have arrived at the same time.
            let mut now = None;
            connection
                .exchange(|arrived| {
                    let now = *now.get_or_insert_with(now_ns);
                    self.count_delivery(arrived, &mut last, now);
                })
                .await?;
        }
    }

    /// Counts a delivery. `last` becomes its tag.
    fn count_delivery(&self, arrived: Arrived<'_>, last: &mut Option<u64>, now: u64) {
        let Arrived::Content { content, .. } = arrived else { return };
        let Some(deliver) = content.deliver() else { return };
        *last = Some(deliver.delivery_tag);
        match sent_ns_091(&content.properties) {
            // See `receive` for messages of other runs.
            Some(sent_ns) if sent_ns >= self.start_ns() => {
                self.latencies.borrow_mut().saturating_record(now.saturating_sub(sent_ns));
                self.tally().received.add(1);
                self.tally().last_received_ns.set(now);
            }
            _ => self.tally().strange.add(1),
        }
    }
}

/// Sends a method and waits for its answer. Nothing else is expected before it.
async fn ask<T>(
    connection: &mut Connection,
    method: &Method<'_>,
    answer: impl Fn(&Method<'_>) -> Option<T>,
) -> Result<T, Error> {
    connection.ask(CHANNEL, method, answer, |_| ()).await
}

/// The objects that a run has declared and must delete.
pub(super) struct Declared091 {
    connection: Connection,
    queues: Vec<String>,
    exchange: Option<String>,
}

impl Declared091 {
    /// Declares what the plan needs.
    ///
    /// # Errors
    /// The broker's error; or that a queue of this name already has messages, which belong to somebody else.
    pub(super) async fn make(bench: &Bench, plan: &Plan) -> Result<Self, Failure> {
        let (mut connection, _) = bench.connect_091().await?;
        connection.open_channel(CHANNEL).await.map_err(|e| failed("open", "a channel", &e))?;
        let mut declared = Self { connection, queues: Vec::new(), exchange: None };
        match declared.declare(plan).await {
            Ok(()) => Ok(declared),
            Err(failure) => {
                declared.delete().await;
                Err(failure)
            }
        }
    }

    async fn declare(&mut self, plan: &Plan) -> Result<(), Failure> {
        for queue in &plan.queues {
            let looked = self.look(queue).await.map_err(|e| failed("look for queue", queue, &e))?;
            if looked.is_none() {
                let declare = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
                self.ask_ok(&Method::QueueDeclare(declare))
                    .await
                    .map_err(|e| failed("declare queue", queue, &e))?;
                self.queues.push(queue.clone());
            }
            if let Some(messages @ 1..) = looked {
                let line = format!("queue '{queue}' has {messages} messages: choose another --queue");
                return Err(Failure::failed(line));
            }
        }
        let Some(exchange) = &plan.exchange else { return Ok(()) };
        let declare =
            ExchangeDeclare { exchange, kind: "fanout", durable: true, ..ExchangeDeclare::default() };
        let declared = self.ask_ok(&Method::ExchangeDeclare(declare)).await;
        declared.map_err(|e| failed("declare exchange", exchange, &e))?;
        self.exchange = Some(exchange.clone());
        for queue in &plan.queues {
            let bind = QueueBind { queue, exchange, ..QueueBind::default() };
            self.ask_ok(&Method::QueueBind(bind)).await.map_err(|e| failed("bind queue", queue, &e))?;
        }
        Ok(())
    }

    /// Returns the number of ready messages of a queue; `None` if there is no such queue.
    async fn look(&mut self, queue: &str) -> Result<Option<u32>, Error> {
        let passive = Method::QueueDeclare(QueueDeclare { queue, passive: true, ..QueueDeclare::default() });
        let messages = |m: &Method<'_>| match m {
            Method::QueueDeclareOk(ok) => Some(ok.message_count),
            _ => None,
        };
        match ask(&mut self.connection, &passive, messages).await {
            Ok(messages) => Ok(Some(messages)),
            // The broker has closed the channel.
            Err(Error::Refused { code, .. }) if code == ReplyCode::NotFound.number() => {
                self.connection.open_channel(CHANNEL).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a method whose answer says no more than that it is done.
    async fn ask_ok(&mut self, method: &Method<'_>) -> Result<(), Error> {
        ask(&mut self.connection, method, |_| Some(())).await
    }

    /// Deletes what was declared. An object that cannot be deleted is left, and named on standard error.
    pub(super) async fn delete(mut self) {
        for queue in std::mem::take(&mut self.queues) {
            let delete = QueueDelete { queue: &queue, ..QueueDelete::default() };
            if let Err(error) = self.ask_ok(&Method::QueueDelete(delete)).await {
                say(&format!("sluice: cannot delete queue '{queue}': {error}"));
            }
        }
        if let Some(exchange) = self.exchange.take() {
            let delete = ExchangeDelete { exchange: &exchange, ..ExchangeDelete::default() };
            if let Err(error) = self.ask_ok(&Method::ExchangeDelete(delete)).await {
                say(&format!("sluice: cannot delete exchange '{exchange}': {error}"));
            }
        }
        // The run is over, so the way in which its last connection ends does not change the result.
        drop(self.connection.close().await);
    }
}

fn failed(what: &str, name: &str, error: &Error) -> Failure {
    Failure::failed(format!("cannot {what} '{name}': {error}"))
}
