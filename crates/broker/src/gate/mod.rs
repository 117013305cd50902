//! One gate per protocol. A gate is the only code that knows both its protocol and the contract (`docs/contract.md`).
//!
//! A shard calls [`Gate`], which is an enum, so that calls are not dispatched at run time. A gate reads frames, uses
//! the components beside this module (`intake`, `outlet`, `follow`, `own_queues`), and writes frames.

pub mod amqp091;
pub mod amqp10;
#[cfg(debug_assertions)]
pub mod line;

use std::sync::Arc;

use buffers::Output;
use bytes::Bytes;
use catalog::access::{Identity, LoginRefused, Protocol};
use catalog::ids::{QueueId, ShardId};
use catalog::reply_to::ReplyTo;
use catalog::{Answer, CatalogError};
use hashbrown::HashMap;
use message::Message;
use queue::{ConsumerId, DeliveryRef, Effect, Ticket, Verdict};

use crate::admin_api::{ConnectionRow, PassedCounts};
use crate::client_budget::Unread;
use crate::cx::Cx;
use crate::explain::{ConnectionFacts, HeldLong, Wanted};
use crate::mail::GateAddress;
use crate::peer::Peer;
use crate::settings::Settings;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The client has not yet logged in and opened the connection.
    Handshake,
    /// The login is being checked. Until then, the client's input is kept.
    Login,
    /// The login has failed, and the client has not been told yet. Its input is ignored.
    Refused,
    Open,
    /// The connection is open, and what the client has sent last waits: for an answer of a queue, of the catalog, of somebody who
    /// decides permissions, or for a route that takes more than a turn. Until then, its input is kept.
    Asking,
    /// The connection is open, and its client has published while an alarm stops publishers. The message is held and the
    /// client's input is kept until the alarm ends.
    Stopped,
    /// The client was told why the connection ends, and its answer has not arrived. Its other input is ignored.
    Closing,
    /// The connection is closed when the output is written.
    Done,
}

impl Phase {
    /// Returns true if input of the client is handled.
    pub fn listens(self) -> bool {
        matches!(self, Self::Handshake | Self::Open | Self::Closing)
    }

    /// Returns true if input of the client is kept until something is known.
    pub fn keeps_input(self) -> bool {
        matches!(self, Self::Login | Self::Asking | Self::Stopped)
    }

    /// Returns true if the client has logged in and opened the connection.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Asking | Self::Stopped)
    }

    /// Returns when a connection in this phase has something to do. `of_protocol` is when its protocol has.
    fn next_deadline(self, peer: &Peer, of_protocol: Option<u64>) -> Option<u64> {
        match self {
            Self::Handshake | Self::Login | Self::Refused => Some(peer.handshake_deadline_ms),
            Self::Open | Self::Asking | Self::Stopped => {
                of_protocol.into_iter().chain(peer.next_deadline()).min()
            }
            Self::Closing => of_protocol,
            Self::Done => None,
        }
    }
}

/// Why the broker ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The node is stopping. Clients may reconnect.
    NodeStops,
    /// An operator closes the connection.
    Operator,
    /// The connection uses more memory than the node can give it.
    TooMuchMemory,
}

/// The error for input that cannot be the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

/// One connection, as the gate of its protocol.
#[derive(Debug)]
pub enum Gate {
    /// The gate of AMQP 1.0. It is also used before the protocol header has arrived, because AMQP 1.0 answers
    /// an unknown header.
    Amqp10(amqp10::Gate),
    Amqp091(amqp091::Gate),
    #[cfg(debug_assertions)]
    Line(line::Gate),
}

/// Takes what waits for an answer out of a gate's table, and frees the table if nothing is left in it. Most connections wait for
/// answers only until they are open, and an empty table would take 448 bytes (AMQP 0.9.1) or 768 bytes (AMQP 1.0) of each.
fn take<W>(waiting: &mut HashMap<Ticket, W>, ticket: Ticket) -> Option<W> {
    let taken = waiting.remove(&ticket);
    if waiting.is_empty() {
        waiting.shrink_to_fit();
    }
    taken
}

/// Calls the same method of either gate.
macro_rules! each {
    ($self:expr, $gate:ident => $body:expr) => {
        match $self {
            Gate::Amqp10($gate) => $body,
            Gate::Amqp091($gate) => $body,
            #[cfg(debug_assertions)]
            Gate::Line($gate) => $body,
        }
    };
}

