//! The AMQP 1.0 gate: translates between the frames of a connection and the contract (`docs/contract.md`).
//!
//! There is one [`Gate`] per connection. It decides nothing that concerns other components. Requests to queues and to
//! the catalog leave as mail in the [`Cx`], and the answers arrive at its `handle_*` methods. [`Gate::flush`] writes
//! the frames that result from a turn (iteration of the shard's event loop): dispositions, detaches, grants, in this
//! order.

mod address;
mod asking;
mod attach;
mod dynamic;
mod ends;
mod filter;
mod flush;
mod follow;
mod frames;
mod inbound;
mod intake;
mod management;
mod margin;
mod node_address;
mod open;
mod outbound;
mod parted;
mod refusal;
mod replies;
mod report;
mod rights;

use std::collections::VecDeque;

use amqp10::frame::FrameError::TooLarge;
use amqp10::{
    AmqpError, Chunk, Connection, DispositionRange, Event, Fault, Flow, Map, Output, Radius, Role,
    SessionConfig, Symbol, Violation, condition,
};
use bytes::Bytes;
use catalog::access::AccessRefused;
use catalog::names::cut;
use catalog::reply_to::ReplyTo;
use catalog::{Answer, CatalogError};
use hashbrown::HashMap;
use queue::{DeliveryRef, Effect, Ticket};

use self::asking::Deferred;
use self::ends::HeldAnswer;
use self::follow::HeldAttach;
use self::intake::Published;
use self::management::Pair;
use self::margin::Margin;
use self::outbound::Consuming;
use self::parted::PartedLinks;
use self::replies::Replies;
use super::{BadFrame, Ending, Phase, take};
use crate::admin_api::PassedCounts;
use crate::client_budget::Unread;
use crate::cx::Cx;
use crate::follow::Follow;
use crate::input::Input;
use crate::intake::{Intake, Unanswered};
use crate::mail::GateAddress;
use crate::own_queues::OwnQueues;
use crate::peer::Peer;
use crate::settings::{ANSWERS_MAX, CHANNEL_BYTES, LINK_BYTES, Settings};

pub use address::{Address, BadAddress, queue_address};

/// The state of a session.
#[derive(Debug, Default)]
struct Session {
    links: Vec<Option<LinkRole>>,
    /// Dispositions of deliveries that the client has sent, to be written at the end of the turn.
    dispositions: Vec<DispositionRange>,
    /// What passed over the links that have ended.
    past: PassedCounts,
    /// True if the client has ended it, and the answer waits. It has no links any more.
    has_ended: bool,
}

/// The purpose of a link.
#[derive(Debug)]
enum LinkRole {
    /// A link on which the client publishes.
    Intake(Box<Intake<Published>>),
    /// A link on which the client consumes.
    Outlet(Box<Consuming>),
    /// A link on which the client receives direct replies, which pass no queue.
    Replies(Box<Replies>),
    /// One of the two links of a management pair.
    Requests {
        pair: u32,
    },
    Responses {
        pair: u32,
    },
}

/// The client at the other end.
#[derive(Clone, Debug, Default)]
pub struct Client {
    pub container_id: String,
    pub properties: Option<Map>,
    /// The bytes of memory that the properties take.
    property_bytes: usize,
}

/// The request for whose answer a ticket waits.
#[derive(Debug)]
enum Waiting {
    Management {
        pair: u32,
        request: management::Pending,
    },
    /// The node of this link is being made.
    Making {
        session: u16,
        link: u32,
        attach: Box<amqp10::Attach>,
        step: dynamic::Step,
        /// The FLOWs that arrived in the meantime, merged into one.
        flow: Option<Box<Flow>>,
    },
    /// The link has the address of a reply link, which may or may not exist.
    Replies {
        session: u16,
        link: u32,
        attach: Box<amqp10::Attach>,
        to: ReplyTo,
    },
    /// What the client wants is held until it is known whether it may, or where a message goes.
    Deferred(Box<Deferred>),
    /// The answer to a login that is being checked.
    Login {
        mechanism: &'static str,
        /// The name that the client has sent, or that of its certificate or of the user for anonymous logins.
        user: Box<str>,
    },
}

impl Waiting {
    /// Returns true if a client waits for the response that this queue was deleted.
    fn deletes(&self, queue: &str) -> bool {
        matches!(self, Self::Management { request, .. } if request.deletes(queue))
    }
}

