//! What comes to a shard from other threads.

use broker::access::{Identity, LoginRefused};
use broker::mail::Mail;
use log::{BlockRead, ChunksRead, Completion, Packed, StreamAnswer};
use queue::Ticket;
use tokio::sync::mpsc;

use crate::handshakes::Handshake;
use crate::shard::{DeskCall, Moved};

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
    Call(DeskCall),
    /// Say why to every client, and end.
    Stop(String),
}

/// The way to each shard.
pub(crate) type Shards = Vec<mpsc::UnboundedSender<Incoming>>;
