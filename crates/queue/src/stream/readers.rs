//! The machine wherever a stream has consumers: each reads from its own place, as fast as its credit lets it.
//!
//! ```text
//!                ┌───────────── in memory ────────────┐
//!   load ──► [chunk][chunk] entries ──► matching? ──► Delivery        one that is behind
//!                          [chunk][chunk] tail ─────► Delivery        one that has everything
//! ```
//!
//! A reader holds what one load brings; it asks for more when it comes to its last chunk and has credit. Chunks that were
//! written just now are kept while a reader that is nearly there has not passed them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use message::{Entries, Filter, Message};

use super::{BloomFilter, Chunk, Kept, News, Replay, Start};
use crate::grant::Grant;
use crate::{
    Asked, Attach, Capabilities, ConsumerId, CreditState, Delivery, Effect, GoneReason, Mode, Refusal,
    Request, Ticket,
};

/// Bytes of chunks that are kept for readers that are nearly there; those further behind read the disk.
pub const TAIL_BYTES: usize = 256 * 1024;

/// Messages that one reader looks at, and is not shown, before others have their turn.
pub const SCAN_MAX: u32 = 200;

/// Bytes that a look without a consumer brings at most, apart from the last message.
const BROWSE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What a call had to say. Calls append; whoever carries it out empties it.
#[derive(Debug, Default)]
pub struct ReadersOutput {
    pub effects: Vec<Effect>,
    /// Chunks to be read and brought to [`Readers::handle_loaded`].
    pub loads: Vec<ChunkLoad>,
    /// Offsets of messages that do not hold.
    pub damaged: Vec<u64>,
}

/// Chunks that are to be read: about as many bytes as two of them have, those that the filter does not want left out.
#[derive(Clone, Debug)]
pub struct ChunkLoad {
    /// Who reads; at most one load each.
    pub who: Asked,
    pub from: LoadFrom,
    /// Nothing from this offset on may be read.
    pub until: u64,
    pub segments: Arc<[u64]>,
    pub bloom: Option<Arc<BloomFilter>>,
}

/// Where to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFrom {
    First,
    /// The last chunk.
    Last,
    /// The chunk that holds this offset, or the first behind it.
    Offset(u64),
    /// The first chunk of this time or later, in milliseconds since the epoch.
    Time(u64),
    At(Place),
}

/// A place in the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first offset of the segment.
    pub segment: u64,
    /// A byte of it.
    pub at: u64,
    /// The offset of the message there.
    pub offset: u64,
}

/// How far a consumer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has been shown everything that is written, as far as it wants that.
    AtEnd,
    /// It waits for the disk.
    Reading,
    /// There may be more for it.
    Behind,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct LoadedChunks {
    pub chunks: Vec<Chunk>,
    /// Where to read on. Its offset is behind everything that was looked at.
    pub next: Place,
}

/// One that reads.
#[derive(Debug)]
struct Reader {
    grant: Grant,
    /// The consumer's number of its last delivery.
    number: u64,
    bloom: Option<Arc<BloomFilter>>,
    matching: Option<Arc<Filter>>,
    /// Messages in front of this offset have been passed, or are not wanted.
    next: u64,
    /// Of the chunk that is being read: what is left, and the offset of the first of that.
    entries: Entries,
    at: u64,
    end: u64,
    /// Those behind it.
    chunks: VecDeque<Chunk>,
    /// The offset behind all of them, once it is known where the reader stands.
    fetched: Option<u64>,
    /// Where that is.
    behind: LoadFrom,
    loading: bool,
    /// It has been asked for its credit, and for a drain if true.
    asked: Option<bool>,
    /// Only of a look without a consumer.
    browsed: Option<Browsed>,
}

#[derive(Debug, Default)]
struct Browsed {
    deliveries: Vec<Delivery>,
    bytes: u64,
}

