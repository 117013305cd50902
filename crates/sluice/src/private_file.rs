//! Files that only their owner can read.

use std::io::Write as _;
use std::path::Path;

use wal::files::{self, Sharing};

use crate::failure::Failure;

/// Writes a file that only its owner can read, if it is new. Definitions have hashes of passwords.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_private(file: &Path, text: &str) -> Result<(), Failure> {
    let options = std::fs::OpenOptions::new().write(true).truncate(true).clone();
    let written = files::open_or_create(&options, file, Sharing::Owner.file())
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}
