//! `sluice browse`: shows messages of a stream, from any position, without consuming them.

use clap::Args;

use crate::amqp::block_on;
use crate::declare::{queue, segment};
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::table::{Column, print_list};

const COLUMNS: &[Column] = &[
    ("OFFSET", "offset"),
    ("EXCHANGE", "exchange"),
    ("KEY", "routing_key"),
    ("BYTES", "payload_bytes"),
    ("PAYLOAD", "payload"),
];

#[derive(Args, Debug)]
pub struct Browse {
    /// The stream
    stream: String,
    /// Where to start: first, last, next, an offset, or a time span such as 10m
    #[arg(long, default_value = "first")]
    offset: String,
    /// Start with messages of this time, in milliseconds since 1970
    #[arg(long, value_name = "MS", conflicts_with = "offset")]
    at: Option<u64>,
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

/// Prints the messages.
///
/// # Errors
/// The broker's error, for example that the queue is not a stream.
pub fn run(browse: &Browse) -> Result<(), Failure> {
    let Browse { stream, vhost, json, api, .. } = browse;
    let words = format!("browse stream '{stream}'");
    let path = format!("{}/messages?{}", queue(&vhost.vhost, stream), browse.query());
    block_on(print_list(api, &words, &path, COLUMNS, *json))
}

impl Browse {
    fn query(&self) -> String {
        let start = match self.at {
            Some(ms) => format!("at={ms}"),
            None => format!("offset={}", segment(&self.offset)),
        };
        let truncate = self.truncate.map(|bytes| format!("&truncate={bytes}")).unwrap_or_default();
        format!("{start}&count={}{truncate}", self.count)
    }
}
