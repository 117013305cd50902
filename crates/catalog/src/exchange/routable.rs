//! The parts of a message that an exchange may use for routing: keys, sections, and a random number.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use amqp10::sections::{self, Sections};
use amqp10::{Reader, Value};
use amqp091::{Properties, Value as Field};
use hashbrown::HashMap;
use message::{Format, Message, amqp10_argument};

use super::hash;

/// A message on its way to queues, as exchanges see it. Each section is encoded with its descriptor, or empty. A message of AMQP 0.9.1 has a
/// property list and no sections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Routable<'a> {
    pub keys: &'a [Arc<str>],
    pub annotations: &'a [u8],
    pub properties: &'a [u8],
    pub application_properties: &'a [u8],
    /// The encoded property list of a message of AMQP 0.9.1. `None` for a message of AMQP 1.0.
    pub property_list: Option<&'a [u8]>,
    /// A random number that differs from message to message. It is the only source of randomness here, so a
    /// seed decides everything.
    pub random: u64,
}

impl<'a> Routable<'a> {
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
            property_list: None,
            random,
        }
    }

    /// Describes a message of AMQP 0.9.1 that has just arrived.
    pub fn of_properties(keys: &'a [Arc<str>], list: &'a [u8], random: u64) -> Self {
        Self { keys, property_list: Some(list), random, ..Self::default() }
    }

    /// Returns the bytes that have its headers.
    fn header_bytes(&self) -> usize {
        self.property_list.map_or(self.annotations.len() + self.application_properties.len(), <[u8]>::len)
    }

    /// Describes a message of the broker, with the route that it carries.
    pub fn of_message(message: &'a Message, random: u64) -> Self {
        if message.format() == Format::Amqp091 {
            return Self::of_properties(message.route().keys(), message.property_list(), random);
        }
        Self {
            keys: message.route().keys(),
            annotations: message.annotations(),
            properties: message.properties(),
            application_properties: message.application_properties(),
            property_list: None,
            random,
        }
    }
}

/// A message on its way to queues and what has been read from it. It is made once per message, however many exchanges the
/// message passes.
pub(in super::super) struct Facts<'a> {
    pub routable: Routable<'a>,
    headers: OnceCell<HashMap<&'a str, Header<'a>>>,
    draws: Cell<u64>,
    steps: Cell<u64>,
    /// The number of steps after which the search pauses.
    steps_max: u64,
    /// True for a part of a search. A key that was begun is matched to its end, and headers that an earlier part has read do not use
    /// up the steps of this one: otherwise a search might never get further.
    is_part: bool,
    has_read_headers: bool,
    /// The headers that were read again.
    again: Cell<u64>,
}

/// What remains of [`Facts`] between two parts of a search.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct PausedFacts {
    draws: u64,
    has_headers: bool,
}

impl PausedFacts {
    /// Goes on with the same message.
    pub(crate) fn go_on<'a>(self, routable: &Routable<'a>, steps_max: u64) -> Facts<'a> {
        Facts {
            routable: *routable,
            headers: OnceCell::new(),
            draws: Cell::new(self.draws),
            steps: Cell::new(0),
            steps_max,
            is_part: true,
            has_read_headers: self.has_headers,
            again: Cell::new(0),
        }
    }
}

