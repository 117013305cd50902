//! What is wrong with a configuration.

use std::fmt;

/// The most problems of one configuration that are shown. A file that is not a configuration file has more.
const PROBLEMS_SHOWN_MAX: usize = 50;

/// Why a configuration is refused: every problem, one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(pub(super) Vec<Problem>);

/// One problem and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// `FILE:LINE`, `FILE`, a variable of the environment, `--set`, `--set KEY`, or a key.
    pub place: String,
    pub problem: String,
}

impl Problem {
    pub(super) fn new(place: impl fmt::Display, problem: impl Into<String>) -> Self {
        Self { place: place.to_string(), problem: problem.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { place, problem }) in self.0.iter().take(PROBLEMS_SHOWN_MAX).enumerate() {
            write!(f, "{}{place}: {problem}", if at == 0 { "" } else { "\n" })?;
        }
        match self.0.len().checked_sub(PROBLEMS_SHOWN_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ConfigError {}
