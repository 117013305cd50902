//! Why the settings of a backend cannot be used.

use std::fmt;

/// A setting of a backend that cannot be used, or is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key, as the configuration has it: `auth_http.user_path`.
    pub key: String,
    pub why: String,
}

impl SettingError {
    pub fn new(key: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { key: key.into(), why: why.to_string() }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for SettingError {}
