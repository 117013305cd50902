use proptest::prelude::*;

use super::*;

fn encoded(filter: &Filter) -> Vec<u8> {
    let mut out = Vec::new();
    filter.encode(&mut out);
    out
}

/// Reads a filter that is followed by another byte, and checks that this byte is left.
fn decoded(mut bytes: Vec<u8>) -> Option<Filter> {
    bytes.push(7);
    let mut bytes = Bytes::from(bytes);
    let filter = Filter::decode(&mut bytes)?;
    assert_eq!(bytes, [7_u8][..], "what follows the filter is left");
    Some(filter)
}

/// Decoding damaged bytes must not panic. What is read is written and read again without a change.
fn check_damaged(bytes: &[u8]) {
    if let Some(filter) = Filter::decode(&mut Bytes::copy_from_slice(bytes)) {
        assert_eq!(decoded(encoded(&filter)), Some(filter));
    }
}

fn simple() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<i32>().prop_map(|v| Value::Float(v as f32 / 8.0)),
        any::<i32>().prop_map(|v| Value::Double(f64::from(v) / 64.0)),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(|octets| Value::Binary(octets.into())),
        "[a-z]{0,5}".prop_map(|text| Value::Symbol(Symbol::from(text))),
        "(|&p:|&s:|&&|&&p:).{0,5}"
            .prop_filter("no modifier", |text| {
                !text.starts_with('&') || ["&p:", "&s:", "&&"].iter().any(|known| text.starts_with(known))
            })
            .prop_map(Value::String),
    ]
}

fn fields() -> impl Strategy<Value = FieldFilter> {
    let named = prop::collection::btree_map(".{0,4}", simple(), 0..=FIELDS_MAX);
    let properties = (any::<u16>(), "(|&p:|&s:|&&)[a-z]{0,4}", any::<u32>());
    (named, properties).prop_map(|(named, (chosen, text, number))| {
        let mut filter = FieldFilter::default();
        if !named.is_empty() {
            filter.add_application_properties(&named.into_iter().collect()).expect("simple values");
        }
        let text = || Value::String(text.clone());
        let wanted = [
            ("to", text()),
            ("group-id", Value::Null),
            ("content-type", Value::Symbol(Symbol::from_static("text/plain"))),
            ("message-id", text()),
            ("group-sequence", Value::Uint(number)),
            ("creation-time", Value::Timestamp(number.into())),
            ("user-id", Value::Binary(vec![number as u8].into())),
        ];
        let chosen = wanted.into_iter().enumerate().filter(|(at, _)| chosen & 1 << at != 0);
        let properties: Map = chosen.map(|(_, (name, value))| (Symbol::from_static(name), value)).collect();
        if !properties.is_empty() {
            filter.add_properties(&properties).expect("the types of the fields");
        }
        filter
    })
}

proptest! {
    #[test]
    fn fields_come_back(filter in fields()) {
        let filter = Filter::Fields(filter);
        prop_assert_eq!(decoded(encoded(&filter)), Some(filter));
    }

    #[test]
    fn no_damage_breaks_the_reader(filter in fields(), at in any::<prop::sample::Index>(), damage: u8) {
        let mut bytes = encoded(&Filter::Fields(filter));
        let at = at.index(bytes.len());
        prop_assert_eq!(Filter::decode(&mut Bytes::copy_from_slice(&bytes[..at])), None);
        bytes[at] ^= damage;
        check_damaged(&bytes);
    }
}

#[test]
fn an_expression_comes_back_as_it_was_written() {
    // Its printed form has more spaces, and is too long to be parsed.
    let long = format!("a='{}'", "x".repeat(SQL_CHARS_MAX - 4));
    for (dialect, text) in [
        (Dialect::Filter, "p.subject  LIKE 'a\u{1f600}%' AND UTC() > 5"),
        (Dialect::Selector, "JMSType between 'a' AND 'b' or not \"x y\" is null"),
        (Dialect::Selector, &*long),
    ] {
        let filter = SqlFilter::parse(text, dialect).expect("an expression");
        assert_eq!(filter.to_string().len() > SQL_CHARS_MAX, text == long);
        let bytes = encoded(&Filter::Sql(filter.clone()));
        let Some(Filter::Sql(back)) = decoded(bytes.clone()) else { panic!("no expression: {text}") };
        assert_eq!((back.text(), back.dialect(), &back), (text, dialect, &filter));
        for at in 0..bytes.len().min(200) {
            assert_eq!(Filter::decode(&mut Bytes::copy_from_slice(&bytes[..at])), None);
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                check_damaged(&damaged);
            }
        }
    }
}

/// A reader applies all rules for the filters of clients.
#[test]
fn filters_that_no_client_may_have_are_refused() {
    let section = |fields: &[(&str, &[u8])]| {
        let mut out = vec![fields.len() as u8];
        for (name, value) in fields {
            out.put_u32_le(name.len() as u32);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value);
        }
        out
    };
    let with = |properties: &[(&str, &[u8])], named: &[(&str, &[u8])]| {
        decoded([&[FIELDS], &section(properties)[..], &section(named)].concat())
    };
    let names: Vec<String> = (0..=FIELDS_MAX).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &b"\x41"[..])).collect();
    assert!(with(&[("to", b"\xa1\x01x")], &many[1..]).is_some());
    assert!(with(&[], &[]).is_some());
    let nested = [&b"\xc0\x02\x01"[..]].repeat(100).concat();
    let zeros = b"\xf0\0\0\0\x05\0\0\x0f\xff\x44";
    type Fields<'a> = &'a [(&'a str, &'a [u8])];
    let wrong: [(Fields<'_>, Fields<'_>); 10] = [
        (&[], &many),
        (&[("to", b"\xa1\x02&x")], &[]),
        (&[("to", b"\x41")], &[]),
        (&[("nothing", b"\x40")], &[]),
        (&[("to", b"\x40"), ("to", b"\x40")], &[]),
        (&[], &[("a", b"\x40"), ("a", b"\x41")]),
        (&[], &[("a", &nested)]),
        (&[], &[("a", zeros)]),
        (&[], &[("a", b"\x74\0\0\0\0")]),
        (&[], &[("a", b"")]),
    ];
    for (properties, named) in wrong {
        assert_eq!(with(properties, named), None, "{properties:?} {named:?}");
    }
    let text = |text: &str| {
        let mut out = vec![SELECTOR];
        out.put_u16_le(text.len() as u16);
        out.extend_from_slice(text.as_bytes());
        decoded(out)
    };
    assert!(text("a = 1").is_some());
    assert_eq!(text("a ="), None);
    assert_eq!(text(&format!("a = {}", "1".repeat(SQL_CHARS_MAX))), None);
    assert_eq!(decoded(vec![SELECTOR, 1, 0, 0xff]), None, "it is no text");
    for kind in [0, 4, 255] {
        assert_eq!(decoded(vec![kind, 0, 0, 0, 0]), None);
    }
}
