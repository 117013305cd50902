//! Rates and samples. There is no database of statistics: what is shown comes from bounded rings in memory.
//!
//! ```text
//!   every 5 seconds: Samples::take ──> the node's sums, and each object that somebody looks at ──> rings
//!   a request for an object ──> Watched::ask: its rate so far; it is sampled for the next five minutes
//! ```
//!
//! The node is always sampled: that costs one question to each shard. The totals of the other nodes of a cluster, virtual hosts, queues, exchanges,
//! connections, channels and sessions are sampled every 5 seconds only while somebody asks for them. The queues and exchanges that messages pass through also have a history of a day
//! ([`Kept`]), with a sample a minute. So the first answer about one of them has a rate, too: the rate since that sample.

mod details;
mod figures;
mod kept;
mod series;
mod watched;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::admin_api::{
    AdminError, ConnectionRow, ExchangeRow, PassedCounts, ProtocolRow, QueueRow, ShardRow, VhostSums,
};
use catalog::ExchangeId;
use catalog::access::Identity;
use catalog::ids::QueueId;
use node::AdminApi;
use serde_json::{Map, Value};

pub(crate) use self::details::Ranges;
use self::details::fields;
pub(crate) use self::details::plain;
use self::figures::{
    CHANNEL, CHANNEL_FIGURES, CONNECTION, CONNECTION_FIGURES, EXCHANGE, EXCHANGE_FIGURES, NODE, QUEUE,
    QUEUE_FIGURES, VHOST, VHOST_FIGURES, values,
};
pub(crate) use self::figures::{NODE_FIGURES, NodeRow, Part};
use self::kept::Kept;
use self::series::{History, Retention, SLACK_MS, Sample, Series};
use self::watched::Watched;
use crate::clock::now_ms;
use crate::process::Process;

/// The rings of the node, as RabbitMQ keeps them: ten minutes, an hour, eight hours, and a day. Together they take about
/// 64 kB.
const NODE_RINGS: [Retention; 4] = [
    HISTORY,
    Retention { samples_max: 62, every_ms: 60_000 - SLACK_MS },
    Retention { samples_max: 50, every_ms: 600_000 - SLACK_MS },
    Retention { samples_max: 50, every_ms: 1_800_000 - SLACK_MS },
];

/// The history of an object: ten minutes at five seconds. Samples that are closer to each other than half of this are left out. So
/// it covers five minutes with any `collect_statistics_interval`, and more time with a longer one.
const HISTORY: Retention = Retention { samples_max: 122, every_ms: SLACK_MS };

/// As many samples as a rate needs.
const TWO: Retention = Retention { samples_max: 2, every_ms: 0 };

/// The number of queues that are sampled with one request to the admin API.
const QUEUES_PER_REQUEST: usize = 500;

/// The samples of the node, and of the objects that somebody looks at.
#[derive(Debug)]
pub(crate) struct Samples {
    state: Mutex<State>,
    /// Returns the time of a request, in milliseconds since the epoch.
    clock: fn() -> u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self::with_clock(now_ms)
    }
}

#[derive(Debug)]
struct State {
    node: Series<NODE>,
    /// The other nodes of the cluster, by name. Each has samples of its own: a node that starts again begins at 0, and the sums over all nodes
    /// would fall.
    others: Watched<Arc<str>, NODE>,
    /// For each shard, for how long its thread was awake, and out of how much time.
    shards: Vec<Series<2>>,
    queues: Watched<QueueId, QUEUE>,
    exchanges: Watched<ExchangeId, EXCHANGE>,
    used_queues: Kept<QueueId, QUEUE>,
    used_exchanges: Kept<ExchangeId, EXCHANGE>,
    /// The time of the last sample of those, in milliseconds since the epoch.
    kept_ms: Option<u64>,
    /// Virtual hosts, and what passes over all of their channels and sessions.
    vhosts: Watched<Arc<str>, VHOST>,
    vhost_traffic: Watched<Arc<str>, CHANNEL>,
    /// The nodes whose parts are missing in these samples. When others are missing, the samples begin again: a sum over fewer nodes is no sample of
    /// the same thing.
    vhosts_lack: Vec<Arc<str>>,
    connections: Watched<Arc<str>, CONNECTION>,
    /// Channels of AMQP 0.9.1 and sessions of AMQP 1.0, by the name of their connection and their number.
    channels: Watched<(Arc<str>, u16), CHANNEL>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            node: Series::new(&NODE_RINGS),
            others: Watched::new(HISTORY),
            shards: Vec::new(),
            queues: Watched::new(HISTORY),
            exchanges: Watched::new(HISTORY),
            used_queues: Kept::default(),
            used_exchanges: Kept::default(),
            kept_ms: None,
            vhosts: Watched::new(HISTORY),
            vhost_traffic: Watched::new(HISTORY),
            vhosts_lack: Vec::new(),
            connections: Watched::new(HISTORY),
            channels: Watched::new(HISTORY),
        }
    }
}

