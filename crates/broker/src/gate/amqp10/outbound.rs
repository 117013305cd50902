//! Outlet: consuming links (behaviour B.5, A.6). Deliveries out, settlements in, credit bridged to the queue.

use std::sync::Arc;

use amqp10::session::OUTPUT_HIGH_WATER;
use amqp10::{
    Attach, Connection, DeliveryState, Flow, Map, Modified, Outgoing, Part, Role, SenderSettleMode, Symbol,
    Tag, Value, condition,
};
use message::{Annotations, AnnotationsError};
use queue::{ConsumerId, Effect, GoneReason, Lent, Outcome, Refusal, Request};

use super::address::queue_address;
use super::attach::Refused;
use super::bridge::{Bridge, Grant};
use super::filter::LeftOut;
use super::{Cx, Gate, LinkRole, error, role_in};
use crate::catalog::QueueRecord;
use crate::counters::{Counters, Deliveries};
use crate::explain;
use crate::ids::QueueId;
use crate::settings::Settings;

/// The link state of a single active consumer: whether this is it (behaviour B.6).
const ACTIVE: &str = "rabbitmq:active";

/// A consuming link.
#[derive(Debug)]
pub(super) struct Outlet {
    pub consumer: ConsumerId,
    pub queue: QueueId,
    pub queue_name: Arc<str>,
    /// Deliveries are settled as they are sent.
    pub settled: bool,
    /// It reads a stream: what it is sent stays there.
    pub stream: bool,
    /// The dynamic queue that dies with the link.
    pub dynamic: Option<QueueId>,
    /// The queue knows it no more.
    pub gone: bool,
    /// It reads a stream that waits until there is room for its deliveries.
    pub waits_for_room: bool,
    /// The request, until the queue has answered it.
    attach: Option<Box<Attach>>,
    bridge: Bridge,
    unsettled: u32,
    unsettled_max: u32,
    /// Bytes of the largest delivery that the client takes.
    message_bytes_max: Option<u64>,
    /// Which of its filters are not in place, for whoever asks why it gets what it gets.
    left_out: Option<Arc<[String]>>,
}

impl Outlet {
    /// Where its deliveries are counted.
    fn counts<'a>(&self, counters: &'a mut Counters) -> &'a mut Deliveries {
        if self.stream { &mut counters.from_streams } else { &mut counters.from_classic }
    }

    pub fn new(consumer: ConsumerId, record: &QueueRecord, attach: Attach, settings: &Settings) -> Self {
        Self {
            consumer,
            queue: record.id,
            queue_name: record.name.clone(),
            settled: attach.snd_settle_mode == SenderSettleMode::Settled,
            stream: record.is_stream(),
            dynamic: None,
            gone: false,
            waits_for_room: false,
            // [2.7.3] 0 is no limit.
            message_bytes_max: attach.max_message_size.filter(|max| *max > 0),
            attach: Some(Box::new(attach)),
            bridge: Bridge::new(settings.max_queue_credit),
            unsettled: 0,
            unsettled_max: match settings.max_unsettled_per_link {
                0 => u32::MAX,
                max => max,
            },
            left_out: None,
        }
    }

    pub fn note_left_out(&mut self, filters: &[LeftOut]) {
        self.left_out = (!filters.is_empty()).then(|| filters.iter().map(LeftOut::to_string).collect());
    }

    pub fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Its queue has taken it.
    pub fn is_attached(&self) -> bool {
        self.attach.is_none()
    }

    pub fn message_bytes_max(&self) -> Option<u64> {
        self.message_bytes_max
    }

    pub fn facts(&self) -> explain::Role {
        let Self { queue, consumer, unsettled, unsettled_max, message_bytes_max, .. } = *self;
        explain::Role::Consuming {
            queue,
            consumer: consumer.0,
            unsettled,
            unsettled_max,
            message_bytes_max,
            // How far it has come in a stream is known where it is read.
            standing: None,
            left_out: self.left_out.clone(),
        }
    }

    fn grant(&self, grant: Grant, cx: &mut Cx<'_>) {
        let Grant { delivery_count, credit, drain } = grant;
        let request = Request::Grant { consumer: self.consumer, delivery_count, credit, drain, echo: true };
        cx.post.request(self.queue, request);
    }

    fn room(&self) -> u32 {
        self.unsettled_max.saturating_sub(self.unsettled)
    }
}

