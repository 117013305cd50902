//! The fifo machine: one queue whose messages each go to one consumer.

mod annotated;
mod chunks;
mod consumers;
mod dead_letter;
mod entry;
mod expire;
mod falls;
mod held;
mod journal;
mod level;
mod paging;
mod ready;
mod repeat;
mod restore;
mod runs;
mod settle;
mod uncommitted;
mod unsettled;

#[cfg(test)]
mod tests;

use message::Message;

use consumers::{Consumer, Consumers, Slot, Standing};
use dead_letter::Leaving;
pub use dead_letter::{DEAD_LETTER_RETRY_MS, LEAVING_MAX};
use entry::Entry;
pub use entry::stored_bytes;
use held::Held;
use journal::Journal;
use paging::{Fetch, Waiting, Writing};
use ready::Ready;
pub use restore::Restoring;
use uncommitted::Place;

use crate::{
    Asked, Attach, Brief, Capabilities, Carrier, Config, CreditState, DeletedReason, Deliver, Delivery,
    Effect, Fact, GoneReason, Lent, Load, Mode, Overflow, Publish, Put, Receipts, Refusal, RejectReason,
    Report, Request, Ticket, Verdict,
};

/// What a call had to say. Calls append; whoever carries it out empties it.
#[derive(Debug, Default)]
pub struct Output {
    pub receipts: Receipts,
    pub effects: Vec<Effect>,
    pub facts: Vec<Fact>,
    /// Blocks to be read and brought to [`Fifo::handle_loaded`].
    pub loads: Vec<Load>,
    /// Runs that may be forgotten as soon as the facts so far are safe.
    pub released: Vec<u32>,
}

/// One queue: ready messages, consumers with what they hold, and messages on their way out.
///
/// Between calls either nothing is ready that may be delivered, or nobody may be sent the next message.
pub struct Fifo {
    config: Config,
    next_seq: u64,
    ready: Ready,
    consumers: Consumers,
    leaving: Leaving,
    journal: Journal,
    /// What all consumers hold together.
    held: Held,
    /// Whether any message can die of age; spares the others the look at the head.
    ages: bool,
    /// When the queue was last used, in milliseconds since the epoch; unknown before the first call.
    used_ms: Option<u64>,
    end: Option<End>,
    counts: Counts,
    /// A run that is on its way to the disk. Boxed, for hardly a queue ever has one.
    writing: Option<Box<Writing>>,
    /// A block that is on its way from the disk.
    reading: Option<Load>,
    /// Who waits for a message to be read.
    waiting: Waiting,
    /// Empty between calls; keeps its memory.
    taken: Vec<Entry>,
}

/// Why the machine does nothing any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted,
    Damaged,
}

/// See [`Report`].
#[derive(Clone, Copy, Default)]
struct Counts {
    published: u64,
    delivered: u64,
    redelivered: u64,
    acknowledged: u64,
    expired: u64,
    dropped: u64,
    dead_lettered: u64,
}

impl Fifo {
    pub fn new(config: Config) -> Self {
        Self {
            next_seq: 1,
            ready: Ready::new(config.max_priority),
            consumers: Consumers::new(config.single_active_consumer),
            leaving: Leaving::default(),
            journal: Journal::default(),
            held: Held::default(),
            ages: config.message_ttl_ms.is_some(),
            used_ms: None,
            end: None,
            counts: Counts::default(),
            writing: None,
            reading: None,
            waiting: Waiting::default(),
            taken: Vec::new(),
            config,
        }
    }

