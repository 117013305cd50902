//! `/api/connections`, and the sessions and links of connections.

use broker::admin_api::amqp10_rows::{LinkRow, SessionRow};
use broker::admin_api::{ConnectionRow, ProtocolRow};
use catalog::access::{self, Resource, Rights, UserRef, Verb};
use serde_json::{Value, json};

use crate::call::Call;
use crate::common_fields::{addresses, channel_name, put_age};
use crate::json::from_amqp;
use crate::reply::{Failure, Reply};
use crate::view::View;
use crate::{shape, vhosts};

/// The reason that the peer receives if the request has no `X-Reason`.
const CLOSE_REASON: &str = "Closed via management plugin";

/// The fields of a session that the parameter `name` of a list looks at. The name begins with that of the connection.
const SESSION_NAMES: [&str; 3] = ["name", "container_id", "user"];

/// Lists connections. Users without the tag `monitoring` see only their own.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let rows = call.api.connections(&call.who).await?;
    Ok(Reply::Json(shape::list(View::of(call)?.connections(&rows), &call.query, &["vhost", "name"]).await?))
}

/// Lists the connections to one virtual host.
pub(crate) async fn in_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let rows = visible(call, Some(call.param(0))).await?;
    Ok(Reply::Json(shape::list(View::of(call)?.connections(&rows), &call.query, &["name"]).await?))
}

/// Lists the connections of one user.
pub(crate) async fn of_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let mut rows = visible(call, None).await?;
    rows.retain(|row| *row.user == *call.param(0));
    Ok(Reply::Json(shape::list(View::of(call)?.connections(&rows), &call.query, &["vhost", "name"]).await?))
}

/// Closes the connections of one user. Succeeds if there are none.
///
/// # Errors
/// 401 if they are those of another user, and the caller is no administrator.
pub(crate) async fn close_of_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let user = call.param(0);
    let may_close = |owner: UserRef<'_>| {
        access::permit(&call.who, Rights::NONE, "", Verb::CloseConnection, &[Resource::Connection(owner)])
    };
    may_close(UserRef { name: user, ..call.who.owner() })
        .map_err(|refused| Failure::not_authorised(refused.reason))?;
    let mut rows = visible(call, None).await?;
    // A user of another backend may have the same name.
    rows.retain(|row| *row.user == *user && may_close(row.owner()).is_ok());
    let reason = call.reason.as_deref().unwrap_or(CLOSE_REASON);
    for row in rows {
        call.api.close_connection(&call.who, &row.name, reason).await?;
    }
    Ok(Reply::NoContent)
}

/// Returns the connections that the user may see, of one virtual host or of all.
///
/// # Errors
/// 404 if there is no such virtual host.
pub(crate) async fn visible(call: &Call<'_>, vhost: Option<&str>) -> Result<Vec<ConnectionRow>, Failure> {
    let mut rows = call.api.connections(&call.who).await?;
    if let Some(vhost) = vhost {
        vhosts::require(call, vhost).await?;
        rows.retain(|row| *row.vhost == *vhost);
    }
    Ok(rows)
}

pub(crate) async fn get(call: &Call<'_>) -> Result<Reply, Failure> {
    let row = require_connection(call).await?;
    Ok(Reply::Json(shape::columns(View::of(call)?.connection(&row), &call.query)))
}

pub(crate) async fn close(call: &Call<'_>) -> Result<Reply, Failure> {
    let (name, reason) = (call.param(0), call.reason.as_deref().unwrap_or(CLOSE_REASON));
    if call.api.close_connection(&call.who, name, reason).await? {
        return Ok(Reply::NoContent);
    }
    Err(no_connection(name))
}

/// Lists the sessions of all virtual hosts, or of the one that the request names.
pub(crate) async fn sessions(call: &Call<'_>) -> Result<Reply, Failure> {
    let rows = visible(call, call.optional_param(0)).await?;
    let view = View::of(call)?;
    let rows = rows.iter().flat_map(|row| view.sessions_with_owner(row)).collect();
    Ok(Reply::Json(shape::list_named_by(&SESSION_NAMES, rows, &call.query, &["name"]).await?))
}

pub(crate) async fn sessions_of_connection(call: &Call<'_>) -> Result<Reply, Failure> {
    let (row, view) = (require_connection(call).await?, View::of(call)?);
    let rows = match &row.protocol {
        ProtocolRow::Amqp10(ours) => {
            ours.sessions.iter().map(|session| view.session(&row, session)).collect()
        }
        // RabbitMQ answers with an empty list, too.
        ProtocolRow::Amqp091(_) => Vec::new(),
    };
    Ok(Reply::Json(shape::list(rows, &call.query, &["channel_number"]).await?))
}

/// Returns the connection that the request names.
///
/// # Errors
/// 404 if there is none, or if the user may not see it.
pub(crate) async fn require_connection(call: &Call<'_>) -> Result<ConnectionRow, Failure> {
    let name = call.param(0);
    call.api.connection(&call.who, name).await?.ok_or_else(|| no_connection(name))
}

fn no_connection(name: &str) -> Failure {
    Failure::not_found(format!("no connection '{name}'"))
}

