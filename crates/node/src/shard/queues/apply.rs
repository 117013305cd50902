//! Applies requests to the machines of queues.

use std::{iter, vec};

use broker::ids::{NODE_SHARD, Where};
use broker::mail::Mail;
use catalog::Command;
use catalog::ids::QueueId;
use hashbrown::HashSet;
use queue::{
    Admission, Awaits, Carrier, Deliver, DeliveryRef, Depth, Drive, Driver, Effect, FactTo, GoneReason,
    Health, Publish, Put, Refusal, RejectReason, Request, Requester, Retained, SettleAnswer, StreamUpdate,
    Verdict, ends,
};

use crate::facts::{RestoredParts, RestoredQueue};
use crate::shard::connections::Gates;
use crate::shard::groups::{GroupId, Hosted};
use crate::shard::receipts::Receipt;
use crate::shard::requests::{RUN_MAX, Requests, is_for_readers};
use crate::shard::slot::{QueueSlot, RunPlace};
use crate::shard::storage::{Purpose, Reading, Storage};
use crate::shard::{Mutation, Shard};

/// Takes the next requests while they are for this queue, at most [`RUN_MAX`].
fn run(queue: QueueId, requests: &mut Requests<'_>) -> impl Iterator<Item = Request> {
    let next = move || match requests.as_slice().first() {
        Some((next, _)) if *next == queue => requests.next().map(|(_, request)| request),
        _ => None,
    };
    iter::from_fn(next).take(RUN_MAX)
}

/// The refusal of a queue that is on no node in reach.
const OUT_OF_REACH: Refusal = Refusal::OutOfReach { node: None };

/// The destination of what a machine emits: deliveries go to the gates, stored messages to the log.
struct Upward<'a> {
    gates: Gates<'a>,
    storage: &'a mut Storage,
    queue: QueueId,
    driver: &'a mut Driver,
    group: &'a mut Option<Box<Hosted>>,
    now_ms: u64,
    /// See [`QueueSlot::defers`].
    defers: &'a mut bool,
}

impl Deliver for Upward<'_> {
    #[inline]
    fn deliver(&mut self, lent: DeliveryRef<'_>) -> bool {
        self.gates.deliver(lent)
    }
}

impl Carrier for Upward<'_> {
    #[inline]
    fn put(&mut self, put: Put<'_>) -> bool {
        match self.driver.put(put, self.storage.room_to_defer()) {
            FactTo::Nowhere => false,
            FactTo::Deferred { bytes } => {
                self.storage.note_deferred(self.queue, self.defers, bytes, put.at_ms);
                true
            }
            FactTo::Log { fsync } => {
                self.storage.put(self.queue, put, fsync);
                false
            }
            FactTo::Entry => {
                self.group.iter_mut().for_each(|group| group.open.put(put, self.now_ms));
                false
            }
        }
    }
}

impl Shard {
    /// Makes the machine of a queue whose home is this shard.
    pub fn place_queue(&mut self, id: QueueId, restored: RestoredQueue) {
        let Some(record) = self.metadata.catalog().queue_by_id(id) else { return };
        let config = record.config.clone();
        if record.is_stream() {
            self.place_stream(id, (*config).clone());
            return;
        }
        let RestoredParts { facts, places, mut extents, group } = restored.into_parts();
        let is_quorum = record.is_quorum();
        let mut driver = match is_quorum {
            true => Driver::replicated(),
            false => Driver::classic(record.outlives_restart(), record.fsync),
        };
        let fifo = driver.restore(config, facts, self.here.now_ms);
        // If the machine does not know a run, all messages of the run were settled before the restart.
        let known: HashSet<u32> = fifo.runs().collect();
        for (_, (extent, _)) in extents.extract_if(.., |run, _| !known.contains(run)) {
            self.storage.release(extent);
        }
        let extents =
            extents.into_iter().map(|(run, (extent, file))| (run, RunPlace { extent, file: Some(file) }));
        let mut slot = QueueSlot {
            id,
            driver,
            places,
            extents: extents.collect(),
            pageable: fifo.pageable_bytes(),
            is_large: false,
            live_counted: 0,
            ready_counted: 0,
            others_counted: [0; 3],
            fifo,
            group: None,
            gone: None,
            taken: None,
            defers: false,
            noted_ms: None,
            policies: self.metadata.policies(),
        };
        self.storage.add(&mut slot);
        self.queues.insert(slot);
        if is_quorum {
            self.place_group(id, group);
            self.end_again(id);
        }
    }

