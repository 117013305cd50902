//! Learning: a member that does not lead applies the facts that the leader has decided, and decides nothing itself.

use super::entry::Entry;
use super::{Fifo, Output};
use crate::{Fact, Span};

impl Fifo {
    /// Applies one committed fact that another member has decided, or this member before a restart. The queue must have no
    /// consumers and no turn that can be rolled back.
    pub fn learn(&mut self, fact: Fact, out: &mut Output) {
        match fact {
            Fact::Put { seq, message, at_ms } => {
                let is_next = seq >= self.next_seq;
                if !is_next {
                    if self.journal.runs.holds(seq) {
                        return;
                    }
                    self.forget(seq);
                }
                self.next_seq = self.next_seq.max(seq.saturating_add(1));
                let entry = Entry { journaled: true, ..Entry::new(message, seq, at_ms) };
                self.ages |= entry.ttl_ms().is_some();
                self.journal.put(&entry);
                match is_next {
                    true => self.ready.push(entry),
                    false => self.ready.put_back(entry),
                }
            }
            Fact::Gone(Span { first, last }) => {
                self.next_seq = self.next_seq.max(last.saturating_add(1));
                let delayed = self.delayed.range(first, last).map(|(entry, _)| entry.seq);
                let mut known = self.ready.seqs(first, last);
                known.extend(delayed);
                known.into_iter().for_each(|seq| self.forget(seq));
                for (run, level) in self.journal.runs.unread_in(Span { first, last }) {
                    let Some(unread) = self.ready.rest_of(level, run).map(|rest| rest.index) else {
                        continue;
                    };
                    let (messages, bytes) = self.journal.runs.take_unread(run, unread, Span { first, last });
                    self.ready.shrink_rest(level, run, messages.into(), bytes);
                }
            }
            Fact::Returned { seq, marks } => match self.take_learned(seq) {
                Some(mut entry) => {
                    let due_ms = marks.due_ms;
                    self.journal.restore_marks(&mut entry, marks);
                    match due_ms {
                        Some(due_ms) => self.delayed.add(entry, due_ms),
                        None => self.ready.put_back(entry),
                    }
                }
                None => self.journal.runs.mark(seq, marks),
            },
        }
        self.journal.flush(out);
    }

    /// Takes out a ready or delayed message that is in memory or has been read.
    fn take_learned(&mut self, seq: u64) -> Option<Entry> {
        self.give_up_writing();
        self.take_known(seq)
    }

    fn forget(&mut self, seq: u64) {
        if let Some(entry) = self.take_learned(seq) {
            self.journal.forget(&entry);
        }
    }

    /// Removes and returns the ready or delayed message with this sequence number, unless it has not been read.
    pub(super) fn take_known(&mut self, seq: u64) -> Option<Entry> {
        self.ready.take(seq).or_else(|| self.delayed.take(seq))
    }
}
