//! The threads that run [`Packs`] and a [`PackReader`]. There are two, because a read must never wait for a
//! sync.

use std::io;

use super::{Block, Extent, PackReader, Packs, ReadError, Run, WriteFailure};
use crate::disk::Disk;
use crate::worker::{Inbox, Worker};

/// Runs to write together. Answered exactly once.
#[derive(Debug)]
pub struct PackJob {
    pub shard: u32,
    /// The number that the shard gave this job.
    pub ticket: u64,
    pub runs: Vec<Run>,
}

/// The answer to a [`PackJob`]; see [`Packs::write`].
#[derive(Debug)]
pub struct Packed {
    pub shard: u32,
    pub ticket: u64,
    pub result: Result<Vec<Extent>, WriteFailure>,
}

/// The result of a round of the thread.
#[derive(Debug)]
pub struct PackRound {
    /// One answer for each job of the round, in their order.
    pub packed: Vec<Packed>,
    /// The bytes on the disk and the live bytes; see [`Packs::bytes`].
    pub bytes: (u64, u64),
    /// A pack that its owners should empty now; see [`Packs::sparse`].
    pub sparse: Option<u64>,
}

/// Called on the packs' thread once per round.
pub type OnPackRound = Box<dyn FnMut(PackRound) + Send>;

impl<D: Disk + 'static> Packs<D> {
    /// Runs the packs on a thread of their own.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn(self, on_round: OnPackRound) -> io::Result<PacksHandle> {
        Ok(PacksHandle { worker: Worker::spawn("packs", |inbox| write(self, inbox, on_round))? })
    }
}

/// A handle to the thread of [`Packs::spawn`]. When the last clone is dropped, the thread finishes its work
/// and ends. After [`PacksHandle::stop`] jobs are dropped without an answer, so stop the shards first.
#[derive(Clone, Debug)]
pub struct PacksHandle {
    worker: Worker<Writes, ()>,
}

impl PacksHandle {
    /// Hands runs over. Never waits for the disk. Each job is written and synced separately.
    pub fn send(&self, job: PackJob) {
        self.worker.add(|writes| writes.jobs.push(job));
    }

    /// Releases an extent; see [`Packs::release`]. Never waits for the disk.
    pub fn release(&self, extent: Extent) {
        self.worker.add(|writes| writes.released.push(extent));
    }

    /// Waits until everything handed over is done and answered.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the thread has panicked.
    pub fn stop(self) -> io::Result<()> {
        self.worker.stop().map(|_| ())
    }
}

/// The work for the packs' thread. Its size is bounded by the number of unanswered jobs of all shards and the
/// number of live extents.
#[derive(Debug, Default)]
struct Writes {
    jobs: Vec<PackJob>,
    released: Vec<Extent>,
}

fn write<D: Disk>(mut packs: Packs<D>, inbox: &Inbox<Writes>, mut on_round: OnPackRound) {
    let mut writes = Writes::default();
    while inbox.take(&mut writes, false) {
        // Extents are released before anything is written, because this frees disk space.
        writes.released.drain(..).for_each(|extent| packs.release(extent));
        let packed = writes.jobs.drain(..).map(|PackJob { shard, ticket, runs }| {
            let result = packs.write(runs);
            Packed { shard, ticket, result }
        });
        let packed = packed.collect();
        on_round(PackRound { packed, bytes: packs.bytes(), sparse: packs.sparse() });
    }
}

/// A request for a block. Answered exactly once.
#[derive(Clone, Copy, Debug)]
pub struct ReadJob {
    pub shard: u32,
    /// The number that the shard gave this request.
    pub ticket: u64,
    pub extent: Extent,
    pub owner: u64,
    /// The position of the block in the extent: 0, or [`Block::next`] of the block before it.
    pub at: u32,
}

/// The answer to a [`ReadJob`]; see [`PackReader::read`].
#[derive(Debug)]
pub struct BlockRead {
    pub shard: u32,
    pub ticket: u64,
    pub result: Result<Block, ReadError>,
}

/// Called on the reader's thread with each block as soon as it is read. So the thread has only one block in
/// memory.
pub type OnBlockRead = Box<dyn FnMut(BlockRead) + Send>;

impl<D: Disk + 'static> PackReader<D> {
    /// Runs the reader on a thread of its own.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn(self, on_read: OnBlockRead) -> io::Result<PackReaderHandle> {
        Ok(PackReaderHandle { worker: Worker::spawn("pack reader", |inbox| read(self, inbox, on_read))? })
    }
}

/// A handle to the thread of [`PackReader::spawn`]. When the last clone is dropped, the thread finishes its
/// jobs and ends. After [`PackReaderHandle::stop`] jobs are dropped without an answer, so stop the shards
/// first.
#[derive(Clone, Debug)]
pub struct PackReaderHandle {
    worker: Worker<Vec<ReadJob>, ()>,
}

impl PackReaderHandle {
    /// Requests a block. Never waits for the disk. Jobs are done in their order.
    pub fn send(&self, job: ReadJob) {
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

fn read<D: Disk>(mut reader: PackReader<D>, inbox: &Inbox<Vec<ReadJob>>, mut on_read: OnBlockRead) {
    let mut jobs = Vec::new();
    while inbox.take(&mut jobs, false) {
        for ReadJob { shard, ticket, extent, owner, at } in jobs.drain(..) {
            on_read(BlockRead { shard, ticket, result: reader.read(extent, owner, at) });
        }
    }
}
