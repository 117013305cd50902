//! Shows what exists as definitions.

use std::collections::HashSet;

use broker::access::Users;
use broker::catalog::{Destination, Exchange, Parameters, QueueRecord};
use broker::desk::{Contents, Desk};
use serde_json::{Map, Value, json};

use super::{OPERATOR_POLICY, VHOST_LIMITS, unchanged};
use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::{accounts, bindings, exchanges, json, policies, topics, vhosts};

/// Everything of the node.
pub async fn get<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let overview = call.desk.overview(&call.who).await?;
    let users = call.desk.users(&call.who)?;
    let mut vhosts = call.desk.vhosts(&call.who).await?;
    // What is being deleted is not there for others any more.
    vhosts.retain(|(_, settings)| !settings.deleting);
    let mut settings: Vec<Value> =
        vhosts.iter().map(|(name, settings)| vhosts::row(call, name, settings)).collect();
    for row in &mut settings {
        // Limits are parameters.
        row.as_object_mut().into_iter().for_each(|row| {
            row.shift_remove("limits");
            row.shift_remove("deleting");
        });
    }
    let mut all = json!({
        "rabbit_version": overview.product_version,
        "rabbitmq_version": overview.product_version,
        "sluice_version": overview.sluice_version,
        "product_name": overview.product,
        "product_version": overview.product_version,
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": overview.cluster_name,
        "users": users_json(&users),
        "vhosts": settings,
        "permissions": permissions_json(&users),
        "topic_permissions": topics_json(&users),
    });
    let of_vhosts = contents(call, None).await?;
    let parameters = call.desk.parameters(&call.who).await?;
    all["global_parameters"] = global_json(&parameters);
    if let Some(all) = all.as_object_mut() {
        all.extend(of_vhosts);
        for rows in all.values_mut().filter_map(Value::as_array_mut) {
            rows.retain(|row| {
                let of = row.get("vhost");
                of.is_none_or(|of| vhosts.iter().any(|(name, _)| *of == **name))
            });
        }
    }
    Ok(Reply::Json(all))
}

/// What is in one virtual host. The rows do not name it, so that they can be imported into another.
pub async fn get_of_vhost<D: Desk>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    let vhost = call.param(0);
    let settings = vhosts::require(call, vhost).await?;
    let overview = call.desk.overview(&call.who).await?;
    let mut all = json!({
        "rabbit_version": overview.product_version,
        "rabbitmq_version": overview.product_version,
        "sluice_version": overview.sluice_version,
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost,
        "description": *settings.description,
        "default_queue_type": settings.default_queue_type.unwrap_or(call.desk.default_queue_type()).name(),
    });
    let mut contents = contents(call, Some(vhost)).await?;
    for rows in contents.values_mut().filter_map(Value::as_array_mut) {
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            row.shift_remove("vhost");
        }
    }
    if let Some(all) = all.as_object_mut() {
        all.extend(contents);
    }
    Ok(Reply::Json(all))
}

