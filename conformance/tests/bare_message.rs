//! `bare_message_is_immutable`: random valid sections in any encoding are sent. The same bytes must be
//! received from every type of queue, also after a restart.

use std::net::SocketAddr;

use amqp10::frame::{AMQP_HEADER, SASL_HEADER};
use amqp10::{
    Attach, Begin, Described, Encode, Flow, Map, Open, Performative, Role, SaslFrame, SaslInit, Source,
    Symbol, Target, TargetArchetype, Transfer, Value, put_frame, put_sasl_frame, sections,
};
use bytes::BytesMut;
use conformance::World;
use proptest::collection::vec;
use proptest::prelude::*;

/// A string, symbol or binary in its short or its long encoding.
fn text(short: u8) -> impl Strategy<Value = Vec<u8>> {
    (vec(b'a'..=b'z', 0..300), any::<bool>()).prop_map(move |(text, long)| {
        let mut out = Vec::new();
        if long || text.len() > 255 {
            out.push(short | 0x10);
            out.extend((text.len() as u32).to_be_bytes());
        } else {
            out.extend([short, text.len() as u8]);
        }
        out.extend(text);
        out
    })
}

fn fixed(code: u8, width: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), width).prop_map(move |bytes| [vec![code], bytes].concat())
}

/// Values in every encoding that the standard allows, not only the shortest.
fn scalar() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![vec![0x40], vec![0x41], vec![0x42], vec![0x43], vec![0x44]]),
        any::<bool>().prop_map(|v| vec![0x56, u8::from(v)]),
        prop::sample::select(vec![0x50u8, 0x51, 0x52, 0x53, 0x54, 0x55]).prop_flat_map(|c| fixed(c, 1)),
        prop::sample::select(vec![0x60u8, 0x61]).prop_flat_map(|c| fixed(c, 2)),
        prop::sample::select(vec![0x70u8, 0x71, 0x72, 0x74]).prop_flat_map(|c| fixed(c, 4)),
        prop::sample::select(vec![0x80u8, 0x81, 0x82, 0x83, 0x84]).prop_flat_map(|c| fixed(c, 8)),
        prop::sample::select(vec![0x94u8, 0x98]).prop_flat_map(|c| fixed(c, 16)),
        any::<char>().prop_map(|c| [vec![0x73], (c as u32).to_be_bytes().to_vec()].concat()),
        text(0xa0),
        text(0xa1),
        text(0xa3),
    ]
    .boxed()
}

/// The head of a compound value: size and count in one byte each or in four.
fn compound(short: u8, count: usize, content: &[u8], long: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if long || content.len() > 254 || count > 255 {
        out.push(short | 0x10);
        out.extend((content.len() as u32 + 4).to_be_bytes());
        out.extend((count as u32).to_be_bytes());
    } else {
        out.extend([short, content.len() as u8 + 1, count as u8]);
    }
    out.extend_from_slice(content);
    out
}

fn list(item: BoxedStrategy<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (vec(item, 0..5), any::<bool>()).prop_map(|(items, long)| match items.len() {
        0 if !long => vec![0x45],
        n => compound(0xc0, n, &items.concat(), long),
    })
}

fn value() -> BoxedStrategy<Vec<u8>> {
    scalar()
        .prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                list(inner.clone()),
                (vec((text(0xa1), inner.clone()), 0..4), any::<bool>()).prop_map(|(pairs, long)| {
                    let content: Vec<u8> =
                        pairs.iter().flat_map(|(k, v)| [k.clone(), v.clone()].concat()).collect();
                    compound(0xc1, pairs.len() * 2, &content, long)
                }),
                (vec(any::<u8>(), 0..20), any::<bool>()).prop_map(|(bytes, long)| array(
                    0x50,
                    bytes.len(),
                    &bytes,
                    long
                )),
            ]
        })
        .boxed()
}

