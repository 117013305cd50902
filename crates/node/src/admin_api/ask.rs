//! Asks shards and queues. Each question has a deadline.

use std::sync::Arc;
use std::time::Duration;

use broker::admin_api::{AdminError, QueueNumbers};
use broker::ids::NODE_SHARD;
use broker::placements::out_of_reach;
use catalog::access::Identity;
use catalog::ids::QueueId;
use catalog::{Answer, CatalogError, Command, QueueRecord};
use queue::{Effect, Refusal, Request, Ticket};
use tokio::sync::oneshot;

use super::NodeAdminApi;
use crate::incoming::Incoming;
use crate::questions::{PLACES_PER_PART, Part, Question, Reply};

/// How long the admin API waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// For questions about numbers. A shard that takes longer is overloaded, and old numbers are of no use.
    pub numbers: Duration,
    /// For changes. They wait for the log, which may be slow, and for a shard that a slow disk delays.
    pub change: Duration,
    /// For checking a login. It is the same as for a client over AMQP.
    pub login: Duration,
}

/// The deadlines of the product. Tests have others, so that none waits for these.
pub(super) const DEADLINES: Deadlines = Deadlines {
    numbers: Duration::from_secs(1),
    change: Duration::from_secs(10),
    login: Duration::from_secs(10),
};

/// How long, and how often, the deletion of a virtual host waits for queues that somebody else is deleting. Together it is
/// as long as a change may take.
const WAIT: Duration = Duration::from_millis(20);
const WAITS_MAX: u32 = 500;

/// The ticket in a request that the admin API makes. The shard replaces it.
pub(super) const NO_TICKET: Ticket = Ticket(0);

/// A question that a shard has not answered yet. Dropping it gives the question up, and the shard is
/// notified.
pub(super) struct Waiting {
    api: NodeAdminApi,
    shard: usize,
    number: u64,
    answer: oneshot::Receiver<Reply>,
}

impl Waiting {
    pub(super) async fn answer(mut self, deadline: Duration) -> Result<Reply, AdminError> {
        let answer = tokio::time::timeout(deadline, &mut self.answer).await;
        answer.ok().and_then(Result::ok).ok_or(AdminError::TimedOut)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let inner = &self.api.inner;
        if inner.questions.end(self.number)
            && let Some(shard) = inner.shards.get(self.shard)
        {
            // The notice is sent after the question. A shard that has ended needs no notice.
            drop(shard.send(Incoming::GiveUp(self.number)));
        }
    }
}

/// The error when a shard's reply does not fit the question.
pub(super) fn other_answer() -> AdminError {
    AdminError::Refused("a shard gave an unexpected answer".into())
}

impl NodeAdminApi {
    /// Asks a shard and waits for the answer up to [`Deadlines::numbers`].
    pub(super) async fn ask(&self, shard: usize, question: Question) -> Result<Reply, AdminError> {
        self.ask_within(self.inner.deadlines.numbers, shard, question).await
    }

    pub(super) async fn ask_within(
        &self,
        deadline: Duration,
        shard: usize,
        question: Question,
    ) -> Result<Reply, AdminError> {
        self.begin_ask(shard, question)?.answer(deadline).await
    }

    /// Reads a list of a shard to its end, part by part. `part` extracts the part from the reply.
    pub(super) async fn ask_for_all<T, P: Default>(
        &self,
        shard: usize,
        question: impl Fn(P) -> Question,
        part: impl Fn(Reply) -> Option<Part<T, P>>,
    ) -> Result<Vec<T>, AdminError> {
        let (mut rows, mut next) = (Vec::new(), Some(P::default()));
        while let Some(from) = next {
            let part = part(self.ask(shard, question(from)).await?).ok_or_else(other_answer)?;
            rows.extend(part.rows);
            next = part.next;
        }
        Ok(rows)
    }

