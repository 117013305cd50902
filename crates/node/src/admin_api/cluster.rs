//! What a node asks of its own catalog about the cluster.

use std::sync::Arc;

use broker::admin_api::AdminError;
use catalog::access::{Identity, Verb};
use catalog::ids::{NodeId, NodeNumber, Origin};
use catalog::{Change, Command, KnownNode};

use super::AdminApi;
use crate::cluster_view::{ClusterView, NodeState};
use crate::shard::{DECIDER, looks};

/// The members of the cluster, as the catalog of this node has them.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub nodes: Vec<(NodeNumber, KnownNode)>,
    /// The last start, of the node that was asked for, that the catalog knows; 0 for none.
    pub boot: u32,
}

impl AdminApi {
    /// Returns what this node knows about the nodes of its cluster. A node that is alone knows itself.
    ///
    /// # Errors
    /// The user may not see it, or the deciding shard does not answer in time.
    pub async fn cluster(&self, who: &Identity) -> Result<ClusterView, AdminError> {
        self.permit(who, "", Verb::ReadNodes, &[]).await?;
        self.cluster_view().await
    }

    /// Returns what [`Self::cluster`] returns, for checks of the health, which every user of management may ask for.
    ///
    /// # Errors
    /// As there.
    pub async fn cluster_health(&self, who: &Identity) -> Result<ClusterView, AdminError> {
        self.permit(who, "", Verb::ReadOverview, &[]).await?;
        self.cluster_view().await
    }

    /// Returns the names of all nodes, and whether each counts as alive.
    pub fn nodes_alive(&self) -> Vec<(Arc<str>, bool)> {
        let view = self.inner.nodes.now(&self.inner.node);
        view.nodes.into_iter().map(|node| (node.name, node.state.is_alive())).collect()
    }

    /// See [`Self::cluster`].
    pub(super) async fn cluster_view(&self) -> Result<ClusterView, AdminError> {
        let sight = self.look(DECIDER.into(), looks::CatalogGroup).await?;
        let mut view = self.inner.nodes.now(&self.inner.node);
        view.add_catalog(&sight);
        let resources = self.resources();
        if let Some(here) = view.nodes.iter_mut().find(|node| node.state == NodeState::Here) {
            (here.memory_alarm, here.disk_alarm) = (resources.memory_alarm, resources.disk_alarm);
            here.boots = Some(self.inner.identity.boots);
            here.node_id = Some(self.inner.identity.node_hex());
        }
        Ok(view)
    }

    /// Returns the members of the cluster, and the last start of this node that the catalog knows.
    ///
    /// # Errors
    /// The node shard does not answer in time.
    pub(crate) async fn membership(&self, node: NodeId) -> Result<Membership, String> {
        let read = self.read(catalog::NODES_MAX, move |catalog, _| {
            let boot = match catalog.proposals_of(Origin { node, boot: 0 }) {
                Change::Asked { origin, .. } => origin.boot,
                _ => 0,
            };
            let nodes = catalog.nodes().iter().map(|(number, known)| (*number, known.clone())).collect();
            Membership { nodes, boot }
        });
        read.await.map_err(reason)
    }

    /// Proposes that the cluster admits a node. Does nothing if it is a member already.
    ///
    /// # Errors
    /// The cluster refuses the node, or does not decide in time.
    pub(crate) async fn admit_node(&self, known: KnownNode) -> Result<(), String> {
        let who = Identity::internal("cluster", "administrator");
        self.change(&who, Command::AdmitNode(known)).await.map(|_| ()).map_err(reason)
    }
}

/// Returns the error as a part of a sentence.
fn reason(error: AdminError) -> String {
    match error {
        AdminError::Catalog(refused) => refused.to_string(),
        // Nothing else happens to these questions.
        _ => "the node did not answer in time".to_owned(),
    }
}
