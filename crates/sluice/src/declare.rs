//! `sluice declare` and `sluice purge`: queues, exchanges and bindings.

use clap::{Args, Subcommand};
use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::objects::{self, Object, segment};
use crate::output::{print, warn};
use crate::send::pair;

#[derive(Args, Debug)]
pub(crate) struct Declare {
    #[command(subcommand)]
    what: New,
    #[command(flatten)]
    vhost: Vhost,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum New {
    /// A queue
    #[command(alias = "queues")]
    Queue {
        name: String,
        /// classic, quorum or stream (default: classic)
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Delete the queue when its last consumer detaches
        #[arg(long)]
        auto_delete: bool,
        #[command(flatten)]
        arguments: Arguments,
    },
    /// An exchange
    #[command(alias = "exchanges")]
    Exchange {
        name: String,
        /// direct, fanout, topic, headers, x-consistent-hash, x-modulus-hash, x-random, x-local-random or
        /// x-recent-history
        #[arg(long = "type", value_name = "TYPE", default_value = "direct")]
        kind: String,
        /// Delete the exchange when its last binding is deleted
        #[arg(long)]
        auto_delete: bool,
        /// Accept messages from other exchanges only
        #[arg(long)]
        internal: bool,
        #[command(flatten)]
        arguments: Arguments,
    },
    /// A binding from an exchange to a queue or to another exchange
    #[command(alias = "bindings")]
    Binding(BindingArgs),
}

#[derive(Args, Debug)]
pub(crate) struct Purge {
    #[command(subcommand)]
    what: Purged,
    #[command(flatten)]
    vhost: Vhost,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum Purged {
    /// A queue: delete its ready messages; those that consumers have are left
    #[command(alias = "queues")]
    Queue { name: String },
}

#[derive(Args, Debug)]
struct Arguments {
    /// An argument such as x-max-length=1000; the value is JSON, or a string if it is not valid JSON; may be
    /// repeated
    #[arg(long = "argument", value_name = "KEY=VALUE", value_parser = pair)]
    arguments: Vec<(String, String)>,
}

#[derive(Args, Debug)]
pub(crate) struct BindingArgs {
    /// The exchange whose messages are routed
    source: String,
    /// The queue, or with --to-exchange the exchange, that receives them
    destination: String,
    /// The binding key
    #[arg(long, value_name = "KEY", default_value = "")]
    key: String,
    /// The destination is an exchange
    #[arg(long)]
    to_exchange: bool,
    #[command(flatten)]
    arguments: Arguments,
}

/// Declares, and prints one line.
///
/// # Errors
/// The broker's error, for example that the object exists with other properties.
pub(crate) fn declare(declare: &Declare) -> Result<(), Failure> {
    let vhost = &declare.vhost.vhost;
    let (Object { words, path }, method, body) = match &declare.what {
        New::Queue { name, kind, auto_delete, arguments } => {
            let mut arguments = arguments.object()?;
            if let Some(kind) = kind {
                arguments.insert("x-queue-type".to_owned(), kind.as_str().into());
            }
            let body = json!({ "durable": true, "auto_delete": auto_delete, "arguments": arguments });
            (objects::queue(vhost, name), Method::PUT, body)
        }
        New::Exchange { name, kind, auto_delete, internal, arguments } => {
            let arguments = arguments.object()?;
            let body = json!({ "type": kind, "durable": true, "auto_delete": auto_delete, "internal": internal,
                               "arguments": arguments });
            (objects::exchange(vhost, name), Method::PUT, body)
        }
        New::Binding(binding) => {
            let body = json!({ "routing_key": binding.key, "arguments": binding.arguments.object()? });
            (Object { words: binding.words(), path: binding.path(vhost) }, Method::POST, body)
        }
    };
    crate::amqp::block_on(async {
        let what = format!("declare {words}");
        let (status, _) = declare.api.ask(&what, method, &path, Some(&body)).await?;
        say(&match status {
            StatusCode::CREATED => format!("{words} is declared"),
            _ => format!("{words} already exists"),
        })?;
        declare.warn_of_arguments(&words, &path).await;
        Ok(())
    })
}

/// The names of arguments that are meant for the broker begin so. Others are notes.
const FOR_THE_BROKER: &str = "x-";

impl Declare {
    /// Writes a warning for each argument that has no effect. Only the broker knows them. If it does not tell, nothing is written: the
    /// object is declared.
    async fn warn_of_arguments(&self, words: &str, path: &str) {
        let (New::Queue { arguments, .. } | New::Exchange { arguments, .. }) = &self.what else { return };
        if !arguments.arguments.iter().any(|(name, _)| name.starts_with(FOR_THE_BROKER)) {
            return;
        }
        let path = format!("{path}?disable_stats=true&columns=unknown_arguments");
        let Ok((_, shown)) = self.api.ask("look", Method::GET, &path, None).await else { return };
        for (name, meant) in shown["unknown_arguments"].as_object().into_iter().flatten() {
            let meant = meant.as_str().map(|meant| format!("; did you mean '{}'?", escape::line(meant)));
            let (name, meant) = (escape::line(name), meant.unwrap_or_default());
            warn(&format!("argument '{name}' of {words} is unknown and has no effect{meant}"));
        }
    }
}

/// Purges, and prints one line.
///
/// # Errors
/// The broker's error, for example that there is no such queue.
pub(crate) fn purge(purge: &Purge) -> Result<(), Failure> {
    let Purged::Queue { name } = &purge.what;
    let Object { words, path } = objects::queue(&purge.vhost.vhost, name);
    crate::amqp::block_on(async {
        let contents = format!("{path}/contents");
        purge.api.ask(&format!("purge {words}"), Method::DELETE, &contents, None).await?;
        say(&format!("{words} is purged"))
    })
}

impl Arguments {
    fn object(&self) -> Result<Map<String, Value>, Failure> {
        fields(self.arguments.iter().map(|(key, text)| (key.clone(), value(text))))
    }
}

impl BindingArgs {
    /// Names the binding in messages.
    pub(crate) fn words(&self) -> String {
        let kind = if self.to_exchange { "exchange" } else { "queue" };
        let Self { source, destination, key, .. } = self;
        format!("binding from exchange '{source}' to {kind} '{destination}' with key '{key}'")
    }

