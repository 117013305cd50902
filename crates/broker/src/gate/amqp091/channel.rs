//! The state of a channel.

use std::sync::Arc;

use catalog::ids::QueueId;
use hashbrown::HashMap;
use message::Route;
use queue::Refusal;
use slab::Slab;

use super::confirms::{Confirms, Published};
use super::replies::Replies;
use super::tx::Tx;
use super::unsettled::{Run, Unsettled};
use crate::admin_api::PassedCounts;
use crate::intake::Intake;
use crate::kept::Kept;
use crate::outlet::{Holder, Outlet};

/// A channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The publisher, from the first message on.
    pub publisher: Option<Box<Publisher>>,
    /// The confirms that the client receives. `None` if it has not asked for any.
    pub confirms: Option<Box<Confirms>>,
    pub tx: Option<Box<Tx>>,
    /// The consumers, and the holders of messages that `basic.get` has returned. The keys are part of places.
    pub roles: Slab<Role>,
    pub tags: HashMap<Arc<str>, u32>,
    pub holders: HashMap<QueueId, u32>,
    /// The consumer of direct replies.
    pub replies: Option<Box<Replies>>,
    pub unsettled: Unsettled,
    /// The delivery tag of the last delivery.
    pub last_tag: u64,
    /// Settlements that are not sent to the queue yet: the next ones may join them.
    pub settling: Option<Settling>,
    /// The number of unsettled deliveries that each new consumer may have. 0 means any number.
    pub prefetch: u16,
    /// The number of unsettled deliveries that all consumers together may have. 0 means any number.
    pub shared_prefetch: u16,
    /// True if that number has changed since the last turn, so that the consumers have more room now, or less.
    pub shared_prefetch_changed: bool,
    /// The queue that was declared last. An empty name stands for it.
    pub last_queue: Option<Arc<str>>,
    /// The number of the last consumer tag that was generated.
    pub generated: u64,
    /// What passed over the channel, except confirms, which [`Confirms`] counts, and what its consumers count.
    pub counts: PassedCounts,
}

/// The publisher of a channel.
#[derive(Debug)]
pub(super) struct Publisher {
    pub intake: Intake<Published>,
    /// The number of messages that may arrive before the queues have to catch up.
    pub credit: u32,
    /// The route of the last message: the next one often takes the same.
    pub route: Arc<Route>,
}

/// What deliveries on the channel belong to.
#[derive(Debug)]
pub(super) enum Role {
    Consumer(Box<Consumer>),
    Holder {
        queue: QueueId,
        holder: Holder,
        unsettled: u32,
        /// The number of settlements whose answers a commit waits for.
        unanswered: u32,
    },
}

/// A consumer.
#[derive(Debug)]
pub(super) struct Consumer {
    pub outlet: Outlet<()>,
    pub tag: Arc<str>,
    /// The entries of the table of arguments, for people.
    pub arguments: Box<[u8]>,
    /// The bytes of both.
    pub _kept: Kept,
    /// The number of unsettled deliveries that it may have. 0 means any number.
    pub prefetch: u16,
    pub unsettled: u32,
    /// True if the client waits for `basic.consume-ok`.
    pub wants_answer: bool,
    pub cancelled: Cancelled,
}

/// How far the cancellation of a consumer has come. Either side may cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    No,
    /// The queue was asked to send nothing more, or will be as soon as it knows the consumer. With `wants_answer`, the client
    /// waits for `basic.cancel-ok`.
    Asked {
        wants_answer: bool,
    },
    /// The queue sends nothing more. The consumer stays until its deliveries are settled.
    Done,
}

/// Accepted deliveries of one role, whose numbers are consecutive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    pub place: u32,
    pub first: u64,
    pub last: u64,
}

impl Consumer {
    /// Returns true if it gets nothing more, and has settled everything.
    pub(super) fn is_over(&self) -> bool {
        self.cancelled == Cancelled::Done && self.unsettled == 0 && !self.outlet.awaits_answers()
    }
}

impl Channel {
    /// Returns the queue of the first of these runs that cannot be settled, and why: its consumer ended out of reach.
    pub(super) fn out_of_reach(&self, runs: &[Run]) -> Option<(Arc<str>, Refusal)> {
        runs.iter().find_map(|run| match self.roles.get(run.place as usize)? {
            Role::Consumer(consumer) => {
                Some((consumer.outlet.queue_name.clone(), consumer.outlet.out_of_reach()?))
            }
            Role::Holder { .. } => None,
        })
    }

    /// Returns the number of deliveries that a consumer may still receive.
    pub(super) fn room(&self, consumer: &Consumer) -> u32 {
        if consumer.outlet.settled {
            return u32::MAX;
        }
        let left = |max: u16, used: u32| match max {
            0 => u32::MAX,
            max => u32::from(max).saturating_sub(used),
        };
        left(consumer.prefetch, consumer.unsettled).min(self.shared_room())
    }

    /// Returns the number of deliveries that the consumers together may still receive.
    #[inline]
    pub(super) fn shared_room(&self) -> u32 {
        match self.shared_prefetch {
            0 => u32::MAX,
            limit => u32::from(limit).saturating_sub(self.shared_unsettled()),
        }
    }

    /// Returns the number of unsettled deliveries of all consumers together. What `basic.get` has returned does not count.
    pub(super) fn shared_unsettled(&self) -> u32 {
        let fetched = self.holders.values().filter_map(|place| match self.roles.get(*place as usize) {
            Some(Role::Holder { unsettled, .. }) => Some(*unsettled),
            Some(Role::Consumer(_)) | None => None,
        });
        self.unsettled.len().saturating_sub(fetched.sum())
    }

    /// Returns the places of all roles.
    pub(super) fn places(&self) -> Vec<u32> {
        self.roles.iter().map(|(place, _)| place as u32).collect()
    }

    /// Returns a consumer tag that no other consumer of the node has. `unique` is the id of the connection.
    pub(super) fn new_tag(&mut self, unique: u64, channel: u16) -> Arc<str> {
        self.generated += 1;
        format!("amq.ctag-{unique:016x}.{channel}.{}", self.generated).into()
    }

    /// Removes a role. The caller has removed its unsettled deliveries, or nobody will settle them.
    pub(super) fn remove(&mut self, place: u32) -> Option<Role> {
        let role = self.roles.try_remove(place as usize)?;
        match &role {
            Role::Consumer(consumer) => {
                self.counts.deliveries.add(&consumer.outlet.deliveries());
                if self.tags.get(&consumer.tag) == Some(&place) {
                    self.tags.remove(&consumer.tag);
                }
            }
            Role::Holder { queue, .. } => _ = self.holders.remove(queue),
        }
        Some(role)
    }
}
