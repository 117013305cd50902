//! One reader of a stream: its position, its credit, and its part of the stream in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use message::{Entries, Filter, Position};

use super::load::{LoadFrom, ReadersOutput};
use super::tail::Tail;
use crate::contract::{BloomFilter, Chunk, Replay, Retained, Start};
use crate::grant::Grant;
use crate::{ConsumerId, CreditState, Deliver, Delivery, DeliveryRef, Effect, Requester, Ticket};

/// The number of messages that one reader may filter before other readers are scheduled. One that is expensive to filter counts as
/// several.
pub const SCAN_MAX: u64 = 200;

/// The maximum size of the result of a Browse in bytes, apart from the last message.
pub(super) const BROWSE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A reader: a consumer, or a Browse request.
#[derive(Debug)]
pub(super) struct Reader {
    pub grant: Grant,
    /// The delivery number of the last delivery.
    pub number: u64,
    pub bloom: Option<Arc<BloomFilter>>,
    matching: Option<Arc<Filter>>,
    /// The next offset that the reader wants. Messages before it were passed or are not wanted.
    pub next: u64,
    /// The chunk that is being read. `entries` is its unread part, `at` the offset of the first entry in it, `end` the
    /// offset after the chunk, and `at_ms` the time at which it was written.
    entries: Entries,
    at: u64,
    end: u64,
    at_ms: u64,
    /// True if this chunk came from the tail.
    from_tail: bool,
    /// True if the consumer did not take the last message because it had no room. The message is offered again after
    /// the consumer's next Grant. Until then, nothing is read ahead.
    pub waits_for_room: bool,
    refused: bool,
    /// The chunks in memory after the current one.
    pub chunks: VecDeque<Chunk>,
    /// The offset after all chunks in memory. `None` until the reader's position is known.
    pub fetched: Option<u64>,
    /// The place from which the chunks after those in memory are read.
    pub behind: LoadFrom,
    pub loading: bool,
    /// True if the reader was interrupted so that others are served.
    pub interrupted: bool,
    /// `None` unless the consumer has asked for its credit state. True if it has asked for a drain.
    pub asked: Option<bool>,
    /// The messages that a Browse request has read so far. `None` for a consumer.
    pub browsed: Option<Browsed>,
}

#[derive(Debug, Default)]
pub(super) struct Browsed {
    pub deliveries: Vec<Delivery>,
    pub bytes: u64,
}

impl Browsed {
    /// Adds a message. Returns true if the result is large enough.
    fn take(&mut self, lent: DeliveryRef<'_>) -> bool {
        self.bytes += lent.message.len();
        self.deliveries.push(lent.to_delivery());
        self.bytes >= BROWSE_BYTES_MAX
    }
}

impl Reader {
    pub(super) fn new(replay: &Replay, retained: &Retained, delivery_count: u32) -> Self {
        let (fetched, behind, next) = match replay.start {
            Start::First => (Some(retained.first), LoadFrom::First, 0),
            Start::Last => (None, LoadFrom::Last, 0),
            Start::Next => (Some(retained.next), LoadFrom::Offset(retained.next), retained.next),
            Start::Offset(offset) => {
                let fetched = offset.min(retained.next);
                (Some(fetched), LoadFrom::Offset(fetched), offset)
            }
            Start::Time(ms) => (None, LoadFrom::Time(ms), 0),
        };
        Self {
            grant: Grant::new(delivery_count),
            number: 0,
            bloom: replay.bloom.clone(),
            matching: replay.matching.clone(),
            next,
            entries: Entries::default(),
            at: 0,
            end: 0,
            at_ms: 0,
            from_tail: false,
            waits_for_room: false,
            refused: false,
            chunks: VecDeque::new(),
            fetched,
            behind,
            loading: false,
            interrupted: false,
            asked: None,
            browsed: None,
        }
    }

    fn begin(&mut self, chunk: Chunk, from_tail: bool) {
        self.from_tail = from_tail;
        (self.at, self.end, self.at_ms) = (chunk.first, chunk.end(), chunk.at_ms);
        self.entries.replace(chunk.data);
    }

    /// Returns true if some written message has not been inspected by the reader.
    pub(super) fn is_behind(&self, retained: &Retained) -> bool {
        self.fetched.is_none_or(|fetched| fetched < retained.next)
            || !self.chunks.is_empty()
            || !self.entries.is_empty()
            || self.refused
    }

    /// Returns true if the reader wants nothing that is retained.
    pub(super) fn has_passed(&self, retained: &Retained) -> bool {
        let next = self.next - u64::from(self.refused);
        !self.is_behind(retained) || self.fetched.is_some() && next >= retained.next
    }

    /// Called when nothing may be read from this offset on. Frees the chunks in memory from there on.
    pub(super) fn end_at(&mut self, offset: u64) {
        self.chunks.retain(|chunk| chunk.first < offset);
        self.fetched = self.fetched.map(|fetched| fetched.min(offset));
    }

    pub(super) fn available(&self, retained: &Retained) -> u32 {
        let next = self.next - u64::from(self.refused);
        let at = if self.fetched.is_some() { next.max(retained.first) } else { retained.first };
        u32::try_from(retained.next.saturating_sub(at)).unwrap_or(u32::MAX)
    }

