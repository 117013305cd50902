//! `/api/queues/quorum` and `/api/rebalance`: the Raft groups of quorum queues, as RabbitMQ shows and changes them.

use broker::admin_api::{AdminError, GroupRow, MemberChange, QueueRow};
use serde_json::{Value, json};

use crate::call::Call;
use crate::json;
use crate::reply::{Failure, Reply};

/// Shows the members of a group. There is one node, so there is one member.
pub(crate) async fn status(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    let row = call.api.queue(&call.who, vhost, name).await?;
    if !row.is_quorum() {
        return Err(AdminError::no_group(vhost, name, row.kind).into());
    }
    Ok(Reply::Json(json!([member(&row)])))
}

/// The keys are RabbitMQ's, except those of the log's size.
fn member(row: &QueueRow) -> Value {
    let state = match &row.group {
        _ if row.report.damaged => "damaged",
        // The node of the member does not answer.
        _ if row.is_unknown() => "down",
        None => "not_started",
        Some(group) if group.leads => "leader",
        Some(group) if group.rests => "not_started",
        Some(_) => "recovering",
    };
    let of = |number: fn(&GroupRow) -> u64| row.group.as_ref().map(number);
    json!({
        "Node Name": *row.node,
        "Raft State": state,
        "Membership": "voter",
        "Last Log Index": of(|group| group.last_index),
        "Last Written": of(|group| group.written_index),
        "Last Applied": of(|group| group.applied_index),
        "Commit Index": of(|group| group.commit_index),
        "Snapshot Index": of(|group| group.base_index),
        "Term": of(|group| group.term),
        "Log Entries": of(GroupRow::log_entries),
        "Log Bytes": of(|group| group.log_bytes),
    })
}

pub(crate) async fn checkpoint(call: &Call<'_>) -> Result<Reply, Failure> {
    let index = call.api.checkpoint(&call.who, call.param(0), call.param(1)).await?;
    Ok(Reply::Json(json!({ "snapshot_index": index })))
}

pub(crate) async fn reclaim_memory(call: &Call<'_>) -> Result<Reply, Failure> {
    let reclaimed = call.api.reclaim_memory(&call.who, call.param(0), call.param(1)).await?;
    Ok(Reply::Json(json!({ "freed_bytes": reclaimed.freed_bytes, "paging_bytes": reclaimed.paging_bytes })))
}

/// Changes the member on the node that the body names.
pub(crate) async fn change(call: &Call<'_>, change: MemberChange) -> Result<Reply, Failure> {
    let node = json::text(&call.fields, "node", "")?;
    if node.is_empty() {
        return Err(Failure::bad_request("the body must name a node: {\"node\": NAME}"));
    }
    call.api.change_member(&call.who, call.param(0), call.param(1), &node, change).await?;
    Ok(Reply::NoContent)
}

pub(crate) fn grow(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.grow(&call.who, call.param(0))?;
    Ok(Reply::NoContent)
}

pub(crate) async fn shrink(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.shrink(&call.who, call.param(0)).await?;
    Ok(Reply::NoContent)
}

pub(crate) fn rebalance(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.rebalance(&call.who)?;
    Ok(Reply::NoContent)
}
