//! `/api/parameters` and `/api/global-parameters`: values of components that this broker does not have, and the name of the
//! cluster.

use catalog::{CLUSTER_NAME, CLUSTER_NAME_BYTES_MAX, ParameterKey, is_cluster_name};
use serde_json::{Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::routed_components::check_component;
use crate::{components, shape, vhosts};

/// The global parameter with an id of the cluster for programs. If nobody has set it, it is made of the id of the cluster.
pub(crate) const INTERNAL_CLUSTER_ID: &str = "internal_cluster_id";

/// The parameters of virtual hosts: all, those of a component, or those of a component in a virtual host.
///
/// # Errors
/// 404 if there is no such virtual host.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    if let Some(vhost) = call.optional_param(1) {
        vhosts::require(call, vhost).await?;
    }
    let wanted = |key: &ParameterKey| {
        key.vhost.is_some()
            && call.optional_param(0).is_none_or(|component| *key.component == *component)
            && call.optional_param(1).is_none_or(|vhost| key.vhost.as_deref() == Some(vhost))
    };
    rows(call, wanted, &["vhost", "component", "name"]).await
}

pub(crate) async fn list_global(call: &Call<'_>) -> Result<Reply, Failure> {
    rows(call, |key| key.vhost.is_none(), &["name"]).await
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    one(call, key(call)).await
}

pub(crate) async fn get_global(call: &Call<'_>) -> Result<Reply, Failure> {
    one(call, global_key(call)).await
}

async fn one(call: &Call<'_>, key: ParameterKey) -> Result<Reply, Failure> {
    let all = call.api.parameters(&call.who).await?;
    let value = match all.get(&key) {
        Some(value) => value.clone(),
        // RabbitMQ always has this one.
        None if key == ParameterKey::global(INTERNAL_CLUSTER_ID) => {
            let id = call.api.overview(&call.who).await?.cluster_id;
            Value::from(format!("rabbitmq-cluster-id-{id}")).to_string().into()
        }
        None => return Err(missing(&key)),
    };
    Ok(Reply::Json(shape::columns(row(&key, &value), &call.query)))
}

fn missing(key: &ParameterKey) -> Failure {
    Failure::not_found(format!("no parameter '{}'", key.name))
}

pub(crate) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    set(call, key(call)).await
}

pub(crate) async fn put_global(call: &Call<'_>) -> Result<Reply, Failure> {
    set(call, global_key(call)).await
}

/// Names the cluster. The name is a global parameter, as in RabbitMQ.
pub(crate) async fn name_cluster(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.fields.get("name").ok_or_else(|| Failure::bad_request("'name' is missing"))?;
    let key = ParameterKey::global(CLUSTER_NAME);
    check(&key, name)?;
    call.api.change_parameter(&call.who, key, Some(name.to_string().into())).await?;
    Ok(Reply::NoContent)
}

/// Checks the value of a parameter that this broker uses, or that belongs to a component of RabbitMQ.
///
/// # Errors
/// 400 if it is the name of the cluster, but not a name, if it has a route of its own, or if RabbitMQ's component would not take it.
pub(crate) fn check(key: &ParameterKey, value: &Value) -> Result<(), Failure> {
    let names_cluster = *key == ParameterKey::global(CLUSTER_NAME);
    if names_cluster && !value.as_str().is_some_and(is_cluster_name) {
        return Err(Failure::bad_request(format!(
            "the name of a cluster is a text of 1 to {CLUSTER_NAME_BYTES_MAX} bytes without control characters, quotation \
             marks and backslashes"
        )));
    }
    if key.vhost.is_some() {
        check_component(&key.component)?;
        components::check(&key.component, value)?;
    }
    Ok(())
}

/// Says why a parameter of a virtual host does nothing.
pub(crate) fn without_effect(shown: &str) -> String {
    format!("{shown} is kept, but has no effect: there is no such component")
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    clear(call, key(call)).await
}

pub(crate) async fn delete_global(call: &Call<'_>) -> Result<Reply, Failure> {
    clear(call, global_key(call)).await
}

fn key(call: &Call<'_>) -> ParameterKey {
    let (component, vhost, name) = (call.param(0), call.param(1), call.param(2));
    ParameterKey { vhost: Some(vhost.into()), component: component.into(), name: name.into() }
}

fn global_key(call: &Call<'_>) -> ParameterKey {
    ParameterKey::global(call.param(0))
}

async fn set(call: &Call<'_>, key: ParameterKey) -> Result<Reply, Failure> {
    let value = call.fields.get("value").ok_or_else(|| Failure::bad_request("'value' is missing"))?;
    check(&key, value)?;
    let value = value.to_string().into();
    let created = call.api.change_parameter(&call.who, key.clone(), Some(value)).await?;
    if let Some(vhost) = &key.vhost {
        let shown = format!("parameter '{}' of component '{}' in vhost '{vhost}'", key.name, key.component);
        tracing::warn!("{}", without_effect(&shown));
    }
    Ok(if created { Reply::Created(None) } else { Reply::NoContent })
}

async fn clear(call: &Call<'_>, key: ParameterKey) -> Result<Reply, Failure> {
    match call.api.change_parameter(&call.who, key.clone(), None).await? {
        true => Ok(Reply::NoContent),
        false => Err(missing(&key)),
    }
}

async fn rows(
    call: &Call<'_>,
    wanted: impl Fn(&ParameterKey) -> bool,
    sort: &[&str],
) -> Result<Reply, Failure> {
    let all = call.api.parameters(&call.who).await?;
    let rows = all.iter().filter(|(key, _)| wanted(key)).map(|(key, value)| row(key, value)).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, sort).await?))
}

fn row(key: &ParameterKey, value: &str) -> Value {
    let value: Value = serde_json::from_str(value).unwrap_or(Value::Null);
    match &key.vhost {
        Some(vhost) => {
            json!({ "vhost": **vhost, "component": *key.component, "name": *key.name, "value": value })
        }
        None => json!({ "name": *key.name, "value": value }),
    }
}
