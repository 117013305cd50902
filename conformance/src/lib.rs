//! Transcript pages: the frames that clients send, and the frames that the broker must answer. They are
//! executed in milliseconds, against real shards without sockets. `pages/README.md` explains the language.
#![forbid(unsafe_code)]

mod page;
mod receive;
mod send;
mod storage;
mod text;
mod track;
mod world;

pub use page::{Failure, check};
pub use world::{Client, Setup, World};
