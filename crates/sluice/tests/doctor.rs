//! `sluice doctor`, and what an older program does with a directory of a newer one.

use crate::broker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use broker::verb::{Did, finish, sluice};
use broker::{Broker, Directory, Starting, serve};
use serde_json::Value;

/// Returns all files of a directory with their contents.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Makes a data directory with a queue of each type, and kills its broker.
fn killed(directory: &Directory) -> PathBuf {
    let broker = Broker::start(directory);
    // The last records of the log are messages.
    for (name, kind) in [("s", "stream"), ("q", "quorum"), ("c", "classic")] {
        broker.verb(&["declare", "queue", name, "--type", kind]).done();
        broker.verb(&["send", name, "body", "--count", "2"]).done();
        broker.verb(&["send", name, "more"]).done();
    }
    broker.kill();
    directory.path().join("data")
}

fn doctor(data: &Path, words: &[&str]) -> Did {
    sluice(&[&["doctor", data.to_str().unwrap()], words].concat())
}

#[test]
fn a_directory_is_examined_and_not_changed() {
    let directory = Directory::new("doctor");
    let data = killed(&directory);
    let before = contents(&data);
    let text = doctor(&data, &[]).done();
    for line in ["started once", "the broker was not stopped", "a start changes nothing for other programs"] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let examined: Value = serde_json::from_str(&doctor(&data, &["--json"]).done()).unwrap();
    let messages = |kind: &str| {
        let rows = examined["queues"].as_array().unwrap();
        rows.iter().find(|row| row["type"] == kind).unwrap()["messages"].as_u64()
    };
    assert_eq!((messages("classic"), messages("quorum"), messages("stream")), (Some(3), Some(3), None));
    assert_eq!(examined["clean"], false);
    assert_eq!(examined["damage"].as_array().unwrap().len(), 0);
    assert!(contents(&data) == before, "the directory was changed");

    let broker = Broker::start(&directory);
    doctor(&data, &[]).refused(1, &["in use"]);
    assert!(broker.terminate().success());
    let stopped: Value = serde_json::from_str(&doctor(&data, &["--json"]).done()).unwrap();
    assert_eq!((&stopped["clean"], &stopped["starts"]), (&true.into(), &2.into()));
    assert!(doctor(&data, &[]).done().contains("started 2 times"));
}

/// The last entries of a group are in the log before it says that they are committed. A start commits them, because the only member
/// has synced them.
#[test]
fn messages_of_quorum_queues_are_counted_as_a_start_finds_them() {
    for (sent, taken, left) in [("5", None, 5), ("5", Some("2"), 3), ("7", Some("7"), 0)] {
        let directory = Directory::new("doctor");
        let broker = Broker::start(&directory);
        broker.verb(&["declare", "queue", "q", "--type", "quorum"]).done();
        broker.verb(&["send", "q", "body", "--count", sent]).done();
        if let Some(taken) = taken {
            broker.verb(&["recv", "q", "--count", taken]).done();
        }
        assert!(broker.terminate().success());
        let examined = doctor(&directory.path().join("data"), &["--json"]).done();
        let examined: Value = serde_json::from_str(&examined).unwrap();
        assert_eq!(examined["queues"][0]["messages"], left, "{sent} sent, {taken:?} taken");
        let broker = Broker::start(&directory);
        broker.verb(&["send", "q", "one more"]).done();
        assert_eq!(broker.list("queues")[0]["messages"], left + 1, "{sent} sent, {taken:?} taken");
    }
}

