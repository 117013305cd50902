//! This node's member of a group.

use std::collections::VecDeque;

use broker::counters::RaftSums;
use bytes::Bytes;
use catalog::ids::NodeNumber;
use replica::{
    Base, Group, Member, Message, Options, Progress, Record, Refused, Restoring, Role, Round, Standing,
};

use super::{Engine, OpenEntry};
use crate::facts::FinishedGroup;

/// This node's member of a group.
///
/// Most quorum queues of a large broker are idle, so it is small.
pub(in crate::shard) struct Hosted {
    pub engine: Engine,
    /// The term and the role that the last round has reported. The engine may know newer ones. The owner has not been told of them.
    standing: Standing,
    pub open: OpenEntry,
    /// True if the group is in the list of [`super::Groups`].
    pub is_listed: bool,
    /// The number of rounds whose records wait to be synced.
    unsynced: u32,
    /// The number of the newest round.
    newest: u64,
    /// Messages to other members that wait for the sync of these rounds.
    unsent: Vec<(u64, Message)>,
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

/// Each quorum queue has one, also while it is idle.
const _: () = assert!(size_of::<Hosted>() <= 384);

/// An entry that was proposed.
pub(in crate::shard) struct Proposed {
    pub index: u64,
    /// The first and the last seq of the messages in it.
    pub puts: Option<(u64, u64)>,
}

impl Hosted {
    /// Returns a member that was restored.
    pub(in crate::shard) fn new(finished: FinishedGroup) -> Self {
        let FinishedGroup { group, base_file, base_index, log_bytes, files } = finished;
        Self {
            standing: group.standing(),
            engine: Engine::new(group),
            open: OpenEntry::default(),
            is_listed: false,
            unsynced: 0,
            newest: 0,
            unsent: Vec::new(),
            base_file,
            base_index,
            log_bytes,
            measured: None,
            commit_latency_ms: 0,
            files,
        }
    }

    /// Returns the member on `node` of a new group with members on these nodes, and the base that it begins with. `content` is the owner's
    /// state. A node that is not among them gets one that never leads.
    pub(in crate::shard) fn founding(node: NodeNumber, nodes: &[u32], content: Bytes) -> (Self, Record) {
        let base = Base::founding(nodes, content);
        let me = base.members.on_node(node).unwrap_or(Member { node, number: base.members.next() });
        let base = Record::Base(base);
        let mut restoring = Restoring::default();
        let group = restoring.on_record(base.clone()).and_then(|()| restoring.finish(me, Options::default()));
        let group = group.expect("a founding base is all that a group needs");
        (Self::new(FinishedGroup::founded(group)), base)
    }

    /// Returns a member without any state. The leader sends it a base.
    pub(in crate::shard) fn joining(me: Member) -> Self {
        Self::new(FinishedGroup::founded(Group::join(me, Options::default())))
    }

    pub(in crate::shard) fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns the term in which this member leads, as far as the owner knows.
    pub(in crate::shard) fn leads_in(&self) -> Option<u64> {
        let Standing { term, role } = self.standing;
        (role == Role::Leader).then_some(term)
    }

    /// Returns true if no other member votes. Wakes the engine.
    pub(in crate::shard) fn is_only_voter(&mut self) -> bool {
        let group = self.engine.wake();
        group.members().voters() == [group.me()]
    }

    /// Returns how far the log of the group has come.
    pub(in crate::shard) fn reached(&self) -> RaftSums {
        let Progress { written, committed, applied, .. } = self.engine.progress();
        RaftSums {
            term: self.standing.term,
            written_index: written,
            commit_index: committed,
            applied_index: applied,
            base_index: self.base_index,
        }
    }

