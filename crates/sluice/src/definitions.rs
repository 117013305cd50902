//! `sluice export definitions` and `sluice import definitions`: everything but the messages, as one file in RabbitMQ's form. Also reads
//! `load_definitions`.

use std::path::{Path, PathBuf};

use admin::{Definitions, Reading};
use catalog::access::Identity;
use clap::{Args, Subcommand};
use hyper::Method;
use identity::url::hide;
use serde_json::Value;

use crate::amqp::block_on;
use crate::config::{Config, SetValues, files_of};
use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::objects::segment;
use crate::output::{print, tell};
use crate::private_file::write_private;
use crate::progress::watched;
use crate::report::{self, ExportReport};

#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// All definitions, to a file or to standard output
    Definitions(ExportDefinitions),
    /// What support needs to know of the broker, without secrets and messages
    Report(ExportReport),
}

#[derive(Args, Debug)]
pub(crate) struct ExportDefinitions {
    /// The file to write; only its owner can read it (- for standard output, which is the default)
    file: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// The definitions of a file (- for standard input): all, or none if one is wrong
    Definitions(ImportDefinitions),
}

#[derive(Args, Debug)]
pub(crate) struct ImportDefinitions {
    /// The file, or - for standard input
    file: PathBuf,
    /// Only say what is wrong or has no effect, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave out what this broker does not know: types of exchanges, keys of policies, and arguments of queues
    #[arg(long)]
    skip_unknown: bool,
    #[command(flatten)]
    scope: Scope,
}

/// What is exported or imported, and where.
#[derive(Args, Debug)]
struct Scope {
    /// Only what is in this virtual host (default: the whole node)
    #[arg(long, short = 'p', value_name = "NAME")]
    vhost: Option<String>,
    #[command(flatten)]
    api: Api,
}

/// Writes the definitions, or the report.
///
/// # Errors
/// The broker's error, or that of a file.
pub(crate) fn export(verb: &Export) -> Result<(), Failure> {
    let ExportDefinitions { file, force, scope } = match verb {
        Export::Report(export) => return report::run(export),
        Export::Definitions(export) => export,
    };
    let file = file.as_ref().filter(|file| file.as_os_str() != "-");
    // Pipes and devices are written to.
    if let Some(file) = file.filter(|file| !force && file.is_file()) {
        return Err(Failure::usage(format!("{} exists: --force overwrites it", file.display())));
    }
    block_on(async {
        let (_, all) = scope.api.ask("export the definitions", Method::GET, &scope.path(), None).await?;
        let text = escape::json(&all);
        let Some(file) = file else { return print(&text) };
        write_private(file, &text)?;
        tell(&escape::line(&format!("{}: {}", file.display(), contents(&all))));
        Ok(())
    })
}

/// The sections that are counted after an export, with the words for one entry and for several.
const COUNTED: &[(&str, &str, &str)] = &[
    ("users", "user", "users"),
    ("vhosts", "virtual host", "virtual hosts"),
    ("permissions", "permission", "permissions"),
    ("topic_permissions", "topic permission", "topic permissions"),
    ("parameters", "parameter", "parameters"),
    ("global_parameters", "global parameter", "global parameters"),
    ("policies", "policy", "policies"),
    ("queues", "queue", "queues"),
    ("exchanges", "exchange", "exchanges"),
    ("bindings", "binding", "bindings"),
];

/// Returns how many entries each section has: `2 users, 1 queue`.
fn contents(all: &Value) -> String {
    let counted = COUNTED.iter().filter_map(|(section, one, many)| match all[section].as_array()?.len() {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {many}")),
    });
    let counted = counted.collect::<Vec<_>>().join(", ");
    if counted.is_empty() { "nothing is defined".to_owned() } else { counted }
}

/// Carries out the definitions of a file, and prints one line.
///
/// # Errors
/// The broker's error, or that of a file.
pub(crate) fn import(verb: &Import) -> Result<(), Failure> {
    let Import::Definitions(ImportDefinitions { file, dry_run, skip_unknown, scope }) = verb;
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| named(file, &error))?;
    let words = "import the definitions";
    block_on(async {
        let path = format!("{}?report=true&dry_run={dry_run}&skip_unknown={skip_unknown}", scope.path());
        let ask = Ask { body: text, ..Ask::new(words, Method::POST, &path) };
        let (_, report) = watched(words, scope.api.send(ask)).await?;
        print(&reported(&report, file, *dry_run))
    })
}

