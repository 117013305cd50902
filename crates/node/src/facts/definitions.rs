//! The catalog in the log: the entries of its Raft group, and the bases that replace them.
//!
//! ```text
//!   entry            kind 10, owner 0     what a command has changed, see [`catalog::encode_entry`]
//!   definition       kind 11, owner 0     1, 2, ... n: changes that make the whole catalog
//!   base             kind 10, owner 0     "n definitions": from here on they count, and everything before them does not
//!
//!   content of a base    format u8 (1) | n u64 | founded u64     big-endian; see [`Restored::founded`]
//!                        format u8 (2) | length u32 | change, ...       of a base that another node has sent: the whole catalog
//! ```
//!
//! A base is written over many turns, while entries are applied. The changes of such an entry are added to the definitions, too. So the
//! definitions always make the catalog of the moment, and the base has the index of the last entry that was applied. Definitions whose
//! base was never written mean nothing.
//!
//! Before version 9 of the log, the changes of the catalog were records of kind 4. The first start of a newer program writes a base, and
//! then they mean nothing any more.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use catalog::access::{Access, Users};
use catalog::ids::{FIRST_NODE, NodeNumber, Origin, QueueId};
use catalog::{
    Answer, Asker, Catalog, Change, DefinitionsCursor, decode_change, decode_entry, encode_change,
    encode_entry,
};
use replica::{
    Base, Damaged, Group, Member, Members, Options, Payload, Position, Record, Restoring, Role, Round, Vote,
};
use wal::Records;

use super::{CATALOG, FinishedGroup, Restored, RestoredGroup, push_definition, push_group};
use crate::users_copy;

const CONTENT_FORMAT: u8 = 1;

/// The format of a content that has the catalog itself.
const WHOLE_FORMAT: u8 = 2;

/// Returns the content of a base after so many definitions. For `founded` see [`Restored::founded`].
pub fn content(definitions: u64, founded: u64) -> Bytes {
    let mut content = BytesMut::with_capacity(1 + 8 + 8);
    content.put_u8(CONTENT_FORMAT);
    content.put_u64(definitions);
    content.put_u64(founded);
    content.freeze()
}

/// Returns the content of a base for another node: the whole catalog.
pub fn whole_content(catalog: &Catalog) -> Bytes {
    let mut content = BytesMut::new();
    content.put_u8(WHOLE_FORMAT);
    let (mut cursor, mut change) = (DefinitionsCursor::default(), BytesMut::new());
    while !cursor.is_at_end() {
        catalog.walk_definitions(&mut cursor, usize::MAX, |definition| {
            change.clear();
            encode_change(&definition, &mut change);
            content.put_u32(change.len() as u32);
            content.extend_from_slice(&change);
        });
    }
    content.freeze()
}

/// Returns the catalog of a base that another node has sent. `None` if the bytes are not one.
pub(crate) fn decode_whole(mut content: Bytes) -> Option<Catalog> {
    (content.try_get_u8().ok()? == WHOLE_FORMAT).then_some(())?;
    let mut catalog = Catalog::default();
    while content.has_remaining() {
        let length = content.try_get_u32().ok()? as usize;
        (length <= content.len()).then_some(())?;
        catalog.apply(&decode_change(&content.split_to(length))?);
    }
    Some(catalog)
}

/// What a base of the catalog has.
enum BaseContent {
    /// The number of definitions before it, and up to which index groups are founded.
    Definitions(u64, u64),
    Whole(Box<Catalog>),
}

fn decode_content(mut content: Bytes) -> Option<BaseContent> {
    if content.first() == Some(&WHOLE_FORMAT) {
        return decode_whole(content).map(|catalog| BaseContent::Whole(Box::new(catalog)));
    }
    (content.try_get_u8().ok()? == CONTENT_FORMAT).then_some(())?;
    let (definitions, founded) = (content.try_get_u64().ok()?, content.try_get_u64().ok()?);
    content.is_empty().then_some(BaseContent::Definitions(definitions, founded))
}

