//! Rows of queues, which are collected once for a family: all samples of a metric must be together, and asking the shards again
//! for each metric took most of the time.

use std::sync::Arc;

use broker::admin_api::{QueueRow, Seen};
use catalog::access::Identity;
use node::AdminApi;

use super::families::{Measure, OfQueue, Value};
use super::filter::Filter;
use crate::budget::Reservation;
use crate::exposition::Exposition;
use crate::pages::PAGE_BYTES;
use crate::pauses::{Matches, Pauses};
use crate::ports::Ports;
use crate::reply::Failure;

/// The most queues that have their own rows. `rabbitmq_queues` says how many queues there are.
const ROWS_MAX: usize = 10_000;

/// The number of rows to request from the admin API at once, so that no shard is busy with a request for long.
const ROWS_PER_REQUEST: usize = 500;

/// The steps of comparing a virtual host with one of those that a request names.
const VHOST_STEPS: u64 = 1;

/// What a family says of one queue: its virtual host, its name, and a value for each measure that it has.
type Row = (Arc<str>, Arc<str>, Box<[Option<Value>]>);

/// A family of queues, as far as it is not on a page yet.
pub(super) struct OfQueues {
    measures: &'static [Measure<OfQueue>],
    rows: Vec<Row>,
    /// The index of the next measure, and its next row.
    measure: usize,
    from: usize,
    /// True if the measure has a sample already.
    is_begun: bool,
    /// The memory of the rows.
    _held: Reservation,
}

impl OfQueues {
    /// Collects the rows of the queues that the filter wants and that have any of the measures.
    ///
    /// # Errors
    /// The admin API's error, 400 if the pattern of the filter costs too much for so many queues, or 503 if too much memory is in use for responses.
    pub(super) async fn collect(
        measures: &'static [Measure<OfQueue>],
        filter: &Filter,
        (api, who, ports): (&AdminApi, &Identity, &Ports),
    ) -> Result<Self, Failure> {
        let row = |row: &QueueRow| -> Option<Row> {
            let values: Box<[_]> = measures.iter().map(|measure| measure.of.value(row)).collect();
            let has_any = values.iter().any(Option::is_some);
            has_any.then(|| (row.vhost.clone(), row.name.clone(), values))
        };
        let (mut rows, mut from) = (Vec::new(), 0);
        let (mut matches, mut pauses) = (filter.queue.as_ref().map(Matches::new), Pauses::default());
        while rows.len() < ROWS_MAX {
            let part = api.queue_rows(who, from, ROWS_PER_REQUEST).await?;
            for (_, found) in &part {
                pauses.count(VHOST_STEPS * filter.vhosts.len() as u64).await;
                // The other nodes have metrics of their own queues.
                let is_wanted = found.seen == Seen::Here
                    && filter.wants_vhost(&found.vhost)
                    && match &mut matches {
                        Some(matches) => matches.is_match(&found.name).await?,
                        None => true,
                    };
                rows.extend(is_wanted.then(|| row(found)).flatten());
            }
            match part.last() {
                Some((place, _)) if part.len() == ROWS_PER_REQUEST => from = place + 1,
                _ => break,
            }
        }
        rows.truncate(ROWS_MAX);
        let bytes = |(vhost, name, values): &Row| {
            size_of::<Row>() + vhost.len() + name.len() + size_of_val(&**values)
        };
        let held = ports.hold_answer(rows.iter().map(bytes).sum())?;
        Ok(Self { measures, rows, measure: 0, from: 0, is_begun: false, _held: held })
    }

    /// Adds samples to a page until it is full. Returns true if all samples are on it or on an earlier one.
    pub(super) fn add_to(&mut self, page: &mut Exposition, prefix: &str) -> bool {
        while let Some(measure) = self.measures.get(self.measure) {
            let name = format!("{prefix}{}", measure.name);
            while let Some((vhost, queue, values)) = self.rows.get(self.from) {
                if page.len() >= PAGE_BYTES {
                    return false;
                }
                self.from += 1;
                let Some(value) = &values[self.measure] else { continue };
                // A metric that no queue has is not named.
                let mut samples = match std::mem::replace(&mut self.is_begun, true) {
                    true => page.same_named(&name),
                    false => page.named(measure.kind, name.as_str(), measure.help),
                };
                let (vhost, queue) = (("vhost", &**vhost), ("queue", &**queue));
                match *value {
                    Value::Number(value) => _ = samples.sample(&[vhost, queue], value),
                    Value::Milliseconds(ms) => _ = samples.sample_ms(&[vhost, queue], ms),
                    Value::Info { queue_type, membership } => {
                        let labels = [vhost, queue, ("queue_type", queue_type), ("membership", membership)];
                        samples.sample(&labels, 1);
                    }
                }
            }
            (self.measure, self.from, self.is_begun) = (self.measure + 1, 0, false);
        }
        true
    }
}
