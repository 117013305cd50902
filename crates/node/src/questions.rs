//! What the admin API asks of a shard, and what a shard answers. Both are plain data without a channel, so that a
//! question could be sent to another node. The asker gives each question a number and keeps the channel of
//! its waiter under that number ([`OpenQuestions`]).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::admin_api::{
    BudgetRow, ConnectionRow, ExchangeRow, MoveRefusal, NamedVhost, QueueNumbers, Reclaimed, ShardRow,
    VhostNumbers,
};
use broker::counters::Counters;
use broker::exchange_counts::ExchangeCounts;
use broker::explain::{Comer, ConnectionFacts, End, LogFacts, ShardFacts, Troubles, Wanted};
use broker::ids::Where;
use broker::moving::Moving;
use broker::traces::Traces;
use catalog::ExchangeId;
use catalog::access::{AccessRefused, Authority, Identity};
use catalog::ids::QueueId;
use catalog::{Answer, Binding, BindingCursor, CatalogError, Command, Parameters, Policy, QueueRecord};
use hashbrown::HashMap;
use queue::{ConsumerId, Effect, Peek, Peeked, Refusal, Request};
use tokio::sync::oneshot;

/// A question. Each variant names its reply.
#[derive(Debug)]
pub enum Question {
    // ---- for the node shard
    /// Changes the catalog. Answered by [`Reply::Changed`].
    /// The user is the one who asks for it.
    Change(Command, Arc<str>),
    /// Sends a request to a queue. The shard sets the ticket. Answered by [`Reply::Effect`].
    Queue { queue: QueueId, request: Request },
    /// Asks for a new holder, under which messages can be fetched. Answered by [`Reply::Holder`].
    Holder,
    /// Sends requests that a queue does not answer. The shard sends them after those of earlier questions. Answered by
    /// [`Reply::Posted`] when they are sent.
    Post { queue: QueueId, requests: Vec<Request> },
    /// Publishes messages of a queue again, at their targets. Answered by [`Reply::Moved`].
    Move { vhost: Arc<str>, messages: Vec<Moving> },
    /// Asks for the queue of this name, to show it. Answered by [`Reply::Named`].
    Listed { vhost: Arc<str>, name: Arc<str> },
    /// Asks for the queue of this name, to use it. Answered by [`Reply::Named`].
    Usable { vhost: Arc<str>, name: Arc<str> },
    /// Asks for those of these queues that exist, in this order. Answered by [`Reply::Records`].
    ById(Vec<QueueId>),
    /// Asks for the queues at these ends of routes. A queue that is at several ends appears several times.
    /// Answered by [`Reply::Records`].
    AtEnds(Vec<End>),
    /// Asks for queues, from place `from` on. Answered by [`Reply::Places`].
    Queues { from: usize },
    /// Asks for the homes of these queues, in this order. Answered by [`Reply::Homes`].
    Homes(Vec<QueueId>),
    /// Asks for exchanges without their counts, from place `from` on. Answered by [`Reply::Exchanges`].
    Exchanges { from: usize },
    /// Asks for bindings, from a place on. Answered by [`Reply::Bindings`].
    Bindings { from: BindingCursor },
    /// Asks for policies, or operator policies. Answered by [`Reply::Policies`].
    Policies { operator: bool },
    /// Asks for all parameters. Answered by [`Reply::Parameters`].
    Parameters,
    /// Asks for all virtual hosts. Answered by [`Reply::Vhosts`].
    Vhosts,
    /// Asks for up to [`PLACES_PER_PART`] queues of a virtual host. Answered by [`Reply::Ids`].
    QueuesIn { vhost: Arc<str> },
    /// Asks for the numbers of queues and exchanges, and for the name of the cluster. Answered by [`Reply::Counts`].
    Counts,
    // ---- for every shard, about what lives there
    /// Asks for the reports of these queues; `None` for a queue that does not live on this shard. Answered by
    /// [`Reply::Reports`].
    Reports(Vec<QueueId>),
    /// Asks for ready messages of a queue that lives on the shard, at most [`PLACES_PER_PART`]. Answered by
    /// [`Reply::Peeked`].
    Peek { queue: QueueId, peek: Peek },
    /// Writes a new base of the group of a quorum queue that lives on the shard. Answered by [`Reply::Checkpoint`].
    Checkpoint(QueueId),
    /// Reclaims memory of a queue that lives on the shard. Answered by [`Reply::Reclaimed`].
    Reclaim(QueueId),
    /// Asks how many messages of each of these streams were delivered on this shard. Answered by
    /// [`Reply::Delivered`].
    Delivered(Vec<QueueId>),
    /// Asks for what was published to each of these exchanges on this shard. Answered by [`Reply::ExchangeCounts`].
    ExchangeCounts(Vec<ExchangeId>),
    /// Asks for the statistics of virtual hosts on this shard: the sums over queues and connections, from place `from` on. The
    /// same virtual host may be in several parts. Answered by [`Reply::VhostNumbers`].
    VhostNumbers { from: usize },
    /// Asks for the queues and streams on this shard that have had messages since the start, from place `from` on. Answered by
    /// [`Reply::UsedQueues`].
    UsedQueues { from: usize },
    /// Asks for sums over the shard. Answered by [`Reply::Totals`].
    Totals,
    /// Asks for connections, or for those with these names, from place `from` on. Answered by [`Reply::Connections`].
    Connections { node: Arc<str>, names: Option<Arc<HashSet<Arc<str>>>>, from: usize },
    /// Asks for the state of the shard and of the log, and for the links of the wanted connections from place `from` on.
    /// Answered by [`Reply::Look`].
    Look { wanted: Wanted, from: usize },
    /// Asks for the state of the shard and of the log, and for what is not well with its queues and connections, from place
    /// `from` on: by virtual host, and of connections only of those of this user, if one is named. The same virtual host may be
    /// in several parts. Answered by [`Reply::Troubles`].
    Troubles { of: Option<(Authority, Arc<str>)>, from: usize },
    /// Sets what is traced. Answered by [`Reply::TracesSet`].
    SetTraces(Arc<Traces>),
    /// Closes the connection of this name. Answered by [`Reply::Closed`].
    Close { who: Identity, name: String, reason: String },
}

