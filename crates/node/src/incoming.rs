//! The messages that a shard receives from other threads.

use std::sync::Arc;

use broker::access::{Identity, LoginRefused};
use broker::mail::Mail;
use queue::Ticket;
use tokio::sync::mpsc;
use wal::{BlockRead, ChunksRead, Completion, Packed, StreamAnswer};

use crate::handshakes::Handshake;
use crate::questions::Question;
use crate::shard::Moved;

/// The result of checking a login.
pub(crate) type Checked = Result<Identity, LoginRefused>;

/// A message to a shard from another thread.
pub(crate) enum Incoming {
    Mail(Vec<Mail>),
    Logged(Completion),
    Packed(Packed),
    Block(BlockRead),
    Stream(StreamAnswer),
    Chunks(ChunksRead),
    /// The pack with this number is mostly dead and should be emptied.
    Sparse(u64),
    /// A new connection. It speaks TLS if there are certificates for it.
    Accepted(std::net::TcpStream, Handshake, Option<Arc<tls::Tls>>),
    /// Close the connection with this key to make room for another, if it is still this handshake.
    Evict {
        key: usize,
        handshake: u64,
    },
    /// A connection that moved here from another shard.
    Moved(Box<Moved>, std::net::TcpStream, Option<Box<tls::Session>>),
    /// The result of a login that a connection of this shard requested.
    Login(Ticket, Checked),
    /// A question of the desk, with its number.
    Question(u64, Question),
    /// Nobody waits for the answer to this question any more.
    GiveUp(u64),
    /// True stops publishing; false lets it continue.
    Blocked(bool),
    /// Close every connection with this reason, and end.
    Stop(String),
}

/// The channel to each shard, by its number.
pub(crate) type Shards = Vec<mpsc::UnboundedSender<Incoming>>;
