//! The threads that run [`Streams`] and a [`StreamReader`]: one appends, one syncs, one reads. So reads never
//! wait for appends, and an append of one stream never waits for the sync of another. While the thread is
//! idle, a shard may do small appends itself, as with the log (`writer.rs`).

use std::io;
use std::sync::Arc;

use super::sync::{StreamSyncEnd, StreamSyncJob};
use super::{ChunkJob, ChunksRead, StreamAnswer, StreamJob, StreamReader, Streams};
use crate::disk::Disk;
use crate::shared::Shared;
use crate::worker::{Inbox, Taken, Worker};

/// Called on the streams' thread with the answers of a round. Answers that it leaves in the list are dropped.
pub type OnStreamAnswers = Box<dyn FnMut(&mut Vec<StreamAnswer>) + Send>;

impl<D: Disk + 'static> Streams<D> {
    /// Runs the streams on one thread and their syncs on another.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn(self, on_answers: OnStreamAnswers) -> io::Result<StreamsHandle<D>> {
        let syncs = Worker::spawn("stream sync", |inbox| run_syncs(inbox))?;
        let streams = Arc::new(Shared::new(self));
        let theirs = Arc::clone(&streams);
        let worker = Worker::spawn("streams", move |inbox| run(&theirs, inbox, &syncs, on_answers))?;
        Ok(StreamsHandle { streams, worker })
    }
}

/// A handle to the threads of [`Streams::spawn`]. When the last clone is dropped, the streams' thread
/// finishes its work and ends. After [`StreamsHandle::stop`] jobs are dropped without an answer, so stop the
/// shards first.
#[derive(Debug)]
pub struct StreamsHandle<D: Disk> {
    streams: Arc<Shared<Streams<D>>>,
    worker: Worker<Work, ()>,
}

impl<D: Disk> Clone for StreamsHandle<D> {
    fn clone(&self) -> Self {
        Self { streams: Arc::clone(&self.streams), worker: self.worker.clone() }
    }
}

impl<D: Disk> StreamsHandle<D> {
    /// Does a job on the caller's thread. This works only if the streams are idle and the job is an append
    /// that is one small write to the page cache; see [`Streams::append_at_once`]. Waits for no other thread
    /// and no sync. [`OnStreamAnswers`] is not called.
    ///
    /// # Errors
    /// Returns the job, to be handed over with [`StreamsHandle::send`].
    pub fn try_append(&self, job: StreamJob) -> Result<StreamAnswer, StreamJob> {
        match self.worker.is_idle() {
            true => self.streams.try_step(job, Streams::append_at_once),
            false => Err(job),
        }
    }

    /// Hands a job over. Never waits for the disk. Jobs of one thread are done in their order.
    pub fn send(&self, job: StreamJob) {
        self.worker.add(|work| work.jobs.push(job));
    }

    /// Waits until every job is done and answered.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the thread has panicked.
    pub fn stop(self) -> io::Result<()> {
        self.worker.stop().map(|_| ())
    }
}

/// The work for the streams' thread. Its size is bounded by the number of unanswered jobs of all shards.
#[derive(Debug, Default)]
struct Work {
    jobs: Vec<StreamJob>,
    synced: Vec<StreamSyncEnd>,
}

/// The jobs of the sync thread, and the inbox that receives each result.
type SyncTasks = Vec<(StreamSyncJob, Arc<Inbox<Work>>)>;

fn run<D: Disk>(
    streams: &Shared<Streams<D>>,
    inbox: &Arc<Inbox<Work>>,
    syncs: &Worker<SyncTasks, ()>,
    mut on_answers: OnStreamAnswers,
) {
    let (mut work, mut answers) = (Work::default(), Vec::new());
    let mut in_flight = 0;
    loop {
        match inbox.take_or_nap(&mut work, in_flight > 0) {
            Taken::Work => {}
            Taken::Idle => {
                streams.round(Streams::note);
                continue;
            }
            Taken::End => break,
        }
        streams.round(|streams| {
            in_flight -= work.synced.len();
            let mut begin = |sync| {
                in_flight += 1;
                syncs.add(|tasks| tasks.push((sync, Arc::clone(inbox))));
            };
            for end in work.synced.drain(..) {
                streams.end_sync(end, &mut answers).map(&mut begin);
            }
            for job in work.jobs.drain(..) {
                streams.handle(job, &mut answers).map(&mut begin);
            }
        });
        if !answers.is_empty() {
            on_answers(&mut answers);
            answers.clear();
        }
    }
    if let Some(streams) = streams.take() {
        streams.close();
    }
}

fn run_syncs(inbox: &Inbox<SyncTasks>) {
    let mut tasks = Vec::new();
    while inbox.take(&mut tasks, false) {
        for (job, streams) in tasks.drain(..) {
            let end = job.run();
            streams.answer(|work| work.synced.push(end));
        }
    }
}

/// Called on the reader's thread with each answer as soon as it is there. So the thread has only one answer
/// in memory.
pub type OnChunksRead = Box<dyn FnMut(ChunksRead) + Send>;

impl<D: Disk + 'static> StreamReader<D> {
    /// Runs the reader on a thread of its own.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn(self, on_read: OnChunksRead) -> io::Result<StreamReaderHandle> {
        Ok(StreamReaderHandle { worker: Worker::spawn("stream reader", |inbox| read(self, inbox, on_read))? })
    }
}

/// A handle to the thread of [`StreamReader::spawn`]. When the last clone is dropped, the thread finishes its
/// jobs and ends. After [`StreamReaderHandle::stop`] jobs are dropped without an answer, so stop the shards
/// first.
#[derive(Clone, Debug)]
pub struct StreamReaderHandle {
    worker: Worker<Vec<ChunkJob>, ()>,
}

impl StreamReaderHandle {
    /// Requests chunks. Never waits for the disk. Jobs are done in their order.
    pub fn send(&self, job: ChunkJob) {
        self.worker.add(|jobs| jobs.push(job));
    }

    /// Waits until every job is answered.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the thread has panicked.
    pub fn stop(self) -> io::Result<()> {
        self.worker.stop().map(|_| ())
    }
}

fn read<D: Disk>(mut reader: StreamReader<D>, inbox: &Inbox<Vec<ChunkJob>>, mut on_read: OnChunksRead) {
    let mut jobs = Vec::new();
    while inbox.take(&mut jobs, false) {
        for job in jobs.drain(..) {
            on_read(ChunksRead { shard: job.shard, ticket: job.ticket, result: reader.read(&job) });
        }
    }
}
