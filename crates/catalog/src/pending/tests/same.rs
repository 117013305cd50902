//! The same changes make the same catalog, whatever settings its node has, and whether it has applied them one by one or was restored.

use super::*;
use crate::{Catalog, DeclareRules, DefinitionsCursor, decode_change, encode_change};

/// Returns everything that anybody can ask of a catalog, with ids and places.
fn everything(catalog: &Catalog) -> Vec<String> {
    let mut all = contents(catalog);
    all.extend(catalog.queues_from(0).map(|(place, queue)| format!("{place} {queue:?}")));
    all.extend(
        (0..catalog.exchange_places()).map(|place| format!("{place} {:?}", catalog.exchange_at(place))),
    );
    all.extend(
        VHOSTS.iter().chain(&["w"]).map(|vhost| format!("{vhost} {:?}", catalog.vhost_settings(vhost))),
    );
    all.push(format!("{:?}", catalog.version()));
    all.extend(definitions(catalog, usize::MAX));
    for (vhost, source) in VHOSTS.iter().flat_map(|vhost| NAMES.iter().map(move |name| (vhost, name))) {
        let keys = ["k".into()];
        let routable = crate::Routable { keys: &keys, ..Default::default() };
        all.push(format!("{:?}", catalog.route(vhost, source, &routable).map(|routed| routed.targets)));
    }
    // Virtual hosts and users have no order.
    all.sort();
    all
}

/// Returns the changes that rebuild a catalog, told in parts of so many rows, as they are stored.
fn definitions(catalog: &Catalog, rows: usize) -> Vec<String> {
    let mut cursor = DefinitionsCursor::default();
    let mut all = Vec::new();
    let mut each = |change: Change| {
        let mut stored = bytes::BytesMut::new();
        encode_change(&change, &mut stored);
        all.push(format!("{:?}", decode_change(&stored).expect("what was encoded")));
    };
    while catalog.walk_definitions(&mut cursor, rows, &mut each) > 0 {}
    all
}

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// One catalog decides. Another one, whose node has other settings, applies the same changes.
    #[test]
    fn settings_do_not_change_what_is_applied(steps in steps(), mine in any::<u32>(), of_other in any::<u32>()) {
        let (mut decides, mut other) = (Catalog::default(), Catalog::default());
        decides.set_rules(other_rules(mine));
        other.set_rules(other_rules(of_other));
        decides.begin_exchanges().iter().for_each(|change| other.apply(change));
        for step in steps {
            let Some(command) = command_of(step, &decides) else { continue };
            let Ok(decision) = decides.decide(command, &mut decides.queue_ids()) else { continue };
            for change in &decision.changes {
                decides.apply(change);
                other.apply(change);
            }
        }
        prop_assert_eq!(everything(&decides), everything(&other));
    }

    /// At some step, an evacuation of the log begins, and tells the catalog in parts between the following changes. What is restored
    /// from it and from the durable changes after its beginning is what the live catalog keeps.
    #[test]
    fn a_restored_catalog_is_the_live_one(steps in steps(), at in 0..80_usize, rows in 1..6_usize, settings in any::<u32>()) {
        let (mut live, mut restored) = (Catalog::default(), Catalog::default());
        live.set_rules(other_rules(settings));
        live.begin_exchanges();
        let mut cursor = DefinitionsCursor::default();
        for (number, step) in steps.into_iter().enumerate() {
            if number >= at {
                live.walk_definitions(&mut cursor, rows, |change| restored.restore(&change));
            }
            let Some(command) = command_of(step, &live) else { continue };
            let Ok(decision) = live.decide(command, &mut live.queue_ids()) else { continue };
            let durable = live.durable(&decision.changes);
            for (change, durable) in decision.changes.iter().zip(durable) {
                live.apply(change);
                if durable && number >= at {
                    restored.restore(change);
                }
            }
        }
        while live.walk_definitions(&mut cursor, rows, |change| restored.restore(&change)) > 0 {}
        let kept = |catalog: &Catalog| {
            let mut kept = definitions(catalog, usize::MAX);
            // What is not durable uses incarnations, too. They are free again after a restart.
            kept.retain(|change| !change.starts_with("Incarnations"));
            kept.sort();
            kept
        };
        prop_assert_eq!(kept(&live), kept(&restored));
        let (of_live, of_restored) = (contents(&live), contents(&restored));
        prop_assert!(of_restored.iter().all(|line| of_live.contains(line)), "{:?} {:?}", of_live, of_restored);
    }
}
