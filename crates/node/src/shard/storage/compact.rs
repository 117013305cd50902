//! Frees space in the packs. Runs that are mostly dead, and runs in a pack that is mostly dead, are copied
//! without their dead messages, one after the other. A run is a part of a queue's backlog that was paged out.
//!
//! ```text
//!   move_stuck, walk_sparse ──> wanted ──> read block by block ──> copy ──> (packs) ──> moved ──> Stored
//! ```

use std::collections::VecDeque;

use catalog::categories::QUEUE;
use catalog::ids::QueueId;
use queue::{Living, Load, Moved};
use wal::{Block, Extent, ReadError, Run};

use super::Storage;
use super::reading::{Purpose, Reading};
use crate::shard::Shard;
use crate::shard::slot::{QueueSlot, RunPlace};

/// Runs that were loaded may pin dead messages on the disk up to this fraction of the allowed garbage (one
/// half).
const STUCK_PART: u64 = 2;

/// A run with more live messages than this, in thousandths, is not worth copying.
const LIVING_MAX: u32 = 500;

/// The runs to be moved, and the run that is being moved.
#[derive(Debug, Default)]
pub(super) struct Moving {
    wanted: VecDeque<(QueueId, u32)>,
    /// Packs that are mostly dead. The walk over queues looks for the runs in the first one.
    sparse: VecDeque<u64>,
    now: Option<Copying>,
    stuck: Stuck,
}

/// The runs that pin too much, as found by a walk over the queues.
#[derive(Debug, Default)]
struct Stuck {
    /// Dead bytes that all of them pin.
    held: u64,
    /// The run that pins the most dead bytes: these bytes, its queue and its number.
    most: Option<(u64, QueueId, u32)>,
}

#[derive(Debug)]
struct Copying {
    queue: QueueId,
    run: u32,
    living: Living,
    /// The position in the run of the next block's first message.
    position: u32,
    copy: Run,
    moved: Vec<Moved>,
    /// The copy is complete, or already with the packs.
    whole: bool,
}

impl Moving {
    /// Returns true if no run is being moved or waits for it.
    fn is_idle(&self) -> bool {
        self.now.is_none() && self.wanted.is_empty()
    }

    /// Returns the complete copy of a run, to be written.
    pub(super) fn poll_copy(&mut self) -> Option<Run> {
        let now = self.now.as_mut().filter(|now| now.whole && !now.copy.blocks.is_empty())?;
        Some(std::mem::take(&mut now.copy))
    }
}

impl Copying {
    /// Copies the live messages of the next block.
    fn push(&mut self, block: Block) {
        let mut position = self.position;
        for record in block.records {
            if self.living.positions.get(self.moved.len()) == Some(&position) {
                let first = self.moved.last().is_none_or(|last| last.from < self.living.unread);
                if position >= self.living.unread && first {
                    self.copy.end_block();
                }
                self.copy.push(record.seq, record.kind, &[], record.body);
                self.moved.push(Moved { from: position, block: self.copy.last_block() });
            }
            position += 1;
        }
        self.position = position;
        self.whole = self.moved.len() == self.living.positions.len();
    }
}

impl Storage {
    /// Inspects the runs of a queue for [`Shard::move_stuck`], unless a run is being moved.
    pub(crate) fn look_for_stuck(&mut self, slot: &QueueSlot) {
        if !self.pages.moving.is_idle() {
            return;
        }
        let stuck = &mut self.pages.moving.stuck;
        for (run, living) in slot.fifo.stuck() {
            let Some(kept) = slot.extents.get(&run) else { continue };
            let dead = u64::from(kept.extent.bytes) * u64::from(1000 - living.min(1000)) / 1000;
            stuck.held += dead;
            if living <= LIVING_MAX && stuck.most.is_none_or(|(bytes, ..)| dead > bytes) {
                stuck.most = Some((dead, slot.id, run));
            }
        }
    }
}

