//! The protocol errors of a peer, each with its section of the standard. One table says for each error
//! whether the link, the session or the connection ends, and with which error condition.

use std::fmt;

use crate::decode::DecodeError;
use crate::frame;
use crate::{AmqpError, Symbol, condition};

/// A rule of the protocol that the peer has broken.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// [2.2] The first eight bytes are not a protocol header that we support.
    ProtocolHeader([u8; 8]),
    /// [2.3.1] An invalid frame header.
    Framing(frame::FrameError),
    /// [2.3.1] A SASL frame outside SASL, or an AMQP frame within it.
    FrameType,
    /// [2.3.1] A frame on a channel above the negotiated channel-max.
    ChannelMax { channel: u16, max: u16 },
    /// [2.3.2] The performative cannot be decoded.
    Decode(DecodeError),
    /// [2.4] A frame that the state of the connection does not allow.
    UnexpectedFrame(&'static str),
    /// [2.4.1] OPEN with a max-frame-size below 512.
    FrameSizeTooSmall(u32),
    /// [2.4.5] OPEN with an idle-time-out that is too short for us.
    IdleTimeOutTooShort(u32),
    /// [2.4.5] Nothing was received for longer than our idle-time-out.
    IdleTimeOut,
    /// [2.5.1] BEGIN on a channel that has a session.
    ChannelInUse(u16),
    /// [2.5.6] A transfer beyond our incoming window.
    WindowViolation,
    /// [2.5.6] FLOW acknowledges transfers that we have not sent.
    NeverSent { next_incoming_id: u32, next_outgoing_id: u32 },
    /// [2.6.2] ATTACH with a handle above handle-max.
    HandleMax { handle: u32, max: u32 },
    /// [2.6.2] ATTACH with a handle that is in use.
    HandleInUse(u32),
    /// [2.6.2] A frame for a handle that has no link.
    UnattachedHandle(u32),
    /// [2.6.7] A delivery without credit.
    TransferLimitExceeded,
    /// [2.7.3] A delivery above max-message-size.
    MessageSizeExceeded { max: u64 },
    /// [2.7.5] The incomplete deliveries of all links take too much memory.
    IncompleteDeliveries { max: usize },
    /// [2.7.5] A later transfer of a delivery contradicts the first one.
    InconsistentDelivery(&'static str),
    /// [2.7.5] `settled` does not fit the negotiated snd-settle-mode.
    SettledMismatch,
    /// [4.4.1] A transfer that is part of a transaction. No transaction can have been declared.
    NoTransaction,
    /// [4.4.3] FLOW asks for deliveries as part of a transaction.
    TransactionalAcquisition,
    /// [2.7.5] A transfer with rcv-settle-mode second on a link that was attached with first.
    SettleModeSecond,
}

/// What ends because of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radius {
    Link,
    Session,
    Connection,
}

impl Violation {
    /// Returns what ends, and the error condition.
    pub fn sentence(&self) -> (Radius, Symbol) {
        use Radius::{Connection, Link, Session};
        match self {
            Self::ProtocolHeader(_) | Self::Framing(_) | Self::FrameType | Self::ChannelMax { .. } => {
                (Connection, condition::FRAMING_ERROR)
            }
            Self::Decode(_) => (Connection, condition::DECODE_ERROR),
            Self::UnexpectedFrame(_) => (Connection, condition::ILLEGAL_STATE),
            Self::FrameSizeTooSmall(_) => (Connection, condition::FRAME_SIZE_TOO_SMALL),
            Self::IdleTimeOutTooShort(_) => (Connection, condition::NOT_ALLOWED),
            Self::IdleTimeOut | Self::IncompleteDeliveries { .. } => {
                (Connection, condition::RESOURCE_LIMIT_EXCEEDED)
            }
            // The session ends that is on this channel, because its peer is at fault. RabbitMQ does the same.
            Self::ChannelInUse(_) => (Session, condition::ILLEGAL_STATE),
            Self::WindowViolation | Self::NeverSent { .. } => (Session, condition::WINDOW_VIOLATION),
            Self::HandleMax { .. } => (Session, condition::FRAMING_ERROR),
            Self::HandleInUse(_) => (Session, condition::HANDLE_IN_USE),
            Self::UnattachedHandle(_) => (Session, condition::UNATTACHED_HANDLE),
            Self::TransferLimitExceeded => (Link, condition::TRANSFER_LIMIT_EXCEEDED),
            Self::MessageSizeExceeded { .. } => (Link, condition::MESSAGE_SIZE_EXCEEDED),
            Self::InconsistentDelivery(_) | Self::SettledMismatch | Self::SettleModeSecond => {
                (Link, condition::INVALID_FIELD)
            }
            Self::TransactionalAcquisition => (Link, condition::NOT_IMPLEMENTED),
            Self::NoTransaction => (Link, condition::UNKNOWN_ID),
        }
    }