impl Reader {
    fn new(replay: &Replay, kept: &Kept, delivery_count: u32) -> Self {
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
            chunks: VecDeque::new(),
            fetched,
            behind,
            loading: false,
            asked: None,
            browsed: None,
        }
    }

    fn begin(&mut self, chunk: Chunk) {
        (self.at, self.end) = (chunk.first, chunk.end());
        self.entries.replace(chunk.data);
    }

    /// Whether anything that is written has not been looked at.
    fn is_behind(&self, kept: &Kept) -> bool {
        self.fetched.is_none_or(|fetched| fetched < kept.next)
            || !self.chunks.is_empty()
            || !self.entries.is_empty()
    }

    fn available(&self, kept: &Kept) -> u32 {
        let at = if self.fetched.is_some() { self.next.max(kept.first) } else { kept.first };
        u32::try_from(kept.next.saturating_sub(at)).unwrap_or(u32::MAX)
    }
}

/// What came of serving a reader.
enum Served {
    /// It waits: for credit, for a load, for messages.
    Waits,
    /// Others have their turn first.
    Goes,
    /// A message does not hold.
    Damaged,
}

/// All readers of one stream in one place.
#[derive(Debug, Default)]
pub struct Readers {
    /// Nothing has been heard of the stream yet without it.
    kept: Option<Kept>,
    /// Written just now, without gaps, up to what is kept.
    tail: VecDeque<Chunk>,
    tail_bytes: usize,
    readers: BTreeMap<Asked, Reader>,
    /// Consumers among them.
    consumers: u32,
    /// Until something is heard.
    waiting: Vec<Request>,
    /// Those that have been interrupted.
    going: Vec<Asked>,
    delivered: u64,
}

