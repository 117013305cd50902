//! Items are read as they were written, and no bytes of another node do harm.

mod items;

use std::fmt::Debug;
use std::fmt::Write as _;

use message::{Annotations, DeathReason};
use proptest::prelude::*;
use queue::{Arrival, Config, DeletedReason, Effect, FILTER_VALUES_MAX, Follower, PublisherId, Request};
use random::Random;

use super::*;
use items::Maker;

/// How one kind of items is written and read.
struct Codec<T> {
    put: fn(&T, &mut Vec<u8>) -> bool,
    get: fn(&mut Bytes, &mut LastRoute) -> Option<T>,
}

const ASKS: Codec<Ask> = Codec { put: put_ask, get: get_ask };
const ANSWERS: Codec<Answer> = Codec { put: put_answer, get: get_answer };

impl<T: Debug> Codec<T> {
    fn written(&self, item: &T) -> Vec<u8> {
        let mut out = b"before".to_vec();
        assert!((self.put)(item, &mut out), "it leaves the node: {item:?}");
        out.split_off(6)
    }

    fn read(&self, bytes: &[u8]) -> Option<T> {
        (self.get)(&mut Bytes::copy_from_slice(bytes), &mut LastRoute::default())
    }

    /// Checks that the items come back, one after the other.
    fn check_together(&self, items: &[T]) {
        let all: Vec<u8> = items.iter().flat_map(|item| self.written(item)).collect();
        let (mut bytes, mut routes) = (Bytes::from(all), LastRoute::default());
        for item in items {
            let back = (self.get)(&mut bytes, &mut routes).expect("an item");
            assert_eq!(format!("{back:?}"), format!("{item:?}"));
            // The texts for logs do not show keys.
            assert_eq!(self.written(&back), self.written(item));
        }
        assert!(bytes.is_empty());
    }

    /// Reading damaged bytes must not panic. What is read is written and read again without a change.
    fn check_damaged(&self, bytes: &[u8]) {
        if let Some(item) = self.read(bytes) {
            self.check_together(&[item]);
        }
    }

    /// Checks each beginning of an item, and the item with each bit flipped.
    fn check_all_damage(&self, item: &T) {
        let mut bytes = self.written(item);
        for at in 0..bytes.len() {
            assert!(self.read(&bytes[..at]).is_none(), "{at} bytes of {item:?}");
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                self.check_damaged(&bytes);
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn items_come_back(seed: u64) {
        let mut maker = Maker(Random(seed));
        ASKS.check_together(&[(); 4].map(|()| maker.ask()));
        ANSWERS.check_together(&[(); 4].map(|()| maker.answer()));
    }

    #[test]
    fn no_bytes_break_the_reader(
        seed: u64,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        any_bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        fn check<T: Debug>(
            codec: &Codec<T>,
            item: &T,
            damage: &[(prop::sample::Index, u8)],
            cut: prop::sample::Index,
        ) {
            let mut bytes = codec.written(item);
            assert!(codec.read(&bytes[..cut.index(bytes.len())]).is_none());
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] ^= byte;
                codec.check_damaged(&bytes);
            }
        }
        let mut maker = Maker(Random(seed));
        check(&ASKS, &maker.ask(), &damage, cut);
        check(&ANSWERS, &maker.answer(), &damage, cut);
        for kind in 0..18 {
            let bytes = [&[kind], &any_bytes[..]].concat();
            ASKS.check_damaged(&bytes);
            ANSWERS.check_damaged(&bytes);
        }
    }
}

#[test]
fn no_damage_to_an_example_breaks_the_reader() {
    items::asks().iter().for_each(|(_, ask)| ASKS.check_all_damage(ask));
    items::answers().iter().for_each(|(_, answer)| ANSWERS.check_all_damage(answer));
}

/// Returns all examples with their names and bytes.
fn examples() -> Vec<(String, Vec<u8>)> {
    let asks = items::asks().into_iter().map(|(name, ask)| (format!("ask_{name}"), ASKS.written(&ask)));
    let answers = items::answers().into_iter();
    let answers = answers.map(|(name, answer)| (format!("answer_{name}"), ANSWERS.written(&answer)));
    asks.chain(answers).collect()
}

/// Returns the lines of `golden.txt`.
fn shown(examples: &[(String, Vec<u8>)]) -> String {
    let mut text = String::new();
    for (name, bytes) in examples {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{name} {hex}").expect("a String takes all");
    }
    text
}

/// Nodes of different versions talk to each other, so the bytes stay as they are.
#[test]
fn items_have_these_bytes() {
    let examples = examples();
    assert_eq!(shown(&examples), include_str!("golden.txt"));
    let kinds: Vec<u8> = examples.iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(kinds, Vec::from_iter((1..=16).chain(1..=12)), "there is an example of each kind");
}

