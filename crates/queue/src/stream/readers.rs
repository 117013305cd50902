//! The machine on each shard where a stream has consumers. Each consumer reads from its own position, as fast as its
//! credit allows.
//!
//! ```text
//!                ┌───────────── in memory ────────────┐
//!   load ──► [chunk][chunk] entries ──► matching? ──► Delivery        a reader that is behind
//!                          [chunk][chunk] tail ─────► Delivery        a reader that is up to date
//! ```
//!
//! A reader holds the chunks of one load. It asks for more when it reaches the last of them and has credit. The newest
//! chunks are kept in memory until the readers that are close to the end have passed them.

use std::collections::BTreeMap;

use super::load::{ChunkLoad, LoadFrom, LoadedChunks, ReadersOutput};
use super::reader::{BROWSE_BYTES_MAX, Browsed, Reader, Served};
use super::tail::Tail;
use crate::contract::{Retained, StreamUpdate};
use crate::{
    Attach, ConsumerId, Deliver, Effect, GoneReason, Mode, Refusal, Request, Requester, SettleAnswer, Ticket,
};

/// The number of messages that all readers may filter in one turn, as [`SCAN_MAX`](super::SCAN_MAX) counts them: some ten
/// milliseconds.
const TURN_SCANS_MAX: u64 = 2_000;

/// How far a consumer has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The consumer has been sent all written messages that it wants.
    AtEnd,
    /// The consumer waits for the disk.
    Reading,
    /// There may be more messages for the consumer.
    Behind,
}

/// All readers of one stream on one shard.
#[derive(Debug, Default)]
pub struct Readers {
    /// What is retained of the stream. `None` before the first update of the stream.
    retained: Option<Retained>,
    /// The newest chunks, without gaps, up to the end of the stream.
    tail: Tail,
    readers: BTreeMap<Requester, Reader>,
    /// The number of consumers among the readers.
    consumers: u32,
    /// The requests that wait for the first update of the stream.
    waiting: Vec<Request>,
    /// The readers that were interrupted so that others are served. Some may be gone.
    interrupted: Vec<Requester>,
    /// The interrupted readers for which nothing was left in the turn. They come first in the next one.
    cut_off: Vec<Requester>,
    /// The messages that were inspected for filters since the last turn, as [`SCAN_MAX`](super::SCAN_MAX) counts them.
    scanned: u64,
    /// True if a reader has left since chunks were last dropped.
    has_left: bool,
    delivered: u64,
}

impl Readers {
    /// Applies a request. `now_ms` counts from the epoch. In this and all other calls, `deliver` gets each delivery at
    /// once, so the deliveries of a call come before its effects.
    pub fn apply(
        &mut self,
        request: Request,
        now_ms: u64,
        out: &mut ReadersOutput,
        deliver: &mut dyn Deliver,
    ) {
        if let Request::CancelBrowse { ticket } = request {
            self.cancel_browse(ticket);
            return;
        }
        if self.retained.is_none() {
            // A waiting consumer is counted now, because the count in Follow includes it.
            self.consumers += u32::from(matches!(request, Request::Attach(_)));
            self.waiting.push(request);
            return;
        }
        match request {
            Request::Attach(attach) => {
                self.consumers += 1;
                self.attach(attach, out);
            }
            Request::Cancel { consumer } => self.remove(consumer, GoneReason::Cancelled, out),
            Request::Detach { consumer, .. } => self.remove(consumer, GoneReason::Detached, out),
            Request::Grant { consumer, delivery_count, credit, drain, echo } => {
                let who = Requester::Consumer(consumer);
                if let Some(reader) = self.readers.get_mut(&who) {
                    reader.grant.replace(delivery_count, credit);
                    reader.asked = (drain || echo).then_some(drain);
                    reader.waits_for_room = false;
                    self.serve(who, now_ms, out, deliver);
                }
            }
            Request::Browse { ticket, replay, n } => {
                let Some(retained) = &self.retained else { return };
                let who = Requester::Ticket(ticket);
                let mut reader = Reader::new(&replay, retained, 0);
                reader.grant.credit = n;
                reader.browsed = Some(Browsed::default());
                self.readers.insert(who, reader);
                self.serve(who, now_ms, out, deliver);
            }
            // Settling never removes a message from a stream (docs/compatibility.md, Streams).
            Request::Settle { consumer, first, last, answer, .. } if answer != SettleAnswer::Never => {
                out.effects.push(Effect::Settled { consumer, first, last, journaled: false });
            }
            _ => {}
        }
    }

