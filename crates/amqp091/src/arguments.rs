//! The arguments of methods: big-endian numbers, short and long strings, and tables.

use std::fmt;

use buffers::Put;
use bytes::BytesMut;

use crate::secret::Secret;
use crate::syntax::{Cursor, SyntaxError};
use crate::table::Table;

/// The longest short string, in bytes. Its length is one octet.
pub const SHORTSTR_MAX: usize = 255;

/// What is wrong with the arguments of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentError {
    /// The frame ends within an argument, or bytes follow the last one.
    Syntax(SyntaxError),
    /// A short string is not UTF-8.
    NotUtf8,
    /// A field table is malformed.
    Table(SyntaxError),
}

impl From<SyntaxError> for ArgumentError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "{error}"),
            Self::NotUtf8 => f.write_str("a short string is not UTF-8"),
            Self::Table(error) => write!(f, "malformed field table: {error}"),
        }
    }
}

/// Reads arguments in their order. What it returns is borrowed from the frame.
#[derive(Debug)]
pub(crate) struct Reader<'a>(Cursor<'a>);

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(arguments: &'a [u8]) -> Self {
        Self(Cursor::new(arguments))
    }

    #[inline]
    pub(crate) fn octet(&mut self) -> Result<u8, ArgumentError> {
        Ok(self.0.octet()?)
    }

    #[inline]
    pub(crate) fn short(&mut self) -> Result<u16, ArgumentError> {
        Ok(u16::from_be_bytes(self.0.array()?))
    }

    #[inline]
    pub(crate) fn long(&mut self) -> Result<u32, ArgumentError> {
        Ok(u32::from_be_bytes(self.0.array()?))
    }

    #[inline]
    pub(crate) fn longlong(&mut self) -> Result<u64, ArgumentError> {
        Ok(self.0.longlong()?)
    }

    #[inline]
    pub(crate) fn shortstr(&mut self) -> Result<&'a str, ArgumentError> {
        std::str::from_utf8(self.0.short_string()?).map_err(|_| ArgumentError::NotUtf8)
    }

    #[inline]
    pub(crate) fn longstr(&mut self) -> Result<&'a [u8], ArgumentError> {
        Ok(self.0.long_string()?)
    }

    #[inline]
    pub(crate) fn secret(&mut self) -> Result<Secret<'a>, ArgumentError> {
        self.longstr().map(Secret::new)
    }

    #[inline]
    pub(crate) fn table(&mut self) -> Result<Table<'a>, ArgumentError> {
        Table::parse(self.longstr()?).map_err(ArgumentError::Table)
    }

    /// Returns `method` if nothing is left to read.
    #[inline]
    pub(crate) fn finish<T>(&self, method: T) -> Result<T, ArgumentError> {
        self.0.finish()?;
        Ok(method)
    }
}

/// Returns the longest start of `text` that fits a short string and ends between two characters.
pub(crate) fn cut_to_shortstr(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHORTSTR_MAX)]
}

/// Appends a short string. It is cut off after [`SHORTSTR_MAX`] bytes, between two characters.
#[inline]
pub(crate) fn put_shortstr(out: &mut BytesMut, text: &str) {
    let text = if text.len() > SHORTSTR_MAX { cut_to_shortstr(text) } else { text };
    out.put_u8(text.len() as u8);
    out.put_slice(text.as_bytes());
}

/// Appends a long string.
pub(crate) fn put_longstr(out: &mut BytesMut, bytes: &[u8]) {
    debug_assert!(
        u32::try_from(bytes.len()).is_ok(),
        "a long string is bounded by the frame that carries it"
    );
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}

/// Appends a table with its length.
pub(crate) fn put_table(out: &mut BytesMut, table: Table<'_>) {
    put_longstr(out, table.as_bytes());
}
