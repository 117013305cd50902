//! Statistics of everything in all virtual hosts, for metrics and samples.

use std::collections::HashSet;
use std::sync::Arc;

use broker::admin_api::{AdminError, ConnectionCursor, ConnectionRow, ExchangeRow, QueueRow};
use broker::exchange_counts::ExchangeCounts;
use catalog::ExchangeId;
use catalog::access::{Identity, Verb};
use catalog::ids::QueueId;

use super::AdminApi;
use super::reports::Asks;
use crate::shard::looks;

impl AdminApi {
    /// Returns up to `limit` queues of all virtual hosts, from place `from` on, each with its place. If there are fewer
    /// than `limit` rows, they are the last ones. The next call starts at the place of the last row plus one. Queues
    /// may be created and deleted between the calls. The metrics use this call: their readers do not log in, and the
    /// operator decides who reaches the port. Other nodes are not asked: each has its own metrics.
    pub async fn queue_rows(
        &self,
        who: &Identity,
        from: usize,
        limit: usize,
    ) -> Result<Vec<(usize, QueueRow)>, AdminError> {
        self.permit(who, "", Verb::ReadAllStatistics, &[]).await?;
        let (mut rows, mut from) = (Vec::new(), Some(from));
        while let Some(place) = from.filter(|_| rows.len() < limit) {
            let part = self.part_of_queues(place).await?;
            rows.extend(part.rows);
            from = part.next;
        }
        rows.truncate(limit);
        let (places, records): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        Ok(places.into_iter().zip(self.with_numbers(Asks::ThisNode, &records).await?).collect())
    }

    async fn permit_statistics(&self, who: &Identity) -> Result<(), AdminError> {
        self.permit(who, "", Verb::ReadAllStatistics, &[]).await
    }

    /// Returns the statistics of the queues with these ids, in any order. Queues that were deleted are left out. Like
    /// [`Self::queue_rows`], this is for readers who see everything.
    pub async fn sampled_queues(&self, who: &Identity, ids: &[QueueId]) -> Result<Vec<QueueRow>, AdminError> {
        self.permit_statistics(who).await?;
        let records = self.records(ids).await?;
        self.with_numbers(Asks::AllNodes, &records).await
    }

    /// Returns the queues that have had messages since the start, with how many were published to each and delivered from it
    /// together. See [`Self::sampled_queues`].
    pub async fn used_queues(&self, who: &Identity) -> Result<Vec<(QueueId, u64)>, AdminError> {
        self.permit_statistics(who).await?;
        self.list_everywhere(|from| looks::UsedQueues { from }).await
    }

    /// Returns those of the connections with these names that are open, in any order. See [`Self::sampled_queues`].
    pub async fn sampled_connections(
        &self,
        who: &Identity,
        names: Arc<HashSet<Arc<str>>>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        self.permit_statistics(who).await?;
        self.named_connections(names).await
    }

    /// Returns a part of all connections, and the place after it: `None` after the last part. A part may be empty.
    /// Connections may come and go between the calls. See [`Self::sampled_queues`].
    pub async fn connection_rows(
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

    /// Returns all exchanges. See [`Self::sampled_queues`].
    pub async fn exchange_rows(&self, who: &Identity) -> Result<Vec<ExchangeRow>, AdminError> {
        self.permit_statistics(who).await?;
        let mut rows = self.all_exchanges().await?;
        self.count_exchanges(&mut rows).await?;
        Ok(rows)
    }

    /// Returns the counts of these exchanges, in this order. Those of an exchange that was deleted are 0. See
    /// [`Self::sampled_queues`].
    pub async fn sampled_exchanges(
        &self,
        who: &Identity,
        ids: &[ExchangeId],
    ) -> Result<Vec<ExchangeCounts>, AdminError> {
        self.permit_statistics(who).await?;
        self.counts_of_exchanges(ids).await
    }
}
