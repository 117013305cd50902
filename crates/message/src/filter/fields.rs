//! Property filters: fields that must have certain values (AMQP filter expressions, section 4).
//!
//! | reference value | matches |
//! |---|---|
//! | null | anything; an application-property must be present |
//! | a string `&p:x`, `&s:x` | octets that start with x, that end with x |
//! | a string `&&x` | exactly `&x` |
//! | any other string that starts with `&` | nothing: the filter is refused |
//! | any other simple value | an equal value: numbers by value; strings, symbols and binaries by octets |

use std::fmt;

use amqp10::sections::map_pairs;
use amqp10::{DecodeError, Map, Reader, Symbol, Value};

use super::allocated;
use super::plain::Plain;
use super::property::{Cursor, Kind, Property};
use crate::Message;

/// The most fields in a filter of one section. A filter with more fields is refused, as in RabbitMQ.
pub const FIELDS_MAX: usize = 16;

/// Fields of one or both sections that must have certain values. The default filter is empty and matches
/// everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldFilter {
    /// The wanted properties, in ascending order of their index.
    properties: Vec<(Property, Wanted)>,
    /// The wanted application-properties, in the order of the request.
    application_properties: Vec<(Box<str>, Wanted)>,
}

/// The required value of one field.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Anything,
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
    /// The field must be equal to this simple value.
    Equal(Value),
}

impl FieldFilter {
    /// Adds the filter of the properties section (`amqp:properties-filter`, 0x173). Each key is a symbol, the
    /// name of a field. Each value must have the type of its field.
    ///
    /// # Errors
    /// See [`FieldError`]. The filter is then unchanged.
    pub fn add_properties(&mut self, fields: &Map) -> Result<(), FieldError> {
        let read = |key: &Value, value: &Value| {
            let Value::Symbol(name) = key else { return Err(FieldError::KeyType) };
            let property =
                Property::from_symbol(name).ok_or_else(|| FieldError::UnknownField(shown(name)))?;
            Ok((property, Wanted::of_property(property.kind(), name, value)?))
        };
        add(&mut self.properties, fields, read)?;
        self.properties.sort_by_key(|(property, _)| *property);
        Ok(())
    }

    /// Adds the filter of the application-properties section (`amqp:application-properties-filter`, 0x174).
    /// Keys are strings, values are simple values.
    ///
    /// # Errors
    /// See [`FieldError`]. The filter is then unchanged.
    pub fn add_application_properties(&mut self, fields: &Map) -> Result<(), FieldError> {
        let read = |key: &Value, value: &Value| {
            let Value::String(name) = key else { return Err(FieldError::KeyType) };
            Ok((name.as_str().into(), Wanted::of_simple(name, value)?))
        };
        add(&mut self.application_properties, fields, read)
    }

    /// Returns the map from which [`FieldFilter::add_properties`] makes the same filter. Empty if there is none.
    pub fn properties(&self) -> Map {
        let name = |property: &Property| Symbol::from(property.identifier().replace('_', "-"));
        let fields = self.properties.iter();
        Map(fields.map(|(property, wanted)| (name(property).into(), wanted.reference())).collect())
    }

    /// Returns the map from which [`FieldFilter::add_application_properties`] makes the same filter. Empty if there is none.
    pub fn application_properties(&self) -> Map {
        let fields = self.application_properties.iter();
        Map(fields.map(|(name, wanted)| (Value::String(name.to_string()), wanted.reference())).collect())
    }

    /// Returns the number of fields.
    pub fn field_count(&self) -> usize {
        self.properties.len() + self.application_properties.len()
    }

    /// Returns the bytes of memory that the filter takes besides itself.
    pub fn heap_bytes(&self) -> usize {
        let properties: usize = self.properties.iter().map(|(_, wanted)| wanted.heap_bytes()).sum();
        let named = self.application_properties.iter();
        let named: usize = named.map(|(name, wanted)| allocated(name.len()) + wanted.heap_bytes()).sum();
        self.properties.capacity() * size_of::<(Property, Wanted)>()
            + self.application_properties.capacity() * size_of::<(Box<str>, Wanted)>()
            + properties
            + named
    }

    /// Returns true if every field has its required value. A message whose sections cannot be read does not
    /// match.
    pub fn matches(&self, message: &Message) -> bool {
        matches!(self.properties_match(message.properties()), Ok(true))
            && matches!(self.application_properties_match(message.application_properties()), Ok(true))
    }

