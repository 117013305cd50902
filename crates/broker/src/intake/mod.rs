//! Intake: what every publisher needs, in every protocol. It checks permissions, finds routes, merges receipts and
//! regulates credit.
//!
//! ```text
//!   gate: bytes, keys ──> Intake::publish ── permitted? route, home, Publish ──> queues
//!   gate: outcomes   <── Intake::handle_receipts ── merged, in runs <── Receipt <── queues
//!   gate: credit     <── Intake::poll_grant
//! ```
//!
//! A gate reads the frames of its protocol and says which route a message names itself. It translates each [`Refused`]
//! into an error of its protocol. Its [`Publication`] is what it stores for a publish until the receipt.

mod account;
pub(crate) mod adaptive;
mod arrived;
mod parted;
mod route;
mod traced;
mod unanswered;

use std::sync::Arc;

use amqp10::sections::{self, SectionError, Sections};
use bytes::Bytes;
use catalog::ExchangeId;
use catalog::access::Protocol;
use catalog::ids::QueueId;
use catalog::{QueueRecord, RouteTarget};
use message::{Basic, Message, Route};
use queue::{Publish, PublisherId, Request, Verdict};

use self::account::Account;
pub use self::account::{Publication, Run};
pub use self::arrived::{Arrived, Body};
pub use self::parted::Parted;
use self::route::Allowed;
pub use self::route::{Awaited, Refused, Sender, Target, may_publish};
use self::traced::trace_published;
use self::unanswered::Left;
pub use self::unanswered::Unanswered;
use crate::admin_api::PassedCounts;
use crate::cx::Cx;
use crate::explain;
use crate::input::{COPY_MAX, copy_of, copy_of_parts};
use crate::mail::{GateAddress, PublisherAddress};

/// One publisher. Call [`Intake::close`] when the publisher ends.
#[derive(Debug)]
pub struct Intake<P> {
    publisher: PublisherId,
    protocol: Protocol,
    target: Target,
    allowed: Allowed,
    /// The queue whose deletion ends the publisher.
    watched: Option<QueueId>,
    /// The queue that is deleted when the publisher ends.
    pub owned: Option<QueueId>,
    account: Account<P>,
    /// The route of the messages that are not counted yet.
    counted: Option<Counted>,
    /// The number of messages whose publisher got a receipt, and of those that reached no queue.
    confirmed: u64,
    returned: u64,
    dropped: u64,
    /// The bytes of this publisher that its connection counts as unanswered.
    noted_bytes: u64,
}

/// Where the last messages of a publisher went. Their number is the difference of two numbers that the account has anyway,
/// so counting them by exchange costs nothing per message.
#[derive(Debug)]
struct Counted {
    exchange: ExchangeId,
    /// The number of targets that each of them has.
    targets: u64,
    /// The messages that the account had seen when they were counted last.
    up_to: u64,
}

impl<P: Publication> Intake<P> {
    /// Registers a publisher. Returns `None` if the shard cannot register any more.
    pub fn open(at: GateAddress, protocol: Protocol, target: Target, cx: &mut Cx<'_>) -> Option<Self> {
        let publisher = cx.publishers.insert(PublisherAddress::Gate(at))?;
        cx.counters.over_mut(protocol).publishers += 1;
        let (publisher, account) = (PublisherId(publisher), Account::new(cx.settings));
        let allowed = Allowed::default();
        let (watched, owned, counted) = (None, None, None);
        let (confirmed, returned, dropped) = (0, 0, 0);
        Some(Self {
            publisher,
            protocol,
            target,
            allowed,
            watched,
            owned,
            account,
            counted,
            confirmed,
            returned,
            dropped,
            noted_bytes: 0,
        })
    }

    /// Ends the publisher. Later receipts are ignored. Returns the queue that is to be deleted with it.
    pub fn close(mut self, cx: &mut Cx<'_>) -> Option<QueueId> {
        self.stop(cx);
        self.account.release(cx.budget);
        cx.publishers.remove(self.publisher.0);
        self.owned
    }

    /// Ends the publisher. Its messages without a receipt still count for its connection, until they have theirs. Returns the
    /// queue that is to be deleted with it.
    pub fn leave(
        mut self,
        unanswered: &mut Unanswered<P>,
        connection: usize,
        cx: &mut Cx<'_>,
    ) -> Option<QueueId> {
        self.stop(cx);
        let Self { publisher, mut account, noted_bytes, owned, .. } = self;
        account.end_credit(cx.budget);
        unanswered.keep(Left { publisher, account, noted_bytes }, connection, cx);
        owned
    }

