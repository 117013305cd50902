//! The messages that a shard receives from other threads.

use std::net::IpAddr;
use std::sync::Arc;

use broker::mail::Mail;
use broker::notices::Notice;
use broker::settings::Settings;
use catalog::access::{Identity, LoginRefused};
use catalog::ids::NodeNumber;
use queue::Ticket;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use wal::{BlockRead, ChunksRead, Completion, CopyEnd, Packed, StreamAnswer};

use crate::handshakes::Handshake;
use crate::links::PeerBytes;
use crate::shard::Migration;
use crate::shard::questions::Question;

/// The result of checking a login.
pub(crate) type Checked = Result<Identity, LoginRefused>;

/// A message to a shard from another thread.
pub(crate) enum Incoming {
    Mail(Vec<Mail>),
    Logged(Completion),
    /// The copy of the users has ended.
    Copied(CopyEnd),
    Packed(Packed),
    Block(BlockRead),
    Stream(StreamAnswer),
    Chunks(ChunksRead),
    /// The pack with this number is mostly dead and should be emptied.
    Sparse(u64),
    Accepted(Accepted),
    /// Close the connection with this key to make room for another, if it is still this handshake.
    Evict {
        key: usize,
        handshake: u64,
    },
    /// A connection that moved here from another shard.
    Migrated(Box<Migration>, std::net::TcpStream, Option<Box<tls::Session>>),
    /// The result of a login that a connection of this shard requested.
    Login(Ticket, Checked),
    /// The question of a connection of this shard about a permission was asked.
    Permission(Ticket),
    /// A question of the admin API.
    Question(Question),
    /// Nobody waits for the answer to the question of this number any more.
    GiveUp(u64),
    /// A message of the broker itself, and its place among those on the way.
    Notice(Notice, OwnedSemaphorePermit),
    /// True stops publishing; false lets it continue.
    Blocked(bool),
    /// The settings from now on.
    Settings(Arc<Settings>),
    /// The connection from this shard to another node is open, or has ended.
    Link {
        node: NodeNumber,
        up: bool,
    },
    /// Another node counts as alive, or does not any more.
    Support {
        node: NodeNumber,
        supported: bool,
    },
    /// The process of another node has ended.
    Gone {
        node: NodeNumber,
    },
    /// A message of another node.
    Peer(PeerBytes),
    /// Close every connection with this reason, and end.
    Stop(String),
}

/// A new connection.
pub(crate) struct Accepted {
    /// The socket. Unix domain sockets are here too; `runtime::accept` says why they may be.
    pub stream: std::net::TcpStream,
    pub handshake: Handshake,
    pub way: Way,
}

/// How a new connection has come.
pub(crate) enum Way {
    /// Over TCP. It speaks TLS if there are certificates for it, and starts with a header if a proxy has opened it.
    Tcp { tls: Option<Arc<tls::Tls>>, is_proxied: bool },
    /// Over the Unix domain socket of this path. The number is that of the connection among those of the listener.
    Unix { path: Arc<str>, number: u64 },
    /// From the admin API, for a user who has logged in from this address. The name is that of the connection.
    AdminApi { from: IpAddr, name: Arc<str>, who: Identity },
}

/// The channel to each shard, by its number.
pub(crate) type Shards = Vec<mpsc::UnboundedSender<Incoming>>;
