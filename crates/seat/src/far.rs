//! The node that has the queues: what the clients of one shard of another node have here.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use hashbrown::HashMap;
use message::LastRoute;
use queue::{
    Attach, ConsumerId, Effect, GoneReason, Publish, PublisherId, Refusal, Request, Requester, Ticket,
    Verdict,
};

use crate::codec::{get_ask, put_answer};
use crate::frame::{Frame, Said, SessionId, begin_answers};
use crate::item::{Answer, Ask};
use crate::session::{BATCH, Session};

/// The shard that has the queues, or knows which one has.
pub trait Host {
    /// Gives an id of this node to a consumer, or to a holder of fetched messages. Returns `None` if there can be no more.
    fn add_consumer(&mut self, queue: QueueId) -> Option<ConsumerId>;
    /// Gives an id of this node to a ticket. Returns `None` if there can be no more.
    fn add_ticket(&mut self) -> Option<Ticket>;
    /// Forgets a consumer that has ended.
    fn remove_consumer(&mut self, consumer: ConsumerId);
    /// Forgets a ticket that nobody waits for any more.
    fn remove_ticket(&mut self, ticket: Ticket);
    /// Passes on a request to a queue.
    fn request(&mut self, queue: QueueId, request: Request);
    /// Passes on a message to a link that takes replies.
    fn reply(&mut self, to: ReplyTo, vhost: Arc<str>, publish: Publish);
    /// Passes on the question whether a link that takes replies exists.
    fn probe(&mut self, to: ReplyTo, vhost: Arc<str>, ticket: Ticket);
}

/// What a frame of another node means for the session of one of its shards that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// It belongs to the session.
    Known,
    /// It begins another session. The known one has ended.
    New,
    /// It belongs to a session that has ended here: the other node must be told ([`Far::unknown`]).
    Unknown,
    /// It belongs to a session that has ended there.
    Late,
}

/// Says what a frame means for the session that is known of its shard.
pub fn meet(known: Option<SessionId>, frame: &Frame) -> Meeting {
    match known {
        Some(known) if known == frame.id => Meeting::Known,
        Some(known) if frame.id < known => Meeting::Late,
        _ if matches!(frame.said, Said::Open { fresh: true, .. }) => Meeting::New,
        _ => Meeting::Unknown,
    }
}

/// See the module.
///
/// ```text
///   the other node ──> handle_frame ──> the host: requests to queues
///   the other node <── poll_frame <──── handle_effect, handle_receipt
/// ```
#[derive(Debug)]
pub struct Far {
    id: SessionId,
    /// The start of this node.
    boot: u32,
    session: Session,
    has_link: bool,
    /// The other side has said what it has of this session.
    is_known: bool,
    /// Publishes everything.
    publisher: PublisherId,
    /// The consumers by their ids there.
    consumers: HashMap<ConsumerId, ConsumerId>,
    /// The ids of consumers there.
    consumers_there: HashMap<ConsumerId, ConsumerId>,
    /// The ids of tickets there.
    tickets_there: HashMap<Ticket, Ticket>,
    unsent: VecDeque<Answer>,
    frames: VecDeque<Bytes>,
    now_ms: u64,
}

impl Far {
    /// Returns this side of a session. `boot` is the start of this node; `publisher` is the publisher that publishes for the other node.
    pub fn new(id: SessionId, boot: u32, publisher: PublisherId) -> Self {
        Self {
            id,
            boot,
            session: Session::default(),
            has_link: false,
            is_known: false,
            publisher,
            consumers: HashMap::new(),
            consumers_there: HashMap::new(),
            tickets_there: HashMap::new(),
            unsent: VecDeque::new(),
            frames: VecDeque::new(),
            now_ms: 0,
        }
    }

    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Advances the time, in milliseconds since the epoch.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Called when something can be sent to the other node, or no longer.
    pub fn handle_link(&mut self, up: bool) {
        self.has_link = up;
        self.frames.clear();
        match up {
            // The other side has another link, which may have been open all the time.
            true if self.is_known => {
                self.session.resume(self.now_ms);
                self.frames.extend(self.session.kept().cloned());
            }
            true => {}
            false => self.session.close(),
        }
    }

    /// Returns the answer to a frame of a session that is not known here.
    pub fn unknown(id: SessionId, boot: u32) -> Bytes {
        Frame { id, said: Said::Ended { boot } }.encode()
    }

