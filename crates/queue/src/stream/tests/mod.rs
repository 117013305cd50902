//! Tests a stream and its readers with a naive disk, one case at a time.

mod properties;
mod scope;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::contract::*;
use crate::{
    Attach, Config, ConsumerId, CreditState, DeliveryRef, Effect, Mode, Outcome, Publish, PublisherId,
    Receipt, Request, Requester, StreamConfig, Ticket, Verdict,
};
use bytes::Bytes;
use message::{Basic, Dialect, Filter, Message, Parts, Route, SqlFilter};

/// The bound on new chunks in memory, in bytes.
const TAIL_BYTES: usize = 3 * CHUNK_BYTES;

/// The number of chunks in a segment of the naive disk.
const SEGMENT_CHUNKS: usize = 3;

fn config() -> Config {
    Config { stream: Some(StreamConfig::default()), ..Config::new("s") }
}

/// Returns a message with this body, and with a filter value unless `value` is 0.
fn message(body: &str, value: u8) -> Message {
    let mut wire = Vec::new();
    if value > 0 {
        // The message-annotations are {x-stream-filter-value: "<value>"}.
        wire.extend(b"\x00\x53\x72\xc1\x1b\x02\xa3\x15x-stream-filter-value\xa1\x01");
        wire.push(b'0' + value);
    }
    let bare_at = wire.len() as u32;
    wire.extend(b"\x00\x53\x75\xb0");
    wire.extend((body.len() as u32).to_be_bytes());
    wire.extend(body.as_bytes());
    let parts = Parts {
        wire: Bytes::from(wire),
        bare_at,
        application_properties_at: bare_at,
        body_at: bare_at,
        ..Parts::default()
    };
    Message::new(parts, Arc::new(Route::simple("", "s")))
}

/// Returns a message without a body whose properties are this subject.
fn with_subject(subject: &str) -> Message {
    // A list of three nulls and a string.
    let mut items = b"\x40\x40\x40\xb1".to_vec();
    items.extend((subject.len() as u32).to_be_bytes());
    items.extend(subject.as_bytes());
    let mut wire = b"\x00\x53\x73\xd0".to_vec();
    wire.extend((items.len() as u32 + 4).to_be_bytes());
    wire.extend(4u32.to_be_bytes());
    wire.extend(items);
    let end = wire.len() as u32;
    wire.extend(b"\x00\x53\x75\xa0\x00");
    let parts = Parts {
        wire: wire.into(),
        bare_at: 0,
        application_properties_at: end,
        body_at: end,
        ..Parts::default()
    };
    Message::new(parts, Arc::new(Route::simple("", "s")))
}

/// The written chunks that are retained.
#[derive(Default)]
struct Disk {
    chunks: Vec<Chunk>,
    next: u64,
    removed: u64,
}

impl Disk {
    fn retained(&self) -> Retained {
        let first = self.chunks.first().map_or(self.next, |chunk| chunk.first);
        let segments = self.chunks.chunks(SEGMENT_CHUNKS).map(|segment| segment[0].first).collect();
        let times_ms = self.chunks.first().zip(self.chunks.last()).map(|(a, b)| (a.at_ms, b.at_ms));
        Retained { first, next: self.next, bytes: 0, times_ms, segments, closed_from: None }
    }

    fn append(&mut self, chunk: Chunk) {
        assert_eq!(chunk.first, self.next, "no gap");
        self.next = chunk.end();
        self.chunks.push(chunk);
    }

    fn read(&self, load: &ChunkLoad, most: usize) -> LoadedChunks {
        let there = || self.chunks.iter().filter(|chunk| chunk.first < load.until);
        let from = match load.from {
            LoadFrom::First => there().next().map(|chunk| chunk.first),
            LoadFrom::Last => there().last().map(|chunk| chunk.first),
            LoadFrom::Offset(offset) => there().find(|chunk| chunk.end() > offset).map(|chunk| chunk.first),
            LoadFrom::Time(ms) => there().find(|chunk| chunk.at_ms >= ms).map(|chunk| chunk.first),
            LoadFrom::At(place) => Some(place.offset),
        };
        let from = from.unwrap_or(load.until);
        let read: Vec<_> = there().filter(|chunk| chunk.end() > from).take(most).cloned().collect();
        let next = read.last().map_or(load.until, Chunk::end);
        let next = SegmentPosition { segment: 0, at: 0, offset: next };
        let wanted = read.into_iter().filter(|chunk| chunk.is_wanted(load.bloom.as_deref()));
        LoadedChunks { chunks: wanted.map(|chunk| Chunk { values: None, ..chunk }).collect(), next }
    }
}

