//! Values of AMQP 0.9.1 in AMQP 1.0, and the reverse.
//!
//! | AMQP 0.9.1 | AMQP 1.0 | | AMQP 1.0 | AMQP 0.9.1 |
//! |---|---|---|---|---|
//! | long string | string if it is UTF-8 without NUL, else binary | | string, symbol, binary, char | long string |
//! | timestamp in s | timestamp in ms | | timestamp in ms | timestamp in s |
//! | array | list | | list, array | array |
//! | table | map with symbols as keys | | map with strings or symbols as keys | table |
//! | void | null | | null | void |
//! | binary | binary | | uuid | long string with `urn:uuid:` |
//! | decimal | left out | | decimals, described values | left out |
//! | numbers, bool | the same type | | ulong | long |
//!
//! Other numbers and booleans of AMQP 1.0 have the same type in AMQP 0.9.1. Decimals in arguments are kept
//! ([`amqp10_argument`]).

use amqp10::decimal::decimal64;
use amqp10::encode;
use amqp10::{Map, Reader, Symbol, Value as Amqp10};
use amqp091::{ArrayWriter, KEY_BYTES_MAX, Table, TableWriter, Value};
use bytes::{Bytes, BytesMut};

use super::URN_UUID;

/// Milliseconds of a second. Timestamps of AMQP 0.9.1 are in seconds.
const SECOND_MS: i64 = 1_000;

/// Converts seconds to the milliseconds of AMQP 1.0. The result is at most the largest timestamp.
pub(super) fn seconds_to_ms(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(SECOND_MS)
}

/// Converts milliseconds to the seconds of AMQP 0.9.1. A time before 1970 becomes 1970.
pub(super) fn ms_to_seconds(ms: i64) -> u64 {
    (ms / SECOND_MS).try_into().unwrap_or(0)
}

/// Returns the bytes as text if they are UTF-8 without NUL, which many programs take as the end of a text.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Converts an argument of AMQP 0.9.1, for example of a queue. Unlike a header of a message, it may be a decimal.
pub fn amqp10_argument(value: Value<'_>) -> Amqp10 {
    match value {
        Value::Decimal { scale, value } => Amqp10::Decimal64(decimal64(scale, value)),
        Value::Array(array) => Amqp10::List(array.iter().map(amqp10_argument).collect()),
        Value::Table(table) => {
            let ascii = table.iter().filter(|(name, _)| name.is_ascii());
            Amqp10::Map(Map(ascii.map(|(name, value)| (symbol(name), amqp10_argument(value))).collect()))
        }
        // Only decimals have no value.
        other => amqp10_value(other).unwrap_or(Amqp10::Null),
    }
}

/// Converts a value of AMQP 0.9.1. Returns `None` for a decimal, which consumers of AMQP 1.0 do not get. Decimals in arrays
/// and tables are left out.
pub fn amqp10_value(value: Value<'_>) -> Option<Amqp10> {
    Some(match value {
        Value::Bool(value) => Amqp10::Boolean(value),
        Value::I8(value) => Amqp10::Byte(value),
        Value::U8(value) => Amqp10::Ubyte(value),
        Value::I16(value) => Amqp10::Short(value),
        Value::U16(value) => Amqp10::Ushort(value),
        Value::I32(value) => Amqp10::Int(value),
        Value::U32(value) => Amqp10::Uint(value),
        Value::I64(value) => Amqp10::Long(value),
        Value::F32(value) => Amqp10::Float(value),
        Value::F64(value) => Amqp10::Double(value),
        Value::Decimal { .. } => return None,
        Value::LongString(bytes) => match text(bytes) {
            Some(text) => Amqp10::String(text.to_owned()),
            None => Amqp10::Binary(Bytes::copy_from_slice(bytes)),
        },
        Value::Binary(bytes) => Amqp10::Binary(Bytes::copy_from_slice(bytes)),
        Value::Timestamp(seconds) => Amqp10::Timestamp(seconds_to_ms(seconds)),
        Value::Array(array) => Amqp10::List(array.iter().filter_map(amqp10_value).collect()),
        Value::Table(table) => Amqp10::Map(amqp10_map(table)),
        Value::Void => Amqp10::Null,
    })
}

fn amqp10_map(table: Table<'_>) -> Map {
    let ascii = table.iter().filter(|(name, _)| name.is_ascii());
    Map(ascii.filter_map(|(name, value)| Some((symbol(name), amqp10_value(value)?))).collect())
}

fn symbol(name: &str) -> Amqp10 {
    Amqp10::Symbol(Symbol::from(name.to_owned()))
}

