//! `/api/config/effective`: the settings in force, and changes of them while the broker runs.

use serde_json::{Value, json};

use crate::call::Call;
use crate::reply::{Failure, Reply};
use crate::settings_in_force::{Setting, SettingsInForce};

/// The longest value of a change, in bytes. No setting that can change while the broker runs has a longer one.
const VALUE_BYTES_MAX: usize = 1024;

/// Shows all settings. RabbitMQ answers with Erlang terms, which no tool reads.
pub(crate) fn effective(settings: &SettingsInForce) -> Reply {
    let row = |of: &Setting| json!({ "key": of.key, "value": of.value, "from": of.place });
    let rows: Vec<Value> = settings.all().iter().map(row).collect();
    Reply::Json(json!({ "config": rows }))
}

/// Changes a setting until the broker stops.
///
/// # Errors
/// 404 for an unknown setting; 400 for one that needs a restart, and for a wrong value.
pub(crate) async fn set(call: &Call<'_>) -> Result<Reply, Failure> {
    let value = match call.fields.get("value") {
        Some(Value::String(value)) if value.len() <= VALUE_BYTES_MAX => value.clone(),
        Some(Value::String(_)) => {
            return Err(Failure::bad_request(format!("'value' is longer than {VALUE_BYTES_MAX} bytes")));
        }
        _ => return Err(Failure::bad_request("'value' is not a string")),
    };
    call.ports.settings().change(call.who.user.clone(), call.param(0), Some(value)).await?;
    Ok(Reply::NoContent)
}

/// Goes back to the value of the configuration.
///
/// # Errors
/// 404 for a setting that was not changed.
pub(crate) async fn reset(call: &Call<'_>) -> Result<Reply, Failure> {
    call.ports.settings().change(call.who.user.clone(), call.param(0), None).await?;
    Ok(Reply::NoContent)
}
