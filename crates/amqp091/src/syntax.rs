//! Reading the simple types of AMQP 0.9.1 from untrusted bytes (4.2.5).

use std::fmt;

/// Why bytes are not valid AMQP 0.9.1. A peer that sent them gets the reply code 501 (`FRAME_ERROR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// The bytes end within a value.
    Truncated,
    /// There are more bytes after the last value.
    TrailingBytes(usize),
    /// A field table contains a value of an unknown type.
    FieldType(u8),
    /// A name in a field table is not UTF-8.
    NotUtf8,
    /// Field tables and arrays are nested deeper than [`crate::MAX_NESTING`].
    TooDeep,
    /// The flags announce a property that the class `basic` does not have.
    UnknownProperty,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end within a value"),
            Self::TrailingBytes(count) => write!(f, "{count} bytes after the last value"),
            Self::FieldType(letter) => {
                write!(f, "a field table has a value of the unknown type '{}'", letter.escape_ascii())
            }
            Self::NotUtf8 => f.write_str("a name in a field table is not UTF-8"),
            Self::TooDeep => {
                write!(f, "field tables and arrays are nested deeper than {} levels", crate::MAX_NESTING)
            }
            Self::UnknownProperty => f.write_str("the property flags announce an unknown property"),
        }
    }
}

impl std::error::Error for SyntaxError {}

/// A cursor over encoded values. After an error its position is unspecified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Reads `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], SyntaxError> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(SyntaxError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Reads an octet.
    #[inline]
    pub(crate) fn octet(&mut self) -> Result<u8, SyntaxError> {
        self.array::<1>().map(|[octet]| octet)
    }

    /// Reads a timestamp or another number of 64 bits.
    #[inline]
    pub(crate) fn longlong(&mut self) -> Result<u64, SyntaxError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads the bytes of a short string: a length of one byte, then the bytes.
    #[inline]
    pub(crate) fn short_string(&mut self) -> Result<&'a [u8], SyntaxError> {
        let len = self.octet()?;
        self.bytes(usize::from(len))
    }

    /// Reads the bytes of a long string, a table or an array: a length of four bytes, then the bytes.
    #[inline]
    pub(crate) fn long_string(&mut self) -> Result<&'a [u8], SyntaxError> {
        let len = self.array().map(u32::from_be_bytes)?;
        self.bytes(len as usize)
    }

    /// Fails unless everything is consumed.
    #[inline]
    pub(crate) fn finish(&self) -> Result<(), SyntaxError> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(SyntaxError::TrailingBytes(more)),
        }
    }

    #[inline]
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], SyntaxError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(SyntaxError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }
}