    fn properties_match(&self, section: &[u8]) -> Result<bool, DecodeError> {
        if self.properties.is_empty() {
            return Ok(true);
        }
        let mut cursor = Cursor::new(section)?;
        for (property, wanted) in &self.properties {
            if !wanted.matches(cursor.read(*property)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn application_properties_match(&self, section: &[u8]) -> Result<bool, DecodeError> {
        let mut missing = self.application_properties.len();
        if missing == 0 || section.is_empty() {
            return Ok(missing == 0);
        }
        // `seen` has one bit for each wanted field that was found. If a name occurs twice, the first simple
        // value is used.
        let mut seen = 0u32;
        const { assert!(FIELDS_MAX <= u32::BITS as usize) };
        for pair in map_pairs(section)? {
            let (key, encoded) = pair?;
            let found = self.application_properties.iter().position(|(name, _)| **name == *key);
            let Some((index, wanted)) = found.and_then(|i| Some((i, &self.application_properties.get(i)?.1)))
            else {
                continue;
            };
            let Some(value) = Plain::read(&mut Reader::new(encoded))? else { continue };
            if seen & 1 << index != 0 {
                continue;
            }
            if !wanted.matches(value) {
                return Ok(false);
            }
            seen |= 1 << index;
            missing -= 1;
            if missing == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Converts the wanted fields of one section and puts them into `place`, which must be empty.
fn add<K: PartialEq>(
    place: &mut Vec<(K, Wanted)>,
    fields: &Map,
    read: impl Fn(&Value, &Value) -> Result<(K, Wanted), FieldError>,
) -> Result<(), FieldError> {
    if !place.is_empty() {
        return Err(FieldError::SectionTwice);
    }
    if fields.is_empty() || fields.len() > FIELDS_MAX {
        return Err(FieldError::Count(fields.len()));
    }
    let mut all: Vec<(K, Wanted)> = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        let field = read(key, value)?;
        if all.iter().any(|(known, _)| *known == field.0) {
            return Err(FieldError::FieldTwice(shown(key.as_str().unwrap_or_default())));
        }
        all.push(field);
    }
    *place = all;
    Ok(())
}

impl Wanted {
    /// Converts a reference value for a field of the properties. It must have the field's type.
    fn of_property(kind: Kind, name: &str, value: &Value) -> Result<Self, FieldError> {
        let fits = match value {
            Value::Null => true,
            Value::String(_) => matches!(kind, Kind::String | Kind::MessageId),
            Value::Binary(_) => matches!(kind, Kind::Binary | Kind::MessageId),
            Value::Ulong(_) | Value::Uuid(_) => kind == Kind::MessageId,
            Value::Symbol(_) => kind == Kind::Symbol,
            Value::Timestamp(_) => kind == Kind::Timestamp,
            Value::Uint(_) => kind == Kind::Uint,
            _ => false,
        };
        if fits { Self::of_simple(name, value) } else { Err(FieldError::ValueType(shown(name))) }
    }

    fn of_simple(name: &str, value: &Value) -> Result<Self, FieldError> {
        let Value::String(text) = value else {
            return match Plain::of(value) {
                None => Err(FieldError::ValueType(shown(name))),
                Some(Plain::Null) => Ok(Self::Anything),
                Some(_) => Ok(Self::Equal(value.clone())),
            };
        };
        let Some(modified) = text.strip_prefix('&') else { return Ok(Self::Equal(value.clone())) };
        if let Some(prefix) = modified.strip_prefix("p:") {
            Ok(Self::Prefix(prefix.as_bytes().into()))
        } else if let Some(suffix) = modified.strip_prefix("s:") {
            Ok(Self::Suffix(suffix.as_bytes().into()))
        } else if modified.starts_with('&') {
            Ok(Self::Equal(Value::String(modified.to_owned())))
        } else {
            Err(FieldError::Modifier(shown(name)))
        }
    }

    /// Returns the reference value that stands for this.
    fn reference(&self) -> Value {
        // They are from strings, so nothing is lost.
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        match self {
            Self::Anything => Value::Null,
            Self::Prefix(prefix) => Value::String(format!("&p:{}", text(prefix))),
            Self::Suffix(suffix) => Value::String(format!("&s:{}", text(suffix))),
            Self::Equal(Value::String(text)) if text.starts_with('&') => Value::String(format!("&{text}")),
            Self::Equal(value) => value.clone(),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Self::Anything => 0,
            Self::Prefix(octets) | Self::Suffix(octets) => allocated(octets.len()),
            Self::Equal(value) => allocated(value.heap_bytes()),
        }
    }

    fn matches(&self, found: Plain<'_>) -> bool {
        match (self, found) {
            (Self::Anything, _) => true,
            (Self::Prefix(prefix), Plain::Octets(octets)) => octets.starts_with(prefix),
            (Self::Suffix(suffix), Plain::Octets(octets)) => octets.ends_with(suffix),
            (Self::Equal(value), found) => Plain::of(value).is_some_and(|wanted| wanted.equals(found)),
            _ => false,
        }
    }
}

/// Why a map is not a valid property filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// The filter has this number of fields: zero, or more than [`FIELDS_MAX`].
    Count(usize),
    /// The section already has a filter.
    SectionTwice,
    /// A key does not have the type of the section's keys.
    KeyType,
    /// The properties do not have this field.
    UnknownField(Box<str>),
    /// A map must not contain a key twice [1.6.23].
    FieldTwice(Box<str>),
    /// The value for this field does not have the field's type, or is not simple.
    ValueType(Box<str>),
    /// The value for this field starts with `&`, but is not a prefix, a suffix or escaped.
    Modifier(Box<str>),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count} fields: 1 to {FIELDS_MAX} are allowed"),
            Self::SectionTwice => f.write_str("the section has a filter already"),
            Self::KeyType => {
                f.write_str("keys must be symbols for properties, strings for application-properties")
            }
            Self::UnknownField(name) => write!(f, "the properties have no field '{name}'"),
            Self::FieldTwice(name) => write!(f, "field '{name}' occurs twice"),
            Self::ValueType(name) => write!(f, "the value for field '{name}' has the wrong type"),
            Self::Modifier(name) => {
                write!(f, "the string for field '{name}' starts with '&' but not with '&p:', '&s:' or '&&'")
            }
        }
    }
}

impl std::error::Error for FieldError {}

/// Returns a peer's text for an error message: shortened and without control characters.
fn shown(text: &str) -> Box<str> {
    const CHARS_MAX: usize = 64;
    text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