/// The sections that belong to virtual hosts.
async fn contents<D: Desk>(call: &Call<'_, D>, vhost: Option<&str>) -> Result<Map<String, Value>, Failure> {
    let (desk, who) = (call.desk, &call.who);
    let mut parameters = Vec::new();
    for (name, settings) in desk.vhosts(who).await? {
        let limits = vhosts::limits_json(&settings);
        let is_limited = limits.as_object().is_some_and(|limits| !limits.is_empty());
        if is_limited && vhost.is_none_or(|vhost| *name == *vhost) {
            let (component, of) = VHOST_LIMITS;
            parameters.push(json!({ "vhost": *name, "component": component, "name": of, "value": limits }));
        }
    }
    let Contents { policies, operator_policies, queues, exchanges: known, bindings: bound } =
        desk.contents(who, vhost).await?;
    for policy in operator_policies {
        let mut value = policies::to_json(&policy);
        let row = value.as_object_mut().map(|row| (row.shift_remove("vhost"), row.shift_remove("name")));
        let (of, name) = row.unwrap_or_default();
        parameters.push(json!({ "vhost": of, "component": OPERATOR_POLICY, "name": name, "value": value }));
    }
    for (key, value) in desk.parameters(who).await? {
        if let Some(of) = &key.vhost
            && vhost.is_none_or(|vhost| **of == *vhost)
        {
            let value: Value = serde_json::from_str(&value).unwrap_or(Value::Null);
            parameters.push(
                json!({ "vhost": **of, "component": *key.component, "name": *key.name, "value": value }),
            );
        }
    }
    let queues: Vec<_> = queues.iter().filter(|queue| queue.exclusive.is_none()).collect();
    // Something may have been declared or deleted since the queues were read. A binding needs both of its ends.
    let of_queues: HashSet<_> = queues.iter().map(|queue| (&*queue.vhost, &*queue.name)).collect();
    let of_exchanges: HashSet<_> = known.iter().map(|exchange| (&*exchange.vhost, &*exchange.name)).collect();
    let bound = bound.iter().filter(|binding| {
        let vhost = &*binding.vhost;
        let has_destination = match &binding.destination {
            Destination::Queue(name) => of_queues.contains(&(vhost, &**name)),
            Destination::Exchange(name) => of_exchanges.contains(&(vhost, &**name)),
        };
        !binding.source.is_empty() && has_destination && of_exchanges.contains(&(vhost, &*binding.source))
    });
    let sections = [
        ("parameters", Value::from(parameters)),
        ("policies", policies.iter().map(|policy| policies::to_json(policy)).collect()),
        ("queues", queues.iter().map(|queue| queue_json(queue)).collect()),
        (
            "exchanges",
            known
                .iter()
                .filter(|exchange| !is_predeclared(exchange))
                .map(|exchange| exchanges::declared(exchange))
                .collect(),
        ),
        (
            "bindings",
            bound
                .map(|binding| {
                    let mut row = bindings::to_json(binding);
                    row.as_object_mut().into_iter().for_each(|row| drop(row.shift_remove("properties_key")));
                    row
                })
                .collect(),
        ),
    ];
    Ok(sections.into_iter().map(|(name, rows)| (name.to_owned(), rows)).collect())
}

fn is_predeclared(exchange: &Exchange) -> bool {
    exchange.name.is_empty() || exchange.name.starts_with("amq.")
}

fn queue_json(queue: &QueueRecord) -> Value {
    json!({
        "name": *queue.name,
        "vhost": *queue.vhost,
        "type": queue.config.queue_type().name(),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": json::from_arguments(&queue.arguments),
    })
}

fn users_json(users: &Users) -> Value {
    sorted(users.iter().map(accounts::user_json).collect())
}

fn permissions_json(users: &Users) -> Value {
    let of_user = |user: &broker::access::UserRecord| -> Vec<Value> {
        let own = user.permissions.iter();
        own.map(|(vhost, own)| accounts::permissions_json(&user.name, vhost, own)).collect()
    };
    sorted(users.iter().flat_map(of_user).collect())
}

fn topics_json(users: &Users) -> Value {
    let mut rows = Vec::new();
    for user in users.iter() {
        for (vhost, topics) in &user.topics {
            rows.extend(topics.iter().map(|(exchange, own)| topics::row(&user.name, vhost, exchange, own)));
        }
    }
    sorted(rows)
}

fn global_json(parameters: &Parameters) -> Value {
    let global = parameters.iter().filter(|(key, _)| key.vhost.is_none() && !unchanged::is_hash(&key.name));
    let row = |(key, value): (&broker::catalog::ParameterKey, &std::sync::Arc<str>)| {
        let value: Value = serde_json::from_str(value).unwrap_or(Value::Null);
        json!({ "name": *key.name, "value": value })
    };
    global.map(row).collect()
}

/// Sorts rows, so that two exports of the same can be compared.
fn sorted(mut rows: Vec<Value>) -> Value {
    rows.sort_by_cached_key(Value::to_string);
    rows.into()
}
