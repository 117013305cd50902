//! `sluice doctor`: says what is in the data directory of a broker that does not run, and what a start would do. It changes
//! nothing.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use node::doctor::{Examined, Torn, UnclaimedData, examine};
use serde_json::{Value, json};
use wal::FileKind;

use crate::escape;
use crate::failure::Failure;
use crate::output::print;
use crate::table::{Column, table};

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The data directory; no broker may use it
    directory: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const FILES: &[Column] = &[("FILES", "kind"), ("FORMAT", "version"), ("COUNT", "files"), ("BYTES", "bytes")];
const QUEUES: &[Column] = &[("QUEUES", "type"), ("COUNT", "queues"), ("MESSAGES", "messages")];

/// Prints what is in the directory.
///
/// # Errors
/// A broker uses it, it cannot be read, its format is newer than this program, or something in it is damaged.
pub(crate) fn run(doctor: &Doctor) -> Result<(), Failure> {
    let directory = &doctor.directory;
    if !directory.join("lock").is_file() {
        return Err(Failure::usage(format!("{} is not the data directory of a broker", directory.display())));
    }
    let examined = examine(directory).map_err(|error| Failure::failed(error.to_string()))?;
    print(&if doctor.json { escape::json(&to_json(&examined)) } else { to_text(&examined) })?;
    match examined.is_sound() {
        true => Ok(()),
        false => Err(Failure::failed(format!("{} is damaged", directory.display()))),
    }
}

fn kind(folder: &str, kind: FileKind) -> String {
    let name = match kind {
        FileKind::Log => "log",
        FileKind::Pack => "packs of backlogs",
        FileKind::Segment => "segments of streams",
        FileKind::Other => "other files",
    };
    if folder.is_empty() || kind != FileKind::Other { name.to_owned() } else { format!("{name} in {folder}") }
}

fn files(examined: &Examined) -> Vec<Value> {
    let rows = examined.files.iter().map(|(folder, of, version, row)| {
        json!({ "kind": kind(folder, *of), "version": version, "files": row.files, "bytes": row.bytes })
    });
    rows.collect()
}

fn queues(examined: &Examined) -> Vec<Value> {
    let rows = examined.queues.iter().map(|(kind, (queues, messages))| {
        // The log has no messages of streams.
        let messages = Some(*messages).filter(|_| *kind != "stream");
        json!({ "type": kind, "queues": queues, "messages": messages })
    });
    rows.collect()
}

fn torn(Torn { file, offset, bytes }: &Torn) -> Value {
    json!({ "file": file, "offset": offset, "bytes": bytes })
}

fn unclaimed(UnclaimedData { owner, records, bytes }: &UnclaimedData) -> Value {
    json!({ "owner": format!("{owner:016x}"), "records": records, "bytes": bytes })
}

fn to_json(examined: &Examined) -> Value {
    json!({
        "node": examined.identity.as_ref().map(|identity| identity.node_hex()),
        "starts": examined.identity.as_ref().map(|identity| identity.boots),
        "files": files(examined),
        "queues": queues(examined),
        "clean": examined.clean,
        "torn": examined.torn.iter().map(torn).collect::<Vec<_>>(),
        "damage": examined.damage.told,
        "damage_more": examined.damage.more,
        "closed": examined.closed,
        "unclaimed": examined.unclaimed.iter().map(unclaimed).collect::<Vec<_>>(),
        "definitions_lost": examined.lost.as_ref().map(ToString::to_string),
        "log_raised_from": examined.raised_from(),
    })
}

fn to_text(examined: &Examined) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |words: &str| _ = writeln!(text, "{words}");
    if let Some(identity) = &examined.identity {
        let times = match identity.boots {
            1 => "once".to_owned(),
            boots => format!("{boots} times"),
        };
        line(&format!("node {}, started {times}", identity.node_hex()));
    }
    line(table(FILES, &files(examined)).trim_end());
    if !examined.queues.is_empty() {
        line(table(QUEUES, &queues(examined)).trim_end());
    }
    line(match examined.clean {
        true => "the broker was stopped: a start has nothing to repair",
        false => "the broker was not stopped, it failed or was killed: a start recovers from the log",
    });
    for Torn { file, offset, bytes } in &examined.torn {
        line(&format!(
            "a start drops {bytes} bytes of an interrupted write: {file}, from offset {offset} on"
        ));
    }
    match examined.raised_from() {
        Some(version) => line(&format!(
            "a start writes log files of format {}: programs that know only format {version} refuse the directory from then on",
            wal::LOG_VERSION
        )),
        None => line("this program writes the same formats: a start changes nothing for other programs"),
    }
    examined.damage.told.iter().for_each(|damage| line(&format!("DAMAGED: {damage}")));
    if examined.damage.more > 0 {
        line(&format!("DAMAGED: {} more places", examined.damage.more));
    }
    examined
        .closed
        .iter()
        .for_each(|queue| line(&format!("CLOSED: queue {queue}, because messages may be lost")));
    for UnclaimedData { owner, records, bytes } in &examined.unclaimed {
        line(&format!(
            "UNCLAIMED: owner {owner:016x}, {records} records, {bytes} bytes: a start keeps them, but does not know the queue"
        ));
    }
    if let Some(lost) = &examined.lost {
        line(&format!("REFUSED: {lost}"));
    }
    text
}
