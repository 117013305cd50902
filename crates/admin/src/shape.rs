//! The parameters of every list: `page`, `page_size`, `name`, `use_regex`, `type`, `state`, `policy`, `problem`, `sort`, `sort_reverse`,
//! `columns`.

use std::cmp::Ordering;

use catalog::pattern::Pattern;
use serde_json::{Map, Value, json};

use crate::pauses::{self, Matches, Pauses};
use crate::query::Query;
use crate::reply::Failure;

/// The number of rows of a page if the request does not say.
const PAGE_SIZE_DEFAULT: usize = 100;
/// The most rows of a page. A request for more is refused.
const PAGE_SIZE_MAX: usize = 500;

/// The steps of comparing two rows, or of looking at one.
const COMPARE_STEPS: u64 = 8;
/// The number of rows that are sorted without a pause.
const RUN_ROWS: usize = 256;

/// A requested page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    /// The number of the page, from 1.
    pub number: usize,
    pub size: usize,
    /// If set, the page has only rows with one of these names.
    pub names: Option<Names>,
    pub only: Only,
}

/// Which rows a page has besides their names. Empty texts ask for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Only {
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
pub(crate) enum Names {
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

    /// Returns those rows that have one of these names in one of the fields.
    ///
    /// # Errors
    /// 400 if matching all of them costs too much.
    async fn of_rows(&self, rows: Vec<Value>, fields: &[&str]) -> Result<Vec<Value>, Failure> {
        let (mut kept, mut pauses) = (Vec::new(), Pauses::default());
        let names = |row: &Value| -> Vec<String> {
            fields.iter().filter_map(|field| dotted(row, field).as_str().map(str::to_owned)).collect()
        };
        let (part, mut matches) = match self {
            Self::With(part) => (part.as_str(), None),
            Self::Matching(pattern) => {
                // What costs too much is refused before its first match.
                let mut steps = 0_u64;
                for row in &rows {
                    pauses.count(COMPARE_STEPS).await;
                    let of_row = names(row).iter().map(|name| pattern.steps(name.len())).sum::<u64>();
                    steps = steps.saturating_add(of_row);
                }
                pauses::check(pattern, steps)?;
                ("", Some(Matches::new(pattern)))
            }
        };
        for row in rows {
            let mut is_found = false;
            for name in names(&row) {
                is_found |= match &mut matches {
                    Some(matches) => matches.is_match(&name).await?,
                    None => name.to_lowercase().contains(part),
                };
            }
            pauses.count(COMPARE_STEPS).await;
            if is_found {
                kept.push(row);
            }
        }
        Ok(kept)
    }
}

