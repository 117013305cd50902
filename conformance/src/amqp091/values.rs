//! Values of field tables in the notation of a page. Pages write them as values of AMQP 1.0:
//!
//! ```text
//!   t true   b 1b   B 1ub   s 1s   u 1us   I 1i   i 1u   l 1   f 1.5f   d 1.5   T 1t   V null
//!   S "text", and @longstr b"\xff" if it is not UTF-8     x b"octets"
//!   F {key: value}   A [value, value]   D @decimal [2ub, 314u]   @raw b"octets" stands for any value with its letter
//! ```

use amqp10::{Described, Map, Symbol, Value};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::text::Parsed;

/// Appends a table with its length.
pub(super) fn put_table(out: &mut BytesMut, map: &Map) -> Parsed<()> {
    let mut entries = BytesMut::new();
    for (name, value) in map {
        put_short(&mut entries, name)?;
        put_value(&mut entries, value)?;
    }
    put_long(out, &entries);
    Ok(())
}

/// Appends a short string.
pub(super) fn put_short(out: &mut BytesMut, value: &Value) -> Parsed<()> {
    let octets = octets(value).ok_or_else(|| format!("{value:?} is no string"))?;
    let len = u8::try_from(octets.len()).map_err(|_| "a short string has at most 255 octets")?;
    out.put_u8(len);
    out.put_slice(&octets);
    Ok(())
}

/// Appends octets with their length.
pub(super) fn put_long(out: &mut BytesMut, octets: &[u8]) {
    out.put_u32(octets.len() as u32);
    out.put_slice(octets);
}

/// Returns the octets of a text or a binary.
pub(super) fn octets(value: &Value) -> Option<Bytes> {
    match value {
        Value::Binary(octets) => Some(octets.clone()),
        other => other.as_str().map(|text| Bytes::copy_from_slice(text.as_bytes())),
    }
}

fn put_value(out: &mut BytesMut, value: &Value) -> Parsed<()> {
    let mut number = |letter: u8, octets: &[u8]| {
        out.put_u8(letter);
        out.put_slice(octets);
    };
    match value {
        Value::Null => number(b'V', &[]),
        Value::Boolean(v) => number(b't', &[u8::from(*v)]),
        Value::Byte(v) => number(b'b', &v.to_be_bytes()),
        Value::Ubyte(v) => number(b'B', &[*v]),
        Value::Short(v) => number(b's', &v.to_be_bytes()),
        Value::Ushort(v) => number(b'u', &v.to_be_bytes()),
        Value::Int(v) => number(b'I', &v.to_be_bytes()),
        Value::Uint(v) => number(b'i', &v.to_be_bytes()),
        Value::Long(v) => number(b'l', &v.to_be_bytes()),
        Value::Float(v) => number(b'f', &v.to_be_bytes()),
        Value::Double(v) => number(b'd', &v.to_be_bytes()),
        Value::Timestamp(v) => number(b'T', &v.to_be_bytes()),
        Value::String(_) | Value::Symbol(_) => {
            out.put_u8(b'S');
            put_long(out, value.as_str().unwrap_or_default().as_bytes());
        }
        Value::Binary(octets) => {
            out.put_u8(b'x');
            put_long(out, octets);
        }
        Value::Map(map) => {
            out.put_u8(b'F');
            put_table(out, map)?;
        }
        Value::List(items) => {
            out.put_u8(b'A');
            let mut encoded = BytesMut::new();
            items.iter().try_for_each(|item| put_value(&mut encoded, item))?;
            put_long(out, &encoded);
        }
        Value::Described(described) => match (described.descriptor.as_str(), &described.value) {
            (Some("longstr"), Value::Binary(octets)) => {
                out.put_u8(b'S');
                put_long(out, octets);
            }
            (Some("raw"), Value::Binary(octets)) => out.put_slice(octets),
            (Some("decimal"), Value::List(parts)) => match parts[..] {
                [Value::Ubyte(scale), Value::Uint(digits)] => {
                    out.put_slice(&[b'D', scale]);
                    out.put_u32(digits);
                }
                _ => return Err("@decimal [2ub, 314u]".into()),
            },
            _ => return Err(format!("{described:?} is no value of a field table")),
        },
        other => return Err(format!("{other:?} is no value of a field table")),
    }
    Ok(())
}

