//! Describes the broker's methods of AMQP 0.9.1 in the notation of a page. A content is one line.

use amqp10::{Map, Symbol, Value};
use bytes::Bytes;

use super::generated::{METHODS, PROPERTIES};
use super::spec::{Argument, Kind, Method};
use super::values::{Reader, text_or_binary};
use super::{BODY, END, HEADER, HEARTBEAT, METHOD, OVERHEAD, PROTOCOL_HEADERS, Track, usual_channel};
use crate::fields::{Seen, Words};

/// The bytes before the payload of a frame.
const HEAD: usize = 7;

/// A method whose content has not arrived completely.
#[derive(Debug)]
pub(crate) struct Partial {
    name: &'static str,
    words: Vec<crate::text::Token>,
    /// The missing bytes of the body. `None` before the header.
    missing: Option<u64>,
    body: Vec<u8>,
    frames: u64,
}

/// The smallest frame-max that RabbitMQ accepts.
const LONG_HEADERS_FROM: usize = 8192;

/// Removes frames from the input until they are one line, and describes them. It panics if the broker breaks a rule of the
/// protocol.
pub(crate) fn take(input: &mut Vec<u8>, track: &mut Track) -> Option<Seen> {
    loop {
        if input.len() > HEAD && input.starts_with(b"AMQP") {
            let header: Vec<u8> = input.drain(..HEAD + 1).collect();
            let known = PROTOCOL_HEADERS.iter().find(|(_, known)| header == known);
            let mut words = Words::default();
            match known {
                Some((name, _)) => words.must(name, true),
                None => words.must("other", Bytes::from(header)),
            }
            return Some(Seen { name: "header".into(), tokens: words.0 });
        }
        let [kind, c0, c1, s0, s1, s2, s3] = *input.first_chunk::<HEAD>()?;
        let channel = u16::from_be_bytes([c0, c1]);
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        assert!(input.len() >= size + OVERHEAD, "the broker writes whole frames");
        // Properties cannot be split.
        // A client of RabbitMQ takes content headers of any size.
        let is_long_header = kind == HEADER && track.frame_max >= LONG_HEADERS_FROM;
        let is_small = is_long_header || size + OVERHEAD <= track.frame_max;
        assert!(is_small, "a frame with {size} bytes of payload is too large");
        let frame: Vec<u8> = input.drain(..size + OVERHEAD).collect();
        assert_eq!(frame.last(), Some(&END), "a frame without its last octet");
        let payload = Bytes::from(frame).slice(HEAD..HEAD + size);
        if let Some(seen) = handle(kind, channel, payload, track) {
            return Some(seen);
        }
    }
}

/// Handles one frame. Returns a line if it is complete with it.
fn handle(kind: u8, channel: u16, payload: Bytes, track: &mut Track) -> Option<Seen> {
    let (mut reader, partial) = (Reader(payload), track.partial.remove(&channel));
    let partial = match (kind, partial) {
        (METHOD, None) => {
            let (class, number) = (reader.short(), reader.short());
            let method = METHODS.iter().find(|method| method.ids == (class, number));
            let method =
                method.unwrap_or_else(|| panic!("the broker sends the unknown method {class}.{number}"));
            let words = arguments(method, channel, &mut reader);
            assert!(reader.is_empty(), "{} has more octets than arguments", method.name);
            if !method.has_content {
                return Some(Seen { name: method.name.into(), tokens: words.0 });
            }
            Partial { name: method.name, words: words.0, missing: None, body: Vec::new(), frames: 0 }
        }
        (HEADER, Some(mut partial)) if partial.missing.is_none() => {
            assert_eq!((reader.short(), reader.short()), (60, 0), "class and weight of a content header");
            partial.missing = Some(reader.longlong());
            let mut words = Words(std::mem::take(&mut partial.words));
            properties(&mut reader, &mut words);
            partial.words = words.0;
            partial
        }
        (BODY, Some(mut partial)) => {
            let missing = partial.missing.expect("a body follows its header");
            partial.missing = missing.checked_sub(reader.0.len() as u64);
            assert!(partial.missing.is_some(), "a body is longer than its header says");
            partial.body.extend_from_slice(&reader.0);
            partial.frames += 1;
            partial
        }
        (HEARTBEAT, None) if channel == 0 => {
            return Some(Seen { name: "heartbeat".into(), tokens: Vec::new() });
        }
        (kind, partial) => panic!("a frame of type {kind} on channel {channel} while {partial:?}"),
    };
    if partial.missing != Some(0) {
        track.partial.insert(channel, partial);
        return None;
    }
    let mut words = Words(partial.words);
    words.must("body", text_or_binary(partial.body.into()));
    words.may("frames", partial.frames);
    Some(Seen { name: partial.name.into(), tokens: words.0 })
}

/// Describes the arguments of a method. A page must mention bits that are set, numbers that are not zero, and the texts
/// for people. The class and the number of the method that has failed are the token `of`.
fn arguments(method: &Method, channel: u16, reader: &mut Reader) -> Words {
    let mut words = Words::default();
    if channel != usual_channel(method.name) {
        words.must("ch", u32::from(channel));
    }
    // What a server says about itself and its limits.
    let is_greeting = matches!(method.name, "connection.start" | "connection.tune");
    let (mut bits, mut bit) = (0, 0);
    let mut failed = (0, 0);
    for argument in method.arguments {
        if argument.kind == Kind::Bit {
            bits = if bit == 0 { reader.octet() } else { bits };
            words.flag(argument.name, bits & 1 << bit != 0);
            bit += 1;
            continue;
        }
        bit = 0;
        let value = field(argument, reader);
        match (argument.name, value.as_u64()) {
            ("class-id", Some(id)) => failed.0 = id as u16,
            ("method-id", Some(id)) => failed.1 = id as u16,
            ("reply-text" | "reason", _) => words.must(argument.name, value),
            (name, number) => words.put(name, value, !is_greeting && number.is_some_and(|number| number > 0)),
        }
    }
    if failed != (0, 0) {
        let known = METHODS.iter().find(|method| method.ids == failed);
        let name =
            known.map_or(format!("unknown-{}-{}", failed.0, failed.1), |method| method.name.to_owned());
        words.must("of", Symbol::from(name));
    }
    words
}

fn field(argument: &Argument, reader: &mut Reader) -> Value {
    match argument.kind {
        Kind::Bit => Value::Null,
        Kind::Octet => Value::Ubyte(reader.octet()),
        Kind::Short => Value::Ushort(reader.short()),
        Kind::Long => Value::Uint(reader.long()),
        Kind::LongLong => Value::Ulong(reader.longlong()),
        Kind::ShortString => reader.short_string(),
        Kind::LongString => text_or_binary(reader.long_octets()),
        Kind::Table => Value::Map(reader.table()),
    }
}

/// Describes the properties, their headers, and the whole list as octets.
fn properties(reader: &mut Reader, words: &mut Words) {
    words.may("list", reader.0.clone());
    let flags = reader.short();
    let (mut props, mut headers) = (Map::new(), None);
    for (at, property) in PROPERTIES.iter().enumerate() {
        if flags & 1 << (15 - at) != 0 {
            match field(property, reader) {
                Value::Map(map) => headers = Some(map),
                value => props.insert(Symbol::from_static(property.name), value),
            }
        }
    }
    assert!(reader.is_empty() && flags & 0b11 == 0, "the properties are those of the class basic");
    words.may("props", props);
    words.maybe("headers", headers, false);
}
