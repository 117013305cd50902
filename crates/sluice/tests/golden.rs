//! Data directories of older programs are opened by the real program.
//!
//! `crates/sluice/golden/vN` is a whole directory that the last program with format N of the log has left, or the first one with the
//! current format. Its broker had `classic_queue.backlog_memory=64KiB` and was stopped with SIGTERM, after these verbs:
//!
//! ```text
//! sluice declare queue paged;  sluice send paged BODY --count 80         2000 times the letter b: most of it is in packs
//! sluice declare queue plain;  sluice send plain one;  sluice send plain two;  sluice recv plain --count 1
//! sluice declare queue stream --type stream;  sluice send stream first;  sluice send stream second
//! sluice declare queue quorum --type quorum;  sluice send quorum agreed  since format 4, which has quorum queues
//! ```
//!
//! The file `reserve` is left out. Of the other formats there are only logs with one record of each kind (`crates/node/golden`).

use crate::backup::copy;
use crate::broker;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use broker::verb::sluice;
use broker::{Broker, Directory};
use serde_json::{Value, json};
use wal::LOG_VERSION;

/// The formats that have a whole data directory in `golden`.
const WHOLE: [u32; 7] = [1, 6, 7, 8, 9, 10, 11];

/// Returns what the doctor says of a directory, and its exit code.
fn examine(data: &Path) -> (Value, i32) {
    let did = sluice(&["doctor", data.to_str().unwrap(), "--json"]);
    (serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}")), did.code)
}

/// Requires that the doctor says which format a start will raise, as text and as JSON.
fn assert_raises(data: &Path, version: u32) {
    let (examined, _) = examine(data);
    let raised = (version < LOG_VERSION).then_some(version);
    assert_eq!(examined["log_raised_from"], json!(raised));
    let formats: Vec<&Value> =
        examined["files"].as_array().unwrap().iter().filter(|row| row["kind"] == "log").collect();
    assert_eq!((formats.len(), &formats[0]["version"]), (1, &json!(version)), "{examined}");
    let text = sluice(&["doctor", data.to_str().unwrap()]).out;
    let line = match raised {
        Some(version) => format!(
            "a start writes log files of format {LOG_VERSION}: programs that know only format {version} refuse the \
             directory from then on"
        ),
        None => "this program writes the same formats: a start changes nothing for other programs".to_owned(),
    };
    assert!(text.lines().any(|shown| shown == line), "{line} is not in {text}");
}

/// Returns the name, the type and the number of messages of each queue.
fn queues(broker: &Broker) -> Vec<(String, String, u64)> {
    let rows = broker.list("queues");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let row = |row: &Value| (text(row, "name"), text(row, "type"), row["messages"].as_u64().unwrap());
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_whole_directory_of_an_older_program_opens_with_all_messages() {
    for version in WHOLE {
        let directory = Directory::new("golden");
        let data = directory.path().join("data");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/v{version}")), &data);
        assert_raises(&data, version);
        let (examined, code) = examine(&data);
        assert_eq!(
            (code, &examined["clean"], &examined["damage"]),
            (0, &json!(true), &json!([])),
            "{examined}"
        );

        let broker = Broker::start(&directory);
        let has_quorum = version >= 4;
        let mut expected = vec![("paged", "classic", 80), ("plain", "classic", 1), ("stream", "stream", 2)];
        expected.extend(has_quorum.then_some(("quorum", "quorum", 1)));
        expected.sort_unstable();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(name, kind, count)| (name.to_owned(), kind.to_owned(), count))
            .collect();
        assert_eq!(queues(&broker), expected, "format {version}");
        let recv = |words: &[&str]| broker.verb(&[&["recv"], words].concat()).done();
        assert_eq!(recv(&["plain", "--count", "1"]), "two");
        assert_eq!(recv(&["stream", "--offset", "first", "--count", "2"]), "first\nsecond");
        assert_eq!(recv(&["paged", "--count", "80"]), vec!["b".repeat(2000); 80].join("\n"));
        if has_quorum {
            assert_eq!(recv(&["quorum", "--count", "1"]), "agreed");
        }
        broker.verb(&["send", "stream", "third"]).done();
        assert!(broker.terminate().success());
        let (examined, code) = examine(&data);
        assert_eq!((code, &examined["log_raised_from"]), (0, &Value::Null), "{examined}");
    }
}