    /// Sends a question to a shard without waiting for the answer.
    pub(super) fn begin_ask(&self, shard: usize, question: Question) -> Result<Waiting, AdminError> {
        let sender = self.inner.shards.get(shard).ok_or(AdminError::TimedOut)?;
        let (number, answer) = self.inner.questions.begin();
        let waiting = Waiting { api: self.clone(), shard, number, answer };
        sender.send(Incoming::Question(number, question)).map_err(|_| AdminError::TimedOut)?;
        Ok(waiting)
    }

    /// Asks the node shard for a change of the catalog, for a user.
    pub(super) async fn change(&self, who: &Identity, command: Command) -> Result<Answer, AdminError> {
        let change = Question::Change(command, who.user.clone());
        match self.ask_within(self.inner.deadlines.change, NODE_SHARD.into(), change).await? {
            Reply::Changed(result) => result.map_err(AdminError::Catalog),
            _ => Err(other_answer()),
        }
    }

    /// Sends a request to a queue and waits for its answer. The shard sets the ticket.
    pub(super) async fn ask_queue(&self, queue: QueueId, request: Request) -> Result<Effect, AdminError> {
        let question = Question::Queue { queue, request };
        match self.ask_within(self.inner.deadlines.change, NODE_SHARD.into(), question).await? {
            Reply::Effect(effect) => Ok(*effect),
            _ => Err(other_answer()),
        }
    }