/// What a consumer has received.
#[derive(Default)]
struct Got {
    offsets: Vec<u64>,
    credit: u64,
    /// The number of deliveries, plus credit that drains used up.
    count: u32,
    /// True if a grant was not answered yet.
    granting: bool,
    /// True if the unanswered grant drains.
    drain: bool,
    /// True if the consumer has no room for more deliveries.
    full: bool,
    states: Vec<CreditState>,
    gone: bool,
}

struct World {
    now_ms: u64,
    stream: Stream,
    readers: Readers,
    follows: bool,
    disk: Disk,
    work: Option<Work>,
    update: Vec<StreamUpdate>,
    loads: Vec<ChunkLoad>,
    got: BTreeMap<u64, Got>,
    fetched: BTreeMap<u64, Vec<u64>>,
    receipts: Vec<(u64, Verdict)>,
    refused: Vec<Requester>,
    published: u64,
}

/// Takes a delivery for its consumer.
fn take(got: &mut BTreeMap<u64, Got>, disk: &Disk, lent: DeliveryRef<'_>) -> bool {
    let got = got.get_mut(&lent.consumer.0).expect("a consumer");
    assert_eq!(lent.number, got.offsets.len() as u64 + 1);
    assert!(got.credit > 0, "credit is never exceeded");
    assert!(lent.seq < disk.next, "only written messages are delivered");
    if got.full {
        return false;
    }
    (got.credit, got.count) = (got.credit - 1, got.count + 1);
    got.offsets.push(lent.seq);
    true
}

impl World {
    fn new() -> Self {
        Self {
            now_ms: 1000,
            stream: Stream::new(config()),
            readers: Readers::default(),
            follows: false,
            disk: Disk::default(),
            work: None,
            update: Vec::new(),
            loads: Vec::new(),
            got: BTreeMap::new(),
            fetched: BTreeMap::new(),
            receipts: Vec::new(),
            refused: Vec::new(),
            published: 0,
        }
    }

    fn send_to_stream(&mut self, request: Request) {
        let mut out = StreamOutput::default();
        self.stream.apply(request, self.now_ms, &mut out);
        self.after_home(out);
    }

    fn after_home(&mut self, mut out: StreamOutput) {
        for Receipt { first, last, verdict, .. } in out.receipts.drain() {
            self.receipts.extend((first..=last).map(|seq| (seq, verdict)));
        }
        self.carry_out(out.effects);
    }

