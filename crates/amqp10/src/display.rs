//! Values as JSON, for error messages.

use std::fmt::{self, Display, Write as _};

use crate::types::Value;

/// Types that JSON does not have become strings: octets and decimals in hex, UUIDs with dashes, characters as
/// they are. A float that is not finite is `null`. A described value is shown without its descriptor.
impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(v) => v.fmt(f),
            Self::Ubyte(v) => v.fmt(f),
            Self::Ushort(v) => v.fmt(f),
            Self::Uint(v) => v.fmt(f),
            Self::Ulong(v) => v.fmt(f),
            Self::Byte(v) => v.fmt(f),
            Self::Short(v) => v.fmt(f),
            Self::Int(v) => v.fmt(f),
            Self::Long(v) | Self::Timestamp(v) => v.fmt(f),
            // The debug form uses an exponent instead of many zeros.
            Self::Float(v) if v.is_finite() => write!(f, "{v:?}"),
            Self::Double(v) if v.is_finite() => write!(f, "{v:?}"),
            Self::Float(_) | Self::Double(_) => f.write_str("null"),
            Self::Decimal32(octets) => hex(f, octets),
            Self::Decimal64(octets) => hex(f, octets),
            Self::Decimal128(octets) => hex(f, octets),
            Self::Char(c) => text(f, c.encode_utf8(&mut [0; 4])),
            Self::Uuid(octets) => {
                f.write_char('"')?;
                for (at, octet) in octets.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{dash}{octet:02x}")?;
                }
                f.write_char('"')
            }
            Self::Binary(octets) => match std::str::from_utf8(octets) {
                Ok(string) => text(f, string),
                Err(_) => hex(f, octets),
            },
            Self::String(string) => text(f, string),
            Self::Symbol(symbol) => text(f, symbol.as_str()),
            Self::List(items) => list(f, items),
            Self::Array(array) => list(f, array.items()),
            Self::Map(map) => {
                f.write_char('{')?;
                for (at, (key, value)) in map.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { "," })?;
                    match key {
                        Self::String(_) | Self::Symbol(_) => write!(f, "{key}:{value}")?,
                        // Keys of JSON objects are strings.
                        key => {
                            text(f, &key.to_string())?;
                            write!(f, ":{value}")?;
                        }
                    }
                }
                f.write_char('}')
            }
            Self::Described(described) => described.value.fmt(f),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[Value]) -> fmt::Result {
    f.write_char('[')?;
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "" } else { "," })?;
    }
    f.write_char(']')
}

fn hex(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))?;
    f.write_char('"')
}

fn text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use crate::types::{Described, Map, Symbol, Value};

    #[test]
    fn values_are_shown_as_json() {
        let map: Map = [("a\"b", Value::from(1u32)), ("c", Value::Null)].into_iter().collect();
        let numbered = Map(vec![(Value::Uint(1), Value::Boolean(true))]);
        let described = Described { descriptor: Value::Ulong(1), value: "x".into() };
        let cases = [
            (Value::Double(1.23e29), "1.23e29"),
            (Value::Float(1.5), "1.5"),
            (Value::Double(f64::NAN), "null"),
            (Value::Byte(-1), "-1"),
            (Value::Timestamp(7), "7"),
            (Value::Char('é'), "\"é\""),
            (Value::Symbol(Symbol::from_static("s")), "\"s\""),
            (Value::from("a\u{1b}\n\\"), "\"a\\u001b\\u000a\\\\\""),
            (Value::Binary("text".into()), "\"text\""),
            (Value::Binary(vec![0xff, 1].into()), "\"ff01\""),
            (Value::Decimal32([1, 2, 3, 4]), "\"01020304\""),
            (Value::Uuid([0xab; 16]), "\"abababab-abab-abab-abab-abababababab\""),
            (Value::List(vec![Value::Uint(1), "x".into()]), "[1,\"x\"]"),
            (Value::Map(map), "{\"a\\\"b\":1,\"c\":null}"),
            (Value::Map(numbered), "{\"1\":true}"),
            (described.into(), "\"x\""),
        ];
        for (value, json) in cases {
            assert_eq!(value.to_string(), json, "{value:?}");
        }
    }
}
