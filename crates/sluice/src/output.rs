//! What the verbs write to standard output.

use std::io::Write as _;

use crate::failure::Failure;

/// Writes text to standard output, so that it is there when the verb ends.
///
/// # Errors
/// Nobody reads it, or there is no room.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}
