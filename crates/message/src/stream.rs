//! The form of messages in streams: a sequence of entries, as in RabbitMQ's stream protocol.
//!
//! ```text
//! entry     | 0 bit | length u31 | header? | message-annotations | bare message and footer |    numbers are big-endian
//! ```
//!
//! The sections are those of AMQP 1.0, so that every reader of a stream's bytes can parse them. The header
//! has the lasting fields that the sender set: durable, priority and time to live. The annotations begin with
//! the exchange and the routing key of the message.

use std::borrow::Cow;
use std::sync::Arc;

use amqp10::Reader;
use amqp10::encode::Gathered;
use amqp10::sections::{map_content, map_pairs, scan, scan_bare};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::StoredError;
use crate::envelope::{Format, Message, Parts, SharedHead};
use crate::route::Route;

/// The annotation with which a publisher sets the value for stream filters (docs/compatibility.md, Stream
/// filters).
pub const FILTER_VALUE: &str = "x-stream-filter-value";

/// The number of bytes before each entry: its length.
const HEAD: usize = 4;

/// The most bytes of an entry's length, its header section, and the start of its annotations section.
const HEADS_MAX: usize = HEAD + 16 + 12;

/// The bit of a length that marks a batch of messages. Only clients of the stream protocol write batches.
const BATCH: u32 = 1 << 31;

impl Message {
    /// Returns a converted copy of the message if it is not in the format of streams. Every reader of a stream's bytes must
    /// be able to parse them.
    #[inline(always)]
    pub fn converted_for_stream(&self) -> Option<Self> {
        match self.in_amqp10() {
            Cow::Borrowed(_) => None,
            Cow::Owned(converted) => Some(converted),
        }
    }

    /// Returns the most bytes that [`EntryWriter::put`] appends, not counting deaths.
    pub fn stream_entry_bytes(&self) -> usize {
        HEADS_MAX + self.route().annotations().len() + self.annotations().len() + self.bare_slice().len()
    }

    /// Returns the filter value that the publisher set. As in RabbitMQ, an empty string counts as none. A
    /// value that is not a string counts as none, too.
    pub fn stream_filter_value(&self) -> Option<&str> {
        if self.annotations().is_empty() {
            return None;
        }
        let mut pairs = map_pairs(self.annotations()).ok()?.flatten();
        let (_, value) = pairs.find(|(key, _)| *key == FILTER_VALUE)?;
        Reader::new(value).read_str_opt().ok()?.filter(|value| !value.is_empty())
    }
}

/// Appends messages as consecutive entries of a stream.
#[derive(Debug, Default)]
pub struct EntryWriter {
    /// The encoded sections before the last bare message. Most messages have the same.
    head: Vec<u8>,
    /// Identifies the messages that have the same sections as the last one. `None` if the sections cannot be
    /// reused.
    shared: Option<SharedHead>,
}

impl EntryWriter {
    /// Appends the message as one entry of a stream. The message must be in the format of streams:
    /// see [`Message::converted_for_stream`].
    pub fn put(&mut self, message: &Message, out: &mut BytesMut) {
        if !self.shared.as_ref().is_some_and(|shared| shared.covers(message)) {
            return self.put_with_new_head(message, out);
        }
        let bare = message.bare_slice();
        out.reserve(HEAD + self.head.len() + bare.len());
        // The sum is far below 2 GiB, because frames and records are.
        out.put_u32((self.head.len() + bare.len()) as u32);
        out.put_slice(&self.head);
        out.put_slice(bare);
    }

    /// Appends a message whose head differs from the previous one.
    fn put_with_new_head(&mut self, message: &Message, out: &mut BytesMut) {
        let start = out.len();
        out.put_slice(&[0; HEAD]);
        // Trailing null fields are left out [1.4].
        let fields = match (message.priority(), message.ttl_ms()) {
            (_, Some(_)) => 3,
            (Some(_), None) => 2,
            (None, None) => u8::from(message.durable_header()),
        };
        if fields > 0 {
            Gathered::append(out, |head| message.put_header(fields, head, |_| {}));
        }
        message.put_annotations(None, out);
        self.shared = SharedHead::of(message);
        if self.shared.is_some() {
            self.head.clear();
            self.head.extend_from_slice(&out[start + HEAD..]);
        }
        out.put_slice(message.bare_slice());
        let len = (out.len() - start - HEAD) as u32;
        out[start..start + HEAD].copy_from_slice(&len.to_be_bytes());
    }
}

