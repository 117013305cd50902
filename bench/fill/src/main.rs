//! Writes a data directory as a broker would leave it: queues whose whole backlog is in packs.
//!
//! ```text
//! fill DIRECTORY QUEUES MESSAGES [BYTES]     queues q-0, q-1, ...; messages of each; bytes of each body (100)
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use catalog::ids::QueueId;
use catalog::{Arguments, Catalog, Command, DeclareQueue, QueueIds};
use message::{Message, Parts, Route};
use node::facts::{push_change, push_local_fact, push_to_run};
use queue::{Ages, Fact, LocalFact, Seqs, Stored};
use wal::{Handover, Log, Options, PACK_BYTES, PackOptions, Packs, RealDisk, Records, Run};

/// The size of a run in bytes. As in the broker, a run fills about a pack.
const RUN_BYTES: usize = (PACK_BYTES - PACK_BYTES / 16) as usize;
/// The arrival time of the messages, in milliseconds since the epoch.
const AT_MS: u64 = 1_750_000_000_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            drop(writeln!(std::io::stderr(), "fill: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let (directory, queues, messages, bytes) = match words {
        [directory, queues, messages] => (directory, queues, messages, 100),
        [directory, queues, messages, bytes] => (directory, queues, messages, bytes.parse()?),
        _ => return Err("usage: fill DIRECTORY QUEUES MESSAGES [BYTES]".into()),
    };
    let mut filler = Filler::open(Path::new(directory), message(bytes))?;
    let (queues, messages): (u32, u64) = (queues.parse()?, messages.parse()?);
    for number in 0..queues {
        let queue = filler.declare(&format!("q-{number}"))?;
        filler.fill(queue, messages)?;
    }
    filler.close()
}

/// Returns a durable message with a body of this many bytes.
fn message(bytes: usize) -> Message {
    let mut wire = BytesMut::new();
    wire.put_slice(b"\x00\x53\x75\xb0");
    wire.put_u32(bytes as u32);
    wire.put_bytes(b'x', bytes);
    let parts = Parts { wire: wire.freeze(), durable: true, durable_header: true, ..Parts::default() };
    Message::new(parts, Arc::new(Route::simple("", "q")))
}

struct Filler {
    log: Log<RealDisk>,
    packs: Packs<RealDisk>,
    catalog: Catalog,
    ids: QueueIds,
    message: Message,
    /// Runs that are not written yet, each with its record.
    runs: Vec<(Run, QueueId, Stored)>,
    bytes: usize,
    records: Records,
    scratch: Vec<u8>,
}

impl Filler {
    fn open(directory: &Path, message: Message) -> Result<Self, Box<dyn Error>> {
        let (log, recovery) = Log::open(RealDisk::new(directory)?, Options::default(), &mut |_| ())?;
        if recovery.files > 0 {
            return Err(format!("{} is not empty", directory.display()).into());
        }
        let packs = RealDisk::new(directory.join("packs"))?;
        Ok(Self {
            log,
            packs: Packs::open(packs, PackOptions::default(), [], false)?,
            catalog: Catalog::default(),
            ids: Catalog::default().queue_ids(),
            message,
            runs: Vec::new(),
            bytes: 0,
            records: Records::new(),
            scratch: Vec::new(),
        })
    }

    fn declare(&mut self, name: &str) -> Result<QueueId, Box<dyn Error>> {
        let declare = DeclareQueue::new("/", name, Arguments::new());
        for change in self.catalog.decide(Command::DeclareQueue(declare), &mut self.ids)?.changes {
            push_change(&mut self.records, self.catalog.version() + 1, &change);
            self.catalog.apply(&change);
        }
        Ok(self.catalog.listed_queue("/", name).ok_or("no such queue")?.id)
    }

    fn fill(&mut self, queue: QueueId, messages: u64) -> Result<(), Box<dyn Error>> {
        let (mut number, mut seq) = (0, 1);
        while seq <= messages {
            let (mut run, first) = (Run::new(queue.0), seq);
            while seq <= messages && run.bytes() < RUN_BYTES {
                let put = Fact::Put { seq, message: self.message.clone(), at_ms: AT_MS };
                push_to_run(&mut run, &mut self.scratch, &put);
                seq += 1;
            }
            number += 1;
            let count = (seq - first) as u32;
            let stored = Stored {
                run: number,
                first,
                last: seq - 1,
                priorities: (0, u8::MAX),
                messages: count,
                durable: count,
                bytes: u64::from(count) * self.message.len(),
                ages: Ages {
                    first_arrival_ms: AT_MS,
                    last_arrival_ms: AT_MS,
                    first_end_ms: None,
                    last_end_ms: None,
                },
                seqs: Seqs::default(),
            };
            if self.bytes + run.bytes() > PACK_BYTES as usize {
                self.flush()?;
            }
            self.bytes += run.bytes();
            self.runs.push((run, queue, stored));
        }
        Ok(())
    }

    /// Writes the pending runs, first to packs and then to the log.
    fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        self.bytes = 0;
        let (mut runs, mut said) = (Vec::new(), Vec::new());
        for (run, queue, stored) in self.runs.drain(..) {
            runs.push(run);
            said.push((queue, stored));
        }
        let extents = self.packs.write(runs)?;
        for ((queue, stored), extent) in said.into_iter().zip(extents) {
            let fact = LocalFact::Stored(stored);
            push_local_fact(&mut self.records, queue, &fact, Some(extent));
        }
        let records = std::mem::take(&mut self.records);
        let mut done = Vec::new();
        self.log.append(
            &mut vec![Handover { shard: 0, ticket: 0, records, sync: false, urgent: true }],
            &mut done,
        );
        Ok(done.into_iter().try_for_each(|completion| completion.result)?)
    }

    fn close(mut self) -> Result<(), Box<dyn Error>> {
        self.flush()?;
        Ok(self.log.close()?)
    }
}

/// Checks that the body has the requested size.
#[test]
fn a_message_has_a_body_of_its_size() {
    assert_eq!(
        message(100).bare(),
        bytes::Bytes::from([b"\x00\x53\x75\xb0\x00\x00\x00\x64".as_slice(), &[b'x'; 100]].concat())
    );
}
