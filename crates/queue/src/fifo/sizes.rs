//! Consumers that accept only messages up to a size ([`Attach::message_bytes_max`](crate::Attach)). A queue skips them for
//! larger messages. A message that no consumer with credit accepts stays at the head, and nothing overtakes it.

use message::{DeliveryMax, Message};

use super::consumers::Slot;
use super::entry::Entry;
use super::{Fifo, Output};

/// The message for which a consumer was skipped last.
#[derive(Clone, Copy)]
pub(super) struct TooLarge {
    seq: u64,
    /// [`Message::head_bytes`] of the message. Each turn asks again for a message that stays at the head, and its size may
    /// take long to find.
    head_bytes: u64,
}

impl Fifo {
    /// Returns the consumer that gets a new message at once, if any.
    #[inline(always)]
    pub(super) fn direct(&self, message: &Message, out: &mut Output) -> Option<Slot> {
        let first = if self.ready.is_empty() { self.consumers.next()? } else { return None };
        let fits = |max| message.fits(max, message.delivery_count(), false);
        let slot = self.consumers.next_for(first, fits)?;
        // A message that no consumer accepts becomes ready, and is counted then.
        out.too_large += u64::from(slot != first);
        Some(slot)
    }

    /// Returns the consumer that gets the next message: `first`, or the next one that accepts a message of this size.
    #[inline(always)]
    pub(super) fn next_slot(&mut self, first: Slot, out: &mut Output) -> Option<Slot> {
        let slot = self.consumers.next_for(first, |max| self.next_fits(max));
        if slot != Some(first) {
            self.note_too_large(out);
        }
        slot
    }

    /// Returns whether a consumer with this limit accepts the next message. Returns false if the message is not in memory.
    fn next_fits(&self, max: DeliveryMax) -> bool {
        let Some(entry) = self.ready.next() else { return false };
        if let Some(annotated) = self.journal.shown(entry) {
            return annotated.fits(max, entry.delivery_count, entry.redelivered);
        }
        match (max, self.known_head_bytes(entry)) {
            (DeliveryMax::Head(max), Some(bytes)) => bytes <= max,
            _ => {
                let fits = |message: &Message| message.fits(max, entry.delivery_count, entry.redelivered);
                entry.message().is_some_and(fits)
            }
        }
    }

    /// Returns what is known of a message without annotations of consumers. Nothing else changes the size of its head.
    fn known_head_bytes(&self, entry: &Entry) -> Option<u64> {
        self.seldom.too_large.filter(|known| known.seq == entry.seq).map(|known| known.head_bytes)
    }

    /// Counts the next message, unless it is the one that was counted last.
    #[cold]
    fn note_too_large(&mut self, out: &mut Output) {
        let Some(entry) = self.ready.next() else { return };
        let (seq, Some(message)) = (entry.seq, entry.message()) else { return };
        if self.known_head_bytes(entry).is_none() {
            let head_bytes = message.head_bytes();
            self.seldom.make().too_large = Some(TooLarge { seq, head_bytes });
            out.too_large += 1;
        }
    }

    /// Returns the size of a delivery of the next message in bytes, if it is in memory.
    pub(super) fn next_bytes(&self) -> Option<u64> {
        let entry = self.ready.next()?;
        let bytes = |message: &Message| message.delivery_bytes(entry.delivery_count, entry.redelivered);
        match self.journal.shown(entry) {
            Some(annotated) => Some(bytes(&annotated)),
            None => entry.message().map(bytes),
        }
    }

    /// Returns the size of the head of the next message in bytes, if a consumer was skipped for the message.
    pub(super) fn next_head_bytes(&self) -> Option<u64> {
        let entry = self.ready.next()?;
        let known = self.known_head_bytes(entry)?;
        Some(self.journal.shown(entry).map_or(known, |annotated| annotated.head_bytes()))
    }
}
