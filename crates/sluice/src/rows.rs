//! Which rows and columns of a list are shown, and in which order.

use std::borrow::Cow;
use std::cmp::Ordering;

use catalog::pattern::Pattern;
use clap::Args;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::table::{Column, cell, field_of};

/// What to show of a list.
#[derive(Args, Debug, Default)]
pub(crate) struct Selection {
    /// Sort by this column: its heading, or a field of the JSON such as message_stats.publish
    #[arg(long, global = true, value_name = "COLUMN")]
    sort: Option<String>,
    /// Reverse the order
    #[arg(long, global = true)]
    reverse: bool,
    /// Show only these columns, with commas between
    #[arg(long, global = true, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Show only rows with this value: COLUMN=VALUE, or with !=, >, <, >=, <=, or ~ and a regular expression; may be repeated
    #[arg(long = "filter", global = true, value_name = "CONDITION", value_parser = Condition::parse)]
    filters: Vec<Condition>,
}

/// A condition on a column.
#[derive(Clone, Debug)]
struct Condition {
    column: String,
    sign: &'static str,
    value: String,
    /// The regular expression, if the sign is `~`.
    pattern: Option<Pattern>,
}

impl Condition {
    fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(['=', '!', '<', '>', '~']).filter(|at| *at > 0);
        let (column, rest) = text.split_at(at.unwrap_or_default());
        // The longer ones first.
        let found = ["!=", ">=", "<=", "=", ">", "<", "~"]
            .into_iter()
            .find_map(|sign| rest.strip_prefix(sign).map(|value| (sign, value)));
        let (sign, value) = found.filter(|_| !column.is_empty()).ok_or_else(|| {
            "COLUMN=VALUE is needed, or another sign instead of =: !=, >, <, >=, <=, or ~ and a regular expression"
                .to_owned()
        })?;
        let pattern = if sign == "~" { Some(Pattern::new(value)?) } else { None };
        Ok(Self { column: column.trim().to_owned(), sign, value: value.trim().to_owned(), pattern })
    }

    fn holds(&self, row: &Value, field: &str) -> bool {
        let found = find(row, field);
        if let Some(pattern) = &self.pattern {
            return pattern.is_match(&text(found));
        }
        let order = match (found.as_f64(), self.value.parse::<f64>()) {
            (Some(found), Ok(wanted)) => found.partial_cmp(&wanted),
            // What is not there is neither larger nor smaller than a number.
            (None, Ok(_)) if found.is_null() && self.sign != "!=" => None,
            _ => Some((*text(found)).cmp(&self.value)),
        };
        match self.sign {
            "=" => order == Some(Ordering::Equal),
            "!=" => order != Some(Ordering::Equal),
            ">" => order == Some(Ordering::Greater),
            "<" => order == Some(Ordering::Less),
            ">=" => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            _ => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        }
    }
}

impl Selection {
    /// Leaves the selected rows in the wanted order, and returns the columns to show. `known` are all columns of the list, and `shown`
    /// those that it has by default.
    ///
    /// # Errors
    /// A usage failure: there is no such column.
    pub(crate) fn apply(
        &self,
        rows: &mut Vec<Value>,
        known: &[Column],
        shown: Vec<Column>,
    ) -> Result<Vec<(String, String)>, Failure> {
        for condition in &self.filters {
            let (_, field) = resolve("--filter", &condition.column, known, rows)?;
            rows.retain(|row| condition.holds(row, &field));
        }
        if let Some(sort) = &self.sort {
            let (_, field) = resolve("--sort", sort, known, rows)?;
            rows.sort_by(|a, b| order(find(a, &field), find(b, &field)));
        }
        if self.reverse {
            rows.reverse();
        }
        let owned = |(heading, field): &Column| ((*heading).to_owned(), (*field).to_owned());
        if self.columns.is_empty() {
            return Ok(shown.iter().map(owned).collect());
        }
        self.columns.iter().map(|column| resolve("--columns", column, known, rows)).collect()
    }

