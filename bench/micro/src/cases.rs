//! The measured steps. Each is prepared once and then repeated. An operation returns the number of bytes that
//! it put into buffers.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use amqp10::{
    Encode, Map, Output, PayloadOf, Performative, Properties, Symbol, TransferHead, Value, descriptor,
    encode, frame, put_transfer_frame, sections,
};
use bytes::{Bytes, BytesMut};
use catalog::{Binding, Caller, Catalog, Command, DEFAULT_VHOST, DeclareQueue, Destination, Routable};
use message::{
    Additions, Basic, DeliveryHeads, Dialect, FieldFilter, Filter, Message, Parts, Position, Route, SqlFilter,
};
use queue::{
    Attach, Carrier, Chunk, Config, ConsumerId, ConsumerTimeout, Deliver, DeliveryRef, Effect, Fifo,
    Follower, Mode, Outcome, Publish, PublisherId, Put, Readers, ReadersOutput, Request, Retained,
    SettleAnswer, Stream, StreamConfig, StreamOutput, Work,
};
use wal::{
    ChunkJob, Handover, Log, NewChunk, Options, ReadFrom, RealDisk, Records, StreamAnswer, StreamJob,
    StreamLimits, StreamReader, Streams,
};

use crate::{amqp091, changes, quorum, walk};

/// One step of a message's way through the broker.
pub struct Case {
    pub name: &'static str,
    /// A description of one operation, for people.
    pub what: &'static str,
    pub prepare: fn() -> Box<dyn FnMut() -> u64>,
}

/// The steps in the order of a message's way, and then the whole way, and the steps of a quorum queue. At the end,
/// changes of the catalog.
pub const CASES: &[Case] = &[
    Case { name: "transfer-decode", what: "frame header and TRANSFER", prepare: transfer_decode },
    Case {
        name: "publish-decode",
        what: "basic.publish, content header and 12 B body of AMQP 0.9.1",
        prepare: amqp091::publish_decode,
    },
    Case {
        name: "section-scan",
        what: "message with header, properties and a 12 B body",
        prepare: section_scan,
    },
    Case { name: "topic-match", what: "route of a three-word key, 1,000 bindings", prepare: topic_match },
    Case {
        name: "topic-hashes",
        what: "a hundredth of: route of a key of 127 words, 2,000 bindings with two # and twice 40 words, which all match",
        prepare: topic_hashes,
    },
    Case { name: "filter-sql", what: "three terms over four fields of both sections", prepare: filter_sql },
    Case { name: "filter-fields", what: "a property and an application-property", prepare: filter_fields },
    Case { name: "fifo", what: "publish, deliver and settle one message, in batches of 85", prepare: fifo },
    Case {
        name: "stream",
        what: "publish, write and deliver one message, in batches of 85",
        prepare: stream,
    },
    Case {
        name: "stream-append",
        what: "one chunk of 100 x 100 B to a stream of 4 MiB",
        prepare: stream_append,
    },
    Case { name: "stream-read", what: "64 KiB in chunks of 100 x 100 B", prepare: stream_read },
    Case { name: "log-append", what: "one record of about 180 B, 64 per batch", prepare: log_append },
    Case { name: "transfer-encode", what: "delivery head, TRANSFER and payload", prepare: transfer_encode },
    Case {
        name: "deliver-encode",
        what: "basic.deliver, content header and 12 B body of AMQP 0.9.1",
        prepare: amqp091::deliver_encode,
    },
    Case { name: "publish-encode", what: "a client's basic.publish", prepare: amqp091::publish_encode },
    Case { name: "deliver-decode", what: "a client reads basic.deliver", prepare: amqp091::deliver_decode },
    Case {
        name: "amqp091-arrive",
        what: "check of a message of AMQP 0.9.1: three properties, two headers, 12 B body",
        prepare: amqp091_arrive,
    },
    Case {
        name: "amqp091-to-10",
        what: "the same message for a consumer of AMQP 1.0",
        prepare: amqp091_to_10,
    },
    Case {
        name: "amqp10-to-091",
        what: "the message in AMQP 1.0 for a consumer of AMQP 0.9.1, without its payload",
        prepare: amqp10_to_091,
    },
    Case { name: "walk", what: "the whole walk through a shard and a classic queue", prepare: walk::classic },
    Case {
        name: "walk-091",
        what: "the same of AMQP 0.9.1, with confirms and acknowledgements",
        prepare: walk::amqp091,
    },
    Case { name: "walk-waiting", what: "the same, of messages that wait for credit", prepare: walk::waiting },
    Case { name: "walk-stream", what: "the whole walk through a shard and a stream", prepare: walk::stream },
    Case {
        name: "walk-quorum",
        what: "the whole walk through a shard and a quorum queue",
        prepare: walk::quorum,
    },
    Case {
        name: "quorum-publish",
        what: "from the request to the fact in the open entry of a quorum queue, 85 per entry",
        prepare: quorum::publish,
    },
    Case {
        name: "quorum-publish-one",
        what: "from the request to the fact in the open entry of a quorum queue, one per entry",
        prepare: quorum::publish_one,
    },
    Case {
        name: "quorum-propose",
        what: "a fact of the open entry: proposed, in a record, handed to the log, 85 per entry",
        prepare: quorum::propose,
    },
    Case {
        name: "quorum-propose-one",
        what: "a fact of the open entry: proposed, in a record, handed to the log, one per entry",
        prepare: quorum::propose_one,
    },
    Case {
        name: "quorum-round",
        what: "the part of the group alone: a fact proposed, in a record, synced and committed, 85 per entry",
        prepare: quorum::round,
    },
    Case {
        name: "quorum-round-one",
        what: "the part of the group alone: a fact proposed, in a record, synced and committed, one per entry",
        prepare: quorum::round_one,
    },
    Case {
        name: "quorum-commit",
        what: "from the synced record to the receipt and the delivery, 85 per entry",
        prepare: quorum::commit,
    },
    Case {
        name: "quorum-commit-one",
        what: "from the synced record to the receipt and the delivery, one per entry",
        prepare: quorum::commit_one,
    },
    Case {
        name: "quorum-settle",
        what: "from the settlement to its answer, with its entry, 85 per entry",
        prepare: quorum::settle,
    },
    Case {
        name: "quorum-settle-one",
        what: "from the settlement to its answer, with its entry, one per entry",
        prepare: quorum::settle_one,
    },
    Case {
        name: "change",
        what: "declare and forget a durable queue among 1,000: decided, synced, applied",
        prepare: changes::declare,
    },
    Case {
        name: "change-binding",
        what: "make and remove a binding of a durable queue among 1,000",
        prepare: changes::bind,
    },
    Case {
        name: "walk-change",
        what: "a client of AMQP 0.9.1 declares and deletes a durable queue among 1,000: the whole walk through a shard and the log",
        prepare: walk::change,
    },
];

