//! `sluice explain`: why nothing moves, as one cause and the numbers behind it.

use std::fmt::Write as _;
use std::net::IpAddr;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::Value;

use crate::escape;
use crate::failure::Failure;
use crate::http::Api;
use crate::objects::segment;
use crate::watch::Watch;

#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0  answered, whatever the cause
  1  there is no such thing, its name is ambiguous, or the broker refused
  2  wrong usage
  3  nobody answers there

docs/operations/slow.md tells of each cause what to do about it.")]
pub struct Explain {
    #[command(subcommand)]
    what: What,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    api: Api,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Why a queue's messages do not leave it
    Queue {
        name: String,
        /// The virtual host of the queue
        #[arg(long, short = 'p', value_name = "NAME", default_value = "/")]
        vhost: String,
    },
    /// Why no messages move on a link
    Link {
        name: String,
        /// The virtual host of its connection (default: any)
        #[arg(long, short = 'p', value_name = "NAME")]
        vhost: Option<String>,
        /// The connection of the link, if several links have this name
        #[arg(long, value_name = "NAME")]
        connection: Option<String>,
    },
    /// Why nothing moves on a connection
    Connection {
        /// The name that `sluice list connections` shows
        name: String,
    },
    /// Why logins from an address wait
    Address {
        /// The IP address that the log shows for its clients
        #[arg(value_name = "IP")]
        address: IpAddr,
    },
}

/// Prints the explanation.
///
/// # Errors
/// The broker's error.
pub fn run(explain: &Explain) -> Result<(), Failure> {
    let (words, path) = match &explain.what {
        What::Queue { name, vhost } => {
            ("explain the queue", format!("/api/explain/queues/{}/{}", segment(vhost), segment(name)))
        }
        What::Link { name, vhost, connection } => {
            let vhost = vhost.as_ref().map(|vhost| format!("/{}", segment(vhost))).unwrap_or_default();
            let path = format!("/api/explain/links{vhost}/{}", segment(name));
            let query = connection.as_ref().map(|name| format!("?connection={}", segment(name)));
            ("explain the link", path + &query.unwrap_or_default())
        }
        What::Connection { name } => {
            ("explain the connection", format!("/api/explain/connections/{}", segment(name)))
        }
        What::Address { address } => {
            ("explain the address", format!("/api/explain/addresses/{}", segment(&address.to_string())))
        }
    };
    let make = async || {
        let (_, answer) = explain.api.ask(words, Method::GET, &path, None).await?;
        Ok(if explain.json { escape::json(&answer) } else { shown(&answer) })
    };
    crate::amqp::block_on(explain.watch.print(make))
}

/// Renders the cause, the link where it was found, the notes, and the numbers, one per line.
pub fn shown(answer: &Value) -> String {
    let word = |field: &Value| escape::line(field.as_str().unwrap_or_default()).into_owned();
    let mut text = format!("{}: {}\n", word(&answer["cause"]), word(&answer["sentence"]));
    let at = &answer["at"];
    // Writing to a string cannot fail.
    if at.is_object() {
        let (link, connection) = (word(&at["link"]), word(&at["connection"]));
        let _ = writeln!(text, "at link '{link}' of {connection} (channel {})", at["session"]);
    }
    for note in answer["notes"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", word(note));
    }
    for (name, value) in answer["numbers"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "  {name:<30} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_explanation_starts_with_its_cause() {
        let answer = json!({
            "cause": "no_credit",
            "sentence": "the client has granted no credit",
            "at": {"connection": "a -> b", "session": 0, "handle": 1, "link": "l\u{1b}"},
            "numbers": {"link_credit": 0, "queue_ready": 12},
            "notes": ["filter 'f' is left out"],
        });
        let expected = "\
no_credit: the client has granted no credit
at link 'l\\u{1b}' of a -> b (channel 0)
filter 'f' is left out
  link_credit                    0
  queue_ready                    12
";
        assert_eq!(shown(&answer), expected);
        assert_eq!(
            shown(&json!({"cause": "moving", "sentence": "messages are moving", "at": null})),
            "moving: messages are moving\n"
        );
    }
}