fn times(row: &ShardRow) -> [u64; 2] {
    [row.busy.busy_ns, row.busy.total_ns]
}

impl Samples {
    pub(crate) fn with_clock(clock: fn() -> u64) -> Self {
        Self { state: Mutex::default(), clock }
    }

    /// Takes a sample of the node, and of each object that somebody looks at. No shard is asked for more than a part of a
    /// list at once.
    ///
    /// # Errors
    /// The admin API's error. What was sampled until then is kept.
    pub(crate) async fn take(&self, api: &AdminApi, now_ms: u64) -> Result<(), AdminError> {
        let who = Identity::metrics_reader();
        let (queues, exchanges, vhosts, names, others) = {
            let mut state = self.state();
            let mut names: HashSet<Arc<str>> = state.connections.begin_round(now_ms).into_iter().collect();
            names.extend(state.channels.begin_round(now_ms).into_iter().map(|(name, _)| name));
            let vhosts = state.vhosts.begin_round(now_ms);
            state.vhost_traffic.begin_round(now_ms);
            let others = state.others.begin_round(now_ms);
            (state.queues.begin_round(now_ms), state.exchanges.begin_round(now_ms), vhosts, names, others)
        };
        let node = NodeRow::new(api.overview(&who).await?, Process::read());
        {
            let mut state = self.state();
            state.node.push(Sample { at_ms: now_ms, values: values(&NODE_FIGURES, &node) });
            let shards = &node.overview().shards;
            state.shards.resize_with(shards.len(), || Series::new(&[TWO]));
            for (series, row) in state.shards.iter_mut().zip(shards) {
                series.push(Sample { at_ms: now_ms, values: times(row) });
            }
        }
        if !others.is_empty() {
            let totals = api.totals_of_others(&who).await?;
            let mut state = self.state();
            for (name, totals) in &totals.answered {
                let values = values(&NODE_FIGURES, &NodeRow::of_other(*totals));
                state.others.push(name, Sample { at_ms: now_ms, values });
            }
        }
        for ids in queues.chunks(QUEUES_PER_REQUEST) {
            let rows = api.sampled_queues(&who, ids).await?;
            let mut state = self.state();
            for row in rows.iter().filter(|row| !row.is_unknown()) {
                let sample = Sample { at_ms: now_ms, values: values(&QUEUE_FIGURES, row) };
                state.queues.push(&row.id, sample);
            }
        }
        if !exchanges.is_empty() {
            let counts = api.sampled_exchanges(&who, &exchanges).await?;
            let mut state = self.state();
            for (id, counts) in exchanges.iter().zip(&counts) {
                let sample = Sample { at_ms: now_ms, values: values(&EXCHANGE_FIGURES, counts) };
                state.exchanges.push(id, sample);
            }
        }
        if !vhosts.is_empty() {
            let VhostSums { numbers, missing } = api.vhost_numbers(&who).await?;
            let mut state = self.state();
            if state.vhosts_lack != missing {
                state.vhosts.forget_samples();
                state.vhost_traffic.forget_samples();
                state.vhosts_lack = missing;
            }
            for vhost in &vhosts {
                // A virtual host without connections and messages has no entry.
                let numbers = numbers.get(vhost).copied().unwrap_or_default();
                let sample = Sample { at_ms: now_ms, values: values(&VHOST_FIGURES, &numbers) };
                state.vhosts.push(vhost, sample);
                let sample = Sample { at_ms: now_ms, values: values(&CHANNEL_FIGURES, &numbers.counts) };
                state.vhost_traffic.push(vhost, sample);
            }
        }
        if !names.is_empty() {
            let rows = api.sampled_connections(&who, Arc::new(names)).await?;
            let mut state = self.state();
            for row in &rows {
                let sample = Sample { at_ms: now_ms, values: values(&CONNECTION_FIGURES, row) };
                state.connections.push(&row.name, sample);
                let channels: Vec<(u16, &PassedCounts)> = match &row.protocol {
                    ProtocolRow::Amqp10(ours) => {
                        ours.sessions.iter().map(|s| (s.channel, &s.counts)).collect()
                    }
                    ProtocolRow::Amqp091(ours) => {
                        ours.channels.iter().map(|c| (c.number, &c.counts)).collect()
                    }
                };
                for (number, counts) in channels {
                    let sample = Sample { at_ms: now_ms, values: values(&CHANNEL_FIGURES, counts) };
                    state.channels.push(&(row.name.clone(), number), sample);
                }
            }
        }
        self.keep(api, &who, now_ms).await
    }

