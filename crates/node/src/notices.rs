//! Notices of other threads than the shards: the alarms, the desk and the log. They go to the deciding shard, which publishes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use broker::ids::DECIDER;
use broker::notices::{NOTICES_MAX, Notice};

use crate::incoming::{Incoming, Shards};

/// The way of notices to the deciding shard. No more than [`NOTICES_MAX`] are on it: others are dropped and counted, so that a
/// busy shard costs no memory.
#[derive(Clone, Debug)]
pub(crate) struct NoticeWay {
    shards: Shards,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    on_the_way: AtomicUsize,
    dropped: AtomicU64,
}

/// A notice on its way to a shard.
#[derive(Debug)]
pub(crate) struct OutsideNotice {
    notice: Notice,
    _place: Place,
}

/// The place of a notice among those on the way.
#[derive(Debug)]
struct Place(Arc<State>);

impl NoticeWay {
    pub fn new(shards: Shards) -> Self {
        Self { shards, state: Arc::default() }
    }

    /// Sends a notice. Never waits.
    pub fn send(&self, notice: Notice) {
        let Some(shard) = self.shards.get(usize::from(DECIDER)) else { return };
        if self.state.on_the_way.fetch_add(1, Relaxed) >= NOTICES_MAX {
            self.state.on_the_way.fetch_sub(1, Relaxed);
            self.state.dropped.fetch_add(1, Relaxed);
            return;
        }
        let outside = OutsideNotice { notice, _place: Place(self.state.clone()) };
        // Sending fails if the node stops.
        drop(shard.send(Incoming::Notice(outside)));
    }

    /// Returns the number of notices that were dropped on this way.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Relaxed)
    }
}

impl OutsideNotice {
    /// Called by the shard when it takes the notice in.
    pub fn into_notice(self) -> Notice {
        self.notice
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.on_the_way.fetch_sub(1, Relaxed);
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
        let Some(Incoming::Notice(notice)) = incoming.blocking_recv() else { panic!() };
        assert_eq!(&*notice.into_notice().key, "alarm.set");
        send();
        send();
        assert_eq!((incoming.len(), way.dropped()), (NOTICES_MAX, 4));
    }
}