    /// Counts the end of the publisher, and what it has sent before.
    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.count_published(cx);
        cx.searches.give_up(self.publisher);
        self.watched.into_iter().for_each(|queue| cx.watchers.remove(queue, self.publisher));
        cx.counters.over_mut(self.protocol).publishers -= 1;
    }

    /// Notes that all messages go to this queue. The gate is notified when the queue is deleted.
    pub fn watch(&mut self, queue: &QueueRecord, cx: &mut Cx<'_>) {
        cx.watchers.add(queue.id, self.publisher);
        self.watched = Some(queue.id);
        self.account.note_queue(queue, cx.settings);
    }

    /// Forgets what the publisher may do, because its rights have changed.
    pub fn forget_permissions(&mut self) {
        self.allowed = Allowed::default();
        self.target.forget();
    }

    /// Checks that the publisher may send this message, which takes a route of its own. Nothing is sent.
    ///
    /// # Errors
    /// It may not, or the exchange does not exist.
    pub fn check(
        &mut self,
        sender: Sender<'_>,
        arrived: Arrived<'_>,
        route: &Route,
        cx: &Cx<'_>,
    ) -> Result<(), Refused> {
        let checked = self.allowed.check(sender, route, arrived.hidden_keys(), cx);
        checked.map_err(|refused| refused.if_sure(sender, cx))
    }

    /// Sets whether the messages that follow are known to be permitted: [`Intake::check`] has checked them in the same call of
    /// the gate.
    pub fn trust(&mut self, is_trusted: bool) {
        self.allowed.trust(is_trusted);
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the queue that the publisher watches.
    pub fn watched(&self) -> Option<QueueId> {
        self.watched
    }

    /// Returns the number of messages without a receipt.
    pub fn unconfirmed(&self) -> u32 {
        self.account.unconfirmed()
    }

    /// Returns the age of the oldest message without a receipt, in milliseconds. `None` if there is none.
    pub fn unconfirmed_age_ms(&self, now_ms: u64) -> Option<u64> {
        self.account.age_ms(now_ms)
    }

    /// Returns the number of messages that were sent to queues so far. It wraps around.
    pub fn delivery_count(&self) -> u32 {
        self.account.published() as u32
    }

    /// Returns what has passed over the publisher.
    pub fn counts(&self) -> PassedCounts {
        let Self { confirmed, returned, dropped, .. } = *self;
        let received = self.account.published() + returned + dropped;
        PassedCounts { received, confirmed, returned, dropped, ..PassedCounts::default() }
    }

    /// Returns what `sluice explain` shows of the publisher.
    pub fn facts(&self) -> explain::Role {
        explain::Role::Publishing { queue: self.target.queue().cloned(), unconfirmed: self.unconfirmed() }
    }

    /// Counts a message of this size that has arrived. [`Intake::scan`] does this for messages in the format of AMQP 1.0.
    #[inline(always)]
    pub fn note_received(&self, bytes: usize, wants_receipt: bool, cx: &mut Cx<'_>) {
        let counters = cx.counters.over_mut(self.protocol);
        counters.received += 1;
        counters.sizes.count(bytes);
        counters.received_confirm += u64::from(wants_receipt);
    }

    /// Undoes [`Intake::note_received`] for a message that is held until somebody else has said whether it is permitted. It
    /// is counted when it is handled again.
    #[cold]
    pub fn take_back_received(&self, bytes: usize, wants_receipt: bool, cx: &mut Cx<'_>) {
        let counters = cx.counters.over_mut(self.protocol);
        counters.received -= 1;
        counters.sizes.take_back(bytes);
        counters.received_confirm -= u64::from(wants_receipt);
    }

    /// Counts a message that has arrived, and finds its sections.
    ///
    /// # Errors
    /// The bytes are not a message. They are counted all the same.
    #[inline(always)]
    pub fn scan(
        &self,
        body: Body<'_>,
        wants_receipt: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Sections, SectionError> {
        self.note_received(body.len(), wants_receipt, cx);
        sections::scan(&body)
    }

    /// Counts a message that [`Intake::publish`] has refused as unroutable, and that went back to its publisher or was
    /// dropped.
    pub fn note_unroutable(&mut self, is_returned: bool, cx: &mut Cx<'_>) {
        *if is_returned { &mut self.returned } else { &mut self.dropped } += 1;
        let counters = cx.counters.over_mut(self.protocol);
        *if is_returned { &mut counters.unroutable_returned } else { &mut counters.unroutable_dropped } += 1;
        let Some(counted) = &self.counted else { return };
        let counts = cx.exchange_counters.of(counted.exchange);
        counts.published += 1;
        *if is_returned { &mut counts.unroutable_returned } else { &mut counts.unroutable_dropped } += 1;
    }

    /// Counts the messages since the last call for the exchange to which they were sent. Called before the route changes,
    /// at the end of each turn, and at the end of the publisher.
    fn count_published(&mut self, cx: &mut Cx<'_>) {
        let Some(counted) = &mut self.counted else { return };
        let messages = self.account.published() - counted.up_to;
        if messages > 0 {
            counted.up_to += messages;
            let counts = cx.exchange_counters.of(counted.exchange);
            counts.published += messages;
            counts.routed += messages * counted.targets;
        }
    }

    /// Returns the credit to grant now, if it is time. `left` is the credit that the publisher has left. Called at the end of
    /// each turn in which a message has arrived.
    pub fn poll_grant(&mut self, left: u32, cx: &mut Cx<'_>) -> Option<u32> {
        self.count_published(cx);
        self.account.grant(left, cx.settings.max_link_credit, cx.budget)
    }

    /// Handles one queue's receipt for the publishes `first..=last`. Calls `tell` for each run of publishes that the
    /// receipt completes and whose publisher wants a receipt.
    pub fn handle_receipts(
        &mut self,
        range: (u64, u64),
        verdict: Verdict,
        cx: &mut Cx<'_>,
        tell: impl FnMut(Run<P>),
    ) {
        let confirmed = self.account.handle_receipts(range, verdict, cx.now_ms, cx.budget, tell);
        cx.counters.over_mut(self.protocol).confirmed += confirmed;
        self.confirmed += confirmed;
    }

    /// Sends a message to the queues of its route. `own` is the route that the message itself names, or `None` if the
    /// message takes the route of the target. A message with keys that receivers do not see ([`Basic::bcc`]) always has
    /// a route of its own, which does not contain them.
    ///
    /// # Errors
    /// The message is sent to no queue, and gets no receipt. The gate calls [`Intake::note_unroutable`] for those without
    /// a route, because it knows whether they go back to their publisher.
    #[inline]
    pub fn publish(
        &mut self,
        sender: Sender<'_>,
        arrived: Arrived<'_>,
        own: Option<Arc<Route>>,
        publication: P,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        // Most messages take the route of the message before.
        let fresh;
        let (route, targets) = match self.target.known(own.as_ref(), cx.catalog.version()) {
            Some((route, targets)) => (route.clone(), targets),
            None => {
                self.count_published(cx);
                let found = self.target.find(self.publisher, sender, arrived, own, &mut self.allowed, cx);
                let (route, routed) = found.map_err(|refused| refused.if_sure(sender, cx))?;
                let (targets, up_to) = (routed.targets.len() as u64, self.account.published());
                self.counted = routed.exchange.map(|exchange| Counted { exchange, targets, up_to });
                fresh = routed;
                route::remember(&fresh.histories, arrived, &route, cx);
                (route, &fresh.targets[..])
            }
        };
        // Only the default exchange names a queue. Other exchanges were found, and so were their bindings.
        if targets.is_empty() && cx.may_lag && route.exchange().is_empty() {
            return Err(Refused::Unsure);
        }
        if let Some(traces) = cx.traces {
            trace_published(traces, sender, (arrived, &route), targets, cx);
        }
        if targets.is_empty() {
            return Err(Refused::Unroutable);
        }
        cx.counters.over_mut(self.protocol).routed += 1;
        let (body, found) = match arrived {
            Arrived::Amqp10 { body, found } => (body, found),
            Arrived::Amqp091(basic) => {
                let (bytes, left) = (basic.len() as u32, targets.len() as u32);
                let seq = self.account.push(publication, bytes, left, basic.is_durable(), cx.now_ms);
                let pipelines = self.account.pipelines(cx.settings.max_link_credit, cx.now_ms);
                let message = Message::new(basic.parts(wire_of(basic, cx)), route);
                let publish = Publish { publisher: self.publisher, seq, message, pipelines };
                send(cx, sender.vhost, publish, targets);
                return Ok(());
            }
        };
        let trimmed = message::trim(found, cx.settings.durable_by_default);
        let range = trimmed.range.clone();
        let (bytes, left, durable) = (range.len() as u32, targets.len() as u32, trimmed.durable);
        let seq = self.account.push(publication, bytes, left, durable, cx.now_ms);
        let pipelines = self.account.pipelines(cx.settings.max_link_credit, cx.now_ms);
        let publisher = self.publisher;
        match (body, targets) {
            // Most messages are small and go to one queue. They are built in place, with no branch after it.
            (body, [RouteTarget::Queue(queue)]) if range.len() <= COPY_MAX => {
                let message = Message::new(
                    trimmed.into_parts(copy_of(&body[range], &mut cx.input, cx.batch_buffer)),
                    route,
                );
                cx.post.request(*queue, Request::Publish(Publish { publisher, seq, message, pipelines }));
            }
            (body, targets) => {
                let wire = match body {
                    Body::Owned(bytes) if range.len() > COPY_MAX => bytes.slice(range),
                    body => copy_of(&body[range], &mut cx.input, cx.batch_buffer),
                };
                let message = Message::new(trimmed.into_parts(wire), route);
                send(cx, sender.vhost, Publish { publisher, seq, message, pipelines }, targets);
            }
        }
        Ok(())
    }
}

/// Returns the bytes of a message of AMQP 0.9.1 in a buffer that may be retained.
fn wire_of(basic: &Basic<'_>, cx: &mut Cx<'_>) -> Bytes {
    match basic.whole() {
        Some(whole) if basic.len() > COPY_MAX => whole.clone(),
        _ => copy_of_parts([basic.list(), basic.payload()], cx.batch_buffer),
    }
}

/// Sends a message to every target of its route.
#[inline]
fn send(cx: &mut Cx<'_>, vhost: &Arc<str>, publish: Publish, targets: &[RouteTarget]) {
    let Some((last, others)) = targets.split_last() else { return };
    for target in others {
        cx.post.publish(vhost, *target, publish.clone());
    }
    cx.post.publish(vhost, *last, publish);
}
