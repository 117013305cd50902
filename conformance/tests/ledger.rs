//! Every line of the ledger names a page or a test that exists, or a reason out of a closed list.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// Why a rule need not be kept by a broker.
const NOT_APPLICABLE: [&str; 4] = [
    "the client's to keep",
    "the application's to keep",
    "the transport below keeps it",
    "nothing here that it speaks of",
];

/// What other milestones build, and a word that the item must have in its name for it.
const MILESTONES: [(&str, &str); 3] =
    [("quorum queues", "quorum"), ("streams on several nodes", "cluster"), ("AMQP 0.9.1", "amqpl")];

/// The most that may be `later`, in percent of all items.
const LATER_PERCENT_MAX: usize = 10;

/// Parts of the standard, and how the paragraphs of each begin.
const PARTS: [(&str, &str); 5] = [
    ("[types]", "1."),
    ("[transport]", "2."),
    ("[messaging]", "3."),
    ("[transactions]", "4."),
    ("[security]", "5."),
];

/// A line: `item = { kind = "value" }`.
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (item, rest) = line.split_once(" = { ")?;
    let (kind, value) = rest.strip_suffix("\" }")?.split_once(" = \"")?;
    Some((item.trim_matches('"'), kind, value))
}

fn check(item: &str, kind: &str, value: &str) -> Result<(), String> {
    match kind {
        // A scene shows that it is kept; that it is optional and refused; that it is deliberately otherwise.
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
        _ => Err(format!("{kind} = {value:?} is no proof and no reason")),
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// `page` or `page#scene`.
fn check_page(value: &str) -> Result<(), String> {
    let (page, scene) = value.split_once('#').map_or((value, None), |(p, s)| (p, Some(s)));
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages");
    let text = read(&pages.join(page).with_extension("md"))?;
    match scene.filter(|scene| !text.lines().any(|l| l.strip_prefix("## ") == Some(scene))) {
        Some(scene) => Err(format!("{page} has no scene '{scene}'")),
        None => Ok(()),
    }
}

/// `file::name`.
fn check_test(value: &str) -> Result<(), String> {
    let (file, name) = value.split_once("::").ok_or("file::name")?;
    let text = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file))?;
    text.contains(&format!("fn {name}(")).then_some(()).ok_or_else(|| format!("{file} has no test {name}"))
}

#[test]
fn every_line_has_a_proof_or_a_reason() {
    let mut seen = BTreeSet::new();
    let kinds = ["page", "test", "refused", "unlike", "not-applicable", "other-milestone", "later"];
    let mut totals = kinds.map(|kind| (kind, 0));
    let mut wrong = Vec::new();
    let mut part = "";
    for line in include_str!("../ledger.toml").lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if line.starts_with('[') {
            part = line;
            continue;
        }
        let Some((item, kind, value)) = parse(line) else {
            wrong.push(format!("cannot read: {line}"));
            continue;
        };
        if !seen.insert((part, item)) {
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
    // Beside the results, where it is seen without asking for it.
    writeln!(std::io::stderr(), "ledger: {} items: {words}", seen.len()).expect("stderr is there");
}