    /// Sends deliveries to `deliver` or to [`Browsed`], as far as credit and the chunks in memory allow. `scans` are the messages that
    /// readers with filters may still inspect in this turn.
    pub(super) fn read(
        &mut self,
        who: Requester,
        (tail, retained): (&Tail, &Retained),
        scans: &mut u64,
        now_ms: u64,
        deliver: &mut dyn Deliver,
    ) -> Served {
        let consumer = match who {
            Requester::Consumer(consumer) => consumer,
            Requester::Ticket(Ticket(ticket)) => ConsumerId(ticket),
        };
        let (mut scanned, scan_max) = (0, SCAN_MAX.min(*scans));
        while self.grant.credit > 0 && !self.waits_for_room {
            if self.refused {
                let Some(message) = self.entries.last() else { return Served::Damaged };
                let (number, seq) = (self.number + 1, self.at - 1);
                let lent =
                    DeliveryRef { consumer, number, seq, message, delivery_count: 0, acquired_count: 0 };
                self.refused = !deliver.deliver(lent);
                self.waits_for_room = self.refused;
                if !self.refused {
                    self.grant.spend();
                    self.number = number;
                }
                continue;
            }
            if self.entries.is_empty() {
                // The whole chunk counts as passed, including messages that it does not contain any more.
                self.next = self.next.max(self.end);
                if let Some(chunk) = self.chunks.pop_front() {
                    self.begin(chunk, false);
                    continue;
                }
                let Some(fetched) = self.fetched else { return Served::Waits };
                self.next = self.next.max(fetched.min(retained.next));
                let Some(chunk) = tail.get(fetched) else { return Served::Waits };
                (self.fetched, self.behind) = (Some(chunk.end()), LoadFrom::Offset(chunk.end()));
                if chunk.is_wanted(self.bloom.as_deref()) {
                    self.begin(chunk.clone(), true);
                }
                continue;
            }
            if self.at < self.next {
                self.at += 1;
                if !matches!(self.entries.skip(), Some(Ok(()))) {
                    return Served::Damaged;
                }
                continue;
            }
            if scanned >= scan_max && self.matching.is_some() {
                return Served::Interrupted;
            }
            let Some(Ok(message)) = self.entries.message() else { return Served::Damaged };
            let seq = self.at;
            self.at += 1;
            self.next = self.at;
            let position = Position { offset: seq, at_ms: self.at_ms };
            if let Some(filter) = &self.matching {
                let is_match = filter.matches(message, position, now_ms);
                // A delivery counts for credit.
                let cost = filter.cost(message) - u64::from(is_match);
                scanned += cost;
                *scans = scans.saturating_sub(cost);
                if !is_match {
                    continue;
                }
            }
            let number = self.number + 1;
            let lent = DeliveryRef { consumer, number, seq, message, delivery_count: 0, acquired_count: 0 };
            let full = match &mut self.browsed {
                None if !deliver.deliver(lent) => {
                    (self.refused, self.waits_for_room) = (true, true);
                    break;
                }
                None => false,
                Some(browsed) => browsed.take(lent),
            };
            self.grant.spend();
            self.number = number;
            if full {
                break;
            }
        }
        Served::Waits
    }

    /// Frees a chunk that has been read to its end, so that the next one can use its memory.
    pub(super) fn free_read_chunk(&mut self) {
        if !self.refused {
            self.entries.release();
        }
    }

    /// Returns the first offset that the reader may still need from the tail. `None` while its position is unknown.
    pub(super) fn tail_offset(&self) -> Option<u64> {
        self.unread_of_tail().or(self.fetched)
    }

    /// Frees the reader's chunks if the tail starts after the reader's chunk of it, and the reader cannot use that
    /// chunk now. The reader would be the only one that keeps the chunk in memory.
    pub(super) fn free_chunks_before(&mut self, first: u64) {
        if self.unread_of_tail().is_some_and(|unread| unread < first) {
            self.free_chunks();
        }
    }

    fn unread_of_tail(&self) -> Option<u64> {
        match self.refused {
            _ if !self.from_tail => None,
            true => Some(self.at - 1),
            false => (!self.entries.is_empty()).then_some(self.at),
        }
    }

    /// Frees all chunks in memory if the reader cannot use them now. It reads them again when it can.
    pub(super) fn free_chunks(&mut self) {
        let is_idle = self.grant.credit == 0 || self.waits_for_room;
        if !is_idle || self.loading || self.browsed.is_some() {
            return;
        }
        let first = match self.chunks.front() {
            _ if self.refused => self.at - 1,
            _ if !self.entries.is_empty() => self.at,
            Some(chunk) => chunk.first,
            None => return,
        };
        self.next = if self.refused { first } else { self.next };
        (self.at, self.end) = (first, first);
        (self.fetched, self.behind) = (Some(first), LoadFrom::Offset(first));
        self.refused = false;
        self.chunks.clear();
        self.entries.replace(Bytes::new());
        self.entries.release();
    }

    /// Returns true if the reader must read its next chunk from the disk.
    pub(super) fn wants_load(&self, tail: &Tail, retained: &Retained) -> bool {
        if self.grant.credit == 0 || self.waits_for_room || !self.chunks.is_empty() {
            return false;
        }
        match self.fetched {
            None => true,
            Some(fetched) => fetched < retained.next && tail.get(fetched).is_none(),
        }
    }

    /// Reports the remaining credit if the consumer has asked for it. A drain is answered only when nothing more can
    /// follow.
    pub(super) fn answer(&mut self, consumer: ConsumerId, retained: &Retained, out: &mut ReadersOutput) {
        let Some(drain) = self.asked else { return };
        if drain && self.grant.credit > 0 && self.is_behind(retained) {
            return;
        }
        self.asked = None;
        if drain {
            self.grant.drain();
        }
        let state = CreditState {
            delivery_count: self.grant.delivery_count,
            credit: self.grant.credit,
            available: self.available(retained),
            drained: drain,
        };
        out.effects.push(Effect::CreditState { consumer, state });
    }
}

/// The result of serving a reader.
pub(super) enum Served {
    /// The reader waits for credit, a load, or new messages.
    Waits,
    /// The reader was interrupted, because other readers must be served first. It has more to do.
    Interrupted,
    /// The reader has reached a corrupt message.
    Damaged,
}
