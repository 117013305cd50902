//! What the verbs write to standard output and standard error.

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

/// Writes the line of a failure to standard error.
pub fn complain(failure: &Failure) {
    // If standard error is closed, there is nobody left to notify.
    drop(writeln!(std::io::stderr(), "sluice: {failure}"));
}

/// Writes a warning to standard error.
pub fn warn(warning: &str) {
    // As with a failure.
    drop(writeln!(std::io::stderr(), "sluice: warning: {warning}"));
}
