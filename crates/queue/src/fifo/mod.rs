//! The fifo machine: a queue that delivers each message to one consumer.

mod acquired;
mod active;
mod annotated;
mod browse;
mod chunks;
mod consumers;
mod dead_letter;
mod delayed;
mod entry;
mod expire;
mod journal;
mod learn;
mod level;
mod overdue;
mod paging;
mod peek;
mod rare;
mod ready;
mod repeat;
mod report;
mod restore;
mod rounds;
mod runs;
mod settle;
mod sizes;
mod timeout;
mod turns;
mod uncommitted;
mod unsettled;
mod unsettled_totals;

#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::Arc;

use acquired::Acquired;
use browse::Browser;
pub use browse::BrowserLoad;
use consumers::{Consumer, Consumers, Slot, Standing};
use dead_letter::Leaving;
pub use dead_letter::{DEAD_LETTER_RETRY_MS, LEAVING_MAX};
use delayed::Delayed;
pub use entry::stored_bytes;
use entry::{Entry, Leave};
use journal::Journal;
use paging::{Fetch, Seldom, Writing};
pub use peek::{PEEK_BYTES_MAX, PEEK_STEPS_MAX, Peek, PeekBlock, PeekEnd, Peeked, PeekedMessage};
use rare::Rare;
use ready::Ready;
pub use restore::Restoring;
use timeout::Timeout;
use uncommitted::Stage;
use unsettled_totals::UnsettledTotals;

use crate::{
    Attach, Carrier, Config, CreditState, Deferrable, DeletedReason, Deliver, DeliveryRef, Depth, Effect,
    Fact, GoneReason, Load, LocalFact, Mode, Overflow, Publish, Put, QuorumConfig, Receipts, Refusal,
    RejectReason, Request, Requester, SettleAnswer, Ticket, Verdict,
};

/// The results of calls. Each call appends; the caller carries the results out and empties the output.
#[derive(Debug, Default)]
pub struct Output {
    pub receipts: Receipts,
    pub effects: Vec<Effect>,
    pub facts: Vec<Fact>,
    /// The log gets them after `facts`.
    pub local: Vec<LocalFact>,
    /// Blocks to be read and passed to [`Fifo::handle_loaded`].
    pub loads: Vec<Load>,
    /// Blocks to be read and passed to [`Fifo::handle_browsed`].
    pub browser_loads: Vec<BrowserLoad>,
    /// Runs that may be freed as soon as all facts so far are safe.
    pub released: Vec<u32>,
    /// The number of messages for which a consumer was skipped, because they are larger than it accepts.
    pub too_large: u64,
    /// The number of publishes that were refused because the queue is at a length limit.
    pub publishes_rejected: u64,
}

/// A queue: ready messages, consumers with their unsettled messages, and dead letters.
///
/// Between calls, either no ready message may be delivered, or no consumer may be sent the next one.
pub struct Fifo {
    /// Shared with the record of the queue.
    config: Arc<Config>,
    next_seq: u64,
    ready: Ready,
    consumers: Consumers,
    leaving: Rare<Leaving>,
    delayed: Delayed,
    journal: Journal,
    /// Totals of the unsettled messages of all consumers.
    held: UnsettledTotals,
    /// True if any message can expire. Otherwise the age of the head is never checked.
    ages: bool,
    /// When the queue was last used, in milliseconds since the epoch. Unknown before the first call.
    used_ms: Option<NonZeroU64>,
    /// When it is checked next whether consumers hold deliveries for too long.
    next_check_ms: u64,
    end: Option<End>,
    counts: Counts,
    /// The run that is being written. Boxed because it is rarely present.
    writing: Option<Box<Writing>>,
    /// The block that is being read.
    reading: Option<Load>,
    seldom: Rare<Seldom>,
    /// A buffer that is empty between calls and keeps its capacity.
    taken: Vec<Entry>,
}

/// Why the machine has stopped working.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted(DeletedReason),
    Damaged,
}

/// See [`Report`].
#[derive(Clone, Copy, Default)]
struct Counts {
    published: u64,
    delivered: u64,
    delivered_settled: u64,
    redelivered: u64,
    acknowledged: u64,
    expired: u64,
    dropped: u64,
    dead_lettered: u64,
    over_limit: u64,
    /// The value of `acknowledged` when a message last exceeded the delivery limit.
    acknowledged_before: u64,
}