    /// Called when the group ends. Its entries are in no log any more.
    pub(in crate::shard) fn leave(&self, sums: &mut RaftSums) {
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

    /// Returns whether the member may campaign: it neither leads nor campaigns, and everything that it knows is synced.
    pub(super) fn may_campaign(&self) -> bool {
        matches!(self.standing.role, Role::Follower { leader: None }) && self.engine.is_settled()
    }

    /// Proposes the collected facts as an entry.
    ///
    /// # Errors
    /// The member no longer leads, or may not propose now. The facts are still collected.
    pub(super) fn propose(&mut self, now_ms: u64) -> Result<Proposed, Refused> {
        let term = self.standing.term;
        self.engine.wake().may_propose(term)?;
        let (facts, puts) = self.open.take();
        let index = self.engine.wake().propose(term, facts)?;
        // One entry is measured at a time.
        self.measured.get_or_insert((index, now_ms));
        Ok(Proposed { index, puts })
    }

    /// Returns the index of the next entry that is proposed.
    pub(in crate::shard) fn next_index(&mut self) -> u64 {
        self.engine.wake().last().index + 1
    }

    /// Proposes an entry that the owner has made itself.
    ///
    /// # Errors
    /// See [`Self::may_propose`].
    pub(in crate::shard) fn propose_bytes(&mut self, facts: Bytes, now_ms: u64) -> Result<u64, Refused> {
        let index = self.engine.wake().propose(self.standing.term, facts)?;
        self.measured.get_or_insert((index, now_ms));
        Ok(index)
    }

    /// # Errors
    /// The member no longer leads, or may not propose now.
    pub(in crate::shard) fn may_propose(&mut self) -> Result<(), Refused> {
        let term = self.leads_in().ok_or(Refused::NotLeader { leader: None })?;
        self.engine.wake().may_propose(term)
    }

    /// Returns the next round.
    pub(super) fn poll_round(&mut self) -> Option<Round> {
        let round = self.engine.poll_round()?;
        self.standing = round.standing.unwrap_or(self.standing);
        Some(round)
    }

    /// Notes the records of a round that are to be written to `log_file` or a later file. Returns the number of entries among them, and
    /// their size in bytes.
    pub(super) fn note_records(&mut self, records: &[Record], log_file: u64) -> (u64, u64) {
        let (mut entries, mut bytes) = (0, 0);
        for record in records {
            match record {
                Record::Entry { entry, .. } => {
                    (entries, bytes) = (entries + 1, bytes + entry.payload.bytes());
                    self.log_bytes += entry.payload.bytes();
                }
                Record::Base(base) => {
                    (self.base_file, self.base_index, self.log_bytes) = (log_file, base.at.index, 0);
                    if base.installed {
                        // The entries before it are void.
                        self.files.clear();
                    }
                }
                Record::Vote(_) => {}
            }
        }
        (entries, bytes)
    }

    /// Notes a round, and keeps the messages that wait until it and all earlier ones are synced. `has_records` says whether
    /// [`Self::handle_synced`] will be called for it.
    pub(super) fn note_round(&mut self, number: u64, has_records: bool, after_sync: Vec<Message>) {
        self.newest = number;
        self.unsynced += u32::from(has_records);
        self.unsent.extend(after_sync.into_iter().map(|message| (number, message)));
    }

    /// Called when the records of a round are synced. Returns the messages that have waited for this.
    pub(super) fn handle_synced(&mut self, number: u64) -> Vec<Message> {
        self.unsynced = self.unsynced.saturating_sub(1);
        // Later rounds without records have waited for this one, too.
        let number = if self.unsynced == 0 { self.newest } else { number };
        self.engine.wake().on_synced(number);
        let sent = self.unsent.partition_point(|(round, _)| *round <= number);
        self.unsent.drain(..sent).map(|(_, message)| message).collect()
    }

    /// Notes that the entries up to `index` are committed. Returns the time that the measured one took, in milliseconds, if it
    /// is among them.
    pub(super) fn note_committed(&mut self, index: u64, now_ms: u64) -> Option<u64> {
        let (_, since_ms) = self.measured.take_if(|(measured, _)| *measured <= index)?;
        self.commit_latency_ms = now_ms.saturating_sub(since_ms);
        Some(self.commit_latency_ms)
    }

    /// Returns a new base and the entries after it, which replace all records of the member so far. They are to be written to `log_file`
    /// or a later file. `content` is the owner's state.
    pub(super) fn evacuate(&mut self, content: Bytes, log_file: u64) -> Option<Vec<Record>> {
        let records = self.engine.wake().evacuate(content)?;
        self.note_records(&records, log_file);
        Some(records)
    }
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hosted({:?})", self.standing)
    }
}
