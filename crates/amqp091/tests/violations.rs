//! What a peer does wrong, and what it gets for it: which channel or the connection ends, with which code and text.

use crate::wire::{CONFIG, Socket, connected, shake_hands, shown, written};
use amqp091::{
    BasicDeliver, BasicPublish, ChannelClose, ChannelCloseOk, Config, Connection, ConnectionClose,
    ConnectionCloseOk, Event, Fault, Method, QueueDeclare, State, Table, Tuned,
};
use bytes::{Bytes, BytesMut};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() as u32;
    [&[kind], &channel.to_be_bytes()[..], &size.to_be_bytes(), payload, b"\xce"].concat()
}

fn method(channel: u16, method: impl Into<Method<'static>>) -> Vec<u8> {
    let mut payload = BytesMut::new();
    method.into().put(&mut payload);
    frame(METHOD, channel, &payload)
}

fn publish(channel: u16) -> Vec<u8> {
    method(channel, BasicPublish { routing_key: "q", ..BasicPublish::default() })
}

/// A content header of class basic, without properties.
fn header(channel: u16, body_size: u64) -> Vec<u8> {
    frame(HEADER, channel, &[b"\x00\x3c\x00\x00", &body_size.to_be_bytes()[..], b"\x00\x00"].concat())
}

fn body(channel: u16, body: &[u8]) -> Vec<u8> {
    frame(BODY, channel, body)
}

/// Returns the first fault that a server finds in the input, with channels 1 and 2 open, and what it writes.
fn fault_of(input: &[u8]) -> (Fault, Vec<u8>) {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1, 2]);
    fault_in(&mut server, input)
}

fn fault_in(server: &mut Connection, input: &[u8]) -> (Fault, Vec<u8>) {
    let mut fault = None;
    Socket::default().read(server, input, &mut |_, event| {
        if fault.is_none() {
            fault = event.err();
        }
    });
    (fault.expect("a fault"), written(server))
}

