//! Each rule that a peer can break: what ends because of it, and with which error condition.

use crate::script::{Handled, Script, attach, head, session_flow};
use amqp10::{
    Begin, Close, Disposition, Fault, Flow, Map, Open, Performative, Radius, ReceiverSettleMode, Role,
    SenderSettleMode, Symbol, Transfer, TransferHead, Value,
};
use bytes::Bytes;

#[track_caller]
fn check(handled: Handled, radius: Radius, condition: &str) -> Fault {
    let fault = handled.expect_err("a violation");
    assert_eq!(
        (fault.radius(), fault.violation.to_error().condition.as_str()),
        (radius, condition),
        "{fault:?}"
    );
    fault
}

const CONNECTION: Radius = Radius::Connection;
const SESSION: Radius = Radius::Session;
const LINK: Radius = Radius::Link;
const FRAMING: &str = "amqp:connection:framing-error";

/// A link on which the peer sends, with credit for three deliveries.
fn receiving() -> Script {
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 3, false, false);
    script
}

#[test]
fn protocol_header() {
    let mut script = Script::fresh();
    let fault = check(script.bytes(b"AMQP\x00\x00\x09\x01"), CONNECTION, FRAMING);
    assert_eq!(fault.violation.to_string(), "AMQP 0.9.1 instead of AMQP 1.0");
    assert_eq!(script.sent(), ["header"]);
    for (header, words) in [
        (b"GET / HT", "an HTTP request instead of AMQP 1.0"),
        (b"OPTIONS ", "an HTTP request instead of AMQP 1.0"),
        (b"PRI * HT", "an HTTP request instead of AMQP 1.0"),
        (b"HTTP/1.1", "an HTTP response instead of AMQP 1.0"),
        (b"\x16\x03\x01\x00\xf1\x01\x00\x00", "TLS (amqps://) instead of AMQP 1.0"),
        (b"PROXY TC", "a PROXY header instead of AMQP 1.0"),
        (b"\x10\x0c\x00\x04MQTT", "MQTT instead of AMQP 1.0"),
        (b"CONNECT\n", "STOMP instead of AMQP 1.0"),
        (b"AMQP\x07\x01\x00\x00", "unsupported protocol header [41, 4d, 51, 50, 07, 01, 00, 00]"),
    ] {
        let fault = check(Script::fresh().bytes(header), CONNECTION, FRAMING);
        assert_eq!(fault.violation.to_string(), words);
    }
}

#[test]
fn framing() {
    let huge = b"\x00\x00\x10\x01\x02\x00\x00\x00";
    assert!(Script::opened().endpoint.frame_len(huge).is_err(), "beyond max-frame-size");
    let tiny = b"\x00\x00\x00\x07\x02\x00\x00\x00";
    check(Script::opened().bytes(tiny), CONNECTION, FRAMING);
    let offset = b"\x00\x00\x00\x08\x01\x00\x00\x00";
    check(Script::opened().bytes(offset), CONNECTION, FRAMING);
    let beyond = b"\x00\x00\x00\x08\x03\x00\x00\x00";
    check(Script::opened().bytes(beyond), CONNECTION, FRAMING);
    let kind = b"\x00\x00\x00\x08\x02\x07\x00\x00";
    check(Script::opened().bytes(kind), CONNECTION, FRAMING);
}

#[test]
fn channel_max() {
    let fault = check(Script::opened().receive(4, &Begin::default()), CONNECTION, FRAMING);
    assert_eq!(fault.violation.to_string(), "channel number (4) exceeds maximum channel number (3)");
    check(Script::logged_in().receive(1, &Open::new("c")), CONNECTION, FRAMING);
}

#[test]
fn decode() {
    let garbage = b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x99\x45";
    check(Script::opened().bytes(garbage), CONNECTION, "amqp:decode-error");
}

#[test]
fn unexpected_frame() {
    check(Script::logged_in().receive(0, &Begin::default()), CONNECTION, "amqp:illegal-state");
    check(Script::opened().receive(0, &Open::new("again")), CONNECTION, "amqp:illegal-state");
    let answer = Begin { remote_channel: Some(2), ..Begin::default() };
    check(Script::opened().receive(0, &answer), CONNECTION, "amqp:illegal-state");
}

