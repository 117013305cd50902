//! What operators do at quorum queues and their Raft groups. There is one node, so each group has one member, which is here.

use catalog::access::{Identity, Resource, Verb};
use std::sync::Arc;

use broker::admin_api::{AdminError, MemberChange, PeekedPart, Reclaimed};
use catalog::QueueRecord;
use queue::{PEEK_STEPS_MAX, Peek, PeekEnd, Peeked};

use super::AdminApi;

use super::messages::peeked_row;
use crate::shard::questions::{Act, PLACES_PER_PART};

impl AdminApi {
    /// Returns ready messages of a queue from a position on, fewer than wanted if they are large or on the disk. Nothing is
    /// consumed.
    pub async fn peek(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        peek: Peek,
    ) -> Result<PeekedPart, AdminError> {
        self.permit(who, vhost, Verb::Get, &[Resource::Queue(name)]).await?;
        self.peeked(vhost, name, peek).await
    }

    /// Writes a new base of a quorum queue's group, which replaces all entries up to it. Returns its index.
    pub async fn checkpoint(&self, who: &Identity, vhost: &str, name: &str) -> Result<u64, AdminError> {
        self.permit(who, "", Verb::MaintainGroups, &[]).await?;
        self.checkpointed(vhost, name).await
    }

    /// Frees memory of a quorum queue, and begins to page out its ready messages.
    pub async fn reclaim_memory(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
    ) -> Result<Reclaimed, AdminError> {
        self.permit(who, "", Verb::MaintainGroups, &[]).await?;
        self.reclaimed(vhost, name).await
    }

    /// Changes the group of one quorum queue. Succeeds if nothing has to be done.
    pub async fn change_member(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        node: &str,
        change: MemberChange,
    ) -> Result<(), AdminError> {
        self.permit(who, "", Verb::MaintainGroups, &[]).await?;
        self.member_changed(vhost, name, node, change).await
    }

    /// Adds a member on this node to every quorum queue that has none there.
    ///
    /// # Errors
    /// The user may not do this, or there is no such node.
    pub fn grow(&self, who: &Identity, node: &str) -> Result<(), AdminError> {
        self.permit_by_tag(who, Verb::MaintainGroups)?;
        self.grown(node)
    }

    /// Removes the members of all quorum queues on this node. Succeeds if there are none.
    pub async fn shrink(&self, who: &Identity, node: &str) -> Result<(), AdminError> {
        self.permit(who, "", Verb::MaintainGroups, &[]).await?;
        self.shrunk(node).await
    }

    /// Distributes the leaders of all quorum queues evenly over the nodes.
    ///
    /// # Errors
    /// The user may not do this.
    pub fn rebalance(&self, who: &Identity) -> Result<(), AdminError> {
        // The leaders of all groups are on the only node, so they are balanced.
        self.permit_by_tag(who, Verb::MaintainGroups)
    }

    pub(super) async fn peeked(&self, vhost: &str, name: &str, peek: Peek) -> Result<PeekedPart, AdminError> {
        let record = self.usable(vhost, name).await?;
        if record.is_stream() {
            return Err(AdminError::Refused(format!(
                "queue '{name}' in vhost '{vhost}' is a stream: browse its messages instead"
            )));
        }
        if peek.position == 0 {
            return Err(AdminError::Refused("position '0' is not a number from 1 on".to_owned()));
        }
        let Some(home) = self.home(&record).await? else { return Ok(PeekedPart::default()) };
        let peek = Peek { count: peek.count.min(PLACES_PER_PART as u32), ..peek };
        let act = |to| Act::Peek { queue: record.id, peek, to };
        let peeked = self.act(self.inner.deadlines.change, home, act).await?;
        let Peeked { messages, end } = match peeked {
            Ok(peeked) => peeked,
            Err(why) => return Err(self.refused_for(&record, why).await),
        };
        let hint = match end {
            PeekEnd::Queue => None,
            PeekEnd::Enough(hint) => Some(hint),
            // The shard has read as many blocks as it may, and has found nothing: the queue changes all the time.
            PeekEnd::Disk(_) if messages.is_empty() => return Err(AdminError::TimedOut),
            PeekEnd::Disk(block) => Some(Some(block)),
            PeekEnd::TooFar => {
                return Err(AdminError::Refused(format!(
                    "position {} of queue '{name}' in vhost '{vhost}' is too far: more than {PEEK_STEPS_MAX} messages in \
                     memory come before it",
                    peek.position
                )));
            }
        };
        let position = peek.position.saturating_add(messages.len() as u64);
        let next = hint.map(|hint| Peek { position, hint, ..peek });
        Ok(PeekedPart { rows: messages.into_iter().map(peeked_row).collect(), next })
    }