#[test]
fn each_violation_has_its_code_text_and_radius() {
    let too_large = [&[BODY, 0, 1][..], &131_073u32.to_be_bytes()].concat();
    let bad_end = [&frame(METHOD, 1, b"12345")[..12], b"\x00"].concat();
    let two_channels = [publish(1), header(2, 3)].concat();
    let utf8 = frame(METHOD, 1, b"\x00\x3c\x00\x28\x00\x00\x01\xff\x00\x00");
    let cases: &[(&str, Vec<u8>, u16, &str)] = &[
        (
            "a frame that is too large",
            too_large,
            501,
            "type 3, all octets = <<>>: {frame_too_large,131073,131064}",
        ),
        (
            "a wrong frame end",
            bad_end,
            501,
            "type 1, all octets = <<\"12345\">>: {invalid_frame_end_marker,0}",
        ),
        (
            "an unknown type",
            frame(9, 1, b"12345678901234567"),
            501,
            "type 9, first 16 octets = <<\"1234567890123456\">>: unknown_frame",
        ),
        ("an unknown type on channel 0", frame(0, 0, b""), 501, "type 0, all octets = <<>>: unknown_frame"),
        (
            "a method without ids",
            frame(METHOD, 1, b"\x00\x3c\x00"),
            501,
            "type 1, all octets = <<0,60,0>>: unknown_frame",
        ),
        (
            "a short content header",
            frame(HEADER, 1, b"\x00\x3c"),
            501,
            "type 2, all octets = <<0,60>>: unknown_frame",
        ),
        (
            "a heartbeat with a payload",
            frame(HEARTBEAT, 0, b"x"),
            501,
            "type 8, all octets = <<\"x\">>: unknown_frame",
        ),
        (
            "a body that is too long",
            [publish(1), header(1, 2), body(1, b"123")].concat(),
            501,
            "content body frame exceeds remaining content size",
        ),
        (
            "a body in two frames that is too long",
            [publish(1), header(1, 3), body(1, b"12"), body(1, b"34")].concat(),
            501,
            "content body frame exceeds remaining content size",
        ),
        (
            "text that is not UTF-8",
            utf8,
            501,
            "malformed arguments of basic.publish: a short string is not UTF-8",
        ),
        (
            "arguments cut off",
            frame(METHOD, 1, b"\x00\x3c\x00\x50\x00"),
            501,
            "malformed arguments of basic.ack: the bytes end within a value",
        ),
        (
            "bytes after the arguments",
            frame(METHOD, 1, b"\x00\x5a\x00\x0a\x00"),
            501,
            "malformed arguments of tx.select: 1 bytes after the last value",
        ),
        (
            "malformed arguments on channel 0",
            frame(METHOD, 0, b"\x00\x0a\x00\x28\xff"),
            501,
            "malformed arguments of connection.open: the bytes end within a value",
        ),
        (
            "a malformed table",
            frame(METHOD, 1, b"\x00\x32\x00\x0a\x00\x00\x01q\x00\x00\x00\x00\x03\x01a?"),
            501,
            "malformed arguments of queue.declare: malformed field table: a field table has a value of the \
             unknown type '?'",
        ),
        ("a method of the server", method(1, amqp091::BasicDeliver::default()), 503, "unimplemented method"),
        ("an answer of the server", method(1, amqp091::ChannelOpenOk), 503, "unimplemented method"),
        (
            "a method of the connection on a channel",
            method(1, ConnectionCloseOk),
            503,
            "unimplemented method",
        ),
        ("close-ok of a channel that is open", method(1, ChannelCloseOk), 503, "unimplemented method"),
        (
            "a method of a channel on channel 0",
            method(0, amqp091::TxSelect),
            504,
            "unexpected method in connection state running",
        ),
        (
            "a method of the handshake",
            method(0, amqp091::ConnectionTuneOk::default()),
            504,
            "unexpected method in connection state running",
        ),
        (
            "a method of the server on channel 0",
            method(0, amqp091::ConnectionBlocked::default()),
            504,
            "unexpected method in connection state running",
        ),
        ("open on an open channel", method(1, amqp091::ChannelOpen), 504, "second 'channel.open' seen"),
        ("a method on a closed channel", method(3, amqp091::TxSelect), 504, "expected 'channel.open'"),
        (
            "publish on a closed channel",
            [publish(3), header(3, 1), body(3, b"x")].concat(),
            504,
            "expected 'channel.open'",
        ),
        (
            "a channel above the maximum",
            method(2048, amqp091::ChannelOpen),
            530,
            "channel number (2048) exceeds the negotiated channel_max (2047)",
        ),
        ("a heartbeat on a channel", frame(HEARTBEAT, 1, b""), 505, "type 8, all octets = <<>>"),
        ("a body on channel 0", body(0, b"x"), 505, "type 3, all octets = <<\"x\">>"),
        (
            "a body without a method",
            body(1, b"x"),
            505,
            "expected method frame, got non method frame instead",
        ),
        (
            "a header on a closed channel",
            header(3, 1),
            505,
            "expected method frame, got non method frame instead",
        ),
        (
            "a header for another channel",
            two_channels,
            505,
            "expected method frame, got non method frame instead",
        ),
        (
            "a method instead of a header",
            [publish(1), method(1, amqp091::TxSelect)].concat(),
            505,
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            "a body instead of a header",
            [publish(1), body(1, b"x")].concat(),
            505,
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            "a header with a weight",
            [publish(1), frame(HEADER, 1, b"\x00\x3c\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")]
                .concat(),
            505,
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            "a header of another class",
            [publish(1), frame(HEADER, 1, b"\x00\x5a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")]
                .concat(),
            505,
            "expected content header for class 60, got one for class 90 instead",
        ),
        (
            "a method instead of a body",
            [publish(1), header(1, 1), publish(1)].concat(),
            505,
            "expected content body, got non content body frame instead",
        ),
        (
            "a second header",
            [publish(1), header(1, 1), header(1, 1)].concat(),
            505,
            "expected content body, got non content body frame instead",
        ),
        ("an unknown method", frame(METHOD, 1, b"\x00\x3c\x00\x63"), 540, "unknown method 99 of class 60"),
        ("an unknown class", frame(METHOD, 0, b"\x00\x01\x00\x02"), 540, "unknown method 2 of class 1"),
        (
            "a message that is too large",
            [publish(1), header(1, 1_000_001)].concat(),
            406,
            "message size 1000001 is larger than configured max size 1000000",
        ),
    ];
    for (what, input, code, text) in cases {
        let (fault, answer) = fault_of(input);
        assert_eq!((fault.code.number(), &fault.text[..]), (*code, *text), "{what}");
        let channel = (*code < 500).then_some(1);
        assert_eq!(fault.channel, channel, "{what}");
        let reply_text = format!("{} - {text}", fault.code.name());
        let Fault { class_id, method_id, .. } = fault;
        let (reply_code, reply_text) = (*code, &reply_text[..]);
        let expected: Method<'_> = match channel {
            Some(_) => ChannelClose { reply_code, reply_text, class_id, method_id }.into(),
            None => ConnectionClose { reply_code, reply_text, class_id, method_id }.into(),
        };
        let mut payload = BytesMut::new();
        expected.put(&mut payload);
        assert_eq!(answer, frame(METHOD, channel.unwrap_or(0), &payload), "{what}");
    }
}

