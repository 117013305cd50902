//! Mounts a disk whose syncs are slow, until it gets SIGTERM.
//!
//! It needs root, or a user namespace: `unshare -rm sh -c 'false-disk --mount DIR & ...'`. When the disk can be used, it prints one line.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use false_disk::{Mounted, Options, Stalls};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: false-disk --mount DIR [--sync-ms MS] [--stall-ms MS --every-ms MS] [--no-direct] [--forgets]

  --mount DIR     the directory at which the disk is mounted
  --sync-ms MS    each sync takes so long; fractions are possible (0)
  --stall-ms MS   from time to time no sync proceeds for so long
  --every-ms MS   the time between the starts of two stalls
  --no-direct     opens with O_DIRECT fail
  --forgets       looking up DIR/.cut-SEED loses a random part of what was not synced; there is no page cache for writes";

/// How often it is tried whether somebody else has unmounted the disk.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match parse(&words).and_then(|(directory, options)| run(directory, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "false-disk: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> Result<(PathBuf, Options), Box<dyn Error>> {
    let (mut directory, mut options) = (None, Options::default());
    let (mut stall, mut every) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
        match word.as_str() {
            "--mount" => directory = Some(PathBuf::from(value()?)),
            "--sync-ms" => options.sync_time.each = milliseconds(value()?)?,
            "--stall-ms" => stall = Some(milliseconds(value()?)?),
            "--every-ms" => every = Some(milliseconds(value()?)?),
            "--no-direct" => options.refuses_direct = true,
            "--forgets" => options.forgets = true,
            _ => return Err(format!("what is {word}?\n{USAGE}").into()),
        }
    }
    options.sync_time.stalls = match (stall, every) {
        (None, None) => None,
        (Some(length), Some(period)) => {
            Some(Stalls::new(length, period).ok_or("--stall-ms must be less than --every-ms")?)
        }
        _ => return Err("--stall-ms and --every-ms need each other".into()),
    };
    Ok((directory.ok_or(USAGE)?, options))
}

fn milliseconds(text: &str) -> Result<Duration, Box<dyn Error>> {
    let duration = text.parse().ok().and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok());
    Ok(duration.ok_or_else(|| format!("'{text}' is no number of milliseconds"))?)
}

fn run(directory: PathBuf, options: Options) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let why = |error| format!("{} cannot be mounted: {error}", directory.display());
        let mounted = Mounted::new(&directory, options).map_err(why)?;
        writeln!(std::io::stdout(), "false-disk: {} is mounted", directory.display())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = tokio::time::sleep(CHECK_INTERVAL) => if mounted.is_over() { return Ok(()) },
            }
        }
        Ok(mounted.unmount()?)
    })
}
