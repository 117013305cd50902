//! Settles and requeues deliveries.

use std::num::NonZeroU64;

use message::{Annotations, DeathReason};

use super::consumers::{Slot, Standing};
use super::entry::{Entry, Leave};
use super::journal::Journal;
use super::uncommitted::Stage;
use super::{Fifo, Output};
use crate::{ConsumerId, DeletedReason, Deliver, Effect, Fact, GoneReason, Marks, Outcome};

/// The capacity for entries that is kept between calls.
const KEPT_ENTRIES: usize = 1024;

impl Fifo {
    pub(super) fn settle(
        &mut self,
        id: ConsumerId,
        (first, last): (u64, u64),
        outcome: Outcome,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        let Some(slot) = self.consumers.slot(id) else { return };
        match outcome {
            Outcome::Accepted => self.accept(slot, first, last),
            Outcome::Rejected => self.reject(slot, (first, last), &Returned::failed(true), now_ms, out),
            Outcome::Released => {
                self.release(slot, (first, last), Some(&Returned::failed(false)), now_ms, out, deliver);
            }
            Outcome::Unsent => self.release(slot, (first, last), None, now_ms, out, deliver),
            Outcome::Modified { failed, undeliverable_here, annotations } => {
                let returned = Returned { failed, annotations };
                match undeliverable_here {
                    true => self.reject(slot, (first, last), &returned, now_ms, out),
                    false => self.release(slot, (first, last), Some(&returned), now_ms, out, deliver),
                }
            }
        }
        self.give_way_if_done(now_ms, out, deliver);
        self.forget_if_done(slot);
    }

    pub(super) fn cancel(
        &mut self,
        id: ConsumerId,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        out.effects.push(Effect::Gone { consumer: id, reason: GoneReason::Cancelled });
        let Some(slot) = self.consumers.slot(id) else { return };
        if self.consumers.get(slot).standing == Standing::Holding {
            return;
        }
        let next = self.retire(slot, now_ms);
        self.consumers.get(slot).cancelled = true;
        self.forget_if_done(slot);
        if !self.end_if_unused(out) {
            next.into_iter().for_each(|next| self.notify_active(next, out));
            self.change_active(out);
            self.dispatch(now_ms, out, deliver);
        }
    }

    pub(super) fn detach(
        &mut self,
        id: ConsumerId,
        failed: bool,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        self.abandon_fetches(id, out);
        out.effects.push(Effect::Gone { consumer: id, reason: GoneReason::Detached });
        let Some(slot) = self.consumers.slot(id) else { return };
        let was_consumer = self.consumers.get(slot).standing != Standing::Holding;
        let next = self.retire(slot, now_ms);
        let mut entries: Vec<Entry> = self.consumers.remove(slot).unsettled.into_entries().collect();
        for entry in &entries {
            self.held.remove(entry);
            self.journal.note(entry, Stage::Ready);
        }
        if was_consumer && self.end_if_unused(out) {
            return;
        }
        self.put_back(&mut entries, Some(&Returned::failed(failed)), now_ms, out);
        // The requeued messages count as available to it.
        next.into_iter().for_each(|next| self.notify_active(next, out));
        self.change_active(out);
        self.shed(now_ms, out);
        // A requeued message may have expired. It dies before messages of higher levels are delivered.
        self.expire(now_ms, out);
        self.dispatch(now_ms, out, deliver);
    }

    /// Ends a consumer, or a holder of fetched messages, because one of its settlements is lost. Its messages return to the
    /// queue as they are: nobody has decided anything about them, so that needs no fact. Decides nothing: see [`Self::decide_again`].
    /// Does nothing if the consumer has ended already.
    pub(crate) fn lose_consumer(&mut self, id: ConsumerId, now_ms: u64, out: &mut Output) {
        let Some(slot) = self.consumers.slot(id) else { return };
        self.abandon_fetches(id, out);
        out.effects.push(Effect::Gone { consumer: id, reason: GoneReason::OutOfReach { node: None } });
        let next = self.retire(slot, now_ms);
        let mut entries: Vec<Entry> = self.consumers.remove(slot).unsettled.into_entries().collect();
        while let Some(entry) = entries.pop() {
            self.held.remove(&entry);
            self.ready.put_back(entry);
        }
        next.into_iter().for_each(|next| self.notify_active(next, out));
        self.change_active(out);
    }

    fn accept(&mut self, slot: Slot, first: u64, last: u64) {
        let Self { journal, held, consumers, counts, .. } = self;
        let before = held.messages();
        let holder = consumers.get(slot);
        let consumer = holder.id;
        match journal.can_roll_back() {
            true => holder.unsettled.take(first, last, |number, entry| {
                held.remove(&entry);
                journal.park(entry, Stage::Held { consumer, number });
            }),
            false => holder.unsettled.take(first, last, |_, entry| {
                held.remove(&entry);
                journal.gone(&entry);
            }),
        }
        counts.acknowledged += before - held.messages();
    }

    fn reject(
        &mut self,
        slot: Slot,
        (first, last): (u64, u64),
        returned: &Returned,
        now_ms: u64,
        out: &mut Output,
    ) {
        let mut entries = self.take(slot, first, last);
        self.end_rounds();
        for mut entry in entries.drain(..) {
            // Marked now, because the message may be restored before its dead letter has arrived.
            if self.config.dead_letter.is_some() {
                self.journal.mark(&mut entry, returned, None, &mut out.facts);
            }
            self.kill(entry, DeathReason::Rejected, now_ms, out);
        }
        self.taken = entries;
    }

