//! Drivers. The driver of a queue decides when requests are applied, which messages have facts, and when receipts are
//! sent.
//!
//! ```text
//!   request ──admit──> Fifo::apply ──> Output ──close──> Awaits::Log(Level)     the output waits for the log
//!                                                   └──> Awaits::Commit(Mark)   the driver waits for a commit
//!                                                          │
//!           sent: what waited for the turn <──handle_committed      (its facts are committed)
//!                   kept in doubt, or refused <──handle_rolled_back    (this member leads no longer)
//!               answered, or refused at last <──handle_decided        (another leader has committed the next entry)
//! ```
//!
//! A turn of a queue is what happens between two calls of `close`: a run of requests, a timer, or a commit. A turn of the shard, which is
//! one iteration of its event loop, has many.
//!
//! | driver | has facts | a publish is delivered | a receipt is sent |
//! |---|---|---|---|
//! | [`Driver::Transient`] | nothing | at once | at once |
//! | [`Driver::Solo`] | durable messages | at once | when its record is written (`x-fsync`: synced) or its message is settled |
//! | [`Driver::Replica`] | every accepted message | when its turn is committed | when its turn is committed |
//!
//! A driver only decides. The facts of all queues of a shard go to the log through one journal. What waits for
//! a [`Level`] of the log stays in the [`Output`] and travels with the records. Therefore no queue has to be found when
//! the log answers. What waits for a commit stays with its driver, because a commit concerns one queue.
//!
//! This module has no log, files or clocks.

mod deferred;
mod mutation;
mod replica;
mod solo;
#[cfg(test)]
mod tests;
mod time;

pub use self::deferred::{ALL_DUE, DEFERRED_MS, Deferral};
pub use self::replica::{EntryAt, Leadership, NO_LEADER_MS, Replica};
pub use self::solo::Solo;
use std::sync::Arc;

use crate::fifo::{Fifo, Output, Restoring};
use crate::{Config, Deliver, Effect, Fact, FactPolicy, Put, Receipt, RejectReason, Report, Request};

/// What happens to a request that has just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Apply it.
    Now,
    /// Hold it. Ask again when the driver decides, or when its [`Leadership`] changes.
    Hold,
    /// Refuse it with this reason without applying it. Only publishes are refused.
    Refuse(RejectReason),
    /// It is for the member on the node with this number, which leads.
    Elsewhere(u32),
    /// Refuse it, because no member has led for [`NO_LEADER_MS`]. It was never in an entry, so nobody can commit it later.
    NoLeader,
}

/// How safe the log of this member has made its records. Each level includes those before it. No level says that an
/// entry of a group is committed: that is a matter of the group and not of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The operating system has them: they survive the process.
    Written,
    /// The disk has them: they survive a loss of power.
    Synced,
}

/// Marks the end of a turn of a queue whose turns can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of the turn.
    pub turn: u64,
}

/// What the receipts and effects of a closed turn wait for, if they depend on facts. Returned by [`Drive::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// They stay in the output, and are sent when the log has made the records of the turn this safe.
    Log(Level),
    /// The driver has taken them out of the output, and sends them when the turn is committed. Nothing that is left
    /// depends on facts.
    Commit(Mark),
}

/// The state of the storage, as far as it matters for new messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// The log accepts nothing new: it has failed, or the disk is full.
    pub log_refuses: bool,
    /// Messages take too much memory and cannot be paged out.
    pub memory_is_stuck: bool,
}

/// Where the fact of an accepted message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactTo {
    /// The message has no fact.
    Nowhere,
    /// Writing the fact is deferred. Its record has this many bytes. The driver sends the receipt.
    Deferred { bytes: u64 },
    /// The fact goes to the log now. With `fsync`, its record must be synced.
    Log { fsync: bool },
    /// The fact becomes part of the next entry of the queue's group.
    Entry,
}

/// The methods of every driver. In each turn, `admit` is called for each request, then `close` is called once. `now_ms` is the
/// clock of the shard.
pub trait Drive {
    /// Returns which messages have facts. The answer never changes.
    fn policy(&self) -> FactPolicy;

    /// Decides what happens to a request.
    fn admit(&self, request: &Request, health: Health) -> Admission;

    /// Ends a turn. Afterwards, `output` holds the facts for the journal. It also holds the receipts and effects that
    /// are sent at once, and those that wait for the log.
    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Awaits;
}

/// The drivers of the product.
#[derive(Debug)]
pub enum Driver {
    /// Nothing survives the process.
    Transient,
    /// For a classic durable queue on one node.
    Solo(Solo),
    /// For a quorum queue, whose facts are entries of a Raft group. Boxed, because few queues have one.
    Replica(Box<Replica>),
}

impl Driver {
    /// Frees memory that is not in use.
    pub fn shrink(&mut self) {
        if let Self::Replica(replica) = self {
            replica.shrink();
        }
    }

    /// Returns the driver of a classic queue. Without `logged`, nothing of the queue survives. With `fsync`, receipts
    /// wait for a sync.
    pub fn classic(logged: bool, fsync: bool) -> Self {
        if logged { Self::Solo(Solo::new(fsync)) } else { Self::Transient }
    }