impl Gate {
    /// The client's FLOW on a link.
    pub(super) fn handle_flow(&mut self, session: u16, link: u32, flow: &Flow) {
        match self.role(session, link) {
            Some(LinkRole::Outlet(outlet)) => outlet.bridge.handle_flow(flow.drain, flow.echo),
            // Nothing is ever available on a link of responses or of replies.
            Some(LinkRole::Responses { .. } | LinkRole::Replies(_)) if flow.drain || flow.echo => {
                self.conn.report_credit(session, link, 0, flow.drain);
            }
            None => self.put_off_flow((session, link), flow),
            _ => {}
        }
        self.touch(session, link);
        // The window may have opened for others, too.
        if self.conn.session(session).is_some_and(|s| s.remote_incoming_window() > 0) {
            self.touch_session(session);
        }
    }

    /// Asks the queue for what client and settings allow.
    pub(super) fn bridge(&mut self, session: u16, link: u32, cx: &mut Cx<'_>) {
        let Some(s) = self.conn.session(session) else { return };
        let Some(l) = s.link(link) else { return };
        let client_credit = l.sender_credit().credit();
        let blocked = s.pending_len() > 0;
        let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
        if outlet.attach.is_some() || outlet.gone {
            return;
        }
        let room = outlet.room();
        if let Some(grant) = outlet.bridge.poll_grant(client_credit, room, blocked) {
            outlet.grant(grant, cx);
        }
    }

    /// Has the next link go on that reads a stream and waits for room: each in its turn.
    pub(super) fn go_on_reading(&mut self, cx: &mut Cx<'_>) {
        let waits = |session, link| match self.role_of(session, link) {
            Some(LinkRole::Outlet(outlet)) => outlet.waits_for_room,
            _ => false,
        };
        let is_next = |&(session, link): &(u16, u32)| has_room(&self.conn, session) || !waits(session, link);
        let Some(at) = self.without_room.iter().position(is_next) else { return };
        let Some((session, link)) = self.without_room.remove(at) else { return };
        let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
        if std::mem::take(&mut outlet.waits_for_room)
            && !outlet.gone
            && let Some(grant) = outlet.bridge.go_on()
        {
            outlet.grant(grant, cx);
        }
    }

    /// The consumers of this connection that read streams.
    pub fn stream_consumers(&self) -> impl Iterator<Item = (QueueId, ConsumerId)> {
        let links = self.sessions.iter().flatten().flat_map(|session| session.links.iter().flatten());
        links.filter_map(|role| match role {
            LinkRole::Outlet(outlet) if outlet.stream => Some((outlet.queue, outlet.consumer)),
            _ => None,
        })
    }

    pub(super) fn handle_outlet_effect(&mut self, session: u16, link: u32, effect: Effect, cx: &mut Cx<'_>) {
        match effect {
            Effect::Delivery(delivery) => _ = self.deliver(session, link, delivery.lend(), cx),
            Effect::CreditState { state, .. } => {
                let credit = self
                    .conn
                    .session(session)
                    .and_then(|s| s.link(link))
                    .map_or(0, |l| l.sender_credit().credit());
                let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
                let room = outlet.room();
                if let Some(report) = outlet.bridge.handle_credit_state(state, credit, room) {
                    self.conn.report_credit(session, link, report.available, report.drain);
                }
                self.touch(session, link);
            }
            Effect::Attached { .. } => {
                let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
                let Some(attach) = outlet.attach.take() else { return };
                let (address, modes) = (queue_address(&outlet.queue_name), (outlet.settled, outlet.stream));
                self.accept_consumer(session, link, &attach, &address, modes, cx);
                self.touch(session, link);
            }
            Effect::Refused { why, .. } => {
                let vhost = self.vhost.clone();
                let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
                outlet.gone = true;
                let (condition, reason) = refused_by_queue(why, &outlet.queue_name, &vhost);
                let refusal = error(condition, reason);
                if let Some(attach) = outlet.attach.take() {
                    self.drop_link(session, link, true, cx);
                    self.refuse(session, link, &attach, Refused::Link(refusal), cx);
                }
            }
            Effect::Gone { reason: GoneReason::QueueDeleted, .. } => {
                let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
                outlet.gone = true;
                outlet.dynamic = None;
                let queue = outlet.queue_name.clone();
                self.detach_from_deleted(session, link, &queue, cx);
            }
            Effect::Gone { reason: GoneReason::Damaged, .. } => {
                let vhost = self.vhost.clone();
                let Some(LinkRole::Outlet(outlet)) = self.role(session, link) else { return };
                outlet.gone = true;
                let (condition, reason) = refused_by_queue(Refusal::Damaged, &outlet.queue_name, &vhost);
                self.detach(session, link, error(condition, reason), cx);
            }
            Effect::Active { active, available, .. } => {
                let mut properties = Map::new();
                properties.insert(Symbol::from_static(ACTIVE), Value::Boolean(active));
                self.conn.report_state(session, link, available, properties);
            }
            _ => {}
        }
    }

