//! One end of a session [2.5]: its states, windows and delivery-ids. Links and their handles are in `links`.
//! Output that waits for the peer's window is in `outgoing`.
//!
//! ```text
//!   (none) --BEGIN received--> Half --begin()----------> Mapped --end()--> Ending --END received--> (none)
//!   (none) --begin()---------> Half --BEGIN received---> Mapped --END received, answered---------> (none)
//!
//!   Half --end()--> Ending, if we began the session: the peer's BEGIN and END have not arrived yet.
//! ```

mod links;
mod outgoing;

use std::collections::VecDeque;

use crate::link::{End, Link, LinkState, Progress};
use crate::performative::{put_disposition_frame, put_flow_frame, put_frame};
use crate::unsettled::{Run, Unsettled};
use crate::violation::Violation;
use crate::{
    AmqpError, Attach, Begin, DeliveryState, Detach, Disposition, End as EndPerformative, Flow, Performative,
    Role, Transfer, serial,
};
use buffers::Chunk;
use buffers::Output;

use self::outgoing::Pending;
pub use self::outgoing::{OUTPUT_HIGH_WATER, Outgoing, Part, Tag};

/// The outgoing window that we announce. Only the peer's incoming window limits what we send.
const OUTGOING_WINDOW: u32 = u32::MAX;

/// The FLOW property that asks for deliveries as part of a transaction [4.4.3].
const TXN_ID: &str = "txn-id";

/// The states of a session. See the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    Half,
    Mapped,
    Ending,
}

/// The limits of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// The number of transfer frames that the peer may send before it needs another FLOW.
    pub incoming_window: u32,
    /// The highest link handle.
    pub handle_max: u32,
}

/// A session of a connection. Its number within the connection is our channel.
#[derive(Debug)]
pub struct Session {
    pub(crate) channel: u16,
    pub(crate) remote_channel: Option<u16>,
    /// The peer has sent END, and we have not answered it yet.
    pub(crate) peer_ended: bool,
    pub(crate) state: SessionState,
    config: SessionConfig,
    /// The transfer-id of the next transfer frame from the peer, a serial number.
    next_incoming_id: u32,
    /// The number of transfer frames that the peer may still send, as announced in our last FLOW.
    incoming_window: u32,
    /// The value to which `incoming_window` is set each time the window opens.
    window_max: u32,
    /// False while we have closed the window.
    window_open: bool,
    /// While true, the window is not opened again, but what is left of it stays open.
    pub(crate) window_held: bool,
    /// True if the window is opened again when half of it is used: it is open and not held.
    refills: bool,
    /// The number of frames that are still accepted after we closed the window, because they may have been in
    /// flight. Together, the margins of all sessions have a bound in bytes ([`crate::Connection::limit_margin`]).
    margin: u32,
    first_outgoing_id: u32,
    next_outgoing_id: u32,
    /// The number of transfer frames that we may still send.
    remote_incoming_window: u32,
    next_delivery_id: u32,
    /// The highest handle that both sides can use.
    handle_max: u32,
    links: Vec<Option<Link>>,
    /// The bytes of memory that incomplete deliveries of all links of the session take.
    partial_bytes: usize,
    /// Our link number for each handle of the peer.
    by_remote_handle: Vec<Option<u32>>,
    pending: VecDeque<Pending>,
    /// The number of links, and the bytes that count for them ([`Session::attached_bytes`]).
    link_count: usize,
    attached_bytes: usize,
    /// The bytes of the deliveries in `pending`.
    pending_bytes: usize,
    unsettled: Unsettled,
}

/// What a session tells the connection about a frame.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    Attach { link: u32, attach: Box<Attach> },
    Detach { link: u32, detach: Detach, answered: bool },
    Flow { link: Option<u32>, flow: Flow },
    Disposition { role: Role, settled: bool, state: Option<DeliveryState>, first: u32, last: u32 },
}

/// A violation, and its link if it concerns only one link.
pub(crate) type SessionFault = (Option<u32>, Violation);

