//! Blocks of runs that are read again.

use catalog::ids::QueueId;
use queue::{BrowserLoad, Load, Peek, PeekBlock};
use wal::Extent;

/// A block that was requested.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Reading {
    pub queue: QueueId,
    pub load: Load,
    pub extent: Extent,
    pub purpose: Purpose,
}

/// Why a block is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) enum Purpose {
    /// Its messages are to be delivered.
    Deliver,
    /// The run is being copied without its dead messages.
    Copy,
    /// The admin API shows messages of the queue.
    Peek(Peeking),
    /// A consumer looks at messages of the queue, and takes none.
    Browse(BrowserLoad),
}

/// A peek of the admin API that waits for a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Peeking {
    /// The number of the question.
    pub question: u64,
    pub peek: Peek,
    pub block: PeekBlock,
    /// The number of further blocks that may be read for it.
    pub left: u32,
}
