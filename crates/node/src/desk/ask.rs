//! Asking shards and queues, and how long for: each answers in time or not at all.

use std::sync::Arc;
use std::time::Duration;

use broker::catalog::{Answer, CatalogError, Command, QueueRecord};
use broker::desk::DeskError;
use broker::ids::{DECIDER, QueueId};
use queue::{Effect, Refusal, Report, Request, Ticket};
use tokio::sync::oneshot;

use super::NodeDesk;
use crate::incoming::Incoming;
use crate::questions::{PLACES_PER_PART, Part, Question, Reply};

/// Numbers that take longer are given up: the shard is overloaded, and old numbers are no answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(1);

/// Whoever changes something waits for the log, which may be slow, and for a shard that a slow disk holds up.
pub(super) const CHANGE_DEADLINE: Duration = Duration::from_secs(10);

/// A login that takes longer to check is given up; as long as a client has over AMQP.
pub(super) const LOGIN_DEADLINE: Duration = Duration::from_secs(10);

/// In a request that the desk makes: the shard gives it a ticket.
pub(super) const NO_TICKET: Ticket = Ticket(0);

/// A question that a shard has not answered yet. Whoever drops it gives it up: the shard need not answer any more.
struct Waiting {
    desk: NodeDesk,
    shard: usize,
    number: u64,
    answer: oneshot::Receiver<Reply>,
}

impl Waiting {
    async fn answer(mut self, deadline: Duration) -> Result<Reply, DeskError> {
        let answer = tokio::time::timeout(deadline, &mut self.answer).await;
        answer.ok().and_then(Result::ok).ok_or(DeskError::TimedOut)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let inner = &self.desk.inner;
        if inner.asked.end(self.number)
            && let Some(shard) = inner.shards.get(self.shard)
        {
            // Behind the question. A shard that has ended waits for nothing.
            drop(shard.send(Incoming::GiveUp(self.number)));
        }
    }
}

/// Another node, or a shard, has answered something that was not asked.
pub(super) fn other_answer() -> DeskError {
    DeskError::Refused("gave another answer than was asked for".into())
}

impl NodeDesk {
    /// Asks a shard. The answer comes within [`DEADLINE`].
    pub(super) async fn ask(&self, shard: usize, question: Question) -> Result<Reply, DeskError> {
        self.ask_within(DEADLINE, shard, question).await
    }

    pub(super) async fn ask_within(
        &self,
        deadline: Duration,
        shard: usize,
        question: Question,
    ) -> Result<Reply, DeskError> {
        self.begin_ask(shard, question)?.answer(deadline).await
    }

    /// Reads a list of a shard to its end, part by part. `part` takes the part out of the reply.
    pub(super) async fn ask_for_all<T>(
        &self,
        shard: usize,
        question: impl Fn(usize) -> Question,
        part: impl Fn(Reply) -> Option<Part<T>>,
    ) -> Result<Vec<T>, DeskError> {
        let (mut rows, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let part = part(self.ask(shard, question(from)).await?).ok_or_else(other_answer)?;
            rows.extend(part.rows);
            next = part.next;
        }
        Ok(rows)
    }

    /// Asks a shard, and does not wait for the answer.
    fn begin_ask(&self, shard: usize, question: Question) -> Result<Waiting, DeskError> {
        let sender = self.inner.shards.get(shard).ok_or(DeskError::TimedOut)?;
        let (number, answer) = self.inner.asked.begin();
        let waiting = Waiting { desk: self.clone(), shard, number, answer };
        sender.send(Incoming::Question(number, question)).map_err(|_| DeskError::TimedOut)?;
        Ok(waiting)
    }

    /// Asks for a change of the catalog, on the shard that decides.
    pub(super) async fn change(&self, command: Command) -> Result<Answer, DeskError> {
        let change = Question::Change(command);
        match self.ask_within(CHANGE_DEADLINE, DECIDER.into(), change).await? {
            Reply::Changed(result) => result.map_err(DeskError::Catalog),
            _ => Err(other_answer()),
        }
    }

    /// Asks a queue. The shard puts the ticket into the request.
    pub(super) async fn ask_queue(&self, queue: QueueId, request: Request) -> Result<Effect, DeskError> {
        let question = Question::Queue { queue, request };
        match self.ask_within(CHANGE_DEADLINE, DECIDER.into(), question).await? {
            Reply::Effect(effect) => Ok(*effect),
            _ => Err(other_answer()),
        }
    }

    /// Queues as the catalog knows them.
    pub(super) async fn records(&self, question: Question) -> Result<Vec<Arc<QueueRecord>>, DeskError> {
        match self.ask(DECIDER.into(), question).await? {
            Reply::Records(records) => Ok(records),
            _ => Err(other_answer()),
        }
    }

