//! `/api/policies` and `/api/operator-policies`.

use catalog::{Policy, SetPolicy};
use serde_json::{Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::routes::Whose;
use crate::{json, shape, vhosts};

pub(crate) async fn list(call: &Call<'_>, whose: Whose) -> Result<Reply, Failure> {
    let vhost = call.optional_param(0);
    if let Some(vhost) = vhost {
        vhosts::require(call, vhost).await?;
    }
    let mut policies = call.api.policies(&call.who, vhost, whose == Whose::Operators).await?;
    if let Some(name) = call.query.get("queue") {
        let vhost = vhost.ok_or_else(|| {
            Failure::bad_request("'queue' needs the path of a virtual host: /api/policies/VHOST")
        })?;
        let row = call.api.queue(&call.who, vhost, name).await?;
        policies.retain(|policy| policy.matches_queue(row.kind, name));
    }
    let rows = policies.iter().map(|p| to_json(p)).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, &["vhost", "name"]).await?))
}

pub(crate) async fn get(call: &Call<'_>, whose: Whose) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    let policies = call.api.policies(&call.who, Some(vhost), whose == Whose::Operators).await?;
    let found = policies.iter().find(|p| *p.name == *name);
    let found = found.ok_or_else(|| nothing(vhost, name, whose))?;
    Ok(Reply::Json(shape::columns(to_json(found), &call.query)))
}

pub(crate) async fn put(call: &Call<'_>, whose: Whose) -> Result<Reply, Failure> {
    for field in ["pattern", "definition"] {
        if !call.fields.contains_key(field) {
            return Err(Failure::bad_request(format!("'{field}' is missing")));
        }
    }
    let policy = SetPolicy {
        vhost: call.param(0).into(),
        name: call.param(1).into(),
        operator: whose == Whose::Operators,
        pattern: json::text(&call.fields, "pattern", "")?,
        priority: json::integer(&call.fields, "priority", 0)?,
        apply_to: json::text(&call.fields, "apply-to", "all")?,
        definition: json::table(&call.fields, "definition")?,
    };
    let created = call.api.set_policy(&call.who, policy).await?;
    Ok(if created { Reply::Created(None) } else { Reply::NoContent })
}

pub(crate) async fn delete(call: &Call<'_>, whose: Whose) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    if call.api.clear_policy(&call.who, vhost, name, whose == Whose::Operators).await? {
        return Ok(Reply::NoContent);
    }
    Err(nothing(vhost, name, whose))
}

fn nothing(vhost: &str, name: &str, whose: Whose) -> Failure {
    let what = if whose == Whose::Operators { "operator policy" } else { "policy" };
    Failure::not_found(format!("no {what} '{name}' in vhost '{vhost}'"))
}

pub(crate) fn to_json(policy: &Policy) -> Value {
    json!({
        "vhost": *policy.vhost,
        "name": *policy.name,
        "pattern": policy.pattern.as_str(),
        "apply-to": policy.apply_to.as_str(),
        "definition": json::from_arguments(&policy.definition),
        "priority": policy.priority,
    })
}
