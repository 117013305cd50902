//! The parts of a message that an exchange may use for routing: keys, sections, and a random number.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use amqp10::sections::{self, Sections};
use amqp10::{Reader, Value};
use hashbrown::HashMap;
use message::Message;

use super::hash;

/// A message as exchanges see it. Each section is encoded with its descriptor, or empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Letter<'a> {
    pub keys: &'a [Arc<str>],
    pub annotations: &'a [u8],
    pub properties: &'a [u8],
    pub application_properties: &'a [u8],
    /// A random number that differs from message to message. It is the only source of randomness here, so a
    /// seed decides everything.
    pub random: u64,
}

impl<'a> Letter<'a> {
    /// Describes a message that has just arrived as `bytes`.
    pub fn arrived(keys: &'a [Arc<str>], found: &Sections, bytes: &'a [u8], random: u64) -> Self {
        let section = |range: &Option<std::ops::Range<u32>>| {
            range.as_ref().and_then(|r| bytes.get(r.start as usize..r.end as usize)).unwrap_or_default()
        };
        Self {
            keys,
            annotations: section(&found.message_annotations),
            properties: section(&found.properties),
            application_properties: section(&found.application_properties),
            random,
        }
    }

    /// Describes a message of the broker, with the route that it carries.
    pub fn of_message(message: &'a Message, random: u64) -> Self {
        Self {
            keys: message.route().keys(),
            annotations: message.annotations(),
            properties: message.properties(),
            application_properties: message.application_properties(),
            random,
        }
    }
}

/// A letter and what has been read from it. It is made once per message, however many exchanges the
/// message passes.
pub(in super::super) struct Facts<'a> {
    pub letter: Letter<'a>,
    headers: OnceCell<HashMap<&'a str, &'a [u8]>>,
    draws: Cell<u64>,
}

impl<'a> Facts<'a> {
    pub fn new(letter: Letter<'a>) -> Self {
        Self { letter, headers: OnceCell::new(), draws: Cell::new(0) }
    }

    /// Returns an application-property, or a message annotation if there is none of that name. If a name
    /// occurs twice, the first counts. The first call costs one walk over both sections.
    pub(super) fn header(&self, name: &str) -> Option<Plain<'a>> {
        let headers = self.headers.get_or_init(|| {
            let mut all = HashMap::new();
            for section in [self.letter.application_properties, self.letter.annotations] {
                let pairs = sections::map_pairs(section).into_iter().flatten();
                for (key, value) in pairs.flatten() {
                    all.entry(key).or_insert(value);
                }
            }
            all
        });
        Plain::read(headers.get(name)?)
    }

    /// Returns the field with this index of the properties.
    pub(super) fn property(&self, index: u32) -> Option<Plain<'a>> {
        Plain::read(sections::property_field(self.letter.properties, index).ok()??)
    }

    /// Returns a number below `n`, a different one with each call. Returns 0 if `n` is 0.
    pub(super) fn draw(&self, n: usize) -> usize {
        let draw = self.draws.replace(self.draws.get() + 1);
        let mixed = hash::mix(self.letter.random.wrapping_add(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        ((u128::from(mixed) * n as u128) >> 64) as usize
    }
}

/// A value as exchanges compare it. Numbers are compared by value, whatever their width; strings, symbols
/// and binaries by their bytes; timestamps by their milliseconds.
#[derive(Clone, Debug)]
pub(super) enum Plain<'a> {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Octets(&'a [u8]),
    Other(Value),
}

impl<'a> Plain<'a> {
    /// Reads an encoded value. Strings are not copied.
    pub fn read(encoded: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(encoded);
        let octets = match reader.peek()? {
            0xa0 | 0xb0 => reader.read_binary_opt().ok()?,
            0xa1 | 0xb1 => reader.read_str_opt().ok()?.map(str::as_bytes),
            0xa3 | 0xb3 => reader.read_symbol_opt().ok()?.map(str::as_bytes),
            _ => {
                let value = reader.read_value().ok()?;
                return Some(Self::scalar(&value).unwrap_or(Self::Other(value)));
            }
        };
        octets.map(Self::Octets)
    }

    pub fn of(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Self::Octets(text.as_bytes()),
            Value::Symbol(symbol) => Self::Octets(symbol.as_str().as_bytes()),
            Value::Binary(octets) => Self::Octets(octets),
            other => Self::scalar(other).unwrap_or_else(|| Self::Other(other.clone())),
        }
    }

    fn scalar(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Boolean(v) => Self::Boolean(*v),
            Value::Float(v) => Self::Float((*v).into()),
            Value::Double(v) => Self::Float(*v),
            Value::Timestamp(ms) => Self::Integer((*ms).into()),
            Value::Ulong(v) => Self::Integer((*v).into()),
            other => Self::Integer(other.as_i64()?.into()),
        })
    }

    pub fn is_true(&self) -> bool {
        matches!(self, Self::Boolean(true))
    }

    /// Adds the value to a hash. Equal values add the same bytes.
    pub fn hash(&self, into: &mut hash::Fnv) {
        match self {
            Self::Null => into.write(&[0]),
            Self::Boolean(v) => into.write(&[1, u8::from(*v)]),
            Self::Integer(v) => {
                into.write(&[2]);
                into.write(&v.to_be_bytes());
            }
            // A float without a fraction is converted to the integer that it equals.
            Self::Float(v) if v.fract() == 0.0 && v.abs() < 1e38 => Self::Integer(*v as i128).hash(into),
            Self::Float(v) => {
                into.write(&[3]);
                into.write(&v.to_bits().to_be_bytes());
            }
            Self::Octets(octets) => {
                into.write(&[4]);
                into.write(octets);
            }
            Self::Other(value) => {
                let mut encoded = bytes::BytesMut::new();
                amqp10::encode::put_value(&mut encoded, value);
                into.write(&[5]);
                into.write(&encoded);
            }
        }
    }
}

impl PartialEq for Plain<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Integer(i), Self::Float(f)) | (Self::Float(f), Self::Integer(i)) => {
                f.fract() == 0.0 && f.abs() < 1e38 && *f as i128 == *i
            }
            (Self::Octets(a), Self::Octets(b)) => a == b,
            (Self::Other(a), Self::Other(b)) => a == b,
            _ => false,
        }
    }
}
