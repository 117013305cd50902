//! An incomplete content.
//!
//! Its buffer grows with the frames that arrive, never at once to the size that the peer announces. So a peer that announces
//! much and sends little costs little.

use buffers::Chunk;
use bytes::Bytes;

use super::content::{Content, Head};

/// An incomplete content.
#[derive(Debug)]
pub(super) struct Partial {
    pub method_id: u16,
    /// The arguments of the method, the properties, and the part of the body that has arrived.
    buffer: Vec<u8>,
    arguments_len: usize,
    /// The length of the properties, and the number of bytes of the body that are missing. `None` before the header.
    pub header: Option<(usize, u64)>,
}

impl Partial {
    /// Begins the content of a method with these arguments.
    pub(super) fn new(method_id: u16, arguments: &[u8]) -> Self {
        let (buffer, arguments_len) = (arguments.to_vec(), arguments.len());
        Self { method_id, buffer, arguments_len, header: None }
    }

    /// Returns the bytes of memory that the content takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.buffer.capacity()
    }

    /// Appends a part. `missing` is how many bytes will follow it. The memory at most doubles, and is no more than the whole
    /// content needs.
    pub(super) fn push(&mut self, part: &[u8], missing: u64) {
        if self.buffer.capacity() - self.buffer.len() < part.len() {
            let whole = usize::try_from(missing).unwrap_or(usize::MAX).saturating_add(part.len());
            self.buffer.reserve_exact(part.len().max(self.buffer.len()).min(whole));
        }
        self.buffer.extend_from_slice(part);
    }

    /// Returns the complete content. Its properties have this length in bytes.
    pub(super) fn into_content(self, properties_len: usize) -> Content<'static> {
        let Self { method_id, buffer, arguments_len, .. } = self;
        let buffer = Bytes::from(buffer);
        let payload_at = arguments_len + properties_len;
        Content {
            properties: Chunk::Owned(buffer.slice(arguments_len..payload_at)),
            payload: Chunk::Owned(buffer.slice(payload_at..)),
            head: Head::Kept { method_id, buffer, arguments_len },
        }
    }
}