impl Readers {
    /// Does what is asked. `now_ms` counts from the epoch.
    pub fn apply(&mut self, request: Request, now_ms: u64, out: &mut ReadersOutput) {
        if let Request::GiveUp { ticket } = request {
            self.give_up(ticket);
            return;
        }
        if self.kept.is_none() {
            // Follow is sent for whoever waits, too.
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
                let who = Asked::Consumer(consumer);
                if let Some(reader) = self.readers.get_mut(&who) {
                    reader.grant.replace(delivery_count, credit);
                    reader.asked = (drain || echo).then_some(drain);
                    self.serve(who, now_ms, out);
                }
            }
            Request::Browse { ticket, replay, n } => {
                let Some(kept) = &self.kept else { return };
                let who = Asked::Ticket(ticket);
                let mut reader = Reader::new(&replay, kept, 0);
                reader.grant.credit = n;
                reader.browsed = Some(Browsed::default());
                self.readers.insert(who, reader);
                self.serve(who, now_ms, out);
            }
            // Nothing is taken: whatever becomes of a message, it stays where it is (behaviour S21).
            Request::Settle { consumer, first, last, answer: true, .. } => {
                out.effects.push(Effect::Settled { consumer, first, last });
            }
            _ => {}
        }
    }

    /// What the stream has to say.
    pub fn handle_news(&mut self, news: News, now_ms: u64, out: &mut ReadersOutput) {
        let News { kept, chunks, end } = news;
        if let Some(reason) = end {
            self.end(reason, out);
            return;
        }
        let first_news = self.kept.replace(kept).is_none();
        for chunk in chunks {
            if self.tail.back().is_some_and(|last| last.end() != chunk.first) {
                self.drop_tail();
            }
            self.tail_bytes += chunk.data.len();
            self.tail.push_back(chunk);
        }
        while self.tail_bytes > TAIL_BYTES && self.tail.len() > 1 {
            self.drop_oldest();
        }
        if first_news {
            self.consumers = 0;
            for request in std::mem::take(&mut self.waiting) {
                self.apply(request, now_ms, out);
            }
        } else {
            let all: Vec<Asked> = self.readers.keys().copied().collect();
            all.into_iter().for_each(|who| self.serve(who, now_ms, out));
        }
        self.prune();
    }

    /// The answer to a [`ChunkLoad`]: nothing if the disk says that what is there does not hold.
    pub fn handle_loaded(
        &mut self,
        who: Asked,
        loaded: Option<LoadedChunks>,
        now_ms: u64,
        out: &mut ReadersOutput,
    ) {
        let Some(reader) = self.readers.get_mut(&who) else { return };
        reader.loading = false;
        let Some(LoadedChunks { chunks, next }) = loaded else {
            self.close_damaged(who, out);
            return;
        };
        reader.chunks.extend(chunks);
        (reader.fetched, reader.behind) = (Some(next.offset), LoadFrom::At(next));
        self.serve(who, now_ms, out);
    }

    /// Goes on with those that were interrupted. To be called while [`Readers::is_going`].
    pub fn go_on(&mut self, now_ms: u64, out: &mut ReadersOutput) {
        for who in std::mem::take(&mut self.going) {
            self.serve(who, now_ms, out);
        }
        self.prune();
    }

    /// Whether somebody was interrupted so that others have their turn.
    pub fn is_going(&self) -> bool {
        !self.going.is_empty()
    }

    /// How many consumers there are, those that wait to be attached included.
    pub fn consumers(&self) -> u32 {
        self.consumers
    }

    /// Nobody reads, nor waits to.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.waiting.is_empty()
    }

    /// Whether this reader is there and waits for the disk.
    pub fn is_loading(&self, who: Asked) -> bool {
        self.readers.get(&who).is_some_and(|reader| reader.loading)
    }

    /// How far this consumer has come; `None` before anything has been heard of the stream.
    pub fn standing(&self, consumer: ConsumerId) -> Option<Standing> {
        let (kept, reader) = (self.kept.as_ref()?, self.readers.get(&Asked::Consumer(consumer))?);
        Some(match () {
            () if reader.loading => Standing::Reading,
            () if reader.is_behind(kept) => Standing::Behind,
            () => Standing::AtEnd,
        })
    }

    /// Deliveries so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes of chunks that are held in memory.
    pub fn memory_bytes(&self) -> usize {
        let held = self.readers.values().flat_map(|reader| &reader.chunks).map(|chunk| chunk.data.len());
        self.tail_bytes + held.sum::<usize>()
    }

    fn attach(&mut self, attach: Attach, out: &mut ReadersOutput) {
        let Attach { consumer, mode, exclusive, delivery_count, .. } = attach;
        let who = Asked::Consumer(consumer);
        let known = self.readers.contains_key(&who);
        let (Some(kept), Mode::Replay(replay), false, false) = (&self.kept, mode, exclusive, known) else {
            self.consumers -= 1;
            let why = if known { Refusal::InUse } else { Refusal::NotSupported };
            out.effects.push(Effect::Refused { asked: who, why });
            return;
        };
        self.readers.insert(who, Reader::new(&replay, kept, delivery_count));
        out.effects.push(Effect::Attached { consumer, capabilities: Capabilities { moves: false } });
    }

    fn remove(&mut self, consumer: ConsumerId, reason: GoneReason, out: &mut ReadersOutput) {
        if self.readers.remove(&Asked::Consumer(consumer)).is_some() {
            self.consumers -= 1;
        }
        self.prune();
        out.effects.push(Effect::Gone { consumer, reason });
    }

    fn give_up(&mut self, ticket: Ticket) {
        let who = Asked::Ticket(ticket);
        self.readers.remove(&who);
        self.going.retain(|going| *going != who);
        self.waiting
            .retain(|waiting| !matches!(waiting, Request::Browse { ticket: of, .. } if *of == ticket));
        self.prune();
    }

    fn end(&mut self, reason: GoneReason, out: &mut ReadersOutput) {
        let why = if reason == GoneReason::Damaged { Refusal::Damaged } else { Refusal::NotFound };
        for who in std::mem::take(&mut self.readers).into_keys() {
            out.effects.push(match who {
                Asked::Consumer(consumer) => Effect::Gone { consumer, reason },
                Asked::Ticket(_) => Effect::Refused { asked: who, why },
            });
        }
        for request in std::mem::take(&mut self.waiting) {
            out.effects.push(match request {
                Request::Attach(Attach { consumer, .. }) => {
                    Effect::Refused { asked: Asked::Consumer(consumer), why }
                }
                Request::Browse { ticket, .. } => Effect::Refused { asked: Asked::Ticket(ticket), why },
                Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
                    Effect::Gone { consumer, reason }
                }
                _ => continue,
            });
        }
        self.consumers = 0;
        self.drop_tail();
    }

    /// Gives a reader what it may have.
    fn serve(&mut self, who: Asked, now_ms: u64, out: &mut ReadersOutput) {
        let Self { readers, tail, kept, going, delivered, .. } = self;
        let (Some(reader), Some(kept)) = (readers.get_mut(&who), kept.as_ref()) else { return };
        let before = out.effects.len();
        match read(reader, who, tail, kept, now_ms, out) {
            Served::Waits => {}
            Served::Goes => going.push(who),
            Served::Damaged => {
                self.close_damaged(who, out);
                return;
            }
        }
        *delivered += (out.effects.len() - before) as u64;
        if !reader.loading && wants_load(reader, tail, kept) {
            reader.loading = true;
            out.loads.push(ChunkLoad {
                who,
                from: reader.behind,
                until: kept.next,
                segments: kept.segments.clone(),
                bloom: reader.bloom.clone(),
            });
        }
        match who {
            Asked::Consumer(consumer) => answer(reader, consumer, kept, out),
            Asked::Ticket(ticket) => self.finish_browse(ticket, out),
        }
    }

    fn finish_browse(&mut self, ticket: Ticket, out: &mut ReadersOutput) {
        let who = Asked::Ticket(ticket);
        let (Some(reader), Some(kept)) = (self.readers.get(&who), &self.kept) else { return };
        let full = reader.browsed.as_ref().is_some_and(|browsed| browsed.bytes >= BROWSE_BYTES_MAX);
        if reader.grant.credit > 0 && reader.is_behind(kept) && !full {
            return;
        }
        let ready = reader.available(kept).into();
        let browsed = self.readers.remove(&who).and_then(|reader| reader.browsed).unwrap_or_default();
        self.going.retain(|going| *going != who);
        out.effects.push(Effect::Fetched { ticket, deliveries: browsed.deliveries, ready });
    }

    fn close_damaged(&mut self, who: Asked, out: &mut ReadersOutput) {
        let Some(reader) = self.readers.remove(&who) else { return };
        out.damaged.push(reader.fetched.map_or(reader.next, |fetched| reader.next.min(fetched)));
        out.effects.push(match who {
            Asked::Consumer(consumer) => {
                self.consumers -= 1;
                Effect::Gone { consumer, reason: GoneReason::Damaged }
            }
            Asked::Ticket(_) => Effect::Refused { asked: who, why: Refusal::Damaged },
        });
    }

    /// Lets go of what everybody has passed, or comes to later than to what is on the disk anyway.
    fn prune(&mut self) {
        let Some(first) = self.tail.front().map(|chunk| chunk.first) else { return };
        let fetched = self.readers.values().filter_map(|reader| reader.fetched);
        let needed = fetched.filter(|fetched| *fetched >= first).min().unwrap_or(u64::MAX);
        while self.tail.front().is_some_and(|chunk| chunk.end() <= needed) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(chunk) = self.tail.pop_front() {
            self.tail_bytes -= chunk.data.len();
        }
    }

    fn drop_tail(&mut self) {
        self.tail.clear();
        self.tail_bytes = 0;
    }
}

