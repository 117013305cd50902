//! The backlog of this shard's queues on its way to the disk and back.
//!
//! ```text
//!   too much in memory ──> poll_pack_job ──> (packs, their thread) ──> handle_packed ──> Stored, less memory
//!   Output::loads ───────> poll_reads ─────> (the reader's thread) ──> handle_block ───> Fifo::handle_loaded
//!   Output::released ────> journal, until synced ────────────────────> poll_released ──> (packs)
//! ```
//!
//! One job of packs is away at a time, so that a slow disk makes no queue of jobs. While memory is at twice what it
//! should be, receipts wait for the job: publishers are held to what the disk takes.

use broker::ids::QueueId;
use bytes::BytesMut;
use hashbrown::HashMap;
use log::{BlockRead, Extent, PACK_BYTES, PackJob, Packed, ReadError, ReadJob, Run};
use queue::Load;

use super::Shard;
use super::apply::Receipt;
use crate::facts;

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
    /// Bytes of memory that ready messages may take before some of them are paged out.
    budget: u64,
    /// What could be paged out of all queues takes, about.
    pageable: u64,
    next_ticket: u64,
    /// The job that is with the packs, or is to be given to them again: the queue and the number of each run.
    away: Option<(u64, Vec<(QueueId, u32)>)>,
    /// The runs of the job, come back unwritten.
    back: Option<Vec<Run>>,
    /// Nothing is given to the packs before this time.
    not_before_ms: u64,
    /// Blocks that were asked for, by ticket.
    reads: HashMap<u64, (QueueId, Load)>,
    read_jobs: Vec<ReadJob>,
    /// Blocks to be asked for again, not before this time.
    reread: Vec<ReadJob>,
    reread_ms: u64,
    released: Vec<Extent>,
    /// Receipts that wait until there is memory for more.
    pub receipts: Vec<Receipt>,
    scratch: BytesMut,
}

impl Pages {
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            pageable: 0,
            next_ticket: 0,
            away: None,
            back: None,
            not_before_ms: 0,
            reads: HashMap::new(),
            read_jobs: Vec::new(),
            reread: Vec::new(),
            reread_ms: 0,
            released: Vec::new(),
            receipts: Vec::new(),
            scratch: BytesMut::new(),
        }
    }

    /// What could be paged out of one queue has changed.
    pub fn recount(&mut self, before: u64, now: u64) {
        self.pageable = self.pageable - before + now;
    }

    /// Whether publishers must wait for the disk.
    pub fn is_full(&self) -> bool {
        self.pageable > 2 * self.budget && self.away.is_some()
    }

    /// Asks for a block of a run.
    pub fn read(&mut self, shard: u32, queue: QueueId, load: Load, extent: Extent) {
        self.next_ticket += 1;
        self.reads.insert(self.next_ticket, (queue, load));
        let ticket = self.next_ticket;
        self.read_jobs.push(ReadJob { shard, ticket, extent, owner: queue.0, at: load.block });
    }

    /// Nothing in it is needed any more, and the log knows.
    pub fn release(&mut self, extent: Extent) {
        self.released.push(extent);
    }

    pub fn next_deadline(&self) -> Option<u64> {
        let write = (self.back.is_some() || self.away.is_none() && self.pageable > self.budget)
            .then_some(self.not_before_ms);
        write.into_iter().chain((!self.reread.is_empty()).then_some(self.reread_ms)).min()
    }
}

impl Shard {
    /// Runs for the packs, if there is too much in memory and they have answered the last ones. To be called behind
    /// a turn.
    pub fn poll_pack_job(&mut self) -> Option<PackJob> {
        let shard = u32::from(self.id);
        if self.now_ms < self.pages.not_before_ms {
            return None;
        }
        if let Some(runs) = self.pages.back.take() {
            let ticket = self.pages.away.as_ref().map(|(ticket, _)| *ticket)?;
            return Some(PackJob { shard, ticket, runs });
        }
        if self.pages.pageable <= self.pages.budget || self.pages.away.is_some() {
            return None;
        }
        let runs = self.page_out();
        if runs.is_empty() {
            self.pages.not_before_ms = self.now_ms + REST_MS;
            return None;
        }
        let ticket = self.pages.away.as_ref().map(|(ticket, _)| *ticket)?;
        Some(PackJob { shard, ticket, runs })
    }

