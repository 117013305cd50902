//! The streams of the world: the machines that append and read, on a disk of their own, and the record of
//! every message that was handed to them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use amqp10::Value;
use catalog::{Arguments, Command, DeclareQueue};
use message::Entries;
use wal::{
    ChunkJob, ChunksRead, NewChunk, Retained, StreamAnswer, StreamError, StreamJob, StreamReader,
    StreamSyncEnd, StreamSyncJob, Streams,
};
use wal_testing::{CHANGES, Crash, Op, Random, SimDisk};

use super::client::{Client, number_in};
use super::{Of, Story, World};
use crate::asks::Asks;

/// The number of streams in one world.
const STREAMS: u64 = 3;

/// The most messages that are published to one of them.
const MESSAGES_MAX: u64 = 1500;

/// Message numbers of a stream begin at a multiple of this, so that a number tells its stream.
const NUMBERS: u64 = 1 << 32;

/// The machines, and the jobs and answers in flight.
pub(crate) struct StreamWorld {
    pub stories: Vec<Story>,
    /// The index of the story of each stream to which something was appended, by the log's id of the stream.
    known: HashMap<u64, usize>,
    disk: SimDisk,
    machines: Option<(Streams<SimDisk>, StreamReader<SimDisk>)>,
    jobs: VecDeque<StreamJob>,
    /// The offset ranges of the append in flight, by stream.
    away: HashMap<u64, Vec<(u64, u64)>>,
    syncs: VecDeque<StreamSyncJob>,
    synced: VecDeque<StreamSyncEnd>,
    answers: VecDeque<StreamAnswer>,
    reads: VecDeque<ChunkJob>,
    read: VecDeque<ChunksRead>,
    /// The number of removals by retention.
    pub taken: u64,
    /// The number of opens that reported damage after a power failure.
    pub damaged: u64,
    /// The number of messages that consumers received.
    pub shown: u64,
}

impl StreamWorld {
    /// The disk as it is.
    pub(crate) fn disk(&self) -> SimDisk {
        self.disk.clone()
    }

    /// Replaces the disk while nothing runs.
    pub(crate) fn put_disk(&mut self, disk: SimDisk) {
        self.disk = disk;
    }

    /// Starts with the streams that were recovered from the disk.
    pub(crate) fn start(&mut self, streams: Streams<SimDisk>) {
        self.machines = Some((streams, StreamReader::new(self.disk.clone())));
    }

    pub(crate) fn crash(&mut self, how: Crash) {
        self.disk.heal();
        self.machines = None;
        self.jobs.clear();
        self.away.clear();
        self.syncs.clear();
        self.synced.clear();
        self.answers.clear();
        self.reads.clear();
        self.read.clear();
        self.disk = self.disk.crash(how);
        self.stories.iter_mut().for_each(|story| story.lost_power |= how == Crash::Power);
    }

    /// Does a job if `at_once` is set and that is possible, and returns the answer. Otherwise keeps the job.
    pub(crate) fn take_job(&mut self, job: StreamJob, at_once: bool) -> Option<StreamAnswer> {
        if let (true, StreamJob::Append { stream, chunks, .. }, Some((streams, _))) =
            (at_once, &job, &mut self.machines)
        {
            let (stream, chunks) = (*stream, chunks.clone());
            match streams.append_at_once(job) {
                Ok(answer) => {
                    self.note_append(stream, &chunks);
                    self.note(&answer);
                    return Some(answer);
                }
                Err(job) => self.jobs.push_back(job),
            }
        } else {
            self.jobs.push_back(job);
        }
        None
    }

    pub(crate) fn take_reads(&mut self, reads: impl Iterator<Item = ChunkJob>) {
        self.reads.extend(reads);
    }

    /// Lets the disk begin to fail, or work again.
    pub(crate) fn trouble(&mut self, random: &mut Random) {
        match random.below(4) {
            0 => self.disk.fail(&CHANGES, 300, errno(random)),
            1 => self.disk.fail(&[Op::Open, Op::Read, Op::Write, Op::Sync], 100, errno(random)),
            _ => self.disk.heal(),
        }
    }