    /// Returns the error for the peer.
    pub fn to_error(&self) -> AmqpError {
        AmqpError { condition: self.sentence().1, description: Some(self.to_string()), info: None }
    }
}

/// Returns what a peer has sent that begins with these bytes, if they are those of a common protocol.
fn other_protocol(bytes: &[u8; 8]) -> Option<&'static str> {
    /// The methods of HTTP. The last one begins HTTP/2.
    const METHODS: [&[u8]; 9] =
        [b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"PRI "];
    Some(match bytes {
        &(frame::AMQP091_HEADER | frame::AMQP09_HEADER | frame::AMQP08_HEADER) => "AMQP 0.9.1",
        [b'H', b'T', b'T', b'P', b'/', ..] => "an HTTP response",
        bytes if METHODS.iter().any(|method| bytes.starts_with(method)) => "an HTTP request",
        // The type of a record, and the major version (RFC 8446, 5.1).
        [22, 3, ..] => "TLS (amqps://)",
        [21, 3, ..] => "an alert of TLS",
        bytes if bytes.starts_with(b"PROXY ") || bytes == b"\r\n\r\n\0\r\nQ" => "a PROXY header",
        // A packet CONNECT: its type, its length in one byte, and the name of the protocol with its length.
        [0x10, _, 0, 4, b'M', b'Q', b'T', b'T'] => "MQTT",
        bytes if bytes.starts_with(b"CONNECT\n") || bytes.starts_with(b"STOMP") => "STOMP",
        _ => return None,
    })
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProtocolHeader(bytes) => match other_protocol(bytes) {
                Some(what) => write!(f, "{what} instead of AMQP 1.0"),
                None => write!(f, "unsupported protocol header {bytes:02x?}"),
            },
            Self::Framing(error) => write!(f, "{error}"),
            Self::FrameType => f.write_str("this frame type is not allowed in this phase of the connection"),
            Self::ChannelMax { channel, max } => {
                write!(f, "channel number ({channel}) exceeds maximum channel number ({max})")
            }
            Self::Decode(error) => write!(f, "undecodable performative: {error}"),
            Self::UnexpectedFrame(what) => write!(f, "unexpected {what}"),
            Self::FrameSizeTooSmall(size) => {
                write!(f, "max-frame-size {size} is below the minimum of {}", frame::MIN_MAX_FRAME_SIZE)
            }
            Self::IdleTimeOutTooShort(ms) => write!(f, "idle-time-out of {ms} ms is below 1000 ms"),
            Self::IdleTimeOut => f.write_str("no frame received from client within idle timeout threshold"),
            Self::ChannelInUse(channel) => {
                write!(f, "unexpected BEGIN on channel {channel}, which has a session")
            }
            Self::WindowViolation => f.write_str("TRANSFER beyond the incoming window of the session"),
            Self::NeverSent { next_incoming_id, next_outgoing_id } => write!(
                f,
                "FLOW with next-incoming-id {next_incoming_id}, but the next transfer-id of the session is \
                 {next_outgoing_id}"
            ),
            Self::HandleMax { handle, max } => write!(f, "link handle {handle} exceeds maximum handle {max}"),
            Self::HandleInUse(handle) => write!(f, "link handle {handle} is already in use"),
            Self::UnattachedHandle(handle) => write!(f, "unattached link handle {handle}"),
            Self::TransferLimitExceeded => f.write_str("insufficient credit available for this transfer"),
            Self::MessageSizeExceeded { max } => {
                write!(f, "delivery exceeds the maximum message size of {max} bytes")
            }
            Self::IncompleteDeliveries { max } => {
                write!(f, "incomplete deliveries take more than {max} bytes")
            }
            Self::InconsistentDelivery(field) => {
                write!(f, "{field} differs between the transfers of one delivery")
            }
            Self::SettledMismatch => {
                f.write_str("the settled flag of a transfer contradicts the negotiated snd-settle-mode")
            }
            Self::TransactionalAcquisition => f.write_str("transactional acquisition is not supported"),
            Self::NoTransaction => f.write_str("a transfer names a transaction that was never declared"),
            Self::SettleModeSecond => {
                f.write_str("rcv-settle-mode second on a link that was attached with rcv-settle-mode first")
            }
        }
    }
}
