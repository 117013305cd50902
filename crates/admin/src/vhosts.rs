//! `/api/vhosts`, `/api/vhost-limits`.

use std::sync::Arc;

use broker::admin_api::NamedVhost;
use broker::settings::QueueType;
use broker::traces::TraceChange;
use catalog::access::{Authority, Maximum};
use catalog::{AccountChange, DEFAULT_VHOST, VhostPatch, VhostSettings};
use serde_json::{Map, Value, json};

use crate::account_changes::set;
use crate::call::Call;
use crate::limits::{limits_map, maximum};
use crate::parts::name_missing;
use crate::reply::{Failure, Reply};
use crate::samples::Ranges;
use crate::tags::tags_of;
use crate::{json, shape};

pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let vhosts = call.api.vhosts(&call.who).await?;
    let sorts = call.query.get("sort").is_some_and(|by| !by.is_empty() && is_counted(by));
    let shown = with_numbers(call, &vhosts, sorts).await?;
    Ok(Reply::Json(shape::list(shown, &call.query, &["name"]).await?))
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let settings = require(call, call.param(0)).await?;
    let shown = with_numbers(call, &[(call.param(0).into(), settings)], false).await?;
    Ok(Reply::Json(shape::columns(shown.into_iter().next().unwrap_or_default(), &call.query)))
}

/// Shows virtual hosts with their statistics and rates. If the request does not show them, and does not sort by them (`sorts`), no
/// queue is visited.
async fn with_numbers(call: &Call<'_>, vhosts: &[NamedVhost], sorts: bool) -> Result<Vec<Value>, Failure> {
    let ranges = Ranges::of(&call.query)?;
    let shows = call.query.get("columns").is_none_or(|wanted| wanted.split(',').any(is_counted));
    let sums = match !call.query.flag("disable_stats") && (shows || sorts) {
        true => Some(call.api.vhost_numbers(&call.who).await?),
        false => None,
    };
    let state = |is_alive| if is_alive { "running" } else { "nodedown" };
    let states = call.api.nodes_alive().into_iter().map(|(name, is_alive)| (name, state(is_alive)));
    let states: Value = states.map(|(name, state)| (name.to_string(), Value::from(state))).collect();
    let shown = vhosts.iter().map(|(name, settings)| {
        let mut body = row(call, name, settings);
        body["cluster_state"] = states.clone();
        if let Some(sums) = &sums {
            shape::add(&mut body, call.ports.samples().vhost(name, sums, &ranges));
            name_missing(call, &mut body, &sums.missing);
        }
        body
    });
    Ok(shown.collect())
}

/// The fields of a virtual host that are not counted.
const SETTINGS: [&str; 10] = [
    "name",
    "description",
    "tags",
    "default_queue_type",
    "protected_from_deletion",
    "limits",
    "metadata",
    "tracing",
    "deleting",
    "cluster_state",
];

/// Returns true if this field of a virtual host is counted. A field of a field is separated by a point.
fn is_counted(field: &str) -> bool {
    !SETTINGS.contains(&field.split('.').next().unwrap_or(field))
}

/// Checks that the user may see the virtual host. Returns its settings.
///
/// # Errors
/// 404 if the virtual host does not exist or the user does not see it. 401 for the default one, whose
/// existence is no secret.
pub(crate) async fn require(call: &Call<'_>, vhost: &str) -> Result<Arc<VhostSettings>, Failure> {
    let found = call.api.vhosts(&call.who).await?.into_iter().find(|(name, _)| **name == *vhost);
    match found {
        Some((_, settings)) => Ok(settings),
        None if vhost == DEFAULT_VHOST => {
            Err(Failure::not_authorised("User not authorised to access virtual host"))
        }
        None => Err(no_vhost(vhost)),
    }
}

/// Adds a virtual host, or changes what the body names. `tracing` turns the firehose on or off, which a restart forgets. Whoever adds it gets all permissions in it, as in RabbitMQ.
pub(crate) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    let (name, patch): (Arc<str>, _) = (call.param(0).into(), patch(&call.fields)?);
    let creator = (call.who.authority() == Authority::Internal).then(|| call.who.user.clone());
    let reply = set(call, AccountChange::SetVhost { name: name.clone(), patch, creator }).await?;
    if let Some(Value::Bool(is_traced)) = call.fields.get("tracing") {
        let change = TraceChange::Vhost { vhost: name, is_traced: *is_traced };
        call.api.change_traces(&call.who, change).await?;
    }
    Ok(reply)
}

/// Starts a virtual host on a node. All of them always run, so there is nothing to do.
///
/// # Errors
/// 404 if there is no such virtual host or node.
pub(crate) async fn start(call: &Call<'_>) -> Result<Reply, Failure> {
    require(call, call.param(0)).await?;
    if call.ports.node() != call.param(1) {
        return Err(Failure::not_found(format!("no node '{}'", call.param(1))));
    }
    Ok(Reply::NoContent)
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.param(0);
    let deleted = call.api.delete_vhost(&call.who, name).await?;
    if deleted { Ok(Reply::NoContent) } else { Err(no_vhost(name)) }
}

