//! Queues as deterministic machines: requests in, effects and facts out.
//!
//! Absent here: sockets, files, clocks, tasks, randomness, and every word of every protocol.

#![forbid(unsafe_code)]

mod contract;
mod driver;
mod fifo;
mod grant;
mod storage;
mod stream;

pub use contract::*;
pub use driver::{ALL_DUE, Admission, DEFERRED_MS, Deferral, Drive, Driver, Health, Level, Mark, Solo, ends};
pub use fifo::{DEAD_LETTER_RETRY_MS, Fifo, LEAVING_MAX, Output, Restoring, stored_bytes};
pub use ranges::Span;
pub use storage::*;
pub use stream::*;
