//! `/api/health/checks`: 200 `{"status":"ok"}`, or 503 with the reason.

use std::time::SystemTime;

use broker::desk::{Alarms, Desk};
use serde_json::{Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Reports the alarms of the cluster, or of one node if `node` is given.
pub fn alarms<D: Desk>(call: &Call<'_, D>, node: Option<&str>) -> Result<Reply, Failure> {
    let mut alarms: Alarms = call.desk.alarms(&call.who)?;
    alarms.retain(|(_, at)| node.is_none_or(|node| node == at));
    if alarms.is_empty() {
        return Ok(ok());
    }
    let place = if node.is_some() { "on the local node" } else { "in the cluster" };
    let rows: Vec<Value> =
        alarms.iter().map(|(resource, node)| json!({ "node": node, "resource": resource })).collect();
    Ok(Reply::Unhealthy(json!({
        "status": "failed",
        "reason": format!("There are alarms in effect {place}"),
        "alarms": rows,
    })))
}

pub async fn local_alarms<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let node = call.desk.overview(&call.who).await?.node;
    alarms(call, Some(&node))
}

/// Checks that the broker answers and has a listener for clients.
pub async fn ready<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let listeners = call.desk.overview(&call.who).await?.listeners;
    if listeners.iter().any(|(protocol, ..)| protocol.starts_with("amqp")) {
        return Ok(ok());
    }
    Ok(Reply::Unhealthy(json!({ "status": "failed", "reason": "There is no listener for clients" })))
}

/// Checks that all certificates of the node's listeners stay valid for a time, and that changed ones are in use.
pub fn certificate_expiration<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    call.desk.alarms(&call.who)?;
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
