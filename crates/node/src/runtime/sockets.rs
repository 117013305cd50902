//! The sockets of a shard's connections: a task reads each, and behind every turn all that have something to say are
//! written to once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use broker::PEER;
use broker::gate::Phase;
use broker::ids::ShardId;
use bytes::BufMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::{Host, Incoming, Shards, turn};
use crate::admission::Admission;
use crate::handshakes::Handshake;
use crate::shard::{READ_MAX, Shard};

/// Reads that one turn takes on, at most: what was read of thousands of connections is not to stand in memory at once.
const READS_MAX: usize = 64;

/// As many bytes count as a read, so a turn takes on 1 MiB. A consumer is sent a part of that before its socket is looked at
/// again; with turns of 16 MiB a fast publisher of large messages ran away from it.
const READ_BYTES: usize = 16 * 1024;

/// A connection that is to be sent more than this has to stand in line: one with a word for its peer does not wait until others have
/// been sent megabytes.
const LITTLE: usize = 64 * 1024;

/// Bytes that one turn writes to those in line, until it has written them to one whole.
const WRITES_MAX: usize = 1024 * 1024;

/// Slices of one vectored write.
const SLICES: usize = 64;

/// A closed connection is kept this long for the peer to read the reason and close its side.
const LINGER: Duration = Duration::from_secs(3);

/// The writing side of a connection.
pub(super) struct Socket {
    write: OwnedWriteHalf,
    reader: Cell<Option<AbortHandle>>,
    /// Wakes the reader: output has been written.
    written: Notify,
    /// The socket is full and a task waits until it is not.
    blocked: Cell<bool>,
    /// It stands in [`Host::line`].
    in_line: Cell<bool>,
    /// Our side is shut down since then.
    done: Cell<Option<Instant>>,
    /// Until the client has logged in.
    handshake: RefCell<Option<Handshake>>,
}

impl Socket {
    /// Whether it is full.
    pub fn is_blocked(&self) -> bool {
        self.blocked.get()
    }
}

pub(super) fn accept(host: &Rc<Host>, stream: std::net::TcpStream, handshake: Handshake) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
    let (key, shard) = {
        let mut shard = host.shard.borrow_mut();
        (shard.connect(peer, local), shard.id())
    };
    if !handshake.serve_at(shard, key) {
        host.shard.borrow_mut().disconnect(key);
        return Ok(());
    }
    serve(host, key, stream, Some(handshake))
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

/// Ends a connection without a word. Whoever reads or writes it may wait for a long time: its descriptor is to be free
/// now.
fn cut(host: &Rc<Host>, shard: &mut Shard, key: usize, socket: &Socket) {
    if let Some(reader) = socket.reader.take() {
        reader.abort();
    }
    // Wakes who waits until it takes more.
    drop(socket2::SockRef::from(socket.write.as_ref()).shutdown(std::net::Shutdown::Both));
    host.sockets.borrow_mut().remove(&key);
    shard.disconnect(key);
    host.wake.notify_one();
}

/// Reads and writes the socket of a connection from now on.
pub(super) fn serve(
    host: &Rc<Host>,
    key: usize,
    stream: std::net::TcpStream,
    handshake: Option<Handshake>,
) -> io::Result<()> {
    let (read, write) = TcpStream::from_std(stream)?.into_split();
    let socket = Rc::new(Socket {
        write,
        reader: Cell::new(None),
        written: Notify::new(),
        blocked: Cell::new(false),
        in_line: Cell::new(false),
        done: Cell::new(None),
        handshake: RefCell::new(handshake),
    });
    let reader = tokio::task::spawn_local(read_all(host.clone(), key, read, socket.clone()));
    socket.reader.set(Some(reader.abort_handle()));
    host.sockets.borrow_mut().insert(key, socket);
    Ok(())
}

