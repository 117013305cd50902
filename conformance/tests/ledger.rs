//! Every line of the ledgers must name an existing page or test, or a reason from a closed list.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// Reasons why a rule does not apply to a broker.
const NOT_APPLICABLE: [&str; 4] = [
    "the client's to keep",
    "the application's to keep",
    "the transport below keeps it",
    "nothing here that it speaks of",
];

/// Features of other milestones, each with a word that the name of the item must contain.
const MILESTONES: [(&str, &str); 2] = [("quorum queues", "quorum"), ("streams on several nodes", "cluster")];

/// The ledgers: that of AMQP 1.0 and of what both protocols share, and that of AMQP 0.9.1.
const LEDGERS: [&str; 2] = [include_str!("../ledger.toml"), include_str!("../ledger-amqp091.toml")];

/// The highest share of items that may be `later`, in percent.
const LATER_PERCENT_MAX: usize = 10;

/// The parts of the standard, and the prefix of their paragraph numbers.
const PARTS: [(&str, &str); 5] = [
    ("[types]", "1."),
    ("[transport]", "2."),
    ("[messaging]", "3."),
    ("[transactions]", "4."),
    ("[security]", "5."),
];

/// Parses a line: `item = { kind = "value" }`.
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (item, rest) = line.split_once(" = { ")?;
    let (kind, value) = rest.strip_suffix("\" }")?.split_once(" = \"")?;
    Some((item.trim_matches('"'), kind, value))
}

fn check(item: &str, kind: &str, value: &str) -> Result<(), String> {
    match kind {
        // A scene shows that the rule is kept, that an optional feature is refused, or that the broker
        // deliberately differs.
        "page" => check_page(value),
        "refused" | "unlike" if !value.contains('#') => Err("the scene that shows it".into()),
        "refused" | "unlike" => check_page(value),
        "test" => check_test(value),
        "not-applicable" if NOT_APPLICABLE.contains(&value) => Ok(()),
        "not-applicable" => Err(format!("{value:?} is none of {NOT_APPLICABLE:?}")),
        "other-milestone" => match MILESTONES.iter().find(|(milestone, _)| *milestone == value) {
            Some((_, word)) if item.contains(word) => Ok(()),
            Some((_, word)) => Err(format!("an item of that milestone has '{word}' in its name")),
            None => Err(format!("{value:?} is none of {MILESTONES:?}")),
        },
        "later" if value.len() > 3 => Ok(()),
        _ => Err(format!("{kind} = {value:?} is neither a proof nor a reason")),
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Checks `page` or `page#scene`.
fn check_page(value: &str) -> Result<(), String> {
    let (page, scene) = value.split_once('#').map_or((value, None), |(p, s)| (p, Some(s)));
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages");
    let text = read(&pages.join(page).with_extension("md"))?;
    match scene.filter(|scene| !text.lines().any(|l| l.strip_prefix("## ") == Some(scene))) {
        Some(scene) => Err(format!("{page} has no scene '{scene}'")),
        None => Ok(()),
    }
}

/// Checks `file::name`, a test in Rust or in Python.
fn check_test(value: &str) -> Result<(), String> {
    let (file, name) = value.split_once("::").ok_or("file::name")?;
    let text = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file))?;
    let is_function =
        [format!("fn {name}("), format!("def {name}(")].iter().any(|start| text.contains(start));
    is_function.then_some(()).ok_or_else(|| format!("{file} has no test {name}"))
}

#[test]
fn every_line_has_a_proof_or_a_reason() {
    let mut seen = BTreeSet::new();
    let kinds = ["page", "test", "refused", "unlike", "not-applicable", "other-milestone", "later"];
    let mut totals = kinds.map(|kind| (kind, 0));
    let mut wrong = Vec::new();
    let mut part = "";
    let lines = LEDGERS.iter().enumerate().flat_map(|(ledger, text)| text.lines().map(move |l| (ledger, l)));
    for (ledger, line) in lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
        if line.starts_with('[') {
            part = line;
            continue;
        }
        let Some((item, kind, value)) = parse(line) else {
            wrong.push(format!("cannot read: {line}"));
            continue;
        };
        if !seen.insert((ledger, part, item)) {
            wrong.push(format!("{part} {item} is there twice"));
        }
        if PARTS.iter().any(|(name, paragraphs)| *name == part && !item.starts_with(paragraphs)) {
            wrong.push(format!("{part} {item}: not a paragraph of this part"));
        }
        match check(item, kind, value) {
            Ok(()) => totals.iter_mut().filter(|(k, _)| *k == kind).for_each(|(_, n)| *n += 1),
            Err(why) => wrong.push(format!("{part} {item}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let later = totals.iter().find(|(kind, _)| *kind == "later").map_or(0, |(_, n)| *n);
    let most = seen.len() * LATER_PERCENT_MAX / 100;
    assert!(later <= most, "{later} items are for later, and at most {most} of {} may be", seen.len());
    let words = totals.map(|(kind, n)| format!("{n} {kind}")).join(", ");
    // The line is written to standard error, where it is visible without an option.
    writeln!(std::io::stderr(), "ledger: {} items: {words}", seen.len()).expect("stderr is there");
}
