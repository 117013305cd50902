//! A queue that lives on a shard: its machine, the member of its group, and the places of its messages. The components of the shard share
//! it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use catalog::ids::QueueId;
use queue::{Deferral, Depth, Driver, Fact, Fifo, GoneFromRun, Level, LocalFact, Receipt, Span};
use ranges::replace_joined;
use wal::Extent;

use super::groups::Hosted;
use crate::facts::SeqsInFile;

/// A queue whose home is this shard.
///
/// Most queues of a large broker are idle, so rare parts are behind pointers.
pub(in crate::shard) struct QueueSlot {
    pub id: QueueId,
    /// Decides which facts are written to the log, and when.
    pub driver: Driver,
    pub fifo: Fifo,
    /// This node's member of the Raft group, if it is a quorum queue. `None` if the queue is closed because of damage.
    pub group: Option<Box<Hosted>>,
    /// Where the queue's messages are in the log, oldest first.
    pub places: Vec<SeqsInFile>,
    /// Where the queue's paged-out runs are on the disk.
    pub extents: BTreeMap<u32, RunPlace>,
    /// Bytes that could be paged out, at the last count.
    pub pageable: u64,
    /// The queue is in the large queues of [`super::storage`].
    pub is_large: bool,
    /// The last result of [`QueueSlot::live_bytes`].
    pub live_counted: u64,
    /// The ready messages at the last count.
    pub ready_counted: u64,
    /// The unsettled, delayed and leaving messages at the last count. They take memory, so there are fewer than 2^32.
    pub others_counted: [u32; 3],
    /// The last `Gone` and `GoneFromRun` of this turn. They are kept back so that the next fact may continue them.
    pub gone: Option<Span>,
    pub taken: Option<GoneFromRun>,
    /// The queue is in the list of [`super::storage`] of queues that defer writing.
    pub defers: bool,
    /// The version of the policies that its settings were made from.
    pub policies: u32,
    /// The queue's deadline in the list of all deadlines, in milliseconds since the epoch.
    pub noted_ms: Option<NonZeroU64>,
}

/// One byte more, and the allocator would give the slot 1,024 bytes.
const _: () = assert!(size_of::<QueueSlot>() <= 896);

/// A run on the disk.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct RunPlace {
    pub extent: Extent,
    /// The file of the log with its `Stored` record, once that is written.
    pub file: Option<u64>,
}

impl QueueSlot {
    /// Keeps back a fact that the next one may continue. Returns the previous one if it cannot be continued
    /// any more.
    pub(crate) fn keep_gone(&mut self, gone: Span) -> Option<Fact> {
        replace_joined(&mut self.gone, gone).map(Fact::Gone)
    }

    /// [`Self::keep_gone`] for messages of a run.
    pub(crate) fn keep_taken(&mut self, taken: GoneFromRun) -> Option<LocalFact> {
        replace_joined(&mut self.taken, taken).map(LocalFact::GoneFromRun)
    }

    /// Returns whether facts are kept back.
    pub(crate) fn has_kept(&self) -> bool {
        self.gone.is_some() || self.taken.is_some()
    }

    /// Takes the facts that were kept back.
    pub(crate) fn take_kept(&mut self) -> (Option<Fact>, Option<LocalFact>) {
        (self.gone.take().map(Fact::Gone), self.taken.take().map(LocalFact::GoneFromRun))
    }

    /// Returns true if facts about the disk may be kept back for a while. Those of a quorum queue may not, because an entry of the group
    /// may come next, which has its other facts.
    pub(crate) fn may_keep_back(&self) -> bool {
        self.group.is_none()
    }

    /// Returns whether the facts of the queue go to the log.
    pub(crate) fn is_logged(&self) -> bool {
        self.driver.is_logged()
    }

    /// Returns whether records of the queue must be synced.
    pub(crate) fn syncs(&self) -> bool {
        self.driver.syncs()
    }

    /// Returns the level that records of the queue must reach before the receipts that depend on them are sent.
    pub(crate) fn level(&self) -> Level {
        self.driver.level()
    }

    /// Returns how much is deferred.
    pub(crate) fn deferral(&self) -> Deferral {
        self.driver.deferral()
    }

    /// Returns when the oldest deferred message must be written, in milliseconds since the epoch.
    pub(crate) fn next_deferred_ms(&self) -> Option<u64> {
        self.driver.next_deferred_ms()
    }

    /// Ends the deferral of the messages that are due at `now_ms`. Calls `each` with their facts. Returns their receipts, which
    /// depend on these facts.
    pub(crate) fn write_due(&mut self, now_ms: u64, each: impl FnMut(Fact)) -> Vec<Receipt> {
        self.driver.write_due(&self.fifo, now_ms, each)
    }

    /// Ends the deferral of all messages without writing them, because the queue was deleted. Calls `each` with their receipts.
    pub(crate) fn release_deferred(&mut self, each: impl FnMut(Receipt)) {
        self.driver.release(each);
    }

    /// Returns true if the records of all runs must be written again before the log files up to `file` are deleted. The entries before
    /// the base of a group say which messages of a run are gone. They are void when the base is written again.
    pub(crate) fn repeats_all_runs(&self, file: u64) -> bool {
        self.group.as_ref().is_some_and(|group| group.base_file <= file)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        match self.driver.is_logged() {
            true => self.fifo.live_bytes().saturating_sub(self.driver.deferral().bytes),
            false => 0,
        }
    }

    /// Updates the sum of live bytes.
    pub(crate) fn recount_live(&mut self, sum: &mut u64) {
        let live = self.live_bytes();
        *sum = *sum - self.live_counted + live;
        self.live_counted = live;
    }

    /// Frees memory that the queue does not need while nothing happens.
    pub(crate) fn shrink(&mut self) {
        self.fifo.shrink();
        self.driver.shrink();
        self.places.shrink_to_fit();
    }

    pub(crate) fn note_place(&mut self, place: SeqsInFile) {
        match self.places.last_mut() {
            Some(known) if known.file == place.file && known.last < place.first => known.last = place.last,
            _ => self.places.push(place),
        }
    }

    /// Updates the sum of messages.
    #[inline]
    pub(crate) fn recount_depth(&mut self, sum: &mut Depth) {
        let Depth { ready, unsettled, delayed, leaving } = self.fifo.depth();
        *sum -= self.depth_counted();
        self.ready_counted = ready;
        self.others_counted = [unsettled, delayed, leaving].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        *sum += self.depth_counted();
    }

    /// Returns how many messages the queue had at the last count.
    #[inline]
    pub(crate) fn depth_counted(&self) -> Depth {
        let [unsettled, delayed, leaving] = self.others_counted.map(u64::from);
        Depth { ready: self.ready_counted, unsettled, delayed, leaving }
    }
}

impl std::fmt::Debug for QueueSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueSlot({:?})", self.id)
    }
}
