//! Encodes the facts of a quorum queue as entries of its Raft group, and the content of the group's bases. An entry is
//! encoded once. It has the same bytes in the log, in messages to other members, and in their logs.
//!
//! ```text
//! entry    fact, ..., to the end
//! fact     kind u8 | ...
//!   1 put       seq u64 | source u32 | number u64 | at u64 (ms since the epoch) | length u32 | stored message
//!   2 gone      first u64 | last u64
//!   3 returned  seq u64 | length u32 | marks, see [`crate::marks`]
//! content  format u8 (1) | next seq u64 | sources u32 (0)
//! ```
//!
//! `source` identifies the sequence of publishes that the message belongs to, and `number` is its position in that sequence.
//! Both are 0 while messages are only published on the queue's own node. Numbers are big-endian.

use bytes::{Buf, BufMut, Bytes};
use message::{LastRoute, Message};
use queue::{Fact, Put, Span};

use crate::marks;

const PUT: u8 = 1;
const GONE: u8 = 2;
const RETURNED: u8 = 3;

/// Bytes of a put before the message.
const PUT_HEAD: usize = 8 + 4 + 8 + 8 + 4;

const CONTENT_FORMAT: u8 = 1;

/// Appends a message.
pub fn push_put(entry: &mut Vec<u8>, put: Put<'_>) {
    let Put { seq, message, at_ms, .. } = put;
    entry.put_u8(PUT);
    entry.put_u64(seq);
    entry.put_u32(0);
    entry.put_u64(0);
    entry.put_u64(at_ms);
    let at = entry.len();
    entry.put_u32(0);
    message.put_stored_head(entry);
    entry.extend_from_slice(message.stored_tail());
    // A message is shorter than 4 GiB.
    let length = (entry.len() - at - 4) as u32;
    entry[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a fact.
pub fn push_fact(entry: &mut Vec<u8>, fact: &Fact) {
    match fact {
        Fact::Put { seq, message, at_ms } => {
            push_put(entry, Put { seq: *seq, message, at_ms: *at_ms, deferrable: None });
        }
        Fact::Gone(Span { first, last }) => {
            entry.put_u8(GONE);
            entry.put_u64(*first);
            entry.put_u64(*last);
        }
        Fact::Returned { seq, marks } => {
            let (head, annotations) = marks::encode(marks);
            entry.put_u8(RETURNED);
            entry.put_u64(*seq);
            entry.put_u32((head.len() + annotations.len()) as u32);
            entry.extend_from_slice(&head);
            entry.extend_from_slice(annotations);
        }
    }
}

/// Returns the facts of an entry, or `None` if it is damaged. Messages are slices of `entry`.
pub fn decode(mut entry: Bytes, route: &mut LastRoute) -> Option<Vec<Fact>> {
    let mut facts = Vec::new();
    while entry.has_remaining() {
        facts.push(match entry.get_u8() {
            PUT if entry.len() >= PUT_HEAD => {
                let seq = entry.get_u64();
                let (_source, _number) = (entry.get_u32(), entry.get_u64());
                let at_ms = entry.get_u64();
                let message = take(&mut entry)?;
                let message = Message::from_stored(message, route).ok()?;
                is_seq(seq).then_some(Fact::Put { seq, message, at_ms })?
            }
            GONE if entry.len() >= 16 => {
                let (first, last) = (entry.get_u64(), entry.get_u64());
                (first <= last && is_seq(first) && is_seq(last))
                    .then_some(Fact::Gone(Span { first, last }))?
            }
            RETURNED if entry.len() >= 8 + 4 => {
                let seq = entry.get_u64();
                Fact::Returned { seq, marks: marks::decode(take(&mut entry)?)? }
            }
            _ => return None,
        });
    }
    Some(facts)
}

/// Returns the content of a base: the part of the queue's state that is in no fact.
pub fn content(next_seq: u64) -> Bytes {
    let mut content = Vec::with_capacity(1 + 8 + 4);
    content.put_u8(CONTENT_FORMAT);
    content.put_u64(next_seq);
    content.put_u32(0);
    content.into()
}

/// Returns the next seq from the content of a base, or `None` if the content is damaged.
pub fn next_seq(mut content: Bytes) -> Option<u64> {
    let is_known = content.len() == 1 + 8 + 4 && content.get_u8() == CONTENT_FORMAT;
    is_known.then(|| content.get_u64()).filter(|seq| is_seq(*seq))
}

/// Removes a length, and then as many bytes, from the front. Returns these bytes.
fn take(entry: &mut Bytes) -> Option<Bytes> {
    let length = entry.try_get_u32().ok()? as usize;
    (length <= entry.len()).then(|| entry.split_to(length))
}

/// Returns whether a message can have this seq. `u64::MAX` is never assigned, so that every message has a next number.
fn is_seq(seq: u64) -> bool {
    (1..u64::MAX).contains(&seq)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use message::{Parts, Route};
    use queue::Marks;

    use super::*;

    fn put(seq: u64, body: &[u8]) -> Fact {
        let parts = Parts { wire: body.to_vec().into(), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("x", "key")));
        Fact::Put { seq, message, at_ms: 1_700_000_000_000 }
    }

    fn entry() -> (Vec<Fact>, Vec<u8>) {
        let facts = vec![
            put(7, b"a"),
            put(9, &[3; 5000]),
            Fact::Gone(Span { first: 1, last: 6 }),
            Fact::Returned {
                seq: 7,
                marks: Marks { delivery_count: 2, redelivered: true, ..Marks::default() },
            },
        ];
        let mut entry = Vec::new();
        facts.iter().for_each(|fact| push_fact(&mut entry, fact));
        (facts, entry)
    }

    #[test]
    fn facts_of_an_entry_read_back() {
        let (facts, entry) = entry();
        let decoded = decode(entry.into(), &mut LastRoute::default()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{facts:?}"));
        assert_eq!(next_seq(content(12)), Some(12));
    }

    #[test]
    fn damaged_entries_are_refused_or_mean_what_they_say() {
        let (_, entry) = entry();
        for length in 0..entry.len().min(300) {
            // If the entry is cut between two facts, it is a valid shorter entry.
            drop(decode(entry[..length].to_vec().into(), &mut LastRoute::default()));
            let mut damaged = entry.clone();
            damaged[length] ^= 0x81;
            drop(decode(damaged.into(), &mut LastRoute::default()));
        }
        for kind in [0, 4, 255] {
            assert!(decode(vec![kind].into(), &mut LastRoute::default()).is_none());
        }
        assert_eq!(next_seq(Bytes::from_static(&[2; 13])), None);
        assert_eq!(next_seq(content(u64::MAX)), None);
    }
}
