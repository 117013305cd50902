//! Generates families with rows of objects, page by page.

use ::node::AdminApi;
use broker::admin_api::Overview;
use catalog::access::Identity;

use super::families::{Family, Rows};
use super::filter::Filter;
use super::listed::Listed;
use super::node;
use super::queues::OfQueues;
use crate::attempts::{self, BySource};
use crate::exposition::Exposition;
use crate::pages::{self, PAGE_BYTES};
use crate::ports::Ports;
use crate::reply::Failure;

/// Generates families one after the other. The rows of one family are in memory while its pages are read.
pub(super) struct Objects {
    api: AdminApi,
    who: Identity,
    ports: Ports,
    filter: Filter,
    /// The start of all names.
    prefix: &'static str,
    overview: Overview,
    page: Exposition,
    /// The families that are not complete, the next one last.
    families: Vec<&'static Family>,
    /// The rows of the current family, of the kind that it has.
    queues: Option<OfQueues>,
    listed: Option<Listed>,
    sources: Option<BySource>,
}

impl Objects {
    /// `page` is what comes before the families.
    pub(super) fn new(
        (api, who, ports): (AdminApi, Identity, Ports),
        filter: Filter,
        prefix: &'static str,
        (page, overview): (Exposition, Overview),
        mut families: Vec<&'static Family>,
    ) -> Self {
        families.reverse();
        let (queues, listed, sources) = (None, None, None);
        Self { api, who, ports, filter, prefix, overview, page, families, queues, listed, sources }
    }

    /// Adds a part of the current family to the page. Returns true if the family is complete.
    async fn add(&mut self, family: &'static Family) -> Result<bool, Failure> {
        match &family.rows {
            Rows::Queues(measures) => {
                if self.queues.is_none() {
                    let from = (&self.api, &self.who, &self.ports);
                    self.queues = Some(OfQueues::collect(measures, &self.filter, from).await?);
                }
                Ok(self.queues.as_mut().is_none_or(|queues| queues.add_to(&mut self.page, self.prefix)))
            }
            Rows::AuthAttempts => {
                attempts::by_protocol(&mut self.page, self.prefix, &self.overview);
                Ok(true)
            }
            Rows::AuthAttemptsBySource => {
                if self.sources.is_none() {
                    let rows = self.api.auth_attempts(&self.who, &self.overview.node, true).await?;
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
                    let from = (&self.api, &self.who, &self.ports);
                    self.listed = Listed::collect(rows, self.prefix, from, &self.filter.vhosts).await?;
                }
                Ok(self.listed.as_mut().is_none_or(|listed| listed.add_to(&mut self.page)))
            }
        }
    }
}

impl pages::Source for Objects {
    async fn next_page(mut self) -> Result<(String, Option<Self>), Failure> {
        while let Some(family) = self.families.last().copied() {
            if self.page.len() >= PAGE_BYTES || !self.add(family).await? {
                return Ok((std::mem::take(&mut self.page).into_text(), Some(self)));
            }
            self.families.pop();
            (self.queues, self.listed, self.sources) = (None, None, None);
        }
        Ok((self.page.into_text(), None))
    }
}
