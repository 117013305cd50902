//! The AMQP 0.9.1 gate: translates between the methods of a connection and the contract (`docs/contract.md`).
//!
//! There is one [`Gate`] per connection. Requests to queues and to the catalog leave as mail in the [`Cx`], and the answers
//! arrive at its `handle_*` methods. [`Gate::flush`] writes what results from a turn (iteration of the shard's event loop):
//! confirms, settlements and grants.
//!
//! The methods of a channel take effect in their order. A method that waits for an answer of the catalog or of a queue
//! holds up the input of its connection until then ([`Phase::Asking`]). A commit holds up its channel only ([`tx`]).

mod arguments;
mod channel;
mod confirms;
mod consume;
mod ends;
mod exchanges;
mod flush;
mod get;
mod held;
mod login;
mod long_headers;
mod publish;
mod queues;
mod refusal;
mod replies;
mod report;
mod rights;
mod settle;
mod tx;
mod unsettled;

use std::collections::VecDeque;
use std::sync::Arc;

use amqp091::{Config, Connection, Event, Fault, Method, Output};
use bytes::{Bytes, BytesMut};
use catalog::{Answer, CatalogError};
use hashbrown::HashMap;
use queue::{DeliveryRef, Effect, Ticket};

use self::channel::{Channel, Role};
use self::confirms::Published;
use self::ends::HeldAnswer;
use self::held::Deferred;
use self::login::Client;
use self::queues::QueueStep;
use self::refusal::Refused;
use super::{BadFrame, Phase, take};
use crate::client_budget::Unread;
use crate::cx::Cx;
use crate::follow::Follow;
use crate::input::Input;
use crate::intake::Unanswered;
use crate::kept::KeptBytes;
use crate::mail::GateAddress;
use crate::own_queues::OwnQueues;
use crate::peer::Peer;
use crate::settings::{ANSWERS_MAX, CHANNEL_BYTES, LINK_BYTES, Settings};

/// The protocol header of AMQP 0.9.1 and those of its predecessors start with these bytes. The headers of AMQP 1.0 are
/// told apart by [`is_header`].
const HEADER: &[u8; 4] = b"AMQP";

/// If this many bytes of output are unwritten, no more messages are requested from queues.
const OUTPUT_HIGH_WATER: usize = buffers::HIGH_WATER;

/// Stands for the publisher of a channel in the places of [`place`]. The other numbers are those of its roles.
const PUBLISHER: u32 = u32::MAX;

/// Stands for the consumer of direct replies of a channel.
const REPLIES: u32 = u32::MAX - 1;

