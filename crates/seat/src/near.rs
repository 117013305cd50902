//! The node of the links: what the clients of one shard ask of the queues of one other node.

mod ends;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use hashbrown::{HashMap, HashSet};
use message::LastRoute;
use queue::{
    ConsumerId, Delivery, Effect, GoneReason, Outcome, PublisherId, Refusal, RejectReason, Request,
    Requester, SettleAnswer, Ticket, Verdict,
};

use crate::codec::{get_answer, put_ask};
use crate::frame::{Frame, Said, SessionId, begin_asks};
use crate::item::{Answer, Ask};
use crate::publishes::{Kept, Publishes, Row, To};
use crate::session::{BATCH, REPEAT_MS, Session};

/// The other node is away for this time before requests that were not sent to it are refused, in milliseconds. A restart of a connection
/// between nodes is shorter.
pub const REFUSE_MS: u64 = 5_000;

/// The other node is away for this time before its consumers end, and before publishers are told that nobody knows what has become of their
/// messages, in milliseconds. It gives back what these consumers hold after the same time ([`Far`](crate::Far)).
pub const LOST_MS: u64 = 60_000;

/// What the shard tells its clients.
#[derive(Debug)]
pub enum Told {
    Effect {
        queue: QueueId,
        effect: Effect,
    },
    Receipt {
        queue: QueueId,
        publisher: PublisherId,
        first: u64,
        last: u64,
        verdict: Verdict,
    },
    /// The answer to a deletion without conditions, while the other node is away: the queue can be deleted without it.
    Away {
        queue: QueueId,
        ticket: Ticket,
        /// The deletion was sent, so the other node may have carried it out.
        is_sent: bool,
    },
}

/// A consumer, or a holder of fetched messages.
#[derive(Debug)]
struct Consumer {
    queue: QueueId,
    /// The other node may know it.
    is_sent: bool,
    /// It waits for the answer to its Attach.
    attaches: bool,
    /// How many answers to a Cancel it waits for.
    cancels: u32,
    /// It waits for the answer to its Detach.
    detaches: bool,
}

/// What a ticket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Changes nothing.
    Read,
    /// Takes messages.
    Fetch,
    /// Changes the queue.
    Change,
    /// Deletes the queue, whatever is in it.
    Delete,
}

/// An item that was not sent.
#[derive(Debug)]
enum Unsent {
    Ask(Ask),
    Publish(u64),
}

/// See the module.
///
/// ```text
///   handle_request ──> unsent ──> poll_frame ──> the other node
///   poll_told <── handle_frame <──────────────── the other node
/// ```
///
/// Without a link, requests wait. After [`REFUSE_MS`] those that were not sent are refused; after [`LOST_MS`] everything ends. A publish that was
/// sent is never refused: the other node answers it, or its publisher is told that the outcome is unknown.
#[derive(Debug)]
pub struct Near {
    /// The other node, as refusals name it.
    peer: u32,
    id: SessionId,
    /// The start of the other node that knows the session. `None` until it has said so.
    peer_boot: Option<u32>,
    session: Session,
    has_link: bool,
    /// The other node counts as alive.
    is_alive: bool,
    /// Since when the other node is away, or since the first request when nobody knows, in milliseconds since the epoch. `None` while it is there or not
    /// needed: there is a link, both sides know what the other one has, and the node counts as alive.
    away_since: Option<u64>,
    /// Requests are refused at once.
    refuses: bool,
    /// When the session is opened again, if the other node does not answer.
    open_again_ms: Option<u64>,
    unsent: VecDeque<Unsent>,
    publishes: Publishes,
    consumers: HashMap<ConsumerId, Consumer>,
    tickets: HashMap<Ticket, (QueueId, Asked)>,
    /// Queues that have told a consumer that they are deleted, until the catalog has forgotten them.
    deleted: HashSet<QueueId>,
    told: VecDeque<Told>,
    frames: VecDeque<Bytes>,
    now_ms: u64,
}

impl Near {
    /// Returns the side of the links of the first session of a shard with the node `peer`. `boot` is the start of this node.
    pub fn new(peer: u32, boot: u32, shard: u8) -> Self {
        Self {
            peer,
            id: SessionId { boot, session: 1, shard },
            peer_boot: None,
            session: Session::default(),
            has_link: false,
            is_alive: true,
            away_since: None,
            refuses: false,
            open_again_ms: None,
            unsent: VecDeque::new(),
            publishes: Publishes::default(),
            consumers: HashMap::new(),
            tickets: HashMap::new(),
            deleted: HashSet::new(),
            told: VecDeque::new(),
            frames: VecDeque::new(),
            now_ms: 0,
        }
    }

