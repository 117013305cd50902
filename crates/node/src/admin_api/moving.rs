//! Moves messages of a queue to another queue or an exchange, or redrives dead letters: sends them back to where they died.
//!
//! The messages are fetched one batch after the other, as a client of AMQP 0.9.1 gets them, and held. Those that match are
//! published again in the format of their publisher's protocol, and are accepted at the queue after their targets have taken
//! them. All others return to their places when the move ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use broker::admin_api::{AdminError, Move, MoveEnd, MoveRefusal, MoveTo, Moved, RedriveTo, Which};
use broker::ids::NODE_SHARD;
use broker::moving::Moving;
use catalog::access::{Identity, Resource, Verb};
use catalog::{CatalogError, QueueRecord, Routable, has_headers};
use message::{Message, Route};
use queue::{ConsumerId, Delivery, Effect, Outcome, Refusal, Report, Request, SettleAnswer};
use tokio::time::Instant;

use super::AdminApi;
use super::ask::NO_TICKET;
use crate::shard::questions::Act;

/// The time for one move. It is half of the time of a request, because the other half is for the last batch. A move that
/// takes longer ends, and its client repeats the request.
const MOVE_TIME_MAX: Duration = Duration::from_secs(5);

/// The most messages in flight. If the broker is killed, at most so many messages are in both queues.
const BATCH: u64 = 100;

/// The most messages that one move skips. It holds them back until it ends, so that it gets those behind them. Beyond it,
/// the move ends.
const SKIPPED_MAX: u64 = 50_000;

/// The most routes that are known to be permitted. If there are more, they are forgotten and asked for again.
const PERMITTED_MAX: usize = 1_000;

/// A move with a rate sends at most so many batches per second, as long as a batch has more than one message.
const BATCHES_PER_SECOND: u64 = 10;

impl AdminApi {
    /// Moves messages of a queue to a queue or an exchange, or sends dead letters back to where they died. A message leaves the
    /// queue only after its target has taken it. The messages that do not match stay in their places; they count as
    /// delivered before, but not as failed. One call is bounded in time and in the messages that it skips, and ends early if a
    /// target refuses a message: see [`MoveEnd`]. It is carried out even if the future is dropped.
    ///
    /// # Errors
    /// The queue does not exist or is a stream, the user may not get its messages or publish to the first target, or
    /// no ready message with [`Move::seq`] matches.
    pub async fn move_messages(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        wanted: &Move,
    ) -> Result<Moved, AdminError> {
        self.permit(who, vhost, Verb::Get, &[Resource::Queue(name)]).await?;
        self.moved(who, vhost, name, wanted).await
    }

    /// See [`crate::AdminApi::move_messages`]. The caller has checked that the user may get messages of the queue.
    pub(super) async fn moved(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        wanted: &Move,
    ) -> Result<Moved, AdminError> {
        let (api, who, wanted) = (self.clone(), who.clone(), wanted.clone());
        let (vhost, name) = (vhost.to_owned(), name.to_owned());
        // It ends by itself soon. If it ended with the connection of an HTTP client, messages could be in both queues.
        let task = tokio::spawn(async move { api.carry_out(&who, &vhost, &name, &wanted).await });
        task.await.unwrap_or_else(|error| Err(AdminError::Impossible(format!("the move has ended: {error}"))))
    }

