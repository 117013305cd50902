//! Queues as deterministic state machines: requests go in, effects and facts come out.
//!
//! This crate has no sockets, files, clocks, tasks or randomness, and it knows no protocol.

#![forbid(unsafe_code)]

mod contract;
mod driver;
mod fifo;
mod grant;
mod lately;
mod seqs;
mod storage;
mod stream;

pub use contract::*;
pub use driver::{
    ALL_DUE, Admission, Awaits, DEFERRED_MS, Deferral, Drive, Driver, FactTo, Health, Level, Mark, Replica,
    Solo, ends,
};
pub use fifo::{
    BrowserLoad, DEAD_LETTER_RETRY_MS, Fifo, LEAVING_MAX, Output, PEEK_BYTES_MAX, PEEK_STEPS_MAX, Peek,
    PeekBlock, PeekEnd, Peeked, PeekedMessage, Restoring, stored_bytes,
};
pub use lately::Lately;
pub use ranges::Span;
pub use seqs::Seqs;
pub use storage::*;
pub use stream::*;
