//! A piece of input. It is either borrowed from the read buffer, or owns its part of that buffer.

use std::ops::Deref;

use bytes::Bytes;

/// The bytes of one frame. Small frames are borrowed from the shard's read buffer, so a caller that retains
/// them must copy them. Large frames own their part of a buffer and are retained by reference.
#[derive(Clone, Debug)]
pub enum Chunk<'a> {
    Borrowed(&'a [u8]),
    Owned(Bytes),
}

impl Deref for Chunk<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Chunk::Borrowed(bytes) => bytes,
            Chunk::Owned(bytes) => bytes,
        }
    }
}