    fn send_to_readers(&mut self, request: Request) {
        let mut out = ReadersOutput::default();
        self.readers.apply(request, self.now_ms, &mut out, &mut |lent: DeliveryRef<'_>| {
            take(&mut self.got, &self.disk, lent)
        });
        self.after_readers(out);
    }

    fn after_readers(&mut self, out: ReadersOutput) {
        self.loads.extend(out.loads);
        self.carry_out(out.effects);
        let follows = !self.readers.is_empty();
        if follows != self.follows {
            self.follows = follows;
            let consumers = follows.then(|| self.readers.consumers());
            self.send_to_stream(Request::Follow { follower: Follower(1), consumers });
            if !follows {
                self.readers = Readers::default();
                self.update.clear();
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::StreamUpdate { update, .. } => self.update.push(*update),
                Effect::CreditState { consumer, state } => {
                    let got = self.got.get_mut(&consumer.0).expect("a consumer");
                    (got.credit, got.count) = (state.credit.into(), state.delivery_count);
                    got.granting = false;
                    got.states.push(state);
                }
                Effect::Gone { consumer, .. } => {
                    self.got.get_mut(&consumer.0).expect("a consumer").gone = true;
                }
                Effect::Fetched { ticket, deliveries, .. } => {
                    self.fetched.insert(ticket.0, deliveries.into_iter().map(|d| d.seq).collect());
                }
                Effect::Refused { requester, .. } => self.refused.push(requester),
                _ => {}
            }
        }
    }

    fn publish(&mut self, n: u64, value: u8) {
        for _ in 0..n {
            self.published += 1;
            let message = message(&self.published.to_string(), value);
            let publish =
                Publish { publisher: PublisherId(1), seq: self.published, message, pipelines: false };
            self.send_to_stream(Request::Publish(publish));
        }
    }

    fn poll(&mut self) {
        if self.work.is_none() {
            self.work = self.stream.poll_work(self.now_ms);
        }
    }

    /// Does the requested work, but appends at most `chunks_max` chunks.
    fn do_work(&mut self, chunks_max: usize) {
        let mut out = StreamOutput::default();
        match self.work.take() {
            None => return,
            Some(Work::Open) => self.stream.handle_opened(Ok(self.disk.retained()), self.now_ms, &mut out),
            Some(Work::Limit) => self.stream.handle_limited(Some(self.disk.retained()), &mut out),
            Some(Work::Append(chunks)) => {
                chunks.into_iter().take(chunks_max).for_each(|chunk| self.disk.append(chunk));
                self.stream.handle_appended(Some(self.disk.retained()), self.now_ms, &mut out);
            }
        }
        self.after_home(out);
    }

    fn read_update(&mut self) {
        if !self.update.is_empty() {
            let update = self.update.remove(0);
            let mut out = ReadersOutput::default();
            self.readers.handle_update(
                update,
                TAIL_BYTES,
                self.now_ms,
                &mut out,
                &mut |lent: DeliveryRef<'_>| take(&mut self.got, &self.disk, lent),
            );
            self.after_readers(out);
        }
    }

    fn load(&mut self, which: usize, most: usize) {
        if self.loads.is_empty() {
            return;
        }
        let load = self.loads.remove(which % self.loads.len());
        let loaded = self.disk.read(&load, most);
        let mut out = ReadersOutput::default();
        self.readers.handle_loaded(load.who, Ok(loaded), self.now_ms, &mut out, &mut |lent: DeliveryRef<
            '_,
        >| {
            take(&mut self.got, &self.disk, lent)
        });
        self.after_readers(out);
    }

    fn continue_interrupted(&mut self) {
        let mut out = ReadersOutput::default();
        self.readers.take_turn(self.now_ms, &mut out, &mut |lent: DeliveryRef<'_>| {
            take(&mut self.got, &self.disk, lent)
        });
        self.after_readers(out);
    }

    /// Runs everything until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.now_ms += 1000;
            self.poll();
            let moves = self.work.is_some() || !self.update.is_empty() || !self.loads.is_empty();
            if !moves && !self.readers.wants_turn() {
                return;
            }
            self.do_work(usize::MAX);
            self.read_update();
            self.load(0, 2);
            self.continue_interrupted();
        }
        panic!("it never becomes idle");
    }

    fn attach(&mut self, consumer: u64, replay: Replay) {
        self.got.insert(consumer, Got::default());
        self.send_to_readers(Request::Attach(Attach {
            consumer: ConsumerId(consumer),
            mode: Mode::Replay(Box::new(replay)),
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
            timeout: ConsumerTimeout::default(),
        }));
    }

    /// Grants credit, unless a grant is in flight: a gate has at most one.
    fn grant(&mut self, consumer: u64, credit: u32, drain: bool) {
        let Some(got) = self.got.get_mut(&consumer).filter(|got| !got.granting) else { return };
        (got.credit, got.granting, got.drain) = (credit.into(), true, drain);
        let (delivery_count, consumer, echo) = (got.count, ConsumerId(consumer), true);
        self.send_to_readers(Request::Grant { consumer, delivery_count, credit, drain, echo });
    }
}

impl World {
    /// Gives a consumer room again, and grants its credit again.
    fn make_room(&mut self, consumer: u64) {
        let Some(got) = self.got.get_mut(&consumer).filter(|got| got.full) else { return };
        got.full = false;
        let (delivery_count, credit, drain) = (got.count, got.credit as u32, got.granting && got.drain);
        if credit > 0 {
            got.granting = true;
            let consumer = ConsumerId(consumer);
            self.send_to_readers(Request::Grant { consumer, delivery_count, credit, drain, echo: true });
        }
    }
}

fn from(start: Start) -> Replay {
    Replay { start, ..Replay::default() }
}

/// Returns a stream of ten messages in five chunks of two.
fn ten_messages() -> World {
    let mut world = World::new();
    for _ in 0..5 {
        world.publish(2, 0);
        world.settle();
    }
    assert_eq!(world.disk.retained().next, 10);
    world
}