#[test]
fn what_never_leaves_a_node_is_not_written() {
    let message = items::message();
    let publish =
        queue::Publish { publisher: PublisherId(1), seq: 1, message: message.clone(), pipelines: false };
    let requests = [
        Request::Publish(publish),
        Request::Follow { follower: Follower(1), consumers: None },
        Request::Close { from: 1 },
        Request::DeadLettered { token: 1, arrival: Arrival::Taken, taken_by: Vec::new() },
        Request::Configure(Arc::new(Config::new("q"))),
    ];
    let effects = [
        Effect::StreamUpdate {
            follower: Follower(1),
            update: Box::new(queue::StreamUpdate {
                retained: queue::Retained::default(),
                chunks: Vec::new(),
                end: None,
            }),
        },
        Effect::DeadLetter {
            token: 1,
            message,
            reason: DeathReason::Expired,
            exchange: "x".into(),
            key: None,
            taken_by: Vec::new(),
            again: false,
            journaled: false,
        },
        Effect::Deleted { reason: DeletedReason::Unused },
    ];
    let mut out = Vec::new();
    for request in requests {
        assert!(!put_ask(&Ask::Request { queue: QueueId(1), request }, &mut out));
    }
    for effect in effects {
        assert!(!put_answer(&Answer::Effect(effect), &mut out));
    }
    assert!(out.is_empty());
}

/// Returns the bytes of an example, to be damaged.
fn example(name: &str) -> Vec<u8> {
    examples().into_iter().find(|(found, _)| found == name).expect("an example").1
}

/// A reader may add one to a number, and may add counts and subtract them.
#[test]
fn numbers_that_would_overflow_are_refused() {
    for (name, at) in [
        ("ask_publish", 9),
        ("ask_settle", 25),
        ("answer_receipt", 9),
        ("answer_delivery", 9),
        ("answer_delivery", 17),
        ("answer_settled", 17),
        ("answer_revoked", 21),
    ] {
        let mut bytes = example(name);
        let mut with = |number: u64| {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            if name.starts_with("ask") { ASKS.read(&bytes).is_some() } else { ANSWERS.read(&bytes).is_some() }
        };
        assert!(with(u64::MAX - 1), "{name}");
        assert!(!with(u64::MAX), "{name}");
    }
    let mut bytes = example("answer_settled");
    bytes[9] = 5;
    assert!(ANSWERS.read(&bytes).is_none(), "the first number is after the last");
    // The counts begin after the kind and the ticket.
    let with = |count: usize, number: u64| {
        let mut bytes = example("answer_report");
        bytes[9 + 8 * count..17 + 8 * count].copy_from_slice(&number.to_le_bytes());
        ANSWERS.read(&bytes).is_some()
    };
    assert!(with(0, 1 << 56) && !with(0, (1 << 56) + 1));
    for (count, most) in [(11, 39), (12, 38), (13, 19)] {
        assert!(with(count, most), "count {count}");
        assert!(!with(count, most + 1), "count {count}");
    }
}

#[test]
fn lists_and_annotations_are_bounded() {
    let browse = |values: usize, count: u32| {
        let mut bytes = vec![10];
        bytes.extend_from_slice(&[0; 20]);
        bytes.extend_from_slice(&[0, 1]);
        bytes.put_u32_le(count);
        bytes.extend_from_slice(&[0; 4].repeat(values));
        bytes.put_u8(0);
        ASKS.read(&bytes).is_some()
    };
    let most = FILTER_VALUES_MAX as u32;
    assert!(browse(FILTER_VALUES_MAX, most));
    assert!(!browse(FILTER_VALUES_MAX + 1, most + 1));
    assert!(!browse(2, u32::MAX), "the count alone reserves no memory");
    let settle = |octets: usize| {
        let value = [&[0xb0][..], &(octets as u32).to_be_bytes(), &vec![7; octets]].concat();
        let pairs = [b"\xa3\x03x-a", &value[..]].concat();
        let mut section = b"\x00\x53\x72\xd1".to_vec();
        section.put_u32(pairs.len() as u32 + 4);
        section.put_u32(2);
        section.extend_from_slice(&pairs);
        let mut bytes = vec![12];
        bytes.extend_from_slice(&[0; 33]);
        bytes.extend_from_slice(&[4, 0b100]);
        bytes.put_u32_le(section.len() as u32);
        bytes.extend_from_slice(&section);
        (section.len(), ASKS.read(&bytes).is_some())
    };
    let besides = settle(0).0;
    assert_eq!(settle(Annotations::BYTES_MAX - besides), (Annotations::BYTES_MAX, true));
    assert_eq!(settle(Annotations::BYTES_MAX - besides + 1), (Annotations::BYTES_MAX + 1, false));
}

/// Writes the bytes of the examples, and the seeds of the fuzz target: `cargo test -p seat --lib -- --ignored`. Bytes that have been
/// in a release must not change.
#[test]
#[ignore = "writes the golden file and the corpus of the fuzz target"]
fn write_examples() {
    let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crate_folder.join("../../fuzz/corpus/seat_items");
    std::fs::create_dir_all(&folder).expect("a folder");
    let examples = examples();
    for (name, bytes) in &examples {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
    std::fs::write(crate_folder.join("src/codec/golden.txt"), shown(&examples)).expect("a file");
}
