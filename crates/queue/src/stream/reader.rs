//! One reader of a stream: its place, its credit, and what of the stream it has in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use message::{Entries, Filter, Position};

use super::readers::{LoadFrom, ReadersOutput};
use super::tail::Tail;
use super::{BloomFilter, Chunk, Kept, Replay, Start};
use crate::grant::Grant;
use crate::{Asked, ConsumerId, CreditState, Deliver, Delivery, Effect, Lent, Ticket};

/// Messages that one reader looks at, and is not shown, before others have their turn.
pub const SCAN_MAX: u32 = 200;

/// Bytes that a look without a consumer brings at most, apart from the last message.
pub(super) const BROWSE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One that reads.
#[derive(Debug)]
pub(super) struct Reader {
    pub grant: Grant,
    /// The consumer's number of its last delivery.
    pub number: u64,
    pub bloom: Option<Arc<BloomFilter>>,
    matching: Option<Arc<Filter>>,
    /// Messages in front of this offset have been passed, or are not wanted.
    pub next: u64,
    /// Of the chunk that is being read: what is left, the offset of the first of that, and when it was written.
    entries: Entries,
    at: u64,
    end: u64,
    at_ms: u64,
    /// Those behind it.
    pub chunks: VecDeque<Chunk>,
    /// The offset behind all of them, once it is known where the reader stands.
    pub fetched: Option<u64>,
    /// Where that is.
    pub behind: LoadFrom,
    pub loading: bool,
    /// It has been asked for its credit, and for a drain if true.
    pub asked: Option<bool>,
    /// Only of a look without a consumer.
    pub browsed: Option<Browsed>,
}

#[derive(Debug, Default)]
pub(super) struct Browsed {
    pub deliveries: Vec<Delivery>,
    pub bytes: u64,
}

impl Browsed {
    /// True when there is enough.
    fn take(&mut self, lent: Lent<'_>) -> bool {
        self.bytes += lent.message.len();
        self.deliveries.push(lent.to_delivery());
        self.bytes >= BROWSE_BYTES_MAX
    }
}

impl Reader {
    pub fn new(replay: &Replay, kept: &Kept, delivery_count: u32) -> Self {
        let (fetched, behind, next) = match replay.start {
            Start::First => (Some(kept.first), LoadFrom::First, 0),
            Start::Last => (None, LoadFrom::Last, 0),
            Start::Next => (Some(kept.next), LoadFrom::Offset(kept.next), kept.next),
            Start::Offset(offset) => {
                let fetched = offset.min(kept.next);
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
            chunks: VecDeque::new(),
            fetched,
            behind,
            loading: false,
            asked: None,
            browsed: None,
        }
    }

    fn begin(&mut self, chunk: Chunk) {
        (self.at, self.end, self.at_ms) = (chunk.first, chunk.end(), chunk.at_ms);
        self.entries.replace(chunk.data);
    }

    /// Whether anything that is written has not been looked at.
    pub fn is_behind(&self, kept: &Kept) -> bool {
        self.fetched.is_none_or(|fetched| fetched < kept.next)
            || !self.chunks.is_empty()
            || !self.entries.is_empty()
    }

    pub fn available(&self, kept: &Kept) -> u32 {
        let at = if self.fetched.is_some() { self.next.max(kept.first) } else { kept.first };
        u32::try_from(kept.next.saturating_sub(at)).unwrap_or(u32::MAX)
    }

    /// Deliveries, as far as credit and memory go: to `deliver`, or to [`Browsed`].
    pub fn read(
        &mut self,
        who: Asked,
        tail: &Tail,
        kept: &Kept,
        now_ms: u64,
        deliver: Deliver<'_>,
    ) -> Served {
        let consumer = match who {
            Asked::Consumer(consumer) => consumer,
            Asked::Ticket(Ticket(ticket)) => ConsumerId(ticket),
        };
        let mut scanned = 0;
        while self.grant.credit > 0 {
            if self.entries.is_empty() {
                // What was left out of the chunk is not waited for.
                self.next = self.next.max(self.end);
                if let Some(chunk) = self.chunks.pop_front() {
                    self.begin(chunk);
                    continue;
                }
                let Some(fetched) = self.fetched else { return Served::Waits };
                self.next = self.next.max(fetched.min(kept.next));
                let Some(chunk) = tail.get(fetched) else { return Served::Waits };
                (self.fetched, self.behind) = (Some(chunk.end()), LoadFrom::Offset(chunk.end()));
                if chunk.is_wanted(self.bloom.as_deref()) {
                    self.begin(chunk.clone());
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
            if scanned == SCAN_MAX {
                return Served::Goes;
            }
            let Some(Ok(message)) = self.entries.message() else { return Served::Damaged };
            let seq = self.at;
            self.at += 1;
            self.next = self.at;
            let position = Position { offset: seq, at_ms: self.at_ms };
            if self.matching.as_ref().is_some_and(|filter| !filter.matches(message, position, now_ms)) {
                scanned += 1;
                continue;
            }
            self.grant.spend();
            self.number += 1;
            let number = self.number;
            let lent = Lent { consumer, number, seq, message, delivery_count: 0, redelivered: false };
            match &mut self.browsed {
                None => _ = deliver(lent),
                Some(browsed) => {
                    if browsed.take(lent) {
                        break;
                    }
                }
            }
        }
        Served::Waits
    }

    /// Holds no chunk that has been read: its memory is wanted for the next.
    pub fn let_go(&mut self) {
        self.entries.let_go();
    }

    /// Whether the disk has what the reader comes to next.
    pub fn wants_load(&self, tail: &Tail, kept: &Kept) -> bool {
        if self.grant.credit == 0 || !self.chunks.is_empty() {
            return false;
        }
        match self.fetched {
            None => true,
            Some(fetched) => fetched < kept.next && tail.get(fetched).is_none(),
        }
    }

    /// Says what credit is left, if that was asked: a drain only when nothing more can come.
    pub fn answer(&mut self, consumer: ConsumerId, kept: &Kept, out: &mut ReadersOutput) {
        let Some(drain) = self.asked else { return };
        if drain && self.grant.credit > 0 && self.is_behind(kept) {
            return;
        }
        self.asked = None;
        if drain {
            self.grant.drain();
        }
        let state = CreditState {
            delivery_count: self.grant.delivery_count,
            credit: self.grant.credit,
            available: self.available(kept),
            drained: drain,
        };
        out.effects.push(Effect::CreditState { consumer, state });
    }
}

/// What came of serving a reader.
pub(super) enum Served {
    /// It waits: for credit, for a load, for messages.
    Waits,
    /// Others have their turn first.
    Goes,
    /// A message does not hold.
    Damaged,
}
