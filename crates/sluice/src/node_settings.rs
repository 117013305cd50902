//! The level of the log and the limits of the node, which `sluice set` changes until the broker stops.

use clap::{Args, ValueEnum};
use hyper::Method;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::http::Api;
use crate::objects::{self, EFFECTIVE};
use crate::output::print;
use crate::table::{Column, rows_of, table};

/// The largest number without a unit that could be meant as a part of the memory. As a number of bytes it would be useless.
const PART_MAX: u64 = 1000;

/// The key of the level of all lines.
const LEVEL: &str = "log.level";

/// The end of the line about a change.
const UNTIL: &str = "until the broker stops; set it in the configuration to keep it";

/// Whose lines a level is for.
#[derive(Args, Debug)]
pub(crate) struct Lines {
    /// Only lines of this category
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "output")]
    category: Option<Category>,
    /// Only lines that go to this output
    #[arg(long, value_enum, value_name = "NAME")]
    output: Option<Output>,
}

/// A category of the log, as `log.CATEGORY.level` has it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Category {
    Connection,
    Channel,
    Queue,
    Ra,
    User,
    /// Lines of no category
    Default,
}

/// A place that the log goes to, as `log.OUTPUT.level` has it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Console,
    File,
    Exchange,
}

impl Lines {
    /// Returns the key of the configuration.
    pub(crate) fn key(&self) -> String {
        let category = self.category.and_then(|category| category.to_possible_value());
        let output = || self.output.and_then(|output| output.to_possible_value());
        let named = category.or_else(output).map(|value| format!("log.{}.level", value.get_name()));
        named.unwrap_or_else(|| LEVEL.to_owned())
    }
}

/// Sets a level. Prints a line, and another for each setting that still counts instead.
///
/// # Errors
/// The broker's error, for example that there is no such level.
pub(crate) async fn set_level(api: &Api, level: &str, lines: &Lines) -> Result<(), Failure> {
    let key = lines.key();
    set(api, "set the level of the log", &key, level).await?;
    print(&format!("{key} is {level} {UNTIL}\n"))?;
    if key != LEVEL {
        return Ok(());
    }
    let settings = effective(api, "show the level of the log").await?;
    let others = settings.iter().filter(|row| is_level(row) && row["key"] != LEVEL && row["value"] != "");
    for row in others {
        let text = |field: &str| row[field].as_str().unwrap_or_default();
        print(&format!("{} is still {} there\n", text("key"), text("value")))?;
    }
    Ok(())
}

const LEVELS: &[Column] = &[("KEY", "key"), ("LEVEL", "value"), ("FROM", "from")];

/// Returns the answer of the API, reduced to the levels of the log.
///
/// # Errors
/// The broker's error.
pub(crate) async fn levels(api: &Api) -> Result<Vec<Value>, Failure> {
    let mut settings = effective(api, "show the level of the log").await?;
    settings.retain(is_level);
    Ok(settings)
}

/// Renders levels as a table.
pub(crate) fn level_table(levels: &[Value]) -> String {
    table(LEVELS, levels)
}

fn is_level(row: &Value) -> bool {
    row["key"].as_str().is_some_and(|key| key.starts_with("log.") && key.ends_with(".level"))
}

/// A limit of the node, at which publishers are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeLimit {
    Memory,
    Disk,
}

impl NodeLimit {
    /// Returns the limit with this name, if it is one of the node.
    ///
    /// # Errors
    /// A usage failure if a user or a virtual host is named, too.
    pub(crate) fn named(
        name: &str,
        user: Option<&str>,
        vhost: Option<&str>,
    ) -> Result<Option<Self>, Failure> {
        let limit = match name {
            "memory" => Self::Memory,
            "disk" => Self::Disk,
            _ => return Ok(None),
        };
        match user.is_some() || vhost.is_some() {
            true => Err(Failure::usage(format!(
                "{name} is a limit of the node, and not of a user or a virtual host"
            ))),
            false => Ok(Some(limit)),
        }
    }