    pub(crate) fn heal(&mut self) {
        self.disk.heal();
    }

    /// Does a step of the threads, or returns one of their answers.
    fn step(&mut self, random: &mut Random) -> Option<ThreadAnswer> {
        let (streams, reader) = self.machines.as_mut()?;
        let mut answers = Vec::new();
        match random.below(5) {
            0 => {
                if let Some(job) = self.jobs.pop_front() {
                    let append = match &job {
                        StreamJob::Append { stream, chunks, .. } => Some((*stream, chunks.clone())),
                        _ => None,
                    };
                    self.syncs.extend(streams.handle(job, &mut answers));
                    append.inspect(|(stream, chunks)| self.note_append(*stream, chunks));
                }
            }
            1 => match self.synced.pop_front() {
                Some(end) => self.syncs.extend(streams.end_sync(end, &mut answers)),
                None => self.synced.extend(self.syncs.pop_front().map(StreamSyncJob::run)),
            },
            2 => {
                if let Some(job) = self.reads.pop_front() {
                    let result = reader.read(&job);
                    self.read.push_back(ChunksRead { shard: job.shard, ticket: job.ticket, result });
                }
            }
            3 => return self.answers.pop_front().map(ThreadAnswer::Answer),
            _ => return self.read.pop_front().map(ThreadAnswer::Read),
        }
        for answer in answers {
            self.note(&answer);
            self.answers.push_back(answer);
        }
        None
    }

    /// Records chunks whose append was tried and has no answer yet.
    fn note_append(&mut self, stream: u64, chunks: &[NewChunk]) {
        self.away.insert(stream, chunks.iter().map(range).collect());
        note_appended(&mut self.stories, &mut self.known, stream, chunks);
    }

    /// Records what the owner of a stream is promised by this answer.
    fn note(&mut self, answer: &StreamAnswer) {
        let stream = answer.stream();
        let kept: Option<&Retained> = match answer {
            StreamAnswer::Opened { result: Ok(kept), .. }
            | StreamAnswer::Limited { result: Ok(kept), .. } => Some(kept),
            StreamAnswer::Opened { result: Err(StreamError::Io { .. }), .. } => None,
            StreamAnswer::Opened { result: Err(error), .. } => {
                let story = self.known.get(&stream).map(|at| &mut self.stories[*at]).expect("it has files");
                assert!(story.lost_power || story.is_suspect, "damage without power failure: {error}");
                (story.is_damaged, self.damaged) = (true, self.damaged + 1);
                None
            }
            StreamAnswer::Appended { result, .. } => {
                let kept = match result {
                    Ok(kept) => Some(kept),
                    Err(failure) => failure.retained.as_deref(),
                };
                let away = self.away.remove(&stream).unwrap_or_default();
                if let (Some(kept), Some(&at)) = (kept, self.known.get(&stream)) {
                    let written = away.into_iter().flat_map(|(first, end)| first..end.min(kept.next));
                    self.stories[at].promised.extend(written);
                }
                kept
            }
            StreamAnswer::Limited { result: Err(error), .. } => panic!("{error}"),
        };
        if let (Some(kept), Some(&at)) = (kept, self.known.get(&stream)) {
            let story = &mut self.stories[at];
            self.taken += u64::from(kept.first > story.kept_from);
            story.kept_from = story.kept_from.max(kept.first);
            assert!(
                story.is_suspect || story.promised.last().is_none_or(|last| *last < kept.next),
                "the end of what is kept is {}, but {:?} was promised",
                kept.next,
                story.promised.last()
            );
        }
    }
}

/// An answer of the streams' threads for a shard.
enum ThreadAnswer {
    Answer(StreamAnswer),
    Read(ChunksRead),
}

fn errno(random: &mut Random) -> i32 {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    if random.one_in(2) { EIO } else { ENOSPC }
}

fn range(chunk: &NewChunk) -> (u64, u64) {
    (chunk.first, chunk.first + u64::from(chunk.entries))
}

