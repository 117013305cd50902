//! The parameters of every list: `page`, `page_size`, `name`, `use_regex`, `type`, `state`, `policy`, `problem`, `sort`, `sort_reverse`,
//! `columns`.

use std::cmp::Ordering;

use broker::pattern::Pattern;
use serde_json::{Map, Value, json};

use crate::query::Query;
use crate::reply::Failure;

/// The number of rows of a page if the request does not say.
const PAGE_SIZE_DEFAULT: usize = 100;
/// The most rows of a page. A request for more is refused.
const PAGE_SIZE_MAX: usize = 500;

/// A requested page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The number of the page, from 1.
    pub number: usize,
    pub size: usize,
    /// If set, the page has only rows with one of these names.
    pub names: Option<Names>,
    pub only: Only,
}

/// Which rows a page has besides their names. Empty texts ask for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Only {
    kind: Option<String>,
    state: Option<String>,
    policy: Option<String>,
    /// Only rows of objects with a problem ([`has_problem`]).
    problem: bool,
}

impl Only {
    fn of(query: &Query) -> Self {
        let text = |name: &str| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            kind: text("type"),
            state: text("state"),
            policy: text("policy"),
            problem: query.flag("problem"),
        }
    }

    fn is_any(&self) -> bool {
        *self != Self::default()
    }

    fn finds(&self, row: &Value) -> bool {
        let has = |fields: &[&str], wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| fields.iter().any(|field| row[*field] == wanted.as_str()))
        };
        has(&["type"], &self.kind)
            && has(&["state"], &self.state)
            && has(&["policy", "operator_policy"], &self.policy)
            && (!self.problem || has_problem(row))
    }
}

/// Returns true if nothing moves at an object, or if less moves than should: it is damaged or held back, members of its group do not run,
/// or messages wait and nobody consumes them. Nobody needs to read a stream.
fn has_problem(row: &Value) -> bool {
    let is_stopped =
        row["state"].as_str().is_some_and(|state| ["damaged", "blocked", "flow"].contains(&state));
    let members = |field: &str| row[field].as_array().map_or(0, Vec::len);
    let waits = row["messages_ready"].as_u64().is_some_and(|ready| ready > 0);
    is_stopped
        || members("online") < members("members")
        || (waits && row["consumers"] == 0 && row["type"] != "stream")
}

/// The names that a search finds. Case is ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// Those that contain this text, which is in lower case.
    With(String),
    /// Those that match this regular expression, in time linear in their length.
    Matching(Pattern),
}

impl Names {
    /// Returns the names that the request asks for, or `None` for all.
    ///
    /// # Errors
    /// 400 if the name is no regular expression, although the request says that it is.
    fn of(query: &Query) -> Result<Option<Self>, Failure> {
        let Some(name) = query.get("name").filter(|name| !name.is_empty()) else { return Ok(None) };
        if !query.flag("use_regex") {
            return Ok(Some(Self::With(name.to_lowercase())));
        }
        let wrong = |why| Failure::bad_request(format!("name '{name}': {why}"));
        Pattern::of_search(name).map(Self::Matching).map(Some).map_err(wrong)
    }

    fn contain(&self, name: &str) -> bool {
        match self {
            Self::With(part) => name.to_lowercase().contains(part),
            Self::Matching(pattern) => pattern.is_match(name),
        }
    }
}

impl Page {
    /// Returns the requested page, or `None` if the request asks for no page.
    ///
    /// # Errors
    /// 400 for numbers out of bounds, and for a name that is not a regular expression and should be one.
    pub fn of(query: &Query) -> Result<Option<Self>, Failure> {
        let Some(number) = query.number("page")? else { return Ok(None) };
        let size = query.number("page_size")?.unwrap_or(PAGE_SIZE_DEFAULT);
        if number == 0 || size == 0 || size > PAGE_SIZE_MAX {
            return Err(Failure::bad(
                "invalid_pagination_parameters",
                format!("Invalid pagination parameters: page number {number}, page size {size}"),
            ));
        }
        Ok(Some(Self { number, size, names: Names::of(query)?, only: Only::of(query) }))
    }

    /// Returns the index of the page's first row, from 0.
    pub fn offset(&self) -> usize {
        (self.number - 1).saturating_mul(self.size)
    }

    /// Builds the envelope of a page.
    ///
    /// # Errors
    /// 400 if the page begins after the last row.
    pub fn envelope(&self, total: usize, filtered: usize, items: Vec<Value>) -> Result<Value, Failure> {
        if self.offset() > filtered {
            return Err(Failure::bad(
                "page_out_of_range",
                format!("Page out of range, page: {} page size: {}, len: {filtered}", self.number, self.size),
            ));
        }
        Ok(json!({
            "filtered_count": filtered,
            "item_count": items.len(),
            "items": items,
            "page": self.number,
            "page_count": filtered.div_ceil(self.size),
            "page_size": self.size,
            "total_count": total,
        }))
    }
}

