//! Randomness, which the machines are given from outside.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns bytes that nobody can guess. They come from a call of the system that needs no device file, so that a broker in
/// an empty file system can start, too.
///
/// # Errors
/// The system has no such call.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_are_given_twice() {
        let (one, other) = (random::<300>().unwrap(), random::<300>().unwrap());
        assert!(one[..100] != other[..100] && one[200..] != other[200..]);
    }
}
