//! `/api/users`, `/api/permissions`, `/api/user-limits`, `/api/auth/hash_password`.

use amqp10::sasl::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::admin_api::AdminError;
use catalog::access::{Hashing, Maximum, PasswordHash, Permissions, UserLimits, UserRecord, Users};
use catalog::{AccountChange, CatalogError};
use serde_json::{Map, Value, json};

use crate::account_changes::{delete, set};
use crate::call::Call;
use crate::limits::{limits_map, maximum};
use crate::reply::{Failure, Reply};
use crate::tags::{tags, tags_of};
use crate::{json, shape, vhosts};

pub(crate) async fn list_users(call: &Call<'_>) -> Result<Reply, Failure> {
    user_rows(call, |_| true).await
}

pub(crate) async fn list_users_without_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    user_rows(call, |user| user.permissions.is_empty()).await
}

pub(crate) fn get_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    Ok(Reply::Json(shape::columns(user_json(known(&users, call.param(0))?), &call.query)))
}

/// Adds a user, or replaces its password and its tags. Without a password, nobody can log in with one. With the header
/// `If-None-Match: *`, a user who exists is not changed.
///
/// # Errors
/// 412 with this header, if the user exists.
pub(crate) async fn put_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let (name, tags) = (call.param(0).into(), tags(&call.fields)?);
    let hash = match secret(call).await? {
        Some(hash) => hash,
        None => call.api.hash_password(&call.who, None).await?,
    };
    if !call.only_new {
        return set(call, AccountChange::SetUser { name, hash, tags }).await;
    }
    match call.api.change_account(&call.who, AccountChange::AddUser { name, hash, tags }).await {
        Ok(_) => Ok(Reply::Created(None)),
        Err(AdminError::Catalog(CatalogError::PreconditionFailed { reason })) => {
            Err(Failure::precondition_failed(reason))
        }
        Err(error) => Err(error.into()),
    }
}

/// Changes what the body names of a user: the tags, the password or both. RabbitMQ has no such request: there, whoever changes one
/// reads the other first, and so undoes what somebody else changes meanwhile.
///
/// # Errors
/// 404 if there is no such user, and 400 if the body names nothing.
pub(crate) async fn patch_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let tags = call.fields.get("tags").map(tags_of).transpose()?;
    let hash = secret(call).await?;
    if tags.is_none() && hash.is_none() {
        return Err(Failure::bad_request("there are neither 'tags' nor a 'password' to change"));
    }
    let name = call.param(0).into();
    call.api.change_account(&call.who, AccountChange::PatchUser { name, hash, tags }).await?;
    Ok(Reply::NoContent)
}

/// Reads the password or its hash; `None` if there is neither. An empty hash is one that no password has. A password or a hash of null
/// is refused, unless the other one is there: otherwise a mistake of a client would leave the user without a password.
async fn secret(call: &Call<'_>) -> Result<Option<PasswordHash>, Failure> {
    let fields = &call.fields;
    if let Some(hash) = given_hash(fields)? {
        return Ok(Some(hash));
    }
    if has(fields, "password") || has(fields, "password_hash") {
        return Ok(Some(call.api.hash_password(&call.who, given_password(fields)?).await?));
    }
    match ["password", "password_hash"].into_iter().find(|field| is_null(fields, field)) {
        Some(field) => Err(Failure::bad_request(format!("'{field}' is null: text is needed"))),
        None => Ok(None),
    }
}

pub(crate) async fn delete_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.param(0);
    delete(call, AccountChange::DeleteUser { name: name.into() }, || no_user(name)).await
}

/// Deletes the users of a list, one after the other. Those that do not exist are ignored, as in RabbitMQ.
pub(crate) async fn delete_users(call: &Call<'_>) -> Result<Reply, Failure> {
    let not_names = || Failure::bad_request("'users' is not a list of names");
    let names = call.fields.get("users").and_then(Value::as_array).ok_or_else(not_names)?;
    let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
    for name in names.ok_or_else(not_names)? {
        call.api.change_account(&call.who, AccountChange::DeleteUser { name: name.into() }).await?;
    }
    Ok(Reply::NoContent)
}

