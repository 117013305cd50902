//! The parameters of shovels and of federation. They have no effect here, but they are kept for the broker that they go to, and
//! checked as RabbitMQ does. So a mistake is found where it is made.

use serde_json::{Map, Value};

use crate::reply::Failure;

const SHOVEL: &str = "shovel";
const UPSTREAM: &str = "federation-upstream";
const UPSTREAM_SET: &str = "federation-upstream-set";

const AMQP091: &str = "amqp091";
const AMQP10: &str = "amqp10";
const LOCAL: &str = "local";

/// When a message is acknowledged at its source.
const ACK_MODES: &[&str] = &["on-confirm", "on-publish", "no-ack"];

/// The fields of a shovel and of an upstream that are numbers. Each may be missing.
const SHOVEL_NUMBERS: &[&str] = &["prefetch-count", "src-prefetch-count", "reconnect-delay"];
const UPSTREAM_NUMBERS: &[&str] =
    &["prefetch-count", "reconnect-delay", "max-hops", "expires", "message-ttl"];

/// Checks the value of a parameter.
///
/// # Errors
/// 400: RabbitMQ would not take it. The reason does not show the value, which may have passwords in it.
pub(crate) fn check(component: &str, value: &Value) -> Result<(), Failure> {
    let checked = match component {
        SHOVEL => object(value).and_then(check_shovel),
        UPSTREAM => object(value).and_then(check_upstream),
        UPSTREAM_SET => check_set(value),
        _ => Ok(()),
    };
    checked.map_err(|why| Failure::bad_request(format!("Validation failed: {why}")))
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| "'value' is not an object".to_owned())
}

fn check_shovel(fields: &Map<String, Value>) -> Result<(), String> {
    for side in ["src", "dest"] {
        let field = |name: &str| format!("{side}-{name}");
        let protocol = one_of(fields, &field("protocol"), &[AMQP091, AMQP10, LOCAL])?.unwrap_or(AMQP091);
        // A local shovel uses the broker that it runs in.
        if protocol != LOCAL || fields.contains_key(&field("uri")) {
            check_uri(fields, &field("uri"))?;
        }
        if protocol == AMQP10 {
            text(fields, &field("address"))?.ok_or_else(|| format!("'{}' is missing", field("address")))?;
            continue;
        }
        let (queue, exchange) = (field("queue"), field("exchange"));
        match (text(fields, &queue)?, text(fields, &exchange)?) {
            (Some(_), Some(_)) => return Err(format!("'{queue}' and '{exchange}' exclude each other")),
            // Without a target, a message keeps its exchange and its routing key.
            (None, None) if side == "src" => {
                return Err(format!("one of '{queue}' and '{exchange}' is needed"));
            }
            _ => {}
        }
    }
    one_of(fields, "ack-mode", ACK_MODES)?;
    check_numbers(fields, SHOVEL_NUMBERS)
}

fn check_upstream(fields: &Map<String, Value>) -> Result<(), String> {
    check_uri(fields, "uri")?;
    one_of(fields, "ack-mode", ACK_MODES)?;
    check_numbers(fields, UPSTREAM_NUMBERS)
}

fn check_set(value: &Value) -> Result<(), String> {
    let entries = value.as_array().ok_or("'value' is not a list")?;
    match entries.iter().all(|entry| entry.get("upstream").is_some_and(Value::is_string)) {
        true => Ok(()),
        false => Err("an entry of the set has no 'upstream'".to_owned()),
    }
}

/// Checks a field that must have the URI of a broker, or a list of such URIs.
fn check_uri(fields: &Map<String, Value>, name: &str) -> Result<(), String> {
    let is_uri = |value: &Value| {
        let scheme = value.as_str().and_then(|uri| uri.split_once("://")).map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| ["amqp", "amqps"].iter().any(|known| scheme.eq_ignore_ascii_case(known)))
    };
    let is_valid = match fields.get(name) {
        None => return Err(format!("'{name}' is missing")),
        Some(Value::Array(uris)) => !uris.is_empty() && uris.iter().all(is_uri),
        Some(uri) => is_uri(uri),
    };
    if is_valid { Ok(()) } else { Err(format!("'{name}' is not a URI or a list of URIs")) }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    let text = |value: &'a Value| value.as_str().ok_or_else(|| format!("'{name}' is not a string"));
    fields.get(name).map(text).transpose()
}

/// Returns a field that has one of some words, if it is there.
fn one_of<'a>(fields: &'a Map<String, Value>, name: &str, words: &[&str]) -> Result<Option<&'a str>, String> {
    let word = text(fields, name)?;
    match word.is_none_or(|word| words.contains(&word)) {
        true => Ok(word),
        false => Err(format!("'{name}' is none of {}", words.join(", "))),
    }
}

fn check_numbers(fields: &Map<String, Value>, names: &[&str]) -> Result<(), String> {
    let wrong = names.iter().find(|name| fields.get(**name).is_some_and(|value| !value.is_number()));
    wrong.map_or(Ok(()), |name| Err(format!("'{name}' is not a number")))
}
