//! The columns of lists. `sluice list` shows them, and so does `sluice export report`, some with further ones.

use crate::table::Column;

/// Some of the columns are of [`crate::list::measure`].
pub(crate) const QUEUES: &[Column] = &[
    ("NAME", "name"),
    ("VHOST", "vhost"),
    ("TYPE", "type"),
    ("DURABLE", "durable"),
    ("MESSAGES", "messages"),
    ("READY", "messages_ready"),
    ("UNACKNOWLEDGED", "messages_unacknowledged"),
    ("DELAYED", "messages_delayed"),
    ("DEAD-LETTERING", "messages_dlx"),
    ("CONSUMERS", "consumers"),
    ("AGE S", "age_s"),
    ("PUBLISH/S", "publish_rate"),
    ("DELIVER/S", "deliver_rate"),
    ("FIRST", "first_offset"),
    ("NEXT", "next_offset"),
    ("SEGMENTS", "segments"),
];

pub(crate) const EXCHANGES: &[Column] = &[
    ("NAME", "name"),
    ("VHOST", "vhost"),
    ("TYPE", "type"),
    ("DURABLE", "durable"),
    ("AUTO-DELETE", "auto_delete"),
    ("INTERNAL", "internal"),
];

pub(crate) const BINDINGS: &[Column] = &[
    ("VHOST", "vhost"),
    ("SOURCE", "source"),
    ("DESTINATION", "destination"),
    ("TYPE", "destination_type"),
    ("KEY", "routing_key"),
    ("ARGUMENTS", "arguments"),
];

/// The name of the client is of [`crate::list::name_client`].
pub(crate) const CONNECTIONS: &[Column] = &[
    ("NAME", "name"),
    ("USER", "user"),
    ("BACKEND", "auth_backend"),
    ("VHOST", "vhost"),
    ("PROTOCOL", "protocol"),
    ("CLIENT", "client_name"),
    ("CHANNELS", "channels"),
    ("RECEIVED", "recv_oct"),
    ("SENT", "send_oct"),
];

pub(crate) const SESSIONS: &[Column] = &[
    ("NAME", "name"),
    ("CONTAINER", "container_id"),
    ("USER", "user"),
    ("VHOST", "vhost"),
    ("INCOMING WINDOW", "incoming_window"),
    ("OUTGOING WINDOW", "remote_incoming_window"),
    ("UNSETTLED", "outgoing_unsettled_deliveries"),
    ("PENDING", "outgoing_pending_deliveries"),
];

pub(crate) const SESSIONS_OF_CONNECTION: &[Column] = &[
    ("CHANNEL", "channel_number"),
    ("HANDLES", "handle_max"),
    ("INCOMING WINDOW", "incoming_window"),
    ("OUTGOING WINDOW", "remote_incoming_window"),
    ("UNSETTLED", "outgoing_unsettled_deliveries"),
    ("PENDING", "outgoing_pending_deliveries"),
];

pub(crate) const CHANNELS: &[Column] = &[
    ("NAME", "name"),
    ("USER", "user"),
    ("VHOST", "vhost"),
    ("STATE", "state"),
    ("CONFIRM", "confirm"),
    ("TRANSACTIONAL", "transactional"),
    ("CONSUMERS", "consumer_count"),
    ("PREFETCH", "prefetch_count"),
    ("UNCONFIRMED", "messages_unconfirmed"),
    ("AGE MS", "unconfirmed_age_ms"),
    ("UNACKNOWLEDGED", "messages_unacknowledged"),
    ("AGE MS", "unacknowledged_age_ms"),
];

pub(crate) const CONSUMERS: &[Column] = &[
    ("TAG", "consumer_tag"),
    ("QUEUE", "/queue/name"),
    ("VHOST", "/queue/vhost"),
    ("CHANNEL", "/channel_details/name"),
    ("STATUS", "activity_status"),
    ("ACKS", "ack_required"),
    ("EXCLUSIVE", "exclusive"),
    ("PREFETCH", "prefetch_count"),
    ("UNACKNOWLEDGED", "messages_unacknowledged"),
    ("AGE MS", "unacknowledged_age_ms"),
    ("ARGUMENTS", "arguments"),
];

