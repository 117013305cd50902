//! `sluice status`: an overview of the node, how busy its shards are, and how much of each memory budget is used.

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
    let _ = writeln!(text, "{:<width$}  {}", "shards", shards(node).as_deref().unwrap_or("-"));
    let budgets = node["budgets"].as_array().into_iter().flatten().map(|budget| {
        let (used, limit) = (budget["used"].as_u64(), budget["limit"].as_u64());
        let percent = used.zip(limit).map(|(used, limit)| used.saturating_mul(100) / limit.max(1));
        json!({ "name": budget["name"], "used": used, "limit": limit, "percent": percent })
    });
    text.push('\n');
    text + &table(BUDGETS, &budgets.collect::<Vec<_>>())
}

/// Returns how many shards a node has and how busy they are, in one line. Returns `None` if the node does not say.
pub fn shards(node: &Value) -> Option<String> {
    let all = node["shards"].as_array().filter(|all| !all.is_empty())?;
    let busy = |shard: &Value| shard["busy"].as_f64().unwrap_or_default() * 100.0;
    let mut text = all.len().to_string();
    // Writing to a string cannot fail.
    let _ = match node["processors"].as_u64() {
        None => Ok(()),
        Some(1) => write!(text, " on 1 core"),
        Some(cores) => write!(text, " on {cores} cores"),
    };
    let busiest = all.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let average = all.iter().map(busy).sum::<f64>() / all.len() as f64;
    let at_limit = all.iter().filter(|shard| shard["at_limit"] == true).count();
    let _ = match all.len() {
        1 => write!(text, ", busy {average:.0} %"),
        _ => {
            let number = &busiest["number"];
            write!(text, ", busy {average:.0} % on average, shard {number} {:.0} %", busy(busiest))
        }
    };
    let _ = match (at_limit, all.len()) {
        (0, _) => Ok(()),
        (1, 1) => write!(text, ", at its limit"),
        (n, _) => write!(text, ", {n} at the limit"),
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_shown_as_a_table() {
        let node = json!({
            "name": "sluice@h", "node_id": "0a", "boots": 3, "os_pid": "7", "uptime": 12, "mem_used": 99, "mem_limit": 100, "disk_free_limit": 50, "mem_alarm": false,
            "processors": 2, "shards": [{"number": 0, "at_limit": false, "connections": 3, "queues": 7, "busy": 0.4166}],
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
shards               1 on 2 cores, busy 42 %

MEMORY FOR             USED (BYTES)  LIMIT (BYTES)  USED (%)
unfinished_deliveries           512           1024        50
backlog                           0              0         0
";
        assert_eq!(show(&node), expected);
    }

    #[test]
    fn shards_are_one_line() {
        let line = |processors: Value, of: &[(f64, bool)]| {
            let row = |(i, (busy, at_limit)): (usize, &(f64, bool))| json!({ "number": i, "busy": busy, "at_limit": at_limit });
            let rows: Vec<_> = of.iter().enumerate().map(row).collect();
            shards(&json!({ "processors": processors, "shards": rows }))
        };
        assert_eq!(line(1.into(), &[(0.004, false)]).as_deref(), Some("1 on 1 core, busy 0 %"));
        assert_eq!(
            line(8.into(), &[(0.998, true)]).as_deref(),
            Some("1 on 8 cores, busy 100 %, at its limit")
        );
        let four = [(0.1, false), (0.2, false), (0.97, true), (0.05, false)];
        let expected = "4 on 16 cores, busy 33 % on average, shard 2 97 %, 1 at the limit";
        assert_eq!(line(16.into(), &four).as_deref(), Some(expected));
        assert_eq!(line(Value::Null, &four[..2]).as_deref(), Some("2, busy 15 % on average, shard 1 20 %"));
        assert_eq!(line(4.into(), &[]), None);
        assert_eq!(shards(&json!({})), None);
    }
}
