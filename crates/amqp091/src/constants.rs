//! Generated from `spec/*.json` by `cargo xtask codegen`. Do not edit.
//!
//! The types of frames, and the reply codes.

/// `frame-method`
pub const FRAME_METHOD: u8 = 1;
/// `frame-header`
pub const FRAME_HEADER: u8 = 2;
/// `frame-body`
pub const FRAME_BODY: u8 = 3;
/// `frame-heartbeat`
pub const FRAME_HEARTBEAT: u8 = 8;
/// `frame-end`
pub const FRAME_END: u8 = 206;

/// Why a channel or a connection is closed, or a message returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyCode {
    /// 200, `REPLY_SUCCESS`
    ReplySuccess,
    /// 311, `CONTENT_TOO_LARGE`
    ContentTooLarge,
    /// 312, `NO_ROUTE`
    NoRoute,
    /// 313, `NO_CONSUMERS`
    NoConsumers,
    /// 320, `CONNECTION_FORCED`. Ends the connection.
    ConnectionForced,
    /// 402, `INVALID_PATH`. Ends the connection.
    InvalidPath,
    /// 403, `ACCESS_REFUSED`
    AccessRefused,
    /// 404, `NOT_FOUND`
    NotFound,
    /// 405, `RESOURCE_LOCKED`
    ResourceLocked,
    /// 406, `PRECONDITION_FAILED`
    PreconditionFailed,
    /// 501, `FRAME_ERROR`. Ends the connection.
    FrameError,
    /// 502, `SYNTAX_ERROR`. Ends the connection.
    SyntaxError,
    /// 503, `COMMAND_INVALID`. Ends the connection.
    CommandInvalid,
    /// 504, `CHANNEL_ERROR`. Ends the connection.
    ChannelError,
    /// 505, `UNEXPECTED_FRAME`. Ends the connection.
    UnexpectedFrame,
    /// 506, `RESOURCE_ERROR`. Ends the connection.
    ResourceError,
    /// 530, `NOT_ALLOWED`. Ends the connection.
    NotAllowed,
    /// 540, `NOT_IMPLEMENTED`. Ends the connection.
    NotImplemented,
    /// 541, `INTERNAL_ERROR`. Ends the connection.
    InternalError,
}

impl ReplyCode {
    /// Returns the number that is sent.
    pub const fn number(self) -> u16 {
        match self {
            Self::ReplySuccess => 200,
            Self::ContentTooLarge => 311,
            Self::NoRoute => 312,
            Self::NoConsumers => 313,
            Self::ConnectionForced => 320,
            Self::InvalidPath => 402,
            Self::AccessRefused => 403,
            Self::NotFound => 404,
            Self::ResourceLocked => 405,
            Self::PreconditionFailed => 406,
            Self::FrameError => 501,
            Self::SyntaxError => 502,
            Self::CommandInvalid => 503,
            Self::ChannelError => 504,
            Self::UnexpectedFrame => 505,
            Self::ResourceError => 506,
            Self::NotAllowed => 530,
            Self::NotImplemented => 540,
            Self::InternalError => 541,
        }
    }

    /// Returns the code with this number, if the specification has one.
    pub const fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            200 => Self::ReplySuccess,
            311 => Self::ContentTooLarge,
            312 => Self::NoRoute,
            313 => Self::NoConsumers,
            320 => Self::ConnectionForced,
            402 => Self::InvalidPath,
            403 => Self::AccessRefused,
            404 => Self::NotFound,
            405 => Self::ResourceLocked,
            406 => Self::PreconditionFailed,
            501 => Self::FrameError,
            502 => Self::SyntaxError,
            503 => Self::CommandInvalid,
            504 => Self::ChannelError,
            505 => Self::UnexpectedFrame,
            506 => Self::ResourceError,
            530 => Self::NotAllowed,
            540 => Self::NotImplemented,
            541 => Self::InternalError,
            _ => return None,
        })
    }

    /// Returns the name that reply texts begin with, such as `NOT_FOUND`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReplySuccess => "REPLY_SUCCESS",
            Self::ContentTooLarge => "CONTENT_TOO_LARGE",
            Self::NoRoute => "NO_ROUTE",
            Self::NoConsumers => "NO_CONSUMERS",
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::InvalidPath => "INVALID_PATH",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// Returns true if the error ends the connection, false if it ends the channel.
    pub const fn ends_connection(self) -> bool {
        matches!(
            self,
            Self::ConnectionForced
                | Self::InvalidPath
                | Self::FrameError
                | Self::SyntaxError
                | Self::CommandInvalid
                | Self::ChannelError
                | Self::UnexpectedFrame
                | Self::ResourceError
                | Self::NotAllowed
                | Self::NotImplemented
                | Self::InternalError
        )
    }
}