    async fn carry_out(
        &self,
        who: &Identity,
        vhost: &str,
        name: &str,
        wanted: &Move,
    ) -> Result<Moved, AdminError> {
        // Before the queues are looked up: who may not publish is not told whether they exist.
        let exchange = match &wanted.which {
            Which::All { to: MoveTo::Exchange { name, .. }, .. } => Some(&**name),
            Which::Dead(redrive) if redrive.to == RedriveTo::Exchange => None,
            Which::All { .. } | Which::Dead(_) => Some(""),
        };
        if let Some(exchange) = exchange {
            self.permit(who, vhost, Verb::Publish, &[Resource::Exchange(exchange)]).await?;
        }
        let source = self.usable(vhost, name).await?;
        if source.is_stream() {
            return Err(AdminError::Refused(format!(
                "queue '{name}' in vhost '{vhost}' is a stream: reading a stream removes nothing from it, so its messages \
                 cannot be moved"
            )));
        }
        let to_queue = match &wanted.which {
            Which::All { to: MoveTo::Queue(queue), .. } => Some(queue),
            Which::Dead(redrive) => match &redrive.to {
                RedriveTo::Queue(queue) => Some(queue),
                RedriveTo::DiedIn | RedriveTo::Exchange => None,
            },
            Which::All { to: MoveTo::Exchange { .. }, .. } => None,
        };
        if let Some(to) = to_queue {
            if **to == *name {
                return Err(AdminError::Refused(format!(
                    "queue '{name}' in vhost '{vhost}' cannot be moved to itself"
                )));
            }
            self.listed(self.inner.deadlines.change, vhost, to).await?;
        }
        let Report { ready, next_seq, damaged, .. } = self.report_of(&source).await?;
        if damaged {
            return Err(self.refused_for(&source, Refusal::Damaged).await);
        }
        let until = match &wanted.which {
            Which::All { until_seq, .. } => until_seq.unwrap_or(next_seq.saturating_sub(1)),
            Which::Dead(redrive) => redrive.until_ms.unwrap_or_else(|| self.inner.clock.now_ms()),
        };
        let holder = self.act(self.inner.deadlines.numbers, NODE_SHARD.into(), Act::Holder).await?;
        let Some(holder) = holder else {
            return Err(AdminError::Impossible("the broker has too many consumers".into()));
        };
        let holding = Holding { api: self, source: &source, holder };
        let mut run = Run {
            holding: &holding,
            who,
            wanted,
            until,
            began: Instant::now(),
            unseen: ready,
            moved: 0,
            skipped: 0,
            permitted: HashSet::new(),
        };
        let ended = run.run().await?;
        let (moved, skipped) = (run.moved, run.skipped);
        drop(holding);
        let left = self.report_of(&source).await?.ready;
        Ok(Moved { moved, skipped, left, until, ended })
    }

    async fn report_of(&self, queue: &QueueRecord) -> Result<Report, AdminError> {
        match self.ask_queue(queue.id, Request::Report { ticket: NO_TICKET }).await? {
            Effect::Report { report, .. } => Ok(*report),
            other => Err(self.refused(queue, &other).await),
        }
    }

    /// Checks that the user may publish with a route.
    async fn permit_route(&self, who: &Identity, vhost: &str, route: &Route) -> Result<(), AdminError> {
        let exchange = route.exchange();
        self.permit(who, vhost, Verb::Publish, &[Resource::Exchange(exchange)]).await?;
        // Only few users have topic permissions, so the type of the exchange is seldom needed.
        let users = self.inner.access.users();
        let is_topic =
            users.rights(who, vhost).limit_keys(exchange) && self.is_topic_exchange(vhost, exchange).await?;
        for key in route.keys().iter().filter(|_| is_topic) {
            self.permit(who, vhost, Verb::PublishTopic, &[Resource::Topic { exchange, key }]).await?;
        }
        Ok(())
    }
}

/// The messages that a move has fetched and not accepted. Dropping it returns them to their places, even if nobody waits for
/// the move any more.
struct Holding<'a> {
    api: &'a AdminApi,
    source: &'a QueueRecord,
    holder: ConsumerId,
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        let requests = vec![Request::Detach { consumer: self.holder, failed: false }];
        let queue = self.source.id;
        // The shard carries it out, although nobody waits for its answer. A shard that has ended holds nothing.
        drop(self.api.begin_act(NODE_SHARD.into(), |to| Act::Post { queue, requests, to }));
    }
}

