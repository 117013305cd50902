//! Nodes of one cluster, as processes of the built program.

pub(crate) mod pipes;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;

use self::pipes::Pipes;
use crate::authority::Authority;
use crate::broker::{Broker, Directory, Starting};

const SECRET: &str = "a secret of more than 20 bytes";

/// The tries of a test that waits for something, and the time between two: 20 s in all, more than anything here takes.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(50);

/// A node of a cluster, which runs or does not.
pub(crate) struct Node {
    pub name: String,
    pub directory: Directory,
    pub sets: Vec<String>,
    pub place: Option<Place>,
    pub broker: Option<Broker>,
}

/// Where a node runs that does not run beside the test.
pub(crate) struct Place {
    /// The command that runs another one there.
    pub by: Vec<String>,
    /// The address of the node for clients.
    pub host: String,
}

/// Three nodes, which reach each other through pipes only.
pub(crate) struct Cluster {
    pub nodes: Vec<Node>,
    pub pipes: Pipes,
}

/// Returns addresses on which nodes can listen for each other. They are those of nobody else: the numbers of the network are chosen by the
/// process, and its tests count the ports.
fn addresses(count: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports that a system gives to those who do not choose.
    const FIRST: u16 = 20_000;
    let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed);
    let [.., high, low] = std::process::id().to_be_bytes();
    (1..=count)
        .map(|n| SocketAddr::from((Ipv4Addr::new(127, 64 | (high % 64), low, n as u8), port)))
        .collect()
}

/// Returns the settings with which a node proves that it belongs to the cluster: the secret, or certificates if the variable NODES_TLS is set. The files
/// are in `directory`.
fn proofs(directory: &Directory, authority: Option<&Authority>, host: &str) -> Vec<String> {
    let Some(authority) = authority else { return vec![format!("cluster.secret={SECRET}")] };
    let file = directory.path().join("node");
    authority.sign_for(file.to_str().unwrap(), host, None);
    let file = file.display();
    vec![
        format!("cluster.ssl_options.cacertfile={}", authority.path("ca.pem")),
        format!("cluster.ssl_options.certfile={file}.pem"),
        format!("cluster.ssl_options.keyfile={file}.key"),
    ]
}

/// Returns the nodes of a new cluster. None runs yet. `port_of(from, to)` is the port through which a node reaches another one, on the address
/// 127.0.0.1.
fn nodes_at(
    what: &str,
    addresses: &[SocketAddr],
    host_of: impl Fn(usize) -> String,
    port_of: impl Fn(usize, usize) -> u16,
) -> Vec<Node> {
    let name = |at: usize| format!("node-{}@{}", at + 1, host_of(at));
    let directories: Vec<Directory> = addresses.iter().map(|_| Directory::new(what)).collect();
    let has_tls = std::env::var_os("NODES_TLS").is_some();
    let authority = has_tls.then(|| Authority::make(directories[0].path(), "ca"));
    let node = |(from, directory): (usize, Directory)| {
        let listed = (0..addresses.len()).map(|to| {
            let port = if to == from { addresses[to].port() } else { port_of(from, to) };
            format!("cluster_formation.classic_config.nodes.{}={}:{port}", to + 1, name(to))
        });
        let own = [format!("node.name={}", name(from)), format!("cluster.listener={}", addresses[from])];
        let proofs = proofs(&directory, authority.as_ref(), &host_of(from));
        Node {
            name: name(from),
            directory,
            sets: own.into_iter().chain(proofs).chain(listed).collect(),
            place: None,
            broker: None,
        }
    };
    directories.into_iter().enumerate().map(node).collect()
}

/// Returns the nodes of a new cluster, which reach each other directly. None runs yet.
pub(crate) fn nodes(what: &str, count: usize) -> Vec<Node> {
    nodes_on(what, &addresses(count))
}

/// Returns the nodes of a new cluster, which reach each other directly on these addresses. None runs yet.
pub(crate) fn nodes_on(what: &str, addresses: &[SocketAddr]) -> Vec<Node> {
    nodes_at(what, addresses, |at| addresses[at].ip().to_string(), |_, to| addresses[to].port())
}

