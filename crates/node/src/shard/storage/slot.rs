//! A queue with its machine, and where its messages are.

use std::collections::BTreeMap;

use broker::ids::QueueId;
use queue::{Driver, Fact, Fifo, Load, Span, Taken};
use ranges::replace_joined;
use wal::Extent;

use crate::facts::Place;

/// A queue that lives here.
pub(in crate::shard) struct QueueSlot {
    pub id: QueueId,
    /// Decides what of it goes to the log, and when.
    pub driver: Driver,
    pub fifo: Fifo,
    /// Where in the log its messages are, the oldest first.
    pub places: Vec<Place>,
    /// Where its runs on the disk stand.
    pub extents: BTreeMap<u32, RunPlace>,
    /// What could be paged out, when it was counted last.
    pub pageable: u64,
    /// It is among the queues that [`super::pages::Pages`] looks at.
    pub is_large: bool,
    /// What [`QueueSlot::live_bytes`] said last.
    pub live_counted: u64,
    /// What [`Fifo::depth`] returned last.
    pub depth_counted: (u64, u64),
    /// The last Gone and Taken of this turn, kept back so that the next may continue them.
    pub gone: Option<Span>,
    pub taken: Option<Taken>,
    /// It is among the queues that [`super::unwritten::AllUnwritten`] looks at.
    pub defers: bool,
    /// The version of the policies that its settings are of.
    pub policies: u64,
    /// The time of its entry in the deadlines of queues.
    pub noted_ms: Option<u64>,
}

/// A run on the disk.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct RunPlace {
    pub extent: Extent,
    /// The file of the log that says so, once it is written.
    pub file: Option<u64>,
}

/// What a block was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub queue: QueueId,
    pub load: Load,
    pub extent: Extent,
    /// It is to be copied, not to be delivered.
    pub copied: bool,
}

impl QueueSlot {
    /// Keeps back a fact that the next may continue. Returns the one that was kept and has ended.
    pub fn keep_back(&mut self, fact: &Fact) -> Option<Fact> {
        match *fact {
            Fact::Gone(span) => replace_joined(&mut self.gone, span).map(Fact::Gone),
            Fact::Taken(taken) => replace_joined(&mut self.taken, taken).map(Fact::Taken),
            _ => None,
        }
    }

    /// What was kept back.
    pub fn take_kept(&mut self) -> impl Iterator<Item = Fact> + use<> {
        self.gone.take().map(Fact::Gone).into_iter().chain(self.taken.take().map(Fact::Taken))
    }

    pub fn live_bytes(&self) -> u64 {
        match self.driver.is_logged() {
            true => self.fifo.live_bytes().saturating_sub(self.driver.deferral().bytes),
            false => 0,
        }
    }

    /// Corrects the sum of what is alive.
    pub fn recount_live(&mut self, sum: &mut u64) {
        let live = self.live_bytes();
        *sum = *sum - self.live_counted + live;
        self.live_counted = live;
    }

    pub fn note_place(&mut self, place: Place) {
        match self.places.last_mut() {
            Some(known) if known.file == place.file && known.last < place.first => known.last = place.last,
            _ => self.places.push(place),
        }
    }

    /// Corrects the sums of ready and of unsettled messages.
    #[inline]
    pub fn recount_depth(&mut self, (ready, unsettled): &mut (u64, u64)) {
        let depth = self.fifo.depth();
        *ready = *ready - self.depth_counted.0 + depth.0;
        *unsettled = *unsettled - self.depth_counted.1 + depth.1;
        self.depth_counted = depth;
    }
}

impl std::fmt::Debug for QueueSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueSlot({:?})", self.id)
    }
}