    /// Asks for the catalog's records of queues.
    pub(super) async fn records(&self, question: Question) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        match self.ask(NODE_SHARD.into(), question).await? {
            Reply::Records(records) => Ok(records),
            _ => Err(other_answer()),
        }
    }

    /// Returns the catalog's record of a queue for an operation that lists it, shows its figures, or publishes to it.
    /// `deadline` is that of the operation.
    pub(super) async fn listed(
        &self,
        deadline: Duration,
        vhost: &str,
        name: &str,
    ) -> Result<Arc<QueueRecord>, AdminError> {
        self.named(deadline, Question::Listed { vhost: vhost.into(), name: name.into() }).await
    }

    /// Returns the catalog's record of a queue for an operation that reads its messages or changes it.
    ///
    /// # Errors
    /// Also if the queue is exclusive: then it belongs to a connection.
    pub(super) async fn usable(&self, vhost: &str, name: &str) -> Result<Arc<QueueRecord>, AdminError> {
        let question = Question::Usable { vhost: vhost.into(), name: name.into() };
        self.named(self.inner.deadlines.change, question).await
    }

    async fn named(&self, deadline: Duration, question: Question) -> Result<Arc<QueueRecord>, AdminError> {
        match self.ask_within(deadline, NODE_SHARD.into(), question).await? {
            Reply::Named(found) => found.map_err(AdminError::Catalog),
            _ => Err(other_answer()),
        }
    }

    /// Returns the reports of queues, from the shards where they live; an empty report for a queue without a
    /// home. Each stream is asked with a request of its own, because an unused stream must be opened first.
    /// Its count of deliveries is the sum over all shards.
    pub(super) async fn reports(
        &self,
        records: &[Arc<QueueRecord>],
    ) -> Result<Vec<QueueNumbers>, AdminError> {
        let mut reports = vec![QueueNumbers::default(); records.len()];
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
                Ok((i, self.begin_ask(NODE_SHARD.into(), question)?))
            })
            .collect::<Result<Vec<_>, AdminError>>()?;
        for (i, asked) in asked {
            // The stream was deleted in the meantime if any other reply arrives.
            if let Reply::Effect(effect) = asked.answer(self.inner.deadlines.numbers).await?
                && let Effect::Report { report, .. } = *effect
            {
                reports[i].report = *report;
            }
        }
        for shard in 0..self.inner.shards.len() {
            for rows in streams.chunks(PLACES_PER_PART) {
                let delivered = Question::Delivered(ids_of(rows));
                let Reply::Delivered(found) = self.ask(shard, delivered).await? else {
                    return Err(other_answer());
                };
                rows.iter()
                    .zip(found)
                    .for_each(|((i, _), delivered)| reports[*i].report.delivered += delivered);
            }
        }
        let mut by_home = vec![Vec::new(); self.inner.shards.len()];
        for rows in ids(false).chunks(PLACES_PER_PART) {
            let homes = Question::Homes(ids_of(rows));
            let Reply::Homes(homes) = self.ask(NODE_SHARD.into(), homes).await? else {
                return Err(other_answer());
            };
            for (row, home) in rows.iter().zip(homes) {
                if let Some(here) = home.here().and_then(|home| by_home.get_mut(usize::from(home))) {
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

    /// Deletes all queues of a virtual host that nobody can use any more.
    pub(super) async fn delete_queues_in(&self, vhost: &Arc<str>) -> Result<(), AdminError> {
        let mut waits = 0;
        loop {
            let question = Question::QueuesIn { vhost: vhost.clone() };
            let Reply::Ids(queues) = self.ask(NODE_SHARD.into(), question).await? else {
                return Err(other_answer());
            };
            if queues.is_empty() {
                return Ok(());
            }
            let delete = |queue| {
                let request = Request::Delete { ticket: NO_TICKET, if_unused: false, if_empty: false };
                self.begin_ask(NODE_SHARD.into(), Question::Queue { queue, request })
            };
            let asked = queues.into_iter().map(delete).collect::<Result<Vec<_>, _>>()?;
            let mut deleted = 0;
            for waiting in asked {
                if let Reply::Effect(effect) = waiting.answer(self.inner.deadlines.change).await?
                    && matches!(*effect, Effect::Done { .. })
                {
                    deleted += 1;
                }
            }
            // The other ones are being deleted because the connection that owns them has closed.
            if deleted == 0 {
                waits += 1;
                if waits > WAITS_MAX {
                    return Err(AdminError::TimedOut);
                }
                tokio::time::sleep(WAIT).await;
            }
        }
    }

    /// Sends a request to a queue whose answer is a number of messages.
    pub(super) async fn count(&self, record: Arc<QueueRecord>, request: Request) -> Result<u64, AdminError> {
        match self.ask_queue(record.id, request).await? {
            Effect::Done { messages, .. } => Ok(messages),
            other => Err(refused(&record, &other)),
        }
    }
}

fn ids_of(rows: &[(usize, QueueId)]) -> Vec<QueueId> {
    rows.iter().map(|(_, id)| *id).collect()
}

/// Returns the error for an answer that is not the expected one.
pub(super) fn refused(record: &QueueRecord, answer: &Effect) -> AdminError {
    match answer {
        Effect::Refused { why, .. } => refused_for(record, *why),
        // No request of the admin API is answered by another effect.
        _ => refused_with(record, "gave an unexpected answer"),
    }
}

/// Returns the error for a request that the queue refuses.
pub(super) fn refused_for(record: &QueueRecord, why: Refusal) -> AdminError {
    let reason = match why {
        Refusal::NotFound => {
            return AdminError::Catalog(CatalogError::no_queue(&record.vhost, &record.name));
        }
        Refusal::InUse => "in use",
        Refusal::NotEmpty => "not empty",
        Refusal::NotSupported => &format!("is a {} and does not support this", record.kind()),
        Refusal::Unavailable => "cannot be opened: the disk has failed",
        Refusal::OutOfReach { node } => &out_of_reach(node),
        Refusal::Damaged => "is damaged on the disk",
        // The admin API attaches no consumers.
        Refusal::ExclusiveConsumer | Refusal::TooManyBrowsers => "gave an unexpected answer",
    };
    refused_with(record, reason)
}

fn refused_with(record: &QueueRecord, reason: &str) -> AdminError {
    AdminError::Refused(format!("queue '{}' in vhost '{}' {reason}", record.name, record.vhost))
}
