//! The steps. Each is prepared once and then done again and again; an operation tells how many bytes it has put into
//! buffers.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use amqp10::{
    Encode, Map, Output, Performative, Properties, Symbol, TransferHead, Value, descriptor, encode, frame,
    put_transfer_frame, sections,
};
use broker::catalog::{Binding, Catalog, Command, DEFAULT_VHOST, DeclareQueue, Destination, Letter};
use bytes::{Bytes, BytesMut};
use log::{Handover, Log, Options, RealDisk, Records};
use message::{FieldFilter, Filter, Message, Parts, Route, SqlFilter};
use queue::{
    Attach, Config, ConsumerId, Effect, Fifo, Mode, Outcome, Overflow, Publish, PublisherId, Request,
};

/// One step of the walk.
pub struct Case {
    pub name: &'static str,
    /// One operation, for people.
    pub what: &'static str,
    pub prepare: fn() -> Box<dyn FnMut() -> u64>,
}

/// In the order of the walk.
pub const CASES: &[Case] = &[
    Case { name: "transfer-decode", what: "frame header and TRANSFER", prepare: transfer_decode },
    Case {
        name: "section-scan",
        what: "message with header, properties and a 12 B body",
        prepare: section_scan,
    },
    Case { name: "topic-match", what: "route of a three-word key, 1,000 bindings", prepare: topic_match },
    Case { name: "filter-sql", what: "three terms over four fields of both sections", prepare: filter_sql },
    Case { name: "filter-fields", what: "a property and an application-property", prepare: filter_fields },
    Case { name: "fifo", what: "publish, deliver and settle one message, in batches of 85", prepare: fifo },
    Case { name: "log-append", what: "one record of about 180 B, 64 per batch", prepare: log_append },
    Case { name: "transfer-encode", what: "delivery head, TRANSFER and payload", prepare: transfer_encode },
];

/// What the load generator of the comparison sends: durable, an id, one application property, 12 bytes.
const MESSAGE: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41\
    \x00\x53\x73\xc0\x0a\x01\x80\x00\x00\x00\x00\x00\x00\x00\x07\
    \x00\x53\x74\xc1\x14\x02\xa1\x08SendTime\x81\x00\x00\x00\x00\x00\x00\x00\x07\
    \x00\x53\x75\xa0\x0cxxxxxxxxxxxx";

/// How many messages a turn of the broker has under full load, about half a link's credit.
const TURN: u64 = 85;

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

/// The message as it is kept: header cut off.
fn message() -> Message {
    let kept = message::kept(&sections::scan(MESSAGE).expect("a message"), true);
    let wire = Bytes::from_static(MESSAGE).slice(kept.range.clone());
    Message::new(kept.into_parts(wire), Arc::new(Route::simple("", "bench-classic")))
}

fn transfer_encode() -> Box<dyn FnMut() -> u64> {
    let message = message();
    let (mut output, mut head) = (Output::default(), BytesMut::new());
    Box::new(move || {
        if output.len() > 64 * 1024 {
            output.advance(output.len());
        }
        let before = output.len();
        message.put_delivery_head(0, false, None, &mut head);
        let (first, bare) = (head.split().freeze(), message.bare());
        put_transfer_frame(output.buffer(), 0, black_box(&HEAD), first.len() + bare.len());
        output.put_payload(&first, 0, first.len());
        output.put_payload(&bare, 0, bare.len());
        (output.len() - before + first.len()) as u64
    })
}

fn topic_match() -> Box<dyn FnMut() -> u64> {
    let mut catalog = Catalog::default();
    let mut run = |command| {
        let decision = catalog.decide(command).expect("allowed");
        decision.changes.iter().for_each(|change| catalog.apply(change));
    };
    let bindings = 1_000;
    for i in 0..bindings {
        let name: Arc<str> = format!("q{i}").into();
        run(Command::DeclareQueue(DeclareQueue {
            vhost: DEFAULT_VHOST.into(),
            name: name.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
            connection: None,
            internal: false,
            home: Some(0),
        }));
        // 10 * 10 * 10 keys; every tenth has a star, every hundredth a hash.
        let key = match i {
            _ if i % 100 == 0 => format!("a{}.#", i / 100),
            _ if i % 10 == 0 => format!("a{}.*.c{}", i / 100, i / 10 % 10),
            _ => format!("a{}.b{}.c{}", i / 100, i / 10 % 10, i % 10),
        };
        run(Command::Bind(Binding {
            vhost: DEFAULT_VHOST.into(),
            source: "amq.topic".into(),
            destination: Destination::Queue(name),
            key: key.into(),
            arguments: Default::default(),
        }));
    }
    let key = [Arc::from("a3.b4.c5")];
    Box::new(move || {
        let letter = Letter { keys: black_box(&key), ..Letter::default() };
        let routed = catalog.route(DEFAULT_VHOST, "amq.topic", &letter);
        assert_eq!(routed.map(|r| r.targets.len()), Some(3), "its own binding, the star and the hash");
        0
    })
}