    /// Handles an update of the stream. Keeps up to `tail_bytes` of new chunks for readers that are close to the end.
    /// Readers further behind read from the disk, and so do readers without credit if a chunk is larger than
    /// `tail_bytes`.
    pub fn handle_update(
        &mut self,
        update: StreamUpdate,
        tail_bytes: usize,
        now_ms: u64,
        out: &mut ReadersOutput,
        deliver: &mut dyn Deliver,
    ) {
        let StreamUpdate { mut retained, chunks, end } = update;
        if let Some(reason) = end {
            self.end(reason, out);
            return;
        }
        if let Some(closed_from) = retained.closed_from {
            // For readers, the stream ends there.
            retained.next = retained.next.min(closed_from);
            self.tail.clear();
            self.readers.values_mut().for_each(|reader| reader.end_at(closed_from));
        }
        let is_first = self.retained.replace(retained).is_none();
        self.tail.extend(chunks, tail_bytes);
        if is_first {
            self.consumers = 0;
            for request in std::mem::take(&mut self.waiting) {
                self.apply(request, now_ms, out, deliver);
            }
        } else {
            let all: Vec<Requester> = self.readers.keys().copied().collect();
            all.into_iter().for_each(|who| self.serve(who, now_ms, out, deliver));
        }
        self.shrink_tail(tail_bytes);
    }

    /// Keeps at most `tail_bytes` of new chunks.
    pub fn shrink_tail(&mut self, tail_bytes: usize) {
        self.tail.shrink(tail_bytes);
        self.prune();
    }

    /// Handles the answer to a [`ChunkLoad`]. If the disk has chunks that cannot be read, `loaded` is an error. It has the
    /// offset from which on they are corrupt, if they are.
    pub fn handle_loaded(
        &mut self,
        who: Requester,
        loaded: Result<LoadedChunks, Option<u64>>,
        now_ms: u64,
        out: &mut ReadersOutput,
        deliver: &mut dyn Deliver,
    ) {
        let Some(reader) = self.readers.get_mut(&who) else { return };
        reader.loading = false;
        let LoadedChunks { chunks, next } = match loaded {
            Ok(loaded) => loaded,
            Err(damaged) => {
                out.damaged.extend(damaged);
                self.close_damaged(who, out);
                return;
            }
        };
        reader.chunks.extend(chunks);
        (reader.fetched, reader.behind) = (Some(next.offset), LoadFrom::At(next));
        if let Some(closed_from) = self.retained.as_ref().and_then(|retained| retained.closed_from) {
            reader.end_at(closed_from);
        }
        self.serve(who, now_ms, out, deliver);
    }

    /// Continues with the readers that were interrupted, and drops the chunks that only readers needed who have left. Must be
    /// called while [`Readers::wants_turn`] is true.
    pub fn take_turn(&mut self, now_ms: u64, out: &mut ReadersOutput, deliver: &mut dyn Deliver) {
        self.scanned = 0;
        let cut_off = std::mem::take(&mut self.cut_off);
        for who in cut_off.into_iter().chain(std::mem::take(&mut self.interrupted)) {
            if let Some(reader) = self.readers.get_mut(&who) {
                reader.interrupted = false;
            }
            self.serve(who, now_ms, out, deliver);
        }
        self.prune();
    }

    /// Returns true if some reader was interrupted so that others are served, or if one has left. See [`Readers::take_turn`].
    pub fn wants_turn(&self) -> bool {
        !self.interrupted.is_empty() || !self.cut_off.is_empty() || self.has_left
    }

