//! Plays anything that three clients can send, in any order. Time passes, sockets break, and the broker is
//! killed in between. Shared by the fuzz target and the test that replays the corpus.

use amqp10::frame::{FrameKind, HEADER_SIZE, parse_header};
use amqp10::sasl::Secret;
use amqp10::{Begin, Encode, Open, Performative, SaslFrame, SaslInit, Symbol};
use amqp091::frame::{FrameHeader, HEADER_SIZE as HEADER_SIZE_091, PROTOCOL_HEADER};
use amqp091::{
    ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, FRAME_BODY, FRAME_END, FRAME_HEADER,
    FRAME_HEARTBEAT, FRAME_METHOD, Method, Properties,
};
use bytes::{BufMut, BytesMut};
use catalog::Arguments;
use conformance::{Setup, World};

/// Limits the time that an input takes.
const STEPS_MAX: usize = 200;

const NAMES: [&str; 3] = ["A", "B", "C"];

/// The broker's largest frame.
const MAX_FRAME_SIZE: u32 = 1 << 20;

/// Plays `data` as a script. An odd first octet means a broker of two shards. Its next three bits say which clients speak
/// AMQP 0.9.1; the others speak AMQP 1.0. Each step begins with an octet. Its two lowest bits name the client. The next
/// two say what follows:
///
/// - octets preceded by their length,
/// - the body of an AMQP frame, preceded by its channel and length; for AMQP 0.9.1, the bits above the channel are the type
///   of the frame,
/// - the same, and then the broker acts,
/// - nothing: the broker acts.
///
/// Client 3 is the world: time passes, a socket breaks, a socket breaks before its last octets are handled,
/// or the broker is killed. Nothing may panic, and all output of the broker must consist of frames.
pub fn check(data: &[u8]) {
    let mut script = Script(data);
    let first = script.octet().unwrap_or(0);
    let shards = 1 + (first & 1);
    let mut world = World::new(Setup { shards, ..Setup::default() });
    world.declare_queue("q", Arguments::new(), false).expect("a new queue");
    let stream = [("x-queue-type".into(), "stream".into())].into_iter().collect();
    world.declare_queue("s", stream, false).expect("a new stream");
    for _ in 0..STEPS_MAX {
        let Some(octet) = script.octet() else { break };
        let (who, what) = (usize::from(octet & 3), octet >> 2 & 3);
        match NAMES.get(who) {
            None => world_step(&mut world, what, &mut script),
            Some(name) => match first >> (1 + who) & 1 {
                0 => client(&mut world, (name, who), what, &mut script, greeting, body_10),
                _ => client(&mut world, (name, who), what, &mut script, greeting_091, body_091),
            },
        }
    }
    listen(&mut world);
    world.restart();
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns octets that are preceded by their length, or whatever is left at the end.
    fn octets(&mut self) -> &'a [u8] {
        let len = usize::from(self.octet().unwrap_or(0)) << 8 | usize::from(self.octet().unwrap_or(0));
        let (octets, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        octets
    }
}

fn world_step(world: &mut World, what: u8, script: &mut Script<'_>) {
    let octet = script.octet().unwrap_or(0);
    let name = NAMES[usize::from(octet) % NAMES.len()];
    match what {
        0 => world.pass(u64::from(octet) * 100),
        1 => world.drop_client(name),
        2 => world.cut(name),
        _ => world.restart(),
    }
}

