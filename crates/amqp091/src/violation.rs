//! The protocol errors of a peer, each with its reply code. The code says whether the channel or the connection ends.

use std::fmt;

use crate::arguments::ArgumentError;
use crate::constants::ReplyCode;
use crate::frame::Excerpt;

/// A rule of the protocol that the peer has broken. The texts are those of RabbitMQ, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A frame larger than agreed. `size` and `max` count the payload, in bytes.
    FrameTooLarge { kind: u8, size: u32, max: u32 },
    /// A frame whose last octet is not `FRAME_END`.
    FrameEnd { frame: Excerpt, end: u8 },
    /// A frame of unknown type, or one whose payload is too short for its type.
    UnknownFrame(Excerpt),
    /// A frame that is not allowed at this time, or not on this channel.
    UnexpectedFrame(Excerpt),
    /// A content frame on a channel that expects a method.
    ExpectedMethod,
    /// Anything but a content header after a method with content. `got` is the class of a header of another class.
    ExpectedHeader { class: u16, got: Option<u16> },
    /// Anything but a body frame before the body is complete.
    ExpectedBody,
    /// A body frame that is longer than the rest of the announced body.
    BodyTooLarge,
    /// The specification has no such method.
    UnknownMethod { class: u16, method: u16 },
    /// The arguments of a method are malformed.
    Arguments { name: &'static str, class: u16, method: u16, error: ArgumentError },
    /// A method on channel 0 that the state of the connection does not allow.
    UnexpectedMethod { state: &'static str },
    /// A method that only the other role may send, or one of the class connection on another channel than 0.
    UnimplementedMethod,
    /// A method on a channel that is not open.
    ChannelNotOpen,
    /// `channel.open` on a channel that is open.
    ChannelOpenTwice,
    /// A channel above the negotiated channel-max.
    ChannelMax { channel: u16, max: u16 },
    /// `tune-ok` with a limit below the minimum.
    TuneBelow { limit: &'static str, value: u32, min: u32 },
    /// `tune-ok` with a limit above what we offered.
    TuneAbove { limit: &'static str, value: u32, max: u32 },
    /// A body larger than the broker accepts. `size` and `max` are in bytes.
    MessageSize { size: u64, max: u64 },
    /// The incomplete contents of all channels take more than `max` bytes.
    IncompleteContents { max: usize },
    /// Nothing was received for two heartbeat intervals.
    MissedHeartbeats { timeout_s: u16 },
}

impl Violation {
    /// Returns the code that the peer gets. It says whether the channel or the connection ends.
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::FrameTooLarge { .. }
            | Self::FrameEnd { .. }
            | Self::UnknownFrame(_)
            | Self::Arguments { .. }
            | Self::BodyTooLarge => ReplyCode::FrameError,
            Self::UnexpectedFrame(_)
            | Self::ExpectedMethod
            | Self::ExpectedHeader { .. }
            | Self::ExpectedBody => ReplyCode::UnexpectedFrame,
            Self::UnknownMethod { .. } => ReplyCode::NotImplemented,
            Self::UnimplementedMethod => ReplyCode::CommandInvalid,
            Self::UnexpectedMethod { .. } | Self::ChannelNotOpen | Self::ChannelOpenTwice => {
                ReplyCode::ChannelError
            }
            Self::ChannelMax { .. } | Self::TuneBelow { .. } | Self::TuneAbove { .. } => {
                ReplyCode::NotAllowed
            }
            Self::MessageSize { .. } => ReplyCode::PreconditionFailed,
            Self::IncompleteContents { .. } => ReplyCode::ResourceError,
            Self::MissedHeartbeats { .. } => ReplyCode::ConnectionForced,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A frame that is too large is refused before its payload arrives.
            Self::FrameTooLarge { kind, size, max } => {
                write!(f, "{}: {{frame_too_large,{size},{max}}}", Excerpt::new(*kind, &[]))
            }
            Self::FrameEnd { frame, end } => write!(f, "{frame}: {{invalid_frame_end_marker,{end}}}"),
            Self::UnknownFrame(frame) => write!(f, "{frame}: unknown_frame"),
            Self::UnexpectedFrame(frame) => write!(f, "{frame}"),
            Self::ExpectedMethod => f.write_str("expected method frame, got non method frame instead"),
            Self::ExpectedHeader { class, got: Some(got) } => {
                write!(f, "expected content header for class {class}, got one for class {got} instead")
            }
            Self::ExpectedHeader { class, got: None } => {
                write!(f, "expected content header for class {class}, got non content header frame instead")
            }
            Self::ExpectedBody => f.write_str("expected content body, got non content body frame instead"),
            Self::BodyTooLarge => f.write_str("content body frame exceeds remaining content size"),
            Self::UnknownMethod { class, method } => {
                write!(f, "unknown method {method} of class {class}")
            }
            Self::Arguments { name, error, .. } => write!(f, "malformed arguments of {name}: {error}"),
            Self::UnexpectedMethod { state } => write!(f, "unexpected method in connection state {state}"),
            Self::UnimplementedMethod => f.write_str("unimplemented method"),
            Self::ChannelNotOpen => f.write_str("expected 'channel.open'"),
            Self::ChannelOpenTwice => f.write_str("second 'channel.open' seen"),
            Self::ChannelMax { channel, max } => {
                write!(f, "channel number ({channel}) exceeds the negotiated channel_max ({max})")
            }
            Self::TuneBelow { limit, value, min } => {
                write!(f, "negotiated {limit} = {value} is lower than the minimum allowed value ({min})")
            }
            Self::TuneAbove { limit, value, max } => {
                write!(f, "negotiated {limit} = {value} is higher than the maximum allowed value ({max})")
            }
            Self::MessageSize { size, max } => {
                write!(f, "message size {size} is larger than configured max size {max}")
            }
            Self::IncompleteContents { max } => write!(f, "incomplete contents take more than {max} bytes"),
            Self::MissedHeartbeats { timeout_s } => {
                write!(f, "missed heartbeats from client, timeout: {timeout_s}s")
            }
        }
    }
}