/// The chunk with this offset, if it was written just now.
fn in_tail(tail: &VecDeque<Chunk>, offset: u64) -> Option<&Chunk> {
    let first = tail.front()?.first;
    if offset < first {
        return None;
    }
    tail.get(tail.partition_point(|chunk| chunk.end() <= offset))
}

/// Deliveries, as far as credit and memory go.
fn read(
    reader: &mut Reader,
    who: Asked,
    tail: &VecDeque<Chunk>,
    kept: &Kept,
    now_ms: u64,
    out: &mut ReadersOutput,
) -> Served {
    let mut scanned = 0;
    while reader.grant.credit > 0 {
        if reader.entries.is_empty() {
            // What was left out of the chunk is not waited for.
            reader.next = reader.next.max(reader.end);
            if let Some(chunk) = reader.chunks.pop_front() {
                reader.begin(chunk);
                continue;
            }
            let Some(fetched) = reader.fetched else { return Served::Waits };
            reader.next = reader.next.max(fetched.min(kept.next));
            let Some(chunk) = in_tail(tail, fetched) else { return Served::Waits };
            (reader.fetched, reader.behind) = (Some(chunk.end()), LoadFrom::Offset(chunk.end()));
            if chunk.is_wanted(reader.bloom.as_deref()) {
                reader.begin(chunk.clone());
            }
            continue;
        }
        if reader.at < reader.next {
            reader.at += 1;
            if !matches!(reader.entries.skip(), Some(Ok(()))) {
                return Served::Damaged;
            }
            continue;
        }
        if scanned == SCAN_MAX {
            return Served::Goes;
        }
        let Some(Ok(message)) = reader.entries.message() else { return Served::Damaged };
        let offset = reader.at;
        reader.at += 1;
        reader.next = reader.at;
        if reader.matching.as_ref().is_some_and(|filter| !filter.matches(&message, now_ms)) {
            scanned += 1;
            continue;
        }
        if deliver(reader, who, offset, message, out) {
            break;
        }
    }
    Served::Waits
}