    /// Returns the path of the bindings between the two ends.
    pub(crate) fn path(&self, vhost: &str) -> String {
        let kind = if self.to_exchange { 'e' } else { 'q' };
        let [vhost, source, destination] = [vhost, &self.source, &self.destination].map(segment);
        format!("/api/bindings/{vhost}/e/{source}/{kind}/{destination}")
    }

    /// Returns the row of this binding in a list of bindings.
    ///
    /// # Errors
    /// An argument is given twice.
    pub(crate) fn find<'a>(&self, rows: &'a [Value]) -> Result<Option<&'a Value>, Failure> {
        let arguments = Value::Object(self.arguments.object()?);
        let is_this = |row: &&Value| row["routing_key"] == self.key.as_str() && row["arguments"] == arguments;
        Ok(rows.iter().find(is_this))
    }
}

/// Returns the object with these fields.
///
/// # Errors
/// A key is given twice: nobody could say which value counts.
pub(crate) fn fields(pairs: impl Iterator<Item = (String, Value)>) -> Result<Map<String, Value>, Failure> {
    let mut fields = Map::new();
    for (key, value) in pairs {
        if let Some(before) = fields.insert(key.clone(), value) {
            return Err(Failure::usage(format!("'{key}' is given twice: one value is {before}")));
        }
    }
    Ok(fields)
}

/// Returns the value of an argument: JSON, or a string if it is not valid JSON.
pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn say(line: &str) -> Result<(), Failure> {
    print(&format!("{line}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_or_text() {
        let arguments = ["a=10", "b=classic", "c=\"10\"", "d=true", "e="].iter().map(|a| pair(a).unwrap());
        let object = Arguments { arguments: arguments.collect() }.object().unwrap();
        let expected = r#"{"a":10,"b":"classic","c":"10","d":true,"e":""}"#;
        assert_eq!(Value::Object(object).to_string(), expected);
        let twice = ["max-length=1", "max-length=2"].iter().map(|a| pair(a).unwrap()).collect();
        let refused = Arguments { arguments: twice }.object().unwrap_err();
        assert_eq!(refused.line, "'max-length' is given twice: one value is 1");
    }
}