/// The catalog's group, as the log says. The catalog itself is [`Restored::catalog`].
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    group: RestoredGroup,
    has_base: bool,
    /// The index of the last entry that was applied, or of the base.
    applied: u64,
    /// Definitions whose base was not read.
    open: Option<Open>,
    /// True if a record of the catalog is missing.
    is_broken: bool,
    /// The log file of the last record of the group.
    last_file: u64,
    /// See [`Restored::founded`].
    founded: u64,
    /// True if all records were read.
    is_finished: bool,
    origin: Origin,
    /// Changes that were made since then. They are applied, but in no record yet.
    changes: Vec<Change>,
    /// True if the first users are among the changes of this start.
    has_made_users: bool,
    /// Records of this start that could not be written.
    unwritten: Records,
    /// This node's member, which leads. Until the changes are written there is none.
    member: Option<FinishedGroup>,
    /// The number of the node in its cluster. `None` if it is in none.
    in_cluster: Option<NodeNumber>,
}

#[derive(Debug)]
struct Open {
    /// The number of the last definition.
    last: u64,
    /// True if no definition before it is missing.
    is_whole: bool,
    catalog: Catalog,
}

/// The catalog's group has members on other nodes. This program runs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAlone;

impl std::fmt::Display for NotAlone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the definitions are those of a cluster with other nodes")
    }
}

impl std::error::Error for NotAlone {}

impl Definitions {
    fn node(&self) -> NodeNumber {
        self.in_cluster.unwrap_or(FIRST_NODE)
    }

    /// Notes up to which index groups are founded.
    pub(super) fn note_founded(&mut self, index: u64) {
        self.founded = self.founded.max(index);
    }
}

/// How records of the catalog are read.
impl Restored {
    /// Handles a change in the form that was written before version 9 of the log.
    pub(crate) fn handle_change(&mut self, body: &[u8]) -> Option<()> {
        let change = decode_change(body)?;
        if !self.definitions.has_base {
            self.note_forgotten(&change);
            self.catalog.restore(&change);
        }
        Some(())
    }

    /// Handles the definition with this number.
    pub(crate) fn handle_definition(&mut self, number: u64, body: &[u8]) -> Option<()> {
        let change = decode_change(body)?;
        let open = &mut self.definitions.open;
        if number == 1 || open.is_none() {
            *open = Some(Open { last: 0, is_whole: true, catalog: Catalog::default() });
        }
        let open = open.as_mut()?;
        open.is_whole &= open.last + 1 == number;
        open.last = number;
        open.catalog.apply(&change);
        Some(())
    }

    /// Handles a record of the catalog's group, which is in this log file. Entries that are known to be committed are applied at once.
    pub(crate) fn handle_catalog_group(&mut self, body: Bytes, file: u64) -> Option<()> {
        let before = self.definitions.group.number();
        let Some(record) = self.definitions.group.read(body)? else { return Some(()) };
        if before != self.definitions.group.number() {
            // Another group, which begins with its own base.
            (self.definitions.has_base, self.definitions.applied) = (false, 0);
        }
        self.definitions.last_file = file;
        match record {
            Record::Base(base) => self.handle_base(base, file),
            Record::Entry { ref entry, .. } => {
                let entry = entry.clone();
                if self.handle_member(record, file).is_ok() {
                    return self.apply_committed(file);
                }
                // An entry after a gap has no place in the group. What it says is known nevertheless.
                self.apply_entry(&entry)
            }
            Record::Vote(_) => {
                _ = self.handle_member(record, file);
                Some(())
            }
        }
    }

    fn handle_member(&mut self, record: Record, file: u64) -> Result<(), Damaged> {
        let handled = self.definitions.group.handle(record, file);
        self.definitions.is_broken |= handled.is_err();
        handled
    }

    fn handle_base(&mut self, base: Base, file: u64) -> Option<()> {
        let index = base.at.index;
        let (definitions, founded) = match decode_content(base.content.clone())? {
            BaseContent::Definitions(definitions, founded) => (definitions, founded),
            BaseContent::Whole(catalog) => {
                _ = self.handle_member(Record::Base(base), file);
                // What came before is void, but what it says of queues that were deleted is not.
                let gone = self.catalog.queues().map(|queue| queue.id);
                let gone = gone.filter(|queue| catalog.queue_by_id(*queue).is_none());
                self.forgotten.extend(gone);
                let definitions = &mut self.definitions;
                (definitions.has_base, definitions.applied, definitions.is_broken) = (true, index, false);
                definitions.open = None;
                self.catalog = *catalog;
                return Some(());
            }
        };
        self.definitions.note_founded(founded);
        _ = self.handle_member(Record::Base(base), file);
        // These entries are before the base.
        self.apply_committed(file)?;
        let Definitions { has_base, applied, open, is_broken, .. } = &mut self.definitions;
        let has_all = *has_base && *applied >= index;
        let is_whole = |open: &Open| open.is_whole && open.last == definitions;
        match open.take() {
            // Entries after this base are applied already.
            _ if *has_base && *applied > index && !*is_broken => return Some(()),
            Some(open) if is_whole(&open) => (self.catalog, *is_broken) = (open.catalog, false),
            // All that was before the base has been read, so nothing is missing.
            _ if has_all => {}
            open => {
                *is_broken = true;
                if let Some(open) = open {
                    self.catalog = open.catalog;
                }
            }
        }
        (*has_base, *applied) = (true, index);
        Some(())
    }

