//! Rows of objects that are collected at once: connections, channels, exchanges and virtual hosts. They are few numbers for
//! each object, bounded in number, and counted in the budget for responses.

use std::sync::Arc;

use broker::admin_api::amqp091_rows::ChannelRow;
use broker::admin_api::{ConnectionCursor, ConnectionRow, ProtocolRow};
use catalog::Exchange;
use catalog::access::Identity;
use node::AdminApi;

use super::families::Rows;
use crate::budget::Reservation;
use crate::common_fields::channel_name;
use crate::exposition::{Exposition, Kind};
use crate::pages::PAGE_BYTES;
use crate::ports::Ports;
use crate::reply::Failure;

/// The most connections, channels or exchanges that have rows of their own, as for queues.
const ROWS_MAX: usize = 10_000;

/// A metric, and what it shows.
type Metric = (Kind, String, &'static str);

/// The labels of an object, by name.
type Labels = Vec<(&'static str, Arc<str>)>;

/// Metrics of objects of one kind.
pub(super) struct Listed {
    metrics: Vec<Metric>,
    /// For each object: its labels, and the values of all metrics.
    rows: Vec<(Labels, Box<[u64]>)>,
    /// The index of the next metric, and its next row.
    metric: usize,
    from: usize,
    /// The memory of the rows.
    _held: Reservation,
}

fn labels_of(exchange: &Exchange) -> Labels {
    vec![("vhost", exchange.vhost.clone()), ("exchange", exchange.name.clone())]
}

impl Listed {
    /// Collects the rows of a family. Returns `None` for families that have other rows. `vhosts` are those to show; if it is
    /// empty, all of them.
    ///
    /// # Errors
    /// The admin API's error, or 503 if too much memory is in use for responses.
    pub(super) async fn collect(
        rows: &Rows,
        prefix: &str,
        (api, who, ports): (&AdminApi, &Identity, &Ports),
        vhosts: &[String],
    ) -> Result<Option<Self>, Failure> {
        let is_wanted = |vhost: &str| vhosts.is_empty() || vhosts.iter().any(|wanted| wanted == vhost);
        let named = |name: &str| format!("{prefix}{name}");
        let mut found: Vec<(Labels, Box<[u64]>)> = Vec::new();
        let metrics: Vec<Metric> = match rows {
            Rows::Connections(measures) => {
                let row = |c: &ConnectionRow| {
                    if !is_wanted(&c.vhost) {
                        return Vec::new();
                    }
                    let labels = vec![("vhost", c.vhost.clone()), ("connection", c.name.clone())];
                    vec![(labels, measures.iter().map(|measure| (measure.of)(c)).collect())]
                };
                found = connections(api, who, row).await?;
                measures.iter().map(|measure| (measure.kind, named(measure.name), measure.help)).collect()
            }
            Rows::Channels(measures) => {
                let rows = |c: &ConnectionRow| {
                    let ProtocolRow::Amqp091(ours) = &c.protocol else { return Vec::new() };
                    if !is_wanted(&c.vhost) {
                        return Vec::new();
                    }
                    let row = |channel: &ChannelRow| {
                        let name = channel_name(&c.name, channel.number).into();
                        let values = measures.iter().map(|measure| (measure.of)(channel)).collect();
                        (vec![("vhost", c.vhost.clone()), ("channel", name)], values)
                    };
                    ours.channels.iter().map(row).collect()
                };
                found = connections(api, who, rows).await?;
                measures.iter().map(|measure| (measure.kind, named(measure.name), measure.help)).collect()
            }
            Rows::Vhosts => {
                let all = api.vhosts(who).await?.into_iter();
                for (name, settings) in all.filter(|(name, _)| is_wanted(name)).take(ROWS_MAX) {
                    found.push((vec![("vhost", name)], [u64::from(!settings.deleting)].into()));
                }
                vec![(Kind::Gauge, "rabbitmq_cluster_vhost_status".into(), "1 if a virtual host can be used")]
            }
            Rows::ExchangeBindings | Rows::ExchangeNames => {
                let counts = matches!(rows, Rows::ExchangeBindings);
                // As in RabbitMQ, without the default exchange and internal ones.
                let is_shown = |e: &Exchange| !e.name.is_empty() && !e.internal && is_wanted(&e.vhost);
                let all = api.exchange_rows(who).await?.into_iter();
                for row in all.filter(|row| is_shown(&row.exchange)).take(ROWS_MAX) {
                    let mut labels = labels_of(&row.exchange);
                    labels.push(("type", row.exchange.kind.as_str().into()));
                    found.push((labels, [if counts { row.bindings as u64 } else { 1 }].into()));
                }
                vec![match counts {
                    true => {
                        (Kind::Gauge, "rabbitmq_cluster_exchange_bindings".into(), "Bindings of an exchange")
                    }
                    false => (Kind::Gauge, "rabbitmq_cluster_exchange_name".into(), "1 for every exchange"),
                }]
            }
            Rows::Exchanges(measures) => {
                let all = api.exchange_rows(who).await?.into_iter();
                for row in all.filter(|row| is_wanted(&row.exchange.vhost)).take(ROWS_MAX) {
                    let values = measures.iter().map(|measure| (measure.of)(&row.counts)).collect();
                    found.push((labels_of(&row.exchange), values));
                }
                measures.iter().map(|measure| (measure.kind, named(measure.name), measure.help)).collect()
            }
            Rows::Queues(_) | Rows::AuthAttempts | Rows::AuthAttemptsBySource | Rows::Churn | Rows::Node => {
                return Ok(None);
            }
        };
        found.truncate(ROWS_MAX);
        let bytes = |(labels, values): &(Labels, Box<[u64]>)| {
            let names: usize = labels.iter().map(|(_, value)| value.len()).sum();
            size_of_val(&**labels) + names + size_of_val(&**values)
        };
        let held = ports.hold_answer(found.iter().map(bytes).sum())?;
        Ok(Some(Self { metrics, rows: found, metric: 0, from: 0, _held: held }))
    }

    /// Adds samples to a page until it is full. Returns true if all samples are on it or on an earlier one.
    pub(super) fn add_to(&mut self, page: &mut Exposition) -> bool {
        while let Some((kind, name, help)) = self.metrics.get(self.metric) {
            if page.len() >= PAGE_BYTES {
                return false;
            }
            let mut family = match self.from {
                0 => page.named(*kind, name.as_str(), help),
                _ => page.same_named(name),
            };
            while let Some((labels, values)) = self.rows.get(self.from)
                && family.page_len() < PAGE_BYTES
            {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(name, value)| (*name, &**value)).collect();
                family.sample(&labels, values[self.metric]);
                self.from += 1;
            }
            if self.from == self.rows.len() {
                (self.metric, self.from) = (self.metric + 1, 0);
            }
        }
        true
    }
}

/// Collects rows of connections, part by part. Only the rows of one part are in memory at once.
async fn connections<T>(
    api: &AdminApi,
    who: &Identity,
    rows: impl Fn(&ConnectionRow) -> Vec<T>,
) -> Result<Vec<T>, Failure> {
    let (mut found, mut next) = (Vec::new(), Some(ConnectionCursor::default()));
    while let Some(from) = next.filter(|_| found.len() < ROWS_MAX) {
        let (part, after) = api.connection_rows(who, from).await?;
        found.extend(part.iter().flat_map(&rows));
        next = after;
    }
    Ok(found)
}
