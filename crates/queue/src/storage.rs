//! The types between a queue and the component that stores its backlog.
//!
//! A queue never asks to be paged out. The component that drives it decides when to free memory. It takes a run of
//! ready messages from the queue ([`crate::Fifo::page_out`]), writes it, and reports success
//! ([`crate::Fifo::handle_stored`]). From then on, the queue asks for the messages that it needs, one block at a time.
//!
//! ```text
//!   page_out ──► (written, synced) ──► handle_stored ──► LocalFact::Stored    the messages leave memory
//!   Output::loads ──► (read) ──► handle_loaded                                a block of messages is in memory again
//!   Output::released ──► (freed once all facts so far are safe)               no message of the run is alive
//!   living ──► (copied, synced) ──► handle_moved ──► Stored, released         the new run has only live messages
//! ```

use message::{Annotations, Message};
use ranges::{Range, Span};

use crate::Seqs;
use crate::contract::{DeletedReason, Deliver, PublisherId};

/// Which messages of a queue have facts. The driver of the queue chooses ([`crate::Drive::policy`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FactPolicy {
    /// No message has a fact. Nothing survives the process.
    Never,
    /// Durable messages have facts, except those that are settled as they are delivered. All requests apply
    /// at once.
    #[default]
    Durable,
    /// Every accepted message has a fact. Turns can be rolled back, so a message is delivered only after the
    /// turn of its publish is committed ([`crate::Fifo::close_turn`]).
    Always,
}

impl FactPolicy {
    /// Returns whether a message needs a fact to survive.
    #[inline]
    pub fn needs_fact(self, message: &Message) -> bool {
        match self {
            Self::Never => false,
            Self::Durable => message.is_durable(),
            Self::Always => true,
        }
    }
}

/// A record of what must survive the process. Facts restore the machine without running any decision again.
/// [`FactPolicy`] says which messages have facts.
///
/// All members of a group share these facts: they are what the entries of a quorum queue hold. What a member knows
/// about its own disk is a [`LocalFact`].
#[derive(Clone, Debug)]
pub enum Fact {
    Put {
        seq: u64,
        message: Message,
        /// The arrival time in milliseconds since the epoch. The message's time to live starts here.
        at_ms: u64,
    },
    /// Messages were settled, expired, dropped or dead-lettered. The spans of a call ascend and do not overlap. Covers
    /// messages in runs only if the runs have [`Stored::seqs`].
    Gone(Span),
    /// The message was requeued and has these marks now. They replace earlier marks.
    Returned { seq: u64, marks: Marks },
    /// The queue has ended, with all of its messages. Facts that follow mean nothing. Only a queue whose turns can be rolled back
    /// has this fact ([`FactPolicy::Always`]): it ends when the fact is committed, and not when it decides to.
    Ended { reason: DeletedReason },
}

/// A record about the disk of one member, which its group does not share. It depends on no turn. In the log it follows
/// the facts of its call, so that a message was put before the record of its run.
#[derive(Clone, Debug)]
pub enum LocalFact {
    /// A run is stored safely, so its messages no longer need a `Put`. If repeated, it replaces all earlier facts about
    /// the run, including `GoneFromRun`.
    Stored(Stored),
    /// Messages of a run were removed. The counterpart of `Gone`. A run with [`Stored::seqs`] has this fact only where
    /// its state is repeated, and when its last message is gone.
    GoneFromRun(GoneFromRun),
    /// A message in a run has these marks. Said together with `Stored`, because an earlier [`Fact::Returned`] may be
    /// discarded before the run is. In the log, both are the same record.
    Marked { seq: u64, marks: Marks },
    /// Messages of the queue are lost. The queue delivers nothing any more, also not after a restart. The remaining
    /// messages are kept until the queue is deleted.
    Damaged,
}

/// A fact of either kind. The log of a member holds both.
#[derive(Clone, Debug)]
pub enum Logged {
    Shared(Fact),
    Local(LocalFact),
}

impl From<Fact> for Logged {
    fn from(fact: Fact) -> Self {
        Self::Shared(fact)
    }
}

impl From<LocalFact> for Logged {
    fn from(fact: LocalFact) -> Self {
        Self::Local(fact)
    }
}

/// The marks of a message: what its earlier deliveries have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The number of failed deliveries.
    pub delivery_count: u32,
    /// True if the message was delivered before.
    pub redelivered: bool,
    /// The number of deliveries that ended without success, failed or not. Only quorum queues count them; elsewhere 0.
    pub acquired_count: u32,
    /// The message is not delivered before this time, in milliseconds since the epoch. Only quorum queues delay
    /// messages.
    pub due_ms: Option<u64>,
    /// The merged annotations that consumers have set since the last `Put` of the message.
    pub annotations: Option<Annotations>,
}

/// A [`Fact::Put`] with a borrowed message. The receiver stores the message in its own format.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    pub seq: u64,
    pub message: &'a Message,
    pub at_ms: u64,
    /// The publisher of the message, if its writing may be deferred: the publisher pipelines and the queue
    /// has consumers. Such a message may well be settled before it is written.
    pub deferrable: Option<Deferrable>,
}