pub(crate) const LINKS: &[Column] = &[
    ("NAME", "link_name"),
    ("VHOST", "vhost"),
    ("CONNECTION", "connection"),
    ("SESSION", "session"),
    ("DIRECTION", "direction"),
    ("ADDRESS", "address"),
    ("CREDIT", "credit"),
    ("UNSETTLED", "unsettled"),
    ("AGE MS", "age_ms"),
];

pub(crate) const VHOSTS: &[Column] = &[
    ("NAME", "name"),
    ("DEFAULT TYPE", "default_queue_type"),
    ("PROTECTED", "protected_from_deletion"),
    ("LIMITS", "limits"),
    ("TAGS", "tags"),
    ("DESCRIPTION", "description"),
];

pub(crate) const USERS: &[Column] =
    &[("NAME", "name"), ("TAGS", "tags"), ("PASSWORD HASH", "hashing_algorithm")];

pub(crate) const PERMISSIONS: &[Column] =
    &[("USER", "user"), ("VHOST", "vhost"), ("CONFIGURE", "configure"), ("WRITE", "write"), ("READ", "read")];

pub(crate) const TOPIC_PERMISSIONS: &[Column] =
    &[("USER", "user"), ("VHOST", "vhost"), ("EXCHANGE", "exchange"), ("WRITE", "write"), ("READ", "read")];

/// A limit is of a virtual host or of a user.
pub(crate) const LIMITS: &[Column] = &[("VHOST", "vhost"), ("USER", "user"), ("LIMITS", "value")];

/// The last column has the value, which may be a secret.
pub(crate) const PARAMETERS: &[Column] =
    &[("COMPONENT", "component"), ("NAME", "name"), ("VHOST", "vhost"), ("VALUE", "value")];

/// [`PARAMETERS`] without the values.
pub(crate) const PARAMETER_NAMES: &[Column] = PARAMETERS.split_at(PARAMETERS.len() - 1).0;

/// The last column has the value, which may be a secret.
pub(crate) const GLOBAL_PARAMETERS: &[Column] = &[("NAME", "name"), ("VALUE", "value")];

/// [`GLOBAL_PARAMETERS`] without the values.
pub(crate) const GLOBAL_PARAMETER_NAMES: &[Column] =
    GLOBAL_PARAMETERS.split_at(GLOBAL_PARAMETERS.len() - 1).0;

pub(crate) const MEMBERS: &[Column] = &[
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

pub(crate) const POLICIES: &[Column] = &[
    ("NAME", "name"),
    ("VHOST", "vhost"),
    ("PATTERN", "pattern"),
    ("APPLY TO", "apply-to"),
    ("PRIORITY", "priority"),
    ("DEFINITION", "definition"),
];

pub(crate) const TRACES: &[Column] = &[
    ("NAME", "name"),
    ("VHOST", "vhost"),
    ("QUEUE", "queue"),
    ("CONNECTION", "connection"),
    ("SECONDS LEFT", "seconds_left"),
    ("MESSAGES LEFT", "messages_left"),
];

pub(crate) const FEATURE_FLAGS: &[Column] = &[("NAME", "name"), ("STATE", "state")];

pub(crate) const PLUGINS: &[Column] = &[("NAME", "name"), ("DESCRIPTION", "description")];

pub(crate) const DEPRECATED_FEATURES: &[Column] =
    &[("NAME", "name"), ("STATE", "state"), ("USES", "uses"), ("DESCRIPTION", "desc")];

/// The last two columns are the source.
pub(crate) const AUTH_ATTEMPTS_BY_SOURCE: &[Column] = &[
    ("PROTOCOL", "protocol"),
    ("LOGINS", "auth_attempts"),
    ("SUCCEEDED", "auth_attempts_succeeded"),
    ("FAILED", "auth_attempts_failed"),
    ("USER", "username"),
    ("ADDRESS", "remote_address"),
];

pub(crate) const AUTH_ATTEMPTS: &[Column] =
    AUTH_ATTEMPTS_BY_SOURCE.split_at(AUTH_ATTEMPTS_BY_SOURCE.len() - 2).0;