/// One connection of an AMQP 1.0 client.
#[derive(Debug)]
pub struct Gate {
    pub(super) peer: Peer,
    conn: Connection,
    pub(super) phase: Phase,
    client: Client,
    sessions: Vec<Option<Box<Session>>>,
    pairs: slab::Slab<Pair>,
    waiting: HashMap<Ticket, Waiting>,
    /// The exclusive queues of the connection, and the answers that wait for their deletion.
    own: OwnQueues<HeldAnswer>,
    /// Boxed because few connections have one.
    parted: Option<Box<PartedLinks>>,
    /// The links that have something to do at the end of the turn, by session and link.
    touched: Vec<(u16, u32)>,
    /// The links that read streams and wait for room, in the order in which they continue.
    without_room: VecDeque<(u16, u32)>,
    /// The links that ask their queues for more when more of the output is written.
    crowded: Vec<(u16, u32)>,
    follow: Follow<HeldAttach>,
    /// A buffer for the runs to which a DISPOSITION is resolved. It is reused.
    runs: Vec<amqp10::Run>,
    /// True if publishing is stopped, by an alarm or because the node is stopping.
    blocked: bool,
    /// What arrived while publishing is stopped, and is held until then.
    margin: Margin,
    unanswered: Unanswered<Published>,
}

impl Gate {
    pub fn new(peer: Peer, blocked: bool, settings: &Settings) -> Self {
        let config = amqp10::connection::Config {
            max_frame_size: settings.frame_max,
            initial_max_frame_size: settings.initial_frame_max,
            channel_max: settings.session_max_per_connection.saturating_sub(1),
            idle_time_out_ms: settings.heartbeat_s.saturating_mul(1000),
            incomplete_bytes_max: usize::try_from(settings.connection_unfinished_memory())
                .unwrap_or(usize::MAX),
            session: SessionConfig {
                incoming_window: settings.max_incoming_window,
                handle_max: settings.link_max_per_session.saturating_sub(1),
            },
        };
        Self {
            conn: Connection::server(config, peer.connected_at_ms),
            peer,
            phase: Phase::Handshake,
            client: Client::default(),
            sessions: Vec::new(),
            pairs: slab::Slab::new(),
            waiting: HashMap::new(),
            own: OwnQueues::default(),
            parted: None,
            touched: Vec::new(),
            without_room: VecDeque::new(),
            crowded: Vec::new(),
            follow: Follow::default(),
            runs: Vec::new(),
            blocked,
            margin: Margin::new(settings),
            unanswered: Unanswered::default(),
        }
    }