/// The message of the comparison's load generator: durable, with an id, one application property and 12 bytes
/// of body.
const MESSAGE: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41\
    \x00\x53\x73\xc0\x0a\x01\x80\x00\x00\x00\x00\x00\x00\x00\x07\
    \x00\x53\x74\xc1\x14\x02\xa1\x08SendTime\x81\x00\x00\x00\x00\x00\x00\x00\x07\
    \x00\x53\x75\xa0\x0cxxxxxxxxxxxx";

/// The bytes of new chunks that the readers of a stream retain.
const TAIL_BYTES: usize = 1024 * 1024;

/// The number of messages in a turn of the broker under full load: about half of a link's credit.
pub(crate) const TURN: u64 = 85;

const HEAD: TransferHead<'_> = TransferHead {
    handle: 0,
    delivery_id: Some(70_000),
    delivery_tag: Some(b"\x00\x01\x11\x70"),
    message_format: Some(0),
    settled: Some(false),
    more: false,
    aborted: false,
};

fn transfer_decode() -> Box<dyn FnMut() -> u64> {
    let mut input = BytesMut::new();
    put_transfer_frame(&mut input, 0, &HEAD, MESSAGE.len());
    input.extend_from_slice(MESSAGE);
    Box::new(move || {
        let input = black_box(&input[..]);
        let header = input.first_chunk().map(|start| frame::parse_header(start, u32::MAX));
        let performative = Performative::decode(&input[frame::HEADER_SIZE..]);
        assert!(black_box(&header).is_some() && black_box(&performative).is_ok());
        0
    })
}

fn section_scan() -> Box<dyn FnMut() -> u64> {
    Box::new(|| {
        assert!(black_box(sections::scan(black_box(MESSAGE))).is_ok());
        0
    })
}