/// An array of ubytes.
fn array(code: u8, count: usize, bytes: &[u8], long: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if long {
        out.push(0xf0);
        out.extend((bytes.len() as u32 + 5).to_be_bytes());
        out.extend((count as u32).to_be_bytes());
    } else {
        out.extend([0xe0, bytes.len() as u8 + 2, count as u8]);
    }
    out.push(code);
    out.extend_from_slice(bytes);
    out
}

/// The descriptor of a section: smallulong, ulong or symbol.
fn descriptor(code: u8, symbol: &'static str) -> impl Strategy<Value = Vec<u8>> {
    (0..3).prop_map(move |form| match form {
        0 => vec![0x00, 0x53, code],
        1 => [&[0x00, 0x80][..], &u64::from(code).to_be_bytes()].concat(),
        _ => [&[0x00, 0xa3, symbol.len() as u8][..], symbol.as_bytes()].concat(),
    })
}

fn section(
    code: u8,
    symbol: &'static str,
    value: impl Strategy<Value = Vec<u8>>,
) -> impl Strategy<Value = Vec<u8>> {
    (descriptor(code, symbol), value).prop_map(|(descriptor, value)| [descriptor, value].concat())
}

/// A map whose keys have one type.
fn map(prefix: &'static str, key: u8) -> impl Strategy<Value = Vec<u8>> {
    let values = if key == 0xa1 { scalar() } else { value() };
    (vec(values, 0..5), any::<bool>(), any::<bool>()).prop_map(move |(values, long, long_keys)| {
        let mut content = Vec::new();
        for (i, value) in values.iter().enumerate() {
            let name = format!("{prefix}{i}");
            match long_keys {
                true => content.extend([&[key | 0x10][..], &(name.len() as u32).to_be_bytes()].concat()),
                false => content.extend([key, name.len() as u8]),
            }
            content.extend(name.as_bytes());
            content.extend(value);
        }
        compound(0xc1, values.len() * 2, &content, long)
    })
}

