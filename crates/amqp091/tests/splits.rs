//! Input gives the same events however it is cut into reads.

use crate::wire::{CONFIG, Socket, connected, shake_hands, shown, written};
use amqp091::{
    BasicAck, BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Connection, Method, QueueDeclare, Table,
};
use bytes::Bytes;

/// Returns the events of an endpoint that reads these pieces.
fn events(mut endpoint: Connection, pieces: &[&[u8]], server: bool) -> Vec<String> {
    let (mut socket, mut events) = (Socket::default(), Vec::new());
    for piece in pieces {
        socket.read(&mut endpoint, piece, &mut |endpoint, event| {
            if let Ok(event) = &event {
                shake_hands(endpoint, event, server);
            }
            events.push(shown(&event));
        });
    }
    assert!(socket.is_empty() && endpoint.incomplete_bytes() == 0);
    events
}

fn check(new: &dyn Fn() -> Connection, bytes: &[u8], server: bool, expected: usize) {
    let whole = events(new(), &[bytes], server);
    assert_eq!(whole.len(), expected, "{whole:#?}");
    assert!(whole.iter().all(|event| !event.contains("Err")), "{whole:#?}");
    for at in 0..=bytes.len() {
        let (front, back) = bytes.split_at(at);
        assert_eq!(events(new(), &[front, back], server), whole, "cut at {at}");
    }
    let each: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(events(new(), &each, server), whole);
}

/// Payloads that are empty, small, and in one large frame.
const SIZES: [usize; 3] = [0, 12, 600];

/// The size of a payload that needs two frames of 4096 bytes.
const TWO_FRAMES: usize = 4200;

fn payload(size: usize) -> Bytes {
    (0..size).map(|i| i as u8).collect()
}

#[test]
fn a_server_reads_the_same_from_every_split() {
    let small = amqp091::Config { frame_max: 4096, ..CONFIG };
    let (mut client, _, mut bytes) = connected(small, CONFIG, &[1, 7]);
    let publish =
        BasicPublish { exchange: "amq.topic", routing_key: "a.b", mandatory: true, ..Default::default() };
    for payload in SIZES.map(payload) {
        client.send_content(7, &publish.into(), b"\x10\x00\x02", &payload, 0);
        client.send_content(1, &publish.into(), b"\x00\x00", &payload, payload.len() / 2);
        client.send(1, &BasicAck { delivery_tag: 3, multiple: true }.into());
    }
    client.send_content(1, &publish.into(), b"\x00\x00", &payload(TWO_FRAMES), 0);
    let arguments = Table::from_entries(b"\x05x-maxI\x00\x00\x00\x07");
    client.send(7, &QueueDeclare { queue: "q", durable: true, arguments, ..Default::default() }.into());
    client.close_channel(1, "bye");
    client.close("goodbye");
    bytes.extend_from_slice(&written(&mut client));
    let handshake = 5;
    check(&|| Connection::server(CONFIG, 0), &bytes, true, handshake + 2 + 3 * 3 + 1 + 3);
}

#[test]
fn a_client_reads_the_same_from_every_split() {
    let small = amqp091::Config { frame_max: 4096, ..CONFIG };
    let (_, mut server, _) = connected(small, CONFIG, &[1, 7]);
    let connected_client = || connected(small, CONFIG, &[1, 7]).0;
    for payload in SIZES.map(payload) {
        let deliver =
            BasicDeliver { consumer_tag: "c", delivery_tag: 9, redelivered: true, ..Default::default() };
        let get_ok = BasicGetOk { delivery_tag: 1, routing_key: "k", message_count: 5, ..Default::default() };
        let returned = BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", ..Default::default() };
        for (channel, method) in [(1, Method::from(deliver)), (7, get_ok.into()), (1, returned.into())] {
            server.send_content(channel, &method, b"\x80\x00\x01t", &payload, 0);
        }
        server.send_deliver(1, &deliver, b"\x00\x00", &payload, 0);
    }
    server.send_deliver(7, &BasicDeliver::default(), b"\x00\x00", &payload(TWO_FRAMES), 0);
    server.blocked("low on memory");
    server.unblocked();
    server.update_secret_ok();
    server.close("bye");
    let bytes = written(&mut server);
    check(&connected_client, &bytes, false, 3 * 4 + 1 + 4);
}
