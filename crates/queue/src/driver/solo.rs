//! The driver of a classic durable queue.

use super::deferred::{ALL_DUE, Deferral, Deferred};
use super::{Level, Mark, ends};
use crate::fifo::{Fifo, Output};
use crate::{Fact, Put, Receipt, Span, Verdict};

/// Everything applies at once, and facts go to the log in the same order. A receipt leaves when the record is written (with
/// `x-fsync`: synced), or when its message is settled before that (docs/decisions/0022).
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

    pub fn set_fsync(&mut self, fsync: bool) {
        self.fsync = fsync;
    }

    pub fn deferral(&self) -> Deferral {
        self.deferred.deferral()
    }

    /// Defers the writing of a message and takes over its receipt, if that pays and its record takes at most `room` bytes.
    /// Returns the bytes of the record, or `None` if the message is to be written now.
    #[inline]
    pub fn defer(&mut self, put: Put<'_>, room: u64) -> Option<u64> {
        if self.fsync { None } else { self.deferred.defer(put, room) }
    }

    /// When the oldest deferred message is to be written, in milliseconds since the epoch.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deferred.next_deadline()
    }

    /// Ends the deferral of the messages that are due at `now_ms`: calls `each` with their facts, and returns their receipts,
    /// which stand on those.
    pub fn write_due(&mut self, fifo: &Fifo, now_ms: u64, each: impl FnMut(Fact)) -> Vec<Receipt> {
        self.deferred.write_due(fifo, now_ms, each)
    }

    /// Ends the deferral of all messages without writing them: the queue is gone, and nobody has them. Calls `each` with their
    /// receipts.
    pub fn release(&mut self, each: impl FnMut(Receipt)) {
        self.deferred.release(each);
    }

    /// See [`super::Drive::close`].
    #[inline]
    pub(super) fn close(&mut self, fifo: &Fifo, output: &mut Output) -> Mark {
        if !self.deferred.is_empty() && !output.facts.is_empty() {
            self.match_facts(fifo, output);
        }
        if ends(&output.effects) {
            self.deferred.release(|receipt| output.receipts.push_all(receipt));
            // What has ended is not restored.
            output.receipts.leave_at_once();
        }
        Mark { turn: 0, level: if self.fsync { Level::Synced } else { Level::Written } }
    }

    /// Drops the facts of what was settled before it was written. Its receipts leave now.
    fn match_facts(&mut self, fifo: &Fifo, output: &mut Output) {
        let Output { facts, receipts, .. } = output;
        let mut says_more = false;
        facts.retain(|fact| match *fact {
            Fact::Gone(Span { first, last }) => {
                let settled = self.deferred.settle(first, last, |run| {
                    receipts.push_all(run.receipt(Verdict::Accepted, false));
                });
                settled < last - first + 1
            }
            Fact::Taken(_) => true,
            Fact::Put { .. } | Fact::Returned { .. } | Fact::Stored(_) | Fact::Damaged => {
                says_more = true;
                true
            }
        });
        // The log must know the messages that it is told of.
        if says_more {
            let mut puts = Vec::new();
            let written = self.deferred.write_due(fifo, ALL_DUE, |fact| puts.push(fact));
            facts.splice(..0, puts);
            written.into_iter().for_each(|receipt| receipts.push_all(receipt));
        }
    }
}
