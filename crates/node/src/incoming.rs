//! What comes to a shard from other threads.

use broker::access::{Identity, LoginRefused};
use broker::mail::Mail;
use queue::Ticket;
use tokio::sync::mpsc;
use wal::{BlockRead, ChunksRead, Completion, Packed, StreamAnswer};

use crate::handshakes::Handshake;
use crate::questions::Question;
use crate::shard::Moved;

/// What came of a check.
pub(crate) type Checked = Result<Identity, LoginRefused>;

/// What comes to a shard from other threads.
pub(crate) enum Incoming {
    Mail(Vec<Mail>),
    Logged(Completion),
    Packed(Packed),
    Block(BlockRead),
    Stream(StreamAnswer),
    Chunks(ChunksRead),
    /// A pack to be emptied.
    Sparse(u64),
    Accepted(std::net::TcpStream, Handshake),
    /// The connection with this key goes for another, if it is still the one that has not logged in.
    Evict {
        key: usize,
        handshake: u64,
    },
    /// A connection of another shard that is served here from now on.
    Moved(Box<Moved>, std::net::TcpStream),
    /// What came of a login that a connection of the shard has asked for.
    Login(Ticket, Checked),
    /// A question of the desk, with its number.
    Question(u64, Question),
    /// Nobody waits for the answer to this question any more.
    GiveUp(u64),
    /// Publishing is stopped, or goes on.
    Blocked(bool),
    /// Say why to every client, and end.
    Stop(String),
}

/// The way to each shard.
pub(crate) type Shards = Vec<mpsc::UnboundedSender<Incoming>>;
