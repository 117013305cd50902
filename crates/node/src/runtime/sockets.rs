//! The sockets of a shard's connections. One task per connection reads. After each turn every connection with
//! output is written once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use broker::gate::Phase;
use bytes::BufMut;
use catalog::categories::{CONNECTION, PEER};
use catalog::ids::ShardId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::AbortHandle;

use super::address::canonical;
use super::encryption::{note_encrypted, read_encrypted, write_encrypted};
use super::header::{client, read_header};
use super::shares::{Taken, Used};
use super::signal::Signal;
use super::write::{End, Sent, write_plain};
use super::{Host, Incoming, turn};
use crate::admission;
use crate::handshakes::Handshake;
use crate::proxy::Header;
use crate::shard::Shard;

/// A connection with more output than this, in bytes, waits in [`Host::large_outputs`]. So a connection with
/// a short answer does not wait while others are sent megabytes.
const SMALL_OUTPUT_BYTES: usize = 64 * 1024;

/// Once a turn has written this many bytes to connections in [`Host::large_outputs`], it writes no further
/// one.
const WRITES_MAX: usize = 1024 * 1024;

/// The time for which a closed connection is kept open, so that the peer can read the reason and close its
/// side.
const LINGER: Duration = Duration::from_secs(3);

/// The time for which the peer of a closed connection may read nothing of what is left for it. A slow peer makes room in the
/// buffers of the kernel only now and then.
const UNREAD: Duration = Duration::from_secs(10);

/// The time between two checks whether the peer of a connection has closed it, while an alarm keeps the broker from reading, or the
/// connection waits for an answer or a route.
const CLOSED_CHECK: Duration = Duration::from_secs(1);

/// Why a connection ends whose keys are used up.
const USED_UP: &str = "the keys of TLS 1.2 with this cipher suite are used up after 16 million records, and cannot be \
                       changed; connect again, or use TLS 1.3";

/// The writing side of a connection.
pub(super) struct Socket {
    write: OwnedWriteHalf,
    reader: Cell<Option<AbortHandle>>,
    /// Wakes the reader when output has been written.
    written: Signal,
    /// True while the socket is full and a task waits until it is writable.
    blocked: Cell<bool>,
    /// True while the connection is in [`Host::large_outputs`].
    is_queued: Cell<bool>,
    /// The time at which our side was shut down.
    done: Cell<Option<Instant>>,
    /// True if the connection has ended, and a task watches that its peer reads what is left.
    is_watched: Cell<bool>,
    /// The connection's place among those that have not logged in. `None` once the client has logged in.
    handshake: RefCell<Option<Handshake>>,
    /// True until the proxy has said who its client is.
    awaits_header: Cell<bool>,
    /// True if the connection speaks TLS.
    is_encrypted: bool,
    tls: RefCell<Option<Box<tls::Session>>>,
}

/// What is read from a connection first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// The header of the proxy at this address.
    Header(IpAddr),
    Input,
}

impl Socket {
    /// Returns true if the socket is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// Returns true once, when few more records can be encrypted.
    fn is_used_up(&self) -> bool {
        self.tls.borrow_mut().as_deref_mut().is_some_and(tls::Session::poll_used_up)
    }
}

/// Closes a connection that has not logged in, to make room for another.
pub(super) fn evict(host: &Rc<Host>, key: usize, handshake: u64) {
    let socket = host.sockets.borrow().get(&key).cloned();
    let Some(socket) = socket else { return };
    let is_it = socket.handshake.borrow().as_ref().is_some_and(|open| open.number() == handshake);
    if is_it {
        cut(host, &mut host.shard.borrow_mut(), key, &socket);
    }
}

/// Closes a connection without sending a reason. Its tasks are ended, because they may wait for a long time
/// and the descriptor must be free now.
fn cut(host: &Rc<Host>, shard: &mut Shard, key: usize, socket: &Socket) {
    if let Some(reader) = socket.reader.take() {
        reader.abort();
    }
    // Wakes the task that waits until the socket is writable.
    drop(socket2::SockRef::from(socket.write.as_ref()).shutdown(std::net::Shutdown::Both));
    host.sockets.borrow_mut().remove(&key);
    shard.disconnect(key);
    host.wake.set();
}