#[test]
fn a_receipt_leaves_when_the_message_is_written() {
    let mut world = World::new();
    world.publish(3, 0);
    world.poll();
    assert_eq!(world.work, Some(Work::Open), "the first request opens it");
    world.do_work(0);
    assert!(world.receipts.is_empty());
    world.poll();
    let Some(Work::Append(chunks)) = &world.work else { panic!("nothing is written") };
    assert_eq!((chunks.len(), chunks[0].entries, chunks[0].at_ms), (1, 3, 1000));
    world.publish(2, 0);
    world.poll();
    assert!(world.receipts.is_empty());
    world.do_work(usize::MAX);
    assert_eq!(world.receipts, [1, 2, 3].map(|seq| (seq, Verdict::Accepted)));
    world.settle();
    assert_eq!(world.receipts.len(), 5);
    assert_eq!(world.stream.report().ready, 5);
}

#[test]
fn unwritten_chunks_are_retried_and_new_messages_rejected() {
    let mut world = World::new();
    world.publish(CHUNK_ENTRIES_MAX.into(), 0);
    world.poll();
    world.do_work(0);
    world.poll();
    let Some(Work::Append(chunks)) = &world.work else { panic!("nothing is written") };
    assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.data.len() <= CHUNK_BYTES));
    let first = u64::from(chunks[0].entries);
    world.do_work(1);
    assert_eq!(world.receipts.len() as u64, first, "the first chunk was written");
    world.publish(1, 0);
    assert!(matches!(world.receipts.last(), Some((_, Verdict::Rejected(_)))));
    world.settle();
    assert_eq!(world.disk.next, CHUNK_ENTRIES_MAX.into());
    assert_eq!(world.receipts.last().map(|(_, verdict)| *verdict), Some(Verdict::Accepted));
    world.publish(1, 0);
    world.settle();
    assert_eq!(world.disk.next, u64::from(CHUNK_ENTRIES_MAX) + 1, "and new messages are accepted again");
}

#[test]
fn a_consumer_starts_where_it_asks() {
    let expect = [
        (Start::First, 0..10),
        (Start::Last, 8..10),
        (Start::Next, 10..10),
        (Start::Offset(3), 3..10),
        (Start::Offset(12), 12..12),
        (Start::Time(0), 0..10),
        (Start::Time(u64::MAX), 10..10),
    ];
    for (start, offsets) in expect {
        let mut world = ten_messages();
        world.attach(1, from(start));
        world.grant(1, 100, false);
        world.settle();
        let known: Vec<_> = offsets.clone().collect();
        assert_eq!(world.got[&1].offsets, known, "{start:?}");
        world.publish(4, 0);
        world.settle();
        let later: Vec<_> = (offsets.start..14).collect();
        assert_eq!(world.got[&1].offsets, later, "{start:?}, and later messages");
    }
    let mut world = ten_messages();
    let third_ms = world.disk.chunks[2].at_ms;
    world.attach(1, from(Start::Time(third_ms)));
    world.grant(1, 1, false);
    world.settle();
    assert_eq!(world.got[&1].offsets, [4]);
}

#[test]
fn only_credit_drives_a_consumer() {
    let mut world = ten_messages();
    world.attach(1, from(Start::First));
    world.settle();
    assert!(world.got[&1].offsets.is_empty());
    world.grant(1, 5, false);
    world.settle();
    assert_eq!(world.got[&1].offsets, [0, 1, 2, 3, 4]);
    let outcome = Outcome::Rejected;
    world.send_to_readers(Request::Settle {
        consumer: ConsumerId(1),
        first: 1,
        last: 5,
        outcome,
        answer: SettleAnswer::Never,
    });
    world.settle();
    assert_eq!(world.got[&1].offsets.len(), 5, "settling changes nothing");
    world.grant(1, 0, false);
    assert_eq!(world.got[&1].states.last().unwrap().available, 5);
}

#[test]
fn a_drain_delivers_all_written_messages() {
    let mut world = ten_messages();
    world.attach(1, from(Start::Offset(7)));
    world.grant(1, 100, true);
    world.settle();
    assert_eq!(world.got[&1].offsets, [7, 8, 9]);
    let state = world.got[&1].states.last().unwrap();
    assert_eq!((state.delivery_count, state.credit, state.available, state.drained), (100, 0, 0, true));
}

