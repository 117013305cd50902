//! Tells the frames of the peer apart.
//!
//! A method and its content that lie together in the input, with the body in one frame, are handled at once and without a
//! copy ([`Connection::frequent`]). This is the path of nearly all messages. Everything else is handled frame by frame.
//! If a frame breaks a rule, only that second path says which one.

use bytes::Bytes;

use super::channels::Channel;
use super::content::{Content, Head};
use super::payload::Payload;
use super::{Connection, Event, Fault, State};
use crate::arguments::Reader;
use crate::constants::{FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD};
use crate::frame::{Excerpt, FrameHeader, HEADER_SIZE, OVERHEAD, PROTOCOL_HEADER_SIZE, PROTOCOL_NAME};
use crate::generated::{BasicAck, BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Method};
use crate::violation::Violation;
use buffers::Chunk;

impl Connection {
    /// Returns the length of the frame (or protocol header) at the start of `input`, in bytes. Returns `None` if `input`
    /// is too short to tell.
    ///
    /// # Errors
    /// The frame is larger than agreed. A client takes content headers of the size of the largest message.
    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, Fault> {
        if self.expects_protocol_header(input) {
            return Ok((input.len() >= PROTOCOL_HEADER_SIZE).then_some(PROTOCOL_HEADER_SIZE));
        }
        let Some(header) = FrameHeader::parse(input) else { return Ok(None) };
        let len = header.frame_len();
        if len > self.frame_len_max && !self.takes_long_header(header) {
            return Err(self.frame_too_large(header));
        }
        Ok(Some(len))
    }

    /// Returns true if the frame may be larger than agreed: a broker cannot split a content header, and sends one of any size.
    #[cold]
    fn takes_long_header(&self, header: FrameHeader) -> bool {
        let FrameHeader { kind, size, .. } = header;
        !self.server
            && kind == FRAME_HEADER
            && self.state == State::Opened
            && u64::from(size) <= self.config.max_message_size
    }

    #[cold]
    fn frame_too_large(&self, header: FrameHeader) -> Fault {
        let FrameHeader { kind, size, .. } = header;
        // Without the tolerance, and in bytes of payload, as RabbitMQ says it.
        let max = self.frame_len_max.saturating_sub(2 * OVERHEAD) as u32;
        Fault::connection(Violation::FrameTooLarge { kind, size, max })
    }

    /// Returns true if `input` begins with a protocol header. A server may send one as well, if it speaks another protocol.
    /// No type of frame begins like this.
    fn expects_protocol_header(&self, input: &[u8]) -> bool {
        match self.state {
            State::Header => true,
            State::Start => !self.server && input.starts_with(PROTOCOL_NAME),
            _ => false,
        }
    }

