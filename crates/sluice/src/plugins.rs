//! `sluice enable plugin` and `sluice disable plugin` say what the broker has instead of a plugin of RabbitMQ. There are no plugins to
//! enable, so these verbs change nothing and need no broker, like `rabbitmq-plugins --offline` in the script that builds an image.

use admin::{Here, Plugin};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::print;

#[derive(Debug, Subcommand)]
pub(crate) enum Enable {
    /// A plugin of RabbitMQ: no effect if it is built in, and an error if it does not exist here
    #[command(alias = "plugins")]
    Plugin(Names),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Disable {
    /// A plugin of RabbitMQ: no effect
    #[command(alias = "plugins")]
    Plugin(Names),
}

#[derive(Args, Debug)]
pub(crate) struct Names {
    /// The name in RabbitMQ, such as `rabbitmq_management`
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Prints a line for each plugin that is built in.
///
/// # Errors
/// A usage failure if a plugin is unknown, and then nothing is printed; otherwise a failure if something does not exist here. It names all
/// of those plugins.
pub(crate) fn enable(enable: &Enable) -> Result<(), Failure> {
    let Enable::Plugin(names) = enable;
    let mut missing = Vec::new();
    for plugin in names.find()? {
        match plugin.here {
            Here::BuiltIn { .. } => print(&line(plugin))?,
            Here::Missing(why) => missing.push(format!("'{}': {why}", plugin.name)),
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(format!("cannot enable plugin {}", missing.join("; ")))),
    }
}

/// Prints a line for each plugin.
///
/// # Errors
/// A usage failure if a plugin is unknown, and then nothing is printed.
pub(crate) fn disable(disable: &Disable) -> Result<(), Failure> {
    let Disable::Plugin(names) = disable;
    names.find()?.into_iter().try_for_each(|plugin| print(&line(plugin)))
}

impl Names {
    fn find(&self) -> Result<Vec<Plugin>, Failure> {
        self.names.iter().map(|name| Plugin::named(name).map_err(Failure::usage)).collect()
    }
}

fn line(plugin: Plugin) -> String {
    let name = plugin.name;
    match plugin.here {
        Here::BuiltIn { what, with: None } => format!("no effect: {name} is always on ({what})\n"),
        Here::BuiltIn { what, with: Some(with) } => {
            format!("no effect: {name} is built in ({what}); it is used with '{with}'\n")
        }
        Here::Missing(why) => format!("no effect: {name} does not exist here; {why}\n"),
    }
}

/// Returns the plugins that a node lists, with their descriptions.
pub(crate) fn of_node(node: &Value) -> Vec<Value> {
    let rows = |field: &str| node[field].as_array().into_iter().flatten();
    let is_plugin = |row: &&Value| rows("enabled_plugins").any(|name| *name == row["name"]);
    rows("applications").filter(is_plugin).cloned().collect()
}