/// These logs have a queue that is closed, and a queue with messages in a pack that is not there. The rest must be found.
#[test]
fn the_log_of_each_older_program_opens() {
    for version in 1..=LOG_VERSION {
        let directory = Directory::new("golden");
        let data = directory.path().join("data");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../node/golden/v{version}")), &data);
        std::fs::write(data.join("lock"), b"").unwrap();
        assert_raises(&data, version);
        let (examined, code) = examine(&data);
        assert_eq!((code, &examined["closed"]), (1, &json!(["'second' in vhost '/'"])), "{examined}");
        let damage = examined["damage"].as_array().unwrap();
        assert_eq!(damage, &[json!("the directory packs is missing: it had messages")], "{examined}");

        let broker = Broker::start(&directory);
        // Since format 3, the directory has users.
        let user = if version >= 3 { "kept:secret" } else { "guest:guest" };
        let url = format!("http://{user}@127.0.0.1:{}", broker.http_port);
        let expected: &[&str] =
            if version >= 4 { &["first", "second", "third"] } else { &["first", "second"] };
        // Since format 9, there are queues that have ended. The catalog is told of that after the start.
        let deadline = Instant::now() + ENDING;
        loop {
            let listed = sluice(&["list", "queues", "--json", "--url", &url]).done();
            let listed: Value = serde_json::from_str(&listed).unwrap();
            let names: Vec<&str> =
                listed.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
            if names == expected {
                break;
            }
            assert!(Instant::now() < deadline, "format {version}: {names:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(broker.terminate().success());
    }
}

/// The longest time that queues which have ended may stay in lists after a start, on a busy machine.
const ENDING: Duration = Duration::from_secs(30);

/// A file of each kind that has a format.
const KINDS: [(&str, &str); 3] = [("log", ""), ("pack", "packs"), ("version", "streams")];

/// Returns the first file with this extension.
fn file_of(directory: &Path, extension: &str) -> PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == extension)).unwrap()
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Returns all files of a directory with their contents.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found.sort_unstable();
    found
}

/// The next version of a format is refused wherever it is, and neither a start nor the doctor changes the directory.
#[test]
fn the_next_format_of_each_kind_of_file_is_refused() {
    for (extension, folder) in KINDS {
        let directory = Directory::new("golden");
        let data = directory.path().join("data");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/v{LOG_VERSION}")), &data);
        let file = file_of(&data.join(folder), extension);
        let mut bytes = std::fs::read(&file).unwrap();
        let next = match extension {
            "version" => {
                let next = u32::from_be_bytes(bytes[4..8].try_into().unwrap()) + 1;
                bytes[4..8].copy_from_slice(&next.to_be_bytes());
                let check = crc32c(&bytes[..8]);
                bytes[8..12].copy_from_slice(&check.to_be_bytes());
                next
            }
            _ => {
                let next = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) + 1;
                bytes[8..12].copy_from_slice(&next.to_le_bytes());
                let check = crc32c(&bytes[..44]);
                bytes[44..48].copy_from_slice(&check.to_le_bytes());
                next
            }
        };
        std::fs::write(&file, bytes).unwrap();
        let before = contents(&data);
        let refused = format!(
            "{} has format version {next}; this program knows {}",
            file.file_name().unwrap().to_str().unwrap(),
            next - 1
        );
        sluice(&["doctor", data.to_str().unwrap()]).refused(1, &[&refused]);
        assert!(broker::Starting::spawn(&directory, &[]).try_finish().is_err(), "{extension}");
        assert!(directory.logged().contains(&refused), "{}", directory.logged());
        assert!(contents(&data) == before, "the directory of a newer {extension} was changed");
    }
}
