//! The values of an expression's identifiers, read from a message in one pass over each section that is
//! needed.

use amqp10::sections::map_pairs;
use amqp10::{DecodeError, Reader};

use super::ast::{Envelope, Identifier, Slot};
use crate::Message;
use crate::filter::plain::Plain;
use crate::filter::property::{Cursor, Property};
use crate::filter::{Position, allocated};

/// The priority of a message whose sender set none [3.2.1].
const PRIORITY_DEFAULT: u8 = 4;

/// The source of each slot's value. Sections that are the source of no slot are not read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sources {
    envelope: Box<[(Envelope, Slot)]>,
    /// The wanted properties in ascending order, as they are in the section.
    properties: Box<[(Property, Slot)]>,
    /// The names of the wanted application-properties in ascending order, for binary search.
    names: Box<[(Box<str>, Slot)]>,
}

impl Sources {
    /// Creates the sources. `identifiers` has the identifier of each slot, without duplicates.
    pub(super) fn new(identifiers: &[Identifier]) -> Self {
        let (mut envelope, mut properties, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, identifier) in (0u8..).map(Slot).zip(identifiers) {
            match identifier {
                Identifier::Envelope(what) => envelope.push((*what, slot)),
                Identifier::Property(property) => properties.push((*property, slot)),
                Identifier::Application(name) => names.push((name.clone(), slot)),
            }
        }
        properties.sort_by_key(|(property, _)| *property);
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self { envelope: envelope.into(), properties: properties.into(), names: names.into() }
    }

    /// Returns the bytes of memory that the sources take besides themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|(name, _)| allocated(name.len())).sum();
        size_of_val(&*self.envelope) + size_of_val(&*self.properties) + size_of_val(&*self.names) + names
    }

    /// Fills the slots, which must all be null. A slot stays null if the message does not have its value, or
    /// if that is not simple. If an application-property occurs twice, the first simple value is used.
    ///
    /// # Errors
    /// A section is malformed, as far as it was read.
    pub(super) fn fill<'m>(
        &self,
        message: &'m Message,
        position: Position,
        slots: &mut [Plain<'m>],
    ) -> Result<(), DecodeError> {
        let mut put = |slot: Slot, value| {
            if let Some(place) = slots.get_mut(usize::from(slot.0))
                && matches!(place, Plain::Null)
            {
                *place = value;
                return !matches!(value, Plain::Null);
            }
            false
        };
        for (what, slot) in &self.envelope {
            put(*slot, what.value(message, position));
        }
        if !self.properties.is_empty() {
            let mut cursor = Cursor::new(message.properties())?;
            for (property, slot) in &self.properties {
                put(*slot, cursor.read(*property)?);
            }
        }
        let mut missing = self.names.len();
        if missing == 0 || message.application_properties().is_empty() {
            return Ok(());
        }
        for pair in map_pairs(message.application_properties())? {
            let (key, encoded) = pair?;
            let Ok(found) = self.names.binary_search_by(|(name, _)| (**name).cmp(key)) else { continue };
            let value = Plain::read(&mut Reader::new(encoded))?.unwrap_or_default();
            if put(self.names[found].1, value) {
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Envelope {
    fn value(self, message: &Message, position: Position) -> Plain<'_> {
        match self {
            Self::Priority => Plain::Integer(message.priority().unwrap_or(PRIORITY_DEFAULT).into()),
            Self::DeliveryMode if message.durable_header() => Plain::Octets(b"PERSISTENT"),
            Self::DeliveryMode => Plain::Octets(b"NON_PERSISTENT"),
            Self::FilterValue => {
                message.stream_filter_value().map_or(Plain::Null, |value| Plain::Octets(value.as_bytes()))
            }
            Self::Offset => Plain::Integer(position.offset.into()),
            Self::Timestamp => Plain::Integer(position.at_ms.into()),
        }
    }
}
