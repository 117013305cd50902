//! `sluice cluster`: shows and changes the name of the cluster.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::json;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::Api;
use crate::output::print;
use crate::table::cell;

#[derive(Args, Debug)]
pub struct Cluster {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    api: Api,
}

/// The aliases are the names of `rabbitmqctl`.
#[derive(Debug, Subcommand)]
enum What {
    /// Print the name of the cluster
    Name,
    /// Change the name of the cluster
    #[command(alias = "set_cluster_name")]
    SetName { name: String },
}

const PATH: &str = "/api/cluster-name";

/// Carries out the verb, and prints its result.
///
/// # Errors
/// The broker's error, for example that the text cannot be a name.
pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let Cluster { what, api } = cluster;
    block_on(async {
        match what {
            What::Name => {
                let (_, answer) = api.ask("show the name of the cluster", Method::GET, PATH, None).await?;
                print(&format!("{}\n", cell(&answer["name"])))
            }
            What::SetName { name } => {
                api.ask("name the cluster", Method::PUT, PATH, Some(&json!({ "name": name }))).await?;
                print(&format!("the name of the cluster is '{name}'\n"))
            }
        }
    })
}
