//! Shows ready messages without taking them.

use message::Message;

use super::Fifo;
use super::entry::{Body, Entry, Reference, Spot};
use super::level::{Head, Rest};
use crate::{Block, Load, Loaded, Marks};

/// The most steps of [`Fifo::peek`] before it is at its position. A step is a message in memory, or all unread messages of a
/// run. So many take a few milliseconds, in which the shard does nothing else. Positions behind more steps are refused.
pub const PEEK_STEPS_MAX: u64 = 50_000;

/// The maximum size of the messages of one [`Peeked`] in bytes, apart from the last one. They stay in memory until they are
/// encoded, although their queue may have lost them.
pub const PEEK_BYTES_MAX: u64 = 1024 * 1024;

/// Which messages to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// The position of the first one, counted from 1 in the order of delivery.
    pub position: u64,
    /// The most messages, at least one.
    pub count: u32,
    /// The block in which an earlier peek has ended. It saves reading those before it. Useless if the queue has changed.
    pub hint: Option<PeekBlock>,
}

/// A block that a peek needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeekBlock {
    pub load: Load,
    /// The block with which the unread messages of the run begin.
    pub(super) begin: Load,
    /// The position in the run of the block's first message.
    pub(super) index: u32,
    /// The number of live messages from `begin` to this block.
    passed: u64,
}

impl PeekBlock {
    /// Returns a block for a caller that knows by sequence numbers what it has passed.
    pub(super) fn new(load: Load, begin: Load, index: u32) -> Self {
        Self { load, begin, index, passed: 0 }
    }
}

/// The answer to [`Fifo::peek`].
#[derive(Debug)]
pub struct Peeked {
    pub messages: Vec<PeekedMessage>,
    /// What follows them.
    pub end: PeekEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeekEnd {
    /// No further message is ready.
    Queue,
    /// There may be further messages, but these are as many as wanted, or have [`PEEK_BYTES_MAX`] bytes. Has the hint for
    /// the peek that goes on.
    Enough(Option<PeekBlock>),
    /// The next message is on the disk.
    Disk(PeekBlock),
    /// The position is behind more than [`PEEK_STEPS_MAX`] steps.
    TooFar,
}

/// A ready message, with its counts.
#[derive(Debug)]
pub struct PeekedMessage {
    /// The sequence number of the message in the queue.
    pub seq: u64,
    /// The message with the annotations that consumers have set.
    pub message: Message,
    /// The arrival time in milliseconds since the epoch.
    pub at_ms: u64,
    /// The number of failed deliveries.
    pub delivery_count: u32,
    /// The number of deliveries that have ended without success, whether they failed or not. Classic queues do not count
    /// beyond 1.
    pub acquired_count: u32,
    pub redelivered: bool,
}

/// A peek in progress.
struct Look<'a> {
    fifo: &'a Fifo,
    peek: &'a Peek,
    /// The block that was read for it.
    read: Option<(PeekBlock, &'a Block)>,
    messages: Vec<PeekedMessage>,
    bytes: u64,
}

impl Fifo {
    /// See [`Report::head_at_ms`].
    pub(super) fn head_at_ms(&self) -> Option<u64> {
        let run = match self.ready.head(self.ready.top()?)? {
            Head::Entry(entry) => match entry.body {
                Body::InMemory { at_ms, .. } => return Some(at_ms),
                Body::OnDisk { .. } => entry.spot?.run,
            },
            Head::Reference(reference) => reference.spot.run,
            Head::Rest(rest) => rest.load.run,
        };
        Some(self.journal.runs.get(run)?.ages.first_arrival_ms)
    }

