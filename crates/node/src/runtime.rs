//! Threads, sockets and time for the shards: one tokio `current_thread` runtime each (house.md section 5).
//!
//! ```text
//!   connection tasks: await bytes, hand them to the shard, wake the turn
//!   turn task:        mail, calls, completions -> turn -> records, mail, one vectored write per connection
//! ```
//!
//! No borrow of a shard lives across an await.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use broker::gate::amqp10::Phase;
use broker::ids::ShardId;
use broker::mail::Mail;
use bytes::BufMut;
use hashbrown::HashMap;
use log::{
    BlockRead, ChunksRead, Completion, Handover, PackReaderHandle, Packed, PacksHandle, RealDisk,
    StreamAnswer, StreamJob, StreamReaderHandle, StreamsHandle, WriterHandle,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, LocalSet};

use crate::read_buffers::ReadBuffers;
use crate::shard::{DeskCall, Moved, Occupancy, READ_BUFFER, READ_MAX, Shard, Writes};

/// Reads that one turn takes on, at most: what was read of thousands of connections is not to stand in memory at once.
const READS_MAX: usize = 64;

/// As many bytes count as a read, so a turn takes on 1 MiB. A consumer is sent a part of that before its socket is looked at
/// again; with turns of 16 MiB a fast publisher of large messages ran away from it.
const READ_BYTES: usize = 16 * 1024;

/// Slices of one vectored write.
const SLICES: usize = 64;

/// Deliveries wait for no record. In front of so few bytes to write they are sent first, and a consumer has its message
/// 30 to 60 us sooner at 5,000 a second. In front of more they are sent behind: consumers that answer at once make the
/// next batch smaller, and a publisher's credit leaves together with its receipts.
const DELIVER_FIRST_BYTES: u64 = 1024;

/// A closed connection is kept this long for the peer to read the reason and close its side.
const LINGER: Duration = Duration::from_secs(3);

/// How long after a failure the log is tried again.
const LOG_RETRY: Duration = Duration::from_millis(200);

/// At a stop: how long receipts in flight are waited for, and then for output to be written.
const STOP_RECEIPTS: Duration = Duration::from_secs(2);
const STOP_OUTPUT: Duration = Duration::from_secs(1);

/// A stopping shard that has heard nothing for this long has heard everything.
const STOP_QUIET: Duration = Duration::from_millis(20);

/// What comes to a shard from other threads.
pub(crate) enum Incoming {
    Mail(Vec<Mail>),
    Logged(Completion),
    Packed(Packed),
    Block(BlockRead),
    Stream(StreamAnswer),
    Chunks(ChunksRead),
    /// A pack to be emptied.
    Sparse(u64),
    Accepted(std::net::TcpStream),
    /// A connection of another shard that is served here from now on.
    Moved(Box<Moved>, std::net::TcpStream),
    Call(DeskCall),
    /// Say why to every client, and end.
    Stop(String),
}

/// The way to each shard.
pub(crate) type Shards = Vec<mpsc::UnboundedSender<Incoming>>;

/// The threads that write and read for all shards.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub log: WriterHandle<RealDisk>,
    pub packs: PacksHandle,
    pub reader: PackReaderHandle,
    pub streams: StreamsHandle<RealDisk>,
    pub stream_reader: StreamReaderHandle,
}

impl Writes for &Storage {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        self.log.try_write(handover).map_err(|handover| self.log.send(handover)).ok()
    }

    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer> {
        self.streams.try_append(job).map_err(|job| self.streams.send(job)).ok()
    }
}

/// Milliseconds since the epoch that never go back while the process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_ms: u64,
}

impl Clock {
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ms: since.as_millis() as u64 }
    }

    pub fn now_ms(&self) -> u64 {
        self.started_ms + self.uptime_ms()
    }

    pub fn uptime_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn instant(&self, at_ms: u64) -> Instant {
        self.started + Duration::from_millis(at_ms.saturating_sub(self.started_ms))
    }
}

