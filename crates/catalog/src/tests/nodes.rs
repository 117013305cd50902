//! The nodes of a cluster: which proposals are known, who is admitted, and what another node installs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::ids::NodeNumber;
use crate::{KnownNode, NODE_NAME_MAX, NODES_MAX};

/// Returns the node whose id is this number.
fn node(id: u32, name: &str) -> KnownNode {
    let mut identity = [0xee; 16];
    identity[..4].copy_from_slice(&id.to_be_bytes());
    KnownNode { identity, name: name.into() }
}

fn admit(catalog: &mut Catalog, known: KnownNode) -> Result<bool, CatalogError> {
    let decision = decide(catalog, Command::AdmitNode(known))?;
    decision.changes.iter().for_each(|change| catalog.apply(change));
    let Answer::Done { changed } = decision.answer else { panic!("{:?}", decision.answer) };
    assert_eq!(changed, !decision.changes.is_empty());
    Ok(changed)
}

fn names(catalog: &Catalog) -> Vec<(NodeNumber, &str)> {
    catalog.nodes().iter().map(|(number, known)| (*number, &*known.name)).collect()
}

fn refusal(admitted: Result<bool, CatalogError>) -> String {
    match admitted {
        Err(error @ CatalogError::PreconditionFailed { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn origin(boot: u32) -> Origin {
    Origin { node: NodeId(10), boot }
}

fn note(catalog: &mut Catalog, boot: u32, number: u64, low: u64) {
    catalog.note_proposal(&Asker { origin: origin(boot), number, low, ..Asker::default() });
}

/// Returns the numbers below 20 that are known of a start.
fn known(catalog: &Catalog, boot: u32) -> Vec<u64> {
    (0..20).filter(|number| catalog.has_proposal(origin(boot), *number)).collect()
}

#[test]
fn a_node_that_joins_again_keeps_its_number() {
    let mut catalog = Catalog::default();
    assert_eq!(admit(&mut catalog, node(10, "a@h")), Ok(true));
    assert_eq!(admit(&mut catalog, node(20, "b@h")), Ok(true));
    assert_eq!(names(&catalog), [(1, "a@h"), (2, "b@h")]);
    for again in [node(20, "b@h"), node(10, "a@h")] {
        assert_eq!(admit(&mut catalog, again), Ok(false));
    }
    assert_eq!(names(&catalog), [(1, "a@h"), (2, "b@h")]);
    assert_eq!([10, 20, 30].map(|id| catalog.number_of(NodeId(id))), [Some(1), Some(2), None]);
}

#[test]
fn a_member_may_have_another_name() {
    let mut catalog = Catalog::default();
    _ = admit(&mut catalog, node(10, "a@h"));
    _ = admit(&mut catalog, node(20, "b@h"));
    assert_eq!(admit(&mut catalog, node(20, "c@h")), Ok(true));
    assert_eq!(names(&catalog), [(1, "a@h"), (2, "c@h")], "the identity counts");
    assert!(refusal(admit(&mut catalog, node(20, "a@h"))).contains("would replace node 1 of the same name"));
    assert_eq!(refusal(admit(&mut catalog, node(20, ""))), "a node's name has 1 to 255 bytes");
    assert_eq!(admit(&mut catalog, node(10, "b@h")), Ok(true), "nobody has this name any more");
    assert_eq!(names(&catalog), [(1, "b@h"), (2, "c@h")]);
}

#[test]
fn a_node_with_the_name_of_another_one_is_refused() {
    let mut catalog = Catalog::default();
    _ = admit(&mut catalog, node(10, "a@h"));
    let refused = refusal(admit(&mut catalog, node(20, "a@h")));
    assert_eq!(
        refused,
        "node 'a@h' would replace node 1 of the same name, whose data directory has the identity \
         0000000aeeeeeeeeeeeeeeeeeeeeeeee"
    );
    assert_eq!(names(&catalog), [(1, "a@h")]);
}

#[test]
fn names_and_identities_have_bounds() {
    let mut catalog = Catalog::default();
    let longest = "n".repeat(NODE_NAME_MAX);
    for name in ["", &format!("{longest}n")] {
        let refused = refusal(admit(&mut catalog, node(10, name)));
        assert_eq!(refused, "a node's name has 1 to 255 bytes");
    }
    assert_eq!(admit(&mut catalog, node(10, &longest)), Ok(true));
    let alike = KnownNode {
        identity: {
            let mut other = node(10, "b@h").identity;
            other[15] ^= 1;
            other
        },
        name: "b@h".into(),
    };
    let refused = refusal(admit(&mut catalog, alike));
    assert_eq!(refused, "the identity of node 'b@h' is too much like that of another node");
    assert_eq!(catalog.nodes().len(), 1);
}

#[test]
fn a_cluster_has_a_bound() {
    let mut catalog = Catalog::default();
    for number in 1..=NODES_MAX as u32 {
        assert_eq!(admit(&mut catalog, node(number, &format!("n{number}@h"))), Ok(true));
    }
    let refused = refusal(admit(&mut catalog, node(1000, "more@h")));
    assert_eq!(refused, "a cluster has at most 64 nodes");
    assert_eq!(admit(&mut catalog, node(1, "n1@h")), Ok(false), "a member is not refused");
}

#[test]
fn a_number_is_known_from_its_entry_on() {
    let mut catalog = Catalog::default();
    assert_eq!(known(&catalog, 3), []);
    note(&mut catalog, 3, 4, 0);
    note(&mut catalog, 3, 2, 0);
    assert_eq!(known(&catalog, 3), [2, 4]);
    // The node has the answers to all below 4. Some of them have no entry.
    note(&mut catalog, 3, 7, 4);
    assert_eq!(known(&catalog, 3), [0, 1, 2, 3, 4, 7]);
    // An entry that was sent earlier comes later.
    note(&mut catalog, 3, 5, 1);
    assert_eq!(known(&catalog, 3), [0, 1, 2, 3, 4, 5, 7]);
    let asked = Change::Asked { origin: origin(3), low: 4, numbers: [4, 5, 7].into() };
    assert_eq!(catalog.proposals_of(origin(3)), asked);
    // 0 is no number.
    note(&mut catalog, 3, 0, 9);
    assert_eq!(catalog.proposals_of(origin(3)), asked);
    // Another node has numbers of its own.
    assert!(!catalog.has_proposal(Origin { node: NodeId(20), boot: 3 }, 4));
}

/// Nobody waits for what an earlier start has proposed, so it is never decided again.
#[test]
fn a_later_start_ends_the_proposals_of_those_before() {
    let mut catalog = Catalog::default();
    note(&mut catalog, 3, 4, 0);
    note(&mut catalog, 4, 1, 0);
    assert_eq!(known(&catalog, 4), [1]);
    assert_eq!(known(&catalog, 3).len(), 20);
    note(&mut catalog, 3, 9, 9);
    assert_eq!(known(&catalog, 4), [1], "an earlier start says nothing any more");
    assert_eq!(known(&catalog, 5), []);
    _ = admit(&mut catalog, node(10, "a@h"));
    catalog.apply(&Change::NodeStarted { node: 1, origin: origin(4) });
    assert_eq!(known(&catalog, 4), [1], "this is the start that is known");
    catalog.apply(&Change::NodeStarted { node: 1, origin: origin(6) });
    assert_eq!([known(&catalog, 5).len(), known(&catalog, 6).len()], [20, 0]);
    let outdated = decide(&catalog, Command::StartNode { node: 1, origin: origin(5) }).unwrap();
    assert_eq!((outdated.changes, outdated.answer), (Vec::new(), Answer::Done { changed: false }));
}

/// A node alone has no proposals with numbers, so it stores none, and no number of its starts.
#[test]
fn a_node_alone_stores_nothing_of_a_cluster() {
    let mut catalog = Catalog::default();
    run(&mut catalog, queue("q", &[]));
    catalog.apply(&Change::NodeStarted { node: 1, origin: origin(5) });
    catalog.note_proposal(&Asker { origin: origin(5), ..Asker::default() });
    let of_cluster = |change: &Change| matches!(change, Change::NodeJoined { .. } | Change::Asked { .. });
    assert!(!catalog.definitions().iter().any(of_cluster));
    _ = admit(&mut catalog, node(10, "a@h"));
    assert_eq!(catalog.definitions().iter().filter(|change| of_cluster(change)).count(), 1);
}

#[test]
fn an_installed_catalog_computes_policies_again() {
    let limit = |catalog: &Catalog| catalog.listed_queue("/", "q").unwrap().config.max_length;
    let (mut mine, mut other) = (Catalog::default(), Catalog::default());
    run(&mut mine, queue("q", &[]));
    run(&mut mine, policy("p", false, "", 0, &[("max-length", Value::Int(5))]));
    run(&mut other, queue("q", &[]));
    run(&mut other, policy("p", false, "", 0, &[("max-length", Value::Int(6))]));
    _ = admit(&mut other, node(10, "a@h"));
    note(&mut other, 3, 4, 2);
    mine.set_rules(DeclareRules { exchanges_max: Some(7), ..DeclareRules::default() });
    let before = (mine.version(), mine.policies_version());
    assert_eq!(limit(&mine), Some(5));
    mine.install(&other);
    assert_eq!(limit(&mine), Some(6));
    assert!(mine.version() > before.0.max(other.version()));
    assert!(mine.policies_version() > before.1.max(other.policies_version()));
    assert_eq!((names(&mine), known(&mine, 3)), (vec![(1, "a@h")], vec![0, 1, 4]));
    assert_eq!(mine.rules.exchanges_max, Some(7), "the settings of this node stay");
    // What it decides from now on follows from the other catalog.
    assert_eq!(mine.queue_ids().take(), other.queue_ids().take());
}

/// A naive model: all numbers that were noted, and the highest number below which all are answered.
#[derive(Default)]
struct Model {
    boot: u32,
    low: u64,
    noted: BTreeSet<u64>,
}

fn notes() -> impl Strategy<Value = Vec<(u32, u32, u64, u64)>> {
    let note = (10..13_u32, 1..4_u32, 1..30_u64).prop_flat_map(|(node, boot, number)| {
        // A node sends no number that is below its own `low`.
        (Just(node), Just(boot), Just(number), 0..=number)
    });
    prop::collection::vec(note, 0..40)
}

proptest! {
    #[test]
    fn known_numbers_are_those_of_a_naive_model(notes in notes()) {
        let (mut catalog, mut models) = (Catalog::default(), BTreeMap::<u32, Model>::new());
        for (node, boot, number, low) in notes {
            let origin = Origin { node: NodeId(node), boot };
            catalog.note_proposal(&Asker { origin, number, low, ..Asker::default() });
            let model = models.entry(node).or_default();
            if boot > model.boot {
                *model = Model { boot, ..Model::default() };
            }
            if boot == model.boot {
                model.low = model.low.max(low);
                model.noted.insert(number);
            }
            for (node, model) in &models {
                for boot in 0..5 {
                    for number in 0..35 {
                        let is_known = boot < model.boot
                            || boot == model.boot && (number < model.low || model.noted.contains(&number));
                        let origin = Origin { node: NodeId(*node), boot };
                        prop_assert_eq!(catalog.has_proposal(origin, number), is_known, "{:?} {}", origin, number);
                    }
                }
            }
        }
    }

    /// The entries of one start commute: a node that has applied the same ones knows the same numbers.
    #[test]
    fn the_order_of_the_entries_of_a_start_does_not_matter(
        notes in prop::collection::vec((1..30_u64, 0..30_u64), 0..20),
        order in any::<prop::sample::Index>(),
    ) {
        let (mut one, mut other) = (Catalog::default(), Catalog::default());
        notes.iter().for_each(|(number, low)| note(&mut one, 3, *number, *low));
        let at = if notes.is_empty() { 0 } else { order.index(notes.len()) };
        notes[at..].iter().rev().chain(notes[..at].iter()).for_each(|(number, low)| note(&mut other, 3, *number, *low));
        prop_assert_eq!(one.proposals_of(origin(3)), other.proposals_of(origin(3)));
    }
}
