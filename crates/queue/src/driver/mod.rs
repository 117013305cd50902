//! Drivers: each decides when requests of one queue are applied, which messages have facts, and when receipts leave.
//!
//! ```text
//!   request ──admit──> Fifo::apply ──> Output ──close──> Mark      (facts, receipts and effects of a turn)
//!                                                         │
//!                        leaves: what waited for it <──stands      (its facts are written, synced or committed)
//!                        undone: everything behind it <──falls     (facts behind it will never be committed)
//! ```
//!
//! | driver | has facts | a publish is delivered | a receipt leaves |
//! |---|---|---|---|
//! | [`Driver::Transient`] | nothing | at once | at once |
//! | [`Driver::Solo`] | durable messages | at once | when its record is written (`x-fsync`: synced) or its message is settled |
//! | `Late`, in tests of the fifo ([`FactPolicy::Always`]) | every accepted message | when its turn is committed | when its turn is committed |
//!
//! A driver decides and carries nothing. Facts of all queues of a shard go to the log through one journal. What waits for
//! `Written` or `Synced` stays in the [`Output`] and travels with the records, so that no queue is looked up when the log
//! answers. What waits for `Committed` stays with its driver, because a commit concerns one queue.
//!
//! Absent here: the log, files, clocks.

mod deferred;
mod solo;
#[cfg(test)]
mod tests;

pub use self::deferred::{ALL_DUE, DEFERRED_MS, Deferral};
pub use self::solo::Solo;
use crate::fifo::{Fifo, Output};
use crate::{Deliver, Effect, FactPolicy, RejectReason, Request};

/// What becomes of a request that has just come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Apply it.
    Now,
    /// Keep it, and all that come after it, until the driver admits it.
    Hold,
    /// Answer it with this reason and do not apply it. Only publishes are refused.
    Refuse(RejectReason),
}

/// What facts have reached. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The operating system has them: they survive the process.
    Written,
    /// The disk has them: they survive a loss of power.
    Synced,
    /// A majority of replicas has synced them.
    Committed,
}

/// The end of a turn, as [`Drive::close`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Counts the turns of a queue whose turns can fall. 0 for other queues.
    pub turn: u64,
    /// The level that the facts so far must reach before what stands on them leaves.
    pub level: Level,
}

/// The state of the storage, as far as it matters to new messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// The log takes nothing new: it has failed, or the disk is full.
    pub log_refuses: bool,
    /// Messages take too much memory and cannot leave for the disk.
    pub memory_is_stuck: bool,
}

/// What every driver does. Calls come in this order for each turn: `admit` for each request, `close` once.
pub trait Drive {
    /// Returns which messages have facts. Never changes.
    fn policy(&self) -> FactPolicy;

    /// Decides what becomes of a request.
    fn admit(&self, request: &Request, health: Health) -> Admission;

    /// Ends a turn. Afterwards `output` has the facts for the journal, the receipts and effects that leave at once, and
    /// those that leave when the journal has brought its facts to the level of the mark.
    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Mark;

    /// The facts up to `mark` have reached its level: what waited for that is in `output` afterwards.
    fn stands(
        &mut self,
        mark: Mark,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    );

    /// The facts behind `mark` will never be committed: everything behind it is undone. Its publishes are refused.
    fn falls(
        &mut self,
        mark: Mark,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    );
}

/// The drivers of the product.
#[derive(Debug)]
pub enum Driver {
    /// Nothing survives the process.
    Transient,
    /// The classic durable queue, on one node.
    Solo(Solo),
}

impl Driver {
    /// The driver of a classic queue. Without `logged` nothing of the queue survives; with `fsync` receipts wait for a sync.
    pub fn classic(logged: bool, fsync: bool) -> Self {
        if logged { Self::Solo(Solo::new(fsync)) } else { Self::Transient }
    }

    /// Whether the facts of the queue go to the log.
    pub fn is_logged(&self) -> bool {
        matches!(self, Self::Solo(_))
    }

    /// Returns whether records of the queue must be synced.
    pub fn syncs(&self) -> bool {
        matches!(self, Self::Solo(solo) if solo.syncs())
    }

    /// Whether receipts wait for a sync from now on.
    pub fn set_fsync(&mut self, fsync: bool) {
        if let Self::Solo(solo) = self {
            solo.set_fsync(fsync);
        }
    }

    /// What is deferred.
    pub fn deferral(&self) -> Deferral {
        match self {
            Self::Transient => Deferral::default(),
            Self::Solo(solo) => solo.deferral(),
        }
    }
}

impl Drive for Driver {
    fn policy(&self) -> FactPolicy {
        if self.is_logged() { FactPolicy::Durable } else { FactPolicy::Never }
    }

    #[inline]
    fn admit(&self, request: &Request, health: Health) -> Admission {
        let Health { log_refuses, memory_is_stuck } = health;
        if !(log_refuses || memory_is_stuck) {
            return Admission::Now;
        }
        let Request::Publish(publish) = request else { return Admission::Now };
        let is_refused = memory_is_stuck || self.policy().needs_fact(&publish.message);
        if is_refused { Admission::Refuse(RejectReason::Unavailable) } else { Admission::Now }
    }

    #[inline]
    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Mark {
        match self {
            Self::Transient => {
                output.facts.clear();
                Mark { turn: 0, level: Level::Written }
            }
            Self::Solo(solo) => solo.close(fifo, output),
        }
    }

    /// Nothing waits here: it travels with the records of the journal.
    fn stands(&mut self, _: Mark, _: &mut Fifo, _: u64, _: &mut Output, _: &mut dyn Deliver) {}

    /// Nothing falls: one log decides alone.
    fn falls(&mut self, _: Mark, _: &mut Fifo, _: u64, _: &mut Output, _: &mut dyn Deliver) {}
}

/// Whether a queue has decided its own end: nothing follows that.
pub fn ends(effects: &[Effect]) -> bool {
    matches!(effects.last(), Some(Effect::Deleted { .. }))
}