/// Plays a step of a client. The first step connects. Unless that step sends plain octets, the client also
/// logs in and begins a session.
fn client(
    world: &mut World,
    (name, number): (&str, usize),
    what: u8,
    script: &mut Script<'_>,
    greeting: fn() -> Vec<u8>,
    body: fn(&mut Script<'_>) -> Vec<u8>,
) {
    if !world.clients.contains_key(name) {
        world.connect(name, number, ([127, 0, 0, 1], 1).into());
        let greeting = if what == 0 { Vec::new() } else { greeting() };
        world.raw(name, &greeting);
    }
    match what {
        0 => world.input(name, script.octets()),
        1 | 2 => {
            world.input(name, &body(script));
            if what == 2 {
                listen(world);
            }
        }
        _ => listen(world),
    }
}

/// Returns a frame of AMQP 1.0 with a body from the script.
fn body_10(script: &mut Script<'_>) -> Vec<u8> {
    let channel = u16::from(script.octet().unwrap_or(0) & 3);
    frame(FrameKind::Amqp, channel, |out| out.put_slice(script.octets()))
}

/// Returns a frame of AMQP 0.9.1 with a payload from the script.
fn body_091(script: &mut Script<'_>) -> Vec<u8> {
    let octet = script.octet().unwrap_or(0);
    let kind = [FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT][usize::from(octet >> 2 & 3)];
    frame_091(kind, u16::from(octet & 3), script.octets())
}

/// Returns what a client says until its channels 1 and 2 are open. It does not wait for answers.
fn greeting_091() -> Vec<u8> {
    let start_ok = ConnectionStartOk {
        mechanism: "PLAIN",
        response: amqp091::Secret::new(b"\0guest\0guest"),
        locale: "en_US",
        ..ConnectionStartOk::default()
    };
    let methods = [
        (0, Method::ConnectionStartOk(start_ok)),
        (0, Method::ConnectionTuneOk(ConnectionTuneOk::default())),
        (0, Method::ConnectionOpen(ConnectionOpen { virtual_host: "/" })),
        (1, Method::ChannelOpen(amqp091::ChannelOpen)),
        (2, Method::ChannelOpen(amqp091::ChannelOpen)),
    ];
    let mut said = PROTOCOL_HEADER.to_vec();
    for (channel, method) in methods {
        let mut payload = BytesMut::new();
        method.put(&mut payload);
        said.extend(frame_091(FRAME_METHOD, channel, &payload));
    }
    said
}

fn frame_091(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() as u32;
    [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[FRAME_END]].concat()
}

fn greeting() -> Vec<u8> {
    let mut init = SaslInit::new(Symbol::from_static("PLAIN"));
    init.initial_response = Some(Secret::new("\0guest\0guest"));
    let open = Open { container_id: "c".into(), ..Open::default() };
    let begin = Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() };
    let mut said = b"AMQP\x03\x01\x00\x00".to_vec();
    said.extend(frame(FrameKind::Sasl, 0, |out| SaslFrame::Init(init).encode(out)));
    said.extend(b"AMQP\x00\x01\x00\x00");
    said.extend(frame(FrameKind::Amqp, 0, |out| Performative::Open(Box::new(open)).encode(out)));
    said.extend(frame(FrameKind::Amqp, 0, |out| Performative::Begin(begin).encode(out)));
    said
}

fn frame(kind: FrameKind, channel: u16, body: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut octets = BytesMut::new();
    body(&mut octets);
    let size = (HEADER_SIZE + octets.len()) as u32;
    let kind = u8::from(matches!(kind, FrameKind::Sasl));
    [&size.to_be_bytes()[..], &[2, kind], &channel.to_be_bytes(), &octets].concat()
}

/// Lets the broker act. The clients must receive protocol headers and complete, valid frames only.
fn listen(world: &mut World) {
    world.settle();
    for name in NAMES {
        let heard = world.received(name);
        // A client may have begun with the header of either protocol, and the broker answers in that one. All frames of AMQP
        // 0.9.1 begin with a small number, the type. A frame of AMQP 1.0 begins with its size, which is below 16 MiB.
        match heard.first() {
            Some(&(FRAME_METHOD..=FRAME_HEARTBEAT)) => check_frames_091(&heard),
            _ => check_frames_10(&heard),
        }
    }
}

fn check_frames_10(heard: &[u8]) {
    let mut rest = heard;
    while let Some(header) = rest.first_chunk::<HEADER_SIZE>() {
        if header.starts_with(b"AMQP") {
            rest = &rest[HEADER_SIZE..];
            continue;
        }
        let header = parse_header(header, MAX_FRAME_SIZE).expect("a header");
        let (frame, behind) = rest.split_at_checked(header.size as usize).expect("a whole frame");
        rest = behind;
        let body = &frame[header.body_offset()..];
        match header.kind {
            FrameKind::Sasl => _ = SaslFrame::decode(body).expect("a SASL frame"),
            FrameKind::Amqp if body.is_empty() => {}
            FrameKind::Amqp => _ = Performative::decode(body).expect("a performative"),
        }
    }
    assert!(rest.is_empty(), "a part of a frame");
}

fn check_frames_091(heard: &[u8]) {
    let mut rest = heard;
    while let Some(header) = FrameHeader::parse(rest) {
        let (frame, behind) = rest.split_at_checked(header.frame_len()).expect("a whole frame");
        rest = behind;
        let payload = &frame[HEADER_SIZE_091..frame.len() - 1];
        assert_eq!(frame.last(), Some(&FRAME_END));
        match header.kind {
            FRAME_METHOD => {
                let ([c0, c1, m0, m1], arguments) = payload.split_first_chunk().expect("class and method");
                let (class, method) = (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]));
                Method::parse(class, method, arguments).expect("a method");
            }
            FRAME_HEADER => {
                // Class, weight and the size of the body are before the properties.
                let properties = payload.get(12..).expect("a content header");
                Properties::parse(properties).expect("properties");
            }
            FRAME_BODY => assert!(!payload.is_empty()),
            FRAME_HEARTBEAT => assert!(payload.is_empty()),
            kind => panic!("a frame of type {kind}"),
        }
    }
    assert!(rest.is_empty(), "a part of a frame");
}
