//! Statistics of everything in all virtual hosts, for metrics and samples.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use broker::admin_api::{AdminError, ConnectionCursor, ConnectionRow, ExchangeRow, QueueRow, VhostNumbers};
use broker::exchange_counts::ExchangeCounts;
use catalog::ExchangeId;
use catalog::access::{Identity, Verb};
use catalog::ids::QueueId;

use super::NodeAdminApi;
use crate::shard::looks;

impl NodeAdminApi {
    async fn permit_statistics(&self, who: &Identity) -> Result<(), AdminError> {
        self.permit(who, "", Verb::ReadAllStatistics, &[]).await
    }

    /// See [`broker::admin_api::AdminApi::sampled_queues`].
    pub(super) async fn statistics_of_queues(
        &self,
        who: &Identity,
        ids: &[QueueId],
    ) -> Result<Vec<QueueRow>, AdminError> {
        self.permit_statistics(who).await?;
        let records = self.records(ids).await?;
        self.with_numbers(&records).await
    }

    /// See [`broker::admin_api::AdminApi::used_queues`].
    pub(super) async fn queues_with_traffic(
        &self,
        who: &Identity,
    ) -> Result<Vec<(QueueId, u64)>, AdminError> {
        self.permit_statistics(who).await?;
        self.list_everywhere(|from| looks::UsedQueues { from }).await
    }

    /// See [`broker::admin_api::AdminApi::sampled_connections`].
    pub(super) async fn statistics_of_connections(
        &self,
        who: &Identity,
        names: Arc<HashSet<Arc<str>>>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        self.permit_statistics(who).await?;
        self.all_connections(Some(names)).await
    }

    /// See [`broker::admin_api::AdminApi::connection_rows`].
    pub(super) async fn part_of_connections(
        &self,
        who: &Identity,
        from: ConnectionCursor,
    ) -> Result<(Vec<ConnectionRow>, Option<ConnectionCursor>), AdminError> {
        self.permit_statistics(who).await?;
        let ConnectionCursor { shard, place } = from;
        let connections = looks::Connections { node: self.inner.node.clone(), names: None, from: place };
        let part = self.look(shard, connections).await?;
        let next = match part.next {
            Some(place) => Some(ConnectionCursor { shard, place }),
            None if shard + 1 < self.inner.shards.len() => {
                Some(ConnectionCursor { shard: shard + 1, place: 0 })
            }
            None => None,
        };
        Ok((part.rows, next))
    }

    /// See [`broker::admin_api::AdminApi::exchange_rows`].
    pub(super) async fn statistics_of_exchanges(
        &self,
        who: &Identity,
    ) -> Result<Vec<ExchangeRow>, AdminError> {
        self.permit_statistics(who).await?;
        let mut rows = self.all_exchanges().await?;
        self.count_exchanges(&mut rows).await?;
        Ok(rows)
    }

    /// See [`broker::admin_api::AdminApi::vhost_numbers`].
    pub(super) async fn numbers_of_vhosts(
        &self,
        who: &Identity,
    ) -> Result<HashMap<Arc<str>, VhostNumbers>, AdminError> {
        let mut sums = HashMap::<Arc<str>, VhostNumbers>::new();
        for (vhost, numbers) in self.list_everywhere(|from| looks::NumbersOfVhosts { from }).await? {
            *sums.entry(vhost).or_default() += numbers;
        }
        let mut visible: Vec<_> = sums.into_iter().collect();
        self.keep_visible(who, Verb::ReadVhost, &mut visible, |(vhost, _)| vhost).await;
        Ok(visible.into_iter().collect())
    }

    /// See [`broker::admin_api::AdminApi::sampled_exchanges`].
    pub(super) async fn sums_of_exchanges(
        &self,
        who: &Identity,
        ids: &[ExchangeId],
    ) -> Result<Vec<ExchangeCounts>, AdminError> {
        self.permit_statistics(who).await?;
        self.counts_of_exchanges(ids).await
    }
}