impl Cluster {
    /// Returns three nodes with further settings. None runs yet.
    pub(crate) fn new(what: &str, sets: &[&str]) -> Self {
        let addresses = addresses(3);
        let pipes = Pipes::new(&addresses);
        let mut nodes =
            nodes_at(what, &addresses, |_| "127.0.0.1".to_owned(), |from, to| pipes.port(from, to));
        for node in &mut nodes {
            node.sets.extend(sets.iter().map(|set| (*set).to_owned()));
        }
        Self { nodes, pipes }
    }

    /// Starts three nodes with further settings, and waits until all of them vote.
    pub(crate) fn start(what: &str, sets: &[&str]) -> Self {
        let mut cluster = Self::new(what, sets);
        start(&mut cluster.nodes, &[0, 1, 2]);
        wait_until_all_vote(&cluster.nodes);
        cluster
    }

    pub(crate) fn broker(&self, at: usize) -> &Broker {
        self.nodes[at].broker()
    }

    /// Waits until all nodes know a queue.
    #[track_caller]
    pub(crate) fn wait_for_queue(&self, queue: &str) {
        let path = format!("/api/queues/%2F/{queue}");
        wait_until("all have the queue", || self.nodes.iter().all(|node| node.broker().get(&path).0 == 200));
    }

    /// Declares a queue on a node, which then has it, and waits until all nodes know it.
    #[track_caller]
    pub(crate) fn declare(&self, at: usize, queue: &str, words: &[&str]) {
        self.broker(at).verb(&[&["declare", "queue", queue], words].concat()).done();
        self.wait_for_queue(queue);
    }

    /// Ends all nodes, which must not have failed by then.
    pub(crate) fn stop(self) {
        for node in self.nodes {
            assert!(node.broker.unwrap().terminate().success(), "{}", node.name);
        }
    }
}

impl Node {
    pub(crate) fn spawn(&self) -> Starting {
        let sets: Vec<&str> = self.sets.iter().map(String::as_str).collect();
        match &self.place {
            None => Starting::spawn(&self.directory, &sets),
            Some(Place { by, host }) => Starting::spawn_by(&self.directory, by, host, &sets),
        }
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.broker.as_ref().expect("it runs")
    }

    pub(crate) fn start(&mut self) {
        self.broker = Some(self.spawn().finish());
    }

    pub(crate) fn kill(&mut self) {
        self.broker.take().expect("it runs").kill();
    }

    pub(crate) fn declare(&self, queue: &str) -> (u16, Value) {
        self.broker().ask("PUT", &format!("/api/queues/%2F/{queue}"), r#"{"durable": true}"#)
    }

    /// Returns the definitions, without what only this node says.
    pub(crate) fn definitions(&self) -> Value {
        let (status, mut definitions) = self.broker().get("/api/definitions");
        assert_eq!(status, 200, "{definitions}");
        let fields = definitions.as_object_mut().unwrap();
        for list in fields.values_mut().filter_map(Value::as_array_mut) {
            list.sort_by_key(Value::to_string);
        }
        definitions
    }

    pub(crate) fn has_queue(&self, queue: &str) -> bool {
        let definitions = self.definitions();
        definitions["queues"].as_array().unwrap().iter().any(|row| row["name"] == queue)
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        if is_so() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("this did not happen: {what}");
}

/// Starts all nodes together.
pub(crate) fn start(nodes: &mut [Node], order: &[usize]) {
    let started: Vec<(usize, Starting)> = order.iter().map(|at| (*at, nodes[*at].spawn())).collect();
    for (at, starting) in started {
        nodes[at].broker = Some(starting.finish());
    }
}

/// Waits until all nodes of a new cluster vote. Until then the founder alone decides.
#[track_caller]
pub(crate) fn wait_until_all_vote(nodes: &[Node]) {
    wait_until("all vote", || {
        let voters = |node: &Node| node.directory.logged().matches("now votes about definitions").count();
        // The founder says it of each other node, and the others as far as they knew the cluster by then.
        nodes.iter().map(voters).max() == Some(nodes.len() - 1)
    });
}