impl Shard {
    /// Called at the end of a walk over the queues. If the runs pin too much together, the run that pins the
    /// most is queued to be moved.
    pub(in crate::shard) fn move_stuck(&mut self) {
        let Stuck { held, most } = std::mem::take(&mut self.storage.pages.moving.stuck);
        if !self.storage.pages.moving.is_idle() {
            return;
        }
        if held > self.storage.garbage_allowed / STUCK_PART
            && let Some((_, queue, run)) = most
        {
            self.storage.pages.moving.wanted.push_back((queue, run));
        }
        self.start_move();
    }

    /// Called when a pack is mostly dead. This shard then moves its runs out of it.
    pub fn handle_sparse(&mut self, pack: u64) {
        self.storage.pages.moving.sparse.push_back(pack);
        self.walks.sparse.begin_if_idle();
    }

    /// Continues to look for the runs in packs that are mostly dead.
    pub(in crate::shard) fn walk_sparse(&mut self) {
        let moving = &mut self.storage.pages.moving;
        let Some(&pack) = moving.sparse.front() else { return };
        for place in self.walks.sparse.part(self.queues.places(), &mut self.rows) {
            if let Some(slot) = self.queues.at(place) {
                let there = slot.extents.iter().filter(|(_, kept)| kept.extent.pack == pack);
                moving.wanted.extend(there.map(|(run, _)| (slot.id, *run)));
            }
        }
        if !self.walks.sparse.is_under_way() {
            moving.sparse.pop_front();
            if !moving.sparse.is_empty() {
                self.walks.sparse.begin();
            }
            self.start_move();
        }
    }

    fn start_move(&mut self) {
        while self.storage.pages.moving.now.is_none()
            && let Some((queue, run)) = self.storage.pages.moving.wanted.pop_front()
        {
            let Some(slot) = self.queues.get(queue) else { continue };
            let Some((kept, living)) = slot.extents.get(&run).zip(slot.fifo.living(run)) else { continue };
            let extent = kept.extent;
            if living.positions.is_empty() {
                continue;
            }
            let (position, copy, moved) = (0, Run::new(queue.0), Vec::new());
            self.storage.pages.moving.now =
                Some(Copying { queue, run, living, position, copy, moved, whole: false });
            self.read_to_copy(queue, run, 0, extent);
        }
    }

    fn read_to_copy(&mut self, queue: QueueId, run: u32, block: u32, extent: Extent) {
        let load = Load { run, block };
        self.storage
            .pages
            .read(u32::from(self.here.id), Reading { queue, load, extent, purpose: Purpose::Copy });
    }

    /// Handles a block of the run that is being moved; `None` if the run no longer exists.
    pub(in crate::shard) fn copied(&mut self, result: Option<Result<Block, ReadError>>) {
        let Some(now) = &mut self.storage.pages.moving.now else { return };
        let (queue, run) = (now.queue, now.run);
        match result {
            Some(Ok(block)) => {
                let next = block.next;
                now.push(block);
                let kept = self.queues.get(queue).and_then(|slot| slot.extents.get(&run)).copied();
                if now.whole {
                    return;
                }
                if let Some((block, kept)) = next.zip(kept) {
                    return self.read_to_copy(queue, run, block, kept.extent);
                }
            }
            Some(Err(error @ ReadError::Damaged { .. })) => self.quarantine(queue, &error.to_string()),
            Some(Err(error)) => {
                let (vhost, name) = self.metadata.catalog().names_of(queue);
                tracing::error!(target: QUEUE, queue = %name, %vhost, "a run cannot be moved: {error}");
            }
            None => {}
        }
        self.storage.pages.moving.now = None;
        self.start_move();
    }

    /// Called when the copy is safely written.
    pub(in crate::shard) fn moved(&mut self, extent: Extent) {
        let Some(Copying { queue, run, living, moved, .. }) = self.storage.pages.moving.now.take() else {
            return self.storage.pages.release(extent);
        };
        let mut new = None;
        self.with_queue(queue, |slot, output, _| {
            new = slot.fifo.handle_moved(run, &living, &moved, output);
            slot.extents.extend(new.map(|new| (new, RunPlace { extent, file: None })));
        });
        if new.is_none() {
            self.storage.pages.release(extent);
        }
        self.start_move();
    }
}
