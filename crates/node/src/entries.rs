//! Encodes the facts of a quorum queue as entries of its Raft group, and the content of the group's bases. An entry is
//! encoded once. It has the same bytes in the log, in messages to other members, and in their logs.
//!
//! ```text
//! entry    fact, ..., to the end
//! fact     kind u8 | ...
//!   1 put       seq u64 | source u32 | number u64 | at u64 (ms since the epoch) | length u32 | stored message
//!   2 gone      first u64 | last u64
//!   3 returned  seq u64 | length u32 | marks, see [`crate::marks`]
//!   4 ended     reason u8 (1 requested, 2 unused, 3 expired)
//! content  format u8 (1) | next seq u64 | sources u32 (0)
//!          of a queue that has ended: format u8 (2) | next seq u64 | sources u32 (0) | reason u8
//! ```
//!
//! `source` identifies the sequence of publishes that the message belongs to, and `number` is its position in that sequence.
//! Both are 0 while messages are only published on the queue's own node. Numbers are big-endian.

use bytes::{Buf, BufMut, Bytes};
use message::{LastRoute, Message};
use queue::{DeletedReason, Fact, Put, Span};

use crate::marks;

const PUT: u8 = 1;
const GONE: u8 = 2;
const RETURNED: u8 = 3;
const ENDED: u8 = 4;

/// Bytes of a put before the message.
const PUT_HEAD: usize = 8 + 4 + 8 + 8 + 4;

const CONTENT_FORMAT: u8 = 1;

/// The format of the content if the queue has ended.
const CONTENT_FORMAT_ENDED: u8 = 2;

/// Bytes of the content before the reason.
const CONTENT_BYTES: usize = 1 + 8 + 4;

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
        Fact::Ended { reason } => {
            entry.put_u8(ENDED);
            entry.put_u8(reason_number(*reason));
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
            ENDED if !entry.is_empty() => Fact::Ended { reason: reason(entry.get_u8())? },
            _ => return None,
        });
    }
    Some(facts)
}

/// Returns the content of a base: the part of the queue's state that is in no fact.
pub fn content(next_seq: u64) -> Bytes {
    content_of(next_seq, None)
}

/// [`content`] of a queue that may have ended.
pub fn content_of(next_seq: u64, ended: Option<DeletedReason>) -> Bytes {
    let mut content = Vec::with_capacity(CONTENT_BYTES + 1);
    content.put_u8(if ended.is_some() { CONTENT_FORMAT_ENDED } else { CONTENT_FORMAT });
    content.put_u64(next_seq);
    content.put_u32(0);
    content.extend(ended.map(reason_number));
    content.into()
}

/// What the content of a base says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub next_seq: u64,
    /// Why the queue has ended, if it has.
    pub ended: Option<DeletedReason>,
}

/// Returns what the content of a base says, or `None` if the content is damaged.
pub fn decode_content(mut content: Bytes) -> Option<Content> {
    let bytes = content.len();
    let format = content.try_get_u8().ok()?;
    let reason_bytes = match format {
        CONTENT_FORMAT => 0,
        CONTENT_FORMAT_ENDED => 1,
        _ => return None,
    };
    if bytes != CONTENT_BYTES + reason_bytes {
        return None;
    }
    let next_seq = Some(content.get_u64()).filter(|seq| is_seq(*seq))?;
    content.advance(4);
    let ended = if reason_bytes > 0 { Some(reason(content.get_u8())?) } else { None };
    Some(Content { next_seq, ended })
}

fn reason_number(reason: DeletedReason) -> u8 {
    match reason {
        DeletedReason::Requested => 1,
        DeletedReason::Unused => 2,
        DeletedReason::Expired => 3,
    }
}

fn reason(number: u8) -> Option<DeletedReason> {
    match number {
        1 => Some(DeletedReason::Requested),
        2 => Some(DeletedReason::Unused),
        3 => Some(DeletedReason::Expired),
        _ => None,
    }
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
            Fact::Ended { reason: DeletedReason::Unused },
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
        let reasons = [DeletedReason::Requested, DeletedReason::Unused, DeletedReason::Expired];
        for ended in reasons.map(Some).into_iter().chain([None]) {
            assert_eq!(decode_content(content_of(12, ended)), Some(Content { next_seq: 12, ended }));
        }
        for reason in reasons {
            let mut entry = Vec::new();
            push_fact(&mut entry, &Fact::Ended { reason });
            let decoded = decode(entry.into(), &mut LastRoute::default()).unwrap();
            assert!(matches!(decoded[..], [Fact::Ended { reason: read }] if read == reason));
        }
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
        for entry in [&[0][..], &[4], &[5], &[255], &[4, 0], &[4, 4]] {
            assert!(decode(entry.to_vec().into(), &mut LastRoute::default()).is_none());
        }
        assert_eq!(decode_content(Bytes::new()), None);
        assert_eq!(decode_content(Bytes::from_static(&[2; 13])), None);
        assert_eq!(decode_content(Bytes::from_static(&[3; 14])), None);
        assert_eq!(decode_content(content(u64::MAX)), None);
        let mut unknown = content_of(12, Some(DeletedReason::Requested)).to_vec();
        unknown[CONTENT_BYTES] = 4;
        assert_eq!(decode_content(unknown.into()), None);
    }
}
