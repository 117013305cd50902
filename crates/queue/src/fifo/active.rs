//! Changes of the single active consumer while the earlier one stays. Only in quorum queues.

use super::consumers::Consumer;
use super::{Fifo, Output};
use crate::Deliver;

impl Fifo {
    /// Lets a better consumer become the single active one, and tells both. Returns true if they have changed places. The
    /// earlier one first settles what it holds, and its settlements must be committed: if they are rolled back, it holds
    /// the messages again.
    pub(super) fn change_active(&mut self, out: &mut Output) -> bool {
        let Self { consumers, journal, .. } = self;
        let holds_none =
            |consumer: &Consumer| consumer.unsettled.is_empty() && !journal.may_return_to(consumer.id);
        let Some((before, after)) = consumers.reelect(holds_none) else { return false };
        self.notify_active(before, out);
        self.notify_active(after, out);
        true
    }

    /// Called when the active consumer may have settled its last message.
    pub(super) fn give_way_if_done(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        if self.consumers.is_yielding() && self.change_active(out) {
            self.dispatch(now_ms, out, deliver);
        }
    }
}
