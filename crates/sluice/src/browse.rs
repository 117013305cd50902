//! `sluice browse`: shows messages of a stream or a queue, from any position, without consuming them.

use clap::Args;
use hyper::Method;
use serde_json::Value;

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::objects::{self, segment};
use crate::output::{print, tell};
use crate::table::{Column, list_text};

const COLUMNS: &[Column] = &[
    ("OFFSET", "offset"),
    ("EXCHANGE", "exchange"),
    ("KEY", "routing_key"),
    ("BYTES", "payload_bytes"),
    ("PAYLOAD", "payload"),
];

/// The columns for messages of a queue.
const POSITIONS: &[Column] = &[
    ("POSITION", "position"),
    ("EXCHANGE", "exchange"),
    ("KEY", "routing_key"),
    ("BYTES", "payload_bytes"),
    ("PAYLOAD", "payload"),
];

#[derive(Args, Debug)]
pub(crate) struct Browse {
    /// The stream or queue
    #[arg(value_name = "QUEUE")]
    stream: String,
    /// Where to start: first, last, next, an offset, or a time span such as 10m; in a queue first, or a position from 1
    #[arg(long)]
    offset: Option<String>,
    /// Start with messages of this time, in milliseconds since 1970
    #[arg(long, value_name = "MS", conflicts_with_all = ["offset", "since"])]
    at: Option<u64>,
    /// Only messages with this text in the body, or in NAME=VALUE of a key, property, header or annotation
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only messages that arrived at this time or later: milliseconds since 1970, or a time span such as 10m
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only messages that arrived at this time or earlier
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The most messages to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Show only so many bytes of each payload
    #[arg(long, value_name = "BYTES")]
    truncate: Option<u64>,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// Prints the messages. If the broker has looked at as many as it does at once and found fewer than wanted, says where to go on.
///
/// # Errors
/// The broker's error, for example that there is no such queue.
pub(crate) fn run(browse: &Browse) -> Result<(), Failure> {
    let Browse { stream, vhost, json, api, count, .. } = browse;
    let words = format!("browse queue '{stream}'");
    let path = format!("{}/search?{}", objects::queue(&vhost.vhost, stream).path, browse.query());
    block_on(async {
        let (_, mut answer) = api.ask(&words, Method::GET, &path, None).await?;
        let Some(Value::Array(rows)) = answer.get_mut("messages").map(Value::take) else {
            return Err(api.failed(&words, "the answer has no messages"));
        };
        let is_short = rows.len() < *count as usize;
        let has_positions = match rows.first() {
            Some(row) => row["position"].is_u64(),
            None if *json => false,
            None => {
                let path =
                    format!("{}?columns=type&disable_stats=true", objects::queue(&vhost.vhost, stream).path);
                let (_, queue) = api.ask(&words, Method::GET, &path, None).await?;
                queue["type"] != "stream"
            }
        };
        let columns = if has_positions { POSITIONS } else { COLUMNS };
        print(&list_text(rows, columns, *json))?;
        if let Some(next) = answer["next"].as_u64().filter(|_| is_short) {
            let scanned = &answer["scanned"];
            tell(&format!("{scanned} messages were looked at; go on with --offset {next}"));
        }
        Ok(())
    })
}

impl Browse {
    fn query(&self) -> String {
        let at = self.at.map(|ms| ms.to_string());
        let texts = [
            ("from", &self.offset),
            ("filter", &self.filter),
            ("since", if at.is_some() { &at } else { &self.since }),
            ("until", &self.until),
        ];
        let truncate = self.truncate.map(|bytes| format!("&truncate={bytes}")).unwrap_or_default();
        let texts = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.as_ref().filter(|text| !text.is_empty())?)));
        texts.fold(format!("count={}{truncate}", self.count), |query, (name, text)| {
            format!("{query}&{name}={}", segment(text))
        })
    }
}