#[test]
fn a_fault_names_the_method_that_failed() {
    let ids = |input: &[u8]| {
        let (fault, _) = fault_of(input);
        (fault.class_id, fault.method_id)
    };
    assert_eq!(ids(&[publish(1), header(1, 1_000_001)].concat()), (60, 40));
    assert_eq!(ids(&[publish(1), body(1, b"")].concat()), (60, 40));
    assert_eq!(ids(&method(3, QueueDeclare::default())), (50, 10));
    assert_eq!(ids(&frame(METHOD, 1, b"\x00\x3c\x00\x50")), (60, 80));
    assert_eq!(ids(&frame(METHOD, 1, b"\x00\x3c\x00\x63")), (60, 99));
    assert_eq!(ids(&method(0, amqp091::TxSelect)), (90, 10));
    assert_eq!(ids(&body(1, b"")), (0, 0));
}

#[test]
fn a_frame_may_be_larger_by_what_old_clients_do_not_count() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1]);
    let (mut socket, mut seen) = (Socket::default(), Vec::new());
    let large = vec![b'x'; 131_072];
    let input = [publish(1), header(1, large.len() as u64), body(1, &large)].concat();
    socket.read(&mut server, &input, &mut |_, event| match event.unwrap() {
        Event::Content { content, .. } => seen.push(content.payload.len()),
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, [131_072]);
}

/// A message that is too large closes its channel. Its frames and all others on the channel are skipped, until the client
/// has answered. Other channels are not concerned.
#[test]
fn the_rest_of_a_refused_content_is_skipped() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1, 2]);
    let (mut socket, mut events) = (Socket::default(), Vec::new());
    let input = [
        publish(1),
        header(1, 1_000_001),
        body(1, b"the beginning"),
        publish(2),
        body(1, b"more"),
        header(2, 2),
        publish(1),
        header(1, 5),
        body(1, b"never"),
        frame(METHOD, 1, b"\x00\x3c\x00\x63"),
        body(2, b"ok"),
        method(1, ChannelCloseOk),
        method(1, amqp091::ChannelOpen),
    ];
    socket.read(&mut server, &input.concat(), &mut |_, event| events.push(shown(&event)));
    assert_eq!(events.len(), 4, "{events:#?}");
    assert!(events[0].contains("PreconditionFailed") && events[1].ends_with("[111, 107]"), "{events:#?}");
    assert_eq!(events[2..], ["Ok(ChannelClosed(1))", "Ok(ChannelOpened(1))"]);
    assert_eq!(server.incomplete_bytes(), 0);
}

#[test]
fn both_sides_may_close_at_the_same_time() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1, 2]);
    let (mut socket, mut events) = (Socket::default(), Vec::new());
    server.close_channel(1, "bye");
    written(&mut server);
    let close = ChannelClose { reply_code: 200, reply_text: "bye", ..ChannelClose::default() };
    let input = [method(1, close), publish(1), method(1, ChannelCloseOk)].concat();
    socket.read(&mut server, &input, &mut |_, event| events.push(shown(&event)));
    assert_eq!(
        (events.join(" "), written(&mut server)),
        ("Ok(ChannelClosed(1))".to_owned(), method(1, ChannelCloseOk))
    );

    server.close("bye");
    written(&mut server);
    events.clear();
    let close = ConnectionClose { reply_code: 200, ..ConnectionClose::default() };
    let input =
        [publish(2), frame(HEARTBEAT, 3, b"?"), method(0, close), method(0, ConnectionCloseOk)].concat();
    socket.read(&mut server, &input, &mut |_, event| events.push(shown(&event)));
    assert_eq!(
        (events.join(" "), written(&mut server)),
        ("Ok(Closed)".to_owned(), method(0, ConnectionCloseOk))
    );
    assert_eq!(server.state(), State::Closed);
}

