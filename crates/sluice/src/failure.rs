//! Why a verb ended early: an exit code, and one line that says what failed and where.

use std::fmt;

use crate::escape;

/// Exit code: done.
pub(crate) const OK: u8 = 0;
/// Exit code: refused, or failed on the way.
pub(crate) const FAILED: u8 = 1;
/// Exit code: wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// Exit code: nobody answers there.
pub(crate) const NOBODY: u8 = 3;

/// The failure that ends a verb: its exit code and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub code: u8,
    pub line: String,
}

impl Failure {
    /// Returns the failure for an operation that the broker refused, or that failed on the way. It has one line, whatever names of
    /// other clients the reason repeats.
    pub(crate) fn failed(line: impl AsRef<str>) -> Self {
        Self { code: FAILED, line: escape::line(line.as_ref()).into_owned() }
    }

    /// Returns the failure for wrong arguments or a wrong configuration.
    pub(crate) fn usage(line: impl Into<String>) -> Self {
        Self { code: USAGE, line: line.into() }
    }

    /// Returns the failure for a place at which nobody answers.
    pub(crate) fn nobody(place: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { code: NOBODY, line: format!("nobody answers at {place}: {why}") }
    }

    /// Returns the failure to write to standard output.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        Self::failed(format!("cannot write to standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Failure {}
