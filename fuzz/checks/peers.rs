//! Plays anything that three clients can send, in any order. Time passes, sockets break, and the broker is
//! killed in between. Shared by the fuzz target and the test that replays the corpus.

use amqp10::frame::{FrameKind, HEADER_SIZE, parse_header};
use amqp10::sasl::Secret;
use amqp10::{Begin, Encode, Open, Performative, SaslFrame, SaslInit, Symbol};
use broker::catalog::Arguments;
use bytes::{BufMut, BytesMut};
use conformance::{Setup, World};

/// Limits the time that an input takes.
const STEPS_MAX: usize = 200;

const NAMES: [&str; 3] = ["A", "B", "C"];

/// The broker's largest frame.
const MAX_FRAME_SIZE: u32 = 1 << 20;

/// Plays `data` as a script. An odd first octet means a broker of two shards. Each step begins with an octet.
/// Its two lowest bits name the client. The next two say what follows:
///
/// - octets preceded by their length,
/// - the body of an AMQP frame, preceded by its channel and length,
/// - the same, and then the broker acts,
/// - nothing: the broker acts.
///
/// Client 3 is the world: time passes, a socket breaks, a socket breaks before its last octets are handled,
/// or the broker is killed. Nothing may panic, and all output of the broker must consist of frames.
pub fn check(data: &[u8]) {
    let mut script = Script(data);
    let shards = 1 + (script.octet().unwrap_or(0) & 1);
    let mut world = World::new(Setup { shards, ..Setup::default() });
    world.declare_queue("q", Arguments::new(), false).expect("a new queue");
    let stream = [("x-queue-type".into(), "stream".into())].into_iter().collect();
    world.declare_queue("s", stream, false).expect("a new stream");
    for _ in 0..STEPS_MAX {
        let Some(octet) = script.octet() else { break };
        let (who, what) = (usize::from(octet & 3), octet >> 2 & 3);
        match NAMES.get(who) {
            None => world_step(&mut world, what, &mut script),
            Some(name) => client(&mut world, (name, who), what, &mut script),
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
fn client(world: &mut World, (name, number): (&str, usize), what: u8, script: &mut Script<'_>) {
    if !world.clients.contains_key(name) {
        world.connect(name, number, ([127, 0, 0, 1], 1).into());
        let greeting = if what == 0 { Vec::new() } else { greeting() };
        world.raw(name, &greeting);
    }
    match what {
        0 => world.input(name, script.octets()),
        1 | 2 => {
            let channel = u16::from(script.octet().unwrap_or(0) & 3);
            world.input(name, &frame(FrameKind::Amqp, channel, |out| out.put_slice(script.octets())));
            if what == 2 {
                listen(world);
            }
        }
        _ => listen(world),
    }
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
        let mut rest = &heard[..];
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
}
