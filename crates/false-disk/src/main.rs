//! Mounts a disk whose syncs are slow, until it gets SIGTERM.
//!
//! It needs root, or a user namespace: `unshare -rm sh -c 'false-disk --mount DIR & ...'`. When the disk can be used, it prints one line.
//!
//! While an `fsync` is at a FUSE file system, Linux lets writes to the same file wait, as they would not on ext4. So the program can delay the
//! calls of `fsync` and `fdatasync` of certain commands before they begin (`--socket` and `--on`). Then it does not delay what syncs a file
//! without such a call: buffered writes with `O_DSYNC` or `RWF_DSYNC`, and `IOCB_CMD_FSYNC` and `IOCB_CMD_FDSYNC` of `io_submit`.
mod filter;

use std::error::Error;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use false_disk::{Mounted, Options, Stalls};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: false-disk --mount DIR [--sync-ms MS] [--stall-ms MS --every-ms MS] [--socket PATH] [--no-direct] [--forgets]
       false-disk --on PATH COMMAND [WORD]...

  --mount DIR     the directory at which the disk is mounted
  --sync-ms MS    each sync takes so long; fractions are possible (0)
  --stall-ms MS   from time to time no sync proceeds for so long
  --every-ms MS   the time between the starts of two stalls
  --no-direct     opens with O_DIRECT fail
  --forgets       looking up DIR/.cut-SEED loses a random part of what was not synced; there is no page cache for writes
  --socket PATH   fsync and fdatasync are slow only for commands that name this path; but writes to the same file do not wait for them
  --on PATH       runs a command with slow calls of fsync and fdatasync; it keeps the process id";

/// How often it is tried whether somebody else has unmounted the disk.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.as_slice() {
        [on, socket, command, words @ ..] if on == "--on" => {
            let run = filter::run_on(Path::new(socket), Command::new(command).args(words));
            run.map(|_| ()).map_err(|error| format!("'{command}' cannot run on '{socket}': {error}").into())
        }
        words => Arguments::parse(words).and_then(serve),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "false-disk: {error}"));
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    directory: PathBuf,
    options: Options,
    socket: Option<PathBuf>,
}

impl Arguments {
    fn parse(words: &[String]) -> Result<Self, Box<dyn Error>> {
        let (mut directory, mut socket, mut options) = (None, None, Options::default());
        let (mut stall, mut every) = (None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--mount" => directory = Some(PathBuf::from(value()?)),
                "--socket" => socket = Some(PathBuf::from(value()?)),
                "--sync-ms" => options.sync_time.each = milliseconds(value()?)?,
                "--stall-ms" => stall = Some(milliseconds(value()?)?),
                "--every-ms" => every = Some(milliseconds(value()?)?),
                "--no-direct" => options.refuses_direct = true,
                "--forgets" => options.forgets = true,
                _ => return Err(format!("unknown: {word}\n{USAGE}").into()),
            }
        }
        options.sync_time.stalls = match (stall, every) {
            (None, None) => None,
            (Some(length), Some(period)) => {
                Some(Stalls::new(length, period).ok_or("--stall-ms must be less than --every-ms")?)
            }
            _ => return Err("--stall-ms and --every-ms need each other".into()),
        };
        options.fsync_is_instant = socket.is_some();
        Ok(Self { directory: directory.ok_or(USAGE)?, options, socket })
    }
}

fn milliseconds(text: &str) -> Result<Duration, Box<dyn Error>> {
    let duration = text.parse().ok().and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok());
    Ok(duration.ok_or_else(|| format!("'{text}' is no number of milliseconds"))?)
}

fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { directory, options, socket } = arguments;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let started = Instant::now();
        if let Some(socket) = &socket {
            let why = |error| format!("cannot listen at {}: {error}", socket.display());
            filter::delay_all(UnixListener::bind(socket).map_err(why)?, options.sync_time, started);
        }
        let why = |error| format!("{} cannot be mounted: {error}", directory.display());
        let mounted = Mounted::new(&directory, options).map_err(why)?;
        if let (false, Err(error)) = (options.forgets, mounted.cache_freely()) {
            writeln!(
                std::io::stderr(),
                "false-disk: buffered writes may be slower than on a real disk: {error}"
            )?;
        }
        writeln!(std::io::stdout(), "false-disk: {} is mounted", directory.display())?;
        let is_told = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let is_over = async {
            while !mounted.is_over() {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        let is_told = tokio::select! {
            () = is_told => true,
            () = is_over => false,
        };
        if let Some(socket) = socket {
            std::fs::remove_file(socket)?;
        }
        if is_told { Ok(mounted.unmount()?) } else { Ok(()) }
    })
}
