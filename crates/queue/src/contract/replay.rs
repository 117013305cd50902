//! The message types for streams: where a consumer starts, which messages it receives, and what a stream tells its
//! readers.

use std::sync::Arc;

use bytes::Bytes;
use message::{Filter, ScopeValues};

use super::GoneReason;

/// Where a consumer starts (docs/compatibility.md, Streams).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// The oldest retained message.
    First,
    /// The start of the last chunk.
    Last,
    /// The next message that is published.
    #[default]
    Next,
    Offset(u64),
    /// The first chunk written at or after this time, in milliseconds since the epoch.
    Time(u64),
}

/// A filter for chunks. It is coarse: a wanted chunk may also contain messages that are not wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    /// Wants chunks with at least one message that has one of these filter values.
    pub values: Arc<[Box<[u8]>]>,
    /// Also wants chunks with at least one message without a filter value.
    pub unfiltered: bool,
}

/// The most values of a [`BloomFilter`]. A reader looks for each of them in each chunk, and keeps each in memory.
pub const FILTER_VALUES_MAX: usize = 1024;

/// The least bytes of memory that an allocation takes.
const ALLOCATION_MIN: usize = 8;

impl BloomFilter {
    /// Returns a filter for these values, or `None` if they are more than [`FILTER_VALUES_MAX`].
    pub fn new(values: impl IntoIterator<Item: Into<Box<[u8]>>>, unfiltered: bool) -> Option<Self> {
        let values: Vec<Box<[u8]>> = values.into_iter().take(FILTER_VALUES_MAX + 1).map(Into::into).collect();
        (values.len() <= FILTER_VALUES_MAX).then(|| Self { values: values.into(), unfiltered })
    }

    /// Returns the bytes of memory that the filter takes besides itself.
    pub fn heap_bytes(&self) -> usize {
        let texts: usize = self.values.iter().map(|value| value.len().max(ALLOCATION_MIN)).sum();
        size_of_val(&*self.values) + texts
    }
}

/// What a consumer of a stream requests: a start, chunks, and messages.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    pub start: Start,
    pub bloom: Option<Arc<BloomFilter>>,
    /// Selects the messages of these chunks that the consumer receives.
    pub matching: Option<Arc<Filter>>,
}

impl Replay {
    /// Returns the bytes of memory that the filters take.
    pub fn filter_bytes(&self) -> usize {
        let chunks = self.bloom.as_ref().map_or(0, |bloom| bloom.heap_bytes());
        chunks + self.matching.as_ref().map_or(0, |filter| size_of::<Filter>() + filter.heap_bytes())
    }

    /// Returns the replay for a message filter. The start and the wanted chunks are derived from the filter where it
    /// limits them. If it limits both offset and time, the start is the offset, because an offset is exact.
    pub fn matching(filter: Filter) -> Self {
        let scope = filter.scope();
        let start = scope.offset.map(Start::Offset).or(scope.at_ms.map(Start::Time));
        let bloom =
            |ScopeValues { values, none }| Arc::new(BloomFilter { values: values.into(), unfiltered: none });
        Self {
            start: start.unwrap_or_default(),
            bloom: scope.values.map(bloom),
            matching: Some(Arc::new(filter)),
        }
    }
}

/// A place where a stream has consumers. The caller assigns the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Follower(pub u32);

/// The part of a stream that is retained and may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// The oldest retained offset.
    pub first: u64,
    /// The offset of the next message to be written.
    pub next: u64,
    /// The size on the disk, in bytes.
    pub bytes: u64,
    /// The times at which the first and the last chunk were written, in milliseconds since the epoch.
    pub times_ms: Option<(u64, u64)>,
    /// The first offset of each segment, ascending.
    pub segments: Arc<[u64]>,
    /// The offset from which on the stream is closed, because a message there is damaged. Nothing is read from there on, and
    /// nothing is written to the stream.
    pub closed_from: Option<u64>,
}

impl Retained {
    /// Returns the number of retained messages.
    pub fn messages(&self) -> u64 {
        self.next - self.first.min(self.next)
    }
}

/// New information about a stream, for a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamUpdate {
    pub retained: Retained,
    /// The chunks written since the previous update, in order.
    pub chunks: Vec<Chunk>,
    /// Why the stream has ended. No more updates follow.
    pub end: Option<GoneReason>,
}

/// A block of messages that are written and read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of the first message.
    pub first: u64,
    /// The number of messages.
    pub entries: u32,
    /// The time at which the chunk was closed, in milliseconds since the epoch. It never decreases from chunk
    /// to chunk.
    pub at_ms: u64,
    /// The messages, encoded as [`message::Entries`] reads them.
    pub data: Bytes,
    /// The filter values of the messages. `None` if no message has one. Also `None` for a chunk that was read
    /// from the disk, because the filter was already applied there.
    pub values: Option<Arc<FilterValues>>,
}

impl Chunk {
    /// Returns the offset after the last message.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.entries)
    }

    /// Returns whether the filter wants this chunk.
    pub fn is_wanted(&self, filter: Option<&BloomFilter>) -> bool {
        let Some(filter) = filter else { return true };
        match &self.values {
            None => filter.unfiltered,
            Some(known) => {
                filter.unfiltered && known.none
                    || filter.values.iter().any(|v| known.values.iter().any(|k| k.as_bytes() == &**v))
            }
        }
    }
}

/// The filter values of a chunk's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterValues {
    /// The distinct values.
    pub values: Vec<Box<str>>,
    /// True if at least one message has no filter value.
    pub none: bool,
}