impl Fifo {
    pub fn new(config: impl Into<Arc<Config>>) -> Self {
        let config = config.into();
        Self {
            next_seq: 1,
            ready: Ready::new(
                config.max_priority.unwrap_or(0),
                config.quorum.map_or(0, |_| QuorumConfig::DEFAULT_PRIORITY),
            ),
            consumers: Consumers::new(config.single_active_consumer, config.quorum.is_some()),
            leaving: Rare::default(),
            delayed: Delayed::default(),
            journal: Journal::default(),
            held: UnsettledTotals::default(),
            ages: config.message_ttl_ms.is_some(),
            used_ms: None,
            next_check_ms: 0,
            end: None,
            counts: Counts::default(),
            writing: None,
            reading: None,
            seldom: Rare::default(),
            taken: Vec::new(),
            config,
        }
    }

    /// Applies a request. `now_ms` counts from the epoch and never decreases. Stored messages are passed to the carrier
    /// at once, so the facts in `out` contain no [`Fact::Put`]. Deliveries are passed to it while `out` has no effects,
    /// which they would overtake. A delivery that the carrier does not take becomes an effect.
    pub fn apply(&mut self, request: Request, now_ms: u64, out: &mut Output, carrier: &mut dyn Carrier) {
        if let Some(end) = self.end {
            return self.apply_ended(end, request, out);
        }
        self.used_ms = self.used_ms.or(NonZeroU64::new(now_ms));
        self.expire(now_ms, out);
        match request {
            Request::Publish(publish) => self.publish(publish, now_ms, out, carrier),
            Request::Attach(attach) => self.attach(&attach, now_ms, out),
            Request::Cancel { consumer } => {
                if !self.remove_browser(consumer, GoneReason::Cancelled, out) {
                    self.cancel(consumer, now_ms, out, carrier);
                }
            }
            Request::Detach { consumer, failed } => {
                if !self.remove_browser(consumer, GoneReason::Detached, out) {
                    self.detach(consumer, failed, now_ms, out, carrier);
                }
            }
            Request::Grant { consumer, delivery_count, credit, drain, echo } => {
                if let Some(slot) = self.consumers.slot(consumer) {
                    self.consumers.get(slot).grant.replace(delivery_count, credit);
                    self.granted(slot, drain, echo, now_ms, out, carrier);
                } else {
                    let (count, asks) = ((delivery_count, credit), (drain, echo));
                    self.grant_browser(consumer, count, asks, now_ms, out, carrier);
                }
            }
            Request::Resume { consumer, taken_back } => {
                if let Some(slot) = self.consumers.slot(consumer) {
                    self.resume(slot, taken_back, now_ms, out, carrier);
                }
            }
            Request::Fetch { ticket, holder, n, settled } => {
                self.used_ms = NonZeroU64::new(now_ms);
                let known = self.consumers.slot(holder).is_some();
                let deliveries = Vec::new();
                self.fetch(Fetch { ticket, holder, known, n, settled, deliveries }, now_ms, out);
                // The fetched messages may have been too large for the consumers with credit. The next one may fit.
                self.dispatch(now_ms, out, carrier);
            }
            Request::Settle { consumer, first, last, outcome, answer } => {
                if answer != SettleAnswer::Never {
                    let waits = answer == SettleAnswer::Stored || self.journal.can_roll_back();
                    let journaled = waits && self.journal.keeps();
                    out.effects.push(Effect::Settled { consumer, first, last, journaled });
                }
                self.settle(consumer, (first, last), outcome, now_ms, out, carrier);
            }
            Request::Browse { ticket, .. } => {
                let why = Refusal::NotSupported;
                out.effects.push(Effect::Refused { requester: Requester::Ticket(ticket), why });
            }
            // Only streams have followers, browse requests and parts that are closed.
            Request::Follow { .. } | Request::CancelBrowse { .. } | Request::Close { .. } => {}
            Request::DeadLettered { token, arrival, taken_by } => {
                self.dead_lettered(token, (arrival, taken_by), now_ms, out, carrier);
            }
            Request::Use => self.used_ms = NonZeroU64::new(now_ms),
            Request::Configure(config) => self.configure(config, now_ms, out, carrier),
            Request::Purge { ticket } => {
                let messages = self.purge();
                out.effects.push(Effect::Done { ticket, messages, journaled: self.journal.keeps() });
                self.serve_fetches(now_ms, out);
                self.answer_waiting_grants(out);
            }
            Request::Delete { ticket, if_unused, if_empty } => {
                if if_unused && self.consumers.count() > 0 {
                    out.effects
                        .push(Effect::Refused { requester: Requester::Ticket(ticket), why: Refusal::InUse });
                } else if if_empty && !self.is_empty() {
                    out.effects.push(Effect::Refused {
                        requester: Requester::Ticket(ticket),
                        why: Refusal::NotEmpty,
                    });
                } else {
                    self.delete(DeletedReason::Requested, Some(ticket), out);
                }
            }
            Request::Report { ticket } => {
                out.effects.push(Effect::Report { ticket, report: Box::new(self.report()) });
            }
        }
        if self.ages {
            // The expired messages may have been too large for the consumers with credit. The next one may fit.
            self.dispatch(now_ms, out, carrier);
        }
        self.journal.flush(out);
    }