/// One shard and what its tasks share.
struct Host {
    shard: RefCell<Shard>,
    /// Where mail goes, and connections that leave.
    shards: Shards,
    clock: Clock,
    sockets: RefCell<HashMap<usize, Rc<Socket>>>,
    storage: Storage,
    read_buffers: RefCell<ReadBuffers>,
    /// How many reads the next turn is to take on.
    reads: Cell<usize>,
    /// Wakes the turn task.
    wake: Notify,
}

/// The writing side of a connection.
struct Socket {
    write: OwnedWriteHalf,
    reader: Cell<Option<AbortHandle>>,
    /// Wakes the reader: output has been written.
    written: Notify,
    /// The socket is full and a task waits until it is not.
    blocked: Cell<bool>,
    /// Our side is shut down since then.
    done: Cell<Option<Instant>>,
}

/// Runs a shard on this thread until it is told to stop.
pub(crate) fn run(
    shard: Shard,
    clock: Clock,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    shards: Shards,
    storage: Storage,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let host = Rc::new(Host {
        shard: RefCell::new(shard),
        shards,
        clock,
        sockets: RefCell::new(HashMap::new()),
        storage,
        read_buffers: RefCell::new(ReadBuffers::new(READ_BUFFER)),
        reads: Cell::new(0),
        wake: Notify::new(),
    });
    let tasks = LocalSet::new();
    // A task among the others: it comes behind all that had something to read. What wakes the future that is blocked on
    // makes the runtime look for events once more.
    let turns = tasks.spawn_local(turns(host, incoming));
    tasks.block_on(&runtime, turns).map_err(io::Error::other)
}

async fn turns(host: Rc<Host>, mut incoming: mpsc::UnboundedReceiver<Incoming>) {
    let mut dirty = Vec::new();
    let mut stopping: Option<(String, Instant)> = None;
    let mut retry_log: Option<Instant> = None;
    // Set anew only when it is to be sooner: one turn too many is cheaper than a timer for each.
    let mut alarm = pin!(tokio::time::sleep_until(Instant::now().into()));
    loop {
        let timeout = host.clock.instant(host.shard.borrow().next_timeout());
        let timeout = [retry_log, stopping.as_ref().map(|(_, at)| *at)]
            .into_iter()
            .flatten()
            .fold(timeout, Instant::min)
            .into();
        if timeout < alarm.deadline() || alarm.is_elapsed() {
            alarm.as_mut().reset(timeout);
        }
        let first = tokio::select! {
            biased;
            message = incoming.recv() => match message {
                Some(message) => Some(message),
                None => return,
            },
            () = host.wake.notified() => None,
            () = &mut alarm => None,
        };
        let now_ms = host.clock.now_ms();
        host.shard.borrow_mut().set_now(now_ms);
        host.read_buffers.borrow_mut().trim(now_ms);
        let mut next = first;
        while let Some(message) = next {
            if let Incoming::Stop(why) = message {
                host.shard.borrow_mut().set_blocked(true);
                stopping = Some((why, Instant::now() + STOP_RECEIPTS));
            } else {
                receive(&host, message);
            }
            next = incoming.try_recv().ok();
        }
        if retry_log.is_some_and(|at| at <= Instant::now()) {
            retry_log = None;
            host.shard.borrow_mut().retry_log();
        }
        turn(&host, &mut dirty);
        if host.shard.borrow().log_refuses() && retry_log.is_none() {
            retry_log = Some(Instant::now() + LOG_RETRY);
        }
        if let Some((why, deadline)) = &stopping
            && (!host.shard.borrow().has_held_receipts() || *deadline <= Instant::now())
        {
            host.shard.borrow_mut().shut_down(why);
            turn(&host, &mut dirty);
            finish(&host, &mut incoming, &mut dirty).await;
            return;
        }
    }
}

