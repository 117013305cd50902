//! The handshake from the first byte to OPEN: protocol headers [2.2], SASL [5.3] and the limits of both sides
//! [2.4.1].

use super::{Connection, ConnectionState, Event, Fault, MIN_IDLE_TIME_OUT_MS};
use crate::frame::{self, HEADER_SIZE};
use crate::performative::{put_frame, put_frame_within, put_sasl_frame};
use crate::violation::Violation;
use crate::{Open, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, Symbol};

impl Connection {
    pub(super) fn handle_protocol_header<'a>(&mut self, input: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        let Some(header) = input.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        let sasl = self.state == ConnectionState::Header;
        let wanted = if sasl { frame::SASL_HEADER } else { frame::AMQP_HEADER };
        if *header != wanted {
            // [2.2] Send the header that we support. The caller then closes the socket.
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

    pub(super) fn handle_sasl<'a>(&mut self, body: &[u8]) -> Result<Option<Event<'a>>, Fault> {
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

    pub(super) fn handle_open<'a>(&mut self, open: Box<Open>) -> Result<Event<'a>, Fault> {
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

    /// Server: offers the mechanisms. Called after [`Event::HeaderExchanged`] in state `Sasl`.
    pub fn sasl_mechanisms(&mut self, mechanisms: Vec<Symbol>) {
        let frame = SaslFrame::Mechanisms(SaslMechanisms { sasl_server_mechanisms: mechanisms });
        put_sasl_frame(self.output.buffer(), &frame);
    }

    /// Client: chooses a mechanism.
    pub fn sasl_init(&mut self, init: SaslInit) {
        put_sasl_frame(self.output.buffer(), &SaslFrame::Init(init));
    }

    /// Server: sends the outcome of the login. After any code except `Ok`, the connection is closed when the
    /// outcome is written.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        let outcome = SaslOutcome { code, additional_data: None };
        put_sasl_frame(self.output.buffer(), &SaslFrame::Outcome(outcome));
        self.state = if code == SaslCode::Ok { ConnectionState::AmqpHeader } else { ConnectionState::Closed };
    }

    /// Sends OPEN. Frame size, channel-max and idle-time-out are filled in from the configuration. The
    /// properties are left out if the frame would be too large for the peer.
    pub fn open(&mut self, mut open: Open) {
        open.max_frame_size = self.config.max_frame_size;
        open.channel_max = self.channel_max;
        open.idle_time_out = (self.config.idle_time_out_ms > 0).then_some(self.config.idle_time_out_ms / 2);
        // [2.4.1] Before the peer's OPEN arrives, frames are limited to 512 bytes.
        let max = if self.open_received { self.remote_max_frame_size } else { frame::MIN_MAX_FRAME_SIZE };
        if !put_frame_within(self.output.buffer(), 0, &open, max as usize) {
            open.properties = None;
            put_frame(self.output.buffer(), 0, &open);
        }
        self.open_sent = true;
        if self.open_received && self.state == ConnectionState::Opening {
            self.state = ConnectionState::Opened;
        }
    }
}