impl Session {
    pub(crate) fn new(channel: u16, config: SessionConfig, first_id: u32) -> Self {
        Self {
            channel,
            remote_channel: None,
            peer_ended: false,
            state: SessionState::Half,
            config,
            next_incoming_id: 0,
            incoming_window: 0,
            window_max: config.incoming_window,
            window_open: true,
            window_held: false,
            refills: true,
            margin: 0,
            first_outgoing_id: first_id,
            next_outgoing_id: first_id,
            remote_incoming_window: 0,
            next_delivery_id: first_id,
            handle_max: config.handle_max,
            links: Vec::new(),
            partial_bytes: 0,
            by_remote_handle: Vec::new(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            link_count: 0,
            attached_bytes: 0,
            unsettled: Unsettled::default(),
        }
    }

    // ---- queries -----------------------------------------------------------------------------------------

    pub fn link(&self, link: u32) -> Option<&Link> {
        self.links.get(link as usize)?.as_ref()
    }

    fn link_mut(&mut self, link: u32) -> Option<&mut Link> {
        self.links.get_mut(link as usize)?.as_mut()
    }

    pub fn links(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter().enumerate().filter_map(|(i, l)| Some((i as u32, l.as_ref()?)))
    }

    pub fn state(&self) -> SessionState {
        self.state
    }

    /// Returns true if we began the session and the peer has not answered.
    pub(crate) fn awaits_begin(&self) -> bool {
        self.remote_channel.is_none()
    }

    pub fn next_incoming_id(&self) -> u32 {
        self.next_incoming_id
    }

    pub fn incoming_window(&self) -> u32 {
        self.incoming_window
    }

    pub fn next_outgoing_id(&self) -> u32 {
        self.next_outgoing_id
    }

    pub fn remote_incoming_window(&self) -> u32 {
        self.remote_incoming_window
    }

    pub fn handle_max(&self) -> u32 {
        self.handle_max
    }

    /// The number of deliveries sent and not settled.
    pub fn unsettled_len(&self) -> usize {
        self.unsettled.len()
    }

    /// Returns the bytes of memory that incomplete deliveries of all links take.
    pub fn partial_bytes(&self) -> usize {
        self.partial_bytes
    }

    // ---- input -----------------------------------------------------------------------------------------

    pub(crate) fn handle_begin(&mut self, begin: &Begin) {
        self.next_incoming_id = begin.next_outgoing_id;
        self.remote_incoming_window = begin.incoming_window;
        self.handle_max = self.config.handle_max.min(begin.handle_max);
    }

    /// Called when the peer has ended the session: it receives nothing more, and the rest of its deliveries never comes.
    pub(crate) fn handle_end(&mut self) {
        self.peer_ended = true;
        self.pending.clear();
        self.pending_bytes = 0;
        self.unsettled = Unsettled::default();
        for link in self.links.iter_mut().flatten() {
            link.forget_partial();
        }
        self.partial_bytes = 0;
    }

    /// Handles a frame of `frame_bytes`.
    pub(crate) fn handle_frame(
        &mut self,
        performative: Performative<'_>,
        frame_bytes: usize,
        out: &mut Output,
    ) -> Result<Option<SessionEvent>, SessionFault> {
        if self.state == SessionState::Ending {
            // [2.5.5] Frames that were in flight when we ended the session are discarded.
            return Ok(None);
        }
        match performative {
            Performative::Flow(flow) => self.handle_flow(flow, out),
            Performative::Disposition(disposition) => Ok(Some(handle_disposition(disposition))),
            Performative::Attach(attach) => self.handle_attach(attach, frame_bytes, out),
            Performative::Detach(detach) => self.handle_detach(detach),
            _ => Err((None, Violation::UnexpectedFrame("frame on a session"))),
        }
    }

    /// Handles one TRANSFER. Returns its link and the progress of the delivery.
    #[inline(always)]
    pub(crate) fn handle_transfer(
        &mut self,
        transfer: &Transfer<'_>,
        frame: &Chunk<'_>,
        payload_at: usize,
        margin_bytes: &mut usize,
        out: &mut Output,
    ) -> Result<(u32, Progress), SessionFault> {
        if self.state == SessionState::Ending {
            return Ok((0, Progress::Ignored));
        }
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        if self.incoming_window > 0 {
            self.incoming_window -= 1;
        } else if !self.spend_margin(frame.len(), margin_bytes) {
            return Err((None, Violation::WindowViolation));
        }
        if self.refills && self.incoming_window <= self.window_max / 2 {
            self.open_window(out);
        }
        let Some(link) = self.by_handle(transfer.handle) else {
            return Err((None, Violation::UnattachedHandle(transfer.handle)));
        };
        let Some(l) = self.link_mut(link) else {
            return Err((None, Violation::UnattachedHandle(transfer.handle)));
        };
        if l.state == LinkState::Detaching {
            return Ok((link, Progress::Ignored));
        }
        let terms = l.terms();
        let End::Receiving(receiving) = &mut l.end else {
            return Err((None, Violation::UnexpectedFrame("TRANSFER on a link on which we send")));
        };
        let before = receiving.partial_bytes();
        let result = receiving.handle_transfer(transfer, frame, payload_at, terms);
        let after = receiving.partial_bytes();
        if before != after {
            self.partial_bytes = self.partial_bytes - before + after;
        }
        match result {
            Ok(progress) => Ok((link, progress)),
            Err(violation) => Err((Some(link), violation)),
        }
    }

    /// Takes a frame of `bytes` bytes from the margin. Returns false if it is not part of it.
    #[inline(never)]
    fn spend_margin(&mut self, bytes: usize, margin_bytes: &mut usize) -> bool {
        match (self.margin.checked_sub(1), margin_bytes.checked_sub(bytes)) {
            (Some(frames), Some(bytes)) => (self.margin, *margin_bytes) = (frames, bytes),
            _ => return false,
        }
        true
    }

    fn handle_flow(&mut self, flow: Flow, out: &mut Output) -> Result<Option<SessionEvent>, SessionFault> {
        // [2.5.6] If next-incoming-id is absent, the peer has not seen our BEGIN. It then means our initial
        // id.
        let next_incoming_id = flow.next_incoming_id.unwrap_or(self.first_outgoing_id);
        if serial::distance(next_incoming_id, self.next_outgoing_id) > 0 {
            let next_outgoing_id = self.next_outgoing_id;
            return Err((None, Violation::NeverSent { next_incoming_id, next_outgoing_id }));
        }
        // [2.5.6] The peer's own count of its transfers is authoritative.
        self.next_incoming_id = flow.next_outgoing_id;
        let in_flight = self.next_outgoing_id.wrapping_sub(next_incoming_id);
        self.remote_incoming_window = flow.incoming_window.saturating_sub(in_flight);
        let mut link = None;
        let mut answer = flow.echo && flow.handle.is_none();
        if let Some(handle) = flow.handle {
            let Some(number) = self.by_handle(handle) else {
                return Err((None, Violation::UnattachedHandle(handle)));
            };
            link = Some(number);
            if flow.properties.as_ref().is_some_and(|p| p.get(TXN_ID).is_some()) {
                return Err((link, Violation::TransactionalAcquisition));
            }
            if let Some(l) = self.link_mut(number) {
                if l.state == LinkState::Detaching {
                    link = None;
                }
                let initial = l.initial_delivery_count;
                match &mut l.end {
                    End::Sending(sending) => {
                        let link_credit = flow.link_credit.unwrap_or(0);
                        sending.credit.handle_flow(flow.delivery_count, link_credit, initial);
                    }
                    End::Receiving(receiving) => {
                        if let Some(count) = flow.delivery_count {
                            receiving.credit.handle_flow(count);
                        }
                        answer = flow.echo;
                    }
                }
            }
        }
        if answer {
            self.put_flow(link, None, out);
        }
        Ok(Some(SessionEvent::Flow { link, flow }))
    }

    // ---- output ----------------------------------------------------------------------------------------

    pub(crate) fn put_begin(&mut self, out: &mut Output) {
        self.refills = self.window_open && !self.window_held;
        self.incoming_window = if self.refills { self.window_max } else { 0 };
        let begin = Begin {
            remote_channel: self.remote_channel,
            next_outgoing_id: self.next_outgoing_id,
            incoming_window: self.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.handle_max,
            ..Begin::default()
        };
        put_frame(out.buffer(), self.channel, &begin);
    }

    /// Sends END. Pending output is dropped, because nothing may follow.
    pub(crate) fn put_end(&mut self, error: Option<AmqpError>, out: &mut Output) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.unsettled = Unsettled::default();
        self.links.clear();
        self.link_count = 0;
        self.attached_bytes = 0;
        self.partial_bytes = 0;
        self.by_remote_handle.clear();
        put_frame(out.buffer(), self.channel, &EndPerformative { error });
    }

