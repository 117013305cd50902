//! Makes names that nobody can guess (`catalog::unguessable`).

use std::fmt;

use catalog::ids::Origin;
use catalog::unguessable::{KEY_BYTES, Key};

/// Makes the names of one start of a node. It is the only source of randomness that gates have, and no decision depends on
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    pub origin: Origin,
    /// Returns random bytes of the operating system. `None` if it gives none.
    pub random: fn() -> Option<[u8; KEY_BYTES]>,
}

/// The operating system gives no random bytes, so no name can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRandomness;

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the operating system of the broker gives no random numbers, which a new name needs")
    }
}

impl Names {
    /// Returns a new key.
    ///
    /// # Errors
    /// See [`NoRandomness`].
    pub fn key(&self) -> Result<Key, NoRandomness> {
        (self.random)().map(Key::new).ok_or(NoRandomness)
    }
}
