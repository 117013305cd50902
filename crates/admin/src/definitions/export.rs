//! Shows what exists as definitions.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

use broker::admin_api::Contents;
use catalog::access::{UserRecord, Users};
use catalog::{Destination, Exchange, ParameterKey, Parameters, QueueRecord, VhostSettings};
use serde_json::{Value, json};

use super::unchanged;
use crate::budget::Reservation;
use crate::call::Call;
use crate::pages::{self, PAGE_BYTES, Source};
use crate::reply::{Failure, Reply};
use crate::routed_components::{OPERATOR_POLICY, VHOST_LIMITS, has_route};
use crate::{accounts, bindings, exchanges, json, policies, topics, vhosts};

/// Everything of the node.
pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let overview = call.api.overview(&call.who).await?;
    let users = call.api.users(&call.who)?;
    let mut vhosts = call.api.vhosts(&call.who).await?;
    // What is being deleted is not there for others any more.
    vhosts.retain(|(_, settings)| !settings.deleting);
    let head = json!({
        "rabbit_version": overview.product_version,
        "rabbitmq_version": overview.product_version,
        "sluice_version": overview.sluice_version,
        "product_name": overview.product,
        "product_version": overview.product_version,
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": overview.cluster_name,
    });
    let known: HashSet<Arc<str>> = vhosts.iter().map(|(name, _)| name.clone()).collect();
    let mut export =
        Export::new(&head, move |row| row["vhost"].as_str().is_none_or(|vhost| known.contains(vhost)));
    export.add("users", by_name(&users), of_user(&users, |user| vec![accounts::user_json(user)]));
    let settings = vhosts.iter().map(|(name, settings)| vhost_json(call, name, settings)).collect();
    export.add("vhosts", settings, Some);
    export.add("permissions", by_name(&users), of_user(&users, permissions_json));
    export.add("topic_permissions", by_name(&users), of_user(&users, topics_json));
    export.add("global_parameters", global_json(&call.api.parameters(&call.who).await?), Some);
    add_contents(call, None, &mut export).await?;
    export.reply(call).await
}

/// What is in one virtual host. The rows do not name it, so that they can be imported into another.
pub(crate) async fn get_of_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let vhost = call.param(0);
    let settings = vhosts::require(call, vhost).await?;
    let overview = call.api.overview(&call.who).await?;
    let head = json!({
        "rabbit_version": overview.product_version,
        "rabbitmq_version": overview.product_version,
        "sluice_version": overview.sluice_version,
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost,
        "description": *settings.description,
        "default_queue_type": settings.default_queue_type.unwrap_or(call.api.default_queue_type()).name(),
        "metadata": vhosts::metadata_json(call, &settings),
        "limits": vhosts::limits_json(&settings),
    });
    let mut export = Export::new(&head, |row| {
        row.as_object_mut().into_iter().for_each(|row| drop(row.shift_remove("vhost")));
        true
    });
    add_contents(call, Some(vhost), &mut export).await?;
    export.reply(call).await
}

/// An export, which is made page by page. Until the client has read it, it keeps references to the records that are not shown
/// yet, and not their text. So it shows what there was at one time, whatever is deleted meanwhile.
struct Export {
    /// The text before the next row.
    page: String,
    /// The sections that are not complete. The first one has begun if `in_section` is set.
    sections: VecDeque<(&'static str, Box<dyn Iterator<Item = Value> + Send>)>,
    in_section: bool,
    /// What separates the next row from the one before.
    comma: &'static str,
    /// Changes a row. Returns false if the row is not shown.
    shape: Box<dyn FnMut(&mut Value) -> bool + Send>,
    /// The memory of the references, in bytes.
    bytes: usize,
    /// What counts it in the budget for responses.
    held: Option<Reservation>,
}

impl Export {
    /// Begins an export with the members of an object. Each row of its sections passes through `shape`.
    fn new(head: &Value, shape: impl FnMut(&mut Value) -> bool + Send + 'static) -> Self {
        let mut page = head.to_string();
        // The object ends behind the sections.
        page.pop();
        let (sections, shape) = (VecDeque::new(), Box::new(shape));
        Self { page, sections, in_section: false, comma: "", shape, bytes: 0, held: None }
    }

    /// Adds a section. `rows` shows a record.
    fn add<T: Send + 'static, R: IntoIterator<Item = Value, IntoIter: Send> + 'static>(
        &mut self,
        name: &'static str,
        mut records: Vec<T>,
        rows: impl FnMut(T) -> R + Send + 'static,
    ) {
        records.shrink_to_fit();
        self.bytes += records.capacity() * size_of::<T>();
        self.sections.push_back((name, Box::new(records.into_iter().flat_map(rows))));
    }