    /// Takes a sample of the queues and exchanges that messages pass through, once a minute.
    async fn keep(&self, api: &AdminApi, who: &Identity, now_ms: u64) -> Result<(), AdminError> {
        {
            let mut state = self.state();
            // A clock that was set back begins again.
            if state.kept_ms.is_some_and(|at_ms| (at_ms..at_ms + kept::EVERY_MS - SLACK_MS).contains(&now_ms))
            {
                return Ok(());
            }
            state.kept_ms = Some(now_ms);
        }
        let used = api.used_queues(who).await?;
        let ids = self.state().used_queues.begin_round(&used, now_ms);
        for ids in ids.chunks(QUEUES_PER_REQUEST) {
            let rows = api.sampled_queues(who, ids).await?;
            let mut state = self.state();
            for row in &rows {
                let sample = Sample { at_ms: now_ms, values: values(&QUEUE_FIGURES, row) };
                state.used_queues.push(&row.id, sample);
            }
        }
        let exchanges = api.exchange_rows(who).await?;
        let used = exchanges.iter().filter(|row| row.counts.published > 0);
        let used: Vec<_> = used.map(|row| (row.id, row.counts.published)).collect();
        let mut state = self.state();
        state.used_exchanges.begin_round(&used, now_ms);
        for row in &exchanges {
            let sample = Sample { at_ms: now_ms, values: values(&EXCHANGE_FIGURES, &row.counts) };
            state.used_exchanges.push(&row.id, sample);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of an object without an older history.
    fn history<'a, const N: usize>(&self, recent: Option<&'a Series<N>>) -> History<'a, N> {
        History { recent, older: None, now_ms: (self.clock)() }
    }

    /// Returns the fields of one part of the answer about the node, with rates.
    pub(crate) fn node(&self, part: Part, row: &NodeRow, ranges: &Ranges) -> Map<String, Value> {
        fields(&NODE_FIGURES, part, row, self.history(Some(&self.state().node)), ranges)
    }

    /// As [`Self::node`], about another node. It is sampled from now on.
    pub(crate) fn other_node(
        &self,
        name: &Arc<str>,
        part: Part,
        row: &NodeRow,
        ranges: &Ranges,
    ) -> Map<String, Value> {
        let mut state = self.state();
        fields(&NODE_FIGURES, part, row, self.history(state.others.ask(name, ranges.is_any())), ranges)
    }

