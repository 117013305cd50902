//! The driver of a classic durable queue.

use super::deferred::{ALL_DUE, Deferral, Deferred};
use super::{Awaits, Level, ends};
use crate::fifo::{Fifo, Output};
use crate::{Fact, LocalFact, Put, Receipt, Span, Verdict};

/// Applies every request at once. The facts go to the log in the same order. A receipt is sent when its record is
/// written (with `x-fsync`: synced), or when its message is settled before that (docs/decisions/0022).
#[derive(Debug, Default)]
pub struct Solo {
    fsync: bool,
    deferred: Deferred,
}

impl Solo {
    pub fn new(fsync: bool) -> Self {
        Self { fsync, deferred: Deferred::default() }
    }

    /// Returns whether records must be synced.
    #[inline]
    pub fn syncs(&self) -> bool {
        self.fsync
    }

    /// Returns the level that records must reach before the receipts that depend on them are sent.
    #[inline]
    pub fn level(&self) -> Level {
        if self.fsync { Level::Synced } else { Level::Written }
    }

    pub fn set_fsync(&mut self, fsync: bool) {
        self.fsync = fsync;
    }

    pub fn deferral(&self) -> Deferral {
        self.deferred.deferral()
    }

    /// Defers the writing of a message and takes over its receipt, if that pays and its record has at most `room`
    /// bytes. Returns the size of the record in bytes, or `None` if the message must be written now.
    #[inline]
    pub fn defer(&mut self, put: Put<'_>, room: u64) -> Option<u64> {
        if self.fsync { None } else { self.deferred.defer(put, room) }
    }

    /// Returns when the oldest deferred message must be written, in milliseconds since the epoch.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deferred.next_deadline()
    }

    /// Ends the deferral of the messages that are due at `now_ms`. Calls `each` with their facts. Returns their
    /// receipts, which depend on these facts.
    pub fn write_due(&mut self, fifo: &Fifo, now_ms: u64, each: impl FnMut(Fact)) -> Vec<Receipt> {
        self.deferred.write_due(fifo, now_ms, each)
    }

    /// Ends the deferral of all messages without writing them, because the queue was deleted. Calls `each` with their
    /// receipts.
    pub fn release(&mut self, each: impl FnMut(Receipt)) {
        self.deferred.release(each);
    }

    /// See [`super::Drive::close`].
    #[inline]
    pub(super) fn close(&mut self, fifo: &Fifo, output: &mut Output) -> Awaits {
        let has_facts = !output.facts.is_empty() || !output.local.is_empty();
        if has_facts && !self.deferred.is_empty() {
            self.remove_settled_facts(fifo, output);
        }
        if ends(&output.effects) {
            self.deferred.release(|receipt| output.receipts.push_all(receipt));
            // A queue that has ended is not restored, so its receipts depend on no facts.
            output.receipts.leave_at_once();
        }
        Awaits::Log(self.level())
    }

    /// Removes the facts of messages that were settled while their writing was deferred. Their receipts are sent now.
    fn remove_settled_facts(&mut self, fifo: &Fifo, output: &mut Output) {
        let Output { facts, local, receipts, .. } = output;
        let mut has_other_facts = local.iter().any(|fact| match fact {
            LocalFact::GoneFromRun(_) => false,
            LocalFact::Stored(_) | LocalFact::Marked { .. } | LocalFact::Damaged => true,
        });
        facts.retain(|fact| match *fact {
            Fact::Gone(Span { first, last }) => {
                let settled = self.deferred.settle(first, last, |run| {
                    receipts.push_all(run.receipt(Verdict::Accepted, false));
                });
                settled < last - first + 1
            }
            Fact::Put { .. } | Fact::Returned { .. } | Fact::Ended { .. } => {
                has_other_facts = true;
                true
            }
        });
        // The log must have a message before it gets other facts about it.
        if has_other_facts {
            let mut puts = Vec::new();
            let written = self.deferred.write_due(fifo, ALL_DUE, |fact| puts.push(fact));
            facts.splice(..0, puts);
            written.into_iter().for_each(|receipt| receipts.push_all(receipt));
        }
    }
}
