//! Links of clients on one node whose queues are on another, without sockets, clock, randomness or threads.

#![forbid(unsafe_code)]

mod codec;
mod item;

pub use codec::{get_answer, get_ask, put_answer, put_ask};
pub use item::{Answer, Ask};