/// The request for whose answer a ticket waits.
#[derive(Debug)]
enum Waiting {
    Login {
        mechanism: &'static str,
        /// The name that the client has sent, or that of its certificate or of the user for anonymous logins.
        user: Box<str>,
    },
    /// The check of a new secret (`connection.update-secret`).
    Renewal,
    /// What the client wants is held until it is known whether it may, or where a message goes.
    Deferred(Box<Deferred>),
    /// The answer to a method about a queue.
    Queue { channel: u16, step: QueueStep },
    /// The catalog's answer to a method, which is then answered by this one. `None` if the client wants no answer.
    Command { channel: u16, failed: (u16, u16), answer: Option<Method<'static>> },
    /// The answer to `basic.get`, for the holder at this place.
    Fetch { channel: u16, holder: u32, queue: Arc<str>, settled: bool },
}

/// One connection of an AMQP 0.9.1 client.
#[derive(Debug)]
pub struct Gate {
    pub(super) peer: Peer,
    conn: Connection,
    pub(super) phase: Phase,
    client: Client,
    /// What is kept of the client and its consumers.
    kept: KeptBytes,
    channels: Vec<Option<Box<Channel>>>,
    /// The number of channels that are open.
    open_channels: usize,
    waiting: HashMap<Ticket, Waiting>,
    /// The exclusive queues of the connection, and the answers that wait for their deletion.
    own: OwnQueues<HeldAnswer>,
    /// The channels and roles that have something to do at the end of the turn.
    touched: Vec<(u16, u32)>,
    /// The consumers that wait until the client has read what it was sent.
    without_room: VecDeque<(u16, u32)>,
    /// The channels whose consumers share a limit and may have more room since the last turn.
    shared_room_grew: Vec<u16>,
    follow: Follow<Deferred>,
    /// A buffer for the property list of a delivery. It is reused.
    properties: BytesMut,
    /// True if publishing is stopped, by an alarm or because the node is stopping.
    blocked: bool,
    /// True if a message may be handled at once. It is false until the first message, and again after each change of `blocked`.
    publishes_freely: bool,
    /// What is held in [`Phase::Stopped`].
    stopped: Option<Box<Deferred>>,
    unanswered: Unanswered<Published>,
    /// True if the client was told that publishing is stopped.
    knows_blocked: bool,
    /// True if a channel has had transactions.
    has_tx: bool,
    /// The channels on which something waits for the end of a commit. The socket is not read until then.
    held: Vec<u16>,
    /// True if a channel has used up its credit for publishing. The socket is not read until the queues catch up.
    has_debt: bool,
    /// When the socket is closed without the client's answer to `connection.close`, in milliseconds.
    close_deadline_ms: u64,
}

/// Returns true if this is the start of a connection that this gate serves or refuses: the headers of AMQP 0.9.1 start with
/// two zeros after the name, those of 0.9 and 0.8 with two ones. In AMQP 1.0, the second number is always the major version.
pub fn is_header(input: &[u8]) -> bool {
    input.len() >= 8 && input.starts_with(HEADER) && matches!(input[4..6], [0, 0] | [1, 1])
}

impl Gate {
    pub fn new(peer: Peer, blocked: bool, settings: &Settings) -> Self {
        let config = Config {
            channel_max: settings.channel_max,
            frame_max: settings.frame_max,
            initial_frame_max: settings.initial_frame_max,
            heartbeat_s: u16::try_from(settings.heartbeat_s).unwrap_or(u16::MAX),
            max_message_size: settings.max_message_size,
            incomplete_bytes_max: usize::try_from(settings.connection_unfinished_memory())
                .unwrap_or(usize::MAX),
        };
        Self {
            conn: Connection::server(config, peer.connected_at_ms),
            phase: Phase::Handshake,
            peer,
            client: Client::default(),
            kept: KeptBytes::default(),
            channels: Vec::new(),
            open_channels: 0,
            waiting: HashMap::new(),
            own: OwnQueues::default(),
            touched: Vec::new(),
            without_room: VecDeque::new(),
            shared_room_grew: Vec::new(),
            follow: Follow::default(),
            properties: BytesMut::new(),
            blocked,
            publishes_freely: false,
            stopped: None,
            unanswered: Unanswered::default(),
            knows_blocked: false,
            has_tx: false,
            held: Vec::new(),
            has_debt: false,
            close_deadline_ms: u64::MAX,
        }
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

    pub fn incomplete_bytes(&self) -> usize {
        self.conn.incomplete_bytes() + self.held_bytes()
    }

    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, BadFrame> {
        self.conn.frame_len(input).map_err(|_| BadFrame)
    }

    pub fn handle_bad_frame(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        if let Err(fault) = self.conn.frame_len(input) {
            self.handle_fault(fault, cx);
        }
    }

    // ---- from the socket --------------------------------------------------------------------------------

    /// Returns true if the socket is to be read. It is not read while a publisher is ahead of its queues, and while a message
    /// is held because of an alarm. A connection that is done is read until its end.
    pub fn takes_input(&self) -> bool {
        match self.phase {
            Phase::Closing | Phase::Done => true,
            Phase::Login | Phase::Asking | Phase::Stopped => false,
            Phase::Handshake | Phase::Refused => self.has_room_for_answers(),
            Phase::Open => self.has_room_for_answers() && !self.is_ahead() && self.held.is_empty(),
        }
    }

    /// Returns the bytes that are kept of what the client has said: its properties, and the tags and arguments of its consumers.
    fn kept_bytes(&self) -> usize {
        self.kept.sum() + self.client.property_bytes
    }

    /// Returns the bytes that are kept for the client: what it has said, and its consumers and its further channels
    /// themselves.
    pub fn state_bytes(&self) -> usize {
        let channels = self.open_channels.saturating_sub(1);
        self.kept_bytes() + self.kept.parts() * LINK_BYTES + channels * CHANNEL_BYTES
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
        // Each message is copied by itself, because its parts are in several frames.
        cx.input = Input::default();
        let mut rest = input;
        while self.phase.listens() && self.follow.moves_to().is_none() {
            let (used, result) = self.conn.handle_input(rest, large, cx.now_ms);
            rest = &rest[used..];
            match result {
                Ok(Some(event)) => self.handle_event(event, cx),
                Ok(None) if used == 0 => break,
                Ok(None) => {}
                Err(fault) => self.handle_fault(fault, cx),
            }
        }
        input.len() - rest.len()
    }

    /// Handles one whole frame or protocol header, in a buffer that may be retained.
    pub fn handle_frame(&mut self, frame: Bytes, cx: &mut Cx<'_>) {
        if !self.phase.listens() {
            return;
        }
        match self.conn.handle_frame(&frame, cx.now_ms) {
            Ok(Some(event)) => self.handle_event(event, cx),
            Ok(None) => {}
            Err(fault) => self.handle_fault(fault, cx),
        }
    }

    fn handle_event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        match event {
            Event::Content { channel, content } => self.handle_content(channel, &content, cx),
            Event::Method { channel, method } if self.is_committing(channel) => {
                self.hold_behind_commit(channel, Deferred::method(channel, &method));
            }
            Event::Method { channel, method } => self.handle_method(channel, &method, cx),
            Event::HeaderExchanged => self.offer_mechanisms(cx),
            Event::BadHeader => self.phase = Phase::Done,
            Event::StartOk(start_ok) => self.handle_start_ok(&start_ok, cx),
            Event::Tuned => {}
            Event::Open(vhost) => self.handle_open(vhost, cx),
            Event::UpdateSecret(update) => self.handle_update_secret(&update, cx),
            Event::Close { code, text, .. } => self.handle_close(code, text, cx),
            Event::Closed => self.phase = Phase::Done,
            Event::ChannelOpened(channel) => self.handle_channel_opened(channel, cx),
            Event::ChannelClose { channel, code, text, .. } => {
                self.handle_channel_close(channel, code, text, cx)
            }
            Event::ChannelClosed(_) => {}
            // No mechanism has a challenge, and the others are for clients.
            Event::SecureOk(_)
            | Event::Start(_)
            | Event::Secure(_)
            | Event::Opened
            | Event::UpdateSecretOk
            | Event::Blocked(_)
            | Event::Unblocked => {}
        }
    }

