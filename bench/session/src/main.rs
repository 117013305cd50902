//! Two links on one session, each as fast as possible: the two programs of the document on flow control.
//!
//! `session URL SECONDS senders QUEUE [NEIGHBOUR]` sends settled messages to both queues. `session URL
//! SECONDS receiver QUEUE [NEIGHBOUR]` receives from the first queue with a credit of 200. It sends batches
//! to the other queue; each batch is sent when all messages of the previous one are accepted.
//!
//! Messages are durable and have bodies of 12 bytes. There is one thread, and the frames of both links leave
//! in one write. Without a neighbour, the first link is alone on the session; its rate is the reference for a
//! session with two links. The program prints how many messages each link moved, and the CPU seconds that
//! this took in the client.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use amqp10::DeliveryState;
use bytes::Bytes;
use client::{Connection, Credit, Message, Options, ReceiverOptions, SenderOptions, Session, Settle, Url};
use rustix::time::{ClockId, clock_gettime};

/// The size of a body in bytes, as in the document on flow control.
const BODY: usize = 12;
const CREDIT: u32 = 200;
const BATCH: usize = 10_000;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [url, seconds, program @ ("senders" | "receiver"), queue, neighbour @ ..] = arguments.as_slice()
    else {
        return Err("usage: session URL SECONDS senders|receiver QUEUE [NEIGHBOUR]".into());
    };
    let (url, length): (Url, _) = (url.parse()?, Duration::from_secs_f64(seconds.parse()?));
    let (first, second) = (Cell::new(0), Cell::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = Connection::open(&url, Options::default()).await?;
        let session = connection.session().await?;
        let work = async {
            let own = async {
                match *program {
                    "senders" => send(&session, queue, &first).await,
                    _ => receive(&session, queue, &first).await,
                }
            };
            let other = async {
                match (neighbour.first(), *program) {
                    (None, _) => std::future::pending().await,
                    (Some(queue), "senders") => send(&session, queue, &second).await,
                    (Some(queue), _) => send_batches(&session, queue, &second).await,
                }
            };
            tokio::try_join!(own, other).map(drop)
        };
        match tokio::time::timeout(length, work).await {
            Ok(ended) => ended?,
            Err(_) => drop(connection.close().await),
        }
        Outcome::Ok(())
    })?;
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let (first, second) = (first.get(), second.get());
    writeln!(std::io::stdout(), "{{\"first\": {first}, \"second\": {second}, \"cpu_s\": {cpu_s:.2}}}")?;
    Ok(())
}

fn message() -> Bytes {
    Message::data(vec![b'x'; BODY]).durable(true).encode()
}

fn address(queue: &str) -> String {
    format!("/queues/{queue}")
}

async fn send(session: &Session, queue: &str, sent: &Cell<u64>) -> Outcome {
    let options = SenderOptions { settle: Settle::Settled, ..SenderOptions::default() };
    let link = session.sender(Some(&address(queue)), options).await?;
    let message = message();
    loop {
        link.send_settled(message.clone()).await?;
        sent.set(sent.get() + 1);
    }
}

async fn receive(session: &Session, queue: &str, received: &Cell<u64>) -> Outcome {
    let options = ReceiverOptions { credit: Credit::Auto(CREDIT), ..ReceiverOptions::default() };
    let link = session.receiver(Some(&address(queue)), options).await?;
    loop {
        link.recv().await?.accept()?;
        received.set(received.get() + 1);
    }
}

async fn send_batches(session: &Session, queue: &str, accepted: &Cell<u64>) -> Outcome {
    let link = session.sender(Some(&address(queue)), SenderOptions::default()).await?;
    let message = message();
    let mut outcomes = Vec::with_capacity(BATCH);
    loop {
        for _ in 0..BATCH {
            outcomes.push(link.send_pipelined(message.clone()).await?);
        }
        for outcome in outcomes.drain(..) {
            match outcome.await? {
                DeliveryState::Accepted => accepted.set(accepted.get() + 1),
                other => return Err(format!("a message was {other:?}").into()),
            }
        }
    }
}
