//! The limits of users and virtual hosts, as bodies have them.

use catalog::access::Maximum;
use serde_json::{Map, Value};

use crate::reply::Failure;

/// Reads a limit: a whole number; a negative one is no limit.
pub(crate) fn maximum(fields: &Map<String, Value>, field: &str) -> Result<Maximum, Failure> {
    let wrong = || Failure::bad_request(format!("'{field}' is not a whole number below 4294967296"));
    let number = fields.get(field).and_then(Value::as_i64).ok_or_else(wrong)?;
    if number < 0 { Ok(None) } else { Ok(Some(u32::try_from(number).map_err(|_| wrong())?)) }
}

/// Returns a map of those limits that there are.
pub(crate) fn limits_map(limits: [(&str, Maximum); 2]) -> Value {
    let set = limits.into_iter().filter_map(|(name, max)| Some((name.to_owned(), max?.into())));
    Value::Object(set.collect())
}
