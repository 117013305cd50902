//! The tags of users and virtual hosts, as bodies have them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::reply::Failure;

/// Reads `tags`, which must be there.
pub(crate) fn tags(fields: &Map<String, Value>) -> Result<Arc<[String]>, Failure> {
    fields.get("tags").map_or_else(|| Err(Failure::bad_request("tags_not_present")), tags_of)
}

/// Reads a list, or text with commas.
pub(crate) fn tags_of(value: &Value) -> Result<Arc<[String]>, Failure> {
    let wrong = || Failure::bad_request("'tags' is neither a list of texts nor text with commas");
    let tags: Vec<&str> = match value {
        Value::String(text) => text.split(',').collect(),
        Value::Array(tags) => tags.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    Ok(tags.into_iter().map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect())
}
