//! Uses many quorum queues once each.
//!
//! `touch URL QUEUES` declares the queues `q-0`, `q-1`, ... For each of them it sends a message at three
//! priorities, and then receives and accepts all three. There is one connection, with several sessions.
#![forbid(unsafe_code)]

use std::error::Error;
use std::rc::Rc;

use client::management::QueueSpec;
use client::{Connection, Management, Message, Options, ReceiverOptions, SenderOptions, Url};

/// The priorities of the messages. The queue delivers the highest first.
const PRIORITIES: [u8; 3] = [9, 4, 0];

/// The number of sessions that work at the same time, so that syncs are shared.
const SESSIONS: usize = 16;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, queues] = arguments.as_slice() else {
        return Err("usage: touch URL QUEUES".into());
    };
    let (url, queues): (Url, usize) = (url.parse()?, queues.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let connection = Rc::new(Connection::open(&url, Options::default()).await?);
        let work = |first| tokio::task::spawn_local(touch(connection.clone(), first, queues));
        for worker in (0..SESSIONS).map(work).collect::<Vec<_>>() {
            worker.await??;
        }
        Ok(())
    })
}

/// Uses the queues `first`, `first + SESSIONS`, ...
async fn touch(connection: Rc<Connection>, first: usize, queues: usize) -> Outcome {
    let session = connection.session().await?;
    let management = Management::open(&session).await?;
    for number in (first..queues).step_by(SESSIONS) {
        let name = format!("q-{number}");
        management.declare_queue(&name, &QueueSpec::of_type("quorum")).await?;
        let address = format!("/queues/{name}");
        let sender = session.sender(Some(&address), SenderOptions::default()).await?;
        for priority in PRIORITIES.iter().rev() {
            sender.send(Message::data("hello").durable(true).priority(*priority).encode()).await?;
        }
        sender.detach().await?;
        let receiver = session.receiver(Some(&address), ReceiverOptions::default()).await?;
        for priority in PRIORITIES {
            let delivery = receiver.recv().await?;
            let found = Message::decode(&delivery.message)?.header.unwrap_or_default().priority;
            if found != Some(priority) {
                return Err(
                    format!("{name}: priority {found:?} was received, {priority} was expected").into()
                );
            }
            delivery.accept()?;
        }
        receiver.detach().await?;
    }
    Ok(())
}
