//! `sluice export report`: everything that support needs to know of a broker, as one text for people. It is made of the answers of the
//! management API, so whoever makes it sees in it what the user may see. It has no messages and no secrets.

mod lists;

use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use hyper::Method;
use node::shard::{LATE_SHARD, LATE_TURN};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use self::lists::{LISTS, List, cut_table};
use crate::amqp::block_on;
use crate::escape;
use crate::failure::Failure;
use crate::http::Api;
use crate::objects::{EFFECTIVE, segment};
use crate::output::print;
use crate::private_file::write_private;
use crate::table::{Column, fields, rows_of};
use crate::{explain, status};

/// The most rows of a list. They show what kinds of objects there are, and a request for more pages would load a busy broker. The
/// report says how many rows are left out.
const ROWS_MAX: usize = 200;

/// The most characters of a cell of a table. Names and arguments of clients may have many kilobytes, and the column gets as wide.
const CELL_CHARS_MAX: usize = 120;

/// The most bytes of a section. There are about forty sections, so a report is smaller than 20 MiB, which most mail servers take.
/// The report says how many bytes are left out.
const SECTION_BYTES_MAX: usize = 512 * 1024;

/// The most queues that are explained. Each takes a tenth of a second, because the broker looks at it twice.
const EXPLAINED_MAX: usize = 10;

/// The bytes of the end of the log that are shown: a few thousand lines.
const LOG_BYTES_MAX: u64 = 256 * 1024;

/// The most lines about late turns. They are enough to see whether turns are late again and again.
const LATE_LINES_MAX: usize = 20;

/// The time for all answers of the broker together. There are about fifty requests, and a broker in trouble may let each of them wait for
/// twenty seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What reading the report fails to do, in messages.
const WORDS: &str = "make the report";

/// The health checks that need no arguments, and the expiration of certificates within the time of most renewals.
const CHECKS: [&str; 6] = [
    "ready-to-serve-clients",
    "alarms",
    "local-alarms",
    "below-node-connection-limit",
    "quorum-queues-without-elected-leaders/all-vhosts",
    "certificate-expiration/2/weeks",
];

#[derive(Args, Debug)]
pub(crate) struct ExportReport {
    /// The file to write; only its owner can read it (default: standard output)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add the end of this file of the broker's log
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    api: Api,
}

/// Writes the report.
///
/// # Errors
/// The broker does not answer, or refuses the user; or the error of a file. What a user may not see is said in the report.
pub(crate) fn run(export: &ExportReport) -> Result<(), Failure> {
    block_on(async {
        let text = Making { export, until: Instant::now() + PATIENCE }.make().await?;
        match &export.output {
            Some(file) => {
                write_private(file, &escape::lines(&text))?;
                print(&format!("the report is in {}\n", file.display()))
            }
            None => print(&text),
        }
    })
}

/// A report that is being made.
struct Making<'a> {
    export: &'a ExportReport,
    /// The end of [`PATIENCE`].
    until: Instant,
}