    /// Returns the sans-IO connection. The caller writes its output and splits its input.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.conn
    }

    /// Returns true if nothing has arrived from the client.
    pub(super) fn is_new(&self) -> bool {
        self.conn.state() == amqp10::ConnectionState::Header
    }

    pub fn output(&mut self) -> &mut Output {
        self.conn.output()
    }

    pub fn handle_written(&mut self, written: usize, now_ms: u64) {
        self.conn.handle_written(now_ms);
        if self.conn.answers_len() + written >= ANSWERS_MAX {
            // What the client has sent meanwhile was not read, and it has shown that it is alive.
            self.conn.forgive_silence(now_ms);
        }
    }

    pub fn handle_heartbeats(&mut self, input: &[u8], now_ms: u64) -> usize {
        self.conn.handle_heartbeats(input, now_ms)
    }

    pub fn incomplete_bytes(&mut self) -> usize {
        self.conn.incomplete_bytes() + self.held_bytes()
    }

    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, BadFrame> {
        self.conn.frame_len(input).map_err(|_| BadFrame)
    }

    pub fn handle_bad_frame(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        if let Err(fault) = self.conn.frame_len(input) {
            self.handle_fault(&fault, cx);
        }
    }

    // ---- from the socket --------------------------------------------------------------------------------

    /// Returns true if the socket is to be read. A connection that is done is read until its end.
    pub fn takes_input(&self) -> bool {
        match self.phase {
            // This protocol does not wait for the answer to CLOSE.
            Phase::Closing | Phase::Done => true,
            // In this protocol, windows stop publishers.
            Phase::Login | Phase::Asking | Phase::Stopped => false,
            Phase::Handshake | Phase::Refused | Phase::Open => self.has_room_for_answers(),
        }
    }

    /// Returns the bytes that are kept of what the client has said: its name and properties, and the ATTACHes of its links.
    fn kept_bytes(&self) -> usize {
        self.conn.attached_bytes() + self.client.container_id.len() + self.client.property_bytes
    }

    /// Returns the bytes that are kept for the client: what it has said, and its links and its further sessions themselves.
    pub fn state_bytes(&self) -> usize {
        let sessions = self.conn.sessions().count().saturating_sub(1);
        self.kept_bytes() + self.conn.link_count() * LINK_BYTES + sessions * CHANNEL_BYTES
    }

    pub fn unread(&self) -> Unread {
        Unread::new(self.conn.unread_bytes(), self.conn.answers_held())
    }

    /// Returns the bytes of memory that deliveries in the output keep.
    pub fn deliveries_held(&self) -> usize {
        self.conn.deliveries_held()
    }

    pub fn has_room_for_answers(&self) -> bool {
        self.conn.answers_len() < ANSWERS_MAX
    }

    /// Handles the whole frames at the start of `input` that are shorter than `large` bytes, as long as the phase
    /// allows input. Returns their length in bytes. The rest starts with a large or incomplete frame, unless input is
    /// not handled any more.
    pub fn handle_input<'a>(&mut self, input: &'a [u8], large: usize, cx: &mut Cx<'a>) -> usize {
        cx.input = Input::new(input, large, frames::small_frames);
        let mut rest = input;
        while self.phase.listens() && self.moves_to().is_none() {
            match self.conn.frame_len(rest) {
                Ok(Some(len)) if len <= rest.len() && len < large => {
                    let (frame, behind) = rest.split_at(len);
                    self.handle_chunk(Chunk::Borrowed(frame), cx);
                    rest = behind;
                }
                Ok(_) => break,
                Err(fault) => self.handle_fault(&fault, cx),
            }
        }
        input.len() - rest.len()
    }

    /// Handles one whole frame or protocol header, in a buffer that may be retained.
    pub fn handle_frame(&mut self, frame: Bytes, cx: &mut Cx<'_>) {
        self.handle_chunk(Chunk::Owned(frame), cx);
    }

    fn handle_chunk(&mut self, input: Chunk<'_>, cx: &mut Cx<'_>) {
        if !self.phase.listens() {
            return;
        }
        match self.conn.handle_frame(input, cx.now_ms) {
            Ok(Some(event)) => self.handle_event(event, cx),
            Ok(None) => {}
            Err(fault) => self.handle_fault(&fault, cx),
        }
    }

    fn handle_event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        match event {
            Event::Transfer { session, link, ref delivery } => {
                self.handle_transfer(session, link, delivery, cx);
            }
            Event::Disposition { session, role: Role::Receiver, settled, state, first, last } => {
                self.handle_disposition(session, settled, state, (first, last), cx);
            }
            // A publisher's DISPOSITION of its own deliveries changes nothing (docs/compatibility.md, Publishing). If
            // it settles first, the outcome is decided already.
            Event::Disposition { .. } => {}
            Event::Flow { session, link: Some(link), flow } => self.handle_flow(session, link, &flow),
            Event::Flow { session, link: None, .. } => self.touch_session(session),
            Event::Discarded { session, link } => self.touch(session, link),
            Event::HeaderExchanged => self.offer_mechanisms(cx),
            Event::SaslInit(init) => self.handle_sasl_init(&init, cx),
            Event::Open(open) => self.handle_open(*open, cx),
            Event::Close(error) => self.handle_close(error.as_ref(), cx),
            Event::Begin { session, .. } => self.handle_begin(session, cx),
            Event::End { session, error, answered } => self.handle_end(session, error.as_ref(), answered, cx),
            Event::Attach { session, link, attach } => {
                self.forget_ended_link(session, link);
                match self.check_size(&attach) {
                    Ok(()) => self.attach_or_follow(session, link, attach, cx),
                    Err(refused) => self.refuse(session, link, &attach, refused, cx),
                }
            }
            Event::Detach { session, link, answered, .. } => {
                if !answered {
                    let before = self.own.deletions();
                    // Whoever detaches has not failed. But classic queues count every return (docs/compatibility.md,
                    // Quorum queues).
                    let failed = match self.role_of(session, link) {
                        Some(LinkRole::Outlet(link)) => !link.outlet.reads_quorum(),
                        _ => true,
                    };
                    self.drop_link(session, link, failed, cx);
                    self.answer_after_deletions(HeldAnswer::Detach { session, link }, before, cx);
                }
            }
            Event::SaslMechanisms(_) | Event::SaslOutcome(_) => {}
        }
    }

    /// Reacts to a violation by ending the link, the session or the connection that it affects.
    fn handle_fault(&mut self, fault: &Fault, cx: &mut Cx<'_>) {
        let mut error = fault.violation.to_error();
        if self.phase == Phase::Handshake && matches!(fault.violation, Violation::Framing(TooLarge { .. })) {
            error.description.iter_mut().for_each(|why| {
                *why += "; before OPEN, for instance for a token, initial_frame_max sets the maximum";
            });
        }
        let link = fault.session.zip(fault.link).and_then(|(s, l)| self.conn.session(s)?.link(l));
        if let Some((link, description)) = link.zip(error.description.as_mut()) {
            *description += &format!(" on link '{}'", shown(&link.name));
        }
        // A management pair needs both of its links (docs/compatibility.md, Management over AMQP).
        let radius = match (fault.radius(), fault.session, fault.link) {
            (Radius::Link, Some(session), Some(link))
                if matches!(self.role(session, link), Some(LinkRole::Requests { .. })) =>
            {
                Radius::Session
            }
            (radius, ..) => radius,
        };
        match (radius, fault.session, fault.link) {
            (Radius::Link, Some(session), Some(link)) => self.detach(session, link, error, cx),
            (Radius::Session, Some(session), _) => self.end(session, error, cx),
            _ => self.fail(error, cx),
        }
    }

    // ---- sessions ---------------------------------------------------------------------------------------

    fn handle_begin(&mut self, session: u16, cx: &mut Cx<'_>) {
        cx.counters.channels_opened += 1;
        let at = usize::from(session);
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        self.forget_ended_session(session, cx);
        self.sessions[at] = Some(Box::default());
        self.conn.begin(Some(session), !self.blocked);
        if let Err(full) = self.peer.begin_session(cx) {
            self.end(session, error(condition::RESOURCE_LIMIT_EXCEEDED, full), cx);
        }
    }

    // ---- links --------------------------------------------------------------------------------------------

    fn role(&mut self, session: u16, link: u32) -> Option<&mut LinkRole> {
        role_in(&mut self.sessions, session, link)
    }

    fn role_of(&self, session: u16, link: u32) -> Option<&LinkRole> {
        self.sessions.get(usize::from(session))?.as_ref()?.links.get(link as usize)?.as_ref()
    }

    fn role_at(&self, place: u64) -> Option<&LinkRole> {
        let (session, link) = parts(place);
        self.role_of(session, link)
    }

    /// Returns the address of a link of this connection in mail.
    fn address(&self, session: u16, link: u32) -> GateAddress {
        GateAddress { connection: self.peer.key, place: place(session, link) }
    }

    fn set_role(&mut self, session: u16, link: u32, role: LinkRole) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(session)) else { return };
        let at = link as usize;
        if session.links.len() <= at {
            session.links.resize_with(at + 1, || None);
        }
        session.links[at] = Some(role);
    }

    /// Notes that a link has something to do at the end of the turn (iteration of the shard's event loop).
    fn touch(&mut self, session: u16, link: u32) {
        if self.touched.last() != Some(&(session, link)) {
            self.touched.push((session, link));
        }
    }

    /// Notes that dispositions are to be written at the end of the turn.
    fn touch_dispositions(&mut self, session: u16) {
        // No link is needed: the number may belong to one or to none.
        self.touch(session, 0);
    }

    fn touch_session(&mut self, session: u16) {
        let links =
            self.sessions.get(usize::from(session)).and_then(Option::as_ref).map_or(0, |s| s.links.len());
        for link in 0..links {
            self.touched.push((session, link as u32));
        }
    }

    // ---- from queues and the catalog ------------------------------------------------------------------------

    /// Handles an effect of a queue; see [`super::Gate::handle_effect`].
    pub fn handle_effect(&mut self, at: u64, effect: Effect, cx: &mut Cx<'_>) {
        let (session, link) = parts(at);
        self.handle_outlet_effect(session, link, effect, cx);
    }

    /// Offers a delivery to a consumer; see [`super::Gate::handle_delivery`].
    pub fn handle_delivery(&mut self, at: u64, lent: DeliveryRef<'_>, cx: &mut Cx<'_>) -> bool {
        let (session, link) = parts(at);
        self.deliver(session, link, lent, cx)
    }

    /// Handles a queue's answer to a ticket of this connection.
    pub fn handle_ticket(&mut self, ticket: Ticket, effect: Effect, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        if self.own.handle_ticket(ticket) {
            return self.deletion_done(cx);
        }
        match take(&mut self.waiting, ticket) {
            Some(Waiting::Management { pair, request }) => {
                self.finish_queue_request(pair, request, effect, cx);
            }
            Some(Waiting::Replies { session, link, attach, to }) => {
                self.finish_probe((session, link), &attach, to, &effect, cx);
            }
            Some(Waiting::Making { .. } | Waiting::Login { .. } | Waiting::Deferred(_)) | None => {}
        }
    }

    /// Handles the catalog's answer to a ticket of this connection.
    pub fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        match take(&mut self.waiting, ticket) {
            Some(Waiting::Management { pair, request }) => self.finish_command(pair, request, result, cx),
            Some(Waiting::Making { session, link, attach, step, flow }) => {
                self.continue_making((session, link), attach, step, result, cx);
                // If the link has a role now, it answers the FLOW. Otherwise it still waits, and stores the
                // FLOW again.
                flow.into_iter().for_each(|flow| self.handle_flow(session, link, &flow));
            }
            Some(Waiting::Replies { .. } | Waiting::Login { .. } | Waiting::Deferred(_)) | None => {}
        }
    }

    /// Called when the queue was deleted to which a link of this connection publishes.
    pub fn handle_target_gone(&mut self, at: u64, queue: &str, cx: &mut Cx<'_>) {
        let (session, link) = parts(at);
        if matches!(self.role(session, link), Some(LinkRole::Intake(_))) {
            self.detach_from_deleted(session, link, queue, cx);
        }
    }

    /// Creates a ticket whose answer returns to this connection.
    fn ticket(&mut self, waiting: Waiting, cx: &mut Cx<'_>) -> Option<Ticket> {
        let ticket = self.peer.ticket(cx)?;
        self.waiting.insert(ticket, waiting);
        Some(ticket)
    }

    // ---- time -----------------------------------------------------------------------------------------------

    /// Returns when [`Gate::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        let of_protocol = self.conn.next_deadline().into_iter().chain(self.answers_deadline()).min();
        self.phase.next_deadline(&self.peer, of_protocol)
    }

    pub fn forgive_lateness(&mut self, late_ms: u64, now_ms: u64) {
        self.peer.forgive_lateness(late_ms);
        self.conn.forgive_lateness(late_ms, now_ms);
    }

    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.phase.is_open()
            && let Some(why) = self.peer.take_refused_renewal(cx.now_ms)
        {
            return self.refuse_renewal(why, cx);
        }
        match self.phase {
            Phase::Handshake if cx.now_ms >= self.peer.handshake_deadline_ms => self.time_out_handshake(cx),
            // The login was right, and OPEN waits for an answer.
            Phase::Login if cx.now_ms >= self.peer.handshake_deadline_ms && self.peer.identity.is_some() => {
                self.time_out_handshake(cx);
            }
            Phase::Login if cx.now_ms >= self.peer.handshake_deadline_ms => self.time_out_login(cx),
            Phase::Refused if cx.now_ms >= self.peer.handshake_deadline_ms => self.report_refusal(),
            Phase::Open | Phase::Asking if self.peer.is_expired(cx.now_ms) => {
                self.fail(error(condition::UNAUTHORIZED_ACCESS, "credential expired"), cx);
            }
            Phase::Open | Phase::Asking => {
                if self.phase == Phase::Asking {
                    self.conn.forgive_silence(cx.now_ms);
                }
                if let Err(fault) = self.conn.handle_timeout(cx.now_ms) {
                    self.handle_fault(&fault, cx);
                }
                self.send_held_answers(cx);
            }
            _ => {}
        }
    }
}

