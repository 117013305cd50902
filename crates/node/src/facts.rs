//! The records of the log: facts of queues and changes of the catalog.
//!
//! ```text
//! kind 1  put       owner = queue, seq = seq      | at u64 (ms since the epoch) | stored message ... |
//! kind 2  gone      owner = queue, seq = first    | last u64 |
//! kind 3  returned  owner = queue, seq = seq      | delivery count u32 | redelivered u8 |      read, not written
//! kind 4  change    owner = 0, seq = version      | stored change ... |                          read, not written
//! kind 5  stored    owner = queue, seq = first    | run u32 | last u64 | lowest priority u8 | highest u8 |
//!                                                 | messages u32 | durable u32 | their bytes u64 |
//!                                                 | first arrival u64 | last arrival u64 |
//!                                                 | first end u64, 0 is none | last end u64, 0 is none |
//!                                                 | pack u64 | offset u32 | bytes u32 |
//!                                                 | in a quorum queue also: sequence numbers ([`queue::Seqs`]) |
//! kind 6  run-gone  owner = queue, seq = run      | first position u32 | last position u32 |
//!                                                 | durable u32 | their bytes u64 |
//! kind 7  damaged   owner = queue, seq = 0        | |
//! kind 8  noted     owner = 2^64-1, seq = offset  | name of the damaged file ... |
//! kind 9  marked    owner = queue, seq = seq      | marks, see [`crate::marks`] ... |
//! kind 10 group     owner = queue, seq = index    | member number u32 | record of a Raft group ... |
//!                   (of a vote: its term)         | see [`replica::Record`]; facts: see [`crate::entries`] |
//!                   owner = 0                     | the same of the catalog, see [`definitions`] |
//! kind 11 definition  owner = 0, seq = number     | stored change ... |
//! kind 12 founded   owner = 2^64-1, seq = index   | |
//! ```
//!
//! Numbers are big-endian. The messages of a run are stored in packs, as records of kind 1. Queue ids are never 0,
//! because incarnations start at 1. `run-gone` says which messages of a run are gone, by their positions.
//!
//! A log of version 1 (since 0.1) has the kinds 1 to 8. Version 2 added kind 9, version 3 changes of users and virtual
//! hosts, version 4 kind 10, and version 9 the kinds 11 and 12. [`wal::LOG_VERSION`] says what later versions changed.
//!
//! The `version` of a change is the version of the catalog that it was decided for. Recovery ignores it.

pub(crate) mod definitions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use broker::admin_api::UnclaimedSums;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use catalog::ids::QueueId;
use catalog::{Catalog, Change, encode_change};
use hashbrown::{HashMap, HashSet};
use message::{LastRoute, Message};
use queue::{
    Ages, Block, Fact, GoneFromRun, Loaded, LocalFact, Logged, Marks, Put, Restoring, Seqs, Span, Stored,
};
use replica::{Damaged, Entry, Group, Member, Options, Payload};
use wal::{Extent, Record, Records};

use self::definitions::Definitions;
pub(crate) use self::definitions::decode_whole;
pub use self::definitions::{NotAlone, content as catalog_base, whole_content};
use crate::entries::{self, Content};
use crate::marks;

const PUT: u8 = 1;
const GONE: u8 = 2;
const RETURNED: u8 = 3;
const CHANGE: u8 = 4;
const STORED: u8 = 5;
const GONE_FROM_RUN: u8 = 6;
pub(crate) const DAMAGED: u8 = 7;
const NOTED: u8 = 8;
const MARKED: u8 = 9;
const GROUP: u8 = 10;
const DEFINITION: u8 = 11;
const FOUNDED: u8 = 12;

/// Bytes of the body of a `stored` record before the sequence numbers.
const STORED_BYTES: usize = 4 + 8 + 2 + 4 + 4 + 8 + 4 * 8 + 8 + 4 + 4;

