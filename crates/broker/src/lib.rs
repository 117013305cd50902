//! The decisions of the broker: publishing (`intake`), consuming (`outlet`),
//! and one gate per protocol. A gate translates the frames of its protocol.
//!
//! The crate is pure: no sockets, files, clock, tasks or randomness. Callers pass the time as an argument.
//! Requests to other components leave as [`mail`].
#![forbid(unsafe_code)]

pub mod admin_api;
mod ages;
pub mod announced;
pub mod audit;
pub mod catalog_events;
pub mod client_budget;
mod client_events;
pub mod counters;
pub mod credit_budget;
pub mod cx;
pub mod dead_letter;
pub mod exchange_counts;
pub mod explain;
pub mod follow;
pub mod gate;
pub mod ids;
pub mod input;
pub mod intake;
mod kept;
pub mod load;
pub mod mail;
pub mod moving;
pub mod notices;
pub mod outlet;
pub mod own_queues;
pub mod peer;
pub mod placements;
pub mod searches;
pub mod secured;
pub mod settings;
pub mod stream_offset;
pub mod traces;
pub mod unguessable;
pub mod watchers;
