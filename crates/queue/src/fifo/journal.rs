//! Collects the facts of a call.

use message::Message;
use ranges::{Range, Ranges, Span};

use super::acquired::Acquired;
use super::annotated::Annotated;
use super::entry::{Entry, Spot};
use super::repeat::Repeating;
use super::runs::Runs;
use super::uncommitted::Uncommitted;
use super::{Fifo, Output};
use crate::{Fact, FactPolicy, LocalFact, Marks};

/// The capacity for ranges that is kept between calls.
const KEPT_RANGES: usize = 1024;

/// The facts of one queue, and the messages that were removed during the current call, merged into ranges.
#[derive(Default)]
pub(super) struct Journal {
    pub policy: FactPolicy,
    gone: Vec<Span>,
    /// The bytes of all records that were put and whose messages were neither removed nor stored in a run.
    pub live_bytes: u64,
    pub runs: Runs,
    pub annotated: Annotated,
    pub acquired: Acquired,
    /// Boxed because classic queues have none.
    pub uncommitted: Option<Box<Uncommitted>>,
    /// Boxed because it is rarely present.
    pub repeating: Option<Box<Repeating>>,
}

impl Journal {
    /// Returns whether the queue has facts.
    pub(super) fn keeps(&self) -> bool {
        self.policy != FactPolicy::Never
    }

    /// Called when the journal has received the message.
    pub(super) fn put(&mut self, entry: &Entry) {
        self.live_bytes += entry.stored_bytes();
    }

    /// Called when the message has left the queue, so that no restart may restore it.
    pub(super) fn gone(&mut self, entry: &Entry) {
        self.annotated.forget(entry.seq);
        if entry.spot.is_some() {
            return self.runs.take(entry);
        }
        if !entry.journaled {
            return;
        }
        self.live_bytes -= entry.stored_bytes();
        self.push_gone(entry.seq);
    }

    /// Called when a committed fact says that the message is gone. No more facts are written about the message.
    pub(super) fn forget(&mut self, entry: &Entry) {
        self.annotated.forget(entry.seq);
        self.acquired.forget(entry.seq);
        match entry.spot {
            Some(_) => self.runs.take(entry),
            None => self.live_bytes -= entry.stored_bytes(),
        }
    }

    /// Adds a message to those that are gone.
    #[inline(always)]
    pub(super) fn push_gone(&mut self, seq: u64) {
        self.gone.push_joined(Span { first: seq, last: seq });
    }

    /// Returns the message with the annotations that consumers have set, or `None` if there are none.
    #[inline]
    pub(super) fn shown(&self, entry: &Entry) -> Option<Message> {
        if self.annotated.is_empty() { None } else { self.annotated.shown(entry.seq, entry.message()?) }
    }

    /// Returns the fact that stores the message with its annotations, if it is in memory.
    pub(super) fn put_of(&self, entry: &Entry) -> Option<Fact> {
        let put = entry.put()?;
        match (put, self.shown(entry)) {
            (Fact::Put { seq, at_ms, .. }, Some(message)) => Some(Fact::Put { seq, message, at_ms }),
            (put, _) => Some(put),
        }
    }

    /// Returns the fact with the marks and annotations of a message in a run.
    pub(super) fn marked(&self, seq: u64, marks: Marks) -> LocalFact {
        LocalFact::Marked { seq, marks: Marks { annotations: self.annotated.get(seq).cloned(), ..marks } }
    }

    /// Called when the message at `spot` was read for the first time. Returns it with its earlier marks, and the time until
    /// which it is delayed. Returns `None` if it is not alive.
    pub(super) fn take_in(&mut self, spot: Spot, entry: Entry) -> Option<(Entry, Option<u64>)> {
        let (mut entry, marks) = self.runs.take_in(spot, entry)?;
        let due_ms = marks.as_ref().and_then(|marks| marks.due_ms);
        marks.into_iter().for_each(|marks| self.restore_marks(&mut entry, marks));
        Some((entry, due_ms))
    }

    /// Ends the call. Facts about removed messages come after the other facts of the call.
    #[inline]
    pub(super) fn flush(&mut self, out: &mut Output) {
        if self.runs.has_output() {
            self.runs.flush(&mut out.local, &mut out.released);
        }
        if !self.gone.is_empty() {
            self.flush_gone(out);
        }
    }

    /// Frees buffers that are empty between calls.
    pub(super) fn shrink(&mut self) {
        self.gone = Vec::new();
        self.uncommitted.iter_mut().for_each(|all| all.shrink());
    }

    fn flush_gone(&mut self, out: &mut Output) {
        if !self.gone.is_sorted() {
            self.gone.sort_unstable();
            self.gone.dedup_by(|next, last| last.join(next));
        }
        out.facts.extend(self.gone.drain(..).map(Fact::Gone));
        if self.gone.capacity() > KEPT_RANGES {
            self.gone.shrink_to(KEPT_RANGES);
        }
    }
}

impl Journal {
    /// Calls `each` with the facts of a message that is in no run.
    pub(super) fn repeat(&self, entry: &Entry, each: &mut dyn FnMut(Fact)) {
        let Some(put) = self.put_of(entry) else { return };
        each(put);
        let marks = entry.marks();
        if marks != Marks::default() {
            each(Fact::Returned { seq: entry.seq, marks });
        }
    }

    /// Repeats a returned message now, because the repetition may have passed its new place already.
    pub(super) fn repeat_returned(&self, entry: &Entry, facts: &mut Vec<Fact>) {
        // Where turns can be rolled back, the repetition is a single part.
        if !self.can_roll_back() && self.repeating.as_ref().is_some_and(|repeating| repeating.wants(entry)) {
            self.repeat(entry, &mut |fact| facts.push(fact));
        }
    }

    /// Restarts the repetition. Called when messages were put back without [`Self::repeat_returned`].
    pub(super) fn repeat_from_first(&mut self) {
        self.repeating.iter_mut().for_each(|repeating| repeating.begin_again());
    }
}

impl Fifo {
    /// Returns the approximate size of the facts of live messages that are in no run, in bytes.
    pub fn live_bytes(&self) -> u64 {
        self.journal.live_bytes + self.journal.annotated.bytes()
    }

    /// Repeats the facts of the live messages between `first` and `last` that are in no run. These facts
    /// restore the messages without earlier facts. They come in no particular order.
    pub fn live_facts(&self, first: u64, last: u64, mut each: impl FnMut(Fact)) {
        if self.journal.can_roll_back() {
            return self.committed_facts(first, last, each);
        }
        let mut repeat = |entry: &Entry| {
            if !entry.journaled || entry.spot.is_some() || entry.seq < first || entry.seq > last {
                return;
            }
            self.journal.repeat(entry, &mut each);
        };
        self.ready.range(first, last).for_each(&mut repeat);
        self.consumers.held().for_each(&mut repeat);
        self.leaving.iter().for_each(&mut repeat);
    }
}