/// Reads what the broker has encoded. It panics if that is wrong.
#[derive(Debug)]
pub(super) struct Reader(pub Bytes);

impl Reader {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn octets(&mut self, len: usize) -> Bytes {
        assert!(self.0.len() >= len, "the broker's frame ends within a value");
        self.0.split_to(len)
    }

    pub(super) fn octet(&mut self) -> u8 {
        self.octets(1)[0]
    }

    pub(super) fn short(&mut self) -> u16 {
        self.octets(2).get_u16()
    }

    pub(super) fn long(&mut self) -> u32 {
        self.octets(4).get_u32()
    }

    pub(super) fn longlong(&mut self) -> u64 {
        self.octets(8).get_u64()
    }

    pub(super) fn short_string(&mut self) -> Value {
        let len = self.octet().into();
        text_or_binary(self.octets(len))
    }

    pub(super) fn long_octets(&mut self) -> Bytes {
        let len = self.long() as usize;
        self.octets(len)
    }

    pub(super) fn table(&mut self) -> Map {
        let mut entries = Self(self.long_octets());
        let mut map = Map::new();
        while !entries.is_empty() {
            let name = entries.short_string();
            // A name may occur twice, and both must be seen.
            map.0.push((name, entries.value()));
        }
        map
    }

    fn value(&mut self) -> Value {
        match self.octet() {
            b'V' => Value::Null,
            b't' => Value::Boolean(self.octet() != 0),
            b'b' => Value::Byte(self.octets(1).get_i8()),
            b'B' => Value::Ubyte(self.octet()),
            b's' => Value::Short(self.octets(2).get_i16()),
            b'u' => Value::Ushort(self.short()),
            b'I' => Value::Int(self.octets(4).get_i32()),
            b'i' => Value::Uint(self.long()),
            b'l' => Value::Long(self.octets(8).get_i64()),
            b'f' => Value::Float(self.octets(4).get_f32()),
            b'd' => Value::Double(self.octets(8).get_f64()),
            b'T' => Value::Timestamp(self.octets(8).get_i64()),
            b'S' => match text_or_binary(self.long_octets()) {
                Value::Binary(octets) => described("longstr", Value::Binary(octets)),
                text => text,
            },
            b'x' => Value::Binary(self.long_octets()),
            b'F' => Value::Map(self.table()),
            b'A' => {
                let mut items = Self(self.long_octets());
                let mut values = Vec::new();
                while !items.is_empty() {
                    values.push(items.value());
                }
                Value::List(values)
            }
            b'D' => {
                let scale = self.octet();
                described("decimal", Value::List(vec![Value::Ubyte(scale), Value::Uint(self.long())]))
            }
            letter => panic!("the broker sends a value of the unknown type {:?}", char::from(letter)),
        }
    }
}

/// Returns a string if the octets are UTF-8, else a binary.
pub(super) fn text_or_binary(octets: Bytes) -> Value {
    match std::str::from_utf8(&octets) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => Value::Binary(octets),
    }
}

fn described(descriptor: &'static str, value: Value) -> Value {
    let descriptor = Value::Symbol(Symbol::from_static(descriptor));
    Value::Described(Box::new(Described { descriptor, value }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{show, tokens};

    #[test]
    fn every_type_is_read_as_it_was_written() {
        let line = r#"t={a: true, b: -1b, B: 1ub, s: -1s, u: 1us, I: -1i, i: 1u, l: -1, f: 1.5f, d: 1.5, T: 1t, V: null, S: "x", no: @longstr b"\xff", x: b"\x00", F: {k: []}, A: [1i, "y"], D: @decimal [2ub, 314u]}"#;
        let all = tokens(line).unwrap();
        let Value::Map(map) = &all[0].value else { panic!("a map") };
        let mut out = BytesMut::new();
        put_table(&mut out, map).unwrap();
        // The letters of the types are the names of the entries.
        assert_eq!(&out[4..9], b"\x01at\x01\x01");
        let read = Reader(out.freeze()).table();
        assert_eq!(format!("t={}", show(&Value::Map(read))), line);
    }
}
