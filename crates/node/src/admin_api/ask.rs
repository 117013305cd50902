//! Asks shards and queues. Each question has a deadline.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::admin_api::AdminError;
use broker::ids::{NODE_SHARD, Where};
use broker::placements::{NO_LEADER, Placements, name_of_node, out_of_reach, outcome_unknown};
use catalog::access::Identity;
use catalog::ids::{NodeId, QueueId};
use catalog::{Answer, Caller, Catalog, CatalogError, Command, QueueRecord};
use queue::{Effect, Refusal, Request, Ticket};
use tokio::sync::oneshot;

use super::AdminApi;
use crate::incoming::Incoming;
use crate::shard::questions::{Act, AnswerTo, Look, PLACES_PER_PART, Part, Question, Read};

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
pub(super) struct Waiting<T> {
    api: AdminApi,
    shard: usize,
    number: u64,
    answer: oneshot::Receiver<T>,
    is_over: bool,
}

impl<T> Waiting<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// `TimedOut` if there is none until the deadline, or if there will be none.
    pub(super) async fn answer(mut self, deadline: Duration) -> Result<T, AdminError> {
        let answer = tokio::time::timeout(deadline, &mut self.answer).await;
        self.is_over = answer.is_ok();
        answer.ok().and_then(Result::ok).ok_or(AdminError::TimedOut)
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.answer.close();
        if !self.is_over
            && let Some(shard) = self.api.inner.shards.get(self.shard)
        {
            // The notice is sent after the question. A shard that has ended needs no notice.
            drop(shard.send(Incoming::GiveUp(self.number)));
        }
    }
}

