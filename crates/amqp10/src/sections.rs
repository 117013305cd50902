//! Finding the sections of a message without parsing it [3.2].
//!
//! ```text
//!   header?  delivery-     message-      properties?  application-  body: data+            footer?
//!            annotations?  annotations?               properties?      or amqp-sequence+
//!                                                                      or one amqp-value
//!                                        |<----------------- bare message ------------------>|
//! ```
//!
//! The scan jumps from section to section by their sizes. It reads only the few fields of the header and the
//! keys of the annotations. Properties and bodies are read on demand, see [`lazy`].

use std::ops::Range;

use crate::composites::Header;
use crate::decode::{DecodeError, Reader};
use crate::descriptor;

mod error;
pub mod lazy;
mod plain;

pub use error::{SectionError, SectionKind};
pub use lazy::{
    MapContent, MapIter, map_content, map_pairs, properties, property_field, property_fields, to, user_id,
};

/// The most sections of one message. The bound limits the time that a message of many empty sections can
/// cost.
pub const MAX_SECTIONS: u32 = 10_000;

/// The prefix that annotation keys must have. All other keys are reserved [3.2.10].
pub const ANNOTATION_PREFIX: &str = "x-";

/// The number of fields that the standard defines for properties [3.2.4].
const PROPERTIES_FIELDS: u32 = 13;

/// The positions of the sections of a message. Ranges are in bytes of the message and cover whole sections
/// with their descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sections {
    /// The fields of the header, as the sender set them. `None` if there is no header section.
    pub header: Option<Header>,
    /// Annotations for the next hop only.
    pub delivery_annotations: Option<Range<u32>>,
    /// Annotations that travel with the message, but are not part of the bare message.
    pub message_annotations: Option<Range<u32>>,
    /// Immutable. [`lazy`] reads the fields.
    pub properties: Option<Range<u32>>,
    /// Immutable. [`map_pairs`] reads the pairs.
    pub application_properties: Option<Range<u32>>,
    /// All body sections.
    pub body: Range<u32>,
    /// The kind of the body sections.
    pub body_kind: BodyKind,
    /// Annotations about the bare message, such as checksums.
    pub footer: Option<Range<u32>>,
    /// From the first of properties, application-properties and body to the end, including the footer. No
    /// intermediary may change these bytes.
    pub bare: Range<u32>,
}

impl Sections {
    /// See [`scan_bare`].
    #[inline(always)]
    fn places_if_bare(&self) -> Option<[u32; 2]> {
        let application_properties = self.application_properties.as_ref();
        let places = [application_properties.map_or(self.body.start, |range| range.start), self.body.start];
        (self.bare.start == 0).then_some(places)
    }
}

/// The kinds of bodies [3.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// One or more sections of octets [3.2.6].
    Data,
    /// One or more lists [3.2.7].
    Sequence,
    /// Exactly one value [3.2.8].
    Value,
}

/// Finds the sections of a complete message. Allocates nothing unless it fails.
///
/// # Errors
/// See [`SectionError`]. Its text is for the publisher.
pub fn scan(message: &[u8]) -> Result<Sections, SectionError> {
    match plain::scan(message) {
        Some(sections) => Ok(sections),
        None => scan_any(message),
    }
}

/// Returns where application-properties and body begin, if the message is bare: nothing is before its
/// properties. Without application-properties both are the start of the body. Returns `None` if the message
/// is not bare. This is the part of [`scan`] that is needed for messages that are read back.
pub fn scan_bare(message: &[u8]) -> Option<[u32; 2]> {
    // `scan` is inlined here, so the compiler removes the fields that are not used.
    match plain::scan(message) {
        Some(sections) => sections.places_if_bare(),
        None => scan_any(message).ok()?.places_if_bare(),
    }
}

/// Returns the kind and the position of each section of a complete message, in any order. Ends after an
/// error.
///
/// It is for requests to the broker itself, for which the order does not matter. Messages that are forwarded
/// need [`scan`].
pub fn each(message: &[u8]) -> impl Iterator<Item = Result<(SectionKind, Range<u32>), SectionError>> {
    let mut reader = Reader::new(message);
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || reader.is_empty() {
            return None;
        }
        let start = reader.offset();
        let kind = read_kind(&mut reader).and_then(|kind| {
            reader.skip_value()?;
            Ok(kind)
        });
        failed = kind.is_err();
        Some(kind.map(|kind| (kind, start..reader.offset())))
    })
}

