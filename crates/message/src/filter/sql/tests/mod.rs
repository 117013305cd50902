//! Tests of the two dialects, written as tables.
//!
//! Each line of a table is `expression | message | result`. The result is `true`, `false`, `unknown`, or
//! `refused` with the position and the reason. A message has the syntax of [`scene`]. `@name` at its start
//! stands for the message of an earlier line `message name: ...`. Control characters are written as their
//! pictures: ␉ ␊ ␌ ␍ ␀ ␡. The message is at [`POSITION`].

use super::*;
use crate::filter::scene;

mod model;
mod properties;

const TABLES: [(&str, &str); 12] = [
    ("logic", include_str!("logic.txt")),
    ("comparison", include_str!("comparison.txt")),
    ("arithmetic", include_str!("arithmetic.txt")),
    ("literals", include_str!("literals.txt")),
    ("like", include_str!("like.txt")),
    ("in_and_null", include_str!("in_and_null.txt")),
    ("identifiers", include_str!("identifiers.txt")),
    ("sections", include_str!("sections.txt")),
    ("refused", include_str!("refused.txt")),
    ("selector", include_str!("selector.txt")),
    ("selector_names", include_str!("selector_names.txt")),
    ("selector_refused", include_str!("selector_refused.txt")),
];

/// The value of UTC() in the tables.
const NOW_MS: u64 = 1_700_000_000_000;

/// The position in the stream of the message of each line.
const POSITION: Position = Position { offset: 42, at_ms: 1_600_000_000_000 };

fn filter(text: &str) -> Result<SqlFilter, SqlError> {
    SqlFilter::parse(text, Dialect::Filter)
}

fn selector(text: &str) -> Result<SqlFilter, SqlError> {
    SqlFilter::parse(text, Dialect::Selector)
}

#[test]
fn tables_of_the_language() {
    let (mut cases, mut wrong) = (0, Vec::new());
    for (table, text) in TABLES {
        let dialect = if table.starts_with("selector") { Dialect::Selector } else { Dialect::Filter };
        let mut messages: Vec<(&str, String)> = Vec::new();
        for (number, line) in
            (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            if let Some(introduced) = line.strip_prefix("message ") {
                let (name, written) = introduced.split_once(": ").expect("a name and a message");
                messages.push((name, controls(written)));
                continue;
            }
            let mut columns = line.rsplitn(3, " | ").map(str::trim);
            let (Some(expected), Some(properties), Some(expression)) =
                (columns.next(), columns.next(), columns.next())
            else {
                panic!("{table}:{number}: three columns are needed");
            };
            let found =
                comes_to(dialect, &controls(expression), &written_out(&controls(properties), &messages));
            if found != expected {
                wrong.push(format!("{table}:{number}: {expression}: {found}, not {expected}"));
            }
            cases += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases >= 400, "{cases} cases");
}

fn comes_to(dialect: Dialect, expression: &str, properties: &str) -> String {
    let filter = match SqlFilter::parse(expression, dialect) {
        Ok(filter) => filter,
        Err(error) => return format!("refused {error}"),
    };
    let message = scene::message(properties);
    let truth = filter.truth(&message, POSITION, NOW_MS).expect("well-formed sections");
    assert_eq!(filter.matches(&message, POSITION, NOW_MS), truth == Some(true));
    let again =
        SqlFilter::parse(&filter.to_string(), dialect).unwrap_or_else(|error| panic!("{filter}: {error}"));
    assert_eq!(again, filter, "{expression} was written as {filter}");
    truth.map_or_else(|| "unknown".to_owned(), |truth| truth.to_string())
}

/// Returns the message of a line, with `@name` replaced by the named message.
fn written_out(properties: &str, messages: &[(&str, String)]) -> String {
    let Some(named) = properties.strip_prefix('@') else { return properties.to_owned() };
    let (name, more) = named.split_once(';').unwrap_or((named, ""));
    let (_, written) = messages.iter().find(|(known, _)| *known == name).expect("an introduced message");
    format!("{written};{more}")
}

fn controls(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '␉' => '\t',
            '␊' => '\n',
            '␌' => '\x0c',
            '␍' => '\r',
            '␀' => '\0',
            '␡' => '\x7f',
            c => c,
        })
        .collect()
}

#[test]
fn characters_are_bounded() {
    let text = |chars: usize| format!("[{}] IS NULL", "ä".repeat(chars - "[] IS NULL".len()));
    assert!(filter(&text(SQL_CHARS_MAX)).is_ok());
    let error = filter(&text(SQL_CHARS_MAX + 1)).unwrap_err();
    assert_eq!(error.what, SqlProblem::TooLong);
    assert_eq!(error.position, text(SQL_CHARS_MAX + 1).len() - 1, "the character that is too many");
}