/// Reads the entries of a chunk one by one.
#[derive(Debug, Default)]
pub struct Entries {
    rest: Bytes,
    /// The message that was read last. It is updated in place for each entry.
    message: Option<Message>,
    /// The sections before the bare message of the last entry, if they contain only the route. Otherwise
    /// empty. Most messages have the same.
    head: Vec<u8>,
}

impl Entries {
    pub fn new(data: Bytes) -> Self {
        Self { rest: data, ..Self::default() }
    }

    /// Continues with the entries of another chunk.
    pub fn replace(&mut self, data: Bytes) {
        self.rest = data;
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Releases the bytes of the chunk if all of it was read.
    pub fn release(&mut self) {
        if let Some(message) = &mut self.message
            && self.rest.is_empty()
        {
            message.set_wire(Bytes::new(), &[0; 3]);
        }
    }

    /// Skips one entry. Returns `None` at the end.
    ///
    /// # Errors
    /// [`StoredError::Malformed`]: the rest of the chunk cannot be read.
    pub fn skip(&mut self) -> Option<Result<(), StoredError>> {
        let len = self.entry_len()?;
        Some(len.map(|len| self.rest.advance(HEAD + len)))
    }

    /// Returns the next message by reference. It shares the bytes of the chunk. Returns `None` at the end.
    ///
    /// # Errors
    /// [`StoredError::Malformed`]: this entry cannot be read. Later entries can still be read, unless the
    /// length of this one is wrong.
    pub fn message(&mut self) -> Option<Result<&Message, StoredError>> {
        let len = match self.entry_len()? {
            Ok(len) => len,
            Err(error) => return Some(Err(error)),
        };
        self.rest.advance(HEAD);
        let entry = self.rest.split_to(len);
        Some(self.read(entry).ok_or(StoredError::Malformed))
    }

    /// Returns the last message that could be read. `None` if there is none yet. After [`Entries::release`]
    /// its bytes may be empty.
    pub fn last(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// Returns the length of the next entry, without the four bytes before it. If the length is wrong, drops
    /// the rest.
    fn entry_len(&mut self) -> Option<Result<usize, StoredError>> {
        if self.rest.is_empty() {
            return None;
        }
        let len = self.rest.first_chunk::<HEAD>().map(|head| u32::from_be_bytes(*head));
        match len {
            Some(len) if len & BATCH == 0 && self.rest.len() - HEAD >= len as usize => Some(Ok(len as usize)),
            _ => {
                self.rest = Bytes::new();
                Some(Err(StoredError::Malformed))
            }
        }
    }

    fn read(&mut self, mut entry: Bytes) -> Option<&Message> {
        match &mut self.message {
            Some(message) if !self.head.is_empty() && entry.starts_with(&self.head) => {
                entry.advance(self.head.len());
                let [application_properties_at, body_at] = scan_bare(&entry)?;
                message.set_wire(entry, &[0, application_properties_at, body_at]);
            }
            _ => self.read_with_new_head(&entry)?,
        }
        self.message.as_ref()
    }

    /// Reads an entry whose head differs from the previous one.
    fn read_with_new_head(&mut self, entry: &Bytes) -> Option<()> {
        let sections = scan(entry).ok()?;
        let annotations = sections.message_annotations.as_ref()?;
        let section = &entry[annotations.start as usize..annotations.end as usize];
        let route = Arc::new(route(section)?);
        let header = sections.header.as_ref();
        // If the annotations contain only the route, they are not stored with the message.
        let pairs = map_content(section).ok()?.range.len();
        let plain = pairs == route.annotations().len();
        let start = if plain { sections.bare.start } else { annotations.start };
        self.head.clear();
        if plain {
            self.head.extend_from_slice(&entry[..start as usize]);
        }
        let body_at = sections.body.start - start;
        let parts = Parts {
            format: Format::Amqp10,
            wire: entry.slice(start as usize..),
            bare_at: sections.bare.start - start,
            application_properties_at: sections
                .application_properties
                .map_or(body_at, |range| range.start - start),
            body_at,
            durable: true,
            durable_header: header.and_then(|h| h.durable).unwrap_or(false),
            priority: header.and_then(|h| h.priority),
            ttl_ms: header.and_then(|h| h.ttl).map(u64::from),
        };
        self.message = Some(Message::new(parts, route));
        Some(())
    }
}

/// Returns the route from the first two annotations.
fn route(section: &[u8]) -> Option<Route> {
    let mut pairs = map_pairs(section).ok()?.flatten();
    let mut text = || Reader::new(pairs.next()?.1).read_str_opt().ok()?;
    let (exchange, key) = (text()?, text()?);
    Some(Route::simple(exchange, key))
}

#[cfg(test)]
mod tests {
    use amqp10::Header;

    use super::*;
    use crate::{Death, DeathReason, trim};

    /// Message-annotations {x-a: 1}, properties {subject}, application-properties {k: 1}, data.
    const FULL: &[u8] = b"\x00\x53\x70\xc0\x05\x03\x41\x50\x05\x40\
        \x00\x53\x72\xc1\x08\x02\xa3\x03x-a\x54\x01\
        \x00\x53\x73\xc0\x07\x04\x40\x40\x40\xa1\x01s\
        \x00\x53\x74\xc1\x06\x02\xa1\x01k\x54\x01\
        \x00\x53\x75\xa0\x02hi";

    /// Only a body section.
    const PLAIN: &[u8] = b"\x00\x53\x77\x40";

    fn message(wire: &[u8], key: &str) -> Message {
        let trimmed = trim(&scan(wire).unwrap(), true);
        let wire = Bytes::copy_from_slice(&wire[trimmed.range.clone()]);
        Message::new(trimmed.into_parts(wire), Arc::new(Route::simple("x", key)))
    }

    fn chunk(messages: &[Message]) -> Bytes {
        let (mut out, mut writer) = (BytesMut::new(), EntryWriter::default());
        messages.iter().for_each(|message| writer.put(message, &mut out));
        out.freeze()
    }

    fn delivered(message: &Message, offset: Option<u64>) -> Vec<u8> {
        let mut out = BytesMut::new();
        message.put_delivery_head(0, false, offset, &mut out);
        out.put_slice(&message.bare());
        out.to_vec()
    }

    #[test]
    fn an_entry_is_read_back_with_the_same_delivery() {
        let plain = message(PLAIN, "k");
        let death = Death {
            queue: "q".into(),
            reason: DeathReason::Rejected,
            count: 1,
            first_ms: 7,
            last_ms: 7,
            exchange: "".into(),
            keys: vec!["q".into()],
            ttl_ms: None,
        };
        let dead = message(FULL, "dead").with_death(death, 0);
        let messages = [plain, message(FULL, "k"), message(FULL, "other"), dead];
        let mut entries = Entries::new(chunk(&messages));
        for sent in &messages {
            let read = entries.message().unwrap().unwrap();
            assert_eq!(
                (read.bare(), read.priority(), read.ttl_ms()),
                (sent.bare(), sent.priority(), sent.ttl_ms())
            );
            assert_eq!((read.route(), read.durable_header()), (sent.route(), sent.durable_header()));
            assert_eq!(read.application_properties(), sent.application_properties());
            if sent.deaths().is_none() {
                assert_eq!(delivered(read, None), delivered(sent, None));
                assert_eq!(delivered(read, Some(7)), delivered(sent, Some(7)));
            }
            let sections = |message: &Message| {
                let out = delivered(message, None);
                let range = scan(&out).unwrap().message_annotations.unwrap();
                out[range.start as usize..range.end as usize].to_vec()
            };
            assert_eq!(sections(read), sections(sent));
        }
        assert!(entries.message().is_none());
    }

    /// Tests that there is a header only if a field is set, and that it has no other fields.
    #[test]
    fn entry_headers_have_only_lasting_fields() {
        for durable in [false, true] {
            for priority in [None, Some(0), Some(9)] {
                for ttl_ms in [None, Some(0), Some(300), Some(u64::from(u32::MAX))] {
                    let parts = Parts {
                        wire: Bytes::from_static(PLAIN),
                        durable_header: durable,
                        priority,
                        ttl_ms,
                        ..Parts::default()
                    };
                    let message = Message::new(parts, Arc::new(Route::simple("x", "k")));
                    let data = chunk(&[message.clone(), message]);
                    let header = scan(&data[HEAD..data.len() / 2]).unwrap().header;
                    let has_header = durable || priority.is_some() || ttl_ms.is_some();
                    let durable = Some(durable);
                    let ttl = ttl_ms.map(|ttl_ms| ttl_ms as u32);
                    let expected = Header { durable, priority, ttl, ..Header::default() };
                    assert_eq!(header, has_header.then_some(expected));
                    let fields = if has_header { data[HEAD + 5] } else { 0 };
                    assert_eq!(fields == 3, ttl_ms.is_some(), "nothing but nulls is left off");
                    let mut entries = Entries::new(data);
                    for _ in 0..2 {
                        let read = entries.message().unwrap().unwrap();
                        assert_eq!(
                            (Some(read.durable_header()), read.priority(), read.ttl_ms()),
                            (durable, priority, ttl_ms)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_offset_is_in_the_annotations() {
        for wire in [FULL, PLAIN] {
            let out = delivered(&message(wire, "k"), Some(300));
            let range = scan(&out).unwrap().message_annotations.unwrap();
            let section = &out[range.start as usize..range.end as usize];
            let mut pairs = map_pairs(section).unwrap().map(Result::unwrap);
            let (_, value) = pairs.find(|(key, _)| *key == "x-stream-offset").unwrap();
            assert_eq!(value, b"\x81\x00\x00\x00\x00\x00\x00\x01\x2c");
        }
    }

    #[test]
    fn messages_of_one_route_share_it() {
        let mut entries = Entries::new(chunk(&["a", "a", "ab", "a"].map(|key| message(PLAIN, key))));
        let mut read = || entries.message().unwrap().unwrap().route().clone();
        let (first, second, other) = (read(), read(), read());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((other.key(), read().key()), ("ab", "a"));
    }

    #[test]
    fn a_head_is_reused_only_for_messages_with_the_same_head() {
        let route = Arc::new(Route::simple("x", "k"));
        let with = |durable_header, priority, ttl_ms| {
            let wire = Bytes::from_static(PLAIN);
            let parts = Parts { wire, durable: true, durable_header, priority, ttl_ms, ..Parts::default() };
            Message::new(parts, route.clone())
        };
        let plain = with(true, None, None);
        let mut messages = vec![plain.clone(); 2];
        for other in [with(false, None, None), with(true, Some(0), None), with(true, None, Some(0))] {
            messages.extend([other.clone(), other, plain.clone()]);
        }
        messages.extend([message(FULL, "k").rerouted(route.clone()), plain]);
        let each: Vec<u8> =
            messages.iter().flat_map(|message| chunk(std::slice::from_ref(message))).collect();
        assert_eq!(chunk(&messages), each);
    }

    #[test]
    fn filter_values_are_found() {
        let with = b"\x00\x53\x72\xc1\x1c\x02\xa3\x15x-stream-filter-value\xa1\x02eu\x00\x53\x77\x40";
        assert_eq!(message(with, "k").stream_filter_value(), Some("eu"));
        assert_eq!(message(FULL, "k").stream_filter_value(), None);
        let empty = b"\x00\x53\x72\xc1\x1a\x02\xa3\x15x-stream-filter-value\xa1\x00\x00\x53\x77\x40";
        assert_eq!(message(empty, "k").stream_filter_value(), None, "an empty value is none");
    }

    #[test]
    fn invalid_entries_are_errors() {
        let whole = chunk(&[message(FULL, "k")]);
        for len in 1..whole.len() {
            let mut entries = Entries::new(whole.slice(..len));
            assert_eq!(entries.message(), Some(Err(StoredError::Malformed)), "{len}");
            assert!(entries.message().is_none());
        }
        let mut batch = whole.to_vec();
        batch[0] |= 0x80;
        assert_eq!(Entries::new(batch.into()).skip(), Some(Err(StoredError::Malformed)));
    }
}
