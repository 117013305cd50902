//! The statistics of queues, from the shards of this node and from other nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::admin_api::{AdminError, QueueNumbers, QueueRow, Seen};
use broker::ids::Where;
use catalog::QueueRecord;
use catalog::ids::{NodeId, QueueId};
use queue::{Effect, Request};

use super::AdminApi;
use super::ask::NO_TICKET;
use crate::peer::{FarAsk, FarNumbers, FarSeen};
use crate::shard::looks;
use crate::shard::questions::PLACES_PER_PART;

/// The statistics of a queue, as far as they are known.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub numbers: QueueNumbers,
    pub seen: Seen,
    /// The node that the queue is on.
    pub node: Arc<str>,
}

/// Which nodes are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    ThisNode,
    AllNodes,
}

/// A queue of another node: its place among the records, and its id.
type FarQueue = (usize, QueueId);

impl AdminApi {
    /// Returns the rows of queues.
    pub(super) async fn with_numbers(
        &self,
        asks: Asks,
        records: &[Arc<QueueRecord>],
    ) -> Result<Vec<QueueRow>, AdminError> {
        let found = self.reports(asks, records).await?;
        let row = |(record, Found { numbers, seen, node }): (&Arc<QueueRecord>, _)| {
            QueueRow::new(record, numbers, (node, seen))
        };
        Ok(records.iter().zip(found).map(row).collect())
    }

    /// Returns the statistics of queues, in this order. Those of a queue without a home are empty. An other node that is out of reach, or does not
    /// answer in time, is no error.
    pub(super) async fn reports(
        &self,
        asks: Asks,
        records: &[Arc<QueueRecord>],
    ) -> Result<Vec<Found>, AdminError> {
        let here = |numbers| Found { numbers, seen: Seen::Here, node: self.inner.node.clone() };
        if !self.is_in_cluster() {
            return Ok(self.reports_here(records).await?.into_iter().map(here).collect());
        }
        let mut found = vec![here(QueueNumbers::default()); records.len()];
        let mut far = BTreeMap::<NodeId, Vec<FarQueue>>::new();
        for (at, elsewhere) in self.elsewhere(records).await?.into_iter().enumerate() {
            if let Some((node, name)) = elsewhere {
                far.entry(node).or_default().push((at, records[at].id));
                found[at] = Found { numbers: QueueNumbers::default(), seen: Seen::Unknown, node: name };
            }
        }
        let at_home: Vec<usize> = (0..records.len()).filter(|at| found[*at].seen == Seen::Here).collect();
        let near: Vec<_> = at_home.iter().map(|at| records[*at].clone()).collect();
        for (at, numbers) in at_home.into_iter().zip(self.reports_here(&near).await?) {
            found[at].numbers = numbers;
        }
        if asks == Asks::AllNodes {
            self.ask_others(records, far, &mut found).await?;
        }
        Ok(found)
    }

    /// Returns the other node on which each queue is, and its name, in this order; `None` for a queue that is not on another node.
    async fn elsewhere(
        &self,
        records: &[Arc<QueueRecord>],
    ) -> Result<Vec<Option<(NodeId, Arc<str>)>>, AdminError> {
        let mut all = Vec::with_capacity(records.len());
        for records in records.chunks(PLACES_PER_PART) {
            let ids: Vec<QueueId> = records.iter().map(|record| record.id).collect();
            let nodes = self.read(ids.len(), move |catalog, placements| {
                let names: BTreeMap<NodeId, Arc<str>> =
                    catalog.nodes().values().map(|known| (known.id(), known.name.clone())).collect();
                let node = |id| match placements.home(id) {
                    // The catalog knows the node of each queue.
                    Where::On(node) => Some((node, names.get(&node).cloned().unwrap_or_default())),
                    Where::Here(_) | Where::Unplaced | Where::Nobody => None,
                };
                ids.into_iter().map(node).collect::<Vec<_>>()
            });
            all.extend(nodes.await?);
        }
        Ok(all)
    }

    /// Asks other nodes for the statistics of their queues, all at the same time.
    async fn ask_others(
        &self,
        records: &[Arc<QueueRecord>],
        far: BTreeMap<NodeId, Vec<FarQueue>>,
        found: &mut [Found],
    ) -> Result<(), AdminError> {
        let mut rest: Vec<(NodeId, Vec<FarQueue>)> = far.into_iter().collect();
        let mut unopened = Vec::new();
        while !rest.is_empty() {
            let mut asked = Vec::new();
            for (node, mut queues) in std::mem::take(&mut rest) {
                let later = queues.split_off(queues.len().min(PLACES_PER_PART));
                let waiting = self.begin_look_at(node, FarAsk::Reports(ids_of(&queues)))?;
                asked.push((node, queues, later, waiting));
            }
            for (node, queues, later, waiting) in asked {
                let answer = waiting.answer(self.far_deadline()).await?;
                let Some(FarSeen::Reports(mut answer)) = answer else { continue };
                for (at, id) in queues {
                    take_in(&mut answer, id, &mut found[at]);
                    if records[at].is_stream() && found[at].numbers.report.stream.is_none() {
                        unopened.push((at, id));
                    }
                }
                if !later.is_empty() {
                    rest.push((node, later));
                }
            }
        }
        self.open_streams(&unopened, found).await
    }

