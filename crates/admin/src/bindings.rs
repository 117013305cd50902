//! `/api/bindings`, and the bindings below an exchange or a queue.
//!
//! A binding is addressed by its *properties key*. That is the percent-encoded routing key, or `~` if it is
//! empty. If the binding has arguments, `~` and a hash follow. Clients take the key from `properties_key` or
//! `Location`.

use std::sync::Arc;

use catalog::{Binding, Destination};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use crate::call::Call;
use crate::exchanges::unaliased;
use crate::reply::{Failure, Reply};
use crate::routes::To;
use crate::{json, shape, vhosts};

/// The characters that are encoded in a properties key and in a path segment. `~` is one of them, because it
/// separates the key from the hash.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

const DEFAULT_SORT: &[&str] =
    &["vhost", "source", "destination_type", "destination", "routing_key", "properties_key"];

pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let vhost = call.optional_param(0);
    if let Some(vhost) = vhost {
        vhosts::require(call, vhost).await?;
    }
    let all = call.api.bindings(&call.who, vhost).await?;
    reply(call, all.iter()).await
}

/// Returns the bindings of the virtual host in the path. A queue or an exchange that does not exist has none, as in RabbitMQ.
///
/// # Errors
/// 404 if there is no such virtual host, or the admin API's error.
async fn in_vhost(call: &Call<'_>) -> Result<Vec<Arc<Binding>>, Failure> {
    let vhost = call.param(0);
    vhosts::require(call, vhost).await?;
    Ok(call.api.bindings(&call.who, Some(vhost)).await?)
}

pub(crate) async fn of_source(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = unaliased(call.param(1));
    let all = in_vhost(call).await?;
    reply(call, all.iter().filter(|b| *b.source == *name)).await
}

pub(crate) async fn of_exchange_destination(call: &Call<'_>) -> Result<Reply, Failure> {
    let wanted = Destination::Exchange(unaliased(call.param(1)).into());
    let all = in_vhost(call).await?;
    reply(call, all.iter().filter(|b| b.destination == wanted)).await
}

pub(crate) async fn of_queue(call: &Call<'_>) -> Result<Reply, Failure> {
    let wanted = Destination::Queue(call.param(1).into());
    let all = in_vhost(call).await?;
    reply(call, all.iter().filter(|b| b.destination == wanted)).await
}

pub(crate) async fn of_pair(call: &Call<'_>, to: To) -> Result<Reply, Failure> {
    vhosts::require(call, call.param(0)).await?;
    let all = pair(call, to).await?;
    reply(call, all.iter()).await
}

pub(crate) async fn create(call: &Call<'_>, to: To) -> Result<Reply, Failure> {
    let binding = Binding {
        vhost: call.param(0).into(),
        source: unaliased(call.param(1)).into(),
        destination: destination(call, to),
        key: json::text(&call.fields, "routing_key", "")?.into(),
        arguments: json::arguments(&call.fields)?,
    };
    // As in RabbitMQ, it is relative to the path of the request, and the properties key is not encoded again.
    let target = utf8_percent_encode(call.param(2), PLAIN);
    let location = format!("{target}/{}", properties_key(&binding));
    call.api.bind(&call.who, binding).await?;
    Ok(Reply::Created(Some(location)))
}

pub(crate) async fn get(call: &Call<'_>, to: To) -> Result<Reply, Failure> {
    let found = find(call, to).await?;
    Ok(Reply::Json(shape::columns(to_json(&found.binding), &call.query)))
}

/// Deletes a binding.
///
/// # Errors
/// 400 if the key fits several bindings: as it is, or one as it is and another one that lacks an encoding. The wrong one of them
/// would be lost.
pub(crate) async fn delete(call: &Call<'_>, to: To) -> Result<Reply, Failure> {
    let Found { binding, same, other } = find(call, to).await?;
    if same > 1 {
        return Err(Failure::bad_request(format!(
            "'{}' is the key of {same} bindings that differ in their arguments: remove one with queue.unbind or \
             exchange.unbind of AMQP 0.9.1",
            call.param(3),
        )));
    }
    if let Some(other) = other {
        return Err(Failure::bad_request(format!(
            "'{}' may be the key of two bindings, with the routing keys '{}' and '{}'",
            call.param(3),
            binding.key,
            other.key
        )));
    }
    call.api.unbind(&call.who, (*binding).clone()).await?;
    Ok(Reply::NoContent)
}