/// Records the offset of each appended message. Every message has one offset, however often it is written.
fn note_appended(stories: &mut [Story], known: &mut HashMap<u64, usize>, stream: u64, chunks: &[NewChunk]) {
    for chunk in chunks {
        let mut entries = Entries::new(chunk.data.clone());
        let (mut offset, end) = range(chunk);
        while let Some(message) = entries.message() {
            let number = number_in(&message.expect("an entry is a message").bare());
            let at = *known.entry(stream).or_insert((number / NUMBERS) as usize - 1);
            let story = &mut stories[at];
            assert!(story.sent.contains_key(&number), "message {number} was never sent to stream {at}");
            assert!(!story.promised.contains(&offset), "offset {offset} is written twice");
            let before = story.places.insert(number, offset);
            assert!(before.is_none_or(|before| before == offset), "message {number} moves to {offset}");
            story.written.insert(offset, number);
            offset += 1;
        }
        assert_eq!(offset, end, "a chunk counts its messages");
    }
}

pub(super) fn address(stream: usize) -> String {
    format!("/queues/s{stream}")
}

impl World {
    /// Adds streams. All of them sync if `fsync` is true, otherwise none.
    pub(crate) fn add_streams(&mut self, fsync: bool) {
        let stories = (1..=STREAMS).map(|n| Story {
            next: n * NUMBERS,
            left: MESSAGES_MAX,
            in_flight_max: u64::MAX,
            ..Story::default()
        });
        self.streams = Some(StreamWorld {
            stories: stories.collect(),
            known: HashMap::new(),
            disk: SimDisk::new(self.random.next()),
            machines: None,
            jobs: VecDeque::new(),
            away: HashMap::new(),
            syncs: VecDeque::new(),
            synced: VecDeque::new(),
            answers: VecDeque::new(),
            reads: VecDeque::new(),
            read: VecDeque::new(),
            taken: 0,
            damaged: 0,
            shown: 0,
        });
        if let Some(streams) = &mut self.streams {
            streams.start(Streams::new(streams.disk()).expect("a new disk"));
        }
        for stream in 0..STREAMS as usize {
            let mut arguments = Arguments::new();
            arguments.insert("x-queue-type".into(), Value::String("stream".into()));
            arguments.insert("x-fsync".into(), Value::Boolean(fsync));
            // One stream keeps everything in large segments, one everything in small ones, and one keeps only
            // the newest.
            if stream > 0 {
                let bytes = 500 + self.random.below(8000);
                arguments.insert("x-stream-max-segment-size-bytes".into(), Value::Ulong(bytes));
            }
            if stream > 1 {
                let bytes = 4000 + self.random.below(100_000);
                arguments.insert("x-max-length-bytes".into(), Value::Ulong(bytes));
            }
            self.declare(&format!("s{stream}"), arguments);
        }
    }

    /// Declares a queue, and waits for the answer.
    pub(super) fn declare(&mut self, name: &str, arguments: Arguments) {
        let declared = Arc::new(Mutex::new(false));
        let seen = declared.clone();
        let declare = DeclareQueue::new("/", name, arguments);
        self.shards[0].propose(
            Command::DeclareQueue(declare),
            Box::new(move |answer| {
                answer.expect("the queue can be declared");
                *seen.lock().unwrap() = true;
            }),
        );
        while !*declared.lock().unwrap() {
            self.step_broker();
        }
    }

    /// Lets the streams' threads do a step, or delivers one of their answers.
    pub(super) fn step_streams(&mut self) {
        let Some(streams) = &mut self.streams else { return };
        match streams.step(&mut self.random) {
            Some(ThreadAnswer::Answer(answer)) => {
                self.shards[answer.shard() as usize].handle_stream_answer(answer);
            }
            Some(ThreadAnswer::Read(read)) => self.shards[read.shard as usize].handle_chunks(read),
            None => {}
        }
    }

