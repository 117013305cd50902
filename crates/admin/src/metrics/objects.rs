//! Generates families with rows of objects, page by page.

use broker::access::Identity;
use broker::desk::{Desk, Overview, QueueRow};
use broker::pattern::Pattern;

use super::families::{Family, Measure, OfQueue, Rows, Value};
use super::listed::Listed;
use super::node;
use crate::attempts::{self, BySource};
use crate::exposition::Exposition;
use crate::pages::{self, PAGE_BYTES};
use crate::ports::Ports;
use crate::reply::Failure;

/// The most queues that have their own rows. `rabbitmq_queues` says how many queues there are.
const QUEUE_ROWS_MAX: usize = 10_000;

/// The number of rows to request from the desk at once: as many as fit into the page at their usual size in
/// bytes. A page ends with the row that fills it. The rows after it are discarded and requested again.
const BATCH_ROWS: std::ops::RangeInclusive<usize> = 16..=256;
const ROW_BYTES: usize = 80;

/// Which objects have rows.
#[derive(Default)]
pub struct Filter {
    /// The virtual hosts; all of them if it is empty.
    pub vhosts: Vec<String>,
    /// The pattern that the names of queues match.
    pub queue: Option<Pattern>,
}

impl Filter {
    fn wants(&self, row: &QueueRow) -> bool {
        (self.vhosts.is_empty() || self.vhosts.iter().any(|vhost| **vhost == *row.vhost))
            && self.queue.as_ref().is_none_or(|pattern| pattern.is_match(&row.name))
    }
}

/// Generates families one after the other. All samples of a metric must be together, so the queues are walked once per
/// measure. No row of a queue is kept for the next measure: a response that nobody reads would keep it in memory.
pub struct Objects<D> {
    desk: D,
    who: Identity,
    ports: Ports,
    filter: Filter,
    /// The start of all names.
    prefix: &'static str,
    overview: Overview,
    page: Exposition,
    /// The families that are not complete, the next one last.
    families: Vec<&'static Family>,
    /// The rows of the current family, if it is not one of queues.
    listed: Option<Listed>,
    sources: Option<BySource>,
    walk: Walk,
}

/// A walk over the queues.
#[derive(Default)]
struct Walk {
    /// The index of the measure in its family.
    measure: usize,
    /// The next queue to request from the desk.
    from: usize,
    /// The number of queues that have a row of this measure.
    shown: usize,
}

impl<D: Desk> Objects<D> {
    /// `page` is what comes before the families.
    pub fn new(
        (desk, who, ports): (D, Identity, Ports),
        filter: Filter,
        prefix: &'static str,
        (page, overview): (Exposition, Overview),
        mut families: Vec<&'static Family>,
    ) -> Self {
        families.reverse();
        let (listed, sources, walk) = (None, None, Walk::default());
        Self { desk, who, ports, filter, prefix, overview, page, families, listed, sources, walk }
    }

    /// Adds a part of the current family to the page. Returns true if the family is complete.
    async fn add(&mut self, family: &'static Family) -> Result<bool, Failure> {
        match &family.rows {
            Rows::Queues(measures) => self.add_queues(measures).await,
            Rows::AuthAttempts => {
                attempts::by_protocol(&mut self.page, self.prefix, &self.overview);
                Ok(true)
            }
            Rows::AuthAttemptsBySource => {
                if self.sources.is_none() {
                    let rows = self.desk.auth_attempts(&self.who, &self.overview.node, true).await?;
                    self.sources = Some(BySource::new(self.prefix, rows));
                }
                Ok(self.sources.as_mut().is_none_or(|sources| sources.add_to(&mut self.page)))
            }
            Rows::Churn => {
                node::churn(&mut self.page, self.prefix, &self.overview);
                Ok(true)
            }
            Rows::Node => {
                node::resources(&mut self.page, self.prefix, &self.overview);
                Ok(true)
            }
            rows => {
                if self.listed.is_none() {
                    let from = (&self.desk, &self.who, &self.ports);
                    self.listed = Listed::collect(rows, self.prefix, from, &self.filter.vhosts).await?;
                }
                Ok(self.listed.as_mut().is_none_or(|listed| listed.add_to(&mut self.page)))
            }
        }
    }

    async fn add_queues(&mut self, measures: &'static [Measure<OfQueue>]) -> Result<bool, Failure> {
        while let Some(measure) = measures.get(self.walk.measure) {
            let room = PAGE_BYTES.saturating_sub(self.page.len());
            if room == 0 {
                return Ok(false);
            }
            let limit = (room / ROW_BYTES).clamp(*BATCH_ROWS.start(), *BATCH_ROWS.end());
            let rows = self.desk.queue_rows(&self.who, self.walk.from, limit).await?;
            let is_last = self.add_rows(measure, &rows) && rows.len() < limit;
            if is_last || self.walk.shown == QUEUE_ROWS_MAX {
                // If no queue has a group, none has the other figures of a group.
                if measure.of.is_of_group() && self.walk.shown == 0 {
                    break;
                }
                self.walk = Walk { measure: self.walk.measure + 1, ..Walk::default() };
            }
        }
        self.walk = Walk::default();
        Ok(true)
    }

    /// Adds rows of queues until the page is full. Returns true if all of them are on it.
    fn add_rows(&mut self, measure: &'static Measure<OfQueue>, rows: &[(usize, QueueRow)]) -> bool {
        for (place, row) in rows {
            if self.page.len() >= PAGE_BYTES || self.walk.shown == QUEUE_ROWS_MAX {
                return false;
            }
            self.walk.from = place + 1;
            let Some(value) = measure.of.value(row).filter(|_| self.filter.wants(row)) else { continue };
            self.walk.shown += 1;
            let name = format!("{}{}", self.prefix, measure.name);
            let mut samples = match self.walk.shown {
                1 => self.page.named(measure.kind, name, measure.help),
                _ => self.page.same_named(name),
            };
            let (vhost, queue) = (("vhost", &*row.vhost), ("queue", &*row.name));
            match value {
                Value::Number(value) => _ = samples.sample(&[vhost, queue], value),
                Value::Milliseconds(ms) => _ = samples.sample_ms(&[vhost, queue], ms),
                Value::Info { queue_type, membership } => {
                    let labels = [vhost, queue, ("queue_type", queue_type), ("membership", membership)];
                    samples.sample(&labels, 1);
                }
            }
        }
        true
    }
}

impl<D: Desk> pages::Source for Objects<D> {
    async fn next_page(mut self) -> Result<(String, Option<Self>), Failure> {
        while let Some(family) = self.families.last().copied() {
            if self.page.len() >= PAGE_BYTES || !self.add(family).await? {
                return Ok((std::mem::take(&mut self.page).into_text(), Some(self)));
            }
            self.families.pop();
            (self.listed, self.sources) = (None, None);
        }
        Ok((self.page.into_text(), None))
    }
}
