//! The verbs that maintain the Raft groups of quorum queues: `sluice checkpoint`, `reclaim`, `transfer`, `grow`, `shrink` and `rebalance`, and
//! the members that `sluice add` and `delete` are about.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::amqp::block_on;
use crate::failure::Failure;
use crate::http::{Api, Ask, Vhost};
use crate::objects::segment;
use crate::progress::watched;

#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// A queue: write a new base of its log, so that older entries are no longer needed
    Queue(Group),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Reclaim {
    /// The memory of a queue: free what is not needed, and page out the ready messages
    Memory(Group),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Transfer {
    /// The leadership of a queue's group: the member on a node becomes the leader
    Leadership(Leadership),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Grow {
    /// The groups of all quorum queues: add a member on a node to each that has none there
    Groups(Node),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Shrink {
    /// The groups of all quorum queues: remove their members on a node
    Groups(Node),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rebalance {
    /// The leaders of all queues: distribute them over the nodes
    Leaders(Options),
}

/// The Raft group of a queue.
#[derive(Args, Debug)]
pub(crate) struct Group {
    queue: String,
    #[command(flatten)]
    vhost: Vhost,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub(crate) struct Leadership {
    queue: String,
    node: String,
    #[command(flatten)]
    vhost: Vhost,
    #[command(flatten)]
    options: Options,
}

/// A member of a group. The verb has the options of the management API.
#[derive(Args, Debug)]
pub(crate) struct Member {
    queue: String,
    node: String,
    #[command(flatten)]
    vhost: Vhost,
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Node {
    node: String,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Print the response of the management API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    api: Api,
}

/// Writes a new base of a queue's log, and prints its index.
///
/// # Errors
/// The broker's error.
pub(crate) fn checkpoint(verb: &Checkpoint) -> Result<(), Failure> {
    let Checkpoint::Queue(Group { queue, vhost, options }) = verb;
    let words = format!("checkpoint queue '{queue}'");
    options.ask(&words, Method::POST, &group(vhost, queue, "checkpoint"), None, base)
}

/// Frees memory of a queue, and prints how much.
///
/// # Errors
/// The broker's error.
pub(crate) fn reclaim(verb: &Reclaim) -> Result<(), Failure> {
    let Reclaim::Memory(Group { queue, vhost, options }) = verb;
    let words = format!("reclaim memory of queue '{queue}'");
    options.ask(&words, Method::POST, &group(vhost, queue, "reclaim-memory"), None, reclaimed)
}

/// Makes the member on a node the leader.
///
/// # Errors
/// The broker's error.
pub(crate) fn transfer(verb: &Transfer) -> Result<(), Failure> {
    let Transfer::Leadership(Leadership { queue, node, vhost, options }) = verb;
    let words = format!("transfer queue '{queue}'");
    let body = json!({ "node": node });
    options.ask(&words, Method::POST, &group(vhost, queue, "leader"), Some(&body), done)
}

/// Adds a member on a node to each group that has none there.
///
/// # Errors
/// The broker's error.
pub(crate) fn grow(verb: &Grow) -> Result<(), Failure> {
    let Grow::Groups(Node { node, options }) = verb;
    let path = format!("/api/queues/quorum/replicas/on/{}/grow", segment(node));
    options.ask("grow the quorum queues", Method::POST, &path, None, done)
}

/// Removes the members of all groups on a node.
///
/// # Errors
/// The broker's error.
pub(crate) fn shrink(verb: &Shrink) -> Result<(), Failure> {
    let Shrink::Groups(Node { node, options }) = verb;
    let path = format!("/api/queues/quorum/replicas/on/{}/shrink", segment(node));
    options.ask("shrink the quorum queues", Method::DELETE, &path, None, done)
}

/// Distributes the leaders of all queues over the nodes.
///
/// # Errors
/// The broker's error.
pub(crate) fn rebalance(verb: &Rebalance) -> Result<(), Failure> {
    let Rebalance::Leaders(options) = verb;
    options.ask("rebalance the queues", Method::POST, "/api/rebalance/queues", None, done)
}

impl Member {
    /// Adds the member.
    ///
    /// # Errors
    /// The broker's error.
    pub(crate) async fn add(&self, api: &Api) -> Result<(), Failure> {
        self.ask(api, "add", Method::POST).await
    }

    /// Removes the member.
    ///
    /// # Errors
    /// The broker's error.
    pub(crate) async fn delete(&self, api: &Api) -> Result<(), Failure> {
        self.ask(api, "delete", Method::DELETE).await
    }

    async fn ask(&self, api: &Api, verb: &str, method: Method) -> Result<(), Failure> {
        let Self { queue, node, vhost, json } = self;
        let words = format!("{verb} a member of queue '{queue}'");
        let path = group(vhost, queue, &format!("replicas/{verb}"));
        let ask = Ask::new(&words, method, &path).with(Some(&json!({ "node": node })));
        watched(&words, ask.print(api, *json, done)).await
    }
}

impl Options {
    /// Sends a request, and prints its answer.
    fn ask(
        &self,
        words: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        show: fn(&Value) -> String,
    ) -> Result<(), Failure> {
        let ask = Ask::new(words, method, path).with(body);
        block_on(watched(words, ask.print(&self.api, self.json, show)))
    }
}

fn group(vhost: &Vhost, queue: &str, rest: &str) -> String {
    format!("/api/queues/quorum/{}/{}/{rest}", segment(&vhost.vhost), segment(queue))
}

fn done(_: &Value) -> String {
    "done\n".to_owned()
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
    fn what_was_reclaimed_is_a_sentence() {
        let shown = |freed, paging| reclaimed(&json!({ "freed_bytes": freed, "paging_bytes": paging }));
        assert_eq!(shown(0, 0), "there was nothing to reclaim\n");
        assert_eq!(shown(5, 70), "5 bytes are free again; about 70 bytes are being paged out\n");
    }
}
