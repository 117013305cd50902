//! The words for streams: where a consumer begins, which messages it is shown, and what a stream tells its readers.

use std::sync::Arc;

use bytes::Bytes;
use message::{Filter, ScopeValues};

use super::GoneReason;

/// Where a consumer begins (behaviour B.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// The oldest message that is kept.
    First,
    /// The beginning of the last chunk.
    Last,
    /// What is published from now on.
    #[default]
    Next,
    Offset(u64),
    /// The first chunk that was written at this time or later, in milliseconds since the epoch.
    Time(u64),
}

/// Chunks that a consumer wants to see: a coarse filter, for a chunk may hold other messages, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    /// Those with a message of one of these filter values.
    pub values: Vec<Box<[u8]>>,
    /// And those with a message that has none.
    pub unfiltered: bool,
}

/// What a consumer of a stream asks for.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    pub start: Start,
    pub bloom: Option<Arc<BloomFilter>>,
    /// Which messages of those chunks it is shown.
    pub matching: Option<Arc<Filter>>,
}

impl Replay {
    /// Shows what a filter wants: from where on and of which chunks, the filter says itself or leaves open. Where it
    /// speaks of offsets and of times, the offset counts, for it is exact.
    pub fn matching(filter: Filter) -> Self {
        let scope = filter.scope();
        let start = scope.offset.map(Start::Offset).or(scope.at_ms.map(Start::Time));
        let bloom = |ScopeValues { values, none }| Arc::new(BloomFilter { values, unfiltered: none });
        Self {
            start: start.unwrap_or_default(),
            bloom: scope.values.map(bloom),
            matching: Some(Arc::new(filter)),
        }
    }
}

/// Where consumers of a stream are. Chosen by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Follower(pub u32);

/// What is kept of a stream, and may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// The oldest offset.
    pub first: u64,
    /// The offset of the next message to come.
    pub next: u64,
    /// On the disk.
    pub bytes: u64,
    /// Where the first and the last chunk were written in time, in milliseconds since the epoch.
    pub times_ms: Option<(u64, u64)>,
    /// The first offset of each segment, ascending.
    pub segments: Arc<[u64]>,
}

impl Retained {
    /// Messages that are kept.
    pub fn messages(&self) -> u64 {
        self.next - self.first.min(self.next)
    }
}

/// What a follower must know of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub retained: Retained,
    /// What was written since the last news, in order.
    pub chunks: Vec<Chunk>,
    /// There is nothing more to come, for this reason.
    pub end: Option<GoneReason>,
}

/// Messages that stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of its first message.
    pub first: u64,
    /// Messages in it.
    pub entries: u32,
    /// When it was closed, in milliseconds since the epoch. Never falls.
    pub at_ms: u64,
    /// The messages, as [`message::Entries`] reads them.
    pub data: Bytes,
    /// What filters of chunks look for; `None` if no message has a value. Not known of a chunk that was read back:
    /// whoever has read it has looked.
    pub values: Option<Arc<FilterValues>>,
}

impl Chunk {
    /// The offset behind its last message.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.entries)
    }

    /// Whether a filter wants to see it.
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
    /// Each once.
    pub values: Vec<Box<str>>,
    /// There is a message without one.
    pub none: bool,
}
