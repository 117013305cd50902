//! `/api/overview` and `/api/whoami`.

use broker::admin_api::{OfOthers, Overview, ProtocolRow};
use catalog::ExchangeKind;
use catalog::access::Authority;
use serde_json::{Value, json};

use crate::accounts::permissions_json;
use crate::call::Call;
use crate::channels::numbered_consumers;
use crate::parts;
use crate::process::Process;
use crate::reply::{Failure, Reply};
use crate::samples::{NODE_FIGURES, NodeRow, Part, Ranges, plain};
use crate::shape;

pub(crate) async fn overview(call: &Call<'_>) -> Result<Reply, Failure> {
    let ranges = Ranges::of(&call.query)?;
    let row = NodeRow::new(call.api.overview(&call.who).await?, Process::default());
    let body = match row.overview().limited {
        true => limited(call, row.overview(), &ranges).await?,
        false => whole(call, &row, &ranges).await?,
    };
    Ok(Reply::Json(shape::columns(body, &call.query)))
}

/// Shows the overview of the virtual hosts of the user, as RabbitMQ does, with the sums of their figures.
async fn limited(call: &Call<'_>, overview: &Overview, ranges: &Ranges) -> Result<Value, Failure> {
    let mut body = about(call, overview);
    let connections = call.api.connections(&call.who).await?;
    let open = connections.iter().map(|row| match &row.protocol {
        ProtocolRow::Amqp10(row) => (row.sessions.len(), 0),
        ProtocolRow::Amqp091(row) => (0, row.channels.len()),
    });
    let (sessions, channels) = open.fold((0, 0), |sum: (usize, usize), of| (sum.0 + of.0, sum.1 + of.1));
    let consumers = connections.iter().map(|row| numbered_consumers(row).len());
    let totals = json!({
        "connections": connections.len(),
        "channels": sessions + channels,
        "sessions": sessions,
        "consumers": consumers.sum::<usize>(),
        "exchanges": call.api.exchanges(&call.who, None).await?.len(),
        "queues": call.api.queues(&call.who, None, 0, 0).await?.1,
    });
    body["object_totals"] = totals;
    let stats = !call.query.flag("disable_stats");
    if !stats && !call.query.flag("enable_queue_totals") {
        return Ok(body);
    }
    let mut sum = json!({ "message_stats": {} });
    let sums = call.api.vhost_numbers(&call.who).await?;
    for vhost in sums.numbers.keys() {
        add(&mut sum, call.ports.samples().vhost(vhost, &sums, ranges).into());
    }
    parts::name_missing(call, &mut body, &sums.missing);
    if stats {
        body["message_stats"] = sum["message_stats"].take();
    }
    let of_lengths = |name: &str| name.starts_with("messages") && (stats || !name.ends_with("_details"));
    let sum = sum.as_object().into_iter().flatten().filter(|(name, _)| of_lengths(name));
    body["queue_totals"] = sum.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(body)
}

/// Adds figures, their rates and their samples. Samples are taken of all objects at the same times, the newest first.
fn add(sum: &mut Value, more: Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => {
            for (name, value) in more {
                match sum.get_mut(&name) {
                    Some(_) if name == "timestamp" => {}
                    Some(sum) => add(sum, value),
                    None => _ = sum.insert(name, value),
                }
            }
        }
        (Value::Array(sum), Value::Array(more)) => {
            // Where one of them has no sample, the sum is unknown: without the others it would have a step that nothing made.
            sum.truncate(more.len());
            sum.iter_mut().zip(more).for_each(|(sum, value)| add(sum, value));
        }
        (Value::Number(sum), Value::Number(more)) => {
            *sum = match (sum.as_u64(), more.as_u64()) {
                (Some(a), Some(b)) => a.saturating_add(b).into(),
                _ => {
                    let total = sum.as_f64().unwrap_or_default() + more.as_f64().unwrap_or_default();
                    serde_json::Number::from_f64(total).unwrap_or_else(|| 0.into())
                }
            }
        }
        _ => {}
    }
}

/// Returns the version of RabbitMQ that the broker behaves as.
pub(crate) async fn version(call: &Call<'_>) -> Result<Reply, Failure> {
    Ok(Reply::Json(call.api.overview(&call.who).await?.product_version.into()))
}

pub(crate) async fn cluster_name(call: &Call<'_>) -> Result<Reply, Failure> {
    Ok(Reply::Json(json!({ "name": call.api.overview(&call.who).await?.cluster_name })))
}

