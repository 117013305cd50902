//! Notices of other threads than the shards: the alarms, the admin API and the log. They go to the node shard, which publishes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use broker::ids::NODE_SHARD;
use broker::notices::{NOTICES_MAX, Notice};
use tokio::sync::Semaphore;

use crate::incoming::{Incoming, Shards};

/// The way of notices to the node shard. No more than [`NOTICES_MAX`] are on it: others are dropped and counted, so that a
/// busy shard costs no memory.
#[derive(Clone, Debug)]
pub struct NoticeWay {
    shards: Shards,
    /// A place for each notice that may be on the way.
    places: Arc<Semaphore>,
    dropped: Arc<AtomicU64>,
}

impl NoticeWay {
    pub(crate) fn new(shards: Shards) -> Self {
        Self { shards, places: Arc::new(Semaphore::new(NOTICES_MAX)), dropped: Arc::default() }
    }

    /// Sends a notice. Never waits.
    pub fn send(&self, notice: Notice) {
        let Some(shard) = self.shards.get(usize::from(NODE_SHARD)) else { return };
        match self.places.clone().try_acquire_owned() {
            // Sending fails if the node stops.
            Ok(place) => drop(shard.send(Incoming::Notice(notice, place))),
            Err(_) => _ = self.dropped.fetch_add(1, Relaxed),
        }
    }

    /// Returns the number of notices that were dropped on this way.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_shard_that_takes_nothing_in_costs_no_memory() {
        let (shard, mut incoming) = mpsc::unbounded_channel();
        let way = NoticeWay::new(vec![shard]);
        let send = || way.send(Notice::event(&"/".into(), "alarm.set", 0, |_| ()));
        (0..NOTICES_MAX + 3).for_each(|_| send());
        assert_eq!((incoming.len(), way.dropped()), (NOTICES_MAX, 3));
        let Some(Incoming::Notice(notice, place)) = incoming.blocking_recv() else { panic!() };
        assert_eq!(&*notice.key, "alarm.set");
        drop(place);
        send();
        send();
        assert_eq!((incoming.len(), way.dropped()), (NOTICES_MAX, 4));
    }
}