/// Returns the message after trimming: without its header.
fn message() -> Message {
    let trimmed = message::trim(&sections::scan(MESSAGE).expect("a message"), true);
    let wire = Bytes::from_static(MESSAGE).slice(trimmed.range.clone());
    Message::new(trimmed.into_parts(wire), Arc::new(Route::simple("", "bench-classic")))
}

pub(crate) fn durable_message() -> Message {
    let parts = Parts { durable: true, ..message().parts() };
    Message::new(parts, Arc::new(Route::simple("", "q")))
}

fn transfer_encode() -> Box<dyn FnMut() -> u64> {
    let message = message();
    let (mut output, mut heads) = (Output::default(), DeliveryHeads::default());
    Box::new(move || {
        if output.len() > 64 * 1024 {
            output.advance(output.len());
        }
        let before = output.len();
        let head = heads.head(&message, 0, false, None);
        let (wire, bare_at) = message.bare_in();
        put_transfer_frame(output.buffer(), 0, black_box(&HEAD), head.len() + wire.len() - bare_at);
        output.buffer().extend_from_slice(head);
        output.put_payload(wire, bare_at, wire.len(), false, PayloadOf::Delivery);
        (output.len() - before) as u64
    })
}

/// The properties of a message of AMQP 0.9.1: content-type, delivery-mode and message-id, and two headers.
fn basic_list() -> BytesMut {
    let mut list = BytesMut::new();
    let properties = ::amqp091::Properties {
        content_type: Some(b"text/plain"),
        delivery_mode: Some(2),
        message_id: Some(b"order-4711"),
        ..::amqp091::Properties::default()
    };
    properties.put_with_headers(&mut list, |out| {
        let mut headers = ::amqp091::TableWriter::new(out);
        headers.put("region", &::amqp091::Value::LongString(b"eu-west"));
        headers.put("x-retries", &::amqp091::Value::I32(3));
        Some(())
    });
    list
}

fn basic_message() -> Message {
    let list = basic_list();
    let basic = Basic::borrowed(&list, b"xxxxxxxxxxxx").expect("valid properties");
    let wire = [&list[..], b"xxxxxxxxxxxx"].concat();
    Message::new(basic.parts(wire.into()), Arc::new(Route::simple("", "bench-classic")))
}

fn amqp091_arrive() -> Box<dyn FnMut() -> u64> {
    let list = basic_list();
    Box::new(move || {
        assert!(black_box(Basic::borrowed(black_box(&list), b"xxxxxxxxxxxx")).is_ok());
        0
    })
}

fn amqp091_to_10() -> Box<dyn FnMut() -> u64> {
    let message = basic_message();
    Box::new(move || {
        let converted = black_box(&message).in_amqp10();
        black_box(&converted).bare_in().0.len() as u64
    })
}

fn amqp10_to_091() -> Box<dyn FnMut() -> u64> {
    let message = basic_message().in_amqp10().into_owned();
    let mut out = BytesMut::new();
    Box::new(move || {
        out.clear();
        black_box(&message).put_amqp091_properties(&Additions::default(), &mut out);
        let (payload, from) = message.amqp091_payload();
        assert_eq!(black_box(payload.len() - from), 12);
        out.len() as u64
    })
}

/// Returns a catalog with one queue for each of these binding keys.
pub(crate) fn with_topics(keys: impl Iterator<Item = String>) -> Catalog {
    let mut catalog = Catalog::default();
    let mut ids = catalog.queue_ids();
    let mut run = |command| {
        let decision = catalog.decide(command, &mut ids).expect("allowed");
        decision.changes.iter().for_each(|change| catalog.apply(change));
    };
    for (i, key) in keys.enumerate() {
        let name: Arc<str> = format!("q{i}").into();
        run(Command::DeclareQueue(DeclareQueue::new(DEFAULT_VHOST, name.clone(), Default::default())));
        let binding = Binding {
            vhost: DEFAULT_VHOST.into(),
            source: "amq.topic".into(),
            destination: Destination::Queue(name),
            key: key.into(),
            arguments: Default::default(),
        };
        run(Command::Bind(binding, Caller::Management));
    }
    catalog
}

