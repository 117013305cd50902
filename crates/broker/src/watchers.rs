//! Publishers that end when the queue that they publish to is deleted.

use catalog::ids::QueueId;
use hashbrown::HashMap;
use queue::PublisherId;

/// The publishers of one shard, by the queue that they watch.
#[derive(Debug, Default)]
pub struct Watchers(HashMap<QueueId, Vec<PublisherId>>);

impl Watchers {
    pub fn add(&mut self, queue: QueueId, publisher: PublisherId) {
        self.0.entry(queue).or_default().push(publisher);
    }

    pub fn remove(&mut self, queue: QueueId, publisher: PublisherId) {
        if let Some(all) = self.0.get_mut(&queue) {
            all.retain(|p| *p != publisher);
            if all.is_empty() {
                self.0.remove(&queue);
            }
        }
    }

    /// Removes a queue that was deleted. Returns its publishers, for
    /// [`crate::gate::Gate::handle_target_gone`].
    pub fn take(&mut self, queue: QueueId) -> Vec<PublisherId> {
        self.0.remove(&queue).unwrap_or_default()
    }
}
