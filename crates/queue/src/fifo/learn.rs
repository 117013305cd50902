//! Learning: a member that does not lead applies the facts that the leader has decided, and decides nothing itself.

use std::num::NonZeroU64;

use super::entry::Entry;
use super::{Fifo, Output};
use crate::{Fact, Span};

impl Fifo {
    /// Called when the time of the queue was moved forward, and is `ahead_ms` ahead of the shard's clock now. How long the queue has been
    /// unused counts from now on.
    pub(crate) fn handle_time_moved(&mut self, now_ms: u64, ahead_ms: u64) {
        self.used_ms = NonZeroU64::new(now_ms);
        self.journal.uncommitted.iter_mut().for_each(|all| all.ahead_ms = ahead_ms);
    }

    /// Applies one committed fact that another member has decided, or this member before a restart or a rollback. The queue
    /// must have no turn that can be rolled back. A message that a consumer still holds is taken away from it.
    ///
    /// Facts after [`Fact::Ended`] are ignored.
    pub fn learn(&mut self, fact: Fact, out: &mut Output) {
        if self.ended().is_some() {
            return;
        }
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
                for entry in self.take_unready(first, last) {
                    self.journal.forget(&entry);
                }
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
            Fact::Ended { reason } => self.end_for_good(reason, out),
        }
        self.journal.flush(out);
    }

    /// Takes out a message that is in memory or has been read.
    fn take_learned(&mut self, seq: u64) -> Option<Entry> {
        self.give_up_writing();
        self.take_known(seq).or_else(|| self.take_unready(seq, seq).pop())
    }

    /// Takes out the messages between `first` and `last` that consumers hold, and the dead letters among them. Only a
    /// member that has led before has any.
    fn take_unready(&mut self, first: u64, last: u64) -> Vec<Entry> {
        let mut taken = Vec::new();
        if self.held.messages() > 0 {
            let mut done = Vec::new();
            for (slot, consumer) in self.consumers.slots_mut() {
                taken.append(&mut consumer.unsettled.take_seqs(first, last));
                if consumer.cancelled && consumer.unsettled.is_empty() {
                    done.push(slot);
                }
            }
            taken.iter().for_each(|entry| self.held.remove(entry));
            done.into_iter().for_each(|slot| self.forget_if_done(slot));
        }
        if self.leaving.len() > 0
            && let Some(leaving) = self.leaving.made()
        {
            taken.extend(leaving.take(|entry| (first..=last).contains(&entry.seq)).into_values());
        }
        taken
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