    /// Returns the beginning of the two keys of the configuration.
    fn prefix(self) -> &'static str {
        match self {
            Self::Memory => "vm_memory_high_watermark",
            Self::Disk => "disk_free_limit",
        }
    }

    /// Returns the key that is cleared. Both forms of the limit go with it.
    pub(crate) fn key_to_clear(self) -> String {
        format!("{}.absolute", self.prefix())
    }

    /// Returns the key for a value: a part of the memory has a decimal point.
    fn key(self, value: &str) -> Result<String, String> {
        let form = match value.parse::<u64>() {
            Ok(1..=PART_MAX) => {
                return Err(format!(
                    "'{value}' is ambiguous: write {value}.0 for a part of the memory, or a size with a unit, such as {value}GiB"
                ));
            }
            _ if value.contains('.') && value.parse::<f64>().is_ok() => "relative",
            _ => "absolute",
        };
        Ok(format!("{}.{form}", self.prefix()))
    }
}

/// Sets a limit of the node, and prints a line.
///
/// # Errors
/// A usage failure for an ambiguous value; otherwise the broker's error.
pub(crate) async fn set_limit(api: &Api, limit: NodeLimit, value: &str) -> Result<(), Failure> {
    let key = limit.key(value).map_err(Failure::usage)?;
    set(api, "set the limit", &key, value).await?;
    print(&format!("{key} is {value} {UNTIL}\n"))
}

async fn set(api: &Api, words: &str, key: &str, value: &str) -> Result<(), Failure> {
    api.ask(words, Method::PUT, &objects::setting(key).path, Some(&json!({ "value": value }))).await.map(drop)
}

async fn effective(api: &Api, words: &str) -> Result<Vec<Value>, Failure> {
    let (_, answer) = api.ask(words, Method::GET, EFFECTIVE, None).await?;
    Ok(rows_of(&answer["config"]).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_size_or_a_part_of_the_memory() {
        for (value, key) in [
            ("0.4", "vm_memory_high_watermark.relative"),
            ("1.0", "vm_memory_high_watermark.relative"),
            ("4GiB", "vm_memory_high_watermark.absolute"),
            ("1.5GiB", "vm_memory_high_watermark.absolute"),
            ("1048576", "vm_memory_high_watermark.absolute"),
            // It stops publishers, as in RabbitMQ.
            ("0", "vm_memory_high_watermark.absolute"),
        ] {
            assert_eq!(NodeLimit::Memory.key(value).as_deref(), Ok(key), "{value}");
        }
        assert_eq!(NodeLimit::Disk.key("1.5").as_deref(), Ok("disk_free_limit.relative"));
        // In RabbitMQ, it is all memory.
        assert!(NodeLimit::Memory.key("1").unwrap_err().contains("1.0"));
        assert!(NodeLimit::Disk.key("1000").is_err());
    }

    #[test]
    fn a_limit_of_the_node_has_neither_a_user_nor_a_virtual_host() {
        let named = |name, user, vhost| NodeLimit::named(name, user, vhost).map_err(|failure| failure.line);
        assert_eq!(named("memory", None, None), Ok(Some(NodeLimit::Memory)));
        assert_eq!(named("max-queues", None, Some("/")), Ok(None));
        for (user, vhost) in [(None, Some("team")), (None, Some("/")), (Some("anna"), None)] {
            let refused = "disk is a limit of the node, and not of a user or a virtual host".to_owned();
            assert_eq!(named("disk", user, vhost), Err(refused), "{user:?} {vhost:?}");
        }
    }

    #[test]
    fn each_level_has_its_key() {
        let key = |category, output| Lines { category, output }.key();
        assert_eq!(key(None, None), "log.level");
        assert_eq!(key(Some(Category::Ra), None), "log.ra.level");
        assert_eq!(key(Some(Category::Default), None), "log.default.level");
        assert_eq!(key(None, Some(Output::Exchange)), "log.exchange.level");
    }
}
