//! Queues on their shard: requests in, effects carried out, facts to the log.

use std::{iter, vec};

use broker::catalog::Command;
use broker::dead_letter;
use broker::ids::{QueueId, ShardId, shard_of};
use broker::mail::{DeadLetterWait, Mail, PublisherAddress, Recipient, TicketOwner, recipient};
use hashbrown::HashSet;
use queue::{
    Arrival, Asked, ConsumerId, Effect, Fifo, GoneReason, Kept as KeptOfStream, News, Publish, PublisherId,
    Put, Refusal, RejectReason, Request, Verdict,
};

use super::pages::Reading;
use super::receipts::{Receipt, push_receipt};
use super::slot::{Kept, QueueSlot, find};
use super::streams::is_of_readers;
use super::{Cx, Forgetting, Shard, deliver, with_gate};
use crate::facts::RestoredQueue;

/// Requests of one queue that are applied in a row, before others have their turn: what the machine has to say of them stays
/// in the nearest caches.
pub(super) const RUN_MAX: usize = 64;

/// Requests that were sent together. Each is taken out where it is used, for it is large.
pub(super) type Requests<'a> = vec::Drain<'a, (QueueId, Request)>;

/// What comes next and is for this queue.
fn run(queue: QueueId, requests: &mut Requests<'_>) -> impl Iterator<Item = Request> {
    let next = move || match requests.as_slice().first() {
        Some((next, _)) if *next == queue => requests.next().map(|(_, request)| request),
        _ => None,
    };
    iter::from_fn(next).take(RUN_MAX)
}

/// Whether a queue has decided its own end: nothing follows that.
pub(super) fn ends(effects: &[Effect]) -> bool {
    matches!(effects.last(), Some(Effect::Deleted { .. }))
}

