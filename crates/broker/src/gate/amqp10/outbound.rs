//! Consuming links: deliveries to the client and settlements from it (docs/compatibility.md, Consuming and Credit).
//! [`crate::outlet`] does what every consumer needs, in every protocol.

use amqp10::{
    Attach, Connection, DeliveryState, Flow, Map, Modified, Outgoing, Part, Role, Symbol, Tag, Value,
    condition,
};
use catalog::Catalog;
use catalog::categories::{CHANNEL, PEER};
use catalog::ids::{NodeId, QueueId};
use message::{Annotations, AnnotationsError, DeliveryMax, Format};
use queue::{ConsumerId, DeliveryRef, Effect, GoneReason, Outcome, Refusal, Span};

use super::address::queue_address;
use super::dynamic::Bound;
use super::refusal::Refused;
use super::{Gate, LinkRole, error, role_in};
use crate::cx::Cx;
use crate::outlet::{Outlet, PeerEvent};
use crate::placements::{NO_LEADER, name_of_node, out_of_reach, outcome_unknown};

/// The link property that says whether this is the single active consumer (docs/compatibility.md, Consuming).
const ACTIVE: &str = "rabbitmq:active";

/// How a receiver gets its messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Modes {
    /// Deliveries are settled as they are sent.
    pub settled: bool,
    /// The node is a stream.
    pub stream: bool,
    /// The messages stay in the node.
    pub copies: bool,
}

impl Modes {
    fn of<A>(outlet: &Outlet<A>) -> Self {
        Self { settled: outlet.settled, stream: outlet.reads_stream(), copies: outlet.copies() }
    }
}

/// A consuming link.
#[derive(Debug)]
pub(super) struct Consuming {
    pub outlet: Outlet<Settlement>,
    /// The ATTACH, until the queue has answered it.
    pub attach: Option<Box<Attach>>,
    /// What the link's own queue was bound to, if the source is an exchange.
    pub bound: Option<Box<Bound>>,
}

/// The client's outcome for deliveries that it has not settled itself. It waits until the broker settles.
#[derive(Debug)]
pub(super) struct Settlement {
    first_id: u32,
    last_id: u32,
    state: DeliveryState,
}

impl Gate {
    /// Handles the client's FLOW on a link.
    pub(super) fn handle_flow(&mut self, session: u16, link: u32, flow: &Flow) {
        match self.role(session, link) {
            Some(LinkRole::Outlet(link)) => link.outlet.handle_flow(flow.drain, flow.echo),
            // On a link for responses or replies, no messages are ever available.
            Some(LinkRole::Responses { .. } | LinkRole::Replies(_)) if flow.drain || flow.echo => {
                self.conn.report_credit(session, link, 0, flow.drain);
            }
            None => self.defer_flow((session, link), flow),
            _ => {}
        }
        self.touch(session, link);
        // The FLOW may have opened the window for other links of the session, too.
        if self.conn.session(session).is_some_and(|s| s.remote_incoming_window() > 0) {
            self.touch_session(session);
        }
    }

    /// Requests as many messages from the queue as the client and the settings allow.
    pub(super) fn grant_queue_credit(&mut self, session: u16, link: u32, cx: &mut Cx<'_>) {
        let Gate { sessions, conn, crowded, .. } = self;
        let Some(s) = conn.session(session) else { return };
        let Some(l) = s.link(link) else { return };
        let client_credit = l.sender_credit().credit();
        let waits = s.pending_len() > 0;
        let is_full = conn.output_len() >= cx.output_room;
        let Some(LinkRole::Outlet(consuming)) = role_in(sessions, session, link) else { return };
        let outlet = &mut consuming.outlet;
        // The links of a session with pending deliveries continue after these.
        let is_crowded = is_full && !waits && !outlet.copies();
        if is_crowded && outlet.wait_for_room() {
            crowded.push((session, link));
        }
        outlet.poll_grant(client_credit, waits || is_crowded, cx);
    }

    /// Continues the next link that reads a stream and waits for room. The links are served in the order in which they
    /// began to wait. The request of one link leads to the next call, for the link after it. So links that have nothing to
    /// request are passed over: they have ended, or their client has withdrawn the credit.
    pub(super) fn resume_reading(&mut self, cx: &mut Cx<'_>) {
        // Those that go on waiting, in their order.
        let mut without_room = Vec::new();
        while let Some((session, link)) = self.without_room.pop_front() {
            let has_room = has_room(&self.conn, session, cx);
            let Some(LinkRole::Outlet(consuming)) = self.role(session, link) else { continue };
            if !has_room && consuming.outlet.waits_for_room() {
                without_room.push((session, link));
            } else if consuming.outlet.resume(cx) {
                break;
            }
        }
        without_room.into_iter().rev().for_each(|waits| self.without_room.push_front(waits));
    }