/// The task of a connection: reads until the peer has closed its side, and pauses while the peer leaves too much
/// unread, or while its login is checked. Ends when the connection moves to another shard.
async fn read_all(host: Rc<Host>, key: usize, mut read: OwnedReadHalf, mut socket: Rc<Socket>) {
    loop {
        while !host.shard.borrow().takes_input(key) {
            socket.written.notified().await;
        }
        // A client that said everything at once may have logged in meanwhile.
        if socket.handshake.borrow().is_some() && host.shard.borrow().is_open(key) {
            drop(socket.handshake.take());
        }
        let missing = host.shard.borrow_mut().missing(key);
        let result = match missing {
            Some(missing) => read_large(&host, key, &mut read, missing).await,
            None => poll_fn(|cx| poll_input(&host, key, &mut read, cx)).await,
        };
        match result {
            Ok(0) | Err(_) => break,
            Ok(n) if host.shard.borrow().is_dirty() => {
                host.reads.set(host.reads.get() + 1 + n / READ_BYTES);
                match host.reads.get() < READS_MAX {
                    true => host.wake.notify_one(),
                    false => {
                        turn(&host, &mut Vec::new());
                        // Sockets that take more again are only seen when nobody runs.
                        tokio::task::yield_now().await;
                    }
                }
            }
            Ok(_) => {}
        }
        let leaving = host.shard.borrow().leaving(key);
        if let Some(to) = leaving {
            (read, socket) = match move_away(&host, key, to, read, socket) {
                Some(stays) => stays,
                None => return,
            };
        }
    }
    host.sockets.borrow_mut().remove(&key);
    host.shard.borrow_mut().disconnect(key);
    host.wake.notify_one();
}

/// Reads into the shard's buffer: another one, if frames have stayed in the last.
fn poll_input(
    host: &Rc<Host>,
    key: usize,
    read: &mut OwnedReadHalf,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut buffers = host.read_buffers.borrow_mut();
    let buffer = buffers.ready();
    let result = pin!(read.read_buf(&mut (&mut *buffer).limit(READ_MAX))).poll(cx);
    if let Poll::Ready(Ok(_)) = result {
        host.shard.borrow_mut().handle_input(key, buffer);
    }
    result
}

/// Takes a connection to another shard; one whose socket is full stays and comes back.
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
        // The task that waits for it has it.
        Err(socket) => {
            host.sockets.borrow_mut().insert(key, socket.clone());
            shard.stay(key);
            return Some((read, socket));
        }
    };
    let stream = read.reunite(socket.write).map_err(io::Error::other).and_then(TcpStream::into_std);
    match (stream, shard.release(key)) {
        (Ok(stream), Some(moved)) => {
            // A shard that has ended serves nobody any more.
            drop(host.shards[usize::from(to)].send(Incoming::Moved(Box::new(moved), stream)));
        }
        (Err(error), _) => tracing::error!("a connection cannot be taken to another shard: {error}"),
        (Ok(_), None) => {}
    }
    None
}

/// Reads on at a large frame, straight into its buffer.
async fn read_large(
    host: &Rc<Host>,
    key: usize,
    read: &mut OwnedReadHalf,
    missing: usize,
) -> io::Result<usize> {
    let mut partial = host.shard.borrow_mut().take_partial(key);
    let result = read.read_buf(&mut (&mut partial).limit(missing)).await;
    host.shard.borrow_mut().give_partial(key, partial, *result.as_ref().unwrap_or(&0));
    result
}

/// Writes each connection that has something to write once; those that have much stand in line. Those with room again for what
/// waits in their sessions are added to `pending`.
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
        let much = shard.conn(key).is_some_and(|conn| conn.gate.output().len() > LITTLE);
        if much || socket.in_line.get() {
            if !socket.in_line.replace(true) {
                host.line.borrow_mut().push_back(key);
            }
        } else if write(host, shard, key, &socket).has_room {
            pending.push(key);
        }
    }
}