/// Owner of the catalog's records.
pub(crate) const CATALOG: u64 = 0;

/// Owner of the notes that the node writes for its next start.
pub(crate) const NODE: u64 = u64::MAX;

/// Appends one fact of a queue that all members of a group share.
pub fn push_fact(records: &mut Records, queue: QueueId, fact: &Fact) {
    match fact {
        Fact::Put { seq, message, at_ms } => {
            push_put(records, queue, Put { seq: *seq, message, at_ms: *at_ms, deferrable: None });
        }
        Fact::Gone(Span { first, last }) => records.push(queue.0, *first, GONE, &[&last.to_be_bytes()]),
        Fact::Returned { seq, marks } => push_marked(records, queue, *seq, marks),
        // Only entries of a group say so (kind 10). Of other queues, the catalog alone says that they are deleted.
        Fact::Ended { .. } => {}
    }
}

/// Appends the marks of a message.
fn push_marked(records: &mut Records, queue: QueueId, seq: u64, marks: &Marks) {
    let (head, annotations) = marks::encode(marks);
    records.push(queue.0, seq, MARKED, &[&head, annotations]);
}

/// Appends one fact about the disk of this member. `extent` is needed for a [`LocalFact::Stored`] only: its record says in
/// which pack and where the run is, so that it is found after a restart.
pub fn push_local_fact(records: &mut Records, queue: QueueId, fact: &LocalFact, extent: Option<Extent>) {
    match fact {
        LocalFact::Marked { seq, marks } => push_marked(records, queue, *seq, marks),
        LocalFact::Stored(stored) => {
            let Some(extent) = extent else { return };
            let mut body = Vec::with_capacity(STORED_BYTES);
            put_stored(&mut body, stored, extent);
            records.push(queue.0, stored.first, STORED, &[&body]);
        }
        LocalFact::GoneFromRun(GoneFromRun { run, first, last, durable, bytes }) => {
            let positions = [first.to_be_bytes(), last.to_be_bytes(), durable.to_be_bytes()];
            records.push(
                queue.0,
                u64::from(*run),
                GONE_FROM_RUN,
                &[positions.as_flattened(), &bytes.to_be_bytes()],
            );
        }
        LocalFact::Damaged => records.push(queue.0, 0, DAMAGED, &[]),
    }
}

/// Appends a record of a queue's Raft group, written by this member.
pub fn push_group(records: &mut Records, queue: QueueId, member: Member, record: &replica::Record) {
    let seq = match record {
        replica::Record::Vote(vote) => vote.term,
        replica::Record::Base(base) => base.at.index,
        replica::Record::Entry { entry, .. } => entry.at.index,
    };
    let mut head = member.number.to_be_bytes().to_vec();
    let tail = record.encode_head(&mut head);
    records.push_shared(queue.0, seq, GROUP, |out| out.extend_from_slice(&head), &tail);
}

/// Appends a message of a queue.
pub fn push_put(records: &mut Records, queue: QueueId, put: Put<'_>) {
    let Put { seq, message, at_ms, .. } = put;
    let head = |out: &mut Vec<u8>| put_head(out, message, at_ms);
    records.push_shared(queue.0, seq, PUT, head, message.stored_tail());
}

/// Appends one message to a run that will be written to a pack.
pub fn push_to_run(run: &mut wal::Run, scratch: &mut Vec<u8>, fact: &Fact) {
    let Fact::Put { seq, message, at_ms } = fact else { return };
    scratch.clear();
    put_head(scratch, message, *at_ms);
    run.push(*seq, PUT, scratch, message.stored_tail().clone());
}

/// Appends the bytes that precede a message in its record.
fn put_head(out: &mut Vec<u8>, message: &Message, at_ms: u64) {
    out.extend_from_slice(&at_ms.to_be_bytes());
    message.put_stored_head(out);
}