    fn handle_method(&mut self, channel: u16, method: &Method<'_>, cx: &mut Cx<'_>) {
        let result = match method {
            Method::BasicAck(ack) => self.ack(channel, *ack, cx),
            Method::BasicNack(nack) => self.nack(channel, *nack, cx),
            Method::BasicReject(reject) => self.reject(channel, *reject, cx),
            Method::BasicConsume(consume) => return self.consume_or_follow(channel, consume, cx),
            other => {
                self.settle_now(channel, cx);
                self.carry_out(channel, other, cx)
            }
        };
        if let Err(refused) = result {
            self.refuse(channel, method, refused, cx);
        }
    }

    /// Carries out a method that is not among the most frequent ones.
    fn carry_out(&mut self, channel: u16, method: &Method<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        match method {
            Method::BasicGet(get) => self.get(channel, get, cx),
            Method::BasicQos(qos) => self.qos(channel, qos, cx),
            Method::BasicCancel(cancel) => self.cancel(channel, cancel, cx),
            Method::BasicRecover(recover) => self.recover(channel, recover.requeue, true, cx),
            Method::BasicRecoverAsync(recover) => self.recover(channel, recover.requeue, false, cx),
            Method::BasicCancelOk(_) => Ok(()),
            Method::ConfirmSelect(select) => self.select_confirms(channel, select.nowait),
            Method::TxSelect(_) => self.select_tx(channel),
            Method::TxCommit(_) => self.commit(channel, cx),
            Method::TxRollback(_) => self.roll_back(channel),
            Method::ExchangeDeclare(declare) => self.declare_exchange(channel, declare, cx),
            Method::ExchangeDelete(delete) => self.delete_exchange(channel, delete, cx),
            Method::ExchangeBind(bind) => self.bind_exchange(channel, bind, cx),
            Method::ExchangeUnbind(unbind) => self.unbind_exchange(channel, unbind, cx),
            Method::QueueDeclare(declare) => self.declare_queue(channel, declare, cx),
            Method::QueueBind(bind) => self.bind_queue(channel, bind, cx),
            Method::QueueUnbind(unbind) => self.unbind_queue(channel, unbind, cx),
            Method::QueuePurge(purge) => self.purge_queue(channel, purge, cx),
            Method::QueueDelete(delete) => self.delete_queue(channel, delete, cx),
            Method::ChannelFlow(flow) if flow.active => {
                self.conn.send(channel, &Method::ChannelFlowOk(amqp091::ChannelFlowOk { active: true }));
                Ok(())
            }
            Method::ChannelFlow(_) => Err(refusal::not_implemented("active=false")),
            Method::ChannelFlowOk(_) => Ok(()),
            // RabbitMQ has no realms, and grants every request.
            Method::AccessRequest(_) => {
                self.conn.send(channel, &Method::AccessRequestOk(amqp091::AccessRequestOk { ticket: 1 }));
                Ok(())
            }
            _ => Err(refusal::unimplemented_method()),
        }
    }

