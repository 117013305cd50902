//! What the verbs write to standard output and standard error.

use std::io::{IsTerminal as _, Write as _};

use crate::escape;
use crate::failure::Failure;

/// Moves the cursor to the first cell of a terminal, and erases the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Writes text to standard output, so that it is there when the verb ends. Control characters in it are escaped, but for line breaks.
///
/// # Errors
/// Nobody reads it, or there is no room.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&escape::lines(text))
}

/// Like [`print`]. On a terminal, the text replaces what is on the screen.
///
/// # Errors
/// The errors of [`print`].
pub(crate) fn redraw(text: &str) -> Result<(), Failure> {
    let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
    write(&format!("{clear}{}", escape::lines(text)))
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Writes the line of a failure to standard error.
pub(crate) fn complain(failure: &Failure) {
    tell(&failure.to_string());
}

/// Writes a warning to standard error.
pub(crate) fn warn(warning: &str) {
    tell(&format!("warning: {warning}"));
}

/// Writes a line to standard error that is no failure, for example how to go on.
pub(crate) fn tell(line: &str) {
    // If standard error is closed, there is nobody left to notify.
    drop(writeln!(std::io::stderr(), "sluice: {line}"));
}

/// Writes a line of progress to standard error, if that is a terminal.
pub(crate) fn show_progress(line: &str) {
    if std::io::stderr().is_terminal() {
        tell(line);
    }
}
