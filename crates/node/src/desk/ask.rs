//! Asking shards and queues, and how long for: each answers in time or not at all.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker::catalog::{Answer, Catalog, CatalogError, Command, Destination, QueueRecord};
use broker::desk::DeskError;
use broker::ids::{DECIDER, QueueId};
use queue::{Effect, Refusal, Report, Request, Ticket};
use tokio::sync::oneshot;

use super::NodeDesk;
use crate::incoming::Incoming;
use crate::shard::Shard;

/// Numbers that take longer are given up: the shard is overloaded, and old numbers are no answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(1);

/// Whoever changes something waits for the log, which may be slow, and for a shard that a slow disk holds up.
pub(super) const CHANGE_DEADLINE: Duration = Duration::from_secs(10);

/// A login that takes longer to check is given up; as long as a client has over AMQP.
pub(super) const LOGIN_DEADLINE: Duration = Duration::from_secs(10);

/// Rows that one call asks of one shard, so that it is not held up.
const ROWS_PER_CALL: usize = 1000;

/// Something that a queue was asked. What is not answered in time, or nobody waits for any more, is given up.
struct Asked {
    desk: NodeDesk,
    queue: QueueId,
    /// Until it is answered; known once the shard has been asked.
    ticket: Option<Arc<OnceLock<Ticket>>>,
    answer: oneshot::Receiver<Effect>,
}

impl Asked {
    async fn answer(mut self, deadline: Duration) -> Result<Effect, DeskError> {
        let answer = tokio::time::timeout(deadline, &mut self.answer).await;
        let effect = answer.ok().and_then(Result::ok).ok_or(DeskError::TimedOut)?;
        self.ticket = None;
        Ok(effect)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let queue = self.queue;
        // Behind the call that asks. A shard that has ended waits for nothing.
        let _ = self.desk.post(DECIDER.into(), move |shard| {
            if let Some(ticket) = ticket.get() {
                shard.give_up(queue, *ticket);
            }
        });
    }
}

