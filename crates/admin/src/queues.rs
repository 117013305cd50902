//! `/api/queues`.

use std::fmt::Write as _;
use std::sync::Arc;

use broker::admin_api::{AdminError, QueueRow, QueueSpec};
use catalog::access::Identity;
use catalog::ids::QueueId;
use catalog::{QueueRecord, unknown_queue_arguments};
use node::AdminApi;
use serde_json::{Value, json};

use crate::budget::Reservation;
use crate::call::Call;
use crate::pages::{self, PAGE_BYTES, Source};
use crate::pauses::{Pauses, ROW_STEPS};
use crate::reply::{Failure, Reply};
use crate::samples::{Ranges, Samples};
use crate::shape::{self, Page};
use crate::{channels, clock, json, query::Query, vhosts};

/// The number of rows to request from the admin API at once if all are needed.
const CHUNK_ROWS: usize = 10_000;

/// The number of rows to request from the admin API at once for a response that is generated page by page. It is
/// as many as fit into a page at their usual size in bytes. A page ends with the row that fills it. The rows
/// after that row are discarded and requested again for the next page.
const PAGE_ROWS: std::ops::RangeInclusive<usize> = 4..=64;
const ROW_BYTES: usize = 1_600;

/// The most queues of a list without pages. A longer one is refused; the client must ask for pages.
const LIST_ROWS_MAX: usize = 100_000;

pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let vhost = call.optional_param(0);
    let (page, view) = (Page::of(&call.query)?, View::of(call)?);
    let (reply, total) = match &page {
        Some(page) if !shape::needs_all_rows(&call.query, page) => {
            let (rows, total) = call.api.queues(&call.who, vhost, page.offset(), page.size).await?;
            let rows = rows.iter().map(|row| view.json(row)).collect();
            (Reply::Json(shape::ready_page(rows, total, page, &call.query)?), total)
        }
        None if !shape::wants_other_order(&call.query) => {
            let list = List::new(call, view, &records(call, vhost).await?)?;
            let total = list.ids.len();
            (Reply::Rows(pages::body(list).await?), total)
        }
        _ => {
            let records = records(call, vhost).await?;
            let (mut rows, mut pauses) = (Vec::new(), Pauses::default());
            for records in records.chunks(CHUNK_ROWS) {
                let chunk = call.api.numbered(&call.who, records).await?;
                for row in &chunk {
                    pauses.count(ROW_STEPS).await;
                    rows.push(view.json(row));
                }
            }
            (Reply::Json(shape::list(rows, &call.query, &["vhost", "name"]).await?), records.len())
        }
    };
    if let Some(vhost) = vhost
        && total == 0
    {
        vhosts::require(call, vhost).await?;
    }
    Ok(reply)
}

/// Returns all queues, ordered by name.
async fn records(call: &Call<'_>, vhost: Option<&str>) -> Result<Vec<Arc<QueueRecord>>, Failure> {
    let records = call.api.queue_records(&call.who, vhost).await?;
    let total = records.len();
    if total > LIST_ROWS_MAX {
        return Err(Failure::bad_request(format!(
            "there are {total} queues, more than {LIST_ROWS_MAX}: ask for pages (page, page_size)"
        )));
    }
    Ok(records)
}

/// Generates the whole list page by page. Until the client has read it, it keeps the ids of its queues, not
/// their catalog records. Those would stay in memory when the queues are deleted.
struct List {
    api: AdminApi,
    who: Identity,
    view: View,
    ids: Vec<QueueId>,
    /// The memory of the ids, as counted in the budget for responses.
    _held: Reservation,
    /// The number of queues that were shown or no longer exist.
    next: usize,
    /// The separator before the next row.
    comma: &'static str,
}

impl List {
    fn new(call: &Call<'_>, view: View, records: &[Arc<QueueRecord>]) -> Result<Self, Failure> {
        let ids: Vec<QueueId> = records.iter().map(|record| record.id).collect();
        let held = call.ports.hold_answer(ids.capacity() * size_of::<QueueId>())?;
        let (api, who) = (call.api.clone(), call.who.clone());
        Ok(Self { api, who, view, ids, _held: held, next: 0, comma: "" })
    }
}

impl Source for List {
    async fn next_page(mut self) -> Result<(String, Option<Self>), Failure> {
        let mut page = String::from(if self.next == 0 { "[" } else { "" });
        while page.len() < PAGE_BYTES && self.next < self.ids.len() {
            let fit = (PAGE_BYTES - page.len()) / ROW_BYTES;
            let rows = fit.clamp(*PAGE_ROWS.start(), *PAGE_ROWS.end());
            let until = self.ids.len().min(self.next + rows);
            let records = self.api.queues_by_id(&self.who, &self.ids[self.next..until]).await?;
            let rows = self.api.numbered(&self.who, &records).await?;
            let mut shown = until;
            for (record, row) in records.iter().zip(&rows) {
                if page.len() >= PAGE_BYTES {
                    let behind = self.ids[self.next..until].iter().position(|id| *id == record.id);
                    shown = behind.map_or(until, |behind| self.next + behind);
                    break;
                }
                let row = shape::columns(self.view.json(row), &self.view.query);
                // Writing to a string cannot fail.
                let _ = write!(page, "{}{row}", self.comma);
                self.comma = ",";
            }
            self.next = shown;
        }
        if self.next < self.ids.len() {
            return Ok((page, Some(self)));
        }
        page.push(']');
        Ok((page, None))
    }
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    let row = call.api.queue(&call.who, vhost, name).await?;
    let mut body = View::of(call)?.json(&row);
    // To find the consumers, all connections are asked. So this is not done for a request that does not show them.
    if !row.is_unknown() && !call.query.flag("disable_stats") && shape::shows(&call.query, "consumer_details")
    {
        let consumers = match row.report.consumers {
            0 => Vec::new(),
            _ => channels::consumers_of_queue(call, vhost, name).await?,
        };
        body["consumer_details"] = consumers.into();
    }
    Ok(Reply::Json(shape::columns(body, &call.query)))
}