    /// Advances the time, in milliseconds since the epoch.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Called when something can be sent to the other node, or no longer.
    pub fn handle_link(&mut self, up: bool) {
        self.has_link = up;
        self.session.close();
        match up {
            true => self.open(),
            false => {
                self.open_again_ms = None;
                self.frames.clear();
                self.away_since = self.away_since.or(Some(self.now_ms));
            }
        }
    }

    /// Called when the other node counts as alive, or does not any more: it may stand still behind an open link.
    pub fn handle_alive(&mut self, is_alive: bool) {
        self.is_alive = is_alive;
        self.judge();
    }

    /// Notes whether the other node is there.
    fn judge(&mut self) {
        match self.is_alive && self.session.is_open() {
            true => (self.away_since, self.refuses) = (None, false),
            false => self.away_since = self.away_since.or(Some(self.now_ms)),
        }
    }

    /// Called when the process of the other node has ended: no session survives that.
    pub fn handle_gone(&mut self) {
        if self.peer_boot.is_some() {
            self.end(true);
            if self.has_link {
                self.open();
            }
        }
    }

    /// Says that the session is here, so that the other node says what it knows of it.
    fn open(&mut self) {
        self.judge();
        self.open_again_ms = (!self.session.is_open()).then_some(self.now_ms + REPEAT_MS);
        let said = Said::Open { received: self.session.received(), fresh: self.peer_boot.is_none() };
        self.frames.push_back(Frame { id: self.id, said }.encode());
    }

    /// Sends a message to a queue, or to a link that takes replies.
    pub fn publish(&mut self, kept: Kept) {
        match self.refuses {
            true => self.refuse_publish(&kept),
            false => self.add_publish(Row { kept, is_in_doubt: false, is_repeated: false }),
        }
    }

    fn add_publish(&mut self, row: Row) {
        let number = self.publishes.add(row);
        self.push(Unsent::Publish(number));
    }

    /// Asks whether a link that takes replies exists.
    pub fn probe(&mut self, to: ReplyTo, vhost: Arc<str>, ticket: Ticket) {
        if self.take_ticket_request(QueueId::NONE, ticket, Asked::Read) {
            self.push(Unsent::Ask(Ask::Probe { to, vhost, ticket }));
        }
    }

    fn push(&mut self, item: Unsent) {
        if !self.session.is_open() {
            self.judge();
        }
        self.unsent.push_back(item);
    }

    /// Takes in a request of a client. It is answered as the queue would answer it.
    pub fn handle_request(&mut self, queue: QueueId, request: Request) {
        let is_taken = match &request {
            Request::Publish(_) => {
                let Request::Publish(publish) = request else { return };
                return self.publish(Kept { to: To::Queue(queue), publish });
            }
            Request::Attach(attach) => {
                let is_taken = !self.refuses;
                match is_taken {
                    true => self.add_consumer(queue, attach.consumer, true),
                    false => self.refuse(queue, Requester::Consumer(attach.consumer), self.out_of_reach()),
                }
                is_taken
            }
            Request::Fetch { ticket, holder, .. } => {
                let (ticket, holder) = (*ticket, *holder);
                let is_taken = self.take_ticket_request(queue, ticket, Asked::Fetch);
                if is_taken && !self.consumers.contains_key(&holder) {
                    self.add_consumer(queue, holder, false);
                }
                is_taken
            }
            Request::Browse { ticket, .. } | Request::Report { ticket } => {
                self.take_ticket_request(queue, *ticket, Asked::Read)
            }
            Request::Delete { ticket, if_unused: false, if_empty: false } => {
                self.take_ticket_request(queue, *ticket, Asked::Delete)
            }
            Request::Purge { ticket } | Request::Delete { ticket, .. } => {
                self.take_ticket_request(queue, *ticket, Asked::Change)
            }
            Request::CancelBrowse { ticket } => self.tickets.remove(ticket).is_some(),
            Request::Cancel { consumer } => self.end_consumer(queue, *consumer, GoneReason::Cancelled),
            Request::Detach { consumer, .. } => self.end_consumer(queue, *consumer, GoneReason::Detached),
            Request::Grant { consumer, .. } | Request::Resume { consumer, .. } => {
                self.consumers.contains_key(consumer)
            }
            Request::Settle { consumer, first, last, answer, .. } => {
                let is_known = self.consumers.contains_key(consumer);
                if !is_known && *answer != SettleAnswer::Never {
                    self.answer_late_settle(queue, *consumer, (*first, *last));
                }
                is_known
            }
            Request::Use => !self.refuses,
            // These are between the parts of a queue, which are all on one node.
            Request::Follow { .. }
            | Request::Close { .. }
            | Request::DeadLettered { .. }
            | Request::Configure(_) => false,
        };
        if is_taken {
            self.push(Unsent::Ask(Ask::Request { queue, request }));
        }
    }

