//! Where a consumer of a stream begins, and which messages it is shown.

use std::sync::Arc;

use message::{Filter, ScopeValues};

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
