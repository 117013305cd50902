use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::encode::put_value;
use crate::types::{Array, Constructor, Described, Map};

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_value(&mut out, value);
    out.to_vec()
}

fn decoded(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = reader.read_value()?;
    reader.expect_end()?;
    Ok(value)
}

fn symbol(text: &'static str) -> Value {
    Value::Symbol(Symbol::from_static(text))
}

fn array(code: u8, items: Vec<Value>) -> Value {
    Value::Array(Array::from_parts(Constructor { descriptors: Vec::new(), code }, items))
}

/// Tests every encoding that decodes to a value. The first one is the one that we write.
#[test]
fn every_encoding_of_every_type() {
    let check = |value: Value, encodings: &[&[u8]]| {
        assert_eq!(encoded(&value), encodings[0], "{value:?}");
        for encoding in encodings {
            assert_eq!(decoded(encoding).as_ref(), Ok(&value), "{encoding:02x?}");
            for len in 0..encoding.len() {
                let cut = &encoding[..len];
                assert!(matches!(decoded(cut), Err(DecodeError::Truncated { .. })), "{cut:02x?}");
                assert!(Reader::new(cut).skip_value().is_err(), "{cut:02x?}");
            }
            let mut reader = Reader::new(encoding);
            assert_eq!(reader.skip_value(), Ok(()));
            assert!(reader.is_empty());
        }
    };
    check(Value::Null, &[&[0x40]]);
    check(Value::Boolean(true), &[&[0x41], &[0x56, 1]]);
    check(Value::Boolean(false), &[&[0x42], &[0x56, 0]]);
    check(Value::Ubyte(0), &[&[0x50, 0]]);
    check(Value::Ubyte(255), &[&[0x50, 255]]);
    check(Value::Ushort(0x0102), &[&[0x60, 1, 2]]);
    check(Value::Uint(0), &[&[0x43], &[0x52, 0], &[0x70, 0, 0, 0, 0]]);
    check(Value::Uint(255), &[&[0x52, 255], &[0x70, 0, 0, 0, 255]]);
    check(Value::Uint(256), &[&[0x70, 0, 0, 1, 0]]);
    check(Value::Ulong(0), &[&[0x44], &[0x53, 0], &[0x80, 0, 0, 0, 0, 0, 0, 0, 0]]);
    check(Value::Ulong(255), &[&[0x53, 255], &[0x80, 0, 0, 0, 0, 0, 0, 0, 255]]);
    check(Value::Ulong(u64::MAX), &[&[0x80, 255, 255, 255, 255, 255, 255, 255, 255]]);
    check(Value::Byte(-2), &[&[0x51, 0xfe]]);
    check(Value::Short(-2), &[&[0x61, 0xff, 0xfe]]);
    check(Value::Int(-128), &[&[0x54, 0x80], &[0x71, 0xff, 0xff, 0xff, 0x80]]);
    check(Value::Int(128), &[&[0x71, 0, 0, 0, 0x80]]);
    check(Value::Long(-1), &[&[0x55, 0xff], &[0x81, 255, 255, 255, 255, 255, 255, 255, 255]]);
    check(Value::Long(-129), &[&[0x81, 255, 255, 255, 255, 255, 255, 255, 0x7f]]);
    check(Value::Float(1.0), &[&[0x72, 0x3f, 0x80, 0, 0]]);
    check(Value::Double(1.0), &[&[0x82, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]]);
    check(Value::Decimal32([1, 2, 3, 4]), &[&[0x74, 1, 2, 3, 4]]);
    check(Value::Decimal64([1; 8]), &[&[0x84, 1, 1, 1, 1, 1, 1, 1, 1]]);
    let wide = |code| [&[code][..], &[7u8; 16]].concat();
    check(Value::Decimal128([7; 16]), &[&wide(0x94)]);
    check(Value::Uuid([7; 16]), &[&wide(0x98)]);
    check(Value::Char('\u{1f980}'), &[&[0x73, 0, 1, 0xf9, 0x80]]);
    check(Value::Timestamp(-1), &[&[0x83, 255, 255, 255, 255, 255, 255, 255, 255]]);
    check(Value::Binary(Bytes::from_static(&[9])), &[&[0xa0, 1, 9], &[0xb0, 0, 0, 0, 1, 9]]);
    check(Value::from("é"), &[&[0xa1, 2, 0xc3, 0xa9], &[0xb1, 0, 0, 0, 2, 0xc3, 0xa9]]);
    check(symbol("a"), &[&[0xa3, 1, b'a'], &[0xb3, 0, 0, 0, 1, b'a']]);
    check(Value::List(vec![]), &[&[0x45], &[0xc0, 1, 0], &[0xd0, 0, 0, 0, 4, 0, 0, 0, 0]]);
    let list = Value::List(vec![Value::Null]);
    check(list, &[&[0xc0, 2, 1, 0x40], &[0xd0, 0, 0, 0, 5, 0, 0, 0, 1, 0x40]]);
    check(Value::Map(Map::new()), &[&[0xc1, 1, 0], &[0xd1, 0, 0, 0, 4, 0, 0, 0, 0]]);
    let map = Value::Map(Map(vec![(Value::Boolean(true), Value::Null)]));
    check(map, &[&[0xc1, 3, 2, 0x41, 0x40], &[0xd1, 0, 0, 0, 6, 0, 0, 0, 2, 0x41, 0x40]]);
    let ubytes = array(0x50, vec![Value::Ubyte(1), Value::Ubyte(2)]);
    check(ubytes, &[&[0xe0, 4, 2, 0x50, 1, 2], &[0xf0, 0, 0, 0, 7, 0, 0, 0, 2, 0x50, 1, 2]]);
    let described = Described { descriptor: Value::Ulong(0x24), value: Value::List(vec![]) };
    let described = Value::Described(Box::new(described));
    check(described.clone(), &[&[0x00, 0x53, 0x24, 0x45], &[0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x24, 0x45]]);
    let twice = Described { descriptor: described.clone(), value: described };
    let both: &[u8] = &[0x00, 0x00, 0x53, 0x24, 0x45, 0x00, 0x53, 0x24, 0x45];
    check(Value::Described(Box::new(twice)), &[both]);
}

