//! Looking into one section when somebody asks.
//!
//! Every function takes the bytes of one whole section, as a range of [`Sections`](super::Sections) cuts them out,
//! descriptor included. Offsets in errors count from the start of that section.

use std::ops::Range;

use crate::decode::{DecodeError, Reader};
use crate::descriptor;
use crate::generated::Properties;

/// Index of user-id among the properties [3.2.4].
const USER_ID: u32 = 1;
/// The descriptor in its short form.
const PROPERTIES: u8 = descriptor::PROPERTIES as u8;
/// Index of to among the properties [3.2.4].
const TO: u32 = 2;

/// All properties, owned.
pub fn properties(section: &[u8]) -> Result<Properties, DecodeError> {
    Properties::decode(&mut Reader::new(section))
}

/// The user-id of a properties section; nothing behind it is read.
pub fn user_id(section: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    property(section, USER_ID)?.map_or(Ok(None), |mut field| field.read_binary_opt())
}

/// The to address of a properties section; nothing behind it is read.
pub fn to(section: &[u8]) -> Result<Option<&str>, DecodeError> {
    property(section, TO)?.map_or(Ok(None), |mut field| field.read_str_opt())
}

/// How many fields a properties section has, and a reader before the first of them, for whoever wants several.
pub fn property_fields(section: &[u8]) -> Result<(u32, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(section);
    if reader.read_descriptor()? != descriptor::PROPERTIES {
        return Err(DecodeError::UnknownDescriptor { offset: 0 });
    }
    reader.read_list()
}

/// The encoded field with this index, 0 being message-id, of a properties section; `None` if it is null or left off.
pub fn property_field(section: &[u8], index: u32) -> Result<Option<&[u8]>, DecodeError> {
    let Some(mut field) = property(section, index)? else { return Ok(None) };
    if field.take_null() { Ok(None) } else { raw_value(&mut field).map(Some) }
}

/// The content of a section that is a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapContent {
    /// The encoded pairs, as bytes of the section: key, value, key, value, without the head of the map.
    pub range: Range<u32>,
    /// Number of pairs.
    pub pairs: u32,
}

/// Where the pairs of an annotations, application-properties or footer section lie, so that pairs can be added in
/// front of or behind them without decoding them.
pub fn map_content(section: &[u8]) -> Result<MapContent, DecodeError> {
    let (pairs, content) = map(section)?;
    let start = content.offset();
    let len = u32::try_from(content.rest().len()).unwrap_or(u32::MAX);
    Ok(MapContent { range: start..start.saturating_add(len), pairs })
}

/// The pairs of an annotations, application-properties or footer section.
pub fn map_pairs(section: &[u8]) -> Result<MapIter<'_>, DecodeError> {
    let (left, reader) = map(section)?;
    Ok(MapIter { reader, left })
}

/// The pairs of a map with string or symbol keys: the key's text and the encoded value. Ends after an error.
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

/// A reader before the field with this index, if the list is that long.
fn property(section: &[u8], index: u32) -> Result<Option<Reader<'_>>, DecodeError> {
    // Most messages have an id at most.
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
