//! `sluice delete`: queues, exchanges, bindings, users, virtual hosts, members of Raft groups, and unclaimed data.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hyper::Method;
use node::facts::Unclaimed;

use crate::amqp::block_on;
use crate::declare::BindingArgs;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::objects::{self, Object, segment};
use crate::output::print;
use crate::quorum;

#[derive(Args, Debug)]
pub(crate) struct Delete {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A queue and the messages in it
    #[command(alias = "queues")]
    Queue {
        name: String,
        /// Only if it has no consumers
        #[arg(long)]
        if_unused: bool,
        /// Only if it has no messages
        #[arg(long)]
        if_empty: bool,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// An exchange
    #[command(alias = "exchanges")]
    Exchange {
        name: String,
        /// Only if nothing is bound to it
        #[arg(long)]
        if_unused: bool,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// A binding, identified by its key and arguments, too
    #[command(alias = "bindings")]
    Binding {
        #[command(flatten)]
        binding: BindingArgs,
        #[command(flatten)]
        vhost: Vhost,
    },
    /// Users; their connections are closed
    #[command(alias = "users")]
    User {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// A virtual host with everything in it; its connections are closed
    #[command(alias = "vhosts")]
    Vhost { name: String },
    /// The member of a queue's Raft group on a node
    #[command(alias = "members")]
    Member(quorum::Member),
    /// Data that a stopped broker keeps although it does not know the queue; `sluice doctor` lists it
    Unclaimed {
        /// The owner, as `sluice doctor` names it
        #[arg(value_parser = owner)]
        owner: u64,
        /// The data directory; no broker may use it
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}

/// The length of an owner in hexadecimal digits.
const OWNER_DIGITS: usize = 16;

fn owner(text: &str) -> Result<u64, String> {
    let is_owner = text.len() == OWNER_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let owner = is_owner.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    owner.ok_or_else(|| format!("an owner has {OWNER_DIGITS} hexadecimal digits"))
}

/// Deletes, and prints one line for each object.
///
/// # Errors
/// The broker's error, for example that the object does not exist.
pub(crate) fn run(delete: &Delete) -> Result<(), Failure> {
    block_on(carry_out(delete))
}

async fn carry_out(delete: &Delete) -> Result<(), Failure> {
    let Delete { what, api } = delete;
    match what {
        What::Queue { name, if_unused, if_empty, vhost } => {
            let Object { words, path } = objects::queue(&vhost.vhost, name);
            let path = format!("{path}?if-unused={if_unused}&if-empty={if_empty}");
            one(api, &Object { words, path }).await
        }
        What::Exchange { name, if_unused, vhost } => {
            let Object { words, path } = objects::exchange(&vhost.vhost, name);
            one(api, &Object { words, path: format!("{path}?if-unused={if_unused}") }).await
        }
        What::Binding { binding, vhost } => {
            let (words, path) = (binding.words(), binding.path(&vhost.vhost));
            // Only the broker knows the `properties_key` of the binding.
            let what = format!("delete {words}");
            let (_, rows) = api.ask(&what, Method::GET, &path, None).await?;
            let found = binding.find(rows.as_array().map_or(&[], Vec::as_slice))?;
            let Some(props) = found.and_then(|row| row["properties_key"].as_str()) else {
                return Err(api.failed(&what, "there is no such binding"));
            };
            one(api, &Object { words, path: format!("{path}/{}", segment(props)) }).await
        }
        What::User { names } => {
            for name in names {
                one(api, &objects::user(name)).await?;
            }
            Ok(())
        }
        What::Vhost { name } => one(api, &objects::vhost(name)).await,
        What::Member(member) => member.delete(api).await,
        What::Unclaimed { owner, data_dir } => delete_unclaimed(*owner, data_dir),
    }
}

/// Deletes from the data directory of a stopped broker.
fn delete_unclaimed(owner: u64, data_dir: &Path) -> Result<(), Failure> {
    if !data_dir.join("lock").is_file() {
        return Err(Failure::usage(format!("{} is not the data directory of a broker", data_dir.display())));
    }
    let failed = |error| Failure::failed(format!("cannot delete the data of owner {owner:016x}: {error}"));
    let deleted = node::offline::delete_unclaimed(data_dir, owner).map_err(failed)?;
    let Unclaimed { records, bytes, .. } = deleted;
    print(&format!("unclaimed data of owner {owner:016x} is deleted: {records} records, {bytes} bytes\n"))
}

async fn one(api: &Api, object: &Object) -> Result<(), Failure> {
    let Object { words, path } = object;
    api.ask(&format!("delete {words}"), Method::DELETE, path, None).await?;
    print(&format!("{words} is deleted\n"))
}