/// Decodes the messages of a block of a run. Returns `None` if the block holds any other record.
pub fn decode_block(block: wal::Block) -> Option<Block> {
    let mut route = LastRoute::default();
    let messages = block.records.into_iter().map(|record| {
        let mut body = record.body;
        if record.kind != PUT || body.len() <= 8 {
            return None;
        }
        let at_ms = body.get_u64();
        Some(Loaded { seq: record.seq, at_ms, message: Message::from_stored(body, &mut route).ok()? })
    });
    Some(Block { messages: messages.collect::<Option<_>>()?, next: block.next })
}

fn put_stored(out: &mut Vec<u8>, stored: &Stored, extent: Extent) {
    let Stored { run, first: _, last, priorities, messages, durable, bytes, ages, seqs } = stored;
    out.put_u32(*run);
    out.put_u64(*last);
    out.put_u8(priorities.0);
    out.put_u8(priorities.1);
    out.put_u32(*messages);
    out.put_u32(*durable);
    out.put_u64(*bytes);
    out.put_u64(ages.first_arrival_ms);
    out.put_u64(ages.last_arrival_ms);
    out.put_u64(ages.first_end_ms.unwrap_or(0));
    out.put_u64(ages.last_end_ms.unwrap_or(0));
    out.put_u64(extent.pack);
    out.put_u32(extent.offset);
    out.put_u32(extent.bytes);
    out.extend_from_slice(seqs.as_bytes());
}

fn get_stored(first: u64, mut body: Bytes) -> Option<(Stored, Extent)> {
    if body.len() < STORED_BYTES {
        return None;
    }
    let run = body.get_u32();
    let last = body.get_u64();
    let priorities = (body.get_u8(), body.get_u8());
    let (messages, durable, bytes) = (body.get_u32(), body.get_u32(), body.get_u64());
    let (first_arrival_ms, last_arrival_ms) = (body.get_u64(), body.get_u64());
    let mut end = || Some(body.get_u64()).filter(|end| *end > 0);
    let (first_end_ms, last_end_ms) = (end(), end());
    let ages = Ages { first_arrival_ms, last_arrival_ms, first_end_ms, last_end_ms };
    let extent = Extent { pack: body.get_u64(), offset: body.get_u32(), bytes: body.get_u32() };
    let seqs = if body.is_empty() { Seqs::default() } else { Seqs::decode(&body, messages)? };
    let adds_up = is_seq(first)
        && first <= last
        && is_seq(last)
        && run < u32::MAX
        && priorities.0 <= priorities.1
        && messages > 0
        // A message is shorter than 4 GiB.
        && bytes <= u64::from(messages) << 32;
    adds_up.then_some((Stored { run, first, last, priorities, messages, durable, bytes, ages, seqs }, extent))
}

/// Returns true if a message can have this number. `u64::MAX` is never assigned, so that every message has a
/// next number.
fn is_seq(seq: u64) -> bool {
    (1..u64::MAX).contains(&seq)
}

/// Appends one change of the catalog in the form that was written before version 9 of the log. Only tests and benches write it.
pub fn push_change(records: &mut Records, version: u64, change: &Change) {
    push_stored(records, version, CHANGE, change);
}

/// Appends a definition of the catalog. Its base says how many there are.
pub fn push_definition(records: &mut Records, number: u64, change: &Change) {
    push_stored(records, number, DEFINITION, change);
}

fn push_stored(records: &mut Records, seq: u64, kind: u8, change: &Change) {
    let mut body = BytesMut::new();
    encode_change(change, &mut body);
    records.push(CATALOG, seq, kind, &[&body]);
}

/// Appends a note that the damage at this place of the log was handled, so that the next start does not report it again.
pub fn push_noted(records: &mut Records, file: &str, offset: u64) {
    records.push(NODE, offset, NOTED, &[file.as_bytes()]);
}