    fn release(
        &mut self,
        slot: Slot,
        (first, last): (u64, u64),
        returned: Option<&Returned>,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        let mut entries = self.take(slot, first, last);
        let is_holder = self.consumers.get(slot).standing == Standing::Holding;
        match returned {
            // What a cancelled consumer returns unsent counts as fetched, so its next delivery is counted again.
            None => {
                let leave = if is_holder { Leave::Fetched } else { Leave::Pushed };
                entries.iter_mut().for_each(|entry| entry.came_back = Some(leave));
            }
            Some(returned) if !is_holder => self.count_rounds(&entries, returned, now_ms),
            Some(_) => {}
        }
        self.put_back(&mut entries, returned, now_ms, out);
        entries.shrink_to(KEPT_ENTRIES);
        self.taken = entries;
        self.shed(now_ms, out);
        // A requeued message may have expired. It dies before messages of higher levels are delivered.
        self.expire(now_ms, out);
        self.dispatch(now_ms, out, deliver);
    }

    /// Requeues messages at their places, at once or after a delay, except those that have failed too often. Without
    /// `returned` they were not delivered, and stay as they are. `entries` ascend by number.
    pub(super) fn put_back(
        &mut self,
        entries: &mut Vec<Entry>,
        returned: Option<&Returned>,
        now_ms: u64,
        out: &mut Output,
    ) {
        let delay = returned.and_then(|returned| self.delay(returned, now_ms));
        let due_ms = |delivery_count| delay.and_then(|delay| delay.due_ms(delivery_count));
        for entry in entries.iter_mut() {
            if let Some(returned) = returned {
                let failures = entry.delivery_count.saturating_add(u32::from(returned.failed));
                self.journal.mark(entry, returned, due_ms(failures), &mut out.facts);
            }
            self.journal.repeat_returned(entry, &mut out.facts);
        }
        if returned.is_some_and(|returned| returned.failed) && self.config.quorum.is_some() {
            self.kill_failed(entries, now_ms, out);
        }
        while let Some(entry) = entries.pop() {
            match due_ms(entry.delivery_count) {
                Some(due_ms) => self.delayed.add(entry, due_ms),
                None => self.ready.put_back(entry),
            }
        }
    }

    /// Dead-letters or drops the messages beyond the delivery limit. Each is marked already.
    #[cold]
    fn kill_failed(&mut self, entries: &mut Vec<Entry>, now_ms: u64, out: &mut Output) {
        let Some(limit) = self.config.quorum.and_then(|quorum| quorum.delivery_limit()) else { return };
        for entry in entries.extract_if(.., |entry| entry.delivery_count > limit) {
            self.counts.over_limit += 1;
            self.counts.acknowledged_before = self.counts.acknowledged;
            self.end_rounds();
            self.kill(entry, DeathReason::DeliveryLimit, now_ms, out);
        }
    }

    pub(super) fn take(&mut self, slot: Slot, first: u64, last: u64) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.taken);
        let Self { journal, held, consumers, .. } = self;
        let holder = consumers.get(slot);
        let consumer = holder.id;
        holder.unsettled.take(first, last, |number, entry| {
            held.remove(&entry);
            journal.note(&entry, Stage::Held { consumer, number });
            entries.push(entry);
        });
        entries
    }

    /// Makes a consumer a holder. Returns the consumer that became active instead, if any.
    fn retire(&mut self, slot: Slot, now_ms: u64) -> Option<Slot> {
        if self.consumers.get(slot).standing != Standing::Holding {
            self.used_ms = NonZeroU64::new(now_ms);
        }
        self.consumers.retire(slot)
    }

    /// Deletes the queue if it has lost its last consumer. Returns true if it has ended for good.
    pub(super) fn end_if_unused(&mut self, out: &mut Output) -> bool {
        if self.config.auto_delete && self.consumers.count() == 0 {
            self.delete(DeletedReason::Unused, None, out);
        }
        self.end.is_some()
    }

    /// Removes a cancelled consumer that has no unsettled messages left.
    pub(super) fn forget_if_done(&mut self, slot: Slot) {
        let consumer = self.consumers.get(slot);
        if consumer.cancelled && consumer.unsettled.is_empty() {
            self.consumers.remove(slot);
        }
    }
}

/// What an unsuccessful delivery changes on its message.
pub(super) struct Returned {
    /// True if it counts as a failed delivery.
    pub failed: bool,
    pub annotations: Option<Box<Annotations>>,
}

impl Returned {
    pub(super) fn failed(failed: bool) -> Self {
        Self { failed, annotations: None }
    }
}

impl Journal {
    /// Marks a message that is rejected, or requeued and delayed until `due_ms`. Writes a fact if the message must
    /// survive.
    fn mark(&mut self, entry: &mut Entry, returned: &Returned, due_ms: Option<u64>, facts: &mut Vec<Fact>) {
        let annotated = returned.annotations.as_ref().is_some_and(|newer| self.annotated.merge(entry, newer));
        // Replicated queues count every requeue.
        let counts = self.can_roll_back();
        if counts {
            self.acquired.raise(entry);
        }
        let changed = entry.mark_returned(returned.failed) || annotated || counts;
        if changed && entry.journaled {
            facts.push(Fact::Returned { seq: entry.seq, marks: Marks { due_ms, ..self.marks_of(entry) } });
        }
    }
}
