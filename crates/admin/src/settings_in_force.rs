//! The settings in force, and changes of them while the broker runs. The requests are in `settings.rs`.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::{mpsc, oneshot};

use crate::reply::Failure;

/// The most changes that wait. Each of them is carried out at once, so more come only from a client that floods the broker; its
/// requests wait.
const CHANGES_MAX: usize = 16;

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

    /// Returns all settings. None of them changes until the returned value is dropped.
    pub(crate) fn all(&self) -> RwLockReadGuard<'_, Vec<Setting>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whoever carries out changes for one. With `None`, the setting goes back to the value of the configuration.
    ///
    /// # Errors
    /// 404 for an unknown setting; 400 for one that needs a restart, and for a wrong value; 503 if the broker stops.
    pub(crate) async fn change(
        &self,
        user: Arc<str>,
        key: &str,
        value: Option<String>,
    ) -> Result<(), Failure> {
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
