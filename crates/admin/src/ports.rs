//! State that the HTTP ports of a node share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::admin_api::{AdminError, BudgetRow, Overview};
use catalog::access::Identity;
use catalog::categories::{CONNECTION, PEER};

use node::AdminApi;
use tls::Tls;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::budget::{Budget, Reservation};
use crate::header_options::HeaderOptions;
use crate::host_options::HostOptions;
use crate::page_login::PageLogin;
use crate::reply::Failure;
use crate::samples::Samples;
use crate::settings_in_force::SettingsInForce;

/// The default limit of connections per port. Each costs a file descriptor, and up to 200 KiB while it sends
/// a head or reads a response very slowly.
const CONNECTIONS_MAX: usize = 1_024;

/// The memory for request bodies: three of the largest size, or thousands of usual ones. Without this bound,
/// 1,000 requests of 900 kB would hold 900 MB.
const BODIES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The memory for responses that are not generated page by page: lists that must be sorted, and messages of
/// streams (8 MiB and more each). The unsent rest of such a response stays in memory until its client reads
/// it. A list that is generated page by page counts with the ids of its queues.
const ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most requests at once that publish or get messages. Others wait. Each of them uses a file descriptor that is reserved for
/// storage until the next count of descriptors, and memory for a message and an answer.
const MESSAGE_REQUESTS_MAX: usize = 16;

/// Limits on what peers may hold of all HTTP ports together, and counters of what was refused.
#[derive(Clone, Debug)]
pub struct Ports {
    inner: Arc<Inner>,
    certificates: Arc<[Arc<Tls>]>,
    skips_unknown: bool,
    headers: Arc<HeaderOptions>,
    hosts: Arc<HostOptions>,
    /// False if the API shows no versions of Erlang.
    hides_erlang: bool,
    page_login: Option<Arc<PageLogin>>,
    settings: SettingsInForce,
    is_tls: bool,
    node: Arc<str>,
}

#[derive(Debug)]
struct Inner {
    connections_max: usize,
    bodies: Arc<Budget>,
    answers: Arc<Budget>,
    message_requests: Semaphore,
    evicted: AtomicU64,
    refused: AtomicU64,
    samples: Arc<Samples>,
}