/// Starts to serve the socket of a connection.
pub(super) fn serve(
    host: &Rc<Host>,
    key: usize,
    stream: std::net::TcpStream,
    handshake: Option<Handshake>,
    tls: Option<Box<tls::Session>>,
    reading: Reading,
) -> io::Result<()> {
    let (read, write) = TcpStream::from_std(stream)?.into_split();
    let socket = Rc::new(Socket {
        write,
        reader: Cell::new(None),
        written: Signal::default(),
        blocked: Cell::new(false),
        is_queued: Cell::new(false),
        done: Cell::new(None),
        is_watched: Cell::new(false),
        handshake: RefCell::new(handshake),
        awaits_header: Cell::new(matches!(reading, Reading::Header(_))),
        is_encrypted: tls.is_some(),
        tls: RefCell::new(tls),
    });
    let reader = tokio::task::spawn_local(read_all(host.clone(), key, read, socket.clone(), reading));
    socket.reader.set(Some(reader.abort_handle()));
    host.sockets.borrow_mut().insert(key, socket);
    Ok(())
}

/// Reads the header of the proxy at this address. Returns false if there is none.
async fn take_header(
    host: &Rc<Host>,
    key: usize,
    read: &mut OwnedReadHalf,
    socket: &Socket,
    proxy: IpAddr,
) -> bool {
    match read_header(read).await {
        Ok(header) => introduce(host, key, socket, header, proxy),
        Err(missing) => warn_of_header(&mut host.shard.borrow_mut(), key, &missing),
    }
    !socket.awaits_header.get()
}

/// Called with the header of a proxy. From now on, the client counts in all limits, and its address is in all names.
fn introduce(host: &Rc<Host>, key: usize, socket: &Socket, header: Header, proxy: IpAddr) {
    socket.awaits_header.set(false);
    let from = match header {
        Header::Own => proxy,
        Header::Proxied { peer, local } => {
            let peer = client(peer, proxy);
            host.shard.borrow_mut().set_peer(key, peer, canonical(local));
            peer.ip()
        }
    };
    let evicted = socket.handshake.borrow().as_ref().and_then(|handshake| handshake.set_from(from));
    if let Some(evicted) = evicted {
        admission::evict(&host.shards, evicted);
    }
}

/// Logs why a connection whose proxy has sent no header is closed.
fn warn_of_header(shard: &mut Shard, key: usize, why: &dyn std::fmt::Display) {
    let name = shard.conn(key).map(|conn| conn.gate.peer().name.clone()).unwrap_or_default();
    tracing::warn!(name: PEER, target: CONNECTION, connection = %name, "no valid header of the PROXY protocol: {why}");
}

/// Called when a connection has ended.
fn close(host: &Rc<Host>, key: usize) {
    host.sockets.borrow_mut().remove(&key);
    host.shard.borrow_mut().disconnect(key);
    host.wake.set();
}

/// The reading task of a connection. It reads until the peer closes its side. It pauses while too much output
/// is unread by the peer, while the login is checked, and while an alarm stops a publisher. It ends when the connection moves to another shard.
async fn read_all(
    host: Rc<Host>,
    key: usize,
    mut read: OwnedReadHalf,
    mut socket: Rc<Socket>,
    reading: Reading,
) {
    if let Reading::Header(proxy) = reading
        && !take_header(&host, key, &mut read, &socket, proxy).await
    {
        return close(&host, key);
    }
    let mut used = Used::default();
    loop {
        while !host.shard.borrow().takes_input(key) {
            let phase = host.shard.borrow().phase(key);
            if let Some(phase @ (Phase::Stopped | Phase::Asking)) = phase {
                tokio::select! {
                    biased;
                    () = socket.written.wait() => {}
                    () = tokio::time::sleep(CLOSED_CHECK) => if is_closed(&read, phase) {
                        return close(&host, key);
                    },
                }
            } else {
                socket.written.wait().await;
            }
        }
        // The client may have logged in since the last read.
        if socket.handshake.borrow().is_some() && host.shard.borrow().is_open(key) {
            drop(socket.handshake.take());
        }
        let missing = host.shard.borrow_mut().missing(key);
        let result = match missing {
            _ if socket.is_encrypted => read_encrypted(&host, key, &read, &socket.write, &socket.tls).await,
            Some(missing) => read_large(&host, key, &mut read, missing).await,
            None => poll_fn(|cx| poll_input(&host, key, &mut read, cx)).await,
        };
        match result {
            Ok(Taken { bytes: 0, .. }) | Err(_) => break,
            Ok(taken) => {
                let mut yields = used.add(taken, &host.shares);
                if host.shard.borrow().is_dirty() {
                    if host.shares.add(taken.bytes) {
                        turn(&host, Instant::now(), &mut Vec::new());
                        yields = true;
                    } else {
                        host.wake.set();
                    }
                }
                if yields {
                    used.clear();
                    // The runtime notices that sockets are ready again only when all tasks have yielded.
                    let _waits = taken.is_full.then(|| host.shares.wait());
                    tokio::task::yield_now().await;
                }
            }
        }
        let leaving = host.shard.borrow().leaving(key);
        if let Some(to) = leaving {
            (read, socket) = match move_away(&host, key, to, read, socket) {
                Some(stays) => stays,
                None => return,
            };
        }
    }
    close(&host, key);
}