    /// Ends the channel or the connection because the client has broken a rule of the protocol.
    fn handle_fault(&mut self, mut fault: Fault, cx: &mut Cx<'_>) {
        if self.phase == Phase::Closing {
            // No answer can follow.
            self.phase = Phase::Done;
            return;
        }
        if self.phase == Phase::Handshake && fault.code == amqp091::ReplyCode::FrameError {
            fault.text.to_mut().push_str(
                "; before the connection is open, for instance for a token, initial_frame_max sets the maximum",
            );
        }
        self.fail(fault, cx);
    }

    // ---- channels ---------------------------------------------------------------------------------------

    fn channel(&mut self, channel: u16) -> Option<&mut Channel> {
        channel_in(&mut self.channels, channel)
    }

    fn role(&mut self, channel: u16, place: u32) -> Option<&mut Role> {
        self.channel(channel)?.roles.get_mut(place as usize)
    }

    fn handle_channel_opened(&mut self, channel: u16, cx: &mut Cx<'_>) {
        cx.counters.channels_opened += 1;
        self.peer.emit_channel_opened(channel, cx);
        let at = usize::from(channel);
        if self.channels.len() <= at {
            self.channels.resize_with(at + 1, || None);
        }
        self.channels[at] = Some(Box::default());
        self.open_channels += 1;
        if let Err(full) = self.peer.begin_session(cx) {
            // RabbitMQ ends the connection, too.
            self.fail(refusal::connection(amqp091::ReplyCode::NotAllowed, full), cx);
        }
    }

    /// Returns the address of a role of this connection in mail.
    fn address(&self, channel: u16, place: u32) -> GateAddress {
        GateAddress { connection: self.peer.key, place: self::place(channel, place) }
    }

    /// Notes that a role has something to do at the end of the turn (iteration of the shard's event loop).
    fn touch(&mut self, channel: u16, place: u32) {
        if self.touched.last() != Some(&(channel, place)) {
            self.touched.push((channel, place));
        }
    }

    // ---- from queues and the catalog ------------------------------------------------------------------------

    /// Handles an effect of a queue; see [`super::Gate::handle_effect`].
    pub fn handle_effect(&mut self, at: u64, effect: Effect, cx: &mut Cx<'_>) {
        let (channel, place) = parts(at);
        match &effect {
            Effect::Delivery(delivery) => _ = self.deliver(channel, place, delivery.lend(), cx),
            effect => self.handle_consumer_effect(channel, place, effect, cx),
        }
    }

    /// Offers a delivery to a consumer; see [`super::Gate::handle_delivery`].
    pub fn handle_delivery(&mut self, at: u64, lent: DeliveryRef<'_>, cx: &mut Cx<'_>) -> bool {
        let (channel, place) = parts(at);
        self.deliver(channel, place, lent, cx)
    }

    /// Handles a queue's answer to a ticket of this connection.
    pub fn handle_ticket(&mut self, ticket: Ticket, effect: Effect, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        if self.own.handle_ticket(ticket) {
            return self.deletion_done();
        }
        let waiting = take(&mut self.waiting, ticket);
        self.resume(cx);
        match waiting {
            Some(Waiting::Queue { channel, step }) => self.finish_queue_step(channel, step, &effect, cx),
            Some(Waiting::Fetch { channel, holder, queue, settled }) => {
                self.finish_get(channel, (holder, &queue, settled), &effect, cx);
            }
            Some(
                Waiting::Login { .. } | Waiting::Renewal | Waiting::Deferred(_) | Waiting::Command { .. },
            )
            | None => {}
        }
    }

    /// Handles the catalog's answer to a ticket of this connection.
    pub fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        let waiting = take(&mut self.waiting, ticket);
        self.resume(cx);
        match (waiting, result) {
            (Some(Waiting::Queue { channel, step }), result) => {
                self.finish_declaration(channel, step, result, cx)
            }
            (Some(Waiting::Command { channel, answer, .. }), Ok(_)) => {
                answer.iter().for_each(|answer| self.conn.send(channel, answer));
            }
            (Some(Waiting::Command { channel, failed, .. }), Err(error)) => {
                self.refuse_method(channel, failed, error.into(), cx);
            }
            _ => {}
        }
    }

