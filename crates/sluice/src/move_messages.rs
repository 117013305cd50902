//! `sluice move`: moves the messages of a queue to another queue or to an exchange.

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::moving::{Choice, Moving};

#[derive(Args, Debug)]
pub(crate) struct Move {
    /// The name of the queue that has the messages
    queue: String,
    #[command(flatten)]
    to: To,
    /// The routing key at the exchange (default: each message keeps its own)
    #[arg(long, value_name = "KEY", conflicts_with = "to_queue")]
    key: Option<String>,
    #[command(flatten)]
    choice: Choice,
}

/// Where the messages go.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct To {
    /// The queue that gets the messages; it must exist
    #[arg(long, value_name = "QUEUE")]
    to_queue: Option<String>,
    /// The exchange that gets the messages, such as amq.fanout
    #[arg(long, value_name = "EXCHANGE")]
    to_exchange: Option<String>,
}

/// Moves messages: see [`Moving::run`].
///
/// # Errors
/// The broker's error, or why it has ended too early.
pub(crate) fn run(arguments: &Move) -> Result<(), Failure> {
    let Move { queue, to: To { to_queue, to_exchange }, key, choice } = arguments;
    let to = match (to_queue, to_exchange) {
        (Some(name), _) => format!(" to queue '{name}'"),
        (None, Some(name)) => format!(" to exchange '{name}'"),
        (None, None) => String::new(),
    };
    let moving = Moving {
        choice,
        queue,
        verb: "move",
        done: "moved",
        to,
        until: "until_seq",
        fields: vec![
            ("to_queue", json!(to_queue)),
            ("to_exchange", json!(to_exchange)),
            ("routing_key", json!(key)),
        ],
    };
    crate::amqp::block_on(moving.run())
}
