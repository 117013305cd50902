//! The other nodes: finds them, forms a cluster with them, and carries messages between the shards of all.
//!
//! Decisions are made in crates without IO: `link` (handshake, frames, windows) and `nodes` (who is alive, who forms a cluster). This module has the
//! sockets, in two threads. With certificates, a third thread makes the steps of TLS handshakes:
//!
//! ```text
//!  thread "nodes"                                     thread "links"
//!    listener ── handshake ── role ──┬─> heartbeats     connections of shards: one from each shard of this node to each other
//!    dials each other node           │                  member (sending), one from each shard of each other member (receiving)
//!    nodes::Nodes <── words          └─ of a shard ───────────────> receiving ──> Incoming::Peer ───> shards
//!      │  ├─> Incoming::Support ─> shards        shards ── MailWay ─────> sending ──> Incoming::Link ─┘
//!      │  ├─> who is a member ───────────────────────────────────> sending
//!      │  └─> alarms of other nodes ─> alarms::Publishers
//!      ├─> View ──> cluster_view: what management shows
//!      ├─> Step ──> the start: writes the membership to disk
//!      └─> members: asks the catalog to admit nodes, and who is in it
//! ```
//!
//! Heartbeats must not wait for anything else: a node whose heartbeats are 2 s late counts as dead, and its leaders lose their office. So they have their
//! own connections and their own thread, which handles nothing long. Messages of groups are large at times. They have another thread, in which each
//! connection writes at most 256 KiB before others have their turn.
//!
//! The connections of a shard belong into the event loop of that shard, which would save a wake of another thread for each message: the sending
//! half next to `Shard::poll_peer_mail`, the receiving half next to `Shard::handle_peer_message`. That comes with the queues that have members
//! on several nodes. The catalog has few messages.
//!
//! # A start
//!
//! | the data directory | what the start does |
//! |---|---|
//! | has no log | waits until it is admitted to a cluster, or founds one; writes the membership; waits for the catalog |
//! | has a log, but no membership | founds a cluster with its data, or waits for the operator; see `nodes` |
//! | has a membership | begins at once; waits for the other nodes for `cluster_formation.wait` at most |
//!
//! Clients can connect when the cluster has decided about the start, and the catalog here has that.

mod accept;
mod beats;
mod inputs;
mod machine;
mod members;
mod messages;
mod receiving;
mod said;
mod sending;
mod sockets;
mod stream;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::nodes::{Directory, Life, Nodes, Setup, View};
use broker::explain::Resources;
use link::{Auth, ClusterId, FORMAT, Hello, NodeIdentity, Role, Secret};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use wal::{Disk, Identity, Membership};

use self::inputs::{INPUTS_MAX, Input, Running};
use self::machine::{Channels, Step, Thread};
use self::members::Progress;
use self::messages::{Messages, Order, Orders};
use self::sockets::{Introduction, NodesTls};
use crate::admin_api::AdminApi;
use crate::alarms::Publishers;
use crate::cluster_settings::{ClusterSettings, ListedNode};
use crate::cluster_view::{ClusterView, SeenNodes};
use crate::incoming::Shards;
use crate::links::{MailWay, Waiting};
use crate::runtime::Punctuality;
use crate::tls_steps::TlsSteps;

/// The address where the other nodes connect. It is bound before the data directory is touched, as the addresses of clients are.
#[derive(Debug)]
pub(crate) struct Bound {
    settings: ClusterSettings,
    listener: std::net::TcpListener,
}

/// Binds the address where the other nodes connect.
///
/// # Errors
/// The system refuses the address. The text names it and its setting.
pub(crate) fn bind(settings: ClusterSettings) -> Result<Bound, String> {
    let address = settings.listener;
    let failed =
        |error| format!("cannot listen on {address}: {error}; the address is set by cluster.listener");
    let listener = sockets::bind(address).map_err(failed)?;
    Ok(Bound { settings, listener })
}