/// Appends a note that this node has founded its members of all groups that were declared up to this index of the catalog's log, or before.
/// Their bases are before the note.
pub fn push_founded(records: &mut Records, index: u64) {
    records.push(NODE, index, FOUNDED, &[]);
}

/// What was recovered from the log.
#[derive(Debug, Default)]
pub struct Restored {
    pub catalog: Catalog,
    pub queues: HashMap<QueueId, RestoredQueue>,
    /// Descriptions of the first 16 records that could not be read.
    pub unreadable: Vec<String>,
    /// The owners of all records that could not be read.
    pub(crate) unreadable_owners: BTreeSet<u64>,
    /// Files and offsets of damage that an earlier start has handled.
    pub(crate) noted: HashSet<(String, u64)>,
    /// The queues that the log says were deleted.
    pub(crate) forgotten: HashSet<QueueId>,
    /// Data of queues that the catalog does not know, although nothing proves that they were deleted.
    pub unclaimed: BTreeMap<QueueId, Unclaimed>,
    /// True if the log must not delete any file, because copies of unclaimed records could not be written.
    pub keeps_log: bool,
    /// The group of the catalog.
    pub(crate) definitions: Definitions,
}

/// The data of a queue that the catalog does not know.
#[derive(Debug, Default)]
pub struct Unclaimed {
    /// What its records say.
    pub queue: RestoredQueue,
    /// The number of its records in the log, or in the copy that was made of them.
    pub records: u64,
    /// The bytes of these records, of its backlog in packs, and of its segments if it is a stream.
    pub bytes: u64,
}

/// A range of one queue's messages. Their records are in this file of the log or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqsInFile {
    pub file: u64,
    pub first: u64,
    pub last: u64,
}

/// The durable messages of one queue.
#[derive(Default)]
pub struct RestoredQueue {
    facts: Restoring,
    route: LastRoute,
    /// Where messages were put, oldest first. Any of these files may hold live messages.
    places: Vec<SeqsInFile>,
    /// The place of each run, and the log file that records it.
    extents: BTreeMap<u32, (Extent, u64)>,
    /// The Raft group of a quorum queue.
    group: Option<Box<RestoredGroup>>,
}

/// The state of a member of a Raft group, according to its records.
#[derive(Debug, Default)]
pub(crate) struct RestoredGroup {
    restoring: replica::Restoring,
    /// The number of the member. Records of an earlier number are void.
    number: u32,
    /// The log file of the newest base.
    pub base_file: u64,
    /// The index of the newest base, and the size of the entries after it in bytes.
    base_index: u64,
    log_bytes: u64,
    /// The log files of entries that are not known to be committed, by index.
    files: VecDeque<(u64, u64)>,
}

impl RestoredGroup {
    /// Reads the body of a record. Returns `None` if it is unreadable, and nothing if it is void.
    pub(crate) fn read(&mut self, mut body: Bytes) -> Option<Option<replica::Record>> {
        let number = body.try_get_u32().ok()?;
        let record = replica::Record::decode(body).ok()?;
        if number > self.number {
            *self = Self { number, ..Self::default() };
        }
        Some((number == self.number).then_some(record))
    }

    /// Handles a record, which is in this log file.
    pub(crate) fn handle(&mut self, record: replica::Record, file: u64) -> Result<(), Damaged> {
        match &record {
            replica::Record::Base(base) => {
                self.base_file = file;
                (self.base_index, self.log_bytes) = (base.at.index, 0);
            }
            replica::Record::Entry { entry, .. } => {
                self.log_bytes += entry.payload.bytes();
                // If an entry was written more than once, its first file counts. A file that is too early does no harm.
                if self.files.back().is_none_or(|(last, _)| *last < entry.at.index) {
                    self.files.push_back((entry.at.index, file));
                }
            }
            replica::Record::Vote(_) => {}
        }
        self.restoring.on_record(record)
    }