    pub(super) async fn checkpointed(&self, vhost: &str, name: &str) -> Result<u64, AdminError> {
        let (record, home) = self.running(vhost, name).await?;
        let act = |to| Act::Checkpoint { queue: record.id, to };
        let index = self.act(self.inner.deadlines.change, home, act).await?;
        match index {
            Ok(index) => Ok(index),
            Err(why) => Err(self.refused_for(&record, why).await),
        }
    }

    pub(super) async fn reclaimed(&self, vhost: &str, name: &str) -> Result<Reclaimed, AdminError> {
        let (record, home) = self.running(vhost, name).await?;
        let act = |to| Act::Reclaim { queue: record.id, to };
        let reclaimed = self.act(self.inner.deadlines.change, home, act).await?;
        match reclaimed {
            Ok(reclaimed) => Ok(reclaimed),
            Err(why) => Err(self.refused_for(&record, why).await),
        }
    }

    pub(super) async fn member_changed(
        &self,
        vhost: &str,
        name: &str,
        node: &str,
        change: MemberChange,
    ) -> Result<(), AdminError> {
        self.quorum_record(vhost, name).await?;
        let mine = &*self.inner.node;
        let impossible = |why: String| {
            let what = format!("queue '{name}' in vhost '{vhost}': {why}");
            Err(AdminError::Impossible(what))
        };
        match (change, node == mine) {
            (MemberChange::Add | MemberChange::Lead, true) | (MemberChange::Remove, false) => Ok(()),
            (MemberChange::Add, false) => {
                impossible(format!("there is no node '{node}' for another member; '{mine}' is the only node"))
            }
            (MemberChange::Remove, true) => impossible(format!(
                "its member on node '{mine}' is the only one and cannot be removed; delete the queue instead"
            )),
            (MemberChange::Lead, false) => impossible(format!(
                "it has no member on node '{node}' that could lead; its only member is on '{mine}'"
            )),
        }
    }

    pub(super) fn grown(&self, node: &str) -> Result<(), AdminError> {
        self.require_node(node)
    }

    pub(super) async fn shrunk(&self, node: &str) -> Result<(), AdminError> {
        if node != &*self.inner.node {
            return Ok(());
        }
        let groups = self.queues_with_places().await?.iter().filter(|(_, record)| record.is_quorum()).count();
        match groups {
            0 => Ok(()),
            _ => Err(AdminError::Impossible(format!(
                "'{node}' is the only node: the members on it are the only ones of {groups} quorum queues and cannot be removed"
            ))),
        }
    }

    async fn quorum_record(&self, vhost: &str, name: &str) -> Result<Arc<QueueRecord>, AdminError> {
        let record = self.usable(vhost, name).await?;
        match record.is_quorum() {
            true => Ok(record),
            false => Err(AdminError::no_group(vhost, name, record.kind())),
        }
    }

    /// Returns a quorum queue and the shard that it lives on.
    ///
    /// # Errors
    /// There is no such quorum queue, or its declaration has just been answered, and its group does not run yet.
    async fn running(&self, vhost: &str, name: &str) -> Result<(Arc<QueueRecord>, usize), AdminError> {
        let record = self.quorum_record(vhost, name).await?;
        match self.home(&record).await? {
            Some(home) => Ok((record, home)),
            None => Err(AdminError::Refused(format!(
                "queue '{name}' in vhost '{vhost}' has just been declared, and its Raft group does not run yet"
            ))),
        }
    }

    /// Returns the shard of this node that a queue lives on. `None` if there is none, or not yet.
    async fn home(&self, record: &QueueRecord) -> Result<Option<usize>, AdminError> {
        let id = record.id;
        Ok(self.read(1, move |_, placements| placements.home(id)).await?.here().map(usize::from))
    }
}
