//! An async AMQP 1.0 client.
//!
//! One task drives each connection (`tokio::spawn`, on any kind of runtime) and reads and writes in batches.
//! All handles are `Send`. A connection, session or link stays open until its last handle is dropped.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! use client::{Connection, Message, Options, ReceiverOptions, SenderOptions};
//!
//! let connection = Connection::open(&"amqp://guest:guest@localhost".parse()?, Options::default()).await?;
//! let session = connection.session().await?;
//! let sender = session.sender(Some("/queues/greetings"), SenderOptions::default()).await?;
//! sender.send(Message::data("hello").durable(true).encode()).await?;
//! let receiver = session.receiver(Some("/queues/greetings"), ReceiverOptions::default()).await?;
//! receiver.recv().await?.accept()?;
//! connection.close().await
//! # }
//! ```
//!
//! Back-pressure: a sender waits for the peer's credit, for its session window and for the socket. A receiver
//! grants credit as its messages are read.
//!
//! The module [`amqp091`] is a small client of AMQP 0.9.1. `sluice bench` and tests need one.
#![forbid(unsafe_code)]

pub mod amqp091;
mod checksum;
mod connection;
mod dial;
mod driver;
mod error;
mod events;
mod handles;
mod link;
pub mod management;
pub mod message;
mod options;
mod outcomes;
mod receiver;
mod sealing;
mod sender;
mod session;
mod state;
pub mod url;

pub use checksum::Checksum;
pub use connection::Connection;
pub use error::{Error, Scope};
pub use management::Management;
pub use message::{Body, Message};
pub use options::{Credit, Options, ReceiverOptions, SenderOptions, Settle};
pub use receiver::{Delivery, Drained, Receiver};
pub use sender::{Outcome, Sender, Waiting};
pub use session::Session;
pub use url::{Address, Credentials, Url, UrlError};