#[test]
fn tokens_are_bounded() {
    let list = |items: usize| format!("a IN ({})", vec!["1"; items].join(","));
    // Four tokens are `a`, `IN`, `(` and `)`. The others are items of the list, with a comma between two of
    // them.
    let most = (SQL_TOKENS_MAX - 4).div_ceil(2);
    assert!(filter(&list(most)).is_ok());
    assert_eq!(filter(&list(most + 1)).unwrap_err().what, SqlProblem::TooManyTokens);
}

#[test]
fn depth_is_bounded() {
    let nots = |n: usize| format!("{}TRUE", "NOT ".repeat(n));
    assert!(filter(&nots(100)).is_ok());
    let error = filter(&nots(101)).unwrap_err();
    assert_eq!((error.what, error.position), (SqlProblem::TooDeep, 404));
    let parentheses = format!("{}TRUE{}", "(".repeat(99), ")".repeat(99));
    assert_eq!(filter(&parentheses).unwrap().to_string(), "TRUE");
}

#[test]
fn a_piece_that_would_cost_too_much_is_unknown() {
    let like = filter("a LIKE '%x_y%'").unwrap();
    let truth = |len: usize| {
        let message = scene::message(&format!("a=string {}xzy", "x".repeat(len)));
        like.truth(&message, POSITION, NOW_MS).unwrap()
    };
    assert_eq!(truth(300_000), Some(true));
    assert_eq!(truth(400_000), None);
    // Without `_` the cost is only that of reading the subject.
    let like = filter("a LIKE '%xz%y%'").unwrap();
    let message = scene::message(&format!("a=string {}xzy", "x".repeat(4_000_000)));
    assert_eq!(like.truth(&message, POSITION, NOW_MS), Ok(Some(true)));
}

#[test]
fn more_identifiers_than_fit_on_the_stack() {
    let names: Vec<String> = (0..60).map(|i| format!("k{i}")).collect();
    let filter = filter(&format!("p.subject = 's' AND {}", names.join(" + ") + " = 1770")).unwrap();
    let all = names.iter().zip(0..).map(|(name, i)| format!("{name}=uint {i}")).collect::<Vec<_>>().join(";");
    assert!(filter.matches(&scene::message(&format!("p.subject=string s;{all}")), POSITION, 0));
    assert!(!filter.matches(&scene::message(&all), POSITION, 0));
}

#[test]
fn a_malformed_section_matches_nothing_that_reads_it() {
    let message = |properties: &[u8], application: &[u8]| {
        let wire = [properties, application].concat();
        scene::with_sections(wire.as_slice().into(), properties.len() as u32)
    };
    let truth =
        |text: &str, message: &Message| filter(text).unwrap().truth(message, POSITION, 0).ok().flatten();
    let good = message(b"\x00\x53\x73\xc0\x04\x01\xa1\x01i", b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x52\x05");
    assert_eq!(truth("p.message_id = 'i' AND k = 5", &good), Some(true));

    let no_list = message(b"\x00\x53\x73\xa1\x01i", b"");
    assert_eq!(truth("p.message_id IS NULL", &no_list), None);
    assert_eq!(truth("k IS NULL", &no_list), Some(true), "the properties are not read");
    assert_eq!(
        truth("p.user_id IS NULL", &message(b"\x00\x53\x73\xc0\x04\x02\xa1\x01i", b"")),
        None,
        "too short"
    );
    assert_eq!(truth("p.to IS NULL", &message(b"\x00\x53\x74\x45", b"")), None, "another section");
    assert_eq!(
        truth("p.message_id = 'i'", &message(b"\x00\x53\x73\xc0\x04\x01\xa1\x01\xff", b"")),
        None,
        "no UTF-8"
    );

    assert_eq!(truth("k IS NULL", &message(b"", b"\x00\x53\x74\x45")), None, "a list");
    assert_eq!(
        truth("k IS NULL", &message(b"", b"\x00\x53\x74\xc1\x06\x02\x52\x01\x52\x05\x43")),
        None,
        "a number as key"
    );
    assert_eq!(
        truth("k = 5", &message(b"", b"\x00\x53\x74\xc1\x08\x04\xa1\x01k\x52\x05\xa1\x07")),
        Some(true),
        "behind it"
    );
    assert_eq!(truth("x IS NULL", &message(b"", b"\x00\x53\x74\xc1\x08\x04\xa1\x01k\x52\x05\xa1\x07")), None);
}
