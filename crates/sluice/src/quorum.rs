//! `sluice quorum`: looks into the Raft groups of quorum queues, and maintains them.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::declare::segment;
use crate::failure::Failure;
use crate::http::{Api, Vhost};
use crate::progress::watched;
use crate::table::{Ask, Column, rows_of, table};

#[derive(Args, Debug)]
pub struct Quorum {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// The aliases are the names of `rabbitmq-queues`.
#[derive(Debug, Subcommand)]
enum What {
    /// Show the members of a queue's Raft group and how far their logs have come
    #[command(alias = "quorum_status")]
    Status { queue: String },
    /// Write a new base of a queue's log, so that older entries are no longer needed
    #[command(alias = "force_checkpoint")]
    Checkpoint { queue: String },
    /// Free memory of a queue, and page out its ready messages
    #[command(alias = "reclaim_quorum_memory")]
    ReclaimMemory { queue: String },
    /// Add a member of a queue's group on a node
    #[command(alias = "add_member")]
    AddMember { queue: String, node: String },
    /// Remove the member of a queue's group on a node
    #[command(alias = "delete_member")]
    DeleteMember { queue: String, node: String },
    /// Make the member on a node the leader of a queue's group
    #[command(alias = "transfer_leadership")]
    TransferLeadership { queue: String, node: String },
    /// Add a member on a node to every queue that has none there
    Grow { node: String },
    /// Remove the members of all queues on a node
    Shrink { node: String },
    /// Distribute the leaders of all queues over the nodes
    Rebalance,
}

/// What a request is made of, and how to show its answer.
struct Parts {
    /// Names the operation in error messages.
    words: String,
    method: Method,
    path: String,
    body: Option<Value>,
    show: fn(&Value) -> String,
}

/// Carries out the request, and prints its result.
///
/// # Errors
/// The broker's error.
pub fn run(quorum: &Quorum) -> Result<(), Failure> {
    let Parts { words, method, path, body, show } = quorum.what.parts(&quorum.vhost.vhost);
    let ask = Ask { words: &words, method, path: &path, body: body.as_ref() };
    crate::amqp::block_on(watched(&words, ask.print(&quorum.api, quorum.json, show)))
}

impl What {
    fn parts(&self, vhost: &str) -> Parts {
        let of = |queue: &str, rest: &str| {
            format!("/api/queues/quorum/{}/{}/{rest}", segment(vhost), segment(queue))
        };
        let on = |node: &str| Some(json!({ "node": node }));
        let done: fn(&Value) -> String = |_| "done\n".to_owned();
        let (words, method, path, body, show) = match self {
            Self::Status { queue } => {
                (format!("show queue '{queue}'"), Method::GET, of(queue, "status"), None, status as _)
            }
            Self::Checkpoint { queue } => (
                format!("checkpoint queue '{queue}'"),
                Method::POST,
                of(queue, "checkpoint"),
                None,
                base as _,
            ),
            Self::ReclaimMemory { queue } => {
                let words = format!("reclaim memory of queue '{queue}'");
                (words, Method::POST, of(queue, "reclaim-memory"), None, reclaimed as _)
            }
            Self::AddMember { queue, node } => (
                format!("add a member of queue '{queue}'"),
                Method::POST,
                of(queue, "replicas/add"),
                on(node),
                done,
            ),
            Self::DeleteMember { queue, node } => {
                let words = format!("delete a member of queue '{queue}'");
                (words, Method::DELETE, of(queue, "replicas/delete"), on(node), done)
            }
            Self::TransferLeadership { queue, node } => {
                (format!("transfer queue '{queue}'"), Method::POST, of(queue, "leader"), on(node), done)
            }
            Self::Grow { node } => {
                let path = format!("/api/queues/quorum/replicas/on/{}/grow", segment(node));
                ("grow the quorum queues".to_owned(), Method::POST, path, None, done)
            }
            Self::Shrink { node } => {
                let path = format!("/api/queues/quorum/replicas/on/{}/shrink", segment(node));
                ("shrink the quorum queues".to_owned(), Method::DELETE, path, None, done)
            }
            Self::Rebalance => (
                "rebalance the queues".to_owned(),
                Method::POST,
                "/api/rebalance/queues".to_owned(),
                None,
                done,
            ),
        };
        Parts { words, method, path, body, show }
    }
}

const MEMBERS: &[Column] = &[
    ("NODE", "Node Name"),
    ("STATE", "Raft State"),
    ("TERM", "Term"),
    ("LAST", "Last Log Index"),
    ("WRITTEN", "Last Written"),
    ("COMMITTED", "Commit Index"),
    ("APPLIED", "Last Applied"),
    ("BASE", "Snapshot Index"),
    ("ENTRIES", "Log Entries"),
    ("BYTES", "Log Bytes"),
];

fn status(answer: &Value) -> String {
    table(MEMBERS, rows_of(answer))
}

fn base(answer: &Value) -> String {
    format!("the log has a new base at index {}\n", answer["snapshot_index"])
}

fn reclaimed(answer: &Value) -> String {
    let (freed, paging) = (&answer["freed_bytes"], &answer["paging_bytes"]);
    match (freed.as_u64(), paging.as_u64()) {
        (Some(0), Some(0)) => "there was nothing to reclaim\n".to_owned(),
        _ => format!("{freed} bytes are free again; about {paging} bytes are being paged out\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_table() {
        let answer = json!([{
            "Node Name": "n@h", "Raft State": "leader", "Membership": "voter", "Last Log Index": 12, "Last Written": 12,
            "Last Applied": 11, "Commit Index": 11, "Snapshot Index": 1, "Term": 2, "Log Entries": 11, "Log Bytes": 1024,
        }]);
        let expected = "\
NODE  STATE   TERM  LAST  WRITTEN  COMMITTED  APPLIED  BASE  ENTRIES  BYTES
n@h   leader     2    12       12         11       11     1       11   1024
";
        assert_eq!(status(&answer), expected);
    }

    #[test]
    fn what_was_reclaimed_is_a_sentence() {
        let shown = |freed, paging| reclaimed(&json!({ "freed_bytes": freed, "paging_bytes": paging }));
        assert_eq!(shown(0, 0), "there was nothing to reclaim\n");
        assert_eq!(shown(5, 70), "5 bytes are free again; about 70 bytes are being paged out\n");
    }
}