    /// Takes out the entries that are known to be committed, each with the log file that has it.
    pub(crate) fn take_committed(&mut self, file: u64) -> Vec<(Entry, u64)> {
        let committed = self.restoring.take_committed();
        self.with_files(committed, file)
    }

    /// Takes out the entries that a start commits, although no record says that they are committed.
    pub(crate) fn take_certain(&mut self, node: u32) -> Vec<(Entry, u64)> {
        let me = Member { node, number: self.number };
        let certain = self.restoring.take_certain(me);
        self.with_files(certain, self.base_file)
    }

    /// Adds to each entry the log file that has it. `file` is that of entries whose own file is not known.
    fn with_files(&mut self, entries: Vec<Entry>, mut file: u64) -> Vec<(Entry, u64)> {
        let files = &mut self.files;
        let entries = entries.into_iter().map(|entry| {
            while let Some((_, known)) = files.pop_front_if(|(index, _)| *index <= entry.at.index) {
                file = known;
            }
            (entry, file)
        });
        entries.collect()
    }

    /// Returns true if there is no base and no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.restoring.members().voters().is_empty() && self.restoring.entries().next().is_none()
    }

    /// Returns the entries that are not known to be committed, in ascending order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.restoring.entries()
    }

    /// See [`replica::Restoring::prove_committed`].
    pub(crate) fn prove_committed(&mut self, index: u64) {
        self.restoring.prove_committed(index);
    }

    /// Takes out all entries, although it is not known which base they follow.
    pub(crate) fn take_rest(&mut self) -> Vec<(Entry, u64)> {
        let rest = self.restoring.take_rest();
        self.with_files(rest, self.base_file)
    }

    /// Returns what is missing.
    pub(crate) fn check(&self) -> Result<(), Damaged> {
        self.restoring.check()
    }

    /// Returns true if `node` has the only member, or no base says who the members are. [`Self::take_certain`] was called: entries that are left may
    /// add members. A learner counts: what this node decides alone would reach it without its consequences.
    pub(crate) fn is_alone(&self, node: u32) -> bool {
        let members = self.restoring.members();
        let is_only = members.all().eq([Member { node, number: self.number }]);
        members.voters().is_empty() || is_only && self.restoring.entries().next().is_none()
    }

    /// The number of the member. 0 if there are no records.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the member on `node`. It hands out the entries that are not known to be committed as soon as they are.
    pub(crate) fn finish(self, node: u32) -> Result<FinishedGroup, Damaged> {
        let Self { restoring, number, base_file, base_index, log_bytes, files } = self;
        let group = restoring.finish(Member { node, number }, Options::default())?;
        // Entries that are not known to be committed may be in an earlier file than the base.
        let base_file = files.front().map_or(base_file, |(_, file)| base_file.min(*file));
        Ok(FinishedGroup { group, base_file, base_index, log_bytes, files })
    }
}

/// See [`RestoredGroup::finish`].
pub(crate) struct FinishedGroup {
    pub group: Group,
    /// The log file of the newest base, or that of the first entry in `files` if it is earlier.
    pub base_file: u64,
    /// The index of the newest base, and the size of the entries after it in bytes.
    pub base_index: u64,
    pub log_bytes: u64,
    /// The log files of the entries that are not known to be committed, by index.
    pub files: VecDeque<(u64, u64)>,
}

impl FinishedGroup {
    /// Returns a new group, whose base is not in the log yet.
    pub(crate) fn founded(group: Group) -> Self {
        // No log file has the number 0. So the first evacuation writes the base again.
        let (base_file, base_index) = (0, group.applied());
        Self { group, base_file, base_index, log_bytes: 0, files: VecDeque::new() }
    }
}

impl std::fmt::Debug for FinishedGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FinishedGroup({:?})", self.group.standing())
    }
}

impl std::fmt::Debug for RestoredQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RestoredQueue({} messages)", self.len())
    }
}

/// The most unreadable records that are described in the log lines.
const UNREADABLE_MAX: usize = 16;