    /// Sends a delivery. Returns false if it comes from a stream and there is no room for it: it is to be offered again.
    pub(super) fn deliver(&mut self, session: u16, link: u32, lent: Lent<'_>, cx: &mut Cx<'_>) -> bool {
        let Lent { consumer, number, seq, message, delivery_count, redelivered } = lent;
        let Gate { sessions, conn, without_room, .. } = self;
        let Some(LinkRole::Outlet(outlet)) = role_in(sessions, session, link) else { return true };
        if outlet.stream && !has_room(conn, session) {
            if !std::mem::replace(&mut outlet.waits_for_room, true) {
                without_room.push_back((session, link));
            }
            return false;
        }
        outlet.bridge.handle_delivery();
        let (settled, max) = (outlet.settled, outlet.message_bytes_max);
        let offset = outlet.stream.then_some(seq);
        let head = cx.heads.head(message, delivery_count, redelivered, offset);
        let (of, from) = message.bare_in();
        let bare = Part { of, from };
        // Only from a stream: a queue passes over the consumer instead.
        if let Some(max) = max
            && (head.len() + bare.len()) as u64 > max
        {
            let (name, vhost) = (outlet.queue_name.clone(), self.vhost.clone());
            let reason = format!(
                "a message of queue '{name}' in vhost '{vhost}' is larger than the link's max-message-size of {max} bytes"
            );
            self.detach(session, link, error(condition::MESSAGE_SIZE_EXCEEDED, reason), cx);
            return true;
        }
        let outgoing = Outgoing {
            tag: Tag::from_number(number),
            settled,
            // A queue has given up what is settled, and a stream's reader never goes back.
            irrevocable: settled || offset.is_some(),
            message_format: 0,
            head,
            bare,
            cookie: number,
        };
        if !conn.send(session, link, &outgoing) {
            // The client has taken its credit back meanwhile: so does the queue its message.
            let outcome = Outcome::Released;
            cx.post.request(
                outlet.queue,
                Request::Settle { consumer, first: number, last: number, outcome, answer: false },
            );
            return true;
        }
        let counts = outlet.counts(cx.counters);
        counts.redelivered += u64::from(redelivered);
        if settled {
            counts.auto_ack += 1;
        } else {
            counts.manual_ack += 1;
            outlet.unsettled += 1;
        }
        self.touch(session, link);
        true
    }

    /// The client says what became of deliveries (behaviour B.5).
    pub(super) fn handle_disposition(
        &mut self,
        session: u16,
        settled: bool,
        state: Option<DeliveryState>,
        (first, last): (u32, u32),
        cx: &mut Cx<'_>,
    ) {
        let outcome = match outcome(settled, state.as_ref()) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return,
            Err((condition, what)) => {
                let reason = format!("{what} in DISPOSITION of the deliveries {first} to {last}");
                self.end(session, error(condition, reason), cx);
                return;
            }
        };
        let mut runs = std::mem::take(&mut self.runs);
        self.conn.resolve(session, first, last, true, &mut runs);
        for run in &runs {
            let n = (run.last_cookie - run.first_cookie + 1) as u32;
            let Some(LinkRole::Outlet(outlet)) = self.role(session, run.link) else { continue };
            outlet.unsettled = outlet.unsettled.saturating_sub(n);
            let request = Request::Settle {
                consumer: outlet.consumer,
                first: run.first_cookie,
                last: run.last_cookie,
                outcome: outcome.clone(),
                answer: false,
            };
            cx.post.request(outlet.queue, request);
            if outcome == Outcome::Accepted {
                outlet.counts(cx.counters).acknowledged += u64::from(n);
            }
            self.touch(session, run.link);
            if !settled && let Some(state) = &state {
                // The client waits for us to settle.
                self.conn.disposition(session, Role::Sender, (run.first_id, run.last_id), true, state);
            }
        }
        runs.clear();
        self.runs = runs;
    }
}