    /// Makes a client of one of the streams.
    pub(super) fn client_of_stream(&mut self) -> (Client, usize) {
        let stream = self.random.below(STREAMS) as usize;
        let story = &mut self.streams.as_mut().expect("there are streams").stories[stream];
        let client = if self.random.one_in(2) {
            story.publishers += 1;
            Client::publisher(story.publishers, &address(stream), self.now_ms)
        } else {
            Client::reader(&address(stream), start(&mut self.random, story), self.now_ms)
        };
        (client.in_any_protocol(&mut self.random, self.now_ms), stream)
    }

    /// Ends all trouble, and waits until every publisher of a stream has one receipt for each of its
    /// messages.
    pub(crate) fn answer_publishers(&mut self) {
        if let Some(streams) = &mut self.streams {
            streams.heal();
        }
        self.disk.heal();
        self.packs_disk.heal();
        for _ in 0..30_000 {
            if self.clients.iter().all(|placed| !placed.of.is_stream() || placed.client.waits_for() == 0) {
                return;
            }
            self.step_broker();
            self.exchange_bytes();
        }
        let waits: Vec<_> = self.clients.iter().filter(|placed| placed.of.is_stream()).collect();
        let waits: Vec<_> = waits.iter().map(|placed| (placed.of, placed.client.waits_for())).collect();
        panic!("messages without receipt, by client: {waits:?}");
    }

    /// Ends all trouble, and reads each stream from its beginning. What was promised must be there.
    pub(crate) fn read_and_check(&mut self) {
        self.answer_publishers();
        self.leave();
        for stream in 0..STREAMS as usize {
            if self.streams.as_ref().is_some_and(|streams| streams.stories[stream].has_holes()) {
                continue;
            }
            let client = Client::reader(&address(stream), Value::String("first".into()), self.now_ms);
            let client = client.in_any_protocol(&mut self.random, self.now_ms);
            self.place(client, Of::Stream(stream));
            let (mut quiet, mut seen) = (0, 0);
            while quiet < 2000 {
                self.step_broker();
                let Some(streams) = &mut self.streams else { return };
                let placed = &mut self.clients[0];
                placed.client.act(&mut streams.stories[stream], &mut self.random);
                self.exchange_bytes();
                let now = self.clients[0].client.got.len();
                quiet = if now == seen { quiet + 1 } else { 0 };
                seen = now;
            }
            let is_closed = self.is_closed(Of::Stream(stream));
            let Some(streams) = &mut self.streams else { return };
            if streams.stories[stream].is_suspect && is_closed {
                streams.stories[stream].is_damaged = true;
                self.leave();
                continue;
            }
            let (story, got) = (&streams.stories[stream], &self.clients[0].client.got);
            let got: BTreeSet<u64> = got.iter().copied().collect();
            streams.shown += got.len() as u64;
            for offset in story.promised.iter().filter(|offset| **offset >= story.kept_from) {
                let number = story.written[offset];
                assert!(got.contains(&number), "stream {stream}: offset {offset} is lost");
            }
            for number in &story.confirmed {
                let offset = story.places[number];
                assert!(
                    story.promised.contains(&offset),
                    "stream {stream}: {number} was confirmed too early"
                );
            }
            let rejected = story.rejected.iter().find(|number| story.places.contains_key(number));
            assert_eq!(rejected, None, "stream {stream}: rejected, and written");
            let mut last = HashMap::new();
            for number in &self.clients[0].client.got {
                let before = last.insert(story.sent[number], *number);
                assert!(before.is_none_or(|b| b < *number), "stream {stream}: {number} behind {before:?}");
            }
            self.leave();
        }
    }
}

/// Returns a random place to begin at.
fn start(random: &mut Random, story: &Story) -> Value {
    let end = story.written.keys().next_back().map_or(0, |last| last + 1);
    match random.below(6) {
        0 => Value::String("first".into()),
        1 => Value::String("last".into()),
        2 => Value::String("next".into()),
        3 => Value::Timestamp(1_000_000 + random.below(30_000) as i64),
        _ => Value::Ulong(random.below(end + 20)),
    }
}
