//! What the admin API asks of other nodes about their connections. A node that is alone asks nobody.

use std::sync::Arc;
use std::time::Duration;

use broker::admin_api::{AdminError, ConnectionRow};
use broker::ids::NODE_SHARD;
use catalog::access::{Identity, Resource, Verb};
use catalog::ids::NodeId;

use super::AdminApi;
use super::ask::Waiting;
use crate::peer::{FarAsk, FarSeen};
use crate::shard::far_looks::LOOK_MS;
use crate::shard::questions::{Act, PLACES_PER_PART};

/// Another node of the cluster, and its name.
pub(super) type Other = (NodeId, Arc<str>);

impl AdminApi {
    /// Returns the other nodes of the cluster, whether in sight or not.
    pub(super) async fn others(&self) -> Result<Vec<Other>, AdminError> {
        if !self.is_in_cluster() {
            return Ok(Vec::new());
        }
        let own = self.inner.identity.node;
        let others = self.read(catalog::NODES_MAX, move |catalog, _| {
            let others = catalog.nodes().values().filter(|known| known.identity != own);
            others.map(|known| (known.id(), known.name.clone())).collect()
        });
        others.await
    }

    /// Returns the connections of all other nodes, or those with these names, without checking permissions. Those of a node that is out of reach,
    /// or does not answer in time, are missing.
    pub(super) async fn connections_of_others(
        &self,
        names: Option<&[Arc<str>]>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        let others = self.others().await?;
        let mut all = Vec::new();
        match names {
            None => self.add_connections(&others, &[], &mut all).await?,
            Some(names) => {
                for names in names.chunks(PLACES_PER_PART) {
                    self.add_connections(&others, names, &mut all).await?;
                }
            }
        }
        Ok(all)
    }

    /// Adds the connections of these nodes, part by part. All nodes are asked at the same time. No names stand for all connections.
    async fn add_connections(
        &self,
        others: &[Other],
        names: &[Arc<str>],
        all: &mut Vec<ConnectionRow>,
    ) -> Result<(), AdminError> {
        let mut rest = others.to_vec();
        for from in (0..).step_by(PLACES_PER_PART) {
            let mut asked = Vec::new();
            for other in std::mem::take(&mut rest) {
                let ask = FarAsk::Connections { names: names.to_vec(), from };
                let waiting = self.begin_look_at(other.0, ask)?;
                asked.push((other, waiting));
            }
            for (other, waiting) in asked {
                let Some(FarSeen::Connections { rows, has_more }) =
                    waiting.answer(self.far_deadline()).await?
                else {
                    continue;
                };
                all.extend(rows.into_iter().map(|row| ConnectionRow { node: other.1.clone(), ..row }));
                if has_more {
                    rest.push(other);
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Closes the connections of this name on other nodes. Returns false if there are none, or if the user may not see them.
    ///
    /// # Errors
    /// The user may not close them, or their node did not answer in time.
    pub(super) async fn close_at_others(
        &self,
        who: &Identity,
        name: &str,
        reason: &str,
    ) -> Result<bool, AdminError> {
        let mut any = false;
        for (node, node_name) in self.others().await? {
            let mut rows = Vec::new();
            self.add_connections(&[(node, node_name.clone())], &[name.into()], &mut rows).await?;
            for row in rows {
                if self.permit(who, &row.vhost, Verb::ReadVhost, &[]).await.is_err() {
                    continue;
                }
                let owner = Resource::Connection(row.owner());
                self.permit(who, &row.vhost, Verb::CloseConnection, &[owner]).await?;
                let (name, reason) = (row.name.clone(), reason.into());
                let close = FarAsk::Close { name, connected_at_ms: row.connected_at_ms, reason };
                match self.begin_look_at(node, close)?.answer(self.far_deadline()).await? {
                    Some(FarSeen::Closed(closed)) => any |= closed,
                    _ => {
                        return Err(AdminError::Impossible(format!(
                            "node '{node_name}' did not answer in time: the connection may be open"
                        )));
                    }
                }
            }
        }
        Ok(any)
    }

    /// Asks another node, without waiting for the answer.
    pub(super) fn begin_look_at(
        &self,
        node: NodeId,
        ask: FarAsk,
    ) -> Result<Waiting<Option<FarSeen>>, AdminError> {
        self.begin_act(NODE_SHARD.into(), |to| Act::LookAt { node, ask, to })
    }

    /// Returns how long the node shard may take to say what another node has answered. It has its own time, and says when that of the other node
    /// is over.
    pub(super) fn far_deadline(&self) -> Duration {
        self.inner.deadlines.numbers + Duration::from_millis(LOOK_MS)
    }
}
