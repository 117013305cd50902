//! Transcript pages: what clients send and what the broker must answer, frame by frame, executed against real
//! shards without sockets, in milliseconds. `pages/README.md` explains the language.
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
