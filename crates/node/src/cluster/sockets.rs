//! Opens connections between nodes: resolves, connects, and shakes hands, over TLS if this node has certificates.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use link::{Auth, Handshake, HandshakeError, Hello, Nonce, Role};
use socket2::SockRef;
use tls::{NodeSession, NodeTlsError, Tls};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::stream::{self, Stream};
use crate::cluster_settings::ListedNode;
use crate::tls_steps::TlsSteps;

/// The longest time for which a connection may take to open, and for which its handshakes may take together, that of TLS among them. They take some
/// round trips. Nobody waits for a node that takes longer.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(5);

/// The time after which the system gives up a connection whose data nobody acknowledges. The machine of the nodes closes dead connections
/// for heartbeats earlier. A connection for messages may be idle, and is found dead by this when something is sent.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);

/// Between two tries to dial a node: the shortest and the longest time, before chance changes them by at most a quarter. So no two tries are
/// more than 5 s apart.
const REDIAL_MIN: Duration = Duration::from_millis(200);
const REDIAL_MAX: Duration = Duration::from_secs(4);

/// A connection that has lived for so long was of use. The next one is dialed soon.
const LIVED: Duration = Duration::from_secs(2);

/// The bytes that are read at once during a handshake. Its frames are shorter.
const READ: usize = 2048;

/// What this node says in each handshake.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub hello: Hello,
    pub auth: Auth,
    /// `None`: connections are not encrypted.
    pub tls: Option<NodesTls>,
}

/// What this node needs for TLS with other nodes.
#[derive(Clone, Debug)]
pub(super) struct NodesTls {
    pub certificates: Arc<Tls>,
    pub steps: TlsSteps,
    /// The list of nodes.
    pub listed: Arc<[ListedNode]>,
}

impl Introduction {
    fn hello(&self, role: Role) -> Hello {
        Hello { role, ..self.hello.clone() }
    }
}

/// An open connection whose peer has proved that it belongs to the cluster.
#[derive(Debug)]
pub(super) struct Opened {
    pub stream: Stream,
    /// What the peer is.
    pub hello: Hello,
    /// What has arrived after the handshake.
    pub rest: BytesMut,
}

/// Why a connection was not opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// Nothing listens on the port of the node.
    Refused,
    /// The node cannot be reached.
    Io(io::Error),
    /// The node does not answer.
    Silent,
    /// TLS has failed.
    Tls(NodeTlsError),
    Handshake(HandshakeError),
}

impl NotOpened {
    /// Returns true if a setting may be wrong, of this node or of the other one. Otherwise the node may only be away.
    pub(super) fn is_wrong(&self) -> bool {
        matches!(self, Self::Handshake(_) | Self::Tls(_))
    }
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("nothing listens there"),
            Self::Io(error) => error.fmt(f),
            Self::Silent => write!(f, "there was no answer within {} s", OPEN_MAX.as_secs()),
            Self::Tls(error) => error.fmt(f),
            Self::Handshake(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        match error.downcast::<NodeTlsError>() {
            Ok(error) => Self::Tls(error),
            Err(error) => Self::Io(error),
        }
    }
}

/// Binds the address where the other nodes connect.
///
/// # Errors
/// The system refuses the address.
pub(super) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Dials a node, for this role.
pub(super) async fn dial(
    node: &ListedNode,
    role: Role,
    introduction: &Introduction,
) -> Result<Opened, NotOpened> {
    let socket = timeout(OPEN_MAX, connect(node)).await.map_err(|_| NotOpened::Silent)??;
    let handshake = Handshake::dial(introduction.hello(role), introduction.auth.clone(), nonce()?);
    let begin = |tls: &Tls| NodeSession::dial(tls, &node.host);
    shake(socket, handshake.map_err(NotOpened::Handshake)?, introduction, begin).await
}

/// Shakes hands with a node that has connected.
pub(super) async fn welcome(socket: TcpStream, introduction: &Introduction) -> Result<Opened, NotOpened> {
    prepare(&socket)?;
    // The role is that of the dialer.
    let own = introduction.hello(Role::Heartbeats);
    let handshake = Handshake::accept(own, introduction.auth.clone(), nonce()?);
    shake(socket, handshake.map_err(NotOpened::Handshake)?, introduction, NodeSession::accept).await
}

/// Accepts the next connection. Waits a little after an error: its cause may be a lack of descriptors or of memory, which may pass.
pub(super) async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::error!(name: catalog::categories::PEER, "cannot accept connections of other nodes: {error}");
                tokio::time::sleep(REDIAL_MIN).await;
            }
        }
    }
}

