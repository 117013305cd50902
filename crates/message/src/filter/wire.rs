//! The encoding of a filter for another node. Numbers are little-endian.
//!
//! ```text
//!  kind u8 | ...
//!    1 filter expression   length u16 | text
//!    2 selector            length u16 | text
//!    3 fields              section: properties | section: application-properties
//!  section                 count u8 | field: length u32 | name | reference value in the encoding of AMQP 1.0 | ...
//! ```
//!
//! A filter is sent as the client has written it, and the reader checks it as it checks that of a client.

use amqp10::encode::put_value;
use amqp10::{Map, Reader, Symbol, Value};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::fields::{FIELDS_MAX, FieldFilter};
use super::sql::{Dialect, SQL_CHARS_MAX, SqlFilter};
use super::{Filter, plain};

const EXPRESSION: u8 = 1;
const SELECTOR: u8 = 2;
const FIELDS: u8 = 3;

/// The lengths of texts and the counts of fields fit into their numbers: a character has at most four bytes.
const _: () = assert!(SQL_CHARS_MAX * 4 <= u16::MAX as usize && FIELDS_MAX <= u8::MAX as usize);

impl Filter {
    /// Appends the filter. [`Filter::decode`] reads it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Sql(filter) => {
                out.put_u8(match filter.dialect() {
                    Dialect::Filter => EXPRESSION,
                    Dialect::Selector => SELECTOR,
                });
                out.put_u16_le(filter.text().len() as u16);
                out.extend_from_slice(filter.text().as_bytes());
            }
            Self::Fields(filter) => {
                out.put_u8(FIELDS);
                put_section(&filter.properties(), out);
                put_section(&filter.application_properties(), out);
            }
        }
    }

    /// Takes a filter from the start of `bytes`. Returns `None` if they are not one.
    pub fn decode(bytes: &mut Bytes) -> Option<Self> {
        let dialect = match bytes.try_get_u8().ok()? {
            EXPRESSION => Dialect::Filter,
            SELECTOR => Dialect::Selector,
            FIELDS => return Some(Self::Fields(get_fields(bytes)?)),
            _ => return None,
        };
        let length = bytes.try_get_u16_le().ok()?;
        let text = take(bytes, length.into())?;
        SqlFilter::parse(std::str::from_utf8(&text).ok()?, dialect).ok().map(Self::Sql)
    }
}

fn put_section(fields: &Map, out: &mut Vec<u8>) {
    out.put_u8(fields.len() as u8);
    for (name, value) in fields {
        let name = name.as_str().unwrap_or_default();
        out.put_u32_le(name.len() as u32);
        out.extend_from_slice(name.as_bytes());
        let mut encoded = BytesMut::new();
        put_value(&mut encoded, value);
        out.extend_from_slice(&encoded);
    }
}

fn get_fields(bytes: &mut Bytes) -> Option<FieldFilter> {
    let mut filter = FieldFilter::default();
    let properties = get_section(bytes, |name| Symbol::from(name).into())?;
    if !properties.is_empty() {
        filter.add_properties(&properties).ok()?;
    }
    let named = get_section(bytes, Value::String)?;
    if !named.is_empty() {
        filter.add_application_properties(&named).ok()?;
    }
    Some(filter)
}

fn get_section(bytes: &mut Bytes, key: fn(String) -> Value) -> Option<Map> {
    let count = usize::from(bytes.try_get_u8().ok()?);
    if count > FIELDS_MAX {
        return None;
    }
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let length = usize::try_from(bytes.try_get_u32_le().ok()?).ok()?;
        let name = String::from_utf8(take(bytes, length)?.into()).ok()?;
        let mut reader = Reader::new(bytes);
        // Only other values take more memory than their encoding, and none of them is valid.
        if !reader.peek().is_some_and(plain::may_be_simple) {
            return None;
        }
        let value = reader.read_value().ok()?;
        let read = reader.position();
        bytes.advance(read);
        fields.push((key(name), value));
    }
    Some(Map(fields))
}

fn take(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests;