/// Writes connections that stand in line, as many as one turn may. True if some are left.
pub(super) fn write_line(host: &Rc<Host>, shard: &mut Shard, pending: &mut Vec<usize>) -> bool {
    let mut room = WRITES_MAX;
    while room > 0 {
        let Some(key) = host.line.borrow_mut().pop_front() else { return false };
        let socket = host.sockets.borrow().get(&key).cloned();
        // One that is gone may have left its place to another with the same key.
        let Some(socket) = socket.filter(|socket| socket.in_line.take()) else { continue };
        let Written { bytes, has_room } = write(host, shard, key, &socket);
        pending.extend(has_room.then_some(key));
        room = room.saturating_sub(bytes);
    }
    !host.line.borrow().is_empty()
}

/// What came of writing a connection.
#[derive(Default)]
struct Written {
    bytes: usize,
    /// There is room again for what waits in its sessions.
    has_room: bool,
}

/// Writes a connection's output, as far as the socket takes it.
fn write(host: &Rc<Host>, shard: &mut Shard, key: usize, socket: &Rc<Socket>) -> Written {
    let now_ms = shard.now_ms();
    let Some(conn) = shard.conn(key) else { return Written::default() };
    let output = conn.gate.output();
    let mut written = 0;
    let mut failed = false;
    while !output.is_empty() && !socket.blocked.get() {
        let mut slices = [io::IoSlice::new(&[]); SLICES];
        let n = output.slices(&mut slices);
        match socket.write.try_write_vectored(&slices[..n]) {
            Ok(n) => {
                output.advance(n);
                written += n;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.blocked.set(true);
                tokio::task::spawn_local(unblock(host.clone(), key, socket.clone()));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                failed = true;
                break;
            }
        }
    }
    let (empty, left) = (output.is_empty(), output.len());
    if empty {
        output.shrink();
    }
    conn.send_bytes += written as u64;
    conn.unwritten_bytes = left;
    if written > 0 {
        conn.gate.handle_written(now_ms);
        socket.written.notify_one();
    }
    let done = conn.gate.phase() == Phase::Done;
    let has_room = written > 0 && !done && conn.gate.has_pending() && !socket.blocked.get();
    if failed {
        cut(host, shard, key, socket);
    } else if done && empty && socket.done.get().is_none() {
        socket.done.set(Some(Instant::now()));
        drop(socket2::SockRef::from(socket.write.as_ref()).shutdown(std::net::Shutdown::Write));
        tokio::task::spawn_local(linger(host.clone(), key, Rc::downgrade(socket)));
    }
    Written { bytes: written, has_room }
}

/// Waits until a full socket takes more.
async fn unblock(host: Rc<Host>, key: usize, socket: Rc<Socket>) {
    // An error shows at the next write.
    drop(socket.write.writable().await);
    socket.blocked.set(false);
    host.shard.borrow_mut().touch(key);
    host.wake.notify_one();
}

/// Gives the peer of a closed connection time to read the reason and to close its side. When it has, nothing keeps the
/// socket open.
async fn linger(host: Rc<Host>, key: usize, socket: Weak<Socket>) {
    tokio::time::sleep(LINGER).await;
    let Some(socket) = socket.upgrade() else { return };
    let same = host.sockets.borrow().get(&key).is_some_and(|s| Rc::ptr_eq(s, &socket));
    if same {
        cut(&host, &mut host.shard.borrow_mut(), key, &socket);
    }
}

/// Accepts connections, as far as there is room, and gives each to the shard with the fewest.
pub(crate) async fn accept_all(listener: tokio::net::TcpListener, shards: Shards, admission: Arc<Admission>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // One descriptor of the reserve is the newcomer's meanwhile: until there is one, nobody is closed for it.
                admission.wait_for_room().await;
                if let Ok(stream) = stream.into_std() {
                    let (handshake, shard) = admission.begin(peer.ip());
                    drop(shards[usize::from(shard)].send(Incoming::Accepted(stream, handshake)));
                }
            }
            Err(error) => {
                // Out of memory or the like: others go on, and it may pass.
                tracing::error!(target: PEER, "cannot accept connections: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
