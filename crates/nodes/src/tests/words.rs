//! The encoding of words.

use link::{ClusterId, NodeIdentity};
use random::Random;

use crate::word::{Alarms, Beat, Body, Health, Life, REASON_MAX, Reason, State, Word, digest};

fn any_word(random: &mut Random) -> Word {
    let mut bytes = || u128::from(random.next() | 1).to_le_bytes();
    let (node, other, cluster) = (NodeIdentity(bytes()), NodeIdentity(bytes()), ClusterId(bytes()));
    let number = random.next() as u32 | 1;
    let state = match random.below(4) {
        0 => State::Empty,
        1 => State::Holds,
        2 => State::Pending(cluster),
        _ => State::Member { cluster, number },
    };
    let health = Health {
        oldest_unsynced_ms: random.next() as u32,
        oldest_turn_ms: random.next() as u32,
        alarms: Alarms { memory: random.one_in(2), disk: random.one_in(2) },
    };
    let body = match random.below(5) {
        0 => Body::Beat(Beat {
            number: random.next(),
            heard: random.next(),
            held_ms: random.next() as u32,
            supports_ms: random.next() as u32,
            state,
            list: random.next(),
            clock_ms: random.next(),
            health,
        }),
        1 => Body::Join,
        2 => Body::Admitted { cluster, number },
        3 => Body::NotAdmitted(Reason::WouldReplace(other)),
        _ => Body::NotAdmitted(Reason::Other("é".repeat(random.index(REASON_MAX / 2 + 1)))),
    };
    Word { from: Life { node, boot: random.next() }, to: Life { node: other, boot: random.next() }, body }
}

/// What was encoded is decoded. A changed word is refused, or is what the encoder writes for another word.
#[test]
fn a_decoder_accepts_what_the_encoder_writes() {
    let mut random = Random(1);
    for _ in 0..5_000 {
        let word = any_word(&mut random);
        let bytes = word.encode();
        assert_eq!(Word::decode(&bytes), Ok(word));
        let mut changed = bytes.clone();
        match random.below(3) {
            0 => changed.truncate(random.index(bytes.len())),
            1 => changed.push(random.next() as u8),
            _ => changed[random.index(bytes.len())] = random.next() as u8,
        }
        if let Ok(other) = Word::decode(&changed) {
            assert_eq!(other.encode(), changed);
        }
    }
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let life = Life { node: NodeIdentity([1; 16]), boot: 1 };
    let body = Body::NotAdmitted(Reason::Other("é".repeat(REASON_MAX)));
    let word = Word::decode(&Word { from: life, to: life, body }.encode()).expect("a word");
    assert_eq!(word.body, Body::NotAdmitted(Reason::Other("é".repeat(REASON_MAX / 2))));
}

#[test]
fn the_digest_of_a_list_does_not_depend_on_its_order() {
    let list = |names: &[&str]| digest(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(list(&["a", "b", "c"]), list(&["c", "a", "b"]));
    assert_ne!(list(&["a", "bc"]), list(&["ab", "c"]));
    assert_ne!(list(&["a", "b"]), list(&["a"]));
}
