//! The lists of a report: where each is asked for, and which of its fields are shown. None of these fields can have a secret: the values
//! of parameters, the properties of clients and the hashes of passwords are not among them.

use serde_json::{Map, Value};

use super::cut;
use crate::table::{Column, cell, field_of, table};

/// One list.
pub struct List {
    pub title: &'static str,
    pub path: &'static str,
    columns: &'static [Column],
}

impl List {
    /// Renders rows.
    pub fn table(&self, rows: &[Value]) -> String {
        cut_table(self.columns, rows)
    }
}

/// Renders rows as a table whose long cells are cut.
pub fn cut_table(columns: &[Column], rows: &[Value]) -> String {
    let shown: Vec<Value> = rows.iter().map(|row| cut_row(columns, row)).collect();
    let columns: Vec<Column> = columns.iter().map(|(heading, _)| (*heading, *heading)).collect();
    table(&columns, &shown)
}

/// Returns the cells of a row by their headings. Numbers stay numbers, which a table aligns.
fn cut_row(columns: &[Column], row: &Value) -> Value {
    let cells = columns.iter().map(|(heading, field)| {
        let value = match field_of(row, field) {
            value @ (Value::String(_) | Value::Object(_) | Value::Array(_)) => cut(&cell(value)).into(),
            value => value.clone(),
        };
        ((*heading).to_owned(), value)
    });
    Value::Object(cells.collect::<Map<_, _>>())
}

const fn list(title: &'static str, path: &'static str, columns: &'static [Column]) -> List {
    List { title, path, columns }
}

const PERMISSIONS: &[Column] =
    &[("USER", "user"), ("VHOST", "vhost"), ("CONFIGURE", "configure"), ("WRITE", "write"), ("READ", "read")];

const POLICY: &[Column] = &[
    ("NAME", "name"),
    ("VHOST", "vhost"),
    ("PATTERN", "pattern"),
    ("APPLY TO", "apply-to"),
    ("PRIORITY", "priority"),
    ("DEFINITION", "definition"),
];

