//! The consumer timeout of quorum queues: deliveries that a consumer holds too long return to the queue.
//!
//! ```text
//!   check ──► mark: "all deliveries below this number were sent by now"
//!     │                                                                 ... Revoked ──► paused ──Resume──► served again
//!     └─ a later check finds the mark older than the timeout ──► requeue what is left below its number
//! ```
//!
//! A delivery does not record when it was sent. Instead, the queue looks at its consumers from time to time and marks how
//! far the numbers have come. So a delivery is taken back after the timeout, but at most an eighth of it later.

use ranges::{Ranges, Span};

use super::consumers::{Consumer, Slot, Standing};
use super::settle::Returned;
use super::timeout::Mark;
use super::{Fifo, Output};
use crate::{Deliver, Effect};

/// The number of checks during one timeout. With more of them, deliveries are taken back sooner after their timeout.
const CHECKS: u64 = 8;

impl Consumer {
    /// Marks the deliveries so far, and returns those that are held for too long. `after_ms` is the timeout.
    fn check(&mut self, after_ms: u64, now_ms: u64) -> Vec<Span> {
        let Self { timeout: Some(timeout), unsettled, .. } = self else { return Vec::new() };
        let mut end = 0;
        while let Some(mark) = timeout.marks.front()
            && mark.at_ms.saturating_add(after_ms) <= now_ms
        {
            end = mark.next;
            timeout.marks.pop_front();
        }
        let mut overdue: Vec<Span> = Vec::new();
        if end > 0 {
            for number in unsettled.numbers(0, end - 1) {
                overdue.push_joined(Span { first: number, last: number });
            }
        }
        let next = unsettled.next_number();
        let is_needed = match timeout.marks.back() {
            Some(mark) => next > mark.next && mark.at_ms.saturating_add(after_ms / CHECKS) <= now_ms,
            None => next > end,
        };
        if is_needed && !unsettled.is_empty() {
            timeout.marks.push_back(Mark { next, at_ms: now_ms });
        }
        overdue
    }
}

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
            let Some(after_ms) = consumer.timeout.as_ref().and_then(|timeout| timeout.after_ms(queue_ms))
            else {
                continue;
            };
            let numbers = consumer.check(after_ms, now_ms);
            let mark = consumer.timeout.as_ref().and_then(|timeout| timeout.marks.front());
            let due_ms = mark.map_or(u64::MAX, |mark| mark.at_ms.saturating_add(after_ms));
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
        self.put_back(&mut entries, &Returned::failed(false), now_ms, out);
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
