//! Threads, sockets and time for the shards: each shard has one tokio `LocalRuntime`.
//!
//! ```text
//!   connection tasks: read bytes, pass them to the shard, wake the turn task
//!   turn task:        mail, questions, completions -> turn
//!                     -> records, mail, one write per connection
//! ```
//!
//! A turn is one iteration of a shard's event loop. No borrow of a shard is held across an await.

mod accept;
mod address;
mod encryption;
mod header;
mod late;
mod shares;
mod signal;
mod sockets;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::categories::{CONNECTION, PEER};
use catalog::ids::ShardId;
use hashbrown::HashMap;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc;
use wal::{
    Completion, CopyHandle, Handover, PackReaderHandle, PacksHandle, RealDisk, StreamAnswer, StreamJob,
    StreamReaderHandle, StreamsHandle, WriterHandle,
};

pub use self::accept::Listening;
use self::accept::accept;
pub(crate) use self::accept::{accept_all, accept_all_unix};
pub(crate) use self::address::canonical;
use self::encryption::Encryption;
pub(crate) use self::late::Punctuality;
use self::shares::Shares;
use self::signal::Signal;
use self::sockets::{Reading, Socket, evict, serve, write_dirty, write_large};
use crate::clock::Clock;
use crate::incoming::{Incoming, Shards};
use crate::links::MailWay;
use crate::logins::Logins;
use crate::read_buffers::ReadBuffers;
use crate::shard::{READ_BUFFER, Shard, Writes};
use crate::tls_steps::TlsSteps;

/// If a turn has no more than this many bytes to write to the log, deliveries are sent before the write: no
/// delivery waits for a record. A consumer then has its message 30 to 60 us sooner at 5,000 a second. With
/// more bytes the deliveries are sent after the write. Consumers that answer at once then make the next batch
/// smaller, and a publisher's credit leaves together with its receipts.
const DELIVER_FIRST_BYTES: u64 = 1024;

/// The time after a failed write until the log is tried again, in milliseconds.
const LOG_RETRY_MS: u64 = 200;

/// At a stop: the time to wait for receipts in flight, in milliseconds, and then the time to wait for output to be written.
const STOP_RECEIPTS_MS: u64 = 2000;
const STOP_OUTPUT: Duration = Duration::from_secs(1);

/// A stopping shard that receives nothing for this long assumes that nothing more will arrive.
const STOP_QUIET: Duration = Duration::from_millis(20);

/// The threads that write and read for all shards.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub log: WriterHandle<RealDisk>,
    pub packs: PacksHandle,
    pub reader: PackReaderHandle,
    pub streams: StreamsHandle<RealDisk>,
    pub stream_reader: StreamReaderHandle,
    pub copy: CopyHandle,
}

/// The threads that work for all shards.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    pub storage: Storage,
    pub logins: Logins,
    pub tls_steps: TlsSteps,
    /// The way of mail to other nodes. `None` on a node that is in no cluster.
    pub peers: Option<MailWay>,
}

/// What a shard writes in one turn.
struct Writing<'a> {
    storage: &'a Storage,
    /// True if the log has written something at once.
    has_written: bool,
}

impl Writes for Writing<'_> {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        match self.storage.log.try_write(handover) {
            Ok(completion) => {
                self.has_written = true;
                completion
            }
            Err(handover) => {
                self.storage.log.send(handover);
                None
            }
        }
    }

    fn hurry(&mut self) {
        self.storage.log.hurry();
    }

    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer> {
        self.storage.streams.try_append(job).map_err(|job| self.storage.streams.send(job)).ok()
    }
}

/// One shard and what its tasks share.
struct Host {
    shard: RefCell<Shard>,
    /// The channels to all shards, for mail and for connections that move.
    shards: Shards,
    clock: Clock,
    sockets: RefCell<HashMap<usize, Rc<Socket>>>,
    storage: Storage,
    logins: Logins,
    read_buffers: RefCell<ReadBuffers>,
    shares: Shares,
    /// Connections with much output, the one that has waited longest first. See [`sockets::write_large`].
    large_outputs: RefCell<VecDeque<usize>>,
    encryption: Encryption,
    tls_steps: TlsSteps,
    punctuality: Arc<Punctuality>,
    /// The way of mail to other nodes. `None` on a node that is in no cluster.
    peers: Option<MailWay>,
    /// The log has answered since the last turn.
    is_logged: Cell<bool>,
    /// Wakes the turn task.
    wake: Signal,
}

