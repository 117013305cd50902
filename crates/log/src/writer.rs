//! The threads that run a [`Log`]: one writes, one syncs. The slower the disk, the larger the batches.

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::handover::{Completion, Handover, WriteError};
use crate::machine::{Log, SyncEnd, SyncJob};
use crate::worker::{Inbox, Worker};

/// Called on the log's thread with the completions of a round: when all its hand-overs are written, and with those of
/// earlier rounds that have been synced.
pub type OnDone = Box<dyn FnMut(&mut Vec<Completion>) + Send>;

/// Starts the threads; see [`Writer::spawn`].
#[derive(Debug)]
pub struct Writer;

impl Writer {
    /// Runs `log` on a thread of its own, and its syncs on another. What `on_done` leaves in its list is dropped.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn spawn<D: Disk + 'static>(log: Log<D>, on_done: OnDone) -> io::Result<WriterHandle> {
        let syncs = Worker::spawn("log sync", |inbox| run_syncs(inbox))?;
        Ok(WriterHandle { worker: Worker::spawn("log", move |inbox| run(log, inbox, &syncs, on_done))? })
    }
}

/// The way to a [`Writer`]. When the last clone is dropped, the thread writes what it was given, closes the log
/// and ends.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    worker: Worker<Work, Result<(), WriteError>>,
}

impl WriterHandle {
    /// Hands records over. Never waits for the disk. Hand-overs of one thread are written in their order.
    ///
    /// After [`WriterHandle::stop`] the hand-over is dropped unanswered: stop the shards first.
    pub fn send(&self, handover: Handover) {
        self.worker.add(|work| work.handovers.push(handover));
    }

    /// Forgets everything up to and including this file, once what was handed over so far is written; see
    /// [`Log::forget`]. Never waits for the disk. While the disk refuses, every round tries again.
    pub fn forget(&self, file: u64) {
        self.worker.add(|work| work.forget = work.forget.max(file));
    }

    /// Waits until everything handed over is written and answered, and the log is closed.
    ///
    /// # Errors
    /// The log could not be marked clean; or the thread had panicked.
    pub fn stop(self) -> Result<(), WriteError> {
        self.worker.stop().map_err(WriteError::without_file)?.unwrap_or(Ok(()))
    }
}

/// Bounded by what the shards may have unanswered.
#[derive(Debug, Default)]
struct Work {
    handovers: Vec<Handover>,
    /// Forgotten after the hand-overs: to forget later is always right. 0: nothing.
    forget: u64,
    synced: Option<SyncEnd>,
}

/// What the second thread is to do, and whom to tell.
type SyncTask = Option<(SyncJob, Arc<Inbox<Work>>)>;

fn run<D: Disk>(
    mut log: Log<D>,
    inbox: &Arc<Inbox<Work>>,
    syncs: &Worker<SyncTask, ()>,
    mut on_done: OnDone,
) -> Result<(), WriteError> {
    let mut tell = |done: &mut Vec<Completion>| {
        if !done.is_empty() {
            on_done(done);
            done.clear();
        }
    };
    let mut work = Work::default();
    let mut done = Vec::new();
    let mut forget = 0;
    while inbox.take(&mut work, log.is_syncing()) {
        if let Some(end) = work.synced.take() {
            log.end_sync(end, &mut done);
        }
        if !log.is_full() {
            log.append(&mut work.handovers, &mut done);
            forget = std::mem::take(&mut work.forget).max(forget);
        }
        tell(&mut done);
        if forget > 0 && log.forget(forget).is_ok() {
            forget = 0;
        }
        if let Some(job) = log.begin_sync(&mut done) {
            syncs.add(|next| *next = Some((job, Arc::clone(inbox))));
        }
        tell(&mut done);
    }
    log.close()
}

fn run_syncs(inbox: &Inbox<SyncTask>) {
    let mut next = None;
    while inbox.take(&mut next, false) {
        if let Some((job, log)) = next.take() {
            let end = job.run();
            log.answer(|work| work.synced = Some(end));
        }
    }
}
