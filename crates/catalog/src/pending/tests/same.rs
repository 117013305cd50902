//! The same changes make the same catalog, whatever settings its node has, and whether it has applied them one by one or was restored.

use super::queries::{answers, left_by, numbers, same, sent};
use super::*;
use crate::ids::Members;
use crate::{Asker, Catalog, DeclareRules, DefinitionsCursor, Exchange, Mutation, QueueRecord};

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
            other.apply(&sent(change));
        }
    }
    same(&answers(&decides), &answers(&other))?;
    same(&numbers(&decides), &numbers(&other))?;
    Ok(())
}

/// A step, or the start of one of the two nodes, or a proposal of one.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Step(Step),
    /// It is explicit if each change is told, as in a cluster.
    Start {
        at: usize,
        is_explicit: bool,
    },
    /// An entry of a node has the proposal of this number.
    Note {
        at: usize,
        number: u64,
        low: u64,
    },
}

/// Returns the change with the nodes that a cluster would choose: all on the first node, or on the second, or on both, by name.
fn placed(change: &Change) -> Change {
    let nodes = |name: &str| {
        Members::new(match name {
            "a" => &[1],
            "b" => &[2],
            _ => &[1, 2],
        })
    };
    match change {
        Change::QueueDeclared(record) => {
            let members = nodes(&record.name);
            Change::QueueDeclared(Arc::new(QueueRecord {
                members,
                declared: record.id.incarnation(),
                ..(**record).clone()
            }))
        }
        Change::ExchangeDeclared(exchange) if !exchange.durable => {
            let nodes = nodes(&exchange.name);
            Change::ExchangeDeclared(Arc::new(Exchange { nodes, ..(**exchange).clone() }))
        }
        change => change.clone(),
    }
}

/// Returns commands that declare exchanges and queues, durable or not, and bind all exchanges to all. The order of the bindings of two
/// exchanges counts.
fn crowd() -> impl Iterator<Item = Command> {
    let declared = ["c", "b", "a"].into_iter().flat_map(|name| {
        let Command::DeclareExchange(fanout) = exchange("/", name, name == "c", false) else {
            unreachable!()
        };
        let kind = if name == "b" { fanout.kind.clone() } else { "x-consistent-hash".to_owned() };
        let exchange = Command::DeclareExchange(DeclareExchange { kind, ..fanout });
        [exchange, declare("/", name, name == "c")]
    });
    let [of_owner, ..] = connections().map(Caller::Connection);
    let pairs = NAMES.into_iter().flat_map(|source| ["b", "a", "c"].map(|to| (source, to)));
    let bound = pairs.flat_map(move |(source, to)| {
        [Destination::Queue(to.into()), Destination::Exchange(to.into())]
            .map(|to| Command::Bind(binding("/", source, to, "1"), of_owner))
    });
    declared.chain(bound)
}

/// At some step, a base is begun, and written in parts between the following changes, starts of nodes among them. What is restored
/// from it answers every question as the live catalog does. So does what another node installs from a base that is made at once.
pub(super) fn restored_is_live(
    (events, at, rows, settings): (Vec<Event>, usize, usize, u32),
    mutation: Option<Mutation>,
) -> Result<(), TestCaseError> {
    let (mut live, mut restored) = (Catalog::default().with_mutation(mutation), Catalog::default());
    live.set_rules(other_rules(settings));
    live.begin_exchanges();
    if settings % 2 == 0 {
        for command in crowd() {
            let Ok(decision) = live.decide(command, &mut live.queue_ids()) else { continue };
            decision.changes.iter().for_each(|change| live.apply(&placed(change)));
        }
    }
    let mut cursor = DefinitionsCursor::default();
    for (number, event) in events.into_iter().enumerate() {
        if number >= at {
            live.walk_definitions(&mut cursor, rows, |change| restored.apply(&sent(&change)));
        }
        let changes = match event {
            Event::Step(step) => {
                let Some(command) = command_of(step, &live) else { continue };
                let Ok(decision) = live.decide(command, &mut live.queue_ids()) else { continue };
                decision.changes.iter().map(placed).collect()
            }
            Event::Note { at, number: proposal, low } => {
                // Starts are numbered by their events, so this is the newest one, or none that has begun.
                let origin = Origin { node: NODES[at], boot: number as u32 };
                live.note_proposal(&Asker { origin, number: proposal, low, ..Asker::default() });
                // As it is stored between the parts of a base.
                vec![live.proposals_of(origin)]
            }
            Event::Start { at, is_explicit } => {
                let (node, origin) = (at as u32 + 1, Origin { node: NODES[at], boot: number as u32 + 1 });
                let expected = left_by(&live, node, origin);
                let change = Change::NodeStarted { node, origin };
                let mut started = live.clone();
                started.apply(&change);
                same(&answers(&started), &answers(&expected))?;
                let decided = live.decide(Command::StartNode { node, origin }, &mut live.queue_ids());
                let decided = decided.expect("a start is never refused").changes;
                let mut explicit = live.clone();
                decided.iter().for_each(|change| explicit.apply(&sent(change)));
                same(&answers(&explicit), &answers(&expected))?;
                if is_explicit { decided } else { vec![change] }
            }
        };
        for change in &changes {
            live.apply(change);
            if number >= at {
                restored.apply(&sent(change));
            }
        }
    }
    while live.walk_definitions(&mut cursor, rows, |change| restored.apply(&sent(&change))) > 0 {}
    same(&answers(&live), &answers(&restored))?;
    prop_assert_eq!(live.next_incarnation, restored.next_incarnation);
    let mut installed = Catalog::default();
    live.definitions().iter().for_each(|change| installed.apply(&sent(change)));
    same(&answers(&live), &answers(&installed))?;
    check_install(&live, restored)
}

/// A node that replaces its catalog by another one has everything in it, but the settings of its own.
fn check_install(other: &Catalog, mut mine: Catalog) -> Result<(), TestCaseError> {
    let rules = DeclareRules { queues_max: Some(77), ..DeclareRules::default() };
    mine.set_rules(rules);
    let before = (mine.version(), mine.policies_version());
    mine.install(&other.clone().with_mutation(None));
    same(&answers(&mine), &answers(other))?;
    prop_assert!(mine.version() > before.0.max(other.version()));
    prop_assert!(mine.policies_version() > before.1.max(other.policies_version()));
    prop_assert_eq!(mine.rules.queues_max, Some(77));
    Ok(())
}

pub(super) fn with_settings() -> impl Strategy<Value = (Vec<Step>, u32, u32)> {
    (steps(), any::<u32>(), any::<u32>())
}

pub(super) fn with_base() -> impl Strategy<Value = (Vec<Event>, usize, usize, u32)> {
    let start =
        (0..NODES.len(), any::<bool>()).prop_map(|(at, is_explicit)| Event::Start { at, is_explicit });
    let note =
        (0..NODES.len(), 1..20_u64, 0..15_u64).prop_map(|(at, number, low)| Event::Note { at, number, low });
    let event = prop_oneof![24 => step().prop_map(Event::Step), 2 => start, 1 => note];
    (prop::collection::vec(event, 0..80), 0..80_usize, 1..12_usize, any::<u32>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn settings_do_not_change_what_is_applied(case in with_settings()) {
        settings_change_nothing(case, None)?;
    }

    #[test]
    fn a_restored_catalog_is_the_live_one(case in with_base()) {
        restored_is_live(case, None)?;
    }
}