/// The answer of a shard.
#[derive(Debug)]
pub enum Reply {
    Changed(Result<Answer, CatalogError>),
    Effect(Box<Effect>),
    /// `None` if the shard has no number left.
    Holder(Option<ConsumerId>),
    Posted,
    /// What has become of each message, in their order.
    Moved(Vec<Result<(), MoveRefusal>>),
    Records(Vec<Arc<QueueRecord>>),
    Named(Result<Arc<QueueRecord>, CatalogError>),
    Places(Part<(usize, Arc<QueueRecord>)>),
    Homes(Vec<Where>),
    Exchanges(Part<ExchangeRow>),
    Bindings(Part<Arc<Binding>, BindingCursor>),
    Policies(Vec<Arc<Policy>>),
    Parameters(Parameters),
    Vhosts(Vec<NamedVhost>),
    Ids(Vec<QueueId>),
    Counts {
        queues: usize,
        exchanges: usize,
        /// The name that the cluster was given. `None` if the setting counts.
        cluster_name: Option<String>,
        cluster_tags: Option<Arc<str>>,
    },
    Reports(Vec<Option<QueueNumbers>>),
    Peeked(Result<Peeked, Refusal>),
    /// The index of the new base.
    Checkpoint(Result<u64, Refusal>),
    Reclaimed(Result<Reclaimed, Refusal>),
    Delivered(Vec<u64>),
    /// In the order of the question.
    ExchangeCounts(Vec<ExchangeCounts>),
    VhostNumbers(Part<(Arc<str>, VhostNumbers)>),
    /// With the number of messages that were published to and delivered from each.
    UsedQueues(Part<(QueueId, u64)>),
    Totals(Box<Totals>),
    Connections(Part<ConnectionRow>),
    Look(Part<ConnectionFacts>, LogFacts, ShardFacts),
    /// The part that begins at 0 also has the clients whose connections were brief, and how many there were within a minute.
    Troubles {
        part: Part<(Arc<str>, Troubles)>,
        comers: Vec<(Comer, u64)>,
        log: LogFacts,
        shard: ShardFacts,
    },
    /// True if the connection was on this shard.
    Closed(Result<bool, AccessRefused>),
    TracesSet,
}

