//! Two endpoints in memory, for tests of the whole connection.

use std::io::IoSlice;

use amqp091::{Config, Connection, ConnectionStartOk, Event, Fault, Secret, State, Table};
use bytes::Bytes;

/// The limits of a server, as they are by default.
pub(crate) const CONFIG: Config = Config {
    channel_max: 2047,
    frame_max: 131_072,
    initial_frame_max: 8192,
    heartbeat_s: 60,
    max_message_size: 1_000_000,
    incomplete_bytes_max: 2_000_000,
};

/// Frames of this many bytes are passed to the endpoint in a buffer of their own.
pub(crate) const LARGE: usize = 500;

/// Returns the bytes that an endpoint wants to write, and removes them.
pub(crate) fn written(endpoint: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while endpoint.output_len() > 0 {
        let mut slices = [IoSlice::new(&[]); 8];
        let n = endpoint.output().slices(&mut slices);
        let before = bytes.len();
        slices[..n].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let taken = bytes.len() - before;
        endpoint.output().advance(taken);
    }
    bytes
}

/// Reads from a socket as a shard does: frames that are incomplete are kept, large ones get a buffer of their own.
#[derive(Default)]
pub(crate) struct Socket {
    kept: Vec<u8>,
}

impl Socket {
    /// Passes bytes to the endpoint, and each event or fault to `handle`. After a fault, the endpoint is told to fail.
    pub(crate) fn read(
        &mut self,
        endpoint: &mut Connection,
        bytes: &[u8],
        handle: &mut dyn FnMut(&mut Connection, Result<Event<'_>, Fault>),
    ) {
        self.kept.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.kept);
        let mut rest = &input[..];
        let mut faults = 0;
        while !rest.is_empty() {
            let (used, result) = endpoint.handle_input(rest, LARGE, 0);
            assert!(used <= rest.len());
            let failed = result.is_err();
            pass(endpoint, result, handle);
            faults += usize::from(failed);
            assert!(faults < input.len() + 2, "an endpoint fails without end");
            if used > 0 || failed {
                rest = &rest[used..];
                continue;
            }
            match endpoint.frame_len(rest) {
                Ok(Some(len)) if len <= rest.len() => {
                    let frame = Bytes::copy_from_slice(&rest[..len]);
                    rest = &rest[len..];
                    let result = endpoint.handle_frame(&frame, 0);
                    pass(endpoint, result, handle);
                }
                Ok(_) => break,
                Err(fault) => panic!("a fault that handle_input did not report: {fault:?}"),
            }
        }
        self.kept = rest.to_vec();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

fn pass(
    endpoint: &mut Connection,
    result: Result<Option<Event<'_>>, Fault>,
    handle: &mut dyn FnMut(&mut Connection, Result<Event<'_>, Fault>),
) {
    match result {
        Ok(Some(event)) => handle(endpoint, Ok(event)),
        Ok(None) => {}
        Err(fault) => {
            endpoint.fail(&fault);
            handle(endpoint, Err(fault));
        }
    }
}

/// Answers the events of the handshake. Does nothing for all others.
pub(crate) fn shake_hands(endpoint: &mut Connection, event: &Event<'_>, server: bool) {
    match event {
        Event::HeaderExchanged => endpoint.start("PLAIN AMQPLAIN", Table::EMPTY),
        Event::Start(start) => {
            assert_eq!(start.mechanisms, b"PLAIN AMQPLAIN");
            let response = Secret::new(b"\0guest\0guest");
            let locale = "en_US";
            endpoint.start_ok(ConnectionStartOk {
                mechanism: "PLAIN",
                response,
                locale,
                ..Default::default()
            });
        }
        Event::StartOk(start_ok) => match start_ok.response.expose() {
            b"\0guest\0guest" => endpoint.secure(b"who?"),
            other => panic!("{other:?}"),
        },
        Event::Secure(challenge) => endpoint.secure_ok(Secret::new(challenge)),
        Event::SecureOk(response) => {
            assert_eq!(response.expose(), b"who?");
            endpoint.tune();
        }
        Event::Tuned if !server => endpoint.open("/"),
        Event::Open(vhost) => {
            assert_eq!(*vhost, "/");
            endpoint.open_ok();
        }
        _ => {}
    }
}

/// Returns a client and a server that are connected, with these channels open, and what the client has written.
pub(crate) fn connected(
    client: Config,
    server: Config,
    channels: &[u16],
) -> (Connection, Connection, Vec<u8>) {
    let mut ends = [Connection::client(client, 0), Connection::server(server, 0)];
    let mut sockets = [Socket::default(), Socket::default()];
    let mut sent = Vec::new();
    let mut opened = false;
    loop {
        let mut quiet = true;
        for from in [0, 1] {
            let bytes = written(&mut ends[from]);
            quiet &= bytes.is_empty();
            if from == 0 {
                sent.extend_from_slice(&bytes);
            }
            let to = 1 - from;
            sockets[to].read(&mut ends[to], &bytes, &mut |endpoint, event| {
                shake_hands(endpoint, &event.expect("no fault"), to == 1);
            });
        }
        if quiet && opened {
            break;
        }
        if quiet {
            opened = true;
            assert_eq!([ends[0].state(), ends[1].state()], [State::Opened; 2]);
            assert!(channels.iter().all(|channel| ends[0].open_channel(*channel)));
        }
    }
    assert!(channels.iter().all(|c| ends.iter().all(|end| end.channel_is_open(*c))));
    let [client, server] = ends;
    (client, server, sent)
}

/// Returns a text that says all about an event. Contents look the same whether they are borrowed or assembled.
pub(crate) fn shown(event: &Result<Event<'_>, Fault>) -> String {
    match event {
        Ok(Event::Content { channel, content }) => {
            let method = (content.publish(), content.deliver(), content.get_ok(), content.returned());
            format!("{channel} {method:?} {:?} {:?}", &content.properties[..], &content.payload[..])
        }
        other => format!("{other:?}"),
    }
}
