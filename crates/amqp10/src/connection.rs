//! One end of a connection [2.4], without sockets. Frames go in; events and bytes come out.
//!
//! ```text
//!  server: Header --SASL header--> Sasl --outcome ok--> AmqpHeader --AMQP header--> Opening --OPEN--> Opened
//!  client: the same states; each is entered when the peer's answer to what we sent arrives
//!          Opened --CLOSE sent--> Closing --CLOSE received--> Closed
//!          Opened --CLOSE received, answered by close()-----> Closed
//! ```
//!
//! How to drive it: split the input with [`Connection::frame_len`] and pass each piece to
//! [`Connection::handle_frame`]. Act on the event that it returns. Write the bytes in [`Connection::output`],
//! and call [`Connection::pump`] when some of them are written. Call [`Connection::handle_timeout`] at
//! [`Connection::next_deadline`]. Protocol headers, SASL and OPEN are in `handshake`, sessions and links in
//! `channels`.

mod channels;
mod event;
mod handshake;

use crate::frame::{self, FrameKind, HEADER_SIZE, INITIAL_MAX_FRAME_SIZE};
use crate::performative::put_frame;
use crate::session::{Session, SessionConfig};
use crate::violation::Violation;
use crate::{AmqpError, Close, Performative, Transfer};
use buffers::Chunk;
use buffers::Output;

pub use self::event::{Event, Fault};

/// The shortest idle-time-out that we accept from a peer, in milliseconds.
pub const MIN_IDLE_TIME_OUT_MS: u32 = 1000;

/// The limits of our end of a connection. Most of them are announced to the peer in OPEN.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest frame that we accept, in bytes.
    pub max_frame_size: u32,
    /// The largest frame that we accept before the peer's OPEN, in bytes ([`frame::INITIAL_MAX_FRAME_SIZE`]).
    pub initial_max_frame_size: u32,
    /// The highest channel number that we accept.
    pub channel_max: u16,
    /// The connection is closed when nothing is received for this long. We advertise half of it. 0 means
    /// never.
    pub idle_time_out_ms: u32,
    /// The most bytes that incomplete deliveries may take, over all links.
    pub incomplete_bytes_max: usize,
    pub session: SessionConfig,
}

/// The states of a connection. See the diagram above.
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

/// Our end of a connection, as server or as client.
#[derive(Debug)]
pub struct Connection {
    server: bool,
    state: ConnectionState,
    config: Config,
    open_sent: bool,
    open_received: bool,
    /// The largest frame that the peer accepts, in bytes.
    remote_max_frame_size: u32,
    channel_max: u16,
    /// The longest time without a frame to the peer, in milliseconds. A heartbeat is sent when it has passed.
    /// 0 means that the peer needs no heartbeats.
    heartbeat_ms: u32,
    last_received_ms: u64,
    last_sent_ms: u64,
    sessions: Vec<Option<Box<Session>>>,
    /// Our channel for each channel of the peer.
    by_remote_channel: Vec<Option<u16>>,
    output: Output,
    /// The number of bytes that the frames in the margins of all sessions may still have; see
    /// [`Connection::limit_margin`].
    margin_bytes: usize,
    /// True if the windows of all sessions are held; see [`Connection::hold_windows`].
    windows_held: bool,
    /// True if some link may have a delivery whose last transfer has not arrived.
    has_incomplete: bool,
    /// The first transfer-id and delivery-id of new sessions; set by [`Connection::start_ids_at`].
    first_id: u32,
}

impl Connection {
    pub fn server(config: Config, now_ms: u64) -> Self {
        Self::new(true, config, now_ms)
    }

