//! Pages the backlog of this shard's queues out to packs, and loads it again.
//!
//! ```text
//!   too much in memory ──> poll_pack_job ──> (packs, their thread) ──> handle_packed ──> Stored, less memory
//!   Output::loads ───────> poll_reads ─────> (the reader's thread) ──> handle_block ───> Fifo::handle_loaded
//!   PeekEnd::Disk ───────> poll_reads ─────> (the reader's thread) ──> handle_block ───> Fifo::peek
//!   Output::released ────> journal, until synced ────────────────────> poll_released ──> (packs)
//! ```
//!
//! One job of packs is in flight at a time, so that jobs do not pile up at a slow disk. Receipts wait while
//! messages take more than twice the memory budget and a job is in flight. This slows publishers down to the
//! speed of the disk. If the disk accepts nothing, new messages are refused.

use catalog::categories::QUEUE;
use catalog::ids::QueueId;
use hashbrown::{HashMap, HashSet};
use wal::{BlockRead, Extent, PACK_BYTES, PackJob, Packed, ReadError, ReadJob, Run};

use super::Storage;
use super::compact::Moving;
use super::reading::{Purpose, Reading};
use crate::facts;
use crate::shard::Shard;
use crate::shard::receipts::Receipts;
use crate::shard::slot::{QueueSlot, RunPlace};

/// The size of a run, in bytes. It makes about one pack.
const RUN_BYTES: u64 = PACK_BYTES - PACK_BYTES / 16;

/// The bytes of messages that stay in memory for each queue with consumers. They are at most this fraction of
/// the memory budget: one 16th.
const HEAD_BYTES: u64 = 64 * 1024;
const HEAD_PART: u64 = 16;

/// The time after a failure until the disk is tried again, in milliseconds.
const RETRY_MS: u64 = 200;

/// If nothing could be paged out, it is tried again after this time, in milliseconds.
const REST_MS: u64 = 50;

#[derive(Debug)]
pub(super) struct Pages {
    /// Bytes of memory that ready and unsettled messages may take before some of them are paged out.
    budget: u64,
    /// The approximate bytes that could be paged out, of all queues.
    pageable: u64,
    /// Queues that have enough messages in memory for a run. The next chores remove a queue that has too few.
    large: HashSet<QueueId>,
    /// Queues whose memory an operator reclaims, each with the bytes that are left to page out.
    asked: Vec<(QueueId, u64)>,
    next_ticket: u64,
    /// The ticket of the job in flight, and what it writes. After a failure the job counts as in flight until it
    /// is tried again.
    in_flight: Option<(u64, Writes)>,
    /// The runs of a job that has failed, to be tried again.
    returned: Option<Vec<Run>>,
    /// True if a job was in flight at the end of the last poll: memory is being freed. It stays true from the
    /// answer to a job until the next poll.
    leaving: bool,
    /// True if the last job that was answered has failed.
    failed: bool,
    /// No job is given to the packs before this time.
    not_before_ms: u64,
    /// Requested blocks, by ticket.
    reads: HashMap<u64, Reading>,
    read_jobs: Vec<ReadJob>,
    /// Blocks to be requested again, not before `reread_ms`.
    reread: Vec<ReadJob>,
    reread_ms: u64,
    released: Vec<Extent>,
    pub moving: Moving,
    /// Receipts that wait until memory is free.
    pub receipts: Receipts,
    scratch: Vec<u8>,
}

/// What a job writes.
#[derive(Debug)]
pub(super) enum Writes {
    /// Runs that are paged out: the queue and the number of each.
    Runs(Vec<(QueueId, u32)>),
    /// The copy of a run.
    Copy,
}