    /// Returns whether no message is ready, staged or delayed.
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.journal.staged().0 == 0 && self.delayed.is_empty()
    }

    /// Returns how many messages the queue has, by where they are.
    #[inline]
    pub fn depth(&self) -> Depth {
        Depth {
            ready: self.ready.len(),
            unsettled: self.held.messages(),
            delayed: self.delayed.len(),
            leaving: self.leaving.len() as u64,
        }
    }

    /// Frees memory that the queue does not need while nothing happens.
    pub fn shrink(&mut self) {
        if self.writing.is_none() && self.reading.is_none() {
            self.ready.shrink();
        }
        self.consumers.shrink();
        self.taken = Vec::new();
        self.journal.shrink();
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the sequence number of the next message to be published.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    fn publish(&mut self, publish: Publish, now_ms: u64, out: &mut Output, carrier: &mut dyn Carrier) {
        let Publish { publisher, seq: number, message, pipelines } = publish;
        if self.config.overflow != Overflow::DropHead && self.overflows(1, message.len()) {
            self.seldom.make().rejected.count(now_ms);
            out.publishes_rejected += 1;
            let verdict = Verdict::Rejected(RejectReason::MaxLength);
            out.receipts.push(publisher, number, verdict, false);
            if self.config.overflow == Overflow::RejectPublishDlx && self.config.dead_letter.is_some() {
                self.kill_refused(Entry::new(message, 0, now_ms), now_ms, out);
            }
            return;
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        self.counts.published += 1;
        self.ages |= message.ttl_ms().is_some();
        if self.journal.can_roll_back() {
            out.receipts.push(publisher, number, Verdict::Accepted, true);
            return self.stage(message, seq, now_ms, out, carrier);
        }
        let direct = self.direct(&message, out);
        // A message that is settled as it is sent need never be restored.
        let journaled = self.journal.policy.needs_fact(&message)
            && !direct.is_some_and(|slot| self.consumers.get(slot).settled);
        let is_deferrable = pipelines && self.consumers.count() > 0;
        let deferrable = is_deferrable.then(|| {
            let (ahead, acknowledged) = (self.ready.len(), self.counts.acknowledged);
            Deferrable { publisher, number, ahead, acknowledged }
        });
        let is_receipt_deferred =
            journaled && carrier.put(Put { seq, message: &message, at_ms: now_ms, deferrable });
        if !is_receipt_deferred {
            out.receipts.push(publisher, number, Verdict::Accepted, journaled);
        }
        let entry = Entry { journaled, ..Entry::new(message, seq, now_ms) };
        if journaled {
            self.journal.put(&entry);
        }
        self.enter(direct, entry, now_ms, out, carrier);
    }

    /// Delivers a new message or makes it ready.
    #[inline(always)]
    fn enter(
        &mut self,
        direct: Option<Slot>,
        entry: Entry,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        match direct {
            Some(slot) => self.deliver(slot, entry, out, deliver),
            None => {
                // Usually nothing can be delivered now. But an expired head may block its level, and the new message
                // may be in a higher level.
                self.ready.push(entry);
                self.shed(now_ms, out);
                self.dispatch(now_ms, out, deliver);
            }
        }
    }

    fn attach(&mut self, attach: &Attach, now_ms: u64, out: &mut Output) {
        let consumer = attach.consumer;
        let refused = |why| Effect::Refused { requester: Requester::Consumer(consumer), why };
        if matches!(attach.mode, Mode::Browse) {
            return self.attach_browser(attach, out);
        }
        self.used_ms = NonZeroU64::new(now_ms);
        if !matches!(attach.mode, Mode::Take) {
            return out.effects.push(refused(Refusal::NotSupported));
        }
        if self.consumers.slot(consumer).is_some() {
            return out.effects.push(refused(Refusal::InUse));
        }
        let Ok(slot) = self.consumers.attach(attach) else {
            return out.effects.push(refused(Refusal::ExclusiveConsumer));
        };
        if self.config.quorum.is_some() {
            self.consumers.get(slot).timeout = Some(Box::new(Timeout::new(attach.timeout)));
            self.check_soon();
        }
        out.effects.push(Effect::Attached { consumer });
        if self.config.single_active_consumer && !self.change_active(out) {
            self.notify_active(slot, out);
        }
    }

    /// Notifies a consumer whether it is the active one.
    fn notify_active(&mut self, slot: Slot, out: &mut Output) {
        let available = self.available(slot);
        let consumer = self.consumers.get(slot);
        let active = matches!(consumer.standing, Standing::Serving | Standing::Yielding);
        out.effects.push(Effect::Active { consumer: consumer.id, active, available });
    }

    /// Returns the number of ready messages that this consumer could get.
    fn available(&mut self, slot: Slot) -> u32 {
        match self.consumers.get(slot).standing {
            Standing::Serving => u32::try_from(self.ready.len()).unwrap_or(u32::MAX),
            Standing::Yielding | Standing::Waiting | Standing::Holding => 0,
        }
    }

    /// Uses a consumer's new grant, and answers if asked.
    fn granted(
        &mut self,
        slot: Slot,
        drain: bool,
        echo: bool,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        // A holder gets no deliveries, so its credit is void unless it asks for a drain.
        if self.consumers.get(slot).standing == Standing::Holding && !drain {
            self.consumers.get(slot).grant.credit = 0;
        }
        self.consumers.regrant(slot);
        self.dispatch(now_ms, out, deliver);
        if drain || echo {
            self.answer_grant(slot, drain, out);
        }
    }

    /// Ends a drain, and reports the remaining credit. Waits if a message must be read first.
    fn answer_grant(&mut self, slot: Slot, drain: bool, out: &mut Output) {
        if self.waits(slot) {
            let consumer = self.consumers.get(slot).id;
            self.seldom.make().grants.push((consumer, drain));
            return;
        }
        if drain {
            self.consumers.get(slot).grant.drain();
            self.consumers.regrant(slot);
        }
        let available = self.available(slot);
        let consumer = self.consumers.get(slot);
        let state = CreditState {
            delivery_count: consumer.grant.delivery_count,
            credit: consumer.grant.credit,
            available,
            drained: drain,
        };
        out.effects.push(Effect::CreditState { consumer: consumer.id, state });
    }

    /// Delivers messages while there are both messages and consumers with credit.
    fn dispatch(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        let anyone_waits = self.seldom.anyone_waits();
        if anyone_waits {
            self.serve_fetches(now_ms, out);
        }
        self.deliver_heads(now_ms, out, deliver);
        if !self.journal.runs.is_empty()
            && self.consumers.count() > 0
            && let Some(load) = self.ready.read_ahead()
        {
            self.load(load, out);
        }
        if anyone_waits {
            self.answer_waiting_grants(out);
        }
    }

    fn deliver_heads(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        while let Some(first) = self.consumers.next()
            && let Some(level) = self.next_level(now_ms, out)
            && let Some(slot) = self.next_slot(first, out)
            && let Some(entry) = self.ready.pop(level)
        {
            self.deliver(slot, entry, out, deliver);
        }
        // The last delivery may have exposed an expired head, which must not count as ready.
        self.expire(now_ms, out);
    }

    #[inline(always)]
    fn deliver(&mut self, slot: Slot, entry: Entry, out: &mut Output, deliver: &mut dyn Deliver) {
        let consumer = self.consumers.get(slot);
        consumer.grant.spend();
        let settled = consumer.settled;
        let lent = lend(consumer, &entry, &self.journal.acquired);
        if self.journal.annotated.is_empty() {
            offer(lent, out, deliver);
        } else {
            self.offer_annotated(lent, out, deliver);
        }
        self.hold(slot, entry, settled, Leave::Pushed);
        self.consumers.turn(slot);
    }

    /// [`offer`], with the annotations that consumers have set.
    #[cold]
    fn offer_annotated(&self, lent: DeliveryRef<'_>, out: &mut Output, deliver: &mut dyn Deliver) {
        match self.journal.annotated.shown(lent.seq, lent.message) {
            Some(message) => offer(DeliveryRef { message: &message, ..lent }, out, deliver),
            None => offer(lent, out, deliver),
        }
    }

    /// Assigns a delivered message to its consumer. If it is settled as it is sent, it leaves the queue instead. Returns true if
    /// the delivery is counted.
    #[inline(always)]
    fn hold(&mut self, slot: Slot, mut entry: Entry, settled: bool, leave: Leave) -> bool {
        let consumer = self.consumers.get(slot);
        // A message that came back unsent was counted when it left for the first time. It was unsettled then. A delivery of
        // another kind is counted with its kind, so that the counts agree with each other and none ever falls.
        let is_counted = settled || entry.came_back != Some(leave);
        if is_counted {
            self.counts.delivered += 1;
            self.counts.redelivered += u64::from(entry.redelivered);
        }
        if settled {
            self.counts.delivered_settled += 1;
            self.counts.acknowledged += 1;
            consumer.unsettled.skip();
            self.journal.leave(entry, Stage::Ready);
        } else {
            self.held.add(&entry);
            entry.free_body();
            consumer.unsettled.push(entry);
        }
        is_counted
    }

    fn configure(&mut self, config: Arc<Config>, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        self.used_ms = NonZeroU64::new(now_ms);
        self.ages |= config.message_ttl_ms.is_some();
        // The number of levels cannot change after the declaration.
        self.config = match config.max_priority == self.config.max_priority {
            true => config,
            false => Arc::new(Config { max_priority: self.config.max_priority, ..(*config).clone() }),
        };
        self.check_soon();
        for slot in self.consumers.set_single_active(self.config.single_active_consumer) {
            self.notify_active(slot, out);
        }
        self.make_room(now_ms, out, deliver);
    }

    fn purge(&mut self) -> u64 {
        let messages = self.ready.len();
        let (entries, rests) = self.ready.drain();
        entries.into_iter().for_each(|entry| self.journal.leave(entry, Stage::Ready));
        rests.into_iter().for_each(|rest| self.journal.leave_rest(rest));
        if self.keeps_dead_letters() {
            self.purge_leaving();
        }
        messages
    }

    /// Deletes the queue. If its turns can be rolled back, that it ends is a fact, and it ends when this is committed. Otherwise there
    /// is no fact: the caller that forgets the queue forgets its facts with it. So it is for a damaged queue, whose facts nobody commits.
    fn delete(&mut self, reason: DeletedReason, ticket: Option<Ticket>, out: &mut Output) {
        let messages = self.ready.len();
        let is_fact = self.journal.can_roll_back() && self.end.is_none();
        let done = ticket.map(|ticket| Effect::Done { ticket, messages, journaled: is_fact });
        if is_fact {
            out.effects.extend(done);
            return self.end_when_committed(reason, out);
        }
        self.end_with(End::Deleted(reason), out);
        out.effects.extend(done);
        out.effects.push(Effect::Deleted { reason });
    }

    /// Ends a queue whose end is committed.
    fn end_for_good(&mut self, reason: DeletedReason, out: &mut Output) {
        self.end_with(End::Deleted(reason), out);
        out.effects.push(Effect::Deleted { reason });
    }

    /// Returns why the queue has ended for good. `None` if it has not.
    pub fn ended(&self) -> Option<DeletedReason> {
        if let Some(End::Deleted(reason)) = self.end { Some(reason) } else { None }
    }

    /// Called when messages of the queue cannot be read any more. The queue delivers nothing from now on, and can only
    /// be deleted. Its remaining messages are kept until then.
    pub fn quarantine(&mut self, out: &mut Output) {
        if self.end.is_some() {
            return;
        }
        let mut held = self.consumers.take_held();
        while let Some(entry) = held.pop() {
            self.ready.put_back(entry);
        }
        self.delayed.drain().for_each(|entry| self.ready.put_back(entry));
        self.journal.repeat_from_first();
        self.end_with(End::Damaged, out);
        self.journal.flush(out);
        out.local.push(LocalFact::Damaged);
    }

    /// Returns whether [`Fifo::quarantine`] was called, also before a restart.
    pub fn is_damaged(&self) -> bool {
        self.end == Some(End::Damaged)
    }

    fn end_with(&mut self, end: End, out: &mut Output) {
        let (reason, why) = match end {
            End::Deleted(_) => (GoneReason::QueueDeleted, Refusal::NotFound),
            End::Damaged => (GoneReason::Damaged, Refusal::Damaged),
        };
        let browsers =
            self.seldom.made().map(|seldom| std::mem::take(&mut seldom.browsers)).unwrap_or_default();
        let consumers = self.consumers.clear().into_iter().chain(browsers.iter().map(Browser::id));
        out.effects.extend(consumers.map(|consumer| Effect::Gone { consumer, reason }));
        let fetches = self.seldom.made().map(Seldom::take_waiting).unwrap_or_default();
        for Fetch { ticket, .. } in fetches {
            out.effects.push(Effect::Refused { requester: Requester::Ticket(ticket), why });
        }
        self.end = Some(end);
        if matches!(end, End::Deleted(_)) {
            self.ready = Ready::new(0, 0);
            self.leaving = Rare::default();
            self.delayed = Delayed::default();
        }
        self.held = UnsettledTotals::default();
        if let Some(all) = &mut self.journal.uncommitted {
            all.clear();
        }
    }

    /// Answers requests after the queue has ended.
    fn apply_ended(&mut self, end: End, request: Request, out: &mut Output) {
        let (verdict, reason, why) = match end {
            End::Deleted(_) => (Verdict::Released, GoneReason::QueueDeleted, Refusal::NotFound),
            End::Damaged => (Verdict::Rejected(RejectReason::Damaged), GoneReason::Damaged, Refusal::Damaged),
        };
        let effect = match request {
            Request::Publish(Publish { publisher, seq, .. }) => {
                return out.receipts.push(publisher, seq, verdict, false);
            }
            Request::Attach(Attach { consumer, .. }) => {
                Effect::Refused { requester: Requester::Consumer(consumer), why }
            }
            Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
                Effect::Gone { consumer, reason }
            }
            Request::Settle { consumer, first, last, answer, .. } if answer != SettleAnswer::Never => {
                Effect::Settled { consumer, first, last, journaled: false }
            }
            Request::Report { ticket } => Effect::Report { ticket, report: Box::new(self.report()) },
            Request::Delete { ticket, .. } if end == End::Damaged => {
                return self.delete(DeletedReason::Requested, Some(ticket), out);
            }
            Request::Fetch { ticket, .. }
            | Request::Browse { ticket, .. }
            | Request::Purge { ticket }
            | Request::Delete { ticket, .. } => Effect::Refused { requester: Requester::Ticket(ticket), why },
            // Their senders were already sent `Gone`, or expect no answer.
            Request::Settle { .. }
            | Request::Grant { .. }
            | Request::Follow { .. }
            | Request::Close { .. }
            | Request::CancelBrowse { .. }
            | Request::Resume { .. }
            | Request::DeadLettered { .. }
            | Request::Use
            | Request::Configure(_) => {
                return;
            }
        };
        out.effects.push(effect);
    }
}

/// Offers a delivery to the caller. The delivery becomes an effect if other effects must come first, or if the caller
/// does not take it.
#[inline(always)]
fn offer(lent: DeliveryRef<'_>, out: &mut Output, deliver: &mut dyn Deliver) {
    if !out.effects.is_empty() || !deliver.deliver(lent) {
        out.effects.push(Effect::Delivery(lent.to_delivery()));
    }
}

/// Returns the delivery of a message that is about to be held for a consumer.
fn lend<'a>(consumer: &Consumer, entry: &'a Entry, acquired: &Acquired) -> DeliveryRef<'a> {
    let message = entry.message().expect("a head is in memory when it is taken");
    let Entry { seq, delivery_count, .. } = *entry;
    let acquired_count = acquired.count(entry);
    let number = consumer.unsettled.next_number();
    DeliveryRef { consumer: consumer.id, number, seq, message, delivery_count, acquired_count }
}
