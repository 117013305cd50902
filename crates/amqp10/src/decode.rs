//! Reading AMQP values from untrusted bytes [1.2, 1.6].
//!
//! ```text
//!  constructor            value
//!  +------+-----------+   +-----------------------------------+
//!  | 0x00 | described |   | width by the upper half of code:  |
//!  |      | by value  |   | 4: 0   5: 1   6: 2   7: 4   8: 8  |
//!  +------+-----------+   | 9: 16  a: len8 ..    b: len32 ..  |
//!  | code             |   | c, e: size8 count8 ..             |
//!  +------------------+   | d, f: size32 count32 ..           |
//!                         +-----------------------------------+
//! ```
//!
//! The code never panics, whatever the input is. It never reserves memory for a count alone.

use crate::types::{Symbol, Value};

mod error;
mod fields;
mod plain;
mod value;

pub use error::DecodeError;
pub use fields::{Field, Fields};
pub(crate) use plain::PlainFields;

/// The deepest nesting of values (described, list, map, array). Deeper is [`DecodeError::TooDeep`]. The
/// protocol itself needs six levels. The bound keeps the stack of a decode below about 16 KiB.
pub const MAX_NESTING: u32 = 32;

/// The number of array items of width zero that one reader may create, because their count costs the sender
/// nothing. More is [`DecodeError::TooManyItems`].
pub const MAX_ZERO_WIDTH_ITEMS: u32 = 4096;

