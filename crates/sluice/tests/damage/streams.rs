//! Damage at every kind of place of a stream: the broker says so, and readers get everything before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::verb::sluice;
use crate::broker::{Broker, Directory};

/// The number of messages, and of those that are published together. Those of one publish are in one or two chunks.
const MESSAGES: u64 = 40;
const TOGETHER: u64 = 2;
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A chunk in a segment: its position, the length of its head, its end, and its first offset.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: usize,
    head: usize,
    end: usize,
    first: u64,
}

/// A segment of the stream.
struct Segment {
    file: PathBuf,
    bytes: Vec<u8>,
    chunks: Vec<Chunk>,
}

/// Reads the segments of the only stream, in their order. The format is in `crates/wal/src/stream/chunk.rs`.
fn segments(data: &Path) -> Vec<Segment> {
    let entries = fs::read_dir(data.join("streams")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|file| file.extension().is_some_and(|e| e == "segment")).collect();
    files.sort_unstable();
    let read = |file: PathBuf| {
        let bytes = fs::read(&file).unwrap();
        let (mut at, mut chunks) = (8, Vec::new());
        while at < bytes.len() {
            let head = 48 + usize::from(bytes[at + 44]);
            let data = u32::from_be_bytes(bytes[at + 36..at + 40].try_into().unwrap());
            let end = at + head + data as usize;
            let first = u64::from_be_bytes(bytes[at + 24..at + 32].try_into().unwrap());
            chunks.push(Chunk { at, head, end, first });
            at = end;
        }
        Segment { file, bytes, chunks }
    };
    files.into_iter().map(read).collect()
}

/// Fills a stream with small segments, and kills the broker once it has noted how far the stream was written.
fn fill(directory: &Directory) {
    let broker = Broker::start(directory);
    let size = "x-stream-max-segment-size-bytes=8192";
    broker.verb(&["declare", "queue", "s", "--type", "stream", "--argument", size]).done();
    let body = "x".repeat(700);
    for _ in 0..MESSAGES / TOGETHER {
        broker.verb(&["send", "s", &body, "--count", &TOGETHER.to_string()]).done();
    }
    let lock = directory.path().join("data").join("streams").join("lock");
    let noted = || {
        let notes = fs::read(&lock).unwrap_or_default();
        let written = notes.get(44..52).and_then(|word| word.try_into().ok()).map(u64::from_be_bytes);
        written == Some(MESSAGES)
    };
    while !noted() {
        std::thread::sleep(CHECK_INTERVAL);
    }
    broker.kill();
}

fn row(broker: &Broker) -> Value {
    broker.get("/api/queues/%2F/s").1
}

