//! Transcript pages: the frames that clients of both protocols send, and the frames that the broker must answer. They are
//! executed in milliseconds, against real shards without sockets. `pages/README.md` explains the language.
#![forbid(unsafe_code)]

mod amqp091;
mod amqp10;
mod fields;
mod page;
mod remote;
mod setup;
mod storage;
mod text;
mod world;

pub use page::{Failure, check, check_against};
pub use world::{Client, Setup, World};