/// An event as streams carry them: an id, a subject, a group, and four application-properties.
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

/// Asks a filter again and again of an event that it wants, so that nothing is decided early.
fn filter(filter: Filter) -> Box<dyn FnMut() -> u64> {
    let event = event();
    Box::new(move || {
        assert!(black_box(&filter).matches(black_box(&event), 1_700_000_000_000));
        0
    })
}

fn filter_sql() -> Box<dyn FnMut() -> u64> {
    let text = "p.subject LIKE 'order.%' AND region IN ('eu-west', 'eu-north') AND total * items > 100";
    filter(Filter::Sql(SqlFilter::parse(text).expect("an expression")))
}

fn filter_fields() -> Box<dyn FnMut() -> u64> {
    let mut fields = FieldFilter::default();
    let subject = [(Symbol::from_static("subject"), "&p:order.")].into_iter().collect();
    fields.add_properties(&subject).expect("a filter");
    fields.add_application_properties(&[("total", 129.5)].into_iter().collect()).expect("a filter");
    filter(Filter::Fields(fields))
}

fn fifo() -> Box<dyn FnMut() -> u64> {
    let mut fifo = Fifo::new(Config {
        name: "q".into(),
        auto_delete: false,
        single_active_consumer: false,
        max_length: None,
        max_length_bytes: None,
        overflow: Overflow::DropHead,
        message_ttl_ms: None,
        expires_ms: None,
        dead_letter: None,
        max_priority: None,
        stream: None,
    });
    let mut out = queue::Output::default();
    let consumer = ConsumerId(1);
    let attach = Attach {
        consumer,
        mode: Mode::Take,
        priority: 0,
        exclusive: false,
        settled: false,
        delivery_count: 0,
    };
    fifo.apply(Request::Attach(attach), 0, &mut out);
    let parts = Parts { durable: true, ..message().parts() };
    let message = Message::new(parts, Arc::new(Route::simple("", "q")));
    let mut published = 0;
    Box::new(move || {
        let publish = Publish { publisher: PublisherId(1), seq: published, message: message.clone() };
        fifo.apply(Request::Publish(publish), 1000, &mut out);
        published += 1;
        if published % TURN == 0 {
            let (delivery_count, credit) = ((published - TURN) as u32, TURN as u32);
            let grant = Request::Grant { consumer, delivery_count, credit, drain: false, echo: false };
            fifo.apply(grant, 1000, &mut out);
            let delivered = out.effects.drain(..).filter(|e| matches!(e, Effect::Delivery(_))).count();
            assert!(published == TURN || delivered as u64 == TURN);
            let (first, last) = (published - TURN + 1, published);
            let outcome = Outcome::Accepted;
            fifo.apply(Request::Settle { consumer, first, last, outcome, answer: false }, 1000, &mut out);
            out.effects.clear();
            out.facts.clear();
        }
        0
    })
}

/// A directory that goes with its owner.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn log_append() -> Box<dyn FnMut() -> u64> {
    const BATCH: usize = 64;
    let directory = Directory(std::env::temp_dir().join(format!("sluice-micro-{}", std::process::id())));
    let disk = RealDisk::new(&directory.0).expect("a directory for temporary files");
    let options = Options { seed: Some(1), ..Options::default() };
    let (mut log, _) = Log::open(disk, options, &mut |_| {}).expect("an empty log");
    let mut head = BytesMut::new();
    let message = message();
    let (mut records, mut seq) = (Records::new(), 0);
    let (mut handovers, mut done) = (Vec::new(), Vec::new());
    Box::new(move || {
        let _kept = &directory;
        let before = records.bytes();
        head.clear();
        head.extend_from_slice(&1000u64.to_be_bytes());
        message.put_stored_head(&mut head);
        records.push_shared(1, seq, 1, &head, message.stored_tail());
        seq += 1;
        let bytes = records.bytes() - before + head.len();
        if records.len() == BATCH {
            let records = std::mem::take(&mut records);
            handovers.push(Handover { shard: 0, ticket: seq, records, sync: false });
            log.append(&mut handovers, &mut done);
            assert!(done.drain(..).all(|d| d.result.is_ok()));
        }
        bytes as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_whole() {
        let found = sections::scan(MESSAGE).unwrap();
        let range = found.application_properties.unwrap();
        let section = &MESSAGE[range.start as usize..range.end as usize];
        let (key, value) = sections::map_pairs(section).unwrap().next().unwrap().unwrap();
        assert_eq!((key, value[0]), ("SendTime", 0x81));
        assert_eq!(amqp10::Reader::new(value).read_value(), Ok(amqp10::Value::Long(7)));
    }
}
