//! How the answers of the management API are shown to people: lists as tables, and one object as its fields.

use std::fmt::Write as _;

use hyper::Method;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::escape;
use crate::failure::Failure;
use crate::http::{Api, Ask};
use crate::output::print;

/// A column of a table: its heading, and the field that it shows. A field in an object is given as a JSON pointer.
pub(crate) type Column = (&'static str, &'static str);

impl Ask<'_> {
    /// Sends the request, and prints the answer: as JSON, or as `show` renders it.
    ///
    /// # Errors
    /// The broker's error.
    pub(crate) async fn print(
        self,
        api: &Api,
        json: bool,
        show: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        let (_, answer) = api.send(self).await?;
        print(&if json { escape::json(&answer) } else { show(&answer) })
    }
}

/// Asks for a list.
///
/// # Errors
/// The broker's error, or the answer is not a list. `words` names what cannot be done.
pub(crate) async fn list(api: &Api, words: &str, path: &str) -> Result<Vec<Value>, Failure> {
    match api.ask(words, Method::GET, path, None).await? {
        (_, Value::Array(rows)) => Ok(rows),
        _ => Err(api.failed(words, "the answer is not a list")),
    }
}

/// Renders a list: as a table, or as JSON.
pub(crate) fn list_text<T: AsRef<str>>(rows: Vec<Value>, columns: &[(T, T)], json: bool) -> String {
    if json { escape::json(&Value::from(rows)) } else { table(columns, &rows) }
}

/// Returns the rows of a list; none if it is something else.
pub(crate) fn rows_of(answer: &Value) -> &[Value] {
    answer.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the field of a column; null if the row has none.
pub(crate) fn field_of<'a>(row: &'a Value, field: &str) -> &'a Value {
    match field.starts_with('/') {
        true => row.pointer(field).unwrap_or(&Value::Null),
        false => &row[field],
    }
}

/// Renders rows as a table. Columns are two spaces apart; numbers are right-aligned. Widths are those on a terminal.
pub(crate) fn table<T: AsRef<str>>(columns: &[(T, T)], rows: &[Value]) -> String {
    table_of(columns, rows, cell)
}

/// Like [`table`], with another rendering of fields in one line.
pub(crate) fn table_of<T: AsRef<str>>(
    columns: &[(T, T)],
    rows: &[Value],
    cell: impl Fn(&Value) -> String,
) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|(_, field)| cell(field_of(row, field.as_ref()))).collect())
        .collect();
    let width = |i: usize| {
        let heading = columns[i].0.as_ref().width();
        cells.iter().map(|row| row[i].width()).fold(heading, usize::max)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let is_number = |field: &str| rows.iter().any(|row| field_of(row, field).is_number());
    let right: Vec<bool> = columns.iter().map(|(_, field)| is_number(field.as_ref())).collect();
    let mut text = String::new();
    let headings: Vec<String> = columns.iter().map(|(heading, _)| heading.as_ref().to_owned()).collect();
    for row in std::iter::once(&headings).chain(&cells) {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[i] - cell.width());
            line.extend(if right[i] { [&gap, cell.as_str(), "  "] } else { [cell, &gap, "  "] });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Renders a field for people, in one line.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => escape::line(text).into_owned(),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(key, value)| format!("{}={}", escape::line(key), cell(value)));
            let pairs = pairs.collect::<Vec<_>>().join(" ");
            if pairs.is_empty() { "-".to_owned() } else { pairs }
        }
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Renders an object with one field per line, in the order of the object. The fields of an object in a field follow
/// with the names of both, with a dot between.
pub(crate) fn fields(object: &Value) -> String {
    let mut lines = Vec::new();
    collect_fields("", object, &mut lines);
    let width = lines.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        let gap = " ".repeat(width - name.width());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}{gap}  {value}");
        text
    })
}

fn collect_fields(prefix: &str, object: &Value, lines: &mut Vec<(String, String)>) {
    for (name, value) in object.as_object().into_iter().flatten() {
        // A name may come from a client, such as that of an argument.
        let name = format!("{prefix}{}", cell(&name.as_str().into()));
        match value.as_object() {
            Some(inner) if !inner.is_empty() => collect_fields(&format!("{name}."), value, lines),
            _ => lines.push((name, cell(value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_are_aligned() {
        let rows = [
            json!({"source": "", "destination": "ä\u{1b}", "routing_key": 7, "arguments": {}}),
            json!({"source": "logs", "destination": "q", "routing_key": 1234, "arguments": {"x\n": 1}}),
        ];
        let columns =
            [("FROM", "source"), ("TO", "destination"), ("KEY", "routing_key"), ("ARGS", "arguments")];
        let expected = "\
FROM  TO        KEY  ARGS
\"\"    ä\\u{1b}     7  -
logs  q        1234  x\\n=1
";
        assert_eq!(table(&columns, &rows), expected);
    }

    /// A terminal shows Chinese characters in two columns each, and combining marks in none.
    #[test]
    fn wide_characters_are_aligned() {
        let rows = [
            json!({"name": "订单", "n": 1}),
            json!({"name": "e\u{301}te\u{301}", "n": 2}),
            json!({"name": "q", "n": 3}),
        ];
        let expected = "\
NAME  N
订单  1
e\u{301}te\u{301}   2
q     3
";
        assert_eq!(table(&[("NAME", "name"), ("N", "n")], &rows), expected);
        assert_eq!(fields(&json!({"订单": 1, "abc": 2})), "订单  1\nabc   2\n");
    }

    #[test]
    fn an_object_is_shown_as_its_fields() {
        let object = json!({
            "name": "q", "arguments": {}, "stats": {"publish": 7, "details": {"rate": 0.5}}, "tags": ["a", "b"],
            "client": {"\u{1b}": null},
        });
        let expected = "\
name                q
arguments           -
stats.publish       7
stats.details.rate  0.5
tags                a,b
client.\\u{1b}       -
";
        assert_eq!(fields(&object), expected);
        assert_eq!(fields(&json!([])), "");
    }
}