    /// Applies a request. `now_ms` counts from the epoch and never goes back. The carrier gets each stored message at once,
    /// so the facts in `out` have no [`Fact::Put`]. It gets deliveries as long as `out` has no effect that they would
    /// overtake; a delivery that it does not take becomes an effect.
    pub fn apply(&mut self, request: Request, now_ms: u64, out: &mut Output, carrier: &mut dyn Carrier) {
        if let Some(end) = self.end {
            return self.apply_ended(end, request, out);
        }
        self.used_ms.get_or_insert(now_ms);
        self.expire(now_ms, out);
        match request {
            Request::Publish(publish) => self.publish(publish, now_ms, out, carrier),
            Request::Attach(attach) => self.attach(&attach, now_ms, out),
            Request::Cancel { consumer } => self.cancel(consumer, now_ms, out, carrier),
            Request::Detach { consumer, failed } => self.detach(consumer, failed, now_ms, out, carrier),
            Request::Grant { consumer, delivery_count, credit, drain, echo } => {
                if let Some(slot) = self.consumers.slot(consumer) {
                    self.consumers.get(slot).grant.replace(delivery_count, credit);
                    self.granted(slot, drain, echo, now_ms, out, carrier);
                }
            }
            Request::Fetch { ticket, holder, n, settled } => {
                self.used_ms = Some(now_ms);
                let known = self.consumers.slot(holder).is_some();
                let deliveries = Vec::new();
                self.fetch(Fetch { ticket, holder, known, n, settled, deliveries }, now_ms, out);
                // What has been fetched may have been too large for those who have credit.
                self.dispatch(now_ms, out, carrier);
            }
            Request::Settle { consumer, first, last, outcome, answer } => {
                if answer {
                    let journaled = self.journal.keeps();
                    out.effects.push(Effect::Settled { consumer, first, last, journaled });
                }
                self.settle(consumer, (first, last), outcome, now_ms, out, carrier);
            }
            Request::Browse { ticket, .. } => {
                let why = Refusal::NotSupported;
                out.effects.push(Effect::Refused { asked: Asked::Ticket(ticket), why });
            }
            // Nobody follows a queue that is read where it lives, and no look is under way.
            Request::Follow { .. } | Request::GiveUp { .. } => {}
            Request::DeadLettered { token, arrival } => {
                self.dead_lettered(token, arrival, now_ms, out, carrier);
            }
            Request::Use => self.used_ms = Some(now_ms),
            Request::Configure(config) => self.configure(*config, now_ms, out, carrier),
            Request::Purge { ticket } => {
                let messages = self.purge();
                out.effects.push(Effect::Done { ticket, messages, journaled: self.journal.keeps() });
                self.serve_fetches(now_ms, out);
                self.answer_waiting_grants(out);
            }
            Request::Delete { ticket, if_unused, if_empty } => {
                if if_unused && self.consumers.count() > 0 {
                    out.effects.push(Effect::Refused { asked: Asked::Ticket(ticket), why: Refusal::InUse });
                } else if if_empty && (!self.ready.is_empty() || self.journal.staged().0 > 0) {
                    out.effects
                        .push(Effect::Refused { asked: Asked::Ticket(ticket), why: Refusal::NotEmpty });
                } else {
                    self.delete(DeletedReason::Asked, Some(ticket), out);
                }
            }
            Request::Report { ticket } => {
                out.effects.push(Effect::Report { ticket, report: Box::new(self.report()) });
            }
        }
        if self.ages {
            // What has expired may have been too large for those who have credit.
            self.dispatch(now_ms, out, carrier);
        }
        self.journal.flush(out);
    }

    /// Ready and unsettled messages.
    #[inline]
    pub fn depth(&self) -> (u64, u64) {
        (self.ready.len(), self.held.messages())
    }

