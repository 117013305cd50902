//! Questions that change something.

use std::sync::Arc;

use broker::admin_api::{MoveRefusal, Reclaimed};
use broker::moving::Moving;
use broker::traces::Traces;
use catalog::access::{AccessRefused, Identity};
use catalog::ids::{NodeId, QueueId};
use catalog::{Answer, CatalogError, Command};
use queue::{ConsumerId, Effect, Peek, Peeked, Refusal, Request};

use super::{AnswerTo, PLACES_PER_PART};
use crate::peer::{FarAsk, FarSeen};

/// Something that a shard is to do. Each variant has the way of its answer.
#[derive(Debug)]
pub enum Act {
    /// Changes the catalog, for the user `by`.
    Change { command: Command, by: Arc<str>, to: AnswerTo<Result<Answer, CatalogError>> },
    /// Catches up with the catalog, if the node is in a cluster: what was answered before on another node is known here then, if the leader can
    /// be reached.
    CatchUp(AnswerTo<()>),
    /// Sends a request to a queue. The shard sets the ticket.
    Request { queue: QueueId, request: Request, to: AnswerTo<Effect> },
    /// Asks all shards of another node. Answered by `None` if the node is out of reach, or does not answer in time.
    LookAt { node: NodeId, ask: FarAsk, to: AnswerTo<Option<FarSeen>> },
    /// Makes a new holder, under which messages can be fetched. `None` if the shard has no number left.
    Holder(AnswerTo<Option<ConsumerId>>),
    /// Sends requests that a queue does not answer. The shard sends them after those of earlier questions. Answered when they
    /// are sent.
    Post { queue: QueueId, requests: Vec<Request>, to: AnswerTo<()> },
    /// Publishes messages of a queue again, at their targets. The answer says what has become of each, in their order.
    Move { vhost: Arc<str>, messages: Vec<Moving>, to: AnswerTo<Vec<Result<(), MoveRefusal>>> },
    /// Reads ready messages of a queue that lives on the shard, at most [`PLACES_PER_PART`]. They may have to be read from the
    /// disk first.
    Peek { queue: QueueId, peek: Peek, to: AnswerTo<Result<Peeked, Refusal>> },
    /// Writes a new base of the group of a quorum queue that lives on the shard. Answered by the index of the new base.
    Checkpoint { queue: QueueId, to: AnswerTo<Result<u64, Refusal>> },
    /// Reclaims memory of a queue that lives on the shard.
    Reclaim { queue: QueueId, to: AnswerTo<Result<Reclaimed, Refusal>> },
    /// Sets what is traced.
    SetTraces(Arc<Traces>, AnswerTo<()>),
    /// Closes the connection of this name. Answered by true if it was on this shard.
    Close { who: Identity, name: String, reason: String, to: AnswerTo<Result<bool, AccessRefused>> },
}

impl Act {
    /// Returns the number of rows that the shard visits at once.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Peek { peek, .. } => (peek.count as usize).min(PLACES_PER_PART),
            Self::Checkpoint { .. } | Self::Reclaim { .. } => 1,
            Self::Change { .. }
            | Self::CatchUp(_)
            | Self::Request { .. }
            | Self::LookAt { .. }
            | Self::Holder(_)
            | Self::Post { .. }
            | Self::Move { .. }
            | Self::SetTraces(..)
            | Self::Close { .. } => 0,
        }
    }

    /// Returns false if the asker has given up, and the act need not begin any more. Only acts that visit rows wait for another
    /// turn, so only those are asked.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Self::Peek { to, .. } => to.is_awaited(),
            Self::Checkpoint { to, .. } => to.is_awaited(),
            Self::Reclaim { to, .. } => to.is_awaited(),
            _ => true,
        }
    }
}
