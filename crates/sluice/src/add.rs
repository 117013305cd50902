//! `sluice add`: users, virtual hosts and members of Raft groups.

use clap::{Args, Subcommand};
use hyper::{Method, StatusCode};
use serde_json::json;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::Api;
use crate::objects::{self, Object};
use crate::output::print;
use crate::password::PasswordFrom;
use crate::quorum;

#[derive(Args, Debug)]
pub struct Add {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A user; the password is asked for, or read from standard input
    User {
        name: String,
        /// Tags, with commas between: administrator, monitoring, policymaker, management, impersonator
        #[arg(long, value_name = "TAGS", value_delimiter = ',')]
        tags: Vec<String>,
        /// Create a user who cannot log in with a password
        #[arg(long, conflicts_with = "password_file")]
        no_password: bool,
        #[command(flatten)]
        password: PasswordFrom,
    },
    /// A virtual host; if it exists, its settings are changed
    Vhost {
        name: String,
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Tags, with commas between
        #[arg(long, value_name = "TAGS", value_delimiter = ',')]
        tags: Option<Vec<String>>,
        /// The type of a queue whose declaration names none: classic, quorum or stream
        #[arg(long, value_name = "TYPE")]
        default_queue_type: Option<String>,
    },
    /// A member of a queue's Raft group on a node
    Member(quorum::Member),
}

/// Carries out the verb, and prints its result.
///
/// # Errors
/// The broker's error, or there is no password.
pub fn run(add: &Add) -> Result<(), Failure> {
    block_on(carry_out(add))
}

async fn carry_out(add: &Add) -> Result<(), Failure> {
    let Add { what, api } = add;
    match what {
        What::User { name, tags, no_password, password } => {
            let mut fields = json!({ "tags": tags });
            if !*no_password {
                fields["password"] = password.read_for(name)?.into();
            }
            let Object { words, path } = objects::user(name);
            let create = format!("create {words}");
            // PUT alone would change a user who exists.
            let (_, users) = api.ask(&create, Method::GET, "/api/users", None).await?;
            if users.as_array().is_some_and(|users| users.iter().any(|user| user["name"] == *name)) {
                return Err(api.failed(&create, "the user exists already"));
            }
            api.ask(&create, Method::PUT, &path, Some(&fields)).await?;
            print(&format!("{words} is created\n"))
        }
        What::Vhost { name, description, tags, default_queue_type } => {
            let mut fields = json!({});
            for (field, value) in [
                ("description", description.as_ref().map(|text| json!(text))),
                ("tags", tags.as_ref().map(|tags| json!(tags))),
                ("default_queue_type", default_queue_type.as_ref().map(|kind| json!(kind))),
            ] {
                value.into_iter().for_each(|value| fields[field] = value);
            }
            let Object { words, path } = objects::vhost(name);
            let (status, _) = api.ask(&format!("add {words}"), Method::PUT, &path, Some(&fields)).await?;
            print(&match status {
                StatusCode::CREATED => format!("{words} is added\n"),
                _ => format!("{words} existed already\n"),
            })
        }
        What::Member(member) => member.add(api).await,
    }
}