#[test]
fn unwanted_chunks_are_skipped() {
    let mut world = World::new();
    for value in [1, 0, 2, 1, 0] {
        world.publish(2, value);
        world.settle();
    }
    let bloom = |unfiltered| Some(Arc::new(BloomFilter { values: [(*b"1").into()].into(), unfiltered }));
    for (consumer, unfiltered) in [(1, false), (2, true)] {
        world.attach(consumer, Replay { start: Start::First, bloom: bloom(unfiltered), matching: None });
        world.grant(consumer, 100, true);
    }
    world.settle();
    assert_eq!(world.got[&1].offsets, [0, 1, 6, 7]);
    assert_eq!(world.got[&2].offsets, [0, 1, 2, 3, 6, 7, 8, 9]);
    assert_eq!(world.got[&1].states.last().unwrap().available, 0, "unwanted chunks are not available");
    for consumer in [1, 2] {
        world.grant(consumer, 100, false);
    }
    for value in [2, 1] {
        world.publish(1, value);
        world.settle();
    }
    assert_eq!(world.got[&1].offsets.last(), Some(&11), "the filter also applies to new chunks");
}

#[test]
fn messages_removed_by_retention_are_skipped() {
    let mut world = ten_messages();
    world.attach(1, from(Start::First));
    world.grant(1, 1, false);
    world.load(0, 1);
    world.read_update();
    world.load(0, 1);
    assert_eq!(world.got[&1].offsets, [0]);
    world.disk.chunks.drain(..SEGMENT_CHUNKS);
    world.grant(1, 100, false);
    world.settle();
    assert_eq!(world.got[&1].offsets, [0, 1, 6, 7, 8, 9]);
}

#[test]
fn a_browse_returns_at_most_n_messages() {
    let mut world = ten_messages();
    let browse =
        |ticket, start, n| Request::Browse { ticket: Ticket(ticket), replay: Box::new(from(start)), n };
    world.send_to_readers(browse(1, Start::Offset(3), 4));
    world.send_to_readers(browse(2, Start::First, 100));
    world.send_to_readers(browse(3, Start::Next, 100));
    world.settle();
    assert_eq!(world.fetched[&1], [3, 4, 5, 6]);
    assert_eq!(world.fetched[&2].len(), 10);
    assert_eq!(world.fetched[&3], [0; 0]);
    assert!(!world.follows, "no reader is left");
}

#[test]
fn the_standing_of_a_consumer_follows_its_progress() {
    let mut world = ten_messages();
    let standing = |world: &World| world.readers.standing(ConsumerId(1));
    world.attach(1, from(Start::First));
    assert_eq!(standing(&world), None, "no update yet");
    world.settle();
    assert_eq!(standing(&world), Some(Standing::Behind), "without credit");
    world.grant(1, 10, false);
    assert_eq!(standing(&world), Some(Standing::Reading));
    world.settle();
    assert_eq!(standing(&world), Some(Standing::AtEnd));
    assert_eq!(world.readers.delivered(), 10);
    world.publish(1, 0);
    world.settle();
    assert_eq!(standing(&world), Some(Standing::Behind));
    assert_eq!(world.readers.standing(ConsumerId(2)), None);
}

#[test]
fn an_abandoned_browse_leaves_nothing() {
    let mut world = ten_messages();
    let browse = || Request::Browse { ticket: Ticket(1), replay: Box::new(from(Start::First)), n: 100 };
    let cancel = || Request::CancelBrowse { ticket: Ticket(1) };
    // This browse arrives before the first update of the stream.
    world.send_to_readers(browse());
    world.send_to_readers(cancel());
    assert!(world.readers.is_empty() && !world.follows);
    // This browse is abandoned while it waits for the disk. The disk's answer still arrives.
    world.send_to_readers(browse());
    world.read_update();
    assert!(world.readers.is_loading(Requester::Ticket(Ticket(1))));
    world.send_to_readers(cancel());
    assert!(!world.readers.is_loading(Requester::Ticket(Ticket(1))) && !world.follows);
    world.settle();
    assert_eq!(world.readers.memory_bytes(), 0);
    assert!(world.fetched.is_empty() && world.refused.is_empty());
}

#[test]
fn a_deleted_stream_notifies_everyone() {
    let mut world = ten_messages();
    world.attach(1, from(Start::First));
    world.settle();
    world.publish(1, 0);
    let delete = |if_unused| Request::Delete { ticket: Ticket(7), if_unused, if_empty: false };
    world.send_to_stream(delete(true));
    assert_eq!(world.refused, [Requester::Ticket(Ticket(7))], "it is in use");
    world.send_to_stream(delete(false));
    assert_eq!(world.receipts.last(), Some(&(11, Verdict::Released)));
    world.read_update();
    assert!(world.got[&1].gone);
    world.publish(1, 0);
    assert_eq!(world.receipts.last(), Some(&(12, Verdict::Released)));
}

