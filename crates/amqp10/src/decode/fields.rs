//! Reading a composite field by field [1.4].

use bytes::Bytes;

use super::{DecodeError, Reader, own_symbol};
use crate::encode::Encode;
use crate::types::{Map, Symbol, Value};

/// A type that a field of a composite can have.
pub trait Field: Encode + Sized {
    /// Reads the field. Returns `None` for null.
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError>;
}

/// The fields of one composite, in order. Fields missing at the end are read as null.
#[derive(Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
    left: u32,
    type_name: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(reader: Reader<'a>, left: u32, type_name: &'static str) -> Self {
        Self { reader, left, type_name }
    }

    /// Returns the reader at the next field, or `None` if there are no more fields.
    #[inline]
    pub fn reader(&mut self) -> Option<&mut Reader<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(&mut self.reader)
    }

    /// Reads a field without a default.
    #[inline]
    pub fn optional<T: Field>(&mut self) -> Result<Option<T>, DecodeError> {
        self.reader().map_or(Ok(None), T::read)
    }

    /// Reads a field with a default.
    #[inline]
    pub fn or<T: Field>(&mut self, default: T) -> Result<T, DecodeError> {
        Ok(self.optional()?.unwrap_or(default))
    }

    /// Reads a mandatory field. `field` is its name, `type.field`.
    #[inline]
    pub fn mandatory<T: Field>(&mut self, field: &'static str) -> Result<T, DecodeError> {
        let offset = self.reader.position();
        self.optional()?.ok_or_else(|| missing(offset, field))
    }

    /// Reads a timestamp, in milliseconds since the Unix epoch.
    pub fn timestamp(&mut self) -> Result<Option<i64>, DecodeError> {
        self.reader().map_or(Ok(None), Reader::read_timestamp_opt)
    }

    /// Reads a message identifier: ulong, uuid, binary or string [3.2.11 – 3.2.14].
    pub fn message_id(&mut self) -> Result<Option<Value>, DecodeError> {
        let Some(reader) = self.reader() else { return Ok(None) };
        match reader.peek() {
            Some(0x40 | 0x44 | 0x53 | 0x80 | 0x98 | 0xa0 | 0xb0 | 0xa1 | 0xb1) | None => Value::read(reader),
            Some(code) => Err(DecodeError::WrongType {
                offset: reader.offset(),
                code,
                expected: "message-id (ulong, uuid, binary or string)",
            }),
        }
    }

    /// Ends the composite.
    ///
    /// # Errors
    /// There are fields that the type does not define, or bytes after the last field.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.left > 0 {
            let offset = self.reader.offset();
            return Err(DecodeError::TooManyFields { offset, composite: self.type_name });
        }
        self.reader.expect_end()
    }
}

#[cold]
fn missing(position: usize, field: &'static str) -> DecodeError {
    DecodeError::MissingField { offset: u32::try_from(position).unwrap_or(u32::MAX), field }
}

impl Field for bool {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        reader.read_bool_opt()
    }
}

impl Field for u8 {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        reader.read_u8_opt()
    }
}

impl Field for u16 {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        reader.read_u16_opt()
    }
}

impl Field for u32 {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        reader.read_u32_opt()
    }
}

impl Field for u64 {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        reader.read_u64_opt()
    }
}

impl Field for String {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(reader.read_str_opt()?.map(str::to_owned))
    }
}

impl Field for Symbol {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(reader.read_symbol_opt()?.map(own_symbol))
    }
}

impl Field for Bytes {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(reader.read_binary_opt()?.map(Bytes::copy_from_slice))
    }
}

/// A field declared `multiple`. Null and an empty array are equivalent.
impl Field for Vec<Symbol> {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() {
            return Ok(None);
        }
        // [1.4] An empty array counts as absent, which a mandatory field may not be.
        Ok(Some(reader.read_symbols()?).filter(|symbols| !symbols.is_empty()))
    }
}

impl Field for Map {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let (offset, code) = (reader.offset(), reader.peek().unwrap_or(0));
        match reader.read_value()? {
            Value::Null => Ok(None),
            Value::Map(map) => Ok(Some(map)),
            _ => Err(DecodeError::WrongType { offset, code, expected: "map" }),
        }
    }
}

impl Field for Value {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(reader.read_value()?).filter(|value| !value.is_null()))
    }
}