fn topic_match() -> Box<dyn FnMut() -> u64> {
    // The exchange has 10 * 10 * 10 binding keys. Every tenth contains a `*`, every hundredth a `#`.
    let catalog = with_topics((0..1_000).map(|i| match i {
        _ if i % 100 == 0 => format!("a{}.#", i / 100),
        _ if i % 10 == 0 => format!("a{}.*.c{}", i / 100, i / 10 % 10),
        _ => format!("a{}.b{}.c{}", i / 100, i / 10 % 10, i % 10),
    }));
    let key = [Arc::from("a3.b4.c5")];
    Box::new(move || {
        let routable = Routable { keys: black_box(&key), ..Routable::default() };
        let routed = catalog.route(DEFAULT_VHOST, "amq.topic", &routable);
        assert_eq!(routed.map(|r| r.targets.len()), Some(3), "its own binding, the star and the hash");
        0
    })
}

/// The worst binding keys for their size that are known. Only one of a hundred operations finds a route, because it takes as long as
/// thousands of others.
fn topic_hashes() -> Box<dyn FnMut() -> u64> {
    let half = |n: usize| {
        let word = |at: usize| if n >> (at % 11) & 1 == 0 { "a" } else { "*" };
        (0..40).map(word).collect::<Vec<_>>().join(".")
    };
    let catalog = with_topics((0..2_000).map(|n| format!("#.{0}.#.{0}", half(n))));
    let key = [Arc::from(["a"; 127].join("."))];
    let mut operations = 0;
    Box::new(move || {
        operations += 1;
        if operations % 100 == 0 {
            let routable = Routable { keys: black_box(&key), ..Routable::default() };
            let routed = catalog.route(DEFAULT_VHOST, "amq.topic", &routable);
            assert_eq!(routed.map(|r| r.targets.len()), Some(2_000));
        }
        0
    })
}

/// Returns a typical event: it has an id, a subject, a group and four application properties.
fn event() -> Message {
    let mut wire = BytesMut::new();
    let properties = Properties {
        message_id: Some(Value::Ulong(70_000)),
        subject: Some("order.created".to_owned()),
        group_id: Some("customer-4711".to_owned()),
        ..Properties::default()
    };
    properties.encode(&mut wire);
    let application_properties_at = wire.len() as u32;
    encode::put_descriptor(&mut wire, descriptor::APPLICATION_PROPERTIES);
    let mut pairs = Map::new();
    pairs.insert("region", "eu-west");
    pairs.insert("currency", "EUR");
    pairs.insert("total", 129.5);
    pairs.insert("items", 3u32);
    pairs.encode(&mut wire);
    let body_at = wire.len() as u32;
    wire.extend_from_slice(b"\x00\x53\x75\xa0\x0cxxxxxxxxxxxx");
    let parts = Parts { wire: wire.freeze(), application_properties_at, body_at, ..Parts::default() };
    Message::new(parts, Arc::new(Route::simple("", "stream")))
}

/// Applies a filter repeatedly to an event that matches, so that no part of the filter is skipped.
fn filter(filter: Filter) -> Box<dyn FnMut() -> u64> {
    let event = event();
    Box::new(move || {
        assert!(black_box(&filter).matches(black_box(&event), Position::default(), 1_700_000_000_000));
        0
    })
}

fn filter_sql() -> Box<dyn FnMut() -> u64> {
    let text = "p.subject LIKE 'order.%' AND region IN ('eu-west', 'eu-north') AND total * items > 100";
    filter(Filter::Sql(SqlFilter::parse(text, Dialect::Filter).expect("an expression")))
}

fn filter_fields() -> Box<dyn FnMut() -> u64> {
    let mut fields = FieldFilter::default();
    let subject = [(Symbol::from_static("subject"), "&p:order.")].into_iter().collect();
    fields.add_properties(&subject).expect("a filter");
    fields.add_application_properties(&[("total", 129.5)].into_iter().collect()).expect("a filter");
    filter(Filter::Fields(fields))
}

fn config() -> Config {
    Config::new("q")
}

pub(crate) fn attach(consumer: ConsumerId, mode: Mode) -> Request {
    Request::Attach(Attach {
        consumer,
        mode,
        priority: 0,
        exclusive: false,
        settled: false,
        delivery_count: 0,
        message_bytes_max: None,
        timeout: ConsumerTimeout::default(),
    })
}