    /// Grants credit on a link on which we receive.
    pub(crate) fn grant(&mut self, link: u32, credit: u32, drain: bool, echo: bool, out: &mut Output) {
        if let Some(Link { end: End::Receiving(receiving), .. }) = self.link_mut(link) {
            receiving.credit.grant(credit);
            let flow = Flow { drain, echo, ..self.flow(Some(link), None) };
            put_flow_frame(out.buffer(), self.channel, &flow);
        }
    }

    /// Sends the peer the state of the deliveries `first..=last`.
    pub(crate) fn disposition(
        &mut self,
        role: Role,
        (first, last): (u32, u32),
        settled: bool,
        state: &DeliveryState,
        out: &mut Output,
    ) {
        let last = (last != first).then_some(last);
        put_disposition_frame(out.buffer(), self.channel, role, first, last, settled, state);
    }

    /// Converts a DISPOSITION of the receiver to runs of deliveries, with our own numbers for them.
    pub(crate) fn resolve(&mut self, first: u32, last: u32, settle: bool, runs: &mut Vec<Run>) {
        self.unsettled.resolve(first, last, settle, runs);
    }

    /// Finds the unsettled deliveries of a link by our own numbers for them.
    pub(crate) fn find_unsettled(&self, link: u32, (first, last): (u64, u64), runs: &mut Vec<Run>) {
        self.unsettled.find(link, first, last, runs);
    }

