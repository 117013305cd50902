//! The words between a queue and whoever keeps its backlog.
//!
//! A queue asks for nothing to be written. Whoever drives it decides when memory is to be spared, takes a run of
//! ready messages out ([`crate::Fifo::page_out`]), writes it where it likes, and says so
//! ([`crate::Fifo::handle_stored`]); from then on the queue asks for what it needs, block by block.
//!
//! ```text
//!   page_out ──► (written, synced) ──► handle_stored ──► Fact::Stored         the messages are forgotten
//!   Output::loads ──► (read) ──► handle_loaded                                a block of them is back
//!   Output::released ──► (its bytes may go, once the facts so far are safe)   nothing in the run is alive
//!   living ──► (copied, synced) ──► handle_moved ──► Fact::Stored, released   a run without what is dead of it
//! ```

use message::{Annotations, Message};
use ranges::{Range, Span};

use crate::contract::{Deliver, PublisherId};

/// Which messages of a queue have facts. Its driver says so ([`crate::Drive::policy`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FactPolicy {
    /// None: nothing survives the process.
    Never,
    /// Durable messages that are not delivered settled at once. Everything applies at once.
    #[default]
    Durable,
    /// Every accepted message. Turns can fall: nothing of a publish is delivered before its turn stands
    /// ([`crate::Fifo::close_turn`]).
    Always,
}

impl FactPolicy {
    /// Whether a message needs a fact to survive.
    #[inline]
    pub fn needs_fact(self, message: &Message) -> bool {
        match self {
            Self::Never => false,
            Self::Durable => message.is_durable(),
            Self::Always => true,
        }
    }
}

/// What must survive the process. Facts restore the machine without running any decision again. [`FactPolicy`] says which
/// messages have facts.
#[derive(Clone, Debug)]
pub enum Fact {
    Put {
        seq: u64,
        message: Message,
        /// When it arrived, in milliseconds since the epoch: its time to live counts from here.
        at_ms: u64,
    },
    /// Settled, expired, dropped and dead-lettered alike. Ascending, not overlapping, inclusive. Says nothing
    /// of messages in runs.
    Gone(Span),
    /// Requeued: its marks from now on. They replace earlier ones.
    Returned { seq: u64, marks: Marks },
    /// A run is safe: its messages need no `Put` any more. Said again, it replaces what was said of the run,
    /// also what was `Taken`.
    Stored(Stored),
    /// What `Gone` is for messages of a run.
    Taken(Taken),
    /// Messages of the queue are lost: nothing of it is delivered any more, by no later life either. What is left
    /// is kept until the queue is deleted.
    Damaged,
}

/// What deliveries have left on a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Deliveries that failed.
    pub delivery_count: u32,
    /// Somebody has had it before.
    pub redelivered: bool,
    /// Deliveries in all, whatever became of them. Quorum queues count them; elsewhere 0.
    pub acquired_count: u32,
    /// Not delivered before this time, in milliseconds since the epoch. Only quorum queues delay messages.
    pub due_ms: Option<u64>,
    /// What consumers have set since the message was last put, merged.
    pub annotations: Option<Annotations>,
}

/// A [`Fact::Put`] whose message is lent: whoever keeps it has a form of its own for it.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    pub seq: u64,
    pub message: &'a Message,
    pub at_ms: u64,
    /// Its publisher is patient and there are consumers: the message may well be settled before it is written.
    pub brief: Option<Brief>,
}

/// Who waits for the receipt of a message, and what tells how soon it may be settled.
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    pub publisher: PublisherId,
    /// The publisher's number for it.
    pub number: u64,
    /// Ready messages in front of it.
    pub ahead: u64,
    /// Messages that consumers have accepted in this life of the queue.
    pub acknowledged: u64,
}

