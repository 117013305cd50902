//! `sluice status`: an overview of the node in words, with its alarms, its listeners and what is in its queues, and how much of each
//! memory budget is used.

use std::fmt::Write as _;

use clap::Args;
use hyper::Method;
use serde_json::{Value, json};

use crate::escape;
use crate::failure::Failure;
use crate::http::Api;
use crate::table::{Column, cell, table};
use crate::watch::Watch;
use crate::words::counted;
use crate::{alarms, words};

#[derive(Args, Debug)]
pub(crate) struct Status {
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
pub(crate) fn run(status: &Status) -> Result<(), Failure> {
    let make = async || {
        let words = "show the status";
        let (_, answer) = status.api.ask(words, Method::GET, "/api/nodes", None).await?;
        let nodes = match answer {
            Value::Array(nodes) if !nodes.is_empty() => nodes,
            _ => return Err(status.api.failed(words, "the answer is not a list of nodes")),
        };
        Ok(match status.json {
            true => escape::json(&Value::from(nodes)),
            false => {
                let (_, overview) = status.api.ask(words, Method::GET, "/api/overview", None).await?;
                // The node that answers comes first.
                let (own, others): (Vec<_>, Vec<_>) =
                    nodes.iter().partition(|node| node["os_pid"].is_string());
                let own = own.into_iter().map(|node| show(node, Some(&overview)));
                own.chain(others.into_iter().map(|node| format!("\n{}", show(node, None)))).collect()
            }
        })
    };
    crate::amqp::block_on(status.watch.print(make))
}

const BUDGETS: &[Column] =
    &[("MEMORY FOR", "name"), ("USED (BYTES)", "used"), ("LIMIT (BYTES)", "limit"), ("USED (%)", "percent")];

/// Renders a node, its alarms and its budgets. `overview` is that of the broker; without it, listeners and totals are left out.
pub(crate) fn show(node: &Value, overview: Option<&Value>) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    lines.push(("node", cell(&node["name"])));
    if !node["os_pid"].is_string() {
        // Another node of the cluster. Its figures are not known here.
        lines.push(("state", cell(&node["state_text"])));
        lines.extend(first_named("alarms", alarms::of_node(node)));
        return labelled(&lines);
    }
    if let Some(overview) = overview {
        let behaves = cell(&overview["rabbitmq_version"]);
        lines.push((
            "version",
            format!("{}, behaves as RabbitMQ {behaves}", cell(&overview["sluice_version"])),
        ));
    }
    lines.push(("identity", cell(&node["node_id"])));
    lines.push(("starts", cell(&node["boots"])));
    lines.push(("process", cell(&node["os_pid"])));
    lines.push(("uptime", node["uptime"].as_u64().map_or_else(|| "-".to_owned(), words::duration)));
    lines.extend(first_named("alarms", alarms::of_node(node)));
    let size = |field: &str| node[field].as_u64().map_or_else(|| "-".to_owned(), words::bytes);
    let (used, limit) = (size("mem_used"), size("mem_limit"));
    lines.push(("memory", format!("{used} used, publishers are stopped above {limit}")));
    let (free, limit) = (size("disk_free"), size("disk_free_limit"));
    lines.push(("disk", format!("{free} free, publishers are stopped below {limit}")));
    let (used, limit) = (cell(&node["fd_used"]), cell(&node["fd_total"]));
    lines.push(("file descriptors", format!("{used} of {limit}")));
    lines.push(("shards", shards(node).unwrap_or_else(|| "-".to_owned())));
    lines.extend(overview.into_iter().flat_map(totals));
    let mut text = labelled(&lines);
    let budgets = node["budgets"].as_array().into_iter().flatten().map(|budget| {
        let (used, limit) = (budget["used"].as_u64(), budget["limit"].as_u64());
        let percent = used.zip(limit).map(|(used, limit)| used.saturating_mul(100) / limit.max(1));
        json!({ "name": budget["name"], "used": used, "limit": limit, "percent": percent })
    });
    text.push('\n');
    text + &table(BUDGETS, &budgets.collect::<Vec<_>>())
}

/// Writes each line behind its label.
fn labelled(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (label, said) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{label:<width$}  {said}");
    }
    text
}

/// Puts the label before the first line. Returns the label and the word `none` if there are no lines.
fn first_named(label: &'static str, said: Vec<String>) -> Vec<(&'static str, String)> {
    let said = if said.is_empty() { vec!["none".to_owned()] } else { said };
    said.into_iter().enumerate().map(|(i, said)| (if i == 0 { label } else { "" }, said)).collect()
}