    /// Returns our own number for the oldest delivery of a link that was sent and is not settled.
    pub fn oldest_unsettled(&self, link: u32) -> Option<u64> {
        self.unsettled.oldest(link)
    }

    /// Closes our incoming window, or opens it again. After closing, up to `margin` more frames are accepted,
    /// because they may be in flight.
    pub(crate) fn set_window_open(&mut self, open: bool, out: &mut Output) {
        if self.window_open == open {
            return;
        }
        self.window_open = open;
        self.refills = open && !self.window_held;
        match (self.state, open) {
            (SessionState::Mapped, true) if self.refills => self.open_window(out),
            (SessionState::Mapped, false) => {
                self.incoming_window = 0;
                self.margin = self.window_max;
                self.put_flow(None, None, out);
            }
            _ => {}
        }
    }

    /// Holds the window: it is not opened again until it is released. Then it is opened if half of it is used.
    pub(crate) fn hold_window(&mut self, hold: bool, out: &mut Output) {
        self.window_held = hold;
        self.refills = self.window_open && !hold;
        let is_due = self.refills && self.incoming_window <= self.window_max / 2;
        if is_due && self.state == SessionState::Mapped {
            self.open_window(out);
        }
    }

    /// Raises the incoming window to at least `frames`, from the next time that it is opened.
    pub(crate) fn widen_window(&mut self, frames: u32) {
        self.window_max = self.window_max.max(frames);
    }