impl Shard {
    /// Makes the machine of a queue that has its home here.
    pub fn place_queue(&mut self, id: QueueId, restored: RestoredQueue) {
        let Some(record) = self.catalog.queue_by_id(id) else { return };
        let config = (*record.config).clone();
        if record.is_stream() {
            self.place_stream(id, config);
            return;
        }
        let (facts, places, mut extents) = restored.into_parts();
        let fifo = Fifo::restore(config, facts, self.now_ms);
        // A run of which nothing is alive was taken to its end, and the log knew.
        let known: HashSet<u32> = fifo.runs().collect();
        for (_, (extent, _)) in extents.extract_if(.., |run, _| !known.contains(run)) {
            self.pages.release(extent);
        }
        let extents =
            extents.into_iter().map(|(run, (extent, file))| (run, Kept { extent, file: Some(file) }));
        let slot = QueueSlot {
            id,
            logged: record.durable && record.exclusive.is_none(),
            fsync: record.fsync,
            places,
            extents: extents.collect(),
            pageable: fifo.pageable_bytes(),
            live_counted: 0,
            fifo,
            gone: None,
            taken: None,
            unwritten: Default::default(),
        };
        self.pages.recount(0, slot.pageable);
        let slot = QueueSlot { live_counted: slot.live_bytes(), ..slot };
        self.live_bytes += slot.live_counted;
        let at = id.slot();
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, || None);
        }
        self.next_queue_due = slot.fifo.next_deadline().into_iter().chain(self.next_queue_due).min();
        self.queues[at] = Some(Box::new(slot));
    }

    /// Takes what was posted to the shards of the queues; a request for a queue without a home asks for this shard first.
    pub(super) fn sort_requests(&mut self) {
        let mut requests = std::mem::replace(&mut self.post.requests, std::mem::take(&mut self.requests));
        let mut rest = requests.drain(..);
        while let Some(&(queue, ref request)) = rest.as_slice().first() {
            let record = self.catalog.queue_by_id(queue);
            let here = record.is_some_and(|record| record.is_stream() && is_of_readers(request));
            let home = if here { Some(self.id) } else { record.and_then(|record| record.home) };
            if home == Some(self.id) {
                self.apply(queue, &mut rest);
                continue;
            }
            let is_known = record.is_some();
            let Some((_, request)) = rest.next() else { break };
            match home {
                Some(home) => self.send_request(home, queue, request),
                None if !is_known => self.refuse_request(queue, request),
                None => {
                    let waiting = self.homeless.entry(queue).or_default();
                    waiting.push(request);
                    if waiting.len() == 1 {
                        self.post.propose(None, Command::PlaceQueue { queue, home: self.id });
                    }
                }
            }
        }
        drop(rest);
        self.requests = requests;
    }

    fn send_request(&mut self, to: ShardId, queue: QueueId, request: Request) {
        match self.outboxes.get_mut(usize::from(to)).and_then(|outbox| outbox.last_mut()) {
            Some(Mail::Requests(requests)) => requests.push((queue, request)),
            _ => self.send(to, Mail::Requests(vec![(queue, request)])),
        }
    }

    /// The queue has got its home.
    pub(super) fn queue_placed(&mut self, queue: QueueId, home: u8) {
        if home == self.id {
            self.place_queue(queue, RestoredQueue::default());
        }
        for request in self.homeless.remove(&queue).into_iter().flatten() {
            if home == self.id {
                // At once: what has come meanwhile, and stands in the same mail, is of a later time.
                self.apply_one(queue, request);
            } else {
                self.send_request(home, queue, request);
            }
        }
    }

    /// Policies have changed: every queue of this shard whose settings are others now is told so. At once, for a
    /// second change may come before the first would have been through the mail.
    pub(super) fn reconfigure(&mut self) {
        let mut changed = Vec::new();
        for slot in self.queues.iter_mut().flatten() {
            let Some(record) = self.catalog.queue_by_id(slot.id) else { continue };
            slot.fsync = record.fsync;
            if *record.config != *slot.fifo.config() {
                changed.push((slot.id, Box::new((*record.config).clone())));
            }
        }
        for (queue, config) in changed {
            self.apply_one(queue, Request::Configure(config));
        }
        self.reconfigure_streams();
    }

    /// The queue is gone from the catalog.
    pub(super) fn queue_forgotten(&mut self, queue: QueueId, name: &str) {
        if let Some(slot) = self.queues.get_mut(queue.slot())
            && let Some(mut gone) = slot.take_if(|s| s.id == queue)
        {
            self.unwritten.release(&mut gone, &mut self.receipts);
            self.pages.recount(gone.pageable, 0);
            self.live_bytes -= gone.live_counted;
            self.counters.queues_deleted += 1;
            self.send_receipts();
        }
        self.stream_forgotten(queue);
        for request in self.homeless.remove(&queue).into_iter().flatten() {
            self.refuse_request(queue, request);
        }
        for publisher in self.watchers.remove(&queue).into_iter().flatten() {
            if let Some(PublisherAddress::Link(to)) = self.publishers.get(publisher).copied() {
                with_gate!(self, to.connection, |gate, cx| gate.handle_target_gone(to, name, cx));
            }
        }
    }

    /// Answers a request for a queue that is no more, as the queue would.
    fn refuse_request(&mut self, queue: QueueId, request: Request) {
        let effect = match request {
            Request::Publish(Publish { publisher, seq, .. }) => {
                let verdict = Verdict::Released;
                push_receipt(
                    &mut self.receipts,
                    Receipt { queue, publisher, first: seq, last: seq, verdict },
                );
                self.send_receipts();
                return;
            }
            Request::Attach(attach) => {
                Effect::Refused { asked: Asked::Consumer(attach.consumer), why: Refusal::NotFound }
            }
            Request::Fetch { ticket, .. }
            | Request::Browse { ticket, .. }
            | Request::Purge { ticket }
            | Request::Delete { ticket, .. }
            | Request::Report { ticket } => {
                Effect::Refused { asked: Asked::Ticket(ticket), why: Refusal::NotFound }
            }
            Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
                Effect::Gone { consumer, reason: GoneReason::QueueDeleted }
            }
            Request::Follow { follower, .. } => {
                let end = Some(GoneReason::QueueDeleted);
                let news = Box::new(News { kept: KeptOfStream::default(), chunks: Vec::new(), end });
                Effect::News { follower, news }
            }
            Request::Grant { .. }
            | Request::Settle { .. }
            | Request::GiveUp { .. }
            | Request::DeadLettered { .. }
            | Request::Use
            | Request::Configure(_) => return,
        };
        self.carry_out(queue, effect);
    }

    pub(super) fn handle_one(&mut self, mail: Mail) {
        match mail {
            Mail::Requests(mut requests) => {
                let mut rest = requests.drain(..);
                while let Some(&(queue, _)) = rest.as_slice().first() {
                    self.apply(queue, &mut rest);
                }
            }
            Mail::Direct { to, vhost, request } => self.handle_direct(to, &vhost, request),
            Mail::Effect { queue, effect } => self.handle_effect(queue, effect),
            Mail::Receipts { queue, publisher, first, last, verdict } => {
                self.handle_receipt(Receipt { queue, publisher, first, last, verdict });
            }
            Mail::Propose { ticket, from, command } => self.handle_proposal(ticket, from, command),
            Mail::Changes { version, changes } => self.handle_changes(version, &changes),
            Mail::Applied { version, by } => self.handle_applied(version, by),
            Mail::Remember { exchange, messages } => self.handle_remember(&exchange, &messages),
            Mail::ShedUnfinished => _ = self.shed_unfinished(),
            Mail::Answer { ticket, result } => self.handle_answer(ticket, result),
            Mail::LogFull { bytes, oldest, newest, short } => {
                self.handle_log_full(bytes, oldest, newest, short);
            }
            Mail::Evacuate { file } => self.handle_evacuate(file),
            Mail::Evacuated { file, bytes } => self.handle_evacuated(file, bytes),
        }
    }

    fn apply_one(&mut self, queue: QueueId, request: Request) {
        self.apply(queue, &mut vec![(queue, request)].drain(..));
    }

    /// Applies the first request, which is for this queue, and those that come next and are for it, too.
    fn apply(&mut self, queue: QueueId, requests: &mut Requests<'_>) {
        let (log_refuses, memory_is_full) = (self.log_refuses(), self.pages.is_stuck(!self.log_short));
        let slot = find(&mut self.queues, queue);
        let Some(slot) = slot else {
            if self.apply_to_stream(queue, requests) {
                return;
            }
            let Some((_, request)) = requests.next() else { return };
            // Another shard may know of the queue, or of its home, earlier than this one.
            let known = self.catalog.queue_by_id(queue);
            let early = known.map_or(self.catalog.is_to_come(queue), |record| record.home != Some(self.id));
            match early {
                true => self.homeless.entry(queue).or_default().push(request),
                false => self.refuse_request(queue, request),
            }
            return;
        };
        let mut output = std::mem::take(&mut self.output);
        // A broken log takes nothing new, nor does a full disk, nor memory that cannot be emptied: what is not applied yet is
        // refused (house.md section 5).
        let log_refuses = log_refuses && slot.logged;
        let (journal, unwritten) = (&mut self.journal, &mut self.unwritten);
        let (kept, logged, fsync) = (&mut slot.unwritten, slot.logged, slot.fsync);
        let mut put = |put: Put<'_>| {
            let is_kept = logged && !fsync && unwritten.keep(queue, kept, put);
            if logged && !is_kept {
                journal.push_put(queue, put, fsync);
            }
            is_kept
        };
        let mut deliver = deliver!(self);
        for request in run(queue, requests) {
            if (memory_is_full || log_refuses)
                && let Request::Publish(Publish { publisher, seq, message, .. }) = &request
                && (memory_is_full || message.is_durable())
            {
                let verdict = Verdict::Rejected(RejectReason::Unavailable);
                let receipt = Receipt { queue, publisher: *publisher, first: *seq, last: *seq, verdict };
                push_receipt(&mut self.receipts, receipt);
                continue;
            }
            slot.fifo.apply(request, self.now_ms, &mut output, &mut put, &mut deliver);
            // Nothing is lent while it would overtake what is to be told. Deliveries are there for other shards.
            if !matches!(output.effects.last(), None | Some(Effect::Delivery(_))) {
                break;
            }
        }
        self.take_output(queue, &mut output);
        self.output = output;
    }

    pub(super) fn queue_timeouts(&mut self) {
        if self.next_queue_due.is_none_or(|due| due > self.now_ms) {
            return;
        }
        self.next_queue_due = None;
        for at in 0..self.queues.len() {
            let Some(Some(slot)) = self.queues.get_mut(at) else { continue };
            if slot.fifo.next_deadline().is_some_and(|due| due <= self.now_ms) {
                let (id, mut output) = (slot.id, std::mem::take(&mut self.output));
                slot.fifo.handle_timeout(self.now_ms, &mut output, &mut deliver!(self));
                self.take_output(id, &mut output);
                self.output = output;
            } else {
                self.next_queue_due = slot.fifo.next_deadline().into_iter().chain(self.next_queue_due).min();
            }
        }
        self.send_receipts();
    }

    /// Nothing of a queue's is due before this time.
    pub fn next_queue_due(&self) -> Option<u64> {
        self.next_queue_due
    }

    /// The numbers of a queue that lives here.
    pub fn queue_report(&self, queue: QueueId) -> Option<queue::Report> {
        let slot = self.queues.get(queue.slot()).and_then(Option::as_ref).filter(|s| s.id == queue);
        slot.map(|slot| slot.fifo.report()).or_else(|| self.stream_report(queue))
    }

    /// Facts to the log, effects to whom they concern.
    pub(super) fn take_output(&mut self, queue: QueueId, output: &mut queue::Output) {
        if !output.facts.is_empty() {
            self.log_facts(queue, &output.facts);
            output.facts.clear();
        }
        let Some(Some(slot)) = self.queues.get_mut(queue.slot()) else { return };
        for load in output.loads.drain(..) {
            if let Some(kept) = slot.extents.get(&load.run) {
                let reading = Reading { queue, load, extent: kept.extent, copied: false };
                self.pages.read(u32::from(self.id), reading);
            }
        }
        for run in output.released.drain(..) {
            match slot.extents.remove(&run) {
                Some(kept) if slot.logged => self.journal.release(kept.extent),
                Some(kept) => self.pages.release(kept.extent),
                None => {}
            }
        }
        let pageable = slot.fifo.pageable_bytes();
        self.pages.recount(slot.pageable, pageable);
        slot.pageable = pageable;
        slot.recount_live(&mut self.live_bytes);
        let (logged, fsync) = (slot.logged, slot.fsync);
        self.next_queue_due = slot.fifo.next_deadline().into_iter().chain(self.next_queue_due).min();
        let ends = ends(&output.effects);
        if ends {
            self.unwritten.release(slot, &mut self.receipts);
        }
        for receipt in output.receipts.drain() {
            let queue::Receipt { publisher, first, last, verdict, journaled } = receipt;
            let receipt = Receipt { queue, publisher, first, last, verdict };
            // What has ended is not restored.
            match journaled && logged && !ends {
                true => self.journal.hold(receipt, fsync),
                false => push_receipt(&mut self.receipts, receipt),
            }
        }
        match ends {
            true => self.delete(queue, &mut output.effects),
            false => self.carry_out_all(queue, &mut output.effects),
        }
    }

    /// The queue has decided its end: the catalog forgets it, and only then is the asker told.
    pub(super) fn delete(&mut self, queue: QueueId, effects: &mut Vec<Effect>) {
        let mut told_later = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                Effect::Deleted { .. } => {}
                effect @ Effect::Done { .. } => told_later.push(Mail::Effect { queue, effect }),
                effect => self.carry_out(queue, effect),
            }
        }
        let slot = self.queues.get_mut(queue.slot()).and_then(Option::as_mut);
        let extents = slot.map(|slot| std::mem::take(&mut slot.extents)).unwrap_or_default();
        let extents = extents.into_values().map(|kept| kept.extent).collect();
        if let Some(ticket) = self.tickets.insert(TicketOwner::Shard) {
            self.forgetting.insert(ticket, Forgetting { told_later, extents });
            self.post.propose(Some(queue::Ticket(ticket)), Command::ForgetQueue { queue });
        }
    }

    /// Takes effects to whom they concern, those in a row for one consumer of this shard together.
    pub(super) fn carry_out_all(&mut self, queue: QueueId, effects: &mut Vec<Effect>) {
        let mut rest = effects.drain(..);
        while let Some(effect) = rest.next() {
            match recipient(&effect) {
                Recipient::Consumer(consumer) if shard_of(consumer.0) == self.id => {
                    self.tell_consumer(consumer, effect, &mut rest);
                }
                _ => self.carry_out(queue, effect),
            }
        }
    }

    /// Tells a consumer of this shard an effect, and those of the `rest` that come next and are for it.
    fn tell_consumer(&mut self, consumer: ConsumerId, effect: Effect, rest: &mut vec::Drain<'_, Effect>) {
        let Some(to) = self.consumers.get(consumer.0).copied() else {
            // Its Detach, which is on its way, requeues.
            tracing::trace!(?consumer, "late mail");
            return;
        };
        with_gate!(self, to.connection, |gate, cx| {
            gate.handle_effect(to, effect, cx);
            // One effect may be the end of the consumer.
            while cx.consumers.get(consumer.0).is_some()
                && rest
                    .as_slice()
                    .first()
                    .is_some_and(|next| recipient(next) == Recipient::Consumer(consumer))
                && let Some(effect) = rest.next()
            {
                gate.handle_effect(to, effect, cx);
            }
        });
    }

    /// Takes an effect to whom it concerns.
    pub(super) fn carry_out(&mut self, queue: QueueId, effect: Effect) {
        let to = match recipient(&effect) {
            Recipient::Consumer(consumer) => shard_of(consumer.0),
            Recipient::Ticket(ticket) => shard_of(ticket.0),
            Recipient::Readers(shard) => shard,
            Recipient::Home => self.id,
        };
        if to == self.id {
            self.handle_effect(queue, effect);
        } else {
            self.send(to, Mail::Effect { queue, effect });
        }
    }

    pub(super) fn handle_effect(&mut self, queue: QueueId, effect: Effect) {
        match recipient(&effect) {
            Recipient::Consumer(consumer) => {
                self.tell_consumer(consumer, effect, &mut Vec::new().drain(..));
            }
            Recipient::Ticket(ticket) => match self.tickets.get(ticket.0).copied() {
                Some(TicketOwner::Connection(key)) => {
                    with_gate!(self, key, |gate, cx| gate.handle_ticket(ticket, effect, cx));
                    self.tickets.remove(ticket.0);
                }
                Some(TicketOwner::Desk) => self.desk_effect(ticket, effect),
                Some(TicketOwner::Shard) => drop(self.tickets.remove(ticket.0)),
                None => {}
            },
            Recipient::Readers(_) => {
                if let Effect::News { news, .. } = effect {
                    self.handle_news(queue, *news);
                }
            }
            Recipient::Home => {
                if let Effect::DeadLetter { token, message, exchange, key, reason } = effect {
                    match reason {
                        message::DeathReason::Expired => self.counters.dead_lettered_expired += 1,
                        message::DeathReason::Rejected => self.counters.dead_lettered_rejected += 1,
                        message::DeathReason::MaxLength => self.counters.dead_lettered_maxlen += 1,
                        message::DeathReason::DeliveryLimit => {}
                    }
                    let Some(record) = self.catalog.queue_by_id(queue).cloned() else { return };
                    let random = self.draw();
                    let vhost = &record.vhost;
                    let (message, routed) =
                        dead_letter::route(&self.catalog, vhost, message, &exchange, key.as_ref(), random);
                    routed.histories.iter().for_each(|x| self.post.remember(x, message.clone()));
                    let targets = routed.targets;
                    let left = targets.len() as u32;
                    let wait = DeadLetterWait { queue, token, left, accepted: false, unavailable: false };
                    let publisher = match targets.len() {
                        0 => None,
                        _ => self.publishers.insert(PublisherAddress::DeadLetter(wait)),
                    };
                    let Some(publisher) = publisher.map(PublisherId) else {
                        self.post.request(queue, Request::DeadLettered { token, arrival: Arrival::Refused });
                        return;
                    };
                    for target in targets {
                        let publish = Publish { publisher, seq: 0, message: message.clone(), patient: false };
                        self.post.publish(vhost, target, publish);
                    }
                }
            }
        }
    }
}
