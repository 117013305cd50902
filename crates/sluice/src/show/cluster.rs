//! `sluice show cluster`: the nodes of a cluster as the node sees them that answers.

use hyper::Method;
use serde_json::{Value, json};

use super::Options;
use crate::amqp::block_on;
use crate::escape;
use crate::failure::Failure;
use crate::table::{Column, cell, rows_of, table};
use crate::words::{self, counted};

const COLUMNS: &[Column] = &[
    ("NODE", "name"),
    ("ADDRESS", "address"),
    ("STATE", "state"),
    ("FOR", "since"),
    ("ROUND TRIP (MS)", "round_trip_ms"),
    ("WAITING (BYTES)", "waiting_bytes"),
    ("WHY", "why"),
];

/// Prints who decides about definitions, a line for each node, and what is wrong.
///
/// # Errors
/// The broker's error.
pub(super) fn show(options: &Options) -> Result<(), Failure> {
    block_on(options.watch.print(async || {
        let words = "show the cluster";
        let (_, nodes) = options.api.ask(words, Method::GET, "/api/nodes", None).await?;
        if options.json {
            return Ok(escape::json(&nodes));
        }
        match rows_of(&nodes) {
            [] => Err(options.api.failed(words, "the answer is not a list of nodes")),
            rows => Ok(shown(rows)),
        }
    }))
}

fn shown(nodes: &[Value]) -> String {
    let is_in_minority = nodes.iter().any(|node| node["cluster"]["majority"] == false);
    let leader = match nodes.iter().find(|node| node["leads"] == true) {
        _ if is_in_minority => "No node that this one sees can decide about definitions.".to_owned(),
        Some(node) => format!("{} decides about definitions.", cell(&node["name"])),
        None => "This node does not know which node decides about definitions.".to_owned(),
    };
    let rows: Vec<Value> = nodes.iter().map(row).collect();
    format!("{leader}\n\n{}\n{}\n", table(COLUMNS, &rows), verdict(nodes))
}

fn row(node: &Value) -> Value {
    // The text of a node in order says nothing more than its state, unless there are remarks.
    let why = node["state_text"].as_str().filter(|text| !["this node", "in order"].contains(text));
    json!({
        "name": node["name"],
        "address": node["address"],
        "state": state(node),
        "since": node["state_ms"].as_u64().map(words::duration),
        "round_trip_ms": node["round_trip_ms"],
        "waiting_bytes": node["waiting_bytes"],
        "why": why.map(|text| text.trim_start_matches("in order; ")),
    })
}

/// Returns the state of a node in words.
fn state(node: &Value) -> String {
    let state = match node["state"].as_str().unwrap_or_default() {
        "this_node" => "this node",
        "in_sight" => "in sight",
        "unwell" => "stands still",
        "one_way" => "one direction only",
        "missing" => "missing",
        "never_seen" => "not seen yet",
        "stranger" => "refused",
        "unlisted" => "not listed",
        _ => "unknown",
    };
    let votes = if node["votes"] == true { "" } else { ", does not vote" };
    format!("{state}{votes}")
}

