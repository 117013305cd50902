//! `sluice policy`: sets, lists and clears policies.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Map as Object, Value, json};

use crate::declare::segment;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::output::print;
use crate::table::{Column, print_list};

#[derive(Args, Debug)]
pub struct Policy {
    #[command(subcommand)]
    what: What,
    /// Operator policies, which only administrators may set, and which limit the other ones
    #[arg(long, global = true)]
    operator: bool,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// The aliases are the names of `rabbitmqctl`.
#[derive(Debug, Subcommand)]
enum What {
    /// Set a policy, or replace it
    #[command(alias = "set_policy")]
    Set {
        name: String,
        /// A regular expression for the names of the queues or exchanges
        pattern: String,
        /// What it sets, as a JSON object: {"max-length": 1000}
        #[arg(value_parser = definition)]
        definition: Object<String, Value>,
        /// all, queues, classic_queues, quorum_queues, streams or exchanges
        #[arg(long, value_name = "WHAT", default_value = "all")]
        apply_to: String,
        /// Of all policies that match, the one with the highest priority applies
        #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
        priority: i32,
    },
    /// Remove a policy
    #[command(alias = "clear_policy")]
    Clear { name: String },
    /// List the policies in the virtual host
    #[command(alias = "list_policies")]
    List,
}

const POLICIES: &[Column] = &[
    ("NAME", "name"),
    ("PATTERN", "pattern"),
    ("APPLY TO", "apply-to"),
    ("PRIORITY", "priority"),
    ("DEFINITION", "definition"),
];

/// Carries out the verb, and prints its result.
///
/// # Errors
/// The broker's error, for example that a key is unknown or the user may not set policies.
pub fn run(policy: &Policy) -> Result<(), Failure> {
    let Policy { what, operator, vhost, json, api } = policy;
    let vhost = &vhost.vhost;
    let (kind, route) = match operator {
        true => ("operator policy", "operator-policies"),
        false => ("policy", "policies"),
    };
    let all = format!("/api/{route}/{}", segment(vhost));
    let one = |name: &str| format!("{all}/{}", segment(name));
    crate::amqp::block_on(async {
        match what {
            What::Set { name, pattern, definition, apply_to, priority } => {
                let fields = json!({
                    "pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": priority,
                });
                let words = format!("set {kind} '{name}'");
                api.ask(&words, Method::PUT, &one(name), Some(&fields)).await?;
                print(&format!("{kind} '{name}' is set\n"))
            }
            What::Clear { name } => {
                api.ask(&format!("clear {kind} '{name}'"), Method::DELETE, &one(name), None).await?;
                print(&format!("{kind} '{name}' is cleared\n"))
            }
            What::List => {
                let words = format!("list the {route} in vhost '{vhost}'");
                print_list(api, &words, &all, POLICIES, *json).await
            }
        }
    })
}

fn definition(text: &str) -> Result<Object<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|_| r#"a JSON object is needed, such as {"max-length": 1000}"#.to_owned())
}
