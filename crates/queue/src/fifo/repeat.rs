//! Repeats the facts of live messages in parts. The log needs them in an evacuation (copying live records out of an old
//! log file).
//!
//! ```text
//!   ready, level by level ──> held, consumer by consumer ──> leaving ──> runs
//! ```
//!
//! Between two parts, the queue continues to work. A message that moves to the right is repeated at its new place. A
//! message that moves to the left is repeated at once ([`super::journal::Journal::repeat_returned`]). So no message is
//! missed. Repeating a message twice does no harm: it restores the same message.

use super::Fifo;
use super::entry::Entry;
use crate::{Fact, Logged};

/// What to repeat, and the progress.
pub(super) struct Repeating {
    /// Sequence numbers. The ranges ascend and do not overlap.
    ranges: Vec<(u64, u64)>,
    runs: Vec<u32>,
    next: Next,
}

/// The start of the next part.
#[derive(Clone, Copy)]
enum Next {
    /// A sequence number of a range. If it is below the range, the range starts at its first number.
    Ready {
        level: usize,
        range: usize,
        seq: u64,
    },
    /// A number of the consumer in this slot.
    Held {
        slot: usize,
        number: u64,
    },
    /// A number counted over all messages that were ever queued to leave.
    Queued(u64),
    /// The other dead letters.
    Leaving,
    Runs,
    Nothing,
}

impl Next {
    const FIRST: Self = Self::Ready { level: 0, range: 0, seq: 0 };
}

impl Repeating {
    pub(super) fn begin_again(&mut self) {
        self.next = Next::FIRST;
    }

    /// Returns whether the facts of a message must be repeated.
    pub(super) fn wants(&self, entry: &Entry) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < entry.seq);
        entry.journaled
            && entry.spot.is_none()
            && self.ranges.get(at).is_some_and(|(first, _)| *first <= entry.seq)
    }
}

impl Fifo {
    /// Begins to repeat the facts of live messages in these ranges of sequence numbers and in these runs. The ranges
    /// must ascend and not overlap. The facts restore the messages without earlier facts. [`Fifo::repeat`] continues.
    pub fn begin_repeat(&mut self, ranges: Vec<(u64, u64)>, runs: Vec<u32>) {
        self.journal.repeating = Some(Box::new(Repeating { ranges, runs, next: Next::FIRST }));
    }

    /// Returns whether [`Fifo::repeat`] has work to do.
    pub fn is_repeating(&self) -> bool {
        self.journal.repeating.is_some()
    }

    /// Repeats the next facts, visiting at most `rows_max` messages, which is at least one. Returns the number of
    /// visited messages. Two groups are always visited as a whole: dead letters that were sent or wait for a retry, at
    /// most [`super::LEAVING_MAX`], and the messages of all runs that have been read.
    pub fn repeat(&mut self, rows_max: usize, mut each: impl FnMut(Logged)) -> usize {
        let Some(mut repeating) = self.journal.repeating.take() else { return 0 };
        let mut rows = 0;
        while rows < rows_max {
            if rows > 0 && matches!(repeating.next, Next::Leaving) && self.leaving.len() > rows_max - rows {
                // The runs are visited as a whole, so they get a part of their own.
                break;
            }
            let (walked, next) = self.repeat_part(&repeating, rows_max - rows, &mut each);
            rows += walked;
            repeating.next = next;
            if matches!(next, Next::Nothing) {
                return rows;
            }
        }
        self.journal.repeating = Some(repeating);
        rows
    }

    /// Returns the number of visited messages and the start of the next part.
    fn repeat_part(&self, all: &Repeating, rows: usize, each: &mut dyn FnMut(Logged)) -> (usize, Next) {
        let journal = &self.journal;
        let mut repeat = |entry: &Entry| {
            if all.wants(entry) {
                journal.repeat(entry, &mut |fact: Fact| each(fact.into()));
            }
        };
        match all.next {
            Next::Ready { .. } if journal.can_roll_back() => {
                let mut rows = 1;
                for &(first, last) in &all.ranges {
                    self.committed_facts(first, last, |fact| {
                        rows += 1;
                        each(fact.into());
                    });
                }
                (rows, Next::Runs)
            }
            Next::Ready { level, range, seq } => {
                let Some(found) = self.ready.level(level) else {
                    return (0, Next::Held { slot: 0, number: 0 });
                };
                let Some((found, &(first, last))) = found.zip(all.ranges.get(range)) else {
                    return (0, Next::Ready { level: level + 1, range: 0, seq: 0 });
                };
                let first = first.max(seq);
                let reach = found.reach(first, last, rows);
                let walked = found.range(first, reach).map(&mut repeat).count();
                let next = match reach < last {
                    true => Next::Ready { level, range, seq: reach + 1 },
                    false => Next::Ready { level, range: range + 1, seq: 0 },
                };
                (walked.max(1), next)
            }
            Next::Held { slot, number } => {
                let Some(unsettled) = self.consumers.unsettled_at(slot) else { return (0, Next::Queued(0)) };
                let (mut walked, mut next) = (0, Next::Held { slot: slot + 1, number: 0 });
                for (number, entry) in
                    unsettled.into_iter().flat_map(|held| held.entries_from(number)).take(rows)
                {
                    repeat(entry);
                    walked += 1;
                    if walked == rows {
                        next = Next::Held { slot, number: number + 1 };
                    }
                }
                (walked.max(1), next)
            }
            Next::Queued(from) => {
                let walked = self.leaving.queued_from(from).take(rows).map(&mut repeat).count();
                let from = from.max(self.leaving.first_queued()) + walked as u64;
                (walked, if walked < rows { Next::Leaving } else { Next::Queued(from) })
            }
            Next::Leaving => {
                let walked = self.leaving.unqueued().map(&mut repeat).count();
                (walked, Next::Runs)
            }
            Next::Runs if all.runs.is_empty() => (0, Next::Nothing),
            Next::Runs => {
                self.run_facts(&all.runs, |fact| each(fact.into()));
                (self.references().count().max(1), Next::Nothing)
            }
            Next::Nothing => (0, Next::Nothing),
        }
    }
}
