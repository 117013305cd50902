//! Changes that can be rolled back ([`crate::FactPolicy::Always`]).
//!
//! ```text
//!   publish ──> staged ──commit──> ready ──> held, leaving ──gone──> parked ──commit──> forgotten
//!                 │                  ▲            ▲                    │
//!                 │                  └────────────┴────roll back───────┘
//!                 └──roll back──> dropped
//! ```
//!
//! A staged message has its sequence number and its fact, and counts towards the length limits. It is delivered only
//! after its turn is committed. All other changes apply at once. A message that is removed is parked. A message that
//! moves keeps a record of its earlier place and marks. So a rollback restores every message to its earlier state.
//!
//! Consumers, credit and deliveries have no facts and are not rolled back. A message that was delivered meanwhile stays
//! with its consumer. If the consumer has left, the message is ready again.
//!
//! A run on the disk knows the sequence numbers of its messages ([`crate::Stored::seqs`]), because facts that can be
//! rolled back use them. A message in a run is parked like any other: the run loses it when the removal is committed.
//! If a whole unread part of a run is removed, the part is parked.
//!
//! The end of the queue is a fact, too ([`crate::Fact::Ended`]). A queue that ends stays as it is until this fact is committed, so a
//! rollback has nothing to restore.

use std::collections::{BTreeMap, VecDeque};

use message::DeathReason;

use super::Counts;
use super::entry::Entry;
use super::level::Rest;
use super::rare::{Nothing, Rare};
use crate::{ConsumerId, DeletedReason, Marks};

/// The changes of one queue that can be rolled back.
pub(super) struct Uncommitted {
    /// The number of the open turn.
    turn: u64,
    /// The state at the end of the newest committed turn.
    committed: Closed,
    pending: Rare<Pending>,
    /// True if the queue was to end because its last consumer had left, and that was rolled back.
    was_unused: bool,
    /// How far the time of the queue is ahead of the shard's clock, in milliseconds.
    pub(super) ahead_ms: u64,
}

/// What the turns that are not committed have changed.
#[derive(Default)]
struct Pending {
    /// Staged messages with their turns, the oldest first.
    staged: VecDeque<(u64, Entry)>,
    staged_bytes: u64,
    /// The oldest first.
    changes: VecDeque<Change>,
    /// Removed unread parts of runs, with their turns and levels, the oldest first.
    rests: VecDeque<(u64, usize, Rest)>,
    /// Closed turns, the oldest first.
    closed: VecDeque<Closed>,
    /// The turn in which the queue has decided to end, and why.
    ending: Option<(u64, DeletedReason)>,
}

impl Nothing for Pending {
    const NOTHING: &'static Self = &Self {
        staged: VecDeque::new(),
        staged_bytes: 0,
        changes: VecDeque::new(),
        rests: VecDeque::new(),
        closed: VecDeque::new(),
        ending: None,
    };
}

impl Pending {
    fn is_empty(&self) -> bool {
        let Self { staged, staged_bytes: _, changes, rests, closed, ending } = self;
        let has_changes = !staged.is_empty() || !changes.is_empty() || !rests.is_empty();
        !has_changes && closed.is_empty() && ending.is_none()
    }
}

/// The state of a queue at the end of a turn.
#[derive(Clone, Copy)]
pub(super) struct Closed {
    pub turn: u64,
    pub next_seq: u64,
    pub counts: Counts,
    pub annotations_refused: u64,
    pub over_length: u64,
}

/// Records that a message left its place.
pub(super) struct Change {
    turn: u64,
    pub seq: u64,
    /// Where it was before.
    pub from: Stage,
    /// Its marks there. Boxed because most messages are delivered once, and then have none.
    marks: Option<Box<Marks>>,
    /// The message itself, if it was removed.
    pub parked: Option<Entry>,
}

/// The place of a message in the queue.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Ready,
    /// Unsettled. `number` is the consumer's own number.
    Held {
        consumer: ConsumerId,
        number: u64,
    },
    Leaving(DeathReason),
}

