//! Ends, commits and rolls back turns ([`super::uncommitted`]).

use std::collections::{BTreeMap, VecDeque};

use message::Message;

use super::entry::Entry;
use super::journal::Journal;
use super::level::Rest;
use super::uncommitted::{Change, Closed, RolledBack, Stage, Uncommitted};
use super::{Counts, Fifo, Output};
use crate::{Carrier, ConsumerId, DeletedReason, Deliver, Fact, FactPolicy, Marks, Put};

impl Journal {
    /// Returns whether turns can be rolled back.
    #[inline]
    pub(super) fn can_roll_back(&self) -> bool {
        self.policy == FactPolicy::Always
    }

    /// Returns the number of staged messages and their bytes.
    #[inline]
    pub(super) fn staged(&self) -> (u64, u64) {
        self.uncommitted.as_ref().map_or((0, 0), |all| all.staged())
    }

    /// Removes a message for good. `from` is where it was.
    #[inline]
    pub(super) fn leave(&mut self, entry: Entry, from: Stage) {
        match self.can_roll_back() {
            true => self.park(entry, from),
            false => self.gone(&entry),
        }
    }

    /// Records where a message was before it leaves this place. If it moves several times in a turn, the first place
    /// counts.
    #[inline]
    pub(super) fn note(&mut self, entry: &Entry, from: Stage) {
        if self.can_roll_back() {
            self.note_change(entry, from);
        }
    }

    fn note_change(&mut self, entry: &Entry, from: Stage) {
        let marks = self.marks_of(entry);
        if let Some(all) = self.uncommitted.as_mut().filter(|_| entry.journaled) {
            all.push(entry.seq, from, marks, None);
        }
    }

    /// [`Self::leave`] for a queue whose turns can be rolled back.
    pub(super) fn park(&mut self, entry: Entry, from: Stage) {
        let marks = self.marks_of(&entry);
        self.annotated.forget(entry.seq);
        self.acquired.forget(entry.seq);
        if !entry.journaled {
            return;
        }
        self.push_gone(entry.seq);
        // The message counts as live until its removal is committed.
        if let Some(all) = &mut self.uncommitted {
            all.push(entry.seq, from, marks, Some(entry));
        }
    }

    /// Removes the unread messages of a run for good.
    pub(super) fn leave_rest(&mut self, rest: Rest) {
        let Some(all) = &mut self.uncommitted else {
            return self.runs.take_rest(rest.load.run, rest.index);
        };
        let Some(run) = self.runs.get(rest.load.run) else { return };
        all.park_rest(run.level, rest);
        let alive: Vec<u64> = run
            .seqs
            .from_position(rest.index)
            .filter(|(at, _)| run.is_alive(*at))
            .map(|(_, seq)| seq)
            .collect();
        alive.into_iter().for_each(|seq| self.push_gone(seq));
    }

    /// Returns whether unread messages of the run were removed, and the removal is not committed.
    pub(super) fn has_parked_rest(&self, run: u32) -> bool {
        self.uncommitted.iter().flat_map(|all| all.parked_rests()).any(|rest| rest.load.run == run)
    }

    /// Returns true if a rollback may return messages to this consumer.
    pub(super) fn may_return_to(&self, consumer: ConsumerId) -> bool {
        self.uncommitted.as_ref().is_some_and(|all| all.may_return_to(consumer))
    }

    /// Returns what deliveries have changed on a message.
    pub(super) fn marks_of(&self, entry: &Entry) -> Marks {
        let acquired_count = if self.can_roll_back() { self.acquired.count(entry) } else { 0 };
        Marks { acquired_count, annotations: self.annotated.get(entry.seq).cloned(), ..entry.marks() }
    }

    /// Restores the earlier marks of a message.
    pub(super) fn restore_marks(&mut self, entry: &mut Entry, marks: Marks) {
        (entry.delivery_count, entry.redelivered) = (marks.delivery_count, marks.redelivered);
        self.acquired.restore(entry.seq, marks.acquired_count);
        self.annotated.forget(entry.seq);
        marks.annotations.into_iter().for_each(|set| self.annotated.restore(entry.seq, set));
    }
}

