//! The threads that run a [`Log`]: one writes, one syncs. The slower the disk, the larger the batches.
//!
//! ```text
//!            asleep, and small: written at once, on the shard's thread
//!   shard ──┬──────────────────────────────────────────────────────────▶ Completion, in the same turn
//!           └── else ──▶ inbox ──▶ log's thread, a round for all ──▶ OnDone
//!                           ▲            │ begin_sync
//!                           └─ SyncEnd ──┴──▶ sync thread
//! ```

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::handover::{Completion, Handover, WriteError};
use crate::machine::{Log, SyncEnd, SyncJob};
use crate::shared::Shared;
use crate::worker::{Inbox, Taken, Worker};

/// Called on the log's thread with completions: of the handovers that a round has written, and of earlier
/// ones that are synced.
pub type OnDone = Box<dyn FnMut(&mut Vec<Completion>) + Send>;

/// Starts the threads; see [`Writer::spawn`].
#[derive(Debug)]
pub struct Writer;

impl Writer {
    /// Runs `log` on one thread and its syncs on another. Completions that `on_done` leaves in its list are
    /// dropped.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn<D: Disk + 'static>(log: Log<D>, on_done: OnDone) -> io::Result<WriterHandle<D>> {
        let syncs = Worker::spawn("log sync", |inbox| run_syncs(inbox))?;
        let log = Arc::new(Shared::new(log));
        let theirs = Arc::clone(&log);
        let worker = Worker::spawn("log", move |inbox| run(&theirs, inbox, &syncs, on_done))?;
        Ok(WriterHandle { log, worker })
    }
}

/// A handle to the threads of [`Writer::spawn`]. When the last clone is dropped, the log's thread writes what
/// was handed over, closes the log and ends.
#[derive(Debug)]
pub struct WriterHandle<D: Disk> {
    log: Arc<Shared<Log<D>>>,
    worker: Worker<Work, Result<(), WriteError>>,
}

impl<D: Disk> Clone for WriterHandle<D> {
    fn clone(&self) -> Self {
        Self { log: Arc::clone(&self.log), worker: self.worker.clone() }
    }
}

impl<D: Disk> WriterHandle<D> {
    /// Writes records on the caller's thread. This works only if the log is idle and the write is one small
    /// write to the page cache; see [`Log::append_at_once`]. Waits for no other thread and no sync.
    /// [`OnDone`] is not called.
    ///
    /// # Errors
    /// Returns the records unwritten, to be handed over with [`WriterHandle::send`].
    pub fn try_write(&self, handover: Handover) -> Result<Completion, Handover> {
        match self.worker.is_idle() {
            true => self.log.try_step(handover, Log::append_at_once),
            false => Err(handover),
        }
    }

    /// Hands records over. Never waits for the disk. Handovers of one thread are written in their order.
    ///
    /// After [`WriterHandle::stop`] a handover is dropped without an answer, so stop the shards first.
    pub fn send(&self, handover: Handover) {
        self.worker.add(|work| work.handovers.push(handover));
    }

    /// Forgets everything up to and including this file, after writing what was handed over so far; see
    /// [`Log::forget`]. Never waits for the disk. While the disk refuses, every round tries again.
    pub fn forget(&self, file: u64) {
        self.worker.add(|work| work.forget = work.forget.max(file));
    }

    /// Waits until everything handed over is written and answered, and the log is closed.
    ///
    /// # Errors
    /// The log could not be marked clean, or the thread has panicked.
    pub fn stop(self) -> Result<(), WriteError> {
        self.worker.stop().map_err(WriteError::without_file)?.unwrap_or(Ok(()))
    }
}

/// The work for the log's thread. Its size is bounded by the number of unanswered handovers of all shards.
#[derive(Debug, Default)]
struct Work {
    handovers: Vec<Handover>,
    /// The number of the file up to which the log forgets, after the handovers are written. Forgetting late
    /// is always safe. 0 if there is nothing to forget.
    forget: u64,
    synced: Option<SyncEnd>,
}

/// The job of the sync thread, and the inbox that receives the result.
type SyncTask = Option<(SyncJob, Arc<Inbox<Work>>)>;

fn run<D: Disk>(
    log: &Shared<Log<D>>,
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
    // The work that waits until the log is not full. It is not put back into the inbox, because it must be
    // written before newer work that is added there.
    let (mut handovers, mut forget) = (Vec::new(), 0);
    let mut syncing = false;
    loop {
        match inbox.take_or_nap(&mut work, syncing) {
            Taken::Work => {}
            Taken::Idle => {
                log.round(Log::note);
                continue;
            }
            Taken::End => break,
        }
        let round = log.round(|log| {
            if let Some(end) = work.synced.take() {
                log.end_sync(end, &mut done);
            }
            handovers.append(&mut work.handovers);
            forget = forget.max(std::mem::take(&mut work.forget));
            if !log.is_full() {
                log.append(&mut handovers, &mut done);
                log.forget(std::mem::take(&mut forget));
            }
            tell(&mut done);
            if let Some(job) = log.begin_sync(&mut done) {
                syncs.add(|next| *next = Some((job, Arc::clone(inbox))));
            }
            tell(&mut done);
            log.is_syncing()
        });
        syncing = round.unwrap_or(false);
    }
    log.take().map_or(Ok(()), Log::close)
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