#[test]
fn frame_type() {
    let sasl = b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x41\x45";
    check(Script::opened().bytes(sasl), CONNECTION, FRAMING);
}

#[test]
fn frame_size_too_small() {
    let open = Open { max_frame_size: 511, ..Open::new("c") };
    check(Script::logged_in().receive(0, &open), CONNECTION, "amqp:frame-size-too-small");
}

#[test]
fn idle_time_out_too_short() {
    let open = |ms| Open { idle_time_out: Some(ms), ..Open::new("c") };
    check(Script::logged_in().receive(0, &open(999)), CONNECTION, "amqp:not-allowed");
    assert!(Script::logged_in().receive(0, &open(1000)).is_ok());
    assert!(Script::logged_in().receive(0, &open(0)).is_ok());
}

#[test]
fn idle_time_out() {
    let mut script = Script::opened();
    assert!(script.endpoint.handle_timeout(59_999).is_ok());
    let silent = script.endpoint.handle_timeout(60_000).map(|()| None);
    check(silent, CONNECTION, "amqp:resource-limit-exceeded");
}

#[test]
fn channel_in_use() {
    check(Script::begun(1).receive(0, &Begin::default()), SESSION, "amqp:illegal-state");
}

#[test]
fn window_violation() {
    let mut script = receiving();
    script.endpoint.set_window_open(0, false);
    // Frames that were in flight when the window closed are accepted.
    for n in 0..4 {
        let more = TransferHead { more: true, delivery_id: Some(0), ..head(0, b"t") };
        assert!(script.transfer(&more, b"x").is_ok(), "{n}");
    }
    check(script.transfer(&head(0, b"t"), b"x"), SESSION, "amqp:session:window-violation");
}

#[test]
fn never_sent() {
    let ahead = session_flow(1, 10);
    let fault = check(Script::begun(1).flow(ahead), SESSION, "amqp:session:window-violation");
    let text = "FLOW with next-incoming-id 1, but the next transfer-id of the session is 0";
    assert_eq!(fault.violation.to_string(), text);
}

#[test]
fn handle_max() {
    check(Script::begun(1).receive(0, &attach("l", 8, Role::Sender)), SESSION, FRAMING);
}

#[test]
fn handle_in_use() {
    let again = attach("other", 0, Role::Sender);
    check(receiving().receive(0, &again), SESSION, "amqp:session:handle-in-use");
}

#[test]
fn unattached_handle() {
    let nowhere = TransferHead { handle: 5, ..head(0, b"t") };
    check(receiving().transfer(&nowhere, b"x"), SESSION, "amqp:session:unattached-handle");
    let flow = Flow { handle: Some(5), ..session_flow(0, 10) };
    check(receiving().flow(flow), SESSION, "amqp:session:unattached-handle");
}

#[test]
fn a_detach_of_an_unattached_handle_is_ignored() {
    let detach = amqp10::Detach { handle: 5, closed: true, error: None };
    assert!(receiving().receive(0, &detach).is_ok());
}

#[test]
fn transfer_limit_exceeded() {
    let mut script = receiving();
    for id in 0..3 {
        assert!(script.transfer(&head(id, b"t"), b"x").is_ok());
    }
    check(script.transfer(&head(3, b"t"), b"x"), LINK, "amqp:link:transfer-limit-exceeded");
}

#[test]
fn message_size_exceeded() {
    check(receiving().transfer(&head(0, b"t"), &[0; 101]), LINK, "amqp:link:message-size-exceeded");
    let mut script = receiving();
    assert!(script.transfer(&TransferHead { more: true, ..head(0, b"t") }, &[0; 60]).is_ok());
    let rest = TransferHead::default();
    check(script.transfer(&rest, &[0; 41]), LINK, "amqp:link:message-size-exceeded");
}

