//! The log of a node has entries and bases. A restart reads them, and knows what the node knew.

use super::entries::encoded;
use super::queries::{answers, kept, left_by, same, sent};
use super::*;
use crate::{Asker, Catalog, DefinitionsCursor, Entry, Mutation, decode_entry};

/// A catalog with its log.
struct Node {
    live: Catalog,
    pending: Pending<()>,
    /// The index of the newest entry in the log, and of the newest one that is committed.
    last: u64,
    committed: u64,
    /// The bytes of each entry with its index.
    entries: Vec<(u64, Vec<u8>)>,
    /// What was decided for the entries that are not committed.
    decided: VecDeque<Entry>,
    /// The newest base that is whole.
    base: Option<Base>,
    /// The base that is being written.
    writing: Option<(DefinitionsCursor, Vec<Change>)>,
    /// All queues that were declared.
    declared: BTreeSet<QueueId>,
    /// The number of starts of each node, and of its proposals since the last one.
    starts: [(u32, u64); NODES.len()],
}

/// The state after the entry of this index, as it is stored.
struct Base {
    index: u64,
    definitions: Vec<Change>,
}

impl Node {
    fn new(mutation: Option<Mutation>) -> Result<Self, TestCaseError> {
        let live = Catalog::default().with_mutation(mutation);
        let mut node = Self {
            pending: Pending::new(&live),
            live,
            last: 0,
            committed: 0,
            entries: Vec::new(),
            decided: VecDeque::new(),
            base: None,
            writing: None,
            declared: BTreeSet::new(),
            starts: [(1, 0); NODES.len()],
        };
        node.offer(Command::Account(AccountChange::add_vhost("v")));
        node.commit(1)?;
        Ok(node)
    }

    /// Returns the asker of the next entry. The nodes take turns, and some entries have no number.
    fn asker(&mut self, command: &Command) -> Asker {
        let turn = self.last as usize;
        let at = match command {
            Command::StartNode { node, origin } => {
                let at = *node as usize - 1;
                if origin.boot > self.starts[at].0 {
                    self.starts[at] = (origin.boot, 0);
                }
                at
            }
            _ => turn % NODES.len(),
        };
        let (boot, number) = &mut self.starts[at];
        let origin = Origin { node: NODES[at], boot: *boot };
        if turn.is_multiple_of(5) {
            return Asker { origin, shard: turn as u8, ..Asker::default() };
        }
        *number += 1;
        // Not every number becomes an entry: some are refused.
        *number += u64::from(turn.is_multiple_of(7));
        Asker {
            origin,
            shard: turn as u8,
            number: *number,
            low: number.saturating_sub(turn as u64 % 4),
            ..Asker::default()
        }
    }

    fn offer(&mut self, command: Command) {
        let asker = self.asker(&command);
        match self.pending.offer(&self.live, command, (), At { index: self.last + 1, node: FIRST_NODE }) {
            Offered::Waits | Offered::Repeated | Offered::Ended { .. } => {}
            Offered::Decided { changes, answer } => {
                self.last += 1;
                self.entries.push((self.last, encoded(&asker, &changes, &answer)));
                self.decided.push_back(Entry { index: self.last, asker, changes, answer });
            }
        }
    }

    /// Commits so many entries. Afterwards, the entry of a new leader takes an index, and has no changes.
    fn commit(&mut self, count: usize) -> Result<(), TestCaseError> {
        for entry in self.decided.drain(..count.min(self.decided.len())).collect::<Vec<_>>() {
            let Committed { changes, answer, .. } = self.pending.handle_committed().expect("it was decided");
            self.committed = entry.index;
            let bytes = self.entries.iter().find(|(index, _)| *index == entry.index).map(|(_, bytes)| bytes);
            prop_assert_eq!(decode_entry(entry.index, bytes.unwrap()), Some(entry.clone()));
            prop_assert_eq!((&entry.changes, &entry.answer), (&changes, &answer));
            for change in changes.iter() {
                self.live.apply(change);
                if let Change::QueueDeclared(record) = change {
                    prop_assert_eq!(record.declared, entry.index);
                    prop_assert!(self.declared.insert(record.id), "{:?} is given twice", record.id);
                }
                if let Some((_, definitions)) = &mut self.writing {
                    definitions.push(sent(change));
                }
            }
            self.live.note_proposal(&entry.asker);
            if let Some((_, definitions)) = &mut self.writing
                && entry.asker.number > 0
            {
                definitions.push(sent(&self.live.proposals_of(entry.asker.origin)));
            }
        }
        for (command, ()) in self.pending.take_line() {
            self.offer(command);
        }
        if self.decided.is_empty() {
            self.last += 1;
            self.committed = self.last;
        }
        Ok(())
    }

    /// Writes the next part of a base, if one has begun.
    fn write_base(&mut self, rows: usize) {
        let Some((cursor, definitions)) = &mut self.writing else { return };
        self.live.walk_definitions(cursor, rows, |change| definitions.push(sent(&change)));
        if cursor.is_at_end()
            && let Some((_, definitions)) = self.writing.take()
        {
            self.base = Some(Base { index: self.committed, definitions });
        }
    }

