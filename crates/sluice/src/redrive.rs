//! `sluice redrive`: sends the dead letters of a queue back to where they died.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::moving::{Choice, Moving};

#[derive(Args, Debug)]
pub(crate) struct Redrive {
    /// The name of the queue that has the dead letters
    queue: String,
    /// Only messages that died for this reason
    #[arg(long)]
    reason: Option<Reason>,
    /// Only messages that died in this queue
    #[arg(long, value_name = "QUEUE")]
    from_queue: Option<String>,
    /// Only messages that died at least this long ago, such as 30s, 5m, 1h or 2d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    older_than: Option<u64>,
    /// Only messages that died at most this long ago
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    younger_than: Option<u64>,
    /// Where the messages go
    #[arg(long, value_enum, default_value_t = To::Queue)]
    to: To,
    /// Send the messages to this queue instead
    #[arg(long, value_name = "QUEUE", conflicts_with = "to")]
    to_queue: Option<String>,
    #[command(flatten)]
    choice: Choice,
}

/// Why a message died.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Reason {
    /// A consumer has rejected it
    Rejected,
    /// Its time to live was over
    Expired,
    /// The queue was too long
    Maxlen,
    /// It was delivered too often without success
    DeliveryLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// To the queue where the message died
    Queue,
    /// To the exchange to which the message was published before it died
    Exchange,
}

/// Redrives dead letters: see [`Moving::run`].
///
/// # Errors
/// The broker's error, or why it has ended too early.
pub(crate) fn run(redrive: &Redrive) -> Result<(), Failure> {
    let Redrive { queue, reason, from_queue, older_than, younger_than, to, to_queue, choice } = redrive;
    let reason = reason.as_ref().and_then(Reason::to_possible_value);
    let moving = Moving {
        choice,
        queue,
        verb: "redrive",
        done: "redriven",
        to: String::new(),
        until: "died_until",
        fields: vec![
            ("reason", json!(reason.map(|reason| reason.get_name().to_owned()))),
            ("queue", json!(from_queue)),
            ("older_than", json!(older_than)),
            ("younger_than", json!(younger_than)),
            ("to", if *to == To::Exchange { "exchange".into() } else { Value::Null }),
            ("to_queue", json!(to_queue)),
        ],
    };
    crate::amqp::block_on(moving.run())
}

/// Parses a time with its unit. Returns it in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a time such as 30s, 5m, 1h or 2d");
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(
            ["0s", "30s", "5m", "1h", "2d"].map(seconds),
            [Ok(0), Ok(30), Ok(300), Ok(3600), Ok(172_800)]
        );
        for text in ["", "s", "30", "1w", "-1s", "5é", "99999999999999999999d"] {
            assert_eq!(seconds(text), Err(format!("'{text}' is not a time such as 30s, 5m, 1h or 2d")));
        }
    }
}
