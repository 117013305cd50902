//! The steps of a message in AMQP 0.9.1: a publish and a delivery, each as three frames (method, header, body).

use std::hint::black_box;
use std::io::IoSlice;

use amqp091::{
    BasicAck, BasicConsume, BasicDeliver, BasicPublish, BasicQos, ChannelOpen, Config, ConfirmSelect,
    Connection, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, Event, FRAME_END, FRAME_METHOD, Method,
    Output, QueueDeclare, QueueDelete, Secret, Table,
};
use bytes::{Bytes, BytesMut};

/// The body of a message.
const PAYLOAD: Bytes = Bytes::from_static(b"xxxxxxxxxxxx");

/// The property list of a durable message: the delivery mode alone.
const PROPERTIES: &[u8] = b"\x10\x00\x02";

const PUBLISH: BasicPublish<'_> =
    BasicPublish { exchange: "", routing_key: "bench-classic", mandatory: false, immediate: false };

const DELIVER: BasicDeliver<'_> = BasicDeliver {
    consumer_tag: "ctag1.17c6af5e",
    delivery_tag: 70_000,
    redelivered: false,
    exchange: "",
    routing_key: "bench-classic",
};

/// The size of a frame that is read into a buffer of its own, in bytes.
const LARGE: usize = 16 * 1024;

/// The unwritten bytes above which the output is dropped.
const OUTPUT_MAX: usize = 64 * 1024;

/// Returns what a client sends until its channel is open. It does not wait for answers.
pub(crate) fn hello() -> Vec<u8> {
    let start_ok = ConnectionStartOk {
        mechanism: "PLAIN",
        response: Secret::new(b"\0guest\0guest"),
        locale: "en_US",
        ..ConnectionStartOk::default()
    };
    let mut said = amqp091::frame::PROTOCOL_HEADER.to_vec();
    for (channel, method) in [
        (0, Method::ConnectionStartOk(start_ok)),
        (0, Method::ConnectionTuneOk(ConnectionTuneOk::default())),
        (0, Method::ConnectionOpen(ConnectionOpen { virtual_host: "/" })),
        (1, Method::ChannelOpen(ChannelOpen)),
    ] {
        put_method(&mut said, channel, &method);
    }
    said
}

/// Returns the frame with which a publisher asks for confirms.
pub(crate) fn confirm() -> Vec<u8> {
    let mut said = Vec::new();
    put_method(&mut said, 1, &Method::ConfirmSelect(ConfirmSelect { nowait: false }));
    said
}

/// Returns the frames with which a consumer begins.
pub(crate) fn consume(queue: &str, prefetch_count: u16) -> Vec<u8> {
    let mut said = Vec::new();
    put_method(&mut said, 1, &Method::BasicQos(BasicQos { prefetch_count, ..BasicQos::default() }));
    put_method(&mut said, 1, &Method::BasicConsume(BasicConsume { queue, ..BasicConsume::default() }));
    said
}

/// Returns the frame that declares a durable queue, and the one that deletes it.
pub(crate) fn declare_and_delete(queue: &str) -> [Vec<u8>; 2] {
    let declare = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
    let delete = QueueDelete { queue, ..QueueDelete::default() };
    [Method::QueueDeclare(declare), Method::QueueDelete(delete)].map(|method| {
        let mut said = Vec::new();
        put_method(&mut said, 1, &method);
        said
    })
}

/// Returns the frames of a durable message of 12 bytes to a queue.
pub(crate) fn publish(queue: &str) -> Vec<u8> {
    let (mut client, _) = connected();
    let publish = BasicPublish { routing_key: queue, ..PUBLISH };
    client.send_content(1, &Method::BasicPublish(publish), PROPERTIES, &PAYLOAD, 0);
    written(client.output())
}

/// Appends the frame that acknowledges all deliveries up to this one.
pub(crate) fn put_ack(out: &mut BytesMut, delivery_tag: u64) {
    let mut frame = Vec::new();
    put_method(&mut frame, 1, &Method::BasicAck(BasicAck { delivery_tag, multiple: true }));
    out.extend_from_slice(&frame);
}

