//! `sluice check config` and `sluice show config`: the configuration with which `sluice serve` would start. They need no broker,
//! except for `sluice show config --running`.

use std::path::PathBuf;

use clap::Args;
use hyper::Method;
use serde_json::{Value, json};

use crate::amqp::block_on;
use crate::backends;
use crate::certificates::Certificates;
use crate::config::{CONFIG_FILE_VARIABLE, Config, DEFAULT, Loaded, SetValues, Shown, Sources};
use crate::definitions;
use crate::escape;
use crate::failure::{FAILED, Failure};
use crate::http::Api;
use crate::objects::EFFECTIVE;
use crate::output::{print, warn};
use crate::production;
use crate::table::{Column, table};

/// The arguments of `sluice serve`.
#[derive(Args, Debug)]
struct OfServe {
    #[command(flatten)]
    sources: Sources,
    /// Taken as `sluice serve` takes it; the directory is not looked at
    #[arg(long, value_name = "DIR", env = "SLUICE_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckConfig {
    #[command(flatten)]
    serve: OfServe,
    /// Fail (exit 1) if something should not go into production, and list it
    #[arg(long)]
    strict: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowConfig {
    #[command(flatten)]
    serve: OfServe,
    /// Only what differs from the defaults, or is set to them
    #[arg(long)]
    only_set: bool,
    /// The settings in force of the running broker, instead of those of the file
    #[arg(long)]
    running: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

const COLUMNS: &[Column] = &[("KEY", "key"), ("VALUE", "value"), ("FROM", "from")];

/// Checks everything for which the broker would not start.
///
/// # Errors
/// Everything that is wrong with the configuration. With `strict`, if nothing is: what should not go into production.
pub(crate) fn check(check: &CheckConfig) -> Result<(), Failure> {
    let Loaded { config, values, files } = load(&check.serve.sources)?;
    for warning in &config.warnings {
        warn(warning);
    }
    let mut problems = Certificates::load(&config, &values).err().unwrap_or_default();
    match definitions::read(&config, &values) {
        Ok(read) => {
            let (refused, needed) =
                read.map(|read| definitions::examine(&read, &config, &values)).unwrap_or_default();
            problems.extend(refused);
            needed.iter().for_each(|needed| warn(needed));
        }
        Err(problem) => problems.push(problem),
    }
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
/// Everything that is wrong with the configuration, or the error of the running broker.
pub(crate) fn show(show: &ShowConfig) -> Result<(), Failure> {
    if show.running {
        return block_on(async { show.print(of_broker(&show.serve.sources, &show.api).await?) });
    }
    show.print(rows(&load(&show.serve.sources)?.values))
}

impl ShowConfig {
    fn print(&self, mut rows: Vec<Value>) -> Result<(), Failure> {
        rows.retain(|row| !self.only_set || row["from"] != DEFAULT);
        match self.json {
            true => print(&escape::json(&Value::Array(rows))),
            false => print(&table(COLUMNS, &rows)),
        }
    }
}

fn load(sources: &Sources) -> Result<Loaded, Failure> {
    Config::load(sources).map_err(|error| Failure::usage(error.to_string()))
}

fn rows(values: &SetValues) -> Vec<Value> {
    let row = |shown: Shown<'_>| json!({ "key": shown.key, "value": shown.value, "from": shown.place });
    values.all().map(row).collect()
}

/// Asks the running broker for its settings.
async fn of_broker(sources: &Sources, api: &Api) -> Result<Vec<Value>, Failure> {
    if !sources.sets.is_empty() {
        return Err(Failure::usage(
            "--running shows the settings of the broker: --set has no effect on them",
        ));
    }
    // The variable may be set for the broker's own start, as in the container image.
    let of_environment = std::env::var_os(CONFIG_FILE_VARIABLE).map(PathBuf::from);
    if sources.file.is_some() && sources.file != of_environment {
        return Err(Failure::usage(
            "--running shows the settings of the broker: --config has no effect on them",
        ));
    }
    let (_, answer) = api.ask("show the configuration", Method::GET, EFFECTIVE, None).await?;
    Ok(answer["config"].as_array().cloned().unwrap_or_default())
}
