//! Converts between this crate's types and the engine's. The engine's own encoding is not used to read
//! foreign bytes. A membership change is decoded from the context of its entry, which has this crate's
//! encoding.

use crate::entry::{Base, Entry, Payload, Position, Vote};
use crate::member::{Change, Member, Members};
use crate::message::{Body, Message};
use crate::wire::{change_bytes, change_from};
use bytes::{BufMut, Bytes, BytesMut};
use raft::Config;
use raft::eraftpb::{
    ConfChange, ConfChangeType, ConfState, Entry as RaftEntry, EntryType, Message as RaftMessage,
    MessageType, Snapshot,
};
use slog::Logger;
use std::sync::OnceLock;

/// The most appends in flight to one follower. The engine keeps 8 bytes for each.
const INFLIGHT_MAX: usize = 64;

/// Returns a logger that discards everything. A round reports all that matters.
pub(crate) fn logger() -> &'static Logger {
    static SILENT: OnceLock<Logger> = OnceLock::new();
    SILENT.get_or_init(|| Logger::root(slog::Discard, slog::o!()))
}

/// Returns the engine's settings. The engine is never ticked, so its times have no effect. They leave only
/// one possible election timeout.
pub(crate) fn config(me: Member, applied: u64, append_bytes: u64) -> Config {
    Config {
        id: me.id(),
        applied,
        heartbeat_tick: 1,
        election_tick: 2,
        min_election_tick: 2,
        max_election_tick: 3,
        max_size_per_msg: append_bytes,
        max_inflight_msgs: INFLIGHT_MAX,
        check_quorum: false,
        pre_vote: true,
        ..Config::default()
    }
}

pub(crate) fn entry_in(entry: Entry) -> RaftEntry {
    let mut raft = RaftEntry { term: entry.at.term, index: entry.at.index, ..RaftEntry::default() };
    match entry.payload {
        Payload::Empty => {}
        Payload::Facts(facts) => raft.data = facts,
        Payload::Change(change) => {
            raft.entry_type = EntryType::EntryConfChange;
            raft.context = change_bytes(change);
        }
    }
    raft
}

pub(crate) fn entry_out(raft: &RaftEntry) -> Entry {
    let at = Position { term: raft.term, index: raft.index };
    let payload = match raft.entry_type {
        EntryType::EntryNormal if raft.data.is_empty() => Payload::Empty,
        EntryType::EntryNormal => Payload::Facts(raft.data.clone()),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
            Payload::Change(change_from(&raft.context).expect("the context was written here"))
        }
    };
    Entry { at, payload }
}

pub(crate) fn change_in(change: Change) -> ConfChange {
    let (kind, member) = match change {
        Change::Add(member) => (ConfChangeType::AddLearnerNode, member),
        Change::Promote(member) => (ConfChangeType::AddNode, member),
        Change::Remove(member) => (ConfChangeType::RemoveNode, member),
    };
    ConfChange { change_type: kind, node_id: member.id(), ..ConfChange::default() }
}

pub(crate) fn members_in(members: &Members) -> ConfState {
    let ids = |members: &[Member]| members.iter().map(|member| member.id()).collect();
    ConfState { voters: ids(members.voters()), learners: ids(members.learners()), ..ConfState::default() }
}

/// Converts a base to the engine's snapshot. A snapshot has no field for the number of the next member, so it
/// precedes the content.
pub(crate) fn base_in(base: &Base) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (base.at.index, base.at.term);
    metadata.set_conf_state(members_in(&base.members));
    let mut data = BytesMut::with_capacity(4 + base.content.len());
    data.put_u32(base.members.next());
    data.extend_from_slice(&base.content);
    snapshot.data = data.freeze();
    snapshot
}

pub(crate) fn base_out(snapshot: &Snapshot, vote: Vote) -> Base {
    let metadata = snapshot.get_metadata();
    let members = |ids: &[u64]| ids.iter().filter_map(|id| Member::from_id(*id)).collect();
    let next = u32::from_be_bytes(snapshot.data[..4].try_into().expect("four bytes"));
    let state = metadata.get_conf_state();
    let members = Members::from_parts(members(&state.voters), members(&state.learners), next);
    Base {
        at: Position { term: metadata.term, index: metadata.index },
        vote,
        members: members.expect("the members were checked"),
        installed: true,
        content: snapshot.data.slice(4..),
    }
}