    fn add_consumer(&mut self, queue: QueueId, id: ConsumerId, attaches: bool) {
        self.consumers.insert(id, Consumer { queue, is_sent: false, attaches, cancels: 0, detaches: false });
    }

    /// Notes that a ticket waits. Returns false if it was refused.
    fn take_ticket_request(&mut self, queue: QueueId, ticket: Ticket, asked: Asked) -> bool {
        match self.refuses {
            true => self.refuse_ticket(queue, ticket, asked, false),
            false => _ = self.tickets.insert(ticket, (queue, asked)),
        }
        !self.refuses
    }

    /// Refuses a request that was sent, or was not.
    fn refuse_ticket(&mut self, queue: QueueId, ticket: Ticket, asked: Asked, is_sent: bool) {
        let why = match asked {
            Asked::Delete => return self.told.push_back(Told::Away { queue, ticket, is_sent }),
            Asked::Change if is_sent => Refusal::OutcomeUnknown { node: Some(self.peer) },
            Asked::Change | Asked::Read | Asked::Fetch => self.out_of_reach(),
        };
        self.refuse(queue, Requester::Ticket(ticket), why);
    }

    /// Notes that a consumer ends, which is told at once if the other node is away. Returns false if nobody needs to know.
    fn end_consumer(&mut self, queue: QueueId, id: ConsumerId, reason: GoneReason) -> bool {
        let is_cancel = reason == GoneReason::Cancelled;
        match self.consumers.get_mut(&id) {
            None => {
                self.tell(queue, Effect::Gone { consumer: id, reason });
                return false;
            }
            // A cancelled consumer may still settle.
            Some(_) if self.refuses && is_cancel => self.tell(queue, Effect::Gone { consumer: id, reason }),
            Some(_) if self.refuses => self.remove_consumer(id, reason),
            Some(consumer) if is_cancel => consumer.cancels += 1,
            Some(consumer) => consumer.detaches = true,
        }
        true
    }

    fn remove_consumer(&mut self, id: ConsumerId, reason: GoneReason) {
        if let Some(Consumer { queue, .. }) = self.consumers.remove(&id) {
            self.tell(queue, Effect::Gone { consumer: id, reason });
        }
    }

    /// Answers a settlement of a consumer that has ended. The messages of a deleted queue are gone, so they are settled. What another
    /// consumer held has returned to its queue.
    fn answer_late_settle(&mut self, queue: QueueId, consumer: ConsumerId, (first, last): (u64, u64)) {
        let effect = match self.deleted.contains(&queue) {
            true => Effect::Settled { consumer, first, last, journaled: false },
            false => Effect::Gone { consumer, reason: GoneReason::OutOfReach { node: Some(self.peer) } },
        };
        self.tell(queue, effect);
    }

    /// Forgets the queues that the catalog has forgotten.
    pub fn forget_queues(&mut self, exists: impl Fn(QueueId) -> bool) {
        self.deleted.retain(|queue| exists(*queue));
    }

    fn tell(&mut self, queue: QueueId, effect: Effect) {
        self.told.push_back(Told::Effect { queue, effect });
    }

    fn refuse(&mut self, queue: QueueId, requester: Requester, why: Refusal) {
        self.tell(queue, Effect::Refused { requester, why });
    }

    fn out_of_reach(&self) -> Refusal {
        Refusal::OutOfReach { node: Some(self.peer) }
    }

    fn refuse_publish(&mut self, kept: &Kept) {
        self.tell_receipt(kept, Verdict::Rejected(RejectReason::OutOfReach));
    }