/// Scans every encoding, and reports errors.
fn scan_any(message: &[u8]) -> Result<Sections, SectionError> {
    let len = u32::try_from(message.len()).map_err(|_| SectionError::TooLarge)?;
    let mut reader = Reader::new(message);
    let mut found = Found::default();
    let mut count = 0u32;
    while !reader.is_empty() {
        count = count.saturating_add(1);
        if count > MAX_SECTIONS {
            return Err(SectionError::TooManySections);
        }
        let start = reader.offset();
        let kind = read_kind(&mut reader)?;
        found.admit(kind)?;
        match kind {
            SectionKind::Header => found.header = Some(Header::decode_fields(&mut reader)?),
            SectionKind::DeliveryAnnotations | SectionKind::MessageAnnotations | SectionKind::Footer => {
                check_annotations(&mut reader, kind)?;
            }
            SectionKind::Properties => {
                let offset = reader.offset();
                let (fields, _) = reader.read_list()?;
                if fields > PROPERTIES_FIELDS {
                    return Err(DecodeError::TooManyFields { offset, composite: "properties" }.into());
                }
            }
            SectionKind::ApplicationProperties => {
                reader.read_map()?;
            }
            SectionKind::Data => {
                if reader.read_binary_opt()?.is_none() {
                    return Err(SectionError::NullBody { section: kind });
                }
            }
            SectionKind::AmqpSequence => {
                reader.read_list()?;
            }
            SectionKind::AmqpValue => reader.skip_value()?,
        }
        found.place(kind, start..reader.offset());
    }
    let (body_kind, body) = found.body.ok_or(SectionError::MissingBody)?;
    let starts = [&found.properties, &found.application_properties];
    let bare_start = starts.into_iter().flatten().map(|range| range.start).min().unwrap_or(body.start);
    Ok(Sections {
        header: found.header,
        delivery_annotations: found.delivery_annotations,
        message_annotations: found.message_annotations,
        properties: found.properties,
        application_properties: found.application_properties,
        body,
        body_kind,
        footer: found.footer,
        bare: bare_start..len,
    })
}

/// The sections found so far.
#[derive(Default)]
struct Found {
    header: Option<Header>,
    delivery_annotations: Option<Range<u32>>,
    message_annotations: Option<Range<u32>>,
    properties: Option<Range<u32>>,
    application_properties: Option<Range<u32>>,
    body: Option<(BodyKind, Range<u32>)>,
    footer: Option<Range<u32>>,
    last: Option<SectionKind>,
}

impl Found {
    /// Checks that this section may follow the previous ones.
    #[inline]
    fn admit(&mut self, kind: SectionKind) -> Result<(), SectionError> {
        let Some(last) = self.last.replace(kind) else { return Ok(()) };
        if last.rank() < kind.rank() {
            return Ok(());
        }
        match (last, kind) {
            (SectionKind::Data, SectionKind::Data)
            | (SectionKind::AmqpSequence, SectionKind::AmqpSequence) => Ok(()),
            (last, kind) if last == kind => Err(SectionError::Duplicate { section: kind }),
            (last, kind) if last.rank() == kind.rank() => {
                Err(SectionError::MixedBody { first: last, second: kind })
            }
            (last, kind) => Err(SectionError::OutOfOrder { section: kind, after: last }),
        }
    }

    #[inline]
    fn place(&mut self, kind: SectionKind, range: Range<u32>) {
        match kind {
            SectionKind::Header => {}
            SectionKind::DeliveryAnnotations => self.delivery_annotations = Some(range),
            SectionKind::MessageAnnotations => self.message_annotations = Some(range),
            SectionKind::Properties => self.properties = Some(range),
            SectionKind::ApplicationProperties => self.application_properties = Some(range),
            SectionKind::Footer => self.footer = Some(range),
            SectionKind::Data => self.extend_body(BodyKind::Data, range),
            SectionKind::AmqpSequence => self.extend_body(BodyKind::Sequence, range),
            SectionKind::AmqpValue => self.extend_body(BodyKind::Value, range),
        }
    }

    fn extend_body(&mut self, kind: BodyKind, range: Range<u32>) {
        match &mut self.body {
            Some((_, body)) => body.end = range.end,
            None => self.body = Some((kind, range)),
        }
    }
}

#[inline]
fn read_kind(reader: &mut Reader<'_>) -> Result<SectionKind, SectionError> {
    let offset = reader.offset();
    let code = match reader.read_descriptor() {
        Ok(code) => code,
        Err(DecodeError::UnknownDescriptor { .. }) => return Err(SectionError::UnknownSection { offset }),
        Err(DecodeError::WrongType { .. }) => return Err(SectionError::NotASection { offset }),
        Err(error) => return Err(error.into()),
    };
    Ok(match code {
        descriptor::HEADER => SectionKind::Header,
        descriptor::DELIVERY_ANNOTATIONS => SectionKind::DeliveryAnnotations,
        descriptor::MESSAGE_ANNOTATIONS => SectionKind::MessageAnnotations,
        descriptor::PROPERTIES => SectionKind::Properties,
        descriptor::APPLICATION_PROPERTIES => SectionKind::ApplicationProperties,
        descriptor::DATA => SectionKind::Data,
        descriptor::AMQP_SEQUENCE => SectionKind::AmqpSequence,
        descriptor::AMQP_VALUE => SectionKind::AmqpValue,
        descriptor::FOOTER => SectionKind::Footer,
        _ => return Err(SectionError::UnknownSection { offset }),
    })
}

/// Checks the keys of annotations. They must be symbols that start with `x-`. All other keys are reserved
/// [3.2.10].
fn check_annotations(reader: &mut Reader<'_>, section: SectionKind) -> Result<(), SectionError> {
    let (pairs, mut content) = reader.read_map()?;
    for _ in 0..pairs {
        let offset = content.offset();
        let key = match content.peek() {
            Some(0xa3 | 0xb3) => content.read_symbol_opt()?.unwrap_or_default(),
            Some(_) => return Err(SectionError::KeyNotSymbol { section, offset }),
            None => return Err(DecodeError::Truncated { offset }.into()),
        };
        if !key.starts_with(ANNOTATION_PREFIX) {
            return Err(SectionError::reserved_key(section, key));
        }
        content.skip_value()?;
    }
    content.expect_end()?;
    Ok(())
}

#[cfg(test)]
mod tests;
