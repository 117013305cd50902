//! New connections: the listeners accept them, and a shard begins to serve them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use catalog::categories::{CONNECTION, PEER};

use super::Host;
use super::address::canonical;
use super::sockets::{Reading, serve};
use crate::admission::Admission;
use crate::incoming::{Accepted, Incoming, Shards, Way};
use crate::proxy::Proxies;

/// The pause after a failure to accept.
const RETRY: Duration = Duration::from_millis(100);

/// The address of the clients of Unix domain sockets, for limits and rights: whoever can open the socket's file is on this
/// machine.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What a listener over TCP expects of its connections.
#[derive(Clone, Debug, Default)]
pub struct Listening {
    /// The certificates, if connections speak TLS.
    pub tls: Option<Arc<tls::Tls>>,
    /// If there are proxies, only they may connect, and each connection starts with a header of the PROXY protocol.
    pub proxies: Option<Arc<Proxies>>,
}

/// Accepts connections over TCP while descriptors are free, and gives each to the shard with the fewest connections.
pub(crate) async fn accept_all(
    listener: tokio::net::TcpListener,
    listening: Listening,
    shards: Shards,
    admission: Arc<Admission>,
) {
    let Listening { tls, proxies } = listening;
    loop {
        match listener.accept().await.map(|(stream, peer)| (stream, canonical(peer))) {
            Ok((_, peer)) if proxies.as_ref().is_some_and(|proxies| !proxies.contains(peer.ip())) => {
                tracing::warn!(
                    name: PEER, target: CONNECTION,
                    "a connection from {peer} was closed: proxy_protocol = true, and no proxy_protocol.trusted.N \
                     contains this address"
                );
            }
            Ok((stream, peer)) => {
                let is_proxied = proxies.is_some();
                let from = (!is_proxied).then_some(peer.ip());
                let way = Way::Tcp { tls: tls.clone(), is_proxied };
                admit(stream.into_std(), from, way, &shards, &admission).await;
            }
            Err(error) => wait_to_retry(&error).await,
        }
    }
}

/// Like [`accept_all`], over a Unix domain socket.
pub(crate) async fn accept_all_unix(
    listener: tokio::net::UnixListener,
    path: Arc<str>,
    shards: Shards,
    admission: Arc<Admission>,
) {
    let mut number = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                number += 1;
                // Connections of both kinds have one type. TcpStream makes only system calls that any connected stream socket
                // knows, except for those that `accept` does not make for a Unix domain socket: they set options of TCP, or
                // take an address for one of IP and return an error.
                let stream = stream.into_std().map(|stream| OwnedFd::from(stream).into());
                let way = Way::Unix { path: path.clone(), number };
                admit(stream, Some(HERE), way, &shards, &admission).await;
            }
            Err(error) => wait_to_retry(&error).await,
        }
    }
}

/// Gives a connection to a shard when there is a free descriptor. The address is `None` if a proxy will say it.
async fn admit(
    stream: io::Result<std::net::TcpStream>,
    from: Option<IpAddr>,
    way: Way,
    shards: &Shards,
    admission: &Admission,
) {
    // While this waits, the new connection holds one of the reserved descriptors. It is accepted first, so that old
    // connections are closed only for a connection that is really there.
    admission.wait_for_room().await;
    if let Ok(stream) = stream {
        let (handshake, shard) = admission.begin(from);
        let accepted = Accepted { stream, handshake, way };
        drop(shards[usize::from(shard)].send(Incoming::Accepted(accepted)));
    }
}

/// The cause of an error may be a lack of memory, for example. Existing connections continue, and the condition may pass.
async fn wait_to_retry(error: &io::Error) {
    tracing::error!(name: PEER, target: CONNECTION, "cannot accept connections: {error}");
    tokio::time::sleep(RETRY).await;
}

/// Begins to serve a new connection.
pub(super) fn accept(host: &Rc<Host>, accepted: Accepted) -> io::Result<()> {
    let Accepted { stream, handshake, way } = accepted;
    stream.set_nonblocking(true)?;
    let (key, tls, reading) = match way {
        Way::Tcp { tls, is_proxied } => {
            stream.set_nodelay(true)?;
            let (peer, local) = (canonical(stream.peer_addr()?), canonical(stream.local_addr()?));
            let tls =
                tls.map(|tls| tls::Session::new(&tls).map(Box::new)).transpose().map_err(io::Error::other)?;
            let reading = if is_proxied { Reading::Header(peer.ip()) } else { Reading::Input };
            (host.shard.borrow_mut().connect(peer, local), tls, reading)
        }
        Way::Unix { path, number } => {
            let name = format!("unix:{path}#{number} -> unix:{path}").into();
            (host.shard.borrow_mut().connect_named(HERE, name), None, Reading::Input)
        }
        Way::AdminApi { from, name, who } => {
            (host.shard.borrow_mut().connect_vouched(from, name, who), None, Reading::Input)
        }
    };
    if !handshake.serve_at(host.shard.borrow().id(), key) {
        host.shard.borrow_mut().disconnect(key);
        return Ok(());
    }
    serve(host, key, stream, Some(handshake), tls, reading)
}
