//! One end of a connection, without sockets. Frames go in; events and bytes come out.
//!
//! ```text
//!  server: Header --protocol header--> Start --start-ok--> Secure --tune()--> Tune --tune-ok--> Open --open_ok()--> Opened
//!  client:                             Start --start-----> Secure --tune-----------------------> Open --open-ok---> Opened
//!
//!          any --close sent------> Closing --close-ok received--> Closed
//!          any --close received--> Ending --close_ok()----------> Closed
//! ```
//!
//! How to drive it: pass what was read to [`Connection::handle_input`] until it handles nothing more. Pass a large frame
//! to [`Connection::handle_frame`], in a buffer of its own. Act on the events that they return. If they return a fault,
//! call [`Connection::fail`]. Write the bytes in [`Connection::output`]. Call [`Connection::handle_timeout`] at
//! [`Connection::next_deadline`].
//!
//! The frames are told apart in `input`. The handshake and the other methods of the class connection are in `handshake`,
//! channels in `channels`, methods with content in `content`, `partial` and `assembly`, and what is sent on channels in
//! `sending`.

mod assembly;
mod channels;
mod content;
mod event;
mod handshake;
mod input;
mod partial;
mod payload;
mod sending;

use buffers::Output;

use self::channels::Channels;
use crate::frame;
use crate::violation::Violation;

pub use self::content::Content;
pub use self::event::{Event, Fault};

/// The smallest frame-max that a peer may ask for, in bytes. It is the minimum of the specification. RabbitMQ 4 wants
/// 8192, but old clients ask for this much.
pub const FRAME_MAX_MIN: u32 = 4096;

/// The frame-max from which on a peer may get a content header that is larger than agreed. It is the smallest frame-max that
/// RabbitMQ accepts. The protocol cannot split a content header. RabbitMQ sends it in one frame of any size, so clients that
/// run with RabbitMQ take it. Clients with a smaller frame-max may lose their connection.
pub const LONG_HEADERS_FROM: u32 = 8192;

/// The limits of our end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The highest channel number that we accept. 0 means no limit.
    pub channel_max: u16,
    /// The largest frame that we accept, in bytes. 0 means no limit.
    pub frame_max: u32,
    /// The largest frame that we accept before the limits are agreed, in bytes.
    pub initial_frame_max: u32,
    /// The heartbeat interval that we offer, in seconds. 0 means none.
    pub heartbeat_s: u16,
    /// The largest body that we accept, in bytes.
    pub max_message_size: u64,
    /// The most bytes that incomplete contents may take, over all channels.
    pub incomplete_bytes_max: usize,
}

/// The limits that both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The highest channel number. 0 means no limit.
    pub channel_max: u16,
    /// The largest frame, in bytes. 0 means no limit.
    pub frame_max: u32,
    /// The heartbeat interval, in seconds. 0 means that there are no heartbeats.
    pub heartbeat_s: u16,
}

impl Tuned {
    /// Returns the largest frame with a content header that the peer must be sent, in bytes. `None` means any size; see
    /// [`LONG_HEADERS_FROM`].
    pub fn header_frame_max(&self) -> Option<u32> {
        (1..LONG_HEADERS_FROM).contains(&self.frame_max).then_some(self.frame_max)
    }
}

/// The states of a connection. See the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Server: waits for the protocol header.
    Header,
    /// Server: waits for start-ok. Client: waits for start.
    Start,
    /// Server: the login is not complete. Client: waits for secure or tune.
    Secure,
    /// Server: waits for tune-ok.
    Tune,
    /// Server: waits for open, or for [`Connection::open_ok`]. Client: waits for open-ok.
    Open,
    /// Channels can be opened.
    Opened,
    /// We sent close. Everything but close and close-ok is ignored.
    Closing,
    /// The peer sent close, and [`Connection::close_ok`] is due. The peer's input is ignored.
    Ending,
    /// Nothing is sent, and input is ignored.
    Closed,
}

impl State {
    /// Returns true if one side has sent close.
    fn is_stopping(self) -> bool {
        matches!(self, Self::Closing | Self::Ending | Self::Closed)
    }
}

/// Our end of a connection, as server or as client.
#[derive(Debug)]
pub struct Connection {
    server: bool,
    state: State,
    config: Config,
    tuned: Tuned,
    /// The largest frame that we accept now, in bytes, with its tolerance.
    frame_len_max: usize,
    /// A challenge was sent, and the response has not arrived.
    challenged: bool,
    /// The client has asked for a virtual host.
    open_received: bool,
    last_received_ms: u64,
    last_sent_ms: u64,
    channels: Channels,
    output: Output,
}

impl Connection {
    /// Creates the server's end. `now_ms` is the present time, in milliseconds since any start.
    pub fn server(config: Config, now_ms: u64) -> Self {
        Self::new(true, State::Header, config, now_ms)
    }

    /// Creates the client's end. The protocol header is put in the output at once.
    pub fn client(config: Config, now_ms: u64) -> Self {
        let mut connection = Self::new(false, State::Start, config, now_ms);
        connection.output.buffer().extend_from_slice(&frame::PROTOCOL_HEADER);
        connection
    }

