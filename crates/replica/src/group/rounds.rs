//! Converts what the engine has ready to a round.

use super::{Group, VoteRequests};
use crate::engine;
use crate::entry::{Payload, Record, Vote};
use crate::member::Change;
use crate::message::Body;
use crate::mutation::Mutation;
use crate::round::{Role, Round};
use raft::StateRole;
use raft::eraftpb::{Entry as RaftEntry, Message as RaftMessage};

impl Group {
    /// Returns the next round, or `None` if there is nothing to do. The owner calls it until it returns
    /// `None`.
    pub fn poll_round(&mut self) -> Option<Round> {
        if !self.raw.has_ready() {
            // The engine has no message for a follower that needs a base.
            let wants_base = self.take_request_for_base();
            return wants_base.then(|| Round { number: self.round, wants_base, ..Round::default() });
        }
        let mut ready = self.raw.ready();
        self.round += 1;
        let mut round = Round { number: self.round, ..Round::default() };
        let vote = self.vote();
        if (vote.term, vote.candidate) != (self.recorded.term, self.recorded.candidate) {
            round.records.push(Record::Vote(vote));
            (self.recorded, self.voted) = (vote, self.round);
        }
        if !ready.snapshot().is_empty() {
            let applied = ready.snapshot().get_metadata().index;
            let base = engine::base_out(ready.snapshot(), Vote { applied, ..vote });
            self.raw.mut_store().install(base.at);
            self.installing = Some(base.at.index);
            (self.members, self.changed) = (base.members.clone(), base.at.index);
            round.records.push(Record::Base(base));
        }
        let entries = ready.take_entries();
        self.raw.mut_store().append(&entries);
        let committed = self.raw.raft.raft_log.committed;
        // A record says up to which entry the group has committed, but at most up to the record's own entry:
        // later entries may not be on the disk together with it.
        let record = |entry: &RaftEntry| Record::Entry {
            entry: engine::entry_out(entry),
            committed: committed.min(entry.index),
        };
        round.records.extend(entries.iter().map(record));
        let now = ready.take_messages();
        let after_sync = ready.take_persisted_messages();
        let committed = ready.take_committed_entries();
        self.raw.advance_append_async(ready);
        self.sort_messages(&mut round, now, after_sync);
        if let VoteRequests::Soon(term, role) = self.vote_requests {
            self.vote_requests = VoteRequests::In(term, role, self.round);
        }
        self.apply(&mut round, &committed);
        if round.records.is_empty() && self.synced + 1 == self.round {
            self.on_synced(self.round);
            round.now.append(&mut round.after_sync);
        }
        self.report_standing(&mut round);
        round.wants_base = self.take_request_for_base();
        self.trim();
        Some(round)
    }

    /// Decides which messages of a round wait for the sync. A leader's messages are sent at once, unless its
    /// vote for itself is not synced: a single voter leads before that.
    fn sort_messages(&mut self, round: &mut Round, now: Vec<RaftMessage>, after_sync: Vec<RaftMessage>) {
        #[cfg(test)]
        for message in now.iter().chain(&after_sync) {
            if message.msg_type == raft::eraftpb::MessageType::MsgPropose {
                self.forwarded.extend(message.entries.iter().map(|entry| entry.data.clone()));
            }
        }
        let vote_is_synced = self.voted <= self.synced || self.has(Mutation::VoteBeforeSync);
        let (mut early, mut late) = (Vec::new(), Vec::new());
        early.extend(now.into_iter().filter_map(engine::message_out));
        for message in after_sync.into_iter().filter_map(engine::message_out) {
            let is_early = match message.body {
                Body::Appended { .. } => self.has(Mutation::AcknowledgeBeforeSync),
                Body::VoteRequest { .. } | Body::VoteResponse { .. } => self.has(Mutation::VoteBeforeSync),
                _ => false,
            };
            if is_early { early.push(message) } else { late.push(message) }
        }
        if !vote_is_synced && self.raw.raft.state == StateRole::Leader {
            late.append(&mut early);
        }
        (round.now, round.after_sync) = (early, late);
    }

    fn apply(&mut self, round: &mut Round, committed: &[RaftEntry]) {
        let Some(last) = committed.last() else { return };
        let mut changes = false;
        for entry in committed.iter().map(engine::entry_out) {
            if let Payload::Change(change) = entry.payload
                && let Some(members) = self.members.after(change)
            {
                let raft = &mut self.raw.raft;
                if change == Change::Remove(self.me) && raft.state == StateRole::Leader {
                    // If the engine leads, this member is in the group, because the engine cannot lead
                    // without being a member.
                    let term = raft.term;
                    raft.become_follower(term, raft::INVALID_ID);
                }
                let applied = self.raw.apply_conf_change(&engine::change_in(change));
                applied.expect("the change fits the members");
                self.members = members;
                changes = true;
            }
            round.committed.push(entry);
        }
        self.raw.advance_apply_to(last.index);
        if changes {
            round.records.push(Record::Vote(self.vote()));
            self.changed = last.index;
        }
    }

    /// Returns whether the engine has asked for a base since the last call, and this member still leads.
    fn take_request_for_base(&mut self) -> bool {
        self.raw.mut_store().take_request() && self.standing.role == Role::Leader
    }

    fn report_standing(&mut self, round: &mut Round) {
        let standing = self.standing();
        if standing == self.standing {
            return;
        }
        self.standing = standing;
        let is_told = standing.role == Role::Leader || !self.has(Mutation::KeepStaged);
        round.standing = is_told.then_some(standing);
        if standing.role != Role::Leader {
            self.raw.mut_store().forget_wants();
        }
    }

    /// Trims the store. A leader knows which entries every member has. Other members keep the window, because
    /// they may lead next.
    fn trim(&mut self) {
        let raft = &self.raw.raft;
        let applied = raft.raft_log.applied;
        let everybody_has = if raft.state == StateRole::Leader {
            let others = raft.prs().iter().filter(|(id, _)| **id != self.me.id());
            others.map(|(_, peer)| peer.matched).min().unwrap_or(applied)
        } else if self.members.all().count() == 1 {
            applied
        } else {
            0
        };
        let window = self.options.window_bytes;
        self.raw.mut_store().trim(applied, everybody_has, window);
    }
}