    fn apply_committed(&mut self, file: u64) -> Option<()> {
        let committed = self.definitions.group.take_committed(file);
        committed.iter().try_for_each(|(entry, _)| self.apply_entry(entry))
    }

    fn apply_entry(&mut self, entry: &replica::Entry) -> Option<()> {
        self.definitions.applied = entry.at.index;
        let Payload::Facts(facts) = &entry.payload else { return Some(()) };
        let entry = decode_entry(entry.at.index, facts)?;
        for change in entry.changes.iter() {
            self.note_forgotten(change);
            self.catalog.apply(change);
        }
        self.catalog.note_proposal(&entry.asker);
        Some(())
    }

    /// Called in a cluster, before [`Self::finish_definitions`]. Nothing of a queue is stored before its declaration is committed. So the entries
    /// up to the declaration of each queue that has records are committed, although no record of the group says so. `has_data` says
    /// whether a queue has anything besides records.
    pub(crate) fn prove_declarations(&mut self, has_data: impl Fn(QueueId) -> bool) {
        let queues = &self.queues;
        let proven = self.definitions.group.entries().filter(|entry| {
            let Payload::Facts(facts) = &entry.payload else { return false };
            let Some(entry) = decode_entry(entry.at.index, facts) else { return false };
            entry.changes.iter().any(|change| match change {
                Change::QueueDeclared(record) => queues.contains_key(&record.id) || has_data(record.id),
                _ => false,
            })
        });
        if let Some(index) = proven.map(|entry| entry.at.index).max() {
            self.definitions.group.prove_committed(index);
            let file = self.definitions.last_file;
            if self.apply_committed(file).is_none() {
                self.unreadable_owners.insert(CATALOG);
            }
        }
    }

    fn note_forgotten(&mut self, change: &Change) {
        if let Change::QueueForgotten { queue } = change {
            self.forgotten.insert(*queue);
        }
    }

    /// Called when the whole log has been read. Applies the entries that a start commits, although no record says so, and ends what earlier
    /// starts of this node have left (`origin` is the coming one). With damage in the log, what can be read without a base counts, too.
    pub(crate) fn finish_definitions(&mut self, origin: Origin, is_damaged: bool) {
        let definitions = &mut self.definitions;
        definitions.is_finished = true;
        definitions.origin = origin;
        let number = definitions.node();
        if definitions.in_cluster.is_some()
            && !is_damaged
            && !definitions.has_base
            && definitions.group.is_empty()
        {
            // A member that has heard of its group, and has no base yet, has promised nothing: it was no voter.
            definitions.group = RestoredGroup::default();
        }
        let mut rest = definitions.group.take_certain(number);
        // Without a base, a group has no records: both are written at once.
        definitions.is_broken |=
            definitions.group.check().is_err() || !definitions.has_base && definitions.group.number() > 0;
        if !definitions.has_base && is_damaged {
            rest = definitions.group.take_rest();
            definitions.is_broken |= definitions.open.is_some();
            if let Some(open) =
                definitions.open.take_if(|open| open.catalog.version() > self.catalog.version())
            {
                self.catalog = open.catalog;
            }
        }
        definitions.open = None;
        if rest.iter().any(|(entry, _)| self.apply_entry(entry).is_none()) {
            self.unreadable_owners.insert(CATALOG);
        }
        if self.is_alone() {
            self.change(Change::NodeStarted { node: number, origin });
        }
    }
}

/// What changes before the node runs.
impl Restored {
    /// Returns true if a record of the catalog is missing.
    pub(crate) fn lacks_definitions(&self) -> bool {
        self.definitions.is_broken
    }

    /// Returns true if a record of the catalog may be missing that was in this log file. The entries of a group are numbered, so one is missing
    /// only if there is a gap, or after the last one that was read.
    pub(crate) fn may_lack_definitions_of(&self, file: u64) -> bool {
        let Definitions { has_base, is_broken, last_file, .. } = self.definitions;
        !has_base || is_broken || file >= last_file
    }

