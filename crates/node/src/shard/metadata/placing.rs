//! Where queues live: the shard that decides places them, and all shards hear of it.

use broker::catalog::{Change, QueueRecord};
use broker::ids::{QueueId, ShardId};
use broker::mail::Mail;

use crate::shard::Shard;

impl Shard {
    /// On the shard that decides: gives a queue its home, unless it has one or is gone.
    pub(in crate::shard) fn place(&mut self, queue: QueueId, home: ShardId) {
        let is_known = self.metadata.catalog.queue_by_id(queue).is_some();
        if !is_known || self.metadata.placements.home(queue).is_some() {
            return;
        }
        let version = self.metadata.placements.version() + 1;
        for to in self.mail.shards().filter(|to| *to != self.here.id) {
            self.mail.send(to, Mail::Placed { version, queue, home });
        }
        self.handle_placed(version, queue, home);
    }

    /// The shard that decides has placed a queue.
    pub(in crate::shard) fn handle_placed(&mut self, version: u64, queue: QueueId, home: ShardId) {
        self.metadata.placements.place(queue, home);
        debug_assert_eq!(self.metadata.placements.version(), version, "placements come in their order");
        self.queue_placed(queue, home);
    }

    /// To be called when a change has been applied on the shard that decides. A queue that may expire gets its machine at
    /// once, for nothing else counts the time in which nobody uses it. So does an exclusive queue, which lives where its
    /// connection does. `from`: the shard of who asked for the change.
    pub(super) fn place_declared(&mut self, change: &Change, from: ShardId) {
        if let Change::QueueDeclared(declared) = change
            && let Some(queue) = self.metadata.catalog.queue_by_id(declared.id)
            && (queue.exclusive.is_some() || self.waits(&queue))
        {
            self.place(declared.id, from);
        }
    }

    /// The policies may have changed for the queue at this place of the catalog. On the shard that decides, a queue that may
    /// expire now gets its machine.
    pub(in crate::shard) fn visit_for_policies(&mut self, place: usize) {
        let Some(record) = self.metadata.catalog.refresh_queue_at(place) else { return };
        let queue = record.id;
        if self.metadata.decides() && self.waits(&record) {
            self.place(queue, (place % self.mail.shards().len()) as ShardId);
        }
        self.configure(queue);
    }

    /// Whether a queue may expire and has no machine that counts the time.
    fn waits(&self, queue: &QueueRecord) -> bool {
        queue.may_expire() && self.metadata.placements.home(queue.id).is_none()
    }
}
