//! `sluice list`: lists the broker's objects as a table or as JSON.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use hyper::Method;
use serde_json::{Value, json};

use crate::declare::segment;
use crate::failure::Failure;
use crate::http::Api;
use crate::watch::Watch;

#[derive(Args, Debug)]
pub struct List {
    #[arg(value_enum)]
    what: What,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    /// List only the contents of this virtual host
    #[arg(long, short = 'p', value_name = "NAME")]
    vhost: Option<String>,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    api: Api,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    #[value(alias = "queue")]
    Queues,
    #[value(alias = "exchange")]
    Exchanges,
    #[value(alias = "binding")]
    Bindings,
    #[value(alias = "connection")]
    Connections,
    /// Channels of AMQP 0.9.1
    #[value(alias = "channel")]
    Channels,
    /// Consumers over both protocols
    #[value(alias = "consumer")]
    Consumers,
    /// Links of AMQP 1.0
    #[value(alias = "link")]
    Links,
}

/// Prints the list.
///
/// # Errors
/// The broker's error.
pub fn run(list: &List) -> Result<(), Failure> {
    let (words, path) = match list.what {
        What::Queues => ("list queues", "/api/queues"),
        What::Exchanges => ("list exchanges", "/api/exchanges"),
        What::Bindings => ("list bindings", "/api/bindings"),
        What::Connections => ("list connections", "/api/connections"),
        What::Channels => ("list channels", "/api/channels"),
        What::Consumers => ("list consumers", "/api/consumers"),
        What::Links => ("list links", "/api/connections"),
    };
    let of_node = matches!(list.what, What::Connections | What::Channels | What::Links);
    let path = match &list.vhost {
        Some(vhost) if !of_node => format!("{path}/{}", segment(vhost)),
        _ => path.to_owned(),
    };
    let make = async || {
        let (_, answer) = list.api.ask(words, Method::GET, &path, None).await?;
        let Value::Array(mut rows) = answer else {
            return Err(list.api.failed(words, "the answer is not a list"));
        };
        rows.retain(|row| !of_node || list.vhost.as_ref().is_none_or(|vhost| row["vhost"] == vhost.as_str()));
        if matches!(list.what, What::Links) {
            rows = rows.iter().flat_map(links).collect();
        }
        Ok(match list.json {
            true => format!("{:#}\n", Value::from(rows)),
            false => table(list.what.columns(), &rows),
        })
    };
    crate::amqp::block_on(list.watch.print(make))
}

/// A column of a table: its heading, and the field that it shows. A field in an object is given as a JSON pointer.
pub type Column = (&'static str, &'static str);

impl What {
    fn columns(self) -> &'static [Column] {
        match self {
            Self::Queues => &[
                ("NAME", "name"),
                ("TYPE", "type"),
                ("DURABLE", "durable"),
                ("MESSAGES", "messages"),
                ("READY", "messages_ready"),
                ("UNACKNOWLEDGED", "messages_unacknowledged"),
                ("CONSUMERS", "consumers"),
                ("FIRST", "first_offset"),
                ("NEXT", "next_offset"),
                ("SEGMENTS", "segments"),
            ],
            Self::Exchanges => &[
                ("NAME", "name"),
                ("TYPE", "type"),
                ("DURABLE", "durable"),
                ("AUTO-DELETE", "auto_delete"),
                ("INTERNAL", "internal"),
            ],
            Self::Bindings => &[
                ("SOURCE", "source"),
                ("DESTINATION", "destination"),
                ("TYPE", "destination_type"),
                ("KEY", "routing_key"),
                ("ARGUMENTS", "arguments"),
            ],
            Self::Connections => &[
                ("NAME", "name"),
                ("USER", "user"),
                ("VHOST", "vhost"),
                ("PROTOCOL", "protocol"),
                ("CONTAINER", "container_id"),
                ("CHANNELS", "channels"),
                ("RECEIVED", "recv_oct"),
                ("SENT", "send_oct"),
            ],
            Self::Channels => &[
                ("NAME", "name"),
                ("USER", "user"),
                ("VHOST", "vhost"),
                ("STATE", "state"),
                ("CONFIRM", "confirm"),
                ("TRANSACTIONAL", "transactional"),
                ("CONSUMERS", "consumer_count"),
                ("PREFETCH", "prefetch_count"),
                ("UNCONFIRMED", "messages_unconfirmed"),
                ("UNACKNOWLEDGED", "messages_unacknowledged"),
            ],
            Self::Consumers => &[
                ("TAG", "consumer_tag"),
                ("QUEUE", "/queue/name"),
                ("CHANNEL", "/channel_details/name"),
                ("STATUS", "activity_status"),
                ("ACKS", "ack_required"),
                ("EXCLUSIVE", "exclusive"),
                ("PREFETCH", "prefetch_count"),
                ("UNACKNOWLEDGED", "messages_unacknowledged"),
                ("ARGUMENTS", "arguments"),
            ],
            Self::Links => &[
                ("NAME", "link_name"),
                ("CONNECTION", "connection"),
                ("SESSION", "session"),
                ("DIRECTION", "direction"),
                ("ADDRESS", "address"),
                ("CREDIT", "credit"),
                ("UNSETTLED", "unsettled"),
            ],
        }
    }
}