impl Fifo {
    /// Sets the policy that the driver has chosen. Must be called before the first request.
    pub fn with_policy(mut self, policy: FactPolicy) -> Self {
        self.journal.policy = policy;
        let before = self.closed(0);
        self.journal.uncommitted = (policy == FactPolicy::Always).then(|| Box::new(Uncommitted::new(before)));
        self
    }

    fn closed(&self, turn: u64) -> Closed {
        let annotations_refused = self.journal.annotated.refused();
        let over_length = self.seldom.over_length;
        Closed { turn, next_seq: self.next_seq, counts: self.counts, annotations_refused, over_length }
    }

    /// Ends a turn of a machine whose turns can be rolled back. Returns the number of the turn, or that of the previous
    /// turn if this one changed nothing that can be rolled back.
    pub fn close_turn(&mut self) -> u64 {
        let closed = self.closed(0);
        self.journal.uncommitted.as_mut().map_or(0, |all| all.close(closed))
    }

    /// Accepts a message, but delivers it only after its turn is committed.
    #[cold]
    pub(super) fn stage(
        &mut self,
        message: Message,
        seq: u64,
        now_ms: u64,
        out: &mut Output,
        carrier: &mut dyn Carrier,
    ) {
        carrier.put(Put { seq, message: &message, at_ms: now_ms, deferrable: None });
        let entry = Entry { journaled: true, ..Entry::new(message, seq, now_ms) };
        self.journal.put(&entry);
        if let Some(all) = &mut self.journal.uncommitted {
            all.stage(entry);
        }
        self.shed(now_ms, out);
    }

    /// Called when the queue decides to end, and the decision can be rolled back. It ends when its fact is committed.
    pub(super) fn end_when_committed(&mut self, reason: DeletedReason, out: &mut Output) {
        self.journal.flush(out);
        if self.journal.uncommitted.as_mut().is_some_and(|all| all.end(reason)) {
            out.facts.push(Fact::Ended { reason });
        }
    }