    fn tell_receipt(&mut self, kept: &Kept, verdict: Verdict) {
        let (publisher, seq) = kept.source();
        let queue = kept.queue();
        if let Some(Told::Receipt { queue: q, publisher: p, last, verdict: v, .. }) = self.told.back_mut()
            && (*q, *p, *last + 1, *v) == (queue, publisher, seq, verdict)
        {
            *last = seq;
            return;
        }
        self.told.push_back(Told::Receipt { queue, publisher, first: seq, last: seq, verdict });
    }

    /// Returns what to tell the clients next.
    pub fn poll_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// Returns the next frame to be sent to the other node. Over a link, frames arrive in their order. `applied` is the index of the last entry of the
    /// catalog that the shard has applied.
    pub fn poll_frame(&mut self, applied: u64) -> Option<Bytes> {
        if !self.has_link {
            return None;
        }
        if self.frames.is_empty() && self.session.has_room() && !self.unsent.is_empty() {
            self.send_batch(applied);
        }
        if self.frames.is_empty()
            && let Some(received) = self.session.take_owed(self.now_ms)
        {
            return Some(Frame { id: self.id, said: Said::HaveAnswers(received) }.encode());
        }
        self.frames.pop_front()
    }

    fn send_batch(&mut self, applied: u64) {
        let mut batch = Vec::new();
        begin_asks(&mut batch, self.id, self.session.next_number(), applied);
        while batch.len() < BATCH
            && let Some(item) = self.unsent.pop_front()
        {
            match item {
                Unsent::Publish(number) => {
                    if let Some(row) = self.publishes.get_mut(number) {
                        row.is_repeated = row.is_in_doubt;
                        row.is_in_doubt = true;
                        row.kept.put(number, &mut batch);
                    }
                }
                Unsent::Ask(ask) => {
                    self.note_sent(&ask);
                    put_ask(&ask, &mut batch);
                }
            }
        }
        let batch = Bytes::from(batch);
        self.session.keep(batch.clone(), self.now_ms);
        self.frames.push_back(batch);
    }

    fn note_sent(&mut self, ask: &Ask) {
        let Ask::Request { request, .. } = ask else { return };
        let (Request::Attach(queue::Attach { consumer, .. }) | Request::Fetch { holder: consumer, .. }) =
            request
        else {
            return;
        };
        if let Some(consumer) = self.consumers.get_mut(consumer) {
            consumer.is_sent = true;
        }
    }

    /// Handles a frame of the other node. Returns false if it makes no sense; then the session ends.
    pub fn handle_frame(&mut self, frame: Frame) -> bool {
        if frame.id != self.id {
            // Of an earlier session, or of an earlier start of this node.
            return true;
        }
        let is_well = match frame.said {
            Said::Opened { boot, received } => self.opened(boot, received),
            Said::Ended { boot } => {
                // The other node is there, whatever it knows.
                (self.refuses, self.away_since) = (false, Some(self.now_ms));
                let has_started_again = self.peer_boot.is_some_and(|known| known != boot);
                self.end(has_started_again);
                if self.has_link {
                    self.open();
                }
                true
            }
            Said::Answers { number, items } => {
                !self.session.receive(number, items.len(), self.now_ms) || self.handle_answers(items)
            }
            Said::HaveAsks(received) => self.session.acknowledge(received, self.now_ms),
            Said::HowFar => {
                self.open();
                true
            }
            Said::Open { .. } | Said::Asks { .. } | Said::HaveAnswers(_) => false,
        };
        if !is_well {
            self.end(false);
            if self.has_link {
                self.open();
            }
        }
        is_well
    }

    fn opened(&mut self, boot: u32, received: u64) -> bool {
        // What comes late, over a link that was lost, opens nothing.
        if !self.has_link || self.peer_boot.is_some_and(|known| known != boot) {
            return true;
        }
        self.peer_boot = Some(boot);
        if !self.session.open(received, self.now_ms) {
            return false;
        }
        self.open_again_ms = None;
        self.judge();
        // What was sent before the other side has said this has arrived, or is lost.
        self.frames.clear();
        self.frames.extend(self.session.kept().cloned());
        true
    }

