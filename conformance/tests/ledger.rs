//! Every line of the ledger names a page or a test that exists, or a reason.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// A line: `item = { kind = "value" }`.
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (item, rest) = line.split_once(" = { ")?;
    let (kind, value) = rest.strip_suffix("\" }")?.split_once(" = \"")?;
    Some((item, kind, value))
}

fn check(kind: &str, value: &str) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    match kind {
        "page" => {
            let (page, scene) = value.split_once('#').map_or((value, None), |(p, s)| (p, Some(s)));
            let text = read(&root.join("pages").join(page).with_extension("md"))?;
            match scene.filter(|scene| !text.lines().any(|l| l.strip_prefix("## ") == Some(scene))) {
                Some(scene) => Err(format!("{page} has no scene '{scene}'")),
                None => Ok(()),
            }
        }
        "test" => {
            let (file, name) = value.split_once("::").ok_or("file::name")?;
            let text = read(&root.join("..").join(file))?;
            let found = text.contains(&format!("fn {name}("));
            found.then_some(()).ok_or_else(|| format!("{file} has no test {name}"))
        }
        "later" | "not" if value.len() > 3 => Ok(()),
        _ => Err(format!("{kind} = {value:?}: page, test, later or not")),
    }
}

#[test]
fn every_line_has_a_proof_or_a_reason() {
    let mut seen = BTreeSet::new();
    let mut totals = [("page", 0), ("test", 0), ("later", 0), ("not", 0)];
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
        match check(kind, value) {
            Ok(()) => totals.iter_mut().filter(|(k, _)| *k == kind).for_each(|(_, n)| *n += 1),
            Err(why) => wrong.push(format!("{part} {item}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let words = totals.map(|(kind, n)| format!("{n} {kind}")).join(", ");
    // Beside the results, where it is seen without asking for it.
    writeln!(std::io::stderr(), "ledger: {} items: {words}", seen.len()).expect("stderr is there");
}