/// Calls a method that all gates but the one for tests have. For that one, the value is the last argument.
macro_rules! product_or {
    ($self:expr, $gate:ident => $body:expr, $other:expr) => {
        match $self {
            Gate::Amqp10($gate) => $body,
            Gate::Amqp091($gate) => $body,
            #[cfg(debug_assertions)]
            Gate::Line(_) => $other,
        }
    };
}

impl Gate {
    /// Creates the gate of a new connection, whose protocol is not known yet. `blocked` says whether publishing is stopped.
    pub fn new(peer: Peer, blocked: bool, settings: &Settings) -> Self {
        Self::Amqp10(amqp10::Gate::new(peer, blocked, settings))
    }

    /// Returns the client at the other end.
    pub fn peer(&self) -> &Peer {
        each!(self, gate => &gate.peer)
    }

    /// Returns the client at the other end, to be changed before it has sent anything, or when the connection has moved to
    /// another shard.
    pub fn peer_mut(&mut self) -> &mut Peer {
        each!(self, gate => &mut gate.peer)
    }

    /// Returns the gate of AMQP 1.0, if that is the protocol.
    pub fn amqp10(&mut self) -> Option<&mut amqp10::Gate> {
        match self {
            Self::Amqp10(gate) => Some(gate),
            Self::Amqp091(_) => None,
            #[cfg(debug_assertions)]
            Self::Line(_) => None,
        }
    }

    /// Chooses the protocol by the first bytes of the connection, before they are handled.
    #[inline]
    fn choose(&mut self, input: &[u8], settings: &Settings) {
        if let Self::Amqp10(gate) = self
            && gate.is_new()
            && amqp091::is_header(input)
        {
            let (peer, blocked) = (gate.peer.speaking(Protocol::Amqp091), gate.is_blocked());
            *self = Self::Amqp091(amqp091::Gate::new(peer, blocked, settings));
        }
        #[cfg(debug_assertions)]
        if let Self::Amqp10(gate) = self
            && gate.is_new()
            && input.starts_with(line::HEADER)
        {
            *self = Self::Line(line::Gate::new(gate.peer.speaking(Protocol::Amqp10)));
        }
    }

    pub fn phase(&self) -> Phase {
        each!(self, gate => gate.phase)
    }

    // ---- the socket -----------------------------------------------------------------------------------------

    /// Returns true if the socket is to be read.
    pub fn takes_input(&self) -> bool {
        product_or!(self, gate => gate.takes_input(), true)
    }

    /// Returns the bytes that are kept for the client: its name and properties, its links and consumers.
    pub fn state_bytes(&self) -> usize {
        product_or!(self, gate => gate.state_bytes(), 0)
    }

    /// Returns the memory in use for what the client has not read.
    pub fn unread(&self) -> Unread {
        product_or!(self, gate => gate.unread(), Unread::default())
    }

    /// Returns the bytes of memory that deliveries in the output keep. The deliveries may be small, so they may be a part of what is
    /// charged ([`Unread::charged`]).
    pub fn deliveries_held(&self) -> usize {
        product_or!(self, gate => gate.deliveries_held(), 0)
    }

    /// Returns false if the client must read before anything is done for it that makes an answer.
    pub fn has_room_for_answers(&self) -> bool {
        product_or!(self, gate => gate.has_room_for_answers(), true)
    }

    /// Handles the frames at the start of `input` that only show that the peer is alive. Returns their length in bytes.
    pub fn handle_heartbeats(&mut self, input: &[u8], now_ms: u64) -> usize {
        product_or!(self, gate => gate.handle_heartbeats(input, now_ms), 0)
    }

