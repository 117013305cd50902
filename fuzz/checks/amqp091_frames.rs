//! Plays any bytes to one end of an AMQP 0.9.1 connection. Shared by the fuzz target and the test that replays the corpus.

use amqp091::{
    BasicAck, Config, Connection, ConnectionStartOk, Event, Fault, Method, Properties, State, Table, Tuned,
};
use bytes::{Buf, Bytes};

const CONFIG: Config = Config {
    channel_max: 7,
    frame_max: 8192,
    initial_frame_max: 8192,
    heartbeat_s: 60,
    max_message_size: 20_000,
    incomplete_bytes_max: 30_000,
};

/// The time when the input arrives, in milliseconds.
const NOW_MS: u64 = 1000;

/// The first octet says who reads the rest: its lowest bit chooses server or client, the next whether the connection is
/// open already. The second octet is the size of the pieces that arrive, and the third, in units of 64 bytes, that of a
/// large frame. Nothing may panic, the events must not depend on the pieces, and the output must consist of frames.
pub fn check(data: &[u8]) {
    let [how, piece, large, input @ ..] = data else { return };
    let (server, open) = (how & 1 == 0, how & 2 != 0);
    let large = usize::from(*large) * 64 + 1;
    let whole = Side::new(server, open).play(input, input.len().max(1), usize::MAX);
    let pieces = Side::new(server, open).play(input, usize::from(*piece).max(1), large);
    assert_eq!(whole, pieces);
}

struct Side {
    connection: Connection,
    server: bool,
    events: Vec<String>,
}

impl Side {
    fn new(server: bool, open: bool) -> Self {
        let new = if server { Connection::server } else { Connection::client };
        let mut side = Self { connection: new(CONFIG, 0), server, events: Vec::new() };
        if open {
            side.handle(&greeting(server), usize::MAX);
            assert_eq!((side.connection.state(), side.connection.channel_is_open(1)), (State::Opened, true));
            side.events.clear();
        }
        side
    }

    /// Reads the input in pieces. Returns the events and the output.
    fn play(mut self, input: &[u8], piece: usize, large: usize) -> (Vec<String>, Vec<u8>) {
        let mut kept = Vec::new();
        for piece in input.chunks(piece) {
            kept.extend_from_slice(piece);
            let used = self.handle(&kept, large);
            kept.drain(..used);
        }
        let connection = &mut self.connection;
        assert!(connection.incomplete_bytes() <= CONFIG.incomplete_bytes_max);
        connection.handle_heartbeats(&kept, NOW_MS);
        assert_eq!(connection.handle_timeout(NOW_MS), Ok(()), "the shortest silence is two seconds");
        assert!(connection.next_deadline().is_none_or(|at| at > NOW_MS));
        assert!(connection.state() != State::Closed || connection.incomplete_bytes() == 0);
        let Tuned { channel_max, frame_max, .. } = connection.tuned();
        assert!(channel_max > 0 && (!self.server || (4096..=CONFIG.frame_max).contains(&frame_max)));
        let output = output(connection);
        check_frames(&output);
        (self.events, output)
    }

    /// Handles what is at the start of `input`. Returns the number of bytes.
    fn handle(&mut self, input: &[u8], large: usize) -> usize {
        let mut rest = input;
        loop {
            let (used, result) = self.connection.handle_input(rest, large, NOW_MS);
            rest = &rest[used..];
            let failed = result.is_err();
            let closed = self.connection.state() == State::Closed;
            self.finish(result);
            if used > 0 || failed {
                // A connection that has failed twice is closed. Otherwise a fault without a length would repeat.
                assert!(!(failed && closed));
                continue;
            }
            match self.connection.frame_len(rest) {
                Ok(Some(len)) if len <= rest.len() => {
                    let frame = Bytes::copy_from_slice(&rest[..len]);
                    rest = &rest[len..];
                    let result = self.connection.handle_frame(&frame, NOW_MS);
                    self.finish(result);
                }
                Ok(_) => return input.len() - rest.len(),
                Err(fault) => panic!("not reported by handle_input: {fault:?}"),
            }
        }
    }

    /// Answers an event as an owner of the connection does.
    fn finish(&mut self, result: Result<Option<Event<'_>>, Fault>) {
        let event = match result {
            Ok(None) => return,
            Ok(Some(event)) => event,
            Err(fault) => {
                self.events.push(format!("{fault:?}"));
                return self.connection.fail(&fault);
            }
        };
        let connection = &mut self.connection;
        match event {
            Event::HeaderExchanged => connection.start("PLAIN AMQPLAIN", Table::EMPTY),
            Event::Start(_) => connection.start_ok(ConnectionStartOk::default()),
            Event::StartOk(ref start_ok) if start_ok.mechanism == "AMQPLAIN" => {
                _ = amqp091::sasl::parse_amqplain(start_ok.response.expose());
                connection.secure(b"?");
            }
            Event::StartOk(_) | Event::SecureOk(_) => connection.tune(),
            Event::Tuned if !self.server => connection.open("/"),
            Event::Open(_) => connection.open_ok(),
            Event::Opened => assert!(connection.open_channel(1)),
            Event::Close { .. } => connection.close_ok(),
            Event::ChannelClose { channel, .. } => connection.channel_close_ok(channel),
            Event::ChannelOpened(channel) => assert!(connection.channel_is_open(channel)),
            Event::Content { channel, ref content } => {
                _ = Properties::parse(&content.properties);
                let whole = content.assembled();
                let parts = [&content.properties[..], &content.payload[..]].concat();
                assert!(whole.is_none_or(|whole| whole == parts));
                connection.send(channel, &Method::BasicAck(BasicAck { delivery_tag: 1, multiple: false }));
                let method = (content.publish(), content.deliver(), content.get_ok(), content.returned());
                self.events.push(format!("{channel} {method:?} {parts:?}"));
                return;
            }
            _ => {}
        }
        self.events.push(format!("{event:?}"));
    }
}

/// Returns what the other role says until channel 1 is open.
fn greeting(to_server: bool) -> Vec<u8> {
    let mut client = Side { connection: Connection::client(CONFIG, 0), server: false, events: Vec::new() };
    let mut server = Side { connection: Connection::server(CONFIG, 0), server: true, events: Vec::new() };
    let mut said = Vec::new();
    while !client.connection.channel_is_open(1) {
        let by_client = output(&mut client.connection);
        server.handle(&by_client, usize::MAX);
        let by_server = output(&mut server.connection);
        client.handle(&by_server, usize::MAX);
        said.extend_from_slice(if to_server { &by_client } else { &by_server });
    }
    said
}

/// Returns what is to be written.
fn output(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while connection.output_len() > 0 {
        let mut slices = [std::io::IoSlice::new(&[])];
        connection.output().slices(&mut slices);
        let len = slices[0].len();
        bytes.extend_from_slice(&slices[0]);
        connection.output().advance(len);
    }
    bytes
}

/// Checks that the bytes are protocol headers and whole frames, and that each method can be read.
fn check_frames(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        if bytes.starts_with(b"AMQP") {
            bytes.advance(8);
            continue;
        }
        let (kind, _channel, size) = (bytes.get_u8(), bytes.get_u16(), bytes.get_u32() as usize);
        let (mut payload, rest) = bytes.split_at(size);
        assert_eq!(rest[0], 0xce);
        bytes = &rest[1..];
        if kind == 1 {
            let (class, method) = (payload.get_u16(), payload.get_u16());
            Method::parse(class, method, payload).expect("a method");
        }
    }
}
