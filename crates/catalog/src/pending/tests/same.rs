//! The same changes make the same catalog, whatever settings its node has, and whether it has applied them one by one or was restored.

use super::queries::{answers, kept, numbers, same, sent};
use super::*;
use crate::{Catalog, DeclareRules, DefinitionsCursor, Mutation};

/// Returns the command of a step, if it has one: a queue ends only if it exists, and nothing waits for a log here.
fn command_of(step: Step, catalog: &Catalog) -> Option<Command> {
    match step {
        Step::Command(command) => Some(command),
        Step::Forget(vhost, name) => {
            catalog.listed_queue(vhost, name).map(|queue| Command::ForgetQueue { queue: queue.id })
        }
        Step::Sync(_) => None,
    }
}

/// Returns settings that differ from the default in all that concerns the catalog.
fn other_rules(number: u32) -> DeclareRules {
    DeclareRules {
        event_vhost: (number % 2 == 1).then(|| "/".into()),
        log_vhost: (number % 3 == 1).then(|| "w".into()),
        default_type: if number % 5 == 1 { queue::QueueType::Quorum } else { queue::QueueType::Classic },
        relaxed_redeclaration: number.is_multiple_of(2),
        permit_transient: number % 7 != 1,
        queues_max: (number % 11 == 1).then_some(2),
        exchanges_max: (number % 13 == 1).then_some(20),
        vhosts_max: (number % 17 == 1).then_some(2),
        ..DeclareRules::default()
    }
}

/// One catalog decides. Another one, whose node has other settings, applies the same changes as it reads them. The changes do not tell the time,
/// and applying them has no argument for it, so the clocks of the two cannot matter.
pub(super) fn settings_change_nothing(
    (steps, mine, of_other): (Vec<Step>, u32, u32),
    mutation: Option<Mutation>,
) -> Result<(), TestCaseError> {
    let mut decides = Catalog::default().with_mutation(mutation);
    let mut other = decides.clone();
    decides.set_rules(other_rules(mine));
    other.set_rules(other_rules(of_other));
    decides.begin_exchanges().iter().for_each(|change| other.apply(&sent(change)));
    for step in steps {
        let Some(command) = command_of(step, &decides) else { continue };
        let Ok(decision) = decides.decide(command, &mut decides.queue_ids()) else { continue };
        for change in &decision.changes {
            decides.apply(change);
            other.apply(&of_node(change));
        }
    }
    same(&answers(&decides), &answers(&other))?;
    same(&numbers(&decides), &numbers(&other))?;
    Ok(())
}

/// Returns the change as another node reads it. The encoding of a declaration has no owner, because no log keeps exclusive queues.
fn of_node(change: &Change) -> Change {
    match change {
        Change::QueueDeclared(record) if !record.outlives_restart() => change.clone(),
        change => sent(change),
    }
}

/// At some step, an evacuation of the log begins, and tells the catalog in parts between the following changes. What is restored
/// from it and from the durable changes after its beginning answers every question as the live catalog does, except for what is not
/// durable.
pub(super) fn restored_is_live(
    (steps, at, rows, settings): (Vec<Step>, usize, usize, u32),
    mutation: Option<Mutation>,
) -> Result<(), TestCaseError> {
    let (mut live, mut restored) = (Catalog::default().with_mutation(mutation), Catalog::default());
    live.set_rules(other_rules(settings));
    live.begin_exchanges();
    let mut cursor = DefinitionsCursor::default();
    let mut used = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        if number >= at {
            live.walk_definitions(&mut cursor, rows, |change| restored.restore(&sent(&change)));
        }
        let Some(command) = command_of(step, &live) else { continue };
        let Ok(decision) = live.decide(command, &mut live.queue_ids()) else { continue };
        let durable = live.durable(&decision.changes);
        for (change, durable) in decision.changes.iter().zip(durable) {
            live.apply(change);
            if let Change::QueueDeclared(record) = change
                && (durable || number < at)
            {
                used.push(record.id.incarnation());
            }
            if durable && number >= at {
                restored.restore(&sent(change));
            }
        }
    }
    while live.walk_definitions(&mut cursor, rows, |change| restored.restore(&sent(&change))) > 0 {}
    same(&answers(&kept(&live)), &answers(&restored))?;
    let next = restored.next_incarnation;
    prop_assert!(used.iter().all(|used| *used < next), "{:?} were used, and {} is next", used, next);
    Ok(())
}

pub(super) fn with_settings() -> impl Strategy<Value = (Vec<Step>, u32, u32)> {
    (steps(), any::<u32>(), any::<u32>())
}

pub(super) fn with_evacuation() -> impl Strategy<Value = (Vec<Step>, usize, usize, u32)> {
    (steps(), 0..80_usize, 1..6_usize, any::<u32>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn settings_do_not_change_what_is_applied(case in with_settings()) {
        settings_change_nothing(case, None)?;
    }

    #[test]
    fn a_restored_catalog_is_the_live_one(case in with_evacuation()) {
        restored_is_live(case, None)?;
    }
}
