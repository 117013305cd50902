//! Reads any text as definitions. Shared by the fuzz target and the test that replays the corpus.

use admin::{Definitions, Reading};

/// Every problem is on a line of the text, and definitions that can be read can be read into a virtual host too.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = 1 + text.matches('\n').count();
    let read = |vhost| Definitions::parse(text, Reading { vhost, ..Reading::default() });
    match read(None) {
        Ok(_) => drop(read(Some("shop")).unwrap()),
        Err(problems) => {
            let shown = problems.to_string();
            let named = shown.strip_prefix("line ").and_then(|rest| rest.split_once(':'));
            let line: usize = named.and_then(|(line, _)| line.parse().ok()).expect("a line");
            assert!((1..=lines).contains(&line), "{shown}");
        }
    }
}
