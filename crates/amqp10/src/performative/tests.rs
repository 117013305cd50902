use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::composites::*;
use crate::frame::parse_header;
use crate::sasl::Secret;
use crate::types::{Array, Described, Map, Symbol, Value};

/// Returns the performative's bytes. Checks that they decode to the same value, that the frame around them
/// has the right size, and that no shorter body decodes to it.
fn check(performative: Performative<'_>) -> Vec<u8> {
    let mut out = BytesMut::from(&b"before"[..]);
    put_frame(&mut out, 7, &performative);
    let frame = out.split_off(6);
    let header = parse_header(frame[..8].try_into().unwrap(), u32::MAX).unwrap();
    assert_eq!((header.size as usize, header.channel, header.kind), (frame.len(), 7, FrameKind::Amqp));
    let body = &frame[8..];
    assert_eq!(Performative::decode(body), Ok((performative.clone(), body.len())));
    for len in 0..body.len() {
        assert!(Performative::decode(&body[..len]).is_err(), "{performative:?} cut to {len}");
    }
    body.to_vec()
}

fn symbol(text: &'static str) -> Symbol {
    Symbol::from_static(text)
}

fn error() -> AmqpError {
    let mut error = AmqpError::new(condition::NOT_FOUND);
    error.description = Some("no queue 'q'".into());
    error.info = Some([(symbol("queue"), "q")].into_iter().collect());
    error
}

fn full_source() -> Source {
    Source {
        address: Some("/queues/q".into()),
        durable: TerminusDurability::UnsettledState,
        expiry_policy: TerminusExpiryPolicy::Never,
        timeout: 30,
        dynamic: true,
        dynamic_node_properties: Some([(symbol("lifetime-policy"), 1u32)].into_iter().collect()),
        distribution_mode: Some(symbol("move")),
        filter: Some(
            [(
                symbol("offset"),
                Described { descriptor: symbol("rabbitmq:stream-offset-spec").into(), value: "first".into() },
            )]
            .into_iter()
            .collect(),
        ),
        default_outcome: Some(DeliveryState::Modified(Modified::default())),
        outcomes: vec![symbol("amqp:accepted:list"), symbol("amqp:released:list")],
        capabilities: vec![symbol("queue")],
    }
}

#[test]
fn control_performatives_round_trip() {
    let properties: Map = [(symbol("product"), "x".repeat(300))].into_iter().collect();
    check(Performative::Open(Box::new(Open::new("c"))));
    check(Performative::Open(Box::new(Open {
        hostname: Some("vhost:/".into()),
        max_frame_size: 131_072,
        channel_max: 63,
        idle_time_out: Some(30_000),
        outgoing_locales: vec![symbol("en-US")],
        offered_capabilities: vec![symbol("ANONYMOUS-RELAY"), symbol("LINK_PAIR_V1_0")],
        properties: Some(properties.clone()),
        ..Open::new("c")
    })));
    check(Performative::Begin(Begin {
        remote_channel: Some(0),
        handle_max: 255,
        ..Begin::new(0, 1, u32::MAX)
    }));
    check(Performative::Attach(Box::new(Attach::new("link", 0, Role::Receiver))));
    let attach = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(full_source()),
        target: Some(TargetArchetype::Target(Target::default())),
        unsettled: Some([(Bytes::from_static(b"tag"), Value::Null)].into_iter().collect()),
        incomplete_unsettled: true,
        initial_delivery_count: Some(u32::MAX),
        max_message_size: Some(1 << 40),
        properties: Some(properties),
        ..Attach::new("link", 1, Role::Sender)
    };
    check(Performative::Attach(Box::new(attach)));
    let coordinator = Coordinator { capabilities: vec![symbol("amqp:local-transactions")] };
    check(Performative::Attach(Box::new(Attach {
        target: Some(TargetArchetype::Coordinator(coordinator)),
        ..Attach::new("tx", 2, Role::Sender)
    })));
    check(Performative::Flow(Flow {
        next_incoming_id: Some(5),
        handle: Some(3),
        delivery_count: Some(u32::MAX),
        link_credit: Some(170),
        drain: true,
        ..Flow::new(1, 2, 3)
    }));
    check(Performative::Detach(Detach { closed: true, error: Some(error()), ..Detach::new(1) }));
    check(Performative::End(End { error: Some(error()) }));
    assert_eq!(check(Performative::End(End::default())), [0x00, 0x53, 0x17, 0x45]);
    check(Performative::Close(Close { error: Some(error()) }));
}