impl Pages {
    pub(super) fn new(budget: u64) -> Self {
        Self {
            budget,
            pageable: 0,
            large: HashSet::new(),
            asked: Vec::new(),
            next_ticket: 0,
            in_flight: None,
            returned: None,
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

    /// Called when the bytes that could be paged out of one queue have changed.
    pub(super) fn recount(&mut self, before: u64, now: u64) {
        self.pageable = self.pageable - before + now;
    }

    /// Adds a queue that has enough in memory for a run.
    #[inline]
    pub(super) fn note_large(&mut self, slot: &mut QueueSlot) {
        if !slot.is_large && slot.fifo.may_page_out() {
            slot.is_large = true;
            self.large.insert(slot.id);
        }
    }

    /// Removes a queue that is deleted, or has too little in memory.
    pub(super) fn forget_large(&mut self, slot: &mut QueueSlot) {
        if std::mem::take(&mut slot.is_large) {
            self.large.remove(&slot.id);
        }
    }

    /// Pages out this many bytes of a queue, even if memory is not short.
    pub(super) fn page_out_soon(&mut self, queue: QueueId, bytes: u64) {
        self.asked.retain(|(asked, _)| *asked != queue);
        self.asked.push((queue, bytes));
    }

    /// The approximate bytes of memory that messages take.
    pub(super) fn used(&self) -> u64 {
        self.pageable
    }

    /// The bytes that messages may take before some are paged out.
    pub(super) fn limit(&self) -> u64 {
        self.budget
    }

    /// Returns true if publishers must wait for the disk.
    pub(super) fn is_full(&self) -> bool {
        self.is_twice_over() && self.leaving && !self.failed
    }

    /// Returns true if too many messages are in memory and cannot be paged out. `writes` is false while the disk
    /// is full, because the packs then get no jobs.
    pub(super) fn is_stuck(&self, writes: bool) -> bool {
        self.is_twice_over() && (self.failed || !writes)
    }

    fn is_twice_over(&self) -> bool {
        self.pageable > 2 * self.budget
    }

    /// Requests a block of a run.
    pub(super) fn read(&mut self, shard: u32, reading: Reading) {
        self.next_ticket += 1;
        let (ticket, Reading { queue, load, extent, .. }) = (self.next_ticket, reading);
        self.reads.insert(ticket, reading);
        self.read_jobs.push(ReadJob { shard, ticket, extent, owner: queue.0, at: load.block });
    }

    /// Releases an extent. Nothing in it is needed any more, and the log has recorded that.
    pub(super) fn release(&mut self, extent: Extent) {
        self.released.push(extent);
    }

    /// Returns when a poll has something to do. For `writes` see [`Pages::is_stuck`].
    pub(super) fn next_deadline(&self, writes: bool) -> Option<u64> {
        let wants = self.pageable > self.budget || !self.asked.is_empty();
        let due = self.returned.is_some() || self.in_flight.is_none() && wants;
        let write = (due && writes).then_some(self.not_before_ms);
        write.into_iter().chain((!self.reread.is_empty()).then_some(self.reread_ms)).min()
    }
}

impl Storage {
    /// Requests a block of a run for a peek or a browser.
    pub(in crate::shard) fn read(&mut self, shard: u32, reading: Reading) {
        self.pages.read(shard, reading);
    }
}

impl Shard {
    /// Returns the next job for the packs: runs to write. Called after a turn. Returns `None` while a job is in
    /// flight, or if the messages in memory are within the budget and no copy of a run is to be written.
    pub fn poll_pack_job(&mut self) -> Option<PackJob> {
        let job = self.pack_job();
        self.storage.pages.leaving = self.storage.pages.in_flight.is_some();
        job
    }

    fn pack_job(&mut self) -> Option<PackJob> {
        let shard = u32::from(self.here.id);
        // While the disk is full, the log lives on its reserve. Packs must not use this space.
        if self.here.now_ms < self.storage.pages.not_before_ms || self.storage.log_on_reserve {
            return None;
        }
        if let Some(runs) = self.storage.pages.returned.take() {
            let ticket = self.storage.pages.in_flight.as_ref().map(|(ticket, _)| *ticket)?;
            return Some(PackJob { shard, ticket, runs });
        }
        if self.storage.pages.in_flight.is_some() {
            return None;
        }
        if let Some(copy) = self.storage.pages.moving.poll_copy() {
            self.storage.pages.next_ticket += 1;
            let ticket = self.storage.pages.next_ticket;
            self.storage.pages.in_flight = Some((ticket, Writes::Copy));
            return Some(PackJob { shard, ticket, runs: vec![copy] });
        }
        let head = HEAD_BYTES.min(self.storage.pages.budget / HEAD_PART);
        let mut runs = self.page_out_asked(head);
        if runs.is_empty() && self.storage.pages.pageable <= self.storage.pages.budget {
            return None;
        }
        if runs.is_empty() {
            runs = self.page_out(head);
        }
        if runs.is_empty() && self.storage.pages.is_twice_over() {
            // Very many queues have only their heads in memory.
            runs = self.page_out(0);
        }
        if runs.is_empty() {
            self.storage.pages.not_before_ms = self.here.now_ms + REST_MS;
            return None;
        }
        let ticket = self.storage.pages.in_flight.as_ref().map(|(ticket, _)| *ticket)?;
        Some(PackJob { shard, ticket, runs })
    }

    /// Makes runs of the messages of those queues that have most in memory, about as many as fit into one pack.
    /// For each queue with consumers, `head` bytes of messages stay. Only large queues are inspected. Their
    /// number is bounded by the memory that messages may take.
    fn page_out(&mut self, head: u64) -> Vec<Run> {
        let large = self.storage.pages.large.iter().filter_map(|queue| self.queues.get(*queue));
        let mut largest: Vec<(u64, QueueId)> =
            large.map(|slot| (slot.fifo.pageable_bytes(), slot.id)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        self.page_out_of(largest.into_iter().map(|(_, queue)| queue), head)
    }

    /// Takes runs out of the queues whose memory an operator reclaims. A queue is done when it has no further run, or when as
    /// much has left as it had in the beginning.
    fn page_out_asked(&mut self, head: u64) -> Vec<Run> {
        while let Some((queue, left)) = self.storage.pages.asked.pop() {
            let runs = self.page_out_of([queue].into_iter(), head);
            let bytes: u64 = runs.iter().map(|run| run.bytes() as u64).sum();
            if bytes > 0 {
                let left = left.saturating_sub(bytes);
                self.storage.pages.asked.extend((left > 0).then_some((queue, left)));
                return runs;
            }
        }
        Vec::new()
    }

    /// Takes runs of about one pack out of these queues, in this order.
    fn page_out_of(&mut self, queues: impl Iterator<Item = QueueId>, head: u64) -> Vec<Run> {
        let pages = &mut self.storage.pages;
        let (mut runs, mut names, mut bytes) = (Vec::new(), Vec::new(), 0);
        for queue in queues {
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
            pages.in_flight = Some((pages.next_ticket, Writes::Runs(names)));
        }
        runs
    }

    /// Handles the answer to a job of [`Shard::poll_pack_job`].
    pub fn handle_packed(&mut self, packed: Packed) {
        let Some((_, writes)) = self.storage.pages.in_flight.take_if(|(ticket, _)| *ticket == packed.ticket)
        else {
            return;
        };
        match (std::mem::replace(&mut self.storage.pages.failed, packed.result.is_err()), &packed.result) {
            (false, Err(failure)) => tracing::error!(
                target: QUEUE,
                shard = self.here.id,
                "the backlog cannot be paged out: {failure}; publishing is stopped if it grows too large"
            ),
            (true, Ok(_)) => {
                tracing::info!(target: QUEUE, shard = self.here.id, "the backlog can be paged out again")
            }
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
                self.storage.pages.in_flight = Some((packed.ticket, writes));
                self.storage.pages.returned = Some(failure.runs);
                self.storage.pages.not_before_ms = self.here.now_ms + RETRY_MS;
            }
        }
    }

    fn stored(&mut self, queue: QueueId, run: u32, extent: Extent) {
        if self.queues.get(queue).is_none() {
            return self.storage.pages.release(extent);
        }
        self.with_queue(queue, |slot, output, _| {
            slot.extents.insert(run, RunPlace { extent, file: None });
            slot.fifo.handle_stored(output);
        });
    }

    /// Returns the blocks to be read.
    pub fn poll_reads(&mut self) -> impl Iterator<Item = ReadJob> {
        let Pages { read_jobs, reread, reread_ms, .. } = &mut self.storage.pages;
        if *reread_ms <= self.here.now_ms {
            read_jobs.append(reread);
        }
        read_jobs.drain(..)
    }

    /// Handles the answer to one of [`Shard::poll_reads`].
    pub fn handle_block(&mut self, read: BlockRead) {
        let BlockRead { ticket, result, .. } = read;
        let Some(reading) = self.storage.pages.reads.remove(&ticket) else { return };
        let Reading { queue, load, extent, purpose } = reading;
        if let Purpose::Peek(peeking) = purpose {
            return self.peek_with(queue, extent, peeking, result);
        }
        let Some(slot) = self.queues.get(queue) else { return };
        // If the run is gone or was moved meanwhile, other data may be where the block was.
        let there = slot.extents.get(&load.run).is_some_and(|kept| kept.extent == extent);
        match result {
            _ if matches!(purpose, Purpose::Copy) => self.copied(there.then_some(result)),
            Ok(block) if there => match facts::decode_block(block) {
                Some(block) => self.loaded(&reading, Some(block)),
                None => self.quarantine(queue, "a pack contains a record that is not a message"),
            },
            Err(error @ ReadError::Io { .. }) if there => {
                let (vhost, name) = self.metadata.catalog().names_of(queue);
                tracing::error!(target: QUEUE, queue = %name, %vhost, "the backlog cannot be read: {error}; trying again");
                self.storage.pages.reads.insert(ticket, reading);
                let (shard, owner, at) = (u32::from(self.here.id), queue.0, load.block);
                self.storage.pages.reread.push(ReadJob { shard, ticket, extent, owner, at });
                self.storage.pages.reread_ms = self.here.now_ms + RETRY_MS;
            }
            Err(error) if there => self.quarantine(queue, &error.to_string()),
            _ => self.loaded(&reading, None),
        }
    }

    /// Passes a block to the machine of its queue. `block` is `None` if it is not where it was.
    fn loaded(&mut self, reading: &Reading, block: Option<queue::Block>) {
        let (now_ms, load) = (self.here.now_ms, reading.load);
        self.with_queue(reading.queue, |slot, output, gates| match reading.purpose {
            Purpose::Browse(of) => slot.fifo.handle_browsed(of, block.as_ref(), now_ms, output, gates),
            Purpose::Deliver | Purpose::Copy | Purpose::Peek(_) => {
                slot.fifo.handle_loaded(load, block.unwrap_or_default(), now_ms, output, gates);
            }
        });
        self.send_receipts();
    }

    /// Closes a queue whose messages are damaged, logs it, and keeps the bytes.
    pub(in crate::shard) fn quarantine(&mut self, queue: QueueId, why: &str) {
        if self.queues.get(queue).is_none() {
            return;
        }
        let (vhost, name) = self.metadata.catalog().names_of(queue);
        tracing::error!(target: QUEUE, queue = %name, %vhost, "the queue is closed because its messages are damaged: {why}");
        self.with_queue(queue, |slot, output, _| slot.fifo.quarantine(output));
    }

    /// Returns extents that nobody needs any more.
    pub fn poll_released(&mut self) -> impl Iterator<Item = Extent> {
        self.storage.pages.released.drain(..)
    }
}