    /// Takes runs of about one pack out of the queues that hold most.
    fn page_out(&mut self) -> Vec<Run> {
        let Self { queues, pages, .. } = self;
        let mut largest: Vec<(u64, usize)> = queues
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| Some((slot.as_ref()?.fifo().pageable_bytes(), at)))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let head = HEAD_BYTES.min(pages.budget / HEAD_PART);
        let (mut runs, mut names, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (_, at) in largest {
            let Some(Some(slot)) = queues.get_mut(at) else { continue };
            let mut run = Run::new(slot.id.0);
            let out = slot.fifo_mut().page_out(RUN_BYTES.saturating_sub(bytes), head, |fact| {
                facts::push_to_run(&mut run, &mut pages.scratch, fact);
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
            pages.away = Some((pages.next_ticket, names));
        }
        runs
    }

    /// The answer to a job of [`Shard::poll_pack_job`].
    pub fn handle_packed(&mut self, packed: Packed) {
        let Some((_, names)) = self.pages.away.take_if(|(ticket, _)| *ticket == packed.ticket) else {
            return;
        };
        match packed.result {
            Ok(extents) => {
                for ((queue, run), extent) in names.into_iter().zip(extents) {
                    self.stored(queue, run, extent);
                }
            }
            Err(failure) => {
                tracing::error!(
                    shard = self.id,
                    "the backlog cannot leave memory: {failure}; it is tried again"
                );
                self.pages.away = Some((packed.ticket, names));
                self.pages.back = Some(failure.runs);
                self.pages.not_before_ms = self.now_ms + RETRY_MS;
            }
        }
        self.send_receipts();
    }

    fn stored(&mut self, queue: QueueId, run: u32, extent: Extent) {
        let slot = self.queues.get_mut(queue.slot()).and_then(Option::as_mut).filter(|s| s.id == queue);
        let Some(slot) = slot else {
            self.pages.release(extent);
            return;
        };
        slot.extents.insert(run, super::apply::Kept { extent, file: None });
        let mut output = std::mem::take(&mut self.output);
        slot.fifo_mut().handle_stored(&mut output);
        self.take_output(queue, &mut output);
        self.output = output;
    }

    /// Blocks to be read.
    pub fn poll_reads(&mut self) -> impl Iterator<Item = ReadJob> {
        let Pages { read_jobs, reread, reread_ms, .. } = &mut self.pages;
        if *reread_ms <= self.now_ms {
            read_jobs.append(reread);
        }
        read_jobs.drain(..)
    }

    /// The answer to one of [`Shard::poll_reads`].
    pub fn handle_block(&mut self, read: BlockRead) {
        let BlockRead { ticket, result, .. } = read;
        let Some((queue, load)) = self.pages.reads.remove(&ticket) else { return };
        let slot = self.queues.get_mut(queue.slot()).and_then(Option::as_mut).filter(|s| s.id == queue);
        let Some(slot) = slot else { return };
        let block = match result {
            Ok(block) => facts::decode_block(block).ok_or("it holds what is no message".to_owned()),
            Err(ReadError::Io { .. }) if slot.extents.contains_key(&load.run) => {
                let error = result.err().map(|error| error.to_string()).unwrap_or_default();
                tracing::error!(?queue, "the backlog cannot be read: {error}; it is tried again");
                self.pages.reads.insert(ticket, (queue, load));
                let Some(kept) = slot.extents.get(&load.run) else { return };
                let (shard, extent) = (u32::from(self.id), kept.extent);
                self.pages.reread.push(ReadJob { shard, ticket, extent, owner: queue.0, at: load.block });
                self.pages.reread_ms = self.now_ms + RETRY_MS;
                return;
            }
            // Nothing of the run is alive any more.
            Err(_) if !slot.extents.contains_key(&load.run) => Ok(queue::Block::default()),
            Err(error) => Err(error.to_string()),
        };
        match block {
            Ok(block) => {
                let mut output = std::mem::take(&mut self.output);
                slot.fifo_mut().handle_loaded(load, block, self.now_ms, &mut output);
                self.take_output(queue, &mut output);
                self.output = output;
                self.send_receipts();
            }
            Err(why) => self.quarantine(queue, &why),
        }
    }

    /// Messages of a queue are lost: says so to everybody who is concerned, and keeps the bytes.
    pub(super) fn quarantine(&mut self, queue: QueueId, why: &str) {
        let slot = self.queues.get_mut(queue.slot()).and_then(Option::as_mut).filter(|s| s.id == queue);
        let Some(slot) = slot else { return };
        let name = self.catalog.queue_by_id(queue).map(|record| record.name.clone()).unwrap_or_default();
        tracing::error!(queue = %name, "the queue is closed, for its messages are damaged: {why}");
        let mut output = std::mem::take(&mut self.output);
        slot.fifo_mut().quarantine(&mut output);
        self.take_output(queue, &mut output);
        self.output = output;
    }

    /// Extents that nobody needs any more.
    pub fn poll_released(&mut self) -> impl Iterator<Item = Extent> {
        self.pages.released.drain(..)
    }
}
