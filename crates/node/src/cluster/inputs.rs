//! What happens to the thread of the nodes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use ::nodes::{Member, Reason};
use broker::explain::Resources;
use bytes::Bytes;
use link::{ClusterId, Hello, NodeIdentity};
use tokio::sync::mpsc;

use super::sockets::{NotOpened, Opened};
use crate::admin_api::AdminApi;
use crate::alarms::Publishers;
use crate::incoming::Shards;
use crate::runtime::Punctuality;

/// The inputs that may wait. Tasks that have more wait themselves, and so do the nodes that send to them.
pub(super) const INPUTS_MAX: usize = 256;

/// An input of the thread of the nodes. A peer is a place in the list of nodes.
pub(super) enum Input {
    /// A connection for heartbeats that this node has dialed is open.
    Dialed { peer: usize, hello: Hello, words: mpsc::Sender<Bytes> },
    /// That connection has ended. The node may have said why.
    DialEnded { peer: usize, why: Option<String> },
    /// It could not be opened.
    NotDialed { peer: usize, error: NotOpened },
    /// Another node has connected, and has proved that it belongs to the cluster.
    Accepted(Opened),
    /// Somebody has connected and did not prove that.
    NotAccepted { from: IpAddr, error: NotOpened },
    /// A word has arrived over the connection of this number.
    Word { peer: usize, connection: u64, word: Bytes },
    /// The connection of this number, which the other node has dialed, has ended.
    AcceptEnded { peer: usize, connection: u64 },
    /// The membership is on disk.
    Persisted { cluster: ClusterId, number: u32 },
    /// The shards run.
    Running(Box<Running>),
    /// The members as the catalog knows them.
    Members(Vec<Member>),
    /// The catalog has decided about a node that wants to join.
    Admitted { node: NodeIdentity, result: Result<u32, Reason> },
    /// The node stops.
    Stop,
}

/// What the thread of the nodes gets when the shards run.
#[derive(Debug)]
pub(super) struct Running {
    pub shards: Shards,
    pub api: AdminApi,
    pub punctuality: Vec<Arc<Punctuality>>,
    pub resources: Arc<Mutex<Resources>>,
    pub publishers: Arc<Publishers>,
}