    /// Returns in which part of the time the thread of a shard was awake, from 0 to 1, with at most four digits. It is the part between
    /// the last two samples, as a rate is.
    pub(crate) fn busy(&self, row: &ShardRow) -> f64 {
        let state = self.state();
        let history = self.history(state.shards.get(usize::from(row.number)));
        let [busy, total] = times(row);
        let (busy, total) = (history.rate(0, busy).unwrap_or(0.0), history.rate(1, total).unwrap_or(0.0));
        // Both are times of the same shard, so the fraction is right whenever the sample was taken.
        let fraction = if total > 0.0 { busy / total } else { 0.0 };
        (fraction.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
    }

    /// Returns the lengths and the `message_stats` of a queue, with rates. The queue is sampled from now on.
    pub(crate) fn queue(&self, row: &QueueRow, ranges: &Ranges) -> (Map<String, Value>, Map<String, Value>) {
        let mut state = self.state();
        let State { queues, used_queues, .. } = &mut *state;
        let recent = queues.ask(&row.id, ranges.is_any());
        let history = History { older: used_queues.get(&row.id), ..self.history(recent) };
        let part = |part| fields(&QUEUE_FIGURES, part, row, history, ranges);
        (part(Part::Lengths), part(Part::Messages))
    }

    /// Returns since when no message has passed through a queue, in milliseconds since the epoch. The node looks once a minute, so this
    /// is known of queues that had messages and have had none for a minute or more.
    pub(crate) fn idle_since(&self, queue: QueueId) -> Option<u64> {
        let used_ms = self.state().used_queues.used_ms(&queue)?;
        (used_ms + kept::EVERY_MS <= (self.clock)()).then_some(used_ms)
    }

    /// Returns the `message_stats` of an exchange, with rates. The exchange is sampled from now on.
    pub(crate) fn exchange(&self, row: &ExchangeRow, ranges: &Ranges) -> Map<String, Value> {
        let mut state = self.state();
        let State { exchanges, used_exchanges, .. } = &mut *state;
        let recent = exchanges.ask(&row.id, ranges.is_any());
        let history = History { older: used_exchanges.get(&row.id), ..self.history(recent) };
        fields(&EXCHANGE_FIGURES, Part::Messages, &row.counts, history, ranges)
    }

    /// Returns the fields of a virtual host, with rates: its messages, its data, and its `message_stats`. It is sampled from
    /// now on. The rates are unknown if the samples are sums over other nodes than `sums`.
    pub(crate) fn vhost(&self, name: &Arc<str>, sums: &VhostSums, ranges: &Ranges) -> Map<String, Value> {
        let numbers = &sums.numbers.get(name).copied().unwrap_or_default();
        let mut state = self.state();
        let State { vhosts, vhost_traffic, vhosts_lack, .. } = &mut *state;
        let is_same = *vhosts_lack == sums.missing;
        let traffic = vhost_traffic.ask(name, ranges.is_any()).filter(|_| is_same);
        let traffic = self.history(traffic);
        let stats = fields(&CHANNEL_FIGURES, Part::Messages, &numbers.counts, traffic, ranges);
        let series = self.history(vhosts.ask(name, ranges.is_any()).filter(|_| is_same));
        let mut shown = fields(&VHOST_FIGURES, Part::Lengths, numbers, series, ranges);
        shown.extend(fields(&VHOST_FIGURES, Part::Data, numbers, series, ranges));
        shown.insert("message_stats".into(), stats.into());
        shown
    }

    /// Returns the fields about the data of a connection, with rates. The connection is sampled from now on.
    pub(crate) fn connection(&self, row: &ConnectionRow, ranges: &Ranges) -> Map<String, Value> {
        let mut state = self.state();
        let series = state.connections.ask(&row.name, ranges.is_any());
        fields(&CONNECTION_FIGURES, Part::Data, row, self.history(series), ranges)
    }

    /// Returns the `message_stats` of the channel or the session with this number, with rates. It is sampled from now on.
    pub(crate) fn channel(
        &self,
        connection: &Arc<str>,
        number: u16,
        counts: &PassedCounts,
        ranges: &Ranges,
    ) -> Map<String, Value> {
        let mut state = self.state();
        let series = state.channels.ask(&(connection.clone(), number), ranges.is_any());
        fields(&CHANNEL_FIGURES, Part::Messages, counts, self.history(series), ranges)
    }
}
