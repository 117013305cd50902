//! Changes of the single active consumer while the earlier one stays. Only in quorum queues.

use super::consumers::{Slot, Standing};
use super::{Fifo, Output};
use crate::Deliver;

impl Fifo {
    /// Lets a better consumer of a quorum queue become the single active one, and tells both.
    pub(super) fn change_active(&mut self, out: &mut Output) {
        if let Some((before, after)) = self.consumers.reelect() {
            self.notify_active(before, out);
            self.notify_active(after, out);
        }
    }

    /// Called after a consumer has settled deliveries: if it holds none any more, it may have to give way.
    pub(super) fn give_way_if_done(
        &mut self,
        slot: Slot,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        let consumer = self.consumers.get(slot);
        if consumer.standing == Standing::Yielding && consumer.unsettled.is_empty() {
            self.change_active(out);
            self.dispatch(now_ms, out, deliver);
        }
    }
}
