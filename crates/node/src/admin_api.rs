//! The admin API of a running node: what management asks of it. It checks permissions, asks the shards and
//! combines their answers.

mod ask;
mod attempts;
pub(crate) mod cluster;
mod connect;
pub mod detached;
mod explain;
mod front;
mod lists;
mod messages;
mod moving;
mod others;
mod permit;
mod quorum;
mod reports;
mod statistics;
mod totals;
mod traces;
mod troubles;

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use broker::admin_api::{AdminError, UnclaimedSums};
use broker::explain::Resources;
use broker::notices::{Authentication, alarm};
use broker::settings::Settings;
use broker::traces::Traces;
use catalog::QueueRecord;
use catalog::access::{Access, Failed, Identity, Protocol, Refusal, Verb};

use self::ask::{DEADLINES, Deadlines};
use self::attempts::Attempts;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::cluster_view::{NodeState, SeenNodes};
use crate::incoming::Shards;
use crate::logins::Logins;
use crate::notices::NoticeWay;

/// The admin API of a node. See the module.
#[derive(Clone, Debug)]
pub struct AdminApi {
    inner: Arc<Inner>,
}

/// The channels to the shards, and the way of notices.
#[derive(Debug)]
pub(crate) struct Ways {
    pub shards: Shards,
    pub notices: NoticeWay,
}

/// This run of the node: its clock, the identity of the data directory, and what is seen of the other nodes.
#[derive(Debug)]
pub(crate) struct Run {
    pub clock: Clock,
    pub identity: wal::Identity,
    pub unclaimed: UnclaimedSums,
    pub nodes: SeenNodes,
}

#[derive(Debug)]
struct Inner {
    shards: Shards,
    /// The number of the last question.
    questions: AtomicU64,
    settings: Mutex<Arc<Settings>>,
    access: Arc<Access>,
    node: Arc<str>,
    clock: Clock,
    listeners: Mutex<Vec<(String, String, u16)>>,
    measured: Arc<Mutex<Resources>>,
    logins: Attempts,
    checker: Logins,
    admission: Arc<Admission>,
    notices: NoticeWay,
    /// What is traced. Each shard has a copy.
    traces: Mutex<Traces>,
    identity: wal::Identity,
    unclaimed: UnclaimedSums,
    nodes: SeenNodes,
    deadlines: Deadlines,
}

impl AdminApi {
    pub(crate) fn new(
        Ways { shards, notices }: Ways,
        settings: Arc<Settings>,
        access: Arc<Access>,
        checker: Logins,
        Run { clock, identity, unclaimed, nodes }: Run,
        measured: Arc<Mutex<Resources>>,
        admission: Arc<Admission>,
    ) -> Self {
        let node = settings.node_name.as_str().into();
        let listeners = Mutex::default();
        let logins = Attempts::default();
        let inner = Inner {
            shards,
            questions: AtomicU64::default(),
            settings: Mutex::new(settings),
            access,
            node,
            clock,
            listeners,
            measured,
            logins,
            checker,
            admission,
            notices,
            traces: Mutex::default(),
            identity,
            unclaimed,
            nodes,
            deadlines: DEADLINES,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the way of messages of the broker itself, such as the lines of the log, to the shard that publishes them.
    pub fn notices(&self) -> NoticeWay {
        self.inner.notices.clone()
    }

    fn settings(&self) -> Arc<Settings> {
        self.inner.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes those of these settings that a running broker takes. Returns the settings from now on.
    pub(crate) fn reload_settings(&self, new: &Settings) -> Arc<Settings> {
        let mut settings = self.inner.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *settings = Arc::new(settings.reloaded(new));
        settings.clone()
    }

    pub(crate) fn add_listener(&self, protocol: &str, address: String, port: u16) {
        let row = (protocol.to_owned(), address, port);
        self.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }

    /// Returns the memory and the disk as they were measured last.
    fn resources(&self) -> Resources {
        *self.inner.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the alarms that stop publishers: the resource, and the node whose alarm it is. Those of this node come first.
    fn raised_alarms(&self) -> Vec<(&'static str, Arc<str>)> {
        let resources = self.resources();
        let own = [("memory", resources.memory_alarm), ("disk", resources.disk_alarm)];
        let own = own.into_iter().filter(|(_, on)| *on).map(|(what, _)| (what, self.inner.node.clone()));
        let seen = self.inner.nodes.now(&self.inner.node);
        let others = seen.nodes.iter().filter(|node| node.state != NodeState::Here);
        let others = others.flat_map(|node| node.alarms().map(|what| (what, node.name.clone())));
        own.chain(others).collect()
    }

    /// Returns the refusal of a login over HTTP.
    fn refuse(&self, user: &str, peer: IpAddr, refusal: &Refusal) -> AdminError {
        let failed = self.inner.access.fail(peer, user, refusal, self.inner.clock.now_ms(), 0);
        let why = failed.told(&refusal.reason);
        match failed {
            Failed::Closed => AdminError::LoginClosed(why),
            Failed::Refused => AdminError::LoginRefused(why),
            Failed::Waits { ms } => AdminError::LoginWaits { why, ms },
        }
    }

    /// Makes the event of a login over HTTP, if events are on.
    fn emit_login(&self, user: &str, peer: IpAddr, refused: Option<&AdminError>) {
        let settings = self.settings();
        let Some(vhost) = settings.event_vhost() else { return };
        let refused = refused.map(|error| match error {
            AdminError::LoginRefused(why)
            | AdminError::LoginWaits { why, .. }
            | AdminError::LoginClosed(why) => why.as_str(),
            _ => "it was not checked in time",
        });
        let login = Authentication {
            user,
            connection: None,
            peer: &peer.to_canonical().to_string(),
            protocol: Protocol::Http,
            mechanism: None,
            refused,
        };
        self.inner.notices.send(login.event(vhost, self.inner.clock.now_ms()));
    }

    /// Publishes that an alarm of this source was raised or cleared, if events are on.
    pub fn publish_alarm(&self, source: &str, is_set: bool) {
        if let Some(vhost) = self.settings().event_vhost() {
            let now_ms = self.inner.clock.now_ms();
            self.inner.notices.send(alarm(vhost, source, &self.inner.node, is_set, now_ms));
        }
    }

    /// Returns the queues of one virtual host, or of all, that the user may see.
    async fn visible_queues(
        &self,
        who: &Identity,
        vhost: Option<&str>,
    ) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        self.permit_list(who, vhost, Verb::ReadQueue).await?;
        let mut records = self.all_queues(vhost).await?;
        self.keep_visible(who, Verb::ReadQueue, &mut records, |q| &q.vhost).await;
        Ok(records)
    }

    /// Returns the queues of one virtual host or of all in the order of their names, without checking permissions.
    async fn all_queues(&self, vhost: Option<&str>) -> Result<Vec<Arc<QueueRecord>>, AdminError> {
        let mut records: Vec<_> =
            self.queues_with_places().await?.into_iter().map(|(_, record)| record).collect();
        records.retain(|q| vhost.is_none_or(|v| *q.vhost == *v));
        // A queue may appear twice if it was deleted and declared again while the parts were read. Only the
        // newer one is kept.
        records.sort_unstable_by(|a, b| by_name(a, b).then(b.id.incarnation().cmp(&a.id.incarnation())));
        records.dedup_by(|a, b| by_name(a, b).is_eq());
        Ok(records)
    }
}

fn by_name(a: &Arc<QueueRecord>, b: &Arc<QueueRecord>) -> std::cmp::Ordering {
    (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name))
}