/// Counters of all HTTP ports.
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
    /// Creates the limits for ports with this many connections each.
    pub fn new(connections_max: usize) -> Self {
        Self::with_bytes(connections_max, BODIES_BYTES_MAX, ANSWERS_BYTES_MAX)
    }

    pub(crate) fn with_bytes(connections_max: usize, bodies_max: usize, answers_max: usize) -> Self {
        let (bodies, answers) = (Budget::new(bodies_max), Budget::new(answers_max));
        let inner = Inner {
            connections_max,
            bodies,
            answers,
            message_requests: Semaphore::new(MESSAGE_REQUESTS_MAX),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            samples: Arc::default(),
        };
        Self {
            inner: Arc::new(inner),
            certificates: [].into(),
            skips_unknown: false,
            headers: Arc::default(),
            hosts: Arc::default(),
            hides_erlang: false,
            page_login: None,
            settings: SettingsInForce::default(),
            is_tls: false,
            node: "".into(),
        }
    }

    /// Takes the time of rates and samples from this clock.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, clock: fn() -> u64) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("nobody shares the limits yet");
        inner.samples = Arc::new(Samples::with_clock(clock));
        self
    }

    /// Adds the certificates of all TLS listeners of the node, for health checks and metrics.
    #[must_use]
    pub fn with_certificates(mut self, certificates: Vec<Arc<Tls>>) -> Self {
        self.certificates = certificates.into();
        self
    }

    /// Leaves out what is unknown when definitions are imported: types of exchanges, keys of policies, and arguments that no queue takes
    /// (`definitions.skip_unknown`).
    #[must_use]
    pub fn skipping_unknown(mut self, skips: bool) -> Self {
        self.skips_unknown = skips;
        self
    }

    /// Sets the headers of responses.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderOptions) -> Self {
        self.headers = Arc::new(headers);
        self
    }

    /// Sets the hosts of the node, and the logins that depend on the host that a request names.
    #[must_use]
    pub fn with_hosts(mut self, hosts: HostOptions) -> Self {
        self.hosts = Arc::new(hosts);
        self
    }

    /// Sets the identity provider at which users of the web page log in.
    #[must_use]
    pub fn with_page_login(mut self, login: Option<PageLogin>) -> Self {
        self.page_login = login.map(Arc::new);
        self
    }

    /// Shows these settings as those in force.
    #[must_use]
    pub fn with_settings(mut self, settings: SettingsInForce) -> Self {
        self.settings = settings;
        self
    }

    /// Says whether clients connect over TLS.
    #[must_use]
    pub fn over_tls(mut self, is_tls: bool) -> Self {
        self.is_tls = is_tls;
        self
    }

    /// Sets the name of the node. So an answer that needs nothing else of the node asks no shard.
    #[must_use]
    pub fn naming_node(mut self, node: &str) -> Self {
        self.node = node.into();
        self
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn headers(&self) -> &HeaderOptions {
        &self.headers
    }

    pub(crate) fn hosts(&self) -> &HostOptions {
        &self.hosts
    }

    pub(crate) fn page_login(&self) -> Option<&PageLogin> {
        self.page_login.as_deref()
    }

    pub(crate) fn settings(&self) -> &SettingsInForce {
        &self.settings
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn skips_unknown(&self) -> bool {
        self.skips_unknown
    }

    pub(crate) fn certificates(&self) -> &[Arc<Tls>] {
        &self.certificates
    }

    /// Shows that there is no Erlang, instead of a version of it that tools parse.
    #[must_use]
    pub fn hiding_erlang(mut self, hides: bool) -> Self {
        self.hides_erlang = hides;
        self
    }

    pub(crate) fn shows_erlang(&self) -> bool {
        !self.hides_erlang
    }

    /// The rates and samples of the node.
    pub(crate) fn samples(&self) -> &Arc<Samples> {
        &self.inner.samples
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.inner.connections_max
    }

    /// The budget for request bodies.
    pub(crate) fn bodies(&self) -> &Arc<Budget> {
        &self.inner.bodies
    }

    /// The budget for responses that are generated as a whole, and for the queue ids of lists that are
    /// generated page by page.
    pub(crate) fn answers(&self) -> &Arc<Budget> {
        &self.inner.answers
    }

    /// Waits for a place among the requests for messages. Dropping it makes room for another. `None` if there are no places any
    /// more, which never happens.
    pub(crate) async fn message_request(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.message_requests.acquire().await.ok()
    }

    /// Counts the memory of a response until the returned value is dropped.
    ///
    /// # Errors
    /// 503 if the budget is used up.
    pub(crate) fn hold_answer(&self, bytes: usize) -> Result<Reservation, Failure> {
        let mut held = self.answers().hold();
        if held.grow_to(bytes) { Ok(held) } else { Err(self.answers_are_full()) }
    }

    /// Returns the failure of a request whose response does not fit into the budget.
    pub(crate) fn answers_are_full(&self) -> Failure {
        let max = self.answers().bytes_max();
        Failure::unavailable(format!(
            "HTTP answers that were not read yet may take {max} bytes of memory: ask for pages, or try again"
        ))
    }

    /// Returns the node's overview, with the budgets of the HTTP ports after the node's own.
    ///
    /// # Errors
    /// The admin API's error.
    pub(crate) async fn overview(&self, api: &AdminApi, who: &Identity) -> Result<Overview, AdminError> {
        let mut overview = api.overview(who).await?;
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

    /// Counts a connection that was closed to make room for this peer's.
    pub(crate) fn note_evicted(&self, peer: SocketAddr) {
        self.inner.evicted.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(name: PEER, target: CONNECTION, %peer, "an HTTP port is crowded: a waiting connection was closed for a new one");
    }

    /// Counts a connection for which there was no room.
    pub(crate) fn note_refused(&self, peer: SocketAddr) {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(name: PEER, target: CONNECTION, %peer, "an HTTP port is crowded: a new connection was refused");
    }
}
