//! `/api/overview`, `/api/whoami`, `/api/nodes`.

use broker::catalog::ExchangeKind;
use broker::counters::Deprecated;
use broker::desk::{BudgetRow, Desk, Overview};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::process::Process;
use crate::reply::{Failure, Reply};
use crate::shape;

pub async fn overview<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let overview = call.desk.overview(&call.who).await?;
    Ok(Reply::Json(shape::columns(to_json(call, &overview), &call.query)))
}

/// Returns the version of RabbitMQ that the broker behaves as.
pub async fn version<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    Ok(Reply::Json(call.desk.overview(&call.who).await?.product_version.into()))
}

pub async fn cluster_name<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    Ok(Reply::Json(json!({ "name": call.desk.overview(&call.who).await?.cluster_name })))
}

/// Lists the features that clients should no longer use, or only those that were used since the start.
pub async fn deprecated_features<D: Desk>(call: &Call<'_, D>, used: bool) -> Result<Reply, Failure> {
    let uses = call.desk.overview(&call.who).await?.counters.deprecated;
    let rows = Deprecated::ALL.iter().filter(|feature| !used || uses.of(**feature) > 0);
    let rows = rows.map(|feature| {
        json!({
            "name": feature.as_str(),
            "deprecation_phase": "permitted_by_default",
            "state": "permitted",
            "provided_by": "sluice",
            "uses": uses.of(*feature),
        })
    });
    Ok(Reply::Json(shape::list(rows.collect(), &call.query, &["name"])?))
}

/// Returns what the memory of a node is used for, as far as clients can make it grow.
pub async fn memory<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let overview = call.ports.overview(call.desk, &call.who).await?;
    if overview.node != call.param(0) {
        return Err(no_node(call.param(0)));
    }
    let resident = Process::read().resident_bytes;
    let used: u64 = overview.budgets.iter().map(|row| row.used).sum();
    let mut memory: Map<String, Value> =
        overview.budgets.iter().map(|row| (row.name.to_owned(), row.used.into())).collect();
    memory.insert("other".into(), resident.map(|resident| resident.saturating_sub(used)).into());
    memory.insert("total".into(), json!({ "rss": resident }));
    memory.insert("strategy".into(), "rss".into());
    Ok(Reply::Json(json!({ "memory": memory })))
}

fn no_node(node: &str) -> Failure {
    Failure::not_found(format!("no node '{node}'"))
}

pub fn whoami<D>(call: &Call<'_, D>) -> Reply {
    let body = json!({ "name": *call.who.user, "tags": *call.who.tags, "is_internal_user": true });
    Reply::Json(shape::columns(body, &call.query))
}

pub async fn list_nodes<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let row = node(call, &call.ports.overview(call.desk, &call.who).await?)?;
    Ok(Reply::Json(shape::list(vec![row], &call.query, &["name"])?))
}

pub async fn get_node<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let overview = call.ports.overview(call.desk, &call.who).await?;
    if overview.node != call.param(0) {
        return Err(no_node(call.param(0)));
    }
    Ok(Reply::Json(shape::columns(node(call, &overview)?, &call.query)))
}

fn node<D: Desk>(call: &Call<'_, D>, overview: &Overview) -> Result<Value, Failure> {
    let process = Process::read();
    let alarms = call.desk.alarms(&call.who)?;
    let alarm = |what: &str| alarms.iter().any(|(kind, node)| *kind == what && *node == overview.node);
    Ok(json!({
        "name": overview.node,
        "type": "disc",
        "running": true,
        "os_pid": std::process::id().to_string(),
        "uptime": overview.uptime_ms,
        "node_id": overview.node_id,
        "boots": overview.boots,
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "mem_used": process.resident_bytes,
        "mem_alarm": alarm("memory"),
        "disk_free_alarm": alarm("disk"),
        "fd_used": process.open_fds,
        "fd_total": process.max_fds,
        "budgets": overview.budgets.iter().map(budget).collect::<Vec<_>>(),
    }))
}

fn budget(row: &BudgetRow) -> Value {
    json!({ "name": row.name, "used": row.used, "limit": row.limit })
}

fn to_json<D: Desk>(call: &Call<'_, D>, o: &Overview) -> Value {
    let kinds = ExchangeKind::ALL.map(|kind| json!({ "name": kind.as_str(), "enabled": true }));
    let listeners: Vec<Value> = o
        .listeners
        .iter()
        .map(|(protocol, ip, port)| {
            json!({ "node": o.node, "protocol": protocol, "ip_address": ip, "port": port })
        })
        .collect();
    let c = &o.counters;
    let t = c.traffic();
    let d = t.deliveries();
    json!({
        "management_version": o.product_version,
        "rates_mode": "none",
        "product_name": o.product,
        "product_version": o.product_version,
        "rabbitmq_version": o.product_version,
        "sluice_version": o.sluice_version,
        "cluster_name": o.cluster_name,
        "node": o.node,
        "uptime": o.uptime_ms,
        "default_queue_type": call.desk.default_queue_type().name(),
        "exchange_types": kinds,
        "message_stats": {
            "publish": t.received,
            "confirm": t.confirmed,
            "drop_unroutable": t.unroutable_dropped,
            "return_unroutable": t.unroutable_returned,
            "deliver": d.manual_ack,
            "deliver_no_ack": d.auto_ack,
            "get": d.get_manual_ack,
            "get_no_ack": d.get_auto_ack,
            "get_empty": t.get_empty,
            "deliver_get": d.sent(),
            "redeliver": d.redelivered,
            "ack": d.acknowledged,
        },
        "churn_rates": {
            "connection_created": c.connections_opened,
            "connection_closed": c.connections_closed,
            "channel_created": c.channels_opened,
            "queue_declared": c.queues_declared,
            "queue_created": c.queues_created,
            "queue_deleted": c.queues_deleted,
        },
        "queue_totals": {
            "messages": o.messages_ready + o.messages_unacknowledged,
            "messages_ready": o.messages_ready,
            "messages_unacknowledged": o.messages_unacknowledged,
        },
        "object_totals": {
            "connections": o.connections,
            "channels": o.sessions,
            "consumers": o.consumers,
            "exchanges": o.exchanges,
            "queues": o.queues,
        },
        "listeners": listeners,
        "contexts": [],
    })
}
