//! The fields of a message's properties, by name and by index [3.2.4].

use amqp10::sections::property_fields;
use amqp10::{DecodeError, Reader};

use super::plain::Plain;

/// A field of the properties section. The number is its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Property(u8);

/// The types that the standard allows for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A ulong, a UUID, a binary or a string.
    MessageId,
    Binary,
    String,
    Symbol,
    Timestamp,
    Uint,
}

/// The fields in the order of the list, with their names in SQL.
const PROPERTIES: [(&str, Kind); 13] = [
    ("message_id", Kind::MessageId),
    ("user_id", Kind::Binary),
    ("to", Kind::String),
    ("subject", Kind::String),
    ("reply_to", Kind::String),
    ("correlation_id", Kind::MessageId),
    ("content_type", Kind::Symbol),
    ("content_encoding", Kind::Symbol),
    ("absolute_expiry_time", Kind::Timestamp),
    ("creation_time", Kind::Timestamp),
    ("group_id", Kind::String),
    ("group_sequence", Kind::Uint),
    ("reply_to_group_id", Kind::String),
];

impl Property {
    /// Finds a field by its name in SQL, such as `reply_to`.
    pub(super) fn from_identifier(name: &str) -> Option<Self> {
        (0u8..).zip(&PROPERTIES).find(|(_, (known, _))| *known == name).map(|(index, _)| Self(index))
    }

    /// Finds a field by its name in the standard, such as `reply-to`.
    pub(super) fn from_symbol(name: &str) -> Option<Self> {
        if name.contains('_') { None } else { Self::from_identifier(&name.replace('-', "_")) }
    }

    /// Returns the field's index in the list. Message-id has index 0.
    pub(super) fn place(self) -> usize {
        self.0.into()
    }

    /// Returns the field's name in SQL.
    pub(super) fn identifier(self) -> &'static str {
        PROPERTIES[self.place()].0
    }

    pub(super) fn kind(self) -> Kind {
        PROPERTIES[self.place()].1
    }
}

/// Reads fields of one properties section, in ascending order. Fields after the last requested one are not
/// read.
pub(super) struct Cursor<'m> {
    reader: Reader<'m>,
    /// The index of the field that the reader is at.
    at: u32,
    count: u32,
}

impl<'m> Cursor<'m> {
    /// Creates a cursor over an encoded section. `section` is empty if the message has none.
    pub(super) fn new(section: &'m [u8]) -> Result<Self, DecodeError> {
        let (count, reader) =
            if section.is_empty() { (0, Reader::new(section)) } else { property_fields(section)? };
        Ok(Self { reader, at: 0, count })
    }

    /// Reads the value of a field. Its index must be higher than those of all fields read before.
    pub(super) fn read(&mut self, property: Property) -> Result<Plain<'m>, DecodeError> {
        let index = u32::from(property.0);
        debug_assert!(self.at <= index, "fields are read in ascending order");
        if index >= self.count {
            return Ok(Plain::Null);
        }
        while self.at < index {
            self.reader.skip_value()?;
            self.at += 1;
        }
        self.at += 1;
        Ok(Plain::read(&mut self.reader)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_spellings() {
        for (index, (name, kind)) in (0u8..).zip(PROPERTIES) {
            let property = Property::from_identifier(name).unwrap();
            assert_eq!(property, Property(index));
            assert_eq!((property.identifier(), property.kind()), (name, kind));
            assert_eq!(Property::from_symbol(&name.replace('_', "-")), Some(property));
        }
        assert_eq!(Property::from_symbol("message_id"), None);
        assert_eq!(Property::from_identifier("message-id"), None);
        assert_eq!(Property::from_symbol("priority"), None);
    }
}