impl Making<'_> {
    async fn make(&self) -> Result<String, Failure> {
        let overview = self.get("/api/overview?disable_stats=true&enable_queue_totals=true").await?;
        let mut report = Report::new(&overview);
        let nodes = self.get("/api/nodes?disable_stats=true").await;
        report.add("Node", nodes.map(|nodes| rows_of(&nodes).iter().map(node).collect()));
        report.add("Listeners", Ok(cut_table(LISTENERS, rows_of(&overview["listeners"]))));
        let memory = format!("/api/nodes/{}/memory", segment(overview["node"].as_str().unwrap_or_default()));
        let memory = self.get(&memory).await;
        report.add("Memory by budget, in bytes", memory.map(|memory| fields(&memory["budgets"])));
        let settings = self.get(EFFECTIVE).await;
        report.add(
            "Settings in force",
            settings.map(|settings| cut_table(SETTINGS, rows_of(&settings["config"]))),
        );
        report.add("Health checks", Ok(self.checks().await));
        report.add("Why do the longest queues not move", self.explained().await);
        for list in LISTS {
            report.add(list.title, self.list(list).await);
        }
        let metrics = self.in_time(self.export.api.metrics(WORDS, &overview["listeners"])).await;
        let log = self.log();
        report.add("Late turns", metrics.as_deref().map_err(Clone::clone).map(|metrics| late(metrics, &log)));
        report.add("Log", log);
        report.add("Metrics", metrics);
        Ok(report.text)
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.in_time(self.export.api.ask(WORDS, Method::GET, path, None)).await.map(|(_, answer)| answer)
    }

    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        timeout_at(self.until, asked).await.unwrap_or_else(|_| {
            Err(Failure::failed(format!(
                "the broker has not answered all requests within {} s",
                PATIENCE.as_secs()
            )))
        })
    }

    /// Asks for the first rows of a list, and renders them as a table.
    async fn list(&self, list: &List) -> Result<String, Failure> {
        let separator = if list.path.contains('?') { '&' } else { '?' };
        let page = self.get(&format!("{}{separator}page=1&page_size={ROWS_MAX}", list.path)).await?;
        let rows = rows_of(&page["items"]);
        let mut text = list.table(rows);
        let left_out = page["filtered_count"].as_u64().unwrap_or_default().saturating_sub(rows.len() as u64);
        if left_out > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "... and {left_out} more");
        }
        Ok(text)
    }

    async fn checks(&self) -> String {
        let mut text = String::new();
        for check in CHECKS {
            let said = match self.get(&format!("/api/health/checks/{check}")).await {
                Ok(answer) => answer["status"].as_str().unwrap_or("ok").to_owned(),
                Err(failure) => failure.to_string(),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{check:<50}  {said}");
        }
        text
    }

    /// Explains the queues with most messages.
    async fn explained(&self) -> Result<String, Failure> {
        let longest = format!(
            "/api/queues?page=1&page_size={EXPLAINED_MAX}&sort=messages&sort_reverse=true&columns=vhost,name,messages"
        );
        let page = self.get(&longest).await?;
        let mut text = String::new();
        for queue in rows_of(&page["items"]).iter().filter(|queue| queue["messages"].as_u64() > Some(0)) {
            let (vhost, name) = (queue["vhost"].as_str(), queue["name"].as_str());
            let (vhost, name) = (vhost.unwrap_or_default(), name.unwrap_or_default());
            let path = format!("/api/explain/queues/{}/{}", segment(vhost), segment(name));
            let said = match self.get(&path).await {
                Ok(answer) => explain::shown(&answer),
                Err(failure) => format!("{failure}\n"),
            };
            let (vhost, name) = (escape::line(vhost), escape::line(name));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "queue '{}' in vhost '{}': {said}", cut(&name), cut(&vhost));
        }
        if text.is_empty() {
            text.push_str("no queue has messages\n");
        }
        Ok(text)
    }

    /// Returns the end of the file of the log.
    fn log(&self) -> Result<String, Failure> {
        let Some(file) = &self.export.log else {
            return Ok("--log FILE adds the end of the broker's log: the settings log.file and log.dir say where it is\n"
                .to_owned());
        };
        let text = end_of(file).map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
        let text: String = text.lines().map(|line| format!("{}\n", escape::line(line))).collect();
        // Escaped, it may be longer than a section. The newest lines count.
        let skipped = text.len().saturating_sub(SECTION_BYTES_MAX);
        Ok(text[text.ceil_char_boundary(skipped)..].to_owned())
    }
}

/// Returns the number of late turns (docs/operations/size.md, Late turns), and the last lines of the log about them. A line in which a name of
/// a client looks like one of them is not shown.
fn late(metrics: &str, log: &Result<String, Failure>) -> String {
    let log = log.as_deref().unwrap_or_default();
    let counts = metrics.lines().filter(|line| line.starts_with("sluice_late_turns_total"));
    let lines: Vec<&str> = log.lines().filter(|line| is_late(line)).collect();
    let last = &lines[lines.len().saturating_sub(LATE_LINES_MAX)..];
    counts.chain(last.iter().copied()).map(|line| format!("{line}\n")).collect()
}

/// Returns true if a line of the log, plain or in JSON, is about a late turn. Its message begins with the words of the broker. Names of
/// clients come later.
fn is_late(line: &str) -> bool {
    let begins = |message: &str| [LATE_TURN, LATE_SHARD].iter().any(|words| message.starts_with(words));
    match serde_json::from_str::<Value>(line) {
        Ok(fields) => fields["message"].as_str().is_some_and(begins),
        // Before it are the time, the level and the category.
        Err(_) => line.split_once(": ").is_some_and(|(_, message)| begins(message)),
    }
}

