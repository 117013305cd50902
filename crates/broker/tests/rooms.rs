//! The components that every gate uses must not know any protocol.

use std::path::{Path, PathBuf};

/// The files of the components. From `amqp10` they may use only the format of stored messages, which is the
/// broker's own format.
const ROOMS: [&str; 7] =
    ["intake", "outlet", "follow.rs", "own_queues.rs", "watchers.rs", "input.rs", "cx.rs"];

const WORDS: [&str; 9] = [
    "channel",
    "handle:",
    "session",
    "delivery-id",
    "delivery_id",
    "disposition",
    "mqtt",
    "gate::amqp10",
    "transfer",
];

#[test]
fn rooms_are_monoglot() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<PathBuf> = Vec::new();
    for room in ROOMS.map(|room| source.join(room)) {
        match room.is_dir() {
            true => files.extend(room.read_dir().unwrap().map(|entry| entry.unwrap().path())),
            false => files.push(room),
        }
    }
    assert!(files.len() >= 12);
    for file in files {
        for (at, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            let lower = line.to_lowercase();
            let found = WORDS.iter().find(|word| lower.contains(**word));
            assert_eq!(found, None, "{}:{}: {line}", file.display(), at + 1);
            let of_amqp = lower.contains("amqp10::") && !lower.contains("amqp10::sections");
            assert!(!of_amqp, "{}:{}: {line}", file.display(), at + 1);
        }
    }
    let line = std::fs::read_to_string(source.join("gate/line.rs")).unwrap();
    assert!(!line.contains("amqp10"), "the line protocol uses nothing of AMQP");
}
