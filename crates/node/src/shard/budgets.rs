//! The memory budgets of a shard. Clients can make a shard use this memory.

use broker::admin_api::BudgetRow;
use broker::client_budget::ClientBudget;

use super::Shard;

/// A budget: its name, the bytes used here, and this shard's part of the node's limit in bytes. Some budgets
/// are only the node's as a whole; their parts only add up to its limit.
type Budget = (&'static str, fn(&Shard) -> u64, fn(&Shard) -> u64);

/// All budgets of a shard, in the order in which they are shown. `docs/operations/size.md` has a line for each.
const BUDGETS: &[Budget] = &[
    (
        ClientBudget::Unfinished.name(),
        |shard| shard.connections.held(ClientBudget::Unfinished, shard.here.id).0,
        |shard| shard.connections.held(ClientBudget::Unfinished, shard.here.id).1,
    ),
    (
        ClientBudget::Unread.name(),
        |shard| shard.connections.held(ClientBudget::Unread, shard.here.id).0,
        |shard| shard.connections.held(ClientBudget::Unread, shard.here.id).1,
    ),
    (
        ClientBudget::State.name(),
        |shard| shard.connections.held(ClientBudget::State, shard.here.id).0,
        |shard| shard.connections.held(ClientBudget::State, shard.here.id).1,
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

/// A number that counts for the whole node is reported by the first shard only.
fn of_node(shard: &Shard, bytes: u64) -> u64 {
    if shard.here.id == 0 { bytes } else { 0 }
}

impl Shard {
    /// Returns what is used of each budget here.
    pub fn budgets(&self) -> Vec<BudgetRow> {
        let row = |&(name, used, limit): &Budget| BudgetRow { name, used: used(self), limit: limit(self) };
        BUDGETS.iter().map(row).collect()
    }
}
