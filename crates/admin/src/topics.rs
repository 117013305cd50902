//! `/api/topic-permissions`.

use catalog::AccountChange;
use catalog::access::{TopicPermissions, UserRecord};
use serde_json::{Value, json};

use crate::account_changes::{delete, set};
use crate::accounts::{known, required_text};
use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::{shape, vhosts};

/// The topic permissions of all users.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    rows(call, |_, _, _| true).await
}

pub(crate) async fn of_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    known(&users, call.param(0))?;
    rows(call, |user, _, _| *user.name == *call.param(0)).await
}

pub(crate) async fn in_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.users(&call.who)?;
    vhosts::require(call, call.param(0)).await?;
    rows(call, |_, vhost, _| *vhost == *call.param(0)).await
}

/// Lists the topic permissions of a user in a virtual host.
pub(crate) async fn of_user_in_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    let users = call.api.users(&call.who)?;
    if !known(&users, name)?.topics.contains_key(vhost) {
        return Err(nothing(call));
    }
    rows(call, |user, of, _| *user.name == *name && *of == *vhost).await
}

/// Shows the topic permissions of a user for one exchange.
pub(crate) fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name, exchange) = (call.param(0), call.param(1), call.param(2));
    let users = call.api.users(&call.who)?;
    let topics = known(&users, name)?.topics.get(vhost);
    let found = topics.and_then(|topics| topics.get(exchange)).ok_or_else(|| nothing(call))?;
    Ok(Reply::Json(shape::columns(row(name, vhost, exchange, found), &call.query)))
}

/// Sets topic permissions. The exchange is in the path or in the body.
pub(crate) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, user) = (call.param(0), call.param(1));
    let exchange = match call.optional_param(2) {
        Some(exchange) if call.fields.get("exchange").is_some_and(|other| other != exchange) => {
            let reason = format!("'exchange' is not the exchange of the path, '{exchange}'");
            return Err(Failure::bad_request(reason));
        }
        Some(exchange) => exchange.to_owned(),
        None => required_text(call, "exchange")?,
    };
    let [write, read] = ["write", "read"].map(|field| required_text(call, field));
    let permissions = TopicPermissions::new([&write?, &read?], user, vhost).map_err(Failure::bad_request)?;
    let (user, vhost, exchange) = (user.into(), vhost.into(), exchange.into());
    set(call, AccountChange::SetTopicPermissions { user, vhost, exchange, permissions }).await
}

pub(crate) async fn clear(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, user) = (call.param(0).into(), call.param(1).into());
    let exchange = call.optional_param(2).map(Into::into);
    delete(call, AccountChange::ClearTopicPermissions { user, vhost, exchange }, || nothing(call)).await
}

fn nothing(call: &Call<'_>) -> Failure {
    let (vhost, user) = (call.param(0), call.param(1));
    let exchange =
        call.optional_param(2).map_or_else(String::new, |exchange| format!(" for exchange '{exchange}'"));
    Failure::not_found(format!("user '{user}' has no topic permissions{exchange} in vhost '{vhost}'"))
}

async fn rows(call: &Call<'_>, wanted: impl Fn(&UserRecord, &str, &str) -> bool) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    let mut rows = Vec::new();
    for user in users.iter() {
        for (vhost, topics) in &user.topics {
            let of_user = topics.iter().filter(|(exchange, _)| wanted(user, vhost, exchange));
            rows.extend(of_user.map(|(exchange, permissions)| row(&user.name, vhost, exchange, permissions)));
        }
    }
    Ok(Reply::Json(shape::list(rows, &call.query, &["vhost", "user", "exchange"]).await?))
}

pub(crate) fn row(user: &str, vhost: &str, exchange: &str, permissions: &TopicPermissions) -> Value {
    let [write, read] = permissions.patterns();
    json!({ "user": user, "vhost": vhost, "exchange": exchange, "write": write, "read": read })
}