/// Hashes a password with the configured algorithm, for definitions that are written by hand. Nothing is stored. The password is
/// in the body, or in the path, where proxies and shells may keep it.
pub(crate) async fn hash_password(call: &Call<'_>) -> Result<Reply, Failure> {
    let password = match call.optional_param(0) {
        Some(password) => Some(not_empty(password.to_owned())?),
        None => given_password(&call.fields)?,
    };
    let password = password.ok_or_else(|| Failure::bad_request("'password' is missing"))?;
    let hash = call.api.hash_password(&call.who, Some(password)).await?;
    Ok(Reply::Json(json!({ "ok": STANDARD.encode(hash.expose()) })))
}

/// The permissions of all users, or of one, or in one virtual host.
pub(crate) async fn list_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    permission_rows(&users, call, |_, _| true).await
}

pub(crate) async fn permissions_of_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    let wanted = known(&users, call.param(0))?;
    permission_rows(&users, call, |user, _| user.name == wanted.name).await
}

pub(crate) async fn permissions_in_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    vhosts::require(call, call.param(0)).await?;
    permission_rows(&users, call, |_, vhost| *vhost == *call.param(0)).await
}

pub(crate) fn get_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    let users = call.api.users(&call.who)?;
    let found = known(&users, name)?.permissions.get(vhost).ok_or_else(|| no_permissions(vhost, name))?;
    Ok(Reply::Json(shape::columns(permissions_json(name, vhost, found), &call.query)))
}

pub(crate) async fn put_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let [configure, write, read] = ["configure", "write", "read"].map(|field| required_text(call, field));
    let permissions = Permissions::new([&configure?, &write?, &read?]).map_err(Failure::bad_request)?;
    let (vhost, user) = (call.param(0).into(), call.param(1).into());
    set(call, AccountChange::SetPermissions { user, vhost, permissions }).await
}

pub(crate) async fn delete_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    let change = AccountChange::ClearPermissions { user: name.into(), vhost: vhost.into() };
    delete(call, change, || no_permissions(vhost, name)).await
}

/// The limits of all users that have some, or of one user.
pub(crate) async fn limits(call: &Call<'_>) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    if let Some(name) = call.optional_param(0) {
        known(&users, name)?;
    }
    let wanted = users.iter().filter(|user| call.optional_param(0).is_none_or(|name| *user.name == *name));
    let rows = wanted.filter(|user| user.limits != UserLimits::default());
    let rows = rows.map(|user| json!({ "user": *user.name, "value": limits_json(user.limits) }));
    Ok(Reply::Json(shape::list(rows.collect(), &call.query, &["user"]).await?))
}

pub(crate) async fn put_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let max = maximum(&call.fields, "value")?;
    set_limit(call, max).await
}

pub(crate) async fn delete_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    set_limit(call, None).await
}

async fn set_limit(call: &Call<'_>, max: Maximum) -> Result<Reply, Failure> {
    let (max_connections, max_channels) = match call.param(1) {
        "max-connections" => (Some(max), None),
        "max-channels" => (None, Some(max)),
        other => {
            return Err(Failure::bad_request(format!(
                "'{other}' is not a limit of a user: there are max-connections and max-channels"
            )));
        }
    };
    let user = call.param(0).into();
    call.api
        .change_account(&call.who, AccountChange::SetUserLimits { user, max_connections, max_channels })
        .await?;
    Ok(Reply::NoContent)
}

fn limits_json(limits: UserLimits) -> Value {
    limits_map([("max-connections", limits.max_connections), ("max-channels", limits.max_channels)])
}

/// Reads a text that must be there.
pub(crate) fn required_text(call: &Call<'_>, field: &str) -> Result<String, Failure> {
    if !call.fields.contains_key(field) {
        return Err(Failure::bad_request(format!("'{field}' is missing")));
    }
    json::text(&call.fields, field, "")
}

/// Returns true if the field is there, and is not null.
fn has(fields: &Map<String, Value>, field: &str) -> bool {
    fields.get(field).is_some_and(|value| !value.is_null())
}

fn is_null(fields: &Map<String, Value>, field: &str) -> bool {
    fields.get(field).is_some_and(Value::is_null)
}

