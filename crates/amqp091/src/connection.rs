//! One end of a connection, without sockets. Frames go in; events and bytes come out.
//!
//! ```text
//!  server: Header --protocol header--> Start --start-ok--> Secure --(secure-ok--> Secure) tune()--> Tune --tune-ok--> Open
//!  client: the same states; each is entered when the server's method arrives, and the answer to it is sent
//!          Open --open, open-ok--> Opened
//!          any --close sent-------> Closing --close-ok received--> Closed
//!          any --close received---> Ending --close_ok()----------> Closed
//! ```
//!
//! How to drive it: pass what was read to [`Connection::handle_input`] until it handles nothing more. Pass a large frame
//! to [`Connection::handle_frame`], in a buffer of its own. Act on the events that they return. Write the bytes in
//! [`Connection::output`]. Call [`Connection::handle_timeout`] at [`Connection::next_deadline`].

mod content;
mod event;

use buffers::Output;
use bytes::Bytes;

use crate::generated::{BasicDeliver, ConnectionStartOk, Method, ReplyCode};
use crate::table::Table;

pub use self::content::Content;
pub use self::event::{Event, Fault};

/// The smallest frame-max that a peer may ask for, in bytes. It is the minimum of the specification. RabbitMQ 4 wants
/// 8192, but old clients ask for this much.
pub const FRAME_MAX_MIN: u32 = 4096;

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
    /// The highest channel number.
    pub channel_max: u16,
    /// The largest frame, in bytes. 0 means no limit.
    pub frame_max: u32,
    /// The heartbeat interval, in seconds. 0 means that there are no heartbeats.
    pub heartbeat_s: u16,
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
    /// Waits for tune-ok.
    Tune,
    /// Server: waits for open, or for [`Connection::open_ok`]. Client: waits for open-ok.
    Open,
    Opened,
    /// We sent close. Everything but close and close-ok is ignored.
    Closing,
    /// The peer sent close, and [`Connection::close_ok`] is due. Its input is ignored.
    Ending,
    Closed,
}

/// Our end of a connection, as server or as client.
#[derive(Debug)]
pub struct Connection {
    state: State,
    output: Output,
}

#[expect(unused_variables, clippy::unimplemented)]
impl Connection {
    pub fn server(config: Config, now_ms: u64) -> Self {
        Self { state: State::Header, output: Output::default() }
    }

    /// Creates the client's end. The protocol header is put in the output at once.
    pub fn client(config: Config, now_ms: u64) -> Self {
        Self { state: State::Start, output: Output::default() }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Returns the limits that both sides agreed on. Before that, our own.
    pub fn tuned(&self) -> Tuned {
        unimplemented!()
    }

    pub fn channel_is_open(&self, channel: u16) -> bool {
        unimplemented!()
    }

    /// Returns the bytes of memory that incomplete contents take, over all channels.
    pub fn incomplete_bytes(&self) -> usize {
        unimplemented!()
    }

    // ---- input ----------------------------------------------------------------------------------------------

    /// Returns the length of the frame (or protocol header) at the start of `input`, in bytes. Returns `None` if `input`
    /// is too short to tell.
    ///
    /// # Errors
    /// The frame is larger than agreed.
    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, Fault> {
        unimplemented!()
    }

    /// Handles what is at the start of `input`: one frame, or a method with its whole content if all its frames are in
    /// `input` and each is shorter than `large` bytes. Returns the number of bytes handled, and what they mean. The
    /// number is 0 if the first frame is incomplete or large.
    pub fn handle_input<'a>(
        &mut self,
        input: &'a [u8],
        large: usize,
        now_ms: u64,
    ) -> (usize, Result<Option<Event<'a>>, Fault>) {
        unimplemented!()
    }