async fn reply<'a>(
    call: &Call<'_>,
    bindings: impl Iterator<Item = &'a Arc<Binding>>,
) -> Result<Reply, Failure> {
    let rows = bindings.map(|b| to_json(b)).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, DEFAULT_SORT).await?))
}

fn destination(call: &Call<'_>, to: To) -> Destination {
    match to {
        To::Queue => Destination::Queue(call.param(2).into()),
        To::Exchange => Destination::Exchange(unaliased(call.param(2)).into()),
    }
}

async fn pair(call: &Call<'_>, to: To) -> Result<Vec<Arc<Binding>>, Failure> {
    let (source, wanted) = (unaliased(call.param(1)), destination(call, to));
    let mut all = call.api.bindings(&call.who, Some(call.param(0))).await?;
    all.retain(|b| *b.source == *source && b.destination == wanted);
    Ok(all)
}

/// The binding that a path names.
struct Found {
    binding: Arc<Binding>,
    /// The number of bindings with exactly this key. 0 if it fits in another form.
    same: usize,
    /// Another binding that the path may name, if it lacks an encoding.
    other: Option<Arc<Binding>>,
}

/// Returns the binding that the path names. If it names several exactly, the first one.
///
/// If no key fits exactly, two other forms are accepted, each if it fits only one binding: a key that lacks one level of encoding,
/// as in `Location`, and one that is encoded in another way, such as `a%2fb`.
async fn find(call: &Call<'_>, to: To) -> Result<Found, Failure> {
    let props = call.param(3);
    let all = pair(call, to).await?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let only = |fits: &dyn Fn(&str) -> bool| {
        let mut fitting = all.iter().filter(|b| fits(&properties_key(b)));
        fitting.next().filter(|_| fitting.next().is_none()).cloned()
    };
    let mut exact = all.iter().filter(|b| properties_key(b) == props);
    let decoded = only(&|key| key != props && decode(key) == props);
    if let Some(first) = exact.next() {
        return Ok(Found { binding: first.clone(), same: 1 + exact.count(), other: decoded });
    }
    let wanted = decode(props);
    let found = decoded.or_else(|| only(&|key| decode(key) == wanted));
    found.map(|binding| Found { binding, same: 0, other: None }).ok_or_else(|| {
        Failure::not_found(format!(
            "no binding '{props}' from exchange '{}' to '{}' in vhost '{}'",
            call.param(1),
            call.param(2),
            call.param(0)
        ))
    })
}

fn properties_key(binding: &Binding) -> String {
    let key = utf8_percent_encode(&binding.key, PLAIN);
    match (&*binding.key, binding.arguments.hash_name()) {
        ("", hash) if hash.is_empty() => "~".to_owned(),
        (_, hash) if hash.is_empty() => key.to_string(),
        (_, hash) => format!("{key}~{hash}"),
    }
}

pub(crate) fn to_json(binding: &Binding) -> Value {
    let (kind, destination) = match &binding.destination {
        Destination::Queue(name) => ("queue", name),
        Destination::Exchange(name) => ("exchange", name),
    };
    json!({
        "source": *binding.source,
        "vhost": *binding.vhost,
        "destination": **destination,
        "destination_type": kind,
        "routing_key": *binding.key,
        "arguments": json::from_arguments(&binding.arguments),
        "properties_key": properties_key(binding),
    })
}

#[cfg(test)]
mod tests {
    use catalog::Arguments;

    use super::*;

    #[test]
    fn the_properties_key_names_key_and_arguments() {
        let binding = |key: &str, arguments: Arguments| Binding {
            vhost: "/".into(),
            source: "x".into(),
            destination: Destination::Queue("q".into()),
            key: key.into(),
            arguments,
        };
        let some: Arguments = [("x-match".to_owned(), "all".into())].into();
        assert_eq!(properties_key(&binding("", Arguments::new())), "~");
        assert_eq!(properties_key(&binding("foo~bar/ä", Arguments::new())), "foo%7Ebar%2F%C3%A4");
        let with = properties_key(&binding("k", some.clone()));
        assert!(with.starts_with("k~") && with.len() == 2 + 6, "{with}");
        assert!(properties_key(&binding("", some)).starts_with('~'));
    }
}