impl Holding<'_> {
    /// Fetches up to `n` messages. A message that must be read from the disk is waited for.
    async fn fetch(&self, n: u64) -> Result<Vec<Delivery>, AdminError> {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let fetch = Request::Fetch { ticket: NO_TICKET, holder: self.holder, n, settled: false };
        match self.api.ask_queue(self.source.id, fetch).await? {
            Effect::Fetched { deliveries, .. } => Ok(deliveries),
            other => Err(self.api.refused(self.source, &other).await),
        }
    }

    /// Removes messages from the queue, by the numbers of their deliveries.
    async fn accept(&self, numbers: impl Iterator<Item = u64>) -> Result<(), AdminError> {
        let settle = |number| Request::Settle {
            consumer: self.holder,
            first: number,
            last: number,
            outcome: Outcome::Accepted,
            answer: SettleAnswer::Never,
        };
        let (queue, requests) = (self.source.id, numbers.map(settle).collect());
        let post = |to| Act::Post { queue, requests, to };
        self.api.act(self.api.inner.deadlines.change, NODE_SHARD.into(), post).await
    }

    /// Publishes messages, and waits until their targets have taken or refused them.
    async fn publish(&self, messages: Vec<Moving>) -> Result<Vec<Result<(), MoveRefusal>>, AdminError> {
        let vhost = self.source.vhost.clone();
        let publish = |to| Act::Move { vhost, messages, to };
        self.api.act(self.api.inner.deadlines.change, NODE_SHARD.into(), publish).await
    }
}

/// A move and how far it is.
struct Run<'a> {
    holding: &'a Holding<'a>,
    who: &'a Identity,
    wanted: &'a Move,
    /// See [`Moved::until`].
    until: u64,
    began: Instant,
    /// The number of messages that were in the queue at the start and have not been looked at.
    unseen: u64,
    moved: u64,
    skipped: u64,
    /// The routes that the user may publish with.
    permitted: HashSet<Arc<Route>>,
}