/// Builds the engine's message. Called only with messages that [`crate::check`] has accepted.
pub(crate) fn message_in(message: Message) -> RaftMessage {
    let Message { from, to, term, body } = message;
    let mut raft = RaftMessage { from: from.id(), to: to.id(), term, ..RaftMessage::default() };
    raft.msg_type = match body {
        Body::Append { previous, commit, entries } => {
            (raft.index, raft.log_term, raft.commit) = (previous.index, previous.term, commit);
            raft.entries = entries.into_iter().map(entry_in).collect();
            MessageType::MsgAppend
        }
        Body::Appended { index, commit } => {
            (raft.index, raft.commit) = (index, commit);
            MessageType::MsgAppendResponse
        }
        Body::AppendRefused { index, hint, commit } => {
            (raft.index, raft.commit, raft.reject) = (index, commit, true);
            (raft.reject_hint, raft.log_term) = (hint.index, hint.term);
            MessageType::MsgAppendResponse
        }
        Body::Ping { commit } => {
            raft.commit = commit;
            MessageType::MsgHeartbeat
        }
        Body::Pong { commit } => {
            raft.commit = commit;
            MessageType::MsgHeartbeatResponse
        }
        Body::VoteRequest { pre, last, commit, transfer } => {
            (raft.index, raft.log_term) = (last.index, last.term);
            (raft.commit, raft.commit_term) = (commit.index, commit.term);
            if transfer {
                raft.context = Bytes::from_static(raft::CAMPAIGN_TRANSFER);
            }
            if pre { MessageType::MsgRequestPreVote } else { MessageType::MsgRequestVote }
        }
        Body::VoteResponse { pre, granted, commit } => {
            (raft.commit, raft.commit_term, raft.reject) = (commit.index, commit.term, !granted);
            if pre { MessageType::MsgRequestPreVoteResponse } else { MessageType::MsgRequestVoteResponse }
        }
        Body::InstallBase(base) => {
            raft.set_snapshot(base_in(&base));
            MessageType::MsgSnapshot
        }
        Body::TimeoutNow => MessageType::MsgTimeoutNow,
    };
    raft
}

/// Converts a message that the engine wants to send. Returns `None` for kinds that are never sent to peers:
/// proposals and reads. Only a leader makes these.
pub(crate) fn message_out(mut raft: RaftMessage) -> Option<Message> {
    let (from, to) = (Member::from_id(raft.from)?, Member::from_id(raft.to)?);
    let body = match raft.msg_type {
        MessageType::MsgAppend => Body::Append {
            previous: Position { term: raft.log_term, index: raft.index },
            commit: raft.commit,
            entries: raft.entries.iter().map(entry_out).collect(),
        },
        MessageType::MsgAppendResponse if raft.reject => Body::AppendRefused {
            index: raft.index,
            hint: Position { term: raft.log_term, index: raft.reject_hint },
            commit: raft.commit,
        },
        MessageType::MsgAppendResponse => Body::Appended { index: raft.index, commit: raft.commit },
        MessageType::MsgHeartbeat => Body::Ping { commit: raft.commit },
        MessageType::MsgHeartbeatResponse => Body::Pong { commit: raft.commit },
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => Body::VoteRequest {
            pre: raft.msg_type == MessageType::MsgRequestPreVote,
            last: Position { term: raft.log_term, index: raft.index },
            commit: Position { term: raft.commit_term, index: raft.commit },
            transfer: raft.context == raft::CAMPAIGN_TRANSFER,
        },
        MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => Body::VoteResponse {
            pre: raft.msg_type == MessageType::MsgRequestPreVoteResponse,
            granted: !raft.reject,
            commit: Position { term: raft.commit_term, index: raft.commit },
        },
        MessageType::MsgSnapshot => Body::InstallBase(base_out(&raft.take_snapshot(), Vote::default())),
        MessageType::MsgTimeoutNow => Body::TimeoutNow,
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader
        | MessageType::MsgReadIndex
        | MessageType::MsgReadIndexResp => return None,
    };
    Some(Message { from, to, term: raft.term, body })
}
