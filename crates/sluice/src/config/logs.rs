//! The keys of the log, `log.*`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use catalog::categories::{CHANNEL, CONNECTION, QUEUE, RA, USER};

use super::key::{Key, key, put, reloads};
use super::schedule::Schedule;
use super::values::{boolean, bytes, file, log_level, number};
use super::wrong::Wrong;

/// The largest number of older log files that are kept. Each rotation renames all of them.
const FILES_MAX: u32 = 1000;

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    reloads(key(
        "log.level",
        "info",
        "The lowest level that is logged: trace, debug, info, warning, error, critical or none.",
        |c, _, v| put(&mut c.log.level, log_level(v)),
    )),
    reloads(key(
        "log.user.level",
        "",
        "The lowest level of the lines that say who logged in or changed something, if it is not that of all lines.",
        |c, _, v| c.log.set_category(USER, v),
    )),
    reloads(key(
        "log.connection.level",
        "",
        "The lowest level of the lines about connections, likewise.",
        |c, _, v| c.log.set_category(CONNECTION, v),
    )),
    reloads(key(
        "log.channel.level",
        "",
        "The lowest level of the lines about channels, sessions and links, likewise.",
        |c, _, v| c.log.set_category(CHANNEL, v),
    )),
    reloads(key(
        "log.queue.level",
        "",
        "The lowest level of the lines about queues and streams, likewise.",
        |c, _, v| c.log.set_category(QUEUE, v),
    )),
    reloads(key(
        "log.ra.level",
        "",
        "The lowest level of the lines about the Raft groups of quorum queues, likewise.",
        |c, _, v| c.log.set_category(RA, v),
    )),
    reloads(key(
        "log.default.level",
        "",
        "The lowest level of the lines of no category, likewise.",
        |c, _, v| put(&mut c.log.default_level, level_or_none(v)),
    )),
    key("log.console", "true", "Whether the log goes to standard error.", |c, _, v| {
        put(&mut c.log.has_console, boolean(v))
    }),
    reloads(key("log.console.level", "", "The lowest level there, if it is not log.level.", |c, _, v| {
        put(&mut c.log.console.level, level_or_none(v))
    })),
    key("log.console.formatter", "plaintext", "How lines look there: plaintext or json.", |c, _, v| {
        put(&mut c.log.console.format, format(v))
    }),
    key(
        "log.file",
        "false",
        "The file to which the log goes, too: a name in log.dir, or a path. false: to none.",
        |c, _, v| put(&mut c.log.file.name, file_name(v)),
    ),
    key(
        "log.dir",
        "",
        "The directory of log.file; it is created. By default, logs in the data directory.",
        |c, _, v| put(&mut c.log.file.directory, file(v)),
    ),
    reloads(key("log.file.level", "", "The lowest level there, if it is not log.level.", |c, _, v| {
        put(&mut c.log.file.output.level, level_or_none(v))
    })),
    key("log.file.formatter", "plaintext", "How lines look there: plaintext or json.", |c, _, v| {
        put(&mut c.log.file.output.format, format(v))
    }),
    key(
        "log.file.rotation.size",
        "100MiB",
        "The size at which the file is renamed and a new one begun. 0: it grows without a limit.",
        |c, _, v| put(&mut c.log.file.rotation.bytes, bytes(v)),
    ),
    key(
        "log.file.rotation.count",
        "5",
        "The number of older files that are kept, NAME.0 being the newest, up to 1000.",
        |c, _, v| put(&mut c.log.file.rotation.count, number(v, 0..=FILES_MAX)),
    ),
    key(
        "log.file.rotation.date",
        "",
        "When the file is rotated, too, in UTC: $D0 is each midnight, $W0D23 each Sunday at 23:00, $M1D0 the first day of each month.",
        |c, _, v| put(&mut c.log.file.rotation.schedule, schedule(v)),
    ),
    key(
        "log.exchange",
        "false",
        "Whether the lines go to the exchange amq.rabbitmq.log of default_vhost, too, with their level as the routing key.",
        |c, _, v| put(&mut c.log.has_exchange, boolean(v)),
    ),
    reloads(key(
        "log.exchange.level",
        "",
        "The lowest level there, if it is not log.level: debug, info, warning, error, critical or none. Lines for debugging never go there, also with debug.",
        |c, _, v| put(&mut c.log.exchange.level, level_or_none(v)),
    )),
    key("log.exchange.formatter", "plaintext", "How lines look there: plaintext or json.", |c, _, v| {
        put(&mut c.log.exchange.format, format(v))
    }),
];

/// What is logged, where and how. Levels are spelled as by a tracing filter: `trace`, `debug`, `info`, `warn`, `error` or
/// `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub level: &'static str,
    /// The levels of those [`catalog::categories`] that have one of their own, by their names.
    pub category_levels: BTreeMap<&'static str, &'static str>,
    /// The level of lines of no category; `None` if it is that of all lines.
    pub default_level: Option<&'static str>,
    /// True if the log goes to standard error.
    pub has_console: bool,
    pub console: Output,
    pub file: FileOptions,
    /// True if the log goes to an exchange.
    pub has_exchange: bool,
    pub exchange: Output,
}

/// One place that the log goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The level of all lines there; `None` if it is that of the log.
    pub level: Option<&'static str>,
    pub format: Format,
}

/// The file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileOptions {
    /// Its name or path; `None` if there is none.
    pub name: Option<PathBuf>,
    /// The directory of a name; `None` means `logs` in the data directory.
    pub directory: Option<PathBuf>,
    pub output: Output,
    pub rotation: Rotation,
}

/// When the file of the log is renamed and a new one begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The size at which it is rotated, in bytes. 0 means never.
    pub bytes: u64,
    /// The number of older files that are kept.
    pub count: u32,
    /// The times at which it is rotated; `None` means at none.
    pub schedule: Option<Schedule>,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Json,
}

impl Default for LogOptions {
    fn default() -> Self {
        let output = Output { level: None, format: Format::Plain };
        Self {
            level: "info",
            category_levels: BTreeMap::new(),
            default_level: None,
            has_console: true,
            console: output.clone(),
            has_exchange: false,
            exchange: output.clone(),
            file: FileOptions {
                name: None,
                directory: None,
                output,
                rotation: Rotation { bytes: 100 << 20, count: 5, schedule: None },
            },
        }
    }
}

impl LogOptions {
    /// Sets the level of a category. An empty value means that of all lines.
    fn set_category(&mut self, category: &'static str, value: &str) -> Result<(), Wrong> {
        match level_or_none(value)? {
            Some(level) => self.category_levels.insert(category, level),
            None => self.category_levels.remove(category),
        };
        Ok(())
    }
}

fn level_or_none(value: &str) -> Result<Option<&'static str>, String> {
    if value.is_empty() { Ok(None) } else { log_level(value).map(Some) }
}

fn format(value: &str) -> Result<Format, String> {
    match value {
        "plaintext" => Ok(Format::Plain),
        "json" => Ok(Format::Json),
        _ => Err("plaintext or json is needed".into()),
    }
}

fn schedule(value: &str) -> Result<Option<Schedule>, String> {
    if value.is_empty() { Ok(None) } else { Schedule::parse(value).map(Some) }
}

fn file_name(value: &str) -> Result<Option<PathBuf>, String> {
    match value {
        "false" => Ok(None),
        "" | "true" => Err("a name, or false, is needed".into()),
        name => Ok(Some(name.into())),
    }
}
