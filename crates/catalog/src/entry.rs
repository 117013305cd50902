//! A committed change, as every shard of every node applies it, and its encoding as an entry of the catalog's group.
//!
//! ```text
//! list [ format ubyte (2), origin [node uint, boot uint], shard ubyte, ticket ulong or null, user or null,
//!        answer ubyte, answer boolean, number ulong, low ulong, change binary ... ]
//! answer 1 queue      created. The queue is the first that the changes declare
//!        2 done       changed
//!        3 set        created
//! change see [`crate::encode_change`]
//! ```

use std::sync::Arc;

use amqp10::Value;
use bytes::BytesMut;
use queue::Ticket;

use super::fields::{ListReader, ListWriter};
use super::{Answer, Change, decode_change, encode_change};
use crate::ids::{Origin, ShardId};

const FORMAT: u8 = 2;
/// The format before version 11 of the log. It has no numbers of proposals.
const WITHOUT_NUMBERS: u8 = 1;

const QUEUE: u8 = 1;
const DONE: u8 = 2;
const SET: u8 = 3;

/// Who has asked for a change. It is plain data, so that an entry of a log can carry it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The node that has asked, and its start. Shard and ticket mean something only there.
    pub origin: Origin,
    /// The shard on which the change was proposed.
    pub shard: ShardId,
    /// The number of the proposal among those of that start. 0 for what a start does before it runs.
    pub number: u64,
    /// The node has the answers to all its proposals below this number.
    pub low: u64,
    /// The ticket under which the shard waits for the answer. With `None` nobody waits.
    pub ticket: Option<Ticket>,
    /// The user who asks for it, if the broker knows that and events are on.
    pub by: Option<Arc<str>>,
}

/// The changes of one command.
///
/// What follows from the changes is done where the entry is applied, and not where it was decided (docs/decisions/0054).
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The index in the log of the catalog's group. Shards apply entries in ascending order. Not every index has changes.
    pub index: u64,
    pub asker: Asker,
    pub changes: Arc<[Change]>,
    /// The answer to the asker. It leaves when all shards of the asker's node have applied the entry.
    pub answer: Answer,
}

/// Appends the encoding of an entry, without its index.
pub fn encode_entry(asker: &Asker, changes: &[Change], answer: &Answer, out: &mut BytesMut) {
    let (kind, says) = match answer {
        Answer::Queue { created, .. } => (QUEUE, *created),
        Answer::Done { changed } => (DONE, *changed),
        Answer::Set { created } => (SET, *created),
    };
    let head = ListWriter::new(FORMAT)
        .origin(asker.origin)
        .value(Value::Ubyte(asker.shard))
        .value(asker.ticket.map_or(Value::Null, |ticket| Value::Ulong(ticket.0)))
        .optional_text(asker.by.as_deref())
        .value(Value::Ubyte(kind))
        .boolean(says)
        .number(asker.number)
        .number(asker.low);
    let all = changes.iter().fold(head, |fields, change| {
        let mut encoded = BytesMut::new();
        encode_change(change, &mut encoded);
        fields.value(Value::Binary(encoded.freeze()))
    });
    all.put(out);
}

/// Decodes the entry at an index. Returns `None` if the bytes are not an entry that this program knows.
pub fn decode_entry(index: u64, bytes: &[u8]) -> Option<Entry> {
    let fields = ListReader::new(bytes)?;
    let (number, low, first_change) = match u8::try_from(fields.number(0)?).ok()? {
        FORMAT => (fields.number(7)?, fields.number(8)?, 9),
        WITHOUT_NUMBERS => (0, 0, 7),
        _ => return None,
    };
    let ticket = match fields.value(3)? {
        Value::Null => None,
        Value::Ulong(ticket) => Some(Ticket(*ticket)),
        _ => return None,
    };
    let asker = Asker {
        origin: fields.origin(1)?,
        number,
        low,
        shard: fields.number(2)?.try_into().ok()?,
        ticket,
        by: fields.optional_text(4)?,
    };
    let changes = (first_change..fields.len()).map(|at| match fields.value(at)? {
        Value::Binary(change) => decode_change(change),
        _ => None,
    });
    let changes: Arc<[Change]> = changes.collect::<Option<_>>()?;
    let says = fields.boolean(6)?;
    let answer = match u8::try_from(fields.number(5)?).ok()? {
        QUEUE => {
            let declared = changes.iter().find_map(|change| match change {
                Change::QueueDeclared(record) => Some(record.clone()),
                _ => None,
            });
            Answer::Queue { record: declared?, created: says }
        }
        DONE => Answer::Done { changed: says },
        SET => Answer::Set { created: says },
        _ => return None,
    };
    Some(Entry { index, asker, changes, answer })
}
