//! Randomness, which the machines are given from outside.

use std::io;

/// Returns bytes that nobody can guess, from the system's source.
///
/// # Errors
/// The system has no such source.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