    /// Returns an error if the group has members on other nodes, and the node is in no cluster.
    pub(crate) fn check_alone(&self) -> Result<(), NotAlone> {
        (self.definitions.in_cluster.is_some() || self.is_alone()).then_some(()).ok_or(NotAlone)
    }

    /// Called before anything is read: the node has this number in a cluster, or will have it.
    pub fn enter_cluster(&mut self, number: NodeNumber) {
        self.definitions.in_cluster = Some(number);
    }

    /// Returns the number of the node in its cluster. A node in no cluster has the first number.
    pub(crate) fn node(&self) -> NodeNumber {
        self.definitions.node()
    }

    /// Returns true if this node alone decides changes of the catalog: no other node votes, and it is not about to join others.
    pub(crate) fn is_alone(&self) -> bool {
        let Definitions { group, in_cluster, .. } = &self.definitions;
        let joins = in_cluster.is_some_and(|number| number != FIRST_NODE) && group.number() == 0;
        group.is_alone(self.node()) && !joins
    }

    /// Called if the catalog is what could be read, although records may be missing. The next records begin a new group.
    pub(crate) fn accept_definitions(&mut self) {
        self.definitions.is_broken = true;
    }

    /// Applies a change. [`Self::write_changes`] writes it.
    pub fn change(&mut self, change: Change) {
        self.finish_if_open();
        self.note_forgotten(&change);
        self.catalog.apply(&change);
        self.definitions.changes.push(change);
    }

    /// Returns the index of the catalog's log up to which this node has founded its members of all groups. A group that was declared by an
    /// entry at or below it, and has no records, has lost them: it must not be founded again, because it would forget its votes and what it has
    /// acknowledged. A group above it was never founded. 0 if the log is one of an older program, which founded a group with its first use.
    pub(crate) fn founded(&self) -> u64 {
        self.definitions.founded
    }

    /// Makes a mistake that tests must find: groups without records are founded, whether they were before or not.
    pub(crate) fn forget_founded(&mut self) {
        self.definitions.founded = 0;
    }

    /// Returns the start of the node for which the log was recovered. The default without a recovery.
    pub(crate) fn origin(&self) -> Origin {
        self.definitions.origin
    }

    /// Without a recovery, nobody says that the whole log has been read.
    fn finish_if_open(&mut self) {
        if !self.definitions.is_finished {
            self.finish_definitions(Origin::default(), false);
        }
    }

    /// Replaces the users by those of their copy, because the log may have lost some.
    pub fn replace_users(&mut self, users: &Users) {
        for change in users_copy::replacing(&self.catalog, users) {
            self.change(change);
        }
    }

    /// Creates what a start creates: the first users if there has never been one, and the exchanges that settings ask for. For the rest see
    /// [`Self::write_changes`].
    ///
    /// # Errors
    /// See there.
    pub fn begin(&mut self, access: &Access) -> Result<Records, NotAlone> {
        self.finish_if_open();
        let changes = [self.catalog.begin_users(access), self.catalog.begin_exchanges()].concat();
        self.definitions.changes.extend(changes);
        self.definitions.has_made_users |= self.definitions.changes.iter().any(Change::is_of_users);
        self.write_changes()
    }

    /// Returns true if [`Self::begin`] has changed users. Nobody may log in before these changes are synced.
    pub(crate) fn has_made_users(&self) -> bool {
        self.definitions.has_made_users
    }

    /// Keeps records of this start that the log has refused. [`Self::take_unwritten`] returns them.
    pub(crate) fn write_later(&mut self, records: Records) {
        self.definitions.unwritten = records;
    }

    /// Removes and returns the records that must be written before all others.
    pub(crate) fn take_unwritten(&mut self) -> Records {
        std::mem::take(&mut self.definitions.unwritten)
    }

    /// Returns the records of all changes that were made. They must be written and synced before anyone can log in. Afterwards the catalog's
    /// member of its group leads. A log without such a group, or with a group that lacks records, gets a new one: its base, with the whole
    /// catalog.
    ///
    /// # Errors
    /// The group has other members.
    pub fn write_changes(&mut self) -> Result<Records, NotAlone> {
        let mut records = Records::new();
        self.add_changes(&mut records)?;
        Ok(records)
    }