/// All lists, in the order of the report.
pub const LISTS: &[List] = &[
    list(
        "Virtual hosts",
        "/api/vhosts?disable_stats=true",
        &[
            ("NAME", "name"),
            ("DEFAULT TYPE", "default_queue_type"),
            ("PROTECTED", "protected_from_deletion"),
            ("TRACING", "tracing"),
            ("LIMITS", "limits"),
            ("TAGS", "tags"),
        ],
    ),
    list(
        "Queues",
        "/api/queues",
        &[
            ("NAME", "name"),
            ("VHOST", "vhost"),
            ("TYPE", "type"),
            ("STATE", "state"),
            ("DURABLE", "durable"),
            ("EXCLUSIVE", "exclusive"),
            ("AUTO-DELETE", "auto_delete"),
            ("MESSAGES", "messages"),
            ("READY", "messages_ready"),
            ("UNACKNOWLEDGED", "messages_unacknowledged"),
            ("BYTES", "message_bytes"),
            ("CONSUMERS", "consumers"),
            ("POLICY", "policy"),
            ("OPERATOR POLICY", "operator_policy"),
            ("ARGUMENTS", "arguments"),
        ],
    ),
    list(
        "Exchanges",
        "/api/exchanges?disable_stats=true",
        &[
            ("NAME", "name"),
            ("VHOST", "vhost"),
            ("TYPE", "type"),
            ("DURABLE", "durable"),
            ("AUTO-DELETE", "auto_delete"),
            ("INTERNAL", "internal"),
            ("POLICY", "policy"),
            ("ARGUMENTS", "arguments"),
        ],
    ),
    list(
        "Bindings",
        "/api/bindings",
        &[
            ("VHOST", "vhost"),
            ("SOURCE", "source"),
            ("DESTINATION", "destination"),
            ("TYPE", "destination_type"),
            ("KEY", "routing_key"),
            ("ARGUMENTS", "arguments"),
        ],
    ),
    list("Policies", "/api/policies", POLICY),
    list("Operator policies", "/api/operator-policies", POLICY),
    list("Limits of virtual hosts", "/api/vhost-limits", &[("VHOST", "vhost"), ("LIMITS", "value")]),
    list("Limits of users", "/api/user-limits", &[("USER", "user"), ("LIMITS", "value")]),
    list("Users", "/api/users", &[("NAME", "name"), ("TAGS", "tags"), ("HASHING", "hashing_algorithm")]),
    list("Permissions", "/api/permissions", PERMISSIONS),
    list(
        "Topic permissions",
        "/api/topic-permissions",
        &[
            ("USER", "user"),
            ("VHOST", "vhost"),
            ("EXCHANGE", "exchange"),
            ("WRITE", "write"),
            ("READ", "read"),
        ],
    ),
    list(
        "Parameters, without their values",
        "/api/parameters",
        &[("COMPONENT", "component"), ("NAME", "name"), ("VHOST", "vhost")],
    ),
    list("Global parameters, without their values", "/api/global-parameters", &[("NAME", "name")]),
    list(
        "Connections",
        "/api/connections",
        &[
            ("NAME", "name"),
            ("USER", "user"),
            ("BACKEND", "auth_backend"),
            ("MECHANISM", "auth_mechanism"),
            ("VHOST", "vhost"),
            ("PROTOCOL", "protocol"),
            ("TLS", "ssl"),
            ("STATE", "state"),
            ("CONTAINER", "container_id"),
            ("CHANNELS", "channels"),
            ("RECEIVED", "recv_oct"),
            ("SENT", "send_oct"),
        ],
    ),
    list(
        "Sessions of AMQP 1.0",
        "/api/sessions?disable_stats=true",
        &[
            ("NAME", "name"),
            ("USER", "user"),
            ("VHOST", "vhost"),
            ("INCOMING WINDOW", "incoming_window"),
            ("OUTGOING WINDOW", "remote_incoming_window"),
            ("UNSETTLED", "outgoing_unsettled_deliveries"),
            ("PENDING", "outgoing_pending_deliveries"),
        ],
    ),
    list(
        "Channels of AMQP 0.9.1",
        "/api/channels?disable_stats=true",
        &[
            ("NAME", "name"),
            ("USER", "user"),
            ("VHOST", "vhost"),
            ("STATE", "state"),
            ("CONFIRM", "confirm"),
            ("TRANSACTIONAL", "transactional"),
            ("CONSUMERS", "consumer_count"),
            ("PREFETCH", "prefetch_count"),
            ("GLOBAL", "global_prefetch_count"),
            ("UNCONFIRMED", "messages_unconfirmed"),
            ("UNACKNOWLEDGED", "messages_unacknowledged"),
            ("OLDEST MS", "unacknowledged_age_ms"),
        ],
    ),
    list(
        "Consumers",
        "/api/consumers",
        &[
            ("TAG", "consumer_tag"),
            ("QUEUE", "/queue/name"),
            ("VHOST", "/queue/vhost"),
            ("CHANNEL", "/channel_details/name"),
            ("STATUS", "activity_status"),
            ("ACKS", "ack_required"),
            ("EXCLUSIVE", "exclusive"),
            ("PREFETCH", "prefetch_count"),
            ("UNACKNOWLEDGED", "messages_unacknowledged"),
            ("OLDEST MS", "unacknowledged_age_ms"),
            ("ARGUMENTS", "arguments"),
        ],
    ),
    list(
        "Deprecated features",
        "/api/deprecated-features",
        &[("NAME", "name"), ("STATE", "state"), ("USES", "uses")],
    ),
    list(
        "Traces",
        "/api/traces",
        &[
            ("NAME", "name"),
            ("VHOST", "vhost"),
            ("QUEUE", "queue"),
            ("CONNECTION", "connection"),
            ("SECONDS LEFT", "seconds_left"),
            ("MESSAGES LEFT", "messages_left"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_cell_is_cut_and_the_others_stay() {
        let rows =
            [json!({"user": "a\u{1b}".repeat(500), "value": {"max-channels": 7}}), json!({"user": "b"})];
        let users = LISTS.iter().find(|list| list.title == "Limits of users").unwrap();
        let text = users.table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("a\\u{1b}a") && lines[1].ends_with("...  max-channels=7"), "{text}");
        assert!(lines[2].starts_with("b  ") && lines[2].ends_with("  -"), "{text}");
        assert!(lines.iter().all(|line| line.len() < 200), "{text}");
    }

    /// A table shows each heading once.
    #[test]
    fn headings_of_a_list_differ() {
        for list in LISTS {
            let mut headings: Vec<&str> = list.columns.iter().map(|(heading, _)| *heading).collect();
            headings.sort_unstable();
            headings.dedup();
            assert_eq!(headings.len(), list.columns.len(), "{}", list.title);
        }
    }
}