    fn new(server: bool, state: State, config: Config, now_ms: u64) -> Self {
        let Config { channel_max, frame_max, heartbeat_s, .. } = config;
        Self {
            server,
            state,
            config,
            tuned: Tuned { channel_max, frame_max, heartbeat_s },
            frame_len_max: frame_len_max(config.initial_frame_max),
            challenged: false,
            open_received: false,
            last_received_ms: now_ms,
            last_sent_ms: now_ms,
            channels: Channels::default(),
            output: Output::framed(frame::output_frame_len),
        }
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the bytes to write.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Returns the number of bytes to write.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Returns the bytes of memory in use for what the peer has not read.
    pub fn unread_bytes(&self) -> usize {
        self.output.held()
    }

    /// Returns the part of [`Connection::unread_bytes`] that is no delivery ([`Output::answers_held`]).
    pub fn answers_held(&self) -> usize {
        self.output.answers_held()
    }

    /// Returns the bytes of memory that payloads of deliveries in the output keep ([`Output::deliveries_held`]).
    pub fn deliveries_held(&self) -> usize {
        self.output.deliveries_held()
    }

    /// Returns the number of bytes to write behind the last `basic.deliver`, unless it came when much was unwritten; see
    /// [`Output::note_delivery`].
    pub fn answers_len(&self) -> usize {
        self.output.len_behind_delivery()
    }

    /// Returns the limits that both sides agreed on. Before that, our own.
    pub fn tuned(&self) -> Tuned {
        self.tuned
    }

    /// Returns the bytes of memory that incomplete contents take, over all channels.
    pub fn incomplete_bytes(&self) -> usize {
        self.channels.incomplete_bytes()
    }

    // ---- time -----------------------------------------------------------------------------------------------

    /// Called when something was written to the socket.
    pub fn handle_written(&mut self, now_ms: u64) {
        self.last_sent_ms = now_ms;
    }

    /// Counts the silence of the peer from now on. For a caller that has not read what the peer has sent.
    pub fn forgive_silence(&mut self, now_ms: u64) {
        self.last_received_ms = now_ms;
    }

    /// Takes `late_ms` off the silence of the peer. For a caller that has not read for so long.
    pub fn forgive_lateness(&mut self, late_ms: u64, now_ms: u64) {
        self.last_received_ms = self.last_received_ms.saturating_add(late_ms).min(now_ms);
    }

    /// Consumes the heartbeats at the start of `input`. Returns their length in bytes. If our own heartbeat is due soon,
    /// sends it as well, because this saves a separate wakeup.
    pub fn handle_heartbeats(&mut self, input: &[u8], now_ms: u64) -> usize {
        let (frames, _) = input.as_chunks::<{ frame::OVERHEAD }>();
        let heartbeats = frames.iter().take_while(|frame| **frame == frame::HEARTBEAT).count();
        if heartbeats == 0 || self.state != State::Opened {
            return 0;
        }
        self.last_received_ms = now_ms;
        self.put_heartbeat_after(self.send_interval_ms() / 4 * 3, now_ms);
        heartbeats * frame::OVERHEAD
    }

    /// Returns the longest time without a frame to the peer, in milliseconds: half of the heartbeat interval.
    fn send_interval_ms(&self) -> u64 {
        u64::from(self.tuned.heartbeat_s) * 1000 / 2
    }

    /// Returns the time without a frame from the peer after which the connection ends, in milliseconds: two heartbeat
    /// intervals.
    fn silence_max_ms(&self) -> u64 {
        u64::from(self.tuned.heartbeat_s) * 1000 * 2
    }

    /// Sends a heartbeat if there are heartbeats and nothing was sent for `silence_ms`.
    fn put_heartbeat_after(&mut self, silence_ms: u64, now_ms: u64) {
        if self.tuned.heartbeat_s > 0 && now_ms >= self.last_sent_ms + silence_ms {
            self.output.buffer().extend_from_slice(&frame::HEARTBEAT);
            self.last_sent_ms = now_ms;
        }
    }

    /// Returns true if the interval is agreed and the connection is not closed.
    fn has_heartbeats(&self) -> bool {
        let agreed = !matches!(self.state, State::Header | State::Start | State::Secure | State::Tune);
        agreed && self.state != State::Closed && self.tuned.heartbeat_s > 0
    }

    /// Returns the time at which [`Connection::handle_timeout`] has something to do, in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.has_heartbeats() {
            return None;
        }
        let silence = self.last_received_ms + self.silence_max_ms();
        let heartbeat = (!self.state.is_stopping()).then(|| self.last_sent_ms + self.send_interval_ms());
        Some(heartbeat.map_or(silence, |heartbeat| heartbeat.min(silence)))
    }

    /// Sends a heartbeat if one is due.
    ///
    /// # Errors
    /// Nothing was received from the peer for two heartbeat intervals.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Result<(), Fault> {
        if !self.has_heartbeats() {
            return Ok(());
        }
        if now_ms >= self.last_received_ms + self.silence_max_ms() {
            let timeout_s = self.tuned.heartbeat_s;
            return Err(Fault::connection(Violation::MissedHeartbeats { timeout_s }));
        }
        if !self.state.is_stopping() {
            self.put_heartbeat_after(self.send_interval_ms(), now_ms);
        }
        Ok(())
    }
}

/// Returns the length of the largest frame that is accepted if the limit is `max` bytes, in bytes. 0 means no limit.
fn frame_len_max(max: u32) -> usize {
    let max = if max == 0 { u32::MAX } else { max };
    max.saturating_add(frame::SIZE_TOLERANCE) as usize
}
