//! Restores a group from its records.

use crate::engine::entry_in;
use crate::entry::{Base, Entry, Payload, Position, Record, Vote};
use crate::group::{Group, Options};
use crate::member::{Change, Member, Members};
use crate::store::Store;
use std::collections::VecDeque;

/// Why the records of a member are inconsistent. Something is missing, so this member must never take part in
/// its group again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// There are entries but no base.
    NoBase,
    /// The entry before this index is missing.
    Gap { index: u64 },
    /// The last entry has a later term than the vote.
    VoteMissing,
    /// Entries are missing, although they were applied up to this index.
    EntriesMissing { applied: u64 },
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoBase => f.write_str("no base was found"),
            Self::Gap { index } => write!(f, "no entry was found before the one at index {index}"),
            Self::VoteMissing => f.write_str("the vote is older than the last entry"),
            Self::EntriesMissing { applied } => {
                write!(f, "entries up to index {applied} were applied but are missing")
            }
        }
    }
}

impl std::error::Error for Damaged {}

/// Receives the records of one member in the order in which they were written.
///
/// | record | effect |
/// |---|---|
/// | vote, or the vote of a base | replaces the one before, unless that has a later term |
/// | entry at or below the base | none: it is known to be committed |
/// | entry with a known index and the same term | none: a repetition |
/// | entry with a known index and another term | voids the entries from there on |
/// | base that was installed | voids all entries |
/// | base of an evacuation | the entries after it stay |
///
/// The owner sees the content of each base as it hands the record over. Entries that are known to be committed can be taken out
/// on the way ([`Self::take_committed`]), so that they need no memory here.
#[derive(Debug, Default)]
pub struct Restoring {
    vote: Vote,
    /// The position before the first entry: that of the newest base, or of the last entry that was taken out.
    floor: Position,
    /// The members at the position `floor`.
    members: Members,
    has_base: bool,
    /// The entries that are known to be committed and were not taken out yet.
    committed: Vec<Entry>,
    entries: VecDeque<Entry>,
}

impl Restoring {
    /// Takes the next record.
    ///
    /// # Errors
    /// The record does not follow from those before it.
    pub fn on_record(&mut self, record: Record) -> Result<(), Damaged> {
        match record {
            Record::Vote(vote) => self.on_vote(vote),
            Record::Base(base) => self.on_base(base),
            Record::Entry { entry, committed } => {
                self.on_entry(entry)?;
                self.vote.applied = self.vote.applied.max(committed);
            }
        }
        Ok(())
    }

    /// Takes out the entries that are known to be committed, in ascending order. The owner must apply them at
    /// once.
    pub fn take_committed(&mut self) -> Vec<Entry> {
        let mut committed = std::mem::take(&mut self.committed);
        if !self.has_base {
            return committed;
        }
        let known = self.entries.iter().take_while(|entry| entry.at.index <= self.vote.applied).count();
        for entry in self.entries.drain(..known) {
            self.floor = entry.at;
            if let Payload::Change(change) = entry.payload
                && let Some(members) = self.members.after(change)
            {
                self.members = members;
            }
            committed.push(entry);
        }
        committed
    }

    /// Takes out the entries that [`Self::finish`] would treat as committed, in ascending order. The owner must apply them at once.
    /// All records must be synced.
    pub fn take_certain(&mut self, me: Member) -> Vec<Entry> {
        self.vote.applied = self.certain(me);
        self.take_committed()
    }

    /// Returns the entries that are not known to be committed, in ascending order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Called if the owner knows that the entries up to `index` are committed, for example because it has stored what follows from them.
    pub fn prove_committed(&mut self, index: u64) {
        self.vote.applied = self.vote.applied.max(index);
    }

    /// Takes out all entries, in ascending order, whether they are committed or not. For what can still be read of a member that is damaged.
    pub fn take_rest(&mut self) -> Vec<Entry> {
        let mut rest = std::mem::take(&mut self.committed);
        rest.extend(self.entries.drain(..));
        rest
    }

