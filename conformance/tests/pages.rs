//! Plays every page below `pages/`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages");
    let mut pages = Vec::new();
    find(&folder, &mut pages);
    pages.sort();
    // Arguments work as in libtest: words are filters, and options are ignored.
    let (filters, skips) = filters(std::env::args().skip(1));
    // The pages themselves can be checked with RabbitMQ.
    let against: Option<std::net::SocketAddr> =
        std::env::var("PAGES_AGAINST").ok().map(|at| at.parse().expect("PAGES_AGAINST=ip:port"));
    let mut out = std::io::stdout().lock();
    let (mut passed, mut failed) = (0, 0);
    for path in pages {
        let name = path.strip_prefix(&folder).unwrap_or(&path).with_extension("").display().to_string();
        let wanted = filters.is_empty() || filters.iter().any(|f| name.contains(f));
        if !wanted || skips.iter().any(|s| name.contains(s)) {
            continue;
        }
        let page = std::fs::read_to_string(&path).expect("a page can be read");
        let result = std::panic::catch_unwind(|| match against {
            Some(broker) => conformance::check_against(&page, broker),
            None => conformance::check(&page),
        });
        let line = match result {
            Ok(Ok(scenes)) => {
                passed += 1;
                format!("page {name} ... ok ({scenes} scenes)")
            }
            Ok(Err(failures)) => {
                failed += 1;
                let all = failures.iter().map(|f| format!("\n## {}\n{}", f.scene, f.transcript));
                format!("page {name} ... FAILED\n{}", all.collect::<String>())
            }
            Err(_) => {
                failed += 1;
                format!("page {name} ... FAILED: it panicked")
            }
        };
        writeln!(out, "{line}").expect("stdout is there");
    }
    writeln!(out, "pages: {passed} passed, {failed} failed").expect("stdout is there");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn find(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of pages can be read") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            find(&path, into);
        } else if path.extension().is_some_and(|e| e == "md")
            && path.file_stem().is_some_and(|s| s != "README")
        {
            into.push(path);
        }
    }
}

/// Parses the arguments as libtest does: names to run, and names after `--skip`.
fn filters(arguments: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let (mut run, mut skip) = (Vec::new(), Vec::new());
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" => skip.extend(arguments.next()),
            option if option.starts_with('-') => {}
            _ => run.push(argument),
        }
    }
    (run, skip)
}