/// The changes that are rolled back.
pub(super) struct RolledBack {
    pub staged: VecDeque<(u64, Entry)>,
    pub changes: VecDeque<Change>,
    pub rests: Vec<(usize, Rest)>,
    /// The state at the end of the last turn that stays.
    pub before: Closed,
}

impl Uncommitted {
    pub(super) fn new(before: Closed) -> Self {
        let turn = before.turn + 1;
        Self { turn, committed: before, pending: Rare::default(), was_unused: false, ahead_ms: 0 }
    }

    /// Returns the number of staged messages and their bytes.
    pub(super) fn staged(&self) -> (u64, u64) {
        (self.pending.staged.len() as u64, self.pending.staged_bytes)
    }

    pub(super) fn stage(&mut self, entry: Entry) {
        let pending = self.pending.make();
        pending.staged_bytes += entry.len();
        pending.staged.push_back((self.turn, entry));
    }

    /// Records that a message leaves its place. `parked` is the message, if it is removed.
    pub(super) fn push(&mut self, seq: u64, from: Stage, marks: Marks, parked: Option<Entry>) {
        let marks = (marks != Marks::default()).then(|| Box::new(marks));
        self.pending.make().changes.push_back(Change { turn: self.turn, seq, from, marks, parked });
    }

    /// Records that an unread part of a run was removed.
    pub(super) fn park_rest(&mut self, level: usize, rest: Rest) {
        self.pending.make().rests.push_back((self.turn, level, rest));
    }

    /// Records that the queue ends with the open turn. Returns false if it has decided so before.
    pub(super) fn end(&mut self, reason: DeletedReason) -> bool {
        let turn = self.turn;
        let is_first = self.pending.ending.is_none();
        self.pending.make().ending.get_or_insert((turn, reason));
        is_first
    }

    /// Returns true if the queue has decided to end.
    pub(super) fn is_ending(&self) -> bool {
        self.pending.ending.is_some()
    }

    /// Returns why the queue ends, if it has decided so in a turn up to `turn`.
    pub(super) fn ends_by(&self, turn: u64) -> Option<DeletedReason> {
        self.pending.ending.filter(|(ending, _)| *ending <= turn).map(|(_, reason)| reason)
    }

    /// Returns true once if the last consumer has left, and the end that follows from it was rolled back.
    pub(super) fn take_unused(&mut self) -> bool {
        std::mem::take(&mut self.was_unused)
    }

    /// Ends the open turn. Returns its number, or that of the previous turn if it changed nothing that can be rolled
    /// back.
    pub(super) fn close(&mut self, closed: Closed) -> u64 {
        if self.is_touched() {
            self.pending.make().closed.push_back(Closed { turn: self.turn, ..closed });
            self.turn += 1;
            return self.turn - 1;
        }
        let last =
            self.pending.made().and_then(|pending| pending.closed.back_mut()).unwrap_or(&mut self.committed);
        *last = Closed { turn: last.turn, ..closed };
        last.turn
    }

    /// Discards all pending changes.
    pub(super) fn clear(&mut self) {
        if let Some(pending) = self.pending.made() {
            let closed = std::mem::take(&mut pending.closed);
            *pending = Pending { closed, ..Pending::default() };
        }
    }

    fn is_touched(&self) -> bool {
        let Pending { staged, changes, rests, ending, .. } = &*self.pending;
        let staged = staged.back().map(|(turn, _)| *turn);
        let changed = changes.back().map(|change| change.turn);
        let ending = ending.map(|(turn, _)| turn);
        staged.max(changed).max(rests.back().map(|(turn, ..)| *turn)).max(ending) == Some(self.turn)
    }

    pub(super) fn pop_staged(&mut self, turn: u64) -> Option<Entry> {
        let pending = self.pending.made()?;
        let (_, entry) = pending.staged.pop_front_if(|(staged, _)| *staged <= turn)?;
        pending.staged_bytes -= entry.len();
        Some(entry)
    }

