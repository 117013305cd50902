//! Queues as deterministic machines: requests in, effects and facts out.
//!
//! Absent here: sockets, files, clocks, tasks, randomness, and every word of every protocol.

mod contract;

pub use contract::*;
