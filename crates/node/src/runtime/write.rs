//! Writes to sockets.

use std::io;

use buffers::Output;
use tokio::net::tcp::OwnedWriteHalf;

/// The most slices in one vectored write.
pub(super) const SLICES: usize = 64;

/// How a write has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything was written.
    Written,
    /// The socket is full, or was before.
    Full,
    /// The TLS handshake is not complete.
    Early,
    Failed,
}

/// What was written to a socket.
pub(super) struct Sent {
    /// The bytes of the gate's output.
    pub bytes: usize,
    pub end: End,
}

/// Writes to a socket once. Returns 0 if it is full.
///
/// # Errors
/// The connection is broken.
pub(super) fn try_write(socket: &OwnedWriteHalf, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
    loop {
        let result = match slices {
            // Cheaper in the kernel than a vectored write of one slice.
            [slice] => socket.try_write(slice),
            _ => socket.try_write_vectored(slices),
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Writes a connection's output until the socket is full.
pub(super) fn write_plain(socket: &OwnedWriteHalf, output: &mut Output) -> Sent {
    let mut bytes = 0;
    while !output.is_empty() {
        let result = match output.only_slice() {
            Some(slice) => try_write(socket, &[slice]),
            None => {
                let mut slices = [io::IoSlice::new(&[]); SLICES];
                let n = output.slices(&mut slices);
                try_write(socket, &slices[..n])
            }
        };
        match result {
            Ok(0) => return Sent { bytes, end: End::Full },
            Ok(n) => {
                output.advance(n);
                bytes += n;
            }
            Err(_) => return Sent { bytes, end: End::Failed },
        }
    }
    Sent { bytes, end: End::Written }
}
