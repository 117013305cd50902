//! The result of handling a frame of the peer: an event to act on, or a fault.

use std::borrow::Cow;

use super::Content;
use crate::arguments::SHORTSTR_MAX;
use crate::constants::ReplyCode;
use crate::generated::{ConnectionStart, ConnectionStartOk, ConnectionUpdateSecret, Method};
use crate::secret::Secret;
use crate::violation::Violation;

/// What the peer requests or reports.
#[derive(Debug)]
pub enum Event<'a> {
    /// Server: the protocol header was accepted. Call [`start`](super::Connection::start) now.
    HeaderExchanged,
    /// The peer speaks another protocol. Server: the header of AMQP 0.9.1 is in the output. Close the socket when it is
    /// written.
    BadHeader,
    /// Client: choose a mechanism with [`start_ok`](super::Connection::start_ok).
    Start(ConnectionStart<'a>),
    /// Server: continue with [`secure`](super::Connection::secure), [`tune`](super::Connection::tune), or
    /// [`fail`](super::Connection::fail).
    StartOk(ConnectionStartOk<'a>),
    /// Client: the challenge of the mechanism. Answer with [`secure_ok`](super::Connection::secure_ok).
    Secure(&'a [u8]),
    /// Server: the response to a challenge. Continue as after `StartOk`.
    SecureOk(Secret<'a>),
    /// The limits are agreed ([`tuned`](super::Connection::tuned)). Client: tune-ok is in the output; call
    /// [`open`](super::Connection::open) now.
    Tuned,
    /// Server: the client asks for a virtual host. Answer with [`open_ok`](super::Connection::open_ok) or
    /// [`fail`](super::Connection::fail).
    Open(&'a str),
    /// Client: the connection is open.
    Opened,
    /// The peer closes the connection. Answer with [`close_ok`](super::Connection::close_ok). Until then, its input is
    /// ignored.
    Close { code: u16, text: &'a str, class_id: u16, method_id: u16 },
    /// The peer has answered our close. Nothing follows.
    Closed,
    /// Server: a new token of the client. Answer with [`update_secret_ok`](super::Connection::update_secret_ok) or
    /// [`fail`](super::Connection::fail).
    UpdateSecret(ConnectionUpdateSecret<'a>),
    /// Client: the server has accepted the new token.
    UpdateSecretOk,
    /// Client: the server does not read our messages until `Unblocked`. The text is the reason.
    Blocked(&'a str),
    /// Client: the server reads our messages again.
    Unblocked,
    /// The channel is open. Server: open-ok is in the output.
    ChannelOpened(u16),
    /// The peer closes the channel. Answer with [`channel_close_ok`](super::Connection::channel_close_ok). Until then, its
    /// frames on the channel are ignored, and nothing is sent on it.
    ChannelClose { channel: u16, code: u16, text: &'a str, class_id: u16, method_id: u16 },
    /// The peer has answered our close of the channel. Its number may be used again.
    ChannelClosed(u16),
    /// Any other method without content, on an open channel. Whether the peer's role may send it is not checked.
    Method { channel: u16, method: Method<'a> },
    /// A method with its whole content, on an open channel.
    Content { channel: u16, content: Content<'a> },
}

/// An error that ends a channel or the connection. See [`Connection::fail`](super::Connection::fail).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The channel that ends. `None` if the connection ends.
    pub channel: Option<u16>,
    pub code: ReplyCode,
    /// The explanation. The name of the code is put before it when it is sent.
    pub text: Cow<'static, str>,
    /// The method that failed: its class, or 0 if no method is to blame.
    pub class_id: u16,
    /// The method that failed: its number in the class, or 0.
    pub method_id: u16,
}

impl Fault {
    /// Creates the fault for a broken rule. `channel` is where it was broken. It ends if the reply code ends channels only.
    /// `failed` is the class and the number of the method that failed.
    pub(super) fn new(channel: u16, violation: Violation, failed: (u16, u16)) -> Self {
        let code = violation.reply_code();
        let (class_id, method_id) = match violation {
            Violation::Arguments { class, method, .. } | Violation::UnknownMethod { class, method } => {
                (class, method)
            }
            _ => failed,
        };
        let channel = (channel != 0 && !code.ends_connection()).then_some(channel);
        Self { channel, code, text: violation.to_string().into(), class_id, method_id }
    }

    /// Creates the fault for a broken rule that ends the connection and is not the fault of a method.
    pub(super) fn connection(violation: Violation) -> Self {
        Self::new(0, violation, (0, 0))
    }
}

/// What a reply text ends with if it was too long.
const CUT: &str = "...";

/// Returns the text that the peer gets: the name of the code, and the explanation. As in RabbitMQ, a text that is too long
/// for a short string ends with three dots.
pub(super) fn reply_text(code: ReplyCode, explanation: &str) -> String {
    let mut text = format!("{} - {explanation}", code.name());
    if text.len() > SHORTSTR_MAX {
        text.truncate(text.floor_char_boundary(SHORTSTR_MAX - CUT.len()));
        text += CUT;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_text_is_cut_between_characters() {
        assert_eq!(reply_text(ReplyCode::NotFound, "no queue 'q'"), "NOT_FOUND - no queue 'q'");
        let text = reply_text(ReplyCode::NotFound, &"ä".repeat(200));
        assert_eq!((text.len(), &text[250..]), (255, "ä..."));
        let text = reply_text(ReplyCode::NotFound, &format!("x{}", "ä".repeat(200)));
        assert_eq!((text.len(), &text[249..]), (254, "ä..."));
    }
}
