//! The looks: what the admin API asks about what a shard alone knows. The type of a look says what is asked, and its
//! implementation of [`Look`] how a shard answers. A list is asked for in parts: [`Part`].

use std::collections::HashSet;
use std::sync::Arc;

use broker::admin_api::{BudgetRow, ConnectionRow, QueueNumbers, ShardRow, VhostNumbers};
use broker::counters::Counters;
use broker::exchange_counts::ExchangeCounts;
use broker::explain::{Comer, ConnectionFacts, LogFacts, Role, ShardFacts, Troubles, Wanted};
use catalog::ExchangeId;
use catalog::access::{Authority, UserRef};
use catalog::ids::QueueId;
use queue::ConsumerId;

use super::Shard;
use super::connections::OpenSessions;
pub use super::metadata::CatalogSight;
use crate::shard::questions::{Look, Part};

/// Asks for the reports of these queues; `None` for a queue that does not live on the shard.
#[derive(Clone, Debug)]
pub struct Reports(pub Vec<QueueId>);

impl Look for Reports {
    type Answer = Vec<Option<QueueNumbers>>;

    fn rows(&self, _: &Shard) -> usize {
        self.0.len()
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        let report = |id| {
            shard.configure(id);
            let report = shard.queue_report(id)?;
            Some(QueueNumbers { report, group: shard.group_row(id) })
        };
        self.0.into_iter().map(report).collect()
    }
}

/// Asks how many messages of each of these streams were delivered on the shard, in this order.
#[derive(Clone, Debug)]
pub struct Delivered(pub Vec<QueueId>);

impl Look for Delivered {
    type Answer = Vec<u64>;

    fn rows(&self, _: &Shard) -> usize {
        self.0.len()
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        self.0.into_iter().map(|id| shard.stream_delivered(id)).collect()
    }
}

/// Asks for what was published to each of these exchanges on the shard, in this order.
#[derive(Clone, Debug)]
pub struct CountsOfExchanges(pub Vec<ExchangeId>);

impl Look for CountsOfExchanges {
    type Answer = Vec<ExchangeCounts>;

    fn rows(&self, _: &Shard) -> usize {
        self.0.len()
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        self.0.into_iter().map(|id| shard.counts_of_exchange(id)).collect()
    }
}

/// Asks for the statistics of virtual hosts on the shard: the sums over queues and connections, from place `from` on. The same
/// virtual host may be in several parts.
#[derive(Clone, Debug)]
pub struct NumbersOfVhosts {
    pub from: usize,
}

impl Look for NumbersOfVhosts {
    type Answer = Part<(Arc<str>, VhostNumbers)>;

    fn rows(&self, shard: &Shard) -> usize {
        Part::<()>::len_of(self.from, shard.vhost_places())
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        shard.vhost_numbers(self.from)
    }
}

/// Asks for the queues and streams on the shard that have had messages since the start, from place `from` on. Each comes with
/// the number of messages that were published to it and delivered from it.
#[derive(Clone, Debug)]
pub struct UsedQueues {
    pub from: usize,
}

impl Look for UsedQueues {
    type Answer = Part<(QueueId, u64)>;

    fn rows(&self, shard: &Shard) -> usize {
        Part::<()>::len_of(self.from, shard.catalog().queue_places())
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        shard.used_queues(self.from)
    }
}

/// Asks for sums over the shard.
#[derive(Clone, Debug)]
pub struct Sums;

impl Look for Sums {
    type Answer = Box<Totals>;

    fn rows(&self, _: &Shard) -> usize {
        0
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        Box::new(shard.totals())
    }
}

/// Sums over one shard.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The sum over the queues and streams that live there.
    pub depth: queue::Depth,
    /// The open sessions of AMQP 1.0, and the open channels of AMQP 0.9.1.
    pub sessions: u64,
    pub channels: u64,
    pub counters: Counters,
    /// See [`broker::admin_api::Overview::commit_latency_ms`].
    pub commit_latency_ms: u64,
    pub budgets: Vec<BudgetRow>,
    pub shard: ShardRow,
}

/// Asks for connections, or for those with these names, from place `from` on. The rows name the node.
#[derive(Clone, Debug)]
pub struct Connections {
    pub node: Arc<str>,
    pub names: Option<Arc<HashSet<Arc<str>>>>,
    pub from: usize,
}

impl Look for Connections {
    type Answer = Part<ConnectionRow>;

    fn rows(&self, shard: &Shard) -> usize {
        Part::<()>::len_of(self.from, shard.connections.places())
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        let Self { node, names, from } = self;
        Part::of(from, shard.connections.places(), |key| {
            let c = shard.connections.get(key)?;
            if names.as_ref().is_some_and(|names| !names.contains(&c.gate.peer().name)) {
                return None;
            }
            c.gate.report(&node, (c.recv_bytes, c.send_bytes), shard.here.now_ms)
        })
    }
}

/// Asks for the links of the wanted connections, from place `from` on.
#[derive(Clone, Debug)]
pub struct Links {
    pub wanted: Wanted,
    pub from: usize,
}

/// What may stop links. Each part repeats the state of the shard and of the log.
#[derive(Clone, Debug)]
pub struct LinksSeen {
    pub part: Part<ConnectionFacts>,
    pub log: LogFacts,
    pub shard: ShardFacts,
}

