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
                    && let Some(known) = self.ready.take(seq)
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
                let gone: Vec<u64> = self.ready.range(first, last).map(|entry| entry.seq).collect();
                for entry in gone.into_iter().filter_map(|seq| self.ready.take(seq)) {
                    self.journal.forget(&entry);
                }
            }
            Fact::Returned { seq, marks } => {
                if let Some(mut entry) = self.ready.take(seq) {
                    self.journal.restore_marks(&mut entry, marks);
                    self.ready.put_back(entry);
                }
            }
            Fact::Damaged => self.end = Some(End::Damaged),
            Fact::Stored(_) | Fact::Taken(_) => {}
        }
    }
}