/// A stream and its readers. The simulated disk completes each write at once.
fn stream() -> Box<dyn FnMut() -> u64> {
    let mut stream = Stream::new(Config { stream: Some(StreamConfig::default()), ..config() });
    let (mut home, mut here) = (StreamOutput::default(), ReadersOutput::default());
    let mut readers = Readers::default();
    let (mut kept, consumer) = (Retained::default(), ConsumerId(1));
    stream.apply(Request::Follow { follower: Follower(0), consumers: Some(1) }, 0, &mut home);
    assert_eq!(stream.poll_work(0), Some(Work::Open));
    stream.handle_opened(Ok(kept.clone()), 0, &mut home);
    readers
        .apply(attach(consumer, Mode::Replay(Box::default())), 0, &mut here, &mut |_: DeliveryRef<'_>| true);
    let message = message();
    let mut published = 0;
    Box::new(move || {
        let publish =
            Publish { publisher: PublisherId(1), seq: published, message: message.clone(), pipelines: false };
        stream.apply(Request::Publish(publish), 1000, &mut home);
        published += 1;
        if published % TURN == 0 {
            let Some(Work::Append(chunks)) = stream.poll_work(1000) else { return 0 };
            kept.next = chunks.last().map_or(0, Chunk::end);
            stream.handle_appended(Some(kept.clone()), 1000, &mut home);
            assert_eq!(home.receipts.drain().count(), 1);
            let mut delivered = 0;
            let mut deliver = |lent: DeliveryRef<'_>| {
                black_box(lent);
                delivered += 1;
                true
            };
            for effect in home.effects.drain(..) {
                if let Effect::StreamUpdate { update, .. } = effect {
                    readers.handle_update(*update, TAIL_BYTES, 1000, &mut here, &mut deliver);
                }
            }
            let (delivery_count, credit) = ((published - TURN) as u32, TURN as u32);
            let grant = Request::Grant { consumer, delivery_count, credit, drain: false, echo: false };
            readers.apply(grant, 1000, &mut here, &mut deliver);
            here.effects.clear();
            assert!(published == TURN || delivered == TURN);
        }
        0
    })
}

/// Accepts the receipts of transient-by-deferral messages (`Deferrable`: written only if no consumer settles them
/// in time). Takes no delivery.
struct Briefs;

impl Deliver for Briefs {
    fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
        false
    }
}

impl Carrier for Briefs {
    fn put(&mut self, put: Put<'_>) -> bool {
        black_box(put).deferrable.is_some()
    }
}

fn fifo() -> Box<dyn FnMut() -> u64> {
    let mut fifo = Fifo::new(config());
    let mut out = queue::Output::default();
    let consumer = ConsumerId(1);
    fifo.apply(attach(consumer, Mode::Take), 0, &mut out, &mut Briefs);
    let message = durable_message();
    let mut published = 0;
    Box::new(move || {
        let publish =
            Publish { publisher: PublisherId(1), seq: published, message: message.clone(), pipelines: false };
        fifo.apply(Request::Publish(publish), 1000, &mut out, &mut Briefs);
        published += 1;
        if published % TURN == 0 {
            let (delivery_count, credit) = ((published - TURN) as u32, TURN as u32);
            let grant = Request::Grant { consumer, delivery_count, credit, drain: false, echo: false };
            fifo.apply(grant, 1000, &mut out, &mut Briefs);
            let delivered = out.effects.drain(..).filter(|e| matches!(e, Effect::Delivery(_))).count();
            assert!(published == TURN || delivered as u64 == TURN);
            let (first, last) = (published - TURN + 1, published);
            let outcome = Outcome::Accepted;
            fifo.apply(
                Request::Settle { consumer, first, last, outcome, answer: SettleAnswer::Never },
                1000,
                &mut out,
                &mut Briefs,
            );
            assert_eq!(
                out.receipts.drain().map(|receipt| receipt.last - receipt.first + 1).sum::<u64>(),
                TURN
            );
            out.effects.clear();
            out.facts.clear();
        }
        0
    })
}

