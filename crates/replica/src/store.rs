//! The entries of one group in memory, as the engine reads them.
//!
//! ```text
//!                floor      applied              last
//!  ... dropped ──┼───────────┼──────────────────┤
//!                │  window   │  not applied yet │
//! ```
//!
//! The window serves followers that lag. A follower below the floor needs a base. The store remembers that
//! until the owner provides one.

use crate::engine::{base_in, members_in};
use crate::entry::{Base, Position, Vote};
use crate::member::{Member, Members};
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

pub(crate) struct Store {
    /// The position before the first entry.
    floor: Position,
    entries: VecDeque<Entry>,
    /// The size of all entries in bytes.
    bytes: usize,
    initial: RaftState,
    /// The base to send to followers. It is set only during [`crate::Group::send_base`], in which the engine asks for it.
    base: Option<Snapshot>,
    /// The members that lag below the floor and need a base.
    wants_base: RefCell<Vec<u64>>,
    /// The engine has asked for a base since the last call of [`Self::take_request`].
    is_requested: Cell<bool>,
}

impl Store {
    /// Creates a store with the state of a member at its start.
    pub(crate) fn new(floor: Position, entries: VecDeque<Entry>, vote: Vote, members: &Members) -> Self {
        let hard_state = HardState {
            term: vote.term,
            vote: vote.candidate.map_or(0, Member::id),
            commit: vote.applied.max(floor.index),
            ..HardState::default()
        };
        let conf_state = if members.voters().is_empty() { ConfState::default() } else { members_in(members) };
        Self {
            floor,
            bytes: entries.iter().map(size).sum(),
            entries,
            initial: RaftState { hard_state, conf_state },
            base: None,
            wants_base: RefCell::default(),
            is_requested: Cell::default(),
        }
    }

    pub(crate) fn last(&self) -> Position {
        self.entries.back().map_or(self.floor, |last| Position { term: last.term, index: last.index })
    }

    /// Returns the entries after `index`.
    pub(crate) fn after(&self, index: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip((index.max(self.floor.index) - self.floor.index) as usize)
    }

    /// Appends entries. They void existing entries from the first new index on.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        let kept = (first.index - self.floor.index - 1) as usize;
        let void = self.entries.drain(kept..).map(|entry| size(&entry)).sum::<usize>();
        self.bytes += entries.iter().map(size).sum::<usize>();
        self.bytes -= void;
        self.entries.extend(entries.iter().cloned());
    }

    /// Drops all entries, because a base that came from a leader replaces them. `at` is the position of the base.
    pub(crate) fn install(&mut self, at: Position) {
        self.floor = at;
        self.entries.clear();
        self.bytes = 0;
    }

    /// Drops entries from the front: those that all members have, and those that do not fit into `window`
    /// bytes. Entries after `applied` stay.
    pub(crate) fn trim(&mut self, applied: u64, everybody_has: u64, window: usize) {
        while let Some(first) = self.entries.front()
            && first.index <= applied
            && (first.index <= everybody_has || self.bytes > window)
        {
            self.floor = Position { term: first.term, index: first.index };
            self.bytes -= size(first);
            self.entries.pop_front();
        }
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
    }

    /// Returns whether the engine has asked for a base since the last call.
    pub(crate) fn take_request(&mut self) -> bool {
        self.is_requested.take()
    }

    /// Sets the base to send. Returns the members that need it. [`Self::end_offer`] removes the base again.
    pub(crate) fn offer(&mut self, base: &Base) -> Vec<u64> {
        self.base = Some(base_in(base));
        self.wants_base.take()
    }

    /// Removes the base of [`Self::offer`].
    pub(crate) fn end_offer(&mut self) {
        self.base = None;
    }

    /// Forgets which members need a base. Called when this member does not lead.
    pub(crate) fn forget_wants(&mut self) {
        self.wants_base.borrow_mut().clear();
    }
}

/// Returns the bytes that an entry takes in memory, including the struct itself.
fn size(entry: &Entry) -> usize {
    size_of::<Entry>() + entry.data.len()
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.initial.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.floor.index {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last().index + 1 {
            return Err(StorageError::Unavailable.into());
        }
        let max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let entries = self.after(low - 1).take((high - low) as usize).take_while(|entry| {
            let is_first = bytes == 0;
            bytes += size(entry) as u64;
            is_first || bytes <= max
        });
        Ok(entries.cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let floor = self.floor;
        if index == floor.index {
            return Ok(floor.term);
        }
        let behind = index.checked_sub(floor.index + 1).ok_or(StorageError::Compacted)?;
        let entry = self.entries.get(behind as usize).ok_or(StorageError::Unavailable)?;
        Ok(entry.term)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.floor.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().index)
    }

    fn snapshot(&self, _: u64, to: u64) -> raft::Result<Snapshot> {
        if let Some(base) = &self.base {
            return Ok(base.clone());
        }
        self.is_requested.set(true);
        let mut wants = self.wants_base.borrow_mut();
        if !wants.contains(&to) {
            wants.push(to);
        }
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}
