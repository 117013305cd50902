//! Reading parts of one section on demand.
//!
//! Every function takes the bytes of one whole section with its descriptor, given by a range of
//! [`Sections`](super::Sections). Offsets in errors count from the start of that section.

use std::ops::Range;

use crate::composites::Properties;
use crate::decode::{DecodeError, Reader};
use crate::descriptor;

/// The index of user-id in the properties [3.2.4].
const USER_ID: u32 = 1;
/// The descriptor in its short form.
const PROPERTIES: u8 = descriptor::PROPERTIES as u8;
/// The index of to in the properties [3.2.4].
const TO: u32 = 2;

/// Returns all properties, owned.
pub fn properties(section: &[u8]) -> Result<Properties, DecodeError> {
    Properties::decode(&mut Reader::new(section))
}

/// Returns the user-id of a properties section. The fields after it are not read.
pub fn user_id(section: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    property(section, USER_ID)?.map_or(Ok(None), |mut field| field.read_binary_opt())
}

/// Returns the to address of a properties section. The fields after it are not read.
pub fn to(section: &[u8]) -> Result<Option<&str>, DecodeError> {
    property(section, TO)?.map_or(Ok(None), |mut field| field.read_str_opt())
}

/// Returns the number of fields of a properties section and a reader at the first one, for reading several
/// fields.
pub fn property_fields(section: &[u8]) -> Result<(u32, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(section);
    if reader.read_descriptor()? != descriptor::PROPERTIES {
        return Err(DecodeError::UnknownDescriptor { offset: 0 });
    }
    reader.read_list()
}

/// Returns the encoded field with this index of a properties section. Index 0 is message-id. Returns `None`
/// if the field is null or absent.
pub fn property_field(section: &[u8], index: u32) -> Result<Option<&[u8]>, DecodeError> {
    let Some(mut field) = property(section, index)? else { return Ok(None) };
    if field.take_null() { Ok(None) } else { raw_value(&mut field).map(Some) }
}

/// The content of a section that is a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapContent {
    /// The encoded pairs, as a range of the section: key, value, key, value, without the head of the map.
    pub range: Range<u32>,
    /// The number of pairs.
    pub pairs: u32,
}

/// Finds the pairs of an annotations, application-properties or footer section. With the result, pairs can be
/// added before or after them without decoding them.
pub fn map_content(section: &[u8]) -> Result<MapContent, DecodeError> {
    let (pairs, content) = map(section)?;
    let start = content.offset();
    let len = u32::try_from(content.rest().len()).unwrap_or(u32::MAX);
    Ok(MapContent { range: start..start.saturating_add(len), pairs })
}

/// Iterates over the pairs of an annotations, application-properties or footer section.
pub fn map_pairs(section: &[u8]) -> Result<MapIter<'_>, DecodeError> {
    let (left, reader) = map(section)?;
    Ok(MapIter { reader, left })
}

/// An iterator over the pairs of a map with string or symbol keys. It returns the key's text and the encoded
/// value. Ends after an error.
#[derive(Debug, Clone)]
pub struct MapIter<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> MapIter<'a> {
    fn pair(&mut self) -> Result<(&'a str, &'a [u8]), DecodeError> {
        let (offset, code) = (self.reader.offset(), self.reader.peek());
        let key = match code {
            Some(0xa3 | 0xb3) => self.reader.read_symbol_opt()?,
            _ => self.reader.read_str_opt()?,
        };
        let code = code.unwrap_or_default();
        let key = key.ok_or(DecodeError::WrongType { offset, code, expected: "string or symbol" })?;
        Ok((key, raw_value(&mut self.reader)?))
    }
}

impl<'a> Iterator for MapIter<'a> {
    type Item = Result<(&'a str, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let pair = self.pair();
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair)
    }
}

fn map(section: &[u8]) -> Result<(u32, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(section);
    reader.read_descriptor()?;
    reader.read_map()
}

/// Returns a reader at the field with this index, or `None` if the list is shorter.
fn property(section: &[u8], index: u32) -> Result<Option<Reader<'_>>, DecodeError> {
    // Fast path: most messages have at most an id.
    if let [0x00, 0x53, PROPERTIES, 0xc0, _, count, ..] = section
        && index >= u32::from(*count)
    {
        return Ok(None);
    }
    let (count, mut fields) = property_fields(section)?;
    if index >= count {
        return Ok(None);
    }
    for _ in 0..index {
        fields.skip_value()?;
    }
    Ok(Some(fields))
}

fn raw_value<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let rest = reader.rest();
    reader.skip_value()?;
    let used = rest.len().saturating_sub(reader.rest().len());
    Ok(rest.get(..used).unwrap_or_default())
}
