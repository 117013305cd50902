//! What the clients of one queue or stream have seen.

use std::collections::{BTreeMap, BTreeSet};

/// What the clients have seen, over all restarts.
#[derive(Default)]
pub(crate) struct Story {
    pub next: u64,
    /// The number of messages that may still be sent.
    pub left: u64,
    /// The bytes that the log may have to write for messages without a receipt, including those of publishers
    /// that have left.
    pub in_flight: u64,
    /// Nothing is sent while `in_flight` is at least this.
    pub in_flight_max: u64,
    /// The messages sent, each with its publisher.
    pub sent: BTreeMap<u64, u32>,
    pub confirmed: BTreeSet<u64>,
    /// The messages that a consumer has accepted. They may return after a crash.
    pub received: BTreeSet<u64>,
    pub publishers: u32,
    /// The messages with an outcome other than accepted.
    pub rejected: BTreeSet<u64>,
    /// True if there is a dead-letter queue for messages that are rejected, expire or are dropped.
    pub has_dead_letters: bool,
    /// For a stream: the message that was last written at each offset, and the offset of each message.
    pub written: BTreeMap<u64, u64>,
    pub places: BTreeMap<u64, u64>,
    /// The offsets that were reported as written, or as synced if the stream syncs.
    pub promised: BTreeSet<u64>,
    /// The message that a consumer received at each offset.
    pub offsets: BTreeMap<u64, u64>,
    /// The offset below which retention may have removed everything.
    pub kept_from: u64,
    /// True if power was lost. Everything that was not promised may then be missing.
    pub lost_power: bool,
    /// True if the stream may be damaged.
    pub is_damaged: bool,
    /// True if a fault was made that may concern the queue or stream.
    pub is_suspect: bool,
}

impl Story {
    /// Returns true if power loss may have damaged the stream.
    pub(super) fn has_holes(&self) -> bool {
        self.is_damaged && !self.is_suspect
    }

    /// Records that a consumer received this message at this offset. `expected` is the offset that it
    /// expected, if known.
    pub(super) fn show(&mut self, offset: u64, number: u64, expected: Option<u64>) {
        assert_eq!(self.places.get(&number), Some(&offset), "message {number} comes from another offset");
        let before = self.offsets.insert(offset, number);
        assert!(before.is_none_or(|before| before == number), "offset {offset}: {before:?}, then {number}");
        let Some(expected) = expected else { return };
        assert!(expected <= offset, "offset {offset} comes behind {expected}");
        let may_miss =
            |offset: &u64| *offset < self.kept_from || self.lost_power && !self.promised.contains(offset);
        let missing = (expected..offset).find(|offset| !may_miss(offset));
        assert_eq!(missing, None, "{offset} came, {expected} was expected");
    }

    /// Returns the number of a new message, if another may be sent.
    pub(crate) fn send(&mut self, publisher: u32) -> Option<u64> {
        if self.in_flight >= self.in_flight_max {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        self.next += 1;
        self.sent.insert(self.next, publisher);
        Some(self.next)
    }
}