#[test]
fn delivery_states_round_trip() {
    let states = [
        DeliveryState::Accepted,
        DeliveryState::Released,
        DeliveryState::Rejected(None),
        DeliveryState::Rejected(Some(error())),
        DeliveryState::Modified(Modified { delivery_failed: Some(true), ..Modified::default() }),
        DeliveryState::Received(Received::new(1, 1 << 33)),
        DeliveryState::Other(Box::new(Described {
            descriptor: Value::Ulong(descriptor::TRANSACTIONAL_STATE),
            value: Value::List(vec![Value::Binary(Bytes::from_static(b"txn"))]),
        })),
    ];
    for state in states {
        let disposition = Disposition {
            last: Some(9),
            settled: true,
            state: Some(state.clone()),
            ..Disposition::new(Role::Receiver, 3)
        };
        let body = check(Performative::Disposition(disposition));
        let mut out = BytesMut::new();
        put_disposition_frame(&mut out, 7, Role::Receiver, 3, Some(9), true, &state);
        assert_eq!(out[8..], body);
    }
}

/// Symbolic descriptors and the long forms of numbers decode to the same performative.
#[test]
fn descriptors_may_be_symbols() {
    let bodies: [&[u8]; 4] = [
        b"\x00\x53\x17\x45",
        b"\x00\xa3\x0damqp:end:list\x45",
        b"\x00\xb3\x00\x00\x00\x0damqp:end:list\xc0\x01\x00",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x17\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40",
    ];
    for body in bodies {
        assert_eq!(Performative::decode(body), Ok((Performative::End(End::default()), body.len())));
    }
    let error = DeliveryState::decode(&mut Reader::new(b"\x00\xa3\x12amqp:accepted:list\x45"));
    assert_eq!(error, Ok(DeliveryState::Accepted));
}

/// Tests each mandatory field of each frame, after the fields before it. Absent and null are equivalent
/// [1.4].
#[test]
fn every_mandatory_field_is_missed() {
    let cases: &[(u8, &[&[u8]], &str)] = &[
        (0x10, &[], "open.container-id"),
        (0x11, &[b"\x40"], "begin.next-outgoing-id"),
        (0x11, &[b"\x40", b"\x43"], "begin.incoming-window"),
        (0x11, &[b"\x40", b"\x43", b"\x43"], "begin.outgoing-window"),
        (0x12, &[], "attach.name"),
        (0x12, &[b"\xa1\x01l"], "attach.handle"),
        (0x12, &[b"\xa1\x01l", b"\x43"], "attach.role"),
        (0x13, &[b"\x40"], "flow.incoming-window"),
        (0x13, &[b"\x40", b"\x43"], "flow.next-outgoing-id"),
        (0x13, &[b"\x40", b"\x43", b"\x43"], "flow.outgoing-window"),
        (0x14, &[], "transfer.handle"),
        (0x15, &[], "disposition.role"),
        (0x15, &[b"\x41"], "disposition.first"),
        (0x15, &[b"\x41", b"\x43", b"\x40", b"\x40", b"\x00\x53\x23\x45"], "received.section-number"),
        (
            0x15,
            &[b"\x41", b"\x43", b"\x40", b"\x40", b"\x00\x53\x23\xc0\x02\x01\x43"],
            "received.section-offset",
        ),
        (0x16, &[], "detach.handle"),
        (0x17, &[b"\x00\x53\x1d\x45"], "error.condition"),
        (0x40, &[], "sasl-mechanisms.sasl-server-mechanisms"),
        (0x41, &[], "sasl-init.mechanism"),
        (0x42, &[], "sasl-challenge.challenge"),
        (0x43, &[], "sasl-response.response"),
        (0x44, &[], "sasl-outcome.code"),
    ];
    for (code, before, missing) in cases {
        let expected = format!("mandatory field {missing} is missing");
        let absent = before.to_vec();
        let null = [&before[..], &[b"\x40"]].concat();
        for fields in [absent, null] {
            let size = fields.iter().map(|f| f.len()).sum::<usize>() + 1;
            let mut body = vec![0x00, 0x53, *code, 0xc0, size as u8, fields.len() as u8];
            fields.iter().for_each(|field| body.extend_from_slice(field));
            let error = match code {
                0x40.. => SaslFrame::decode(&body).unwrap_err(),
                _ => Performative::decode(&body).unwrap_err(),
            };
            assert!(error.to_string().starts_with(&expected), "{missing}: {error}");
        }
    }
}

#[test]
fn a_mandatory_multiple_field_needs_at_least_one() {
    // [1.4] An empty array is equivalent to an absent field.
    let none = b"\x00\x53\x40\xc0\x05\x01\xe0\x02\x00\xa3";
    let error = SaslFrame::decode(none).unwrap_err().to_string();
    assert!(
        error.starts_with("mandatory field sasl-mechanisms.sasl-server-mechanisms is missing"),
        "{error}"
    );
}

