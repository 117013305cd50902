//! Raft groups. One member of one group is a machine without sockets, files, clock or threads.
//!
//! The engine is the crate `raft`. Its types do not occur in this interface (docs/decisions/0029). Only the
//! owner of a group interprets its entries.
//!
//! ```text
//!  input                                             output, as a Round
//!  propose(term, facts)      the owner, if it leads   standing     term and role, when they change
//!  change, transfer          an operator              records      to be written, in this order
//!  step(message, support)    another member           now          messages to send at once
//!  on_synced(round)          the log                  after_sync   messages to send when the round is synced
//!  on_link(node, up)         the node: a connection   committed    entries that the owner applies
//!  campaign                  the node: liveness       wants_base   a follower lags: send_base(the owner's state)
//! ```
//!
//! These guarantees hold as long as rounds are carried out in order and no synced record is lost:
//!
//! * An entry that one member handed out as committed is never replaced. All members hand out the same
//!   entries in the same order.
//! * A term has at most one leader. Facts become an entry only in the term in which they were decided:
//!   [`Group::propose`] refuses facts of another term, and no message carries a proposal.
//! * No message from a peer makes the engine panic. Each is checked against the group first (`check.rs`,
//!   `docs/raft-engine.md`).
//!
//! Nothing happens by itself. There are no ticks: the node decides when a member campaigns. A leader finds
//! out what a follower has when the link to it is open again. A quiet group can be put to rest ([`Resting`]).
//! The node knows which nodes are alive, and says so with each message ([`Support`]).
//!
//! ```text
//!  Restoring ──records──> Group <──wake── Resting       Group::join: a new member
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
mod support;
#[cfg(test)]
mod tests;
mod wire;

pub use check::Rejected;
pub use entry::{Base, Entry, NUMBER_MAX, Payload, Position, Record, Vote};
pub use group::{Group, Options, Resting};
pub use member::{Change, MEMBERS_MAX, Member, Members};
pub use message::{Body, Message};
pub use restore::{Damaged, Restoring};
pub use round::{Progress, Refused, Role, Round, Standing};
pub use support::Support;
pub use wire::Malformed;
