//! One member of one group.

mod resting;
mod rounds;

pub use self::resting::Resting;
use crate::check::{Rejected, View};
use crate::engine;
use crate::entry::{Base, Payload, Position, Record, Vote};
use crate::member::{Change, Member, Members};
use crate::message::{Body, Message};
use crate::mutation::Mutation;
use crate::round::{Progress, Refused, Role, Standing};
use crate::store::Store;
use crate::support::Support;
use bytes::Bytes;
use raft::eraftpb::EntryType;
use raft::{GetEntriesContext, ProgressState, RawNode, SnapshotStatus, StateRole};

/// Limits of one group.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The bytes of applied entries that are retained for followers that lag. A follower that lags further
    /// receives a base.
    pub window_bytes: usize,
    /// The most bytes of entries in one message, unless a single entry is larger.
    pub append_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { window_bytes: 8 << 20, append_bytes: 1 << 20 }
    }
}

/// One member of one group; see the crate's page.
pub struct Group {
    me: Member,
    options: Options,
    raw: RawNode<Store>,
    /// The members at the applied index. Empty until a new member has received its first base.
    members: Members,
    /// The standing (term and role) that the last round reported.
    standing: Standing,
    /// The number of the last round.
    round: u64,
    /// All rounds up to this one are synced.
    synced: u64,
    /// The vote in the last record.
    recorded: Vote,
    /// The number of the last round with a vote.
    voted: u64,
    /// The index after which no change of the members was applied.
    changed: u64,
    vote_requests: VoteRequests,
    /// The index of an installed base that is not synced. `None` if there is none.
    installing: Option<u64>,
    #[cfg(test)]
    pub(crate) mutation: Option<Mutation>,
    /// The proposals that the engine sends to the leader under [`Mutation::ForwardProposal`].
    #[cfg(test)]
    pub(crate) forwarded: Vec<Bytes>,
}

/// The election for which votes were requested, by its term and the member's role in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VoteRequests {
    No,
    /// The requests for votes are not in a round yet.
    Soon(u64, StateRole),
    /// The requests for votes are sent with the round of this number.
    In(u64, StateRole, u64),
}

impl Group {
    /// Creates a member that has no state of its group yet. The leader sends it a base.
    pub fn join(me: Member, options: Options) -> Self {
        let store = Store::new(Position::default(), Default::default(), Vote::default(), &Members::default());
        Self::with_store(me, options, store, Members::default(), 0)
    }

    /// Creates a member with this state. `applied` is the index of `members`.
    pub(crate) fn with_store(
        me: Member,
        options: Options,
        store: Store,
        members: Members,
        applied: u64,
    ) -> Self {
        let config = engine::config(me, applied, options.append_bytes);
        let raw =
            RawNode::new(&config, store, engine::logger()).expect("the settings and the store are sound");
        let mut group = Self {
            me,
            options,
            raw,
            members,
            standing: Standing { term: 0, role: Role::Candidate },
            round: 0,
            synced: 0,
            recorded: Vote::default(),
            voted: 0,
            changed: applied,
            vote_requests: VoteRequests::No,
            installing: None,
            #[cfg(test)]
            mutation: None,
            #[cfg(test)]
            forwarded: Vec::new(),
        };
        (group.standing, group.recorded) = (group.standing(), group.vote());
        group
    }

    pub fn me(&self) -> Member {
        self.me
    }