    fn handle_answers(&mut self, mut items: Bytes) -> bool {
        let mut routes = LastRoute::default();
        while !items.is_empty() {
            let Some(answer) = get_answer(&mut items, &mut routes) else { return false };
            match answer {
                Answer::Receipt { first, last, verdict } => {
                    if last > self.publishes.last() {
                        return false;
                    }
                    for number in first..=last {
                        let Some(row) = self.publishes.take(number) else { continue };
                        let is_refused = matches!(verdict, Verdict::Rejected(_));
                        let known = if row.is_repeated && is_refused { Verdict::Unknown } else { verdict };
                        self.tell_receipt(&row.kept, known);
                    }
                }
                Answer::Effect(effect) => self.handle_effect(effect),
            }
        }
        true
    }

    fn handle_effect(&mut self, effect: Effect) {
        let queue = match &effect {
            Effect::Fetched { ticket, deliveries, .. } => {
                let Some((queue, _)) = self.tickets.remove(ticket) else { return self.give_back(deliveries) };
                queue
            }
            Effect::Done { ticket, .. }
            | Effect::Report { ticket, .. }
            | Effect::Refused { requester: Requester::Ticket(ticket), .. } => {
                let Some((queue, _)) = self.tickets.remove(ticket) else { return };
                queue
            }
            Effect::Refused { requester: Requester::Consumer(consumer), .. } => {
                let Some(Consumer { queue, .. }) = self.consumers.remove(consumer) else { return };
                queue
            }
            Effect::Gone { consumer, reason: GoneReason::Cancelled } => {
                let Some(known) = self.consumers.get_mut(consumer) else { return };
                // Otherwise it was told already.
                known.cancels = match known.cancels.checked_sub(1) {
                    Some(left) => left,
                    None => return,
                };
                known.queue
            }
            Effect::Gone { consumer, reason } => {
                let Some(Consumer { queue, .. }) = self.consumers.remove(consumer) else { return };
                if *reason == GoneReason::QueueDeleted {
                    self.deleted.insert(queue);
                }
                queue
            }
            Effect::Attached { consumer }
            | Effect::Active { consumer, .. }
            | Effect::CreditState { consumer, .. }
            | Effect::Settled { consumer, .. }
            | Effect::Revoked { consumer, .. }
            | Effect::Delivery(Delivery { consumer, .. }) => {
                let Some(known) = self.consumers.get_mut(consumer) else { return };
                known.attaches &= !matches!(effect, Effect::Attached { .. });
                known.queue
            }
            Effect::StreamUpdate { .. } | Effect::DeadLetter { .. } | Effect::Deleted { .. } => return,
        };
        self.tell(queue, effect);
    }

    /// Returns messages whose asker was told that they cannot be fetched.
    fn give_back(&mut self, deliveries: &[Delivery]) {
        let [Delivery { consumer, number: first, .. }, ..] = deliveries else { return };
        let Some(known) = self.consumers.get(consumer) else { return };
        let last = first.saturating_add(deliveries.len() as u64 - 1);
        let (consumer, queue) = (*consumer, known.queue);
        let request = Request::Settle {
            consumer,
            first: *first,
            last,
            outcome: Outcome::Unsent,
            answer: SettleAnswer::Never,
        };
        self.push(Unsent::Ask(Ask::Request { queue, request }));
    }

    /// Returns when [`Near::handle_timeout`] must be called.
    pub fn next_timeout(&self) -> Option<u64> {
        let away = self.away_since.filter(|_| self.is_used());
        let refuse = away.filter(|_| !self.refuses).map(|since| since + REFUSE_MS);
        let lost = away.map(|since| since + LOST_MS);
        [refuse, lost, self.open_again_ms, self.session.next_question(), self.session.next_owed()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns true if something would end with the session.
    fn is_used(&self) -> bool {
        !self.unsent.is_empty()
            || !self.consumers.is_empty()
            || !self.tickets.is_empty()
            || !self.publishes.is_empty()
    }

    /// Does what is due. The caller asks for frames then.
    pub fn handle_timeout(&mut self) {
        if self.session.next_question().is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.session.note_asked(self.now_ms);
            self.open();
        }
        if self.open_again_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.open();
        }
        let Some(since) = self.away_since else { return };
        if !self.refuses && self.now_ms >= since + REFUSE_MS {
            self.refuses = true;
            self.refuse_unsent();
        }
        if self.now_ms >= since + LOST_MS && self.is_used() {
            self.end(false);
            if self.has_link {
                self.open();
            }
        }
    }
}