    /// Handles the whole frames at the start of `input` that are shorter than `large` bytes, as long as the phase
    /// allows input ([`Phase::listens`]). Returns their length in bytes. The rest starts with a large or incomplete
    /// frame, unless input is not handled any more.
    #[inline]
    pub fn handle_input<'a>(&mut self, input: &'a [u8], large: usize, cx: &mut Cx<'a>) -> usize {
        self.choose(input, cx.settings);
        each!(self, gate => gate.handle_input(input, large, cx))
    }

    /// Handles one whole frame or protocol header, in a buffer that may be retained.
    pub fn handle_frame(&mut self, frame: Bytes, cx: &mut Cx<'_>) {
        self.choose(&frame, cx.settings);
        each!(self, gate => gate.handle_frame(frame, cx))
    }

    /// Returns the length of the frame at the start of `input`, if it is known yet.
    ///
    /// # Errors
    /// No frame starts like this: see [`Gate::handle_bad_frame`].
    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, BadFrame> {
        each!(self, gate => gate.frame_len(input))
    }

    /// Ends the connection because no frame starts like `input`.
    pub fn handle_bad_frame(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        product_or!(self, gate => gate.handle_bad_frame(input, cx), ())
    }

    /// Returns the number of bytes of incomplete deliveries.
    pub fn incomplete_bytes(&mut self) -> usize {
        product_or!(self, gate => gate.incomplete_bytes(), 0)
    }

    /// Returns the bytes to write.
    pub fn output(&mut self) -> &mut Output {
        match self {
            Self::Amqp10(gate) => gate.output(),
            Self::Amqp091(gate) => gate.output(),
            #[cfg(debug_assertions)]
            Self::Line(gate) => &mut gate.output,
        }
    }

    /// Called when this many bytes of the output were written.
    pub fn handle_written(&mut self, written: usize, now_ms: u64) {
        product_or!(self, gate => gate.handle_written(written, now_ms), ())
    }

    /// Returns true if something waits for the client to read.
    pub fn has_pending(&self) -> bool {
        product_or!(self, gate => gate.has_pending(), false)
    }

    /// Writes the frames that result from the turn (iteration of the shard's event loop).
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        each!(self, gate => gate.flush(cx))
    }

    /// Called with the result of a login check. A late result has no effect.
    pub fn handle_login(&mut self, ticket: Ticket, result: Result<Identity, LoginRefused>, cx: &mut Cx<'_>) {
        each!(self, gate => gate.handle_login(ticket, result, cx))
    }

    /// Called when the question of a ticket was answered, or a route was found. If it is late, this has no effect.
    pub fn handle_awaited(&mut self, ticket: Ticket, cx: &mut Cx<'_>) {
        product_or!(self, gate => gate.handle_awaited(ticket, cx), ())
    }

    // ---- its shard ------------------------------------------------------------------------------------------

    /// Returns the shard to which the connection is to move. It takes no input until [`Gate::continue_held`] is called, there
    /// or here.
    pub fn moves_to(&self) -> Option<ShardId> {
        product_or!(self, gate => gate.moves_to(), None)
    }

    /// Called when the connection is on its final shard.
    pub fn continue_held(&mut self, cx: &mut Cx<'_>) {
        product_or!(self, gate => gate.continue_held(cx), ())
    }

    /// Stops or resumes publishing.
    pub fn set_blocked(&mut self, blocked: bool, cx: &mut Cx<'_>) {
        product_or!(self, gate => gate.set_blocked(blocked, cx), ())
    }

    /// Called when the rights of users, or the virtual hosts, have changed.
    pub fn recheck_rights(&mut self, cx: &mut Cx<'_>) {
        product_or!(self, gate => gate.recheck_rights(cx), ())
    }

    /// Returns when [`Gate::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        product_or!(self, gate => gate.next_deadline(), None)
    }

    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        product_or!(self, gate => gate.handle_timeout(cx), ())
    }

    /// Moves the deadlines for the client: the broker has not read its socket for `late_ms`.
    pub fn forgive_lateness(&mut self, late_ms: u64, now_ms: u64) {
        product_or!(self, gate => gate.forgive_lateness(late_ms, now_ms), ())
    }

    /// Called when the socket is closed.
    pub fn handle_disconnect(&mut self, cx: &mut Cx<'_>) {
        each!(self, gate => gate.handle_disconnect(cx))
    }

    /// Ends the connection from the broker's side. The client receives the reason, if that is possible.
    pub fn end(&mut self, ending: Ending, why: &str, cx: &mut Cx<'_>) {
        each!(self, gate => gate.end_connection(ending, why, cx))
    }

    // ---- queues and the catalog -----------------------------------------------------------------------------

    /// Handles an effect of a queue for a consumer of this connection.
    pub fn handle_effect(&mut self, to: GateAddress, effect: Effect, cx: &mut Cx<'_>) {
        each!(self, gate => gate.handle_effect(to.place, effect, cx))
    }

    /// Offers a delivery to a consumer of this connection. Returns false if the consumer reads a stream and has no room
    /// now.
    #[inline]
    pub fn handle_delivery(&mut self, to: GateAddress, lent: DeliveryRef<'_>, cx: &mut Cx<'_>) -> bool {
        each!(self, gate => gate.handle_delivery(to.place, lent, cx))
    }

    /// Handles one queue's receipt for the publishes in `range` of a publisher of this connection.
    pub fn handle_receipts(
        &mut self,
        to: GateAddress,
        queue: QueueId,
        range: (u64, u64),
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) {
        each!(self, gate => gate.handle_receipts(to.place, queue, range, verdict, cx))
    }

    /// Handles a queue's answer to a ticket of this connection.
    pub fn handle_ticket(&mut self, ticket: Ticket, effect: Effect, cx: &mut Cx<'_>) {
        each!(self, gate => gate.handle_ticket(ticket, effect, cx))
    }

    /// Handles the catalog's answer to a ticket of this connection.
    pub fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>, cx: &mut Cx<'_>) {
        each!(self, gate => gate.handle_answer(ticket, result, cx))
    }

    /// Called when the queue of this name was deleted, to which a publisher of this connection sends.
    pub fn handle_target_gone(&mut self, to: GateAddress, queue: &str, cx: &mut Cx<'_>) {
        each!(self, gate => gate.handle_target_gone(to.place, queue, cx))
    }

    /// Returns true if the consumer at this place takes the replies to this name.
    pub fn takes_replies(&self, at: GateAddress, vhost: &str, to: ReplyTo) -> bool {
        product_or!(self, gate => gate.takes_replies(at.place, vhost, to), false)
    }

    /// Delivers a reply now or drops it. The publisher receives an accepting receipt in both cases.
    pub fn handle_reply(&mut self, at: GateAddress, message: &Message, cx: &mut Cx<'_>) -> Verdict {
        product_or!(self, gate => gate.handle_reply(at.place, message, cx), Verdict::Accepted)
    }

    // ---- people -----------------------------------------------------------------------------------------------

    /// Returns true if the sessions of this protocol are channels of AMQP 0.9.1.
    pub fn has_channels(&self) -> bool {
        matches!(self, Self::Amqp091(_))
    }

    /// Returns the number of open sessions.
    pub fn session_count(&self) -> usize {
        product_or!(self, gate => gate.session_count(), 0)
    }

    /// Returns a row for listings, or `None` before the connection is open. `bytes` are those that were received and sent.
    pub fn report(&self, node: &Arc<str>, bytes: (u64, u64), now_ms: u64) -> Option<ConnectionRow> {
        product_or!(self, gate => gate.report(node, bytes, now_ms), None)
    }

    /// Returns what has passed over the connection, or `None` if it was never open.
    pub fn counts(&self) -> Option<PassedCounts> {
        let mut sum = self.peer().past?;
        sum += product_or!(self, gate => gate.counts(), PassedCounts::default());
        Some(sum)
    }

    /// Returns what may stop the links, or `None` before the connection is open. `unwritten_bytes` are the bytes that
    /// the socket has not accepted, `incomplete_bytes` those of an incomplete frame.
    pub fn facts(&self, unwritten_bytes: u64, incomplete_bytes: u64) -> Option<ConnectionFacts> {
        product_or!(self, gate => gate.facts(unwritten_bytes, incomplete_bytes), None)
    }

    /// Returns the consumers of the connection that hold all that they may for too long.
    pub fn held_long(&self, now_ms: u64) -> HeldLong {
        product_or!(self, gate => gate.held_long(now_ms), HeldLong::default())
    }

    /// Returns the number of filters that consumers of the connection asked for, and that are not in effect.
    pub fn filters_left_out(&self) -> u64 {
        match self {
            Gate::Amqp10(gate) => gate.filters_left_out(),
            // There are no filters, and arguments that cannot be used are refused.
            _ => 0,
        }
    }

    /// Returns true if the connection matters for the explanation.
    pub fn is_wanted(&self, wanted: &Wanted) -> bool {
        product_or!(self, gate => gate.is_wanted(wanted), false)
    }

    /// Calls `each` for every consumer of the connection that reads a stream.
    pub fn stream_consumers(&self, mut each: impl FnMut(QueueId, ConsumerId)) {
        product_or!(self, gate => gate.stream_consumers().for_each(|(queue, consumer)| each(queue, consumer)), ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_nothing_in_it_takes_no_memory() {
        let mut waiting: HashMap<Ticket, &str> =
            [(Ticket(1), "login"), (Ticket(2), "open")].into_iter().collect();
        assert_eq!(take(&mut waiting, Ticket(1)), Some("login"));
        assert!(waiting.capacity() > 0);
        assert_eq!((take(&mut waiting, Ticket(3)), take(&mut waiting, Ticket(2))), (None, Some("open")));
        assert_eq!(waiting.capacity(), 0);
    }
}
