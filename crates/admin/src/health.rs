//! `/api/health/checks`: 200 `{"status":"ok"}`, or 503 with the reason.

use broker::desk::{Alarms, Desk};
use serde_json::{Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};

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

fn ok() -> Reply {
    Reply::Json(json!({ "status": "ok" }))
}
