//! `/api/exchanges`.

use broker::admin_api::{ExchangeRow, ExchangeSpec};
use catalog::access::DEFAULT_EXCHANGE_ALIAS;
use catalog::{Exchange, unknown_exchange_arguments};
use serde_json::{Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::view::View;
use crate::{json, shape, vhosts};

pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let vhost = call.optional_param(0);
    let exchanges = call.api.exchanges(&call.who, vhost).await?;
    if let Some(vhost) = vhost
        && exchanges.is_empty()
    {
        vhosts::require(call, vhost).await?;
    }
    let view = View::of(call)?;
    let rows = exchanges.iter().map(|row| view.exchange(row)).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, &["vhost", "name"]).await?))
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), unaliased(call.param(1)));
    let row = require_exchange(call, vhost, name).await?;
    Ok(Reply::Json(shape::columns(View::of(call)?.exchange(&row), &call.query)))
}

pub(crate) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    let spec = ExchangeSpec {
        vhost: call.param(0).into(),
        name: unaliased(call.param(1)).into(),
        kind: json::text(&call.fields, "type", "direct")?,
        durable: json::boolean(&call.fields, "durable", true)?,
        auto_delete: json::boolean(&call.fields, "auto_delete", false)?,
        internal: json::boolean(&call.fields, "internal", false)?,
        arguments: json::arguments(&call.fields)?,
    };
    let created = call.api.declare_exchange(&call.who, spec).await?;
    Ok(if created { Reply::Created(None) } else { Reply::NoContent })
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), unaliased(call.param(1)));
    let if_unused = call.query.flag("if-unused");
    if call.api.delete_exchange(&call.who, vhost, name, if_unused).await? {
        return Ok(Reply::NoContent);
    }
    Err(Failure::not_found(format!("no exchange '{name}' in vhost '{vhost}'")))
}

/// Returns an exchange.
///
/// # Errors
/// 404 if it does not exist, or the admin API's error.
pub(crate) async fn require_exchange(
    call: &Call<'_>,
    vhost: &str,
    name: &str,
) -> Result<ExchangeRow, Failure> {
    let exchanges = call.api.exchanges(&call.who, Some(vhost)).await?;
    let found = exchanges.into_iter().find(|row| *row.exchange.name == *name);
    found.ok_or_else(|| Failure::not_found(format!("no exchange '{name}' in vhost '{vhost}'")))
}

/// Returns the name of an exchange in a path. The default exchange has an alias there, as its name is empty.
pub(crate) fn unaliased(name: &str) -> &str {
    if name == DEFAULT_EXCHANGE_ALIAS { "" } else { name }
}

/// Returns what an exchange was declared with.
pub(crate) fn declared(exchange: &Exchange) -> Value {
    json!({
        "name": *exchange.name,
        "vhost": *exchange.vhost,
        "type": exchange.kind.as_str(),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json::from_arguments(&exchange.arguments),
    })
}

impl View<'_> {
    /// Shows an exchange with its rates.
    fn exchange(&self, row: &ExchangeRow) -> Value {
        let mut body = declared(&row.exchange);
        let unknown = unknown_exchange_arguments(row.exchange.kind, &row.exchange.arguments);
        json::add_unknown_arguments(&mut body, unknown);
        if let Some(policy) = &row.exchange.policy {
            body["policy"] = (*policy.name).into();
        }
        if self.stats {
            body["message_stats"] = self.samples.exchange(row, &self.ranges).into();
        }
        body
    }
}