/// A directory that is deleted with its owner.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // If it cannot be removed, it remains among other temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn log_append() -> Box<dyn FnMut() -> u64> {
    const BATCH: usize = 64;
    let directory = Directory(std::env::temp_dir().join(format!("sluice-micro-{}", std::process::id())));
    let disk = RealDisk::new(&directory.0).expect("a directory for temporary files");
    let options = Options { seed: Some(1), ..Options::default() };
    let (mut log, _) = Log::open(disk, options, &mut |_| {}).expect("an empty log");
    let message = message();
    let (mut records, mut seq) = (Records::new(), 0);
    let (mut handovers, mut done) = (Vec::new(), Vec::new());
    Box::new(move || {
        let _kept = &directory;
        let before = records.bytes();
        let head = |out: &mut Vec<u8>| {
            out.extend_from_slice(&1000u64.to_be_bytes());
            message.put_stored_head(out);
        };
        records.push_shared(1, seq, 1, head, message.stored_tail());
        seq += 1;
        let bytes = records.bytes() - before;
        if records.len() == BATCH {
            let next = Records::with_capacity(records.bytes());
            let records = std::mem::replace(&mut records, next);
            handovers.push(Handover { shard: 0, ticket: seq, records, sync: false, urgent: true });
            log.append(&mut handovers, &mut done);
            assert!(done.drain(..).all(|d| d.result.is_ok()));
        }
        bytes as u64
    })
}

/// A stream in a temporary directory. Chunks of 100 entries of 100 bytes are appended to it.
struct Segments {
    streams: Streams<RealDisk>,
    data: Bytes,
    retained: wal::Retained,
    answers: Vec<StreamAnswer>,
    directory: Directory,
}

impl Segments {
    fn new(case: &str) -> Self {
        let directory = Directory(std::env::temp_dir().join(format!("sluice-{case}-{}", std::process::id())));
        let disk = RealDisk::new(&directory.0).expect("a directory for temporary files");
        let mut streams = Streams::new(disk).expect("an empty directory");
        let limits = StreamLimits { segment_bytes: 1 << 20, bytes_max: Some(4 << 20), age_max_ms: None };
        streams
            .handle(StreamJob::Open { shard: 0, stream: 1, limits, sync: false, now_ms: 0 }, &mut Vec::new());
        let data = vec![b'x'; 100 * (100 + 4)].into();
        Self { streams, data, retained: wal::Retained::default(), answers: Vec::new(), directory }
    }

    fn append(&mut self) -> u64 {
        let (first, data) = (self.retained.next, self.data.clone());
        let chunks = vec![NewChunk { first, entries: 100, timestamp_ms: first, bloom: None, data }];
        let job = StreamJob::Append { shard: 0, stream: 1, chunks, sync: false };
        self.streams.handle(black_box(job), &mut self.answers);
        let Some(StreamAnswer::Appended { result: Ok(kept), .. }) = self.answers.pop() else {
            panic!("the append succeeds");
        };
        self.retained = kept;
        // 48 is the length of the chunk's header.
        48
    }
}

fn stream_append() -> Box<dyn FnMut() -> u64> {
    let mut stream = Segments::new("stream-append");
    Box::new(move || stream.append())
}

fn stream_read() -> Box<dyn FnMut() -> u64> {
    let mut stream = Segments::new("stream-read");
    for _ in 0..300 {
        stream.append();
    }
    let mut reader = StreamReader::new(RealDisk::new(&stream.directory.0).expect("the same directory"));
    let (segments, until) = (stream.retained.segments.clone(), stream.retained.next);
    let (from, bytes_max) = (ReadFrom::First, 64 << 10);
    let mut job = ChunkJob {
        shard: 0,
        ticket: 0,
        stream: 1,
        from,
        segments,
        until,
        bytes_max,
        wanted: None,
        claim: None,
        heads: false,
    };
    Box::new(move || {
        let _kept = &stream;
        let read = reader.read(black_box(&job)).expect("the stream was written above");
        job.from = if read.end { ReadFrom::First } else { ReadFrom::At(read.next) };
        read.chunks.iter().map(|chunk| chunk.data.len() as u64).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_complete() {
        let found = sections::scan(MESSAGE).unwrap();
        let range = found.application_properties.unwrap();
        let section = &MESSAGE[range.start as usize..range.end as usize];
        let (key, value) = sections::map_pairs(section).unwrap().next().unwrap().unwrap();
        assert_eq!((key, value[0]), ("SendTime", 0x81));
        assert_eq!(amqp10::Reader::new(value).read_value(), Ok(amqp10::Value::Long(7)));
    }
}
