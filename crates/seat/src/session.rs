//! One direction each way of a session: what one side sends arrives at the other side once and in order, however often the link between
//! them is lost.
//!
//! ```text
//!   kept   [ 5 | 6 | 7 | 8 ]   sent, and not acknowledged: repeated over each new link
//!   unsent [ ... ]             kept by the caller, until the window has room
//! ```

use std::collections::VecDeque;

use bytes::Bytes;

#[cfg(debug_assertions)]
use crate::mutation::{Mutation, has};

/// The most bytes that one side sends without an acknowledgement: a quarter of the window of a connection between nodes, which carries other things, too.
pub(crate) const WINDOW: usize = 2 * 1024 * 1024;

/// A batch ends with the item with which it is at least this long, in bytes: as long as one frame of a link.
pub(crate) const BATCH: usize = 60 * 1024;

/// After this time without an acknowledgement, a side asks how far the other one has come, in milliseconds. A link loses nothing while it is open,
/// except what does not fit into its queue. So this is much longer than an answer takes. A long message may take longer still: the question is
/// behind it.
pub(crate) const REPEAT_MS: u64 = 2000;

/// After so many bytes, what has arrived is acknowledged at once.
const OWED_MAX: usize = WINDOW / 8;

/// What has arrived is acknowledged after this time, in milliseconds. The other side needs to know it only to forget what it keeps.
const OWED_MS: u64 = 100;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Session {
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// How many batches were acknowledged. Batches are numbered from 1.
    acknowledged: u64,
    /// How many batches of the other side have arrived.
    received: u64,
    /// When something arrived first that the other side does not know to have arrived, in milliseconds since the epoch.
    owes_since: Option<u64>,
    /// The bytes that have arrived since then.
    owed_bytes: usize,
    is_open: bool,
    /// The other side has acknowledged something, or there was nothing to acknowledge, in milliseconds since the epoch.
    progress_ms: u64,
    /// When the other side was asked how far it has come, in milliseconds since the epoch.
    asked_ms: u64,
}

impl Session {
    /// Returns true if there is a link, and both sides know what the other one has.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns true if another batch may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.is_open && self.kept_bytes < WINDOW
    }

    /// Returns the number of the next batch to be sent.
    pub(crate) fn next_number(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64 + 1
    }

    /// Returns how many batches have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Keeps a batch, which is being sent, until it is acknowledged.
    pub(crate) fn keep(&mut self, batch: Bytes, now_ms: u64) {
        if self.kept.is_empty() {
            self.progress_ms = now_ms;
        }
        self.kept_bytes += batch.len();
        self.kept.push_back(batch);
    }

    /// Returns the batches to be sent again.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Bytes> {
        self.kept.iter()
    }

    /// Handles the number of a batch. Returns true if the batch is the next one, and must be handled. One that has arrived before is
    /// acknowledged again. One that comes too early is dropped: the other side sends all again.
    pub(crate) fn receive(&mut self, number: u64, length: usize, now_ms: u64) -> bool {
        let is_next = number == self.received + 1;
        #[cfg(debug_assertions)]
        let is_next = match number {
            early if early > self.received + 1 && has(Mutation::TakeEarly) => {
                self.received = early - 1;
                true
            }
            repeated if repeated <= self.received && has(Mutation::TakeRepeated) => return true,
            _ => is_next,
        };
        self.received += u64::from(is_next);
        if number <= self.received {
            self.owes_since = self.owes_since.or(Some(now_ms));
            // One that has arrived before is sent again because the acknowledgement was lost.
            self.owed_bytes += if is_next { length } else { OWED_MAX };
        }
        is_next
    }

    /// Handles what the other side has received. Returns false if that makes no sense.
    pub(crate) fn acknowledge(&mut self, received: u64, now_ms: u64) -> bool {
        if received >= self.next_number() {
            return false;
        }
        while self.acknowledged < received
            && let Some(batch) = self.kept.pop_front()
        {
            self.acknowledged += 1;
            self.kept_bytes -= batch.len();
            self.progress_ms = now_ms;
        }
        true
    }

    /// Called when a link is open, and the other side has said what it has received. Returns false if that makes no sense. The caller sends
    /// again what is kept.
    pub(crate) fn open(&mut self, received: u64, now_ms: u64) -> bool {
        self.is_open = self.acknowledge(received, now_ms);
        self.progress_ms = now_ms;
        self.is_open
    }

    /// Called when there is a link again, and the other side has not noticed that there was none. The caller sends again what is kept.
    pub(crate) fn resume(&mut self, now_ms: u64) {
        self.is_open = true;
        self.progress_ms = now_ms;
    }

    /// Called when the link is lost.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
        #[cfg(debug_assertions)]
        if has(Mutation::ForgetSent) {
            let kept = self.next_number() - 1;
            self.acknowledge(kept, self.progress_ms);
        }
    }

    /// Returns what is to be acknowledged now, if something is.
    pub(crate) fn take_owed(&mut self, now_ms: u64) -> Option<u64> {
        let is_due = self.owed_bytes >= OWED_MAX || self.owes_since? + OWED_MS <= now_ms;
        if !self.is_open || !is_due {
            return None;
        }
        (self.owes_since, self.owed_bytes) = (None, 0);
        Some(self.received)
    }

    /// Returns when something is to be acknowledged, if it is not before.
    pub(crate) fn next_owed(&self) -> Option<u64> {
        self.owes_since.filter(|_| self.is_open).map(|since| since + OWED_MS)
    }

    /// Returns when the other side must be asked how far it has come, unless it acknowledges something before.
    pub(crate) fn next_question(&self) -> Option<u64> {
        (self.is_open && !self.kept.is_empty()).then_some(self.progress_ms.max(self.asked_ms) + REPEAT_MS)
    }

    /// Called when the other side is asked how far it has come.
    pub(crate) fn note_asked(&mut self, now_ms: u64) {
        self.asked_ms = now_ms;
    }
}