    /// Called when the turns up to `turn` are committed. They can no longer be rolled back.
    pub(super) fn handle_committed(&mut self, turn: u64) {
        let Some(pending) = self.pending.made() else { return };
        while let Some(committed) = pending.closed.pop_front_if(|closed| closed.turn <= turn) {
            self.committed = committed;
        }
    }

    /// Discards changes up to `turn`, which is committed, until one of them has removed a message. Returns the message,
    /// which is now gone for good.
    pub(super) fn pop_parked(&mut self, turn: u64) -> Option<Entry> {
        let pending = self.pending.made()?;
        while let Some(change) = pending.changes.pop_front_if(|change| change.turn <= turn) {
            if change.parked.is_some() {
                return change.parked;
            }
        }
        None
    }

    /// [`Self::pop_parked`] for parts of runs.
    pub(super) fn pop_parked_rest(&mut self, turn: u64) -> Option<Rest> {
        self.pending.made()?.rests.pop_front_if(|(parked, ..)| *parked <= turn).map(|(_, _, rest)| rest)
    }

    /// Frees memory that is not in use.
    pub(super) fn shrink(&mut self) {
        if self.pending.is_empty() {
            self.pending = Rare::default();
        }
    }

    /// Takes out everything after `turn`. Committed turns are never rolled back.
    pub(super) fn roll_back(&mut self, turn: u64) -> RolledBack {
        let turn = self.committed.turn.max(turn);
        let Pending { staged, staged_bytes, changes, rests, closed, ending } = self.pending.make();
        let unended = ending.take_if(|(ending, _)| *ending > turn);
        self.was_unused |= unended.is_some_and(|(_, reason)| reason == DeletedReason::Unused);
        while closed.pop_back_if(|closed| closed.turn > turn).is_some() {}
        let before = *closed.back().unwrap_or(&self.committed);
        let staged = staged.split_off(staged.partition_point(|(staged, _)| *staged <= turn));
        *staged_bytes -= staged.iter().map(|(_, entry)| entry.len()).sum::<u64>();
        let changes = changes.split_off(changes.partition_point(|change| change.turn <= turn));
        let rests = rests.split_off(rests.partition_point(|(parked, ..)| *parked <= turn));
        let rests = rests.into_iter().rev().map(|(_, level, rest)| (level, rest)).collect();
        RolledBack { staged, changes, rests, before }
    }

    /// Returns true if a rollback may return messages to this consumer.
    pub(super) fn may_return_to(&self, consumer: ConsumerId) -> bool {
        let is_from =
            |from: Stage| matches!(from, Stage::Held { consumer: holder, .. } if holder == consumer);
        self.pending.changes.iter().any(|change| is_from(change.from))
    }

    /// Iterates over removed messages whose turn is still pending.
    pub(super) fn parked(&self) -> impl Iterator<Item = &Entry> {
        self.pending.changes.iter().filter_map(|change| change.parked.as_ref())
    }

    pub(super) fn parked_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let changes = self.pending.made().into_iter().flat_map(|pending| &mut pending.changes);
        changes.filter_map(|change| change.parked.as_mut())
    }

    /// Iterates over removed unread parts of runs whose turn is still pending.
    pub(super) fn parked_rests(&self) -> impl Iterator<Item = &Rest> {
        self.pending.rests.iter().map(|(_, _, rest)| rest)
    }

    /// Returns the marks of changed messages according to committed facts.
    pub(super) fn committed_marks(&self) -> BTreeMap<u64, Marks> {
        // The oldest change of each message is inserted last.
        self.pending.changes.iter().rev().map(|change| (change.seq, change.marks())).collect()
    }
}

impl Change {
    /// Returns the marks of the message at its place before.
    pub(super) fn marks(&self) -> Marks {
        self.marks.as_deref().cloned().unwrap_or_default()
    }
}
