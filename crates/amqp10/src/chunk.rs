//! A piece of input: borrowed from the read buffer, or owned because it stays where it was read to.

use std::ops::Deref;

use bytes::Bytes;

/// Bytes of one frame. Small frames are borrowed from the shard's read buffer and must be copied to be kept;
/// large ones own their part of a buffer and are kept by reference.
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