    /// Asks streams of other nodes that nobody has used since their nodes started. A request opens them.
    async fn open_streams(&self, unopened: &[FarQueue], found: &mut [Found]) -> Result<(), AdminError> {
        for streams in unopened.chunks(PLACES_PER_PART) {
            let mut asked = Vec::with_capacity(streams.len());
            for (at, queue) in streams {
                asked.push((*at, self.begin_ask_queue(*queue, Request::Report { ticket: NO_TICKET })?));
            }
            // All have the same time, together.
            let deadline = tokio::time::Instant::now() + self.inner.deadlines.numbers;
            for (at, waiting) in asked {
                let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                match waiting.answer(left).await {
                    Ok(Effect::Report { report, .. }) => {
                        let Found { numbers, seen, .. } = &mut found[at];
                        let delivered = numbers.report.delivered;
                        numbers.report = *report;
                        numbers.report.delivered += delivered;
                        *seen = Seen::Elsewhere;
                    }
                    // The stream was deleted in the meantime, or its node cannot open it.
                    Ok(_) => {}
                    Err(_) => found[at].seen = Seen::Unknown,
                }
            }
        }
        Ok(())
    }

    /// Returns the reports of queues, from the shards of this node where they live; an empty report for a queue without a
    /// home here. Each stream is asked with a request of its own, because an unused stream must be opened first.
    /// Its count of deliveries is the sum over all shards.
    async fn reports_here(&self, records: &[Arc<QueueRecord>]) -> Result<Vec<QueueNumbers>, AdminError> {
        let mut reports = vec![QueueNumbers::default(); records.len()];
        let ids = |is_stream: bool| {
            let records =
                records.iter().enumerate().filter(move |(_, record)| record.is_stream() == is_stream);
            records.map(|(i, record)| (i, record.id)).collect::<Vec<(usize, QueueId)>>()
        };
        let streams = ids(true);
        let report = || Request::Report { ticket: NO_TICKET };
        let asked = streams
            .iter()
            .map(|&(i, queue)| Ok((i, self.begin_ask_queue(queue, report())?)))
            .collect::<Result<Vec<_>, AdminError>>()?;
        for (i, asked) in asked {
            // The stream was deleted in the meantime if any other effect arrives.
            if let Effect::Report { report, .. } = asked.answer(self.inner.deadlines.numbers).await? {
                reports[i].report = *report;
            }
        }
        for rows in streams.chunks(PLACES_PER_PART) {
            for found in self.look_everywhere(looks::Delivered(ids_of(rows))).await? {
                rows.iter()
                    .zip(found)
                    .for_each(|((i, _), delivered)| reports[*i].report.delivered += delivered);
            }
        }
        let mut by_home = vec![Vec::new(); self.inner.shards.len()];
        let rows = ids(false);
        let homes = self.homes(rows.iter().map(|(_, id)| *id)).await?;
        for (row, home) in rows.into_iter().zip(homes) {
            if let Some(here) = home.here().and_then(|home| by_home.get_mut(usize::from(home))) {
                here.push(row);
            }
        }
        for (home, here) in by_home.into_iter().enumerate() {
            for rows in here.chunks(PLACES_PER_PART) {
                let found = self.look(home, looks::Reports(ids_of(rows))).await?;
                for ((i, _), report) in rows.iter().zip(found) {
                    reports[*i] = report.unwrap_or_default();
                }
            }
        }
        Ok(reports)
    }

    /// Returns true if the node is in a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.inner.identity.membership.is_some()
    }
}

/// Takes what another node has said about a queue. Nothing is said about one that has no home there yet: it is empty.
fn take_in(answer: &mut FarNumbers, id: QueueId, found: &mut Found) {
    found.seen = Seen::Elsewhere;
    if let Some(row) = answer.remove(&id) {
        found.numbers = row.numbers.unwrap_or_default();
        found.numbers.report.delivered += row.delivered;
    }
}

fn ids_of(rows: &[(usize, QueueId)]) -> Vec<QueueId> {
    rows.iter().map(|(_, id)| *id).collect()
}