/// Runs a shard on this thread until it receives [`Incoming::Stop`]. The bell rings when a direct write of the log, which this shard was
/// first to ask for, has ended.
pub(crate) fn run(
    shard: Shard,
    clock: Clock,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    shards: Shards,
    Beside { storage, logins, tls_steps, peers }: Beside,
    bell: Option<Arc<OwnedFd>>,
    punctuality: Arc<Punctuality>,
) -> io::Result<()> {
    let (works, waits) = (punctuality.clone(), punctuality.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_unpark(move || works.begin(Instant::now()))
        .on_thread_park(move || waits.end(Instant::now()))
        .build_local(LocalOptions::default())?;
    let host = Rc::new(Host {
        shard: RefCell::new(shard),
        shards,
        clock,
        sockets: RefCell::new(HashMap::new()),
        storage,
        logins,
        read_buffers: RefCell::new(ReadBuffers::new(READ_BUFFER)),
        shares: Shares::default(),
        large_outputs: RefCell::default(),
        encryption: Encryption::default(),
        tls_steps,
        punctuality,
        peers,
        is_logged: Cell::new(false),
        wake: Signal::default(),
    });
    if let Some(bell) = bell {
        let _inside = runtime.enter();
        // It is no pipe, but is read like one: without waiting, once for each time that it became readable.
        let bell = pipe::Receiver::from_owned_fd_unchecked(bell.try_clone()?)?;
        runtime.spawn_local(end_direct_writes(host.storage.log.clone(), bell));
    }
    // The turn loop is an ordinary task, so it runs after all tasks that had something to read. If it were
    // the future of `block_on`, each wake would make the runtime poll for events once more.
    let turns = runtime.spawn_local(turns(host, incoming));
    runtime.block_on(turns).map_err(io::Error::other)
}

/// Ends each direct write of the log when the bell rings.
async fn end_direct_writes(log: WriterHandle<RealDisk>, mut bell: pipe::Receiver) {
    // A count of 8 bytes. It is read into more, so that tokio sees that nothing is left.
    let mut count = [0; 16];
    while bell.read(&mut count).await.is_ok() {
        log.end_direct();
    }
}

/// The other ends of a shard's channel are gone.
#[derive(Debug, PartialEq, Eq)]
struct Ended;

/// Waits until a shard has something to do. Returns the first message that has arrived, if there is one. A shard that has work left after
/// each turn, and so wakes itself, still gets its messages.
async fn wait<T>(
    wake: &Signal,
    incoming: &mut mpsc::UnboundedReceiver<T>,
    alarm: impl Future<Output = ()>,
) -> Result<Option<T>, Ended> {
    tokio::select! {
        biased;
        // First, because it is cheaper to ask, and most turns have it.
        () = wake.wait() => Ok(incoming.try_recv().ok()),
        message = incoming.recv() => message.map(Some).ok_or(Ended),
        () = alarm => Ok(None),
    }
}

async fn turns(host: Rc<Host>, mut incoming: mpsc::UnboundedReceiver<Incoming>) {
    let mut dirty = Vec::new();
    // The times here are those of the host's clock.
    let mut stopping: Option<(String, u64)> = None;
    let mut retry_log_ms: Option<u64> = None;
    // The timer is reset only to an earlier time, or when it has elapsed, because an extra turn is cheaper
    // than resetting a timer in each turn.
    let mut alarm = pin!(tokio::time::sleep_until(Instant::now().into()));
    let mut alarm_ms = 0;
    loop {
        let timeout_ms = [retry_log_ms, stopping.as_ref().map(|(_, at_ms)| *at_ms)]
            .into_iter()
            .flatten()
            .fold(host.shard.borrow().next_timeout(), u64::min);
        if timeout_ms < alarm_ms || alarm.is_elapsed() {
            alarm.as_mut().reset(host.clock.instant(timeout_ms).into());
            alarm_ms = timeout_ms;
        }
        let Ok(first) = wait(&host.wake, &mut incoming, alarm.as_mut()).await else { return };
        let now = Instant::now();
        let now_ms = host.clock.ms_at(now);
        host.shard.borrow_mut().set_now(now_ms);
        host.read_buffers.borrow_mut().trim(now_ms);
        let mut next = first;
        while let Some(message) = next {
            if let Incoming::Stop(why) = message {
                host.shard.borrow_mut().stop_publishing();
                stopping = Some((why, now_ms + STOP_RECEIPTS_MS));
            } else {
                receive(&host, message);
            }
            next = incoming.try_recv().ok();
        }
        if retry_log_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            retry_log_ms = None;
            host.shard.borrow_mut().retry_log();
        }
        if turn(&host, now, &mut dirty) {
            // The next turn follows at once, but only after all other tasks, because the runtime polls
            // sockets only when all tasks have yielded.
            tokio::task::yield_now().await;
        }
        if host.shard.borrow().log_refuses() && retry_log_ms.is_none() {
            retry_log_ms = Some(now_ms + LOG_RETRY_MS);
        }
        if let Some((why, at_ms)) = &stopping
            && (!(host.shard.borrow().has_held_receipts() || host.shard.borrow().is_notifying())
                || *at_ms <= now_ms)
        {
            host.shard.borrow_mut().shut_down(why);
            turn(&host, now, &mut dirty);
            finish(&host, &mut incoming, &mut dirty).await;
            return;
        }
    }
}

