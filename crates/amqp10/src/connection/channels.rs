//! Sessions by channel [2.5.1, 2.5.2]. Calls for sessions and links pass through here.

use super::{Connection, Event, Fault};
use crate::link::Progress;
use crate::session::{Outgoing, Session, SessionEvent, SessionState};
use crate::unsettled::Run;
use crate::violation::Violation;
use crate::{AmqpError, Attach, Begin, DeliveryState, Map, Performative, Role, Transfer};
use buffers::Chunk;
use buffers::Output;

impl Connection {
    pub(super) fn handle_begin<'a>(
        &mut self,
        channel: u16,
        begin: Begin,
    ) -> Result<Option<Event<'a>>, Fault> {
        let at = usize::from(channel);
        if let Some(session) = self.by_remote_channel.get(at).copied().flatten() {
            let fault = Violation::ChannelInUse(channel);
            return Err(Fault { violation: fault, session: Some(session), link: None });
        }
        let (session, answered) = match begin.remote_channel {
            Some(ours) if self.session(ours).is_some_and(Session::awaits_begin) => (ours, true),
            Some(_) => return Err(Fault::connection(Violation::UnexpectedFrame("answer to no BEGIN"))),
            // Use the peer's channel number as ours too, unless a session of ours has it.
            None if self.session(channel).is_none() => (channel, false),
            None => match self.free_channel().or_else(|| self.end_waiting_session()) {
                Some(free) => (free, false),
                None => return Err(Fault::connection(Violation::ChannelInUse(channel))),
            },
        };
        if self.by_remote_channel.len() <= at {
            self.by_remote_channel.resize(at + 1, None);
        }
        self.by_remote_channel[at] = Some(session);
        if !answered {
            self.put_session(session);
        }
        if let Some(s) = self.session_mut(session) {
            s.remote_channel = Some(channel);
            s.handle_begin(&begin);
            if s.state == SessionState::Ending {
                return Ok(None);
            }
            if answered {
                s.state = SessionState::Mapped;
            }
        }
        Ok(Some(Event::Begin { session, begin, answered }))
    }

    fn free_channel(&self) -> Option<u16> {
        let free = self.sessions.iter().position(Option::is_none).unwrap_or(self.sessions.len());
        u16::try_from(free).ok().filter(|n| *n <= self.channel_max)
    }

    /// Answers the END of a session now, because every channel is in use: the peer may use the channel of that session again,
    /// and its answer waits for something that is not worth a connection. Returns its number.
    fn end_waiting_session(&mut self) -> Option<u16> {
        let waits = |session: &Session| session.peer_ended && session.state == SessionState::Mapped;
        let (waiting, _) = self.sessions().find(|(_, session)| waits(session))?;
        self.end(waiting, None);
        Some(waiting)
    }

    fn put_session(&mut self, number: u16) {
        let at = usize::from(number);
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        let mut session = Session::new(number, self.config.session, self.first_id);
        session.window_held = self.windows_held;
        self.sessions[at] = Some(Box::new(session));
    }

    fn session_mut(&mut self, session: u16) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(session))?.as_deref_mut()
    }

    fn by_channel(&self, channel: u16) -> Option<u16> {
        self.by_remote_channel.get(usize::from(channel)).copied().flatten()
    }

    pub(super) fn handle_end<'a>(&mut self, channel: u16, error: Option<AmqpError>) -> Option<Event<'a>> {
        let session = self.by_channel(channel)?;
        self.by_remote_channel[usize::from(channel)] = None;
        let s = self.session_mut(session)?;
        let answered = s.state == SessionState::Ending;
        if answered {
            self.sessions[usize::from(session)] = None;
        } else {
            s.handle_end();
        }
        Some(Event::End { session, error, answered })
    }

    #[inline(always)]
    pub(super) fn handle_transfer<'a>(
        &mut self,
        channel: u16,
        transfer: &Transfer<'_>,
        input: &Chunk<'a>,
        payload_at: usize,
    ) -> Result<Option<Event<'a>>, Fault> {
        let Some(number) = self.by_channel(channel) else { return Ok(None) };
        let Self { sessions, margin_bytes, output, .. } = self;
        let Some(Some(session)) = sessions.get_mut(usize::from(number)) else { return Ok(None) };
        match session.handle_transfer(transfer, input, payload_at, margin_bytes, output) {
            // The delivery is built in each branch, so that it is written directly to where it is returned.
            Ok((link, Progress::Whole(whole))) => match input {
                Chunk::Borrowed(frame) => {
                    let delivery = whole.borrowed(transfer, frame, payload_at);
                    Ok(Some(Event::Transfer { session: number, link, delivery }))
                }
                Chunk::Owned(frame) => {
                    let delivery = whole.owned(transfer, frame, payload_at);
                    Ok(Some(Event::Transfer { session: number, link, delivery }))
                }
            },
            Ok((link, Progress::Complete(delivery))) => {
                Ok(Some(Event::Transfer { session: number, link, delivery: *delivery }))
            }
            Ok((link, Progress::Discarded)) => Ok(Some(Event::Discarded { session: number, link })),
            Ok((_, Progress::Incomplete)) => {
                self.has_incomplete = true;
                self.check_incomplete().map(|()| None)
            }
            Ok((_, Progress::Ignored)) => Ok(None),
            Err((link, violation)) => Err(Fault { violation, session: Some(number), link }),
        }
    }

    pub(super) fn handle_session_frame<'a>(
        &mut self,
        channel: u16,
        performative: Performative<'_>,
        frame_bytes: usize,
    ) -> Result<Option<Event<'a>>, Fault> {
        let max_frame = self.remote_max_frame_size as usize;
        let Some((number, session, output)) = self.of_channel(channel) else { return Ok(None) };
        let is_flow = matches!(performative, Performative::Flow(_));
        let event = session
            .handle_frame(performative, frame_bytes, output)
            .map_err(|(link, violation)| Fault { violation, session: Some(number), link })?;
        if is_flow {
            session.pump(max_frame, output);
        }
        Ok(event.map(|event| match event {
            SessionEvent::Attach { link, attach } => Event::Attach { session: number, link, attach },
            SessionEvent::Detach { link, detach, answered } => {
                Event::Detach { session: number, link, detach, answered }
            }
            SessionEvent::Flow { link, flow } => Event::Flow { session: number, link, flow },
            SessionEvent::Disposition { role, settled, state, first, last } => {
                Event::Disposition { session: number, role, settled, state, first, last }
            }
        }))
    }

    /// Returns the session of a channel of the peer. `None` means that the session has ended: its late frames
    /// are ignored.
    fn of_channel(&mut self, channel: u16) -> Option<(u16, &mut Session, &mut Output)> {
        let number = self.by_channel(channel)?;
        let session = self.sessions.get_mut(usize::from(number))?.as_deref_mut()?;
        Some((number, session, &mut self.output))
    }

    /// Returns the bytes of memory that incomplete deliveries take, over all links.
    pub fn incomplete_bytes(&mut self) -> usize {
        if !self.has_incomplete {
            return 0;
        }
        let bytes = self.sessions().map(|(_, session)| session.partial_bytes()).sum();
        self.has_incomplete = bytes > 0;
        bytes
    }

    /// Checks the memory of incomplete deliveries, over all links. A bound per link is not enough, because
    /// each of many links may have one incomplete delivery.
    fn check_incomplete(&mut self) -> Result<(), Fault> {
        let max = self.config.incomplete_bytes_max;
        match self.incomplete_bytes() > max {
            true => Err(Fault::connection(Violation::IncompleteDeliveries { max })),
            false => Ok(()),
        }
    }

    /// Answers the peer's BEGIN on `session`, or begins a new session if `session` is `None`. Returns the
    /// session's number, or `None` if no channel is free. `window_open` says whether the peer may send at
    /// once.
    pub fn begin(&mut self, session: Option<u16>, window_open: bool) -> Option<u16> {
        let number = match session {
            Some(number) => number,
            None => {
                let free = self.free_channel()?;
                self.put_session(free);
                free
            }
        };
        let output = &mut self.output;
        let s = self.sessions.get_mut(usize::from(number)).and_then(Option::as_deref_mut)?;
        s.set_window_open(window_open, output);
        s.put_begin(output);
        if session.is_some() {
            s.state = SessionState::Mapped;
        }
        Some(number)
    }

    /// Ends the session, or answers the peer's END.
    pub fn end(&mut self, session: u16, error: Option<AmqpError>) {
        let Some((s, output, max_frame)) = self.parts(session) else { return };
        s.put_end(error.map(|e| e.within(max_frame)), output);
        s.state = SessionState::Ending;
        if s.peer_ended {
            self.sessions[usize::from(session)] = None;
        }
    }

    /// Opens the incoming window of this session for the peer's transfers, or closes it.
    pub fn set_window_open(&mut self, session: u16, open: bool) {
        if let Some((s, output, _)) = self.parts(session) {
            s.set_window_open(open, output);
        }
    }

    /// Limits the bytes of the frames that all sessions together still accept after their windows were closed. Every session
    /// accepts one window of frames, and a client may have many sessions. A frame beyond the limit is a window violation.
    pub fn limit_margin(&mut self, bytes: usize) {
        self.margin_bytes = bytes;
    }

    /// Holds the windows of all sessions, or releases them. A window that is held is not opened again, and is closed in a new
    /// session.
    pub fn hold_windows(&mut self, hold: bool) {
        if self.windows_held != hold {
            self.windows_held = hold;
            let Self { sessions, output, .. } = self;
            sessions.iter_mut().flatten().for_each(|session| session.hold_window(hold, output));
        }
    }

    /// Raises the incoming window of this session to at least `frames`. The new value applies from the next
    /// time that the window is opened until the session ends. Without this, a link could not use more credit
    /// than the window allows.
    pub fn widen_window(&mut self, session: u16, frames: u32) {
        if let Some((s, ..)) = self.parts(session) {
            s.widen_window(frames);
        }
    }

    /// Sends the peer the state of the deliveries `first..=last`. `role` is our role on that link.
    pub fn disposition(
        &mut self,
        session: u16,
        role: Role,
        ids: (u32, u32),
        settled: bool,
        state: &DeliveryState,
    ) {
        let Some((s, output, max_frame)) = self.parts(session) else { return };
        match state {
            DeliveryState::Rejected(Some(error)) => {
                let state = DeliveryState::Rejected(Some(error.clone().within(max_frame)));
                s.disposition(role, ids, settled, &state, output);
            }
            state => s.disposition(role, ids, settled, state, output),
        }
    }

    /// Appends to `runs` those deliveries of `first..=last` that we sent and that are still unsettled. If
    /// `settle` is true, they are settled.
    pub fn resolve(&mut self, session: u16, first: u32, last: u32, settle: bool, runs: &mut Vec<Run>) {
        if let Some((s, _, _)) = self.parts(session) {
            s.resolve(first, last, settle, runs);
        }
    }

    /// Appends to `runs` the deliveries on `link` whose cookies are in `cookies` and that the receiver has not settled.
    pub fn find_unsettled(&mut self, session: u16, link: u32, cookies: (u64, u64), runs: &mut Vec<Run>) {
        if let Some((s, _, _)) = self.parts(session) {
            s.find_unsettled(link, cookies, runs);
        }
    }

    /// Returns our own number for the oldest delivery on `link` that was sent and that the receiver has not settled.
    pub fn oldest_unsettled(&self, session: u16, link: u32) -> Option<u64> {
        self.session(session)?.oldest_unsettled(link)
    }

    /// Answers the peer's ATTACH on `link`, or proposes a new link if `link` is `None`. `attach.handle` is
    /// filled in. Returns the number of the link. Returns `None`, and writes nothing, if the session does not
    /// exist or is ending, all its handles are in use, or the frame does not fit the peer's max-frame-size.
    pub fn attach(&mut self, session: u16, link: Option<u32>, attach: Attach) -> Option<u32> {
        let (s, output, max_frame) = self.parts(session)?;
        s.attach(link, attach, max_frame, output)
    }

    /// Detaches the link with `closed`, or answers the peer's DETACH.
    pub fn detach(&mut self, session: u16, link: u32, error: Option<AmqpError>) {
        if let Some((s, output, max_frame)) = self.parts(session) {
            s.detach(link, error.map(|e| e.within(max_frame)), output);
        }
    }

    /// Grants credit on a link on which we receive. The credit is set, not added.
    pub fn grant(&mut self, session: u16, link: u32, credit: u32, drain: bool, echo: bool) {
        if let Some((s, output, _)) = self.parts(session) {
            s.grant(link, credit, drain, echo, output);
        }
    }

    /// Sends a delivery on a link on which we send. Returns false, and does nothing, if there is no such
    /// link, or if there is no credit and the delivery is not irrevocable.
    pub fn send(&mut self, session: u16, link: u32, delivery: &Outgoing<'_>) -> bool {
        match self.parts(session) {
            Some((s, output, max_frame)) => s.send(link, delivery, max_frame, output),
            None => false,
        }
    }

    /// Counts more bytes for a link than its ATTACH had, for a caller that keeps more.
    pub fn add_attached_bytes(&mut self, session: u16, link: u32, bytes: usize) {
        if let Some((session, _, _)) = self.parts(session) {
            session.add_attached_bytes(link, bytes);
        }
    }

    /// Frees the name of a link that was refused; see [`Connection::detach`].
    pub fn forget_attach(&mut self, session: u16, link: u32) {
        if let Some((session, _, _)) = self.parts(session) {
            session.forget_attach(link);
        }
    }

    /// Reports our credit on a link on which we send, after its pending deliveries. With `drain`, uses up the
    /// credit first.
    pub fn report_credit(&mut self, session: u16, link: u32, available: u32, drain: bool) {
        if let Some((s, output, _)) = self.parts(session) {
            s.report_credit(link, available, drain, output);
        }
    }

    /// Reports the state of a link on which we send [2.7.4], after its pending deliveries. Its credit does
    /// not change. Nothing is sent if the peer has been told the same state last.
    pub fn report_state(&mut self, session: u16, link: u32, available: u32, properties: Map) {
        if let Some((s, output, _)) = self.parts(session) {
            s.report_state(link, available, properties, output);
        }
    }

    /// Writes deliveries and reports that waited because the output was full.
    pub fn pump(&mut self) {
        let max_frame = self.remote_max_frame_size as usize;
        for session in self.sessions.iter_mut().flatten() {
            if session.pending_len() > 0 && session.state == SessionState::Mapped {
                session.pump(max_frame, &mut self.output);
            }
        }
    }

    /// Returns a session on which we may still send, and the output. Nothing may follow our END [2.5.5].
    fn parts(&mut self, session: u16) -> Option<(&mut Session, &mut Output, usize)> {
        let s = self.sessions.get_mut(usize::from(session))?.as_deref_mut()?;
        if s.state == SessionState::Ending {
            return None;
        }
        Some((s, &mut self.output, self.remote_max_frame_size as usize))
    }
}