#[test]
fn malformed_performatives_are_named() {
    let check = |body: &[u8], text: &str| {
        assert_eq!(Performative::decode(body).unwrap_err().to_string(), text, "{body:02x?}");
    };
    check(b"", "truncated value at byte 0");
    check(b"\x45", "expected described value, found format code 0x45 at byte 0");
    check(b"\x00\x53\x70\x45", "unexpected descriptor at byte 0");
    check(b"\x00\x53\x10\x45", "mandatory field open.container-id is missing at byte 4");
    check(b"\x00\x53\x14\xc0\x02\x01\x40", "mandatory field transfer.handle is missing at byte 6");
    check(b"\x00\x53\x17\xc0\x03\x02\x40\x40", "too many fields in end at byte 7");
    check(b"\x00\x53\x17\x45\x00", "unexpected trailing bytes at byte 4");
    check(b"\x00\x53\x17\xc0\x03\x01\x40\x40", "unexpected trailing bytes at byte 7");
    check(b"\x00\x53\x10\xc0\x03\x01\x52\x01", "expected string, found format code 0x52 at byte 6");
    check(
        b"\x00\x53\x12\xc0\x08\x04\xa1\x01l\x43\x41\x50\x03",
        "invalid value for sender-settle-mode at byte 11",
    );
    // An address must be a string.
    check(
        b"\x00\x53\x12\xc0\x11\x06\xa1\x01l\x43\x41\x40\x40\x00\x53\x28\xc0\x04\x01\xa3\x01q",
        "expected string, found format code 0xa3 at byte 19",
    );
}

#[test]
fn sasl_frames_round_trip() {
    let init = SaslInit {
        initial_response: Some(Secret::new(&b"\0u\0p"[..])),
        hostname: Some("h".into()),
        ..SaslInit::new(symbol("PLAIN"))
    };
    let frames = [
        SaslFrame::Mechanisms(SaslMechanisms::new(vec![symbol("PLAIN"), symbol("ANONYMOUS")])),
        SaslFrame::Init(init),
        SaslFrame::Challenge(SaslChallenge::new(Bytes::from_static(b"c"))),
        SaslFrame::Response(SaslResponse::new(Secret::new(&b"r"[..]))),
        SaslFrame::Outcome(SaslOutcome::new(SaslCode::SysTemp)),
    ];
    for frame in frames {
        let mut out = BytesMut::new();
        put_sasl_frame(&mut out, &frame);
        let header = parse_header(out[..8].try_into().unwrap(), 512).unwrap();
        assert_eq!((header.kind, header.size as usize), (FrameKind::Sasl, out.len()));
        assert_eq!(SaslFrame::decode(&out[8..]).as_ref(), Ok(&frame));
        for len in 8..out.len() {
            assert!(SaslFrame::decode(&out[8..len]).is_err());
        }
    }
    // A single mechanism needs no array [1.4].
    let lone = SaslFrame::decode(b"\x00\x53\x40\xc0\x08\x01\xa3\x05PLAIN");
    assert_eq!(lone, Ok(SaslFrame::Mechanisms(SaslMechanisms::new(vec![symbol("PLAIN")]))));
    assert!(SaslFrame::decode(b"\x00\x53\x17\x45").is_err());
}

#[test]
fn transfer_leaves_the_payload() {
    let head =
        TransferHead { handle: 0, delivery_id: Some(1), delivery_tag: Some(b"t"), ..Default::default() };
    let mut out = BytesMut::new();
    put_transfer_frame(&mut out, 3, &head, 4);
    assert_eq!(&out[..], b"\x00\x00\x00\x18\x02\x00\x00\x03\x00\x53\x14\xc0\x07\x03\x43\x52\x01\xa0\x01t");
    out.extend_from_slice(b"\xff\xff\xff\xff");
    let (performative, used) = Performative::decode(&out[8..]).unwrap();
    assert_eq!(out[8 + used..], *b"\xff\xff\xff\xff");
    let Performative::Transfer(transfer) = performative else { panic!("{performative:?}") };
    assert_eq!(transfer.delivery_tag, Some(&b"t"[..]));
    assert!(!transfer.more && transfer.settled.is_none());
}

