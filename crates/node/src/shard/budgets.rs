//! The budgets of memory that clients can make a shard take.

use broker::desk::BudgetRow;

use super::Shard;

/// A budget: its name, what is used of it here, and the part of the node's limit that is this shard's, all in bytes. Some
/// budgets know no parts: they are the node's, and the parts are only there to make up its limit.
type Budget = (&'static str, fn(&Shard) -> u64, fn(&Shard) -> u64);

/// Every budget of the shards, in the order in which they are shown. `docs/operations.md` has a line for each.
const BUDGETS: &[Budget] = &[
    (
        "unfinished_deliveries",
        |shard| shard.connections.unfinished(shard.here.id).0,
        |shard| shard.connections.unfinished(shard.here.id).1,
    ),
    (
        "stream_readers",
        |shard| of_node(shard, shard.connections.node_reader_memory().bytes()),
        |shard| of_node(shard, shard.connections.node_reader_memory().limit()),
    ),
    ("stream_tails", |shard| shard.tails().0, |shard| shard.tails().1),
    (
        "publisher_credit",
        |shard| shard.connections.publisher_credit().0,
        |shard| shard.connections.publisher_credit().1,
    ),
    ("backlog", |shard| shard.storage.backlog().0, |shard| shard.storage.backlog().1),
];

/// What is counted of the whole node: the first shard tells it.
fn of_node(shard: &Shard, bytes: u64) -> u64 {
    if shard.here.id == 0 { bytes } else { 0 }
}

impl Shard {
    /// What is used of each budget here.
    pub fn budgets(&self) -> Vec<BudgetRow> {
        let row = |&(name, used, limit): &Budget| BudgetRow { name, used: used(self), limit: limit(self) };
        BUDGETS.iter().map(row).collect()
    }
}