impl Page {
    /// Returns the requested page, or `None` if the request asks for no page.
    ///
    /// # Errors
    /// 400 for numbers out of bounds, and for a name that is not a regular expression and should be one.
    pub(crate) fn of(query: &Query) -> Result<Option<Self>, Failure> {
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
    pub(crate) fn offset(&self) -> usize {
        (self.number - 1).saturating_mul(self.size)
    }

    /// Builds the envelope of a page.
    ///
    /// # Errors
    /// 400 if the page begins after the last row.
    pub(crate) fn envelope(
        &self,
        total: usize,
        filtered: usize,
        items: Vec<Value>,
    ) -> Result<Value, Failure> {
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
pub(crate) fn needs_all_rows(query: &Query, page: &Page) -> bool {
    page.names.is_some() || page.only.is_any() || wants_other_order(query)
}

/// Returns true if the rows are not requested in the order of their names.
pub(crate) fn wants_other_order(query: &Query) -> bool {
    query.flag("sort_reverse") || query.get("sort").is_some_and(|s| !s.is_empty())
}

/// Filters rows by their name, sorts them, selects a page, and keeps the requested columns. Pauses if there are many.
///
/// # Errors
/// 400 for an invalid page, and for a pattern of names that costs too much.
pub(crate) async fn list(rows: Vec<Value>, query: &Query, default_sort: &[&str]) -> Result<Value, Failure> {
    list_named_by(&["name"], rows, query, default_sort).await
}

/// As [`list`], for rows that a person knows by several fields: the parameter `name` finds those with it in one of these fields.
///
/// # Errors
/// Those of [`list`].
pub(crate) async fn list_named_by(
    fields: &[&str],
    mut rows: Vec<Value>,
    query: &Query,
    default_sort: &[&str],
) -> Result<Value, Failure> {
    let page = Page::of(query)?;
    let total = rows.len();
    if let Some(Page { names: Some(names), .. }) = &page {
        rows = names.of_rows(rows, fields).await?;
    }
    if let Some(page) = page.as_ref().filter(|page| page.only.is_any()) {
        rows.retain(|row| page.only.finds(row));
    }
    let first = query.get("sort").filter(|s| !s.is_empty());
    let keys: Vec<&str> = first.into_iter().chain(default_sort.iter().copied()).collect();
    let mut rows = sorted(rows, |a, b| {
        keys.iter()
            .map(|key| compare(dotted(a, key), dotted(b, key)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    })
    .await;
    if query.flag("sort_reverse") {
        rows.reverse();
    }
    let Some(page) = page else { return Ok(columns(Value::Array(rows), query)) };
    let filtered = rows.len();
    let items: Vec<Value> = rows.into_iter().skip(page.offset()).take(page.size).collect();
    page.envelope(total, filtered, cut(items, query))
}

/// Sorts rows like `sort_by`, with pauses: first short runs, then it merges two neighbours each until one run is left.
async fn sorted(rows: Vec<Value>, order: impl Fn(&Value, &Value) -> Ordering) -> Vec<Value> {
    let mut pauses = Pauses::default();
    let (mut runs, mut rest) = (Vec::new(), rows.into_iter());
    loop {
        let mut run: Vec<Value> = rest.by_ref().take(RUN_ROWS).collect();
        if run.is_empty() {
            break;
        }
        run.sort_by(&order);
        pauses
            .count(COMPARE_STEPS * u64::from(usize::BITS - run.len().leading_zeros()) * run.len() as u64)
            .await;
        runs.push(run);
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(first) = pairs.next() {
            let Some(second) = pairs.next() else {
                merged.push(first);
                break;
            };
            let mut both = Vec::with_capacity(first.len() + second.len());
            let mut second = second.into_iter().peekable();
            for row in first {
                while let Some(earlier) = second.next_if(|other| order(other, &row).is_lt()) {
                    pauses.count(COMPARE_STEPS).await;
                    both.push(earlier);
                }
                pauses.count(COMPARE_STEPS).await;
                both.push(row);
            }
            both.extend(second);
            merged.push(both);
        }
        runs = merged;
    }
    runs.pop().unwrap_or_default()
}

/// Builds the response from rows that already are the page.
///
/// # Errors
/// 400 for an invalid page.
pub(crate) fn ready_page(
    rows: Vec<Value>,
    total: usize,
    page: &Page,
    query: &Query,
) -> Result<Value, Failure> {
    page.envelope(total, total, cut(rows, query))
}

/// Keeps only the requested columns. `a.b` is the field `b` of the field `a`.
pub(crate) fn columns(value: Value, query: &Query) -> Value {
    let Some(wanted) = query.get("columns") else { return value };
    let paths: Vec<Vec<&str>> = wanted.split(',').map(|c| c.split('.').collect()).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    only(value, &paths)
}

/// Returns true if the request wants this field of an object, or some of it.
pub(crate) fn shows(query: &Query, field: &str) -> bool {
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
pub(crate) fn add(object: &mut Value, fields: Map<String, Value>) {
    if let Value::Object(object) = object {
        object.extend(fields);
    }
}

fn dotted<'a>(row: &'a Value, path: &str) -> &'a Value {
    // A path may be long. What is in nothing is nothing.
    let mut keys = path.split('.');
    let found = keys.try_fold(row, |value, key| match &value[key] {
        Value::Null => Err(&Value::Null),
        value => Ok(value),
    });
    found.unwrap_or_else(|null| null)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pauses::tests::pauses_of;

    fn rows(count: usize) -> Vec<Value> {
        // The numbers of rows with the same key say in which order they were.
        (0..count).map(|n| json!({ "name": format!("n{:05}", n * 7919 % count / 3), "n": n })).collect()
    }

    #[test]
    fn rows_are_sorted_like_a_stable_sort_does() {
        let order = |a: &Value, b: &Value| compare(&a["name"], &b["name"]);
        for count in [0, 1, 2, RUN_ROWS, RUN_ROWS + 1, 2 * RUN_ROWS + 1, 5 * RUN_ROWS, 3_000] {
            let mut expected = rows(count);
            expected.sort_by(order);
            assert_eq!(pauses_of(sorted(rows(count), order)).0, expected, "{count}");
        }
    }

    #[test]
    fn many_rows_are_filtered_and_sorted_with_pauses() {
        let list = |count: usize, query: &str| {
            let query = Query::parse(query);
            let (listed, pauses) = pauses_of(list(rows(count), &query, &["name"]));
            (listed, pauses)
        };
        assert_eq!(list(100, "page=1&name=n").1, 0);
        let (listed, few) = list(10_000, "page=1&name=n0000");
        assert_eq!(listed.unwrap()["filtered_count"], 30);
        assert!(few > 0);
        let (listed, many) = list(10_000, "page=1&name=N&use_regex=true&page_size=2");
        let listed = listed.unwrap();
        assert_eq!([&listed["filtered_count"], &listed["total_count"]], [10_000, 10_000]);
        assert!(many > 2 * few, "{many} {few}");
        let query = "page=1&use_regex=true&name=(?:.?.?.?.?){120}z";
        let (listed, pauses) = list(500, query);
        assert_eq!(listed.unwrap()["filtered_count"], 0);
        assert!(pauses > 50, "{pauses}");
        let (refused, pauses) = list(100_000, query);
        assert!(refused.unwrap_err().text().contains("too costly"));
        assert!(pauses < 100, "it is refused before the first match: {pauses}");
    }

    #[test]
    fn a_path_ends_where_nothing_is() {
        let row = json!({ "a": { "b": 1, "c": null } });
        assert_eq!(
            [dotted(&row, "a.b"), dotted(&row, "a.c.d"), dotted(&row, "x.y")],
            [&json!(1), &Value::Null, &Value::Null]
        );
        assert_eq!(*dotted(&row, &format!("a.b{}", ".a".repeat(30_000))), Value::Null);
    }
}