/// Returns the lines about listeners, and about the queues and connections of the whole broker.
fn totals(overview: &Value) -> Vec<(&'static str, String)> {
    let listeners = overview["listeners"].as_array().into_iter().flatten().map(|listener| {
        let address = cell(&listener["ip_address"]);
        let address = if address.contains(':') { format!("[{address}]") } else { address };
        format!("{} at {address}:{}", cell(&listener["protocol"]), cell(&listener["port"]))
    });
    let mut lines = first_named("listeners", listeners.collect());
    let total = |name: &str| overview["object_totals"][name].as_u64().unwrap_or_default();
    let length = |name: &str| overview["queue_totals"][name].as_u64().unwrap_or_default();
    lines.push((
        "queues",
        format!(
            "{}, with {}: {} ready, {} unacknowledged",
            total("queues"),
            counted(length("messages"), "message"),
            length("messages_ready"),
            length("messages_unacknowledged")
        ),
    ));
    // As in RabbitMQ, the channels include the sessions of AMQP 1.0.
    let (sessions, channels) = (total("sessions"), total("channels"));
    lines.push((
        "connections",
        format!(
            "{}, with {} of AMQP 1.0, {} of AMQP 0.9.1, {}",
            total("connections"),
            counted(sessions, "session"),
            counted(channels.saturating_sub(sessions), "channel"),
            counted(total("consumers"), "consumer")
        ),
    ));
    let rate = |name: &str| overview["message_stats"][name]["rate"].as_f64().unwrap_or_default();
    lines.push((
        "messages a second",
        format!(
            "{:.1} published, {:.1} delivered, {:.1} acknowledged",
            rate("publish_details"),
            rate("deliver_get_details"),
            rate("ack_details")
        ),
    ));
    let missing: Vec<String> = overview["missing_nodes"].as_array().into_iter().flatten().map(cell).collect();
    if !missing.is_empty() {
        lines.push(("not counted", format!("{}, which did not answer", missing.join(", "))));
    }
    lines
}

/// Returns how many shards a node has and how busy they are, in one line. Returns `None` if the node does not say.
pub(crate) fn shards(node: &Value) -> Option<String> {
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

    fn node() -> Value {
        json!({
            "name": "sluice@h", "node_id": "0a", "boots": 3, "os_pid": "7", "uptime": 12_345, "mem_used": 2048, "mem_limit": 1024,
            "disk_free": 51_000_000, "disk_free_limit": 50_000_000, "mem_alarm": true, "disk_free_alarm": false,
            "certificate_alarm": true, "fd_used": 4, "fd_total": null, "processors": 2,
            "shards": [{"number": 0, "at_limit": false, "connections": 3, "queues": 7, "busy": 0.4166}],
            "budgets": [
                {"name": "unfinished_deliveries", "used": 512, "limit": 1024},
                {"name": "backlog", "used": 0, "limit": 0},
            ],
        })
    }

    #[test]
    fn of_another_node_its_state_and_its_alarms_are_shown() {
        let other = json!({"name": "b@b", "running": true, "state": "in_sight", "state_text": "in order", "mem_alarm": true});
        assert_eq!(
            show(&other, None),
            "node    b@b\nstate   in order\nalarms  memory: publishers are stopped\n"
        );
    }

    #[test]
    fn a_node_is_shown_in_words() {
        let overview = json!({
            "sluice_version": "0.2.0", "rabbitmq_version": "4.3.6",
            "listeners": [
                {"protocol": "amqp", "ip_address": "::", "port": 5672},
                {"protocol": "http", "ip_address": "127.0.0.1", "port": 15672},
            ],
            "object_totals": {"queues": 2, "connections": 3, "channels": 4, "sessions": 1, "consumers": 1},
            "queue_totals": {"messages": 1, "messages_ready": 1, "messages_unacknowledged": 0},
            "message_stats": {"publish_details": {"rate": 1.25}, "ack_details": {"rate": 0.0}},
        });
        let expected = "\
node               sluice@h
version            0.2.0, behaves as RabbitMQ 4.3.6
identity           0a
starts             3
process            7
uptime             12 s
alarms             memory: 2 KiB used, the limit is 1 KiB; publishers are stopped
                   certificate: changed certificates cannot be used, those before stay in use; `sluice check certificates 0 days` \
                   names them
memory             2 KiB used, publishers are stopped above 1 KiB
disk               51 MB (48.6 MiB) free, publishers are stopped below 50 MB (47.7 MiB)
file descriptors   4 of -
shards             1 on 2 cores, busy 42 %
listeners          amqp at [::]:5672
                   http at 127.0.0.1:15672
queues             2, with 1 message: 1 ready, 0 unacknowledged
connections        3, with 1 session of AMQP 1.0, 3 channels of AMQP 0.9.1, 1 consumer
messages a second  1.2 published, 0.0 delivered, 0.0 acknowledged

MEMORY FOR             USED (BYTES)  LIMIT (BYTES)  USED (%)
unfinished_deliveries           512           1024        50
backlog                           0              0         0
";
        assert_eq!(show(&node(), Some(&overview)), expected);
        let mut without_one = overview.clone();
        without_one["missing_nodes"] = json!(["sluice@i"]);
        let line = "\nnot counted        sluice@i, which did not answer\n";
        assert!(show(&node(), Some(&without_one)).contains(line));
        let without = show(&node(), None);
        assert!(
            !without.contains("listeners") && without.contains("\nuptime            12 s\n"),
            "{without}"
        );
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