impl Restored {
    /// Handles the next record of the log.
    pub fn handle_record(&mut self, record: Record) {
        let Record { owner, seq, kind, body, file, .. } = record;
        if self.try_record(owner, seq, kind, body, file).is_none() {
            self.unreadable_owners.insert(owner);
            if self.unreadable.len() < UNREADABLE_MAX {
                self.unreadable.push(format!("record of kind {kind}, owner {owner:#x}, seq {seq}"));
            }
        }
    }

    fn try_record(&mut self, owner: u64, seq: u64, kind: u8, mut body: Bytes, file: u64) -> Option<()> {
        if owner == CATALOG {
            return match kind {
                CHANGE => self.handle_change(&body),
                DEFINITION => self.handle_definition(seq, &body),
                GROUP => self.handle_catalog_group(body, file),
                _ => None,
            };
        }
        if owner == NODE {
            if kind == FOUNDED && body.is_empty() {
                self.definitions.note_founded(seq);
                return Some(());
            }
            let file = (kind == NOTED).then(|| String::from_utf8(body.into()).ok()).flatten()?;
            self.noted.insert((file, seq));
            return Some(());
        }
        // Each shard hands over its records independently. So records of a queue may precede its declaration
        // or follow its deletion.
        let queue = self.queues.entry(QueueId(owner)).or_default();
        let fact: Logged = match kind {
            GROUP => return queue.handle_group(body, file),
            PUT if body.len() > 8 && is_seq(seq) => {
                let at_ms = body.get_u64();
                let message = Message::from_stored(body, &mut queue.route).ok()?;
                note_place(&mut queue.places, file, seq);
                Fact::Put { seq, message, at_ms }.into()
            }
            GONE if body.len() == 8 => {
                let last = body.get_u64();
                (seq <= last && is_seq(last)).then_some(Fact::Gone(Span { first: seq, last }))?.into()
            }
            RETURNED if body.len() == 5 => {
                let (delivery_count, redelivered) = (body.get_u32(), body.get_u8() != 0);
                Fact::Returned { seq, marks: Marks { delivery_count, redelivered, ..Marks::default() } }
                    .into()
            }
            MARKED => Fact::Returned { seq, marks: marks::decode(body)? }.into(),
            STORED => {
                let (stored, extent) = get_stored(seq, body)?;
                queue.extents.insert(stored.run, (extent, file));
                LocalFact::Stored(stored).into()
            }
            GONE_FROM_RUN if body.len() == 4 + 4 + 4 + 8 => {
                let run = u32::try_from(seq).ok()?;
                let (first, last) = (body.get_u32(), body.get_u32());
                let (durable, bytes) = (body.get_u32(), body.get_u64());
                let adds_up = first <= last && last < u32::MAX;
                adds_up
                    .then_some(LocalFact::GoneFromRun(GoneFromRun { run, first, last, durable, bytes }))?
                    .into()
            }
            DAMAGED => LocalFact::Damaged.into(),
            _ => return None,
        };
        match fact {
            Logged::Shared(fact) => queue.facts.handle(fact),
            Logged::Local(fact) => queue.facts.handle_local(fact),
        }
        Some(())
    }
}

impl Restored {
    /// Returns true if a queue is closed because of damage, be it known or unclaimed.
    pub fn has_damaged(&self) -> bool {
        let unclaimed = self.unclaimed.values().map(|unclaimed| &unclaimed.queue);
        self.queues.values().chain(unclaimed).any(RestoredQueue::is_damaged)
    }

    /// How much unclaimed data there is.
    pub(crate) fn unclaimed_sums(&self) -> UnclaimedSums {
        let bytes = self.unclaimed.values().map(|unclaimed| unclaimed.bytes).sum();
        UnclaimedSums { owners: self.unclaimed.len() as u64, bytes }
    }