/// A cursor over encoded values.
///
/// After an error the position is unspecified. The `*_opt` methods read one field of a known type, in every
/// encoding of that type. They return `None` for null.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The offset of the end of `rest`, in the bytes of the outermost reader.
    end: usize,
    /// The remaining part of [`MAX_ZERO_WIDTH_ITEMS`].
    zero_width_left: u32,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, end: bytes.len(), zero_width_left: MAX_ZERO_WIDTH_ITEMS }
    }

    /// The number of bytes consumed, counted from the start of the outermost reader.
    pub fn position(&self) -> usize {
        self.end.saturating_sub(self.rest.len())
    }

    /// Returns the bytes not yet consumed.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true if everything is consumed.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next byte without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads one value of any type.
    ///
    /// # Errors
    /// The value is malformed, nested deeper than [`MAX_NESTING`], or has too many zero-width items.
    pub fn read_value(&mut self) -> Result<Value, DecodeError> {
        self.value(0)
    }

    /// Skips one value without looking inside lists, maps and arrays. Allocates nothing.
    ///
    /// Consumes exactly the bytes that [`Reader::read_value`] would. It may accept a value whose inside is
    /// malformed.
    pub fn skip_value(&mut self) -> Result<(), DecodeError> {
        let mut pending = 1u32;
        while pending > 0 {
            let at = self.offset();
            let code = self.byte()?;
            if code == 0x00 {
                // A descriptor and a value take the place of one value.
                pending = pending.saturating_add(1);
                if pending > MAX_NESTING.saturating_add(1) {
                    return Err(DecodeError::TooDeep { offset: at });
                }
            } else {
                self.skip_primitive(code, at)?;
                pending = pending.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Consumes a null if it is next. Returns true if it was.
    #[inline]
    pub fn take_null(&mut self) -> bool {
        match self.rest.split_first() {
            Some((0x40, rest)) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Consumes exactly these bytes if they are next. Returns true if they were.
    #[inline]
    pub(crate) fn take_exact<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) if chunk == bytes => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Reads a boolean (`0x41`, `0x42`, `0x56`) or null.
    #[inline]
    pub fn read_bool_opt(&mut self) -> Result<Option<bool>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0x41 => Ok(Some(true)),
            0x42 => Ok(Some(false)),
            0x56 => self.boolean_octet().map(Some),
            code => Err(self.wrong_type(code, "boolean")),
        }
    }

    /// Reads a ubyte (`0x50`) or null.
    #[inline]
    pub fn read_u8_opt(&mut self) -> Result<Option<u8>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0x50 => self.byte().map(Some),
            code => Err(self.wrong_type(code, "ubyte")),
        }
    }

    /// Reads a ushort (`0x60`) or null.
    pub fn read_u16_opt(&mut self) -> Result<Option<u16>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0x60 => Ok(Some(u16::from_be_bytes(self.chunk()?))),
            code => Err(self.wrong_type(code, "ushort")),
        }
    }

    /// Reads a uint (`0x43`, `0x52`, `0x70`) or null.
    #[inline]
    pub fn read_u32_opt(&mut self) -> Result<Option<u32>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0x43 => Ok(Some(0)),
            0x52 => self.byte().map(|v| Some(v.into())),
            0x70 => Ok(Some(u32::from_be_bytes(self.chunk()?))),
            code => Err(self.wrong_type(code, "uint")),
        }
    }

    /// Reads a ulong (`0x44`, `0x53`, `0x80`) or null.
    pub fn read_u64_opt(&mut self) -> Result<Option<u64>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0x44 => Ok(Some(0)),
            0x53 => self.byte().map(|v| Some(v.into())),
            0x80 => Ok(Some(u64::from_be_bytes(self.chunk()?))),
            code => Err(self.wrong_type(code, "ulong")),
        }
    }

    /// Reads a timestamp (`0x83`), in milliseconds since the Unix epoch, or null.
    pub fn read_timestamp_opt(&mut self) -> Result<Option<i64>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0x83 => Ok(Some(i64::from_be_bytes(self.chunk()?))),
            code => Err(self.wrong_type(code, "timestamp")),
        }
    }

    /// Reads a binary (`0xa0`, `0xb0`) or null.
    #[inline]
    pub fn read_binary_opt(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.byte()? {
            0x40 => Ok(None),
            0xa0 => self.variable8().map(Some),
            0xb0 => self.variable32().map(Some),
            code => Err(self.wrong_type(code, "binary")),
        }
    }

    /// Reads a string (`0xa1`, `0xb1`) or null.
    pub fn read_str_opt(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let at = self.offset();
        let octets = match self.byte()? {
            0x40 => return Ok(None),
            0xa1 => self.variable8()?,
            0xb1 => self.variable32()?,
            code => return Err(self.wrong_type(code, "string")),
        };
        utf8(octets, at).map(Some)
    }

    /// Reads a symbol (`0xa3`, `0xb3`) or null.
    pub fn read_symbol_opt(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let at = self.offset();
        let octets = match self.byte()? {
            0x40 => return Ok(None),
            0xa3 => self.variable8()?,
            0xb3 => self.variable32()?,
            code => return Err(self.wrong_type(code, "symbol")),
        };
        ascii(octets, at).map(Some)
    }

    /// Reads a field declared `multiple`: null (no symbols), one symbol, or an array of symbols [1.4].
    pub fn read_symbols(&mut self) -> Result<Vec<Symbol>, DecodeError> {
        let at = self.offset();
        match self.peek() {
            Some(0xe0 | 0xf0) => {}
            _ => return Ok(self.read_symbol_opt()?.map(own_symbol).into_iter().collect()),
        }
        let code = self.byte()?;
        let (constructor, items) = self.array(code, 0)?;
        if !constructor.descriptors.is_empty() {
            return Err(DecodeError::WrongType { offset: at, code: 0x00, expected: "array of symbols" });
        }
        let symbol = |item| match item {
            Value::Symbol(symbol) => Ok(symbol),
            _ => Err(DecodeError::WrongType {
                offset: at,
                code: constructor.code,
                expected: "array of symbols",
            }),
        };
        items.into_iter().map(symbol).collect()
    }

    /// Reads the head of a list (`0x45`, `0xc0`, `0xd0`). Returns the number of items and a reader over
    /// exactly their bytes. This reader continues after the list.
    #[inline]
    pub fn read_list(&mut self) -> Result<(u32, Reader<'a>), DecodeError> {
        let at = self.offset();
        let (count, inner) = match self.byte()? {
            0x45 => (0, self.split(0)?),
            0xc0 => self.compound8()?,
            0xd0 => self.compound32()?,
            code => return Err(DecodeError::WrongType { offset: at, code, expected: "list" }),
        };
        inner.check_count(count, at)?;
        Ok((count, inner))
    }

    /// Reads the head of a map (`0xc1`, `0xd1`). Returns the number of pairs and a reader over exactly their
    /// bytes. This reader continues after the map.
    pub fn read_map(&mut self) -> Result<(u32, Reader<'a>), DecodeError> {
        let at = self.offset();
        let (count, inner) = match self.byte()? {
            0xc1 => self.compound8()?,
            0xd1 => self.compound32()?,
            code => return Err(DecodeError::WrongType { offset: at, code, expected: "map" }),
        };
        if !count.is_multiple_of(2) {
            return Err(DecodeError::OddMap { offset: at });
        }
        inner.check_count(count, at)?;
        Ok((count / 2, inner))
    }

    /// Reads `0x00` and a descriptor of the standard, as number or as symbol. Returns the number. The
    /// described value is next.
    ///
    /// # Errors
    /// The value is not described, or the descriptor is a symbol that the standard does not define
    /// ([`DecodeError::UnknownDescriptor`]).
    #[inline]
    pub fn read_descriptor(&mut self) -> Result<u64, DecodeError> {
        if let Some(([0x00, 0x53, code], rest)) = self.rest.split_first_chunk::<3>() {
            self.rest = rest;
            return Ok((*code).into());
        }
        self.read_long_descriptor()
    }

    /// Reads the fields of a composite after its descriptor [1.4].
    #[inline]
    pub fn read_fields(&mut self, type_name: &'static str) -> Result<Fields<'a>, DecodeError> {
        let (count, inner) = self.read_list()?;
        Ok(Fields::new(inner, count, type_name))
    }

    /// The position of this reader, for errors.
    pub fn offset(&self) -> u32 {
        u32::try_from(self.position()).unwrap_or(u32::MAX)
    }

    /// Returns an error if any bytes are left.
    #[inline]
    pub fn expect_end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes { offset: self.offset() }) }
    }

    /// Returns the error for the value whose format code was just read.
    #[cold]
    fn wrong_type(&self, code: u8, expected: &'static str) -> DecodeError {
        DecodeError::WrongType { offset: self.offset().saturating_sub(1), code, expected }
    }

    #[cold]
    fn truncated(&self) -> DecodeError {
        DecodeError::Truncated { offset: self.offset() }
    }

    #[cold]
    fn read_long_descriptor(&mut self) -> Result<u64, DecodeError> {
        let at = self.offset();
        match self.byte()? {
            0x00 => {}
            code => return Err(DecodeError::WrongType { offset: at, code, expected: "described value" }),
        }
        let unknown = DecodeError::UnknownDescriptor { offset: at };
        match self.peek() {
            Some(0xa3 | 0xb3) => {
                self.read_symbol_opt()?.and_then(crate::descriptor::from_symbol).ok_or(unknown)
            }
            Some(0x44 | 0x53 | 0x80) => self.read_u64_opt()?.ok_or(unknown),
            Some(_) => Err(unknown),
            None => Err(self.truncated()),
        }
    }

    fn skip_primitive(&mut self, code: u8, at: u32) -> Result<(), DecodeError> {
        let width = match code {
            0x40..=0x45 => 0,
            0x50..=0x56 => 1,
            0x60 | 0x61 => 2,
            0x70..=0x74 => 4,
            0x80..=0x84 => 8,
            0x94 | 0x98 => 16,
            0xa0 | 0xa1 | 0xa3 | 0xc0 | 0xc1 | 0xe0 => usize::from(self.byte()?),
            0xb0 | 0xb1 | 0xb3 | 0xd0 | 0xd1 | 0xf0 => self.length32()?,
            _ => return Err(DecodeError::UnknownConstructor { offset: at, code }),
        };
        self.take(width).map(|_| ())
    }

    /// Checks a count: every item of a list or map takes at least one byte.
    #[inline]
    fn check_count(&self, count: u32, at: u32) -> Result<(), DecodeError> {
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(()),
            _ => Err(DecodeError::CountTooLarge { offset: at }),
        }
    }

    #[inline]
    fn compound8(&mut self) -> Result<(u32, Reader<'a>), DecodeError> {
        let size = usize::from(self.byte()?);
        let mut inner = self.split(size)?;
        let count = inner.byte()?.into();
        Ok((count, inner))
    }

    fn compound32(&mut self) -> Result<(u32, Reader<'a>), DecodeError> {
        let size = self.length32()?;
        let mut inner = self.split(size)?;
        let count = u32::from_be_bytes(inner.chunk()?);
        Ok((count, inner))
    }

    /// Splits off the next `size` bytes as a separate reader.
    #[inline]
    fn split(&mut self, size: usize) -> Result<Reader<'a>, DecodeError> {
        let start = self.position();
        let rest = self.take(size)?;
        Ok(Reader { rest, end: start.saturating_add(size), zero_width_left: self.zero_width_left })
    }

    fn boolean_octet(&mut self) -> Result<bool, DecodeError> {
        let at = self.offset();
        match self.byte()? {
            0x00 => Ok(false),
            0x01 => Ok(true),
            _ => Err(DecodeError::InvalidBoolean { offset: at }),
        }
    }

    #[inline]
    fn variable8(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::from(self.byte()?);
        self.take(len)
    }

    fn variable32(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.length32()?;
        self.take(len)
    }

    fn length32(&mut self) -> Result<usize, DecodeError> {
        let at = self.offset();
        usize::try_from(u32::from_be_bytes(self.chunk()?)).map_err(|_| DecodeError::Truncated { offset: at })
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated()),
        }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => Err(self.truncated()),
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, DecodeError> {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                Ok(*byte)
            }
            None => Err(self.truncated()),
        }
    }
}

fn utf8(octets: &[u8], at: u32) -> Result<&str, DecodeError> {
    std::str::from_utf8(octets).map_err(|_| DecodeError::InvalidUtf8 { offset: at })
}

fn ascii(octets: &[u8], at: u32) -> Result<&str, DecodeError> {
    match std::str::from_utf8(octets) {
        Ok(text) if text.is_ascii() => Ok(text),
        _ => Err(DecodeError::InvalidSymbol { offset: at }),
    }
}

fn own_symbol(text: &str) -> Symbol {
    Symbol::from(text.to_owned())
}

#[cfg(test)]
mod tests;
