//! One end of a connection [2.4], without sockets: frames in, events and bytes out.
//!
//! ```text
//!  server: Header --SASL header--> Sasl --outcome ok--> AmqpHeader --AMQP header--> Opening --OPEN--> Opened
//!  client: the same states, each entered when the peer's answer to what we sent has come
//!          Opened --CLOSE sent--> Closing --CLOSE received--> Closed
//!          Opened --CLOSE received, answered by close()-----> Closed
//! ```
//!
//! How to drive it: split the input with [`Connection::frame_len`], hand each piece to
//! [`Connection::handle_frame`], act on the event it returns, write what is in [`Connection::output`], call
//! [`Connection::pump`] when some of it has been written, and [`Connection::handle_timeout`] at
//! [`Connection::next_deadline`].

use bytes::Bytes;

use crate::chunk::Chunk;
use crate::frame::{self, FrameKind, HEADER_SIZE, INITIAL_MAX_FRAME_SIZE};
use crate::link::Delivery;
use crate::output::Output;
use crate::performative::{put_frame, put_sasl_frame};
use crate::session::{Outgoing, Session, SessionConfig, SessionEvent, SessionState};
use crate::unsettled::Run;
use crate::violation::{Radius, Violation};
use crate::{
    AmqpError, Attach, Begin, Close, DeliveryState, Detach, Flow, Open, Performative, Role, SaslCode,
    SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, Symbol,
};

/// The shortest idle-time-out of a peer that we are ready to keep, in milliseconds.
pub const MIN_IDLE_TIME_OUT_MS: u32 = 1000;

/// What we offer and want.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest frame we take.
    pub max_frame_size: u32,
    /// Highest channel number we take.
    pub channel_max: u16,
    /// The connection is given up when nothing has been heard for so long; half of it is advertised. 0 is never.
    pub idle_time_out_ms: u32,
    pub session: SessionConfig,
}

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    Header,
    Sasl,
    AmqpHeader,
    Opening,
    Opened,
    Closing,
    Closed,
}

/// Our end of a connection, in either role.
#[derive(Debug)]
pub struct Connection {
    server: bool,
    state: ConnectionState,
    config: Config,
    open_sent: bool,
    open_received: bool,
    /// Largest frame the peer takes.
    remote_max_frame_size: u32,
    channel_max: u16,
    /// Send something at least this often; 0 is never.
    heartbeat_ms: u32,
    last_heard_ms: u64,
    last_sent_ms: u64,
    sessions: Vec<Option<Box<Session>>>,
    /// Our channel by the peer's.
    by_remote_channel: Vec<Option<u16>>,
    output: Output,
    /// See [`Connection::start_ids_at`].
    first_id: u32,
}

/// What the peer wants of us. Sessions and links are named by our own numbers.
#[derive(Debug)]
pub enum Event<'a> {
    /// Server: SASL-INIT has come; answer with [`Connection::sasl_outcome`].
    SaslInit(SaslInit),
    /// Client: choose with [`Connection::sasl_init`].
    SaslMechanisms(SaslMechanisms),
    /// Client: not `Ok` is final.
    SaslOutcome(SaslCode),
    /// Server: SASL is done and the AMQP header exchanged; or client: call [`Connection::open`] now.
    HeaderExchanged,
    Open(Box<Open>),
    Close(Option<AmqpError>),
    /// The peer began a session (answer with [`Connection::begin`]) or answered our BEGIN.
    Begin {
        session: u16,
        begin: Begin,
        answered: bool,
    },
    /// The peer ended the session. Unless `answered`, answer with [`Connection::end`].
    End {
        session: u16,
        error: Option<AmqpError>,
        answered: bool,
    },
    Attach {
        session: u16,
        link: u32,
        attach: Box<Attach>,
    },
    /// The peer detached the link. Unless `answered`, answer with [`Connection::detach`].
    Detach {
        session: u16,
        link: u32,
        detach: Detach,
        answered: bool,
    },
    Flow {
        session: u16,
        link: Option<u32>,
        flow: Flow,
    },
    /// A whole delivery.
    Transfer {
        session: u16,
        link: u32,
        delivery: Delivery<'a>,
    },
    /// The sender took a delivery back half-way; its credit is spent.
    Aborted {
        session: u16,
        link: u32,
    },
    /// Resolve it with [`Connection::resolve`].
    Disposition {
        session: u16,
        role: Role,
        settled: bool,
        state: Option<DeliveryState>,
        first: u32,
        last: u32,
    },
}

