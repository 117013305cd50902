//! Publishers and consumers, each on its own connection, with the protocol that the round chooses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use amqp10::DeliveryState;
use client::{Connection, Credit, Error, Options, Receiver, ReceiverOptions, SenderOptions, Session};
use tokio::sync::mpsc;

use super::content::{Id, identify, message};
use super::traffic091;

/// The most messages that a consumer may have in flight.
pub(crate) const CREDIT: u32 = 500;
/// The interval at which a consumer without messages checks whether it is done.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What a publisher or a consumer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp10,
    Amqp091,
}

impl Protocol {
    /// Returns one of the two for every other number.
    pub(crate) fn of(number: u64) -> Self {
        if number.is_multiple_of(2) { Self::Amqp10 } else { Self::Amqp091 }
    }
}

/// What a publisher did.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The number of the next message.
    pub next: u64,
    pub confirmed: Vec<u64>,
    /// The outcomes other than accepted.
    pub refused: Vec<String>,
    /// The error with which the publisher ended early, if it did.
    pub ended: Option<Error>,
}

pub(crate) async fn connect(url: &str) -> Result<(Connection, Session), Error> {
    let connection = Connection::open(&url.parse()?, Options::default()).await?;
    let session = connection.session().await?;
    Ok((connection, session))
}

/// Sends messages with numbers from `id` up to, but not including, `until`, or until the connection breaks.
/// Calls `confirmed` for each accepted message.
pub(crate) async fn publish(
    protocol: Protocol,
    url: String,
    address: &'static str,
    seed: u64,
    mut id: Id,
    until: u64,
    confirmed: impl Fn() + Send,
) -> Published {
    if protocol == Protocol::Amqp091 {
        return traffic091::publish(url, address, seed, id, until, confirmed).await;
    }
    let mut published = Published::default();
    let sender = async {
        let (connection, session) = connect(&url).await?;
        Ok((connection, session.sender(Some(address), SenderOptions::default()).await?))
    };
    let (connection, sender) = match sender.await {
        Ok(sender) => sender,
        Err(error) => return Published { next: id.number, ended: Some(error), ..published },
    };
    let (outcomes, mut to_come) = mpsc::unbounded_channel();
    let send = async {
        while id.number < until {
            let number = id.number;
            let encoded = message(seed, id);
            // From here on, the message may be in the queue, whatever the client reports.
            id.number += 1;
            match sender.send_pipelined(encoded).await {
                Ok(outcome) => drop(outcomes.send((number, outcome))),
                Err(error) => {
                    published.ended = Some(error);
                    break;
                }
            }
        }
        drop(outcomes);
    };
    let collect = async {
        while let Some((number, outcome)) = to_come.recv().await {
            match outcome.await {
                Ok(DeliveryState::Accepted) => {
                    published.confirmed.push(number);
                    confirmed();
                }
                Ok(other) => published.refused.push(format!("message {number} was not accepted: {other:?}")),
                // The message is not confirmed, because the connection has ended.
                Err(_) => {}
            }
        }
    };
    tokio::join!(send, collect);
    published.next = id.number;
    if published.ended.is_none() {
        published.ended = connection.close().await.err();
    }
    published
}

/// Returns true if the connection has broken. The kill may come before a consumer has begun.
pub(super) fn is_broken(error: &Error) -> bool {
    matches!(error, Error::Io(_) | Error::Closed)
}

/// Accepts messages until the connection breaks, each after `lag` more have arrived. If `keeps` is not 0, one
/// of `keeps` messages stays unsettled.
///
/// # Errors
/// A message that cannot have been sent, or that there is no link.
pub(crate) async fn consume(
    url: String,
    address: String,
    seed: u64,
    keeps: u64,
    lag: usize,
) -> Result<Vec<Id>, String> {
    let receiver = async {
        let (_, session) = connect(&url).await?;
        session.receiver(Some(&address), ReceiverOptions::default()).await
    };
    let receiver = match receiver.await {
        Ok(receiver) => receiver,
        Err(error) if is_broken(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let (mut came, mut held) = (Vec::new(), VecDeque::new());
    while let Ok(delivery) = receiver.recv().await {
        let id = identify(seed, &delivery.message)?;
        if id.number.checked_rem(keeps) == Some(0) {
            continue;
        }
        held.push_back((id, delivery));
        if held.len() > lag
            && let Some((id, delivery)) = held.pop_front()
        {
            came.push(id);
            // If accepting fails, the connection has ended, and the next receive reports that.
            drop(delivery.accept());
        }
    }
    Ok(came)
}

/// Accepts messages until the queue is empty and `last` says that no more will be published.
///
/// # Errors
/// A message that cannot have been sent, or why the connection broke.
pub(crate) async fn drain(
    protocol: Protocol,
    url: String,
    address: String,
    seed: u64,
    last: &AtomicBool,
) -> Result<Vec<Id>, String> {
    if protocol == Protocol::Amqp091 {
        return traffic091::drain(url, address, seed, last).await;
    }
    let failed = |error: Error| format!("draining {address}: {error}");
    let (connection, session) = connect(&url).await.map_err(failed)?;
    let options = ReceiverOptions { credit: Credit::Manual, ..ReceiverOptions::default() };
    let receiver = session.receiver(Some(&address), options).await.map_err(failed)?;
    let mut came = Vec::new();
    loop {
        grant(&receiver);
        // `last` is read before the drain. So everything that was published by then is seen by the next
        // drain.
        let nothing_more = last.load(Ordering::Acquire);
        if let Ok(delivery) = tokio::time::timeout(CHECK_INTERVAL, receiver.recv()).await {
            let delivery = delivery.map_err(failed)?;
            came.push(identify(seed, &delivery.message)?);
            delivery.accept().map_err(failed)?;
            continue;
        }
        if !nothing_more {
            continue;
        }
        let drained = receiver.drain().await.map_err(failed)?;
        while let Some(delivery) = receiver.try_recv().map_err(failed)? {
            came.push(identify(seed, &delivery.message)?);
            delivery.accept().map_err(failed)?;
        }
        if drained.unused > 0 {
            receiver.detach().await.map_err(failed)?;
            connection.close().await.map_err(failed)?;
            return Ok(came);
        }
    }
}

fn grant(receiver: &Receiver) {
    let waiting = u32::try_from(receiver.waiting()).unwrap_or(u32::MAX);
    if receiver.credit().saturating_add(waiting) <= CREDIT / 2 {
        receiver.flow(CREDIT.saturating_sub(waiting), false, false);
    }
}
