//! The methods of the class connection: from the protocol header to open, and the end.

use super::channels::Channels;
use super::event::reply_text;
use super::{Connection, Event, FRAME_MAX_MIN, Fault, State, Tuned, frame_len_max};
use crate::constants::{FRAME_METHOD, ReplyCode};
use crate::frame::{self, PROTOCOL_HEADER_SIZE, put_frame};
use crate::generated::{
    ChannelClose, ConnectionBlocked, ConnectionClose, ConnectionCloseOk, ConnectionOpen, ConnectionOpenOk,
    ConnectionSecure, ConnectionSecureOk, ConnectionStart, ConnectionStartOk, ConnectionTune,
    ConnectionTuneOk, ConnectionUnblocked, ConnectionUpdateSecret, ConnectionUpdateSecretOk, Method,
};
use crate::secret::Secret;
use crate::table::Table;
use crate::violation::Violation;

use super::payload::Payload;

/// The version of the protocol in start: 0-9 stands for 0-9-1 as well.
const VERSION: (u8, u8) = (0, 9);

/// The only language of our texts.
const LOCALES: &[u8] = b"en_US";

impl Connection {
    pub(super) fn handle_protocol_header<'a>(&mut self, input: &[u8]) -> Option<Event<'a>> {
        let header = input.first_chunk::<PROTOCOL_HEADER_SIZE>()?;
        if self.server && matches!(*header, frame::PROTOCOL_HEADER | frame::PROTOCOL_HEADER_0_9) {
            self.state = State::Start;
            return Some(Event::HeaderExchanged);
        }
        if self.server {
            self.output.buffer().extend_from_slice(&frame::PROTOCOL_HEADER);
        }
        self.state = State::Closed;
        Some(Event::BadHeader)
    }