#[test]
fn inconsistent_delivery() {
    let invalid = "amqp:invalid-field";
    check(receiving().transfer(&TransferHead::default(), b"x"), LINK, invalid);
    let began = || {
        let mut script = receiving();
        let first = TransferHead { more: true, settled: Some(true), ..head(0, b"t") };
        assert!(script.transfer(&first, b"x").is_ok());
        script
    };
    check(began().transfer(&head(1, b"t"), b"x"), LINK, invalid);
    check(began().transfer(&head(0, b"u"), b"x"), LINK, invalid);
    check(began().transfer(&TransferHead { settled: Some(false), ..head(0, b"t") }, b"x"), LINK, invalid);
}

#[test]
fn settled_mismatch() {
    for (mode, settled) in [(SenderSettleMode::Settled, false), (SenderSettleMode::Unsettled, true)] {
        let mut script = Script::begun(10);
        let mut requested = attach("l", 0, Role::Sender);
        requested.snd_settle_mode = mode;
        assert!(script.receive(0, &requested).is_ok());
        let mut answer = attach("l", 0, Role::Receiver);
        answer.snd_settle_mode = mode;
        script.endpoint.attach(0, Some(0), answer);
        script.endpoint.grant(0, 0, 1, false, false);
        let transfer = TransferHead { settled: Some(settled), ..head(0, b"t") };
        check(script.transfer(&transfer, b"x"), LINK, "amqp:invalid-field");
    }
}

#[test]
fn settle_mode_second() {
    let transfer = Transfer {
        handle: 0,
        delivery_id: Some(0),
        delivery_tag: Some(b"t"),
        message_format: None,
        settled: None,
        more: false,
        rcv_settle_mode: Some(ReceiverSettleMode::Second),
        state: None,
        resume: false,
        aborted: false,
        batchable: false,
    };
    check(receiving().receive(0, &Performative::Transfer(transfer)), LINK, "amqp:invalid-field");
}

#[test]
fn no_transaction() {
    // [4.4.1] The descriptor is given by number and by name. The id is a binary of one byte.
    let states: [&[u8]; 2] = [b"\x00\x53\x34", b"\x00\xa3\x1damqp:transactional-state:list"];
    for descriptor in states {
        // The fields of TRANSFER up to its state: handle, id, tag, format, settled, more, rcv-settle-mode.
        let mut fields = b"\x43\x43\xa0\x01t\x43\x42\x42\x40".to_vec();
        fields.extend_from_slice(descriptor);
        fields.extend_from_slice(b"\xc0\x04\x01\xa0\x01x");
        let mut body = vec![0x00, 0x53, 0x14, 0xc0, fields.len() as u8 + 1, 8];
        body.extend_from_slice(&fields);
        let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(b"\x02\x00\x00\x00");
        bytes.extend_from_slice(&body);
        check(receiving().bytes(&bytes), LINK, "amqp:transaction:unknown-id");
    }
}

#[test]
fn transactional_acquisition() {
    let mut properties = Map::new();
    properties.insert(Symbol::from_static("txn-id"), Value::Binary(Bytes::from_static(b"x")));
    let mut script = Script::attached(Role::Receiver, 10);
    let flow = Flow {
        handle: Some(0),
        delivery_count: Some(0),
        link_credit: Some(1),
        properties: Some(properties),
        ..session_flow(0, 10)
    };
    check(script.flow(flow), LINK, "amqp:not-implemented");
    assert!(!script.send(b"a", 0), "no credit was given");
}

#[test]
fn a_transfer_to_the_sending_end_is_refused() {
    let mut script = Script::attached(Role::Receiver, 10);
    // A frame that the role of the link does not allow.
    let fault = script.transfer(&head(0, b"t"), b"x").unwrap_err();
    assert_eq!(fault.radius(), CONNECTION, "{fault:?}");
}

#[test]
fn frames_after_close_are_ignored() {
    let mut script = receiving();
    script.endpoint.close(None, false);
    assert_eq!(script.transfer(&head(9, b"t"), b"x"), Ok(None));
    assert_eq!(script.receive(0, &Disposition::new(Role::Receiver, 7)), Ok(None));
    assert_eq!(script.receive(0, &Close { error: None }), Ok(Some("Close".to_owned())));
}
