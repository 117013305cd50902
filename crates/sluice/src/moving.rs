//! What `sluice move` and `sluice redrive` share: the broker moves the messages, and the command repeats its request.
//!
//! One request is bounded in time, so the command repeats it until the broker has looked at all messages. Between two requests
//! nothing is in flight. So the command can be interrupted, and goes on when it is run again.

use std::time::Duration;

use clap::Args;
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::objects;
use crate::output::{print, show_progress, tell};
use crate::recv::Signals;
use crate::send::pair;
use crate::words::counted;

/// The time between two requests while an alarm stops publishers.
const ALARM_RETRY: Duration = Duration::from_secs(1);

/// Which messages of a queue, and how the result is printed.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// End after this many messages (default: when all were looked at)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Only messages with this header or application property; may be given several times
    #[arg(long = "header", value_name = "KEY=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// Only the message with this sequence number, which `sluice peek` shows as seq
    #[arg(long, value_name = "N")]
    seq: Option<u64>,
    /// At most this many messages per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// A verb that moves messages.
pub(crate) struct Moving<'a> {
    pub choice: &'a Choice,
    /// The queue that has the messages.
    pub queue: &'a str,
    /// The verb, which is also the last part of the path.
    pub verb: &'static str,
    /// What has happened to a message. It is also the field of the answer that has the number of messages.
    pub done: &'static str,
    /// Where the messages have gone, for people: empty, or ` to ...`.
    pub to: String,
    /// The field of the answer that a request which goes on repeats.
    pub until: &'static str,
    /// The fields of the request that only this verb has. A field that is null is not sent.
    pub fields: Vec<(&'static str, Value)>,
}

impl Moving<'_> {
    /// Sends the request until all messages were looked at, the count is reached, a target refuses a message, or a signal
    /// arrives. Pauses while an alarm stops publishers. Prints one line.
    ///
    /// # Errors
    /// The broker's error, or why it has ended too early.
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let Self { choice, done, until, verb, .. } = self;
        let mut signals =
            Signals::new().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
        let what = format!("{verb} messages of queue '{}'", self.queue);
        let path = format!("{}/{verb}", objects::queue(&choice.vhost.vhost, self.queue).path);
        let mut fields = self.request();
        let (mut moved, mut is_paused) = (0, false);
        let (mut answer, interrupted) = loop {
            let request = Value::Object(fields.clone());
            let mut ask = std::pin::pin!(choice.api.ask(&what, Method::POST, &path, Some(&request)));
            let (answered, interrupted) = tokio::select! {
                answered = &mut ask => (answered, false),
                // The broker ends the request soon. What it has done is then known.
                () = signals.recv() => (ask.await, true),
            };
            let so_far = |failure: Failure| Failure {
                line: format!("{}; {moved} {done} before", failure.line),
                ..failure
            };
            let (_, answer) =
                answered.map_err(|failure| if moved > 0 { so_far(failure) } else { failure })?;
            if !answer.is_object() {
                return Err(choice.api.failed(&what, "the answer is not an object"));
            }
            moved += answer[*done].as_u64().unwrap_or_default();
            let has_paused = std::mem::replace(&mut is_paused, answer["ended"] == "alarm");
            if !goes_on(&answer) || interrupted {
                break (answer, interrupted);
            }
            if is_paused {
                if !has_paused {
                    let reason = answer["reason"].as_str().unwrap_or_default();
                    tell(&format!("paused until the alarm ends: {reason}"));
                }
                tokio::select! {
                    () = tokio::time::sleep(ALARM_RETRY) => {}
                    () = signals.recv() => break (answer, true),
                }
            }
            show_progress(&format!("{moved} messages {}, {} left", self.done, answer["left"]));
            fields.insert((*until).to_owned(), answer[*until].clone());
            if let Some(count) = choice.count {
                fields.insert("count".to_owned(), count.saturating_sub(moved).max(1).into());
            }
        };
        answer[*done] = moved.into();
        if interrupted && goes_on(&answer) {
            (answer["ended"], answer["reason"]) =
                ("interrupted".into(), "run the command again to go on".into());
        }
        if choice.json {
            print(&escape::json(&answer))?;
        } else {
            print(&self.line(&answer))?;
        }
        match answer["ended"].as_str() {
            Some("done" | "count" | "interrupted") => Ok(()),
            _ => {
                Err(choice.api.failed(&what, answer["reason"].as_str().unwrap_or("the answer has no reason")))
            }
        }
    }

    /// Returns the fields of the request.
    fn request(&self) -> Map<String, Value> {
        let Choice { count, headers, seq, rate, .. } = self.choice;
        let headers: Map<String, Value> =
            headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let shared = [
            ("count", json!(count)),
            ("seq", json!(seq)),
            ("rate", json!(rate)),
            ("headers", if headers.is_empty() { Value::Null } else { Value::Object(headers) }),
        ];
        let given = shared.iter().chain(&self.fields).filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn line(&self, answer: &Value) -> String {
        let number = |name: &str| answer[name].as_u64().unwrap_or_default();
        let Self { queue, done, to, .. } = self;
        let moved = counted(number(done), "message");
        let (skipped, left) = (number("skipped"), number("left"));
        let end = if answer["ended"] == "interrupted" { "; run the command again to go on" } else { "" };
        format!("{moved} {done} from queue '{queue}'{to}: {skipped} skipped, {left} left{end}\n")
    }
}

/// Returns true if the request can be repeated to move more.
fn goes_on(answer: &Value) -> bool {
    answer["ended"] == "time" || answer["ended"] == "alarm"
}
