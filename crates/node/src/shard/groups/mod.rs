//! The Raft groups that have a member on this shard.
//!
//! A group orders entries and says which of them are committed. Only its owner ([`Owner`]) knows what they mean: a quorum queue
//! or the catalog today, streams later ([`GroupId`]). An owner keeps the member of its group itself, so that no message has to
//! look for it.
//!
//! ```text
//!     owner: collects facts    handle_standing, install, handle_committed      base
//!              │                    ▲                                            │
//!              ▼                    │                                            ▼
//!          OpenEntry ──propose──> pump <──────────── Round ──────────────── member of the group
//!                                   │                                            ▲
//!                                   ├── now ──────> send                         │ handle_synced
//!                                   └── records ──> storage ──rounds_synced──────┘
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `hosted` | [`Hosted`]: this node's member of a group |
//! | `open` | [`OpenEntry`]: facts that are in no entry |
//! | `engine` | the state machine of the group, which rests while there is nothing to do |
//! | `round` | [`Owner`], and everything that makes a group move |
//!
//! [`Groups`] is what the groups of a shard have in common. A group with nothing to do is in none of its lists.

mod engine;
mod hosted;
mod open;
mod round;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use catalog::ids::QueueId;

use self::engine::Engine;
pub(in crate::shard) use self::hosted::{Hosted, Proposed};
use self::open::OpenEntry;
pub(in crate::shard) use self::round::{
    Owner, campaign, handle_link, handle_support_ended, handle_synced, propose, pump, retry, step, write_base,
};
use super::Shard;
use crate::facts::CATALOG;

/// Names a group by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum GroupId {
    /// The group of the catalog.
    Catalog,
    /// The group of a quorum queue.
    Queue(QueueId),
    /// The group of a stream. No stream has one yet.
    #[cfg_attr(not(test), expect(dead_code, reason = "streams have no groups yet"))]
    Stream(QueueId),
}

impl GroupId {
    /// Returns true if the group counts in the figures of Raft groups, which are those of queues.
    fn is_counted(self) -> bool {
        !matches!(self, Self::Catalog)
    }

    /// Returns the owner of the group's records in the log.
    pub(in crate::shard) fn log_owner(self) -> QueueId {
        match self {
            Self::Catalog => QueueId(CATALOG),
            Self::Queue(queue) | Self::Stream(queue) => queue,
        }
    }
}

/// A round whose records are on their way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupRound {
    group: GroupId,
    number: u64,
}

/// If more rounds than this have waited for a sync at a time, the memory of their list is freed afterwards. Normally it stays
/// allocated.
const ROUNDS_KEPT: usize = 256;

/// What the groups of a shard have in common. See the module.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Groups whose owners have something to propose.
    listed: Vec<GroupId>,
    /// When the oldest facts of these groups must become an entry, in milliseconds since the epoch.
    due_ms: Option<u64>,
    /// The rounds that wait for the sync of their records, in the order in which the storage got these.
    unsynced: VecDeque<GroupRound>,
    /// True if the end of a turn has moved more than records: another turn has work.
    has_moved: bool,
    /// How long commits took recently.
    commits: Recent,
}

/// The largest value of a recent period, which is between one and two rounds of the chores long.
#[derive(Debug, Default)]
struct Recent {
    now: u64,
    before: u64,
}

impl Groups {
    /// Notes that the owner of a group has something to propose.
    pub(super) fn list(&mut self, group: GroupId, hosted: &mut Hosted) {
        if !std::mem::replace(&mut hosted.is_listed, true) {
            self.listed.push(group);
        }
        self.due_ms = self.due_ms.into_iter().chain(hosted.open.due_ms()).min();
    }

    /// Notes that the end of the turn has moved more than records.
    pub(super) fn note_moved(&mut self) {
        self.has_moved = true;
    }

    /// Returns whether the end of a turn has moved more than records since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// Returns true if some facts are in no entry yet.
    pub(super) fn has_unproposed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Returns true if receipts may wait for an entry, or for the sync of one.
    pub(super) fn holds_receipts(&self) -> bool {
        self.has_unproposed() || !self.unsynced.is_empty()
    }

    /// Returns the number of rounds that wait for a sync.
    pub(super) fn rounds_held(&self) -> u64 {
        self.unsynced.len() as u64
    }

    /// Returns when facts must become an entry, in milliseconds since the epoch.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.due_ms
    }

    /// Called once in each round of the chores.
    pub(super) fn end_period(&mut self) {
        self.commits.before = std::mem::take(&mut self.commits.now);
    }

    /// Returns the longest time of a recent commit, in milliseconds.
    pub(super) fn commit_latency_ms(&self) -> u64 {
        self.commits.now.max(self.commits.before)
    }

    fn note_commit(&mut self, took_ms: u64) {
        self.commits.now = self.commits.now.max(took_ms);
    }

    /// Removes and returns the oldest round that waits for a sync.
    fn take_unsynced(&mut self) -> Option<GroupRound> {
        let round = self.unsynced.pop_front();
        if self.unsynced.is_empty() && self.unsynced.capacity() > ROUNDS_KEPT {
            self.unsynced = VecDeque::new();
        }
        round
    }
}

impl Shard {
    /// Lets the owners of groups propose the facts of closed turns. Called at the end of each turn.
    pub(in crate::shard) fn propose_entries(&mut self) {
        self.groups.due_ms = None;
        for group in std::mem::take(&mut self.groups.listed) {
            match group {
                GroupId::Queue(queue) => self.propose_of_queue(queue),
                GroupId::Catalog => self.propose_of_catalog(),
                // These groups have no owner yet.
                GroupId::Stream(_) => {}
            }
        }
    }

    /// Called when the storage has synced the records of this many further rounds.
    pub(in crate::shard) fn rounds_synced(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let Some(GroupRound { group, number }) = self.groups.take_unsynced() else { return };
            match group {
                GroupId::Queue(queue) => self.round_of_queue_synced(queue, number),
                GroupId::Catalog => self.round_of_catalog_synced(number),
                // These groups have no owner yet.
                GroupId::Stream(_) => {}
            }
        }
    }
}
