//! Makes a group move, and carries out what it hands out.
//!
//! ```text
//!   campaign, propose, handle_synced ──> the member ──> pump: for each round, in this order
//!
//!     standing     ──> Owner::handle_standing
//!     records      ──> storage, to be synced; an installed base among them ──> Owner::install
//!     now          ──> Owner::send
//!     after_sync   ──> kept until the round is synced, then Owner::send
//!     committed    ──> Owner::handle_committed
//!     wants_base   ──> Owner::base ──> the member
//! ```

use bytes::Bytes;
use catalog::categories::RA;
use catalog::ids::NodeNumber;
use replica::{Entry, Message, Record, Refused, Round, Standing};

use super::hosted::Proposed;
use super::{GroupId, GroupRound, Hosted};
use crate::facts::push_group;
use crate::shard::{Mutation, Shard};

/// What a group asks of its owner.
///
/// While one of these calls is in progress, the owner may end the group ([`Owner::hosted`] returns `None` from then on). Nothing else
/// may move the group meanwhile.
pub(in crate::shard) trait Owner {
    fn id(&self) -> GroupId;

    fn shard(&mut self) -> &mut Shard;

    /// Returns this node's member of the group. `None` if the group has ended.
    fn hosted(&mut self) -> Option<&mut Hosted>;

    /// Called when the member has another term or role, or knows another leader. If it led before, that leadership has ended: the owner
    /// drops everything that it has decided and that is not committed. The member leads with the first entry of its term, and not
    /// before: see [`Owner::handle_committed`].
    fn handle_standing(&mut self, standing: Standing);

    /// Called for each committed entry, in their order. `is_mine` is true if this member has proposed it in its current term, and has
    /// led the group ever since. Then the owner has decided what the entry says, and the entry of kind `Empty` says that the
    /// owner may decide from now on. If `is_mine` is false, somebody else has decided, or this member before it was deposed or
    /// restarted: the owner applies the entry.
    fn handle_committed(&mut self, entry: Entry, is_mine: bool);

    /// Returns the owner's state as the content of a base: what all entries have done that were handed out as committed.
    fn base(&mut self) -> Bytes;

    /// Returns the owner's state as the content of a base for a member on another node.
    fn base_for_others(&mut self) -> Bytes {
        self.base()
    }

    /// Called when a leader has replaced everything that this member had by a base. The owner's state is its content from now on.
    fn install(&mut self, content: Bytes);

    /// Sends messages to other members. By default they are lost, as over a link that is closed.
    fn send(&mut self, _messages: Vec<Message>) {}
}

/// Calls what may move the group, and counts how far it was moved. Returns `None` if the group has ended.
fn drive<O: Owner, R>(owner: &mut O, act: impl FnOnce(&mut Hosted) -> R) -> Option<R> {
    let hosted = owner.hosted()?;
    let before = hosted.reached();
    let result = act(hosted);
    let after = hosted.reached();
    if owner.id().is_counted() {
        owner.shard().counters.raft.advance(&before, &after);
    }
    Some(result)
}

/// Carries out the rounds of a group until there is none.
pub(in crate::shard) fn pump<O: Owner>(owner: &mut O) {
    while let Some(Some(round)) = drive(owner, Hosted::poll_round) {
        // Without `..`, so that nothing that a group hands out is forgotten.
        let Round { number, standing, records, now, committed, after_sync, wants_base } = round;
        if let Some(standing) = standing {
            change_standing(owner, standing);
        }
        write(owner, number, &records, after_sync);
        for record in records {
            if let Record::Base(base) = record
                && base.installed
            {
                owner.install(base.content);
            }
        }
        owner.send(now);
        if !owner.shard().has(Mutation::IgnoreCommitted) {
            committed.into_iter().for_each(|entry| commit(owner, entry));
        }
        if wants_base {
            let content = owner.base_for_others();
            drive(owner, |hosted| hosted.engine.wake().send_base(content));
        }
    }
}

fn change_standing<O: Owner>(owner: &mut O, standing: Standing) {
    owner.handle_standing(standing);
    // These facts were decided before. The owner has dropped them, and its rollback decides nothing for others.
    if let Some(hosted) = owner.hosted() {
        hosted.open.clear();
    }
}

/// Hands the records of a round to the storage.
fn write<O: Owner>(owner: &mut O, number: u64, records: &[Record], after_sync: Vec<Message>) {
    let (group, log_file) = (owner.id(), owner.shard().storage.newest_file());
    let noted = drive(owner, |hosted| {
        hosted.note_round(number, !records.is_empty(), after_sync);
        (hosted.engine.me(), hosted.note_records(records, log_file))
    });
    let Some((me, (entries, bytes))) = noted else { return };
    let shard = owner.shard();
    if group.is_counted() {
        shard.counters.raft_entries += entries;
        shard.counters.raft_bytes += bytes;
    }
    if !records.is_empty() {
        let owner = group.log_owner();
        shard
            .storage
            .push_round(|into| records.iter().for_each(|record| push_group(into, owner, me, record)));
        shard.groups.unsynced.push_back(GroupRound { group, number });
    }
}