    /// Returns ready messages from a position on. Changes nothing, and requests no block: the caller reads the block of
    /// [`PeekEnd::Disk`], and asks again with it. The unread messages of a run count as one block, although requeued messages
    /// may have their places between them.
    pub fn peek(&self, peek: &Peek, read: Option<(PeekBlock, &Block)>) -> Peeked {
        let mut look = Look { fifo: self, peek, read, messages: Vec::new(), bytes: 0 };
        let mut before = peek.position.saturating_sub(1);
        for (step, head) in (0..).zip(self.ready.in_order()) {
            let messages = if let Head::Rest(rest) = head { rest.messages } else { 1 };
            let end = if before >= messages {
                before -= messages;
                (step >= PEEK_STEPS_MAX).then_some(PeekEnd::TooFar)
            } else {
                let skip = std::mem::take(&mut before);
                match head {
                    Head::Entry(entry) if entry.is_in_memory() => {
                        look.add(entry).then_some(PeekEnd::Enough(None))
                    }
                    Head::Entry(entry) => {
                        entry.reference().and_then(|reference| look.add_reference(reference))
                    }
                    Head::Reference(reference) => look.add_reference(reference),
                    Head::Rest(rest) => look.add_unread(rest, skip),
                }
            };
            if let Some(end) = end {
                return Peeked { messages: look.messages, end };
            }
        }
        Peeked { messages: look.messages, end: PeekEnd::Queue }
    }
}

impl Look<'_> {
    /// Adds a message that is in memory. Returns true if these are enough.
    fn add(&mut self, entry: &Entry) -> bool {
        let journal = &self.fifo.journal;
        let message = journal.shown(entry);
        let acquired_count = journal.acquired.count(entry);
        self.push(entry, message, acquired_count)
    }

    fn push(&mut self, entry: &Entry, shown: Option<Message>, acquired_count: u32) -> bool {
        let Body::InMemory { message, at_ms } = &entry.body else { return false };
        let Entry { seq, delivery_count, redelivered, .. } = *entry;
        let message = shown.unwrap_or_else(|| message.clone());
        self.bytes += message.bytes_in_memory();
        let at_ms = *at_ms;
        self.messages.push(PeekedMessage {
            seq,
            message,
            at_ms,
            delivery_count,
            acquired_count,
            redelivered,
        });
        self.messages.len() >= self.peek.count as usize || self.bytes >= PEEK_BYTES_MAX
    }

    /// Adds a message whose body was freed. Returns why the peek ends, if it does.
    fn add_reference(&mut self, reference: Reference) -> Option<PeekEnd> {
        let load = reference.spot.load();
        let body = self.read.filter(|(at, _)| at.load == load).and_then(|(_, block)| {
            let at = block.messages.binary_search_by_key(&reference.seq, |loaded| loaded.seq).ok()?;
            block.messages.get(at)
        });
        let Some(Loaded { message, at_ms, .. }) = body else {
            return Some(PeekEnd::Disk(PeekBlock { load, begin: load, index: 0, passed: 0 }));
        };
        self.add(&reference.filled(message.clone(), *at_ms)).then_some(PeekEnd::Enough(None))
    }

    /// Adds messages of a run that have not been read, without the first `skip` ones. Returns why the peek ends, if it does.
    fn add_unread(&mut self, rest: &Rest, skip: u64) -> Option<PeekEnd> {
        let is_useful = |at: &PeekBlock| at.begin == rest.load && at.passed <= skip;
        let Some((at, block)) = self.read.filter(|(at, _)| is_useful(at)) else {
            let begin = PeekBlock { load: rest.load, begin: rest.load, index: rest.index, passed: 0 };
            return Some(PeekEnd::Disk(self.peek.hint.filter(is_useful).unwrap_or(begin)));
        };
        let (journal, mut passed) = (&self.fifo.journal, at.passed);
        for (index, Loaded { seq, at_ms, message }) in (at.index..).zip(&block.messages) {
            let spot = Spot { run: at.load.run, block: at.load.block, index };
            let journaled = journal.policy.needs_fact(message);
            let entry = Entry { journaled, ..Entry::new(message.clone(), *seq, *at_ms) };
            let Some((entry, marks)) = journal.runs.would_take_in(spot, entry) else { continue };
            passed += 1;
            if passed > skip {
                let Marks { acquired_count, annotations, .. } = marks;
                let shown = annotations.map(|annotations| message.annotated(&annotations));
                // Only the counts above 1 of a quorum queue are among the marks.
                let acquired_count = acquired_count.max(u32::from(entry.redelivered));
                if self.push(&entry, shown, acquired_count) {
                    return Some(PeekEnd::Enough(Some(at)));
                }
            }
        }
        let load = Load { run: at.load.run, block: block.next.filter(|_| rest.messages > passed)? };
        let index = at.index + block.messages.len() as u32;
        Some(PeekEnd::Disk(PeekBlock { load, begin: at.begin, index, passed }))
    }
}
