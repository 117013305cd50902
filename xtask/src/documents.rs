//! Checks of the documents: what they name exists.

use std::path::Path;

use crate::tidy::root;

/// The sections of docs/compatibility.md that other texts point to, in their order.
const SECTIONS: [&str; 20] = [
    "Connections",
    "Sessions and links",
    "Addresses",
    "Publishing",
    "Consuming",
    "Credit",
    "Dynamic nodes",
    "Message annotations",
    "Stream filters",
    "Management over AMQP",
    "Error conditions",
    "Exchanges",
    "Queue arguments and policies",
    "Classic queues",
    "Streams",
    "Dead lettering",
    "Security",
    "HTTP API",
    "Metrics",
    "Definitions and alarms",
];

/// The section of docs/compatibility.md that lists what is missing as a whole.
const NOT_THERE: &str = "Not there yet";

#[test]
fn the_compatibility_page_names_tests_that_exist() {
    let page = read("docs/compatibility.md").expect("the page");
    let (mut sections, mut wrong) = (Vec::new(), Vec::new());
    for (at, line) in page.lines().enumerate() {
        if let Some(section) = line.strip_prefix("## ") {
            sections.push(section);
        } else if line.starts_with('|') && !is_head(line) {
            let section = sections.last().copied().unwrap_or_default();
            wrong.extend(check_row(section, line).err().map(|why| format!("line {}: {why}: {line}", at + 1)));
        }
    }
    assert!(wrong.is_empty(), "docs/compatibility.md\n{}", wrong.join("\n"));
    let expected: Vec<&str> = std::iter::once(NOT_THERE).chain(SECTIONS).collect();
    assert_eq!(sections, expected, "the sections of docs/compatibility.md");
}

/// Returns whether a line of a table is its head, or the line of dashes below it.
fn is_head(line: &str) -> bool {
    ["| behaviour |", "| what |", "|---|"].iter().any(|head| line.starts_with(head))
}

/// Checks one row. A row that says "same" or "differs" must name a test.
fn check_row(section: &str, line: &str) -> Result<(), String> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')).ok_or("not a row")?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let test = match (section, &cells[..]) {
        (NOT_THERE, [_, _, test]) => test,
        (_, [_, "same" | "differs", _, ""]) => return Err("no test".into()),
        (_, [_, "same" | "differs" | "missing", _, test]) => test,
        _ => return Err("the cells are not those of the table".into()),
    };
    let test = test.trim_matches('`');
    match test.split_once("::") {
        _ if test.is_empty() => Ok(()),
        Some((file, name)) => {
            let found = read(file)?.contains(&format!("fn {name}("));
            found.then_some(()).ok_or_else(|| format!("{file} has no function {name}"))
        }
        None => check_scene(test),
    }
}

/// Checks `page` or `page#scene` of the conformance pages.
fn check_scene(name: &str) -> Result<(), String> {
    let (page, scene) = name.split_once('#').map_or((name, None), |(page, scene)| (page, Some(scene)));
    let text = read(&format!("conformance/pages/{page}.md"))?;
    match scene.filter(|scene| !text.lines().any(|line| line.strip_prefix("## ") == Some(scene))) {
        Some(scene) => Err(format!("{page} has no scene '{scene}'")),
        None => Ok(()),
    }
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(Path::new(file))).map_err(|error| format!("{file}: {error}"))
}
