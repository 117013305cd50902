//! `sluice doctor`, and what an older program does with a directory of a newer one.

use crate::broker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use broker::verb::{Did, finish, sluice};
use broker::{Broker, Directory, serve};
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
    for (name, kind) in [("c", "classic"), ("q", "quorum"), ("s", "stream")] {
        broker.verb(&["declare", "queue", name, "--type", kind]).done();
        broker.verb(&["send", name, "body", "--count", "3"]).done();
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
    for line in
        ["started 1 times", "the broker was not stopped", "a start changes nothing for other programs"]
    {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let examined: Value = serde_json::from_str(&doctor(&data, &["--json"]).done()).unwrap();
    let messages = |kind: &str| {
        let rows = examined["queues"].as_array().unwrap();
        rows.iter().find(|row| row["type"] == kind).unwrap()["messages"].as_u64()
    };
    assert_eq!((messages("classic"), messages("stream")), (Some(3), None));
    assert_eq!(examined["clean"], false);
    assert_eq!(examined["damage"].as_array().unwrap().len(), 0);
    assert!(contents(&data) == before, "the directory was changed");

    let broker = Broker::start(&directory);
    doctor(&data, &[]).refused(1, &["in use"]);
    assert!(broker.terminate().success());
    let stopped: Value = serde_json::from_str(&doctor(&data, &["--json"]).done()).unwrap();
    assert_eq!((&stopped["clean"], &stopped["starts"]), (&true.into(), &2.into()));
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
