//! Turns that can fall ([`crate::FactPolicy::Always`]): what is staged, what is parked, and what it was before.
//!
//! ```text
//!   publish ──> staged ──stands──> ready ──> held, leaving ──gone──> parked ──stands──> forgotten
//!                 │                  ▲            ▲                    │
//!                 │                  └────────────┴──────falls─────────┘
//!                 └──falls──> dropped
//! ```
//!
//! A staged message has its seq and its fact, and counts for the limits of length. Nobody gets it before its turn stands.
//! Everything else applies at once. A message that is gone is parked, and a message that comes back remembers its place and
//! its marks. So a turn that falls leaves every message as it was before.
//!
//! Consumers, credit and deliveries are no facts: they do not fall. A message that was delivered meanwhile stays with the
//! consumer that has it. A message whose consumer has left is ready again.
//!
//! Backlogs of these queues stay in memory: a run on the disk is known by positions, and facts that can fall name seqs.

use std::collections::{BTreeMap, VecDeque};

use message::DeathReason;

use super::Counts;
use super::entry::Entry;
use crate::{ConsumerId, Marks};

/// What can fall of one queue.
pub(super) struct Uncommitted {
    /// The turn that is open.
    turn: u64,
    /// Publishes, with their turns; the oldest first.
    staged: VecDeque<(u64, Entry)>,
    staged_bytes: u64,
    /// The oldest first.
    changes: VecDeque<Change>,
    /// Turns that are closed, from the newest that stands on.
    closed: VecDeque<Closed>,
}

/// The end of a turn.
#[derive(Clone, Copy)]
pub(super) struct Closed {
    pub turn: u64,
    pub next_seq: u64,
    pub counts: Counts,
    pub annotations_refused: u64,
}

/// A message has left its place.
pub(super) struct Change {
    turn: u64,
    pub seq: u64,
    /// Where it was before, and with which marks.
    pub from: Place,
    pub marks: Marks,
    /// The message itself, if it is gone.
    pub parked: Option<Entry>,
}

/// Where a message of the queue is.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Ready,
    /// Unsettled, under the consumer's own number.
    Held {
        consumer: ConsumerId,
        number: u64,
    },
    Leaving(DeathReason),
}

/// What falls.
pub(super) struct Fallen {
    pub staged: VecDeque<(u64, Entry)>,
    pub changes: VecDeque<Change>,
    /// As it was when the last turn that stays was closed.
    pub before: Closed,
}

impl Uncommitted {
    pub fn new(before: Closed) -> Self {
        Self {
            turn: before.turn + 1,
            staged: VecDeque::new(),
            staged_bytes: 0,
            changes: VecDeque::new(),
            closed: [before].into(),
        }
    }

    /// Staged messages and their bytes.
    pub fn staged(&self) -> (u64, u64) {
        (self.staged.len() as u64, self.staged_bytes)
    }

    pub fn stage(&mut self, entry: Entry) {
        self.staged_bytes += entry.len();
        self.staged.push_back((self.turn, entry));
    }

    /// A message leaves its place. `parked`: it is gone.
    pub fn push(&mut self, seq: u64, from: Place, marks: Marks, parked: Option<Entry>) {
        self.changes.push_back(Change { turn: self.turn, seq, from, marks, parked });
    }

    /// Ends the open turn. Returns its number; that of the turn before if nothing in it can fall.
    pub fn close(&mut self, closed: Closed) -> u64 {
        if self.is_touched() {
            self.closed.push_back(Closed { turn: self.turn, ..closed });
            self.turn += 1;
        } else if let Some(last) = self.closed.back_mut() {
            *last = Closed { turn: last.turn, ..closed };
        }
        self.closed.back().map_or(0, |last| last.turn)
    }

    /// Nothing falls or stands any more.
    pub fn clear(&mut self) {
        (self.staged, self.staged_bytes, self.changes) = (VecDeque::new(), 0, VecDeque::new());
    }

    fn is_touched(&self) -> bool {
        let staged = self.staged.back().map(|(turn, _)| *turn);
        staged.max(self.changes.back().map(|change| change.turn)) == Some(self.turn)
    }

    pub fn pop_staged(&mut self, turn: u64) -> Option<Entry> {
        let (_, entry) = self.staged.pop_front_if(|(staged, _)| *staged <= turn)?;
        self.staged_bytes -= entry.len();
        Some(entry)
    }

    /// Takes out what can fall no more, but for what is staged. Returns the bytes of the records of what is gone for good.
    pub fn forget(&mut self, turn: u64) -> u64 {
        while self.closed.get(1).is_some_and(|next| next.turn <= turn) {
            self.closed.pop_front();
        }
        let mut bytes = 0;
        while let Some(change) = self.changes.pop_front_if(|change| change.turn <= turn) {
            bytes += change.parked.map_or(0, |entry| entry.stored_bytes());
        }
        bytes
    }

    /// Takes out everything behind a turn. What stands does not fall.
    pub fn fall(&mut self, turn: u64) -> Option<Fallen> {
        let turn = self.closed.front()?.turn.max(turn);
        while self.closed.pop_back_if(|closed| closed.turn > turn).is_some() {}
        let before = *self.closed.back()?;
        let staged = self.staged.split_off(self.staged.partition_point(|(staged, _)| *staged <= turn));
        self.staged_bytes -= staged.iter().map(|(_, entry)| entry.len()).sum::<u64>();
        let changes = self.changes.split_off(self.changes.partition_point(|change| change.turn <= turn));
        Some(Fallen { staged, changes, before })
    }

    /// What was gone and has not fallen nor come to stand.
    pub fn parked(&self) -> impl Iterator<Item = &Entry> {
        self.changes.iter().filter_map(|change| change.parked.as_ref())
    }

    /// The marks that changed messages have by the facts that stand.
    pub fn learned_marks(&self) -> BTreeMap<u64, &Marks> {
        // The oldest change of each is the last to be inserted.
        self.changes.iter().rev().map(|change| (change.seq, &change.marks)).collect()
    }
}
