//! Learning: a member that does not lead applies the facts that the leader has decided, and decides nothing itself.

use super::entry::Entry;
use super::{End, Fifo};
use crate::{Fact, Span};

impl Fifo {
    /// Applies one committed fact that was decided elsewhere, or in an earlier life. The queue must have no consumers and no
    /// turn that can be rolled back. Facts of runs are local to a member and do not occur here.
    pub fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Put { seq, message, at_ms } => {
                if seq < self.next_seq
                    && let Some(known) = self.take_known(seq)
                {
                    self.journal.forget(&known);
                }
                self.next_seq = self.next_seq.max(seq.saturating_add(1));
                let entry = Entry { journaled: true, ..Entry::new(message, seq, at_ms) };
                self.ages |= entry.ttl_ms().is_some();
                self.journal.put(&entry);
                self.ready.put_back(entry);
            }
            Fact::Gone(Span { first, last }) => {
                self.next_seq = self.next_seq.max(last.saturating_add(1));
                let delayed = self.delayed.range(first, last).map(|(entry, _)| entry);
                let gone = self.ready.range(first, last).chain(delayed).map(|entry| entry.seq);
                let gone: Vec<u64> = gone.collect();
                for seq in gone {
                    let known = self.take_known(seq);
                    known.iter().for_each(|entry| self.journal.forget(entry));
                }
            }
            Fact::Returned { seq, marks } => {
                if let Some(mut entry) = self.take_known(seq) {
                    let due_ms = marks.due_ms;
                    self.journal.restore_marks(&mut entry, marks);
                    match due_ms {
                        Some(due_ms) => self.delayed.add(entry, due_ms),
                        None => self.ready.put_back(entry),
                    }
                }
            }
            Fact::Damaged => self.end = Some(End::Damaged),
            Fact::Stored(_) | Fact::Taken(_) => {}
        }
    }

    /// Removes and returns the ready or delayed message with this sequence number.
    pub(super) fn take_known(&mut self, seq: u64) -> Option<Entry> {
        self.ready.take(seq).or_else(|| self.delayed.take(seq))
    }
}