    /// Creates the client's end. The SASL header is put in the output at once.
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
            last_received_ms: now_ms,
            last_sent_ms: now_ms,
            sessions: Vec::new(),
            by_remote_channel: Vec::new(),
            output: Output::framed(frame::output_frame_len),
            margin_bytes: usize::MAX,
            windows_held: false,
            has_incomplete: false,
            first_id: 0,
            config,
        }
    }

    /// Makes sessions that begin from now on number their transfers and deliveries from `id` instead of 0.
    /// Any start is allowed [2.8.10]. A high start lets tests reach the wrap.
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

    /// Returns the bytes of the ATTACHes of all links ([`Session::attached_bytes`]).
    pub fn attached_bytes(&self) -> usize {
        self.sessions().map(|(_, session)| session.attached_bytes()).sum()
    }

    /// Returns the number of links of all sessions.
    pub fn link_count(&self) -> usize {
        self.sessions().map(|(_, session)| session.link_count()).sum()
    }

    /// Returns the bytes of memory in use for what the peer has not read: the output, and deliveries that wait for it or for
    /// the peer's window.
    pub fn unread_bytes(&self) -> usize {
        // A delivery that was sent in part waits in its session. If the output has a part of it, it is counted there.
        let begun =
            |session: &Session| session.begun().filter(|of| self.output.holds(of)).map_or(0, |of| of.len());
        let waiting = self.sessions().map(|(_, session)| session.pending_bytes() - begun(session));
        self.output.held() + waiting.sum::<usize>()
    }

    /// Returns the part of [`Connection::unread_bytes`] that is no delivery ([`Output::answers_held`]).
    pub fn answers_held(&self) -> usize {
        self.output.answers_held()
    }

    /// Returns the bytes of memory that payloads of deliveries in the output keep ([`Output::deliveries_held`]).
    pub fn deliveries_held(&self) -> usize {
        self.output.deliveries_held()
    }

    /// Returns the number of bytes to write behind the last large delivery.
    pub fn answers_len(&self) -> usize {
        self.output.len_behind_delivery()
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

    /// Returns the length of the frame (or protocol header) at the start of `input`. It is at most our
    /// max-frame-size. Returns `None` if `input` is too short to tell.
    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, Fault> {
        let Some(start) = input.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        if matches!(self.state, ConnectionState::Header | ConnectionState::AmqpHeader) {
            return Ok(Some(HEADER_SIZE));
        }
        let max =
            if self.open_received { self.config.max_frame_size } else { self.config.initial_max_frame_size };
        let header = frame::parse_header(start, max).map_err(|e| Fault::connection(Violation::Framing(e)))?;
        Ok(Some(header.size as usize))
    }

    /// Handles one complete frame or protocol header.
    pub fn handle_frame<'a>(&mut self, input: Chunk<'a>, now_ms: u64) -> Result<Option<Event<'a>>, Fault> {
        self.last_received_ms = now_ms;
        match self.state {
            ConnectionState::Header | ConnectionState::AmqpHeader => self.handle_protocol_header(&input),
            ConnectionState::Closed => Ok(None),
            _ => self.handle_typed_frame(&input),
        }
    }

    fn handle_typed_frame<'a>(&mut self, input: &Chunk<'a>) -> Result<Option<Event<'a>>, Fault> {
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
                let carries = self.open_received && self.state != ConnectionState::Closing;
                // Most frames are plain transfers. They are handled here first, where they are decoded.
                if carries && let Some((transfer, payload)) = Transfer::decode_plain(body) {
                    let payload_at = input.len() - payload.len();
                    return self.handle_transfer(header.channel, &transfer, input, payload_at);
                }
                self.handle_any(header.channel, input, body_at, carries)
            }
        }
    }

    /// Handles a frame that is not a plain transfer. `carries` says whether the state of the connection
    /// allows transfers.
    #[inline(never)]
    fn handle_any<'a>(
        &mut self,
        channel: u16,
        input: &Chunk<'a>,
        body_at: usize,
        carries: bool,
    ) -> Result<Option<Event<'a>>, Fault> {
        match Performative::decode(&input[body_at..]) {
            Ok((Performative::Transfer(ref transfer), used)) if carries => {
                self.handle_transfer(channel, transfer, input, body_at + used)
            }
            Ok((performative, _)) => self.handle_performative(channel, performative, input.len()),
            Err(error) => Err(Fault::connection(Violation::Decode(error))),
        }
    }

    /// Handles every performative except an accepted transfer.
    fn handle_performative<'a>(
        &mut self,
        channel: u16,
        performative: Performative<'_>,
        frame_bytes: usize,
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
            // [2.4.6] After our CLOSE, only the peer's CLOSE matters.
            _ if self.state == ConnectionState::Closing => Ok(None),
            Performative::Begin(begin) => self.handle_begin(channel, begin),
            Performative::End(end) => Ok(self.handle_end(channel, end.error)),
            other => self.handle_session_frame(channel, other, frame_bytes),
        }
    }

    // ---- closing ------------------------------------------------------------------------------------------

    /// Sends CLOSE, with the error if there is one. Answers the peer's CLOSE if that was first. Before the
    /// AMQP headers are exchanged no AMQP frame is allowed [2.2, 5.3], so nothing is sent.
    pub fn close(&mut self, error: Option<AmqpError>, peer_has_closed: bool) {
        self.state = match self.state {
            ConnectionState::Closing | ConnectionState::Closed => return,
            ConnectionState::Header | ConnectionState::Sasl | ConnectionState::AmqpHeader => {
                ConnectionState::Closed
            }
            ConnectionState::Opening | ConnectionState::Opened => {
                let error = error.map(|e| e.within(self.remote_max_frame_size as usize));
                put_frame(self.output.buffer(), 0, &Close { error });
                if peer_has_closed { ConnectionState::Closed } else { ConnectionState::Closing }
            }
        };
        self.sessions.clear();
        self.by_remote_channel.clear();
    }

    // ---- time -------------------------------------------------------------------------------------------------

    /// Called when something was written to the socket.
    pub fn handle_written(&mut self, now_ms: u64) {
        self.last_sent_ms = now_ms;
    }

    /// Consumes the empty frames at the start of `input`. They are the peer's heartbeats [2.4.5]. Returns
    /// their length in bytes. If our own heartbeat is due soon, sends it as well, because this saves a
    /// separate wakeup.
    pub fn handle_heartbeats(&mut self, input: &[u8], now_ms: u64) -> usize {
        let (frames, _) = input.as_chunks::<HEADER_SIZE>();
        let heartbeats = frames.iter().take_while(|frame| frame.starts_with(&frame::EMPTY)).count();
        if heartbeats == 0 || self.state != ConnectionState::Opened {
            return 0;
        }
        self.last_received_ms = now_ms;
        self.put_heartbeat_after(self.heartbeat_ms / 4 * 3, now_ms);
        heartbeats * HEADER_SIZE
    }

    /// Sends a heartbeat if the peer wants heartbeats and nothing was sent for `silence_ms`.
    fn put_heartbeat_after(&mut self, silence_ms: u32, now_ms: u64) {
        if self.heartbeat_ms > 0 && now_ms >= self.last_sent_ms + u64::from(silence_ms) {
            frame::put_empty_frame(self.output.buffer());
            self.last_sent_ms = now_ms;
        }
    }

    /// Counts the silence of the peer from now on. For a caller that has not read what the peer has sent.
    pub fn forgive_silence(&mut self, now_ms: u64) {
        self.last_received_ms = now_ms;
    }

    /// Takes `late_ms` off the silence of the peer. For a caller that has not read for so long.
    pub fn forgive_lateness(&mut self, late_ms: u64, now_ms: u64) {
        self.last_received_ms = self.last_received_ms.saturating_add(late_ms).min(now_ms);
    }

    /// Returns the time at which [`Connection::handle_timeout`] has something to do, in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.open_received || self.state == ConnectionState::Closed {
            return None;
        }
        let beats = self.heartbeat_ms > 0 && self.state == ConnectionState::Opened;
        let heartbeat = beats.then(|| self.last_sent_ms + u64::from(self.heartbeat_ms));
        let idle = u64::from(self.config.idle_time_out_ms);
        let silence = (idle > 0).then(|| self.last_received_ms + idle);
        heartbeat.into_iter().chain(silence).min()
    }

    /// Sends a heartbeat if one is due [2.4.5].
    ///
    /// # Errors
    ///
    /// Returns a fault if nothing was received from the peer for `idle_time_out_ms`.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Result<(), Fault> {
        let idle = u64::from(self.config.idle_time_out_ms);
        if self.open_received && idle > 0 && now_ms >= self.last_received_ms + idle {
            return Err(Fault::connection(Violation::IdleTimeOut));
        }
        if self.state == ConnectionState::Opened {
            self.put_heartbeat_after(self.heartbeat_ms, now_ms);
        }
        Ok(())
    }
}