    /// Handles what is at the start of `input`: one frame, or a method with its whole content if all its frames are in
    /// `input` and each is shorter than `large` bytes. Returns the number of bytes handled, and what they mean. The
    /// number is 0 if the first frame is incomplete or large.
    ///
    /// # Errors
    /// The peer has broken a rule. The number may be 0 then, if it is not known where the frame ends. See
    /// [`Connection::fail`].
    #[inline]
    pub fn handle_input<'a>(
        &mut self,
        input: &'a [u8],
        large: usize,
        now_ms: u64,
    ) -> (usize, Result<Option<Event<'a>>, Fault>) {
        if let Some((used, event)) = self.frequent(input, large) {
            self.last_received_ms = now_ms;
            return (used, Ok(Some(event)));
        }
        self.handle_first(input, large, now_ms)
    }

    /// Handles the first frame of `input`, if it is whole and shorter than `large` bytes.
    #[inline(never)]
    fn handle_first<'a>(
        &mut self,
        input: &'a [u8],
        large: usize,
        now_ms: u64,
    ) -> (usize, Result<Option<Event<'a>>, Fault>) {
        if self.state == State::Closed {
            return (input.len(), Ok(None));
        }
        match self.frame_len(input) {
            Ok(Some(len)) if len < large => match input.get(..len) {
                Some(frame) => (len, self.handle_bytes(frame, now_ms)),
                None => (0, Ok(None)),
            },
            Ok(_) => (0, Ok(None)),
            Err(fault) => (0, Err(fault)),
        }
    }

    /// Handles one whole frame or protocol header, in a buffer that may be retained.
    ///
    /// # Errors
    /// The peer has broken a rule. See [`Connection::fail`].
    pub fn handle_frame<'a>(&mut self, frame: &'a Bytes, now_ms: u64) -> Result<Option<Event<'a>>, Fault> {
        self.handle_bytes(frame, now_ms)
    }

    /// Returns what is most frequent, if it is at the start of `input`: an acknowledgement, or a method with its whole
    /// content. Also returns its length in bytes. Returns `None` if the content is not there as a whole, its body is in
    /// several frames, or any rule is broken.
    #[inline]
    fn frequent<'a>(&self, input: &'a [u8], large: usize) -> Option<(usize, Event<'a>)> {
        let (header, method, rest) = self.frame(FRAME_METHOD, input, large)?;
        let channel = header.channel;
        let (ids, arguments) = method.split_first_chunk::<4>()?;
        let ids = u32::from_be_bytes(*ids);
        if self.state != State::Opened || !matches!(self.channels.get(channel), Channel::Open) {
            return None;
        }
        if ids == ids_of(BasicAck::METHOD_ID) {
            let reader = &mut Reader::new(arguments);
            let ack = BasicAck::read(reader).and_then(|ack| reader.finish(ack)).ok()?;
            let event = Event::Method { channel, method: Method::BasicAck(ack) };
            return Some((input.len() - rest.len(), event));
        }
        let head = self.content_head(ids, arguments)?;

        let (header, payload, mut rest) = self.frame(FRAME_HEADER, rest, large)?;
        let (class_and_weight, after) = payload.split_first_chunk::<4>()?;
        let (body_size, properties) = after.split_first_chunk()?;
        let body_size = u64::from_be_bytes(*body_size);
        let fits = header.channel == channel
            && u32::from_be_bytes(*class_and_weight) == u32::from(BasicPublish::CLASS_ID) << 16
            && body_size <= self.config.max_message_size;
        if !fits {
            return None;
        }

        let mut body: &[u8] = &[];
        if body_size > 0 {
            let header;
            (header, body, rest) = self.frame(FRAME_BODY, rest, large)?;
            if header.channel != channel || body.len() as u64 != body_size {
                return None;
            }
        }
        let (properties, payload) = (Chunk::Borrowed(properties), Chunk::Borrowed(body));
        let content = Content { head, properties, payload };
        Some((input.len() - rest.len(), Event::Content { channel, content }))
    }

    /// Returns the frame at the start of `input`, its payload, and the input behind it. Returns `None` unless the frame is
    /// of this type, whole, correct and shorter than `large` bytes.
    #[inline(always)]
    fn frame<'a>(
        &self,
        kind: u8,
        input: &'a [u8],
        large: usize,
    ) -> Option<(FrameHeader, &'a [u8], &'a [u8])> {
        let header = FrameHeader::parse(input)?;
        let len = header.frame_len();
        if header.kind != kind || len >= large || len > self.frame_len_max {
            return None;
        }
        let (frame, rest) = input.split_at_checked(len)?;
        let [.., end] = frame else { return None };
        if *end != FRAME_END {
            return None;
        }
        Some((header, frame.get(HEADER_SIZE..len - 1)?, rest))
    }

    /// Returns the method of a content, if the peer's role may send it. `ids` are the class and the method.
    #[inline(always)]
    fn content_head<'a>(&self, ids: u32, arguments: &'a [u8]) -> Option<Head<'a>> {
        const PUBLISH: u32 = ids_of(BasicPublish::METHOD_ID);
        const DELIVER: u32 = ids_of(BasicDeliver::METHOD_ID);
        const GET_OK: u32 = ids_of(BasicGetOk::METHOD_ID);
        const RETURN: u32 = ids_of(BasicReturn::METHOD_ID);

        let reader = &mut Reader::new(arguments);
        let head = match ids {
            PUBLISH if self.server => Head::Publish(BasicPublish::read(reader).ok()?),
            DELIVER if !self.server => Head::Deliver(BasicDeliver::read(reader).ok()?),
            GET_OK if !self.server => Head::GetOk(BasicGetOk::read(reader).ok()?),
            RETURN if !self.server => Head::Return(BasicReturn::read(reader).ok()?),
            _ => return None,
        };
        reader.finish(head).ok()
    }

    /// Handles one whole frame or protocol header.
    fn handle_bytes<'a>(&mut self, input: &'a [u8], now_ms: u64) -> Result<Option<Event<'a>>, Fault> {
        self.last_received_ms = now_ms;
        if self.expects_protocol_header(input) {
            return Ok(self.handle_protocol_header(input));
        }
        if self.state == State::Closed {
            return Ok(None);
        }
        // A caller passes whole frames. If one is cut off, it is refused like a frame of an unknown type.
        let cut_off = |kind| Fault::connection(Violation::UnknownFrame(Excerpt::new(kind, &[])));
        let header = FrameHeader::parse(input).ok_or_else(|| cut_off(0))?;
        let payload = input.get(HEADER_SIZE..header.frame_len() - 1).ok_or_else(|| cut_off(header.kind))?;
        let end = *input.get(header.frame_len() - 1).ok_or_else(|| cut_off(header.kind))?;
        let excerpt = || Excerpt::new(header.kind, payload);
        if end != FRAME_END {
            return Err(Fault::connection(Violation::FrameEnd { frame: excerpt(), end }));
        }
        let parsed = Payload::parse(header.kind, payload);
        if self.state.is_stopping() {
            return Ok(self.handle_while_stopping(header.channel, parsed));
        }
        let unexpected = || Fault::connection(Violation::UnexpectedFrame(excerpt()));
        match (header.channel, parsed) {
            (1.., _) if self.state != State::Opened => Err(unexpected()),
            (_, None) => Err(Fault::connection(Violation::UnknownFrame(excerpt()))),
            (0, Some(Payload::Heartbeat)) => Ok(None),
            (0, Some(Payload::Method { class, method, arguments })) => {
                self.handle_connection_method(class, method, arguments)
            }
            (0, Some(_)) | (_, Some(Payload::Heartbeat)) => Err(unexpected()),
            (channel, Some(payload)) => self.handle_on_channel(channel, payload),
        }
    }
}

/// Returns class and method of a method of the class basic in one number, as they are in a frame.
const fn ids_of(method: u16) -> u32 {
    (BasicPublish::CLASS_ID as u32) << 16 | method as u32
}
