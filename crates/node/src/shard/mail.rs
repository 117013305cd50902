//! The mailroom of a shard: what gates and machines post, and the mail between shards.
//!
//! ```text
//!   gates, machines ──> post ──Shard::dispatch_post──┬─> inbox ──> this shard
//!   other shards ──────────────────────handle────┘  outboxes ──> other shards
//! ```
//!
//! Mail for this shard and for other shards passes the same boxes, so that it keeps its order.

use std::ops::Range;

use broker::mail::{Mail, Post};
use catalog::ids::{QueueId, ShardId};
use queue::Request;

use super::receipts::Receipts;
use super::requests::Left;

/// The boxes of a shard; see the module.
#[derive(Debug)]
pub(super) struct Mailroom {
    here: ShardId,
    /// What gates and machines have posted and [`super::Shard::dispatch_post`] has not dispatched.
    pub post: Post,
    /// An empty vector whose memory is reused for the next posted requests.
    spare: Vec<(QueueId, Request)>,
    /// The requests for queues of this shard that were left for another turn.
    pub left: Left,
    inbox: Vec<Mail>,
    /// The mail for other shards, by shard.
    outboxes: Vec<Vec<Mail>>,
    /// Receipts that are sent at the end of this round.
    pub receipts: Receipts,
}

impl Mailroom {
    pub(super) fn new(here: ShardId, shards: ShardId) -> Self {
        let outboxes = (0..shards).map(|_| Vec::new()).collect();
        Self {
            here,
            post: Post::default(),
            spare: Vec::new(),
            left: Left::default(),
            inbox: Vec::new(),
            outboxes,
            receipts: Receipts::default(),
        }
    }

    /// The numbers of the node's shards.
    pub(super) fn shards(&self) -> Range<ShardId> {
        0..self.outboxes.len() as ShardId
    }

    /// Returns true if nothing is left to handle here in this turn.
    pub(super) fn is_empty(&self) -> bool {
        self.inbox.is_empty() && self.post.is_empty()
    }

    /// Takes in mail from another shard.
    pub(super) fn receive(&mut self, mail: Vec<Mail>) {
        self.inbox.extend(mail);
    }

    /// Takes the mail for this shard. The caller should return the empty box with [`Self::give_inbox`].
    pub(super) fn take_inbox(&mut self) -> Vec<Mail> {
        std::mem::take(&mut self.inbox)
    }

    /// Returns the memory of an emptied inbox.
    pub(super) fn give_inbox(&mut self, empty: Vec<Mail>) {
        if self.inbox.is_empty() {
            self.inbox = empty;
        }
    }

    /// Takes the posted requests. The caller should return the empty box with [`Self::give_requests`].
    pub(super) fn take_requests(&mut self) -> Vec<(QueueId, Request)> {
        std::mem::replace(&mut self.post.requests, std::mem::take(&mut self.spare))
    }

    /// Returns the memory of emptied requests.
    pub(super) fn give_requests(&mut self, empty: Vec<(QueueId, Request)>) {
        self.spare = empty;
    }

    /// Sends mail to a shard, this one included.
    pub(super) fn send(&mut self, to: ShardId, mail: Mail) {
        if to == self.here {
            self.inbox.push(mail);
        } else if let Some(outbox) = self.outboxes.get_mut(usize::from(to)) {
            outbox.push(mail);
        }
    }

    /// Sends a request for a queue to the queue's shard. It joins the requests sent just before it.
    pub(super) fn send_request(&mut self, to: ShardId, queue: QueueId, request: Request) {
        match self.outboxes.get_mut(usize::from(to)).and_then(|outbox| outbox.last_mut()) {
            Some(Mail::Requests(requests)) => requests.push((queue, request)),
            _ => self.send(to, Mail::Requests(vec![(queue, request)])),
        }
    }

    /// Takes the mail for another shard.
    pub(super) fn poll(&mut self, to: ShardId) -> Vec<Mail> {
        self.outboxes.get_mut(usize::from(to)).map(std::mem::take).unwrap_or_default()
    }
}