/// Called at a stop. Waits a little until the last frames have left, the last mail has arrived and the last
/// records are written.
async fn finish(host: &Rc<Host>, incoming: &mut mpsc::UnboundedReceiver<Incoming>, dirty: &mut Vec<usize>) {
    let deadline = Instant::now() + STOP_OUTPUT;
    while Instant::now() < deadline {
        tokio::select! {
            biased;
            message = incoming.recv() => match message {
                Some(message) => receive(host, message),
                None => return,
            },
            () = host.wake.wait() => {}
            () = tokio::time::sleep(STOP_QUIET) => {
                let blocked = host.sockets.borrow().values().any(|socket| socket.is_blocked());
                let shard = host.shard.borrow();
                if !blocked && !shard.has_unlogged() && !shard.is_notifying() {
                    return;
                }
            }
        }
        turn(host, Instant::now(), dirty);
    }
}

fn receive(host: &Rc<Host>, message: Incoming) {
    let mut shard = host.shard.borrow_mut();
    match message {
        Incoming::Mail(mail) => shard.handle_mail(mail),
        Incoming::Logged(completion) => {
            host.is_logged.set(true);
            shard.handle_logged(completion);
        }
        Incoming::Copied(end) => shard.handle_copied(end),
        Incoming::Packed(packed) => shard.handle_packed(packed),
        Incoming::Block(block) => shard.handle_block(block),
        Incoming::Stream(answer) => shard.handle_stream_answer(answer),
        Incoming::Chunks(read) => shard.handle_chunks(read),
        Incoming::Sparse(pack) => shard.handle_sparse(pack),
        Incoming::Login(ticket, result) => shard.handle_login(ticket, result),
        Incoming::Permission(ticket) => shard.handle_permission(ticket),
        Incoming::Question(question) => shard.handle_question(question),
        Incoming::GiveUp(number) => shard.give_up(number),
        Incoming::Notice(notice, _place) => shard.handle_notice(notice),
        Incoming::Blocked(blocked) => shard.set_blocked(blocked),
        Incoming::Settings(settings) => shard.set_settings(settings),
        Incoming::Link { node, up } => shard.handle_link(node, up),
        Incoming::Support { node, supported } => shard.handle_support(node, supported),
        Incoming::Gone { node } => shard.handle_gone(node),
        Incoming::Peer(message) => shard.handle_peer_message(message.from, message.bytes.clone()),
        Incoming::Accepted(accepted) => {
            drop(shard);
            if let Err(error) = accept(host, accepted) {
                host.shard.borrow().uncount();
                tracing::info!(name: PEER, target: CONNECTION, "a connection closed before it was served: {error}");
            }
        }
        Incoming::Evict { key, handshake } => {
            drop(shard);
            evict(host, key, handshake);
        }
        Incoming::Migrated(moved, stream, tls) => {
            let key = shard.adopt(*moved);
            drop(shard);
            if let Err(error) = serve(host, key, stream, None, tls, Reading::Input) {
                host.shard.borrow_mut().disconnect(key);
                tracing::error!("a connection was lost while it moved between shards: {error}");
            }
        }
        Incoming::Stop(_) => {}
    }
}

