//! AMQP 1.0 to AMQP 0.9.1.

use amqp10::{Array, Described};

use super::*;

type Change = fn(&mut Written10);

/// The name of a row, what the publisher writes, and what a consumer of AMQP 0.9.1 gets.
type Case = (&'static str, Change, &'static [&'static str]);

fn string(text: &str) -> Amqp10 {
    Amqp10::String(text.to_owned())
}

fn binary(octets: &'static [u8]) -> Amqp10 {
    Amqp10::Binary(Bytes::from_static(octets))
}

fn application(value: impl Into<Amqp10>) -> Map {
    Map(vec![(string("h"), value.into())])
}

const LONG: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const CASES: &[Case] = &[
    ("nothing", |_| {}, &[]),
    ("header durable", |w| w.header.durable = Some(true), &["delivery_mode=2"]),
    ("header not durable", |w| w.header.durable = Some(false), &[]),
    ("header priority", |w| w.header.priority = Some(9), &["priority=9"]),
    ("header ttl", |w| w.header.ttl = Some(60_000), &["expiration=60000"]),
    ("annotation", |w| w.annotations = annotations([("x-a", Amqp10::Int(1))]), &["x-a=I32(1)"]),
    (
        "annotation x-cc",
        |w| w.annotations = annotations([("x-cc", Amqp10::List(vec![string("a"), string("b")]))]),
        &["CC=[\"a\", \"b\"]"],
    ),
    (
        "annotation x-opt-rabbitmq-received-time",
        |w| w.annotations = annotations([("x-opt-rabbitmq-received-time", Amqp10::Timestamp(7))]),
        &["timestamp_in_ms=I64(7)"],
    ),
    (
        "annotation x-opt-rabbitmq-received-time of another type",
        |w| w.annotations = annotations([("x-opt-rabbitmq-received-time", Amqp10::Int(7))]),
        &["x-opt-rabbitmq-received-time=I32(7)"],
    ),
    (
        "annotations of the broker",
        |w| {
            w.annotations = annotations([
                ("x-exchange", string("e")),
                ("x-routing-key", string("k")),
                ("x-death", Amqp10::Null),
                ("x-basic-new", Amqp10::Null),
            ]);
        },
        &[],
    ),
    (
        "annotation x-basic-type",
        |w| w.annotations = annotations([("x-basic-type", string("t"))]),
        &["type=t"],
    ),
    (
        "annotations for the header",
        |w| {
            w.annotations = annotations([
                ("x-basic-delivery-mode", Amqp10::Ubyte(2)),
                ("x-basic-priority", Amqp10::Ubyte(9)),
                ("x-basic-expiration", string("5")),
            ]);
        },
        &["delivery_mode=2", "priority=9", "expiration=5"],
    ),
    (
        "the header wins",
        |w| {
            w.header = amqp10::Header { priority: Some(3), ttl: Some(4), ..amqp10::Header::default() };
            w.annotations =
                annotations([("x-basic-priority", Amqp10::Ubyte(9)), ("x-basic-expiration", string("5"))]);
        },
        &["priority=3", "expiration=4"],
    ),
    ("message-id", |w| w.properties.message_id = Some(string("id")), &["message_id=id"]),
    (
        "message-id, uuid",
        |w| w.properties.message_id = Some(Amqp10::Uuid(std::array::from_fn(|at| at as u8))),
        &["message_id=urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"],
    ),
    (
        "message-id, ulong",
        |w| w.properties.message_id = Some(Amqp10::Ulong(u64::MAX)),
        &["message_id=18446744073709551615"],
    ),
    ("message-id, ulong 0", |w| w.properties.message_id = Some(Amqp10::Ulong(0)), &["message_id=0"]),
    ("message-id, binary", |w| w.properties.message_id = Some(binary(b"\xff")), &["x-message-id=x\"\\xff\""]),
    ("correlation-id", |w| w.properties.correlation_id = Some(string("id")), &["correlation_id=id"]),
    (
        "correlation-id, uuid",
        |w| w.properties.correlation_id = Some(Amqp10::Uuid([0; 16])),
        &["correlation_id=urn:uuid:00000000-0000-0000-0000-000000000000"],
    ),
    (
        "correlation-id, ulong",
        |w| w.properties.correlation_id = Some(Amqp10::Ulong(7)),
        &["correlation_id=7"],
    ),
    (
        "correlation-id, binary",
        |w| w.properties.correlation_id = Some(binary(b"b")),
        &["x-correlation-id=x\"b\""],
    ),
    ("user-id", |w| w.properties.user_id = Some(Bytes::from_static(b"me")), &["user_id=me"]),
    ("user-id that is not text", |w| w.properties.user_id = Some(Bytes::from_static(b"\xff")), &[]),
    ("user-id with NUL", |w| w.properties.user_id = Some(Bytes::from_static(b"a\0")), &[]),
    (
        "fields without a property",
        |w| {
            w.properties.to = Some("/queues/q".into());
            w.properties.subject = Some("s".into());
            w.properties.absolute_expiry_time = Some(7);
            w.properties.group_sequence = Some(7);
            w.properties.reply_to_group_id = Some("g".into());
        },
        &[],
    ),
    (
        "reply-to of a queue",
        |w| w.properties.reply_to = Some("/queues/a%2Fb%20c".into()),
        &["reply_to=a/b c"],
    ),
    ("reply-to of an invalid queue", |w| w.properties.reply_to = Some("/queues/a%2".into()), &[]),
    (
        "any other reply-to",
        |w| w.properties.reply_to = Some("/exchanges/e/%20".into()),
        &["reply_to=/exchanges/e/%20"],
    ),
    ("content-type", |w| w.properties.content_type = Some(Symbol::from_static("a/b")), &["content_type=a/b"]),
    (
        "content-encoding",
        |w| w.properties.content_encoding = Some(Symbol::from_static("gz")),
        &["content_encoding=gz"],
    ),
    ("creation-time", |w| w.properties.creation_time = Some(7_999), &["timestamp=7"]),
    ("group-id", |w| w.properties.group_id = Some("g".into()), &["app_id=g"]),
    (
        "texts that are too long",
        |w| {
            w.properties.message_id = Some(string(LONG));
            w.properties.user_id = Some(Bytes::from_static(LONG.as_bytes()));
            w.properties.reply_to = Some(LONG.into());
            w.properties.content_type = Some(Symbol::from_static(LONG));
            w.properties.group_id = Some(LONG.into());
            w.application_properties = Map(vec![(string(LONG), Amqp10::Int(1))]);
            w.annotations = Map(vec![(Symbol::from(format!("x-{LONG}")).into(), Amqp10::Int(1))]);
        },
        &[
            "x-message-id=\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
        ],
    ),
    ("string", |w| w.application_properties = application("s"), &["h=\"s\""]),
    ("symbol", |w| w.application_properties = application(Symbol::from_static("s")), &["h=\"s\""]),
    ("binary", |w| w.application_properties = application(binary(b"\xff")), &["h=\"\\xff\""]),
    ("ulong", |w| w.application_properties = application(7u64), &["h=I64(7)"]),
    ("long", |w| w.application_properties = application(Amqp10::Long(-7)), &["h=I64(-7)"]),
    ("uint", |w| w.application_properties = application(7u32), &["h=U32(7)"]),
    ("int", |w| w.application_properties = application(Amqp10::Int(-7)), &["h=I32(-7)"]),
    ("ushort", |w| w.application_properties = application(Amqp10::Ushort(7)), &["h=U16(7)"]),
    ("short", |w| w.application_properties = application(Amqp10::Short(-7)), &["h=I16(-7)"]),
    ("ubyte", |w| w.application_properties = application(Amqp10::Ubyte(7)), &["h=U8(7)"]),
    ("byte", |w| w.application_properties = application(Amqp10::Byte(-7)), &["h=I8(-7)"]),
    ("float", |w| w.application_properties = application(Amqp10::Float(1.5)), &["h=F32(1.5)"]),
    ("double", |w| w.application_properties = application(1.5), &["h=F64(1.5)"]),
    ("boolean", |w| w.application_properties = application(true), &["h=Bool(true)"]),
    ("null", |w| w.application_properties = application(Amqp10::Null), &["h=Void"]),
    ("timestamp", |w| w.application_properties = application(Amqp10::Timestamp(7_999)), &["h=Timestamp(7)"]),
    ("char", |w| w.application_properties = application(Amqp10::Char('ü')), &["h=\"\\xc3\\xbc\""]),
    (
        "uuid",
        |w| w.application_properties = application(Amqp10::Uuid([0; 16])),
        &["h=\"urn:uuid:00000000-0000-0000-0000-000000000000\""],
    ),
    ("decimal32", |w| w.application_properties = application(Amqp10::Decimal32([0; 4])), &[]),
    ("decimal64", |w| w.application_properties = application(Amqp10::Decimal64([0; 8])), &[]),
    ("decimal128", |w| w.application_properties = application(Amqp10::Decimal128([0; 16])), &[]),
    (
        "described",
        |w| {
            let described = Described { descriptor: Amqp10::Ulong(1), value: Amqp10::Uint(1) };
            w.application_properties = application(Amqp10::Described(Box::new(described)));
        },
        &[],
    ),
    (
        "list",
        |w| {
            w.annotations = annotations([(
                "x-l",
                Amqp10::List(vec![Amqp10::Int(1), Amqp10::Decimal32([0; 4]), string("b")]),
            )])
        },
        &["x-l=[I32(1), \"b\"]"],
    ),
    (
        "array",
        |w| {
            let items = Array::try_from_items(vec![Amqp10::Ulong(1), Amqp10::Ulong(2)]).unwrap();
            w.annotations = annotations([("x-l", Amqp10::Array(items))]);
        },
        &["x-l=[I64(1), I64(2)]"],
    ),
    (
        "map",
        |w| {
            let map = Map(vec![
                (Symbol::from_static("k").into(), Amqp10::List(vec![Amqp10::Map(Map::new())])),
                (string("t"), Amqp10::Boolean(false)),
                (Amqp10::Int(1), string("no text as key")),
            ]);
            w.annotations = annotations([("x-m", Amqp10::Map(map))]);
        },
        &["x-m={k: [{}], t: Bool(false)}"],
    ),
    (
        "an annotation and an application-property of one name",
        |w| {
            w.annotations = annotations([("x-h", Amqp10::Int(1))]);
            w.application_properties =
                Map(vec![(string("x-h"), Amqp10::Int(2)), (string("a"), Amqp10::Int(3))]);
        },
        &["a=I32(3)", "x-h=I32(1)"],
    ),
    ("data", |w| w.body = b"\x00\x53\x75\xa0\x05hello".to_vec(), &["payload hello"]),
    (
        "data with a long size",
        |w| w.body = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xb0\x00\x00\x00\x05hello".to_vec(),
        &["payload hello"],
    ),
    (
        "several data sections",
        |w| w.body = b"\x00\x53\x75\xa0\x02he\x00\x53\x75\xa0\x00\x00\x53\x75\xa0\x03llo".to_vec(),
        &["payload hello"],
    ),
    (
        "data with a footer",
        |w| w.body = b"\x00\x53\x75\xa0\x05hello\x00\x53\x78\xc1\x01\x00".to_vec(),
        &["payload hello"],
    ),
    (
        "amqp-value",
        |w| w.body = b"\x00\x53\x77\xa1\x02hi".to_vec(),
        &["type=amqp-1.0", "payload \\x00Sw\\xa1\\x02hi"],
    ),
    (
        "amqp-sequence with a footer",
        |w| w.body = b"\x00\x53\x76\x45\x00\x53\x76\x45\x00\x53\x78\xc1\x01\x00".to_vec(),
        &["type=amqp-1.0", "payload \\x00SvE\\x00SvE\\x00Sx\\xc1\\x01\\x00"],
    ),
];

#[test]
fn every_row_is_converted() {
    for (name, change, expected) in CASES {
        let mut written = Written10::default();
        change(&mut written);
        let message = written.message();
        let converted = message.in_amqp091();
        assert_eq!(shown091(&converted), *expected, "{name}");
        assert_eq!(converted.route(), message.route());
        assert!(matches!(converted.in_amqp091(), std::borrow::Cow::Borrowed(_)), "it is converted once");
        // A delivery gets the same.
        let mut list = BytesMut::new();
        message.put_amqp091_properties(&Default::default(), &mut list);
        let (payload, from) = message.amqp091_payload();
        assert_eq!(shown_list(&list, &payload[from..]), *expected, "{name}");
    }
}

/// Tests the annotation that RabbitMQ and this broker set on dead letters.
#[test]
fn deaths_are_converted() {
    let death = |ttl: Option<u32>, reason: &'static str| {
        let mut map = Map::new();
        let mut put = |key: &'static str, value: Amqp10| map.insert(Symbol::from_static(key), value);
        ttl.into_iter().for_each(|ttl| put("ttl", Amqp10::Uint(ttl)));
        put("queue", string("q"));
        put("reason", Symbol::from_static(reason).into());
        put("count", Amqp10::Ulong(2));
        put("first-time", Amqp10::Timestamp(7_999));
        put("last-time", Amqp10::Timestamp(9_000));
        put("exchange", string("e"));
        put("routing-keys", Amqp10::Array(Array::try_from_items(vec![string("a"), string("b")]).unwrap()));
        Amqp10::Map(map)
    };
    let of = |value: Amqp10| {
        let written =
            Written10 { annotations: annotations([("x-opt-deaths", value)]), ..Written10::default() };
        shown091(&written.message().in_amqp091())
    };
    let array = |items| Amqp10::Array(Array::try_from_items(items).unwrap());
    let rest = "queue: \"q\", time: Timestamp(7), exchange: \"e\", routing-keys: [\"a\", \"b\"]}";
    let first = format!("{{original-expiration: \"5\", count: I64(2), reason: \"expired\", {rest}");
    let second = format!("{{count: I64(2), reason: \"maxlen\", {rest}");
    assert_eq!(
        of(array(vec![death(Some(5), "expired"), death(None, "maxlen")])),
        [format!("x-death=[{first}, {second}]")]
    );
    assert_eq!(of(array(vec![death(None, "unknown")])), Vec::<String>::new());
    assert_eq!(of(string("none")), Vec::<String>::new());
}