    fn open_window(&mut self, out: &mut Output) {
        self.incoming_window = self.window_max;
        self.margin = 0;
        if self.state == SessionState::Mapped {
            self.put_flow(None, None, out);
        }
    }

    fn put_flow(&mut self, link: Option<u32>, available: Option<u32>, out: &mut Output) {
        let flow = self.flow(link, available);
        put_flow_frame(out.buffer(), self.channel, &flow);
    }

    fn flow(&self, link: Option<u32>, available: Option<u32>) -> Flow {
        let credit = link.and_then(|l| self.link(l)).map(|l| match &l.end {
            End::Sending(sending) => (sending.credit.delivery_count(), sending.credit.credit()),
            End::Receiving(receiving) => (receiving.credit.delivery_count(), receiving.credit.credit()),
        });
        // [2.7.4] The delivery-count is left out as long as a receiver has not seen the sender's ATTACH,
        // because it does not know the count.
        let unknown = link.and_then(|l| self.link(l)).is_some_and(|l| !l.is_sending() && l.awaits_attach());
        Flow {
            // [2.7.4] next-incoming-id is left out until the peer's BEGIN arrives.
            next_incoming_id: (!self.awaits_begin()).then_some(self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            handle: link,
            delivery_count: credit.map(|c| c.0).filter(|_| !unknown),
            link_credit: credit.map(|c| c.1),
            available,
            ..Flow::default()
        }
    }
}

fn handle_disposition(disposition: Disposition) -> SessionEvent {
    SessionEvent::Disposition {
        role: disposition.role,
        settled: disposition.settled,
        state: disposition.state,
        first: disposition.first,
        last: disposition.last.unwrap_or(disposition.first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a session with a window of four frames, of which `left` are left.
    fn session(left: u32) -> (Session, Output) {
        let mut session = Session::new(0, SessionConfig { incoming_window: 4, handle_max: 7 }, 0);
        session.put_begin(&mut Output::default());
        (session.state, session.incoming_window) = (SessionState::Mapped, left);
        (session, Output::default())
    }

    #[test]
    fn a_held_window_is_opened_when_it_is_released_and_half_is_used() {
        for (left, then) in [(0, 4), (2, 4), (3, 3)] {
            let (mut session, mut out) = session(left);
            session.hold_window(true, &mut out);
            assert!(session.incoming_window == left && !session.refills && out.is_empty());
            session.hold_window(false, &mut out);
            assert!(session.incoming_window == then && session.refills);
            assert_eq!(out.is_empty(), left == then, "a FLOW says so");
        }
    }

    #[test]
    fn a_window_that_is_held_and_closed_opens_when_it_is_neither() {
        let (mut session, mut out) = session(2);
        session.set_window_open(false, &mut out);
        session.hold_window(true, &mut out);
        session.set_window_open(true, &mut out);
        assert_eq!(session.incoming_window, 0);
        session.set_window_open(false, &mut out);
        session.hold_window(false, &mut out);
        assert_eq!(session.incoming_window, 0);
        session.set_window_open(true, &mut out);
        assert_eq!((session.incoming_window, session.margin), (4, 0));
    }

    #[test]
    fn margins_are_frames_of_a_session_and_bytes_of_its_connection() {
        let ((mut one, mut out), (mut other, _)) = (session(4), session(4));
        let mut bytes = 10;
        assert!(!one.spend_margin(1, &mut bytes), "the window is open");
        one.set_window_open(false, &mut out);
        other.set_window_open(false, &mut out);
        assert!(one.spend_margin(6, &mut bytes) && !other.spend_margin(5, &mut bytes));
        assert!(other.spend_margin(4, &mut bytes) && !other.spend_margin(1, &mut bytes));
        bytes = 100;
        assert!((0..3).all(|_| one.spend_margin(1, &mut bytes)), "the rest of its frames");
        assert!(!one.spend_margin(1, &mut bytes));
    }
}
