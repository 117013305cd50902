//! Octets that must not be printed.

use std::fmt;

/// A password or a token in the frame of a peer. `Debug` shows `***`, and there is no `Display`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Secret<'a>(&'a [u8]);

impl<'a> Secret<'a> {
    /// Wraps a secret.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// Returns the secret, for checking or sending it.
    pub const fn expose(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
