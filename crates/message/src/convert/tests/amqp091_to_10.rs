//! AMQP 0.9.1 to AMQP 1.0.

use super::*;

type Change = fn(&mut Written091);

/// The name of a row, what the publisher writes, and what a receiver of AMQP 1.0 gets.
type Case = (&'static str, Change, &'static [&'static str]);

const CASES: &[Case] = &[
    ("nothing", |_| {}, &[]),
    ("delivery-mode 2", |w| w.properties.delivery_mode = Some(2), &["durable"]),
    ("delivery-mode 1", |w| w.properties.delivery_mode = Some(1), &[]),
    ("expiration", |w| w.properties.expiration = Some(b"60000"), &["ttl 60000"]),
    ("expiration above 32 bits", |w| w.properties.expiration = Some(b"99999999999"), &["ttl 4294967295"]),
    ("priority", |w| w.properties.priority = Some(9), &["priority 9"]),
    ("message-id", |w| w.properties.message_id = Some(b"id"), &["message-id=String(\"id\")"]),
    (
        "message-id, uuid",
        |w| w.properties.message_id = Some(b"urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"),
        &["message-id=Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])"],
    ),
    (
        "message-id, almost a uuid",
        |w| w.properties.message_id = Some(b"urn:uuid:nonsense"),
        &["message-id=String(\"urn:uuid:nonsense\")"],
    ),
    (
        "message-id that is not text",
        |w| w.properties.message_id = Some(b"\xff\x00"),
        &["message-id=Binary(b\"\\xff\\0\")"],
    ),
    ("correlation-id", |w| w.properties.correlation_id = Some(b"id"), &["correlation-id=String(\"id\")"]),
    (
        "correlation-id, uuid",
        |w| w.properties.correlation_id = Some(b"urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"),
        &["correlation-id=Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])"],
    ),
    ("user-id", |w| w.properties.user_id = Some(b"me"), &["user-id=Binary(b\"me\")"]),
    (
        "reply-to",
        |w| w.properties.reply_to = Some("a/b ü".as_bytes()),
        &["reply-to=String(\"/queues/a%2Fb%20%C3%BC\")"],
    ),
    ("type", |w| w.properties.message_type = Some(b"t"), &["annotation x-basic-type=String(\"t\")"]),
    ("app-id", |w| w.properties.app_id = Some(b"app"), &["group-id=String(\"app\")"]),
    ("timestamp", |w| w.properties.timestamp = Some(7), &["creation-time=Timestamp(7000)"]),
    ("content-type", |w| w.properties.content_type = Some(b"a/b"), &["content-type=Symbol(:a/b)"]),
    ("content-encoding", |w| w.properties.content_encoding = Some(b"gz"), &["content-encoding=Symbol(:gz)"]),
    ("a content-type that is no symbol", |w| w.properties.content_type = Some("ü".as_bytes()), &[]),
    ("cluster-id", |w| w.properties.cluster_id = Some(b"c"), &[]),
    ("header x-", |w| w.headers = vec![("x-a", Value::I32(1))], &["annotation x-a=Int(1)"]),
    (
        "header x- with an array",
        |w| {
            w.headers =
                vec![("x-a", array(&[Value::I32(1), text("b"), Value::Decimal { scale: 1, value: 2 }]))]
        },
        &["annotation x-a=List([Int(1), String(\"b\")])"],
    ),
    (
        "header x- with a table",
        |w| w.headers = vec![("x-a", table(&[("k", Value::Bool(true)), ("l", array(&[]))]))],
        &["annotation x-a=Map(Map([(Symbol(:k), Boolean(true)), (Symbol(:l), List([]))]))"],
    ),
    (
        "header x-death of a publisher",
        |w| w.headers = vec![("x-death", array(&[table(&[("count", Value::I64(1))])]))],
        &["annotation x-death=List([Map(Map([(Symbol(:count), Long(1))]))])"],
    ),
    ("header x- that is no symbol", |w| w.headers = vec![("x-ü", Value::I32(1))], &[]),
    (
        "header CC",
        |w| w.headers = vec![("CC", array(&[text("a"), text("b")]))],
        &["annotation x-cc=List([String(\"a\"), String(\"b\")])"],
    ),
    ("header BCC", |w| w.headers = vec![("BCC", array(&[text("a")]))], &[]),
    ("bool", |w| w.headers = vec![("h", Value::Bool(true))], &["h=Boolean(true)"]),
    ("byte", |w| w.headers = vec![("h", Value::I8(-1))], &["h=Byte(-1)"]),
    ("unsignedbyte", |w| w.headers = vec![("h", Value::U8(1))], &["h=Ubyte(1)"]),
    ("short", |w| w.headers = vec![("h", Value::I16(-1))], &["h=Short(-1)"]),
    ("unsignedshort", |w| w.headers = vec![("h", Value::U16(1))], &["h=Ushort(1)"]),
    ("signedint", |w| w.headers = vec![("h", Value::I32(-1))], &["h=Int(-1)"]),
    ("unsignedint", |w| w.headers = vec![("h", Value::U32(1))], &["h=Uint(1)"]),
    ("long", |w| w.headers = vec![("h", Value::I64(-1))], &["h=Long(-1)"]),
    ("float", |w| w.headers = vec![("h", Value::F32(1.5))], &["h=Float(1.5)"]),
    ("double", |w| w.headers = vec![("h", Value::F64(1.5))], &["h=Double(1.5)"]),
    ("longstr", |w| w.headers = vec![("h", text("ü"))], &["h=String(\"ü\")"]),
    (
        "longstr that is not text",
        |w| w.headers = vec![("h", Value::LongString(b"\xff"))],
        &["h=Binary(b\"\\xff\")"],
    ),
    ("longstr with NUL", |w| w.headers = vec![("h", Value::LongString(b"a\0"))], &["h=Binary(b\"a\\0\")"]),
    ("binary", |w| w.headers = vec![("h", Value::Binary(b"a"))], &["h=Binary(b\"a\")"]),
    ("timestamp header", |w| w.headers = vec![("h", Value::Timestamp(7))], &["h=Timestamp(7000)"]),
    ("void", |w| w.headers = vec![("h", Value::Void)], &["h=Null"]),
    ("decimal", |w| w.headers = vec![("h", Value::Decimal { scale: 1, value: 2 })], &[]),
    ("array", |w| w.headers = vec![("h", array(&[Value::I32(1)]))], &[]),
    ("table", |w| w.headers = vec![("h", table(&[("k", Value::I32(1))]))], &[]),
    (
        "a name that occurs twice",
        |w| {
            w.headers = vec![
                ("h", Value::I32(1)),
                ("x-h", Value::I32(2)),
                ("h", Value::I32(3)),
                ("x-h", Value::I32(4)),
            ]
        },
        &["annotation x-h=Int(2)", "h=Int(1)"],
    ),
    (
        "x-cc beside CC",
        |w| w.headers = vec![("CC", array(&[text("a")])), ("x-cc", Value::I32(1))],
        &["annotation x-cc=List([String(\"a\")])"],
    ),
    (
        "x-basic-type beside type",
        |w| {
            w.headers = vec![("x-basic-type", text("header"))];
            w.properties.message_type = Some(b"property");
        },
        &["annotation x-basic-type=String(\"property\")"],
    ),
    ("payload", |w| w.payload = b"hello", &["body \\x00Su\\xa0\\x05hello"]),
    ("no payload", |w| w.payload = b"", &["body \\x00Su\\xa0\\x00"]),
    (
        "type amqp-1.0",
        |w| {
            w.properties.message_type = Some(b"amqp-1.0");
            w.payload = b"\x00\x53\x77\xa1\x02hi";
        },
        &["annotation x-basic-type=String(\"amqp-1.0\")", "body \\x00Sw\\xa1\\x02hi"],
    ),
    (
        "type amqp-1.0 with a footer",
        |w| {
            w.properties.message_type = Some(b"amqp-1.0");
            w.payload = b"\x00\x53\x76\x45\x00\x53\x78\xc1\x01\x00";
        },
        &["annotation x-basic-type=String(\"amqp-1.0\")", "body \\x00SvE\\x00Sx\\xc1\\x01\\x00"],
    ),
    (
        "type amqp-1.0 that is none",
        |w| {
            w.properties.message_type = Some(b"amqp-1.0");
            w.payload = b"oops";
        },
        &["annotation x-basic-type=String(\"amqp-1.0\")", "body \\x00Su\\xa0\\x04oops"],
    ),
    (
        "type amqp-1.0 with more than a body",
        |w| {
            w.properties.message_type = Some(b"amqp-1.0");
            w.payload = b"\x00\x53\x73\x45\x00\x53\x77\x40";
        },
        &["annotation x-basic-type=String(\"amqp-1.0\")", "body \\x00Su\\xa0\\x08\\x00SsE\\x00Sw@"],
    ),
    (
        "x-amqp-1.0-properties",
        |w| {
            w.properties.message_id = Some(b"other");
            w.headers =
                vec![("x-amqp-1.0-properties", Value::LongString(b"\x00\x53\x73\xc0\x04\x01\xa1\x01m"))];
        },
        &[
            "annotation x-amqp-1.0-properties=Binary(b\"\\0Ss\\xc0\\x04\\x01\\xa1\\x01m\")",
            "message-id=String(\"m\")",
        ],
    ),
    (
        "x-amqp-1.0-app-properties",
        |w| {
            w.headers = vec![
                ("x-amqp-1.0-app-properties", Value::Binary(b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x54\x01")),
                ("h", Value::I32(2)),
            ];
        },
        &[
            "annotation x-amqp-1.0-app-properties=Binary(b\"\\0St\\xc1\\x06\\x02\\xa1\\x01kT\\x01\")",
            "k=Int(1)",
        ],
    ),
    (
        "x-amqp-1.0-message-annotations",
        |w| {
            w.properties.message_type = Some(b"t");
            w.headers = vec![(
                "x-amqp-1.0-message-annotations",
                Value::Binary(b"\x00\x53\x72\xc1\x08\x02\xa3\x03x-a\x54\x01"),
            )];
        },
        &["annotation x-a=Int(1)"],
    ),
    (
        "x-amqp-1.0-footer",
        |w| {
            w.headers =
                vec![("x-amqp-1.0-footer", Value::Binary(b"\x00\x53\x78\xc1\x08\x02\xa3\x03x-f\x54\x01"))]
        },
        &[
            "annotation x-amqp-1.0-footer=Binary(b\"\\0Sx\\xc1\\x08\\x02\\xa3\\x03x-fT\\x01\")",
            "body \\x00Su\\xa0\\x02hi\\x00Sx\\xc1\\x08\\x02\\xa3\\x03x-fT\\x01",
        ],
    ),
    (
        "x-amqp-1.0-properties that is no section",
        |w| w.headers = vec![("x-amqp-1.0-properties", Value::Binary(b"\x00\x53\x77\x40"))],
        &["annotation x-amqp-1.0-properties=Binary(b\"\\0Sw@\")"],
    ),
];

#[test]
fn every_row_is_converted() {
    for (name, change, expected) in CASES {
        let mut written = Written091 { payload: b"hi", ..Written091::default() };
        change(&mut written);
        let message = written.message();
        let converted = message.in_amqp10();
        assert_eq!(shown10(&converted), *expected, "{name}");
        assert_eq!(converted.route(), message.route());
        assert!(matches!(converted.in_amqp10(), std::borrow::Cow::Borrowed(_)), "it is converted once");
    }
}

/// Tests that the positions of the sections are right, with all sections and with only some.
#[test]
fn sections_are_where_the_message_says() {
    for at in 0..16u8 {
        let mut written = Written091 { payload: b"hi", ..Written091::default() };
        if at & 1 != 0 {
            written.headers.push(("x-a", Value::I32(1)));
        }
        if at & 2 != 0 {
            written.properties.message_id = Some(b"id");
        }
        if at & 4 != 0 {
            written.headers.push(("h", text("v")));
        }
        if at & 8 != 0 {
            written.payload = &[7; 1000];
        }
        let message = written.message();
        let converted = message.in_amqp10();
        let found = sections::scan(converted.wire()).unwrap();
        let (bare_at, application_properties_at, body_at) = converted.offsets();
        assert_eq!((found.bare.start, found.body.start), (bare_at, body_at));
        assert_eq!(
            found.application_properties.map_or(body_at, |range| range.start),
            application_properties_at
        );
        assert!(converted.wire().len() as u64 <= message.bytes_in_amqp10_max());
    }
}

/// Tests more headers than are compared with each other, and names that many of them share.
#[test]
fn many_headers_are_converted_quickly() {
    let names: Vec<&'static str> = (0..20_000).map(|n| &*format!("{}", n % 15_000).leak()).collect();
    let headers = names.iter().map(|name| (*name, Value::Void)).collect();
    let message = Written091 { headers, payload: b"hi", ..Written091::default() }.message();
    assert_eq!(shown10(&message.in_amqp10()).len(), 15_000);
}
