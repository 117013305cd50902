//! `sluice peek`: shows a ready message of a queue, which stays there.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::http::{Api, Ask, Vhost};
use crate::objects::segment;
use crate::table::cell;

#[derive(Args, Debug)]
pub(crate) struct Peek {
    /// The queue
    queue: String,
    /// The position of the message, counted from 1 in the order of delivery
    #[arg(default_value_t = 1)]
    position: u64,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// Prints the message.
///
/// # Errors
/// The broker's error, for example that there is no message at this position.
pub(crate) fn run(peek: &Peek) -> Result<(), Failure> {
    let Peek { queue, position, vhost, json, api } = peek;
    let path = format!("/api/queues/{}/{}/peek/{position}", segment(&vhost.vhost), segment(queue));
    let words = format!("peek at queue '{queue}'");
    crate::amqp::block_on(Ask::get(&words, &path).print(api, *json, shown))
}

/// Renders one field per line, the payload last.
fn shown(answer: &Value) -> String {
    let mut text = String::new();
    let fields = answer.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| *name != "payload") {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<24}  {}", cell(value));
    }
    let _ = writeln!(text, "{:<24}  {}", "payload", cell(&answer["payload"]));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_payload_comes_last() {
        let answer = json!({
            "position": 1, "payload": "a\nb", "redelivered": true, "header": {"durable": true, "priority": 4},
        });
        let expected = "\
position                  1
redelivered               yes
header                    durable=yes priority=4
payload                   a\\nb
";
        assert_eq!(shown(&answer), expected);
    }
}