    /// Continues all links that wait until more of the output is written.
    pub(super) fn resume_crowded(&mut self, cx: &mut Cx<'_>) {
        if self.conn.output_len() >= cx.output_room {
            return;
        }
        for (session, link) in std::mem::take(&mut self.crowded) {
            if let Some(LinkRole::Outlet(consuming)) = self.role(session, link) {
                consuming.outlet.resume(cx);
                self.touch(session, link);
            }
        }
    }

    /// Returns the consumers of this connection that read streams.
    pub fn stream_consumers(&self) -> impl Iterator<Item = (QueueId, ConsumerId)> {
        let links = self.sessions.iter().flatten().flat_map(|session| session.links.iter().flatten());
        links.filter_map(|role| match role {
            LinkRole::Outlet(link) if link.outlet.reads_stream() => {
                Some((link.outlet.queue, link.outlet.consumer))
            }
            _ => None,
        })
    }

    pub(super) fn handle_outlet_effect(&mut self, session: u16, link: u32, effect: Effect, cx: &mut Cx<'_>) {
        if let Effect::Delivery(delivery) = &effect {
            self.deliver(session, link, delivery.lend(), cx);
            return;
        }
        let Gate { sessions, conn, peer, .. } = self;
        let Some(LinkRole::Outlet(consuming)) = role_in(sessions, session, link) else { return };
        let left =
            || conn.session(session).and_then(|s| s.link(link)).map_or(0, |l| l.sender_credit().credit());
        let Consuming { outlet, attach, .. } = &mut **consuming;
        let word = outlet.handle_effect(&effect, left);
        match word {
            Some(PeerEvent::Credit(report)) => {
                conn.report_credit(session, link, report.available, report.drain)
            }
            Some(PeerEvent::Settled(settlement)) => self.put_settlement(session, &settlement),
            Some(PeerEvent::Active { active, available }) => {
                let mut properties = Map::new();
                properties.insert(Symbol::from_static(ACTIVE), Value::Boolean(active));
                conn.report_state(session, link, available, properties);
                return;
            }
            Some(PeerEvent::Attached) => {
                let Some(attach) = attach.take() else { return };
                if !outlet.browses {
                    peer.emit_consumer(outlet, (&attach.name, session), 0, &[], cx);
                }
                let (address, modes) = (queue_address(&outlet.queue_name), Modes::of(outlet));
                self.accept_consumer(session, link, &attach, &address, modes, cx);
            }
            Some(PeerEvent::Refused(why)) => {
                let (condition, reason) =
                    refused_by_queue(why, &outlet.queue_name, &self.peer.vhost, cx.catalog);
                let refusal = error(condition, reason);
                if let Some(attach) = attach.take() {
                    self.drop_link(session, link, true, cx);
                    self.refuse(session, link, &attach, Refused::Link(refusal), cx);
                }
                return;
            }
            Some(PeerEvent::Gone(GoneReason::QueueDeleted)) => {
                let queue = outlet.queue_name.clone();
                return self.detach_from_deleted(session, link, &queue, cx);
            }
            Some(PeerEvent::Gone(GoneReason::Damaged)) => {
                let (condition, reason) =
                    refused_by_queue(Refusal::Damaged, &outlet.queue_name, &self.peer.vhost, cx.catalog);
                return self.detach(session, link, error(condition, reason), cx);
            }
            Some(PeerEvent::Gone(GoneReason::OutOfReach { node })) => {
                let why = Refusal::OutOfReach { node };
                let (_, reason) = refused_by_queue(why, &outlet.queue_name, &self.peer.vhost, cx.catalog);
                return self.detach(session, link, error(condition::ILLEGAL_STATE, reason), cx);
            }
            Some(PeerEvent::Revoked { numbers, first }) => {
                self.handle_revoked(session, link, &numbers, first, cx);
            }
            // The client is told nothing in these cases.
            Some(PeerEvent::Gone(GoneReason::Cancelled | GoneReason::Detached)) | None => {}
        }
        self.touch(session, link);
    }

