//! The Raft group of a quorum queue, as far as this shard writes it.

use std::collections::VecDeque;

use broker::counters::RaftSums;
use bytes::Bytes;
use queue::{Fact, Put};
use replica::{Base, Member, Options, Progress, Record, Restoring, Role};

use super::engine::Engine;
use super::journal::{CAPACITY_MAX, LAZY_BYTES_MAX, LAZY_MS};
use crate::entries;
use crate::facts::FinishedGroup;

/// The number of this node in Raft groups. There is one node.
pub(crate) const NODE: u32 = 1;

/// This node's member of the group of one queue, and the entry that is being collected.
pub(in crate::shard) struct GroupSlot {
    pub engine: Engine,
    /// Facts of closed turns that are in no entry.
    open: Vec<u8>,
    /// The approximate size of the largest recent entry, in bytes.
    recent_bytes: usize,
    /// The first and the last seq of the messages in `open`.
    puts: Option<(u64, u64)>,
    /// The time since which `open` has facts.
    since_ms: Option<u64>,
    /// True if the queue is in the list of [`super::Storage::take_groups`].
    pub is_listed: bool,
    /// The log file of the newest base.
    pub base_file: u64,
    /// The index of the newest base, and the size of the entries after it in bytes.
    pub base_index: u64,
    pub log_bytes: u64,
    /// The entry whose time to its commit is being measured, and when it was proposed.
    measured: Option<(u64, u64)>,
    /// The last time that was measured, in milliseconds.
    pub commit_latency_ms: u64,
    /// The log files of entries from before a restart that are not known to be committed, by index.
    pub files: VecDeque<(u64, u64)>,
}

impl GroupSlot {
    /// Returns a member that was restored.
    pub(crate) fn new(finished: FinishedGroup) -> Self {
        let FinishedGroup { group, base_file, base_index, log_bytes, files } = finished;
        Self {
            engine: Engine::new(group),
            open: Vec::new(),
            recent_bytes: 0,
            puts: None,
            since_ms: None,
            is_listed: false,
            base_file,
            base_index,
            log_bytes,
            measured: None,
            commit_latency_ms: 0,
            files,
        }
    }

    /// Returns the only member of a new group, and the base that it begins with.
    pub(crate) fn founding() -> (Self, Record) {
        let base = Record::Base(Base::founding(&[NODE], entries::content(1)));
        let me = Member { node: NODE, number: 1 };
        let mut restoring = Restoring::default();
        let group = restoring.on_record(base.clone()).and_then(|()| restoring.finish(me, Options::default()));
        // No log file has the number 0. So the first evacuation writes the base again.
        let group = group.expect("a founding base is all that a group needs");
        let base_index = group.applied();
        let finished =
            FinishedGroup { group, base_file: 0, base_index, log_bytes: 0, files: VecDeque::new() };
        (Self::new(finished), base)
    }

    /// Returns how far the log of the group has come.
    pub(crate) fn reached(&self) -> RaftSums {
        let Progress { written, committed, applied, .. } = self.engine.progress();
        RaftSums {
            term: self.engine.standing().term,
            written_index: written,
            commit_index: committed,
            applied_index: applied,
            base_index: self.base_index,
        }
    }

    /// Calls what may move the group, and adds to the sums how far it was moved.
    pub(crate) fn drive<R>(&mut self, sums: &mut RaftSums, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.reached();
        let result = act(self);
        sums.advance(&before, &self.reached());
        result
    }

    /// Called when the group ends. Its entries are in no log any more.
    pub(crate) fn leave(&self, sums: &mut RaftSums) {
        let last = self.engine.progress().last;
        let reached = self.reached();
        let end = RaftSums {
            term: reached.term,
            written_index: last,
            commit_index: last,
            applied_index: last,
            base_index: last,
        };
        sums.advance(&reached, &end);
    }

    /// Collects a message.
    pub(crate) fn put(&mut self, put: Put<'_>, now_ms: u64) {
        self.reserve();
        entries::push_put(&mut self.open, put);
        let (first, last) = self.puts.unwrap_or((put.seq, put.seq));
        self.puts = Some((first.min(put.seq), last.max(put.seq)));
        self.since_ms.get_or_insert(now_ms);
    }

    /// Collects a fact.
    pub(crate) fn push(&mut self, fact: &Fact, now_ms: u64) {
        self.reserve();
        entries::push_fact(&mut self.open, fact);
        self.since_ms.get_or_insert(now_ms);
    }

    /// Gives a new entry room for as many facts as recent ones had. Growing step by step would copy them several times.
    fn reserve(&mut self) {
        if self.open.is_empty() {
            self.open.reserve(self.recent_bytes.min(CAPACITY_MAX));
        }
    }

    /// Returns whether there are facts in no entry.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns when the collected facts must become an entry even if nobody waits for them. They wait as long as records of
    /// the journal that nobody waits for.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let due = if self.open.len() >= LAZY_BYTES_MAX { 0 } else { LAZY_MS };
        self.since_ms.map(|since| since + due)
    }

    /// Removes and returns the collected facts, and the first and the last seq of the messages among them.
    pub(crate) fn take_open(&mut self) -> (Bytes, Option<(u64, u64)>) {
        self.since_ms = None;
        // Large and small entries alternate, because messages arrive in one turn and are settled in another.
        self.recent_bytes = self.open.len().max(self.recent_bytes - self.recent_bytes / 16);
        (std::mem::take(&mut self.open).into(), self.puts.take())
    }

    /// Notes when an entry was proposed. One entry is measured at a time.
    pub(crate) fn note_proposed(&mut self, index: u64, now_ms: u64) {
        self.measured.get_or_insert((index, now_ms));
    }

    /// Notes that the entries up to `index` are committed. Returns the time that the measured one took, in milliseconds, if it
    /// is among them.
    pub(crate) fn note_committed(&mut self, index: u64, now_ms: u64) -> Option<u64> {
        let (_, since_ms) = self.measured.take_if(|(measured, _)| *measured <= index)?;
        self.commit_latency_ms = now_ms.saturating_sub(since_ms);
        Some(self.commit_latency_ms)
    }

    /// Returns the term in which this member leads.
    pub(crate) fn leads_in(&self) -> Option<u64> {
        let standing = self.engine.standing();
        (standing.role == Role::Leader).then_some(standing.term)
    }

    /// Returns whether the member may campaign: it neither leads nor campaigns, and everything that it knows is synced.
    pub(crate) fn may_campaign(&self) -> bool {
        matches!(self.engine.standing().role, Role::Follower { leader: None }) && self.engine.is_settled()
    }
}

impl std::fmt::Debug for GroupSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupSlot({:?} bytes open)", self.open.len())
    }
}
