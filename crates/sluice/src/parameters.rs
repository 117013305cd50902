//! `sluice parameter`: sets, lists and clears runtime parameters, which are named values of components.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::amqp::block_on;
use crate::declare::segment;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::output::print;
use crate::table::{Column, list, list_text, print_list};

#[derive(Args, Debug)]
pub struct Parameter {
    #[command(subcommand)]
    what: What,
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
    /// Set a parameter of a component in the virtual host, or replace it
    #[command(alias = "set_parameter")]
    Set {
        component: String,
        name: String,
        /// The value, as JSON: 7, "text", {"key": "value"}
        #[arg(value_parser = parse_value, allow_negative_numbers = true)]
        value: Value,
    },
    /// Remove a parameter
    #[command(alias = "clear_parameter")]
    Clear { component: String, name: String },
    /// List the parameters in the virtual host
    #[command(alias = "list_parameters")]
    List {
        /// List only the parameters of this component
        #[arg(long, value_name = "NAME")]
        component: Option<String>,
    },
    /// Set a parameter of the whole cluster, or replace it
    #[command(alias = "set_global_parameter")]
    SetGlobal {
        name: String,
        /// The value, as JSON
        #[arg(value_parser = parse_value, allow_negative_numbers = true)]
        value: Value,
    },
    /// Remove a parameter of the whole cluster
    #[command(alias = "clear_global_parameter")]
    ClearGlobal { name: String },
    /// List the parameters of the whole cluster
    #[command(alias = "list_global_parameters")]
    ListGlobal,
}

const PARAMETERS: &[Column] = &[("COMPONENT", "component"), ("NAME", "name"), ("VALUE", "value")];
const GLOBAL_PARAMETERS: &[Column] = &[("NAME", "name"), ("VALUE", "value")];

/// Carries out the verb, and prints its result.
///
/// # Errors
/// The broker's error, for example that there is no such parameter.
pub fn run(parameter: &Parameter) -> Result<(), Failure> {
    block_on(carry_out(parameter))
}

async fn carry_out(parameter: &Parameter) -> Result<(), Failure> {
    let Parameter { what, vhost, json, api } = parameter;
    let vhost = &vhost.vhost;
    match what {
        What::Set { component, name, value } => {
            set(api, &words(component, name, vhost), &path(component, vhost, name), value).await
        }
        What::SetGlobal { name, value } => set(api, &global_words(name), &global_path(name), value).await,
        What::Clear { component, name } => {
            clear(api, &words(component, name, vhost), &path(component, vhost, name)).await
        }
        What::ClearGlobal { name } => clear(api, &global_words(name), &global_path(name)).await,
        What::List { component } => {
            let words = format!("list the parameters in vhost '{vhost}'");
            if let Some(component) = component {
                let path = format!("/api/parameters/{}/{}", segment(component), segment(vhost));
                return print_list(api, &words, &path, PARAMETERS, *json).await;
            }
            // No route lists the parameters of all components in one virtual host.
            let mut rows = list(api, &words, "/api/parameters").await?;
            rows.retain(|row| row["vhost"] == vhost.as_str());
            print(&list_text(rows, PARAMETERS, *json))
        }
        What::ListGlobal => {
            let words = "list the global parameters";
            print_list(api, words, "/api/global-parameters", GLOBAL_PARAMETERS, *json).await
        }
    }
}

async fn set(api: &Api, parameter: &str, path: &str, value: &Value) -> Result<(), Failure> {
    api.ask(&format!("set {parameter}"), Method::PUT, path, Some(&json!({ "value": value }))).await?;
    print(&format!("{parameter} is set\n"))
}

async fn clear(api: &Api, parameter: &str, path: &str) -> Result<(), Failure> {
    api.ask(&format!("clear {parameter}"), Method::DELETE, path, None).await?;
    print(&format!("{parameter} is cleared\n"))
}

/// Returns the words for a parameter of a virtual host.
pub fn words(component: &str, name: &str, vhost: &str) -> String {
    format!("parameter '{name}' of component '{component}' in vhost '{vhost}'")
}

/// Returns the words for a global parameter.
pub fn global_words(name: &str) -> String {
    format!("global parameter '{name}'")
}

/// Returns the path of a parameter of a virtual host.
pub fn path(component: &str, vhost: &str, name: &str) -> String {
    format!("/api/parameters/{}/{}/{}", segment(component), segment(vhost), segment(name))
}

/// Returns the path of a global parameter.
pub fn global_path(name: &str) -> String {
    format!("/api/global-parameters/{}", segment(name))
}

fn parse_value(text: &str) -> Result<Value, String> {
    let needed = "JSON is needed: a text has quotation marks, such as '\"text\"'";
    serde_json::from_str(text).map_err(|_| needed.to_owned())
}