async fn connect(node: &ListedNode) -> Result<TcpStream, NotOpened> {
    let mut last =
        NotOpened::Io(io::Error::new(io::ErrorKind::NotFound, "the name of its host has no address"));
    let mut is_refused = true;
    for address in tokio::net::lookup_host((node.host.as_str(), node.port)).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                prepare(&stream)?;
                return Ok(stream);
            }
            Err(error) => {
                is_refused &= error.kind() == io::ErrorKind::ConnectionRefused;
                // The process counts as gone only if no address of its host has it.
                last = if is_refused { NotOpened::Refused } else { NotOpened::Io(error) };
            }
        }
    }
    Err(last)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}

fn nonce() -> io::Result<Nonce> {
    crate::randomness::random()
}

/// Shakes hands over a new connection. With certificates, first that of TLS, which `begin` begins.
async fn shake(
    socket: TcpStream,
    handshake: Handshake,
    introduction: &Introduction,
    begin: impl Fn(&Tls) -> Result<NodeSession, NodeTlsError>,
) -> Result<Opened, NotOpened> {
    let mut rest = BytesMut::new();
    let shaking = async {
        let (mut stream, handshake) = match &introduction.tls {
            None => (Stream::plain(socket), handshake),
            Some(tls) => {
                let session = begin(&tls.certificates).map_err(NotOpened::Tls)?;
                let stream = Stream::encrypted(socket, session, &tls.steps, &mut rest).await?;
                let certified = tls.listed.iter().filter(|node| stream.is_certified_for(&node.host));
                let names = certified.map(|node| node.name.clone()).collect();
                (stream, handshake.certified_for(names))
            }
        };
        let hello = exchange(&mut stream, handshake, &mut rest).await?;
        Ok::<_, NotOpened>((stream, hello))
    };
    let shaken = timeout(OPEN_MAX, shaking).await;
    let (stream, hello) = shaken.map_err(|_| NotOpened::Silent)??;
    Ok(Opened { stream, hello, rest })
}

async fn exchange(
    stream: &mut Stream,
    mut handshake: Handshake,
    input: &mut BytesMut,
) -> Result<Hello, NotOpened> {
    let mut output = Vec::new();
    loop {
        let peer = handshake.handle_bytes(input);
        handshake.poll_output(&mut output);
        let written = stream.write_all(&output).await;
        output.clear();
        if let Some(peer) = peer.map_err(NotOpened::Handshake)? {
            return written.map(|()| peer).map_err(NotOpened::from);
        }
        // A peer that has refused this node and is gone may have said why, so what it said is read even if nothing can be written.
        input.reserve(READ);
        match stream.read(input).await {
            Ok(true) => {}
            Ok(false) => return Err(written.err().unwrap_or_else(stream::closed).into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The time to the next try to dial.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: REDIAL_MIN }
    }
}

impl Backoff {
    /// Called when a connection has ended that was open for so long.
    pub(super) fn handle_ended(&mut self, lived: Duration) {
        if lived >= LIVED {
            self.next = REDIAL_MIN;
        }
    }

    /// Returns how long to wait before the next try. `chance` chooses between three and five quarters, so that nodes which were cut off together
    /// do not all dial at the same time.
    pub(super) fn next(&mut self, chance: u8) -> Duration {
        let wait = self.next * (192 + u32::from(chance) / 2) / 256;
        self.next = (self.next * 2).min(REDIAL_MAX);
        wait
    }

    /// Waits for the next try.
    pub(super) async fn wait(&mut self) {
        let [chance] = crate::randomness::random().unwrap_or_default();
        tokio::time::sleep(self.next(chance)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_at_most_five_seconds_apart() {
        for chance in 0..=u8::MAX {
            let mut backoff = Backoff::default();
            let first = backoff.next(chance);
            assert!(first >= REDIAL_MIN * 3 / 4 && first <= REDIAL_MIN * 5 / 4, "{first:?}");
            let longest = (0..20).map(|_| backoff.next(chance)).max().unwrap();
            assert!(longest >= Duration::from_secs(3) && longest <= Duration::from_secs(5), "{longest:?}");
            backoff.handle_ended(Duration::from_millis(1));
            assert_eq!(backoff.next(chance), longest, "one that ends at once is of no use");
            backoff.handle_ended(LIVED);
            assert_eq!(backoff.next(chance), first);
        }
    }
}