/// Reads the end of a file, from the beginning of a line.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(LOG_BYTES_MAX);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, whole)) if skipped > 0 => format!("({skipped} bytes before are left out)\n{whole}"),
        _ => text.into_owned(),
    })
}

const LISTENERS: &[Column] = &[("PROTOCOL", "protocol"), ("ADDRESS", "ip_address"), ("PORT", "port")];

const SETTINGS: &[Column] = &[("KEY", "key"), ("VALUE", "value"), ("FROM", "from")];

/// Renders a node: what `sluice status` shows, and then the other fields.
fn node(node: &Value) -> String {
    let mut others = node.clone();
    if let Some(others) = others.as_object_mut() {
        // They are shown already, or stand for parts of RabbitMQ.
        for shown in ["budgets", "applications", "enabled_plugins", "contexts"] {
            others.remove(shown);
        }
    }
    format!("{}\n{}", status::show(node, None), fields(&others))
}

/// Cuts text that is too long for a cell.
fn cut(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text of a report under construction.
struct Report {
    text: String,
}

impl Report {
    fn new(overview: &Value) -> Self {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let text = format!(
            "Report of a Sluice broker\n\
             made at {}, by sluice {}\n\
             It has names of users, hosts and queues. It has no messages, passwords, hashes, tokens, or values of parameters.\n",
            admin::utc(now_ms),
            crate::LONG_VERSION.replace('\n', ", "),
        );
        let mut report = Self { text };
        let mut shown = overview.clone();
        if let Some(shown) = shown.as_object_mut() {
            for own_section in ["listeners", "contexts", "exchange_types", "sample_retention_policies"] {
                shown.remove(own_section);
            }
        }
        report.add("Overview", Ok(fields(&shown)));
        report
    }

    /// Adds a section, or why there is none.
    fn add(&mut self, title: &str, section: Result<String, Failure>) {
        let text = section.unwrap_or_else(|failure| format!("not shown: {failure}\n"));
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "\n## {title}\n");
        let end = text.floor_char_boundary(SECTION_BYTES_MAX);
        self.text.push_str(&text[..end]);
        if end < text.len() {
            let _ = writeln!(self.text, "\n... and {} bytes more", text.len() - end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_turns_are_their_count_and_their_last_lines() {
        let metrics = "# HELP sluice_late_turns_total Turns\nsluice_late_turns_total 30\nsluice_other 1\n";
        let plain = "2026-11-29T06:00:32.126339Z  WARN peer: ";
        let lines = (0..30).map(|number| {
            let line = format!("a turn took 200 ms; late_ms={number}");
            match number % 2 {
                0 => format!("{plain}{line}\nanother line\n"),
                _ => format!("{}\n", serde_json::json!({ "message": line, "late_ms": number })),
            }
        });
        let shown = late(metrics, &Ok(lines.collect()));
        let shown: Vec<&str> = shown.lines().collect();
        assert_eq!((shown.len(), shown[0]), (1 + LATE_LINES_MAX, "sluice_late_turns_total 30"));
        assert!(
            shown[1].ends_with("late_ms=10") && shown[LATE_LINES_MAX].contains("\"late_ms\":29"),
            "{shown:?}"
        );
        assert_eq!(late(metrics, &Err(Failure::failed("no file"))), "sluice_late_turns_total 30\n");
    }

    /// A client chooses its names, and the log has them in its lines, escaped.
    #[test]
    fn no_name_of_a_client_is_taken_for_a_late_turn() {
        let time = "2026-11-29T06:00:32.126339Z  WARN";
        let name = format!("a\n{time} peer: a turn took 9000 ms; late_ms=9000");
        let plain =
            escape::line(&format!("{time} connection: connection gone connection={name:?} late_ms=1"))
                .into_owned();
        let json = serde_json::json!({ "message": "connection gone", "connection": name }).to_string();
        let in_message = escape::line(&format!("{time} peer: queue '{name}' is full")).into_owned();
        let log = format!("{plain}\n{json}\n{in_message}\n");
        assert_eq!(late("", &Ok(log)), "");
    }
}