/// Returns true if the peer of a connection that is not read has closed it.
fn is_closed(read: &OwnedReadHalf, phase: Phase) -> bool {
    let flags = match phase {
        // What the peer has sent before it closed its side is handled when the answer is there.
        Phase::Asking => PollFlags::empty(),
        _ => PollFlags::RDHUP,
    };
    let mut sockets = [PollFd::new(read.as_ref(), flags)];
    // An error and the end of both sides are always reported.
    let is_reported = poll(&mut sockets, Some(&Timespec::default())).is_ok_and(|n| n > 0);
    is_reported && sockets[0].revents().intersects(flags | PollFlags::ERR | PollFlags::HUP)
}

/// Reads into the shard's read buffer. A new buffer is used if frames still refer to the last one.
fn poll_input(
    host: &Rc<Host>,
    key: usize,
    read: &mut OwnedReadHalf,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Taken>> {
    let mut buffers = host.read_buffers.borrow_mut();
    let buffer = buffers.ready();
    let max = host.shard.borrow().read_max(key).min(host.shares.read_max());
    let result = pin!(read.read_buf(&mut (&mut *buffer).limit(max))).poll(cx);
    if let Poll::Ready(Ok(_)) = result {
        host.shard.borrow_mut().handle_input(key, buffer);
    }
    result.map_ok(|bytes| Taken::new(bytes, max))
}

/// Moves a connection to another shard. If its socket is full, it stays here and is returned.
fn move_away(
    host: &Rc<Host>,
    key: usize,
    to: ShardId,
    read: OwnedReadHalf,
    socket: Rc<Socket>,
) -> Option<(OwnedReadHalf, Rc<Socket>)> {
    host.sockets.borrow_mut().remove(&key);
    let mut shard = host.shard.borrow_mut();
    let socket = match Rc::try_unwrap(socket) {
        Ok(socket) => socket,
        // The task that waits until the socket is writable also holds the socket, so it cannot be moved now.
        Err(socket) => {
            host.sockets.borrow_mut().insert(key, socket.clone());
            shard.stay(key);
            return Some((read, socket));
        }
    };
    let tls = socket.tls.take();
    let stream = read.reunite(socket.write).map_err(io::Error::other).and_then(TcpStream::into_std);
    match (stream, shard.release(key)) {
        (Ok(stream), Some(moved)) => {
            // Sending fails if the other shard has ended. Then the connection is closed.
            drop(host.shards[usize::from(to)].send(Incoming::Migrated(Box::new(moved), stream, tls)));
        }
        (Err(error), _) => tracing::error!("a connection cannot be moved to another shard: {error}"),
        (Ok(_), None) => {}
    }
    None
}

/// Reads the rest of a large frame directly into that frame's buffer.
async fn read_large(
    host: &Rc<Host>,
    key: usize,
    read: &mut OwnedReadHalf,
    missing: usize,
) -> io::Result<Taken> {
    let mut partial = host.shard.borrow_mut().take_partial(key);
    let result = read.read_buf(&mut (&mut partial).limit(missing)).await;
    host.shard.borrow_mut().give_partial(key, partial, *result.as_ref().unwrap_or(&0));
    result.map(|bytes| Taken::new(bytes, missing))
}

/// Writes each dirty connection once. Connections with much output are queued in [`Host::large_outputs`]
/// instead. Connections that can now send what waits in their sessions are added to `pending`.
pub(super) fn write_dirty(
    host: &Rc<Host>,
    shard: &mut Shard,
    dirty: &mut Vec<usize>,
    pending: &mut Vec<usize>,
) {
    shard.take_dirty(dirty);
    for key in dirty.drain(..) {
        let socket = host.sockets.borrow().get(&key).cloned();
        let Some(socket) = socket else { continue };
        let is_large = shard.conn(key).is_some_and(|conn| conn.gate.output().len() > SMALL_OUTPUT_BYTES);
        if is_large || socket.is_queued.get() {
            if !socket.is_queued.replace(true) {
                host.large_outputs.borrow_mut().push_back(key);
            }
        } else if write(host, shard, key, &socket).has_room {
            pending.push(key);
        }
    }
}

/// Writes the connections in [`Host::large_outputs`], up to [`WRITES_MAX`]. Returns true if some are left.
pub(super) fn write_large(host: &Rc<Host>, shard: &mut Shard, pending: &mut Vec<usize>) -> bool {
    let mut room = WRITES_MAX;
    while room > 0 {
        let Some(key) = host.large_outputs.borrow_mut().pop_front() else { return false };
        let socket = host.sockets.borrow().get(&key).cloned();
        // The connection may have closed in the meantime, and another connection may have its key.
        let Some(socket) = socket.filter(|socket| socket.is_queued.take()) else { continue };
        let Written { bytes, has_room } = write(host, shard, key, &socket);
        pending.extend(has_room.then_some(key));
        room = room.saturating_sub(bytes);
    }
    !host.large_outputs.borrow().is_empty()
}

/// The result of writing a connection.
#[derive(Default)]
struct Written {
    bytes: usize,
    /// True if the connection can send more of what waits in its sessions.
    has_room: bool,
}

/// Writes a connection's output until the socket is full.
fn write(host: &Rc<Host>, shard: &mut Shard, key: usize, socket: &Rc<Socket>) -> Written {
    let Some(conn) = shard.conn(key) else { return Written::default() };
    if conn.is_cut {
        cut(host, shard, key, socket);
        return Written::default();
    }
    let done = conn.gate.phase() == Phase::Done;
    if done && socket.awaits_header.get() {
        // Nobody but the proxy is there, and it does not speak AMQP.
        warn_of_header(
            shard,
            key,
            &"it did not arrive within handshake_timeout, or before the broker stopped",
        );
        cut(host, shard, key, socket);
        return Written::default();
    }
    let output = conn.gate.output();
    let sent = match (socket.blocked.get(), socket.is_encrypted) {
        (true, _) => Ok(Sent { bytes: 0, end: End::Full }),
        (false, true) => write_encrypted(host, &socket.write, &socket.tls, output, done),
        (false, false) => Ok(write_plain(&socket.write, output)),
    };
    let Sent { bytes: written, end } = sent.unwrap_or_else(|error| {
        tracing::warn!(name: PEER, target: CONNECTION, connection = %conn.gate.peer().name, "TLS: {error}");
        Sent { bytes: 0, end: End::Failed }
    });
    let output = conn.gate.output();
    if end == End::Full && !socket.blocked.replace(true) {
        tokio::task::spawn_local(unblock(host.clone(), key, socket.clone()));
    }
    let left = output.len();
    if left == 0 {
        output.shrink();
    }
    if socket.is_encrypted {
        note_encrypted(shard, key, &socket.tls);
    }
    shard.note_written(key, written);
    let Some(conn) = shard.conn(key) else { return Written::default() };
    // The reader pauses while much output is unread, and while the gate waits for the answer to a question. The answer may
    // cause no output.
    if written > 0 || conn.gate.takes_input() {
        socket.written.set();
    }
    let has_room = written > 0 && !done && conn.gate.has_pending() && !socket.blocked.get();
    // Before the handshake is complete, the peer cannot be told why it ends.
    let empty = matches!(end, End::Written | End::Early);
    if end == End::Failed {
        cut(host, shard, key, socket);
    } else if !done && socket.is_used_up() {
        shard.close(key, USED_UP);
        host.wake.set();
    } else if done && empty && socket.done.get().is_none() {
        socket.done.set(Some(Instant::now()));
        drop(socket2::SockRef::from(socket.write.as_ref()).shutdown(std::net::Shutdown::Write));
        tokio::task::spawn_local(linger(host.clone(), key, Rc::downgrade(socket)));
    } else if done && !empty && !socket.is_watched.replace(true) {
        tokio::task::spawn_local(watch(host.clone(), key, Rc::downgrade(socket)));
    }
    Written { bytes: written, has_room }
}

/// Waits until a full socket is writable.
async fn unblock(host: Rc<Host>, key: usize, socket: Rc<Socket>) {
    // The next write reports an error, if there is one.
    drop(socket.write.writable().await);
    socket.blocked.set(false);
    host.shard.borrow_mut().touch(key);
    host.wake.set();
}

/// Gives the peer of a closed connection time to read the reason and to close its side. The socket is held
/// weakly, so it is freed as soon as the peer has closed.
async fn linger(host: Rc<Host>, key: usize, socket: Weak<Socket>) {
    tokio::time::sleep(LINGER).await;
    if let Some(socket) = socket.upgrade().filter(|socket| is_current(&host, key, socket)) {
        cut(&host, &mut host.shard.borrow_mut(), key, &socket);
    }
}

/// Closes the socket of a connection that has ended, once its peer has read nothing for a while. Otherwise a peer that never
/// reads would keep the output for ever.
async fn watch(host: Rc<Host>, key: usize, socket: Weak<Socket>) {
    let mut sent = None;
    while let Some(now) = sent_to_ended(&host, key, &socket, sent) {
        sent = Some(now);
        tokio::time::sleep(UNREAD).await;
    }
}

/// Returns the number of bytes that were sent to the peer of a connection that has ended. If they are `before`, the peer has
/// read nothing, and the socket is closed. Returns `None` if there is nothing to wait for.
fn sent_to_ended(host: &Rc<Host>, key: usize, socket: &Weak<Socket>, before: Option<u64>) -> Option<u64> {
    let socket = socket.upgrade().filter(|socket| is_current(host, key, socket))?;
    if socket.done.get().is_some() {
        return None;
    }
    let mut shard = host.shard.borrow_mut();
    let now = shard.conn(key)?.send_bytes;
    if before == Some(now) {
        cut(host, &mut shard, key, &socket);
        return None;
    }
    Some(now)
}

/// Returns true if this is the socket of the connection with this key. It may have closed, and another may have its key.
fn is_current(host: &Host, key: usize, socket: &Rc<Socket>) -> bool {
    host.sockets.borrow().get(&key).is_some_and(|of_key| Rc::ptr_eq(of_key, socket))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::Shutdown;

    use super::*;

    /// Runs this with the two ends of a connection.
    fn with_pair(run: impl AsyncFnOnce(std::net::TcpStream, &OwnedReadHalf)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (read, _write) = listener.accept().await.unwrap().0.into_split();
            run(peer, &read).await;
        });
    }

    /// A client may send all that it has, close its side, and wait for the answers.
    #[test]
    fn what_a_peer_has_sent_before_it_closed_its_side_is_not_dropped_for_an_answer() {
        with_pair(async |mut peer, read| {
            assert!(!is_closed(read, Phase::Stopped) && !is_closed(read, Phase::Asking));
            peer.write_all(b"published").unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            while !is_closed(read, Phase::Stopped) {
                tokio::task::yield_now().await;
            }
            assert!(!is_closed(read, Phase::Asking));
        });
    }

    #[test]
    fn a_connection_that_the_peer_has_reset_is_closed_in_any_phase() {
        with_pair(async |peer, read| {
            // Without a linger time, a close is a reset.
            socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
            drop(peer);
            while !is_closed(read, Phase::Asking) {
                tokio::task::yield_now().await;
            }
            assert!(is_closed(read, Phase::Stopped));
        });
    }
}
