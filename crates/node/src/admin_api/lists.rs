//! Reads whole lists from the shards, part by part.

use std::collections::HashSet;
use std::sync::Arc;

use broker::admin_api::{AdminError, ConnectionRow, ExchangeRow};
use broker::exchange_counts::ExchangeCounts;
use catalog::ExchangeId;
use catalog::access::{Identity, Verb};
use catalog::{Binding, BindingCursor, Catalog, Exchange, ExchangeKind, Policy, QueueRecord};

use super::AdminApi;
use super::reports::Asks;
use crate::shard::looks;
use crate::shard::questions::{PLACES_PER_PART, Part};

type PartOfBindings = Part<Arc<Binding>, BindingCursor>;

fn queue_at(catalog: &Catalog, place: usize) -> Option<(usize, Arc<QueueRecord>)> {
    Some((place, catalog.queue_at(place)?))
}

impl AdminApi {
    /// Returns the connections that the user may see.
    pub(super) async fn visible_connections(
        &self,
        asks: Asks,
        who: &Identity,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        let mut rows = self.all_connections(None).await?;
        if asks == Asks::AllNodes {
            rows.extend(self.connections_of_others(None).await?);
        }
        self.keep_visible(who, Verb::ReadVhost, &mut rows, |row| &row.vhost).await;
        let mut seen = Vec::new();
        for row in rows {
            if self.permit_connection(who, &row).await.is_ok() {
                seen.push(row);
            }
        }
        Ok(seen)
    }

    /// Returns the connections with these names, of all nodes and without checking permissions. Other nodes are asked for the names that this node
    /// does not have.
    pub(super) async fn named_connections(
        &self,
        names: Arc<HashSet<Arc<str>>>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        let mut rows = self.all_connections(Some(names.clone())).await?;
        let here: HashSet<&Arc<str>> = rows.iter().map(|row| &row.name).collect();
        let elsewhere: Vec<Arc<str>> = names.iter().filter(|name| !here.contains(name)).cloned().collect();
        if !elsewhere.is_empty() {
            rows.extend(self.connections_of_others(Some(&elsewhere)).await?);
        }
        Ok(rows)
    }

    /// Returns every connection of this node, or those with these names, without checking permissions.
    pub(super) async fn all_connections(
        &self,
        names: Option<Arc<HashSet<Arc<str>>>>,
    ) -> Result<Vec<ConnectionRow>, AdminError> {
        let node = &self.inner.node;
        let part = |from| looks::Connections { node: node.clone(), names: names.clone(), from };
        self.list_everywhere(part).await
    }

    /// Returns every queue with its place, in the order of places and without checking permissions.
    pub(super) async fn queues_with_places(&self) -> Result<Vec<(usize, Arc<QueueRecord>)>, AdminError> {
        self.read_table(Catalog::queue_places, queue_at).await
    }

    /// Returns a part of all queues with their places.
    pub(super) async fn part_of_queues(
        &self,
        from: usize,
    ) -> Result<Part<(usize, Arc<QueueRecord>)>, AdminError> {
        self.read_part(from, Catalog::queue_places, queue_at).await
    }

    /// Returns every exchange in the order of their names, without its counts and without checking permissions.
    pub(super) async fn all_exchanges(&self) -> Result<Vec<ExchangeRow>, AdminError> {
        let row = |catalog: &Catalog, place: usize| {
            let (exchange, id, bindings) = catalog.exchange_at(place)?;
            Some(ExchangeRow { id, exchange, bindings, counts: ExchangeCounts::default() })
        };
        let mut all = self.read_table(Catalog::exchange_places, row).await?;
        let name = |row: &ExchangeRow| (row.exchange.vhost.clone(), row.exchange.name.clone());
        all.sort_by_cached_key(name);
        // An exchange may appear twice if it was deleted and declared again while the parts were read.
        all.dedup_by_key(|row| name(row));
        Ok(all)
    }

    /// Returns true if there is such an exchange, and its type is topic.
    pub(super) async fn is_topic_exchange(&self, vhost: &str, name: &str) -> Result<bool, AdminError> {
        let (vhost, name) = (vhost.to_owned(), name.to_owned());
        let is_topic = |found: Arc<Exchange>| found.kind == ExchangeKind::Topic;
        self.read(0, move |catalog, _| catalog.exchange(&vhost, &name).is_some_and(is_topic)).await
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
        for (ids, sums) in ids.chunks(PLACES_PER_PART).zip(sums.chunks_mut(PLACES_PER_PART)) {
            for counts in self.look_everywhere(looks::CountsOfExchanges(ids.to_vec())).await? {
                sums.iter_mut().zip(counts).for_each(|(sum, counts)| *sum += counts);
            }
        }
        Ok(sums)
    }

    /// Returns every policy, or operator policy, in the order of their names, without checking permissions.
    pub(super) async fn all_policies(&self, operator: bool) -> Result<Vec<Arc<Policy>>, AdminError> {
        let policies =
            move |catalog: &Catalog, _: &_| catalog.policies(operator).cloned().collect::<Vec<_>>();
        let mut all = self.read(0, policies).await?;
        all.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        Ok(all)
    }

    /// Returns every binding in order, without checking permissions.
    pub(super) async fn all_bindings(&self) -> Result<Vec<Arc<Binding>>, AdminError> {
        self.bindings_of_parts(|part| part).await
    }

    /// Returns the bindings without those of the default exchange, which are made for each answer: with many queues, they would
    /// take megabytes of each request that waits.
    pub(super) async fn declared_bindings(&self) -> Result<Vec<Arc<Binding>>, AdminError> {
        let declared = |mut part: PartOfBindings| {
            part.rows.retain(|binding| !binding.source.is_empty());
            // The bindings of the default exchange come last.
            part.next = part.next.filter(|next| matches!(next, BindingCursor::Exchange { .. }));
            part
        };
        self.bindings_of_parts(declared).await
    }

    async fn bindings_of_parts(
        &self,
        choose: fn(PartOfBindings) -> PartOfBindings,
    ) -> Result<Vec<Arc<Binding>>, AdminError> {
        let (mut all, mut next) = (Vec::new(), Some(BindingCursor::default()));
        while let Some(from) = next {
            let part = move |catalog: &Catalog, _: &_| {
                let (rows, next) = catalog.bindings_from(from, PLACES_PER_PART);
                choose(Part { rows, next })
            };
            let part = self.read(PLACES_PER_PART, part).await?;
            all.extend(part.rows);
            next = part.next;
        }
        all.sort_by(|a, b| {
            (&a.vhost, &a.source, &a.destination, &a.key).cmp(&(&b.vhost, &b.source, &b.destination, &b.key))
        });
        // A binding may appear twice if its queue or exchange was declared again while the parts were read.
        all.dedup();
        Ok(all)
    }
}