/// Sends the mail of a shard to the others.
fn send_mail(host: &Host, shard: &mut Shard) {
    for (to, sender) in host.shards.iter().enumerate() {
        let mail = shard.poll_mail(to as ShardId);
        if !mail.is_empty() {
            // Sending fails if the other shard has ended. Then it needs no mail.
            drop(sender.send(Incoming::Mail(mail)));
        }
    }
}

/// Runs one turn, which begins `now`, and carries out its results. Returns true if work is left; the next turn is then
/// already requested.
fn turn(host: &Rc<Host>, now: Instant, dirty: &mut Vec<usize>) -> bool {
    let (mut guard, storage) = (host.shard.borrow_mut(), &host.storage);
    let shard = &mut *guard;
    host.shares.clear();
    let (busy, late) = host.punctuality.take(now);
    if late.is_some() {
        // The time was last set before the shard was late.
        shard.set_now(host.clock.now_ms());
    }
    shard.set_busy(busy);
    shard.begin_turn(late);
    shard.handle_timeout();
    let mut pending = Vec::new();
    let mut is_left = shard.turn();
    if shard.bytes_to_write() <= DELIVER_FIRST_BYTES {
        write_dirty(host, shard, dirty, &mut pending);
    }
    let mut writing = Writing { storage, has_written: false };
    is_left |= shard.write(&mut writing);
    for (ticket, login) in shard.poll_logins() {
        let alive = shard.login_alive(ticket);
        host.logins.ask(shard.id(), ticket, login, alive);
    }
    for (ticket, remote, question) in shard.poll_questions() {
        host.logins.ask_permission(shard.id(), ticket, remote, question);
    }
    if let Some(file) = shard.poll_forget() {
        storage.log.forget(file);
    }
    if let Some(job) = shard.poll_copy_job() {
        storage.copy.send(job);
    }
    if let Some(job) = shard.poll_pack_job() {
        storage.packs.send(job);
    }
    is_left |= shard.has_receipts_to_send();
    shard.poll_reads().for_each(|job| storage.reader.send(job));
    shard.poll_chunk_jobs().for_each(|job| storage.stream_reader.send(job));
    shard.poll_released().for_each(|extent| storage.packs.release(extent));
    send_mail(host, shard);
    write_dirty(host, shard, dirty, &mut pending);
    is_left |= write_large(host, shard, &mut pending);
    // What was counted while writing may have exceeded a budget. Then a connection of another shard may have to close.
    send_mail(host, shard);
    if let Some(peers) = &host.peers {
        let mail = shard.poll_peer_mail();
        if !mail.is_empty() {
            peers.send(shard.id(), mail);
        }
        let is_logged = host.is_logged.replace(false) || writing.has_written;
        host.punctuality.note_log(shard.has_unlogged(), is_logged, now);
    }
    // Writing to the sockets has freed capacity for more reads.
    shard.poll_chunk_jobs().for_each(|job| storage.stream_reader.send(job));
    for key in pending {
        // The connection is marked again, because the next turn makes output of what is pending. Until then
        // the mark must not be cleared.
        shard.touch(key);
        is_left = true;
    }
    // A client that has read may have had input that waited for that.
    is_left |= shard.is_dirty();
    if is_left {
        host.wake.set();
    }
    is_left
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn a_shard_that_always_has_work_left_gets_its_messages() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (wake, (sender, mut incoming)) = (Signal::default(), mpsc::unbounded_channel());
        runtime.block_on(async {
            sender.send(1).expect("it is received");
            sender.send(2).expect("it is received");
            for expected in [Some(1), Some(2), None] {
                wake.set();
                assert_eq!(wait(&wake, &mut incoming, pending()).await, Ok(expected));
            }
            sender.send(3).expect("it is received");
            assert_eq!(wait(&wake, &mut incoming, pending()).await, Ok(Some(3)), "nobody has woken it");
            assert_eq!(wait(&wake, &mut incoming, ready(())).await, Ok(None), "the time has come");
            drop(sender);
            assert_eq!(wait(&wake, &mut incoming, pending()).await, Err(Ended));
        });
    }
}