impl NodeDesk {
    /// Runs a call on a shard and brings back what it returns, within [`DEADLINE`].
    pub(super) async fn call<R: Send + 'static>(
        &self,
        shard: usize,
        call: impl FnOnce(&mut Shard) -> R + Send + 'static,
    ) -> Result<R, DeskError> {
        self.call_within(DEADLINE, shard, call).await
    }

    pub(super) async fn call_within<R: Send + 'static>(
        &self,
        deadline: Duration,
        shard: usize,
        call: impl FnOnce(&mut Shard) -> R + Send + 'static,
    ) -> Result<R, DeskError> {
        let (reply, answer) = oneshot::channel();
        self.post(shard, move |shard| drop(reply.send(call(shard))))?;
        tokio::time::timeout(deadline, answer).await.ok().and_then(Result::ok).ok_or(DeskError::TimedOut)
    }

    fn post(&self, shard: usize, call: impl FnOnce(&mut Shard) + Send + 'static) -> Result<(), DeskError> {
        let sender = self.inner.shards.get(shard).ok_or(DeskError::TimedOut)?;
        sender.send(Incoming::Call(Box::new(call))).map_err(|_| DeskError::TimedOut)
    }

    /// Asks for a change of the catalog, on the shard that decides.
    pub(super) async fn change(&self, command: Command) -> Result<Answer, DeskError> {
        let (reply, answer) = oneshot::channel();
        self.post(DECIDER.into(), move |shard| match locked(shard.catalog(), &command) {
            Some(locked) => drop(reply.send(Err(locked))),
            None => shard.propose(command, Box::new(move |result| drop(reply.send(result)))),
        })?;
        let result = tokio::time::timeout(CHANGE_DEADLINE, answer).await;
        result.ok().and_then(Result::ok).ok_or(DeskError::TimedOut)?.map_err(DeskError::Catalog)
    }

    /// Asks a queue.
    pub(super) async fn ask(
        &self,
        queue: QueueId,
        request: impl FnOnce(Ticket) -> Request + Send + 'static,
    ) -> Result<Effect, DeskError> {
        self.begin_ask(queue, request)?.answer(CHANGE_DEADLINE).await
    }

    /// Asks a queue, and does not wait for the answer.
    fn begin_ask(
        &self,
        queue: QueueId,
        request: impl FnOnce(Ticket) -> Request + Send + 'static,
    ) -> Result<Asked, DeskError> {
        let (reply, answer) = oneshot::channel();
        let ticket = Arc::new(OnceLock::new());
        let asked = Asked { desk: self.clone(), queue, ticket: Some(ticket.clone()), answer };
        self.post(DECIDER.into(), move |shard| {
            let then = Box::new(move |effect| drop(reply.send(effect)));
            if let Some(known) = shard.ask(queue, request, then) {
                ticket.get_or_init(|| known);
            }
        })?;
        Ok(asked)
    }

    /// A queue, found within as much time as what is asked of it has.
    pub(super) async fn record(
        &self,
        deadline: Duration,
        vhost: &str,
        name: &str,
    ) -> Result<Arc<QueueRecord>, DeskError> {
        let (v, n) = (vhost.to_owned(), name.to_owned());
        let found = move |shard: &mut Shard| shard.catalog().queue(&v, &n);
        let record = self.call_within(deadline, DECIDER.into(), found).await?;
        record.ok_or_else(|| DeskError::Catalog(CatalogError::no_queue(vhost, name)))
    }

    /// The numbers of queues, from where they live; zeros for those that live nowhere yet. Streams are asked for
    /// themselves, for one that has not been used yet must be opened first; every shard delivers them to its consumers.
    pub(super) async fn reports(&self, records: &[Arc<QueueRecord>]) -> Result<Vec<Report>, DeskError> {
        let mut reports = vec![Report::default(); records.len()];
        let streams = records.iter().enumerate().filter(|(_, record)| record.is_stream());
        let streams: Vec<(usize, QueueId)> = streams.map(|(i, record)| (i, record.id)).collect();
        let asked = streams
            .iter()
            .map(|(i, id)| Ok((*i, self.begin_ask(*id, |ticket| Request::Report { ticket })?)))
            .collect::<Result<Vec<_>, DeskError>>()?;
        for (i, asked) in asked {
            // Otherwise it has been deleted meanwhile.
            if let Effect::Report { report, .. } = asked.answer(DEADLINE).await? {
                reports[i] = *report;
            }
        }
        for shard in 0..self.inner.shards.len() {
            for rows in streams.chunks(ROWS_PER_CALL) {
                let rows = rows.to_vec();
                let delivered = move |shard: &mut Shard| {
                    rows.into_iter().map(|(i, id)| (i, shard.stream_delivered(id))).collect::<Vec<_>>()
                };
                let found = self.call(shard, delivered).await?;
                found.into_iter().for_each(|(i, delivered)| reports[i].delivered += delivered);
            }
        }
        for home in 0..self.inner.shards.len() {
            let here: Vec<(usize, QueueId)> = records
                .iter()
                .enumerate()
                .filter(|(_, r)| !r.is_stream() && r.home.is_some_and(|h| usize::from(h) == home))
                .map(|(i, r)| (i, r.id))
                .collect();
            for rows in here.chunks(ROWS_PER_CALL) {
                let rows = rows.to_vec();
                let found = self
                    .call(home, move |shard| {
                        rows.into_iter()
                            .filter_map(|(i, id)| {
                                shard.configure(id);
                                Some((i, shard.queue_report(id)?))
                            })
                            .collect::<Vec<_>>()
                    })
                    .await?;
                found.into_iter().for_each(|(i, report)| reports[i] = report);
            }
        }
        Ok(reports)
    }

    /// Asks a queue for something that is answered with a number of messages.
    pub(super) async fn count(
        &self,
        record: Arc<QueueRecord>,
        request: impl FnOnce(Ticket) -> Request + Send + 'static,
    ) -> Result<u64, DeskError> {
        if let Some(locked) = record.locked_to(None) {
            return Err(DeskError::Catalog(locked));
        }
        match self.ask(record.id, request).await? {
            Effect::Done { messages, .. } => Ok(messages),
            other => Err(refused(&record, &other)),
        }
    }
}

/// Why a binding is none of this desk's business: its queue is a connection's own, and whoever asks here is none.
fn locked(catalog: &Catalog, command: &Command) -> Option<CatalogError> {
    let (Command::Bind(binding) | Command::Unbind(binding)) = command else { return None };
    let Destination::Queue(name) = &binding.destination else { return None };
    catalog.queue(&binding.vhost, name)?.locked_to(None)
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
        Effect::Refused { why: Refusal::Unavailable, .. } => "cannot be opened: the disk refuses".into(),
        Effect::Refused { why: Refusal::Damaged, .. } => "is damaged on the disk".into(),
        // No request that the desk makes has such an answer.
        _ => "gave another answer than was asked for".into(),
    };
    DeskError::Refused(format!("queue '{name}' in vhost '{vhost}' {reason}"))
}