    /// Handles a method on channel 0.
    pub(super) fn handle_connection_method<'a>(
        &mut self,
        class: u16,
        method: u16,
        arguments: &'a [u8],
    ) -> Result<Option<Event<'a>>, Fault> {
        let parsed =
            Method::parse(class, method, arguments).map_err(|violation| Fault::new(0, violation, (0, 0)))?;
        let event = match (parsed, self.state) {
            (Method::ConnectionClose(close), _) => {
                self.stop(State::Ending);
                let ConnectionClose { reply_code, reply_text, class_id, method_id } = close;
                Event::Close { code: reply_code, text: reply_text, class_id, method_id }
            }
            (method, _) => match if self.server { self.of_client(method)? } else { self.of_server(method) } {
                Some(event) => event,
                None => {
                    let violation = Violation::UnexpectedMethod { state: self.state_name() };
                    return Err(Fault::new(0, violation, (class, parsed.method_id())));
                }
            },
        };
        Ok(Some(event))
    }

    /// Handles a method of a client. Returns `None` if the state does not allow it.
    fn of_client<'a>(&mut self, method: Method<'a>) -> Result<Option<Event<'a>>, Fault> {
        Ok(Some(match (method, self.state) {
            (Method::ConnectionStartOk(start_ok), State::Start) => {
                self.state = State::Secure;
                Event::StartOk(start_ok)
            }
            (Method::ConnectionSecureOk(ConnectionSecureOk { response }), State::Secure)
                if self.challenged =>
            {
                self.challenged = false;
                Event::SecureOk(response)
            }
            (Method::ConnectionTuneOk(tune_ok), State::Tune) => {
                self.handle_tune_ok(tune_ok)?;
                Event::Tuned
            }
            (Method::ConnectionOpen(ConnectionOpen { virtual_host }), State::Open) if !self.open_received => {
                self.open_received = true;
                Event::Open(virtual_host)
            }
            (Method::ConnectionUpdateSecret(update), State::Opened) => Event::UpdateSecret(update),
            _ => return Ok(None),
        }))
    }

    /// Handles a method of a server. Returns `None` if the state does not allow it.
    fn of_server<'a>(&mut self, method: Method<'a>) -> Option<Event<'a>> {
        Some(match (method, self.state) {
            (Method::ConnectionStart(start), State::Start) => {
                self.state = State::Secure;
                Event::Start(start)
            }
            (Method::ConnectionSecure(ConnectionSecure { challenge }), State::Secure) => {
                Event::Secure(challenge)
            }
            (Method::ConnectionTune(tune), State::Secure) => {
                self.handle_tune(tune);
                Event::Tuned
            }
            (Method::ConnectionOpenOk(ConnectionOpenOk), State::Open) => {
                self.state = State::Opened;
                Event::Opened
            }
            (Method::ConnectionBlocked(ConnectionBlocked { reason }), State::Opened) => {
                Event::Blocked(reason)
            }
            (Method::ConnectionUnblocked(ConnectionUnblocked), State::Opened) => Event::Unblocked,
            (Method::ConnectionUpdateSecretOk(ConnectionUpdateSecretOk), State::Opened) => {
                Event::UpdateSecretOk
            }
            _ => return None,
        })
    }

    /// Handles a frame after one side has sent close. `payload` is `None` if it does not fit the type of the frame. Only
    /// the ids of methods are read.
    pub(super) fn handle_while_stopping<'a>(
        &mut self,
        channel: u16,
        payload: Option<Payload<'_>>,
    ) -> Option<Event<'a>> {
        let (0, Some(Payload::Method { class: ConnectionClose::CLASS_ID, method, .. })) = (channel, payload)
        else {
            return None;
        };
        match (method, self.state) {
            // Both sides have closed at the same time.
            (ConnectionClose::METHOD_ID, State::Closing) => {
                self.put_method(&Method::ConnectionCloseOk(ConnectionCloseOk));
                None
            }
            (ConnectionCloseOk::METHOD_ID, State::Closing) => {
                self.state = State::Closed;
                Some(Event::Closed)
            }
            _ => None,
        }
    }

    /// Returns the name that RabbitMQ has for the state, for error texts.
    fn state_name(&self) -> &'static str {
        match self.state {
            State::Header | State::Start => "starting",
            State::Secure => "securing",
            State::Tune => "tuning",
            State::Open => "opening",
            State::Opened => "running",
            State::Closing | State::Ending => "closing",
            State::Closed => "closed",
        }
    }

    /// Handles the limits that the client has chosen. 0 means that it has no limit of its own.
    fn handle_tune_ok(&mut self, tune_ok: ConnectionTuneOk) -> Result<(), Fault> {
        let ConnectionTuneOk { channel_max, frame_max, heartbeat } = tune_ok;
        let ours = self.config;
        let failed = (ConnectionTune::CLASS_ID, ConnectionTune::METHOD_ID);
        let check = |limit, value: u32, min: u32, max: u32| match value {
            0 => Ok(()),
            _ if value < min => Err(Violation::TuneBelow { limit, value, min }),
            _ if max != 0 && value > max => Err(Violation::TuneAbove { limit, value, max }),
            _ => Ok(()),
        };
        check("frame_max", frame_max, FRAME_MAX_MIN, ours.frame_max)
            .and_then(|()| check("channel_max", channel_max.into(), 1, ours.channel_max.into()))
            .map_err(|violation| Fault::new(0, violation, failed))?;
        self.set_tuned(Tuned {
            channel_max: if channel_max == 0 { ours.channel_max } else { channel_max },
            frame_max: if frame_max == 0 { ours.frame_max } else { frame_max },
            heartbeat_s: heartbeat,
        });
        Ok(())
    }

    /// Handles the offer of the server: chooses the smaller limits, and answers.
    fn handle_tune(&mut self, tune: ConnectionTune) {
        let ours = self.config;
        let smaller = |a: u32, b: u32| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        let heartbeat_s = match ours.heartbeat_s {
            0 => 0,
            heartbeat_s => smaller(heartbeat_s.into(), tune.heartbeat.into()) as u16,
        };
        let channel_max = smaller(ours.channel_max.into(), tune.channel_max.into()) as u16;
        let frame_max = smaller(ours.frame_max, tune.frame_max);
        let answer = ConnectionTuneOk { channel_max, frame_max, heartbeat: heartbeat_s };
        self.put_method(&Method::ConnectionTuneOk(answer));
        self.set_tuned(Tuned { channel_max, frame_max, heartbeat_s });
    }

    fn set_tuned(&mut self, tuned: Tuned) {
        self.tuned = tuned;
        self.frame_len_max = frame_len_max(tuned.frame_max);
        self.state = State::Open;
    }

    // ---- server ---------------------------------------------------------------------------------------------

    /// Server: begins the login. `mechanisms` are separated by spaces. Called after [`Event::HeaderExchanged`].
    pub fn start(&mut self, mechanisms: &str, server_properties: Table<'_>) {
        let (version_major, version_minor) = VERSION;
        let mechanisms = mechanisms.as_bytes();
        let start =
            ConnectionStart { version_major, version_minor, server_properties, mechanisms, locales: LOCALES };
        self.put_method_in(State::Start, &Method::ConnectionStart(start));
    }

    /// Server: sends a challenge of the mechanism.
    pub fn secure(&mut self, challenge: &[u8]) {
        self.challenged |=
            self.put_method_in(State::Secure, &Method::ConnectionSecure(ConnectionSecure { challenge }));
    }

    /// Server: the login has succeeded. Offers the limits of the configuration.
    pub fn tune(&mut self) {
        let super::Config { channel_max, frame_max, heartbeat_s, .. } = self.config;
        let tune = ConnectionTune { channel_max, frame_max, heartbeat: heartbeat_s };
        if self.put_method_in(State::Secure, &Method::ConnectionTune(tune)) {
            self.state = State::Tune;
        }
    }

    /// Server: the virtual host is open.
    pub fn open_ok(&mut self) {
        if self.open_received && self.put_method_in(State::Open, &Method::ConnectionOpenOk(ConnectionOpenOk))
        {
            self.state = State::Opened;
        }
    }

    /// Server: tells the client that its messages are not read. Only for clients with the capability
    /// `connection.blocked`.
    pub fn blocked(&mut self, reason: &str) {
        self.put_method_in(State::Opened, &Method::ConnectionBlocked(ConnectionBlocked { reason }));
    }

    /// Server: tells the client that its messages are read again.
    pub fn unblocked(&mut self) {
        self.put_method_in(State::Opened, &Method::ConnectionUnblocked(ConnectionUnblocked));
    }

    /// Server: the new token is accepted.
    pub fn update_secret_ok(&mut self) {
        self.put_method_in(State::Opened, &Method::ConnectionUpdateSecretOk(ConnectionUpdateSecretOk));
    }

    // ---- client ---------------------------------------------------------------------------------------------

    /// Client: chooses a mechanism. Called after [`Event::Start`].
    pub fn start_ok(&mut self, start_ok: ConnectionStartOk<'_>) {
        self.put_method_in(State::Secure, &Method::ConnectionStartOk(start_ok));
    }

    /// Client: answers a challenge of the mechanism.
    pub fn secure_ok(&mut self, response: Secret<'_>) {
        self.put_method_in(State::Secure, &Method::ConnectionSecureOk(ConnectionSecureOk { response }));
    }

    /// Client: asks for a virtual host. Called after [`Event::Tuned`].
    pub fn open(&mut self, virtual_host: &str) {
        self.put_method_in(State::Open, &Method::ConnectionOpen(ConnectionOpen { virtual_host }));
    }

    /// Client: sends a new token.
    pub fn update_secret(&mut self, new_secret: Secret<'_>, reason: &str) {
        let update = ConnectionUpdateSecret { new_secret, reason };
        self.put_method_in(State::Opened, &Method::ConnectionUpdateSecret(update));
    }

    // ---- closing --------------------------------------------------------------------------------------------

    /// Closes a channel or the connection because of an error, and ignores what the peer sends on it until it has
    /// answered. The peer gets the name of the code and the text of the fault. What the state allows:
    ///
    /// | state | effect |
    /// |---|---|
    /// | the channel is not open, or the peer has closed it | nothing |
    /// | the protocol headers are not exchanged | the connection is closed, nothing is sent |
    /// | one side has sent close | the connection is closed at once: no answer that we could read will follow |
    pub fn fail(&mut self, fault: &Fault) {
        let Fault { channel, code, ref text, class_id, method_id } = *fault;
        let text = reply_text(code, text);
        let reply_code = code.number();
        match channel {
            Some(channel) => {
                let close = ChannelClose { reply_code, reply_text: &text, class_id, method_id };
                self.put_channel_close(channel, close);
            }
            None => self.put_close(ConnectionClose { reply_code, reply_text: &text, class_id, method_id }),
        }
    }

    /// Closes the connection without an error.
    pub fn close(&mut self, text: &str) {
        if self.state.is_stopping() {
            return;
        }
        let reply_code = ReplyCode::ReplySuccess.number();
        self.put_close(ConnectionClose { reply_code, reply_text: text, ..ConnectionClose::default() });
    }

    fn put_close(&mut self, close: ConnectionClose<'_>) {
        match self.state {
            // The server has not shown yet that it speaks this protocol.
            State::Start if !self.server => self.stop(State::Closed),
            State::Header | State::Closing | State::Ending | State::Closed => self.stop(State::Closed),
            State::Start | State::Secure | State::Tune | State::Open | State::Opened => {
                self.put_method(&Method::ConnectionClose(close));
                self.stop(State::Closing);
            }
        }
    }

    /// Answers the peer's close of the connection. Nothing follows.
    pub fn close_ok(&mut self) {
        if self.put_method_in(State::Ending, &Method::ConnectionCloseOk(ConnectionCloseOk)) {
            self.state = State::Closed;
        }
    }

    /// Ends all channels. From now on, the connection is in a state in which nothing is sent on them.
    fn stop(&mut self, state: State) {
        self.state = state;
        self.channels = Channels::default();
    }

    /// Sends a method on channel 0.
    fn put_method(&mut self, method: &Method<'_>) {
        put_frame(self.output.buffer(), FRAME_METHOD, 0, |out| method.put(out));
    }

    /// Sends a method on channel 0 if the connection is in this state. Otherwise, the method is late, and is not sent.
    fn put_method_in(&mut self, state: State, method: &Method<'_>) -> bool {
        let in_time = self.state == state;
        if in_time {
            self.put_method(method);
        }
        in_time
    }
}