/// Returns true if all rows are needed to build one page.
pub fn needs_all_rows(query: &Query, page: &Page) -> bool {
    page.names.is_some() || page.only.is_any() || wants_other_order(query)
}

/// Returns true if the rows are not requested in the order of their names.
pub fn wants_other_order(query: &Query) -> bool {
    query.flag("sort_reverse") || query.get("sort").is_some_and(|s| !s.is_empty())
}

/// Sorts rows, filters them by their name, selects a page, and keeps the requested columns.
///
/// # Errors
/// 400 for an invalid page.
pub fn list(rows: Vec<Value>, query: &Query, default_sort: &[&str]) -> Result<Value, Failure> {
    list_named_by(&["name"], rows, query, default_sort)
}

/// As [`list`], for rows that a person knows by several fields: the parameter `name` finds those with it in one of these fields.
///
/// # Errors
/// 400 for an invalid page.
pub fn list_named_by(
    fields: &[&str],
    mut rows: Vec<Value>,
    query: &Query,
    default_sort: &[&str],
) -> Result<Value, Failure> {
    let page = Page::of(query)?;
    let first = query.get("sort").filter(|s| !s.is_empty());
    let keys: Vec<&str> = first.into_iter().chain(default_sort.iter().copied()).collect();
    rows.sort_by(|a, b| {
        keys.iter()
            .map(|key| compare(dotted(a, key), dotted(b, key)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    if query.flag("sort_reverse") {
        rows.reverse();
    }
    let Some(page) = page else { return Ok(columns(Value::Array(rows), query)) };
    let total = rows.len();
    if let Some(names) = &page.names {
        let is_found =
            |row: &Value, field: &str| dotted(row, field).as_str().is_some_and(|name| names.contain(name));
        rows.retain(|row| fields.iter().any(|field| is_found(row, field)));
    }
    if page.only.is_any() {
        rows.retain(|row| page.only.finds(row));
    }
    let filtered = rows.len();
    let items: Vec<Value> = rows.into_iter().skip(page.offset()).take(page.size).collect();
    page.envelope(total, filtered, cut(items, query))
}

/// Builds the response from rows that already are the page.
///
/// # Errors
/// 400 for an invalid page.
pub fn ready_page(rows: Vec<Value>, total: usize, page: &Page, query: &Query) -> Result<Value, Failure> {
    page.envelope(total, total, cut(rows, query))
}

/// Keeps only the requested columns. `a.b` is the field `b` of the field `a`.
pub fn columns(value: Value, query: &Query) -> Value {
    let Some(wanted) = query.get("columns") else { return value };
    let paths: Vec<Vec<&str>> = wanted.split(',').map(|c| c.split('.').collect()).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    only(value, &paths)
}

/// Returns true if the request wants this field of an object, or some of it.
pub fn shows(query: &Query, field: &str) -> bool {
    query.get("columns").is_none_or(|wanted| wanted.split(',').any(|c| c.split('.').next() == Some(field)))
}

fn cut(rows: Vec<Value>, query: &Query) -> Vec<Value> {
    match columns(Value::Array(rows), query) {
        Value::Array(rows) => rows,
        other => vec![other],
    }
}

fn only(value: Value, paths: &[&[&str]]) -> Value {
    match value {
        Value::Array(rows) => rows.into_iter().map(|row| only(row, paths)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter_map(|(key, value)| {
                    let below: Vec<&[&str]> =
                        paths.iter().filter(|p| p.first() == Some(&key.as_str())).map(|p| &p[1..]).collect();
                    match below.as_slice() {
                        [] => None,
                        below if below.iter().any(|p| p.is_empty()) => Some((key, value)),
                        below => Some((key, only(value, below))),
                    }
                })
                .collect(),
        ),
        other => other,
    }
}

/// Adds fields to an object. A field that the object has already gets the new value.
pub fn add(object: &mut Value, fields: Map<String, Value>) {
    if let Value::Object(object) = object {
        object.extend(fields);
    }
}

fn dotted<'a>(row: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(row, |value, key| &value[key])
}

/// Compares values by RabbitMQ's order of types. Absent values sort with numbers, as zero.
fn compare(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Null | Value::Number(_) => 0,
            Value::Bool(_) => 1,
            Value::Object(_) => 2,
            Value::Array(_) => 3,
            Value::String(_) => 4,
        }
    }
    let number = |v: &Value| v.as_f64().unwrap_or(0.0);
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ if rank(a) == 0 && rank(b) == 0 => number(a).total_cmp(&number(b)),
        _ => rank(a).cmp(&rank(b)),
    }
}