/// Arrays keep their constructor, so they are encoded again byte for byte.
#[test]
fn every_array_constructor_round_trips() {
    let arrays: &[&[u8]] = &[
        &[0xe0, 2, 3, 0x40],
        &[0xe0, 2, 3, 0x41],
        &[0xe0, 2, 0, 0x42],
        &[0xe0, 2, 2, 0x43],
        &[0xe0, 2, 2, 0x44],
        &[0xe0, 2, 2, 0x45],
        &[0xe0, 4, 2, 0x56, 0, 1],
        &[0xe0, 4, 2, 0x51, 0, 1],
        &[0xe0, 4, 2, 0x52, 0, 1],
        &[0xe0, 4, 2, 0x53, 0, 1],
        &[0xe0, 4, 2, 0x54, 0, 0xff],
        &[0xe0, 4, 2, 0x55, 0, 0xff],
        &[0xe0, 4, 1, 0x60, 0, 1],
        &[0xe0, 4, 1, 0x61, 0, 1],
        &[0xe0, 6, 1, 0x70, 0, 0, 0, 1],
        &[0xe0, 6, 1, 0x71, 0, 0, 0, 1],
        &[0xe0, 6, 1, 0x72, 0, 0, 0, 1],
        &[0xe0, 6, 1, 0x73, 0, 0, 0, 1],
        &[0xe0, 6, 1, 0x74, 0, 0, 0, 1],
        &[0xe0, 10, 1, 0x80, 0, 0, 0, 1, 0, 0, 0, 1],
        &[0xe0, 10, 1, 0x81, 0, 0, 0, 1, 0, 0, 0, 1],
        &[0xe0, 10, 1, 0x82, 0, 0, 0, 1, 0, 0, 0, 1],
        &[0xe0, 10, 1, 0x83, 0, 0, 0, 1, 0, 0, 0, 1],
        &[0xe0, 10, 1, 0x84, 0, 0, 0, 1, 0, 0, 0, 1],
        &[0xe0, 18, 1, 0x94, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        &[0xe0, 18, 1, 0x98, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        &[0xe0, 5, 2, 0xa0, 1, 9, 0],
        &[0xe0, 5, 2, 0xa1, 1, b'a', 0],
        &[0xe0, 5, 2, 0xa3, 1, b'a', 0],
        &[0xe0, 7, 1, 0xb0, 0, 0, 0, 1, 9],
        &[0xe0, 7, 1, 0xb1, 0, 0, 0, 1, b'a'],
        &[0xe0, 7, 1, 0xb3, 0, 0, 0, 1, b'a'],
        &[0xe0, 7, 2, 0xc0, 1, 0, 2, 1, 0x40],
        &[0xe0, 11, 1, 0xd0, 0, 0, 0, 5, 0, 0, 0, 1, 0x40],
        &[0xe0, 8, 2, 0xc1, 1, 0, 3, 2, 0x41, 0x40],
        &[0xe0, 12, 1, 0xd1, 0, 0, 0, 6, 0, 0, 0, 2, 0x41, 0x40],
        &[0xe0, 8, 2, 0xe0, 2, 5, 0x40, 2, 0, 0x50],
        &[0xe0, 11, 1, 0xf0, 0, 0, 0, 5, 0, 0, 0, 9, 0x41],
        // Described items, with one descriptor and with two.
        &[0xe0, 5, 2, 0x00, 0x53, 0x24, 0x45],
        &[0xe0, 8, 2, 0x00, 0x53, 0x24, 0x00, 0xa3, 0, 0x45],
    ];
    for bytes in arrays {
        let value = decoded(bytes).unwrap_or_else(|error| panic!("{bytes:02x?}: {error}"));
        assert_eq!(&encoded(&value), bytes, "{value:?}");
        for len in 0..bytes.len() {
            assert!(decoded(&bytes[..len]).is_err(), "{:02x?}", &bytes[..len]);
        }
    }
}

#[test]
fn compounds_widen_at_256() {
    for items in [253, 254, 255, 256, 300] {
        let value = Value::List(vec![Value::Null; items]);
        let bytes = encoded(&value);
        // The size includes the count.
        assert_eq!(bytes[0], if items <= 254 { 0xc0 } else { 0xd0 });
        assert_eq!(decoded(&bytes), Ok(value));
    }
    for len in [255, 256] {
        let text = Value::from("x".repeat(len));
        assert_eq!(encoded(&text)[0], if len == 255 { 0xa1 } else { 0xb1 });
        let map = Value::Map([("k", text)].into_iter().collect());
        assert_eq!(encoded(&map)[0], 0xd1);
        assert_eq!(decoded(&encoded(&map)), Ok(map));
    }
}

#[test]
fn typed_reads_take_every_encoding_and_null() {
    macro_rules! check {
        ($read:ident, $value:expr, $($bytes:expr),+) => {
            $(assert_eq!(Reader::new(&$bytes).$read(), Ok(Some($value)));)+
            assert_eq!(Reader::new(&[0x40]).$read(), Ok(None));
            assert!(matches!(Reader::new(&[0x00]).$read(), Err(DecodeError::WrongType { offset: 0, .. })));
            assert_eq!(Reader::new(&[]).$read(), Err(DecodeError::Truncated { offset: 0 }));
        };
    }
    check!(read_bool_opt, true, [0x41], [0x56, 1]);
    check!(read_bool_opt, false, [0x42], [0x56, 0]);
    check!(read_u8_opt, 7, [0x50, 7]);
    check!(read_u16_opt, 7, [0x60, 0, 7]);
    check!(read_u32_opt, 0, [0x43], [0x52, 0], [0x70, 0, 0, 0, 0]);
    check!(read_u32_opt, 7, [0x52, 7], [0x70, 0, 0, 0, 7]);
    check!(read_u64_opt, 0, [0x44], [0x53, 0], [0x80, 0, 0, 0, 0, 0, 0, 0, 0]);
    check!(read_timestamp_opt, 7, [0x83, 0, 0, 0, 0, 0, 0, 0, 7]);
    check!(read_binary_opt, &[9u8][..], [0xa0, 1, 9], [0xb0, 0, 0, 0, 1, 9]);
    check!(read_str_opt, "a", [0xa1, 1, b'a'], [0xb1, 0, 0, 0, 1, b'a']);
    check!(read_symbol_opt, "a", [0xa3, 1, b'a'], [0xb3, 0, 0, 0, 1, b'a']);
}

#[test]
fn multiple_is_nothing_one_or_an_array() {
    let a = || Symbol::from_static("a");
    assert_eq!(Reader::new(&[0x40]).read_symbols(), Ok(vec![]));
    assert_eq!(Reader::new(&[0xa3, 1, b'a']).read_symbols(), Ok(vec![a()]));
    assert_eq!(Reader::new(&[0xe0, 2, 0, 0xa3]).read_symbols(), Ok(vec![]));
    assert_eq!(Reader::new(&[0xe0, 6, 2, 0xa3, 1, b'a', 1, b'a']).read_symbols(), Ok(vec![a(), a()]));
    assert!(Reader::new(&[0xe0, 4, 1, 0xa1, 1, b'a']).read_symbols().is_err());
    assert!(Reader::new(&[0xa1, 1, b'a']).read_symbols().is_err());
}

#[test]
fn malformed_values_are_named() {
    let check = |bytes: &[u8], error: DecodeError| assert_eq!(decoded(bytes), Err(error), "{bytes:02x?}");
    check(&[0x46], DecodeError::UnknownConstructor { offset: 0, code: 0x46 });
    check(&[0xc0, 2, 1, 0xff], DecodeError::UnknownConstructor { offset: 3, code: 0xff });
    check(&[0x56, 2], DecodeError::InvalidBoolean { offset: 1 });
    check(&[0x73, 0, 0, 0xd8, 0], DecodeError::InvalidChar { offset: 1 });
    check(&[0xa1, 1, 0xff], DecodeError::InvalidUtf8 { offset: 1 });
    check(&[0xa3, 2, 0xc3, 0xa9], DecodeError::InvalidSymbol { offset: 1 });
    check(&[0xc1, 2, 1, 0x40], DecodeError::OddMap { offset: 1 });
    check(&[0xc0, 3, 1, 0x40, 0x40], DecodeError::TrailingBytes { offset: 4 });
    check(&[0xe0, 2, 1, 0x47], DecodeError::UnknownConstructor { offset: 3, code: 0x47 });
    assert_eq!(decoded(&[0x56, 2]).unwrap_err().to_string(), "boolean is neither 0 nor 1 at byte 1");
}

#[test]
fn hostile_counts_reserve_nothing() {
    let count_too_large = |bytes: &[u8]| {
        assert!(matches!(decoded(bytes), Err(DecodeError::CountTooLarge { .. })), "{bytes:02x?}");
    };
    count_too_large(&[0xd0, 0, 0, 0, 4, 255, 255, 255, 255]);
    count_too_large(&[0xd1, 0, 0, 0, 4, 255, 255, 255, 254]);
    count_too_large(&[0xf0, 0, 0, 0, 5, 255, 255, 255, 255, 0x50]);
    count_too_large(&[0xf0, 0, 0, 0, 5, 255, 255, 255, 255, 0x98]);
    assert!(Reader::new(&[0xd0, 0, 0, 0, 4, 255, 255, 255, 255]).read_list().is_err());
    assert!(Reader::new(&[0xd1, 0, 0, 0, 4, 255, 255, 255, 254]).read_map().is_err());
    for code in 0x40..=0x45 {
        let bomb = [0xf0, 0, 0, 0, 5, 255, 255, 255, 255, code];
        assert!(matches!(decoded(&bomb), Err(DecodeError::TooManyItems { .. })));
        assert_eq!(Reader::new(&bomb).skip_value(), Ok(()));
    }
    // The budget of zero-width items is for the whole value, not for each array.
    let array = |count: u32| {
        let mut bytes = vec![0xf0, 0, 0, 0, 5];
        bytes.extend(count.to_be_bytes());
        bytes.push(0x40);
        bytes
    };
    let list = |counts: [u32; 2]| {
        let mut bytes = vec![0xc0, 21, 2];
        counts.iter().for_each(|count| bytes.extend(array(*count)));
        bytes
    };
    let half = MAX_ZERO_WIDTH_ITEMS / 2;
    assert!(decoded(&list([half, half])).is_ok());
    assert!(matches!(decoded(&list([half, half + 1])), Err(DecodeError::TooManyItems { .. })));
}

#[test]
fn nesting_is_bounded() {
    let deep = |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    let most = MAX_NESTING as usize;
    assert_eq!(decoded(&encoded(&deep(most))), Ok(deep(most)));
    assert!(matches!(decoded(&encoded(&deep(most + 1))), Err(DecodeError::TooDeep { .. })));

    let bombs: [&[u8]; 4] = [&[0x00], &[0x00, 0x40], &[0xd0, 0, 0xff, 0, 0, 0, 0, 0, 1], &[0xe0, 0xff, 1]];
    for bomb in bombs {
        let bytes = bomb.repeat(100_000 / bomb.len());
        assert!(decoded(&bytes).is_err());
        let _ = Reader::new(&bytes).skip_value();
    }
    let descriptors = [0x00].repeat(100_000);
    assert!(matches!(Reader::new(&descriptors).skip_value(), Err(DecodeError::TooDeep { .. })));
}

fn any_symbol() -> impl Strategy<Value = Value> {
    "[a-z:-]{0,12}".prop_map(|text| Value::Symbol(Symbol::from(text)))
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        prop_oneof![any::<u32>(), 0..300u32].prop_map(Value::from),
        prop_oneof![any::<u64>(), 0..300u64].prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        prop_oneof![any::<i32>(), -200..200i32].prop_map(Value::from),
        prop_oneof![any::<i64>(), -200..200i64].prop_map(Value::from),
        any::<u32>().prop_map(|bits| Value::Float(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::from),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        vec(any::<u8>(), 0..300).prop_map(|octets| Value::Binary(octets.into())),
        any::<String>().prop_map(Value::from),
        any_symbol(),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::List),
            vec((inner.clone(), inner.clone()), 0..8).prop_map(|pairs| Value::Map(Map(pairs))),
            (inner.clone(), inner.clone()).prop_map(|(descriptor, value)| {
                Value::Described(Box::new(Described { descriptor, value }))
            }),
            vec(any_symbol(), 1..8).prop_map(|items| Value::from(Array::try_from_items(items).unwrap())),
            vec(vec(inner, 0..4).prop_map(Value::List), 1..4)
                .prop_map(|items| Value::from(Array::try_from_items(items).unwrap())),
            vec(any::<i32>().prop_map(Value::from), 1..8)
                .prop_map(|items| Value::from(Array::try_from_items(items).unwrap())),
        ]
    })
}

