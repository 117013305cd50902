//! Why certificates and keys cannot be used.

use std::fmt;
use std::path::Path;

use rustls::pki_types::pem;

/// Why certificates cannot be used. Each names the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl TlsError {
    pub(crate) fn new(what: String) -> Self {
        Self(what)
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

pub(crate) fn pem_error(path: &Path, error: &pem::Error) -> TlsError {
    match error {
        pem::Error::Io(error) => TlsError(format!("cannot read {}: {error}", path.display())),
        other => wrong(path, other),
    }
}

pub(crate) fn wrong(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError(format!("{}: {why}", path.display()))
}
