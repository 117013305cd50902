//! Why certificates and keys cannot be used.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustls::pki_types::pem;

/// Why certificates cannot be used. The text names the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    text: String,
    at_fault: AtFault,
}

/// What is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtFault {
    File(PathBuf),
    /// A setting, by the last part of its key: `verify`.
    Key(&'static str),
    /// Neither: the system has refused something.
    System,
}

impl TlsError {
    pub(crate) fn new(at_fault: AtFault, text: String) -> Self {
        Self { text, at_fault }
    }

    pub(crate) fn of_file(path: &Path, text: String) -> Self {
        Self::new(AtFault::File(path.to_owned()), text)
    }

    /// Returns what is at fault.
    pub fn at_fault(&self) -> &AtFault {
        &self.at_fault
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TlsError {}

pub(crate) fn pem_error(path: &Path, error: &pem::Error) -> TlsError {
    match error {
        pem::Error::Io(error) => unreadable(path, error),
        other => wrong(path, other),
    }
}

pub(crate) fn wrong(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError::of_file(path, format!("{}: {why}", path.display()))
}

pub(crate) fn unreadable(path: &Path, error: &io::Error) -> TlsError {
    TlsError::of_file(path, format!("cannot read {}: {error}", path.display()))
}
