//! Chunks: what is written, kept and read together.

use std::sync::Arc;

use bytes::BytesMut;
use message::{EntryWriter, Message};

use crate::contract::{Chunk, FilterValues};

/// Bytes of entries at which a chunk is closed: what a consumer that wants one message holds in memory. A larger message
/// has a chunk of its own.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// Messages at which a chunk is closed.
pub const CHUNK_ENTRIES_MAX: u32 = 4096;

/// Filter values of a chunk that are kept one by one; a chunk with more is closed.
const VALUES_MAX: usize = 1024;

/// A chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct Filling {
    data: BytesMut,
    writer: EntryWriter,
    entries: u32,
    values: FilterValues,
}

impl Filling {
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether this message must go to the next chunk.
    pub fn is_full_for(&self, message: &Message) -> bool {
        !self.is_empty()
            && (self.data.len() + message.stream_entry_bytes() > CHUNK_BYTES
                || self.entries == CHUNK_ENTRIES_MAX
                || self.values.values.len() >= VALUES_MAX)
    }

    pub fn push(&mut self, message: &Message) {
        self.writer.put(message, &mut self.data);
        self.entries += 1;
        match message.stream_filter_value() {
            Some(value) if self.values.values.iter().any(|known| **known == *value) => {}
            Some(value) => self.values.values.push(value.into()),
            None => self.values.none = true,
        }
    }

    /// The chunk, unless nothing is in it; what comes next goes to the following one.
    pub fn close(&mut self, first: u64, at_ms: u64) -> Option<Chunk> {
        if self.is_empty() {
            return None;
        }
        let values = std::mem::take(&mut self.values);
        let entries = std::mem::take(&mut self.entries);
        Some(Chunk {
            first,
            entries,
            at_ms,
            data: self.data.split().freeze(),
            values: (!values.values.is_empty()).then(|| Arc::new(values)),
        })
    }

    pub fn entries(&self) -> u32 {
        self.entries
    }

    pub fn bytes(&self) -> usize {
        self.data.len()
    }
}
