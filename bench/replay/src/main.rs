//! Reads a whole stream with several consumers at once, each on its own connection.
//!
//! `replay URL STREAM CONSUMERS CREDIT MESSAGES`: each consumer starts at the first message, accepts every
//! message, and ends after this many messages. There is one thread. A gap in the offsets is an error.
#![forbid(unsafe_code)]

use std::error::Error;

use amqp10::{Described, Map, Symbol, Value};
use client::{Connection, Credit, Message, Options, ReceiverOptions, Url};

/// The offset of one out of this many messages is checked. Parsing every message would make the client slower
/// than the broker.
const LOOK_EVERY: u64 = 1000;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, stream, consumers, credit, messages] = arguments.as_slice() else {
        return Err("usage: replay URL STREAM CONSUMERS CREDIT MESSAGES".into());
    };
    let (url, address): (Url, _) = (url.parse()?, format!("/queues/{stream}"));
    let (consumers, credit, messages): (usize, u32, u64) =
        (consumers.parse()?, credit.parse()?, messages.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let read = |_| tokio::task::spawn_local(read(url.clone(), address.clone(), credit, messages));
        for reader in (0..consumers).map(read).collect::<Vec<_>>() {
            reader.await??;
        }
        Ok(())
    })
}

async fn read(url: Url, address: String, credit: u32, messages: u64) -> Outcome {
    let connection = Connection::open(&url, Options::default()).await?;
    let session = connection.session().await?;
    let name = Symbol::from_static("rabbitmq:stream-offset-spec");
    let first = Described { descriptor: name.clone().into(), value: "first".into() };
    let filter = Map(vec![(Value::Symbol(name), Value::Described(Box::new(first)))]);
    let options =
        ReceiverOptions { credit: Credit::Auto(credit), filter: Some(filter), ..ReceiverOptions::default() };
    let receiver = session.receiver(Some(&address), options).await?;
    for number in 0..messages {
        let delivery = receiver.recv().await?;
        if number % LOOK_EVERY == 0 {
            let offset = offset(&delivery.message)?;
            if offset != Some(number) {
                return Err(format!("offset {offset:?} was received, {number} was expected").into());
            }
        }
        delivery.accept()?;
    }
    Ok(connection.close().await?)
}

fn offset(message: &[u8]) -> Result<Option<u64>, client::Error> {
    let annotations = Message::decode(message)?.message_annotations.unwrap_or_default();
    let is_offset = |key: &Value| matches!(key, Value::Symbol(key) if key.as_str() == "x-stream-offset");
    Ok(annotations.0.iter().find(|(key, _)| is_offset(key)).and_then(|(_, value)| value.as_u64()))
}
