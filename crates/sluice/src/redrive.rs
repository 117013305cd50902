//! `sluice redrive`: sends the dead letters of a queue back to where they died.
//!
//! One request is bounded in time, so the command repeats it until it has looked at all messages. Between two requests nothing
//! is in flight. So the command can be interrupted, and goes on when it is run again.

use std::io::{IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::declare::queue;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::output::print;
use crate::recv::Signals;

#[derive(Args, Debug)]
pub struct Redrive {
    /// The name of the queue that has the dead letters
    queue: String,
    /// End after this many messages (default: when all were looked at)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
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
    /// At most this many messages per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Only the message with this sequence number, which `sluice peek` shows as seq
    #[arg(long, value_name = "N")]
    seq: Option<u64>,
    /// Where the messages go
    #[arg(long, value_enum, default_value_t = To::Queue)]
    to: To,
    /// Send the messages to this queue instead
    #[arg(long, value_name = "QUEUE", conflicts_with = "to")]
    to_queue: Option<String>,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
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

/// Redrives dead letters until all were looked at, the count is reached, a target refuses a message, or a signal arrives.
/// Prints one line.
///
/// # Errors
/// The broker's error, or why it has ended too early.
pub fn run(redrive: &Redrive) -> Result<(), Failure> {
    crate::amqp::block_on(redrive.run())
}

impl Redrive {
    async fn run(&self) -> Result<(), Failure> {
        let mut signals =
            Signals::new().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
        let what = format!("redrive queue '{}'", self.queue);
        let path = format!("{}/redrive", queue(&self.vhost.vhost, &self.queue));
        let mut fields = self.fields();
        let mut redriven = 0;
        let (mut answer, interrupted) = loop {
            let request = Value::Object(fields.clone());
            let mut ask = std::pin::pin!(self.api.ask(&what, Method::POST, &path, Some(&request)));
            let (answered, interrupted) = tokio::select! {
                answered = &mut ask => (answered, false),
                // The broker ends the request soon. What it has done is then known.
                () = signals.recv() => (ask.await, true),
            };
            let so_far = |failure: Failure| Failure {
                line: format!("{}; {redriven} redriven before", failure.line),
                ..failure
            };
            let (_, answer) =
                answered.map_err(|failure| if redriven > 0 { so_far(failure) } else { failure })?;
            if !answer.is_object() {
                return Err(self.api.failed(&what, "the answer is not an object"));
            }
            redriven += answer["redriven"].as_u64().unwrap_or_default();
            if answer["ended"] != "time" || interrupted {
                break (answer, interrupted);
            }
            self.show_progress(redriven, &answer);
            fields.insert("died_until".to_owned(), answer["died_until"].clone());
            if let Some(count) = self.count {
                fields.insert("count".to_owned(), count.saturating_sub(redriven).max(1).into());
            }
        };
        answer["redriven"] = redriven.into();
        if interrupted && answer["ended"] == "time" {
            (answer["ended"], answer["reason"]) =
                ("interrupted".into(), "run the command again to go on".into());
        }
        if self.json {
            print(&format!("{answer:#}\n"))?;
        } else {
            print(&self.line(&answer))?;
        }
        match answer["ended"].as_str() {
            Some("done" | "count" | "interrupted") => Ok(()),
            _ => Err(self.api.failed(&what, answer["reason"].as_str().unwrap_or("the answer has no reason"))),
        }
    }

    /// Returns the fields of the request.
    fn fields(&self) -> Map<String, Value> {
        let name = |reason: &Reason| reason.to_possible_value().map(|reason| reason.get_name().to_owned());
        let fields = [
            ("count", json!(self.count)),
            ("seq", json!(self.seq)),
            ("reason", json!(self.reason.as_ref().and_then(name))),
            ("queue", json!(self.from_queue)),
            ("older_than", json!(self.older_than)),
            ("younger_than", json!(self.younger_than)),
            ("rate", json!(self.rate)),
            ("to", if self.to == To::Exchange { "exchange".into() } else { Value::Null }),
            ("to_queue", json!(self.to_queue)),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn line(&self, answer: &Value) -> String {
        let number = |name: &str| answer[name].as_u64().unwrap_or_default();
        let redriven = match number("redriven") {
            1 => "1 message".to_owned(),
            redriven => format!("{redriven} messages"),
        };
        let (queue, skipped, left) = (&self.queue, number("skipped"), number("left"));
        let end = if answer["ended"] == "interrupted" { "; run the command again to go on" } else { "" };
        format!("{redriven} redriven from queue '{queue}': {skipped} skipped, {left} left{end}\n")
    }

    /// Writes a line of progress to a terminal. If standard error is closed, there is nobody left to notify.
    fn show_progress(&self, redriven: u64, answer: &Value) {
        let mut err = std::io::stderr();
        if err.is_terminal() {
            drop(writeln!(err, "sluice: {redriven} messages redriven, {} left", answer["left"]));
        }
    }
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
