//! What two nodes of a cluster say to each other over one connection, without sockets, clock, randomness or threads.
//!
//! A node dials each of its peers several times: once for heartbeats, and once for each of its shards ([`Role`]). Each connection
//! begins with a handshake ([`Handshake`]). Each side then knows what the other one is ([`Hello`]), and that it belongs to the cluster.
//!
//! ```text
//!  dialer                                     acceptor
//!    hello, nonce             ───────────>
//!                             <───────────    hello, nonce          all that an acceptor says before the proof
//!    proof                    ───────────>                          HMAC-SHA-256 over a label, who proves, and both
//!                             <───────────    proof                 hellos with their nonces
//!
//!                             <──────────>    refused, in place of the next frame: a reason, then the connection is closed
//! ```
//!
//! The key of the proofs is the secret of the cluster. With certificates, the connection is TLS, and the handshake checks that the certificate of
//! the peer is valid for the node that the peer says it is. Then there need be no secret, and the key is empty. A secret alone protects the
//! handshake only: without TLS, others on the path can read and change the frames that follow.
//!
//! On a connection for heartbeats, both sides send words ([`put_word`], [`take_word`]): bytes that this crate does not interpret.
//!
//! On a connection of a shard, only the dialer sends messages. A message goes over a *lane*, for example that of one Raft group.
//! Messages of one lane arrive in order. Lanes take turns, with one piece of at most 64 KiB each, so a long message does not delay the others
//! for long.
//!
//! ```text
//!  Outgoing (dialer)                                          Incoming (acceptor)
//!    lane 7   [ long message ......................... ]        lane 7   [ long mes          unfinished: counts as taken
//!    lane 9   [ short ]                                         lane 9   [ short ] ──> Message ──> taken(cost)
//!                        piece 7 | piece 9 | piece 7 ──────>
//!    the window: bytes of pieces that are not acknowledged
//!                        <────────────────────────── window     after each WINDOW_STEP bytes that were taken
//! ```
//!
//! Nothing is sent twice and nothing is stored. When a connection ends, what was queued, on its way or unfinished is dropped, and
//! whoever sends messages must be prepared for that. Each frame of a peer is checked before it has an effect. A frame that breaks a rule is a
//! typed error, which ends the connection. All memory that this crate keeps is bounded by its constants. Messages that have arrived whole are the
//! caller's: the window counts their last pieces only, so the caller bounds their bytes.

#![forbid(unsafe_code)]

mod bounds;
mod error;
mod frame;
mod handshake;
mod hello;
mod incoming;
mod outgoing;
mod word;

pub use bounds::{LANES_MAX, MESSAGE_MAX, QUEUED_MAX, QUEUED_OVERHEAD, UNFINISHED_MAX, WINDOW, WINDOW_STEP};
pub use error::{HandshakeError, LinkError};
pub use frame::{
    FRAME_MAX, Frame, Greeting, Malformed, NAME_MAX, Nonce, PIECE_MAX, Piece, Reason, TEXT_MAX, WORD_MAX, Way,
};
pub use handshake::{Auth, FORMAT, FORMAT_MIN, Handshake, Secret};
pub use hello::{ClusterId, Hello, NodeIdentity, Role};
pub use incoming::{Incoming, Message};
pub use outgoing::{NotQueued, Outgoing};
pub use word::{put_word, take_word};
