//! The lists of a report: where each is asked for, and which of its fields are shown. None of these fields can have a secret: the values
//! of parameters, the properties of clients and the hashes of passwords are not among them.

use serde_json::Value;

use super::cut;
use crate::columns;
use crate::list::{measure, name_client};
use crate::table::{Column, cell, table_of};

/// One list.
pub(super) struct List {
    pub title: &'static str,
    pub path: &'static str,
    /// The columns that `sluice list` shows.
    columns: &'static [Column],
    /// Further ones.
    more: &'static [Column],
    /// Adds to a row what its columns show and the API does not have.
    measure: Option<fn(&mut Value)>,
}

impl List {
    /// Renders rows.
    pub(super) fn table(&self, rows: &[Value]) -> String {
        let columns = [self.columns, self.more].concat();
        let Some(measure) = self.measure else { return cut_table(&columns, rows) };
        let mut rows = rows.to_vec();
        rows.iter_mut().for_each(measure);
        cut_table(&columns, &rows)
    }
}

/// Renders rows as a table whose long cells are cut.
pub(super) fn cut_table(columns: &[Column], rows: &[Value]) -> String {
    table_of(columns, rows, |value| cut(&cell(value)))
}

const fn list(title: &'static str, path: &'static str, columns: &'static [Column]) -> List {
    List { title, path, columns, more: &[], measure: None }
}

impl List {
    const fn with(self, more: &'static [Column]) -> Self {
        Self { more, ..self }
    }

    const fn measured(self, measure: fn(&mut Value)) -> Self {
        Self { measure: Some(measure), ..self }
    }
}

/// All lists, in the order of the report.
pub(super) const LISTS: &[List] = &[
    list("Virtual hosts", "/api/vhosts?disable_stats=true", columns::VHOSTS).with(&[("TRACING", "tracing")]),
    list("Queues", "/api/queues", columns::QUEUES).measured(measure).with(&[
        ("STATE", "state"),
        ("EXCLUSIVE", "exclusive"),
        ("AUTO-DELETE", "auto_delete"),
        ("BYTES", "message_bytes"),
        ("POLICY", "policy"),
        ("OPERATOR POLICY", "operator_policy"),
        ("ARGUMENTS", "arguments"),
    ]),
    list("Exchanges", "/api/exchanges?disable_stats=true", columns::EXCHANGES)
        .with(&[("POLICY", "policy"), ("ARGUMENTS", "arguments")]),
    list("Bindings", "/api/bindings", columns::BINDINGS),
    list("Policies", "/api/policies", columns::POLICIES),
    list("Operator policies", "/api/operator-policies", columns::POLICIES),
    list("Limits of virtual hosts", "/api/vhost-limits", columns::LIMITS),
    list("Limits of users", "/api/user-limits", columns::LIMITS),
    list("Users", "/api/users", columns::USERS),
    list("Permissions", "/api/permissions", columns::PERMISSIONS),
    list("Topic permissions", "/api/topic-permissions", columns::TOPIC_PERMISSIONS),
    list("Parameters, without their values", "/api/parameters", columns::PARAMETER_NAMES),
    list(
        "Global parameters, without their values",
        "/api/global-parameters",
        columns::GLOBAL_PARAMETER_NAMES,
    ),
    list("Connections", "/api/connections", columns::CONNECTIONS).measured(name_client).with(&[
        ("MECHANISM", "auth_mechanism"),
        ("TLS", "ssl"),
        ("STATE", "state"),
    ]),
    list("Sessions of AMQP 1.0", "/api/sessions?disable_stats=true", columns::SESSIONS),
    list("Channels of AMQP 0.9.1", "/api/channels?disable_stats=true", columns::CHANNELS)
        .with(&[("GLOBAL PREFETCH", "global_prefetch_count")]),
    list("Consumers", "/api/consumers", columns::CONSUMERS),
    list("Deprecated features", "/api/deprecated-features", columns::DEPRECATED_FEATURES),
    list("Traces", "/api/traces", columns::TRACES),
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
        assert!(
            lines[1].starts_with("-      a\\u{1b}a") && lines[1].ends_with("...  max-channels=7"),
            "{text}"
        );
        assert!(lines[2].starts_with("-      b  ") && lines[2].ends_with("  -"), "{text}");
        assert!(lines.iter().all(|line| line.len() < 200), "{text}");
    }

    #[test]
    fn values_of_parameters_are_not_shown() {
        let row = json!({"name": "n", "component": "c", "vhost": "/", "value": "a-secret"});
        for list in LISTS
            .iter()
            .filter(|list| list.path.ends_with("-parameters") || list.path.ends_with("/parameters"))
        {
            let text = list.table(std::slice::from_ref(&row));
            assert!(text.contains("\nn") || text.contains("  n  "), "{text}");
            assert!(!text.contains("a-secret"), "{text}");
        }
    }

    /// A column that a list has already is shown once.
    #[test]
    fn further_columns_are_others() {
        for list in LISTS {
            let is_known = |(_, field): &&Column| list.columns.iter().any(|(_, known)| known == field);
            assert_eq!(list.more.iter().find(is_known), None, "{}", list.title);
        }
    }
}
