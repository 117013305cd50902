//! The classic and quorum queues that live on a shard: their machines, and the requests that wait until a queue has a
//! home (the shard that owns it).
//!
//! [`Queues`] itself knows neither connections nor the log. [`super::Shard`] carries out what a machine emits, in
//! `take_output`. Other components call [`Queues::get`], [`Queues::at`] and the like to inspect a queue, and
//! [`super::Shard::with_queue`] to have its machine do something.

mod apply;
mod effects;
mod ended;
mod operators;
mod owner;

use std::collections::VecDeque;
use std::sync::Arc;

use catalog::QueueRecord;
use catalog::ids::QueueId;
use hashbrown::HashMap;
use queue::{Depth, Effect, Output, Request};

use self::ended::Ended;
use super::Shard;
use super::connections::Gates;
use super::deadlines::Deadlines;
use super::slot::QueueSlot;

/// The queues of a shard. See the module.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// By the slot of their id. Only queues that live here have an entry.
    slots: Vec<Option<Box<QueueSlot>>>,
    /// Requests for queues without a home, or that the driver of a queue holds back. They are bounded,
    /// because each request has used up credit or a ticket.
    waiting: HashMap<QueueId, Vec<Request>>,
    /// Dead letters whose route takes more than a turn, and those of the same queue behind them. A queue has at most
    /// [`queue::LEAVING_MAX`] on their way.
    dead_letters: HashMap<QueueId, WaitingLetters>,
    /// Queues that have ended, and that the catalog has not forgotten.
    ended: Ended,
    /// Empty; its memory is reused for a machine's next output.
    output: Output,
    deadlines: Deadlines<QueueId>,
    /// The sum over all queues that live here. A queue's part is updated when its output is taken.
    depth: Depth,
    /// The number of queues that live here.
    count: usize,
}

/// Dead letters that wait, and their queue as it was when the first one died. It may have ended since.
#[derive(Debug)]
struct WaitingLetters {
    record: Arc<QueueRecord>,
    letters: VecDeque<Effect>,
}

impl Queues {
    /// See [`Ended::answer_later`].
    pub(super) fn answer_later(&mut self, queue: QueueId, request: &Request) -> bool {
        self.ended.answer_later(queue, request)
    }

    pub(super) fn get(&self, queue: QueueId) -> Option<&QueueSlot> {
        self.slots.get(queue.slot())?.as_deref().filter(|slot| slot.id == queue)
    }

    pub(super) fn get_mut(&mut self, queue: QueueId) -> Option<&mut QueueSlot> {
        self.slots.get_mut(queue.slot())?.as_deref_mut().filter(|slot| slot.id == queue)
    }

    /// The number of places. The place of a queue is the slot of its id.
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn at(&self, place: usize) -> Option<&QueueSlot> {
        self.slots.get(place)?.as_deref()
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut QueueSlot> {
        self.slots.get_mut(place)?.as_deref_mut()
    }

    /// Returns the number of queues that live here.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns how many messages all queues that live here have.
    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// Returns the earliest time, in milliseconds since the epoch, at which a queue may have something due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.deadlines.first().into_iter().chain(self.ended.next_due()).min()
    }

    fn insert(&mut self, mut slot: QueueSlot) {
        let at = slot.id.slot();
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.deadlines.note(slot.id, &mut slot.noted_ms, slot.driver.next_timeout(&slot.fifo));
        slot.recount_depth(&mut self.depth);
        let before = self.slots[at].replace(Box::new(slot));
        self.count += usize::from(before.is_none());
    }

    fn remove(&mut self, queue: QueueId) -> Option<Box<QueueSlot>> {
        let mut gone = self.slots.get_mut(queue.slot())?.take_if(|slot| slot.id == queue)?;
        self.deadlines.forget(queue, &mut gone.noted_ms);
        self.depth -= gone.depth_counted();
        self.count -= 1;
        Some(gone)
    }
}

impl Shard {
    /// Calls `act` with a queue, and carries out what its machine emits. Does nothing if the queue does not live
    /// here.
    pub(in crate::shard) fn with_queue(
        &mut self,
        queue: QueueId,
        act: impl FnOnce(&mut QueueSlot, &mut Output, &mut Gates<'_>),
    ) {
        let mut gates = self.connections.gates(self.here, &self.metadata, &mut self.mail, &mut self.counters);
        let Some(slot) = self.queues.slots.get_mut(queue.slot()).and_then(Option::as_mut) else { return };
        if slot.id != queue {
            return;
        }
        let mut output = std::mem::take(&mut self.queues.output);
        act(slot, &mut output, &mut gates);
        self.take_output(queue, &mut output);
        self.queues.output = output;
    }
}