/// A violation, and where it strikes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub violation: Violation,
    pub session: Option<u16>,
    pub link: Option<u32>,
}

impl Fault {
    fn connection(violation: Violation) -> Self {
        Self { violation, session: None, link: None }
    }

    pub fn radius(&self) -> Radius {
        match (self.violation.sentence().0, self.session, self.link) {
            (Radius::Link, Some(_), Some(_)) => Radius::Link,
            (Radius::Link | Radius::Session, Some(_), _) => Radius::Session,
            _ => Radius::Connection,
        }
    }
}

impl Connection {
    pub fn server(config: Config, now_ms: u64) -> Self {
        Self::new(true, config, now_ms)
    }

    /// Sends the SASL header at once.
    pub fn client(config: Config, now_ms: u64) -> Self {
        let mut connection = Self::new(false, config, now_ms);
        connection.output.buffer().extend_from_slice(&frame::SASL_HEADER);
        connection
    }

    fn new(server: bool, config: Config, now_ms: u64) -> Self {
        Self {
            server,
            state: ConnectionState::Header,
            open_sent: false,
            open_received: false,
            remote_max_frame_size: INITIAL_MAX_FRAME_SIZE,
            channel_max: config.channel_max,
            heartbeat_ms: 0,
            last_heard_ms: now_ms,
            last_sent_ms: now_ms,
            sessions: Vec::new(),
            by_remote_channel: Vec::new(),
            output: Output::default(),
            first_id: 0,
            config,
        }
    }

    /// Sessions begun from now on number their transfers and deliveries from `id` instead of 0; any start is
    /// allowed [2.8.10], and a late one brings the wrap into reach.
    pub fn start_ids_at(&mut self, id: u32) {
        self.first_id = id;
    }

    pub fn state(&self) -> ConnectionState {
        self.state
    }

    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    pub fn session(&self, session: u16) -> Option<&Session> {
        self.sessions.get(usize::from(session))?.as_deref()
    }

    pub fn sessions(&self) -> impl Iterator<Item = (u16, &Session)> {
        self.sessions.iter().enumerate().filter_map(|(i, s)| Some((i as u16, s.as_deref()?)))
    }

    pub fn channel_max(&self) -> u16 {
        self.channel_max
    }

    pub fn remote_max_frame_size(&self) -> u32 {
        self.remote_max_frame_size
    }

    // ---- input ------------------------------------------------------------------------------------------

    /// Length of the frame (or protocol header) that `input` starts with; `None` if too little is there to
    /// tell. Never more than our max-frame-size.
    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, Fault> {
        let Some(start) = input.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        if matches!(self.state, ConnectionState::Header | ConnectionState::AmqpHeader) {
            return Ok(Some(HEADER_SIZE));
        }
        let max = if self.open_received { self.config.max_frame_size } else { INITIAL_MAX_FRAME_SIZE };
        let header = frame::parse_header(start, max).map_err(|e| Fault::connection(Violation::Framing(e)))?;
        Ok(Some(header.size as usize))
    }

