//! Errors of decoding.

use std::fmt;

/// Why bytes could not be decoded, and where. Offsets count from the start of the outermost reader's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside a value, or a value extends beyond its list, map or array.
    Truncated {
        /// Where bytes are missing.
        offset: u32,
    },
    /// A format code that the specification does not define [1.2].
    UnknownConstructor {
        /// The position of the code.
        offset: u32,
        /// The code.
        code: u8,
    },
    /// A value of a type that the field does not have.
    WrongType {
        /// Where the value starts.
        offset: u32,
        /// The format code of the value.
        code: u8,
        /// The type of the field.
        expected: &'static str,
    },
    /// A string that is not UTF-8 [1.6.20].
    InvalidUtf8 {
        /// Where the string starts.
        offset: u32,
    },
    /// A symbol that is not ASCII [1.6.21].
    InvalidSymbol {
        /// Where the symbol starts.
        offset: u32,
    },
    /// A char that is not a Unicode scalar value [1.6.16].
    InvalidChar {
        /// Where the char starts.
        offset: u32,
    },
    /// A boolean octet other than 0 and 1 [1.6.2].
    InvalidBoolean {
        /// The position of the octet.
        offset: u32,
    },
    /// A map with a key that has no value [1.6.23].
    OddMap {
        /// Where the map starts.
        offset: u32,
    },
    /// A count of items that is too large for the bytes.
    CountTooLarge {
        /// Where the list, map or array starts.
        offset: u32,
    },
    /// More zero-width array elements than [`MAX_ZERO_WIDTH_ITEMS`](super::MAX_ZERO_WIDTH_ITEMS).
    TooManyItems {
        /// Where the array starts.
        offset: u32,
    },
    /// Nested deeper than [`MAX_NESTING`](super::MAX_NESTING).
    TooDeep {
        /// Where the value that is nested too deep starts.
        offset: u32,
    },
    /// Bytes after the last item of a list, map or array, or after a performative that has no payload.
    TrailingBytes {
        /// Where these bytes start.
        offset: u32,
    },
    /// A composite with more fields than its type defines [1.4].
    TooManyFields {
        /// Where the first extra field starts.
        offset: u32,
        /// The name of the type.
        composite: &'static str,
    },
    /// A mandatory field that is null or absent [1.4].
    MissingField {
        /// Where the field should be.
        offset: u32,
        /// `type.field`, such as `attach.handle`.
        field: &'static str,
    },
    /// A value that a restricted type does not allow.
    InvalidChoice {
        /// Where the value starts.
        offset: u32,
        /// The name of the restricted type.
        restricted: &'static str,
    },
    /// A described type that is not allowed here.
    UnknownDescriptor {
        /// Where the described value starts.
        offset: u32,
    },
}

impl DecodeError {
    /// Returns where decoding failed.
    pub fn offset(&self) -> u32 {
        match *self {
            Self::Truncated { offset }
            | Self::UnknownConstructor { offset, .. }
            | Self::WrongType { offset, .. }
            | Self::InvalidUtf8 { offset }
            | Self::InvalidSymbol { offset }
            | Self::InvalidChar { offset }
            | Self::InvalidBoolean { offset }
            | Self::OddMap { offset }
            | Self::CountTooLarge { offset }
            | Self::TooManyItems { offset }
            | Self::TooDeep { offset }
            | Self::TrailingBytes { offset }
            | Self::TooManyFields { offset, .. }
            | Self::MissingField { offset, .. }
            | Self::InvalidChoice { offset, .. }
            | Self::UnknownDescriptor { offset } => offset,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { .. } => f.write_str("truncated value"),
            Self::UnknownConstructor { code, .. } => write!(f, "unknown format code 0x{code:02x}"),
            Self::WrongType { code, expected, .. } => {
                write!(f, "expected {expected}, found format code 0x{code:02x}")
            }
            Self::InvalidUtf8 { .. } => f.write_str("string is not UTF-8"),
            Self::InvalidSymbol { .. } => f.write_str("symbol is not ASCII"),
            Self::InvalidChar { .. } => f.write_str("char is not a Unicode scalar value"),
            Self::InvalidBoolean { .. } => f.write_str("boolean is neither 0 nor 1"),
            Self::OddMap { .. } => f.write_str("map has a key without a value"),
            Self::CountTooLarge { .. } => f.write_str("count exceeds the bytes that follow"),
            Self::TooManyItems { .. } => f.write_str("too many zero-width array elements"),
            Self::TooDeep { .. } => f.write_str("values nested too deep"),
            Self::TrailingBytes { .. } => f.write_str("unexpected trailing bytes"),
            Self::TooManyFields { composite, .. } => write!(f, "too many fields in {composite}"),
            Self::MissingField { field, .. } => write!(f, "mandatory field {field} is missing"),
            Self::InvalidChoice { restricted, .. } => write!(f, "invalid value for {restricted}"),
            Self::UnknownDescriptor { .. } => f.write_str("unexpected descriptor"),
        }?;
        write!(f, " at byte {}", self.offset())
    }
}

impl std::error::Error for DecodeError {}