    /// A queue, found within as much time as what is asked of it has.
    pub(super) async fn record(
        &self,
        deadline: Duration,
        vhost: &str,
        name: &str,
    ) -> Result<Arc<QueueRecord>, DeskError> {
        let named = Question::Named { vhost: vhost.into(), name: name.into() };
        match self.ask_within(deadline, DECIDER.into(), named).await? {
            Reply::Records(records) => {
                let record = records.into_iter().next();
                record.ok_or_else(|| DeskError::Catalog(CatalogError::no_queue(vhost, name)))
            }
            _ => Err(other_answer()),
        }
    }

    /// The numbers of queues, from where they live; zeros for those that live nowhere yet. Streams are asked for
    /// themselves, for one that has not been used yet must be opened first; every shard delivers them to its consumers.
    pub(super) async fn reports(&self, records: &[Arc<QueueRecord>]) -> Result<Vec<Report>, DeskError> {
        let mut reports = vec![Report::default(); records.len()];
        let ids = |is_stream: bool| {
            let records =
                records.iter().enumerate().filter(move |(_, record)| record.is_stream() == is_stream);
            records.map(|(i, record)| (i, record.id)).collect::<Vec<(usize, QueueId)>>()
        };
        let streams = ids(true);
        let report = || Request::Report { ticket: NO_TICKET };
        let asked = streams
            .iter()
            .map(|&(i, queue)| {
                let question = Question::Queue { queue, request: report() };
                Ok((i, self.begin_ask(DECIDER.into(), question)?))
            })
            .collect::<Result<Vec<_>, DeskError>>()?;
        for (i, asked) in asked {
            // Otherwise it has been deleted meanwhile.
            if let Reply::Effect(effect) = asked.answer(DEADLINE).await?
                && let Effect::Report { report, .. } = *effect
            {
                reports[i] = *report;
            }
        }
        for shard in 0..self.inner.shards.len() {
            for rows in streams.chunks(PLACES_PER_PART) {
                let delivered = Question::Delivered(ids_of(rows));
                let Reply::Delivered(found) = self.ask(shard, delivered).await? else {
                    return Err(other_answer());
                };
                rows.iter().zip(found).for_each(|((i, _), delivered)| reports[*i].delivered += delivered);
            }
        }
        let mut by_home = vec![Vec::new(); self.inner.shards.len()];
        for rows in ids(false).chunks(PLACES_PER_PART) {
            let homes = Question::Homes(ids_of(rows));
            let Reply::Homes(homes) = self.ask(DECIDER.into(), homes).await? else {
                return Err(other_answer());
            };
            for (row, home) in rows.iter().zip(homes) {
                if let Some(here) = home.and_then(|home| by_home.get_mut(usize::from(home))) {
                    here.push(*row);
                }
            }
        }
        for (home, here) in by_home.into_iter().enumerate() {
            for rows in here.chunks(PLACES_PER_PART) {
                let Reply::Reports(found) = self.ask(home, Question::Reports(ids_of(rows))).await? else {
                    return Err(other_answer());
                };
                for ((i, _), report) in rows.iter().zip(found) {
                    reports[*i] = report.unwrap_or_default();
                }
            }
        }
        Ok(reports)
    }

    /// Asks a queue for something that is answered with a number of messages.
    pub(super) async fn count(&self, record: Arc<QueueRecord>, request: Request) -> Result<u64, DeskError> {
        if let Some(locked) = record.locked_to(None) {
            return Err(DeskError::Catalog(locked));
        }
        match self.ask_queue(record.id, request).await? {
            Effect::Done { messages, .. } => Ok(messages),
            other => Err(refused(&record, &other)),
        }
    }
}

fn ids_of(rows: &[(usize, QueueId)]) -> Vec<QueueId> {
    rows.iter().map(|(_, id)| *id).collect()
}

/// What a queue says instead of what it was asked for.
pub(super) fn refused(record: &QueueRecord, answer: &Effect) -> DeskError {
    let (vhost, name) = (&record.vhost, &record.name);
    let reason = match answer {
        Effect::Refused { why: Refusal::NotFound, .. } => {
            return DeskError::Catalog(CatalogError::no_queue(vhost, name));
        }
        Effect::Refused { why: Refusal::InUse, .. } => "in use".into(),
        Effect::Refused { why: Refusal::NotEmpty, .. } => "not empty".into(),
        Effect::Refused { why: Refusal::NotSupported, .. } => {
            format!("is a {} and does not do this", record.kind())
        }
        Effect::Refused { why: Refusal::Unavailable, .. } => "cannot be opened: the disk has failed".into(),
        Effect::Refused { why: Refusal::Damaged, .. } => "is damaged on the disk".into(),
        // No request that the desk makes has such an answer.
        _ => "gave another answer than was asked for".into(),
    };
    DeskError::Refused(format!("queue '{name}' in vhost '{vhost}' {reason}"))
}
