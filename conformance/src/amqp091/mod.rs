//! The methods of AMQP 0.9.1 in the notation of a page.
//!
//! This is a codec of its own, made from the names and types of the specification. So a mistake of the broker's codec is
//! not hidden by the same mistake here.

mod generated;
pub(crate) mod receive;
pub(crate) mod send;
mod spec;
mod values;

use std::collections::BTreeMap;

/// The type of a frame with a method.
const METHOD: u8 = 1;
/// The type of a frame with a content header.
const HEADER: u8 = 2;
/// The type of a frame with a part of a body.
const BODY: u8 = 3;
/// The type of a heartbeat.
const HEARTBEAT: u8 = 8;
/// The last octet of every frame.
const END: u8 = 0xce;
/// The octets of a frame without payload.
const OVERHEAD: usize = 8;

/// The protocol headers of AMQP 0.9.1, and of AMQP 0.9 and 0.8.
const PROTOCOL_HEADERS: [(&str, [u8; 8]); 3] = [
    ("0-9-1", *b"AMQP\x00\x00\x09\x01"),
    ("0-9", *b"AMQP\x01\x01\x00\x09"),
    ("0-8", *b"AMQP\x01\x01\x08\x00"),
];

/// What a client of a page knows about its connection.
#[derive(Debug)]
pub struct Track {
    /// The largest frame, in bytes, as the client has said in `connection.tune-ok`.
    frame_max: usize,
    /// The contents that have not arrived completely, by their channels.
    partial: BTreeMap<u16, receive::Partial>,
}

impl Default for Track {
    fn default() -> Self {
        Self { frame_max: 131_072, partial: BTreeMap::new() }
    }
}

/// Returns the channel of a line that names none: 0 for methods of the connection, else 1.
fn usual_channel(line: &str) -> u16 {
    u16::from(!line.starts_with("connection."))
}
