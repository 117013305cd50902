//! `/api/nodes/NODE/memory`: what the memory of the node is used for, in RabbitMQ's parts and in the budgets of the broker.

use broker::client_budget::ClientBudget;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::nodes::{MEMORY_STRATEGY, require_node};
use crate::process::Process;
use crate::reply::{Failure, Reply};

/// The part of a budget that no other part has.
const OTHER_BUDGETS: &str = "other_proc";

/// The part of the memory that is in no budget.
const NO_BUDGET: &str = "other_system";

/// RabbitMQ's parts, and the budgets that they show. Those without a budget are 0: Sluice has no such memory, or counts it nowhere.
const PARTS: &[(&str, &[&str])] = &[
    ("connection_readers", &[ClientBudget::Unfinished.name()]),
    ("connection_writers", &[ClientBudget::Unread.name()]),
    ("connection_channels", &[ClientBudget::State.name()]),
    ("connection_other", &["publisher_credit"]),
    ("queue_procs", &["backlog"]),
    ("quorum_queue_procs", &[]),
    ("quorum_queue_dlx_procs", &[]),
    ("stream_queue_procs", &["stream_tails"]),
    ("stream_queue_replica_reader_procs", &["stream_readers"]),
    ("stream_queue_coordinator_procs", &[]),
    ("plugins", &[]),
    ("metadata_store", &[]),
    (OTHER_BUDGETS, &[]),
    ("metrics", &[]),
    ("mgmt_db", &["http_bodies", "http_answers"]),
    ("mnesia", &[]),
    ("quorum_ets", &[]),
    ("metadata_store_ets", &[]),
    ("other_ets", &[]),
    ("binary", &[]),
    ("msg_index", &[]),
    ("code", &[]),
    ("atom", &[]),
    (NO_BUDGET, &[]),
    ("allocated_unused", &[]),
    ("reserved_unallocated", &[]),
];

/// Shows the memory in bytes, or in percent of all of it. `memory` has RabbitMQ's parts, and `budgets` has the broker's own.
///
/// # Errors
/// 404 if there is no such node, or the admin API's error.
pub(crate) async fn memory(call: &Call<'_>, in_percent: bool) -> Result<Reply, Failure> {
    let overview = call.ports.overview(call.api, &call.who).await?;
    require_node(&overview, call.param(0))?;
    let resident = Process::read().resident_bytes;
    let used: u64 = overview.budgets.iter().map(|row| row.used).sum();
    let other = resident.map(|resident| resident.saturating_sub(used));
    let total = used + other.unwrap_or_default();
    let shown = |bytes: u64| if in_percent { bytes.saturating_mul(100) / total.max(1) } else { bytes };
    let part_of = |budget: &str| {
        PARTS.iter().find(|(_, budgets)| budgets.contains(&budget)).map_or(OTHER_BUDGETS, |(part, _)| part)
    };
    let bytes_of = |part: &str| match part {
        NO_BUDGET => other.unwrap_or_default(),
        part => overview.budgets.iter().filter(|row| part_of(row.name) == part).map(|row| row.used).sum(),
    };
    let mut memory: Map<String, Value> =
        PARTS.iter().map(|(part, _)| ((*part).to_owned(), shown(bytes_of(part)).into())).collect();
    let mut budgets: Map<String, Value> =
        overview.budgets.iter().map(|row| (row.name.to_owned(), shown(row.used).into())).collect();
    budgets.insert("other".into(), other.map(shown).into());
    if in_percent {
        memory.insert("total".into(), 100.into());
    } else {
        memory.insert("strategy".into(), MEMORY_STRATEGY.into());
        // The runtime of RabbitMQ has an allocator of its own. Here all of them are the same.
        memory.insert("total".into(), json!({ "erlang": total, "rss": resident, "allocated": resident }));
    }
    Ok(Reply::Json(json!({ "memory": memory, "budgets": budgets })))
}
