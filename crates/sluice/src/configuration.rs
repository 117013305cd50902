//! `sluice check config` and `sluice show config`: the configuration with which `sluice serve` would start. They need no broker.

use clap::Args;
use serde_json::{Value, json};

use crate::backends;
use crate::certificates::Certificates;
use crate::config::{Config, Loaded, SetValues, Sources};
use crate::definitions;
use crate::escape;
use crate::failure::{FAILED, Failure};
use crate::output::{print, warn};
use crate::production;
use crate::table::{Column, table};

#[derive(Args, Debug)]
pub struct CheckConfig {
    #[command(flatten)]
    sources: Sources,
    /// Fail (exit 1) if something should not go into production, and list it
    #[arg(long)]
    strict: bool,
}

#[derive(Args, Debug)]
pub struct ShowConfig {
    #[command(flatten)]
    sources: Sources,
    /// Only what differs from the defaults, or is set to them
    #[arg(long)]
    only_set: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const COLUMNS: &[Column] = &[("KEY", "key"), ("VALUE", "value"), ("FROM", "from")];

/// Checks everything for which the broker would not start.
///
/// # Errors
/// Everything that is wrong with the configuration. With `strict`, if nothing is: what should not go into production.
pub fn check(check: &CheckConfig) -> Result<(), Failure> {
    let Loaded { config, values, files } = load(&check.sources)?;
    for warning in &config.warnings {
        warn(warning);
    }
    let mut problems = Certificates::load(&config, &values).err().unwrap_or_default();
    problems.extend(definitions::read(&config, &values).err());
    problems.extend(backends::problems(&config, &values));
    if !problems.is_empty() {
        return Err(Failure::usage(problems.join("\n")));
    }
    let doubtful = if check.strict { production::problems(&config, &values) } else { Vec::new() };
    if !doubtful.is_empty() {
        return Err(Failure { code: FAILED, line: doubtful.join("\n") });
    }
    let of = if files.is_empty() { "no file".to_owned() } else { files.join(", ") };
    print(&format!("the configuration is valid ({of})\n"))
}

/// Prints each key with its value.
///
/// # Errors
/// Everything that is wrong with the configuration.
pub fn show(show: &ShowConfig) -> Result<(), Failure> {
    let ShowConfig { sources, only_set, json } = show;
    let rows = rows(&load(sources)?.values, *only_set);
    match json {
        true => print(&escape::json(&Value::Array(rows))),
        false => print(&table(COLUMNS, &rows)),
    }
}

fn load(sources: &Sources) -> Result<Loaded, Failure> {
    Config::load(sources).map_err(|error| Failure::usage(error.to_string()))
}

fn rows(values: &SetValues, only_set: bool) -> Vec<Value> {
    let all = values.all().filter(|shown| !only_set || shown.is_set);
    all.map(|shown| json!({ "key": shown.key, "value": shown.value, "from": shown.place })).collect()
}
