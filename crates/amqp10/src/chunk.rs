//! A piece of input: borrowed from the read buffer, or owned because it was read into a buffer of its own.

use std::ops::Deref;

use bytes::Bytes;

/// Bytes of one frame. Small frames are borrowed from the shard's read buffer and must be copied to be kept;
/// large ones own their buffer and are kept by reference.
#[derive(Clone, Debug)]
pub enum Chunk<'a> {
    Borrowed(&'a [u8]),
    Owned(Bytes),
}

impl<'a> Chunk<'a> {
    /// The rest from `at` on; empty if there is none.
    pub(crate) fn from(&self, at: usize) -> Chunk<'a> {
        match self {
            Chunk::Borrowed(bytes) => Chunk::Borrowed(bytes.get(at..).unwrap_or_default()),
            Chunk::Owned(bytes) => Chunk::Owned(bytes.slice(at.min(bytes.len())..)),
        }
    }

    /// The same piece of memory as `part`, which was borrowed from this chunk.
    pub(crate) fn sub(&self, part: &[u8]) -> Chunk<'a> {
        match self {
            Chunk::Owned(bytes) => Chunk::Owned(bytes.slice_ref(part)),
            Chunk::Borrowed(bytes) => {
                let at = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
                Chunk::Borrowed(bytes.get(at..at.wrapping_add(part.len())).unwrap_or_default())
            }
        }
    }
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