/// Returns bytes that look like values more often than random bytes do.
fn almost_values() -> impl Strategy<Value = Vec<u8>> {
    let codes = proptest::sample::select(vec![
        0x00, 0x40, 0x41, 0x43, 0x45, 0x50, 0x52, 0x53, 0x56, 0x70, 0xa0, 0xa1, 0xa3, 0xb0, 0xc0, 0xc1, 0xd0,
        0xd1, 0xe0, 0xf0, 1, 2, 3, 4, 5, 8,
    ]);
    vec(prop_oneof![4 => codes, 1 => any::<u8>()], 0..64)
}

proptest! {
    #[test]
    fn values_round_trip(value in any_value()) {
        let bytes = encoded(&value);
        let back = decoded(&bytes);
        prop_assert_eq!(back.as_ref(), Ok(&value));
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.skip_value(), Ok(()));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn truncated_values_are_refused(value in any_value(), cut in any::<proptest::sample::Index>()) {
        let bytes = encoded(&value);
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(decoded(cut).is_err());
        prop_assert!(Reader::new(cut).skip_value().is_err());
    }

    #[test]
    fn skip_consumes_what_read_consumes(bytes in almost_values()) {
        let (mut read, mut skip) = (Reader::new(&bytes), Reader::new(&bytes));
        if let Ok(value) = read.read_value() {
            prop_assert_eq!(skip.skip_value(), Ok(()));
            prop_assert_eq!(skip.position(), read.position());
            // The value is encoded again. Our encoding is never longer than the input, and decodes to the
            // same value.
            let again = encoded(&value);
            prop_assert!(again.len() <= read.position());
            prop_assert_eq!(decoded(&again), Ok(value));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = Reader::new(&bytes).read_value();
        let _ = Reader::new(&bytes).skip_value();
        let _ = Reader::new(&bytes).read_symbols();
    }
}