/// At a stop: waits a little for the last frames to leave, the last mail to come and the last records to be
/// written.
async fn finish(host: &Rc<Host>, incoming: &mut mpsc::UnboundedReceiver<Incoming>, dirty: &mut Vec<usize>) {
    let deadline = Instant::now() + STOP_OUTPUT;
    while Instant::now() < deadline {
        tokio::select! {
            biased;
            message = incoming.recv() => match message {
                Some(message) => receive(host, message),
                None => return,
            },
            () = host.wake.notified() => {}
            () = tokio::time::sleep(STOP_QUIET) => {
                let blocked = host.sockets.borrow().values().any(|s| s.blocked.get());
                if !blocked && !host.shard.borrow().has_unlogged() {
                    return;
                }
            }
        }
        turn(host, dirty);
    }
}

fn receive(host: &Rc<Host>, message: Incoming) {
    let mut shard = host.shard.borrow_mut();
    match message {
        Incoming::Mail(mail) => shard.handle_mail(mail),
        Incoming::Logged(completion) => shard.handle_logged(completion),
        Incoming::Packed(packed) => shard.handle_packed(packed),
        Incoming::Block(block) => shard.handle_block(block),
        Incoming::Stream(answer) => shard.handle_stream_answer(answer),
        Incoming::Chunks(read) => shard.handle_chunks(read),
        Incoming::Sparse(pack) => shard.handle_sparse(pack),
        Incoming::Call(call) => call(&mut shard),
        Incoming::Accepted(stream) => {
            drop(shard);
            if let Err(error) = accept(host, stream) {
                host.shard.borrow().uncount();
                tracing::info!("a connection was gone before it was served: {error}");
            }
        }
        Incoming::Moved(moved, stream) => {
            let key = shard.adopt(*moved);
            drop(shard);
            if let Err(error) = serve(host, key, stream) {
                host.shard.borrow_mut().disconnect(key);
                tracing::error!("a connection was lost on its way between shards: {error}");
            }
        }
        Incoming::Stop(_) => {}
    }
}

fn accept(host: &Rc<Host>, stream: std::net::TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
    let key = host.shard.borrow_mut().connect(peer, local);
    serve(host, key, stream)
}

/// Reads and writes the socket of a connection from now on.
fn serve(host: &Rc<Host>, key: usize, stream: std::net::TcpStream) -> io::Result<()> {
    let (read, write) = TcpStream::from_std(stream)?.into_split();
    let socket = Rc::new(Socket {
        write,
        reader: Cell::new(None),
        written: Notify::new(),
        blocked: Cell::new(false),
        done: Cell::new(None),
    });
    let reader = tokio::task::spawn_local(read_all(host.clone(), key, read, socket.clone()));
    socket.reader.set(Some(reader.abort_handle()));
    host.sockets.borrow_mut().insert(key, socket);
    Ok(())
}

