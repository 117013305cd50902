//! What must hold in every world.

use std::collections::BTreeMap;

use bytes::BytesMut;
use catalog::{Answer, Catalog, CatalogError, encode_change};

use super::node::Process;

/// What became of a command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was carried out.
    Done,
    /// It was refused, and was not carried out.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// The declaration of a queue whose name nobody else uses.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub name: String,
    /// The node that was asked, which has the queue.
    pub node: usize,
    pub outcome: Outcome,
}

/// The history of a world.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The state of the catalog after the entry of each index, as the first node has it that was looked at.
    states: BTreeMap<u64, u64>,
    pub declared: Vec<Declared>,
    /// The names of the durable queues among them that were carried out.
    durable: Vec<String>,
}

/// Returns a digest of a catalog that does not depend on the order in which its tables are read.
fn digest(catalog: &Catalog) -> u64 {
    let mut changes: Vec<BytesMut> = catalog
        .definitions()
        .iter()
        .map(|change| {
            let mut encoded = BytesMut::new();
            encode_change(change, &mut encoded);
            encoded
        })
        .collect();
    changes.sort();
    changes
        .iter()
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Compares what a node shows about the group of the catalog with a naive count of the nodes that its machine supports.
pub(super) fn check_sight(process: &mut Process) {
    let Some(broker) = &mut process.broker else { return };
    let sight = broker.shards[0].catalog_sight();
    let is_alive = |voter: &&u32| **voter == sight.here || process.nodes.supports(**voter);
    let alive = sight.voters.iter().filter(is_alive).count();
    assert_eq!(sight.has_majority, alive > sight.voters.len() / 2, "{sight:?}");
    assert_eq!(sight.leader, broker.shards[0].catalog_leader());
    assert_eq!(sight.applied, broker.shards[0].catalog_index());
}

impl History {
    /// Looks at the catalog of a node. At one index all have the same.
    pub(super) fn note_state(&mut self, who: &str, index: u64, catalog: &Catalog) {
        let digest = digest(catalog);
        let known = *self.states.entry(index).or_insert(digest);
        assert_eq!(known, digest, "{who} has another catalog than others after entry {index}");
    }

    /// Returns the durable queues that were declared.
    pub(super) fn durable(&self) -> &[String] {
        &self.durable
    }

    /// Notes the answer to the declaration of a queue of a name that was never used before.
    pub(super) fn note_answer(&mut self, node: usize, name: &str, answer: &Result<Answer, CatalogError>) {
        let outcome = match answer {
            Ok(Answer::Queue { created, .. }) => {
                assert!(created, "queue {name} was declared once, and the answer says that it was there");
                Outcome::Done
            }
            Err(CatalogError::OutcomeUnknown { .. }) => Outcome::Unknown,
            Err(CatalogError::Unavailable { .. }) => Outcome::Refused,
            other => panic!("queue {name}: {other:?}"),
        };
        self.declared.push(Declared { name: name.to_owned(), node, outcome });
        if outcome == Outcome::Done {
            self.durable.push(name.to_owned());
        }
    }

    /// Called at the end, with the catalog that all nodes have. Without faults, `all_known` says that each outcome must be known.
    pub(super) fn check_end(&self, catalog: &Catalog, all_known: bool) {
        for Declared { name, outcome, .. } in &self.declared {
            let exists = catalog.listed_queue("/", name).is_some();
            match outcome {
                Outcome::Done => assert!(exists, "queue {name} was declared, and is gone"),
                Outcome::Refused => assert!(!exists, "queue {name} was refused, and is there"),
                Outcome::Unknown => assert!(!all_known, "queue {name}: nobody knows what has become of it"),
            }
        }
    }
}
