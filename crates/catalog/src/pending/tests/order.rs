//! Decisions commute as long as they are pending: the order in which they are committed, and what is read from the log, are as good as the
//! order in which they were made.

use super::queries::{answers, kept, same, sent};
use super::*;
use crate::{Catalog, DefinitionsCursor, Mutation};

/// A catalog with its log.
struct Node {
    live: Catalog,
    pending: Pending<()>,
    /// The changes of each decision, in the order in which they were decided.
    decided: Vec<Arc<[Change]>>,
    /// What is stored of each decision that the log has received but not synced.
    unsynced: VecDeque<Vec<Change>>,
    /// What a restart would read now.
    stored: Catalog,
    /// The evacuation of the log, if it has begun.
    evacuation: Option<Evacuation>,
}

/// An evacuation writes the definitions again, in parts. Everything from its beginning on is what the log has after it.
#[derive(Default)]
struct Evacuation {
    cursor: DefinitionsCursor,
    stored: Catalog,
}

impl Node {
    fn new(mutation: Option<Mutation>) -> Self {
        let mut live = Catalog::default().with_mutation(mutation);
        let mut stored = Catalog::default();
        let added = Change::VhostAdded { name: "v".into() };
        [&mut live, &mut stored].into_iter().for_each(|catalog| catalog.apply(&added));
        let pending = Pending::new(&live);
        Self { live, pending, decided: Vec::new(), unsynced: VecDeque::new(), stored, evacuation: None }
    }

    fn offer(&mut self, command: Command) {
        match self.pending.offer(&self.live, command, ()) {
            Offered::Waits | Offered::Repeated => {}
            Offered::Decided { changes } => {
                let durable = changes.iter().zip(self.live.durable(&changes));
                let stored = durable.filter(|(_, durable)| *durable).map(|(change, _)| sent(change));
                let stored: Vec<_> = stored.collect();
                if let Some(evacuation) = &mut self.evacuation {
                    stored.iter().for_each(|change| evacuation.stored.restore(change));
                }
                self.decided.push(changes);
                self.unsynced.push_back(stored);
            }
            Offered::Committed(committed) => {
                self.decided.push(committed.changes.clone());
                self.commit(&committed);
            }
        }
    }

    fn commit(&mut self, committed: &Committed<()>) {
        committed.changes.iter().for_each(|change| self.live.apply(change));
    }

    /// Writes the next part of the evacuation, and then what is decided but not committed: it was written before the part.
    fn evacuate(&mut self, rows: usize) -> usize {
        let Some(Evacuation { cursor, stored }) = &mut self.evacuation else { return 0 };
        let walked = self.live.walk_definitions(cursor, rows, |change| stored.restore(&sent(&change)));
        self.pending.durable_changes(&self.live).for_each(|change| stored.restore(&sent(change)));
        walked
    }

    fn sync(&mut self, part: u8) {
        let count = self.unsynced.len().min(usize::from(part) + 1);
        for changes in self.unsynced.drain(..count).collect::<Vec<_>>() {
            changes.iter().for_each(|change| self.stored.restore(change));
            let committed = self.pending.handle_synced().expect("it was decided");
            self.commit(&committed);
        }
        for (command, ()) in self.pending.take_line() {
            self.offer(command);
        }
    }
}

/// Decides and commits the commands of the steps. After some step, and at the end:
///
/// - a restart reads what is committed, except for what is not durable. At the end it also does so from an evacuation that has begun after that
///   step, and has written so many rows after each further one;
/// - at the end, a catalog that has applied all decisions in the order in which they were made answers every question as the one that has
///   applied them in the order of the commits.
///
/// No two queues have the same id.
pub(super) fn decisions_commute(
    (steps, at, rows): (Vec<Step>, usize, usize),
    mutation: Option<Mutation>,
) -> Result<(), TestCaseError> {
    let mut node = Node::new(mutation);
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
            Step::Sync(part) => node.sync(part),
        }
        if number == at {
            same(&answers(&kept(&node.live)), &answers(&node.stored))?;
            node.evacuation = Some(Evacuation::default());
        }
        node.evacuate(rows);
    }
    while !node.unsynced.is_empty() {
        node.sync(u8::MAX);
    }
    while node.evacuate(rows) > 0 {}
    same(&answers(&kept(&node.live)), &answers(&node.stored))?;
    if let Some(evacuation) = &node.evacuation {
        same(&answers(&kept(&node.live)), &answers(&evacuation.stored))?;
    }
    let mut as_decided = Catalog::default().with_mutation(mutation);
    as_decided.apply(&Change::VhostAdded { name: "v".into() });
    node.decided.iter().flat_map(|changes| changes.iter()).for_each(|change| as_decided.apply(change));
    same(&answers(&as_decided), &answers(&node.live))?;
    prop_assert_eq!(as_decided.version(), node.live.version());
    let declared = node.decided.iter().flat_map(|changes| changes.iter()).filter_map(|change| match change {
        Change::QueueDeclared(record) => Some(record.id),
        _ => None,
    });
    let mut ids = BTreeSet::new();
    for id in declared {
        prop_assert!(ids.insert(id), "{:?} is given twice", id);
    }
    Ok(())
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
    fn decisions_commute_until_they_are_committed(case in with_restart()) {
        decisions_commute(case, None)?;
    }

    #[test]
    fn a_batch_does_what_its_commands_do(case in with_batch()) {
        a_batch_is_its_commands(case, None)?;
    }
}
