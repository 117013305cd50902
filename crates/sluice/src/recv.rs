//! `sluice recv`: prints messages, and accepts each one after it is printed.

mod filters;

use std::io::{self, BufWriter, StdoutLock, Write as _};
use std::pin::pin;
use std::time::Duration;

use admin::{message_body, message_to_json};
use clap::Args;
use client::{Credit, Delivery, Error, Management, Message, Receiver, ReceiverOptions, Session};
use percent_encoding::percent_decode_str;
use tokio::signal::unix::{SignalKind, signal};

use crate::amqp::{Broker, BrokerAddress, address};
use crate::escape;
use crate::failure::Failure;
use crate::output::tell;
use crate::recv::filters::Filters;
use crate::words::counted;

#[derive(Args, Debug)]
pub(crate) struct Recv {
    /// /queues/QUEUE with the name percent-encoded, or the plain name of a queue
    address: String,
    /// End after this many messages; no more are taken from the queue
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The most messages in flight
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    credit: u32,
    /// Print each message with its sections as a JSON object on a line
    #[arg(long)]
    json: bool,
    /// Check each message's checksum (`send --checksum`), and end with exit code 1 at the first message that
    /// is
    /// damaged or has none, which is neither printed nor accepted
    #[arg(long)]
    verify: bool,
    /// End if no message arrives for this long: with exit code 1 if there was none at all, or fewer than
    /// --count
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    broker: Broker,
}

/// Receives until the count is reached, the timeout expires, or a signal arrives.
///
/// # Errors
/// Nothing arrived in time, or why the link ended.
pub(crate) fn run(recv: &Recv) -> Result<(), Failure> {
    crate::amqp::block_on(recv.receive())
}

impl Recv {
    async fn receive(&self) -> Result<(), Failure> {
        let address = address(&self.address);
        let (connection, place) = self.broker.connect().await?;
        let failed = |error| place.failed("receive from", &address, &error);
        let session = connection.session().await.map_err(failed)?;
        let filter = self.filters.to_map();
        let options = ReceiverOptions { credit: Credit::Manual, filter, ..ReceiverOptions::default() };
        let receiver = session.receiver(Some(&address), options).await.map_err(failed)?;
        let missing = self.filters.missing(&receiver);
        let result = if missing.is_empty() {
            self.print_all((&session, &receiver), &address, &place).await
        } else {
            Err((place.not_filtered(&address, &missing, self.filters.fault().as_ref()), Link::Open))
        };
        // Detaching returns the unaccepted messages to their queue. Once CLOSE is answered, the broker has
        // removed the accepted ones.
        if !matches!(&result, Err((_, Link::Over))) {
            receiver.detach().await.map_err(failed)?;
            connection.close().await.map_err(failed)?;
        }
        result.map_err(|(failure, _)| failure)
    }

    async fn print_all(
        &self,
        (session, receiver): (&Session, &Receiver),
        address: &str,
        place: &BrokerAddress,
    ) -> Result<(), (Failure, Link)> {
        let over = |error: Error| (place.failed("receive from", address, &error), Link::Over);
        let stays = |failure| (failure, Link::Open);
        let mut signals =
            Signals::new().map_err(|e| stays(Failure::failed(format!("cannot wait for signals: {e}"))))?;
        let mut printer = Printer { out: BufWriter::new(io::stdout().lock()), printed: Vec::new() };
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut came = 0u64;
        let mut wants_hint = !self.filters.have_a_place();
        while left > 0 {
            self.grant(receiver, left);
            let next = match receiver.try_recv().map_err(over)? {
                Some(delivery) => Some(delivery),
                None => {
                    // No message is waiting: flush and accept what was printed, then wait.
                    printer.finish().map_err(stays)?;
                    let mut next = pin!(within(self.timeout, receiver.recv()));
                    let mut hint = pin!(say_what_is_stored(session, address));
                    loop {
                        tokio::select! {
                            biased;
                            () = signals.recv() => return Ok(()),
                            next = &mut next => break next.transpose().map_err(over)?,
                            () = &mut hint, if wants_hint && came == 0 => wants_hint = false,
                        }
                    }
                }
            };
            let Some(delivery) = next else {
                let seconds = self.timeout.unwrap_or_default();
                return match self.count {
                    Some(count) => Err(stays(Failure::failed(format!(
                        "received {came} of {count} messages from {address}, then none for {seconds} s"
                    )))),
                    None if came == 0 => {
                        Err(stays(Failure::failed(format!("received nothing from {address} in {seconds} s"))))
                    }
                    None => Ok(()),
                };
            };
            if self.verify
                && let Err(why) = verify(&delivery)
            {
                printer.finish().map_err(stays)?;
                return Err(stays(Failure::failed(format!("a message from {address}: {why}"))));
            }
            printer.print(delivery, self.json).map_err(stays)?;
            came += 1;
            left -= 1;
        }
        printer.finish().map_err(stays)
    }