    /// Tells the client that deliveries have returned to the queue, because it has held them for too long. It still has to
    /// settle them, as with every state that is sent unsettled [2.6.12].
    fn handle_revoked(&mut self, session: u16, link: u32, numbers: &[Span], is_first: bool, cx: &mut Cx<'_>) {
        let mut runs = std::mem::take(&mut self.runs);
        for Span { first, last } in numbers {
            self.conn.find_unsettled(session, link, (*first, *last), &mut runs);
        }
        for run in &runs {
            let ids = (run.first_id, run.last_id);
            self.conn.disposition(session, Role::Sender, ids, false, &DeliveryState::Released);
        }
        let Gate { sessions, peer, .. } = self;
        if let Some(LinkRole::Outlet(link)) = role_in(sessions, session, link) {
            let outlet = &mut link.outlet;
            let (connection, queue, vhost) = (&*peer.name, &*outlet.queue_name, &*peer.vhost);
            let deliveries: u64 = numbers.iter().map(|span| span.last - span.first + 1).sum();
            match is_first {
                true => tracing::warn!(
                    name: PEER, target: CHANNEL, connection, queue, vhost, deliveries,
                    "a consumer holds deliveries for longer than its consumer timeout: they have returned to the queue, \
                     and it gets no more until it has settled them"
                ),
                false => {
                    tracing::debug!(name: PEER, target: CHANNEL, connection, queue, vhost, deliveries, "consumer timeout")
                }
            }
            outlet.await_revoked(runs.iter().flat_map(|run| run.first_cookie..=run.last_cookie), cx);
        }
        runs.clear();
        self.runs = runs;
    }

    /// Settles deliveries for a client that has sent their outcome and waits for the settlement.
    pub(super) fn put_settlement(&mut self, session: u16, settlement: &Settlement) {
        let Settlement { first_id, last_id, state } = settlement;
        self.conn.disposition(session, Role::Sender, (*first_id, *last_id), true, state);
    }

    /// Sends a delivery. Returns false if it comes from a stream and there is no room for it. It must then be offered
    /// again.
    pub(super) fn deliver(
        &mut self,
        session: u16,
        link: u32,
        lent: DeliveryRef<'_>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let DeliveryRef { number, seq, message, delivery_count, acquired_count, .. } = lent;
        let redelivered = lent.redelivered();
        if message.format() != Format::Amqp10 {
            return self.deliver_converted(session, link, lent, cx);
        }
        let Gate { sessions, conn, without_room, peer, .. } = self;
        let Some(LinkRole::Outlet(consuming)) = role_in(sessions, session, link) else { return true };
        let outlet = &mut consuming.outlet;
        if outlet.reads_stream() && !has_room(conn, session, cx) {
            if outlet.wait_for_room() {
                without_room.push_back((session, link));
            }
            return false;
        }
        outlet.handle_delivery(message);
        let settled = outlet.settled;
        let max = match outlet.message_bytes_max {
            Some(DeliveryMax::Whole(max)) => Some(max),
            // A limit of the other protocol.
            Some(DeliveryMax::Head(_)) | None => None,
        };
        let offset = outlet.reads_stream().then_some(seq);
        let (of, from) = message.bare_in();
        let bare = Part { of, from };
        let mut head = match outlet.is_quorum() && redelivered {
            true => cx.heads.head_after_return(message, delivery_count, acquired_count),
            false => cx.heads.head(message, delivery_count, redelivered, offset),
        };
        // The queue does not count the annotations about returns when it checks that a message fits.
        if max.is_some_and(|max| (head.len() + bare.len()) as u64 > max) {
            head = cx.heads.head(message, delivery_count, redelivered, offset);
        }
        // A message can be too large here only on a stream. A queue skips the consumer for such a message
        // instead.
        if let Some(max) = max
            && (head.len() + bare.len()) as u64 > max
        {
            cx.counters.deliveries_too_large += 1;
            let (name, vhost) = (outlet.queue_name.clone(), self.peer.vhost.clone());
            let reason = format!(
                "a message of queue '{name}' in vhost '{vhost}' is larger than the link's max-message-size of {max} bytes"
            );
            self.detach(session, link, error(condition::MESSAGE_SIZE_EXCEEDED, reason), cx);
            return true;
        }
        let outgoing = Outgoing {
            tag: Tag::from_number(number),
            settled,
            // Such a delivery cannot be returned: a queue has already removed messages that are sent settled,
            // and readers of streams and browsers never go back.
            irrevocable: settled || outlet.copies(),
            message_format: 0,
            head,
            bare,
            cookie: number,
        };
        if !conn.send(session, link, &outgoing) {
            outlet.give_back(number, cx);
            return true;
        }
        outlet.note_sent(&lent, cx, || conn.oldest_unsettled(session, link));
        if let Some(traces) = cx.traces {
            peer.trace_delivered(traces, session, &outlet.queue_name, message, redelivered, cx);
        }
        self.touch(session, link);
        true
    }

    /// Sends a delivery of a message of another protocol.
    #[inline(never)]
    fn deliver_converted(&mut self, session: u16, link: u32, lent: DeliveryRef<'_>, cx: &mut Cx<'_>) -> bool {
        let message = &lent.message.in_amqp10();
        self.deliver(session, link, DeliveryRef { message, ..lent }, cx)
    }