#[test]
fn a_stream_that_cannot_be_opened_refuses_and_retries() {
    let mut world = World::new();
    let report = |ticket| Request::Report { ticket: Ticket(ticket) };
    world.attach(1, from(Start::First));
    world.grant(1, 10, false);
    world.publish(1, 0);
    world.send_to_stream(report(1));
    for round in 0..3 {
        world.now_ms = world.stream.next_deadline().unwrap_or(world.now_ms);
        world.poll();
        assert_eq!(world.work.take(), Some(Work::Open));
        let mut out = StreamOutput::default();
        world.stream.handle_opened(Err(OpenFailure::Unavailable), world.now_ms, &mut out);
        world.after_home(out);
        world.publish(1, 0);
        world.send_to_stream(report(2 + round));
        assert_eq!(
            world.refused.len() as u64,
            2 + round,
            "every request is answered, also after the first failure"
        );
        assert_eq!(world.receipts.len() as u64, 2 + round);
    }
    assert!(world.receipts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Rejected(_))));
    world.settle();
    world.publish(2, 0);
    world.settle();
    assert_eq!(world.got[&1].offsets, [0, 1], "the consumer stayed attached meanwhile");
}

#[test]
fn a_damaged_stream_accepts_and_delivers_nothing() {
    let mut world = World::new();
    world.attach(1, from(Start::First));
    world.publish(1, 0);
    world.poll();
    let mut out = StreamOutput::default();
    world.stream.handle_opened(Err(OpenFailure::Unavailable), world.now_ms, &mut out);
    world.work = None;
    world.poll();
    assert_eq!(world.work, None, "it is not retried at once");
    world.now_ms = world.stream.next_deadline().unwrap();
    world.poll();
    assert_eq!(world.work.take(), Some(Work::Open));
    world.stream.handle_opened(Err(OpenFailure::Damaged), world.now_ms, &mut out);
    world.after_home(out);
    world.read_update();
    assert_eq!(world.refused, [Requester::Consumer(ConsumerId(1))]);
    assert!(matches!(world.receipts[..], [(1, Verdict::Rejected(_))]));
    assert!(world.stream.report().damaged);
}

/// Readers get what comes before the damage. Everything from there on is closed, also for those who have passed it.
#[test]
fn damage_closes_the_stream_from_there_on() {
    let mut world = ten_messages();
    world.attach(1, from(Start::First));
    world.attach(2, from(Start::Offset(8)));
    world.attach(3, from(Start::Offset(4)));
    world.grant(1, 2, false);
    world.grant(2, 1, false);
    world.settle();
    assert_eq!((&world.got[&1].offsets[..], &world.got[&2].offsets[..]), (&[0, 1][..], &[8][..]));
    world.grant(3, 100, false);
    let bad = world.loads.iter().position(|load| load.who == Requester::Consumer(ConsumerId(3))).unwrap();
    world.loads.remove(bad);
    let mut out = ReadersOutput::default();
    world.readers.handle_loaded(
        Requester::Consumer(ConsumerId(3)),
        Err(Some(4)),
        world.now_ms,
        &mut out,
        &mut |_: DeliveryRef<'_>| true,
    );
    assert_eq!(out.damaged, [4]);
    world.carry_out(out.effects);
    assert!(world.got[&3].gone && !world.got[&1].gone && !world.got[&2].gone);

    world.publish(1, 0);
    world.send_to_stream(Request::Close { from: 4 });
    world.settle();
    assert!(world.got[&2].gone && !world.got[&1].gone, "the second reader was behind the damage");
    assert!(matches!(world.receipts.last(), Some((_, Verdict::Rejected(RejectReason::Damaged)))));
    let report = world.stream.report();
    assert!(report.damaged && report.stream.is_some_and(|kept| kept.closed_from == Some(4)));
    world.publish(1, 0);
    assert!(matches!(world.receipts.last(), Some((_, Verdict::Rejected(RejectReason::Damaged)))));
    for (id, start) in [(4, Start::Next), (5, Start::Offset(4)), (6, Start::Offset(9))] {
        world.refused.clear();
        world.attach(id, from(start));
        world.settle();
        assert_eq!(world.refused, [Requester::Consumer(ConsumerId(id))], "{id}");
    }
    world.attach(7, from(Start::Offset(2)));
    for id in [1, 7] {
        world.grant(id, 100, false);
    }
    world.settle();
    assert_eq!((&world.got[&1].offsets[..], &world.got[&7].offsets[..]), (&[0, 1, 2, 3][..], &[2, 3][..]));
    assert!(world.got[&1].gone && world.got[&7].gone, "they have reached the damage");

    // It has messages, and now a consumer.
    world.attach(8, from(Start::First));
    world.settle();
    for (ticket, if_unused) in [(70, true), (71, false)] {
        world.refused.clear();
        world.send_to_stream(Request::Delete { ticket: Ticket(ticket), if_unused, if_empty: !if_unused });
        assert_eq!(world.refused, [Requester::Ticket(Ticket(ticket))]);
    }
    assert!(world.stream.report().damaged && !world.got[&8].gone);

    // A chunk that only a newer program can read ends its reader, and closes nothing.
    let mut out = ReadersOutput::default();
    let reader = Requester::Consumer(ConsumerId(8));
    let mut take = |_: DeliveryRef<'_>| true;
    world.readers.handle_loaded(reader, Err(None), world.now_ms, &mut out, &mut take);
    assert_eq!(out.damaged, []);
    world.carry_out(out.effects);
    assert!(world.got[&8].gone);

    // Earlier damage closes more, and damage in the first message everything.
    world.attach(9, from(Start::First));
    world.settle();
    world.send_to_stream(Request::Close { from: 0 });
    world.settle();
    assert!(world.got[&9].gone && world.stream.report().damaged);
    assert_eq!(world.work, None, "nothing is written");
}