#[test]
fn a_channel_that_the_client_closes_is_silent() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1]);
    let close = ChannelClose { reply_code: 200, reply_text: "bye", ..ChannelClose::default() };
    let input = [method(1, close), publish(1), method(1, amqp091::ChannelOpen)].concat();
    let mut events = 0;
    Socket::default().read(&mut server, &input, &mut |_, event| {
        assert!(
            matches!(event, Ok(Event::ChannelClose { channel: 1, code: 200, text: "bye", .. })),
            "{event:?}"
        );
        events += 1;
    });
    server.send(1, &amqp091::TxSelectOk.into());
    server.fail(&Fault { channel: Some(1), ..fault_of(&[publish(1), header(1, 9_000_000)].concat()).0 });
    assert_eq!((events, server.channel_is_open(1), written(&mut server)), (1, false, vec![]));
    server.channel_close_ok(1);
    server.channel_close_ok(1);
    assert_eq!(written(&mut server), method(1, ChannelCloseOk));
}

#[test]
fn after_a_frame_that_has_no_end_a_second_fault_closes() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[]);
    let mut faults = 0;
    let garbage = [b'A'; 100];
    Socket::default().read(&mut server, &garbage, &mut |_, event| faults += usize::from(event.is_err()));
    assert_eq!((faults, server.state()), (2, State::Closed));
    assert!(server.frame_len(b"AMQP").is_ok_and(|len| len.is_none()));
}

#[test]
fn a_wrong_protocol_header_is_answered_with_ours() {
    for (header, accepted) in [
        (b"AMQP\x00\x00\x09\x01", true),
        (b"AMQP\x01\x01\x00\x09", true),
        (b"AMQP\x01\x01\x08\x00", false),
        (b"AMQP\x00\x00\x09\x02", false),
        (b"AMQP\x00\x00\x0a\x00", false),
        (b"GET / HT", false),
    ] {
        let mut server = Connection::server(CONFIG, 0);
        let mut events = Vec::new();
        Socket::default().read(&mut server, header, &mut |_, event| events.push(shown(&event)));
        let (event, state, answer): (_, _, &[u8]) = match accepted {
            true => ("Ok(HeaderExchanged)", State::Start, b""),
            false => ("Ok(BadHeader)", State::Closed, b"AMQP\x00\x00\x09\x01"),
        };
        assert_eq!((events.join(" "), server.state()), (event.to_owned(), state), "{header:?}");
        assert_eq!(written(&mut server), answer);
    }
    let mut client = Connection::client(CONFIG, 0);
    let mut events = Vec::new();
    Socket::default().read(&mut client, b"AMQP\x03\x01\x00\x00", &mut |_, event| events.push(shown(&event)));
    assert_eq!((events.join(" "), client.state()), ("Ok(BadHeader)".to_owned(), State::Closed));
}

/// Returns the server's answer to tune-ok: the agreed limits, or the fault.
fn tune(
    config: Config,
    channel_max: u16,
    frame_max: u32,
    heartbeat: u16,
) -> Result<Tuned, (u16, u16, u16, String)> {
    let mut server = Connection::server(config, 0);
    let (mut socket, mut result) = (Socket::default(), None);
    let tune_ok = amqp091::ConnectionTuneOk { channel_max, frame_max, heartbeat };
    let start_ok = amqp091::ConnectionStartOk {
        response: amqp091::Secret::new(b"\0guest\0guest"),
        ..Default::default()
    };
    let secure_ok = amqp091::ConnectionSecureOk { response: amqp091::Secret::new(b"who?") };
    let input =
        [b"AMQP\x00\x00\x09\x01".to_vec(), method(0, start_ok), method(0, secure_ok), method(0, tune_ok)];
    socket.read(&mut server, &input.concat(), &mut |server, event| match event {
        Ok(Event::Tuned) => result = Some(Ok(server.tuned())),
        Ok(event) => shake_hands(server, &event, true),
        Err(Fault { code, text, class_id, method_id, .. }) => {
            result = Some(Err((code.number(), class_id, method_id, text.into_owned())));
        }
    });
    result.expect("an answer")
}