/// Whether the next delivery of a stream can leave on this session now: otherwise it had better stay where it was read.
fn has_room(conn: &Connection, session: u16) -> bool {
    let session = conn.session(session);
    let is_open = session.is_some_and(|s| s.pending_len() == 0 && s.remote_incoming_window() > 0);
    is_open && conn.output_len() < OUTPUT_HIGH_WATER
}

/// What a client's delivery state says to the queue; nothing if it is not final. An error is a condition and what is
/// wrong.
fn outcome(settled: bool, state: Option<&DeliveryState>) -> Result<Option<Outcome>, (Symbol, String)> {
    Ok(Some(match state {
        Some(DeliveryState::Accepted) => Outcome::Accepted,
        Some(DeliveryState::Rejected(_)) => Outcome::Rejected,
        Some(DeliveryState::Released) => Outcome::Released,
        // [3.4] Settled without a state: the default outcome of our source.
        None if settled => Outcome::Released,
        Some(DeliveryState::Modified(modified)) => Outcome::Modified {
            failed: modified.delivery_failed.unwrap_or(false),
            undeliverable_here: modified.undeliverable_here.unwrap_or(false),
            annotations: annotations(modified)?,
        },
        // Not final, and nothing that we keep.
        None | Some(DeliveryState::Received(_)) if !settled => return Ok(None),
        _ => return Err((condition::INVALID_FIELD, "unrecognised delivery state".to_owned())),
    }))
}

/// [3.4.5] What the client wants to set on the message.
fn annotations(modified: &Modified) -> Result<Option<Box<Annotations>>, (Symbol, String)> {
    let Some(map) = &modified.message_annotations else { return Ok(None) };
    match Annotations::from_map(map) {
        Ok(annotations) => Ok(Some(Box::new(annotations))),
        Err(AnnotationsError::Empty) => Ok(None),
        Err(AnnotationsError::ReservedKey) => {
            let what = "keys of modified.message-annotations must be symbols that start with x-";
            Err((condition::INVALID_FIELD, what.to_owned()))
        }
        Err(AnnotationsError::TooLarge) => {
            let what =
                format!("modified.message-annotations take more than {} bytes", Annotations::BYTES_MAX);
            Err((condition::RESOURCE_LIMIT_EXCEEDED, what))
        }
    }
}

/// The one table from a queue's refusal to this protocol's condition and words.
pub(super) fn refused_by_queue(why: Refusal, queue: &str, vhost: &str) -> (Symbol, String) {
    match why {
        Refusal::NotFound => (condition::NOT_FOUND, format!("no queue '{queue}' in vhost '{vhost}'")),
        Refusal::ExclusiveConsumer => (
            condition::UNAUTHORIZED_ACCESS,
            format!("queue '{queue}' in vhost '{vhost}' has an exclusive consumer"),
        ),
        Refusal::LockedQueue => (
            condition::RESOURCE_LOCKED,
            format!("queue '{queue}' in vhost '{vhost}' is another connection's own"),
        ),
        Refusal::InUse => {
            (condition::PRECONDITION_FAILED, format!("queue '{queue}' in vhost '{vhost}' is in use"))
        }
        Refusal::NotEmpty => {
            (condition::PRECONDITION_FAILED, format!("queue '{queue}' in vhost '{vhost}' is not empty"))
        }
        Refusal::NotSupported => (
            condition::NOT_IMPLEMENTED,
            format!("queue '{queue}' in vhost '{vhost}' is of a type that does not do this"),
        ),
        Refusal::Unavailable => (
            condition::INTERNAL_ERROR,
            format!("queue '{queue}' in vhost '{vhost}' cannot be opened: the disk refuses"),
        ),
        Refusal::Damaged => {
            (condition::INTERNAL_ERROR, format!("queue '{queue}' in vhost '{vhost}' is damaged on the disk"))
        }
    }
}
