//! `sluice close`: closes connections.

use clap::{Args, Subcommand};
use hyper::Method;
use hyper::header::HeaderName;

use crate::failure::Failure;
use crate::http::Api;
use crate::objects::{self, Object, segment};
use crate::output::print;

/// The header that carries the reason.
const X_REASON: HeaderName = HeaderName::from_static("x-reason");

#[derive(Args, Debug)]
pub struct Close {
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
    /// A connection, by the name that `sluice list connections` shows
    Connection { name: String },
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
pub fn run(close: &Close) -> Result<(), Failure> {
    let Close { what, reason, api } = close;
    let Object { words, path } = match what {
        What::Connection { name } => objects::connection(name),
        What::User { name } => Object {
            words: format!("the connections of user '{name}'"),
            path: format!("/api/connections/username/{}", segment(name)),
        },
    };
    crate::amqp::block_on(async {
        let headers = [(X_REASON, reason.as_str())];
        api.send(&format!("close {words}"), Method::DELETE, &path, String::new(), &headers).await?;
        print(&match what {
            What::Connection { .. } => format!("{words} is closed\n"),
            What::User { .. } => format!("{words} are closed\n"),
        })
    })
}
