//! What a broker decides: the catalog and routing, who may do what, intake and outlet, and one gate per protocol.
//!
//! Pure: no sockets, files, clock, tasks or randomness. Time is an argument; work for others is mail.
#![forbid(unsafe_code)]

pub mod access;
pub mod catalog;
pub mod counters;
pub mod credit_budget;
pub mod cx;
pub mod dead_letter;
pub mod desk;
pub mod explain;
pub mod farewell;
pub mod follow;
pub mod gate;
pub mod ids;
pub mod input;
pub mod intake;
pub mod mail;
pub mod outlet;
pub mod placements;
pub mod reply_to;
pub mod settings;
pub mod stream_offset;
pub mod watchers;

/// Target of the lines of the log that a peer can cause as often as it likes. The program limits them.
pub const PEER: &str = "peer";
