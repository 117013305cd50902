//! `sluice close`: closes connections.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::header::HeaderName;
use hyper::{Method, StatusCode};

use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::objects::{self, Object, segment};
use crate::output::print;
use crate::table;

/// The header that carries the reason.
const X_REASON: HeaderName = HeaderName::from_static("x-reason");

#[derive(Args, Debug)]
pub(crate) struct Close {
    #[command(subcommand)]
    what: What,
    /// The reason that the client is told
    #[arg(long, global = true, value_name = "TEXT", default_value = "Closed by an operator", value_parser = header)]
    reason: String,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A connection, by the name that `sluice list connections` shows, or all of them
    #[command(alias = "connections")]
    Connection {
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// All connections, or all in the virtual host
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Close only connections to this virtual host
        #[arg(long, short = 'p', value_name = "NAME", conflicts_with = "name")]
        vhost: Option<String>,
        /// Wait so long between two connections, so that clients do not all connect again at once
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 0, conflicts_with = "name")]
        delay: u64,
    },
    /// All connections of a user
    User { name: String },
}

/// Checks the text for a header of HTTP.
fn header(text: &str) -> Result<String, String> {
    match text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("letters, digits and signs of ASCII are needed".to_owned()),
    }
}

/// Closes, and prints one line.
///
/// # Errors
/// The broker's error, for example that there is no such connection.
pub(crate) fn run(close: &Close) -> Result<(), Failure> {
    let Close { what, reason, api } = close;
    crate::amqp::block_on(async {
        let (Object { words, path }, are) = match what {
            What::Connection { name: Some(name), .. } => (objects::connection(name), "is"),
            What::Connection { name: None, vhost, delay, .. } => {
                let count = close_all(api, vhost.as_deref(), reason, Duration::from_millis(*delay)).await?;
                let are = if count == 1 { "connection is" } else { "connections are" };
                return print(&format!("{count} {are} closed\n"));
            }
            What::User { name } => {
                let words = format!("the connections of user '{name}'");
                (Object { words, path: format!("/api/connections/username/{}", segment(name)) }, "are")
            }
        };
        let (what, headers) = (format!("close {words}"), &[(X_REASON, reason.as_str())]);
        api.send(Ask { headers, ..Ask::new(&what, Method::DELETE, &path) }).await?;
        print(&format!("{words} {are} closed\n"))
    })
}

/// Closes the connections that are there now, one after the other. Returns their number, without those that were gone already.
///
/// The broker may not find a connection that moves to another shard meanwhile. So those that it did not find are looked up again, until
/// none of them is left.
async fn close_all(api: &Api, vhost: Option<&str>, reason: &str, delay: Duration) -> Result<usize, Failure> {
    let list = match vhost {
        Some(vhost) => format!("/api/vhosts/{}/connections", segment(vhost)),
        None => "/api/connections".to_owned(),
    };
    let names = async || {
        let rows = table::list(api, "close all connections", &list).await?;
        let names = rows.iter().filter_map(|row| row["name"].as_str().map(str::to_owned));
        Ok::<_, Failure>(names.collect::<BTreeSet<String>>())
    };
    let (mut count, mut is_first) = (0, true);
    let mut left = names().await?;
    while !left.is_empty() {
        let mut missed = BTreeSet::new();
        for name in left {
            if !std::mem::take(&mut is_first) {
                tokio::time::sleep(delay).await;
            }
            let Object { words, path } = objects::connection(&name);
            let (what, headers) = (format!("close {words}"), &[(X_REASON, reason)]);
            let ask = Ask { headers, ..Ask::new(&what, Method::DELETE, &path) };
            let (status, answer) = api.exchange(ask).await?;
            match status {
                StatusCode::NOT_FOUND => _ = missed.insert(name),
                _ if status.is_success() => count += 1,
                _ => return Err(api.refused(&what, status, &answer)),
            }
        }
        left = match missed.is_empty() {
            true => missed,
            false => &missed & &names().await?,
        };
    }
    Ok(count)
}