/// Sums over one shard.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The sum over the queues and streams that live there.
    pub depth: queue::Depth,
    /// The open sessions of AMQP 1.0, and the open channels of AMQP 0.9.1.
    pub sessions: u64,
    pub channels: u64,
    pub counters: Counters,
    /// See [`broker::admin_api::Overview::commit_latency_ms`].
    pub commit_latency_ms: u64,
    pub budgets: Vec<BudgetRow>,
    pub shard: ShardRow,
}

/// A part of a list that is read in parts. A part covers at most [`PLACES_PER_PART`] places.
///
/// An entry that stays in its place while all parts are read is in the list once. An entry that is added or
/// removed meanwhile may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T, P = usize> {
    pub rows: Vec<T>,
    /// The place where the next part begins; `None` after the last part.
    pub next: Option<P>,
}

/// The most places that a shard visits for one question, and the most ids in one question. In each turn a
/// shard answers at least one question of this size. Further questions may wait for the next turn.
pub const PLACES_PER_PART: usize = 500;

impl<T> Part<T> {
    /// Returns the rows from place `from` on, of a table with `places` places.
    pub fn of(from: usize, places: usize, row: impl FnMut(usize) -> Option<T>) -> Self {
        let end = places.min(from.saturating_add(PLACES_PER_PART));
        Self { rows: (from..end).filter_map(row).collect(), next: (end < places).then_some(end) }
    }
}

/// Questions without an answer, by number. They are bounded by the HTTP requests in flight, because a waiter
/// that gives up removes its question.
#[derive(Debug, Default)]
pub struct OpenQuestions {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Reply>>>,
}

impl OpenQuestions {
    /// Returns the number of a new question, and the receiver of its answer.
    pub fn begin(&self) -> (u64, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting().insert(number, reply);
        (number, answer)
    }

    /// Passes the answer of a shard to the waiter, if it has not given up.
    pub fn answer(&self, number: u64, reply: Reply) {
        let waiting = self.waiting().remove(&number);
        if let Some(waiting) = waiting {
            drop(waiting.send(reply));
        }
    }

    /// Gives a question up. Returns false if the answer has arrived.
    pub fn end(&self, number: u64) -> bool {
        self.waiting().remove(&number).is_some()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Reply>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_table() {
        let (places, mut from, mut rows, mut parts) = (2 * PLACES_PER_PART + 1, 0, Vec::new(), 0);
        loop {
            let part = Part::of(from, places, |place| (place % 2 == 0).then_some(place));
            (parts, rows) = (parts + 1, [rows, part.rows].concat());
            let Some(next) = part.next else { break };
            from = next;
        }
        assert_eq!((parts, rows), (3, (0..places).step_by(2).collect::<Vec<_>>()));
        assert_eq!(Part::of(5, 3, Some), Part { rows: Vec::new(), next: None });
    }

    #[test]
    fn an_answer_reaches_its_asker() {
        let questions = OpenQuestions::default();
        let ((first, mut of_first), (second, mut of_second)) = (questions.begin(), questions.begin());
        questions.answer(second, Reply::Delivered(vec![2]));
        assert!(matches!(of_second.try_recv(), Ok(Reply::Delivered(delivered)) if delivered == [2]));
        assert!(questions.end(first) && !questions.end(second));
        questions.answer(first, Reply::Delivered(vec![1]));
        assert!(of_first.try_recv().is_err());
    }
}
