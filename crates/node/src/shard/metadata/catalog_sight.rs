//! What this node knows about the group of the catalog, for operators.

use catalog::KnownNode;
use catalog::ids::NodeNumber;

use crate::shard::Shard;

/// What a node knows about the group that decides changes of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogSight {
    /// The nodes of the cluster, as the catalog here has them. Empty on a node that is alone.
    pub nodes: Vec<(NodeNumber, KnownNode)>,
    /// The number of this node.
    pub here: NodeNumber,
    /// The node that decides changes, as far as this node knows. It may be this one.
    pub leader: Option<NodeNumber>,
    /// The nodes that vote. Empty on a node that has not heard of the group yet.
    pub voters: Vec<NodeNumber>,
    /// True if this node counts more than half of the voters as alive. It always counts itself.
    pub has_majority: bool,
    /// The index of the last entry that is applied here.
    pub applied: u64,
}

impl Shard {
    /// Returns what this node knows about the group of the catalog. Only the deciding shard knows who leads and who votes.
    pub fn catalog_sight(&mut self) -> CatalogSight {
        let (here, leader) = (self.here.number, self.leader_of_catalog());
        let (catalog, support) = (&self.metadata.catalog, self.peers.support());
        let hosted = self.metadata.decider.as_mut().and_then(|decider| decider.hosted.as_mut());
        let voters = hosted.map_or_else(Vec::new, |hosted| {
            hosted.engine.wake().members().voters().iter().map(|voter| voter.node).collect()
        });
        let alive = voters.iter().filter(|voter| **voter == here || support.has(**voter)).count();
        CatalogSight {
            nodes: catalog.nodes().iter().map(|(number, known)| (*number, known.clone())).collect(),
            here,
            leader,
            has_majority: 2 * alive > voters.len(),
            voters,
            applied: self.metadata.applied,
        }
    }
}
