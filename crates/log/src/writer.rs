//! The thread that runs a [`Log`].
//!
//! Each round it takes everything that was handed over since the last one, so that the slower the disk, the
//! larger the batches. A hand-over costs one short lock; the thread is woken only when it sleeps.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::disk::Disk;
use crate::handover::{Completion, Handover, WriteError};
use crate::machine::Log;

/// Called on the log's thread once per round, with the completions of all hand-overs of the round.
pub type OnDone = Box<dyn FnMut(&mut Vec<Completion>) + Send>;

/// Starts the thread; see [`Writer::spawn`].
#[derive(Debug)]
pub struct Writer;

impl Writer {
    /// Runs `log` on a thread of its own. What `on_done` leaves in its list is dropped.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn spawn<D: Disk + 'static>(log: Log<D>, on_done: OnDone) -> io::Result<WriterHandle> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("log".into()).spawn(move || run(log, &theirs, on_done))?;
        Ok(WriterHandle { inner: Arc::new(Inner { shared, thread: Mutex::new(Some(thread)) }) })
    }
}

/// The way to a [`Writer`]. When the last clone is dropped, the thread writes what it was given, closes the log
/// and ends.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    inner: Arc<Inner>,
}

impl WriterHandle {
    /// Hands records over. Never waits for the disk. Hand-overs of one thread are written in their order.
    ///
    /// After [`WriterHandle::stop`] the hand-over is dropped unanswered: stop the shards first.
    pub fn send(&self, handover: Handover) {
        let mut inbox = self.inner.shared.lock();
        if inbox.stop {
            return;
        }
        inbox.handovers.push(handover);
        let wake = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if wake {
            self.inner.shared.bell.notify_one();
        }
    }

    /// Forgets everything up to and including this file, once what was handed over so far is written; see
    /// [`Log::forget`]. Never waits for the disk. While the disk refuses, every round tries again.
    pub fn forget(&self, file: u64) {
        let mut inbox = self.inner.shared.lock();
        inbox.forget = inbox.forget.max(file);
        let wake = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if wake {
            self.inner.shared.bell.notify_one();
        }
    }

    /// Waits until everything handed over is written and answered, and the log is closed.
    ///
    /// # Errors
    /// The log could not be marked clean; or the thread had panicked.
    pub fn stop(self) -> Result<(), WriteError> {
        self.inner.shared.stop();
        let thread = self.inner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(closed)) => closed,
            Some(Err(_)) => Err(WriteError::without_file(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Result<(), WriteError>>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    bell: Condvar,
}

/// Bounded by what the shards may have unanswered.
#[derive(Debug, Default)]
struct Inbox {
    handovers: Vec<Handover>,
    /// Forgotten after the hand-overs: to forget later is always right. 0: nothing.
    forget: u64,
    asleep: bool,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.bell.notify_one();
    }

    /// Swaps the full list for an empty one and raises what is to be forgotten; false at the end.
    fn take(&self, into: &mut Vec<Handover>, forget: &mut u64) -> bool {
        let mut inbox = self.lock();
        while inbox.handovers.is_empty() && inbox.forget == 0 && !inbox.stop {
            inbox.asleep = true;
            inbox = self.bell.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        inbox.asleep = false;
        std::mem::swap(&mut inbox.handovers, into);
        let asked = std::mem::take(&mut inbox.forget);
        *forget = asked.max(*forget);
        !into.is_empty() || asked > 0
    }
}

fn run<D: Disk>(mut log: Log<D>, shared: &Shared, mut on_done: OnDone) -> Result<(), WriteError> {
    let mut handovers = Vec::new();
    let mut done = Vec::new();
    let mut forget = 0;
    while shared.take(&mut handovers, &mut forget) {
        log.append(&mut handovers, &mut done);
        if !done.is_empty() {
            on_done(&mut done);
            done.clear();
        }
        if forget > 0 && log.forget(forget).is_ok() {
            forget = 0;
        }
    }
    log.close()
}
