//! Chunks: the unit in which messages of a stream are written, retained and read.

use std::sync::Arc;

use bytes::BytesMut;
use message::{EntryWriter, Message};

use crate::contract::{Chunk, FilterValues};

/// The size of entries at which a chunk is closed, in bytes. A consumer that wants one message holds this much in
/// memory. A larger message gets a chunk of its own.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// The number of messages at which a chunk is closed.
pub const CHUNK_ENTRIES_MAX: u32 = 4096;

/// The number of distinct filter values at which a chunk is closed.
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
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns whether this message must go to the next chunk.
    pub(super) fn is_full_for(&self, message: &Message) -> bool {
        !self.is_empty()
            && (self.data.len() + message.stream_entry_bytes() > CHUNK_BYTES
                || self.entries == CHUNK_ENTRIES_MAX
                || self.values.values.len() >= VALUES_MAX)
    }

    pub(super) fn push(&mut self, message: &Message) {
        self.writer.put(message, &mut self.data);
        self.entries += 1;
        match message.stream_filter_value() {
            Some(value) if self.values.values.iter().any(|known| **known == *value) => {}
            Some(value) => self.values.values.push(value.into()),
            None => self.values.none = true,
        }
    }

    /// Returns the chunk, or `None` if it is empty. Starts a new chunk.
    pub(super) fn close(&mut self, first: u64, at_ms: u64) -> Option<Chunk> {
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

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    pub(super) fn bytes(&self) -> usize {
        self.data.len()
    }
}