    /// As [`Self::write_changes`], but adds the records to others. They are written in one batch with these.
    pub(crate) fn add_changes(&mut self, records: &mut Records) -> Result<(), NotAlone> {
        self.finish_if_open();
        if !self.is_alone() {
            return Err(NotAlone);
        }
        let node = self.node();
        let mut changes = std::mem::take(&mut self.definitions.changes);
        let restored = std::mem::take(&mut self.definitions.group);
        let number = restored.number();
        let is_whole = self.definitions.has_base && !self.definitions.is_broken;
        let known =
            self.definitions.member.take().map(Ok).or_else(|| is_whole.then(|| restored.finish(node)));
        let mut member = match known {
            Some(Ok(member)) => member,
            // The definitions are the catalog after the changes.
            None | Some(Err(_)) => {
                changes.clear();
                // The index goes on, because declarations have theirs.
                let declared = self.catalog.queues().map(|queue| queue.declared).max();
                let index =
                    declared.unwrap_or(0).max(self.definitions.applied).max(self.definitions.founded) + 1;
                let me = Member { node, number: number + 1 };
                found(&self.catalog, me, (index, self.definitions.founded), records)
            }
        };
        if member.group.members().voters() != [member.group.me()] {
            return Err(NotAlone);
        }
        lead(&mut member.group, records);
        if !changes.is_empty() {
            let asker = Asker { origin: self.definitions.origin, ..Asker::default() };
            let mut entry = BytesMut::new();
            encode_entry(&asker, &changes, &Answer::Done { changed: true }, &mut entry);
            let term = member.group.standing().term;
            // Only a member that others depose is refused.
            member.group.propose(term, entry.freeze()).map_err(|_| NotAlone)?;
            settle(&mut member.group, records);
        }
        (self.definitions.has_base, self.definitions.is_broken) = (true, false);
        self.definitions.member = Some(member);
        Ok(())
    }

    /// Removes and returns the catalog's member of its group, and the index of the last entry that the catalog has applied. It leads if the
    /// node is alone. There is none if the node has just joined a cluster. Called once, after [`Self::write_changes`].
    pub(crate) fn take_member(&mut self) -> (Option<FinishedGroup>, u64) {
        let node = self.node();
        let mut member = self.definitions.member.take();
        if member.is_none() && !self.is_alone() && self.definitions.has_base {
            // What is damaged was found by the recovery.
            member = std::mem::take(&mut self.definitions.group).finish(node).ok();
        }
        let applied = member.as_ref().map_or(0, |member| member.group.applied());
        (member, applied)
    }
}

/// Returns a new group with this as its only member. `index` is that of its base.
fn found(
    catalog: &Catalog,
    me: Member,
    (index, founded): (u64, u64),
    records: &mut Records,
) -> FinishedGroup {
    let (mut cursor, mut definitions) = (DefinitionsCursor::default(), 0);
    while !cursor.is_at_end() {
        catalog.walk_definitions(&mut cursor, usize::MAX, |change| {
            definitions += 1;
            push_definition(records, definitions, &change);
        });
    }
    let members = Members::from_parts(vec![me], Vec::new(), me.number + 1).expect("one voter");
    let founding = Base::founding(&[me.node], content(definitions, founded));
    let at = Position { index, ..founding.at };
    let base = Base { at, vote: Vote { applied: index, ..founding.vote }, members, ..founding };
    push_group(records, QueueId(CATALOG), me, &Record::Base(base.clone()));
    let mut restoring = Restoring::default();
    let group =
        restoring.on_record(Record::Base(base)).and_then(|()| restoring.finish(me, Options::default()));
    FinishedGroup::founded(group.expect("a founding base is all that a group needs"))
}

/// Makes the only member of a group lead.
fn lead(group: &mut Group, records: &mut Records) {
    settle(group, records);
    if group.standing().role != Role::Leader && group.campaign().is_ok() {
        settle(group, records);
    }
}

/// Carries out the rounds of the only member of a group. Nothing leaves this node meanwhile, and its owner has applied what it commits. So its
/// records count as synced before they are: all of them are synced before anybody learns of them.
fn settle(group: &mut Group, records: &mut Records) {
    while let Some(round) = group.poll_round() {
        // A group without other members sends nothing, and wants no base.
        let Round {
            number,
            standing: _,
            records: of_round,
            now: _,
            committed: _,
            after_sync: _,
            wants_base: _,
        } = round;
        for record in &of_round {
            push_group(records, QueueId(CATALOG), group.me(), record);
        }
        group.on_synced(number);
    }
}
