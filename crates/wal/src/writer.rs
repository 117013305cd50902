//! The threads that run a [`Log`]: one writes, one syncs, one fills spares. The slower the disk, the larger the batches.
//!
//! ```text
//!            asleep, and small: written at once, on the shard's thread
//!   shard ──┬──────────────────────────────────────────────────────────▶ Completion, in the same turn
//!           └── else ──▶ inbox ──▶ log's thread, a round for all ──▶ OnDone
//!
//!   both    ── begin_sync, if none is in flight ──▶ sync thread: SyncJob, end_sync ──▶ OnDone
//!                                                        ▲            │ begin_sync, if somebody waits again
//!                                                        └────────────┘
//!
//!   shard   ── written directly ──▶ the disk ── tells the shard ──▶ end_direct, write_kept ──▶ OnDone
//! ```
//!
//! The sync thread begins the next sync by itself. So while syncs follow each other, no other thread must be
//! woken for them. While the log writes directly, no thread but the shards' is woken.

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::handover::{Completion, Handover, WriteError};
use crate::machine::{FillJob, Log, SyncEnd, SyncJob};
use crate::shared::Shared;
use crate::worker::{Inbox, Taken, Worker};

/// Called with completions: of the handovers that a round has written, and of earlier ones that are synced. It
/// is called on the log's thread, on the sync thread, or on a thread that calls [`WriterHandle::try_write`] or
/// [`WriterHandle::end_direct`], but never on two of them at once.
pub type OnDone = Box<dyn FnMut(&mut Vec<Completion>) + Send>;

/// Starts the threads; see [`Writer::spawn`].
#[derive(Debug)]
pub struct Writer;

impl Writer {
    /// Runs `log` on one thread, its syncs on another, and fills its spares on a third one. Completions that `on_done` leaves in its list are
    /// dropped.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn<D: Disk + 'static>(log: Log<D>, on_done: OnDone) -> io::Result<WriterHandle<D>> {
        let core = Core {
            log,
            on_done,
            done: Vec::new(),
            inbox: None,
            waits_for_room: false,
            left: Vec::new(),
            ended: None,
        };
        let core = Arc::new(Shared::new(core));
        let (of_syncs, of_fills, of_log) = (Arc::clone(&core), Arc::clone(&core), Arc::clone(&core));
        let syncs = Worker::spawn("log sync", move |inbox| run_syncs(&of_syncs, inbox))?;
        let fills = Worker::spawn("log fill", move |inbox| run_fills(&of_fills, inbox))?;
        let theirs = Jobs { syncs: syncs.clone(), fills };
        let worker = Worker::spawn("log", move |inbox| run(&of_log, inbox, theirs))?;
        Ok(WriterHandle { core, worker, syncs })
    }
}

/// What the threads and the shards share.
struct Core<D: Disk> {
    log: Log<D>,
    on_done: OnDone,
    /// Completions on their way to `on_done`.
    done: Vec<Completion>,
    /// The inbox of the log's thread, once that runs.
    inbox: Option<Arc<Inbox<Work>>>,
    /// The log's thread waits until the log is not full.
    waits_for_room: bool,
    /// Handovers for the log's thread, to be written before those of its inbox.
    left: Vec<Handover>,
    /// The end of a direct write after which the log's thread has to do something.
    ended: Option<SyncEnd>,
}

impl<D: Disk> Core<D> {
    fn tell(&mut self) {
        if !self.done.is_empty() {
            (self.on_done)(&mut self.done);
            self.done.clear();
        }
    }

    fn begin_sync(&mut self) -> Option<SyncJob> {
        let job = self.log.begin_sync(&mut self.done);
        self.tell();
        job
    }

    /// Ends a sync, and begins the next one if somebody waits for it.
    fn end_sync(&mut self, end: SyncEnd) -> Option<SyncJob> {
        self.log.end_sync(end, &mut self.done);
        let mut kept = self.log.write_kept(&mut self.done);
        self.tell();
        let wakes = std::mem::take(&mut self.waits_for_room) || self.log.wants_fill();
        self.leave(&mut kept, wakes);
        self.begin_sync()
    }

