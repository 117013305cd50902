//! Where decisions become deeds: shards that feed the machines and carry out their effects.
//!
//! [`shard::Shard`] is itself without sockets, clock and tasks, so that a whole broker of several shards runs
//! in one thread from a seed. [`Node`] gives it all of these.
#![forbid(unsafe_code)]

mod admission;
mod alarms;
mod desk;
pub mod facts;
mod handshakes;
mod incoming;
mod logins;
mod marks;
mod node;
pub mod quarantine;
pub mod questions;
mod read_buffers;
mod runtime;
pub mod shard;
mod tally;

pub use alarms::{AlarmLimits, Limit, Measured};
pub use desk::NodeDesk;
pub use node::{Node, NodeOptions, StartError, StopError, make_shards};
pub use shard::StorageLimits;
