//! `sluice add`: users, virtual hosts and members of Raft groups.

use std::path::{Path, PathBuf};

use amqp10::sasl::Secret;
use catalog::access::Hashing;
use clap::{Args, Subcommand};
use hyper::header::IF_NONE_MATCH;
use hyper::{Method, StatusCode};
use serde_json::json;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::objects::{self, Object};
use crate::output::print;
use crate::password::PasswordFrom;
use crate::{quorum, tags};

#[derive(Args, Debug)]
pub(crate) struct Add {
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
        /// Add the user to the data directory of a stopped broker, when nobody can log in
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
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
pub(crate) fn run(add: &Add) -> Result<(), Failure> {
    block_on(carry_out(add))
}

async fn carry_out(add: &Add) -> Result<(), Failure> {
    let Add { what, api } = add;
    match what {
        What::User { name, tags, no_password, password, data_dir: Some(data_dir) } => {
            let password = if *no_password { None } else { Some(password.read_for(name)?) };
            add_offline(data_dir, name, password, tags)?;
            tags::warn_of_unknown(tags);
            Ok(())
        }
        What::User { name, tags, no_password, password, data_dir: None } => {
            let mut fields = json!({ "tags": tags });
            if !*no_password {
                fields["password"] = password.read_for(name)?.into();
            }
            let Object { words, path } = objects::user(name);
            let create = format!("create {words}");
            // Without the condition, a user who exists would be changed.
            let headers = &[(IF_NONE_MATCH, "*")];
            api.send(Ask { headers, ..Ask::new(&create, Method::PUT, &path).with(Some(&fields)) }).await?;
            print(&created(&words, tags))?;
            tags::warn_of_unknown(tags);
            Ok(())
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

/// Adds a user to the data directory of a stopped broker. The hash of the password is of the default algorithm.
fn add_offline(
    data_dir: &Path,
    name: &str,
    password: Option<String>,
    tags: &[String],
) -> Result<(), Failure> {
    let Object { words, .. } = objects::user(name);
    let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("cannot create {words}: {why}"));
    if !data_dir.join("lock").is_file() {
        return Err(Failure::usage(format!("{} is not the data directory of a broker", data_dir.display())));
    }
    let hashing = Hashing::default();
    let hash = match password {
        Some(password) => {
            let salt = node::random().map_err(|error| failed(&error))?;
            hashing.hash(salt, &Secret::new(password))
        }
        None => hashing.of_nobody(),
    };
    node::offline::add_user(data_dir, name.into(), hash, tags.into()).map_err(|error| failed(&error))?;
    print(&created(&words, tags))
}

/// Says that a user exists, and what a user without tags lacks.
fn created(words: &str, tags: &[String]) -> String {
    let lacks = match tags.is_empty() {
        true => {
            "it has no tags for the management API (`sluice set tags`) and no permissions (`sluice set permission`)\n"
        }
        false => "",
    };
    format!("{words} is created\n{lacks}")
}