#[test]
fn memory_is_bounded_whatever_is_granted() {
    let mut world = World::new();
    world.attach(1, from(Start::First));
    world.grant(1, u32::MAX, false);
    world.attach(2, from(Start::First));
    world.grant(2, 1, false);
    world.settle();
    let body = "x".repeat(1000);
    for n in 0..5000u64 {
        let publish =
            Publish { publisher: PublisherId(1), seq: n, message: message(&body, 0), pipelines: false };
        world.send_to_stream(Request::Publish(publish));
        if n % 50 == 0 {
            world.settle();
            let held = world.readers.memory_bytes();
            assert!(held <= TAIL_BYTES + 2 * CHUNK_BYTES, "{held} bytes for two consumers");
        }
    }
    world.settle();
    assert_eq!(world.got[&1].offsets.len(), 5000);
    assert_eq!(world.got[&2].offsets, [0]);
}

/// To find what can be dropped, each reader is looked at. A client can make thousands leave at the same time.
#[test]
fn what_readers_have_kept_is_dropped_once_for_all_that_leave() {
    let mut world = World::new();
    for consumer in 0..10 {
        world.attach(consumer, from(Start::Next));
    }
    world.settle();
    for n in 0..3 {
        world.send_to_stream(Request::Publish(Publish {
            publisher: PublisherId(1),
            seq: n,
            message: message("kept", 0),
            pipelines: false,
        }));
    }
    world.settle();
    let kept = world.readers.tail_bytes();
    assert!(kept > 0, "consumers without credit keep what is new");
    // This one is past all of it, and stays.
    world.attach(10, from(Start::Next));
    world.settle();
    for consumer in 0..10 {
        world.send_to_readers(Request::Cancel { consumer: ConsumerId(consumer) });
        assert_eq!(
            world.readers.tail_bytes(),
            kept,
            "consumer {consumer} is not the last that leaves in this turn"
        );
    }
    assert!(world.readers.wants_turn());
    world.continue_interrupted();
    assert_eq!(world.readers.tail_bytes(), 0);
    assert!(!world.readers.wants_turn());
}

/// Many readers whose filters are expensive share the messages that a turn may inspect, and all of them get to the end.
#[test]
fn readers_with_expensive_filters_share_a_turn() {
    const READERS: u64 = 30;
    let mut world = World::new();
    for n in 0..20 {
        let message = with_subject(&"x".repeat(3_000));
        world.send_to_stream(Request::Publish(Publish {
            publisher: PublisherId(1),
            seq: n,
            message,
            pipelines: false,
        }));
        world.settle();
    }
    let pattern = "p_".repeat(100);
    let filter = SqlFilter::parse(&format!("p.subject LIKE '%{pattern}%'"), Dialect::Filter).unwrap();
    let matching = Some(Arc::new(Filter::Sql(filter)));
    for consumer in 0..READERS {
        world.attach(consumer, Replay { start: Start::First, bloom: None, matching: matching.clone() });
    }
    world.settle();
    (0..READERS).for_each(|consumer| world.grant(consumer, 1, false));
    let mut turns = 0;
    while world.work.is_some()
        || !world.update.is_empty()
        || !world.loads.is_empty()
        || world.readers.wants_turn()
    {
        world.do_work(usize::MAX);
        world.read_update();
        (0..READERS as usize).for_each(|_| world.load(0, 2));
        world.continue_interrupted();
        turns += 1;
        assert!(turns < 1_000, "it ends");
    }
    // 200 comparisons for each of 3,000 bytes: each message counts as some 150.
    let cost = READERS * 20 * 150;
    assert!(turns as u64 >= cost / 2_500, "{turns} turns");
    for consumer in 0..READERS {
        assert_eq!(world.readers.standing(ConsumerId(consumer)), Some(Standing::AtEnd));
    }
}

