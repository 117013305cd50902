//! Opens connections between nodes: resolves, connects, and shakes hands.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use link::{Auth, Handshake, HandshakeError, Hello, Nonce, Role};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::cluster_settings::ListedNode;

/// The longest time for which a connection may take to open, and for which its handshake may take. Both take some round trips. Nobody
/// waits for a node that takes longer.
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
}

impl Introduction {
    fn hello(&self, role: Role) -> Hello {
        Hello { role, ..self.hello.clone() }
    }
}

/// An open connection whose peer has proved that it belongs to the cluster.
#[derive(Debug)]
pub(super) struct Opened {
    pub stream: TcpStream,
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
    Handshake(HandshakeError),
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("nothing listens there"),
            Self::Io(error) => error.fmt(f),
            Self::Silent => write!(f, "there was no answer within {} s", OPEN_MAX.as_secs()),
            Self::Handshake(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
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
    let stream = timeout(OPEN_MAX, connect(node)).await.map_err(|_| NotOpened::Silent)??;
    let handshake = Handshake::dial(introduction.hello(role), introduction.auth.clone(), nonce()?);
    shake(stream, handshake.map_err(NotOpened::Handshake)?).await
}

/// Shakes hands with a node that has connected.
pub(super) async fn welcome(stream: TcpStream, introduction: &Introduction) -> Result<Opened, NotOpened> {
    prepare(&stream)?;
    // The role is that of the dialer.
    let own = introduction.hello(Role::Heartbeats);
    let handshake = Handshake::accept(own, introduction.auth.clone(), nonce()?);
    shake(stream, handshake.map_err(NotOpened::Handshake)?).await
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

async fn shake(mut stream: TcpStream, handshake: Handshake) -> Result<Opened, NotOpened> {
    let mut rest = BytesMut::new();
    let shaken = timeout(OPEN_MAX, exchange(&mut stream, handshake, &mut rest)).await;
    let hello = shaken.map_err(|_| NotOpened::Silent)??;
    Ok(Opened { stream, hello, rest })
}

async fn exchange(
    stream: &mut TcpStream,
    mut handshake: Handshake,
    input: &mut BytesMut,
) -> Result<Hello, NotOpened> {
    let mut output = Vec::new();
    loop {
        let peer = handshake.handle_bytes(input);
        handshake.poll_output(&mut output);
        stream.write_all(&output).await?;
        output.clear();
        if let Some(peer) = peer.map_err(NotOpened::Handshake)? {
            return Ok(peer);
        }
        input.reserve(READ);
        if stream.read_buf(input).await? == 0 {
            let error =
                io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection during the handshake");
            return Err(NotOpened::Io(error));
        }
    }
}

/// Reads what has arrived. Call it when the stream is readable. Returns false at the end of the stream.
pub(super) fn try_read(stream: &TcpStream, input: &mut BytesMut) -> io::Result<bool> {
    match stream.try_read_buf(input) {
        Ok(read) => Ok(read > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes as much as fits. Call it when the stream is writable. Returns how many bytes were written.
pub(super) fn try_write(stream: &TcpStream, output: &[u8]) -> io::Result<usize> {
    match stream.try_write(output) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        written => written,
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