/// True when there is enough.
fn deliver(reader: &mut Reader, who: Asked, offset: u64, message: Message, out: &mut ReadersOutput) -> bool {
    reader.grant.spend();
    reader.number += 1;
    let consumer = match who {
        Asked::Consumer(consumer) => consumer,
        Asked::Ticket(Ticket(ticket)) => ConsumerId(ticket),
    };
    let bytes = message.len();
    let delivery = Delivery {
        consumer,
        number: reader.number,
        seq: offset,
        message,
        delivery_count: 0,
        redelivered: false,
    };
    match &mut reader.browsed {
        None => {
            out.effects.push(Effect::Delivery(delivery));
            false
        }
        Some(browsed) => {
            browsed.bytes += bytes;
            browsed.deliveries.push(delivery);
            browsed.bytes >= BROWSE_BYTES_MAX
        }
    }
}

/// Whether the disk has what the reader comes to next.
fn wants_load(reader: &Reader, tail: &VecDeque<Chunk>, kept: &Kept) -> bool {
    if reader.grant.credit == 0 || !reader.chunks.is_empty() {
        return false;
    }
    match reader.fetched {
        None => true,
        Some(fetched) => fetched < kept.next && in_tail(tail, fetched).is_none(),
    }
}

/// Says what credit is left, if that was asked: a drain only when nothing more can come.
fn answer(reader: &mut Reader, consumer: ConsumerId, kept: &Kept, out: &mut ReadersOutput) {
    let Some(drain) = reader.asked else { return };
    if drain && reader.grant.credit > 0 && reader.is_behind(kept) {
        return;
    }
    reader.asked = None;
    if drain {
        reader.grant.drain();
    }
    let state = CreditState {
        delivery_count: reader.grant.delivery_count,
        credit: reader.grant.credit,
        available: reader.available(kept),
        drained: drain,
    };
    out.effects.push(Effect::CreditState { consumer, state });
}
