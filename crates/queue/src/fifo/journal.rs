//! Facts on their way out.

use message::Message;
use ranges::{Range, Ranges, Span};

use super::annotated::Annotated;
use super::entry::{Entry, Spot};
use super::repeat::Repeating;
use super::runs::Runs;
use super::uncommitted::Uncommitted;
use super::{Fifo, Output};
use crate::{Fact, FactPolicy, Marks};

/// Ranges beyond this give their memory back after the call.
const KEPT_RANGES: usize = 1024;

/// Messages that went during one call, merged into ranges.
#[derive(Default)]
pub(super) struct Journal {
    pub policy: FactPolicy,
    gone: Vec<Span>,
    /// Bytes of the messages that were put and have neither gone nor been stored in a run.
    pub live_bytes: u64,
    pub runs: Runs,
    pub annotated: Annotated,
    /// Boxed, for classic queues have none.
    pub uncommitted: Option<Box<Uncommitted>>,
    /// Boxed, for hardly a queue ever has one.
    pub repeating: Option<Box<Repeating>>,
}

impl Journal {
    /// Whether the queue has facts.
    pub fn keeps(&self) -> bool {
        self.policy != FactPolicy::Never
    }

    /// The journal has it now.
    pub fn put(&mut self, entry: &Entry) {
        self.live_bytes += entry.stored_bytes();
    }

    /// The journal need not restore this one any more.
    pub fn gone(&mut self, entry: &Entry) {
        self.annotated.forget(entry.seq);
        if entry.spot.is_some() {
            return self.runs.take(entry);
        }
        if !entry.journaled {
            return;
        }
        self.live_bytes -= entry.stored_bytes();
        self.gone.push_joined(Span { first: entry.seq, last: entry.seq });
    }

    /// The message as consumers have annotated it; `None` if none has.
    #[inline]
    pub fn shown(&self, entry: &Entry) -> Option<Message> {
        if self.annotated.is_empty() { None } else { self.annotated.shown(entry.seq, entry.message()?) }
    }

    /// What is written of a message, if it is in memory: with its annotations.
    pub fn put_of(&self, entry: &Entry) -> Option<Fact> {
        let put = entry.put()?;
        match (put, self.shown(entry)) {
            (Fact::Put { seq, at_ms, .. }, Some(message)) => Some(Fact::Put { seq, message, at_ms }),
            (put, _) => Some(put),
        }
    }

    /// The marks of a message, with its annotations.
    pub fn returned(&self, seq: u64, marks: Marks) -> Fact {
        Fact::Returned { seq, marks: Marks { annotations: self.annotated.get(seq).cloned(), ..marks } }
    }

    /// See [`Runs::take_in`].
    pub fn take_in(&mut self, spot: Spot, entry: Entry) -> Option<Entry> {
        self.runs.take_in(spot, entry, &mut self.annotated)
    }

    /// Ends the call: what went follows everything else that was said in it.
    #[inline]
    pub fn flush(&mut self, out: &mut Output) {
        if self.runs.has_news() {
            self.runs.flush(&mut out.facts, &mut out.released);
        }
        if !self.gone.is_empty() {
            self.flush_gone(out);
        }
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
    /// Calls `each` with the facts of a message that stands in no run.
    pub fn repeat(&self, entry: &Entry, each: &mut dyn FnMut(Fact)) {
        let Some(put) = self.put_of(entry) else { return };
        each(put);
        let marks = entry.marks();
        if marks != Marks::default() {
            each(Fact::Returned { seq: entry.seq, marks });
        }
    }

    /// A message goes back to where the repetition may have been: repeats it now.
    pub fn repeat_returned(&self, entry: &Entry, facts: &mut Vec<Fact>) {
        if self.repeating.as_ref().is_some_and(|repeating| repeating.wants(entry)) {
            self.repeat(entry, &mut |fact| facts.push(fact));
        }
    }

    /// Messages have gone back without [`Self::repeat_returned`]: the repetition begins again.
    pub fn repeat_from_first(&mut self) {
        self.repeating.iter_mut().for_each(|repeating| repeating.begin_again());
    }
}

impl Fifo {
    /// About how many bytes the facts of the living messages take that are in no run.
    pub fn live_bytes(&self) -> u64 {
        self.journal.live_bytes + self.journal.annotated.bytes()
    }

    /// The facts of what is alive between `first` and `last` and in no run, said again: enough to restore it
    /// without the facts that were said before. The order is that of nothing in particular.
    pub fn live_facts(&self, first: u64, last: u64, mut each: impl FnMut(Fact)) {
        if self.journal.can_fall() {
            return self.learned_facts(first, last, each);
        }
        let mut say = |entry: &Entry| {
            if !entry.journaled || entry.spot.is_some() || entry.seq < first || entry.seq > last {
                return;
            }
            self.journal.repeat(entry, &mut each);
        };
        self.ready.range(first, last).for_each(&mut say);
        self.consumers.held().for_each(&mut say);
        self.leaving.iter().for_each(&mut say);
    }
}