/// A header of a message, as its protocol encodes it.
#[derive(Clone, Copy, Debug)]
enum Header<'a> {
    Amqp10(&'a [u8]),
    Amqp091(Field<'a>),
}

/// The most bytes of the headers that exchanges read: as many as the frames of AMQP 0.9.1 have by default. Each search reads all of
/// them at once.
pub(super) const HEADER_BYTES_MAX: usize = 131_072;

/// Reading or comparing this many bytes of a value takes about as long as a step.
const BYTES_PER_STEP: u64 = 64;

/// The same for lists, maps, arrays and tables: a value may take one byte, and each is decoded.
const DECODED_BYTES_PER_STEP: u64 = 16;

impl Header<'_> {
    /// Returns the steps of reading the value and of comparing it with another one.
    fn steps(&self) -> u64 {
        let (len, per_step) = match self {
            Self::Amqp10([0xa0..=0xbf, ..]) => (self.len(), BYTES_PER_STEP),
            Self::Amqp091(Field::LongString(_) | Field::Binary(_)) => (self.len(), BYTES_PER_STEP),
            _ => (self.len(), DECODED_BYTES_PER_STEP),
        };
        len as u64 / per_step
    }

    /// Returns the number of bytes of the encoded value. Numbers of AMQP 0.9.1 count none.
    fn len(&self) -> usize {
        match self {
            Self::Amqp10(encoded) => encoded.len(),
            Self::Amqp091(Field::LongString(octets) | Field::Binary(octets)) => octets.len(),
            Self::Amqp091(Field::Table(table)) => table.as_bytes().len(),
            Self::Amqp091(Field::Array(array)) => array.as_bytes().len(),
            Self::Amqp091(_) => 0,
        }
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn new(routable: Routable<'a>, steps_max: u64) -> Self {
        Self { is_part: false, ..PausedFacts::default().go_on(&routable, steps_max) }
    }

    /// Returns what a search that pauses must know to go on.
    pub(crate) fn pause(&self) -> PausedFacts {
        let has_headers = self.has_read_headers || self.headers.get().is_some();
        PausedFacts { draws: self.draws.get(), has_headers }
    }

    /// Counts steps of routing. A step takes a bounded time: it visits a node, a binding, a header or a destination.
    pub(crate) fn count(&self, steps: u64) {
        self.steps.set(self.steps.get() + steps);
    }

    /// Returns the number of steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Returns the steps that the next key may take.
    pub(crate) fn steps_for_key(&self) -> u64 {
        if self.is_part { u64::MAX } else { self.steps_max.saturating_sub(self.steps.get()) }
    }

    /// Returns the steps of reading headers that an earlier part of the search has read. They are not in [`Facts::steps`].
    pub(crate) fn steps_again(&self) -> u64 {
        self.again.get()
    }

    /// Returns true if no steps are left, so that the search pauses at the next place where it can.
    pub(crate) fn is_used_up(&self) -> bool {
        self.steps.get() >= self.steps_max
    }

    /// Returns an application-property, or a message annotation if there is none of that name. A message of AMQP 0.9.1
    /// has headers instead. If a name occurs twice, the first counts. The first call costs one walk over all of them. There is none
    /// if they have more than [`HEADER_BYTES_MAX`] together.
    pub(super) fn header(&self, name: &str) -> Option<Plain<'a>> {
        let headers = self.headers.get_or_init(|| {
            let all = match self.routable.property_list {
                _ if self.routable.header_bytes() > HEADER_BYTES_MAX => HashMap::new(),
                Some(list) => {
                    let mut all = HashMap::new();
                    let headers = properties(list).headers.unwrap_or_default();
                    headers
                        .iter()
                        .for_each(|(key, value)| _ = all.entry(key).or_insert(Header::Amqp091(value)));
                    all
                }
                None => self.annotated(),
            };
            let steps = if self.has_read_headers { &self.again } else { &self.steps };
            steps.set(steps.get() + all.len() as u64);
            all
        });
        self.count(1);
        let header = headers.get(name)?;
        self.count(header.steps());
        match header {
            Header::Amqp10(encoded) => Plain::read(encoded),
            Header::Amqp091(value) => Some(Plain::of_field(*value)),
        }
    }

    /// Returns the application-properties and the message annotations by name.
    fn annotated(&self) -> HashMap<&'a str, Header<'a>> {
        let mut all = HashMap::new();
        for section in [self.routable.application_properties, self.routable.annotations] {
            let pairs = sections::map_pairs(section).into_iter().flatten();
            for (key, value) in pairs.flatten() {
                all.entry(key).or_insert(Header::Amqp10(value));
            }
        }
        all
    }

    /// Returns the field with this index of the properties. In AMQP 0.9.1, it is the property with the same meaning.
    pub(super) fn property(&self, index: u32) -> Option<Plain<'a>> {
        let Some(list) = self.routable.property_list else {
            return Plain::read(sections::property_field(self.routable.properties, index).ok()??);
        };
        let properties = properties(list);
        match index {
            MESSAGE_ID => properties.message_id.map(Plain::Octets),
            CORRELATION_ID => properties.correlation_id.map(Plain::Octets),
            CREATION_TIME => properties.timestamp.map(|seconds| Plain::of_field(Field::Timestamp(seconds))),
            _ => None,
        }
    }

    /// Returns a number below `n`, a different one with each call. Returns 0 if `n` is 0.
    pub(super) fn draw(&self, n: usize) -> usize {
        let draw = self.draws.replace(self.draws.get() + 1);
        let mixed = hash::mix(self.routable.random.wrapping_add(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        ((u128::from(mixed) * n as u128) >> 64) as usize
    }
}

/// Returns true if a message has all of these headers: their names, and their values as text. A header is an
/// application-property or a message annotation, or a header of AMQP 0.9.1. Numbers and booleans match their usual text, such as
/// `3` and `true`. Lists and tables match nothing.
pub fn has_headers(routable: Routable<'_>, wanted: &[(String, String)]) -> bool {
    let facts = Facts::new(routable, u64::MAX);
    wanted.iter().all(|(name, text)| facts.header(name).is_some_and(|value| value.reads(text)))
}

/// The index of fields in the properties section [3.2.4].
pub(super) const MESSAGE_ID: u32 = 0;
pub(super) const CORRELATION_ID: u32 = 5;
pub(super) const CREATION_TIME: u32 = 9;

/// Reads a property list that was checked when the message arrived.
fn properties(list: &[u8]) -> Properties<'_> {
    Properties::view(list).unwrap_or_default()
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
    Other(Cow<'a, Value>),
}

impl<'a> Plain<'a> {
    /// Reads an encoded value. Strings are not copied.
    pub(super) fn read(encoded: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(encoded);
        let octets = match reader.peek()? {
            0xa0 | 0xb0 => reader.read_binary_opt().ok()?,
            0xa1 | 0xb1 => reader.read_str_opt().ok()?.map(str::as_bytes),
            0xa3 | 0xb3 => reader.read_symbol_opt().ok()?.map(str::as_bytes),
            _ => {
                let value = reader.read_value().ok()?;
                return Some(Self::scalar(&value).unwrap_or(Self::Other(Cow::Owned(value))));
            }
        };
        octets.map(Self::Octets)
    }

    /// Converts a value of AMQP 0.9.1.
    fn of_field(value: Field<'a>) -> Self {
        match value {
            Field::LongString(octets) | Field::Binary(octets) => Self::Octets(octets),
            // As in the arguments of bindings, so that decimals are compared, too.
            other => {
                let value = amqp10_argument(other);
                Self::scalar(&value).unwrap_or(Self::Other(Cow::Owned(value)))
            }
        }
    }

    /// Describes a value without copying it: bindings have large ones.
    pub(super) fn of(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Self::Octets(text.as_bytes()),
            Value::Symbol(symbol) => Self::Octets(symbol.as_str().as_bytes()),
            Value::Binary(octets) => Self::Octets(octets),
            other => Self::scalar(other).unwrap_or_else(|| Self::Other(Cow::Borrowed(other))),
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

    /// Returns true if people would write the value as this text.
    fn reads(&self, text: &str) -> bool {
        match self {
            Self::Boolean(v) => text.parse() == Ok(*v),
            // The text `007` is a number, too, but not how one would write 7.
            Self::Integer(v) => v.to_string() == text,
            Self::Float(v) => text.parse() == Ok(*v),
            Self::Octets(octets) => *octets == text.as_bytes(),
            Self::Null | Self::Other(_) => false,
        }
    }

    pub(super) fn is_true(&self) -> bool {
        matches!(self, Self::Boolean(true))
    }

    /// Adds the value to a hash. Equal values add the same bytes.
    pub(super) fn hash(&self, into: &mut hash::Fnv) {
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