impl AdminApi {
    /// Reads from the catalog and the placements, and visits as many rows as `rows` says. Waits up to [`Deadlines::numbers`].
    pub(super) async fn read<R: Send + 'static>(
        &self,
        rows: usize,
        read: impl FnOnce(&Catalog, &Placements) -> R + Send + 'static,
    ) -> Result<R, AdminError> {
        self.read_within(self.inner.deadlines.numbers, move |_| rows, read).await
    }

    /// Reads from the catalog and the placements. `rows` returns the number of rows that this visits.
    pub(super) async fn read_within<R: Send + 'static>(
        &self,
        deadline: Duration,
        rows: impl Fn(&Catalog) -> usize + Send + 'static,
        read: impl FnOnce(&Catalog, &Placements) -> R + Send + 'static,
    ) -> Result<R, AdminError> {
        let question = |to| Question::Read(Read::new(rows, read, to));
        self.begin(NODE_SHARD.into(), question)?.answer(deadline).await
    }

    /// Reads a table of the catalog: one part of it from place `from` on.
    pub(super) async fn read_part<T: Send + 'static>(
        &self,
        from: usize,
        places: fn(&Catalog) -> usize,
        row: fn(&Catalog, usize) -> Option<T>,
    ) -> Result<Part<T>, AdminError> {
        let rows = move |catalog: &Catalog| Part::<()>::len_of(from, places(catalog));
        let part =
            move |catalog: &Catalog, _: &_| Part::of(from, places(catalog), |place| row(catalog, place));
        self.read_within(self.inner.deadlines.numbers, rows, part).await
    }

    /// Reads a table of the catalog to its end.
    pub(super) async fn read_table<T: Send + 'static>(
        &self,
        places: fn(&Catalog) -> usize,
        row: fn(&Catalog, usize) -> Option<T>,
    ) -> Result<Vec<T>, AdminError> {
        let (mut rows, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let part = self.read_part(from, places, row).await?;
            rows.extend(part.rows);
            next = part.next;
        }
        Ok(rows)
    }

    /// Looks at a shard. Waits up to [`Deadlines::numbers`].
    pub(super) async fn look<L: Look>(&self, shard: usize, look: L) -> Result<L::Answer, AdminError> {
        let question = |to| Question::look(look, to);
        self.begin(shard, question)?.answer(self.inner.deadlines.numbers).await
    }

    /// Looks at every shard, one after the other.
    pub(super) async fn look_everywhere<L: Look>(&self, look: L) -> Result<Vec<L::Answer>, AdminError> {
        let mut all = Vec::with_capacity(self.inner.shards.len());
        for shard in 0..self.inner.shards.len() {
            all.push(self.look(shard, look.clone()).await?);
        }
        Ok(all)
    }

    /// Reads a list of every shard to its end, part by part. `look` returns the look for the part that begins at a place.
    pub(super) async fn list_everywhere<T, L>(&self, look: impl Fn(usize) -> L) -> Result<Vec<T>, AdminError>
    where
        L: Look<Answer = Part<T>>,
    {
        let mut rows = Vec::new();
        for shard in 0..self.inner.shards.len() {
            let mut next = Some(0);
            while let Some(from) = next {
                let part = self.look(shard, look(from)).await?;
                rows.extend(part.rows);
                next = part.next;
            }
        }
        Ok(rows)
    }

    /// Lets a shard do something. `act` gets the way of the answer.
    pub(super) async fn act<T>(
        &self,
        deadline: Duration,
        shard: usize,
        act: impl FnOnce(AnswerTo<T>) -> Act,
    ) -> Result<T, AdminError> {
        self.begin_act(shard, act)?.answer(deadline).await
    }

    /// Lets a shard do something, without waiting for the answer.
    pub(super) fn begin_act<T>(
        &self,
        shard: usize,
        act: impl FnOnce(AnswerTo<T>) -> Act,
    ) -> Result<Waiting<T>, AdminError> {
        self.begin(shard, |to| Question::Act(act(to)))
    }

    /// Sends a question to a shard without waiting for the answer.
    fn begin<T>(
        &self,
        shard: usize,
        question: impl FnOnce(AnswerTo<T>) -> Question,
    ) -> Result<Waiting<T>, AdminError> {
        let sender = self.inner.shards.get(shard).ok_or(AdminError::TimedOut)?;
        let number = self.inner.questions.fetch_add(1, Ordering::Relaxed) + 1;
        let (to, answer) = AnswerTo::new(number);
        let mut waiting = Waiting { api: self.clone(), shard, number, answer, is_over: false };
        let sent = sender.send(Incoming::Question(question(to)));
        waiting.is_over = sent.is_err();
        sent.map(|()| waiting).map_err(|_| AdminError::TimedOut)
    }

    /// Asks the node shard for a change of the catalog, for a user.
    pub(super) async fn change(&self, who: &Identity, command: Command) -> Result<Answer, AdminError> {
        let by = who.user.clone();
        let change = |to| Act::Change { command, by, to };
        let changed = self.act(self.inner.deadlines.change, NODE_SHARD.into(), change).await?;
        changed.map_err(AdminError::Catalog)
    }

    /// Sends a request to a queue and waits for its answer. The shard sets the ticket.
    pub(super) async fn ask_queue(&self, queue: QueueId, request: Request) -> Result<Effect, AdminError> {
        self.begin_ask_queue(queue, request)?.answer(self.inner.deadlines.change).await
    }

    /// Sends a request to a queue without waiting for its answer.
    pub(super) fn begin_ask_queue(
        &self,
        queue: QueueId,
        request: Request,
    ) -> Result<Waiting<Effect>, AdminError> {
        self.begin_act(NODE_SHARD.into(), |to| Act::Request { queue, request, to })
    }

    /// Returns the catalog's records of those of these queues that exist, in this order.
    pub(super) async fn records(&self, ids: &[QueueId]) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        let mut records = Vec::new();
        for ids in ids.chunks(PLACES_PER_PART) {
            let ids = ids.to_vec();
            let found = self.read(ids.len(), move |catalog, _| {
                ids.into_iter().filter_map(|id| catalog.queue_by_id(id)).collect::<Vec<_>>()
            });
            records.extend(found.await?);
        }
        Ok(records)
    }

    /// Returns the homes of these queues, in this order.
    pub(super) async fn homes(&self, ids: impl Iterator<Item = QueueId>) -> Result<Vec<Where>, AdminError> {
        let ids: Vec<QueueId> = ids.collect();
        let mut homes = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PLACES_PER_PART) {
            let ids = ids.to_vec();
            let found = self.read(ids.len(), move |_, placements| {
                ids.into_iter().map(|id| placements.home(id)).collect::<Vec<_>>()
            });
            homes.extend(found.await?);
        }
        Ok(homes)
    }

    /// Returns the catalog's record of a queue for an operation that lists it, shows its figures, or publishes to it.
    /// `deadline` is that of the operation.
    pub(super) async fn listed(
        &self,
        deadline: Duration,
        vhost: &str,
        name: &str,
    ) -> Result<Arc<QueueRecord>, AdminError> {
        self.named(deadline, vhost, name, |catalog, vhost, name| {
            catalog.listed_queue(vhost, name).ok_or_else(|| CatalogError::no_queue(vhost, name))
        })
        .await
    }

    /// Returns the catalog's record of a queue for an operation that reads its messages or changes it.
    ///
    /// # Errors
    /// Also if the queue is exclusive: then it belongs to a connection.
    pub(super) async fn usable(&self, vhost: &str, name: &str) -> Result<Arc<QueueRecord>, AdminError> {
        self.named(self.inner.deadlines.change, vhost, name, |catalog, vhost, name| {
            catalog.usable_queue(vhost, name, Caller::Management)
        })
        .await
    }

    async fn named(
        &self,
        deadline: Duration,
        vhost: &str,
        name: &str,
        find: fn(&Catalog, &str, &str) -> Result<Arc<QueueRecord>, CatalogError>,
    ) -> Result<Arc<QueueRecord>, AdminError> {
        let look = || {
            let (vhost, name) = (vhost.to_owned(), name.to_owned());
            self.read_within(deadline, |_| 0, move |catalog, _| find(catalog, &vhost, &name))
        };
        let mut found = look().await?;
        if matches!(found, Err(CatalogError::NotFound { .. })) && self.catch_up().await {
            found = look().await?;
        }
        found.map_err(AdminError::Catalog)
    }

    /// Lets a node in a cluster catch up with the catalog, because something was not found. If that fails, the node goes on with what it has.
    /// Returns false if the node is in no cluster, so that it has everything.
    pub async fn catch_up(&self) -> bool {
        let is_in_cluster = self.is_in_cluster();
        if is_in_cluster {
            drop(self.act(self.inner.deadlines.change, NODE_SHARD.into(), Act::CatchUp).await);
        }
        is_in_cluster
    }

    /// Deletes all queues of a virtual host that nobody can use any more.
    pub(super) async fn delete_queues_in(&self, vhost: &Arc<str>) -> Result<(), AdminError> {
        let mut waits = 0;
        loop {
            let vhost = vhost.clone();
            let some = move |catalog: &Catalog, _: &_| {
                catalog.queues_in(&vhost).take(PLACES_PER_PART).collect::<Vec<_>>()
            };
            let queues = self.read(PLACES_PER_PART, some).await?;
            if queues.is_empty() {
                return Ok(());
            }
            let delete = |queue| {
                let request = Request::Delete { ticket: NO_TICKET, if_unused: false, if_empty: false };
                self.begin_ask_queue(queue, request)
            };
            let asked = queues.into_iter().map(delete).collect::<Result<Vec<_>, _>>()?;
            let mut deleted = 0;
            for waiting in asked {
                let effect = waiting.answer(self.inner.deadlines.change).await?;
                deleted += u32::from(matches!(effect, Effect::Done { .. }));
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
            other => Err(self.refused(&record, &other).await),
        }
    }
}