#[test]
fn limits_are_negotiated() {
    let tuned = |channel_max, frame_max, heartbeat_s| Ok(Tuned { channel_max, frame_max, heartbeat_s });
    assert_eq!(tune(CONFIG, 2047, 131_072, 60), tuned(2047, 131_072, 60));
    assert_eq!(tune(CONFIG, 1, 4096, 0), tuned(1, 4096, 0));
    assert_eq!(tune(CONFIG, 0, 0, 600), tuned(2047, 131_072, 600));
    let refused = |text: &str| Err((530, 10, 30, text.to_owned()));
    let text = "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)";
    assert_eq!(tune(CONFIG, 0, 4095, 0), refused(text));
    let text = "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)";
    assert_eq!(tune(CONFIG, 0, 131_073, 0), refused(text));
    let text = "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)";
    assert_eq!(tune(CONFIG, 2048, 0, 0), refused(text));
    let unlimited = Config { channel_max: 0, frame_max: 0, ..CONFIG };
    assert_eq!(tune(unlimited, 65_535, u32::MAX, 1), tuned(65_535, u32::MAX, 1));
    assert_eq!(tune(unlimited, 0, 0, 1), tuned(0, 0, 1));
}

#[test]
fn frames_are_small_before_the_limits_are_agreed() {
    let mut server = Connection::server(CONFIG, 0);
    let long = vec![b'x'; 8193];
    let input = [b"AMQP\x00\x00\x09\x01".to_vec(), frame(METHOD, 0, &long)].concat();
    let (fault, _) = fault_in(&mut server, &input);
    assert_eq!(
        (fault.code.number(), &fault.text[..]),
        (501, "type 1, all octets = <<>>: {frame_too_large,8193,8184}")
    );
}

#[test]
fn only_the_method_of_the_state_is_allowed_in_the_handshake() {
    for (input, code, text) in [
        (
            method(0, amqp091::ConnectionOpen { virtual_host: "/" }),
            504,
            "unexpected method in connection state starting",
        ),
        (
            method(0, amqp091::ConnectionStart::default()),
            504,
            "unexpected method in connection state starting",
        ),
        (method(1, amqp091::ChannelOpen), 505, "type 1, all octets = <<0,20,0,10,0>>"),
        (publish(1), 505, "type 1, all octets = <<0,60,0,40,0,0,0,1,113,0>>"),
    ] {
        let mut server = Connection::server(CONFIG, 0);
        let mut fault = None;
        Socket::default().read(
            &mut server,
            &[&b"AMQP\x00\x00\x09\x01"[..], &input].concat(),
            &mut |_, event| {
                fault = event.err().or(fault.take());
            },
        );
        let fault = fault.expect("a fault");
        assert_eq!((fault.code.number(), &fault.text[..]), (code, text));
        assert_eq!(server.state(), State::Closing);
    }
}

/// The memory of a content follows what has arrived, not what was announced.
#[test]
fn an_incomplete_content_takes_memory_for_what_has_arrived() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1, 2, 3]);
    let mut socket = Socket::default();
    let mut read = |server: &mut Connection, input: Vec<u8>| {
        let mut fault = None;
        socket.read(server, &input, &mut |_, event| fault = event.err());
        (server.incomplete_bytes(), fault)
    };
    let (bytes, fault) = read(&mut server, [publish(1), header(1, 1_000_000)].concat());
    assert!(bytes < 200 && fault.is_none(), "{bytes}");
    let (bytes, _) = read(&mut server, body(1, &[0; 1000]));
    assert!((1000..2500).contains(&bytes), "{bytes}");
    for _ in 1..999 {
        read(&mut server, body(1, &[0; 1000]));
    }
    let (bytes, _) = read(&mut server, vec![]);
    assert!((999_000..1_000_300).contains(&bytes), "the buffer is never larger than the message: {bytes}");

    read(&mut server, [publish(2), header(2, 1_000_000), body(2, &[0; 100_000])].concat());
    read(&mut server, [publish(3), header(3, 1_000_000), body(3, &[0; 100_000])].concat());
    let mut result = (0, None);
    for _ in 0..8 {
        result = read(&mut server, [body(2, &[0; 100_000]), body(3, &[0; 100_000])].concat());
        if result.1.is_some() {
            break;
        }
    }
    let fault = result.1.expect("the bound over all channels");
    assert_eq!(
        (fault.code.number(), &fault.text[..]),
        (506, "incomplete contents take more than 2000000 bytes")
    );
    assert_eq!(server.incomplete_bytes(), 0, "the connection is closing");
}

