//! `sluice show`: shows everything that is known about one object.

mod cluster;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::amqp::block_on;
use crate::configuration::{self, ShowConfig};
use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::node_settings;
use crate::objects::{self, Object, segment};
use crate::table::{cell, fields};
use crate::watch::Watch;

#[derive(Debug, Subcommand)]
pub(crate) enum Show {
    /// The totals and rates of the cluster, and its listeners
    Overview(Options),
    /// The nodes of the cluster, as this node sees them: which are in sight, who decides about definitions, and what is wrong
    Cluster(Options),
    /// The name of the cluster
    ClusterName(Options),
    /// The version of the broker, and that of RabbitMQ to which its answers correspond
    Version(Options),
    /// The user who asks, and the tags that the user has
    Whoami(Options),
    /// What the memory of the node is used for, in bytes
    Memory {
        /// In percent of the memory that the node uses
        #[arg(long)]
        percent: bool,
        #[command(flatten)]
        options: Options,
    },
    /// A queue or stream
    Queue(InVhost),
    /// An exchange
    Exchange(InVhost),
    /// A connection, by the name that `sluice list connections` shows
    Connection(Named),
    /// A channel, by the name that `sluice list channels` shows
    Channel(Named),
    /// A virtual host
    Vhost(Named),
    /// A user
    User(Named),
    /// A policy
    Policy {
        #[command(flatten)]
        policy: InVhost,
        /// An operator policy
        #[arg(long)]
        operator: bool,
    },
    /// A parameter of a component in a virtual host
    Parameter {
        component: String,
        #[command(flatten)]
        parameter: InVhost,
    },
    /// A parameter of the whole cluster
    GlobalParameter(Named),
    /// The levels of the log that are in force, and where they are set
    LogLevel(Options),
    /// The settings with which the broker would start: each key, its value and its place; hides secrets, and needs no broker without --running
    Config(ShowConfig),
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    name: String,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub(crate) struct InVhost {
    name: String,
    #[command(flatten)]
    vhost: Vhost,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    api: Api,
}

/// Prints the object, one field per line.
///
/// # Errors
/// The broker's error, for example that there is no such object.
pub(crate) fn run(show: &Show) -> Result<(), Failure> {
    let (object, options) = match show {
        Show::Config(config) => return configuration::show(config),
        Show::Overview(options) => (fixed("the overview", "/api/overview"), options),
        Show::ClusterName(options) => (fixed("the name of the cluster", objects::CLUSTER_NAME), options),
        Show::Cluster(options) => return cluster::show(options),
        Show::Version(options) => return version(options),
        Show::Whoami(options) => (fixed("who asks", "/api/whoami"), options),
        Show::LogLevel(options) => return log_level(options),
        Show::Memory { percent, options } => return memory(*percent, options),
        Show::Queue(of) => (objects::queue(&of.vhost.vhost, &of.name), &of.options),
        Show::Exchange(of) => (objects::exchange(&of.vhost.vhost, &of.name), &of.options),
        Show::Connection(of) => (objects::connection(&of.name), &of.options),
        Show::Channel(of) => (objects::channel(&of.name), &of.options),
        Show::Vhost(of) => (objects::vhost(&of.name), &of.options),
        Show::User(of) => (objects::user(&of.name), &of.options),
        Show::Policy { policy: of, operator } => {
            (objects::policy(&of.name, &of.vhost.vhost, *operator), &of.options)
        }
        Show::Parameter { component, parameter: of } => {
            (objects::parameter(component, &of.name, &of.vhost.vhost), &of.options)
        }
        Show::GlobalParameter(of) => (objects::global_parameter(&of.name), &of.options),
    };
    let words = format!("show {}", object.words);
    let render = match show {
        Show::ClusterName(_) => |answer: &Value| format!("{}\n", cell(&answer["name"])),
        _ => fields,
    };
    block_on(options.watch.print(async || options.answer(&words, &object.path, render).await))
}

fn log_level(options: &Options) -> Result<(), Failure> {
    block_on(options.watch.print(async || {
        let levels = node_settings::levels(&options.api).await?;
        Ok(if options.json {
            escape::json(&Value::from(levels))
        } else {
            node_settings::level_table(&levels)
        })
    }))
}

fn version(options: &Options) -> Result<(), Failure> {
    block_on(options.watch.print(async || {
        let words = "show the version";
        let (_, rabbitmq) = options.api.ask(words, Method::GET, "/api/version", None).await?;
        let (_, overview) = options.api.ask(words, Method::GET, "/api/overview", None).await?;
        let versions = json!({ "sluice_version": overview["sluice_version"], "rabbitmq_version": rabbitmq });
        Ok(if options.json { escape::json(&versions) } else { fields(&versions) })
    }))
}

fn memory(percent: bool, options: &Options) -> Result<(), Failure> {
    let words = "show the memory";
    let relative = if percent { "/relative" } else { "" };
    block_on(options.watch.print(async || {
        let node = options.api.node(words).await?;
        // The parts of RabbitMQ beside them are for programs: many of them are always 0.
        let budgets = |answer: &Value| fields(&answer["budgets"]);
        options.answer(words, &format!("/api/nodes/{}/memory{relative}", segment(&node)), budgets).await
    }))
}

impl Options {
    /// Asks for an object, and renders it: as JSON, or as `render` does.
    async fn answer(&self, words: &str, path: &str, render: fn(&Value) -> String) -> Result<String, Failure> {
        let (_, answer) = self.api.ask(words, Method::GET, path, None).await?;
        Ok(if self.json { escape::json(&answer) } else { render(&answer) })
    }
}

fn fixed(words: &str, path: &str) -> Object {
    Object { words: words.to_owned(), path: path.to_owned() }
}