    /// Returns true if the columns to show were named.
    pub(crate) fn chooses_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Returns the rows with the selected fields only, if columns are selected.
    pub(crate) fn project(&self, rows: Vec<Value>, columns: &[(String, String)]) -> Vec<Value> {
        if self.columns.is_empty() {
            return rows;
        }
        let name = |field: &str| field.strip_prefix('/').unwrap_or(field).replace('/', ".");
        let project = |row: Value| {
            let fields = columns.iter().map(|(_, field)| (name(field), find(&row, field).clone()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        rows.into_iter().map(project).collect()
    }
}

/// Finds the column that a word names: by its heading, its field, or a field of a row, with dots between the names of nested ones.
/// Returns its heading and its field.
fn resolve(option: &str, word: &str, known: &[Column], rows: &[Value]) -> Result<(String, String), Failure> {
    let plain = |text: &str| text.to_lowercase().replace([' ', '_'], "-");
    let wanted = plain(word);
    let by_heading = known.iter().find(|(heading, _)| plain(heading) == wanted);
    let by_field = || known.iter().find(|(_, field)| plain(field) == wanted);
    if let Some((heading, field)) = by_heading.or_else(by_field) {
        return Ok(((*heading).to_owned(), (*field).to_owned()));
    }
    let field = if word.contains('.') { format!("/{}", word.replace('.', "/")) } else { word.to_owned() };
    // An empty list does not say which fields its rows have.
    if rows.is_empty() || rows.iter().any(|row| has(row, &field)) {
        return Ok((word.to_uppercase(), field));
    }
    let headings: Vec<String> = known.iter().map(|(heading, _)| plain(heading)).collect();
    Err(Failure::usage(format!(
        "{option}: there is no column '{word}'; there are {}, and the fields that --json shows",
        headings.join(", ")
    )))
}

fn has(row: &Value, field: &str) -> bool {
    match field.starts_with('/') {
        true => row.pointer(field).is_some(),
        false => row.get(field).is_some(),
    }
}

fn find<'a>(row: &'a Value, field: &str) -> &'a Value {
    field_of(row, field)
}

/// Numbers in ascending order, then texts as they are shown, then what is not there.
fn order(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => (a.is_null(), text(a)).cmp(&(b.is_null(), text(b))),
    }
}

/// Returns the text of a field, as the table shows it.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => cell(other).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: &[Column] =
        &[("NAME", "name"), ("MESSAGES", "messages"), ("AGE S", "age_s"), ("DURABLE", "durable")];

    fn rows() -> Vec<Value> {
        vec![
            json!({"name": "b", "messages": 10, "durable": true, "age_s": null, "stats": {"rate": 0.5}}),
            json!({"name": "a", "messages": 9, "durable": false, "age_s": 70, "stats": {"rate": 2.0}}),
            json!({"name": "c", "messages": 100, "durable": true, "age_s": 5}),
        ]
    }

    fn names(selection: &Selection) -> Result<String, String> {
        let mut rows = rows();
        let done = selection.apply(&mut rows, KNOWN, Vec::new());
        done.map_err(|failure| failure.line)?;
        Ok(rows.iter().filter_map(|row| row["name"].as_str()).collect())
    }

    #[test]
    fn rows_are_sorted_by_numbers_and_by_texts() {
        let sorted = |sort: &str, reverse| {
            names(&Selection { sort: Some(sort.to_owned()), reverse, ..Selection::default() })
        };
        assert_eq!(sorted("name", false).as_deref(), Ok("abc"));
        assert_eq!(sorted("MESSAGES", false).as_deref(), Ok("abc"));
        assert_eq!(sorted("messages", true).as_deref(), Ok("cba"));
        assert_eq!(sorted("age-s", false).as_deref(), Ok("cab"), "what has no age comes last");
        assert_eq!(sorted("stats.rate", false).as_deref(), Ok("bac"));
        assert_eq!(
            sorted("size", false).unwrap_err(),
            "--sort: there is no column 'size'; there are name, messages, age-s, durable, and the fields that --json shows"
        );
    }

    #[test]
    fn rows_are_filtered() {
        for (conditions, left) in [
            (&["messages>9"][..], "bc"),
            (&["messages >= 9", "messages<100"], "ba"),
            (&["messages!=10"], "ac"),
            (&["messages=10"], "b"),
            (&["name~^[ab]$"], "ba"),
            (&["name>a"], "bc"),
            (&["durable=yes"], "bc"),
            (&["age s<60"], "c"),
            (&["age_s!=5"], "ba"),
            (&["stats.rate>1"], "a"),
        ] {
            let filters = conditions.iter().map(|text| Condition::parse(text).unwrap()).collect();
            let selection = Selection { filters, ..Selection::default() };
            assert_eq!(names(&selection).as_deref(), Ok(left), "{conditions:?}");
        }
        for wrong in ["messages", "=3", "name~[", ""] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn columns_are_chosen() {
        let columns = ["stats.rate", "age_s"].map(str::to_owned).to_vec();
        let selection = Selection { columns, ..Selection::default() };
        let mut rows = rows();
        let columns = selection.apply(&mut rows, KNOWN, KNOWN.to_vec()).unwrap();
        let headings: Vec<&str> = columns.iter().map(|(heading, _)| heading.as_str()).collect();
        assert_eq!(headings, ["STATS.RATE", "AGE S"]);
        let rows = selection.project(rows, &columns);
        assert_eq!(rows[1], json!({"stats.rate": 2.0, "age_s": 70}));
        let all = Selection::default().apply(&mut vec![], KNOWN, KNOWN[..2].to_vec()).unwrap();
        assert_eq!(all.len(), 2);
    }
}
