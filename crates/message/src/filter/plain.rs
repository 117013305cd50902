//! Values in the form in which filters compare them.

use std::cmp::Ordering;

use amqp10::{DecodeError, Reader, Value};

/// A simple value without its AMQP type. Numbers of any width, timestamps and characters are numbers.
/// Strings, symbols, binaries and UUIDs are octets, which are borrowed from the message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Plain<'a> {
    /// Null, absent, or not simple. Filters do not distinguish these.
    #[default]
    Null,
    Boolean(bool),
    Integer(i128),
    /// A number with a fraction. It is always finite, because infinities and NaN are not simple values.
    Float(f64),
    Octets(&'a [u8]),
}

/// Returns false for the codes of described values, lists, maps and arrays. None of them is a simple value.
pub(super) fn may_be_simple(code: u8) -> bool {
    !matches!(code, 0x00 | 0x45 | 0xc0..=0xff)
}

impl<'a> Plain<'a> {
    /// Reads the next value. Returns `None` if it is not simple: a list, map or array, a described value, a
    /// decimal, or a float that is not finite.
    ///
    /// # Errors
    /// The value is malformed. The reader's position is then unspecified.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        let octets = match reader.peek() {
            Some(0xa0 | 0xb0) => reader.read_binary_opt()?,
            Some(0xa1 | 0xb1) => reader.read_str_opt()?.map(str::as_bytes),
            Some(0xa3 | 0xb3) => reader.read_symbol_opt()?.map(str::as_bytes),
            // The octets of a UUID are borrowed, after the format code.
            Some(0x98) => {
                let encoded = reader.rest();
                reader.skip_value()?;
                encoded.get(1..17)
            }
            // Only these types would allocate memory, so they are skipped.
            Some(code) if !may_be_simple(code) => {
                reader.skip_value()?;
                return Ok(None);
            }
            _ => return Ok(Self::scalar(&reader.read_value()?)),
        };
        Ok(octets.map(Self::Octets))
    }

    /// Converts a decoded value. Returns `None` if it is not simple.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Binary(octets) => Self::Octets(octets),
            Value::String(text) => Self::Octets(text.as_bytes()),
            Value::Symbol(symbol) => Self::Octets(symbol.as_bytes()),
            Value::Uuid(octets) => Self::Octets(octets),
            scalar => return Self::scalar(scalar),
        })
    }

    /// Converts a value that is not octets.
    fn scalar(value: &Value) -> Option<Self> {
        Some(match *value {
            Value::Null => Self::Null,
            Value::Boolean(v) => Self::Boolean(v),
            Value::Float(v) => return Self::finite(v.into()),
            Value::Double(v) => return Self::finite(v),
            Value::Timestamp(ms) => Self::Integer(ms.into()),
            Value::Char(v) => Self::Integer(u32::from(v).into()),
            Value::Ulong(v) => Self::Integer(v.into()),
            ref other => Self::Integer(other.as_i64()?.into()),
        })
    }

    fn finite(v: f64) -> Option<Self> {
        v.is_finite().then_some(Self::Float(v))
    }

    /// Returns true if both are known and equal. Numbers are compared by value.
    pub(super) fn equals(self, other: Self) -> bool {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            // Faster than `order`, because most octets that differ have different lengths.
            (Self::Octets(a), Self::Octets(b)) => a == b,
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    /// Returns true if both are numbers, both are booleans, or both are octets.
    pub(super) fn is_like(self, other: Self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(_) => matches!(other, Self::Boolean(_)),
            Self::Integer(_) | Self::Float(_) => matches!(other, Self::Integer(_) | Self::Float(_)),
            Self::Octets(_) => matches!(other, Self::Octets(_)),
        }
    }

    /// Returns the order of two numbers, or of two octet strings. Other values have no order.
    pub(super) fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Octets(a), Self::Octets(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Integer(a), Self::Float(b)) => Some(integer_to_float(a, b)),
            (Self::Float(a), Self::Integer(b)) => Some(integer_to_float(b, a).reverse()),
            _ => None,
        }
    }
}

/// Compares exactly. Converting the integer to a float would round it, so 2^53 + 1 would equal 2^53.
fn integer_to_float(integer: i128, float: f64) -> Ordering {
    /// 2^127, the first float above every `i128`.
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if float >= LIMIT {
        return Ordering::Less;
    }
    if float < -LIMIT {
        return Ordering::Greater;
    }
    let whole = float.trunc() as i128;
    integer.cmp(&whole).then_with(|| 0.0f64.total_cmp(&(float.fract() + 0.0)))
}

#[cfg(test)]
mod tests {
    use amqp10::{Array, Described, Encode, Map, Symbol};
    use bytes::{Bytes, BytesMut};

    use super::*;

    #[test]
    fn integers_and_floats_compare_exactly() {
        let pairs = [
            (0, 0.0, Ordering::Equal),
            (0, -0.0, Ordering::Equal),
            (1, 1.5, Ordering::Less),
            (-1, -1.5, Ordering::Greater),
            (-2, -1.5, Ordering::Less),
            ((1 << 53) + 1, 9_007_199_254_740_992.0, Ordering::Greater),
            (i128::MAX, 1e300, Ordering::Less),
            (i128::MIN, -1e300, Ordering::Greater),
            (i128::MIN, (i128::MIN) as f64, Ordering::Equal),
            (i128::MAX, i128::MAX as f64, Ordering::Less),
        ];
        for (integer, float, order) in pairs {
            let (i, f) = (Plain::Integer(integer), Plain::Float(float));
            assert_eq!(i.order(f), Some(order), "{integer} {float}");
            assert_eq!(f.order(i), Some(order.reverse()), "{float} {integer}");
            assert_eq!(i.equals(f), order == Ordering::Equal);
        }
    }

    #[test]
    fn read_and_of_agree_and_read_consumes_the_value() {
        let values = [
            Value::Null,
            Value::Boolean(true),
            Value::Byte(-1),
            Value::Ushort(7),
            Value::Ulong(u64::MAX),
            Value::Long(i64::MIN),
            Value::Float(1.5),
            Value::Double(f64::NAN),
            Value::Float(f32::INFINITY),
            Value::Decimal64([1; 8]),
            Value::Char('a'),
            Value::Timestamp(-5),
            Value::Uuid([3; 16]),
            Value::Binary(Bytes::from_static(b"\xff\x00")),
            Value::String("x".repeat(300)),
            Value::Symbol(Symbol::from_static("s")),
            Value::List(Vec::new()),
            Value::List(vec![Value::Uint(1)]),
            Value::Map(Map::new()),
            Value::Array(Array::symbols([Symbol::from_static("a")])),
            Value::from(Described { descriptor: Value::Ulong(1), value: Value::Uint(1) }),
        ];
        for value in &values {
            let mut encoded = BytesMut::new();
            value.encode(&mut encoded);
            let mut reader = Reader::new(&encoded);
            let read = Plain::read(&mut reader).unwrap();
            assert!(reader.is_empty(), "{value:?}");
            match (read, Plain::of(value)) {
                (None, None) | (Some(Plain::Null), Some(Plain::Null)) => {}
                (Some(a), Some(b)) => assert!(a.equals(b), "{value:?}"),
                (a, b) => panic!("{value:?}: {a:?} and {b:?}"),
            }
        }
        assert!(Plain::read(&mut Reader::new(b"")).is_err());
        assert!(Plain::read(&mut Reader::new(b"\x98\x01")).is_err());
    }
}