/// The part of a node that belongs to its cluster.
pub(crate) struct Cluster {
    inputs: mpsc::Sender<Input>,
    orders: Orders,
    mail: MailWay,
    steps: std::sync::mpsc::Receiver<Step>,
    view: watch::Receiver<View>,
    listed: Vec<ListedNode>,
    waiting: Waiting,
    progress: watch::Receiver<Progress>,
    wait: Duration,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts the threads: this node can be seen by the others.
    ///
    /// # Errors
    /// The list of nodes is of no use, or a thread cannot be started.
    pub(crate) fn start(bound: Bound, name: &str, identity: &Identity, is_empty: bool) -> io::Result<Self> {
        let Bound { settings, listener } = bound;
        let ClusterSettings { secret, certificates, nodes: listed, wait, .. } = settings;
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let auth = match (secret, &certificates) {
            (Some(secret), _) => {
                let secret = Secret::new(secret.expose());
                Auth::Secret(secret.ok_or_else(|| invalid("cluster.secret is empty".to_owned()))?)
            }
            (None, Some(_)) => Auth::Certificates,
            (None, None) => return Err(invalid("there is neither a secret nor a certificate".to_owned())),
        };
        let tls = |certificates| {
            let steps = TlsSteps::start_for_nodes()?;
            Ok::<_, io::Error>(NodesTls { certificates, steps, listed: listed.clone().into() })
        };
        let tls = certificates.map(tls).transpose()?;
        let node = NodeIdentity(identity.node);
        let (cluster, number) = match identity.membership {
            Some(Membership { cluster, number }) => (ClusterId(cluster), number),
            None => (ClusterId::NONE, 0),
        };
        let directory = match identity.membership {
            Some(_) => Directory::Member { cluster, number },
            None if is_empty => Directory::Empty,
            None => Directory::Holds,
        };
        let [seed, ..]: [u8; 1] = crate::randomness::random()?;
        let started = Instant::now();
        let setup = Setup {
            me: Life { node, boot: identity.boots },
            name: name.to_owned(),
            listed: listed.iter().map(|node| node.name.clone()).collect(),
            directory,
            cluster: ClusterId(crate::randomness::random()?),
            now_ms: 0,
            seed: seed.into(),
        };
        let machine = Nodes::new(setup).map_err(|error| invalid(error.to_string()))?;
        let hello = Hello {
            role: Role::Heartbeats,
            node,
            boot: identity.boots,
            cluster,
            number,
            format: FORMAT,
            name: name.to_owned(),
        };
        let introduction = Introduction { hello, auth, tls };
        let (to_inputs, inputs) = mpsc::channel(INPUTS_MAX);
        let (to_steps, steps) = std::sync::mpsc::channel();
        let (orders, to_messages) = Orders::new();
        let (to_view, view) = watch::channel(machine.view());
        let (to_progress, progress) = watch::channel(Progress::default());
        let channels = Channels {
            inputs,
            to_inputs: to_inputs.clone(),
            steps: to_steps,
            orders: orders.clone(),
            view: to_view,
            progress: to_progress,
        };
        let (mail, to_send) = MailWay::new();
        let waiting = Waiting::new(listed.len());
        let messages = Messages::new(&listed, waiting.clone());
        let places = listed.clone();
        let links = spawn("links", move || Ok(messages.run(to_messages, to_send)))?;
        let nodes = spawn("nodes", move || {
            let listener = TcpListener::from_std(listener)?;
            Ok(Thread::new(machine, started, listed, introduction, channels).run(listener))
        })?;
        let threads = vec![links, nodes];
        Ok(Self {
            inputs: to_inputs,
            orders,
            mail,
            steps,
            view,
            listed: places,
            waiting,
            progress,
            wait,
            threads,
        })
    }

    /// Waits until this node is a member of a cluster, and writes that to disk. Returns at once for a member.
    ///
    /// # Errors
    /// The membership cannot be written.
    pub(crate) fn form<D: Disk>(
        &self,
        identity: Identity,
        disk: &mut D,
    ) -> Result<Identity, wal::IdentityError> {
        if identity.membership.is_some() {
            return Ok(identity);
        }
        let ended = || io::Error::other("the thread that forms the cluster has ended");
        let step = self.steps.recv().map_err(|_| wal::IdentityError::Io { file: "", error: ended() })?;
        let (cluster, number) = match step {
            Step::Found { cluster } => (cluster, 1),
            Step::Join { cluster, number } => (cluster, number),
        };
        let joined = identity.join(disk, Membership { cluster: cluster.0, number })?;
        match step {
            Step::Found { .. } => tracing::info!("this node has founded cluster {cluster}"),
            Step::Join { .. } => {
                tracing::info!("this node is admitted to cluster {cluster}, as number {number}")
            }
        }
        self.give(Input::Persisted { cluster, number });
        Ok(joined)
    }

