//! The records of the log: facts of queues and changes of the catalog.
//!
//! ```text
//! kind 1  put       owner = queue, seq = seq      | at u64 (ms since the epoch) | stored message ... |
//! kind 2  gone      owner = queue, seq = first    | last u64 |
//! kind 3  returned  owner = queue, seq = seq      | delivery count u32 | redelivered u8 |
//! kind 4  change    owner = 0, seq = version      | stored change ... |
//! ```
//!
//! Format 1, since 0.1; numbers are big-endian. Queue ids are never 0, for incarnations start at 1.

use std::collections::BTreeMap;

use broker::catalog::{Catalog, Change, decode_change, encode_change};
use broker::ids::QueueId;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hashbrown::HashMap;
use log::{Record, Records};
use message::Message;
use queue::Fact;

use crate::shard::Place;

const PUT: u8 = 1;
const GONE: u8 = 2;
const RETURNED: u8 = 3;
const CHANGE: u8 = 4;

/// Owner of the catalog's records.
const CATALOG: u64 = 0;

/// Appends one fact of a queue.
pub fn push_fact(records: &mut Records, scratch: &mut BytesMut, queue: QueueId, fact: &Fact) {
    match fact {
        Fact::Put { seq, message, at_ms } => {
            scratch.clear();
            scratch.put_u64(*at_ms);
            message.put_stored_head(scratch);
            records.push_shared(queue.0, *seq, PUT, scratch, message.stored_tail());
        }
        Fact::Gone { first, last } => records.push(queue.0, *first, GONE, &[&last.to_be_bytes()]),
        Fact::Returned { seq, delivery_count, redelivered } => {
            records.push(
                queue.0,
                *seq,
                RETURNED,
                &[&delivery_count.to_be_bytes(), &[u8::from(*redelivered)]],
            );
        }
    }
}

/// Appends one change of the catalog.
pub fn push_change(records: &mut Records, scratch: &mut BytesMut, version: u64, change: &Change) {
    scratch.clear();
    encode_change(change, scratch);
    records.push(CATALOG, version, CHANGE, &[scratch]);
}

/// What the log brought back.
#[derive(Debug, Default)]
pub struct Restored {
    pub catalog: Catalog,
    pub queues: HashMap<QueueId, RestoredQueue>,
    /// Records that could not be read, the first few in words.
    pub unreadable: Vec<String>,
}

/// The durable messages of one queue.
#[derive(Debug, Default)]
pub struct RestoredQueue {
    messages: BTreeMap<u64, Stored>,
    last_seq: u64,
}

#[derive(Debug)]
struct Stored {
    at_ms: u64,
    message: Message,
    mark: Option<(u32, bool)>,
    /// The file of the log where it stands.
    file: u64,
}

/// How many unreadable records are kept for the log line.
const UNREADABLE_MAX: usize = 16;

impl Restored {
    /// Takes the next record of the log.
    pub fn handle_record(&mut self, record: Record) {
        let Record { owner, seq, kind, body, file } = record;
        if self.try_record(owner, seq, kind, body, file).is_none() && self.unreadable.len() < UNREADABLE_MAX {
            self.unreadable.push(format!("record of kind {kind}, owner {owner:#x}, seq {seq}"));
        }
    }

    fn try_record(&mut self, owner: u64, seq: u64, kind: u8, mut body: Bytes, file: u64) -> Option<()> {
        if owner == CATALOG {
            let change = (kind == CHANGE).then(|| decode_change(&body)).flatten()?;
            self.catalog.apply(&change);
            return Some(());
        }
        // Each shard hands its records over for itself, so those of a queue may stand before its declaration
        // and behind its end.
        let queue = self.queues.entry(QueueId(owner)).or_default();
        match kind {
            PUT if body.len() > 8 => {
                let at_ms = body.get_u64();
                let message = Message::from_stored(body).ok()?;
                queue.last_seq = queue.last_seq.max(seq);
                queue.messages.insert(seq, Stored { at_ms, message, mark: None, file });
            }
            GONE if body.len() == 8 => {
                let last = body.get_u64();
                queue.last_seq = queue.last_seq.max(last);
                if seq == last {
                    queue.messages.remove(&seq);
                } else {
                    let gone: Vec<u64> = queue.messages.range(seq..=last.max(seq)).map(|(s, _)| *s).collect();
                    gone.iter().for_each(|s| drop(queue.messages.remove(s)));
                }
            }
            RETURNED if body.len() == 5 => {
                let mark = (body.get_u32(), body.get_u8() != 0);
                if let Some(stored) = queue.messages.get_mut(&seq) {
                    stored.mark = Some(mark);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl Restored {
    /// To be called behind the last record: drops what belongs to no queue.
    pub fn finish(&mut self) {
        let catalog = &self.catalog;
        self.queues.retain(|id, _| catalog.queue_by_id(*id).is_some());
    }
}

impl RestoredQueue {
    /// It has never held a durable message.
    pub fn is_unused(&self) -> bool {
        self.last_seq == 0
    }

    /// Messages in it.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Where its messages stand in the log.
    pub fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for (seq, stored) in &self.messages {
            match places.last_mut() {
                Some(place) if place.file == stored.file => place.last = *seq,
                _ => places.push(Place { file: stored.file, first: *seq, last: *seq }),
            }
        }
        places
    }

    /// The facts that make up the queue now.
    pub fn into_facts(self) -> impl Iterator<Item = Fact> {
        let last = self.last_seq;
        let last_is_gone = last > 0 && !self.messages.contains_key(&last);
        let live = self.messages.into_iter().flat_map(|(seq, stored)| {
            let put = Fact::Put { seq, message: stored.message, at_ms: stored.at_ms };
            let mark = stored.mark.map(|(delivery_count, redelivered)| Fact::Returned {
                seq,
                delivery_count,
                redelivered,
            });
            std::iter::once(put).chain(mark)
        });
        // Numbers are never used again, also those of messages that are gone.
        let used = std::iter::once(Fact::Gone { first: last, last });
        live.collect::<Vec<_>>().into_iter().chain(used.filter(move |_| last_is_gone))
    }
}