    /// Returns the members, as far as the records say.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns what [`Self::finish`] would say.
    ///
    /// # Errors
    /// Something is missing.
    pub fn check(&self) -> Result<(), Damaged> {
        let Self { vote, floor, has_base, entries, .. } = self;
        match entries.front() {
            Some(_) if !has_base => return Err(Damaged::NoBase),
            _ => check_gap(floor.index, entries)?,
        }
        let last = entries.back().map_or(*floor, |last| last.at);
        if last.term > vote.term {
            return Err(Damaged::VoteMissing);
        }
        if last.index < vote.applied {
            return Err(Damaged::EntriesMissing { applied: vote.applied });
        }
        Ok(())
    }

    /// Returns the index up to which entries are certainly committed, although the records may not say so.
    fn certain(&self, me: Member) -> u64 {
        let is_change = |entry: &&Entry| matches!(entry.payload, Payload::Change(_));
        // An entry that the only voter has synced is committed. New learners do not change that.
        let mut certain = self.vote.applied;
        if self.members.voters() == [me] {
            let keeps_voters = |entry: &&Entry| match entry.payload {
                Payload::Change(change) => matches!(change, Change::Add(_)),
                Payload::Empty | Payload::Facts(_) => true,
            };
            let last = self.entries.iter().take_while(keeps_voters).last();
            certain = certain.max(last.map_or(self.floor.index, |last| last.at.index));
        }
        // A later change proves that earlier entries are committed, as in `Group::commit_by_change`.
        let proven = self.entries.iter().filter(is_change).rev().nth(1);
        certain.max(proven.map_or(0, |proven| proven.at.index))
    }

    /// Returns the member. It hands out the entries that are left as soon as they are known to be committed. All records
    /// must be synced.
    ///
    /// # Errors
    /// Something is missing.
    pub fn finish(self, me: Member, options: Options) -> Result<Group, Damaged> {
        self.check()?;
        let applied = self.certain(me);
        let Self { mut vote, floor, members, entries, .. } = self;
        vote.applied = applied;
        let entries = entries.into_iter().map(entry_in).collect();
        let store = Store::new(floor, entries, vote, &members);
        Ok(Group::with_store(me, options, store, members, floor.index))
    }

    fn on_vote(&mut self, vote: Vote) {
        let applied = vote.applied.max(self.vote.applied);
        if vote.term >= self.vote.term {
            self.vote = vote;
        }
        self.vote.applied = applied;
    }

    fn on_base(&mut self, base: Base) {
        self.on_vote(base.vote);
        if base.installed {
            self.entries.clear();
            self.committed.clear();
        } else if self.has_base && base.at.index < self.floor.index {
            // The entries after this base have been taken out already, so the base brings nothing new.
            return;
        } else {
            let before = self.entries.iter().take_while(|entry| entry.at.index <= base.at.index).count();
            self.committed.extend(self.entries.drain(..before));
            if check_gap(base.at.index, &self.entries).is_err() {
                // The entries between were in a file that was removed. All entries after the base follow it
                // in the log.
                self.entries.clear();
            }
        }
        (self.floor, self.members, self.has_base) = (base.at, base.members, true);
    }

    fn on_entry(&mut self, entry: Entry) -> Result<(), Damaged> {
        let Position { term, index } = entry.at;
        if self.has_base && index <= self.floor.index {
            return Ok(());
        }
        let first = self.entries.front().map(|first| first.at.index);
        if let Some(first) = first.filter(|first| *first <= index) {
            let known = self.entries.get((index - first) as usize);
            if known.is_some_and(|known| known.at.term == term) {
                return Ok(());
            }
            self.entries.truncate((index - first) as usize);
        } else if first.is_some() {
            self.entries.clear();
        }
        let before = self.entries.back().map(|last| last.at.index);
        let before = before.or(self.has_base.then_some(self.floor.index));
        if before.is_some_and(|before| before + 1 != index) {
            return Err(Damaged::Gap { index });
        }
        self.entries.push_back(entry);
        Ok(())
    }
}

fn check_gap(base: u64, entries: &VecDeque<Entry>) -> Result<(), Damaged> {
    match entries.front() {
        Some(first) if first.at.index != base + 1 => Err(Damaged::Gap { index: first.at.index }),
        _ => Ok(()),
    }
}
