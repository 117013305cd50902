//! What SIGHUP does, while the broker runs: reads the certificates and the configuration again, and opens the log file again.

use std::sync::Arc;

use admin::{Setting, SettingsInForce};
use node::Node;

use crate::certificates::Watched;
use crate::config::{Config, Loaded, SetValues, Sources};
use crate::log::{self, Levels, LogFile};

/// What a running broker reads or opens again.
pub struct Reload {
    sources: Sources,
    /// The values with which the broker has started.
    at_start: SetValues,
    /// The values that were read last.
    last: SetValues,
    /// What the HTTP API shows as the settings in force.
    in_force: SettingsInForce,
    levels: Levels,
    certificates: Arc<Watched>,
    log_file: Option<Arc<LogFile>>,
}

impl Reload {
    /// Creates the state of a broker that has started with these values.
    pub fn new(
        sources: Sources,
        values: SetValues,
        levels: Levels,
        certificates: Arc<Watched>,
        log_file: Option<Arc<LogFile>>,
    ) -> Self {
        let in_force = SettingsInForce::default();
        in_force.set(settings(&values));
        Self { sources, at_start: values.clone(), last: values, in_force, levels, certificates, log_file }
    }

    /// Returns the settings in force. They change with each reload.
    pub fn in_force(&self) -> SettingsInForce {
        self.in_force.clone()
    }

    /// Does everything that SIGHUP asks for, one after the other. When it returns, all of it is done, so that systemd can be
    /// told.
    pub async fn run(&mut self, node: &Node) {
        if let Some(file) = &self.log_file {
            log::reopen(file);
        }
        self.certificates.read_again(true).await;
        self.read_again(node);
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
        let changed = self.last.changes(&values).into_iter().filter(|change| change.reloads);
        let changed: Vec<String> = changed.map(|change| change.key).collect();
        let of_restart = self.at_start.changes(&values).into_iter().filter(|change| !change.reloads);
        let of_restart: Vec<String> = of_restart.map(|change| change.key).collect();
        self.levels.set(&config.log);
        node.set_alarm_limits(config.alarms);
        node.reload_settings(&config.settings);
        self.in_force.set(settings(&self.at_start.reloaded(&values)));
        self.last = values;
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
