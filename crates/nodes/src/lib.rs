//! Which other nodes there are, whether they are alive, and how a cluster is formed. One machine per node, without sockets, clock,
//! randomness or threads.
//!
//! Each node dials every other node of its list, with a connection of [`link::Role::Heartbeats`]. The side that dials sends *words* over it. So
//! a pair of nodes has two connections, one for each direction. The caller owns them. It dials again for ever, at most 5 s apart.
//!
//! ```text
//!   connections, words, health, time ──handle_*──> Nodes ──poll──> Send, Close                the connections
//!   the catalog's answers            ──handle_*──>               > Found, Join                to disk, then handle_persisted
//!                                                                > AskToAdmit                 to the catalog, then handle_admitted
//!                                                                > Support, Alarms            to groups, queues and publishers
//! ```
//!
//! # Support
//!
//! A node *supports* a member of its cluster while it counts the member as alive. Groups keep a leader whose node they support. A node sends a
//! *beat* every 200 ms to each other node. A beat acknowledges the newest beat that arrived from the receiver.
//!
//! | must hold | what ends support, and when | what brings it back |
//! |---|---|---|
//! | its beats arrive, and acknowledge ours | 2 s after this node sent the newest beat that was acknowledged. So a cut of one direction ends the support of both | the next beat that acknowledges one that is less than 2 s old |
//! | its process lives | at once, if both connections ended and then its port refused, and the same boot had been connected | a connection, and a beat as above |
//! | its disk syncs | at once, if a beat says that the oldest unsynced write is 5 s old | 30 s of beats that all say less than 1 s. Silence of 2 s starts the 30 s anew |
//! | its shards finish their turns | at once, if a beat says that the oldest unfinished turn is 2 s old | a beat that says less |
//! | its shards answer appends | at once, if an append over an open connection is unanswered for 5 s | the answer |
//! | it is the same boot | at once, if a later boot connects. Connections and words of an earlier boot are dropped | the later boot is supported like any other node |
//! | it is a member of our cluster, under its own number | at once, if it says otherwise | it says so |
//!
//! A connection over which nothing came for 2 s is closed, as is one whose words nobody has acknowledged for 2 s. If the other node has not
//! dialed back, the latter takes 8 s.
//!
//! A beat says for how long its sender will support the receiver if it hears nothing more. [`Nodes::acknowledged_within`] adds that to the time
//! at which the acknowledged beat was *sent*. So a leader stops before any other node ends its support. Two cases are excepted: a network that
//! refuses connections for a living process, and an append that is not answered. A node whose own health ends its support knows it first, and
//! does not count itself as supported.
//!
//! # Alarms and clocks
//!
//! A beat carries the alarms of its sender. Those of the newest beat of a supported member count here ([`Event::Alarms`]). So they end when the member
//! clears them, and when its support ends. A beat also carries a clock. If the clocks of two nodes certainly differ by more than a second,
//! both nodes say so once ([`Event::Clocks`]).
//!
//! # Forming
//!
//! Nobody founds by time-out. All rules are about nodes *in sight*: words went to and fro within the last 2 s.
//!
//! | this node | what it sees | what it does |
//! |---|---|---|
//! | is a member | anything | never founds, never joins; asks the catalog to admit empty nodes that ask |
//! | is empty | members of one cluster | asks one of them to be admitted, twice a second, each time another one |
//! | holds data | members of a cluster | waits for the operator |
//! | is no member | members of two clusters | waits for the operator |
//! | is no member | no member; a node is not in sight, or has another list | waits |
//! | is no member | no member; all in sight, with equal lists; a node writes its membership to disk | waits |
//! | is no member | as above, nobody writes; all are empty | founds, if it has the lowest name |
//! | is no member | as above; exactly one holds data | founds, if it is the one |
//! | is no member | as above; more than one holds data | waits for the operator |
//!
//! A member refuses to admit an empty node that has the name of another member: it would replace that one.
//!
//! There is never a second cluster as long as no disk is replaced by an older copy. A founder has seen all listed nodes, and each has
//! acknowledged the present boot of the founder. From then on, that node drops what earlier owners of the founder's name have sent. A node whose
//! admission arrived earlier says that it is a member, or that it writes this to disk (*pending*). Both prevent the founding.

#![forbid(unsafe_code)]

mod mutation;
mod nodes;
mod peer;
#[cfg(test)]
mod tests;
mod word;

pub use mutation::Mutation;
pub use nodes::{
    Directory, Event, Member, NODES_MAX, NodeView, Nodes, Refusal, Setup, SetupError, View, Waits,
};
pub use peer::{
    BEAT_MS, GOOD_SYNC_MS, GOOD_SYNCS_MS, ONE_SIDED_MS, SILENCE_MS, Side, TURN_MAX_MS, UNANSWERED_MAX_MS,
    UNSYNCED_MAX_MS, Why,
};
pub use word::{Alarms, Health, Life, Malformed, REASON_MAX, Reason, State};