#[test]
fn transfer_overhead_is_an_exact_maximum() {
    for tag_len in [0, 1, 32, 200, 228, 229, 230, 231, 255, 256, 1000] {
        let tag = vec![0; tag_len];
        let head = TransferHead {
            handle: u32::MAX,
            delivery_id: Some(u32::MAX),
            delivery_tag: Some(&tag),
            message_format: Some(u32::MAX),
            settled: Some(false),
            more: true,
            aborted: true,
        };
        let mut out = BytesMut::new();
        put_transfer_frame(&mut out, 0, &head, 0);
        assert_eq!(out.len(), transfer_frame_overhead_max(tag_len), "{tag_len}");
    }
}

#[test]
fn arrays_of_anything_else_are_no_capabilities() {
    let strings = Array::try_from_items(vec![Value::from("a")]).unwrap();
    let mut out = BytesMut::new();
    let mut list = ListWriter::new(&mut out, descriptor::COORDINATOR);
    list.put(&Value::from(strings));
    list.finish();
    assert!(Coordinator::decode(&mut Reader::new(&out)).is_err());
}

#[test]
fn message_ids_are_of_four_types() {
    let with_id = |id: Value| {
        let mut out = BytesMut::new();
        Properties { message_id: Some(id), ..Properties::default() }.encode(&mut out);
        Properties::decode(&mut Reader::new(&out))
    };
    let ids = [Value::Ulong(0), Value::Uuid([1; 16]), Value::Binary(Bytes::new()), Value::from("id")];
    for id in ids {
        assert_eq!(with_id(id.clone()).unwrap().message_id, Some(id));
    }
    for other in [Value::Uint(1), Value::from(symbol("id")), Value::List(vec![])] {
        assert!(with_id(other).is_err());
    }
}

proptest! {
    #[test]
    fn transfers_round_trip(
        numbers in (any::<u32>(), option::of(any::<u32>()), option::of(0..300u32)),
        tag in option::of(vec(any::<u8>(), 0..300)),
        settled in option::of(any::<bool>()),
        flags in any::<[bool; 4]>(),
        payload in vec(any::<u8>(), 0..16),
    ) {
        let (handle, delivery_id, message_format) = numbers;
        let [more, resume, aborted, batchable] = flags;
        let transfer = Transfer {
            handle, delivery_id, delivery_tag: tag.as_deref(), message_format, settled, more,
            rcv_settle_mode: resume.then_some(ReceiverSettleMode::Second),
            state: batchable.then_some(DeliveryState::Accepted),
            resume, aborted, batchable,
        };
        let mut out = BytesMut::new();
        transfer.encode(&mut out);
        let used = out.len();
        out.extend_from_slice(&payload);
        prop_assert_eq!(Performative::decode(&out), Ok((Performative::Transfer(transfer), used)));
        for len in 0..used {
            prop_assert!(Performative::decode(&out[..len]).is_err());
        }
    }

    /// A frame's head equals the encoding of the whole transfer, whichever fields are absent.
    #[test]
    fn transfer_heads_equal_whole_transfers(transfer in any_transfer(), long in any::<bool>(), payload_len in 0..70_000usize) {
        let tag = [7; 300];
        let delivery_tag = if long { Some(&tag[..]) } else { transfer.delivery_tag };
        let transfer =
            Transfer { delivery_tag, rcv_settle_mode: None, resume: false, batchable: false, ..transfer };
        let Transfer { handle, delivery_id, message_format, settled, more, aborted, .. } = transfer;
        let head =
            TransferHead { handle, delivery_id, delivery_tag, message_format, settled, more, aborted };
        let mut out = BytesMut::new();
        put_transfer_frame(&mut out, 0x0102, &head, payload_len);
        let mut whole = BytesMut::new();
        transfer.encode(&mut whole);
        prop_assert_eq!(&out[8..], &whole[..]);
        let header = parse_header(out[..8].try_into().unwrap(), u32::MAX).unwrap();
        prop_assert_eq!((header.size as usize, header.channel), (out.len() + payload_len, 0x0102));
    }

    #[test]
    fn flows_round_trip(
        session in (option::of(any::<u32>()), any::<u32>(), any::<u32>(), any::<u32>()),
        link in option::of((any::<u32>(), any::<u32>(), 0..1000u32, option::of(any::<u32>()))),
        flags in any::<[bool; 2]>(),
    ) {
        let (next_incoming_id, incoming_window, next_outgoing_id, outgoing_window) = session;
        let flow = Flow {
            next_incoming_id, incoming_window, next_outgoing_id, outgoing_window,
            handle: link.map(|l| l.0), delivery_count: link.map(|l| l.1), link_credit: link.map(|l| l.2),
            available: link.and_then(|l| l.3), drain: flags[0], echo: flags[1], properties: None,
        };
        let mut out = BytesMut::new();
        put_flow_frame(&mut out, 0, &flow);
        let used = out.len() - 8;
        prop_assert_eq!(Performative::decode(&out[8..]), Ok((Performative::Flow(flow), used)));
    }

    #[test]
    fn random_bodies_never_panic(code in 0x0fu8..0x45, bytes in vec(any::<u8>(), 0..48)) {
        let body = [&[0x00, 0x53, code, 0xc0, bytes.len() as u8 + 1, 12][..], &bytes].concat();
        let _ = Performative::decode(&body);
        let _ = Performative::decode(&bytes);
        let _ = SaslFrame::decode(&body);
    }
}