/// Says what an import has done, or would do.
fn reported(report: &Value, file: &Path, dry_run: bool) -> String {
    let lines = |name: &str, word: &str| -> String {
        let lines = report[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        lines.map(|line| format!("{word}{}\n", escape::line(line))).collect()
    };
    let what = if dry_run { "could be imported, and nothing was changed" } else { "are imported" };
    let shown = file.display();
    let done = format!("the definitions of {shown} {what}\n");
    lines("warnings", "warning: ") + &lines("needed", "") + &done
}

impl Scope {
    fn path(&self) -> String {
        match &self.vhost {
            Some(vhost) => format!("/api/definitions/{}", segment(vhost)),
            None => "/api/definitions".to_owned(),
        }
    }
}

fn named(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", file.display()))
}

/// Reads what `load_definitions` names, if it is set: a file, or the files `*.json` of a directory in the order of their names.
///
/// # Errors
/// A file cannot be read, or some of it cannot be carried out. Every wrong file is named, behind the key that names it and the
/// place where that is set.
pub(crate) fn read(config: &Config, values: &SetValues) -> Result<Option<Definitions>, String> {
    read_files(config).map_err(|problem| values.placed(config.definitions_key, &problem, None))
}

fn read_files(config: &Config) -> Result<Option<Definitions>, String> {
    let Some(path) = &config.load_definitions else { return Ok(None) };
    // Somebody may have written a URL.
    let shown = |path: &Path| hide(&path.display().to_string()).into_owned();
    let named = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", shown(path));
    let skip_unknown = config.skip_unknown_definitions;
    let reading = Reading { vhost: None, skip_unknown, warns_of_components: true };
    let is_directory = std::fs::metadata(path).map_err(|error| named(path, &error))?.is_dir();
    if !is_directory {
        let text = std::fs::read_to_string(path).map_err(|error| named(path, &error))?;
        return Definitions::parse(&text, reading).map(Some).map_err(|problems| named(path, &problems));
    }
    let files = files_of(path, "json").map_err(|error| named(path, &error))?;
    if files.is_empty() {
        return Err(named(path, &"the directory has no file *.json"));
    }
    let (mut definitions, mut problems) = (Definitions::default(), Vec::new());
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let read = definitions.add_file(&name, &text, reading);
                problems.extend(read.err().map(|wrong| named(&file, &wrong)));
            }
            Err(error) => problems.push(named(&file, &error)),
        }
    }
    if problems.is_empty() { Ok(Some(definitions)) } else { Err(problems.join("; ")) }
}

/// Returns what every broker refuses of these definitions, and what a broker must have already that carries them out.
pub(crate) fn examine(
    definitions: &Definitions,
    config: &Config,
    values: &SetValues,
) -> (Vec<String>, Vec<String>) {
    let file = config.load_definitions.as_deref().unwrap_or(Path::new("")).display().to_string();
    let placed =
        |what: String| values.placed(config.definitions_key, &format!("{}: {what}", hide(&file)), None);
    let refused = definitions.refused(config.settings.declare_rules.default_type);
    let refused = refused.into_iter().map(placed).collect();
    let needed = definitions.needed(&config.settings.default_vhost, &config.default_user);
    (refused, needed.into_iter().map(placed).collect())
}

/// Carries out definitions that were read at the start.
///
/// # Errors
/// One is refused, so none is carried out.
pub(crate) async fn load(definitions: Definitions, config: &Config, node: &node::Node) -> Result<(), String> {
    // The operator who has written the configuration may do everything.
    let who = Identity::internal("load_definitions", "administrator");
    // What was lost is carried out again, even if nothing else has changed.
    let skip = config.skip_unchanged_definitions && !config.accept_lost_definitions;
    let loaded = definitions.import_at_start(node.api(), &who, skip).await;
    if !loaded.map_err(|failure| failure.text().to_owned())? {
        tracing::info!("the definitions have not changed since they were carried out: they are skipped");
    }
    Ok(())
}