    /// Returns the driver of a quorum queue.
    pub fn replicated() -> Self {
        Self::Replica(Box::default())
    }

    /// Returns whether the facts of the queue go to the log.
    pub fn is_logged(&self) -> bool {
        !matches!(self, Self::Transient)
    }

    /// Returns whether the queue may decide anything now. A replica decides only while it leads; other queues always do.
    pub fn decides(&self) -> bool {
        match self {
            Self::Transient | Self::Solo(_) => true,
            Self::Replica(replica) => replica.leads(),
        }
    }

    /// Returns whether records of the queue must be synced.
    pub fn syncs(&self) -> bool {
        matches!(self, Self::Solo(solo) if solo.syncs())
    }

    /// Sets whether receipts wait for a sync.
    pub fn set_fsync(&mut self, fsync: bool) {
        if let Self::Solo(solo) = self {
            solo.set_fsync(fsync);
        }
    }

    /// Restores the machine of the queue from its facts ([`Fifo::restore`]). `now_ms` is the clock of the shard.
    pub fn restore(&mut self, config: Arc<Config>, facts: Restoring, now_ms: u64) -> Fifo {
        let latest_ms = facts.latest_ms();
        let mut fifo = Fifo::restore(config, facts, now_ms).with_policy(self.policy());
        if let Self::Replica(replica) = self {
            replica.advance_time(latest_ms, now_ms, &mut fifo);
            replica.handle_restored(&fifo);
        }
        fifo
    }

    /// Applies a committed fact that the queue has not decided itself ([`Fifo::learn`]). `now_ms` is the clock of the shard.
    pub fn learn(&mut self, fact: Fact, now_ms: u64, fifo: &mut Fifo, output: &mut Output) {
        if let (Self::Replica(replica), Fact::Put { at_ms, .. }) = (self, &fact) {
            replica.advance_time(*at_ms, now_ms, fifo);
        }
        fifo.learn(fact, output);
    }

    /// Returns the time of the queue when the shard's clock shows `shard_ms`. The machine is called with this time. Only a replicated
    /// queue has a time of its own.
    #[inline]
    pub fn queue_ms(&self, shard_ms: u64) -> u64 {
        if let Self::Replica(replica) = self { replica.queue_ms(shard_ms) } else { shard_ms }
    }

    /// Returns when the machine ([`Fifo::next_deadline`]) or the driver ([`Replica::next_deadline`]) must be called next, by the shard's
    /// clock.
    #[inline]
    pub fn next_timeout(&self, fifo: &Fifo) -> Option<u64> {
        let of_machine = fifo.next_deadline().map(|queue_ms| self.shard_ms(queue_ms));
        match self {
            Self::Transient | Self::Solo(_) => of_machine,
            Self::Replica(replica) => of_machine.into_iter().chain(replica.next_deadline()).min(),
        }
    }

    /// Returns the report of the queue. Its times are those of the shard's clock.
    pub fn report(&self, fifo: &Fifo) -> Report {
        let report = fifo.report();
        let by_shard = |queue_ms: Option<u64>| queue_ms.map(|queue_ms| self.shard_ms(queue_ms));
        Report { head_at_ms: by_shard(report.head_at_ms), tail_at_ms: by_shard(report.tail_at_ms), ..report }
    }

    /// Returns what the shard's clock shows at this time of the queue.
    fn shard_ms(&self, queue_ms: u64) -> u64 {
        if let Self::Replica(replica) = self { replica.shard_ms(queue_ms) } else { queue_ms }
    }

    /// Called for each accepted message that needs a fact. Returns where the fact goes. Writing is deferred only if the
    /// record has at most `room` bytes.
    #[inline]
    pub fn put(&mut self, put: Put<'_>, room: u64) -> FactTo {
        match self {
            Self::Transient => FactTo::Nowhere,
            Self::Solo(solo) => match solo.defer(put, room) {
                Some(bytes) => FactTo::Deferred { bytes },
                None => FactTo::Log { fsync: solo.syncs() },
            },
            Self::Replica(_) => FactTo::Entry,
        }
    }

    // ---- for drivers that defer writing. The others do nothing.

    /// Returns how much is deferred.
    pub fn deferral(&self) -> Deferral {
        match self {
            Self::Transient | Self::Replica(_) => Deferral::default(),
            Self::Solo(solo) => solo.deferral(),
        }
    }

    /// Returns the level that the records of a classic queue must reach before the receipts that depend on them are sent.
    pub fn level(&self) -> Level {
        if let Self::Solo(solo) = self { solo.level() } else { Level::Written }
    }

    /// Returns when the oldest deferred message must be written, in milliseconds since the epoch.
    pub fn next_deferred_ms(&self) -> Option<u64> {
        if let Self::Solo(solo) = self { solo.next_deadline() } else { None }
    }