/// Appends a value as AMQP 1.0 encodes it. Appends nothing and returns false for a decimal.
pub(super) fn put_amqp10(out: &mut BytesMut, value: Value<'_>) -> bool {
    match value {
        Value::LongString(bytes) => match text(bytes) {
            Some(text) => encode::put_str(out, text),
            None => encode::put_binary(out, bytes),
        },
        Value::Binary(bytes) => encode::put_binary(out, bytes),
        Value::Timestamp(seconds) => encode::put_timestamp(out, seconds_to_ms(seconds)),
        Value::Array(array) => {
            encode::put_list_with(out, |out| array.iter().filter(|item| put_amqp10(out, *item)).count())
        }
        Value::Table(table) => encode::put_map_with(out, |out| {
            table.iter().filter(|(name, value)| put_amqp10_pair(out, name, *value)).count()
        }),
        Value::Decimal { .. } => return false,
        number => match amqp10_value(number) {
            Some(number) => encode::put_value(out, &number),
            None => return false,
        },
    }
    true
}

/// Appends a symbol and a value. Appends nothing and returns false if the value is a decimal, or if the name is not
/// ASCII: then it is no symbol.
#[inline]
pub(super) fn put_amqp10_pair(out: &mut BytesMut, name: &str, value: Value<'_>) -> bool {
    if !name.is_ascii() || matches!(value, Value::Decimal { .. }) {
        return false;
    }
    encode::put_symbol(out, name);
    put_amqp10(out, value)
}

/// Returns an encoded value of AMQP 1.0, if it is simple and needs no memory in AMQP 0.9.1: no list, map or array, and no
/// uuid or char.
#[inline]
pub(super) fn simple(encoded: &[u8]) -> Option<Value<'_>> {
    let mut reader = Reader::new(encoded);
    Some(match reader.peek()? {
        0xa0 | 0xb0 => Value::LongString(reader.read_binary_opt().ok()??),
        0xa1 | 0xb1 => Value::LongString(reader.read_str_opt().ok()??.as_bytes()),
        0xa3 | 0xb3 => Value::LongString(reader.read_symbol_opt().ok()??.as_bytes()),
        // Lists, maps, arrays, described values and decimals.
        0x00 | 0x45 | 0xc0..=0xff | 0x74 | 0x84 | 0x94 => return None,
        _ => scalar(&reader.read_value().ok()?)?,
    })
}

fn scalar(value: &Amqp10) -> Option<Value<'static>> {
    Some(match *value {
        Amqp10::Null => Value::Void,
        Amqp10::Boolean(value) => Value::Bool(value),
        Amqp10::Ubyte(value) => Value::U8(value),
        Amqp10::Ushort(value) => Value::U16(value),
        Amqp10::Uint(value) => Value::U32(value),
        // AMQP 0.9.1 has no unsigned number of 64 bits. As in RabbitMQ, a large one becomes negative.
        Amqp10::Ulong(value) => Value::I64(value as i64),
        Amqp10::Byte(value) => Value::I8(value),
        Amqp10::Short(value) => Value::I16(value),
        Amqp10::Int(value) => Value::I32(value),
        Amqp10::Long(value) => Value::I64(value),
        Amqp10::Float(value) => Value::F32(value),
        Amqp10::Double(value) => Value::F64(value),
        Amqp10::Timestamp(ms) => Value::Timestamp(ms_to_seconds(ms)),
        _ => return None,
    })
}

/// Appends an entry with an encoded value of AMQP 1.0. Appends nothing if the value is left out or cannot be read.
pub(super) fn put_amqp091_entry(table: &mut TableWriter<'_>, name: &str, encoded: &[u8]) {
    match simple(encoded) {
        Some(value) => table.put(name, &value),
        None => {
            if let Ok(value) = Reader::new(encoded).read_value() {
                put_amqp091_value(table, name, &value);
            }
        }
    }
}

/// Appends an entry with a value of AMQP 1.0, such as an argument of a queue. Appends nothing for a value that is left out.
pub fn put_amqp091_value(table: &mut TableWriter<'_>, name: &str, value: &Amqp10) {
    match value {
        Amqp10::List(items) => put_items(&mut table.array(name), items),
        Amqp10::Array(array) => put_items(&mut table.array(name), array.items()),
        Amqp10::Map(map) => put_pairs(&mut table.table(name), map),
        leaf => with_leaf(leaf, |value| table.put(name, &value)),
    }
}

fn put_items(array: &mut ArrayWriter<'_>, items: &[Amqp10]) {
    for item in items {
        match item {
            Amqp10::List(items) => put_items(&mut array.array(), items),
            Amqp10::Array(items) => put_items(&mut array.array(), items.items()),
            Amqp10::Map(map) => put_pairs(&mut array.table(), map),
            leaf => with_leaf(leaf, |value| array.put(&value)),
        }
    }
}