impl Look for Links {
    type Answer = LinksSeen;

    fn rows(&self, shard: &Shard) -> usize {
        Part::<()>::len_of(self.from, shard.connections.places())
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        let (part, log) = shard.look(&self.wanted, self.from);
        LinksSeen { part, log, shard: shard.facts() }
    }
}

/// Asks for what is not well with the queues and connections of the shard, from place `from` on: by virtual host, and of
/// connections only of those of this user, if one is named.
#[derive(Clone, Debug)]
pub struct WhatIsWrong {
    pub of: Option<(Authority, Arc<str>)>,
    pub from: usize,
}

/// What is not well. The same virtual host may be in several parts. Each part repeats the state of the shard and of the log.
#[derive(Clone, Debug)]
pub struct TroublesSeen {
    pub part: Part<(Arc<str>, Troubles)>,
    /// The clients whose connections were brief, and how many there were within a minute. Only in the part that begins at 0.
    pub comers: Vec<(Comer, u64)>,
    pub log: LogFacts,
    pub shard: ShardFacts,
}

impl Look for WhatIsWrong {
    type Answer = TroublesSeen;

    fn rows(&self, shard: &Shard) -> usize {
        Part::<()>::len_of(self.from, shard.vhost_places())
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        let Self { of, from } = self;
        let of = of.as_ref().map(|(authority, name)| UserRef { authority: *authority, name });
        let comers = match from {
            0 => shard.brief_clients(of),
            _ => Vec::new(),
        };
        let (log, facts) = (shard.log_facts(), shard.facts());
        TroublesSeen { part: shard.troubles(of, from), comers, log, shard: facts }
    }
}

/// Asks what the node knows about the group of the catalog. The deciding shard has it.
#[derive(Clone, Debug)]
pub struct CatalogGroup;

impl Look for CatalogGroup {
    type Answer = CatalogSight;

    fn rows(&self, shard: &Shard) -> usize {
        shard.catalog().nodes().len()
    }

    fn answer(self, shard: &mut Shard) -> Self::Answer {
        shard.catalog_sight()
    }
}

impl Shard {
    /// Returns sums over what lives here. They are maintained, so no row is visited.
    pub fn totals(&self) -> Totals {
        let (counters, budgets) = (self.counters.clone(), self.budgets());
        let mut depth = self.queues.depth();
        depth.ready += self.streams.messages();
        let OpenSessions { sessions, channels } = self.connections.open_sessions();
        let commit_latency_ms = self.groups.commit_latency_ms();
        let shard = self.row();
        Totals { depth, sessions, channels, counters, commit_latency_ms, budgets, shard }
    }

    fn row(&self) -> ShardRow {
        ShardRow {
            number: self.here.id,
            busy: self.load.busy_time(),
            is_at_limit: self.load.is_at_limit(),
            connections: self.counters.connections,
            queues: self.homes(),
        }
    }

    /// Returns what an explanation needs to know of this shard.
    pub fn facts(&self) -> ShardFacts {
        ShardFacts {
            number: self.here.id,
            busy_percent: self.load.percent(),
            is_at_limit: self.load.is_at_limit(),
            queues: self.homes(),
            shards: self.mail.shards().len() as u64,
            is_blocked: self.connections.is_blocked(),
        }
    }

    /// Returns what may hold receipts back, for `sluice explain`.
    fn log_facts(&self) -> LogFacts {
        LogFacts {
            failed: self.storage.refuses() || self.storage.is_stuck(),
            receipts_held: self.storage.receipts_held(),
            groups_held: self.groups.rounds_held(),
            memory_receipts_held: self.storage.memory_receipts_held(),
        }
    }

    /// Returns the number of queues and streams whose home is this shard.
    fn homes(&self) -> u64 {
        (self.queues.count() + self.streams.count()) as u64
    }

    /// Returns the queues and streams here that have had messages since the start: see [`UsedQueues`].
    pub fn used_queues(&self, from: usize) -> Part<(QueueId, u64)> {
        let catalog = self.catalog();
        Part::of(from, catalog.queue_places(), |place| {
            let id = catalog.queue_id_at(place)?;
            let report = self.queue_report(id)?;
            let passed = report.published + report.delivered;
            (passed > 0).then_some((id, passed))
        })
    }

    /// Returns what was published to an exchange on this shard.
    pub fn counts_of_exchange(&self, exchange: ExchangeId) -> ExchangeCounts {
        self.connections.counts_of_exchange(exchange)
    }

    /// Returns what may stop the links of the wanted connections, from place `from` on, and the state of the
    /// log.
    pub fn look(&self, wanted: &Wanted, from: usize) -> (Part<ConnectionFacts>, LogFacts) {
        let here = self.facts();
        let row = |key| {
            let c = self.connections.get(key).filter(|c| c.gate.is_wanted(wanted))?;
            let mut facts = c.gate.facts(c.unwritten_bytes as u64, c.partial_bytes() as u64)?;
            facts.shard = here;
            for link in &mut facts.links {
                if let Role::Consuming { queue, consumer, standing, .. } = &mut link.role {
                    *standing = self.streams.standing(*queue, ConsumerId(*consumer));
                }
            }
            Some(facts)
        };
        (Part::of(from, self.connections.places(), row), self.log_facts())
    }
}