/// What a queue hands up while it applies a request: its deliveries, and the messages that it stores.
pub trait Carrier: Deliver {
    /// Called for each message that has a fact, before the facts of the same request, which do not repeat it. Returns true if
    /// the receipt of the message leaves by another way; only a [`Put::brief`] message may do that.
    fn put(&mut self, put: Put<'_>) -> bool;
}

impl From<Put<'_>> for Fact {
    fn from(Put { seq, message, at_ms, .. }: Put<'_>) -> Self {
        Self::Put { seq, message: message.clone(), at_ms }
    }
}

/// Messages of a run that are gone, by their positions in it, which start at 0; inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub run: u32,
    pub first: u32,
    pub last: u32,
    /// How many of them were durable.
    pub durable: u32,
    /// Bytes of those that were durable.
    pub bytes: u64,
}

impl Range for Taken {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        (self.run, self.last + 1) == (next.run, next.first)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
        self.durable += next.durable;
        self.bytes += next.bytes;
    }
}

/// A run of messages, all of one level of priority and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The queue's number for it.
    pub run: u32,
    /// Any message of these priorities between these seqs stands in the run, or is gone.
    pub first: u64,
    pub last: u64,
    /// The lowest and the highest; a message without one has 0.
    pub priorities: (u8, u8),
    /// Messages that were written, also those that are not alive any more.
    pub messages: u32,
    /// Those alive that survive the process, and their bytes.
    pub durable: u32,
    pub bytes: u64,
    pub ages: Ages,
}

/// When the messages of a run arrived and when they die, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    pub first_arrival_ms: u64,
    pub last_arrival_ms: u64,
    /// The earliest end that a message's own time to live imposes.
    pub first_end_ms: Option<u64>,
    /// The latest, if every message has one.
    pub last_end_ms: Option<u64>,
}

impl Ages {
    /// Adds a message; they come in order of arrival, more or less.
    pub(crate) fn add(this: Option<Self>, at_ms: u64, ttl_ms: Option<u32>) -> Self {
        let end_ms = ttl_ms.map(|ttl| at_ms.saturating_add(u64::from(ttl)));
        let Some(ages) = this else {
            return Self {
                first_arrival_ms: at_ms,
                last_arrival_ms: at_ms,
                first_end_ms: end_ms,
                last_end_ms: end_ms,
            };
        };
        Self {
            first_arrival_ms: ages.first_arrival_ms.min(at_ms),
            last_arrival_ms: ages.last_arrival_ms.max(at_ms),
            first_end_ms: ages.first_end_ms.into_iter().chain(end_ms).min(),
            last_end_ms: ages.last_end_ms.zip(end_ms).map(|(a, b)| a.max(b)),
        }
    }

    /// Nothing dies before this time.
    pub(crate) fn earliest_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let imposed = queue_ttl_ms.map(|ttl| self.first_arrival_ms.saturating_add(ttl));
        self.first_end_ms.into_iter().chain(imposed).min()
    }

    /// Everything is dead from this time on.
    pub(crate) fn latest_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let imposed = queue_ttl_ms.map(|ttl| self.last_arrival_ms.saturating_add(ttl));
        self.last_end_ms.into_iter().chain(imposed).min()
    }
}

/// A run that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOut {
    pub run: u32,
    /// Messages that were shown.
    pub messages: u32,
}

/// What is alive of a run, for it to be moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Living {
    /// Positions in the run, ascending.
    pub positions: Vec<u32>,
    /// From this position on nothing has been read. A block must begin there in the new place.
    pub unread: u32,
}

/// Where a living message of a run stands in its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its position in the old run.
    pub from: u32,
    /// The byte of the new run at which its block begins.
    pub block: u32,
}

/// A block that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub run: u32,
    /// The byte of the run at which the block begins; 0, or what a block before it named as the next.
    pub block: u32,
}

/// A block that was read: all its messages, in order.
#[derive(Debug, Default)]
pub struct Block {
    pub messages: Vec<Loaded>,
    /// Where the next block of the run begins, if this is not the last.
    pub next: Option<u32>,
}

/// A message of a run.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub seq: u64,
    pub at_ms: u64,
    pub message: Message,
}