    /// One frame or protocol header, whole.
    pub fn handle_frame<'a>(&mut self, input: Chunk<'a>, now_ms: u64) -> Result<Option<Event<'a>>, Fault> {
        self.last_heard_ms = now_ms;
        match self.state {
            ConnectionState::Header | ConnectionState::AmqpHeader => self.handle_protocol_header(&input),
            ConnectionState::Closed => Ok(None),
            _ => self.handle_typed_frame(input),
        }
    }

    fn handle_protocol_header<'a>(&mut self, input: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        let Some(header) = input.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        let sasl = self.state == ConnectionState::Header;
        let wanted = if sasl { frame::SASL_HEADER } else { frame::AMQP_HEADER };
        if *header != wanted {
            // [2.2] Say what we speak; the socket is closed then.
            self.output.buffer().extend_from_slice(&wanted);
            self.state = ConnectionState::Closed;
            return Err(Fault::connection(Violation::ProtocolHeader(*header)));
        }
        self.state = if sasl { ConnectionState::Sasl } else { ConnectionState::Opening };
        if self.server {
            self.output.buffer().extend_from_slice(&wanted);
        }
        Ok((self.server || !sasl).then_some(Event::HeaderExchanged))
    }

    fn handle_typed_frame<'a>(&mut self, input: Chunk<'a>) -> Result<Option<Event<'a>>, Fault> {
        let Some(start) = input.first_chunk::<HEADER_SIZE>() else {
            return Err(Fault::connection(Violation::UnexpectedFrame("short frame")));
        };
        let header =
            frame::parse_header(start, u32::MAX).map_err(|e| Fault::connection(Violation::Framing(e)))?;
        let body_at = usize::from(header.doff) * 4;
        let body = input.get(body_at..).unwrap_or_default();
        match (header.kind, self.state) {
            (FrameKind::Sasl, ConnectionState::Sasl) => self.handle_sasl(body),
            (FrameKind::Amqp, ConnectionState::Sasl) | (FrameKind::Sasl, _) => {
                Err(Fault::connection(Violation::FrameType))
            }
            (FrameKind::Amqp, _) if body.is_empty() => Ok(None),
            (FrameKind::Amqp, _) => {
                let max = if self.open_received { self.channel_max } else { 0 };
                if header.channel > max {
                    return Err(Fault::connection(Violation::ChannelMax { channel: header.channel, max }));
                }
                let (performative, used) =
                    Performative::decode(body).map_err(|e| Fault::connection(Violation::Decode(e)))?;
                self.handle_performative(header.channel, performative, &input, body_at + used)
            }
        }
    }

    fn handle_sasl<'a>(&mut self, body: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        let frame = SaslFrame::decode(body).map_err(|e| Fault::connection(Violation::Decode(e)))?;
        match (frame, self.server) {
            (SaslFrame::Init(init), true) => Ok(Some(Event::SaslInit(init))),
            (SaslFrame::Mechanisms(mechanisms), false) => Ok(Some(Event::SaslMechanisms(mechanisms))),
            (SaslFrame::Outcome(outcome), false) => {
                if outcome.code == SaslCode::Ok {
                    self.state = ConnectionState::AmqpHeader;
                    self.output.buffer().extend_from_slice(&frame::AMQP_HEADER);
                }
                Ok(Some(Event::SaslOutcome(outcome.code)))
            }
            _ => Err(Fault::connection(Violation::UnexpectedFrame("SASL frame"))),
        }
    }

    fn handle_performative<'a>(
        &mut self,
        channel: u16,
        performative: Performative<'_>,
        input: &Chunk<'a>,
        payload_at: usize,
    ) -> Result<Option<Event<'a>>, Fault> {
        match performative {
            Performative::Open(open) => self.handle_open(open).map(Some),
            Performative::Close(close) => {
                if self.state == ConnectionState::Closing {
                    self.state = ConnectionState::Closed;
                }
                Ok(Some(Event::Close(close.error)))
            }
            _ if !self.open_received => {
                Err(Fault::connection(Violation::UnexpectedFrame("frame before OPEN")))
            }
            // [2.4.6] After our CLOSE only the peer's is of interest.
            _ if self.state == ConnectionState::Closing => Ok(None),
            Performative::Begin(begin) => self.handle_begin(channel, begin),
            Performative::End(end) => Ok(self.handle_end(channel, end.error)),
            other => self.handle_session_frame(channel, other, input, payload_at),
        }
    }

    fn handle_open<'a>(&mut self, open: Box<Open>) -> Result<Event<'a>, Fault> {
        if self.open_received {
            return Err(Fault::connection(Violation::UnexpectedFrame("second OPEN")));
        }
        self.open_received = true;
        if open.max_frame_size < frame::MIN_MAX_FRAME_SIZE {
            return Err(Fault::connection(Violation::FrameSizeTooSmall(open.max_frame_size)));
        }
        self.remote_max_frame_size = open.max_frame_size;
        self.channel_max = self.config.channel_max.min(open.channel_max);
        let idle = open.idle_time_out.unwrap_or(0);
        if idle != 0 && idle < MIN_IDLE_TIME_OUT_MS {
            return Err(Fault::connection(Violation::IdleTimeOutTooShort(idle)));
        }
        self.heartbeat_ms = idle / 2;
        if self.open_sent && self.state == ConnectionState::Opening {
            self.state = ConnectionState::Opened;
        }
        Ok(Event::Open(open))
    }

    fn handle_begin<'a>(&mut self, channel: u16, begin: Begin) -> Result<Option<Event<'a>>, Fault> {
        let at = usize::from(channel);
        if let Some(session) = self.by_remote_channel.get(at).copied().flatten() {
            let fault = Violation::ChannelInUse(channel);
            return Err(Fault { violation: fault, session: Some(session), link: None });
        }
        let (session, answered) = match begin.remote_channel {
            Some(ours) if self.session(ours).is_some_and(Session::awaits_begin) => (ours, true),
            Some(_) => return Err(Fault::connection(Violation::UnexpectedFrame("answer to no BEGIN"))),
            // Our channel is the peer's, unless a session still has it.
            None if self.session(channel).is_none() => (channel, false),
            None => match self.free_channel() {
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

    fn put_session(&mut self, number: u16) {
        let at = usize::from(number);
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        self.sessions[at] = Some(Box::new(Session::new(number, self.config.session, self.first_id)));
    }

    fn session_mut(&mut self, session: u16) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(session))?.as_deref_mut()
    }

    fn by_channel(&self, channel: u16) -> Option<u16> {
        self.by_remote_channel.get(usize::from(channel)).copied().flatten()
    }

    fn handle_end<'a>(&mut self, channel: u16, error: Option<AmqpError>) -> Option<Event<'a>> {
        let session = self.by_channel(channel)?;
        self.by_remote_channel[usize::from(channel)] = None;
        let s = self.session_mut(session)?;
        let answered = s.state == SessionState::Ending;
        if answered {
            self.sessions[usize::from(session)] = None;
        } else {
            s.peer_ended = true;
        }
        Some(Event::End { session, error, answered })
    }

    fn handle_session_frame<'a>(
        &mut self,
        channel: u16,
        performative: Performative<'_>,
        input: &Chunk<'a>,
        payload_at: usize,
    ) -> Result<Option<Event<'a>>, Fault> {
        // Frames on a channel without a session are those of one that has ended: ignored (behaviour B.1).
        let Some(number) = self.by_channel(channel) else { return Ok(None) };
        let max_frame = self.remote_max_frame_size as usize;
        let output = &mut self.output;
        let Some(session) = self.sessions.get_mut(usize::from(number)).and_then(Option::as_deref_mut) else {
            return Ok(None);
        };
        let is_flow = matches!(performative, Performative::Flow(_));
        let event = session
            .handle_frame(performative, input, payload_at, output)
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
            SessionEvent::Transfer { link, delivery } => Event::Transfer { session: number, link, delivery },
            SessionEvent::Aborted { link } => Event::Aborted { session: number, link },
            SessionEvent::Disposition { role, settled, state, first, last } => {
                Event::Disposition { session: number, role, settled, state, first, last }
            }
        }))
    }

    // ---- output: the connection ---------------------------------------------------------------------------

    /// Server: offers the mechanisms, after [`Event::HeaderExchanged`] in state `Sasl`.
    pub fn sasl_mechanisms(&mut self, mechanisms: Vec<Symbol>) {
        let frame = SaslFrame::Mechanisms(SaslMechanisms { sasl_server_mechanisms: mechanisms });
        put_sasl_frame(self.output.buffer(), &frame);
    }

    /// Client: chooses a mechanism.
    pub fn sasl_init(&mut self, init: SaslInit) {
        put_sasl_frame(self.output.buffer(), &SaslFrame::Init(init));
    }

    /// Server: the verdict. After anything but `Ok` the connection is closed once this is written.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        let outcome = SaslOutcome { code, additional_data: None };
        put_sasl_frame(self.output.buffer(), &SaslFrame::Outcome(outcome));
        self.state = if code == SaslCode::Ok { ConnectionState::AmqpHeader } else { ConnectionState::Closed };
    }

    /// Sends OPEN. Frame size, channel-max and idle-time-out are filled in from the configuration.
    pub fn open(&mut self, mut open: Open) {
        open.max_frame_size = self.config.max_frame_size;
        open.channel_max = self.channel_max;
        open.idle_time_out = (self.config.idle_time_out_ms > 0).then_some(self.config.idle_time_out_ms / 2);
        put_frame(self.output.buffer(), 0, &open);
        self.open_sent = true;
        if self.open_received && self.state == ConnectionState::Opening {
            self.state = ConnectionState::Opened;
        }
    }

    /// Sends CLOSE, with the reason if there is one; answers the peer's CLOSE if it was first.
    pub fn close(&mut self, error: Option<AmqpError>, peer_has_closed: bool) {
        if matches!(self.state, ConnectionState::Closing | ConnectionState::Closed) {
            return;
        }
        put_frame(self.output.buffer(), 0, &Close { error });
        self.state = if peer_has_closed { ConnectionState::Closed } else { ConnectionState::Closing };
        self.sessions.clear();
        self.by_remote_channel.clear();
    }

    // ---- output: sessions -----------------------------------------------------------------------------------

    /// Answers the peer's BEGIN on `session`, or with `None` begins a new session; `None` if there is no free
    /// channel. `window_open`: whether the peer may send at once.
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
        let Some((s, output, _)) = self.parts(session) else { return };
        s.put_end(error, output);
        s.state = SessionState::Ending;
        if s.peer_ended {
            self.sessions[usize::from(session)] = None;
        }
    }

    /// Opens or closes our window for what the peer sends on this session.
    pub fn set_window_open(&mut self, session: u16, open: bool) {
        if let Some((s, output, _)) = self.parts(session) {
            s.set_window_open(open, output);
        }
    }

    /// Tells the peer what became of the deliveries `first..=last`. `role`: ours on that link.
    pub fn disposition(
        &mut self,
        session: u16,
        role: Role,
        ids: (u32, u32),
        settled: bool,
        state: &DeliveryState,
    ) {
        if let Some((s, output, _)) = self.parts(session) {
            s.disposition(role, ids, settled, state, output);
        }
    }

    /// What of `first..=last` we have sent and not yet seen settled, appended to `runs`; settled if so wished.
    pub fn resolve(&mut self, session: u16, first: u32, last: u32, settle: bool, runs: &mut Vec<Run>) {
        if let Some((s, _, _)) = self.parts(session) {
            s.resolve(first, last, settle, runs);
        }
    }

    // ---- output: links ----------------------------------------------------------------------------------------

    /// Answers the peer's ATTACH on `link`, or with `None` proposes a link. `attach.handle` is filled in.
    /// Returns the number of the link; `None` if the session is gone or all its handles are in use.
    pub fn attach(&mut self, session: u16, link: Option<u32>, attach: Attach) -> Option<u32> {
        let (s, output, _) = self.parts(session)?;
        s.attach(link, attach, output)
    }

    /// Detaches (closed), or answers the peer's DETACH.
    pub fn detach(&mut self, session: u16, link: u32, error: Option<AmqpError>) {
        if let Some((s, output, _)) = self.parts(session) {
            s.detach(link, error, output);
        }
    }

    /// Grants credit on a link on which we receive: set, not added.
    pub fn grant(&mut self, session: u16, link: u32, credit: u32, drain: bool, echo: bool) {
        if let Some((s, output, _)) = self.parts(session) {
            s.grant(link, credit, drain, echo, output);
        }
    }

    /// Sends a delivery on a link on which we send. False without link, or without credit if the delivery is
    /// unsettled: nothing happened. A settled delivery is sent even without credit.
    pub fn send(&mut self, session: u16, link: u32, delivery: Outgoing) -> bool {
        match self.parts(session) {
            Some((s, output, max_frame)) => s.send(link, delivery, max_frame, output),
            None => false,
        }
    }

    /// Reports our credit on a link on which we send, behind its deliveries; with `drain` after using it up.
    pub fn report_credit(&mut self, session: u16, link: u32, available: u32, drain: bool) {
        if let Some((s, output, _)) = self.parts(session) {
            s.report_credit(link, available, drain, output);
        }
    }

    /// Sends what waited for room in the output.
    pub fn pump(&mut self) {
        let max_frame = self.remote_max_frame_size as usize;
        for session in self.sessions.iter_mut().flatten() {
            if session.pending_len() > 0 && session.state == SessionState::Mapped {
                session.pump(max_frame, &mut self.output);
            }
        }
    }

    /// A session on which something may be said: nothing follows our END [2.5.5].
    fn parts(&mut self, session: u16) -> Option<(&mut Session, &mut Output, usize)> {
        let s = self.sessions.get_mut(usize::from(session))?.as_deref_mut()?;
        if s.state == SessionState::Ending {
            return None;
        }
        Some((s, &mut self.output, self.remote_max_frame_size as usize))
    }

    // ---- time -------------------------------------------------------------------------------------------------

    /// Something has been written to the socket.
    pub fn handle_written(&mut self, now_ms: u64) {
        self.last_sent_ms = now_ms;
    }

    /// When [`Connection::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.open_received || self.state == ConnectionState::Closed {
            return None;
        }
        let beats = self.heartbeat_ms > 0 && self.state == ConnectionState::Opened;
        let heartbeat = beats.then(|| self.last_sent_ms + u64::from(self.heartbeat_ms));
        let idle = u64::from(self.config.idle_time_out_ms);
        let silence = (idle > 0).then(|| self.last_heard_ms + idle);
        heartbeat.into_iter().chain(silence).min()
    }

    /// Sends a heartbeat if one is due [2.4.5]; a fault if the peer has been silent for too long.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Result<(), Fault> {
        let idle = u64::from(self.config.idle_time_out_ms);
        if self.open_received && idle > 0 && now_ms >= self.last_heard_ms + idle {
            return Err(Fault::connection(Violation::IdleTimeOut));
        }
        if self.heartbeat_ms > 0
            && now_ms >= self.last_sent_ms + u64::from(self.heartbeat_ms)
            && matches!(self.state, ConnectionState::Opened)
        {
            frame::put_empty_frame(self.output.buffer());
            self.last_sent_ms = now_ms;
        }
        Ok(())
    }
}

/// Payload of a delivery that is one piece, for tests and small senders.
impl Outgoing {
    pub fn whole(tag: crate::Tag, settled: bool, message: Bytes, cookie: u64) -> Self {
        Self { tag, settled, message_format: 0, head: message, bare: Bytes::new(), cookie }
    }
}