    /// Handles one whole frame or protocol header, in a buffer that may be retained.
    pub fn handle_frame<'a>(&mut self, frame: &'a Bytes, now_ms: u64) -> Result<Option<Event<'a>>, Fault> {
        unimplemented!()
    }

    /// Consumes the heartbeats at the start of `input`. Returns their length in bytes. If our own heartbeat is due soon,
    /// sends it as well, because this saves a separate wakeup.
    pub fn handle_heartbeats(&mut self, input: &[u8], now_ms: u64) -> usize {
        unimplemented!()
    }

    // ---- server ---------------------------------------------------------------------------------------------

    /// Server: begins the login. `mechanisms` are separated by spaces. Called after [`Event::HeaderExchanged`].
    pub fn start(&mut self, mechanisms: &str, server_properties: Table<'_>) {
        unimplemented!()
    }

    /// Server: sends a challenge of the mechanism.
    pub fn secure(&mut self, challenge: &[u8]) {
        unimplemented!()
    }

    /// Server: the login has succeeded. Offers the limits of the configuration.
    pub fn tune(&mut self) {
        unimplemented!()
    }

    /// Server: the virtual host is open.
    pub fn open_ok(&mut self) {
        unimplemented!()
    }

    /// Server: tells the client that its messages are not read. Only for clients with the capability
    /// `connection.blocked`.
    pub fn blocked(&mut self, reason: &str) {
        unimplemented!()
    }

    pub fn unblocked(&mut self) {
        unimplemented!()
    }

    pub fn update_secret_ok(&mut self) {
        unimplemented!()
    }

    // ---- client ---------------------------------------------------------------------------------------------

    pub fn start_ok(&mut self, start_ok: &ConnectionStartOk<'_>) {
        unimplemented!()
    }

    pub fn secure_ok(&mut self, response: &[u8]) {
        unimplemented!()
    }

    pub fn open(&mut self, vhost: &str) {
        unimplemented!()
    }

    /// Client: opens a channel. Returns false, and does nothing, if the number is in use or above channel-max.
    pub fn open_channel(&mut self, channel: u16) -> bool {
        unimplemented!()
    }

    pub fn update_secret(&mut self, secret: &[u8], reason: &str) {
        unimplemented!()
    }

    // ---- both -----------------------------------------------------------------------------------------------

    /// Sends a method without content. Sends nothing if the channel is not open.
    pub fn send(&mut self, channel: u16, method: &Method<'_>) {
        unimplemented!()
    }

    /// Sends a method with content, in frames of at most the negotiated size. Sends nothing if the channel is not open.
    /// `properties` is the encoded property list. The body is `payload` from the byte `from` on; large parts of it are
    /// shared, not copied.
    pub fn send_content(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        properties: &[u8],
        payload: &Bytes,
        from: usize,
    ) {
        unimplemented!()
    }

    /// Does the same as [`Connection::send_content`] for `basic.deliver`, the most frequent method.
    pub fn send_deliver(
        &mut self,
        channel: u16,
        deliver: &BasicDeliver<'_>,
        properties: &[u8],
        payload: &Bytes,
        from: usize,
    ) {
        unimplemented!()
    }

    /// Answers the peer's close of a channel.
    pub fn channel_close_ok(&mut self, channel: u16) {
        unimplemented!()
    }

    /// Closes a channel or the connection because of an error, and ignores what the peer sends on it until it has answered.
    /// The text is preceded by the name of the code. If the connection is closing already, it is closed at once, because
    /// nothing that can be read follows.
    pub fn fail(&mut self, fault: &Fault) {
        unimplemented!()
    }

    /// Closes a channel, not because of a method.
    pub fn close_channel(&mut self, channel: u16, code: ReplyCode, text: &str) {
        unimplemented!()
    }

    /// Closes the connection, not because of a method.
    pub fn close(&mut self, code: ReplyCode, text: &str) {
        unimplemented!()
    }

    /// Answers the peer's close of the connection.
    pub fn close_ok(&mut self) {
        unimplemented!()
    }

    // ---- time -----------------------------------------------------------------------------------------------

    /// Called when something was written to the socket.
    pub fn handle_written(&mut self, now_ms: u64) {
        unimplemented!()
    }

    /// Counts the silence of the peer from now on. For a caller that has not read what the peer has sent.
    pub fn forgive_silence(&mut self, now_ms: u64) {
        unimplemented!()
    }

    /// Returns the time at which [`Connection::handle_timeout`] has something to do, in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        unimplemented!()
    }

    /// Sends a heartbeat if one is due.
    ///
    /// # Errors
    /// Nothing was received from the peer for two heartbeat intervals.
    pub fn handle_timeout(&mut self, now_ms: u64) -> Result<(), Fault> {
        unimplemented!()
    }
}