    /// What the machine knows of itself.
    pub fn report(&self) -> Report {
        let (ready, unsettled) = self.depth();
        Report {
            ready,
            unsettled,
            leaving: self.leaving.len() as u64,
            staged: self.journal.staged().0,
            ready_bytes: self.ready.bytes(),
            unsettled_bytes: self.held.bytes(),
            consumers: self.consumers.count() as u32,
            damaged: self.is_damaged(),
            reading: self.reading.is_some() && self.ready.missing().is_some(),
            next_bytes: self.next_bytes(),
            active_consumer: self.consumers.active().map(|id| id.0),
            published: self.counts.published,
            delivered: self.counts.delivered,
            redelivered: self.counts.redelivered,
            acknowledged: self.counts.acknowledged,
            expired: self.counts.expired,
            dropped: self.counts.dropped,
            dead_lettered: self.counts.dead_lettered,
            annotations_refused: self.journal.annotated.refused(),
            stream: None,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The seq of the next message to be published.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    fn publish(&mut self, publish: Publish, now_ms: u64, out: &mut Output, carrier: &mut dyn Carrier) {
        let Publish { publisher, seq: number, message, patient } = publish;
        if self.config.overflow != Overflow::DropHead && self.overflows(1, message.len()) {
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
        if self.journal.can_fall() {
            out.receipts.push(publisher, number, Verdict::Accepted, true);
            return self.stage(message, seq, now_ms, out, carrier);
        }
        let direct = self.direct(&message);
        // What is settled as it is sent need never be restored.
        let journaled = self.journal.policy.needs_fact(&message)
            && !direct.is_some_and(|slot| self.consumers.get(slot).settled);
        let is_brief = patient && self.consumers.count() > 0;
        let brief = is_brief.then(|| {
            let (ahead, acknowledged) = (self.ready.len(), self.counts.acknowledged);
            Brief { publisher, number, ahead, acknowledged }
        });
        let is_owed = journaled && carrier.put(Put { seq, message: &message, at_ms: now_ms, brief });
        if !is_owed {
            out.receipts.push(publisher, number, Verdict::Accepted, journaled);
        }
        let entry = Entry { journaled, ..Entry::new(message, seq, now_ms) };
        if journaled {
            self.journal.put(&entry);
        }
        self.enter(direct, entry, now_ms, out, carrier);
    }

    /// Who gets a new message at once.
    #[inline(always)]
    fn direct(&self, message: &Message) -> Option<Slot> {
        let first = if self.ready.is_empty() { self.consumers.next() } else { None };
        let fits = |max_bytes| message.fits(max_bytes, message.delivery_count(), false);
        first.and_then(|first| self.consumers.next_for(first, fits))
    }

    /// A new message may be delivered from now on.
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
                // Something is ready already or nobody has credit; yet a head that may not be delivered
                // can have been overtaken by a higher level.
                self.ready.push(entry);
                self.shed(now_ms, out);
                self.dispatch(now_ms, out, deliver);
            }
        }
    }

    fn attach(&mut self, attach: &Attach, now_ms: u64, out: &mut Output) {
        let consumer = attach.consumer;
        let refused = |why| Effect::Refused { asked: Asked::Consumer(consumer), why };
        self.used_ms = Some(now_ms);
        if !matches!(attach.mode, Mode::Take) {
            return out.effects.push(refused(Refusal::NotSupported));
        }
        if self.consumers.slot(consumer).is_some() {
            return out.effects.push(refused(Refusal::InUse));
        }
        let Ok(slot) = self.consumers.attach(attach) else {
            return out.effects.push(refused(Refusal::ExclusiveConsumer));
        };
        let capabilities = Capabilities { moves: true };
        out.effects.push(Effect::Attached { consumer, capabilities });
        if self.config.single_active_consumer {
            self.tell_active(slot, out);
        }
    }

    /// Whether it is the active one, now that this has become known or has changed.
    fn tell_active(&mut self, slot: Slot, out: &mut Output) {
        let available = self.available(slot);
        let consumer = self.consumers.get(slot);
        let active = consumer.standing == Standing::Serving;
        out.effects.push(Effect::Active { consumer: consumer.id, active, available });
    }

    /// Ready messages, as far as they are for this consumer.
    fn available(&mut self, slot: Slot) -> u32 {
        match self.consumers.get(slot).standing {
            Standing::Serving => u32::try_from(self.ready.len()).unwrap_or(u32::MAX),
            Standing::Waiting | Standing::Holding => 0,
        }
    }

    /// Its grant has been replaced: uses it, and answers if asked.
    fn granted(
        &mut self,
        slot: Slot,
        drain: bool,
        echo: bool,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        // Nothing will come: what is not asked to be drained is void.
        if self.consumers.get(slot).standing == Standing::Holding && !drain {
            self.consumers.get(slot).grant.credit = 0;
        }
        self.consumers.regrant(slot);
        self.dispatch(now_ms, out, deliver);
        if drain || echo {
            self.answer_grant(slot, drain, out);
        }
    }