/// Waits until the stream is shown as damaged. Returns the offset from which on it is closed.
fn closed_from(broker: &Broker) -> Value {
    loop {
        let row = row(broker);
        if row["state"] == "damaged" {
            return row["closed_from"].clone();
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Reads the stream from the first message on, and returns how many came before it was closed.
fn read(broker: &Broker) -> u64 {
    let did = broker.verb(&["recv", "s", "--offset", "first", "--count", &(MESSAGES + 1).to_string()]);
    assert!(did.err.contains("is damaged on the disk"), "{did:?}");
    did.out.lines().count() as u64
}

/// Checks the broker on a damaged directory: its doctor, its state, what can be read, and that it takes no message.
/// `found_by_reader` is true if only a reader can find the damage.
fn check(directory: &Directory, file: &Path, from: u64, found_by_reader: bool, what: &str) {
    let data = directory.path().join("data");
    let examined = sluice(&["doctor", &data.display().to_string()]);
    let name = file.file_name().unwrap().to_str().unwrap();
    let named = examined.code == 1 && (examined.out.contains(name) || examined.err.contains(name));
    assert!(named, "{what}: {examined:?}");
    let broker = Broker::start(directory);
    let expected = if from == 0 { Value::Null } else { json!(from) };
    if found_by_reader {
        assert_eq!(read(&broker), from, "{what}");
    }
    assert_eq!(closed_from(&broker), expected, "{what}");
    let logged = directory.logged();
    assert!(
        logged.contains(name) && logged.contains("is damaged at byte") || logged.contains("is missing"),
        "{logged}"
    );
    broker.verb(&["send", "s", "more"]).refused(1, &["damaged"]);
    if from > 0 {
        assert_eq!(read(&broker), from, "{what}");
        let last = broker.verb(&["recv", "s", "--offset", &from.to_string(), "--count", "1"]);
        assert!(last.err.contains("is damaged on the disk"), "{what}: {last:?}");
    }
    broker.kill();
}

#[test]
fn a_damaged_stream_says_so() {
    let directory = Directory::new("damaged-stream");
    fill(&directory);
    let data = directory.path().join("data");
    let all = segments(&data);
    assert!(
        all.len() > 3 && all.iter().all(|segment| segment.chunks.len() > 2 || segment.chunks[0].first > 30)
    );
    let sealed = &all[1];
    let (first, middle, last) = (sealed.chunks[0], sealed.chunks[1], *sealed.chunks.last().unwrap());
    let newest = all.last().unwrap();
    let lock = fs::read(data.join("streams").join("lock")).unwrap();
    let flip = |segment: &Segment, at: usize| {
        let mut bytes = segment.bytes.clone();
        bytes[at] ^= 4;
        bytes
    };
    let cut = |segment: &Segment, at: usize| segment.bytes[..at].to_vec();
    let cases = [
        ("the header of a sealed segment", sealed, flip(sealed, 1), first.first, false),
        ("the head of its first chunk", sealed, flip(sealed, first.at + 20), first.first, false),
        ("the head of a chunk in the middle", sealed, flip(sealed, middle.at + 37), middle.first, false),
        (
            "the data of a chunk in the middle",
            sealed,
            flip(sealed, middle.at + middle.head + 9),
            middle.first,
            true,
        ),
        ("the head of the last chunk", sealed, flip(sealed, last.at + 3), last.first, false),
        ("the data of the last chunk", sealed, flip(sealed, last.end - 1), last.first, true),
        ("cut in its header", sealed, cut(sealed, 3), first.first, false),
        ("cut in a head", sealed, cut(sealed, middle.at + 11), middle.first, false),
        ("cut in the data", sealed, cut(sealed, middle.end - 1), middle.first, false),
        ("cut between two chunks", sealed, cut(sealed, middle.end), sealed.chunks[2].first, false),
        ("cut in the last chunk", sealed, cut(sealed, last.end - 1), last.first, false),
        ("the first segment", &all[0], flip(&all[0], 8), 0, false),
        (
            "the newest segment, its first chunk",
            newest,
            flip(newest, newest.chunks[0].at + 1),
            newest.chunks[0].first,
            false,
        ),
        (
            "the newest segment is cut",
            newest,
            cut(newest, newest.bytes.len() - 1),
            newest.chunks.last().unwrap().first,
            false,
        ),
    ];
    for (what, segment, changed, from, found_by_reader) in cases {
        fs::write(&segment.file, changed).unwrap();
        check(&directory, &segment.file, from, found_by_reader, what);
        fs::write(&segment.file, &segment.bytes).unwrap();
        // The note of the stream says that something was missing. That is not forgotten by itself.
        fs::write(data.join("streams").join("lock"), &lock).unwrap();
    }

    // An index only repeats what its segment says.
    let index = sealed.file.with_extension("index");
    let mut bytes = fs::read(&index).unwrap();
    bytes[20] ^= 1;
    fs::write(&index, bytes).unwrap();
    let broker = Broker::start(&directory);
    let did = broker.verb(&["recv", "s", "--offset", "first", "--count", &MESSAGES.to_string()]);
    assert_eq!(did.done().lines().count() as u64, MESSAGES);
    assert_eq!(row(&broker)["state"], "running");
    broker.verb(&["send", "s", "more"]).done();
    assert!(broker.terminate().success());
}
