//! `/api/health/checks`, and `/health` on the port of the metrics: 200 `{"status":"ok"}`, or 503 with the reason.

use std::collections::BTreeSet;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use broker::admin_api::{Alarms, GroupRow, Overview, QueueRow};
use catalog::access::Identity;
use catalog::pattern::Pattern;
use serde_json::{Value, json};

use crate::call::{Call, Source};
use crate::pauses::Matches;
use crate::reply::{Failure, Reply, respond};
use crate::vhosts;

/// The number of queues whose statistics are asked for at once.
const QUEUES_AT_ONCE: usize = 500;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Reports the alarms of the cluster, or of one node if `node` is given.
pub(crate) fn alarms(call: &Call<'_>, node: Option<&str>) -> Result<Reply, Failure> {
    Ok(check_alarms(call.api.alarms(&call.who)?, node))
}

/// Returns the answer to a check of the alarms of the cluster, or of one node if `node` is given.
pub(crate) fn check_alarms(mut alarms: Alarms, node: Option<&str>) -> Reply {
    alarms.retain(|(_, at)| node.is_none_or(|node| node == at));
    if alarms.is_empty() {
        return ok();
    }
    let place = if node.is_some() { "on the local node" } else { "in the cluster" };
    let rows: Vec<Value> =
        alarms.iter().map(|(resource, node)| json!({ "node": node, "resource": resource })).collect();
    Reply::Unhealthy(json!({
        "status": "failed",
        "reason": format!("There are alarms in effect {place}"),
        "alarms": rows,
    }))
}

pub(crate) async fn local_alarms(call: &Call<'_>) -> Result<Reply, Failure> {
    let node = call.api.overview(&call.who).await?.node;
    alarms(call, Some(&node))
}

/// Checks that the broker answers and has a listener for clients.
pub(crate) async fn ready(call: &Call<'_>) -> Result<Reply, Failure> {
    has_listener(&call.api.overview(&call.who).await?)
}

/// Like [`ready`], for whoever starts and stops brokers, such as Kubernetes. It needs no login.
pub(crate) async fn ready_without_login(State(source): State<Source>) -> Response {
    respond(overview(&source).await.and_then(|overview| has_listener(&overview)))
}

/// Checks that every shard of the broker answers. It needs no login.
pub(crate) async fn live(State(source): State<Source>) -> Response {
    respond(overview(&source).await.map(|_| ok()))
}

async fn overview(source: &Source) -> Result<Overview, Failure> {
    Ok(source.api.overview(&Identity::metrics_reader()).await?)
}

fn has_listener(overview: &Overview) -> Result<Reply, Failure> {
    let listeners = &overview.listeners;
    if listeners.iter().any(|(protocol, ..)| protocol.starts_with("amqp")) {
        return Ok(ok());
    }
    Ok(Reply::Unhealthy(json!({ "status": "failed", "reason": "There is no listener for clients" })))
}

/// Checks that a listener has this port.
pub(crate) async fn port_listener(call: &Call<'_>) -> Result<Reply, Failure> {
    let port: u16 = call.param(0).parse().map_err(|_| Failure::bad_request("a port number is needed"))?;
    let listeners = call.api.overview(&call.who).await?.listeners;
    if listeners.iter().any(|(.., at)| *at == port) {
        return Ok(Reply::Json(json!({ "status": "ok", "port": port })));
    }
    let ports: Vec<u16> = listeners.iter().map(|(.., port)| *port).collect();
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "No active listener",
        "missing": port,
        "ports": ports,
    })))
}

/// Checks that there are listeners for all of these protocols, whose names are separated by commas.
pub(crate) async fn protocol_listener(call: &Call<'_>) -> Result<Reply, Failure> {
    let listeners = call.api.overview(&call.who).await?.listeners;
    // A listener of AMQP takes both versions.
    let names = |wanted: &str| match wanted.to_lowercase().as_str() {
        "amqp10" | "amqp1.0" | "amqp091" | "amqp0-9-1" => "amqp".to_owned(),
        other => other.to_owned(),
    };
    let is_there = |wanted: &str| listeners.iter().any(|(protocol, ..)| *protocol == names(wanted));
    let missing: Vec<&str> = call.param(0).split(',').filter(|wanted| !is_there(wanted)).collect();
    if missing.is_empty() {
        return Ok(ok());
    }
    let protocols: BTreeSet<&str> = listeners.iter().map(|(protocol, ..)| protocol.as_str()).collect();
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "No active listener",
        "missing": missing,
        "protocols": protocols,
    })))
}

/// Checks that the node accepts another connection (`max_connections`).
pub(crate) async fn below_connection_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let overview = call.api.overview(&call.who).await?;
    let (current, limit) = (overview.connections, overview.connections_max);
    let shown = limit.map_or_else(|| "infinity".into(), Value::from);
    if limit.is_none_or(|limit| current < limit) {
        return Ok(Reply::Json(json!({ "status": "ok", "current": current, "limit": shown })));
    }
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "node connection limit is reached",
        "current": current,
        "limit": shown,
    })))
}