    /// Sends posted requests to the homes of their queues. A request for a queue without a home first asks
    /// for this shard as its home.
    pub(in crate::shard) fn dispatch_requests(&mut self) {
        let mut requests = self.mail.take_requests();
        let mut rest = requests.drain(..);
        while let Some(&(queue, ref request)) = rest.as_slice().first() {
            let catalog = self.metadata.catalog();
            let me = Where::Here(self.here.id);
            let home = self.metadata.placements().home(queue);
            // A reader is where its consumer is, if the stream is on this node.
            let is_here = !matches!(home, Where::On(_))
                && is_for_readers(request)
                && catalog.is_stream(queue) == Some(true);
            let home = if is_here { me } else { home };
            if home == me {
                self.apply_or_leave(queue, &mut rest);
                continue;
            }
            let Some((_, request)) = rest.next() else { break };
            match home {
                Where::Here(home) => self.mail.send_request(home, queue, request),
                Where::On(node) => self.ask_node(node, (queue, request), &mut rest),
                Where::Nobody => self.refuse_request(queue, request, OUT_OF_REACH),
                Where::Unplaced if self.metadata.catalog().is_stream(queue).is_none() => {
                    self.refuse_request(queue, request, Refusal::NotFound)
                }
                Where::Unplaced => {
                    let waiting = self.queues.waiting.entry(queue).or_default();
                    waiting.push(request);
                    if waiting.len() == 1 {
                        self.mail.send(NODE_SHARD, Mail::Place { queue, home: self.here.id });
                    }
                }
            }
        }
        drop(rest);
        self.mail.give_requests(requests);
    }

    /// Called when the queue has been given its home.
    pub(in crate::shard) fn queue_placed(&mut self, queue: QueueId, home: Where) {
        if home == Where::Here(self.here.id) {
            self.place_queue(queue, RestoredQueue::default());
        }
        for request in self.queues.waiting.remove(&queue).into_iter().flatten() {
            match home {
                // Applied at once: the mail that is being handled may contain newer requests for the queue.
                Where::Here(home) if home == self.here.id => self.apply_one(queue, request),
                Where::Here(home) => self.mail.send_request(home, queue, request),
                Where::On(node) => self.ask_node(node, (queue, request), &mut Vec::new().drain(..)),
                Where::Unplaced | Where::Nobody => self.refuse_request(queue, request, OUT_OF_REACH),
            }
        }
    }

    /// Gives a queue or a stream of this shard its new settings, if policies have changed since the last call.
    /// A walk over all queues calls this, and so does the code that applies a request or reads a report.
    pub fn configure(&mut self, queue: QueueId) {
        let policies = self.metadata.policies();
        let Some(slot) = self.queues.get_mut(queue) else { return self.configure_stream(queue) };
        if std::mem::replace(&mut slot.policies, policies) == policies {
            return;
        }
        let Some(record) = self.metadata.refresh_queue(queue) else { return };
        slot.driver.set_fsync(record.fsync);
        if *record.config != *slot.fifo.config() {
            let config = record.config.clone();
            self.apply_one(queue, Request::Configure(config));
        }
    }

    /// Called when the catalog has forgotten the queue.
    pub(in crate::shard) fn queue_forgotten(&mut self, queue: QueueId, name: &str) {
        if let Some(mut gone) = self.queues.remove(queue) {
            gone.group.iter().for_each(|group| group.leave(&mut self.counters.raft));
            self.storage.remove(&mut gone, &mut self.mail.receipts);
            self.counters.queues_deleted += 1;
            self.send_receipts();
        }
        self.stream_forgotten(queue);
        for request in self.queues.waiting.remove(&queue).into_iter().flatten() {
            self.refuse_request(queue, request, Refusal::NotFound);
        }
        self.remote.forget_queues(|known| known != queue);
        for to in self.connections.take_watchers(queue) {
            self.gates().with(to.connection, |gate, cx| gate.handle_target_gone(to, name, cx));
        }
    }

