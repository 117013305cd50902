//! What stands for the network between the nodes of a cluster: a test can cut it, heal it and make it slow.
//!
//! Each node reaches each other one through a pipe of its own. A pipe that is cut closes nothing: bytes, new connections and their ends stand
//! still until it is healed, as on a network that loses everything for a time.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The most bytes that a direction of a connection takes at once.
const BUFFER: usize = 64 * 1024;

/// What happens to the bytes from one node to another.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    is_cut: bool,
    /// How long bytes take. Further ones wait until these have arrived.
    delay: Duration,
    /// How often all connections have been ended.
    ends: u64,
}

/// The pipes between all nodes. They end when this is dropped.
pub(crate) struct Pipes {
    /// The ways from each node to each.
    ways: Vec<Vec<watch::Sender<Way>>>,
    ports: Vec<Vec<u16>>,
    runtime: Option<Runtime>,
}

impl Pipes {
    /// Makes a pipe from each node to each other one. `targets` are the addresses on which the nodes listen.
    pub(crate) fn new(targets: &[SocketAddr]) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let row = || targets.iter().map(|_| watch::Sender::new(Way::default())).collect();
        let ways: Vec<Vec<watch::Sender<Way>>> = targets.iter().map(|_| row()).collect();
        let pipe = |from: usize, to: usize| {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            listener.set_nonblocking(true).unwrap();
            let there_and_back = [ways[from][to].subscribe(), ways[to][from].subscribe()];
            runtime.spawn(accept(listener, targets[to], there_and_back));
            port
        };
        let ports =
            (0..targets.len()).map(|from| (0..targets.len()).map(|to| pipe(from, to)).collect()).collect();
        Self { ways, ports, runtime: Some(runtime) }
    }

    /// Returns the port on which the node `from` reaches the node `to`.
    pub(crate) fn port(&self, from: usize, to: usize) -> u16 {
        self.ports[from][to]
    }

    /// Lets bytes from one node to another stand still. Those of the other direction still arrive.
    pub(crate) fn cut_way(&self, from: usize, to: usize) {
        self.ways[from][to].send_modify(|way| way.is_cut = true);
    }

    /// Lets the bytes of both directions stand still.
    pub(crate) fn cut(&self, a: usize, b: usize) {
        self.cut_way(a, b);
        self.cut_way(b, a);
    }

    /// Ends all connections between two nodes. Bytes on their way are lost.
    pub(crate) fn end(&self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            self.ways[from][to].send_modify(|way| way.ends += 1);
        }
    }

    /// Heals everything that is cut.
    pub(crate) fn heal(&self) {
        self.change_all(|way| way.is_cut = false);
    }

    /// Makes all bytes take at least this long.
    pub(crate) fn delay(&self, delay: Duration) {
        self.change_all(|way| way.delay = delay);
    }

    fn change_all(&self, change: impl Fn(&mut Way)) {
        self.ways.iter().flatten().for_each(|way| way.send_modify(&change));
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: std::net::TcpListener, target: SocketAddr, ways: [watch::Receiver<Way>; 2]) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (near, _) = listener.accept().await.unwrap();
        tokio::spawn(carry_both(near, target, ways.clone()));
    }
}

/// Carries the bytes of a connection until it ends, or all connections of the pipe are ended.
async fn carry_both(near: TcpStream, target: SocketAddr, ways: [watch::Receiver<Way>; 2]) {
    let mut there = ways[0].clone();
    let ends = there.borrow().ends;
    tokio::select! {
        () = connect(near, target, ways) => {}
        _ = there.wait_for(|way| way.ends != ends) => {}
    }
}

async fn connect(near: TcpStream, target: SocketAddr, [mut there, mut back]: [watch::Receiver<Way>; 2]) {
    pass(&mut there).await;
    pass(&mut back).await;
    // Whoever dials a node that does not run is told so by the end of the connection.
    let Ok(far) = TcpStream::connect(target).await else { return };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let (near, far) = (near.into_split(), far.into_split());
    tokio::join!(carry(near.0, far.1, there), carry(far.0, near.1, back));
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut way: watch::Receiver<Way>) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = from.read(&mut buffer).await.unwrap_or(0);
        pass(&mut way).await;
        // Dropping a half ends its direction.
        if n == 0 || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// Returns when bytes that began their way now have arrived.
async fn pass(way: &mut watch::Receiver<Way>) {
    let delay = way.borrow().delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    // The sender lives as long as the runtime of this task.
    drop(way.wait_for(|way| !way.is_cut).await);
}

#[test]
fn a_pipe_lets_bytes_stand_still_and_loses_none() {
    use std::io::{Read as _, Write as _};
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let pipes = Pipes::new(&listeners.each_ref().map(|listener| listener.local_addr().unwrap()));
    let mut near = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, pipes.port(0, 1))).unwrap();
    let (mut far, _) = listeners[1].accept().unwrap();
    let mut byte = [0];
    let mut arrives = |from: &mut std::net::TcpStream, to: &mut std::net::TcpStream| {
        from.write_all(b"x").unwrap();
        to.read_exact(&mut byte).unwrap();
    };
    arrives(&mut near, &mut far);
    pipes.cut_way(0, 1);
    arrives(&mut far, &mut near);
    near.write_all(b"yz").unwrap();
    drop(near);
    far.set_nonblocking(true).unwrap();
    let nothing = far.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(nothing, Err(std::io::ErrorKind::WouldBlock));
    far.set_nonblocking(false).unwrap();
    pipes.delay(Duration::from_millis(1));
    pipes.heal();
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"yz");
    let mut near = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, pipes.port(0, 1))).unwrap();
    let (mut far, _) = listeners[1].accept().unwrap();
    arrives(&mut near, &mut far);
    pipes.cut_way(0, 1);
    near.write_all(b"lost").unwrap();
    pipes.end(0, 1);
    pipes.heal();
    assert_eq!(far.read(&mut [0]).unwrap_or(0), 0, "it has ended");
}