#[test]
fn damage_is_named_and_not_repaired() {
    let directory = Directory::new("doctor");
    let data = killed(&directory);
    let log =
        contents(&data).into_keys().find(|path| path.extension().is_some_and(|end| end == "log")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let body = bytes.windows(4).position(|bytes| bytes == b"body").unwrap();
    bytes[body] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let before = contents(&data);
    let examined = doctor(&data, &[]);
    assert_eq!(examined.code, 1, "{examined:?}");
    assert!(examined.out.contains("DAMAGED: ") && examined.err.contains("is damaged"), "{examined:?}");
    assert!(contents(&data) == before, "the directory was changed");
    doctor(directory.path(), &[]).refused(2, &["is not the data directory of a broker"]);
}

/// Returns the bytes of a file with one bit flipped.
fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// Makes a data directory with messages in the log, in packs, and in several segments of a stream, and stops its broker.
fn stopped(directory: &Directory) -> PathBuf {
    let broker = Starting::spawn(directory, &["classic_queue.backlog_memory=64KiB"]).finish();
    let body = "b".repeat(1_000);
    broker.verb(&["declare", "queue", "paged"]).done();
    broker.verb(&["send", "paged", &body, "--count", "3000"]).done();
    let segment = "x-stream-max-segment-size-bytes=400000";
    broker.verb(&["declare", "queue", "stream", "--type", "stream", "--argument", segment]).done();
    broker.verb(&["send", "stream", &body, "--count", "1000"]).done();
    assert!(broker.terminate().success());
    directory.path().join("data")
}

/// Each file, the places in it that are damaged one after the other, and what the report says besides the name of the file.
#[test]
fn every_kind_of_file_is_checked() {
    let directory = Directory::new("doctor");
    let data = stopped(&directory);
    doctor(&data, &[]).done();
    let before = contents(&data);
    let mut kinds = BTreeMap::new();
    for (path, bytes) in &before {
        let name = path.file_name().unwrap().to_str().unwrap();
        let in_streams = path.starts_with(data.join("streams"));
        let kind = path.extension().map_or(name, |extension| extension.to_str().unwrap());
        let (first, middle, last) = (0, bytes.len() / 2, bytes.len().saturating_sub(1));
        let (places, what) = match (kind, in_streams) {
            ("log", _) => (vec![9, middle, last], "log file"),
            ("pack", _) => (vec![9, 60, middle, last], "pack"),
            ("segment", _) => (vec![first, 60, middle, last], "stream file"),
            // The last entry of an index may be torn.
            ("index", _) => (vec![first, 10], "stream file"),
            ("version", _) => (vec![middle], "stream file"),
            ("lock", true) => (vec![20], "stream file"),
            ("lock", false) if bytes.is_empty() => continue,
            ("lock", false) => (vec![20], "file"),
            ("identity", _) => (vec![middle], "file"),
            ("copy", _) => (vec![middle], "file"),
            // Their contents do not matter. "new" is the space of the next copy.
            ("reserve" | "spare" | "new", _) => continue,
            other => panic!("{other:?} is not checked: {}", path.display()),
        };
        *kinds.entry((kind, in_streams)).or_insert(0) += 1;
        for at in places {
            std::fs::write(path, flipped(bytes, at)).unwrap();
            let examined = doctor(&data, &[]);
            let line = examined.out.lines().find(|line| line.starts_with("DAMAGED: "));
            let line = line.unwrap_or_else(|| panic!("byte {at} of {}: {examined:?}", path.display()));
            assert!(line.contains(&format!("{what} {name}")), "byte {at}: {line}");
            assert!(examined.err.contains("is damaged") && examined.code == 1, "byte {at}: {examined:?}");
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert!(contents(&data) == before, "the directory was changed");
    // There were several packs, segments and indexes.
    for (kind, least) in [("log", 1), ("pack", 1), ("identity", 1)] {
        assert!(kinds[&(kind, false)] >= least, "{kinds:?}");
    }
    for (kind, least) in [("segment", 2), ("index", 2), ("version", 1), ("lock", 1)] {
        assert!(kinds[&(kind, true)] >= least, "{kinds:?}");
    }
}

/// One look finds all damaged places, and names the queues.
#[test]
fn all_damaged_places_are_named() {
    let directory = Directory::new("doctor");
    let data = stopped(&directory);
    let before = contents(&data);
    let of = |kind: &str| -> Vec<&PathBuf> {
        before.keys().filter(|path| path.extension().is_some_and(|end| end == kind)).collect()
    };
    let segment = of("segment")[0];
    // Two chunks, with whole ones around them.
    let bytes = &before[segment];
    let twice = flipped(&flipped(bytes, bytes.len() / 3), bytes.len() / 3 * 2);
    std::fs::write(segment, twice).unwrap();
    std::fs::remove_file(of("pack")[0]).unwrap();
    let examined: Value = serde_json::from_str(&doctor(&data, &["--json"]).out).unwrap();
    let damage: Vec<&str> =
        examined["damage"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let count =
        |words: &[&str]| damage.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert_eq!(count(&[name, "is damaged at byte ", "(queue 'stream' in vhost '/')"]), 2, "{damage:?}");
    assert!(count(&["the pack is missing", "(queue 'paged' in vhost '/')"]) >= 1, "{damage:?}");
    assert_eq!(examined["damage_more"], 0);
    // The queue is open until somebody reads there.
    assert_eq!(examined["closed"], Value::Array(Vec::new()));
    std::fs::remove_dir_all(data.join("streams")).unwrap();
    let examined = doctor(&data, &[]);
    let missing = "DAMAGED: the directory streams is missing";
    assert!(examined.out.contains(missing) && examined.code == 1, "{examined:?}");
}

/// After a power failure, the notes in the files `lock` may be missing, and the ends of files may be torn.
#[test]
fn an_interrupted_write_is_not_damage() {
    let directory = Directory::new("doctor");
    let data = killed(&directory);
    let files = contents(&data);
    for name in ["lock", "streams/lock"] {
        let path = data.join(name);
        std::fs::write(&path, vec![0; files[&path].len()]).unwrap();
    }
    let mut torn = Vec::new();
    for end in ["log", "segment"] {
        let path = files.keys().rfind(|path| path.extension().is_some_and(|is| is == end)).unwrap();
        let bytes = &files[path];
        std::fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
        torn.push(path.strip_prefix(&data).unwrap().to_str().unwrap());
    }
    let before = contents(&data);
    let text = doctor(&data, &[]).done();
    for file in torn {
        let line = text.lines().find(|line| line.contains(file)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("bytes of an interrupted write") && line.contains("from offset"), "{line}");
    }
    assert!(contents(&data) == before, "the directory was changed");
    // A start does what the report says, for a stream when it is first used.
    let broker = Broker::start(&directory);
    broker.verb(&["send", "s", "other"]).done();
    assert!(broker.terminate().success());
    let after = doctor(&data, &[]).done();
    assert!(!after.contains("interrupted"), "{after}");
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn a_directory_of_a_newer_program_is_refused_and_not_changed() {
    let directory = Directory::new("doctor");
    let data = killed(&directory);
    let log =
        contents(&data).into_keys().rfind(|path| path.extension().is_some_and(|end| end == "log")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[8..12].copy_from_slice(&1000_u32.to_le_bytes());
    let check = crc32c(&bytes[..44]);
    bytes[44..48].copy_from_slice(&check.to_le_bytes());
    std::fs::write(&log, bytes).unwrap();
    let before = contents(&data);
    let refused = "has format version 1000; this program knows ";
    doctor(&data, &[]).refused(1, &[refused]);
    assert!(contents(&data) == before, "the directory was changed");
    let started = finish(&mut serve(&data), b"");
    assert_eq!(started.code, 1, "{started:?}");
    assert!(started.err.contains(refused), "{started:?}");
    let changed: Vec<PathBuf> = contents(&data)
        .into_iter()
        .filter(|(path, bytes)| before.get(path) != Some(bytes))
        .map(|(path, _)| path)
        .collect();
    assert!(changed.is_empty(), "the broker has changed {changed:?}");
}

/// A directory without folders is examined from a working directory that has something called `lock`, as /var has.
#[test]
fn the_working_directory_does_not_matter() {
    let directory = Directory::new("doctor-from");
    let (data, from) = (directory.path().join("data"), directory.path().join("from"));
    assert!(Broker::start(&directory).terminate().success());
    for folder in ["packs", "streams"] {
        std::fs::remove_dir_all(data.join(folder)).unwrap();
    }
    std::fs::create_dir_all(from.join("lock")).unwrap();
    let mut command = std::process::Command::new(broker::PROGRAM);
    finish(command.arg("doctor").arg(&data).current_dir(from), b"").done();
}
