//! Takes back deliveries that consumers of quorum queues hold for longer than their timeout (docs/decisions/0031).
//!
//! ```text
//!   check ──► mark: "all deliveries below this number were sent by now"
//!     │                                                                 ... Revoked ──► paused ──Resume──► served again
//!     └─ a later check finds the mark older than the timeout ──► requeue what is left below its number
//! ```

use ranges::Span;

use super::consumers::Slot;
use super::settle::Returned;
use super::timeout::CHECKS;
use super::{Fifo, Output};
use crate::{Deliver, Effect};

impl Fifo {
    /// Returns when the consumers must be checked next.
    pub(super) fn timeout_deadline(&self) -> Option<u64> {
        (self.config.quorum.is_some() && self.held.messages() > 0).then_some(self.next_check_ms)
    }

    /// Makes the next check soon. Called when a consumer attaches, and when a timeout may have become shorter.
    pub(super) fn check_soon(&mut self) {
        self.next_check_ms = 0;
    }

    /// Takes back the deliveries that consumers hold for too long.
    pub(super) fn end_timeouts(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        if self.timeout_deadline().is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        let queue_ms = self.config.quorum.and_then(|quorum| quorum.consumer_timeout_ms);
        let mut overdue: Vec<(Slot, Vec<Span>)> = Vec::new();
        let mut next_ms = u64::MAX;
        for (slot, consumer) in self.consumers.slots_mut() {
            let Some(timeout) = &mut consumer.timeout else { continue };
            let Some(after_ms) = timeout.after_ms(queue_ms) else { continue };
            let numbers = timeout.check(&consumer.unsettled, after_ms, now_ms);
            let due_ms = timeout.due_ms(after_ms).unwrap_or(u64::MAX);
            next_ms = next_ms.min(now_ms.saturating_add((after_ms / CHECKS).max(1))).min(due_ms);
            if !numbers.is_empty() {
                overdue.push((slot, numbers));
            }
        }
        self.next_check_ms = next_ms;
        // All of them are paused before anything is requeued. Otherwise, one could get what was taken from another one.
        for (slot, numbers) in &overdue {
            let id = self.consumers.pause(*slot);
            out.effects.push(Effect::Revoked { consumer: id, numbers: numbers.clone() });
        }
        for (slot, numbers) in overdue {
            for Span { first, last } in numbers {
                let taken = self.take_back(slot, (first, last), now_ms, out);
                if let Some(timeout) = &mut self.consumers.get(slot).timeout {
                    timeout.taken_back += taken;
                }
            }
            self.forget_if_done(slot);
        }
        self.change_active(out);
        self.shed(now_ms, out);
        self.expire(now_ms, out);
        self.dispatch(now_ms, out, deliver);
    }

    /// Requeues deliveries. Returns their number.
    fn take_back(&mut self, slot: Slot, (first, last): (u64, u64), now_ms: u64, out: &mut Output) -> u64 {
        let mut entries = self.take(slot, first, last);
        let taken = entries.len() as u64;
        self.put_back(&mut entries, Some(&Returned::failed(false)), now_ms, out);
        self.taken = entries;
        taken
    }

    /// Serves a consumer again that has settled what was taken back from it. `taken_back` is the number of deliveries that
    /// it knows to be taken back. If there are more, it stays paused.
    pub(super) fn resume(
        &mut self,
        slot: Slot,
        taken_back: u64,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        if self.consumers.get(slot).timeout.as_ref().is_none_or(|timeout| timeout.taken_back != taken_back) {
            return;
        }
        self.consumers.unpause(slot);
        self.change_active(out);
        self.dispatch(now_ms, out, deliver);
    }
}
