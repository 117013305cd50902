//! Channels: which are open, and the methods of the class channel.
//!
//! ```text
//!  server:  Closed --channel.open, answered--------------------> Open
//!  client:  Closed --open_channel()--> Opening --open-ok-------> Open
//!
//!           Open --close sent-----> Closing --close-ok received-----> Closed
//!           Open --close received-> Ending --channel_close_ok()-----> Closed
//!
//!  Open becomes Content at a method with content, and Open again when the content is complete.
//! ```

use super::partial::Partial;
use super::payload::Payload;
use super::{Connection, Event, Fault, State};
use crate::constants::{FRAME_METHOD, ReplyCode};
use crate::frame::put_frame;
use crate::generated::{ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, ConnectionClose, Method};
use crate::violation::Violation;

/// The state of a channel. See the diagram above.
#[derive(Debug, Default)]
pub(super) enum Channel {
    #[default]
    Closed,
    Opening,
    Open,
    /// A content is incomplete.
    Content(Box<Partial>),
    /// We sent close. Everything but close and close-ok is ignored.
    Closing,
    /// The peer sent close. Everything is ignored.
    Ending,
}

/// The channels by their numbers.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// Channels above the last one are closed. So the memory depends on the highest channel that is open, and channel-max
    /// bounds it.
    channels: Vec<Channel>,
    /// The bytes of memory that the incomplete contents take.
    incomplete_bytes: usize,
}

impl Channels {
    #[inline]
    pub(super) fn get(&self, channel: u16) -> &Channel {
        self.channels.get(usize::from(channel)).unwrap_or(&Channel::Closed)
    }

    /// Replaces the state of a channel. Returns the previous state.
    pub(super) fn set(&mut self, channel: u16, state: Channel) -> Channel {
        let at = usize::from(channel);
        self.incomplete_bytes += state.incomplete_bytes();
        let before = match self.channels.get_mut(at) {
            Some(place) => std::mem::replace(place, state),
            None => {
                self.channels.resize_with(at, Channel::default);
                self.channels.push(state);
                Channel::Closed
            }
        };
        self.incomplete_bytes -= before.incomplete_bytes();
        while let Some(Channel::Closed) = self.channels.last() {
            self.channels.pop();
        }
        before
    }

    pub(super) fn incomplete_bytes(&self) -> usize {
        self.incomplete_bytes
    }
}

impl Channel {
    fn incomplete_bytes(&self) -> usize {
        match self {
            Self::Content(partial) => partial.bytes(),
            _ => 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open | Self::Content(_))
    }
}

/// What a method means on an open channel.
enum Kind {
    /// A content follows.
    Content,
    Plain,
    /// Only the other role sends it, or it belongs on another channel or in another state.
    Misplaced,
}

impl Connection {
    /// Returns true if methods can be sent on the channel.
    pub fn channel_is_open(&self, channel: u16) -> bool {
        self.channels.get(channel).is_open()
    }

