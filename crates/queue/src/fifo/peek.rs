//! Shows a ready message without taking it.

use message::Message;

use super::Fifo;
use super::entry::Entry;
use super::level::Head;

/// The largest position of [`Fifo::peek`]. The messages before a position are counted one by one. Counting this many takes
/// less than a millisecond.
pub const PEEK_POSITION_MAX: u64 = 10_000;

/// The answer to [`Fifo::peek`].
#[derive(Debug)]
pub enum Peeked {
    Message(Box<PeekedMessage>),
    /// The message is on the disk.
    OnDisk,
    /// Fewer messages are ready.
    Nothing,
}

/// A ready message, with its counts.
#[derive(Debug)]
pub struct PeekedMessage {
    /// The sequence number of the message in the queue.
    pub seq: u64,
    /// The message with the annotations that consumers have set.
    pub message: Message,
    /// The number of failed deliveries.
    pub delivery_count: u32,
    /// The number of deliveries that have ended without success, whether they failed or not. Classic queues do not count
    /// beyond 1.
    pub acquired_count: u32,
    pub redelivered: bool,
}

impl Fifo {
    /// Returns the ready message at a position, counted from 1 in the order of delivery. Changes nothing. The unread messages
    /// of a run count as one block, although requeued messages may have their places between them.
    pub fn peek(&self, position: u64) -> Peeked {
        let mut before = position.saturating_sub(1);
        for head in self.ready.in_order() {
            let messages = if let Head::Rest(rest) = head { rest.messages } else { 1 };
            if before >= messages {
                before -= messages;
                continue;
            }
            return match head {
                Head::Entry(entry) => self.peeked(entry),
                Head::Reference(_) | Head::Rest(_) => Peeked::OnDisk,
            };
        }
        Peeked::Nothing
    }

    fn peeked(&self, entry: &Entry) -> Peeked {
        let Some(message) = entry.message() else { return Peeked::OnDisk };
        let message = self.journal.shown(entry).unwrap_or_else(|| message.clone());
        let Entry { seq, delivery_count, redelivered, .. } = *entry;
        let acquired_count = self.journal.acquired.count(entry);
        Peeked::Message(Box::new(PeekedMessage { seq, message, delivery_count, acquired_count, redelivered }))
    }
}