    /// Called when the queue was deleted to which a publisher sends. In this protocol, publishers send to exchanges.
    pub fn handle_target_gone(&mut self, _at: u64, _queue: &str, _cx: &mut Cx<'_>) {}

    /// Waits for an answer: to a ticket whose request is posted by the caller. Until then, input is kept, so that the order
    /// of the methods is kept.
    fn wait(&mut self, waiting: Waiting, cx: &mut Cx<'_>) -> Result<Ticket, Refused> {
        let ticket = self.peer.ticket(cx).ok_or_else(refusal::busy)?;
        self.waiting.insert(ticket, waiting);
        if self.phase == Phase::Open {
            self.phase = Phase::Asking;
        }
        Ok(ticket)
    }

    /// Takes input again, when the answer is there.
    fn resume(&mut self, cx: &Cx<'_>) {
        if self.phase == Phase::Asking {
            self.phase = Phase::Open;
            // What the client has sent meanwhile was not read.
            self.conn.forgive_silence(cx.now_ms);
        }
    }

    // ---- time -----------------------------------------------------------------------------------------------

    /// Returns when [`Gate::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        let of_protocol = match self.phase {
            Phase::Closing => Some(self.close_deadline_ms),
            _ => self.conn.next_deadline(),
        };
        self.phase.next_deadline(&self.peer, of_protocol)
    }

    pub fn forgive_lateness(&mut self, late_ms: u64, now_ms: u64) {
        self.peer.forgive_lateness(late_ms);
        self.conn.forgive_lateness(late_ms, now_ms);
        self.close_deadline_ms = self.close_deadline_ms.saturating_add(late_ms);
    }

    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.phase.is_open()
            && let Some(why) = self.peer.take_refused_renewal(cx.now_ms)
        {
            self.resume(cx);
            return self.refuse_renewal(why, cx);
        }
        let is_due = cx.now_ms >= self.peer.handshake_deadline_ms;
        match self.phase {
            Phase::Handshake | Phase::Login if is_due => self.time_out_handshake(cx),
            Phase::Refused if is_due => self.report_refusal(cx),
            Phase::Closing if cx.now_ms >= self.close_deadline_ms => self.phase = Phase::Done,
            Phase::Open | Phase::Asking | Phase::Stopped if self.peer.is_expired(cx.now_ms) => {
                // RabbitMQ's words.
                let text = "credential expired";
                self.fail(refusal::connection(amqp091::ReplyCode::ConnectionForced, text), cx);
            }
            Phase::Open | Phase::Asking | Phase::Stopped => {
                // A client that is not read cannot show that it is alive.
                if self.phase != Phase::Open || self.is_ahead() || !self.held.is_empty() {
                    self.conn.forgive_silence(cx.now_ms);
                }
                if let Err(fault) = self.conn.handle_timeout(cx.now_ms) {
                    self.handle_fault(fault, cx);
                }
            }
            _ => {}
        }
    }
}

/// Returns a channel. For callers that need other parts of the gate at the same time.
fn channel_in(channels: &mut [Option<Box<Channel>>], channel: u16) -> Option<&mut Channel> {
    channels.get_mut(usize::from(channel))?.as_deref_mut()
}

/// Returns the place of a role as one number.
fn place(channel: u16, place: u32) -> u64 {
    u64::from(channel) << 32 | u64::from(place)
}

/// Returns the channel and the role that [`place`] has combined.
fn parts(place: u64) -> (u16, u32) {
    ((place >> 32) as u16, place as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_tells_the_protocols_apart() {
        for (header, is_ours) in [
            (*b"AMQP\0\0\x09\x01", true),
            (*b"AMQP\x01\x01\x00\x09", true),
            (*b"AMQP\x01\x01\x08\x00", true),
            (*b"AMQP\0\x01\0\0", false),
            (*b"AMQP\x03\x01\0\0", false),
            (*b"AMQP\x02\x01\0\0", false),
            (*b"AMQP\x03\x02\0\0", false),
            (*b"GET / HT", false),
        ] {
            assert_eq!(is_header(&header), is_ours, "{header:?}");
        }
        assert!(!is_header(b"AMQP\0\0\x09"), "the header is incomplete");
    }
}