/// Returns the role of a link. For callers that need other parts of the gate at the same time.
fn role_in(sessions: &mut [Option<Box<Session>>], session: u16, link: u32) -> Option<&mut LinkRole> {
    sessions.get_mut(usize::from(session))?.as_mut()?.links.get_mut(link as usize)?.as_mut()
}

/// Returns a link as one number.
fn place(session: u16, link: u32) -> u64 {
    u64::from(session) << 32 | u64::from(link)
}

/// Returns the session and the link that [`place`] has combined.
fn parts(place: u64) -> (u16, u32) {
    ((place >> 32) as u16, place as u32)
}

/// Formats a name of the client for an error.
fn shown(name: &str) -> String {
    cut(name).escape_default().to_string()
}

/// Formats an error of the client for the log.
fn shown_error(error: &AmqpError) -> String {
    let description = error.description.as_deref().unwrap_or("no reason given");
    format!("{}: {}", shown(error.condition.as_str()), shown(description))
}

/// Creates an error with a description.
fn error(condition: Symbol, description: impl Into<String>) -> AmqpError {
    AmqpError { condition, description: Some(description.into()), info: None }
}

/// Creates the error of what a client may not do.
fn unauthorized(refused: AccessRefused) -> AmqpError {
    error(condition::UNAUTHORIZED_ACCESS, refused.reason)
}
