//! What changes while the broker runs. SIGHUP reads the certificates and the configuration again, and opens the log file again. An
//! administrator may also set single settings until the broker stops.

use std::sync::Arc;

use admin::{Setting, SettingChange, SettingRefusal, SettingsInForce};
use catalog::categories::USER;
use node::Node;
use tokio::sync::mpsc;

use crate::certificates::Watched;
use crate::config::{Config, Loaded, SetValues, Sources};
use crate::log::{self, Levels, LogFile};

/// What a running broker reads or opens again.
pub(crate) struct Reload {
    sources: Sources,
    /// The values with which the broker has started.
    at_start: SetValues,
    /// The values that were read last.
    last: SetValues,
    /// The values that administrators have set. They have priority over those that were read.
    at_run_time: SetValues,
    /// The values in force.
    used: SetValues,
    /// What the HTTP API shows as the settings in force.
    in_force: SettingsInForce,
    /// The changes that administrators ask for.
    changes: mpsc::Receiver<SettingChange>,
    levels: Levels,
    certificates: Arc<Watched>,
    log_file: Option<Arc<LogFile>>,
}

impl Reload {
    /// Creates the state of a broker that has started with these values.
    pub(crate) fn new(
        sources: Sources,
        values: SetValues,
        levels: Levels,
        certificates: Arc<Watched>,
        log_file: Option<Arc<LogFile>>,
    ) -> Self {
        let (in_force, changes) = SettingsInForce::with_changes();
        in_force.set(settings(&values));
        Self {
            sources,
            at_start: values.clone(),
            last: values.clone(),
            at_run_time: SetValues::default(),
            used: values,
            in_force,
            changes,
            levels,
            certificates,
            log_file,
        }
    }

    /// Returns the settings in force. They change with each reload.
    pub(crate) fn in_force(&self) -> SettingsInForce {
        self.in_force.clone()
    }

    /// Does everything that SIGHUP asks for, one after the other. When it returns, all of it is done, so that systemd can be
    /// told.
    pub(crate) async fn run(&mut self, node: &Node) {
        if let Some(file) = &self.log_file {
            log::reopen(file);
        }
        self.certificates.read_again(true).await;
        self.read_again(node);
    }

    /// Returns the next change that an administrator asks for. Dropping the future loses none.
    pub(crate) async fn next_change(&mut self) -> SettingChange {
        match self.changes.recv().await {
            Some(change) => change,
            // `in_force` has a sender, so the channel is never closed.
            None => std::future::pending().await,
        }
    }

    /// Carries out a change, and answers.
    pub(crate) fn change(&mut self, change: SettingChange, node: &Node) {
        let SettingChange { key, value, user, answer } = change;
        let changed = self.set_at_run_time(&key, value.as_deref(), &user, node);
        // The administrator may be gone. The change counts nevertheless.
        drop(answer.send(changed));
    }

    fn set_at_run_time(
        &mut self,
        key: &str,
        value: Option<&str>,
        user: &str,
        node: &Node,
    ) -> Result<(), SettingRefusal> {
        let changed = self.at_run_time.changed_at_run_time(key, value)?;
        // Before the change, which may silence the log. The line of the request follows after it.
        match value {
            Some(value) => {
                tracing::info!(target: USER, user, key, value, "a setting is changed until the broker stops")
            }
            None => tracing::info!(target: USER, user, key, "a setting is as in the configuration again"),
        }
        self.at_run_time = changed;
        self.use_values(node);
        Ok(())
    }

    /// Uses the values that were read last, and above them those that were set at run time. Returns the keys that have changed.
    fn use_values(&mut self, node: &Node) -> Vec<String> {
        let values = self.at_start.reloaded(&self.last).overlaid(&self.at_run_time);
        let config = Config::reloadable(&values);
        self.levels.set(&config.log);
        node.set_alarm_limits(config.alarms);
        node.reload_settings(&config.settings);
        self.in_force.set(settings(&values));
        let changed = self.used.changes(&values).into_iter().map(|change| change.key).collect();
        self.used = values;
        changed
    }

    /// Reads the configuration again, uses what can change, and logs what needs a restart. A configuration that is refused
    /// changes nothing.
    fn read_again(&mut self, node: &Node) {
        let Loaded { config, values, .. } = match Config::load(&self.sources) {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!("the configuration cannot be used, so the one before stays in use");
                for problem in error.to_string().lines() {
                    tracing::error!("{problem}");
                }
                return;
            }
        };
        let of_restart = self.at_start.changes(&values).into_iter().filter(|change| !change.reloads);
        let of_restart: Vec<String> = of_restart.map(|change| change.key).collect();
        self.last = values;
        let changed = self.use_values(node);
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        if !of_restart.is_empty() {
            tracing::warn!("these settings have changed and need a restart: {}", of_restart.join(", "));
        }
        if changed.is_empty() {
            tracing::info!(
                "the configuration was read again: nothing has changed that is used without a restart"
            );
        } else {
            tracing::info!("the configuration was read again: in use from now on: {}", changed.join(", "));
        }
        let at_run_time: Vec<&str> = self.at_run_time.names().collect();
        if !at_run_time.is_empty() {
            tracing::warn!("these settings were set at run time and stay in use: {}", at_run_time.join(", "));
        }
    }
}

/// Returns all settings for people, without secrets.
fn settings(values: &SetValues) -> Vec<Setting> {
    let all = values.all();
    all.map(|shown| Setting {
        key: shown.key,
        value: shown.value.into_owned(),
        place: shown.place.to_owned(),
    })
    .collect()
}