    /// Handles a frame of this session. Returns false if it makes no sense; then the session must end.
    pub fn handle_frame(&mut self, frame: Frame, host: &mut impl Host) -> bool {
        match frame.said {
            Said::Open { received, .. } => self.open(received),
            Said::Asks { number, items, .. } => {
                let length = items.len();
                !self.session.receive(number, length, self.now_ms) || self.handle_asks(items, host)
            }
            Said::HaveAnswers(received) => self.session.acknowledge(received, self.now_ms),
            Said::Opened { .. }
            | Said::Ended { .. }
            | Said::Answers { .. }
            | Said::HaveAsks(_)
            | Said::HowFar => false,
        }
    }

    fn open(&mut self, received: u64) -> bool {
        if !self.session.open(received, self.now_ms) {
            return false;
        }
        self.is_known = true;
        let said = Said::Opened { boot: self.boot, received: self.session.received() };
        self.frames.clear();
        self.frames.push_back(Frame { id: self.id, said }.encode());
        self.frames.extend(self.session.kept().cloned());
        true
    }

    fn handle_asks(&mut self, mut items: Bytes, host: &mut impl Host) -> bool {
        let mut routes = LastRoute::default();
        while !items.is_empty() {
            let Some(ask) = get_ask(&mut items, &mut routes) else { return false };
            self.handle_ask(ask, host);
        }
        true
    }

    fn handle_ask(&mut self, ask: Ask, host: &mut impl Host) {
        let publisher = self.publisher;
        match ask {
            Ask::Publish { queue, number, pipelines, message } => {
                host.request(queue, Request::Publish(Publish { publisher, seq: number, message, pipelines }));
            }
            Ask::Reply { to, vhost, number, message } => {
                host.reply(to, vhost, Publish { publisher, seq: number, message, pipelines: false });
            }
            Ask::Probe { to, vhost, ticket } => {
                if let Some(ticket) = self.add_ticket(ticket, host) {
                    host.probe(to, vhost, ticket);
                }
            }
            Ask::Request { queue, request } => {
                if let Some(request) = self.with_ids(queue, request, host) {
                    host.request(queue, request);
                }
            }
        }
    }

    /// Returns a request with the ids of this node.
    fn with_ids(&mut self, queue: QueueId, mut request: Request, host: &mut impl Host) -> Option<Request> {
        match &mut request {
            Request::Attach(Attach { consumer, .. }) => {
                *consumer = self.add_consumer(*consumer, queue, host).or_else(|| {
                    self.answer_full(Requester::Consumer(*consumer));
                    None
                })?;
            }
            Request::Fetch { ticket, holder, .. } => {
                let Some(known) = self.add_consumer(*holder, queue, host) else {
                    self.answer_full(Requester::Ticket(*ticket));
                    return None;
                };
                *holder = known;
                *ticket = self.add_ticket(*ticket, host)?;
            }
            Request::Browse { ticket, .. }
            | Request::Purge { ticket }
            | Request::Delete { ticket, .. }
            | Request::Report { ticket } => *ticket = self.add_ticket(*ticket, host)?,
            Request::CancelBrowse { ticket } => {
                let there = *ticket;
                *ticket =
                    self.tickets_there.iter().find_map(|(here, known)| (*known == there).then_some(*here))?;
                self.tickets_there.remove(ticket);
                host.remove_ticket(*ticket);
            }
            Request::Cancel { consumer } => {
                let reason = GoneReason::Cancelled;
                *consumer = self.known(*consumer).or_else(|| self.answer_gone(*consumer, reason))?;
            }
            Request::Detach { consumer, .. } => {
                let reason = GoneReason::Detached;
                *consumer = self.known(*consumer).or_else(|| self.answer_gone(*consumer, reason))?;
            }
            Request::Grant { consumer, .. }
            | Request::Resume { consumer, .. }
            | Request::Settle { consumer, .. } => *consumer = self.known(*consumer)?,
            Request::Use => {}
            // The codec knows none of these.
            Request::Publish(_)
            | Request::Follow { .. }
            | Request::Close { .. }
            | Request::DeadLettered { .. }
            | Request::Configure(_) => return None,
        }
        Some(request)
    }

    fn known(&self, there: ConsumerId) -> Option<ConsumerId> {
        self.consumers.get(&there).copied()
    }

    fn answer_gone(&mut self, consumer: ConsumerId, reason: GoneReason) -> Option<ConsumerId> {
        self.unsent.push_back(Answer::Effect(Effect::Gone { consumer, reason }));
        None
    }

    fn answer_full(&mut self, requester: Requester) {
        self.unsent.push_back(Answer::Effect(Effect::Refused { requester, why: Refusal::Unavailable }));
    }

    fn add_consumer(
        &mut self,
        there: ConsumerId,
        queue: QueueId,
        host: &mut impl Host,
    ) -> Option<ConsumerId> {
        if let Some(known) = self.known(there) {
            return Some(known);
        }
        let here = host.add_consumer(queue)?;
        self.consumers.insert(there, here);
        self.consumers_there.insert(here, there);
        Some(here)
    }