fn commit<O: Owner>(owner: &mut O, entry: Entry) {
    let now_ms = owner.shard().now_ms();
    let Some(hosted) = owner.hosted() else { return };
    let took_ms = hosted.note_committed(entry.at.index, now_ms);
    // A term has one leader, so an entry of the term in which this member leads is its own.
    let is_mine = hosted.leads_in() == Some(entry.at.term);
    owner.handle_committed(entry, is_mine);
    let is_counted = owner.id().is_counted();
    took_ms.filter(|_| is_counted).into_iter().for_each(|ms| owner.shard().groups.note_commit(ms));
}

/// Called when the storage has synced the records of a round.
pub(in crate::shard) fn handle_synced<O: Owner>(owner: &mut O, number: u64) {
    let Some(sent) = drive(owner, |hosted| hosted.handle_synced(number)) else { return };
    owner.send(sent);
    pump(owner);
}

/// Handles a message of another member. One that does not fit is dropped.
pub(in crate::shard) fn step<O: Owner>(owner: &mut O, message: Message) {
    let (group, support) = (owner.id(), owner.shard().peers.support().clone());
    if let Some(Err(rejected)) = drive(owner, |hosted| hosted.engine.wake().step(message, &support)) {
        tracing::debug!(target: RA, ?group, "a message is dropped: {rejected}");
    }
    pump(owner);
}

/// Called when the link to a node is open, or has closed.
pub(in crate::shard) fn handle_link<O: Owner>(owner: &mut O, node: NodeNumber, up: bool) {
    drive(owner, |hosted| hosted.engine.wake().on_link(node, up));
    pump(owner);
}

/// Called when the support of a node has ended. If it begins again at once, because the node was restarted, its leadership is over nevertheless.
pub(in crate::shard) fn handle_support_ended<O: Owner>(owner: &mut O, node: NodeNumber) {
    drive(owner, |hosted| hosted.engine.wake().on_support_ended(node));
    pump(owner);
}

/// Moves a group again that has no leader, or only one on a node that is not supported any more, or whose followers lack something. Returns
/// true if it must be called again.
pub(in crate::shard) fn retry<O: Owner>(owner: &mut O) -> bool {
    let (group, support) = (owner.id(), owner.shard().peers.support().clone());
    let tried = drive(owner, |hosted| {
        let group = hosted.engine.wake();
        let tried = (group.is_restless() || group.lacks_support(&support)).then(|| group.retry());
        (tried, group.is_restless())
    });
    if let Some((Some(Err(refused)), _)) = &tried {
        tracing::debug!(target: RA, ?group, "a member does not campaign: {refused}");
    }
    pump(owner);
    tried.is_some_and(|(tried, is_restless)| is_restless || tried.is_some())
}

/// Makes the member campaign, unless it leads or campaigns already.
pub(in crate::shard) fn campaign<O: Owner>(owner: &mut O) {
    if !owner.hosted().is_some_and(|hosted| hosted.may_campaign()) {
        return;
    }
    if let Some(Err(refused)) = drive(owner, |hosted| hosted.engine.wake().campaign()) {
        tracing::debug!(target: RA, group = ?owner.id(), "a member does not campaign: {refused}");
    }
    pump(owner);
}

/// Proposes the facts that the owner of a leading member has collected. The owner then calls [`pump`]. Returns `None` if there is no
/// entry: either the member no longer leads, and [`Owner::handle_standing`] was called, or the facts must wait.
pub(in crate::shard) fn propose<O: Owner>(owner: &mut O) -> Option<Proposed> {
    let (group, now_ms) = (owner.id(), owner.shard().now_ms());
    let refused = match owner.hosted()?.propose(now_ms) {
        Ok(proposed) => return Some(proposed),
        Err(refused) => refused,
    };
    tracing::debug!(target: RA, ?group, "a member makes no entry: {refused}");
    // If it no longer leads, the next round says so.
    pump(owner);
    if refused == Refused::Transferring
        && let Some(hosted) = owner.hosted()
    {
        hosted.open.postpone(now_ms);
    }
    None
}

/// Writes a new base of a group, and the entries after it, which replace all its records so far. Returns the entries. `None` if there is no base
/// now: one that a leader has sent is not synced.
pub(in crate::shard) fn write_base<O: Owner>(owner: &mut O) -> Option<Vec<Entry>> {
    let (group, content, log_file) = (owner.id(), owner.base(), owner.shard().storage.newest_file());
    let records = drive(owner, |hosted| hosted.evacuate(content, log_file)).flatten()?;
    let me = owner.hosted()?.engine.me();
    owner.shard().storage.push_records(|into| {
        records.iter().for_each(|record| push_group(into, group.log_owner(), me, record))
    });
    let entry = |record| if let Record::Entry { entry, .. } = record { Some(entry) } else { None };
    Some(records.into_iter().filter_map(entry).collect())
}
