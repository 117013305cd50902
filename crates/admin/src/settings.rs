//! `GET /api/config/effective`: the settings in force.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};

use crate::reply::Reply;

/// One setting. Its value is not a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
    /// Where the value comes from: `FILE:LINE`, a variable of the environment, `--set`, or `default`.
    pub place: String,
}

/// The settings in force. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SettingsInForce(Arc<RwLock<Vec<Setting>>>);

impl SettingsInForce {
    /// Replaces all settings.
    pub fn set(&self, settings: Vec<Setting>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

/// Shows all settings. RabbitMQ answers with Erlang terms, which no tool reads.
pub fn effective(settings: &SettingsInForce) -> Reply {
    let settings = settings.0.read().unwrap_or_else(PoisonError::into_inner);
    let row = |of: &Setting| json!({ "key": of.key, "value": of.value, "from": of.place });
    let rows: Vec<Value> = settings.iter().map(row).collect();
    Reply::Json(json!({ "config": rows }))
}