    /// Ends the deferral of the messages that are due at `now_ms`. Calls `each` with their facts. Returns their
    /// receipts, which depend on these facts.
    pub fn write_due(&mut self, fifo: &Fifo, now_ms: u64, each: impl FnMut(Fact)) -> Vec<Receipt> {
        if let Self::Solo(solo) = self { solo.write_due(fifo, now_ms, each) } else { Vec::new() }
    }

    /// Ends the deferral of all messages without writing them, because the queue was deleted. Calls `each` with their
    /// receipts.
    pub fn release(&mut self, each: impl FnMut(Receipt)) {
        if let Self::Solo(solo) = self {
            solo.release(each);
        }
    }

    // ---- for the driver whose queue has a group. The others do nothing.

    /// Called when the member leads and the first entry of its term is committed. From now on the queue decides. Does what was due
    /// meanwhile ([`Fifo::decide_again`]).
    pub fn lead(&mut self, fifo: &mut Fifo, now_ms: u64, output: &mut Output, deliver: &mut dyn Deliver) {
        if let Self::Replica(replica) = self {
            replica.lead();
            fifo.decide_again(replica.queue_ms(now_ms), output, deliver);
        }
    }

    /// See [`Replica::handle_leadership`].
    pub fn handle_leadership(&mut self, leadership: Leadership) {
        if let Self::Replica(replica) = self {
            replica.handle_leadership(leadership);
        }
    }

    /// See [`Replica::handle_timeout`].
    pub fn handle_timeout(&mut self, now_ms: u64) -> bool {
        if let Self::Replica(replica) = self { replica.handle_timeout(now_ms) } else { false }
    }

    /// Called when the member no longer leads its group. Rolls back the turns that are not committed
    /// ([`Replica::handle_rolled_back`]).
    pub fn depose(&mut self, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
        if let Self::Replica(replica) = self {
            replica.depose();
            let mark = replica.committed();
            replica.handle_rolled_back(mark, fifo, now_ms, output);
        }
    }

    /// See [`Replica::is_waited_for`].
    pub fn is_waited_for(&self) -> bool {
        matches!(self, Self::Replica(replica) if replica.is_waited_for())
    }

    /// See [`Replica::has_unproposed`].
    pub fn has_unproposed(&self) -> bool {
        matches!(self, Self::Replica(replica) if replica.has_unproposed())
    }

    /// See [`Replica::handle_proposed`].
    pub fn handle_proposed(&mut self, at: EntryAt) {
        if let Self::Replica(replica) = self {
            replica.handle_proposed(at);
        }
    }

    /// See [`Replica::has_doubts`].
    pub fn has_doubts(&self) -> bool {
        matches!(self, Self::Replica(replica) if replica.has_doubts())
    }

    /// See [`Replica::follows`].
    pub fn follows(&self) -> bool {
        matches!(self, Self::Replica(replica) if replica.follows())
    }

    /// See [`Replica::handle_decided`].
    pub fn handle_decided(&mut self, at: EntryAt, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
        if let Self::Replica(replica) = self {
            replica.handle_decided(at, fifo, now_ms, output);
        }
    }

    /// See [`Replica::handle_closed`].
    pub fn handle_closed(&mut self, fifo: &mut Fifo, now_ms: u64, output: &mut Output) {
        if let Self::Replica(replica) = self {
            replica.handle_closed(fifo, now_ms, output);
        }
    }

    /// Called when the entries of the group up to `index` are committed. This member has proposed them in its term. Afterwards,
    /// `output` holds the receipts and effects that waited for this.
    pub fn handle_entries_committed(
        &mut self,
        index: u64,
        fifo: &mut Fifo,
        now_ms: u64,
        output: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        if let Self::Replica(replica) = self {
            let mark = replica.mark_of(index);
            replica.handle_committed(mark, fifo, now_ms, output, deliver);
        }
    }
}

impl Drive for Driver {
    fn policy(&self) -> FactPolicy {
        match self {
            Self::Transient => FactPolicy::Never,
            Self::Solo(_) => FactPolicy::Durable,
            Self::Replica(replica) => replica.policy(),
        }
    }

    #[inline]
    fn admit(&self, request: &Request, health: Health) -> Admission {
        if let Self::Replica(replica) = self {
            return replica.admit(request, health);
        }
        let Health { log_refuses, memory_is_stuck } = health;
        if !(log_refuses || memory_is_stuck) {
            return Admission::Now;
        }
        let Request::Publish(publish) = request else { return Admission::Now };
        let is_refused = memory_is_stuck || self.policy().needs_fact(&publish.message);
        if is_refused { Admission::Refuse(RejectReason::Unavailable) } else { Admission::Now }
    }

    #[inline]
    fn close(&mut self, fifo: &mut Fifo, output: &mut Output) -> Awaits {
        match self {
            Self::Transient => {
                output.facts.clear();
                output.local.clear();
                Awaits::Log(Level::Written)
            }
            Self::Solo(solo) => solo.close(fifo, output),
            Self::Replica(replica) => replica.close(fifo, output),
        }
    }
}

/// Returns whether a queue has ended. `Deleted` is always the last effect.
pub fn ends(effects: &[Effect]) -> bool {
    matches!(effects.last(), Some(Effect::Deleted { .. }))
}