    /// Returns true if the queue has decided to end, and that is not committed.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.journal.uncommitted.as_ref().is_some_and(|all| all.is_ending())
    }

    /// Returns true if the queue ends when the turns up to `turn` are committed.
    pub fn ends_by(&self, turn: u64) -> bool {
        self.journal.uncommitted.as_ref().is_some_and(|all| all.ends_by(turn).is_some())
    }

    /// Makes a staged message ready when its turn is committed. It may have expired meanwhile.
    #[cold]
    fn enter_late(&mut self, entry: Entry, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        let is_dead = entry.expires_ms(self.config.message_ttl_ms).is_some_and(|end_ms| end_ms <= now_ms);
        let direct = entry.message().filter(|_| !is_dead).and_then(|message| self.direct(message, out));
        self.enter(direct, entry, now_ms, out, deliver);
    }

    /// Called when the facts of the turns up to `turn` are committed. Their staged messages become ready, and their
    /// parked messages are dropped. All consequences belong to the open turn.
    pub fn commit_turns(&mut self, turn: u64, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        let Some(all) = self.journal.uncommitted.as_mut().filter(|_| self.end.is_none()) else { return };
        all.handle_committed(turn);
        if let Some(reason) = all.ends_by(turn) {
            self.end_for_good(reason, out);
            return self.journal.flush(out);
        }
        while let Some(entry) = self.journal.uncommitted.as_mut().and_then(|all| all.pop_parked(turn)) {
            self.journal.forget(&entry);
        }
        while let Some(rest) = self.journal.uncommitted.as_mut().and_then(|all| all.pop_parked_rest(turn)) {
            self.journal.runs.take_rest(rest.load.run, rest.index);
        }
        self.expire(now_ms, out);
        while let Some(entry) = self.journal.uncommitted.as_mut().and_then(|all| all.pop_staged(turn)) {
            self.enter_late(entry, now_ms, out, deliver);
        }
        if self.ages {
            self.dispatch(now_ms, out, deliver);
        }
        self.give_way_if_done(now_ms, out, deliver);
        self.journal.flush(out);
    }

    /// Called when this member leads no longer, so that the facts of all turns after `turn` are not its own to commit. Every message is
    /// restored to its state at the end of `turn`. The open turn must not have produced facts. Decides nothing: see
    /// [`Self::decide_again`].
    pub fn roll_back_turns(&mut self, turn: u64, now_ms: u64, out: &mut Output) {
        let uncommitted = self.journal.uncommitted.as_mut().filter(|_| self.end.is_none());
        let Some(rolled_back) = uncommitted.map(|all| all.roll_back(turn)) else { return };
        let RolledBack { staged, changes, rests, before } = rolled_back;
        for (_, entry) in &staged {
            self.journal.live_bytes -= entry.stored_bytes();
        }
        self.next_seq = before.next_seq;
        let Counts { delivered, delivered_settled, redelivered, .. } = self.counts;
        self.counts = Counts { delivered, delivered_settled, redelivered, ..before.counts };
        self.journal.annotated.set_refused(before.annotations_refused);
        if self.seldom.over_length != before.over_length {
            self.seldom.make().over_length = before.over_length;
        }
        self.give_up_writing();
        self.undo(changes, now_ms);
        for (level, rest) in rests {
            self.ready.put_back_rest(level, rest);
        }
        self.journal.flush(out);
    }

    /// Called when the queue may decide again after a rollback. Does what was due meanwhile: ends delays, sends dead letters, expires
    /// and drops messages, and delivers those that have returned. Ends the queue if it has lost its last consumer meanwhile.
    pub fn decide_again(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        if self.end.is_none() && !self.is_ending() {
            if self.journal.uncommitted.as_mut().is_some_and(|all| all.take_unused()) {
                self.end_if_unused(out);
            }
            self.end_delays(now_ms);
            self.retry(now_ms, out, deliver);
            self.journal.flush(out);
        }
    }

    fn undo(&mut self, changes: VecDeque<Change>, now_ms: u64) {
        let mut undone: BTreeMap<u64, Change> = BTreeMap::new();
        for mut change in changes.into_iter().rev() {
            // The older change has the earlier place. The newer one may hold the message.
            if let Some(newer) = undone.remove(&change.seq) {
                change.parked = newer.parked;
            }
            undone.insert(change.seq, change);
        }
        // A message that a consumer has stays with the consumer.
        for unsettled in self.consumers.unsettled_mut() {
            unsettled.widen();
            for entry in unsettled.entries_mut() {
                if let Some(change) = undone.remove(&entry.seq) {
                    self.journal.restore_marks(entry, change.marks());
                }
            }
            unsettled.narrow();
        }
        let dead = self.leaving.made().map(|leaving| leaving.take(|entry| undone.contains_key(&entry.seq)));
        let mut dead = dead.unwrap_or_default();
        // In descending order, because inserting at the front of a level is cheap.
        for (seq, change) in undone.into_iter().rev() {
            let (from, marks) = (change.from, change.marks());
            let found = change.parked.or_else(|| dead.remove(&seq)).or_else(|| self.take_known(seq));
            let Some(mut entry) = found else { continue };
            self.journal.restore_marks(&mut entry, marks);
            match from {
                Stage::Held { consumer, number } if let Some(slot) = self.consumers.slot(consumer) => {
                    self.held.add(&entry);
                    self.consumers.get(slot).unsettled.put_back(number, entry);
                }
                Stage::Held { .. } | Stage::Ready => self.ready.put_back(entry),
                Stage::Leaving(reason) => self.leaving.make().wait(entry, reason, now_ms),
            }
        }
    }

    /// [`Fifo::live_facts`] for a machine whose turns can be rolled back: reflects only committed facts. Parked
    /// messages count as live, staged ones do not.
    pub(super) fn committed_facts(&self, first: u64, last: u64, mut each: impl FnMut(Fact)) {
        let Some(all) = &self.journal.uncommitted else { return };
        let committed = all.committed_marks();
        let mut repeat = |entry: &Entry, due_ms: Option<u64>| {
            if !entry.journaled || entry.spot.is_some() || entry.seq < first || entry.seq > last {
                return;
            }
            let Some(put) = entry.put() else { return };
            each(put);
            let marks = match committed.get(&entry.seq) {
                Some(marks) => marks.clone(),
                None => Marks { due_ms, ..self.journal.marks_of(entry) },
            };
            if marks != Marks::default() {
                each(Fact::Returned { seq: entry.seq, marks });
            }
        };
        self.delayed.range(first, last).for_each(|(entry, due_ms)| repeat(entry, Some(due_ms)));
        let others = self.ready.range(first, last).chain(self.consumers.held()).chain(self.leaving.iter());
        others.chain(all.parked()).for_each(|entry| repeat(entry, None));
    }
}