pub(crate) async fn put(call: &Call<'_>) -> Result<Reply, Failure> {
    if json::boolean(&call.fields, "exclusive", false)? {
        return Err(Failure::bad_request("an exclusive queue must belong to a connection"));
    }
    let spec = QueueSpec {
        vhost: call.param(0).into(),
        name: call.param(1).into(),
        durable: json::boolean(&call.fields, "durable", true)?,
        auto_delete: json::boolean(&call.fields, "auto_delete", false)?,
        arguments: json::arguments(&call.fields)?,
    };
    let created = call.api.declare_queue(&call.who, spec).await?;
    Ok(if created { Reply::Created(None) } else { Reply::NoContent })
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, name) = (call.param(0), call.param(1));
    // Deleting a queue that does not exist succeeds over AMQP, but not here. A user who may delete need not
    // be able to read.
    match call.api.queue(&call.who, vhost, name).await {
        Ok(_) | Err(AdminError::AccessRefused(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let (if_unused, if_empty) = (call.query.flag("if-unused"), call.query.flag("if-empty"));
    call.api.delete_queue(&call.who, vhost, name, if_unused, if_empty).await?;
    Ok(Reply::NoContent)
}

pub(crate) async fn purge(call: &Call<'_>) -> Result<Reply, Failure> {
    call.api.purge_queue(&call.who, call.param(0), call.param(1)).await?;
    Ok(Reply::NoContent)
}

/// How the queues of a request are shown.
struct View {
    query: Query,
    ranges: Ranges,
    samples: Arc<Samples>,
}

impl View {
    fn of(call: &Call<'_>) -> Result<Self, Failure> {
        let samples = call.ports.samples().clone();
        Ok(Self { query: call.query.clone(), ranges: Ranges::of(&call.query)?, samples })
    }

    /// Shows a queue as RabbitMQ does, as far as this broker has the figures. `disable_stats` omits the figures;
    /// `enable_queue_totals` adds the lengths again, without their rates. A queue whose node does not answer has no figures.
    fn json(&self, row: &QueueRow) -> Value {
        let mut body = declared(row);
        if row.is_unknown() {
            return body;
        }
        if !self.query.flag("disable_stats") {
            add_statistics(&mut body, row);
            let (lengths, messages) = self.samples.queue(row, &self.ranges);
            shape::add(&mut body, lengths);
            if let Some(idle_ms) = self.samples.idle_since(row.id) {
                body["idle_since"] = clock::utc(idle_ms).into();
            }
            body["message_stats"] = messages.into();
        } else if self.query.flag("enable_queue_totals") {
            let report = &row.report;
            body["messages"] = report.messages().into();
            body["messages_ready"] = report.ready.into();
            body["messages_unacknowledged"] = report.unsettled.into();
        }
        body
    }
}

/// Returns what a queue is.
fn declared(row: &QueueRow) -> Value {
    let (damaged, is_down) = (row.report.damaged, row.is_unknown());
    let state = match (damaged, is_down) {
        (true, _) => "damaged",
        (false, true) => "down",
        (false, false) => "running",
    };
    let mut body = json!({
        "name": *row.name,
        "vhost": *row.vhost,
        "type": row.kind,
        "durable": row.durable,
        "auto_delete": row.auto_delete,
        "exclusive": row.exclusive,
        "arguments": json::from_arguments(&row.arguments),
        "policy": row.policy.as_deref(),
        "operator_policy": row.operator_policy.as_deref(),
        "effective_policy_definition": json::from_arguments(&row.effective_policy),
        "node": *row.node,
        "state": state,
    });
    json::add_unknown_arguments(&mut body, unknown_queue_arguments(&row.arguments));
    if let Some(quorum) = &row.quorum {
        body["delivery_limit"] = quorum.delivery_limit().map_or("unlimited".into(), Value::from);
    }
    if row.has_members() {
        // A damaged queue is closed: its only member takes part in no group.
        let has_leader = !damaged && !is_down;
        body["leader"] = if has_leader { (*row.node).into() } else { Value::Null };
        body["members"] = json!([*row.node]);
        body["online"] = if has_leader { json!([*row.node]) } else { json!([]) };
    }
    body
}

/// Adds the figures of a queue that have no rate.
fn add_statistics(body: &mut Value, row: &QueueRow) {
    let report = &row.report;
    body["message_bytes"] = report.bytes().into();
    body["message_bytes_ready"] = report.ready_bytes.into();
    body["message_bytes_unacknowledged"] = report.unsettled_bytes.into();
    body["message_bytes_dlx"] = report.leaving_bytes.into();
    body["messages_dlx"] = report.leaving.into();
    body["messages_delayed"] = report.delayed.into();
    body["consumers"] = report.consumers.into();
    // In seconds, as in RabbitMQ.
    body["head_message_timestamp"] = report.head_at_ms.map(|ms| ms / 1000).into();
    if let Some(kept) = &report.stream {
        body["first_offset"] = kept.first.into();
        body["next_offset"] = kept.next.into();
        if let Some(offset) = kept.closed_from {
            body["closed_from"] = offset.into();
        }
        body["segments"] = kept.segments.len().into();
        // `times_ms` are the times of the oldest and the newest chunk, in milliseconds since the epoch.
        body["first_timestamp"] = kept.times_ms.map(|(first, _)| first).into();
        body["last_timestamp"] = kept.times_ms.map(|(_, last)| last).into();
    }
}