    /// Returns the members at the applied index.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the current standing. The owner must act on the standings in rounds, not on this one.
    pub fn standing(&self) -> Standing {
        let raft = &self.raw.raft;
        let role = match raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Follower => Role::Follower { leader: Member::from_id(raft.leader_id) },
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        };
        Standing { term: raft.term, role }
    }

    /// Returns the last entry.
    pub fn last(&self) -> Position {
        let log = &self.raw.raft.raft_log;
        Position { term: log.last_term(), index: log.last_index() }
    }

    /// Returns the index up to which entries were handed out as committed.
    pub fn applied(&self) -> u64 {
        self.raw.raft.raft_log.applied
    }

    /// Returns how far the log has come.
    pub fn progress(&self) -> Progress {
        let log = &self.raw.raft.raft_log;
        let (last, written) = (log.last_index(), log.persisted);
        Progress { last, written, committed: log.committed, applied: log.applied }
    }

    /// Returns true if all records that were handed out are synced and no round is ready.
    pub fn is_settled(&self) -> bool {
        self.synced == self.round && !self.raw.has_ready()
    }

    /// Returns why nothing that was decided in `term` can be proposed now.
    ///
    /// # Errors
    /// This member does not lead in that term, or transfers the leadership.
    pub fn may_propose(&self, term: u64) -> Result<(), Refused> {
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader && !self.has(Mutation::ForwardProposal) {
            return Err(Refused::NotLeader { leader: Member::from_id(raft.leader_id) });
        }
        let is_other = raft.term != term && !self.has(Mutation::ProposeInLaterTerm);
        if is_other && !self.has(Mutation::ForwardProposal) {
            return Err(Refused::OtherTerm { term: raft.term });
        }
        if raft.lead_transferee.is_some() {
            return Err(Refused::Transferring);
        }
        Ok(())
    }

    /// Proposes facts that were decided in `term`. Returns the index that they have if they are ever
    /// committed.
    pub fn propose(&mut self, term: u64, facts: Bytes) -> Result<u64, Refused> {
        if facts.is_empty() {
            return Err(Refused::Empty);
        }
        self.may_propose(term)?;
        self.raw.propose(Vec::new(), facts.into()).map_err(|_| Refused::Transferring)?;
        Ok(self.raw.raft.raft_log.last_index())
    }

    /// Proposes a change of the members. Returns its index if it is committed.
    pub fn change(&mut self, term: u64, change: Change) -> Result<u64, Refused> {
        self.may_propose(term)?;
        if self.raw.raft.has_pending_conf() {
            return Err(Refused::ChangePending);
        }
        if change == Change::Remove(self.me) {
            return Err(Refused::IsLeader);
        }
        self.members.after(change).ok_or(Refused::Unfit)?;
        let matched = |member: Member| self.raw.raft.prs().get(member.id()).map_or(0, |peer| peer.matched);
        if let Change::Promote(member) = change
            && matched(member) < self.changed
        {
            return Err(Refused::Lags);
        }
        let context = crate::wire::change_bytes(change).into();
        self.raw
            .propose_conf_change(context, engine::change_in(change))
            .map_err(|_| Refused::Transferring)?;
        Ok(self.raw.raft.raft_log.last_index())
    }

    /// Starts to transfer the leadership to `to`, which campaigns as soon as it has all entries. Nothing can
    /// be proposed until `to` leads or [`Self::abort_transfer`] is called. The engine is not ticked, so the
    /// owner decides how long a transfer may take.
    pub fn transfer(&mut self, term: u64, to: Member) -> Result<(), Refused> {
        self.may_propose(term)?;
        if !self.members.is_voter(to) || to == self.me {
            return Err(Refused::NotVoter);
        }
        self.raw.transfer_leader(to.id());
        Ok(())
    }

    /// Ends a transfer. The other member may still become the leader, as it may have been asked to campaign
    /// already.
    pub fn abort_transfer(&mut self) {
        self.raw.raft.abort_leader_transfer();
    }

    /// Checks a message and hands it to the engine. `support` are the nodes that this node supports: a request for votes that
    /// would replace a leader on one of them is rejected. A rejected message changes nothing, with one exception: a leader that
    /// rejects a request for votes pings its followers.
    pub fn step(&mut self, message: Message, support: &Support) -> Result<(), Rejected> {
        self.view().check(&message)?;
        if let Body::VoteRequest { transfer: false, .. } = message.body
            && message.term > self.raw.raft.term
            && self.raw.raft.leader_id == message.from.id()
            && self.raw.raft.state != StateRole::Leader
            && !self.has(Mutation::FollowCandidate)
        {
            // It leads no more. If it cannot be elected, because it has lost entries that were not synced, this member must campaign itself.
            self.forget_leader();
        }
        if let Body::VoteRequest { transfer: false, .. } = message.body
            && message.term > self.raw.raft.term
            && self.leader_has(support)
        {
            // The ping is necessary because a quiet leader sends nothing, so that the candidate would never
            // learn of the leader. A candidate of a later term answers with that term, which deposes this
            // leader.
            self.raw.ping();
            return Err(Rejected::LeaderSupported);
        }
        let changes = matches!(&message.body, Body::Append { entries, .. }
            if entries.iter().any(|entry| matches!(entry.payload, Payload::Change(_))));
        self.raw.step(engine::message_in(message)).map_err(|_| Rejected::NotMember)?;
        if changes {
            self.commit_by_change();
        }
        self.note_vote_requests();
        Ok(())
    }

    /// Returns true if a majority of the voters has in its log that the last change of the members is
    /// committed. A removed voter may be discarded only then: until then, electing a leader may need it. Only
    /// a leader can tell.
    pub fn change_is_known(&self) -> bool {
        let raft = &self.raw.raft;
        let knows = |voter: &&Member| match **voter {
            voter if voter == self.me => self.is_settled(),
            voter => raft.prs().get(voter.id()).is_some_and(|peer| peer.committed_index >= self.changed),
        };
        let known = self.members.voters().iter().filter(knows).count();
        raft.state == StateRole::Leader && !raft.has_pending_conf() && known > self.members.voters().len() / 2
    }

    /// Campaigns, first for pre-votes. The owner decides when; a member never campaigns by itself.
    pub fn campaign(&mut self) -> Result<(), Refused> {
        if !self.members.is_voter(self.me) {
            return Err(Refused::NotVoter);
        }
        if !self.is_settled() {
            return Err(Refused::Unsynced);
        }
        self.raw.campaign().map_err(|_| Refused::Unsynced)?;
        self.note_vote_requests();
        Ok(())
    }

    /// Returns true if this member should campaign, because its node does not support that of its leader. Asked when a support
    /// has ended.
    pub fn lacks_support(&self, support: &Support) -> bool {
        let leader = Member::from_id(self.raw.raft.leader_id);
        leader.is_some() && !self.leader_has(support) && self.members.is_voter(self.me)
    }

    /// Called when the support of a node has ended. A leader there is unknown from then on, so the group is restless until there is a message from it
    /// or from another one. Without this, a member would follow for ever a leader that has restarted and cannot be elected again, if the support of
    /// its node begins again before the member has campaigned.
    pub fn on_support_ended(&mut self, node: u32) {
        let leader = Member::from_id(self.raw.raft.leader_id);
        if leader.is_some_and(|leader| leader.node == node && leader != self.me) {
            self.forget_leader();
        }
    }

    fn forget_leader(&mut self) {
        self.raw.raft.leader_id = raft::INVALID_ID;
    }

    /// Returns true if the group needs something that only a message can bring: there is no leader, or a follower lacks entries or does not
    /// know that they are committed. A group that does not is not moved again ([`Self::retry`]).
    pub fn is_restless(&self) -> bool {
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader {
            return raft.leader_id == raft::INVALID_ID && self.members.is_voter(self.me);
        }
        let (last, committed) = (raft.raft_log.last_index(), raft.raft_log.committed);
        let mut others = raft.prs().iter().filter(|(id, _)| **id != self.me.id());
        others.any(|(_, peer)| peer.matched < last || peer.committed_index < committed)
    }

    /// Moves a restless group again, because a message may have been lost: it campaigns, or a leader asks its followers what they have.
    ///
    /// # Errors
    /// It cannot campaign now.
    pub fn retry(&mut self) -> Result<(), Refused> {
        match self.raw.raft.state {
            StateRole::Leader => {
                if !self.has(Mutation::KeepLostBase) {
                    self.give_up_bases();
                }
                self.raw.ping();
                Ok(())
            }
            _ => self.campaign(),
        }
    }

    /// Gives up the bases that were lost on an open link, so that they are sent again. Messages to a member arrive in their order, and it answers
    /// a ping at once. So a base has arrived or is lost if its member has answered since: [`Self::send_base`] begins to wait for that.
    fn give_up_bases(&mut self) {
        let is_lost = |peer: &raft::Progress| peer.state == ProgressState::Snapshot && peer.recent_active;
        let peers = self.raw.raft.prs().iter();
        let lost: Vec<u64> = peers.filter(|(_, peer)| is_lost(peer)).map(|(id, _)| *id).collect();
        for id in lost {
            self.raw.report_snapshot(id, SnapshotStatus::Failure);
        }
    }

    /// Returns true if the member has all entries that this leader knows to be committed. Only a leader can tell.
    pub fn is_level(&self, member: Member) -> bool {
        let raft = &self.raw.raft;
        let matched = raft.prs().get(member.id()).map(|peer| peer.matched);
        member == self.me || matched.is_some_and(|matched| matched >= raft.raft_log.committed)
    }

    /// Called when the link to `node` was closed or is open again. Messages sent over a closed link may be
    /// lost. When the link is open again, a leader finds out what the member there has.
    pub fn on_link(&mut self, node: u32, up: bool) {
        let Some(member) = self.members.on_node(node) else { return };
        if up {
            self.raw.ping();
        } else {
            self.raw.report_unreachable(member.id());
            self.raw.report_snapshot(member.id(), SnapshotStatus::Failure);
        }
    }

    /// Called when the records of all rounds up to `round` are synced.
    pub fn on_synced(&mut self, round: u64) {
        let round = round.min(self.round);
        if round <= self.synced {
            return;
        }
        self.synced = round;
        self.raw.on_persist_ready(round);
        if let Some(index) = self.installing
            && self.raw.raft.raft_log.persisted >= index
        {
            self.installing = None;
            if index > self.applied() {
                self.raw.advance_apply_to(index);
            }
        }
    }

    /// Sends a base to the followers that need one, as [`crate::Round::wants_base`] asks for. `content` is the owner's state at
    /// [`Self::applied`].
    pub fn send_base(&mut self, content: Bytes) {
        let Some(base) = self.base(content) else { return };
        let wants = self.raw.mut_store().offer(&base);
        let raft = &mut self.raw.raft;
        for to in wants {
            if raft.state == StateRole::Leader && raft.prs().get(to).is_some() {
                raft.send_append(to);
                if let Some(peer) = raft.mut_prs().get_mut(to) {
                    peer.recent_active = false;
                }
            }
        }
        self.raw.mut_store().end_offer();
    }

    /// Returns the records that replace all records of this member so far: a base, and the entries after it.
    /// The log needs them for an evacuation, which frees its old files. `content` is the owner's state at
    /// [`Self::applied`]. Returns `None` from the arrival of a base until that base is synced.
    pub fn evacuate(&self, content: Bytes) -> Option<Vec<Record>> {
        let mut base = self.base(content)?;
        if self.has(Mutation::ForgetVoteAtEvacuation) {
            base.vote.candidate = None;
        }
        if self.has(Mutation::ForgetTermAtEvacuation) {
            (base.vote.term, base.vote.candidate) = (base.at.term, None);
        }
        let after = self.raw.store().after(base.at.index);
        let committed = base.at.index;
        let entries = after.map(|entry| Record::Entry { entry: engine::entry_out(entry), committed });
        Some([Record::Base(base)].into_iter().chain(entries).collect())
    }

    fn base(&self, content: Bytes) -> Option<Base> {
        let index = self.applied();
        if self.installing.is_some() || self.raw.raft.snap().is_some() || index == 0 {
            return None;
        }
        let term = self.raw.raft.raft_log.term(index).ok()?;
        let at = Position { term, index };
        Some(Base { at, vote: self.vote(), members: self.members.clone(), installed: false, content })
    }

    /// Describes the group in the message of a failed test.
    #[cfg(test)]
    pub(crate) fn explain(&self) -> String {
        let peers: Vec<_> = self.raw.raft.prs().iter().collect();
        let (me, standing, last) = (self.me, self.standing(), self.last());
        format!(
            "{me:?} {standing:?} {last:?} applied {}, settled {}, {peers:?}",
            self.applied(),
            self.is_settled()
        )
    }

    fn view(&self) -> View<'_> {
        let raft = &self.raw.raft;
        View {
            me: self.me,
            members: &self.members,
            raft,
            is_settled: self.is_settled(),
            votes_are_expected: match self.vote_requests {
                VoteRequests::In(term, role, round) => {
                    term == raft.term && role == raft.state && round <= self.synced
                }
                VoteRequests::No | VoteRequests::Soon(..) => false,
            },
        }
    }

    /// Returns true if there is a leader and this node supports its node. A leader supports itself.
    fn leader_has(&self, support: &Support) -> bool {
        let leader = Member::from_id(self.raw.raft.leader_id);
        leader.is_some_and(|leader| leader == self.me || support.has(leader.node))
    }

    /// Commits a change if a later one is in the log. A leader proposes a change only after it has applied
    /// the previous one, so the later one proves that the earlier one is committed. Without this, a member
    /// that lags by two changes could win an election among former members.
    fn commit_by_change(&mut self) {
        let log = &mut self.raw.raft.raft_log;
        let first = log.first_index().max(log.applied + 1);
        let entries = log.slice(first, log.last_index() + 1, None, GetEntriesContext::empty(false));
        let entries = entries.expect("entries that are not applied are here");
        let changes = entries.iter().filter(|entry| entry.entry_type == EntryType::EntryConfChange);
        if let Some(proven) = changes.rev().nth(1) {
            log.commit_to(proven.index);
        }
    }

    /// Notes whether votes are requested for a new election.
    fn note_vote_requests(&mut self) {
        let (term, role) = (self.raw.raft.term, self.raw.raft.state);
        let is_candidate = matches!(role, StateRole::Candidate | StateRole::PreCandidate);
        self.vote_requests = match self.vote_requests {
            _ if !is_candidate => VoteRequests::No,
            VoteRequests::Soon(t, r) | VoteRequests::In(t, r, _) if (t, r) == (term, role) => {
                self.vote_requests
            }
            _ => VoteRequests::Soon(term, role),
        };
    }

    fn vote(&self) -> Vote {
        let raft = &self.raw.raft;
        let candidate = Member::from_id(raft.vote);
        Vote { term: raft.term, candidate, applied: raft.raft_log.applied }
    }

    fn has(&self, mutation: Mutation) -> bool {
        #[cfg(test)]
        return self.mutation == Some(mutation);
        #[cfg(not(test))]
        {
            let _ = mutation;
            false
        }
    }
}