impl View<'_> {
    fn connections(&self, rows: &[ConnectionRow]) -> Vec<Value> {
        rows.iter().map(|row| self.connection(row)).collect()
    }

    /// Shows a connection with its rates, and with its sessions.
    fn connection(&self, row: &ConnectionRow) -> Value {
        let mut body = to_json(row);
        if let ProtocolRow::Amqp10(ours) = &row.protocol {
            body["sessions"] = ours.sessions.iter().map(|session| self.session(row, session)).collect();
        }
        if self.stats {
            shape::add(&mut body, self.samples.connection(row, &self.ranges));
        }
        body
    }

    /// Shows the sessions of a connection. Each says whose it is, as a channel does.
    fn sessions_with_owner(&self, row: &ConnectionRow) -> Vec<Value> {
        let ProtocolRow::Amqp10(ours) = &row.protocol else { return Vec::new() };
        let ((peer_host, peer_port), _) = addresses(&row.name);
        let shown = |of: &SessionRow| {
            let mut body = self.session(row, of);
            body["name"] = channel_name(&row.name, of.channel).into();
            body["node"] = (*row.node).into();
            body["user"] = (*row.user).into();
            body["vhost"] = (*row.vhost).into();
            body["container_id"] = ours.container_id.as_str().into();
            body["connection_details"] =
                json!({ "name": *row.name, "peer_host": peer_host, "peer_port": peer_port });
            body
        };
        ours.sessions.iter().map(shown).collect()
    }

    fn session(&self, row: &ConnectionRow, of: &SessionRow) -> Value {
        let mut body = session(of);
        self.add_passed(&mut body, &row.name, of.channel, &of.counts);
        body
    }
}

fn to_json(row: &ConnectionRow) -> Value {
    let ((peer_host, peer_port), (host, port)) = addresses(&row.name);
    let mut shown = json!({
        "name": *row.name,
        "node": *row.node,
        "type": "network",
        "state": "running",
        "user": *row.user,
        "auth_backend": row.authority.as_str(),
        "auth_mechanism": row.auth_mechanism,
        "vhost": *row.vhost,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "host": host,
        "port": port,
        "ssl": row.secured.is_some(),
        "connected_at": row.connected_at_ms,
    });
    match &row.protocol {
        ProtocolRow::Amqp10(row) => {
            shown["protocol"] = "AMQP 1-0".into();
            shown["container_id"] = row.container_id.as_str().into();
            shown["client_properties"] = from_amqp(&row.client_properties.clone().unwrap_or_default().into());
            shown["channels"] = row.sessions.len().into();
            shown["channel_max"] = row.channel_max.into();
            shown["frame_max"] = row.frame_max.into();
        }
        ProtocolRow::Amqp091(row) => {
            shown["protocol"] = "AMQP 0-9-1".into();
            shown["client_properties"] = from_amqp(&row.client_properties.clone().into());
            shown["channels"] = row.channels.len().into();
            shown["channel_max"] = row.channel_max.into();
            shown["frame_max"] = row.frame_max.into();
            shown["timeout"] = row.heartbeat_s.into();
            shown["state"] = match (row.is_blocked, row.is_held_back) {
                (true, _) => "blocked",
                (false, true) => "flow",
                (false, false) => "running",
            }
            .into();
        }
    }
    if let Some(secured) = &row.secured {
        shown["ssl_protocol"] = secured.protocol.into();
        shown["ssl_cipher"] = secured.cipher.into();
        if let Some(peer) = &secured.peer {
            shown["peer_cert_subject"] = peer.subject.as_str().into();
            shown["peer_cert_issuer"] = peer.issuer.as_str().into();
            shown["peer_cert_validity"] =
                json!({ "not_before": peer.not_before, "not_after": peer.not_after });
        }
    }
    shown
}

fn session(row: &SessionRow) -> Value {
    let links = |incoming: bool, to_json: fn(&LinkRow) -> Value| -> Value {
        row.links.iter().filter(|l| l.incoming == incoming).map(to_json).collect()
    };
    json!({
        "channel_number": row.channel,
        "handle_max": row.handle_max,
        "next_incoming_id": row.next_incoming_id,
        "incoming_window": row.incoming_window,
        "next_outgoing_id": row.next_outgoing_id,
        "remote_incoming_window": row.remote_incoming_window,
        "outgoing_unsettled_deliveries": row.outgoing_unsettled,
        "outgoing_pending_deliveries": row.outgoing_pending,
        "incoming_links": links(true, incoming_link),
        "outgoing_links": links(false, outgoing_link),
    })
}

fn incoming_link(row: &LinkRow) -> Value {
    let mut shown = json!({
        "handle": row.handle,
        "link_name": row.name,
        "target_address": row.target_address,
        "snd_settle_mode": row.snd_settle_mode,
        "max_message_size": row.max_message_size,
        "delivery_count": row.delivery_count,
        "credit": row.credit,
        "unconfirmed_messages": row.unsettled,
    });
    put_age(&mut shown, "unconfirmed_age_ms", row.unsettled_age_ms);
    shown
}

fn outgoing_link(row: &LinkRow) -> Value {
    let mut shown = json!({
        "handle": row.handle,
        "link_name": row.name,
        "source_address": row.source_address,
        "queue_name": row.consumer.as_ref().map(|consumer| &*consumer.queue),
        "send_settled": row.snd_settle_mode == "settled",
        "max_message_size": row.max_message_size,
        "delivery_count": row.delivery_count,
        "credit": row.credit,
        "unsettled_deliveries": row.unsettled,
        "consumer_timeout": row.consumer_timeout,
    });
    put_age(&mut shown, "unacknowledged_age_ms", row.unsettled_age_ms);
    shown
}