/// Returns a sentence that says what is wrong, the worst only, and what to do.
fn verdict(nodes: &[Value]) -> String {
    let own = nodes.iter().find(|node| node["state"] == "this_node").unwrap_or(&Value::Null);
    let [_, _, ..] = nodes else { return "This node is in no cluster.".to_owned() };
    let named = |is_meant: &dyn Fn(&Value) -> bool| {
        let names: Vec<String> =
            nodes.iter().filter(|node| is_meant(node)).map(|node| cell(&node["name"])).collect();
        Some(names.join(", ")).filter(|names| !names.is_empty())
    };
    if own["cluster"]["majority"] == false {
        let missing = named(&|node| node["votes"] == true && node["running"] != true);
        let since = own["cluster"]["minority_ms"].as_u64().map(words::duration);
        return format!(
            "This node is in a minority{}: definitions cannot be changed here. Start the missing nodes, or repair the network to them: {}.",
            since.map_or_else(String::new, |since| format!(", for {since} now")),
            missing.unwrap_or_else(|| "none of those that vote is known".to_owned())
        );
    }
    if let Some(names) = named(&|node| node["state"] == "one_way") {
        return format!(
            "Connections pass in one direction only. Look at firewalls and routes between this node and {names}."
        );
    }
    if let Some(names) = named(&|node| node["running"] != true) {
        return format!("Definitions can be changed, but not all nodes are there. Start or repair {names}.");
    }
    if !nodes.iter().any(|node| node["leads"] == true) {
        return "The nodes have not agreed yet which of them decides about definitions. Usually this takes less than a second.".to_owned();
    }
    let has_alarm = |node: &Value| node["mem_alarm"] == true || node["disk_free_alarm"] == true;
    if let Some(names) = named(&has_alarm) {
        return format!(
            "Publishers are stopped on all nodes: memory or disk is short on {names}. `sluice status` says which."
        );
    }
    if let Some(names) = named(&|node| node["clocks_apart"] == true) {
        return format!(
            "Clocks differ by more than a second. Set those of this node and of {names} by a time service."
        );
    }
    format!("All {} are in sight.", counted(nodes.len() as u64, "node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Value> {
        vec![
            json!({
                "name": "a@a", "address": "a:25672", "state": "this_node", "state_text": "this node", "state_ms": 61_000, "running": true,
                "votes": true, "leads": true, "cluster": {"majority": true},
            }),
            json!({
                "name": "b@b", "address": "b:25672", "state": "in_sight", "state_text": "in order", "state_ms": 60_000, "running": true,
                "votes": true, "leads": false, "round_trip_ms": 1, "waiting_bytes": 0, "clocks_apart": false,
            }),
            json!({
                "name": "c@c", "address": "c:25672", "state": "missing", "state_text": "nothing is heard from it", "state_ms": 7_500_000,
                "running": false, "votes": true, "leads": false, "waiting_bytes": 0,
            }),
        ]
    }

    #[test]
    fn a_cluster_is_a_table_and_a_verdict() {
        let expected = "\
a@a decides about definitions.

NODE  ADDRESS  STATE      FOR        ROUND TRIP (MS)  WAITING (BYTES)  WHY
a@a   a:25672  this node  1 min 1 s                -                -  -
b@b   b:25672  in sight   1 min 0 s                1                0  -
c@c   c:25672  missing    2 h 5 min                -                0  nothing is heard from it

Definitions can be changed, but not all nodes are there. Start or repair c@c.
";
        assert_eq!(shown(&nodes()), expected);
        let mut minority = nodes();
        minority[0]["cluster"]["majority"] = false.into();
        assert!(shown(&minority).starts_with("No node that this one sees can decide"));
    }

    #[test]
    fn the_verdict_says_what_is_wrong() {
        let said = |change: &dyn Fn(&mut Vec<Value>)| {
            let mut nodes = nodes();
            change(&mut nodes);
            verdict(&nodes)
        };
        let well = |nodes: &mut Vec<Value>| {
            nodes[2]["running"] = true.into();
            nodes[2]["state"] = "in_sight".into();
        };
        assert_eq!(said(&well), "All 3 nodes are in sight.");
        assert_eq!(said(&|nodes| nodes.truncate(1)), "This node is in no cluster.");
        let minority = said(&|nodes| {
            nodes[0]["cluster"] = json!({"majority": false, "minority_ms": 61_000});
            nodes[1]["running"] = false.into();
        });
        assert!(
            minority.starts_with("This node is in a minority, for 1 min 1 s now: ")
                && minority.ends_with("to them: b@b, c@c."),
            "{minority}"
        );
        let one_way = said(&|nodes| nodes[2]["state"] = "one_way".into());
        assert!(one_way.ends_with("between this node and c@c."), "{one_way}");
        let alarm = said(&|nodes| {
            well(nodes);
            nodes[1]["disk_free_alarm"] = true.into();
        });
        assert!(alarm.contains("short on b@b"), "{alarm}");
        let clocks = said(&|nodes| {
            well(nodes);
            nodes[1]["clocks_apart"] = true.into();
        });
        assert!(clocks.contains("of this node and of b@b"), "{clocks}");
        let leaderless = said(&|nodes| {
            well(nodes);
            nodes[0]["leads"] = false.into();
        });
        assert!(leaderless.starts_with("The nodes have not agreed"), "{leaderless}");
    }
}
