//! The backlog of this shard's queues on its way to the disk and back.
//!
//! ```text
//!   too much in memory ──> poll_pack_job ──> (packs, their thread) ──> handle_packed ──> Stored, less memory
//!   Output::loads ───────> poll_reads ─────> (the reader's thread) ──> handle_block ───> Fifo::handle_loaded
//!   Output::released ────> journal, until synced ────────────────────> poll_released ──> (packs)
//! ```
//!
//! One job of packs is away at a time, so that a slow disk makes no queue of jobs. While memory is at twice what it
//! should be, receipts wait: for this job, and for the next if that was not enough, so that publishers are held to what
//! the disk takes. If it takes nothing, what is new is refused.

use broker::ids::QueueId;
use hashbrown::{HashMap, HashSet};
use queue::Load;
use wal::{BlockRead, Extent, PACK_BYTES, PackJob, Packed, ReadError, ReadJob, Run};

use super::compact::Moving;
use super::slot::{QueueSlot, Reading, RunPlace};
use crate::facts;
use crate::shard::Shard;
use crate::shard::receipts::Receipts;

/// A run's bytes: what makes about one pack.
const RUN_BYTES: u64 = PACK_BYTES - PACK_BYTES / 16;

/// What stays in memory of a queue with consumers, and of the whole budget at most a part.
const HEAD_BYTES: u64 = 64 * 1024;
const HEAD_PART: u64 = 16;

/// How long after a failure the disk is tried again.
const RETRY_MS: u64 = 200;

/// How long after nothing could be paged out it is tried again.
const REST_MS: u64 = 50;

#[derive(Debug)]
pub(super) struct Pages {
    /// Bytes of memory that messages may take, ready or held, before some of them are paged out.
    budget: u64,
    /// What could be paged out of all queues takes, about.
    pageable: u64,
    /// Queues that have enough in memory for a run. One that has less again stays until the next chores.
    large: HashSet<QueueId>,
    next_ticket: u64,
    /// The job that is with the packs, or is to be given to them again, and what it writes.
    away: Option<(u64, Writes)>,
    /// The runs of the job, come back unwritten.
    back: Option<Vec<Run>>,
    /// There was a job for the packs, or one away, when that was last looked for: between an answer and the next job
    /// memory is on its way out, too.
    leaving: bool,
    /// The packs have failed the last job that they answered.
    failed: bool,
    /// Nothing is given to the packs before this time.
    not_before_ms: u64,
    /// Blocks that were asked for, by ticket.
    reads: HashMap<u64, Reading>,
    read_jobs: Vec<ReadJob>,
    /// Blocks to be asked for again, not before this time.
    reread: Vec<ReadJob>,
    reread_ms: u64,
    released: Vec<Extent>,
    pub moving: Moving,
    /// Receipts that wait until there is memory for more.
    pub receipts: Receipts,
    scratch: Vec<u8>,
}

/// What a job writes.
#[derive(Debug)]
pub(super) enum Writes {
    /// Runs that leave memory: the queue and the number of each.
    Runs(Vec<(QueueId, u32)>),
    /// The copy of a run.
    Copy,
}