    /// Handles the client's outcome for deliveries (docs/compatibility.md, Consuming).
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
            let Some(LinkRole::Outlet(link)) = self.role(session, run.link) else { continue };
            // A client that has not settled waits for the broker to settle, and the broker waits for the queue.
            let asked = state.as_ref().filter(|_| !settled).map(|state| Settlement {
                first_id: run.first_id,
                last_id: run.last_id,
                state: state.clone(),
            });
            link.outlet.settle((run.first_cookie, run.last_cookie), outcome.clone(), asked, cx);
            self.touch(session, run.link);
        }
        runs.clear();
        self.runs = runs;
    }
}

/// Returns true if the next delivery of a stream can leave on this session now. Otherwise it stays where it was read
/// (docs/decisions/0024).
fn has_room(conn: &Connection, session: u16, cx: &Cx<'_>) -> bool {
    let session = conn.session(session);
    let is_open = session.is_some_and(|s| s.pending_len() == 0 && s.remote_incoming_window() > 0);
    is_open && conn.output_len() < cx.output_room
}

/// Converts a client's delivery state into an outcome for the queue. Returns `None` if the state is not final. An error
/// is a condition and a description.
fn outcome(settled: bool, state: Option<&DeliveryState>) -> Result<Option<Outcome>, (Symbol, String)> {
    Ok(Some(match state {
        Some(DeliveryState::Accepted) => Outcome::Accepted,
        Some(DeliveryState::Rejected(_)) => Outcome::Rejected,
        Some(DeliveryState::Released) => Outcome::Released,
        // [3.4] If the client settles without a state, the default outcome of the broker's source applies.
        None if settled => Outcome::Released,
        Some(DeliveryState::Modified(modified)) => Outcome::Modified {
            failed: modified.delivery_failed.unwrap_or(false),
            undeliverable_here: modified.undeliverable_here.unwrap_or(false),
            annotations: annotations(modified)?,
        },
        // The state is not final, and the broker does not store such states.
        None | Some(DeliveryState::Received(_)) if !settled => return Ok(None),
        _ => return Err((condition::INVALID_FIELD, "unrecognised delivery state".to_owned())),
    }))
}

/// [3.4.5] Returns the annotations that the client sets on the message.
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

/// Maps a queue's refusal to a condition and a description.
pub(super) fn refused_by_queue(
    why: Refusal,
    queue: &str,
    vhost: &str,
    catalog: &Catalog,
) -> (Symbol, String) {
    let name = |node: Option<u32>| node.map(|node| name_of_node(catalog, NodeId(node)));
    match why {
        Refusal::NotFound => (condition::NOT_FOUND, format!("no queue '{queue}' in vhost '{vhost}'")),
        Refusal::ExclusiveConsumer => (
            condition::UNAUTHORIZED_ACCESS,
            format!("queue '{queue}' in vhost '{vhost}' has an exclusive consumer"),
        ),
        Refusal::InUse => {
            (condition::PRECONDITION_FAILED, format!("queue '{queue}' in vhost '{vhost}' is in use"))
        }
        Refusal::NotEmpty => {
            (condition::PRECONDITION_FAILED, format!("queue '{queue}' in vhost '{vhost}' is not empty"))
        }
        Refusal::NotSupported => (
            condition::NOT_IMPLEMENTED,
            format!("queue '{queue}' in vhost '{vhost}' has a type that does not support this"),
        ),
        Refusal::Unavailable => (
            condition::INTERNAL_ERROR,
            format!("queue '{queue}' in vhost '{vhost}' cannot be opened: the disk has failed"),
        ),
        Refusal::OutOfReach { node } => (
            condition::PRECONDITION_FAILED,
            format!("queue '{queue}' in vhost '{vhost}' {}", out_of_reach(name(node).as_deref())),
        ),
        Refusal::OutcomeUnknown { node } => (
            condition::INTERNAL_ERROR,
            format!("queue '{queue}' in vhost '{vhost}' {}", outcome_unknown(name(node).as_deref())),
        ),
        Refusal::NoLeader => {
            (condition::INTERNAL_ERROR, format!("queue '{queue}' in vhost '{vhost}' {NO_LEADER}"))
        }
        Refusal::TooManyBrowsers => (
            condition::RESOURCE_LIMIT_EXCEEDED,
            format!("queue '{queue}' in vhost '{vhost}' has as many browsers as it may have"),
        ),
        Refusal::Damaged => {
            (condition::INTERNAL_ERROR, format!("queue '{queue}' in vhost '{vhost}' is damaged on the disk"))
        }
    }
}