/// A broker sends a content header in one frame of any size. A client takes it up to the size of the largest message.
#[test]
fn a_client_takes_content_headers_that_are_larger_than_agreed() {
    let deliver = BasicDeliver { routing_key: "q", ..BasicDeliver::default() };
    for (len, is_taken) in [(20_000, true), (CONFIG.max_message_size as usize + 1, false)] {
        let (mut client, mut server, _) = connected(Config { frame_max: 8192, ..CONFIG }, CONFIG, &[1]);
        let properties = vec![0; len];
        server.send_deliver(1, &deliver, &properties, &Bytes::from_static(b"x"), 0);
        let mut taken = None;
        Socket::default().read(&mut client, &written(&mut server), &mut |_, event| match event {
            Ok(Event::Content { content, .. }) => taken = Some(content.properties.len()),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => assert!(fault.text.contains("frame_too_large"), "{}", fault.text),
        });
        assert_eq!(taken, is_taken.then_some(len));
    }
    // A server takes none.
    let (mut client, mut server, _) = connected(Config { frame_max: 8192, ..CONFIG }, CONFIG, &[1]);
    client.send_content(1, &BasicPublish::default().into(), &[0; 20_000], &Bytes::from_static(b"x"), 0);
    let (fault, _) = fault_in(&mut server, &written(&mut client));
    assert_eq!(fault.code.number(), 501);
}

/// Properties and payload of an assembled content lie in one buffer.
#[test]
fn an_assembled_content_is_one_buffer() {
    let (mut client, mut server, _) = connected(Config { frame_max: 4096, ..CONFIG }, CONFIG, &[1]);
    let payload: Bytes = (0..10_000).map(|i| i as u8).collect();
    client.send_content(1, &BasicPublish::default().into(), b"\x10\x00\x02", &payload, 0);
    let mut seen = 0;
    Socket::default().read(&mut server, &written(&mut client), &mut |_, event| match event.unwrap() {
        Event::Content { content, .. } => {
            let whole = content.assembled().expect("one buffer");
            assert_eq!(whole, [b"\x10\x00\x02", &payload[..]].concat());
            assert_eq!(content.payload.as_ptr(), whole[3..].as_ptr());
            assert_eq!(content.publish(), Some(BasicPublish::default()));
            assert_eq!((content.deliver(), content.get_ok(), content.returned()), (None, None, None));
            seen += 1;
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, 1);
}

#[test]
fn a_response_needs_a_challenge() {
    let (mut server, mut socket) = (Connection::server(CONFIG, 0), Socket::default());
    let secure_ok = || method(0, amqp091::ConnectionSecureOk::default());
    let input = [b"AMQP\x00\x00\x09\x01".to_vec(), method(0, amqp091::ConnectionStartOk::default())];
    socket.read(&mut server, &input.concat(), &mut |_, event| assert!(event.is_ok()));
    server.secure(b"1");
    let mut events = Vec::new();
    let input = [secure_ok(), secure_ok()].concat();
    socket.read(&mut server, &input, &mut |_, event| events.push(shown(&event)));
    assert_eq!(events[0], "Ok(SecureOk(***))");
    assert!(events[1].contains("unexpected method in connection state securing"), "{events:?}");
}

/// What the gate decides late has no effect on a connection that has ended in the meantime.
#[test]
fn nothing_is_sent_after_the_end() {
    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1]);
    server.close("bye");
    written(&mut server);
    let all = |server: &mut Connection| {
        server.start("PLAIN", Table::EMPTY);
        server.secure(b"");
        server.tune();
        server.open_ok();
        server.blocked("");
        server.unblocked();
        server.update_secret_ok();
        server.send(1, &amqp091::TxSelectOk.into());
        server.send_content(1, &amqp091::BasicGetOk::default().into(), b"\x00\x00", &Bytes::new(), 0);
        server.send_deliver(1, &amqp091::BasicDeliver::default(), b"\x00\x00", &Bytes::new(), 0);
        server.channel_close_ok(1);
        server.close_channel(1, "");
        server.close("");
        written(server)
    };
    assert_eq!((all(&mut server), server.state()), (vec![], State::Closing));

    let (_, mut server, _) = connected(CONFIG, CONFIG, &[1]);
    let input = [method(0, ConnectionClose::default()), publish(1)].concat();
    let mut events = 0;
    Socket::default().read(&mut server, &input, &mut |_, event| {
        assert!(matches!(event, Ok(Event::Close { code: 0, text: "", .. })), "{event:?}");
        events += 1;
    });
    assert_eq!((events, all(&mut server), server.state()), (1, vec![], State::Ending));
    server.close_ok();
    assert_eq!((all(&mut server), server.state()), (method(0, ConnectionCloseOk), State::Closed));
    server.close_ok();
    assert_eq!(written(&mut server), []);
}
