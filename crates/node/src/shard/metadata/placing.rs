//! Where queues live. The node shard places them and notifies all shards.

use broker::ids::{NODE_SHARD, Where};
use broker::mail::Mail;
use catalog::ids::{QueueId, ShardId};
use catalog::{Change, QueueRecord};

use crate::shard::Shard;

impl Shard {
    /// On the node shard: assigns a queue to the shard that owns it (its home). Does nothing if the queue
    /// has a home or is deleted.
    pub(in crate::shard) fn place(&mut self, queue: QueueId, home: ShardId) {
        let is_known = self.metadata.catalog.queue_by_id(queue).is_some();
        if !is_known || self.metadata.placements.home(queue) != Where::Unplaced {
            return;
        }
        let (version, home) = (self.metadata.placements.version() + 1, Where::Here(home));
        for to in self.mail.shards().filter(|to| *to != self.here.id) {
            self.mail.send(to, Mail::Placed { version, queue, home });
        }
        self.handle_placed(version, queue, home);
    }

    /// Called on every shard with a declaration: a queue that another node has is there.
    pub(super) fn place_elsewhere(&mut self, record: &QueueRecord) {
        if let Some(home) = self.metadata.catalog.node_with(record, self.here.number) {
            self.metadata.placements.place(record.id, Where::On(home));
        }
    }

    /// Called on every shard when the node shard has placed a queue.
    pub(in crate::shard) fn handle_placed(&mut self, version: u64, queue: QueueId, home: Where) {
        self.metadata.placements.place(queue, home);
        debug_assert_eq!(self.metadata.placements.version(), version, "placements come in their order");
        self.queue_placed(queue, home);
    }

    /// Called on the node shard of the asker after it has applied a change. A queue that may expire gets its machine
    /// at once, because only the machine measures its unused time. So does an exclusive queue, which lives on
    /// the shard of its connection, and a quorum queue, whose group is founded now. `from` is the shard that proposed the change. Quorum
    /// queues that one client declares are divided among the shards.
    pub(super) fn place_declared(&mut self, change: &Change, from: ShardId) {
        if let Change::QueueDeclared(declared) = change
            && let Some(queue) = self.metadata.catalog.queue_by_id(declared.id)
            && (queue.exclusive.is_some() || queue.is_quorum() || self.waits(&queue))
        {
            let shards = self.mail.shards().len();
            let other = if queue.is_quorum() { declared.id.slot() % shards } else { 0 };
            self.place(declared.id, ((usize::from(from) + other) % shards) as ShardId);
        }
    }

    /// Refreshes the queue at this place of the catalog after policies may have changed. On the node
    /// shard, a queue that may now expire gets its machine.
    pub(in crate::shard) fn visit_for_policies(&mut self, place: usize) {
        let Some(record) = self.metadata.catalog.refresh_queue_at(place) else { return };
        let queue = record.id;
        if self.here.id == NODE_SHARD && self.waits(&record) {
            self.place(queue, (place % self.mail.shards().len()) as ShardId);
        }
        self.configure(queue);
    }

    /// Returns true if a queue may expire and has no machine to measure the time.
    fn waits(&self, queue: &QueueRecord) -> bool {
        queue.may_expire() && self.metadata.placements.home(queue.id) == Where::Unplaced
    }
}