/// The task of a connection: reads until the peer has closed its side, and pauses while the peer leaves too much
/// unread. Ends when the connection moves to another shard.
async fn read_all(host: Rc<Host>, key: usize, mut read: OwnedReadHalf, mut socket: Rc<Socket>) {
    loop {
        while !host.shard.borrow().takes_input(key) {
            socket.written.notified().await;
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

/// One turn, and everything that it has made is taken to where it goes.
fn turn(host: &Rc<Host>, dirty: &mut Vec<usize>) {
    let (mut guard, storage) = (host.shard.borrow_mut(), &host.storage);
    let shard = &mut *guard;
    host.reads.set(0);
    shard.handle_timeout();
    let mut pending = Vec::new();
    let is_left = shard.turn();
    if shard.bytes_to_write() <= DELIVER_FIRST_BYTES {
        write_dirty(host, shard, dirty, &mut pending);
    }
    if is_left | shard.write(&mut &host.storage) {
        host.wake.notify_one();
    }
    if let Some(file) = shard.poll_forget() {
        storage.log.forget(file);
    }
    if let Some(job) = shard.poll_pack_job() {
        storage.packs.send(job);
    }
    shard.poll_reads().for_each(|job| storage.reader.send(job));
    shard.poll_chunk_jobs().for_each(|job| storage.stream_reader.send(job));
    shard.poll_released().for_each(|extent| storage.packs.release(extent));
    for (to, sender) in host.shards.iter().enumerate() {
        let mail = shard.poll_mail(to as ShardId);
        if !mail.is_empty() {
            // A shard that has ended needs no mail any more.
            drop(sender.send(Incoming::Mail(mail)));
        }
    }
    write_dirty(host, shard, dirty, &mut pending);
    for key in pending {
        // The next turn makes output of what waits: nothing may take the mark away before.
        shard.touch(key);
        host.wake.notify_one();
    }
}

/// Writes each connection that has something to write once. Those with room again for what waits in their sessions are
/// added to `pending`.
fn write_dirty(host: &Rc<Host>, shard: &mut Shard, dirty: &mut Vec<usize>, pending: &mut Vec<usize>) {
    shard.take_dirty(dirty);
    for key in dirty.drain(..) {
        let socket = host.sockets.borrow().get(&key).cloned();
        if let Some(socket) = socket
            && write(host, shard, key, &socket)
        {
            pending.push(key);
        }
    }
}

/// Writes a connection's output, as far as the socket takes it. True if there is room again for what waits in its sessions.
fn write(host: &Rc<Host>, shard: &mut Shard, key: usize, socket: &Rc<Socket>) -> bool {
    let now_ms = shard.now_ms();
    let Some(conn) = shard.conn(key) else { return false };
    let output = conn.gate.connection().output();
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
        conn.gate.connection().handle_written(now_ms);
        socket.written.notify_one();
    }
    let done = conn.gate.phase() == Phase::Done;
    let has_room = written > 0 && !done && conn.gate.has_pending() && !socket.blocked.get();
    if failed {
        // The reader notices, too, but may have nothing to read for a long time.
        if let Some(reader) = socket.reader.take() {
            reader.abort();
        }
        host.sockets.borrow_mut().remove(&key);
        shard.disconnect(key);
        host.wake.notify_one();
    } else if done && empty && socket.done.get().is_none() {
        socket.done.set(Some(Instant::now()));
        drop(socket2::SockRef::from(socket.write.as_ref()).shutdown(std::net::Shutdown::Write));
        tokio::task::spawn_local(linger(host.clone(), key, socket.clone()));
    }
    has_room
}

/// Waits until a full socket takes more.
async fn unblock(host: Rc<Host>, key: usize, socket: Rc<Socket>) {
    // An error shows at the next write.
    drop(socket.write.writable().await);
    socket.blocked.set(false);
    host.shard.borrow_mut().touch(key);
    host.wake.notify_one();
}

/// Gives the peer of a closed connection time to read the reason and to close its side.
async fn linger(host: Rc<Host>, key: usize, socket: Rc<Socket>) {
    tokio::time::sleep(LINGER).await;
    let same = host.sockets.borrow().get(&key).is_some_and(|s| Rc::ptr_eq(s, &socket));
    if same {
        if let Some(reader) = socket.reader.take() {
            reader.abort();
        }
        host.sockets.borrow_mut().remove(&key);
        host.shard.borrow_mut().disconnect(key);
        host.wake.notify_one();
    }
}

/// Accepts connections and gives each to the shard with the fewest.
pub(crate) async fn accept_all(listener: tokio::net::TcpListener, shards: Shards, occupancy: Arc<Occupancy>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Ok(stream) = stream.into_std() {
                    let shard = usize::from(occupancy.assign());
                    drop(shards[shard].send(Incoming::Accepted(stream)));
                }
            }
            Err(error) => {
                // Out of file descriptors or the like: others go on, and it may pass.
                tracing::error!("cannot accept connections: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
