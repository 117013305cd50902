//! `/api/channels` and `/api/consumers`.
//!
//! Channels are those of AMQP 0.9.1. Sessions of AMQP 1.0 are at their connection, as in RabbitMQ, with the same figures. Consumers are those of
//! all protocols: a session and a link of AMQP 1.0 stand for the channel and the consumer tag.

use broker::admin_api::amqp10_rows::SessionRow;
use broker::admin_api::amqp091_rows::{Amqp091Row, ChannelRow};
use broker::admin_api::{ConnectionRow, ConsumerRow, ProtocolRow};
use serde_json::{Value, json};

use crate::call::Call;
use crate::common_fields::{addresses, channel_name, put_age, split_name};
use crate::connections::{require_connection, visible};
use crate::json::from_amqp;
use crate::reply::{Failure, Reply};
use crate::shape;
use crate::view::View;

/// The fields of a consumer that the parameter `name` of a list looks at. The name of a channel begins with that of its connection.
const CONSUMER_NAMES: [&str; 4] =
    ["consumer_tag", "queue.name", "channel_details.name", "channel_details.user"];

/// Lists the channels of all virtual hosts, or of the one that the request names.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let rows = visible(call, call.optional_param(0)).await?;
    let view = View::of(call)?;
    let rows = rows.iter().flat_map(|row| view.channels(row)).collect();
    Ok(Reply::Json(shape::list(rows, &call.query, &["name"]).await?))
}

pub(crate) async fn of_connection(call: &Call<'_>) -> Result<Reply, Failure> {
    let row = require_connection(call).await?;
    Ok(Reply::Json(shape::list(View::of(call)?.channels(&row), &call.query, &["name"]).await?))
}

/// Returns a channel with its consumers.
pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.param(0);
    let missing = || Failure::not_found(format!("no channel '{name}'"));
    let (connection, number) = split_name(name).ok_or_else(missing)?;
    let row = call.api.connection(&call.who, connection).await?.ok_or_else(missing)?;
    let ProtocolRow::Amqp091(ours) = &row.protocol else { return Err(missing()) };
    let channel = ours.channels.iter().find(|channel| channel.number == number).ok_or_else(missing)?;
    let mut shown = View::of(call)?.channel(&row, ours, channel);
    shown["consumer_details"] =
        channel.consumers.iter().map(|consumer| consumer_json(&row, number, consumer)).collect();
    Ok(Reply::Json(shape::columns(shown, &call.query)))
}

/// Lists the consumers of all virtual hosts, or of the one that the request names.
pub(crate) async fn consumers(call: &Call<'_>) -> Result<Reply, Failure> {
    let rows = visible(call, call.optional_param(0)).await?;
    let shown = rows.iter().flat_map(|row| consumers_of(row, None)).collect();
    let sort = ["channel_details.name", "consumer_tag"];
    Ok(Reply::Json(shape::list_named_by(&CONSUMER_NAMES, shown, &call.query, &sort).await?))
}

/// Returns the consumers of a queue, as far as the user may see their connections.
pub(crate) async fn consumers_of_queue(
    call: &Call<'_>,
    vhost: &str,
    queue: &str,
) -> Result<Vec<Value>, Failure> {
    let rows = visible(call, Some(vhost)).await?;
    Ok(rows.iter().flat_map(|row| consumers_of(row, Some(queue))).collect())
}

/// Shows the consumers of a connection: those of one queue, or all.
fn consumers_of(row: &ConnectionRow, queue: Option<&str>) -> Vec<Value> {
    let numbered = numbered_consumers(row);
    let wanted = numbered.iter().filter(|(_, consumer)| queue.is_none_or(|queue| *consumer.queue == *queue));
    wanted.map(|(number, consumer)| consumer_json(row, *number, consumer)).collect()
}

/// Returns the consumers of a connection with the numbers of their channels or sessions.
pub(crate) fn numbered_consumers<'a>(row: &'a ConnectionRow) -> Vec<(u16, &'a ConsumerRow)> {
    match &row.protocol {
        ProtocolRow::Amqp091(ours) => {
            let of =
                |channel: &'a ChannelRow| channel.consumers.iter().map(|consumer| (channel.number, consumer));
            ours.channels.iter().flat_map(of).collect()
        }
        ProtocolRow::Amqp10(ours) => {
            let of = |session: &'a SessionRow| {
                let consumers = session.links.iter().filter_map(|link| link.consumer.as_ref());
                consumers.map(|consumer| (session.channel, consumer))
            };
            ours.sessions.iter().flat_map(of).collect()
        }
    }
}

impl View<'_> {
    fn channels(&self, row: &ConnectionRow) -> Vec<Value> {
        match &row.protocol {
            ProtocolRow::Amqp091(ours) => {
                ours.channels.iter().map(|channel| self.channel(row, ours, channel)).collect()
            }
            ProtocolRow::Amqp10(_) => Vec::new(),
        }
    }

    /// Shows a channel. `disable_stats` omits what passed over it.
    fn channel(&self, row: &ConnectionRow, ours: &Amqp091Row, channel: &ChannelRow) -> Value {
        let mut body = channel_json(row, ours, channel);
        self.add_passed(&mut body, &row.name, channel.number, &channel.counts);
        body
    }
}

fn channel_json(row: &ConnectionRow, ours: &Amqp091Row, channel: &ChannelRow) -> Value {
    let ((peer_host, peer_port), _) = addresses(&row.name);
    let mut shown = json!({
        "name": channel_name(&row.name, channel.number),
        "number": channel.number,
        "node": *row.node,
        "user": *row.user,
        "user_who_performed_action": *row.user,
        "vhost": *row.vhost,
        "state": if ours.is_held_back { "flow" } else { "running" },
        "confirm": channel.confirms,
        "transactional": channel.transactional,
        "consumer_count": channel.consumers.len(),
        "messages_unacknowledged": channel.unsettled,
        "messages_unconfirmed": channel.unconfirmed,
        "messages_uncommitted": channel.uncommitted,
        "acks_uncommitted": channel.uncommitted_settlements,
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.shared_prefetch,
        "connection_details": {
            "name": *row.name,
            "peer_host": peer_host,
            "peer_port": peer_port,
        },
    });
    put_age(&mut shown, "unacknowledged_age_ms", channel.unsettled_age_ms);
    put_age(&mut shown, "unconfirmed_age_ms", channel.unconfirmed_age_ms);
    shown
}

fn consumer_json(row: &ConnectionRow, number: u16, consumer: &ConsumerRow) -> Value {
    let ((peer_host, peer_port), _) = addresses(&row.name);
    let mut arguments = from_amqp(&consumer.arguments.clone().into());
    if consumer.priority != 0 {
        arguments["x-priority"] = consumer.priority.into();
    }
    let mut shown = json!({
        "consumer_tag": *consumer.tag,
        "queue": { "name": *consumer.queue, "vhost": *row.vhost },
        "ack_required": !consumer.settled,
        "active": consumer.active != Some(false),
        "activity_status": match consumer.active {
            _ if consumer.browses => "browsing",
            None => "up",
            Some(true) => "single_active",
            Some(false) => "waiting",
        },
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "consumer_timeout": consumer.timeout_ms,
        "messages_unacknowledged": consumer.unsettled,
        "arguments": arguments,
        "channel_details": {
            "name": channel_name(&row.name, number),
            "number": number,
            "node": *row.node,
            "connection_name": *row.name,
            "peer_host": peer_host,
            "peer_port": peer_port,
            "user": *row.user,
        },
    });
    put_age(&mut shown, "unacknowledged_age_ms", consumer.unsettled_age_ms);
    shown
}
