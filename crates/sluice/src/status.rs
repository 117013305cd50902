//! `sluice status`: an overview of the node, and how much of each memory budget is used.

use std::fmt::Write as _;

use clap::Args;
use hyper::Method;
use serde_json::{Value, json};

use crate::escape;
use crate::failure::Failure;
use crate::http::Api;
use crate::table::{Column, cell, table};
use crate::watch::Watch;

#[derive(Args, Debug)]
pub struct Status {
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    api: Api,
}

/// Prints the status.
///
/// # Errors
/// The broker's error.
pub fn run(status: &Status) -> Result<(), Failure> {
    let make = async || {
        let words = "show the status";
        let (_, answer) = status.api.ask(words, Method::GET, "/api/nodes", None).await?;
        let nodes = match answer {
            Value::Array(nodes) if !nodes.is_empty() => nodes,
            _ => return Err(status.api.failed(words, "the answer is not a list of nodes")),
        };
        Ok(match status.json {
            true => escape::json(&Value::from(nodes)),
            false => nodes.iter().map(show).collect(),
        })
    };
    crate::amqp::block_on(status.watch.print(make))
}

/// The lines of the overview: a label and the field that it shows.
const LINES: &[Column] = &[
    ("node", "name"),
    ("identity", "node_id"),
    ("starts", "boots"),
    ("process", "os_pid"),
    ("uptime (ms)", "uptime"),
    ("memory (bytes)", "mem_used"),
    ("memory (limit)", "mem_limit"),
    ("disk free (limit)", "disk_free_limit"),
    ("memory alarm", "mem_alarm"),
    ("disk alarm", "disk_free_alarm"),
    ("certificate alarm", "certificate_alarm"),
    ("descriptors", "fd_used"),
    ("descriptors (limit)", "fd_total"),
];

const BUDGETS: &[Column] =
    &[("MEMORY FOR", "name"), ("USED (BYTES)", "used"), ("LIMIT (BYTES)", "limit"), ("USED (%)", "percent")];

/// Renders a node and its budgets.
pub fn show(node: &Value) -> String {
    let width = LINES.iter().map(|(word, _)| word.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (word, field) in LINES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word:<width$}  {}", cell(&node[field]));
    }
    let budgets = node["budgets"].as_array().into_iter().flatten().map(|budget| {
        let (used, limit) = (budget["used"].as_u64(), budget["limit"].as_u64());
        let percent = used.zip(limit).map(|(used, limit)| used.saturating_mul(100) / limit.max(1));
        json!({ "name": budget["name"], "used": used, "limit": limit, "percent": percent })
    });
    text.push('\n');
    text + &table(BUDGETS, &budgets.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_shown_as_a_table() {
        let node = json!({
            "name": "sluice@h", "node_id": "0a", "boots": 3, "os_pid": "7", "uptime": 12, "mem_used": 99, "mem_limit": 100, "disk_free_limit": 50, "mem_alarm": false,
            "disk_free_alarm": true, "certificate_alarm": false, "fd_used": 4, "fd_total": null,
            "budgets": [
                {"name": "unfinished_deliveries", "used": 512, "limit": 1024},
                {"name": "backlog", "used": 0, "limit": 0},
            ],
        });
        let expected = "\
node                 sluice@h
identity             0a
starts               3
process              7
uptime (ms)          12
memory (bytes)       99
memory (limit)       100
disk free (limit)    50
memory alarm         no
disk alarm           yes
certificate alarm    no
descriptors          4
descriptors (limit)  -

MEMORY FOR             USED (BYTES)  LIMIT (BYTES)  USED (%)
unfinished_deliveries           512           1024        50
backlog                           0              0         0
";
        assert_eq!(show(&node), expected);
    }
}