impl Pages {
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            pageable: 0,
            large: HashSet::new(),
            next_ticket: 0,
            away: None,
            back: None,
            leaving: false,
            failed: false,
            not_before_ms: 0,
            reads: HashMap::new(),
            read_jobs: Vec::new(),
            reread: Vec::new(),
            reread_ms: 0,
            released: Vec::new(),
            moving: Moving::default(),
            receipts: Receipts::default(),
            scratch: Vec::new(),
        }
    }

    /// What could be paged out of one queue has changed.
    pub fn recount(&mut self, before: u64, now: u64) {
        self.pageable = self.pageable - before + now;
    }

    /// Adds a queue that has enough in memory for a run.
    #[inline]
    pub fn note_large(&mut self, slot: &mut QueueSlot) {
        if !slot.is_large && slot.fifo.may_page_out() {
            slot.is_large = true;
            self.large.insert(slot.id);
        }
    }

    /// Removes a queue that is gone, or has too little in memory.
    pub fn forget_large(&mut self, slot: &mut QueueSlot) {
        if std::mem::take(&mut slot.is_large) {
            self.large.remove(&slot.id);
        }
    }

    /// Bytes of memory that messages take, about.
    pub fn used(&self) -> u64 {
        self.pageable
    }

    /// Bytes that they may take before some of them leave.
    pub fn limit(&self) -> u64 {
        self.budget
    }

    /// Whether publishers must wait for the disk.
    pub fn is_full(&self) -> bool {
        self.is_twice_over() && self.leaving && !self.failed
    }

    /// Whether there is too much in memory, and it cannot leave. `writes`: jobs are given to the packs.
    pub fn is_stuck(&self, writes: bool) -> bool {
        self.is_twice_over() && (self.failed || !writes)
    }

    fn is_twice_over(&self) -> bool {
        self.pageable > 2 * self.budget
    }

    /// Asks for a block of a run.
    pub fn read(&mut self, shard: u32, reading: Reading) {
        self.next_ticket += 1;
        let (ticket, Reading { queue, load, extent, .. }) = (self.next_ticket, reading);
        self.reads.insert(ticket, reading);
        self.read_jobs.push(ReadJob { shard, ticket, extent, owner: queue.0, at: load.block });
    }

    /// Nothing in it is needed any more, and the log knows.
    pub fn release(&mut self, extent: Extent) {
        self.released.push(extent);
    }

    /// `writes`: jobs are given to the packs.
    pub fn next_deadline(&self, writes: bool) -> Option<u64> {
        let due = self.back.is_some() || self.away.is_none() && self.pageable > self.budget;
        let write = (due && writes).then_some(self.not_before_ms);
        write.into_iter().chain((!self.reread.is_empty()).then_some(self.reread_ms)).min()
    }
}

impl Shard {
    /// Runs for the packs, if there is too much in memory and they have answered the last ones. To be called behind
    /// a turn.
    pub fn poll_pack_job(&mut self) -> Option<PackJob> {
        let job = self.pack_job();
        self.storage.pages.leaving = self.storage.pages.away.is_some();
        job
    }

    fn pack_job(&mut self) -> Option<PackJob> {
        let shard = u32::from(self.here.id);
        // The log's reserve is not for packs.
        if self.here.now_ms < self.storage.pages.not_before_ms || self.storage.log_short {
            return None;
        }
        if let Some(runs) = self.storage.pages.back.take() {
            let ticket = self.storage.pages.away.as_ref().map(|(ticket, _)| *ticket)?;
            return Some(PackJob { shard, ticket, runs });
        }
        if self.storage.pages.away.is_some() {
            return None;
        }
        if let Some(copy) = self.storage.pages.moving.poll_copy() {
            self.storage.pages.next_ticket += 1;
            let ticket = self.storage.pages.next_ticket;
            self.storage.pages.away = Some((ticket, Writes::Copy));
            return Some(PackJob { shard, ticket, runs: vec![copy] });
        }
        if self.storage.pages.pageable <= self.storage.pages.budget {
            return None;
        }
        let head = HEAD_BYTES.min(self.storage.pages.budget / HEAD_PART);
        let mut runs = self.page_out(head);
        if runs.is_empty() && self.storage.pages.is_twice_over() {
            // The heads of very many queues.
            runs = self.page_out(0);
        }
        if runs.is_empty() {
            self.storage.pages.not_before_ms = self.here.now_ms + REST_MS;
            return None;
        }
        let ticket = self.storage.pages.away.as_ref().map(|(ticket, _)| *ticket)?;
        Some(PackJob { shard, ticket, runs })
    }