    /// Returns the most file descriptors that the connections between the nodes take.
    pub(crate) fn descriptors(&self, shards: u64) -> u64 {
        let others = self.view.borrow().nodes.len() as u64 - 1;
        // One connection in each direction for heartbeats, and for each shard. Other nodes may have another number of shards, but most have the same.
        others * 2 * (1 + shards) + accept::UNPROVEN_MAX as u64
    }

    /// Returns the way of mail to other nodes.
    pub(crate) fn mail(&self) -> MailWay {
        self.mail.clone()
    }

    /// Returns what the threads know about the nodes, for management.
    pub(crate) fn seen(&self) -> SeenNodes {
        let (view, waiting) = (self.view.clone(), self.waiting.clone());
        let addresses: Vec<(Arc<str>, u16)> =
            self.listed.iter().map(|node| (node.host.as_str().into(), node.port)).collect();
        SeenNodes::new(move || ClusterView::of_links(&view.borrow(), &addresses, |place| waiting.of(place)))
    }

    /// Called when the shards run.
    pub(crate) fn begin(
        &self,
        shards: Shards,
        api: AdminApi,
        punctuality: Vec<Arc<Punctuality>>,
        resources: Arc<Mutex<Resources>>,
        publishers: Arc<Publishers>,
    ) {
        let running = Running { shards, api, punctuality, resources, publishers };
        self.give(Input::Running(Box::new(running)));
    }

    /// Waits until clients may connect: the cluster has decided about this start. A member that has the catalog waits no longer than
    /// `cluster_formation.wait`, and then goes on with what it has.
    pub(crate) async fn ready(&self) {
        let mut progress = self.progress.clone();
        let started = async {
            // The thread ends only when the node stops.
            drop(progress.wait_for(|progress| progress.is_started).await);
        };
        if tokio::time::timeout(self.wait, started).await.is_ok() {
            return;
        }
        let missing = self.missing();
        if self.progress.borrow().has_catalog {
            tracing::warn!(
                "clients can connect, but the cluster has not decided about this start yet, so nothing can be changed here: {missing}"
            );
            return;
        }
        tracing::warn!(
            "clients cannot connect yet: this node waits for the definitions of the cluster: {missing}"
        );
        let mut progress = self.progress.clone();
        drop(progress.wait_for(|progress| progress.is_started).await);
    }

    /// Returns which nodes are missing, as a sentence.
    fn missing(&self) -> String {
        let view = self.view.borrow();
        let missing = view.nodes.iter().filter(|node| !node.is_me && node.trouble.is_some());
        let missing: Vec<String> = missing.map(|node| format!("{} ({node})", node.name)).collect();
        match missing.is_empty() {
            true => "no node is missing".to_owned(),
            false => format!("missing: {}", missing.join(", ")),
        }
    }

    /// Closes all connections, and the listener. Called last: while it is open, this node counts as alive.
    pub(crate) fn stop(self) {
        self.orders.give(Order::End);
        self.give(Input::Stop);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the cluster panicked");
            }
        }
    }

    fn give(&self, input: Input) {
        // The thread of the nodes is gone only if it has panicked, which `stop` reports. This thread runs no tasks.
        drop(self.inputs.blocking_send(input));
    }
}

/// Starts a thread with a runtime of its own, on which the future of `make` runs.
fn spawn<F: Future<Output = ()>>(
    name: &'static str,
    make: impl FnOnce() -> io::Result<F> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let work = async {
            match make() {
                Ok(work) => work.await,
                Err(error) => tracing::error!("the thread {name} of the cluster cannot run: {error}"),
            }
        };
        LocalSet::new().block_on(&runtime, work);
        // A look-up of a host may take long, and nobody waits for it any more.
        runtime.shutdown_background();
    })
}

#[cfg(test)]
mod tests;