    /// Returns the number of consumers, including those that wait to be attached.
    pub fn consumers(&self) -> u32 {
        self.consumers
    }

    /// Returns true if there are no readers and no waiting requests.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.waiting.is_empty()
    }

    /// Returns true if this reader exists and waits for the disk.
    pub fn is_loading(&self, who: Requester) -> bool {
        self.readers.get(&who).is_some_and(|reader| reader.loading)
    }

    /// Returns how far this consumer has read. `None` if it is unknown, or before the first update of the stream.
    pub fn standing(&self, consumer: ConsumerId) -> Option<Standing> {
        let (retained, reader) = (self.retained.as_ref()?, self.readers.get(&Requester::Consumer(consumer))?);
        Some(match () {
            () if reader.loading => Standing::Reading,
            () if reader.is_behind(retained) => Standing::Behind,
            () => Standing::AtEnd,
        })
    }

    /// Frees the chunks that a consumer has in memory and cannot use now, because it has no credit or no room.
    pub fn free_idle_chunks(&mut self, consumer: ConsumerId) {
        if let Some(reader) = self.readers.get_mut(&Requester::Consumer(consumer)) {
            reader.free_chunks();
        }
    }

    /// Returns the number of deliveries so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the size of the new chunks in memory, in bytes.
    pub fn tail_bytes(&self) -> usize {
        self.tail.bytes()
    }

    /// Returns the size of all chunks in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let held = self.readers.values().flat_map(|reader| &reader.chunks).map(|chunk| chunk.data.len());
        self.tail.bytes() + held.sum::<usize>()
    }

    fn attach(&mut self, attach: Attach, out: &mut ReadersOutput) {
        let Attach { consumer, mode, exclusive, delivery_count, .. } = attach;
        let who = Requester::Consumer(consumer);
        let known = self.readers.contains_key(&who);
        let (Some(retained), Mode::Replay(replay), false, false) = (&self.retained, mode, exclusive, known)
        else {
            self.consumers -= 1;
            let why = if known { Refusal::InUse } else { Refusal::NotSupported };
            out.effects.push(Effect::Refused { requester: who, why });
            return;
        };
        let reader = Reader::new(&replay, retained, delivery_count);
        if retained.closed_from.is_some() && reader.has_passed(retained) {
            self.consumers -= 1;
            out.effects.push(Effect::Refused { requester: who, why: Refusal::Damaged });
            return;
        }
        self.readers.insert(who, reader);
        out.effects.push(Effect::Attached { consumer });
    }

    fn remove(&mut self, consumer: ConsumerId, reason: GoneReason, out: &mut ReadersOutput) {
        if self.readers.remove(&Requester::Consumer(consumer)).is_some() {
            self.consumers -= 1;
        }
        // Many may leave at once, and each reader is looked at to find what can be dropped.
        self.has_left = true;
        out.effects.push(Effect::Gone { consumer, reason });
    }

    fn cancel_browse(&mut self, ticket: Ticket) {
        self.readers.remove(&Requester::Ticket(ticket));
        self.waiting
            .retain(|waiting| !matches!(waiting, Request::Browse { ticket: of, .. } if *of == ticket));
        self.has_left = true;
    }

    fn end(&mut self, reason: GoneReason, out: &mut ReadersOutput) {
        let why = match reason {
            GoneReason::Damaged => Refusal::Damaged,
            GoneReason::OutOfReach { node } => Refusal::OutOfReach { node },
            GoneReason::QueueDeleted | GoneReason::Cancelled | GoneReason::Detached => Refusal::NotFound,
        };
        for who in std::mem::take(&mut self.readers).into_keys() {
            out.effects.push(match who {
                Requester::Consumer(consumer) => Effect::Gone { consumer, reason },
                Requester::Ticket(_) => Effect::Refused { requester: who, why },
            });
        }
        for request in std::mem::take(&mut self.waiting) {
            out.effects.push(match request {
                Request::Attach(Attach { consumer, .. }) => {
                    Effect::Refused { requester: Requester::Consumer(consumer), why }
                }
                Request::Browse { ticket, .. } => {
                    Effect::Refused { requester: Requester::Ticket(ticket), why }
                }
                Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
                    Effect::Gone { consumer, reason }
                }
                _ => continue,
            });
        }
        self.consumers = 0;
        self.interrupted.clear();
        self.cut_off.clear();
        self.tail.clear();
    }

    /// Sends a reader the messages that it may receive now, then requests a load if needed.
    fn serve(&mut self, who: Requester, now_ms: u64, out: &mut ReadersOutput, deliver: &mut dyn Deliver) {
        let Self { readers, tail, retained, interrupted, cut_off, scanned, delivered, .. } = self;
        let (Some(reader), Some(retained)) = (readers.get_mut(&who), retained.as_ref()) else { return };
        let before = reader.number;
        let mut scans = TURN_SCANS_MAX.saturating_sub(*scanned);
        let has_share = scans > 0;
        let served = reader.read(who, (tail, retained), &mut scans, now_ms, deliver);
        *scanned = TURN_SCANS_MAX - scans;
        reader.free_read_chunk();
        if matches!(who, Requester::Consumer(_)) {
            *delivered += reader.number - before;
        }
        match served {
            Served::Waits => {}
            Served::Interrupted if !reader.interrupted => {
                reader.interrupted = true;
                if has_share { interrupted.push(who) } else { cut_off.push(who) }
            }
            Served::Interrupted => {}
            Served::Damaged => {
                out.damaged.push(reader.fetched.map_or(reader.next, |fetched| reader.next.min(fetched)));
                self.close_damaged(who, out);
                return;
            }
        }
        let has_result = reader.browsed.as_ref().is_some_and(|browsed| !browsed.deliveries.is_empty());
        if retained.closed_from.is_some() && !has_result && !reader.loading && reader.has_passed(retained) {
            self.close_damaged(who, out);
            return;
        }
        if !reader.loading && reader.wants_load(tail, retained) {
            reader.loading = true;
            out.loads.push(ChunkLoad {
                who,
                from: reader.behind,
                until: retained.next,
                segments: retained.segments.clone(),
                bloom: reader.bloom.clone(),
            });
        }
        match who {
            Requester::Consumer(consumer) => reader.answer(consumer, retained, out),
            Requester::Ticket(ticket) => self.finish_browse(ticket, out),
        }
    }

    fn finish_browse(&mut self, ticket: Ticket, out: &mut ReadersOutput) {
        let who = Requester::Ticket(ticket);
        let (Some(reader), Some(retained)) = (self.readers.get(&who), &self.retained) else { return };
        let full = reader.browsed.as_ref().is_some_and(|browsed| browsed.bytes >= BROWSE_BYTES_MAX);
        if reader.grant.credit > 0 && reader.is_behind(retained) && !full {
            return;
        }
        let ready = reader.available(retained).into();
        let browsed = self.readers.remove(&who).and_then(|reader| reader.browsed).unwrap_or_default();
        out.effects.push(Effect::Fetched { ticket, deliveries: browsed.deliveries, ready });
    }

    fn close_damaged(&mut self, who: Requester, out: &mut ReadersOutput) {
        if self.readers.remove(&who).is_none() {
            return;
        }
        out.effects.push(match who {
            Requester::Consumer(consumer) => {
                self.consumers -= 1;
                Effect::Gone { consumer, reason: GoneReason::Damaged }
            }
            Requester::Ticket(_) => Effect::Refused { requester: who, why: Refusal::Damaged },
        });
    }

    /// Drops chunks of the tail that no reader needs. A reader needs no chunk that it has passed, and none if it must
    /// first read earlier chunks from the disk.
    fn prune(&mut self) {
        self.has_left = false;
        self.tail.keep_from(self.readers.values().filter_map(Reader::tail_offset));
        let first = self.tail.first().unwrap_or(u64::MAX);
        self.readers.values_mut().for_each(|reader| reader.free_chunks_before(first));
    }
}