/// Checks that each quorum queue that the user may see has a leader, in all virtual hosts or in the one that the request
/// names. A queue that nobody has used since the start needs none.
pub(crate) async fn elected_leaders(call: &Call<'_>) -> Result<Reply, Failure> {
    leaders(call, call.optional_param(0), &Pattern::Everything).await
}

/// Like [`elected_leaders`], for the queues whose names match the pattern that the request names last.
///
/// # Errors
/// 400 if that is no regular expression, or costs too much.
pub(crate) async fn elected_leaders_named(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, pattern) = match call.optional_param(1) {
        Some(pattern) => (call.optional_param(0), pattern),
        None => (None, call.param(0)),
    };
    let pattern = Pattern::new(pattern).map_err(Failure::bad_request)?;
    leaders(call, vhost, &pattern).await
}

async fn leaders(call: &Call<'_>, vhost: Option<&str>, names: &Pattern) -> Result<Reply, Failure> {
    if let Some(vhost) = vhost {
        vhosts::require(call, vhost).await?;
    }
    let (mut records, mut matches) = (Vec::new(), Matches::new(names));
    for record in call.api.queue_records(&call.who, vhost).await? {
        if record.is_quorum() && matches.is_match(&record.name).await? {
            records.push(record);
        }
    }
    let mut without = Vec::new();
    for some in records.chunks(QUEUES_AT_ONCE) {
        let rows = call.api.numbered(&call.who, some).await?;
        let is_healthy = |row: &QueueRow| {
            !row.report.damaged && !row.is_unknown() && row.group.as_ref().is_none_or(GroupRow::is_healthy)
        };
        let leaderless = rows.iter().filter(|row| !is_healthy(row));
        without.extend(leaderless.map(|row| json!({ "name": *row.name, "vhost": *row.vhost })));
    }
    if without.is_empty() {
        return Ok(ok());
    }
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "There are quorum queues without an elected leader",
        "queues": without,
    })))
}

/// Checks that the cluster could change definitions without this node.
pub(crate) async fn quorum_critical(call: &Call<'_>) -> Result<Reply, Failure> {
    if !call.api.cluster_health(&call.who).await?.is_critical() {
        return Ok(ok());
    }
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "The other nodes that vote and are alive are no majority: without this node, the cluster cannot change definitions",
        "queues": [],
    })))
}

/// Checks that all nodes of the cluster count as alive.
pub(crate) async fn cluster_size(call: &Call<'_>) -> Result<Reply, Failure> {
    let cluster = call.api.cluster_health(&call.who).await?;
    let missing: Vec<&str> =
        cluster.nodes.iter().filter(|node| !node.state.is_alive()).map(|node| &*node.name).collect();
    if missing.is_empty() {
        return Ok(ok());
    }
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "Nodes of the cluster do not count as alive",
        "missing": missing,
    })))
}

/// Checks that the broker answers. Nothing makes what the check is about fail.
pub(crate) async fn always(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.overview(&call.who).await?;
    Ok(ok())
}

/// Checks that the broker answers, and that there is a virtual host of this name. RabbitMQ does no more, either.
pub(crate) async fn aliveness(call: &Call<'_>) -> Result<Reply, Failure> {
    vhosts::require(call, call.param(0)).await?;
    always(call).await
}

/// Checks that all certificates of the node's listeners stay valid for a time, and that changed ones are in use.
pub(crate) fn certificate_expiration(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.alarms(&call.who)?;
    let wrong = || Failure::bad_request("a whole number and one of days, weeks, months, years are needed");
    let count: i64 = call.param(0).parse().map_err(|_| wrong())?;
    let days = match call.param(1).trim_end_matches('s') {
        "day" => 1,
        "week" => 7,
        "month" => 30,
        "year" => 365,
        _ => return Err(wrong()),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
    let latest = count.checked_mul(days * DAY_SECONDS).and_then(|within| now.checked_add(within));
    let latest = latest.filter(|_| count >= 0).ok_or_else(wrong)?;
    let mut bad = Vec::new();
    for tls in call.ports.certificates() {
        let problem = tls.problem().map(|problem| problem.to_string());
        for (file, certificate) in tls.certificates() {
            if certificate.not_after <= latest || problem.is_some() {
                bad.push(json!({
                    "certfile": file.display().to_string(),
                    "subject": certificate.subject,
                    "not_after": certificate.not_after,
                    "problem": problem,
                }));
            }
        }
    }
    if bad.is_empty() {
        return Ok(ok());
    }
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": "Certificates expiring, or changed ones that cannot be used",
        "expired": bad,
    })))
}

fn ok() -> Reply {
    Reply::Json(json!({ "status": "ok" }))
}
