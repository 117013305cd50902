//! `sluice clear`: removes what `sluice set` has set.

use catalog::DEFAULT_VHOST;
use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::json;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::node_settings::{Lines, NodeLimit};
use crate::objects::{self, Object};
use crate::output::print;

#[derive(Args, Debug)]
pub(crate) struct Clear {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The password of a user, who then cannot log in with one; open connections stay
    Password { user: String },
    /// The permissions of a user; the user's connections in the virtual host are closed
    Permission {
        user: String,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// The topic permissions of a user, for one exchange or for all
    TopicPermission {
        user: String,
        exchange: Option<String>,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// A limit of the virtual host or of a user, or memory or disk of the node, which then is as in the configuration
    Limit {
        limit: String,
        /// The user, instead of the virtual host, that is limited
        #[arg(long, value_name = "NAME", conflicts_with = "vhost")]
        user: Option<String>,
        /// The virtual host, if it is not `/`
        #[arg(long, short = 'p', value_name = "NAME")]
        vhost: Option<String>,
    },
    /// A policy
    Policy {
        name: String,
        /// An operator policy
        #[arg(long)]
        operator: bool,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// A parameter of a component in the virtual host
    Parameter {
        component: String,
        name: String,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// A parameter of the whole cluster
    GlobalParameter { name: String },
    /// A level of the log, which then is as in the configuration
    LogLevel(Lines),
}

/// Removes it, and prints one line.
///
/// # Errors
/// The broker's error, for example that there is no such parameter.
pub(crate) fn run(clear: &Clear) -> Result<(), Failure> {
    let (object, words, done) = clear.what.parts()?;
    block_on(async {
        // An empty hash is that of a user without a password.
        let empty = json!({ "password_hash": "" });
        let (method, body) = match &clear.what {
            What::Password { .. } => (Method::POST, Some(&empty)),
            _ => (Method::DELETE, None),
        };
        clear.api.ask(&words, method, &object.path, body).await?;
        print(&format!("{done}\n"))
    })
}

impl What {
    /// Returns the object, the words for the operation in errors, and the line that says that it is done.
    ///
    /// # Errors
    /// A usage failure if a limit of the node is to be cleared of something else.
    fn parts(&self) -> Result<(Object, String, String), Failure> {
        let named = |object: Object| {
            let (words, done) = (format!("clear {}", object.words), format!("{} is cleared", object.words));
            (object, words, done)
        };
        let setting = |key: String| {
            let (words, done) = (format!("clear {key}"), format!("{key} is as in the configuration again"));
            (objects::setting(&key), words, done)
        };
        Ok(match self {
            Self::LogLevel(lines) => setting(lines.key()),
            Self::Password { user } => {
                let object = objects::user(user);
                let of = format!("the password of {}", object.words);
                (object, format!("clear {of}"), format!("{of} is cleared"))
            }
            Self::Permission { user, vhost } => {
                let object = objects::permission(user, &vhost.vhost);
                let words = format!("clear {}", object.words);
                (object, words, "the permissions are cleared".to_owned())
            }
            Self::TopicPermission { user, exchange, vhost } => {
                let object = objects::topic_permission(user, &vhost.vhost, exchange.as_deref());
                let words = format!("clear {}", object.words);
                (object, words, "the topic permissions are cleared".to_owned())
            }
            Self::Limit { limit, user, vhost } => {
                if let Some(limit) = NodeLimit::named(limit, user.as_deref(), vhost.as_deref())? {
                    return Ok(setting(limit.key_to_clear()));
                }
                let object =
                    objects::limit(limit, user.as_deref(), vhost.as_deref().unwrap_or(DEFAULT_VHOST));
                let (words, done) = (
                    format!("clear a limit of {}", object.words),
                    format!("{limit} of {} is cleared", object.words),
                );
                (object, words, done)
            }
            Self::Policy { name, operator, vhost } => named(objects::policy(name, &vhost.vhost, *operator)),
            Self::Parameter { component, name, vhost } => {
                named(objects::parameter(component, name, &vhost.vhost))
            }
            Self::GlobalParameter { name } => named(objects::global_parameter(name)),
        })
    }
}
