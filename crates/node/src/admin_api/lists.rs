//! Reads whole lists from the shards, part by part.

use std::collections::HashSet;
use std::sync::Arc;

use broker::admin_api::{AdminError, ConnectionRow, ExchangeRow};
use broker::exchange_counts::ExchangeCounts;
use broker::ids::NODE_SHARD;
use catalog::ExchangeId;
use catalog::access::{Identity, Verb};
use catalog::{Binding, BindingCursor, Exchange, ExchangeKind, Policy};

use super::NodeAdminApi;
use super::ask::other_answer;
use crate::questions::{PLACES_PER_PART, Part, Question, Reply};

impl NodeAdminApi {
    /// Returns the connections that the user may see.
    pub(super) async fn visible_connections(&self, who: &Identity) -> Result<Vec<ConnectionRow>, AdminError> {
        let mut rows = self.all_connections(None).await?;
        self.keep_visible(who, Verb::ReadVhost, &mut rows, |row| &row.vhost).await;
        let mut seen = Vec::new();
        for row in rows {
            if self.permit_connection(who, &row).await.is_ok() {
                seen.push(row);
            }
        }
        Ok(seen)
    }

    /// Returns every connection, or those with these names, without checking permissions.
    pub(super) async fn all_connections(
        &self,
        names: Option<Arc<HashSet<Arc<str>>>>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        let mut rows = Vec::new();
        for shard in 0..self.inner.shards.len() {
            let (node, names) = (&self.inner.node, &names);
            let question = |from| Question::Connections { node: node.clone(), names: names.clone(), from };
            let part = |reply| if let Reply::Connections(part) = reply { Some(part) } else { None };
            rows.extend(self.ask_for_all(shard, question, part).await?);
        }
        Ok(rows)
    }

    /// Returns every exchange in the order of their names, without its counts and without checking permissions.
    pub(super) async fn all_exchanges(&self) -> Result<Vec<ExchangeRow>, AdminError> {
        let part = |reply| if let Reply::Exchanges(part) = reply { Some(part) } else { None };
        let mut all = self.ask_for_all(NODE_SHARD.into(), |from| Question::Exchanges { from }, part).await?;
        let name = |row: &ExchangeRow| (row.exchange.vhost.clone(), row.exchange.name.clone());
        all.sort_by_cached_key(name);
        // An exchange may appear twice if it was deleted and declared again while the parts were read.
        all.dedup_by_key(|row| name(row));
        Ok(all)
    }

    /// Returns true if there is such an exchange, and its type is topic.
    pub(super) async fn is_topic_exchange(&self, vhost: &str, name: &str) -> Result<bool, AdminError> {
        let is_it = |x: &Exchange| *x.vhost == *vhost && *x.name == *name && x.kind == ExchangeKind::Topic;
        Ok(self.all_exchanges().await?.iter().any(|row| is_it(&row.exchange)))
    }

    /// Fills in the counts of exchanges.
    pub(super) async fn count_exchanges(&self, rows: &mut [ExchangeRow]) -> Result<(), AdminError> {
        let ids: Vec<ExchangeId> = rows.iter().map(|row| row.id).collect();
        let counts = self.counts_of_exchanges(&ids).await?;
        rows.iter_mut().zip(counts).for_each(|(row, counts)| row.counts = counts);
        Ok(())
    }

    /// Returns the sums of the counts of exchanges over all shards, in this order.
    pub(super) async fn counts_of_exchanges(
        &self,
        ids: &[ExchangeId],
    ) -> Result<Vec<ExchangeCounts>, AdminError> {
        let mut sums = vec![ExchangeCounts::default(); ids.len()];
        for shard in 0..self.inner.shards.len() {
            for (ids, sums) in ids.chunks(PLACES_PER_PART).zip(sums.chunks_mut(PLACES_PER_PART)) {
                let question = Question::ExchangeCounts(ids.to_vec());
                let Reply::ExchangeCounts(counts) = self.ask(shard, question).await? else {
                    return Err(other_answer());
                };
                sums.iter_mut().zip(counts).for_each(|(sum, counts)| *sum += counts);
            }
        }
        Ok(sums)
    }

    /// Returns every policy, or operator policy, in the order of their names, without checking permissions.
    pub(super) async fn all_policies(&self, operator: bool) -> Result<Vec<Arc<Policy>>, AdminError> {
        let Reply::Policies(mut all) = self.ask(NODE_SHARD.into(), Question::Policies { operator }).await?
        else {
            return Err(other_answer());
        };
        all.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        Ok(all)
    }

    /// Returns every binding in order, without checking permissions.
    pub(super) async fn all_bindings(&self) -> Result<Vec<Arc<Binding>>, AdminError> {
        let part = |reply| if let Reply::Bindings(part) = reply { Some(part) } else { None };
        self.bindings_of_parts(part).await
    }

    /// Returns the bindings without those of the default exchange, which are made for each answer: with many queues, they would
    /// take megabytes of each request that waits.
    pub(super) async fn declared_bindings(&self) -> Result<Vec<Arc<Binding>>, AdminError> {
        let part = |reply| {
            let Reply::Bindings(mut part) = reply else { return None };
            part.rows.retain(|binding| !binding.source.is_empty());
            // The bindings of the default exchange come last.
            part.next = part.next.filter(|next| matches!(next, BindingCursor::Exchange { .. }));
            Some(part)
        };
        self.bindings_of_parts(part).await
    }

    async fn bindings_of_parts(
        &self,
        part: impl Fn(Reply) -> Option<Part<Arc<Binding>, BindingCursor>>,
    ) -> Result<Vec<Arc<Binding>>, AdminError> {
        let mut all = self.ask_for_all(NODE_SHARD.into(), |from| Question::Bindings { from }, part).await?;
        all.sort_by(|a, b| {
            (&a.vhost, &a.source, &a.destination, &a.key).cmp(&(&b.vhost, &b.source, &b.destination, &b.key))
        });
        // A binding may appear twice if its queue or exchange was declared again while the parts were read.
        all.dedup();
        Ok(all)
    }
}
