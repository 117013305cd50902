//! `sluice show`: shows everything that the management API says about one object.

use clap::{Args, Subcommand};
use hyper::Method;

use crate::amqp::block_on;
use crate::declare::{exchange, queue, segment};
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::parameters;
use crate::table::fields;
use crate::watch::Watch;

#[derive(Args, Debug)]
pub struct Show {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The totals and rates of the cluster, and its listeners
    Overview,
    /// The user who asks, and the tags that the user has
    Whoami,
    /// The version of the broker
    Version,
    /// What the memory of the node is used for, in bytes
    Memory {
        /// In percent of the memory that the node uses
        #[arg(long)]
        percent: bool,
    },
    /// A queue or stream
    Queue { name: String },
    /// An exchange
    Exchange { name: String },
    /// A connection, by the name that `sluice list connections` shows
    Connection { name: String },
    /// A channel, by the name that `sluice list channels` shows
    Channel { name: String },
    /// A policy
    Policy {
        name: String,
        /// An operator policy
        #[arg(long)]
        operator: bool,
    },
    /// A parameter of a component in a virtual host
    Parameter { component: String, name: String },
    /// A parameter of the whole cluster
    GlobalParameter { name: String },
    /// A virtual host
    Vhost { name: String },
    /// A user
    User { name: String },
}

/// Prints the object, one field per line.
///
/// # Errors
/// The broker's error, for example that there is no such object.
pub fn run(show: &Show) -> Result<(), Failure> {
    let Show { what, vhost, api, .. } = show;
    let (object, path) = what.object(&vhost.vhost);
    let words = format!("show {object}");
    let make = async || {
        let path = match &path {
            Some(path) => path.clone(),
            None => {
                let relative = if matches!(what, What::Memory { percent: true }) { "/relative" } else { "" };
                format!("/api/nodes/{}/memory{relative}", segment(&api.node(&words).await?))
            }
        };
        let (_, answer) = api.ask(&words, Method::GET, &path, None).await?;
        Ok(if show.json { format!("{answer:#}\n") } else { fields(&answer) })
    };
    block_on(show.watch.print(make))
}

impl What {
    /// Returns the words for the object, and its path. `None` is the path of the memory, which contains the name of the node.
    fn object(&self, vhost: &str) -> (String, Option<String>) {
        let in_vhost = |list: &str, name: &str| format!("/api/{list}/{}/{}", segment(vhost), segment(name));
        let (words, path) = match self {
            Self::Overview => ("the overview".to_owned(), "/api/overview".to_owned()),
            Self::Whoami => ("who asks".to_owned(), "/api/whoami".to_owned()),
            Self::Version => ("the version".to_owned(), "/api/version".to_owned()),
            Self::Memory { .. } => return ("the memory".to_owned(), None),
            Self::Queue { name } => (format!("queue '{name}'"), queue(vhost, name)),
            Self::Exchange { name } => (format!("exchange '{name}'"), exchange(vhost, name)),
            Self::Connection { name } => {
                (format!("connection '{name}'"), format!("/api/connections/{}", segment(name)))
            }
            Self::Channel { name } => {
                (format!("channel '{name}'"), format!("/api/channels/{}", segment(name)))
            }
            Self::Policy { name, operator: false } => {
                (format!("policy '{name}'"), in_vhost("policies", name))
            }
            Self::Policy { name, operator: true } => {
                (format!("operator policy '{name}'"), in_vhost("operator-policies", name))
            }
            Self::Parameter { component, name } => {
                (parameters::words(component, name, vhost), parameters::path(component, vhost, name))
            }
            Self::GlobalParameter { name } => (parameters::global_words(name), parameters::global_path(name)),
            Self::Vhost { name } => (format!("vhost '{name}'"), format!("/api/vhosts/{}", segment(name))),
            Self::User { name } => (format!("user '{name}'"), format!("/api/users/{}", segment(name))),
        };
        (words, Some(path))
    }
}
