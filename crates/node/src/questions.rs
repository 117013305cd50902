//! What the desk asks of a shard, and what a shard answers: plain data, without a way back. Whoever asks gives each question
//! a number and keeps the way to whoever waits by that number ([`Asked`]), so that a question could go to another node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::access::{AccessRefused, Identity};
use broker::catalog::{Answer, Binding, BindingCursor, CatalogError, Command, Exchange, Policy, QueueRecord};
use broker::counters::Counters;
use broker::desk::{BudgetRow, ConnectionRow};
use broker::explain::{ConnectionFacts, End, LogFacts, Wanted};
use broker::ids::{QueueId, ShardId};
use hashbrown::HashMap;
use queue::{Effect, Report, Request};
use tokio::sync::oneshot;

/// A question, with the reply that it has.
#[derive(Debug)]
pub enum Question {
    // ---- of the shard that decides
    /// Change the catalog. [`Reply::Changed`].
    Change(Command),
    /// Ask a queue. The shard puts the ticket into the request. [`Reply::Effect`].
    Queue { queue: QueueId, request: Request },
    /// [`Reply::Records`], of none or one.
    Named { vhost: Arc<str>, name: Arc<str> },
    /// Those of these queues that are there, in this order. [`Reply::Records`].
    ById(Vec<QueueId>),
    /// The queues at these ends of routes: one that is at several ends comes several times. [`Reply::Records`].
    AtEnds(Vec<End>),
    /// Queues from a place on. [`Reply::Places`].
    Queues { from: usize },
    /// Where these queues live, in this order. [`Reply::Homes`].
    Homes(Vec<QueueId>),
    /// Exchanges from a place on. [`Reply::Exchanges`].
    Exchanges { from: usize },
    /// Bindings from a place on. [`Reply::Bindings`].
    Bindings { from: BindingCursor },
    /// [`Reply::Policies`].
    Policies { operator: bool },
    /// How many queues and exchanges there are. [`Reply::Counts`].
    Counts,
    // ---- of every shard, each of what lives there
    /// The numbers of these queues; `None` for one that does not live there. [`Reply::Reports`].
    Reports(Vec<QueueId>),
    /// How many messages of each of these streams have been delivered there. [`Reply::Delivered`].
    Delivered(Vec<QueueId>),
    /// [`Reply::Totals`].
    Totals,
    /// Connections from a place on. [`Reply::Connections`].
    Connections { node: Arc<str>, from: usize },
    /// What may stop everything, and the links of connections that matter, from a place on. [`Reply::Look`].
    Look { wanted: Wanted, from: usize },
    /// Close the connection of this name. [`Reply::Closed`].
    Close { who: Identity, name: String, reason: String },
}

/// What a shard answers.
#[derive(Debug)]
pub enum Reply {
    Changed(Result<Answer, CatalogError>),
    Effect(Box<Effect>),
    Records(Vec<Arc<QueueRecord>>),
    Places(Part<(usize, Arc<QueueRecord>)>),
    Homes(Vec<Option<ShardId>>),
    Exchanges(Part<Arc<Exchange>>),
    Bindings(Part<Arc<Binding>, BindingCursor>),
    Policies(Vec<Arc<Policy>>),
    Counts {
        queues: usize,
        exchanges: usize,
    },
    Reports(Vec<Option<Report>>),
    Delivered(Vec<u64>),
    Totals(Box<Totals>),
    Connections(Part<ConnectionRow>),
    Look(Part<ConnectionFacts>, LogFacts),
    /// Whether it was there.
    Closed(Result<bool, AccessRefused>),
}

/// Sums over a shard.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub ready: u64,
    pub unsettled: u64,
    pub sessions: u64,
    pub counters: Counters,
    pub budgets: Vec<BudgetRow>,
}

/// Part of a list that is asked for in parts. At most [`PLACES_PER_PART`] places are looked at for it.
///
/// What is there while all parts are read, and stays in its place, is in the list once. What comes or goes meanwhile may be in
/// it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T, P = usize> {
    pub rows: Vec<T>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<P>,
}

/// The most places that a shard looks at for one question, and the most ids that one question names. A turn answers one
/// question of this size. Others wait for the next turn.
pub const PLACES_PER_PART: usize = 500;

impl<T> Part<T> {
    /// The rows from place `from` on, of a table with `places` places.
    pub fn of(from: usize, places: usize, row: impl FnMut(usize) -> Option<T>) -> Self {
        let end = places.min(from.saturating_add(PLACES_PER_PART));
        Self { rows: (from..end).filter_map(row).collect(), next: (end < places).then_some(end) }
    }
}

/// Questions that are not answered, by number. Bounded by the HTTP requests in flight: whoever gives up a question takes its
/// number out.
#[derive(Debug, Default)]
pub struct Asked {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Reply>>>,
}

impl Asked {
    /// The number of a new question, and where its answer comes.
    pub fn begin(&self) -> (u64, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting().insert(number, reply);
        (number, answer)
    }

    /// A shard has answered. Whoever has given up meanwhile is not waited for.
    pub fn answer(&self, number: u64, reply: Reply) {
        let waiting = self.waiting().remove(&number);
        if let Some(waiting) = waiting {
            drop(waiting.send(reply));
        }
    }

    /// Nobody waits for this answer any more. False if it has come.
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
    fn an_answer_comes_to_whoever_asked() {
        let asked = Asked::default();
        let ((first, mut of_first), (second, mut of_second)) = (asked.begin(), asked.begin());
        asked.answer(second, Reply::Delivered(vec![2]));
        assert!(matches!(of_second.try_recv(), Ok(Reply::Delivered(delivered)) if delivered == [2]));
        assert!(asked.end(first) && !asked.end(second));
        asked.answer(first, Reply::Delivered(vec![1]));
        assert!(of_first.try_recv().is_err());
    }
}