    /// Handles a frame on a channel other than 0, of a connection that is open.
    pub(super) fn handle_on_channel<'a>(
        &mut self,
        channel: u16,
        payload: Payload<'a>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let max = self.tuned.channel_max;
        if max != 0 && channel > max {
            return Err(Fault::new(channel, Violation::ChannelMax { channel, max }, (0, 0)));
        }
        match self.channels.get(channel) {
            Channel::Ending => Ok(None),
            Channel::Closing => Ok(self.handle_while_closing(channel, payload)),
            Channel::Content(_) => self.handle_part(channel, payload),
            Channel::Closed | Channel::Opening | Channel::Open => match payload {
                Payload::Method { class, method, arguments } => {
                    let method = Method::parse(class, method, arguments);
                    let method = method.map_err(|violation| Fault::new(channel, violation, (0, 0)))?;
                    self.handle_method(channel, method, arguments)
                        .map_err(|violation| Fault::new(channel, violation, (class, method.method_id())))
                }
                _ => Err(Fault::new(channel, Violation::ExpectedMethod, (0, 0))),
            },
        }
    }

    /// Handles a frame on a channel that we have closed. Only the ids of methods are read.
    fn handle_while_closing<'a>(&mut self, channel: u16, payload: Payload<'_>) -> Option<Event<'a>> {
        let Payload::Method { class: ChannelClose::CLASS_ID, method, .. } = payload else { return None };
        match method {
            // Both sides have closed at the same time.
            ChannelClose::METHOD_ID => {
                self.put_on(channel, &Method::ChannelCloseOk(ChannelCloseOk));
                None
            }
            ChannelCloseOk::METHOD_ID => {
                self.channels.set(channel, Channel::Closed);
                Some(Event::ChannelClosed(channel))
            }
            _ => None,
        }
    }

    /// Handles a method on a channel that expects one.
    fn handle_method<'a>(
        &mut self,
        channel: u16,
        method: Method<'a>,
        arguments: &'a [u8],
    ) -> Result<Option<Event<'a>>, Violation> {
        Ok(Some(match (self.channels.get(channel), method) {
            (Channel::Closed, Method::ChannelOpen(_)) if self.server => {
                self.channels.set(channel, Channel::Open);
                self.put_on(channel, &Method::ChannelOpenOk(ChannelOpenOk));
                Event::ChannelOpened(channel)
            }
            (Channel::Opening, Method::ChannelOpenOk(_)) => {
                self.channels.set(channel, Channel::Open);
                Event::ChannelOpened(channel)
            }
            (Channel::Open | Channel::Opening, Method::ChannelClose(close)) => {
                self.channels.set(channel, Channel::Ending);
                let ChannelClose { reply_code, reply_text, class_id, method_id } = close;
                Event::ChannelClose { channel, code: reply_code, text: reply_text, class_id, method_id }
            }
            (Channel::Open, Method::ChannelOpen(_)) if self.server => {
                return Err(Violation::ChannelOpenTwice);
            }
            (Channel::Open, method) => {
                return match self.kind_of(&method) {
                    Kind::Content => {
                        self.begin_content(channel, method.method_id(), arguments).map(|()| None)
                    }
                    Kind::Plain => Ok(Some(Event::Method { channel, method })),
                    Kind::Misplaced => Err(Violation::UnimplementedMethod),
                };
            }
            _ => return Err(Violation::ChannelNotOpen),
        }))
    }

    /// Returns what a method means on an open channel.
    fn kind_of(&self, method: &Method<'_>) -> Kind {
        match method {
            Method::BasicPublish(_) if self.server => Kind::Content,
            Method::BasicDeliver(_) | Method::BasicGetOk(_) | Method::BasicReturn(_) if !self.server => {
                Kind::Content
            }
            Method::BasicPublish(_)
            | Method::BasicDeliver(_)
            | Method::BasicGetOk(_)
            | Method::BasicReturn(_)
            | Method::ChannelOpen(_)
            | Method::ChannelOpenOk(_)
            | Method::ChannelCloseOk(_) => Kind::Misplaced,
            method if method.class_id() == ConnectionClose::CLASS_ID => Kind::Misplaced,
            _ => Kind::Plain,
        }
    }

    /// Client: opens a channel. Returns false, and does nothing, if the connection is not open, or the number is 0, in use
    /// or above channel-max.
    pub fn open_channel(&mut self, channel: u16) -> bool {
        let max = self.tuned.channel_max;
        let free = matches!(self.channels.get(channel), Channel::Closed);
        if self.server || self.state != State::Opened || channel == 0 || !free || max != 0 && channel > max {
            return false;
        }
        self.channels.set(channel, Channel::Opening);
        self.put_on(channel, &Method::ChannelOpen(ChannelOpen));
        true
    }

    /// Closes a channel without an error.
    pub fn close_channel(&mut self, channel: u16, text: &str) {
        let reply_code = ReplyCode::ReplySuccess.number();
        self.put_channel_close(
            channel,
            ChannelClose { reply_code, reply_text: text, ..ChannelClose::default() },
        );
    }

    pub(super) fn put_channel_close(&mut self, channel: u16, close: ChannelClose<'_>) {
        if matches!(self.channels.get(channel), Channel::Open | Channel::Content(_) | Channel::Opening) {
            self.channels.set(channel, Channel::Closing);
            self.put_on(channel, &Method::ChannelClose(close));
        }
    }

    /// Answers the peer's close of a channel. Its number may be used again.
    pub fn channel_close_ok(&mut self, channel: u16) {
        if matches!(self.channels.get(channel), Channel::Ending) {
            self.channels.set(channel, Channel::Closed);
            self.put_on(channel, &Method::ChannelCloseOk(ChannelCloseOk));
        }
    }

    /// Writes a method on a channel in any state.
    pub(super) fn put_on(&mut self, channel: u16, method: &Method<'_>) {
        put_frame(self.output.buffer(), FRAME_METHOD, channel, |out| method.put(out));
    }
}
