//! `sluice explain`: why nothing moves, as causes and the numbers behind them; without a name, everything that is not well.

mod troubles;

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

Without a name, everything that is not well is listed, the worst first. docs/operations/slow.md has all causes.")]
pub(crate) struct Explain {
    #[command(subcommand)]
    what: Option<What>,
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
pub(crate) fn run(explain: &Explain) -> Result<(), Failure> {
    let Some(what) = &explain.what else { return list(explain) };
    let (words, path) = match what {
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

/// Prints everything that is not well.
fn list(explain: &Explain) -> Result<(), Failure> {
    let make = async || {
        let (_, answer) = explain.api.ask("list the troubles", Method::GET, "/api/explain", None).await?;
        Ok(if explain.json { escape::json(&answer) } else { troubles::shown(&answer) })
    };
    crate::amqp::block_on(explain.watch.print(make))
}

/// Renders the worst cause with the link where it was found, the notes, what it means, what to do, and the numbers, one per line.
/// Other causes follow, each with the same except the notes.
pub(crate) fn shown(answer: &Value) -> String {
    let causes = answer["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    cause(answer, causes.first().unwrap_or(answer), &mut text);
    for other in causes.iter().skip(1) {
        text.push_str("\nalso ");
        cause(other, other, &mut text);
    }
    text
}

fn word(field: &Value) -> String {
    escape::line(field.as_str().unwrap_or_default()).into_owned()
}

/// Renders one cause. `texts` has what it means and what to do.
fn cause(cause: &Value, texts: &Value, text: &mut String) {
    let at = &cause["at"];
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}: {}", word(&cause["cause"]), word(&cause["sentence"]));
    if at.is_object() {
        let (link, connection) = (word(&at["link"]), word(&at["connection"]));
        let _ = writeln!(text, "at link '{link}' of {connection} (channel {})", at["session"]);
    }
    let advice: Vec<String> = texts["advice"].as_array().into_iter().flatten().map(word).collect();
    for note in cause["notes"].as_array().into_iter().flatten().map(word) {
        // The advice for an address is a note, too.
        if !advice.contains(&note) {
            let _ = writeln!(text, "{note}");
        }
    }
    write_texts(texts, "", text);
    for (name, value) in cause["numbers"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "  {name:<30} {value}");
    }
}

/// Writes what a cause or a trouble means, and what to do. Each line begins with `indent`.
fn write_texts(texts: &Value, indent: &str, text: &mut String) {
    // Writing to a string cannot fail.
    if texts["meaning"].is_string() {
        let _ = writeln!(text, "{indent}What it means: {}", word(&texts["meaning"]));
    }
    let advice = texts["advice"].as_array().map_or(&[][..], Vec::as_slice);
    if !advice.is_empty() {
        let _ = writeln!(text, "{indent}What to do:");
    }
    for step in advice {
        let _ = writeln!(text, "{indent}- {}", word(step));
    }
}

#[cfg(test)]
mod tests {
    use broker::explain::Cause;
    use clap::Parser as _;
    use serde_json::json;

    use super::*;
    use crate::Cli;

    #[test]
    fn the_commands_of_the_advice_exist() {
        let mut commands = Vec::new();
        for step in Cause::ALL.iter().flat_map(|cause| cause.text().advice) {
            let codes = step.split('`').skip(1).step_by(2);
            commands.extend(codes.filter(|code| code.starts_with("sluice ")));
        }
        for command in &commands {
            if let Err(error) = Cli::try_parse_from(command.split(' ')) {
                panic!("{command}: {error}");
            }
        }
        let limits: Vec<_> =
            commands.iter().filter(|command| command.starts_with("sluice set limit ")).collect();
        assert_eq!(limits.len(), 2, "those of memory and of the disk: {commands:?}");
    }

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

    #[test]
    fn each_cause_says_what_it_means_and_what_to_do() {
        let cause = |cause: &str, numbers: Value| {
            json!({
                "cause": cause, "sentence": "it is so", "at": null, "numbers": numbers,
                "meaning": "It means this.", "advice": ["Do this.", "Then that."],
            })
        };
        let answer = json!({
            "cause": "queue_full", "sentence": "it is so", "at": null, "notes": [],
            "numbers": {"queue_ready": 3, "queue_consumers": 0},
            "causes": [cause("queue_full", json!({"queue_ready": 3})), cause("no_consumer", json!({"queue_consumers": 0}))],
        });
        let expected = "\
queue_full: it is so
What it means: It means this.
What to do:
- Do this.
- Then that.
  queue_ready                    3
  queue_consumers                0

also no_consumer: it is so
What it means: It means this.
What to do:
- Do this.
- Then that.
  queue_consumers                0
";
        assert_eq!(shown(&answer), expected);
    }
}