    /// Takes runs of about one pack out of the queues that hold most. Of each that has consumers `head` bytes stay. Looks at
    /// large queues only: their number is bounded by the memory that messages may take, and not by the number of queues.
    fn page_out(&mut self, head: u64) -> Vec<Run> {
        let pages = &mut self.storage.pages;
        let large = pages.large.iter().filter_map(|queue| self.queues.get(*queue));
        let mut largest: Vec<(u64, QueueId)> =
            large.map(|slot| (slot.fifo.pageable_bytes(), slot.id)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let (mut runs, mut names, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (_, queue) in largest {
            let Some(slot) = self.queues.get_mut(queue) else { continue };
            let mut run = Run::new(slot.id.0);
            let out = slot.fifo.page_out(RUN_BYTES.saturating_sub(bytes), head, |fact| {
                facts::push_to_run(&mut run, &mut pages.scratch, fact);
                run.last_block()
            });
            if let Some(out) = out {
                bytes += run.bytes() as u64;
                names.push((slot.id, out.run));
                runs.push(run);
            }
            if bytes >= RUN_BYTES {
                break;
            }
        }
        if !runs.is_empty() {
            pages.next_ticket += 1;
            pages.away = Some((pages.next_ticket, Writes::Runs(names)));
        }
        runs
    }

    /// The answer to a job of [`Shard::poll_pack_job`].
    pub fn handle_packed(&mut self, packed: Packed) {
        let Some((_, writes)) = self.storage.pages.away.take_if(|(ticket, _)| *ticket == packed.ticket)
        else {
            return;
        };
        match (std::mem::replace(&mut self.storage.pages.failed, packed.result.is_err()), &packed.result) {
            (false, Err(failure)) => tracing::error!(
                shard = self.here.id,
                "the backlog cannot leave memory: {failure}; publishing is stopped when there is too much of it"
            ),
            (true, Ok(_)) => tracing::info!(shard = self.here.id, "the backlog can leave memory again"),
            _ => {}
        }
        match (packed.result, writes) {
            (Ok(extents), Writes::Runs(names)) => {
                for ((queue, run), extent) in names.into_iter().zip(extents) {
                    self.stored(queue, run, extent);
                }
            }
            (Ok(extents), Writes::Copy) => extents.into_iter().for_each(|extent| self.moved(extent)),
            (Err(failure), writes) => {
                self.storage.pages.away = Some((packed.ticket, writes));
                self.storage.pages.back = Some(failure.runs);
                self.storage.pages.not_before_ms = self.here.now_ms + RETRY_MS;
            }
        }
    }

    fn stored(&mut self, queue: QueueId, run: u32, extent: Extent) {
        if self.queues.get(queue).is_none() {
            return self.storage.pages.release(extent);
        }
        self.tell_queue(queue, |slot, output, _| {
            slot.extents.insert(run, RunPlace { extent, file: None });
            slot.fifo.handle_stored(output);
        });
    }

    /// Blocks to be read.
    pub fn poll_reads(&mut self) -> impl Iterator<Item = ReadJob> {
        let Pages { read_jobs, reread, reread_ms, .. } = &mut self.storage.pages;
        if *reread_ms <= self.here.now_ms {
            read_jobs.append(reread);
        }
        read_jobs.drain(..)
    }

    /// The answer to one of [`Shard::poll_reads`].
    pub fn handle_block(&mut self, read: BlockRead) {
        let BlockRead { ticket, result, .. } = read;
        let Some(reading) = self.storage.pages.reads.remove(&ticket) else { return };
        let Reading { queue, load, extent, copied } = reading;
        let Some(slot) = self.queues.get(queue) else { return };
        // Of a run that is gone, or stands elsewhere now, the bytes may be gone, too.
        let there = slot.extents.get(&load.run).is_some_and(|kept| kept.extent == extent);
        match result {
            _ if copied => self.copied(there.then_some(result)),
            Ok(block) if there => match facts::decode_block(block) {
                Some(block) => self.loaded(queue, load, block),
                None => self.quarantine(queue, "a pack holds what is no message"),
            },
            Err(error @ ReadError::Io { .. }) if there => {
                tracing::error!(?queue, "the backlog cannot be read: {error}; it is tried again");
                self.storage.pages.reads.insert(ticket, reading);
                let (shard, owner, at) = (u32::from(self.here.id), queue.0, load.block);
                self.storage.pages.reread.push(ReadJob { shard, ticket, extent, owner, at });
                self.storage.pages.reread_ms = self.here.now_ms + RETRY_MS;
            }
            Err(error) if there => self.quarantine(queue, &error.to_string()),
            _ => self.loaded(queue, load, queue::Block::default()),
        }
    }

    fn loaded(&mut self, queue: QueueId, load: Load, block: queue::Block) {
        let now_ms = self.here.now_ms;
        self.tell_queue(queue, |slot, output, gates| {
            slot.fifo.handle_loaded(load, block, now_ms, output, gates);
        });
        self.send_receipts();
    }

    /// Messages of a queue are lost: says so to everybody who is concerned, and keeps the bytes.
    pub(in crate::shard) fn quarantine(&mut self, queue: QueueId, why: &str) {
        if self.queues.get(queue).is_none() {
            return;
        }
        let name =
            self.metadata.catalog().queue_by_id(queue).map(|record| record.name.clone()).unwrap_or_default();
        tracing::error!(queue = %name, "the queue is closed, for its messages are damaged: {why}");
        self.tell_queue(queue, |slot, output, _| slot.fifo.quarantine(output));
    }

    /// Extents that nobody needs any more.
    pub fn poll_released(&mut self) -> impl Iterator<Item = Extent> {
        self.storage.pages.released.drain(..)
    }
}