    /// Returns what a restart reads: the newest base that is whole, and the committed entries after it.
    fn restored(&self) -> Catalog {
        let mut restored = Catalog::default();
        let mut after = 0;
        if let Some(Base { index, definitions }) = &self.base {
            definitions.iter().for_each(|change| restored.apply(change));
            after = *index;
        }
        for (index, bytes) in
            self.entries.iter().filter(|(index, _)| (after + 1..=self.committed).contains(index))
        {
            let entry = decode_entry(*index, bytes).expect("what was encoded");
            entry.changes.iter().for_each(|change| restored.apply(change));
            restored.note_proposal(&entry.asker);
        }
        restored
    }

    fn check_restored(&self) -> Result<(), TestCaseError> {
        let restored = self.restored();
        same(&answers(&self.live), &answers(&restored))?;
        self.check_ids(&restored)
    }

    /// Checks that what was restored gives no id again.
    fn check_ids(&self, restored: &Catalog) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.live.next_incarnation, restored.next_incarnation);
        let mut ids = restored.queue_ids();
        for _ in 0..3 {
            let id = ids.take().expect("a free id");
            prop_assert!(!self.declared.contains(&id), "{:?} is given again", id);
            prop_assert!(restored.queue_id_at(id.slot()).is_none(), "the place of {:?} has a queue", id);
        }
        Ok(())
    }
}

/// Decides and commits the commands of the steps. A base begins at some step, and again some steps after the one before is whole. After each
/// step of a sync, and at the end, a restart would find what the live catalog has. What a start of the node ends afterwards is what is not
/// durable.
pub(super) fn log_restores_live(
    (steps, at, rows): (Vec<Step>, usize, usize),
    mutation: Option<Mutation>,
) -> Result<(), TestCaseError> {
    let mut node = Node::new(mutation)?;
    let mut ended = BTreeSet::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Command(command) => node.offer(command),
            Step::Forget(vhost, name) => {
                let queue = node.live.listed_queue(vhost, name).map(|queue| queue.id);
                if let Some(queue) = queue.filter(|queue| ended.insert(*queue)) {
                    node.offer(Command::ForgetQueue { queue });
                }
            }
            Step::Sync(part) => {
                node.commit(usize::from(part) + 1)?;
                node.check_restored()?;
            }
        }
        if node.writing.is_none() && number % (at + 1) == at {
            node.writing = Some(Default::default());
        }
        node.write_base(rows);
    }
    while !node.decided.is_empty() {
        node.commit(usize::MAX)?;
    }
    while node.writing.is_some() {
        node.write_base(rows);
    }
    node.check_restored()?;

    let mut restored = node.restored();
    for (number, of) in (1..).zip(NODES) {
        let origin = Origin { node: of, boot: 9 };
        let expected = left_by(&node.live, number, origin);
        let start = Change::NodeStarted { node: number, origin };
        [&mut node.live, &mut restored].into_iter().for_each(|catalog| catalog.apply(&sent(&start)));
        same(&answers(&node.live), &answers(&expected))?;
        same(&answers(&restored), &answers(&expected))?;
    }
    same(&answers(&kept(&node.live)), &answers(&restored))?;
    node.check_ids(&restored)
}

/// A batch does what its commands do one after the other, if all of them are allowed.
pub(super) fn a_batch_is_its_commands(
    (before, batch): (Vec<Step>, Vec<Command>),
    mutation: Option<Mutation>,
) -> Result<(), TestCaseError> {
    let mut one_by_one = Catalog::default();
    for step in before {
        if let Step::Command(command) = step {
            _ = run_one(&mut one_by_one, command);
        }
    }
    let mut at_once = one_by_one.clone().with_mutation(mutation);
    let expected =
        batch.iter().enumerate().find_map(|(at, command)| match run_one(&mut one_by_one, command.clone()) {
            Ok(_) | Err(CatalogError::Inequivalent { .. }) => None,
            Err(error) => Some(CatalogError::InBatch { at, error: Box::new(error) }),
        });
    let got = run_one(&mut at_once, Command::Batch(batch)).err();
    prop_assert_eq!(&got, &expected);
    if got.is_none() {
        same(&answers(&at_once), &answers(&one_by_one))?;
    }
    Ok(())
}

pub(super) fn with_restart() -> impl Strategy<Value = (Vec<Step>, usize, usize)> {
    (steps(), 0..80_usize, 1..6_usize)
}

pub(super) fn with_batch() -> impl Strategy<Value = (Vec<Step>, Vec<Command>)> {
    (steps(), prop::collection::vec(command(), 1..6))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_log_restores_the_live_catalog(case in with_restart()) {
        log_restores_live(case, None)?;
    }

    #[test]
    fn a_batch_does_what_its_commands_do(case in with_batch()) {
        a_batch_is_its_commands(case, None)?;
    }
}