/// Returns a row for each link of a connection. `unsettled` counts the messages that one side has sent and
/// the other has not settled. `direction` is as the broker sees it.
pub fn links(connection: &Value) -> Vec<Value> {
    let sessions = connection["sessions"].as_array().into_iter().flatten();
    let links = sessions.flat_map(|session| {
        let of = |field: &str, direction: &'static str, address: &'static str, unsettled: &'static str| {
            let links = session[field].as_array().into_iter().flatten();
            let row = move |link: &Value| {
                json!({
                    "link_name": link["link_name"],
                    "connection": connection["name"],
                    "vhost": connection["vhost"],
                    "session": session["channel_number"],
                    "handle": link["handle"],
                    "direction": direction,
                    "address": link[address],
                    "credit": link["credit"],
                    "unsettled": link[unsettled],
                    "delivery_count": link["delivery_count"],
                })
            };
            links.map(row).collect::<Vec<_>>()
        };
        let incoming = of("incoming_links", "in", "target_address", "unconfirmed_messages");
        let outgoing = of("outgoing_links", "out", "source_address", "unsettled_deliveries");
        [incoming, outgoing].concat()
    });
    links.collect()
}

fn field_of<'a>(row: &'a Value, field: &str) -> &'a Value {
    match field.starts_with('/') {
        true => row.pointer(field).unwrap_or(&Value::Null),
        false => &row[field],
    }
}

/// Renders rows as a table. Columns are two spaces apart; numbers are right-aligned.
pub fn table(columns: &[Column], rows: &[Value]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|(_, field)| cell(field_of(row, field))).collect())
        .collect();
    let width = |i: usize| {
        let heading = columns[i].0.len();
        cells.iter().map(|row| row[i].chars().count()).fold(heading, usize::max)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let right: Vec<bool> =
        columns.iter().map(|(_, field)| rows.iter().any(|row| field_of(row, field).is_number())).collect();
    let mut text = String::new();
    let headings: Vec<String> = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    for row in std::iter::once(&headings).chain(&cells) {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let width = widths[i];
            // Writing to a string cannot fail.
            let _ =
                if right[i] { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Renders a field for people. Control characters are escaped: they could move the cursor.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) if text.contains(char::is_control) => text.escape_debug().to_string(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(key, value)| format!("{key}={}", cell(value)));
            let pairs = pairs.collect::<Vec<_>>().join(" ");
            if pairs.is_empty() { "-".to_owned() } else { pairs }
        }
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let rows = [
            json!({"source": "", "destination": "ä\u{1b}", "routing_key": 7, "arguments": {}}),
            json!({"source": "logs", "destination": "q", "routing_key": 1234, "arguments": {"x-a": 1}}),
        ];
        let columns =
            [("FROM", "source"), ("TO", "destination"), ("KEY", "routing_key"), ("ARGS", "arguments")];
        let expected = "\
FROM  TO        KEY  ARGS
\"\"    ä\\u{1b}     7  -
logs  q        1234  x-a=1
";
        assert_eq!(table(&columns, &rows), expected);
    }
}