/// A reader that finds its messages at once does not wait until expensive ones have read everything.
#[test]
fn readers_for_which_nothing_was_left_come_first_in_the_next_turn() {
    const READERS: u64 = 30;
    let mut world = World::new();
    for n in 0..100 {
        let message = with_subject(&"x".repeat(3_000));
        let publisher = PublisherId(1);
        world.send_to_stream(Request::Publish(Publish { publisher, seq: n, message, pipelines: false }));
    }
    world.settle();
    let matching = |pattern: &str| {
        let filter = SqlFilter::parse(&format!("p.subject LIKE '{pattern}'"), Dialect::Filter);
        Some(Arc::new(Filter::Sql(filter.unwrap())))
    };
    let (expensive, cheap) = (matching(&format!("%{}%", "p_".repeat(100))), matching("x%"));
    let last = READERS - 1;
    for consumer in 0..READERS {
        let matching = if consumer == last { cheap.clone() } else { expensive.clone() };
        world.attach(consumer, Replay { start: Start::First, bloom: None, matching });
    }
    world.settle();
    (0..READERS).for_each(|consumer| world.grant(consumer, 1, false));
    let mut turns = 0;
    while world.got.get(&last).is_none_or(|got| got.offsets.is_empty()) {
        (0..READERS as usize).for_each(|_| world.load(0, 1_000));
        world.continue_interrupted();
        turns += 1;
        // Each turn has room for ten of them.
        assert!(turns <= READERS / 10 + 1, "the cheap reader still waits");
    }
}

/// Checks that a reader without credit frees a chunk that only it would keep in memory.
#[test]
fn an_idle_reader_frees_a_chunk_that_has_left_the_tail() {
    let mut world = World::new();
    world.attach(1, from(Start::First));
    world.settle();
    world.publish(2, 0);
    world.grant(1, 1, false);
    world.settle();
    assert_eq!(world.got[&1].offsets, [0], "one message of the chunk is left");
    let body = "x".repeat(1000);
    for n in 0..1000u64 {
        let publish =
            Publish { publisher: PublisherId(1), seq: n, message: message(&body, 0), pipelines: false };
        world.send_to_stream(Request::Publish(publish));
        world.settle();
    }
    let chunk = world.disk.chunks[0].clone();
    world.disk.chunks[0].data = Bytes::copy_from_slice(&chunk.data);
    assert!(chunk.data.is_unique(), "no one else still holds the chunk");
    world.grant(1, 10_000, false);
    world.settle();
    assert!(world.got[&1].offsets.iter().copied().eq(0..1002), "it continues at its position");
}

/// A reader of a stream need not know the protocol of the publisher.
#[test]
fn a_stream_has_messages_of_one_format() {
    let mut world = World::new();
    // The headers are {x-stream-filter-value: "eu"}.
    let list = b"\x20\x00\0\0\0\x1d\x15x-stream-filter-valueS\0\0\0\x02eu";
    let basic = Basic::borrowed(list, b"hi").expect("valid properties");
    let wire = [&list[..], b"hi"].concat();
    let message = Message::new(basic.parts(wire.into()), Arc::new(Route::simple("x", "k")));
    world.send_to_stream(Request::Publish(Publish {
        publisher: PublisherId(1),
        seq: 1,
        message,
        pipelines: false,
    }));
    world.settle();
    let chunk = &world.disk.chunks[0];
    assert_eq!(chunk.values.as_ref().expect("a value").values, ["eu".into()]);
    let mut entries = message::Entries::new(chunk.data.clone());
    let read = entries.message().expect("an entry").expect("a message");
    assert!(read.converted_for_stream().is_none());
    assert_eq!(read.body(), b"\x00\x53\x75\xa0\x02hi");
}
