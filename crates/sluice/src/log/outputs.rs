//! The places that the log goes to: standard error, a file, and an exchange.

use std::io::{self, IsTerminal as _, Stderr, Write};
use std::path::Path;
use std::sync::Arc;

use catalog::categories;
use rustix::fs::fstat;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Format as FormatLine, Json, JsonFields};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::{Registry, fmt};
use wal::files::{self, LOGS_DIR, Sharing};

use super::Limiter;
use super::exchange::{LogExchange, may_be_published};
use super::file::LogFile;
use super::lines::{Escaped, Fields, Terminal};
use crate::config::{Format, LogOptions, Output};

/// Opens the file of the log, if there is one. Its directory is by default below `data_dir`.
///
/// # Errors
/// What cannot be opened, and why.
pub(super) fn open_file(
    options: &LogOptions,
    data_dir: &Path,
    sharing: Sharing,
) -> Result<Option<Arc<LogFile>>, String> {
    let file = &options.file;
    let Some(name) = &file.name else { return Ok(None) };
    let logs = data_dir.join(LOGS_DIR);
    let path = file.directory.as_ref().unwrap_or(&logs).join(name);
    // The log comes first. What it needs of the data directory belongs to the owner from the beginning.
    let own = if path.starts_with(&logs) { vec![data_dir, logs.as_path()] } else { Vec::new() };
    let made = own.into_iter().try_for_each(|path| files::create_directory(path, sharing.directory()));
    let opened = made.and_then(|()| LogFile::open(path.clone(), file.rotation, sharing));
    opened.map(|file| Some(Arc::new(file))).map_err(|error| format!("log.file: {}: {error}", path.display()))
}

/// The levels of the outputs, which can change while the broker runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    console: Option<Handle<Targets, Registry>>,
    file: Option<Handle<Targets, Registry>>,
    exchange: Option<Handle<Targets, Registry>>,
}

impl Levels {
    /// Sets the levels.
    pub(crate) fn set(&self, options: &LogOptions) {
        for (handle, output) in [
            (&self.console, &options.console),
            (&self.file, &options.file.output),
            (&self.exchange, &options.exchange),
        ] {
            let set = handle.as_ref().map(|handle| handle.reload(filter(options, output)));
            if let Some(Err(error)) = set {
                tracing::error!("the level of the log cannot be changed: {error}");
            }
        }
    }
}

type Layers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

/// Returns the layers that write the lines, and their levels.
pub(super) fn layers(
    options: &LogOptions,
    file: Option<Arc<LogFile>>,
    exchange: &LogExchange,
    limiter: &Limiter,
) -> (Layers, Levels) {
    let (mut layers, mut levels): (Layers, _) = (Vec::new(), Levels::default());
    if options.has_console {
        let (of_console, handle) = reload::Layer::new(filter(options, &options.console));
        levels.console = Some(handle);
        let of_console = of_console.and(limiter.of(0));
        layers.push(match options.console.format {
            // The journal has the time and the level of a line in fields of its own.
            Format::Plain if writes_to_journal() => {
                plain(Journal).without_time().with_level(false).with_filter(of_console).boxed()
            }
            Format::Plain if io::stderr().is_terminal() => plain(Terminal).with_filter(of_console).boxed(),
            Format::Plain => plain(io::stderr).with_filter(of_console).boxed(),
            Format::Json => json(io::stderr).with_filter(of_console).boxed(),
        });
    }
    if let Some(file) = file {
        let (of_file, handle) = reload::Layer::new(filter(options, &options.file.output));
        levels.file = Some(handle);
        let of_file = of_file.and(limiter.of(1));
        layers.push(match options.file.output.format {
            Format::Plain => plain(file).with_filter(of_file).boxed(),
            Format::Json => json(file).with_filter(of_file).boxed(),
        });
    }
    if options.has_exchange {
        let (of_exchange, handle) = reload::Layer::new(filter(options, &options.exchange));
        levels.exchange = Some(handle);
        let of_exchange = of_exchange.and(filter_fn(may_be_published)).and(limiter.of(2));
        let exchange = exchange.clone();
        layers.push(match options.exchange.format {
            Format::Plain => plain(exchange).with_filter(of_exchange).boxed(),
            Format::Json => json(exchange).with_filter(of_exchange).boxed(),
        });
    }
    (layers, levels)
}

/// A layer that writes lines as text.
type Plain<S, W> = fmt::Layer<S, Fields, FormatLine, Escaped<W>>;

/// A layer that writes lines as JSON.
type InJson<S, W> = fmt::Layer<S, JsonFields, FormatLine<Json>, Escaped<W>>;

fn plain<S, W>(writer: W) -> Plain<S, W>
where
    W: for<'w> MakeWriter<'w> + 'static,
{
    lines(Format::Plain, writer)
}

fn json<S, W>(writer: W) -> InJson<S, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    lines(Format::Json, writer).json().flatten_event(true)
}

fn lines<S, W>(format: Format, to: W) -> Plain<S, W>
where
    W: for<'w> MakeWriter<'w> + 'static,
{
    // The formatter escapes some characters of some fields. The writer escapes all of them, so each is escaped once.
    let layer = fmt::layer()
        .fmt_fields(Fields)
        .with_writer(Escaped { format, to })
        .with_ansi(false)
        .with_ansi_sanitization(false);
    // An error would be logged to the stream that has just failed, which would panic. So the broker continues without its log.
    layer.log_internal_errors(false)
}

/// Returns which lines go to this place.
pub(super) fn filter(options: &LogOptions, output: &Output) -> Targets {
    let parsed =
        |level: &str| level.parse::<LevelFilter>().expect("the configuration has only levels of tracing");
    let level = output.level.unwrap_or(options.level);
    let own = |category| *options.category_levels.get(category).unwrap_or(&level);
    let categories = categories::ALL.into_iter().map(|category| (category, parsed(own(category))));
    Targets::new().with_default(parsed(options.default_level.unwrap_or(level))).with_targets(categories)
}

/// Returns true if standard error is a stream of systemd's journal, as the variable `JOURNAL_STREAM` says: it has the device
/// and the inode of the stream.
fn writes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Writes lines for systemd's journal: each begins with its priority in angle brackets, as syslog numbers them.
struct Journal;

impl<'a> MakeWriter<'a> for Journal {
    type Writer = Prioritized;

    fn make_writer(&'a self) -> Prioritized {
        Prioritized { priority: "<6>", stderr: io::stderr() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Prioritized {
        Prioritized { priority: priority(*metadata.level()), ..self.make_writer() }
    }
}

/// Returns the priority of a level: error, warning, informational or debug.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

struct Prioritized {
    priority: &'static str,
    stderr: Stderr,
}

impl Write for Prioritized {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut whole = Vec::with_capacity(self.priority.len() + line.len());
        whole.extend_from_slice(self.priority.as_bytes());
        whole.extend_from_slice(line);
        self.stderr.lock().write_all(&whole)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stderr.flush()
    }
}