fn put_pairs(table: &mut TableWriter<'_>, map: &Map) {
    for (key, value) in map.iter() {
        // Other keys, and longer ones, have no form in AMQP 0.9.1.
        if let Some(key) = key.as_str().filter(|key| key.len() <= KEY_BYTES_MAX) {
            put_amqp091_value(table, key, value);
        }
    }
}

/// Passes a value that is no list, map or array to `put`, unless it is left out.
fn with_leaf(value: &Amqp10, put: impl FnOnce(Value<'_>)) {
    match value {
        Amqp10::String(text) => put(Value::LongString(text.as_bytes())),
        Amqp10::Symbol(text) => put(Value::LongString(text.as_bytes())),
        Amqp10::Binary(bytes) => put(Value::LongString(bytes)),
        Amqp10::Uuid(uuid) => put(Value::LongString(urn_of(uuid).as_bytes())),
        Amqp10::Char(character) => put(Value::LongString(character.encode_utf8(&mut [0; 4]).as_bytes())),
        other => _ = scalar(other).map(put),
    }
}

/// The positions of the hyphens in the text of a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The number of characters of a UUID as text.
const UUID_CHARS: usize = 36;

/// The text of a UUID after `urn:uuid:`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Urn([u8; URN_UUID.len() + UUID_CHARS]);

impl Urn {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the text of a UUID.
pub(super) fn urn_of(uuid: &[u8; 16]) -> Urn {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut urn = [b'-'; URN_UUID.len() + UUID_CHARS];
    let (prefix, text) = urn.split_at_mut(URN_UUID.len());
    prefix.copy_from_slice(URN_UUID.as_bytes());
    let places = (0..UUID_CHARS).filter(|at| !HYPHENS.contains(at));
    let digits = uuid.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    places.zip(digits).for_each(|(at, digit)| text[at] = DIGITS[usize::from(digit)]);
    Urn(urn)
}

/// Reads a UUID from its text after `urn:uuid:`. Returns `None` for any other text.
pub(super) fn uuid_of(text: &[u8]) -> Option<[u8; 16]> {
    let text = text.strip_prefix(URN_UUID.as_bytes())?;
    if text.len() != UUID_CHARS || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut digits = text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at));
    let mut digit = || char::from(*digits.next()?.1).to_digit(16);
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = (digit()? << 4 | digit()?) as u8;
    }
    Some(uuid)
}

/// Appends text with percent-encoding. Letters, digits and `-._~` stay (RFC 3986, section 2.3).
pub(super) fn put_percent_encoded(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        }
    }
}

/// Decodes percent-encoding. Returns `None` if a `%` is not followed by two digits.
pub(super) fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    while let Some(&byte) = rest.next() {
        decoded.push(match byte {
            b'%' => (digit(rest.next())? << 4 | digit(rest.next())?) as u8,
            plain => plain,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_text_and_back() {
        let uuid = *b"\x10\x1d\x2a\x37\x44\x4f\x5c\x6e\x7b\x88\x95\xa2\xaf\xbc\xc9\xd6";
        let urn = urn_of(&uuid);
        assert_eq!(urn.as_bytes(), b"urn:uuid:101d2a37-444f-5c6e-7b88-95a2afbcc9d6".as_slice());
        assert_eq!(uuid_of(urn.as_bytes()), Some(uuid));
        let upper = String::from_utf8_lossy(urn.as_bytes()).to_uppercase().replace("URN:UUID:", URN_UUID);
        assert_eq!(uuid_of(upper.as_bytes()), Some(uuid));
        for text in [
            "",
            "urn:uuid:",
            "101d2a37-444f-5c6e-7b88-95a2afbcc9d6",
            "urn:uuid:101d2a37-444f-5c6e-7b88-95a2afbcc9d",
            "urn:uuid:101d2a37-444f-5c6e-7b88-95a2afbcc9dg",
            "urn:uuid:101d2a37+444f-5c6e-7b88-95a2afbcc9d6",
            "urn:uuid:101d2a37444f5c6e7b8895a2afbcc9d6----",
        ] {
            assert_eq!(uuid_of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn percent_encoding_is_reversible() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let mut encoded = Vec::new();
        put_percent_encoded(&all, &mut encoded);
        assert!(encoded.is_ascii() && encoded.starts_with(b"%00%01"));
        assert_eq!(percent_decoded(&encoded), Some(all));
        assert_eq!(percent_decoded(b"a%2fb"), Some(b"a/b".to_vec()));
        for text in [&b"%"[..], b"%2", b"%zz", b"a%"] {
            assert_eq!(percent_decoded(text), None);
        }
    }

    #[test]
    fn times_do_not_overflow() {
        assert_eq!((seconds_to_ms(7), seconds_to_ms(u64::MAX)), (7_000, i64::MAX));
        assert_eq!((ms_to_seconds(7_999), ms_to_seconds(-1), ms_to_seconds(i64::MIN)), (7, 0, 0));
    }
}
