//! `sluice set`: changes a property of an object, or creates an object that has only a value.

use catalog::DEFAULT_VHOST;
use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Map as Fields, Value, json};

use crate::amqp::block_on;
use crate::declare;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::node_settings::{self, Lines, NodeLimit};
use crate::objects::{self, Object};
use crate::output::print;
use crate::password::PasswordFrom;
use crate::send;
use crate::tags;

#[derive(Args, Debug)]
pub(crate) struct Set {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The password of a user; it is asked for, or read from standard input
    Password {
        user: String,
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// All tags of a user; without tags, the user has none
    Tags { user: String, tags: Vec<String> },
    /// What a user may configure, write and read: regular expressions, `.*` for all names, "" for none
    Permission {
        user: String,
        configure: String,
        write: String,
        read: String,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// The routing keys that a user may publish with and bind with at a topic exchange
    TopicPermission {
        user: String,
        exchange: String,
        write: String,
        read: String,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// max-connections or max-queues of the virtual host, max-connections or max-channels of a user, or memory or disk of the node
    #[command(after_help = NODE_LIMITS)]
    Limit {
        limit: String,
        #[arg(value_parser = limit_value)]
        value: String,
        /// The user, instead of the virtual host, that is limited
        #[arg(long, value_name = "NAME", conflicts_with = "vhost")]
        user: Option<String>,
        /// The virtual host, if it is not `/`
        #[arg(long, short = 'p', value_name = "NAME")]
        vhost: Option<String>,
    },
    /// A policy, which configures queues or exchanges by their names; one with this name is replaced
    Policy {
        name: String,
        /// A regular expression for the names of the queues or exchanges
        pattern: String,
        /// What it sets: max-length=1000, with several such arguments, or as a JSON object, {"max-length": 1000}
        #[arg(required = true, value_parser = definition_part)]
        definition: Vec<String>,
        /// all, queues, classic_queues, quorum_queues, streams or exchanges
        #[arg(long, value_name = "WHAT", default_value = "all")]
        apply_to: String,
        /// Of all policies that match, the one with the highest priority applies
        #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
        priority: i32,
        /// An operator policy, which only administrators may set, and which limits the other ones
        #[arg(long)]
        operator: bool,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// A parameter of a component in the virtual host; one with this name is replaced
    Parameter {
        component: String,
        name: String,
        /// The value, as JSON: 7, "text", {"key": "value"}
        #[arg(value_parser = value, allow_negative_numbers = true)]
        value: Value,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// A parameter of the whole cluster; one with this name is replaced
    GlobalParameter {
        name: String,
        /// The value, as JSON
        #[arg(value_parser = value, allow_negative_numbers = true)]
        value: Value,
    },
    /// The name of the cluster
    ClusterName { name: String },
    /// The lowest level that is logged, until the broker stops: trace, debug, info, warning, error, critical or none
    LogLevel {
        level: String,
        #[command(flatten)]
        lines: Lines,
    },
}

const NODE_LIMITS: &str = "\
Limits of the node count until the broker stops:
  memory  publishers are stopped when the broker uses more than this
  disk    publishers are stopped when the data directory has less free space than this
Their values are sizes (4GiB, 500MB), or parts of the memory with a decimal point (0.6).";

/// Carries out the verb, and prints its result.
///
/// # Errors
/// The broker's error, for example that a key of a policy is unknown, or there is no password.
pub(crate) fn run(set: &Set) -> Result<(), Failure> {
    block_on(carry_out(set))
}

async fn carry_out(set: &Set) -> Result<(), Failure> {
    let Set { what, api } = set;
    let send = async |method: Method, words: &str, path: &str, body: Value, done: &str| {
        api.ask(words, method, path, Some(&body)).await?;
        print(&format!("{done}\n"))
    };
    let put = async |words: &str, path: &str, body: Value, done: &str| {
        send(Method::PUT, words, path, body, done).await
    };
    // What the body of a POST does not name stays as it is.
    let post = async |words: &str, path: &str, body: Value, done: &str| {
        send(Method::POST, words, path, body, done).await
    };
    match what {
        What::Password { user, password } => {
            let password = password.read_for(user)?;
            let of = format!("the password of user '{user}'");
            let path = objects::user(user).path;
            let body = json!({ "password": password });
            post(&format!("change {of}"), &path, body, &format!("{of} is changed")).await
        }
        What::Tags { user, tags } => {
            let of = format!("the tags of user '{user}'");
            let path = objects::user(user).path;
            post(&format!("set {of}"), &path, json!({ "tags": tags }), &format!("{of} are set")).await?;
            tags::warn_of_unknown(tags);
            Ok(())
        }
        What::Permission { user, configure, write, read, vhost } => {
            let Object { words, path } = objects::permission(user, &vhost.vhost);
            let body = json!({ "configure": configure, "write": write, "read": read });
            put(&format!("set {words}"), &path, body, "the permissions are set").await
        }
        What::TopicPermission { user, exchange, write, read, vhost } => {
            let Object { words, path } = objects::topic_permission(user, &vhost.vhost, None);
            let body = json!({ "exchange": exchange, "write": write, "read": read });
            put(&format!("set {words}"), &path, body, "the topic permissions are set").await
        }
        What::Limit { limit, value, user, vhost } => {
            if let Some(limit) = NodeLimit::named(limit, user.as_deref(), vhost.as_deref())? {
                return node_settings::set_limit(api, limit, value).await;
            }
            let value: u32 = value.parse().map_err(|_| {
                Failure::usage(format!("'{value}' cannot be the value of {limit}: a whole number is needed"))
            })?;
            let Object { words, path } =
                objects::limit(limit, user.as_deref(), vhost.as_deref().unwrap_or(DEFAULT_VHOST));
            let done = format!("{limit} of {words} is {value}");
            put(&format!("limit {words}"), &path, json!({ "value": value }), &done).await
        }
        What::Policy { name, pattern, definition, apply_to, priority, operator, vhost } => {
            let Object { words, path } = objects::policy(name, &vhost.vhost, *operator);
            let definition = self::definition(definition)?;
            let body = json!({
                "pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": priority,
            });
            put(&format!("set {words}"), &path, body, &format!("{words} is set")).await
        }
        What::Parameter { component, name, value, vhost } => {
            let Object { words, path } = objects::parameter(component, name, &vhost.vhost);
            put(&format!("set {words}"), &path, json!({ "value": value }), &format!("{words} is set")).await
        }
        What::GlobalParameter { name, value } => {
            let Object { words, path } = objects::global_parameter(name);
            put(&format!("set {words}"), &path, json!({ "value": value }), &format!("{words} is set")).await
        }
        What::ClusterName { name } => {
            let done = format!("the name of the cluster is '{name}'");
            put("name the cluster", objects::CLUSTER_NAME, json!({ "name": name }), &done).await
        }
        What::LogLevel { level, lines } => node_settings::set_level(api, level, lines).await,
    }
}

/// Checks an argument of a definition: KEY=VALUE, or a JSON object, which must be the only argument.
fn definition_part(text: &str) -> Result<String, String> {
    match object(text).is_some() || pair(text).is_some() {
        true => Ok(text.to_owned()),
        false => Err(DEFINITION.to_owned()),
    }
}

/// Reads the definition of a policy: one JSON object, or pairs as lists print them.
fn definition(texts: &[String]) -> Result<Fields<String, Value>, Failure> {
    if let [text] = texts
        && let Some(fields) = object(text)
    {
        return Ok(fields);
    }
    let wrong = |text: &str| {
        Failure::usage(format!("'{text}' is not the only argument of the definition: {DEFINITION}"))
    };
    texts.iter().map(|text| pair(text).ok_or_else(|| wrong(text))).collect()
}

const DEFINITION: &str = r#"KEY=VALUE is needed, such as max-length=1000, once or several times, or one JSON object, such as {"max-length": 1000}"#;

fn object(text: &str) -> Option<Fields<String, Value>> {
    serde_json::from_str(text).ok()
}

/// Returns a key and its value. `None` for what is no pair, such as an object.
fn pair(text: &str) -> Option<(String, Value)> {
    let (key, text) = send::pair(text).ok().filter(|(key, _)| !key.starts_with('{'))?;
    Some((key, declare::value(&text)))
}

/// Checks what the values of all limits have in common.
fn limit_value(text: &str) -> Result<String, String> {
    match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err("a whole number is needed, or for memory and disk a size such as 2GB".to_owned()),
    }
}

fn value(text: &str) -> Result<Value, String> {
    let needed = "JSON is needed: a text has quotation marks, such as '\"text\"'";
    serde_json::from_str(text).map_err(|_| needed.to_owned())
}