/// Protects a virtual host from deletion, or allows its deletion again.
pub(crate) async fn protect(call: &Call<'_>, protected: bool) -> Result<Reply, Failure> {
    change_known(call, VhostPatch { protected: Some(protected), ..VhostPatch::default() }).await
}

/// Shows whether a virtual host is protected from deletion.
pub(crate) async fn is_protected(call: &Call<'_>) -> Result<Reply, Failure> {
    let settings = require(call, call.param(0)).await?;
    Ok(Reply::Json(json!({ "protected_from_deletion": settings.protected })))
}

/// The limits of all virtual hosts that the user sees, or of one. Those without limits have no row.
pub(crate) async fn limits(call: &Call<'_>) -> Result<Reply, Failure> {
    if let Some(vhost) = call.optional_param(0) {
        require(call, vhost).await?;
    }
    let vhosts = call.api.vhosts(&call.who).await?;
    let wanted =
        vhosts.iter().filter(|(name, _)| call.optional_param(0).is_none_or(|vhost| **name == *vhost));
    let rows = wanted.filter_map(|(name, settings)| {
        let value = limits_json(settings);
        value
            .as_object()
            .is_some_and(|value| !value.is_empty())
            .then(|| json!({ "vhost": **name, "value": value }))
    });
    Ok(Reply::Json(shape::list(rows.collect(), &call.query, &["vhost"]).await?))
}

pub(crate) async fn put_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let max = maximum(&call.fields, "value")?;
    change_known(call, limit_patch(call.param(1), max)?).await
}

pub(crate) async fn delete_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    change_known(call, limit_patch(call.param(1), None)?).await
}

/// The change is refused if the virtual host does not exist.
async fn change_known(call: &Call<'_>, patch: VhostPatch) -> Result<Reply, Failure> {
    let name = call.param(0);
    require(call, name).await?;
    let change = AccountChange::PatchVhost { name: name.into(), patch };
    call.api.change_account(&call.who, change).await?;
    Ok(Reply::NoContent)
}

fn limit_patch(name: &str, max: Maximum) -> Result<VhostPatch, Failure> {
    match name {
        "max-connections" => Ok(VhostPatch { max_connections: Some(max), ..VhostPatch::default() }),
        "max-queues" => Ok(VhostPatch { max_queues: Some(max), ..VhostPatch::default() }),
        other => Err(Failure::bad_request(format!(
            "'{other}' is not a limit of a vhost: there are max-connections and max-queues"
        ))),
    }
}

/// Reads what a body says about a virtual host.
pub(crate) fn patch(fields: &Map<String, Value>) -> Result<VhostPatch, Failure> {
    let mut patch = VhostPatch::default();
    for (field, value) in fields {
        let wrong = |need: &str| Failure::bad_request(format!("'{field}' is not {need}"));
        match (field.as_str(), value) {
            // The path names the virtual host, and [`put`] reads whether it is traced.
            ("name", _) | (_, Value::Null) | ("tracing", Value::Bool(_)) => {}
            ("description", _) => patch.description = Some(json::text(fields, field, "")?.into()),
            ("tags", _) => patch.tags = Some(tags_of(value)?),
            ("default_queue_type", Value::String(kind)) => {
                patch.default_queue_type = Some(match kind.as_str() {
                    "" | "undefined" => None,
                    kind => {
                        Some(QueueType::from_name(kind).ok_or_else(|| wrong("classic, quorum or stream"))?)
                    }
                });
            }
            ("protected_from_deletion", Value::Bool(protected)) => patch.protected = Some(*protected),
            // RabbitMQ shows these in one more place.
            ("metadata" | "limits" | "cluster_state", _) => {}
            ("default_queue_type", _) => return Err(wrong("a string")),
            ("protected_from_deletion" | "tracing", _) => return Err(wrong("a boolean")),
            _ => return Err(Failure::bad_request(format!("'{field}' is not a property of a vhost"))),
        }
    }
    Ok(patch)
}

fn no_vhost(name: &str) -> Failure {
    Failure::not_found(format!("no vhost '{name}'"))
}

pub(crate) fn limits_json(settings: &VhostSettings) -> Value {
    limits_map([("max-connections", settings.max_connections), ("max-queues", settings.max_queues)])
}

/// What RabbitMQ shows once more, and has in definitions.
pub(crate) fn metadata_json(call: &Call<'_>, settings: &VhostSettings) -> Value {
    json!({
        "description": *settings.description,
        "tags": *settings.tags,
        "default_queue_type": settings.default_queue_type.unwrap_or(call.api.default_queue_type()).name(),
    })
}

pub(crate) fn row(call: &Call<'_>, name: &str, settings: &VhostSettings) -> Value {
    let kind = settings.default_queue_type.unwrap_or(call.api.default_queue_type()).name();
    json!({
        "name": name,
        "description": *settings.description,
        "tags": *settings.tags,
        "default_queue_type": kind,
        "protected_from_deletion": settings.protected,
        "limits": limits_json(settings),
        "metadata": metadata_json(call, settings),
        "tracing": call.api.is_traced(name),
        "deleting": settings.deleting,
    })
}
