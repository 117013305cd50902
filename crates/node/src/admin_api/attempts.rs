//! How many logins there were. Shards count those over AMQP, and the admin API those over HTTP.

use catalog::access::{Identity, Verb};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use broker::admin_api::{AdminError, AttemptsRow};
use broker::counters::Counters;
use catalog::access::{AuthAttempts, Protocol};

use super::AdminApi;
use crate::shard::looks;

/// The logins over HTTP, and how many logins there were at the last reset. Each HTTP request logs in once.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// The counters of metrics only grow, so a reset remembers their values.
    at_reset: Mutex<[AuthAttempts; 3]>,
}

impl Attempts {
    /// Counts a login over HTTP.
    pub(super) fn count(&self, succeeded: bool) {
        let count = if succeeded { &self.succeeded } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of logins over HTTP.
    pub(super) fn over_http(&self) -> AuthAttempts {
        let (succeeded, failed) =
            (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        AuthAttempts { all: succeeded + failed, succeeded, failed }
    }
}

impl AdminApi {
    /// Returns the number of logins over each protocol, or from each source.
    ///
    /// # Errors
    /// There is no node of this name, or the user may not see them.
    pub async fn auth_attempts(
        &self,
        who: &Identity,
        node: &str,
        by_source: bool,
    ) -> Result<Vec<AttemptsRow>, AdminError> {
        self.permit_by_tag(who, Verb::ReadNodes)?;
        self.require_node(node)?;
        if by_source { Ok(self.attempts_by_source()) } else { self.attempts_by_protocol().await }
    }

    /// Lets [`Self::auth_attempts`] begin with 0 again, and forgets all sources.
    ///
    /// # Errors
    /// There is no node of this name, or the user may not do this.
    pub async fn reset_auth_attempts(&self, who: &Identity, node: &str) -> Result<(), AdminError> {
        self.permit_by_tag(who, Verb::Administer)?;
        self.require_node(node)?;
        self.forget_attempts().await
    }

    /// Checks that a request is for this node.
    pub(super) fn require_node(&self, node: &str) -> Result<(), AdminError> {
        if *self.inner.node == *node { Ok(()) } else { Err(AdminError::no_node(node)) }
    }

    pub(super) async fn attempts_by_protocol(&self) -> Result<Vec<AttemptsRow>, AdminError> {
        let now = self.attempts().await?;
        let at_reset = *self.inner.logins.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = Protocol::ALL.into_iter().zip(now.into_iter().zip(at_reset));
        Ok(rows
            .map(|(protocol, (now, reset))| {
                let attempts = AuthAttempts::since(now, reset);
                AttemptsRow { protocol, source: None, attempts }
            })
            .collect())
    }

    pub(super) fn attempts_by_source(&self) -> Vec<AttemptsRow> {
        let rows = self.inner.access.sources().rows().into_iter();
        rows.map(|(source, attempts)| {
            let address = source.address.map_or_else(String::new, |address| address.to_string());
            AttemptsRow { protocol: source.protocol, source: Some((address, source.user)), attempts }
        })
        .collect()
    }

    pub(super) async fn forget_attempts(&self) -> Result<(), AdminError> {
        let now = self.attempts().await?;
        *self.inner.logins.at_reset.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.inner.access.sources().clear();
        Ok(())
    }

    /// Returns the number of logins since the start over each protocol.
    async fn attempts(&self) -> Result<[AuthAttempts; Protocol::ALL.len()], AdminError> {
        let mut counters = Counters::default();
        for totals in self.look_everywhere(looks::Sums).await? {
            counters.add(&totals.counters);
        }
        counters.over_mut(Protocol::Http).auth_attempts = self.inner.logins.over_http();
        Ok(Protocol::ALL.map(|protocol| counters.over(protocol).auth_attempts))
    }
}