    /// Ends the direct write in flight if it has ended, on a shard's thread. If more is to be done than to submit the next one, it
    /// leaves that to the log's thread.
    fn end_direct(&mut self, is_paused: bool) -> Option<SyncJob> {
        let end = self.log.ended_direct(false)?;
        if is_paused || !self.log.ends_at_once(&end) {
            self.ended = Some(end);
            self.leave(&mut Vec::new(), true);
            return None;
        }
        self.end_sync(end)
    }

    /// Leaves handovers to the log's thread, and wakes it for them.
    fn leave(&mut self, handovers: &mut Vec<Handover>, wakes: bool) {
        let wakes = wakes || !handovers.is_empty();
        self.left.append(handovers);
        if let Some(inbox) = self.inbox.as_ref().filter(|_| wakes) {
            inbox.answer(|_| ());
        }
    }
}

/// A handle to the threads of [`Writer::spawn`]. When the last clone is dropped, the log's thread writes what
/// was handed over, closes the log and ends.
#[derive(Debug)]
pub struct WriterHandle<D: Disk> {
    core: Arc<Shared<Core<D>>>,
    worker: Worker<Work, Result<(), WriteError>>,
    syncs: Worker<Option<SyncJob>, ()>,
}

impl<D: Disk> Clone for WriterHandle<D> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), worker: self.worker.clone(), syncs: self.syncs.clone() }
    }
}

impl<D: Disk> WriterHandle<D> {
    /// Writes records on the caller's thread. This works only if the log's thread is idle and the write is one
    /// small write; see [`Log::append_at_once`]. Waits for no other thread and no sync. If the handover asked for a sync, [`OnDone`] gets
    /// the second completion later. If this returns no completion, it gets both.
    ///
    /// # Errors
    /// Returns the records unwritten, to be handed over with [`WriterHandle::send`].
    pub fn try_write(&self, handover: Handover) -> Result<Option<Completion>, Handover> {
        if !self.worker.is_idle() {
            return Err(handover);
        }
        let (written, job) = self.core.try_step(handover, |core, handover| {
            let sync = handover.sync;
            let written = core.log.append_at_once(handover)?;
            if sync && core.log.wants_fill() {
                core.leave(&mut Vec::new(), true);
            }
            Ok((written, if sync { core.begin_sync() } else { None }))
        })?;
        hand_on(&self.syncs, job);
        Ok(written)
    }

    /// Called by a shard that was told that its direct write has ended (see [`Disk::begin_direct`]): the log answers, and writes what was
    /// handed over meanwhile. Waits for nothing.
    pub fn end_direct(&self) {
        match self.core.try_round(Core::end_direct) {
            Some(job) => hand_on(&self.syncs, job),
            // The log is in use. Its thread does this next.
            None => self.worker.add(|_| ()),
        }
    }