pub(crate) fn whoami(call: &Call<'_>) -> Reply {
    let authority = call.who.authority();
    let mut body = json!({
        "name": *call.who.user,
        "tags": *call.who.tags,
        "is_internal_user": authority == Authority::Internal,
        "auth_backend": authority.as_str(),
    });
    // The web page offers only what the user may do. Without this, only administrators could read it.
    if let Some(own) = call.api.own_permissions(&call.who) {
        let shown =
            own.iter().map(|(vhost, permissions)| permissions_json(&call.who.user, vhost, permissions));
        body["permissions"] = shown.collect();
    }
    Reply::Json(shape::columns(body, &call.query))
}

/// Shows the overview of all nodes as RabbitMQ does. `disable_stats` omits all figures that have a rate;
/// `enable_queue_totals` adds the numbers of messages again.
async fn whole(call: &Call<'_>, row: &NodeRow, ranges: &Ranges) -> Result<Value, Failure> {
    let o = row.overview();
    let OfOthers { answered, missing } = call.api.totals_of_others(&call.who).await?;
    let others: Vec<_> =
        answered.into_iter().map(|(name, totals)| (name, NodeRow::of_other(totals))).collect();
    let listeners: Vec<Value> = o
        .listeners
        .iter()
        .map(|(protocol, ip, port)| {
            json!({ "node": o.node, "protocol": protocol, "ip_address": ip, "port": port, "socket_opts": {} })
        })
        .collect();
    let mut body = about(call, o);
    let mut totals = *row.totals();
    others.iter().for_each(|(_, other)| totals += *other.totals());
    body["object_totals"] = json!({
        "connections": totals.connections,
        // RabbitMQ counts sessions of AMQP 1.0 as channels.
        "channels": totals.sessions + totals.channels,
        "sessions": totals.sessions,
        "consumers": totals.consumers,
        "exchanges": o.exchanges,
        "queues": o.queues,
    });
    body["listeners"] = listeners.into();
    body["contexts"] = parts::contexts(o).into();
    parts::name_missing(call, &mut body, &missing);
    let samples = call.ports.samples();
    let fields = |part| {
        let mut sum = Value::Object(samples.node(part, row, ranges));
        for (name, other) in &others {
            add(&mut sum, samples.other_node(name, part, other, ranges).into());
        }
        sum
    };
    let stats = !call.query.flag("disable_stats");
    if stats {
        body["message_stats"] = fields(Part::Messages);
        body["churn_rates"] = fields(Part::Churn);
    }
    if stats {
        body["queue_totals"] = fields(Part::Lengths);
    } else if call.query.flag("enable_queue_totals") {
        let mut sum = Value::Object(plain(&NODE_FIGURES, Part::Lengths, row));
        for (_, other) in &others {
            add(&mut sum, plain(&NODE_FIGURES, Part::Lengths, other).into());
        }
        body["queue_totals"] = sum;
    }
    Ok(body)
}

/// Returns what every user may know of the broker.
fn about(call: &Call<'_>, o: &Overview) -> Value {
    let tags = o.cluster_tags.as_ref().and_then(|tags| serde_json::from_str(tags).ok());
    let kinds = ExchangeKind::ALL.map(|kind| json!({ "name": kind.as_str(), "enabled": true }));
    let mut body = json!({
        "management_version": o.product_version,
        "rates_mode": "basic",
        // In seconds.
        "sample_retention_policies": { "global": [600, 3_600, 28_800, 86_400], "basic": [600, 3_600, 28_800, 86_400], "detailed": [600] },
        "product_name": o.product,
        "product_version": o.product_version,
        "rabbitmq_version": o.product_version,
        "sluice_version": o.sluice_version,
        "cluster_name": o.cluster_name,
        "node": o.node,
        "uptime": o.uptime_ms,
        "default_queue_type": call.api.default_queue_type().name(),
        "exchange_types": kinds,
        // The API shows statistics unless a request turns them off.
        "disable_stats": false,
        "enable_queue_totals": false,
        "is_op_policy_updating_enabled": true,
        // An object also if there are none, which typed clients expect.
        "cluster_tags": tags.unwrap_or_else(|| json!({})),
        "node_tags": {},
        "statistics_db_event_queue": 0,
    });
    shape::add(&mut body, parts::runtime(call));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_begins_where_all_of_its_parts_do() {
        let of = |values: &[u64]| json!({ "publish": 9, "publish_details": { "rate": 1.0, "samples": values.iter().map(|v| json!({ "sample": v, "timestamp": 5 })).collect::<Vec<_>>() } });
        for (a, b) in [(of(&[7, 6, 5]), of(&[100])), (of(&[100]), of(&[7, 6, 5]))] {
            let mut sum = json!({});
            add(&mut sum, a);
            add(&mut sum, b);
            assert_eq!(
                sum,
                json!({ "publish": 18, "publish_details": { "rate": 2.0, "samples": [{ "sample": 107, "timestamp": 5 }] } })
            );
        }
    }
}