impl Run<'_> {
    async fn run(&mut self) -> Result<MoveEnd, AdminError> {
        loop {
            if let Some(end) = self.end() {
                return self.without_message(end);
            }
            let deliveries = self.holding.fetch(self.next_batch()).await?;
            if deliveries.is_empty() {
                return self.without_message(MoveEnd::Done);
            }
            self.unseen = self.unseen.saturating_sub(deliveries.len() as u64);
            let is_found = self.wanted.seq.is_some_and(|seq| deliveries.iter().any(|of| of.seq == seq));
            if let Some(refused) = self.handle(deliveries).await? {
                return Ok(MoveEnd::Refused(refused));
            }
            if is_found {
                return match self.moved {
                    0 => Err(self.no_match()),
                    _ => Ok(MoveEnd::Done),
                };
            }
            self.keep_to_rate().await;
        }
    }

    /// Returns why the move ends before its next batch, if it does.
    fn end(&self) -> Option<MoveEnd> {
        if self.wanted.count.is_some_and(|count| self.moved >= count) {
            Some(MoveEnd::Count)
        } else if self.unseen == 0 {
            Some(MoveEnd::Done)
        } else if self.skipped >= SKIPPED_MAX {
            Some(MoveEnd::Skipped)
        } else if self.began.elapsed() >= MOVE_TIME_MAX {
            Some(MoveEnd::Time)
        } else {
            self.alarm()
        }
    }

    /// Called when the move ends and has not come to the message with the wanted sequence number.
    fn without_message(&self, end: MoveEnd) -> Result<MoveEnd, AdminError> {
        match (self.wanted.seq, &end) {
            (Some(seq), MoveEnd::Done) => {
                let QueueRecord { name, vhost, .. } = self.holding.source;
                let reason = format!(
                    "queue '{name}' in vhost '{vhost}' has no ready message with sequence number {seq}"
                );
                Err(AdminError::Catalog(CatalogError::NotFound { reason }))
            }
            _ => Ok(end),
        }
    }

    fn no_match(&self) -> AdminError {
        let QueueRecord { name, vhost, .. } = self.holding.source;
        let seq = self.wanted.seq.unwrap_or_default();
        let why = match self.wanted.which {
            Which::All { .. } => "does not match the filters",
            Which::Dead(_) => "is not a dead letter of another queue, or does not match the filters",
        };
        AdminError::Refused(format!(
            "the message with sequence number {seq} in queue '{name}' in vhost '{vhost}' {why}"
        ))
    }

    /// A publisher over AMQP would wait until the alarm is over. A request does not.
    fn alarm(&self) -> Option<MoveEnd> {
        let (resource, node) = self.holding.api.raised_alarms().into_iter().next()?;
        Some(MoveEnd::Alarm { resource, node })
    }

    fn next_batch(&self) -> u64 {
        let wanted = self.wanted.count.map_or(BATCH, |count| count.saturating_sub(self.moved));
        let paced =
            self.wanted.per_second.map_or(BATCH, |rate| (u64::from(rate) / BATCHES_PER_SECOND).max(1));
        BATCH.min(wanted).min(paced).min(self.unseen)
    }

    /// Handles the messages of a batch. Returns why one of them was refused, if any was. The other ones of the batch may have
    /// been moved.
    async fn handle(&mut self, deliveries: Vec<Delivery>) -> Result<Option<MoveRefusal>, AdminError> {
        let looked_at = deliveries.len() as u64;
        let (mut numbers, mut messages, mut refusal) = (Vec::new(), Vec::new(), None);
        for delivery in deliveries {
            let number = delivery.number;
            let Some(moving) = self.moving(delivery) else { continue };
            if moving.queue.is_none()
                && let Err(refused) = self.permit(moving.message.route()).await
            {
                match refused {
                    AdminError::AccessRefused(reason) if self.moved > 0 || !messages.is_empty() => {
                        refusal = Some(MoveRefusal::NotPermitted(reason.into()));
                        break;
                    }
                    refused => return Err(refused),
                }
            }
            numbers.push(number);
            messages.push(moving);
        }
        let before = self.moved;
        if !messages.is_empty() {
            let outcomes = self.holding.publish(messages).await?;
            let taken = numbers.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            let taken: Vec<u64> = taken.map(|(number, _)| *number).collect();
            self.moved += taken.len() as u64;
            self.holding.accept(taken.into_iter()).await?;
            refusal = outcomes.into_iter().find_map(Result::err).or(refusal);
        }
        self.skipped += looked_at - (self.moved - before);
        Ok(refusal)
    }

    /// Returns the message to publish for a delivery, or `None` if it does not match.
    fn moving(&self, delivery: Delivery) -> Option<Moving> {
        let Delivery { seq, message, .. } = delivery;
        let Move { seq: wanted, headers, which, .. } = self.wanted;
        if wanted.is_some_and(|wanted| wanted != seq)
            || !(headers.is_empty() || has_headers(Routable::of_message(&message, 0), headers))
        {
            return None;
        }
        match which {
            Which::All { .. } if seq > self.until => None,
            Which::All { to: MoveTo::Queue(queue), .. } => {
                Some(Moving { message, queue: Some(queue.clone()) })
            }
            Which::All { to: MoveTo::Exchange { name, key }, .. } => {
                let keys = match key {
                    Some(key) => vec![key.clone()],
                    None => message.route().keys().to_vec(),
                };
                let route = Arc::new(Route::new(name.clone(), keys));
                Some(Moving { message: Message::rerouted(message, route), queue: None })
            }
            Which::Dead(redrive) => {
                let source = &self.holding.source.name;
                let death = redrive.matching(message.deaths()?, source, self.until)?;
                let route = Arc::new(Route::new(death.exchange.clone(), death.keys.clone()));
                let queue = match &redrive.to {
                    RedriveTo::DiedIn => Some(death.queue.clone()),
                    RedriveTo::Queue(queue) => Some(queue.clone()),
                    RedriveTo::Exchange => None,
                };
                Some(Moving { message: Message::rerouted(message, route), queue })
            }
        }
    }

    async fn permit(&mut self, route: &Arc<Route>) -> Result<(), AdminError> {
        if !self.permitted.contains(route) {
            if self.permitted.len() == PERMITTED_MAX {
                self.permitted.clear();
            }
            let Holding { api, source, .. } = self.holding;
            api.permit_route(self.who, &source.vhost, route).await?;
            self.permitted.insert(route.clone());
        }
        Ok(())
    }

    /// Waits until the next message may be sent, but not longer than the move may take.
    async fn keep_to_rate(&self) {
        let Some(rate) = self.wanted.per_second else { return };
        let due = Duration::from_secs_f64(self.moved as f64 / f64::from(rate.max(1)));
        tokio::time::sleep_until(self.began + due.min(MOVE_TIME_MAX)).await;
    }
}
