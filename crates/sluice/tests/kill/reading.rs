//! Consumers of a stream.

use amqp10::{Described, Map, Symbol, Value};
use client::{Credit, Delivery, Error, Message, Receiver, ReceiverOptions};

use super::content::{Id, identify};
use super::traffic::connect;

/// The most messages that a consumer may have in flight.
pub(crate) const CREDIT: u32 = 500;

/// What a consumer received, in the order of arrival: offsets and messages.
pub(crate) type Shown = Vec<(u64, Id)>;

/// Attaches a receiver to the stream.
pub(crate) async fn attach(
    url: &str,
    address: &str,
    start: Value,
    credit: Credit,
) -> Result<Receiver, Error> {
    let name = Symbol::from_static("rabbitmq:stream-offset-spec");
    let filter = Value::Described(Box::new(Described { descriptor: name.clone().into(), value: start }));
    let filter = Some(Map(vec![(Value::Symbol(name), filter)]));
    let (_, session) = connect(url).await?;
    session.receiver(Some(address), ReceiverOptions { credit, filter, ..ReceiverOptions::default() }).await
}

/// Accepts a delivery. Returns its offset and identity.
///
/// # Errors
/// The message cannot have been sent.
pub(crate) fn take(seed: u64, delivery: Delivery) -> Result<(u64, Id), String> {
    let message = Message::decode(&delivery.message).map_err(|error| error.to_string())?;
    let annotations = message.message_annotations.unwrap_or_default();
    let mut pairs = annotations.0.iter();
    let is_offset = |key: &Value| matches!(key, Value::Symbol(key) if key.as_str() == "x-stream-offset");
    let offset = pairs.find(|(key, _)| is_offset(key)).and_then(|(_, value)| value.as_u64());
    let came = (offset.ok_or("a message without offset")?, identify(seed, &delivery.message)?);
    // If accepting fails, the connection has ended, and the next receive reports that.
    drop(delivery.accept());
    Ok(came)
}

/// Reads the stream from its first message until it is drained.
///
/// # Errors
/// A message that cannot have been sent, or why the connection broke.
pub(crate) async fn read_all(url: &str, address: &str, seed: u64) -> Result<Shown, String> {
    let failed = |error: Error| format!("reading: {error}");
    let receiver =
        attach(url, address, Value::String("first".into()), Credit::Manual).await.map_err(failed)?;
    let mut shown = Shown::new();
    loop {
        receiver.flow(CREDIT, false, false);
        let drained = receiver.drain().await.map_err(failed)?;
        while let Some(delivery) = receiver.try_recv().map_err(failed)? {
            shown.push(take(seed, delivery)?);
        }
        if drained.unused > 0 {
            return Ok(shown);
        }
    }
}