    fn add_ticket(&mut self, there: Ticket, host: &mut impl Host) -> Option<Ticket> {
        let Some(here) = host.add_ticket() else {
            self.answer_full(Requester::Ticket(there));
            return None;
        };
        self.tickets_there.insert(here, there);
        Some(here)
    }

    /// Takes in an effect for a consumer or a ticket of the other node.
    pub fn handle_effect(&mut self, mut effect: Effect, host: &mut impl Host) {
        let is_known = match &mut effect {
            Effect::Gone { consumer, reason } => {
                let here = *consumer;
                let is_known = self.name_consumer(consumer);
                if is_known && *reason != GoneReason::Cancelled {
                    self.remove_consumer(here, *consumer, host);
                }
                is_known
            }
            Effect::Refused { requester: Requester::Consumer(consumer), .. } => {
                let here = *consumer;
                let is_known = self.name_consumer(consumer);
                if is_known {
                    self.remove_consumer(here, *consumer, host);
                }
                is_known
            }
            Effect::Attached { consumer }
            | Effect::Active { consumer, .. }
            | Effect::CreditState { consumer, .. }
            | Effect::Settled { consumer, .. }
            | Effect::Revoked { consumer, .. } => self.name_consumer(consumer),
            Effect::Delivery(delivery) => self.name_consumer(&mut delivery.consumer),
            Effect::Fetched { ticket, deliveries, .. } => {
                deliveries.iter_mut().for_each(|delivery| _ = self.name_consumer(&mut delivery.consumer));
                self.name_ticket(ticket)
            }
            Effect::Done { ticket, .. }
            | Effect::Report { ticket, .. }
            | Effect::Refused { requester: Requester::Ticket(ticket), .. } => self.name_ticket(ticket),
            Effect::StreamUpdate { .. } | Effect::DeadLetter { .. } | Effect::Deleted { .. } => false,
        };
        if is_known {
            self.unsent.push_back(Answer::Effect(effect));
        }
    }

    fn remove_consumer(&mut self, here: ConsumerId, there: ConsumerId, host: &mut impl Host) {
        self.consumers_there.remove(&here);
        self.consumers.remove(&there);
        host.remove_consumer(here);
    }

    /// Replaces the id by that of the other node.
    fn name_consumer(&self, consumer: &mut ConsumerId) -> bool {
        let there = self.consumers_there.get(consumer);
        there.is_some_and(|there| {
            *consumer = *there;
            true
        })
    }

    /// Replaces a ticket that is answered by that of the other node.
    fn name_ticket(&mut self, ticket: &mut Ticket) -> bool {
        let there = self.tickets_there.remove(ticket);
        there.is_some_and(|there| {
            *ticket = there;
            true
        })
    }

    /// Takes in the verdict of a queue on publishes of the other node.
    pub fn handle_receipt(&mut self, first: u64, last: u64, verdict: Verdict) {
        if let Some(Answer::Receipt { last: before, verdict: known, .. }) = self.unsent.back_mut()
            && (*before + 1, *known) == (first, verdict)
        {
            *before = last;
            return;
        }
        self.unsent.push_back(Answer::Receipt { first, last, verdict });
    }

    /// Returns the next frame to be sent to the other node. Over a link, frames arrive in their order.
    pub fn poll_frame(&mut self) -> Option<Bytes> {
        if !self.has_link {
            return None;
        }
        if self.frames.is_empty() && self.session.has_room() && !self.unsent.is_empty() {
            let mut batch = Vec::new();
            begin_answers(&mut batch, self.id, self.session.next_number());
            while batch.len() < BATCH
                && let Some(answer) = self.unsent.pop_front()
            {
                put_answer(&answer, &mut batch);
            }
            let batch = Bytes::from(batch);
            self.session.keep(batch.clone(), self.now_ms);
            self.frames.push_back(batch);
        }
        if self.frames.is_empty()
            && let Some(received) = self.session.take_owed(self.now_ms)
        {
            return Some(Frame { id: self.id, said: Said::HaveAsks(received) }.encode());
        }
        self.frames.pop_front()
    }

    /// Returns when [`Far::handle_timeout`] must be called.
    pub fn next_timeout(&self) -> Option<u64> {
        let next = [self.session.next_question(), self.session.next_owed()];
        next.into_iter().flatten().min().filter(|_| self.has_link)
    }

    /// Asks what has arrived, if the other node acknowledges nothing. The caller asks for frames then.
    pub fn handle_timeout(&mut self) {
        if self.has_link && self.session.next_question().is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.session.note_asked(self.now_ms);
            self.frames.push_back(Frame { id: self.id, said: Said::HowFar }.encode());
        }
    }
}
