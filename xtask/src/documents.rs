//! Checks of the documents: the tests and pages that they name exist, and no text cites what is not in the repository.

use std::path::Path;
use std::process::Command;

use crate::tidy::root;

/// The sections of docs/compatibility.md that other texts point to, in their order.
const SECTIONS: [&str; 26] = [
    "Connections",
    "Sessions and links",
    "Addresses",
    "Publishing",
    "Consuming",
    "Credit",
    "Dynamic nodes",
    "Message annotations",
    "AMQP 0.9.1",
    "Conversion of messages",
    "Stream filters",
    "Management over AMQP",
    "Error conditions",
    "Exchanges",
    "Events",
    "Traces",
    "The log as messages",
    "Queue arguments and policies",
    "Classic queues",
    "Quorum queues",
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

/// Each part that a run prints has its row in docs/testing.md.
#[test]
fn every_part_of_a_run_is_described() {
    let page = read("docs/testing.md").expect("the page");
    let script = read("tests/run").expect("the script");
    let named = |line: &str| line.trim_start().strip_prefix("part ")?.split(' ').next().map(str::to_owned);
    let parts: Vec<String> =
        script.lines().filter_map(named).chain(["lint", "bench-check"].map(str::to_owned)).collect();
    assert!(parts.len() > 10, "{parts:?}");
    let missing: Vec<&String> =
        parts.iter().filter(|part| !page.contains(&format!("\n| `{part}` |"))).collect();
    assert!(missing.is_empty(), "docs/testing.md has no row of {missing:?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in tracked_files().iter().filter(|file| file.ends_with(".md")) {
        let text = read(file).expect("a document");
        let folder = Path::new(file).parent().expect("a folder");
        for target in links(&text).filter(|target| !target.contains("://")) {
            let (page, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if page.is_empty() { Path::new(file).to_owned() } else { folder.join(page) };
            // A link may lead to a folder, which has no headings.
            let has_anchor = || read(&path.to_string_lossy()).is_ok_and(|text| has_heading(&text, anchor));
            if !root().join(&path).exists() || !anchor.is_empty() && !has_anchor() {
                wrong.push(format!("{file}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

/// Returns the targets of the links of a document, such as `page.md#heading` of `[words](page.md#heading)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let lines = prose(text).into_iter();
    lines.flat_map(|line| line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)))
}

/// Returns whether the document has a heading with this anchor, as the usual renderers make it.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim().to_lowercase()).any(|heading| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).eq(anchor.chars())
    })
}

/// Returns the lines of a document without those of fenced blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut is_prose = |line: &&str| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    };
    text.lines().filter(|line| is_prose(line)).collect()
}

#[test]
fn links_and_headings_are_found() {
    let page = "# Why does `it` stop?\n[a](b.md#c) and [d](e)\n```sh\n# no heading [f](g)\n```\n";
    assert_eq!(links(page).collect::<Vec<_>>(), ["b.md#c", "e"]);
    assert!(has_heading(page, "why-does-it-stop"));
    assert!(!has_heading(page, "no-heading-fg"));
}

/// The most lines of a page for operators, so that a page is about one task.
const LINES_MAX: usize = 300;

#[test]
fn pages_for_operators_are_short() {
    let pages = tracked_files().into_iter().filter(|file| file.starts_with("docs/operations/"));
    let lines: Vec<(String, usize)> = pages
        .map(|page| (read(&page).expect("a page").lines().count(), page))
        .map(|(n, page)| (page, n))
        .collect();
    assert!(lines.len() > 10, "{lines:?}");
    let long: Vec<&(String, usize)> = lines.iter().filter(|(_, lines)| *lines > LINES_MAX).collect();
    assert!(long.is_empty(), "more than {LINES_MAX} lines; split these pages: {long:?}");
}

/// The picture in README.md shows the ratios of docs/benchmarks.md. `bench/run --tables` makes both.
#[test]
fn the_picture_shows_the_figures_of_the_tables() {
    let page = read("docs/benchmarks.md").expect("the page");
    let picture = read("docs/benchmarks.svg").expect("the picture");
    let bars: Vec<(&str, &str)> = picture.split(" data-workload=\"").skip(1).filter_map(bar).collect();
    assert!(bars.len() >= 10, "{bars:?}");
    let wrong: Vec<String> = bars
        .into_iter()
        .filter_map(|(workload, shown)| {
            let of = |target| cpu_of(&page, workload, target);
            let expected = of("RabbitMQ 4.3").expect("a row") / of("Sluice").expect("a row");
            let shown: f64 = shown.parse().expect("a ratio");
            // Both figures of a table are rounded.
            ((shown / expected - 1.0).abs() > 0.03)
                .then(|| format!("{workload}: {shown}x, not {expected:.2}x"))
        })
        .collect();
    assert!(wrong.is_empty(), "docs/benchmarks.svg:\n{}", wrong.join("\n"));
}

/// Returns the workload and the ratio of a bar.
fn bar(text: &str) -> Option<(&str, &str)> {
    let (workload, rest) = text.split_once("\">")?;
    Some((workload, rest.split_once("x</text>")?.0))
}

/// Returns the CPU seconds of the broker per million messages, from the table of the section Messages.
fn cpu_of(page: &str, workload: &str, target: &str) -> Option<f64> {
    let row = page.lines().find(|line| {
        line.starts_with(&format!("| {workload}: ")) && line.contains(&format!(" | {target} | "))
    })?;
    let cell = row.split(" | ").nth(3)?;
    cell.split(' ').next()?.parse().ok()
}

/// The files that name the version, because they name the image or are released with it.
const WITH_VERSION: [&str; 4] = [
    "docs/install.md",
    "packaging/compose/compose.yaml",
    "packaging/helm/sluice/Chart.yaml",
    "packaging/kubernetes/sluice.yaml",
];

#[test]
fn images_and_charts_have_the_version_of_the_program() {
    for file in WITH_VERSION {
        let text = read(file).expect("a file of the packages");
        let found: Vec<&str> = versions(&text).collect();
        let expected = env!("CARGO_PKG_VERSION");
        assert!(!found.is_empty() && found.iter().all(|found| *found == expected), "{file}: {found:?}");
    }
}

/// Returns the versions that follow the name of the image, or the word version.
fn versions(text: &str) -> impl Iterator<Item = &str> {
    let after = |word| text.split(word).skip(1);
    let rests = after("sluice:").chain(after("sluice-")).chain(after("ersion: "));
    rests.filter_map(|rest| {
        let rest = rest.trim_start_matches('"');
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|version| version.split('.').filter(|part| !part.is_empty()).count() == 3)
    })
}

