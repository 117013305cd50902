//! Raft groups: one member of one group is a machine without sockets, files, clock or threads.
//!
//! The engine is the crate `raft`; nothing of it shows in this interface (docs/decisions/0029). What an entry means is its
//! owner's business.
//!
//! ```text
//!  what comes in                                      what goes out, as a Round
//!  propose(term, facts)      the owner, if it leads   standing     term and role, when they change
//!  change, transfer          an operator              records      to be written, in this order
//!  step(message)             another member           now          messages that leave at once
//!  on_synced(round)          the log                  after_sync   messages that leave when the round is synced
//!  on_link(node, up)         the node: a connection   committed    entries that the owner applies
//!  on_support, campaign      the node: liveness       wants_base   a follower lags: send_base(the owner's state)
//! ```
//!
//! What is promised, as long as its rounds are carried out in order and no synced record is lost:
//!
//! * An entry that was handed out as committed by one member is never replaced, and all members are handed the same entries in
//!   the same order.
//! * A member that leads in a term is the only one that does. Facts become an entry only in the term in which they were
//!   decided: [`Group::propose`] refuses those of another, and no message carries a proposal.
//! * No message from a peer makes the engine panic: each is checked against the group first (`check.rs`, `docs/raft-engine.md`).
//!
//! Nothing happens by itself. There are no ticks: the node decides when a member campaigns, and a leader finds out what a
//! follower has when the link to it is back. A quiet group can be put away ([`Resting`]).
//!
//! ```text
//!  Restoring ──records──> Group <──wake── Resting       Group::join: a member that is new to its group
//!                           └─────rest────────▲
//! ```

#![deny(unsafe_code)]

mod check;
mod engine;
mod entry;
mod group;
mod member;
mod message;
mod mutation;
mod restore;
mod round;
mod store;
#[cfg(test)]
mod tests;
mod wire;

pub use check::Rejected;
pub use entry::{Base, Entry, NUMBER_MAX, Payload, Position, Record, Vote};
pub use group::{Group, Options, Resting};
pub use member::{Change, MEMBERS_MAX, Member, Members};
pub use message::{Body, Message};
pub use restore::{Damaged, Restoring};
pub use round::{Refused, Role, Round, Standing};
pub use wire::Malformed;
