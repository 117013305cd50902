//! `/api/config/effective`: the settings in force, and changes of them while the broker runs.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::call::Call;
use crate::reply::{Failure, Reply};

/// The most changes that wait. Each of them is carried out at once, so more come only from a client that floods the broker; its
/// requests wait.
const CHANGES_MAX: usize = 16;

/// The longest value of a change, in bytes. No setting that can change while the broker runs has a longer one.
const VALUE_BYTES_MAX: usize = 1024;

/// One setting. Its value is not a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
    /// Where the value comes from: `FILE:LINE`, a variable of the environment, `--set`, `at run time`, or `default`.
    pub place: String,
}

/// The settings in force. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SettingsInForce {
    all: Arc<RwLock<Vec<Setting>>>,
    /// Where changes go; `None` if nobody carries them out.
    changes: Option<mpsc::Sender<SettingChange>>,
}

/// A change of a setting, until the broker stops. Whoever carries it out answers.
#[derive(Debug)]
pub struct SettingChange {
    pub key: String,
    /// The new value; `None` means that of the configuration.
    pub value: Option<String>,
    /// The administrator who asks for it.
    pub user: Arc<str>,
    pub answer: oneshot::Sender<Result<(), SettingRefusal>>,
}

/// Why a change is refused. The text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingRefusal {
    /// There is no such setting, or nothing to go back from.
    Missing(String),
    /// The setting needs a restart, or the value is wrong.
    Refused(String),
}

impl SettingsInForce {
    /// Creates settings that can change, and the receiver of the changes.
    pub fn with_changes() -> (Self, mpsc::Receiver<SettingChange>) {
        let (changes, receiver) = mpsc::channel(CHANGES_MAX);
        (Self { changes: Some(changes), ..Self::default() }, receiver)
    }

    /// Replaces all settings.
    pub fn set(&self, settings: Vec<Setting>) {
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    async fn change(&self, user: Arc<str>, key: &str, value: Option<String>) -> Result<(), Failure> {
        let nobody =
            || Failure::not_found(format!("nothing changes the setting '{key}' while the broker runs"));
        let changes = self.changes.as_ref().ok_or_else(nobody)?;
        let (answer, answered) = oneshot::channel();
        let change = SettingChange { key: key.to_owned(), value, user, answer };
        let stops = || Failure::unavailable("the broker stops");
        changes.send(change).await.map_err(|_| stops())?;
        match answered.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SettingRefusal::Missing(why))) => Err(Failure::not_found(why)),
            Ok(Err(SettingRefusal::Refused(why))) => Err(Failure::bad_request(why)),
            Err(_) => Err(stops()),
        }
    }
}

/// Shows all settings. RabbitMQ answers with Erlang terms, which no tool reads.
pub(crate) fn effective(settings: &SettingsInForce) -> Reply {
    let settings = settings.all.read().unwrap_or_else(PoisonError::into_inner);
    let row = |of: &Setting| json!({ "key": of.key, "value": of.value, "from": of.place });
    let rows: Vec<Value> = settings.iter().map(row).collect();
    Reply::Json(json!({ "config": rows }))
}

/// Changes a setting until the broker stops.
///
/// # Errors
/// 404 for an unknown setting; 400 for one that needs a restart, and for a wrong value.
pub(crate) async fn set<D>(call: &Call<'_, D>) -> Result<Reply, Failure> {
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
pub(crate) async fn reset<D>(call: &Call<'_, D>) -> Result<Reply, Failure> {
    call.ports.settings().change(call.who.user.clone(), call.param(0), None).await?;
    Ok(Reply::NoContent)
}