/// Returns a transfer with the fields that senders set, and an encoding that a sender might choose for it.
fn any_transfer() -> impl Strategy<Value = Transfer<'static>> {
    let number = || option::of(prop_oneof![Just(0), 1..300u32, any::<u32>()]);
    let flags = (option::of(any::<bool>()), any::<[bool; 4]>());
    let second = option::of(Just(ReceiverSettleMode::Second));
    (number(), number(), option::of(0..40usize), number(), flags, option::weighted(0.1, second)).prop_map(
        |(handle, delivery_id, tag, message_format, (settled, [more, resume, aborted, batchable]), mode)| {
            Transfer {
                handle: handle.unwrap_or(0),
                delivery_id,
                delivery_tag: tag.map(|len| &b"0123456789012345678901234567890123456789"[..len]),
                message_format,
                settled,
                more,
                rcv_settle_mode: mode.flatten(),
                state: None,
                resume,
                aborted,
                batchable,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// The plain decoder and the full decoder return the same result, even for slightly broken bytes. The
    /// plain decoder accepts the usual form.
    #[test]
    fn both_decoders_read_plain_transfers_alike(
        transfer in any_transfer(),
        payload in vec(any::<u8>(), 0..8),
        noise in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3),
        cut in option::weighted(0.2, any::<proptest::sample::Index>()),
    ) {
        let mut body = BytesMut::new();
        transfer.encode(&mut body);
        let used = body.len();
        body.extend_from_slice(&payload);
        let plain = Transfer::decode_plain(&body);
        prop_assert_eq!(plain.is_some(), transfer.rcv_settle_mode.is_none());
        if let Some((plain, rest)) = plain {
            prop_assert_eq!((plain, body.len() - rest.len()), (transfer, used));
        }
        let mut broken = body.to_vec();
        for (at, octet) in noise {
            let at = at.index(broken.len());
            broken[at] = octet;
        }
        broken.truncate(cut.map_or(broken.len(), |at| at.index(broken.len())));
        if let Some((plain, rest)) = Transfer::decode_plain(&broken) {
            let alike = Ok((Performative::Transfer(plain), broken.len() - rest.len()));
            prop_assert_eq!(Performative::decode_in_full(&broken), alike);
        }
    }
}

/// Returns a disposition of accepted deliveries.
fn any_accepted() -> impl Strategy<Value = Disposition> {
    let number = || prop_oneof![Just(0), 1..300u32, any::<u32>()];
    let role = prop_oneof![Just(Role::Sender), Just(Role::Receiver)];
    (role, number(), option::of(number()), any::<[bool; 2]>()).prop_map(
        |(role, first, last, [settled, batchable])| {
            let state = Some(DeliveryState::Accepted);
            Disposition { role, first, last, settled, state, batchable }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Dispositions of accepted deliveries have a decoder and an encoder of their own. Both do what those for all dispositions do, the
    /// decoder even for slightly broken bytes.
    #[test]
    fn accepted_deliveries_are_read_and_written_alike(
        disposition in any_accepted(),
        noise in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3),
        cut in option::weighted(0.2, any::<proptest::sample::Index>()),
    ) {
        let mut body = BytesMut::new();
        disposition.encode(&mut body);
        prop_assert_eq!(decode_accepted(&body), Some(disposition.clone()));
        if !disposition.batchable {
            let Disposition { role, first, last, settled, .. } = disposition;
            let (mut one, mut all) = (BytesMut::from(&b"before"[..]), BytesMut::from(&b"before"[..]));
            put_accepted_frame(&mut one, 300, role, first, last, settled);
            put_frame(&mut all, 300, &disposition);
            prop_assert_eq!(one, all);
        }
        let mut broken = body.to_vec();
        for (at, octet) in noise {
            let at = at.index(broken.len());
            broken[at] = octet;
        }
        broken.truncate(cut.map_or(broken.len(), |at| at.index(broken.len())));
        if let Some(read) = decode_accepted(&broken) {
            let alike = Ok((Performative::Disposition(read), broken.len()));
            prop_assert_eq!(Performative::decode_in_full(&broken), alike);
        }
    }
}