    /// Answers a request for a queue that was deleted ([`Refusal::NotFound`]), is out of reach ([`Refusal::OutOfReach`]) or has no
    /// leader ([`Refusal::NoLeader`]), as the queue would. A queue out of reach ends the consumer at its first request, and makes none of its settlements.
    pub(in crate::shard) fn refuse_request(&mut self, queue: QueueId, request: Request, why: Refusal) {
        let (verdict, reason, is_deleted) = match why {
            Refusal::OutOfReach { node } => {
                (Verdict::Rejected(RejectReason::OutOfReach), GoneReason::OutOfReach { node }, false)
            }
            Refusal::NoLeader => {
                (Verdict::Rejected(RejectReason::NoLeader), GoneReason::OutOfReach { node: None }, false)
            }
            _ => (Verdict::Released, GoneReason::QueueDeleted, true),
        };
        let effect = match request {
            Request::Publish(Publish { publisher, seq, .. }) => {
                self.mail.receipts.push(Receipt { queue, publisher, first: seq, last: seq, verdict });
                self.send_receipts();
                return;
            }
            Request::Attach(attach) => {
                Effect::Refused { requester: Requester::Consumer(attach.consumer), why }
            }
            Request::Fetch { ticket, .. }
            | Request::Browse { ticket, .. }
            | Request::Purge { ticket }
            | Request::Delete { ticket, .. }
            | Request::Report { ticket } => Effect::Refused { requester: Requester::Ticket(ticket), why },
            Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
                Effect::Gone { consumer, reason }
            }
            Request::Close { .. } => return,
            Request::Follow { follower, .. } => {
                let end = Some(reason);
                let update =
                    Box::new(StreamUpdate { retained: Retained::default(), chunks: Vec::new(), end });
                Effect::StreamUpdate { follower, update }
            }
            Request::Grant { consumer, .. }
            | Request::Resume { consumer, .. }
            | Request::Settle { consumer, .. }
                if !is_deleted =>
            {
                Effect::Gone { consumer, reason }
            }
            // The messages are gone with their queue, so they are settled.
            Request::Settle { consumer, first, last, answer, .. } if answer != SettleAnswer::Never => {
                Effect::Settled { consumer, first, last, journaled: false }
            }
            Request::Grant { .. }
            | Request::Resume { .. }
            | Request::Settle { .. }
            | Request::CancelBrowse { .. }
            | Request::DeadLettered { .. }
            | Request::Use
            | Request::Configure(_) => return,
        };
        self.carry_out(queue, effect);
    }

    pub(in crate::shard) fn apply_one(&mut self, queue: QueueId, request: Request) {
        self.apply(queue, &mut vec![(queue, request)].drain(..));
    }

    /// Applies the first request, which is for this queue, and the following ones for the same queue.
    pub(in crate::shard) fn apply(&mut self, queue: QueueId, requests: &mut Requests<'_>) {
        let health = Health { log_refuses: self.storage.refuses(), memory_is_stuck: self.storage.is_stuck() };
        let Some(slot) = self.queues.slots.get_mut(queue.slot()).and_then(Option::as_mut) else {
            return self.apply_elsewhere(queue, requests);
        };
        if slot.id != queue {
            return self.apply_elsewhere(queue, requests);
        }
        if slot.policies != self.metadata.policies() {
            self.configure(queue);
            return self.apply(queue, requests);
        }
        let mut output = std::mem::take(&mut self.queues.output);
        let QueueSlot { driver, fifo, group, defers, .. } = &mut **slot;
        let now_ms = self.here.now_ms;
        let queue_ms = driver.queue_ms(now_ms);
        let gates = self.connections.gates(self.here, &self.metadata, &mut self.mail, &mut self.counters);
        let storage = &mut self.storage;
        let mut upward = Upward { gates, storage, queue, driver, group, now_ms, defers };
        let (mut is_held, mut refused) = (false, None);
        for request in run(queue, requests) {
            if matches!(request, Request::Delete { .. }) && self.queues.ended.answer_later(queue, &request) {
                continue;
            }
            match upward.driver.admit(&request, health) {
                Admission::Now => fifo.apply(request, queue_ms, &mut output, &mut upward),
                Admission::Hold => {
                    is_held = true;
                    self.queues.waiting.entry(queue).or_default().push(request);
                    continue;
                }
                Admission::Elsewhere(leader) => {
                    // No node has links to others yet.
                    refused = Some((request, Refusal::OutOfReach { node: Some(leader) }));
                    break;
                }
                Admission::NoLeader => {
                    refused = Some((request, Refusal::NoLeader));
                    break;
                }
                Admission::Refuse(reason) => {
                    if let Request::Publish(Publish { publisher, seq, .. }) = request {
                        output.receipts.reject(publisher, seq, reason);
                    }
                    continue;
                }
            }
            // The run ends at an effect, because a lent delivery must not overtake it. Deliveries for other
            // shards do not matter here.
            let tells = !matches!(output.effects.last(), None | Some(Effect::Delivery(_)));
            if tells || output.facts.len() + output.local.len() >= RUN_MAX {
                break;
            }
        }
        self.take_output(queue, &mut output);
        self.queues.output = output;
        if let Some((request, why)) = refused {
            self.refuse_request(queue, request, why);
        }
        if is_held {
            self.campaign(queue);
        }
    }

    /// As [`Self::apply`], for a stream, or for a queue that does not live here.
    fn apply_elsewhere(&mut self, queue: QueueId, requests: &mut Requests<'_>) {
        if self.apply_to_stream(queue, requests) {
            return;
        }
        let Some((_, request)) = requests.next() else { return };
        // Another shard may learn about the queue, or about its home, earlier than this one.
        let catalog = self.metadata.catalog();
        let early = match catalog.is_stream(queue) {
            Some(_) => self.metadata.placements().home(queue) != Where::Here(self.here.id),
            None => catalog.is_to_come(queue),
        };
        match early {
            true => self.queues.waiting.entry(queue).or_default().push(request),
            false => self.refuse_request(queue, request, Refusal::NotFound),
        }
    }

    /// Handles the timers of queues that are due. If they are too many for this turn, the others stay due.
    pub(in crate::shard) fn queue_timeouts(&mut self) {
        let now_ms = self.here.now_ms;
        if self.queues.next_due().is_none_or(|due| due > now_ms) {
            return;
        }
        self.ended_timeouts();
        let due = self.queues.deadlines.take_due(now_ms, self.rows.left_for_due());
        self.rows.count(due.len());
        for id in due {
            let Some(slot) = self.queues.get_mut(id) else { continue };
            slot.noted_ms = None;
            if !slot.driver.decides() {
                if slot.driver.handle_timeout(now_ms) {
                    self.ask_again(id);
                }
                // The timers of the machine are handled as soon as the member leads.
                self.campaign(id);
                continue;
            }
            self.with_queue(id, |slot, output, gates| {
                let queue_ms = slot.driver.queue_ms(now_ms);
                if slot.fifo.next_deadline().is_some_and(|due| due <= queue_ms) {
                    slot.fifo.handle_timeout(queue_ms, output, gates);
                }
            });
        }
        self.send_receipts();
    }

    /// Returns how many messages a queue or stream has that lives here.
    pub fn depth_of(&self, queue: QueueId) -> Option<Depth> {
        let of_stream = || self.stream_report(queue).map(|report| report.depth());
        self.queues.get(queue).map(|slot| slot.depth_counted()).or_else(of_stream)
    }

    /// Returns the report of a queue or stream that lives here.
    pub fn queue_report(&self, queue: QueueId) -> Option<queue::Report> {
        self.queues
            .get(queue)
            .map(|slot| slot.driver.report(&slot.fifo))
            .or_else(|| self.stream_report(queue))
    }

    /// Sends the facts of a queue to the log and its effects to their recipients.
    pub(in crate::shard) fn take_output(&mut self, queue: QueueId, output: &mut queue::Output) {
        let Some(Some(slot)) = self.queues.slots.get_mut(queue.slot()) else { return };
        let before = slot.driver.deferral();
        let awaits = slot.driver.close(&mut slot.fifo, output);
        let never_written = self.storage.recount_deferred(before, slot);
        let ends = ends(&output.effects);
        if let Some(group) = &mut slot.group {
            output.facts.drain(..).for_each(|fact| group.open.push(&fact, self.here.now_ms));
            if ends {
                // Facts that were decided before the end was committed come after it.
                group.open.clear();
            }
            if slot.driver.has_unproposed() || !group.open.is_empty() {
                self.groups.list(GroupId::Queue(queue), group);
            }
        }
        self.storage.close(self.here.id, slot, output);
        for of in output.browser_loads.drain(..) {
            let load = of.block.load;
            // The machine knows only runs that are stored.
            if let Some(RunPlace { extent, .. }) = slot.extents.get(&load.run) {
                let reading = Reading { queue, load, extent: *extent, purpose: Purpose::Browse(of) };
                self.storage.read(u32::from(self.here.id), reading);
            }
        }
        slot.recount_depth(&mut self.queues.depth);
        self.queues.deadlines.note(queue, &mut slot.noted_ms, slot.driver.next_timeout(&slot.fifo));
        match awaits {
            Awaits::Log(level) => {
                for receipt in output.receipts.drain() {
                    match receipt.journaled {
                        true => self.storage.hold(Receipt::of(queue, receipt), level),
                        false => self.mail.receipts.push(Receipt::of(queue, receipt)),
                    }
                }
                self.storage.hold_settled(queue, &mut output.effects, level);
            }
            Awaits::Commit(_) => {
                let is_free = |receipt: &queue::Receipt| !receipt.journaled;
                debug_assert!(
                    output.receipts.iter().all(is_free),
                    "the driver keeps what waits for a commit"
                );
                // No receipt may leave before the commit that it waits for.
                for receipt in output.receipts.drain().filter(is_free) {
                    self.mail.receipts.push(Receipt::of(queue, receipt));
                }
            }
        }
        self.counters.never_written += if ends { 0 } else { never_written };
        self.counters.deliveries_too_large += std::mem::take(&mut output.too_large);
        self.counters.publishes_rejected += std::mem::take(&mut output.publishes_rejected);
        match ends {
            true => self.delete(queue, &mut output.effects),
            false => self.carry_out_all(queue, &mut output.effects),
        }
        if self.has(Mutation::DeleteWithoutEnded)
            && self.queues.get(queue).is_some_and(|slot| slot.fifo.is_ending())
        {
            self.mail.post.propose(None, Command::ForgetQueue { queue });
        }
    }
}