    /// Grants credit again when half of the window is used up, but never more than the messages still wanted.
    fn grant(&self, receiver: &Receiver, left: u64) {
        let waiting = u32::try_from(receiver.waiting()).unwrap_or(u32::MAX);
        let target = self.credit.min(u32::try_from(left).unwrap_or(u32::MAX));
        if receiver.credit().saturating_add(waiting) <= target / 2 {
            receiver.flow(target.saturating_sub(waiting), false, false);
        }
    }
}

/// The time without a message after which the verb says what it reads.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits for a while. Then says that a stream is read from its next message, if it has others. Says nothing of a queue, or if the
/// broker does not tell.
async fn say_what_is_stored(session: &Session, address: &str) {
    tokio::time::sleep(PATIENCE).await;
    let name = address.strip_prefix("/queues/").and_then(|name| percent_decode_str(name).decode_utf8().ok());
    let Some(name) = name else { return };
    let Ok(management) = Management::open(session).await else { return };
    let info = management.queue_info(&name).await;
    drop(management.close().await);
    if let Ok(answer) = info
        && answer.value.kind == "stream"
        && answer.value.messages > 0
    {
        let stored = counted(answer.value.messages, "message");
        tell(&format!("reading new messages of the stream; it has {stored}, which --offset first reads"));
    }
}

/// Checks a message's checksum. Returns what is wrong, also if there is no checksum.
fn verify(delivery: &Delivery) -> Result<(), String> {
    match delivery.verify() {
        Ok(found) if found.is_empty() => Err("there is no checksum in its footer".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Says whether the link can still be detached.
enum Link {
    Open,
    Over,
}

/// Writes messages, and accepts them after they are flushed.
struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    printed: Vec<Delivery>,
}

/// The most messages that are accepted together.
const PRINTED_MAX: usize = 100;

impl Printer {
    fn print(&mut self, delivery: Delivery, json: bool) -> Result<(), Failure> {
        match Message::decode(&delivery.message) {
            Ok(message) if json => {
                writeln!(self.out, "{}", escape::json_text(&message_to_json(&message).to_string()))
            }
            Ok(message) => {
                self.out.write_all(&message_body(&message)).and_then(|()| self.out.write_all(b"\n"))
            }
            Err(error) => return Err(Failure::failed(format!("a message cannot be read: {error}"))),
        }
        .map_err(|error| Failure::output(&error))?;
        self.printed.push(delivery);
        if self.printed.len() >= PRINTED_MAX { self.finish() } else { Ok(()) }
    }

    /// Flushes standard output, then accepts the printed messages.
    fn finish(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::output(&error))?;
        for delivery in self.printed.drain(..) {
            delivery.accept().map_err(|e| Failure::failed(format!("a message cannot be accepted: {e}")))?;
        }
        Ok(())
    }
}

/// Returns the future's output, or `None` if it takes longer than `seconds`.
async fn within<T>(seconds: Option<u32>, future: impl Future<Output = T>) -> Option<T> {
    match seconds {
        Some(seconds) => tokio::time::timeout(Duration::from_secs(seconds.into()), future).await.ok(),
        None => Some(future.await),
    }
}

/// The signals that end a verb.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to wait for SIGINT and SIGTERM, which then do not end the process.
    ///
    /// # Errors
    /// The system refuses to install a handler.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Returns when one of the signals arrives.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