/// Properties with some null fields, and any number of fields omitted at the end. There is no user-id and no
/// `to`.
fn properties() -> impl Strategy<Value = Vec<u8>> {
    let null = || Just(vec![0x40]).boxed();
    let some = |s: BoxedStrategy<Vec<u8>>| prop_oneof![Just(vec![0x40]), s].boxed();
    let fields = vec![
        some(prop_oneof![text(0xa1), text(0xa0), fixed(0x98, 16), fixed(0x80, 8), fixed(0x53, 1)].boxed()),
        null(),
        null(),
        some(text(0xa1).boxed()),
        some(text(0xa1).boxed()),
        some(prop_oneof![text(0xa1), fixed(0x98, 16)].boxed()),
        some(text(0xa3).boxed()),
        some(text(0xa3).boxed()),
        some(fixed(0x83, 8).boxed()),
        some(fixed(0x83, 8).boxed()),
        some(text(0xa1).boxed()),
        some(prop_oneof![fixed(0x70, 4).boxed(), fixed(0x52, 1).boxed(), Just(vec![0x43]).boxed()].boxed()),
        some(text(0xa1).boxed()),
    ];
    (fields, 0..=13usize, any::<bool>()).prop_map(|(mut fields, n, long)| {
        fields.truncate(n);
        match fields.is_empty() && !long {
            true => vec![0x45],
            false => compound(0xc0, fields.len(), &fields.concat(), long),
        }
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let data = section(0x75, "amqp:data:binary", text(0xa0)).boxed();
    let sequence = section(0x76, "amqp:amqp-sequence:list", list(value())).boxed();
    prop_oneof![
        vec(data, 1..4).prop_map(|all| all.concat()),
        vec(sequence, 1..4).prop_map(|all| all.concat()),
        section(0x77, "amqp:amqp-value:*", value()),
    ]
}

fn optional(s: impl Strategy<Value = Vec<u8>> + 'static) -> BoxedStrategy<Vec<u8>> {
    prop_oneof![Just(Vec::new()), s].boxed()
}

/// The sections before the bare message, and the bare message with its footer.
fn message() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let durable = Just(vec![0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, 0x41]);
    let head = (
        prop_oneof![Just(Vec::new()), durable],
        optional(section(0x71, "amqp:delivery-annotations:map", map("x-d", 0xa3))),
        optional(section(0x72, "amqp:message-annotations:map", map("x-m", 0xa3))),
    );
    let bare = (
        optional(section(0x73, "amqp:properties:list", properties())),
        optional(section(0x74, "amqp:application-properties:map", map("p", 0xa1))),
        body(),
        optional(section(0x78, "amqp:footer:map", map("x-f", 0xa3))),
    );
    (head, bare).prop_map(|((h, d, m), (p, a, b, f))| ([h, d, m].concat(), [p, a, b, f].concat()))
}

fn frame(performative: &impl Encode, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_frame(&mut out, 0, performative);
    out.extend_from_slice(payload);
    let size = (out.len() as u32).to_be_bytes();
    out[..4].copy_from_slice(&size);
    out.to_vec()
}

/// Logs a client in and attaches its link.
fn enter(world: &mut World, name: &str, role: Role) {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    world.connect(name, 0, peer);
    world.raw(name, &SASL_HEADER);
    let mut init = BytesMut::new();
    put_sasl_frame(&mut init, &SaslFrame::Init(SaslInit::new("ANONYMOUS".into())));
    world.raw(name, &init);
    world.raw(name, &AMQP_HEADER);
    world.raw(name, &frame(&Open { max_frame_size: 1 << 20, ..Open::new(name) }, b""));
    world.raw(name, &frame(&Begin::new(0, 100, 100), b""));
    let address = Some("/queues/q".to_owned());
    // The filter makes a stream start at its first message. A classic queue ignores it.
    let first = Described {
        descriptor: Symbol::from_static("rabbitmq:stream-offset-spec").into(),
        value: Symbol::from_static("first").into(),
    };
    let mut filter = Map::new();
    filter.insert(Symbol::from_static("offset"), Value::Described(Box::new(first)));
    let attach = Attach {
        source: Some(Source { address: address.clone(), filter: Some(filter), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target { address, ..Target::default() })),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        ..Attach::new("link", 0, role)
    };
    world.raw(name, &frame(&attach, b""));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bare_message_is_immutable((head, bare) in message(), kind in prop::sample::select(vec!["classic", "quorum", "stream"])) {
        let whole = [head, bare.clone()].concat();
        prop_assume!(sections::scan(&whole).is_ok());
        let mut world = World::default();
        world.declare_queue("q", [("x-queue-type".to_owned(), kind.into())].into(), false).unwrap();
        enter(&mut world, "S", Role::Sender);
        let transfer = Transfer {
            handle: 0,
            delivery_id: Some(0),
            delivery_tag: Some(b"t"),
            message_format: Some(0),
            settled: Some(false),
            more: false,
            rcv_settle_mode: None,
            state: None,
            resume: false,
            aborted: false,
            batchable: false,
        };
        world.raw("S", &frame(&transfer, &whole));
        // The message is received once directly, and once after a restart from the log.
        for round in 0..2 {
            let name = format!("R{round}");
            enter(&mut world, &name, Role::Receiver);
            world.received(&name);
            let mut flow = Flow::new(100, 0, 100);
            (flow.next_incoming_id, flow.handle) = (Some(0), Some(0));
            (flow.delivery_count, flow.link_credit) = (Some(0), Some(1));
            world.raw(&name, &frame(&flow, b""));
            let got = world.received(&name);
            prop_assert!(got.ends_with(&bare), "{kind}, round {round}: {bare:02x?} became {got:02x?}");
            let payload = payload_of(&got);
            let found = sections::scan(payload).expect("a message");
            prop_assert_eq!(&payload[found.bare.start as usize..], &bare[..]);
            world.restart();
        }
    }
}

/// Returns the message in a single TRANSFER frame.
fn payload_of(frame: &[u8]) -> &[u8] {
    let (_, used) = Performative::decode(&frame[8..]).expect("a TRANSFER");
    &frame[8 + used..]
}