#[test]
fn versions_are_found() {
    let text =
        "image: sluice:1.2.3\nappVersion: \"0.1.0\"\nsluice-0.2.0-container.tar sluice-0 apiVersion: v1";
    assert_eq!(versions(text).collect::<Vec<_>>(), ["1.2.3", "0.2.0", "0.1.0"]);
}

/// Pages and folders outside the repository that texts used to cite.
const ELSEWHERE: [&str; 5] = ["house.md", "cluster.md", "behaviour.md", concat!("/wo", "rk/"), "../shared"];

/// This file is not checked, because it names the cited pages itself.
const THIS_FILE: &str = "xtask/src/documents.rs";

#[test]
fn no_file_cites_what_is_not_in_the_repository() {
    let mut found = Vec::new();
    for file in tracked_files().iter().filter(|file| *file != THIS_FILE) {
        // Files that are not UTF-8 are not text. A file may be deleted in the work tree, and still be tracked.
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        let lines = text.lines().enumerate().filter(|(_, line)| cites_elsewhere(line));
        found.extend(lines.map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim())));
    }
    assert!(
        found.is_empty(),
        "{} lines cite what is not in the repository:\n{}",
        found.len(),
        found.join("\n")
    );
}

fn cites_elsewhere(line: &str) -> bool {
    ELSEWHERE.iter().any(|name| line.contains(name)) || cites_behaviour(line)
}

/// Returns whether the line cites a section of notes that are not in the repository, such as "behaviour B.4" or "behaviour
/// S30": the word, and then a capital letter that does not begin a word.
fn cites_behaviour(line: &str) -> bool {
    line.match_indices("ehaviour ").any(|(at, word)| {
        let mut rest = line[at + word.len()..].chars();
        let capital = rest.next().is_some_and(|first| first.is_ascii_uppercase());
        capital && rest.next().is_none_or(|second| !second.is_alphabetic())
    })
}

#[test]
fn citations_are_recognised() {
    for line in [
        "(behaviour B.4)",
        "as behaviour S30 says",
        "// Behaviour G, and",
        "behaviour L",
        "house.md section 4",
    ] {
        assert!(cites_elsewhere(line), "{line}");
    }
    for line in ["RabbitMQ's behaviour", "the behaviour RabbitMQ has", "(docs/compatibility.md, Publishing)"]
    {
        assert!(!cites_elsewhere(line), "{line}");
    }
}

fn tracked_files() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    names.split_terminator('\0').map(str::to_owned).collect()
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(Path::new(file))).map_err(|error| format!("{file}: {error}"))
}