impl AdminApi {
    /// Returns the error for an answer that is not the expected one.
    pub(super) async fn refused(&self, record: &QueueRecord, answer: &Effect) -> AdminError {
        match answer {
            Effect::Refused { why, .. } => self.refused_for(record, *why).await,
            // No request of the admin API is answered by another effect.
            _ => refused_with(record, "gave an unexpected answer"),
        }
    }

    /// Returns the error for a request that the queue refuses.
    pub(super) async fn refused_for(&self, record: &QueueRecord, why: Refusal) -> AdminError {
        let reason = match why {
            Refusal::NotFound => {
                return AdminError::Catalog(CatalogError::no_queue(&record.vhost, &record.name));
            }
            Refusal::InUse => "in use",
            Refusal::NotEmpty => "not empty",
            Refusal::NotSupported => &format!("is a {} and does not support this", record.kind()),
            Refusal::Unavailable => "cannot be opened: the disk has failed",
            Refusal::OutOfReach { node } => &out_of_reach(self.name_of(node).await.as_deref()),
            Refusal::OutcomeUnknown { node } => &outcome_unknown(self.name_of(node).await.as_deref()),
            Refusal::NoLeader => NO_LEADER,
            Refusal::Damaged => "is damaged on the disk",
            // The admin API attaches no consumers.
            Refusal::ExclusiveConsumer | Refusal::TooManyBrowsers => "gave an unexpected answer",
        };
        refused_with(record, reason)
    }

    /// Returns the name of a node for an error, unless the node shard does not answer.
    async fn name_of(&self, node: Option<u32>) -> Option<Arc<str>> {
        let node = NodeId(node?);
        self.read(1, move |catalog, _| name_of_node(catalog, node)).await.ok()
    }
}

fn refused_with(record: &QueueRecord, reason: &str) -> AdminError {
    AdminError::Refused(format!("queue '{}' in vhost '{}' {reason}", record.name, record.vhost))
}