    /// Returns the response.
    ///
    /// # Errors
    /// 503: the budget for responses has no room for the references to the records.
    async fn reply(mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        self.held = Some(call.ports.hold_answer(self.bytes)?);
        Ok(Reply::Rows(pages::body(self).await?))
    }
}

impl Source for Export {
    async fn next_page(mut self) -> Result<(String, Option<Self>), Failure> {
        let mut page = std::mem::take(&mut self.page);
        while page.len() < PAGE_BYTES {
            let Some((name, rows)) = self.sections.front_mut() else {
                page.push('}');
                return Ok((page, None));
            };
            // Writing to a string cannot fail.
            if !std::mem::replace(&mut self.in_section, true) {
                let _ = write!(page, ",\"{name}\":[");
            }
            match rows.next() {
                Some(mut row) => {
                    if (self.shape)(&mut row) {
                        let _ = write!(page, "{}{row}", self.comma);
                        self.comma = ",";
                    }
                }
                None => {
                    page.push(']');
                    self.sections.pop_front();
                    (self.in_section, self.comma) = (false, "");
                }
            }
        }
        Ok((page, Some(self)))
    }
}

/// Adds the sections that belong to virtual hosts.
async fn add_contents(call: &Call<'_>, vhost: Option<&str>, export: &mut Export) -> Result<(), Failure> {
    let (api, who) = (call.api, &call.who);
    let mut parameters = Vec::new();
    for (name, settings) in api.vhosts(who).await? {
        let limits = vhosts::limits_json(&settings);
        let is_limited = limits.as_object().is_some_and(|limits| !limits.is_empty());
        if is_limited && vhost.is_none_or(|vhost| *name == *vhost) {
            let (component, of) = VHOST_LIMITS;
            parameters.push(json!({ "vhost": *name, "component": component, "name": of, "value": limits }));
        }
    }
    let Contents { policies, operator_policies, mut queues, exchanges: mut known, bindings: mut bound } =
        api.contents(who, vhost).await?;
    for policy in operator_policies {
        let mut value = policies::to_json(&policy);
        let row = value.as_object_mut().map(|row| (row.shift_remove("vhost"), row.shift_remove("name")));
        let (of, name) = row.unwrap_or_default();
        parameters.push(json!({ "vhost": of, "component": OPERATOR_POLICY, "name": name, "value": value }));
    }
    for (key, value) in api.parameters(who).await? {
        if let Some(of) = &key.vhost
            && !has_route(&key.component)
            && vhost.is_none_or(|vhost| **of == *vhost)
        {
            let value: Value = serde_json::from_str(&value).unwrap_or(Value::Null);
            parameters.push(
                json!({ "vhost": **of, "component": *key.component, "name": *key.name, "value": value }),
            );
        }
    }
    queues.retain(|queue| queue.exclusive.is_none());
    // Something may have been declared or deleted since the queues were read. A binding needs both of its ends.
    let of_queues: HashSet<_> = queues.iter().map(|queue| (&*queue.vhost, &*queue.name)).collect();
    let of_exchanges: HashSet<_> = known.iter().map(|exchange| (&*exchange.vhost, &*exchange.name)).collect();
    bound.retain(|binding| {
        let vhost = &*binding.vhost;
        let has_destination = match &binding.destination {
            Destination::Queue(name) => of_queues.contains(&(vhost, &**name)),
            Destination::Exchange(name) => of_exchanges.contains(&(vhost, &**name)),
        };
        // An exchange that a setting asked for once is not in definitions. So a broker that reads them does not have it.
        !binding.source.is_empty()
            && !api.is_left_over_exchange(vhost, &binding.source)
            && has_destination
            && of_exchanges.contains(&(vhost, &*binding.source))
    });
    known.retain(|exchange| !is_predeclared(exchange));
    export.add("parameters", parameters, Some);
    export.add("policies", policies, |policy| Some(policies::to_json(&policy)));
    export.add("queues", queues, |queue| Some(queue_json(&queue)));
    export.add("exchanges", known, |exchange| Some(exchanges::declared(&exchange)));
    export.add("bindings", bound, |binding| {
        let mut row = bindings::to_json(&binding);
        row.as_object_mut().into_iter().for_each(|row| drop(row.shift_remove("properties_key")));
        Some(row)
    });
    Ok(())
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

fn vhost_json(call: &Call<'_>, name: &str, settings: &VhostSettings) -> Value {
    let mut row = vhosts::row(call, name, settings);
    // Limits are parameters.
    row.as_object_mut().into_iter().for_each(|row| {
        row.shift_remove("limits");
        row.shift_remove("deleting");
    });
    row
}

/// Returns the names of all users, sorted, so that two exports of the same can be compared.
fn by_name(users: &Users) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = users.iter().map(|user| user.name.clone()).collect();
    names.sort_unstable();
    names
}

/// Returns what shows the user of a name by `rows`.
fn of_user(
    users: &Arc<Users>,
    rows: impl Fn(&UserRecord) -> Vec<Value> + Send + 'static,
) -> impl FnMut(Arc<str>) -> Vec<Value> + Send + 'static {
    let users = users.clone();
    move |name| users.get(&name).map(&rows).unwrap_or_default()
}

fn permissions_json(user: &UserRecord) -> Vec<Value> {
    let own = user.permissions.iter();
    sorted(own.map(|(vhost, own)| accounts::permissions_json(&user.name, vhost, own)).collect())
}

fn topics_json(user: &UserRecord) -> Vec<Value> {
    let mut rows = Vec::new();
    for (vhost, topics) in &user.topics {
        rows.extend(topics.iter().map(|(exchange, own)| topics::row(&user.name, vhost, exchange, own)));
    }
    sorted(rows)
}

fn global_json(parameters: &Parameters) -> Vec<Value> {
    let global = parameters.iter().filter(|(key, _)| key.vhost.is_none() && !unchanged::is_hash(&key.name));
    let row = |(key, value): (&ParameterKey, &Arc<str>)| {
        let value: Value = serde_json::from_str(value).unwrap_or(Value::Null);
        json!({ "name": *key.name, "value": value })
    };
    global.map(row).collect()
}

/// Sorts rows, for the same reason as [`by_name`].
fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_cached_key(Value::to_string);
    rows
}