    /// Called by a shard that has records which need only be written, behind a handover that may be kept until a sync has ended
    /// ([`Handover::urgent`]). Lets the log's thread write what is kept. Waits for nothing.
    pub fn hurry(&self) {
        // The handover may still be on its way to be kept. So the thread must see both.
        self.worker.add(|work| work.hurries = true);
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

    /// Says whether the log keeps spares; see [`Log::keep_spares`]. Never waits for the disk.
    pub fn keep_spares(&self, keeps: bool) {
        self.worker.add(|work| work.keeps_spares = Some(keeps));
    }

    /// Waits until everything handed over is written and answered, and the log is closed.
    ///
    /// # Errors
    /// The log could not be marked clean, or the thread has panicked.
    pub fn stop(self) -> Result<(), WriteError> {
        self.worker.stop().map_err(WriteError::without_file)?.unwrap_or(Ok(()))
    }
}

/// The threads that do jobs of the log.
struct Jobs {
    syncs: Worker<Option<SyncJob>, ()>,
    fills: Worker<Option<FillJob>, ()>,
}

/// The work for the log's thread. Its size is bounded by the number of unanswered handovers of all shards.
#[derive(Debug, Default)]
struct Work {
    handovers: Vec<Handover>,
    /// The number of the file up to which the log forgets, after the handovers are written. Forgetting late
    /// is always safe. 0 if there is nothing to forget.
    forget: u64,
    /// Whether the log keeps spares from now on. `None` if that does not change.
    keeps_spares: Option<bool>,
    /// What is kept, and the handovers, are written before the sync in flight has ended.
    hurries: bool,
}

fn run<D: Disk>(core: &Shared<Core<D>>, inbox: &Arc<Inbox<Work>>, jobs: Jobs) -> Result<(), WriteError> {
    let Jobs { syncs, fills } = jobs;
    core.round(|core| core.inbox = Some(Arc::clone(inbox)));
    let mut work = Work::default();
    // The work that waits until the log is not full. It is not put back into the inbox, because it must be
    // written before newer work that is added there.
    let (mut handovers, mut forget) = (Vec::new(), 0);
    let mut is_stalled = false;
    loop {
        match inbox.take_or_nap(&mut work, is_stalled) {
            Taken::Work => {}
            Taken::Idle => {
                core.round(|core| core.log.note());
                continue;
            }
            Taken::End => break,
        }
        let round = core.round(|core| {
            // A full log can do nothing else meanwhile. The shards may have ended, so that nobody would tell it of the end.
            let waits = core.log.is_full();
            let end = core.ended.take().or_else(|| core.log.ended_direct(waits));
            let job = end.and_then(|end| core.end_sync(end));
            handovers.append(&mut core.left);
            let hurries = std::mem::take(&mut work.hurries);
            if hurries {
                handovers.extend(core.log.take_kept());
            }
            handovers.append(&mut work.handovers);
            handovers.iter_mut().for_each(|handover| handover.urgent |= hurries);
            forget = forget.max(std::mem::take(&mut work.forget));
            if let Some(keeps) = work.keeps_spares.take() {
                core.log.keep_spares(keeps);
            }
            is_stalled = core.log.is_full();
            core.waits_for_room = is_stalled;
            if !is_stalled {
                core.log.append(&mut handovers, &mut core.done);
                core.log.forget(std::mem::take(&mut forget));
            }
            core.tell();
            (job.or_else(|| core.begin_sync()), core.log.begin_fill())
        });
        let (job, fill) = round.unwrap_or_default();
        hand_on(&syncs, job);
        if let Some(job) = fill {
            fills.add(|next| *next = Some(job));
        }
    }
    // The log is closed after the last sync, so that everybody gets an answer. The shards may have ended before their direct writes.
    let (filled, ended) = (fills.stop(), syncs.stop());
    core.round(|core| {
        if let Some(end) = core.ended.take() {
            core.log.end_sync(end, &mut core.done);
        }
        core.log.append(&mut core.left, &mut core.done);
        core.log.sync(&mut core.done);
        core.tell();
    });
    let closed = core.take().map_or(Ok(()), |core| core.log.close());
    filled.and(ended).map_err(WriteError::without_file)?;
    closed
}

/// Hands a job to the sync thread. The thread has no other job, because one sync is in flight at a time.
fn hand_on(syncs: &Worker<Option<SyncJob>, ()>, job: Option<SyncJob>) {
    if let Some(job) = job {
        syncs.add(|next| *next = Some(job));
    }
}

fn run_syncs<D: Disk>(core: &Shared<Core<D>>, inbox: &Inbox<Option<SyncJob>>) {
    let mut next = None;
    while inbox.take(&mut next, false) {
        while let Some(job) = next.take() {
            let end = job.run();
            next = core.round(|core| core.end_sync(end)).flatten();
        }
    }
}

fn run_fills<D: Disk>(core: &Shared<Core<D>>, inbox: &Inbox<Option<FillJob>>) {
    let mut next = None;
    while inbox.take(&mut next, false) {
        if let Some(job) = next.take() {
            let end = job.run();
            core.round(|core| core.log.end_fill(end));
        }
    }
}