/// The publisher of a message whose writing may be deferred, and data to estimate how soon the message will be settled
/// (docs/decisions/0022).
#[derive(Clone, Copy, Debug)]
pub struct Deferrable {
    pub publisher: PublisherId,
    /// The publisher's number for the message.
    pub number: u64,
    /// The number of ready messages before it.
    pub ahead: u64,
    /// The number of messages that consumers have accepted since the queue was started.
    pub acknowledged: u64,
}

/// Receives the deliveries and the stored messages of a queue while it applies a request.
pub trait Carrier: Deliver {
    /// Called for each message that has a fact, before the other facts of the request, which do not repeat it. Returns
    /// true if the caller sends the receipt itself later. This is allowed only if the message has [`Put::deferrable`].
    fn put(&mut self, put: Put<'_>) -> bool;
}

impl From<Put<'_>> for Fact {
    fn from(Put { seq, message, at_ms, .. }: Put<'_>) -> Self {
        Self::Put { seq, message: message.clone(), at_ms }
    }
}

/// Removed messages of a run. Their positions in the run start at 0. The bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoneFromRun {
    pub run: u32,
    pub first: u32,
    pub last: u32,
    /// The number of removed messages that were durable.
    pub durable: u32,
    /// The total size of the removed durable messages, in bytes.
    pub bytes: u64,
}

impl Range for GoneFromRun {
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

/// A run: messages of one priority level in order, which were written together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The queue's number for the run.
    pub run: u32,
    /// Every message of these priorities with a sequence number in this range is in the run or was removed.
    pub first: u64,
    pub last: u64,
    /// The lowest and the highest priority. A message without a priority counts as 0.
    pub priorities: (u8, u8),
    /// The number of messages that were written, including those that are no longer alive.
    pub messages: u32,
    /// The number of live durable messages, and their size in bytes.
    pub durable: u32,
    pub bytes: u64,
    pub ages: Ages,
    /// The sequence numbers of all its messages, if the queue is a quorum queue; otherwise empty. The members of a
    /// group have different runs, so the facts of the group name messages by these numbers.
    pub seqs: Seqs,
}

impl Stored {
    /// Called when this many of the live messages are gone, and nothing but their number is known. Their size is
    /// estimated from the average.
    pub(crate) fn lose(&mut self, messages: u32) {
        self.bytes -= share(self.bytes, messages, self.durable);
        self.durable = self.durable.saturating_sub(messages);
    }
}

/// Returns the bytes of `messages` of `all` messages, which have `bytes` in total and are assumed to be equally large.
pub(crate) fn share(bytes: u64, messages: u32, all: u32) -> u64 {
    let part = u128::from(bytes) * u128::from(messages.min(all)) / u128::from(all.max(1));
    part as u64
}

/// When the messages of a run arrived and when they expire, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    pub first_arrival_ms: u64,
    pub last_arrival_ms: u64,
    /// The earliest expiry time that a message's own time to live causes.
    pub first_end_ms: Option<u64>,
    /// The latest expiry time that a message's own time to live causes. `None` unless every message has a
    /// time to live.
    pub last_end_ms: Option<u64>,
}

impl Ages {
    /// Adds a message. The calls are roughly in order of arrival.
    pub(crate) fn add(this: Option<Self>, at_ms: u64, ttl_ms: Option<u64>) -> Self {
        let end_ms = ttl_ms.map(|ttl| at_ms.saturating_add(ttl));
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

    /// Returns a time before which no message expires.
    pub(crate) fn earliest_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let imposed = queue_ttl_ms.map(|ttl| self.first_arrival_ms.saturating_add(ttl));
        self.first_end_ms.into_iter().chain(imposed).min()
    }

    /// Returns a time from which on all messages have expired.
    pub(crate) fn latest_ms(&self, queue_ttl_ms: Option<u64>) -> Option<u64> {
        let imposed = queue_ttl_ms.map(|ttl| self.last_arrival_ms.saturating_add(ttl));
        self.last_end_ms.into_iter().chain(imposed).min()
    }
}

/// A run that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOut {
    pub run: u32,
    /// The number of messages that were passed to the callback.
    pub messages: u32,
}

/// The live messages of a run that is to be moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Living {
    /// The positions of the live messages in the run, ascending.
    pub positions: Vec<u32>,
    /// The position from which on no message has been read. In the new run, a block must begin at this
    /// message.
    pub unread: u32,
}

/// The new position of a live message of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The message's position in the old run.
    pub from: u32,
    /// The offset in the new run at which the message's block begins, in bytes.
    pub block: u32,
}

/// A block that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub run: u32,
    /// The offset in the run at which the block begins, in bytes: 0, or the `next` of an earlier block.
    pub block: u32,
}

/// A block that was read: all of its messages in order.
#[derive(Debug, Default)]
pub struct Block {
    pub messages: Vec<Loaded>,
    /// The offset of the next block of the run. `None` for the last block.
    pub next: Option<u32>,
}

/// A message of a run.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub seq: u64,
    pub at_ms: u64,
    pub message: Message,
}
