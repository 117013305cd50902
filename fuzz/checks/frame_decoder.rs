//! Decodes any bytes as a stream of frames. Shared by the fuzz target and the test that replays the corpus.

use amqp10::frame::{FrameKind, HEADER_SIZE, parse_header};
use amqp10::{Encode, Performative, Reader, SaslFrame};
use bytes::BytesMut;

/// The largest frame accepted, as before OPEN.
const MAX_FRAME_SIZE: u32 = 8192;

/// Decodes frame after frame. A decoded frame must have the same meaning after it is encoded again.
pub fn check(mut data: &[u8]) {
    while let Some(header) = data.first_chunk::<HEADER_SIZE>() {
        let Ok(header) = parse_header(header, MAX_FRAME_SIZE) else { return };
        let Some((frame, rest)) = data.split_at_checked(header.size as usize) else { return };
        data = rest;
        let body = &frame[header.body_offset()..];
        check_value(body);
        match header.kind {
            FrameKind::Amqp => check_performative(body),
            FrameKind::Sasl => check_sasl(body),
        }
    }
}

fn check_value(body: &[u8]) {
    let (mut read, mut skip) = (Reader::new(body), Reader::new(body));
    let Ok(value) = read.read_value() else { return };
    assert_eq!(skip.skip_value(), Ok(()));
    assert_eq!(skip.position(), read.position());
    let mut out = BytesMut::new();
    value.encode(&mut out);
    assert!(out.len() <= read.position());
    assert_eq!(Reader::new(&out).read_value(), Ok(value));
}

fn check_performative(body: &[u8]) {
    let Ok((performative, used)) = Performative::decode(body) else { return };
    assert!(used <= body.len());
    let mut out = BytesMut::new();
    performative.encode(&mut out);
    assert_eq!(Performative::decode(&out), Ok((performative, out.len())));
}

fn check_sasl(body: &[u8]) {
    let Ok(frame) = SaslFrame::decode(body) else { return };
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    assert_eq!(SaslFrame::decode(&out), Ok(frame));
}
