//! `/api/traces`: traces of a queue or a connection, which end by themselves. The copies of the messages go to the exchange
//! `amq.rabbitmq.trace`, from which the user who has started the trace takes them.

use broker::traces::{Subject, TRACE_MESSAGES_MAX, TRACE_SECONDS_MAX, Trace, TraceChange};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::clock::now_ms;
use crate::reply::{Failure, Reply};
use crate::{json, shape, vhosts};

/// The time and the messages of a trace that names none.
const SECONDS_DEFAULT: i64 = 30;
const MESSAGES_DEFAULT: i64 = 10_000;

/// The traces of all virtual hosts, or of one.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    if let Some(vhost) = call.optional_param(0) {
        vhosts::require(call, vhost).await?;
    }
    let (traces, now_ms) = (call.api.traces(&call.who)?, now_ms());
    let wanted = traces.limited().iter().filter(|trace| {
        !trace.is_over(now_ms) && call.optional_param(0).is_none_or(|vhost| *trace.vhost == *vhost)
    });
    let rows = wanted.map(|trace| row(trace, now_ms)).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, &["vhost", "name"]).await?))
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let (traces, now_ms) = (call.api.traces(&call.who)?, now_ms());
    let mut running = traces.limited().iter().filter(|trace| !trace.is_over(now_ms));
    let found = running.find(|trace| *trace.vhost == *call.param(0) && *trace.name == *call.param(1));
    let trace = found.ok_or_else(|| missing(call))?;
    Ok(Reply::Json(shape::columns(row(trace, now_ms), &call.query)))
}

/// Starts a trace. One of the same name ends.
///
/// # Errors
/// 404 if there is no such virtual host. One that is being deleted has lost its traces already, so it gets no new ones.
pub(crate) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    if vhosts::require(call, call.param(0)).await?.deleting {
        return Err(Failure::not_found(format!("no vhost '{}'", call.param(0))));
    }
    let start = TraceChange::Start {
        vhost: call.param(0).into(),
        name: call.param(1).into(),
        subject: subject(&call.fields)?,
        seconds: within(&call.fields, "seconds", SECONDS_DEFAULT, TRACE_SECONDS_MAX)?,
        messages: within(&call.fields, "messages", MESSAGES_DEFAULT, TRACE_MESSAGES_MAX)?,
    };
    call.api.change_traces(&call.who, start).await?;
    Ok(Reply::Created(None))
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let end = TraceChange::End { vhost: call.param(0).into(), name: call.param(1).into() };
    match call.api.change_traces(&call.who, end).await? {
        true => Ok(Reply::NoContent),
        false => Err(missing(call)),
    }
}

fn missing(call: &Call<'_>) -> Failure {
    Failure::not_found(format!("no trace '{}' in vhost '{}'", call.param(1), call.param(0)))
}

/// Reads what is traced.
fn subject(fields: &Map<String, Value>) -> Result<Subject, Failure> {
    let (queue, connection) = (json::text(fields, "queue", "")?, json::text(fields, "connection", "")?);
    match (queue.as_str(), connection.as_str()) {
        (queue, "") if !queue.is_empty() => Ok(Subject::Queue(queue.into())),
        ("", connection) if !connection.is_empty() => Ok(Subject::Connection(connection.into())),
        _ => Err(Failure::bad_request("either 'queue' or 'connection' must say what is traced")),
    }
}

/// Reads a number from 1 to `max`.
fn within(fields: &Map<String, Value>, name: &str, default: i64, max: u64) -> Result<u64, Failure> {
    let number = u64::try_from(json::integer(fields, name, default)?).ok();
    number
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| Failure::bad_request(format!("'{name}' is not a number from 1 to {max}")))
}

fn row(trace: &Trace, now_ms: u64) -> Value {
    let (field, name) = match &trace.subject {
        Subject::Queue(name) => ("queue", name),
        Subject::Connection(name) => ("connection", name),
    };
    json!({
        "vhost": *trace.vhost,
        "name": *trace.name,
        field: **name,
        "seconds_left": trace.until_ms.saturating_sub(now_ms).div_ceil(1000),
        "messages_left": trace.messages_left(),
    })
}
