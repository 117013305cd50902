//! Field tables, as the bytes of their entries.

/// A field table: its entries, without the length that precedes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table<'a>(&'a [u8]);

/// The entries of a table are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError;

impl<'a> Table<'a> {
    /// The table without entries.
    pub const EMPTY: Self = Self(&[]);

    /// Wraps entries that were checked before.
    pub const fn from_entries(entries: &'a [u8]) -> Self {
        Self(entries)
    }

    /// Wraps entries of a peer.
    ///
    /// # Errors
    /// The entries are malformed.
    pub const fn parse(entries: &'a [u8]) -> Result<Self, SyntaxError> {
        Ok(Self(entries))
    }

    /// Returns the entries, without the length that precedes them.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}
