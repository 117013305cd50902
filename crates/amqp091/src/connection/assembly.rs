//! Assembles the content of a method from its frames. Only contents that do not lie together in one read come here.

use super::channels::Channel;
use super::partial::Partial;
use super::payload::Payload;
use super::{Connection, Event, Fault};
use crate::generated::BasicPublish;
use crate::violation::Violation;

/// The class of all methods with content.
const CLASS: u16 = BasicPublish::CLASS_ID;

impl Connection {
    /// Called for a method whose content follows. The arguments are correct.
    pub(super) fn begin_content(
        &mut self,
        channel: u16,
        method_id: u16,
        arguments: &[u8],
    ) -> Result<(), Violation> {
        self.keep(channel, Box::new(Partial::new(method_id, arguments)))
    }

    /// Handles a frame on a channel whose content is incomplete.
    pub(super) fn handle_part<'a>(
        &mut self,
        channel: u16,
        payload: Payload<'_>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let Channel::Content(partial) = self.channels.set(channel, Channel::Open) else { return Ok(None) };
        let failed = (CLASS, partial.method_id);
        self.add_part(channel, partial, payload).map_err(|violation| Fault::new(channel, violation, failed))
    }

    /// Adds a frame to a content that was taken from its channel.
    fn add_part<'a>(
        &mut self,
        channel: u16,
        mut partial: Box<Partial>,
        payload: Payload<'_>,
    ) -> Result<Option<Event<'a>>, Violation> {
        let (properties_len, missing) = match (partial.header, payload) {
            (None, Payload::Header { class: CLASS, weight: 0, body_size, properties }) => {
                let max = self.config.max_message_size;
                if body_size > max {
                    return Err(Violation::MessageSize { size: body_size, max });
                }
                partial.push(properties, 0);
                (properties.len(), body_size)
            }
            (None, Payload::Header { class, weight: 0, .. }) => {
                return Err(Violation::ExpectedHeader { class: CLASS, got: Some(class) });
            }
            (None, _) => return Err(Violation::ExpectedHeader { class: CLASS, got: None }),
            (Some((properties_len, missing)), Payload::Body(body)) => {
                let missing = missing.checked_sub(body.len() as u64).ok_or(Violation::BodyTooLarge)?;
                partial.push(body, missing);
                (properties_len, missing)
            }
            (Some(_), _) => return Err(Violation::ExpectedBody),
        };
        if missing == 0 {
            let content = partial.into_content(properties_len);
            return Ok(Some(Event::Content { channel, content }));
        }
        partial.header = Some((properties_len, missing));
        self.keep(channel, partial).map(|()| None)
    }

    /// Keeps an incomplete content until its next frame arrives. Its channel must be open.
    fn keep(&mut self, channel: u16, partial: Box<Partial>) -> Result<(), Violation> {
        self.channels.set(channel, Channel::Content(partial));
        let max = self.config.incomplete_bytes_max;
        if self.channels.incomplete_bytes() > max {
            return Err(Violation::IncompleteContents { max });
        }
        Ok(())
    }
}
