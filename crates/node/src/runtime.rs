//! Threads, sockets and time for the shards: one tokio `current_thread` runtime each (house.md section 5).
//!
//! ```text
//!   connection tasks: await bytes, hand them to the shard, wake the turn
//!   turn task:        mail, calls, completions -> turn -> records, mail, one vectored write per connection
//! ```
//!
//! No borrow of a shard lives across an await.

mod sockets;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use broker::PEER;
use broker::ids::ShardId;
use hashbrown::HashMap;
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;
use wal::{
    Completion, Handover, PackReaderHandle, PacksHandle, RealDisk, StreamAnswer, StreamJob,
    StreamReaderHandle, StreamsHandle, WriterHandle,
};

pub(crate) use self::sockets::accept_all;
use self::sockets::{Socket, accept, evict, serve, write_dirty, write_line};
use crate::incoming::{Incoming, Shards};
use crate::logins::Logins;
use crate::questions::Asked;
use crate::read_buffers::ReadBuffers;
use crate::shard::{READ_BUFFER, Shard, Writes};

/// Deliveries wait for no record. In front of so few bytes to write they are sent first, and a consumer has its message
/// 30 to 60 us sooner at 5,000 a second. In front of more they are sent behind: consumers that answer at once make the
/// next batch smaller, and a publisher's credit leaves together with its receipts.
const DELIVER_FIRST_BYTES: u64 = 1024;

/// How long after a failure the log is tried again.
const LOG_RETRY: Duration = Duration::from_millis(200);

/// At a stop: how long receipts in flight are waited for, and then for output to be written.
const STOP_RECEIPTS: Duration = Duration::from_secs(2);
const STOP_OUTPUT: Duration = Duration::from_secs(1);

/// A stopping shard that has heard nothing for this long has heard everything.
const STOP_QUIET: Duration = Duration::from_millis(20);

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
    /// The same time since the epoch.
    since: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let started = Instant::now();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started, since }
    }

    pub fn now_ms(&self) -> u64 {
        self.after(self.started.elapsed())
    }

    pub fn uptime_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// The time since the epoch when so much has passed since the start. Rounded once: a message that is published
    /// after a client has looked at the system's clock must not seem to come before it.
    fn after(&self, elapsed: Duration) -> u64 {
        (self.since + elapsed).as_millis() as u64
    }

    fn instant(&self, at_ms: u64) -> Instant {
        self.started + Duration::from_millis(at_ms).saturating_sub(self.since)
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
    logins: Logins,
    /// Where answers to the desk go.
    asked: Arc<Asked>,
    read_buffers: RefCell<ReadBuffers>,
    /// How many reads the next turn is to take on.
    reads: Cell<usize>,
    /// Connections that wait until a turn has time for all that they are to be sent, those that have waited longest first.
    line: RefCell<VecDeque<usize>>,
    /// Wakes the turn task.
    wake: Notify,
}

/// Runs a shard on this thread until it is told to stop.
pub(crate) fn run(
    shard: Shard,
    clock: Clock,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    shards: Shards,
    storage: Storage,
    logins: Logins,
    asked: Arc<Asked>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let host = Rc::new(Host {
        shard: RefCell::new(shard),
        shards,
        clock,
        sockets: RefCell::new(HashMap::new()),
        storage,
        logins,
        asked,
        read_buffers: RefCell::new(ReadBuffers::new(READ_BUFFER)),
        reads: Cell::new(0),
        line: RefCell::default(),
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
        if turn(&host, &mut dirty) {
            // The next turn comes at once. Sockets are only looked at when all who run have paused.
            tokio::task::yield_now().await;
        }
        if host.shard.borrow().log_refuses() && retry_log.is_none() {
            retry_log = Some(Instant::now() + LOG_RETRY);
        }
        if let Some((why, deadline)) = &stopping
            && (!(host.shard.borrow().has_held_receipts() || host.shard.borrow().is_telling())
                || *deadline <= Instant::now())
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
                let blocked = host.sockets.borrow().values().any(|socket| socket.is_blocked());
                let shard = host.shard.borrow();
                if !blocked && !shard.has_unlogged() && !shard.is_telling() {
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
        Incoming::Login(ticket, result) => shard.handle_login(ticket, result),
        Incoming::Question(number, question) => shard.handle_question(number, question),
        Incoming::GiveUp(number) => shard.give_up(number),
        Incoming::Blocked(blocked) => shard.set_blocked(blocked),
        Incoming::Accepted(stream, handshake) => {
            drop(shard);
            if let Err(error) = accept(host, stream, handshake) {
                host.shard.borrow().uncount();
                tracing::info!(target: PEER, "a connection was gone before it was served: {error}");
            }
        }
        Incoming::Evict { key, handshake } => {
            drop(shard);
            evict(host, key, handshake);
        }
        Incoming::Moved(moved, stream) => {
            let key = shard.adopt(*moved);
            drop(shard);
            if let Err(error) = serve(host, key, stream, None) {
                host.shard.borrow_mut().disconnect(key);
                tracing::error!("a connection was lost on its way between shards: {error}");
            }
        }
        Incoming::Stop(_) => {}
    }
}

/// One turn, and what it has made is taken to where it goes. True if something is left for another one, which is called for.
fn turn(host: &Rc<Host>, dirty: &mut Vec<usize>) -> bool {
    let (mut guard, storage) = (host.shard.borrow_mut(), &host.storage);
    let shard = &mut *guard;
    host.reads.set(0);
    shard.handle_timeout();
    let mut pending = Vec::new();
    let mut is_left = shard.turn();
    if shard.bytes_to_write() <= DELIVER_FIRST_BYTES {
        write_dirty(host, shard, dirty, &mut pending);
    }
    is_left |= shard.write(&mut &host.storage);
    for (number, reply) in shard.poll_replies() {
        host.asked.answer(number, reply);
    }
    for (ticket, login) in shard.poll_logins() {
        host.logins.ask(shard.id(), ticket, login);
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
    is_left |= write_line(host, shard, &mut pending);
    // What was written has made room for more.
    shard.poll_chunk_jobs().for_each(|job| storage.stream_reader.send(job));
    for key in pending {
        // The next turn makes output of what waits: nothing may take the mark away before.
        shard.touch(key);
        is_left = true;
    }
    if is_left {
        host.wake.notify_one();
    }
    is_left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_rounds_once() {
        let clock = Clock { started: Instant::now(), since: Duration::from_micros(5_900) };
        assert_eq!(clock.after(Duration::from_micros(100)), 6);
        assert_eq!(clock.after(Duration::from_micros(100_300)), 106);
        assert_eq!(clock.instant(6) - clock.started, Duration::from_micros(100));
        assert_eq!(clock.instant(3), clock.started);
    }
}