/// Reads `password`. Null counts as none.
pub(crate) fn given_password(fields: &Map<String, Value>) -> Result<Option<Secret>, Failure> {
    if !has(fields, "password") {
        return Ok(None);
    }
    not_empty(json::text(fields, "password", "")?).map(Some)
}

/// Refuses an empty password, which is mostly a variable that was not set.
fn not_empty(password: String) -> Result<Secret, Failure> {
    if password.is_empty() {
        return Err(Failure::bad_request("'password' is empty"));
    }
    Ok(Secret::new(password))
}

/// Reads `password_hash` and `hashing_algorithm`. Without an algorithm, it is the one whose hashes have this length. An empty hash
/// counts as none: the user cannot log in with a password, as in RabbitMQ.
pub(crate) fn given_hash(fields: &Map<String, Value>) -> Result<Option<PasswordHash>, Failure> {
    let hash = json::text(fields, "password_hash", "")?;
    if hash.is_empty() {
        return Ok(None);
    }
    if has(fields, "password") {
        return Err(Failure::bad_request("both_password_and_password_hash_are_provided"));
    }
    let known = || Hashing::ALL.map(Hashing::name).join(", ");
    let bytes = STANDARD.decode(hash).unwrap_or_default();
    let fitting = Hashing::ALL.into_iter().find_map(|hashing| PasswordHash::from_bytes(hashing, &bytes));
    let name = json::text(fields, "hashing_algorithm", "")?;
    if name.is_empty() {
        let none = || format!("'password_hash' is a hash of none of {} in Base64", known());
        return fitting.map(Some).ok_or_else(|| Failure::bad_request(none()));
    }
    let unknown = || Failure::bad_request(format!("'hashing_algorithm' is none of {}", known()));
    let hashing = Hashing::from_name(&name).ok_or_else(unknown)?;
    PasswordHash::from_bytes(hashing, &bytes).map(Some).ok_or_else(|| {
        let other = fitting.map(|other| format!(", but may be one of {}", other.hashing().name()));
        let other = other.unwrap_or_default();
        Failure::bad_request(format!("'password_hash' is not a hash of {name} in Base64{other}"))
    })
}

async fn user_rows(call: &Call<'_>, wanted: impl Fn(&UserRecord) -> bool) -> Result<Reply, Failure> {
    let users = call.api.users(&call.who)?;
    let rows = users.iter().filter(|user| wanted(user)).map(user_json).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, &["name"]).await?))
}

async fn permission_rows(
    users: &Users,
    call: &Call<'_>,
    wanted: impl Fn(&UserRecord, &str) -> bool,
) -> Result<Reply, Failure> {
    let of_user = |user: &UserRecord| -> Vec<Value> {
        let own = user.permissions.iter().filter(|(vhost, _)| wanted(user, vhost));
        own.map(|(vhost, permissions)| permissions_json(&user.name, vhost, permissions)).collect()
    };
    let rows = users.iter().flat_map(of_user).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, &["vhost", "user"]).await?))
}

pub(crate) fn known<'a>(users: &'a Users, name: &str) -> Result<&'a UserRecord, Failure> {
    users.get(name).ok_or_else(|| no_user(name))
}

fn no_user(name: &str) -> Failure {
    Failure::not_found(format!("no user '{name}'"))
}

fn no_permissions(vhost: &str, user: &str) -> Failure {
    Failure::not_found(format!("user '{user}' has no permissions in vhost '{vhost}'"))
}

/// Only administrators see hashes: a backup of users needs them.
pub(crate) fn user_json(user: &UserRecord) -> Value {
    let hash = if user.hash.is_of_nobody() { String::new() } else { STANDARD.encode(user.hash.expose()) };
    json!({
        "name": *user.name,
        "password_hash": hash,
        "hashing_algorithm": user.hash.hashing().name(),
        "tags": *user.tags,
        "limits": limits_json(user.limits),
    })
}

pub(crate) fn permissions_json(user: &str, vhost: &str, permissions: &Permissions) -> Value {
    let [configure, write, read] = permissions.patterns();
    json!({ "user": user, "vhost": vhost, "configure": configure, "write": write, "read": read })
}