fn put_method(out: &mut Vec<u8>, channel: u16, method: &Method<'_>) {
    let mut payload = BytesMut::new();
    method.put(&mut payload);
    out.push(FRAME_METHOD);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(&payload);
    out.push(FRAME_END);
}

/// The server reads a publish.
pub(crate) fn publish_decode() -> Box<dyn FnMut() -> u64> {
    let (mut client, mut server) = connected();
    send_publish(&mut client);
    let input = written(client.output());
    Box::new(move || {
        let (used, event) = server.handle_input(black_box(&input), LARGE, 0);
        let Ok(Some(Event::Content { content, .. })) = event else { panic!("a content") };
        assert!(black_box(content.publish()).is_some() && used == input.len());
        0
    })
}

/// A client writes a publish.
pub(crate) fn publish_encode() -> Box<dyn FnMut() -> u64> {
    let (mut client, _) = connected();
    Box::new(move || encode(&mut client, send_publish))
}

/// The server writes a delivery.
pub(crate) fn deliver_encode() -> Box<dyn FnMut() -> u64> {
    let (_, mut server) = connected();
    Box::new(move || encode(&mut server, send_deliver))
}

/// A client reads a delivery.
pub(crate) fn deliver_decode() -> Box<dyn FnMut() -> u64> {
    let (mut client, mut server) = connected();
    send_deliver(&mut server);
    let input = written(server.output());
    Box::new(move || {
        let (used, event) = client.handle_input(black_box(&input), LARGE, 0);
        let Ok(Some(Event::Content { content, .. })) = event else { panic!("a content") };
        assert!(black_box(content.deliver()).is_some() && used == input.len());
        0
    })
}

fn send_publish(client: &mut Connection) {
    client.send_content(1, &Method::BasicPublish(black_box(PUBLISH)), black_box(PROPERTIES), &PAYLOAD, 0);
}

fn send_deliver(server: &mut Connection) {
    server.send_deliver(1, &black_box(DELIVER), black_box(PROPERTIES), &PAYLOAD, 0);
}

/// Writes one message. Returns its bytes.
fn encode(connection: &mut Connection, send: fn(&mut Connection)) -> u64 {
    let before = connection.output_len();
    if before > OUTPUT_MAX {
        connection.output().advance(before);
    }
    let before = connection.output_len();
    send(connection);
    (connection.output_len() - before) as u64
}

/// Returns a client and a server with an open channel.
fn connected() -> (Connection, Connection) {
    let config = Config {
        channel_max: 2047,
        frame_max: 131_072,
        initial_frame_max: 8192,
        heartbeat_s: 0,
        max_message_size: 16 << 20,
        incomplete_bytes_max: 16 << 20,
    };
    let (mut client, mut server) = (Connection::client(config, 0), Connection::server(config, 0));
    while !client.channel_is_open(1) {
        carry(&mut client, &mut server, false);
        carry(&mut server, &mut client, true);
    }
    (client, server)
}

/// Lets one end read what the other has written, and answer it.
fn carry(from: &mut Connection, to: &mut Connection, to_client: bool) {
    let input = written(from.output());
    let mut rest = &input[..];
    while !rest.is_empty() {
        let (used, event) = to.handle_input(rest, LARGE, 0);
        rest = &rest[used..];
        match event.expect("no fault") {
            Some(Event::HeaderExchanged) => to.start("PLAIN", Table::EMPTY),
            Some(Event::Start(_)) => to.start_ok(ConnectionStartOk::default()),
            Some(Event::StartOk(_)) => to.tune(),
            Some(Event::Tuned) if to_client => to.open("/"),
            Some(Event::Open(_)) => to.open_ok(),
            Some(Event::Opened) => assert!(to.open_channel(1)),
            _ => {}
        }
    }
}

/// Returns the unwritten bytes, and removes them.
fn written(output: &mut Output) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); 4];
    let n = output.slices(&mut slices);
    let bytes: Vec<u8> = slices[..n].iter().flat_map(|slice| slice.iter().copied()).collect();
    output.advance(bytes.len());
    bytes
}
