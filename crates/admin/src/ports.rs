//! What the HTTP ports of a node share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::PEER;
use broker::access::Identity;
use broker::desk::{BudgetRow, Desk, DeskError, Overview};

use crate::budget::{Budget, Held};
use crate::reply::Failure;

/// Each costs a file descriptor, and up to 200 KiB while it sends a head or reads an answer as slowly as it can.
const CONNECTIONS_MAX: usize = 1_024;

/// Three bodies of the largest size, or thousands of usual ones. With 900 kB each, 1,000 requests would hold 900 MB.
const BODIES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Answers that are not made page by page: lists that must be sorted, and messages of streams (8 MiB and more each). What
/// is left of such an answer waits in memory until its client reads it. Lists that are made page by page count with the
/// ids of their queues.
const ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What peers may hold of all HTTP ports together, and what was refused them.
#[derive(Clone, Debug)]
pub struct Ports {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connections_max: usize,
    bodies: Arc<Budget>,
    answers: Arc<Budget>,
    evicted: AtomicU64,
    refused: AtomicU64,
}

/// What has been counted of all HTTP ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections closed to make room for others.
    pub evicted: u64,
    /// Connections closed because there was no room for them.
    pub refused: u64,
}

impl Default for Ports {
    fn default() -> Self {
        Self::new(CONNECTIONS_MAX)
    }
}

impl Ports {
    /// Each port may have so many connections.
    pub fn new(connections_max: usize) -> Self {
        Self::with_bytes(connections_max, BODIES_BYTES_MAX, ANSWERS_BYTES_MAX)
    }

    pub(crate) fn with_bytes(connections_max: usize, bodies_max: usize, answers_max: usize) -> Self {
        let (bodies, answers) = (Budget::new(bodies_max), Budget::new(answers_max));
        let inner = Inner {
            connections_max,
            bodies,
            answers,
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.inner.connections_max
    }

    /// For the bodies of requests.
    pub(crate) fn bodies(&self) -> &Arc<Budget> {
        &self.inner.bodies
    }

    /// For answers that are made at once, and lists that are made page by page.
    pub(crate) fn answers(&self) -> &Arc<Budget> {
        &self.inner.answers
    }

    /// Counts the memory of an answer until what is returned is dropped.
    ///
    /// # Errors
    /// 503: there is too much of that.
    pub(crate) fn hold_answer(&self, bytes: usize) -> Result<Held, Failure> {
        let mut held = self.answers().hold();
        if held.grow_to(bytes) {
            return Ok(held);
        }
        let max = self.answers().bytes_max();
        Err(Failure::unavailable(format!(
            "HTTP answers that were not read yet may take {max} bytes of memory: ask for pages, or try again"
        )))
    }

    /// The node at a glance, with the budgets of its HTTP ports behind its own.
    ///
    /// # Errors
    /// As of the desk.
    pub(crate) async fn overview<D: Desk>(&self, desk: &D, who: &Identity) -> Result<Overview, DeskError> {
        let mut overview = desk.overview(who).await?;
        let row = |name, budget: &Budget| BudgetRow {
            name,
            used: budget.used() as u64,
            limit: budget.bytes_max() as u64,
        };
        overview.budgets.push(row("http_bodies", &self.inner.bodies));
        overview.budgets.push(row("http_answers", &self.inner.answers));
        Ok(overview)
    }

    pub fn counts(&self) -> Counts {
        Counts {
            evicted: self.inner.evicted.load(Ordering::Relaxed),
            refused: self.inner.refused.load(Ordering::Relaxed),
        }
    }

    /// A connection was closed to make room for that of this peer.
    pub(crate) fn note_evicted(&self, peer: SocketAddr) {
        self.inner.evicted.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: PEER, %peer, "an HTTP port is crowded: a waiting connection was closed for a new one");
    }

    /// There was no room for a connection.
    pub(crate) fn note_refused(&self, peer: SocketAddr) {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: PEER, %peer, "an HTTP port is crowded: a new connection was refused");
    }
}