    /// Ends a drain, and says what credit is left: behind what must be read first.
    fn answer_grant(&mut self, slot: Slot, drain: bool, out: &mut Output) {
        if self.waits(slot) {
            let consumer = self.consumers.get(slot).id;
            self.waiting.grants.push((consumer, drain));
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

    /// Heads to consumers, as long as there are both.
    fn dispatch(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        let anyone_waits = !self.waiting.is_empty();
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

    /// Whether a delivery of the next message takes so many bytes at most.
    fn next_fits(&self, max_bytes: u64) -> bool {
        let Some(entry) = self.ready.next() else { return false };
        match self.journal.shown(entry) {
            Some(message) => message.fits(max_bytes, entry.delivery_count, entry.redelivered),
            None => entry.fits(max_bytes),
        }
    }

    /// Bytes of a delivery of the next message, if that is in memory.
    fn next_bytes(&self) -> Option<u64> {
        let entry = self.ready.next()?;
        match self.journal.shown(entry) {
            Some(message) => Some(message.delivery_bytes(entry.delivery_count, entry.redelivered)),
            None => entry.delivery_bytes(),
        }
    }

    fn deliver_heads(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        while let Some(first) = self.consumers.next()
            && let Some(level) = self.next_level(now_ms, out)
            && let Some(slot) = self.consumers.next_for(first, |max_bytes| self.next_fits(max_bytes))
            && let Some(entry) = self.ready.pop(level)
        {
            self.deliver(slot, entry, out, deliver);
        }
        // The last delivery may have left an expired head, which nobody should count as ready.
        self.expire(now_ms, out);
    }

    #[inline(always)]
    fn deliver(&mut self, slot: Slot, entry: Entry, out: &mut Output, deliver: &mut dyn Deliver) {
        let consumer = self.consumers.get(slot);
        consumer.grant.spend();
        let settled = consumer.settled;
        let lent = lend(consumer, &entry);
        if self.journal.annotated.is_empty() {
            offer(lent, out, deliver);
        } else {
            self.offer_annotated(lent, out, deliver);
        }
        self.hold(slot, entry, settled);
        self.consumers.turn(slot);
    }

    /// As [`offer`], with the annotations that consumers have set.
    #[cold]
    fn offer_annotated(&self, lent: Lent<'_>, out: &mut Output, deliver: &mut dyn Deliver) {
        match self.journal.annotated.shown(lent.seq, lent.message) {
            Some(message) => offer(Lent { message: &message, ..lent }, out, deliver),
            None => offer(lent, out, deliver),
        }
    }

    /// What is delivered is the consumer's, unless it is settled as it is sent.
    #[inline(always)]
    fn hold(&mut self, slot: Slot, mut entry: Entry, settled: bool) {
        let consumer = self.consumers.get(slot);
        self.counts.delivered += 1;
        self.counts.redelivered += u64::from(entry.redelivered);
        if settled {
            self.counts.acknowledged += 1;
            consumer.unsettled.skip();
            self.journal.leave(entry, Place::Ready);
        } else {
            self.held.add(&entry);
            entry.forget_body();
            consumer.unsettled.push(entry);
        }
    }

    fn fetch(&mut self, mut fetch: Fetch, now_ms: u64, out: &mut Output) {
        let Fetch { ticket, holder, known, n, settled, .. } = fetch;
        let slot = self.consumers.hold(holder);
        while fetch.deliveries.len() < n as usize
            && let Some(entry) = self.take_head(now_ms, out)
        {
            let delivery = lend(self.consumers.get(slot), &entry).to_delivery();
            let message = self.journal.shown(&entry).unwrap_or(delivery.message);
            fetch.deliveries.push(Delivery { message, ..delivery });
            self.hold(slot, entry, settled);
        }
        self.expire(now_ms, out);
        if fetch.deliveries.len() < n as usize && self.ready.missing().is_some() {
            self.waiting.fetches.push_back(fetch);
            return;
        }
        // Who holds nothing need not detach.
        if !known && (settled || fetch.deliveries.is_empty()) {
            self.consumers.remove(slot);
        }
        let ready = self.ready.len();
        out.effects.push(Effect::Fetched { ticket, deliveries: fetch.deliveries, ready });
    }

    fn configure(&mut self, config: Config, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        self.used_ms = Some(now_ms);
        self.ages |= config.message_ttl_ms.is_some();
        // How many levels there are is settled when the queue is declared.
        self.config = Config { max_priority: self.config.max_priority, ..config };
        for slot in self.consumers.set_single_active(self.config.single_active_consumer) {
            self.tell_active(slot, out);
        }
        self.make_room(now_ms, out, deliver);
    }

    fn purge(&mut self) -> u64 {
        let messages = self.ready.len();
        let (entries, rests) = self.ready.drain();
        entries.into_iter().for_each(|entry| self.journal.leave(entry, Place::Ready));
        rests.iter().for_each(|rest| self.journal.runs.take_rest(rest.load.run, rest.index));
        messages
    }

    /// Says no facts: whoever forgets the queue forgets its facts with it.
    fn delete(&mut self, reason: DeletedReason, ticket: Option<Ticket>, out: &mut Output) {
        let messages = self.ready.len();
        self.end_with(End::Deleted, out);
        out.effects.extend(ticket.map(|ticket| Effect::Done { ticket, messages, journaled: false }));
        out.effects.push(Effect::Deleted { reason });
    }

    /// Its messages cannot be read any more: nobody gets any, and nothing is possible but its deletion. What is left
    /// of them is kept until then.
    pub fn quarantine(&mut self, out: &mut Output) {
        if self.end.is_some() {
            return;
        }
        let mut held = self.consumers.take_held();
        while let Some(entry) = held.pop() {
            self.ready.put_back(entry);
        }
        self.journal.repeat_from_first();
        self.end_with(End::Damaged, out);
        self.journal.flush(out);
        out.facts.push(Fact::Damaged);
    }

    /// Whether [`Fifo::quarantine`] has been called, in this life or an earlier one.
    pub fn is_damaged(&self) -> bool {
        self.end == Some(End::Damaged)
    }

    fn end_with(&mut self, end: End, out: &mut Output) {
        let (reason, why) = match end {
            End::Deleted => (GoneReason::QueueDeleted, Refusal::NotFound),
            End::Damaged => (GoneReason::Damaged, Refusal::Damaged),
        };
        let consumers = self.consumers.clear();
        out.effects.extend(consumers.into_iter().map(|consumer| Effect::Gone { consumer, reason }));
        for Fetch { ticket, .. } in std::mem::take(&mut self.waiting).fetches {
            out.effects.push(Effect::Refused { asked: Asked::Ticket(ticket), why });
        }
        self.end = Some(end);
        if end == End::Deleted {
            self.ready = Ready::new(None);
            self.leaving = Leaving::default();
        }
        self.held = Held::default();
        if let Some(all) = &mut self.journal.uncommitted {
            all.clear();
        }
    }

    /// The queue has ended: answers whoever waits for an answer.
    fn apply_ended(&mut self, end: End, request: Request, out: &mut Output) {
        let (verdict, reason, why) = match end {
            End::Deleted => (Verdict::Released, GoneReason::QueueDeleted, Refusal::NotFound),
            End::Damaged => (Verdict::Rejected(RejectReason::Damaged), GoneReason::Damaged, Refusal::Damaged),
        };
        let effect = match request {
            Request::Publish(Publish { publisher, seq, .. }) => {
                return out.receipts.push(publisher, seq, verdict, false);
            }
            Request::Attach(Attach { consumer, .. }) => {
                Effect::Refused { asked: Asked::Consumer(consumer), why }
            }
            Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
                Effect::Gone { consumer, reason }
            }
            Request::Settle { consumer, first, last, answer: true, .. } => {
                Effect::Settled { consumer, first, last, journaled: false }
            }
            Request::Report { ticket } => Effect::Report { ticket, report: Box::new(self.report()) },
            Request::Delete { ticket, .. } if end == End::Damaged => {
                return self.delete(DeletedReason::Asked, Some(ticket), out);
            }
            Request::Fetch { ticket, .. }
            | Request::Browse { ticket, .. }
            | Request::Purge { ticket }
            | Request::Delete { ticket, .. } => Effect::Refused { asked: Asked::Ticket(ticket), why },
            // Whoever sent these has been told Gone, or waits for nothing.
            Request::Settle { .. }
            | Request::Grant { .. }
            | Request::Follow { .. }
            | Request::GiveUp { .. }
            | Request::DeadLettered { .. }
            | Request::Use
            | Request::Configure(_) => {
                return;
            }
        };
        out.effects.push(effect);
    }
}

/// Lends a delivery to the caller, or makes it an effect if it must not overtake others or is not taken.
#[inline(always)]
fn offer(lent: Lent<'_>, out: &mut Output, deliver: &mut dyn Deliver) {
    if !out.effects.is_empty() || !deliver.deliver(lent) {
        out.effects.push(Effect::Delivery(lent.to_delivery()));
    }
}

/// What goes to a consumer and is about to be held for it.
fn lend<'a>(consumer: &Consumer, entry: &'a Entry) -> Lent<'a> {
    let message = entry.message().expect("heads are taken in memory");
    let Entry { seq, delivery_count, redelivered, .. } = *entry;
    let number = consumer.unsettled.next_number();
    Lent { consumer: consumer.id, number, seq, message, delivery_count, redelivered }
}