    /// Returns the places of the runs of all queues, known or unclaimed.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        let unclaimed = self.unclaimed.values().map(|unclaimed| &unclaimed.queue);
        self.queues.values().chain(unclaimed).flat_map(RestoredQueue::extents)
    }
}

impl RestoredQueue {
    /// Returns true if the queue has never held a durable message.
    pub fn is_unused(&self) -> bool {
        self.facts.is_unused() && self.group.is_none()
    }

    /// Returns true if the queue has a Raft group.
    pub(crate) fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// See [`LocalFact::Damaged`].
    pub fn is_damaged(&self) -> bool {
        self.facts.is_damaged()
    }

    /// Closes the queue because of damage.
    pub(crate) fn damage(&mut self) {
        self.facts.handle_local(LocalFact::Damaged);
    }

    /// The number of messages in the queue.
    pub fn len(&self) -> u64 {
        self.facts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns the places of all runs.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> {
        self.extents.values().map(|(extent, _)| *extent)
    }

    /// The bytes of the runs in packs.
    pub(crate) fn paged_bytes(&self) -> u64 {
        self.extents().map(|extent| u64::from(extent.bytes)).sum()
    }

    /// Returns the places of the runs that have live messages.
    pub(crate) fn live_extents(&self) -> impl Iterator<Item = Extent> {
        self.facts.live_runs().filter_map(|run| self.extents.get(&run)).map(|(extent, _)| *extent)
    }

    /// Returns the facts that were recovered.
    pub fn into_facts(self) -> Restoring {
        self.facts
    }

    pub(crate) fn into_parts(self) -> RestoredParts {
        let Self { facts, places, extents, group, .. } = self;
        RestoredParts { facts, places, extents, group }
    }

    /// Handles a record of the queue's Raft group, which is in this log file. Facts that are known to be committed are
    /// handled at once.
    fn handle_group(&mut self, body: Bytes, file: u64) -> Option<()> {
        let group = self.group.get_or_insert_default();
        let Some(record) = group.read(body)? else { return Some(()) };
        if let replica::Record::Base(base) = &record {
            let Content { next_seq, ended } = entries::decode_content(base.content.clone())?;
            self.facts.note_next_seq(next_seq);
            ended.into_iter().for_each(|reason| self.facts.handle(Fact::Ended { reason }));
        }
        group.handle(record, file).ok()?;
        let committed = group.take_committed(file);
        self.handle_committed(committed)
    }

    /// Handles the facts of the queue's Raft group that a start commits, although the records do not say that they are committed. A
    /// start itself does this when it places the group.
    ///
    /// Returns `None` if an entry is unreadable.
    pub(crate) fn handle_certain(&mut self, node: u32) -> Option<()> {
        let Some(group) = &mut self.group else { return Some(()) };
        let certain = group.take_certain(node);
        self.handle_committed(certain)
    }

    /// Handles the facts of committed entries, each with its log file.
    fn handle_committed(&mut self, committed: Vec<(Entry, u64)>) -> Option<()> {
        for (Entry { payload, .. }, file) in committed {
            let Payload::Facts(facts) = payload else { continue };
            for fact in entries::decode(facts, &mut self.route)? {
                if let Fact::Put { seq, .. } = fact {
                    note_place(&mut self.places, file, seq);
                }
                self.facts.handle(fact);
            }
        }
        Some(())
    }
}

/// What is known of one queue after recovery.
pub(crate) struct RestoredParts {
    pub facts: Restoring,
    pub places: Vec<SeqsInFile>,
    pub extents: BTreeMap<u32, (Extent, u64)>,
    pub group: Option<Box<RestoredGroup>>,
}

fn note_place(places: &mut Vec<SeqsInFile>, file: u64, seq: u64) {
    match places.last_mut() {
        Some(place) if place.file == file => {
            (place.first, place.last) = (place.first.min(seq), place.last.max(seq));
        }
        _ => places.push(SeqsInFile { file, first: seq, last: seq }),
    }
}
